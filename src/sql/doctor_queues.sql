-- Queues that are shut, jobs that nobody claims, and dead letters nobody looked at. Counts end at 1000: it has to be cheap where millions wait.
-- Where workers keep up, a ready job is seconds old: five minutes are worth a note. An hour is bad if nothing is leased either. As long as something is, it
-- stays a note: a job of low priority may have to wait, and one that was handed back counts from its enqueue.
-- params: none
-- returns: grade int, check_name text, finding text, advice text
WITH d AS MATERIALIZED (
    SELECT q.queue AS name, coalesce(h.paused, q.paused) AS paused, h.until, h.reason, q.draining, q.ready, q.leased, q.dead, q.oldest_ms * interval '1 ms' AS oldest,
           CASE WHEN q.queue LIKE '-%' THEN '-- ' ELSE '' END || '''' || replace(q.queue, '''', '''"''"''') || '''' AS typed -- for a shell
      FROM pgwork.queue_list(at_most => 1000) q LEFT JOIN pgwork.queue_holds() h USING (queue)
), found AS (
    SELECT 1 AS grade, 'queues' AS check_name, format('queue "%s" is paused: nothing is claimed from it%s', d.name,
                                                            ', its oldest ready job has waited for ' || justify_hours(date_trunc('second', nullif(d.oldest, '0')))) AS finding,
           format('When that is over: `pgwork queue resume %s`.', d.typed) AS advice
      FROM d WHERE d.paused
    UNION ALL
    SELECT 1, 'queues', format('queue "%s" is held until %s: nothing is claimed from it before', d.name, date_trunc('second', d.until)) || coalesce(' (' || d.reason || ')', ''),
           format('To end that now: `pgwork queue unhold %s`.', d.typed)
      FROM d WHERE d.until IS NOT NULL
    UNION ALL
    SELECT 1, 'queues', format('queue "%s" is being drained: it takes no jobs', d.name),
           format('When that is over: `pgwork queue resume %s`.', d.typed)
      FROM d WHERE d.draining
    UNION ALL
    SELECT CASE WHEN d.leased = 0 AND d.oldest > interval '1 hour' THEN 2 ELSE 1 END, 'ready jobs',
           format('queue "%s": the oldest ready job has waited for %s, %s', d.name, justify_hours(date_trunc('second', d.oldest)),
                  CASE WHEN d.leased > 0 THEN format('%s leased, so somebody has claimed from it', d.leased || CASE WHEN d.leased = 1000 THEN ' or more are' WHEN d.leased = 1 THEN ' is' ELSE ' are' END)
                       WHEN d.ready < 1000 THEN 'nothing is leased: no worker claims from it'
                       ELSE 'none of the first 1000 is leased: no worker claims from it' END),
           CASE WHEN d.leased > 0 THEN format('If all workers are busy, start more; `pgwork ls -s leased %s` shows who has what, who hangs, and whose lease is over.', d.typed)
                ELSE format('See that workers run, for a queue of this very name, and in their log that claims do not fail; if it is to wait: `pgwork queue pause %s`.', d.typed) END
      FROM d WHERE NOT d.paused AND d.until IS NULL AND d.oldest > interval '5 min'
    UNION ALL
    SELECT 1, 'dead letters', format('dead letters in queue "%s": %s', d.name, d.dead) ||
                              CASE WHEN d.dead = 1000 THEN ' or more' ELSE format(', the last one died %s ago', date_trunc('second', clock_timestamp() - l.last)) END,
           format('Read why with `pgwork dead list %s`; then redrive or purge them.', d.typed)
      FROM d CROSS JOIN LATERAL (SELECT max(j.finished_at) AS last FROM pgwork.job_list(d.name, 'dead', at_most => d.dead) j WHERE d.dead < 1000) l
     WHERE d.dead > 0
)
SELECT grade, check_name, finding, advice FROM found
UNION ALL
SELECT 0, 'queues', (SELECT count(*) FROM d) || ' queues, none shut, no dead letters, no ready job older than 5 minutes', '' WHERE NOT EXISTS (SELECT FROM found)
