-- Every queue, or the one of that name, with settings and counts.
-- params: at_most bigint, queue text
-- returns: queue text, paused boolean, draining boolean, lease_ms int, backoff_ms bigint, backoff_cap_ms bigint, retention_ms bigint, max_attempts int, max_bytes int, notify boolean, ready bigint, leased bigint, delayed bigint, dead bigint, done bigint, oldest_ms bigint
SELECT q.name, q.paused, q.draining, q.lease_ms, q.backoff_ms, q.backoff_cap_ms, q.retention_ms, q.max_attempts, q.max_bytes, q.notify,
       d.ready, d.leased, d.delayed, d.dead, d.done, d.oldest_ms
  FROM pgwork.queues q
 CROSS JOIN LATERAL pgwork.depth(q.name, $1, true) d
 WHERE ($2 IS NULL OR q.name = $2) AND d.ready IS NOT NULL -- else it was dropped meanwhile
 ORDER BY q.name
