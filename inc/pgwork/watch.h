/* SPDX-License-Identifier: PostgreSQL
 *
 * @file pgwork/watch.h
 * What monitoring watches: workers, what they did, what is late, how much there is to do.
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
 * Programs that call pgw_worker_run() report every few seconds. Others claim without a report. */
typedef struct pgw_running_job {
    int64_t id;
    int attempt;
    int64_t since_us; /* with its handler since, server's clock */
} pgw_running_job;
typedef struct pgw_worker_info {
    size_t struct_size;
    const char *name, *queue;
    int64_t since_us, report_us; /* when it started, and its last report, server's clock */
    int concurrency, running;
    int64_t claimed, done, failed, dead, refused, lost; /* jobs of this queue */
    int64_t wait_us, run_us;                            /* sums */
    const pgw_running_job *jobs; /* up to 100 that run for a second or longer */
    size_t jobs_count;
} pgw_worker_info;
/**
 * Lists workers that have reported within 30 s, once for each of their queues.
 *
 * @param h      the handle
 * @param queue  only its workers; NULL: all
 * @param fn     called for each until it returns non-zero
 * @param arg    its second argument
 * @returns
 * - PGW_OK
 * - PGW_OUTCOME_EMPTY: there is none
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
    int64_t workers, running;                           /* that report, and their jobs */
    int64_t claimed, done, failed, dead, refused, lost; /* ever: these only grow */
    int64_t wait_us, run_us;                            /* sums */
    int64_t wait[PGW_BUCKETS], run[PGW_BUCKETS];        /* jobs by waiting and by running time */
} pgw_queue_counts;
/**
 * Lists queues by name, with what their workers did since the queue was made.
 *
 * @param h      the handle
 * @param queue  only this one; NULL: all
 * @param fn     called for each until it returns non-zero
 * @param arg    its second argument
 * @returns
 * - PGW_OK
 * - PGW_OUTCOME_EMPTY: there is none
 * @note Waiting time is that of jobs which were ready when they were enqueued: from the enqueue to
 *   the handler. Delayed jobs and retries are not in `wait`.
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
    const char *queue;  /* its queue, which is faster; NULL: any */
    int64_t id;
    int64_t timeout_ms; /* waits so long; PGW_UNLIMITED: until it is over */
} pgw_wait_opts;
#define PGW_WAIT_OPTS_INIT {sizeof(pgw_wait_opts), NULL, PGW_NONE, PGW_UNLIMITED}
/* clang-format on */
/**
 * Waits until a job is over: done, a dead letter, or cancelled.
 *
 * @param h     the handle
 * @param opts  which one, and for how long
 * @param job   takes a batch of one, to free with pgw_batch_free(), with state, error and output;
 *   NULL if nothing of the job was kept
 * @returns
 * - PGW_OK: it is over
 * - PGW_OUTCOME_EMPTY: it is not over yet
 * - PGW_ENOTFOUND: there is no such job; or it was over before, and not kept
 * - PGW_EMISUSE: a transaction is open
 * @note The queue needs a retention, or a finished job is gone with its output. It looks again and
 *   again, after a second at most; the first request to stop ends the wait.
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
/** @name Trouble and demand (viewer) @{ */
typedef struct pgw_overdue {
    size_t struct_size;
    const char *queue;
    int64_t expired; /* jobs whose lease ended 2 s ago or earlier, and nobody took them */
    int64_t due;     /* delayed jobs whose time came 2 s ago or earlier */
} pgw_overdue;
/**
 * Lists queues that have jobs, with what should not be there while a reaper runs.
 *
 * @param h        the handle
 * @param at_most  rows to look at for each number, 1 .. 100,000
 * @param fn       called for each until it returns non-zero
 * @param arg      its second argument
 * @returns
 * - PGW_OK
 * - PGW_OUTCOME_EMPTY: there is none
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
    int64_t horizon_ms;   /* the oldest transaction that holds vacuum back; 0: none is seen */
    int64_t horizon_xids; /* the same in transactions, of slots and standbys, too */
    int64_t reaper_ms;    /* since the reapers' last round; PGW_UNLIMITED: none */
    int64_t reapers;      /* that were seen within 30 s */
    int64_t stuck;        /* jobs that no reaper can move, up to 1000 */
} pgw_gauges;
#define PGW_GAUGES_INIT                               \
    {                                                 \
        sizeof(pgw_gauges), 0, 0, PGW_UNLIMITED, 0, 0 \
    }
/**
 * Reads the numbers of the whole schema that show trouble first.
 *
 * @param h       the handle
 * @param gauges  takes them
 * @returns PGW_OK, or an error of any verb
 * @note Transactions of other users are seen with the rights of pg_read_all_stats.
 *
 *     pgw_gauges g = PGW_GAUGES_INIT;
 *     if (pgw_gauges_read(h, &g) == PGW_OK && g.horizon_ms > 600000) puts("vacuum is held back");
 */
PGW_API pgw_status pgw_gauges_read(pgw *h, pgw_gauges *gauges);
/* clang-format off */
typedef struct pgw_demand_opts {
    size_t struct_size;
    const char *queue; /* one that is not there has no jobs */
    int64_t at_most;   /* counts so far, 1 .. 1,000,000 */
    int64_t within_ms; /* delayed jobs due within this time count, 0 .. 86,400,000 */
} pgw_demand_opts;
#define PGW_DEMAND_OPTS_INIT {sizeof(pgw_demand_opts), NULL, 10000, 0}
/* clang-format on */
/**
 * Counts the jobs that there are to work on, as one number for autoscalers: ready, leased, and
 * delayed jobs that are due soon. Of a paused queue only leased ones.
 *
 * @param h       the handle
 * @param opts    of which queue, and how far
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
