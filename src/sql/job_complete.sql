-- Completes jobs. A row for each refused job: its position in the input, and the reason.
-- params: queue text, ids bigint[], tokens uuid[], outputs jsonb[]
-- returns: position int, status text
SELECT array_position($2::bigint[], r.id), r.status
  FROM pgwork.complete($1, $2, $3, $4) r
