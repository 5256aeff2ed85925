/* SPDX-License-Identifier: PostgreSQL
 *
 * running: when the handlers of jobs started, as their workers report.
 */
#ifndef RUNNING_H
#define RUNNING_H

#include "cli.h"

typedef struct running {
    pgw_running_job *jobs;
    char **holders; /* of each job */
    size_t count;
} running;

/** Reads the reports of the workers of a queue (NULL: of all). Empty if this role may not see them.
 */
running running_read(cli *c, const char *queue);
/** When the handler of @p job started, in microseconds by the server's clock. 0: not known. */
int64_t running_since_us(const running *r, const pgw_job *job);
void running_free(running *r);

#endif
