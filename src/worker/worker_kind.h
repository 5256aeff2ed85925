/* worker_kind: handlers by kind: which one a job gets, how many of a kind run at once, and what the
 * kind says of timeouts and retries. */
#ifndef PGW_WORKER_KIND_H
#define PGW_WORKER_KIND_H

#include "worker/worker_state.h"

void pgw__kind_init_rest(pgw__pool *p, const pgw_worker_spec *spec);
bool pgw__kind_any(const pgw__pool *p); /* is there a handler at all? */
pgw__kind *pgw__kind_of(pgw_worker *w, const pgw_job *job);
/* The job's own, else its kind's, else the worker's. 0: none. */
int64_t pgw__kind_timeout_ms(const pgw_worker *w, const pgw__kind *kind, const pgw_job *job);
/* What the kind makes of the verdict that its handler returned. */
void pgw__kind_judge(pgw_task *t);

/* With the lock held: */
int pgw__kind_waiting_max(const pgw__kind *kind);         /* jobs that may wait for a moment */
void pgw__kind_ran(pgw__kind *kind, int64_t took_us);     /* a job of it has run for so long */
bool pgw__kind_hangs(const pgw__kind *kind, int64_t now); /* what waits would wait too long */
/* When a job beyond the limit of its kind is to be tried again. */
int64_t pgw__kind_put_off_ms(pgw__kind *kind, int64_t now_us);
/* Are there jobs that were put off, and did not have the time to come back yet? */
bool pgw__kind_expects(const pgw__pool *p, int64_t now_us);

#endif
