# unblocking takes the places of jobs at the gate of their queue
# function: group_unblock
# roles: worker sql reaper group keeper
# faults: -
# pace: 4
# seconds: 60
s/ AND d.gate IS NULL FOR UPDATE OF d SKIP LOCKED/ FOR UPDATE OF d SKIP LOCKED/
