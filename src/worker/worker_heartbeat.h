/* worker_heartbeat: leases are extended in time. */
#ifndef PGW_WORKER_HEARTBEAT_H
#define PGW_WORKER_HEARTBEAT_H

#include "worker/worker_state.h"

bool pgw__worker_heartbeat_init(pgw_worker *w);
/* Has the heartbeat's session listen for cancelled jobs; worth another attempt when it fails with
 * PGW_ECONN and the like, and not necessary otherwise. */
pgw_status pgw__worker_heartbeat_listen(pgw_worker *w);
pgw_status pgw__worker_heartbeat_start(pgw_worker *w);
void pgw__worker_heartbeat_end(pgw_worker *w);
void pgw__worker_heartbeat_retry(pgw_worker *w); /* there is a server again: no pause is of use */
/* Extends due leases with the lock held (released during the call). Returns when to come back. */
int64_t pgw__worker_extend(pgw_worker *w, pgw *h);

#endif
