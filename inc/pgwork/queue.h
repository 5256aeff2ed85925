/* SPDX-License-Identifier: PostgreSQL
 *
 * @file pgwork/queue.h
 * Queues, for operators: settings, switches, counts.
 */
#ifndef PGWORK_QUEUE_H
#define PGWORK_QUEUE_H

#include <pgwork/job.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------- */
/** @name Queues (operator) @{
 * A queue is made by its first enqueue, unless the setting `implicit_queues` is off. Names: UTF-8,
 * 1..200 bytes, no control characters. Each verb on one queue returns PGW_ENOTFOUND when there is
 * no such queue, except pgw_queue_create() and pgw_queues_each(). */
/* clang-format off */
typedef struct pgw_queue_opts {
    size_t struct_size;
    int64_t lease_ms;       /* default lease, 100 .. 86,400,000; 30,000 */
    int64_t backoff_ms;     /* first retry within, 0 .. a year; 1,000 */
    int64_t backoff_cap_ms; /* no retry later than, 0 .. a year; 3,600,000 */
    int64_t retention_ms;   /* keep finished jobs so long, up to 100 years; 0: don't */
    int max_attempts;       /* 1 .. 1000; 10 */
    int max_bytes;          /* payload, body and meta together, 1 .. 268,435,455; 16,777,216 */
    pgw_switch notify;      /* wake sleeping workers; on */
    pgw_switch payload_visible; /* pgwork_viewer sees payloads, outputs and meta; off */
} pgw_queue_opts;           /* PGW_DEFAULT in a field: leave as it is */
#define PGW_QUEUE_OPTS_INIT {sizeof(pgw_queue_opts), PGW_DEFAULT, PGW_DEFAULT, PGW_DEFAULT, PGW_DEFAULT, PGW_DEFAULT, PGW_DEFAULT, PGW_SWITCH_DEFAULT, PGW_SWITCH_DEFAULT}
/* clang-format on */
/**
 * Creates a queue. If it exists, sets what @p opts gives.
 *
 * @param h      the handle
 * @param queue  its name
 * @param opts   its settings; NULL: the defaults
 * @returns PGW_OK, or an error of any verb
 *
 *     pgw_queue_opts o = PGW_QUEUE_OPTS_INIT;
 *     o.lease_ms = 60000, o.retention_ms = INT64_C(7) * 86400 * 1000;
 *     st = pgw_queue_create(h, "mail", &o);
 *     o.max_attempts = 3;
 *     if (st == PGW_OK) st = pgw_queue_set(h, "mail", &o);
 */
PGW_API pgw_status pgw_queue_create(pgw *h, const char *queue, const pgw_queue_opts *opts);
/**
 * Sets what @p opts gives.
 *
 * @param h      the handle
 * @param queue  its name
 * @param opts   its settings
 * @returns
 * - PGW_OK
 * - PGW_ENOTFOUND
 */
PGW_API pgw_status pgw_queue_set(pgw *h, const char *queue, const pgw_queue_opts *opts);
/**
 * The switches. A paused queue gives no jobs to claims (PGW_OUTCOME_EMPTY); enqueues go on. A
 * drained queue takes no jobs (PGW_EPAUSED); claims go on. pgw_queue_resume() undoes both. Running
 * jobs go on.
 *
 * @param h      the handle
 * @param queue  its name
 * @returns
 * - PGW_OK
 * - PGW_ENOTFOUND
 *
 *     pgw_queue_pause(h, "mail");
 *     work("with nobody claiming");
 *     pgw_queue_drain(h, "mail"); // and nobody enqueueing
 *     pgw_queue_resume(h, "mail");
 */
PGW_API pgw_status pgw_queue_pause(pgw *h, const char *queue);
PGW_API pgw_status pgw_queue_drain(pgw *h, const char *queue);
PGW_API pgw_status pgw_queue_resume(pgw *h, const char *queue);
/**
 * Limits how many jobs of a queue are leased at a time, over all workers: for licences, GPUs and
 * fragile services. The others are gated, see pgwork/group.h.
 *
 * @param h      the handle
 * @param queue  its name
 * @param limit  1 .. 10,000; PGW_UNLIMITED: none
 * @returns
 * - PGW_OK
 * - PGW_ENOTFOUND
 * @note Jobs that are leased when it is called go on. A reaper takes jobs that are ready by then to
 *   the gate, a thousand at each tick.
 *
 *     st = pgw_queue_limit(h, "render", 4); // there are four GPUs
 */
PGW_API pgw_status pgw_queue_limit(pgw *h, const char *queue, int limit);
/**
 * Deletes jobs in a state that are there when it begins; never leased ones.
 *
 * @param h        the handle
 * @param queue    their queue
 * @param state    ready, delayed, dead or done; PGW_STATE_ANY: all but leased ones
 * @param deleted  takes how many, also after a failure; may be NULL
 * @returns
 * - PGW_OK
 * - PGW_ENOTFOUND
 * @note It works in pieces of 10,000, each under the deadline of a call, and in its own transaction
 *   unless one is open. Once stopped (pgw_set_stop) it goes no further. Cannot be armed.
 *
 *     st = pgw_queue_purge(h, "mail", PGW_STATE_ANY, &n);
 *     if (st == PGW_OK && pgw_queue_drop(h, "mail", false) == PGW_ELOCKED) puts("some still run");
 */
PGW_API pgw_status pgw_queue_purge(pgw *h, const char *queue, pgw_state state, int64_t *deleted);
/**
 * Removes a queue. Jobs that retention keeps go with it.
 *
 * @param h      the handle
 * @param queue  its name
 * @param force  true: purge its jobs first; what is leased goes with the queue
 * @returns
 * - PGW_OK
 * - PGW_ENOTFOUND
 * - PGW_ELOCKED: there are jobs, and @p force is false
 * @note What producers commit afterwards is lost: drain, wait, then drop. With @p force it cannot
 * be armed.
 */
PGW_API pgw_status pgw_queue_drop(pgw *h, const char *queue, bool force);

typedef struct pgw_depth {
    size_t struct_size;
    int64_t ready, leased, delayed, gated, dead, done; /* gated: wait for jobs of their group */
    int64_t oldest_ms; /* how long the oldest ready job has waited (see below); 0: none */
} pgw_depth;
#define PGW_DEPTH_INIT                         \
    {                                          \
        sizeof(pgw_depth), 0, 0, 0, 0, 0, 0, 0 \
    }
/**
 * Counts the jobs of a queue.
 *
 * @param h        the handle
 * @param queue    its name
 * @param at_most  each count goes so far, ready and leased together; PGW_UNLIMITED: exact
 * @param depth    takes the counts
 * @returns
 * - PGW_OK
 * - PGW_ENOTFOUND
 * @note A job waits since its enqueue, also when it was requeued. A delayed or retried job waits
 *   since its time came, a dead letter since its redrive.
 *
 *     pgw_depth depth = PGW_DEPTH_INIT;
 *     if (pgw_queue_depth(h, "mail", 100000, &depth) == PGW_OK && depth.oldest_ms > 60000)
 *         puts("more than a minute behind");
 */
PGW_API pgw_status pgw_queue_depth(pgw *h, const char *queue, int64_t at_most, pgw_depth *depth);

typedef struct pgw_queue_info {
    size_t struct_size;
    const char *name;
    bool paused, draining;
    const pgw_queue_opts *opts; /* all are set */
    const pgw_depth *depth;
} pgw_queue_info;
typedef struct pgw_queues_opts {
    size_t struct_size;
    const char *queue; /* only this one; NULL: all */
    int64_t at_most;   /* as in pgw_queue_depth() */
} pgw_queues_opts;
/* clang-format off */
#define PGW_QUEUES_OPTS_INIT {sizeof(pgw_queues_opts), NULL, PGW_UNLIMITED}
/* clang-format on */
/**
 * Lists queues by name, with their settings and counts.
 *
 * @param h     the handle
 * @param opts  which ones, and how far to count; NULL: all, exactly
 * @param fn    called for each until it returns non-zero
 * @param arg   its second argument
 * @returns
 * - PGW_OK
 * - PGW_OUTCOME_EMPTY: there is none
 *
 *     static int show(const pgw_queue_info *q, void *arg)
 *     {
 *         return fprintf(arg, "%s %" PRId64 "\n", q->name, q->depth->ready) < 0;
 *     }
 *
 *     pgw_queues_opts o = PGW_QUEUES_OPTS_INIT;
 *     o.at_most = 1000; // nobody waits for the count of a million
 *     if (pgw_queues_each(h, &o, show, stdout) == PGW_OUTCOME_EMPTY) puts("no queues");
 */
PGW_API pgw_status pgw_queues_each(pgw *h, const pgw_queues_opts *opts,
                                   int (*fn)(const pgw_queue_info *info, void *arg), void *arg);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
