# the release of a lost lock says that it was held
# file: src/coord/lock.c
# roles: lock
# faults: terminate
s/if (st == PGW_ELEASE) st = lock_lost(lock, true);/if (st == PGW_ELEASE) { lock_unlink(lock); pgw__mem_free(lock); return PGW_OK; }/
