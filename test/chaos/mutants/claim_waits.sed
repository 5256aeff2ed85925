# SKIP LOCKED is left out of the claim
# function: claim_batch
# roles: producer worker sql reaper
# faults: -
s/FOR UPDATE SKIP LOCKED/FOR UPDATE/
s/(j.xmax = '0' OR/(true OR/
