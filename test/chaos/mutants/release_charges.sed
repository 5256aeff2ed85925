# release and snooze count as an attempt
# function: _requeue
# roles: producer late worker sql reaper
# faults: -
s/THEN 1 ELSE 0 END;/THEN 0 ELSE 0 END;/
