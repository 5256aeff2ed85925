-- Extends leases. A row for each job: its position in the input, the outcome, and the server's time.
-- params: queue text, ids bigint[], tokens uuid[], lease_ms bigint
-- returns: position int, status text, server_time timestamptz
SELECT array_position($2::bigint[], r.id), r.status, clock_timestamp()
  FROM pgwork.extend($1, $2, $3, $4) r
