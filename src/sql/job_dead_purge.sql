-- Dead letters go; at most so many.
-- params: queue text, older_than_ms bigint, at_most bigint
-- returns: deleted bigint
SELECT pgwork.dead_purge($1, $2, $3)
