-- Creates or changes a schedule.
-- params: name text, expression text, zone text, queue text, payload jsonb, kind text, body bytea, priority int, max_attempts int, lease_ms bigint, tags text[], key text, misfire text, misfire_max int, grace_ms bigint, jitter_ms bigint, timeout_ms bigint, ttl_ms bigint, grp text
-- returns: next_slot timestamptz
SELECT pgwork.cron_create($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
