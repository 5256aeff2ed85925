# an acquisition keeps the number of the one before
# function: _lock_stamp
# roles: lock reaper
# faults: -
s/SET fence = excluded.fence,/SET fence = t.fence,/
