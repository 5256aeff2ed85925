-- Not now, and nothing else of the queue. A row for each refused job: its position in the input, and why.
-- params: queue text, ids bigint[], tokens uuid[], for_ms bigint, reason text
-- returns: position int, status text
SELECT array_position($2::bigint[], r.id), r.status
  FROM pgwork.hold($1, $2, $3, $4, $5) r
