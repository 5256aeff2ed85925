-- Dead letters back to ready: those of ids, or of kind, or all; at most so many.
-- params: queue text, ids bigint[], kind text, at_most bigint
-- returns: moved bigint
SELECT pgwork.redrive($1, $2, $3, $4)
