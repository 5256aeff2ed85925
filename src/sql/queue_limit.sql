-- At most so many jobs of a queue are ready or leased; NULL: no limit.
-- params: queue text, most int
-- returns: queue_limit void
SELECT pgwork.queue_limit($1, $2)
