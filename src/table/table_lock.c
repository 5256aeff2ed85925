/* table_lock: row locks until the end of a transaction, taken in the order of the keys. */
#include "call/ask.h"
#include "table/table_int.h"

static const char *const table_lock_words[] = {
    [PGW_ROW_LOCK_UPDATE] = "UPDATE",
    [PGW_ROW_LOCK_NO_KEY_UPDATE] = "NO KEY UPDATE",
    [PGW_ROW_LOCK_SHARE] = "SHARE",
    [PGW_ROW_LOCK_KEY_SHARE] = "KEY SHARE",
};

/* Rows are locked above the sort, so in its order. */
static void table_lock_text(pgw__buf *b, const pgw_table_lock_opts *o, const pgw__rows_ctx *ctx)
{
    const pgw_table *t = ctx->t;

    if (o->keys != NULL) {
        pgw__buf_text(b, "WITH pgw_ask AS MATERIALIZED (");
        pgw__put_keys(b, t, (int)o->values_count + 1, false);
        pgw__buf_text(b, ")\n");
    }
    pgw__buf_text(b, "SELECT ");
    pgw__put_rows(b, ctx);
    pgw__buf_text(b, " FROM ");
    pgw__put_own(b, t);
    pgw__buf_text(b, " t");
    if (o->keys != NULL) {
        pgw__buf_text(b, " JOIN pgw_ask a ON a.pgw_i = a.pgw_first AND ");
        pgw__put_key_join(b, t, "a");
    }
    pgw__put_fragment(b, " WHERE (", o->where, ")");
    pgw__buf_text(b, "\nORDER BY ");
    pgw__put_key_order(b, t);
    if (o->max != PGW_UNLIMITED) {
        pgw__buf_text(b, " LIMIT ");
        pgw__buf_int(b, o->max);
    }
    pgw__buf_text(b, " FOR ");
    pgw__buf_text(b, table_lock_words[o->strength]);
    pgw__buf_text(b, " OF t");
    if (o->skip) {
        pgw__buf_text(b, " SKIP LOCKED");
    } else if (o->wait_ms == 0) {
        pgw__buf_text(b, " NOWAIT");
    }
}

/* ---- limited waits: lock_timeout is set and restored ---- */

static pgw_status table_lock_read_old(pgw *h, const pgw__rows *rows, void *ctx)
{
    const pgw_status st = pgw__ask_rows(h, rows, 1);

    if (st == PGW_OK) **(int64_t **)ctx = pgw__rows_int(rows, 0, 0);
    return st;
}

static pgw_status table_lock_timeout(pgw *h, int64_t timeout_ms, int64_t *old)
{
    const pgw__param params[] = {P_INT8(timeout_ms), P_END};
    const pgw__call call = {.sql = PGW__SQL_TABLE_LOCK_TIMEOUT,
                            .params = params,
                            .read = table_lock_read_old,
                            .ctx = &old,
                            .ctx_size = sizeof(old)};

    return pgw__pq_call(h, &call);
}

static pgw_status table_lock_check(pgw *h, pgw_rows **rows, const pgw_table *t,
                                   pgw_table_lock_opts *o, const pgw_table_lock_opts *opts)
{
    pgw_status st;

    if (rows != NULL) *rows = NULL;
    st = pgw__table_check(h, t);
    if (st == PGW_OK) st = pgw__check_given(h, "rows", rows);
    if (st == PGW_OK) st = pgw__check_opts(h, "opts", o, sizeof(*o), opts);
    if (st == PGW_OK)
        st = pgw__check_int(h, "opts->strength", (int64_t)o->strength, 0, PGW_ROW_LOCK_KEY_SHARE);
    if (st == PGW_OK && o->wait_ms != PGW_DEFAULT)
        st = pgw__check_int(h, "opts->wait_ms", o->wait_ms, 0, INT32_MAX);
    if (st == PGW_OK) st = pgw__check_limit(h, "opts->max", o->max);
    if (st == PGW_OK)
        st = pgw__check_count(h, "opts->keys_count", o->keys_count, o->keys != NULL,
                              o->keys != NULL ? PGW__BATCH_MAX : 0);
    for (size_t i = 0; st == PGW_OK && i < o->keys_count; i++)
        st = pgw__pq_about(h, i, pgw__table_check_key(h, t, o->keys + i * t->key_count));
    if (st == PGW_OK) st = pgw__table_check_values(h, o->values, o->values_count);
    if (st == PGW_OK) st = pgw__table_check_columns(h, t, o->columns, o->columns_count);
    if (st == PGW_OK) st = pgw__check_unarmed(h, NULL);
    if (st == PGW_OK && !pgw__pq_in_txn(h))
        st = pgw__pq_reject(h, PGW_EMISUSE,
                            "no transaction is open: the locks would be released at once",
                            "call pgw_txn_begin() first");
    return st;
}

static pgw_status table_lock_send(pgw *h, pgw_rows **rows, const pgw_table *t,
                                  const pgw_table_lock_opts *o)
{
    const pgw__rows_ctx ctx = {.rows = rows,
                               .t = t,
                               .columns = o->columns,
                               .columns_count = o->columns_count,
                               .most = o->max};
    pgw__param params[PGW__VALUES_MAX + PGW__KEY_COLUMNS + 1];
    const pgw__call call = {
        .params = params, .read = pgw__rows_read, .ctx = &ctx, .ctx_size = sizeof(ctx)};
    pgw__keys keys = {NULL, NULL, 0};
    pgw_status st = PGW_OK;
    pgw__buf b;
    int p = (int)pgw__put_values(params, o->values, o->values_count);

    if (o->keys != NULL) {
        st = pgw__keys_make(h, &keys, t, o->keys_count, false);
        if (st != PGW_OK) return st;
        for (size_t i = 0; i < o->keys_count; i++)
            pgw__keys_set(&keys, t, i, o->keys + i * t->key_count, NULL);
        p = pgw__keys_params(&keys, t, params, p);
    }
    params[p] = (pgw__param)P_END;
    pgw__buf_init(&b, PGW__TABLE_SQL_MAX);
    table_lock_text(&b, o, &ctx);
    st = pgw__table_call(h, "table_lock", &b, &call);
    pgw__keys_free(&keys);
    return st;
}

pgw_status pgw_table_lock(pgw *h, const pgw_table *t, const pgw_table_lock_opts *opts,
                          pgw_rows **rows)
{
    pgw_table_lock_opts o = PGW_TABLE_LOCK_OPTS_INIT;
    pgw_status st = table_lock_check(h, rows, t, &o, opts), back;
    const bool timed = !o.skip && o.wait_ms > 0;
    pgw__diagnostics diagnostics;
    int64_t old = 0, ours;

    if (st != PGW_OK) return st;
    if (timed) st = table_lock_timeout(h, o.wait_ms, &old);
    if (st != PGW_OK) return st;
    st = table_lock_send(h, rows, t, &o);
    if (!timed) return st;
    if (st == PGW_ELOCKED)
        return pgw__pq_fail(h, PGW_ETIMEDOUT, "another transaction holds locks on these rows",
                            "roll the transaction back, then try again");
    if (st < PGW_OK) pgw__pq_keep_diagnostics(h, &diagnostics);
    /* an error of the library leaves the transaction usable, with the limit set; in a failed
     * transaction this is refused here, without asking the server */
    back = table_lock_timeout(h, old, &ours);
    if (st < PGW_OK) return pgw__pq_report(h, &diagnostics);
    if (back == PGW_OK) return st;
    pgw_rows_free(*rows);
    *rows = NULL;
    return back;
}
