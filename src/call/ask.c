/* ask: requests to the server that several modules share. */
#include "call/ask.h"

#include <stdio.h>

#include "base/clock.h"
#include "call/check.h"

#define ASK_PIECE  10000 /* rows of one statement: a second or less */
#define ASK_PARAMS 8

typedef struct ask_ctx {
    int64_t *number, *last; /* NULL: not asked for */
} ask_ctx;

static pgw_status ask_read_number(pgw *h, const pgw__rows *rows, void *ctx)
{
    const ask_ctx *in = ctx;
    const pgw_status st = pgw__ask_rows(h, rows, 1);

    if (st == PGW_OK && in->number != NULL) *in->number = pgw__rows_int(rows, 0, 0);
    if (st == PGW_OK && in->last != NULL) *in->last = pgw__rows_int(rows, 0, 1);
    return st;
}

pgw_status pgw__ask(pgw *h, pgw__sql sql, const pgw__param *params)
{
    const pgw__call call = {.sql = sql, .params = params, .flags = PGW__WRITES};

    return pgw__pq_call(h, &call);
}

static pgw_status ask_numbers(pgw *h, int64_t *number, int64_t *last, pgw__sql sql,
                              const pgw__param *params)
{
    const ask_ctx ctx = {number, last};
    const pgw__call call = {
        .sql = sql,
        .params = params,
        .read = ask_read_number,
        .ctx = &ctx,
        .ctx_size = sizeof(ctx),
        .flags = PGW__WRITES,
    };

    return pgw__pq_call(h, &call);
}

pgw_status pgw__ask_number(pgw *h, int64_t *number, pgw__sql sql, const pgw__param *params)
{
    return ask_numbers(h, number, NULL, sql, params);
}

static pgw_status ask_read_flag(pgw *h, const pgw__rows *rows, void *ctx)
{
    bool *const *flag = ctx;
    const pgw_status st = pgw__ask_rows(h, rows, 1);

    if (st == PGW_OK) **flag = pgw__rows_int(rows, 0, 0) != 0;
    return st;
}

pgw_status pgw__ask_flag(pgw *h, bool *flag, pgw__sql sql, const pgw__param *params, unsigned flags)
{
    const pgw__call call = {.sql = sql,
                            .params = params,
                            .read = ask_read_flag,
                            .ctx = &flag,
                            .ctx_size = sizeof(flag),
                            .flags = flags};

    return pgw__pq_call(h, &call);
}

static pgw_status ask_pieces(pgw *h, int64_t *number, int64_t most, pgw__sql sql,
                             const pgw__param *params, bool by_ids)
{
    const int64_t began = pgw__clock_ms();
    pgw__param p[ASK_PARAMS];
    size_t given = 0;
    int64_t all = 0, last = 0;
    pgw_status st;
    bool more = true;

    st = pgw__check_unarmed(h, NULL);
    if (st != PGW_OK) return st;
    for (; params[given].type != PGW__END; given++) p[given] = params[given];
    p[given + 2] = (pgw__param)P_END;
    while (st == PGW_OK && more) {
        const int64_t piece =
            most != PGW_UNLIMITED && most - all < ASK_PIECE ? most - all : ASK_PIECE;
        int64_t n = 0;

        if (all > 0 && pgw__pq_stopped(h))
            return pgw__pq_fail(h, PGW_ECANCELED, "asked to stop; a part is done", NULL);
        p[given] = (pgw__param)P_INT8(piece);
        p[given + 1] = (pgw__param)P_INT8(by_ids ? last : pgw__clock_ms() - began);
        st = ask_numbers(h, &n, by_ids ? &last : NULL, sql, p);
        all += n;
        if (number != NULL) *number = all;
        more = n >= piece && (most == PGW_UNLIMITED || all < most);
    }
    return st;
}

pgw_status pgw__ask_in_pieces(pgw *h, int64_t *number, int64_t most, pgw__sql sql,
                              const pgw__param *params)
{
    return ask_pieces(h, number, most, sql, params, false);
}

pgw_status pgw__ask_by_ids(pgw *h, int64_t *number, int64_t most, pgw__sql sql,
                           const pgw__param *params)
{
    return ask_pieces(h, number, most, sql, params, true);
}

pgw_status pgw__ask_misfit(pgw *h, const char *what)
{
    return pgw__pq_fail(h, PGW_EPROTO, what,
                        "library and schema do not match: `pgwork doctor` shows their versions");
}

pgw_status pgw__ask_rows(pgw *h, const pgw__rows *rows, size_t expected)
{
    const int count = pgw__rows_count(rows);
    char message[80];

    if ((size_t)count == expected) return PGW_OK;
    snprintf(message, sizeof(message), "the server returned %d rows: expected %zu", count,
             expected);
    return pgw__ask_misfit(h, message);
}

const pgw_rate_opts *pgw__ask_rate(pgw_rate_opts *rate, const pgw__rows *rows, int row, int col)
{
    *rate = (pgw_rate_opts)PGW_RATE_OPTS_INIT;
    if (pgw__rows_null(rows, row, col)) return NULL;
    rate->n = (int)pgw__rows_int(rows, row, col);
    rate->per_ms = pgw__rows_int(rows, row, col + 1);
    rate->burst = (int)pgw__rows_int(rows, row, col + 2);
    return rate;
}
