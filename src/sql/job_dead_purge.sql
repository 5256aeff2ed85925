-- Dead letters go; at most so many, and none that came since.
-- params: queue text, older_than_ms bigint, at_most bigint, since_ms bigint
-- returns: deleted bigint
SELECT pgwork.dead_purge($1, $2 + $4, $3)
