# the reaper takes leases half a second early
# function: _expired
# roles: producer worker reaper
# faults: -
s/lease_until < now_is/lease_until < now_is + interval '500 ms'/g
