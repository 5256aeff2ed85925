# a claim takes leased jobs, too
# function: claim_batch
# roles: producer late worker sql reaper
# faults: -
s/ AND j.token IS NULL//
