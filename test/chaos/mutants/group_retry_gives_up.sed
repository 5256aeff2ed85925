# with hold a retry gives up its place
# function: _leave_unfinished
# roles: worker sql reaper group keeper
# faults: -
# pace: 4
s/WHERE s.policy = 'pass' OR/WHERE s.policy <> 'block' OR/
