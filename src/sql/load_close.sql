-- Notes which priorities are in use, and wakes who sleeps.
-- params: queue_id int, priorities int
-- returns: wake void
WITH used AS (
    UPDATE pgwork.queue SET priorities = priorities | $2 WHERE id = $1 AND priorities & $2 <> $2
)
SELECT pgwork._wake(q.id, q.name, 32) FROM pgwork.queue q WHERE q.id = $1 AND q.notify
