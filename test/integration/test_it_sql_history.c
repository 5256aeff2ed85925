/* Attempts that failed, and progress: what is kept of a job, for how long, and that a stale holder
 * changes nothing. */
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
    kit_do(a, "SELECT pgwork.queue_create('q', backoff_ms => 0), pgwork.queue_create('r')");
}

void tearDown(void)
{
    kit_end();
}

/* "1 failed a: why, ..." of a job. */
static const char *attempts(const char *queue, long long id)
{
    return kit_text(b,
                    "SELECT string_agg(concat_ws(' ', attempt, ended, coalesce(error, '-')), ', ') "
                    "FROM pgwork.job_attempts('%s', %lld)",
                    queue, id);
}

static long long histories(void)
{
    return kit_number(b, "SELECT count(*) FROM pgwork.job_history");
}

/* The upkeep looks at every history now. */
static void prune(void)
{
    kit_do(b, "UPDATE pgwork.job_history SET check_at = check_at - interval '2 days'");
    kit_do(b, "SELECT pgwork.prune()");
}

static const char *progress(PGconn *conn, const struct took *job, const char *json)
{
    const char *status = kit_text(
        conn, "SELECT status FROM pgwork.progress('%s', '{%lld}', '{%s}', ARRAY['%s'::jsonb])",
        job->queue, job->id, job->token, json);

    return status != NULL ? status : "ok";
}

static const char *shown(long long id)
{
    return kit_text(b, "SELECT progress FROM pgwork.job_list(id => %lld)", id);
}

void test_a_job_that_succeeds_at_once_leaves_no_history(void)
{
    struct took job;

    kit_put(a, "q");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, &job));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &job, ""));
    TEST_ASSERT_EQUAL_INT64(0, histories());
}

void test_each_attempt_says_how_it_ended_and_by_whom(void)
{
    const long long id = kit_put(a, "q");
    struct took job;

    kit_claim(a, "q", 1, &job);
    kit_say(a, "fail", &job, ", 'first', 0");
    kit_claim(a, "q", 1, &job);
    kit_expire(a, "q");
    kit_do(a, "SELECT pgwork.reap('q')");
    kit_claim(a, "q", 1, &job);
    kit_say(a, "fail", &job, ", NULL, 0");
    kit_claim(a, "q", 1, &job);
    kit_say(a, "fail", &job, ", 'no such user', NULL, true");
    TEST_ASSERT_EQUAL_STRING(
        "1 failed first, 2 lost the lease expired: its holder died or hung, 3 failed -, "
        "4 dead no such user",
        attempts("q", id));
    TEST_ASSERT_EQUAL_STRING(
        "t", kit_text(b,
                      "SELECT left(bool_and(h.holder = j.holder AND h.ended_at BETWEEN "
                      "j.created_at AND clock_timestamp())::text, 1) FROM "
                      "pgwork.job_attempts('q', %lld) h, pgwork.job_list('q', id => %lld) j",
                      id, id));
}

void test_a_cancelled_attempt_is_in_the_history_and_a_snoozed_or_released_one_is_not(void)
{
    struct took job;
    long long id;

    kit_do(a, "SELECT pgwork.queue_set('q', retention_ms => 3600000)");
    id = kit_put(a, "q");
    kit_claim(a, "q", 1, &job);
    kit_say(a, "snooze", &job, ", 0");
    kit_claim(a, "q", 1, &job);
    kit_say(a, "release", &job, "");
    TEST_ASSERT_EQUAL_INT64(0, histories());
    kit_claim(a, "q", 1, &job);
    kit_do(b, "SELECT * FROM pgwork.cancel('q', '{%lld}')", id);
    kit_say(a, "release", &job, "");
    TEST_ASSERT_EQUAL_STRING("1 cancelled -", attempts("q", id));
}

void test_a_redrive_keeps_the_attempts_before_it(void)
{
    const long long id = kit_put(a, "q");
    struct took job;

    kit_claim(a, "q", 1, &job);
    kit_say(a, "fail", &job, ", 'one', NULL, true");
    kit_do(a, "SELECT pgwork.redrive('q')");
    kit_claim(a, "q", 1, &job);
    kit_say(a, "fail", &job, ", 'two', NULL, true");
    TEST_ASSERT_EQUAL_STRING("1 dead one, 1 dead two", attempts("q", id));
}

void test_the_last_25_attempts_are_kept_and_their_errors_are_cut(void)
{
    const long long id = kit_number(a, "SELECT id FROM pgwork.enqueue('q', max_attempts => -1)");
    struct took job;
    char more[64];

    for (int i = 1; i <= 30; i++) {
        kit_claim(a, "q", 1, &job);
        snprintf(more, sizeof(more), ", repeat('%d', 4000), 0", i);
        kit_say(a, "fail", &job, more);
    }
    TEST_ASSERT_EQUAL_STRING(
        "25 6 30 2000", kit_text(b,
                                 "SELECT concat_ws(' ', count(*), min(attempt), max(attempt), "
                                 "max(octet_length(error))) FROM pgwork.job_attempts('q', %lld)",
                                 id));
}

void test_jobs_that_fail_together_have_a_history_each(void)
{
    kit_do(a, "SELECT count(*) FROM pgwork.enqueue_many('q', ARRAY(SELECT to_jsonb(g) FROM "
              "generate_series(1, 200) g))");
    kit_do(a, "SELECT count(*) FROM (SELECT array_agg(id) AS ids, array_agg(token) AS tokens FROM "
              "pgwork.claim('{q}', 200, 'w')) c CROSS JOIN LATERAL pgwork.fail('q', c.ids, "
              "c.tokens, 'all of them', 3600000)");
    TEST_ASSERT_EQUAL_INT64(200, histories());
    TEST_ASSERT_EQUAL_STRING("200 200",
                             kit_text(b, "SELECT count(*) || ' ' || count(DISTINCT j.id) FROM "
                                         "pgwork.job_list('q', at_most => 1000) j CROSS JOIN "
                                         "LATERAL pgwork.job_attempts('q', j.id)"));
}

void test_a_history_lives_as_long_as_its_job_or_dead_letter(void)
{
    struct took jobs[2];
    long long dead, done;

    done = kit_put(a, "q");
    dead = kit_put(a, "q");
    kit_claim(a, "q", 1, &jobs[0]);
    kit_say(a, "fail", &jobs[0], ", 'again', 0");
    kit_claim(a, "q", 1, &jobs[1]);
    kit_say(a, "fail", &jobs[1], ", 'never', NULL, true");
    kit_claim(a, "q", 1, &jobs[0]);
    TEST_ASSERT_EQUAL_INT64(done, jobs[0].id);
    prune(); /* leased, and dead */
    TEST_ASSERT_EQUAL_INT64(2, histories());
    kit_say(a, "complete", &jobs[0], "");
    prune();
    TEST_ASSERT_EQUAL_INT64(1, histories());
    TEST_ASSERT_EQUAL_STRING("1 dead never", attempts("q", dead));
    kit_do(a, "SELECT pgwork.dead_purge('q')");
    prune();
    TEST_ASSERT_EQUAL_INT64(0, histories());
}

void test_a_history_is_looked_at_less_and_less_often(void)
{
    struct took job;

    kit_put(a, "q");
    kit_claim(a, "q", 1, &job);
    kit_say(a, "fail", &job, ", 'never', NULL, true");
    kit_do(b, "UPDATE pgwork.job_history SET noted_at = noted_at - interval '1 hour', check_at = "
              "clock_timestamp()");
    kit_do(b, "SELECT pgwork.prune()");
    TEST_ASSERT_EQUAL_INT64(60, kit_number(b, "SELECT round(extract(epoch FROM check_at - "
                                              "clock_timestamp()) / 60) FROM pgwork.job_history"));
    kit_do(b, "UPDATE pgwork.job_history SET noted_at = noted_at - interval '1 year', check_at = "
              "clock_timestamp()");
    kit_do(b, "SELECT pgwork.prune()");
    TEST_ASSERT_EQUAL_INT64(24, kit_number(b, "SELECT round(extract(epoch FROM check_at - "
                                              "clock_timestamp()) / 3600) FROM "
                                              "pgwork.job_history"));
}

void test_histories_are_deleted_in_slices(void)
{
    kit_do(a, "INSERT INTO pgwork.job_history (queue, id, check_at) SELECT q.id, g, '-infinity' "
              "FROM pgwork.queue q, generate_series(1, 25) g WHERE q.name = 'q'");
    TEST_ASSERT_EQUAL_INT64(10, kit_number(a, "SELECT pgwork.prune(10)"));
    TEST_ASSERT_EQUAL_INT64(15, histories());
    TEST_ASSERT_EQUAL_INT64(10, kit_number(a, "SELECT pgwork.prune(10)"));
    TEST_ASSERT_EQUAL_INT64(5, kit_number(a, "SELECT pgwork.prune(10)"));
    TEST_ASSERT_EQUAL_INT64(0, histories());
}

void test_a_queue_that_is_dropped_takes_the_histories_along(void)
{
    struct took job;

    kit_put(a, "q");
    kit_claim(a, "q", 1, &job);
    kit_say(a, "fail", &job, ", 'never', NULL, true");
    kit_do(a, "SELECT pgwork.queue_drop('q', true)");
    TEST_ASSERT_EQUAL_INT64(0, histories());
}

void test_a_job_that_moves_to_another_queue_takes_its_history_along(void)
{
    struct took job;

    kit_put(a, "q");
    kit_claim(a, "q", 1, &job);
    progress(a, &job, "{\"at\": 1}");
    kit_say(a, "fail", &job, ", 'why', NULL, true");
    kit_do(a, "SELECT * FROM pgwork.bulk('move', '{\"queue\":\"q\"}', '{\"to\":\"r\"}')");
    TEST_ASSERT_EQUAL_STRING("1 dead why", attempts("r", job.id));
    TEST_ASSERT_EQUAL_STRING("{\"at\": 1}", shown(job.id));
    TEST_ASSERT_NULL(attempts("q", job.id));
}

/* ---- progress ---- */

void test_progress_is_shown_replaced_and_survives_a_retry(void)
{
    struct took job;

    kit_put(a, "q");
    kit_claim(a, "q", 1, &job);
    TEST_ASSERT_NULL(shown(job.id));
    TEST_ASSERT_EQUAL_STRING("ok", progress(a, &job, "{\"done\": 1}"));
    TEST_ASSERT_EQUAL_STRING("{\"done\": 1}", shown(job.id));
    TEST_ASSERT_EQUAL_STRING("ok", progress(a, &job, "{\"done\": 2}"));
    kit_say(a, "fail", &job, ", 'why', 0");
    kit_claim(a, "q", 1, &job);
    TEST_ASSERT_EQUAL_STRING("{\"done\": 2}", shown(job.id));
    TEST_ASSERT_EQUAL_STRING("{\"done\": 2}",
                             kit_text(a, "SELECT pgwork.job_progress('q', %lld)", job.id));
    TEST_ASSERT_EQUAL_STRING("{\"done\": 2}", kit_text(a, "SELECT progress FROM pgwork.job"));
    prune();
    TEST_ASSERT_EQUAL_STRING("{\"done\": 2}", shown(job.id));
    kit_say(a, "complete", &job, "");
    prune();
    TEST_ASSERT_EQUAL_INT64(0, histories());
}

void test_a_stale_token_changes_no_progress(void)
{
    struct took first, second;

    kit_put(a, "q");
    kit_claim(a, "q", 1, &first);
    progress(a, &first, "1");
    kit_expire(a, "q");
    kit_do(a, "SELECT pgwork.reap('q')");
    TEST_ASSERT_EQUAL_STRING("stale", progress(a, &first, "2")); /* nobody has it */
    kit_claim(b, "q", 1, &second);
    TEST_ASSERT_EQUAL_STRING("stale", progress(a, &first, "3"));
    TEST_ASSERT_EQUAL_STRING("1", shown(first.id));
    TEST_ASSERT_EQUAL_STRING("ok", progress(b, &second, "4"));
    TEST_ASSERT_EQUAL_STRING(
        "stale", kit_text(a,
                          "SELECT status FROM pgwork.progress('q', '{%lld,%lld}', '{%s,%s}', "
                          "ARRAY['5', '6']::jsonb[])",
                          first.id, first.id, first.token, "00000000-0000-0000-0000-000000000000"));
    TEST_ASSERT_EQUAL_STRING("4", shown(first.id));
    kit_say(b, "complete", &second, "");
    TEST_ASSERT_EQUAL_STRING("gone", progress(b, &second, "7"));
}

/* Both names of one job in a call: only the value that came with the current token counts. */
void test_two_tokens_of_a_job_in_one_call_do_not_mix(void)
{
    struct took first, second;

    kit_put(a, "q");
    kit_claim(a, "q", 1, &first);
    kit_expire(a, "q");
    kit_do(a, "SELECT pgwork.reap('q')");
    kit_claim(a, "q", 1, &second);
    for (int order = 0; order < 2; order++) {
        kit_do(a,
               "SELECT * FROM pgwork.progress('q', '{%lld,%lld}', '{%s,%s}', "
               "ARRAY['%d', '%d']::jsonb[])",
               first.id, first.id, order ? second.token : first.token,
               order ? first.token : second.token, order ? 1 : 0, order ? 0 : 1);
        TEST_ASSERT_EQUAL_STRING("1", shown(first.id));
    }
}

void test_progress_does_not_wait_for_a_locked_job(void)
{
    struct took job;

    kit_put(a, "q");
    kit_claim(a, "q", 1, &job);
    kit_do(a, "BEGIN");
    kit_say(a, "complete", &job, "");
    TEST_ASSERT_EQUAL_STRING("locked", progress(b, &job, "1"));
    kit_do(a, "ROLLBACK");
    TEST_ASSERT_EQUAL_STRING("ok", progress(b, &job, "1"));
}

/* Jobs of a batch row share it: the history of one that runs there is kept. */
void test_progress_of_jobs_that_share_a_row_is_kept_while_they_run(void)
{
    kit_do(a, "SELECT count(*) FROM pgwork.enqueue_many('q', ARRAY(SELECT to_jsonb(g) FROM "
              "generate_series(1, 50) g))");
    kit_do(a, "CREATE TEMP TABLE held AS SELECT id, token FROM pgwork.claim('{q}', 50, 'w')");
    kit_do(a, "SELECT p.* FROM (SELECT array_agg(id) AS ids, array_agg(token) AS tokens, "
              "array_agg(to_jsonb(id)) AS values FROM held) h CROSS JOIN LATERAL "
              "pgwork.progress('q', h.ids, h.tokens, h.values) p");
    prune();
    TEST_ASSERT_EQUAL_INT64(50, kit_number(b, "SELECT count(*) FROM pgwork.job_list('q') WHERE "
                                              "progress::text = id::text"));
    kit_do(a,
           "SELECT c.* FROM (SELECT array_agg(id) AS ids, array_agg(token) AS tokens FROM (SELECT "
           "* FROM held ORDER BY id LIMIT 20) h) h CROSS JOIN LATERAL pgwork.complete('q', h.ids, "
           "h.tokens) c");
    prune();
    TEST_ASSERT_EQUAL_INT64(30, histories());
    TEST_ASSERT_EQUAL_INT64(
        20, kit_number(a, "SELECT count(*) FILTER (WHERE p.status = 'gone') FROM (SELECT "
                          "array_agg(id) AS ids, array_agg(token) AS tokens, "
                          "array_agg('null'::jsonb) AS values FROM held) h CROSS JOIN LATERAL "
                          "pgwork.progress('q', h.ids, h.tokens, h.values) p"));
}

void test_bad_progress_is_refused(void)
{
    kit_refused(a, "PW003", "none", "SELECT pgwork.progress('none', '{}', '{}', '{}')");
    kit_refused(
        a, "PW001", "progress|2, one for each id",
        "SELECT pgwork.progress('q', '{1,2}', ARRAY[gen_random_uuid()], ARRAY['1'::jsonb])");
    kit_refused(a, "PW001", "tokens",
                "SELECT pgwork.progress('q', '{1}', '{}', ARRAY['1'::jsonb])");
    kit_refused(a, "PW001", "progress|65536",
                "SELECT pgwork.progress('q', '{1}', ARRAY[gen_random_uuid()], "
                "ARRAY[to_jsonb(repeat('x', 65536))])");
}
