-- No claims until a time: one of the two is given.
-- params: queue text, until timestamptz, for_ms bigint, reason text
-- returns: until timestamptz
SELECT pgwork.queue_hold($1, $2, $3, $4)
