-- Up to n jobs under a lease.
-- params: queues text[], n int, holder text, lease_ms bigint
-- returns: queue text, id bigint, token uuid, attempt int, max_attempts int, priority int, kind text, payload jsonb, body bytea, tags text[], created_at timestamptz, lease_until timestamptz, ids bigint[], priorities smallint[], kinds text[], payloads jsonb[], created timestamptz[], suspect boolean, server_time timestamptz, started timestamptz
SELECT queue, id, token, attempt, max_attempts, priority, kind, payload, body, tags, created_at, lease_until,
       ids, priorities, kinds, payloads, created, suspect, server_time, statement_timestamp()
  FROM pgwork.claim_batch($1, $2, $3, $4)
