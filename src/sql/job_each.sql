-- Jobs in any state; NULL: whatever it is. No order: a LIMIT has to be cheap on a full database.
-- params: queue text, state text, kind text, id bigint, at_most int
-- returns: queue text, id bigint, state text, kind text, priority int, attempt int, max_attempts int, holder text, lease_until timestamptz, run_at timestamptz, created_at timestamptz, finished_at timestamptz, error text, key text, tags text[], payload jsonb, body_bytes int, output jsonb
SELECT queue, id, state, kind, priority, attempt, max_attempts, holder, lease_until, run_at, created_at, finished_at,
       error, key, tags, payload, body_bytes, output
  FROM pgwork.job
 WHERE ($1::text IS NULL OR queue = $1)
   AND ($2::text IS NULL OR state = $2)
   AND ($3::text IS NULL OR kind = $3)
   AND ($4::bigint IS NULL OR id = $4)
 LIMIT $5::int
