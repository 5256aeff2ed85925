/* sema: counting semaphores. The functions in the schema decide what is free, which session is
 * next and what has ended. This file waits. Waiting sessions form a queue at the server. The one
 * at its head listens, and asks again when permits are released or when the first held permit
 * ends. */
#include <stdio.h>
#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/name.h"
#include "base/token.h"
#include "call/ask.h"
#include "call/check.h"
#include "pq/pq.h"

#define SEMA_PERMITS_MAX 10000
#define SEMA_STAND_MS    30000 /* as for locks: a statement that waits holds back vacuum */
#define SEMA_WAIT_MAX_MS INT64_C(31536000000) /* a year */
#define SEMA_CHANNEL     "pgwork_sema_"
#define SEMA_FROZEN_MS   5000 /* a head that is silent for so long is considered dead */

/* ---- the operator's verbs ---- */

static pgw_status sema_permits(pgw *h, pgw__sql sql, const char *name, int permits)
{
    const pgw__param params[] = {P_TEXT(name), P_INT4(permits), P_END};
    pgw_status st = pgw__check_any_name(h, "name", name);

    if (st == PGW_OK) st = pgw__check_int(h, "permits", permits, 1, SEMA_PERMITS_MAX);
    return st == PGW_OK ? pgw__ask(h, sql, params) : st;
}

pgw_status pgw_sema_create(pgw *h, const char *name, int permits)
{
    return sema_permits(h, PGW__SQL_SEMA_CREATE, name, permits);
}

pgw_status pgw_sema_resize(pgw *h, const char *name, int permits)
{
    return sema_permits(h, PGW__SQL_SEMA_RESIZE, name, permits);
}

pgw_status pgw_sema_drop(pgw *h, const char *name, bool force)
{
    const pgw__param params[] = {P_TEXT(name), P_BOOL(force), P_END};
    const pgw_status st = pgw__check_any_name(h, "name", name);

    return st == PGW_OK ? pgw__ask(h, PGW__SQL_SEMA_DROP, params) : st;
}

/* ---- acquiring ---- */

typedef struct sema_answer {
    pgw_token *token;
    int64_t *next_ms; /* NULL: no session waits */
} sema_answer;

typedef struct sema_wait {
    pgw *h;
    const char *name;
    const pgw_sema_opts *o;
    pgw_token *token;
    int64_t next_ms; /* when to ask again; 0: not said, so it is not our turn */
    bool turn;       /* we are at the head of the queue ... */
    uint64_t epoch;  /* ... in this session */
} sema_wait;

static pgw_status sema_read_grant(pgw *h, const pgw__rows *rows, void *ctx)
{
    const sema_answer *in = ctx;
    unsigned char token[16];

    if (pgw__rows_count(rows) != 1)
        return pgw__pq_fail(h, PGW_EPROTO, "the server did not return one row for a semaphore",
                            "run the migrations");
    if (in->next_ms != NULL) *in->next_ms = pgw__rows_int(rows, 0, 1);
    if (pgw__rows_null(rows, 0, 0)) return PGW_ELOCKED;
    pgw__rows_uuid(rows, 0, 0, token);
    *in->token = pgw__token_read(token);
    return PGW_OK;
}

/* PGW_ELOCKED is an answer, or an error: a resize is in the way. */
static bool sema_failed(const pgw *h)
{
    return pgw__pq_sqlstate(h)[0] != '\0';
}

static pgw_status sema_try(sema_wait *w)
{
    const pgw_sema_opts *o = w->o;
    const sema_answer ctx = {w->token, pgw__pq_armed(w->h) ? NULL : &w->next_ms};
    const pgw__param params[] = {P_TEXT(w->name),   P_INT4(o->permits), P_INT8(o->ttl_ms),
                                 P_TEXT(o->holder), P_BOOL(o->session), P_END};
    const pgw__call call = {
        .sql = PGW__SQL_SEMA_ACQUIRE,
        .params = params,
        .read = sema_read_grant,
        .ctx = &ctx,
        .ctx_size = sizeof(ctx),
        .flags = PGW__WRITES | PGW__OWNED | (o->session ? PGW__DIRECT : 0u),
    };

    return pgw__pq_call(w->h, &call);
}

/* The head asks at the latest after a quarter more than poll.max_ms. If it does not, it is
 * suspended and blocks all others, so the server ends its session. */
static int64_t sema_patience_ms(const sema_wait *w)
{
    const int64_t ms = 4 * pgw__conf_int(pgw__pq_conf(w->h), "poll.max_ms");

    return ms > SEMA_FROZEN_MS ? ms : SEMA_FROZEN_MS;
}

/* Waits in the queue for at most wait_ms. At its head, tries again. */
static pgw_status sema_queue(sema_wait *w, int64_t wait_ms)
{
    const pgw_sema_opts *o = w->o;
    const bool turn =
        w->turn && w->epoch == pgw__pq_epoch(w->h) && pgw__pq_check_session(w->h) == PGW_OK;
    const pgw__param params[] = {
        P_TEXT(w->name),   P_INT4(o->permits),          P_INT8(o->ttl_ms),
        P_TEXT(o->holder), P_BOOL(o->session),          P_INT8(turn ? 0 : wait_ms),
        P_BOOL(turn),      P_INT8(sema_patience_ms(w)), P_END,
    };
    const sema_answer ctx = {w->token, &w->next_ms};
    const pgw__call call = {
        .sql = PGW__SQL_SEMA_WAIT,
        .params = params,
        .read = sema_read_grant,
        .ctx = &ctx,
        .ctx_size = sizeof(ctx),
        .flags = PGW__WRITES | PGW__OWNED | PGW__DIRECT,
        .wait_ms = turn ? 0 : wait_ms,
    };
    pgw_status st;

    w->next_ms = 0;
    st = pgw__pq_call(w->h, &call);
    w->turn = st == PGW_ELOCKED && w->next_ms > 0;
    w->epoch = pgw__pq_epoch(w->h);
    return st;
}

/* Whenever a wait ends without permits, the turn must go to the next session, at worst with the
 * end of this one. If the statement failed, its transaction was rolled back, so the idle timeout
 * of the head still applies to the session. */
static pgw_status sema_leave(sema_wait *w, pgw_status st)
{
    const pgw__param params[] = {P_TEXT(w->name), P_END};
    const pgw__call call = {.sql = PGW__SQL_SEMA_LEAVE, .params = params};
    const bool passed = st == PGW_ELOCKED && !w->turn && !sema_failed(w->h);
    pgw__diagnostics diagnostics;

    if (st == PGW_OK || st == PGW_EPOOLED || passed || w->epoch != pgw__pq_epoch(w->h) ||
        pgw__pq_check_session(w->h) != PGW_OK)
        return st;
    pgw__pq_keep_diagnostics(w->h, &diagnostics);
    if (pgw__pq_call(w->h, &call) != PGW_OK) pgw__pq_drop(w->h);
    pgw__pq_tell(w->h, &diagnostics);
    return st;
}

static int64_t sema_least(int64_t a, int64_t b)
{
    return a < 0 || b < a ? b : a; /* a < 0: no limit */
}

/* Up to a quarter more, so that waiters do not poll in step. */
static int64_t sema_jitter(int64_t ms)
{
    return ms + (int64_t)(pgw__random_u64() % (uint64_t)(ms / 4 + 1));
}

/* False: no session is to be notified. */
static bool sema_channel(const sema_wait *w, char channel[80])
{
    snprintf(channel, 80, SEMA_CHANNEL "%s", pgw__pq_schema(w->h));
    return pgw__conf_bool(pgw__pq_conf(w->h), "notify");
}

static pgw_status sema_listen(sema_wait *w)
{
    char channel[80];

    return sema_channel(w, channel) ? pgw__pq_listen(w->h, channel) : PGW_OK;
}

/* A session that rests now, perhaps for hours and with a lock, reads nothing. Notifications of all
 * permits would pile up until the server considers it dead. */
static void sema_unlisten(sema_wait *w)
{
    char channel[80];
    pgw__diagnostics diagnostics;

    if (!sema_channel(w, channel)) return;
    pgw__pq_keep_diagnostics(w->h, &diagnostics);
    pgw__pq_unlisten(w->h, channel);
    pgw__pq_tell(w->h, &diagnostics);
}

/* A new session has to listen again, which the module pq sees to. */
static pgw_status sema_wait_in_line(sema_wait *w, int64_t deadline)
{
    const int64_t poll_ms = pgw__conf_int(pgw__pq_conf(w->h), "poll.max_ms");
    pgw_status st = sema_listen(w);

    while (st == PGW_OK) {
        st = sema_queue(w, sema_least(pgw__deadline_left_ms(deadline), SEMA_STAND_MS));
        if (st != PGW_ELOCKED || pgw__deadline_left_ms(deadline) == 0) break;
        st = PGW_OK;
        if (w->turn) {
            /* permits of a session that ends are released without a notification, so poll now and
             * then */
            st = pgw__pq_wait(w->h,
                              sema_least(pgw__deadline_left_ms(deadline),
                                         sema_least(w->next_ms, sema_jitter(poll_ms))),
                              -1);
            if (st == PGW_OUTCOME_EMPTY || st == PGW_ECONN) st = PGW_OK;
        } else if (pgw__pq_stopped(w->h)) {
            st = pgw__pq_fail(w->h, PGW_ECANCELED, NULL, NULL);
        }
    }
    st = sema_leave(w, st);
    sema_unlisten(w);
    return st;
}

static pgw_status sema_wait_by_polling(sema_wait *w, int64_t deadline)
{
    const pgw_conf *conf = pgw__pq_conf(w->h);
    pgw__backoff backoff;
    pgw_status st = PGW_ELOCKED;

    pgw__backoff_init(&backoff, pgw__conf_int(conf, "poll.min_ms"),
                      pgw__conf_int(conf, "poll.max_ms"));
    while (st == PGW_ELOCKED && pgw__deadline_left_ms(deadline) != 0) {
        int64_t pause = sema_least(pgw__deadline_left_ms(deadline), pgw__backoff_next_ms(&backoff));

        if (w->next_ms > 0) pause = sema_least(pause, w->next_ms);
        st = pgw__pq_wait(w->h, pause, -1);
        if (st >= PGW_OK || st == PGW_ECONN) st = sema_try(w);
    }
    return st;
}

/* Others would have to wait for the end of the transaction, too. */
static pgw_status sema_check_txn(pgw *h)
{
    if (pgw__pq_attached(h) || !pgw__pq_in_txn(h)) return PGW_OK;
    return pgw__pq_reject(h, PGW_EMISUSE, "a transaction is open: a rollback would undo the call",
                          "take permits before the transaction, release them after it");
}

static pgw_status sema_check(pgw *h, pgw_token *token, const char *name, pgw_sema_opts *o,
                             const pgw_sema_opts *opts, char holder[PGW__HOLDER_MAX + 1])
{
    pgw_status st;

    if (token != NULL) memset(token, 0, sizeof(*token));
    st = pgw__check_given(h, "token", token);
    if (st == PGW_OK) st = pgw__check_any_name(h, "name", name);
    if (st == PGW_OK) st = pgw__check_opts(h, "opts", o, sizeof(*o), opts);
    if (st == PGW_OK) st = pgw__check_int(h, "opts->permits", o->permits, 1, SEMA_PERMITS_MAX);
    if (st == PGW_OK) st = pgw__check_wait(h, "opts->timeout_ms", o->timeout_ms, SEMA_WAIT_MAX_MS);
    if (st == PGW_OK)
        st = pgw__check_int(h, "opts->ttl_ms", o->ttl_ms, PGW__LEASE_MIN_MS, PGW__LEASE_MAX_MS);
    if (st == PGW_OK) st = pgw__check_holder(h, "opts->holder", &o->holder, o->holder, holder);
    if (st == PGW_OK && o->timeout_ms != 0)
        st = pgw__check_unarmed(
            h, "acquire with timeout_ms 0 and repeat the call from your event loop");
    if (st == PGW_OK) st = sema_check_txn(h);
    return st;
}

pgw_status pgw_sema_acquire(pgw *h, const char *name, const pgw_sema_opts *opts, pgw_token *token)
{
    pgw_sema_opts o = PGW_SEMA_OPTS_INIT;
    char holder[PGW__HOLDER_MAX + 1];
    sema_wait w = {.h = h, .name = name, .o = &o, .token = token};
    pgw_status st = sema_check(h, token, name, &o, opts, holder);
    int64_t deadline;

    if (st != PGW_OK) return st;
    deadline = pgw__deadline_in(o.timeout_ms);
    st = sema_try(&w);
    if (st == PGW_ELOCKED && o.timeout_ms != 0) {
        st = sema_wait_in_line(&w, deadline);
        if (st == PGW_EPOOLED) st = sema_wait_by_polling(&w, deadline);
    }
    if (st == PGW_OK && o.session && pgw__pq_check_session(h) == PGW_ECONN)
        return pgw__pq_fail(h, PGW_ECONN, "the connection was lost while waiting for the permits",
                            "the permits were released with the session: acquire them again");
    if (st >= PGW_OK) return st;
    if (st == PGW_ELOCKED && !sema_failed(h))
        pgw__pq_fail(h, st, "not enough permits are free",
                     "see `pgwork sem list`, wait longer, or add permits");
    return st;
}

/* ---- holding ---- */

static pgw_status sema_read_kept(pgw *h, const pgw__rows *rows, void *ctx)
{
    (void)ctx;
    if (pgw__rows_count(rows) == 1 && pgw__rows_int(rows, 0, 0) != 0) return PGW_OK;
    return pgw__pq_fail(h, PGW_ELEASE,
                        "the permits were lost: their lease ended, or they were released",
                        "extend them earlier, or use a longer lease");
}

static pgw_status sema_keep(pgw *h, pgw__sql sql, const char *name, const pgw__param *params)
{
    const pgw__call call = {
        .sql = sql, .params = params, .read = sema_read_kept, .flags = PGW__WRITES | PGW__OWNED};
    pgw_status st = pgw__check_any_name(h, "name", name);

    if (st == PGW_OK) st = sema_check_txn(h);
    return st == PGW_OK ? pgw__pq_call(h, &call) : st;
}

pgw_status pgw_sema_extend(pgw *h, const char *name, pgw_token token, int64_t ttl_ms)
{
    unsigned char packed[16];
    const pgw__param params[] = {P_TEXT(name), P_UUID(packed), P_INT8(ttl_ms), P_END};
    const pgw_status st = pgw__check_int(h, "ttl_ms", ttl_ms, PGW__LEASE_MIN_MS, PGW__LEASE_MAX_MS);

    if (st != PGW_OK) return st;
    pgw__token_write(packed, token);
    return sema_keep(h, PGW__SQL_SEMA_EXTEND, name, params);
}

pgw_status pgw_sema_release(pgw *h, const char *name, pgw_token token)
{
    unsigned char packed[16];
    const bool alone = h != NULL && !pgw__pq_in_txn(h);
    const pgw__param params[] = {P_TEXT(name), P_UUID(packed), P_BOOL(alone), P_END};

    pgw__token_write(packed, token);
    return sema_keep(h, PGW__SQL_SEMA_RELEASE, name, params);
}

/* ---- looking ---- */

static pgw_sema_info sema_info(const pgw__rows *rows, int row)
{
    return (pgw_sema_info){
        .struct_size = sizeof(pgw_sema_info),
        .name = pgw__rows_text(rows, row, 0, NULL),
        .permits = (int)pgw__rows_int(rows, row, 1),
        .taken = (int)pgw__rows_int(rows, row, 2),
        .waiting = (int)pgw__rows_int(rows, row, 3),
    };
}

typedef struct sema_one {
    pgw_sema_info *info;
} sema_one;

static pgw_status sema_read_status(pgw *h, const pgw__rows *rows, void *ctx)
{
    const sema_one *in = ctx;
    pgw_sema_info info;

    if (pgw__rows_count(rows) == 0)
        return pgw__pq_fail(h, PGW_ENOTFOUND, "there is no such semaphore",
                            "pgw_sema_create() creates one; names are case-sensitive");
    info = sema_info(rows, 0);
    info.name = NULL;
    pgw__fill(in->info, &info, sizeof(info));
    return PGW_OK;
}

pgw_status pgw_sema_status(pgw *h, const char *name, pgw_sema_info *info)
{
    const sema_one ctx = {info};
    const pgw__param params[] = {P_TEXT(name), P_END};
    const pgw__call call = {.sql = PGW__SQL_SEMA_LIST,
                            .params = params,
                            .read = sema_read_status,
                            .ctx = &ctx,
                            .ctx_size = sizeof(ctx)};
    pgw_status st;

    st = pgw__check_filled(h, "info", info);
    if (st == PGW_OK) st = pgw__check_any_name(h, "name", name);
    return st == PGW_OK ? pgw__pq_call(h, &call) : st;
}

typedef struct sema_each {
    int (*fn)(const pgw_sema_info *info, void *arg);
    void *arg;
} sema_each;

static pgw_status sema_read_each(pgw *h, const pgw__rows *rows, void *ctx)
{
    const sema_each *each = ctx;
    const int count = pgw__rows_count(rows);
    int stop = 0;

    (void)h;
    for (int row = 0; row < count && stop == 0; row++) {
        const pgw_sema_info info = sema_info(rows, row);

        stop = each->fn(&info, each->arg);
    }
    return count > 0 ? PGW_OK : PGW_OUTCOME_EMPTY;
}

pgw_status pgw_semas_each(pgw *h, int (*fn)(const pgw_sema_info *info, void *arg), void *arg)
{
    const sema_each ctx = {fn, arg};
    const pgw__param params[] = {P_TEXT(NULL), P_END};
    const pgw__call call = {.sql = PGW__SQL_SEMA_LIST,
                            .params = params,
                            .read = sema_read_each,
                            .ctx = &ctx,
                            .ctx_size = sizeof(ctx)};

    if (h == NULL) return PGW_EINVAL;
    return fn != NULL ? pgw__pq_call(h, &call) : pgw__pq_refuse(h, "fn", NULL, "a function");
}

typedef struct sema_grants {
    int (*fn)(const pgw_sema_grant *grant, void *arg);
    void *arg;
} sema_grants;

static pgw_status sema_read_grants(pgw *h, const pgw__rows *rows, void *ctx)
{
    const sema_grants *each = ctx;
    const int count = pgw__rows_count(rows);
    int stop = 0;

    (void)h;
    for (int row = 0; row < count && stop == 0; row++) {
        const pgw_sema_grant grant = {
            .struct_size = sizeof(grant),
            .number = (uint64_t)pgw__rows_int(rows, row, 0),
            .permits = (int)pgw__rows_int(rows, row, 1),
            .holder = pgw__rows_text(rows, row, 2, NULL),
            .taken_us = pgw__rows_time_us(rows, row, 3),
            .until_us = pgw__rows_time_us(rows, row, 4),
            .pid = (int)pgw__rows_int(rows, row, 5),
        };

        stop = each->fn(&grant, each->arg);
    }
    return count > 0 ? PGW_OK : PGW_OUTCOME_EMPTY;
}

pgw_status pgw_sema_grants_each(pgw *h, const char *name,
                                int (*fn)(const pgw_sema_grant *grant, void *arg), void *arg)
{
    const sema_grants ctx = {fn, arg};
    const pgw__param params[] = {P_TEXT(name), P_END};
    const pgw__call call = {.sql = PGW__SQL_SEMA_HOLDERS,
                            .params = params,
                            .read = sema_read_grants,
                            .ctx = &ctx,
                            .ctx_size = sizeof(ctx)};
    pgw_status st = pgw__check_any_name(h, "name", name);

    if (st == PGW_OK && fn == NULL) st = pgw__pq_refuse(h, "fn", NULL, "a function");
    return st == PGW_OK ? pgw__pq_call(h, &call) : st;
}
