-- Returns the server's time.
-- params: none
-- returns: now timestamptz
SELECT clock_timestamp()
