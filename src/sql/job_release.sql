-- Requeues jobs that were not started. A row for each refused job: its position in the input, and the reason.
-- params: queue text, ids bigint[], tokens uuid[]
-- returns: position int, status text
SELECT array_position($2::bigint[], r.id), r.status
  FROM pgwork.release($1, $2, $3) r
