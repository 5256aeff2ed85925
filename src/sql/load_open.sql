-- The queue, created if needed. Takes the transaction's id before the first position, so that a
-- session that sees a position as drawn finds its transaction running.
-- params: queue text
-- returns: id int, max_bytes int, draining boolean, server_time timestamptz, xid xid8
SELECT q.id, q.max_bytes, q.draining, clock_timestamp(), pg_current_xact_id()
  FROM pgwork._queue_made($1) q
