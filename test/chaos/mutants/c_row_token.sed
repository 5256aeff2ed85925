# leases on rows are finished without the token
# file: src/table/table_lease.c
# roles: rows
# faults: stop_process
s/" = a.pgw_token RETURNING a.pgw_i)/" IS NOT NULL RETURNING a.pgw_i)/
