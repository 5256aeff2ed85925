-- Deletes jobs of a state, never leased ones: up to a limit of rows, and none that is newer than the start.
-- params: queue text, state text, at_most bigint, since_ms bigint
-- returns: deleted bigint
SELECT pgwork.queue_purge($1, $2, $3, $4)
