# one delayed job in three is never made ready
# function: _promote
# roles: producer worker reaper
# faults: -
s/WHERE NOT dead AND d.queue/WHERE NOT dead AND d.id % 3 > 0 AND d.queue/
