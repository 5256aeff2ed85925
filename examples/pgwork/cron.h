/* SPDX-License-Identifier: PostgreSQL
 *
 * cron: the definition of a schedule, from the words of `pgwork cron add` or of a line of
 * `pgwork cron apply`.
 */
#ifndef CRON_H
#define CRON_H

#include "cli.h"

typedef struct cron_def {
    const char *name, *expression; /* borrowed from argv, as all other strings */
    pgw_cron_opts o;
    pgw_job_spec job;
    wordlist tags;
} cron_def;

extern const char *const cron_misfires[]; /* the words for pgw_misfire, NULL-terminated */

/** Reads NAME EXPRESSION [OPTIONS]. Returns OPTS_GO or an exit code. */
int cron_define(cli *c, cron_def *d, int argc, char **argv);
/** Creates or changes the schedule. Call it once. */
pgw_status cron_create(const cli *c, cron_def *d, int64_t *next_us);
int cron_apply(cli *c, int argc, char **argv);

#endif
