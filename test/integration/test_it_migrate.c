/* migrate: from an empty database to the schema, once, also with several migrators; every statement
 * fits it. */
#include "unity.h"
#include "pgw_all.h"
#include "pgtemp.h"
#include "itpgw.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

void setUp(void) {}
void tearDown(void) {}

static pgw *open_schema(const char *schema)
{
    const char *const pairs[] = {"schema", schema, "schema.check", "off", NULL};

    return it_open_with(pairs);
}

typedef struct tally {
    int count, applied, pending, changed, unknown, last;
    char sql[200];
} tally;

static int tell(const pgw_migration *m, void *arg)
{
    tally *t = arg;

    t->count++;
    TEST_ASSERT_EQUAL_INT(t->last + 1, m->number);
    t->last = m->number;
    t->applied += strcmp(m->state, "applied") == 0;
    t->pending += strcmp(m->state, "pending") == 0;
    t->changed += strcmp(m->state, "changed") == 0;
    t->unknown += strcmp(m->state, "unknown") == 0;
    if (m->number == 1) snprintf(t->sql, sizeof(t->sql), "%.199s", strstr(m->sql, "CREATE TABLE"));
    return 0;
}

static tally look(pgw *h)
{
    tally t = {0};

    ASSERT_ST(PGW_OK, pgw_migrations_each(h, tell, &t), h);
    return t;
}

void test_from_nothing_to_the_schema_and_again(void)
{
    pgw *h = open_schema("fresh");
    const int all = pgw__sql_migrations();
    int n = -1;
    tally t = look(h);

    TEST_ASSERT_GREATER_THAN_INT(0, all);
    TEST_ASSERT_EQUAL_INT(all, t.count);
    TEST_ASSERT_EQUAL_INT(all, t.pending);
    ASSERT_HAS("CREATE TABLE fresh.", t.sql);

    ASSERT_ST(PGW_OK, pgw_migrate_up(h, &n), h);
    TEST_ASSERT_EQUAL_INT(all, n);
    t = look(h);
    TEST_ASSERT_EQUAL_INT(all, t.applied);
    TEST_ASSERT_EQUAL_INT64(all, pgtemp_number("SELECT fresh.version()"));
    TEST_ASSERT_EQUAL_INT64(
        0,
        pgtemp_number("SELECT count(*) FROM fresh.migration WHERE checksum !~ '^[0-9a-f]{16}$'"));

    ASSERT_ST(PGW_OK, pgw_migrate_up(h, &n), h);
    TEST_ASSERT_EQUAL_INT(0, n);
    ASSERT_ST(PGW_OK, pgw_migrate_up(h, NULL), h);
    pgw_close(h);
}

void test_without_the_schema_a_checked_handle_says_so(void)
{
    const char *const pairs[] = {"schema", "nowhere", NULL};
    pgw_conf *conf = it_conf(pairs);
    pgw *h;

    ASSERT_ST(PGW_ESCHEMA, pgw_open(conf, &h), h);
    ASSERT_HAS("nowhere", pgw_error_message(h));
    pgw_close(h);
    pgw_conf_free(conf);
}

static int stop_at_once(const pgw_migration *m, void *arg)
{
    ++*(int *)arg;
    return 1;
}

void test_a_list_ends_when_the_caller_has_enough(void)
{
    pgw *h = open_schema("nowhere");
    int n = 0;

    ASSERT_ST(PGW_OK, pgw_migrations_each(h, stop_at_once, &n), h);
    TEST_ASSERT_EQUAL_INT(1, n);
    ASSERT_ST(PGW_EINVAL, pgw_migrations_each(h, NULL, NULL), h);
    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw_migrations_each(NULL, stop_at_once, &n));
    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw_migrate_up(NULL, NULL));
    pgw_close(h);
}

/* ---- two at once ---- */

typedef struct racer {
    pgw *h;
    int applied;
    pgw_status st;
} racer;

static void *race(void *arg)
{
    racer *r = arg;

    r->st = pgw_migrate_up(r->h, &r->applied);
    return NULL;
}

void test_two_at_once_do_the_work_of_one(void)
{
    racer r[3] = {
        {open_schema("raced"), 0, 0}, {open_schema("raced"), 0, 0}, {open_schema("raced"), 0, 0}};
    pthread_t threads[3];
    int i, sum = 0;

    for (i = 0; i < 3; i++)
        TEST_ASSERT_EQUAL_INT(0, pthread_create(&threads[i], NULL, race, &r[i]));
    for (i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    for (i = 0; i < 3; i++) {
        TEST_ASSERT_EQUAL_INT_MESSAGE(PGW_OK, r[i].st, pgw_error_message(r[i].h));
        sum += r[i].applied;
        pgw_close(r[i].h);
    }
    TEST_ASSERT_EQUAL_INT(pgw__sql_migrations(), sum);
}

/* ---- what must not be touched ---- */

void test_an_applied_migration_of_another_text_is_refused(void)
{
    pgw *h = open_schema("edited");
    tally t;

    ASSERT_ST(PGW_OK, pgw_migrate_up(h, NULL), h);
    pgtemp_exec("UPDATE edited.migration SET checksum = '0123456789abcdef' WHERE number = 2");
    t = look(h);
    TEST_ASSERT_EQUAL_INT(1, t.changed);
    ASSERT_ST(PGW_ESCHEMA, pgw_migrate_up(h, NULL), h);
    ASSERT_HAS("migration 2", pgw_error_message(h));
    ASSERT_HAS("0123456789abcdef", pgw_error_message(h));
    TEST_ASSERT_NOT_EQUAL('\0', *pgw_error_hint(h));
    pgw_close(h);
}

void test_a_newer_schema_is_refused_naming_both_versions(void)
{
    const int all = pgw__sql_migrations();
    pgw *h = open_schema("newer");
    char sql[200], word[64];
    tally t;

    ASSERT_ST(PGW_OK, pgw_migrate_up(h, NULL), h);
    snprintf(sql, sizeof(sql),
             "INSERT INTO newer.migration VALUES (%d, 'from_the_future.sql', 'x')", all + 1);
    pgtemp_exec(sql);
    t = look(h);
    TEST_ASSERT_EQUAL_INT(1, t.unknown);
    ASSERT_ST(PGW_ESCHEMA, pgw_migrate_up(h, NULL), h);
    snprintf(word, sizeof(word), "has version %d", all + 1);
    ASSERT_HAS(word, pgw_error_message(h));
    snprintf(word, sizeof(word), "up to %d", all);
    ASSERT_HAS(word, pgw_error_message(h));
    pgw_close(h);
}

/* A migration that fails leaves nothing of itself, and what came before it stays. */
void test_a_failed_migration_is_undone_and_can_be_repeated(void)
{
    pgw *h = open_schema("halfway");
    int n;

    ASSERT_ST(PGW_OK, pgw_migrate_up(h, NULL), h);
    pgtemp_exec(
        "DROP SCHEMA halfway CASCADE; CREATE SCHEMA halfway; CREATE TABLE halfway.stuck_job "
        "(in_the_way int)");
    ASSERT_ST(PGW_EDB, pgw_migrate_up(h, &n), h);
    TEST_ASSERT_EQUAL_INT(0, n);
    ASSERT_HAS("stuck_job", pgw_error_message(h));
    TEST_ASSERT_EQUAL_STRING("0001_tables.sql", pgw_error_statement(h));
    TEST_ASSERT_EQUAL_STRING("42P07", pgw_error_sqlstate(h));
    TEST_ASSERT_NULL(pgtemp_value("SELECT to_regclass('halfway.queue')"));
    pgtemp_exec("DROP TABLE halfway.stuck_job");
    ASSERT_ST(PGW_OK, pgw_migrate_up(h, &n), h);
    TEST_ASSERT_EQUAL_INT(pgw__sql_migrations(), n);
    pgw_close(h);
}

void test_a_role_that_may_not_create_is_reported(void)
{
    char dsn[1200];
    const char *const pairs[] = {"dsn", dsn, "schema", "forbidden", "schema.check", "off", NULL};
    pgw *h;

    pgtemp_exec("DROP ROLE IF EXISTS pgw_it_no_creator; CREATE ROLE pgw_it_no_creator LOGIN");
    snprintf(dsn, sizeof(dsn), "%s user=pgw_it_no_creator", pgtemp_dsn());
    h = it_open_with(pairs);
    ASSERT_ST(PGW_EPERM, pgw_migrate_up(h, NULL), h);
    ASSERT_HAS("the right CREATE on the database", pgw_error_hint(h));
    pgw_close(h);
    pgtemp_exec("DROP ROLE pgw_it_no_creator");
}

/* What to do about it stands in the hint. */
void test_a_schema_of_another_owner_is_left_alone(void)
{
    pgw *h = open_schema("taken");

    pgtemp_exec("DROP ROLE IF EXISTS pgw_it_other; CREATE ROLE pgw_it_other; "
                "CREATE SCHEMA taken AUTHORIZATION pgw_it_other");
    ASSERT_ST(PGW_ESCHEMA, pgw_migrate_up(h, NULL), h);
    ASSERT_HAS("belongs to another role", pgw_error_message(h));
    ASSERT_HAS("migrate as its owner", pgw_error_hint(h));
    TEST_ASSERT_EQUAL_INT(0, look(h).applied);
    pgw_close(h);
    pgtemp_exec("DROP SCHEMA taken; DROP ROLE pgw_it_other");
}

static int about_encoding(const pgw_finding *f, void *arg)
{
    if (strcmp(f->check, "encoding") == 0) snprintf(arg, 200, "%d %s", (int)f->grade, f->text);
    return 0;
}

/* A text that cannot be sent to a client would be met by every claim. */
TEST_CASE("SQL_ASCII")
TEST_CASE("LATIN1")
void test_a_database_of_another_encoding_is_refused(const char *encoding)
{
    char sql[200], dsn[1200], found[200] = "";
    const char *const pairs[] = {"dsn", dsn, "schema.check", "off", NULL};
    pgw *h;

    snprintf(sql, sizeof(sql),
             "CREATE DATABASE pgw_it_other ENCODING '%s' LOCALE 'C' TEMPLATE template0", encoding);
    pgtemp_exec("DROP DATABASE IF EXISTS pgw_it_other");
    pgtemp_exec(sql);
    snprintf(dsn, sizeof(dsn), "%s dbname=pgw_it_other", pgtemp_dsn());
    h = it_open_with(pairs);
    ASSERT_ST(PGW_ESCHEMA, pgw_migrate_up(h, NULL), h);
    ASSERT_HAS(encoding, pgw_error_message(h));
    ASSERT_HAS("CREATE DATABASE name ENCODING 'UTF8'", pgw_error_hint(h));
    TEST_ASSERT_EQUAL(0, look(h).applied);
    ASSERT_ST(PGW_OK, pgw_doctor(h, about_encoding, found), h);
    snprintf(sql, sizeof(sql), "%d this database is encoded in %s", (int)PGW_GRADE_BAD, encoding);
    TEST_ASSERT_EQUAL_STRING(sql, found);
    pgw_close(h);
    pgtemp_exec("DROP DATABASE pgw_it_other");
}

static void never(pgw *h, pgw_status st, void *arg)
{
    TEST_FAIL_MESSAGE("done was called");
}

void test_migrations_are_for_handles_of_their_own_that_block(void)
{
    const char *const pairs[] = {"schema.check", "off", NULL};
    pgw_conf *conf = it_conf(pairs);
    pgw *h;

    ASSERT_ST(PGW_OK, pgw_attach(pgtemp_conn(), conf, &h), h);
    ASSERT_ST(PGW_EMISUSE, pgw_migrate_up(h, NULL), h);
    pgw_close(h);
    h = open_schema("nowhere");
    pgw_async(h, never, NULL);
    ASSERT_ST(PGW_EMISUSE, pgw_migrate_up(h, NULL), h);
    look(h); /* blocks again */
    pgw_close(h);
    pgw_conf_free(conf);
}

/* ---- statements against the schema ---- */

/* "a bigint, b text[]" -> how many, and the types as "bigint, text[]". */
static int header_types(char *types, size_t size, const char *text, const char *key)
{
    const char *line = strstr(text, key), *end, *p;
    int count = 0;
    size_t used = 0;

    TEST_ASSERT_NOT_NULL_MESSAGE(line, text);
    line += strlen(key);
    end = strchr(line, '\n');
    types[0] = '\0';
    if (strncmp(line, "none\n", 5) == 0 || strncmp(line, "nothing\n", 8) == 0) return 0;
    for (p = line; p < end; count++) {
        const char *space = strchr(p, ' '), *comma = strchr(p, ',');

        if (comma == NULL || comma > end) comma = end;
        used += (size_t)snprintf(types + used, size - used, "%s%.*s", count > 0 ? ", " : "",
                                 (int)(comma - space - 1), space + 1);
        p = comma == end ? end : comma + 2;
    }
    return count;
}

void test_every_statement_fits_the_schema_and_its_header(void)
{
    int id;

    pgw_close(it_open());
    for (id = 0; id < (int)PGW__SQL_COUNT; id++) {
        const char *text = pgw__sql_text((pgw__sql)id), *name = pgw__sql_name((pgw__sql)id);
        char types[1000], sql[8000], expected[1000];
        int params;

        if (strstr(text, "-- returns: copy") != NULL)
            continue; /* COPY cannot be prepared; the load tests run it */
        params = strstr(text, "-- params: ") != NULL
                     ? header_types(types, sizeof(types), text, "-- params: ")
                     : 0;
        snprintf(sql, sizeof(sql), "PREPARE %s%s%s%s AS %s", name, params > 0 ? "(" : "",
                 params > 0 ? types : "", params > 0 ? ")" : "", text);
        pgtemp_exec(sql);
        snprintf(
            sql, sizeof(sql),
            "SELECT cardinality(parameter_types) FROM pg_prepared_statements WHERE name = '%s'",
            name);
        TEST_ASSERT_EQUAL_INT64_MESSAGE(params, pgtemp_number(sql), name);
        snprintf(sql, sizeof(sql),
                 "SELECT coalesce((SELECT string_agg(t::text, ', ' ORDER BY i) FROM unnest(%s) "
                 "WITH ORDINALITY u (t, i)), '')",
                 params > 0 ? "parameter_types" : "'{}'::regtype[]");
        snprintf(sql + strlen(sql), sizeof(sql) - strlen(sql),
                 " FROM pg_prepared_statements WHERE name = '%s'", name);
        snprintf(expected, sizeof(expected),
                 "SELECT string_agg(t::regtype::text, ', ' ORDER BY i) FROM "
                 "unnest(string_to_array('%s', ', ')) WITH ORDINALITY u (t, i)",
                 types);
        if (params > 0)
            TEST_ASSERT_EQUAL_STRING_MESSAGE(pgtemp_value(expected), pgtemp_value(sql), name);
    }
}
