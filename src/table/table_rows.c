/* table_rows: rows of a caller's table in one block: the head, the data of each row, pointers to
 * the values, names and values. Two passes over the answer: the first adds up sizes, the second
 * copies. */
#include <string.h>

#include "base/mem.h"
#include "base/token.h"
#include "call/ask.h"
#include "table/table_int.h"

typedef struct row_head {
    pgw_token token;
    int64_t until_us;
    const char *version;
} row_head;

struct pgw_rows {
    size_t count, key_count, columns_count;
    row_head *heads;
    const char **names;
    const char **values; /* of each row: its key, then the requested columns */
};

/* ---- as expressions ---- */

void pgw__put_asked(pgw__buf *b, const pgw_table *t, const char *const *columns, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        pgw__buf_text(b, ", ");
        pgw__put_column(b, pgw__table_column(t, columns[i]));
        pgw__buf_text(b, "::text");
    }
}

void pgw__put_rows(pgw__buf *b, const pgw__rows_ctx *ctx)
{
    const pgw_table *t = ctx->t;

    if (ctx->leased) {
        pgw__put_column(b, t->token);
        pgw__buf_text(b, ", ");
        pgw__put_column(b, t->expires_at);
        pgw__buf_text(b, ", ");
    }
    if (pgw__has_version(t)) {
        pgw__put_version(b, t);
        pgw__buf_text(b, ", ");
    }
    pgw__put_key_text(b, t);
    pgw__put_asked(b, t, ctx->columns, ctx->columns_count);
}

/* ---- from the answer ---- */

static const char *table_rows_keep(char **at, const char *bytes, size_t n)
{
    char *kept = *at;

    memcpy(kept, bytes, n);
    kept[n] = '\0';
    *at += n + 1;
    return kept;
}

static const char *table_rows_keep_value(char **at, const pgw__rows *answer, int row, int col)
{
    size_t n;
    const char *bytes = pgw__rows_text(answer, row, col, &n);

    return bytes != NULL ? table_rows_keep(at, bytes, n) : NULL;
}

static pgw_token table_rows_token(const pgw__rows *answer, int row, int col)
{
    unsigned char bytes[16] = {0};

    pgw__rows_uuid(answer, row, col, bytes);
    return pgw__token_read(bytes);
}

static pgw_rows *table_rows_new(const pgw__rows *answer, const pgw__rows_ctx *ctx, int first_text)
{
    const size_t count = (size_t)pgw__rows_count(answer);
    const size_t each = ctx->t->key_count + ctx->columns_count;
    const size_t pointers = ctx->columns_count + count * each;
    const size_t head = sizeof(pgw_rows) + count * sizeof(row_head) + pointers * sizeof(char *);
    size_t bytes = 0, n;
    pgw_rows *rows;
    char *at;

    for (size_t c = 0; c < ctx->columns_count; c++) bytes += strlen(ctx->columns[c]) + 1;
    for (int row = 0; row < (int)count; row++)
        for (int col = first_text; col < pgw__rows_columns(answer); col++)
            if (pgw__rows_text(answer, row, col, &n) != NULL) bytes += n + 1;

    rows = pgw__mem_zero(1, head + bytes);
    if (rows == NULL) return NULL;
    rows->count = count;
    rows->key_count = ctx->t->key_count;
    rows->columns_count = ctx->columns_count;
    rows->heads = (void *)(rows + 1);
    rows->names = (void *)(rows->heads + count);
    rows->values = rows->names + ctx->columns_count;
    at = (char *)(rows->names + pointers);

    for (size_t c = 0; c < ctx->columns_count; c++)
        rows->names[c] = table_rows_keep(&at, ctx->columns[c], strlen(ctx->columns[c]));
    for (int row = 0; row < (int)count; row++) {
        row_head *to = &rows->heads[row];
        int col = ctx->skip;

        if (ctx->leased) {
            to->token = table_rows_token(answer, row, col++);
            to->until_us = pgw__rows_time_us(answer, row, col++);
        }
        if (pgw__has_version(ctx->t)) to->version = table_rows_keep_value(&at, answer, row, col++);
        for (size_t i = 0; i < each; i++)
            rows->values[(size_t)row * each + i] = table_rows_keep_value(&at, answer, row, col++);
    }
    return rows;
}

pgw_status pgw__rows_none(pgw *h)
{
    return pgw__pq_fail(h, PGW_ENOTFOUND, "there is no row with this key", NULL);
}

pgw_status pgw__rows_read(pgw *h, const pgw__rows *answer, void *ctx)
{
    const pgw__rows_ctx *in = ctx;
    const int64_t count = pgw__rows_count(answer);
    pgw_rows *made;

    if (count == 0) return in->needed ? pgw__rows_none(h) : PGW_OUTCOME_EMPTY;
    if (in->most > 0 && count > in->most)
        return pgw__ask_misfit(h, "the answer has more rows than requested");
    made = table_rows_new(answer, in, in->skip + (in->leased ? 2 : 0));
    if (made == NULL) return pgw__pq_fail(h, PGW_ENOMEM, NULL, NULL);
    if (pgw__rows_misread(answer)) {
        pgw_rows_free(made);
        return PGW_EPROTO;
    }
    *in->rows = made;
    return PGW_OK;
}

/* ---- for the caller ---- */

size_t pgw_rows_count(const pgw_rows *rows)
{
    return rows != NULL ? rows->count : 0;
}

size_t pgw_rows_columns(const pgw_rows *rows)
{
    return rows != NULL ? rows->columns_count : 0;
}

const char *pgw_rows_name(const pgw_rows *rows, size_t column)
{
    return column < pgw_rows_columns(rows) ? rows->names[column] : NULL;
}

const char *const *pgw_rows_key(const pgw_rows *rows, size_t row)
{
    if (row >= pgw_rows_count(rows)) return NULL;
    return rows->values + row * (rows->key_count + rows->columns_count);
}

const char *pgw_rows_at(const pgw_rows *rows, size_t row, size_t column)
{
    if (row >= pgw_rows_count(rows) || column >= rows->columns_count) return NULL;
    return pgw_rows_key(rows, row)[rows->key_count + column];
}

const char *pgw_rows_get(const pgw_rows *rows, size_t row, const char *column)
{
    for (size_t c = 0; column != NULL && c < pgw_rows_columns(rows); c++)
        if (strcmp(rows->names[c], column) == 0) return pgw_rows_at(rows, row, c);
    return NULL;
}

const char *pgw_rows_version(const pgw_rows *rows, size_t row)
{
    return row < pgw_rows_count(rows) ? rows->heads[row].version : NULL;
}

int64_t pgw_rows_lease_until_us(const pgw_rows *rows, size_t row)
{
    return row < pgw_rows_count(rows) ? rows->heads[row].until_us : 0;
}

pgw_row_ref pgw_rows_ref(const pgw_rows *rows, size_t row)
{
    pgw_row_ref ref = {NULL, {0, 0}, PGW_OK};

    if (row >= pgw_rows_count(rows)) return ref;
    ref.key = pgw_rows_key(rows, row);
    ref.token = rows->heads[row].token;
    return ref;
}

void pgw_rows_free(pgw_rows *rows)
{
    pgw__mem_free(rows);
}

/* ---- keys of many rows ---- */

pgw_status pgw__keys_make(pgw *h, pgw__keys *k, const pgw_table *t, size_t n, bool tokens)
{
    k->n = n;
    k->texts = pgw__mem_zero(n * t->key_count, sizeof(char *));
    k->tokens = tokens ? pgw__mem_zero(n, 16) : NULL;
    if (k->texts != NULL && (k->tokens != NULL || !tokens)) return PGW_OK;
    pgw__keys_free(k);
    return pgw__pq_reject(h, PGW_ENOMEM, NULL, NULL);
}

void pgw__keys_set(pgw__keys *k, const pgw_table *t, size_t i, const char *const *key,
                   const pgw_token *token)
{
    for (size_t c = 0; c < t->key_count; c++) k->texts[c * k->n + i] = key[c];
    if (token != NULL) pgw__token_write(k->tokens[i], *token);
}

void pgw__keys_free(pgw__keys *k)
{
    pgw__mem_free(k->texts);
    pgw__mem_free(k->tokens);
    k->texts = NULL;
    k->tokens = NULL;
}

int pgw__keys_params(const pgw__keys *k, const pgw_table *t, pgw__param *params, int first)
{
    int at = first;

    for (size_t c = 0; c < t->key_count; c++)
        params[at++] = (pgw__param)P_ARRAY(TEXT, k->texts + c * k->n, k->n);
    if (k->tokens != NULL) params[at++] = (pgw__param)P_ARRAY(UUID, k->tokens, k->n);
    return at;
}

/* A key that is given twice counts once: the others point to the first. The column's collation
 * decides what is equal. */
void pgw__put_keys(pgw__buf *b, const pgw_table *t, int first, bool tokens)
{
    const size_t n = t->key_count;

    pgw__buf_text(b, "SELECT k.*, pg_catalog.min(k.pgw_i) OVER (PARTITION BY ");
    for (size_t c = 0; c < n; c++) {
        pgw__buf_text(b, c > 0 ? ", k.pgw_k" : "k.pgw_k");
        pgw__buf_int(b, (int64_t)c + 1);
    }
    pgw__buf_text(b, tokens ? ", k.pgw_token) AS pgw_first" : ") AS pgw_first");
    pgw__buf_text(b, " FROM (SELECT u.pgw_i");
    for (size_t c = 0; c < n; c++) {
        pgw__buf_text(b, ", u.pgw_x");
        pgw__buf_int(b, (int64_t)c + 1);
        pgw__buf_text(b, "::");
        pgw__put_type(b, t->key[c].column);
        pgw__put_collation(b, t->key[c].column);
        pgw__buf_text(b, " AS pgw_k");
        pgw__buf_int(b, (int64_t)c + 1);
    }
    pgw__buf_text(b, tokens ? ", u.pgw_token FROM ROWS FROM (" : " FROM ROWS FROM (");
    for (size_t c = 0; c < n + tokens; c++) {
        pgw__buf_text(b, c > 0 ? ", pg_catalog.unnest(" : "pg_catalog.unnest(");
        pgw__put_param(b, first + (int)c);
        pgw__buf_text(b, ")");
    }
    pgw__buf_text(b, ") WITH ORDINALITY u (");
    for (size_t c = 0; c < n; c++) {
        pgw__buf_text(b, c > 0 ? ", pgw_x" : "pgw_x");
        pgw__buf_int(b, (int64_t)c + 1);
    }
    pgw__buf_text(b, tokens ? ", pgw_token, pgw_i)) k" : ", pgw_i)) k");
}
