# no claim looks for quarantined jobs
# function: claim_batch
# roles: producer worker reaper
# faults: kill_process
s/ARRAY\['quarantined', 'front'\]/ARRAY['front']/
s/, 'quarantined'\]/]/
