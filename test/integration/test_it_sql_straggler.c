/* Stragglers: jobs that become ready behind the sessions that have claimed later ones. Whatever a
 * session remembers of a queue, it finds them while it finds enough to do. The promise is asserted,
 * never the time; what surveys remember is looked at only to be sure that the case was reached.
 * All at once: test_it_sql_straggler_race. */
#include "unity.h"
#include "pgtemp.h"
#include "sqlkit.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATIENCE_MS = 30000, BATCH = 5 }; /* a full survey, every 60 s, would help */

#define NOW "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"

static PGconn *producer, *busy, *late, *other, *watch;
static struct took jobs[10000];
static int lane; /* in which the test's jobs lie */

void setUp(void)
{
    kit_begin();
    producer = kit_open();
    busy = kit_open();
    late = kit_open();
    other = kit_open();
    watch = kit_open();
    lane = 1;
    kit_do(producer, "SELECT pgwork.queue_create('q', lease_ms => 600000)");
}

void tearDown(void)
{
    kit_end();
}

/* n jobs of the lane's priority, in a transaction of their own; the last one's id. */
static long long fill(int n)
{
    return kit_number(producer,
                      "SELECT max(id) FROM pgwork.enqueue_many('q', array_fill('1'::jsonb,"
                      " ARRAY[%d]), priorities => '{%d}')",
                      n, lane / 2);
}

/* -- what a session remembers ------------------------------------------------------------------ */

static const char *hint_of(PGconn *conn)
{
    const char *text = kit_text(conn, "SELECT current_setting(pgwork._hint(id), true)"
                                      " FROM pgwork.queue WHERE name = 'q'");

    return text && *text ? text : NULL;
}

/* Something of the session's hint, as h, and of what all surveys have left, as s; 0: neither is
 * there. */
static long long recall(PGconn *conn, const char *format, ...)
{
    const char *hint = hint_of(conn);
    char what[1000];
    va_list args;

    if (!hint) return 0;
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    return kit_number(conn,
                      "SELECT coalesce((SELECT (%s)::bigint FROM (SELECT '%s'::bigint[] AS h) h,"
                      " pgwork.survey s), 0)",
                      what, hint);
}

static long long mark(PGconn *conn)
{
    return recall(conn, "SELECT m >> 5 FROM unnest(h[12:]) m WHERE m & 31 = %d", lane);
}

static long long floor_of(PGconn *conn)
{
    return recall(conn, "floors[%d]", lane + 1);
}

/* Above what a transaction's jobs are expected; -1: it is not watched. */
static long long low(PGconn *conn, const char *xid)
{
    return recall(conn, "coalesce((SELECT l FROM unnest(slow, lows) w (x, l) WHERE x = '%s'), -1)",
                  xid);
}

static const char *xid(PGconn *conn)
{
    return kit_text(conn, "SELECT pg_current_xact_id()");
}

static long long last_place(void)
{
    return kit_number(watch, "SELECT last_value FROM pgwork.place");
}

/* -- a session that finds enough --------------------------------------------------------------- */

/* Newer jobs come and older ones are claimed, never fewer than asked for. */
static void step(PGconn *conn)
{
    fill(BATCH);
    TEST_ASSERT_EQUAL_INT(BATCH, kit_claim(conn, "q", BATCH, jobs));
    kit_sleep_ms(3);
}

/* Its next claim surveys, whatever the time. (What for depends on other tests, too: where a
 * transaction ended that was in the midst of it, wherever in the server, there may be more to sweep
 * first.) */
static void survey_next(PGconn *conn)
{
    kit_set_hint(conn, "h[1:3] || 0::bigint || h[5:]");
    kit_set_short(conn, "NULL"); /* the long way */
    kit_do(conn, "UPDATE pgwork.survey SET at = at - 10000");
}

/* Its next claims survey nothing, as far as it depends on the time. */
static void survey_not(PGconn *conn)
{
    kit_set_hint(conn, "h[1:2] || ARRAY[" NOW " + 60000, " NOW " + 60000] || h[5:]");
    kit_set_short(conn, "NULL"); /* the long way */
}

/* So many surveys more. */
static void surveys(PGconn *conn, int n)
{
    while (n-- > 0) {
        step(conn); /* the first of a session leaves a hint */
        survey_next(conn);
        for (int i = 0; i < 2; i++) step(conn);
        TEST_ASSERT_GREATER_THAN_INT64_MESSAGE(0, recall(conn, "h[4]"), "no survey");
    }
}

/* Until the session expects nothing where the job will be. */
static void pass(PGconn *conn, long long id)
{
    for (long long end = kit_ms() + PATIENCE_MS; kit_ms() < end && mark(conn) < id;) step(conn);
    TEST_ASSERT_TRUE_MESSAGE(mark(conn) >= id, "the marks do not move on");
}

/* Until surveys begin behind it, too, and so would not come upon it. */
static void bury(PGconn *conn, long long id)
{
    pass(conn, id);
    for (long long end = kit_ms() + PATIENCE_MS; kit_ms() < end && floor_of(conn) < id;)
        surveys(conn, 1);
    TEST_ASSERT_TRUE_MESSAGE(floor_of(conn) >= id, "the floors do not move on");
}

static bool among(int got, long long id)
{
    for (int i = 0; i < got; i++)
        if (jobs[i].id == id) return true;
    return false;
}

/* It is claimed while newer ones keep coming and there is always enough. */
static void hunt(PGconn *conn, long long id)
{
    for (long long end = kit_ms() + PATIENCE_MS; kit_ms() < end;) {
        step(conn);
        if (among(BATCH, id)) return;
    }
    TEST_FAIL_MESSAGE("passed over");
}

/* The same from long ago: it comes without what lies elsewhere. */
static void hunt_far(PGconn *conn, long long id)
{
    for (long long end = kit_ms() + PATIENCE_MS; kit_ms() < end; kit_sleep_ms(3)) {
        fill(BATCH);
        if (among(kit_claim(conn, "q", BATCH, jobs), id)) return;
    }
    TEST_FAIL_MESSAGE("passed over");
}

/* It is claimed by a session that finds nothing else. */
static void await(PGconn *conn, long long id)
{
    for (long long end = kit_ms() + PATIENCE_MS; kit_ms() < end; kit_sleep_ms(5))
        if (among(kit_claim(conn, "q", 1, jobs), id)) return;
    TEST_FAIL_MESSAGE("passed over");
}

/* A session in the midst of its work: far from the start, and with enough ahead of it. */
static void set_out(void)
{
    fill(4 * BATCH);
    surveys(busy, 1);
}

/* -- producers that commit late ---------------------------------------------------------------- */

void test_a_late_commit_comes_to_the_session_that_passed_it(void)
{
    long long id;

    set_out();
    kit_do(late, "BEGIN");
    id = kit_put(late, "q");
    fill(600);
    while (kit_claim(busy, "q", 100, jobs) == 100 && jobs[99].id < id + 500) kit_sleep_ms(5);
    pass(busy, id);
    kit_do(late, "COMMIT");
    hunt(busy, id);
    TEST_ASSERT_EQUAL_INT(1, jobs[0].attempt);
}

/* n jobs of a transaction that committed when all was claimed up to 150,000 places behind them; the
 * first one's id. */
static long long from_long_ago(int n)
{
    long long id = 0, last = 0;

    set_out();
    kit_do(late, "BEGIN");
    for (int i = 0; i < n; i++) {
        last = kit_put(late, "q");
        if (i == 0) id = last;
    }
    kit_do(producer, "SELECT count(nextval('pgwork.place')) FROM generate_series(1, 150000)");
    bury(busy, last);
    kit_do(late, "COMMIT");
    return id;
}

/* What else it asked for lies behind all that was claimed meanwhile: they would wait for that walk.
 */
void test_stragglers_from_long_ago_are_handed_over_before_the_rest_is_looked_for(void)
{
    const long long id = from_long_ago(2);
    int got = BATCH;

    fill(1000);
    for (long long end = kit_ms() + PATIENCE_MS; kit_ms() < end && got == BATCH;) {
        survey_next(busy);
        got = kit_claim(busy, "q", BATCH, jobs);
    }
    TEST_ASSERT_EQUAL_INT(2, got);
    TEST_ASSERT_EQUAL_INT64(id, jobs[0].id);
    TEST_ASSERT_EQUAL_INT(BATCH, kit_claim(busy, "q", BATCH, jobs));
    TEST_ASSERT_TRUE(jobs[0].id > id + 100000);
}

/* Nor are bundles looked for behind all that. */
void test_who_takes_stragglers_reads_no_remains_of_bundles(void)
{
    static const char
        READ[] = /* of this transaction, and of those since the server was told last */
        "SELECT pg_stat_get_xact_tuples_returned('pgwork.live_job_bundle'::regclass)";
    long long id, before, read = -1;

    set_out();
    kit_do(producer, "SELECT pgwork.queue_set('q', bulk => true)");
    kit_do(late, "BEGIN");
    id = kit_put(late, "q");
    kit_do(producer, "SELECT count(nextval('pgwork.place')) FROM generate_series(1, 2000)");
    fill(3000);
    TEST_ASSERT_EQUAL_INT64(30, kit_number(watch, "SELECT count(jobs) FROM pgwork.live_job"));
    while (kit_number(watch, "SELECT count(jobs) FROM pgwork.live_job") > 0)
        kit_do(other, "SELECT count(*) FROM pgwork.claim('{q}', 1000, 'other')");
    kit_do(producer, "SELECT count(nextval('pgwork.place')) FROM generate_series(1, 150000)");
    bury(busy, id + 100000); /* or it is not from long ago */
    kit_do(late, "COMMIT");
    for (long long end = kit_ms() + PATIENCE_MS; kit_ms() < end && read < 0;) {
        fill(BATCH);
        kit_do(busy, "BEGIN");
        before = kit_number(busy, READ);
        if (among(kit_claim(busy, "q", BATCH, jobs), id)) read = kit_number(busy, READ) - before;
        kit_do(busy, "COMMIT");
        kit_sleep_ms(3);
    }
    TEST_ASSERT_EQUAL_INT64(0, read);
}

/* Nobody else goes there as long, and when that comes to nothing it is found again. */
void test_a_straggler_from_long_ago_that_somebody_holds(void)
{
    const long long id = from_long_ago(1);
    int got = BATCH;

    kit_do(other, "BEGIN; SELECT FROM pgwork.live_job WHERE pos = %lld FOR UPDATE", id);
    for (int i = 0; i < 3; i++) {
        surveys(busy, 1);
        TEST_ASSERT_FALSE(among(BATCH, id));
        TEST_ASSERT_GREATER_THAN_INT64(id + 100000, mark(busy));
        TEST_ASSERT_GREATER_THAN_INT64(id + 100000, floor_of(busy));
    }
    kit_do(other, "ROLLBACK");
    fill(1000);
    for (long long end = kit_ms() + PATIENCE_MS; kit_ms() < end && got == BATCH;) {
        survey_next(busy);
        got = kit_claim(busy, "q", BATCH, jobs);
    }
    TEST_ASSERT_EQUAL_INT(1, got);
    TEST_ASSERT_EQUAL_INT64(id, jobs[0].id);
}

/* What is swept piece by piece for long keeps nobody from what has come late just now. */
void test_a_long_sweep_lets_newer_stragglers_pass(void)
{
    static const char PIECE[] = "SELECT f FROM unnest(froms, tos) u (f, t) WHERE t = %lld";
    const long long start = -9000000000000000;
    long long id, first;

    set_out();
    first = last_place();
    surveys(busy, 2);
    kit_do(late, "BEGIN");
    id = kit_put(late, "q");
    bury(busy, id);
    kit_do(watch, "UPDATE pgwork.survey SET froms = ARRAY[%lld], tos = ARRAY[%lld], all_due = 0",
           start, first);
    kit_do(late, "COMMIT");
    hunt(busy, id);
    for (long long end = kit_ms() + PATIENCE_MS;
         kit_ms() < end && recall(busy, PIECE, first) == start;)
        surveys(busy, 1);
    TEST_ASSERT_GREATER_THAN_INT64(start, recall(busy, PIECE, first)); /* it goes on */
    TEST_ASSERT_EQUAL_INT64(1, recall(busy, "SELECT count(*) FROM unnest(froms) f WHERE f = 0"));
}

/* Nothing was found, and there was no time to come to the end; in one lane
 * there was nothing to look for at all, since what waits there lies where the
 * sweep begins. */
void test_a_sweep_goes_on_whatever_waits_below_it(void)
{
    static const char OLDEST[] = "coalesce(froms[cardinality(froms)], 9000000000000000)";
    long long waits;

    set_out();
    waits = kit_number(late, "SELECT id FROM pgwork.enqueue('q', priority => 9)");
    surveys(busy, 2);
    kit_do(watch,
           "UPDATE pgwork.survey SET froms = ARRAY[%lld], tos = "
           "'{9000000000000000}',"
           " floors = array_fill(9000000000000000, ARRAY[19]) || %lld::bigint",
           waits, waits - 1);
    for (long long end = kit_ms() + PATIENCE_MS; kit_ms() < end && recall(busy, OLDEST) == waits;) {
        survey_next(busy);
        step(busy);
    }
    TEST_ASSERT_GREATER_THAN_INT64(waits, recall(busy, OLDEST));
}

/* It was passed over, and then everything more urgent went before it. What lies
 * behind it is swept all the same, claims are not cut short for it, and it
 * comes when it is its turn. */
void test_a_straggler_whose_turn_it_is_not_stops_no_sweep(void)
{
    long long waits;

    set_out();
    waits = kit_number(late, "SELECT id FROM pgwork.enqueue('q', priority => 9)");
    surveys(busy, 1);
    kit_do(watch,
           "UPDATE pgwork.survey SET froms = ARRAY[%lld], tos = "
           "'{9000000000000000}',"
           " floors = floors[1:19] || 9000000000000000, heads = heads[1:19] || "
           "9000000000000000",
           waits - 1);
    for (long long end = kit_ms() + PATIENCE_MS;
         kit_ms() < end && recall(busy, "froms[1]") != waits;) {
        survey_next(
            busy); /* some have to look elsewhere: a transaction of another test has ended */
        step(busy);
        TEST_ASSERT_EQUAL_INT64(-1, recall(busy, "coalesce(late, -1)"));
    }
    TEST_ASSERT_EQUAL_INT64(waits, recall(busy, "froms[1]")); /* behind it */
    TEST_ASSERT_EQUAL_INT64(waits, recall(busy, "tos[cardinality(tos)]"));
    await(busy, waits);
}

void test_a_released_savepoint_is_no_other_transaction(void)
{
    long long first, second;

    set_out();
    kit_do(late, "BEGIN; SAVEPOINT s");
    first = kit_put(late, "q");
    kit_do(late, "RELEASE s; SAVEPOINT s; SAVEPOINT t");
    second = kit_put(late, "q");
    kit_do(late, "RELEASE s");
    bury(busy, second);
    kit_do(late, "COMMIT");
    hunt(busy, first);
    if (!among(BATCH, second)) hunt(busy, second);
}

void test_what_was_rolled_back_to_a_savepoint_does_not_come(void)
{
    long long first, gone, second, last;
    int got;

    set_out();
    kit_do(late, "BEGIN");
    first = kit_put(late, "q");
    kit_do(late, "SAVEPOINT s");
    gone = kit_put(late, "q");
    kit_do(late, "ROLLBACK TO s");
    second = kit_put(late, "q");
    bury(busy, second);
    kit_do(late, "COMMIT");
    for (long long end = kit_ms() + PATIENCE_MS; kit_ms() < end && (first || second);) {
        step(busy);
        if (among(BATCH, first)) first = 0;
        if (among(BATCH, second)) second = 0;
        TEST_ASSERT_FALSE(among(BATCH, gone));
    }
    TEST_ASSERT_TRUE_MESSAGE(first == 0 && second == 0, "passed over");
    last = fill(1);
    while ((got = kit_claim(busy, "q", 100, jobs)) > 0 && !among(got, last))
        TEST_ASSERT_FALSE(among(got, gone));
}

/* Its first job is rolled back, and the locks with it; the next one comes much later. */
void test_a_savepoint_rolled_back_and_used_again(void)
{
    char x[32];
    long long id;

    set_out();
    snprintf(x, sizeof(x), "%s", kit_text(late, "BEGIN; SELECT pg_current_xact_id()"));
    kit_do(late, "SAVEPOINT s");
    id = kit_put(late, "q");
    kit_do(late, "ROLLBACK TO s");
    bury(busy, id);
    id = kit_put(late, "q");
    bury(busy, id);
    TEST_ASSERT_TRUE(low(busy, x) >= 0 && low(busy, x) < id);
    kit_do(late, "COMMIT");
    hunt(busy, id);
}

void test_a_transaction_that_outlasts_surveys_is_watched(void)
{
    char x[32];
    long long id;

    set_out();
    kit_do(late, "BEGIN");
    id = kit_put(late, "q");
    snprintf(x, sizeof(x), "%s", xid(late));
    bury(busy, id);
    surveys(busy, 2);
    TEST_ASSERT_TRUE_MESSAGE(low(busy, x) >= 0, "not watched");
    TEST_ASSERT_LESS_THAN_INT64(id, low(busy, x));
    kit_do(late, "COMMIT");
    hunt(busy, id);
}

void test_several_of_them_that_end_one_after_another(void)
{
    PGconn *open[4] = {late, other, kit_open(), kit_open()};
    static const int order[4] = {2, 0, 3, 1};
    long long ids[4];

    set_out();
    for (int i = 0; i < 4; i++) {
        kit_do(open[i], "BEGIN");
        ids[i] = kit_put(open[i], "q");
        surveys(busy, 1);
    }
    bury(busy, ids[3]);
    for (int i = 0; i < 4; i++) {
        kit_do(open[order[i]], "COMMIT");
        hunt(busy, ids[order[i]]);
        surveys(busy, 1);
    }
}

/* It enqueues again while its first job is passed: both come. */
void test_a_watched_transaction_enqueues_once_more(void)
{
    long long first, second;

    set_out();
    kit_do(late, "BEGIN");
    first = kit_put(late, "q");
    bury(busy, first);
    second = kit_put(late, "q");
    bury(busy, second);
    kit_do(late, "COMMIT");
    hunt(busy, first);
    if (!among(BATCH, second)) hunt(busy, second);
}

/* Nothing is expected of it so far; that must not be held against it later. */
void test_a_transaction_that_is_old_before_its_first_job(void)
{
    char x[32];
    long long id, before;

    set_out();
    snprintf(x, sizeof(x), "%s", kit_text(late, "BEGIN; SELECT pg_current_xact_id()"));
    before = last_place();
    for (long long end = kit_ms() + PATIENCE_MS; kit_ms() < end && low(busy, x) <= before;)
        surveys(busy, 1);
    TEST_ASSERT_GREATER_THAN_INT64_MESSAGE(before, low(busy, x), "not watched, or from its start");
    id = kit_put(late, "q");
    bury(busy, id);
    TEST_ASSERT_LESS_THAN_INT64(id, low(busy, x));
    kit_do(late, "COMMIT");
    hunt(busy, id);
}

/* A producer draws its place, and then waits for another one that has its unique key: for long it
 * holds a place without having written any job. */
void test_a_producer_that_waits_with_its_place_for_a_key(void)
{
    char x[32];
    long long id;

    set_out();
    snprintf(x, sizeof(x), "%s", kit_text(late, "BEGIN; SELECT pg_current_xact_id()"));
    kit_do(other, "BEGIN; SELECT pgwork.enqueue('q', key => 'k')");
    kit_send(late, "SELECT id FROM pgwork.enqueue('q', key => 'k')");
    kit_blocked(late, watch);
    bury(busy, last_place());
    surveys(busy, 2);
    TEST_ASSERT_TRUE_MESSAGE(low(busy, x) >= 0, "not watched");
    kit_do(other, "ROLLBACK"); /* and looks where that one's jobs might be */
    id = strtoll(kit_answer(late), NULL, 10);
    surveys(busy, 3);
    bury(busy, id);
    kit_do(late, "COMMIT");
    hunt(busy, id);
}

/* Between the look at who runs and that at who has drawn places: the latter reads pg_database. */
void test_a_commit_in_the_midst_of_a_survey(void)
{
    const char *answer;
    long long id;

    set_out();
    kit_do(late, "BEGIN");
    id = kit_put(late, "q");
    bury(busy, id);
    fill(BATCH);
    survey_next(busy);
    kit_do(other, "BEGIN; LOCK TABLE pg_database IN ACCESS EXCLUSIVE MODE");
    kit_send(busy, "SELECT count(*) || ' ' || bool_or(id = %lld) FROM pgwork.claim('{q}', %d, 'b')",
             id, BATCH);
    kit_blocked(busy, watch);
    kit_do(late, "COMMIT");
    kit_do(other, "COMMIT");
    answer = kit_answer(busy);
    if (strcmp(answer, "5 true") == 0) return; /* there was something to sweep just then */
    TEST_ASSERT_EQUAL_STRING("5 false", answer);
    hunt(busy, id);
}

/* -- a queue at rest --------------------------------------------------------------------------- */

/* To sessions that poll an empty queue there is nothing but the place that a producer has drawn,
 * and the producer has the newest transaction of all. Then the others come to life. */
static void rest(PGconn *conn, long long id)
{
    for (long long end = kit_ms() + PATIENCE_MS; kit_ms() < end && floor_of(conn) < id;) {
        TEST_ASSERT_EQUAL_INT(0, kit_claim(conn, "q", 1, jobs));
        kit_sleep_ms(10);
    }
    TEST_ASSERT_TRUE_MESSAGE(floor_of(conn) >= id, "the floors do not move on");
}

static void outwait(PGconn *conn, long long id)
{
    rest(conn, id);
    fill(2 * BATCH);
    pass(conn, id);
}

static void empty(PGconn *conn)
{
    while (kit_claim(conn, "q", 100, jobs) > 0)
        ;
}

void test_the_newest_transaction_may_be_slow_as_well(void)
{
    long long id;

    for (int i = 0; i < 3; i++) {
        empty(busy);
        kit_do(late, "BEGIN");
        id = kit_put(late, "q");
        outwait(busy, id);
        kit_do(late, "COMMIT");
        hunt(busy, id);
    }
}

void test_the_newest_transaction_with_savepoints(void)
{
    long long id;

    kit_do(late, "BEGIN; SAVEPOINT s");
    id = kit_put(late, "q");
    kit_do(late,
           "SAVEPOINT t; SELECT pgwork.enqueue('q', priority => 5); ROLLBACK TO t; RELEASE s");
    outwait(busy, id);
    kit_do(late, "COMMIT");
    hunt(busy, id);
}

/* Of so many savepoints that nobody can keep them all in mind. */
void test_the_newest_transaction_with_thousands_of_savepoints(void)
{
    long long id;

    kit_do(late, "BEGIN");
    id = kit_put(late, "q");
    kit_do(late, "CREATE TEMP TABLE t (i integer) ON COMMIT DROP;"
                 "DO 'BEGIN FOR i IN 1 .. 3000 LOOP BEGIN INSERT INTO t VALUES (i);"
                 " EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END'");
    for (int i = 0; i < 40; i++) {
        TEST_ASSERT_EQUAL_INT(0, kit_claim(busy, "q", 1, jobs));
        kit_sleep_ms(5);
    }
    fill(2 * BATCH);
    bury(busy, id);
    kit_do(late, "COMMIT");
    hunt(busy, id);
}

/* Its only job comes long after its first survey. */
void test_the_newest_transaction_takes_its_time(void)
{
    long long id;

    kit_do(late, "BEGIN; SELECT pg_current_xact_id()");
    for (int i = 0; i < 40; i++) {
        TEST_ASSERT_EQUAL_INT(0, kit_claim(busy, "q", 1, jobs));
        kit_sleep_ms(5);
    }
    id = kit_put(late, "q");
    outwait(busy, id);
    kit_do(late, "COMMIT");
    hunt(busy, id);
}

/* All claims of the session in one transaction: it has its snapshot anew with each, but not all
 * that the server can tell of transactions is told anew within one. */
void test_sessions_in_long_transactions_of_their_own(void)
{
    static const char *const own[] = {"BEGIN", "BEGIN; SELECT pg_current_xact_id(), age('3'::xid)"};
    long long id;

    for (int i = 0; i < 2; i++) {
        empty(busy);
        kit_do(busy, "%s", own[i]);
        kit_do(late, "BEGIN");
        id = kit_put(late, "q");
        rest(busy, id);
        kit_do(busy, "COMMIT");
        fill(2 * BATCH);
        bury(busy, id);
        kit_do(late, "COMMIT");
        hunt(busy, id);
    }
}

/* -- what others hold -------------------------------------------------------------------------- */

void test_a_claim_that_is_rolled_back_behind_others(void)
{
    long long first, last;
    int back = 0;

    set_out();
    step(late);
    survey_not(late); /* else the others could not, as long as it is open */
    fill(20);
    kit_do(late, "BEGIN");
    TEST_ASSERT_EQUAL_INT(20, kit_claim(late, "q", 20, jobs));
    first = jobs[0].id;
    last = jobs[19].id;
    pass(busy, last);
    pass(other, last);
    surveys(busy, 3);
    surveys(other, 3);
    kit_do(late, "ROLLBACK");
    for (long long end = kit_ms() + PATIENCE_MS; kit_ms() < end && back < 20;) {
        step(back % 2 ? busy : other);
        for (int i = 0; i < BATCH; i++)
            if (jobs[i].id >= first && jobs[i].id <= last) {
                TEST_ASSERT_EQUAL_INT(1, jobs[i].attempt);
                back++;
            }
    }
    TEST_ASSERT_EQUAL_INT_MESSAGE(20, back, "passed over");
}

/* Surveys begin behind what it holds: who finds nothing would walk over all that was claimed since.
 */
void test_a_claim_that_stays_open_for_long(void)
{
    static const int order[3] = {1, 2, 0};
    PGconn *open[3] = {late, other, kit_open()};
    long long ids[3][BATCH];
    char x[3][32];

    set_out();
    for (int i = 0; i < 3; i++) {
        step(open[i]);
        survey_not(open[i]); /* else the others could not, as long as it is open */
        kit_do(open[i], "BEGIN");
        snprintf(x[i], sizeof(x[i]), "%s", kit_text(open[i], "SELECT pg_current_xact_id()"));
        fill(BATCH);
        TEST_ASSERT_EQUAL_INT(BATCH, kit_claim(open[i], "q", BATCH, jobs));
        for (int k = 0; k < BATCH; k++) ids[i][k] = jobs[k].id;
        if (i < 2) surveys(busy, 1);
    }
    bury(busy, ids[2][BATCH - 1]);
    for (int i = 0; i < 3; i++) {
        TEST_ASSERT_LESS_THAN_INT64(ids[i][0], low(busy, x[i]));
        if (i > 0) /* each by its own */
            TEST_ASSERT_GREATER_THAN_INT64(ids[i - 1][0], low(busy, x[i]));
    }
    for (int i = 0; i < 3; i++) {
        kit_do(open[order[i]], i == 1 ? "COMMIT" : "ROLLBACK");
        if (i != 1) hunt(busy, ids[order[i]][0]);
        surveys(busy, 1);
    }
}

/* Surveys go by what it holds far below the floors, too: else there would be one to each of these
 * jobs, before what lies behind them comes. */
void test_stragglers_behind_those_that_somebody_holds(void)
{
    enum { MANY = 300 };
    PGconn *later = kit_open();
    long long id, behind, got;

    set_out();
    kit_do(late, "BEGIN");
    id = kit_number(late,
                    "SELECT min(id) FROM pgwork.enqueue_many('q', array_fill('1'::jsonb,"
                    " ARRAY[%d]))",
                    MANY);
    kit_do(later, "BEGIN");
    kit_do(producer, "SELECT count(nextval('pgwork.place')) FROM generate_series(1, 2000)");
    behind = kit_put(later, "q");
    kit_do(producer, "SELECT count(nextval('pgwork.place')) FROM generate_series(1, 150000)");
    bury(busy, behind + 100000);
    kit_do(late, "COMMIT");
    kit_do(other, "BEGIN");
    got = kit_number(other,
                     "WITH h AS (SELECT FROM pgwork.live_job WHERE pos BETWEEN %lld AND %lld"
                     " FOR UPDATE) SELECT count(*) FROM h",
                     id, id + MANY - 1);
    TEST_ASSERT_EQUAL_INT64(MANY, got);
    kit_do(later, "COMMIT");
    hunt_far(busy, behind);
    kit_do(other, "COMMIT");
    hunt_far(busy, id);
}

void test_a_job_that_others_have_locked_comes_when_they_are_through(void)
{
    static const char *const locks[][2] = {
        {"SELECT outcome FROM pgwork.enqueue('q', '\"new\"', key => 'k', key_policy => 'replace')",
         "COMMIT"},
        {"SELECT outcome FROM pgwork.enqueue('q', '\"new\"', key => 'k', key_policy => 'replace')",
         "ROLLBACK"},
        {"SELECT 1 FROM pgwork.live_job WHERE key = 'k' FOR UPDATE", "COMMIT"},
        {"SELECT 1 FROM pgwork.live_job WHERE key = 'k' FOR SHARE", "COMMIT"},
    };
    struct took job;
    long long id;

    set_out();
    for (size_t i = 0; i < sizeof(locks) / sizeof(locks[0]); i++) {
        id = kit_number(producer, "SELECT id FROM pgwork.enqueue('q', '\"old\"', key => 'k')");
        kit_do(late, "BEGIN; %s", locks[i][0]);
        if (i == 3) kit_do(other, "BEGIN; %s", locks[i][0]); /* by two at once */
        pass(busy, id);
        surveys(busy, 2);
        kit_do(late, "%s", locks[i][1]);
        if (i == 3) kit_do(other, "COMMIT");
        hunt(busy, id);
        for (int k = 0; k < BATCH; k++)
            if (jobs[k].id == id) job = jobs[k];
        TEST_ASSERT_EQUAL_STRING(
            i == 0 ? "\"new\"" : "\"old\"",
            kit_text(watch, "SELECT payload FROM pgwork.job WHERE id = %lld", id));
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(busy, "complete", &job, ""));
    }
}

/* -- what comes in unannounced ----------------------------------------------------------------- */

static void copy(PGconn *conn, int in_lane, int n)
{
    char row[64];
    PGresult *res = PQexec(conn, "COPY pgwork.live_job (queue, lane, payload) FROM STDIN");
    int length = snprintf(row, sizeof(row), "%s\t%d\t\"copied\"\n",
                          kit_text(watch, "SELECT id FROM pgwork.queue WHERE name = 'q'"), in_lane);

    TEST_ASSERT_EQUAL_INT(PGRES_COPY_IN, PQresultStatus(res));
    PQclear(res);
    for (int i = 0; i < n; i++) TEST_ASSERT_EQUAL_INT(1, PQputCopyData(conn, row, length));
    TEST_ASSERT_EQUAL_INT(1, PQputCopyEnd(conn, NULL));
    res = PQgetResult(conn);
    TEST_ASSERT_EQUAL_INT_MESSAGE(PGRES_COMMAND_OK, PQresultStatus(res), PQerrorMessage(conn));
    while (res) {
        PQclear(res);
        res = PQgetResult(conn);
    }
}

void test_copied_jobs_of_a_new_priority_come_to_a_session_with_a_fresh_hint(void)
{
    int copied = 0;

    lane = 11;
    set_out();
    step(busy);
    kit_do(late, "BEGIN");
    copy(late, 7, 40);
    step(busy);
    kit_do(late, "COMMIT");
    copy(late, 15, 1); /* after all that is there */
    for (long long end = kit_ms() + PATIENCE_MS; kit_ms() < end && copied < 40;) {
        step(busy);
        for (int i = 0; i < BATCH; i++) copied += jobs[i].priority == 3;
    }
    TEST_ASSERT_EQUAL_INT_MESSAGE(40, copied, "passed over");
    for (long long end = kit_ms() + PATIENCE_MS; kit_ms() < end && copied < 41;)
        for (int i = kit_claim(busy, "q", BATCH, jobs); i > 0; i--)
            copied += jobs[i - 1].priority == 7;
    TEST_ASSERT_EQUAL_INT_MESSAGE(41, copied, "passed over");
}

/* -- what keeps surveys short ------------------------------------------------------------------ */

static void check_that_floors_follow(void)
{
    long long id = fill(2000);

    for (int got = 0; got < 2000; surveys(busy, 1)) got += kit_claim(busy, "q", 200, jobs);
    bury(busy, id);
}

void test_floors_and_marks_follow_what_was_claimed(void)
{
    check_that_floors_follow();
    kit_do(late,
           "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT count(*) FROM pgwork.job");
    check_that_floors_follow();
    kit_do(late, "COMMIT");
}

/* Whoever is open, floors go by; what was enqueued in it begins a survey once, when it ends. */
void test_floors_follow_while_a_producer_is_open(void)
{
    long long id;

    kit_do(late, "BEGIN");
    id = kit_put(late, "q");
    check_that_floors_follow();
    kit_do(late, "COMMIT");
    hunt(busy, id);
    check_that_floors_follow();
}

/* Others take all that there is: a session must not look through it again and again. */
void test_marks_follow_in_a_session_that_finds_nothing(void)
{
    long long id;

    TEST_ASSERT_EQUAL_INT(0, kit_claim(busy, "q", 1, jobs));
    id = fill(2000);
    empty(other);
    for (long long end = kit_ms() + PATIENCE_MS; kit_ms() < end && mark(busy) < id;) {
        TEST_ASSERT_EQUAL_INT(0, kit_claim(busy, "q", 1, jobs));
        kit_sleep_ms(10);
    }
    TEST_ASSERT_TRUE_MESSAGE(mark(busy) >= id, "the marks do not move on");
}

void test_marks_follow_in_a_session_that_claims_where_it_has_written(void)
{
    long long id = fill(2000);

    for (long long end = kit_ms() + PATIENCE_MS; kit_ms() < end && mark(busy) < id;) {
        kit_do(busy, "BEGIN; SELECT pg_current_xact_id()");
        kit_claim(busy, "q", 100, jobs);
        kit_do(busy, "COMMIT");
        kit_sleep_ms(10);
    }
    TEST_ASSERT_TRUE_MESSAGE(mark(busy) >= id, "the marks do not move on");
}

/* -- what sessions know from each other -------------------------------------------------------- */

/* It would pass over the remains of all that was claimed before it came. */
void test_a_new_session_begins_where_others_are(void)
{
    PGconn *fresh = kit_open();
    long long id = fill(2000);

    kit_do(late,
           "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT count(*) FROM pgwork.job");
    for (int got = 0; got < 2000;) got += kit_claim(busy, "q", 200, jobs);
    bury(busy, id);
    kit_do(watch, "UPDATE pgwork.survey SET at = " NOW);
    step(fresh);
    TEST_ASSERT_GREATER_OR_EQUAL_INT64(id, mark(fresh));
}

/* Nor does one that was away while others claimed: it goes on where they have come, until a survey
 * tells it of a straggler. */
void test_a_session_that_was_away_goes_on_where_others_are(void)
{
    long long id;

    set_out();
    step(other);
    kit_do(late, "BEGIN");
    id = kit_put(late, "q");
    pass(busy, id);
    kit_do(late, "COMMIT");
    TEST_ASSERT_LESS_THAN_INT64(id, mark(other));
    survey_not(other);
    step(other);
    TEST_ASSERT_FALSE_MESSAGE(among(BATCH, id), "it looks at all of these again");
    TEST_ASSERT_GREATER_OR_EQUAL_INT64(id, mark(other));
    survey_next(other);
    hunt(other, id);
}

/* They may have been rolled back. */
void test_where_others_are_is_not_where_the_queue_ends(void)
{
    long long id;

    set_out();
    step(other);
    while (kit_claim(other, "q", BATCH, jobs) > 0) continue;
    id = kit_put(producer, "q");
    kit_do(watch,
           "SELECT setval('pgwork.mark', (id::bigint << 49) + (%lld << 5) + 1)"
           " FROM pgwork.queue WHERE name = 'q'",
           id + 100);
    survey_not(other);
    kit_sleep_ms(12); /* longer than it relies on its own marks */
    TEST_ASSERT_EQUAL_INT(1, kit_claim(other, "q", 1, jobs));
    TEST_ASSERT_EQUAL_INT64(id, jobs[0].id);
}

/* A producer commits many jobs late: all sessions help, and go on until none is left. */
void test_many_stragglers_are_everybodys_business(void)
{
    enum { MANY = 20 * BATCH };
    long long first, got = 0;

    set_out();
    step(other);
    kit_do(late, "BEGIN");
    first = kit_number(late,
                       "SELECT min(id) FROM pgwork.enqueue_many('q', array_fill('1'::jsonb,"
                       " ARRAY[%d]))",
                       MANY);
    pass(busy, first + MANY);
    surveys(busy, 1); /* the marks have come further than these */
    kit_do(late, "COMMIT");
    surveys(busy, 1);
    survey_next(other);
    for (int i = 0; i < 8; i++) {
        fill(BATCH);
        TEST_ASSERT_EQUAL_INT(BATCH, kit_claim(other, "q", BATCH, jobs));
        for (int k = 0; k < BATCH; k++) got += jobs[k].id >= first && jobs[k].id < first + MANY;
        kit_sleep_ms(12); /* longer than it relies on its own marks */
    }
    TEST_ASSERT_EQUAL_INT64(8 * BATCH, got);
}

void test_a_mark_is_one_queues(void)
{
    const char *ask = "SELECT coalesce(pgwork._mark(%d), -1)";

    TEST_ASSERT_EQUAL_INT64(-1, kit_number(watch, ask, 7));
    kit_do(watch, "SELECT setval('pgwork.mark', (7::bigint << 49) + 12345)");
    TEST_ASSERT_EQUAL_INT64(12345, kit_number(watch, ask, 7));
    TEST_ASSERT_EQUAL_INT64(-1, kit_number(watch, ask, 6));
    TEST_ASSERT_EQUAL_INT64(-1, kit_number(watch, ask, 7 + 16384));
    kit_do(watch, "SELECT setval('pgwork.mark', 9223372036854775807)");
    TEST_ASSERT_EQUAL_INT64((1LL << 49) - 1, kit_number(watch, ask, 16383));
    TEST_ASSERT_EQUAL_INT64(-1, kit_number(watch, ask, 16384));
    TEST_ASSERT_EQUAL_INT64(-1, kit_number(watch, ask, 2147483647));
}

/* Its transaction keeps the lock. */
void test_others_survey_while_the_one_that_did_stays_open(void)
{
    long long id;

    set_out();
    kit_do(late, "BEGIN");
    id = kit_put(late, "q");
    bury(busy, id);
    kit_do(watch, "UPDATE pgwork.survey SET at = at - 60000");
    kit_do(other, "BEGIN");
    surveys(other, 1);
    TEST_ASSERT_EQUAL_INT64_MESSAGE(
        0,
        kit_number(watch, "SELECT pg_try_advisory_lock(pgwork._lock('survey', id))::integer"
                          " FROM pgwork.queue WHERE name = 'q'"),
        "the other one does not survey");
    kit_do(late, "COMMIT");
    hunt(busy, id);
    kit_do(other, "COMMIT");
}

/* It walks over all remains, and what comes late meanwhile must not wait until that has paid off.
 */
/* Another one is in the midst of a survey for long, and there is more to be walked over than one of
 * ours has time for: each goes on from where its own came, or the one before that. */
void test_surveys_of_a_session_alone_go_on_from_each_other(void)
{
    const long long start = -9000000000000000;
    long long first = 0, came = 0;

    set_out();
    surveys(busy, 1);
    kit_do(watch, "UPDATE pgwork.survey SET at = at - 60000, floors = array_fill(%lld, ARRAY[20])",
           start);
    kit_do(other, "BEGIN; SELECT pg_advisory_xact_lock(pgwork._lock('survey', id))"
                  " FROM pgwork.queue WHERE name = 'q'");
    for (int i = 0; i < 9; i++) {
        kit_set_hint(busy, "h[1:3] || 0::bigint || h[5:]");
        kit_set_short(busy, "NULL");
        kit_sleep_ms(600); /* the last one is old enough */
        step(busy);
        came = kit_number(busy, "SELECT (current_setting(pgwork._own_survey(id))::pgwork.survey)"
                                ".floors[10] FROM pgwork.queue WHERE name = 'q'");
        if (i == 0) first = came;
    }
    TEST_ASSERT_GREATER_THAN_INT64(start + 2 * (first - start), came);
    kit_do(other, "COMMIT");
}

void test_a_survey_of_everything_puts_the_next_one_off_no_longer(void)
{
    long long id = fill(10000), before;

    kit_do(late,
           "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT count(*) FROM pgwork.job");
    for (int got = 0; got < 10000;) got += kit_claim(busy, "q", 1000, jobs);
    bury(busy, id);
    before = kit_number(watch, "UPDATE pgwork.survey SET all_due = 0 RETURNING all_at");
    surveys(busy, 1);
    TEST_ASSERT_GREATER_THAN_INT64(before, kit_number(watch, "SELECT all_at FROM pgwork.survey"));
    TEST_ASSERT_EQUAL_INT64(0, kit_number(watch, "SELECT pause FROM pgwork.survey"));
}

/* Behind an old snapshot it may have to read all that was ever claimed from the disk. */
void test_a_look_at_everything_comes_again_the_later_the_longer_it_took(void)
{
    set_out();
    surveys(busy, 1);
    kit_do(watch, "UPDATE pgwork.survey SET froms = '{}', tos = '{}', all_at = " NOW
                  " - 30000, all_due = " NOW " + 86400000");
    surveys(busy, 1);
    TEST_ASSERT_GREATER_THAN_INT64(
        590000, kit_number(watch, "SELECT all_due - " NOW " FROM pgwork.survey"));
    TEST_ASSERT_LESS_THAN_INT64(86000000,
                                kit_number(watch, "SELECT all_due - " NOW " FROM pgwork.survey"));
}

/* Else who reads it would walk over all that was renewed while vacuum is held back. */
void test_a_survey_of_later_has_a_row_of_its_own_and_no_other_stays(void)
{
    set_out();
    surveys(busy, 1);
    for (int i = 0; i < 2; i++) {
        kit_do(watch, "UPDATE pgwork.survey SET period = period - 1, at = at - 30000");
        surveys(busy, 1);
        TEST_ASSERT_EQUAL_INT64(1, kit_number(watch, "SELECT count(*) FROM pgwork.survey"));
        TEST_ASSERT_EQUAL_INT64(0,
                                kit_number(watch, "SELECT at / 30000 - period FROM pgwork.survey"));
    }
}

/* What another session saw was fresh when the claim began, and was not any more when it was read.
 */
void test_a_claim_that_was_held_up_trusts_no_survey_that_is_old_by_then(void)
{
    struct took job, none;

    fill(1);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(busy, "q", 1, &job));
    kit_do(late, "BEGIN; SELECT pgwork.enqueue('q')");
    TEST_ASSERT_EQUAL_INT(0, kit_claim(busy, "q", 1, &none)); /* and it surveys */
    kit_do(other, "BEGIN; SELECT FROM pgwork.live_job WHERE pos = %lld FOR UPDATE", job.id);
    kit_do(watch, "UPDATE pgwork.survey SET at = " NOW);
    kit_send(late,
             "SELECT count(*) FROM pgwork.claim('{q}', 1, 'w', NULL, '{%lld}', '{%s}')"
             " WHERE attempt > 0",
             job.id, job.token);
    kit_blocked(late, other);
    kit_sleep_ms(60);
    kit_do(other, "COMMIT");
    TEST_ASSERT_EQUAL_STRING("1", kit_answer(late)); /* its own transaction has brought it */
}

void test_a_survey_that_is_rolled_back_has_not_been(void)
{
    long long id;

    set_out();
    kit_do(late, "BEGIN");
    id = kit_put(late, "q");
    pass(busy, id);
    kit_do(other, "BEGIN");
    surveys(other, 3);
    kit_do(late, "COMMIT");
    kit_do(other, "ROLLBACK");
    hunt(busy, id);
}

/* The table does not survive a crash, nor a failover. */
void test_surveys_that_are_lost_are_made_again(void)
{
    long long id;

    set_out();
    kit_do(late, "BEGIN");
    id = kit_put(late, "q");
    bury(busy, id);
    kit_do(watch, "TRUNCATE pgwork.survey");
    kit_do(late, "COMMIT");
    hunt(busy, id);
}

/* -- what is remembered wrongly ---------------------------------------------------------------- */

#define FAR "999999999" /* place, not to be reached */

void test_wrong_hints_hide_no_job(void)
{
    static const char *const hints[] = {
        /* from the future, marks far ahead */
        "(ARRAY[" NOW " + 3600000, 0, " NOW " + 3600000, " NOW " + 7200000, 1, " FAR ", " FAR ", 0,"
        " " NOW " + 3600000, id, 0, (" FAR "::bigint << 5) + 1])::text",
        /* of now, marks far ahead */
        "(ARRAY[" NOW ", " NOW ", " NOW " + 50, " NOW " + 300, 1, " FAR ", " FAR ", 0, " NOW ","
        " id, 0, (" FAR "::bigint << 5) + 1])::text",
        /* another queue's */
        "(ARRAY[" NOW ", " NOW ", " NOW " + 50, " NOW " + 300, 1, " FAR ", " FAR ", 0, " NOW ","
        " id + 256, 0, (" FAR "::bigint << 5) + 1])::text",
        /* without marks, too short, empty, an older version's */
        "(ARRAY[" NOW ", " NOW ", " NOW " + 50, " NOW " + 300, 1, 0, 0, 0, 0, id, 0])::text",
        "(ARRAY[" NOW "])::text",
        "'{}'",
        "(ARRAY[" NOW ", 1, " NOW " + 500, 32, 33])::text",
    };
    /* at and all_at, all_due; all far ahead */
    static const char *const surveys_too[] = {
        NULL, NOW " + 3600000, " NOW " + 7200000", /* from the future */
        NOW " - 60000, " NOW,                      /* long past */
    };

    for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++)
        for (size_t k = 0; k < sizeof(surveys_too) / sizeof(surveys_too[0]); k++) {
            long long id = kit_put(producer, "q");

            kit_do(busy,
                   "SELECT set_config(pgwork._hint(id), %s, false)"
                   " FROM pgwork.queue WHERE name = 'q'",
                   hints[i]);
            if (surveys_too[k])
                kit_do(watch,
                       "DELETE FROM pgwork.survey;"
                       " INSERT INTO pgwork.survey SELECT q.id, a.at / 30000, a.at, 0, a.at, a.due,"
                       " 1, NULL, 0, false, " FAR ", " FAR
                       ", '9', true, f, f, '{}', '{}', '{}', '{}', NULL"
                       " FROM pgwork.queue q, (VALUES (%s)) a (at, due),"
                       " (SELECT array_fill(" FAR "::bigint, ARRAY[20])) f (f)",
                       surveys_too[k]);
            kit_do(watch, "SELECT setval('pgwork.mark', (id::bigint << 49) + (" FAR
                          "::bigint << 5) + 1) FROM pgwork.queue WHERE name = 'q'");
            await(busy, id);
        }
}

void test_sessions_of_other_isolation_levels_find_stragglers(void)
{
    static const char *const levels[] = {"repeatable read", "serializable", "read uncommitted"};
    long long id;

    set_out();
    for (int i = 0; i < 3; i++) {
        kit_do(other, "SET default_transaction_isolation = '%s'", levels[i]);
        kit_do(late, "BEGIN");
        id = kit_put(late, "q");
        for (int k = 0; k < 40; k++) {
            step(other);
            TEST_ASSERT_FALSE(among(BATCH, id));
        }
        kit_do(late, "COMMIT");
        hunt(other, id);
    }
    kit_do(late, "BEGIN"); /* and one that changes between them */
    id = kit_put(late, "q");
    bury(busy, id);
    kit_do(busy, "SET default_transaction_isolation = 'repeatable read'");
    kit_do(late, "COMMIT");
    hunt(busy, id);
}

/* What is issued is newer than what the session can see, and it must not take it for done. */
void test_jobs_behind_an_old_snapshot_come_when_it_is_gone(void)
{
    long long id;

    set_out();
    empty(busy);
    kit_do(busy, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pgwork.job");
    id = kit_put(producer, "q");
    for (int i = 0; i < 40; i++) {
        TEST_ASSERT_EQUAL_INT(0, kit_claim(busy, "q", 1, jobs));
        kit_sleep_ms(5);
    }
    kit_do(busy, "COMMIT");
    await(busy, id);
}
