# unblocking takes the places of jobs at the gate of their queue
# function: group_unblock
# roles: worker sql reaper group keeper
# faults: -
# pace: 4
# seconds: 60
s/ AND d.gate IS NULL OFFSET 0/ OFFSET 0/
