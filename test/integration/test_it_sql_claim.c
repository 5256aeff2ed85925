/* Claims: which holder gets which job, in which order, and never two at a time. */
#include "unity.h"
#include "pgtemp.h"
#include "sqlkit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static PGconn *a, *b;
static struct took jobs[10000];

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

static void fill(const char *queue, int n)
{
    kit_do(a, "SELECT count(*) FROM pgwork.enqueue_many('%s', array_fill('1'::jsonb, ARRAY[%d]))",
           queue, n);
}

/* -- races ------------------------------------------------------------------------------------- */

struct haul {
    int n, claims; /* jobs a claim, claims */
    int got[20];
    struct took jobs[20][200];
};

static void claim_often(PGconn *conn, int i, void *ctx)
{
    struct haul *h = ctx;

    for (int k = 0; k < h->claims; k++)
        h->got[i] += kit_claim(conn, "race", h->n, h->jobs[i] + h->got[i]);
}

/* All jobs were taken, each once. */
static void check_haul(struct haul *h, int racers, int all)
{
    long long *ids = calloc((size_t)all, sizeof(*ids));
    long long least = kit_number(a, "SELECT min(id) FROM pgwork.job");
    int sum = 0;

    TEST_ASSERT_NOT_NULL(ids);
    for (int i = 0; i < racers; i++)
        for (int k = 0; k < h->got[i]; k++) {
            long long at = h->jobs[i][k].id - least;

            TEST_ASSERT_TRUE(at >= 0 && at < all);
            TEST_ASSERT_EQUAL_INT64_MESSAGE(0, ids[at]++, "a job claimed twice");
            TEST_ASSERT_EQUAL_INT(1, h->jobs[i][k].attempt);
            sum++;
        }
    free(ids);
    TEST_ASSERT_EQUAL_INT(all, sum);
}

void test_a_thousand_claims_racing_on_a_hundred_jobs_share_none(void)
{
    static struct haul h;

    memset(&h, 0, sizeof(h));
    h.n = 1;
    h.claims = 50;
    fill("race", 100);
    kit_race(20, claim_often, &h);
    check_haul(&h, 20, 100);
    TEST_ASSERT_EQUAL_STRING("0 100 0 0 0", kit_places(a, "race"));
}

void test_claims_of_many_race_without_sharing(void)
{
    static struct haul h;

    memset(&h, 0, sizeof(h));
    h.n = 7;
    h.claims = 20;
    fill("race", 1000);
    kit_race(16, claim_often, &h);
    check_haul(&h, 16, 1000);
}

/* -- order ------------------------------------------------------------------------------------- */

static void check_order(const struct took *job, int n)
{
    for (int i = 1; i < n; i++)
        TEST_ASSERT_TRUE(job[i - 1].priority < job[i].priority ||
                         (job[i - 1].priority == job[i].priority && job[i - 1].id < job[i].id));
}

void test_priority_then_age_within_a_claim_and_across_claims(void)
{
    int got = 0;

    kit_do(a, "SELECT setseed(0.5); SELECT pgwork.enqueue('q', priority => (random() * 9)::integer)"
              " FROM generate_series(1, 200)");
    TEST_ASSERT_EQUAL_INT(200, kit_claim(b, "q", 300, jobs));
    check_order(jobs, 200);
    for (int i = 0; i < 200; i++)
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(b, "release", jobs + i, ""));
    while (got < 200) got += kit_claim(b, "q", 7, jobs + got);
    check_order(jobs, 200);
    TEST_ASSERT_EQUAL_INT(0, jobs[0].priority);
    TEST_ASSERT_EQUAL_INT(9, jobs[199].priority);
}

/* Some jobs were enqueued one by one, others together; claims of any size take them in order. */
TEST_CASE(8)
TEST_CASE(40)
TEST_CASE(100)
void test_jobs_that_came_together_are_not_passed_over(int n)
{
    int got;

    for (int i = 0; i < 61; i++) kit_do(a, "SELECT pgwork.enqueue('q', priority => %d)", i % 2);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 1, jobs)); /* the session expects single jobs */
    fill("q", 60);
    for (int i = 0; i < 61; i++) kit_do(a, "SELECT pgwork.enqueue('q', priority => %d)", i % 3);
    got = 1;
    while (got < 182) {
        int more = kit_claim(b, "q", n, jobs + got);

        TEST_ASSERT_GREATER_THAN_INT(0, more);
        got += more;
        check_order(jobs, got);
    }
}

void test_claims_go_on_where_all_tables_are_published(void)
{
    kit_do(a, "CREATE PUBLICATION everything FOR ALL TABLES");
    fill("q", 2);
    TEST_ASSERT_EQUAL_INT(2, kit_claim(a, "q", 2, jobs));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "extend", jobs, ""));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", jobs, ""));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", jobs + 1, ", 'boom'"));
    kit_do(a, "DROP PUBLICATION everything");
}

void test_a_released_job_goes_behind_what_waits_in_its_priority(void)
{
    fill("q", 3);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, jobs));
    kit_do(a, "SELECT pgwork.enqueue('q', priority => 1)");
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "release", jobs, ""));
    TEST_ASSERT_EQUAL_INT(4, kit_claim(b, "q", 10, jobs + 1));
    TEST_ASSERT_EQUAL_INT64(jobs[0].id, jobs[3].id);
    TEST_ASSERT_EQUAL_INT(1, jobs[4].priority);
    check_order(jobs + 1, 2);
}

void test_several_queues_are_served_by_the_best_head(void)
{
    kit_do(a, "SELECT pgwork.enqueue('one', priority => 3)"); /* the older one of these */
    kit_do(a, "SELECT pgwork.enqueue('two', priority => 3), pgwork.enqueue('two', priority => 1)");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "none,one,two", 1, jobs));
    TEST_ASSERT_EQUAL_INT(1, jobs[0].priority);
    TEST_ASSERT_EQUAL_STRING("two", jobs[0].queue);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "two,one", 1, jobs));
    TEST_ASSERT_EQUAL_STRING("one", jobs[0].queue);
    kit_put(a, "one");
    TEST_ASSERT_EQUAL_INT(2, kit_claim(b, "two,one", 2, jobs));
    TEST_ASSERT_EQUAL_STRING("one", jobs[0].queue);
    TEST_ASSERT_EQUAL_STRING("two", jobs[1].queue);
}

void test_a_claim_says_what_there_is_to_know(void)
{
    kit_do(a, "SELECT pgwork.enqueue('q', '{\"a\": 1}', 'mail', '\\x0102', 4, max_attempts => 7,"
              " lease_ms => 60000, tags => '{x,y}')");
    TEST_ASSERT_EQUAL_STRING(
        "q|1|7|4|mail|{\"a\": 1}|\\x0102|{x,y}|t|t",
        kit_text(
            b, "SELECT concat_ws('|', queue, attempt, max_attempts, priority, kind, payload, body,"
               " tags, lease_until = server_time + interval '60 s',"
               " server_time - created_at BETWEEN '0' AND '10 s')"
               " FROM pgwork.claim('{q}', 1, 'w', 1000)"));
    kit_put(a, "q");
    TEST_ASSERT_EQUAL_STRING("00:00:01", kit_text(b, "SELECT lease_until - server_time FROM "
                                                     "pgwork.claim('{q}', 1, 'w', 1000)"));
    kit_put(a, "q");
    TEST_ASSERT_EQUAL_STRING("00:00:30", kit_text(b, "SELECT lease_until - server_time FROM "
                                                     "pgwork.claim('{q}', 1, 'w')"));
}

void test_claims_from_a_paused_queue_come_empty(void)
{
    kit_put(a, "q");
    kit_do(a, "SELECT pgwork.queue_pause('q')");
    TEST_ASSERT_EQUAL_INT(0, kit_claim(b, "q", 1, jobs));
    kit_put(a, "q"); /* still open to producers */
    kit_do(a, "SELECT pgwork.queue_resume('q')");
    TEST_ASSERT_EQUAL_INT(2, kit_claim(b, "q", 5, jobs));
}

/* -- open transactions ------------------------------------------------------------------------- */

void test_jobs_of_an_aborted_claim_come_back_uncharged(void)
{
    for (int i = 0; i < 5; i++) kit_put(a, "q");
    kit_do(a, "BEGIN");
    TEST_ASSERT_EQUAL_INT(3, kit_claim(a, "q", 3, jobs));
    TEST_ASSERT_EQUAL_INT(2, kit_claim(b, "q", 5, jobs)); /* skips, does not wait */
    kit_do(a, "ROLLBACK");
    for (long long end = kit_ms() + 10000; kit_ms() < end && kit_claim(b, "q", 1, jobs) == 0;)
        kit_sleep_ms(5);
    TEST_ASSERT_EQUAL_INT(1, jobs[0].attempt);
    TEST_ASSERT_EQUAL_INT(2, kit_claim(a, "q", 5, jobs)); /* whose hint went with the rollback */
    TEST_ASSERT_EQUAL_INT(1, jobs[0].attempt);
    TEST_ASSERT_EQUAL_STRING("0 5 0 0 0", kit_places(a, "q"));
}

void test_a_late_commit_is_claimed_by_sessions_that_are_far_ahead(void)
{
    PGconn *late = kit_open();
    long long id;
    int polls, found = 0;

    fill("q", 100);
    kit_do(late, "BEGIN");
    id = kit_put(late, "q");
    fill("q", 9000);
    for (int i = 0; i < 30; i++) { /* both have warm hints, beyond the place of the late one */
        TEST_ASSERT_EQUAL_INT(20, kit_claim(i % 2 ? a : b, "q", 20, jobs));
        kit_sleep_ms(5);
    }
    TEST_ASSERT_GREATER_THAN_INT64(id, jobs[0].id);
    kit_do(late, "COMMIT");
    for (polls = 0; !found && polls < 800; polls++) { /* while there are later jobs all the time */
        int got = kit_claim(polls % 2 ? a : b, "q", 10, jobs);

        TEST_ASSERT_EQUAL_INT(10, got);
        for (int i = 0; i < got; i++) found |= jobs[i].id == id;
        kit_sleep_ms(2);
    }
    TEST_ASSERT_TRUE_MESSAGE(found, "not among 8,000 jobs that came after it");
}

/* A worker that never stops completes a job and claims the next one by one call. */
void test_a_late_commit_is_claimed_by_a_worker_that_never_pauses(void)
{
    PGconn *late = kit_open();
    long long id, end;

    kit_put(a, "q");
    kit_do(late, "BEGIN");
    id = kit_put(late, "q");
    kit_do(a, "SELECT pgwork.enqueue('q') FROM generate_series(1, 20000)");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 1, jobs));
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 1, jobs));
    kit_do(late, "COMMIT");
    for (end = kit_ms() + 10000; jobs[0].id != id && kit_ms() < end; kit_sleep_ms(2)) {
        PGresult *res =
            kit_rows(b, "SELECT id, token FROM pgwork.claim('{q}', 1, 'w', NULL, '{%lld}', '{%s}')",
                     jobs[0].id, jobs[0].token);

        TEST_ASSERT_EQUAL_INT(1, PQntuples(res));
        jobs[0].id = strtoll(PQgetvalue(res, 0, 0), NULL, 10);
        snprintf(jobs[0].token, sizeof(jobs[0].token), "%s", PQgetvalue(res, 0, 1));
        PQclear(res);
    }
    TEST_ASSERT_EQUAL_INT64(id, jobs[0].id);
}

void test_a_late_commit_into_a_new_lane_is_found(void)
{
    PGconn *late = kit_open();
    long long id;

    fill("q", 20);
    kit_do(late, "BEGIN");
    id = kit_number(late, "SELECT id FROM pgwork.enqueue('q', priority => 9)");
    TEST_ASSERT_EQUAL_INT(20, kit_claim(a, "q", 50, jobs));
    kit_do(late, "COMMIT");
    for (long long end = kit_ms() + 10000; kit_ms() < end && kit_claim(a, "q", 1, jobs) == 0;)
        kit_sleep_ms(5);
    TEST_ASSERT_EQUAL_INT64(id, jobs[0].id);
}

/* -- quarantine -------------------------------------------------------------------------------- */

/* Returned by the reaper, since its holder is gone. */
static void return_one(const char *queue)
{
    kit_expire(a, queue);
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT returned FROM pgwork.reap()"));
}

/* Claims until n jobs have come: the quarantined one comes alone. */
static void check_alone(const char *queues, long long quarantined, int n)
{
    int met = 0, got;

    for (long long end = kit_ms() + 10000; n > 0; n -= got) {
        TEST_ASSERT_TRUE(kit_ms() < end);
        got = kit_claim(b, queues, 10, jobs);
        for (int i = 0; i < got; i++)
            if (jobs[i].id == quarantined) {
                TEST_ASSERT_EQUAL_INT(1, got);
                TEST_ASSERT_EQUAL_INT(2, jobs[i].attempt);
                met++;
            }
    }
    TEST_ASSERT_EQUAL_INT(0, n);
    TEST_ASSERT_EQUAL_INT(1, met);
}

void test_a_quarantined_job_is_claimed_alone(void)
{
    fill("q", 4);
    kit_put(a, "other");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, jobs));
    return_one("q");
    check_alone("q,other", jobs[0].id, 5);
}

void test_a_quarantined_job_of_another_priority_is_claimed_alone(void)
{
    fill("q", 1);
    kit_do(a, "SELECT pgwork.enqueue('q', priority => 5)");
    TEST_ASSERT_EQUAL_INT(2, kit_claim(a, "q", 2, jobs));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "release", jobs, ""));
    return_one("q");
    check_alone("q", jobs[1].id, 2);
}

void test_a_quarantined_job_does_not_come_with_jobs_of_another_queue(void)
{
    kit_put(a, "q");
    fill("other", 3);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, jobs));
    return_one("q");
    check_alone("other,q", jobs[0].id, 4);
}

void test_a_batch_claim_marks_quarantined_jobs(void)
{
    const char *const told = "SELECT string_agg(queue || ' ' || quarantined, ',') FROM "
                             "pgwork.claim_batch('{q}', 10, 'w')";

    kit_put(a, "q");
    TEST_ASSERT_EQUAL_STRING("q false", kit_text(a, told));
    return_one("q");
    TEST_ASSERT_EQUAL_STRING("q true", kit_text(b, told));
}

void test_a_quarantined_job_is_claimed_from_a_busy_queue(void)
{
    long long end = kit_ms() + 10000, id;

    fill("q", 20);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, jobs));
    id = jobs[0].id;
    return_one("q");
    do {
        kit_put(a, "q");
        TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 1, jobs));
    } while (jobs[0].id != id && kit_ms() < end);
    TEST_ASSERT_EQUAL_INT64(id, jobs[0].id);
}

void test_the_jobs_of_a_batch_come_back_from_a_dead_holder_one_by_one(void)
{
    long long last = 0;

    fill("q", 50);
    TEST_ASSERT_EQUAL_INT(50, kit_claim(a, "q", 50, jobs));
    kit_expire(a, "q");
    TEST_ASSERT_EQUAL_INT64(50, kit_number(a, "SELECT returned FROM pgwork.reap('q')"));
    for (int i = 0; i < 50; i++) {
        TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 50, jobs));
        TEST_ASSERT_GREATER_THAN_INT64(last, jobs[0].id);
        last = jobs[0].id;
    }
}

void test_released_jobs_keep_their_order_beside_a_quarantined_one(void)
{
    static const int asked[] = {1, 100, 5, 5, 5};
    long long quarantined, last = 0;
    int met = 0, got;

    fill("q", 120);
    TEST_ASSERT_EQUAL_INT(120, kit_claim(a, "q", 120, jobs));
    quarantined = jobs[60].id;
    for (int i = 0; i < 120; i++)
        if (i != 60) TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "release", jobs + i, ""));
    return_one("q");
    for (int i = 0, n = 0; n < 120; i = (i + 1) % 5, n += got) {
        got = kit_claim(b, "q", asked[i], jobs);
        TEST_ASSERT_GREATER_THAN_INT(0, got);
        if (jobs[0].id == quarantined) {
            TEST_ASSERT_EQUAL_INT(1, got);
            met++;
            continue;
        }
        for (int k = 0; k < got; k++) {
            TEST_ASSERT_GREATER_THAN_INT64_MESSAGE(last, jobs[k].id, "passed over");
            last = jobs[k].id;
        }
    }
    TEST_ASSERT_EQUAL_INT(1, met);
}
