# the newest job of a group is admitted first
# function: _open_gates
# roles: worker sql reaper group keeper
# faults: -
# pace: 4
s/AND d.place > r.start ORDER BY d.place$/AND d.place > r.start ORDER BY d.place DESC/
