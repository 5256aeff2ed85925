-- Finds paused queues, jobs that no worker claims, and dead letters. Counts end at 1000, to be cheap with millions of jobs. If
-- workers keep up, a ready job is seconds old, so five minutes are a note. An hour is bad if nothing is leased. Otherwise it
-- stays a note: a job of low priority may have to wait, and a released job counts from its enqueue.
-- params: none
-- returns: grade int, check_name text, finding text, advice text
WITH d AS MATERIALIZED (
    SELECT q.queue AS name, coalesce(h.paused, q.paused) AS paused, h.until, h.reason, q.draining, q.ready, q.leased, q.dead, q.oldest_ms * interval '1 ms' AS oldest,
           CASE WHEN q.queue LIKE '-%' THEN '-- ' ELSE '' END || '''' || replace(q.queue, '''', '''"''"''') || '''' AS typed -- for a shell
      FROM pgwork.queue_list(at_most => 1000) q LEFT JOIN pgwork.queue_holds() h USING (queue)
), found AS (
    SELECT 1 AS grade, 'queues' AS check_name, format('queue "%s" is paused: its jobs are not claimed%s', d.name,
                                                            ', its oldest ready job has waited for ' || justify_hours(date_trunc('second', nullif(d.oldest, '0')))) AS finding,
           format('Run `pgwork queue resume %s` when the reason is gone.', d.typed) AS advice
      FROM d WHERE d.paused
    UNION ALL
    SELECT 1, 'queues', format('queue "%s" is held until %s: its jobs are not claimed before', d.name, date_trunc('second', d.until)) || coalesce(' (' || d.reason || ')', ''),
           format('Run `pgwork queue unhold %s` to end the hold.', d.typed)
      FROM d WHERE d.until IS NOT NULL
     UNION ALL
    SELECT 1, 'queues', format('queue "%s" is draining: nothing can be enqueued', d.name),
           format('Run `pgwork queue resume %s` when the reason is gone.', d.typed)
      FROM d WHERE d.draining
    UNION ALL
    SELECT CASE WHEN d.leased = 0 AND d.oldest > interval '1 hour' THEN 2 ELSE 1 END, 'ready jobs',
           format('queue "%s": the oldest ready job has waited for %s, %s', d.name, justify_hours(date_trunc('second', d.oldest)),
                  CASE WHEN d.leased > 0 THEN format('%s leased, so a worker claims from it', d.leased || CASE WHEN d.leased = 1000 THEN ' or more are' WHEN d.leased = 1 THEN ' is' ELSE ' are' END)
                       WHEN d.ready < 1000 THEN 'nothing is leased: no worker claims from it'
                       ELSE 'none of the first 1000 is leased: no worker claims from it' END),
           CASE WHEN d.leased > 0 THEN format('If all workers are busy, start more. `pgwork ls -s leased %s` lists the leased jobs with their holders and overdue leases.', d.typed)
                ELSE format('Check that workers run for exactly this queue name, and that their log shows no failed claims. To let the jobs wait, run `pgwork queue pause %s`.', d.typed) END
      FROM d WHERE NOT d.paused AND d.until IS NULL AND d.oldest > interval '5 min'
    UNION ALL
    SELECT 1, 'dead letters', format('dead letters in queue "%s": %s%s, the last one died %s ago', d.name, d.dead, CASE WHEN d.dead = 1000 THEN ' or more' END,
                                     date_trunc('second', clock_timestamp() - l.last)),
           format('`pgwork dead list %s` shows the errors. Then redrive or purge them.', d.typed)
      FROM d CROSS JOIN LATERAL (SELECT max(e.last_at) AS last FROM pgwork.dead_errors(d.name, 1) e) l
     WHERE d.dead > 0
)
SELECT grade, check_name, finding, advice FROM found
UNION ALL
SELECT 0, 'queues', (SELECT count(*) FROM d) || ' queues, none paused or draining, no dead letters, no ready job older than 5 minutes', '' WHERE NOT EXISTS (SELECT FROM found)
