/* SPDX-License-Identifier: PostgreSQL
 *
 * @file pgwork/worker.h
 * The worker: claims jobs, calls handlers, extends leases, reports results.
 */
#ifndef PGWORK_WORKER_H
#define PGWORK_WORKER_H

#include <pgwork/job.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pgw_worker pgw_worker; /* the runtime that calls handlers */
typedef struct pgw_task pgw_task;     /* a job that a handler works on */

/* ------------------------------------------------------------------------------------------- */
/** @name Worker @{
 * The one part of the library with threads:
 * - the thread that calls pgw_worker_run() owns the connection that claims and reports results;
 * - `worker.concurrency` threads call the handler;
 * - one thread, the heartbeat, extends each lease when a third of it is over, on a connection of
 *   its own. While that connection is lost, it is reopened, and no job is claimed.
 *
 * A worker may claim from several databases: see pgw_worker_add_source().
 *
 * With `worker.concurrency` 0 there are no threads. The calling thread calls the handler, one job
 * at a time, and extends leases and reports results only between jobs. So it claims only as many
 * jobs as it starts at once; `worker.prefetch` is for quick handlers only.
 *
 * Threads of the worker block the signals of the program, except those of a fault (SIGSEGV and the
 * like). A program that a handler starts inherits this mask: set another one with
 * posix_spawnattr_setsigmask(), or pthread_sigmask() before exec. See doc/worker.md.
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
    PGW_VERDICT_RETRY,   /* fail: again after the backoff of its kind or queue, or the time set by
                            pgw_task_set_delay */
    PGW_VERDICT_DEAD,    /* fail: a dead letter at once */
    PGW_VERDICT_SNOOZE,  /* again after the time set by pgw_task_set_delay; no attempt is counted */
    PGW_VERDICT_RELEASE, /* not started: ready again, behind waiting jobs; no attempt is counted */
    PGW_VERDICT_SETTLED, /* the handler finished the job itself, in its own transaction; the worker
                          * claims jobs apart from then on, see pgw_claim_opts */
    PGW_VERDICT_HOLD /* as PGW_VERDICT_SNOOZE, and holds the queue for the same time, as pgw_hold()
                      * does; the error text is the reason */
} pgw_verdict;

/** Why a handler should give up, as bits. */
typedef enum pgw_signal {
    PGW_SIGNAL_LOST = 1,     /* the lease is lost: another worker may have the job; write nothing */
    PGW_SIGNAL_CANCELED = 2, /* the job was cancelled */
    PGW_SIGNAL_TIMEOUT = 4, /* its timeout is over: `worker.job_timeout_ms`, or see pgw_kind_opts */
    PGW_SIGNAL_STOPPING = 8 /* the worker was asked to stop for the second time */
} pgw_signal;

/** Handles one job, in a handler thread. @p task is borrowed until it returns. It must return: if
 * it ends its thread instead (pthread_exit), the job stays leased, and the worker runs until the
 * second stop. */
typedef pgw_verdict pgw_handler_fn(pgw_task *task, void *arg);
/**
 * Handles up to `worker.batch` jobs, as many as there are. It sets each one's verdict with
 * pgw_task_set_verdict(); PGW_VERDICT_DONE unless set.
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

/**
 * Returns the job of a task.
 *
 * @param task  the task
 * @returns borrowed as long as the task
 */
PGW_API const pgw_job *pgw_task_job(const pgw_task *task);
/**
 * Returns which database the job comes from.
 *
 * @param task  the task
 * @returns 0: that of pgw_worker_new(); 1: the first one that pgw_worker_add_source() added; and
 *   so on
 */
PGW_API size_t pgw_task_source(const pgw_task *task);
/**
 * Returns why the handler should give up.
 *
 * @param task  the task
 * @returns PGW_SIGNAL_LOST | ...; 0: go on
 * @note Any thread. It is cheap. Call it often, and before each lasting effect.
 */
PGW_API int pgw_task_signals(const pgw_task *task);
/**
 * Returns a descriptor that becomes readable with the first signal, for handlers that wait in
 * poll().
 *
 * @param task  the task
 * @returns a descriptor, made at the first call; PGW_NO_FD: no descriptor left
 * @note It may become readable late while the heartbeat resolves a host name or cannot reach a
 *   server to cancel a call. pgw_task_signals() is never late. With `worker.concurrency` 0 it never
 *   becomes readable.
 */
PGW_API int pgw_task_fd(pgw_task *task);
/**
 * Sets the output of the job.
 *
 * @param task  the task
 * @param json  JSON text, copied; NULL: none
 * @returns
 * - PGW_OK
 * - PGW_EINVAL: not JSON, or more than `payload.max_bytes`
 * - PGW_ENOMEM
 * @note If the server refuses it nevertheless, the job fails ("the result was refused") and is
 *   retried.
 */
PGW_API pgw_status pgw_task_set_output(pgw_task *task, const char *json);
/**
 * Reports the progress of the job. The heartbeat sends it within about a second, together with the
 * progress of other jobs. The call does not wait. Only the last report is kept.
 *
 * @param task  the task
 * @param json  JSON text of up to 64 KB, copied
 * @returns
 * - PGW_OK
 * - PGW_EINVAL: NULL, not JSON, or too long
 * - PGW_ENOMEM
 * @note pgw_job_progress() of a listed job, `pgwork show` and `pgwork ls` show it. It stays if the
 *   job is requeued. The last report is sent before any verdict except PGW_VERDICT_DONE and
 *   PGW_VERDICT_SETTLED. It may be missing after a crash or a lost lease. So be ready to resume
 *   from an earlier one.
 * @note With `worker.concurrency` 0 it is sent only before such a verdict.
 *
 *     static pgw_verdict encode(pgw_task *task, void *arg)
 *     {
 *         const char *before;
 *         (void)arg;
 *         if (pgw_task_last_progress(task, &before) != PGW_OK) return PGW_VERDICT_RELEASE;
 *         work(before != NULL ? before : "from the beginning");
 *         pgw_task_progress(task, "{\"frame\": 1200}");
 *         return PGW_VERDICT_RETRY;
 *     }
 */
PGW_API pgw_status pgw_task_progress(pgw_task *task, const char *json);
/**
 * Reads the last stored progress of this job, also that of an earlier attempt.
 *
 * @param task  the task
 * @param json  takes JSON text, borrowed as long as the task; NULL: nothing was stored
 * @returns
 * - PGW_OK
 * - PGW_ECONN: the heartbeat has no session now
 * - PGW_ECANCELED: the worker has ended
 * - PGW_EINVAL: @p json is NULL; or another error of any verb
 * @note The heartbeat asks the server, so the call waits for its answer. It is the only function of
 *   a task that waits.
 */
PGW_API pgw_status pgw_task_last_progress(pgw_task *task, const char **json);
/**
 * Sets why the job failed.
 *
 * @param task   the task
 * @param error  copied, cut at 8,000 bytes; NULL: none
 * @returns
 * - PGW_OK
 * - PGW_ENOMEM: the job has no error text
 */
PGW_API pgw_status pgw_task_set_error(pgw_task *task, const char *error);
/**
 * Sets when to try again, for PGW_VERDICT_RETRY (not set: the queue's backoff; at most a year) and
 * PGW_VERDICT_SNOOZE and PGW_VERDICT_HOLD (not set: a second; at most ten years).
 *
 * @param task      the task
 * @param delay_ms  from now; a value below 0 counts as 0, above the limit as the limit
 * @returns PGW_OK
 */
PGW_API pgw_status pgw_task_set_delay(pgw_task *task, int64_t delay_ms);
/**
 * Sets the verdict, for a pgw_batch_fn. If a pgw_handler_fn calls it, the returned verdict counts.
 *
 * @param task     the task
 * @param verdict  the verdict
 * @returns PGW_OK
 */
PGW_API pgw_status pgw_task_set_verdict(pgw_task *task, pgw_verdict verdict);

/** What a worker works on, and what it calls for each job: one of the two handlers. A worker whose
 * handlers are all given by pgw_worker_handle() needs none of them. */
/* clang-format off */
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
 * Makes a worker.
 *
 * @param conf  copied: worker.*, poll.*, and the properties of a handle; NULL: the defaults
 * @param spec  queues and handler, copied
 * @param w     takes the worker; the caller owns it (free with pgw_worker_free)
 * @returns
 * - PGW_OK
 * - PGW_EINVAL: an invalid name or number of queues, no handler, or two. There is no message,
 *   because there is no worker that could hold it.
 * - PGW_ENOMEM
 */
PGW_API pgw_status pgw_worker_new(const pgw_conf *conf, const pgw_worker_spec *spec,
                                  pgw_worker **w);
/**
 * Adds a database that the worker claims from, with the same queues and handlers.
 *
 * @param w     the worker
 * @param conf  copied: the properties of a handle, such as `dsn` and `schema`. Those of worker.*
 * and poll.*, and the log, are those of pgw_worker_new().
 * @returns
 * - PGW_OK
 * - PGW_EINVAL: an argument is invalid, and pgw_worker_error() names it; `worker.concurrency` is 0;
 *   or there are 64 databases already
 * - PGW_EMISUSE: the worker runs, or handlers of the last run are still busy
 * - PGW_ENOMEM
 * @note Each database has two connections and two threads of its own. They share the handler
 *   threads: a free thread takes a job from the databases in turn. A batch handler
 * gets jobs of one database only.
 * @note The worker claims from the other databases while one is down. An error that does not pass,
 *   such as PGW_ESCHEMA, ends the claims from that database only. It is logged, and
 *   pgw_worker_run() returns it at the end.
 * @note Log messages begin with the number of the database, and the server that its connection
 *   string names.
 * @note A job whose last worker died is claimed alone from its own database, not from all.
 *
 *     static pgw *tenants[2]; // a handle each, for the handler; with one handler thread
 *
 *     static pgw_verdict mail(pgw_task *task, void *arg)
 *     {
 *         pgw_job_spec receipt = PGW_JOB_SPEC_INIT;
 *         (void)arg;
 *         if (pgw_enqueue(tenants[pgw_task_source(task)], "receipts", &receipt, NULL) < 0)
 *             return PGW_VERDICT_RETRY;
 *         return PGW_VERDICT_DONE;
 *     }
 *
 *     const char *queues[] = {"mail"}, *dsns[] = {"service=tenant_a", "service=tenant_b"};
 *     pgw_worker_spec spec = PGW_WORKER_SPEC_INIT;
 *     pgw_worker *w = NULL;
 *     spec.queues = queues, spec.queues_count = 1, spec.handler = mail;
 *     for (int i = 0; i < 2 && st >= 0; i++) {
 *         pgw_conf_set(conf, "dsn", dsns[i]);
 *         pgw_open(conf, &tenants[i]);
 *         st = i == 0 ? pgw_worker_new(conf, &spec, &w) : pgw_worker_add_source(w, conf);
 *     }
 *     if (st >= 0) st = pgw_worker_run(w, stop);
 */
PGW_API pgw_status pgw_worker_add_source(pgw_worker *w, const pgw_conf *conf);
/* clang-format off */
/** How a worker runs jobs of one kind. */
typedef struct pgw_kind_opts {
    size_t struct_size;
    int concurrency;        /* jobs at a time, 1 .. 1024, never more than `worker.concurrency`;
                             * PGW_DEFAULT: `worker.concurrency` */
    int max_attempts;       /* attempts until a dead letter, 1 .. 1000; PGW_DEFAULT: those of job or queue. These
                             * also limit a number given here, unless they are PGW_UNLIMITED */
    int64_t timeout_ms;     /* 1 .. 2,592,000,000, or PGW_UNLIMITED; PGW_DEFAULT: `worker.job_timeout_ms`.
                             * "timeout_ms" in the meta of a job overrides it */
    int64_t backoff_ms;     /* longest first backoff, 0 .. a year; PGW_DEFAULT: that of the queue */
    int64_t backoff_cap_ms; /* longest backoff, 0 .. a year; PGW_DEFAULT: 3,600,000. It needs backoff_ms */
} pgw_kind_opts;
#define PGW_KIND_OPTS_INIT {sizeof(pgw_kind_opts), PGW_DEFAULT, PGW_DEFAULT, PGW_DEFAULT, PGW_DEFAULT, PGW_DEFAULT}
/* clang-format on */
/**
 * Sets the handler for jobs of a kind. Jobs of other kinds get the handler of pgw_worker_new().
 *
 * @param w     the worker
 * @param kind  copied; "": jobs without a kind. A second call for a kind replaces the first.
 * @param fn    the handler
 * @param arg   its second argument
 * @param opts  limit, timeout and retries; NULL: the defaults
 * @returns
 * - PGW_OK
 * - PGW_EINVAL: an argument is invalid, and pgw_worker_error() names it; or 1,000 kinds have
 * handlers
 * - PGW_EMISUSE: the worker runs, or handlers of the last run are still busy
 * - PGW_ENOMEM
 * @note A job without any handler fails: "this worker has no handler for kind ...". The queue
 * retries it, so a worker that has the handler may get it. The attempts count, so give all workers
 * of the queue the handler soon.
 * @note Handler threads that a limited kind may not use run jobs of other kinds. A claimed job over
 *   the limit waits in the worker if its turn comes within a quarter of a second. Otherwise the
 *   worker snoozes it for a quarter of a second to a minute. No attempt is counted, and any worker
 *   can claim the job later. As for all delayed jobs, a reaper must run.
 * @note The limit is per worker. Give a kind with a long backlog a queue of its own: then its jobs
 * are claimed only when they can run.
 *
 *     static pgw_verdict transcode(pgw_task *task, void *arg)
 *     {
 *         work(pgw_job_payload(pgw_task_job(task)));
 *         return arg == NULL ? PGW_VERDICT_DONE : PGW_VERDICT_RETRY;
 *     }
 *
 *     pgw_kind_opts o = PGW_KIND_OPTS_INIT;
 *     o.concurrency = 1, o.timeout_ms = 3600000; // one at a time, an hour each
 *     o.max_attempts = 3, o.backoff_ms = 60000;
 *     st = pgw_worker_handle(w, "transcode", transcode, NULL, &o);
 *     if (st < 0) fprintf(stderr, "%s\n", pgw_worker_error(w));
 */
PGW_API pgw_status pgw_worker_handle(pgw_worker *w, const char *kind, pgw_handler_fn *fn, void *arg,
                                     const pgw_kind_opts *opts);
/**
 * Works until @p stop is notified. With `worker.until_empty` it also ends when no job is left, and
 * with `worker.max_jobs` after that number of jobs.
 *
 * @param w     the worker
 * @param stop  borrowed; NULL: none
 * @returns
 * - PGW_OK: stopped
 * - PGW_ETIMEDOUT: after `worker.stop_ms` some handlers have not returned. Their threads end when
 *   they return. Until then `arg` must stay valid.
 * - PGW_ESCHEMA, PGW_EPERM, PGW_EINVAL, PGW_EPROTO, PGW_ENOMEM (also: no thread can be started): an
 *   error that does not pass, of the first database that had one
 * - PGW_EMISUSE: handlers of the last run are still busy, or there is no handler at all
 * @note First notify: the worker claims nothing more, requeues jobs that were not started without
 *   charging an attempt, waits for running handlers, extends their leases, and returns. Second
 *   notify: it raises PGW_SIGNAL_STOPPING and waits for the handlers at most `worker.stop_ms`, and
 *   some seconds more for a slow server. A job that still runs then is not released: its lease
 *   expires.
 * @note A handler that calls pgw_task_signals() sees PGW_SIGNAL_LOST before anybody else can get
 *   its job, even after the process was frozen, or (on Linux) the machine was suspended.
 *   Exceptions: the server's clock is set forward, or the rates of the clocks differ by more than 1
 *   in 512.
 * @note A job whose lease was lost before it started is dropped silently. A job that was cancelled
 *   before it started is released, which removes it. A handler that ignores PGW_SIGNAL_TIMEOUT for
 *   `worker.stop_ms` loses its lease. A late verdict is still sent: the token decides. A verdict
 *   that the server answers with an error is sent again, alone, after some seconds; the third time
 *   it is sent as a failure. If that is refused, too, the lease expires.
 * @note The worker claims first from the queue whose first job is most urgent, then from the one
 *   with the oldest. With `worker.fair` the queues take turns, a claim each.
 * @note When the worker first finds nothing to do, it warns once about each queue that does not
 *   exist, because the name may be wrong (not with `worker.until_empty`). It also warns once about
 *   a queue that is paused, is held, or has only delayed or gated jobs.
 * @note After a lost connection, or on a read-only server, the worker reconnects with jitter, and
 *   results wait. A claim that fails for another reason (a full disk, a damaged row, a trigger on a
 *   table of pgwork) is logged (PGW_LOG_WARN, at once and then once a minute) and repeated after
 *   pauses of up to `reconnect.cap_ms`. Jobs that make claims fail are put aside
 *   (doc/operations.md, "Claims fail").
 */
PGW_API pgw_status pgw_worker_run(pgw_worker *w, pgw_stop *stop);
/**
 * Sets a function that is called once in each run, when the first claim was answered. Then there is
 * a session, the schema matches, and the role may claim (sd_notify).
 *
 * @param w    the worker
 * @param fn   called from the thread of pgw_worker_run(); with several databases, from that of the
 *   first one that answers
 * @param arg  its argument
 * @returns
 * - PGW_OK
 * - PGW_EINVAL: @p w is NULL
 * @note Set it before pgw_worker_run().
 */
PGW_API pgw_status pgw_worker_on_ready(pgw_worker *w, void (*fn)(void *arg), void *arg);
/**
 * Returns the last error. Call it after pgw_worker_run() or pgw_worker_handle() has returned.
 *
 * @param w  may be NULL
 * @returns a message or "", borrowed until the next run
 */
PGW_API const char *pgw_worker_error(const pgw_worker *w);

typedef struct pgw_worker_stats {
    size_t struct_size;
    int64_t claimed;
    int64_t completed, failed, dead, snoozed, released; /* accepted results, by the outcome of the
                                                         * job: after its last failure it is
                                                         * dead */
    int64_t settled; /* by their handlers (PGW_VERDICT_SETTLED) */
    int64_t refused; /* late results: another claim has the job, or it is gone */
    int64_t lost;    /* leases that ended before there was a result; and results that the server did
                      * not take before the worker ended */
    int64_t claims, empty_claims, reconnects;
    int64_t running; /* with a handler right now */
} pgw_worker_stats;
#define PGW_WORKER_STATS_INIT                                           \
    {                                                                   \
        sizeof(pgw_worker_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
    }
/**
 * Fills @p stats with a snapshot, summed over all databases.
 *
 * @param w      the worker
 * @param stats  takes the counters
 * @returns
 * - PGW_OK
 * - PGW_EINVAL: @p w or @p stats is NULL, or stats->struct_size is not set
 * @note Any thread.
 */
PGW_API pgw_status pgw_worker_get_stats(const pgw_worker *w, pgw_worker_stats *stats);
/**
 * Fills @p stats with a snapshot of one database.
 *
 * @param w       the worker
 * @param source  its number, see pgw_task_source()
 * @param stats   takes the counters
 * @returns
 * - PGW_OK
 * - PGW_EINVAL: @p w or @p stats is NULL, stats->struct_size is not set, or there is no such
 *   database
 * @note Any thread.
 *
 *     pgw_worker_stats s = PGW_WORKER_STATS_INIT;
 *     for (size_t i = 0; pgw_worker_get_source_stats(w, i, &s) == PGW_OK; i++)
 *         printf("database %zu: %" PRId64 " done\n", i, s.completed);
 */
PGW_API pgw_status pgw_worker_get_source_stats(const pgw_worker *w, size_t source,
                                               pgw_worker_stats *stats);
/**
 * Frees a worker. If handlers are still busy, the last one that returns frees the memory.
 *
 * @param w  may be NULL
 */
PGW_API void pgw_worker_free(pgw_worker *w);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
