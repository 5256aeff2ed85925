/* Rates and holds: no window has more takes than the rate and its burst allow, even if takers die.
 * A held queue gives no jobs until the hold ends. Longer than 600 lines: rates and holds are two
 * answers to the limit of an API, with the same sessions. */
#include "unity.h"
#include "pgw_all.h"
#include "itpgw.h"
#include "pgtemp.h"
#include "sqlkit.h"
#include "windowkit.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define YEAR_MS 31536000000LL

static PGconn *a, *b;
static pgw *h;

void setUp(void)
{
    kit_begin();
    pgtemp_exec("SELECT pgwork.rate_drop(name) FROM pgwork.rate");
    a = kit_open();
    b = kit_open();
    h = it_open_bare();
}

void tearDown(void)
{
    pgw_close(h);
    kit_end();
}

static long long take(PGconn *conn, const char *name, int n)
{
    return kit_number(conn, "SELECT pgwork.rate_take('%s', %d)", name, n);
}

/* So slow that nothing of it comes back during a test. */
static void make_slow(const char *name, int burst)
{
    kit_do(a, "SELECT pgwork.rate_set('%s', 1, %lld, %d)", name, YEAR_MS, burst);
}

static long long left_of(const char *name)
{
    return kit_number(a, "SELECT available FROM pgwork.rate_list('%s')", name);
}

/* -- what is taken is taken -------------------------------------------------------------------- */

void test_a_burst_can_be_taken_at_once_and_no_more(void)
{
    make_slow("r", 3);
    TEST_ASSERT_EQUAL_INT64(0, take(a, "r", 2));
    TEST_ASSERT_TRUE(take(a, "r", 2) > 0);
    TEST_ASSERT_EQUAL_INT64(0, take(b, "r", 1));
    TEST_ASSERT_TRUE(take(b, "r", 1) > YEAR_MS - 60000);
    TEST_ASSERT_EQUAL_INT64(0, left_of("r"));
}

void test_a_rollback_gives_nothing_back(void)
{
    make_slow("r", 2);
    kit_do(a, "BEGIN");
    TEST_ASSERT_EQUAL_INT64(0, take(a, "r", 1));
    kit_do(a, "SAVEPOINT s");
    TEST_ASSERT_EQUAL_INT64(0, take(a, "r", 1));
    kit_do(a, "ROLLBACK TO s; ROLLBACK");
    TEST_ASSERT_TRUE(take(a, "r", 1) > 0);
}

void test_an_open_transaction_that_took_blocks_no_other_take(void)
{
    make_slow("r", 3);
    kit_do(b, "SET statement_timeout = '30s'");
    for (int level = 0; level < 2; level++) {
        kit_do(a, "BEGIN ISOLATION LEVEL %s", level ? "REPEATABLE READ" : "READ COMMITTED");
        TEST_ASSERT_EQUAL_INT64(0, take(a, "r", 1));
        TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT count(*) FROM pg_locks WHERE "
                                                 "locktype = 'advisory' AND pid = "
                                                 "pg_backend_pid()"));
        if (level == 0) TEST_ASSERT_EQUAL_INT64(0, take(b, "r", 1));
        kit_do(a, "ROLLBACK");
    }
}

void test_a_take_under_an_old_snapshot_sees_what_others_took(void)
{
    make_slow("r", 2);
    kit_do(a, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pgwork.rate");
    TEST_ASSERT_EQUAL_INT64(0, take(b, "r", 2));
    TEST_ASSERT_TRUE(take(a, "r", 1) > 0);
    kit_do(a, "ROLLBACK");
}

void test_a_take_under_an_old_snapshot_does_not_use_an_old_rate(void)
{
    make_slow("r", 5);
    kit_do(a, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pgwork.rate");
    kit_do(b, "SELECT pgwork.rate_set('r', 1, %lld, 1)", YEAR_MS);
    TEST_ASSERT_EQUAL_STRING("40001", kit_state(a, "SELECT pgwork.rate_take('r', 5)"));
    kit_do(a, "ROLLBACK");
}

void test_a_take_of_a_killed_session_stays_taken_and_blocks_no_other(void)
{
    PGconn *victim = kit_open();

    make_slow("r", 2);
    kit_do(victim, "BEGIN");
    TEST_ASSERT_EQUAL_INT64(0, take(victim, "r", 1));
    kit_do(a, "SELECT pg_terminate_backend(%d)", PQbackendPID(victim));
    TEST_ASSERT_EQUAL_INT64(0, take(a, "r", 1));
    TEST_ASSERT_TRUE(take(a, "r", 1) > 0);
    kit_close(victim);
}

void test_a_new_sequence_counts_as_used_up(void)
{
    kit_do(a, "SELECT pgwork.rate_set('r', 1, 200, 3)");
    /* As the server does after a crash. */
    kit_do(a, "SELECT setval(pgwork._rate_tat(id), 1, false) FROM pgwork.rate WHERE name = 'r'");
    TEST_ASSERT_EQUAL_INT64(0, left_of("r"));
    TEST_ASSERT_TRUE(take(a, "r", 3) > 0);
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT pgwork.rate_take('r', 1, 60000)"));
}

void test_a_clock_that_was_set_back_delays_no_longer_than_the_burst(void)
{
    kit_do(a, "SELECT pgwork.rate_set('r', 1, 100, 2)");
    kit_do(a, "SELECT setval(pgwork._rate_tat(id), pgwork._now_ns() + 3600 * 1000000000::bigint) "
              "FROM pgwork.rate WHERE name = 'r'");
    TEST_ASSERT_TRUE(take(a, "r", 1) <= 100);
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT pgwork.rate_take('r', 1, 60000)"));
}

void test_many_takes_behind_a_held_snapshot_leave_no_dead_tuples(void)
{
    kit_do(a, "SELECT pgwork.rate_set('r', 1000000, 1000)");
    kit_do(b, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pgwork.rate");
    kit_do(a, "SELECT count(pgwork.rate_take('r')) FROM generate_series(1, 1000)");
    TEST_ASSERT_EQUAL_INT64(8192, kit_number(a, "SELECT pg_relation_size(pgwork._rate_tat(id)) "
                                                "FROM pgwork.rate WHERE name = 'r'"));
    TEST_ASSERT_EQUAL_STRING("t", kit_text(a, "SELECT pg_current_xact_id_if_assigned() IS NULL "
                                              "FROM pgwork.rate_take('r')"));
    kit_do(b, "ROLLBACK");
}

void test_a_session_that_is_frozen_within_a_take_is_named(void)
{
    char pid[16];

    make_slow("r", 1);
    snprintf(pid, sizeof(pid), "%d", PQbackendPID(b));
    kit_do(b, "SELECT pg_advisory_lock(pgwork._rate_key('r'))");
    kit_refused(a, "PW006", pid, "SELECT pgwork.rate_take('r')");
    kit_do(b, "SELECT pg_advisory_unlock_all()");
    TEST_ASSERT_EQUAL_INT64(0, take(a, "r", 1));
}

void test_a_rate_that_open_transactions_use_is_not_dropped(void)
{
    make_slow("r", 3);
    kit_do(b, "BEGIN");
    TEST_ASSERT_EQUAL_INT64(0, take(b, "r", 1));
    kit_refused(a, "PW006", "open transaction", "SELECT pgwork.rate_drop('r')");
    TEST_ASSERT_EQUAL_INT64(0, take(a, "r", 1));
    kit_do(b, "ROLLBACK");
    kit_do(a, "BEGIN; SELECT pgwork.rate_drop('r')");
    TEST_ASSERT_EQUAL_STRING("PW006", kit_state(b, "SELECT pgwork.rate_take('r')"));
    kit_do(a, "COMMIT");
    kit_refused(b, "PW003", "no rate \"r\"", "SELECT pgwork.rate_take('r')");
}

void test_bad_arguments_are_named(void)
{
    static const struct {
        const char *words, *call;
    } bad[] = {{"argument n|\"0\"", "rate_set('x', 0, 1000)"},
               {"argument n|-1", "rate_set('x', -1, 1000)"},
               {"argument n|1000001", "rate_set('x', 1000001, 1000)"},
               {"argument n|1000 * per_ms", "rate_set('x', 5000, 1)"},
               {"argument per_ms|\"0\"", "rate_set('x', 1, 0)"},
               {"argument per_ms|NULL", "rate_set('x', 1, NULL)"},
               {"argument burst|\"0\"", "rate_set('x', 1, 1000, 0)"},
               {"argument burst|ten years", "rate_set('x', 1, 31536000000, 1000000)"},
               {"argument name", "rate_set('', 1, 1000)"},
               {"argument name|NULL", "rate_set(NULL, 1, 1000)"},
               {"argument name|NULL", "rate_take(NULL)"},
               {"argument n|\"0\"", "rate_take('r', 0)"},
               {"argument n|NULL", "rate_take('r', NULL)"},
               {"argument wait_ms|60001", "rate_take('r', 1, 60001)"}};

    make_slow("r", 2);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        kit_refused(a, "PW001", bad[i].words, "SELECT pgwork.%s", bad[i].call);
    kit_refused(a, "PW002", "burst 2|cannot take 3", "SELECT pgwork.rate_take('r', 3)");
    TEST_ASSERT_EQUAL_INT64(2, left_of("r"));
}

void test_the_same_rate_set_again_refills_nothing(void)
{
    make_slow("r", 2);
    TEST_ASSERT_EQUAL_INT64(0, take(a, "r", 2));
    make_slow("r", 2);
    TEST_ASSERT_TRUE(take(a, "r", 1) > 0);
    make_slow("r", 3);
    TEST_ASSERT_EQUAL_INT64(0, take(a, "r", 1));
    TEST_ASSERT_TRUE(take(a, "r", 1) > 0);
}

/* -- no window has too many -------------------------------------------------------------------- */

enum { RACERS = 8, TAKES = 4, RATE = 20, BURST = 5 };

/* When a take began and ended, in us by the server's clock: it was granted in between. */
typedef struct log {
    grant grants[RACERS][TAKES];
} log_of;

/* Sessions that are killed while they take. What they got counts for nobody. */
static void take_and_die(PGconn *killer)
{
    for (int k = 0; k < 2 * TAKES; k++) {
        PGconn *victim = pgtemp_connect();

        PQsendQuery(victim, "BEGIN; SELECT pgwork.rate_take('race', 1, 60000)");
        kit_sleep_ms(k);
        kit_do(killer, "SELECT pg_terminate_backend(%d)", PQbackendPID(victim));
        PQfinish(victim);
    }
}

static void take_often(PGconn *conn, int i, void *ctx)
{
    static const char *const begins[] = {"BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ",
                                         "SELECT 1", "BEGIN"};
    log_of *l = ctx;
    const int n = 1 + i % 3;

    if (i == RACERS - 1) {
        take_and_die(conn);
        return;
    }
    for (int k = 0; k < TAKES;) {
        grant *g = &l->grants[i][k];
        PGresult *res;

        kit_do(conn, "%s", begins[i % 4]);
        g->begun = kit_number(conn, "SELECT (extract(epoch FROM clock_timestamp()) * 1e6)::bigint");
        res = kit_rows(conn,
                       "SELECT w, (extract(epoch FROM clock_timestamp()) * 1e6)::bigint FROM "
                       "pgwork.rate_take('race', %d) w",
                       n);
        g->n = atoi(PQgetvalue(res, 0, 0)) == 0 ? n : 0;
        g->ended = atoll(PQgetvalue(res, 0, 1));
        PQclear(res);
        if (i % 4 != 2) kit_do(conn, "%s", i % 4 == 3 ? "COMMIT" : "ROLLBACK");
        if (g->n > 0)
            k++;
        else
            kit_sleep_ms(2);
    }
}

static long long race(void)
{
    static log_of l;

    memset(&l, 0, sizeof(l)); /* of those who died: nothing */
    kit_do(a, "SELECT pgwork.rate_set('race', %d, 1000, %d)", RATE, BURST);
    kit_race(RACERS, take_often, &l);
    kit_do(a, "SELECT pgwork.rate_drop('race')");
    return window_excess(&l.grants[0][0], RACERS * TAKES, BURST, RATE);
}

void test_no_window_has_more_takes_than_its_length_and_the_burst_allow(void)
{
    TEST_ASSERT_TRUE(race() <= 0);
}

/* The check sees it. Where there is no lock, a pause makes sure that several read the same. */
void test_a_rate_without_its_lock_or_its_burst_is_found_out(void)
{
    static const char *const mutants[][2] = {
        {"PERFORM pg_advisory_xact_lock(pgwork._rate_key(name));", ""},
        {"span_ns := r.step_ns * r.burst", "span_ns := r.step_ns * r.burst * 3"},
        {"at := at + n * r.step_ns", "at := at + n * r.step_ns / 2"},
        {"IF wait_ms = 0 OR", "IF wait_ms = 0 AND random() < 0.5 OR"},
    };

    for (size_t i = 0; i < sizeof(mutants) / sizeof(mutants[0]); i++) {
        kit_mutate(a, "_rate_advance", mutants[i][0], mutants[i][1]);
        if (i == 0)
            kit_mutate(a, "_rate_advance", "now_ns := pgwork._now_ns();",
                       "now_ns := pgwork._now_ns(); PERFORM pg_sleep(0.002);");
        TEST_ASSERT_TRUE_MESSAGE(race() > 0, mutants[i][0]);
        kit_restore();
    }
}

/* -- in C -------------------------------------------------------------------------------------- */

static pgw_status set(int n, int64_t per_ms, int burst)
{
    pgw_rate_opts o = PGW_RATE_OPTS_INIT;

    o.n = n, o.per_ms = per_ms;
    if (burst != 0) o.burst = burst;
    return pgw_rate_set(h, "c", &o);
}

static pgw_status take_c(pgw *handle, const char *name, int n, int64_t timeout_ms, int64_t *wait_ms)
{
    pgw_rate_take_opts o = PGW_RATE_TAKE_OPTS_INIT;

    o.n = n, o.timeout_ms = timeout_ms;
    return pgw_rate_take(handle, name, &o, wait_ms);
}

void test_a_take_waits_until_it_can_be(void)
{
    int64_t wait_ms = -1;

    ASSERT_ST(PGW_OK, set(20, 1000, 1), h);
    ASSERT_ST(PGW_OK, take_c(h, "c", 1, 0, &wait_ms), h);
    TEST_ASSERT_EQUAL_INT64(0, wait_ms);
    ASSERT_ST(PGW_OK, take_c(h, "c", 1, PGW_UNLIMITED, &wait_ms), h);
    TEST_ASSERT_EQUAL_INT64(0, wait_ms);
    ASSERT_ST(PGW_OK, take_c(h, "c", 1, 60000, NULL), h);
    ASSERT_ST(PGW_OK, pgw_rate_drop(h, "c"), h);
    ASSERT_ST(PGW_ENOTFOUND, take_c(h, "c", 1, 60000, NULL), h);
    ASSERT_ST(PGW_ENOTFOUND, pgw_rate_drop(h, "c"), h);
}

void test_a_take_that_would_wait_in_vain_is_refused_at_once(void)
{
    int64_t wait_ms = 0;

    ASSERT_ST(PGW_OK, set(1, YEAR_MS, 0), h);
    ASSERT_ST(PGW_OK, take_c(h, "c", 1, 0, NULL), h);
    ASSERT_ST(PGW_ELOCKED, take_c(h, "c", 1, 3600000, &wait_ms), h);
    TEST_ASSERT_TRUE(wait_ms > 3600000);
    ASSERT_HAS("rate \"c\" is used up", pgw_error_message(h));
    ASSERT_ST(PGW_ELIMIT, take_c(h, "c", 2, 0, NULL), h);
}

static void *notify(void *stop)
{
    kit_sleep_ms(100);
    pgw_stop_notify(stop);
    return NULL;
}

void test_a_stop_ends_the_wait(void)
{
    pthread_t thread;
    pgw_stop *stop;

    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_stop_new(&stop));
    pgw_set_stop(h, stop);
    ASSERT_ST(PGW_OK, set(1, YEAR_MS, 0), h);
    ASSERT_ST(PGW_OK, take_c(h, "c", 1, 0, NULL), h);
    TEST_ASSERT_EQUAL_INT(0, pthread_create(&thread, NULL, notify, stop));
    ASSERT_ST(PGW_ECANCELED, take_c(h, "c", 1, PGW_UNLIMITED, NULL), h);
    pthread_join(thread, NULL);
    pgw_set_stop(h, NULL);
    pgw_stop_free(stop);
}

static void note(pgw *handle, pgw_status st, void *arg)
{
    (void)handle;
    *(pgw_status *)arg = st;
}

void test_a_take_works_without_blocking(void)
{
    int64_t wait_ms = 0;

    ASSERT_ST(PGW_OK, set(1, YEAR_MS, 0), h);
    for (int k = 0; k < 2; k++) {
        pgw_status done = PGW_OUTCOME_AGAIN;
        char name[] = "c";

        pgw_async(h, note, &done);
        TEST_ASSERT_EQUAL_INT(PGW_OUTCOME_AGAIN, take_c(h, name, 1, 0, &wait_ms));
        name[0] = 'x'; /* is the caller's again */
        while (done == PGW_OUTCOME_AGAIN) {
            struct pollfd fd = {.fd = pgw_fd(h), .events = POLLIN};

            TEST_ASSERT_TRUE(poll(&fd, 1, 10000) > 0);
            pgw_step(h);
        }
        TEST_ASSERT_EQUAL_INT(k == 0 ? PGW_OK : PGW_ELOCKED, done);
        TEST_ASSERT_EQUAL_INT(k > 0, wait_ms > 0);
    }
    ASSERT_HAS("rate \"c\"", pgw_error_message(h));
    pgw_async(h, note, &wait_ms);
    ASSERT_ST(PGW_EMISUSE, take_c(h, "c", 1, 1, NULL), h);
}

static int count(const pgw_rate_info *r, void *arg)
{
    snprintf(arg, 80, "%s %d/%lld %d %lld %d", r->name, r->n, (long long)r->per_ms, r->burst,
             (long long)r->available, r->next_ms > 0);
    return 0;
}

void test_rates_are_listed(void)
{
    char text[80];

    ASSERT_ST(PGW_OUTCOME_EMPTY, pgw_rates_each(h, count, text), h);
    ASSERT_ST(PGW_OK, set(2, 1000, 1), h);
    ASSERT_ST(PGW_OK, pgw_rates_each(h, count, text), h);
    TEST_ASSERT_EQUAL_STRING("c 2/1000 1 1 0", text);
    ASSERT_ST(PGW_OK, set(1, YEAR_MS, 0), h);
    ASSERT_ST(PGW_OK, take_c(h, "c", 1, 0, NULL), h);
    ASSERT_ST(PGW_OK, pgw_rates_each(h, count, text), h);
    TEST_ASSERT_EQUAL_STRING("c 1/31536000000 1 0 1", text);
}

void test_bad_arguments_are_refused_here(void)
{
    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, take_c(NULL, "c", 1, 0, NULL));
    ASSERT_ST(PGW_EINVAL, take_c(h, "", 1, 0, NULL), h);
    ASSERT_ST(PGW_EINVAL, take_c(h, "c", 0, 0, NULL), h);
    ASSERT_ST(PGW_EINVAL, take_c(h, "c", 1, -5, NULL), h);
    ASSERT_ST(PGW_EINVAL, set(0, 1000, 0), h);
    ASSERT_ST(PGW_EINVAL, set(1, 0, 0), h);
    ASSERT_ST(PGW_EINVAL, set(1, 1000, -5), h);
    ASSERT_ST(PGW_EINVAL, pgw_rate_drop(h, NULL), h);
    ASSERT_ST(PGW_EINVAL, pgw_rates_each(h, NULL, NULL), h);
}

/* -- holds ------------------------------------------------------------------------------------- */

static const char *holds(void)
{
    const char *text = kit_text(a, "SELECT string_agg(queue || ' ' || coalesce(reason, '-') || "
                                   "CASE WHEN paused THEN ' paused' ELSE '' END, ',') "
                                   "FROM pgwork.queue_holds()");
    return text != NULL ? text : "";
}

static void hold(const char *queue)
{
    kit_do(a, "SELECT pgwork.queue_hold('%s', for_ms => 3600000, reason => '429')", queue);
}

/* As if its time had come. */
static void end_holds(void)
{
    kit_do(a, "UPDATE pgwork.hold SET until = '-infinity'");
}

static int claimable(const char *queue)
{
    struct took job[10];

    return kit_claim(a, queue, 10, job);
}

void test_a_held_queue_gives_no_jobs_until_its_hold_is_over_without_a_reaper(void)
{
    kit_put(a, "q");
    hold("q");
    TEST_ASSERT_EQUAL_INT(0, claimable("q"));
    kit_put(a, "q");
    TEST_ASSERT_EQUAL_STRING("q 429", holds());
    end_holds();
    TEST_ASSERT_EQUAL_INT(2, claimable("q"));
    TEST_ASSERT_EQUAL_STRING("", holds());
}

void test_a_claim_of_several_queues_ends_holds_too(void)
{
    kit_put(a, "p");
    kit_put(a, "q");
    hold("q");
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT count(*) FROM pgwork.claim('{p,q}', 5, 'w')"));
    end_holds();
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT count(*) FROM pgwork.claim('{p,q}', 5, 'w')"));
}

void test_a_reaper_ends_a_hold_and_knows_when(void)
{
    kit_do(a, "SELECT pgwork.queue_create('q'), pgwork.maintain()");
    kit_do(a, "SELECT pgwork.queue_hold('q', for_ms => 3600000)");
    end_holds();
    kit_do(a, "SELECT pgwork.maintain()");
    TEST_ASSERT_EQUAL_STRING("", holds());
    TEST_ASSERT_EQUAL_STRING("f", kit_text(a, "SELECT paused FROM pgwork.queues"));
}

void test_a_pause_before_or_during_a_hold_outlasts_it(void)
{
    for (int before = 0; before < 2; before++) {
        kit_put(a, "q");
        if (before) kit_do(a, "SELECT pgwork.queue_pause('q')");
        hold("q");
        if (!before) kit_do(a, "SELECT pgwork.queue_pause('q')");
        TEST_ASSERT_EQUAL_STRING("q 429 paused", holds());
        end_holds();
        TEST_ASSERT_EQUAL_INT(0, claimable("q"));
        kit_do(a, "SELECT pgwork.maintain()");
        TEST_ASSERT_EQUAL_STRING("", holds());
        TEST_ASSERT_EQUAL_INT(0, claimable("q"));
        kit_do(a, "SELECT pgwork.queue_resume('q')");
        TEST_ASSERT_EQUAL_INT(1, claimable("q"));
    }
}

void test_a_resume_ends_the_pause_and_not_the_hold(void)
{
    kit_put(a, "q");
    hold("q");
    kit_do(a, "SELECT pgwork.queue_pause('q'), pgwork.queue_resume('q')");
    TEST_ASSERT_EQUAL_STRING("q 429", holds());
    TEST_ASSERT_EQUAL_INT(0, claimable("q"));
    TEST_ASSERT_EQUAL_STRING("t", kit_text(a, "SELECT pgwork.queue_unhold('q')"));
    TEST_ASSERT_EQUAL_INT(1, claimable("q"));
    TEST_ASSERT_EQUAL_STRING("f", kit_text(a, "SELECT pgwork.queue_unhold('q')"));
}

void test_the_latest_end_of_a_hold_counts(void)
{
    kit_do(a, "SELECT pgwork.queue_create('q')");
    hold("q");
    TEST_ASSERT_EQUAL_STRING(
        "t", kit_text(a, "SELECT pgwork.queue_hold('q', for_ms => 1, reason => 'short') > now() + "
                         "interval '50 min'"));
    TEST_ASSERT_EQUAL_STRING("q 429", holds());
    kit_do(a, "SELECT pgwork.queue_hold('q', now() + interval '2 h', reason => 'long')");
    TEST_ASSERT_EQUAL_STRING("q long", holds());
}

void test_a_hold_goes_with_its_queue(void)
{
    kit_do(a, "SELECT pgwork.queue_create('q')");
    hold("q");
    kit_do(a, "SELECT pgwork.queue_drop('q')");
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT count(*) FROM pgwork.hold"));
}

void test_a_holder_snoozes_its_job_and_holds_the_queue_uncharged(void)
{
    struct took job;

    kit_put(a, "q");
    kit_put(a, "q");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, &job));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "hold", &job, ", 3600000, 'Retry-After'"));
    TEST_ASSERT_EQUAL_STRING("q Retry-After", holds());
    TEST_ASSERT_EQUAL_STRING("1 0 1 0 0", kit_places(a, "q"));
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT max(attempt) FROM pgwork.job"));
    TEST_ASSERT_EQUAL_INT(0, claimable("q"));
}

void test_a_stale_holder_holds_nothing(void)
{
    struct took job;

    kit_put(a, "q");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, &job));
    kit_expire(a, "q");
    kit_do(a, "SELECT pgwork.reap()");
    TEST_ASSERT_EQUAL_STRING("stale", kit_say(a, "hold", &job, ", 3600000"));
    TEST_ASSERT_EQUAL_STRING("", holds());
}

void test_a_hold_that_is_rolled_back_never_was(void)
{
    kit_put(a, "q");
    kit_do(b, "BEGIN; SELECT pgwork.queue_hold('q', for_ms => 3600000)");
    TEST_ASSERT_EQUAL_STRING("PW006", kit_state(a, "SELECT pgwork.queue_pause('q')"));
    kit_do(b, "ROLLBACK");
    TEST_ASSERT_EQUAL_INT(1, claimable("q"));
}

/* Each statement may wait for another; none waits for the end of that one's transaction. */
void test_a_claim_waits_for_no_transaction_that_holds_or_unholds(void)
{
    kit_put(a, "q");
    hold("q");
    end_holds();
    kit_do(b, "BEGIN; SELECT pgwork.queue_unhold('q')");
    kit_do(a, "SET statement_timeout = '30s'");
    TEST_ASSERT_EQUAL_INT(0, claimable("q"));
    kit_do(a, "SELECT pgwork.maintain()");
    kit_do(b, "COMMIT");
    TEST_ASSERT_EQUAL_INT(1, claimable("q"));
}

void test_a_pause_and_the_end_of_a_hold_at_once_leave_it_paused(void)
{
    kit_put(a, "q");
    hold("q");
    end_holds();
    kit_do(b, "BEGIN; SELECT pgwork.queue_unhold('q')");
    kit_do(a, "SET lock_timeout = '60s'");
    kit_send(a, "SELECT pgwork.queue_pause('q')");
    kit_blocked(a, b);
    kit_do(b, "COMMIT");
    kit_answer(a);
    TEST_ASSERT_EQUAL_INT(0, claimable("q"));
    TEST_ASSERT_EQUAL_STRING("t", kit_text(a, "SELECT paused FROM pgwork.queues"));
}

void test_bad_times_of_a_hold_are_named(void)
{
    kit_do(a, "SELECT pgwork.queue_create('q')");
    kit_refused(a, "PW001", "for_ms|NULL|one of until and for_ms", "SELECT pgwork.queue_hold('q')");
    kit_refused(a, "PW001", "for_ms|one of", "SELECT pgwork.queue_hold('q', now(), 1)");
    kit_refused(a, "PW001", "for_ms|\"0\"", "SELECT pgwork.queue_hold('q', for_ms => 0)");
    kit_refused(a, "PW001", "until|ten years", "SELECT pgwork.queue_hold('q', 'infinity')");
    kit_refused(a, "PW001", "for_ms|NULL", "SELECT pgwork.hold('q', '{1}', '{}', NULL)");
    kit_refused(a, "PW003", "no queue \"z\"", "SELECT pgwork.queue_hold('z', for_ms => 1)");
    kit_refused(a, "PW003", "no queue \"z\"", "SELECT pgwork.queue_unhold('z')");
}

void test_roles_may_take_and_hold_and_only_operators_set(void)
{
    static const struct {
        const char *role, *calls;
    } may[] = {{"pgwork_worker", "hold,queue_holds,rate_list,rate_take"},
               {"pgwork_operator", "hold,queue_hold,queue_holds,queue_unhold,rate_drop,rate_list,"
                                   "rate_set,rate_take"}};

    for (int i = 0; i < 2; i++)
        TEST_ASSERT_EQUAL_STRING(
            may[i].calls,
            kit_text(a,
                     "SELECT string_agg(proname, ',' ORDER BY proname) FROM pg_proc WHERE "
                     "pronamespace = 'pgwork'::regnamespace AND proname ~ "
                     "'^rate_|^(queue_(un)?)?holds?$' "
                     "AND has_function_privilege('%s', oid, 'EXECUTE')",
                     may[i].role));
    make_slow("r", 1);
    kit_do(b, "SET ROLE pgwork_worker");
    TEST_ASSERT_EQUAL_INT64(0, take(b, "r", 1));
    kit_do(b, "RESET ROLE");
}

static int shown(const pgw_queue_info *q, void *arg)
{
    snprintf(arg, 80, "%d %d %s", q->paused, q->held_until_us > 0,
             q->hold_reason != NULL ? q->hold_reason : "-");
    return 0;
}

static pgw_status show(char *text)
{
    pgw_queues_opts o = PGW_QUEUES_OPTS_INIT;

    o.queue = "q";
    return pgw_queues_each(h, &o, shown, text);
}

static pgw_status hold_c(pgw_ref *ref, int64_t for_ms, const char *reason)
{
    pgw_hold_opts o = PGW_HOLD_OPTS_INIT;

    o.for_ms = for_ms, o.reason = reason;
    return pgw_hold(h, "q", ref, 1, &o);
}

static pgw_status hold_queue(int64_t for_ms, int64_t until_us)
{
    pgw_queue_hold_opts o = PGW_QUEUE_HOLD_OPTS_INIT;

    o.for_ms = for_ms, o.until_us = until_us;
    return pgw_queue_hold(h, "q", &o);
}

void test_a_holder_holds_its_queue_in_c(void)
{
    char text[80];
    pgw_ref ref;

    it_enqueue(h, "q", "1");
    ref = it_claim_one(h, "q");
    ASSERT_ST(PGW_OK, hold_c(&ref, 3600000, "429"), h);
    ASSERT_ST(PGW_ELEASE, hold_c(&ref, 3600000, "429"), h);
    ASSERT_ST(PGW_OK, show(text), h);
    TEST_ASSERT_EQUAL_STRING("0 1 429", text);
    ASSERT_ST(PGW_OK, pgw_queue_pause(h, "q"), h);
    ASSERT_ST(PGW_OK, pgw_queue_unhold(h, "q"), h);
    ASSERT_ST(PGW_OUTCOME_EMPTY, pgw_queue_unhold(h, "q"), h);
    ASSERT_ST(PGW_OK, show(text), h);
    TEST_ASSERT_EQUAL_STRING("1 0 -", text);
    ASSERT_ST(PGW_OK, pgw_queue_resume(h, "q"), h);
    ASSERT_ST(PGW_OK, hold_queue(0, INT64_C(1893456000000000)), h);
    ASSERT_ST(PGW_OK, show(text), h);
    TEST_ASSERT_EQUAL_STRING("0 1 -", text);
    ASSERT_ST(PGW_EINVAL, hold_queue(0, 0), h);
    ASSERT_ST(PGW_EINVAL, hold_queue(1, 1), h);
    ASSERT_ST(PGW_EINVAL, hold_c(&ref, 0, NULL), h);
    ASSERT_ST(PGW_ENOTFOUND, pgw_queue_unhold(h, "z"), h);
}

static pgw_verdict told_to_wait(pgw_task *task, void *stop)
{
    pgw_task_set_error(task, "429 Too Many Requests");
    pgw_task_set_delay(task, 3600000);
    pgw_stop_notify(stop);
    return PGW_VERDICT_HOLD;
}

void test_a_handler_that_must_wait_holds_its_queue(void)
{
    static const char *const queues[] = {"q"};
    static const char *const pairs[] = {
        "worker.concurrency", "1", "worker.prefetch", "5", "schema.check", "off", NULL};
    pgw_conf *conf = it_conf(pairs);
    pgw_stop *stop;
    pgw_worker *w;

    for (int i = 0; i < 5; i++) it_enqueue(h, "q", "1");
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_stop_new(&stop));
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_worker_new(conf,
                                                 &(pgw_worker_spec){sizeof(pgw_worker_spec), queues,
                                                                    1, told_to_wait, NULL, stop},
                                                 &w));
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_worker_run(w, stop));
    pgw_worker_free(w);
    pgw_stop_free(stop);
    pgw_conf_free(conf);
    TEST_ASSERT_EQUAL_STRING("q 429 Too Many Requests", holds());
    TEST_ASSERT_EQUAL_STRING("4 0 1 0 0", kit_places(a, "q"));
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT sum(attempt) FROM pgwork.job"));
}
