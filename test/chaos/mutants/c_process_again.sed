# an optimistic write whose answer was lost is made again unasked
# file: src/table/table_write.c
# roles: counter
# faults: lost_answer cut terminate
s/if (p->unknown || p->o.op != NULL) st = process_applied(p, &applied);/(void)process_applied;/
