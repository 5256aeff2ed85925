/* SPDX-License-Identifier: PostgreSQL
 *
 * @file pgwork/async.h
 * The verbs without blocking, in the caller's event loop.
 */
#ifndef PGWORK_ASYNC_H
#define PGWORK_ASYNC_H

#include <pgwork/handle.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------- */
/** @name Without blocking @{
 * pgw_async() arms the next verb on the handle: the verb sends its statement and returns
 * PGW_OUTCOME_AGAIN instead of waiting. @p done is called once, from pgw_step(), when the answer is
 * complete and committed. Outputs are filled by then, also the outcomes in an array of references,
 * so they must live until then. If a verb fails at once, it returns its error, and @p done is never
 * called. If the handle is closed first, @p done is not called either.
 *
 * PGW_OUTCOME_AGAIN is neither an error nor a success: check for it first. In @p done the next verb
 * may be started, or the handle closed. One verb at a time per handle. A step may reopen a lost
 * connection, so call pgw_fd() and pgw_events() again after each step. When a deadline passes, a
 * step may take up to a second to cancel the statement. Verbs that wait or need several round trips
 * (a claim with wait_ms, transactions, loads, migrations, loops) return PGW_EMISUSE when armed.
 *
 *     static void found(pgw *h, pgw_status st, void *arg)
 *     {
 *         if (st < 0) fprintf(stderr, "%s\n", pgw_error_message(h));
 *         *(bool *)arg = true;
 *     }
 *
 *     const char *queues[] = {"mail"};
 *     pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;
 *     bool over = false;
 *     o.queues = queues, o.queues_count = 1;
 *     pgw_async(h, found, &over);
 *     if (pgw_claim(h, &o, &batch) != PGW_OUTCOME_AGAIN) return;
 *     while (!over) {
 *         struct pollfd p = {.fd = pgw_fd(h)};
 *         if (pgw_events(h) & PGW_EVENT_READ) p.events |= POLLIN;
 *         if (pgw_events(h) & PGW_EVENT_WRITE) p.events |= POLLOUT;
 *         poll(&p, 1, (int)pgw_timeout_ms(h));
 *         pgw_step(h);
 *     }
 */
typedef enum pgw_event { PGW_EVENT_READ = 1, PGW_EVENT_WRITE = 2 } pgw_event;
/** Takes the status of a verb that pgw_async() armed. */
typedef void pgw_done_fn(pgw *h, pgw_status st, void *arg);
/**
 * Arms the next verb on the handle.
 *
 * @param h     the handle
 * @param done  called when the verb is done; NULL: disarms
 * @param arg   its third argument
 * @returns
 * - PGW_OK
 * - PGW_EINVAL: @p h is NULL
 */
PGW_API pgw_status pgw_async(pgw *h, pgw_done_fn *done, void *arg);
/**
 * Returns the socket to watch.
 *
 * @param h  the handle
 * @returns a descriptor; PGW_NO_FD: none now. After a reconnect it is another socket, perhaps with
 *   the same number. epoll forgets a socket that was closed: use EPOLL_CTL_MOD after each step, and
 *   EPOLL_CTL_ADD where that fails with ENOENT.
 */
PGW_API int pgw_fd(const pgw *h);
/**
 * Returns what to wait for.
 *
 * @param h  the handle
 * @returns PGW_EVENT_READ | PGW_EVENT_WRITE; 0: nothing, or only for pgw_timeout_ms()
 */
PGW_API int pgw_events(const pgw *h);
/**
 * Returns the longest time until pgw_step() must be called.
 *
 * @param h  the handle
 * @returns milliseconds from now; PGW_UNLIMITED: no hurry
 */
PGW_API int64_t pgw_timeout_ms(const pgw *h);
/**
 * Advances the verb as far as possible without waiting.
 *
 * @param h  the handle
 * @returns
 * - PGW_OUTCOME_AGAIN: call it again when the socket is ready
 * - PGW_OK: idle. The status of the verb was passed to @p done.
 */
PGW_API pgw_status pgw_step(pgw *h);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
