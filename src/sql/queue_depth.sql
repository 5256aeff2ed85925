-- Counts the jobs of one queue, each state up to a limit (NULL: exact).
-- params: queue text, at_most bigint
-- returns: ready bigint, leased bigint, delayed bigint, gated bigint, dead bigint, done bigint, oldest_ms bigint
SELECT ready, leased, delayed, gated, dead, done, oldest_ms
  FROM pgwork.depth($1, $2)
