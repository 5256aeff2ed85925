/* table: a table of the caller, looked up and compared with its description. All mistakes are
 * found here, so that the verbs need not check. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/name.h"
#include "table/table_int.h"

static pgw_status table_nomem(pgw *h)
{
    return pgw__pq_fail(h, PGW_ENOMEM, NULL, NULL);
}

/* ---- words for faults ---- */

/* "table `public`.`article`: ..." Of a table that was opened, a verb says so before it sends. */
static pgw_status table_fail(pgw *h, const pgw_table *t, pgw_status st, const char *what,
                             const char *hint)
{
    char message[700];

    snprintf(message, sizeof(message), "table `%s`.`%s`: %s", t->schema, t->name, what);
    return t->sql != NULL ? pgw__pq_reject(h, st, message, hint)
                          : pgw__pq_fail(h, st, message, hint);
}

static pgw_status table_fail_column(pgw *h, const pgw_table *t, pgw_status st, const char *column,
                                    const char *what, const char *hint)
{
    char text[400], name[PGW__IDENT_MAX + 2];

    pgw__text_copy(name, sizeof(name), column); /* a caller's may be longer than there is any */
    snprintf(text, sizeof(text), "column `%s` %s", name, what);
    return table_fail(h, t, st, text, hint);
}

/* ---- the description, as far as it can be checked here ---- */

static pgw_status table_check_ident(pgw *h, const char *argument, const char *name)
{
    char message[200];
    const char *fault = pgw__ident_fault(name);

    if (fault == NULL) return PGW_OK;
    snprintf(message, sizeof(message),
             "argument `%s` %s: expected a name in UTF-8 of 1 to 63 bytes", argument, fault);
    return pgw__pq_reject(h, PGW_EINVAL, message,
                          "the server truncates longer names, and would use another table");
}

static pgw_status table_check_spec(pgw *h, const pgw_table_spec *s)
{
    const char *const names[] = {s->locked_by, s->expires_at, s->token, s->version};
    static const char *const roles[] = {"spec->locked_by", "spec->expires_at", "spec->token",
                                        "spec->version"};
    char name[PGW__ELEMENT];
    pgw_status st = table_check_ident(h, "spec->schema", s->schema);

    if (st == PGW_OK) st = table_check_ident(h, "spec->table", s->table);
    if (st == PGW_OK) st = pgw__check_given(h, "spec->key", s->key);
    if (st == PGW_OK)
        st = pgw__check_count(h, "spec->key_count", s->key_count, 1, PGW__KEY_COLUMNS);
    for (size_t i = 0; st == PGW_OK && i < s->key_count; i++) {
        st = table_check_ident(h, pgw__check_element(name, "spec->key", i), s->key[i]);
        for (size_t j = 0; st == PGW_OK && j < i; j++)
            if (strcmp(s->key[i], s->key[j]) == 0)
                st = pgw__pq_refuse(h, name, s->key[i], "each column once");
        pgw__pq_about(h, i, st);
    }
    for (size_t r = 0; st == PGW_OK && r < 4; r++) {
        if (names[r] == NULL) continue;
        st = table_check_ident(h, roles[r], names[r]);
        for (size_t i = 0; st == PGW_OK && i < s->key_count; i++)
            if (strcmp(names[r], s->key[i]) == 0)
                st = pgw__pq_refuse(h, roles[r], names[r], "a column that is not in the key");
        for (size_t q = 0; st == PGW_OK && q < r; q++)
            if (names[q] != NULL && strcmp(names[r], names[q]) == 0)
                st = pgw__pq_refuse(h, roles[r], names[r], "another column for each role");
    }
    if (st == PGW_OK && (s->expires_at == NULL) != (s->token == NULL))
        st = pgw__pq_refuse(h, s->token == NULL ? "spec->token" : "spec->expires_at", NULL,
                            "expires_at, token and locked_by together, or none of them");
    if (st == PGW_OK && (s->locked_by == NULL) != (s->token == NULL))
        st = pgw__pq_refuse(h, s->token == NULL ? "spec->token" : "spec->locked_by", NULL,
                            "expires_at, token and locked_by together, or none of them");
    return st;
}

/* ---- the table ---- */

/* What the readers fill. */
typedef struct table_lookup {
    pgw_table *t;
    const pgw_table_spec *spec;
    int64_t oid;
    const char *index_state[2]; /* NULL: missing, else static text */
} table_lookup;

typedef struct table_ctx {
    table_lookup *lookup;
} table_ctx;

static const char *table_kind(char relkind)
{
    switch (relkind) {
    case 'v': return "is a view";
    case 'm': return "is a materialized view";
    case 'f': return "is a foreign table";
    case 'S': return "is a sequence";
    case 'c': return "is a composite type";
    case 'i':
    case 'I': return "is an index";
    default: return "is not a table";
    }
}

static const char *table_index_state(const pgw__rows *rows, int col)
{
    const char *state = pgw__rows_text(rows, 0, col, NULL);

    if (state == NULL) return NULL;
    return strcmp(state, "valid") == 0 ? "valid" : "invalid";
}

static pgw_status table_read_find(pgw *h, const pgw__rows *rows, void *ctx)
{
    table_lookup *lookup = ((const table_ctx *)ctx)->lookup;
    pgw_table *t = lookup->t;
    const char *kind, *after;

    if (pgw__rows_count(rows) == 0)
        return table_fail(h, t, PGW_ENOTFOUND, "there is no such schema", NULL);
    if (pgw__rows_null(rows, 0, 0))
        return table_fail(h, t, PGW_ENOTFOUND, "there is no such table",
                          "names are case-sensitive: `Article` and `article` are two tables");
    lookup->oid = pgw__rows_int(rows, 0, 0);
    kind = pgw__rows_text(rows, 0, 1, NULL);
    if (kind == NULL || (*kind != 'r' && *kind != 'p'))
        return table_fail(h, t, PGW_EINVAL, table_kind(kind != NULL ? *kind : '?'),
                          "name the table itself");
    t->partitioned = *kind == 'p';
    if (pgw__rows_int(rows, 0, 2) != 0)
        return table_fail(h, t, PGW_EINVAL, "is temporary: other sessions cannot see it", NULL);
    if (pgw__rows_int(rows, 0, 3) == 0)
        return table_fail(h, t, PGW_EPERM, "this role may not read the table",
                          "GRANT SELECT, UPDATE");
    if (pgw__rows_int(rows, 0, 4) == 0)
        return table_fail(h, t, PGW_EPERM, "this role may not write the table",
                          "GRANT SELECT, UPDATE");
    if (pgw__rows_int(rows, 0, 5) != 0)
        return table_fail(h, t, PGW_EINVAL, "has rules that rewrite UPDATE or DELETE",
                          "use triggers instead of rules");
    if (pgw__rows_int(rows, 0, 6) != 0)
        return table_fail(h, t, PGW_EINVAL,
                          "has inheritance children, which its unique keys do not cover",
                          "name the table that holds the rows");
    lookup->index_state[0] = table_index_state(rows, 7);
    lookup->index_state[1] = table_index_state(rows, 8);
    t->has_xmin = pgw__rows_int(rows, 0, 10) != 0;
    after = pgw__rows_text(rows, 0, 11, NULL);
    t->rewritten = after == NULL     ? PGW__AFTER_NOTHING
                   : after[0] == 'd' ? PGW__AFTER_COMMIT
                                     : PGW__AFTER_STATEMENT;
    if (pgw__rows_int(rows, 0, 9) != 0) {
        t->home = pgw__table_keep(t, pgw__pq_schema(h));
        if (t->home == NULL) return table_nomem(h);
    }
    return PGW_OK;
}

static pgw_status table_read_columns(pgw *h, const pgw__rows *rows, void *ctx)
{
    pgw_table *t = ((const table_ctx *)ctx)->lookup->t;
    const int count = pgw__rows_count(rows);

    t->columns = pgw__mem_zero((size_t)count, sizeof(*t->columns));
    if (t->columns == NULL) return table_nomem(h);
    for (int row = 0; row < count; row++) {
        pgw__column *c = &t->columns[row];
        const char **const to[] = {&c->name, &c->type_schema, &c->type, &c->collation_schema,
                                   &c->collation};

        for (int i = 0; i < 5; i++) {
            const char *text = pgw__rows_text(rows, row, i, NULL);

            if (text == NULL && i > 2) continue;
            *to[i] = pgw__table_keep(t, text != NULL ? text : "");
            if (*to[i] == NULL) return table_nomem(h);
        }
        c->builtin = pgw__rows_int(rows, row, 5) != 0;
        c->not_null = pgw__rows_int(rows, row, 6) != 0;
        c->generated = pgw__rows_int(rows, row, 7) != 0;
        c->readable = pgw__rows_int(rows, row, 8) != 0;
        c->filled = pgw__rows_int(rows, row, 9) != 0;
        c->keyed = pgw__rows_int(rows, row, 10) != 0;
    }
    t->columns_count = (size_t)count;
    return PGW_OK;
}

static pgw_status table_read_key(pgw *h, const pgw__rows *rows, void *ctx)
{
    const table_lookup *lookup = ((const table_ctx *)ctx)->lookup;
    pgw_table *t = lookup->t;
    char text[600] = "no unique key over (";
    size_t used = strlen(text);

    if ((size_t)pgw__rows_count(rows) == t->key_count) {
        for (int k = 0; k < (int)t->key_count; k++) {
            const char **const to[] = {&t->key[k].equal.schema, &t->key[k].equal.name,
                                       &t->key[k].less.schema, &t->key[k].less.name};

            for (int i = 0; i < 4; i++) {
                const char *name = pgw__rows_text(rows, k, i, NULL);

                *to[i] = pgw__table_keep(t, name != NULL ? name : "");
                if (*to[i] == NULL) return table_nomem(h);
            }
            if (pgw__rows_int(rows, k, 4) != 0)
                return table_fail_column(
                    h, t, PGW_EINVAL, t->key[k].column->name,
                    "of the key has a domain over an enum, which has no equality operator",
                    "ALTER TABLE ... ALTER COLUMN ... TYPE to the enum itself");
        }
        return PGW_OK;
    }
    for (size_t k = 0; k < t->key_count && used < sizeof(text); k++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s`%s`", k > 0 ? ", " : "",
                                 t->key[k].column->name);
    if (used < sizeof(text)) snprintf(text + used, sizeof(text) - used, ")");
    return table_fail(
        h, t, PGW_EINVAL, text,
        "a primary key or unique index on exactly these columns is needed: valid, not "
        "deferrable, not partial, without expressions or WITHOUT OVERLAPS, with the collations of "
        "the columns");
}

static pgw_status table_query(pgw *h, pgw__sql sql, const pgw__param *params, pgw__reader *read,
                              table_lookup *lookup)
{
    const table_ctx ctx = {lookup};
    const pgw__call call = {
        .sql = sql, .params = params, .read = read, .ctx = &ctx, .ctx_size = sizeof(ctx)};

    return pgw__pq_call(h, &call);
}

const pgw__column *pgw__table_column(const pgw_table *t, const char *name)
{
    for (size_t i = 0; i < t->columns_count; i++)
        if (strcmp(t->columns[i].name, name) == 0) return &t->columns[i];
    return NULL;
}

static pgw_status table_find_key(pgw *h, table_lookup *lookup)
{
    pgw_table *t = lookup->t;
    const pgw_table_spec *s = lookup->spec;
    const pgw__param params[] = {P_INT8(lookup->oid), P_ARRAY(TEXT, s->key, s->key_count), P_END};
    pgw_status st;

    assert(s->key != NULL); /* was checked */
    t->key_count = s->key_count;
    for (size_t k = 0; k < s->key_count; k++) {
        t->key[k].column = pgw__table_column(t, s->key[k]);
        if (t->key[k].column == NULL)
            return table_fail_column(h, t, PGW_ENOTFOUND, s->key[k], "of the key does not exist",
                                     "names are case-sensitive: `Id` and `id` are two columns");
    }
    st = table_query(h, PGW__SQL_TABLE_KEY, params, table_read_key, lookup);
    if (st != PGW_OK) return st;
    for (size_t k = 0; k < s->key_count; k++)
        if (!t->key[k].column->filled)
            return table_fail_column(h, t, PGW_EINVAL, s->key[k],
                                     "of the key may be NULL, so it does not identify a row",
                                     "ALTER TABLE ... ALTER COLUMN ... SET NOT NULL");
    return PGW_OK;
}

/* ---- the roles ---- */

typedef struct table_role {
    const char *name;
    const char *types; /* allowed ones, between spaces */
    const char *refusal;
    bool not_null; /* must be NOT NULL; else must allow NULL */
} table_role;

static const table_role table_roles[] = {
    {"locked_by", " text varchar int2 int4 int8 uuid ",
     "(locked_by) has the wrong type: expected text, varchar, smallint, integer, bigint or uuid",
     false},
    {"expires_at", " timestamptz ",
     "(expires_at) has the wrong type: expected timestamptz, which every session reads "
     "alike",
     false},
    {"token", " uuid ", "(token) has the wrong type: expected uuid", false},
    {"version", " int2 int4 int8 uuid ",
     "(version) has the wrong type: expected smallint, integer, bigint or uuid", true},
};

static bool table_type_allowed(const pgw__column *c, const char *types)
{
    char padded[PGW__IDENT_MAX + 3];

    snprintf(padded, sizeof(padded), " %.63s ", c->type);
    return c->builtin && strstr(types, padded) != NULL;
}

static pgw_status table_find_role(pgw *h, pgw_table *t, const table_role *role, const char *name,
                                  const pgw__column **column)
{
    const pgw__column *c = name != NULL ? pgw__table_column(t, name) : NULL;

    *column = c;
    if (c == NULL) {
        if (name != NULL) t->complete = false;
        return PGW_OK;
    }
    if (!table_type_allowed(c, role->types))
        return table_fail_column(h, t, PGW_EINVAL, name, role->refusal, NULL);
    if (c->generated)
        return table_fail_column(h, t, PGW_EINVAL, name, "has a role and is generated", NULL);
    if (c->not_null && !role->not_null)
        return table_fail_column(h, t, PGW_EINVAL, name, "has a role and is NOT NULL",
                                 "in a free row the columns of the lease are NULL: ALTER TABLE ... "
                                 "ALTER COLUMN ... DROP NOT NULL");
    if (!c->filled && role->not_null)
        return table_fail_column(h, t, PGW_EINVAL, name, "is the version and may be NULL",
                                 "UPDATE what is NULL, then ALTER TABLE ... ALTER COLUMN ... SET "
                                 "NOT NULL");
    return PGW_OK;
}

static pgw_status table_find_roles(pgw *h, table_lookup *lookup)
{
    pgw_table *t = lookup->t;
    const pgw_table_spec *s = lookup->spec;
    const char *const names[] = {s->locked_by, s->expires_at, s->token, s->version};
    const pgw__column **const to[] = {&t->locked_by, &t->expires_at, &t->token, &t->version};
    char missing[400] = "";
    size_t used = 0;

    t->complete = true;
    for (size_t r = 0; r < 4; r++) {
        pgw_status st = table_find_role(h, t, &table_roles[r], names[r], to[r]);

        if (st != PGW_OK) return st;
        if (r < 3 && *to[r] != NULL && (*to[r])->keyed) t->keyed_lease = true;
        if (names[r] != NULL && *to[r] == NULL && used < sizeof(missing))
            used += (size_t)snprintf(missing + used, sizeof(missing) - used, "%s`%s` (%s)",
                                     used > 0 ? ", " : "missing: ", names[r], table_roles[r].name);
    }
    t->random_version = t->version != NULL && strcmp(t->version->type, "uuid") == 0;
    if (t->complete) return PGW_OK;
    return table_fail(h, t, PGW_ESCHEMA, missing,
                      "`pgwork table init` adds what is missing; pgw_table_sql() says how");
}

/* ---- open ---- */

static pgw_status table_find(pgw *h, table_lookup *lookup)
{
    const pgw_table_spec *s = lookup->spec;
    char index[2][PGW__IDENT_MAX + 1];
    pgw_status st, roles;

    pgw__table_index_name(index[0], s, 0);
    pgw__table_index_name(index[1], s, 1);
    {
        const pgw__param params[] = {P_TEXT(s->schema), P_TEXT(s->table), P_TEXT(index[0]),
                                     P_TEXT(index[1]), P_END};

        st = table_query(h, PGW__SQL_TABLE_FIND, params, table_read_find, lookup);
    }
    if (st == PGW_OK) {
        const pgw__param params[] = {P_INT8(lookup->oid), P_END};

        st = table_query(h, PGW__SQL_TABLE_COLUMNS, params, table_read_columns, lookup);
    }
    if (st == PGW_OK) st = table_find_key(h, lookup);
    if (st != PGW_OK) return st;
    roles = table_find_roles(h, lookup);
    if (roles != PGW_OK && roles != PGW_ESCHEMA) return roles;
    st = pgw__table_ddl(h, lookup->t, s, lookup->index_state);
    return st == PGW_OK ? roles : st;
}

static pgw_status table_keep_names(pgw *h, pgw_table *t, const pgw_table_spec *s)
{
    t->schema = pgw__table_keep(t, s->schema);
    t->name = pgw__table_keep(t, s->table);
    if (t->schema == NULL || t->name == NULL) return table_nomem(h);
    if (s->claimable == NULL) return PGW_OK;
    t->claimable = pgw__table_keep(t, s->claimable);
    return t->claimable != NULL ? PGW_OK : table_nomem(h);
}

pgw_status pgw_table_open(pgw *h, const pgw_table_spec *spec, pgw_table **t)
{
    pgw_table_spec s = PGW_TABLE_SPEC_INIT;
    table_lookup lookup = {.spec = &s};
    pgw_status st;

    if (t == NULL) return pgw__check_given(h, "t", t);
    *t = NULL;
    st = pgw__check_given(h, "spec", spec);
    if (st == PGW_OK) st = pgw__check_opts(h, "spec", &s, sizeof(s), spec);
    if (st != PGW_OK) return st;
    if (s.schema == NULL) s.schema = "public";
    st = table_check_spec(h, &s);
    if (st == PGW_OK) st = pgw__check_unarmed(h, NULL);
    if (st != PGW_OK) return st;
    lookup.t = pgw__mem_zero(1, sizeof(*lookup.t));
    if (lookup.t == NULL) return table_nomem(h);
    st = table_keep_names(h, lookup.t, &s);
    if (st == PGW_OK) st = table_find(h, &lookup);
    if (st != PGW_OK && (st != PGW_ESCHEMA || lookup.t->sql == NULL)) {
        pgw_table_free(lookup.t);
        return st;
    }
    *t = lookup.t;
    return st;
}

/* ---- checks for the verbs ---- */

pgw_status pgw__table_check(pgw *h, const pgw_table *t)
{
    pgw_status st = pgw__check_given(h, "t", t);

    if (st != PGW_OK || t->complete) return st;
    return table_fail(h, t, PGW_EMISUSE, "columns of its roles are missing",
                      "call pgw_table_init(), then open the table again");
}

pgw_status pgw__table_check_leases(pgw *h, const pgw_table *t)
{
    pgw_status st = pgw__table_check(h, t);

    if (st != PGW_OK || t->token != NULL) return st;
    return table_fail(h, t, PGW_EMISUSE, "was described without leases",
                      "give locked_by, expires_at and token in the description");
}

pgw_status pgw__table_check_versions(pgw *h, const pgw_table *t)
{
    pgw_status st = pgw__table_check(h, t);

    if (st != PGW_OK || pgw__has_version(t)) return st;
    return table_fail(h, t, PGW_EMISUSE,
                      t->partitioned ? "is partitioned and was described without a version"
                                     : "was described without a version, and this role may not "
                                       "read the row's own (xmin)",
                      "give the role `version` a column, or the role SELECT on the whole table");
}

pgw_status pgw__table_check_key(pgw *h, const pgw_table *t, const char *const *key)
{
    return pgw__check_all_given(h, "key", key, t->key_count);
}

pgw_status pgw__table_check_columns(pgw *h, const pgw_table *t, const char *const *columns,
                                    size_t n)
{
    pgw_status st = pgw__check_count(h, "columns_count", n, 0, PGW__ASKED_MAX);

    if (st == PGW_OK && n > 0) st = pgw__check_all_given(h, "columns", columns, n);
    for (size_t i = 0; st == PGW_OK && i < n; i++)
        if (pgw__table_column(t, columns[i]) == NULL)
            st = table_fail_column(h, t, PGW_EINVAL, columns[i], "does not exist",
                                   "if it was added after pgw_table_open(), open the table again");
    return st;
}

pgw_status pgw__table_check_values(pgw *h, const char *const *values, size_t n)
{
    pgw_status st = pgw__check_count(h, "values_count", n, 0, PGW__VALUES_MAX);

    return st == PGW_OK && n > 0 ? pgw__check_given(h, "values", values) : st;
}

pgw_status pgw__table_check_cell(pgw *h, const pgw_table *t, const char *column)
{
    const pgw__column *c;
    pgw_status st = pgw__check_given(h, "column", column);

    if (st != PGW_OK) return st;
    c = pgw__table_column(t, column);
    if (c == NULL)
        return table_fail_column(h, t, PGW_EINVAL, column, "does not exist",
                                 "if it was added after pgw_table_open(), open the table again");
    if (c->generated) return table_fail_column(h, t, PGW_EINVAL, column, "is generated", NULL);
    if (c == t->locked_by || c == t->expires_at || c == t->token || c == t->version)
        return table_fail_column(h, t, PGW_EINVAL, column, "has a role: only the library sets it",
                                 NULL);
    return PGW_OK;
}
