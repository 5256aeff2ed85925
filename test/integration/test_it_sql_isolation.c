/* Settings of roles and poolers, plans and isolation levels do not change any result. */
#include "unity.h"
#include "pgtemp.h"
#include "sqlkit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static PGconn *a;

void setUp(void)
{
    kit_begin();
    a = kit_open();
}

void tearDown(void)
{
    kit_end();
}

/* -- one diagnostics under every setting
 * ----------------------------------------------------------------
 */

/* Each step answers one value. Ids are told relative to the first (#), tokens by the table `held`,
 * which the claims fill. LIMITs that do not hold, wrong orders and wrong states all show. */
#define OF(verb, who, more)                                                              \
    "FROM (SELECT array_agg(id) AS i, array_agg(token) AS t FROM held WHERE " who ") h," \
    " pgwork." verb "('s', h.i, h.t" more ")"

static const char *const diagnostics[] = {
    "SELECT count(*) FROM pgwork.enqueue_many('s', ARRAY(SELECT to_jsonb(g) FROM "
    "generate_series(1, 40) g),"
    " priorities => ARRAY(SELECT g % 3 FROM generate_series(1, 40) g), op => "
    "'6b1f0e0a-9f3c-4a57-8a5e-222222222222')",
    "SELECT string_agg(outcome, ',') FROM pgwork.enqueue_many('s', '{1,2}', keys => '{k,k}', tags "
    "=> ARRAY['{a,\"b c\"}'])",
    "SELECT outcome FROM pgwork.enqueue('s', '{\"a\": 1.5}', 'x', decode('00ff', 'hex'), delay_ms "
    "=> 3600000, "
    "key => 'l',"
    " key_scope => 'period', key_period_ms => 3600000)",
    "SELECT outcome FROM pgwork.enqueue('s', key => 'l', key_policy => 'replace')",
    "INSERT INTO held SELECT 1, m.* FROM pgwork.claim('{s}', 7, 'w') m",
    "SELECT string_agg(concat_ws(':', id - (SELECT base FROM first), priority, attempt, payload,"
    " extract(epoch FROM lease_until - server_time)::int), ' ') FROM held",
    "INSERT INTO held SELECT 2, m.* FROM pgwork.claim('{s,t}', 12, 'w', 5000) m",
    "SELECT count(*) " OF("complete", "lot = 1", ""),
    "SELECT string_agg(DISTINCT status, ',') " OF("complete", "lot = 1", ""),
    "SELECT string_agg(DISTINCT status, ',') " OF("extend", "true", ", 60000"),
    "SELECT count(*) " OF("release", "lot = 2 AND priority = 0", ""),
    "SELECT count(*) " OF("fail", "lot = 2 AND priority > 0", ", 'boom', 0"),
    "INSERT INTO held SELECT 3, m.* FROM pgwork.claim('{s}', 13, 'w') m",
    "SELECT string_agg(concat_ws(':', id - (SELECT base FROM first), priority, attempt), ' ') FROM "
    "held WHERE lot = 3",
    "UPDATE pgwork.live_job SET lease_until = clock_timestamp() - interval '1 s' WHERE token IS "
    "NOT NULL",
    "SELECT died FROM pgwork.maintain()",
    "SELECT died FROM pgwork.reap()",
    "SELECT concat_ws(' ', ready, leased, delayed, dead, done) FROM pgwork.depth('s')",
    /* all of them one by one: when a quarantined one comes is left to chance */
    "SELECT count(*) FROM generate_series(1, 60) g, pgwork.claim('{s}', 1, 'w' || g)",
    "SELECT string_agg(status, ',') FROM pgwork.cancel('s', ARRAY[(SELECT max(id) FROM pgwork.job "
    "WHERE state = 'delayed'), 1::bigint << 50])",
    "SELECT concat_ws(' ', ready, leased, delayed, dead, done) FROM pgwork.depth('s')",
    "SELECT md5(string_agg(concat_ws(':', id - (SELECT base FROM first), state, priority, attempt, "
    "payload, error, tags::text), ' ' ORDER BY id))"
    " FROM pgwork.job",
    "SELECT concat_ws(' ', q.ready, q.dead) FROM pgwork.queue_stats q",
    "SELECT pgwork.queue_purge('s', 'all')",
};

enum { STEPS = sizeof(diagnostics) / sizeof(diagnostics[0]) };

static void begin_diagnostics(void)
{
    kit_do(a, "SELECT pgwork.queue_drop(name, true) FROM pgwork.queue");
    kit_do(a, "DROP TABLE IF EXISTS held, first");
    kit_do(a, "CREATE TABLE held AS SELECT 1 AS lot, m.* FROM pgwork.claim('{none}', 1, 'w') m; "
              "CREATE TABLE first AS"
              " SELECT nextval('pgwork.position') AS base");
    kit_do(a, "SELECT pgwork.queue_create('s', retention_ms => 0)");
}

static void tell(PGconn *conn, int step, char *text, size_t size)
{
    const char *said = kit_text(conn, "%s", diagnostics[step]);
    size_t length = strlen(text);

    snprintf(text + length, size - length, "%d: %s\n", step, said ? said : "-");
}

static const char *told_under(const char *setting)
{
    static char text[8192];
    PGconn *conn = kit_open();

    kit_do(conn, "SET jit = off"); /* forbidden plans are so dear that each would be compiled */
    *text = 0;
    begin_diagnostics();
    kit_do(conn, "%s", setting);
    for (int step = 0; step < STEPS; step++) tell(conn, step, text, sizeof(text));
    kit_close(conn);
    return text;
}

static void check_all(const char *const *settings, size_t n)
{
    char normal[8192];

    snprintf(normal, sizeof(normal), "%s", told_under("SELECT 1"));
    TEST_ASSERT_NOT_NULL_MESSAGE(strstr(normal, "\n5: 3:0:1:3:30 6:0:1:6:30 9:0"), normal);
    for (size_t i = 0; i < n; i++)
        TEST_ASSERT_EQUAL_STRING_MESSAGE(normal, told_under(settings[i]), settings[i]);
}

void test_R24_hostile_settings_change_nothing(void)
{
    static const char *const settings[] = {
        "SET default_transaction_isolation = 'repeatable read'",
        "SET default_transaction_isolation = 'serializable'; SET default_transaction_deferrable = "
        "on",
        /* what texts look like */
        "SET DateStyle = 'SQL, DMY'; SET IntervalStyle = 'sql_standard'; SET TimeZone = "
        "'Pacific/Apia'; SET bytea_output = 'escape'; SET extra_float_digits = -15; SET "
        "backslash_quote = on; SET array_nulls = off; SET client_encoding = 'LATIN1'; SET "
        "xmloption = 'document'",
        "SELECT set_config(name, CASE setting WHEN 'on' THEN 'off' ELSE 'on' END, false) FROM "
        "pg_settings WHERE name IN ('standard_conforming_strings', 'escape_string_warning') AND "
        "current_setting('server_version_num')::int < 190000", /* later ones have no choice */
        /* what statements mean */
        "SET search_path = pg_catalog, public; SET check_function_bodies = off; SET "
        "quote_all_identifiers = on; SET transform_null_equals = on; SET row_security = off; SET "
        "synchronous_commit = off; SET session_replication_role = 'replica'",
        "SET plan_cache_mode = force_custom_plan",
        "SET plan_cache_mode = force_generic_plan",
        "SET work_mem = '64kB'; SET temp_buffers = '800kB'; SET hash_mem_multiplier = 1",
        "SET jit = on; SET jit_above_cost = 0",
        "SELECT set_config(name, 'on', false) FROM pg_settings WHERE name IN "
        "('force_parallel_mode', 'debug_parallel_query'); SET max_parallel_workers_per_gather = 2; "
        "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET "
        "min_parallel_table_scan_size = 0",
        "SET from_collapse_limit = 1; SET join_collapse_limit = 1; SET geqo_threshold = 2",
        "SET random_page_cost = 1000000; SET cpu_index_tuple_cost = 1000000",
        "SET seq_page_cost = 0; SET random_page_cost = 0; SET cpu_tuple_cost = 0; SET "
        "cpu_operator_cost = 0; SET cpu_index_tuple_cost = 0",
        "SET cursor_tuple_fraction = 1; SET constraint_exclusion = on",
        "SET plpgsql.extra_errors = 'all'; SET plpgsql.extra_warnings = 'all'",
        "SET default_toast_compression = 'pglz'; SET default_statistics_target = 1; SET "
        "vacuum_freeze_min_age = 0",
        "SET lock_timeout = '30s'; SET statement_timeout = '60s'; SET "
        "idle_in_transaction_session_timeout = '30s'",
    };

    check_all(settings, sizeof(settings) / sizeof(settings[0]));
}

void test_R7_no_plan_takes_more_than_the_limit(void)
{
    PGresult *res = kit_rows(a, "SELECT format('SET %%s = off', name) FROM pg_settings WHERE name "
                                "LIKE 'enable\\_%%' AND setting = 'on'"
                                " UNION ALL SELECT format('SET %%s = on', name) FROM pg_settings "
                                "WHERE name LIKE 'enable\\_%%' AND setting = 'off'"
                                " UNION ALL SELECT string_agg(format('SET %%s = off', name), '; ') "
                                "FROM pg_settings WHERE name LIKE 'enable\\_%%'");
    const char *settings[64];
    int n = PQntuples(res);

    TEST_ASSERT_TRUE(n > 15 && n <= 64);
    for (int i = 0; i < n; i++) settings[i] = PQgetvalue(res, i, 0);
    check_all(settings, (size_t)n);
    PQclear(res);
}

/* A transaction pooler gives every statement another session, and throws none away clean. */
void test_R15_every_statement_in_another_session(void)
{
    char normal[8192], pooled[8192] = "";

    snprintf(normal, sizeof(normal), "%s", told_under("SELECT 1"));
    begin_diagnostics();
    for (int step = 0; step < STEPS; step++) {
        PGconn *conn = kit_open();

        tell(conn, step, pooled, sizeof(pooled));
        TEST_ASSERT_EQUAL_INT64(0, kit_number(conn, "SELECT count(*) FROM pg_locks WHERE locktype "
                                                    "= 'advisory' AND pid = pg_backend_pid()"));
        TEST_ASSERT_EQUAL_INT64(0, kit_number(conn, "SELECT count(*) FROM pg_prepared_statements"));
        kit_close(conn);
    }
    TEST_ASSERT_EQUAL_STRING(normal, pooled);
}

void test_a_session_that_has_forgotten_everything_claims_what_is_next(void)
{
    PGconn *b = kit_open();
    struct took jobs[40];

    kit_do(a, "SELECT pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[40]))");
    TEST_ASSERT_EQUAL_INT(10, kit_claim(a, "q", 10, jobs));
    kit_do(a, "DISCARD ALL");
    kit_do(a, "SET application_name = 'w'");
    TEST_ASSERT_EQUAL_INT(10, kit_claim(a, "q", 10, jobs + 10));
    TEST_ASSERT_EQUAL_INT(20, kit_claim(b, "q", 40, jobs + 20));
    for (int i = 1; i < 40; i++) TEST_ASSERT_GREATER_THAN_INT64(jobs[i - 1].id, jobs[i].id);
}

/* -- isolation levels
 * ------------------------------------------------------------------------------ */

struct contest {
    const char *level;
    int taken[8], retried[8], wrong[8];
    long long ids[8][400];
};

/* A query may fail with 40001, too. */
static bool nothing_left(PGconn *conn)
{
    return *kit_state(conn, "SELECT 1 / (ready = 0)::integer FROM pgwork.depth('q')") == '\0';
}

/* 40001 is an answer; anything else but jobs is not. */
static void claim_under(PGconn *conn, int i, void *ctx)
{
    struct contest *c = ctx;

    kit_do(conn, "SET default_transaction_isolation = '%s'", c->level);
    for (int k = 0; k < 3000; k++) {
        PGresult *res = PQexec(conn, "SELECT id, token FROM pgwork.claim('{q}', 3, 'w')");
        const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE);
        int got = PQntuples(res);

        if (state) {
            if (strcmp(state, "40001") == 0)
                c->retried[i]++;
            else
                c->wrong[i]++;
            PQclear(res);
            continue;
        }
        if (got == 0 && nothing_left(conn)) {
            PQclear(res);
            break;
        }
        for (int j = 0; j < got; j++) {
            long long id = strtoll(PQgetvalue(res, j, 0), NULL, 10);
            const char *said = kit_state(conn, "SELECT pgwork.complete('q', '{%lld}', '{%s}')", id,
                                         PQgetvalue(res, j, 1));

            while (strcmp(said, "40001") == 0)
                said = kit_state(conn, "SELECT pgwork.complete('q', '{%lld}', '{%s}')", id,
                                 PQgetvalue(res, j, 1));
            if (*said) c->wrong[i]++;
            c->ids[i][c->taken[i]++] = id;
        }
        PQclear(res);
    }
}

static int by_number(const void *x, const void *y)
{
    long long p = *(const long long *)x, q = *(const long long *)y;

    return (p > q) - (p < q);
}

void test_under_any_isolation_level_claims_work_or_ask_to_be_repeated(void)
{
    static const char *const levels[] = {"read committed", "repeatable read", "serializable"};
    static struct contest c;

    for (int l = 0; l < 3; l++) {
        long long all[400];
        int n = 0, retried = 0;

        memset(&c, 0, sizeof(c));
        c.level = levels[l];
        kit_do(a, "SELECT pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[300]))");
        kit_race(4, claim_under, &c);
        for (int i = 0; i < 4; i++) {
            TEST_ASSERT_EQUAL_INT(0, c.wrong[i]);
            TEST_ASSERT_TRUE(n + c.taken[i] <= 400);
            memcpy(all + n, c.ids[i], (size_t)c.taken[i] * sizeof(*all));
            n += c.taken[i];
            retried += c.retried[i];
        }
        TEST_ASSERT_EQUAL_INT(300, n);
        qsort(all, 300, sizeof(*all), by_number);
        for (int i = 1; i < 300; i++) TEST_ASSERT_NOT_EQUAL_INT64(all[i - 1], all[i]);
        if (l == 0) TEST_ASSERT_EQUAL_INT(0, retried);
        TEST_ASSERT_EQUAL_STRING("0 0 0 0 0", kit_places(a, "q"));
    }
}

void test_a_stale_snapshot_never_finishes_a_job_of_another(void)
{
    PGconn *b = kit_open();
    struct took job;

    kit_put(a, "q");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, &job));
    kit_do(a, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1"); /* sees the lease for good */
    kit_expire(b, "q");
    kit_do(b, "SELECT pgwork.reap()");
    TEST_ASSERT_EQUAL_STRING(
        "40001", kit_state(a, "SELECT pgwork.complete('q', '{%lld}', '{%s}')", job.id, job.token));
    kit_do(a, "ROLLBACK");
    TEST_ASSERT_EQUAL_STRING("1 0 0 0 0", kit_places(a, "q"));
}

void test_a_compaction_hides_nothing_from_an_older_snapshot(void)
{
    PGconn *b = kit_open();

    kit_put(a, "q");
    kit_do(a, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    kit_refused(b, "55006", "older snapshots", "SELECT pgwork.compact()");
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT count(*) FROM pgwork.job_list('q')"));
    kit_do(a, "ROLLBACK");
    kit_compact(b);
    TEST_ASSERT_EQUAL_STRING("1 0 0 0 0", kit_places(a, "q"));
}

/* A shared holder's fence is above that of any exclusive holder before, whatever the snapshot. */
void test_a_shared_lock_never_has_a_fence_from_before_an_exclusive_one(void)
{
    PGconn *b = kit_open();
    long long before, exclusive;

    before = kit_number(b, "SELECT pgwork.lock_acquire('fence', true)");
    kit_do(b, "SELECT pgwork.lock_release('fence', true)");
    kit_do(a, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class");
    exclusive = kit_number(b, "SELECT pgwork.lock_acquire_xact('fence')");
    TEST_ASSERT_GREATER_THAN_INT64(before, exclusive);
    TEST_ASSERT_EQUAL_STRING("40001",
                             kit_state(a, "SELECT pgwork.lock_acquire_xact('fence', true)"));
    kit_do(a, "ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ");
    TEST_ASSERT_GREATER_THAN_INT64(exclusive,
                                   kit_number(a, "SELECT pgwork.lock_acquire_xact('fence', true)"));
    kit_do(a, "COMMIT");
}

/* A snapshot from before a resize must not decide how many permits are out. */
void test_permits_are_not_counted_by_a_snapshot_from_before_a_resize(void)
{
    static const char out[] = "SELECT taken <= permits FROM pgwork.sema_list('r')";
    PGconn *b = kit_open();
    char first[40], second[40];

    kit_do(b, "SELECT pgwork.sema_create('r', 2)");
    snprintf(first, sizeof(first), "%s", kit_text(b, "SELECT token FROM pgwork.sema_acquire('r')"));
    snprintf(second, sizeof(second), "%s",
             kit_text(b, "SELECT token FROM pgwork.sema_acquire('r')"));
    kit_do(b, "SELECT pgwork.sema_release('r', '%s')", first);

    kit_do(a, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    kit_do(b, "SELECT pgwork.sema_resize('r', 1)");
    TEST_ASSERT_EQUAL_STRING("40001", kit_state(a, "SELECT pgwork.sema_acquire('r')"));
    kit_do(a, "ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    TEST_ASSERT_NULL(kit_text(a, "SELECT token FROM pgwork.sema_acquire('r')"));
    kit_do(a, "COMMIT");
    TEST_ASSERT_EQUAL_STRING("t", kit_text(b, out));

    /* nor does it extend a permit, or delete one that is there again */
    kit_do(a, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    kit_do(b, "SELECT pgwork.sema_resize('r', 2)");
    TEST_ASSERT_EQUAL_STRING("40001", kit_state(a, "SELECT pgwork.sema_extend('r', '%s')", second));
    kit_do(a, "ROLLBACK");
    kit_do(b, "SELECT pgwork.sema_resize('r', 1)");
    kit_do(a, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    kit_do(b, "SELECT pgwork.sema_resize('r', 2)");
    TEST_ASSERT_EQUAL_STRING("40001",
                             kit_state(a, "SELECT pgwork.sema_release('r', '%s')", second));
    kit_do(a, "ROLLBACK");
    TEST_ASSERT_EQUAL_STRING("t", kit_text(a, "SELECT pgwork.sema_release('r', '%s')", second));
    TEST_ASSERT_NOT_NULL(kit_text(a, "SELECT token FROM pgwork.sema_acquire('r', 2)"));
    kit_do(a, "SELECT pgwork.sema_drop('r', true)");
}

/* While more are out than there are, they are counted: those, too, that went out since the snapshot
 * and are not the ones it would take. */
void test_permits_in_excess_are_not_counted_by_a_snapshot(void)
{
    static const char keep_off[] = "BEGIN; SELECT FROM pgwork.permit p JOIN pgwork.semaphore s ON "
                                   "s.id = p.semaphore WHERE s.name = 'e' AND p.slot = 1 FOR "
                                   "UPDATE OF p";
    PGconn *b = kit_open(), *c = kit_open();
    char tokens[3][40];

    kit_do(b, "SELECT pgwork.sema_create('e', 3)");
    for (int i = 0; i < 3; i++)
        snprintf(tokens[i], sizeof(tokens[i]), "%s",
                 kit_text(b, "SELECT token FROM pgwork.sema_acquire('e')"));
    kit_do(b, "SELECT pgwork.sema_resize('e', 2)");
    kit_do(b, "SELECT pgwork.sema_release('e', '%s')", tokens[0]);
    kit_do(b, "SELECT pgwork.sema_release('e', '%s')", tokens[1]);
    kit_do(a, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    kit_do(c, keep_off);
    TEST_ASSERT_NOT_NULL(kit_text(b, "SELECT token FROM pgwork.sema_acquire('e')"));
    kit_do(c, "ROLLBACK");
    TEST_ASSERT_EQUAL_STRING("40001", kit_state(a, "SELECT pgwork.sema_acquire('e')"));
    kit_do(a, "ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    TEST_ASSERT_NULL(kit_text(a, "SELECT token FROM pgwork.sema_acquire('e')"));
    kit_do(a, "COMMIT");
    TEST_ASSERT_EQUAL_STRING("2 2", kit_text(b, "SELECT taken || ' ' || permits FROM "
                                                "pgwork.sema_list('e')"));
    kit_do(b, "SELECT pgwork.sema_drop('e', true)");
}

/* The caller repeats it; the schedule has no error, and does not wait. */
void test_a_schedule_is_not_to_blame_for_a_snapshot(void)
{
    static const char *const passes[] = {"cron_tick", "maintain"};
    PGconn *b = kit_open();

    kit_do(b, "SELECT pgwork.queue_create('q')");
    kit_do(b, "SELECT pgwork.cron_create('s', '* * * * *', queue => 'q', key => 'k')");
    for (int i = 0; i < 2; i++) {
        kit_do(b, "UPDATE pgwork.schedule SET base = base - interval '1 hour', next_at = "
                  "'-infinity'; DELETE FROM pgwork.tick");
        kit_do(a, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
        kit_do(b, "SELECT pgwork.enqueue('q', key => 'k')");
        TEST_ASSERT_EQUAL_STRING("40001", kit_state(a, "SELECT pgwork.%s()", passes[i]));
        kit_do(a, "ROLLBACK");
        TEST_ASSERT_NULL(kit_text(b, "SELECT error FROM pgwork.schedule"));
        TEST_ASSERT_EQUAL_STRING("", kit_state(a, "SELECT pgwork.%s()", passes[i]));
        TEST_ASSERT_EQUAL_STRING("t", kit_text(b, "SELECT count(*) = 1 FROM pgwork.tick"));
        kit_do(b, "SELECT pgwork.queue_purge('q', 'all')");
    }
    kit_do(b, "SELECT pgwork.cron_drop('s')");
}

/* What is done may have to wait for somebody who holds it; the lease of what comes begins then. */
void test_a_claim_that_had_to_wait_gives_whole_leases(void)
{
    PGconn *b = kit_open(), *c = kit_open();
    struct took job;

    kit_put(c, "q");
    kit_put(c, "q");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, &job));
    kit_do(b, "BEGIN");
    kit_do(b, "SELECT FROM pgwork.live_job FOR UPDATE");
    kit_send(a,
             "SELECT lease_until - clock_timestamp() > interval '59 s' FROM"
             " pgwork.claim('{q}', 5, 'w', 60000, '{%lld}', '{%s}') WHERE attempt > 0",
             job.id, job.token);
    kit_blocked(a, c);
    kit_sleep_ms(1500);
    kit_do(b, "COMMIT");
    TEST_ASSERT_EQUAL_STRING("t", kit_answer(a));
}

void test_complete_joins_the_callers_transaction(void)
{
    struct took job;

    kit_do(a, "CREATE TABLE IF NOT EXISTS effect (id bigint)");
    kit_put(a, "q");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, &job));
    kit_do(a, "BEGIN; INSERT INTO effect VALUES (%lld)", job.id);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &job, ""));
    kit_do(a, "ROLLBACK");
    TEST_ASSERT_EQUAL_STRING("0 1 0 0 0", kit_places(a, "q"));
    kit_do(a, "BEGIN; INSERT INTO effect VALUES (%lld)", job.id);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &job, ""));
    kit_do(a, "COMMIT");
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT count(*) FROM effect"));
    TEST_ASSERT_EQUAL_STRING("0 0 0 0 0", kit_places(a, "q"));
}

/* -- dropping -------------------------------------------------------------------------------------
 */

void test_a_queue_is_not_dropped_under_a_snapshot_that_may_miss_its_jobs(void)
{
    PGconn *b = kit_open();

    kit_do(a, "SELECT pgwork.queue_create('q')");
    kit_do(a, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    kit_do(a, "SELECT count(*) FROM pgwork.queues");
    kit_put(b, "q");
    kit_refused(a, "0A000", "repeatable read|outside of this snapshot",
                "SELECT pgwork.queue_drop('q')");
    kit_do(a, "ROLLBACK");
    kit_refused(a, "PW006", "q", "SELECT pgwork.queue_drop('q', NULL)");
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT ready FROM pgwork.depth('q')"));
    kit_do(a, "SELECT pgwork.queue_drop('q', true)");
}

void test_a_queue_that_is_being_dropped_is_created_again(void)
{
    PGconn *b = kit_open(), *watch = kit_open();

    kit_do(a, "SELECT pgwork.queue_create('q')");
    kit_do(a, "BEGIN");
    kit_do(a, "SELECT pgwork.queue_drop('q')");
    kit_send(b, "SELECT pgwork.queue_create('q', lease_ms => 5000)");
    kit_blocked(b, watch);
    kit_do(a, "COMMIT");
    kit_answer(b);
    TEST_ASSERT_EQUAL_INT64(5000,
                            kit_number(a, "SELECT lease_ms FROM pgwork.queues WHERE name = 'q'"));
}

void test_a_setting_of_a_dropped_queue_is_not_reported_as_changed(void)
{
    static const char *const calls[] = {"queue_set('q', 5000)", "queue_drain('q')",
                                        "queue_resume('q')"};
    PGconn *b = kit_open(), *watch = kit_open();
    PGresult *res;

    for (int i = 0; i < 3; i++) {
        kit_do(a, "SELECT pgwork.queue_create('q')");
        kit_do(a, "SELECT pgwork.queue_pause('q')");
        kit_do(a, "BEGIN");
        kit_do(a, "SELECT pgwork.queue_drop('q')");
        kit_send(b, "SELECT pgwork.%s", calls[i]);
        kit_blocked(b, watch);
        kit_do(a, "COMMIT");
        res = PQgetResult(b);
        TEST_ASSERT_EQUAL_STRING_MESSAGE("PW003", PQresultErrorField(res, PG_DIAG_SQLSTATE),
                                         calls[i]);
        PQclear(res);
        TEST_ASSERT_NULL(PQgetResult(b));
    }
}
