/* Sessions do not block each other: open transactions, dead workers, jobs that kill workers, and
 * remembered hints. */
#include "unity.h"
#include "pgtemp.h"
#include "sqlkit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static PGconn *a, *b, *c;
static struct took jobs[10000];

void setUp(void)
{
    kit_begin();
    a = kit_open();
    b = kit_open();
    c = kit_open();
    kit_do(a, "SELECT pgwork.setting('low_water_marks', 'on');"
              "SELECT pgwork.queue_create('q', lease_ms => 3600000, max_attempts => 3)");
}

void tearDown(void)
{
    kit_end();
}

static void ticks(int n)
{
    while (n-- > 0) kit_do(a, "SELECT pgwork.maintain()");
}

static void fill(int n)
{
    kit_do(a, "SELECT count(*) FROM pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[%d]))",
           n);
}

/* -- strangers ----------------------------------------------------------------------------------
 */

/* Any role that may connect can take the advisory locks. */
void test_no_call_waits_long_for_an_advisory_lock_of_a_stranger(void)
{
    static const struct {
        const char *state, *call;
    } calls[] = {{"", "enqueue('q')"},
                 {"", "enqueue('q', key => 'k', key_policy => 'replace')"},
                 {"", "enqueue_many('q', '{1,2}', keys => '{k,l}', key_policy => 'replace')"},
                 {"", "claim('{q}', 1, 'x')"},
                 {"", "claim('{q}', 100, 'x')"},
                 {"", "maintain()"},
                 {"", "queue_resume('q')"},
                 {"55P03", "idle('{q}')"},
                 {"PW006", "sema_acquire('s')"},
                 {"PW006", "sema_acquire('t')"},
                 {"", "sema_acquire('u')"}};
    char dsn[1200];
    PGconn *stranger;

    kit_do(a, "DROP ROLE IF EXISTS pgw_it_stranger; CREATE ROLE pgw_it_stranger LOGIN;"
              "SELECT pgwork.sema_create(s, 1) FROM unnest('{s,t,u}'::text[]) s");
    snprintf(dsn, sizeof(dsn), "%s user=pgw_it_stranger", pgtemp_dsn());
    stranger = PQconnectdb(dsn);
    kit_do(a, "CREATE TABLE public.stranger_keys (k) AS SELECT pgwork._waiters('q', w) FROM "
              "generate_series(0, 767) w UNION ALL SELECT pgwork._lock('tick', 0)"
              " UNION ALL SELECT pgwork._lock('replace', id) FROM pgwork.queue"
              " UNION ALL SELECT pgwork._lock(CASE name WHEN 's' THEN 'sema.gate' ELSE "
              "'sema.past' END, id) FROM pgwork.semaphore WHERE name <> 'u';"
              "GRANT SELECT ON public.stranger_keys TO pgw_it_stranger");
    kit_do(stranger, "SELECT pg_advisory_lock(k) FROM public.stranger_keys");
    kit_do(b, "SET statement_timeout = '30s'");
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        TEST_ASSERT_EQUAL_STRING_MESSAGE(
            calls[i].state, kit_state(b, "SELECT count(*) FROM pgwork.%s", calls[i].call),
            calls[i].call);
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a,
                                          "SELECT count(*) FROM pg_locks WHERE locktype = "
                                          "'advisory' AND pid = %d",
                                          PQbackendPID(b)));
    kit_do(stranger, "SELECT pg_advisory_unlock_all()");
    kit_do(a, "SELECT pg_terminate_backend(%d, 10000)", PQbackendPID(stranger));
    PQfinish(stranger);
    kit_do(a, "SELECT pgwork.sema_drop(s, true) FROM unnest('{s,t,u}'::text[]) s;"
              "DROP TABLE public.stranger_keys; DROP ROLE pgw_it_stranger");
}

/* -- open transactions ------------------------------------------------------------------------- */

static void nobody_waits(void)
{
    static const char *const calls[] = {"queue_pause('q')",
                                        "queue_resume('q')",
                                        "queue_drain('q')",
                                        "queue_resume('q')",
                                        "queue_set('q', 3600000)",
                                        "setting('op_retention_ms', '86400000')",
                                        "reap()",
                                        "reap('q')",
                                        "maintain()",
                                        "promote()",
                                        "prune()",
                                        "enqueue('q', priority => 7)",
                                        "claim('{q}', 100, 'x')",
                                        "enqueue('q', priority => 6)",
                                        "enqueue_many('q', '{1,2}')",
                                        "depth('q')",
                                        "queue_purge('q', 'all')"};

    kit_do(b, "SET lock_timeout = '2s'");
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        TEST_ASSERT_EQUAL_STRING_MESSAGE(
            "", kit_state(b, "SELECT count(*) FROM pgwork.%s", calls[i]), calls[i]);
}

void test_an_open_first_enqueue_of_a_priority_delays_nobody(void)
{
    kit_do(c, "BEGIN; SELECT pgwork.enqueue('q', priority => 7)");
    nobody_waits();
    kit_do(c, "SELECT count(*) FROM pgwork.enqueue_many('q', '{1,2}', priorities => '{6}')");
    nobody_waits();
    kit_do(c, "COMMIT");
    ticks(2);
    TEST_ASSERT_EQUAL_INT(3, kit_claim(b, "q", 10, jobs));
}

void test_an_open_claim_delays_nobody(void)
{
    fill(300);
    kit_do(c, "BEGIN");
    TEST_ASSERT_EQUAL_INT(50, kit_claim(c, "q", 50, jobs));
    nobody_waits();
    kit_do(c, "ROLLBACK");
}

void test_an_open_tick_delays_nobody(void)
{
    fill(300);
    kit_do(c, "BEGIN; SELECT pgwork.maintain()");
    nobody_waits();
    kit_do(c, "COMMIT");
}

/* -- dead workers ------------------------------------------------------------------------------ */

static void reap_all(int n)
{
    kit_expire(a, "q");
    while (n > 0) {
        int got = (int)kit_number(a, "SELECT returned + died FROM pgwork.reap('q')");

        TEST_ASSERT_GREATER_THAN_INT(0, got);
        n -= got;
    }
    TEST_ASSERT_EQUAL_INT(0, n);
}

void test_five_thousand_jobs_of_a_dead_worker_come_back_and_hold_up_nobody(void)
{
    enum { HELD = 5000, OTHERS = 2000 };
    int claims = 0, others = 0, again = 0;

    fill(HELD);
    while (again < HELD) again += kit_claim(c, "q", 1000, jobs);
    kit_close(c);
    reap_all(HELD);
    kit_do(a, "SELECT count(*) FROM pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[%d]))",
           OTHERS);
    for (again = 0; others < OTHERS; claims++) {
        int got = kit_claim(b, "q", 10, jobs);

        TEST_ASSERT_GREATER_THAN_INT(0, got);
        if (jobs[0].attempt > 1)
            again += got;
        else
            others += got;
        TEST_ASSERT_EQUAL_INT_MESSAGE(jobs[0].attempt > 1 ? 1 : got, got,
                                      "a job of the dead worker has company");
    }
    TEST_ASSERT_LESS_OR_EQUAL_INT(2 * OTHERS / 10, claims);
    while (again < HELD) {
        TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 10, jobs));
        TEST_ASSERT_EQUAL_INT(2, jobs[0].attempt);
        again++;
    }
    TEST_ASSERT_EQUAL_INT(0, kit_claim(b, "q", 10, jobs));
}

/* Of what was claimed: all completed, or, with the killer among them, the worker dies. */
static int work_or_die(int n)
{
    int killers = 0;

    for (int i = 0; i < n; i++)
        if (kit_number(
                b, "SELECT count(*) FROM pgwork.job_list('q', id => %lld) WHERE kind = 'killer'",
                jobs[i].id) > 0)
            killers++;
    if (killers) {
        reap_all(n);
        return killers;
    }
    for (int i = 0; i < n; i++)
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(b, "complete", jobs + i, ""));
    return 0;
}

void test_a_job_that_kills_its_holders_dies_after_its_attempts_and_alone(void)
{
    static const int sizes[] = {1, 7, 100};

    for (int i = 0; i < 3; i++) {
        int deaths = 0, got;

        kit_do(a,
               "SELECT count(*) FROM pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[100]),"
               " array_fill('good'::text, ARRAY[49]) || '{killer}' || array_fill('good'::text, "
               "ARRAY[50]))");
        while ((got = kit_claim(b, "q", sizes[i], jobs)) > 0) deaths += work_or_die(got);
        TEST_ASSERT_EQUAL_INT(3, deaths);
        TEST_ASSERT_EQUAL_STRING(
            "killer 3", kit_text(a, "SELECT string_agg(kind || ' ' || attempt, ',') FROM pgwork.job"
                                    " WHERE queue = 'q'"));
        kit_do(a, "SELECT pgwork.queue_purge('q', 'all')");
    }
}

/* -- releases ---------------------------------------------------------------------------------- */

void test_a_worker_that_releases_what_it_claims_meets_all_jobs(void)
{
    long long least;
    bool met[100] = {false};
    int count = 0;

    fill(100);
    least = kit_number(a, "SELECT min(id) FROM pgwork.job");
    for (int i = 0; i < 10; i++) {
        int got = kit_claim(b, "q", 10, jobs);

        TEST_ASSERT_EQUAL_INT(10, got);
        for (int k = 0; k < got; k++) {
            count += !met[jobs[k].id - least];
            met[jobs[k].id - least] = true;
            TEST_ASSERT_EQUAL_STRING("ok", kit_say(b, "release", jobs + k, ""));
        }
    }
    TEST_ASSERT_EQUAL_INT(100, count);
}

void test_jobs_that_fail_at_once_starve_no_others(void)
{
    fill(50);
    for (int i = 0; i < 100; i++) {
        TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 1, jobs));
        TEST_ASSERT_EQUAL_INT(1 + i / 50, jobs[0].attempt);
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(b, "fail", jobs, ", 'again', 0"));
    }
}

/* -- sessions ---------------------------------------------------------------------------------- */

static long long locks_of(PGconn *conn)
{
    return kit_number(a, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = %d",
                      PQbackendPID(conn));
}

void test_a_waiter_leaves_no_lock_when_its_queue_is_created_again(void)
{
    kit_do(b, "SELECT pgwork.idle('{q,r}', 17)");
    TEST_ASSERT_GREATER_THAN_INT64(0, locks_of(b));
    kit_do(a, "SELECT pgwork.queue_drop('q', true); SELECT pgwork.queue_create('q'); SELECT "
              "pgwork.queue_create('r')");
    kit_do(b, "SELECT pgwork.awake('{q,r}', 17)");
    TEST_ASSERT_EQUAL_INT64(0, locks_of(b));
}

void test_calls_leave_no_lock_of_the_session(void)
{
    kit_do(b, "SELECT pgwork.idle('{q}')");
    fill(10);
    kit_put(c, "q");
    TEST_ASSERT_EQUAL_INT(11, kit_claim(c, "q", 11, jobs));
    kit_expire(a, "q");
    kit_do(c, "SELECT pgwork.reap(); SELECT pgwork.maintain(); SELECT pgwork.queue_resume('q')");
    TEST_ASSERT_EQUAL_INT64(0, locks_of(c));
}

void test_an_idle_claim_takes_no_transaction_id_and_writes_nothing(void)
{
    fill(10);
    kit_claim(b, "q", 100, jobs);
    ticks(3);
    kit_do(b, "BEGIN");
    TEST_ASSERT_EQUAL_INT(0, kit_claim(b, "q", 100, jobs));
    TEST_ASSERT_EQUAL_INT(0, kit_claim(b, "q", 1, jobs));
    TEST_ASSERT_NULL(kit_text(b, "SELECT pg_current_xact_id_if_assigned()"));
    kit_do(b, "COMMIT");
    for (int k = 0; k < 2; k++) /* the first may prune what the jobs before have left */
        kit_do(b, "SELECT * FROM pgwork.claim('{q}', 10, 'w')");
    TEST_ASSERT_NOT_NULL(strstr(kit_text(b, "EXPLAIN (ANALYZE, WAL, FORMAT JSON)"
                                            " SELECT * FROM pgwork.claim('{q}', 10, 'w')"),
                                "\"WAL Records\": 0,"));
}

/* -- rows that no claim can return ------------------------------------------------------------- */

static void refuse_leases(const char *when)
{
    kit_do(a, "CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS"
              " 'BEGIN RAISE EXCEPTION $$no$$; END'");
    kit_do(a,
           "CREATE TRIGGER refuse BEFORE UPDATE ON pgwork.live_job FOR EACH ROW"
           " WHEN (NEW.token IS NOT NULL AND %s) EXECUTE FUNCTION public.refuse()",
           when);
}

static void refuse_no_more(void)
{
    kit_do(a, "DROP FUNCTION public.refuse() CASCADE");
}

void test_a_job_that_no_claim_can_return_is_set_aside_and_requeued(void)
{
    fill(3);
    kit_do(a, "SELECT pgwork.enqueue('q', '\"bad\"')");
    kit_do(a, "SELECT pgwork.enqueue('q', '1', priority => 3)");
    refuse_leases("NEW.payload = '\"bad\"'");
    TEST_ASSERT_EQUAL_STRING("P0001", kit_state(b, "SELECT pgwork.claim('{q}', 10, 'w')"));
    TEST_ASSERT_EQUAL_INT64(1, kit_number(b, "SELECT pgwork.set_aside('{q}')"));
    TEST_ASSERT_EQUAL_INT(4, kit_claim(b, "q", 10, jobs));
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT count(*) FROM pgwork.stuck_jobs"));
    refuse_no_more();
    kit_do(a, "UPDATE pgwork.stuck_job SET again_at = now()");
    kit_do(a, "SELECT pgwork.reap()");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 10, jobs));
    kit_do(a, "DELETE FROM pgwork.stuck_job");
}

void test_where_no_job_can_be_claimed_none_is_put_aside(void)
{
    fill(3);
    refuse_leases("true");
    TEST_ASSERT_EQUAL_INT64(0, kit_number(b, "SELECT pgwork.set_aside('{q}')"));
    refuse_no_more();
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT count(*) FROM pgwork.stuck_jobs"));
    TEST_ASSERT_EQUAL_INT(3, kit_claim(b, "q", 10, jobs));
}

/* What a session remembers are settings of its own, which anybody can set to anything. */
static void forge(const char *hint)
{
    kit_do(
        b,
        "SELECT count(set_config('pgwork.claim_' || i, '%s', false)) FROM generate_series(0, 63) i",
        hint);
}

void test_a_session_s_hint_misleads_no_other_session_and_not_for_long(void)
{
    static const char *const values[] = {"h, t + 200, 0, 1, 1000, 1::bigint << 57, t + 200",
                                         "h, t + 200, 1, 1, 1000, -1, t + 200",
                                         "h, t + 200, 0, 100, 0, 0, t",
                                         "h, t + 1000000, 0, 1, 1, 1::bigint << 57, t + 1000000",
                                         "h, t + 200, 0, 0, 1000, 0, t + 200",
                                         "h, t + 200, 0, -5, -1000, 1::bigint << 60, t + 200",
                                         "h, 9223372036854775807, 0, 0, 1, 1, 1"};

    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        char hint[400];
        long long end = kit_ms() + 20000;

        kit_do(a, "SELECT count(pgwork.enqueue('q')) FROM generate_series(1, 40)");
        snprintf(hint, sizeof(hint),
                 "SELECT ARRAY[%s]::text FROM (SELECT hashtextextended('q', 0) AS h,"
                 " (date_part('epoch', clock_timestamp()) * 1000)::bigint AS t) x",
                 values[i]);
        forge(kit_text(b, "%s", hint));
        TEST_ASSERT_EQUAL_INT_MESSAGE(20, kit_claim(c, "q", 20, jobs), values[i]);
        while (kit_number(a, "SELECT ready FROM pgwork.depth('q')") > 0) {
            TEST_ASSERT_TRUE_MESSAGE(kit_ms() < end, values[i]);
            kit_state(b, "SELECT count(*) FROM pgwork.claim('{q}', 1, 'x')");
        }
    }
    TEST_ASSERT_EQUAL_STRING("0 280 0 0 0", kit_places(a, "q"));
}

/* -- older snapshots --------------------------------------------------------------------------- */

void test_an_older_snapshot_sees_all_its_jobs_after_upkeep(void)
{
    fill(500);
    kit_do(a, "SELECT count(pgwork.enqueue('q', priority => 3)) FROM generate_series(1, 50)");
    ticks(2);
    kit_do(c, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class");
    for (int i = 0; i < 6; i++) {
        kit_do(b, "SELECT pgwork.complete('q', array_agg(id), array_agg(token)) FROM "
                  "pgwork.claim('{q}', 90, 'x')");
        fill(10);
        ticks(2);
        kit_refused(a, "55006", "older snapshots|process", "SELECT pgwork.compact()");
    }
    kit_do(a, "VACUUM pgwork.live_job");
    TEST_ASSERT_EQUAL_STRING("550 0 0 0 0", kit_places(c, "q"));
    TEST_ASSERT_EQUAL_INT64(550,
                            kit_number(c, "SELECT count(*) FROM pgwork.job WHERE state = 'ready'"));
    TEST_ASSERT_EQUAL_INT64(
        550, kit_number(c, "SELECT count(*) FROM pgwork.job_list('q', at_most => 1000)"));
    kit_do(c, "COMMIT");
}

/* Not even within the same millisecond. */
void test_a_job_that_was_committed_after_an_empty_claim_is_claimed(void)
{
    kit_do(
        a,
        "CREATE PROCEDURE pg_temp.miss(INOUT missed int) LANGUAGE plpgsql AS $$ DECLARE c record; "
        "BEGIN FOR i IN 1 .. 1000 LOOP PERFORM FROM pgwork.claim('{q}', 1, 'x'); PERFORM "
        "pgwork.enqueue('q'); COMMIT; SELECT * INTO c FROM pgwork.claim('{q}', 1, 'x'); "
        "missed := missed + (c.id IS NULL)::int; PERFORM pgwork.queue_purge('q') WHERE c.id IS "
        "NULL; PERFORM pgwork.complete('q', ARRAY[c.id], ARRAY[c.token]) WHERE c.id IS NOT NULL; "
        "COMMIT; END LOOP; END $$");
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "CALL pg_temp.miss(0)"));
}

void test_compact_leaves_all_jobs_where_they_are(void)
{
    fill(500);
    TEST_ASSERT_EQUAL_INT(200, kit_claim(b, "q", 200, jobs));
    ticks(2);
    kit_compact(a);
    TEST_ASSERT_EQUAL_STRING("300 200 0 0 0", kit_places(a, "q"));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(b, "complete", jobs, ""));
    TEST_ASSERT_EQUAL_INT(300, kit_claim(c, "q", 1000, jobs));
}
