# a unique key that is taken is given once more
# function: _take_key
# roles: producer worker reaper
# faults: -
s/IF taken.free_after <= pgwork._now() OR/IF true OR/
