# a redriven letter does not look at its gate
# function: _to_gates
# roles: worker sql reaper group keeper
# faults: -
# pace: 4
# seconds: 60
s/q.id, a.gate, -1 FROM a;/q.id, a.gate, -1 FROM a WHERE false;/
