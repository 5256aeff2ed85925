-- Completes jobs and claims others. Refused completions come first, with their position in the input.
-- params: queue text, ids bigint[], tokens uuid[], n int, holder text, lease_ms bigint, apart boolean
-- returns: queue text, id bigint, token uuid, attempt int, max_attempts int, priority int, kind text, payload jsonb, body bytea, tags text[], created_at timestamptz, lease_until timestamptz, meta jsonb, quarantined boolean, ids bigint[], kinds text[], payloads jsonb[], created timestamptz[], server_time timestamptz, started timestamptz, position int
SELECT queue, id, token, attempt, max_attempts, priority, kind, payload, body, tags, created_at, lease_until,
       meta, quarantined, ids, kinds, payloads, created, server_time, statement_timestamp(),
       CASE WHEN attempt = 0 THEN array_position($2::bigint[], id) END
  FROM pgwork.claim_batch(ARRAY[$1], $4, $5, $6, $2, $3, $7)
