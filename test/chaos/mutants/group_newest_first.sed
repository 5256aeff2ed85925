# the newest job of a group is admitted first
# function: _open_gates
# roles: worker sql reaper group keeper
# faults: -
# pace: 4
s/d.place > r.start ORDER BY d.place LIMIT/d.place > r.start ORDER BY d.place DESC LIMIT/
