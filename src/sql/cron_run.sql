-- A tick out of turn.
-- params: name text
-- returns: job bigint
SELECT pgwork.cron_run($1)
