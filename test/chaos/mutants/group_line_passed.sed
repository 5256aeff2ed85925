# with limit 1 a job that somebody is just cancelling is passed
# function: _hand_on
# roles: worker sql reaper group keeper slow
# faults: -
# pace: 4
# seconds: 60
s/OR d.place = (SELECT h.place/OR true OR d.place = (SELECT h.place/
