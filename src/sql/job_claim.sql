-- Claims up to n jobs. apart: each in its own row. in_order: from the first of the queues that has any.
-- params: queues text[], n int, holder text, lease_ms bigint, apart boolean, in_order boolean
-- returns: queue text, id bigint, token uuid, attempt int, max_attempts int, priority int, kind text, payload jsonb, body bytea, tags text[], created_at timestamptz, lease_until timestamptz, meta jsonb, quarantined boolean, ids bigint[], kinds text[], payloads jsonb[], created timestamptz[], server_time timestamptz, started timestamptz
SELECT queue, id, token, attempt, max_attempts, priority, kind, payload, body, tags, created_at, lease_until,
       meta, quarantined, ids, kinds, payloads, created, server_time, statement_timestamp()
  FROM pgwork.claim_batch($1, $2, $3, $4, NULL, NULL, $5, $6)
