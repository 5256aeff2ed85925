-- Finishes a tick. False: the token is stale.
-- params: token uuid, error text
-- returns: accepted boolean
SELECT pgwork.cron_finish($1, $2)
