# the end of a lease is counted from the client's clock
# file: src/queue/job_claim.c src/sql/job_claim.sql
# roles: producer worker reaper
# faults: clock_forward
# seconds: 20
s/^static pgw_status claim_once/#include <time.h>\nstatic int64_t wall_ms(void) { struct timespec t; clock_gettime(CLOCK_REALTIME, \&t); return t.tv_sec * 1000 + t.tv_nsec \/ 1000000; }\n\n&/
/pgw_status claim_once/,/^}/s/P_INT8_OR_NULL(o->lease_ms, /P_INT8_OR_NULL(o->lease_ms + wall_ms(), /
s/\$4, NULL/greatest(100, $4 - (extract(epoch FROM clock_timestamp()) * 1000)::bigint), NULL/
