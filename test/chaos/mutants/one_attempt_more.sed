# a job may have one attempt more than its maximum
# function: _requeue
# roles: producer late worker sql reaper
# faults: -
# seconds: 30
s/BETWEEN 1 AND j.attempt THEN/BETWEEN 1 AND j.attempt - 1 THEN/
