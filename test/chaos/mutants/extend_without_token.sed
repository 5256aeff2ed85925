# extend() does not compare the token
# function: extend
# roles: producer late worker sql reaper
# faults: -
s/(j.lane, j.pos, j.token) = (t.lane, t.pos, t.token)/(j.lane, j.pos) = (t.lane, t.pos)/
