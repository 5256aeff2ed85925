-- The queue, created if needed. Takes the transaction's id before the first position, so that a
-- session that sees a position as drawn finds its transaction running.
-- params: queue text
-- returns: id int, max_bytes int, draining boolean, server_time timestamptz, xid xid8, position bigint, gated boolean
SELECT q.id, q.max_bytes, q.draining, clock_timestamp(), pg_current_xact_id(),
       (SELECT CASE WHEN s.is_called THEN s.last_value ELSE 0 END FROM pgwork.position s) AS position,
       q.gated IS NOT NULL AS gated
  FROM pgwork._queue_made($1) q
