# a lost answer is reported as not applied
# file: src/pq/pq.c
# roles: producer worker reaper
# faults: lost_answer cut terminate kill_backend
s/if (pq_open_outcome(h)) st = PGW_EUNKNOWN;/if (pq_open_outcome(h)) st = PGW_ECONN;/
