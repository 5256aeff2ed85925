# a retry takes nothing from the rate of its group
# function: _to_gates
# roles: worker sql reaper rated
# faults: -
# pace: 150
# seconds: 40
s/IF q.rated THEN/IF false THEN/
