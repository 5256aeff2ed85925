-- Removes waiting jobs, and asks running ones to stop. A row for each id: its position in the input, and the outcome.
-- params: queue text, ids bigint[]
-- returns: position int, status text
SELECT u.i::integer, r.status
  FROM pgwork.cancel($1, ARRAY(SELECT DISTINCT u FROM unnest($2::bigint[]) u)) r
  JOIN unnest($2::bigint[]) WITH ORDINALITY u (id, i) USING (id)
