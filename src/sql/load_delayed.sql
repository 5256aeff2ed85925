-- Stores delayed jobs.
-- params: none
-- returns: copy
COPY pgwork.delayed_job (run_at, queue, priority, max_attempts, lease_ms, kind, tags, payload, body, grp, expires_at, meta) FROM STDIN (FORMAT binary)
