# groups go by the rate of their queue
# function: _rates_now
# roles: worker sql reaper rated
# faults: -
# pace: 150
s/THEN q.rate ELSE coalesce(r.rate, q.group_rate) END).\*/THEN q.rate ELSE q.rate END).*/
