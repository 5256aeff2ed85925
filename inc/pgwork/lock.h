/* SPDX-License-Identifier: PostgreSQL
 *
 * @file pgwork/lock.h
 * Named locks across machines, with fencing numbers.
 */
#ifndef PGWORK_LOCK_H
#define PGWORK_LOCK_H

#include <pgwork/handle.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------- */
/** @name Locks @{
 * A lock has one holder at a time, or several shared ones. It is an advisory lock of the server, so
 * it ends with the session that took it.
 *
 *                 acquire: fence            release
 *     (free) -------------------> HELD ----------------> (free)
 *                                  |
 *                                  |  the session dies: pgw_lock_check() returns PGW_ELEASE
 *                                  v
 *                                LOST      another holder may have it with a higher fence
 *
 * A holder that was paused or cut off learns late that its lock is lost. So each acquisition has a
 * fence, a number that never decreases for a name (once committed, see pgw_lock_acquire_xact()).
 * Each exclusive fence is higher than all before. Shared holders at the same time have one fence in
 * common, which is higher than that of any exclusive holder before them. Pass the fence to each
 * resource that the lock protects, and let the resource refuse lower numbers. In the same database,
 * add one statement to the transaction that writes:
 *
 *     SELECT pgwork.fence_ok('mailing 42', 17);      -- false: roll back
 *
 * If it returns true, the fence stays current until that transaction ends, because the next
 * acquisition waits for it.
 *
 * A name has 1..255 bytes of UTF-8, without NUL. pgwork.lock_key(name) is its key for
 * pg_advisory_lock() in psql or another language. If two names in use have the same key (64 bits of
 * SHA-256), the second one gets PGW_ECONFLICT.
 *
 * A session lock needs an opened handle outside of a transaction (else PGW_EMISUSE) and a session
 * of its own (PGW_EPOOLED behind a pooler in transaction mode). pgw_lock_acquire_xact() works in
 * all these cases. No verb of this section can be armed by pgw_async(). */
typedef struct pgw_lock pgw_lock; /* a lock that is, or was, held */

typedef enum pgw_lock_mode { PGW_LOCK_EXCLUSIVE, PGW_LOCK_SHARED } pgw_lock_mode;

typedef struct pgw_lock_opts {
    size_t struct_size;
    pgw_lock_mode mode;
    int64_t timeout_ms; /* longest wait, up to a year, in addition to the deadline of the call; 0:
                         * try once; PGW_UNLIMITED: until stopped */
} pgw_lock_opts;
/* clang-format off */
#define PGW_LOCK_OPTS_INIT {sizeof(pgw_lock_opts), PGW_LOCK_EXCLUSIVE, 0}
/* clang-format on */

/**
 * Takes a lock for the session of @p h.
 *
 * @param h     an opened handle
 * @param name  the lock
 * @param opts  mode, and longest wait; NULL: exclusive, try once
 * @param lock  takes the lock; the caller owns it (free with pgw_lock_release). After pgw_close()
 *              it is lost, and must still be freed.
 * @returns
 * - PGW_OK
 * - PGW_ELOCKED: another holder kept it all the time
 * - PGW_EHELD: this handle holds it already, in either mode
 * - PGW_ERETRY: a deadlock with another session. A deadlock through a second handle, or through
 *   permits, is not detected.
 * - PGW_ECANCELED: stopped. The first notify of the handle's stop ends the wait.
 * - PGW_ECONFLICT, PGW_EPOOLED, PGW_EMISUSE: see above
 * @note After any failure the lock is not held. If the release was not confirmed, the library
 *   closed the connection, and other locks of this handle are lost, too.
 * @note A release wakes up the next waiter at once: the median is 1 ms, including the commit of its
 *   fence. doc/locks.md describes the order of waiters.
 *
 *     pgw_lock_opts o = PGW_LOCK_OPTS_INIT;
 *     pgw_lock *lock;
 *     o.timeout_ms = 1000;
 *     if (pgw_lock_acquire(h, "mailing 42", &o, &lock) == PGW_OK) {
 *         send_mailing(42, pgw_lock_fence(lock));
 *         pgw_lock_release(lock);
 *     }
 */
PGW_API pgw_status pgw_lock_acquire(pgw *h, const char *name, const pgw_lock_opts *opts,
                                    pgw_lock **lock);

/**
 * Takes a lock until the open transaction of @p h ends. It works on attached handles and behind
 * poolers.
 *
 * @param h      the handle
 * @param name   the lock
 * @param opts   as in pgw_lock_acquire()
 * @param fence  takes the number; may be NULL. A transaction that takes the lock again in the same
 *               mode gets the same number.
 * @returns as pgw_lock_acquire()
 * - PGW_EMISUSE: no transaction is open
 * - PGW_EHELD: this handle holds it by pgw_lock_acquire()
 * @note After a failure other than PGW_ELOCKED, roll the transaction back.
 * @note The fence is final when the transaction has committed. A ROLLBACK undoes it, and a shared
 *   holder may then get a lower one. So do not pass it to anything outside of the database before
 *   the commit.
 *
 *     pgw_lock_opts o = PGW_LOCK_OPTS_INIT;
 *     o.mode = PGW_LOCK_SHARED;
 *     if (pgw_txn_begin(h) != PGW_OK) return;
 *     st = pgw_lock_acquire_xact(h, "mailing 42", &o, NULL);
 *     if (st == PGW_OK) work("what it protects");
 *     if (st == PGW_OK) pgw_txn_commit(h);
 *     else pgw_txn_rollback(h);
 */
PGW_API pgw_status pgw_lock_acquire_xact(pgw *h, const char *name, const pgw_lock_opts *opts,
                                         int64_t *fence);

/**
 * Releases a lock and frees it.
 *
 * @param lock  may be NULL
 * @returns
 * - PGW_OK
 * - PGW_ELEASE: the lock had been lost before, so another holder may have worked at the same time.
 *   Or the server did not confirm the release: then the connection is closed, which releases the
 *   lock, too.
 * - PGW_EMISUSE: in a transaction, in another process, or during another call. Nothing is released
 *   or freed.
 */
PGW_API pgw_status pgw_lock_release(pgw_lock *lock);

/**
 * Returns the name of a lock.
 *
 * @param lock  the lock
 * @returns borrowed as long as the lock
 */
PGW_API const char *pgw_lock_name(const pgw_lock *lock);
/**
 * Returns the fencing number of this acquisition.
 *
 * @param lock  the lock; may be NULL
 * @returns the number; 0 if @p lock is NULL
 */
PGW_API int64_t pgw_lock_fence(const pgw_lock *lock);

/**
 * Returns a descriptor that becomes readable when the session ends, and at other messages of the
 * server. Then call pgw_lock_check().
 *
 * @param lock  the lock
 * @returns a descriptor, valid until the lock is lost or released; PGW_NO_FD: lost already
 * @note The end of a session is noticed within milliseconds (p99 below 10 ms). A silent network is
 *   noticed within 5 s, by keepalives on both ends (properties keepalive.*, tcp.user_timeout_ms).
 *
 *     struct pollfd p = {.fd = pgw_lock_watch(lock), .events = POLLIN};
 *     if (poll(&p, 1, 0) != 0 && pgw_lock_check(lock) == PGW_ELEASE)
 *         printf("%s is lost\n", pgw_lock_name(lock));
 */
PGW_API int pgw_lock_watch(const pgw_lock *lock);
/**
 * Reports whether the lock is still held, as far as this process can know. It reads what has
 * arrived, and never waits.
 *
 * @param lock  the lock
 * @returns
 * - PGW_OK
 * - PGW_ELEASE: lost
 * @note pgw_async() does not apply to it: an armed verb stays armed.
 */
PGW_API pgw_status pgw_lock_check(pgw_lock *lock);
/**
 * Reports whether the lock is still held, as pgw_lock_check() does.
 *
 * @param lock  the lock
 * @returns true if pgw_lock_check() returns PGW_OK
 */
PGW_API bool pgw_lock_is_held(pgw_lock *lock);
/**
 * Waits until the lock is lost, a descriptor is readable, the handle is stopped, or the time has
 * passed.
 *
 * @param lock        the lock
 * @param fd          a descriptor to watch as well, or PGW_NO_FD
 * @param timeout_ms  how long; PGW_UNLIMITED: until something happens
 * @returns
 * - PGW_ELEASE: the lock is lost
 * - PGW_OK: @p fd is readable
 * - PGW_ECANCELED: the handle's stop was notified
 * - PGW_OUTCOME_EMPTY: the time has passed
 *
 *     while ((st = pgw_lock_guard(lock, STDIN_FILENO, 60000)) >= 0)
 *         work(st == PGW_OK ? "what stdin says" : "what is due each minute");
 *     if (!pgw_lock_is_held(lock)) work("stop");
 */
PGW_API pgw_status pgw_lock_guard(pgw_lock *lock, int fd, int64_t timeout_ms);

/**
 * Reports whether a lock is free at this moment. To act on it, acquire the lock with timeout 0
 * instead.
 *
 * @param h        the handle
 * @param name     the lock
 * @param is_free  takes the answer
 * @returns PGW_OK, or an error of any verb
 *
 *     pgw_lock_who who = PGW_LOCK_WHO_INIT;
 *     bool is_free;
 *     st = pgw_lock_is_free(h, "mailing 42", &is_free);
 *     if (st == PGW_OK && !is_free) st = pgw_lock_holder(h, "mailing 42", &who);
 *     if (st == PGW_OK && !is_free) printf("%s, pid %d\n", who.application, who.pid);
 */
PGW_API pgw_status pgw_lock_is_free(pgw *h, const char *name, bool *is_free);

typedef struct pgw_lock_info {
    size_t struct_size;
    const char *name;
    const char *application, *user, *client; /* as the server knows them; NULL: unknown or local */
    int64_t fence;                           /* PGW_NONE: a waiter, or a holder without a fence */
    int64_t since_us; /* held or waiting since, server's clock; PGW_NONE: unknown */
    int pid;          /* of the server's process */
    bool held;        /* false: waits */
    bool shared;
} pgw_lock_info;
/**
 * Lists the holders and waiters of locks.
 *
 * @param h     the handle
 * @param name  the lock; NULL: all locks, by name, whose first acquisition is committed
 * @param fn    called for each holder, then each waiter, until it returns non-zero
 * @param arg   its second argument
 * @returns
 * - PGW_OK
 * - PGW_OUTCOME_EMPTY: there is none
 *
 *     static int show(const pgw_lock_info *i, void *arg)
 *     {
 *         return fprintf(arg, "%s %s %d\n", i->name, i->held ? "held" : "waits", i->pid) < 0;
 *     }
 *
 *     st = pgw_locks_each(h, NULL, show, stdout);
 *     if (st >= 0) st = pgw_locks_prune(h, INT64_C(30) * 86400 * 1000, 1000, &n);
 */
PGW_API pgw_status pgw_locks_each(pgw *h, const char *name,
                                  int (*fn)(const pgw_lock_info *info, void *arg), void *arg);

typedef struct pgw_lock_who {
    size_t struct_size;
    char application[64], user[64], client[64]; /* "": unknown, or a local client */
    int64_t fence, since_us;
    int pid;
    bool shared;
} pgw_lock_who;
#define PGW_LOCK_WHO_INIT                                \
    {                                                    \
        sizeof(pgw_lock_who), "", "", "", 0, 0, 0, false \
    }
/**
 * Returns the holder of a lock. Of several shared holders it is the first one, as far as known.
 *
 * @param h     the handle
 * @param name  the lock
 * @param who   takes the holder
 * @returns
 * - PGW_OK
 * - PGW_OUTCOME_EMPTY: there is no holder
 */
PGW_API pgw_status pgw_lock_holder(pgw *h, const char *name, pgw_lock_who *who);
/**
 * Ends the sessions that hold a lock, and makes their fencing number stale. For operators.
 *
 * @param h      the handle
 * @param name   the lock
 * @param ended  takes how many; may be NULL
 * @returns
 * - PGW_OK
 * - PGW_EPERM: the owner of the schema needs pg_signal_backend
 *
 *     int64_t ended;
 *
 *     if (pgw_lock_break(h, "mailing 42", &ended) == PGW_OK && ended > 0) work("it is free");
 */
PGW_API pgw_status pgw_lock_break(pgw *h, const char *name, int64_t *ended);
/**
 * Deletes names that nobody holds and whose last fence is old. For operators.
 *
 * @param h          the handle
 * @param idle_ms    age of the last fence; shared holders that overlap draw only one
 * @param limit      1..1000: at most this many
 * @param forgotten  takes how many; may be NULL
 * @returns PGW_OK, or an error of any verb
 * @note If such a name is used again, its fences continue with higher numbers, and former fences
 *   are stale.
 */
PGW_API pgw_status pgw_locks_prune(pgw *h, int64_t idle_ms, int limit, int64_t *forgotten);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
