# a holder takes what lies where its job lay, whatever the token
# function: _take
# roles: producer late worker sql reaper
# faults: -
# pace: 50
s/(j.lane, j.pos, j.token) = (t.lane, t.pos, t.token)/(j.lane, j.pos) = (t.lane, t.pos)/
