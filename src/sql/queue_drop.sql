-- Drops the queue; with jobs only if forced.
-- params: queue text, force boolean
-- returns: queue_drop void
SELECT pgwork.queue_drop($1, $2)
