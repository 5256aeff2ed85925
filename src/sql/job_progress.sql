-- Stores the progress of jobs. A row for each refused job: its position in the input, and the reason.
-- params: queue text, ids bigint[], tokens uuid[], progress jsonb[]
-- returns: position int, status text
SELECT array_position($2::bigint[], r.id), r.status
  FROM pgwork.progress($1, $2, $3, $4) r
