-- Takes without waiting. 0: taken; else in how many ms that can be.
-- params: name text, n int
-- returns: wait_ms bigint
SELECT pgwork.rate_take($1, $2)
