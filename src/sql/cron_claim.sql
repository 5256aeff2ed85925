-- Claims a due tick for a node. Always returns one row.
-- params: node text, schedules text[]
-- returns: schedule text, slot timestamptz, token uuid, attempt int, until timestamptz, kind text, payload jsonb, body bytea, next_ms bigint
SELECT schedule, slot, token, attempt, until, kind, payload, body, next_ms FROM pgwork.cron_claim($1, $2)
