-- Starts the ticks of a schedule again, from now.
-- params: name text
-- returns: void
SELECT pgwork.cron_resume($1)
