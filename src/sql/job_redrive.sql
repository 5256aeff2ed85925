-- Makes dead letters ready by ids, by kind, or all: up to a limit, and none that is newer than the start.
-- params: queue text, ids bigint[], kind text, at_most bigint, since_ms bigint
-- returns: moved bigint
SELECT pgwork.redrive($1, $2, $3, $4, $5)
