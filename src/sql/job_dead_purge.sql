-- Dead letters go: those of ids, or of kind, or all; at most so many, and none that came since.
-- params: queue text, ids bigint[], kind text, older_than_ms bigint, at_most bigint, since_ms bigint
-- returns: deleted bigint
SELECT pgwork.dead_purge($1, $4 + $6, $5, $2, $3)
