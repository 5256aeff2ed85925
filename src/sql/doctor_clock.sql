-- What time is it there?
-- params: none
-- returns: now timestamptz
SELECT clock_timestamp()
