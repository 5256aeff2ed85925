-- Jobs that fit a filter, in the order of their ids, behind after_id. A last row without a state: there are more to look at behind its id.
-- params: queue text, state text, kind text, tag text, key text, grp text, holder text, error text, created_from timestamptz, created_to timestamptz, after_id bigint, at_most bigint
-- returns: queue text, id bigint, state text, kind text, priority int, attempt int, max_attempts int, holder text, lease_until timestamptz, run_at timestamptz, created_at timestamptz, finished_at timestamptz, error text, key text, tags text[], payload jsonb, body_bytes int, output jsonb, grp text, expires_at timestamptz, meta jsonb, payload_hidden boolean, progress jsonb
SELECT queue, id, state, kind, priority, attempt, max_attempts, holder, lease_until, run_at, created_at, finished_at,
       error, key, tags, payload, body_bytes, output, grp, expires_at, meta, payload_hidden, progress
  FROM pgwork.job_search(jsonb_strip_nulls(jsonb_build_object('queue', $1::text, 'state', $2::text, 'kind', $3::text, 'tag', $4::text, 'key', $5::text,
       'group', $6::text, 'holder', $7::text, 'error', $8::text, 'created_from', $9::timestamptz, 'created_to', $10::timestamptz)), $11, $12)
