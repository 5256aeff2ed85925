/* table_ddl: the statements that add what a description needs and a table lacks. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "call/ask.h"
#include "table/table_int.h"

#define DDL_PAUSE_MS 200
#define DDL_LOCK_MS  500 /* all other sessions wait behind a waiter for the table */

static const char *const ddl_suffix[2] = {"_pgwork_lease", "_pgwork_holder"};

/* FNV-1a; with its end each part counts as one. NULL is an empty part. */
static uint32_t ddl_mark(uint32_t mark, const char *part)
{
    const char *p = part != NULL ? part : "";

    do mark = (mark ^ (unsigned char)*p) * UINT32_C(16777619);
    while (*p++ != '\0');
    return mark;
}

/* The table's name, cut between characters if the whole is too long, and a hash of the index
 * definition. Another description needs another index, and the name shows it. */
void pgw__table_index_name(char out[PGW__IDENT_MAX + 1], const pgw_table_spec *s, int which)
{
    const size_t tail = strlen(ddl_suffix[which]) + 9;
    uint32_t mark = ddl_mark(UINT32_C(2166136261), s->table);
    size_t n = strlen(s->table);

    if (which == 0) {
        mark = ddl_mark(mark, s->expires_at);
        for (size_t k = 0; k < s->key_count; k++) mark = ddl_mark(mark, s->key[k]);
        mark = ddl_mark(mark, s->claimable);
    } else {
        mark = ddl_mark(mark, s->locked_by);
    }
    if (n > PGW__IDENT_MAX - tail) n = PGW__IDENT_MAX - tail;
    while (n > 0 && ((unsigned char)s->table[n] & 0xc0) == 0x80) n--;
    snprintf(out, PGW__IDENT_MAX + 1, "%.*s%s_%08lx", (int)n, s->table, ddl_suffix[which],
             (unsigned long)mark);
}

/* ADD COLUMN of each missing role: all are NULL or have a constant default, so no row is written.
 * IF NOT EXISTS: several processes may start for the first time at once. */
static void ddl_columns(pgw__buf *b, const pgw_table *t, const pgw_table_spec *s)
{
    const struct {
        const char *name;
        const pgw__column *column;
        const char *type;
    } roles[] = {
        {s->locked_by, t->locked_by, "text"},
        {s->expires_at, t->expires_at, "timestamptz"},
        {s->token, t->token, "uuid"},
        {s->version, t->version, "bigint NOT NULL DEFAULT 0"},
    };
    bool any = false;

    for (size_t r = 0; r < sizeof(roles) / sizeof(roles[0]); r++) {
        if (roles[r].name == NULL || roles[r].column != NULL) continue;
        if (!any) {
            pgw__buf_text(b, "ALTER TABLE ");
            pgw__put_table(b, t);
        }
        pgw__buf_text(b,
                      any ? ",\n    ADD COLUMN IF NOT EXISTS " : "\n    ADD COLUMN IF NOT EXISTS ");
        pgw__put_ident(b, roles[r].name);
        pgw__buf_text(b, " ");
        pgw__buf_text(b, roles[r].type);
        any = true;
    }
}

static void ddl_index(pgw__buf *b, const pgw_table *t, const pgw_table_spec *s, int which,
                      const char *state)
{
    char name[PGW__IDENT_MAX + 1];

    if (s->token == NULL || (state != NULL && strcmp(state, "valid") == 0)) return;
    pgw__table_index_name(name, s, which);
    if (state != NULL) { /* a failed CREATE INDEX CONCURRENTLY leaves an invalid index */
        pgw__buf_text(b, t->partitioned ? "REINDEX INDEX " : "REINDEX INDEX CONCURRENTLY ");
        pgw__put_ident(b, t->schema);
        pgw__buf_text(b, ".");
        pgw__put_ident(b, name);
        return;
    }
    pgw__buf_text(b, t->partitioned ? "CREATE INDEX IF NOT EXISTS "
                                    : "CREATE INDEX CONCURRENTLY IF NOT EXISTS ");
    pgw__put_ident(b, name);
    pgw__buf_text(b, " ON ");
    pgw__put_table(b, t);
    if (which == 0) {
        pgw__buf_text(b, " (COALESCE(");
        pgw__put_ident(b, s->expires_at);
        pgw__buf_text(b, ", '-infinity'::timestamptz)");
        for (size_t k = 0; k < t->key_count; k++) {
            pgw__buf_text(b, ", ");
            pgw__put_ident(b, t->key[k].column->name);
        }
        pgw__buf_text(b, ")");
        pgw__put_fragment(b, " WHERE (", t->claimable, ")");
    } else {
        pgw__buf_text(b, " (");
        pgw__put_ident(b, s->locked_by);
        pgw__buf_text(b, ") WHERE ");
        pgw__put_ident(b, s->locked_by);
        pgw__buf_text(b, " IS NOT NULL");
    }
}

/* Empties the buffer into the table. *kept is NULL when there was nothing in it. */
static bool ddl_keep(pgw_table *t, pgw__buf *b, const char **kept)
{
    *kept = NULL;
    if (b->failed == 0 && b->len == 0) return true;
    *kept = b->failed == 0 ? pgw__table_keep(t, pgw__buf_str(b)) : NULL;
    pgw__buf_free(b);
    pgw__buf_init(b, PGW__TABLE_SQL_MAX);
    return *kept != NULL;
}

pgw_status pgw__table_ddl(pgw *h, pgw_table *t, const pgw_table_spec *spec,
                          const char *const state[2])
{
    pgw__buf b;
    bool kept;

    pgw__buf_init(&b, PGW__TABLE_SQL_MAX);
    ddl_columns(&b, t, spec);
    kept = ddl_keep(t, &b, &t->sql_columns);
    for (int i = 0; kept && i < 2; i++) {
        ddl_index(&b, t, spec, i, state[i]);
        kept = ddl_keep(t, &b, &t->sql_index[i]);
    }
    if (kept) {
        const char *const parts[] = {t->sql_columns, t->sql_index[0], t->sql_index[1]};

        for (int i = 0; i < 3; i++) {
            pgw__buf_text(&b, parts[i] != NULL ? parts[i] : "");
            pgw__buf_text(&b, parts[i] != NULL ? ";\n" : "");
        }
        if (b.failed == 0) t->sql = pgw__table_keep(t, pgw__buf_str(&b));
    }
    pgw__buf_free(&b);
    return t->sql != NULL ? PGW_OK : pgw__pq_fail(h, PGW_ENOMEM, NULL, NULL);
}

const char *pgw_table_sql(const pgw_table *t)
{
    return t != NULL ? t->sql : "";
}

/* The condition of an index allows less than that of a claim. The server's error about the
 * caller's fragment would look like one about the schema. */
static pgw_status ddl_explain(pgw *h, const pgw_table *t, pgw_status st)
{
    const char *code = pgw__pq_sqlstate(h);

    if (t->claimable == NULL || st == PGW_EPERM || strcmp(code, "42P07") == 0 ||
        (strncmp(code, "42", 2) != 0 && strcmp(code, "0A000") != 0))
        return st;
    return pgw__pq_advise(h, PGW_EINVAL,
                          "`claimable` is the condition of an index, too: columns by their bare "
                          "names (not t.name), none that is generated and virtual, and immutable "
                          "functions only");
}

static pgw_status ddl_turn(pgw *h, const pgw_table *t, pgw__sql sql, bool *ours)
{
    const pgw__param params[] = {P_TEXT(t->schema), P_TEXT(t->name), P_END};

    return pgw__ask_flag(h, ours, sql, params, PGW__OWNED | PGW__DIRECT);
}

/* Many processes may start for the first time at once, and two CREATE INDEX CONCURRENTLY on one
 * table wait for each other. So they take turns. Each polls for the turn, because a session that
 * waits in a statement is waited for, too. Behind a pooler there are no turns. */
static pgw_status ddl_take_turn(pgw *h, const pgw_table *t, bool *ours)
{
    const int64_t deadline = pgw__deadline_in(pgw__pq_call_ms(h));
    pgw_status st;

    *ours = false;
    for (;;) {
        st = ddl_turn(h, t, PGW__SQL_TABLE_TURN, ours);
        if (st == PGW_EPOOLED) return PGW_OK;
        if (st == PGW_ECANCELED || st == PGW_ETIMEDOUT)
            pgw__pq_drop(h); /* it may have been granted, and nothing else would release it */
        if (st != PGW_OK || *ours) return st;
        if (pgw__deadline_left_ms(deadline) == 0)
            return pgw__pq_fail(h, PGW_ELOCKED,
                                "another process is adding columns or indexes to this table",
                                "wait for it, or set a longer timeout");
        st = pgw__pq_wait(h, DDL_PAUSE_MS, -1);
        if (st < PGW_OK) return st;
    }
}

static pgw_status ddl_add_columns_briefly(pgw *h, const pgw_table *t)
{
    static const pgw__call call = {.flags = PGW__OWNED | PGW__WRITES};
    pgw_status st = pgw__pq_begin_limited(h, DDL_LOCK_MS), undone;

    if (st != PGW_OK) return st;
    st = pgw__pq_text(h, "table_init_columns", t->sql_columns, &call);
    if (st == PGW_OK) st = pgw__pq_commit(h);
    if (st == PGW_OK) return st;
    undone = pgw__pq_rollback(h);
    return undone == PGW_OK ? st : undone;
}

/* While a long report reads the table, ALTER TABLE waits for it, and all others wait for ALTER
 * TABLE. So it is tried repeatedly, with pauses in which the others proceed. */
static pgw_status ddl_add_columns(pgw *h, const pgw_table *t)
{
    const int64_t deadline = pgw__deadline_in(pgw__pq_call_ms(h));

    for (;;) {
        pgw_status st = ddl_add_columns_briefly(h, t);
        const int64_t left_ms = pgw__deadline_left_ms(deadline); /* -1: for ever */

        if (st != PGW_ELOCKED) return st;
        if (left_ms >= 0 && left_ms < DDL_PAUSE_MS)
            return pgw__pq_advise(h, st,
                                  "a long transaction uses the table: wait for its end, or set "
                                  "a longer timeout");
        st = pgw__pq_wait(h, DDL_PAUSE_MS, -1);
        if (st < PGW_OK) return st;
    }
}

static pgw_status ddl_add(pgw *h, const pgw_table *t)
{
    static const pgw__call call = {.flags = PGW__OWNED | PGW__WRITES};
    pgw_status st = PGW_OK;

    if (t->sql_columns != NULL) st = ddl_add_columns(h, t);
    for (int i = 0; st == PGW_OK && i < 2; i++) {
        if (t->sql_index[i] == NULL) continue;
        st = pgw__pq_text(h, "table_init_index", t->sql_index[i], &call);
        if (st != PGW_OK && i == 0) st = ddl_explain(h, t, st);
    }
    return st;
}

pgw_status pgw_table_init(pgw *h, const pgw_table *t)
{
    pgw_status st = pgw__check_given(h, "t", t);
    bool ours;

    if (st == PGW_OK) st = pgw__check_unarmed(h, NULL);
    if (st == PGW_OK && pgw__pq_in_txn(h))
        st = pgw__pq_reject(h, PGW_EMISUSE, "the indexes cannot be created in a transaction", NULL);
    if (st != PGW_OK || *t->sql == '\0') return st;
    st = ddl_take_turn(h, t, &ours);
    if (st != PGW_OK) return st;
    st = ddl_add(h, t);
    if (ours) {
        pgw__diagnostics diagnostics;

        pgw__pq_keep_diagnostics(h, &diagnostics);
        if (ddl_turn(h, t, PGW__SQL_TABLE_TURN_OVER, &ours) != PGW_OK)
            pgw__pq_drop(h); /* or the others would wait as long as the session lives */
        pgw__pq_report(h, &diagnostics);
    }
    return st;
}
