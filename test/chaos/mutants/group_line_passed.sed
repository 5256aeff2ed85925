# with limit 1 a job that somebody is just cancelling is passed
# function: _hand_on
# roles: worker sql reaper group keeper slow
# faults: -
# pace: 4
# seconds: 60
s/ = 1 AS strict/ = 0 AS strict/
