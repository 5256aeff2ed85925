/* SPDX-License-Identifier: PostgreSQL
 *
 * cron: the definition of a schedule in words, as `pgwork cron add` and each line of
 * `pgwork cron apply` have it.
 */
#ifndef CRON_H
#define CRON_H

#include "cli.h"

typedef struct cron_def {
    const char *name, *expression; /* borrowed from argv, as all that follows */
    pgw_cron_opts o;
    pgw_job_spec job;
    wordlist tags;
} cron_def;

extern const char *const cron_misfires[]; /* the words for pgw_misfire, up to a NULL */

/** Reads NAME EXPRESSION [OPTIONS]. OPTS_GO, or an exit code: all has been said. */
int cron_define(cli *c, cron_def *d, int argc, char **argv);
/** Makes the schedule what @p d says, once. */
pgw_status cron_create(const cli *c, cron_def *d, int64_t *next_us);
int cron_apply(cli *c, int argc, char **argv);

#endif
