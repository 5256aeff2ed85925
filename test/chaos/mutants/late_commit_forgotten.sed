# nobody looks back when a slow transaction is over
# function: _tick
# roles: producer late worker reaper
# faults: -
s/WHERE s.x <> ALL (t.slow);/WHERE false;/
