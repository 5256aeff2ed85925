/* worker_why: why there is nothing to claim. */
#ifndef PGW_WORKER_WHY_H
#define PGW_WORKER_WHY_H

#include "worker/worker_state.h"

bool pgw__worker_why_init(pgw_worker *w, size_t queues);
void pgw__worker_tell_why(pgw_worker *w); /* a claim found nothing */

#endif
