# a heavy job takes as much as a light one
# function: _open_gates
# roles: worker sql reaper rated
# faults: -
# pace: 150
s/THEN pgwork._weight(d.meta, r.burst) END AS weight/THEN 1::bigint END AS weight/
