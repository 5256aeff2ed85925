/* SPDX-License-Identifier: PostgreSQL
 *
 * kinds: the options of "work" for one kind of jobs, such as --kind KIND=COMMAND.
 */
#ifndef KINDS_H
#define KINDS_H

#include "cli.h"

typedef struct kind {
    char *name;
    char **command; /* NULL-terminated; NULL: the command of all other kinds */
    pgw_kind_opts opts;
} kind;

typedef struct kinds {
    kind *at;
    size_t count;
} kinds;

/** Reads words of the form KIND=VALUE. Free the result with kinds_free(). */
int kinds_read(const cli *c, kinds *k, const wordlist *commands, const wordlist *jobs,
               const wordlist *timeouts);
void kinds_free(kinds *k);

#endif
