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
 * At most so many permits of a name are out at any instant, over all machines. A permit is held for
 * a limited time and proven by its token, as a job's lease is:
 *
 *                acquire: token                     release
 *     (free) ------------------------> OUT ----------------------> (free)
 *        ^                             | ^
 *        |   ttl over, session ended   | |  extend: later end, same token
 *        +-----------------------------+ +--
 *
 * A permit whose time is over is gone at that moment: pgw_sema_extend() returns PGW_ELEASE, also
 * when nobody has taken it yet. So extend at a third of the ttl, and stop the work that needs the
 * permit after PGW_ELEASE. How many there are can be changed while they are out (pgw_sema_resize).
 * What is out beyond the new number goes away as it comes back, and nothing is granted before that.
 *
 * While somebody resizes or drops a semaphore in a transaction that stays open, nobody can take,
 * extend or return permits. After a second (or the deadline of the call: PGW_ETIMEDOUT) that is
 * PGW_ELOCKED, and the message names the process. Nothing is lost by that: ask again, before the
 * time of the permits is over.
 *
 * Names as for locks: UTF-8, 1..255 bytes. Acquire, extend and release need an opened handle,
 * outside of a transaction (else PGW_EMISUSE). All except the `session` option works behind a
 * pooler in transaction mode. A wait cannot be armed by pgw_async(). PGW_ENOTFOUND: no such
 * semaphore. */

/**
 * Makes a semaphore. Does nothing when it exists with as many permits. For operators.
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
 * - PGW_ELOCKED: other transactions have taken or returned permits and stayed open for ten seconds
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
 * - PGW_ELOCKED: permits are out, and @p force is false; or as for a resize
 */
PGW_API pgw_status pgw_sema_drop(pgw *h, const char *name, bool force);

typedef struct pgw_sema_opts {
    size_t struct_size;
    int permits;        /* so many, all or none; 1 .. 10,000 */
    int64_t timeout_ms; /* wait so long, up to a year; 0: try; PGW_UNLIMITED: until stopped */
    int64_t ttl_ms;     /* they are ours for so long; 100 .. 86,400,000 */
    const char *holder; /* who; NULL: property `holder` (host:pid) */
    bool session;       /* they come back at once when this session ends, not only after ttl_ms */
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
 * - PGW_ELOCKED: not enough were free, or somebody waits in front, or resizes
 * - PGW_ELIMIT: more than there are
 * - PGW_ECANCELED: stopped. The first notify of the handle's stop ends the wait.
 * - PGW_ENOTFOUND
 * - PGW_EPOOLED: opts->session needs a session
 * - PGW_EUNKNOWN: they may be out, until opts->ttl_ms is over
 * @note Those who wait are served in the order of their coming, whatever they ask for: a request
 * for many is not starved by those for one, and a try (timeout_ms 0) does not pass those who wait.
 *   Behind a pooler in transaction mode there is no queue: there waiting is polling, in no order.
 *   After 30 s in the queue a waiter goes to its end.
 * @note A process that is frozen at the head of the queue loses its session after 5 s (or four
 * times `poll.max_ms`, if that is more), and with it its place and what else the session holds.
 * @note Nobody sees that two which hold permits wait for each other's. Take all of one semaphore in
 *   one call, several semaphores in one order everywhere, and wait with a limit.
 *
 *     pgw_token token;
 *     pgw_sema_opts o = PGW_SEMA_OPTS_INIT;
 *     o.timeout_ms = 5000, o.ttl_ms = 600000; // as long as render() takes, or pgw_sema_extend()
 *     if (pgw_sema_acquire(h, "licences", &o, &token) == PGW_OK) {
 *         render();
 *         st = pgw_sema_release(h, "licences", token);
 *         if (st == PGW_ELEASE) work("it took too long: there may have been one too many");
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
 * - PGW_ELEASE: their time was over, they are lost
 * - PGW_ELOCKED: somebody resizes; they are not lost yet, ask again
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
 * - PGW_ELEASE: somebody else has them by now, or nobody; what was done under them may have been
 * one too many
 * - PGW_ELOCKED: somebody resizes; repeat it, or they come back when their time is over
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
 * Returns how many permits there are, how many are out, and how many callers wait.
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
    uint64_t number; /* of its token; the nonce is the holder's secret */
    const char *holder;
    int64_t taken_us, until_us; /* server's clock */
    int permits;
    int pid; /* they end with this session of the server; PGW_NONE: only by time */
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
