-- Queues that are shut, and dead letters nobody looked at.
-- params: none
-- returns: grade int, check_name text, finding text, advice text
WITH dead AS (
    SELECT j.queue, count(*) AS n, max(j.finished_at) AS last FROM pgwork.job j WHERE j.state = 'dead' GROUP BY j.queue
), found AS (
    SELECT 1 AS grade, 'queues' AS check_name, format('queue %s is paused: nothing is claimed from it', quote_literal(q.name)) AS finding,
           format('When that is over: `pgwork queue resume %s`.', quote_literal(q.name)) AS advice
      FROM pgwork.queues q WHERE q.paused
    UNION ALL
    SELECT 1, 'queues', format('queue %s is being drained: it takes no jobs', quote_literal(q.name)),
           format('When that is over: `pgwork queue resume %s`.', quote_literal(q.name))
      FROM pgwork.queues q WHERE q.draining
    UNION ALL
    SELECT 1, 'dead letters', format('dead letters in queue %s: %s, the last one died %s ago', quote_literal(d.queue), d.n,
                                     date_trunc('second', clock_timestamp() - d.last)),
           format('Read why with `pgwork dead list %s`; then redrive or purge them.', quote_literal(d.queue))
      FROM dead d
)
SELECT grade, check_name, finding, advice FROM found
UNION ALL
SELECT 0, 'queues', (SELECT count(*) FROM pgwork.queues) || ' queues, none shut, no dead letters', '' WHERE NOT EXISTS (SELECT FROM found)
