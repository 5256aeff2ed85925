/* table_registry: tables that a reaper serves. Only names are registered. The work is done here,
 * with the rights of the reaper's session and by the same statements that all callers use, so the
 * reaper writes only what it may write. But triggers and functions in indexes and constraints of
 * the table run with the reaper's rights. A role that may register its own table therefore has
 * these rights. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/name.h"
#include "call/ask.h"
#include "table/table_int.h"

#define REGISTRY_LOCK_MS      500
#define REGISTRY_SLOW_MS      200 /* a table that takes so long rests ... */
#define REGISTRY_REST         20  /* ... this many times as long */
#define REGISTRY_REST_MAX     600000
#define REGISTRY_SEARCH_MS    500   /* for rows that cannot be freed, and those after them */
#define REGISTRY_SEARCH_STUCK 8     /* for longer, until a row is freed or so many are not */
#define REGISTRY_STUCK_MS     10000 /* how long a table with such rows rests */

pgw_status pgw_table_register(pgw *h, const pgw_table *t)
{
    const char *key[PGW__KEY_COLUMNS];
    pgw_status st = pgw__table_check_leases(h, t);

    if (st != PGW_OK) return st;
    for (size_t k = 0; k < t->key_count; k++) key[k] = t->key[k].column->name;
    {
        const pgw__param params[] = {P_TEXT(t->schema),
                                     P_TEXT(t->name),
                                     P_ARRAY(TEXT, key, t->key_count),
                                     P_TEXT(t->locked_by->name),
                                     P_TEXT(t->expires_at->name),
                                     P_TEXT(t->token->name),
                                     P_END};

        return pgw__ask(h, PGW__SQL_TABLE_REGISTER, params);
    }
}

static pgw_status registry_read_gone(pgw *h, const pgw__rows *rows, void *ctx)
{
    pgw_status st = pgw__ask_rows(h, rows, 1);

    (void)ctx;
    if (st != PGW_OK || pgw__rows_int(rows, 0, 0) != 0) return st;
    return pgw__pq_fail(h, PGW_ENOTFOUND, "this table is not registered",
                        "pgw_tables_each() lists registered tables");
}

pgw_status pgw_table_unregister(pgw *h, const char *schema, const char *table)
{
    const pgw__param params[] = {P_TEXT(schema), P_TEXT(table), P_END};
    const pgw__call call = {.sql = PGW__SQL_TABLE_UNREGISTER,
                            .params = params,
                            .read = registry_read_gone,
                            .flags = PGW__WRITES};
    pgw_status st = pgw__check_given(h, "schema", schema);

    if (st == PGW_OK) st = pgw__check_given(h, "table", table);
    return st == PGW_OK ? pgw__pq_call(h, &call) : st;
}

/* ---- the list ---- */

typedef struct registry_each {
    int (*fn)(const pgw_table_info *info, void *arg);
    void *arg;
} registry_each;

static pgw_table_info registry_info(const pgw__rows *rows, int row)
{
    return (pgw_table_info){
        .struct_size = sizeof(pgw_table_info),
        .schema = pgw__rows_text(rows, row, 0, NULL),
        .table = pgw__rows_text(rows, row, 1, NULL),
        .locked_by = pgw__rows_text(rows, row, 2, NULL),
        .expires_at = pgw__rows_text(rows, row, 3, NULL),
        .token = pgw__rows_text(rows, row, 4, NULL),
        .error = pgw__rows_text(rows, row, 6, NULL),
        .reaped_us = pgw__rows_time_us(rows, row, 7),
    };
}

static pgw_status registry_read_each(pgw *h, const pgw__rows *rows, void *ctx)
{
    const registry_each *each = ctx;
    const int count = pgw__rows_count(rows);
    int stop = 0;

    (void)h;
    for (int row = 0; row < count && stop == 0; row++) {
        const pgw_table_info info = registry_info(rows, row);

        stop = each->fn(&info, each->arg);
    }
    return count > 0 ? PGW_OK : PGW_OUTCOME_EMPTY;
}

pgw_status pgw_tables_each(pgw *h, int (*fn)(const pgw_table_info *info, void *arg), void *arg)
{
    const registry_each ctx = {fn, arg};
    const pgw__call call = {.sql = PGW__SQL_TABLE_EACH,
                            .read = registry_read_each,
                            .ctx = &ctx,
                            .ctx_size = sizeof(ctx)};
    pgw_status st = pgw__check_handle(h);

    if (st == PGW_OK && fn == NULL) st = pgw__pq_refuse(h, "fn", NULL, "a function");
    return st == PGW_OK ? pgw__pq_call(h, &call) : st;
}

/* ---- the reaper's pass ---- */

typedef struct registry_entry {
    pgw_table_spec spec;
    const char *key[PGW__KEY_COLUMNS];
} registry_entry;

/* The list outlives the answer that it came from; the names are held by a table without columns.
 */
typedef struct registry {
    pgw_table *names;
    registry_entry *entries;
    int count;
} registry;

typedef struct registry_ctx {
    registry *to;
} registry_ctx;

static const char *registry_keep(registry *r, const char *text, size_t n)
{
    char name[PGW__IDENT_MAX + 1];

    if (text == NULL) return NULL;
    if (n > PGW__IDENT_MAX) n = PGW__IDENT_MAX;
    memcpy(name, text, n);
    name[n] = '\0';
    return pgw__table_keep(r->names, name);
}

static pgw_status registry_read(pgw *h, const pgw__rows *rows, void *ctx)
{
    registry *r = ((const registry_ctx *)ctx)->to;
    const int count = pgw__rows_count(rows);
    bool kept = true;

    if (count == 0) return PGW_OUTCOME_EMPTY;
    r->entries = pgw__mem_zero((size_t)count, sizeof(*r->entries));
    r->names = pgw__mem_zero(1, sizeof(*r->names));
    if (r->entries == NULL || r->names == NULL) return pgw__pq_fail(h, PGW_ENOMEM, NULL, NULL);
    for (int row = 0; row < count; row++) {
        registry_entry *e = &r->entries[r->count];
        pgw_table_spec *s = &e->spec;
        const char **const to[] = {&s->schema, &s->table, &s->locked_by, &s->expires_at, &s->token};
        pgw__bytes items[PGW__KEY_COLUMNS];
        const int n = pgw__rows_array(rows, row, 5, items, PGW__KEY_COLUMNS);

        if (pgw__rows_int(rows, row, 8) != 0) continue; /* it rests */
        *s = (pgw_table_spec)PGW_TABLE_SPEC_INIT;
        for (int i = 0; i < 5; i++) {
            size_t size;
            const char *text = pgw__rows_text(rows, row, i, &size);

            *to[i] = registry_keep(r, text, size);
            kept = kept && *to[i] != NULL;
        }
        s->key = e->key;
        s->key_count = n < 0 ? 0 : n > PGW__KEY_COLUMNS ? PGW__KEY_COLUMNS : (size_t)n;
        for (size_t k = 0; k < s->key_count; k++) {
            /* a NULL there is refused with the table, as an empty name is */
            e->key[k] = registry_keep(r, items[k].p != NULL ? items[k].p : "", items[k].n);
            kept = kept && e->key[k] != NULL;
        }
        r->count++;
    }
    return kept ? PGW_OK : pgw__pq_fail(h, PGW_ENOMEM, NULL, NULL);
}

static void registry_free(registry *r)
{
    pgw_table_free(r->names);
    pgw__mem_free(r->entries);
}

static pgw_status registry_read_owned(pgw *h, const pgw__rows *rows, void *ctx)
{
    pgw_status st = pgw__ask_rows(h, rows, 1);

    (void)ctx;
    if (st != PGW_OK || pgw__rows_int(rows, 0, 0) != 0) return st;
    return pgw__pq_fail(
        h, PGW_EPERM,
        "the owner of the table or of a partition has changed since it was registered: "
        "register it again if the new owner may use the reapers' rights, and give "
        "partitions the owner of the table",
        NULL);
}

/* Only the name is registered. Another owner may have created a table of that name since, with
 * untrusted triggers. */
static pgw_status registry_check_owner(pgw *h, const registry_entry *e)
{
    const pgw__param params[] = {P_TEXT(e->spec.schema), P_TEXT(e->spec.table), P_END};
    const pgw__call call = {
        .sql = PGW__SQL_TABLE_OWNED, .params = params, .read = registry_read_owned};

    return pgw__pq_call(h, &call);
}

/* As a statement that runs nothing of the table's: from then on the name stays with the table that
 * it has been found to be, and its triggers with that. */
static pgw_status registry_lock(pgw *h, const pgw_table *t)
{
    static const pgw__call call = {.flags = 0};
    pgw_status st;
    pgw__buf b;

    pgw__buf_init(&b, PGW__TABLE_SQL_MAX);
    pgw__buf_text(&b, "LOCK TABLE ");
    pgw__put_own(&b, t);
    pgw__buf_text(&b, " IN ROW EXCLUSIVE MODE");
    st = pgw__table_call(h, "table_lock", &b, &call);
    if (st == PGW_EPERM && strcmp(pgw__pq_sqlstate(h), "42501") == 0)
        return pgw__pq_fail(
            h, st, "this role may not lock the table: GRANT SELECT, UPDATE on the whole table",
            NULL);
    return st;
}

/* Rows that cannot be freed: a trigger or a constraint of the table raises an error. */
typedef struct registry_odd {
    int64_t count;
    char key[200]; /* of the first, where it stood alone */
    char error[600];
} registry_odd;

/* The work of one transaction. */
typedef struct registry_lot {
    int rows, skip; /* up to so many rows, after those that cannot be freed */
    int64_t found, freed;
    bool refused; /* it failed while it freed rows */
    char key[200];
} registry_lot;

/* A key names a row for humans: cut if it is long, and without control characters.
 */
static void registry_key(char *to, size_t size, const pgw_table *t, const char *const *key)
{
    char text[400];
    size_t n = 0;

    for (size_t k = 0; k < t->key_count && n + 3 < sizeof(text); k++) {
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s", k > 0 ? ", " : "");
        pgw__text_copy(text + n, sizeof(text) - n, key[k]);
        n += strlen(text + n);
    }
    text[n] = '\0';
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f) text[i] = '?';
    pgw__text_copy(to, size, text);
}

/* One row alone, as its holder would release it: the lock keeps its lease over until then. */
static pgw_status registry_free_one(pgw *h, const pgw_table *t, registry_lot *lot)
{
    pgw_rows *rows;
    pgw_row_ref ref;
    pgw_status st = pgw__table_overdue(h, &rows, t, lot->skip);

    if (st != PGW_OK) return st == PGW_OUTCOME_EMPTY ? PGW_OK : st;
    ref = pgw_rows_ref(rows, 0);
    registry_key(lot->key, sizeof(lot->key), t, ref.key);
    lot->refused = true;
    if (ref.token.number == 0 && ref.token.nonce == 0) { /* written by hand: it has none */
        st = pgw__table_reap(h, &lot->found, &lot->freed, t, 1, lot->skip);
    } else {
        st = pgw_table_release(h, t, &ref, 1);
        lot->found = 1;
        lot->freed = st == PGW_OK;
    }
    pgw_rows_free(rows);
    return st == PGW_ELEASE ? PGW_OK : st; /* a trigger prevents the update */
}

/* The queues wait meanwhile, so do not wait long for a locked table. The limit is for the lock
 * alone: a large table without an index may take its time. */
static pgw_status registry_reap_briefly(pgw *h, const registry_entry *e, const pgw_table *t,
                                        registry_lot *lot)
{
    pgw_status st = pgw__pq_begin_limited(h, REGISTRY_LOCK_MS), undone;

    lot->found = lot->freed = 0;
    lot->refused = false;
    lot->key[0] = '\0';
    if (st != PGW_OK) return st;
    st = registry_lock(h, t);
    if (st == PGW_OK) st = registry_check_owner(h, e);
    if (st == PGW_OK && lot->rows == 1) {
        st = registry_free_one(h, t, lot);
    } else if (st == PGW_OK) {
        lot->refused = true;
        st = pgw__table_reap(h, &lot->found, &lot->freed, t, lot->rows, lot->skip);
    }
    if (st == PGW_OK) st = pgw__pq_commit(h); /* constraints and triggers may be deferred */
    if (st == PGW_OK) return st;
    lot->freed = 0;
    undone = pgw__pq_rollback(h);
    return undone == PGW_OK ? st : undone;
}

/* Is it for a row that this failed? Not if it may go well the next time, or if it is about the
 * session. But fewer rows take less time. */
static bool registry_is_odd(pgw *h, pgw_status st, const registry_lot *lot)
{
    if (!lot->refused) return false;
    if (st == PGW_ECANCELED) return !pgw__pq_stopped(h); /* else by a trigger */
    if (st == PGW_ETIMEDOUT) return lot->rows > 1;
    return st != PGW_ECONN && st != PGW_EUNKNOWN && st != PGW_ENOMEM && st != PGW_ERETRY &&
           st != PGW_ELOCKED && st != PGW_EMISUSE && st != PGW_EPROTO;
}

/* So many cannot be freed; they are passed over from now on. */
static void registry_note(registry_odd *odd, registry_lot *lot, int64_t n, const char *error)
{
    if (odd->count == 0) {
        memcpy(odd->key, lot->key, sizeof(odd->key));
        pgw__text_copy(odd->error, sizeof(odd->error), error);
    }
    odd->count += n;
    lot->skip += (int)n;
}

/* Frees up to `batch` rows. A row that cannot be freed must not block others: a batch that fails
 * is halved until the row is alone and is skipped; then batches grow again. If the time is up
 * before that, rows are tried one by one for as long again, so that each pass makes progress. */
static pgw_status registry_reap_rows(pgw *h, const registry_entry *e, const pgw_table *t, int batch,
                                     int64_t *freed, registry_odd *odd)
{
    int64_t until = pgw__deadline_in(REGISTRY_SEARCH_MS);
    registry_lot lot = {.rows = batch};
    bool one_by_one = false;

    for (bool more = true; more;) {
        const pgw_status st = registry_reap_briefly(h, e, t, &lot);

        *freed += lot.freed;
        if (st == PGW_OK) {
            if (lot.freed < lot.found)
                registry_note(odd, &lot, lot.found - lot.freed, "a trigger prevents the update");
            more = lot.found == lot.rows && *freed < batch;
            if (one_by_one || lot.freed < lot.found)
                more = more && pgw__deadline_left_ms(until) > 0;
            if (!one_by_one)
                lot.rows = 2 * lot.rows < batch - *freed ? 2 * lot.rows : (int)(batch - *freed);
            continue;
        }
        if (!registry_is_odd(h, st, &lot)) return st;
        if (lot.rows == 1) {
            registry_note(odd, &lot, 1, pgw__pq_error_message(h));
            more = pgw__deadline_left_ms(until) > 0 ||
                   (*freed == 0 && odd->count < REGISTRY_SEARCH_STUCK);
        } else if (pgw__deadline_left_ms(until) > 0) {
            lot.rows /= 2;
        } else {
            one_by_one = true;
            until = pgw__deadline_in(REGISTRY_SEARCH_MS);
            lot.rows = 1;
        }
    }
    return PGW_OK;
}

/* The queues wait for a table that has no index, or a trigger that takes its time, as well. And one
 * with a row that cannot be freed would fill the server's log. */
static int64_t registry_rest(int64_t took_ms, const registry_odd *odd)
{
    const int64_t least = odd->count > 0 ? REGISTRY_STUCK_MS : 0;
    int64_t rest =
        took_ms < REGISTRY_REST_MAX / REGISTRY_REST ? REGISTRY_REST * took_ms : REGISTRY_REST_MAX;

    if (took_ms < REGISTRY_SLOW_MS) rest = 0;
    return rest > least ? rest : least;
}

/* Faults of the table are stored, and logged when they are new. Faults of the session or the
 * library are returned. */
static pgw_status registry_reap(pgw *h, const registry_entry *e, int batch, int64_t *freed)
{
    const int64_t began = pgw__clock_ms();
    registry_odd odd = {.count = 0};
    char error[900] = "", many[40] = "row", key[210] = "";
    bool news = false;
    pgw_table *t;
    pgw_status st = pgw_table_open(h, &e->spec, &t);

    *freed = 0;
    if (st == PGW_OK) st = registry_reap_rows(h, e, t, batch, freed, &odd);
    pgw_table_free(t);
    if (st == PGW_ECONN || st == PGW_ENOMEM || st == PGW_EUNKNOWN) return st;
    if (st == PGW_ECANCELED && pgw__pq_stopped(h)) return st; /* else by its trigger */
    if (odd.key[0] != '\0') snprintf(key, sizeof(key), " (%s)", odd.key);
    if (odd.count > 1)
        snprintf(many, sizeof(many), "%" PRId64 " rows%s", odd.count,
                 key[0] != '\0' ? ", the first" : "");
    if (st != PGW_OK)
        pgw__text_copy(error, sizeof(error), pgw__pq_error_message(h));
    else if (odd.count > 0)
        snprintf(error, sizeof(error), "%s%s: %s", many, key, odd.error);
    {
        const pgw__param params[] = {P_TEXT(e->spec.schema),
                                     P_TEXT(e->spec.table),
                                     P_INT8(*freed),
                                     P_TEXT(error),
                                     P_INT8(registry_rest(pgw__clock_ms() - began, &odd)),
                                     P_END};

        st = pgw__ask_flag(h, &news, PGW__SQL_TABLE_REAPED, params, PGW__WRITES);
    }
    if (news)
        PGW__LOG(pgw__conf_log(pgw__pq_conf(h)), PGW_LOG_WARN, "table",
                 "expired rows of `%s`.`%s` are not freed: %s", e->spec.schema, e->spec.table,
                 error);
    return st;
}

pgw_status pgw_tables_reap(pgw *h, int batch, int64_t *freed)
{
    registry r = {NULL, NULL, 0};
    const registry_ctx ctx = {&r};
    const pgw__call call = {.sql = PGW__SQL_TABLE_EACH,
                            .read = registry_read,
                            .ctx = &ctx,
                            .ctx_size = sizeof(ctx),
                            .flags = PGW__OWNED};
    pgw_status st;

    if (freed != NULL) *freed = 0;
    st = pgw__check_int(h, "batch", batch, 1, PGW__BATCH_MAX);
    if (st == PGW_OK) st = pgw__check_unarmed(h, NULL);
    if (st == PGW_OK && pgw__pq_in_txn(h))
        st = pgw__pq_reject(h, PGW_EMISUSE, "each table is processed in its own transaction",
                            "commit or roll back first");
    if (st == PGW_OK) st = pgw__pq_call(h, &call);
    for (int i = 0; st == PGW_OK && i < r.count && !pgw__pq_stopped(h); i++) {
        int64_t n;

        st = registry_reap(h, &r.entries[i], batch, &n);
        if (freed != NULL) *freed += n;
    }
    registry_free(&r);
    if ((st == PGW_OK || st == PGW_OUTCOME_EMPTY) && !pgw__pq_stopped(h)) {
        const pgw__param params[] = {P_INT4(batch), P_END};

        st = pgw__ask(h, PGW__SQL_TABLE_PRUNE, params);
    }
    return st;
}
