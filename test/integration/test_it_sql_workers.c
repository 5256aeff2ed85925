/* Reports of workers: nothing is counted twice or lost, and reads stay cheap. */
#include "unity.h"
#include "pgtemp.h"
#include "sqlkit.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static PGconn *a, *b;

void setUp(void)
{
    kit_begin();
    a = kit_open();
    b = kit_open();
    kit_do(a, "SELECT pgwork.queue_create('q'), pgwork.queue_create('r')");
    kit_do(a, "DELETE FROM pgwork.worker_report; DELETE FROM pgwork.report_sum");
}

void tearDown(void)
{
    kit_end();
}

/* One report of a worker for queue q: n of everything since `version`. Returns the new version. */
static long long report(PGconn *conn, const char *name, long long version, int n, bool gone)
{
    return kit_number(conn,
                      "SELECT (pgwork.worker_report('%s', '{q}', '{%lld}', '{1}', "
                      "array_fill(%d::bigint, ARRAY[56]), 1000, 4, %s))[1]",
                      name, version, n, gone ? "true" : "false");
}

static long long claimed(const char *queue)
{
    return kit_number(b, "SELECT claimed FROM pgwork.queue_counts('%s')", queue);
}

/* A minute passes for the reapers. */
static void minute(void)
{
    kit_do(b, "UPDATE pgwork.report_sum SET at = at - interval '61 s'");
    kit_do(b, "SELECT pgwork.prune()");
}

void test_a_worker_has_one_row_for_each_of_its_queues(void)
{
    long long version = report(a, "w", 0, 3, false);

    version = report(a, "w", version, 2, false);
    report(a, "other", 0, 1, false);
    TEST_ASSERT_EQUAL_STRING(
        "other 1, w 5", kit_text(b, "SELECT string_agg(name || ' ' || claimed, ', ' ORDER BY name) "
                                    "FROM pgwork.workers"));
    TEST_ASSERT_EQUAL_INT64(2, kit_number(b, "SELECT count(*) FROM pgwork.worker_report"));
    TEST_ASSERT_EQUAL_STRING(
        "t",
        kit_text(a, "SELECT r[1] = 0 AND r[2] > 0 FROM pgwork.worker_report('two', '{none,r}', "
                    "'{0,0}', '{0,0}', array_fill(7::bigint, ARRAY[112]), 1, 1) r"));
    TEST_ASSERT_EQUAL_INT64(7, claimed("r"));
}

void test_nothing_is_counted_twice_or_lost_when_reports_are_added_up(void)
{
    long long w, last = 0;

    w = report(a, "w", 0, 5, false);
    report(a, "leaves", 0, 7, true);
    for (int i = 0; i < 4; i++) { /* which adds up w at the second */
        TEST_ASSERT_EQUAL_INT64(12, claimed("q"));
        minute();
    }
    TEST_ASSERT_EQUAL_INT64(0, kit_number(b, "SELECT count(*) FROM pgwork.worker_report"));
    report(a, "w", w, 3, false); /* it was only slow */
    TEST_ASSERT_EQUAL_INT64(15, claimed("q"));
    for (int i = 0; i < 60; i++) {
        minute();
        TEST_ASSERT_GREATER_OR_EQUAL_INT64(last, claimed("q"));
        last = claimed("q");
    }
    TEST_ASSERT_EQUAL_INT64(15, claimed("q"));
}

void test_reapers_at_once_add_up_once(void)
{
    report(a, "leaves", 0, 7, true);
    kit_do(a, "BEGIN; SELECT pgwork.prune()");
    kit_do(b, "SELECT pgwork.prune()"); /* does not wait, and leaves it to the other one */
    kit_do(a, "COMMIT");
    kit_do(b, "SELECT pgwork.prune()");
    TEST_ASSERT_EQUAL_INT64(7, claimed("q"));
    TEST_ASSERT_EQUAL_STRING("7 7", kit_text(b, "SELECT sum(claimed) || ' ' || sum(done) FROM "
                                                "pgwork.minutes WHERE queue = 'q'"));
}

void test_minutes_have_what_changed_in_them_and_end_after_a_week(void)
{
    report(a, "w", 0, 4, false);
    kit_do(b, "SELECT pgwork.prune()");
    TEST_ASSERT_EQUAL_STRING("q 4 4194304",
                             kit_text(b, "SELECT string_agg(concat_ws(' ', queue, done, "
                                         "wait_p95_ms), ',') FROM pgwork.minutes"));
    kit_do(b, "UPDATE pgwork.minute SET at = at - interval '8 days'");
    minute();
    TEST_ASSERT_EQUAL_INT64(0, kit_number(b, "SELECT count(*) FROM pgwork.minutes"));
}

/* The reads of EXPLAIN: buffers of the whole statement. The least of three: a first one, and one
 * after autovacuum has come, also reads the catalogs to make its plans. */
static long buffers(const char *statement)
{
    long least = LONG_MAX;

    for (int i = 0; i < 3; i++) {
        const char *plan = kit_text(b, "SELECT pg_temp.plan($q$%s$q$)", statement);
        const char *hit = strstr(plan, "shared hit=");
        long n;

        TEST_ASSERT_NOT_NULL_MESSAGE(hit, plan);
        n = strtol(hit + strlen("shared hit="), NULL, 10);
        if (n < least) least = n;
    }
    return least;
}

void test_a_held_snapshot_makes_readers_walk_over_two_minutes_at_most(void)
{
    PGconn *holder = kit_open();
    long long w = report(a, "w", 0, 1, false);
    long before, after;

    kit_do(b,
           "CREATE FUNCTION pg_temp.plan(s text) RETURNS text LANGUAGE plpgsql AS $f$ DECLARE l "
           "text; r text := ''; BEGIN FOR l IN EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, TIMING off) ' "
           "|| s LOOP r := r || l || chr(10); END LOOP; RETURN r; END $f$");
    minute();
    before = buffers("SELECT * FROM pgwork.queue_counts()");
    kit_do(holder, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pgwork.queues");
    for (int i = 0; i < 100; i++) { /* an hour and forty minutes */
        for (int j = 0; j < 12; j++) w = report(a, "w", w, 1, false);
        minute();
    }
    after = buffers("SELECT * FROM pgwork.queue_counts()");
    TEST_ASSERT_LESS_THAN_INT64(before + 100, after);
    TEST_ASSERT_EQUAL_INT64(1201, claimed("q"));
    kit_close(holder);
}

void test_a_bad_report_is_refused(void)
{
    kit_refused(a, "PW001", "queues|1..64",
                "SELECT pgwork.worker_report('w', '{}', '{}', '{}', '{}', 1, 1)");
    kit_refused(a, "PW001", "counts|56",
                "SELECT pgwork.worker_report('w', '{q}', '{0}', '{0}', "
                "'{1}', 1, 1)");
    kit_refused(a, "PW001", "counts|0..1000000000000000",
                "SELECT pgwork.worker_report('w', '{q}', '{0}', '{0}', array_fill(-1::bigint, "
                "ARRAY[56]), 1, 1)");
    kit_refused(a, "PW001", "name",
                "SELECT pgwork.worker_report('', '{q}', '{0}', '{0}', '{}', 1, "
                "1)");
}

void test_a_report_does_not_delete_that_of_another_worker(void)
{
    const long long w = report(a, "w", 0, 5, false);

    report(a, "thief", w, 1, false);
    TEST_ASSERT_EQUAL_INT64(6, claimed("q"));
}

/* -- what is late, and demand -- */

void test_overdue_names_expired_leases_and_delayed_jobs_that_no_reaper_moves(void)
{
    struct took job;

    kit_put(a, "q");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, &job));
    kit_do(a, "SELECT pgwork.enqueue('q', delay_ms => 3600000), pgwork.enqueue('q', delay_ms => "
              "3600000)");
    TEST_ASSERT_EQUAL_STRING("0 0",
                             kit_text(b, "SELECT expired || ' ' || due FROM pgwork.overdue() "
                                         "WHERE queue = 'q'"));
    kit_do(a, "UPDATE pgwork.live_job SET lease_until = now() - interval '1 min'; "
              "UPDATE pgwork.delayed_job SET run_at = now() - interval '1 min'");
    TEST_ASSERT_EQUAL_STRING("1 2",
                             kit_text(b, "SELECT expired || ' ' || due FROM pgwork.overdue() "
                                         "WHERE queue = 'q'"));
    TEST_ASSERT_EQUAL_STRING("1 1", kit_text(b, "SELECT expired || ' ' || due FROM "
                                                "pgwork.overdue(1) WHERE queue = 'q'"));
    TEST_ASSERT_EQUAL_STRING(
        "true true", kit_text(b, "SELECT (expired_since < now() - interval '50 s') || ' ' || "
                                 "(due_since < now() - interval '50 s') FROM pgwork.overdue() "
                                 "WHERE queue = 'q'"));
    kit_refused(a, "PW001", "at_most", "SELECT * FROM pgwork.overdue(0)");
}

void test_a_list_of_leases_does_not_read_all_ready_jobs(void)
{
    struct took jobs[3];

    kit_do(a, "INSERT INTO pgwork.live_job (queue) SELECT q.id FROM pgwork.queue q, "
              "generate_series(1, 20000) WHERE q.name = 'q'");
    TEST_ASSERT_EQUAL_INT(3, kit_claim(a, "q", 3, jobs));
    kit_do(a, "BEGIN");
    TEST_ASSERT_EQUAL_STRING(
        kit_text(b, "SELECT string_agg(id || kind || holder || lease_until, ' ' ORDER BY id) FROM "
                    "pgwork.job_list('q', 'leased')"),
        kit_text(a, "SELECT string_agg(id || kind || holder || lease_until, ' ' ORDER BY id) FROM "
                    "pgwork.leased_list('q')"));
    TEST_ASSERT_LESS_THAN_INT64(
        4000, kit_number(a, "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM "
                            "pg_stat_xact_user_tables WHERE relname = 'live_job'"));
    kit_do(a, "COMMIT");
    TEST_ASSERT_EQUAL_INT(2, kit_number(a, "SELECT count(*) FROM pgwork.leased_list(NULL, (SELECT "
                                           "min(id) FROM pgwork.leased_list()))"));
    TEST_ASSERT_EQUAL_INT(1,
                          kit_number(a, "SELECT count(*) FROM pgwork.leased_list(at_most => 1)"));
    kit_refused(a, "PW001", "at_most", "SELECT * FROM pgwork.leased_list(at_most => 0)");
}

void test_demand_counts_what_can_be_worked_on_and_no_further_than_asked(void)
{
    struct took job;

    kit_do(a, "SELECT count(*) FROM pgwork.enqueue_many('q', ARRAY(SELECT to_jsonb(g) FROM "
              "generate_series(1, 300) g))");
    kit_do(a, "SELECT pgwork.enqueue('q', delay_ms => 60000)");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, &job));
    TEST_ASSERT_EQUAL_INT64(300, kit_number(b, "SELECT pgwork.demand('q')"));
    TEST_ASSERT_EQUAL_INT64(301, kit_number(b, "SELECT pgwork.demand('q', within_ms => 120000)"));
    TEST_ASSERT_EQUAL_INT64(50, kit_number(b, "SELECT pgwork.demand('q', 50)"));
    TEST_ASSERT_EQUAL_INT64(0, kit_number(b, "SELECT pgwork.demand('none')"));
    kit_do(a, "SELECT pgwork.queue_pause('q')");
    TEST_ASSERT_EQUAL_INT64(1, kit_number(b, "SELECT pgwork.demand('q')"));
    kit_refused(a, "PW001", "within_ms", "SELECT pgwork.demand('q', 1, -1)");
}

void test_demand_of_a_queue_with_a_semaphore_does_not_wait_for_a_worker(void)
{
    struct took job;

    kit_do(a, "SELECT pgwork.sema_create('gpu', 2)");
    kit_do(a, "SELECT pgwork.queue_semaphore('q', 'gpu')");
    for (int i = 0; i < 5; i++) kit_put(a, "q");
    TEST_ASSERT_EQUAL_INT64(2, kit_number(b, "SELECT pgwork.demand('q')"));
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, &job));
    TEST_ASSERT_EQUAL_INT64(2, kit_number(b, "SELECT pgwork.demand('q')"));
    TEST_ASSERT_EQUAL_INT64(1, kit_number(b, "SELECT pgwork.demand('q', 1)"));
}
