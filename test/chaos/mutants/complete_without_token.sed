# the fast path of complete() does not compare the token
# function: _complete
# roles: producer late worker sql reaper
# faults: -
# seconds: 30
s/ AND j.token = tokens\[1\]//
s/(j.lane, j.pos, j.token) = (t.lane, t.pos, t.token)/(j.lane, j.pos) = (t.lane, t.pos)/
