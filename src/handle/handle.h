/* handle: functions for the loops beyond the public header. */
#ifndef PGW_HANDLE_H
#define PGW_HANDLE_H

#include "pgwork.h"

/* pgw_open() that a stop can end, while it connects, too: PGW_ECANCELED. The stop stays on the
 * handle. @p lock_ms: see pgw__pq_limit_locks(). */
pgw_status pgw__handle_open(pgw **h, const pgw_conf *conf, pgw_stop *stop, int64_t lock_ms);

/* The error and the hint, in one line for the log. */
void pgw__handle_diagnostics(const pgw *h, char *diagnostics, size_t size);

#endif
