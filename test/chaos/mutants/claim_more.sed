# a claim takes one job more than asked for
# function: claim_batch
# roles: producer late worker sql reaper
# faults: -
s/LIMIT CASE WHEN alone THEN 1 ELSE wanted \/ size END/LIMIT 2 + wanted \/ size/
s/ORDER BY j.pos LIMIT wanted \/ size FOR UPDATE/ORDER BY j.pos LIMIT 2 + wanted \/ size FOR UPDATE/
