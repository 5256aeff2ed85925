/* Filters and bulk operations: which jobs they change, and that no job is lost or doubled beside
 * claims. */
#include "unity.h"
#include "pgtemp.h"
#include "sqlkit.h"

#include <stdio.h>
#include <string.h>

static PGconn *a, *b;

void setUp(void)
{
    kit_begin();
    a = kit_open();
    b = kit_open();
    kit_do(a, "SELECT pgwork.queue_create('q', retention_ms => 3600000), pgwork.queue_create('r', "
              "retention_ms => 3600000)");
    kit_do(a, "DELETE FROM pgwork.log_entry");
}

void tearDown(void)
{
    kit_end();
}

static void fill(int n)
{
    kit_do(a,
           "SELECT count(*) FROM pgwork.enqueue_many('q', ARRAY(SELECT to_jsonb(g) FROM "
           "generate_series(1, %d) g), kinds => ARRAY(SELECT 'k' || g %% 2 FROM "
           "generate_series(1, %d) g))",
           n, n);
}

/* One slice: how many. */
static long long bulk(const char *verb, const char *filter, const char *change)
{
    return kit_number(a, "SELECT n FROM pgwork.bulk('%s', '%s', '%s')", verb, filter, change);
}

void test_a_move_takes_single_jobs_out_of_batch_rows_and_leaves_the_others(void)
{
    fill(200);
    TEST_ASSERT_EQUAL_INT64(100,
                            bulk("move", "{\"queue\":\"q\",\"kind\":\"k1\"}", "{\"to\":\"r\"}"));
    TEST_ASSERT_EQUAL_STRING("100 0 0 0 0", kit_places(b, "q"));
    TEST_ASSERT_EQUAL_STRING("100 0 0 0 0", kit_places(b, "r"));
    TEST_ASSERT_EQUAL_STRING("100 100 t",
                             kit_text(b, "SELECT count(*) || ' ' || count(DISTINCT id) || ' ' || "
                                         "left(bool_and(kind = 'k1')::text, 1) FROM "
                                         "pgwork.claim('{r}', 1000, 'w')"));
    TEST_ASSERT_EQUAL_STRING("100 100 t",
                             kit_text(b, "SELECT count(*) || ' ' || count(DISTINCT id) || ' ' || "
                                         "left(bool_and(kind = 'k0')::text, 1) FROM "
                                         "pgwork.claim('{q}', 1000, 'w')"));
}

void test_leased_jobs_stay_and_their_holders_can_finish_them(void)
{
    struct took job;

    kit_put(a, "q");
    kit_put(a, "q");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 1, &job));
    TEST_ASSERT_EQUAL_INT64(1, bulk("move", "{\"queue\":\"q\"}", "{\"to\":\"r\"}"));
    TEST_ASSERT_EQUAL_INT64(0, bulk("priority", "{\"queue\":\"q\"}", "{\"priority\":3}"));
    TEST_ASSERT_EQUAL_INT64(0, bulk("purge", "{\"queue\":\"q\",\"state\":\"ready\"}", "{}"));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(b, "complete", &job, ""));
}

void test_jobs_that_another_session_locks_are_skipped_without_a_wait(void)
{
    fill(10);
    kit_do(b, "BEGIN; SELECT count(*) FROM pgwork.claim('{q}', 3, 'w')");
    TEST_ASSERT_GREATER_OR_EQUAL_INT64(
        0, bulk("move", "{\"queue\":\"q\"}", "{\"to\":\"r\"}")); /* returns */
    kit_do(b, "ROLLBACK");
    TEST_ASSERT_EQUAL_INT64(10, kit_number(b, "SELECT count(*) FROM pgwork.job"));
}

void test_every_field_of_a_job_survives_a_move(void)
{
    static const char fields[] =
        "SELECT md5(string_agg(j::text, ',' ORDER BY id)) FROM (SELECT id, "
        "state, kind, priority, attempt, max_attempts, created_at, key, "
        "tags, payload, body_bytes, grp, expires_at, meta, error FROM "
        "pgwork.job) j";
    char before[64];

    kit_do(a, "SELECT pgwork.enqueue('q', '1', kind => 'k', body => 'abc', priority => 2, "
              "max_attempts => 7, lease_ms => 5000, tags => '{x,y}', key => 'u', grp => 'g', "
              "expires_at => '2100-01-01Z', meta => '{\"m\":1}')");
    kit_do(a, "SELECT pgwork.enqueue('q', '2', delay_ms => 3600000, tags => '{x}')");
    snprintf(before, sizeof(before), "%s", kit_text(b, "%s", fields));
    TEST_ASSERT_EQUAL_INT64(2, bulk("move", "{\"queue\":\"q\",\"tag\":\"x\"}", "{\"to\":\"r\"}"));
    TEST_ASSERT_EQUAL_STRING(before, kit_text(b, "%s", fields));
    TEST_ASSERT_EQUAL_STRING("r", kit_text(b, "SELECT string_agg(DISTINCT queue, ',') FROM "
                                              "pgwork.job"));
    TEST_ASSERT_EQUAL_INT64(5, kit_number(b, "SELECT extract(epoch FROM lease_until - server_time)"
                                             "::int FROM pgwork.claim('{r}', 1, 'w')"));
}

void test_a_job_that_is_moved_frees_its_place_in_the_group(void)
{
    kit_do(a, "SELECT pgwork.enqueue('q', '1', grp => 'g'), pgwork.enqueue('q', '2', grp => 'g'), "
              "pgwork.maintain()");
    TEST_ASSERT_EQUAL_STRING("ready gated", kit_text(b, "SELECT string_agg(state, ' ' ORDER BY id) "
                                                        "FROM pgwork.job"));
    kit_do(a, "SELECT pgwork.bulk('move', '{\"queue\":\"q\",\"state\":\"ready\"}', "
              "'{\"to\":\"r\"}')");
    TEST_ASSERT_EQUAL_STRING("2 1",
                             kit_text(b, "SELECT (SELECT payload::text FROM pgwork.claim('{q}', 9, "
                                         "'w')) || ' ' || (SELECT payload::text FROM "
                                         "pgwork.claim('{r}', 9, 'w'))"));
    kit_do(a, "SELECT pgwork.enqueue('q', '3', grp => 'g')");
    TEST_ASSERT_EQUAL_INT64(1, bulk("purge", "{\"queue\":\"q\",\"state\":\"gated\"}", "{}"));
    TEST_ASSERT_EQUAL_STRING("0 1 0 0 0", kit_places(b, "q"));
}

void test_a_job_that_is_moved_expires_in_its_new_queue(void)
{
    kit_do(a,
           "SELECT pgwork.enqueue('q', '1', expires_at => clock_timestamp() + interval '1 hour')");
    TEST_ASSERT_EQUAL_INT64(1, bulk("move", "{\"queue\":\"q\"}", "{\"to\":\"r\"}"));
    kit_do(a, "UPDATE pgwork.expiring_job SET at = now() - interval '1 s'; UPDATE pgwork.live_job "
              "SET expires_at = now() - interval '1 s'; SELECT pgwork.reap()");
    TEST_ASSERT_EQUAL_STRING("r dead expired", kit_text(b, "SELECT queue || ' ' || state || ' ' || "
                                                           "error FROM pgwork.job"));
}

/* -- while others claim -- */

enum { RACERS = 6, JOBS = 2000 };

static void race(PGconn *conn, int i, void *ctx)
{
    static const char *const queues[] = {"q", "r"};

    (void)ctx;
    kit_together();
    for (int round = 0; round < 40; round++) {
        const char *from = queues[(round + i) % 2], *to = queues[(round + i + 1) % 2];

        if (i < 2)
            kit_do(conn,
                   "SELECT pgwork.bulk('move', '{\"queue\":\"%s\"}', '{\"to\":\"%s\"}', "
                   "at_most => 50)",
                   from, to);
        else
            kit_do(conn,
                   "SELECT pgwork.complete(c.queue, ARRAY[c.id], ARRAY[c.token]) FROM "
                   "pgwork.claim('{%s}', 20, 'w') c",
                   from);
    }
}

void test_no_job_is_lost_or_doubled_while_others_claim_and_finish(void)
{
    for (int again = 0; again < 5; again++) { /* of claims and moves that meet at one batch row */
        fill(JOBS);
        kit_race(RACERS, race, NULL);
        kit_do(a, "SELECT pgwork.maintain()");
        for (int i = 0; i < 2 * JOBS / 100; i++)
            kit_do(a, "SELECT pgwork.complete(c.queue, ARRAY[c.id], ARRAY[c.token]) FROM "
                      "pgwork.claim('{q,r}', 100, 'w') c");
        TEST_ASSERT_EQUAL_STRING("2000 2000 done",
                                 kit_text(b, "SELECT count(*) || ' ' || count(DISTINCT id) || ' ' "
                                             "|| string_agg(DISTINCT state, ',') FROM pgwork.job"));
        kit_do(a, "SELECT pgwork.queue_purge('q', 'done'), pgwork.queue_purge('r', 'done')");
    }
}

/* -- the filter -- */

void test_a_filter_passes_over_jobs_that_lack_the_field(void)
{
    static const char *const fields[] = {"tag", "key", "group", "holder", "error"};

    fill(5);
    for (int f = 0; f < 5; f++) {
        TEST_ASSERT_EQUAL_INT64(0, kit_number(a,
                                              "SELECT count(*) FROM pgwork.job_search("
                                              "'{\"queue\":\"q\",\"%s\":\"x\"}')",
                                              fields[f]));
        TEST_ASSERT_EQUAL_INT64(0, kit_number(a,
                                              "SELECT n FROM pgwork.bulk('cancel', "
                                              "'{\"queue\":\"q\",\"%s\":\"x\"}')",
                                              fields[f]));
    }
    TEST_ASSERT_EQUAL_STRING("5 0 0 0 0", kit_places(b, "q"));
}

void test_a_search_that_is_not_through_says_where_to_go_on(void)
{
    long long last;

    fill(10000);
    kit_do(a, "SELECT pgwork.enqueue('q', '1', tags => '{needle}')");
    last = kit_number(a, "SELECT id FROM pgwork.job_search('{\"queue\":\"q\",\"tag\":\"needle\"}', "
                         "look => 10000) WHERE state IS NULL");
    TEST_ASSERT_GREATER_THAN_INT64(0, last);
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a,
                                          "SELECT count(*) FROM pgwork.job_search("
                                          "'{\"queue\":\"q\",\"tag\":\"needle\"}', %lld)",
                                          last));
}

void test_bad_filters_and_changes_are_refused(void)
{
    kit_refused(a, "PW001", "verb|cancel, redrive", "SELECT pgwork.bulk('eat', '{}')");
    kit_refused(a, "PW001", "filter|colour", "SELECT pgwork.bulk('cancel', '{\"colour\":1}')");
    kit_refused(a, "PW001", "queue", "SELECT pgwork.bulk('cancel', '{}')");
    kit_refused(a, "PW001", "object", "SELECT pgwork.bulk('cancel', '[]')");
    kit_refused(a, "PW003", "no queue", "SELECT pgwork.bulk('cancel', '{\"queue\":\"none\"}')");
    kit_refused(a, "PW001", "priority",
                "SELECT pgwork.bulk('priority', '{\"queue\":\"q\"}', '{\"priority\":10}')");
    kit_do(a, "SELECT pgwork.queue_drain('r')");
    kit_refused(a, "PW004", "drained",
                "SELECT pgwork.bulk('move', '{\"queue\":\"q\"}', '{\"to\":\"r\"}')");
}

/* -- the log, and sorts of errors -- */

void test_the_log_names_the_role_that_acted_and_joins_slices(void)
{
    fill(30);
    kit_do(a, "SET ROLE pgwork_operator");
    for (int i = 0; i < 3; i++)
        kit_do(a, "SELECT pgwork.bulk('cancel', '{\"queue\":\"q\"}', at_most => 10, run => "
                  "'00000000-0000-4000-8000-000000000001')");
    kit_do(a, "SELECT pgwork.bulk('cancel', '{\"queue\":\"q\"}', dry_run => true)");
    kit_do(a, "RESET ROLE");
    TEST_ASSERT_EQUAL_STRING("pgwork_operator cancel 30",
                             kit_text(b, "SELECT string_agg(who || ' ' || verb || ' ' || n, ',') "
                                         "FROM pgwork.log"));
    kit_do(a, "UPDATE pgwork.log_entry SET at = at - interval '91 days'; "
              "DELETE FROM pgwork.report_sum; SELECT pgwork.prune()");
    TEST_ASSERT_EQUAL_INT64(0, kit_number(b, "SELECT count(*) FROM pgwork.log"));
}

void test_a_sort_of_error_is_its_last_line_without_numbers(void)
{
    static const struct {
        const char *error, *sort;
    } sorts[] = {{"E'one\\ntwo 22\\n'", "two #"},
                 {"'at 0xdeadBEEF'", "at #"},
                 {"'job 123e4567-e89b-12d3-a456-426614174000 gone'", "job # gone"},
                 {"'10.0.0.1:5432: refused'", "#.#.#.#:#: refused"},
                 {"''", ""}};

    for (int i = 0; i < 5; i++)
        TEST_ASSERT_EQUAL_STRING(sorts[i].sort,
                                 kit_text(a, "SELECT pgwork.error_sort(%s)", sorts[i].error));
}
