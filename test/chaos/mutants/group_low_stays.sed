# where the search goes on is not lowered
# function: _open_gates
# roles: worker sql reaper group keeper
# faults: -
# pace: 4
s/AND a.low > r.start/AND false/
