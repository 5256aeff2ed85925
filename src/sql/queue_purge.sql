-- Jobs in a state go, never leased ones.
-- params: queue text, state text
-- returns: deleted bigint
SELECT pgwork.queue_purge($1, $2)
