/* watch: data for monitoring: workers, counts, overdue jobs, demand. */
#include <string.h>

#include "call/ask.h"
#include "call/check.h"
#include "pq/pq.h"

#define WATCH_JOBS       100 /* long-running jobs that a worker reports */
#define WATCH_ROWS_MAX   100000
#define WATCH_DEMAND_MAX 1000000
#define WATCH_DAY_MS     86400000

/* Sends a statement, and passes each row to a reader. */
static pgw_status watch_each(pgw *h, pgw__sql sql, const pgw__param *params, pgw__reader *read,
                             const void *ctx, size_t ctx_size)
{
    const pgw__call call = {
        .sql = sql, .params = params, .read = read, .ctx = ctx, .ctx_size = ctx_size};

    return pgw__pq_call(h, &call);
}

/* The numbers from column `col` on, in the order of the struct. */
static void watch_numbers(const pgw__rows *rows, int row, int col, int64_t *const *to)
{
    for (int i = 0; to[i] != NULL; i++) *to[i] = pgw__rows_int(rows, row, col + i);
}

static size_t watch_array(const pgw__rows *rows, int row, int col, int64_t *to, size_t max,
                          int64_t (*item)(const pgw__bytes *))
{
    pgw__items items;
    pgw__bytes one;
    size_t n = 0;

    pgw__rows_items(rows, row, col, &items);
    while (n < max && pgw__items_next(&items, &one)) to[n++] = item(&one);
    return n;
}

/* ---- workers ---- */

typedef struct watch_workers {
    int (*fn)(const pgw_worker_info *worker, void *arg);
    void *arg;
} watch_workers;

static size_t watch_running(const pgw__rows *rows, int row, int col, pgw_running_job *jobs)
{
    int64_t ids[WATCH_JOBS], attempts[WATCH_JOBS], since[WATCH_JOBS];
    const size_t n = watch_array(rows, row, col, ids, WATCH_JOBS, pgw__item_int);

    if (watch_array(rows, row, col + 1, attempts, WATCH_JOBS, pgw__item_int) != n) return 0;
    if (watch_array(rows, row, col + 2, since, WATCH_JOBS, pgw__item_time_us) != n) return 0;
    for (size_t i = 0; i < n; i++) jobs[i] = (pgw_running_job){ids[i], (int)attempts[i], since[i]};
    return n;
}

static pgw_status watch_read_workers(pgw *h, const pgw__rows *rows, void *ctx)
{
    const watch_workers *each = ctx;
    const int count = pgw__rows_count(rows);
    int row, stop = 0;

    (void)h;
    for (row = 0; row < count && stop == 0; row++) {
        pgw_running_job jobs[WATCH_JOBS];
        pgw_worker_info w = {.struct_size = sizeof(w), .jobs = jobs};
        int64_t *const numbers[] = {&w.claimed, &w.done,    &w.failed, &w.dead, &w.refused,
                                    &w.lost,    &w.wait_us, &w.run_us, NULL};

        w.name = pgw__rows_text(rows, row, 0, NULL);
        w.queue = pgw__rows_text(rows, row, 1, NULL);
        w.since_us = pgw__rows_time_us(rows, row, 2);
        w.report_us = pgw__rows_time_us(rows, row, 3);
        w.concurrency = (int)pgw__rows_int(rows, row, 4);
        w.running = (int)pgw__rows_int(rows, row, 5);
        watch_numbers(rows, row, 6, numbers);
        w.jobs_count = watch_running(rows, row, 14, jobs);
        stop = each->fn(&w, each->arg);
    }
    return count > 0 ? PGW_OK : PGW_OUTCOME_EMPTY;
}

pgw_status pgw_workers_each(pgw *h, const char *queue,
                            int (*fn)(const pgw_worker_info *worker, void *arg), void *arg)
{
    const watch_workers ctx = {fn, arg};
    const pgw__param params[] = {P_TEXT(queue), P_END};
    pgw_status st = PGW_OK;

    if (fn == NULL) return pgw__check_given(h, "fn", NULL);
    if (queue != NULL) st = pgw__check_queue(h, queue);
    if (st != PGW_OK) return st;
    return watch_each(h, PGW__SQL_WATCH_WORKERS, params, watch_read_workers, &ctx, sizeof(ctx));
}

/* ---- counts ---- */

typedef struct watch_counts {
    int (*fn)(const pgw_queue_counts *counts, void *arg);
    void *arg;
} watch_counts;

static pgw_status watch_read_counts(pgw *h, const pgw__rows *rows, void *ctx)
{
    const watch_counts *each = ctx;
    const int count = pgw__rows_count(rows);
    int row, stop = 0;

    (void)h;
    for (row = 0; row < count && stop == 0; row++) {
        pgw_queue_counts c = {.struct_size = sizeof(c)};
        int64_t *const numbers[] = {&c.workers, &c.running, &c.claimed, &c.done,
                                    &c.failed,  &c.dead,    &c.refused, &c.lost,
                                    &c.wait_us, &c.run_us,  NULL};

        c.queue = pgw__rows_text(rows, row, 0, NULL);
        watch_numbers(rows, row, 1, numbers);
        watch_array(rows, row, 11, c.wait, PGW_BUCKETS, pgw__item_int);
        watch_array(rows, row, 12, c.run, PGW_BUCKETS, pgw__item_int);
        stop = each->fn(&c, each->arg);
    }
    return count > 0 ? PGW_OK : PGW_OUTCOME_EMPTY;
}

pgw_status pgw_counts_each(pgw *h, const char *queue,
                           int (*fn)(const pgw_queue_counts *counts, void *arg), void *arg)
{
    const watch_counts ctx = {fn, arg};
    const pgw__param params[] = {P_TEXT(queue), P_END};
    pgw_status st = PGW_OK;

    if (fn == NULL) return pgw__check_given(h, "fn", NULL);
    if (queue != NULL) st = pgw__check_queue(h, queue);
    if (st != PGW_OK) return st;
    return watch_each(h, PGW__SQL_WATCH_COUNTS, params, watch_read_counts, &ctx, sizeof(ctx));
}

/* ---- trouble ---- */

typedef struct watch_overdue {
    int (*fn)(const pgw_overdue *overdue, void *arg);
    void *arg;
} watch_overdue;

static pgw_status watch_read_overdue(pgw *h, const pgw__rows *rows, void *ctx)
{
    const watch_overdue *each = ctx;
    const int count = pgw__rows_count(rows);
    int row, stop = 0;

    (void)h;
    for (row = 0; row < count && stop == 0; row++) {
        const pgw_overdue o = {sizeof(o), pgw__rows_text(rows, row, 0, NULL),
                               pgw__rows_int(rows, row, 1), pgw__rows_int(rows, row, 2)};

        stop = each->fn(&o, each->arg);
    }
    return count > 0 ? PGW_OK : PGW_OUTCOME_EMPTY;
}

pgw_status pgw_overdue_each(pgw *h, int64_t at_most,
                            int (*fn)(const pgw_overdue *overdue, void *arg), void *arg)
{
    const watch_overdue ctx = {fn, arg};
    const pgw__param params[] = {P_INT8(at_most), P_END};
    pgw_status st;

    if (fn == NULL) return pgw__check_given(h, "fn", NULL);
    st = pgw__check_int(h, "at_most", at_most, 1, WATCH_ROWS_MAX);
    if (st != PGW_OK) return st;
    return watch_each(h, PGW__SQL_WATCH_OVERDUE, params, watch_read_overdue, &ctx, sizeof(ctx));
}

typedef struct watch_gauges {
    pgw_gauges *gauges;
} watch_gauges;

static pgw_status watch_read_gauges(pgw *h, const pgw__rows *rows, void *ctx)
{
    const watch_gauges *in = ctx;
    const pgw_status st = pgw__ask_rows(h, rows, 1);
    pgw_gauges g = PGW_GAUGES_INIT;

    if (st != PGW_OK) return st;
    g.horizon_ms = pgw__rows_int(rows, 0, 0);
    g.horizon_xids = pgw__rows_int(rows, 0, 1);
    if (!pgw__rows_null(rows, 0, 2)) g.reaper_ms = pgw__rows_int(rows, 0, 2);
    g.reapers = pgw__rows_int(rows, 0, 3);
    g.stuck = pgw__rows_int(rows, 0, 4);
    pgw__fill(in->gauges, &g, sizeof(g));
    return PGW_OK;
}

pgw_status pgw_gauges_read(pgw *h, pgw_gauges *gauges)
{
    const watch_gauges ctx = {gauges};
    const pgw__param params[] = {P_END};
    const pgw_status st = pgw__check_filled(h, "gauges", gauges);

    if (st != PGW_OK) return st;
    return watch_each(h, PGW__SQL_WATCH_GAUGES, params, watch_read_gauges, &ctx, sizeof(ctx));
}

/* ---- demand ---- */

typedef struct watch_demand {
    int64_t *demand;
} watch_demand;

static pgw_status watch_read_demand(pgw *h, const pgw__rows *rows, void *ctx)
{
    const pgw_status st = pgw__ask_rows(h, rows, 1);

    if (st == PGW_OK) *((const watch_demand *)ctx)->demand = pgw__rows_int(rows, 0, 0);
    return st;
}

pgw_status pgw_demand(pgw *h, const pgw_demand_opts *opts, int64_t *demand)
{
    const watch_demand ctx = {demand};
    pgw_demand_opts o = PGW_DEMAND_OPTS_INIT;
    pgw_status st = pgw__check_given(h, "demand", demand);

    if (st == PGW_OK) st = pgw__check_opts(h, "opts", &o, sizeof(o), opts);
    if (st == PGW_OK) st = pgw__check_queue(h, o.queue);
    if (st == PGW_OK) st = pgw__check_int(h, "opts->at_most", o.at_most, 1, WATCH_DEMAND_MAX);
    if (st == PGW_OK) st = pgw__check_int(h, "opts->within_ms", o.within_ms, 0, WATCH_DAY_MS);
    if (st != PGW_OK) return st;
    {
        const pgw__param params[] = {P_TEXT(o.queue), P_INT8(o.at_most), P_INT8(o.within_ms),
                                     P_END};

        return watch_each(h, PGW__SQL_WATCH_DEMAND, params, watch_read_demand, &ctx, sizeof(ctx));
    }
}
