/* worker_heart: leases are extended in time. */
#ifndef PGW_WORKER_HEART_H
#define PGW_WORKER_HEART_H

#include "worker/worker_state.h"

bool pgw__worker_heart_init(pgw_worker *w);
/* Has the heartbeat's session listen for cancelled jobs; worth another attempt when it fails with
 * PGW_ECONN and the like, and not necessary otherwise. */
pgw_status pgw__worker_heart_listen(pgw_worker *w);
pgw_status pgw__worker_heart_start(pgw_worker *w);
void pgw__worker_heart_end(pgw_worker *w);
void pgw__worker_heart_retry(pgw_worker *w); /* there is a server again: no pause is of use */
/* Extends what is due, with the lock held (dropped while the server is asked). Returns when to come
 * back. */
int64_t pgw__worker_beat(pgw_worker *w, pgw *h);

#endif
