# gates are opened without their locks
# function: _lock_gates
# roles: worker sql reaper group keeper
# faults: -
# pace: 4
s/ AND pg_try_advisory_xact_lock(k)//
