# an optimistic write does not compare the version
# file: src/table/table_text.c
# roles: counter
# faults: -
/^void pgw__put_version_is/,/^}/s/pgw__buf_text(b, " = ");/pgw__buf_text(b, " >= 0 AND -1 <> ");/
