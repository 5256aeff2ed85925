-- The rate goes.
-- params: name text
-- returns: rate_drop void
SELECT pgwork.rate_drop($1)
