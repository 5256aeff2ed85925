# a dead letter does not stop its group
# function: _open_gates
# roles: worker sql reaper group keeper
# faults: -
# pace: 4
s/a.gate = e.gate AND a.dead OFFSET 0/a.gate = e.gate AND false OFFSET 0/
