-- Lists jobs in the order of their ids, after after_id. NULL: any.
-- params: queue text, state text, kind text, id bigint, after_id bigint, at_most bigint
-- returns: queue text, id bigint, state text, kind text, priority int, attempt int, max_attempts int, holder text, lease_until timestamptz, run_at timestamptz, created_at timestamptz, finished_at timestamptz, error text, key text, tags text[], payload jsonb, body_bytes int, output jsonb, grp text, expires_at timestamptz, meta jsonb, payload_hidden boolean, progress jsonb
SELECT queue, id, state, kind, priority, attempt, max_attempts, holder, lease_until, run_at, created_at, finished_at,
       error, key, tags, payload, body_bytes, output, grp, expires_at, meta, payload_hidden, progress
  FROM pgwork.job_list($1, $2, $3, $4, $5, $6)
