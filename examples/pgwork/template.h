/* SPDX-License-Identifier: PostgreSQL
 *
 * template: the words of a command, with placeholders.
 *
 *   {id} {attempt} {queue} {kind}   of the job
 *   {name} or {.name}               a member of the payload; the dot is needed if it is named id,
 * ...
 *   {{name}}                        the text {name}
 *
 * Other braces are not changed. A placeholder contains only letters, digits, '_' and '-', so
 * `awk '{ print $1 }'` needs no escape.
 */
#ifndef TEMPLATE_H
#define TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>

#include "pgwork.h"

/** The command for this job, NULL-terminated; free it with template_free(). NULL: @p why names the
 * placeholder without a value. @p ours: the payload is valid, but this program cannot read it. */
char **template_fill(char *const *words, const pgw_job *job, bool *ours, char *why,
                     size_t why_size);
void template_free(char **words);
/** Is there a placeholder in @p word? */
bool template_has_place(const char *word);

#endif
