# a letter that was redriven goes on stopping its group
# function: _to_gates
# roles: worker sql reaper group keeper
# faults: -
# pace: 4
# seconds: 40
s/SET dead = false FROM/SET dead = a.dead FROM/
