-- Dead letters back to ready: those of ids, or of kind, or all; at most so many, and none that came since.
-- params: queue text, ids bigint[], kind text, at_most bigint, since_ms bigint
-- returns: moved bigint
SELECT pgwork.redrive($1, $2, $3, $4, $5)
