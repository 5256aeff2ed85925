-- No more ticks.
-- params: name text
-- returns: void
SELECT pgwork.cron_pause($1)
