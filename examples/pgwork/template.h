/* SPDX-License-Identifier: PostgreSQL
 *
 * template: the words of a command with places in them.
 *
 *   {id} {attempt} {queue} {kind}   of the job
 *   {name} or {.name}               the payload's member; the dot when the job has one of that name
 *   {{name}}                        the text {name}
 *
 * All other braces stand for themselves. A place is a name of letters, digits, '_' and '-', so
 * `awk '{ print $1 }'` needs no care.
 */
#ifndef TEMPLATE_H
#define TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>

#include "pgwork.h"

/** The command for this job, NULL-terminated: caller frees with template_free(). NULL: @p why says
 * which place stays empty. @p ours: it is not the payload's fault, but beyond what we can read. */
char **template_fill(char *const *words, const pgw_job *job, bool *ours, char *why,
                     size_t why_size);
void template_free(char **words);
/** Is there a place in @p word? */
bool template_has_place(const char *word);

#endif
