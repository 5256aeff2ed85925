# rows of a claim that is open are passed for good
# function: _tick_queue
# roles: producer sql worker reaper
# faults: -
s/AND j.xmax <> ALL (t.slow)/AND j.xmax = '0'/
