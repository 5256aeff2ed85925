/* worker_pool: claimed jobs, and the threads that work on them. */
#ifndef PGW_WORKER_POOL_H
#define PGW_WORKER_POOL_H

#include "worker/worker_state.h"

/* Takes the jobs of a claim into the prefetch buffer. The batch is the worker's from now on, also
 * after a failure. since: by our clock their leases did not begin before; server_us: then, by the
 * server's.
 */
pgw_status pgw__worker_admit(pgw_worker *w, pgw_batch *batch, int64_t since, int64_t server_us);
bool pgw__worker_handlers_init(const pgw_worker *w);
pgw_status pgw__worker_hire(pgw__pool *p); /* starts the handler threads */
bool pgw__worker_dismiss(pgw__pool *p);    /* false: some handlers were left behind */
void pgw__worker_run_here(pgw_worker *w);  /* one handler call in this thread */
/* With the lock held: */
pgw__worker_counts pgw__worker_count(const pgw_worker *w);
void pgw__worker_stir(pgw__pool *p); /* something changed that waiting main loops may act upon */
/* Jobs of that queue, or of all (NULL), that are not started get the verdict PGW_VERDICT_RELEASE.
 */
void pgw__worker_release_ready(pgw_worker *w, const char *queue);
/* Jobs that wait for others of their kind, which take long all at once, are put off. */
void pgw__worker_give_up_waiting(pgw_worker *w, int64_t now);
void pgw__worker_sort_out(
    pgw_worker *w); /* removes jobs that must not start from the prefetch buffer */

#endif
