/* Optimistic writes: no write is lost or applied twice, even if the answer to the commit is lost.
 * Longer than 600 lines: all of optimistic writes in one program, since each program costs a build
 * and a migration. */
#include "unity.h"
#include "callkit.h"
#include "pgw_all.h"
#include "oom.h"
#include "childkit.h"
#include "itpgw.h"
#include "pgtemp.h"
#include "wire.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pgw *h;
static pgw_table *t, *by_xmin, *by_uuid;
static const char *const key[] = {"a"}, *const key_columns[] = {"id"}, *const n_column[] = {"n"};

static pgw *opened_at(const char *dsn, const char *schema)
{
    return it_open_with(
        (const char *const[]){"dsn", dsn, "schema.check", "off", "schema", schema, NULL});
}

static void must(pgw_status st)
{
    TEST_ASSERT_EQUAL_STRING_MESSAGE("PGW_OK", pgw_status_name(st), pgw_error_message(h));
}

static pgw_table *described(pgw *handle, const char *version)
{
    pgw_table_spec s = PGW_TABLE_SPEC_INIT;
    pgw_table *new;

    s.table = "counter", s.key = key_columns, s.key_count = 1, s.version = version;
    TEST_ASSERT_EQUAL_STRING("", (pgw_table_open(handle, &s, &new), pgw_error_message(handle)));
    return new;
}

void setUp(void)
{
    pgtemp_migrate();
    h = it_open_bare();
    pgtemp_exec("DROP SCHEMA public CASCADE; CREATE SCHEMA public; TRUNCATE pgwork.table_operation;"
                "CREATE TABLE counter (id text PRIMARY KEY, n int DEFAULT 0, note text, v bigint "
                "NOT NULL DEFAULT 0, "
                "u uuid NOT NULL DEFAULT gen_random_uuid(), twice int GENERATED ALWAYS AS (n * 2) "
                "STORED); INSERT INTO counter VALUES ('a')");
    t = described(h, "v");
    by_xmin = described(h, NULL);
    by_uuid = described(h, "u");
}

void tearDown(void)
{
    pgw_table_free(t);
    pgw_table_free(by_xmin);
    pgw_table_free(by_uuid);
    pgw_close(h);
}

static pgw_rows *got(const pgw_table *table)
{
    pgw_rows *rows;

    must(pgw_table_get(h, table, THE_ROW(key, n_column, 1), &rows));
    return rows;
}

/* ---- update ---- */

void test_an_update_needs_the_version_that_was_read(void)
{
    const pgw_table *const modes[] = {t, by_xmin, by_uuid};

    for (size_t m = 0; m < 3; m++) {
        pgw_rows *rows = got(modes[m]);
        char next[PGW_ROW_VERSION_SIZE], last[PGW_ROW_VERSION_SIZE];

        must(pgw_table_update(h, modes[m],
                              CHANGE(key, pgw_rows_version(rows, 0), CELL("n", "1"), 1), next));
        TEST_ASSERT_NOT_EQUAL(0, strcmp(next, pgw_rows_version(rows, 0)));
        TEST_ASSERT_EQUAL(
            PGW_ECONFLICT,
            pgw_table_update(h, modes[m], CHANGE(key, pgw_rows_version(rows, 0), CELL("n", "2"), 1),
                             last));
        TEST_ASSERT_EQUAL_STRING("", last);
        must(pgw_table_update(h, modes[m], CHANGE(key, next, CELL("n", NULL), 1), NULL));
        TEST_ASSERT_EQUAL_INT64(1, pgtemp_number("SELECT count(*) FROM counter WHERE n IS NULL"));
        pgw_rows_free(rows);
    }
}

void test_a_number_at_the_end_of_its_type_begins_again(void)
{
    static const char *const ends[][4] = {
        {"smallint", "32767", "-32768", "-32767"},
        {"integer", "2147483647", "-2147483648", "-2147483647"},
        {"bigint", "9223372036854775807", "-9223372036854775808", "-9223372036854775807"},
    };

    for (size_t i = 0; i < 3; i++) {
        const pgw_cell cell = {"n", "1"};
        char sql[128], next[PGW_ROW_VERSION_SIZE];
        pgw_table *narrow;

        snprintf(sql, sizeof(sql), "ALTER TABLE counter ALTER v TYPE %s USING %s", ends[i][0],
                 ends[i][1]);
        pgtemp_exec(sql);
        narrow = described(h, "v");
        must(pgw_table_update(h, narrow, CHANGE(key, ends[i][1], &cell, 1), next));
        TEST_ASSERT_EQUAL_STRING(ends[i][2], next);
        must(pgw_table_update(h, narrow, CHANGE(key, ends[i][2], &cell, 1), next));
        TEST_ASSERT_EQUAL_STRING(ends[i][3], next);
        pgw_table_free(narrow);
    }
}

void test_a_conflict_and_a_missing_row_are_distinguished(void)
{
    static const char *const nobody[] = {"nobody"};
    pgw_rows *rows = got(t), *none = (pgw_rows *)&none;

    TEST_ASSERT_EQUAL(PGW_ENOTFOUND, pgw_table_get(h, t, THE_ROW(nobody, NULL, 0), &none));
    TEST_ASSERT_NULL(none);
    TEST_ASSERT_EQUAL(PGW_ENOTFOUND,
                      pgw_table_update(h, t, CHANGE(nobody, "0", CELL("n", "1"), 1), NULL));
    TEST_ASSERT_EQUAL(PGW_ECONFLICT,
                      pgw_table_update(h, t, CHANGE(key, "77", CELL("n", "1"), 1), NULL));
    pgtemp_exec("DELETE FROM counter");
    TEST_ASSERT_EQUAL(
        PGW_ENOTFOUND,
        pgw_table_update(h, t, CHANGE(key, pgw_rows_version(rows, 0), CELL("n", "1"), 1), NULL));
    pgw_rows_free(rows);
}

void test_a_column_that_may_not_be_written_is_named(void)
{
    static const struct {
        const char *column, *words;
    } bad[] = {{"nope", "does not exist"},
               {"v", "has a role"},
               {"twice", "is generated"},
               {NULL, "column"}};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        TEST_ASSERT_EQUAL(
            PGW_EINVAL,
            pgw_table_update(h, t, CHANGE(key, "0", CELL(bad[i].column, "1"), 1), NULL));
        TEST_ASSERT_NOT_NULL(strstr(pgw_error_message(h), bad[i].words));
    }
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_table_update(h, t, CHANGE(key, "0", NULL, 1), NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL,
                      pgw_table_update(h, t, CHANGE(key, "0", CELL("n", "1"), 0), NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL,
                      pgw_table_update(h, t, CHANGE(key, NULL, CELL("n", "1"), 1), NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL,
                      pgw_table_update(h, t, CHANGE(NULL, "0", CELL("n", "1"), 1), NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL,
                      pgw_table_update(h, t, CHANGE(key, "0", CELL("n", "one"), 1), NULL));
    TEST_ASSERT_EQUAL(
        PGW_EINVAL, pgw_table_update(h, by_xmin, CHANGE(key, "rubbish", CELL("n", "1"), 1), NULL));
}

/* ---- the version made of xmin: what it must not accept ---- */

static void version_parts(const char *version, char parts[4][40])
{
    memset(parts, 0, 4 * 40);
    for (int p = 0; p < 4; p++) {
        size_t n = strcspn(version, "/");

        TEST_ASSERT_LESS_THAN(40, n);
        memcpy(parts[p], version, n);
        version += n + (version[n] == '/');
    }
}

void test_two_writes_of_one_transaction_have_the_same_xmin_but_another_place(void)
{
    pgw_rows *first, *second;
    char a[4][40], b[4][40];

    must(pgw_txn_begin(h));
    first = got(by_xmin);
    must(pgw_table_update(h, by_xmin, CHANGE(key, pgw_rows_version(first, 0), CELL("n", "1"), 1),
                          NULL));
    pgw_rows_free(first);
    first = got(by_xmin);
    must(pgw_table_update(h, by_xmin, CHANGE(key, pgw_rows_version(first, 0), CELL("n", "2"), 1),
                          NULL));
    second = got(by_xmin);
    version_parts(pgw_rows_version(first, 0), a);
    version_parts(pgw_rows_version(second, 0), b);
    TEST_ASSERT_EQUAL_STRING(a[0], b[0]);
    TEST_ASSERT_NOT_EQUAL(0, strcmp(a[1], b[1]));
    TEST_ASSERT_EQUAL(PGW_ECONFLICT,
                      pgw_table_update(h, by_xmin,
                                       CHANGE(key, pgw_rows_version(first, 0), CELL("n", "9"), 1),
                                       NULL));
    must(pgw_txn_commit(h));
    TEST_ASSERT_EQUAL_INT64(2, pgtemp_number("SELECT n FROM counter"));
    pgw_rows_free(first);
    pgw_rows_free(second);
}

void test_a_version_of_xmin_ends_with_its_billion_transactions_and_its_timeline(void)
{
    pgw_rows *rows = got(by_xmin);
    char part[4][40], version[200];

    version_parts(pgw_rows_version(rows, 0), part);
    TEST_ASSERT_EQUAL_STRING("00000001", part[3]);
    snprintf(version, sizeof(version), "%s/%s/%lld/%s", part[0], part[1],
             atoll(part[2]) - (1LL << 30), part[3]);
    TEST_ASSERT_EQUAL(PGW_ECONFLICT,
                      pgw_table_update(h, by_xmin, CHANGE(key, version, CELL("n", "1"), 1), NULL));
    snprintf(version, sizeof(version), "%s/%s/%s/00000002", part[0], part[1], part[2]);
    TEST_ASSERT_EQUAL(PGW_ECONFLICT,
                      pgw_table_update(h, by_xmin, CHANGE(key, version, CELL("n", "1"), 1), NULL));
    snprintf(version, sizeof(version), "%s/%s/%lld/%s", part[0], part[1],
             atoll(part[2]) - (1LL << 30) + 100000000, part[3]);
    must(pgw_table_update(h, by_xmin, CHANGE(key, version, CELL("n", "1"), 1), NULL));
    pgw_rows_free(rows);
}

void test_a_rewrite_is_a_conflict_and_vacuum_and_locks_are_none(void)
{
    pgw_rows *rows = got(by_xmin);

    pgtemp_exec("VACUUM FREEZE counter");
    pgtemp_exec("SELECT FROM counter FOR UPDATE");
    must(pgw_table_update(h, by_xmin, CHANGE(key, pgw_rows_version(rows, 0), CELL("n", "1"), 1),
                          NULL));
    pgw_rows_free(rows);
    rows = got(by_xmin);
    pgtemp_exec("ALTER TABLE counter ALTER note TYPE varchar(100)");
    pgtemp_exec("ALTER TABLE counter DROP COLUMN twice, ALTER n TYPE bigint");
    TEST_ASSERT_EQUAL(PGW_ECONFLICT,
                      pgw_table_update(h, by_xmin,
                                       CHANGE(key, pgw_rows_version(rows, 0), CELL("n", "9"), 1),
                                       NULL));
    pgw_rows_free(rows);
}

/* ---- process ---- */

static int calls;

static pgw_status add_one(pgw_edit *e, void *arg)
{
    char text[32];

    calls++;
    TEST_ASSERT_NOT_NULL(pgw_edit_get(e, "n"));
    snprintf(text, sizeof(text), "%ld", strtol(pgw_edit_get(e, "n"), NULL, 10) + 1);
    return pgw_edit_set(e, "n", text);
}

static pgw_status change_nothing(pgw_edit *e, void *arg)
{
    TEST_ASSERT_EQUAL(PGW_OK, pgw_edit_set(e, "n", "5"));
    TEST_ASSERT_EQUAL_STRING("5", pgw_edit_get(e, "n"));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_edit_set(e, "n", "0"));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_edit_set(e, "note", NULL));
    return PGW_OK;
}

static pgw_status refuse(pgw_edit *e, void *arg)
{
    TEST_ASSERT_EQUAL(PGW_OK, pgw_edit_set(e, "n", "666"));
    return PGW_ECANCELED;
}

/* Somebody else writes each time. */
static pgw_status interfere(pgw_edit *e, void *arg)
{
    int *times = arg;

    if ((*times)-- > 0) pgtemp_exec("UPDATE counter SET n = n + 100, v = v + 1");
    return add_one(e, NULL);
}

void test_process_writes_what_the_function_set(void)
{
    must(pgw_table_process(h, t, AT_ROW(key, NULL), add_one, NULL));
    must(pgw_table_process(h, by_xmin, AT_ROW(key, NULL), add_one, NULL));
    TEST_ASSERT_EQUAL_STRING("2|1", pgtemp_value("SELECT n || '|' || v FROM counter"));
}

/* One id for each handle, not one for each write of a day. */
void test_an_operation_id_is_forgotten_with_the_next_one(void)
{
    pgw *other = it_open_bare();
    pgw_table_process_opts o = PGW_TABLE_PROCESS_OPTS_INIT;

    for (int i = 0; i < 5; i++) {
        must(pgw_table_process(h, t, AT_ROW(key, NULL), add_one, NULL));
        TEST_ASSERT_EQUAL_INT64(1, pgtemp_number("SELECT count(*) FROM pgwork.table_operation"));
    }
    TEST_ASSERT_EQUAL(PGW_OK, pgw_table_process(other, t, AT_ROW(key, NULL), add_one, NULL));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_table_process(other, t, AT_ROW(key, NULL), add_one, NULL));
    TEST_ASSERT_EQUAL_INT64(2, pgtemp_number("SELECT count(*) FROM pgwork.table_operation"));
    /* the caller may come back with his own: it stays */
    o.op = "6f1b1c52-9d3e-4a43-8f53-0d6a0a1d7e01";
    must(pgw_table_process(h, t, AT_ROW(key, &o), add_one, NULL));
    must(pgw_table_process(h, t, AT_ROW(key, NULL), add_one, NULL));
    must(pgw_table_process(h, t, AT_ROW(key, NULL), add_one, NULL));
    TEST_ASSERT_EQUAL_INT64(3, pgtemp_number("SELECT count(*) FROM pgwork.table_operation"));
    TEST_ASSERT_EQUAL(PGW_OUTCOME_REPEATED,
                      pgw_table_process(h, t, AT_ROW(key, &o), add_one, NULL));
    /* nor can others make it go, who know it */
    pgtemp_exec("SELECT pgwork.table_operation(gen_random_uuid(), "
                "'6f1b1c52-9d3e-4a43-8f53-0d6a0a1d7e01')");
    TEST_ASSERT_EQUAL(PGW_OUTCOME_REPEATED,
                      pgw_table_process(h, t, AT_ROW(key, &o), add_one, NULL));
    pgw_close(other);
}

/* A write that was rolled back has forgotten nothing. */
void test_a_rollback_brings_the_id_before_back(void)
{
    must(pgw_table_process(h, t, AT_ROW(key, NULL), add_one, NULL));
    must(pgw_txn_begin(h));
    must(pgw_table_process(h, t, AT_ROW(key, NULL), add_one, NULL));
    must(pgw_txn_rollback(h));
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number("SELECT count(*) FROM pgwork.table_operation"));
    must(pgw_table_process(h, t, AT_ROW(key, NULL), add_one, NULL));
    TEST_ASSERT_EQUAL_INT64(2, pgtemp_number("SELECT n FROM counter"));
}

void test_process_writes_nothing_when_nothing_changed(void)
{
    must(pgw_table_process(h, t, AT_ROW(key, NULL), change_nothing, NULL));
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT v FROM counter"));
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT count(*) FROM pgwork.table_operation"));
    TEST_ASSERT_EQUAL(PGW_ECANCELED, pgw_table_process(h, t, AT_ROW(key, NULL), refuse, NULL));
    TEST_ASSERT_NOT_EQUAL(0, pgw_error_message(h)[0]);
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT n FROM counter"));
}

static pgw_status set_and_say(pgw_edit *e, void *arg)
{
    calls++;
    TEST_ASSERT_EQUAL(PGW_OK, pgw_edit_set(e, "n", "7"));
    return *(const pgw_status *)arg;
}

/* Also those with which process itself starts over. */
void test_an_error_of_the_function_ends_it_whichever_it_is(void)
{
    static const pgw_status errors[] = {PGW_ECONFLICT, PGW_ERETRY, PGW_EUNKNOWN, PGW_ECONN,
                                        PGW_EEXISTS};

    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        pgw_status said = errors[i];

        calls = 0;
        TEST_ASSERT_EQUAL_STRING(
            pgw_status_name(said),
            pgw_status_name(pgw_table_process(h, t, AT_ROW(key, NULL), set_and_say, &said)));
        TEST_ASSERT_EQUAL(1, calls);
        TEST_ASSERT_EQUAL_STRING("the function that edits the row returned an error",
                                 pgw_error_message(h));
    }
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT n FROM counter"));
}

void test_an_outcome_of_the_function_is_returned_with_its_write(void)
{
    pgw_status said = PGW_OUTCOME_EXISTS;

    TEST_ASSERT_EQUAL_STRING(
        "PGW_OUTCOME_EXISTS",
        pgw_status_name(pgw_table_process(h, t, AT_ROW(key, NULL), set_and_say, &said)));
    TEST_ASSERT_EQUAL_INT64(7, pgtemp_number("SELECT n FROM counter"));
}

void test_process_starts_over_and_gives_up_after_a_bound(void)
{
    pgw_table_process_opts o = PGW_TABLE_PROCESS_OPTS_INIT;
    int times = 3;

    calls = 0;
    must(pgw_table_process(h, t, AT_ROW(key, NULL), interfere, &times));
    TEST_ASSERT_EQUAL(4, calls);
    TEST_ASSERT_EQUAL_INT64(301, pgtemp_number("SELECT n FROM counter"));
    o.tries = 5, times = 1000, calls = 0;
    TEST_ASSERT_EQUAL(PGW_ECONFLICT, pgw_table_process(h, t, AT_ROW(key, &o), interfere, &times));
    TEST_ASSERT_EQUAL_STRING("gave up after 5 tries: another session wrote each time",
                             pgw_error_message(h));
    TEST_ASSERT_EQUAL(5, calls);
    TEST_ASSERT_EQUAL_INT64(801, pgtemp_number("SELECT n FROM counter"));
}

/* Not by others: the table was altered since it was opened. */
void test_a_version_that_is_null_is_refused(void)
{
    pgtemp_exec("ALTER TABLE counter ALTER v DROP NOT NULL; UPDATE counter SET v = NULL");
    calls = 0;
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_table_process(h, t, AT_ROW(key, NULL), add_one, NULL));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_message(h), "version is NULL"));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_hint(h), "SET NOT NULL"));
    TEST_ASSERT_EQUAL(0, calls);
}

/* Of the row's own versions each is told anew when it is read. */
void test_a_row_that_a_trigger_keeps_as_it_is_was_not_written_by_others(void)
{
    const pgw_table *const modes[] = {t, by_xmin, by_uuid};
    int times = 3;

    pgtemp_exec("CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; "
                "END $$;"
                "CREATE TRIGGER keep BEFORE UPDATE ON counter FOR EACH ROW WHEN (new.n < 50) "
                "EXECUTE FUNCTION keep()");
    for (size_t m = 0; m < 3; m++) {
        calls = 0;
        TEST_ASSERT_EQUAL_STRING("PGW_EPERM", pgw_status_name(pgw_table_process(
                                                  h, modes[m], AT_ROW(key, NULL), add_one, NULL)));
        TEST_ASSERT_EQUAL(2, calls);
        TEST_ASSERT_NOT_NULL(strstr(pgw_error_message(h), "a trigger or a policy"));
        TEST_ASSERT_NOT_NULL(strstr(pgw_error_hint(h), "BEFORE UPDATE"));
    }
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT count(*) FROM pgwork.table_operation"));
    /* others who do get by it are a conflict as ever */
    must(pgw_table_process(h, t, AT_ROW(key, NULL), interfere, &times));
    TEST_ASSERT_EQUAL_INT64(301, pgtemp_number("SELECT n FROM counter"));
}

/* As of a foreign table whose server is away: this session stands, and nothing was written. */
void test_a_session_that_a_trigger_has_lost_is_not_ours(void)
{
    const int64_t epoch = pgw__pq_epoch(h);
    pgw_rows *rows = got(t);

    pgtemp_exec("CREATE FUNCTION ask() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE "
                "EXCEPTION 'could not connect to server \"other\"' USING ERRCODE = '08001'; END "
                "$$; CREATE TRIGGER ask BEFORE UPDATE ON counter FOR EACH ROW EXECUTE FUNCTION "
                "ask()");
    TEST_ASSERT_EQUAL_STRING(
        "PGW_EDB", pgw_status_name(pgw_table_update(
                       h, t, CHANGE(key, pgw_rows_version(rows, 0), CELL("n", "1"), 1), NULL)));
    TEST_ASSERT_EQUAL_STRING("08001", pgw_error_sqlstate(h));
    pgw_rows_free(rows);
    calls = 0;
    TEST_ASSERT_EQUAL_STRING(
        "PGW_EDB", pgw_status_name(pgw_table_process(h, t, AT_ROW(key, NULL), add_one, NULL)));
    TEST_ASSERT_EQUAL(1, calls);
    TEST_ASSERT_EQUAL_INT64(epoch, pgw__pq_epoch(h));
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT n FROM counter"));
}

void test_a_row_that_a_policy_keeps_as_it_is_was_not_written_by_others(void)
{
    pgw_table *mine;

    pgtemp_exec("DROP ROLE IF EXISTS reader; CREATE ROLE reader; GRANT USAGE ON SCHEMA public TO "
                "reader; GRANT SELECT, UPDATE ON counter TO reader;"
                "ALTER TABLE counter ENABLE ROW LEVEL SECURITY;"
                "CREATE POLICY look ON counter FOR SELECT TO reader USING (true);"
                "CREATE POLICY change ON counter FOR UPDATE TO reader USING (n > 5)");
    must(pgw__pq_text(h, "role", "SET ROLE reader", &(pgw__call){0}));
    mine = described(h, "v");
    TEST_ASSERT_EQUAL_STRING(
        "PGW_EPERM", pgw_status_name(pgw_table_process(h, mine, AT_ROW(key, NULL), add_one, NULL)));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_message(h), "a trigger or a policy"));
    pgtemp_exec("UPDATE counter SET n = 6");
    must(pgw_table_process(h, mine, AT_ROW(key, NULL), add_one, NULL));
    must(pgw__pq_text(h, "role", "RESET ROLE", &(pgw__call){0}));
    pgtemp_exec("DROP OWNED BY reader; DROP ROLE reader");
    pgw_table_free(mine);
}

void test_a_write_that_a_policy_refuses_is_not_blamed_on_the_roles_of_pgwork(void)
{
    pgw_table *mine;

    pgtemp_exec("DROP ROLE IF EXISTS reader; CREATE ROLE reader; GRANT USAGE ON SCHEMA public TO "
                "reader; GRANT SELECT, UPDATE ON counter TO reader;"
                "ALTER TABLE counter ENABLE ROW LEVEL SECURITY;"
                "CREATE POLICY mine ON counter TO reader USING (true) WITH CHECK (n < 5)");
    must(pgw__pq_text(h, "role", "SET ROLE reader", &(pgw__call){0}));
    mine = described(h, "v");
    TEST_ASSERT_EQUAL(PGW_EPERM,
                      pgw_table_update(h, mine, CHANGE(key, "0", CELL("n", "7"), 1), NULL));
    TEST_ASSERT_NOT_NULL_MESSAGE(strstr(pgw_error_message(h), "row-level security"),
                                 pgw_error_message(h));
    TEST_ASSERT_NOT_NULL_MESSAGE(strstr(pgw_error_hint(h), "the table's policies"),
                                 pgw_error_hint(h));
    TEST_ASSERT_NULL_MESSAGE(strstr(pgw_error_hint(h), "pgwork_operator"), pgw_error_hint(h));
    must(pgw__pq_text(h, "role", "RESET ROLE", &(pgw__call){0}));
    pgtemp_exec("DROP OWNED BY reader; DROP ROLE reader");
    pgw_table_free(mine);
}

static void rewrite_after(const char *how)
{
    char sql[600];

    snprintf(sql, sizeof(sql),
             "CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN UPDATE "
             "public.counter SET v = v + 1, u = gen_random_uuid(), note = ''again'' WHERE id = "
             "NEW.id; RETURN NULL; END';"
             "CREATE %s WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION again()",
             how);
    pgtemp_exec(sql);
}

/* Three writes in a row, each with the version that the one before has told. */
static void write_thrice(const pgw_table *table)
{
    pgw_rows *rows = got(table);
    char version[PGW_ROW_VERSION_SIZE];

    snprintf(version, sizeof(version), "%s", pgw_rows_version(rows, 0));
    pgw_rows_free(rows);
    for (int i = 0; i < 3; i++) {
        char next[PGW_ROW_VERSION_SIZE];

        must(pgw_table_update(h, table, CHANGE(key, version, CELL("n", "1"), 1), next));
        TEST_ASSERT_EQUAL_INT64(1, pgtemp_number("SELECT count(*) FROM counter WHERE note = "
                                                 "'again'"));
        memcpy(version, next, sizeof(version));
    }
}

void test_the_next_version_is_that_which_triggers_after_the_update_leave(void)
{
    pgw_table *traced[3];

    rewrite_after("TRIGGER again AFTER UPDATE ON counter FOR EACH ROW");
    traced[0] = described(h, "v"), traced[1] = described(h, NULL), traced[2] = described(h, "u");
    for (int i = 0; i < 3; i++) {
        write_thrice(traced[i]);
        pgw_table_free(traced[i]);
    }
}

void test_in_a_transaction_the_next_version_is_returned_and_nothing_is_committed(void)
{
    char next[PGW_ROW_VERSION_SIZE];
    pgw_table *traced;

    rewrite_after("TRIGGER again AFTER UPDATE ON counter FOR EACH ROW");
    traced = described(h, "v");
    must(pgw_txn_begin(h));
    must(pgw_table_update(h, traced, CHANGE(key, "0", CELL("n", "1"), 1), next));
    TEST_ASSERT_EQUAL_STRING("2", next);
    must(pgw_table_update(h, traced, CHANGE(key, next, CELL("n", "2"), 1), next));
    must(pgw_txn_rollback(h));
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT v FROM counter"));
    TEST_ASSERT_EQUAL(PGW_ECONFLICT,
                      pgw_table_update(h, traced, CHANGE(key, "9", CELL("n", "1"), 1), next));
    TEST_ASSERT_EQUAL_STRING("", next);
    must(pgw_table_update(h, traced, CHANGE(key, "0", CELL("n", "1"), 1), next)); /* none is open */
    pgw_table_free(traced);
}

void test_no_next_version_is_returned_where_a_deferred_trigger_may_change_it(void)
{
    char next[PGW_ROW_VERSION_SIZE] = "old";
    pgw_table *traced;

    rewrite_after("CONSTRAINT TRIGGER again AFTER UPDATE ON counter DEFERRABLE INITIALLY DEFERRED "
                  "FOR EACH ROW");
    traced = described(h, "v");
    must(pgw_table_update(h, traced, CHANGE(key, "0", CELL("n", "1"), 1), next));
    TEST_ASSERT_EQUAL_STRING("", next);
    TEST_ASSERT_EQUAL(PGW_EINVAL,
                      pgw_table_update(h, traced, CHANGE(key, next, CELL("n", "1"), 1), NULL));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_message(h), "read the row again"));
    pgw_table_free(traced);
}

/* Where the snapshot stays, the version stays with it, whoever has written. */
void test_in_a_snapshot_that_stays_a_write_of_others_is_an_error_of_the_server(void)
{
    struct pg_conn *conn = pgtemp_connect();
    const pgw_table *const modes[] = {t, by_xmin, by_uuid};
    pgw *a;

    TEST_ASSERT_EQUAL(PGW_OK, pgw_attach(conn, NULL, &a));
    for (size_t m = 0; m < 3; m++) {
        int times = 1000;

        PQclear(PQexec(conn, "BEGIN ISOLATION LEVEL REPEATABLE READ"));
        TEST_ASSERT_EQUAL_STRING(
            "PGW_ERETRY",
            pgw_status_name(pgw_table_process(a, modes[m], AT_ROW(key, NULL), interfere, &times)));
        PQclear(PQexec(conn, "ROLLBACK"));
    }
    pgw_close(a);
    PQfinish(conn);
}

static pgw_status misuse(pgw_edit *e, void *arg)
{
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_edit_set(e, "note", "x")); /* was not read */
    TEST_ASSERT_NULL(pgw_edit_get(e, "note"));
    TEST_ASSERT_NULL(pgw_edit_get(e, NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_edit_set(e, "v", "9"));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_edit_set(e, NULL, "9"));
    return pgw_edit_set(e, "twice", "9");
}

void test_process_refuses_what_cannot_be(void)
{
    static const char *const nobody[] = {"nobody"};
    pgw_table_process_opts o = PGW_TABLE_PROCESS_OPTS_INIT;

    o.columns = n_column, o.columns_count = 1;
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_table_process(h, t, AT_ROW(key, &o), misuse, NULL));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_message(h), "is generated"));
    TEST_ASSERT_EQUAL(PGW_ENOTFOUND, pgw_table_process(h, t, AT_ROW(nobody, NULL), add_one, NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_table_process(h, t, AT_ROW(key, NULL), NULL, NULL));
    o.tries = 0;
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_table_process(h, t, AT_ROW(key, &o), add_one, NULL));
    o.tries = 1, o.op = "no uuid";
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_table_process(h, t, AT_ROW(key, &o), add_one, NULL));
    pgw_async(h, (pgw_done_fn *)0x1, NULL);
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw_table_process(h, t, AT_ROW(key, NULL), add_one, NULL));
    must(pgw_table_process(h, t, AT_ROW(key, NULL), add_one, NULL));
}

void test_an_operation_is_applied_once_however_often_it_is_called(void)
{
    pgw_table_process_opts o = PGW_TABLE_PROCESS_OPTS_INIT;

    o.op = "6f1b1c52-9d3e-4a43-8f53-0d6a0a1d7e01";
    must(pgw_table_process(h, t, AT_ROW(key, &o), add_one, NULL));
    TEST_ASSERT_EQUAL(PGW_OUTCOME_REPEATED,
                      pgw_table_process(h, t, AT_ROW(key, &o), add_one, NULL));
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number("SELECT n FROM counter"));
}

void test_without_the_schema_there_are_no_operation_ids(void)
{
    pgw *plain = opened_at(pgtemp_dsn(), "not_there");
    pgw_table *table = described(plain, "v");
    pgw_table_process_opts o = PGW_TABLE_PROCESS_OPTS_INIT;

    TEST_ASSERT_EQUAL(PGW_OK, pgw_table_process(plain, table, AT_ROW(key, NULL), add_one, NULL));
    o.op = "6f1b1c52-9d3e-4a43-8f53-0d6a0a1d7e01";
    TEST_ASSERT_EQUAL(PGW_ESCHEMA, pgw_table_process(plain, table, AT_ROW(key, &o), add_one, NULL));
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number("SELECT n FROM counter"));
    pgw_table_free(table);
    pgw_close(plain);
}

/* ---- the answer to a commit is lost ---- */

/* The constraint trigger runs when all is written and the commit is under way; what it draws from
 * the sequence is not rolled back, so it shoots once. */
void test_a_session_that_ends_at_its_commit_is_repeated(void)
{
    pgtemp_exec(
        "CREATE SEQUENCE shots; CREATE FUNCTION shoot() RETURNS trigger LANGUAGE plpgsql AS $$ "
        "BEGIN"
        " IF nextval('public.shots') <= 2 THEN PERFORM pg_terminate_backend(pg_backend_pid()); "
        "PERFORM pg_sleep(10); END IF; RETURN NULL; END $$;"
        "CREATE CONSTRAINT TRIGGER shoot AFTER UPDATE ON counter DEFERRABLE INITIALLY DEFERRED FOR "
        "EACH ROW EXECUTE FUNCTION shoot()");
    calls = 0;
    must(pgw_table_process(h, t, AT_ROW(key, NULL), add_one, NULL));
    TEST_ASSERT_EQUAL(3, calls);
    TEST_ASSERT_EQUAL_STRING("1|1", pgtemp_value("SELECT n || '|' || v FROM counter"));
    /* for all we know the tries before are under way still: the id that stops them is kept */
    must(pgw_table_process(h, t, AT_ROW(key, NULL), add_one, NULL));
    TEST_ASSERT_EQUAL_INT64(2, pgtemp_number("SELECT count(*) FROM pgwork.table_operation"));
}

static wire *w;
static char cut_at;
static int cuts;

/* The next answer is that of the write. */
static pgw_status add_one_and_cut(pgw_edit *e, void *arg)
{
    const pgw_status st = add_one(e, arg);

    if (cuts > 0) wire_at(w, cut_at, 1, NULL, 0, WIRE_CUT);
    cuts--;
    return st;
}

void test_after_a_lost_answer_nothing_is_applied_twice(void)
{
    static const char messages[] = "12TDCZ"; /* of the answer to a write, in their order */
    long sum = 0;
    pgw *far;

    w = wire_open();
    far = opened_at(wire_dsn(w), "pgwork");
    for (const char *m = messages; *m != '\0'; m++) {
        for (int n = 1; n <= 3; n++) {
            const pgw_table *const modes[] = {t, by_xmin, by_uuid};

            cut_at = *m, cuts = n;
            TEST_ASSERT_EQUAL_STRING(
                "PGW_OK", pgw_status_name(pgw_table_process(far, modes[n - 1], AT_ROW(key, NULL),
                                                            add_one_and_cut, NULL)));
            TEST_ASSERT_EQUAL_INT64(++sum, pgtemp_number("SELECT n FROM counter"));
        }
    }
    TEST_ASSERT_GREATER_OR_EQUAL(18, wire_orders(w));
    pgw_close(far);
    wire_close(w);
}

static pgw_stop *stop;

static pgw_status add_one_and_stop(pgw_edit *e, void *arg)
{
    pgw_stop_notify(stop);
    return add_one_and_cut(e, arg);
}

/* Whatever ends it afterwards: that nothing was applied may not be said. */
void test_a_stop_after_a_lost_answer_leaves_it_unknown(void)
{
    pgw *far;

    w = wire_open();
    far = opened_at(wire_dsn(w), "pgwork");
    TEST_ASSERT_EQUAL(PGW_OK, pgw_stop_new(&stop));
    pgw_set_stop(far, stop);
    cut_at = 'C', cuts = 1;
    TEST_ASSERT_EQUAL_STRING(
        "PGW_EUNKNOWN",
        pgw_status_name(pgw_table_process(far, t, AT_ROW(key, NULL), add_one_and_stop, NULL)));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_message(far), "may have been applied"));
    pgw_close(far);
    pgw_stop_free(stop);
    wire_close(w);
}

static void told(pgw *handle, pgw_status st, void *arg)
{
    (void)handle;
    *(pgw_status *)arg = st;
}

void test_a_missing_row_is_reported_without_blocking(void)
{
    const char *const none[] = {"none"};
    pgw_status st = PGW_OUTCOME_AGAIN;
    pgw_rows *rows;

    pgw_async(h, told, &st);
    TEST_ASSERT_EQUAL(PGW_OUTCOME_AGAIN, pgw_table_get(h, t, THE_ROW(none, n_column, 1), &rows));
    while (st == PGW_OUTCOME_AGAIN) {
        struct pollfd p = {.fd = pgw_fd(h), .events = POLLIN};

        poll(&p, 1, 100);
        pgw_step(h);
    }
    TEST_ASSERT_EQUAL_STRING("PGW_ENOTFOUND", pgw_status_name(st));
    TEST_ASSERT_NULL(rows);
}

/* ---- several processes ---- */

enum { WRITERS = 16, INCREMENTS = 40 };

/* Each increment has an operation id of its own, so whatever happens it is called until it is known
 * to be applied. */
static int count_up(pgw *mine, int who)
{
    const pgw_table *const modes[] = {t, by_xmin, by_uuid};
    pgw_table_process_opts o = PGW_TABLE_PROCESS_OPTS_INIT;
    char op[64];

    o.op = op, o.tries = 100000;
    for (int i = 0; i < INCREMENTS; i++) {
        snprintf(op, sizeof(op), "00000000-0000-4000-8000-%06d%06d", who, i);
        for (;;) {
            const pgw_status st =
                pgw_table_process(mine, modes[(who + i) % 3], AT_ROW(key, &o), add_one, NULL);

            if (st == PGW_OK || st == PGW_OUTCOME_REPEATED) break;
            if (st != PGW_ECONN && st != PGW_EUNKNOWN) return 1;
        }
    }
    return 0;
}

/* Modes are mixed, so each version has to move with every write. */
void test_no_increment_of_16_processes_is_lost(void)
{
    pgtemp_exec(
        "CREATE FUNCTION move() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN new.v := old.v + 1; "
        "new.u := pg_catalog.gen_random_uuid(); RETURN new; END $$;"
        "CREATE TRIGGER move BEFORE UPDATE ON counter FOR EACH ROW EXECUTE FUNCTION move()");
    for (int i = 0; i < WRITERS; i++) spawn(count_up, i);
    join();
    TEST_ASSERT_EQUAL_INT64(WRITERS * INCREMENTS, pgtemp_number("SELECT n FROM counter"));
    TEST_ASSERT_EQUAL_INT64(WRITERS * INCREMENTS, pgtemp_number("SELECT v FROM counter"));
}

void test_no_write_is_lost_while_sessions_are_ended(void)
{
    int ended = 0;

    pgtemp_exec(
        "CREATE FUNCTION move() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN new.v := old.v + 1; "
        "new.u := pg_catalog.gen_random_uuid(); RETURN new; END $$;"
        "CREATE TRIGGER move BEFORE UPDATE ON counter FOR EACH ROW EXECUTE FUNCTION move()");
    for (int i = 0; i < WRITERS; i++) spawn(count_up, i);
    for (int i = 0; i < 60; i++) {
        ended += NULL !=
                 pgtemp_value(
                     "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
                     "application_name = 'pgwork' AND datname = current_database()"
                     " AND query LIKE '%UPDATE%' AND state = 'active' ORDER BY random() LIMIT 1");
        poll(NULL, 0, 10);
    }
    join();
    TEST_ASSERT_GREATER_THAN(0, ended);
    TEST_ASSERT_EQUAL_INT64(WRITERS * INCREMENTS, pgtemp_number("SELECT n FROM counter"));
    TEST_ASSERT_EQUAL_INT64(WRITERS * INCREMENTS,
                            pgtemp_number("SELECT count(*) FROM pgwork.table_operation"));
}

/* ---- in a transaction, and without memory ---- */

void test_in_a_transaction_a_process_is_part_of_it(void)
{
    must(pgw_txn_begin(h));
    must(pgw_table_process(h, t, AT_ROW(key, NULL), add_one, NULL));
    must(pgw_table_process(h, by_xmin, AT_ROW(key, NULL), add_one, NULL));
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT n FROM counter"));
    must(pgw_txn_rollback(h));
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT n FROM counter"));
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT count(*) FROM pgwork.table_operation"));
    must(pgw_txn_begin(h));
    must(pgw_table_process(h, t, AT_ROW(key, NULL), add_one, NULL));
    must(pgw_txn_commit(h));
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number("SELECT n FROM counter"));
}

void test_process_survives_the_loss_of_each_allocation(void)
{
    pgw_status st = PGW_ENOMEM;
    int n;

    tearDown();
    oom_begin();
    h = it_open_bare();
    t = described(h, "v");
    for (n = 1; st == PGW_ENOMEM; n++) {
        oom_fail(n);
        st = pgw_table_process(h, t, AT_ROW(key, NULL), add_one, NULL);
    }
    oom_fail(0);
    must(st);
    TEST_ASSERT_GREATER_THAN(5, n);
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number("SELECT n FROM counter"));
    pgw_table_free(t);
    pgw_close(h);
    oom_end();
    h = it_open_bare();
    t = described(h, "v"), by_xmin = described(h, NULL), by_uuid = described(h, "u");
}
