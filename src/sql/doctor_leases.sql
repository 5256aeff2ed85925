-- Checks whether expired leases are requeued. A separate statement: no index leads to leases, so it takes long with millions of jobs.
-- params: none
-- returns: grade int, check_name text, finding text, advice text
WITH expired AS (
    SELECT count(*) AS n, min(j.lease_until) AS oldest
      FROM pgwork.job j JOIN pgwork.queues q ON q.name = j.queue
     WHERE j.state = 'leased' AND j.lease_until < now() -- only if there are leases
       AND j.lease_until < clock_timestamp() - q.lease_ms * interval '1 ms'
)
SELECT CASE WHEN n = 0 THEN 0
            WHEN oldest > clock_timestamp() - interval '5 min' AND EXISTS (SELECT FROM pgwork.heartbeats b WHERE b.role = 'reaper' AND b.at > clock_timestamp() - interval '30 s') THEN 1
            ELSE 2 END, 'expired leases',
       CASE WHEN n > 0 THEN format('expired leases that no reaper has requeued: %s, the oldest ended %s ago', n, date_trunc('second', clock_timestamp() - oldest))
            ELSE 'no lease is overdue' END,
       CASE WHEN n > 0 THEN 'Check that a reaper runs, and read its log. `pgwork reap --once` requeues them now.' ELSE '' END
  FROM expired
