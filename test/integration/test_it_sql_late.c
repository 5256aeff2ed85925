/* Late commits: a job whose transaction commits long after later jobs were claimed, or whose claim
 * is rolled back, is claimed within a few ticks of the reaper. So is every job beside it. Longer
 * than 600 lines: each test is a schedule of four sessions and a reaper, with the same steps. */
#include "unity.h"
#include "pgtemp.h"
#include "sqlkit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static PGconn *a, *b, *c, *reaper;

void setUp(void)
{
    kit_begin();
    a = kit_open();
    b = kit_open();
    c = kit_open();
    reaper = kit_open();
    kit_do(a, "SELECT pgwork.setting('low_water_marks', 'on');"
              "SELECT pgwork.queue_create('q', lease_ms => 3600000)");
}

void tearDown(void)
{
    kit_end();
}

static void ticks(int n)
{
    while (n-- > 0) kit_do(reaper, "SELECT pgwork.maintain()");
}

static void fill(int n)
{
    kit_do(a, "SELECT count(*) FROM pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[%d]))",
           n);
}

/* Jobs to look out for: each with a row of its own, or a hundred to a row. */
static void put(PGconn *conn, int n, const char *kind)
{
    kit_do(conn, "SELECT count(pgwork.enqueue('q', kind => '%s')) FROM generate_series(1, %d)",
           kind, n);
}

static void put_late(PGconn *conn, int n)
{
    put(conn, n, "late");
}

static void put_late_many(PGconn *conn, int n)
{
    kit_do(conn,
           "SELECT count(*) FROM pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[%d]), "
           "'{late}')",
           n);
}

/* -- claimers ---------------------------------------------------------------------------------- */

/* Jobs that it holds, as arrays for its next call. */
struct claimer {
    PGconn *conn;
    int n;
    char ids[22000], tokens[40000];
};

static void start(struct claimer *one, PGconn *conn, int n)
{
    one->conn = conn;
    one->n = n;
    strcpy(one->ids, "{}");
    strcpy(one->tokens, "{}");
}

/* Completes its jobs and claims again, in one call; how many late ones came. */
static int turn(struct claimer *one)
{
    PGresult *res = kit_rows(
        one->conn,
        "SELECT count(*) FILTER (WHERE kind = 'late'), count(*) FILTER (WHERE attempt = 0),"
        " coalesce(array_agg(id), '{}'), coalesce(array_agg(token), '{}')"
        " FROM pgwork.claim('{q}', %d, 'turns', 3600000, '%s', '%s')",
        one->n, one->ids, one->tokens);
    int late = atoi(PQgetvalue(res, 0, 0));

    TEST_ASSERT_EQUAL_STRING_MESSAGE("0", PQgetvalue(res, 0, 1), "a completion was refused");
    snprintf(one->ids, sizeof(one->ids), "%s", PQgetvalue(res, 0, 2));
    snprintf(one->tokens, sizeof(one->tokens), "%s", PQgetvalue(res, 0, 3));
    PQclear(res);
    return late;
}

/* Two claimers go on and never run out of other jobs, while the reaper ticks: so many late ones
 * come. */
static void chase_by(int late, int first_n, int other_n)
{
    static struct claimer first, other;
    long long end = kit_ms() + 30000;
    int got = 0;

    start(&first, b, first_n);
    start(&other, reaper, other_n);
    put(a, 2 * (first_n + other_n) + 100, "");
    while (got < late) {
        TEST_ASSERT_TRUE_MESSAGE(kit_ms() < end, "late jobs are not claimed");
        put(a, first_n + other_n, "");
        got += turn(&first) + turn(&other);
        ticks(1);
    }
    TEST_ASSERT_EQUAL_INT(late, got);
}

static void chase(int late)
{
    chase_by(late, 1000, 1);
}

/* Claims and completes all that is ready; how many late ones came. */
static int drain(void)
{
    static struct claimer all;
    int late = 0;

    start(&all, b, 1000);
    do late += turn(&all);
    while (strcmp(all.ids, "{}") != 0);
    return late;
}

/* All come, so many late ones among them. A tick whose time is up, on a busy machine, leaves some
 * to the next. */
static void drain_late(int late)
{
    const long long end = kit_ms() + 30000;
    int got = drain();

    for (; got < late && kit_ms() < end; got += drain()) ticks(1);
    TEST_ASSERT_EQUAL_INT(late, got);
}

/* So many positions are drawn, and jobs behind them come and go: the marks follow. */
static void go_on(int positions)
{
    kit_do(a, "SELECT count(nextval('pgwork.position')) FROM generate_series(1, %d)", positions);
    fill(150);
    TEST_ASSERT_EQUAL_INT(0, drain());
    ticks(3);
    fill(3);
    ticks(3);
    TEST_ASSERT_EQUAL_INT(0, drain());
    ticks(3);
}

/* -- late enqueues ----------------------------------------------------------------------------- */

void test_a_late_job_is_claimed_beside_busy_claimers(void)
{
    static const int behind[] = {1, 1000, 100000};

    for (int i = 0; i < 3; i++) {
        kit_do(c, "BEGIN");
        put_late(c, 1);
        go_on(behind[i]);
        kit_do(c, "COMMIT");
        chase(1);
        drain();
    }
}

void test_late_jobs_are_claimed_beside_claims_of_one_that_complete_the_last(void)
{
    kit_do(c, "BEGIN");
    put_late(c, 20);
    go_on(1000);
    kit_do(c, "COMMIT");
    chase_by(20, 1, 1);
}

void test_a_thousand_late_jobs_are_claimed(void)
{
    kit_do(c, "BEGIN");
    put_late(c, 1000);
    go_on(1000);
    kit_do(c, "COMMIT");
    chase(1000);
}

void test_late_jobs_far_apart_are_claimed(void)
{
    kit_do(c, "BEGIN");
    for (int i = 0; i < 50; i++) {
        put_late(c, 1);
        kit_do(a, "SELECT count(nextval('pgwork.position')) FROM generate_series(1, 3000)");
    }
    go_on(1000);
    kit_do(c, "COMMIT");
    chase(50);
}

void test_a_bulk_load_that_commits_late_is_claimed(void)
{
    kit_do(c, "BEGIN");
    put_late_many(c, 5000);
    go_on(1000);
    kit_do(c, "COMMIT");
    chase(5000);
}

void test_a_copy_that_commits_late_is_claimed(void)
{
    char line[64];
    int queue = (int)kit_number(a, "SELECT id FROM pgwork.queue WHERE name = 'q'");

    kit_do(c, "BEGIN; SELECT pg_current_xact_id()");
    PQclear(PQexec(c, "COPY pgwork.live_job (queue, kind) FROM STDIN"));
    for (int i = 0; i < 3000; i++) {
        int length = snprintf(line, sizeof(line), "%d\tlate\n", queue);

        TEST_ASSERT_EQUAL_INT(1, PQputCopyData(c, line, length));
    }
    TEST_ASSERT_EQUAL_INT(1, PQputCopyEnd(c, NULL));
    kit_answer(c);
    go_on(1000);
    kit_do(c, "COMMIT");
    chase(3000);
}

void test_late_jobs_among_and_before_what_was_claimed_are_claimed(void)
{
    kit_do(b, "BEGIN");
    put_late(b, 3);
    fill(5);
    kit_do(c, "BEGIN");
    put_late_many(c, 7);
    fill(5);
    put_late(b, 2);
    kit_do(reaper, "SELECT count(*) FROM pgwork.claim('{q}', 10, 'x')");
    ticks(3);
    fill(5);
    put_late(c, 1);
    ticks(3);
    kit_do(reaper, "SELECT count(*) FROM pgwork.claim('{q}', 10, 'x')");
    ticks(3);
    kit_do(c, "COMMIT");
    ticks(1);
    kit_do(b, "COMMIT");
    ticks(2);
    drain_late(13);
}

static long long number_after(const char *text, const char *what)
{
    const char *at = strstr(text, what);

    return at ? atoll(at + strlen(what)) : 0;
}

/* Pages that a claim of five looks at, by a session that knows nothing of the queue. */
static long long pages_of_a_claim(void)
{
    PGconn *conn = kit_open();

    kit_do(conn, "SELECT * FROM pgwork.claim('{other}', 5, 'new')");
    const char *plan = kit_text(conn, "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)"
                                      " SELECT * FROM pgwork.claim('{q}', 5, 'new')");
    return number_after(plan, "\"Shared Hit Blocks\": ") +
           number_after(plan, "\"Shared Read Blocks\": ");
}

/* Between the late job and the others lie the rows of thousands that are done. */
void test_claims_beside_a_late_job_do_not_read_what_was_claimed_since(void)
{
    kit_do(a, "SELECT pgwork.queue_create('other')");
    kit_do(c, "BEGIN");
    put_late(c, 1);
    ticks(2);
    kit_do(a, "SELECT setval('pgwork.position', nextval('pgwork.position') + 3000000)");
    for (int i = 0; i < 4; i++) {
        put(a, 5000, "");
        kit_do(a, "SELECT pgwork.complete('q', array_agg(id), array_agg(token))"
                  " FROM pgwork.claim('{q}', 5000, 'x', apart => true)");
        ticks(1);
    }
    put(a, 100, "");
    ticks(3);
    const long long before = pages_of_a_claim();
    kit_do(c, "COMMIT");
    ticks(1);
    const long long beside = pages_of_a_claim();
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT count(*) FROM pgwork.job WHERE kind = 'late'"
                                             " AND state = 'leased'"));
    TEST_ASSERT_LESS_THAN_INT64(before + 200, beside);
}

/* The search may take long where a transaction was open for long. On a slow machine it is due again
 * at once, so there is more than one try. */
void test_a_late_job_does_not_wait_for_a_search_for_expired_leases(void)
{
    long long reaped = -1;
    struct took job;

    ticks(1);
    for (int i = 0; i < 8 && reaped != 0; i++) {
        put(a, 1, "");
        TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 1, &job));
        kit_do(c, "BEGIN");
        put_late(c, 1);
        ticks(3);
        kit_expire(a, "q");
        kit_sleep_ms(300);
        kit_do(c, "COMMIT");
        reaped = kit_number(reaper, "SELECT reaped FROM pgwork.maintain()");
    }
    TEST_ASSERT_EQUAL_INT64(0, reaped);
    for (long long end = kit_ms() + 20000; reaped == 0 && kit_ms() < end;)
        reaped = kit_number(reaper, "SELECT reaped FROM pgwork.maintain()");
    TEST_ASSERT_EQUAL_INT64(1, reaped);
}

void test_late_jobs_of_all_priorities_are_claimed(void)
{
    kit_do(c, "BEGIN; SELECT count(pgwork.enqueue('q', kind => 'late', priority => p)) FROM "
              "generate_series(0, 9) p");
    kit_do(a, "SELECT count(pgwork.enqueue('q', priority => p)) FROM generate_series(0, 9) p");
    go_on(1000);
    kit_do(c, "COMMIT");
    ticks(2);
    drain_late(10);
}

void test_a_prepared_transaction_is_late_too(void)
{
    kit_do(c, "BEGIN");
    put_late(c, 2);
    put_late_many(c, 200);
    ticks(1);
    kit_do(c, "PREPARE TRANSACTION 'late jobs'");
    go_on(1000);
    kit_do(c, "BEGIN"); /* the session goes on, and its next transaction ends */
    put_late(c, 1);
    ticks(2);
    kit_do(c, "ROLLBACK");
    kit_do(c, "COMMIT PREPARED 'late jobs'");
    chase(202);
    drain();
    put_late(a, 30);
    kit_do(c, "BEGIN; SELECT count(*) FROM pgwork.claim('{q}', 30, 'x')");
    kit_do(c, "PREPARE TRANSACTION 'late claim'");
    go_on(1000);
    kit_do(c, "ROLLBACK PREPARED 'late claim'");
    chase(30);
}

void test_jobs_enqueued_in_savepoints_are_late_too(void)
{
    kit_do(c, "BEGIN; SAVEPOINT one");
    put_late(c, 2);
    kit_do(c, "RELEASE one; SAVEPOINT two");
    put_late(c, 4);
    ticks(2);
    kit_do(c, "ROLLBACK TO two");
    ticks(2);
    kit_do(c, "SAVEPOINT three");
    put_late_many(c, 8);
    go_on(1000);
    kit_do(c, "COMMIT");
    chase(10);
    TEST_ASSERT_EQUAL_INT(0, drain());
}

void test_a_transaction_that_rolls_back_its_first_enqueue_goes_on(void)
{
    kit_do(c, "BEGIN; SAVEPOINT one");
    put_late(c, 1);
    ticks(2);
    kit_do(c, "ROLLBACK TO one");
    ticks(2);
    put_late(c, 2);
    go_on(1000);
    kit_do(c, "COMMIT");
    chase(2);
}

void test_a_transaction_that_has_an_id_for_long_is_late_too(void)
{
    kit_do(c, "BEGIN; SELECT pg_current_xact_id()");
    go_on(1000);
    put_late(c, 3);
    go_on(1000);
    kit_do(c, "COMMIT");
    chase(3);
    drain();
    put_late(a, 3);
    kit_do(c, "BEGIN; SELECT pg_current_xact_id()");
    ticks(3);
    kit_do(c, "SELECT count(*) FROM pgwork.claim('{q}', 3, 'x')");
    go_on(1000);
    kit_do(c, "ROLLBACK");
    chase(3);
}

void test_a_transaction_with_a_snapshot_of_its_own_is_late_too(void)
{
    kit_do(c, "BEGIN ISOLATION LEVEL SERIALIZABLE");
    put_late(c, 3);
    go_on(1000);
    kit_do(c, "COMMIT");
    chase(3);
}

/* -- claims that are rolled back --------------------------------------------------------------- */

static int claimed_late(PGconn *conn, int n)
{
    return (int)kit_number(
        conn, "SELECT count(*) FILTER (WHERE kind = 'late') FROM pgwork.claim('{q}', %d, 'x')", n);
}

static void claim_late(PGconn *conn, int n)
{
    TEST_ASSERT_EQUAL_INT(n, claimed_late(conn, n));
}

/* Their commit was late. A tick whose time is up, on a busy machine, leaves them to the next. */
static void claim_late_after_ticks(PGconn *conn, int n)
{
    const long long end = kit_ms() + 30000;
    int got;

    while ((got = claimed_late(conn, n)) == 0 && kit_ms() < end) ticks(1);
    TEST_ASSERT_EQUAL_INT(n, got);
}

void test_a_claim_that_is_rolled_back_late_loses_nothing(void)
{
    static const int sizes[] = {1, 50, 200};

    for (int many = 0; many < 2; many++)
        for (int i = 0; i < 3; i++) {
            many ? put_late_many(a, sizes[i]) : put_late(a, sizes[i]);
            ticks(2);
            kit_do(c, "BEGIN");
            claim_late(c, sizes[i]);
            go_on(1000);
            kit_do(c, "ROLLBACK");
            chase(sizes[i]);
            drain();
        }
}

/* A busy session knows of them within a second, and takes all of them before younger jobs. */
void test_jobs_of_a_rolled_back_claim_come_first_again(void)
{
    static struct claimer one;
    int got = 0;

    put_late(a, 200);
    put(a, 1000, "");
    kit_do(c, "BEGIN");
    claim_late(c, 200);
    start(&one, b, 1);
    for (int i = 0; i < 5; i++) TEST_ASSERT_EQUAL_INT(0, turn(&one));
    kit_do(c, "ROLLBACK");
    kit_sleep_ms(1000);
    for (int i = 0; i < 200; i++) got += turn(&one);
    TEST_ASSERT_EQUAL_INT(200, got);
    drain();
}

void test_a_claim_that_cuts_a_late_load_and_is_rolled_back_loses_nothing(void)
{
    kit_do(c, "BEGIN");
    put_late_many(c, 500);
    go_on(1000);
    kit_do(c, "COMMIT");
    ticks(1);
    kit_do(c, "BEGIN");
    claim_late_after_ticks(c, 7);
    ticks(3);
    claim_late_after_ticks(c, 150);
    ticks(3);
    kit_do(c, "ROLLBACK");
    chase(500);
}

void test_several_claims_of_a_transaction_that_rolls_back_lose_nothing(void)
{
    put_late(a, 20);
    put_late_many(a, 200);
    kit_do(c, "BEGIN");
    for (int i = 0; i < 4; i++) {
        claim_late(c, 11);
        ticks(i);
        kit_do(c, "SAVEPOINT s");
        claim_late(c, 13);
        ticks(i);
        kit_do(c, i % 2 ? "ROLLBACK TO s" : "RELEASE s");
        ticks(1);
    }
    kit_do(c, "ROLLBACK");
    chase(220);
}

void test_a_claim_in_a_savepoint_that_is_rolled_back_loses_nothing(void)
{
    put_late(a, 20);
    put_late_many(a, 60);
    kit_do(c, "BEGIN; SELECT pgwork.enqueue('other'); SAVEPOINT s");
    claim_late(c, 70);
    go_on(1000);
    kit_do(c, "ROLLBACK TO s");
    chase(80);
    kit_do(c, "COMMIT");
}

void test_open_claims_come_back_after_others_went_on(void)
{
    put_late(a, 1);
    put_late(a, 50);
    kit_do(c, "BEGIN");
    claim_late(c, 1);
    kit_do(b, "BEGIN");
    claim_late(b, 50);
    ticks(3);
    fill(100);
    kit_do(reaper, "SELECT count(*) FROM pgwork.claim('{q}', 100, 'x')");
    ticks(3);
    kit_do(b, "ROLLBACK");
    chase(50);
    ticks(3);
    kit_do(c, "ROLLBACK");
    chase(1);
}

void test_transactions_that_write_elsewhere_hide_no_late_job(void)
{
    kit_do(a, "CREATE TABLE IF NOT EXISTS elsewhere (x integer)");
    kit_do(c, "BEGIN");
    put_late(c, 5);
    for (int i = 0; i < 5; i++) {
        kit_do(b, "BEGIN; INSERT INTO elsewhere VALUES (1)");
        kit_do(a, "SELECT count(pgwork.enqueue('other')) FROM generate_series(1, 10)");
        ticks(2);
        kit_do(b, "COMMIT");
        ticks(1);
    }
    go_on(1000);
    kit_do(c, "COMMIT");
    chase(5);
}

/* The first transaction commits jobs late; the second, which has been at work for as long, claims
 * some of them and rolls back. */
static void rob_and_roll_back(bool many, int n)
{
    PGconn *robber;

    kit_do(c, "BEGIN");
    many ? put_late_many(c, 2000) : put_late(c, 30);
    robber = kit_open();
    kit_do(robber, "BEGIN; SELECT pgwork.enqueue('other')");
    ticks(3);
    fill(100);
    kit_do(reaper, "SELECT count(*) FROM pgwork.claim('{q}', 100, 'x')");
    ticks(3);
    kit_do(c, "COMMIT");
    ticks(1);
    claim_late_after_ticks(robber, n);
    ticks(3);
    fill(100);
    ticks(3);
    kit_do(robber, "ROLLBACK");
    chase(many ? 2000 : 30);
}

void test_late_jobs_that_another_late_transaction_claimed_come_back(void)
{
    rob_and_roll_back(true, 10);
    drain();
    rob_and_roll_back(true, 1000);
    drain();
    rob_and_roll_back(false, 10);
    drain();
    rob_and_roll_back(false, 30);
}

void test_late_jobs_that_were_claimed_before_the_next_tick_come_back(void)
{
    kit_do(c, "BEGIN");
    put_late(c, 10);
    put_late_many(c, 100);
    kit_do(b, "BEGIN; SELECT pgwork.enqueue('other')");
    ticks(3);
    kit_do(reaper,
           "SELECT pgwork.setting('low_water_marks', 'off')"); /* else it would not find them */
    ticks(1);
    kit_do(c, "COMMIT");
    claim_late(b, 40);
    kit_do(reaper, "SELECT pgwork.setting('low_water_marks', 'on')");
    ticks(3);
    kit_do(b, "ROLLBACK");
    chase(110);
}

/* A row of many jobs that a rolled back claim had held, with another job amid its positions where
 * the mark stops. */
void test_a_cut_row_does_not_end_where_the_mark_was(void)
{
    kit_do(a, "SELECT count(*) FROM pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[100]), "
              "'{late}',"
              " (array_fill(NULL::bytea, ARRAY[30]) || '\\x00'::bytea) || array_fill(NULL::bytea, "
              "ARRAY[69]))");
    ticks(2);
    kit_do(c, "BEGIN");
    claim_late(c, 99);
    ticks(3);
    kit_do(c, "ROLLBACK");
    ticks(1);
    kit_do(b, "BEGIN");
    claim_late(b, 50); /* cuts the row, which others see whole */
    claim_late(a, 1);
    fill(1);
    ticks(2);
    kit_do(b, "COMMIT");
    ticks(2);
    drain_late(49);
}

/* -- what the reaper needs --------------------------------------------------------------------- */

static const char *complete_one(PGconn *conn)
{
    struct took job;

    TEST_ASSERT_EQUAL_INT(1, kit_claim(conn, "q", 1, &job));
    return kit_say(conn, "complete", &job, "");
}

void test_a_dead_holder_of_a_late_job_is_reaped(void)
{
    kit_do(b, "BEGIN");
    put_late(b, 1);
    ticks(2);
    fill(1);
    TEST_ASSERT_EQUAL_STRING("ok", complete_one(a));
    fill(1);
    ticks(3);
    kit_do(c, "BEGIN; SELECT pgwork.enqueue('other')");
    ticks(3);
    kit_do(b, "COMMIT");
    ticks(1);
    kit_do(c, "COMMIT");
    ticks(1);
    const long long end = kit_ms() + 30000;
    for (int got = 0; got < 2 && kit_ms() < end; ticks(1))
        got += (int)kit_number(b, "SELECT count(*) FROM pgwork.claim('{q}', 10, 'x')");
    TEST_ASSERT_EQUAL_STRING("0 2 0 0 0", kit_places(a, "q"));
    kit_expire(a, "q");
    TEST_ASSERT_EQUAL_INT64(2, kit_number(a, "SELECT returned FROM pgwork.reap('q')"));
}

void test_two_ticks_in_one_transaction_lose_nothing(void)
{
    kit_do(c, "BEGIN");
    put_late(c, 3);
    kit_do(reaper, "BEGIN");
    ticks(2);
    fill(10);
    ticks(2);
    kit_do(reaper, "COMMIT");
    kit_do(reaper, "BEGIN; SELECT pgwork.reap()");
    ticks(2);
    put_late(c, 2);
    fill(10);
    ticks(2);
    kit_do(reaper, "COMMIT");
    go_on(1000);
    kit_do(c, "COMMIT");
    chase(5);
}

void test_a_tick_that_is_rolled_back_loses_nothing(void)
{
    kit_do(c, "BEGIN");
    put_late(c, 3);
    for (int i = 0; i < 3; i++) {
        fill(10);
        kit_do(reaper, "BEGIN");
        ticks(2);
        kit_do(reaper, "ROLLBACK");
        ticks(1);
        kit_do(reaper, "BEGIN ISOLATION LEVEL REPEATABLE READ");
        ticks(2);
        kit_do(reaper, "COMMIT");
    }
    go_on(1000);
    kit_do(c, "COMMIT");
    chase(3);
}

void test_a_tick_that_commits_late_loses_nothing(void)
{
    kit_do(c, "BEGIN");
    put_late(c, 3);
    ticks(2);
    fill(10);
    kit_do(reaper, "BEGIN");
    ticks(1);
    kit_do(c, "COMMIT; BEGIN");
    put_late(c, 3);
    ticks(2);
    kit_do(reaper, "COMMIT");
    ticks(2);
    kit_do(c, "COMMIT");
    chase(6);
}

void test_jobs_of_a_queue_that_a_tick_had_no_time_for_are_claimed(void)
{
    enum { QUEUES = 400 };
    long long got = 0;

    kit_do(a, "SELECT count(pgwork.enqueue('many ' || i)) FROM generate_series(1, %d) i", QUEUES);
    kit_do(c,
           "BEGIN; SELECT count(pgwork.enqueue('many ' || i, kind => 'late')) FROM "
           "generate_series(1, %d) i",
           QUEUES);
    for (int i = 0; i < 12; i++) {
        kit_do(a, "SELECT count(pgwork.enqueue('many ' || i)) FROM generate_series(1, %d) i",
               QUEUES);
        kit_do(b, "SELECT count(x.id) FROM pgwork.queue q, pgwork.claim(ARRAY[q.name], 2, 'x', "
                  "3600000) x");
        ticks(2);
    }
    kit_do(c, "COMMIT");
    for (long long end = kit_ms() + 60000; got < QUEUES && kit_ms() < end;) { /* 20 ms a tick */
        ticks(3);
        got += kit_number(b, "SELECT count(x.id) FROM pgwork.queue q, pgwork.claim(ARRAY[q.name], "
                             "100, 'x', 3600000) x"
                             " WHERE x.kind = 'late'");
    }
    TEST_ASSERT_EQUAL_INT64(QUEUES, got);
}

void test_jobs_are_claimed_after_the_sequence_of_positions_went_back(void)
{
    long long last;

    fill(5000);
    drain();
    ticks(3);
    last = kit_number(a, "SELECT last_value FROM pgwork.position");
    kit_do(c, "BEGIN");
    put_late(c, 1);
    ticks(2);
    kit_do(a, "SELECT setval('pgwork.position', %lld)", last - 4000);
    put_late(a, 2);
    ticks(3);
    TEST_ASSERT_EQUAL_INT(2, drain());
    ticks(3);
    put_late_many(a, 200);
    ticks(3);
    kit_do(c, "COMMIT");
    chase(201);
    kit_do(a, "SELECT setval('pgwork.position', %lld)", last + 10000000);
}

/* Two slow transactions end one after the other: the second search ends where the first one did,
 * and changes nothing. Found by test/models/marks.pml. */
void test_a_search_for_late_commits_that_begins_again_continues_at_rest(void)
{
    PGconn *d = kit_open();

    go_on(1);
    kit_do(c, "BEGIN; LOCK pgwork.live_job IN ROW EXCLUSIVE MODE; SELECT pg_current_xact_id()");
    kit_do(d, "BEGIN; LOCK pgwork.live_job IN ROW EXCLUSIVE MODE; SELECT pg_current_xact_id()");
    ticks(2);
    kit_do(a, "SELECT setval('pgwork.position', nextval('pgwork.position') + 2500000)");
    put_late(c, 1);
    go_on(10);
    kit_do(d, "ROLLBACK");
    ticks(1);
    kit_do(c, "COMMIT");
    ticks(5);
    TEST_ASSERT_EQUAL_INT(1, drain());
}

void test_low_water_marks_can_be_switched_off_and_on(void)
{
    kit_do(c, "BEGIN");
    put_late(c, 3);
    go_on(1000);
    kit_do(a, "SELECT pgwork.setting('low_water_marks', 'off')");
    ticks(1);
    put_late(c, 3);
    kit_do(c, "COMMIT");
    TEST_ASSERT_EQUAL_INT(6, drain()); /* at once: there is nothing to wait for */
    kit_do(c, "BEGIN");
    put_late(c, 3);
    ticks(3);
    kit_do(a, "SELECT pgwork.setting('low_water_marks', 'on')");
    go_on(1000);
    kit_do(c, "COMMIT");
    chase(3);
}

/* Such as one that was restored by hand. */
void test_a_job_below_the_mark_is_claimed_without_low_water_marks(void)
{
    long long low = kit_number(a, "SELECT nextval('pgwork.position')");

    go_on(1000);
    kit_do(a,
           "INSERT INTO pgwork.live_job (pos, queue, kind) SELECT %lld, id, 'late' FROM "
           "pgwork.queue WHERE name = 'q'",
           low);
    kit_do(a, "SELECT pgwork.setting('low_water_marks', 'off')");
    ticks(1);
    TEST_ASSERT_EQUAL_INT(1, drain());
}

void test_without_a_reaper_late_jobs_are_claimed(void)
{
    kit_do(c, "BEGIN");
    put_late(c, 3);
    put_late_many(c, 300);
    fill(100);
    TEST_ASSERT_EQUAL_INT(0, drain());
    kit_do(c, "COMMIT");
    TEST_ASSERT_EQUAL_INT(303, drain());
}

/* -- at random --------------------------------------------------------------------------------- */

enum { PRODUCERS = 4, CLAIMERS = 8, RACERS = PRODUCERS + CLAIMERS + 2 };

struct storm {
    int ms; /* from when all are connected */
    bool reaper;
    struct claimer hands[CLAIMERS];
};

static int dice(unsigned *seed, int n)
{
    return (int)((unsigned)rand_r(seed) % (unsigned)n);
}

static void send_some(PGconn *conn, unsigned *seed)
{
    int n = dice(seed, 3) ? 1 + dice(seed, 20) : 1 + dice(seed, 1000);

    if (dice(seed, 4) == 0)
        kit_do(conn,
               "INSERT INTO sent SELECT (pgwork.enqueue('q', priority => 2 * (i & 1))).id"
               " FROM generate_series(1, %d) i",
               1 + dice(seed, 40));
    else
        kit_do(
            conn,
            "INSERT INTO sent SELECT id FROM pgwork.enqueue_many('q', array_fill('1'::jsonb, "
            "ARRAY[%d]), bodies =>"
            " CASE WHEN %d = 0 THEN ARRAY(SELECT CASE WHEN i %% 30 = 0 THEN '\\x00'::bytea END FROM"
            " generate_series(1, %d) i) END)",
            n, dice(seed, 4), n);
}

static void produce(PGconn *conn, unsigned *seed)
{
    if (dice(seed, 3)) {
        send_some(conn, seed);
        kit_sleep_ms(dice(seed, 30));
        return;
    }
    kit_do(conn, dice(seed, 2) ? "BEGIN; SELECT pg_current_xact_id()" : "BEGIN");
    for (int i = dice(seed, 3); i >= 0; i--) {
        kit_do(conn, "SAVEPOINT s");
        send_some(conn, seed);
        kit_sleep_ms(dice(seed, 300));
        kit_do(conn, dice(seed, 3) ? "RELEASE s" : "ROLLBACK TO s");
    }
    kit_sleep_ms(dice(seed, 3) ? 0 : dice(seed, 2000));
    kit_do(conn, dice(seed, 4) ? "COMMIT" : "ROLLBACK");
}

/* Claims, and notes what came in the same transaction. */
static void take_some(struct claimer *one)
{
    PGresult *res = kit_rows(one->conn,
                             "WITH c AS MATERIALIZED (SELECT * FROM pgwork.claim('{q}', %d, "
                             "'storm', 3600000, '%s', '%s')),"
                             " i AS (INSERT INTO came SELECT id FROM c WHERE attempt > 0)"
                             " SELECT coalesce(array_agg(id), '{}'), coalesce(array_agg(token), "
                             "'{}') FROM c WHERE attempt > 0",
                             one->n, one->ids, one->tokens);

    snprintf(one->ids, sizeof(one->ids), "%s", PQgetvalue(res, 0, 0));
    snprintf(one->tokens, sizeof(one->tokens), "%s", PQgetvalue(res, 0, 1));
    PQclear(res);
}

static void consume(struct claimer *one, unsigned *seed)
{
    static const int sizes[] = {1, 7, 33, 100, 1000};
    bool back = dice(seed, 2);

    if (dice(seed, 20) == 0) one->n = sizes[dice(seed, 5)];
    if (dice(seed, 12)) {
        take_some(one);
        return;
    }
    start(one, one->conn, one->n); /* what it holds stays leased */
    kit_do(one->conn, dice(seed, 2) ? "BEGIN; SELECT pgwork.enqueue('other')" : "BEGIN");
    for (int i = dice(seed, 3); i >= 0; i--) {
        kit_do(one->conn, "SAVEPOINT s");
        take_some(one);
        start(one, one->conn, one->n);
        kit_sleep_ms(dice(seed, 200));
        kit_do(one->conn, dice(seed, 3) ? "RELEASE s" : "ROLLBACK TO s");
    }
    kit_sleep_ms(dice(seed, 3) ? 0 : dice(seed, 1000));
    kit_do(one->conn, back ? "ROLLBACK" : "COMMIT");
}

static void blow(PGconn *conn, int i, void *ctx)
{
    struct storm *s = ctx;
    struct claimer *mine =
        i >= PRODUCERS && i < PRODUCERS + CLAIMERS ? &s->hands[i - PRODUCERS] : NULL;
    unsigned seed = (unsigned)(kit_ms() * 31 + i);
    long long end;

    if (mine) start(mine, conn, i % 2 ? 1 : 33);
    kit_together();
    end = kit_ms() + s->ms;
    while (kit_ms() < end) {
        if (i < PRODUCERS)
            produce(conn, &seed);
        else if (mine)
            consume(mine, &seed);
        else if (i == RACERS - 1 && s->reaper)
            kit_do(conn, "SELECT pgwork.maintain()");
        else
            kit_do(conn, "BEGIN; INSERT INTO elsewhere VALUES (1); SELECT pg_sleep(0.2); COMMIT");
        if (!mine) kit_sleep_ms(dice(&seed, 60));
    }
}

/* Whatever was committed came once, and nothing else; what did not in the storm does right after
 * it. */
static void survive(int ms, bool reaper_too)
{
    static struct storm s;
    static struct claimer last;

    kit_do(a, "DROP TABLE IF EXISTS sent, came; CREATE TABLE sent (id bigint); CREATE TABLE came "
              "(id bigint);"
              "CREATE TABLE IF NOT EXISTS elsewhere (x integer)");
    s.ms = ms;
    s.reaper = reaper_too;
    kit_race(RACERS, blow, &s);
    if (reaper_too) ticks(3);
    start(&last, a, 1000);
    do take_some(&last);
    while (strcmp(last.ids, "{}") != 0);
    TEST_ASSERT_EQUAL_INT64(
        0, kit_number(a, "SELECT count(*) FROM (TABLE sent EXCEPT TABLE came) lost"));
    TEST_ASSERT_EQUAL_INT64(
        0, kit_number(a, "SELECT count(*) FROM (TABLE came EXCEPT TABLE sent) phantoms"));
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT count(*) - count(DISTINCT id) FROM came"));
    TEST_ASSERT_GREATER_THAN_INT64(100, kit_number(a, "SELECT count(*) FROM sent"));
}

/* PGW_SOAK_SECONDS: for so long. */
void test_a_storm_of_late_transactions_loses_no_job(void)
{
    const char *seconds = getenv("PGW_SOAK_SECONDS");

    survive(seconds ? 1000 * atoi(seconds) : 5000, true);
}

void test_a_storm_without_low_water_marks_loses_no_job(void)
{
    kit_do(a, "SELECT pgwork.setting('low_water_marks', 'off')");
    survive(1500, true);
}

void test_a_storm_without_a_reaper_loses_no_job(void)
{
    survive(1500, false);
}
