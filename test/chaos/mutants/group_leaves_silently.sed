# jobs that leave a group leave no event
# function: _leave
# roles: worker sql reaper group keeper
# faults: -
# pace: 4
# seconds: 40
/INSERT INTO pgwork.gate_event/,/GROUP BY/s/FROM a GROUP BY/FROM a WHERE false GROUP BY/
