/* worker_flush: results are reported to the server. */
#ifndef PGW_WORKER_FLUSH_H
#define PGW_WORKER_FLUSH_H

#include "worker/worker_state.h"

typedef struct pgw__claim { /* a claim that a flush may take along */
    pgw_claim_opts opts;
    pgw_batch *batch;
    int64_t sent_us; /* monotonic: when it was called */
    bool done;       /* it was made */
} pgw__claim;

bool pgw__worker_flush_init(pgw_worker *w);
/* Reports all results, or those of whole task sets and those that are due. Makes the claim (may be
 * NULL) if that costs no further round trip: then the status is the claim's. Otherwise PGW_OK, or
 * the first failure. */
pgw_status pgw__worker_flush(pgw_worker *w, bool all, pgw__claim *claim);
int pgw__worker_order(const pgw_task *a,
                      const pgw_task *b); /* arrays for the results of one call */
size_t pgw__worker_group(pgw_task *const *tasks,
                         size_t n); /* how many at the front are for one call */

#endif
