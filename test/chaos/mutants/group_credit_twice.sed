# a job that leaves counts as two
# function: _leave
# roles: worker sql reaper group keeper
# faults: -
# pace: 4
s/ELSE count(\*) END/ELSE 2 * count(*) END/
