-- Stops the ticks of a schedule.
-- params: name text
-- returns: void
SELECT pgwork.cron_pause($1)
