-- Notes jobs that expire, if there are any: those behind this position. Wakes up waiters.
-- params: queue_id int, behind bigint
-- returns: wake void
SELECT CASE WHEN $2 IS NOT NULL THEN pgwork._expiring_loaded(q.id, $2) END,
       CASE WHEN q.notify THEN pgwork._wake(q.name, 32) END FROM pgwork.queue q WHERE q.id = $1
