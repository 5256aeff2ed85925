/* job_list: functions for operators: list jobs and attempts, move delayed ones, redrive or purge
 * dead letters. */
#include "queue/job.h"

#include "base/name.h"
#include "call/ask.h"
#include "call/check.h"

#define LIST_MAX      100000
#define LIST_TEXT_MAX 1000 /* of a filter */

const pgw__job_column pgw__job_listed[] = {
    PGW__JOB_QUEUE,       PGW__JOB_ID,      PGW__JOB_STATE,        PGW__JOB_KIND,
    PGW__JOB_PRIORITY,    PGW__JOB_ATTEMPT, PGW__JOB_MAX_ATTEMPTS, PGW__JOB_HOLDER,
    PGW__JOB_LEASE_UNTIL, PGW__JOB_RUN_AT,  PGW__JOB_CREATED,      PGW__JOB_FINISHED,
    PGW__JOB_ERROR,       PGW__JOB_KEY,     PGW__JOB_TAGS,         PGW__JOB_PAYLOAD,
    PGW__JOB_BODY_BYTES,  PGW__JOB_OUTPUT,  PGW__JOB_GROUP,        PGW__JOB_EXPIRES,
    PGW__JOB_META,        PGW__JOB_HIDDEN,  PGW__JOB_PROGRESS,     PGW__JOB_END,
};

typedef struct list_ctx {
    int (*fn)(const pgw_job *job, void *arg);
    void *arg;
    int64_t *go_on; /* of a search; NULL: not wanted */
} list_ctx;

/* One at a time: the rows take memory enough. */
static pgw_status list_read(pgw *h, const pgw__rows *rows, void *ctx)
{
    const list_ctx *list = ctx;
    const int count = pgw__rows_count(rows);
    int row, stop = 0, found = 0;

    for (row = 0; row < count && stop == 0; row++) {
        pgw_batch *one;

        if (pgw__rows_null(rows, row, 2)) { /* where a search ended */
            if (list->go_on != NULL) *list->go_on = pgw__rows_int(rows, row, 1);
            continue;
        }
        found++;
        if (list->go_on != NULL) *list->go_on = 0;
        if (pgw__job_batch(&one, rows, row, 1, pgw__job_listed) != PGW_OK)
            return pgw__pq_fail(h, PGW_ENOMEM, NULL, NULL);
        stop = list->fn(pgw_batch_job(one, 0), list->arg);
        pgw_batch_free(one);
    }
    return found > 0 ? PGW_OK : PGW_OUTCOME_EMPTY;
}

static pgw_status list_check_kind(pgw *h, const char *argument, const char *kind)
{
    if (kind == NULL || *kind == '\0') return PGW_OK;
    return pgw__check_name(h, argument, kind, PGW__KIND_MAX);
}

pgw_status pgw_jobs_each(pgw *h, const pgw_jobs_opts *opts,
                         int (*fn)(const pgw_job *job, void *arg), void *arg)
{
    const list_ctx ctx = {fn, arg, NULL};
    pgw_jobs_opts o = PGW_JOBS_OPTS_INIT;
    pgw_status st;

    if (fn == NULL) return pgw__check_given(h, "fn", NULL);
    st = pgw__check_opts(h, "opts", &o, sizeof(o), opts);
    if (st == PGW_OK && o.queue != NULL) st = pgw__check_queue(h, o.queue);
    if (st == PGW_OK)
        st = pgw__check_int(h, "opts->state", (int64_t)o.state, 0, PGW_STATE_CANCELLED);
    if (st == PGW_OK) st = list_check_kind(h, "opts->kind", o.kind);
    if (st == PGW_OK) st = pgw__check_int(h, "opts->id", o.id, 0, INT64_MAX);
    if (st == PGW_OK) st = pgw__check_int(h, "opts->after_id", o.after_id, 0, INT64_MAX);
    if (st == PGW_OK) st = pgw__check_int(h, "opts->limit", o.limit, 1, LIST_MAX);
    if (st != PGW_OK) return st;
    {
        const char *state = o.state != PGW_STATE_ANY ? pgw_state_name(o.state) : NULL;
        const pgw__param params[] = {
            P_TEXT(o.queue),
            P_TEXT(state),
            P_TEXT(o.kind),
            P_INT8_OR_NULL(o.id, o.id == PGW_NONE),
            P_INT8(o.after_id),
            P_INT8(o.limit),
            P_END,
        };
        const pgw__call call = {
            .sql = PGW__SQL_JOB_EACH,
            .params = params,
            .read = list_read,
            .ctx = &ctx,
            .ctx_size = sizeof(ctx),
        };

        return pgw__pq_call(h, &call);
    }
}

/* ---- attempts ---- */

typedef struct attempts_ctx {
    int (*fn)(const pgw_attempt_info *attempt, void *arg);
    void *arg;
} attempts_ctx;

static pgw_status attempts_read(pgw *h, const pgw__rows *rows, void *ctx)
{
    const attempts_ctx *each = ctx;
    const int count = pgw__rows_count(rows);
    int row, stop = 0;

    (void)h;
    for (row = 0; row < count && stop == 0; row++) {
        const pgw_attempt_info a = {sizeof(a),
                                    (int)pgw__rows_int(rows, row, 0),
                                    pgw__rows_time_us(rows, row, 1),
                                    pgw__rows_text(rows, row, 2, NULL),
                                    pgw__rows_text(rows, row, 3, NULL),
                                    pgw__rows_text(rows, row, 4, NULL)};

        stop = each->fn(&a, each->arg);
    }
    return count > 0 ? PGW_OK : PGW_OUTCOME_EMPTY;
}

pgw_status pgw_attempts_each(pgw *h, const pgw_attempts_opts *opts,
                             int (*fn)(const pgw_attempt_info *attempt, void *arg), void *arg)
{
    const attempts_ctx ctx = {fn, arg};
    pgw_attempts_opts o = PGW_ATTEMPTS_OPTS_INIT;
    pgw_status st;

    if (fn == NULL) return pgw__check_given(h, "fn", NULL);
    st = pgw__check_opts(h, "opts", &o, sizeof(o), opts);
    if (st == PGW_OK && o.queue != NULL) st = pgw__check_queue(h, o.queue);
    if (st == PGW_OK) st = pgw__check_int(h, "opts->id", o.id, 1, INT64_MAX);
    if (st != PGW_OK) return st;
    {
        const pgw__param params[] = {P_TEXT(o.queue), P_INT8(o.id), P_END};
        const pgw__call call = {.sql = PGW__SQL_JOB_ATTEMPTS,
                                .params = params,
                                .read = attempts_read,
                                .ctx = &ctx,
                                .ctx_size = sizeof(ctx)};

        return pgw__pq_call(h, &call);
    }
}

/* ---- filters ---- */

static pgw_status list_check_text(pgw *h, const char *argument, const char *text, size_t max)
{
    return text != NULL ? pgw__check_name(h, argument, text, max) : PGW_OK;
}

pgw_status pgw__check_filter(pgw *h, pgw_filter *mine, const pgw_filter *given)
{
    pgw_status st = pgw__check_opts(h, "filter", mine, sizeof(*mine), given);

    if (st == PGW_OK && mine->queue != NULL) st = pgw__check_queue(h, mine->queue);
    if (st == PGW_OK)
        st = pgw__check_int(h, "filter->state", (int64_t)mine->state, 0, PGW_STATE_CANCELLED);
    if (st == PGW_OK) st = list_check_kind(h, "filter->kind", mine->kind);
    if (st == PGW_OK) st = list_check_text(h, "filter->tag", mine->tag, LIST_TEXT_MAX);
    if (st == PGW_OK) st = list_check_text(h, "filter->key", mine->key, LIST_TEXT_MAX);
    if (st == PGW_OK) st = list_check_text(h, "filter->group", mine->group, LIST_TEXT_MAX);
    if (st == PGW_OK) st = list_check_text(h, "filter->holder", mine->holder, LIST_TEXT_MAX);
    if (st == PGW_OK) st = list_check_text(h, "filter->error", mine->error, LIST_TEXT_MAX);
    return st;
}

pgw_status pgw_search(pgw *h, const pgw_search_opts *opts, int (*fn)(const pgw_job *job, void *arg),
                      void *arg, int64_t *go_on)
{
    const list_ctx ctx = {fn, arg, go_on};
    pgw_filter f = PGW_FILTER_INIT;
    pgw_search_opts o = PGW_SEARCH_OPTS_INIT;
    pgw_status st;

    if (fn == NULL) return pgw__check_given(h, "fn", NULL);
    st = pgw__check_opts(h, "opts", &o, sizeof(o), opts);
    if (st == PGW_OK) st = pgw__check_filter(h, &f, o.filter);
    if (st == PGW_OK) st = pgw__check_int(h, "opts->after_id", o.after_id, 0, INT64_MAX);
    if (st == PGW_OK) st = pgw__check_int(h, "opts->limit", o.limit, 1, LIST_MAX);
    if (go_on != NULL) *go_on = PGW_NONE; /* it may lie in the options */
    if (st != PGW_OK) return st;
    {
        const pgw__param params[] = {PGW__FILTER_PARAMS(&f), P_INT8(o.after_id), P_INT8(o.limit),
                                     P_END};
        const pgw__call call = {
            .sql = PGW__SQL_JOB_SEARCH,
            .params = params,
            .read = list_read,
            .ctx = &ctx,
            .ctx_size = sizeof(ctx),
        };

        return pgw__pq_call(h, &call);
    }
}

/* ---- delayed jobs ---- */

static pgw_status move_check(pgw *h, const char *queue, pgw_reschedule_opts *mine,
                             const pgw_reschedule_opts *given)
{
    pgw_status st = pgw__check_queue(h, queue);

    if (st == PGW_OK) st = pgw__check_opts(h, "opts", mine, sizeof(*mine), given);
    if (st == PGW_OK)
        st = pgw__check_count(h, "opts->ids_count", mine->ids_count, 0, PGW__BATCH_MAX);
    if (st == PGW_OK && mine->ids_count > 0) st = pgw__check_given(h, "opts->ids", mine->ids);
    if (st == PGW_OK) st = list_check_kind(h, "opts->kind", mine->kind);
    if (st == PGW_OK) st = pgw__check_int(h, "opts->run_at_us", mine->run_at_us, 0, INT64_MAX);
    if (st == PGW_OK)
        st = pgw__check_int(h, "opts->delay_ms", mine->delay_ms, 0, PGW__DELAY_MAX_MS);
    if (st == PGW_OK)
        st = pgw__check_one_time(h, "opts->delay_ms", mine->delay_ms, mine->run_at_us);
    if (st == PGW_OK) st = pgw__check_limit(h, "opts->limit", mine->limit);
    return st;
}

/* A job that fails again meanwhile, and is delayed again, must not be processed twice. */
pgw_status pgw_reschedule(pgw *h, const char *queue, const pgw_reschedule_opts *opts,
                          int64_t *moved)
{
    pgw_reschedule_opts o = PGW_RESCHEDULE_OPTS_INIT;
    pgw_status st;

    if (moved != NULL) *moved = 0;
    st = move_check(h, queue, &o, opts);
    if (st != PGW_OK) return st;
    {
        const pgw__param params[] = {
            P_TEXT(queue),
            P_ARRAY(INT8, o.ids, o.ids_count),
            P_TEXT(o.kind),
            P_TIME_OR_NULL(o.run_at_us, o.run_at_us == PGW_NONE),
            P_INT8_OR_NULL(o.delay_ms, o.delay_ms == 0),
            P_END,
        };

        return pgw__ask_by_ids(h, moved, o.limit, PGW__SQL_JOB_RESCHEDULE, params);
    }
}

/* ---- dead letters ---- */

/* Of a queue: those of ids, or (NULL) of a kind. A list that came out empty is not all of them. */
static pgw_status dead_check(pgw *h, const int64_t *ids, size_t n, const char *kind)
{
    pgw_status st = pgw__check_count(h, "opts->ids_count", n, 0, PGW__BATCH_MAX);

    if (st == PGW_OK && n > 0) st = pgw__check_given(h, "opts->ids", ids);
    if (st == PGW_OK) st = list_check_kind(h, "opts->kind", kind);
    return st;
}

pgw_status pgw_redrive(pgw *h, const char *queue, const pgw_redrive_opts *opts, int64_t *moved)
{
    pgw_redrive_opts o = PGW_REDRIVE_OPTS_INIT;
    pgw_status st;

    if (moved != NULL) *moved = 0;
    st = pgw__check_queue(h, queue);
    if (st == PGW_OK) st = pgw__check_opts(h, "opts", &o, sizeof(o), opts);
    if (st == PGW_OK) st = dead_check(h, o.ids, o.ids_count, o.kind);
    if (st == PGW_OK) st = pgw__check_limit(h, "opts->limit", o.limit);
    if (st != PGW_OK) return st;
    {
        const pgw__param params[] = {P_TEXT(queue), P_ARRAY(INT8, o.ids, o.ids_count),
                                     P_TEXT(o.kind), P_END};

        return pgw__ask_in_pieces(h, moved, o.limit, PGW__SQL_JOB_REDRIVE, params);
    }
}

pgw_status pgw_dead_purge(pgw *h, const char *queue, const pgw_dead_purge_opts *opts,
                          int64_t *deleted)
{
    pgw_dead_purge_opts o = PGW_DEAD_PURGE_OPTS_INIT;
    pgw_status st;

    if (deleted != NULL) *deleted = 0;
    st = pgw__check_queue(h, queue);
    if (st == PGW_OK) st = pgw__check_opts(h, "opts", &o, sizeof(o), opts);
    if (st == PGW_OK) st = dead_check(h, o.ids, o.ids_count, o.kind);
    if (st == PGW_OK)
        st = pgw__check_int(h, "opts->older_than_ms", o.older_than_ms, 0, PGW__DELAY_MAX_MS);
    if (st != PGW_OK) return st;
    {
        const pgw__param params[] = {P_TEXT(queue), P_ARRAY(INT8, o.ids, o.ids_count),
                                     P_TEXT(o.kind), P_INT8(o.older_than_ms), P_END};

        return pgw__ask_in_pieces(h, deleted, PGW_UNLIMITED, PGW__SQL_JOB_DEAD_PURGE, params);
    }
}
