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
 * One holder at a time, or several shared ones. The lock is an advisory lock of the server, so it
 * ends with the session that took it: a holder that dies holds nothing.
 *
 *                 acquire: fence            release
 *     (free) -------------------> HELD ----------------> (free)
 *                                  |
 *                                  |  the session dies: pgw_lock_check() returns PGW_ELEASE
 *                                  v
 *                                LOST      somebody else may hold it with a higher fence
 *
 * A holder that only seems alive (paused, cut off) learns late that its lock is lost. So each
 * acquisition has a fence, a number that never goes down for a name (once committed, see
 * pgw_lock_acquire_xact()). Every exclusive one is higher than all before. Shared holders side by
 * side have one in common, higher than that of any exclusive holder before them. Give it to
 * whatever the lock protects. In the same database that is one more line in the transaction that
 * writes:
 *
 *     SELECT pgwork.fence_ok('mailing 42', 17);      -- false: roll back
 *
 * Once true it stays true until that transaction ends, because the next acquisition waits for it.
 *
 * Names: UTF-8, 1..255 bytes, any character except NUL. pgwork.lock_key(name) is the key for
 * pg_advisory_lock() and the like in psql or any other language. Should two names in use have the
 * same key (never seen: 64 bits of SHA-256), the second gets PGW_ECONFLICT, not the first one's
 * lock.
 *
 * Session locks need an opened handle and a session of its own: PGW_EMISUSE on an attached handle
 * or in a transaction, PGW_EPOOLED behind a pooler in transaction mode. pgw_lock_acquire_xact()
 * works in both places. No verb of this section can be armed by pgw_async(). */
typedef struct pgw_lock pgw_lock; /* a lock that is, or was, held */

typedef enum pgw_lock_mode { PGW_LOCK_EXCLUSIVE, PGW_LOCK_SHARED } pgw_lock_mode;

typedef struct pgw_lock_opts {
    size_t struct_size;
    pgw_lock_mode mode;
    int64_t timeout_ms; /* wait so long, up to a year, on top of the deadline of the call; 0: try;
                         * PGW_UNLIMITED: until stopped */
} pgw_lock_opts;
/* clang-format off */
#define PGW_LOCK_OPTS_INIT {sizeof(pgw_lock_opts), PGW_LOCK_EXCLUSIVE, 0}
/* clang-format on */

/**
 * Takes a lock for the session of @p h.
 *
 * @param h     an opened handle
 * @param name  the lock
 * @param opts  in which mode, and how long to wait; NULL: try to take it exclusively
 * @param lock  takes the lock; the caller owns it (free with pgw_lock_release). After pgw_close()
 *              it is lost, and still to be freed.
 * @returns
 * - PGW_OK
 * - PGW_ELOCKED: somebody else held it all the time
 * - PGW_EHELD: this handle holds it already, in either mode
 * - PGW_ERETRY: a deadlock with another session. It is seen only where this one holds what the
 * other waits for: not through a second handle, nor through permits.
 * - PGW_ECANCELED: stopped. The first notify of the handle's stop ends the wait.
 * - PGW_ECONFLICT, PGW_EPOOLED, PGW_EMISUSE: see above
 * @note After any failure the lock is not held. Where that could not be made sure, the connection
 *   was closed, and with it other locks of this handle are lost.
 * @note Those who wait stand in the server's own queue, so they are served in order and woken at
 *   once (1 ms from the release to the next holder in the median, the commit of its fence
 * included). After 30 s a waiter goes to the end of the queue, because a longer statement would
 * hold vacuum back.
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
 * Takes a lock for the transaction that is open on @p h. COMMIT or ROLLBACK releases it. Works on
 * attached handles and behind poolers.
 *
 * @param h      the handle
 * @param name   the lock
 * @param opts   as in pgw_lock_acquire()
 * @param fence  takes the number; may be NULL. A transaction that takes the lock again in the same
 *               mode gets the same number.
 * @returns as pgw_lock_acquire()
 * - PGW_EMISUSE: no transaction is open
 * - PGW_EHELD: this handle holds it by pgw_lock_acquire()
 * @note A failure other than PGW_ELOCKED is one of the transaction.
 * @note The number counts once the transaction has committed: a ROLLBACK undoes it, and a shared
 *   holder may get a lower one afterwards. So do not hand it to anything outside of the database
 *   before.
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
 * - PGW_ELEASE: the lock had been lost before, and what was done under it may not have been alone.
 *   So too when the server does not confirm the release, which closes the connection: then it is
 *   released as well.
 * - PGW_EMISUSE: in a transaction, in another process, or while a call is under way. Nothing was
 * done or freed.
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
 * @param lock  if it is NULL: 0
 */
PGW_API int64_t pgw_lock_fence(const pgw_lock *lock);

/**
 * Returns a descriptor that becomes readable when the session dies, or has something else to say.
 * Then call pgw_lock_check().
 *
 * @param lock  the lock
 * @returns a descriptor, good until the lock is lost or released; PGW_NO_FD: lost already
 * @note A session that the server ends is seen within milliseconds (p99 below 10 ms). A network
 * that goes silent is seen within 5 s, by the keepalives that the library sets on both ends
 * (properties keepalive.*, tcp.user_timeout_ms).
 *
 *     struct pollfd p = {.fd = pgw_lock_watch(lock), .events = POLLIN};
 *     if (poll(&p, 1, 0) != 0 && pgw_lock_check(lock) == PGW_ELEASE)
 *         printf("%s is lost\n", pgw_lock_name(lock));
 */
PGW_API int pgw_lock_watch(const pgw_lock *lock);
/**
 * Tells whether the lock is still ours, as far as this end can know. Reads what came, and never
 * waits.
 *
 * @param lock  the lock
 * @returns
 * - PGW_OK
 * - PGW_ELEASE: lost
 * @note It is not a verb to pgw_async(): what is armed stays so.
 */
PGW_API pgw_status pgw_lock_check(pgw_lock *lock);
/**
 * Tells the same as yes or no.
 *
 * @param lock  the lock
 */
PGW_API bool pgw_lock_is_held(pgw_lock *lock);
/**
 * Waits until the lock is lost, or something else happens.
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
 * Tells whether nobody holds a lock. Known for the moment only: to act on it, acquire with timeout
 * 0.
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
    int64_t fence;    /* PGW_NONE: waits, or took the lock without the library */
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
 * Returns who holds a lock; of several shared holders the one that took it first, as far as is
 * known.
 *
 * @param h     the handle
 * @param name  the lock
 * @param who   takes the holder
 * @returns
 * - PGW_OK
 * - PGW_OUTCOME_EMPTY: nobody
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
 * Forgets names that nobody holds, and whose fence is old. For operators.
 *
 * @param h          the handle
 * @param idle_ms    older than this; shared holders that follow each other draw one fence only
 * @param limit      1..1000: at most so many
 * @param forgotten  takes how many; may be NULL
 * @returns PGW_OK, or an error of any verb
 * @note Fences go on growing when such a name comes back, and those of before are stale.
 */
PGW_API pgw_status pgw_locks_prune(pgw *h, int64_t idle_ms, int limit, int64_t *forgotten);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
