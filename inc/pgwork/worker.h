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
 * - one thread extends leases, every third of their length, on a connection of its own. Without
 * that connection no job is claimed, and it is opened again and again, as the first one is.
 *
 * With `worker.concurrency` 0 there are no threads. The calling thread calls the handler, one job
 * at a time, and extends leases and reports results only between jobs. So it claims no more than it
 * hands over at once; `worker.prefetch` is for handlers that are quick.
 *
 * Threads of the worker block the program's signals, except those of a fault of their own (SIGSEGV
 * and the like). A program that a handler starts inherits that: give it a mask with
 * posix_spawnattr_setsigmask() or pthread_sigmask() before exec. doc/worker.md has more.
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

/** Handles one job, in a handler thread. @p task is borrowed until it returns. It has to return: a
 * handler that ends its thread instead (pthread_exit) keeps its job leased, and the worker running,
 * until the second stop. */
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
 * Returns why the handler should give up.
 *
 * @param task  the task
 * @returns PGW_SIGNAL_LOST | ...; 0: go on
 * @note Any thread. Cheap: ask often, and always before a lasting effect.
 */
PGW_API int pgw_task_signals(const pgw_task *task);
/**
 * Returns a descriptor that becomes readable with the first signal, for handlers that wait in
 * poll().
 *
 * @param task  the task
 * @returns a descriptor, made at the first call; PGW_NO_FD: no descriptor left
 * @note It may be late while the heartbeat's thread looks up the name of a server, or cannot reach
 *   one to cancel a call. pgw_task_signals() never is. With `worker.concurrency` 0 nothing makes it
 *   readable.
 */
PGW_API int pgw_task_fd(pgw_task *task);
/**
 * Sets the job's result.
 *
 * @param task  the task
 * @param json  JSON text, copied; NULL: none
 * @returns
 * - PGW_OK
 * - PGW_EINVAL: not JSON, or more than `payload.max_bytes`
 * - PGW_ENOMEM
 * @note If the server refuses it all the same, the job has failed ("the result was refused") and is
 *   retried.
 */
PGW_API pgw_status pgw_task_set_output(pgw_task *task, const char *json);
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
 * PGW_VERDICT_SNOOZE (not set: a second; at most ten years).
 *
 * @param task      the task
 * @param delay_ms  from now; less than 0 is taken as 0, and more than the limit as the limit
 * @returns PGW_OK
 */
PGW_API pgw_status pgw_task_set_delay(pgw_task *task, int64_t delay_ms);
/**
 * Sets the verdict, for a pgw_batch_fn. What a pgw_handler_fn returns goes before.
 *
 * @param task     the task
 * @param verdict  the verdict
 * @returns PGW_OK
 */
PGW_API pgw_status pgw_task_set_verdict(pgw_task *task, pgw_verdict verdict);

/** What a worker works on, and what it calls. Give one of the two handlers. */
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
 * @param conf  copied: worker.*, poll.*, and all that a handle reads; NULL: the defaults
 * @param spec  queues and handler, copied
 * @param w     takes the worker; the caller owns it (free with pgw_worker_free)
 * @returns
 * - PGW_OK
 * - PGW_EINVAL: names or number of queues, no handler or two. There is no message, since there is
 * no worker yet to have it.
 * - PGW_ENOMEM
 */
PGW_API pgw_status pgw_worker_new(const pgw_conf *conf, const pgw_worker_spec *spec,
                                  pgw_worker **w);
/**
 * Works until @p stop is notified (or, with `worker.until_empty` on, until nothing is left; or
 * after `worker.max_jobs`).
 *
 * @param w     the worker
 * @param stop  borrowed; NULL: none
 * @returns
 * - PGW_OK: stopped
 * - PGW_ETIMEDOUT: handlers are still in the program's code after `worker.stop_ms`. Their threads
 * end when they return; until then what `arg` points to must stay.
 * - PGW_ESCHEMA, PGW_EPERM, PGW_EINVAL, PGW_EPROTO, PGW_ENOMEM (also: no thread can be started): no
 *   point in going on
 * - PGW_EMISUSE: handlers of the last run are still busy
 * @note First notify: it claims no more, requeues unstarted jobs without charging an attempt, waits
 *   for running ones (their leases go on) and returns. Second: it raises PGW_SIGNAL_STOPPING,
 *   reports each result at once and waits for the handlers at most `worker.stop_ms`, and some
 *   seconds more for a server that is slow to take results. What still runs then is not released:
 *   its lease will expire.
 * @note A handler that asks pgw_task_signals() gets PGW_SIGNAL_LOST before anybody else can have
 * its job, by the monotonic clock, even when the whole process was frozen, or (on Linux) the
 * machine was suspended. Not when the server's clock is set forward, which ends leases early, or
 * its rate differs by more than a part in 512 from that here.
 * @note A job whose lease was lost before it began is dropped without a word. One that was
 * cancelled before it began is returned, which ends it. A handler that ignores PGW_SIGNAL_TIMEOUT
 * for `worker.stop_ms` loses its lease. A late verdict is sent to the server all the same: the
 * token decides. One that the server answers with an error is sent again apart from others, after
 * some seconds; the third time it is sent as a failure. If the server refuses that, too, the lease
 * is left to end.
 * @note The log warns once of a queue that does not exist when the worker first finds nothing to do
 *   (not with `worker.until_empty`): its name may be wrong. It also warns once of a queue that is
 *   paused or has delayed jobs only, if the role has the rights of pgwork_operator.
 * @note Connection failures are survived: it reconnects with jitter, and results wait. So is a
 *   server that is read-only: the next session may find the primary. A claim that the server
 * answers with another error (a full disk, a damaged row, a trigger on a table of pgwork) is logged
 *   (PGW_LOG_WARN, once and then once a minute) and made again, after pauses up to
 *   `reconnect.cap_ms`. While one job makes claims fail, none behind it is claimed, also of the
 *   worker's other queues (doc/operations.md, "Claims fail").
 */
PGW_API pgw_status pgw_worker_run(pgw_worker *w, pgw_stop *stop);
/**
 * Sets what is called once in each run when the first claim was answered: there is a session, the
 * schema fits, and the role may claim (sd_notify).
 *
 * @param w    the worker
 * @param fn   called from the thread of pgw_worker_run()
 * @param arg  its argument
 * @returns
 * - PGW_OK
 * - PGW_EINVAL: @p w is NULL
 * @note Set it before pgw_worker_run().
 */
PGW_API pgw_status pgw_worker_on_ready(pgw_worker *w, void (*fn)(void *arg), void *arg);
/**
 * Returns what went wrong last. To be asked when pgw_worker_run() has returned.
 *
 * @param w  may be NULL
 * @returns a message or "", borrowed until the next run
 */
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
/**
 * Fills @p stats with a snapshot.
 *
 * @param w      the worker
 * @param stats  takes them
 * @returns
 * - PGW_OK
 * - PGW_EINVAL: @p w or @p stats is NULL, or stats->struct_size is not set
 * @note Any thread.
 */
PGW_API pgw_status pgw_worker_get_stats(const pgw_worker *w, pgw_worker_stats *stats);
/**
 * Frees a worker. Handlers that are still busy keep what they need; the last one that returns frees
 * it.
 *
 * @param w  may be NULL
 */
PGW_API void pgw_worker_free(pgw_worker *w);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
