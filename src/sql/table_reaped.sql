-- Records the result of a reaper's pass over a table.
-- params: schema text, table text, freed bigint, error text, rest_ms bigint
-- returns: news boolean
SELECT pgwork.table_reaped($1, $2, $3, $4, $5)
