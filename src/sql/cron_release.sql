-- For another node; false: the token is stale.
-- params: token uuid
-- returns: accepted boolean
SELECT pgwork.cron_release($1)
