-- Dead letters go.
-- params: queue text, older_than_ms bigint
-- returns: deleted bigint
SELECT pgwork.dead_purge($1, $2)
