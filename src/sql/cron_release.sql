-- Releases a tick for another node. False: the token is stale.
-- params: token uuid
-- returns: accepted boolean
SELECT pgwork.cron_release($1)
