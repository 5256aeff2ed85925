# urgent jobs behind one with a place are forgotten
# function: _open_gates
# roles: worker sql reaper keeper line
# faults: -
# pace: 4
# seconds: 35
s/c.others GROUP BY/false GROUP BY/
