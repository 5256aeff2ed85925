/* Rates of queues and groups: no window has more admissions than its length and the burst allow,
 * and a job whose rate lets it pass runs soon. */
#include "unity.h"
#include "pgw_all.h"
#include "itpgw.h"
#include "pgtemp.h"
#include "sqlkit.h"
#include "windowkit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define YEAR_MS 31536000000LL

static PGconn *a, *b;
static pgw *h;
static struct took jobs[1000];

void setUp(void)
{
    kit_begin();
    a = kit_open();
    b = kit_open();
    h = it_open_bare();
    kit_do(a, "SELECT pgwork.queue_create('q', backoff_ms => 0)");
}

void tearDown(void)
{
    pgw_close(h);
    kit_end();
}

static void tick(void)
{
    kit_do(b, "SELECT * FROM pgwork.maintain()");
}

/* So slow that nothing of it comes back during a test. */
static void slow_queue(int burst)
{
    kit_do(a, "SELECT pgwork.queue_rate('q', 1, %lld, %d)", YEAR_MS, burst);
}

static void slow_group(const char *grp, int burst)
{
    kit_do(a, "SELECT pgwork.group_rate('q', %s, 1, %lld, %d)", grp, YEAR_MS, burst);
}

static void put(int n, const char *grp)
{
    kit_do(a,
           "SELECT count(*) FROM pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[%d]), grps "
           "=> %s)",
           n, grp);
}

static void weigh(int weight)
{
    kit_do(a, "SELECT pgwork.enqueue('q', '1', meta => '{\"rate_weight\": %d}')", weight);
}

static long long gated_ms(void)
{
    return kit_number(a, "SELECT coalesce(pgwork.gated_ms('{q}'), -1)");
}

static void finish(const struct took *job)
{
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", job, ""));
}

/* Until a claim finds one; how many then. */
static int claim_soon(int n)
{
    const long long end = kit_ms() + 60000;
    int got = 0;

    while (got == 0 && kit_ms() < end) got = kit_claim(a, "q", n, jobs);
    return got;
}

/* The time of a job that waits for its retry has come. */
static void retry(void)
{
    kit_due(a, "q");
    kit_do(b, "SELECT * FROM pgwork.promote()");
}

/* -- what may pass ----------------------------------------------------------------------------- */

void test_a_queue_lets_its_burst_pass_and_no_more(void)
{
    slow_queue(3);
    put(10, "NULL");
    TEST_ASSERT_EQUAL_INT(3, kit_claim(a, "q", 10, jobs));
    TEST_ASSERT_EQUAL_INT(0, kit_claim(b, "q", 10, jobs + 3));
    for (int i = 0; i < 3; i++) finish(&jobs[i]);
    tick();
    TEST_ASSERT_EQUAL_INT(0, kit_claim(b, "q", 10, jobs));
    TEST_ASSERT_TRUE(gated_ms() > YEAR_MS - 60000);
    TEST_ASSERT_EQUAL_STRING("gated",
                             kit_text(a, "SELECT string_agg(DISTINCT state, ',') FROM pgwork.job"));
}

void test_a_claim_takes_no_more_from_a_rate_than_it_gets(void)
{
    slow_queue(5);
    put(10, "NULL");
    TEST_ASSERT_EQUAL_INT(2, kit_claim(a, "q", 2, jobs));
    slow_queue(4); /* two of the five are left, so one of the four */
    TEST_ASSERT_EQUAL_INT(2, kit_claim(a, "q", 10, jobs));
    TEST_ASSERT_EQUAL_INT(0, kit_claim(a, "q", 10, jobs));
}

void test_without_a_worker_no_jobs_pile_up_ready(void)
{
    slow_queue(5);
    put(10, "NULL");
    for (int i = 0; i < 5; i++) tick();
    TEST_ASSERT_TRUE(kit_number(a, "SELECT ready FROM pgwork.depth('q')") <= 1);
    TEST_ASSERT_EQUAL_INT(5, kit_claim(a, "q", 10, jobs));
}

void test_the_next_job_passes_when_it_was_announced(void)
{
    long long ms;

    kit_do(a, "SELECT pgwork.queue_rate('q', 1, 1500, 1)");
    put(3, "NULL");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 10, jobs));
    TEST_ASSERT_EQUAL_INT(0, kit_claim(a, "q", 10, jobs));
    ms = gated_ms();
    TEST_ASSERT_TRUE(ms >= 1 && ms <= 1500);
    kit_sleep_ms((int)ms + 1);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 10, jobs));
    TEST_ASSERT_EQUAL_INT(1, claim_soon(10));
    TEST_ASSERT_EQUAL_INT64(-1, gated_ms());
}

void test_each_group_has_the_rate_of_the_queue_or_its_own(void)
{
    kit_do(a, "SELECT pgwork.group_set('q', group_limit => 10)");
    slow_group("NULL", 2);
    slow_group("'own'", 4);
    kit_do(a, "SELECT pgwork.group_rate('q', 'free', NULL)");
    put(9, "'{x}'");
    put(9, "'{own}'");
    put(9, "'{free}'");
    put(1, "NULL");
    TEST_ASSERT_EQUAL_INT(2 + 4 + 9 + 1, kit_claim(a, "q", 100, jobs));
    TEST_ASSERT_EQUAL_INT(0, kit_claim(a, "q", 100, jobs));
    kit_do(a, "SELECT pgwork.group_reset('q', 'own')"); /* as slow as the others, and used up */
    TEST_ASSERT_EQUAL_INT(0, kit_claim(a, "q", 100, jobs));
    kit_do(a, "SELECT pgwork.group_rate('q', NULL, NULL)");
    TEST_ASSERT_EQUAL_INT(7 + 5, kit_claim(a, "q", 100, jobs));
}

void test_a_group_with_a_rate_keeps_its_limit_and_its_order(void)
{
    long long last = 0;

    slow_group("NULL", 3);
    put(9, "'{x}'");
    for (int i = 0; i < 3; i++) {
        TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 10, jobs));
        TEST_ASSERT_TRUE(jobs[0].id > last);
        last = jobs[0].id;
        TEST_ASSERT_EQUAL_INT(0, kit_claim(b, "q", 10, jobs + 1));
        finish(&jobs[0]);
    }
    TEST_ASSERT_EQUAL_INT(0, kit_claim(b, "q", 10, jobs));
}

void test_rate_and_limit_of_a_queue_hold_together(void)
{
    slow_queue(5);
    kit_do(a, "SELECT pgwork.queue_limit('q', 2)");
    put(10, "NULL");
    for (int i = 0; i < 5; i += 2) {
        const int n = i == 4 ? 1 : 2;

        TEST_ASSERT_EQUAL_INT(n, kit_claim(a, "q", 10, jobs));
        TEST_ASSERT_EQUAL_INT(0, kit_claim(b, "q", 10, jobs + 2));
        for (int k = 0; k < n; k++) finish(&jobs[k]);
    }
    TEST_ASSERT_EQUAL_INT(0, kit_claim(b, "q", 10, jobs));
}

void test_a_heavy_job_takes_its_weight_and_passes_even_above_the_burst(void)
{
    slow_queue(5);
    weigh(3);
    weigh(3);
    weigh(1);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 10, jobs)); /* none passes the second one */
    kit_do(a, "SELECT pgwork.queue_purge('q', 'delayed')");
    weigh(2);
    weigh(1);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 10, jobs));
    kit_do(a, "SELECT pgwork.queue_create('r'), pgwork.queue_rate('r', 1, %lld, 5)", YEAR_MS);
    kit_do(a, "SELECT pgwork.enqueue('r', '1', meta => '{\"rate_weight\": 1000}')");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "r", 10, jobs));
}

void test_urgent_jobs_go_first_when_a_rate_lets_one_pass(void)
{
    slow_queue(1);
    put(1, "NULL");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 10, jobs));
    kit_do(a, "SELECT pgwork.enqueue('q', '{}', priority => 5)");
    TEST_ASSERT_EQUAL_INT(0, kit_claim(a, "q", 10, jobs));
    kit_do(a, "SELECT pgwork.enqueue('q', '{}', priority => 1)");
    TEST_ASSERT_EQUAL_INT(0, kit_claim(a, "q", 10, jobs));
    kit_do(a, "SELECT pgwork.queue_rate('q', 1000, 1, 1)");
    TEST_ASSERT_EQUAL_INT(1, claim_soon(1));
    TEST_ASSERT_EQUAL_INT(1, jobs[0].priority);
    TEST_ASSERT_EQUAL_INT(1, claim_soon(1));
    TEST_ASSERT_EQUAL_INT(5, jobs[0].priority);
}

/* -- what takes again, and what gives back ----------------------------------------------------- */

void test_a_retry_takes_again_and_a_release_does_not(void)
{
    for (int i = 0; i < 2; i++) {
        if (i == 0)
            slow_queue(2);
        else
            kit_do(a, "SELECT pgwork.queue_rate('q', NULL)"), slow_group("NULL", 2);
        put(1, "'{x}'");
        TEST_ASSERT_EQUAL_INT(1, claim_soon(1));
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "release", &jobs[0], ""));
        TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, jobs));
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", &jobs[0], ", 'x', 60000"));
        retry();
        TEST_ASSERT_EQUAL_INT(1, claim_soon(1));
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", &jobs[0], ", 'x', 60000"));
        retry();
        TEST_ASSERT_EQUAL_INT(0, kit_claim(a, "q", 10, jobs));
        kit_do(a, "SELECT pgwork.queue_purge('q', 'all')");
    }
}

void test_a_retry_of_a_group_with_a_rate_is_the_next_of_it(void)
{
    long long first;

    kit_do(a, "SELECT pgwork.group_rate('q', NULL, 1000, 1000, 100)");
    put(3, "'{x}'");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, jobs));
    first = jobs[0].id;
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", &jobs[0], ", 'x', 60000"));
    TEST_ASSERT_EQUAL_INT(0, kit_claim(a, "q", 1, jobs));
    retry();
    TEST_ASSERT_EQUAL_INT(1, claim_soon(1));
    TEST_ASSERT_EQUAL_INT64(first, jobs[0].id);
}

void test_a_claim_that_is_rolled_back_has_taken_nothing(void)
{
    slow_queue(1);
    put(2, "NULL");
    kit_do(b, "BEGIN");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 5, jobs));
    TEST_ASSERT_EQUAL_INT(0, kit_claim(a, "q", 5, jobs + 1));
    kit_do(b, "ROLLBACK");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 5, jobs));
    TEST_ASSERT_EQUAL_INT(0, kit_claim(b, "q", 5, jobs));
}

/* -- changes ----------------------------------------------------------------------------------- */

void test_without_its_rate_a_queue_is_open_at_once(void)
{
    slow_queue(1);
    put(30, "NULL");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 100, jobs));
    kit_do(a, "SELECT pgwork.queue_rate('q', NULL)");
    TEST_ASSERT_EQUAL_INT(29, kit_claim(a, "q", 100, jobs));
    put(3, "NULL");
    TEST_ASSERT_EQUAL_INT(3, kit_claim(a, "q", 100, jobs));
}

void test_jobs_that_were_ready_before_come_under_the_rate(void)
{
    put(30, "NULL");
    slow_queue(2);
    tick();
    TEST_ASSERT_EQUAL_INT(2, kit_claim(a, "q", 100, jobs));
    tick();
    TEST_ASSERT_EQUAL_INT(0, kit_claim(a, "q", 100, jobs));
}

void test_a_changed_rate_counts_from_the_next_claim_on(void)
{
    kit_do(a, "SELECT pgwork.queue_rate('q', 1, %lld, 1)", YEAR_MS);
    put(5, "NULL");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 100, jobs));
    slow_queue(2);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 100, jobs));
    TEST_ASSERT_EQUAL_INT(0, kit_claim(a, "q", 100, jobs));
    kit_do(a, "SELECT pgwork.queue_rate('q', 1000, 1, 1)"); /* the burst is back at once */
    TEST_ASSERT_EQUAL_INT(1, claim_soon(1));
}

void test_jobs_that_waited_for_a_rate_and_are_gone_hold_up_nobody(void)
{
    kit_do(a, "SELECT pgwork.queue_rate('q', 1, 1500, 1)");
    put(5, "NULL");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, jobs));
    TEST_ASSERT_EQUAL_INT(0, kit_claim(a, "q", 1, jobs));
    kit_do(a, "SELECT * FROM pgwork.cancel('q', ARRAY(SELECT min(id) FROM pgwork.job WHERE state = "
              "'gated'))");
    TEST_ASSERT_EQUAL_INT(1, claim_soon(1));
    kit_do(a, "SELECT pgwork.queue_purge('q', 'delayed')");
    put(1, "NULL");
    TEST_ASSERT_EQUAL_INT(1, claim_soon(1));
}

void test_a_dropped_queue_leaves_nothing_of_its_rate(void)
{
    slow_queue(1);
    put(5, "NULL");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, jobs));
    kit_do(a, "SELECT pgwork.queue_drop('q', true)");
    kit_do(a, "SELECT pgwork.queue_create('q')");
    put(5, "NULL");
    TEST_ASSERT_EQUAL_INT(5, kit_claim(a, "q", 5, jobs));
}

/* -- what a claim says ------------------------------------------------------------------------- */

void test_a_claim_says_when_to_come_again_only_where_a_rate_stops_it(void)
{
    put(1, "NULL");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 5, jobs));
    TEST_ASSERT_EQUAL_INT64(
        0, kit_number(a, "SELECT count(*) FROM pgwork.claim_batch('{q}', 5, 'x')"));
    slow_queue(1);
    put(2, "NULL");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 5, jobs));
    TEST_ASSERT_EQUAL_STRING(
        "q 0 t t", kit_text(a, "SELECT queue || ' ' || cardinality(ids) || ' ' || left((id IS "
                               "NULL)::text, 1) || ' ' || left((lease_until > server_time + "
                               "interval '300 days')::text, 1) FROM "
                               "pgwork.claim_batch('{q}', 5, 'x')"));
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT count(*) FROM pgwork.claim('{q}', 5, 'x')"));
    kit_do(a, "SELECT pgwork.queue_pause('q')");
    TEST_ASSERT_EQUAL_INT64(-1, gated_ms());
}

void test_bad_rates_are_named(void)
{
    kit_refused(a, "PW001", "n|\"0\"|1..1000000", "SELECT pgwork.queue_rate('q', 0)");
    kit_refused(a, "PW001", "per_ms|\"0\"", "SELECT pgwork.queue_rate('q', 1, 0)");
    kit_refused(a, "PW001", "burst|\"-1\"", "SELECT pgwork.group_rate('q', NULL, 1, 1, -1)");
    kit_refused(a, "PW001", "n|1000 * per_ms", "SELECT pgwork.queue_rate('q', 5000, 1)");
    kit_refused(a, "PW001", "grp|bytes", "SELECT pgwork.group_rate('q', '', 1)");
    kit_refused(a, "PW003", "no queue \"z\"", "SELECT pgwork.queue_rate('z', 1)");
    kit_refused(a, "PW003", "no queue \"z\"", "SELECT pgwork.group_rate('z', 'g', 1)");
    kit_refused(a, "PW001", "meta.rate_weight|\"0\"|1..1000000",
                "SELECT pgwork.enqueue('q', meta => '{\"rate_weight\": 0}')");
    kit_refused(a, "PW001", "meta.rate_weight|1..1000000",
                "SELECT pgwork.enqueue('q', meta => '{\"rate_weight\": \"5\"}')");
}

/* -- over any window --------------------------------------------------------------------------- */

enum { RACERS = 6, JOBS = 10, BURST = 4, RATE = 40 };

typedef struct grants {
    grant of[RACERS][JOBS];
} grants;

static void claim_often(PGconn *conn, int i, void *ctx)
{
    grants *all = ctx;
    const int n = 1 + i % 3;

    for (int k = 0; k < JOBS;) {
        grant *g = &all->of[i][k];
        PGresult *res;

        kit_do(conn, i % 2 ? "BEGIN" : "SELECT 1");
        g->begun = kit_number(conn, "SELECT (extract(epoch FROM clock_timestamp()) * 1e6)::bigint");
        res = kit_rows(conn,
                       "WITH c AS MATERIALIZED (SELECT * FROM pgwork.claim('{q}', %d, 'x')) SELECT "
                       "count(*), (extract(epoch FROM clock_timestamp()) * 1e6)::bigint, count(d) "
                       "FROM c LEFT JOIN LATERAL pgwork.complete('q', ARRAY[c.id], ARRAY[c.token]) "
                       "d ON true",
                       n);
        g->n = atoi(PQgetvalue(res, 0, 0));
        g->ended = atoll(PQgetvalue(res, 0, 1));
        PQclear(res);
        if (i % 2) kit_do(conn, g->n > 0 && k % 5 == 4 ? "ROLLBACK" : "COMMIT");
        if (g->n > 0 && i % 2 && k % 5 == 4)
            g->n = 0, k++; /* it has taken nothing */
        else if (g->n > 0)
            k++;
        else
            kit_sleep_ms(1);
    }
}

static long long race(bool group)
{
    static grants all;

    kit_do(a, "SELECT pgwork.queue_purge('q', 'all'), pgwork.queue_rate('q', NULL)");
    kit_do(a,
           "SELECT pgwork.group_set('q', group_limit => 1000), pgwork.group_rate('q', NULL, NULL)");
    if (group)
        kit_do(a, "SELECT pgwork.group_rate('q', 'x', %d, 1000, %d)", RATE, BURST);
    else
        kit_do(a, "SELECT pgwork.queue_rate('q', %d, 1000, %d)", RATE, BURST);
    for (int i = 0; i < 20; i++) put(100, group ? "'{x}'" : "NULL");
    kit_race(RACERS, claim_often, &all);
    return window_excess(&all.of[0][0], RACERS * JOBS, BURST, RATE);
}

void test_no_window_has_more_admissions_than_its_length_and_the_burst_allow(void)
{
    TEST_ASSERT_TRUE(race(false) <= 0);
    TEST_ASSERT_TRUE(race(true) <= 0);
}

/* The check sees it. */
void test_a_rate_that_is_not_kept_is_found_out(void)
{
    static const char *const mutants[][3] = {
        {"_rates_now", "now_ns + t.step * g.burst", "now_ns - t.step * g.burst"},
        {"_note_rates", "t.tat + p.taken * t.step", "t.tat + p.taken * t.step / 2"},
        {"_rates_now", "- s.tat) / s.step", "- s.tat) / s.step + 3"},
        {"_note_rates", "n.weight IS NOT NULL OR n.next > n.now_ns", "random() < 0.8"},
    };

    for (size_t i = 0; i < sizeof(mutants) / sizeof(mutants[0]); i++) {
        kit_mutate(a, mutants[i][0], mutants[i][1], mutants[i][2]);
        TEST_ASSERT_TRUE_MESSAGE(race(false) > 0, mutants[i][2]);
        kit_restore();
    }
}

/* -- in C -------------------------------------------------------------------------------------- */

static int show_queue(const pgw_queue_info *q, void *arg)
{
    snprintf(arg, 100, "%s %d %d %lld %d %d", q->name, q->limit, q->rate ? q->rate->n : 0,
             q->rate ? (long long)q->rate->per_ms : 0, q->rate ? q->rate->burst : 0,
             q->next_us > 0);
    return 0;
}

static int show_group(const pgw_group_info *g, void *arg)
{
    snprintf(arg, 100, "%s %d %d %d", g->group, g->rate ? g->rate->n : 0,
             g->rate ? g->rate->burst : 0, g->next_us > 0);
    return 0;
}

void test_rates_are_set_and_shown_in_c(void)
{
    pgw_rate_opts o = PGW_RATE_OPTS_INIT;
    char text[100] = "";

    o.n = 2, o.per_ms = YEAR_MS;
    ASSERT_ST(PGW_OK, pgw_queue_rate(h, "q", &o), h);
    ASSERT_ST(PGW_OK, pgw_queue_limit(h, "q", 7), h);
    put(3, "NULL");
    TEST_ASSERT_EQUAL_INT(2, kit_claim(a, "q", 5, jobs));
    ASSERT_ST(PGW_OK, pgw_queues_each(h, NULL, show_queue, text), h);
    TEST_ASSERT_EQUAL_STRING("q 7 2 31536000000 2 1", text);
    ASSERT_ST(PGW_OK, pgw_queue_rate(h, "q", NULL), h);
    ASSERT_ST(PGW_OK, pgw_queue_limit(h, "q", PGW_UNLIMITED), h);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 5, jobs));
    ASSERT_ST(PGW_OK, pgw_queues_each(h, NULL, show_queue, text), h);
    TEST_ASSERT_EQUAL_STRING("q -1 0 0 0 0", text);
    o.burst = 1;
    ASSERT_ST(PGW_OK, pgw_group_rate(h, "q", "g", &o), h);
    put(2, "'{g}'");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 5, jobs));
    finish(&jobs[0]);
    TEST_ASSERT_EQUAL_INT(0, kit_claim(a, "q", 5, jobs));
    ASSERT_ST(PGW_OK, pgw_groups_each(h, "q", NULL, show_group, text), h);
    TEST_ASSERT_EQUAL_STRING("g 2 1 1", text);
    ASSERT_ST(PGW_OK, pgw_group_rate(h, "q", "g", NULL), h);
    ASSERT_ST(PGW_OK, pgw_groups_each(h, "q", NULL, show_group, text), h);
    TEST_ASSERT_EQUAL_STRING("g 0 0 0", text);
    o.n = 0;
    ASSERT_ST(PGW_EINVAL, pgw_queue_rate(h, "q", &o), h);
    ASSERT_ST(PGW_EINVAL, pgw_group_rate(h, "q", "", &o), h);
}

static pgw_status claim(pgw_batch **batch, int64_t wait_ms)
{
    static const char *const queues[] = {"q"};
    pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;

    o.queues = queues, o.queues_count = 1, o.max = 5, o.wait_ms = wait_ms;
    return pgw_claim(h, &o, batch);
}

void test_a_claim_in_c_knows_when_to_come_again_and_waits_no_longer(void)
{
    pgw_batch *batch = NULL;

    kit_do(a, "SELECT pgwork.queue_rate('q', 1, 1500, 1)");
    put(2, "NULL");
    TEST_ASSERT_EQUAL_INT64(PGW_UNLIMITED, pgw_gated_ms(h));
    ASSERT_ST(PGW_OK, claim(&batch, 0), h);
    pgw_batch_free(batch);
    ASSERT_ST(PGW_OUTCOME_EMPTY, claim(&batch, 0), h);
    TEST_ASSERT_NULL(batch);
    TEST_ASSERT_TRUE(pgw_gated_ms(h) >= 0 && pgw_gated_ms(h) <= 1500);
    ASSERT_ST(PGW_OK, claim(&batch, 60000), h);
    pgw_batch_free(batch);
    TEST_ASSERT_EQUAL_INT64(PGW_UNLIMITED, pgw_gated_ms(h));
    ASSERT_ST(PGW_OUTCOME_EMPTY, claim(&batch, 0), h);
    TEST_ASSERT_EQUAL_INT64(PGW_UNLIMITED, pgw_gated_ms(h));
}

static atomic_int ran;

static pgw_verdict run(pgw_task *task, void *arg)
{
    (void)task, (void)arg;
    atomic_fetch_add(&ran, 1);
    return PGW_VERDICT_DONE;
}

/* It polls once an hour, and nobody else is there: only the rate can wake it up. */
void test_a_worker_comes_again_when_a_rate_lets_a_job_pass(void)
{
    static const char *const queues[] = {"q"};
    pgw_worker_spec spec = PGW_WORKER_SPEC_INIT;
    pgw_worker *w = NULL;
    pgw_conf *conf = NULL;
    pgw_stop *stop = NULL;

    kit_do(a, "SELECT pgwork.queue_rate('q', 20, 1000, 1)");
    put(8, "NULL");
    atomic_store(&ran, 0);
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_conf_new(&conf));
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_conf_set(conf, "dsn", pgtemp_dsn()));
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_conf_set(conf, "schema.check", "off"));
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_conf_set(conf, "worker.until_empty", "on"));
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_conf_set(conf, "poll.min_ms", "3600000"));
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_conf_set(conf, "poll.max_ms", "3600000"));
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_stop_new(&stop));
    spec.queues = queues, spec.queues_count = 1, spec.handler = run;
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_worker_new(conf, &spec, &w));
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_worker_run(w, stop));
    TEST_ASSERT_EQUAL_INT(8, atomic_load(&ran));
    pgw_worker_free(w);
    pgw_stop_free(stop);
    pgw_conf_free(conf);
}
