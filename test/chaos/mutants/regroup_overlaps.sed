# a cut row keeps a job twice
# function: _regroup
# roles: producer late worker sql reaper
# faults: -
s/ids\[g.low + 1:g.upto\]/ids[greatest(g.low, 1):g.upto]/
s/kinds\[g.low + 1:g.upto\]/kinds[greatest(g.low, 1):g.upto]/
s/payloads\[g.low + 1:g.upto\]/payloads[greatest(g.low, 1):g.upto]/
s/created\[g.low + 1:g.upto\]/created[greatest(g.low, 1):g.upto]/
