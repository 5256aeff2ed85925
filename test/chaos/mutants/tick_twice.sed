# two schedulers decide the same slot
# function: _cron_decide _cron_tick
# roles: node worker reaper
# faults: -
s/RETURN FOUND;/RETURN true;/
s/ORDER BY t.next_at LIMIT batch FOR UPDATE SKIP LOCKED/ORDER BY t.next_at LIMIT batch/
