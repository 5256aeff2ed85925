# a dead letter is not stored
# function: _requeue
# roles: producer late worker sql reaper
# faults: -
s/FROM t WHERE t.fate = 'dead' ON CONFLICT/FROM t WHERE t.fate = 'dead' AND t.id % 2 = 0 ON CONFLICT/
