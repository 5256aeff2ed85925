# a tick lets many jobs pass a rate, without somebody who claims them
# function: _take_up
# roles: worker sql reaper rated
# faults: -
# pace: 150
s/THEN 0 ELSE 1 END/THEN most ELSE most END/
