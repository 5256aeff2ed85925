/* SPDX-License-Identifier: PostgreSQL
 *
 * @file pgwork/handle.h
 * The handle: one connection for one thread. Its errors, stops, deadlines and transactions.
 */
#ifndef PGWORK_HANDLE_H
#define PGWORK_HANDLE_H

#include <pgwork/conf.h>

#ifdef __cplusplus
extern "C" {
#endif

struct pg_conn; /* libpq's PGconn, for pgw_attach() */

typedef struct pgw pgw;           /* one connection, one thread */
typedef struct pgw_stop pgw_stop; /* asks loops and waits to end, from anywhere */

/* ------------------------------------------------------------------------------------------- */
/** @name Stop @{
 *     static pgw_stop *end;
 *     static void on_term(int sig) { (void)sig; pgw_stop_notify(end); }
 *
 *     if (pgw_stop_new(&end) != PGW_OK) return;
 *     signal(SIGTERM, on_term);
 *     struct pollfd p = {.fd = pgw_stop_fd(end), .events = POLLIN};
 *     while (pgw_stop_count(end) == 0) poll(&p, 1, -1);
 *     signal(SIGTERM, SIG_DFL); // before what it would notify is gone
 *     pgw_stop_free(end);
 */

/**
 * Makes a stop.
 *
 * @param stop  takes the stop; the caller owns it (free with pgw_stop_free, after all calls that
 *              use it have returned)
 * @returns
 * - PGW_OK
 * - PGW_ENOMEM: no memory, or no descriptors left
 * @note Each process makes its own after fork(). Parent and child would share the descriptor, but
 *   not the count.
 */
PGW_API pgw_status pgw_stop_new(pgw_stop **stop);
/**
 * Asks to stop. First call: running work finishes, and no new work starts. Second call: running
 * work is cancelled.
 *
 * @param stop  the stop
 * @note Any thread, any signal handler. Keeps errno.
 */
PGW_API void pgw_stop_notify(pgw_stop *stop);
/**
 * Returns how often pgw_stop_notify() was called, at most 2.
 *
 * @param stop  may be NULL
 * @returns 0, 1 or 2; 0 if @p stop is NULL
 * @note Any thread.
 */
PGW_API int pgw_stop_count(const pgw_stop *stop);
/**
 * Returns a descriptor that becomes readable at the first notify and stays so.
 *
 * @param stop  the stop
 * @returns a descriptor for poll(). Do not read from it or close it.
 */
PGW_API int pgw_stop_fd(const pgw_stop *stop);
/**
 * Frees a stop.
 *
 * @param stop  may be NULL
 * @note No signal handler may use it any more: reset the signals first, or do not free it before
 *   the process ends. Keeps errno.
 */
PGW_API void pgw_stop_free(pgw_stop *stop);
/** @} */

/* ------------------------------------------------------------------------------------------- */
/** @name Handle @{ */

/**
 * Opens a connection.
 *
 * @param conf  copied; NULL: the defaults. The server is that of property `dsn`, else of the
 *              variable PGWORK_DSN, else of libpq's own variables (PGHOST, PGSERVICE, ...). Several
 *              hosts and target_session_attrs work as in libpq.
 * @param h     takes the handle, also after a failure, for the error. NULL only with PGW_ENOMEM.
 *              The caller owns it (free with pgw_close).
 * @returns
 * - PGW_OK
 * - PGW_EINVAL: the connection string cannot be parsed, or the server refuses a setting of
 *   `options` and the like
 * - PGW_ECONN: no server answered within `connect.timeout_ms` for each host
 * - PGW_EPERM: the server refused the connection
 * - PGW_ESCHEMA: the database or schema does not exist, or its version or its migrations do not
 *   match this library. Property `schema.check` turns the check off.
 * - PGW_ENOMEM
 * @note The next call reopens a lost connection, with jittered backoff, within its own deadline.
 *   libpq resolves host names without a deadline; hostaddr in the connection string avoids that.
 * @note The library sets each setting that its SQL depends on, whatever the role and the database
 *   say. `options` (in the connection string, a service file or PGOPTIONS) may set other settings.
 *   PGTZ and PGDATESTYLE have no effect.
 *
 *     pgw *h;
 *     if (pgw_open(NULL, &h) != PGW_OK)
 *         fprintf(stderr, "%s: %s (%s)\n", pgw_status_name(pgw_error_status(h)),
 *                 pgw_error_message(h), pgw_error_hint(h));
 *     pgw_close(h);
 */
PGW_API pgw_status pgw_open(const pgw_conf *conf, pgw **h);

/**
 * Wraps a connection of the caller, so that calls take part in its transactions.
 *
 * @param conn  borrowed until pgw_close()
 * @param conf  copied; NULL: the defaults
 * @param h     as in pgw_open()
 * @returns
 * - PGW_OK
 * - PGW_EMISUSE: the connection is busy, in pipeline mode, or its client_encoding is not UTF8. Each
 *   verb checks that again.
 * - PGW_ETXN: its transaction has failed
 * - PGW_ECONN: it is lost
 * - PGW_ENOMEM
 * @note The library never closes, resets or configures the connection. It prepares nothing, listens
 *   to nothing, and sends no BEGIN or COMMIT. The effect of a verb commits or rolls back with the
 *   caller's transaction. pgw_attach() sends nothing and does not check the version of the schema.
 * @note If a deadline passes without an answer, the connection may stay busy. In libpq's blocking
 *   mode, sending may wait for the socket beyond the deadline. tcp_user_timeout limits that wait.
 * @note A program that calls libpq itself links with `pkg-config --libs pgwork libpq`.
 *
 *     pgw *q;
 *     pgw_job_spec job = PGW_JOB_SPEC_INIT;
 *     PQclear(PQexec(conn, "BEGIN"));
 *     PQclear(PQexec(conn, "INSERT INTO orders VALUES (42)"));
 *     st = pgw_attach(conn, NULL, &q);
 *     if (st == PGW_OK) st = pgw_enqueue(q, "mail", &job, NULL);
 *     pgw_close(q);
 *     PQclear(PQexec(conn, st < 0 ? "ROLLBACK" : "COMMIT")); // both, or neither
 */
PGW_API pgw_status pgw_attach(struct pg_conn *conn, const pgw_conf *conf, pgw **h);

/**
 * Ends the session, unless it is an attached one, and frees the handle.
 *
 * @param h  may be NULL
 * @note In the child of a fork it does what pgw_abandon() does.
 */
PGW_API void pgw_close(pgw *h);
/**
 * Frees the handle in the child of a fork and sends nothing, because the session belongs to the
 * parent.
 *
 * @param h  may be NULL
 * @note In the child all other calls on the handle return PGW_EMISUSE.
 *
 *     if (fork() == 0) {
 *         pgw_abandon(h);
 *         _exit(0);
 *     }
 */
PGW_API void pgw_abandon(pgw *h);

/**
 * Return the diagnostics of the last call: its status, a message, what to do next, the SQLSTATE,
 * and the name of the statement.
 *
 * @param h  the handle; NULL: out of memory
 * @returns never NULL; borrowed until the handle's next call. Hint, SQLSTATE (five characters) and
 *   statement may be "".
 *
 *     printf("%s: %s\n", pgw_error_statement(h), pgw_error_sqlstate(h)); // job_claim: 57P01
 */
PGW_API pgw_status pgw_error_status(const pgw *h);
PGW_API const char *pgw_error_message(const pgw *h);
PGW_API const char *pgw_error_hint(const pgw *h);
PGW_API const char *pgw_error_sqlstate(const pgw *h);
PGW_API const char *pgw_error_statement(const pgw *h);

/**
 * Returns which of several jobs, names, keys or outputs caused the error.
 *
 * @param h  the handle
 * @returns its index in the array of the call; for a load, the number of jobs before it;
 *   PGW_NO_INDEX: no single one, or @p h is NULL
 *
 *     pgw_job_spec jobs[2] = {PGW_JOB_SPEC_INIT, PGW_JOB_SPEC_INIT};
 *     st = pgw_enqueue_many(h, "mail", jobs, 2, NULL); // all, or none
 *     if (st < 0 && pgw_error_index(h) != PGW_NO_INDEX)
 *         fprintf(stderr, "job %zu: %s\n", pgw_error_index(h), pgw_error_message(h));
 */
PGW_API size_t pgw_error_index(const pgw *h);

/**
 * Gives the handle a stop. After the first notify, waits end with PGW_ECANCELED, also waits for a
 * new connection. After the second notify, a running statement is cancelled, and so is each later
 * one as soon as it has to wait.
 *
 * @param h     the handle
 * @param stop  borrowed until changed or pgw_close(); NULL: none
 * @returns
 * - PGW_OK
 * - PGW_EINVAL: @p h is NULL
 * @note Call pgw_set_stop(h, NULL) before the last calls of a program, so that they are not
 *   cancelled. If a verb is cancelled while it leaves a line of waiters, the session ends, and the
 *   handle's locks with it.
 *
 *     pgw_set_stop(h, stop);
 *     pgw_set_timeout(h, 2000);
 */
PGW_API pgw_status pgw_set_stop(pgw *h, pgw_stop *stop);
/**
 * Sets the deadline of each following call.
 *
 * @param h           the handle
 * @param timeout_ms  1 or more; PGW_DEFAULT: the property `call.timeout_ms`; PGW_UNLIMITED: none
 * @returns
 * - PGW_OK
 * - PGW_EINVAL: another number, or @p h is NULL; the deadline is unchanged
 * @note When it passes, the library cancels the statement and waits two seconds for the outcome.
 *   PGW_ETIMEDOUT: nothing was applied. If no outcome arrives, a write returns PGW_EUNKNOWN. If no
 *   connection can be opened in time, the call returns PGW_ECONN. With libpq before 17 it may take
 *   longer behind a pooler whose server is frozen: doc/connection.md.
 */
PGW_API pgw_status pgw_set_timeout(pgw *h, int64_t timeout_ms);
/**
 * Returns the server's clock at the last claim that found jobs, or the last extend.
 *
 * @param h  the handle
 * @returns microseconds since 1970; 0 before the first
 */
PGW_API int64_t pgw_server_time_us(const pgw *h);
/**
 * Reports whether a pooler changes the session between transactions.
 *
 * @param h       the handle
 * @param pooled  takes the answer
 * @returns PGW_OK, or an error of any verb
 * @note The library checks once per connection; on an attached handle it sends a statement each
 *   time. A pooler in session mode looks like one in transaction mode and counts as one.
 *
 *     bool pooled;
 *     if (pgw_is_pooled(h, &pooled) == PGW_OK && pooled) puts("workers poll here");
 *     printf("server's clock: %" PRId64 "\n", pgw_server_time_us(h));
 */
PGW_API pgw_status pgw_is_pooled(pgw *h, bool *pooled);
/** @} */

/* ------------------------------------------------------------------------------------------- */
/** @name Transactions @{
 * Several verbs in one READ COMMITTED transaction, on a handle from pgw_open(). On an attached
 * handle the caller begins and ends transactions, and these functions return PGW_EMISUSE. If the
 * connection is lost, the transaction is over, and each verb returns PGW_ECONN until
 * pgw_txn_rollback(). Then repeat the whole transaction, not only the verb.
 *
 *     pgw_job_spec job = PGW_JOB_SPEC_INIT;
 *     if (pgw_txn_begin(h) != PGW_OK) return;
 *     st = pgw_enqueue(h, "mail", &job, NULL);
 *     if (st >= 0) st = pgw_complete(h, "orders", &ref, 1, NULL);
 *     if (st >= 0) st = pgw_txn_commit(h);
 *     else pgw_txn_rollback(h);
 */

/**
 * Begins a transaction.
 *
 * @param h  an opened handle
 * @returns
 * - PGW_OK
 * - PGW_EMISUSE: one is open already
 */
PGW_API pgw_status pgw_txn_begin(pgw *h);
/**
 * Commits. After each status except PGW_EMISUSE the transaction is over.
 *
 * @param h  an opened handle
 * @returns
 * - PGW_OK
 * - PGW_ETXN: a statement had failed before, so the server rolled back instead
 * - PGW_EUNKNOWN: the answer was lost
 * - PGW_EMISUSE: no transaction is open
 */
PGW_API pgw_status pgw_txn_commit(pgw *h);
/**
 * Rolls back. Does nothing when no transaction is open.
 *
 * @param h  an opened handle
 * @returns PGW_OK, or an error of any verb
 * @note Keeps the diagnostics of the failure that led here.
 */
PGW_API pgw_status pgw_txn_rollback(pgw *h);

/** Runs in a transaction. A status >= 0 commits, an error rolls back. */
typedef pgw_status pgw_txn_fn(pgw *h, void *arg);
/**
 * Runs @p fn in a transaction and commits it, or rolls back when @p fn returned an error.
 *
 * @param h      an opened handle
 * @param tries  1..1000: how often @p fn is called at most. It is called again, with jitter, after
 *               PGW_ERETRY from @p fn or from the commit
 * @param fn     must give the right result when it is called again
 * @param arg    its second argument
 * @returns
 * - what @p fn returned, with the diagnostics of its error
 * - how the commit ended, see pgw_txn_commit()
 * - PGW_EMISUSE: @p fn armed the handle with pgw_async(); the transaction is rolled back
 *
 *     static pgw_status move(pgw *h, void *arg)
 *     {
 *         pgw_job_spec job = PGW_JOB_SPEC_INIT;
 *         pgw_status st = pgw_complete(h, "orders", arg, 1, NULL);
 *         return st < 0 ? st : pgw_enqueue(h, "mail", &job, NULL);
 *     }
 *
 *     st = pgw_txn_run(h, 5, move, &ref);
 */
PGW_API pgw_status pgw_txn_run(pgw *h, int tries, pgw_txn_fn *fn, void *arg);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
