-- Deletes dead letters by ids, by kind, or all: up to a limit, and none that is newer than the start.
-- params: queue text, ids bigint[], kind text, older_than_ms bigint, at_most bigint, since_ms bigint
-- returns: deleted bigint
SELECT pgwork.dead_purge($1, $4 + $6, $5, $2, $3)
