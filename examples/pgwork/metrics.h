/* SPDX-License-Identifier: PostgreSQL
 *
 * metrics: what monitoring watches, in Prometheus' text format.
 */
#ifndef METRICS_H
#define METRICS_H

#include "out.h"

typedef struct metrics metrics;
metrics *metrics_new(void);
/** Reads those of a database; only "pgwork_up 0" if they cannot be read. @p h: NULL if there is no
 * server. @p database: a label; NULL: it is the only one. @p at_most: counts end there; 0: they do
 * not. @p doctor: with its grades. Returns the status of the call that failed. */
pgw_status metrics_read(metrics *all, pgw *h, const char *database, int64_t at_most, bool doctor);
/** Adds them to @p t, and frees @p all. */
void metrics_end(metrics *all, buf *t);

#endif
