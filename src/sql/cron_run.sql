-- Requests a tick now.
-- params: name text
-- returns: job bigint
SELECT pgwork.cron_run($1)
