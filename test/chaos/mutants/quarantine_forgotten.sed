# no claim looks for quarantined jobs
# function: claim_batch
# roles: producer worker reaper
# faults: kill_process stop_process
s/alone := size IS NULL;.*/EXIT WHEN size IS NULL;/
s/alone := hint\[3\] = 1 AND wanted = n AND random() < 0.25;/alone := false;/
