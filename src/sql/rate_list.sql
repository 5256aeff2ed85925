-- All rates.
-- params: none
-- returns: name text, n int, per_ms bigint, burst int, available int, next_ms bigint
SELECT l.name, l.n, l.per_ms, l.burst, l.available, l.next_ms
  FROM pgwork.rate_list() l
