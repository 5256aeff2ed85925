# urgent jobs behind one with a place are forgotten
# function: _open_gates
# roles: worker sql reaper group keeper slow
# faults: -
# pace: 4
# seconds: 60
s/c.others GROUP BY/false GROUP BY/
