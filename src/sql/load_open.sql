-- The queue, made if need be. The transaction's id comes before the first place: whoever sees a
-- place number used can find its transaction running.
-- params: queue text
-- returns: id int, max_bytes int, draining boolean, server_time timestamptz, xid xid8
SELECT q.id, q.max_bytes, q.draining, clock_timestamp(), pg_current_xact_id()
  FROM pgwork._queue_made($1) q
