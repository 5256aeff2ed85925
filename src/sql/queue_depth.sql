-- Counts of one queue, each at most so many (NULL: exact).
-- params: queue text, at_most bigint
-- returns: ready bigint, leased bigint, delayed bigint, gated bigint, dead bigint, done bigint, oldest_ms bigint
SELECT ready, leased, delayed, gated, dead, done, oldest_ms
  FROM pgwork.depth($1, $2)
