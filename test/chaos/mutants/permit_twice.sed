# a permit is given though it is out
# function: _permits_available
# roles: sema reaper
# faults: -
s/(p.nonce IS NULL OR p.until <= clock_timestamp() OR/(p.nonce IS NULL OR p.slot = 1 OR p.until <= clock_timestamp() OR/
