# the burst of a gate is not capped: a pause gives more
# function: _rates_now
# roles: worker sql reaper rated
# faults: -
# pace: 150
s/greatest(now_ns, least(coalesce((p.was).tat, 0), now_ns + t.step \* g.burst))/least(coalesce((p.was).tat, 0), now_ns + t.step * g.burst)/
