# a merge loses its last job
# function: _merge
# roles: producer worker sql reaper
# faults: -
s/g.ids, g.kinds/g.ids[:cardinality(g.ids) - 1], g.kinds/
