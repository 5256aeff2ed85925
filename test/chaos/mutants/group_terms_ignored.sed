# places that were freed under another limit count as before
# function: _open_gates
# roles: reaper group keeper slow
# faults: -
# pace: 10
# seconds: 60
s/e.credit > 0 AND e.terms = q.group_terms/e.credit > 0/
