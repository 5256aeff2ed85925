-- The reapers leave the table alone.
-- params: schema text, table text
-- returns: was_there boolean
SELECT pgwork.table_unregister($1, $2)
