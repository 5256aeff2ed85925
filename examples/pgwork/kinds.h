/* SPDX-License-Identifier: PostgreSQL
 *
 * kinds: the options of "work" that are for one kind of jobs, such as --kind KIND=COMMAND.
 */
#ifndef KINDS_H
#define KINDS_H

#include "cli.h"

typedef struct kind {
    char *name;
    char **command; /* NULL-terminated; NULL: the one of all other kinds */
    pgw_kind_opts opts;
} kind;

typedef struct kinds {
    kind *at;
    size_t count;
} kinds;

/** CLI_DONE, or CLI_USAGE: what is wrong was said. Each word is KIND=VALUE. Caller frees with
 * kinds_free(). */
int kinds_read(const cli *c, kinds *k, const wordlist *commands, const wordlist *jobs,
               const wordlist *timeouts);
void kinds_free(kinds *k);

#endif
