-- What a reaper notes after its pass over a table.
-- params: schema text, table text, freed bigint, error text, rest_ms bigint
-- returns: news boolean
SELECT pgwork.table_reaped($1, $2, $3, $4, $5)
