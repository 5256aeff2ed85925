# leases on rows are finished without the token
# file: src/table/table_lease.c
# roles: rows
# faults: stop_process
s/" IS NOT DISTINCT FROM a.pgw_token AS pgw_ours/" IS NOT NULL AS pgw_ours/
s/" = a.pgw_token RETURNING a.pgw_i)/" IS NOT NULL RETURNING a.pgw_i)/
