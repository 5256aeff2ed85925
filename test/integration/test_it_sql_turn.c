/* Turns: large claims of a queue go few at a time. They wait for that, but not for ever, and get
 * what they would have got. */
#include "unity.h"
#include "pgtemp.h"
#include "sqlkit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TURNS = 8, LARGE = 1000, JOBS = 100, PATIENCE_MS = 30000 };

static PGconn *a, *watch, *writer, *holder;
static struct took jobs[LARGE];

void setUp(void)
{
    kit_begin();
    a = kit_open();
    watch = kit_open();
    writer = kit_open();
    holder = kit_open();
    kit_do(watch, "SELECT pgwork.queue_create('q'), pgwork.queue_create('r')");
    kit_do(watch,
           "SELECT count(*) FROM pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[%d]))",
           JOBS);
}

void tearDown(void)
{
    kit_end();
}

/* -- a crowd ----------------------------------------------------------------------------------- */

/* Somebody writes, and n turns are taken. A snapshot tells of transactions that are older than the
 * last one that is through. */
static void crowd(int n)
{
    kit_do(writer, "BEGIN; SELECT pg_current_xact_id()");
    kit_do(watch, "SELECT pg_current_xact_id()");
    kit_do(holder,
           "BEGIN; SELECT pg_advisory_xact_lock(pgwork._lock('turn q', i))"
           " FROM generate_series(0, %d - 1) i",
           n);
}

/* All that it has of them; each has to be through. */
static long long turns_of(PGconn *conn)
{
    const char *const format =
        "SELECT count(*) FROM pg_locks l, generate_series(0, 100) i"
        " WHERE l.locktype = 'advisory' AND l.pid = %d AND l.granted AND"
        " l.classid::bigint << 32 | l.objid::bigint = pgwork._lock('%s q', i)";
    const long long turns = kit_number(watch, format, PQbackendPID(conn), "turn");

    TEST_ASSERT_EQUAL_INT64(turns, kit_number(watch, format, PQbackendPID(conn), "through"));
    return turns;
}

static void send_claim(PGconn *conn)
{
    kit_send(conn, "SELECT count(*) FROM pgwork.claim('{q}', %d, 'somebody')", LARGE);
}

static void check_that_it_waits(PGconn *conn, const char *expected)
{
    for (long long end = kit_ms() + PATIENCE_MS; kit_ms() < end; kit_sleep_ms(1)) {
        const char *event = kit_text(
            watch, "SELECT wait_event FROM pg_stat_activity WHERE pid = %d", PQbackendPID(conn));

        if (event && !strcmp(event, expected)) return;
    }
    TEST_FAIL_MESSAGE("does not wait for its turn");
}

static void check_that_it_gets_all(PGconn *conn)
{
    TEST_ASSERT_EQUAL_STRING("100", kit_answer(conn));
    TEST_ASSERT_EQUAL_STRING("0 100 0 0 0", kit_places(watch, "q"));
}

/* -- waiting ----------------------------------------------------------------------------------- */

void test_a_large_claim_waits_while_others_have_all_turns(void)
{
    crowd(TURNS);
    send_claim(a);
    check_that_it_waits(a, "advisory");
    TEST_ASSERT_EQUAL_STRING("100 0 0 0 0", kit_places(watch, "q"));
    kit_do(holder, "COMMIT");
    check_that_it_gets_all(a);
}

/* Whose claim is through may stay in the transaction. */
void test_it_does_not_wait_for_ever(void)
{
    crowd(TURNS);
    kit_do(holder,
           "SELECT pg_advisory_xact_lock(pgwork._lock('through q', i))"
           " FROM generate_series(0, %d - 1) i",
           TURNS);
    send_claim(a);
    check_that_it_waits(a, "advisory");
    check_that_it_gets_all(a);
    TEST_ASSERT_EQUAL_INT64(0, turns_of(a));
}

/* It is in good hands while others are claiming. */
void test_it_waits_longer_while_turns_change_hands(void)
{
    crowd(TURNS);
    send_claim(a);
    check_that_it_waits(a, "advisory");
    kit_sleep_ms(4000);
    check_that_it_waits(a, "advisory");
    TEST_ASSERT_EQUAL_STRING("100 0 0 0 0", kit_places(watch, "q"));
    kit_do(holder, "COMMIT");
    check_that_it_gets_all(a);
}

void test_a_wait_can_be_cancelled_and_nothing_is_lost(void)
{
    char error[256];
    PGcancel *cancel = PQgetCancel(a);

    crowd(TURNS);
    send_claim(a);
    check_that_it_waits(a, "advisory");
    TEST_ASSERT_TRUE_MESSAGE(PQcancel(cancel, error, sizeof(error)), error);
    PQfreeCancel(cancel);
    for (PGresult *res; (res = PQgetResult(a)); PQclear(res))
        TEST_ASSERT_EQUAL_STRING("57014", PQresultErrorField(res, PG_DIAG_SQLSTATE));
    kit_do(holder, "COMMIT");
    TEST_ASSERT_EQUAL_INT(JOBS, kit_claim(a, "q", LARGE, jobs));
}

/* What is done is completed before the wait, if its leases could end meanwhile; and those of the
 * new jobs begin after it. Who has written does not stand in line. */
void test_what_is_done_does_not_expire_while_it_waits(void)
{
    crowd(TURNS);
    kit_do(watch, "SELECT pgwork.queue_set('q', lease_ms => 100)");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, jobs));
    kit_send(a,
             "SELECT count(*) FROM pgwork.claim('{q}', %d, 'somebody', NULL, '{%lld}', '{%s}') c"
             " WHERE c.lease_until >= c.server_time + interval '100 ms'"
             " AND c.server_time > statement_timestamp() + interval '150 ms'",
             LARGE, jobs[0].id, jobs[0].token);
    check_that_it_waits(a, "PgSleep");
    kit_sleep_ms(200);
    TEST_ASSERT_EQUAL_INT64(0, kit_number(watch, "SELECT returned FROM pgwork.reap('q')"));
    kit_do(holder, "COMMIT");
    TEST_ASSERT_EQUAL_STRING("99", kit_answer(a));
    TEST_ASSERT_EQUAL_STRING("0 99 0 0 0", kit_places(watch, "q"));
}

/* The first half of a pack's lease may go by in line; then it is completed, and the rest is slept.
 */
TEST_CASE("60 s", "advisory")
TEST_CASE("2 s", "PgSleep") /* after some time in line */
TEST_CASE("800 ms", "PgSleep")
void test_leases_that_last_can_wait_in_line(const char *lease, const char *event)
{
    TEST_ASSERT_EQUAL_INT(50, kit_claim(a, "q", 50, jobs));
    kit_do(watch, "UPDATE pgwork.pack SET lease_until = clock_timestamp() + interval '%s'", lease);
    crowd(TURNS);
    kit_send(a,
             "SELECT count(*) FROM pgwork.claim('{q}', %d, 'somebody', NULL,"
             " (SELECT ids FROM pgwork.pack), (SELECT ARRAY[token] FROM pgwork.pack))",
             LARGE);
    check_that_it_waits(a, event);
    kit_do(holder, "COMMIT");
    TEST_ASSERT_EQUAL_STRING("50", kit_answer(a));
    TEST_ASSERT_EQUAL_STRING("0 50 0 0 0", kit_places(watch, "q"));
}

/* As while the table gets a new file. How long the caller waits for that is his own affair. */
void test_a_table_that_is_locked_for_a_moment_fails_no_claim(void)
{
    TEST_ASSERT_EQUAL_INT(50, kit_claim(a, "q", 50, jobs));
    crowd(TURNS);
    kit_do(writer, "LOCK TABLE pgwork.pack IN ACCESS EXCLUSIVE MODE");
    kit_send(a, "SELECT count(*) FROM pgwork.claim('{q}', %d, 'somebody', NULL, '{%lld}', '{%s}')",
             LARGE, jobs[0].id, jobs[0].token);
    kit_sleep_ms(1000);
    kit_do(writer, "COMMIT");
    TEST_ASSERT_EQUAL_STRING("50", kit_answer(a));
    TEST_ASSERT_EQUAL_STRING("0 99 0 0 0", kit_places(watch, "q"));
}

/* -- who takes a turn -------------------------------------------------------------------------- */

/* Others are in any database of the server: other tests of this run, too. */
void test_a_turn_is_taken_only_while_others_write(void)
{
    long long turns = 1;

    for (long long end = kit_ms() + PATIENCE_MS; turns > 0 && kit_ms() < end;) {
        kit_do(a, "BEGIN");
        TEST_ASSERT_EQUAL_INT(JOBS, kit_claim(a, "q", LARGE, jobs));
        turns = turns_of(a);
        kit_do(a, "ROLLBACK");
    }
    TEST_ASSERT_EQUAL_INT64(0, turns);
    kit_do(a, "BEGIN");
    crowd(0);
    TEST_ASSERT_EQUAL_INT(JOBS, kit_claim(a, "q", LARGE, jobs));
    TEST_ASSERT_EQUAL_INT64(1, turns_of(a));
    kit_do(a, "COMMIT");
    TEST_ASSERT_EQUAL_INT64(0, turns_of(a));
}

void test_a_turn_that_is_left_is_found(void)
{
    crowd(TURNS - 1);
    for (int i = 0; i < 20; i++) {
        kit_do(a, "BEGIN");
        TEST_ASSERT_EQUAL_INT(JOBS, kit_claim(a, "q", LARGE, jobs));
        TEST_ASSERT_EQUAL_INT64(1, turns_of(a));
        kit_do(a, "ROLLBACK");
    }
}

TEST_CASE("claim('{q}', 32, 'me')", "", 32)  /* a small one */
TEST_CASE("claim('{r}', 1000, 'me')", "", 0) /* of another queue */
TEST_CASE("claim('{q}', 1000, 'me')", " ISOLATION LEVEL REPEATABLE READ", 100) /* an old snapshot */
TEST_CASE("claim('{q}', 1000, 'me')", "; SELECT pg_current_xact_id()",
          100) /* others may wait for it */
void test_these_go_without(const char *claim, const char *begin, int expected)
{
    crowd(TURNS);
    kit_do(a, "BEGIN%s", begin);
    TEST_ASSERT_EQUAL_INT64(expected, kit_number(a, "SELECT count(*) FROM pgwork.%s", claim));
    TEST_ASSERT_EQUAL_INT64(0, turns_of(a));
    kit_do(a, "COMMIT");
}
