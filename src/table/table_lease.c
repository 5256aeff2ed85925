/* table_lease: leases on rows of a caller's table. One statement for each verb, however many rows;
 * the token is compared in the same statement that writes. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/name.h"
#include "call/ask.h"
#include "table/table_int.h"

/* ---- claim ---- */

static void lease_limit(pgw__buf *b, int limit)
{
    pgw__buf_text(b, " LIMIT ");
    pgw__put_param(b, limit);
    pgw__buf_text(b, "::pg_catalog.int8");
}

/* The version of the row that was locked; as with xmin, not every role may read it. */
static void lease_place(pgw__buf *b, const pgw_table *t)
{
    if (t->has_xmin) pgw__buf_text(b, ", t.ctid AS pgw_place");
}

/* Those of the locked rows that the statement can write. Rows that got another key since its
 * snapshot are left out: they are locked as they are now, and their new key is unknown to the
 * snapshot, or belongs to another row there. */
static void lease_as_locked(pgw__buf *b, const pgw_table *t, const char *locked)
{
    pgw__put_own(b, t);
    pgw__buf_text(b, " t ON ");
    pgw__put_key_join(b, t, locked);
    if (!t->has_xmin) return;
    pgw__buf_text(b, " AND t.ctid = ");
    pgw__buf_text(b, locked);
    pgw__buf_text(b, ".pgw_place");
}

/* Rows that the holder has. They are few, so they are found by the holder, locked and then sorted.
 * A planner that hopes to find some early in the wanted order would read the whole table. */
static void lease_claim_own(pgw__buf *b, const pgw_table *t, const pgw_table_claim_opts *o,
                            int holder, int limit)
{
    const char *comma = "";

    pgw__buf_text(b, "pgw_own AS MATERIALIZED (SELECT ");
    pgw__put_key(b, t);
    if (t->has_xmin) pgw__buf_text(b, ", t.pgw_place");
    pgw__buf_text(b, " FROM (SELECT ");
    for (size_t c = 0; c < t->columns_count; c++) {
        if (!t->columns[c].readable) continue;
        pgw__buf_text(b, comma);
        pgw__put_column(b, &t->columns[c]);
        comma = ", ";
    }
    lease_place(b, t);
    pgw__buf_text(b, " FROM ");
    pgw__put_own(b, t);
    pgw__buf_text(b, " t WHERE ");
    pgw__put_column(b, t->locked_by);
    pgw__buf_text(b, " = ");
    pgw__put_cast(b, holder, t->locked_by);
    pgw__buf_text(b, " AND ");
    pgw__put_column(b, t->expires_at);
    pgw__buf_text(b, " > (SELECT pgw_at FROM pgw_now)");
    pgw__put_fragment(b, " AND (", o->where, ")");
    pgw__buf_text(b, " FOR NO KEY UPDATE SKIP LOCKED) t ORDER BY ");
    if (o->order != NULL)
        pgw__put_fragment(b, "", o->order, "");
    else
        pgw__put_key_order(b, t);
    lease_limit(b, limit);
    pgw__buf_text(b, ")");
}

/* Rows that are free or expired, as many as are still wanted. The LIMIT holds because the CTE runs
 * once with any plan. */
static void lease_claim_free(pgw__buf *b, const pgw_table *t, const pgw_table_claim_opts *o,
                             int limit)
{
    pgw__buf_text(b, "pgw_free AS MATERIALIZED (SELECT ");
    pgw__put_key(b, t);
    lease_place(b, t);
    pgw__buf_text(b, " FROM ");
    pgw__put_own(b, t);
    pgw__buf_text(b, " t WHERE ");
    pgw__put_expiry(b, t);
    pgw__buf_text(b, " <= (SELECT pgw_at FROM pgw_now)");
    pgw__put_fragment(b, " AND (", t->claimable, ")");
    pgw__put_fragment(b, " AND (", o->where, ")");
    pgw__buf_text(b, " ORDER BY ");
    if (o->order != NULL) {
        pgw__put_fragment(b, "", o->order, "");
    } else {
        pgw__put_expiry(b, t);
        pgw__buf_text(b, ", ");
        pgw__put_key_order(b, t);
    }
    lease_limit(b, limit);
    pgw__buf_text(b, " - (SELECT pg_catalog.count(*) FROM pgw_own)");
    pgw__put_row_lock(b, t);
    pgw__buf_text(b, " OF t SKIP LOCKED)");
}

static void lease_claim_text(pgw__buf *b, const pgw_table_claim_opts *o, const pgw__rows_ctx *ctx)
{
    const pgw_table *t = ctx->t;
    const int holder = (int)o->values_count + 1, limit = holder + 1, lease = holder + 2;

    pgw__buf_text(
        b, "WITH pgw_now AS MATERIALIZED (SELECT pg_catalog.clock_timestamp() AS pgw_at),\n");
    lease_claim_own(b, t, o, holder, limit);
    pgw__buf_text(b, ",\n");
    lease_claim_free(b, t, o, limit);
    /* this limit removes nothing: it tells the planner that the rows are few */
    pgw__buf_text(
        b, ",\npgw_taken AS MATERIALIZED (SELECT x.*, pg_catalog.row_number() OVER () AS pgw_i"
           " FROM (SELECT true AS pgw_kept, o.* FROM pgw_own o"
           " UNION ALL SELECT false, f.* FROM pgw_free f) x");
    lease_limit(b, limit);
    pgw__buf_text(b, "),\npgw_done AS (UPDATE ");
    pgw__put_own(b, t);
    pgw__buf_text(b, " t SET ");
    pgw__put_ident(b, t->locked_by->name);
    pgw__buf_text(b, " = ");
    pgw__put_cast(b, holder, t->locked_by);
    pgw__buf_text(b, ", ");
    pgw__put_ident(b, t->expires_at->name);
    pgw__buf_text(b, " = (SELECT pgw_at FROM pgw_now) + ");
    pgw__put_param(b, lease);
    pgw__buf_text(b, "::pg_catalog.int8 * interval '1 millisecond', ");
    pgw__put_ident(b, t->token->name);
    /* a lease written by hand has none yet */
    pgw__buf_text(b, " = CASE WHEN c.pgw_kept AND ");
    pgw__put_column(b, t->token);
    pgw__buf_text(b, " IS NOT NULL THEN ");
    pgw__put_column(b, t->token);
    pgw__buf_text(b, " ELSE ");
    pgw__put_next_token(b, t);
    pgw__buf_text(b, " END\nFROM pgw_taken c WHERE ");
    pgw__put_key_join(b, t, "c");
    pgw__buf_text(b, "\nRETURNING c.pgw_i, ");
    pgw__put_rows(b, ctx);
    /* rows that were taken, and none of them written, show as one without a position */
    pgw__buf_text(b, ")\nSELECT d.* FROM (SELECT 1 FROM pgw_done UNION ALL"
                     " SELECT 1 FROM pgw_taken c JOIN ");
    lease_as_locked(b, t, "c");
    pgw__buf_text(b, " LIMIT 1) one LEFT JOIN pgw_done d ON true ORDER BY d.pgw_i");
}

/* "Nothing to do" would be said for ever: the next claim would find the same rows. */
static pgw_status lease_read_claim(pgw *h, const pgw__rows *answer, void *ctx)
{
    if (pgw__rows_count(answer) == 0 || !pgw__rows_null(answer, 0, 0))
        return pgw__rows_read(h, answer, ctx);
    return pgw__pq_fail(h, PGW_EPERM,
                        "rows may be claimed, but a trigger of the table keeps them from being "
                        "written",
                        "add the trigger's condition to `claimable` or `where`");
}

/* The holder's name, as for jobs. But here the name decides which rows are returned. host:pid is
 * not enough: containers with one host name all have a process 1, and each thread of a process may
 * have its own handle. */
static pgw_status lease_holder(pgw *h, const char **holder, const char *given,
                               char buffer[PGW__HOLDER_MAX + 1])
{
    const pgw_status st = pgw__check_holder(h, "opts->holder", holder, given, buffer);

    if (st == PGW_OK && *holder == buffer) {
        const size_t used = strlen(buffer);

        snprintf(buffer + used, PGW__HOLDER_MAX + 1 - used, ":%012" PRIx64,
                 pgw__pq_mark(h) & UINT64_C(0xffffffffffff));
    }
    return st;
}

/* The column may have another type than text. The server's error would not name the argument. */
static pgw_status lease_check_type(pgw *h, const pgw__column *column, const char *holder)
{
    static const struct {
        const char *type, *allowed;
        int64_t limit;
    } numbers[] = {
        {"int2", "a number from -32768 to 32767, because its column is smallint", INT16_MAX},
        {"int4", "a number from -2147483648 to 2147483647, because its column is integer",
         INT32_MAX},
        {"int8", "a whole number, because its column is bigint", INT64_MAX}};
    unsigned char bytes[16];
    int64_t n;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (strcmp(column->type, numbers[i].type) == 0 &&
            (!pgw__int_parse(&n, holder) || n > numbers[i].limit || n < -numbers[i].limit - 1))
            return pgw__pq_refuse(h, "opts->holder", holder, numbers[i].allowed);
    if (strcmp(column->type, "uuid") == 0 && pgw__uuid_parse(bytes, holder) != NULL)
        return pgw__pq_refuse(h, "opts->holder", holder, "a uuid, because its column is a uuid");
    return PGW_OK;
}

static pgw_status lease_claim_check(pgw *h, pgw_rows **rows, const pgw_table *t,
                                    pgw_table_claim_opts *o, const pgw_table_claim_opts *opts,
                                    char holder[PGW__HOLDER_MAX + 1])
{
    pgw_status st;

    if (rows != NULL) *rows = NULL;
    st = pgw__table_check_leases(h, t);
    if (st == PGW_OK) st = pgw__check_given(h, "rows", rows);
    if (st == PGW_OK) st = pgw__check_opts(h, "opts", o, sizeof(*o), opts);
    if (st == PGW_OK) st = pgw__check_int(h, "opts->max", o->max, 1, PGW__BATCH_MAX);
    if (st == PGW_OK)
        st = pgw__check_int(h, "opts->lease_ms", o->lease_ms, PGW__LEASE_MIN_MS, PGW__TTL_MAX_MS);
    if (st == PGW_OK) st = lease_holder(h, &o->holder, o->holder, holder);
    if (st == PGW_OK) st = lease_check_type(h, t->locked_by, o->holder);
    if (st == PGW_OK) st = pgw__table_check_values(h, o->values, o->values_count);
    if (st == PGW_OK) st = pgw__table_check_columns(h, t, o->columns, o->columns_count);
    return st;
}

/* The position comes first, so the reader of rows starts one column later. */
pgw_status pgw_table_claim(pgw *h, const pgw_table *t, const pgw_table_claim_opts *opts,
                           pgw_rows **rows)
{
    pgw_table_claim_opts o = PGW_TABLE_CLAIM_OPTS_INIT;
    char buffer[PGW__HOLDER_MAX + 1];
    pgw_status st = lease_claim_check(h, rows, t, &o, opts, buffer);
    pgw__param params[PGW__VALUES_MAX + 4];
    pgw__buf b;

    if (st != PGW_OK) return st;
    {
        const pgw__rows_ctx ctx = {.rows = rows,
                                   .t = t,
                                   .columns = o.columns,
                                   .columns_count = o.columns_count,
                                   .most = o.max,
                                   .skip = 1,
                                   .leased = true};
        const pgw__call call = {.params = params,
                                .read = lease_read_claim,
                                .ctx = &ctx,
                                .ctx_size = sizeof(ctx),
                                .flags = PGW__WRITES | pgw__table_relaxed(t)};
        size_t p = pgw__put_values(params, o.values, o.values_count);

        params[p++] = (pgw__param)P_VALUE(o.holder);
        params[p++] = (pgw__param)P_INT8(o.max);
        params[p++] = (pgw__param)P_INT8(o.lease_ms);
        params[p] = (pgw__param)P_END;
        pgw__buf_init(&b, PGW__TABLE_SQL_MAX);
        lease_claim_text(&b, &o, &ctx);
        return pgw__table_call(h, "table_claim", &b, &call);
    }
}

/* ---- extend, release, finish ---- */

typedef enum lease_verb { LEASE_EXTEND, LEASE_RELEASE, LEASE_FINISH } lease_verb;

typedef struct lease_ctx {
    pgw_row_ref *refs;
    size_t n;
} lease_ctx;

/* refs may be NULL; more than one call can name are not changed. */
static void lease_fill(pgw_row_ref *refs, size_t n, pgw_status st)
{
    if (refs == NULL || n > PGW__BATCH_MAX) return;
    for (size_t i = 0; i < n; i++) refs[i].outcome = st;
}

/* Rows: position in the input from 1, found, ours, written. */
static pgw_status lease_read(pgw *h, const pgw__rows *rows, void *ctx)
{
    const lease_ctx *in = ctx;
    const int count = pgw__rows_count(rows);
    char message[200];
    size_t gone = 0, stale = 0, kept = 0;
    const pgw_status shape = pgw__ask_rows(h, rows, in->n);

    if (shape != PGW_OK) return shape;
    for (int row = 0; row < count; row++) {
        const int64_t at = pgw__rows_int(rows, row, 0);
        const bool found = !pgw__rows_null(rows, row, 1);
        const bool ours = pgw__rows_int(rows, row, 1) != 0;
        const bool written = pgw__rows_int(rows, row, 2) != 0;
        const pgw_status st = !found     ? PGW_ENOTFOUND
                              : !ours    ? PGW_ELEASE
                              : !written ? PGW_EPERM
                                         : PGW_OK;

        if (at < 1 || at > (int64_t)in->n || pgw__rows_misread(rows)) {
            lease_fill(in->refs, in->n, PGW_EUNKNOWN);
            return pgw__ask_misfit(h, "the answer has a row that was not requested");
        }
        in->refs[at - 1].outcome = st;
        gone += st == PGW_ENOTFOUND;
        stale += st == PGW_ELEASE;
        kept += st == PGW_EPERM;
    }
    if (gone + stale + kept == 0) return PGW_OK;
    snprintf(message, sizeof(message),
             "%zu of %zu rows refused: %zu with a lease that is not the current one, %zu gone, "
             "%zu not written because of a trigger",
             gone + stale + kept, in->n, stale, gone, kept);
    return pgw__pq_fail(
        h, PGW_ELEASE, message,
        "write nothing more for these rows; roll back your transaction if one is open");
}

static void lease_set(pgw__buf *b, const pgw_table *t, lease_verb verb, const char *set, int lease)
{
    if (verb == LEASE_EXTEND) {
        pgw__put_ident(b, t->expires_at->name);
        pgw__buf_text(b, " = pg_catalog.clock_timestamp() + ");
        pgw__put_param(b, lease);
        pgw__buf_text(b, "::pg_catalog.int8 * interval '1 millisecond'");
        return;
    }
    pgw__put_fragment(b, "", set, ", ");
    if (verb == LEASE_FINISH && t->version != NULL) {
        pgw__put_next_version(b, t);
        pgw__buf_text(b, ", ");
    }
    pgw__put_free(b, t);
}

static void lease_text(pgw__buf *b, const pgw_table *t, lease_verb verb, const char *set, int first)
{
    pgw__buf_text(b, "WITH pgw_ask AS MATERIALIZED (");
    pgw__put_keys(b, t, first, true);
    pgw__buf_text(b, "),\npgw_lock AS MATERIALIZED (SELECT a.pgw_i, ");
    pgw__put_column(b, t->token);
    pgw__buf_text(b, " IS NOT DISTINCT FROM a.pgw_token AS pgw_ours FROM pgw_ask a JOIN ");
    pgw__put_own(b, t);
    pgw__buf_text(b, " t ON ");
    pgw__put_key_join(b, t, "a");
    pgw__buf_text(b, " WHERE a.pgw_i = a.pgw_first ORDER BY ");
    pgw__put_key_order(b, t);
    pgw__buf_text(b, " FOR NO KEY UPDATE OF t),\npgw_done AS (UPDATE ");
    pgw__put_own(b, t);
    pgw__buf_text(b, " t SET ");
    lease_set(b, t, verb, set, first + (int)t->key_count + 1);
    pgw__buf_text(b, "\nFROM pgw_ask a JOIN pgw_lock l ON l.pgw_i = a.pgw_i AND l.pgw_ours WHERE ");
    pgw__put_key_join(b, t, "a");
    pgw__buf_text(b, " AND ");
    pgw__put_column(b, t->token);
    pgw__buf_text(b, " = a.pgw_token RETURNING a.pgw_i)\n"
                     "SELECT a.pgw_i, l.pgw_ours, d.pgw_i IS NOT NULL FROM pgw_ask a "
                     "LEFT JOIN pgw_lock l ON l.pgw_i = a.pgw_first "
                     "LEFT JOIN pgw_done d ON d.pgw_i = a.pgw_first");
}

/* lease_ms is for LEASE_EXTEND, `finish` for LEASE_FINISH. */
static pgw_status lease_call(pgw *h, const pgw_table *t, pgw_row_ref *refs, size_t n,
                             lease_verb verb, int64_t lease_ms, const pgw_table_finish_opts *finish)
{
    static const char *const names[] = {"table_extend", "table_release", "table_finish"};
    const lease_ctx ctx = {refs, n};
    pgw__param params[PGW__VALUES_MAX + PGW__KEY_COLUMNS + 3];
    const pgw__call call = {.params = params,
                            .read = lease_read,
                            .ctx = &ctx,
                            .ctx_size = sizeof(ctx),
                            .flags =
                                PGW__WRITES | (verb == LEASE_EXTEND ? pgw__table_relaxed(t) : 0)};
    pgw__keys keys;
    pgw__buf b;
    int p;
    pgw_status st = pgw__keys_make(h, &keys, t, n, true);

    if (st != PGW_OK) return st;
    for (size_t i = 0; i < n; i++) pgw__keys_set(&keys, t, i, refs[i].key, &refs[i].token);

    p = (int)pgw__put_values(params, finish->values, finish->values_count);
    pgw__buf_init(&b, PGW__TABLE_SQL_MAX);
    lease_text(&b, t, verb, finish->set, p + 1);
    p = pgw__keys_params(&keys, t, params, p);
    if (verb == LEASE_EXTEND) params[p++] = (pgw__param)P_INT8(lease_ms);
    params[p] = (pgw__param)P_END;
    st = pgw__table_call(h, names[verb], &b, &call);
    pgw__keys_free(&keys);
    return st;
}

static pgw_status lease_check(pgw *h, const pgw_table *t, pgw_row_ref *refs, size_t n)
{
    pgw_status st = pgw__table_check_leases(h, t);

    lease_fill(refs, n, PGW_EUNKNOWN);
    if (st == PGW_OK) st = pgw__check_given(h, "refs", refs);
    if (st == PGW_OK) st = pgw__check_count(h, "n", n, 1, PGW__BATCH_MAX);
    for (size_t i = 0; st == PGW_OK && i < n; i++)
        st = pgw__pq_about(h, i, pgw__table_check_key(h, t, refs[i].key));
    return st;
}

static const pgw_table_finish_opts lease_no_finish = PGW_TABLE_FINISH_OPTS_INIT;

pgw_status pgw_table_extend(pgw *h, const pgw_table *t, pgw_row_ref *refs, size_t n,
                            const pgw_table_extend_opts *opts)
{
    pgw_table_extend_opts o = PGW_TABLE_EXTEND_OPTS_INIT;
    pgw_status st = lease_check(h, t, refs, n);

    if (st == PGW_OK) st = pgw__check_opts(h, "opts", &o, sizeof(o), opts);
    if (st == PGW_OK)
        st = pgw__check_int(h, "opts->lease_ms", o.lease_ms, PGW__LEASE_MIN_MS, PGW__TTL_MAX_MS);
    if (st != PGW_OK) return st;
    return lease_call(h, t, refs, n, LEASE_EXTEND, o.lease_ms, &lease_no_finish);
}

pgw_status pgw_table_release(pgw *h, const pgw_table *t, pgw_row_ref *refs, size_t n)
{
    const pgw_status st = lease_check(h, t, refs, n);

    return st == PGW_OK ? lease_call(h, t, refs, n, LEASE_RELEASE, 0, &lease_no_finish) : st;
}

pgw_status pgw_table_finish(pgw *h, const pgw_table *t, pgw_row_ref *refs, size_t n,
                            const pgw_table_finish_opts *opts)
{
    pgw_table_finish_opts o = PGW_TABLE_FINISH_OPTS_INIT;
    pgw_status st = lease_check(h, t, refs, n);

    if (st == PGW_OK) st = pgw__check_opts(h, "opts", &o, sizeof(o), opts);
    if (st == PGW_OK) st = pgw__check_given(h, "opts->set", o.set);
    if (st == PGW_OK) st = pgw__table_check_values(h, o.values, o.values_count);
    return st == PGW_OK ? lease_call(h, t, refs, n, LEASE_FINISH, 0, &o) : st;
}

/* ---- reap ---- */

typedef struct lease_reap_ctx {
    int64_t *found, *freed;
} lease_reap_ctx;

static pgw_status lease_read_reap(pgw *h, const pgw__rows *rows, void *ctx)
{
    const lease_reap_ctx *in = ctx;
    const pgw_status st = pgw__ask_rows(h, rows, 1);

    if (st == PGW_OK && in->freed != NULL) *in->freed = pgw__rows_int(rows, 0, 0);
    if (st == PGW_OK && in->found != NULL) *in->found = pgw__rows_int(rows, 0, 1);
    return st;
}

/* Rows that never had a lease lie in front of the index: the lower bound leaves them out. Where the
 * index is only of rows that may be claimed, which the registry does not know, the one by holder
 * does: it is of leased rows only. */
static void lease_overdue(pgw__buf *b, const pgw_table *t, int limit, int skip)
{
    pgw__buf_text(b, " FROM ");
    pgw__put_own(b, t);
    pgw__buf_text(b, " t WHERE ");
    pgw__put_expiry(b, t);
    pgw__buf_text(b, " > '-infinity'::pg_catalog.timestamptz AND ");
    pgw__put_expiry(b, t);
    pgw__buf_text(b, " <= (SELECT pg_catalog.clock_timestamp()) AND ");
    pgw__put_column(b, t->locked_by);
    pgw__buf_text(b, " IS NOT NULL ORDER BY ");
    pgw__put_expiry(b, t);
    lease_limit(b, limit);
    pgw__buf_text(b, " OFFSET ");
    pgw__put_param(b, skip);
    pgw__buf_text(b, "::pg_catalog.int8");
    pgw__put_row_lock(b, t);
    pgw__buf_text(b, " OF t SKIP LOCKED");
}

pgw_status pgw__table_overdue(pgw *h, pgw_rows **rows, const pgw_table *t, int skip)
{
    const pgw__rows_ctx ctx = {.rows = rows, .t = t, .most = 1, .leased = true};
    const pgw__param params[] = {P_INT8(1), P_INT8(skip), P_END};
    const pgw__call call = {
        .params = params, .read = pgw__rows_read, .ctx = &ctx, .ctx_size = sizeof(ctx)};
    pgw__buf b;

    *rows = NULL;
    pgw__buf_init(&b, PGW__TABLE_SQL_MAX);
    pgw__buf_text(&b, "SELECT ");
    pgw__put_rows(&b, &ctx);
    lease_overdue(&b, t, 1, 2);
    return pgw__table_call(h, "table_overdue", &b, &call);
}

pgw_status pgw__table_reap(pgw *h, int64_t *found, int64_t *freed, const pgw_table *t, int batch,
                           int skip)
{
    const lease_reap_ctx ctx = {found, freed};
    const pgw__param params[] = {P_INT8(batch), P_INT8(skip), P_END};
    const pgw__call call = {.params = params,
                            .read = lease_read_reap,
                            .ctx = &ctx,
                            .ctx_size = sizeof(ctx),
                            .flags = PGW__WRITES | pgw__table_relaxed(t)};
    pgw__buf b;

    pgw__buf_init(&b, PGW__TABLE_SQL_MAX);
    pgw__buf_text(&b, "WITH pgw_over AS MATERIALIZED (SELECT ");
    pgw__put_key(&b, t);
    lease_place(&b, t);
    lease_overdue(&b, t, 1, 2);
    pgw__buf_text(&b, "),\npgw_done AS (UPDATE ");
    pgw__put_own(&b, t);
    pgw__buf_text(&b, " t SET ");
    pgw__put_free(&b, t);
    pgw__buf_text(&b, " FROM pgw_over o WHERE ");
    pgw__put_key_join(&b, t, "o");
    pgw__buf_text(&b, " RETURNING 1)\nSELECT d.n, CASE WHEN d.n = o.n THEN o.n ELSE (SELECT "
                      "pg_catalog.count(*) FROM pgw_over o JOIN ");
    lease_as_locked(&b, t, "o");
    pgw__buf_text(&b, ") END FROM (SELECT pg_catalog.count(*) AS n FROM pgw_done) d, (SELECT "
                      "pg_catalog.count(*) AS n FROM pgw_over) o");
    return pgw__table_call(h, "table_reap", &b, &call);
}

pgw_status pgw_table_reap(pgw *h, const pgw_table *t, int batch, int64_t *freed)
{
    pgw_status st;

    if (freed != NULL) *freed = 0;
    st = pgw__table_check_leases(h, t);
    if (st == PGW_OK) st = pgw__check_int(h, "batch", batch, 1, PGW__BATCH_MAX);
    return st == PGW_OK ? pgw__table_reap(h, NULL, freed, t, batch, 0) : st;
}
