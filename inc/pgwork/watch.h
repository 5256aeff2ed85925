/* SPDX-License-Identifier: PostgreSQL
 *
 * @file pgwork/watch.h
 * Monitoring: reports of workers, counters, overdue jobs, and the demand for workers.
 */
#ifndef PGWORK_WATCH_H
#define PGWORK_WATCH_H

#include <pgwork/handle.h>
#include <pgwork/job.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------- */
/** @name Workers (viewer) @{
 * Programs that call pgw_worker_run() report every few seconds. Other programs do not report. */
typedef struct pgw_running_job {
    int64_t id;
    int attempt;
    int64_t since_us; /* when its handler started, server's clock */
} pgw_running_job;
typedef struct pgw_worker_info {
    size_t struct_size;
    const char *name, *queue;
    int64_t since_us, report_us; /* when the worker started and reported last, server's clock */
    int concurrency, running;
    int64_t claimed, done, failed, dead, refused, lost; /* jobs of this queue */
    int64_t wait_us, run_us;                            /* sums */
    const pgw_running_job *jobs; /* up to 100 jobs that have run for a second or longer */
    size_t jobs_count;
} pgw_worker_info;
/**
 * Lists workers that have reported within 30 s, with one item for each of their queues.
 *
 * @param h      the handle
 * @param queue  only its workers; NULL: all
 * @param fn     called for each until it returns non-zero
 * @param arg    its second argument
 * @returns
 * - PGW_OK
 * - PGW_OUTCOME_EMPTY: there are none
 *
 *     static int show(const pgw_worker_info *w, void *arg)
 *     {
 *         return fprintf(arg, "%s runs %d jobs of %s\n", w->name, w->running, w->queue) < 0;
 *     }
 *
 *     st = pgw_workers_each(h, "mail", show, stdout);
 */
PGW_API pgw_status pgw_workers_each(pgw *h, const char *queue,
                                    int (*fn)(const pgw_worker_info *worker, void *arg), void *arg);

#define PGW_BUCKETS 24 /* times up to 1, 2, 4, ... 2^22 ms, and longer ones */
typedef struct pgw_queue_counts {
    size_t struct_size;
    const char *queue;
    int64_t workers, running;                           /* workers that report; their jobs */
    int64_t claimed, done, failed, dead, refused, lost; /* in total: never decrease */
    int64_t wait_us, run_us;                            /* sums */
    int64_t wait[PGW_BUCKETS], run[PGW_BUCKETS];        /* histograms of waiting and running time */
} pgw_queue_counts;
/**
 * Lists queues by name, with the counters of all their workers since the first report.
 *
 * @param h      the handle
 * @param queue  only this one; NULL: all
 * @param fn     called for each until it returns non-zero
 * @param arg    its second argument
 * @returns
 * - PGW_OK
 * - PGW_OUTCOME_EMPTY: there are none
 * @note The waiting time is the time from the enqueue to the handler. Only jobs that were ready
 * when they were enqueued count: `wait` has no delayed jobs and no retries.
 *
 *     static int show(const pgw_queue_counts *c, void *arg)
 *     {
 *         return fprintf(arg, "%s %" PRId64 " done\n", c->queue, c->done) < 0;
 *     }
 *
 *     st = pgw_counts_each(h, NULL, show, stdout);
 */
PGW_API pgw_status pgw_counts_each(pgw *h, const char *queue,
                                   int (*fn)(const pgw_queue_counts *counts, void *arg), void *arg);
/** @} */

/* ------------------------------------------------------------------------------------------- */
/** @name The end of a job (viewer) @{ */
/* clang-format off */
typedef struct pgw_wait_opts {
    size_t struct_size;
    const char *queue;  /* the queue of the job, which is faster; NULL: any */
    int64_t id;
    int64_t timeout_ms; /* longest wait; PGW_UNLIMITED: no limit */
} pgw_wait_opts;
#define PGW_WAIT_OPTS_INIT {sizeof(pgw_wait_opts), NULL, PGW_NONE, PGW_UNLIMITED}
/* clang-format on */
/**
 * Waits until a job is over: done, a dead letter, or cancelled.
 *
 * @param h     the handle
 * @param opts  the job, and the longest wait
 * @param job   takes a batch with this job: its state, error and output. The caller owns it (free
 *              with pgw_batch_free). NULL: its queue did not keep the finished job.
 * @returns
 * - PGW_OK: the job is over
 * - PGW_OUTCOME_EMPTY: it is not over yet
 * - PGW_ENOTFOUND: there is no such job, or it was over before the call and its queue did not keep
 * it
 * - PGW_EMISUSE: a transaction is open
 * @note The queue needs a retention. Otherwise finished jobs are deleted at once, with their
 * output. The call checks the job at least once a second. The first notify of the handle's stop
 * ends the wait.
 *
 *     pgw_wait_opts o = PGW_WAIT_OPTS_INIT;
 *     pgw_batch *over;
 *     o.queue = "mail", o.id = id, o.timeout_ms = 60000;
 *     st = pgw_job_wait(h, &o, &over);
 *     if (st == PGW_OK && over != NULL) {
 *         const char *output = pgw_job_output(pgw_batch_job(over, 0));
 *         puts(output != NULL ? output : "no output");
 *         pgw_batch_free(over);
 *     }
 */
PGW_API pgw_status pgw_job_wait(pgw *h, const pgw_wait_opts *opts, pgw_batch **job);
/** @} */

/* ------------------------------------------------------------------------------------------- */
/** @name Overdue jobs, gauges and demand (viewer) @{ */
typedef struct pgw_overdue {
    size_t struct_size;
    const char *queue;
    int64_t expired; /* leased jobs whose lease ended 2 s ago or earlier */
    int64_t due;     /* delayed jobs that were due 2 s ago or earlier */
} pgw_overdue;
/**
 * Lists queues that have jobs, with the number of overdue ones. While a reaper runs, these are 0.
 *
 * @param h        the handle
 * @param at_most  how many rows to check for each number, 1..100,000
 * @param fn       called for each until it returns non-zero
 * @param arg      its second argument
 * @returns
 * - PGW_OK
 * - PGW_OUTCOME_EMPTY: there are none
 *
 *     static int show(const pgw_overdue *o, void *arg)
 *     {
 *         return fprintf(arg, "%s %" PRId64 "\n", o->queue, o->expired) < 0;
 *     }
 *
 *     st = pgw_overdue_each(h, 1000, show, stdout);
 */
PGW_API pgw_status pgw_overdue_each(pgw *h, int64_t at_most,
                                    int (*fn)(const pgw_overdue *overdue, void *arg), void *arg);

typedef struct pgw_gauges {
    size_t struct_size;
    int64_t horizon_ms; /* age of the oldest transaction that holds vacuum back; 0: none is seen */
    int64_t horizon_xids; /* the same in transactions; includes slots and standbys */
    int64_t reaper_ms;    /* time since the last round of the reapers; PGW_UNLIMITED: none */
    int64_t reapers;      /* number of reapers seen within 30 s */
    int64_t stuck;        /* jobs that no reaper can move, up to 1000 */
} pgw_gauges;
#define PGW_GAUGES_INIT                               \
    {                                                 \
        sizeof(pgw_gauges), 0, 0, PGW_UNLIMITED, 0, 0 \
    }
/**
 * Reads figures about the whole schema: held snapshots, reapers and stuck jobs.
 *
 * @param h       the handle
 * @param gauges  takes the figures
 * @returns PGW_OK, or an error of any verb
 * @note Without the rights of pg_read_all_stats it does not see transactions of other users.
 *
 *     pgw_gauges g = PGW_GAUGES_INIT;
 *     if (pgw_gauges_read(h, &g) == PGW_OK && g.horizon_ms > 600000) puts("vacuum is held back");
 */
PGW_API pgw_status pgw_gauges_read(pgw *h, pgw_gauges *gauges);
/* clang-format off */
typedef struct pgw_demand_opts {
    size_t struct_size;
    const char *queue; /* if it does not exist, the demand is 0 */
    int64_t at_most;   /* counts up to this number, 1 .. 1,000,000 */
    int64_t within_ms; /* also counts delayed jobs due within this time, 0 .. 86,400,000 */
} pgw_demand_opts;
#define PGW_DEMAND_OPTS_INIT {sizeof(pgw_demand_opts), NULL, 10000, 0}
/* clang-format on */
/**
 * Returns one number for autoscalers: the ready jobs, the leased jobs, and the delayed jobs that
 * are due soon. In a paused queue only leased jobs count.
 *
 * @param h       the handle
 * @param opts    the queue, and how far to count
 * @param demand  takes the number
 * @returns PGW_OK, or an error of any verb
 *
 *     pgw_demand_opts o = PGW_DEMAND_OPTS_INIT;
 *     o.queue = "mail", o.within_ms = 60000;
 *     st = pgw_demand(h, &o, &n);
 *     if (st == PGW_OK) printf("%" PRId64 " workers\n", (n + 99) / 100);
 */
PGW_API pgw_status pgw_demand(pgw *h, const pgw_demand_opts *opts, int64_t *demand);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
