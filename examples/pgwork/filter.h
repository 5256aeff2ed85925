/* SPDX-License-Identifier: PostgreSQL
 *
 * filter: the options that select jobs, the same for lists and for bulk operations.
 */
#ifndef FILTER_H
#define FILTER_H

#include "opts.h"

typedef struct filter {
    pgw_filter f;
    const char *state;
    int64_t older_ms, newer_ms; /* -1: not given */
} filter;

#define FILTER_INIT                   \
    {                                 \
        PGW_FILTER_INIT, NULL, -1, -1 \
    }

#define FILTER_STATES "ready, leased, delayed, gated, dead, done or cancelled"

/* Rows of an option table, for `filter *p`. */
/* clang-format off */
#define FILTER_OPTS(p) \
    {'s', "state", "STATE", FILTER_STATES, .text = &(p)->state}, \
    {'k', "kind", "KIND", "of this kind", .text = &(p)->f.kind}, \
    {'t', "tag", "TAG", "with this tag", .text = &(p)->f.tag}, \
    {0, "key", "KEY", "with this unique key", .text = &(p)->f.key}, \
    {0, "group", "GROUP", "of this group", .text = &(p)->f.group}, \
    {0, "holder", "NAME", "held by this holder", .text = &(p)->f.holder}, \
    {0, "error", "TEXT", "error contains TEXT, or is like this line of --by-error", .text = &(p)->f.error}, \
    {0, "older-than", "TIME", "enqueued longer ago than TIME", .ms = &(p)->older_ms, .max = 10 * CLI_YEAR}, \
    {0, "newer-than", "TIME", "enqueued within the last TIME", .ms = &(p)->newer_ms, .max = 10 * CLI_YEAR}
/* clang-format on */

/** Completes the filter from the options: state and times. */
int filter_settle(const cli *c, filter *p);
/** Does the filter use more than queue, state and kind? */
bool filter_searches(const filter *p);

#endif
