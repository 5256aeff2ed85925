-- Extends the timeout of a tick. NULL: the token is stale.
-- params: token uuid, timeout_ms bigint
-- returns: until timestamptz
SELECT pgwork.cron_extend($1, $2)
