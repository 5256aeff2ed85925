-- Changes settings of a queue. NULL: unchanged.
-- params: queue text, lease_ms bigint, max_attempts int, backoff_ms bigint, backoff_cap_ms bigint, retention_ms bigint, max_bytes int, notify boolean, expired text, dead_retention_ms bigint, payload_visible boolean
-- returns: queue_set void
SELECT pgwork.queue_set($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
