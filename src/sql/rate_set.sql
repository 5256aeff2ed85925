-- Makes a rate, or changes it.
-- params: name text, n int, per_ms bigint, burst int
-- returns: rate_set void
SELECT pgwork.rate_set($1, $2, $3, $4)
