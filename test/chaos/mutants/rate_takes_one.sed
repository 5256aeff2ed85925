# a take of several counts as one
# function: _rate_advance
# roles: taker
# faults: -
# pace: 150
s/at := at + n \* r.step_ns/at := at + r.step_ns/
