/* SPDX-License-Identifier: PostgreSQL
 *
 * running: since when jobs run, as far as their workers have told.
 */
#ifndef RUNNING_H
#define RUNNING_H

#include "cli.h"

typedef struct running {
    pgw_running_job *jobs;
    char **holders; /* of each */
    size_t count;
} running;

/** Of the workers of a queue; NULL: of all. Empty where this role may not see them. */
running running_read(cli *c, const char *queue);
/** Microseconds, server's clock; 0: not known. */
int64_t running_since_us(const running *r, const pgw_job *job);
void running_free(running *r);

#endif
