-- Stores ready jobs.
-- params: none
-- returns: copy
COPY pgwork.live_job (queue, lane, max_attempts, lease_ms, kind, tags, payload, body, grp, expires_at, meta) FROM STDIN (FORMAT binary)
