-- Finds groups whose jobs have waited for five minutes because the group is held or blocked, one of each queue and reason, and
-- queues with a semaphore from which no worker claims.
-- params: none
-- returns: grade int, check_name text, finding text, advice text
WITH b AS MATERIALIZED (
    SELECT g.*, count(*) OVER (PARTITION BY g.queue, g.reason) AS n, row_number() OVER (PARTITION BY g.queue, g.reason ORDER BY g.since, g.grp) AS i,
           CASE WHEN g.queue LIKE '-%' OR g.grp LIKE '-%' THEN '-- ' ELSE '' END || '''' || replace(g.queue, '''', '''"''"''') || ''' '''
           || replace(g.grp, '''', '''"''"''') || '''' AS typed -- for a shell
      FROM pgwork.group_blocked() g WHERE g.since < clock_timestamp() - interval '5 min'
), s AS MATERIALIZED (
    SELECT l.queue, l.semaphore, j.created_at AS since,
           CASE WHEN l.semaphore LIKE '-%' THEN '-- ' ELSE '' END || '''' || replace(l.semaphore, '''', '''"''"''') || '''' AS typed
      FROM pgwork.queue_limits() l JOIN pgwork.queue_list(at_most => 1000) d USING (queue) LEFT JOIN pgwork.queue_holds() h USING (queue)
     CROSS JOIN LATERAL pgwork.job_list(l.queue, 'gated', at_most => 1) j
     WHERE l.semaphore IS NOT NULL AND d.leased = 0 AND NOT d.paused AND h.until IS NULL AND j.created_at < clock_timestamp() - interval '5 min'
), found AS (
    SELECT 1 AS grade, 'gated jobs' AS check_name,
           format('queue "%s": group "%s" %s, and its first gated job has waited for %s', b.queue, b.grp,
                  CASE b.reason WHEN 'held' THEN 'is held' || coalesce(' until ' || date_trunc('second', nullif(b.until, 'infinity')), '')
                                WHEN 'dead letter' THEN format('is stopped by dead letter %s', b.job)
                                ELSE format('waits for the retry of job %s at %s', b.job, date_trunc('second', b.until)) END,
                  justify_hours(date_trunc('second', clock_timestamp() - b.since)))
           || CASE WHEN b.n > 1 THEN format('; %s more groups are in the same state', b.n - 1) ELSE '' END AS finding,
           format(CASE b.reason WHEN 'held' THEN 'Run `pgwork groups unblock %s` to end the hold.'
                                WHEN 'dead letter' THEN 'Redrive or purge the dead letter, or run `pgwork groups unblock %s` to go on without it.'
                                ELSE 'Run `pgwork groups unblock %s` to run the next jobs before the retry.' END, b.typed) AS advice
      FROM b WHERE b.i = 1
    UNION ALL
    SELECT 1, 'gated jobs', format('queue "%s": jobs wait for permits of semaphore "%s" since %s, and none is leased', s.queue, s.semaphore, date_trunc('second', s.since)),
           format('A worker that claims takes the permits. Check that workers run for this queue. `pgwork sem list %s` shows who holds permits.', s.typed)
      FROM s
)
SELECT grade, check_name, finding, advice FROM found
UNION ALL
SELECT 0, 'gated jobs', 'no group is blocked or held for 5 minutes while its jobs wait', '' WHERE NOT EXISTS (SELECT FROM found)
