/* SPDX-License-Identifier: PostgreSQL
 *
 * @file pgwork/queue.h
 * Queues, for operators: settings, switches, counts.
 */
#ifndef PGWORK_QUEUE_H
#define PGWORK_QUEUE_H

#include <pgwork/job.h>
#include <pgwork/rate.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------- */
/** @name Queues (operator) @{
 * The first enqueue creates its queue, unless the setting `implicit_queues` is off. A name has
 * 1..200 bytes of UTF-8 without control characters. If the queue does not exist, each verb on one
 * queue returns PGW_ENOTFOUND, except pgw_queue_create() and pgw_queues_each(). */
/** What happens to an expired job: one that was not started by its expires_us or within its ttl_ms.
 * No claim returns it. A reaper removes it, also from a paused queue, which frees its unique key.
 */
typedef enum pgw_expired {
    PGW_EXPIRED_DEFAULT = PGW_DEFAULT,
    PGW_EXPIRED_DEAD = 0, /* a dead letter with the error "expired"; no attempt is counted */
    PGW_EXPIRED_DROP = 1  /* deleted */
} pgw_expired;
/* clang-format off */
typedef struct pgw_queue_opts {
    size_t struct_size;
    int64_t lease_ms;       /* default lease, 100 .. 86,400,000; default 30,000 */
    int64_t backoff_ms;     /* longest first backoff, 0 .. a year; default 1,000 */
    int64_t backoff_cap_ms; /* longest backoff, 0 .. a year; default 3,600,000 */
    int64_t retention_ms;   /* keep finished jobs for, up to 100 years; 0: not at all */
    int64_t dead_retention_ms; /* keep dead letters for, up to 100 years; default PGW_UNLIMITED: for ever */
    int max_attempts;       /* 1 .. 1000, or PGW_UNLIMITED; default 10 */
    int max_bytes;          /* payload, body and meta together, 1 .. 268,435,455; default 16,777,216 */
    pgw_switch notify;      /* wake up waiting workers; default on */
    pgw_expired expired;    /* what happens to an expired job; default PGW_EXPIRED_DEAD */
    pgw_switch payload_visible; /* pgwork_viewer sees payloads, outputs and meta; default off */
} pgw_queue_opts;           /* PGW_DEFAULT in a field: unchanged; for a new queue, its default */
#define PGW_QUEUE_OPTS_INIT {sizeof(pgw_queue_opts), PGW_DEFAULT, PGW_DEFAULT, PGW_DEFAULT, PGW_DEFAULT, PGW_DEFAULT, PGW_DEFAULT, PGW_DEFAULT, PGW_SWITCH_DEFAULT, PGW_EXPIRED_DEFAULT, PGW_SWITCH_DEFAULT}
/* clang-format on */
/**
 * Creates a queue. If it exists, changes the settings that @p opts gives.
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
 * Changes the settings that @p opts gives.
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
 * Pause: claims find no jobs (PGW_OUTCOME_EMPTY), enqueues go on. Drain: enqueues are refused
 * (PGW_EPAUSED), claims go on. Resume ends both. Running jobs are not affected.
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

typedef struct pgw_queue_hold_opts {
    size_t struct_size;
    int64_t for_ms;     /* from now, up to ten years; or: */
    int64_t until_us;   /* until this time, server's clock */
    const char *reason; /* for operators, cut at 1,000 bytes; NULL: none */
} pgw_queue_hold_opts;
/* clang-format off */
#define PGW_QUEUE_HOLD_OPTS_INIT {sizeof(pgw_queue_hold_opts), 0, 0, NULL}
/* clang-format on */
/**
 * Holds a queue: stops claims until a time. Running jobs go on. A handler holds the queue of its
 * job with pgw_hold() or PGW_VERDICT_HOLD. A hold and a pause are independent: a paused queue stays
 * paused when the hold ends.
 *
 * @param h      the handle
 * @param queue  its name
 * @param opts   for_ms or until_us, and the reason
 * @returns
 * - PGW_OK: held until then, or longer if it was held already: the latest end counts
 * - PGW_ENOTFOUND
 * - PGW_ELOCKED: an open transaction has changed the queue
 * @note A reaper ends the hold on time. Without a reaper, a claim ends it a second later.
 *
 *     pgw_queue_hold_opts o = PGW_QUEUE_HOLD_OPTS_INIT;
 *     o.for_ms = 60000, o.reason = "the mail server is down";
 *     pgw_queue_hold(h, "mail", &o);
 *     if (pgw_queue_unhold(h, "mail") == PGW_OUTCOME_EMPTY) puts("it was not held");
 */
PGW_API pgw_status pgw_queue_hold(pgw *h, const char *queue, const pgw_queue_hold_opts *opts);
/**
 * Ends a hold now.
 *
 * @param h      the handle
 * @param queue  its name
 * @returns
 * - PGW_OK
 * - PGW_OUTCOME_EMPTY: it was not held
 * - PGW_ENOTFOUND
 * - PGW_ELOCKED: an open transaction has changed the queue
 */
PGW_API pgw_status pgw_queue_unhold(pgw *h, const char *queue);
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
 * @note Jobs that are leased at the time of the call keep running. A reaper gates the jobs that are
 *   ready at that time, a thousand at each tick.
 *
 *     st = pgw_queue_limit(h, "render", 4); // there are four GPUs
 */
PGW_API pgw_status pgw_queue_limit(pgw *h, const char *queue, int limit);
/**
 * Limits how many jobs of several queues are leased at a time, together: each leased job has a
 * permit of the semaphore, as other programs can (pgw_sema_acquire()). The others are gated.
 *
 * @param h          the handle
 * @param queue      its name
 * @param semaphore  its name; NULL: no semaphore
 * @returns
 * - PGW_OK
 * - PGW_ENOTFOUND: there is no such queue, or no such semaphore
 * - PGW_ELOCKED: an open transaction is resizing or dropping the semaphore
 * @note Jobs that are leased at the time of the call keep running, without a permit. A reaper gates
 *   the jobs that are ready at that time, a thousand at each tick.
 *
 *     st = pgw_sema_create(h, "partner", 4); // the partner's API stands 4 calls at a time
 *     if (st == PGW_OK) st = pgw_queue_semaphore(h, "invoices", "partner");
 *     if (st == PGW_OK) st = pgw_queue_semaphore(h, "reports", "partner");
 */
PGW_API pgw_status pgw_queue_semaphore(pgw *h, const char *queue, const char *semaphore);
/**
 * Deletes the jobs of a state that exist when the call begins, never leased ones.
 *
 * @param h        the handle
 * @param queue    their queue
 * @param state    ready, delayed (which includes gated), dead or done; PGW_STATE_ANY: all these
 * @param deleted  takes how many, also after a failure; may be NULL
 * @returns
 * - PGW_OK
 * - PGW_ENOTFOUND
 * @note It works in pieces of 10,000 jobs. Each piece has the deadline of a call, and its own
 *   transaction unless one is open. A stop (pgw_set_stop) ends it after the current piece. It
 *   cannot be armed.
 *
 *     st = pgw_queue_purge(h, "mail", PGW_STATE_ANY, &n);
 *     if (st == PGW_OK && pgw_queue_drop(h, "mail", false) == PGW_ELOCKED) puts("some still run");
 */
PGW_API pgw_status pgw_queue_purge(pgw *h, const char *queue, pgw_state state, int64_t *deleted);
/**
 * Removes a queue, with the finished jobs that it keeps.
 *
 * @param h      the handle
 * @param queue  its name
 * @param force  true: deletes all its jobs, also leased ones
 * @returns
 * - PGW_OK
 * - PGW_ENOTFOUND
 * - PGW_ELOCKED: there are jobs, and @p force is false
 * @note A job that a producer commits afterwards is lost: drain, wait, then drop.
 * @note With @p force it first purges the queue as pgw_queue_purge() does. So after an error jobs
 * may be gone although the queue is there. It cannot be armed.
 */
PGW_API pgw_status pgw_queue_drop(pgw *h, const char *queue, bool force);

typedef struct pgw_depth {
    size_t struct_size;
    int64_t ready, leased, delayed, gated, dead, done; /* gated: wait for a limit or a rate */
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
 * @param at_most  each count ends there, ready and leased together; PGW_UNLIMITED: exact
 * @param depth    takes the counts
 * @returns
 * - PGW_OK
 * - PGW_ENOTFOUND
 * @note oldest_ms counts from the enqueue, also for a requeued job. For a delayed or retried job it
 *   counts from the end of the delay, for a dead letter from its redrive.
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
    const pgw_queue_opts *opts; /* every field has a value */
    const pgw_depth *depth;
    int64_t held_until_us;     /* server's clock; 0: not held */
    const char *hold_reason;   /* NULL: none */
    int limit;                 /* jobs that are leased at a time, at most; PGW_UNLIMITED: none */
    const pgw_rate_opts *rate; /* NULL: none; see pgw_queue_rate() */
    int64_t
        next_us; /* server's clock: when the rate lets the next job pass; 0: none waits for it */
    const char *semaphore; /* NULL: none; see pgw_queue_semaphore() */
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
