-- Wakes up waiters.
-- params: queue_id int
-- returns: wake void
SELECT pgwork._wake(q.name, 32) FROM pgwork.queue q WHERE q.id = $1 AND q.notify
