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
 *                             |  redrive                         |  attempts used up, or told so
 *                            DEAD <------------------------------+
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
 *   pgwork/reaper.h   the loop that looks after a schema
 *   pgwork/table.h    leases, optimistic writes and row locks on your own tables
 *   pgwork/cron.h     schedules
 *   pgwork/lock.h     locks across machines
 *   pgwork/sema.h     semaphores across machines
 *   pgwork/watch.h    workers, counts, what is late, demand
 *   pgwork/admin.h    migrations, doctor
 *
 * In the examples `h` is an open handle, `st` a pgw_status, and what else has not been declared is
 * what its name says. work() and render() stand for what the program does.
 *
 * Rules that hold for every function, and are not repeated:
 *
 * - Arguments come in this order: handle, object, input, output. Many inputs are a struct. A
 *   callback comes last, and its own last argument is the `arg` that was given with it. Beside
 *   the struct a function has at most four arguments.
 * - Structs with struct_size: initialize each with its _INIT macro, also one that is to be
 *   filled. So fields can be added: a program that was built with an older header goes on with
 *   a newer library of the same soname. A NULL @p opts is the defaults where nothing else is
 *   said.
 * - Sentinels: PGW_DEFAULT, PGW_UNLIMITED, PGW_NONE, PGW_NO_FD and PGW_NO_INDEX, see status.h.
 * - Return: what can fail, and what sets something, returns a pgw_status. 0 is done; > 0 is an
 *   outcome, which is no error; < 0 is an error, whose diagnostics are on the handle:
 *   pgw_error_message(), pgw_error_hint(). A function that reads one value returns the value.
 *   Those that free, close or notify return nothing, and take NULL.
 * - Many: a verb on many jobs or rows takes an array and its length. What became of each is the
 *   `outcome` of its element: PGW_EUNKNOWN where nothing was said of it.
 * - Ownership has three forms only: "the caller owns it (free with X)"; "borrowed until Y";
 *   "copied": the library has its own copy when the call returns. Arguments are copied where
 *   nothing else is said. An output is NULL or 0 after a failure.
 * - Lists: an _each function calls @p fn for each item until it returns non-zero. The item and
 *   what it points to are borrowed until @p fn returns; in it no verb may be called on the same
 *   handle. PGW_OUTCOME_EMPTY: there is none.
 * - Transaction: a verb is a function that calls the server. On a handle from pgw_open() each
 *   verb is a transaction of its own, committed when the call returns PGW_OK, unless
 *   pgw_txn_begin() opened one. On a handle from pgw_attach() each verb runs in the transaction
 *   that the caller has open, and the library never sends BEGIN or COMMIT.
 * - Threads: one handle, one thread at a time; different handles are independent. What is const
 *   when it is read (jobs, rows, tables) may be read by any number of threads.
 *   pgw_stop_notify() and pgw_reaper_reload() may be called from anywhere, also from a signal
 *   handler. Only pgw_worker_run() starts threads.
 * - Callbacks: each has to return. A C++ exception or a longjmp() that goes through the library
 *   leaves the handle inside a call, which refuses every later one (PGW_EMISUSE), or a
 *   transaction open.
 * - Time: durations are milliseconds (_ms), points in time microseconds since 1970 UTC (_us) by
 *   the server's clock. Deadlines of waits use the monotonic clock.
 * - Unknown: a statement whose answer was lost may have been applied: PGW_EUNKNOWN. So may one
 *   that is committed, but that no synchronous standby has confirmed in time: a failover can
 *   undo it. Repeating a finishing verb is harmless (the token decides); repeating an enqueue
 *   is harmless when it has an operation id. doc/guarantees.md has the whole list.
 *
 * Any verb can also return:
 *
 *   PGW_EINVAL     an argument; the message names it, its value or (where that may be long or
 *                  secret) what is wrong with it, and what is allowed. What only the server finds
 *                  out about a value, such as a number out of range, has its SQLSTATE alone.
 *   PGW_ECONN PGW_ETIMEDOUT PGW_ECANCELED PGW_ETXN PGW_ERETRY PGW_ESCHEMA PGW_EPERM PGW_EDB
 *   PGW_EPROTO PGW_ENOMEM PGW_EMISUSE
 *   PGW_ELIMIT     more than 1 GB in one call, or a limit of the server
 *   PGW_EUNKNOWN   when it writes
 *   PGW_EPOOLED    behind a pooler, which took a session away that was needed
 *   PGW_ELOCKED    on an attached handle: the caller's lock_timeout passed (the caller's
 *                  statement_timeout is PGW_ECANCELED)
 *
 * The text of a function names what it returns beyond these.
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
 *     if (strcmp(pgw_version(), PGW_VERSION_STRING) != 0) puts("not the one I was built with");
 */
PGW_API const char *pgw_version(void);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
