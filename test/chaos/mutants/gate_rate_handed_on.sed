# a finished job hands its place on, past the rate
# function: _hand_on
# roles: worker sql reaper rated
# faults: -
# pace: 150
s/END).n > 0 IS NOT TRUE/END).n > 1000000 IS NOT TRUE/
