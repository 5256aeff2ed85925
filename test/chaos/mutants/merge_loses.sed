# a merge deletes more than it inserts
# function: _merge
# roles: producer worker sql reaper
# faults: -
s/cardinality(run.at) \/ size \* size\]/cardinality(run.at)]/
