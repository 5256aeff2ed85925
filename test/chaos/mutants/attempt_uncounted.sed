# a claim does not count the attempt
# function: claim_batch
# roles: producer late worker sql reaper
# faults: -
s/attempt = j.attempt + 1/attempt = greatest(j.attempt, 1)/
