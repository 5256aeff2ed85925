-- Jobs in a state go, never leased ones; at most so many rows.
-- params: queue text, state text, at_most bigint
-- returns: deleted bigint
SELECT pgwork.queue_purge($1, $2, $3)
