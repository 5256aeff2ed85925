/* job_list(): the rows of the view job, page by page in the order of the ids, wherever they lie. */
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
    kit_few(1);
    a = kit_open();
}

void tearDown(void)
{
    kit_end();
}

/* Two bundles whose ids lie between each other's, as producers at the same time make them. */
static void interleave(const char *queue)
{
    kit_do(
        a,
        "INSERT INTO pgwork.live_job (pos, queue, lane, flags, jobs, last_id, all_ids, all_kinds,"
        " all_payloads) SELECT min(u.id), q.id, 1, 8, count(*), max(u.id),"
        " array_agg(u.id ORDER BY u.id), array_agg('k' || u.g %% 3), array_agg(to_jsonb(u.g))"
        " FROM pgwork.queue q, (SELECT nextval('pgwork.place') AS id, g FROM generate_series(1,"
        " 40) g OFFSET 0) u WHERE q.name = '%s' GROUP BY q.id, u.g %% 2",
        queue);
    kit_do(a, "UPDATE pgwork.queue SET bundles = true WHERE name = '%s'", queue);
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
    struct took jobs[40];

    kit_do(a, "SELECT pgwork.queue_create('bulk', bulk => true, retention_ms => 3600000),"
              " pgwork.queue_create('packs', bulk => true), pgwork.queue_create('empty'),"
              " pgwork.queue_create('rows', retention_ms => 3600000, max_attempts => 7)");
    /* bundles of two lanes, of which the first job is gone, and one; one that was opened */
    kit_do(a, "SELECT count(*) FROM pgwork.enqueue_many('bulk', ARRAY(SELECT to_jsonb(g) FROM"
              " generate_series(1, 150) g), kinds => '{k1}',"
              " priorities => ARRAY(SELECT g %% 2 FROM generate_series(1, 150) g))");
    kit_do(a,
           "SELECT pgwork.cancel('bulk', ARRAY[j.all_ids[1], j.all_ids[9]]) FROM pgwork.live_job j"
           " WHERE j.jobs IS NOT NULL");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "bulk", 1, jobs));
    interleave("bulk");
    /* packs, the ids of two of them between each other's */
    interleave("packs");
    TEST_ASSERT_EQUAL_INT(40, kit_claim(a, "packs", 40, jobs));
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
    TEST_ASSERT_EQUAL_STRING(
        "t t t t t", /* what is to be met is there */
        kit_text(a,
                 "SELECT concat_ws(' ', (SELECT count(*) > 3 FROM pgwork.live_job WHERE jobs > 0),"
                 " (SELECT count(*) > 3 FROM pgwork.live_job WHERE id IS NULL AND jobs IS NULL),"
                 " (SELECT count(*) > 3 FROM pgwork.live_job WHERE id IS NOT NULL),"
                 " (SELECT count(*) > 2 FROM pgwork.pack),"
                 " (SELECT count(*) > 3 FROM pgwork.pack_out))"));
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
    TEST_ASSERT_NULL(kit_text(a, "SELECT l FROM (SELECT max(last_value) FROM pgwork.place) p (id),"
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
        a,
        "SELECT concat_ws(' ', q, s, k) FROM unnest('{NULL,bulk,packs,rows,empty,none}'::text[]) q,"
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

/* Ready jobs, with three calls that list some of the first ones; the last is in no bundle. (All of
 * them are more than a thousand blocks. PostgreSQL 18 goes by way of the bundles, which are 171.)
 */
TEST_CASE("bulk => true", "")
TEST_CASE("bulk => false", "")
TEST_CASE("bulk => false", "SELECT pgwork.release('q', array_agg(id), array_agg(token)) FROM"
                           " pgwork.claim('{q}', 10000, 'w')")
void test_a_page_and_a_job_cost_no_more_where_many_wait(const char *bulk, const char *then)
{
    char of[3][100];
    long long few[3], first = 0;

    kit_do(a, "SELECT pgwork.queue_create('q', %s)", bulk);
    for (int n = 1000; n <= 30000; n += 29000) {
        for (int got = 0; got < n; got += 1000) {
            kit_do(a, "SELECT count(*) FROM pgwork.enqueue_many('q', array_fill('1'::jsonb,"
                      " '{1000}'))");
            kit_do(a, "%s", *then ? then : "SELECT 1");
        }
        kit_do(a, "VACUUM ANALYZE pgwork.live_job, pgwork.pack");
        if (first == 0) first = kit_number(a, "SELECT min(id) FROM pgwork.job");
        snprintf(of[0], sizeof(of[0]), "'q', at_most => 100, after_id => %lld", first + 150);
        snprintf(of[1], sizeof(of[1]), "'q', id => %lld", first + 222);
        snprintf(of[2], sizeof(of[2]), "'q', id => %lld", first + 1000000);
        for (int i = 0; i < 3; i++) {
            const long long now = blocks(of[i]);

            if (n == 1000)
                few[i] = now;
            else
                TEST_ASSERT_LESS_THAN_INT64_MESSAGE(few[i] + 250, now, of[i]);
        }
    }
}

void test_what_a_list_refuses(void)
{
    kit_refused(a, "PW001", "argument state|'asleep'|ready, delayed, leased, done, dead, cancelled",
                "SELECT pgwork.job_list(state => 'asleep')");
    kit_refused(a, "PW001", "argument id|'0'|1 and up", "SELECT pgwork.job_list(id => 0)");
    kit_refused(a, "PW001", "argument after_id|'-1'|0 and up",
                "SELECT pgwork.job_list(after_id => -1)");
    kit_refused(a, "PW001", "argument at_most|'0'|1 and up",
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
