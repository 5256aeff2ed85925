-- Jobs in a state go, never leased ones; at most so many rows, and none that came since.
-- params: queue text, state text, at_most bigint, since_ms bigint
-- returns: deleted bigint
SELECT pgwork.queue_purge($1, $2, $3, $4)
