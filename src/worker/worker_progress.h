/* worker_progress: what handlers report of their jobs, told to the server with the heartbeat. */
#ifndef PGW_WORKER_PROGRESS_H
#define PGW_WORKER_PROGRESS_H

#include "worker/worker_state.h"

/* With the lock held, which is dropped meanwhile: sends what waits, once a second at most. Returns
 * when to look again, `next` or earlier. */
int64_t pgw__progress_if_due(pgw_worker *w, pgw *h, int64_t next);
/* With the lock held, which is dropped meanwhile: what handlers ask for with
 * pgw_task_last_progress(). */
void pgw__progress_answer_all(pgw_worker *w, pgw *h);
/* Before these jobs, of one queue, leave their worker unfinished: the next attempt is to find it.
 */
void pgw__progress_before(pgw_worker *w, pgw_task *const *tasks, size_t n);

#endif
