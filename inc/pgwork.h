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
 * In this order: version, status, memory, configuration, stop, handle, without blocking; jobs:
 * references, enqueue, claim and finish, looking at them, queues; worker, reaper; transactions, the
 * caller's own tables (leases, optimistic writes, row locks); schedules; migrations, doctor; locks,
 * semaphores. Each part begins with "@name".
 *
 * In the examples `h` is an open handle, `st` a pgw_status, and what else has not been declared is
 * what its name says; work() and render() stand for what the program is about.
 *
 * Rules that hold for every function here, and are not repeated:
 *
 *   Status.      0 is done; > 0 is an outcome that is no error; < 0 is an error. The story behind
 *                an error stands on the handle: pgw_error_message(), pgw_error_hint().
 *   Ownership.   Three forms only. "Caller owns (free with X)"; "borrowed until Y"; "copied": the
 *                library has its own copy when the call returns. Arguments are copied where nothing
 *                else is said. An out-parameter is NULL or 0 after a failure, and outcomes are
 *                PGW_EUNKNOWN where nothing was said of them. Every _free and _close takes NULL.
 *   Structs.     Initialize each that has struct_size with its _INIT macro, also one that is to be
 *                filled. So fields can be added: a program that was built with an older header goes
 *                on with a newer library of the same soname.
 *                @p opts may be NULL where nothing else is said: the defaults.
 *   Lists.       An _each function calls @p fn for each item until it returns non-zero. Item and
 *                what it points to are borrowed until @p fn returns; in it no verb may be called on
 *                the same handle. PGW_OUTCOME_EMPTY: there is none.
 *   Transaction. A verb is a function that speaks to the server. On a handle from pgw_open() each
 *                verb is a transaction of its own, committed when the call returns PGW_OK, unless
 *                pgw_txn_begin() opened one. On a handle from pgw_attach() each verb runs in
 *                whatever transaction the caller has open, and the library never sends BEGIN or
 *                COMMIT.
 *   Threads.     One handle, one thread at a time; different handles are independent. Whatever is
 *                const when it is read (jobs, rows, tables) may be read by any number of threads.
 *                pgw_stop_notify() and pgw_reaper_reload() may be called from anywhere, also from a
 *                signal handler. Only pgw_worker_run() starts threads.
 *   Callbacks.   Each has to return. A C++ exception or a longjmp() that goes through the library
 *                leaves the handle in the midst of a call, which refuses every later one
 *                (PGW_EMISUSE), or a transaction open.
 *   Time.        Durations are milliseconds (_ms), points in time microseconds since 1970 UTC (_us)
 *                by the server's clock. Deadlines of waits use the monotonic clock.
 *   Unknown.     A statement whose answer was lost may have been applied: PGW_EUNKNOWN. So may one
 *                that is committed, but that no synchronous standby has confirmed in time: a
 *                failover can undo it. Repeating a finishing verb is harmless (the token decides);
 *                repeating an enqueue is harmless when it carries an operation id.
 *                doc/guarantees.md has the whole list.
 *
 * Any verb can also return PGW_EINVAL (the message names the argument, its value or, where that may
 * be long or secret, what is wrong with it, and what is allowed; what only the server finds out
 * about a value, such as a number out of range, is told by its SQLSTATE alone), PGW_ENOMEM,
 * PGW_EMISUSE, PGW_ECONN, PGW_ETIMEDOUT, PGW_ECANCELED, PGW_ETXN, PGW_ERETRY, PGW_ESCHEMA,
 * PGW_EPERM, PGW_EDB, PGW_EPROTO, PGW_ELIMIT (more than 1 GB in one call, or a limit of the
 * server); when it writes, PGW_EUNKNOWN; behind a pooler PGW_EPOOLED, where it took a session away
 * that was needed; and on an attached handle PGW_ELOCKED, when the caller's lock_timeout passed
 * (his statement_timeout is PGW_ECANCELED). The text of a function names what it returns beyond
 * these.
 */
#ifndef PGWORK_H
#define PGWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) && !defined(PGW_STATIC)
#define PGW_API __attribute__((visibility("default")))
#else
#define PGW_API
#endif

/** @name Version @{ */
#define PGW_VERSION_STRING "0.1.0"
#define PGW_VERSION_NUMBER 0x000100 /* MM mm pp */

/**
 * The version of the library that is running. Static text.
 *
 *     if (strcmp(pgw_version(), PGW_VERSION_STRING) != 0) puts("not the one I was built with");
 */
PGW_API const char *pgw_version(void);
/** @} */

struct pg_conn; /* libpq's PGconn, for pgw_attach() */

typedef struct pgw pgw;               /* handle: one connection, one thread */
typedef struct pgw_conf pgw_conf;     /* configuration, copied by whoever takes it */
typedef struct pgw_job pgw_job;       /* one job as the server told it; read by accessors */
typedef struct pgw_batch pgw_batch;   /* jobs of one claim, in one block of memory */
typedef struct pgw_stop pgw_stop;     /* asks loops and waits to end, from anywhere */
typedef struct pgw_worker pgw_worker; /* the runtime that calls handlers */
typedef struct pgw_task pgw_task;     /* a job in the hands of a handler */
typedef struct pgw_reaper pgw_reaper; /* the loop that looks after a schema */
typedef struct pgw_load pgw_load;     /* a bulk enqueue under way */
typedef struct pgw_table pgw_table;   /* a table of the caller's, as it was described and found */
typedef struct pgw_rows pgw_rows;     /* rows of such a table, in one block of memory */
typedef struct pgw_edit pgw_edit;     /* one row in the hands of a pgw_edit_fn */

/* ------------------------------------------------------------------------------------------- */
/** @name Sentinels @{ */
#define PGW_DEFAULT   (-2) /* in options: as the property, the queue, the job or the schedule says \
                            */
#define PGW_UNLIMITED (-1) /* for waits and deadlines: none */
/** @} */

/* ------------------------------------------------------------------------------------------- */
/** @name Status @{
 * Codes are never renumbered and never reused. Ask the questions below instead of switching. */
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
    XX(ECONFLICT, -9, "somebody else wrote first")                                                 \
    XX(ELEASE, -10, "the lease is lost: the token is no longer the current one")                   \
    XX(ELOCKED, -11, "held by someone else")                                                       \
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
 * "PGW_ELEASE" for PGW_ELEASE; "PGW_?" for a number that is no status. Static text.
 *
 *     st = pgw_complete(h, "mail", &ref, NULL, 1, NULL);
 *     if (st == PGW_ELEASE) work("undo"); // somebody else may have the job
 *     else if (pgw_is_retriable(st) || pgw_is_unknown(st)) work("repeat"); // the token decides
 *     else if (pgw_is_bug(st)) work("tell somebody");
 *     else if (st < 0) fprintf(stderr, "%s: %s\n", pgw_status_name(st), pgw_status_text(st));
 *     if (pgw_is_lost(st)) work("leave the job to whoever may have it");
 */
PGW_API const char *pgw_status_name(pgw_status st);
/** One sentence for humans. Static text. */
PGW_API const char *pgw_status_text(pgw_status st);
/** Not applied, and the same call may well succeed later: ECONN, ETIMEDOUT, ERETRY, ELOCKED. Of a
 * verb that goes in pieces, each in a transaction of its own, it is the last piece that was not:
 * purges, pgw_redrive(), pgw_reschedule(), loads by batches and migrations say how far they came.
 */
PGW_API bool pgw_is_retriable(pgw_status st);
/** What the caller held is gone, or may be: ELEASE, ECONN. With the connection goes the open
 * transaction, but no lease: that lasts until its time is over. Locks and permits of the session go
 * with it, too, and that can happen with other errors (a call that was not answered in time): after
 * any error ask pgw_lock_check() what became of a lock. */
PGW_API bool pgw_is_lost(pgw_status st);
/** Applied or not cannot be said: EUNKNOWN. */
PGW_API bool pgw_is_unknown(pgw_status st);
/** A mistake in the program or a mismatch of versions, repeating is useless: EINVAL, EMISUSE,
 * ESCHEMA, EPROTO. */
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
 * Replaces malloc for the whole process. Call it before anything else of the library, with no
 * handle open; NULL brings malloc back. Thread rule: before other threads start. libpq goes on
 * using malloc for itself.
 *
 *     static int blocks;
 *     static void *my_alloc(void *ctx, size_t size) { ++*(int *)ctx; return malloc(size); }
 *     static void *my_realloc(void *ctx, void *p, size_t n) { (void)ctx; return realloc(p, n); }
 *     static void my_free(void *ctx, void *p) { --*(int *)ctx; free(p); }
 *
 *     const pgw_allocator mine = {&blocks, my_alloc, my_realloc, my_free};
 *     pgw_set_allocator(&mine);
 */
PGW_API void pgw_set_allocator(const pgw_allocator *a);
/** @} */

/* ------------------------------------------------------------------------------------------- */
/** @name Configuration @{
 * One table of named properties with types, limits, defaults and texts; pgw_conf_each() walks it,
 * `pgwork -X list` prints it. Values are text, checked when they are set.
 *
 *     static int show(const pgw_property *p, void *arg)
 *     {
 *         return fprintf(arg, "%s=%s (%s; %s)\n", p->name, p->value, p->text, p->allowed) < 0;
 *     }
 *     static void say(void *arg, pgw_log_level level, const char *component, const char *message)
 *     {
 *         fprintf(arg, "<%d> %s: %s\n", level, component, message);
 *     }
 *
 *     pgw_conf *conf;
 *     if (pgw_conf_new(&conf) != PGW_OK) return;
 *     if (pgw_conf_set(conf, "worker.lease_ms", "1m") != PGW_OK) puts(pgw_conf_error(conf));
 *     puts(pgw_conf_get(conf, "worker.lease_ms")); // "0": as it was
 *     pgw_conf_set_log(conf, PGW_LOG_WARN, say, stderr);
 *     pgw_conf_each(conf, show, stdout);
 *     pgw_conf_free(conf);
 */

/* Properties by type. Numbers are never reused. */
/* clang-format off */
#define PGW_CONF_INT_MAP(XX) \
    XX(CONNECT_TIMEOUT_MS, 0, "connect.timeout_ms") \
    XX(CALL_TIMEOUT_MS, 1, "call.timeout_ms") \
    XX(RECONNECT_BASE_MS, 2, "reconnect.base_ms") \
    XX(RECONNECT_CAP_MS, 3, "reconnect.cap_ms") \
    XX(KEEPALIVE_IDLE_S, 4, "keepalive.idle_s") \
    XX(KEEPALIVE_INTERVAL_S, 5, "keepalive.interval_s") \
    XX(KEEPALIVE_COUNT, 6, "keepalive.count") \
    XX(TCP_USER_TIMEOUT_MS, 7, "tcp.user_timeout_ms") \
    XX(SESSION_CHECK_INTERVAL_MS, 8, "session.check_interval_ms") \
    XX(PAYLOAD_MAX_BYTES, 9, "payload.max_bytes") \
    XX(POLL_MIN_MS, 10, "poll.min_ms") \
    XX(POLL_MAX_MS, 11, "poll.max_ms") \
    XX(WORKER_CONCURRENCY, 12, "worker.concurrency") \
    XX(WORKER_PREFETCH, 13, "worker.prefetch") \
    XX(WORKER_BATCH, 14, "worker.batch") \
    XX(WORKER_LEASE_MS, 15, "worker.lease_ms") \
    XX(WORKER_JOB_TIMEOUT_MS, 16, "worker.job_timeout_ms") \
    XX(WORKER_FLUSH_MS, 17, "worker.flush_ms") \
    XX(WORKER_FLUSH_JOBS, 18, "worker.flush_jobs") \
    XX(WORKER_STOP_MS, 19, "worker.stop_ms") \
    XX(WORKER_MAX_JOBS, 20, "worker.max_jobs") \
    XX(REAPER_MAX_WAIT_MS, 21, "reaper.max_wait_ms") \
    XX(REAPER_BATCH, 22, "reaper.batch")
#define PGW_CONF_BOOL_MAP(XX) \
    XX(SCHEMA_CHECK, 0, "schema.check") \
    XX(NOTIFY, 1, "notify") \
    XX(WORKER_UNTIL_EMPTY, 2, "worker.until_empty")
#define PGW_CONF_TEXT_MAP(XX) \
    XX(DSN, 0, "dsn") \
    XX(SCHEMA, 1, "schema") \
    XX(HOLDER, 2, "holder") \
    XX(APPLICATION_NAME, 3, "application_name") \
    XX(PREPARE, 4, "prepare") \
    XX(POOLER, 5, "pooler") \
    XX(DURABILITY, 6, "durability")
/* clang-format on */
#define PGW_CONF_ENUM(name, number, text) PGW_CONF_##name = number,
typedef enum pgw_conf_int { PGW_CONF_INT_MAP(PGW_CONF_ENUM) } pgw_conf_int;
typedef enum pgw_conf_bool { PGW_CONF_BOOL_MAP(PGW_CONF_ENUM) } pgw_conf_bool;
typedef enum pgw_conf_text { PGW_CONF_TEXT_MAP(PGW_CONF_ENUM) } pgw_conf_text;
#undef PGW_CONF_ENUM

/** A configuration with every default. Caller owns it (free with pgw_conf_free). PGW_ENOMEM. */
PGW_API pgw_status pgw_conf_new(pgw_conf **conf);
/** Sets a property; NULL brings its default back. PGW_ENOTFOUND: no such property. PGW_EINVAL: the
 * value is not allowed; pgw_conf_error() names property, value and what is allowed. PGW_ENOMEM.
 * After a failure the property is as it was. */
PGW_API pgw_status pgw_conf_set(pgw_conf *conf, const char *name, const char *value);
/** The value as text, borrowed until the next set or free; NULL: there is no such property. Numbers
 * and switches come back in one spelling: "007" is "7", "yes" is "on". */
PGW_API const char *pgw_conf_get(const pgw_conf *conf, const char *name);
/**
 * The same for values of a type, so that the compiler finds a name that does not exist. A property
 * `worker.lease_ms` is PGW_CONF_WORKER_LEASE_MS; PGW_DEFAULT as
 * a number brings its default back. Status and error as pgw_conf_set().
 *
 *     if (pgw_conf_set_int(conf, PGW_CONF_WORKER_LEASE_MS, 60000) != PGW_OK ||
 *         pgw_conf_set_bool(conf, PGW_CONF_NOTIFY, false) != PGW_OK ||
 *         pgw_conf_set_text(conf, PGW_CONF_POOLER, "session") != PGW_OK)
 *         puts(pgw_conf_error(conf));
 */
PGW_API pgw_status pgw_conf_set_int(pgw_conf *conf, pgw_conf_int property, int64_t value);
PGW_API pgw_status pgw_conf_set_bool(pgw_conf *conf, pgw_conf_bool property, bool value);
/* A word of a list is a text, too; NULL brings the default back. */
PGW_API pgw_status pgw_conf_set_text(pgw_conf *conf, pgw_conf_text property, const char *value);
/** What the last pgw_conf_set() had to say, or "". Borrowed until the next set or free. */
PGW_API const char *pgw_conf_error(const pgw_conf *conf);

typedef struct pgw_property {
    const char *name, *type, *value, *initial, *allowed, *text;
} pgw_property;
/** Calls @p fn for every property until it returns non-zero, and returns that; @p conf may be NULL:
 * the defaults. A connection string may hold a password: its value is "(set)" or "". */
PGW_API int pgw_conf_each(const pgw_conf *conf, int (*fn)(const pgw_property *p, void *arg),
                          void *arg);
/** Whoever was given the configuration has a copy. */
PGW_API void pgw_conf_free(pgw_conf *conf);

typedef enum pgw_log_level {
    PGW_LOG_ERROR = 1,
    PGW_LOG_WARN,
    PGW_LOG_INFO,
    PGW_LOG_DEBUG,
    PGW_LOG_TRACE
} pgw_log_level;
typedef void pgw_log_fn(void *arg, pgw_log_level level, const char *component, const char *message);
/** Where messages up to @p level go; nowhere by default. Payloads, parameter values and connection
 * strings are never logged. In the callback no function may be called on the handle that logs. The
 * worker calls it from its own threads, one at a time. */
PGW_API void pgw_conf_set_log(pgw_conf *conf, pgw_log_level level, pgw_log_fn *fn, void *arg);
/** @} */

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

/** Caller owns it (free with pgw_stop_free, after everything that was given it has returned). Each
 * process makes its own, after fork(): parent and child would share the descriptor, but not the
 * count; when one is notified, poll() of the other returns at once, again and again, though its
 * count is 0. PGW_ENOMEM: no memory, or no descriptors left. */
PGW_API pgw_status pgw_stop_new(pgw_stop **stop);
/** Asks to stop. The first call: finish what runs, take nothing new. The second: cancel what runs.
 * Any thread, any signal handler; keeps errno. */
PGW_API void pgw_stop_notify(pgw_stop *stop);
/** How often it was asked: 0, 1, 2. Any thread; NULL: 0. */
PGW_API int pgw_stop_count(const pgw_stop *stop);
/** A descriptor that becomes readable at the first notify and stays so: for a poll() of one's own.
 * Not to be read from or closed. */
PGW_API int pgw_stop_fd(const pgw_stop *stop);
/** When no signal handler can reach it any more: put the signals back first, or leave it to the end
 * of the process. Keeps errno. */
PGW_API void pgw_stop_free(pgw_stop *stop);
/** @} */

/* ------------------------------------------------------------------------------------------- */
/** @name Handle @{ */

/**
 * Opens a connection of its own. @p conf is copied; NULL means defaults: property `dsn` or, when
 * that is empty, PGWORK_DSN, else libpq's own variables (PGHOST, PGSERVICE, ...). Several hosts and
 * target_session_attrs work as in libpq. Waits at most `connect.timeout_ms` for each host. Checks
 * the schema's version and checksums unless `schema.check` is off. Lost connections are opened
 * again by the next call, with jittered backoff inside that call's deadline; names are looked up by
 * libpq, which may take longer (hostaddr in the connection string avoids it). Settings that the SQL
 * depends on are the library's own, whatever role and database say; `options` (of the connection
 * string, a service file or PGOPTIONS, as in libpq) may set others. PGTZ and PGDATESTYLE have no
 * effect.
 *
 * On failure *h is still a handle that carries the error (NULL only with PGW_ENOMEM): caller owns
 * it in both cases (free with pgw_close). PGW_EINVAL: the connection string cannot be parsed, or
 * the server refuses a setting of `options` and the like. PGW_ECONN: no server, also within the
 * time. PGW_EPERM: refused. PGW_ESCHEMA: no such database or schema, or not of a version that fits,
 * or migrated from other texts than this library has.
 *
 *     pgw *h;
 *     if (pgw_open(NULL, &h) != PGW_OK)
 *         fprintf(stderr, "%s: %s (%s)\n", pgw_status_name(pgw_error_status(h)),
 *                 pgw_error_message(h), pgw_error_hint(h));
 *     pgw_close(h);
 */
PGW_API pgw_status pgw_open(const pgw_conf *conf, pgw **h);

/**
 * Wraps a connection of the caller's, to take part in its transactions. The library never closes,
 * resets or configures it, prepares nothing, listens to nothing, and sends no BEGIN or COMMIT: what
 * a verb did stands or falls with the caller's transaction. @p conn is borrowed until pgw_close().
 * Sends nothing, and does not check the schema's version.
 *
 * *h as after pgw_open(). PGW_EMISUSE: the connection is busy, in pipeline mode, or its
 * client_encoding is not UTF8; each verb looks again. PGW_ETXN: its transaction has failed.
 * PGW_ECONN: it is lost. After a deadline without any answer it may be left busy. In libpq's
 * blocking mode, sending may wait for the socket beyond the deadline: tcp_user_timeout bounds it.
 *
 *     pgw *q;
 *     pgw_job_spec job = PGW_JOB_SPEC_INIT;
 *     PQclear(PQexec(conn, "BEGIN"));
 *     PQclear(PQexec(conn, "INSERT INTO orders VALUES (42)"));
 *     st = pgw_attach(conn, NULL, &q);
 *     if (st == PGW_OK) st = pgw_enqueue(q, "mail", &job, NULL, NULL);
 *     pgw_close(q);
 *     PQclear(PQexec(conn, st < 0 ? "ROLLBACK" : "COMMIT")); // both, or neither
 *
 * A program that calls libpq itself links with `pkg-config --libs pgwork libpq`.
 */
PGW_API pgw_status pgw_attach(struct pg_conn *conn, const pgw_conf *conf, pgw **h);

/** Ends the session (not an attached one) and frees the handle. In the child of a fork it does what
 * pgw_abandon() does. */
PGW_API void pgw_close(pgw *h);
/**
 * For the child of a fork: frees the handle without a word to the server, whose session is the
 * parent's. All other calls on it return PGW_EMISUSE there.
 *
 *     if (fork() == 0) {
 *         pgw_abandon(h);
 *         _exit(0);
 *     }
 */
PGW_API void pgw_abandon(pgw *h);

/** The last call's status and story. The strings are borrowed until the handle's next call; never
 * NULL. Of a NULL handle: out of memory. */
PGW_API pgw_status pgw_error_status(const pgw *h);
PGW_API const char *pgw_error_message(const pgw *h);
PGW_API const char *pgw_error_hint(const pgw *h);     /* what to do next, or "" */
PGW_API const char *pgw_error_sqlstate(const pgw *h); /* five characters, or "" */
/**
 * The name of the statement, or "".
 *
 *     printf("%s: %s\n", pgw_error_statement(h), pgw_error_sqlstate(h)); // job_claim: 57P01
 */
PGW_API const char *pgw_error_statement(const pgw *h);

/** The error is about none of many in particular. */
#define PGW_NO_INDEX ((size_t)-1)
/**
 * Which one of many jobs, names, keys or outputs it is about: its place in the array that the call
 * was given, from 0, whether the library refuses it or the server does. From a load: how many jobs
 * this load had taken before it. PGW_NO_INDEX: none in particular, or a NULL handle.
 *
 *     pgw_job_spec jobs[2] = {PGW_JOB_SPEC_INIT, PGW_JOB_SPEC_INIT};
 *     st = pgw_enqueue_many(h, "mail", jobs, 2, NULL, NULL, NULL); // all, or none
 *     if (st < 0 && pgw_error_index(h) != PGW_NO_INDEX)
 *         fprintf(stderr, "job %zu: %s\n", pgw_error_index(h), pgw_error_message(h));
 */
PGW_API size_t pgw_error_index(const pgw *h);

/**
 * Waits of @p h end with PGW_ECANCELED once @p stop is notified, that for a new connection, too; at
 * the second notify a statement under way is cancelled, and each later one as soon as it has to
 * wait. So pgw_set_stop(h, NULL) before what has to be said at the end. Where a verb is cancelled
 * that was about to give up its place in a line or its sleeping sign, it ends the session, and with
 * it locks of the handle. @p stop is borrowed until changed or pgw_close(); NULL: none.
 *
 *     pgw_set_stop(h, stop);
 *     pgw_set_timeout(h, 2000);
 */
PGW_API void pgw_set_stop(pgw *h, pgw_stop *stop);
/** Deadline of each following call; PGW_DEFAULT brings the property `call.timeout_ms` back, and
 * PGW_UNLIMITED is none.
 * When it passes, the statement is cancelled, and what the server then says within two seconds is
 * what the call returns: PGW_ETIMEDOUT is certain, else a write is PGW_EUNKNOWN. A connection that
 * cannot be had in time is PGW_ECONN. With libpq before 17 it may take longer behind a pooler whose
 * server is frozen: doc/connection.md. */
PGW_API void pgw_set_timeout(pgw *h, int64_t timeout_ms);
/** The server's clock at the last claim that found jobs, or the last extend; 0 before the first. */
PGW_API int64_t pgw_server_time_us(const pgw *h);
/**
 * Is there a pooler between us that changes sessions between transactions? Found out once per
 * connection; on an attached handle by a statement each time. A pooler in session mode cannot be
 * told from one in transaction mode, and counts as one.
 *
 *     bool pooled;
 *     if (pgw_is_pooled(h, &pooled) == PGW_OK && pooled) puts("workers poll here");
 *     printf("server's clock: %" PRId64 "\n", pgw_server_time_us(h));
 */
PGW_API pgw_status pgw_is_pooled(pgw *h, bool *pooled);
/** @} */

/* ------------------------------------------------------------------------------------------- */
/** @name Without blocking @{
 * The same verbs, in the caller's event loop. pgw_async() arms the next verb on the handle: it
 * sends and returns PGW_OUTCOME_AGAIN instead of waiting, and @p done is called exactly once, from
 * pgw_step(), when its answer is complete and committed; out-parameters are filled by then, so they
 * must live until then. A verb that fails at once returns its error and @p done is never called,
 * nor is it when the handle is closed before. PGW_OUTCOME_AGAIN is no error, and no success yet:
 * look for it first. In @p done the next verb may be started, or the handle closed. One verb at a
 * time per handle. A lost connection is opened again on the way: ask for descriptor and events anew
 * after each step. When a deadline passes, a step may take up to a second for the cancel. Verbs
 * that wait or take several round trips (a claim with wait_ms, transactions, loads, migrations,
 * loops) return PGW_EMISUSE when armed.
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
 *         pgw_step(h, 0);
 *     }
 */
typedef enum pgw_event { PGW_EVENT_READ = 1, PGW_EVENT_WRITE = 2 } pgw_event;
typedef void pgw_done_fn(pgw *h, pgw_status st, void *arg);
/** Arms the next verb; @p done NULL: disarms. */
PGW_API void pgw_async(pgw *h, pgw_done_fn *done, void *arg);
/** The socket; -1: none now. After a reconnect it is another one, perhaps with the same number.
 * With epoll, which forgets a socket that was closed: EPOLL_CTL_MOD after each step, and
 * EPOLL_CTL_ADD where that says ENOENT. */
PGW_API int pgw_fd(const pgw *h);
/** PGW_EVENT_READ | PGW_EVENT_WRITE: what to wait for now; 0: nothing, or only for
 * pgw_timeout_ms(). */
PGW_API int pgw_events(const pgw *h);
/** Call pgw_step() by then; -1: no hurry. */
PGW_API int64_t pgw_timeout_ms(const pgw *h);
/** Does what can be done without waiting. @p events is for what poll() found; it looks for itself
 * now, so 0 will do. PGW_OUTCOME_AGAIN: call again when ready. PGW_OK: idle. The verb's own status
 * goes to
 * @p done. */
PGW_API pgw_status pgw_step(pgw *h, int events);
/** @} */

/* ------------------------------------------------------------------------------------------- */
/** @name Jobs: references @{ */

/** The fencing token of one claim. The number only grows for a job; the nonce is random. Compared
 * for equality. */
typedef struct pgw_token {
    uint64_t number, nonce;
} pgw_token;

/** What a finishing verb needs to name a job and prove that it is ours. A plain value. */
typedef struct pgw_ref {
    int64_t id;
    pgw_token token;
} pgw_ref;

#define PGW_TOKEN_TEXT_SIZE 37 /* bytes for a token as text, with the end */
/**
 * Writes the token as one shell word (a UUID) into @p text. Returns @p text.
 *
 *     char text[PGW_TOKEN_TEXT_SIZE];
 *     puts(pgw_token_format(ref.token, text));
 *     if (pgw_token_parse(text, &ref.token) != PGW_OK) puts("not a token");
 */
PGW_API char *pgw_token_format(pgw_token token, char text[PGW_TOKEN_TEXT_SIZE]);
/** PGW_EINVAL: not a token. */
PGW_API pgw_status pgw_token_parse(const char *text, pgw_token *token);
/** @} */

/* ------------------------------------------------------------------------------------------- */
/** @name Enqueue @{ */

/** How long a unique key stays taken: until the job is over, until it is claimed, or for
 * key_period_ms, whatever becomes of it. */
typedef enum pgw_key_scope {
    PGW_KEY_SCOPE_UNFINISHED,
    PGW_KEY_SCOPE_READY,
    PGW_KEY_SCOPE_PERIOD
} pgw_key_scope;
/** What an enqueue does when its unique key is taken: nothing (PGW_OUTCOME_EXISTS); put its payload
 * and body into the job that waits (PGW_OUTCOME_REPLACED; PGW_OUTCOME_EXISTS when that runs); fail
 * (PGW_EEXISTS). */
typedef enum pgw_key_policy {
    PGW_KEY_POLICY_SKIP,
    PGW_KEY_POLICY_REPLACE,
    PGW_KEY_POLICY_ERROR
} pgw_key_policy;

/* clang-format off */
/** A job to be. */
typedef struct pgw_job_spec {
    size_t struct_size;
    const char *payload;      /* JSON text, NULL: none */
    const char *kind;         /* what sort of job, up to 255 bytes; NULL: "" */
    const void *body;         /* opaque bytes beside the payload, NULL: none */
    size_t body_size;
    int priority;             /* 0 (first) .. 9 */
    int64_t run_at_us;        /* not before, server's clock; 0: at once */
    int64_t delay_ms;         /* or: this long from now, up to ten years; not together with run_at_us */
    int max_attempts;         /* 1 .. 1000; PGW_DEFAULT: as the queue says */
    int64_t lease_ms;         /* 100 .. 86,400,000; PGW_DEFAULT: as the claim or the queue says */
    const char *const *tags;
    size_t tags_count;        /* up to 32, each 1 to 255 bytes */
    const char *key;          /* unique key, 1 to 255 bytes; NULL: none */
    pgw_key_scope key_scope;
    pgw_key_policy key_policy;
    int64_t key_period_ms;    /* for PGW_KEY_SCOPE_PERIOD: 1 ms to a year */
    const char *group;        /* kept with the job, 1 to 255 bytes; NULL: none */
    int64_t expires_us;       /* kept with the job, server's clock; 0: none */
    const char *meta;         /* such as a trace context, a JSON object that a claim returns; NULL: none */
} pgw_job_spec;
#define PGW_JOB_SPEC_INIT \
    {sizeof(pgw_job_spec), NULL, NULL, NULL, 0, 0, 0, 0, PGW_DEFAULT, PGW_DEFAULT, NULL, 0, NULL, PGW_KEY_SCOPE_UNFINISHED, PGW_KEY_POLICY_SKIP, 0, NULL, 0, NULL}
/* clang-format on */

/**
 * Adds a job; it can be claimed once the transaction commits. @p id (may be NULL) takes its id.
 * @p op (a UUID as text, or NULL) makes the call repeatable: a second call with it, for the same
 * queue, adds nothing and returns PGW_OUTCOME_REPEATED with the same id; it is remembered for a day
 * (setting `op_retention_ms`). Texts are UTF-8, without control characters except in payload, body
 * and meta.
 *
 * PGW_OUTCOME_EXISTS, PGW_OUTCOME_REPLACED (*id is the job that has the key), PGW_EEXISTS: see
 * pgw_key_policy. PGW_ELIMIT: payload, body and meta together are over the queue's max_bytes, or
 * the property `payload.max_bytes`. PGW_EPAUSED: the queue is drained. PGW_ENOTFOUND: no such
 * queue, and the setting `implicit_queues` is off.
 *
 *     pgw_job_spec job = PGW_JOB_SPEC_INIT;
 *     job.kind = "resize", job.payload = "{\"file\": \"a.png\"}";
 *     job.meta = "{\"traceparent\": \"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\"}";
 *     st = pgw_enqueue(h, "images", &job, "0b4b5b35-3a4c-4d5f-9a51-0f1e2d3c4b5a", &id);
 *     if (st >= 0) printf("job %" PRId64 "\n", id);
 */
PGW_API pgw_status pgw_enqueue(pgw *h, const char *queue, const pgw_job_spec *job, const char *op,
                               int64_t *id);

/**
 * Adds @p n jobs (1 .. 10,000) in one statement: all or none. @p ids and @p outcomes (arrays of n,
 * either may be NULL) take each job's id and PGW_OK, PGW_OUTCOME_EXISTS or PGW_OUTCOME_REPLACED.
 * The unique key's scope, policy and period are those of the first job. Status as pgw_enqueue():
 * PGW_OUTCOME_REPEATED, else PGW_OUTCOME_EXISTS or PGW_OUTCOME_REPLACED when that happened to at
 * least one job (PGW_OUTCOME_EXISTS goes before), else PGW_OK. PGW_EINVAL also when @p op was used
 * for another number of jobs. Which job is refused: pgw_error_index().
 *
 *     pgw_job_spec jobs[2] = {PGW_JOB_SPEC_INIT, PGW_JOB_SPEC_INIT};
 *     pgw_status outcomes[2];
 *     int64_t ids[2];
 *     jobs[0].key = "ann", jobs[1].key = "bob";
 *     st = pgw_enqueue_many(h, "mail", jobs, 2, NULL, ids, outcomes);
 *     if (outcomes[1] == PGW_OUTCOME_EXISTS) puts("bob's is there already");
 */
PGW_API pgw_status pgw_enqueue_many(pgw *h, const char *queue, const pgw_job_spec *jobs, size_t n,
                                    const char *op, int64_t *ids, pgw_status *outcomes);

/**
 * A bulk enqueue without a limit in number: COPY in binary where the role is the owner of the
 * tables or a member of that role, else batches of pgw_enqueue_many(). Unique keys are not for bulk
 * (PGW_EINVAL). On an opened handle the whole load is one transaction when COPY is used, one per
 * 10,000 jobs or 8 MB otherwise. Inside a transaction it is batches, and part of that: what has not
 * been sent when the transaction ends is refused (PGW_EMISUSE; on an attached handle, unless
 * another one is open by then). One load at a time for each handle, and no other verb until
 * pgw_load_end(): with COPY that is PGW_EMISUSE.
 *
 * Caller owns the load (free with pgw_load_end). After pgw_close() its verbs return PGW_ECONN, and
 * what was not committed is gone. From here or from a later call: PGW_EPAUSED, PGW_ENOTFOUND as
 * pgw_enqueue().
 *
 *     pgw_load *load;
 *     pgw_job_spec job = PGW_JOB_SPEC_INIT;
 *     char payload[32];
 *     st = pgw_load_begin(h, "numbers", &load);
 *     for (int i = 0; st == PGW_OK && i < 1000000; i++) {
 *         snprintf(payload, sizeof(payload), "%d", i);
 *         job.payload = payload;
 *         st = pgw_load_add(load, &job);
 *     }
 *     if (st == PGW_OK) st = pgw_load_end(load, true, &n);
 *     else pgw_load_end(load, false, NULL);
 */
PGW_API pgw_status pgw_load_begin(pgw *h, const char *queue, pgw_load **load);
/** PGW_EINVAL and PGW_ELIMIT refuse this job when its fields say so, and the load goes on; what
 * only the server finds (a number in the payload that it has no room for; with batches, more than
 * the queue's max_bytes) spoils the load: a later call tells, within 16 MB of jobs or at the end,
 * and every call after it says the same. Which job:
 * pgw_error_index(), except of a COPY. When armed PGW_EMISUSE: the job is not taken, and the load
 * goes on. */
PGW_API pgw_status pgw_load_add(pgw_load *load, const pgw_job_spec *job);
/** Commits (or, with @p keep false, abandons what was not committed) and frees. @p added (may be
 * NULL) says how many jobs were added, after a failure, too; after PGW_EUNKNOWN the next 10,000 or
 * 8 MB of them may be. A spoiled load returns what spoiled it. When armed PGW_EMISUSE (not with @p
 * keep false): nothing more is committed. NULL is fine. */
PGW_API pgw_status pgw_load_end(pgw_load *load, bool keep, int64_t *added);

/**
 * Removes jobs that wait; asks running ones to stop; @p n is 1 .. 10,000. outcomes[i] (array of n,
 * or NULL): PGW_OK gone, PGW_OUTCOME_CANCEL asked, PGW_ENOTFOUND. Returns PGW_OUTCOME_CANCEL when
 * at least one runs: its holder is told at its next extend. When it is failed (but to the dead
 * letters), snoozed, released or taken back, it is gone. PGW_ENOTFOUND: no such queue, or none of
 * the jobs waits or runs. Rights: pgwork_producer or pgwork_operator.
 *
 *     pgw_status outcome;
 *     st = pgw_cancel(h, "mail", &id, 1, &outcome);
 *     if (st == PGW_OUTCOME_CANCEL) puts("it runs, and will stop soon");
 */
PGW_API pgw_status pgw_cancel(pgw *h, const char *queue, const int64_t *ids, size_t n,
                              pgw_status *outcomes);
/** @} */

/* ------------------------------------------------------------------------------------------- */
/** @name Claim and finish @{ */
/* clang-format off */
typedef struct pgw_claim_opts {
    size_t struct_size;
    const char *const *queues;
    size_t queues_count; /* 1 .. 64 */
    int max;             /* 1 .. 10,000 jobs */
    const char *holder;  /* who, up to 255 bytes; NULL: property `holder` (host:pid) */
    int64_t lease_ms;    /* 100 .. 86,400,000; PGW_DEFAULT: as the queue says. A job's own goes before */
    int64_t wait_ms;     /* wait so long for a first job; 0: don't; PGW_UNLIMITED: until stopped */
    int apart;           /* 1: jobs will be finished one by one in long transactions; 0: no */
} pgw_claim_opts;
#define PGW_CLAIM_OPTS_INIT {sizeof(pgw_claim_opts), NULL, 0, 1, NULL, PGW_DEFAULT, 0, 0}
/* clang-format on */

/**
 * Takes up to max jobs, the lowest priority number first, then the oldest; never one under a live
 * lease, never one that waits for its time. With several queues, the one whose first job comes
 * first is served first. An attempt is charged. @p opts is not NULL. *batch: caller owns (free with
 * pgw_batch_free). PGW_OUTCOME_EMPTY: nothing there, *batch is NULL; so too where a queue is paused
 * or does not exist: it may come. Claim outside of a transaction: its ROLLBACK undoes the claim,
 * and with wait_ms it is PGW_EMISUSE in one of an opened handle. PGW_EUNKNOWN, and PGW_ENOMEM once
 * the server has answered: jobs that were claimed come back when their leases expire.
 *
 * The server keeps jobs that travel together in rows of up to a hundred. A call that finishes one
 * of them locks the row until its transaction ends, and calls that finish others of the row wait.
 * Set apart to finish jobs one by one in long transactions: each job then has a row of its own,
 * which costs the server more.
 *
 *     const char *queues[] = {"images", "mail"};
 *     pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;
 *     o.queues = queues, o.queues_count = 2, o.max = 10, o.wait_ms = 5000;
 *     if (pgw_claim(h, &o, &batch) == PGW_OK) {
 *         for (size_t i = 0; i < pgw_batch_count(batch); i++) { // all within their lease,
 *             job = pgw_batch_job(batch, i);                    // or pgw_extend() it
 *             ref = pgw_job_ref(job);
 *             work(pgw_job_payload(job));
 *             st = pgw_complete(h, pgw_job_queue(job), &ref, NULL, 1, NULL);
 *             if (st == PGW_ELEASE) work("too late: somebody else may have done it");
 *         }
 *         pgw_batch_free(batch);
 *     }
 */
PGW_API pgw_status pgw_claim(pgw *h, const pgw_claim_opts *opts, pgw_batch **batch);

/*
 * Finishing verbs. @p refs are 1 .. 10,000 jobs of @p queue with the tokens of their claims, each
 * named once. Each is accepted only while its token is the current one; outcomes[i] (array of n, or
 * NULL) says PGW_OK, PGW_ELEASE (another claim has or had it since) or PGW_ENOTFOUND (finished,
 * cancelled or never there). Return PGW_OK when all were accepted, PGW_ELEASE when at least one was
 * refused; the accepted ones are done either way. PGW_ENOTFOUND: no such queue. Until the answer is
 * there, and for good when the call as a whole has failed, the outcomes are PGW_EUNKNOWN: its own
 * status tells then if anything can have been applied. A late call is accepted as
 * long as nobody took the lease away. All work on an attached handle: then job and the caller's own
 * writes commit together; roll back when told PGW_ELEASE.
 */

/**
 * Done: the row goes away, or is kept with outputs[i] (JSON, or NULL; the array may be NULL) as
 * long as the queue's retention says. PGW_ELIMIT: an output is over `payload.max_bytes`.
 *
 *     const char *output = "{\"bytes\": 7}";
 *     pgw_status outcome;
 *     if (pgw_complete(h, "images", &ref, &output, 1, &outcome) == PGW_ELEASE)
 *         puts(outcome == PGW_ENOTFOUND ? "it is gone" : "somebody else has it");
 */
PGW_API pgw_status pgw_complete(pgw *h, const char *queue, const pgw_ref *refs,
                                const char *const *outputs, size_t n, pgw_status *outcomes);

/* clang-format off */
typedef struct pgw_fail_opts {
    size_t struct_size;
    const char *error; /* text kept with the job, cut at 8,000 bytes; what is not UTF-8 becomes "?" */
    int64_t retry_ms;  /* try again after, up to a year; PGW_DEFAULT: exponential backoff with full jitter as the queue says */
    bool dead;         /* to the dead letters at once */
} pgw_fail_opts;
#define PGW_FAIL_OPTS_INIT {sizeof(pgw_fail_opts), NULL, PGW_DEFAULT, false}
/* clang-format on */
/**
 * Failed: tried again later, or to the dead letters when the attempts are used up.
 *
 *     pgw_fail_opts o = PGW_FAIL_OPTS_INIT;
 *     o.error = "no such file", o.dead = true;
 *     pgw_fail(h, "images", &ref, 1, &o, NULL);
 */
PGW_API pgw_status pgw_fail(pgw *h, const char *queue, const pgw_ref *refs, size_t n,
                            const pgw_fail_opts *opts, pgw_status *outcomes);
/**
 * Not now: again after @p delay_ms (up to ten years), no attempt charged.
 *
 *     if (getenv("AT_NIGHT_ONLY")) pgw_snooze(h, "images", &ref, 1, 3600 * 1000, NULL);
 *     else pgw_release(h, "images", &ref, 1, NULL);
 */
PGW_API pgw_status pgw_snooze(pgw *h, const char *queue, const pgw_ref *refs, size_t n,
                              int64_t delay_ms, pgw_status *outcomes);
/** Not started: ready again, behind what waits in its priority, no attempt charged. */
PGW_API pgw_status pgw_release(pgw *h, const char *queue, const pgw_ref *refs, size_t n,
                               pgw_status *outcomes);
/**
 * Still at it: the lease ends @p lease_ms from now (PGW_DEFAULT: as the job, else the queue says).
 * outcomes[i] may also be PGW_OUTCOME_CANCEL: extended, but please stop; the call returns PGW_OK
 * then. Or PGW_ELOCKED: another transaction holds the job just now (it is finishing it, say), so it
 * is neither extended nor refused, and nobody else can have it as long; ask again before the lease
 * ends. The call never waits for such a transaction; it returns PGW_ELOCKED unless another job was
 * refused.
 *
 *     pgw_status outcome;
 *     st = pgw_extend(h, "images", &ref, 1, 60000, &outcome);
 *     if (st == PGW_ELEASE || outcome == PGW_OUTCOME_CANCEL) work("stop");
 *     else if (st != PGW_OK) work("a little more, and ask again");
 */
PGW_API pgw_status pgw_extend(pgw *h, const char *queue, const pgw_ref *refs, size_t n,
                              int64_t lease_ms, pgw_status *outcomes);

/**
 * pgw_complete() and pgw_claim() in one round trip and one transaction, for one queue
 * (opts->queues_count is 1, wait_ms 0); @p n may be 0. Returns as the claim does; look at the
 * outcomes for the rest. PGW_ENOTFOUND: no such queue. Where the claim fails, the completion is
 * undone with it, and all outcomes are PGW_EUNKNOWN: then complete alone. With PGW_ENOMEM after the
 * answer has come, both are done: outcomes tell of the completion, and what was claimed waits for
 * its leases to end.
 *
 *     const char *queue = "images";
 *     pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;
 *     pgw_status outcome;
 *     o.queues = &queue, o.queues_count = 1;
 *     st = pgw_complete_and_claim(h, &ref, 1, &o, &outcome, &batch);
 */
PGW_API pgw_status pgw_complete_and_claim(pgw *h, const pgw_ref *refs, size_t n,
                                          const pgw_claim_opts *opts, pgw_status *outcomes,
                                          pgw_batch **batch);

/** How many jobs; 0 of NULL. */
PGW_API size_t pgw_batch_count(const pgw_batch *batch);
/** Borrowed until pgw_batch_free(). NULL when i is out of range. */
PGW_API const pgw_job *pgw_batch_job(const pgw_batch *batch, size_t i);
/** Frees its jobs as well. */
PGW_API void pgw_batch_free(pgw_batch *batch);

/**
 * What a job says. Strings are borrowed as long as the job lives; NULL where there is none. Of a
 * NULL job all is 0 or NULL.
 *
 *     size_t size;
 *     const char *body = pgw_job_body(job, &size);
 *     printf("%" PRId64 " %s, priority %d, attempt %d of %d, %zu bytes: %.*s\n", pgw_job_id(job),
 *            pgw_job_kind(job), pgw_job_priority(job), pgw_job_attempt(job),
 *            pgw_job_max_attempts(job), size, (int)size, body != NULL ? body : "");
 *     if (pgw_job_meta(job) != NULL) printf("meta %s\n", pgw_job_meta(job));
 *     for (size_t i = 0; i < pgw_job_tags_count(job); i++) puts(pgw_job_tag(job, i));
 *     printf("%" PRId64 " ms\n", (pgw_job_lease_until_us(job) - pgw_job_created_us(job)) / 1000);
 */
PGW_API int64_t pgw_job_id(const pgw_job *job);
PGW_API pgw_ref pgw_job_ref(const pgw_job *job);
PGW_API const char *pgw_job_queue(const pgw_job *job);
PGW_API const char *pgw_job_kind(const pgw_job *job);
PGW_API const char *pgw_job_payload(const pgw_job *job); /* JSON text */
PGW_API const char *pgw_job_meta(const pgw_job *job);    /* JSON text, an object */
PGW_API const void *pgw_job_body(const pgw_job *job, size_t *size);
PGW_API int pgw_job_priority(const pgw_job *job);
PGW_API int pgw_job_attempt(const pgw_job *job);      /* 1 at the first claim */
PGW_API int pgw_job_max_attempts(const pgw_job *job); /* 0: done or cancelled */
PGW_API size_t pgw_job_tags_count(const pgw_job *job);
PGW_API const char *pgw_job_tag(const pgw_job *job, size_t i);
PGW_API int64_t pgw_job_created_us(const pgw_job *job);
PGW_API int64_t pgw_job_lease_until_us(const pgw_job *job); /* 0: not leased */
/** What is known beyond a claim, from pgw_jobs_each(); there the ref has no token. State is one of
 * ready, delayed, leased, done, dead, cancelled. */
PGW_API const char *pgw_job_state(const pgw_job *job);
PGW_API const char *pgw_job_holder(const pgw_job *job);
PGW_API const char *pgw_job_error(const pgw_job *job);
PGW_API const char *pgw_job_key(const pgw_job *job);
PGW_API const char *pgw_job_group(const pgw_job *job);
PGW_API int64_t pgw_job_expires_us(const pgw_job *job); /* 0: none */
PGW_API const char *pgw_job_output(const pgw_job *job);
PGW_API int64_t pgw_job_run_at_us(const pgw_job *job); /* of a delayed job; else 0 */
PGW_API int64_t pgw_job_finished_us(const pgw_job *job);
/** @} */

/* ------------------------------------------------------------------------------------------- */
/** @name Looking at jobs (operator) @{ */
/* clang-format off */
typedef struct pgw_jobs_opts {
    size_t struct_size;
    const char *queue; /* NULL: all */
    const char *state; /* NULL: all */
    const char *kind;  /* NULL: all */
    int64_t id;        /* 0: all */
    int limit;         /* 1 .. 100,000 */
    int64_t after_id;  /* 0: from the first; else behind this one, which need not be there */
} pgw_jobs_opts;
#define PGW_JOBS_OPTS_INIT {sizeof(pgw_jobs_opts), NULL, NULL, NULL, 0, 100, 0}
/* clang-format on */
/**
 * Jobs in the order of their ids, which is that of their enqueues. Of a body only the size is told.
 *
 * A list of more than @p limit goes on with @p after_id, the last id of the page before. A job
 * keeps its id whatever becomes of it: one that is there all the time is on one page and on no
 * other. A page, or one @p id, costs no more where millions wait; jobs of a @p kind, or in a state
 * that few are in, are searched for among all that come behind @p after_id. With @p queue it costs
 * less.
 *
 *     static int show(const pgw_job *job, void *arg)
 *     {
 *         int64_t *last = arg;
 *         const char *holder = pgw_job_holder(job), *key = pgw_job_key(job);
 *         const char *error = pgw_job_error(job), *output = pgw_job_output(job);
 *         int64_t age_us = pgw_job_finished_us(job) - pgw_job_created_us(job);
 *         *last = pgw_job_id(job);
 *         printf("%s %" PRId64 " %" PRId64 " ", pgw_job_state(job), age_us,
 *                pgw_job_run_at_us(job));
 *         printf("%s %s ", holder != NULL ? holder : "-", key != NULL ? key : "-");
 *         if (pgw_job_group(job) != NULL) printf("group %s ", pgw_job_group(job));
 *         if (pgw_job_expires_us(job) != 0) printf("until %" PRId64 " ", pgw_job_expires_us(job));
 *         return printf("%s\n", error != NULL ? error : output != NULL ? output : "") < 0;
 *     }
 *
 *     pgw_jobs_opts o = PGW_JOBS_OPTS_INIT;
 *     int64_t last = 0;
 *     o.queue = "mail", o.state = "dead";
 *     do {
 *         o.after_id = last;
 *         st = pgw_jobs_each(h, &o, show, &last);
 *     } while (st == PGW_OK);
 */
PGW_API pgw_status pgw_jobs_each(pgw *h, const pgw_jobs_opts *opts,
                                 int (*fn)(const pgw_job *job, void *arg), void *arg);
/* clang-format off */
typedef struct pgw_reschedule_opts {
    size_t struct_size;
    const int64_t *ids; /* these, up to 10,000; NULL: all */
    size_t ids_count;   /* an empty list names none */
    const char *kind;   /* of these only this kind; NULL: any */
    int64_t run_at_us;  /* not before, server's clock; 0, or past: at once */
    int64_t delay_ms;   /* or: this long from now, up to ten years; not together with run_at_us */
    int64_t limit;      /* at most so many, in the order of their ids; 0: all */
} pgw_reschedule_opts;
#define PGW_RESCHEDULE_OPTS_INIT {sizeof(pgw_reschedule_opts), NULL, 0, NULL, 0, 0, 0}
/* clang-format on */
/**
 * Gives delayed jobs another time: enqueued so, put off, or failed and waiting for the next
 * attempt. They become ready at once, where nothing else is said; attempts stay as they are. Of
 * others (pgw_job_state()) none is touched. Piece by piece as pgw_queue_purge(), and no job twice
 * in a call, however soon it fails again. @p moved may be NULL. PGW_ENOTFOUND: no such queue.
 *
 *     st = pgw_reschedule(h, "mail", NULL, &n); // the relay is back: nobody waits any longer
 */
PGW_API pgw_status pgw_reschedule(pgw *h, const char *queue, const pgw_reschedule_opts *opts,
                                  int64_t *moved);
/* clang-format off */
typedef struct pgw_redrive_opts {
    size_t struct_size;
    const int64_t *ids; /* these, up to 10,000; NULL: all */
    size_t ids_count;   /* an empty list names none */
    const char *kind;   /* of these only this kind; NULL: any */
    int64_t limit;      /* at most so many; 0: all */
} pgw_redrive_opts;
#define PGW_REDRIVE_OPTS_INIT {sizeof(pgw_redrive_opts), NULL, 0, NULL, 0}
/* clang-format on */
/**
 * Dead letters back to ready with a fresh count of attempts. Their unique keys stay free. @p moved
 * may be NULL. Piece by piece as pgw_queue_purge(). PGW_ENOTFOUND: no such queue.
 *
 *     pgw_redrive_opts o = PGW_REDRIVE_OPTS_INIT;
 *     o.kind = "newsletter", o.limit = 1000;
 *     st = pgw_redrive(h, "mail", &o, &n);
 */
PGW_API pgw_status pgw_redrive(pgw *h, const char *queue, const pgw_redrive_opts *opts,
                               int64_t *moved);
/* clang-format off */
typedef struct pgw_dead_purge_opts {
    size_t struct_size;
    const int64_t *ids;    /* these, up to 10,000; NULL: all */
    size_t ids_count;      /* an empty list names none */
    const char *kind;      /* of these only this kind; NULL: any */
    int64_t older_than_ms; /* that died longer ago; up to ten years; 0: all */
} pgw_dead_purge_opts;
#define PGW_DEAD_PURGE_OPTS_INIT {sizeof(pgw_dead_purge_opts), NULL, 0, NULL, 0}
/* clang-format on */
/**
 * Deletes dead letters. @p deleted may be NULL. Piece by piece as pgw_queue_purge().
 * PGW_ENOTFOUND: no such queue.
 *
 *     pgw_dead_purge_opts o = PGW_DEAD_PURGE_OPTS_INIT;
 *     o.older_than_ms = INT64_C(30) * 86400 * 1000;
 *     st = pgw_dead_purge(h, "mail", &o, &n);
 */
PGW_API pgw_status pgw_dead_purge(pgw *h, const char *queue, const pgw_dead_purge_opts *opts,
                                  int64_t *deleted);
/** @} */

/* ------------------------------------------------------------------------------------------- */
/** @name Queues (operator) @{
 * A queue comes into being at its first enqueue, unless the setting `implicit_queues` is off.
 * Names: UTF-8, 1 to 200 bytes, no control characters. From pgw_queue_set() to pgw_queue_depth()
 * each verb returns PGW_ENOTFOUND when there is no such queue. */
/* clang-format off */
typedef struct pgw_queue_opts {
    size_t struct_size;
    int64_t lease_ms;       /* default lease, 100 .. 86,400,000; 30,000 */
    int64_t backoff_ms;     /* first retry within, 0 .. a year; 1,000 */
    int64_t backoff_cap_ms; /* no retry later than, 0 .. a year; 3,600,000 */
    int64_t retention_ms;   /* keep finished jobs so long, up to 100 years; 0: don't */
    int max_attempts;       /* 1 .. 1000; 10 */
    int max_bytes;          /* payload, body and meta together, 1 .. 268,435,455; 16,777,216 */
    int notify;             /* wake sleeping workers: 1 yes, 0 no; 1 */
} pgw_queue_opts;           /* PGW_DEFAULT in a field: leave as it is */
#define PGW_QUEUE_OPTS_INIT {sizeof(pgw_queue_opts), PGW_DEFAULT, PGW_DEFAULT, PGW_DEFAULT, PGW_DEFAULT, PGW_DEFAULT, PGW_DEFAULT, PGW_DEFAULT}
/* clang-format on */
/**
 * Creates, or sets what is given when it is there.
 *
 *     pgw_queue_opts o = PGW_QUEUE_OPTS_INIT;
 *     o.lease_ms = 60000, o.retention_ms = INT64_C(7) * 86400 * 1000;
 *     st = pgw_queue_create(h, "mail", &o);
 *     o.max_attempts = 3;
 *     if (st == PGW_OK) st = pgw_queue_set(h, "mail", &o);
 */
PGW_API pgw_status pgw_queue_create(pgw *h, const char *queue, const pgw_queue_opts *opts);
/** Sets what is given. */
PGW_API pgw_status pgw_queue_set(pgw *h, const char *queue, const pgw_queue_opts *opts);
/**
 * The switches. What runs goes on.
 *
 *     pgw_queue_pause(h, "mail");
 *     work("with nobody claiming");
 *     pgw_queue_drain(h, "mail"); // and nobody enqueueing
 *     pgw_queue_resume(h, "mail");
 */
PGW_API pgw_status pgw_queue_pause(pgw *h, const char *queue);  /* no claims; enqueues go on */
PGW_API pgw_status pgw_queue_drain(pgw *h, const char *queue);  /* no enqueues; claims go on */
PGW_API pgw_status pgw_queue_resume(pgw *h, const char *queue); /* both again */
/**
 * Deletes jobs in @p state (ready, delayed, dead, done, all) that are there when it begins; never
 * leased ones. It does so in pieces of 10,000, each under the deadline of a call, and in a
 * transaction of its own unless one is open; once stopped (pgw_set_stop) it goes no further.
 * @p deleted may be NULL; when the call fails, it tells what is gone all the same. Cannot be armed.
 *
 *     st = pgw_queue_purge(h, "mail", "all", &n);
 *     if (st == PGW_OK && pgw_queue_drop(h, "mail", false) == PGW_ELOCKED) puts("some still run");
 */
PGW_API pgw_status pgw_queue_purge(pgw *h, const char *queue, const char *state, int64_t *deleted);
/** PGW_ELOCKED: there are jobs, and @p force is false; those that are kept by retention do not
 * count, and go with the queue. With @p force jobs are purged first, and what is leased goes with
 * the queue. That cannot be armed. What producers commit afterwards is lost: drain, wait, then
 * drop. */
PGW_API pgw_status pgw_queue_drop(pgw *h, const char *queue, bool force);

typedef struct pgw_depth {
    size_t struct_size;
    int64_t ready, leased, delayed, dead, done;
    int64_t oldest_ms; /* how long the oldest ready job has waited (see below); 0: none */
} pgw_depth;
#define PGW_DEPTH_INIT                      \
    {                                       \
        sizeof(pgw_depth), 0, 0, 0, 0, 0, 0 \
    }
/**
 * Counts, each at most @p at_most, ready and leased together (0: exact). A job waits since its
 * enqueue, also when it was handed back; one that was delayed or retried, since that was over; a
 * dead letter, since its redrive.
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
    const pgw_queue_opts *opts; /* all are set */
    const pgw_depth *depth;
} pgw_queue_info;
/**
 * Queues by name, or only @p queue (NULL: all), with counts as pgw_queue_depth() makes them. When
 * that is not there, PGW_OUTCOME_EMPTY.
 *
 *     static int show(const pgw_queue_info *q, void *arg)
 *     {
 *         return fprintf(arg, "%s %" PRId64 "\n", q->name, q->depth->ready) < 0;
 *     }
 *
 *     if (pgw_queues_each(h, NULL, 1000, show, stdout) == PGW_OUTCOME_EMPTY) puts("no queues");
 */
PGW_API pgw_status pgw_queues_each(pgw *h, const char *queue, int64_t at_most,
                                   int (*fn)(const pgw_queue_info *info, void *arg), void *arg);
/** @} */

/* ------------------------------------------------------------------------------------------- */
/** @name Worker @{
 * The runtime, and the one part of the library with threads:
 *   - the thread that calls pgw_worker_run() owns the connection that claims and reports results;
 *   - `worker.concurrency` threads call the handler;
 *   - one thread extends leases, every third of their length, on a connection of its own. Without
 *     that no job is claimed, and it is tried for again and again, as the first one is.
 * With `worker.concurrency` 0 there are none: the calling thread calls the handler, one job at a
 * time; only between jobs it extends leases, and tells results. So it claims no more than it hands
 * over at once; `worker.prefetch` is for handlers that are quick. Signals of the program are never
 * delivered to threads of the worker, which block them (but those of a fault of their own, SIGSEGV
 * and the like): a program that a handler starts inherits that, so give it a mask with
 * posix_spawnattr_setsigmask() or pthread_sigmask() before exec. doc/worker.md tells more.
 *
 *     static pgw_verdict mail(pgw_task *task, void *arg)
 *     {
 *         struct pollfd p = {.fd = pgw_task_fd(task), .events = POLLIN};
 *         (void)arg;
 *         work(pgw_job_payload(pgw_task_job(task)));
 *         poll(&p, 1, 1000); // wakes at once when there is a signal
 *         if (pgw_task_signals(task) & PGW_SIGNAL_LOST) return PGW_VERDICT_RELEASE;
 *         if (pgw_task_set_output(task, "{\"sent\": 1}") == PGW_OK) return PGW_VERDICT_DONE;
 *         pgw_task_set_error(task, "output refused");
 *         pgw_task_set_delay(task, 60000);
 *         return PGW_VERDICT_RETRY;
 *     }
 *
 *     static void begun(void *arg) { puts(arg); }
 *
 *     const char *queues[] = {"mail"};
 *     pgw_worker_spec spec = PGW_WORKER_SPEC_INIT;
 *     pgw_worker_stats stats = PGW_WORKER_STATS_INIT;
 *     pgw_worker *w;
 *     spec.queues = queues, spec.queues_count = 1, spec.handler = mail;
 *     if (pgw_worker_new(NULL, &spec, &w) != PGW_OK) return;
 *     pgw_worker_on_ready(w, begun, "working");
 *     if (pgw_worker_run(w, stop) != PGW_OK) fprintf(stderr, "%s\n", pgw_worker_error(w));
 *     pgw_worker_get_stats(w, &stats);
 *     printf("%" PRId64 " done\n", stats.completed);
 *     pgw_worker_free(w);
 */

/** What a handler decided. */
typedef enum pgw_verdict {
    PGW_VERDICT_DONE,    /* complete, with the output if one was set */
    PGW_VERDICT_RETRY,   /* fail: again after the queue's backoff, or the time set by
                            pgw_task_set_delay */
    PGW_VERDICT_DEAD,    /* fail: to the dead letters at once */
    PGW_VERDICT_SNOOZE,  /* again after the time set by pgw_task_set_delay, no attempt charged */
    PGW_VERDICT_RELEASE, /* not started after all: ready again, behind what waits, no attempt
                            charged */
    PGW_VERDICT_SETTLED  /* the handler finished the job itself, in its own transaction; the worker
                          * claims  jobs apart from then on, see pgw_claim_opts */
} pgw_verdict;

/** Why a handler should give up, as bits. */
typedef enum pgw_signal {
    PGW_SIGNAL_LOST = 1,     /* the lease is gone: another worker may have the job; write nothing */
    PGW_SIGNAL_CANCELED = 2, /* somebody cancelled the job */
    PGW_SIGNAL_TIMEOUT = 4,  /* it runs longer than `worker.job_timeout_ms` */
    PGW_SIGNAL_STOPPING = 8  /* the worker was asked to stop for the second time */
} pgw_signal;

/** Called in a handler thread; @p task is borrowed until it returns. And it has to: one that ends
 * its thread instead (pthread_exit) keeps its job leased, and the worker running, until the second
 * stop. */
typedef pgw_verdict pgw_handler_fn(pgw_task *task, void *arg);
/**
 * Called with up to `worker.batch` jobs, as many as are there; sets each one's verdict with
 * pgw_task_set_verdict() (PGW_VERDICT_DONE unless set).
 *
 *     static void mails(pgw_task *const *tasks, size_t n, void *arg)
 *     {
 *         (void)arg;
 *         for (size_t i = 0; i < n; i++)
 *             if (pgw_job_payload(pgw_task_job(tasks[i])) == NULL)
 *                 pgw_task_set_verdict(tasks[i], PGW_VERDICT_DEAD);
 *     }
 *
 *     const char *queues[] = {"mail"};
 *     pgw_worker_spec spec = PGW_WORKER_SPEC_INIT;
 *     pgw_worker *w;
 *     spec.queues = queues, spec.queues_count = 1, spec.batch_handler = mails;
 *     st = pgw_worker_new(conf, &spec, &w);
 */
typedef void pgw_batch_fn(pgw_task *const *tasks, size_t n, void *arg);

/** Borrowed as long as the task. */
PGW_API const pgw_job *pgw_task_job(const pgw_task *task);
/** PGW_SIGNAL_LOST | ..., 0: go on. Cheap: ask often, and always before a lasting effect. Any
 * thread. */
PGW_API int pgw_task_signals(const pgw_task *task);
/** Becomes readable with the first signal: for handlers that wait in poll(). Made at the first
 * call; -1: no descriptor left. It may be late while the heartbeat's thread looks up the name of a
 * server, or cannot reach one to cancel a call: pgw_task_signals() never is. With
 * `worker.concurrency` 0 nobody is there to make it readable. */
PGW_API int pgw_task_fd(pgw_task *task);
/** The job's result, JSON text. PGW_EINVAL: no JSON, or more than `payload.max_bytes`. PGW_ENOMEM.
 * If the server refuses it all the same, the job has failed (`the result was refused`) and is
 * retried. */
PGW_API pgw_status pgw_task_set_output(pgw_task *task, const char *json);
/** Why it failed; cut at 8,000 bytes. */
PGW_API void pgw_task_set_error(pgw_task *task, const char *error);
/** When to try again: for PGW_VERDICT_RETRY (not set: the queue's backoff), a year at most, and
 * PGW_VERDICT_SNOOZE (not set: a second), ten years at most; what is longer is taken as that, and
 * less than 0 as 0. */
PGW_API void pgw_task_set_delay(pgw_task *task, int64_t delay_ms);
/** For a pgw_batch_fn; what a pgw_handler_fn returns goes before. */
PGW_API void pgw_task_set_verdict(pgw_task *task, pgw_verdict verdict);

/* clang-format off */
/** What a worker works on, and what it calls. Give one of the handlers. */
typedef struct pgw_worker_spec {
    size_t struct_size;
    const char *const *queues;
    size_t queues_count;         /* 1 .. 64 */
    pgw_handler_fn *handler;     /* called for each job, or */
    pgw_batch_fn *batch_handler; /* for up to `worker.batch` jobs */
    void *arg;                   /* for either */
} pgw_worker_spec;
#define PGW_WORKER_SPEC_INIT {sizeof(pgw_worker_spec), NULL, 0, NULL, NULL, NULL}
/* clang-format on */
/**
 * A worker as @p spec says. @p conf (NULL: defaults) is copied: worker.*, poll.*, and all that a
 * handle reads. Caller owns it (free with pgw_worker_free). PGW_EINVAL: names or number of queues,
 * no handler or two: without a message, since there is no worker yet to have it. PGW_ENOMEM.
 */
PGW_API pgw_status pgw_worker_new(const pgw_conf *conf, const pgw_worker_spec *spec,
                                  pgw_worker **w);
/**
 * Works until @p stop is notified (or, with `worker.until_empty` on, until nothing is left; or
 * after `worker.max_jobs`). First notify: claims no more, hands unstarted jobs back without
 * charging an attempt, waits for the running ones (their leases go on), returns PGW_OK. Second:
 * raises PGW_SIGNAL_STOPPING, reports each result at once and waits for the handlers at most
 * `worker.stop_ms`, and some seconds more for a server that is slow to take what they said; what
 * still runs then is not released (its lease will expire), and PGW_ETIMEDOUT says that handlers are
 * still in the program's code: their threads end when they return, and until then what `arg` points
 * to must stay.
 *
 * What is promised about leases: a handler that asks pgw_task_signals() is told PGW_SIGNAL_LOST
 * before anybody else can have its job, by the monotonic clock, even when the whole process was
 * frozen, or (on Linux) the machine was suspended; but not when the server's clock is set forward,
 * which ends leases early, or its rate differs by more than a part in 512 from that here. A job
 * whose lease was lost before it began is dropped without a word; one that was cancelled before it
 * began is handed back, which ends it. A handler that ignores PGW_SIGNAL_TIMEOUT for
 * `worker.stop_ms` loses its lease. A late verdict is sent to the server all the same: the token
 * decides. One that the server answers with an error is told again apart from others, after some
 * seconds; the third time it is told as a failure, and if the server does not take that either, the
 * lease is left to end.
 *
 * A queue need not be there before its first job. Of one that is not, the log warns once, when the
 * worker first finds nothing to do (with `worker.until_empty` it does not): its name may be wrong.
 * The log also warns once of a queue that is paused or has delayed jobs only, when a claim finds
 * nothing and the role has the rights of pgwork_operator.
 *
 * Connection failures are survived: it reconnects with jitter, and results wait; so is a server
 * that is read-only, since the next session may find the primary. A claim that the server answers
 * with another error (a full disk, a damaged row, somebody's trigger on a table of pgwork) is told
 * in the log (PGW_LOG_WARN, once and then once a minute) and made again, after pauses up to
 * `reconnect.cap_ms`; while one job makes claims fail, none behind it is claimed, also of the
 * worker's other queues (doc/operations.md, "Claims fail"). Returns an error only when there is no
 * point in going on: PGW_ESCHEMA, PGW_EPERM, PGW_EINVAL, PGW_ENOMEM (also: no thread can be
 * started), PGW_EPROTO, or PGW_EMISUSE (handlers of the last run are still busy).
 */
PGW_API pgw_status pgw_worker_run(pgw_worker *w, pgw_stop *stop);
/** @p fn is called once in each run, from the thread of pgw_worker_run(), when the first claim was
 * answered, with jobs or without: there is a session, the schema fits, and the role may claim
 * (sd_notify). Set it before pgw_worker_run(). */
PGW_API void pgw_worker_on_ready(pgw_worker *w, void (*fn)(void *arg), void *arg);
/** What went wrong last, or "": to be asked when pgw_worker_run() has returned. Borrowed until the
 * next run. */
PGW_API const char *pgw_worker_error(const pgw_worker *w);

typedef struct pgw_worker_stats {
    size_t struct_size;
    int64_t claimed;
    int64_t completed, failed, dead, snoozed, released; /* results that were accepted, by what
                                                         * became of the job: the last failure
                                                         * makes it dead */
    int64_t settled; /* by their handlers (PGW_VERDICT_SETTLED) */
    int64_t refused; /* results that came too late: another claim has the job, or it is gone */
    int64_t lost;    /* leases that ran out, or were taken away, before there was a result; and
                      * results given up: the server did not take them before it was to end */
    int64_t claims, empty_claims, reconnects;
    int64_t running; /* with a handler right now */
} pgw_worker_stats;
#define PGW_WORKER_STATS_INIT                                           \
    {                                                                   \
        sizeof(pgw_worker_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
    }
/** A snapshot. Any thread. A struct_size that is not set leaves it as it is. */
PGW_API void pgw_worker_get_stats(const pgw_worker *w, pgw_worker_stats *stats);
/** Handlers that are still busy keep what they need; the last one that returns frees it. */
PGW_API void pgw_worker_free(pgw_worker *w);
/** @} */

/* ------------------------------------------------------------------------------------------- */
/** @name Reaper @{
 * Takes jobs of expired leases back, brings delayed ones in at their time, enqueues what schedules
 * say, prunes what retention no longer keeps. Several at once are harmless. Without one, nothing is
 * lost, but the jobs of dead workers stay where they are. doc/reaper.md has the figures. */
typedef struct pgw_reap_stats {
    size_t struct_size;
    int64_t ticks;
    int64_t reaped;   /* jobs of expired leases that are ready again */
    int64_t died;     /* and those that had no attempts left: dead letters now */
    int64_t promoted; /* delayed jobs that are ready now */
    int64_t pruned;   /* finished jobs that were kept long enough */
    int64_t errors;
    int64_t freed; /* rows of the users' tables, by pgw_reaper_run() */
} pgw_reap_stats;
#define PGW_REAP_STATS_INIT                         \
    {                                               \
        sizeof(pgw_reap_stats), 0, 0, 0, 0, 0, 0, 0 \
    }

/**
 * One pass on @p h: does what is due in batches of `reaper.batch`, adds to @p stats (may be NULL;
 * `errors` counts those that failed, but for armed ones), and says in @p next_ms (may be NULL) when
 * to come back (0: at once, there is more). PGW_EMISUSE: a transaction is open, and would keep
 * locked what it moved. A job that cannot be taken back (somebody's trigger raises an error) keeps
 * no other from it, nor does what cannot be deleted; the log (PGW_LOG_WARN) and pgwork.stuck_jobs
 * name it.
 *
 *     pgw_reap_stats stats = PGW_REAP_STATS_INIT;
 *     do st = pgw_reaper_tick(h, &stats, &next_ms);
 *     while (st == PGW_OK && next_ms == 0);
 */
PGW_API pgw_status pgw_reaper_tick(pgw *h, pgw_reap_stats *stats, int64_t *next_ms);

/**
 * The loop around the tick in the shape of a PostgreSQL background worker. @p conf (NULL: defaults)
 * is copied: reaper.*, holder, and all that a handle reads. Caller owns it (free with
 * pgw_reaper_free). PGW_ENOMEM: no memory, or no descriptors left.
 *
 *     static pgw_reaper *reaper;
 *     static void on_hup(int sig) { (void)sig; pgw_reaper_reload(reaper); }
 *     static const pgw_conf *reread(void *arg) { return arg; }
 *     static void count(const pgw_reap_stats *s, void *arg) { *(int64_t *)arg = s->reaped; }
 *
 *     if (pgw_reaper_new(conf, &reaper) != PGW_OK) return;
 *     pgw_reaper_on_reload(reaper, reread, conf);
 *     pgw_reaper_on_tick(reaper, count, &n);
 *     signal(SIGHUP, on_hup);
 *     if (pgw_reaper_run(reaper, stop) != PGW_OK) puts(pgw_reaper_error(reaper));
 *     pgw_reaper_free(reaper);
 */
PGW_API pgw_status pgw_reaper_new(const pgw_conf *conf, pgw_reaper **r);
/** Runs until @p stop: a recovery pass first, then ticks; survives lost connections, and servers
 * that are read-only. Returns PGW_OK when stopped, or an error that no repetition would cure:
 * PGW_ESCHEMA, PGW_EPERM, PGW_EINVAL, PGW_ENOMEM, PGW_EMISUSE, PGW_EPROTO. */
PGW_API pgw_status pgw_reaper_run(pgw_reaper *r, pgw_stop *stop);
/** Asks the loop for a fresh configuration, from pgw_reaper_on_reload()'s function. Any thread, any
 * signal handler. */
PGW_API void pgw_reaper_reload(pgw_reaper *r);
/** @p fn is called from the loop's own thread, between ticks. What it returns is copied, and a new
 * session is opened with it; NULL: go on with the old one. Set it before pgw_reaper_run(). */
PGW_API void pgw_reaper_on_reload(pgw_reaper *r, const pgw_conf *(*fn)(void *arg), void *arg);
/** @p fn is called after every good tick, for counters and watchdogs; the first call says that it
 * is ready (sd_notify). Set it before pgw_reaper_run(). */
PGW_API void pgw_reaper_on_tick(pgw_reaper *r, void (*fn)(const pgw_reap_stats *stats, void *arg),
                                void *arg);
/** What went wrong last, or "": to be asked when pgw_reaper_run() has returned. Borrowed until the
 * next run. */
PGW_API const char *pgw_reaper_error(const pgw_reaper *r);
/** After pgw_reaper_run() has returned, and when no signal handler can reach it any more. */
PGW_API void pgw_reaper_free(pgw_reaper *r);
/** @} */

/* ------------------------------------------------------------------------------------------- */
/** @name Transactions @{
 * For several verbs that stand or fall together, on a handle from pgw_open(). They are READ
 * COMMITTED. On an attached handle the caller begins and ends them: PGW_EMISUSE. When the
 * connection is lost, the transaction is over, and each verb says so (PGW_ECONN) until it is rolled
 * back: repeat the whole of it, not the verb.
 *
 *     pgw_job_spec job = PGW_JOB_SPEC_INIT;
 *     if (pgw_txn_begin(h) != PGW_OK) return;
 *     st = pgw_enqueue(h, "mail", &job, NULL, NULL);
 *     if (st >= 0) st = pgw_complete(h, "orders", &ref, NULL, 1, NULL);
 *     if (st >= 0) st = pgw_txn_commit(h);
 *     else pgw_txn_rollback(h);
 */

/** PGW_EMISUSE: one is open already. */
PGW_API pgw_status pgw_txn_begin(pgw *h);
/** PGW_ETXN: a statement had failed before, so the server rolled everything back although it was
 * asked to commit. PGW_EUNKNOWN: the answer was lost. In all these cases the transaction is over.
 * PGW_EMISUSE: none is open. */
PGW_API pgw_status pgw_txn_commit(pgw *h);
/** Also after failures, and without a transaction: then it does nothing. Keeps the story of the
 * failure that led here. */
PGW_API pgw_status pgw_txn_rollback(pgw *h);

/** What is to be done in a transaction; any status >= 0 commits, an error rolls back. */
typedef pgw_status pgw_txn_fn(pgw *h, void *arg);
/**
 * Runs @p fn in a transaction and commits it, or rolls back when @p fn returned an error, which is
 * then returned with its story. What failed with PGW_ERETRY, in @p fn or at the commit, is repeated
 * with jitter, up to @p tries times in all (1 .. 1000): @p fn must be able to start over. Otherwise
 * returns what @p fn returned, or how the commit ended (see pgw_txn_commit). PGW_EMISUSE: @p fn has
 * armed the handle, which it must not (pgw_async): rolled back.
 *
 *     static pgw_status move(pgw *h, void *arg)
 *     {
 *         pgw_job_spec job = PGW_JOB_SPEC_INIT;
 *         pgw_status st = pgw_complete(h, "orders", arg, NULL, 1, NULL);
 *         return st < 0 ? st : pgw_enqueue(h, "mail", &job, NULL, NULL);
 *     }
 *
 *     st = pgw_txn_run(h, 5, move, &ref);
 */
PGW_API pgw_status pgw_txn_run(pgw *h, int tries, pgw_txn_fn *fn, void *arg);
/** @} */

/* ------------------------------------------------------------------------------------------- */
/** @name The caller's own tables @{
 * Leases, optimistic writes and row locks on a table of yours, described once.
 *
 *   Rows.        A row is named by the values of its key, in the order of the description. Values
 *                are text in both directions, NULL is SQL NULL, and the server converts them to and
 *                from the type of the column: any type will do. On an attached handle the settings
 *                of the session count: with an extra_float_digits below 1 the text of a float is
 *                not its value, and such a key names no row; with a DateStyle other than ISO a
 *                timestamptz is told with the abbreviation of its zone, which may be read as that
 *                of another one (IST), and such a key may name another row.
 *   Names.       Schema, table and column names are taken literally and always quoted: Article and
 *                article are two tables. Up to 63 bytes.
 *   Fragments.   claimable, where, order and set are SQL that becomes part of a statement as it
 *                stands: never put into them what comes from outside. For values write $1, $2, ...
 *                and pass them in values[]: their types are inferred as in PREPARE (write $1::int
 *                where nothing tells). Columns are known by their names or as t.name; in claimable,
 *                which is the condition of an index, too, by their names only, none of them
 *                generated and virtual (as PostgreSQL 18 makes them), and functions are to be
 *                immutable there. The search path of an opened handle is pg_catalog: write
 *                public.f(x) for functions of yours, and give functions of triggers a search_path
 *                of their own.
 *   Rights.      Everything runs with the rights of the handle's role: it needs SELECT and UPDATE
 *                on the table. Row security applies: a row that a policy hides is not there.
 *
 * Not for views, foreign and temporary tables, tables with rules, and parents of inheritance
 * (rows of children that come later are left alone).
 * Partitioned tables are fine when the key includes the partition's columns and the roles `version`
 * or none is used for updates.
 */

/* clang-format off */
/** Describes a table. A role that is NULL is not used. */
typedef struct pgw_table_spec {
    size_t struct_size;
    const char *schema;     /* NULL: "public" */
    const char *table;
    const char *const *key; /* columns of a unique key, all NOT NULL: 1 .. 8 of them */
    size_t key_count;
    const char *locked_by;  /* leases: who; text, varchar, smallint, integer, bigint or uuid */
    const char *expires_at; /* leases: until when; timestamptz; NULL in a row: free */
    const char *token;      /* leases: the fencing token; uuid */
    const char *version;    /* optimistic writes: smallint, integer, bigint (counts) or uuid (random), NOT NULL */
    const char *claimable;  /* fragment: what a claim may take at all, "reviewed IS NULL"; NULL: every row */
} pgw_table_spec;
#define PGW_TABLE_SPEC_INIT {sizeof(pgw_table_spec), NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL}
/* clang-format on */

/**
 * Looks the table up and holds it against the description. The result belongs to no handle and does
 * not change: any handle on the same database, in any thread, may use it; in pgw_table_process()
 * any with the same property `schema`, whose role has the same rights there. Caller owns it (free
 * with pgw_table_free). Takes several round trips, and cannot be armed.
 *
 * Every mistake is found here and named: PGW_EINVAL (a name that is none, a column of the wrong
 * type, no unique key over these columns, a kind of table that will not do), PGW_ENOTFOUND (no such
 * schema, table or key column), PGW_EPERM (the role may not read and write it). PGW_ESCHEMA:
 * columns of the roles are missing; only then *t is there after a failure, good for pgw_table_sql()
 * and pgw_table_init(). PGW_OK does not mean that the indexes are there: without them leases work,
 * and each claim reads the whole table.
 *
 *     const char *key[] = {"journal", "number"};
 *     pgw_table_spec s = PGW_TABLE_SPEC_INIT;
 *     s.table = "article", s.key = key, s.key_count = 2;
 *     s.locked_by = "locked_by", s.expires_at = "expires_at", s.token = "token";
 *     pgw_table *t;
 *     st = pgw_table_open(h, &s, &t);
 *     if (t != NULL && *pgw_table_sql(t) != '\0') { // columns, or indexes only
 *         puts(pgw_table_sql(t));
 *         pgw_set_timeout(h, 3600 * 1000);
 *         st = pgw_table_init(h, t);
 *         pgw_set_timeout(h, PGW_DEFAULT);
 *         pgw_table_free(t), t = NULL;
 *         if (st == PGW_OK) st = pgw_table_open(h, &s, &t);
 *     }
 *     if (st != PGW_OK) fprintf(stderr, "%s\n", pgw_error_message(h));
 */
PGW_API pgw_status pgw_table_open(pgw *h, const pgw_table_spec *spec, pgw_table **t);
/** Not before the last verb on it has returned; of an armed one, not before its `done` was called.
 */
PGW_API void pgw_table_free(pgw_table *t);
/**
 * The statements that add what is missing: columns of the roles, and the two indexes that claims
 * want (one on when a lease ends and the key, limited to what is `claimable`; one on who holds it).
 * "" when all is there. Borrowed until pgw_table_free().
 */
PGW_API const char *pgw_table_sql(const pgw_table *t);
/**
 * Runs pgw_table_sql(), the columns first, then each index CONCURRENTLY, so the table stays in use:
 * columns are tried for half a second at a time while a transaction that uses the table is open.
 * Those of a partitioned table cannot be made so: nobody writes to it until they are there, unless
 * each partition has the same index already (made CONCURRENTLY, by you), which is then taken over.
 * Open the table anew afterwards. Not in a transaction and not on an attached handle (PGW_EMISUSE).
 * An index takes its time: see pgw_set_timeout(). Several processes may do it at once, one adds and
 * the others wait. PGW_ELOCKED: in vain for that time, for them or for such a transaction.
 * PGW_EPERM: only the table's owner may.
 * PGW_EINVAL: `claimable` is no condition for an index.
 */
PGW_API pgw_status pgw_table_init(pgw *h, const pgw_table *t);

/** Names a leased row and proves that it is ours. The key is borrowed from whoever made it. */
typedef struct pgw_row_ref {
    const char *const *key;
    pgw_token token;
} pgw_row_ref;

/* clang-format off */
/**
 * Rows. Strings are borrowed until pgw_rows_free(); NULL is SQL NULL, or a row or column that is not there.
 *
 *     for (size_t i = 0; i < pgw_rows_count(rows); i++) {
 *         printf("%s, version %s, until %" PRId64 "\n", pgw_rows_key(rows, i)[0],
 *                pgw_rows_version(rows, i), pgw_rows_lease_until_us(rows, i));
 *         for (size_t c = 0; c < pgw_rows_columns(rows); c++)
 *             if (pgw_rows_at(rows, i, c) != NULL) puts(pgw_rows_name(rows, c));
 *     }
 *     pgw_rows_free(rows);
 */
PGW_API size_t pgw_rows_count(const pgw_rows *rows);
PGW_API size_t pgw_rows_columns(const pgw_rows *rows);                     /* those asked for */
PGW_API const char *pgw_rows_name(const pgw_rows *rows, size_t column);
PGW_API const char *pgw_rows_at(const pgw_rows *rows, size_t row, size_t column);
PGW_API const char *pgw_rows_get(const pgw_rows *rows, size_t row, const char *column);
PGW_API const char *const *pgw_rows_key(const pgw_rows *rows, size_t row); /* its values, in its order */
PGW_API const char *pgw_rows_version(const pgw_rows *rows, size_t row);    /* for pgw_table_update() */
PGW_API int64_t pgw_rows_lease_until_us(const pgw_rows *rows, size_t row); /* after a claim */
PGW_API void pgw_rows_free(pgw_rows *rows);
/* clang-format on */
/** Of a claimed row; key and all borrowed until pgw_rows_free(). */
PGW_API pgw_row_ref pgw_rows_ref(const pgw_rows *rows, size_t row);

/* ---- leases ---- */
/* clang-format off */
typedef struct pgw_table_claim_opts {
    size_t struct_size;
    int max;             /* 1 .. 10,000 rows */
    const char *holder;  /* who; NULL: property `holder`; where that is empty host:pid and what only this handle has */
    int64_t lease_ms;    /* 100 .. 31,536,000,000 (a year) */
    const char *where;   /* fragment: which rows; NULL: all that are claimable */
    const char *order;   /* fragment: which first; NULL: free ones by key, then those whose lease was over first */
    const char *const *values; /* of $1, $2, ... in both */
    size_t values_count;       /* up to 32 */
    const char *const *columns; /* returned, beside key and token; they must live until the answer came */
    size_t columns_count;       /* up to 256 */
} pgw_table_claim_opts;
#define PGW_TABLE_CLAIM_OPTS_INIT {sizeof(pgw_table_claim_opts), 1, NULL, 30000, NULL, NULL, NULL, 0, NULL, 0}
/* clang-format on */

/**
 * Leases up to max rows to the holder. The ones that this holder has already come first, their
 * lease made new and their token unchanged: whoever asks twice gets the same rows. So a holder's
 * name must stand for one actor, and be a number or a uuid where `locked_by` is (PGW_EINVAL).
 * Without a name that is this handle: to get its rows back in
 * another life, a program has to give itself one. Then come free ones and those whose lease is
 * over; never one under a live lease, never one that another transaction has locked just now:
 * nobody waits. Every new lease has a new token. The number in a token only grows for a row, also
 * over a release.
 *
 * *rows: caller owns (free with pgw_rows_free). PGW_OUTCOME_EMPTY: none, *rows is NULL. PGW_EPERM:
 * there are some, but a trigger of the table keeps all that were tried from being written. On an
 * attached handle a claim is undone by ROLLBACK.
 *
 *     const char *columns[] = {"title"}, *values[] = {"physics"};
 *     pgw_table_claim_opts o = PGW_TABLE_CLAIM_OPTS_INIT;
 *     o.max = 10, o.holder = "reviewer 7", o.lease_ms = 3600000;
 *     o.where = "subject = $1", o.order = "submitted_at", o.values = values, o.values_count = 1;
 *     o.columns = columns, o.columns_count = 1;
 *     pgw_rows *rows;
 *     if (pgw_table_claim(h, t, &o, &rows) == PGW_OK) {
 *         const char *title = pgw_rows_get(rows, 0, "title"); // NULL: it is NULL
 *         puts(title != NULL ? title : "without a title");
 *     }
 *     pgw_rows_free(rows);
 */
PGW_API pgw_status pgw_table_claim(pgw *h, const pgw_table *t, const pgw_table_claim_opts *opts,
                                   pgw_rows **rows);

/*
 * Finishing verbs, for up to 10,000 rows in one statement. Each row is accepted only while its
 * token is the current one; outcomes[i] (array of n, or NULL) says PGW_OK, PGW_ELEASE (released,
 * reaped or claimed anew since), PGW_ENOTFOUND (the row is gone) or PGW_EPERM (a trigger of the
 * table kept it from being written). Return PGW_OK when all were accepted, else PGW_ELEASE; the
 * accepted ones are done either way. A late call is accepted as long as nobody took the lease away:
 * it is the token that counts, not the clock. Rows are locked in the order of their keys, so
 * callers do not deadlock.
 */

/**
 * Still at it: the lease ends @p lease_ms from now.
 *
 *     const char *values[] = {"accepted"};
 *     pgw_row_ref row = pgw_rows_ref(rows, 0);
 *     pgw_status outcome;
 *     if (pgw_table_extend(h, t, &row, 1, 60000, &outcome) != PGW_OK) return;
 *     st = pgw_table_finish(h, t, &row, 1, "reviewed = now(), verdict = $1", values, 1, &outcome);
 *     if (st < 0 && !pgw_is_lost(st)) st = pgw_table_release(h, t, &row, 1, NULL);
 */
PGW_API pgw_status pgw_table_extend(pgw *h, const pgw_table *t, const pgw_row_ref *refs, size_t n,
                                    int64_t lease_ms, pgw_status *outcomes);
/** Given up: the row is free. */
PGW_API pgw_status pgw_table_release(pgw *h, const pgw_table *t, const pgw_row_ref *refs, size_t n,
                                     pgw_status *outcomes);
/**
 * Done: writes @p set (a fragment, "reviewed = now(), verdict = $1") and frees the row. The role
 * `version` moves on. What constraints and triggers of the table say is PGW_EEXISTS (a unique key)
 * or PGW_EDB; then nothing is done.
 */
PGW_API pgw_status pgw_table_finish(pgw *h, const pgw_table *t, const pgw_row_ref *refs, size_t n,
                                    const char *set, const char *const *values, size_t values_count,
                                    pgw_status *outcomes);
/**
 * Frees up to @p batch rows (1 .. 10,000) whose lease is over. They could be claimed without it:
 * this is for those who look at the table. @p freed may be NULL.
 *
 *     do st = pgw_table_reap(h, t, 1000, &n);
 *     while (st == PGW_OK && n == 1000);
 */
PGW_API pgw_status pgw_table_reap(pgw *h, const pgw_table *t, int batch, int64_t *freed);

/* ---- optimistic writes ---- */
/** A column and the value it gets; NULL is SQL NULL. */
typedef struct pgw_cell {
    const char *column, *value;
} pgw_cell;

#define PGW_ROW_VERSION_SIZE 80 /* bytes for a version as text, with the end */

/**
 * One row with its version. @p columns as in a claim. *rows: caller owns (free with pgw_rows_free).
 * PGW_ENOTFOUND: no such row.
 *
 *     const char *key[] = {"physics", "7"}, *columns[] = {"title"};
 *     const pgw_cell cells[] = {{"title", "On rows"}, {"subtitle", NULL}};
 *     char next[PGW_ROW_VERSION_SIZE];
 *     if (pgw_table_get(h, t, key, columns, 1, &rows) != PGW_OK) return;
 *     st = pgw_table_update(h, t, key, pgw_rows_version(rows, 0), cells, 2, next);
 *     if (st == PGW_ECONFLICT) puts("somebody else wrote first");
 *     pgw_rows_free(rows);
 */
PGW_API pgw_status pgw_table_get(pgw *h, const pgw_table *t, const char *const *key,
                                 const char *const *columns, size_t columns_count, pgw_rows **rows);

/**
 * Writes @p cells (1 .. 32) if the row still has @p version, as pgw_rows_version() told it, and
 * tells the next one in @p next (or NULL). PGW_ECONFLICT: somebody else wrote, or deleted the row,
 * since it was read; read it again. A trigger or a policy of the table that keeps the row from
 * being written looks the same from here: pgw_table_process() tells the difference. PGW_ENOTFOUND:
 * there is no such row. PGW_EINVAL: a column that is not there, is generated, or has a role.
 * PGW_EEXISTS: a unique key of the table.
 *
 * Where triggers AFTER UPDATE of the table may write the row again, @p next is what they leave: it
 * is read in the same transaction. It is "" where that cannot be, and nobody knows it: one of them
 * is deferred to the commit, the call is armed, or the connection is attached and no transaction is
 * open. Read the row again then. The version of a claimed row is that before such triggers.
 *
 * With the role `version` the version is that column, which must be changed by every writer. A
 * number counts up, and at the end of its type begins again at the other end: a version fits again
 * after 2^16 writes of a smallint, 2^32 of an integer. After a failover to an asynchronous standby
 * a number that was given out and lost is given out again, for another state of the row. Use a uuid
 * where that matters.
 *
 * Without the role it is the row's place and writing transaction (xmin and ctid), with the number
 * of transactions and the timeline at the time of reading. No column is needed and every write
 * counts, also those of a claim or a trigger, but: a version is good for 2^30 transactions, and not
 * across a failover or a table rewrite (VACUUM FULL, ALTER TYPE): it is then refused with
 * PGW_ECONFLICT. It is for the server that gave it: one that was restored from a dump or a copy, or
 * that crashed while others wrote to the table with synchronous_commit off, may not notice. Needs
 * SELECT on the whole table; not for partitioned tables (PGW_EMISUSE).
 */
PGW_API pgw_status pgw_table_update(pgw *h, const pgw_table *t, const char *const *key,
                                    const char *version, const pgw_cell *cells, size_t n,
                                    char next[PGW_ROW_VERSION_SIZE]);

/** The value of a column: as set in this try, else as read. Borrowed until the column is set, or
 * the pgw_edit_fn returns. */
PGW_API const char *pgw_edit_get(const pgw_edit *edit, const char *column);
/**
 * Sets a column. PGW_EINVAL: a column that was not read, is generated, or has a role.
 * PGW_ENOMEM, PGW_ELIMIT: more than 32.
 */
PGW_API pgw_status pgw_edit_set(pgw_edit *edit, const char *column, const char *value);
/**
 * Looks at the row and sets what should change. May be called several times: it decides from what
 * it reads there, and has no other effect. An error, whichever it is, ends the processing.
 */
typedef pgw_status pgw_edit_fn(pgw_edit *edit, void *arg);

/* clang-format off */
typedef struct pgw_process_opts {
    size_t struct_size;
    const char *const *columns; /* that are read; NULL: all */
    size_t columns_count;
    int tries;      /* 1 .. 100,000 */
    const char *op; /* operation id, a UUID as text: applied once, however often it is called; NULL: a random one */
} pgw_process_opts;
#define PGW_PROCESS_OPTS_INIT {sizeof(pgw_process_opts), NULL, 0, 20, NULL}
/* clang-format on */
/**
 * Reads the row, calls @p fn, writes what it set if the row is still as it was read, else starts
 * over, with jitter; also after deadlocks and serialization failures. When @p fn set nothing, or
 * only what is there already, nothing is written. PGW_ECONFLICT: given up after `tries`.
 * PGW_EPERM: the row could not be written twice running, and had the same version both times: a
 * trigger or a policy of the table keeps it as it is, as long as every writer changes the version.
 * PGW_ENOTFOUND. PGW_EINVAL: also when the version in the row is NULL. PGW_EEXISTS: a unique key of
 * the table. PGW_EUNKNOWN: the answer to a try was lost, and what came of it could not be looked
 * up; or that try may still be under way, and a later one, or @p fn, ended with an error. Else what
 * @p fn returned; PGW_OK when its write had to be looked up.
 *
 * Where the schema pgwork is installed and the role may use it (pgwork_worker, pgwork_producer), an
 * operation id is written in the same transaction, so an answer that was lost is looked up and the
 * change is never applied twice. PGW_OUTCOME_REPEATED: op was applied by an earlier call; of one
 * that changed nothing no id is kept, so a later call may yet change something. Without the schema
 * a lost answer is PGW_EUNKNOWN, and op must be NULL (PGW_ESCHEMA). Ids of yours are kept for a day
 * (setting op_retention_ms), a random one until the handle has written the next. Inside a
 * transaction there is no repeating after errors of the server: repeat the transaction.
 *
 *     static pgw_status add(pgw_edit *e, void *arg)
 *     {
 *         char sum[32];
 *         long was = strtol(pgw_edit_get(e, "count"), NULL, 10);
 *         snprintf(sum, sizeof(sum), "%ld", was + *(long *)arg);
 *         return pgw_edit_set(e, "count", sum);
 *     }
 *
 *     const char *key[] = {"physics", "7"};
 *     long amount = 3;
 *     st = pgw_table_process(h, t, key, NULL, add, &amount);
 */
PGW_API pgw_status pgw_table_process(pgw *h, const pgw_table *t, const char *const *key,
                                     const pgw_process_opts *opts, pgw_edit_fn *fn, void *arg);

/* ---- row locks ---- */
/* clang-format off */
typedef enum pgw_row_lock { PGW_ROW_LOCK_UPDATE, PGW_ROW_LOCK_NO_KEY_UPDATE, PGW_ROW_LOCK_SHARE, PGW_ROW_LOCK_KEY_SHARE } pgw_row_lock;
typedef struct pgw_table_lock_opts {
    size_t struct_size;
    pgw_row_lock strength;
    int64_t wait_ms;            /* for each row at most so long; 0: don't wait; PGW_DEFAULT: until the call's deadline */
    bool skip;                  /* leave out what is locked; wait_ms is ignored */
    const char *const *keys;    /* keys_count times the values of a key, one after the other; NULL: by where */
    size_t keys_count;          /* up to 10,000 */
    const char *where;          /* fragment, also beside keys; NULL: all */
    const char *const *values;
    size_t values_count;
    int max;                    /* at most so many rows, lowest keys first; 0: no limit */
    const char *const *columns; /* as in a claim */
    size_t columns_count;
} pgw_table_lock_opts;
#define PGW_TABLE_LOCK_OPTS_INIT {sizeof(pgw_table_lock_opts), PGW_ROW_LOCK_NO_KEY_UPDATE, PGW_DEFAULT, false, NULL, 0, NULL, NULL, 0, 0, NULL, 0}
/* clang-format on */
/**
 * Locks rows until the end of the transaction, which must be open (PGW_EMISUSE: there is none).
 * Whatever order the keys are given in, rows are locked in the order of their keys: callers that
 * lock all they need in one call cannot deadlock. *rows: what was locked, in that order; caller
 * owns. PGW_OUTCOME_EMPTY: no such rows. PGW_ELOCKED (wait_ms 0) and PGW_ETIMEDOUT: held by someone
 * else. After an error the transaction has failed: roll it back.
 *
 *     const char *keys[] = {"physics", "7", "physics", "9"};
 *     pgw_table_lock_opts o = PGW_TABLE_LOCK_OPTS_INIT;
 *     o.keys = keys, o.keys_count = 2, o.wait_ms = 1000;
 *     if (pgw_txn_begin(h) != PGW_OK) return;
 *     st = pgw_table_lock(h, t, &o, &rows);
 *     if (st == PGW_OK) work("on both, by verbs on the same handle");
 *     if (st == PGW_OK) pgw_txn_commit(h);
 *     else pgw_txn_rollback(h);
 *     pgw_rows_free(rows);
 */
PGW_API pgw_status pgw_table_lock(pgw *h, const pgw_table *t, const pgw_table_lock_opts *opts,
                                  pgw_rows **rows);

/* ---- tables the reaper looks after (operator) ---- */
/**
 * Writes the table's name and roles down, so that pgw_tables_reap() and every running reaper (once
 * a second) free its expired rows. Registering grants nothing on the table: the reaper's role needs
 * SELECT and UPDATE there. But the table's triggers, and functions in its indexes and constraints,
 * run with the reaper's rights: register only tables whose owner may have them, and grant
 * pgwork_operator, which may register, only to who may have them. A table that has another owner
 * since is left alone until it is registered again. Repeating it is harmless.
 *
 *     static int show(const pgw_table_info *i, void *arg)
 *     {
 *         return fprintf(arg, "%s.%s %s\n", i->schema, i->table, i->error) < 0;
 *     }
 *
 *     st = pgw_table_register(h, t);
 *     if (st == PGW_OK) st = pgw_tables_reap(h, 1000, &n);
 *     if (st == PGW_OK) st = pgw_tables_each(h, show, stdout);
 *     if (st == PGW_OK) st = pgw_table_unregister(h, "public", "article");
 */
PGW_API pgw_status pgw_table_register(pgw *h, const pgw_table *t);
/** Its rows are left as they are. PGW_ENOTFOUND: is not registered. */
PGW_API pgw_status pgw_table_unregister(pgw *h, const char *schema, const char *table);
typedef struct pgw_table_info {
    size_t struct_size;
    const char *schema, *table, *locked_by, *expires_at, *token;
    const char *error; /* why the reaper could not do its work the last time; "": it could */
    int64_t reaped_us; /* when rows were freed last; 0: never */
} pgw_table_info;
/** Each registered table. */
PGW_API pgw_status pgw_tables_each(pgw *h, int (*fn)(const pgw_table_info *info, void *arg),
                                   void *arg);
/**
 * One pass over all registered tables, at most @p batch rows of each. What is wrong with one table
 * is noted with it and does not stop the others, nor does a row of it that cannot be freed, which
 * is named by its key; the log (PGW_LOG_WARN) tells it when it is news. A table that somebody has
 * under lock is waited for half a second. One that takes 200 ms or more, for whatever reason, is
 * then left alone by every reaper for twenty times as long, up to ten minutes; one with such a row
 * for ten seconds. Also deletes old operation ids. Told to stop, it leaves the other tables to the
 * next pass. @p freed may be NULL; when the call fails, it tells what was freed all the same.
 * PGW_EMISUSE: on an attached handle, or in a transaction.
 */
PGW_API pgw_status pgw_tables_reap(pgw *h, int batch, int64_t *freed);
/** @} */

/* ------------------------------------------------------------------------------------------- */
/** @name Schedules @{
 * Many machines run the same program; each tick of a schedule happens once, on one of them. Any
 * number of schedulers may be at work, none of them leads, and all times are the server's.
 *
 *     minute hour day month weekday          each * or a list of n, n-n, with /step
 *     second minute hour day month weekday   jan .. dec, sun .. sat, 7 is Sunday; day also L, LW,
 *                                            15W, weekday also fri#2, friL
 *     @yearly @monthly @weekly @daily @hourly
 *     @every 90s                             also 1h30m, 2d, 1w; counted from the creation
 *
 * A tick comes on the days that match day and weekday when one of the two begins with *, else on
 * those that match either. When clocks change: an expression whose minute or hour begins with *
 * follows the clock, so it has no tick in the hour that is left out and comes in both passes of one
 * that is repeated; any other comes once, right after a gap that swallowed its time, and in the
 * first pass of a repeated hour.
 *
 * A tick is either a job, enqueued by whoever calls pgw_cron_tick() (a reaper does) in the
 * transaction that notes the tick as decided; or, when the schedule names no queue, a lease that
 * pgw_cron_claim_due() gives to one node, and to another one if that does not finish within the
 * timeout. doc/schedules.md has the rules. */

/** What becomes of all ticks that are due when the oldest was found later than `grace_ms`, because
 * nobody was there. */
typedef enum pgw_misfire {
    PGW_MISFIRE_ONCE, /* one for all of them: the latest */
    PGW_MISFIRE_SKIP, /* none but those within the grace */
    PGW_MISFIRE_ALL   /* each, oldest first, but only the latest `misfire_max` */
} pgw_misfire;

/* clang-format off */
typedef struct pgw_cron_opts {
    size_t struct_size;
    const char *zone;    /* one of the server's pg_timezone_names; NULL: UTC. Not CET, EET, EST, HST,
                          * MET, MST or WET, abbreviations to the server, without summer time: Europe/Berlin for example */
    const char *queue;   /* a tick is a job in this queue; NULL: a node holds it */
    const pgw_job_spec *job;  /* the job, or kind, payload and body for the node; NULL: none. Not for it: run_at_us,
                          * delay_ms, group, expires_us, meta. The key's scope is PGW_KEY_SCOPE_UNFINISHED, its policy PGW_KEY_POLICY_SKIP: with a key,
                          * no tick adds a job while that of another is unfinished. Up to 30 tags */
    pgw_misfire misfire;
    int misfire_max;     /* 1 .. 1000 */
    int64_t grace_ms;    /* up to a day: a tick so late is not missed yet; with PGW_MISFIRE_SKIP 1000 at least,
                          * because every tick is found a little late */
    int64_t jitter_ms;   /* up to an hour: each tick up to so much later, always the same for one tick; keep it
                          * below the distance of two ticks */
    int64_t timeout_ms;  /* 100 .. a week: a node holds a tick so long */
} pgw_cron_opts;
#define PGW_CRON_OPTS_INIT {sizeof(pgw_cron_opts), NULL, NULL, NULL, PGW_MISFIRE_ONCE, 100, 60000, 0, 300000}
/* clang-format on */

/**
 * Is this an expression? Needs no server. PGW_EINVAL: @p fault (of @p size bytes; may be NULL) says
 * where it is wrong and what was expected there.
 *
 *     char fault[200];
 *     if (pgw_cron_check("30 6 32 * *", fault, sizeof(fault)) != PGW_OK)
 *         puts(fault); // at 6 (day of month) stands "32", expected * or 1 .. 31
 */
PGW_API pgw_status pgw_cron_check(const char *expression, char *fault, size_t size);

/**
 * Tells the next @p n times (1 .. 10,000) of @p expression in @p zone (NULL: UTC) after @p after_us
 * (0: now): the instant, and what a clock shows there ("Sun 2026-03-29 03:00:00 +02:00"). @every
 * counts from 1970.
 *
 *     static int show(int64_t at_us, const char *local, void *arg)
 *     {
 *         return fprintf(arg, "%" PRId64 " %s\n", at_us, local) < 0;
 *     }
 *
 *     st = pgw_cron_next(h, "0 2 * * sun", "Europe/Berlin", 0, 5, show, stdout);
 */
PGW_API pgw_status pgw_cron_next(pgw *h, const char *expression, const char *zone, int64_t after_us,
                                 int n, int (*fn)(int64_t at_us, const char *local, void *arg),
                                 void *arg);

/**
 * Makes a schedule (operator); when it is there, makes it what is said here, so that every machine
 * may say it when it starts. The plan stays as it is when expression and zone do. Names are like
 * those of queues. @p next_us (may be NULL) takes the time of the next tick (0: it is paused).
 * PGW_EINVAL: for an expression, the message tells the place in it. PGW_ELIMIT: the job's payload
 * and body.
 *
 *     pgw_job_spec job = PGW_JOB_SPEC_INIT;
 *     pgw_cron_opts o = PGW_CRON_OPTS_INIT;
 *     job.kind = "report", o.job = &job, o.queue = "mail", o.zone = "Europe/Berlin";
 *     st = pgw_cron_create(h, "daily report", "30 6 * * mon-fri", &o, NULL);
 *     if (st == PGW_OK) st = pgw_cron_run(h, "daily report", &id); // and one now
 */
PGW_API pgw_status pgw_cron_create(pgw *h, const char *schedule, const char *expression,
                                   const pgw_cron_opts *opts, int64_t *next_us);
/**
 * No more ticks; one that is held goes on. From here to pgw_cron_run() each verb returns
 * PGW_ENOTFOUND when there is no such schedule.
 *
 *     pgw_cron_pause(h, "daily report");
 *     pgw_cron_resume(h, "daily report");
 *     if (pgw_cron_rename(h, "daily report", "report") == PGW_EEXISTS) pgw_cron_drop(h, "report");
 */
PGW_API pgw_status pgw_cron_pause(pgw *h, const char *schedule);
/** Planned afresh from now: what fell into the pause is not made up for. */
PGW_API pgw_status pgw_cron_resume(pgw *h, const char *schedule);
/** Changes nothing but the name. PGW_EEXISTS: it is taken. */
PGW_API pgw_status pgw_cron_rename(pgw *h, const char *schedule, const char *new_name);
/** Who holds its tick is told PGW_ELEASE. */
PGW_API pgw_status pgw_cron_drop(pgw *h, const char *schedule);
/** A tick out of turn, also of a paused schedule: the plan stays. *job_id (may be NULL): its job,
 * or the one that has its unique key already. 0: the schedule has no queue, and the next node that
 * asks gets a tick: one, however often this was called until then. PGW_EPAUSED: the queue is
 * drained. PGW_ELIMIT: it takes no job of this size. */
PGW_API pgw_status pgw_cron_run(pgw *h, const char *schedule, int64_t *job_id);

/* clang-format off */
typedef struct pgw_cron_info {
    size_t struct_size;
    const char *name, *expression, *zone;
    const char *queue;          /* NULL: a node holds the tick */
    const char *kind, *payload, *key;
    pgw_misfire misfire;
    int misfire_max, priority;
    int64_t grace_ms, jitter_ms, timeout_ms;
    bool paused;
    int64_t next_us, last_us;   /* the next tick (0: none, or paused), and the last one that happened (0: none) */
    const char *holder;         /* of the tick that runs, since and until when; NULL: none */
    int64_t since_us, until_us;
    int attempt;
    const char *error;          /* why it does not run (a zone that is gone, a queue that takes nothing), or that a tick
                                 * was given up and none has ended well since; or NULL */
    int64_t error_us;
} pgw_cron_info;
/* clang-format on */
/**
 * Schedules by name, or only @p schedule (NULL: all); when that is not there, PGW_OUTCOME_EMPTY.
 *
 *     static int show(const pgw_cron_info *i, void *arg)
 *     {
 *         return fprintf(arg, "%s: %s %s\n", i->name, i->expression, i->zone) < 0;
 *     }
 *
 *     st = pgw_crons_each(h, NULL, show, stdout);
 */
PGW_API pgw_status pgw_crons_each(pgw *h, const char *schedule,
                                  int (*fn)(const pgw_cron_info *info, void *arg), void *arg);

/**
 * Enqueues the jobs of all ticks that are due; pgw_reaper_tick() does it too. *fired: how many;
 * *next_ms: when to come back (0: at once, there is more; -1: no schedule). Either may be NULL. A
 * schedule that fails, fails alone: its error is noted, and it is tried again after ten seconds.
 *
 *     st = pgw_cron_tick(h, &n, &next_ms);
 */
PGW_API pgw_status pgw_cron_tick(pgw *h, int64_t *fired, int64_t *next_ms);

typedef struct pgw_tick pgw_tick; /* a tick that this node holds */
/**
 * Makes this @p node (1 .. 255 bytes; NULL: property `holder`) the one that runs a due tick, of
 * @p schedules (@p n of them, up to 64; n = 0: all without a queue). First come ticks whose node
 * ran out of time: the token grows, and the node that was late is refused from then on. One tick of
 * a schedule is held at a time. After `max_attempts` nodes (of the job; 10) a tick is given up.
 * *tick: caller owns (free with pgw_tick_free). PGW_OUTCOME_EMPTY: none is due, or there are no
 * such schedules;
 * @p next_ms (may be NULL) then says when to ask again, a minute at most.
 *
 *     while (pgw_stop_count(stop) == 0) {
 *         struct pollfd p = {.fd = pgw_stop_fd(stop), .events = POLLIN};
 *         st = pgw_cron_claim_due(h, NULL, NULL, 0, &tick, &next_ms);
 *         if (st < 0) return;
 *         if (st == PGW_OUTCOME_EMPTY) {
 *             poll(&p, 1, (int)next_ms);
 *             continue;
 *         }
 *         work(pgw_tick_schedule(tick));
 *         st = pgw_cron_finish(h, pgw_tick_token(tick), NULL); // PGW_ELEASE: it took too long
 *         pgw_tick_free(tick);
 *     }
 */
PGW_API pgw_status pgw_cron_claim_due(pgw *h, const char *node, const char *const *schedules,
                                      size_t n, pgw_tick **tick, int64_t *next_ms);

/*
 * What is done with a tick that is held: PGW_ELEASE once another node has got it, the schedule is
 * gone, or it is over, as after an earlier call whose answer was lost. A late call is accepted as
 * long as nobody took it away.
 */
/** The tick is over; with an @p error (UTF-8 text kept with it, cut at 8,000 bytes) or without
 * (NULL). */
PGW_API pgw_status pgw_cron_finish(pgw *h, pgw_token token, const char *error);
/**
 * Still at it: @p timeout_ms from now (PGW_DEFAULT: as the schedule says). @p until_us may be NULL.
 *
 *     token = pgw_tick_token(tick);
 *     if (pgw_cron_extend(h, token, 600000, NULL) != PGW_OK) return;
 *     if (pgw_stop_count(stop) > 0) pgw_cron_release(h, token);
 */
PGW_API pgw_status pgw_cron_extend(pgw *h, pgw_token token, int64_t timeout_ms, int64_t *until_us);
/** Not done after all: another node may have it at once, no attempt charged. */
PGW_API pgw_status pgw_cron_release(pgw *h, pgw_token token);
/** For operators: takes a held tick away from its node, whose token is stale from then on; another
 * node may claim it at once. What a server's clock that was ahead has planned and decided is
 * forgotten. *held (may be NULL): was there one? The schedule's error says who took it.
 *
 *     bool held;
 *
 *     if (pgw_cron_break(h, "sweep", &held) == PGW_OK && held) work("another node may have it");
 */
PGW_API pgw_status pgw_cron_break(pgw *h, const char *schedule, bool *held);

/* clang-format off */
/**
 * What a tick says. Strings are borrowed until pgw_tick_free(); NULL where there is none. The
 * token's number grows with every claim of the schedule: a fence for what the tick writes.
 *
 *     size_t size;
 *     const void *body = pgw_tick_body(tick, &size);
 *     printf("%s of %" PRId64 ", node %d, until %" PRId64 ": %zu bytes\n", pgw_tick_kind(tick),
 *            pgw_tick_slot_us(tick), pgw_tick_attempt(tick), pgw_tick_until_us(tick), size);
 *     work(body != NULL ? body : pgw_tick_payload(tick));
 */
PGW_API const char *pgw_tick_schedule(const pgw_tick *tick);
PGW_API int64_t pgw_tick_slot_us(const pgw_tick *tick);     /* when it was due */
PGW_API pgw_token pgw_tick_token(const pgw_tick *tick);
PGW_API int pgw_tick_attempt(const pgw_tick *tick);         /* 1: the first node */
PGW_API int64_t pgw_tick_until_us(const pgw_tick *tick);
PGW_API const char *pgw_tick_kind(const pgw_tick *tick);
PGW_API const char *pgw_tick_payload(const pgw_tick *tick); /* JSON text */
PGW_API const void *pgw_tick_body(const pgw_tick *tick, size_t *size);
PGW_API void pgw_tick_free(pgw_tick *tick);
/* clang-format on */
/** @} */

/* ------------------------------------------------------------------------------------------- */
/** @name Migrations (owner) @{
 * On a handle from pgw_open() with `schema.check` off: there is nothing to check yet. Never armed.
 *
 *     static int show(const pgw_migration *m, void *arg)
 *     {
 *         return fprintf(arg, "%d %s: %s\n", m->number, m->name, m->state) < 0;
 *     }
 *
 *     int applied;
 *     st = pgw_migrate_up(h, &applied);
 *     if (st == PGW_OK && applied > 0) st = pgw_migrations_each(h, show, stdout);
 */
/* clang-format off */
typedef struct pgw_migration {
    int number;        /* 1, 2, ... without gaps */
    const char *name;  /* "0001_tables.sql" */
    const char *sql;   /* as it would run, the schema's name in place; "" when unknown */
    const char *state; /* applied, pending, changed (checksum differs), unknown (newer than this library) */
} pgw_migration;
/* clang-format on */
/** Each known and each applied migration, lowest first. For status and dry runs; a schema that is
 * not there has nothing applied. */
PGW_API pgw_status pgw_migrations_each(pgw *h, int (*fn)(const pgw_migration *m, void *arg),
                                       void *arg);
/** Applies what is pending, each in a transaction of its own, all under an advisory lock. Harmless
 * when repeated or run by two at once. *applied may be NULL; when the call fails, it tells what is
 * applied all the same. Each statement, and the wait for another migrator, has the deadline of
 * pgw_set_timeout(). PGW_ESCHEMA: the schema is newer, an applied file was changed, or the database
 * is not encoded in UTF8. PGW_EINVAL: its name is a key word of SQL. */
PGW_API pgw_status pgw_migrate_up(pgw *h, int *applied);
/** @} */

/* ------------------------------------------------------------------------------------------- */
/** @name Doctor (operator) @{ */
typedef enum pgw_grade { PGW_GRADE_GOOD, PGW_GRADE_NOTE, PGW_GRADE_BAD } pgw_grade;
typedef struct pgw_finding {
    pgw_grade grade;
    const char *check, *text, *advice;
} pgw_finding;
/**
 * Examines server settings, schema, roles, reapers, expired leases, queues (shut ones, jobs that
 * nobody claims, dead letters), schedules, what holds vacuum back, bloat, indexes, clock, and calls
 * @p fn for each finding as lists do. A check that cannot be made is a finding; one that waits for
 * a lock is given up after two seconds. PGW_OK also when findings are bad. On a handle from
 * pgw_open() with `schema.check` off, outside of a transaction; never armed.
 *
 *     static int show(const pgw_finding *f, void *arg)
 *     {
 *         if (f->grade == PGW_GRADE_BAD) fprintf(arg, "%s: %s %s\n", f->check, f->text, f->advice);
 *         return 0;
 *     }
 *
 *     st = pgw_doctor(h, show, stderr);
 */
PGW_API pgw_status pgw_doctor(pgw *h, int (*fn)(const pgw_finding *f, void *arg), void *arg);
/** @} */

/* ------------------------------------------------------------------------------------------- */
/** @name Locks @{
 * Named locks across machines: one holder at a time, or several shared ones. The lock is an
 * advisory lock of the server, so it ends with the session that took it: a holder that dies holds
 * nothing.
 *
 *                 acquire: fence            release
 *     (free) -------------------> HELD ----------------> (free)
 *                                  |
 *                                  |  the session dies: pgw_lock_check() says PGW_ELEASE
 *                                  v
 *                                LOST      somebody else may hold it with a higher fence
 *
 * A holder that only seems alive (paused, cut off) learns late that its lock is lost. So each
 * acquisition has a fence, a number that never goes down for a name (once committed, see
 * pgw_lock_acquire_xact()): every exclusive one is higher than all before; shared holders side by
 * side have one in common, higher than that of any exclusive holder before them. Give it to
 * whatever the lock protects. In the same database that is one more line in the transaction that
 * writes:
 *
 *     SELECT pgwork.fence_ok('mailing 42', 17);      -- false: roll back
 *
 * Once true it stays true until that transaction ends, because the next acquisition waits for it.
 *
 * Names: UTF-8, 1 to 255 bytes, any character but NUL. pgwork.lock_key(name) is the key for
 * pg_advisory_lock() and the like in psql or any other language. Should two names in use have the
 * same key (never seen: 64 bits of SHA-256), the second gets PGW_ECONFLICT, not the first one's
 * lock.
 *
 * Session locks need an opened handle and a session of its own: PGW_EMISUSE on an attached handle
 * or in a transaction, PGW_EPOOLED behind a pooler in transaction mode; pgw_lock_acquire_xact()
 * works in both places. No verb of this section can be armed by pgw_async(). */
typedef struct pgw_lock pgw_lock; /* a lock that is, or was, held */

typedef enum pgw_lock_mode { PGW_LOCK_EXCLUSIVE, PGW_LOCK_SHARED } pgw_lock_mode;

/**
 * Takes the lock @p name for the session of @p h, and waits for it at most @p timeout_ms (up to a
 * year): 0 tries, PGW_UNLIMITED waits without limit. The deadline of the call comes on top. Those
 * who wait stand in the server's own queue, so they are served in order and woken at once (1 ms
 * from the release to the next holder in the median, the commit of its fence included); after 30 s
 * a waiter goes to the end of the queue, because a statement that stands longer would hold vacuum
 * back. The first notify of the handle's stop ends the wait.
 *
 * Caller owns *lock (free with pgw_lock_release). After pgw_close() it is lost, and still to be
 * freed.
 *
 * PGW_ELOCKED: somebody else held it all the time. PGW_EHELD: this handle holds it already, in
 * either mode. PGW_ERETRY: a deadlock with another session, seen only where this one holds what the
 * other waits for: not through a second handle, nor through permits. PGW_ECANCELED: stopped.
 * PGW_ECONFLICT, PGW_EPOOLED: see above. After any failure the lock is not held; where that could
 * not be made sure, the connection was closed, and with it other locks of this handle are lost.
 *
 *     pgw_lock *lock;
 *     if (pgw_lock_acquire(h, "mailing 42", PGW_LOCK_EXCLUSIVE, 1000, &lock) == PGW_OK) {
 *         send_mailing(42, pgw_lock_fence(lock));
 *         pgw_lock_release(lock);
 *     }
 */
PGW_API pgw_status pgw_lock_acquire(pgw *h, const char *name, pgw_lock_mode mode,
                                    int64_t timeout_ms, pgw_lock **lock);

/**
 * As pgw_lock_acquire(), for the transaction that is open on @p h: COMMIT or ROLLBACK releases the
 * lock, so there is nothing to free. Works on attached handles and behind poolers. A failure other
 * than PGW_ELOCKED is one of the transaction, as always. *fence (may be NULL) takes the number.
 * PGW_EMISUSE: no transaction is open. PGW_EHELD: this handle holds it by pgw_lock_acquire(). A
 * transaction that takes it again in the same mode gets the same number.
 *
 * The number counts once the transaction has committed: a ROLLBACK undoes it, and a shared holder
 * may get a lower one afterwards. So do not hand it to anything outside of the database before.
 *
 *     if (pgw_txn_begin(h) != PGW_OK) return;
 *     st = pgw_lock_acquire_xact(h, "mailing 42", PGW_LOCK_SHARED, 0, NULL);
 *     if (st == PGW_OK) work("what it protects");
 *     if (st == PGW_OK) pgw_txn_commit(h);
 *     else pgw_txn_rollback(h);
 */
PGW_API pgw_status pgw_lock_acquire_xact(pgw *h, const char *name, pgw_lock_mode mode,
                                         int64_t timeout_ms, int64_t *fence);

/**
 * Releases and frees. PGW_ELEASE: the lock had been lost before, what was done under it may not
 * have been alone; so too when the server does not confirm the release, which closes the
 * connection: then it is released as well. PGW_EMISUSE: in a transaction, in another process, or
 * while a call is under way; nothing was done or freed.
 */
PGW_API pgw_status pgw_lock_release(pgw_lock *lock);

/** Borrowed as long as the lock. */
PGW_API const char *pgw_lock_name(const pgw_lock *lock);
/** The number of this acquisition; 0 of NULL. */
PGW_API int64_t pgw_lock_fence(const pgw_lock *lock);

/**
 * A descriptor to watch: it becomes readable when the session dies, or has something else to say;
 * then pgw_lock_check() knows more. -1: lost already. Good until the lock is lost or released. A
 * session that the server ends is seen within milliseconds (p99 below 10 ms); a network that goes
 * silent within 5 s by the keepalives that the library sets on both ends (properties keepalive.*,
 * tcp.user_timeout_ms).
 *
 *     struct pollfd p = {.fd = pgw_lock_watch(lock), .events = POLLIN};
 *     if (poll(&p, 1, 0) != 0 && pgw_lock_check(lock) == PGW_ELEASE)
 *         printf("%s is lost\n", pgw_lock_name(lock));
 */
PGW_API int pgw_lock_watch(const pgw_lock *lock);
/** Is it still ours, as far as this end can know? Reads what came, never waits, and is no verb to
 * pgw_async(): what is armed stays so. PGW_ELEASE: lost. */
PGW_API pgw_status pgw_lock_check(pgw_lock *lock);
/** The same as yes or no. */
PGW_API bool pgw_lock_is_held(pgw_lock *lock);
/**
 * Waits until the lock is lost (PGW_ELEASE), @p fd is readable (PGW_OK; -1: none), the handle's
 * stop is notified (PGW_ECANCELED) or @p timeout_ms has passed (PGW_OUTCOME_EMPTY; PGW_UNLIMITED:
 * never).
 *
 *     while ((st = pgw_lock_guard(lock, STDIN_FILENO, 60000)) >= 0)
 *         work(st == PGW_OK ? "what stdin says" : "what is due each minute");
 *     if (!pgw_lock_is_held(lock)) work("stop");
 */
PGW_API pgw_status pgw_lock_guard(pgw_lock *lock, int fd, int64_t timeout_ms);

/**
 * Does nobody hold it? Known for the moment only: to act on it, acquire with timeout 0.
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
    int64_t fence;                           /* 0: waits, or took the lock without the library */
    int64_t since_us;                        /* held or waiting since, server's clock; 0: unknown */
    int pid;                                 /* of the server's process */
    bool held;                               /* false: waits */
    bool shared;
} pgw_lock_info;
/**
 * Each holder, then each waiter, of lock @p name (NULL: of all locks, by name, whose first
 * acquisition is committed).
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
/** Who holds it; of several shared holders the one that took it first as far as is known.
 * PGW_OUTCOME_EMPTY: nobody. */
PGW_API pgw_status pgw_lock_holder(pgw *h, const char *name, pgw_lock_who *who);
/** For operators: ends the sessions that hold a lock, and makes their fencing number stale. *ended
 * (may be NULL): how many. The owner of the schema needs pg_signal_backend, else it is PGW_EPERM.
 *
 *     int64_t ended;
 *
 *     if (pgw_lock_break(h, "mailing 42", &ended) == PGW_OK && ended > 0) work("it is free");
 */
PGW_API pgw_status pgw_lock_break(pgw *h, const char *name, int64_t *ended);
/** Forgets up to @p limit (1 .. 1000) names that nobody holds, and whose fence is older than
 * @p idle_ms (operator); shared holders that follow each other draw one fence only. Fences go on
 * growing when such a name comes back, and those of before are stale. */
PGW_API pgw_status pgw_locks_prune(pgw *h, int64_t idle_ms, int limit, int64_t *forgotten);
/** @} */

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
 * A permit whose time is over is gone at that moment: pgw_sema_extend() says PGW_ELEASE, also when
 * nobody has taken it yet. So extend at a third of the ttl, and stop the work that needs the permit
 * when told PGW_ELEASE. How many there are can be changed while they are out (pgw_sema_resize);
 * what is out beyond the new number goes away as it comes back, and nothing is granted before that.
 * While somebody resizes or drops it in a transaction that stays open, nobody can take, extend or
 * return permits: after a second (or the deadline of the call: PGW_ETIMEDOUT) that is
 * PGW_ELOCKED, and the message names the process. Nothing is lost by that: ask again, before the
 * time of the permits is over.
 *
 * Names as for locks: UTF-8, 1 to 255 bytes. Acquire, extend and release need an opened handle,
 * outside of a transaction (else PGW_EMISUSE); all but the `session` option works behind a pooler
 * in transaction mode. A wait cannot be armed by pgw_async(). PGW_ENOTFOUND: no such semaphore. */

/**
 * Makes it, with 1 .. 10,000 permits (operator). Does nothing when it is there with as many;
 * PGW_EEXISTS: with another number.
 *
 *     st = pgw_sema_create(h, "licences", 5);
 *     if (st == PGW_EEXISTS) st = pgw_sema_resize(h, "licences", 5);
 *     if (pgw_sema_drop(h, "old licences", false) == PGW_ELOCKED) puts("still in use");
 */
PGW_API pgw_status pgw_sema_create(pgw *h, const char *name, int permits);
/** Changes how many there are (operator); in a transaction of yours, commit at once. PGW_ELOCKED:
 * transactions of others have taken or returned permits and stayed open for ten seconds. */
PGW_API pgw_status pgw_sema_resize(pgw *h, const char *name, int permits);
/** Removes it (operator). PGW_ELOCKED: permits are out, and @p force is false; or as for a resize.
 * Forced, their holders learn it at their next extend: PGW_ENOTFOUND. */
PGW_API pgw_status pgw_sema_drop(pgw *h, const char *name, bool force);

typedef struct pgw_sema_opts {
    size_t struct_size;
    int n;              /* permits, all or none; 1 .. 10,000 */
    int64_t timeout_ms; /* wait so long, up to a year; 0: try; PGW_UNLIMITED: until stopped */
    int64_t ttl_ms;     /* they are ours for so long; 100 .. 86,400,000 */
    const char *holder; /* who; NULL: property `holder` (host:pid) */
    bool session;       /* they come back at once when this session ends, not only after ttl_ms */
} pgw_sema_opts;
/* clang-format off */
#define PGW_SEMA_OPTS_INIT {sizeof(pgw_sema_opts), 1, 0, 30000, NULL, false}
/* clang-format on */

/**
 * Takes permits under one token, all or none. @p opts may be NULL. Those who wait are served in the
 * order of their coming, whatever they ask for, so a request for many is not starved by those for
 * one; a try (timeout_ms 0) does not pass those who wait. Behind a pooler in transaction mode there
 * is no queue: there waiting is polling, in no order. After 30 s in the queue a waiter goes to its
 * end. The first notify of the handle's stop ends the wait. A process that is frozen at the head of
 * the queue loses its session after 5 s (or four times `poll.max_ms`, if that is more), and with it
 * its place and what else the session holds. Nobody sees that two which hold permits wait for each
 * other's: take all of one semaphore in one call, several semaphores in one order everywhere, and
 * wait with a limit.
 *
 * PGW_ELOCKED: not enough were free, or somebody waits in front, or resizes. PGW_ELIMIT: n is more
 * than there are. PGW_ECANCELED: stopped. PGW_EPOOLED: `session` needs one. PGW_EUNKNOWN: they may
 * be out, until ttl_ms is over.
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
 * They end @p ttl_ms (100 .. 86,400,000) from now. PGW_ELEASE: their time was over, they are lost.
 * PGW_ELOCKED: somebody resizes; they are not lost yet, ask again.
 *
 *     if (pgw_is_lost(pgw_sema_extend(h, "licences", token, 30000))) work("stop");
 */
PGW_API pgw_status pgw_sema_extend(pgw *h, const char *name, pgw_token token, int64_t ttl_ms);
/** PGW_ELEASE: somebody else has them by now, or nobody; what was done under them may have been one
 * too many. PGW_ELOCKED: somebody resizes; repeat it, or they come back when their time is over. */
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
 * Fills @p info. PGW_ENOTFOUND: no such semaphore.
 *
 *     pgw_sema_info info = PGW_SEMA_INFO_INIT;
 *     if (pgw_sema_status(h, "licences", &info) == PGW_OK) printf("%d wait\n", info.waiting);
 */
PGW_API pgw_status pgw_sema_status(pgw *h, const char *name, pgw_sema_info *info);
/**
 * Semaphores by name.
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
    int pid; /* they end with this session of the server; 0: only by time */
} pgw_sema_grant;
/** The grants of @p name that are out, the oldest first; PGW_OUTCOME_EMPTY also when there is no
 * such semaphore. */
PGW_API pgw_status pgw_sema_grants_each(pgw *h, const char *name,
                                        int (*fn)(const pgw_sema_grant *grant, void *arg),
                                        void *arg);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
