-- Whether this operation of pgw_table_process() was applied.
-- params: op uuid
-- returns: applied boolean
SELECT pgwork.table_applied($1)
