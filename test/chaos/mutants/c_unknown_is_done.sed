# a lost answer is taken for a good one
# file: src/pq/pq.c
# roles: producer worker reaper
# faults: lost_answer cut terminate kill_backend
# pace: 20
# seconds: 30
s/if (pq_open_outcome(h)) st = PGW_EUNKNOWN;/if (pq_open_outcome(h)) return PGW_OK;/
