-- Checks reapers, low-water marks, expired leases, delayed jobs and stuck jobs. With a reaper from cron, pauses are normal: a
-- reaper in the last five minutes is a note. Overdue work without a running reaper is bad at once.
-- params: none
-- returns: grade int, check_name text, finding text, advice text
WITH b AS (
    SELECT count(*) FILTER (WHERE at > clock_timestamp() - interval '30 s') AS alive, max(at) AS last
      FROM pgwork.heartbeats WHERE role = 'reaper' AND at <= clock_timestamp() -- later times were written before the clock was set back
), o AS MATERIALIZED ( -- where leased rows begin: it does not read the millions of jobs that may be ready or delayed
    SELECT o.*, q.lease_ms FROM pgwork.overdue(10000) o JOIN pgwork.queues q ON q.name = o.queue
), expired AS (
    SELECT coalesce(sum(o.expired), 0) AS n, min(o.expired_since) AS oldest
      FROM o WHERE o.expired_since < clock_timestamp() - o.lease_ms * interval '1 ms'
), late AS (
    SELECT coalesce(sum(o.due), 0) AS n, min(o.due_since) AS oldest, bool_or(o.due >= 10000) AS more
      FROM o WHERE o.due_since < clock_timestamp() - interval '10 s'
)
SELECT CASE WHEN alive > 0 THEN 0 WHEN last > clock_timestamp() - interval '5 min' THEN 1 ELSE 2 END, 'reaper',
       CASE WHEN alive > 0 THEN alive || CASE WHEN alive = 1 THEN ' reaper runs' ELSE ' reapers run' END
            WHEN last IS NULL THEN 'no reaper has been seen in the last day'
            ELSE 'no reaper since ' || date_trunc('second', clock_timestamp() - last) END,
       CASE WHEN alive > 0 THEN ''
            WHEN last > clock_timestamp() - interval '5 min'
            THEN 'Expired leases, delayed jobs and schedules wait until it runs. Run `pgwork reap` as a service.'
            ELSE 'Run `pgwork reap` as a service. Without a reaper the jobs of dead workers stay leased and delayed jobs never start.' END
  FROM b
UNION ALL
SELECT CASE WHEN NOT m.still THEN 0 WHEN m.at > clock_timestamp() - interval '5 min' THEN 1 ELSE 2 END, 'low-water marks',
       CASE WHEN NOT m.still THEN 'no job waits for the low-water marks to move'
            ELSE coalesce('The reaper ran ' || floor(extract(epoch FROM clock_timestamp() - m.at)) || ' s ago.', 'No reaper has run yet.')
                 || ' Expired leases, delayed jobs and late commits wait until it runs.' END,
       CASE WHEN NOT m.still THEN '' ELSE 'Run `pgwork reap`. Until then claims are correct, but slow down while vacuum is held back.' END
  FROM (SELECT t.at, CASE WHEN t.at > clock_timestamp() - interval '10 s' THEN false
                          ELSE EXISTS (SELECT FROM pgwork.queue_list(at_most => 1) q WHERE q.ready + q.leased > 0) END AS still
          FROM pgwork.last_tick t) m
UNION ALL -- a low-water mark is right only while positions are drawn in order, each once
SELECT 2, 'positions', format('sequence pgwork.position has CACHE %s: a session may draw positions that lie below the low-water marks', s.seqcache),
       'As the owner of the schema: ALTER SEQUENCE pgwork.position CACHE 1; then end the sessions that were connected before.'
  FROM pg_sequence s WHERE s.seqrelid = 'pgwork.position'::regclass AND s.seqcache <> 1
UNION ALL
SELECT 2, 'positions', format('sequence pgwork.position went back to %s, but %s was drawn before: new jobs lie below the low-water marks', t.position, t.issued),
       format('As the owner of the schema: SELECT setval(''pgwork.position'', %s);', t.issued)
  FROM pgwork.last_tick t WHERE t.position < t.issued
UNION ALL -- of 2^31; a queue whose creation is rolled back draws an id, too
SELECT CASE WHEN t.queue_id > 1600000000 THEN 2 ELSE 1 END, 'queue ids',
       format('queue ids have reached %s: no queue can be created after 2147483647', t.queue_id),
       'Find the program that creates many queues, or that enqueues into new ones and rolls back. Use permanent queues. Ids are not reused; a new schema begins with 1.'
  FROM pgwork.last_tick t WHERE t.queue_id > 1000000000
UNION ALL
SELECT CASE WHEN n = 0 THEN 0 WHEN oldest > clock_timestamp() - interval '5 min' AND (SELECT alive FROM b) > 0 THEN 1 ELSE 2 END, 'expired leases',
       CASE WHEN n > 0 THEN format('expired leases that no reaper has requeued: %s, the oldest ended %s ago', n, date_trunc('second', clock_timestamp() - oldest))
            ELSE 'no lease is overdue' END,
       CASE WHEN n > 0 THEN 'Check that a reaper runs, and read its log. `pgwork reap --once` requeues them now.' ELSE '' END
  FROM expired
UNION ALL
SELECT CASE WHEN n = 0 THEN 0 WHEN oldest > clock_timestamp() - interval '5 min' AND (SELECT alive FROM b) > 0 THEN 1 ELSE 2 END, 'delayed jobs',
       CASE WHEN n > 0 THEN format('delayed jobs that are overdue: %s%s, the oldest by %s', n, CASE WHEN more THEN ' or more' END, date_trunc('second', clock_timestamp() - oldest))
            ELSE 'no delayed job is overdue' END,
       CASE WHEN n > 0 THEN 'Check that a reaper runs. If it cannot keep up, raise `reaper.batch` or run a second reaper.' ELSE '' END
  FROM late
UNION ALL -- stuck jobs come last, and no damaged row is read for them. A job that is still stuck is tried again soon; older records are over.
(
SELECT 2, CASE WHEN s.queue IS NULL THEN 'upkeep' ELSE 'stuck jobs' END,
       format('%s since %s: %s', CASE WHEN s.queue IS NULL THEN 'a part of the upkeep fails' WHEN s.id = 0 THEN format('gated jobs or expired leases of queue "%s" wait', s.queue)
                                 ELSE format('job %s of queue "%s" cannot be requeued', s.id, s.queue) END,
              date_trunc('second', s.since), s.error),
       'Fix the cause: a trigger or a constraint on a table of pgwork, or a damaged row. It is tried again by itself.'
  FROM pgwork.stuck_jobs s WHERE s.again_at > clock_timestamp() - interval '1 min'
 ORDER BY s.since, s.queue, s.id LIMIT 10
)
