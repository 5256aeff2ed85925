/* SPDX-License-Identifier: PostgreSQL
 *
 * metrics: what monitoring watches, in Prometheus' text format.
 */
#ifndef METRICS_H
#define METRICS_H

#include "out.h"

/** Adds all metrics to @p t; only "pgwork_up 0" if they cannot be read. @p h: NULL if there is no
 * server. @p at_most: counts end there; 0: they do not. @p doctor: with its grades. Returns the
 * status of the call that failed. */
pgw_status metrics_read(pgw *h, int64_t at_most, bool doctor, buf *t);

#endif
