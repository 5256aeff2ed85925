-- Stops enqueues until resumed.
-- params: queue text
-- returns: queue_drain void
SELECT pgwork.queue_drain($1)
