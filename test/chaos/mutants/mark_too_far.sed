# the mark goes up to what is issued now, not at the last tick
# function: _tick_queue
# roles: producer late worker reaper
# faults: -
/FUNCTION/!s/prev_issued/t.issued/g
