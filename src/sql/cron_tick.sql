-- Enqueues the jobs of all due ticks.
-- params: batch int
-- returns: fired bigint, next_ms bigint
SELECT fired, next_ms FROM pgwork.cron_tick($1)
