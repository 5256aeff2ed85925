-- Renames a schedule.
-- params: name text, new_name text
-- returns: void
SELECT pgwork.cron_rename($1, $2)
