/* Queues that share a semaphore: no more of their jobs are leased than it has permits, whatever
 * dies, and none of the queues and sessions that want a permit is passed over for ever. */
#include "unity.h"
#include "pgw_all.h"
#include "itpgw.h"
#include "pgtemp.h"
#include "sqlkit.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static PGconn *a, *b, *c;
static struct took jobs[100];

#define DEADLINE_MS 20000 /* more than any wait that goes well */

void setUp(void)
{
    kit_begin();
    a = kit_open();
    b = kit_open();
    c = kit_open();
    kit_do(a, "SELECT pgwork.sema_drop(name, true) FROM pgwork.sema_list()");
    kit_do(a, "SELECT pgwork.queue_create('q', backoff_ms => 0), pgwork.queue_create('r', "
              "backoff_ms => 0)");
}

void tearDown(void)
{
    kit_end();
}

static void share(int permits)
{
    kit_do(a, "SELECT pgwork.sema_create('s', %d)", permits);
    kit_do(a, "SELECT pgwork.queue_semaphore('q', 's'), pgwork.queue_semaphore('r', 's')");
}

static void fill(const char *queue, int n)
{
    kit_do(a, "SELECT count(*) FROM pgwork.enqueue_many('%s', array_fill('1'::jsonb, ARRAY[%d]))",
           queue, n);
}

static void tick(PGconn *conn)
{
    kit_do(conn, "SELECT * FROM pgwork.promote()");
    kit_do(conn, "SELECT * FROM pgwork.maintain()");
}

/* On a slow machine a second may pass between two looks of a queue, which would lose its turn. */
static void wait_longer_for_queues(void)
{
    kit_mutate(a, "_permit_line", "1000000000", "100000000000");
}

/* Claims until it gets jobs: a claim that found too few permits looks again after 100 ms. */
static int claim(PGconn *conn, const char *queue, int n, struct took *out)
{
    const long long end = kit_ms() + DEADLINE_MS;

    for (;;) {
        const int got = kit_claim(conn, queue, n, out);

        if (got > 0) return got;
        TEST_ASSERT_TRUE_MESSAGE(kit_ms() < end, queue);
        kit_sleep_ms(5);
    }
}

static void ok(const char *verb, const struct took *job, const char *more)
{
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, verb, job, more));
}

static int taken(void)
{
    return (int)kit_number(a, "SELECT taken FROM pgwork.sema_list('s')");
}

static bool take(PGconn *conn, char token[64])
{
    snprintf(
        token, 64, "%s",
        kit_text(
            conn,
            "SELECT coalesce(token::text, '') FROM pgwork.sema_acquire('s', ttl_ms => 3600000)"));
    return *token != '\0';
}

static void give(PGconn *conn, const char *token)
{
    kit_do(conn, "SELECT pgwork.sema_release('s', '%s')", token);
}

/* -- the limit --------------------------------------------------------------------------------- */

void test_jobs_of_two_queues_and_sessions_hold_no_more_permits_than_there_are(void)
{
    char token[64];

    share(4);
    fill("q", 5);
    fill("r", 5);
    TEST_ASSERT_TRUE(take(c, token));
    TEST_ASSERT_EQUAL_INT(2, kit_claim(a, "q", 2, jobs));
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "r", 10, jobs + 2));
    TEST_ASSERT_EQUAL_INT(0, kit_claim(b, "q", 10, jobs + 3));
    TEST_ASSERT_EQUAL_STRING(
        "", kit_text(c, "SELECT coalesce(token::text, '') FROM pgwork.sema_acquire('s')"));
    TEST_ASSERT_EQUAL_INT(4, taken());
    give(c, token);
    TEST_ASSERT_EQUAL_INT(1, claim(b, "r", 10, jobs + 3));
    TEST_ASSERT_EQUAL_INT(4, taken());
    TEST_ASSERT_EQUAL_INT64(2, kit_number(a, "SELECT leased FROM pgwork.depth('q')"));
    TEST_ASSERT_EQUAL_INT64(2, kit_number(a, "SELECT leased FROM pgwork.depth('r')"));
}

void test_a_permit_is_free_whenever_its_job_is_no_longer_leased(void)
{
    share(1);
    fill("q", 1);
    claim(a, "q", 1, jobs);
    ok("complete", &jobs[0], "");
    TEST_ASSERT_EQUAL_INT(0, taken());
    fill("q", 1);
    claim(a, "q", 1, jobs);
    ok("fail", &jobs[0], ", 'x', 60000");
    TEST_ASSERT_EQUAL_INT(0, taken());
    kit_do(a, "SELECT pgwork.reschedule('q')");
    claim(a, "q", 1, jobs);
    ok("fail", &jobs[0], ", 'x', NULL, true");
    TEST_ASSERT_EQUAL_INT(0, taken());
    kit_do(a, "SELECT pgwork.redrive('q')");
    claim(a, "q", 1, jobs);
    ok("snooze", &jobs[0], ", 60000");
    TEST_ASSERT_EQUAL_INT(0, taken());
    kit_do(a, "SELECT pgwork.reschedule('q')");
    claim(a, "q", 1, jobs);
    kit_do(a, "SELECT pgwork.cancel('q', ARRAY[%lld]::bigint[])", jobs[0].id);
    ok("fail", &jobs[0], "");
    TEST_ASSERT_EQUAL_INT(0, taken());
    fill("q", 1);
    claim(a, "q", 1, jobs);
    kit_do(a, "SELECT pgwork.queue_drop('q', true)");
    TEST_ASSERT_EQUAL_INT(0, taken());
    fill("r", 1);
    TEST_ASSERT_EQUAL_INT(1, claim(b, "r", 1, jobs));
}

void test_a_requeued_job_that_nobody_claims_keeps_no_permit(void)
{
    share(2);
    fill("q", 2);
    fill("r", 1);
    TEST_ASSERT_EQUAL_INT(2, claim(a, "q", 2, jobs));
    ok("release", &jobs[0], "");
    kit_expire(a, "q");
    kit_do(a, "SELECT pgwork.reap()");
    for (const long long end = kit_ms() + DEADLINE_MS; taken() > 0;) {
        TEST_ASSERT_TRUE(kit_ms() < end);
        tick(a);
    }
    TEST_ASSERT_EQUAL_INT64(2, kit_number(a, "SELECT gated FROM pgwork.depth('q')"));
    TEST_ASSERT_EQUAL_STRING("stale", kit_say(a, "complete", &jobs[1], ""));
    TEST_ASSERT_EQUAL_INT(1, claim(b, "r", 2, jobs + 2));
    TEST_ASSERT_EQUAL_INT(1, claim(b, "q", 2, jobs + 3));
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT pgwork.queue_purge('q', 'delayed')"));
    TEST_ASSERT_EQUAL_INT(2, taken());
}

void test_a_claim_that_is_rolled_back_has_taken_no_permit(void)
{
    share(1);
    fill("q", 1);
    fill("r", 1);
    kit_do(a, "BEGIN");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, jobs));
    TEST_ASSERT_EQUAL_INT(0, kit_claim(b, "r", 1, jobs + 1));
    kit_do(a, "ROLLBACK");
    TEST_ASSERT_EQUAL_INT(0, taken());
    TEST_ASSERT_EQUAL_INT(1, claim(b, "r", 1, jobs + 1));
    TEST_ASSERT_EQUAL_INT(1, taken());
}

void test_a_claim_with_an_older_snapshot_takes_no_permit(void)
{
    share(1);
    fill("q", 1);
    kit_do(a, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    TEST_ASSERT_EQUAL_INT(0, kit_claim(a, "q", 1, jobs));
    kit_do(a, "COMMIT");
    TEST_ASSERT_EQUAL_INT(1, claim(a, "q", 1, jobs));
}

void test_limits_rates_and_groups_hold_together_with_a_semaphore(void)
{
    share(3);
    kit_do(a, "SELECT pgwork.queue_limit('q', 2), pgwork.queue_rate('r', 1, 86400000)");
    fill("q", 5);
    fill("r", 5);
    TEST_ASSERT_EQUAL_INT(2, claim(a, "q", 5, jobs));
    TEST_ASSERT_EQUAL_INT(1, claim(b, "r", 5, jobs + 2));
    for (int i = 0; i < 3; i++) ok("complete", &jobs[i], "");
    TEST_ASSERT_EQUAL_INT(0, kit_claim(b, "r", 5, jobs));
    kit_do(a, "SELECT pgwork.queue_rate('r', NULL), pgwork.queue_limit('q', NULL)");
    TEST_ASSERT_EQUAL_INT(3, claim(b, "r", 5, jobs));
    ok("complete", &jobs[0], "");
    kit_do(a, "SELECT pgwork.enqueue('r', grp => 'g', priority => 0) FROM generate_series(1, 2)");
    TEST_ASSERT_EQUAL_INT(1, claim(b, "r", 5, jobs));
    TEST_ASSERT_EQUAL_INT(3, taken());
}

void test_a_lower_number_of_permits_drains(void)
{
    share(4);
    fill("q", 10);
    TEST_ASSERT_EQUAL_INT(4, claim(a, "q", 10, jobs));
    kit_do(a, "SELECT pgwork.sema_resize('s', 2)");
    ok("complete", &jobs[0], "");
    ok("complete", &jobs[1], "");
    TEST_ASSERT_EQUAL_INT(0, kit_claim(a, "q", 10, jobs + 4));
    ok("complete", &jobs[2], "");
    TEST_ASSERT_EQUAL_INT(1, claim(a, "q", 10, jobs + 4));
    ok("complete", &jobs[3], "");
    TEST_ASSERT_EQUAL_INT(1, claim(a, "q", 10, jobs + 5));
    TEST_ASSERT_EQUAL_INT(2, taken());
    kit_do(a, "SELECT pgwork.sema_resize('s', 5)");
    TEST_ASSERT_EQUAL_INT(3, claim(a, "q", 10, jobs + 6));
}

void test_a_claim_does_not_wait_for_a_resize(void)
{
    share(1);
    fill("q", 1);
    kit_do(b, "BEGIN; SELECT pgwork.sema_resize('s', 2)");
    TEST_ASSERT_EQUAL_INT(0, kit_claim(a, "q", 1, jobs));
    kit_do(b, "COMMIT");
    TEST_ASSERT_EQUAL_INT(1, claim(a, "q", 1, jobs));
}

void test_a_queue_without_its_semaphore_is_free(void)
{
    share(1);
    fill("q", 5);
    TEST_ASSERT_EQUAL_INT(1, claim(a, "q", 5, jobs));
    TEST_ASSERT_EQUAL_STRING("s", kit_text(a, "SELECT semaphore FROM pgwork.queue_limits('q')"));
    kit_refused(a, "PW006", "s|limits queue|q", "SELECT pgwork.sema_drop('s', true)");
    kit_do(a, "SELECT pgwork.queue_semaphore('q', NULL), pgwork.queue_semaphore('r', NULL)");
    TEST_ASSERT_EQUAL_INT(4, claim(a, "q", 5, jobs + 1));
    TEST_ASSERT_EQUAL_INT(1, taken());
    ok("complete", &jobs[0], "");
    kit_do(a, "SELECT pgwork.sema_drop('s')");
    TEST_ASSERT_EQUAL_INT64(
        0, kit_number(a, "SELECT count(*) FROM pgwork.queue_limits() WHERE num_nonnulls(semaphore, "
                         "queue_limit, rate_n, next_at) > 0"));
}

void test_holders_are_named_by_queue_and_job(void)
{
    char text[100];

    share(1);
    fill("q", 1);
    claim(a, "q", 1, jobs);
    snprintf(text, sizeof(text), "1 job %lld of queue \"q\" t", (long long)jobs[0].id);
    TEST_ASSERT_EQUAL_STRING(text, kit_text(a, "SELECT format('%%s %%s %%s', permits, holder, "
                                               "until IS NULL AND taken_at IS NOT NULL) FROM "
                                               "pgwork.sema_holders('s')"));
}

static int show_queue(const pgw_queue_info *q, void *arg)
{
    snprintf(arg, 100, "%s %s", q->name, q->semaphore ? q->semaphore : "-");
    return strcmp(q->name, "q") == 0;
}

static int show_grant(const pgw_sema_grant *g, void *arg)
{
    snprintf(arg, 100, "%d %d", g->until_us == PGW_NONE,
             strstr(g->holder, "of queue \"q\"") != NULL);
    return 1;
}

void test_a_semaphore_is_given_to_a_queue_in_c(void)
{
    char text[100] = "";
    pgw *h = it_open_bare();

    ASSERT_ST(PGW_OK, pgw_sema_create(h, "s", 1), h);
    ASSERT_ST(PGW_OK, pgw_queue_semaphore(h, "q", "s"), h);
    ASSERT_ST(PGW_OK, pgw_queues_each(h, NULL, show_queue, text), h);
    TEST_ASSERT_EQUAL_STRING("q s", text);
    fill("q", 1);
    claim(a, "q", 1, jobs);
    ASSERT_ST(PGW_OK, pgw_sema_grants_each(h, "s", show_grant, text), h);
    TEST_ASSERT_EQUAL_STRING("1 1", text);
    ASSERT_ST(PGW_ELOCKED, pgw_sema_drop(h, "s", true), h);
    ASSERT_ST(PGW_ENOTFOUND, pgw_queue_semaphore(h, "q", "nosuch"), h);
    ASSERT_ST(PGW_OK, pgw_queue_semaphore(h, "q", NULL), h);
    ASSERT_ST(PGW_OK, pgw_queues_each(h, NULL, show_queue, text), h);
    TEST_ASSERT_EQUAL_STRING("q -", text);
    pgw_close(h);
}

void test_jobs_of_a_load_wait_for_a_permit(void)
{
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw *h = it_open_bare();
    pgw_load *load;

    share(1);
    job.payload = "1";
    ASSERT_ST(PGW_OK, pgw_load_begin(h, "q", &load), h);
    for (int i = 0; i < 3; i++) ASSERT_ST(PGW_OK, pgw_load_add(load, &job), h);
    ASSERT_ST(PGW_OK, pgw_load_end(load, true, NULL), h);
    TEST_ASSERT_EQUAL_INT(0, kit_claim(a, "q", 3, jobs));
    tick(a);
    TEST_ASSERT_EQUAL_INT(1, claim(a, "q", 3, jobs));
    TEST_ASSERT_EQUAL_INT(1, taken());
    pgw_close(h);
}

void test_names_are_checked(void)
{
    kit_do(a, "SELECT pgwork.sema_create('s', 1)");
    kit_refused(a, "PW003", "nosuch", "SELECT pgwork.queue_semaphore('nosuch', 's')");
    kit_refused(a, "PW003", "no semaphore|nosuch", "SELECT pgwork.queue_semaphore('q', 'nosuch')");
    kit_refused(a, "PW001", "name", "SELECT pgwork.queue_semaphore('q', '')");
    kit_refused(a, "PW001", "name|255", "SELECT pgwork.queue_semaphore('q', repeat('x', 256))");
}

/* -- nobody is passed over for ever ------------------------------------------------------------ */

void test_queues_that_wait_for_one_permit_take_turns(void)
{
    share(1);
    fill("q", 20);
    fill("r", 20);
    wait_longer_for_queues();
    kit_do(a, "SELECT pgwork.queue_create('t'), pgwork.queue_semaphore('t', 's')");
    fill("t", 20);
    for (int i = 0; i < 3; i++)
        kit_claim(b, (const char *[]){"q", "r", "t"}[i], 1, jobs); /* all wait but q */
    for (int i = 0; i < 9; i++) {
        static const char *const turn[] = {"q", "r", "t"};

        if (i > 0) claim(b, turn[i % 3], 1, jobs);
        for (int j = 1; j <= 2; j++)
            TEST_ASSERT_EQUAL_INT(0, kit_claim(b, turn[(i + j) % 3], 1, jobs + 1));
        /* the queue that finishes asks first, and in the same call */
        TEST_ASSERT_EQUAL_INT64(0, kit_number(b,
                                              "SELECT count(*) FROM pgwork.claim('{%s}', 1, 'x', "
                                              "done_ids => '{%lld}', done_tokens => "
                                              "'{%s}')",
                                              jobs[0].queue, (long long)jobs[0].id, jobs[0].token));
    }
}

void test_sessions_and_jobs_take_turns(void)
{
    char token[64];

    share(1);
    fill("q", 20);
    TEST_ASSERT_TRUE(take(c, token));
    wait_longer_for_queues();
    for (int i = 0; i < 3; i++) {
        kit_claim(b, "q", 1, jobs);
        give(c, token);
        TEST_ASSERT_FALSE_MESSAGE(take(c, token),
                                  "a session took the permit of which a queue was in need");
        claim(b, "q", 1, jobs);
        kit_send(c, "SELECT coalesce(token::text, '') FROM pgwork.sema_wait('s', 1, 3600000, NULL, "
                    "false, 0, false)");
        TEST_ASSERT_EQUAL_STRING("", kit_answer(c)); /* it is at the head now */
        ok("complete", &jobs[0], "");
        kit_sleep_ms(150); /* longer than the queue waits: it looks, and takes nothing */
        TEST_ASSERT_EQUAL_INT(0, kit_claim(b, "q", 1, jobs));
        snprintf(
            token, sizeof(token), "%s",
            kit_text(c,
                     "SELECT token FROM pgwork.sema_wait('s', 1, 3600000, NULL, false, 0, true)"));
        TEST_ASSERT_EQUAL_INT(36, (int)strlen(token));
    }
}

void test_a_queue_that_does_not_look_any_more_stops_nobody(void)
{
    share(1);
    fill("q", 2);
    fill("r", 2);
    claim(a, "q", 1, jobs);
    TEST_ASSERT_EQUAL_INT(0, kit_claim(b, "r", 1, jobs + 1));
    ok("complete", &jobs[0], "");
    TEST_ASSERT_EQUAL_INT(1, claim(a, "q", 1, jobs)); /* r had its second */
}

void test_a_fair_worker_of_a_busy_queue_claims_gated_jobs_too(void)
{
    share(1);
    kit_do(a, "SELECT pgwork.queue_create('plain')");
    fill("plain", 100);
    fill("q", 1);
    TEST_ASSERT_EQUAL_STRING(
        "q", kit_text(b, "SELECT queue FROM pgwork.claim('{q,plain}', 1, 'x', in_order => true)"));
}

/* -- many at once ------------------------------------------------------------------------------ */

enum { RACERS = 8, EACH = 25 };
static atomic_int running, most, done;

static void work(PGconn *conn, const char *queue)
{
    struct took job;
    int now, was;

    if (kit_claim(conn, queue, 1, &job) == 0) {
        kit_sleep_ms(10);
        return;
    }
    now = atomic_fetch_add(&running, 1) + 1;
    for (was = atomic_load(&most); now > was && !atomic_compare_exchange_weak(&most, &was, now);)
        continue;
    if (job.id % 7 == 0) kit_do(conn, "SELECT pg_sleep(0.01)");
    atomic_fetch_sub(&running, 1);
    if (job.id % 5 == 0 && job.attempt == 1) {
        kit_say(conn, "fail", &job, ", 'x', 0"); /* ready again at once */
    } else if (job.id % 6 == 0 && job.attempt == 1) {
        kit_say(conn, "fail", &job, ", 'x', 1");
    } else {
        kit_say(conn, "complete", &job, "");
        atomic_fetch_add(&done, 1);
    }
}

static void race(PGconn *conn, int i, void *ctx)
{
    const long long end = kit_ms() + 4 * DEADLINE_MS;
    char token[64];

    (void)ctx;
    kit_together();
    while (atomic_load(&done) < 4 * EACH && kit_ms() < end) {
        if (i == 0) {
            tick(conn);
            kit_sleep_ms(100);
        } else if (i == 1 && take(conn, token)) {
            int now = atomic_fetch_add(&running, 1) + 1, was = atomic_load(&most);

            while (now > was && !atomic_compare_exchange_weak(&most, &was, now)) continue;
            kit_sleep_ms(5);
            atomic_fetch_sub(&running, 1);
            give(conn, token);
        } else {
            work(conn, i % 2 ? "q" : "r");
        }
    }
}

void test_a_crowd_over_two_queues_never_has_more_permits_than_there_are(void)
{
    share(3);
    fill("q", 2 * EACH);
    fill("r", 2 * EACH);
    running = most = done = 0;
    kit_race(RACERS, race, NULL);
    TEST_ASSERT_EQUAL_INT(4 * EACH, done);
    TEST_ASSERT_TRUE(most <= 3);
    TEST_ASSERT_EQUAL_INT(0, taken());
    TEST_ASSERT_EQUAL_STRING("0 0 0 0 0", kit_places(a, "q"));
    TEST_ASSERT_EQUAL_STRING("0 0 0 0 0", kit_places(a, "r"));
}

/* Ends all leases, and sees whether each leased job has a permit, in one snapshot. */
static void reap(PGconn *conn)
{
    tick(conn);
    if (kit_number(
            conn,
            "SELECT count(*) FROM pgwork.sema_list('s') l WHERE l.taken > l.permits OR l.taken < "
            "(SELECT count(*) FROM pgwork.job WHERE state = 'leased')") > 0)
        atomic_fetch_add(&most, 1);
    kit_expire(conn, "q");
    kit_expire(conn, "r");
    kit_do(conn, "SELECT * FROM pgwork.reap()");
    kit_sleep_ms(50);
}

static void die(PGconn *conn, int i, void *ctx)
{
    const long long end = kit_ms() + 4 * DEADLINE_MS;
    struct took job;

    (void)ctx;
    kit_together();
    for (int n = i; atomic_load(&done) < 4 * EACH && kit_ms() < end; n++) {
        if (i == 0) {
            reap(conn);
        } else if (n % 7 == 0) { /* a claim that never was */
            kit_do(conn, "BEGIN");
            kit_claim(conn, n % 2 ? "q" : "r", 1, &job);
            kit_do(conn, "ROLLBACK");
        } else if (kit_claim(conn, i % 2 ? "q" : "r", 1, &job) == 0) {
            kit_sleep_ms(10);
        } else if (n % 3 > 0 &&
                   strcmp(kit_say(conn, "complete", &job, ""), "ok") == 0) { /* or it dies */
            atomic_fetch_add(&done, 1);
        }
    }
}

static void crowd_that_dies(void)
{
    fill("q", 2 * EACH);
    fill("r", 2 * EACH);
    most = done = 0;
    kit_race(RACERS, die, NULL);
    TEST_ASSERT_EQUAL_INT(4 * EACH, done);
}

void test_each_leased_job_has_a_permit_whoever_dies(void)
{
    static const char *const mutants[][3] = {
        {"_open_gates", "THEN cardinality(permits) END", "THEN 10 END"},
        {"_is_admitted", "RETURN EXISTS", "RETURN random() < 0.9 AND EXISTS"},
    };

    share(3);
    kit_do(a, "SELECT pgwork.queue_set(q, max_attempts => -1) FROM unnest('{q,r}'::text[]) q");
    crowd_that_dies();
    TEST_ASSERT_EQUAL_INT_MESSAGE(0, most, "leased jobs without permits");
    TEST_ASSERT_EQUAL_INT(0, taken());
    for (size_t i = 0; i < sizeof(mutants) / sizeof(mutants[0]); i++) { /* the check sees them */
        kit_mutate(a, mutants[i][0], mutants[i][1], mutants[i][2]);
        crowd_that_dies();
        TEST_ASSERT_TRUE_MESSAGE(most > 0, mutants[i][2]);
        kit_restore();
    }
}
