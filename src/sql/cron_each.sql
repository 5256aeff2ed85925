-- Lists one schedule or all.
-- params: name text
-- returns: name text, expression text, zone text, queue text, kind text, payload jsonb, key text, misfire text, misfire_max int, priority smallint, grace_ms bigint, jitter_ms bigint, timeout_ms bigint, paused boolean, next_slot timestamptz, last_slot timestamptz, holder text, since timestamptz, until timestamptz, attempt int, error text, error_at timestamptz, grp text
SELECT name, expression, zone, queue, kind, payload, key, misfire, misfire_max, priority, grace_ms, jitter_ms, timeout_ms, paused,
       CASE WHEN NOT paused THEN next_slot END AS next_slot, last_slot, holder, since, until, attempt, error, error_at, grp
  FROM pgwork.schedules WHERE $1::text IS NULL OR name = $1 ORDER BY name
