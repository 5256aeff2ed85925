/* SPDX-License-Identifier: PostgreSQL
 *
 * @file pgwork/group.h
 * Groups of jobs: a limit for each group, an order in it, and fair shares between groups.
 */
#ifndef PGWORK_GROUP_H
#define PGWORK_GROUP_H

#include <pgwork/handle.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------- */
/** @name Groups (operator) @{
 * A job with a `group` waits until fewer than `limit` jobs of its group are admitted. An admitted
 * job is ready, leased, or (retry policies hold and block) waits for a retry. With limit 1 and
 * policy hold the jobs of a group run one after the other, in the order of priority, then of age.
 *
 * Names: UTF-8, 1..255 bytes, no control characters. Each function returns PGW_ENOTFOUND if the
 * queue does not exist. A group exists as long as it has jobs or settings. */

/* Whether a job keeps its place in the group while it waits for a retry, and after it dies. */
typedef enum pgw_group_retry {
    PGW_GROUP_RETRY_DEFAULT = PGW_DEFAULT, /* unchanged */
    PGW_GROUP_RETRY_HOLD = 0,              /* it keeps its place until it is done or dead */
    PGW_GROUP_RETRY_PASS = 1,              /* others go first; after its delay it is the next */
    PGW_GROUP_RETRY_BLOCK = 2              /* as hold; a dead letter stops the group */
} pgw_group_retry;

/* clang-format off */
typedef struct pgw_group_opts {
    size_t struct_size;
    int limit;             /* most admitted jobs, 1 .. 10,000; for a new queue: 1 */
    pgw_group_retry retry; /* for a new queue: PGW_GROUP_RETRY_HOLD */
} pgw_group_opts;          /* PGW_DEFAULT: unchanged */
#define PGW_GROUP_OPTS_INIT {sizeof(pgw_group_opts), PGW_DEFAULT, PGW_GROUP_RETRY_DEFAULT}
/* clang-format on */

/**
 * Sets the limit and the retry policy of a group, or of all groups of a queue.
 *
 * @param h      the handle
 * @param queue  the queue
 * @param group  the group; NULL: all groups of the queue without a setting of their own
 * @param opts   the settings
 * @returns
 * - PGW_OK
 * - PGW_ENOTFOUND
 * @note With a lower limit running jobs continue. No other job is admitted until enough are done.
 *
 *     pgw_group_opts o = PGW_GROUP_OPTS_INIT;
 *     o.limit = 4;
 *     st = pgw_group_set(h, "mail", NULL, &o); // four jobs of each customer at a time
 *     o.limit = 20;
 *     if (st == PGW_OK) st = pgw_group_set(h, "mail", "customer-7", &o);
 */
PGW_API pgw_status pgw_group_set(pgw *h, const char *queue, const char *group,
                                 const pgw_group_opts *opts);
/**
 * Removes the settings and the hold of a group. The settings of its queue apply again.
 *
 * @param h      the handle
 * @param queue  the queue
 * @param group  the group
 * @returns
 * - PGW_OK
 * - PGW_ENOTFOUND
 *
 *     st = pgw_group_reset(h, "mail", "customer-7"); // its limit is 4 again
 */
PGW_API pgw_status pgw_group_reset(pgw *h, const char *queue, const char *group);
/**
 * Holds a group: no job of it is admitted for a time. Admitted jobs continue.
 *
 * @param h       the handle
 * @param queue   the queue
 * @param group   the group
 * @param for_ms  how long, 0 .. ten years; PGW_UNLIMITED: until pgw_group_unblock()
 * @returns
 * - PGW_OK
 * - PGW_ENOTFOUND
 * @note A reaper ends the hold, at most a tenth of a second late.
 *
 *     st = pgw_group_hold(h, "mail", "customer-7", 30000); // the API answered 429
 */
PGW_API pgw_status pgw_group_hold(pgw *h, const char *queue, const char *group, int64_t for_ms);
/**
 * Ends a hold of a group, and frees the places of jobs that stop it: retries and dead letters. The
 * state of these jobs does not change.
 *
 * @param h      the handle
 * @param queue  the queue
 * @param group  the group
 * @param freed  takes the number of these jobs; may be NULL
 * @returns
 * - PGW_OK
 * - PGW_ENOTFOUND
 *
 *     st = pgw_group_unblock(h, "mail", "customer-7", &n); // its dead letter stays
 */
PGW_API pgw_status pgw_group_unblock(pgw *h, const char *queue, const char *group, int64_t *freed);
/**
 * Deletes the jobs of a group that wait to be admitted.
 *
 * @param h        the handle
 * @param queue    the queue
 * @param group    the group
 * @param deleted  takes the number of deleted jobs, also after a failure; may be NULL
 * @returns
 * - PGW_OK
 * - PGW_ENOTFOUND
 * @note It works in batches of 10,000 jobs, as pgw_queue_purge() does. It cannot be armed.
 *
 *     st = pgw_group_purge(h, "mail", "customer-7", &n);
 */
PGW_API pgw_status pgw_group_purge(pgw *h, const char *queue, const char *group, int64_t *deleted);

typedef struct pgw_group_info {
    size_t struct_size;
    const char *group;
    int64_t gated, admitted, leased; /* jobs, each counted up to 1,000 */
    int limit;
    pgw_group_retry retry;
    int64_t held_until_us; /* PGW_NONE: not held; INT64_MAX: until pgw_group_unblock() */
    int64_t blocked_by;    /* a job that waits for a retry, or a dead letter; PGW_NONE */
    int64_t next_id;       /* the job that is admitted next; PGW_NONE: none waits */
    int64_t next_since_us; /* when that one was enqueued */
} pgw_group_info;          /* borrowed until fn returns */
typedef struct pgw_groups_opts {
    size_t struct_size;
    const char *group; /* only this one; NULL: all */
    int64_t at_most;   /* at most this many groups; PGW_UNLIMITED: all */
} pgw_groups_opts;
/* clang-format off */
#define PGW_GROUPS_OPTS_INIT {sizeof(pgw_groups_opts), NULL, PGW_UNLIMITED}
/* clang-format on */
/**
 * Lists the groups of a queue that have jobs or settings, in the order of their names.
 *
 * @param h      the handle
 * @param queue  the queue
 * @param opts   which groups; NULL: all
 * @param fn     called for each until it returns non-zero
 * @param arg    its second argument
 * @returns
 * - PGW_OK
 * - PGW_OUTCOME_EMPTY: there are none
 * - PGW_ENOTFOUND
 *
 *     static int show(const pgw_group_info *g, void *arg)
 *     {
 *         return fprintf(arg, "%s %" PRId64 " gated\n", g->group, g->gated) < 0;
 *     }
 *
 *     st = pgw_groups_each(h, "mail", NULL, show, stdout);
 */
PGW_API pgw_status pgw_groups_each(pgw *h, const char *queue, const pgw_groups_opts *opts,
                                   int (*fn)(const pgw_group_info *info, void *arg), void *arg);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
