/* job_finish: the verbs that name jobs by reference. They differ in statement and extra parameters
 * only. */
#include "queue/job.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/name.h"
#include "call/ask.h"
#include "call/check.h"

#define FINISH_EXTRA 3 /* parameters beyond queue, ids and tokens */

typedef struct finish_ctx {
    pgw_ref *refs;
    size_t n;
} finish_ctx;

/* Rows: position in the input (from 1), status. Jobs without a row were accepted. */
static pgw_status finish_read(pgw *h, const pgw__rows *rows, void *ctx)
{
    const finish_ctx *in = ctx;
    const int count = pgw__rows_count(rows);
    char message[160];
    size_t refused = 0, locked = 0;
    int row;

    pgw__job_refs_fill(in->refs, in->n, PGW_OK);
    for (row = 0; row < count; row++) {
        const pgw_status st = pgw__job_verdict(h, in->refs, in->n, rows, row, 0, 1);

        if (st == PGW_EPROTO) {
            pgw__job_refs_fill(in->refs, in->n, PGW_EUNKNOWN);
            return st;
        }
        locked += st == PGW_ELOCKED;
        refused += st < PGW_OK && st != PGW_ELOCKED;
    }
    if (refused == 0 && locked == 0) return PGW_OK;
    if (refused == 0) {
        snprintf(message, sizeof(message),
                 "nothing was done for %zu of %zu jobs: another transaction holds their rows",
                 locked, in->n);
        return pgw__pq_fail(h, PGW_ELOCKED, message,
                            "try again before the lease ends, or end that transaction");
    }
    snprintf(message, sizeof(message),
             "%zu of %zu jobs refused: claimed again, finished or cancelled", refused, in->n);
    return pgw__pq_fail(
        h, PGW_ELEASE, message,
        "write nothing more for these jobs; roll back your transaction if one is open");
}

/* Extend answers for every job, with its new time. */
static pgw_status finish_read_extend(pgw *h, const pgw__rows *rows, void *ctx)
{
    if (pgw__rows_count(rows) > 0) pgw__pq_set_server_time(h, pgw__rows_time_us(rows, 0, 2));
    return finish_read(h, rows, ctx);
}

/* Cancel answers for every job: gone is done, a running one was asked. */
static pgw_status finish_read_cancel(pgw *h, const pgw__rows *rows, void *ctx)
{
    const finish_ctx *in = ctx;
    const int count = pgw__rows_count(rows);
    size_t missing = 0;
    bool asked = false;
    int row;

    for (row = 0; row < count; row++) {
        const pgw_status st = pgw__job_verdict(h, in->refs, in->n, rows, row, 0, 1);

        if (st == PGW_EPROTO) return st;
        missing += st == PGW_ENOTFOUND;
        asked |= st == PGW_OUTCOME_CANCEL;
    }
    if (missing >= in->n)
        return pgw__pq_fail(h, PGW_ENOTFOUND, "none of these jobs exists, or all are finished",
                            NULL);
    return asked ? PGW_OUTCOME_CANCEL : PGW_OK;
}

/* Checks common to all. A failed call leaves no outcome of success. */
static pgw_status finish_check(pgw *h, const char *queue, pgw_ref *refs, size_t n)
{
    pgw_status st = pgw__check_queue(h, queue);

    pgw__job_refs_fill(refs, n, PGW_EUNKNOWN);
    if (st == PGW_OK) st = pgw__check_given(h, "refs", refs);
    if (st == PGW_OK) st = pgw__check_count(h, "n", n, 1, PGW__BATCH_MAX);
    return st;
}

static pgw_status finish(pgw *h, pgw__sql sql, const char *queue, pgw_ref *refs, size_t n,
                         const pgw__param *extra)
{
    const finish_ctx ctx = {refs, n};
    const bool extend = sql == PGW__SQL_JOB_EXTEND;
    pgw__job_refs columns;
    pgw_status st = pgw__job_refs_make(h, &columns, refs, n);

    if (st != PGW_OK) return st;
    {
        pgw__param params[3 + FINISH_EXTRA + 1] = {
            P_TEXT(queue),
            P_ARRAY(INT8, columns.ids, n),
            P_ARRAY(UUID, columns.tokens, columns.tokens_count),
        };
        const pgw__call call = {
            .sql = sql,
            .params = params,
            .read = extend ? finish_read_extend : finish_read,
            .ctx = &ctx,
            .ctx_size = sizeof(ctx),
            .flags = PGW__WRITES | (extend ? PGW__RELAXED : 0),
        };
        pgw__param *p = params + 3;

        while ((*p++ = *extra++).type != PGW__END) continue;
        st = pgw__pq_call(h, &call);
    }
    pgw__mem_free(columns.ids);
    return st;
}

pgw_status pgw_complete(pgw *h, const char *queue, pgw_ref *refs, size_t n,
                        const pgw_complete_opts *opts)
{
    pgw_complete_opts o = PGW_COMPLETE_OPTS_INIT;
    pgw_status st = finish_check(h, queue, refs, n);
    size_t max_bytes, i;

    if (st == PGW_OK) st = pgw__check_opts(h, "opts", &o, sizeof(o), opts);
    if (st != PGW_OK) return st;
    max_bytes = (size_t)pgw__conf_int(pgw__pq_conf(h), "payload.max_bytes");
    for (i = 0; o.outputs != NULL && i < n; i++) {
        char name[PGW__ELEMENT];

        st = pgw__check_json(h, pgw__check_element(name, "opts->outputs", i), o.outputs[i],
                             max_bytes);
        if (st != PGW_OK) return pgw__pq_about(h, i, st);
    }
    {
        const pgw__param extra[] = {P_ARRAY(JSONB, o.outputs, n), P_END};

        return finish(h, PGW__SQL_JOB_COMPLETE, queue, refs, n, extra);
    }
}

pgw_status pgw_fail(pgw *h, const char *queue, pgw_ref *refs, size_t n, const pgw_fail_opts *opts)
{
    pgw_fail_opts o = PGW_FAIL_OPTS_INIT;
    char error[PGW__ERROR_MAX + 1];
    pgw_status st = finish_check(h, queue, refs, n);

    if (st == PGW_OK) st = pgw__check_opts(h, "opts", &o, sizeof(o), opts);
    if (st == PGW_OK && o.retry_ms != PGW_DEFAULT)
        st = pgw__check_int(h, "opts->retry_ms", o.retry_ms, 0, PGW__PERIOD_MAX_MS);
    if (st != PGW_OK) return st;
    if (o.error != NULL) pgw__text_mend(error, sizeof(error), o.error);
    {
        const pgw__param extra[] = {P_TEXT(o.error != NULL ? error : NULL),
                                    P_INT8_OR_NULL(o.retry_ms, o.retry_ms < 0), P_BOOL(o.dead),
                                    P_END};

        return finish(h, PGW__SQL_JOB_FAIL, queue, refs, n, extra);
    }
}

pgw_status pgw_snooze(pgw *h, const char *queue, pgw_ref *refs, size_t n,
                      const pgw_snooze_opts *opts)
{
    pgw_snooze_opts o = PGW_SNOOZE_OPTS_INIT;
    pgw_status st = finish_check(h, queue, refs, n);

    if (st == PGW_OK) st = pgw__check_opts(h, "opts", &o, sizeof(o), opts);
    if (st == PGW_OK) st = pgw__check_int(h, "opts->delay_ms", o.delay_ms, 0, PGW__DELAY_MAX_MS);
    if (st != PGW_OK) return st;
    {
        const pgw__param extra[] = {P_INT8(o.delay_ms), P_END};

        return finish(h, PGW__SQL_JOB_SNOOZE, queue, refs, n, extra);
    }
}

pgw_status pgw_hold(pgw *h, const char *queue, pgw_ref *refs, size_t n, const pgw_hold_opts *opts)
{
    pgw_hold_opts o = PGW_HOLD_OPTS_INIT;
    char words[PGW__REASON_MAX + 1];
    pgw_status st = finish_check(h, queue, refs, n);

    if (st == PGW_OK) st = pgw__check_opts(h, "opts", &o, sizeof(o), opts);
    if (st == PGW_OK) st = pgw__check_int(h, "opts->for_ms", o.for_ms, 1, PGW__DELAY_MAX_MS);
    if (st != PGW_OK) return st;
    if (o.reason != NULL) pgw__text_mend(words, sizeof(words), o.reason);
    {
        const pgw__param extra[] = {P_INT8(o.for_ms), P_TEXT(o.reason != NULL ? words : NULL),
                                    P_END};

        return finish(h, PGW__SQL_JOB_HOLD, queue, refs, n, extra);
    }
}

pgw_status pgw_release(pgw *h, const char *queue, pgw_ref *refs, size_t n)
{
    const pgw__param extra[] = {P_END};
    const pgw_status st = finish_check(h, queue, refs, n);

    return st == PGW_OK ? finish(h, PGW__SQL_JOB_RELEASE, queue, refs, n, extra) : st;
}

pgw_status pgw_extend(pgw *h, const char *queue, pgw_ref *refs, size_t n,
                      const pgw_extend_opts *opts)
{
    pgw_extend_opts o = PGW_EXTEND_OPTS_INIT;
    pgw_status st = finish_check(h, queue, refs, n);

    if (st == PGW_OK) st = pgw__check_opts(h, "opts", &o, sizeof(o), opts);
    if (st == PGW_OK) st = pgw__check_lease(h, "opts->lease_ms", o.lease_ms);
    if (st != PGW_OK) return st;
    {
        const pgw__param extra[] = {P_INT8_OR_NULL(o.lease_ms, o.lease_ms == PGW_DEFAULT), P_END};

        return finish(h, PGW__SQL_JOB_EXTEND, queue, refs, n, extra);
    }
}

/* ---- progress ---- */

pgw_status pgw__job_progress(pgw *h, const char *queue, pgw_ref *refs, size_t n,
                             const char *const *progress)
{
    const pgw__param extra[] = {P_ARRAY(JSONB, progress, n), P_END};

    return finish(h, PGW__SQL_JOB_PROGRESS, queue, refs, n, extra);
}

pgw_status pgw_progress(pgw *h, const char *queue, pgw_ref *ref, const char *progress)
{
    pgw_status st = finish_check(h, queue, ref, 1);

    if (st == PGW_OK) st = pgw__check_json(h, "progress", progress, PGW__PROGRESS_MAX);
    return st == PGW_OK ? pgw__job_progress(h, queue, ref, 1, &progress) : st;
}

typedef struct progress_ctx {
    pgw_batch **job;
} progress_ctx;

static pgw_status progress_read(pgw *h, const pgw__rows *rows, void *ctx)
{
    static const pgw__job_column columns[] = {PGW__JOB_QUEUE, PGW__JOB_ID, PGW__JOB_PROGRESS,
                                              PGW__JOB_END};
    const progress_ctx *in = ctx;
    const pgw_status st = pgw__ask_rows(h, rows, 1);

    if (st != PGW_OK) return st;
    if (pgw__rows_null(rows, 0, 2)) return PGW_OUTCOME_EMPTY;
    if (pgw__job_batch(in->job, rows, 0, 1, columns) != PGW_OK)
        return pgw__pq_fail(h, PGW_ENOMEM, NULL, NULL);
    return PGW_OK;
}

pgw_status pgw_progress_read(pgw *h, const char *queue, int64_t id, pgw_batch **job)
{
    const progress_ctx ctx = {job};
    pgw_status st = pgw__check_given(h, "job", job);

    if (job != NULL) *job = NULL;
    if (st == PGW_OK) st = pgw__check_queue(h, queue);
    if (st == PGW_OK) st = pgw__check_int(h, "id", id, 1, INT64_MAX);
    if (st != PGW_OK) return st;
    {
        const pgw__param params[] = {P_TEXT(queue), P_INT8(id), P_END};
        const pgw__call call = {.sql = PGW__SQL_JOB_PROGRESS_READ,
                                .params = params,
                                .read = progress_read,
                                .ctx = &ctx,
                                .ctx_size = sizeof(ctx)};

        return pgw__pq_call(h, &call);
    }
}

pgw_status pgw_cancel(pgw *h, const char *queue, pgw_ref *refs, size_t n)
{
    const finish_ctx ctx = {refs, n};
    pgw__job_refs columns;
    pgw_status st = finish_check(h, queue, refs, n);

    if (st == PGW_OK) st = pgw__job_refs_make(h, &columns, refs, n);
    if (st != PGW_OK) return st;
    {
        const pgw__param params[] = {P_TEXT(queue), P_ARRAY(INT8, columns.ids, n), P_END};
        const pgw__call call = {
            .sql = PGW__SQL_JOB_CANCEL,
            .params = params,
            .read = finish_read_cancel,
            .ctx = &ctx,
            .ctx_size = sizeof(ctx),
            .flags = PGW__WRITES,
        };

        st = pgw__pq_call(h, &call);
    }
    pgw__mem_free(columns.ids);
    return st;
}
