/* worker_report: reports the worker's counts to the server every few seconds. */
#ifndef PGW_WORKER_REPORT_H
#define PGW_WORKER_REPORT_H

#include "worker/worker_state.h"

bool pgw__report_init(pgw_worker *w);
void pgw__report_begin(pgw_worker *w); /* a run begins: the first report is due soon */

/* With the lock held: what becomes of jobs. */
void pgw__report_claimed(pgw_worker *w, pgw__taskset *c, int64_t since_ms, int64_t server_us);
void pgw__report_started(pgw_task *t, int64_t now_us);
void pgw__report_returned(pgw_task *t, int64_t now_us);
void pgw__report_told(pgw_task *t, pgw__counted what);

/* With the lock held, which is dropped for a call: reports if it is time, and before `next`, when
 * the heartbeat has something else to do. Returns when to come back. */
int64_t pgw__report_if_due(pgw_worker *w, pgw *h, int64_t next);
/* The worker's run is over: its last report, if there is a session for it. */
void pgw__report_end(pgw_worker *w, pgw *h);

#endif
