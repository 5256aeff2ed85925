# the burst of a rate is not capped: a pause gives more
# function: _rate_advance
# roles: taker
# faults: -
# pace: 150
s/greatest(now_ns, least(coalesce(was, now_ns + span_ns), now_ns + span_ns))/least(coalesce(was, now_ns + span_ns), now_ns + span_ns)/
