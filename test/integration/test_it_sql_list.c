/* job_list(): the rows of the view job, page by page, in the order of ids. */
#include "unity.h"
#include "pgtemp.h"
#include "sqlkit.h"

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

static void finish(const char *verb, const char *queue, const struct took *job, int n,
                   const char *more)
{
    for (int i = 0; i < n; i++)
        kit_do(a, "SELECT * FROM pgwork.%s('%s', '{%lld}', '{%s}'%s)", verb, queue, job[i].id,
               job[i].token, more);
}

/* Jobs in every state, in every place where such can lie; what the view shows is in `seen`. */
static void fill(void)
{
    static struct took jobs[80];

    kit_do(a, "SELECT pgwork.queue_create('batches', retention_ms => 3600000),"
              " pgwork.queue_create('leased'), pgwork.queue_create('empty'),"
              " pgwork.queue_create('rows', retention_ms => 3600000, max_attempts => 7)");
    /* batch rows whose ids lie between each other's; some jobs of theirs are gone */
    kit_do(a, "SELECT count(*) FROM pgwork.enqueue_many('batches', ARRAY(SELECT to_jsonb(g) FROM"
              " generate_series(1, 150) g), kinds => '{k1}',"
              " priorities => ARRAY(SELECT g %% 2 FROM generate_series(1, 150) g))");
    kit_do(a, "SELECT pgwork.cancel('batches', ARRAY[min(id), min(id) + 9]) FROM pgwork.job");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "batches", 1, jobs));
    /* the same, leased: many claimed at once */
    kit_do(a, "SELECT pgwork.enqueue('leased', to_jsonb(g), 'k' || g %% 3, priority => g %% 2)"
              " FROM generate_series(1, 80) g");
    TEST_ASSERT_EQUAL_INT(80, kit_claim(a, "leased", 80, jobs));
    finish("release", "leased", jobs + 10, 3, "");
    finish("complete", "leased", jobs + 50, 3, "");
    kit_do(
        a,
        "SELECT count(*) FROM pgwork.enqueue_many('rows', ARRAY(SELECT to_jsonb(g) FROM"
        " generate_series(1, 30) g), kinds => '{k2}', bodies => '{body}', tags => '{\"{x,y}\"}')");
    TEST_ASSERT_EQUAL_INT(20, kit_claim(a, "rows", 20, jobs));
    kit_do(a, "SELECT pgwork.complete('rows', '{%lld}', '{%s}', '{\"{\\\"out\\\": 1}\"}')",
           jobs[0].id, jobs[0].token);
    finish("fail", "rows", jobs + 1, 2, ", 'boom', 3600000");
    finish("release", "rows", jobs + 3, 2, "");
    finish("fail", "rows", jobs + 5, 2, ", 'hopeless', dead => true");
    finish("extend", "rows", jobs + 7, 1, ", 3600000");
    kit_do(a, "SELECT pgwork.redrive('rows', '{%lld}')", jobs[5].id);
    /* rows of their own */
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "rows", 1, jobs));
    for (int i = 0; i < 4; i++) kit_put(a, "rows");
    kit_do(a, "SELECT pgwork.enqueue('rows', '1', kind => 'k1', priority => 9, key => 'mine',"
              " max_attempts => 3)");
    kit_do(a, "SELECT pgwork.cancel('rows', ARRAY[id]) FROM pgwork.enqueue('rows', '2', 'k1')");
    kit_do(a, "SELECT pgwork.enqueue('rows', '3', delay_ms => 3600000)");
    kit_do(a, "CREATE TEMP TABLE seen AS SELECT * FROM pgwork.job");
    TEST_ASSERT_EQUAL_STRING("cancelled dead delayed done leased ready",
                             kit_text(a, "SELECT string_agg(DISTINCT state, ' ') FROM seen"));
}

void test_the_whole_list_is_the_view_in_the_order_of_the_ids(void)
{
    fill();
    TEST_ASSERT_NULL(kit_text(a, "TABLE seen EXCEPT ALL SELECT * FROM pgwork.job_list(at_most =>"
                                 " NULL)"));
    TEST_ASSERT_NULL(kit_text(a, "SELECT * FROM pgwork.job_list(at_most => NULL) EXCEPT ALL TABLE"
                                 " seen"));
    TEST_ASSERT_EQUAL_STRING(
        "t", kit_text(a, "SELECT bool_and(id > before) FROM (SELECT id, lag(id, 1, 0::bigint) OVER"
                         " (ORDER BY ordinality) AS before FROM pgwork.job_list(at_most => NULL)"
                         " WITH ORDINALITY) l"));
}

void test_each_job_is_found_by_its_id_and_in_its_queue_alone(void)
{
    fill();
    TEST_ASSERT_EQUAL_STRING(
        "t t t t",
        kit_text(a,
                 "SELECT concat_ws(' ', count(*) > 200,"
                 " bool_and((SELECT string_agg(l::text, '') FROM pgwork.job_list(id => s.id) l) ="
                 " s::text),"
                 " bool_and((SELECT string_agg(l::text, '') FROM pgwork.job_list(s.queue, s.state,"
                 " s.kind, s.id) l) = s::text),"
                 " bool_and(NOT EXISTS (SELECT FROM pgwork.job_list('empty', id => s.id))"
                 " AND NOT EXISTS (SELECT FROM pgwork.job_list(id => s.id, after_id => s.id))))"
                 " FROM seen s"));
    TEST_ASSERT_NULL(kit_text(a, "SELECT l FROM (SELECT max(id) FROM pgwork.job) p (id),"
                                 " pgwork.job_list(id => p.id + 1) l"));
}

/* Page by page until one is empty. Each combination of what may be asked for. */
void test_the_pages_of_a_list_are_all_of_it(void)
{
    fill();
    kit_do(a,
           "CREATE FUNCTION pg_temp.walk(q text, s text, k text, n integer) RETURNS bigint[]"
           " LANGUAGE plpgsql AS $$ DECLARE ids bigint[] := '{}'; page bigint[]; BEGIN LOOP"
           " SELECT array_agg(l.id ORDER BY l.ordinality) INTO page FROM pgwork.job_list(q, s, k,"
           " after_id => ids[cardinality(ids)], at_most => n) WITH ORDINALITY l;"
           " EXIT WHEN page IS NULL; ids := ids || page;"
           " ASSERT cardinality(page) <= n; ASSERT cardinality(ids) < 10000;"
           " END LOOP; RETURN ids; END $$");
    TEST_ASSERT_EQUAL_STRING(
        "t",
        kit_text(a, "SELECT bool_and(pg_temp.walk(NULL, NULL, NULL, n) ="
                    " ARRAY(SELECT id FROM seen ORDER BY id)) FROM unnest('{1,2,29,5000}'::int[])"
                    " n"));
    TEST_ASSERT_NULL(kit_text(
        a, "SELECT concat_ws(' ', q, s, k) FROM "
           "unnest('{NULL,batches,leased,rows,empty,none}'::text[]) q,"
           " unnest('{NULL,ready,leased,delayed,dead,done,cancelled}'::text[]) s,"
           " unnest('{NULL,\"\",k0,k1,none}'::text[]) k WHERE pg_temp.walk(q, s, k, 7) <>"
           " ARRAY(SELECT id FROM seen WHERE queue = coalesce(q, queue) AND state = coalesce(s,"
           " state) AND kind = coalesce(k, kind) ORDER BY id)"));
}

/* So many blocks are read for what is listed. */
static long long blocks(const char *of)
{
    const char *plan, *hit, *read;

    for (int warm = 0; warm < 2; warm++) /* plans are made, hints are set */
        plan = kit_text(
            a, "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM pgwork.job_list(%s)", of);
    hit = strstr(plan, "\"Shared Hit Blocks\": ");
    read = strstr(plan, "\"Shared Read Blocks\": ");
    TEST_ASSERT_NOT_NULL(hit);
    TEST_ASSERT_NOT_NULL(read);
    return strtoll(hit + 21, NULL, 10) + strtoll(read + 22, NULL, 10);
}

/* Ready jobs, put by thousands, with three calls that list some of the first ones; the last job is
 * in no batch. */
TEST_CASE(0)
TEST_CASE(1)
TEST_CASE(2)
void test_a_page_and_a_job_cost_no_more_where_many_wait(int how)
{
    static const char *const puts[] = {
        "SELECT count(*) FROM pgwork.enqueue_many('q', array_fill('1'::jsonb, '{1000}'))",
        "SELECT pgwork.enqueue('q', '1') FROM generate_series(1, 1000)",
        "SELECT count(*) FROM pgwork.enqueue_many('q', array_fill('1'::jsonb, '{1000}'));"
        "SELECT pgwork.release('q', array_agg(id), array_agg(token)) FROM"
        " pgwork.claim('{q}', 10000, 'w')",
    };
    char of[3][100];
    long long few[3], first = 0;

    kit_do(a, "SELECT pgwork.queue_create('q')");
    for (int n = 11000; n <= 33000; n += 22000) {
        for (int got = 0; got < n; got += 1000) kit_do(a, "%s", puts[how]);
        kit_do(a, "VACUUM ANALYZE pgwork.live_job");
        if (first == 0) first = kit_number(a, "SELECT min(id) FROM pgwork.job");
        snprintf(of[0], sizeof(of[0]), "'q', at_most => 100, after_id => %lld", first + 150);
        snprintf(of[1], sizeof(of[1]), "'q', id => %lld", first + 222);
        snprintf(of[2], sizeof(of[2]), "'q', id => %lld", first + 1000000);
        for (int i = 0; i < 3; i++) {
            const long long now = blocks(of[i]);

            if (n == 11000)
                few[i] = now;
            else
                TEST_ASSERT_LESS_THAN_INT64_MESSAGE(few[i] + 100, now, of[i]);
        }
    }
}

void test_jobs_of_a_state_cost_no_more_where_many_are_done(void)
{
    static const char *const of[] = {"'q', 'ready'", "'q', 'delayed'", "'q', 'dead'",
                                     "'q', 'cancelled'"};

    kit_do(a, "SELECT pgwork.queue_create('q', retention_ms => 3600000)");
    kit_do(a, "INSERT INTO pgwork.done_job (id, created_at, queue, priority, attempt, kind)"
              " SELECT g, now(), q.id, 0, 1, '' FROM pgwork.queue q, generate_series(1, 30000) g");
    kit_do(a, "ANALYZE pgwork.done_job");
    for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++)
        TEST_ASSERT_LESS_THAN_INT64_MESSAGE(100, blocks(of[i]), of[i]);
}

void test_a_list_refuses_invalid_arguments(void)
{
    kit_refused(a, "PW001",
                "argument state|\"asleep\"|ready, gated, delayed, leased, done, dead, cancelled",
                "SELECT pgwork.job_list(state => 'asleep')");
    kit_refused(a, "PW001", "argument id|\"0\"|at least 1", "SELECT pgwork.job_list(id => 0)");
    kit_refused(a, "PW001", "argument after_id|\"-1\"|at least 0",
                "SELECT pgwork.job_list(after_id => -1)");
    kit_refused(a, "PW001", "argument at_most|\"0\"|at least 1",
                "SELECT pgwork.job_list(at_most => 0)");
    TEST_ASSERT_NULL(kit_text(a, "SELECT pgwork.job_list(after_id => 9223372036854775807)"));
}

/* As far as the view, and no farther. */
void test_only_operators_read_the_list(void)
{
    kit_put(a, "q");
    kit_do(a, "SET ROLE pgwork_operator");
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT count(*) FROM pgwork.job_list()"));
    kit_do(a, "SET ROLE pgwork_worker");
    kit_refused(a, "42501", "permission denied", "SELECT * FROM pgwork.job_list()");
    kit_do(a, "SET ROLE pgwork_producer");
    kit_refused(a, "42501", "permission denied", "SELECT * FROM pgwork.job_list()");
    kit_do(a, "RESET ROLE");
}
