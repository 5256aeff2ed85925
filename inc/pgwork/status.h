/* SPDX-License-Identifier: PostgreSQL
 *
 * @file pgwork/status.h
 * Statuses, sentinels and memory.
 */
#ifndef PGWORK_STATUS_H
#define PGWORK_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__) && !defined(PGW_STATIC)
#define PGW_API __attribute__((visibility("default")))
#else
#define PGW_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------- */
/** @name Sentinels @{
 * Special values of numbers. For strings and arrays, NULL is "none" or the default, as the text of
 * each says. A duration of 0 is 0 ms: at once, without a wait. */
#define PGW_DEFAULT   (-2)         /* in options: that of the property, queue, job or schedule */
#define PGW_UNLIMITED (-1)         /* for waits, deadlines and limits: no limit */
#define PGW_NONE      0            /* for points in time (_us), ids, fences and processes: none */
#define PGW_NO_FD     (-1)         /* for descriptors: none */
#define PGW_NO_INDEX  ((size_t)-1) /* for indexes of arrays: none */

/** A setting: on, off, or unchanged. */
typedef enum pgw_switch {
    PGW_SWITCH_DEFAULT = PGW_DEFAULT,
    PGW_SWITCH_OFF = 0,
    PGW_SWITCH_ON = 1
} pgw_switch;
/** @} */

/* ------------------------------------------------------------------------------------------- */
/** @name Status @{
 * 0 is done. > 0 is an outcome (PGW_OUTCOME_...), not an error. < 0 is an error (PGW_E...). Codes
 * are never renumbered or reused. Use the predicates below instead of a switch. */
/* clang-format off */
#define PGW_STATUS_MAP(XX)                                                                         \
    XX(OK, 0, "done")                                                                              \
    XX(OUTCOME_EMPTY, 1, "nothing there")                                                                  \
    XX(OUTCOME_AGAIN, 2, "started: wait for the descriptor, then call pgw_step")                           \
    XX(OUTCOME_CANCEL, 3, "extended, but the job was cancelled: stop and finish it")                       \
    XX(OUTCOME_EXISTS, 4, "a job with this unique key is there already: its id is returned")               \
    XX(OUTCOME_REPLACED, 5, "the waiting job with this unique key took the new payload")                   \
    XX(OUTCOME_REPEATED, 6, "this operation id was applied before: its ids are returned")                  \
    XX(EINVAL, -1, "bad argument")                                                                 \
    XX(ENOMEM, -2, "out of memory, file descriptors or threads")                                   \
    XX(EMISUSE, -3, "called in a state that does not allow it")                                    \
    XX(ECONN, -4, "no connection to the server, nothing was applied")                              \
    XX(ETIMEDOUT, -5, "the deadline passed, nothing was applied")                                  \
    XX(ECANCELED, -6, "stopped on request, nothing was applied")                                   \
    XX(ETXN, -7, "the caller's transaction has already failed: roll it back")                      \
    XX(ERETRY, -8, "serialization failure, deadlock or short resources: repeat the transaction")   \
    XX(ECONFLICT, -9, "another writer was faster")                                                 \
    XX(ELEASE, -10, "the lease is lost: the token is no longer the current one")                   \
    XX(ELOCKED, -11, "another session holds it")                                                   \
    XX(EEXISTS, -12, "there already: the unique key or the name is taken")                         \
    XX(ENOTFOUND, -13, "no such job, queue or name")                                               \
    XX(ESCHEMA, -14, "the schema is missing, or of a version that this library does not support")  \
    XX(EPERM, -15, "the role may not do this, or the server is read-only")                         \
    XX(ELIMIT, -16, "over a documented limit")                                                     \
    XX(EDB, -17, "the server reported an error: ask pgw_error_sqlstate")                           \
    XX(EPROTO, -18, "the server's answer has an unexpected shape")                                 \
    XX(EUNKNOWN, -19, "the answer was lost: applied or not is unknown")                            \
    XX(EPAUSED, -20, "the queue does not accept jobs: it is being drained")                        \
    XX(EPOOLED, -21, "needs a session of its own, not a pooler in transaction mode")               \
    XX(EHELD, -22, "this handle holds the lock already")
/* clang-format on */

typedef enum pgw_status {
#define PGW_STATUS_ENUM(name, number, text) PGW_##name = number,
    PGW_STATUS_MAP(PGW_STATUS_ENUM)
#undef PGW_STATUS_ENUM
} pgw_status;

/**
 * Returns the name of a status.
 *
 * @param st  any number
 * @returns static text: "PGW_ELEASE" for PGW_ELEASE, "PGW_?" for a number that is not a status
 *
 *     st = pgw_complete(h, "mail", &ref, 1, NULL);
 *     if (st == PGW_ELEASE) work("undo"); // another worker may have the job
 *     else if (pgw_is_retriable(st) || pgw_is_unknown(st)) work("repeat"); // the token decides
 *     else if (pgw_is_bug(st)) work("report it");
 *     else if (st < 0) fprintf(stderr, "%s: %s\n", pgw_status_name(st), pgw_status_text(st));
 *     if (pgw_is_lost(st)) work("leave the job to another worker");
 */
PGW_API const char *pgw_status_name(pgw_status st);
/**
 * Returns one sentence about a status, for humans.
 *
 * @param st  any number
 * @returns static text
 */
PGW_API const char *pgw_status_text(pgw_status st);
/**
 * Returns true if the call was not applied and may succeed when it is repeated.
 *
 * @param st  the status of the call
 * @returns true for PGW_ECONN, PGW_ETIMEDOUT, PGW_ERETRY and PGW_ELOCKED
 * @note Some verbs work in pieces, each in its own transaction: purges, forced drops of queues,
 *   pgw_redrive(), pgw_reschedule(), pgw_bulk(), loads in batches and migrations. Their status is
 *   that of the last piece, and their output says how much was done.
 */
PGW_API bool pgw_is_retriable(pgw_status st);
/**
 * Returns true if the caller's lease, lock or permit is lost, or may be.
 *
 * @param st  the status of the call
 * @returns true for PGW_ELEASE and PGW_ECONN
 * @note A lost connection ends the open transaction, and the locks and permits of its session.
 *   Leases last until their time is over. After any other error call pgw_lock_check(), because the
 *   lock may be lost, too.
 */
PGW_API bool pgw_is_lost(pgw_status st);
/**
 * Returns true if it is unknown whether the call was applied.
 *
 * @param st  the status of the call
 * @returns true for PGW_EUNKNOWN
 */
PGW_API bool pgw_is_unknown(pgw_status st);
/**
 * Returns true if the program is wrong or versions do not match, so that repeating the call is
 * useless.
 *
 * @param st  the status of the call
 * @returns true for PGW_EINVAL, PGW_EMISUSE, PGW_ESCHEMA and PGW_EPROTO
 */
PGW_API bool pgw_is_bug(pgw_status st);
/** @} */

/* ------------------------------------------------------------------------------------------- */
/** @name Memory @{ */
typedef struct pgw_allocator {
    void *ctx;
    void *(*alloc)(void *ctx, size_t size);              /* size is never 0 */
    void *(*realloc)(void *ctx, void *ptr, size_t size); /* neither is ever 0 */
    void (*free)(void *ctx, void *ptr);                  /* ptr is never NULL */
} pgw_allocator;

/**
 * Replaces malloc for the whole process.
 *
 * @param a   the allocator; NULL: malloc again
 * @returns
 * - PGW_OK
 * - PGW_EINVAL: one of its functions is NULL
 * @note Call it before any other function of the library, before other threads start, and while no
 *   handle is open. libpq still uses malloc.
 *
 *     static int blocks;
 *     static void *my_alloc(void *ctx, size_t size) { ++*(int *)ctx; return malloc(size); }
 *     static void *my_realloc(void *ctx, void *p, size_t n) { (void)ctx; return realloc(p, n); }
 *     static void my_free(void *ctx, void *p) { --*(int *)ctx; free(p); }
 *
 *     const pgw_allocator mine = {&blocks, my_alloc, my_realloc, my_free};
 *     pgw_set_allocator(&mine);
 */
PGW_API pgw_status pgw_set_allocator(const pgw_allocator *a);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
