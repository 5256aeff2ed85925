/* rate: so many takes per period.
 *
 * The functions in the schema decide what can be taken. The server returns how long to wait, and
 * this file waits, without a statement, which would hold back vacuum. */
#include <stdio.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/name.h"
#include "call/ask.h"
#include "call/check.h"
#include "pq/pq.h"

#define RATE_MAX         1000000
#define RATE_NAME_SHOWN  81
#define RATE_WAIT_MAX_MS INT64_C(31536000000) /* a year */
#define RATE_CHECK_MS    60000                /* another session may have changed the rate */
#define RATE_BUSY_MS     250 /* another session hangs within a take, or drops the rate */
#define RATE_JITTER_MS   20  /* so that waiters do not all try at once */

pgw_status pgw_rate_set(pgw *h, const char *name, const pgw_rate_opts *opts)
{
    pgw_rate_opts o = PGW_RATE_OPTS_INIT;
    pgw_status st = pgw__check_any_name(h, "name", name);

    if (st == PGW_OK) st = pgw__check_opts(h, "opts", &o, sizeof(o), opts);
    if (st == PGW_OK) st = pgw__check_int(h, "opts->n", o.n, 1, RATE_MAX);
    if (st == PGW_OK) st = pgw__check_int(h, "opts->per_ms", o.per_ms, 1, PGW__PERIOD_MAX_MS);
    if (st == PGW_OK && o.burst != PGW_DEFAULT)
        st = pgw__check_int(h, "opts->burst", o.burst, 1, RATE_MAX);
    if (st != PGW_OK) return st;
    {
        const pgw__param params[] = {P_TEXT(name), P_INT4(o.n), P_INT8(o.per_ms),
                                     P_INT4_OR_NULL(o.burst, o.burst == PGW_DEFAULT), P_END};

        return pgw__ask(h, PGW__SQL_RATE_SET, params);
    }
}

pgw_status pgw_rate_drop(pgw *h, const char *name)
{
    const pgw__param params[] = {P_TEXT(name), P_END};
    const pgw_status st = pgw__check_any_name(h, "name", name);

    return st == PGW_OK ? pgw__ask(h, PGW__SQL_RATE_DROP, params) : st;
}

/* ---- taking ---- */

typedef struct rate_answer {
    int64_t *wait_ms;           /* may be NULL */
    char name[RATE_NAME_SHOWN]; /* a call that was armed outlives the argument */
} rate_answer;

static pgw_status rate_read_take(pgw *h, const pgw__rows *rows, void *ctx)
{
    const rate_answer *in = ctx;
    pgw_status st = pgw__ask_rows(h, rows, 1);
    char message[RATE_NAME_SHOWN + 80];
    int64_t wait_ms;

    if (st != PGW_OK) return st;
    wait_ms = pgw__rows_int(rows, 0, 0);
    if (in->wait_ms != NULL) *in->wait_ms = wait_ms;
    if (wait_ms == 0) return PGW_OK;
    snprintf(message, sizeof(message), "rate \"%s\" is used up: try again in %lld ms", in->name,
             (long long)wait_ms);
    return pgw__pq_fail(h, PGW_ELOCKED, message, "wait longer, take fewer, or raise the rate");
}

static pgw_status rate_try(pgw *h, const char *name, int n, int64_t *wait_ms)
{
    rate_answer ctx = {wait_ms, ""};
    const pgw__param params[] = {P_TEXT(name), P_INT4(n), P_END};
    const pgw__call call = {
        .sql = PGW__SQL_RATE_TAKE,
        .params = params,
        .read = rate_read_take,
        .ctx = &ctx,
        .ctx_size = sizeof(ctx),
        .flags = PGW__WRITES,
    };

    pgw__text_mend(ctx.name, sizeof(ctx.name), name);
    return pgw__pq_call(h, &call);
}

static pgw_status rate_check(pgw *h, const char *name, pgw_rate_take_opts *o,
                             const pgw_rate_take_opts *opts)
{
    pgw_status st = pgw__check_any_name(h, "name", name);

    if (st == PGW_OK) st = pgw__check_opts(h, "opts", o, sizeof(*o), opts);
    if (st == PGW_OK) st = pgw__check_int(h, "opts->n", o->n, 1, RATE_MAX);
    if (st == PGW_OK) st = pgw__check_wait(h, "opts->timeout_ms", o->timeout_ms, RATE_WAIT_MAX_MS);
    if (st == PGW_OK && o->timeout_ms != 0)
        st = pgw__check_unarmed(h,
                                "take with timeout_ms 0 and repeat the call from your event loop");
    return st;
}

/* A notification for others may end the sleep early. */
static pgw_status rate_sleep(pgw *h, int64_t ms)
{
    const int64_t deadline = pgw__deadline_in(ms);
    pgw_status st = PGW_OK;

    while (st >= PGW_OK && pgw__deadline_left_ms(deadline) != 0)
        st = pgw__pq_wait(h, pgw__deadline_left_ms(deadline), -1);
    return st == PGW_ECONN || st >= PGW_OK ? PGW_OK : st; /* the next try has another session */
}

/* How long to sleep before the next try. 0: no try in time can succeed. */
static int64_t rate_pause_ms(int64_t wait_ms, int64_t left_ms)
{
    int64_t ms = wait_ms > 0 ? wait_ms : RATE_BUSY_MS;

    if (left_ms == 0 || (left_ms > 0 && wait_ms > left_ms)) return 0;
    if (ms > RATE_CHECK_MS) return RATE_CHECK_MS;
    ms += (int64_t)(pgw__random_u64() % RATE_JITTER_MS);
    return left_ms > 0 && ms > left_ms ? left_ms : ms;
}

pgw_status pgw_rate_take(pgw *h, const char *name, const pgw_rate_take_opts *opts, int64_t *wait_ms)
{
    pgw_rate_take_opts o = PGW_RATE_TAKE_OPTS_INIT;
    int64_t rest_ms = 0, deadline, pause_ms;
    pgw_status st;

    if (wait_ms != NULL) *wait_ms = 0;
    st = rate_check(h, name, &o, opts);
    if (st != PGW_OK) return st;
    if (pgw__pq_armed(h)) return rate_try(h, name, o.n, wait_ms);
    deadline = pgw__deadline_in(o.timeout_ms);
    do {
        rest_ms = 0; /* as after an error */
        st = rate_try(h, name, o.n, &rest_ms);
        if (wait_ms != NULL) *wait_ms = rest_ms;
        if (st != PGW_ELOCKED) return st;
        pause_ms = rate_pause_ms(rest_ms, pgw__deadline_left_ms(deadline));
        if (pause_ms == 0) return st;
        st = rate_sleep(h, pause_ms);
    } while (st == PGW_OK);
    return st;
}

/* ---- looking ---- */

typedef struct rate_each {
    int (*fn)(const pgw_rate_info *info, void *arg);
    void *arg;
} rate_each;

static pgw_status rate_read_each(pgw *h, const pgw__rows *rows, void *ctx)
{
    const rate_each *each = ctx;
    const int count = pgw__rows_count(rows);
    int stop = 0;

    (void)h;
    for (int row = 0; row < count && stop == 0; row++) {
        const pgw_rate_info info = {
            .struct_size = sizeof(info),
            .name = pgw__rows_text(rows, row, 0, NULL),
            .n = (int)pgw__rows_int(rows, row, 1),
            .per_ms = pgw__rows_int(rows, row, 2),
            .burst = (int)pgw__rows_int(rows, row, 3),
            .available = pgw__rows_int(rows, row, 4),
            .next_ms = pgw__rows_int(rows, row, 5),
        };

        stop = each->fn(&info, each->arg);
    }
    return count > 0 ? PGW_OK : PGW_OUTCOME_EMPTY;
}

pgw_status pgw_rates_each(pgw *h, int (*fn)(const pgw_rate_info *info, void *arg), void *arg)
{
    const rate_each ctx = {fn, arg};
    const pgw__param params[] = {P_END};
    const pgw__call call = {.sql = PGW__SQL_RATE_LIST,
                            .params = params,
                            .read = rate_read_each,
                            .ctx = &ctx,
                            .ctx_size = sizeof(ctx)};

    if (h == NULL) return PGW_EINVAL;
    return fn != NULL ? pgw__pq_call(h, &call) : pgw__pq_refuse(h, "fn", NULL, "a function");
}
