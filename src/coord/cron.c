/* cron: schedules. The expression is parsed here first, to report a fault with its column. The
 * server computes the times. */
#include <stdio.h>
#include <string.h>

#include "base/cronexpr.h"
#include "base/name.h"
#include "call/ask.h"
#include "call/check.h"
#include "pq/pq.h"

#define CRON_DAY_MS    INT64_C(86400000)
#define CRON_TIMES_MAX 10000
#define CRON_SKIP_MS   1000 /* with less, a schedule that skips would never run */

/* ---- expressions ---- */

pgw_status pgw_cron_check(const char *expression, char *fault, size_t size)
{
    pgw__cronexpr e;
    pgw__cronexpr_fault why;

    if (fault != NULL && size > 0) *fault = '\0';
    if (expression == NULL) return PGW_EINVAL;
    if (pgw__cronexpr_parse(&e, expression, &why)) return PGW_OK;
    if (fault != NULL && size > 0) snprintf(fault, size, "%s", why.text);
    return PGW_EINVAL;
}

/* The same message as the server's. */
static pgw_status cron_check_expression(pgw *h, const char *expression)
{
    pgw__cronexpr e;
    pgw__cronexpr_fault why;
    char message[400], shown[81];

    if (expression == NULL) return pgw__check_given(h, "expression", NULL);
    if (pgw__cronexpr_parse(&e, expression, &why)) return PGW_OK;
    pgw__text_copy(shown, sizeof(shown), expression);
    if (pgw__name_fault(expression, PGW__CRONEXPR_MAX) != NULL) /* nothing for a terminal */
        snprintf(message, sizeof(message), "argument `expression` is not valid: %s", why.text);
    else
        snprintf(message, sizeof(message), "argument expression is \"%s\": %s", shown, why.text);
    return pgw__pq_reject(h, PGW_EINVAL, message,
                          "minute hour day month weekday, each * or lists of n, n-n, with /step; "
                          "@daily ...; or @every 90s");
}

typedef struct cron_next_ctx {
    int (*fn)(int64_t at_us, const char *local, void *arg);
    void *arg;
} cron_next_ctx;

static pgw_status cron_read_next(pgw *h, const pgw__rows *rows, void *ctx)
{
    const cron_next_ctx *in = ctx;
    const int count = pgw__rows_count(rows);
    int row, stop = 0;

    (void)h;
    for (row = 0; row < count && stop == 0; row++) {
        const char *local = pgw__rows_text(rows, row, 1, NULL);

        stop = in->fn(pgw__rows_time_us(rows, row, 0), local != NULL ? local : "", in->arg);
    }
    return PGW_OK;
}

pgw_status pgw_cron_next(pgw *h, const char *expression, const pgw_cron_next_opts *opts,
                         int (*fn)(int64_t at_us, const char *local, void *arg), void *arg)
{
    const cron_next_ctx ctx = {fn, arg};
    pgw_cron_next_opts o = PGW_CRON_NEXT_OPTS_INIT;
    pgw_status st = pgw__check_opts(h, "opts", &o, sizeof(o), opts);

    if (st == PGW_OK && fn == NULL) st = pgw__check_given(h, "fn", NULL);
    if (st == PGW_OK) st = pgw__check_int(h, "opts->max", o.max, 1, CRON_TIMES_MAX);
    if (st == PGW_OK) st = cron_check_expression(h, expression);
    if (st != PGW_OK) return st;
    {
        const pgw__param params[] = {
            P_TEXT(expression),
            P_TEXT(o.zone != NULL ? o.zone : "UTC"),
            P_INT4(o.max),
            P_TIME_OR_NULL(o.after_us, o.after_us == PGW_NONE),
            P_END,
        };
        const pgw__call call = {
            .sql = PGW__SQL_CRON_NEXT,
            .params = params,
            .read = cron_read_next,
            .ctx = &ctx,
            .ctx_size = sizeof(ctx),
        };

        return pgw__pq_call(h, &call);
    }
}

/* ---- making ---- */

static const char *const cron_misfires[] = {
    [PGW_MISFIRE_ONCE] = "once", [PGW_MISFIRE_SKIP] = "skip", [PGW_MISFIRE_ALL] = "all"};
#define CRON_MISFIRES ((int)(sizeof(cron_misfires) / sizeof(cron_misfires[0])))

static pgw_status cron_check_job(pgw *h, pgw_job_spec *mine, const pgw_job_spec *given)
{
    const pgw_job_spec none = PGW_JOB_SPEC_INIT;
    pgw_status st = PGW_OK;

    *mine = none;
    if (given == NULL) return PGW_OK;
    st = pgw__check_new(h, mine, given, -1, PGW__BYTES_MAX);
    if (st == PGW_OK) st = pgw__check_int(h, "job->run_at_us", mine->run_at_us, 0, 0);
    if (st == PGW_OK) st = pgw__check_int(h, "job->delay_ms", mine->delay_ms, 0, 0);
    if (st == PGW_OK) st = pgw__check_int(h, "job->key_scope", mine->key_scope, 0, 0);
    if (st == PGW_OK) st = pgw__check_int(h, "job->key_policy", mine->key_policy, 0, 0);
    if (st == PGW_OK) st = pgw__check_count(h, "job->tags_count", mine->tags_count, 0, 30);
    if (st == PGW_OK) st = pgw__check_int(h, "job->expires_us", mine->expires_us, 0, 0);
    if (st == PGW_OK && (mine->group != NULL || mine->meta != NULL || mine->op != NULL))
        st = pgw__pq_reject(h, PGW_EINVAL,
                            "argument `job` has a group, meta or op: expected NULL in a schedule",
                            NULL);
    return st;
}

static pgw_status cron_check_opts(pgw *h, pgw_cron_opts *mine, const pgw_cron_opts *given)
{
    pgw_status st = pgw__check_opts(h, "opts", mine, sizeof(*mine), given);

    if (st == PGW_OK && mine->zone != NULL)
        st = pgw__check_name(h, "opts->zone", mine->zone, PGW__QUEUE_MAX);
    if (st == PGW_OK && mine->queue != NULL)
        st = pgw__check_name(h, "opts->queue", mine->queue, PGW__QUEUE_MAX);
    if (st == PGW_OK) st = pgw__check_int(h, "opts->misfire", mine->misfire, 0, CRON_MISFIRES - 1);
    if (st == PGW_OK) st = pgw__check_int(h, "opts->misfire_max", mine->misfire_max, 1, 1000);
    if (st == PGW_OK) st = pgw__check_int(h, "opts->grace_ms", mine->grace_ms, 0, CRON_DAY_MS);
    if (st == PGW_OK && mine->misfire == PGW_MISFIRE_SKIP && mine->grace_ms < CRON_SKIP_MS)
        st = pgw__pq_refuse_int(h, "opts->grace_ms", mine->grace_ms,
                                "1000..86400000 with PGW_MISFIRE_SKIP: every tick is found a "
                                "little late");
    if (st == PGW_OK) st = pgw__check_int(h, "opts->jitter_ms", mine->jitter_ms, 0, 3600000);
    if (st == PGW_OK)
        st = pgw__check_int(h, "opts->timeout_ms", mine->timeout_ms, 100, 7 * CRON_DAY_MS);
    return st;
}

typedef struct cron_time_ctx {
    int64_t *us;
} cron_time_ctx;

static pgw_status cron_read_time(pgw *h, const pgw__rows *rows, void *ctx)
{
    const cron_time_ctx *in = ctx;
    const pgw_status st = pgw__ask_rows(h, rows, 1);

    if (st == PGW_OK && in->us != NULL) *in->us = pgw__rows_time_us(rows, 0, 0);
    return st;
}

pgw_status pgw_cron_create(pgw *h, const char *schedule, const char *expression,
                           const pgw_cron_opts *opts, int64_t *next_us)
{
    const cron_time_ctx ctx = {next_us};
    pgw_cron_opts o = PGW_CRON_OPTS_INIT;
    pgw_job_spec job;
    pgw_status st;

    if (next_us != NULL) *next_us = 0;
    st = pgw__check_name(h, "schedule", schedule, PGW__QUEUE_MAX);
    if (st == PGW_OK) st = cron_check_expression(h, expression);
    if (st == PGW_OK) st = cron_check_opts(h, &o, opts);
    if (st == PGW_OK) st = cron_check_job(h, &job, o.job);
    if (st != PGW_OK) return st;
    {
        const pgw__param params[] = {
            P_TEXT(schedule),
            P_TEXT(expression),
            P_TEXT(o.zone != NULL ? o.zone : "UTC"),
            P_TEXT(o.queue),
            P_JSONB(job.payload),
            P_TEXT(job.kind),
            P_BYTEA(job.body, job.body_size),
            P_INT4(job.priority),
            P_INT4_OR_NULL(job.max_attempts, job.max_attempts == PGW_DEFAULT),
            P_INT8_OR_NULL(job.lease_ms, job.lease_ms == PGW_DEFAULT),
            P_ARRAY(TEXT, job.tags, job.tags_count),
            P_TEXT(job.key),
            P_TEXT(cron_misfires[o.misfire]),
            P_INT4(o.misfire_max),
            P_INT8(o.grace_ms),
            P_INT8(o.jitter_ms),
            P_INT8(o.timeout_ms),
            P_INT8_OR_NULL(job.ttl_ms, job.ttl_ms == PGW_UNLIMITED),
            P_END,
        };
        const pgw__call call = {
            .sql = PGW__SQL_CRON_CREATE,
            .params = params,
            .read = cron_read_time,
            .ctx = &ctx,
            .ctx_size = sizeof(ctx),
            .flags = PGW__WRITES,
        };

        return pgw__pq_call(h, &call);
    }
}

/* ---- the switches ---- */

static pgw_status cron_do(pgw *h, pgw__sql sql, const char *schedule)
{
    const pgw__param params[] = {P_TEXT(schedule), P_END};
    const pgw_status st = pgw__check_name(h, "schedule", schedule, PGW__QUEUE_MAX);

    return st == PGW_OK ? pgw__ask(h, sql, params) : st;
}

pgw_status pgw_cron_pause(pgw *h, const char *schedule)
{
    return cron_do(h, PGW__SQL_CRON_PAUSE, schedule);
}

pgw_status pgw_cron_resume(pgw *h, const char *schedule)
{
    return cron_do(h, PGW__SQL_CRON_RESUME, schedule);
}

pgw_status pgw_cron_drop(pgw *h, const char *schedule)
{
    return cron_do(h, PGW__SQL_CRON_DROP, schedule);
}

pgw_status pgw_cron_rename(pgw *h, const char *schedule, const char *new_name)
{
    const pgw__param params[] = {P_TEXT(schedule), P_TEXT(new_name), P_END};
    pgw_status st = pgw__check_name(h, "schedule", schedule, PGW__QUEUE_MAX);

    if (st == PGW_OK) st = pgw__check_name(h, "new_name", new_name, PGW__QUEUE_MAX);
    return st == PGW_OK ? pgw__ask(h, PGW__SQL_CRON_RENAME, params) : st;
}

pgw_status pgw_cron_break(pgw *h, const char *schedule, bool *held)
{
    const pgw__param params[] = {P_TEXT(schedule), P_END};
    const pgw_status st = pgw__check_name(h, "schedule", schedule, PGW__QUEUE_MAX);
    bool was;

    if (held == NULL) held = &was;
    *held = false;
    return st == PGW_OK ? pgw__ask_flag(h, held, PGW__SQL_CRON_BREAK, params, PGW__WRITES) : st;
}

pgw_status pgw_cron_run(pgw *h, const char *schedule, int64_t *job_id)
{
    const pgw__param params[] = {P_TEXT(schedule), P_END};
    const pgw_status st = pgw__check_name(h, "schedule", schedule, PGW__QUEUE_MAX);

    if (job_id != NULL) *job_id = 0;
    return st == PGW_OK ? pgw__ask_number(h, job_id, PGW__SQL_CRON_RUN, params) : st;
}

/* ---- looking ---- */

typedef struct cron_each_ctx {
    int (*fn)(const pgw_cron_info *info, void *arg);
    void *arg;
} cron_each_ctx;

static pgw_misfire cron_misfire(const char *word)
{
    int i = CRON_MISFIRES - 1;

    while (i > 0 && (word == NULL || strcmp(word, cron_misfires[i]) != 0)) i--;
    return (pgw_misfire)i;
}

/* In the order of the columns. */
static pgw_status cron_read_each(pgw *h, const pgw__rows *rows, void *ctx)
{
    const cron_each_ctx *in = ctx;
    const int count = pgw__rows_count(rows);
    int row, stop = 0;

    (void)h;
    for (row = 0; row < count && stop == 0; row++) {
        const pgw_cron_info info = {
            .struct_size = sizeof(info),
            .name = pgw__rows_text(rows, row, 0, NULL),
            .expression = pgw__rows_text(rows, row, 1, NULL),
            .zone = pgw__rows_text(rows, row, 2, NULL),
            .queue = pgw__rows_text(rows, row, 3, NULL),
            .kind = pgw__rows_text(rows, row, 4, NULL),
            .payload = pgw__rows_text(rows, row, 5, NULL),
            .key = pgw__rows_text(rows, row, 6, NULL),
            .misfire = cron_misfire(pgw__rows_text(rows, row, 7, NULL)),
            .misfire_max = (int)pgw__rows_int(rows, row, 8),
            .priority = (int)pgw__rows_int(rows, row, 9),
            .grace_ms = pgw__rows_int(rows, row, 10),
            .jitter_ms = pgw__rows_int(rows, row, 11),
            .timeout_ms = pgw__rows_int(rows, row, 12),
            .paused = pgw__rows_int(rows, row, 13) != 0,
            .next_us = pgw__rows_time_us(rows, row, 14),
            .last_us = pgw__rows_time_us(rows, row, 15),
            .holder = pgw__rows_text(rows, row, 16, NULL),
            .since_us = pgw__rows_time_us(rows, row, 17),
            .until_us = pgw__rows_time_us(rows, row, 18),
            .attempt = (int)pgw__rows_int(rows, row, 19),
            .error = pgw__rows_text(rows, row, 20, NULL),
            .error_us = pgw__rows_time_us(rows, row, 21),
        };

        stop = in->fn(&info, in->arg);
    }
    return count > 0 ? PGW_OK : PGW_OUTCOME_EMPTY;
}

pgw_status pgw_crons_each(pgw *h, const char *schedule,
                          int (*fn)(const pgw_cron_info *info, void *arg), void *arg)
{
    const cron_each_ctx ctx = {fn, arg};
    const pgw__param params[] = {P_TEXT(schedule), P_END};
    const pgw__call call = {
        .sql = PGW__SQL_CRON_EACH,
        .params = params,
        .read = cron_read_each,
        .ctx = &ctx,
        .ctx_size = sizeof(ctx),
    };
    pgw_status st = pgw__check_handle(h);

    if (st == PGW_OK && fn == NULL) st = pgw__check_given(h, "fn", NULL);
    if (st == PGW_OK && schedule != NULL)
        st = pgw__check_name(h, "schedule", schedule, PGW__QUEUE_MAX);
    return st == PGW_OK ? pgw__pq_call(h, &call) : st;
}

/* ---- the scheduler ---- */

typedef struct cron_tick_ctx {
    int64_t *fired, *next_ms;
} cron_tick_ctx;

static pgw_status cron_read_tick(pgw *h, const pgw__rows *rows, void *ctx)
{
    const cron_tick_ctx *in = ctx;
    const pgw_status st = pgw__ask_rows(h, rows, 1);

    if (st != PGW_OK) return st;
    if (in->fired != NULL) *in->fired = pgw__rows_int(rows, 0, 0);
    if (in->next_ms != NULL)
        *in->next_ms = pgw__rows_null(rows, 0, 1) ? -1 : pgw__rows_int(rows, 0, 1);
    return PGW_OK;
}

pgw_status pgw_cron_tick(pgw *h, int64_t *fired, int64_t *next_ms)
{
    const cron_tick_ctx ctx = {fired, next_ms};
    pgw_status st;

    if (fired != NULL) *fired = 0;
    if (next_ms != NULL) *next_ms = 0;
    st = pgw__check_handle(h);
    if (st != PGW_OK) return st;
    {
        const pgw__param params[] = {P_INT4(pgw__conf_int(pgw__pq_conf(h), "reaper.batch")), P_END};
        const pgw__call call = {
            .sql = PGW__SQL_CRON_TICK,
            .params = params,
            .read = cron_read_tick,
            .ctx = &ctx,
            .ctx_size = sizeof(ctx),
            .flags = PGW__WRITES,
        };

        return pgw__pq_call(h, &call);
    }
}
