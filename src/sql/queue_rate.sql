-- Sets the rate of a queue; n NULL: none.
-- params: queue text, n int, per_ms bigint, burst int
-- returns: queue_rate void
SELECT pgwork.queue_rate($1, $2, $3, $4)
