/* The fence: only the holder finishes a job, attempts are counted exactly, and one of several
 * racers wins. Longer than 600 lines: each verb of a holder is tried in each state of a job, with
 * the same two sessions. */
#include "unity.h"
#include "pgtemp.h"
#include "sqlkit.h"

#include <stdio.h>
#include <string.h>

static PGconn *a, *b;
static struct took job, other;

void setUp(void)
{
    kit_begin();
    a = kit_open();
    b = kit_open();
}

void tearDown(void)
{
    kit_end();
}

static const struct verb {
    const char *name, *more;
} verbs[] = {{"complete", ""},      {"fail", ", 'boom'"}, {"fail", ", 'boom', 0, true"},
             {"extend", ", 60000"}, {"snooze", ", 1000"}, {"release", ""}};

enum { VERBS = sizeof(verbs) / sizeof(verbs[0]) };

/* Nothing that the holder of this token says is heard, and nothing changes by it. */
static void check_refused(const struct took *stale, const char *status)
{
    static const char all[] = "SELECT json_agg(j ORDER BY id) FROM pgwork.job j";
    const char *before = kit_text(a, all);

    for (int i = 0; i < VERBS; i++)
        TEST_ASSERT_EQUAL_STRING_MESSAGE(status, kit_say(a, verbs[i].name, stale, verbs[i].more),
                                         verbs[i].name);
    if (before)
        TEST_ASSERT_EQUAL_STRING(before, kit_text(a, all));
    else
        TEST_ASSERT_NULL(kit_text(a, all));
}

static void take(const char *queue, struct took *out)
{
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, queue, 1, out));
}

static void reap(long long returned, long long died)
{
    kit_expire(a, "q");
    TEST_ASSERT_EQUAL_STRING(kit_text(a, "SELECT (%lld, %lld)::text", returned, died),
                             kit_text(b, "SELECT (returned, died)::text FROM pgwork.reap('q')"));
}

/* -- stale holders ------------------------------------------------------------------------------
 */

void test_a_stale_holder_is_refused_while_the_job_waits_again(void)
{
    kit_put(a, "q");
    take("q", &job);
    reap(1, 0);
    check_refused(&job, "stale");
    TEST_ASSERT_EQUAL_STRING("1 0 0 0 0", kit_places(a, "q"));
}

void test_a_stale_holder_is_refused_while_the_job_runs_under_the_same_name(void)
{
    kit_put(a, "q");
    take("q", &job);
    reap(1, 0);
    take("q", &other);
    TEST_ASSERT_EQUAL_INT64(job.id, other.id);
    check_refused(&job, "stale");
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &other, ""));
    check_refused(&job, "gone");
    check_refused(&other, "gone");
}

/* Only the token tells the two claims apart. */
void test_a_stale_holder_is_refused_when_only_the_token_differs(void)
{
    static const char look[] = "SELECT id || holder || attempt || priority FROM pgwork.job";
    const char *before;

    kit_put(a, "q");
    take("q", &job);
    before = kit_text(a, look);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "release", &job, ""));
    take("q", &other);
    TEST_ASSERT_EQUAL_STRING(before, kit_text(a, look));
    check_refused(&job, "stale");
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "extend", &other, ""));
}

void test_a_stale_holder_is_refused_wherever_the_job_went(void)
{
    kit_put(a, "q");
    take("q", &job);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", &job, ", 'boom', 60000"));
    check_refused(&job, "stale"); /* delayed */
    kit_due(a, "q");
    kit_do(a, "SELECT pgwork.promote()");
    check_refused(&job, "stale"); /* ready */
    take("q", &other);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", &other, ", 'boom', NULL, true"));
    check_refused(&job, "stale"); /* dead */
    check_refused(&other, "stale");
    kit_do(a, "SELECT pgwork.dead_purge('q')");
    check_refused(&job, "gone");
}

void test_a_late_holder_is_accepted_until_another_session_takes_the_lease(void)
{
    kit_put(a, "q");
    take("q", &job);
    kit_expire(a, "q");
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "extend", &job, ""));
    TEST_ASSERT_EQUAL_INT64(0, kit_number(b, "SELECT returned FROM pgwork.reap('q')"));
    kit_expire(a, "q");
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &job, ""));
}

/* -- tokens that are not ours -------------------------------------------------------------------
 */

void test_foreign_and_made_up_tokens_are_refused(void)
{
    struct took odd;

    kit_put(a, "q");
    kit_put(a, "q");
    take("q", &job);
    take("q", &other);
    odd = job; /* the token of another job */
    memcpy(odd.token, other.token, sizeof(odd.token));
    check_refused(&odd, "stale");
    odd = job; /* right number, other nonce */
    memcpy(odd.token + 19, "0000-000000000000", 18);
    check_refused(&odd, "stale");
    odd = job; /* right nonce, other number */
    memcpy(odd.token, other.token, 18);
    check_refused(&odd, "stale");
    memcpy(odd.token, "00000000-0000-0000-0000-000000000000", 37);
    check_refused(&odd, "stale");
    memcpy(odd.token, "ffffffff-ffff-ffff-ffff-ffffffffffff", 37);
    check_refused(&odd, "stale");
    memcpy(odd.token, "8f0e7d6c-5b4a-4392-8170-615243342516", 37);
    check_refused(&odd, "stale");
    odd = job; /* a job that never was */
    odd.id = 1LL << 60;
    check_refused(&odd, "gone");
    kit_do(a, "SELECT pgwork.queue_create('another')");
    odd = job; /* another queue */
    memcpy(odd.queue, "another", 8);
    check_refused(&odd, "gone");
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &job, ""));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &other, ""));
}

void test_a_waiting_job_cannot_be_finished_by_the_zero_token(void)
{
    job.id = kit_put(a, "q");
    memcpy(job.queue, "q", 2);
    memcpy(job.token, "00000000-0000-0000-0000-000000000000", 37);
    check_refused(&job, "stale");
    TEST_ASSERT_EQUAL_STRING("1 0 0 0 0", kit_places(a, "q"));
}

void test_exactly_the_refused_jobs_of_a_batch_are_named(void)
{
    struct took jobs[3];

    for (int i = 0; i < 3; i++) kit_put(a, "q");
    TEST_ASSERT_EQUAL_INT(3, kit_claim(a, "q", 3, jobs));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "release", &jobs[1], ""));
    TEST_ASSERT_EQUAL_STRING(
        kit_text(a, "SELECT '%lld stale,%lld gone'", jobs[1].id, 1LL << 60),
        kit_text(a,
                 "SELECT string_agg(id || ' ' || status, ',' ORDER BY id) FROM pgwork.complete('q',"
                 " '{%lld,%lld,%lld,%lld}', '{%s,%s,%s,%s}')",
                 jobs[0].id, jobs[1].id, jobs[2].id, 1LL << 60, jobs[0].token, jobs[1].token,
                 jobs[2].token, jobs[0].token));
    TEST_ASSERT_EQUAL_STRING("1 0 0 0 0", kit_places(a, "q"));
}

/* Jobs that share a token: the word for one of them is no word for the others. */
void test_the_jobs_of_a_batch_are_finished_one_by_one(void)
{
    static const char *const status[] = {"gone", "stale", "stale", "stale", "stale"};
    struct took jobs[5];

    kit_do(a, "SELECT pgwork.enqueue_many('q', '{1,2,3,4,5}')");
    TEST_ASSERT_EQUAL_INT(5, kit_claim(a, "q", 5, jobs));
    TEST_ASSERT_EQUAL_STRING(jobs[0].token, jobs[4].token);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &jobs[0], ""));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", &jobs[1], ", 'boom', NULL, true"));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "snooze", &jobs[2], ", 60000"));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "release", &jobs[3], ""));
    TEST_ASSERT_EQUAL_STRING("1 1 1 1 0", kit_places(a, "q"));
    for (int i = 0; i < 4; i++) check_refused(&jobs[i], status[i]);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "extend", &jobs[4], ""));
    reap(1, 0);
    for (int i = 0; i < 5; i++) check_refused(&jobs[i], status[i]);
    TEST_ASSERT_EQUAL_STRING("2 0 1 1 0", kit_places(a, "q"));
}

void test_some_jobs_of_a_batch_can_be_extended(void)
{
    struct took jobs[5];

    kit_do(a, "SELECT pgwork.enqueue_many('q', '{1,2,3,4,5}')");
    TEST_ASSERT_EQUAL_INT(5, kit_claim(a, "q", 5, jobs));
    kit_expire(a, "q");
    TEST_ASSERT_EQUAL_STRING(
        "ok,ok", kit_text(a,
                          "SELECT string_agg(status, ',') FROM pgwork.extend('q', '{%lld,%lld}',"
                          " '{%s}', 60000)",
                          jobs[1].id, jobs[3].id, jobs[1].token));
    TEST_ASSERT_EQUAL_INT64(3, kit_number(b, "SELECT returned FROM pgwork.reap('q')"));
    for (int i = 0; i < 5; i += 2) check_refused(&jobs[i], "stale");
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &jobs[1], ""));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &jobs[3], ""));
    TEST_ASSERT_EQUAL_STRING("3 0 0 0 0", kit_places(a, "q"));
}

void test_a_job_named_twice_is_finished_once_and_not_refused(void)
{
    kit_put(a, "q");
    take("q", &job);
    TEST_ASSERT_NULL(kit_text(a,
                              "SELECT status FROM pgwork.complete('q', '{%lld,%lld}', '{%s,%s}')",
                              job.id, job.id, job.token, job.token));
}

/* Of two claims, by who has had both. */
void test_of_a_job_named_twice_the_output_of_its_holder_is_kept(void)
{
    kit_do(a, "SELECT pgwork.queue_create('q', retention_ms => 60000)");
    kit_put(a, "q");
    take("q", &job);
    reap(1, 0);
    take("q", &other);
    kit_do(a,
           "SELECT pgwork.complete('q', '{%lld,%lld}', '{%s,%s}', ARRAY['\"good\"', "
           "'\"stale\"']::jsonb[])",
           job.id, job.id, other.token, job.token);
    TEST_ASSERT_EQUAL_STRING("\"good\"", kit_text(a, "SELECT output FROM pgwork.job"));
}

/* As some clients count. */
void test_one_token_for_all_may_have_the_subscript_zero(void)
{
    kit_put(a, "q");
    take("q", &job);
    TEST_ASSERT_EQUAL_STRING(
        "ok", kit_text(a, "SELECT status FROM pgwork.extend('q', '{%lld,%lld}', '[0:0]={%s}')",
                       job.id, job.id, job.token));
    TEST_ASSERT_NULL(kit_text(a,
                              "SELECT status FROM pgwork.complete('q', '{%lld,%lld}', "
                              "'[0:0]={%s}')",
                              job.id, job.id, job.token));
    TEST_ASSERT_EQUAL_STRING("0 0 0 0 0", kit_places(a, "q"));
}

void test_lists_of_unequal_length_and_nulls_do_nothing(void)
{
    kit_put(a, "q");
    take("q", &job);
    for (int i = 0; i < VERBS; i++) {
        kit_refused(a, "PW001", "tokens|one for each id", "SELECT pgwork.%s('q', '{%lld}', '{}'%s)",
                    verbs[i].name, job.id, verbs[i].more);
        kit_refused(a, "PW001", "tokens", "SELECT pgwork.%s('q', NULL, '{%s}'%s)", verbs[i].name,
                    job.token, verbs[i].more);
        kit_do(a, "SELECT pgwork.%s('q', NULL, NULL%s)", verbs[i].name, verbs[i].more);
        kit_do(a, "SELECT pgwork.%s('q', '{NULL}', '{%s}'%s)", verbs[i].name, job.token,
               verbs[i].more);
        kit_do(a, "SELECT pgwork.%s('q', '{%lld}', '{NULL}'%s)", verbs[i].name, job.id,
               verbs[i].more);
        kit_refused(a, "PW003", "no queue \"none\"", "SELECT pgwork.%s('none', '{1}', '{%s}'%s)",
                    verbs[i].name, job.token, verbs[i].more);
    }
    for (int i = 0; i < VERBS; i++)
        kit_refused(a, "PW001", "tokens|one for each id|or one for all",
                    "SELECT pgwork.%s('q', '{%lld,%lld,%lld}', '{%s,%s}'%s)", verbs[i].name, job.id,
                    job.id, job.id, job.token, job.token, verbs[i].more);
    kit_do(a, "SET statement_timeout = '10s'"); /* a token, and no jobs */
    for (int i = 0; i < VERBS; i++) {
        kit_refused(a, "PW001", "tokens", "SELECT pgwork.%s('q', '{}', '{%s}'%s)", verbs[i].name,
                    job.token, verbs[i].more);
        kit_refused(a, "PW001", "tokens", "SELECT pgwork.%s('q', NULL, '{%s}'%s)", verbs[i].name,
                    job.token, verbs[i].more);
    }
    kit_refused(a, "PW001", "outputs", "SELECT pgwork.complete('q', '{%lld}', '{%s}', '{1,2}')",
                job.id, job.token);
    kit_refused(a, "PW001", "argument tokens|\"2 tokens\"",
                "SELECT pgwork.claim('{q}', 1, 'me', NULL, '{1,2,3}', '{%s,%s}')", job.token,
                job.token);
    kit_refused(a, "PW001", "argument tokens|\"1 tokens\"",
                "SELECT pgwork.claim('{q}', 1, 'me', NULL, NULL, '{%s}')", job.token);
    TEST_ASSERT_EQUAL_STRING("0 1 0 0 0", kit_places(a, "q"));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &job, ""));
}

/* -- races --------------------------------------------------------------------------------------
 */

enum { ROUNDS = 120 };

struct outcome {
    struct took job;
    long long returned[2], died[2];
    char said[8];
};

/* Two reapers and the holder, at the same moment, on a lease that has run out. */
static void one_outcome(PGconn *conn, int i, void *ctx)
{
    struct outcome *o = ctx;

    for (int round = 0; round < ROUNDS; round++, o++) {
        const struct verb *verb = &verbs[round % VERBS];
        char queue[16];

        snprintf(queue, sizeof(queue), "q%d", round);
        if (i == 0) {
            kit_do(conn,
                   "SELECT pgwork.queue_create('%s', retention_ms => 3600000,"
                   " backoff_ms => 3600000), pgwork.enqueue('%s', max_attempts => %d)",
                   queue, queue, 1 + round % 2);
            kit_claim(conn, queue, 1, &o->job);
            kit_expire(conn, queue);
        }
        kit_together();
        if (i == 0) {
            snprintf(o->said, sizeof(o->said), "%s",
                     kit_say(conn, verb->name, &o->job, verb->more));
        } else {
            PGresult *res = kit_rows(conn, "SELECT returned, died FROM pgwork.reap('%s')", queue);

            o->returned[i - 1] = *PQgetvalue(res, 0, 0) - '0';
            o->died[i - 1] = *PQgetvalue(res, 0, 1) - '0';
            PQclear(res);
        }
        kit_together();
    }
}

void test_two_reapers_and_a_holder_come_to_one_outcome(void)
{
    static struct outcome outcomes[ROUNDS];
    int heard = 0, reaped = 0;

    kit_race(3, one_outcome, outcomes);
    for (int i = 0; i < ROUNDS; i++) {
        const struct outcome *o = &outcomes[i];
        const struct verb *verb = &verbs[i % VERBS];
        long long returned = o->returned[0] + o->returned[1], died = o->died[0] + o->died[1];
        const char *state =
            kit_text(a, "SELECT string_agg(state || attempt, ',') FROM pgwork.job WHERE id = %lld",
                     o->job.id);
        const char *is = NULL;

        if (strcmp(o->said, "ok") == 0) {
            heard++;
            TEST_ASSERT_EQUAL_INT64(0, returned + died);
            is = strcmp(verb->name, "complete") == 0        ? "done1"
                 : strcmp(verb->name, "extend") == 0        ? "leased1"
                 : strcmp(verb->name, "snooze") == 0        ? "delayed0"
                 : strcmp(verb->name, "release") == 0       ? "ready0"
                 : strstr(verb->more, "true") || i % 2 == 0 ? "dead1"
                                                            : "delayed1";
        } else {
            reaped++;
            if (strcmp(verb->name, "extend") != 0 || strcmp(o->said, "locked") != 0) /* not yet */
                TEST_ASSERT_EQUAL_STRING("stale", o->said);
            TEST_ASSERT_EQUAL_INT64(1, returned + died);
            TEST_ASSERT_EQUAL_INT64(i % 2 == 0, died);
            is = i % 2 == 0 ? "dead1" : "ready1";
        }
        TEST_ASSERT_EQUAL_STRING_MESSAGE(is, state, verb->name);
    }
    TEST_ASSERT_EQUAL_INT(ROUNDS, heard + reaped);
}

static void all_reap(PGconn *conn, int i, void *ctx)
{
    long long *sums = ctx;

    (void)i;
    while (strncmp(kit_places(conn, "q"), "500 ", 4) != 0)
        sums[i] += kit_number(conn, "SELECT returned + died FROM pgwork.reap('q', 13)");
}

void test_many_reapers_at_once_take_each_lease_once(void)
{
    static struct took jobs[500];
    long long sums[4] = {0};

    kit_do(a, "SELECT pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[500]))");
    TEST_ASSERT_EQUAL_INT(500, kit_claim(a, "q", 500, jobs));
    kit_expire(a, "q");
    kit_race(4, all_reap, sums);
    TEST_ASSERT_EQUAL_INT64(500, sums[0] + sums[1] + sums[2] + sums[3]);
    TEST_ASSERT_EQUAL_STRING("500 0 0 0 0", kit_places(a, "q"));
    TEST_ASSERT_EQUAL_INT64(500, kit_number(a, "SELECT count(DISTINCT id) FROM pgwork.job"));
}

/* -- attempts -----------------------------------------------------------------------------------
 */

static long long attempt_now(void)
{
    return kit_number(a, "SELECT attempt FROM pgwork.job WHERE queue = 'q'");
}

void test_attempts_are_charged_by_claims_and_given_back_by_release_and_snooze(void)
{
    kit_put(a, "q");
    TEST_ASSERT_EQUAL_INT64(0, attempt_now());
    for (int i = 0; i < 3; i++) {
        take("q", &job);
        TEST_ASSERT_EQUAL_INT(1, job.attempt);
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "release", &job, ""));
        TEST_ASSERT_EQUAL_INT64(0, attempt_now());
        take("q", &job);
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "snooze", &job, i ? ", 60000" : ", 0"));
        TEST_ASSERT_EQUAL_INT64(0, attempt_now());
        kit_due(a, "q");
        kit_do(a, "SELECT pgwork.promote()");
    }
    take("q", &job);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "extend", &job, ""));
    TEST_ASSERT_EQUAL_INT64(1, attempt_now());
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", &job, ", 'boom', 0"));
    TEST_ASSERT_EQUAL_INT64(1, attempt_now());
    take("q", &job);
    TEST_ASSERT_EQUAL_INT(2, job.attempt);
    reap(1, 0);
    TEST_ASSERT_EQUAL_INT64(2, attempt_now());
    take("q", &job);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "release", &job, ""));
    TEST_ASSERT_EQUAL_INT64(2, attempt_now());
}

void test_failures_end_in_dead_letters_after_exactly_max_attempts(void)
{
    kit_do(a, "SELECT pgwork.enqueue('q', max_attempts => 4)");
    for (int i = 1; i <= 4; i++) {
        take("q", &job);
        TEST_ASSERT_EQUAL_INT(i, job.attempt);
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", &job, ", 'number ' || 1, 0"));
    }
    TEST_ASSERT_EQUAL_STRING("0 0 0 1 0", kit_places(a, "q"));
    TEST_ASSERT_EQUAL_STRING("4 number 1",
                             kit_text(a, "SELECT attempt || ' ' || error FROM pgwork.job"));
}

void test_a_poison_job_ends_in_dead_letters_after_exactly_max_attempts(void)
{
    struct took jobs[8];
    int claims = 0, got;

    kit_do(a, "SELECT pgwork.enqueue('q', max_attempts => 5)");
    for (int i = 0; i < 3; i++) kit_put(a, "q");
    TEST_ASSERT_EQUAL_INT(4, kit_claim(a, "q", 8, jobs)); /* it takes three others along, once */
    job = jobs[0];
    for (int i = 1; i < 4; i++)
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &jobs[i], ""));
    for (claims = 1; claims < 5; claims++) {
        reap(1, 0);
        kit_put(a, "q");
        for (;;) {
            got = kit_claim(a, "q", 8, jobs);
            TEST_ASSERT_GREATER_THAN_INT(0, got);
            for (int i = 0; i < got; i++)
                TEST_ASSERT_TRUE(got == 1 || jobs[i].id != job.id); /* it comes alone */
            if (jobs[0].id == job.id) break;
            for (int i = 0; i < got; i++)
                TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &jobs[i], ""));
        }
    }
    reap(0, 1);
    kit_do(a, "SELECT pgwork.queue_purge('q')");
    TEST_ASSERT_EQUAL_STRING("0 0 0 1 0", kit_places(a, "q"));
    TEST_ASSERT_EQUAL_STRING("5 true",
                             kit_text(a, "SELECT attempt || ' ' || (error ~ 'lease expired') FROM "
                                         "pgwork.job WHERE state = 'dead'"));
}

void test_a_retry_waits_for_its_backoff(void)
{
    kit_do(a, "SELECT pgwork.queue_create('q', backoff_ms => 1000, backoff_cap_ms => 3000)");
    kit_do(a, "SELECT pgwork.enqueue('q')");
    for (int i = 0; i < 9; i++) {
        long long ms;

        take("q", &job);
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", &job, ""));
        ms = kit_number(
            a, "SELECT (extract(epoch FROM run_at - now()) * 1000)::bigint FROM pgwork.job");
        TEST_ASSERT_TRUE(ms <= (i == 0 ? 1000 : i == 1 ? 2000 : 3000));
        kit_due(a, "q");
        kit_do(a, "SELECT pgwork.promote()");
    }
    take("q", &job);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", &job, ", 'x', 7000"));
    TEST_ASSERT_EQUAL_STRING("0 0 0 1 0", kit_places(a, "q")); /* its tenth */
}

/* As the docs say, and so that the library takes it: in bytes, and no letter is cut. */
void test_an_error_is_kept_up_to_8000_bytes(void)
{
    kit_put(a, "q");
    take("q", &job);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", &job, ", 'x' || repeat('é', 5000), 0"));
    TEST_ASSERT_EQUAL_STRING("7999 t",
                             kit_text(a, "SELECT octet_length(error) || ' ' || "
                                         "(error ~ '^xé+$')::text::char FROM pgwork.job"));
}

/* -- cancel -------------------------------------------------------------------------------------
 */

static const char *cancel(long long id)
{
    return kit_text(a, "SELECT status FROM pgwork.cancel('q', '{%lld}')", id);
}

void test_cancel_of_waiting_jobs_removes_them(void)
{
    long long id = kit_put(a, "q");

    TEST_ASSERT_EQUAL_STRING("cancelled", cancel(id));
    TEST_ASSERT_EQUAL_STRING("gone", cancel(id));
    id = kit_number(a, "SELECT id FROM pgwork.enqueue('q', delay_ms => 60000)");
    TEST_ASSERT_EQUAL_STRING("cancelled", cancel(id));
    id = kit_put(a, "q");
    take("q", &job);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "release", &job, "")); /* lies elsewhere now */
    kit_do(a, "SELECT pgwork.queue_set('q', retention_ms => 60000)");
    TEST_ASSERT_EQUAL_STRING("cancelled", cancel(id));
    TEST_ASSERT_EQUAL_STRING("0 0 0 0 1", kit_places(a, "q"));
    TEST_ASSERT_EQUAL_STRING("cancelled", kit_text(a, "SELECT state FROM pgwork.job"));
}

void test_the_holder_hears_of_a_cancel_at_its_next_extend(void)
{
    static const struct verb ends[] = {{"fail", ", 'boom', 0"}, {"release", ""}, {"snooze", ", 0"}};
    long long id;

    kit_do(a, "SELECT pgwork.queue_create('q', retention_ms => 60000)");
    for (int i = 0; i < 3; i++) {
        id = kit_put(a, "q");
        take("q", &job);
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "extend", &job, ""));
        TEST_ASSERT_EQUAL_STRING("requested", cancel(id));
        TEST_ASSERT_EQUAL_STRING("cancel", kit_say(a, "extend", &job, ""));
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, ends[i].name, &job, ends[i].more));
        TEST_ASSERT_EQUAL_STRING("cancelled",
                                 kit_text(a, "SELECT state FROM pgwork.job WHERE id = %lld", id));
    }
    id = kit_put(a, "q");
    take("q", &job);
    TEST_ASSERT_EQUAL_STRING("requested", cancel(id));
    reap(1, 0); /* reaped, and removed as cancelled */
    TEST_ASSERT_EQUAL_STRING("0 0 0 0 4", kit_places(a, "q"));
    id = kit_put(a, "q");
    take("q", &job);
    TEST_ASSERT_EQUAL_STRING("requested", cancel(id));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &job, "")); /* too late to stop it */
    TEST_ASSERT_EQUAL_STRING("done",
                             kit_text(a, "SELECT state FROM pgwork.job WHERE id = %lld", id));
}

/* A handler completes in its own transaction, and goes on for long: the heartbeat of its neighbours
 * must neither wait for it nor call its own job lost. */
void test_an_extend_waits_for_no_transaction_and_leaves_what_it_holds(void)
{
    struct took jobs[3];
    char all[400];

    for (int i = 0; i < 3; i++) {
        kit_put(a, "q");
        take("q", &jobs[i]);
    }
    snprintf(
        all, sizeof(all),
        "SELECT string_agg(status, ' ' ORDER BY id) FROM pgwork.extend('q', '{%lld,%lld,%lld}',"
        " '{%s,%s,%s}', 3600000)",
        jobs[0].id, jobs[1].id, jobs[2].id, jobs[0].token, jobs[1].token, jobs[2].token);
    kit_do(b, "BEGIN");
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(b, "complete", &jobs[1], ""));
    kit_do(a, "SET statement_timeout = '10s'");
    TEST_ASSERT_EQUAL_STRING("ok locked ok", kit_text(a, all));
    TEST_ASSERT_EQUAL_STRING(
        "true false true",
        kit_text(a, "SELECT string_agg((lease_until > now() + interval '59 min')::text, ' '"
                    " ORDER BY id) FROM pgwork.job"));
    kit_do(b, "ROLLBACK");
    TEST_ASSERT_EQUAL_STRING("ok ok ok", kit_text(a, all));
    kit_do(b, "BEGIN");
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(b, "complete", &jobs[1], ""));
    kit_do(b, "COMMIT");
    TEST_ASSERT_EQUAL_STRING("ok gone ok", kit_text(a, all));
}

/* A job that is moved while its canceller waits for the row is found where it went. */
void test_a_cancel_follows_a_job_that_moves(void)
{
    long long id = kit_number(a, "SELECT id FROM pgwork.enqueue('q', delay_ms => 60000)");
    PGconn *canceller = kit_open();

    kit_due(a, "q");
    kit_do(b, "BEGIN; SELECT pgwork.promote()");
    kit_send(canceller, "SELECT status FROM pgwork.cancel('q', '{%lld}')", id);
    kit_blocked(canceller, a);
    kit_do(b, "COMMIT");
    TEST_ASSERT_EQUAL_STRING("cancelled", kit_answer(canceller));

    id = kit_put(a, "q"); /* claimed, failed, and waiting for its retry */
    kit_do(b, "BEGIN");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 1, &job));
    kit_send(canceller, "SELECT status FROM pgwork.cancel('q', '{%lld}')", id);
    kit_blocked(canceller, a);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(b, "fail", &job, ", 'boom', 60000"));
    kit_do(b, "COMMIT");
    TEST_ASSERT_EQUAL_STRING("cancelled", kit_answer(canceller));

    id = kit_put(a, "q"); /* claimed */
    kit_do(b, "BEGIN");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 1, &job));
    kit_send(canceller, "SELECT status FROM pgwork.cancel('q', '{%lld}')", id);
    kit_blocked(canceller, a);
    kit_do(b, "COMMIT");
    TEST_ASSERT_EQUAL_STRING("requested", kit_answer(canceller));
    TEST_ASSERT_EQUAL_STRING("cancel", kit_say(b, "extend", &job, ""));

    kit_do(b, "BEGIN"); /* completed, but not yet for the others */
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(b, "complete", &job, ""));
    TEST_ASSERT_EQUAL_STRING("requested", cancel(id));
    kit_do(b, "COMMIT");
    TEST_ASSERT_EQUAL_STRING("gone", cancel(id));
    TEST_ASSERT_EQUAL_STRING("0 0 0 0 0", kit_places(a, "q"));
}

/* Single rows, and a row of many. */
TEST_CASE(12)
TEST_CASE(40)
void test_no_verb_of_a_holder_waits_for_an_open_cancel(int n)
{
    static struct took jobs[40];
    PGconn *c = kit_open();

    kit_do(a, "SELECT pgwork.queue_create('q', max_attempts => 2)");
    for (int i = 0; i < n; i++) kit_put(a, "q");
    TEST_ASSERT_EQUAL_INT(n, kit_claim(a, "q", n, jobs));
    kit_do(b, "BEGIN");
    for (int i = 0; i < n; i++)
        TEST_ASSERT_EQUAL_STRING(
            "requested",
            kit_text(b, "SELECT status FROM pgwork.cancel('q', '{%lld}')", jobs[i].id));
    kit_do(c, "SET lock_timeout = '1ms'");
    for (int i = 0; i < 12; i++) {
        const struct verb *v = &verbs[i % VERBS];

        TEST_ASSERT_EQUAL_STRING_MESSAGE("ok", kit_say(c, v->name, &jobs[i], v->more), v->name);
    }
    kit_expire(a, "q");
    kit_do(c, "SELECT pgwork.reap()");
    kit_do(c, "SELECT pgwork.maintain()");
    kit_do(c, "SELECT pgwork.claim('{q}', 100, 'w')");
    TEST_ASSERT_EQUAL(PQTRANS_INTRANS, PQtransactionStatus(b));
}

/* The job was requeued while its cancel was not committed. */
void test_a_cancel_that_commits_after_the_requeue_holds(void)
{
    static const struct verb ends[] = {{"fail", ", 'boom', 60000"},
                                       {"fail", ", 'boom', 0"},
                                       {"snooze", ", 60000"},
                                       {"release", ""}};

    kit_do(a, "SELECT pgwork.queue_create('q', retention_ms => 60000)");
    for (int i = 0; i < 4; i++) {
        long long id = kit_put(a, "q");

        take("q", &job);
        kit_do(b, "BEGIN; SELECT pgwork.cancel('q', '{%lld}')", id);
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, ends[i].name, &job, ends[i].more));
        kit_do(b, "COMMIT");
        kit_do(a, "SELECT pgwork.prune()");
        TEST_ASSERT_EQUAL_STRING("cancelled",
                                 kit_text(a, "SELECT state FROM pgwork.job WHERE id = %lld", id));
    }
}

/* It was claimed again before that: this holder hears of it, too. */
void test_a_cancel_that_commits_after_the_next_claim_is_noticed(void)
{
    long long id = kit_put(a, "q");

    take("q", &job);
    kit_do(b, "BEGIN; SELECT pgwork.cancel('q', '{%lld}')", id);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "release", &job, ""));
    take("q", &job);
    kit_do(b, "COMMIT");
    kit_do(a, "SELECT pgwork.prune()");
    TEST_ASSERT_EQUAL_STRING("cancel", kit_say(a, "extend", &job, ""));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "release", &job, ""));
    TEST_ASSERT_EQUAL_STRING("0 0 0 0 0", kit_places(a, "q"));
}

/* A dead letter that somebody redrives was cancelled in its life before. */
void test_a_redriven_job_is_not_cancelled(void)
{
    long long id = kit_put(a, "q");

    take("q", &job);
    TEST_ASSERT_EQUAL_STRING("requested", cancel(id));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", &job, ", 'boom', 0, true"));
    kit_do(a, "SELECT pgwork.redrive('q')");
    kit_do(a, "SELECT pgwork.prune()");
    take("q", &job);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "extend", &job, ""));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "release", &job, ""));
    TEST_ASSERT_EQUAL_STRING("1 0 0 0 0", kit_places(a, "q"));
}

void test_prune_forgets_requests_of_jobs_that_are_over(void)
{
    for (int i = 0; i < 2; i++) {
        long long id = kit_put(a, "q");

        take("q", i ? &other : &job);
        TEST_ASSERT_EQUAL_STRING("requested", cancel(id));
    }
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &job, ""));
    kit_do(a, "SELECT pgwork.prune()");
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT count(*) FROM pgwork.cancel_request"));
    TEST_ASSERT_EQUAL_STRING("cancel", kit_say(a, "extend", &other, ""));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", &other, ""));
    kit_do(a, "SELECT pgwork.prune()");
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT count(*) FROM pgwork.cancel_request"));
}
