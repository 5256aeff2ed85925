-- Fails jobs. A row for each refused job: its position in the input, and the reason.
-- params: queue text, ids bigint[], tokens uuid[], error text, retry_ms bigint, dead boolean
-- returns: position int, status text
SELECT array_position($2::bigint[], r.id), r.status
  FROM pgwork.fail($1, $2, $3, $4, $5, $6) r
