/* The short way of a claim: what it completes and what it refuses, and which jobs come next. It has
 * to be as exact as the long way, and leave to that one what it cannot do. Together with others:
 * test_it_sql_short_race. */
#include "unity.h"
#include "pgtemp.h"
#include "sqlkit.h"
#include "shortkit.h"

void setUp(void)
{
    short_begin();
}

void tearDown(void)
{
    kit_end();
}

/* -- what is done ------------------------------------------------------------------------------ */

TEST_CASE(1)
TEST_CASE(10)
void test_what_is_done_goes_and_the_next_ones_come_in_their_order(int n)
{
    fill(6 * n);
    take(a, n, mine);
    for (int i = 0; i < 4; i++) {
        TRADED(n, "", n, mine, n, more);
        WENT(a, "short");
        check_new(more, n, mine, n);
        TEST_ASSERT_EQUAL_INT64(mine[n - 1].id + 1, more[0].id);
        memcpy(mine, more, sizeof(mine));
        check_places((4 - i) * n, n);
    }
    TRADED(n, "", n, NULL, 0, more); /* nothing done */
    WENT(a, "short");
    for (int i = 0; i < n; i++) SAYS("ok", a, "extend", mine + i);
}

TEST_CASE(1)
TEST_CASE(10)
void test_a_done_job_that_another_has_claimed_since_is_refused_as_stale(int n)
{
    fill(3 * n);
    take(a, n, mine);
    for (int i = 0; i < n; i++) lose(i);
    TRADED(n, each(n, "stale"), n, mine, n, more);
    WENT(a, "both");
    check_new(more, n, mine, n);
    check_places(n, 2 * n);
    for (int i = 0; i < n; i++) SAYS("ok", b, "complete", theirs + i);
    check_places(n, n);
}

TEST_CASE(1)
TEST_CASE(10)
void test_a_done_job_that_is_not_there_any_more_is_refused_as_gone(int n)
{
    fill(3 * n);
    take(a, n, mine);
    for (int i = 0; i < n; i++) SAYS("ok", b, "complete", mine + i);
    TRADED(n, each(n, "gone"), n, mine, n, more);
    WENT(a, "both");
    check_new(more, n, mine, n);
    check_places(n, n);
}

/* For one as well: what is done may be more than what is wanted. */
TEST_CASE(10, 2, 5)
TEST_CASE(10, 0, 9)
TEST_CASE(10, 9, 0)
TEST_CASE(1, 2, 5)
TEST_CASE(1, 9, 0)
void test_of_ten_done_jobs_exactly_those_are_refused_that_must_be(int n, int gone, int stale)
{
    char says[64];

    fill(30);
    take(a, 10, mine);
    SAYS("ok", b, "complete", mine + gone);
    lose(stale);
    if (gone < stale)
        snprintf(says, sizeof(says), "%d gone,%d stale", gone, stale);
    else
        snprintf(says, sizeof(says), "%d stale,%d gone", stale, gone);
    TRADED(n, says, n, mine, 10, more);
    WENT(a, "both");
    check_new(more, n, mine, 10);
    check_places(20 - n, n + 1);
    SAYS("ok", b, "complete", theirs + stale);
    check_places(20 - n, n);
}

TEST_CASE(1)
TEST_CASE(10)
void test_a_done_job_under_the_token_of_another_one_is_refused(int n)
{
    struct took crossed[MANY];

    fill(30);
    take(a, 10, mine);
    memcpy(crossed, mine, sizeof(crossed));
    memcpy(crossed[3].token, mine[4].token, sizeof(crossed[3].token));
    memcpy(crossed[4].token, mine[3].token, sizeof(crossed[4].token));
    TRADED(n, "3 stale,4 stale", n, crossed, 10, more);
    check_new(more, n, mine, 10);
    check_places(20 - n, n + 2);
    remember_again(a);
    TRADED(n, "", n, mine + 3, 2, more);
    WENT(a, "short");
    check_places(20 - 2 * n, 2 * n);
}

TEST_CASE(1)
TEST_CASE(10)
void test_a_pack_is_completed_by_a_session_with_fresh_memory(int n)
{
    fill(10 + 3 * n);
    kit_do(a, "SET pgwork.few = 1");
    kit_set_short(a, "NULL");
    TEST_ASSERT_EQUAL_INT(10, kit_claim(a, "q", 10, theirs));
    TEST_ASSERT_EQUAL_INT64(1, kit_number(watch, "SELECT count(*) FROM pgwork.pack"));
    kit_do(a, "RESET pgwork.few");
    take(a, n, mine);
    TRADED(n, "", n, theirs, 10, more);
    WENT(a, "both");
    check_new(more, n, mine, n);
    check_places(n, 2 * n);
    TEST_ASSERT_EQUAL_INT64(0, kit_number(watch, "SELECT count(*) FROM pgwork.pack"));
}

TEST_CASE(1, 1)
TEST_CASE(10, 1)
TEST_CASE(10, 2)
void test_a_keyed_job_that_is_done_frees_its_key(int n, int every)
{
    kit_do(watch,
           "SELECT pgwork.enqueue('q', key => CASE g %% %d WHEN 0 THEN 'k' || g END)"
           " FROM generate_series(1, %d) g",
           every, n);
    fill(n);
    take(a, n, mine);
    TEST_ASSERT_EQUAL_INT64(n / every, kit_number(watch, "SELECT count(*) FROM pgwork.unique_key"));
    TRADED(n, "", n, mine, n, more);
    WENT(a, "both");
    check_new(more, n, mine, n);
    check_places(0, n);
    TEST_ASSERT_EQUAL_INT64(0, kit_number(watch, "SELECT count(*) FROM pgwork.unique_key"));
}

TEST_CASE(1)
TEST_CASE(10)
void test_a_queue_that_keeps_what_is_done_keeps_it(int n)
{
    fill(3 * n);
    take(a, n, mine);
    kit_do(watch, "SELECT pgwork.queue_set('q', retention_ms => 600000)");
    TRADED(n, "", n, mine, n, more);
    check_new(more, n, mine, n);
    TEST_ASSERT_EQUAL_STRING(kit_text(watch, "SELECT '%d %d 0 0 %d'", n, n, n),
                             kit_places(watch, "q"));
    TEST_ASSERT_EQUAL_INT64(
        n, kit_number(watch,
                      "SELECT count(*) FROM pgwork.job WHERE state = 'done' AND attempt = 1"
                      " AND id <= %lld",
                      mine[n - 1].id));
}

/* -- what comes next --------------------------------------------------------------------------- */

/* With a hint that knows this priority, and all that were used before. */
static void warm_with(int priority)
{
    fill_at(priority, 1);
    kit_do(watch, "SELECT pgwork.queue_purge('q')");
    kit_set_hint(a, "'{0}'");
    warm(a);
}

TEST_CASE(1)
TEST_CASE(10)
void test_what_is_done_goes_when_nothing_comes(int n)
{
    fill(n);
    take(a, n, mine);
    TRADED(0, "", n, mine, n, more);
    WENT(a, "both");
    check_places(0, 0);
    fill(n);
    TRADED(n, "", n, NULL, 0, more);
    fill(n);
    remember_again(a);
    TRADED(n, "", n, more, n, mine);
    WENT(a, "short");
    remember_again(a);
    TRADED(0, "", n, mine, n, more);
    check_places(0, 0);
}

void test_fewer_come_when_there_are_fewer(void)
{
    fill(17);
    take(a, 10, mine);
    TRADED(7, "", 10, mine, 10, more);
    WENT(a, "both");
    check_new(more, 7, mine, 10);
    check_places(0, 7);
}

TEST_CASE(1)
TEST_CASE(10)
void test_from_a_paused_queue_nothing_comes_but_what_is_done_goes(int n)
{
    fill(3 * n);
    take(a, n, mine);
    kit_do(watch, "SELECT pgwork.queue_pause('q')");
    TRADED(0, "", n, mine, n, more);
    WENT(a, "both");
    check_places(2 * n, 0);
    remember_again(a);
    TRADED(0, "", n, NULL, 0, more);
    remember_again(a);
    TRADED(0, each(n, "gone"), n, mine, n, more); /* and what is refused is told */
    kit_do(watch, "SELECT pgwork.queue_resume('q')");
    remember_again(a);
    TRADED(n, "", n, NULL, 0, mine);
    WENT(a, "short");
}

TEST_CASE(1)
TEST_CASE(10)
void test_what_is_handed_back_comes_first_at_once(int n)
{
    fill(3 * n + 1);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 1, theirs));
    take(a, n, mine);
    SAYS("ok", b, "release", theirs);
    TRADED(n, "", n, mine, n, more);
    WENT(a, "short");
    TEST_ASSERT_EQUAL_INT64(theirs[0].id, more[0].id);
    check_new(more, n, mine, n);
    TEST_ASSERT_EQUAL_INT64(n == 1 ? theirs[0].id : mine[n - 1].id + n - 1, more[n - 1].id);
}

TEST_CASE(1)
TEST_CASE(10)
void test_a_job_of_a_higher_priority_comes_first_at_once(int n)
{
    fill_at(2, 1);
    warm_with(5);
    fill_at(5, 3 * n);
    take(a, n, mine);
    fill_at(2, 1);
    TRADED(n, "", n, mine, n, more);
    WENT(a, "short");
    TEST_ASSERT_EQUAL_INT(2, more[0].priority);
    for (int i = 1; i < n; i++) TEST_ASSERT_EQUAL_INT64(mine[n - 1].id + i, more[i].id);
    fill_at(0, 1);
    TRADED(n, "", n, more, n, mine);
    WENT(a, n == 1 ? "short" : "both"); /* what does not lie together is left */
    TEST_ASSERT_EQUAL_INT(0, mine[0].priority);
}

TEST_CASE(1)
TEST_CASE(10)
void test_a_job_of_a_priority_never_used_before_comes_first_at_once(int n)
{
    warm_with(5);
    fill_at(5, 3 * n);
    take(a, n, mine);
    SAYS("ok", b, "complete", mine); /* and what is refused is told */
    fill_at(3, 1);
    TRADED(n, "0 gone", n, mine, n, more);
    WENT(a, "both");
    TEST_ASSERT_EQUAL_INT(3, more[0].priority);
    check_places(n + 1, n);
}

TEST_CASE(1)
TEST_CASE(10)
void test_a_suspect_comes_alone(int n)
{
    fill(4 * n + 1);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 1, theirs));
    take(a, n, mine);
    SAYS("ok", b, "complete", mine);
    expire(theirs);
    reap(1);
    TRADED(1, "0 gone", n, mine, n, more);
    WENT(a, "both");
    TEST_ASSERT_EQUAL_INT64(theirs[0].id, more[0].id);
    TEST_ASSERT_EQUAL_INT(2, more[0].attempt);
    check_places(3 * n, 1);
    reap(0);
    remember_again(a);
    TRADED(n, "", n, more, 1, mine);
    check_places(2 * n, n);
}

/* Nor does it come when it is not known yet that there is one. */
TEST_CASE(1)
TEST_CASE(10)
void test_a_suspect_never_comes_with_others(int n)
{
    fill(3 * n + 1);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 1, theirs));
    take(a, n, mine);
    expire(theirs);
    reap(1);
    kit_do(watch, "UPDATE pgwork.queue SET suspects = 0");
    TRADED(n, "", n, mine, n, more);
    WENT(a, "short");
    check_new(more, n, theirs, 1);
    reap(0); /* now it is */
    TRADED(1, "", n, more, n, mine);
    TEST_ASSERT_EQUAL_INT64(theirs[0].id, mine[0].id);
}

/* As long as there is anything more urgent: marks move on, too, though not past it. */
TEST_CASE(1)
TEST_CASE(10)
void test_a_less_urgent_suspect_does_not_take_the_short_way_from_others(int n)
{
    fill_at(5, n + 1);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 1, theirs));
    expire(theirs);
    reap(1);
    kit_set_hint(a, "'{0}'"); /* or it would look round, and learn nothing */
    warm(a);
    fill(2 * n);
    take(a, n, mine);
    for (int i = 0; i < 2; i++) {
        TRADED(i == 0 ? n : 1, "", n, mine, n, more);
        WENT(a, i == 0 ? "short" : "both");
        memcpy(mine, more, sizeof(mine));
    }
    TEST_ASSERT_EQUAL_INT64(theirs[0].id, mine[0].id);
    TEST_ASSERT_EQUAL_INT(2, mine[0].attempt);
    check_places(n, 1);
    reap(0);
    TRADED(n, "", n, mine, 1, more);
    TEST_ASSERT_EQUAL_INT(5, more[0].priority);
}

/* Whoever has got something more urgent leaves it, and what is behind it, to the next claim. */
void test_a_suspect_behind_urgent_jobs_is_neither_taken_along_nor_passed_over(void)
{
    fill_at(5, 4);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 1, theirs));
    expire(theirs);
    reap(1);
    fill(2);
    TEST_ASSERT_EQUAL_INT(2, kit_claim(a, "q", 9, mine));
    for (int i = 0; i < 2; i++) TEST_ASSERT_EQUAL_INT(0, mine[i].priority);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 9, more)); /* it is locked by nobody */
    TEST_ASSERT_EQUAL_INT64(theirs[0].id, more[0].id);
    TEST_ASSERT_EQUAL_INT(3, kit_claim(a, "q", 9, mine));
}

TEST_CASE(1)
TEST_CASE(10)
void test_a_claim_says_what_there_is_to_know(int n)
{
    static const char *const says[] = {"q|1|7|4|mail|{\"a\": 1}|\\x0102|{x,y}|00:01:00|t",
                                       "q|1|10|4||1|00:00:05|t"};

    warm_with(4);
    fill(n);
    take(a, n, mine);
    kit_do(watch,
           "SELECT pgwork.enqueue('q', '{\"a\": 1}', 'mail', '\\x0102', 4, max_attempts => 7,"
           " lease_ms => 60000, tags => '{x,y}')");
    fill_at(4, 2 * n);
    for (int i = 0; i < 2; i++) {
        kit_do(a,
               "SELECT set_config('test.ids', '{%lld}', false), set_config('test.tokens', '{%s}', "
               "false)",
               mine[i > 0 && n > 1].id, mine[i > 0 && n > 1].token);
        TEST_ASSERT_EQUAL_STRING(
            says[i],
            kit_text(a,
                     "SELECT concat_ws('|', queue, attempt, max_attempts, priority, kind, payload,"
                     " body, tags, lease_until - server_time,"
                     " server_time - created_at BETWEEN '0' AND '10 s')"
                     " FROM pgwork.claim('{q}', %d, 'w', 5000) WHERE attempt > 0",
                     n));
        WENT(a, "short");
    }
    TEST_ASSERT_EQUAL_INT64(
        2 * n,
        kit_number(watch,
                   "SELECT count(*) FROM pgwork.job WHERE holder = 'w' AND state = 'leased'"));
}

/* -- how long it is good ----------------------------------------------------------------------- */

/* 100 places were claimed in 100 ms; up to `room` places further producers are through; in 400 ms
 * the session is to look round. */
TEST_CASE(0, 1, "false", 20)
TEST_CASE(200, 1, "false", 220)
TEST_CASE(10000, 1, "false", 420)
TEST_CASE(-40, 1, "false", 20)
TEST_CASE(200, 1, "true", 220)
TEST_CASE(350, 1, "true", 320)  /* it passes over what others claim meanwhile */
TEST_CASE(350, 10, "true", 370) /* most of it of other queues */
void test_it_is_good_while_claims_are_far_from_what_is_just_being_enqueued(int room, int spread,
                                                                           const char *blind,
                                                                           int ms)
{
    kit_do(
        a,
        "SELECT pgwork._advance('q', 1, %d, 2000, 1101 * 32 + 1, 5000, ARRAY[4900, 0, 0, 5400, 1,"
        " 1100 + %d, 9999, 1::bigint << 60, 5000, " QUEUE ", 0, 1000 * 32, 1000 * 32 + 1],"
        " ARRAY[1000::bigint * 32, 1000 * 32 + 1], 0, %s, false)",
        spread, room, blind);
    TEST_ASSERT_EQUAL_INT64(
        5000 + ms, kit_number(a, "SELECT (current_setting(pgwork._short('q'))::bigint[])[1]"));
}

/* But for no more than a second: a pause of surveys may be longer. */
TEST_CASE(400, 420)
TEST_CASE(5000, 1020)
void test_a_session_that_is_new_trusts_it_until_it_is_to_look_round(int look_ms, int ms)
{
    kit_do(
        a,
        "SELECT pgwork._advance('q', 1, 1, 2000, 1101 * 32 + 1, 5000, ARRAY[0, 0, 0, 5000 + %d, 1,"
        " 1500, 9999, 1::bigint << 60, 5000, " QUEUE ", 0, 0, 1], '{0,1}', 0, false, false)",
        look_ms);
    TEST_ASSERT_EQUAL_INT64(
        5000 + ms, kit_number(a, "SELECT (current_setting(pgwork._short('q'))::bigint[])[1]"));
}

static int remembers(PGconn *conn, int i)
{
    return (int)kit_number(conn,
                           "SELECT (current_setting(pgwork._hint((SELECT id FROM pgwork.queue"
                           " WHERE name = 'many%d')), true) <> '' IS TRUE)::integer",
                           i);
}

/* To learn one of many queues costs more than it brings. */
void test_the_first_queue_is_remembered_and_others_that_are_met_again(void)
{
    PGconn *c = kit_open();
    int first = 0, again = 0, round = 0;

    for (int i = 1; i <= 100; i++) {
        kit_do(a, "SELECT pgwork.enqueue('many%d') FROM generate_series(1, 1000)", i);
        kit_do(c, "SELECT pgwork.claim('{many%d}', 1, 'h')", i);
        first += remembers(c, i);
    }
    TEST_ASSERT_EQUAL_INT(1, remembers(c, 1));
    TEST_ASSERT_LESS_THAN_INT(30, first); /* three of the other 99, by chance */
    kit_do(c, "SELECT pgwork.claim('{many95}', 1, 'h')");
    TEST_ASSERT_EQUAL_INT(1, remembers(c, 95));
    /* so that who goes round and round learns them as well */
    for (round = 0; round < 300 && again < 30; round++) {
        again = 0;
        for (int i = 2; i <= 100; i++) {
            kit_do(c, "SELECT pgwork.claim('{many%d}', 1, 'h')", i);
            again += remembers(c, i);
        }
    }
    TEST_ASSERT_GREATER_OR_EQUAL_INT(30, again);
}

/* -- where bundles wait ------------------------------------------------------------------------ */

/* What an opened bundle has handed back lies in front of everything else; the rows and the bundle
 * behind it come in their turn, the long way. */
TEST_CASE(1)
TEST_CASE(10)
void test_what_an_opened_bundle_has_handed_back_comes_the_short_way(int n)
{
    kit_do(watch, "SELECT pgwork.queue_set('q', bulk => true)");
    fill(100);
    fill(n);
    fill(100);
    take(a, n, mine);
    for (int i = 1; i < 100 / n; i++) {
        TRADED(n, "", n, mine, n, more);
        WENT(a, "short");
        check_new(more, n, mine, n);
        TEST_ASSERT_EQUAL_INT64(mine[n - 1].id + 1, more[0].id);
        memcpy(mine, more, sizeof(mine));
    }
    for (int i = 0; i < 2; i++) {
        TRADED(n, "", n, mine, n, more);
        WENT(a, "both");
        check_new(more, n, mine, n);
        TEST_ASSERT_EQUAL_INT64(mine[n - 1].id + 1, more[0].id);
        memcpy(mine, more, sizeof(mine));
    }
    check_places(100 - n, n);
    remember(a);
    TRADED(n, "", n, mine, n, more);
    WENT(a, "short");
    TEST_ASSERT_EQUAL_INT64(mine[n - 1].id + 1, more[0].id);
}

/* When less is left there than is wanted, the next bundle is opened for the rest. */
void test_a_claim_takes_the_end_of_one_bundle_and_the_beginning_of_the_next(void)
{
    kit_do(watch, "SELECT pgwork.queue_set('q', bulk => true)");
    fill(34);
    fill(100);
    TEST_ASSERT_EQUAL_INT(10, kit_claim(b, "q", 10, theirs));
    TEST_ASSERT_EQUAL_INT(10, kit_claim(b, "q", 10, theirs));
    take(a, 10, mine);
    TRADED(10, "", 10, mine, 10, more);
    WENT(a, "both");
    check_new(more, 10, mine, 10);
    TEST_ASSERT_EQUAL_INT64(mine[9].id + 1, more[0].id);
    TEST_ASSERT_EQUAL_INT64(mine[9].id + 10, more[9].id);
    remember(a);
    memcpy(mine, more, sizeof(mine));
    TRADED(10, "", 10, mine, 10, more);
    WENT(a, "short");
    TEST_ASSERT_EQUAL_INT64(mine[9].id + 1, more[0].id);
}

/* A memory from before there were bundles could pass over them: it is not used. */
void test_a_memory_from_before_the_bundles_is_not_used(void)
{
    fill(30);
    take(a, 1, mine);
    kit_do(watch, "SELECT pgwork.queue_set('q', bulk => true)");
    fill(100);
    TRADED(1, "", 1, mine, 1, more);
    WENT(a, "both");
    TEST_ASSERT_EQUAL_INT64(mine[0].id + 1, more[0].id);
}

/* What a bundle of a lower priority hands back does not lie in the first lane. */
void test_bundles_of_a_lower_priority_leave_no_memory(void)
{
    kit_do(watch, "SELECT pgwork.queue_set('q', bulk => true)");
    fill_at(3, 100);
    kit_set_short(a, "NULL");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, mine));
    TEST_ASSERT_EQUAL_INT64(-1, through(a));
    fill_at(2, 1);
    TRADED(1, "", 1, mine, 1, more);
    TEST_ASSERT_EQUAL_INT(2, more[0].priority);
}
