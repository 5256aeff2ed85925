# jobs that come to their gate leave no event
# function: _store_gated
# roles: worker sql reaper group keeper
# faults: -
# pace: 4
s/FROM w GROUP BY w.gate RETURNING gate/FROM w WHERE false GROUP BY w.gate RETURNING gate/
