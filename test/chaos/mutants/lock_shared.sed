# an exclusive lock is taken as a shared one
# function: _lock_take lock_release
# roles: lock reaper
# faults: -
s/_advisory_try(k, shared, false)/_advisory_try(k, true, false)/
s/_advisory_wait(k, shared, xact/_advisory_wait(k, true, xact/
s/CASE WHEN shared THEN/CASE WHEN true THEN/
