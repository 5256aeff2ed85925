/* The hot statements have one good plan each, whatever the planner believes about the tables. */
#include "unity.h"
#include "pgtemp.h"
#include "sqlkit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static PGconn *a;
static char plans[1 << 19];

static void set_autovacuum(const char *on)
{
    kit_do(a,
           "ALTER TABLE pgwork.live_job SET (autovacuum_enabled = %s);"
           "ALTER TABLE pgwork.delayed_job SET (autovacuum_enabled = %s);"
           "ALTER TABLE pgwork.unique_key SET (autovacuum_enabled = %s);"
           "ALTER TABLE pgwork.pack SET (autovacuum_enabled = %s);"
           "ALTER TABLE pgwork.pack_out SET (autovacuum_enabled = %s)",
           on, on, on, on, on);
}

void setUp(void)
{
    kit_begin();
    kit_few(1);
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

/* Wherever an index is used, its condition names all these columns. */
static void check_index(const char *use, const char *index, const char *const *columns)
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
        end = strchr(cond, '\n');
        for (int i = 0; columns[i]; i++) {
            const char *column = strstr(cond, columns[i]);

            if (!column || (end && column > end)) fail_with(columns[i], at);
        }
    }
}

/* A pack is found by its number, or, by the id of a job, among all of its queue. */
static void check_pack_index(const char *use)
{
    char using[64];

    snprintf(using, sizeof(using), "%s pack_pkey ", use);
    for (const char *at = plans; (at = strstr(at, using)); at++) {
        const char *cond = strstr(at, "Index Cond:"), *end = cond ? strchr(cond, '\n') : NULL;
        const char *number = cond ? strstr(cond, "number") : NULL;
        const char *queue = cond ? strstr(cond, "queue") : NULL;
        const char *range = end ? strstr(end, "first_id") : NULL;

        if (!end) fail_with("no condition", at);
        if (!queue || queue > end) fail_with("no queue", at);
        if (number && number < end) continue;
        if (!range || memchr(end + 1, '\n', (size_t)(range - end - 1)))
            fail_with("neither number nor id", at);
    }
}

static void check_plans(const char *must)
{
    static const char *const tables[] = {"live_job", "delayed_job", "unique_key", "pack p",
                                         "pack_out"};
    static const char *const place[] = {"queue", "lane", "pos", NULL};
    static const char *const head[] = {"queue", "lane", NULL}; /* with a limit of one */
    static const char *const key[] = {"queue", "key", NULL};
    static const char *const moved[] = {"queue", "id", NULL};
    static const char *const out[] = {"queue", "number", NULL};
    static const char *const uses[] = {"using", "Bitmap Index Scan on"};
    char scan[64];

    for (int i = 0; i < 5; i++) {
        snprintf(scan, sizeof(scan), "Seq Scan on %s", tables[i]);
        if (strstr(plans, scan)) fail_with(scan, strstr(plans, scan));
    }
    check_index("Index Scan using", "live_job_bundle", place); /* whether there are any: "Only" */
    for (int i = 0; i < 2; i++) {
        check_index(uses[i], "live_job_place", strstr(plans, "l (lane, i)") ? head : place);
        check_index(uses[i], "unique_key_pkey", key);
        check_index(uses[i], "live_job_moved", moved);
        check_index(uses[i], "delayed_job_pkey", moved);
        check_index(uses[i], "pack_out_pkey", out);
        check_pack_index(uses[i]);
    }
    if (!strstr(plans, must)) fail_with(must, plans + strlen(plans));
    *plans = 0;
}

#define PLACE  "using live_job_place on live_job"
#define BUNDLE "using live_job_bundle on live_job"
#define PACK   "using pack_pkey on pack"
#define OUT    "using pack_out_pkey on pack_out"

/* The life of two packs among many: some jobs of the first, all of the second. */
static void check_packs(PGconn *conn)
{
    struct took jobs[12];
    long long number;

    TEST_ASSERT_EQUAL_INT(12, kit_claim(conn, "packs", 12, jobs));
    check_plans("Insert on pack");
    number = kit_number(a, "SELECT pgwork.token_number('%s')", jobs[11].token);
    TEST_ASSERT_EQUAL_INT64(31, number & 31);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(conn, "extend", jobs, ""));
    check_plans(PACK);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(conn, "complete", jobs, ""));
    check_plans("Insert on pack_out");
    TEST_ASSERT_EQUAL_STRING("gone", kit_say(conn, "complete", jobs, ""));
    check_plans(PACK);
    TEST_ASSERT_EQUAL_STRING("gone", kit_say(conn, "extend", jobs, ""));
    check_plans(OUT);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(conn, "fail", jobs + 1, ", 'boom', 0"));
    check_plans(PACK);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(conn, "snooze", jobs + 2, ", 60000"));
    check_plans(PACK);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(conn, "release", jobs + 3, ""));
    check_plans(PACK);
    TEST_ASSERT_EQUAL_STRING("stale", kit_say(conn, "complete", jobs + 3, ""));
    check_plans(PACK);
    kit_do(conn, "SELECT pgwork.cancel('packs', '{%lld,%lld}')", jobs[4].id, jobs[5].id);
    check_plans(OUT);
    kit_do(a,
           "UPDATE pgwork.pack SET lease_until = now() - interval '1 s', ends = NULL WHERE number ="
           " %lld AND queue = (SELECT id FROM pgwork.queue WHERE name = 'packs')",
           number >> 5);
    TEST_ASSERT_EQUAL_INT64(8, kit_number(conn, "SELECT returned FROM pgwork.reap('packs')"));
    check_plans(OUT);
    TEST_ASSERT_EQUAL_INT64(0, kit_number(conn, "SELECT returned FROM pgwork.reap()"));
    check_plans(PACK);
    kit_do(conn, "SELECT pgwork.queue_purge('packs')");
    *plans = 0;
    kit_do(a,
           "SELECT count(*) FROM pgwork.enqueue_many('packs', array_fill('1'::jsonb, ARRAY[24]))");
    for (int i = 0; i < 2; i++) { /* all at once; and one of two in one call */
        TEST_ASSERT_EQUAL_INT(12, kit_claim(conn, "packs", 12, jobs));
        check_plans("Insert on pack");
        TEST_ASSERT_NULL(kit_text(
            conn,
            "SELECT status FROM pgwork.complete('packs', '%s', array_fill('%s'::uuid, ARRAY[12]))",
            kit_text(a, "SELECT ids FROM pgwork.pack WHERE token = '%s'", jobs[0].token),
            jobs[0].token));
        check_plans("Delete on pack");
    }
    kit_do(a,
           "SELECT count(*) FROM pgwork.enqueue_many('packs', array_fill('1'::jsonb, ARRAY[24]))");
}

/* A bundle that is claimed as it is, one that is opened, and a job of one that is cancelled. */
static void check_bundles(PGconn *conn)
{
    kit_do(a, "SELECT pgwork.queue_create('bundles', bulk => true)");
    kit_do(a, "SELECT pgwork.queue_purge('bundles')");
    kit_do(a, "SELECT count(*) FROM pgwork.enqueue_many('bundles', array_fill('1'::jsonb,"
              " ARRAY[1000]))");
    TEST_ASSERT_EQUAL_INT64(
        200, kit_number(conn, "SELECT count(*) FROM pgwork.claim('{bundles}', 200, 'w')"));
    check_plans(BUNDLE);
    TEST_ASSERT_EQUAL_INT64(
        1, kit_number(conn, "SELECT count(*) FROM pgwork.claim('{bundles}', 1, 'w')"));
    check_plans(BUNDLE);
    TEST_ASSERT_EQUAL_STRING("cancelled",
                             kit_text(conn, "SELECT status FROM pgwork.cancel('bundles', '{%lld}')",
                                      kit_number(a, "SELECT all_ids[9] FROM pgwork.live_job"
                                                    " WHERE jobs = 100 LIMIT 1")));
    check_plans(BUNDLE);
}

/* A page and a job, of one queue and of all; a bundle is passed over without a visit to it. */
static void check_list(PGconn *conn)
{
    static const char *const bundle[] = {"queue", "lane", "pos", "last_id", NULL};
    static const char *const ended[] = {"queue", "id >", "id <=", NULL};
    static const char *const used[] = {"live_job_place",   "live_job_moved", "live_job_bundle",
                                       "delayed_job_pkey", "dead_job_pkey",  "done_job_pkey"};

    kit_do(conn, "SELECT * FROM pgwork.job_list(at_most => 10)");
    kit_do(conn, "SELECT * FROM pgwork.job_list('q', 'ready', '', after_id => 1)");
    kit_do(conn, "SELECT * FROM pgwork.job_list(id => 1)");
    kit_do(conn, "SELECT * FROM pgwork.job_list('bundles', id => 1)");
    check_index("Index Scan using", "live_job_bundle", bundle);
    check_index("Index Scan using", "delayed_job_pkey", ended);
    check_index("Index Scan using", "dead_job_pkey", ended);
    check_index("Index Scan using", "done_job_pkey", ended);
    for (int i = 0; i < 6; i++)
        if (!strstr(plans, used[i])) fail_with(used[i], plans);
    if (strstr(plans, "Seq Scan on d")) fail_with("dead or done", strstr(plans, "Seq Scan on d"));
    check_plans(PACK);
}

/* Completes a job by a claim of n that goes the short way; done is what it has got first. A loaded
 * machine may need some tries: what a short claim needs to know is good for 100 ms. */
static void claim_short(PGconn *conn, int n, struct took *done)
{
    for (int i = 0; i < 50 && !strstr(plans, "CTE d"); i++) {
        *plans = 0;
        snprintf(
            done->token, sizeof(done->token), "%s",
            kit_text(conn,
                     "SELECT min(c.token::text)"
                     " FROM (SELECT set_config(pgwork._short('q'), (ARRAY[(extract(epoch FROM"
                     " clock_timestamp()) * 1000)::bigint + 90, q.id, 1023, 0] ||"
                     " pgwork._lanes(1023)::bigint[])::text, false) AS made"
                     " FROM pgwork.queue q WHERE q.name = 'q' OFFSET 0) s,"
                     " pgwork.claim('{q}', %d, left(s.made, 1) || 'w', NULL, '{%lld}', '{%s}') c"
                     " WHERE c.attempt > 0",
                     n, done->id, done->token));
        done->id = kit_number(a, "SELECT coalesce(id, pos) FROM pgwork.live_job WHERE token = '%s'",
                              done->token);
    }
    check_plans("CTE d");
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
        for (int n = 1; n <= 3; n += 2) {
            TEST_ASSERT_EQUAL_INT(1, kit_claim(conn, "q", 1, jobs + got));
            *plans = 0;
            claim_short(conn, n, jobs + got);
        }
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
        check_packs(conn);
        check_bundles(conn);
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
    kit_do(a, "SELECT count(*) FROM pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[%d]))",
           n);
    kit_do(a,
           "INSERT INTO pgwork.unique_key SELECT q.id, 'many ' || g, 0 FROM pgwork.queue q, "
           "generate_series(1, %d) g ON CONFLICT DO NOTHING",
           n);
    kit_do(a,
           "INSERT INTO pgwork.delayed_job (run_at, queue, priority) SELECT now() + '1 day', q.id, "
           "0 FROM pgwork.queue q, generate_series(1, %d)",
           n / 2);
    kit_do(a,
           "SELECT count(*) FROM pgwork.enqueue_many('packs', array_fill('1'::jsonb, ARRAY[24]))");
    kit_do(a,
           "INSERT INTO pgwork.pack (number, token, lease_until, queue, first_id, last_id, holder,"
           " ids, lanes, created, kinds, payloads) SELECT nextval('pgwork.place'),"
           " gen_random_uuid(), now() + interval '1 day', q.id, -2 * g, 1 - 2 * g, 'w',"
           " ARRAY[-2 * g, 1 - 2 * g], '{1,1}', ARRAY[now(), now()], '{a,b}', '{1,2}'"
           " FROM pgwork.queue q, generate_series(1, %d) g",
           n / 10);
    kit_do(a, "INSERT INTO pgwork.pack_out SELECT queue, number, first_id FROM pgwork.pack WHERE"
              " first_id < 0 ON CONFLICT DO NOTHING");
}

static void analyze(void)
{
    kit_do(a, "ANALYZE pgwork.live_job, pgwork.delayed_job, pgwork.unique_key, pgwork.queue, "
              "pgwork.pack, pgwork.pack_out");
}

static void forget_statistics(void)
{
    kit_do(a, "TRUNCATE pgwork.live_job, pgwork.delayed_job, pgwork.unique_key, pgwork.pack, "
              "pgwork.pack_out");
    kit_do(a, "VACUUM pgwork.live_job, pgwork.pack, pgwork.pack_out");
    kit_do(a, "DELETE FROM pg_statistic WHERE starelid::regclass::text ~ '^pgwork\\.'");
}

void test_F54_without_statistics(void)
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
    kit_do(a, "VACUUM pgwork.live_job, pgwork.pack, pgwork.pack_out"); /* known to be empty */
    TEST_ASSERT_EQUAL_INT(0, kit_claim(conn, "q", 10, jobs));
    kit_do(conn, "SELECT * FROM pgwork.job_list()");
    kit_do(a,
           "SELECT count(*) FROM pgwork.enqueue_many('packs', array_fill('1'::jsonb, ARRAY[24]))");
    check_packs(conn);
    kit_do(a, "SELECT pgwork.queue_purge('packs')");
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
    check_packs(conn);
    check_list(conn);
}

/* Who knows only the view finds a job of many, too; the bundles and packs of its queue are opened.
 */
void test_one_job_of_the_view_is_found_by_indexes(void)
{
    static const char *const place[] = {"queue", "lane = ANY", "pos = ", NULL};
    static const char *const moved[] = {"id = ", NULL};
    PGconn *conn = explaining();
    long long id;

    forget_statistics();
    fill(60000);
    analyze();
    id = kit_number(
        a, "SELECT pos FROM pgwork.live_job ORDER BY queue, lane, pos OFFSET 30000 LIMIT 1");
    *plans = 0;
    TEST_ASSERT_EQUAL_STRING(
        "ready",
        kit_text(conn, "SELECT state FROM pgwork.job WHERE queue = 'q' AND id = %lld", id));
    check_index("Index Scan using", "live_job_place", place);
    check_index("Index Scan using", "live_job_moved", moved);
    if (strstr(plans, "Seq Scan on live_job")) fail_with("all rows", plans);
    if (!strstr(plans, PLACE)) fail_with(PLACE, plans);
}

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
void test_claims_are_hot_updates(void)
{
    struct took job;
    long long before, after;

    forget_statistics(); /* and rows */
    kit_do(a, "SELECT pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[100]))");
    before = updates("live_job");
    kit_do(a, "SET application_name = 'a-host-with-a-name:1234567'");
    for (int i = 0; i < 100; i++) TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, &job));
    after = updates("live_job");
    TEST_ASSERT_EQUAL_INT64(100, after / 1000000 - before / 1000000);
    TEST_ASSERT_GREATER_OR_EQUAL_INT64(95, after % 1000000 - before % 1000000);
}

/* A pack is extended again and again while it is worked on; nor does that touch its jobs. (A pack
 * of many jobs is a row of up to 2,000 bytes, of which not so many fit into a page.) */
void test_extends_of_packs_are_hot_updates(void)
{
    static const int packs[][2] = {{20, 80}, {200, 60}};
    struct took jobs[200];
    long long before, after;

    for (int i = 0; i < 2; i++) {
        int n = packs[i][0];

        forget_statistics();
        kit_do(a, "SELECT pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[%d]))", n);
        TEST_ASSERT_EQUAL_INT(n, kit_claim(a, "q", n, jobs));
        before = updates("pack");
        for (int k = 0; k < 100; k++)
            TEST_ASSERT_EQUAL_INT64(
                n, kit_number(a,
                              "SELECT count(*) FROM pgwork.pack p, pgwork.extend('q', p.ids,"
                              " array_fill(p.token, ARRAY[%d])) e WHERE e.status = 'ok'",
                              n));
        after = updates("pack");
        TEST_ASSERT_EQUAL_INT64(100, after / 1000000 - before / 1000000);
        TEST_ASSERT_GREATER_OR_EQUAL_INT64(packs[i][1], after % 1000000 - before % 1000000);
    }
}
