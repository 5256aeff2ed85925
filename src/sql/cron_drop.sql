-- Removes a schedule.
-- params: name text
-- returns: void
SELECT pgwork.cron_drop($1)
