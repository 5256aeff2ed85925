-- Lets the reapers free expired rows of a table.
-- params: schema text, table text, key text[], locked_by text, expires_at text, token text
-- returns: nothing void
SELECT pgwork.table_register($1, $2, $3, $4, $5, $6)
