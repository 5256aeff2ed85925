# the tick sees no writers
# function: _writers
# roles: producer late worker reaper
# faults: -
s/RETURN ARRAY(/RETURN ARRAY(SELECT NULL::xid WHERE false); RETURN ARRAY(/
