-- Stops claims until resumed.
-- params: queue text
-- returns: queue_pause void
SELECT pgwork.queue_pause($1)
