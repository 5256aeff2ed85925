-- Lists all queues, or one by name, with settings and counts. paused: by an operator, not by a hold alone.
-- params: at_most bigint, queue text
-- returns: queue text, paused boolean, draining boolean, lease_ms int, backoff_ms bigint, backoff_cap_ms bigint, retention_ms bigint, max_attempts int, max_bytes int, notify boolean, expired text, dead_retention_ms bigint, payload_visible boolean, ready bigint, leased bigint, delayed bigint, gated bigint, dead bigint, done bigint, oldest_ms bigint, held_until timestamptz, hold_reason text, queue_limit int, rate_n int, rate_per_ms bigint, rate_burst int, next_at timestamptz, semaphore text
SELECT q.queue, coalesce(h.paused, q.paused), q.draining, q.lease_ms, q.backoff_ms, q.backoff_cap_ms, q.retention_ms,
       q.max_attempts, q.max_bytes, q.notify, q.expired, q.dead_retention_ms, q.payload_visible, q.ready, q.leased, q.delayed, q.gated, q.dead, q.done, q.oldest_ms, h.until, h.reason,
       l.queue_limit, l.rate_n, l.rate_per_ms, l.rate_burst, l.next_at, l.semaphore
  FROM pgwork.queue_list($2, $1) q LEFT JOIN pgwork.queue_holds($2) h USING (queue)
  LEFT JOIN pgwork.queue_limits($2) l USING (queue)
 ORDER BY q.queue
