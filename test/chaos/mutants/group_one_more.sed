# one job more than the limit is admitted
# function: _open_gates
# roles: worker sql reaper group keeper
# faults: -
# pace: 4
s/greatest(0, g.most - (SELECT/greatest(0, 1 + g.most - (SELECT/
