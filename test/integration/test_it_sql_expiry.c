/* Expiry: an expired job never starts, in any state. Debounce, and what a second enqueue of a
 * unique key replaces. */
#include "unity.h"
#include "pgtemp.h"
#include "sqlkit.h"

#include <stdio.h>
#include <string.h>

static PGconn *a, *b;
static struct took job, jobs[200];

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

/* The time of all jobs that have an expiry has come, without waiting. */
static void time_is_up(void)
{
    kit_do(a, "UPDATE pgwork.live_job SET expires_at = clock_timestamp() - interval '1 s'"
              " WHERE expires_at IS NOT NULL");
    kit_do(a, "UPDATE pgwork.delayed_job SET expires_at = clock_timestamp() - interval '1 s'"
              " WHERE expires_at IS NOT NULL");
    kit_do(a, "UPDATE pgwork.expiring_job SET at = clock_timestamp() - interval '1 s'");
}

static long long notes(void)
{
    return kit_number(a, "SELECT count(*) FROM pgwork.expiring_job");
}

/* -- expiry -------------------------------------------------------------------------------------
 */

void test_an_expired_job_is_never_started_even_without_a_reaper(void)
{
    static const int sizes[] = {1, 10, 200};

    for (int i = 0; i < 3; i++) {
        int n, all = 0;

        kit_do(
            a,
            "SELECT pgwork.enqueue_many('q', array_fill('1'::jsonb, '{40}'), ttls_ms => "
            "ARRAY(SELECT CASE WHEN g %% 2 = 0 THEN 3600000 END FROM generate_series(1, 40) g))");
        kit_do(a, "SELECT pgwork.enqueue('q', ttl_ms => 3600000), pgwork.enqueue('q')");
        time_is_up();
        while ((n = kit_claim(b, "q", sizes[i], jobs)) > 0) {
            for (int k = 0; k < n; k++) kit_say(b, "complete", &jobs[k], "");
            all += n;
        }
        TEST_ASSERT_EQUAL_INT(21, all);
        TEST_ASSERT_EQUAL_STRING("21 0 0 0 0", kit_places(a, "q")); /* ready until a reaper comes */
        kit_do(a, "SELECT pgwork.reap()");
        TEST_ASSERT_EQUAL_STRING("0 0 0 21 0", kit_places(a, "q"));
        kit_do(a, "SELECT pgwork.queue_purge('q', 'all')");
    }
}

void test_a_job_that_has_not_expired_runs(void)
{
    kit_do(a, "SELECT pgwork.enqueue('q', ttl_ms => 3600000),"
              " pgwork.enqueue('q', expires_at => '2100-01-01Z')");
    kit_do(a, "SELECT pgwork.reap()");
    TEST_ASSERT_EQUAL_INT(2, kit_claim(b, "q", 10, jobs));
}

void test_expired_jobs_become_dead_letters_from_wherever_they_wait(void)
{
    long long retried, quarantined;

    kit_do(a, "SELECT pgwork.queue_create('q', max_attempts => 5)");
    kit_do(a, "SELECT pgwork.enqueue('q', '\"retried\"', ttl_ms => 3600000)");
    kit_claim(b, "q", 1, &job);
    kit_say(b, "fail", &job, ", 'boom', 60000");
    retried = job.id;
    kit_do(a, "SELECT pgwork.enqueue('q', '\"quarantined\"', ttl_ms => 3600000)");
    kit_claim(b, "q", 1, &job);
    quarantined = job.id;
    kit_expire(a, "q");
    kit_do(a, "SELECT pgwork.reap()");
    kit_do(a, "SELECT pgwork.enqueue('q', '1', ttl_ms => 3600000, key => 'k'),"
              " pgwork.enqueue('q', '2', ttl_ms => 1, delay_ms => 3600000, key => 'l'),"
              " pgwork.queue_pause('q')");
    kit_do(a, "SELECT pgwork.enqueue_many('q', '{3,4}', ttls_ms => '{3600000}', priorities => "
              "'{9}')");
    TEST_ASSERT_EQUAL_STRING("4 0 2 0 0", kit_places(a, "q"));
    time_is_up();
    TEST_ASSERT_EQUAL_INT64(6, kit_number(a, "SELECT died FROM pgwork.reap()"));
    TEST_ASSERT_EQUAL_STRING("0 0 0 6 0", kit_places(a, "q"));
    TEST_ASSERT_EQUAL_INT64(4, kit_number(a, "SELECT count(*) FROM pgwork.dead_job WHERE error ="
                                             " 'expired' AND attempt = 0"));
    TEST_ASSERT_EQUAL_STRING("expired; last error: boom 1",
                             kit_text(a,
                                      "SELECT error || ' ' || attempt FROM pgwork.dead_job"
                                      " WHERE id = %lld",
                                      retried));
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a,
                                          "SELECT attempt FROM pgwork.dead_job"
                                          " WHERE id = %lld AND error LIKE 'expired; %%'",
                                          quarantined));
    TEST_ASSERT_EQUAL_INT64(0, notes());
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT count(*) FROM pgwork.unique_key"));
}

void test_a_running_job_ends_as_its_handler_says_but_is_not_started_again(void)
{
    static const char *const fails[] = {", 'boom', 0", ", 'boom', 60000"};

    for (int i = 0; i < 2; i++) {
        kit_do(a, "SELECT pgwork.enqueue_many('q', '{1,2}', ttls_ms => '{3600000}')");
        TEST_ASSERT_EQUAL_INT(2, kit_claim(b, "q", 2, jobs));
        time_is_up();
        TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT died FROM pgwork.reap()"));
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(b, "extend", &jobs[0], ""));
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(b, "complete", &jobs[0], ""));
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(b, "fail", &jobs[1], fails[i]));
        TEST_ASSERT_EQUAL_INT(0, kit_claim(b, "q", 2, jobs));
        time_is_up(); /* the reaper looks again after some seconds */
        TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT died FROM pgwork.reap()"));
        TEST_ASSERT_EQUAL_INT64(0, notes());
        kit_do(a, "SELECT pgwork.queue_purge('q', 'all')");
    }
}

void test_a_queue_that_drops_expired_jobs_keeps_nothing_but_the_operation_id(void)
{
    static const char put[] = "SELECT outcome FROM pgwork.enqueue('q', ttl_ms => 3600000, key =>"
                              " 'k', op => '6b1f0e0a-9f3c-4a57-8a5e-111111111111')";

    kit_do(a, "SELECT pgwork.queue_create('q', expired => 'drop', retention_ms => 3600000)");
    TEST_ASSERT_EQUAL_STRING("new", kit_text(a, put));
    time_is_up();
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT died FROM pgwork.reap()"));
    TEST_ASSERT_EQUAL_STRING("0 0 0 0 0", kit_places(a, "q"));
    TEST_ASSERT_EQUAL_STRING("repeated", kit_text(a, put));
    TEST_ASSERT_EQUAL_STRING("new",
                             kit_text(a, "SELECT outcome FROM pgwork.enqueue('q', key => 'k')"));
    TEST_ASSERT_EQUAL_STRING("drop", kit_text(a, "SELECT expired FROM pgwork.queue_list('q')"));
    kit_do(a, "SELECT pgwork.queue_set('q', lease_ms => 1000)"); /* leaves it as it is */
    TEST_ASSERT_EQUAL_STRING("drop", kit_text(a, "SELECT expired FROM pgwork.queues"));
    kit_refused(a, "PW001", "expired|\"x\"|dead or drop",
                "SELECT pgwork.queue_set('q', expired => 'x')");
}

void test_a_time_to_live_begins_when_the_job_becomes_ready(void)
{
    kit_do(a, "SELECT pgwork.enqueue('q', ttl_ms => 10000),"
              " pgwork.enqueue('q', ttl_ms => 10000, run_at => '2030-01-01Z')");
    kit_do(a, "SELECT pgwork.enqueue_many('q', '{1,2}', ttls_ms => '{10000,NULL}', delays_ms => "
              "'{5000}')");
    TEST_ASSERT_EQUAL_STRING("10 t 15 -",
                             kit_text(a, "SELECT string_agg(s, ' ' ORDER BY id) FROM (SELECT id,"
                                         " CASE WHEN expires_at IS NULL THEN '-'"
                                         " WHEN expires_at = '2030-01-01 00:00:10Z' THEN 't' ELSE"
                                         " round(extract(epoch FROM expires_at - created_at))::text"
                                         " END AS s FROM pgwork.job) j"));
}

void test_a_wrong_time_to_live_is_refused(void)
{
    kit_refused(a, "PW001", "ttl_ms|\"0\"|1..315360000000",
                "SELECT pgwork.enqueue('q', ttl_ms => 0)");
    kit_refused(a, "PW001", "ttl_ms|\"-1\"", "SELECT pgwork.enqueue('q', ttl_ms => -1)");
    kit_refused(a, "PW001", "ttl_ms|\"315360000001\"",
                "SELECT pgwork.enqueue('q', ttl_ms => 315360000001)");
    kit_refused(a, "PW001", "ttl_ms|together with expires_at",
                "SELECT pgwork.enqueue('q', ttl_ms => 1, expires_at => '2100-01-01Z')");
    kit_refused(a, "PW001", "ttl_ms|\"0\"|element 2",
                "SELECT pgwork.enqueue_many('q', '{1,2}', ttls_ms => '{1,0}')");
    kit_refused(a, "PW001", "ttls_ms|3 elements",
                "SELECT pgwork.enqueue_many('q', '{1,2}', ttls_ms => '{1,2,3}')");
    kit_refused(a, "PW001", "ttl_ms|\"0\"",
                "SELECT pgwork.cron_create('s', '@daily', queue => 'q', ttl_ms => 0)");
}

void test_a_note_of_an_expiry_does_not_outlive_its_job(void)
{
    kit_do(a, "SELECT pgwork.enqueue_many('q', '{1,2,3}', ttls_ms => '{3600000}')");
    kit_do(a, "SELECT pgwork.enqueue('gone', ttl_ms => 3600000)");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 1, &job));
    kit_say(b, "complete", &job, "");
    TEST_ASSERT_EQUAL_INT64(4, notes());
    kit_do(a, "SELECT pgwork.queue_purge('gone'), pgwork.queue_drop('gone')");
    TEST_ASSERT_EQUAL_INT64(3, notes());
    kit_do(a, "UPDATE pgwork.expiring_job SET at = clock_timestamp() WHERE id = %lld", job.id);
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT died FROM pgwork.reap('q')"));
    TEST_ASSERT_EQUAL_INT64(2, notes());
    kit_do(a, "BEGIN");
    kit_do(a, "SELECT pgwork.enqueue('q', ttl_ms => 3600000)");
    kit_do(a, "ROLLBACK");
    TEST_ASSERT_EQUAL_INT64(2, notes());
}

void test_a_redriven_job_runs_although_its_time_is_over(void)
{
    kit_do(a, "SELECT pgwork.enqueue_many('q', '{1,2}', ttls_ms => '{3600000}')");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 1, &job));
    kit_say(b, "fail", &job, ", 'boom', 0, true");
    kit_do(a, "SELECT pgwork.redrive('q')"); /* in time: it still expires */
    TEST_ASSERT_EQUAL_INT64(2, kit_number(a, "SELECT count(expires_at) FROM pgwork.job"));
    time_is_up();
    TEST_ASSERT_EQUAL_INT64(2, kit_number(a, "SELECT died FROM pgwork.reap()"));
    TEST_ASSERT_EQUAL_INT64(2, kit_number(a, "SELECT pgwork.redrive('q')"));
    kit_do(a, "SELECT pgwork.reap()");
    TEST_ASSERT_EQUAL_INT(2, kit_claim(b, "q", 9, jobs));
}

void test_the_sweep_waits_for_nobody(void)
{
    kit_do(a, "SELECT pgwork.enqueue('q', '1', ttl_ms => 3600000, key => 'k'),"
              " pgwork.enqueue('q', '1', ttl_ms => 3600000, delay_ms => 60000, key => 'l'),"
              " pgwork.enqueue('q', '1', ttl_ms => 3600000)");
    time_is_up();
    kit_do(b, "BEGIN");
    kit_do(b, "SELECT pgwork.enqueue('q', '2', key => 'k', key_policy => 'replace'),"
              " pgwork.enqueue('q', '2', key => 'l', key_policy => 'replace')");
    kit_do(a, "SET lock_timeout = '3s'");
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT died FROM pgwork.reap()"));
    kit_do(b, "COMMIT");
    time_is_up();
    TEST_ASSERT_EQUAL_INT64(2, kit_number(a, "SELECT died FROM pgwork.reap()"));
    TEST_ASSERT_EQUAL_INT64(2, kit_number(a, "SELECT count(*) FROM pgwork.dead_job WHERE payload ="
                                             " '2'"));
}

void test_a_job_that_cannot_be_moved_keeps_no_other_from_expiring(void)
{
    kit_do(a, "CREATE FUNCTION public.no() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF"
              " new.payload = ''13'' THEN RAISE EXCEPTION ''no''; END IF; RETURN new; END'");
    kit_do(a, "CREATE TRIGGER no BEFORE INSERT ON pgwork.dead_job FOR EACH ROW EXECUTE FUNCTION"
              " public.no()");
    kit_do(a, "SELECT pgwork.enqueue('q', g::text::jsonb, ttl_ms => 3600000) FROM"
              " generate_series(1, 20) g");
    time_is_up();
    TEST_ASSERT_EQUAL_INT64(19, kit_number(a, "SELECT died FROM pgwork.reap()"));
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT count(*) FROM pgwork.stuck_jobs"));
    TEST_ASSERT_EQUAL_INT64(1, notes());
    kit_do(a, "DROP FUNCTION public.no CASCADE");
    time_is_up();
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT died FROM pgwork.reap()"));
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT count(*) FROM pgwork.stuck_jobs"));
}

void test_maintain_takes_expired_jobs_away(void)
{
    kit_do(a, "SELECT pgwork.enqueue_many('q', array_fill('1'::jsonb, '{30}'), ttls_ms => "
              "'{3600000}')");
    kit_do(a, "SELECT pgwork.queue_pause('q')");
    time_is_up();
    for (long long end = kit_ms() + 10000; kit_ms() < end;) {
        kit_do(a, "SELECT pgwork.maintain(7)");
        if (strcmp("0 0 0 30 0", kit_places(a, "q")) == 0) break;
        kit_sleep_ms(20);
    }
    TEST_ASSERT_EQUAL_STRING("0 0 0 30 0", kit_places(a, "q"));
}

void test_jobs_of_a_schedule_expire(void)
{
    kit_do(a, "SELECT pgwork.cron_create('s', '@daily', queue => 'q', ttl_ms => 3600000)");
    kit_do(a, "SELECT pgwork.cron_run('s')");
    TEST_ASSERT_EQUAL_INT64(
        3600, kit_number(a, "SELECT round(extract(epoch FROM expires_at - created_at)) FROM"
                            " pgwork.job"));
    time_is_up();
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT died FROM pgwork.reap()"));
}

enum { RACED = 300 };

static void claim_and_sweep(PGconn *conn, int i, void *ctx)
{
    int *started = ctx;
    struct took mine[10];

    for (int k = 0; k < 40; k++) {
        if (i % 2) {
            kit_do(conn, "SELECT pgwork.reap(batch => 20)");
        } else {
            const int n = kit_claim(conn, "race", 10, mine);

            for (int m = 0; m < n; m++) {
                kit_say(conn, m % 2 ? "complete" : "release", &mine[m], "");
                if (m % 2) __atomic_add_fetch(started, 1, __ATOMIC_SEQ_CST);
            }
        }
    }
}

void test_claims_and_sweeps_that_race_lose_no_job_and_start_none_twice(void)
{
    int done = 0;

    kit_do(a,
           "SELECT pgwork.enqueue('race', ttl_ms => 1 + g %% 7 * 100) FROM generate_series(1, %d)"
           " g",
           RACED);
    kit_race(6, claim_and_sweep, &done);
    time_is_up();
    kit_do(a, "SELECT pgwork.reap()");
    TEST_ASSERT_EQUAL_INT64(RACED - done, kit_number(a, "SELECT dead FROM pgwork.depth('race')"));
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT ready + leased FROM pgwork.depth('race')"));
    TEST_ASSERT_EQUAL_INT64(0, notes());
}

/* -- what replace replaces ----------------------------------------------------------------------
 */

static const char *replaced(const char *what, const char *more)
{
    return kit_text(a,
                    "SELECT outcome FROM pgwork.enqueue('q', '2', key => 'k', key_policy => "
                    "'replace', key_replace => %s%s)",
                    what, more);
}

static const char *waiting(void)
{
    return kit_text(a,
                    "SELECT concat_ws(' ', state, payload, nullif(kind, ''), priority,"
                    " trunc(extract(epoch FROM run_at - created_at) + 1, -1)," /* tens of seconds */
                    " round(extract(epoch FROM expires_at - created_at))) FROM pgwork.job"
                    " WHERE key = 'k'");
}

void test_replace_replaces_what_is_named_and_nothing_else(void)
{
    static const char more[] = ", kind => 'x', priority => 3, delay_ms => 60000, ttl_ms => 9000";
    static const char *const cases[][3] = {
        {"NULL", "ready 2 0", "delayed 2 0 100"},
        {"'{payload}'", "ready 2 0", "delayed 2 0 100"},
        {"'{}'", "ready 1 0", "delayed 1 0 100"},
        {"'{kind}'", "ready 1 x 0", "delayed 1 x 0 100"},
        {"'{priority}'", "ready 1 3", "delayed 1 3 100"},
        {"'{time}'", "delayed 1 0 60 69", "delayed 1 0 60 69"},
        {"'{payload,kind,priority,time}'", "delayed 2 x 3 60 69", "delayed 2 x 3 60 69"}};

    for (int i = 0; i < 14; i++) {
        kit_do(a, "SELECT pgwork.enqueue('q', '1', key => 'k', delay_ms => %d)", i % 2 * 100000);
        TEST_ASSERT_EQUAL_STRING("replaced", replaced(cases[i / 2][0], more));
        TEST_ASSERT_EQUAL_STRING(cases[i / 2][1 + i % 2], waiting());
        kit_do(a, "SELECT pgwork.queue_purge('q', 'all')");
    }
    kit_refused(a, "PW001", "key_replace|{x}|payload, kind, priority and time",
                "SELECT pgwork.enqueue('q', key => 'k', key_replace => '{x}')");
}

void test_replace_can_make_a_delayed_job_ready_and_lift_its_expiry(void)
{
    kit_do(a, "SELECT pgwork.enqueue('q', '1', key => 'k', delay_ms => 60000, ttl_ms => 1)");
    TEST_ASSERT_EQUAL_STRING("replaced", replaced("'{time}'", ""));
    TEST_ASSERT_EQUAL_STRING("ready 1 0", waiting());
    kit_do(a, "UPDATE pgwork.expiring_job SET at = clock_timestamp()");
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT died FROM pgwork.reap()"));
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 1, &job));
}

void test_a_job_of_another_priority_is_claimed_in_that_order(void)
{
    kit_do(a, "SELECT pgwork.enqueue('q', '1', key => 'k', priority => 5),"
              " pgwork.enqueue('q', '1', priority => 2)");
    TEST_ASSERT_EQUAL_STRING("replaced", replaced("'{priority}'", ", priority => 1"));
    TEST_ASSERT_EQUAL_INT(2, kit_claim(b, "q", 2, jobs));
    TEST_ASSERT_EQUAL_INT(1, jobs[0].priority);
    TEST_ASSERT_EQUAL_INT(2, jobs[1].priority);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(b, "complete", &jobs[0], ""));
}

/* -- debounce -----------------------------------------------------------------------------------
 */

static const char *const debounce = "SELECT outcome FROM pgwork.enqueue('q', '%d', key => 'k',"
                                    " key_policy => 'delay', delay_ms => 60000,"
                                    " key_period_ms => 100000)";

static const char *say(PGconn *conn, int payload)
{
    char text[200];

    snprintf(text, sizeof(text), debounce, payload);
    return kit_text(conn, "%s", text);
}

/* The job is so much older. */
static void ages(int seconds)
{
    kit_do(a,
           "UPDATE pgwork.delayed_job SET created_at = created_at - interval '%d s', run_at ="
           " run_at - interval '%d s'",
           seconds, seconds);
}

void test_each_enqueue_puts_the_job_off_up_to_its_latest_time(void)
{
    TEST_ASSERT_EQUAL_STRING("new", say(a, 1));
    TEST_ASSERT_EQUAL_STRING("delayed 1 0 60", waiting());
    ages(30);
    TEST_ASSERT_EQUAL_STRING("replaced", say(a, 2));
    TEST_ASSERT_EQUAL_STRING("delayed 2 0 90", waiting());
    ages(30);
    TEST_ASSERT_EQUAL_STRING("replaced", say(a, 3));
    TEST_ASSERT_EQUAL_STRING("delayed 3 0 100", waiting());
    ages(50); /* the latest time is over: it runs at once, with the last payload */
    TEST_ASSERT_EQUAL_STRING("replaced", say(a, 4));
    TEST_ASSERT_EQUAL_STRING("ready 4 0", waiting());
    TEST_ASSERT_EQUAL_STRING("replaced", say(a, 5));
    TEST_ASSERT_EQUAL_STRING("ready 5 0", waiting());
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 2, jobs));
}

void test_a_job_that_is_ready_but_not_claimed_is_put_off_again(void)
{
    say(a, 1);
    kit_do(a, "UPDATE pgwork.delayed_job SET run_at = clock_timestamp()");
    kit_do(a, "SELECT pgwork.promote()");
    TEST_ASSERT_EQUAL_STRING("ready 1 0", waiting());
    TEST_ASSERT_EQUAL_STRING("replaced", say(a, 2));
    TEST_ASSERT_EQUAL_STRING("delayed 2 0 60", waiting());
    TEST_ASSERT_EQUAL_INT(0, kit_claim(b, "q", 1, &job));
}

void test_an_event_while_the_job_runs_makes_another_job(void)
{
    say(a, 1);
    kit_due(a, "q");
    kit_do(a, "SELECT pgwork.promote()");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 1, &job));
    TEST_ASSERT_EQUAL_STRING("new", say(a, 2));
    TEST_ASSERT_EQUAL_STRING("replaced", say(a, 3));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(b, "complete", &job, ""));
    TEST_ASSERT_EQUAL_STRING("replaced", say(a, 4)); /* the other one has the key */
    TEST_ASSERT_EQUAL_STRING("0 0 1 0 0", kit_places(a, "q"));
    TEST_ASSERT_EQUAL_STRING("delayed 4 0 60", waiting());
}

void test_a_rolled_back_producer_changes_nothing(void)
{
    PGconn *producer = kit_open();

    say(a, 1);
    kit_do(b, "BEGIN");
    TEST_ASSERT_EQUAL_STRING("replaced", say(b, 2));
    kit_send(producer, debounce, 3);
    kit_blocked(producer, a);
    kit_do(b, "ROLLBACK");
    TEST_ASSERT_EQUAL_STRING("replaced", kit_answer(producer));
    TEST_ASSERT_EQUAL_STRING("delayed 3 0 60", waiting());
    kit_do(b, "BEGIN");
    say(b, 4);
    kit_do(b, "ROLLBACK");
    TEST_ASSERT_EQUAL_STRING("delayed 3 0 60", waiting());

    kit_do(a, "SELECT pgwork.queue_purge('q', 'all')");
    kit_do(b, "BEGIN");
    TEST_ASSERT_EQUAL_STRING("new", say(b, 5));
    kit_send(producer, debounce, 6);
    kit_blocked(producer, a);
    kit_do(b, "ROLLBACK");
    TEST_ASSERT_EQUAL_STRING("new", kit_answer(producer));
    TEST_ASSERT_EQUAL_STRING("delayed 6 0 60", waiting());
}

struct bounced {
    int fresh, other;
};

static void produce(PGconn *conn, int i, void *ctx)
{
    struct bounced *all = ctx;

    for (int k = 0; k < 30; k++) {
        const char *outcome;

        if (i == 0) { /* the job becomes ready, and is claimed, in between */
            kit_do(conn, "UPDATE pgwork.delayed_job SET run_at = clock_timestamp()");
            kit_do(conn, "SELECT pgwork.promote()");
            if (k % 3 == 0 && kit_claim(conn, "q", 1, &job)) kit_say(conn, "complete", &job, "");
            continue;
        }
        outcome = say(conn, 100 * i + k);
        if (strcmp(outcome, "new") == 0)
            __atomic_add_fetch(&all->fresh, 1, __ATOMIC_SEQ_CST);
        else if (strcmp(outcome, "replaced") == 0)
            __atomic_add_fetch(&all->other, 1, __ATOMIC_SEQ_CST);
    }
}

void test_racing_producers_of_a_debounced_key_lose_no_event(void)
{
    struct bounced all = {0, 0};

    kit_do(a, "SELECT pgwork.queue_create('q', retention_ms => 3600000)");
    kit_race(6, produce, &all);
    TEST_ASSERT_EQUAL_INT(150, all.fresh + all.other); /* none "exists": that is not heard */
    TEST_ASSERT_EQUAL_INT64(all.fresh,
                            kit_number(a, "SELECT ready + delayed + done FROM pgwork.depth('q')"));
    TEST_ASSERT_TRUE(kit_number(a, "SELECT ready + delayed FROM pgwork.depth('q')") <= 1);
}

void test_two_batches_with_the_same_debounced_keys_do_not_deadlock(void)
{
    PGconn *other = kit_open();
    static const char batch[] =
        "SELECT string_agg(outcome, ' ') FROM pgwork.enqueue_many('q', '{1,2}', keys => '{%s}',"
        " key_policy => 'delay', delays_ms => '{60000}', key_period_ms => 100000)";

    TEST_ASSERT_EQUAL_STRING("new new", kit_text(a, batch, "k,l"));
    kit_do(b, "BEGIN");
    TEST_ASSERT_EQUAL_STRING("replaced replaced", kit_text(b, batch, "l,k"));
    kit_send(other, batch, "k,l");
    kit_blocked(other, a);
    kit_do(b, "COMMIT");
    TEST_ASSERT_EQUAL_STRING("replaced replaced", kit_answer(other));
    TEST_ASSERT_EQUAL_STRING("0 0 2 0 0", kit_places(a, "q"));
}

void test_a_wrong_debounce_is_refused(void)
{
#define DEBOUNCE "SELECT pgwork.enqueue('q', key => 'k', key_policy => 'delay'"
    kit_refused(a, "PW001", "key_period_ms|NULL|1..31536000000", DEBOUNCE ", delay_ms => 1000)");
    kit_refused(a, "PW001", "key_period_ms|\"0\"", DEBOUNCE ", delay_ms => 1, key_period_ms => 0)");
    kit_refused(a, "PW001", "delay_ms|NULL|key_policy delay", DEBOUNCE ", key_period_ms => 1000)");
    kit_refused(a, "PW001", "delay_ms|over 1000|1..key_period_ms",
                DEBOUNCE ", delay_ms => 60000, key_period_ms => 1000)");
    kit_refused(a, "PW001", "key_scope|\"period\"|ready with key_policy delay",
                DEBOUNCE ", delay_ms => 1, key_period_ms => 1000, key_scope => 'period')");
    kit_refused(a, "PW001", "delay_ms|element 2",
                "SELECT pgwork.enqueue_many('q', '{1,2}', keys => '{k,l}', key_policy => 'delay',"
                " delays_ms => '{1,NULL}', key_period_ms => 1000)");
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT count(*) FROM pgwork.unique_key"));
}
