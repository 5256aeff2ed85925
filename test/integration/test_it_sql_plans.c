/* The hot statements have one good plan each, whatever the statistics say. */
#include "unity.h"
#include "pgtemp.h"
#include "sqlkit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static PGconn *a;
static char plans[1 << 22];

static void set_autovacuum(const char *on)
{
    kit_do(a,
           "DO $$ DECLARE name text; BEGIN FOREACH name IN ARRAY '{live_job,delayed_job,dead_job,"
           "unique_key,admitted_job,gate_event,gate_rate,group_rule}'::text[] LOOP"
           " EXECUTE format('ALTER TABLE pgwork.%%I SET (autovacuum_enabled = %s)', name);"
           " END LOOP; END $$",
           on);
}

void setUp(void)
{
    kit_begin();
    a = kit_open();
    set_autovacuum("off"); /* statistics are as each test makes them */
}

void tearDown(void)
{
    set_autovacuum("on");
    kit_end();
}

/* -- looking at plans
 * ------------------------------------------------------------------------------ */

static void collect(void *context, const char *message)
{
    size_t length = strlen(plans);

    (void)context;
    snprintf(plans + length, sizeof(plans) - length, "%s", message);
}

/* A new session that tells the plan of every statement, also of those within functions. */
static PGconn *explaining(void)
{
    PGconn *conn = kit_open();

    kit_do(conn, "LOAD 'auto_explain'");
    kit_do(conn, "SET auto_explain.log_min_duration = 0");
    kit_do(conn, "SET auto_explain.log_nested_statements = on");
    kit_do(conn, "SET auto_explain.log_level = notice");
    kit_do(conn, "SET client_min_messages = notice");
    PQsetNoticeProcessor(conn, collect, NULL);
    *plans = 0;
    return conn;
}

static void fail_with(const char *what, const char *at)
{
    static char text[1500];
    const char *start = at;

    while (start > plans && at - start < 700) start--;
    snprintf(text, sizeof(text), "%s: %.1400s", what, start);
    TEST_FAIL_MESSAGE(text);
}

/* prune() looks for jobs whose queues are dropped between the ids of the others. */
#define OF_DROPPED_QUEUES "Index Cond: ((queue > "

/* Wherever an index is used, its condition names all these columns, unless it begins with `but`. */
static void check_index(const char *use, const char *index, const char *const *columns,
                        const char *but)
{
    const char *at = plans;
    char using[64];

    snprintf(using, sizeof(using), "%s %s ", use, index);
    while ((at = strstr(at, using))) {
        const char *cond, *end;

        at += strlen(using);
        end = strchr(at, '\n');
        cond = end ? strstr(end, "Index Cond:") : NULL;
        if (!cond || (size_t)(cond - end) != 1 + strspn(end + 1, " "))
            fail_with("no condition", at);
        if (but && !strncmp(cond, but, strlen(but))) continue;
        end = strchr(cond, '\n');
        for (int i = 0; columns[i]; i++) {
            const char *column = strstr(cond, columns[i]);

            if (!column || (end && column > end)) fail_with(columns[i], at);
        }
    }
}

/* What reads an index from its beginning, or looks for an id among the entries of others. */
static void check_lookups(void)
{
    static const char *const gate[] = {"queue", "gate", NULL}, *const key[] = {"key", NULL};
    static const char *const queue[] = {"queue", NULL}, *const at[] = {"queue", "waits", NULL};
    static const struct {
        const char *index, *const *columns;
    } lookups[] = {
        {"delayed_job_gate", gate}, {"delayed_job_pkey", queue}, {"delayed_job_due", queue},
        {"dead_job_pkey", queue},   {"admitted_job_gate", gate}, {"admitted_job_pkey", queue},
        {"gate_event_pkey", key},   {"gate_event_id", queue},    {"gate_rate_pkey", key},
        {"gate_rate_at", at},       {"gate_mark_pkey", queue},   {"group_rule_pkey", queue},
    };
    static const char *const wrong[] = {
        "Filter: (id = ",          "Filter: ((id = ",        "Seq Scan on live_job",
        "Seq Scan on delayed_job", "Seq Scan on unique_key", "Seq Scan on admitted_job",
        "Seq Scan on gate_",
    };

    for (size_t i = 0; i < sizeof(lookups) / sizeof(*lookups); i++)
        check_index("using", lookups[i].index, lookups[i].columns, OF_DROPPED_QUEUES);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        if (strstr(plans, wrong[i])) fail_with(wrong[i], strstr(plans, wrong[i]));
    TEST_ASSERT_LESS_THAN_size_t(sizeof(plans) - 1, strlen(plans)); /* nothing is cut off */
    *plans = 0;
}

static void check_plans(const char *must)
{
    static const char *const place[] = {"queue", "lane", "pos", NULL};
    static const char *const key[] = {"queue", "key", NULL};
    static const char *const id[] = {"queue", "id", NULL};
    static const char *const uses[] = {"using", "Bitmap Index Scan on"};

    for (int i = 0; i < 2; i++) {
        check_index(uses[i], "live_job_place", place, NULL);
        check_index(uses[i], "live_job_id", id, NULL);
        check_index(uses[i], "unique_key_pkey", key, NULL);
        check_index(uses[i], "delayed_job_pkey", id, NULL);
    }
    if (!strstr(plans, must)) fail_with(must, plans + strlen(plans));
    check_lookups();
}

#define PLACE "using live_job_place on live_job"
#define ID    "using live_job_id on live_job"

/* The life of jobs that share a row, and a large claim of jobs that come to share one. */
static void check_batches(PGconn *conn)
{
    struct took jobs[60];

    kit_do(a, "SELECT count(*) FROM pgwork.enqueue_many('batches', array_fill('1'::jsonb,"
              " ARRAY[240]))");
    TEST_ASSERT_EQUAL_INT(12, kit_claim(conn, "batches", 12, jobs));
    check_plans("Tid Scan on live_job");
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(conn, "extend", jobs, ""));
    check_plans(PLACE);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(conn, "complete", jobs, ""));
    check_plans(PLACE);
    TEST_ASSERT_EQUAL_STRING("gone", kit_say(conn, "complete", jobs, ""));
    check_plans(ID);
    TEST_ASSERT_EQUAL_STRING("gone", kit_say(conn, "extend", jobs, ""));
    check_plans(ID);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(conn, "fail", jobs + 1, ", 'boom', 0"));
    check_plans(PLACE);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(conn, "snooze", jobs + 2, ", 60000"));
    check_plans(PLACE);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(conn, "release", jobs + 3, ""));
    check_plans(PLACE);
    TEST_ASSERT_EQUAL_STRING("stale", kit_say(conn, "complete", jobs + 3, ""));
    check_plans(ID);
    kit_do(conn, "SELECT pgwork.cancel('batches', '{%lld,%lld,%lld}')", jobs[4].id, jobs[5].id,
           jobs[11].id + 20);
    check_plans(ID);
    kit_expire(a, "batches");
    TEST_ASSERT_EQUAL_INT64(8, kit_number(conn, "SELECT returned FROM pgwork.reap('batches')"));
    check_plans(PLACE);
    TEST_ASSERT_EQUAL_INT64(0, kit_number(conn, "SELECT returned FROM pgwork.reap()"));
    check_plans(PLACE);
    kit_do(conn, "SELECT pgwork.queue_purge('batches')");
    check_plans(PLACE);
    kit_do(a, "SELECT pgwork.enqueue('singles') FROM generate_series(1, 60)");
    TEST_ASSERT_EQUAL_INT(60, kit_claim(conn, "singles", 60, jobs));
    check_plans("Tid Scan on live_job");
    TEST_ASSERT_NULL(kit_text(conn,
                              "SELECT r.status FROM (SELECT array_agg(id) AS ids FROM pgwork.job"
                              " WHERE queue = 'singles' AND state = 'leased') j,"
                              " pgwork.complete('singles', j.ids, '{%s}') r",
                              jobs[0].token));
    *plans = 0; /* the view reads all rows */
}

/* A page and a job, of one queue and of all. */
static void check_list(PGconn *conn)
{
    static const char *const ended[] = {"queue", "id >", "id <=", NULL};
    static const char *const used[] = {"live_job_place", "live_job_id", "delayed_job_pkey",
                                       "dead_job_pkey", "done_job_pkey"};

    kit_do(conn, "SELECT * FROM pgwork.job_list(at_most => 10)");
    kit_do(conn, "SELECT * FROM pgwork.job_list('q', 'ready', '', after_id => 1)");
    kit_do(conn, "SELECT * FROM pgwork.job_list(id => 1)");
    kit_do(conn, "SELECT * FROM pgwork.job_list('batches', id => 1)");
    check_index("Index Scan using", "delayed_job_pkey", ended, NULL);
    check_index("Index Scan using", "dead_job_pkey", ended, NULL);
    check_index("Index Scan using", "done_job_pkey", ended, NULL);
    for (int i = 0; i < 5; i++)
        if (!strstr(plans, used[i])) fail_with(used[i], plans);
    if (strstr(plans, "Seq Scan on d")) fail_with("dead or done", strstr(plans, "Seq Scan on d"));
    check_plans(PLACE);
}

/* Claim, finish, cancel and enqueue, in two sessions each, with a queue that has jobs of all sorts.
 */
static void check_all(void)
{
    for (int round = 0; round < 2; round++) {
        PGconn *conn = explaining();
        struct took jobs[60];
        int got = kit_claim(conn, "q", 50, jobs);

        TEST_ASSERT_TRUE(got >= 5);
        check_plans("Tid Scan on live_job");
        TEST_ASSERT_TRUE(kit_claim(conn, "q,p", 1, jobs + got) == 1);
        check_plans("Tid Scan on live_job");
        TEST_ASSERT_EQUAL_STRING(
            "1",
            kit_text(conn,
                     "SELECT count(*) FROM pgwork.claim('{q}', 1, 'w', NULL, '{%lld}', '{%s}')",
                     jobs[5].id, jobs[5].token));
        check_plans("Tid Scan on live_job");
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(conn, "extend", jobs, ""));
        check_plans(PLACE);
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(conn, "complete", jobs, ""));
        check_plans(PLACE);
        TEST_ASSERT_EQUAL_STRING("gone", kit_say(conn, "complete", jobs, ""));
        check_plans(PLACE);
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(conn, "fail", jobs + 1, ", 'boom', 0"));
        check_plans(PLACE);
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(conn, "snooze", jobs + 2, ", 60000"));
        check_plans(PLACE);
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(conn, "release", jobs + 3, ""));
        check_plans(PLACE);
        kit_do(conn, "SELECT pgwork.cancel('q', '{%lld,%lld,%lld}')", jobs[2].id, jobs[3].id,
               jobs[4].id);
        check_plans(PLACE);
        kit_do(conn, "SELECT pgwork.enqueue('q', key => 'mine'), pgwork.enqueue('q', key => "
                     "'mine', key_policy => 'replace')");
        check_plans(PLACE);
        kit_do(conn, "SELECT pgwork.reap('p')");
        check_plans(PLACE);
        check_batches(conn);
        check_list(conn);
        kit_close(conn);
    }
}

/* 'q' with n ready jobs among n keys, half of which go at the claim; 'p' with one job. */
static void fill(int n)
{
    kit_do(a, "SELECT pgwork.enqueue('q', key => 'key ' || g, key_scope => CASE g %% 2 WHEN 0 THEN "
              "'ready' ELSE 'unfinished' END)"
              " FROM generate_series(1, 200) g");
    kit_do(a, "SELECT pgwork.enqueue('p')");
    for (int done = 0; done < n; done += 10000)
        kit_do(a,
               "SELECT count(*) FROM pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[%d]))",
               n < 10000 ? n : 10000);
    for (int done = 0; done < n / 2; done += 5000)
        kit_do(a,
               "SELECT count(*) FROM pgwork.enqueue_many('q', array_fill('1'::jsonb, '{5000}'),"
               " delays_ms => '{86400000}', keys => (SELECT array_agg('many ' || g) FROM"
               " generate_series(%d, %d) g))",
               done + 1, done + 5000);
}

static void analyze(void)
{
    kit_do(a, "ANALYZE pgwork.live_job, pgwork.delayed_job, pgwork.unique_key, pgwork.queue");
}

static void forget_statistics(void)
{
    kit_do(a, "TRUNCATE pgwork.live_job, pgwork.delayed_job, pgwork.unique_key");
    kit_do(a, "VACUUM pgwork.live_job");
    kit_do(a, "DELETE FROM pg_statistic WHERE starelid::regclass::text ~ '^pgwork\\.'");
}

void test_F54_plans_are_good_without_statistics(void)
{
    forget_statistics();
    fill(500);
    check_all();
}

void test_F54_with_statistics_of_an_empty_table(void)
{
    forget_statistics();
    kit_do(a, "SELECT pgwork.queue_create('q')");
    analyze();
    fill(60000);
    check_all();
}

void test_F54_with_fresh_statistics_of_many_rows_and_of_rows_long_gone(void)
{
    forget_statistics();
    fill(60000);
    analyze();
    check_all();
    kit_do(a, "SELECT pgwork.queue_purge('q', 'all')");
    fill(300);
    check_all();
}

/* A session keeps its plans: those made on an empty table serve when it has grown. */
void test_F54_with_plans_made_when_the_table_was_empty(void)
{
    PGconn *conn = explaining();
    struct took jobs[10];

    forget_statistics();
    kit_do(a, "SELECT pgwork.queue_create('q')");
    kit_do(a, "VACUUM pgwork.live_job"); /* known to be empty */
    TEST_ASSERT_EQUAL_INT(0, kit_claim(conn, "q", 10, jobs));
    kit_do(conn, "SELECT * FROM pgwork.job_list()");
    check_batches(conn);
    kit_put(conn, "q");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(conn, "q", 10, jobs));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(conn, "complete", jobs, ""));
    fill(20000);
    *plans = 0;
    TEST_ASSERT_EQUAL_INT(10, kit_claim(conn, "q", 10, jobs));
    check_plans("Tid Scan on live_job");
    for (int i = 0; i < 5; i++) {
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(conn, "complete", jobs + i, ""));
        check_plans(PLACE);
    }
    check_batches(conn);
    check_list(conn);
}

/* -- groups, limits, rates and semaphores -------------------------------------------------------
 */

/* The queues g (groups), l (groups, a limit and a rate) and s (groups and a semaphore). */
static void create_gated_queues(void)
{
    kit_do(a, "SELECT pgwork.sema_create('sem', 1000)");
    kit_do(a, "SELECT pgwork.queue_create(q, backoff_ms => 0) FROM unnest('{g,l,s}'::text[]) q");
    kit_do(a, "SELECT pgwork.queue_limit('l', 1000), pgwork.queue_rate('l', 1000),"
              " pgwork.group_rate('l', NULL, 1000)");
    kit_do(a, "SELECT pgwork.queue_semaphore('s', 'sem')");
}

static void fill_gated(int n)
{
    kit_do(a,
           "SELECT count(*) FROM unnest('{g,l,s}'::text[]) q CROSS JOIN LATERAL"
           " pgwork.enqueue_many(q, array_fill('1'::jsonb, ARRAY[%d]), grps => ARRAY("
           " SELECT 'g' || i / 2 FROM generate_series(1, %d) i))",
           n, n);
}

/* Claims, finishes and a pass in a session that has plans or makes them now. */
static void check_gated(PGconn *conn)
{
    static const char *const queues[] = {"g", "l", "s"};
    struct took jobs[12];

    for (int i = 0; i < 3; i++) {
        int got = kit_claim(conn, queues[i], 12, jobs);

        check_lookups();
        if (got > 2) {
            kit_say(conn, "complete", jobs, "");
            check_lookups();
            kit_say(conn, "fail", jobs + 1, ", 'boom', 0");
            check_lookups();
            kit_say(conn, "release", jobs + 2, "");
            check_lookups();
        }
        kit_do(conn, "SELECT * FROM pgwork.group_list('%s', at_most => 5)", queues[i]);
        check_lookups();
    }
    kit_do(conn, "SELECT pgwork.maintain()");
    check_lookups();
}

static void drop_gated_queues(void)
{
    kit_do(a, "SELECT pgwork.queue_drop(q, true) FROM unnest('{g,l,s}'::text[]) q");
    kit_do(a, "SELECT pgwork.sema_drop('sem', true)");
    kit_do(a, "VACUUM ANALYZE pgwork.gate_event, pgwork.gate_rate, pgwork.admitted_job,"
              " pgwork.delayed_job, pgwork.dead_job, pgwork.group_rule");
}

/* Seen: a claim of 46 s, whose plan had been made for an empty table. */
void test_lookups_of_gates_do_not_depend_on_statistics(void)
{
    PGconn *old = explaining();

    create_gated_queues();
    drop_gated_queues(); /* the tables are known to be empty */
    create_gated_queues();
    fill_gated(1);
    check_gated(old);
    fill_gated(5000);
    check_gated(old);
    check_gated(explaining());
    kit_do(a, "ANALYZE pgwork.gate_event, pgwork.gate_rate, pgwork.admitted_job,"
              " pgwork.delayed_job, pgwork.group_rule");
    check_gated(old);
    check_gated(explaining());
    drop_gated_queues();
}

/* -- HOT updates ---------------------------------------------------------------------------------
 */

/* Updates of a table so far, times a million, plus those of them that were HOT. */
static long long updates(const char *table)
{
    kit_do(a, "SELECT pg_stat_force_next_flush()");
    return kit_number(a,
                      "SELECT n_tup_upd * 1000000 + n_tup_hot_upd FROM pg_stat_user_tables"
                      " WHERE relid = 'pgwork.%s'::regclass",
                      table);
}

/* Otherwise claims would write to the indexes. (A few rows may find their page full.) */
static void check_hot(const char *jobs, int n)
{
    static struct took got[100];
    long long before, after;

    forget_statistics(); /* and rows */
    kit_do(a, "%s", jobs);
    before = updates("live_job");
    kit_do(a, "SET application_name = 'a-host-with-a-name:1234567'");
    for (int i = 0; i < 100; i++) TEST_ASSERT_EQUAL_INT(n, kit_claim(a, "q", n, got));
    after = updates("live_job");
    TEST_ASSERT_EQUAL_INT64(100, after / 1000000 - before / 1000000);
    TEST_ASSERT_GREATER_OR_EQUAL_INT64(95, after % 1000000 - before % 1000000);
}

void test_claims_are_hot_updates(void)
{
    check_hot("SELECT pgwork.enqueue('q', '1') FROM generate_series(1, 100)", 1);
    check_hot("SELECT count(*) FROM pgwork.enqueue_many('q', array_fill('1'::jsonb, '{10000}'))",
              100);
}

/* A batch is extended again and again while it is worked on. */
void test_extends_of_batches_are_hot_updates(void)
{
    static const int sizes[] = {20, 100};
    static struct took jobs[100];
    long long before, after;

    for (int i = 0; i < 2; i++) {
        int n = sizes[i];

        forget_statistics();
        kit_do(a, "SELECT pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[%d]))", n);
        TEST_ASSERT_EQUAL_INT(n, kit_claim(a, "q", n, jobs));
        before = updates("live_job");
        for (int k = 0; k < 100; k++)
            TEST_ASSERT_EQUAL_INT64(
                n, kit_number(a,
                              "SELECT count(*) FROM (SELECT array_agg(id) AS ids FROM pgwork.job)"
                              " j, pgwork.extend('q', j.ids, '{%s}') e WHERE e.status = 'ok'",
                              jobs[0].token));
        after = updates("live_job");
        TEST_ASSERT_EQUAL_INT64(100, after / 1000000 - before / 1000000);
        /* not all: a page is only pruned when no snapshot of another program can see what is dead
         */
        TEST_ASSERT_GREATER_OR_EQUAL_INT64(50, after % 1000000 - before % 1000000);
    }
}
