# with limit 1 a job that somebody is just cancelling is passed
# function: _hand_on
# roles: worker sql reaper group keeper slow
# faults: -
# pace: 4
# seconds: 60
s/WHEN 1 THEN 1 ELSE g.places + 10/WHEN 0 THEN 1 ELSE g.places + 10/
