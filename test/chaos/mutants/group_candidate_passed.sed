# a job that somebody is just cancelling is passed
# function: _open_gates
# roles: worker sql reaper group keeper slow
# faults: -
# pace: 4
# seconds: 60
s/bool_and(c.at = ANY (ARRAY(SELECT l.at FROM l))) OVER (PARTITION BY c.gate ORDER BY c.place) AS free/c.at = ANY (ARRAY(SELECT l.at FROM l)) AS free/
