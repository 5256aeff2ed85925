# a group that is held goes on
# function: _open_gates
# roles: worker sql reaper group keeper slow
# faults: -
# pace: 4
# seconds: 60
s/r.held_until IS NOT NULL OR/false OR/
