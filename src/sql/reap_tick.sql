-- One pass of upkeep, and a heartbeat. Its commit does not wait for the disk: after a crash the pass is repeated.
-- params: batch int, name text
-- returns: reaped bigint, died bigint, promoted bigint, pruned bigint, next_ms bigint, stuck text, heartbeat void
SELECT m.reaped, m.died, m.promoted, m.pruned, m.next_ms, m.stuck, pgwork.heartbeat('reaper', $2)
  FROM (SELECT pg_catalog.set_config('synchronous_commit', 'off', true) OFFSET 0) s
 CROSS JOIN LATERAL pgwork.maintain($1) m
