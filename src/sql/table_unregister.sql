-- Stops the reapers from serving the table.
-- params: schema text, table text
-- returns: was_there boolean
SELECT pgwork.table_unregister($1, $2)
