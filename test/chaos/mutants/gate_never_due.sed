# nobody looks at a gate when its rate lets the next job pass
# function: _lock_due
# roles: worker sql reaper rated
# faults: -
# pace: 150
s/AND p.at > since/AND false AND p.at > since/
