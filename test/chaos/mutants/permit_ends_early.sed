# a permit ends when half of its time is over
# function: _permits_take
# roles: sema reaper
# faults: -
s/ends := clock_timestamp() + ttl_ms/ends := clock_timestamp() + ttl_ms \/ 2/
