-- Waiting jobs go, running ones are asked to stop. A row for each id: its position in the input, and what became of its job.
-- params: queue text, ids bigint[]
-- returns: position int, status text
SELECT u.i::integer, r.status
  FROM pgwork.cancel($1, ARRAY(SELECT DISTINCT u FROM unnest($2::bigint[]) u)) r
  JOIN unnest($2::bigint[]) WITH ORDINALITY u (id, i) USING (id)
