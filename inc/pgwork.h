/* SPDX-License-Identifier: PostgreSQL
 *
 * @file pgwork.h
 * A work queue and coordination service in a PostgreSQL database: claim, lease, reap.
 *
 *                 enqueue               claim: token, lease             complete
 *   (producer) -----------> READY ------------------------> LEASED -----------> DONE
 *                   |       ^ ^ ^                           | |  |  (gone, or kept by retention)
 *          run_at   |       | | |  release, lease expired   | |  |
 *                   |       | | +---------------------------+ |  |   extend: later end, same token
 *                   v  due  | |                               |  |
 *                DELAYED ---+ |      fail or snooze: later    |  |
 *                   ^         |                               |  |
 *                   +---------|-------------------------------+  |
 *                             |  redrive                         |  attempts used up, or declared
 *                            DEAD <------------------------------+  dead
 *
 * This header includes all others:
 *
 *   pgwork/status.h   statuses, sentinels, memory
 *   pgwork/conf.h     configuration, log
 *   pgwork/handle.h   connections, diagnostics, stops, deadlines, transactions
 *   pgwork/async.h    the same verbs without blocking
 *   pgwork/job.h      jobs: enqueue, claim, finish, list
 *   pgwork/queue.h    queues
 *   pgwork/bulk.h     filters, and operations on many jobs
 *   pgwork/group.h    a limit and an order for each group of jobs
 *   pgwork/worker.h   the runtime that calls handlers
 *   pgwork/reaper.h   the loop that requeues, promotes, schedules and prunes
 *   pgwork/table.h    leases, optimistic writes and row locks on your own tables
 *   pgwork/cron.h     schedules
 *   pgwork/lock.h     locks across machines
 *   pgwork/rate.h     rates across machines
 *   pgwork/sema.h     semaphores across machines
 *   pgwork/watch.h    reports of workers, waiting for a job, overdue jobs, demand
 *   pgwork/admin.h    migrations, doctor
 *
 * In the examples `h` is an open handle and `st` a pgw_status. Other names that an example does
 * not declare are variables of the obvious type. work() and render() stand for your program.
 *
 * These rules hold for every function:
 *
 * - Arguments: in the order handle, object, input, output. Many inputs are a struct. A callback
 *   comes last, and the last argument of the callback is the `arg` that was given with it. A
 *   function has at most four arguments beside the struct.
 * - Structs: initialize each struct that has struct_size with its _INIT macro, also one that a
 *   function fills. Newer libraries of the same soname add fields at the end, so programs that were
 *   built with an older header still work. @p opts may be NULL for the defaults, unless its text
 *   says otherwise.
 * - Sentinels: PGW_DEFAULT, PGW_UNLIMITED, PGW_NONE, PGW_NO_FD and PGW_NO_INDEX, see status.h.
 * - Status: a function that can fail, or that sets something, returns a pgw_status. 0 is done. > 0
 *   is an outcome, not an error. < 0 is an error; pgw_error_message() and pgw_error_hint() describe
 *   it. A function that reads one value returns the value. A function that frees, closes or
 *   notifies returns nothing, and accepts NULL.
 * - Many: a verb on many jobs or rows takes an array and its length. The result of each element is
 *   its field `outcome`, which is PGW_EUNKNOWN if it was not decided.
 * - Ownership: the text says one of three things. "The caller owns it (free with X)". "Borrowed
 *   until Y". "Copied": the library has its own copy when the call returns. An argument is copied
 *   unless its text says otherwise. After a failure an output is NULL or 0.
 * - Lists: an _each function calls @p fn for each item until it returns non-zero. The item and its
 *   strings are borrowed until @p fn returns. @p fn must not call a verb on the same handle.
 *   PGW_OUTCOME_EMPTY: there is no item.
 * - Transaction: a verb is a function that calls the server. On a handle from pgw_open() each verb
 *   is a transaction of its own, which is committed when the call returns PGW_OK. Between
 *   pgw_txn_begin() and pgw_txn_commit() the verbs share one transaction. On a handle from
 *   pgw_attach() each verb runs in the transaction of the caller, and the library never sends BEGIN
 *   or COMMIT.
 * - Threads: one thread at a time uses a handle. Different handles are independent. Any number of
 *   threads may read jobs, rows and tables. pgw_stop_notify() and pgw_reaper_reload() may be called
 *   from any thread and any signal handler. Only pgw_worker_run() starts threads.
 * - Callbacks: each must return. If a C++ exception or a longjmp() leaves one, the handle stays
 *   inside the call and refuses every later one (PGW_EMISUSE), or a transaction stays open.
 * - Time: durations are milliseconds (_ms). Points in time are microseconds since 1970 UTC (_us) by
 *   the clock of the server. Deadlines of waits use the monotonic clock.
 * - Unknown: after PGW_EUNKNOWN the statement may have been applied. Its answer was lost, or no
 *   synchronous standby confirmed the commit in time, so a failover can undo it. A finishing verb
 *   can be repeated, because the token decides. An enqueue can be repeated if it has an operation
 *   id. doc/guarantees.md lists all cases.
 *
 * Any verb can also return:
 *
 * - PGW_EINVAL: an argument is invalid. The message names it, its value (unless that is long or
 *   secret), and what is allowed. If only the server can find the fault, such as a number out of
 *   range, the SQLSTATE describes it.
 * - PGW_ECONN, PGW_ETIMEDOUT, PGW_ECANCELED, PGW_ETXN, PGW_ERETRY, PGW_ESCHEMA, PGW_EPERM, PGW_EDB,
 *   PGW_EPROTO, PGW_ENOMEM, PGW_EMISUSE
 * - PGW_ELIMIT: more than 1 GB in one call, or a limit of the server
 * - PGW_EUNKNOWN: only a verb that writes
 * - PGW_EPOOLED: a session was needed, and a pooler took it away
 * - PGW_ELOCKED: on an attached handle, the caller's lock_timeout passed. (Its statement_timeout
 *   returns PGW_ECANCELED.)
 *
 * The text of each function lists what it returns beyond these.
 */
#ifndef PGWORK_H
#define PGWORK_H

#include <pgwork/status.h>

#include <pgwork/conf.h>
#include <pgwork/handle.h>

#include <pgwork/async.h>
#include <pgwork/job.h>
#include <pgwork/queue.h>
#include <pgwork/bulk.h>
#include <pgwork/group.h>

#include <pgwork/reaper.h>
#include <pgwork/worker.h>

#include <pgwork/cron.h>
#include <pgwork/lock.h>
#include <pgwork/rate.h>
#include <pgwork/sema.h>
#include <pgwork/table.h>

#include <pgwork/admin.h>
#include <pgwork/watch.h>

#ifdef __cplusplus
extern "C" {
#endif

/** @name Version @{ */
#define PGW_VERSION_STRING "0.1.0"
#define PGW_VERSION_NUMBER 0x000100 /* MM mm pp */

/**
 * Returns the version of the library that is running.
 *
 * @returns static text
 *
 *     if (strcmp(pgw_version(), PGW_VERSION_STRING) != 0) puts("another version than the header");
 */
PGW_API const char *pgw_version(void);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
