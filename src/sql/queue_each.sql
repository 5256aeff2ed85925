-- Lists all queues, or one by name, with settings and counts.
-- params: at_most bigint, queue text
-- returns: queue text, paused boolean, draining boolean, lease_ms int, backoff_ms bigint, backoff_cap_ms bigint, retention_ms bigint, max_attempts int, max_bytes int, notify boolean, payload_visible boolean, ready bigint, leased bigint, delayed bigint, gated bigint, dead bigint, done bigint, oldest_ms bigint
SELECT queue, paused, draining, lease_ms, backoff_ms, backoff_cap_ms, retention_ms, max_attempts, max_bytes, notify, payload_visible,
       ready, leased, delayed, gated, dead, done, oldest_ms
  FROM pgwork.queue_list($2, $1)
