-- Is this operation of pgw_table_process() applied?
-- params: op uuid
-- returns: applied boolean
SELECT pgwork.table_applied($1)
