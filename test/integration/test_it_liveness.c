/* Nobody waits for ever: neither one queue's backlog, nor an open transaction, nor one bad job
 * keeps the jobs of others waiting. */
#include "unity.h"
#include "pgtemp.h"
#include "sqlkit.h"

#include <stdio.h>
#include <string.h>

static PGconn *a, *b, *c;
static struct took jobs[1000];

void setUp(void)
{
    kit_begin();
    a = kit_open();
    b = kit_open();
    c = kit_open();
    kit_do(a, "SELECT pgwork.queue_create('q', backoff_ms => 0)");
    kit_do(a, "SELECT pgwork.queue_create('r', backoff_ms => 0)");
}

void tearDown(void)
{
    kit_end();
}

/* The first pass of a session does all that is due. It fails if it has to wait for somebody. */
static void full_pass(void)
{
    PGconn *conn = kit_open();

    kit_do(conn, "SET statement_timeout = '20s'");
    kit_do(conn, "SELECT * FROM pgwork.maintain()");
    kit_close(conn);
}

static long long put(const char *what)
{
    return kit_number(a, "SELECT (pgwork.enqueue(%s)).id", what);
}

static void fill(const char *queue, int n, const char *more)
{
    kit_do(a, "SELECT count(*) FROM pgwork.enqueue_many('%s', array_fill('1'::jsonb, ARRAY[%d])%s)",
           queue, n, more);
}

/* Passes until a claim from the queue gets its job. */
static void await_job(const char *queue, long long id)
{
    int got = 0;

    for (long long end = kit_ms() + 20000; got == 0 && kit_ms() < end; kit_sleep_ms(10)) {
        full_pass();
        got = kit_claim(b, queue, 1, jobs);
    }
    TEST_ASSERT_EQUAL_INT(1, got);
    TEST_ASSERT_EQUAL_INT64(id, jobs[0].id);
}

/* Makes inserts or updates of such rows of live_job fail. */
static void refuse(const char *event, const char *when)
{
    kit_do(a, "CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS"
              " 'BEGIN RAISE EXCEPTION $$no$$; END'");
    kit_do(a,
           "CREATE TRIGGER refuse BEFORE %s ON pgwork.live_job FOR EACH ROW WHEN (%s)"
           " EXECUTE FUNCTION public.refuse()",
           event, when);
}

static void refuse_no_more(void)
{
    kit_do(a, "DROP FUNCTION public.refuse() CASCADE");
}

/* -- a backlog of another queue -----------------------------------------------------------------
 */

void test_delayed_jobs_of_one_queue_do_not_wait_for_all_of_another(void)
{
    int passes = 0;

    fill("q", 2000, ", delays_ms => array_fill(60000, '{2000}')");
    put("'r', '{}', delay_ms => 60000");
    kit_due(a, "q");
    kit_due(a, "r");
    for (; kit_claim(b, "r", 1, jobs) == 0 && passes < 150; passes++)
        kit_do(c, "SELECT * FROM pgwork.promote(10)");
    TEST_ASSERT_LESS_THAN_INT(150, passes); /* in turn by chance; all of q takes 200 */
}

void test_expired_leases_of_one_queue_do_not_wait_for_all_of_another(void)
{
    int passes = 0;

    fill("q", 900, "");
    kit_do(a, "SELECT count(*) FROM pgwork.claim('{q}', 900, 'dead', apart => true)");
    put("'r', '{}'");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "r", 1, jobs));
    kit_expire(a, "q");
    kit_expire(a, "r");
    for (; kit_claim(b, "r", 1, jobs) == 0 && passes < 80; passes++)
        kit_do(c, "SELECT * FROM pgwork.reap(NULL, 10)");
    TEST_ASSERT_LESS_THAN_INT(80, passes);
}

/* In one session, whose passes rest after a slow one unless something is left to do. */
void test_a_reaper_that_is_behind_with_expired_jobs_does_not_rest(void)
{
    enum { JOBS = 20000 };

    kit_do(a, "SELECT pgwork.queue_set('q', expired => 'drop')");
    for (int i = 0; i < JOBS; i += 5000) fill("q", 5000, ", ttls_ms => array_fill(1, '{5000}')");
    for (int i = 0; i < 600 && kit_number(a, "SELECT ready FROM pgwork.depth('q')") > 0; i++)
        kit_do(c, "SELECT * FROM pgwork.maintain(100)");
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT ready FROM pgwork.depth('q')"));
}

void test_jobs_that_go_to_a_gate_count_as_moved(void)
{
    fill("q", 30, "");
    TEST_ASSERT_EQUAL_INT(30, kit_claim(a, "q", 30, jobs));
    for (int i = 0; i < 30; i++)
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", &jobs[i], ", 'no', 0, true"));
    kit_do(a, "SELECT pgwork.queue_limit('q', 1)");
    TEST_ASSERT_EQUAL_INT64(30, kit_number(a, "SELECT pgwork.redrive('q')"));
    fill("r", 30, ", delays_ms => array_fill(60000, '{30}')");
    kit_do(a, "SELECT pgwork.queue_limit('r', 1)");
    kit_due(a, "r");
    TEST_ASSERT_EQUAL_INT64(30, kit_number(a, "SELECT promoted FROM pgwork.promote()"));
}

/* As many checks of histories are due as one pass does. */
void test_checks_of_histories_delay_no_deletion(void)
{
    kit_do(a, "SELECT pgwork.queue_set('q', retention_ms => 1)");
    put("'q', '{}'");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, jobs));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &jobs[0], ""));
    fill("q", 2, "");
    TEST_ASSERT_EQUAL_INT(2, kit_claim(a, "q", 2, jobs));
    for (int i = 0; i < 2; i++)
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", &jobs[i], ", 'no', 60000"));
    kit_do(a, "UPDATE pgwork.job_history SET check_at = now()");
    kit_do(a, "SELECT pgwork.prune(2)");
    TEST_ASSERT_EQUAL_STRING("0 0 2 0 0", kit_places(a, "q"));
}

/* -- an open transaction ------------------------------------------------------------------------
 */

void test_an_open_drop_of_a_queue_stops_no_reaper(void)
{
    put("'q', '{}', grp => 'g'");
    put("'r', '{}', grp => 'g'");
    for (int i = 0; i < 3; i++) full_pass();
    kit_do(a, "BEGIN");
    kit_do(a, "SELECT pgwork.queue_drop('q', true)");
    const long long id = kit_number(b, "SELECT (pgwork.enqueue('r', '{}', delay_ms => 1)).id");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "r", 1, jobs));
    await_job("r", id);
    kit_do(a, "COMMIT");
    kit_do(a, "SELECT pgwork.prune()");
    TEST_ASSERT_EQUAL_INT64(
        0, kit_number(a, "SELECT (SELECT count(*) FROM pgwork.mark m WHERE NOT"
                         " EXISTS (SELECT FROM pgwork.queue q WHERE q.id = m.queue))"));
}

void test_an_open_unblock_of_a_group_stops_no_reaper(void)
{
    put("'q', '{}', grp => 'g', ttl_ms => 500");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, jobs));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", &jobs[0], ", 'no', 60000"));
    kit_do(a, "BEGIN");
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT pgwork.group_unblock('q', 'g')"));
    const long long id = kit_number(b, "SELECT (pgwork.enqueue('r', '{}', delay_ms => 600)).id");
    await_job("r", id);
    full_pass();
    kit_do(a, "COMMIT");
}

void test_an_open_unblock_of_a_dead_letter_that_is_purged_stops_no_reaper(void)
{
    kit_do(a, "SELECT pgwork.group_set('q', group_retry => 'block')");
    put("'q', '{}', grp => 'g'");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, jobs));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", &jobs[0], ", 'no', 0, true"));
    kit_do(a, "BEGIN");
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT pgwork.group_unblock('q', 'g')"));
    TEST_ASSERT_EQUAL_INT64(1, kit_number(b, "SELECT pgwork.dead_purge('q')"));
    const long long id = kit_number(b, "SELECT (pgwork.enqueue('r', '{}', delay_ms => 1)).id");
    await_job("r", id);
    kit_do(a, "COMMIT");
}

/* Another pass does what an open one has left, after five seconds. */
void test_an_open_pass_does_not_stop_groups_for_long(void)
{
    kit_do(b, "SELECT pgwork.group_hold('q', 'g', 600000)");
    const long long id = kit_number(b, "SELECT (pgwork.enqueue('q', '{}', grp => 'g')).id");
    full_pass();
    kit_do(a, "BEGIN");
    kit_do(a, "SELECT * FROM pgwork.maintain()");
    kit_do(b, "SET statement_timeout = '20s'");
    kit_do(b, "SELECT pgwork.group_hold('q', 'g', 1)");
    await_job("q", id);
    kit_do(a, "ROLLBACK");
}

void test_leases_behind_rows_claimed_in_a_savepoint_expire(void)
{
    int got = 0;

    kit_do(a, "SELECT count(pgwork.enqueue('q')) FROM generate_series(1, 2000)");
    kit_do(a, "BEGIN");
    kit_do(a, "SAVEPOINT s");
    TEST_ASSERT_EQUAL_INT64(
        1500, kit_number(a, "SELECT count(*) FROM pgwork.claim('{q}', 1500, 'a', apart => true)"));
    kit_do(a, "RELEASE s");
    TEST_ASSERT_EQUAL_INT64(1, kit_number(b, "SELECT count(*) FROM pgwork.claim('{q}', 1, 'b',"
                                             " lease_ms => 100)"));
    for (long long end = kit_ms() + 20000; got == 0 && kit_ms() < end; kit_sleep_ms(50))
        got = (int)kit_number(c, "SELECT reaped FROM pgwork.maintain()");
    TEST_ASSERT_EQUAL_INT(1, got);
    kit_do(a, "ROLLBACK");
}

void test_an_open_cancel_of_a_job_that_was_set_aside_stops_no_reaper(void)
{
    const long long bad = put("'q', '\"bad\"'");

    put("'q', '{}'");
    refuse("UPDATE", "NEW.token IS NOT NULL AND NEW.payload = '\"bad\"'");
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT pgwork.set_aside('{q}')"));
    refuse_no_more();
    kit_do(a, "UPDATE pgwork.stuck_job SET again_at = now()");
    kit_do(a, "BEGIN");
    kit_do(a, "SELECT * FROM pgwork.cancel('q', ARRAY[%lld])", bad);
    const long long id = kit_number(b, "SELECT (pgwork.enqueue('r', '{}', delay_ms => 1)).id");
    await_job("r", id);
    kit_do(a, "ROLLBACK");
    kit_do(a, "UPDATE pgwork.stuck_job SET again_at = now()");
    full_pass();
    TEST_ASSERT_EQUAL_INT(2, kit_claim(b, "q", 10, jobs));
}

void test_an_open_heartbeat_stops_no_other_one(void)
{
    kit_do(a,
           "INSERT INTO pgwork.heartbeat VALUES ('reaper', 'gone', 1, now() - interval '2 days')");
    kit_do(a, "BEGIN");
    kit_do(a, "SELECT pgwork.heartbeat('reaper', 'a')");
    kit_do(b, "SET statement_timeout = '20s'");
    kit_do(b, "SELECT pgwork.heartbeat('reaper', 'b')");
    kit_do(a, "COMMIT");
    TEST_ASSERT_EQUAL_STRING(
        "a b", kit_text(a, "SELECT string_agg(name, ' ' ORDER BY name) FROM pgwork.heartbeats"));
}

void test_a_reaper_pauses_while_what_is_due_is_locked(void)
{
    const long long id = put("'q', '{}', delay_ms => 60000");

    kit_due(a, "q");
    kit_do(a, "BEGIN");
    kit_do(a, "SELECT * FROM pgwork.cancel('q', ARRAY[%lld])", id);
    TEST_ASSERT_GREATER_THAN_INT64(49, kit_number(b, "SELECT next_ms FROM pgwork.maintain()"));
    kit_do(a, "ROLLBACK");
    await_job("q", id);
}

/* -- gates with a rate --------------------------------------------------------------------------
 */

/* Jobs of so many groups, of which the first ones have run; the rate lets the second ones pass. */
static void groups_wait_for_their_rate(int n)
{
    kit_do(a, "SELECT pgwork.group_rate('q', NULL, 1, 1000)");
    kit_do(
        a,
        "SELECT count(*) FROM pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[%d]), grps =>"
        " ARRAY(SELECT 'g' || i %% %d FROM generate_series(0, %d) i))",
        2 * n, n, 2 * n - 1);
    for (int got = 0, more; got < n; got += more) {
        more = kit_claim(a, "q", n - got, jobs);
        TEST_ASSERT_GREATER_THAN_INT(0, more);
        for (int i = 0; i < more; i++)
            TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &jobs[i], ""));
    }
    for (int i = 0; i < 3; i++) { /* on a slow machine some are ready after this */
        put("'r', '{}'");
        full_pass();
    }
    kit_sleep_ms(1100);
}

static void await_jobs(int n)
{
    int got = 0;

    for (long long end = kit_ms() + 20000; got < n && kit_ms() < end; kit_sleep_ms(10)) {
        full_pass();
        put("'r', '{}'"); /* so that the marks move */
        got += kit_claim(b, "q", 10, jobs);
    }
    TEST_ASSERT_EQUAL_INT(n, got);
}

void test_groups_whose_time_has_come_do_not_wait_for_an_open_claim_of_others(void)
{
    groups_wait_for_their_rate(220);
    kit_do(a, "BEGIN");
    const int open = (int)kit_number(a, "SELECT count(*) FROM pgwork.claim('{q}', 190, 'a')");
    await_jobs(220 - open);
    kit_do(a, "ROLLBACK");
}

void test_groups_whose_first_job_is_locked_delay_no_others(void)
{
    groups_wait_for_their_rate(60);
    kit_do(a, "BEGIN");
    kit_do(a, "SELECT pgwork.group_purge('q', 'g' || i) FROM generate_series(0, 39) i");
    await_jobs(20);
    kit_do(a, "ROLLBACK");
    await_jobs(40);
}

/* -- a bad job ----------------------------------------------------------------------------------
 */

void test_a_gated_job_that_cannot_be_moved_stops_no_other_queue(void)
{
    refuse("INSERT", "NEW.payload = '13'");
    const long long bad = put("'q', '13', grp => 'g'");
    const long long id = put("'r', '{}', delay_ms => 1");
    await_job("r", id);
    put("'r', '{}'");
    TEST_ASSERT_EQUAL_INT64(1,
                            kit_number(b, "SELECT count(*) FROM pgwork.claim('{q,r}', 10, 'w')"));
    TEST_ASSERT_EQUAL_INT64(1, kit_number(b, "SELECT count(*) FROM pgwork.stuck_jobs"));
    refuse_no_more();
    kit_do(a, "UPDATE pgwork.stuck_job SET again_at = now()");
    await_job("q", bad);
    kit_do(a, "DELETE FROM pgwork.stuck_job");
}

void test_a_pause_that_was_begun_by_a_clock_ahead_ends(void)
{
    refuse("INSERT", "NEW.payload = '13'");
    const long long bad = put("'q', '13', delay_ms => 60000");
    kit_due(a, "q");
    full_pass();
    TEST_ASSERT_EQUAL_INT64(1, kit_number(b, "SELECT count(*) FROM pgwork.stuck_jobs"));
    refuse_no_more();
    kit_do(a, "UPDATE pgwork.stuck_job SET again_at = now() + interval '1 year'");
    await_job("q", bad);
    kit_do(a, "DELETE FROM pgwork.stuck_job");
}

void test_counts_that_would_overflow_are_refused(void)
{
    kit_refused(a, "PW001", "counts|10^15",
                "SELECT pgwork.worker_report('w', '{q}', '{0}', '{0}',"
                " array_fill(9223372036854775807, ARRAY[56]), 0, 1)");
}
