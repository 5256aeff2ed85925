/* Descriptions of a caller's table: what is accepted, what is refused and with which message, and
 * the statements that add what is missing. Longer than 600 lines: one test for each mistake in a
 * description and the words that refuse it. */
#include "unity.h"
#include "callkit.h"
#include "pgw_all.h"
#include "oom.h"
#include "pgtemp.h"

#include <stdio.h>
#include <string.h>

static pgw *h;

void setUp(void)
{
    pgw_conf *conf;

    TEST_ASSERT_EQUAL(PGW_OK, pgw_conf_new(&conf));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_conf_set(conf, "dsn", pgtemp_dsn()));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_conf_set(conf, "schema.check", "off"));
    TEST_ASSERT_EQUAL_STRING("", (pgw_open(conf, &h), pgw_error_message(h)));
    pgw_conf_free(conf);
    pgtemp_exec("DROP SCHEMA public CASCADE; CREATE SCHEMA public");
}

void tearDown(void)
{
    pgw_close(h);
    h = NULL;
}

static const char *const id[] = {"id"};

static pgw_table_spec described(const char *table)
{
    pgw_table_spec s = PGW_TABLE_SPEC_INIT;

    s.table = table, s.key = id, s.key_count = 1;
    return s;
}

static pgw_table_spec leased(const char *table)
{
    pgw_table_spec s = described(table);

    s.locked_by = "locked_by", s.expires_at = "expires_at", s.token = "token";
    return s;
}

static void must_open(const pgw_table_spec *s)
{
    pgw_table *t;

    TEST_ASSERT_EQUAL_STRING("", (pgw_table_open(h, s, &t), pgw_error_message(h)));
    TEST_ASSERT_NOT_NULL(t);
    pgw_table_free(t);
}

static void must_refuse(const pgw_table_spec *s, pgw_status st, const char *words)
{
    pgw_table *t = (pgw_table *)&t;

    TEST_ASSERT_EQUAL_STRING(pgw_status_name(st), pgw_status_name(pgw_table_open(h, s, &t)));
    TEST_ASSERT_NULL(t);
    if (strstr(pgw_error_message(h), words) == NULL) TEST_FAIL_MESSAGE(pgw_error_message(h));
}

#define LEASE_COLUMNS "locked_by text, expires_at timestamptz, token uuid"

void test_a_plain_table_is_taken(void)
{
    pgw_table_spec s = leased("article");

    pgtemp_exec("CREATE TABLE article (id int PRIMARY KEY, " LEASE_COLUMNS
                ", version bigint NOT NULL DEFAULT 0)");
    must_open(&s);
    s.version = "version";
    must_open(&s);
    s.schema = "public";
    must_open(&s);
}

void test_a_missing_schema_table_or_column_is_named(void)
{
    static const char *const nope[] = {"nope"};
    pgw_table_spec s = described("article");

    must_refuse(&s, PGW_ENOTFOUND, "table `public`.`article`: there is no such table");
    s.schema = "elsewhere";
    must_refuse(&s, PGW_ENOTFOUND, "table `elsewhere`.`article`: there is no such schema");
    pgtemp_exec("CREATE TABLE article (id int PRIMARY KEY)");
    s.schema = "public", s.key = nope;
    must_refuse(&s, PGW_ENOTFOUND, "column `nope` of the key does not exist");
    s = described("Article");
    must_refuse(&s, PGW_ENOTFOUND, "there is no such table");
}

void test_a_relation_that_is_not_a_table_is_named(void)
{
    static const struct {
        const char *name, *words;
    } kinds[] = {{"v", "is a view"},
                 {"m", "is a materialized view"},
                 {"s", "is a sequence"},
                 {"c", "is a composite type"},
                 {"t_pkey", "is an index"},
                 {"ruled", "has rules"},
                 {"parent", "has inheritance children"}};

    pgtemp_exec(
        "CREATE TABLE t (id int PRIMARY KEY); CREATE VIEW v AS SELECT * FROM t;"
        "CREATE MATERIALIZED VIEW m AS SELECT * FROM t; CREATE SEQUENCE s; CREATE TYPE c AS (id "
        "int);"
        "CREATE TABLE ruled (id int PRIMARY KEY);"
        "CREATE RULE r AS ON UPDATE TO ruled DO INSTEAD NOTHING;"
        "CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child () INHERITS (parent)");
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const pgw_table_spec s = described(kinds[i].name);

        must_refuse(&s, PGW_EINVAL, kinds[i].words);
    }
}

void test_a_foreign_table_is_refused(void)
{
    const pgw_table_spec s = described("f");

    pgtemp_exec("CREATE FOREIGN DATA WRAPPER w; CREATE SERVER x FOREIGN DATA WRAPPER w;"
                "CREATE FOREIGN TABLE f (id int) SERVER x");
    must_refuse(&s, PGW_EINVAL, "is a foreign table");
    pgtemp_exec("DROP FOREIGN DATA WRAPPER w CASCADE");
}

void test_a_temporary_table_is_refused(void)
{
    pgw_table_spec s = described("mine");

    pgtemp_exec("CREATE TEMP TABLE mine (id int PRIMARY KEY)");
    s.schema = pgtemp_value("SELECT nspname FROM pg_namespace WHERE oid = pg_my_temp_schema()");
    must_refuse(&s, PGW_EINVAL, "is temporary");
    pgtemp_exec("DROP TABLE pg_temp.mine");
}

void test_only_a_full_unique_key_will_do(void)
{
    static const char *const bad[] = {
        "CREATE TABLE t (id int NOT NULL)",
        "CREATE TABLE t (id int NOT NULL); CREATE INDEX ON t (id)",
        "CREATE TABLE t (id int NOT NULL); CREATE UNIQUE INDEX ON t (id) WHERE id > 0",
        "CREATE TABLE t (id int NOT NULL); CREATE UNIQUE INDEX ON t ((id + 0))",
        "CREATE TABLE t (id int NOT NULL, b int NOT NULL); CREATE UNIQUE INDEX ON t (id, b)",
        "CREATE TABLE t (id int NOT NULL UNIQUE DEFERRABLE)",
        "CREATE TABLE t (id int NOT NULL, b int NOT NULL UNIQUE)",
    };
    const pgw_table_spec s = described("t");

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        pgtemp_exec("DROP TABLE IF EXISTS t");
        pgtemp_exec(bad[i]);
        must_refuse(&s, PGW_EINVAL, "no unique key over (`id`)");
        TEST_ASSERT_NOT_NULL(strstr(pgw_error_hint(h), "unique index on exactly these columns"));
    }
    pgtemp_exec("DROP TABLE t; CREATE TABLE t (id int UNIQUE)");
    must_refuse(&s, PGW_EINVAL, "column `id` of the key may be NULL");
    pgtemp_exec("DROP TABLE t; CREATE TABLE t (id int NOT NULL, b int); CREATE UNIQUE INDEX ON t "
                "(id) INCLUDE (b)");
    must_open(&s);
}

void test_an_invalid_unique_index_is_refused_as_a_key(void)
{
    const pgw_table_spec s = described("t");

    pgtemp_exec("CREATE TABLE t (id int NOT NULL); CREATE UNIQUE INDEX t_id ON t (id);"
                "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 't_id'::regclass");
    must_refuse(&s, PGW_EINVAL, "no unique key");
}

/* As PostgreSQL 18 has it: of a row with NULL it is said all the same that the column is NOT NULL.
 */
void test_a_not_null_that_is_not_valid_is_none(void)
{
    pgw_table_spec s = described("t");

    pgtemp_exec("CREATE TABLE t (id int NOT NULL UNIQUE, v int NOT NULL, u int NOT NULL UNIQUE);"
                "ALTER TABLE t ADD CONSTRAINT c CHECK (id + v > 0) NOT VALID;"
                "UPDATE pg_constraint SET contype = 'n' WHERE conname = 'c'");
    must_refuse(&s, PGW_EINVAL, "column `id` of the key may be NULL");
    s.key = &(const char *){"u"}, s.version = "v";
    must_refuse(&s, PGW_EINVAL, "column `v` is the version and may be NULL");
    s.version = NULL;
    must_open(&s);
    pgtemp_exec("UPDATE pg_constraint SET contype = 'c' WHERE conname = 'c'");
}

/* As PRIMARY KEY (id WITHOUT OVERLAPS) of PostgreSQL 18 would have it: compared by &&. */
void test_a_unique_index_that_is_not_a_btree_is_refused_as_a_key(void)
{
    const pgw_table_spec s = described("t");

    pgtemp_exec("CREATE TABLE t (id int4range NOT NULL); CREATE INDEX t_id ON t USING gist (id);"
                "UPDATE pg_index SET indisunique = true WHERE indexrelid = 't_id'::regclass");
    must_refuse(&s, PGW_EINVAL, "no unique key over (`id`)");
    pgtemp_exec("CREATE UNIQUE INDEX ON t (id)");
    must_open(&s);
}

/* The server itself finds no operator for it, nor for a domain over such a domain. */
void test_a_domain_over_an_enum_is_refused_as_a_key(void)
{
    const pgw_table_spec s = described("t");

    pgtemp_exec("CREATE TYPE mood AS ENUM ('so so'); CREATE DOMAIN feeling AS mood;"
                "CREATE DOMAIN mine AS feeling; CREATE TABLE t (id mine PRIMARY KEY)");
    must_refuse(&s, PGW_EINVAL, "column `id` of the key has a domain over an enum");
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_hint(h), "TYPE"));
    pgtemp_exec("ALTER TABLE t ALTER id TYPE mood");
    must_open(&s);
}

void test_the_columns_of_a_composite_key_may_come_in_any_order(void)
{
    static const char *const ba[] = {"b", "a"}, *const aab[] = {"a", "a"},
                             *const abc[] = {"a", "b", "c"};
    pgw_table_spec s = described("t");

    pgtemp_exec("CREATE TABLE t (a int, b text, c int NOT NULL, PRIMARY KEY (a, b))");
    s.key = ba, s.key_count = 2;
    must_open(&s);
    s.key = aab;
    must_refuse(&s, PGW_EINVAL, "each column once");
    s.key = abc, s.key_count = 3;
    must_refuse(&s, PGW_EINVAL, "no unique key over (`a`, `b`, `c`)");
}

void test_roles_want_their_types(void)
{
    pgw_table_spec s = leased("t");

    pgtemp_exec(
        "CREATE TABLE t (id int PRIMARY KEY, locked_by json, expires_at timestamptz, token uuid)");
    must_refuse(&s, PGW_EINVAL, "column `locked_by` (locked_by) has the wrong type");
    pgtemp_exec("DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, locked_by text, expires_at "
                "timestamp, token uuid)");
    must_refuse(&s, PGW_EINVAL, "column `expires_at` (expires_at) has the wrong type");
    pgtemp_exec("DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, locked_by text, expires_at "
                "timestamptz, token text)");
    must_refuse(&s, PGW_EINVAL, "column `token` (token) has the wrong type");
    pgtemp_exec("DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, locked_by text NOT NULL, "
                "expires_at timestamptz, token uuid)");
    must_refuse(&s, PGW_EINVAL, "column `locked_by` has a role and is NOT NULL");
    s = described("t"), s.version = "v";
    pgtemp_exec("DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, v int)");
    must_refuse(&s, PGW_EINVAL, "column `v` is the version and may be NULL");
    pgtemp_exec("DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, v text NOT NULL)");
    must_refuse(&s, PGW_EINVAL, "column `v` (version) has the wrong type");
    pgtemp_exec("DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL GENERATED ALWAYS "
                "AS (id) STORED)");
    must_refuse(&s, PGW_EINVAL, "column `v` has a role and is generated");
    s.version = "id";
    must_refuse(&s, PGW_EINVAL, "a column that is not in the key");
    s = leased("t"), s.token = "locked_by";
    must_refuse(&s, PGW_EINVAL, "another column for each role");
    s = leased("t"), s.token = NULL;
    must_refuse(&s, PGW_EINVAL, "`spec->token` is NULL");
    s = leased("t"), s.locked_by = NULL;
    must_refuse(&s, PGW_EINVAL, "`spec->locked_by` is NULL");
}

void test_a_role_without_rights_is_reported(void)
{
    pgw_table_spec s = described("t");

    pgtemp_exec("CREATE TABLE t (id int PRIMARY KEY, a int); CREATE ROLE reader_t; GRANT USAGE ON "
                "SCHEMA public TO reader_t");
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_text(h, "role", "SET ROLE reader_t", &(pgw__call){0}));
    must_refuse(&s, PGW_EPERM, "this role may not read the table");
    pgtemp_exec("GRANT SELECT ON t TO reader_t");
    must_refuse(&s, PGW_EPERM, "this role may not write the table");
    pgtemp_exec("GRANT UPDATE (a) ON t TO reader_t");
    must_open(&s);
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_text(h, "role", "RESET ROLE", &(pgw__call){0}));
    pgtemp_exec("DROP OWNED BY reader_t; DROP ROLE reader_t");
}

void test_arguments_are_checked(void)
{
    pgw_table_spec s = described("t");
    pgw_table *t = NULL;

    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_table_open(h, &s, NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_table_open(h, NULL, &t));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_table_open(NULL, &s, &t));
    s.table = NULL;
    must_refuse(&s, PGW_EINVAL, "argument `spec->table` is NULL");
    s.table = "";
    must_refuse(&s, PGW_EINVAL, "argument `spec->table` is empty");
    s.table = "\xff";
    must_refuse(&s, PGW_EINVAL, "argument `spec->table` is not UTF-8");
    s = described("t"), s.key_count = 0;
    must_refuse(&s, PGW_EINVAL, "spec->key_count");
    s.key_count = 9;
    must_refuse(&s, PGW_EINVAL, "spec->key_count");
    s = described("t"), s.key = NULL;
    must_refuse(&s, PGW_EINVAL, "spec->key");
    pgw_table_free(NULL);
    TEST_ASSERT_EQUAL_STRING("", pgw_table_sql(NULL));
}

/* ---- what is missing ---- */

/* The names of indexes end with eight digits, which say what the index is made of. */
static const char *without_marks(const char *text)
{
    static char out[2000];
    size_t n = 0;

    TEST_ASSERT_LESS_THAN(sizeof(out), strlen(text));
    for (const char *name; (name = strstr(text, "_pgwork_")) != NULL;) {
        const size_t kept = (size_t)(name - text) + strcspn(name + 8, "_") + 8;

        memcpy(out + n, text, kept);
        n += kept;
        TEST_ASSERT_EQUAL(8, strspn(text + kept + 1, "0123456789abcdef"));
        text += kept + 9;
    }
    strcpy(out + n, text);
    return out;
}

void test_missing_columns_and_indexes_are_proposed_and_made(void)
{
    pgw_table_spec s = leased("article");
    pgw_table *t;

    s.version = "version", s.claimable = "reviewed IS NULL -- not yet";
    pgtemp_exec("CREATE TABLE article (id int PRIMARY KEY, reviewed timestamptz)");
    TEST_ASSERT_EQUAL(PGW_ESCHEMA, pgw_table_open(h, &s, &t));
    TEST_ASSERT_EQUAL_STRING(
        "table `public`.`article`: missing: `locked_by` (locked_by), `expires_at` (expires_at), "
        "`token` (token), `version` (version)",
        pgw_error_message(h));
    TEST_ASSERT_EQUAL_STRING(
        "ALTER TABLE \"public\".\"article\"\n"
        "    ADD COLUMN IF NOT EXISTS \"locked_by\" text,\n"
        "    ADD COLUMN IF NOT EXISTS \"expires_at\" timestamptz,\n"
        "    ADD COLUMN IF NOT EXISTS \"token\" uuid,\n"
        "    ADD COLUMN IF NOT EXISTS \"version\" bigint NOT NULL DEFAULT 0;\n"
        "CREATE INDEX CONCURRENTLY IF NOT EXISTS \"article_pgwork_lease\" ON "
        "\"public\".\"article\" "
        "(COALESCE(\"expires_at\", '-infinity'::timestamptz), \"id\") WHERE (reviewed IS NULL -- "
        "not yet\n);\n"
        "CREATE INDEX CONCURRENTLY IF NOT EXISTS \"article_pgwork_holder\" ON "
        "\"public\".\"article\" "
        "(\"locked_by\") WHERE \"locked_by\" IS NOT NULL;\n",
        without_marks(pgw_table_sql(t)));
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw_table_reap(h, t, 1, NULL));
    TEST_ASSERT_EQUAL_STRING("", (pgw_table_init(h, t), pgw_error_message(h)));
    pgw_table_free(t);
    TEST_ASSERT_EQUAL_STRING("", (pgw_table_open(h, &s, &t), pgw_error_message(h)));
    TEST_ASSERT_EQUAL_STRING("", pgw_table_sql(t));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_table_init(h, t));
    pgw_table_free(t);
}

/* An index of other rows, or in another order, is of no use to it. */
void test_another_description_has_indexes_of_its_own(void)
{
    static const char *const ab[] = {"a", "b"}, *const ba[] = {"b", "a"};
    pgw_table_spec s = leased("t");
    pgw_table *t;

    pgtemp_exec("CREATE TABLE t (a int, b int, done bool, PRIMARY KEY (a, b), " LEASE_COLUMNS
                ", busy timestamptz)");
    s.key = ab, s.key_count = 2;
    for (int i = 0; i < 4; i++) {
        if (i == 1) s.claimable = "done IS NULL";
        if (i == 2) s.key = ba;
        if (i == 3) s.expires_at = "busy";
        TEST_ASSERT_EQUAL(PGW_OK, pgw_table_open(h, &s, &t));
        TEST_ASSERT_NOT_NULL_MESSAGE(strstr(pgw_table_sql(t), "t_pgwork_lease"), pgw_table_sql(t));
        TEST_ASSERT_EQUAL_STRING("", (pgw_table_init(h, t), pgw_error_message(h)));
        pgw_table_free(t);
        TEST_ASSERT_EQUAL(PGW_OK, pgw_table_open(h, &s, &t));
        TEST_ASSERT_EQUAL_STRING("", pgw_table_sql(t));
        pgw_table_free(t);
    }
    TEST_ASSERT_EQUAL_INT64(
        4, pgtemp_number("SELECT count(*) FROM pg_class WHERE relname LIKE 't_pgwork_lease_%'"));
    TEST_ASSERT_EQUAL_INT64(
        1, pgtemp_number("SELECT count(*) FROM pg_class WHERE relname LIKE 't_pgwork_holder_%'"));
}

/* Their names begin alike, as far as they fit into the name of an index. */
void test_tables_with_long_names_have_indexes_of_their_own(void)
{
    char name[64], sql[200];
    pgw_table_spec s = leased(name);
    pgw_table *t;

    memset(name, 'x', 63);
    name[63] = '\0';
    for (name[62] = 'a'; name[62] <= 'b'; name[62]++) {
        snprintf(sql, sizeof(sql), "CREATE TABLE %s (id int PRIMARY KEY, " LEASE_COLUMNS ")", name);
        pgtemp_exec(sql);
        TEST_ASSERT_EQUAL(PGW_OK, pgw_table_open(h, &s, &t));
        TEST_ASSERT_EQUAL_STRING("", (pgw_table_init(h, t), pgw_error_message(h)));
        pgw_table_free(t);
        TEST_ASSERT_EQUAL(PGW_OK, pgw_table_open(h, &s, &t));
        TEST_ASSERT_EQUAL_STRING("", pgw_table_sql(t));
        pgw_table_free(t);
    }
}

/* Good for claims, and no condition for an index. */
void test_a_claimable_that_no_index_can_have_is_refused(void)
{
    static const char *const fragments[] = {"t.reviewed IS NULL", "reviewed < pg_catalog.now()",
                                            "reviewed = (SELECT max(reviewed) FROM article)",
                                            "twice > 2"}; /* virtual */
    const bool virtual = pgtemp_number(
                             "SELECT current_setting('server_version_num')::int / 10000") >= 18;
    pgw_table_spec s = leased("article");
    pgw_table *t;

    pgtemp_exec("CREATE TABLE article (id int PRIMARY KEY, reviewed timestamptz, " LEASE_COLUMNS
                ")");
    if (virtual) pgtemp_exec("ALTER TABLE article ADD twice int GENERATED ALWAYS AS (2 * id)");
    for (size_t i = 0; i < sizeof(fragments) / sizeof(fragments[0]) - !virtual; i++) {
        s.claimable = fragments[i];
        TEST_ASSERT_EQUAL(PGW_OK, pgw_table_open(h, &s, &t));
        TEST_ASSERT_EQUAL_MESSAGE(PGW_EINVAL, pgw_table_init(h, t), fragments[i]);
        TEST_ASSERT_NOT_NULL_MESSAGE(strstr(pgw_error_message(h), "(SQLSTATE "),
                                     pgw_error_message(h));
        TEST_ASSERT_NOT_NULL_MESSAGE(strstr(pgw_error_hint(h), "`claimable` is the condition"),
                                     pgw_error_hint(h));
        pgw_table_free(t);
    }
}

void test_a_damaged_index_is_created_again(void)
{
    pgw_table_spec s = leased("t");
    pgw_table *t;

    pgtemp_exec("CREATE TABLE t (id int PRIMARY KEY, " LEASE_COLUMNS ")");
    TEST_ASSERT_EQUAL(PGW_OK, pgw_table_open(h, &s, &t));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_table_init(h, t));
    pgw_table_free(t);
    pgtemp_exec("UPDATE pg_index SET indisvalid = false FROM pg_class c WHERE c.oid = indexrelid "
                "AND c.relname LIKE 't_pgwork_lease_%'");
    TEST_ASSERT_EQUAL(PGW_OK, pgw_table_open(h, &s, &t));
    TEST_ASSERT_EQUAL_STRING("REINDEX INDEX CONCURRENTLY \"public\".\"t_pgwork_lease\";\n",
                             without_marks(pgw_table_sql(t)));
    TEST_ASSERT_EQUAL_STRING("", (pgw_table_init(h, t), pgw_error_message(h)));
    pgw_table_free(t);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_table_open(h, &s, &t));
    TEST_ASSERT_EQUAL_STRING("", pgw_table_sql(t));
    pgw_table_free(t);
}

void test_init_is_not_for_transactions(void)
{
    pgw_table_spec s = leased("t");
    pgw_table *t;

    pgtemp_exec("CREATE TABLE t (id int PRIMARY KEY, " LEASE_COLUMNS ")");
    TEST_ASSERT_EQUAL(PGW_OK, pgw_table_open(h, &s, &t));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_txn_begin(h));
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw_table_init(h, t));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_txn_rollback(h));
    pgw_table_free(t);
}

/* The other one may be at an index of hours. */
void test_a_wait_for_another_process_that_is_in_vain_is_reported(void)
{
    pgw_table_spec s = leased("t");
    pgw_table *t;

    pgtemp_exec("CREATE TABLE t (id int PRIMARY KEY)");
    TEST_ASSERT_EQUAL(PGW_ESCHEMA, pgw_table_open(h, &s, &t));
    pgtemp_exec("SELECT pg_advisory_lock(hashtextextended('pgwork.table public.t', 0))");
    pgw_set_timeout(h, 500);
    TEST_ASSERT_EQUAL_STRING("PGW_ELOCKED", pgw_status_name(pgw_table_init(h, t)));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_message(h), "another process is adding"));
    pgtemp_exec("SELECT pg_advisory_unlock_all()");
    pgw_set_timeout(h, PGW_DEFAULT);
    TEST_ASSERT_EQUAL_STRING("", (pgw_table_init(h, t), pgw_error_message(h)));
    pgw_table_free(t);
}

/* ---- hostile names ---- */

static const char *const hostile[] = {
    "select",
    "with space",
    "Capital",
    "quo\"te",
    "\"",
    "\"\"",
    "'; DROP TABLE canary; --",
    "\"; DROP TABLE canary; --",
    "a\\b",
    "$1",
    "%s%n",
    "new\nline",
    "t",
    "pgw_ask",
    "\xc3\xa9t\xc3\xa9 \xe2\x80\xae \xf0\x9f\x92\xa5",
    "63_bytes_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
};

void test_hostile_names_are_taken_literally(void)
{
    pgtemp_exec("CREATE TABLE canary (a int)");
    for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
        const char *const name = hostile[i], *const key[] = {name};
        pgw_table_spec s = PGW_TABLE_SPEC_INIT;
        pgw_table *t;
        char sql[1024], *quoted = PQescapeIdentifier(pgtemp_conn(), name, strlen(name));
        const char *const *asked = key, *row_key[] = {"7"};
        const pgw_cell cell = {name, "8"};
        pgw_rows *rows;

        snprintf(sql, sizeof(sql),
                 "CREATE SCHEMA %s; CREATE TABLE %s.%s (%s int PRIMARY KEY); INSERT INTO %s.%s "
                 "VALUES (7)",
                 quoted, quoted, quoted, quoted, quoted, quoted);
        pgtemp_exec(sql);
        s.schema = s.table = name, s.key = key, s.key_count = 1;
        s.locked_by = "\"l\"", s.expires_at = "e'", s.token = "to ken";
        TEST_ASSERT_EQUAL_STRING("PGW_ESCHEMA", pgw_status_name(pgw_table_open(h, &s, &t)));
        TEST_ASSERT_EQUAL_STRING("", (pgw_table_init(h, t), pgw_error_message(h)));
        pgw_table_free(t);
        TEST_ASSERT_EQUAL_STRING("", (pgw_table_open(h, &s, &t), pgw_error_message(h)));
        TEST_ASSERT_EQUAL_STRING("", pgw_table_sql(t));

        pgw_table_claim_opts o = PGW_TABLE_CLAIM_OPTS_INIT;
        o.columns = asked, o.columns_count = 1;
        TEST_ASSERT_EQUAL_STRING("", (pgw_table_claim(h, t, &o, &rows), pgw_error_message(h)));
        TEST_ASSERT_EQUAL_STRING("7", pgw_rows_get(rows, 0, name));
        pgw_row_ref ref = pgw_rows_ref(rows, 0);
        TEST_ASSERT_EQUAL_STRING(
            "", (pgw_table_extend(h, t, &ref, 1, ROWS_BY(1000)), pgw_error_message(h)));
        TEST_ASSERT_EQUAL_STRING("", (pgw_table_release(h, t, &ref, 1), pgw_error_message(h)));
        TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_table_release(h, t, &ref, 1));
        pgw_rows_free(rows);
        TEST_ASSERT_EQUAL_STRING(
            "", (pgw_table_get(h, t, THE_ROW(row_key, asked, 1), &rows), pgw_error_message(h)));
        TEST_ASSERT_EQUAL_STRING(
            "", (pgw_table_update(h, t, CHANGE(row_key, pgw_rows_version(rows, 0), &cell, 1), NULL),
                 pgw_error_message(h)));
        pgw_rows_free(rows);
        snprintf(sql, sizeof(sql), "SELECT %s FROM %s.%s", quoted, quoted, quoted);
        TEST_ASSERT_EQUAL_INT64(8, pgtemp_number(sql));
        snprintf(sql, sizeof(sql), "DROP SCHEMA %s CASCADE", quoted);
        pgtemp_exec(sql);
        pgw_table_free(t);
        PQfreemem(quoted);
    }
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT count(*) FROM canary"));
}

void test_a_name_of_64_bytes_is_another_table_to_the_server_and_refused(void)
{
    static const char name[] = "63_bytes_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxy";
    const char *const key[] = {name};
    pgw_table_spec s = described(name);

    TEST_ASSERT_EQUAL(64, strlen(name));
    pgtemp_exec("CREATE TABLE \"63_bytes_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\" "
                "(id int PRIMARY KEY)");
    must_refuse(&s, PGW_EINVAL, "argument `spec->table` is too long");
    s = described("t"), s.schema = name;
    must_refuse(&s, PGW_EINVAL, "argument `spec->schema` is too long");
    s = described("t"), s.key = key;
    must_refuse(&s, PGW_EINVAL, "argument `spec->key[0]` is too long");
    s = leased("t"), s.token = name;
    must_refuse(&s, PGW_EINVAL, "argument `spec->token` is too long");
}

/* ---- memory ---- */

void test_open_survives_the_loss_of_each_allocation(void)
{
    pgw_table_spec s = leased("t");
    pgw_status st = PGW_ENOMEM;
    int n;

    s.claimable = "a > 0";
    pgtemp_exec("CREATE TABLE t (id int PRIMARY KEY, a int)");
    for (n = 0; n < 3; n++) { /* statements are prepared by now, so the count is steady */
        pgw_table *t = NULL;

        TEST_ASSERT_EQUAL(PGW_ESCHEMA, pgw_table_open(h, &s, &t));
        pgw_table_free(t);
    }
    pgw_close(h);
    h = NULL;
    oom_begin();
    for (n = 0; n < 500 && st != PGW_ESCHEMA; n++) {
        pgw_table *t = NULL;
        pgw_conf *conf;

        oom_fail(0);
        TEST_ASSERT_EQUAL(PGW_OK, pgw_conf_new(&conf));
        TEST_ASSERT_EQUAL(PGW_OK, pgw_conf_set(conf, "dsn", pgtemp_dsn()));
        TEST_ASSERT_EQUAL(PGW_OK, pgw_conf_set(conf, "schema.check", "off"));
        TEST_ASSERT_EQUAL(PGW_OK, pgw_open(conf, &h));
        pgw_conf_free(conf);
        oom_fail(n + 1);
        st = pgw_table_open(h, &s, &t);
        if (st != PGW_ESCHEMA) {
            TEST_ASSERT_EQUAL(PGW_ENOMEM, st);
            TEST_ASSERT_NULL(t);
        }
        pgw_table_free(t);
        pgw_close(h);
        h = NULL;
    }
    oom_end();
    TEST_ASSERT_EQUAL(PGW_ESCHEMA, st);
    TEST_ASSERT_GREATER_THAN(10, n);
}
