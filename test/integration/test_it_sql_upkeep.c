/* Upkeep by reapers, functions of operators, and waking up waiters. Longer than 600 lines: all
 * functions of reapers and operators share the queues that are filled and spoiled below. */
#include "unity.h"
#include "pgtemp.h"
#include "sqlkit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static PGconn *a, *b;
static struct took job, jobs[3000];

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

static void spoil(const char *queue, int n)
{
    fill(queue, n);
    TEST_ASSERT_EQUAL_INT(n, kit_claim(a, queue, n, jobs));
    for (int i = 0; i < n; i++)
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", jobs + i, ", 'boom', 0, true"));
}

/* What the first round of maintain() says that fulfils the condition: not all is due each time. */
static const char *maintain(const char *what, const char *condition)
{
    const char *said = NULL;

    for (long long end = kit_ms() + 20000; !said && kit_ms() < end;) {
        said = kit_text(a, "SELECT %s FROM pgwork.maintain() WHERE %s", what, condition);
        if (!said) kit_sleep_ms(20);
    }
    TEST_ASSERT_NOT_NULL_MESSAGE(said, condition);
    return said;
}

/* Time goes by for the jobs that could not be moved. */
static void rest(const char *interval)
{
    kit_do(a, "UPDATE pgwork.stuck_job SET again_at = clock_timestamp() + interval '%s'", interval);
}

/* -- reap and promote ---------------------------------------------------------------------------
 */

void test_a_job_that_died_is_counted_once(void)
{
    fill("q", 2);
    kit_do(a, "SELECT pgwork.enqueue('q', max_attempts => 1)");
    TEST_ASSERT_EQUAL_INT(3, kit_claim(a, "q", 3, jobs));
    kit_expire(a, "q");
    TEST_ASSERT_EQUAL_STRING("2 1", maintain("reaped || ' ' || died", "reaped + died > 0"));
}

void test_reap_goes_in_batches(void)
{
    fill("q", 25);
    kit_claim(a, "q", 25, jobs);
    kit_expire(a, "q");
    TEST_ASSERT_EQUAL_INT64(10, kit_number(a, "SELECT returned FROM pgwork.reap('q', 10)"));
    TEST_ASSERT_EQUAL_INT64(10, kit_number(a, "SELECT returned FROM pgwork.reap(NULL, 10)"));
    TEST_ASSERT_EQUAL_STRING("5", maintain("reaped", "reaped > 0"));
    TEST_ASSERT_EQUAL_STRING("25 0 0 0 0", kit_places(a, "q"));
    kit_refused(a, "PW001", "batch|0|1..100000", "SELECT pgwork.reap(batch => 0)");
    kit_refused(a, "PW003", "no queue \"none\"", "SELECT pgwork.reap('none')");
}

/* Some of these cannot be stored again: the key of a job in jobs[] from 1 on. */
static void refuse(const char *sqlstate, int one, int two)
{
    kit_do(a,
           "DROP FUNCTION IF EXISTS public.refuse() CASCADE;"
           "CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE "
           "EXCEPTION 'not this one' USING ERRCODE = '%s'; END $$;"
           "CREATE TRIGGER refuse BEFORE INSERT ON pgwork.live_job FOR EACH ROW WHEN (NEW.id IN "
           "(%lld, %lld)) EXECUTE FUNCTION public.refuse()",
           sqlstate, jobs[one - 1].id, jobs[two - 1].id);
}

static void refuse_no_more(void)
{
    kit_do(a, "DROP FUNCTION public.refuse() CASCADE");
}

/* Of a small claim, and of a large one. It is left alone for longer and longer, and told once. */
TEST_CASE(5)
TEST_CASE(40)
void test_a_job_that_cannot_be_requeued_keeps_no_other_from_it(int n)
{
    struct took others[3];
    char expected[300];

    fill("q", n);
    TEST_ASSERT_EQUAL_INT(n, kit_claim(a, "q", n, jobs));
    fill("r", 3);
    TEST_ASSERT_EQUAL_INT(3, kit_claim(a, "r", 3, others));
    kit_expire(a, "q");
    kit_expire(a, "r");
    refuse("23514", 1, 4);
    snprintf(
        expected, sizeof(expected),
        "%d job %lld of queue \"q\": not this one (SQLSTATE 23514); job %lld of queue \"q\": not "
        "this one (SQLSTATE 23514)",
        n + 1, jobs[0].id, jobs[3].id);
    TEST_ASSERT_EQUAL_STRING(expected, maintain("reaped || ' ' || stuck", "reaped > 0"));
    TEST_ASSERT_EQUAL_INT64(2, kit_number(a, "SELECT leased FROM pgwork.depth('q')"));
    TEST_ASSERT_EQUAL_STRING(
        "q 1, q 1",
        kit_text(a, "SELECT string_agg(queue || ' ' || tries, ', ') FROM pgwork.stuck_jobs"));
    rest("0");
    for (long long end = kit_ms() + 20000; kit_ms() < end; kit_sleep_ms(20)) {
        TEST_ASSERT_EQUAL_STRING("0 told", kit_text(b, "SELECT reaped || coalesce(stuck, ' told')"
                                                       " FROM pgwork.maintain()"));
        if (kit_number(a, "SELECT min(tries) FROM pgwork.stuck_jobs") == 2) break;
    }
    TEST_ASSERT_EQUAL_STRING("2,2", kit_text(a, "SELECT string_agg(tries::text, ',') FROM"
                                                " pgwork.stuck_jobs"));
    TEST_ASSERT_EQUAL_STRING(
        "t", kit_text(a, "SELECT bool_and(again_at > clock_timestamp()) FROM pgwork.stuck_jobs"));
    refuse_no_more();
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT returned FROM pgwork.reap()"));
    rest("0");
    TEST_ASSERT_EQUAL_INT64(2, kit_number(a, "SELECT returned FROM pgwork.reap()"));
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT count(*) FROM pgwork.stuck_jobs"));
    TEST_ASSERT_EQUAL_INT64(n, kit_number(a, "SELECT ready FROM pgwork.depth('q')"));
}

/* More of them than a batch are in front of all others. */
TEST_CASE(5)
TEST_CASE(40)
void test_jobs_that_cannot_be_requeued_hide_no_others(int n)
{
    fill("q", n);
    TEST_ASSERT_EQUAL_INT(n, kit_claim(a, "q", n, jobs));
    kit_expire(a, "q");
    refuse("23514", 1, 2);
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT returned FROM pgwork.reap('q', 2)"));
    rest("10 min");
    TEST_ASSERT_EQUAL_INT64(2, kit_number(a, "SELECT returned FROM pgwork.reap('q', 2)"));
    TEST_ASSERT_EQUAL_INT64(n - 4, kit_number(a, "SELECT returned FROM pgwork.reap('q')"));
    refuse_no_more();
}

void test_a_delayed_job_that_cannot_be_made_ready_keeps_no_other_from_it(void)
{
    fill("q", 5);
    TEST_ASSERT_EQUAL_INT(5, kit_claim(a, "q", 5, jobs));
    for (int i = 0; i < 5; i++)
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "snooze", &jobs[i], ", 60000"));
    kit_due(a, "q");
    refuse("23514", 2, 4);
    TEST_ASSERT_EQUAL_STRING(
        "3 3", kit_text(a, "SELECT promoted || ' ' || (SELECT ready FROM pgwork.depth('q')) FROM "
                           "pgwork.maintain()"));
    rest("10 min");
    TEST_ASSERT_EQUAL_STRING("0 later", kit_text(a, "SELECT promoted || coalesce(next_ms::text, ' "
                                                    "later') FROM pgwork.promote()"));
    TEST_ASSERT_EQUAL_INT64(2, kit_number(a, "SELECT count(*) FROM pgwork.stuck_jobs"));
    refuse_no_more();
    rest("0");
    TEST_ASSERT_EQUAL_INT64(2, kit_number(b, "SELECT promoted FROM pgwork.promote()"));
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT count(*) FROM pgwork.stuck_jobs"));
    TEST_ASSERT_EQUAL_INT64(5, kit_number(a, "SELECT ready FROM pgwork.depth('q')"));
}

/* A line of the log ends at 1 KB: what does not fit comes with the next one. */
void test_each_of_many_stuck_jobs_is_reported_within_the_limit_of_a_log_line(void)
{
    const char *stuck;
    int told = 0;

    fill("q", 15);
    TEST_ASSERT_EQUAL_INT(15, kit_claim(a, "q", 15, jobs));
    kit_expire(a, "q");
    kit_do(a, "CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE "
              "EXCEPTION '%%', repeat('no ', 100); END $$;"
              "CREATE TRIGGER refuse BEFORE INSERT ON pgwork.live_job FOR EACH ROW EXECUTE "
              "FUNCTION public.refuse()");
    while (told < 15) {
        stuck = maintain("stuck", "stuck <> ''");
        TEST_ASSERT_LESS_THAN_size_t(1024 - strlen("stuck: "), strlen(stuck));
        for (; (stuck = strstr(stuck, "job ")) != NULL; stuck++) told++;
    }
    refuse_no_more();
    TEST_ASSERT_EQUAL_INT(15, told);
    kit_do(a, "DELETE FROM pgwork.stuck_job");
}

/* Its jobs cannot even be read. */
void test_a_damaged_batch_keeps_no_other_job_from_being_requeued(void)
{
    struct took other;

    if (kit_number(a, "SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_surgery'") ==
        0)
        TEST_IGNORE_MESSAGE("the server comes without pg_surgery, which does the damage");
    kit_do(a, "SELECT count(*) FROM pgwork.enqueue_many('q', ARRAY(SELECT to_jsonb(string_agg("
              "md5(random()::text), '')) FROM generate_series(1, 3000) g GROUP BY g %% 100))");
    TEST_ASSERT_EQUAL_INT(100, kit_claim(a, "q", 100, jobs));
    kit_put(a, "q");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, &job));
    kit_put(a, "r");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "r", 1, &other));
    kit_expire(a, "q");
    kit_expire(a, "r");
    kit_do(a,
           "CREATE EXTENSION pg_surgery SCHEMA public;"
           "SELECT public.heap_force_kill(c.reltoastrelid, ARRAY(SELECT format('(%%s,%%s)', b, "
           "i)::tid FROM generate_series(0, pg_relation_size(c.reltoastrelid) / 8192 - 1) b, "
           "generate_series(1, 4) i)) FROM pg_class c WHERE c.oid = 'pgwork.live_job'::regclass");
    TEST_ASSERT_EQUAL_STRING("2 true",
                             maintain("reaped || ' ' || (stuck ~ 'missing chunk')", "reaped > 0"));
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT returned FROM pgwork.reap()"));
    TEST_ASSERT_EQUAL_STRING("100 1", /* they rest */
                             kit_text(a, "SELECT count(*) || ' ' || max(tries) FROM"
                                         " pgwork.stuck_jobs"));
    kit_do(a, "SELECT pgwork.queue_drop('q', true); DELETE FROM pgwork.stuck_job;"
              "DROP EXTENSION pg_surgery");
}

/* A server that is short of something, or a stop: not the job's fault, and told as ever. */
TEST_CASE("53200")
TEST_CASE("40001")
TEST_CASE("25006")
TEST_CASE("57014")
void test_an_error_that_may_pass_makes_no_job_stuck(const char *sqlstate)
{
    const char *state = "";

    fill("q", 5);
    TEST_ASSERT_EQUAL_INT(5, kit_claim(a, "q", 5, jobs));
    kit_expire(a, "q");
    refuse(sqlstate, 2, 2);
    for (long long end = kit_ms() + 20000; *state == '\0' && kit_ms() < end; kit_sleep_ms(20))
        state = kit_state(a, "SELECT pgwork.maintain()");
    TEST_ASSERT_EQUAL_STRING(sqlstate, state);
    refuse_no_more();
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT count(*) FROM pgwork.stuck_jobs"));
    TEST_ASSERT_EQUAL_INT64(5, kit_number(a, "SELECT returned FROM pgwork.reap()"));
}

/* Somebody's table names jobs that are kept; and they may not be kept. */
void test_a_job_that_cannot_be_pruned_keeps_no_job_from_being_requeued(void)
{
    kit_do(a, "SELECT pgwork.queue_create('q', retention_ms => 1)");
    fill("q", 2);
    TEST_ASSERT_EQUAL_INT(2, kit_claim(a, "q", 2, jobs));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", jobs, ""));
    kit_do(a, "CREATE TABLE public.invoice (queue integer, job bigint, FOREIGN KEY (queue, job) "
              "REFERENCES pgwork.done_job); INSERT INTO public.invoice SELECT queue, id FROM "
              "pgwork.done_job");
    kit_expire(a, "q");
    TEST_ASSERT_EQUAL_STRING("1 0", maintain("reaped || ' ' || pruned", "reaped > 0"));
    kit_refused(a, "23503", "invoice", "SELECT pgwork.prune()");
    TEST_ASSERT_EQUAL_STRING(
        "prune(): update or delete on table \"done_job\" violates foreign key constraint "
        "\"invoice_queue_job_fkey\" on table \"invoice\" (SQLSTATE 23503)",
        maintain("stuck", "stuck <> ''"));
    rest("10 min");
    kit_put(a, "other");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "other", 1, &job));
    kit_expire(a, "other");
    TEST_ASSERT_EQUAL_STRING("told", maintain("coalesce(stuck, 'told')", "reaped > 0"));
    TEST_ASSERT_EQUAL_STRING("1  ", kit_text(a, "SELECT format('%%s %%s %%s', tries, queue, id) "
                                                "FROM pgwork.stuck_jobs"));
    kit_do(a, "DROP TABLE public.invoice");
    rest("0");
    TEST_ASSERT_EQUAL_STRING("1", maintain("pruned", "pruned > 0"));
    kit_do(a, "DELETE FROM pgwork.stuck_job");
}

/* It was finished by a late holder, or dropped: nobody comes back to it. */
void test_a_stuck_job_that_is_seen_no_more_is_forgotten(void)
{
    fill("q", 2);
    TEST_ASSERT_EQUAL_INT(2, kit_claim(a, "q", 2, jobs));
    kit_expire(a, "q");
    refuse("XX001", 1, 1);
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT returned FROM pgwork.reap()"));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", jobs, ""));
    refuse_no_more();
    kit_do(a, "SELECT pgwork.prune()");
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT count(*) FROM pgwork.stuck_jobs"));
    rest("-1 h");
    kit_do(a, "SELECT pgwork.prune()");
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT count(*) FROM pgwork.stuck_jobs"));
}

void test_reap_leaves_live_leases_alone(void)
{
    fill("q", 3);
    kit_claim(a, "q", 2, jobs);
    kit_expire(a, "q");
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "extend", jobs, ""));
    TEST_ASSERT_EQUAL_INT64(1, kit_number(b, "SELECT returned FROM pgwork.reap()"));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", jobs, ""));
    TEST_ASSERT_EQUAL_STRING("stale", kit_say(a, "complete", jobs + 1, ""));
}

void test_reap_does_not_wait_for_a_holder_that_is_just_finishing(void)
{
    fill("q", 2);
    kit_claim(a, "q", 1, jobs);
    kit_claim(a, "q", 1, jobs + 1);
    kit_expire(a, "q");
    kit_do(a, "BEGIN");
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", jobs, ""));
    TEST_ASSERT_EQUAL_INT64(1, kit_number(b, "SELECT returned FROM pgwork.reap()"));
    kit_do(a, "COMMIT");
    TEST_ASSERT_EQUAL_INT64(0, kit_number(b, "SELECT returned FROM pgwork.reap()"));
}

/* Nor do those whom it passes over use up its batch. */
void test_reap_sees_leases_behind_those_that_are_just_being_finished(void)
{
    fill("q", 4);
    for (int i = 0; i < 4; i++) TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, jobs + i));
    kit_expire(a, "q");
    kit_do(a, "BEGIN");
    for (int i = 0; i < 2; i++)
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", jobs + i, ""));
    TEST_ASSERT_EQUAL_INT64(1, kit_number(b, "SELECT returned FROM pgwork.reap('q', 1)"));
    TEST_ASSERT_EQUAL_INT64(1, kit_number(b, "SELECT returned FROM pgwork.reap(NULL, 2)"));
    kit_do(a, "COMMIT");
    TEST_ASSERT_EQUAL_STRING("2 0 0 0 0", kit_places(a, "q"));
}

/* It passes over the whole batch, and only over that. */
void test_reap_does_not_wait_for_a_holder_that_is_just_finishing_a_part_of_a_batch(void)
{
    fill("q", 4);
    kit_claim(a, "q", 2, jobs);
    kit_claim(a, "q", 2, jobs + 2);
    kit_expire(a, "q");
    kit_do(a, "BEGIN");
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", jobs, ""));
    kit_do(b, "SET lock_timeout = '100ms'");
    TEST_ASSERT_EQUAL_INT64(2, kit_number(b, "SELECT returned FROM pgwork.reap()"));
    kit_do(a, "COMMIT");
    TEST_ASSERT_EQUAL_INT64(1, kit_number(b, "SELECT returned FROM pgwork.reap()"));
    TEST_ASSERT_EQUAL_STRING("3 0 0 0 0", kit_places(a, "q"));
    TEST_ASSERT_EQUAL_STRING("stale", kit_say(a, "complete", jobs + 1, ""));
}

static void reap_somehow(void)
{
    TEST_ASSERT_EQUAL_STRING("1", maintain("reaped", "reaped > 0"));
    TEST_ASSERT_EQUAL_STRING("0", kit_text(a, "SELECT leased FROM pgwork.depth('q')"));
}

/* Many jobs may commit after jobs with later positions were claimed: their leases lie behind. */
void test_a_lease_behind_many_late_jobs_is_reaped(void)
{
    PGconn *late = kit_open();

    kit_do(a, "SELECT pgwork.queue_create('q')");
    kit_do(late, "BEGIN");
    kit_do(late, "SELECT pgwork.enqueue('q') FROM generate_series(1, 3000)");
    kit_put(a, "q");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, &job));
    for (int i = 0; i < 5; i++) kit_do(a, "SELECT pgwork.maintain()");
    kit_do(late, "COMMIT");
    kit_expire(a, "q");
    reap_somehow();
}

/* As when a transaction has drawn its position long before it commits. */
void test_a_lease_below_the_low_water_marks_is_reaped(void)
{
    PGconn *late = kit_open();

    kit_do(a, "SELECT pgwork.queue_create('q')");
    kit_do(late, "BEGIN");
    job.id = kit_put(late, "q");
    for (int i = 0; i < 5; i++) {
        fill("q", 50);
        TEST_ASSERT_EQUAL_INT(50, kit_claim(a, "q", 50, jobs));
        for (int k = 0; k < 50; k++) kit_say(a, "complete", jobs + k, "");
        kit_do(a, "SELECT pgwork.maintain()");
    }
    kit_do(late, "COMMIT");
    for (long long end = kit_ms() + 10000; kit_ms() < end && !kit_claim(a, "q", 1, jobs);)
        kit_do(b, "SELECT pgwork.maintain()");
    TEST_ASSERT_EQUAL_INT64(job.id, jobs[0].id);
    kit_expire(a, "q");
    reap_somehow();
}

void test_a_lease_behind_jobs_of_a_rolled_back_claim_is_reaped(void)
{
    kit_do(a, "SELECT pgwork.enqueue('q') FROM generate_series(1, 2000)");
    kit_do(b, "BEGIN");
    TEST_ASSERT_EQUAL_INT(1900, kit_claim(b, "q", 1900, jobs));
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, &job));
    for (int i = 0; i < 5; i++) kit_do(a, "SELECT pgwork.maintain()");
    kit_do(b, "ROLLBACK");
    kit_expire(a, "q");
    reap_somehow();
}

/* A reaper may take long to commit, while others move the marks. */
void test_a_job_that_a_slow_reaper_returns_is_claimed(void)
{
    kit_put(a, "q");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, &job));
    kit_expire(a, "q");
    kit_do(b, "BEGIN");
    TEST_ASSERT_EQUAL_INT64(1, kit_number(b, "SELECT returned FROM pgwork.reap('q')"));
    for (int i = 0; i < 5; i++) {
        kit_put(a, "q");
        TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, jobs));
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", jobs, ""));
        kit_do(a, "SELECT pgwork.maintain()");
    }
    kit_do(b, "COMMIT");
    for (long long end = kit_ms() + 10000; kit_ms() < end && !kit_claim(a, "q", 1, jobs);)
        kit_do(b, "SELECT pgwork.maintain()");
    TEST_ASSERT_EQUAL_INT64(job.id, jobs[0].id);
}

void test_promote_brings_in_the_earliest_first_and_says_when_to_come_back(void)
{
    kit_do(a, "SELECT pgwork.queue_create('q')");
    TEST_ASSERT_NULL(kit_text(a, "SELECT next_ms FROM pgwork.promote()"));
    kit_do(a, "SELECT pgwork.enqueue('q', to_jsonb(g), delay_ms => 10000 * g, priority => 7) FROM "
              "generate_series(3, 1, -1) g");
    TEST_ASSERT_TRUE(kit_number(a, "SELECT next_ms FROM pgwork.promote()") > 5000);
    TEST_ASSERT_TRUE(kit_number(a, "SELECT next_ms FROM pgwork.promote()") <= 10000);
    kit_do(a, "UPDATE pgwork.delayed_job SET run_at = run_at - interval '1 h'");
    TEST_ASSERT_EQUAL_STRING("(2,0)", kit_text(a, "SELECT p::text FROM pgwork.promote(2) p"));
    TEST_ASSERT_EQUAL_STRING("(1,)", kit_text(a, "SELECT p::text FROM pgwork.promote(2) p"));
    TEST_ASSERT_EQUAL_STRING(
        "1,2,3",
        kit_text(b, "SELECT string_agg(payload::text, ',') FROM pgwork.claim('{q}', 9, 'w')"));
}

void test_maintain_says_when_to_come_back(void)
{
    long long next = kit_number(a, "SELECT next_ms FROM pgwork.maintain()");

    TEST_ASSERT_TRUE(next >= 100 && next <= 1000); /* nothing is due: it does not spin */
    for (int i = 0; i < 500 && next > 60; i++) {   /* the machine may stall until it is due */
        kit_do(a, "SELECT pgwork.enqueue('q', delay_ms => 60)");
        next = kit_number(a, "SELECT next_ms FROM pgwork.maintain()");
    }
    TEST_ASSERT_TRUE(next <= 60);
    kit_do(a, "SELECT pgwork.queue_purge('q', 'all')");
    kit_do(a, "SELECT pgwork.enqueue('q', delay_ms => 100) FROM generate_series(1, 20)");
    kit_sleep_ms(300);
    TEST_ASSERT_EQUAL_STRING(
        "10 0", kit_text(a, "SELECT promoted || ' ' || next_ms FROM pgwork.maintain(10)"));
}

static void all_promote(PGconn *conn, int i, void *ctx)
{
    long long *sums = ctx;

    while (strncmp(kit_places(conn, "q"), "400 ", 4) != 0)
        sums[i] += kit_number(conn, "SELECT promoted FROM pgwork.promote(17)");
}

void test_many_promoters_bring_each_job_in_once(void)
{
    long long sums[3] = {0};

    kit_do(a, "SELECT pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[400]), delays_ms => "
              "'{60000}')");
    kit_due(a, "q");
    kit_race(3, all_promote, sums);
    TEST_ASSERT_EQUAL_INT64(400, sums[0] + sums[1] + sums[2]);
    TEST_ASSERT_EQUAL_STRING("400 0 0 0 0", kit_places(a, "q"));
}

void test_upkeep_and_claims_wait_for_no_producer(void)
{
    PGconn *producer = kit_open();
    int got = 0;

    fill("q", 1);
    kit_claim(a, "q", 1, &job);
    kit_expire(a, "q");
    kit_do(a, "SELECT pgwork.enqueue('q', delay_ms => 60000, priority => 4)");
    kit_due(a, "q");
    kit_do(producer, "BEGIN; SELECT pgwork.enqueue('q', priority => 5)");
    kit_do(a, "SET lock_timeout = '3s'");
    kit_do(b, "SET lock_timeout = '3s'");
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT promoted FROM pgwork.promote()"));
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT returned FROM pgwork.reap()"));
    kit_do(a, "SELECT pgwork.enqueue('q', priority => 6)");
    kit_do(a, "SELECT pgwork.enqueue_many('q', '{1,2}', priorities => '{7}')");
    for (long long end = kit_ms() + 10000; kit_ms() < end && got < 5; kit_sleep_ms(5))
        got += kit_claim(b, "q", 5 - got, jobs + got);
    TEST_ASSERT_EQUAL_INT(5, got); /* with the quarantined one */
    while (got > 0 && jobs[got - 1].id != job.id) got--;
    TEST_ASSERT_GREATER_THAN_INT(0, got);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(b, "complete", jobs, ""));
    kit_do(b, "SELECT pgwork.queue_pause('q'), pgwork.queue_set('q', lease_ms => 1000),"
              " pgwork.queue_resume('q')");
    kit_do(producer, "ROLLBACK");
    kit_expire(a, "q");
    kit_do(a, "SELECT pgwork.reap('q')");
    TEST_ASSERT_EQUAL_STRING("4 0 0 0 0", kit_places(a, "q"));
}

/* -- thousands of queues ------------------------------------------------------------------------
 */

/* How many index scans of a table a call takes. */
static long long scans(const char *table, const char *call)
{
    static const char *const sql =
        "SELECT idx_scan FROM pg_stat_xact_all_tables WHERE relid = 'pgwork.%s'::regclass";
    long long before, after;

    kit_do(a, "BEGIN");
    before = kit_number(a, sql, table);
    kit_do(a, "SELECT count(*) FROM %s", call);
    after = kit_number(a, sql, table);
    kit_do(a, "COMMIT");
    return after - before;
}

/* At most one statement for each queue in a pass over all of them, and none where possible. */
void test_an_empty_queue_costs_one_statement(void)
{
    enum { QUEUES = 1100, USED = 100 };
    static const char *const calls[] = {"pgwork.reap()", "pgwork.queue_list(at_most => 1000)",
                                        "pgwork.job_list(at_most => 5)"};

    kit_do(a, "SELECT pgwork.queue_create('q' || g) FROM generate_series(1, %d) g", QUEUES);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        TEST_ASSERT_LESS_THAN_INT64_MESSAGE(QUEUES + USED, scans("live_job", calls[i]), calls[i]);
    TEST_ASSERT_LESS_THAN_INT64(USED, scans("operation", "pgwork.prune()"));
    TEST_ASSERT_LESS_THAN_INT64(USED, scans("unique_key", "pgwork.prune()"));
    TEST_ASSERT_LESS_THAN_INT64(USED, scans("live_job", "pgwork.prune()"));
}

/* Nor is one of them forgotten. */
void test_a_lease_is_reaped_among_thousands_of_queues(void)
{
    kit_do(a, "SELECT pgwork.queue_create('q' || g) FROM generate_series(1, 1100) g");
    for (int i = 0; i < 2; i++) {
        kit_put(a, "q1000");
        TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q1000", 1, jobs));
        kit_expire(a, "q1000");
        kit_do(a, "SELECT pgwork.reap()");
        TEST_ASSERT_EQUAL_STRING("1 0 0 0 0", kit_places(a, "q1000"));
        TEST_ASSERT_EQUAL_STRING("q1000", kit_text(a, "SELECT string_agg(queue, ' ') FROM "
                                                      "pgwork.queue_list() WHERE ready > 0"));
        TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT count(*) FROM pgwork.job_list()"));
        kit_do(a, "SELECT pgwork.queue_purge('q1000')");
        for (int tick = 0; tick < 3; tick++) kit_do(a, "SELECT pgwork.maintain()"); /* marks */
    }
}

/* -- while vacuum is held back ------------------------------------------------------------------
 */

/* How many entries of an index a call walks over, dead ones included. */
static long long walked(const char *index, const char *call)
{
    long long n;

    kit_do(b, "SELECT pg_stat_force_next_flush()"); /* what was counted before */
    kit_do(b, "BEGIN");
    kit_do(b, "SELECT %s", call);
    n = kit_number(b, "SELECT pg_stat_get_xact_tuples_returned('pgwork.%s'::regclass)", index);
    kit_do(b, "COMMIT");
    return n;
}

enum { GONE = 40000 };

/* An old snapshot, and what many jobs have left since. */
static PGconn *held_back(void)
{
    PGconn *old = kit_open();

    kit_do(a, "SELECT pgwork.queue_create('q')");
    kit_do(old, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    kit_do(a, "SELECT pgwork.enqueue('q') FROM generate_series(1, %d)", GONE);
    kit_do(a, "SELECT pgwork.queue_purge('q')");
    return old;
}

void test_reaps_read_dead_tuples_only_once(void)
{
    long long n = GONE;

    held_back();
    for (long long end = kit_ms() + 20000; n >= GONE && kit_ms() < end; kit_sleep_ms(20)) {
        kit_do(a, "SELECT pgwork.maintain()");
        n = walked("live_job_place", "pgwork.reap()");
    }
    TEST_ASSERT_LESS_THAN_INT64(GONE, n);
}

/* Whoever deletes live jobs waits as long as somebody has the advisory lock 1. */
static void hold_deletes_up(void)
{
    kit_do(a, "CREATE FUNCTION stay() RETURNS trigger LANGUAGE plpgsql AS"
              " 'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END';"
              "CREATE TRIGGER stay BEFORE DELETE ON pgwork.live_job"
              " FOR EACH STATEMENT EXECUTE FUNCTION stay()");
}

static void let_deletes_pass(void)
{
    kit_do(a, "DROP FUNCTION stay() CASCADE");
}

void test_promotes_do_not_walk_over_what_is_not_due(void)
{
    kit_do(a,
           "SELECT count(*) FROM pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[%d]),"
           " delays_ms => '{600000}')",
           3000);
    TEST_ASSERT_LESS_THAN_INT64(100, walked("delayed_job_due", "pgwork.promote()"));
}

void test_prune_does_not_walk_over_what_is_kept(void)
{
    kit_do(a, "SELECT pgwork.queue_create('q', retention_ms => 3600000)");
    kit_do(a, "SELECT pgwork.enqueue('q', op => gen_random_uuid(), key => g::text,"
              " key_scope => 'period', key_period_ms => 3600000) FROM generate_series(1, 300) g");
    kit_do(a, "SELECT pgwork.cancel('q', array_agg(id)) FROM pgwork.job");
    TEST_ASSERT_LESS_THAN_INT64(100, walked("done_job_finished", "pgwork.prune()"));
    TEST_ASSERT_LESS_THAN_INT64(100, walked("operation_at", "pgwork.prune()"));
    TEST_ASSERT_LESS_THAN_INT64(100, walked("unique_key_free", "pgwork.prune()"));
    kit_do(a, "INSERT INTO pgwork.table_operation SELECT gen_random_uuid()"
              " FROM generate_series(1, 300)");
    TEST_ASSERT_LESS_THAN_INT64(100, walked("table_operation_at", "pgwork.prune()"));
    kit_do(a, "TRUNCATE pgwork.table_operation");
}

/* Also where nothing but maintain() is called; and at once again while there are more than a
 * batch. */
void test_maintain_forgets_the_operations_of_tables(void)
{
    long long next_ms = 1;

    kit_do(a, "INSERT INTO pgwork.table_operation SELECT gen_random_uuid(), clock_timestamp()"
              " - interval '1 day' * g FROM generate_series(0, 250) g");
    for (long long end = kit_ms() + 20000; next_ms > 0 && kit_ms() < end; kit_sleep_ms(20))
        next_ms = kit_number(a, "SELECT next_ms FROM pgwork.maintain(100)");
    TEST_ASSERT_EQUAL_STRING(
        "100 0", kit_text(a, "SELECT pruned || ' ' || next_ms FROM pgwork.maintain(100)"));
    TEST_ASSERT_EQUAL_INT64(50, kit_number(a, "SELECT pruned FROM pgwork.maintain(100)"));
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT count(*) FROM pgwork.table_operation"));
    kit_do(a, "TRUNCATE pgwork.table_operation");
}

void test_depth_reads_dead_tuples_only_once(void)
{
    long long n = GONE;

    held_back();
    kit_put(a, "q");
    for (long long end = kit_ms() + 20000; n >= GONE && kit_ms() < end; kit_sleep_ms(20)) {
        kit_do(a, "SELECT pgwork.maintain()");
        n = walked("live_job_place", "pgwork.depth('q')");
    }
    TEST_ASSERT_LESS_THAN_INT64(GONE, n);
    kit_do(a, "UPDATE pgwork.live_job SET created_at = created_at - interval '1 h'");
    TEST_ASSERT_EQUAL_INT64(60, kit_number(a, "SELECT oldest_ms / 60000 FROM pgwork.depth('q')"));
}

/* -- retention ----------------------------------------------------------------------------------
 */

void test_finished_jobs_are_kept_as_long_as_the_queue_says(void)
{
    fill("q", 1);
    kit_claim(a, "q", 1, &job);
    kit_say(a, "complete", &job, ", '{1}'");
    TEST_ASSERT_EQUAL_STRING("0 0 0 0 0", kit_places(a, "q")); /* not at all */
    kit_do(a, "SELECT pgwork.queue_set('q', retention_ms => 3600000)");
    fill("q", 3);
    kit_claim(a, "q", 3, jobs);
    kit_say(a, "complete", jobs, ", '{\"{\\\"a\\\": 1}\"}'");
    kit_say(a, "complete", jobs + 1, "");
    kit_say(a, "complete", jobs + 2, ", '{NULL}'");
    TEST_ASSERT_EQUAL_STRING(
        "{\"a\": 1}",
        kit_text(a, "SELECT output FROM pgwork.job WHERE id = %lld AND state = 'done'",
                 jobs[0].id));
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT pgwork.prune()"));
    kit_do(a,
           "UPDATE pgwork.done_job SET finished_at = finished_at - interval '2 h' WHERE id <> %lld",
           jobs[1].id);
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT pgwork.prune(1)"));
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT pgwork.prune(1)"));
    TEST_ASSERT_EQUAL_STRING("0 0 0 0 1", kit_places(a, "q"));
    kit_do(a, "SELECT pgwork.queue_set('q', retention_ms => 0)");
    TEST_ASSERT_EQUAL_STRING("1", maintain("pruned", "pruned > 0"));
}

void test_the_first_pass_of_a_session_does_all_that_is_due(void)
{
    kit_do(a, "SELECT pgwork.queue_create('q', retention_ms => 1)");
    fill("q", 1);
    kit_claim(a, "q", 1, &job);
    kit_do(a,
           "SELECT pgwork.maintain()"); /* so for a second another pass of it would prune nothing */
    kit_say(a, "complete", &job, "");
    kit_do(a, "SELECT pg_sleep(0.01)");
    TEST_ASSERT_EQUAL_STRING("1", kit_text(b, "SELECT pruned FROM pgwork.maintain()"));
}

/* -- operators ----------------------------------------------------------------------------------
 */

void test_redrive_by_id_by_kind_and_all(void)
{
    long long id;

    kit_do(a, "SELECT pgwork.enqueue('q', kind => k, priority => 3, key => k, max_attempts => 1) "
              "FROM unnest('{a,b,b,c}'::text[]) k");
    TEST_ASSERT_EQUAL_INT(3, kit_claim(a, "q", 9, jobs)); /* b once */
    for (int i = 0; i < 3; i++)
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", jobs + i, ", 'boom'"));
    id = jobs[0].id;
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT pgwork.redrive('q', kind => 'x')"));
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT pgwork.redrive('q', '{}')"));
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT pgwork.redrive('q', '{%lld,0}')", id));
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT pgwork.redrive('q', kind => 'b')"));
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT pgwork.redrive('q', batch => 5)"));
    TEST_ASSERT_EQUAL_STRING("3 0 0 0 0", kit_places(a, "q"));
    TEST_ASSERT_EQUAL_INT(3, kit_claim(a, "q", 9, jobs));
    TEST_ASSERT_EQUAL_INT(1, jobs[0].attempt); /* afresh */
    TEST_ASSERT_EQUAL_INT(3, jobs[0].priority);
    TEST_ASSERT_EQUAL_INT64(id, jobs[0].id);
    kit_refused(a, "PW001", "batch|0", "SELECT pgwork.redrive('q', batch => 0)");
    kit_refused(a, "PW001", "older_than_ms|-1", "SELECT pgwork.redrive('q', older_than_ms => -1)");
    kit_say(a, "fail", jobs, ", 'boom', 0, true");
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT pgwork.redrive('q', older_than_ms => 60000)"));
    kit_do(a, "UPDATE pgwork.dead_job SET died_at = died_at - interval '1 min'");
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT pgwork.redrive('q', older_than_ms => 60000)"));
}

#define MOVED "SELECT moved FROM pgwork.reschedule('q'"

static long long delayed_until(long long id) /* seconds from now */
{
    return kit_number(a,
                      "SELECT round(extract(epoch FROM run_at - clock_timestamp()))::bigint FROM"
                      " pgwork.job WHERE id = %lld AND state = 'delayed'",
                      id);
}

void test_delayed_jobs_get_another_time(void)
{
    long long last;

    kit_do(a, "SELECT pgwork.enqueue('q', kind => k, priority => 3, delay_ms => 3600000) FROM"
              " unnest('{a,b,b,c}'::text[]) k");
    fill("q", 1);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, jobs));
    kit_say(a, "fail", jobs, ", 'no relay', 3600000"); /* waits for its second attempt */
    fill("q", 1);
    last = kit_number(a, "SELECT max(id) FROM pgwork.job WHERE kind = 'c'");
    TEST_ASSERT_EQUAL_STRING("1 0 5 0 0", kit_places(a, "q"));
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, MOVED ", '{}')"));
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, MOVED ", kind => 'x')"));
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, MOVED ", '{%lld,%lld,0,NULL}', delay_ms => 60000)",
                                          last, last)); /* twice is once */
    TEST_ASSERT_INT64_WITHIN(30, 60, delayed_until(last));
    TEST_ASSERT_EQUAL_INT64(
        1, kit_number(a, MOVED ", '{%lld}', 'c', clock_timestamp() + interval '2 min')", last));
    TEST_ASSERT_INT64_WITHIN(30, 120, delayed_until(last));
    TEST_ASSERT_EQUAL_INT64(2, kit_number(a, MOVED ", kind => 'b')")); /* ready */
    TEST_ASSERT_EQUAL_STRING("3 0 3 0 0", kit_places(a, "q"));
    TEST_ASSERT_EQUAL_INT64(
        1, kit_number(a, MOVED ", '{%lld}', run_at => clock_timestamp() - interval '1 h')", last));
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, MOVED ", '{%lld}')", jobs[0].id));
    TEST_ASSERT_EQUAL_STRING("5 0 1 0 0", kit_places(a, "q"));
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, jobs)); /* its priority goes first */
    TEST_ASSERT_EQUAL_INT(0, jobs[0].priority);
    kit_do(a, "SELECT pgwork.complete('q', ARRAY[%lld], ARRAY['%s'::uuid])", jobs[0].id,
           jobs[0].token);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, jobs));
    TEST_ASSERT_EQUAL_INT(2, jobs[0].attempt); /* as it was */
    kit_refused(a, "PW001", "batch|0", MOVED ", batch => 0)");
    kit_refused(a, "PW001", "after_id|-1", MOVED ", after_id => -1)");
    kit_refused(a, "PW001", "delay_ms|-1", MOVED ", delay_ms => -1)");
    kit_refused(a, "PW001", "run_at|infinity", MOVED ", run_at => 'infinity')");
    kit_refused(a, "PW001", "delay_ms|1", MOVED ", run_at => clock_timestamp(), delay_ms => 1)");
    kit_refused(a, "PW003", "queue", "SELECT pgwork.reschedule('nowhere')");
}

/* Piece by piece no job is met twice, though it fails again in between; whoever is just cancelling
 * one has it. */
void test_delayed_jobs_are_rescheduled_from_id_to_id(void)
{
    long long last = 0;

    kit_do(a, "SELECT pgwork.enqueue('q', delay_ms => 3600000) FROM generate_series(1, 5)");
    kit_do(b, "BEGIN; SELECT pgwork.cancel('q', ARRAY[(SELECT min(id) FROM pgwork.job)])");
    for (int piece = 1; piece <= 2; piece++) {
        last = kit_number(
            a, "SELECT last_id FROM pgwork.reschedule('q', batch => 2, after_id => %lld)", last);
        TEST_ASSERT_EQUAL_INT(2, kit_claim(a, "q", 9, jobs));
        TEST_ASSERT_EQUAL_INT64(last, jobs[1].id);
        for (int i = 0; i < 2; i++) kit_say(a, "fail", jobs + i, ", 'again', 3600000");
    }
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, MOVED ", after_id => %lld)", last));
    kit_do(b, "ROLLBACK");
    TEST_ASSERT_EQUAL_INT64(5, kit_number(a, MOVED ")"));
}

/* As where ids are given out a second time: no letter is the price of another. */
void test_a_dead_letter_whose_id_is_taken_gets_another(void)
{
    fill("q", 2);
    TEST_ASSERT_EQUAL_INT(2, kit_claim(a, "q", 2, jobs));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", jobs, ", 'first', 0, true"));
    kit_do(a, "UPDATE pgwork.dead_job SET id = %lld", jobs[1].id);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", jobs + 1, ", 'second', 0, true"));
    TEST_ASSERT_EQUAL_STRING(
        "first second", kit_text(a, "SELECT string_agg(error, ' ' ORDER BY id) FROM pgwork.job"));
    TEST_ASSERT_EQUAL_INT64(2, kit_number(a, "SELECT pgwork.redrive('q')"));
    TEST_ASSERT_EQUAL_STRING("2 0 0 0 0", kit_places(a, "q"));
}

void test_dead_letters_are_purged_one_by_one_or_by_kind(void)
{
    spoil("q", 4);
    kit_do(a, "UPDATE pgwork.dead_job SET kind = 'k' WHERE id IN (%lld, %lld)", jobs[0].id,
           jobs[1].id);
    TEST_ASSERT_EQUAL_INT64(
        1, kit_number(a, "SELECT pgwork.dead_purge('q', ids => '{%lld}')", jobs[2].id));
    TEST_ASSERT_EQUAL_INT64(
        0, kit_number(a, "SELECT count(*) FROM pgwork.job WHERE id = %lld", jobs[2].id));
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT pgwork.dead_purge('q', ids => '{}')"));
    TEST_ASSERT_EQUAL_INT64(
        0,
        kit_number(a, "SELECT pgwork.dead_purge('q', ids => '{%lld}', kind => 'k')", jobs[3].id));
    TEST_ASSERT_EQUAL_INT64(2, kit_number(a, "SELECT pgwork.dead_purge('q', kind => 'k')"));
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT pgwork.dead_purge('q')"));
}

void test_dead_letters_are_purged_by_age(void)
{
    spoil("q", 3);
    kit_do(a, "UPDATE pgwork.dead_job SET died_at = died_at - interval '1 h' WHERE id = %lld",
           jobs[1].id);
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT pgwork.dead_purge('q', 60000)"));
    TEST_ASSERT_EQUAL_INT64(2, kit_number(a, "SELECT pgwork.dead_purge('q')"));
    kit_refused(a, "PW001", "older_than_ms|-1", "SELECT pgwork.dead_purge('q', -1)");
    kit_refused(a, "PW001", "older_than_ms", "SELECT pgwork.dead_purge('q', 9223372036854775807)");
}

void test_purge_by_state_never_takes_running_jobs(void)
{
    static const char *const states[] = {"ready", "delayed", "dead", "done"};

    for (int round = 0; round < 2; round++) {
        kit_do(a, "SELECT pgwork.queue_create('q', retention_ms => 3600000)");
        spoil("q", 2);
        fill("q", 5);
        kit_claim(a, "q", 3, jobs);
        kit_say(a, "complete", jobs, "");
        kit_do(a, "SELECT pgwork.enqueue('q', delay_ms => 60000, key => 'k')");
        TEST_ASSERT_EQUAL_STRING("2 2 1 2 1", kit_places(a, "q"));
        if (round == 0) {
            for (int i = 0; i < 4; i++)
                TEST_ASSERT_EQUAL_INT64(
                    i % 2 ? 1 : 2,
                    kit_number(a, "SELECT pgwork.queue_purge('q', '%s')", states[i]));
        } else {
            TEST_ASSERT_EQUAL_INT64(6, kit_number(a, "SELECT pgwork.queue_purge('q', 'all')"));
        }
        TEST_ASSERT_EQUAL_STRING("0 2 0 0 0", kit_places(a, "q"));
        TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT count(*) FROM pgwork.unique_key"));
        kit_say(a, "complete", jobs + 1, "");
        kit_say(a, "complete", jobs + 2, "");
        kit_do(a, "SELECT pgwork.queue_purge('q', 'done')");
    }
    kit_refused(a, "PW001", "state|\"leased\"|ready, delayed, dead, done or all",
                "SELECT pgwork.queue_purge('q', 'leased')");
}

/* What the session notes is where to go on, not what is gone. */
void test_a_purge_deletes_a_batch_at_each_call(void)
{
    int calls = 0;

    kit_do(a, "SELECT pgwork.queue_create('q', retention_ms => 3600000)");
    spoil("q", 2);
    fill("q", 2);
    kit_claim(a, "q", 2, jobs);
    for (int i = 0; i < 2; i++) kit_say(a, "complete", &jobs[i], "");
    kit_do(a, "SELECT pgwork.enqueue('q', priority => p)"
              " FROM unnest('{9,0,5,5,0,9,1,2,0,9}'::integer[]) p");
    kit_do(a,
           "SELECT pgwork.enqueue('q', delay_ms => 60000, key => 'k') FROM generate_series(1, 3)");
    TEST_ASSERT_EQUAL_STRING("10 0 1 2 2", kit_places(a, "q"));
    kit_do(b, "BEGIN");
    kit_claim(b, "q", 3, jobs); /* the first ones */
    TEST_ASSERT_EQUAL_INT64(4, kit_number(a, "SELECT pgwork.queue_purge('q', 'all', 4)"));
    TEST_ASSERT_EQUAL_INT64(4, kit_number(a, "SELECT pgwork.queue_purge('q', 'all', 4)"));
    kit_do(b, "ROLLBACK");
    while (kit_number(a, "SELECT pgwork.queue_purge('q', 'all', 4)") == 4) calls++;
    TEST_ASSERT_EQUAL_INT(1, calls);
    TEST_ASSERT_EQUAL_STRING("0 0 0 0 0", kit_places(a, "q"));
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT count(*) FROM pgwork.unique_key"));
    fill("q", 3); /* one row */
    kit_put(a, "q");
    TEST_ASSERT_EQUAL_INT64(3, kit_number(a, "SELECT pgwork.queue_purge('q', batch => 1)"));
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT pgwork.queue_purge('q', batch => 3)"));
    kit_do(a, "SELECT pgwork.queue_create('other')");
    fill("other", 1);
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT pgwork.queue_purge('other', batch => 3)"));
    kit_refused(a, "PW001", "batch|\"0\"|at least 1", "SELECT pgwork.queue_purge('q', batch => 0)");
    kit_refused(a, "PW001", "older_than_ms|\"-1\"",
                "SELECT pgwork.queue_purge('q', older_than_ms => -1)");
    for (int i = 0; i < 2; i++) kit_put(a, "q");
    kit_do(a, "SELECT pgwork.enqueue('q', delay_ms => 60000)");
    kit_do(a, "UPDATE pgwork.live_job SET created_at = created_at - interval '1 min' WHERE pos = "
              "(SELECT max(pos) FROM pgwork.live_job)");
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT pgwork.queue_purge('q', 'all', 9, 60000)"));
    TEST_ASSERT_EQUAL_INT64(2, kit_number(a, "SELECT pgwork.queue_purge('q', 'all', 9)"));
    spoil("q", 3);
    TEST_ASSERT_EQUAL_INT64(2, kit_number(a, "SELECT pgwork.dead_purge('q', 0, 2)"));
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT pgwork.dead_purge('q', batch => 2)"));
    kit_refused(a, "PW001", "batch|\"-1\"|at least 1",
                "SELECT pgwork.dead_purge('q', batch => -1)");
}

void test_drop_refuses_while_there_are_jobs(void)
{
    fill("q", 2);
    kit_claim(a, "q", 1, &job);
    kit_refused(a, "PW006", "\"q\"|still has jobs", "SELECT pgwork.queue_drop('q')");
    TEST_ASSERT_EQUAL_STRING("1 1 0 0 0", kit_places(a, "q"));
    kit_do(a, "SELECT pgwork.queue_drop('q', true)");
    kit_refused(a, "PW003", "no queue \"q\"", "SELECT pgwork.complete('q', '{%lld}', '{%s}')",
                job.id, job.token);
    kit_refused(a, "PW003", "no queue \"q\"", "SELECT pgwork.queue_drop('q')");
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT count(*) FROM pgwork.live_job"));
    fill("q", 1); /* a new queue of the name has nothing of the old one */
    TEST_ASSERT_EQUAL_STRING("1 0 0 0 0", kit_places(a, "q"));
    TEST_ASSERT_EQUAL_STRING("gone", kit_say(a, "complete", &job, ""));
}

void test_jobs_that_come_after_their_queue_went_are_pruned(void)
{
    fill("q", 1);
    kit_do(b, "BEGIN");
    kit_put(b, "q");
    kit_do(b, "SELECT pgwork.enqueue('q', delay_ms => 60000)");
    kit_do(a, "SELECT pgwork.queue_drop('q', true)");
    kit_do(b, "COMMIT");
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT count(*) FROM pgwork.live_job"));
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT count(*) FROM pgwork.job"));
    TEST_ASSERT_GREATER_OR_EQUAL_INT64(2, kit_number(a, "SELECT pgwork.prune()"));
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT count(*) FROM pgwork.live_job"));
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT count(*) FROM pgwork.delayed_job"));
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT pgwork.prune()"));
}

static long long rows_of_all_tables(void)
{
    return kit_number(a, "SELECT (SELECT count(*) FROM pgwork.live_job)"
                         " + (SELECT count(*) FROM pgwork.delayed_job)"
                         " + (SELECT count(*) FROM pgwork.dead_job)"
                         " + (SELECT count(*) FROM pgwork.done_job)"
                         " + (SELECT count(*) FROM pgwork.unique_key)"
                         " + (SELECT count(*) FROM pgwork.operation)");
}

void test_rows_that_commit_after_their_queue_was_dropped_are_pruned(void)
{
    kit_do(a, "SELECT pgwork.queue_create('q', retention_ms => 3600000),"
              " pgwork.queue_create('last')");
    kit_do(b, "BEGIN");
    kit_do(b, "SELECT pgwork.enqueue('q', key => g::text, op => gen_random_uuid())"
              " FROM generate_series(1, 4) g");
    kit_do(b, "SELECT pgwork.enqueue_many('q', '{1,2,3}')");
    TEST_ASSERT_EQUAL_INT(4, kit_claim(b, "q", 4, jobs));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(b, "complete", jobs, ""));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(b, "fail", jobs + 1, ", 'boom', 0, true"));
    TEST_ASSERT_EQUAL_INT(3, kit_claim(b, "q", 3, jobs + 4));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(b, "complete", jobs + 4, ""));
    kit_do(a, "SELECT pgwork.queue_drop('q', true)");
    kit_do(b, "COMMIT");
    kit_put(a, "last");
    /* 2 leased, a batch, done twice, dead, 2 keys, 4 operations; and the last one */
    TEST_ASSERT_EQUAL_INT64(13, rows_of_all_tables());
    for (int i = 0; i < 12; i++)
        TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT pgwork.prune(1)"));
    kit_do(a, "SELECT pgwork.prune()");
    TEST_ASSERT_EQUAL_INT64(1, rows_of_all_tables());
    TEST_ASSERT_EQUAL_STRING("1 0 0 0 0", kit_places(a, "last"));
}

/* A queue and its first jobs are committed while prune() has begun to look for what has none. */
void test_prune_leaves_a_queue_alone_that_is_just_being_made(void)
{
    PGconn *c = kit_open();
    long long pruned;

    kit_do(a, "SELECT pgwork.queue_create('old')");
    kit_do(a, "SELECT pgwork.queue_drop('old')");
    hold_deletes_up();
    kit_do(c, "SELECT pg_advisory_lock(1)");
    kit_do(a, "BEGIN");
    kit_put(a, "new");
    kit_do(a, "SELECT pgwork.enqueue('new', key => 'k', delay_ms => 60000)");
    kit_send(b, "SELECT pgwork.prune()");
    kit_blocked(b, c);
    kit_do(a, "COMMIT");
    kit_do(c, "SELECT pg_advisory_unlock(1)");
    pruned = strtoll(kit_answer(b), NULL, 10);
    let_deletes_pass();
    TEST_ASSERT_EQUAL_INT64(0, pruned);
    TEST_ASSERT_EQUAL_STRING("1 0 1 0 0", kit_places(a, "new"));
    TEST_ASSERT_EQUAL_INT64(0, kit_number(b, "SELECT pgwork.prune()"));
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT count(*) FROM pgwork.unique_key"));
}

void test_depth_counts_up_to_what_is_asked(void)
{
    kit_refused(a, "PW003", "no queue \"q\"", "SELECT pgwork.depth('q')");
    fill("q", 30);
    kit_claim(a, "q", 10, jobs);
    kit_do(a, "SELECT pgwork.enqueue('q', delay_ms => 1000) FROM generate_series(1, 7)");
    TEST_ASSERT_EQUAL_STRING("20 10 7 0 0", kit_places(a, "q"));
    TEST_ASSERT_EQUAL_STRING("2 10 7 0 0",
                             kit_text(a, "SELECT concat_ws(' ', ready, leased, delayed, dead, "
                                         "done) FROM pgwork.depth('q', 12)"));
    TEST_ASSERT_EQUAL_STRING("5", kit_text(a, "SELECT delayed FROM pgwork.depth('q', 5)"));
    kit_do(
        a,
        "UPDATE pgwork.live_job SET created_at = created_at - interval '1 h' WHERE token IS NULL");
    TEST_ASSERT_EQUAL_INT64(60, kit_number(a, "SELECT oldest_ms / 60000 FROM pgwork.depth('q')"));
    kit_refused(a, "PW001", "at_most|0", "SELECT pgwork.depth('q', 0)");
    TEST_ASSERT_EQUAL_STRING(
        "q 20 10 7",
        kit_text(a,
                 "SELECT concat_ws(' ', queue, ready, leased, delayed) FROM pgwork.queue_stats"));
}

/* The first is counted, and waits to be told the time; the other one is gone when its turn comes.
 */
void test_a_count_of_all_queues_skips_a_queue_that_is_dropped_meanwhile(void)
{
    PGconn *b = kit_open(), *watch = kit_open();

    fill("q", 1);
    fill("z", 1);
    kit_do(a, "SELECT pg_advisory_lock(1)");
    kit_do(b, "CREATE OR REPLACE FUNCTION pgwork._now() RETURNS timestamptz LANGUAGE plpgsql AS "
              "'BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN clock_timestamp(); END'");
    kit_send(b, "SELECT count(*) FROM pgwork.queue_stats");
    kit_blocked(b, watch);
    kit_do(a, "SELECT pgwork.queue_drop(name, true) FROM pgwork.queues");
    kit_do(a, "SELECT pg_advisory_unlock(1)");
    TEST_ASSERT_EQUAL_STRING("1", kit_answer(b));
    kit_do(b, "CREATE OR REPLACE FUNCTION pgwork._now() RETURNS timestamptz LANGUAGE sql "
              "RETURN clock_timestamp()");
    TEST_ASSERT_NULL(kit_text(a, "SELECT ready FROM pgwork.depth('q', missing_ok => true)"));
    kit_refused(a, "PW003", "no queue \"q\"", "SELECT pgwork.depth('q', NULL, NULL)");
}

/* Who waited on purpose has not waited for a worker. */
void test_a_job_waits_since_it_was_due(void)
{
    const char *minutes = "SELECT oldest_ms / 60000 FROM pgwork.depth('q')";

    kit_do(a, "SELECT pgwork.enqueue('q', delay_ms => 86400000)");
    kit_do(a, "UPDATE pgwork.delayed_job SET created_at = created_at - interval '2 h',"
              " run_at = now() - interval '5 min'");
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT promoted FROM pgwork.promote()"));
    TEST_ASSERT_EQUAL_INT64(5, kit_number(a, "%s", minutes));
    TEST_ASSERT_EQUAL_STRING(
        "ready", kit_text(a, "SELECT state || coalesce(lease_until::text, '') FROM pgwork.job"));

    kit_claim(a, "q", 1, &job);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", &job, ", 'no', 60000"));
    kit_do(a, "UPDATE pgwork.delayed_job SET run_at = now() - interval '3 min'");
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT promoted FROM pgwork.promote()"));
    TEST_ASSERT_EQUAL_INT64(3, kit_number(a, "%s", minutes));

    /* requeued: nobody knows how often, so the age counts from its enqueue */
    kit_claim(a, "q", 1, &job);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "release", &job, ""));
    TEST_ASSERT_EQUAL_INT64(120, kit_number(a, "%s", minutes));

    kit_claim(a, "q", 1, &job);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", &job, ", 'no', NULL, true"));
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "%s", minutes)); /* dead: none waits */
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT pgwork.redrive('q')"));
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "%s", minutes));
}

void test_a_queue_that_is_there_costs_no_number(void)
{
    fill("q", 1);
    kit_do(a, "SELECT pgwork.queue_create('q'), pgwork.queue_create('q', lease_ms => 1000)");
    kit_do(a, "SELECT pgwork.enqueue('q', tags => '{t}'), pgwork.enqueue_many('q', '{1,2}')");
    kit_put(a, "next");
    TEST_ASSERT_EQUAL_STRING("1", kit_text(a, "SELECT max(id) - min(id) FROM pgwork.queues"));
}

void test_queues_are_made_and_set_within_their_limits(void)
{
    static const char *const bad[] = {"lease_ms => 99",     "lease_ms => 86400001",
                                      "max_attempts => 0",  "max_attempts => 1001",
                                      "backoff_ms => -1",   "backoff_cap_ms => 31536000001",
                                      "retention_ms => -1", "retention_ms => 9223372036854775807",
                                      "max_bytes => 0",     "max_bytes => 268435457"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char name[32];

        snprintf(name, sizeof(name), "%.*s", (int)strcspn(bad[i], " "), bad[i]);
        kit_refused(a, "PW001", name, "SELECT pgwork.queue_create('q', %s)", bad[i]);
    }
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT count(*) FROM pgwork.queue"));
    kit_do(a, "SELECT pgwork.queue_create('q', lease_ms => 100, max_attempts => 3)");
    kit_do(a, "SELECT pgwork.queue_create('q', max_attempts => 4), pgwork.queue_set('q', notify => "
              "false), pgwork.queue_set('q')");
    TEST_ASSERT_EQUAL_STRING("100 4 1000 f",
                             kit_text(a, "SELECT concat_ws(' ', lease_ms, max_attempts, "
                                         "backoff_ms, notify) FROM pgwork.queue_stats"));
    kit_refused(a, "PW003", "no queue \"p\"", "SELECT pgwork.queue_set('p', lease_ms => 100)");
    kit_refused(a, "PW003", "no queue \"p\"", "SELECT pgwork.queue_pause('p')");
    kit_refused(a, "PW001", "queue", "SELECT pgwork.queue_create('')");
}

void test_settings_are_read_set_and_checked(void)
{
    TEST_ASSERT_EQUAL_STRING("on", kit_text(a, "SELECT pgwork.setting('implicit_queues')"));
    TEST_ASSERT_EQUAL_STRING("off", kit_text(a, "SELECT pgwork.setting('implicit_queues', 'off')"));
    TEST_ASSERT_EQUAL_STRING("off", kit_text(b, "SELECT pgwork.setting('implicit_queues')"));
    kit_refused(a, "PW001", "value|\"maybe\"|on or off",
                "SELECT pgwork.setting('implicit_queues', 'maybe')");
    kit_refused(a, "PW001",
                "name|\"x\"|implicit_queues, low_water_marks, max_queues, op_retention_ms",
                "SELECT pgwork.setting('x')");
    kit_refused(a, "PW001", "name|NULL", "SELECT pgwork.setting(NULL)");
    kit_refused(a, "PW001", "value|\"-1\"", "SELECT pgwork.setting('op_retention_ms', '-1')");
    kit_refused(a, "PW001", "value|999999999999999",
                "SELECT pgwork.setting('op_retention_ms', '999999999999999')");
    kit_do(a, "SELECT pgwork.setting('op_retention_ms', '3153600000000'),"
              " pgwork.setting('implicit_queues', 'on')");
    fill("q", 1);
    kit_do(a, "SELECT pgwork.prune()"); /* the greatest of them works */
}

void test_a_heartbeat_is_one_row_per_session_and_its_arguments_are_checked(void)
{
    kit_do(a, "SELECT pgwork.heartbeat('reaper', 'one'), pgwork.heartbeat('reaper', 'one')");
    TEST_ASSERT_EQUAL_INT64(
        1, kit_number(a, "SELECT count(*) FROM pgwork.heartbeats WHERE pid = pg_backend_pid()"));
    /* the clock was set back: one from later is no sign that it lives now */
    kit_do(a, "UPDATE pgwork.heartbeat SET at = now() + interval '1 day'; SELECT "
              "pgwork.heartbeat('reaper', "
              "'one')");
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT count(*) FROM pgwork.heartbeats WHERE at > "
                                             "clock_timestamp()"));
    kit_refused(a, "PW001", "role|\"\"", "SELECT pgwork.heartbeat('', 'one')");
    kit_refused(a, "PW001", "name|NULL", "SELECT pgwork.heartbeat('reaper', NULL)");
}

void test_claims_refuse_what_is_out_of_range(void)
{
    static const char *const bad[][2] = {
        {"n|0|1..10000", "'{q}', 0, 'w'"},
        {"n|10001", "'{q}', 10001, 'w'"},
        {"n|NULL", "'{q}', NULL, 'w'"},
        {"n|-2147483648", "'{q}', -2147483648, 'w'"},
        {"holder|NULL", "'{q}', 1, NULL"},
        {"holder|\"\"|1 to 255 bytes", "'{q}', 1, ''"},
        {"holder|255", "'{q}', 1, repeat('h', 256)"},
        {"holder|control characters", "'{q}', 1, E'h\\n'"},
        {"lease_ms|99", "'{q}', 1, 'w', 99"},
        {"lease_ms|86400001", "'{q}', 1, 'w', 86400001"},
        {"queues|NULL", "NULL, 1, 'w'"},
        {"queues|{}", "'{}', 1, 'w'"},
        {"queues|1 to 64", "array_fill('q'::text, ARRAY[65]), 1, 'w'"}};

    fill("q", 1);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        kit_refused(a, "PW001", bad[i][0], "SELECT pgwork.claim(%s)", bad[i][1]);
    kit_claim(a, "q", 1, &job);
    kit_refused(a, "PW001", "n|0", "SELECT pgwork.claim('{q}', 0, 'w', NULL, '{%lld}', '{%s}')",
                job.id, job.token);
    TEST_ASSERT_EQUAL_STRING("0 1 0 0 0", kit_places(a, "q")); /* nor was it completed */
    kit_refused(a, "PW001", "lease_ms|99", "SELECT pgwork.extend('q', '{%lld}', '{%s}', 99)",
                job.id, job.token);
    kit_refused(a, "PW001", "retry_ms|-1", "SELECT pgwork.fail('q', '{%lld}', '{%s}', 'x', -1)",
                job.id, job.token);
    kit_refused(a, "PW001", "delay_ms|NULL", "SELECT pgwork.snooze('q', '{%lld}', '{%s}', NULL)",
                job.id, job.token);
    kit_refused(a, "PW001", "delay_ms|9223372036854775807",
                "SELECT pgwork.snooze('q', '{%lld}', '{%s}', 9223372036854775807)", job.id,
                job.token);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &job, ""));
}

void test_a_claim_completes_what_came_before(void)
{
    fill("q", 3);
    kit_claim(a, "q", 2, jobs);
    kit_say(a, "release", jobs + 1, "");
    TEST_ASSERT_EQUAL_STRING(kit_text(a, "SELECT '%lld 0 stale f, %lld 1  t, %lld 1  t'",
                                      jobs[1].id, jobs[1].id + 1, jobs[1].id),
                             kit_text(a,
                                      "SELECT string_agg(concat_ws(' ', id, attempt, kind, token "
                                      "IS NOT NULL), ', ') FROM pgwork.claim("
                                      "'{q}', 5, 'w', NULL, '{%lld,%lld}', '{%s,%s}')",
                                      jobs[0].id, jobs[1].id, jobs[0].token, jobs[1].token));
    TEST_ASSERT_EQUAL_STRING("0 2 0 0 0", kit_places(a, "q"));
}

/* -- waking -------------------------------------------------------------------------------------
 */

/* What a listener hears within a generous time, or at once when nothing is expected. */
static const char *heard(PGconn *conn, int wait)
{
    static char text[300];
    PGnotify *note = NULL;

    for (long long end = kit_ms() + (wait ? 10000 : 0);;) {
        kit_do(conn, "SELECT 1"); /* notifications come before the answer */
        note = PQnotifies(conn);
        if (note || kit_ms() >= end) break;
        kit_sleep_ms(5);
    }
    if (!note) return "";
    snprintf(text, sizeof(text), "%s %s", note->relname, note->extra);
    PQfreemem(note);
    return text;
}

void test_an_enqueue_notifies_waiters_and_nobody_else(void)
{
    PGconn *watch = kit_open();

    kit_do(a, "SELECT pgwork.queue_create('q'), pgwork.queue_create('other')");
    kit_do(a, "LISTEN pgwork_wake_pgwork");
    kit_put(b, "q");
    TEST_ASSERT_EQUAL_STRING("", heard(a, 0)); /* nobody sleeps */
    TEST_ASSERT_EQUAL_STRING("{Q}", kit_text(a, "SELECT pgwork.idle('{q,Q}')"));
    kit_put(b, "other");
    TEST_ASSERT_EQUAL_STRING("", heard(a, 0));
    kit_put(b, "q");
    TEST_ASSERT_EQUAL_STRING("pgwork_wake_pgwork q", heard(a, 1));
    TEST_ASSERT_EQUAL_STRING("", heard(a, 0));
    kit_do(b, "SELECT pgwork.enqueue_many('q', '{1,2,3}')"); /* one for all */
    TEST_ASSERT_EQUAL_STRING("pgwork_wake_pgwork q", heard(a, 1));
    TEST_ASSERT_EQUAL_STRING("", heard(a, 0));
    kit_do(b, "SELECT pgwork.queue_set('q', notify => false)");
    kit_put(b, "q");
    TEST_ASSERT_EQUAL_STRING("", heard(a, 0));
    kit_do(b, "SELECT pgwork.queue_set('q', notify => true)");
    kit_do(b, "BEGIN");
    kit_put(b, "q");
    kit_do(b, "ROLLBACK");
    TEST_ASSERT_EQUAL_STRING("", heard(a, 0));
    kit_put(b, "Q"); /* which did not exist yet */
    TEST_ASSERT_EQUAL_STRING("pgwork_wake_pgwork Q", heard(a, 1));
    kit_do(a, "SELECT pgwork.awake('{q,Q}')");
    kit_put(b, "q");
    TEST_ASSERT_EQUAL_STRING("", heard(a, 0));
    TEST_ASSERT_EQUAL_INT64(
        0,
        kit_number(watch,
                   "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND "
                   "database = (SELECT oid FROM pg_database WHERE datname = current_database())"));
}

/* Both sleep, in slots of their own. */
static PGconn *two_sleep(void)
{
    PGconn *c = kit_open();

    kit_do(a, "SELECT pgwork.queue_create('q')");
    kit_do(a, "LISTEN pgwork_wake_pgwork_3; SELECT pgwork.idle('{q}', 3)");
    kit_do(c, "LISTEN pgwork_wake_pgwork_255; SELECT pgwork.idle('{q}', 255)");
    return c;
}

void test_a_job_wakes_one_slot_and_two_jobs_two(void)
{
    PGconn *c = two_sleep();

    kit_put(b, "q");
    if (*heard(a, 0) == '\0')
        TEST_ASSERT_EQUAL_STRING("pgwork_wake_pgwork_255 q", heard(c, 1));
    else
        TEST_ASSERT_EQUAL_STRING("", heard(c, 0));
    kit_do(b, "SELECT pgwork.enqueue_many('q', '{1,2}')");
    TEST_ASSERT_EQUAL_STRING("pgwork_wake_pgwork_3 q", heard(a, 1));
    TEST_ASSERT_EQUAL_STRING("pgwork_wake_pgwork_255 q", heard(c, 1));
    kit_do(c, "SELECT pgwork.awake('{q}', 255)");
    kit_put(b, "q");
    TEST_ASSERT_EQUAL_STRING("pgwork_wake_pgwork_3 q", heard(a, 1));
    TEST_ASSERT_EQUAL_STRING("", heard(c, 0));
    kit_refused(a, "PW001", "slot|256|0..255", "SELECT pgwork.idle('{q}', 256)");
    kit_refused(a, "PW001", "slot|NULL", "SELECT pgwork.idle('{q}', NULL)");
}

/* Who is being called by an open transaction is not called by another. */
void test_two_producers_at_once_wake_up_two_waiters(void)
{
    PGconn *c = two_sleep(), *d = kit_open();

    kit_do(b, "BEGIN");
    kit_put(b, "q");
    kit_put(d, "q");
    kit_do(b, "COMMIT");
    TEST_ASSERT_EQUAL_STRING("pgwork_wake_pgwork_3 q", heard(a, 1));
    TEST_ASSERT_EQUAL_STRING("pgwork_wake_pgwork_255 q", heard(c, 1));
}

void test_a_busy_worker_wakes_the_next_one(void)
{
    PGconn *c = kit_open();

    fill("q", 3);
    kit_do(c, "LISTEN pgwork_wake_pgwork_9; SELECT pgwork.idle('{q}', 9)");
    TEST_ASSERT_EQUAL_INT(2, kit_claim(b, "q", 2, jobs));
    TEST_ASSERT_EQUAL_STRING("pgwork_wake_pgwork_9 q", heard(c, 1));
    kit_sleep_ms(30);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 2, jobs)); /* it could take more: there is none */
    TEST_ASSERT_EQUAL_STRING("", heard(c, 0));
}

/* A worker waits by the name of its queue. */
void test_a_worker_waits_on_for_a_queue_that_is_dropped_and_created_again(void)
{
    static const char locks[] =
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = %d";

    kit_do(a, "SELECT pgwork.queue_create('q')");
    kit_do(a, "LISTEN pgwork_wake_pgwork; SELECT pgwork.idle('{q}')");
    kit_do(b, "SELECT pgwork.queue_drop('q'), pgwork.queue_create('q')");
    kit_put(b, "q");
    TEST_ASSERT_EQUAL_STRING("pgwork_wake_pgwork q", heard(a, 1));
    kit_do(a, "SELECT pgwork.awake('{q}')");
    TEST_ASSERT_EQUAL_INT64(0, kit_number(b, locks, PQbackendPID(a)));
}

/* Locks of a session outlive an error, and jobs would be told to who does not listen. */
void test_a_registration_that_fails_is_undone(void)
{
    static const char *const fail[][2] = {{"lock_timeout", "55P03"},
                                          {"statement_timeout", "57014"}};

    kit_do(a, "SELECT pgwork.queue_create('q'), pgwork.queue_create('r')");
    kit_do(b, "SELECT pg_advisory_lock(pgwork._waiters('r', 272))");
    for (size_t i = 0; i < sizeof(fail) / sizeof(fail[0]); i++) {
        kit_do(a, "SET %s = '100ms'", fail[i][0]);
        TEST_ASSERT_EQUAL_STRING(fail[i][1], kit_state(a, "SELECT pgwork.idle('{q,r}', 3)"));
        kit_do(a, "RESET %s", fail[i][0]);
        TEST_ASSERT_EQUAL_INT64(
            0,
            kit_number(b, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = %d",
                       PQbackendPID(a)));
    }
}

void test_every_way_to_make_a_job_ready_notifies_waiters(void)
{
    fill("q", 3);
    kit_claim(b, "q", 3, jobs);
    kit_do(b, "SELECT pgwork.enqueue('q', delay_ms => 60000)");
    kit_do(a, "LISTEN pgwork_wake_pgwork; SELECT pgwork.idle('{q}')");
    kit_say(b, "release", jobs, "");
    TEST_ASSERT_EQUAL_STRING("pgwork_wake_pgwork q", heard(a, 1));
    kit_say(b, "fail", jobs + 1, ", 'boom', 0");
    TEST_ASSERT_EQUAL_STRING("pgwork_wake_pgwork q", heard(a, 1));
    kit_say(b, "snooze", jobs + 2, ", 60000");
    TEST_ASSERT_EQUAL_STRING("", heard(a, 0));
    kit_due(b, "q");
    kit_do(b, "SELECT pgwork.promote()");
    TEST_ASSERT_EQUAL_STRING("pgwork_wake_pgwork q", heard(a, 1));
    TEST_ASSERT_EQUAL_INT(4, kit_claim(b, "q", 9, jobs));
    kit_expire(b, "q");
    kit_do(b, "SELECT pgwork.reap()");
    TEST_ASSERT_EQUAL_STRING("pgwork_wake_pgwork q", heard(a, 1));
    kit_do(b, "SELECT pgwork.queue_resume('q')");
    TEST_ASSERT_EQUAL_STRING("pgwork_wake_pgwork q", heard(a, 1));
    kit_claim(b, "q", 9, jobs); /* alone, as its holder died: there is more */
    TEST_ASSERT_EQUAL_STRING("pgwork_wake_pgwork q", heard(a, 1));
    kit_say(b, "fail", jobs, ", 'boom', 0, true");
    TEST_ASSERT_EQUAL_STRING("", heard(a, 0));
    kit_do(b, "SELECT pgwork.redrive('q')");
    TEST_ASSERT_EQUAL_STRING("pgwork_wake_pgwork q", heard(a, 1));
}
