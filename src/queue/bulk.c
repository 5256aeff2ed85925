/* bulk: operations on all jobs that fit a filter, slice by slice; their log; sorts of errors. */
#include <string.h>

#include "base/backoff.h"
#include "base/name.h"
#include "call/ask.h"
#include "call/check.h"
#include "pq/pq.h"
#include "queue/job.h"

#define BULK_SLICE   10000
#define BULK_SLICES  100 /* that a dry run reads */
#define BULK_LOG_MAX 100000

typedef struct bulk_slice {
    int64_t *n, *last;
} bulk_slice;

static pgw_status bulk_read_slice(pgw *h, const pgw__rows *rows, void *ctx)
{
    const bulk_slice *in = ctx;
    const pgw_status st = pgw__ask_rows(h, rows, 1);

    if (st != PGW_OK) return st;
    *in->n = pgw__rows_int(rows, 0, 0);
    *in->last = pgw__rows_int(rows, 0, 1); /* NULL: 0 */
    return PGW_OK;
}

static const char *const bulk_words[] = {"cancel", "redrive", "reschedule",
                                         "purge",  "move",    "priority"};

static pgw_status bulk_check(pgw *h, pgw_bulk_opts *o, const pgw_bulk_opts *opts, pgw_filter *f)
{
    pgw_status st = pgw__check_unarmed(h, NULL);

    if (st == PGW_OK) st = pgw__check_opts(h, "opts", o, sizeof(*o), opts);
    if (st == PGW_OK) st = pgw__check_int(h, "opts->verb", (int64_t)o->verb, 0, PGW_BULK_PRIORITY);
    if (st == PGW_OK) st = pgw__check_filter(h, f, o->filter);
    if (st == PGW_OK) st = pgw__check_given(h, "filter->queue", f->queue);
    if (st == PGW_OK && o->verb == PGW_BULK_MOVE) {
        st = pgw__check_given(h, "opts->to", o->to);
        if (st == PGW_OK) st = pgw__check_queue(h, o->to);
    }
    if (st == PGW_OK && o->verb == PGW_BULK_PRIORITY)
        st = pgw__check_int(h, "opts->priority", o->priority, 0, 9);
    if (st == PGW_OK && o->limit != PGW_UNLIMITED)
        st = pgw__check_int(h, "opts->limit", o->limit, 1, INT64_MAX);
    if (st == PGW_OK) st = pgw__check_int(h, "opts->run_at_us", o->run_at_us, 0, INT64_MAX);
    if (st == PGW_OK) st = pgw__check_int(h, "opts->delay_ms", o->delay_ms, 0, PGW__DELAY_MAX_MS);
    if (st == PGW_OK) st = pgw__check_one_time(h, "opts->delay_ms", o->delay_ms, o->run_at_us);
    return st;
}

static pgw_status bulk_one(pgw *h, const pgw_bulk_opts *o, const unsigned char *run, int64_t piece,
                           int64_t *n, int64_t *last)
{
    const bulk_slice ctx = {n, last};
    const bool timed = o->verb == PGW_BULK_RESCHEDULE;
    const pgw__param params[] = {
        PGW__FILTER_PARAMS(o->filter),
        P_TEXT(bulk_words[o->verb]),
        P_TEXT(o->verb == PGW_BULK_MOVE ? o->to : NULL),
        P_INT4_OR_NULL(o->priority, o->verb != PGW_BULK_PRIORITY),
        P_TIME_OR_NULL(o->run_at_us, !timed || o->run_at_us == PGW_NONE),
        P_INT8_OR_NULL(o->delay_ms, !timed || o->delay_ms == 0),
        P_INT8(*last),
        P_INT8(piece),
        P_BOOL(o->dry_run),
        P_UUID(run),
        P_END,
    };
    const pgw__call call = {.sql = PGW__SQL_BULK_SLICE,
                            .params = params,
                            .read = bulk_read_slice,
                            .ctx = &ctx,
                            .ctx_size = sizeof(ctx),
                            .flags = o->dry_run ? 0 : PGW__WRITES};

    return pgw__pq_call(h, &call);
}

pgw_status pgw_bulk(pgw *h, const pgw_bulk_opts *opts, int64_t *n, bool *more)
{
    const uint64_t run[2] = {pgw__random_u64(), pgw__random_u64()};
    pgw_filter f = PGW_FILTER_INIT;
    pgw_bulk_opts o = PGW_BULK_OPTS_INIT;
    int64_t all = 0, last = 0;
    bool goes_on = true;
    pgw_status st;

    if (n != NULL) *n = 0;
    if (more != NULL) *more = false;
    st = bulk_check(h, &o, opts, &f);
    o.filter = &f;
    for (int slices = 0; st == PGW_OK && goes_on; slices++) {
        const int64_t left = o.limit > 0 ? o.limit - all : BULK_SLICE;
        int64_t one = 0;

        if (o.dry_run && slices == BULK_SLICES) break;
        if (slices > 0 && pgw__pq_stopped(h))
            return pgw__pq_fail(h, PGW_ECANCELED, "asked to stop; a part is done", NULL);
        st = bulk_one(h, &o, (const unsigned char *)run, left < BULK_SLICE ? left : BULK_SLICE,
                      &one, &last);
        all += one;
        if (n != NULL) *n = all;
        goes_on = last > 0 && (o.limit < 0 || all < o.limit);
    }
    if (more != NULL) *more = st == PGW_OK && last > 0;
    return st;
}

/* ---- the log ---- */

typedef struct bulk_log {
    int (*fn)(const pgw_log_info *entry, void *arg);
    void *arg;
} bulk_log;

static pgw_status bulk_read_log(pgw *h, const pgw__rows *rows, void *ctx)
{
    const bulk_log *each = ctx;
    const int count = pgw__rows_count(rows);
    int row, stop = 0;

    (void)h;
    for (row = 0; row < count && stop == 0; row++) {
        const pgw_log_info l = {.struct_size = sizeof(l),
                                .at_us = pgw__rows_time_us(rows, row, 0),
                                .who = pgw__rows_text(rows, row, 1, NULL),
                                .verb = pgw__rows_text(rows, row, 2, NULL),
                                .filter = pgw__rows_text(rows, row, 3, NULL),
                                .change = pgw__rows_text(rows, row, 4, NULL),
                                .n = pgw__rows_int(rows, row, 5)};

        stop = each->fn(&l, each->arg);
    }
    return count > 0 ? PGW_OK : PGW_OUTCOME_EMPTY;
}

pgw_status pgw_log_each(pgw *h, int limit, int (*fn)(const pgw_log_info *entry, void *arg),
                        void *arg)
{
    const bulk_log ctx = {fn, arg};
    const pgw__param params[] = {P_INT8(limit), P_END};
    const pgw__call call = {.sql = PGW__SQL_BULK_LOG,
                            .params = params,
                            .read = bulk_read_log,
                            .ctx = &ctx,
                            .ctx_size = sizeof(ctx)};
    pgw_status st;

    if (fn == NULL) return pgw__check_given(h, "fn", NULL);
    st = pgw__check_int(h, "limit", limit, 1, BULK_LOG_MAX);
    return st == PGW_OK ? pgw__pq_call(h, &call) : st;
}

/* ---- sorts of errors ---- */

typedef struct bulk_errors {
    int (*fn)(const pgw_dead_errors *errors, void *arg);
    void *arg;
} bulk_errors;

static pgw_status bulk_read_errors(pgw *h, const pgw__rows *rows, void *ctx)
{
    const bulk_errors *each = ctx;
    const int count = pgw__rows_count(rows);
    int row, stop = 0;

    (void)h;
    for (row = 0; row < count && stop == 0; row++) {
        const pgw_dead_errors e = {.struct_size = sizeof(e),
                                   .queue = pgw__rows_text(rows, row, 0, NULL),
                                   .kind = pgw__rows_text(rows, row, 1, NULL),
                                   .error = pgw__rows_text(rows, row, 2, NULL),
                                   .n = pgw__rows_int(rows, row, 3),
                                   .first_us = pgw__rows_time_us(rows, row, 4),
                                   .last_us = pgw__rows_time_us(rows, row, 5),
                                   .last_id = pgw__rows_int(rows, row, 6)};

        stop = each->fn(&e, each->arg);
    }
    return count > 0 ? PGW_OK : PGW_OUTCOME_EMPTY;
}

pgw_status pgw_dead_errors_each(pgw *h, const char *queue,
                                int (*fn)(const pgw_dead_errors *errors, void *arg), void *arg)
{
    const bulk_errors ctx = {fn, arg};
    const pgw__param params[] = {P_TEXT(queue), P_END};
    const pgw__call call = {.sql = PGW__SQL_BULK_DEAD_ERRORS,
                            .params = params,
                            .read = bulk_read_errors,
                            .ctx = &ctx,
                            .ctx_size = sizeof(ctx)};
    pgw_status st = PGW_OK;

    if (fn == NULL) return pgw__check_given(h, "fn", NULL);
    if (queue != NULL) st = pgw__check_queue(h, queue);
    return st == PGW_OK ? pgw__pq_call(h, &call) : st;
}
