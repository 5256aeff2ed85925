/* Registered tables: the reaper frees expired rows, and a fault of one table does not stop the
 * others. Longer than 600 lines: all of registered tables in one program, since each program costs
 * a build and a migration. */
#include "unity.h"
#include "pgw_all.h"
#include "oom.h"
#include "itpgw.h"
#include "pgtemp.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static pgw *h;
static atomic_int heard; /* words about a table */
static pgw_stop *stop, *stop_when_heard;

static void hear(pgw_log_level level, const char *component, const char *message, void *arg)
{
    (void)arg, (void)level;
    if (strcmp(component, "table") == 0 && strstr(message, "`public`.`one`") != NULL) {
        atomic_fetch_add(&heard, 1);
        pgw_stop_notify(stop_when_heard);
    }
}

static pgw_conf *conf_of(void)
{
    static const char *const unchecked[] = {"schema.check", "off", NULL};
    pgw_conf *conf = it_conf(unchecked);

    pgw_conf_set_log(conf, PGW_LOG_WARN, hear, NULL);
    return conf;
}

static pgw *opened(void)
{
    pgw_conf *conf = conf_of();
    pgw *new;

    TEST_ASSERT_EQUAL_STRING("", (pgw_open(conf, &new), pgw_error_message(new)));
    pgw_conf_free(conf);
    return new;
}

static void must(pgw_status st)
{
    TEST_ASSERT_EQUAL_STRING_MESSAGE("PGW_OK", pgw_status_name(st), pgw_error_message(h));
}

static pgw_table *described(const char *name)
{
    static const char *const key[] = {"k 1", "k2"};
    pgw_table_spec s = PGW_TABLE_SPEC_INIT;
    pgw_table *t;

    s.table = name, s.key = key, s.key_count = 2;
    s.locked_by = "who", s.expires_at = "until", s.token = "token";
    must(pgw_table_open(h, &s, &t));
    return t;
}

/* Three tables with five expired rows and one leased row each. */
static void tables(void)
{
    static const char *const names[] = {"one", "Two \"2\"", "three"};

    for (size_t i = 0; i < 3; i++) {
        char sql[1024], *q = PQescapeIdentifier(pgtemp_conn(), names[i], strlen(names[i]));
        pgw_table *t;

        snprintf(sql, sizeof(sql),
                 "CREATE TABLE %s (\"k 1\" int, k2 text, who text, until timestamptz, token uuid, "
                 "PRIMARY KEY (k2, \"k 1\"));"
                 "INSERT INTO %s SELECT i, 'x', 'anna', clock_timestamp() - interval '1 s', "
                 "gen_random_uuid() FROM generate_series(1, 5) i;"
                 "INSERT INTO %s VALUES (6, 'x', 'anna', clock_timestamp() + interval '1 hour', "
                 "gen_random_uuid()), (7, 'x', NULL, NULL, NULL)",
                 q, q, q);
        pgtemp_exec(sql);
        PQfreemem(q);
        t = described(names[i]);
        must(pgw_table_register(h, t));
        must(pgw_table_register(h, t));
        pgw_table_free(t);
    }
}

void setUp(void)
{
    pgtemp_migrate();
    pgtemp_exec("DROP SCHEMA public CASCADE; CREATE SCHEMA public; TRUNCATE pgwork.leased_table, "
                "pgwork.table_operation");
    atomic_store(&heard, 0);
    h = opened();
}

void tearDown(void)
{
    pgw_close(h);
}

static int note(const pgw_table_info *info, void *arg)
{
    char *text = arg;

    snprintf(text + strlen(text), 4000 - strlen(text), "%s.%s %s %s %s %s %s\n", info->schema,
             info->table, info->locked_by, info->expires_at, info->token,
             info->reaped_us > 0 ? "reaped" : "never", info->error);
    return 0;
}

static int stop_at_once(const pgw_table_info *info, void *arg)
{
    return ++*(int *)arg;
}

/* A pass to which no table is slow: the machine may be. */
static pgw_status reap_all(int64_t *freed, int batch)
{
    pgtemp_exec("UPDATE pgwork.leased_table SET rests_until = NULL");
    return pgw_tables_reap(h, batch, freed);
}

/* Until a pass had the time to look for every row that cannot be freed: the machine may stall. */
static pgw_status reap_unhurried(int64_t *freed, int batch)
{
    pgw_status st = PGW_OK;
    bool stalled = true;
    int64_t n;

    *freed = 0;
    for (int i = 0; i < 200 && st == PGW_OK && stalled; i++) {
        const int64_t began = pgw__clock_ms();

        st = reap_all(&n, batch);
        *freed += n;
        stalled = pgw__clock_ms() - began >= 500;
    }
    return st;
}

void test_registered_tables_are_listed_and_freed(void)
{
    char list[4000] = "";
    int64_t freed;
    int seen = 0;

    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY, pgw_tables_each(h, note, list));
    must(reap_all(&freed, 100));
    TEST_ASSERT_EQUAL_INT64(0, freed);
    tables();
    must(pgw_tables_each(h, stop_at_once, &seen));
    TEST_ASSERT_EQUAL(1, seen);
    must(reap_all(&freed, 3));
    TEST_ASSERT_EQUAL_INT64(9, freed);
    must(reap_all(&freed, 3));
    TEST_ASSERT_EQUAL_INT64(6, freed);
    must(reap_all(NULL, 3));
    TEST_ASSERT_EQUAL_INT64(
        1, pgtemp_number("SELECT count(*) FROM \"Two \"\"2\"\"\" WHERE who IS NOT NULL"));
    must(pgw_tables_each(h, note, list));
    TEST_ASSERT_EQUAL_STRING("public.Two \"2\" who until token reaped \npublic.one who until token "
                             "reaped \npublic.three who until token reaped \n",
                             list);
    must(pgw_table_unregister(h, "public", "one"));
    TEST_ASSERT_EQUAL(PGW_ENOTFOUND, pgw_table_unregister(h, "public", "one"));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_table_unregister(h, NULL, "one"));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_tables_each(h, NULL, NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_tables_reap(h, 0, NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_table_register(h, NULL));
}

static pgw_status read_number(pgw *handle, const pgw__rows *rows, void *ctx)
{
    (void)handle;
    **(int64_t **)ctx = pgw__rows_int(rows, 0, 0);
    return PGW_OK;
}

/* The registry knows nothing of a condition of the lease index: then the one by holder serves. */
void test_no_reaper_reads_a_whole_table_with_a_condition(void)
{
    static const char *const key[] = {"id"};
    pgw_table_spec s = PGW_TABLE_SPEC_INIT;
    pgw_table *described_with, *registered;
    int64_t n = -1, *out = &n, freed;
    const pgw__call call = {.read = read_number, .ctx = &out, .ctx_size = sizeof(out)};

    pgtemp_exec("CREATE TABLE article (id int PRIMARY KEY, reviewed bool)");
    s.table = "article", s.key = key, s.key_count = 1, s.claimable = "reviewed IS NULL";
    s.locked_by = "who", s.expires_at = "until", s.token = "token";
    pgw_table_open(h, &s, &described_with); /* there is something to be made */
    must(pgw_table_init(h, described_with));
    pgtemp_exec("INSERT INTO article SELECT g FROM generate_series(1, 20000) g; UPDATE article SET "
                "who = 'x', until = clock_timestamp() - interval '1 s', token = gen_random_uuid() "
                "WHERE id % 5000 = 0; ANALYZE article");
    s.claimable = NULL;
    must(pgw_table_open(h, &s, &registered));
    must(pgw_txn_begin(h));
    must(pgw_table_reap(h, registered, 100, &freed));
    TEST_ASSERT_EQUAL_INT64(4, freed);
    must(pgw__pq_text(h, "scans",
                      "SELECT seq_tup_read FROM pg_stat_xact_user_tables WHERE relname "
                      "= 'article'",
                      &call));
    TEST_ASSERT_EQUAL_INT64(0, n);
    must(pgw_txn_rollback(h));
    pgw_table_free(described_with);
    pgw_table_free(registered);
}

void test_a_table_that_cannot_be_served_says_why_and_blocks_no_other(void)
{
    char list[4000] = "";
    int64_t freed;

    tables();
    pgtemp_exec("DROP TABLE one; ALTER TABLE three RENAME until TO til");
    must(reap_all(&freed, 100));
    TEST_ASSERT_EQUAL_INT64(5, freed);
    must(pgw_tables_each(h, note, list));
    TEST_ASSERT_NOT_NULL(strstr(
        list, "public.one who until token never table `public`.`one`: there is no such table\n"));
    TEST_ASSERT_NOT_NULL(strstr(list, "public.three who until token never table `public`.`three`: "
                                      "missing: `until` (expires_at)\n"));
    pgtemp_exec("ALTER TABLE three RENAME til TO until");
    must(reap_all(&freed, 100));
    TEST_ASSERT_EQUAL_INT64(5, freed);
    TEST_ASSERT_EQUAL_STRING(
        "", pgtemp_value("SELECT error FROM pgwork.leased_table WHERE table_name = 'three'"));
}

/* What a table's trigger says may be long, and of letters of several bytes: it is cut between two.
 */
void test_long_diagnostics_of_a_table_are_cut_between_letters(void)
{
    int64_t freed;

    tables();
    pgtemp_exec("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE "
                "EXCEPTION '%', repeat('\xc3\xa9', 450); END $$;"
                "CREATE FUNCTION object() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE "
                "EXCEPTION '%', '-' || repeat('\xc3\xa9', 450); END $$;"
                "CREATE TRIGGER r BEFORE UPDATE ON one FOR EACH ROW EXECUTE FUNCTION refuse();"
                "CREATE TRIGGER r BEFORE UPDATE ON three FOR EACH ROW EXECUTE FUNCTION object()");
    must(reap_unhurried(&freed, 100));
    TEST_ASSERT_EQUAL_INT64(5, freed);
    TEST_ASSERT_EQUAL_STRING(
        "t t", pgtemp_value("SELECT string_agg((length(error) BETWEEN 310 AND 330 AND error ~ '^5 "
                            "rows, the first [(]1, x[)]: -?\xc3\xa9+$')::text::char, ' ') FROM "
                            "pgwork.leased_table WHERE error <> ''"));
    for (int i = 0; i < 2; i++) { /* the same as the verb tells it */
        pgw_table *t = described(i == 0 ? "one" : "three");
        char text[1024];

        TEST_ASSERT_EQUAL(PGW_EDB, pgw_table_reap(h, t, 1, NULL));
        snprintf(text, sizeof(text), "%s", pgw_error_message(h));
        TEST_ASSERT_NULL_MESSAGE(pgw__text_fault(text, sizeof(text)), text);
        TEST_ASSERT_NOT_NULL_MESSAGE(strstr(text, " (SQLSTATE P0001)"), text);
        pgw_table_free(t);
    }
}

static long long leased_in(const char *table)
{
    char sql[100];

    snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s WHERE who IS NOT NULL", table);
    return pgtemp_number(sql);
}

static const char *error_of(const char *table)
{
    char sql[100];

    snprintf(sql, sizeof(sql), "SELECT error FROM pgwork.leased_table WHERE table_name = '%s'",
             table);
    return pgtemp_value(sql);
}

/* The row is named by its key, for whoever is to mend it, and heard of once. */
void test_a_row_that_cannot_be_freed_keeps_no_other_from_it(void)
{
    int64_t freed;

    tables();
    pgtemp_exec("ALTER TABLE one ADD CHECK (\"k 1\" <> 3 OR who IS NOT NULL)");
    must(reap_unhurried(&freed, 100));
    TEST_ASSERT_EQUAL_INT64(14, freed);
    TEST_ASSERT_EQUAL_INT64(2, leased_in("one"));
    TEST_ASSERT_EQUAL_STRING("row (3, x): new row for relation \"one\" violates check constraint "
                             "\"one_check\" (SQLSTATE 23514, constraint one_check)",
                             error_of("one"));
    pgtemp_exec("UPDATE one SET who = 'anna', until = clock_timestamp() - interval '1 s' WHERE "
                "\"k 1\" IN (4, 5)");
    must(reap_unhurried(&freed, 100));
    TEST_ASSERT_EQUAL_INT64(2, freed);
    must(reap_all(&freed, 100));
    TEST_ASSERT_EQUAL_INT64(0, freed);
    TEST_ASSERT_EQUAL_INT(1, atomic_load(&heard));
    must(pgw_tables_reap(h, 100, &freed)); /* nor is it tried each second */
    TEST_ASSERT_EQUAL_STRING(
        "t", pgtemp_value("SELECT rests_until > clock_timestamp() + interval '5 s' FROM "
                          "pgwork.leased_table WHERE table_name = 'one'"));
    pgtemp_exec("ALTER TABLE one DROP CONSTRAINT one_check");
    must(reap_all(&freed, 100));
    TEST_ASSERT_EQUAL_INT64(1, freed);
    TEST_ASSERT_EQUAL_STRING("", error_of("one"));
}

/* Also where there are several, and where they come first in every lot. */
TEST_CASE(1)
TEST_CASE(2)
TEST_CASE(3)
TEST_CASE(100)
void test_rows_that_cannot_be_freed_do_not_stand_in_the_way(int batch)
{
    int64_t freed;

    tables();
    pgtemp_exec(
        "INSERT INTO one SELECT i, 'x', 'anna', clock_timestamp() - interval '1 s', "
        "gen_random_uuid() FROM generate_series(11, 60) i;"
        "UPDATE one SET until = '2020-01-01' WHERE \"k 1\" IN (4, 30);"
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE "
        "EXCEPTION 'not this one' USING ERRCODE = CASE OLD.\"k 1\" WHEN 4 THEN '42501' WHEN 30 "
        "THEN '57014' ELSE '22023' END; END $$;"
        "CREATE TRIGGER r BEFORE UPDATE ON one FOR EACH ROW WHEN (OLD.\"k 1\" IN (4, 30, 44, 45)) "
        "EXECUTE FUNCTION refuse()");
    for (int i = 0; i < 100 && leased_in("one") > 5; i++) must(reap_all(&freed, batch));
    TEST_ASSERT_EQUAL_INT64(5, leased_in("one"));
    must(reap_unhurried(&freed, batch));
    TEST_ASSERT_NOT_NULL(strstr(error_of("one"), "(4, x): not this one (SQLSTATE 42501)"));
    if (batch == 100) TEST_ASSERT_EQUAL_INT(0, strncmp(error_of("one"), "4 rows, the first ", 18));
}

/* Nor does anybody look for it for long: then rows are taken by themselves, some of them. */
void test_the_search_for_rows_is_bounded(void)
{
    int64_t freed;

    tables();
    pgtemp_exec("CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM "
                "pg_sleep(0.3); RAISE EXCEPTION 'in the end no'; END $$;"
                "CREATE TRIGGER r BEFORE UPDATE ON one FOR EACH ROW EXECUTE FUNCTION slow()");
    must(reap_all(&freed, 1000));
    TEST_ASSERT_EQUAL_INT64(10, freed);
    TEST_ASSERT_EQUAL_INT64(6, leased_in("one"));
    TEST_ASSERT_EQUAL_STRING("5 rows, the first (1, x): in the end no (SQLSTATE P0001)",
                             error_of("one"));
    TEST_ASSERT_EQUAL_INT(1, atomic_load(&heard));
}

/* So that each pass gets somewhere, however slow the table is. */
TEST_CASE(1)
TEST_CASE(3)
void test_a_slow_table_is_freed_row_by_row(int bad)
{
    char sql[400];

    tables();
    snprintf(sql, sizeof(sql),
             "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF OLD.\"k 1\" = "
             "%d THEN PERFORM pg_sleep(0.6); RAISE EXCEPTION 'in the end no'; END IF; RETURN NEW; "
             "END $$; CREATE TRIGGER r BEFORE UPDATE ON one FOR EACH ROW EXECUTE FUNCTION slow()",
             bad);
    pgtemp_exec(sql);
    for (int i = 0; i < 10 && leased_in("one") > 2; i++) {
        const long long before = leased_in("one");

        must(reap_all(NULL, 100));
        TEST_ASSERT_LESS_THAN_INT64(before, leased_in("one"));
    }
    TEST_ASSERT_EQUAL_INT64(2, leased_in("one"));
    must(reap_all(NULL, 100));
    snprintf(sql, sizeof(sql), "row (%d, x): in the end no (SQLSTATE P0001)", bad);
    TEST_ASSERT_EQUAL_STRING(sql, error_of("one"));
}

/* One that is too slow for the time of a call, too. */
void test_a_table_whose_rows_take_longer_than_a_call_is_freed_in_smaller_lots(void)
{
    tables();
    pgtemp_exec("CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM "
                "pg_sleep(0.4); RETURN NEW; END $$;"
                "CREATE TRIGGER r BEFORE UPDATE ON one FOR EACH ROW EXECUTE FUNCTION slow()");
    pgw_set_timeout(h, 1500);
    for (int i = 0; i < 10 && leased_in("one") > 1; i++) must(reap_all(NULL, 100));
    TEST_ASSERT_EQUAL_INT64(1, leased_in("one"));
}

static void *reap_late(void *arg)
{
    must(pgw_tables_reap(h, 100, arg));
    return NULL;
}

/* They are locked with keys that the pass's snapshot does not know, or knows as another row's. */
void test_rows_that_get_other_keys_meanwhile_blame_no_trigger(void)
{
    pthread_t thread;
    int64_t freed;

    tables();
    pgtemp_exec("CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM "
                "pg_advisory_xact_lock_shared(7); RETURN NEW; END $$;"
                "CREATE TRIGGER r BEFORE UPDATE ON one FOR EACH ROW WHEN (OLD.\"k 1\" = 1) EXECUTE "
                "FUNCTION wait(); SELECT pg_advisory_lock(7)");
    TEST_ASSERT_EQUAL(0, pthread_create(&thread, NULL, reap_late, &freed));
    for (int i = 0; i < 3000; i++, poll(NULL, 0, 10))
        if (pgtemp_number("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT "
                          "granted AND database = (SELECT oid FROM pg_database WHERE datname = "
                          "current_database())") > 0)
            break;
    pgtemp_exec("UPDATE one SET \"k 1\" = 8 WHERE \"k 1\" = 5; UPDATE one SET \"k 1\" = 5 WHERE "
                "\"k 1\" = 4; SELECT pg_advisory_unlock(7)");
    pthread_join(thread, NULL);
    TEST_ASSERT_EQUAL_INT64(3 + 5 + 5, freed);
    TEST_ASSERT_EQUAL_STRING("", error_of("one"));
    must(reap_all(&freed, 100));
    TEST_ASSERT_EQUAL_INT64(2, freed);
}

/* A trigger that says nothing keeps its rows as they are, and no others. */
TEST_CASE(1)
TEST_CASE(2)
TEST_CASE(100)
void test_rows_that_a_trigger_keeps_do_not_stand_in_the_way(int batch)
{
    tables();
    pgtemp_exec(
        "UPDATE one SET until = '2020-01-01' WHERE \"k 1\" = 4;"
        "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF OLD.\"k 1\" "
        "= 2 THEN RAISE EXCEPTION 'not this one'; END IF; RETURN NULL; END $$;"
        "CREATE TRIGGER r BEFORE UPDATE ON one FOR EACH ROW WHEN (OLD.\"k 1\" IN (1, 2, 4)) "
        "EXECUTE FUNCTION keep()");
    for (int i = 0; i < 100 && leased_in("one") > 4; i++) must(reap_all(NULL, batch));
    TEST_ASSERT_EQUAL_INT64(4, leased_in("one"));
    must(reap_all(NULL, batch));
    TEST_ASSERT_NOT_NULL(strstr(error_of("one"), "a trigger prevents the update"));
}

/* A lease that was written by hand may have no token: nor do these. */
void test_rows_without_a_token_are_freed_one_by_one_too(void)
{
    tables();
    pgtemp_exec("UPDATE one SET token = NULL");
    for (int i = 0; i < 5; i++) must(reap_all(NULL, 1));
    TEST_ASSERT_EQUAL_STRING("", error_of("one"));
    TEST_ASSERT_EQUAL_INT64(1, leased_in("one"));
}

/* What is in a key goes to terminals and logs. */
void test_a_key_is_shown_without_control_characters(void)
{
    int64_t freed;

    tables();
    pgtemp_exec("UPDATE one SET k2 = E'a\\n\\x1b[31m\xc3\xa9' WHERE \"k 1\" = 3;"
                "ALTER TABLE one ADD CHECK (\"k 1\" <> 3 OR who IS NOT NULL)");
    must(reap_unhurried(&freed, 100));
    TEST_ASSERT_EQUAL_INT64(14, freed);
    TEST_ASSERT_NOT_NULL(strstr(error_of("one"), "row (3, a??[31m\xc3\xa9): "));
}

/* It speaks of another session, and nobody has asked us to stop. */
void test_a_trigger_with_the_codes_of_a_lost_session_or_a_stop_stops_nobody(void)
{
    int64_t freed;

    tables();
    pgtemp_exec("CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE "
                "EXCEPTION 'lost' USING ERRCODE = '08006'; END $$;"
                "CREATE FUNCTION cancel() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE "
                "EXCEPTION 'cancelled' USING ERRCODE = '57014'; END $$;"
                "CREATE TRIGGER r BEFORE UPDATE ON \"Two \"\"2\"\"\" FOR EACH ROW EXECUTE FUNCTION "
                "lose();"
                "CREATE TRIGGER r BEFORE UPDATE ON one FOR EACH ROW EXECUTE FUNCTION cancel()");
    must(reap_unhurried(&freed, 100));
    TEST_ASSERT_EQUAL_INT64(5, freed); /* of the last */
    TEST_ASSERT_EQUAL_STRING("5 rows, the first (1, x): lost (SQLSTATE 08006); 5 rows, the first "
                             "(1, x): cancelled (SQLSTATE 57014)",
                             pgtemp_value("SELECT string_agg(error, '; ' ORDER BY table_name) FROM "
                                          "pgwork.leased_table WHERE error <> ''"));
}

/* As under ALTER TABLE: the queues would wait for the table. */
void test_a_table_under_lock_is_left_alone_for_a_while(void)
{
    PGconn *other = pgtemp_connect();
    int64_t freed;
    pgw_status st;

    tables();
    PQclear(PQexec(other, "BEGIN; LOCK TABLE one IN ACCESS EXCLUSIVE MODE"));
    pgw_set_timeout(h, 20000);
    st = pgw_tables_reap(h, 100, &freed);
    PQfinish(other);
    must(st);
    TEST_ASSERT_EQUAL_INT64(10, freed);
    TEST_ASSERT_EQUAL_STRING(
        "t t", pgtemp_value("SELECT (rests_until > clock_timestamp() + interval '1 s')::text::char "
                            "|| ' ' || (error ~ '55P03')::text::char FROM "
                            "pgwork.leased_table WHERE table_name = 'one'"));
    must(pgw_tables_reap(h, 100, &freed));
    TEST_ASSERT_EQUAL_INT64(0, freed); /* none asks it for ten seconds */
    must(reap_all(&freed, 100));
    TEST_ASSERT_EQUAL_INT64(5, freed);
    TEST_ASSERT_EQUAL_INT64(
        0, pgtemp_number("SELECT count(*) FROM pgwork.leased_table WHERE error <> ''"));
}

/* The reaper's rights are its own: registering gives it none. */
void test_a_reaper_without_rights_on_the_table_says_so(void)
{
    int64_t freed;

    tables();
    pgtemp_exec("DROP ROLE IF EXISTS plain_reaper; CREATE ROLE plain_reaper IN ROLE pgwork_worker");
    must(pgw__pq_text(h, "role", "SET ROLE plain_reaper", &(pgw__call){0}));
    must(reap_all(&freed, 100));
    TEST_ASSERT_EQUAL_INT64(0, freed);
    TEST_ASSERT_EQUAL_INT64(3, pgtemp_number("SELECT count(*) FROM pgwork.leased_table WHERE error "
                                             "~ 'this role may not read the table'"));
    pgtemp_exec("GRANT USAGE ON SCHEMA public TO plain_reaper; GRANT SELECT, UPDATE ON one TO "
                "plain_reaper");
    must(reap_all(&freed, 100));
    TEST_ASSERT_EQUAL_INT64(5, freed);
    pgtemp_exec("GRANT SELECT, UPDATE (who, until, token) ON three TO plain_reaper");
    must(reap_all(&freed, 100));
    TEST_ASSERT_EQUAL_INT64(
        1, pgtemp_number("SELECT count(*) FROM pgwork.leased_table WHERE error ~ 'on the whole'"));
    TEST_ASSERT_EQUAL(PGW_EPERM, pgw_table_unregister(h, "public", "one"));
    must(pgw__pq_text(h, "role", "RESET ROLE", &(pgw__call){0}));
    pgtemp_exec("DROP OWNED BY plain_reaper; DROP ROLE plain_reaper");
}

/* Whoever takes the name of a table that is gone does not take the trust in it. */
void test_a_table_of_another_owner_is_left_alone_until_it_is_registered_again(void)
{
    pgw_table *t;
    int64_t freed;

    tables();
    pgtemp_exec("DROP ROLE IF EXISTS pgw_it_mallory; CREATE ROLE pgw_it_mallory;"
                "GRANT USAGE, CREATE ON SCHEMA public TO pgw_it_mallory;"
                "CREATE TABLE canary (who text); GRANT INSERT ON canary TO PUBLIC;"
                "DROP TABLE one; SET ROLE pgw_it_mallory;"
                "CREATE TABLE one (\"k 1\" int, k2 text, who text, until timestamptz, token uuid, "
                "PRIMARY KEY (k2, \"k 1\"));"
                "INSERT INTO one VALUES (1, 'x', 'anna', clock_timestamp() - interval '1 s', "
                "gen_random_uuid());"
                "CREATE FUNCTION spy() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO "
                "public.canary VALUES (current_user); RETURN new; END $$;"
                "CREATE TRIGGER spy BEFORE UPDATE ON one FOR EACH ROW EXECUTE FUNCTION spy();"
                "GRANT ALL ON one TO PUBLIC; RESET ROLE");
    must(pgw_tables_reap(h, 100, &freed));
    TEST_ASSERT_EQUAL_INT64(10, freed);
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT count(*) FROM canary"));
    TEST_ASSERT_EQUAL_STRING("one", pgtemp_value("SELECT table_name FROM pgwork.leased_table WHERE "
                                                 "error ~ 'owner .* has changed'"));
    t = described("one");
    must(pgw_table_register(h, t));
    pgw_table_free(t);
    must(pgw_tables_reap(h, 100, &freed));
    TEST_ASSERT_EQUAL_INT64(1, freed);
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number("SELECT count(*) FROM canary"));
    TEST_ASSERT_EQUAL_INT64(
        0, pgtemp_number("SELECT count(*) FROM pgwork.leased_table WHERE error <> ''"));
    pgtemp_exec("DROP OWNED BY pgw_it_mallory; DROP ROLE pgw_it_mallory");
}

static void *reap_in_thread(void *arg)
{
    *(pgw_status *)arg = pgw_tables_reap(h, 100, NULL);
    return NULL;
}

#define SPY                                                                                      \
    "CREATE TABLE canary (who text); CREATE FUNCTION spy() RETURNS trigger LANGUAGE plpgsql AS " \
    "$$ BEGIN INSERT INTO public.canary VALUES (current_user); RETURN new; END $$;"

/* Nor does it take the trust while the reaper waits for it. */
void test_a_table_that_is_exchanged_behind_the_check_is_left_alone(void)
{
    PGconn *mallory = pgtemp_connect();
    pgw_status st = PGW_OUTCOME_AGAIN;
    pthread_t thread;
    PGresult *res;

    tables();
    pgtemp_exec("DROP ROLE IF EXISTS pgw_it_mallory; CREATE ROLE pgw_it_mallory;" SPY);
    res = PQexec(mallory, "BEGIN; DROP TABLE one; CREATE TABLE one (\"k 1\" int, k2 text, who text,"
                          " until timestamptz, token uuid, PRIMARY KEY (k2, \"k 1\"));"
                          "INSERT INTO one VALUES (1, 'x', 'anna', clock_timestamp() - interval "
                          "'1 s', gen_random_uuid());"
                          "CREATE TRIGGER spy BEFORE UPDATE ON one FOR EACH ROW EXECUTE FUNCTION "
                          "spy(); ALTER TABLE one OWNER TO pgw_it_mallory");
    TEST_ASSERT_EQUAL_STRING("", PQresultErrorMessage(res));
    PQclear(res);
    TEST_ASSERT_EQUAL(0, pthread_create(&thread, NULL, reap_in_thread, &st));
    for (long long end = pgw__clock_ms() + 20000;
         pgw__clock_ms() < end &&
         pgtemp_number("SELECT count(*) FROM pg_locks WHERE relation = 'one'::regclass AND NOT "
                       "granted") == 0;)
        poll(NULL, 0, 1);
    PQclear(PQexec(mallory, "COMMIT"));
    pthread_join(thread, NULL);
    must(st);
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT count(*) FROM canary"));
    must(reap_all(NULL, 100));
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT count(*) FROM canary"));
    PQfinish(mallory);
    pgtemp_exec("DROP OWNED BY pgw_it_mallory; DROP ROLE pgw_it_mallory");
}

/* Triggers of a partition are its owner's. */
void test_a_table_with_a_partition_of_another_owner_is_left_alone(void)
{
    static const char *const key[] = {"id"};
    pgw_table_spec s = PGW_TABLE_SPEC_INIT;
    pgw_table *t;
    int64_t freed;

    pgtemp_exec("DROP ROLE IF EXISTS pgw_it_mallory; CREATE ROLE pgw_it_mallory;" SPY
                "CREATE TABLE p (id int PRIMARY KEY, who text, until timestamptz, token uuid) "
                "PARTITION BY RANGE (id); CREATE TABLE p1 PARTITION OF p DEFAULT;"
                "INSERT INTO p VALUES (1, 'x', clock_timestamp() - interval '1 s', "
                "gen_random_uuid())");
    s.table = "p", s.key = key, s.key_count = 1;
    s.locked_by = "who", s.expires_at = "until", s.token = "token";
    must(pgw_table_open(h, &s, &t));
    must(pgw_table_register(h, t));
    pgw_table_free(t);
    pgtemp_exec("CREATE TRIGGER spy BEFORE UPDATE ON p1 FOR EACH ROW EXECUTE FUNCTION spy();"
                "ALTER TABLE p1 OWNER TO pgw_it_mallory");
    must(reap_all(&freed, 100));
    TEST_ASSERT_EQUAL_INT64(0, freed);
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT count(*) FROM canary"));
    TEST_ASSERT_EQUAL_INT64(
        1, pgtemp_number(
               "SELECT count(*) FROM pgwork.leased_table WHERE error ~ 'owner .* has changed'"));
    pgtemp_exec("ALTER TABLE p1 OWNER TO CURRENT_USER");
    must(reap_all(&freed, 100));
    TEST_ASSERT_EQUAL_INT64(1, freed);
    pgtemp_exec("DROP OWNED BY pgw_it_mallory; DROP ROLE pgw_it_mallory");
}

/* Whoever registers by SQL can name anything: it is a name to us, and nothing else. */
void test_hostile_registrations_do_nothing(void)
{
    PGresult *res;

    pgtemp_exec("CREATE TABLE canary (a int);"
                "SELECT pgwork.table_register('public', 't\"; DROP TABLE canary; --', '{\"a\\\"; "
                "DROP TABLE canary; --\"}', 'a''b', 'x) OR true --', 'tok');"
                "SELECT pgwork.table_register('pg_catalog', 'pg_class', '{oid}', 'relname', "
                "'relowner', 'reltype')");
    must(reap_all(NULL, 100));
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT count(*) FROM canary"));
    TEST_ASSERT_EQUAL_INT64(
        2, pgtemp_number("SELECT count(*) FROM pgwork.leased_table WHERE error <> ''"));
    res = PQexec(pgtemp_conn(),
                 "SELECT pgwork.table_register('public', repeat('x', 64), '{a}', 'a', 'b', 'c')");
    TEST_ASSERT_EQUAL(PGRES_FATAL_ERROR, PQresultStatus(res));
    PQclear(res);
    res = PQexec(pgtemp_conn(),
                 "SELECT pgwork.table_register('public', 't', '{{a,b}}', 'a', 'b', 'c')");
    TEST_ASSERT_EQUAL_STRING("PW001", PQresultErrorField(res, PG_DIAG_SQLSTATE));
    PQclear(res);
}

void test_an_operation_without_an_id_is_refused(void)
{
    PGresult *res = PQexec(pgtemp_conn(), "SELECT pgwork.table_operation(NULL)");

    TEST_ASSERT_EQUAL_STRING("PW001", PQresultErrorField(res, PG_DIAG_SQLSTATE));
    TEST_ASSERT_EQUAL_STRING("argument op is NULL: expected a uuid",
                             PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY));
    PQclear(res);
}

void test_old_operation_ids_are_forgotten(void)
{
    pgtemp_exec("INSERT INTO pgwork.table_operation SELECT gen_random_uuid(), clock_timestamp() - "
                "i * interval '1 hour' FROM generate_series(0, 99) i");
    must(reap_all(NULL, 50));
    TEST_ASSERT_EQUAL_INT64(50, pgtemp_number("SELECT count(*) FROM pgwork.table_operation"));
    must(reap_all(NULL, 50));
    TEST_ASSERT_EQUAL_INT64(24, pgtemp_number("SELECT count(*) FROM pgwork.table_operation"));
}

void test_it_is_not_for_transactions_and_attached_handles(void)
{
    pgw *mine;

    must(pgw_txn_begin(h));
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw_tables_reap(h, 10, NULL));
    must(pgw_txn_rollback(h));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_attach(pgtemp_conn(), NULL, &mine));
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw_tables_reap(mine, 10, NULL));
    pgw_close(mine);
}

void test_a_stop_leaves_the_other_tables_to_the_next_pass(void)
{
    int64_t freed;

    tables();
    pgtemp_exec("DROP TABLE one");
    TEST_ASSERT_EQUAL(PGW_OK, pgw_stop_new(&stop_when_heard));
    pgw_set_stop(h, stop_when_heard);
    must(reap_all(&freed, 50));
    TEST_ASSERT_EQUAL_INT(1, atomic_load(&heard));
    TEST_ASSERT_EQUAL_INT64(6, pgtemp_number("SELECT count(*) FROM three WHERE who IS NOT NULL"));
    pgw_set_stop(h, NULL);
    pgw_stop_free(stop_when_heard);
    stop_when_heard = NULL;
    must(reap_all(&freed, 50));
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number("SELECT count(*) FROM three WHERE who IS NOT NULL"));
}

static void stop_at_once_more(const pgw_reap_stats *stats, void *arg)
{
    if (++*(int *)arg == 2) pgw_stop_notify(stop);
}

static pgw_status ran_twice(void)
{
    pgw_conf *conf = conf_of();
    pgw_reaper *reaper;
    pgw_status st;
    int ticks = 0;

    TEST_ASSERT_EQUAL(PGW_OK, pgw_conf_set(conf, "reaper.max_wait_ms", "10"));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_stop_new(&stop));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_reaper_new(conf, &reaper));
    pgw_reaper_on_tick(reaper, stop_at_once_more, &ticks);
    st = pgw_reaper_run(reaper, stop);
    pgw_reaper_free(reaper);
    pgw_stop_free(stop);
    pgw_conf_free(conf);
    return st;
}

/* Whoever may register a table could end every reaper, and with them what the queues need. */
void test_no_registration_ends_a_reaper(void)
{
    tables();
    pgtemp_exec("INSERT INTO pgwork.leased_table VALUES ('public', 'a', "
                "'{{a,b,c},{d,e,f},{g,h,i}}', 'who', 'until', 'token'), "
                "('public', 'b', '{}', 'who', 'until', 'token'), "
                "('public', 'c', '{k2,NULL}', 'who', 'until', 'token'); "
                "UPDATE pgwork.leased_table SET key = '{{k2,k 1}}' WHERE table_name = 'one'");
    TEST_ASSERT_EQUAL_STRING("PGW_OK", pgw_status_name(ran_twice()));
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number("SELECT count(*) FROM one WHERE who IS NOT NULL"));
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number("SELECT count(*) FROM three WHERE who IS NOT NULL"));
    TEST_ASSERT_EQUAL_STRING("a b c",
                             pgtemp_value("SELECT string_agg(table_name, ' ' ORDER BY table_name) "
                                          "FROM pgwork.leased_table WHERE error <> ''"));
    /* nor does a list that is none */
    pgtemp_exec("ALTER TABLE pgwork.leased_table ALTER reaped_at TYPE text");
    TEST_ASSERT_EQUAL_STRING("PGW_OK", pgw_status_name(ran_twice()));
    pgtemp_exec("ALTER TABLE pgwork.leased_table ALTER reaped_at TYPE timestamptz USING "
                "reaped_at::timestamptz");
}

static void *reap(void *reaper)
{
    return pgw_reaper_run(reaper, stop) == PGW_OK ? NULL : reaper;
}

void test_a_running_reaper_frees_them(void)
{
    pgw_conf *conf = conf_of();
    pgw_reaper *reaper;
    pthread_t thread;
    void *bad;

    tables();
    TEST_ASSERT_EQUAL(PGW_OK, pgw_stop_new(&stop));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_reaper_new(conf, &reaper));
    TEST_ASSERT_EQUAL(0, pthread_create(&thread, NULL, reap, reaper));
    for (int i = 0; i < 3000 && pgtemp_number("SELECT count(*) FROM one WHERE who IS NOT NULL") > 1;
         i++)
        poll(NULL, 0, 10);
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number("SELECT count(*) FROM one WHERE who IS NOT NULL"));
    pgw_stop_notify(stop);
    pthread_join(thread, &bad);
    TEST_ASSERT_NULL(bad);
    pgw_reaper_free(reaper);
    pgw_stop_free(stop);
    pgw_conf_free(conf);
}

static atomic_int ticks;

static void count_tick(const pgw_reap_stats *stats, void *arg)
{
    (void)stats, (void)arg;
    atomic_fetch_add(&ticks, 1);
}

/* A table without an index, or with such a trigger, takes a pass longer than passes are apart. */
void test_a_slow_table_does_not_starve_the_queues(void)
{
    static const char passes[] =
        "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM passes";
    pgw_conf *conf = conf_of();
    pgw_reaper *reaper;
    pthread_t thread;
    void *bad;

    tables();
    pgtemp_exec("CREATE SEQUENCE passes;"
                "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM "
                "nextval('public.passes'), pg_sleep(1.1); RETURN NULL; END $$;"
                "CREATE TRIGGER r BEFORE UPDATE ON one EXECUTE FUNCTION slow()");
    atomic_store(&ticks, 0);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_conf_set(conf, "reaper.max_wait_ms", "10"));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_stop_new(&stop));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_reaper_new(conf, &reaper));
    pgw_reaper_on_tick(reaper, count_tick, NULL);
    TEST_ASSERT_EQUAL(0, pthread_create(&thread, NULL, reap, reaper));
    while (pgtemp_number(passes) < 4 && atomic_load(&ticks) < 50) poll(NULL, 0, 10);
    pgw_stop_notify(stop);
    pthread_join(thread, &bad);
    TEST_ASSERT_NULL(bad);
    TEST_ASSERT_LESS_THAN_INT64(4, pgtemp_number(passes));
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number("SELECT count(*) FROM one WHERE who IS NOT NULL"));
    pgw_reaper_free(reaper);
    pgw_stop_free(stop);
    pgw_conf_free(conf);
}

void test_reaping_survives_the_loss_of_each_allocation(void)
{
    pgw_status st = PGW_ENOMEM;
    int n;

    tables();
    tearDown();
    oom_begin();
    h = opened();
    for (n = 1; st == PGW_ENOMEM; n++) {
        oom_fail(n);
        st = pgw_tables_reap(h, 10, NULL);
    }
    oom_fail(0);
    must(st);
    TEST_ASSERT_GREATER_THAN(20, n);
    tearDown();
    oom_end();
    TEST_ASSERT_EQUAL_INT64(
        0, pgtemp_number("SELECT count(*) FROM pgwork.leased_table WHERE error <> ''"));
    h = opened();
}

void test_no_table_rests_for_more_than_an_hour(void)
{
    tables();
    pgtemp_exec("SELECT pgwork.table_reaped(schema_name, table_name, 0, '', 9223372036854775807) "
                "FROM pgwork.leased_table");
    TEST_ASSERT_EQUAL_STRING(
        "t", pgtemp_value("SELECT bool_and(rests_until BETWEEN clock_timestamp() AND "
                          "clock_timestamp() + interval '1 h') FROM pgwork.leased_table"));
}
