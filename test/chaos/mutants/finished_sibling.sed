# who leaves a batch row is not noted
# function: _take
# roles: producer late worker sql reaper
# faults: -
s/gone_ids = j.gone_ids || r.mine/gone_ids = j.gone_ids/
