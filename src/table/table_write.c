/* table_write: optimistic writes: a row is written only if it did not change since it was read. */
#include <stdio.h>
#include <string.h>

#include "base/backoff.h"
#include "base/mem.h"
#include "base/name.h"
#include "call/ask.h"
#include "table/table_int.h"

#define WRITE_PAUSE_BASE_MS 1
#define WRITE_PAUSE_CAP_MS  200
#define WRITE_TRIES_MAX     100000

/* ---- read ---- */

static pgw_status write_get(pgw *h, pgw_rows **rows, const pgw_table *t, const char *const *key,
                            const char *const *columns, size_t columns_count)
{
    const pgw__rows_ctx ctx = {
        .rows = rows,
        .t = t,
        .columns = columns,
        .columns_count = columns_count,
        .most = 1,
        .needed = true,
    };
    pgw__param params[PGW__KEY_COLUMNS + 1];
    const pgw__call call = {
        .params = params, .read = pgw__rows_read, .ctx = &ctx, .ctx_size = sizeof(ctx)};
    size_t p = pgw__put_values(params, key, t->key_count);
    pgw__buf b;

    params[p] = (pgw__param)P_END;
    pgw__buf_init(&b, PGW__TABLE_SQL_MAX);
    pgw__buf_text(&b, "SELECT ");
    pgw__put_rows(&b, &ctx);
    pgw__buf_text(&b, " FROM ");
    pgw__put_own(&b, t);
    pgw__buf_text(&b, " t WHERE ");
    pgw__put_key_is(&b, t, 1);
    return pgw__table_call(h, "table_get", &b, &call);
}

pgw_status pgw_table_get(pgw *h, const pgw_table *t, const pgw_table_get_opts *opts,
                         pgw_rows **rows)
{
    pgw_table_get_opts o = PGW_TABLE_GET_OPTS_INIT;
    pgw_status st;

    if (rows != NULL) *rows = NULL;
    st = pgw__table_check(h, t);
    if (st == PGW_OK) st = pgw__check_given(h, "rows", rows);
    if (st == PGW_OK) st = pgw__check_opts(h, "opts", &o, sizeof(o), opts);
    if (st == PGW_OK) st = pgw__table_check_key(h, t, o.key);
    if (st == PGW_OK) st = pgw__table_check_columns(h, t, o.columns, o.columns_count);
    return st == PGW_OK ? write_get(h, rows, t, o.key, o.columns, o.columns_count) : st;
}

/* ---- write ---- */

typedef struct write_ctx {
    char *next; /* PGW_ROW_VERSION_SIZE bytes, or NULL */
} write_ctx;

/* One row: the next version, NULL when nothing was written; is the row there? */
static pgw_status write_read(pgw *h, const pgw__rows *rows, void *ctx)
{
    const write_ctx *in = ctx;
    const pgw_status st = pgw__ask_rows(h, rows, 1);
    const char *next;

    if (st != PGW_OK) return st;
    next = pgw__rows_text(rows, 0, 0, NULL);
    if (next != NULL) {
        if (in->next != NULL) snprintf(in->next, PGW_ROW_VERSION_SIZE, "%s", next);
        return PGW_OK;
    }
    if (pgw__rows_int(rows, 0, 1) == 0) return pgw__rows_none(h);
    return pgw__pq_fail(h, PGW_ECONFLICT,
                        "the row has another version: another session wrote it first",
                        "read the row again");
}

/* An operation id that is written with a row. */
typedef struct write_op {
    unsigned char id[16];
    const unsigned char *spent; /* NULL: the id is the caller's; else an id to delete */
} write_op;

/* $1.. the values of cells, then those of the key, the version, the operation id and a spent one.
 */
static void write_text(pgw__buf *b, const pgw_table *t, const pgw_table_update_opts *o,
                       const write_op *op)
{
    const int key = (int)o->cells_count + 1, version = key + (int)t->key_count;

    pgw__buf_text(b, "WITH pgw_done AS (UPDATE ");
    pgw__put_own(b, t);
    pgw__buf_text(b, " t SET ");
    for (size_t i = 0; i < o->cells_count; i++) {
        pgw__buf_text(b, i > 0 ? ", " : "");
        pgw__put_ident(b, o->cells[i].column);
        pgw__buf_text(b, " = ");
        pgw__put_param(b, (int)i + 1);
    }
    if (t->version != NULL) {
        pgw__buf_text(b, ", ");
        pgw__put_next_version(b, t);
    }
    pgw__buf_text(b, " WHERE ");
    pgw__put_key_is(b, t, key);
    pgw__buf_text(b, " AND ");
    pgw__put_version_is(b, t, version);
    pgw__buf_text(b, " RETURNING ");
    pgw__put_version(b, t);
    pgw__buf_text(b, " AS pgw_version)\nSELECT d.pgw_version, EXISTS (SELECT FROM ");
    pgw__put_own(b, t);
    pgw__buf_text(b, " t WHERE ");
    pgw__put_key_is(b, t, key);
    pgw__buf_text(b, ")");
    if (op != NULL) {
        pgw__buf_text(b, ", CASE WHEN d.pgw_version IS NOT NULL THEN ");
        pgw__put_ident(b, t->home);
        pgw__buf_text(b, ".table_operation(");
        pgw__put_param(b, version + 1);
        if (op->spent != NULL) {
            pgw__buf_text(b, ", ");
            pgw__put_param(b, version + 2);
        }
        pgw__buf_text(b, ") END");
    }
    pgw__buf_text(b, " FROM (SELECT) one LEFT JOIN pgw_done d ON true");
}

static pgw_status write_update(pgw *h, char *next, const pgw_table *t,
                               const pgw_table_update_opts *o, const write_op *op)
{
    const write_ctx ctx = {next};
    pgw__param params[PGW__VALUES_MAX + PGW__KEY_COLUMNS + 4];
    const pgw__call call = {.params = params,
                            .read = write_read,
                            .ctx = &ctx,
                            .ctx_size = sizeof(ctx),
                            .flags = PGW__WRITES};
    size_t p = 0;
    pgw__buf b;

    while (p < o->cells_count) params[p] = (pgw__param)P_VALUE(o->cells[p].value), p++;
    p += pgw__put_values(params + p, o->key, t->key_count);
    params[p++] = (pgw__param)P_VALUE(o->version);
    if (op != NULL) params[p++] = (pgw__param)P_UUID(op->id);
    if (op != NULL && op->spent != NULL) params[p++] = (pgw__param)P_UUID(op->spent);
    params[p] = (pgw__param)P_END;
    pgw__buf_init(&b, PGW__TABLE_SQL_MAX);
    write_text(&b, t, o, op);
    return pgw__table_call(h, "table_update", &b, &call);
}

/* The version of a row that triggers have written again; "" when they have deleted it. */
static pgw_status write_read_version(pgw *h, char *next, const pgw_table *t, const char *const *key)
{
    pgw_rows *rows = NULL;
    pgw_status st = write_get(h, &rows, t, key, NULL, 0);

    if (st == PGW_OK && pgw_rows_version(rows, 0) != NULL)
        snprintf(next, PGW_ROW_VERSION_SIZE, "%s", pgw_rows_version(rows, 0));
    pgw_rows_free(rows);
    return st == PGW_ENOTFOUND ? PGW_OK : st;
}

/* If triggers may write the row again, the next version is what they leave, read in the same
 * transaction: afterwards another session may have written. Changes by triggers at the commit are
 * not seen. */
static pgw_status write_and_read(pgw *h, char *next, const pgw_table *t,
                                 const pgw_table_update_opts *o)
{
    const bool joins = pgw__pq_in_txn(h);
    const bool blind =
        t->rewritten == PGW__AFTER_COMMIT || pgw__pq_armed(h) || (!joins && pgw__pq_attached(h));
    pgw_status st = joins || blind ? PGW_OK : pgw__pq_begin(h), undone;

    if (st == PGW_OK) st = write_update(h, NULL, t, o, NULL);
    if (blind) return st;
    if (st == PGW_OK) st = write_read_version(h, next, t, o->key);
    if (joins) return st;
    if (st == PGW_OK) return pgw__pq_commit(h);
    undone = pgw__pq_rollback(h); /* keeps the diagnostics of the failure */
    return undone == PGW_OK ? st : undone;
}

pgw_status pgw_table_update(pgw *h, const pgw_table *t, const pgw_table_update_opts *opts,
                            char next[PGW_ROW_VERSION_SIZE])
{
    pgw_table_update_opts o = PGW_TABLE_UPDATE_OPTS_INIT;
    char given[PGW_ROW_VERSION_SIZE];
    pgw_status st = pgw__check_opts(h, "opts", &o, sizeof(o), opts);

    if (next != NULL && o.version == next) { /* returned by the last write */
        memcpy(given, next, sizeof(given));
        o.version = given;
    }
    if (next != NULL) next[0] = '\0';
    if (st == PGW_OK) st = pgw__table_check_versions(h, t);
    if (st == PGW_OK) st = pgw__table_check_key(h, t, o.key);
    if (st == PGW_OK) st = pgw__check_given(h, "opts->version", o.version);
    if (st == PGW_OK && *o.version == '\0')
        st = pgw__pq_refuse(h, "opts->version", o.version,
                            "a version that was returned: read the row again");
    if (st == PGW_OK) st = pgw__check_given(h, "opts->cells", o.cells);
    if (st == PGW_OK)
        st = pgw__check_count(h, "opts->cells_count", o.cells_count, 1, PGW__VALUES_MAX);
    for (size_t i = 0; st == PGW_OK && i < o.cells_count; i++)
        st = pgw__table_check_cell(h, t, o.cells[i].column);
    if (st != PGW_OK) return st;
    if (next != NULL && t->rewritten != PGW__AFTER_NOTHING) return write_and_read(h, next, t, &o);
    return write_update(h, next, t, &o, NULL);
}

/* ---- one row in the hands of a function ---- */

struct pgw_edit {
    pgw *h;
    const pgw_table *t;
    const pgw_rows *rows;
    pgw_cell cells[PGW__VALUES_MAX]; /* the edit owns the values, not the columns */
    size_t n;
};

/* The place of a column among those that were set; edit->n: not set. */
static size_t edit_find(const pgw_edit *edit, const char *column)
{
    size_t i = 0;

    while (i < edit->n && strcmp(edit->cells[i].column, column) != 0) i++;
    return i;
}

static void edit_free(const char *value)
{
    pgw__mem_free((void *)(uintptr_t)value);
}

static const char *edit_name(const pgw_edit *edit, const char *column)
{
    for (size_t c = 0; c < pgw_rows_columns(edit->rows); c++)
        if (strcmp(pgw_rows_name(edit->rows, c), column) == 0) return pgw_rows_name(edit->rows, c);
    return NULL;
}

const char *pgw_edit_get(const pgw_edit *edit, const char *column)
{
    const size_t i = column != NULL ? edit_find(edit, column) : edit->n;

    return i < edit->n ? edit->cells[i].value : pgw_rows_get(edit->rows, 0, column);
}

pgw_status pgw_edit_set(pgw_edit *edit, const char *column, const char *value)
{
    pgw_status st = pgw__table_check_cell(edit->h, edit->t, column);
    char *copy;
    size_t i;

    if (st != PGW_OK) return st;
    if (edit_name(edit, column) == NULL)
        return pgw__pq_refuse(edit->h, "column", column, "one of those that were read");
    i = edit_find(edit, column);
    if (i == PGW__VALUES_MAX)
        return pgw__pq_fail(edit->h, PGW_ELIMIT, "a row takes at most 32 columns at once", NULL);
    copy = pgw__mem_dup(value);
    if (copy == NULL && value != NULL) return pgw__pq_fail(edit->h, PGW_ENOMEM, NULL, NULL);
    if (i < edit->n)
        edit_free(edit->cells[i].value);
    else
        edit->n++;
    edit->cells[i] = (pgw_cell){edit_name(edit, column), copy};
    return PGW_OK;
}

/* Drops columns that were set to their present value. */
static void edit_trim(pgw_edit *edit)
{
    size_t kept = 0;

    for (size_t i = 0; i < edit->n; i++) {
        const char *was = pgw_rows_get(edit->rows, 0, edit->cells[i].column);
        const char *is = edit->cells[i].value;

        if (was == is || (was != NULL && is != NULL && strcmp(was, is) == 0))
            edit_free(is);
        else
            edit->cells[kept++] = edit->cells[i];
    }
    edit->n = kept;
}

static void edit_clear(pgw_edit *edit)
{
    while (edit->n > 0) edit_free(edit->cells[--edit->n].value);
}

/* ---- process ---- */

typedef struct process {
    pgw *h;
    const pgw_table *t;
    pgw_edit_fn *fn;
    void *arg;
    pgw_table_process_opts o;
    const write_op *op;              /* NULL: none can be kept */
    bool unknown;                    /* a try may have been applied, and may still be */
    bool written;                    /* the last try wrote */
    bool refused;                    /* fn ended the last try, and its status means what fn says */
    char kept[PGW_ROW_VERSION_SIZE]; /* the version for which the last try could not write, or "" */
} process;

static pgw_status process_applied(process *p, bool *applied)
{
    const pgw__param params[] = {P_UUID(p->op->id), P_END};

    *applied = false;
    /* it locks the rows that it finds, and counts only when confirmed like any other write */
    return pgw__ask_flag(p->h, applied, PGW__SQL_TABLE_APPLIED, params, PGW__WRITES);
}

/* Of the same state of a row? The third part of a version made of xmin is when it was read. */
static bool process_same(const char *a, const char *b)
{
    for (int part = 1;; part++) {
        const size_t n = strcspn(a, "/"), m = strcspn(b, "/");

        if (part != 3 && (n != m || memcmp(a, b, n) != 0)) return false;
        if (a[n] == '\0' || b[m] == '\0') return a[n] == b[m];
        a += n + 1;
        b += m + 1;
    }
}

/* Every write changes the version. If two tries in a row fail with the same version, no other
 * session wrote in between. An old snapshot does not mislead: writes of others since then are an
 * error of the server (40001). */
static pgw_status process_conflict(process *p, const char *before, const char *version)
{
    if (pgw__pq_sqlstate(p->h)[0] != '\0') return PGW_ECONFLICT;
    snprintf(p->kept, sizeof(p->kept), "%s", version);
    if (!process_same(before, version)) return PGW_ECONFLICT;
    return pgw__pq_fail(
        p->h, PGW_EPERM,
        "no other session wrote the row, but a trigger or a policy of the table keeps "
        "it from being written",
        "see the table's triggers BEFORE UPDATE, and its policies for UPDATE");
}

static pgw_status process_write(process *p, const pgw_rows *rows, const pgw_edit *edit)
{
    pgw_table_update_opts o = PGW_TABLE_UPDATE_OPTS_INIT;

    o.key = p->o.key, o.version = pgw_rows_version(rows, 0);
    o.cells = edit->cells, o.cells_count = edit->n;
    return write_update(p->h, NULL, p->t, &o, p->op);
}

static pgw_status process_try(process *p)
{
    pgw_edit edit = {.h = p->h, .t = p->t};
    pgw_rows *rows = NULL;
    pgw_status st = write_get(p->h, &rows, p->t, p->o.key, p->o.columns, p->o.columns_count), said;
    char before[PGW_ROW_VERSION_SIZE];

    memcpy(before, p->kept, sizeof(before));
    p->kept[0] = '\0';
    if (st != PGW_OK) return st;
    if (pgw_rows_version(rows, 0) == NULL) { /* a NULL version never matches */
        pgw_rows_free(rows);
        return pgw__pq_fail(p->h, PGW_EINVAL,
                            "the row's version is NULL: the table was altered after it was opened",
                            "UPDATE what is NULL, then ALTER TABLE ... ALTER COLUMN ... SET NOT "
                            "NULL");
    }
    edit.rows = rows;
    st = said = p->fn(&edit, p->arg);
    p->refused = said < PGW_OK;
    if (!p->refused) {
        edit_trim(&edit);
        if (edit.n > 0) {
            st = process_write(p, rows, &edit);
            p->written = st == PGW_OK;
            p->unknown |= st == PGW_EUNKNOWN;
            if (p->written) st = said;
            if (st == PGW_ECONFLICT) st = process_conflict(p, before, pgw_rows_version(rows, 0));
        }
    } else if (pgw__pq_error_status(p->h) != st) {
        pgw__pq_fail(p->h, st, "the function that edits the row returned an error", NULL);
    }
    edit_clear(&edit);
    pgw_rows_free(rows);
    return st;
}

/* One try, or the finding that an earlier one succeeded. PGW_OUTCOME_REPEATED: before this call. */
static pgw_status process_once(process *p)
{
    bool applied = false;
    pgw_status st = PGW_OK;

    p->refused = false;
    if (p->unknown || p->o.op != NULL) st = process_applied(p, &applied);
    if (st != PGW_OK) return st;
    if (applied) return p->unknown ? PGW_OK : PGW_OUTCOME_REPEATED;
    st = process_try(p);
    if (st == PGW_EEXISTS && !p->refused && p->op != NULL && !pgw__pq_in_txn(p->h)) {
        /* the operation's own key? then it is applied since we asked */
        pgw__diagnostics diagnostics;

        pgw__pq_keep_diagnostics(p->h, &diagnostics);
        if (process_applied(p, &applied) != PGW_OK) return PGW_EUNKNOWN;
        if (applied) return p->unknown ? PGW_OK : PGW_OUTCOME_REPEATED;
        return pgw__pq_tell(p->h, &diagnostics);
    }
    return st;
}

static bool process_again(const process *p, pgw_status st, bool in_txn)
{
    if (p->refused) return false;
    if (st == PGW_ECONFLICT) return true;
    if (in_txn) return false;
    if (st == PGW_ERETRY) return true;
    if (p->op == NULL) return false;
    /* the caller's connection does not reconnect */
    return st == PGW_EUNKNOWN || (p->unknown && st == PGW_ECONN && !pgw__pq_attached(p->h));
}

/* No error may say "not applied" if an earlier try may have been applied, or may be applied later;
 * not even an error of fn, which may have refused because it saw the write of that try. */
static pgw_status process_end(const process *p, pgw_status st)
{
    char message[1100]; /* holds whole diagnostics; too long text is cut when it is stored */

    if (!p->unknown || st >= PGW_OK) return st;
    snprintf(message, sizeof(message), "a try may have been applied, then a later one failed: %s",
             pgw__pq_error_message(p->h));
    return pgw__pq_fail(p->h, PGW_EUNKNOWN, message,
                        p->o.op != NULL ? "call again with the same operation id"
                                        : "read the row; next time give an operation id");
}

static pgw_status process_run(process *p)
{
    const bool in_txn = pgw__pq_in_txn(p->h);
    pgw__backoff pause;

    pgw__backoff_init(&pause, WRITE_PAUSE_BASE_MS, WRITE_PAUSE_CAP_MS);
    for (int tries = 1;; tries++) {
        pgw_status st;
        char message[160];

        st = process_once(p);
        if (!process_again(p, st, in_txn)) return process_end(p, st);
        if (tries == p->o.tries) {
            if (p->unknown || st == PGW_EUNKNOWN) return process_end(p, st);
            snprintf(message, sizeof(message),
                     "gave up after %d tries: another session wrote each time", tries);
            return pgw__pq_fail(p->h, PGW_ECONFLICT, message, "allow more tries, or lock the row");
        }
        st = pgw__pq_wait(p->h, pgw__backoff_next_ms(&pause), -1);
        if (st == PGW_ECANCELED) return process_end(p, st);
    }
}

static pgw_status process_check(process *p, write_op *op, const char *names[PGW__ASKED_MAX])
{
    const char *fault;
    pgw_status st = pgw__table_check_versions(p->h, p->t);

    if (st == PGW_OK) st = pgw__table_check_key(p->h, p->t, p->o.key);
    if (st == PGW_OK && p->fn == NULL) st = pgw__pq_refuse(p->h, "fn", NULL, "a function");
    if (st == PGW_OK) st = pgw__check_int(p->h, "opts->tries", p->o.tries, 1, WRITE_TRIES_MAX);
    if (st == PGW_OK) st = pgw__table_check_columns(p->h, p->t, p->o.columns, p->o.columns_count);
    if (st == PGW_OK) st = pgw__check_unarmed(p->h, NULL);
    if (st != PGW_OK) return st;
    if (p->o.columns == NULL) {
        st = pgw__check_count(p->h, "columns of the table", p->t->columns_count, 1, PGW__ASKED_MAX);
        if (st != PGW_OK) return st;
        p->o.columns = names;
        p->o.columns_count = 0;
        for (size_t c = 0; c < p->t->columns_count; c++)
            if (p->t->columns[c].readable) names[p->o.columns_count++] = p->t->columns[c].name;
    }
    if (p->o.op != NULL && p->t->home == NULL)
        return pgw__pq_reject(p->h, PGW_ESCHEMA, "the schema cannot store an operation id",
                              "run `pgwork migrate`, and grant the role pgwork_worker or "
                              "pgwork_producer");
    if (p->t->home == NULL) return PGW_OK;
    p->op = op;
    if (p->o.op != NULL) {
        fault = pgw__uuid_parse(op->id, p->o.op);
        return fault == NULL ? PGW_OK : pgw__pq_refuse(p->h, "opts->op", p->o.op, "a UUID");
    }
    for (int half = 0; half < 2; half++) {
        const uint64_t random = pgw__random_u64();

        memcpy(op->id + 8 * half, &random, sizeof(random));
    }
    op->spent = pgw__pq_spent(p->h);
    return PGW_OK;
}

pgw_status pgw_table_process(pgw *h, const pgw_table *t, const pgw_table_process_opts *opts,
                             pgw_edit_fn *fn, void *arg)
{
    const pgw_table_process_opts defaults = PGW_TABLE_PROCESS_OPTS_INIT;
    process p = {.h = h, .t = t, .fn = fn, .arg = arg, .o = defaults};
    const char *names[PGW__ASKED_MAX];
    write_op op = {.spent = NULL};
    pgw_status st = pgw__check_opts(h, "opts", &p.o, sizeof(p.o), opts);

    if (st == PGW_OK) st = process_check(&p, &op, names);
    if (st == PGW_OK) st = process_run(&p);
    /* a try that is still under way at the server has to find the id, so then it is kept */
    if (p.written && !p.unknown && op.spent != NULL) memcpy(pgw__pq_spent(h), op.id, 16);
    return st;
}
