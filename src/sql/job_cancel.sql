-- Waiting jobs go, running ones are asked to stop. A row for each job: its position in the input, and what became of it.
-- params: queue text, ids bigint[]
-- returns: position int, status text
SELECT array_position($2::bigint[], r.id), r.status
  FROM pgwork.cancel($1, $2) r
