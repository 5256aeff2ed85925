# an optimistic write whose answer was lost is made again unasked
# file: src/table/table_write.c
# roles: counter
# faults: lost_answer
# seconds: 30
s/&o, p->op);/\&o, NULL);/
