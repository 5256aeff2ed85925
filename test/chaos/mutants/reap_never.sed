# the reaper takes no leases of batch rows
# function: _expired
# roles: producer worker reaper
# faults: kill_process
s/AND j.pos = p.pos AND j.token IS NOT NULL/AND j.pos = p.pos AND j.ids IS NULL AND j.token IS NOT NULL/
