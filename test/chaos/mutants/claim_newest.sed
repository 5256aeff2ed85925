# a claim takes the newest jobs first
# function: claim_batch
# roles: producer worker sql reaper
# faults: -
s/ORDER BY j.pos LIMIT wanted/ORDER BY j.pos DESC LIMIT wanted/
