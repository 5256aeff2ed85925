# one tick in ten is planned and not enqueued
# function: _cron_fire
# roles: node worker reaper
# faults: -
s/IF pgwork._cron_decide(s, s.next_slot, at) THEN/IF extract(second FROM s.next_slot)::int % 10 <> 0 AND pgwork._cron_decide(s, s.next_slot, at) THEN/
