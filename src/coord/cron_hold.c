/* cron_hold: ticks that a node holds: one block of memory each, and the verbs that name them by
 * their token. */
#include <string.h>

#include "base/mem.h"
#include "base/name.h"
#include "base/token.h"
#include "call/ask.h"
#include "call/check.h"
#include "pq/pq.h"

#define HOLD_WEEK_MS INT64_C(604800000)

/* Every pointer leads into the block. */
struct pgw_tick {
    pgw_token token;
    int64_t slot_us, until_us;
    int attempt;
    const char *schedule, *kind, *payload;
    const void *body;
    size_t body_size;
    char bytes[];
};

/* ---- claiming ---- */

enum { SCHEDULE, SLOT, TOKEN, ATTEMPT, UNTIL, KIND, PAYLOAD, BODY, NEXT_MS };

typedef struct hold_ctx {
    pgw_tick **tick;
    int64_t *next_ms;
} hold_ctx;

/* Copies a value and a NUL to *to, which moves on. */
static const char *hold_copy(char **to, const char *text, size_t size)
{
    char *at = *to;

    if (text == NULL) return NULL;
    memcpy(at, text, size);
    at[size] = '\0';
    *to += size + 1;
    return at;
}

static pgw_tick *hold_tick(const pgw__rows *rows)
{
    static const int columns[] = {SCHEDULE, KIND, PAYLOAD, BODY};
    const char *text[4];
    size_t size[4], total = sizeof(pgw_tick);
    unsigned char token[16] = {0};
    pgw_tick *t;
    char *to;

    for (int i = 0; i < 4; i++) {
        size[i] = 0;
        text[i] = pgw__rows_text(rows, 0, columns[i], &size[i]);
        total += size[i] + 1; /* below 1 GB each: the server's own limit */
    }
    t = pgw__mem_zero(1, total);
    if (t == NULL) return NULL;
    to = t->bytes;
    t->schedule = hold_copy(&to, text[0], size[0]);
    t->kind = hold_copy(&to, text[1], size[1]);
    t->payload = hold_copy(&to, text[2], size[2]);
    t->body = hold_copy(&to, text[3], size[3]);
    t->body_size = size[3];
    pgw__rows_uuid(rows, 0, TOKEN, token);
    t->token = pgw__token_read(token);
    t->slot_us = pgw__rows_time_us(rows, 0, SLOT);
    t->until_us = pgw__rows_time_us(rows, 0, UNTIL);
    t->attempt = (int)pgw__rows_int(rows, 0, ATTEMPT);
    return t;
}

static pgw_status hold_read_claim(pgw *h, const pgw__rows *rows, void *ctx)
{
    const hold_ctx *in = ctx;
    const pgw_status st = pgw__ask_rows(h, rows, 1);

    if (st != PGW_OK) return st;
    if (in->next_ms != NULL) *in->next_ms = pgw__rows_int(rows, 0, NEXT_MS);
    if (pgw__rows_null(rows, 0, SCHEDULE)) return PGW_OUTCOME_EMPTY;
    *in->tick = hold_tick(rows);
    if (*in->tick == NULL) return pgw__pq_fail(h, PGW_ENOMEM, NULL, NULL);
    if (!pgw__rows_misread(rows)) return PGW_OK;
    pgw_tick_free(*in->tick);
    *in->tick = NULL;
    return PGW_EPROTO; /* the caller adds a message */
}

pgw_status pgw_cron_claim_due(pgw *h, const pgw_cron_claim_opts *opts, pgw_tick **tick,
                              int64_t *next_ms)
{
    const hold_ctx ctx = {tick, next_ms};
    pgw_cron_claim_opts o = PGW_CRON_CLAIM_OPTS_INIT;
    char buffer[PGW__HOLDER_MAX + 1];
    pgw_status st;

    if (next_ms != NULL) *next_ms = 0;
    if (tick == NULL) return pgw__check_given(h, "tick", NULL);
    *tick = NULL;
    st = pgw__check_opts(h, "opts", &o, sizeof(o), opts);
    if (st == PGW_OK)
        st = pgw__check_count(h, "opts->schedules_count", o.schedules_count, 0, PGW__QUEUES_MAX);
    if (st == PGW_OK && o.schedules_count > 0)
        st = pgw__check_given(h, "opts->schedules", o.schedules);
    if (st == PGW_OK)
        st = pgw__check_all_names(h, "opts->schedules", o.schedules, o.schedules_count,
                                  PGW__QUEUE_MAX);
    if (st == PGW_OK) st = pgw__check_holder(h, "opts->holder", &o.holder, o.holder, buffer);
    if (st != PGW_OK) return st;
    {
        const char *const *schedules = o.schedules_count > 0 ? o.schedules : NULL;
        const pgw__param params[] = {P_TEXT(o.holder), P_ARRAY(TEXT, schedules, o.schedules_count),
                                     P_END};
        const pgw__call call = {
            .sql = PGW__SQL_CRON_CLAIM,
            .params = params,
            .read = hold_read_claim,
            .ctx = &ctx,
            .ctx_size = sizeof(ctx),
            .flags = PGW__WRITES,
        };

        return pgw__pq_call(h, &call);
    }
}

/* ---- actions on a held tick ---- */

typedef struct hold_until_ctx {
    int64_t *until_us;
} hold_until_ctx;

/* true, or a time; false or NULL: another has it. */
static pgw_status hold_read_verdict(pgw *h, const pgw__rows *rows, void *ctx)
{
    const hold_until_ctx *in = ctx;
    const pgw_status st = pgw__ask_rows(h, rows, 1);

    if (st != PGW_OK) return st;
    if (pgw__rows_null(rows, 0, 0) || pgw__rows_int(rows, 0, 0) == 0) {
        return pgw__pq_fail(h, PGW_ELEASE, "the tick is no longer held with this token",
                            "the tick is over, or it took longer than the schedule's timeout and "
                            "another node has it");
    }
    if (in->until_us != NULL) *in->until_us = pgw__rows_time_us(rows, 0, 0);
    return PGW_OK;
}

static pgw_status hold_tell(pgw *h, pgw__sql sql, const pgw__param *params, int64_t *until_us)
{
    const hold_until_ctx ctx = {until_us};
    const pgw__call call = {
        .sql = sql,
        .params = params,
        .read = hold_read_verdict,
        .ctx = &ctx,
        .ctx_size = sizeof(ctx),
        .flags = PGW__WRITES,
    };

    return pgw__pq_call(h, &call);
}

pgw_status pgw_cron_finish(pgw *h, pgw_token token, const char *error)
{
    unsigned char bytes[16];
    char cut[PGW__ERROR_MAX + 1];
    pgw_status st = pgw__check_handle(h);

    pgw__token_write(bytes, token);
    if (st != PGW_OK) return st;
    if (error != NULL) pgw__text_mend(cut, sizeof(cut), error);
    {
        const pgw__param params[] = {P_UUID(bytes), P_TEXT(error != NULL ? cut : NULL), P_END};

        return hold_tell(h, PGW__SQL_CRON_FINISH, params, NULL);
    }
}

pgw_status pgw_cron_extend(pgw *h, pgw_token token, int64_t timeout_ms, int64_t *until_us)
{
    unsigned char bytes[16];
    const pgw__param params[] = {P_UUID(bytes),
                                 P_INT8_OR_NULL(timeout_ms, timeout_ms == PGW_DEFAULT), P_END};
    pgw_status st = pgw__check_handle(h);

    if (until_us != NULL) *until_us = 0;
    pgw__token_write(bytes, token);
    if (st == PGW_OK && timeout_ms != PGW_DEFAULT)
        st = pgw__check_int(h, "timeout_ms", timeout_ms, 100, HOLD_WEEK_MS);
    return st == PGW_OK ? hold_tell(h, PGW__SQL_CRON_EXTEND, params, until_us) : st;
}

pgw_status pgw_cron_release(pgw *h, pgw_token token)
{
    unsigned char bytes[16];
    const pgw__param params[] = {P_UUID(bytes), P_END};
    const pgw_status st = pgw__check_handle(h);

    pgw__token_write(bytes, token);
    return st == PGW_OK ? hold_tell(h, PGW__SQL_CRON_RELEASE, params, NULL) : st;
}

/* ---- reading ---- */

const char *pgw_tick_schedule(const pgw_tick *tick)
{
    return tick != NULL ? tick->schedule : NULL;
}

int64_t pgw_tick_slot_us(const pgw_tick *tick)
{
    return tick != NULL ? tick->slot_us : 0;
}

pgw_token pgw_tick_token(const pgw_tick *tick)
{
    const pgw_token none = {0, 0};

    return tick != NULL ? tick->token : none;
}

int pgw_tick_attempt(const pgw_tick *tick)
{
    return tick != NULL ? tick->attempt : 0;
}

int64_t pgw_tick_until_us(const pgw_tick *tick)
{
    return tick != NULL ? tick->until_us : 0;
}

const char *pgw_tick_kind(const pgw_tick *tick)
{
    return tick != NULL ? tick->kind : NULL;
}

const char *pgw_tick_payload(const pgw_tick *tick)
{
    return tick != NULL ? tick->payload : NULL;
}

const void *pgw_tick_body(const pgw_tick *tick, size_t *size)
{
    if (size != NULL) *size = tick != NULL ? tick->body_size : 0;
    return tick != NULL ? tick->body : NULL;
}

void pgw_tick_free(pgw_tick *tick)
{
    pgw__mem_free(tick);
}
