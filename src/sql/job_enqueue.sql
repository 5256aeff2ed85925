-- Enqueues one job. Returns its id and the outcome: new, exists, replaced, repeated.
-- params: queue text, payload jsonb, kind text, body bytea, priority int, run_at timestamptz, delay_ms bigint, max_attempts int, lease_ms bigint, tags text[], key text, key_scope text, key_policy text, key_period_ms bigint, op uuid, grp text, expires_at timestamptz, meta jsonb, ttl_ms bigint, key_replace text[]
-- returns: id bigint, outcome text
SELECT id, outcome
  FROM pgwork.enqueue($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
                      $19, $20)
