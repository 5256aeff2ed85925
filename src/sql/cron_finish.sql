-- The tick is over; false: the token is stale.
-- params: token uuid, error text
-- returns: accepted boolean
SELECT pgwork.cron_finish($1, $2)
