/* SPDX-License-Identifier: PostgreSQL
 *
 * @file pgwork/sema.h
 * Semaphores across machines.
 */
#ifndef PGWORK_SEMA_H
#define PGWORK_SEMA_H

#include <pgwork/job.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------- */
/** @name Semaphores @{
 * A semaphore has a number of permits, for all machines together. A permit is held for a limited
 * time and proven by its token, like the lease of a job:
 *
 *                acquire: token                     release
 *     (free) ------------------------> OUT ----------------------> (free)
 *        ^                             | ^
 *        |   ttl over, session ended   | |  extend: later end, same token
 *        +-----------------------------+ +--
 *
 * When its time is over, a permit is lost: pgw_sema_extend() returns PGW_ELEASE, even if nobody
 * else has taken it. So extend when a third of the ttl is over, and stop the work after PGW_ELEASE.
 * pgw_sema_resize() changes the number while permits are out. Permits above the new number are
 * removed when they return, and no permit is granted before that.
 *
 * While a transaction that resizes or drops a semaphore is open, nobody can take, extend or return
 * permits. Such a call returns PGW_ELOCKED after a second (or PGW_ETIMEDOUT at its deadline), and
 * the message names the process. No permit is lost by that: call again before the time of the
 * permits is over.
 *
 * A name has 1..255 bytes of UTF-8, as for locks. Acquire, extend and release need an opened
 * handle, outside of a transaction (else PGW_EMISUSE). All except the `session` option works behind
 * a pooler in transaction mode. A wait cannot be armed by pgw_async(). PGW_ENOTFOUND: there is no
 * such semaphore. */

/**
 * Makes a semaphore. Does nothing if it exists with as many permits. For operators.
 *
 * @param h        the handle
 * @param name     its name
 * @param permits  1..10000
 * @returns
 * - PGW_OK
 * - PGW_EEXISTS: it exists with another number
 *
 *     st = pgw_sema_create(h, "licences", 5);
 *     if (st == PGW_EEXISTS) st = pgw_sema_resize(h, "licences", 5);
 *     if (pgw_sema_drop(h, "old licences", false) == PGW_ELOCKED) puts("still in use");
 */
PGW_API pgw_status pgw_sema_create(pgw *h, const char *name, int permits);
/**
 * Changes how many permits there are. For operators.
 *
 * @param h        the handle
 * @param name     its name
 * @param permits  1..10000
 * @returns
 * - PGW_OK
 * - PGW_ENOTFOUND
 * - PGW_ELOCKED: transactions that took or returned permits were still open after ten seconds
 * @note In a transaction of yours, commit at once.
 */
PGW_API pgw_status pgw_sema_resize(pgw *h, const char *name, int permits);
/**
 * Removes a semaphore. For operators.
 *
 * @param h      the handle
 * @param name   its name
 * @param force  true: also while permits are out. Their holders get PGW_ENOTFOUND at their next
 *               extend.
 * @returns
 * - PGW_OK
 * - PGW_ENOTFOUND
 * - PGW_ELOCKED: permits are out, and @p force is false; it limits a queue (pgw_queue_semaphore());
 *   or as for a resize
 */
PGW_API pgw_status pgw_sema_drop(pgw *h, const char *name, bool force);

typedef struct pgw_sema_opts {
    size_t struct_size;
    int permits;        /* how many, all or none; 1 .. 10,000 */
    int64_t timeout_ms; /* longest wait, up to a year; 0: try once; PGW_UNLIMITED: until stopped */
    int64_t ttl_ms;     /* they are lost after this time; 100 .. 86,400,000 */
    const char *holder; /* name of the holder; NULL: property `holder` (host:pid) */
    bool session;       /* true: they also return when this session ends */
} pgw_sema_opts;
/* clang-format off */
#define PGW_SEMA_OPTS_INIT {sizeof(pgw_sema_opts), 1, 0, 30000, NULL, false}
/* clang-format on */

/**
 * Takes permits under one token, all or none.
 *
 * @param h      an opened handle
 * @param name   the semaphore
 * @param opts   how many, and for how long; NULL: the defaults
 * @param token  takes the token
 * @returns
 * - PGW_OK
 * - PGW_ELOCKED: not enough permits were free, others wait in front, or a resize is open
 * - PGW_ELIMIT: more than the semaphore has
 * - PGW_ECANCELED: stopped. The first notify of the handle's stop ends the wait.
 * - PGW_ENOTFOUND
 * - PGW_EPOOLED: opts->session needs a session
 * - PGW_EUNKNOWN: the permits may be taken until opts->ttl_ms is over
 * @note Waiters are served in the order of their arrival. A request for many permits is not starved
 *   by requests for one, and a try (timeout_ms 0) does not overtake waiters. After 30 s in the
 *   queue a waiter goes to its end. Behind a pooler in transaction mode there is no queue: waiters
 *   poll, in no order.
 * @note A process that is frozen at the head of the queue loses its session after 5 s (or four
 *   times `poll.max_ms`, if that is more), with its place and everything else that the session
 *   holds.
 * @note Deadlocks through permits are not detected. Take all permits of one semaphore in one call,
 *   take several semaphores in the same order everywhere, and limit the wait.
 *
 *     pgw_token token;
 *     pgw_sema_opts o = PGW_SEMA_OPTS_INIT;
 *     o.timeout_ms = 5000, o.ttl_ms = 600000; // as long as render() takes, or pgw_sema_extend()
 *     if (pgw_sema_acquire(h, "licences", &o, &token) == PGW_OK) {
 *         render();
 *         st = pgw_sema_release(h, "licences", token);
 *         if (st == PGW_ELEASE) work("it took too long: the limit may have been exceeded");
 *     }
 */
PGW_API pgw_status pgw_sema_acquire(pgw *h, const char *name, const pgw_sema_opts *opts,
                                    pgw_token *token);
/**
 * Extends permits.
 *
 * @param h       an opened handle
 * @param name    the semaphore
 * @param token   of the permits
 * @param ttl_ms  100..86400000: from now
 * @returns
 * - PGW_OK
 * - PGW_ELEASE: their time was over, so they are lost
 * - PGW_ELOCKED: a resize is open; the permits are not lost yet, call again
 * - PGW_ENOTFOUND
 *
 *     if (pgw_is_lost(pgw_sema_extend(h, "licences", token, 30000))) work("stop");
 */
PGW_API pgw_status pgw_sema_extend(pgw *h, const char *name, pgw_token token, int64_t ttl_ms);
/**
 * Returns permits.
 *
 * @param h      an opened handle
 * @param name   the semaphore
 * @param token  of the permits
 * @returns
 * - PGW_OK
 * - PGW_ELEASE: they were lost before; the work under them may have exceeded the limit
 * - PGW_ELOCKED: a resize is open; repeat the call, or they return when their time is over
 * - PGW_ENOTFOUND
 */
PGW_API pgw_status pgw_sema_release(pgw *h, const char *name, pgw_token token);

typedef struct pgw_sema_info {
    size_t struct_size;
    const char *name;            /* borrowed during the callback; NULL from pgw_sema_status() */
    int permits, taken, waiting; /* taken may be more than permits after a resize */
} pgw_sema_info;
#define PGW_SEMA_INFO_INIT                   \
    {                                        \
        sizeof(pgw_sema_info), NULL, 0, 0, 0 \
    }
/**
 * Returns the number of permits, how many are taken, and how many callers wait.
 *
 * @param h     the handle
 * @param name  the semaphore
 * @param info  takes the numbers
 * @returns
 * - PGW_OK
 * - PGW_ENOTFOUND
 *
 *     pgw_sema_info info = PGW_SEMA_INFO_INIT;
 *     if (pgw_sema_status(h, "licences", &info) == PGW_OK) printf("%d wait\n", info.waiting);
 */
PGW_API pgw_status pgw_sema_status(pgw *h, const char *name, pgw_sema_info *info);
/**
 * Lists semaphores by name.
 *
 * @param h    the handle
 * @param fn   called for each until it returns non-zero
 * @param arg  its second argument
 * @returns
 * - PGW_OK
 * - PGW_OUTCOME_EMPTY: there is none
 *
 *     static int show(const pgw_sema_info *i, void *arg)
 *     {
 *         return fprintf(arg, "%s %d of %d\n", i->name, i->taken, i->permits) < 0;
 *     }
 *     static int show_grant(const pgw_sema_grant *g, void *arg)
 *     {
 *         return fprintf(arg, "%s %" PRId64 "\n", g->holder, g->until_us) < 0;
 *     }
 *
 *     st = pgw_semas_each(h, show, stdout);
 *     if (st >= 0) st = pgw_sema_grants_each(h, "licences", show_grant, stdout);
 */
PGW_API pgw_status pgw_semas_each(pgw *h, int (*fn)(const pgw_sema_info *info, void *arg),
                                  void *arg);

typedef struct pgw_sema_grant {
    size_t struct_size;
    uint64_t number;            /* of its token; the nonce is the holder's secret */
    const char *holder;         /* of a job: its id and its queue */
    int64_t taken_us, until_us; /* server's clock; until_us PGW_NONE: until its job ends */
    int permits;
    int pid; /* of the session with which they end; PGW_NONE: they end only by time */
} pgw_sema_grant;
/**
 * Lists the grants of a semaphore that are out, the oldest first.
 *
 * @param h     the handle
 * @param name  the semaphore
 * @param fn    called for each until it returns non-zero
 * @param arg   its second argument
 * @returns
 * - PGW_OK
 * - PGW_OUTCOME_EMPTY: there is none, or no such semaphore
 */
PGW_API pgw_status pgw_sema_grants_each(pgw *h, const char *name,
                                        int (*fn)(const pgw_sema_grant *grant, void *arg),
                                        void *arg);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
