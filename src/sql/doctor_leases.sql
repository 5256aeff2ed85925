-- Does somebody take expired leases back? A statement of its own: no index leads to them, so it takes long where millions of jobs wait.
-- params: none
-- returns: grade int, check_name text, finding text, advice text
WITH expired AS (
    SELECT count(*) AS n, min(j.lease_until) AS oldest
      FROM pgwork.job j JOIN pgwork.queues q ON q.name = j.queue
     WHERE j.state = 'leased' AND j.lease_until < now() -- only where there are leases
       AND j.lease_until < clock_timestamp() - q.lease_ms * interval '1 ms'
)
SELECT CASE WHEN n = 0 THEN 0 WHEN oldest > clock_timestamp() - interval '5 min' THEN 1 ELSE 2 END, 'expired leases',
       CASE WHEN n > 0 THEN format('leases that ended long ago and were not taken back: %s, the oldest ended %s ago', n, date_trunc('second', clock_timestamp() - oldest))
            ELSE 'no lease is overdue' END,
       CASE WHEN n > 0 THEN 'See that a reaper runs, and look into its log; `pgwork reap --once` takes them back now.' ELSE '' END
  FROM expired
UNION ALL -- one that is tried again and again is tried soon; the others are over
(
SELECT 2, CASE WHEN s.queue IS NULL THEN 'upkeep' ELSE 'stuck jobs' END,
       format('%s since %s: %s', CASE WHEN s.queue IS NULL THEN 'a part of it fails' ELSE format('job %s of queue %L cannot be taken back', s.id, s.queue) END,
              date_trunc('second', s.since), s.error),
       'Mend the cause, a trigger or a constraint on a table of pgwork or a damaged row: it is tried again by itself.'
  FROM pgwork.stuck_jobs s WHERE s.again_at > clock_timestamp() - interval '1 min'
 ORDER BY s.since, s.queue, s.id LIMIT 10
)
