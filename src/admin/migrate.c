/* migrate: brings the schema to the version of this library. Each migration is one transaction.
 * Its first statement takes the lock of all migrations, the next reads what was applied. So
 * concurrent runs apply each migration once, even behind a pooler, and a crash leaves whole
 * migrations. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "call/check.h"
#include "pq/pq.h"

typedef struct migrate_row {
    int number;
    char name[128];
    char checksum[PGW__SQL_SUM];
} migrate_row;

typedef struct migrate_list {
    bool there; /* does the schema exist? */
    bool plain; /* is its name not an SQL keyword? */
    size_t count;
    migrate_row *rows; /* free with pgw__mem_free */
} migrate_list;

/* ---- what was applied ---- */

typedef struct migrate_ctx {
    migrate_list *list;
} migrate_ctx;

static pgw_status migrate_read_there(pgw *h, const pgw__rows *rows, void *ctx)
{
    const migrate_ctx *in = ctx;

    (void)h;
    in->list->there = pgw__rows_int(rows, 0, 0) != 0;
    in->list->plain = pgw__rows_int(rows, 0, 1) != 0;
    return PGW_OK;
}

static void migrate_keep(char *to, size_t size, const char *text)
{
    snprintf(to, size, "%s", text != NULL ? text : "");
}

static pgw_status migrate_read_applied(pgw *h, const pgw__rows *rows, void *ctx)
{
    const migrate_ctx *in = ctx;
    const size_t count = (size_t)pgw__rows_count(rows);
    size_t i;

    in->list->rows = pgw__mem_zero(count + 1, sizeof(migrate_row));
    if (in->list->rows == NULL) return pgw__pq_fail(h, PGW_ENOMEM, NULL, NULL);
    in->list->count = count;
    for (i = 0; i < count; i++) {
        migrate_row *row = &in->list->rows[i];

        row->number = (int)pgw__rows_int(rows, (int)i, 0);
        migrate_keep(row->name, sizeof(row->name), pgw__rows_text(rows, (int)i, 1, NULL));
        migrate_keep(row->checksum, sizeof(row->checksum), pgw__rows_text(rows, (int)i, 2, NULL));
    }
    return PGW_OK;
}

static void migrate_list_free(migrate_list *list)
{
    pgw__mem_free(list->rows);
    memset(list, 0, sizeof(*list));
}

/* Fills an empty list. Asks first, because a failed statement would spoil a transaction. flags: of
 * the call. */
static pgw_status migrate_list_read(pgw *h, migrate_list *list, unsigned flags)
{
    const migrate_ctx ctx = {list};
    const pgw__call there = {.sql = PGW__SQL_MIGRATE_THERE,
                             .read = migrate_read_there,
                             .ctx = &ctx,
                             .ctx_size = sizeof(ctx),
                             .flags = flags};
    const pgw__call applied = {.sql = PGW__SQL_MIGRATE_APPLIED,
                               .read = migrate_read_applied,
                               .ctx = &ctx,
                               .ctx_size = sizeof(ctx),
                               .flags = flags};
    pgw_status st;

    st = pgw__pq_call(h, &there);
    if (st == PGW_OK && list->there) st = pgw__pq_call(h, &applied);
    if (st != PGW_OK) migrate_list_free(list);
    return st;
}

static const migrate_row *migrate_find(const migrate_list *list, int number)
{
    size_t i;

    for (i = 0; i < list->count; i++) {
        if (list->rows[i].number == number) return &list->rows[i];
    }
    return NULL;
}

/* Whether the applied migration differs from that of this library. */
static bool migrate_changed(const migrate_row *row)
{
    char sum[PGW__SQL_SUM];

    pgw__sql_checksum(sum, row->number);
    return strcmp(sum, row->checksum) != 0;
}

/* ---- looking ---- */

static pgw_status migrate_show(pgw *h, const migrate_list *list, int number,
                               int (*fn)(const pgw_migration *m, void *arg), void *arg, int *stop)
{
    const migrate_row *row = migrate_find(list, number);
    pgw_migration m = {.number = number, .name = pgw__sql_migration_name(number)};
    char *sql;

    if (m.name == NULL) { /* not in this library */
        if (row == NULL) return PGW_OK;
        m.name = row->name;
        m.sql = "";
        m.state = "unknown";
        *stop = fn(&m, arg);
        return PGW_OK;
    }
    sql = pgw__sql_in_schema(pgw__sql_migration_text(number), pgw__pq_schema(h));
    if (sql == NULL) return pgw__pq_fail(h, PGW_ENOMEM, NULL, NULL);
    m.sql = sql;
    m.state = row == NULL ? "pending" : migrate_changed(row) ? "changed" : "applied";
    *stop = fn(&m, arg);
    pgw__mem_free(sql);
    return PGW_OK;
}

pgw_status pgw_migrations_each(pgw *h, int (*fn)(const pgw_migration *m, void *arg), void *arg)
{
    migrate_list list = {0};
    pgw_status st;
    int number, last, stop = 0;

    if (fn == NULL) return pgw__check_given(h, "fn", NULL);
    st = pgw__check_unarmed(h, NULL);
    if (st == PGW_OK) st = migrate_list_read(h, &list, 0);
    if (st != PGW_OK) return st;
    last = pgw__sql_migrations();
    if (list.count > 0 && list.rows[list.count - 1].number > last)
        last = list.rows[list.count - 1].number;
    for (number = 1; st == PGW_OK && stop == 0 && number <= last; number++)
        st = migrate_show(h, &list, number, fn, arg, &stop);
    migrate_list_free(&list);
    return st;
}

/* ---- applying ---- */

/* Whether this library may change the schema. */
static pgw_status migrate_judge(pgw *h, const migrate_list *list)
{
    const int known = pgw__sql_migrations();
    char message[400];
    size_t i;

    for (i = 0; i < list->count; i++) {
        const migrate_row *row = &list->rows[i];

        if (row->number > known) {
            snprintf(message, sizeof(message),
                     "schema %s has version %d, this library supports versions up to %d",
                     pgw__pq_schema(h), list->rows[list->count - 1].number, known);
            return pgw__pq_fail(h, PGW_ESCHEMA, message,
                                "use the library that migrated the schema, or a newer one");
        }
        if (row->number >= 1 && migrate_changed(row)) {
            snprintf(message, sizeof(message),
                     "migration %d was applied to schema %s with another text (%s, checksum %s)",
                     row->number, pgw__pq_schema(h), row->name, row->checksum);
            return pgw__pq_fail(h, PGW_ESCHEMA, message, PGW__SQL_DIFFERS);
        }
    }
    return PGW_OK;
}

static pgw_status migrate_text(pgw *h, const char *name, const char *sql)
{
    const pgw__call call = {.flags = PGW__WRITES | PGW__OWNED};

    return pgw__pq_text(h, name, sql, &call);
}

static pgw_status migrate_note(pgw *h, int number)
{
    const char *name = pgw__sql_migration_name(number);
    char sum[PGW__SQL_SUM];

    pgw__sql_checksum(sum, number);
    {
        const pgw__param params[] = {P_INT4(number), P_TEXT(name), P_TEXT(sum), P_END};
        const pgw__call call = {
            .sql = PGW__SQL_MIGRATE_NOTE, .params = params, .flags = PGW__WRITES};

        return pgw__pq_call(h, &call);
    }
}

/* The body of the transaction. *todo: false if another process applied it meanwhile. */
static pgw_status migrate_step(pgw *h, int number, bool *todo)
{
    static const char set_up[] = "SET LOCAL search_path = pg_catalog, pg_temp";
    const pgw__call lock = {.sql = PGW__SQL_MIGRATE_LOCK};
    migrate_list list = {0};
    char *sql;
    pgw_status st = migrate_text(h, "migrate_set_up", set_up);

    if (st == PGW_OK) st = pgw__pq_call(h, &lock);
    if (st == PGW_OK) st = migrate_list_read(h, &list, 0);
    if (st == PGW_OK) st = migrate_judge(h, &list);
    *todo = migrate_find(&list, number) == NULL;
    migrate_list_free(&list);
    if (st != PGW_OK || !*todo) return st;

    sql = pgw__sql_in_schema(pgw__sql_migration_text(number), pgw__pq_schema(h));
    if (sql == NULL) return pgw__pq_fail(h, PGW_ENOMEM, NULL, NULL);
    st = migrate_text(h, pgw__sql_migration_name(number), sql);
    pgw__mem_free(sql);
    return st == PGW_OK ? migrate_note(h, number) : st;
}

static pgw_status migrate_one(pgw *h, int number, bool *done)
{
    pgw_status st = pgw__pq_begin(h), undone;

    if (st != PGW_OK) return st;
    st = migrate_step(h, number, done);
    if (st == PGW_OK) return pgw__pq_commit(h);
    undone = pgw__pq_rollback(h); /* keeps the diagnostics of the failure */
    (void)undone;
    return st;
}

static pgw_status migrate_up(pgw *h, int *applied)
{
    migrate_list list = {0};
    pgw_status st;
    int number;

    if (applied != NULL) *applied = 0;
    st = pgw__check_unarmed(h, NULL);
    if (st == PGW_OK) st = migrate_list_read(h, &list, PGW__OWNED);
    if (st != PGW_OK) return st;
    st = list.plain
             ? migrate_judge(h, &list)
             : pgw__pq_refuse(h, "schema", pgw__pq_schema(h), "a name that is not an SQL keyword");
    for (number = 1; st == PGW_OK && number <= pgw__sql_migrations(); number++) {
        bool done = false;

        if (migrate_find(&list, number) != NULL) continue;
        st = migrate_one(h, number, &done);
        if (st == PGW_OK && done && applied != NULL) ++*applied;
    }
    migrate_list_free(&list);
    return st;
}

pgw_status pgw_migrate_up(pgw *h, int *applied)
{
    const pgw_status st = migrate_up(h, applied);

    if (st == PGW_EPERM && strcmp(pgw__pq_sqlstate(h), "42501") == 0) /* no role of pgwork helps */
        pgw__pq_advise(h, st,
                       "migrate as the owner of the schema; the first time, as a role that has "
                       "the right CREATE on the database");
    return st;
}
