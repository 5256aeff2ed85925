/* Groups: a limit and an order for each group, and no job waits for ever. Longer than 600 lines:
 * all tests use the same three sessions and the same counts of a group. */
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
    kit_do(a, "SELECT pgwork.queue_create('q', backoff_ms => 0)");
}

void tearDown(void)
{
    kit_end();
}

static long long put(PGconn *conn, const char *grp)
{
    return kit_number(conn, "SELECT (pgwork.enqueue('q', '{}', grp => '%s')).id", grp);
}

/* So many jobs of each of the groups g1 .. gN. */
static void fill(int groups, int each)
{
    kit_do(
        a,
        "SELECT count(*) FROM pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[%d]), grps => "
        "(SELECT array_agg('g' || i %% %d ORDER BY i) FROM generate_series(0, %d) i))",
        groups * each, groups, groups * each - 1);
}

static void limit(const char *grp, int most, const char *retry)
{
    kit_do(a, "SELECT pgwork.group_set('q', %s, %d, '%s')", grp, most, retry);
}

/* On a slow machine maintain() promotes less often, so it is told to. */
static void tick(PGconn *conn)
{
    kit_do(conn, "SELECT * FROM pgwork.promote()");
    kit_do(conn, "SELECT * FROM pgwork.maintain()");
}

/* -- the limit --------------------------------------------------------------------------------- */

void test_one_job_of_a_group_at_a_time(void)
{
    const long long first = put(a, "g"), second = put(b, "g");

    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 10, jobs));
    TEST_ASSERT_EQUAL_INT64(first, jobs[0].id);
    TEST_ASSERT_EQUAL_INT(0, kit_claim(b, "q", 10, jobs + 1));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &jobs[0], ""));
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 10, jobs + 1));
    TEST_ASSERT_EQUAL_INT64(second, jobs[1].id);
}

void test_a_limit_of_three_lets_three_run(void)
{
    limit("NULL", 3, "hold");
    fill(1, 10);
    TEST_ASSERT_EQUAL_INT(2, kit_claim(a, "q", 2, jobs));
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 10, jobs + 2));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &jobs[1], ""));
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 10, jobs + 3));
    TEST_ASSERT_EQUAL_INT(0, kit_claim(c, "q", 10, jobs + 4));
}

void test_jobs_without_a_group_pass_a_full_one(void)
{
    fill(1, 3);
    kit_put(a, "q");
    TEST_ASSERT_EQUAL_INT(2, kit_claim(a, "q", 10, jobs));
}

void test_a_call_that_completes_gets_the_next_of_the_group(void)
{
    long long last = 0;

    fill(1, 5);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, jobs));
    for (int i = 1; i < 5; i++) {
        last = jobs[0].id;
        TEST_ASSERT_GREATER_THAN_INT64(
            last, jobs[0].id = kit_number(a,
                                          "SELECT id FROM pgwork.claim('{q}', 1, 'x', NULL, "
                                          "ARRAY[%lld], ARRAY['%s'::uuid]) WHERE attempt > 0",
                                          last, jobs[0].token));
        strcpy(jobs[0].token, kit_text(a, "SELECT token FROM pgwork.live_job"));
    }
}

void test_a_lower_limit_drains_and_a_higher_one_admits_at_once(void)
{
    limit("NULL", 4, "hold");
    fill(1, 20);
    TEST_ASSERT_EQUAL_INT(4, kit_claim(a, "q", 10, jobs));
    limit("'g0'", 2, "hold");
    tick(b); /* from here on nothing but completions can open the gate */
    for (int i = 0; i < 2; i++) {
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &jobs[i], ""));
        TEST_ASSERT_EQUAL_INT(0, kit_claim(a, "q", 10, jobs + 4));
    }
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &jobs[2], ""));
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 10, jobs + 4));
    limit("'g0'", 6, "hold");
    TEST_ASSERT_EQUAL_INT(4, kit_claim(a, "q", 10, jobs + 5));
    kit_do(a, "SELECT pgwork.group_reset('q', 'g0')");
    TEST_ASSERT_EQUAL_INT(0, kit_claim(a, "q", 10, jobs + 9));
}

void test_raised_and_lowered_again_the_old_jobs_count(void)
{
    fill(1, 20);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 10, jobs));
    limit("NULL", 8, "hold");
    TEST_ASSERT_EQUAL_INT(7, kit_claim(a, "q", 10, jobs + 1));
    limit("NULL", 1, "hold");
    TEST_ASSERT_EQUAL_INT(0, kit_claim(a, "q", 10, jobs + 8)); /* takes up what the limits left */
    for (int i = 0; i < 7; i++)
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &jobs[i], ""));
    TEST_ASSERT_EQUAL_INT(0, kit_claim(a, "q", 10, jobs + 8));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &jobs[7], ""));
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 10, jobs + 8));
}

void test_a_limit_that_is_raised_while_a_claim_opens_the_gate_counts(void)
{
    fill(1, 2);
    kit_do(b, "BEGIN; LOCK TABLE pgwork.delayed_job IN ACCESS EXCLUSIVE MODE");
    kit_send(c, "SELECT count(*) FROM pgwork.claim('{q}', 10, 'c')"); /* has read the settings */
    kit_blocked(c, a);
    kit_do(b, "SELECT pgwork.group_set('q', group_limit => 2)");
    kit_do(b, "COMMIT");
    const int got = atoi(kit_answer(c));
    TEST_ASSERT_EQUAL_INT(2, got + kit_claim(a, "q", 10, jobs));
}

/* -- order ------------------------------------------------------------------------------------- */

void test_a_group_goes_by_priority_then_age(void)
{
    long long id[3];

    id[2] = kit_number(a, "SELECT (pgwork.enqueue('q', grp => 'g', priority => 5)).id");
    id[0] = put(a, "g");
    id[1] = put(a, "g");
    for (int i = 0; i < 3; i++) {
        TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 10, jobs));
        TEST_ASSERT_EQUAL_INT64(id[i], jobs[0].id);
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &jobs[0], ""));
    }
}

void test_urgent_jobs_go_first_also_where_an_older_one_has_a_place(void)
{
    limit("NULL", 2, "hold");
    kit_do(a, "SELECT pgwork.enqueue('q', '{}', grp => 'g', priority => 5)");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 10, jobs));
    kit_do(a, "SELECT pgwork.enqueue('q', '{}', grp => 'g', priority => 6)");
    kit_do(a, "SELECT count(*) FROM pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[2]), "
              "grps => '{g,g}', priorities => '{0,0}')");
    const long long second = kit_number(a, "SELECT max(id) FROM pgwork.job");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 10, jobs + 1));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &jobs[0], ""));
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 10, jobs + 2));
    TEST_ASSERT_EQUAL_INT64(second, jobs[2].id);
}

void test_a_job_that_is_retried_keeps_its_place(void)
{
    long long first;

    fill(1, 2);
    kit_claim(a, "q", 1, jobs);
    first = jobs[0].id;
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", &jobs[0], ", 'x', 60000"));
    TEST_ASSERT_EQUAL_INT(0, kit_claim(b, "q", 10, jobs));
    kit_due(a, "q");
    tick(b);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 10, jobs));
    TEST_ASSERT_EQUAL_INT64(first, jobs[0].id);
    TEST_ASSERT_EQUAL_INT(2, jobs[0].attempt);
}

void test_with_pass_others_go_first_and_a_retry_comes_in_front(void)
{
    long long first;

    limit("NULL", 1, "pass");
    fill(1, 3);
    kit_claim(a, "q", 1, jobs);
    first = jobs[0].id;
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", &jobs[0], ", 'x', 60000"));
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 10, jobs + 1));
    kit_due(a, "q");
    tick(b);
    TEST_ASSERT_EQUAL_INT(0, kit_claim(b, "q", 10, jobs + 2));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(b, "complete", &jobs[1], ""));
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 10, jobs + 2));
    TEST_ASSERT_EQUAL_INT64(first, jobs[2].id);
}

void test_with_block_a_dead_letter_stops_its_group_until_it_is_decided(void)
{
    limit("NULL", 1, "block");
    fill(2, 3);
    TEST_ASSERT_EQUAL_INT(2, kit_claim(a, "q", 2, jobs));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", &jobs[0], ", 'x', NULL, true"));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &jobs[1], ""));
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 10, jobs + 2)); /* of the other group */
    tick(b);
    TEST_ASSERT_EQUAL_INT64(jobs[0].id,
                            kit_number(a, "SELECT blocked_by FROM pgwork.group_list('q', 'g0')"));
    kit_do(a, "SELECT pgwork.group_unblock('q', 'g0')");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 10, jobs + 3));
    TEST_ASSERT_EQUAL_STRING(
        "g0", kit_text(a, "SELECT grp FROM pgwork.live_job WHERE id = %lld", jobs[3].id));
}

void test_a_redriven_letter_goes_on_where_it_stopped_its_group(void)
{
    limit("NULL", 1, "block");
    fill(1, 3);
    kit_claim(a, "q", 1, jobs);
    kit_say(a, "fail", &jobs[0], ", 'x', NULL, true");
    kit_do(a, "SELECT pgwork.redrive('q')");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 10, jobs + 1));
    TEST_ASSERT_EQUAL_INT64(jobs[0].id, jobs[1].id);
}

void test_jobs_that_came_while_a_letter_stopped_their_group_are_not_forgotten(void)
{
    limit("NULL", 2, "block");
    const long long first =
        kit_number(a, "SELECT (pgwork.enqueue('q', '{}', grp => 'g', priority => 5)).id");
    put(a, "g");
    TEST_ASSERT_EQUAL_INT(2, kit_claim(a, "q", 2, jobs));
    const struct took *letter = &jobs[jobs[0].id == first ? 0 : 1];
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", letter, ", 'x', NULL, true"));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &jobs[letter == jobs], ""));
    const long long urgent = put(b, "g"), second = put(b, "g");
    TEST_ASSERT_EQUAL_INT(0, kit_claim(b, "q", 10, jobs));
    tick(b);
    kit_do(a, "SELECT pgwork.redrive('q')");
    TEST_ASSERT_EQUAL_INT(2, kit_claim(b, "q", 10, jobs));
    TEST_ASSERT_TRUE(urgent == jobs[0].id || urgent == jobs[1].id);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(b, "complete", &jobs[jobs[0].id == first ? 0 : 1], ""));
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 10, jobs));
    TEST_ASSERT_EQUAL_INT64(second, jobs[0].id);
}

void test_a_purged_letter_opens_its_group_at_the_next_tick(void)
{
    limit("NULL", 1, "block");
    fill(1, 3);
    kit_claim(a, "q", 1, jobs);
    kit_say(a, "fail", &jobs[0], ", 'x', NULL, true");
    kit_do(a, "SELECT pgwork.dead_purge('q')");
    TEST_ASSERT_EQUAL_INT(0, kit_claim(b, "q", 10, jobs + 1));
    tick(b);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 10, jobs + 1));
}

/* -- what takes a place away ---------------------------------------------------------------------
 */

void test_a_dead_workers_job_keeps_its_place_and_its_token_frees_nothing(void)
{
    fill(1, 2);
    kit_claim(a, "q", 1, jobs);
    kit_expire(a, "q");
    kit_do(b, "SELECT * FROM pgwork.reap('q')");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 10, jobs + 1));
    TEST_ASSERT_EQUAL_INT64(jobs[0].id, jobs[1].id);
    TEST_ASSERT_EQUAL_STRING("stale", kit_say(a, "complete", &jobs[0], ""));
    TEST_ASSERT_EQUAL_INT(0, kit_claim(c, "q", 10, jobs + 2));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(b, "complete", &jobs[1], ""));
    TEST_ASSERT_EQUAL_STRING("gone", kit_say(b, "complete", &jobs[1], ""));
    TEST_ASSERT_EQUAL_INT(1, kit_claim(c, "q", 10, jobs + 2));
    TEST_ASSERT_EQUAL_INT(0, kit_claim(c, "q", 10, jobs + 3));
}

void test_cancel_purge_and_attempts_used_up_free_a_place(void)
{
    kit_do(a, "SELECT pgwork.queue_set('q', max_attempts => 1)");
    fill(1, 6);
    tick(a); /* the first is ready */
    kit_do(a, "SELECT * FROM pgwork.cancel('q', ARRAY(SELECT id FROM pgwork.live_job))");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 10, jobs));
    kit_do(a, "SELECT * FROM pgwork.cancel('q', ARRAY[%lld])", jobs[0].id);
    kit_say(b, "fail", &jobs[0], ", 'x'");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 10, jobs));
    kit_say(b, "fail", &jobs[0], ", 'x'");
    tick(a);
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT pgwork.queue_purge('q')"));
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 10, jobs));
    kit_do(a, "SELECT pgwork.group_purge('q', 'g0')");
    TEST_ASSERT_EQUAL_STRING("0 1 0 1 0", kit_places(a, "q"));
}

void test_cancelled_jobs_of_a_group_free_their_keys(void)
{
    put(a, "g");
    kit_do(a, "SELECT pgwork.enqueue('q', '{}', grp => 'g', key => 'k')");
    TEST_ASSERT_EQUAL_STRING(
        "exists",
        kit_text(a, "SELECT (pgwork.enqueue('q', '{}', grp => 'g', key => 'k')).outcome"));
    TEST_ASSERT_EQUAL_STRING("replaced",
                             kit_text(a, "SELECT (pgwork.enqueue('q', '2', grp => 'g', key => 'k', "
                                         "key_policy => 'replace')).outcome"));
    kit_do(a, "SELECT pgwork.group_purge('q', 'g')");
    TEST_ASSERT_EQUAL_STRING(
        "new", kit_text(a, "SELECT (pgwork.enqueue('q', '{}', grp => 'g', key => 'k')).outcome"));
}

void test_a_held_group_starts_nothing_until_its_time_is_over(void)
{
    fill(2, 2);
    kit_do(a, "SELECT pgwork.group_hold('q', 'g0', 3600000)");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 10, jobs));
    tick(b);
    TEST_ASSERT_EQUAL_INT(0, kit_claim(a, "q", 10, jobs + 1));
    kit_do(a, "UPDATE pgwork.group_rule SET held_until = now()");
    tick(b);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 10, jobs + 1));
}

/* Claims have consumed the event of the first job when they found the group held. */
void test_when_a_hold_is_over_the_job_that_came_first_is_first(void)
{
    kit_do(a, "SELECT pgwork.group_hold('q', 'g', 3600000)");
    const long long first = put(a, "g");
    TEST_ASSERT_EQUAL_INT(0, kit_claim(a, "q", 10, jobs));
    kit_do(a, "UPDATE pgwork.group_rule SET held_until = now()");
    put(a, "g");
    TEST_ASSERT_EQUAL_INT(0, kit_claim(a, "q", 10, jobs));
    tick(b);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 10, jobs));
    TEST_ASSERT_EQUAL_INT64(first, jobs[0].id);
}

void test_a_delayed_job_of_a_group_comes_to_its_gate_when_it_is_due(void)
{
    put(a, "g");
    kit_do(a, "SELECT pgwork.enqueue('q', '{}', grp => 'g', delay_ms => 60000)");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 10, jobs));
    kit_due(a, "q");
    tick(a);
    TEST_ASSERT_EQUAL_STRING("0 1 0 0 0", kit_places(a, "q"));
    TEST_ASSERT_EQUAL_INT64(1,
                            kit_number(a, "SELECT count(*) FROM pgwork.job WHERE state = 'gated'"));
    kit_say(a, "complete", &jobs[0], "");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 10, jobs));
}

/* -- open transactions ---------------------------------------------------------------------------
 */

void test_a_producer_that_stays_open_delays_no_other_job_of_its_group(void)
{
    kit_do(a, "BEGIN");
    put(a, "g");
    put(b, "g");
    put(b, "g");
    for (int i = 0; i < 2; i++) {
        TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 10, jobs));
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(b, "complete", &jobs[0], ""));
        tick(c);
    }
    kit_do(a, "COMMIT");
    tick(c);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 10, jobs));
}

void test_a_claim_that_stays_open_keeps_its_own_group_only(void)
{
    fill(3, 2);
    kit_do(a, "BEGIN");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, jobs));
    tick(c);
    TEST_ASSERT_EQUAL_INT(2, kit_claim(b, "q", 10, jobs + 1));
    kit_do(a, "ROLLBACK");
    tick(c);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 10, jobs + 3));
}

void test_a_completion_that_rolls_back_frees_nothing(void)
{
    fill(1, 2);
    kit_claim(a, "q", 1, jobs);
    kit_do(a, "BEGIN");
    kit_say(a, "complete", &jobs[0], "");
    tick(c);
    TEST_ASSERT_EQUAL_INT(0, kit_claim(b, "q", 10, jobs + 1));
    kit_do(a, "ROLLBACK");
    tick(c);
    TEST_ASSERT_EQUAL_INT(0, kit_claim(b, "q", 10, jobs + 1));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &jobs[0], ""));
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 10, jobs + 1));
}

void test_two_that_cannot_see_each_other_strand_no_job(void)
{
    long long second;

    put(a, "g");
    kit_claim(a, "q", 1, jobs);
    kit_do(a, "BEGIN");
    kit_say(a, "complete", &jobs[0], "");
    kit_do(b, "BEGIN");
    second = put(b, "g"); /* sees the first one at work */
    kit_do(a, "COMMIT");
    tick(c); /* sees nobody who waits */
    TEST_ASSERT_EQUAL_INT(0, kit_claim(c, "q", 10, jobs + 1));
    kit_do(b, "COMMIT");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(c, "q", 10, jobs + 1));
    TEST_ASSERT_EQUAL_INT64(second, jobs[1].id);
}

void test_a_cancel_that_rolls_back_leaves_the_job_in_its_place(void)
{
    long long first;

    put(a, "g");
    first = put(a, "g");
    put(a, "g");
    kit_claim(a, "q", 1, jobs);
    kit_do(b, "BEGIN");
    kit_do(b, "SELECT * FROM pgwork.cancel('q', ARRAY[%lld])", first);
    kit_say(a, "complete", &jobs[0], "");
    tick(c);
    TEST_ASSERT_EQUAL_INT(0, kit_claim(a, "q", 10, jobs));
    kit_do(b, "ROLLBACK");
    tick(c);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 10, jobs));
    TEST_ASSERT_EQUAL_INT64(first, jobs[0].id);
}

void test_a_cancel_that_stays_open_stops_no_group_with_a_larger_limit(void)
{
    limit("NULL", 2, "hold");
    fill(1, 5);
    TEST_ASSERT_EQUAL_INT(2, kit_claim(a, "q", 10, jobs));
    kit_do(b, "BEGIN");
    kit_do(b, "SELECT * FROM pgwork.cancel('q', ARRAY(SELECT min(id) FROM pgwork.job WHERE state = "
              "'gated'))");
    for (int i = 0; i < 2; i++)
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &jobs[i], ""));
    TEST_ASSERT_EQUAL_INT(2, kit_claim(a, "q", 10, jobs + 2));
    kit_do(b, "ROLLBACK");
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &jobs[2], ""));
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 10, jobs + 4));
    TEST_ASSERT_LESS_THAN_INT64(jobs[2].id, jobs[4].id);
}

void test_a_claim_that_stays_open_keeps_no_place_that_others_free(void)
{
    limit("NULL", 3, "hold");
    fill(1, 6);
    TEST_ASSERT_EQUAL_INT(2, kit_claim(a, "q", 2, jobs));
    put(a, "g0"); /* so that the claim that stays open looks at the group */
    kit_do(b, "BEGIN");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 10, jobs + 2));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &jobs[0], ""));
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 10, jobs + 3));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &jobs[3], ""));
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 10, jobs + 4));
    kit_do(b, "ROLLBACK");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(c, "q", 10, jobs + 5));
    TEST_ASSERT_EQUAL_INT64(jobs[2].id, jobs[5].id);
}

/* Completes jobs[0], and claims the next of its group in jobs[0]. */
static void go_on(int times)
{
    for (int i = 0; i < times; i++) {
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &jobs[0], ""));
        TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, jobs));
    }
}

void test_a_place_that_goes_from_job_to_job_misses_no_late_and_no_urgent_one(void)
{
    long long late, urgent;

    put(a, "g0");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, jobs));
    kit_do(b, "BEGIN");
    late = kit_number(
        b, "SELECT (pgwork.enqueue('q', '{}', grp => 'g0', priority => 5)).id"); /* the lowest
                                                                                    position */
    kit_do(a, "SELECT count(*) FROM pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[250]), "
              "grps => '{g0}', "
              "priorities => '{5}')");
    go_on(120);
    kit_do(b, "COMMIT");
    tick(c); /* which takes up what the commit says while the group is full */
    go_on(1);
    TEST_ASSERT_EQUAL_INT64(late, jobs[0].id);
    go_on(60);
    urgent = kit_number(c, "SELECT (pgwork.enqueue('q', '{}', grp => 'g0')).id");
    tick(c);
    go_on(1);
    TEST_ASSERT_EQUAL_INT64(urgent, jobs[0].id);
    go_on(70);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &jobs[0], ""));
    TEST_ASSERT_EQUAL_INT(0, kit_claim(a, "q", 1, jobs));
}

void test_a_late_commit_goes_in_front_of_younger_jobs(void)
{
    long long late;

    put(a, "g");
    kit_claim(a, "q", 1, jobs);
    kit_do(b, "BEGIN");
    late = put(b, "g");
    put(a, "g");
    put(a, "g");
    kit_say(a, "complete", &jobs[0], "");
    TEST_ASSERT_EQUAL_INT(
        1, kit_claim(a, "q", 1, jobs)); /* a younger one: the other is not there yet */
    kit_do(b, "COMMIT");
    tick(c);
    tick(c);
    kit_say(a, "complete", &jobs[0], "");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, jobs));
    TEST_ASSERT_EQUAL_INT64(late, jobs[0].id);
}

void test_at_repeatable_read_nobody_is_admitted_and_nothing_is_lost(void)
{
    fill(1, 3);
    kit_claim(a, "q", 1, jobs);
    kit_do(b, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    kit_number(b, "SELECT 1");
    kit_say(a, "complete", &jobs[0], "");
    TEST_ASSERT_EQUAL_INT(0, kit_claim(b, "q", 10, jobs + 1));
    kit_do(b, "COMMIT");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(c, "q", 10, jobs + 1));
}

/* -- many ----------------------------------------------------------------------------------------
 */

struct race {
    int most;
};

static void work(PGconn *conn, int i, void *ctx)
{
    struct took mine[20];

    (void)i;
    (void)ctx;
    for (int k = 0; k < 60; k++) {
        const int got = kit_claim(conn, "q", 1 + k % 7, mine);

        kit_do(conn, "INSERT INTO seen SELECT grp, count(*) FROM pgwork.live_job WHERE token IS "
                     "NOT NULL GROUP BY grp");
        for (int j = 0; j < got; j++) kit_say(conn, "complete", &mine[j], "");
    }
}

void test_racing_workers_never_have_more_of_a_group_than_its_limit(void)
{
    kit_do(a, "DROP TABLE IF EXISTS seen; CREATE TABLE seen (grp text, n bigint)");
    limit("NULL", 2, "hold");
    fill(5, 60);
    kit_race(6, work, NULL);
    TEST_ASSERT_LESS_OR_EQUAL_INT64(2, kit_number(a, "SELECT max(n) FROM seen"));
    while (kit_number(a, "SELECT count(*) FROM pgwork.job WHERE state <> 'done'") > 0) {
        const int got = kit_claim(a, "q", 10, jobs);

        TEST_ASSERT_GREATER_THAN_INT(0, got);
        for (int j = 0; j < got; j++) kit_say(a, "complete", &jobs[j], "");
    }
    kit_do(a, "DROP TABLE seen");
}

void test_the_last_of_thousands_of_groups_gets_its_turn(void)
{
    int n = 0;

    fill(3000, 2);
    for (int i = 0; i < 40 && n < 3000; i++) n += kit_claim(a, "q", 500, jobs + n);
    TEST_ASSERT_EQUAL_INT(3000, n);
    for (int i = 0; i < n; i++) kit_say(a, "complete", &jobs[i], "");
    for (n = 0; n < 3000;) {
        const int got = kit_claim(a, "q", 500, jobs + n);

        TEST_ASSERT_GREATER_THAN_INT(0, got);
        n += got;
    }
}

static void complete_within(const char *begin, const struct took *job, const char *end)
{
    kit_do(a, "%s", begin);
    kit_say(a, "complete", job, "");
    kit_do(a, "%s", end);
}

/* The first jobs of 100,000 groups are leased and the second ones wait. The next claim after a
 * place is free gets the job, whichever way it became free. */
void test_the_last_of_100000_groups_gets_its_turn_with_the_next_claim(void)
{
    enum { GROUPS = 100000, LAST = 4 };
    int got = -1;

    kit_do(a, "SELECT count(*) FROM generate_series(0, 49) b CROSS JOIN LATERAL"
              " pgwork.enqueue_many('q', array_fill('1'::jsonb, '{4000}'), grps => ARRAY(SELECT"
              " 'g' || b * 2000 + i / 2 FROM generate_series(0, 3999) i))");
    for (long long n = 0; n < GROUPS - LAST; n += got) {
        got = (int)kit_number(a, "SELECT count(*) FROM pgwork.claim('{q}', %d, 'h', 3600000)",
                              n + 5000 < GROUPS - LAST ? 5000 : (int)(GROUPS - LAST - n));
        TEST_ASSERT_GREATER_THAN_INT(0, got);
    }
    TEST_ASSERT_EQUAL_INT(LAST, kit_claim(a, "q", LAST + 1, jobs));
    TEST_ASSERT_EQUAL_INT(0, kit_claim(b, "q", 1, jobs + LAST));
    complete_within("BEGIN", &jobs[0], "COMMIT");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 1, jobs + LAST));
    complete_within("BEGIN", &jobs[1], "ROLLBACK");
    TEST_ASSERT_EQUAL_INT(0, kit_claim(b, "q", 1, jobs + LAST));
    complete_within("BEGIN", &jobs[1], "COMMIT");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 1, jobs + LAST));
    complete_within("BEGIN ISOLATION LEVEL REPEATABLE READ", &jobs[2], "COMMIT");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 1, jobs + LAST));
    kit_say(a, "extend", &jobs[3], ", 100"); /* its worker is dead */
    while (kit_number(c, "SELECT returned FROM pgwork.reap('q')") == 0) kit_sleep_ms(10);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 1, jobs + LAST));
    TEST_ASSERT_EQUAL_INT64(jobs[3].id, jobs[LAST].id);
}

/* Jobs of groups that are held, so that no claim and no tick makes them ready. */
static void flood(int from, int groups)
{
    kit_do(a, "SELECT pgwork.group_hold('q', 'g' || i) FROM generate_series(%d, %d) i", from,
           from + groups - 1);
    kit_do(
        a,
        "SELECT count(*) FROM pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[%d]), grps =>"
        " (SELECT array_agg('g' || i) FROM generate_series(%d, %d) i))",
        groups, from, from + groups - 1);
}

/* Claims read events of the last two ticks only, so this job is for a tick to admit. */
void test_a_new_group_is_not_behind_thousands_of_others(void)
{
    flood(1, 5000);
    const long long new = put(a, "new");
    tick(a);
    tick(a);
    tick(a);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 1, jobs));
    TEST_ASSERT_EQUAL_INT64(new, jobs[0].id);
}

void test_a_reaper_with_a_backlog_of_groups_does_not_pause(void)
{
    flood(1, 4000);
    const long long new = put(a, "new");
    flood(4001, 4000);
    tick(a);
    tick(a);
    for (long long end = kit_ms() + 20000; kit_ms() < end;)
        if (kit_number(a, "SELECT next_ms FROM pgwork.maintain()") > 0) break;
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 1, jobs));
    TEST_ASSERT_EQUAL_INT64(new, jobs[0].id);
}

/* The transaction of b keeps the gate of its group locked. */
void test_an_open_claim_of_a_busy_group_stops_no_other_group(void)
{
    static const char busy[] =
        "SELECT count(pgwork.enqueue('q', '{}', grp => 'busy')) FROM generate_series(1, 6000)";

    put(a, "busy");
    kit_do(b, "BEGIN");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 1, jobs));
    kit_do(a, busy);
    const long long other = put(a, "other");
    kit_do(a, busy);
    tick(a);
    tick(a);
    tick(a);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(c, "q", 1, jobs));
    TEST_ASSERT_EQUAL_INT64(other, jobs[0].id);
    kit_do(b, "COMMIT");
}

/* -- what is refused -----------------------------------------------------------------------------
 */

void test_bad_limits_and_names_are_refused_by_name(void)
{
    kit_refused(a, "PW001", "group_limit|0|1..10000", "SELECT pgwork.group_set('q', 'g', 0)");
    kit_refused(a, "PW001", "group_limit|-1", "SELECT pgwork.group_set('q', NULL, -1)");
    kit_refused(a, "PW001", "group_limit|10001", "SELECT pgwork.group_set('q', NULL, 10001)");
    kit_refused(a, "PW001", "group_retry|wait|hold, pass or block",
                "SELECT pgwork.group_set('q', 'g', 1, 'wait')");
    kit_refused(a, "PW001", "grp", "SELECT pgwork.group_hold('q', '')");
    kit_refused(a, "PW001", "for_ms|-1", "SELECT pgwork.group_hold('q', 'g', -1)");
    kit_refused(a, "PW003", "nosuch", "SELECT pgwork.group_set('nosuch', 'g', 1)");
    kit_refused(a, "PW001", "grp|255", "SELECT pgwork.enqueue('q', grp => repeat('x', 256))");
}

void test_dropping_a_queue_leaves_nothing_of_its_groups(void)
{
    limit("'g0'", 3, "block");
    fill(2, 3);
    kit_claim(a, "q", 3, jobs);
    kit_do(a, "SELECT pgwork.queue_drop('q', true)");
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT (SELECT count(*) FROM pgwork.admitted_job)"
                                             " + (SELECT count(*) FROM pgwork.gate_event)"
                                             " + (SELECT count(*) FROM pgwork.group_rule)"));
}

/* -- the limit of a queue ------------------------------------------------------------------------
 */

void test_a_queue_with_a_limit_has_no_more_leased_jobs_than_that(void)
{
    kit_do(a, "SELECT pgwork.queue_limit('q', 2)");
    for (int i = 0; i < 5; i++) kit_put(a, "q");
    TEST_ASSERT_EQUAL_INT(2, kit_claim(a, "q", 10, jobs));
    TEST_ASSERT_EQUAL_INT(0, kit_claim(b, "q", 10, jobs + 2));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &jobs[0], ""));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", &jobs[1], ", 'x', 60000"));
    TEST_ASSERT_EQUAL_INT(2, kit_claim(b, "q", 10, jobs + 2));
    kit_due(a, "q");
    tick(a);
    TEST_ASSERT_EQUAL_INT(0, kit_claim(b, "q", 10, jobs + 4));
    kit_do(a, "SELECT pgwork.queue_limit('q', NULL)");
    TEST_ASSERT_EQUAL_INT(2, kit_claim(b, "q", 10, jobs + 4));
}

void test_groups_in_a_queue_with_a_limit_take_turns(void)
{
    kit_do(a, "SELECT pgwork.queue_limit('q', 1)");
    for (int i = 0; i < 3; i++) put(a, "big");
    put(a, "small");
    for (int i = 0; i < 4; i++) {
        TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 10, jobs));
        if (i == 1)
            TEST_ASSERT_EQUAL_STRING(
                "small", kit_text(a, "SELECT grp FROM pgwork.job WHERE id = %lld", jobs[0].id));
        TEST_ASSERT_EQUAL_INT(0, kit_claim(b, "q", 10, jobs + 1));
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &jobs[0], ""));
    }
}

void test_unblocking_a_group_frees_no_place_of_a_job_at_the_gate_of_its_queue(void)
{
    kit_do(a, "SELECT pgwork.queue_limit('q', 1)");
    kit_put(a, "q");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 10, jobs));
    put(a, "g");
    put(a, "g");
    tick(a);
    TEST_ASSERT_EQUAL_INT64(0,
                            kit_number(a, "SELECT count(blocked_by) FROM pgwork.group_list('q')"));
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT pgwork.group_unblock('q', 'g')"));
    tick(a);
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT admitted FROM pgwork.group_list('q', 'g')"));
    kit_do(a, "SELECT pgwork.queue_limit('q', NULL)");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 10, jobs + 1));
}

void test_a_limit_holds_for_the_backlog_that_was_there_before(void)
{
    kit_do(a, "SELECT count(*) FROM pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[500]))");
    TEST_ASSERT_EQUAL_INT(3, kit_claim(a, "q", 3, jobs));
    kit_do(a, "SELECT pgwork.queue_limit('q', 2)");
    tick(a);
    TEST_ASSERT_EQUAL_INT(2, kit_claim(a, "q", 10, jobs + 3));
    TEST_ASSERT_EQUAL_INT(0, kit_claim(b, "q", 10, jobs + 5));
    TEST_ASSERT_EQUAL_STRING("0 5 0 0 0", kit_places(a, "q"));
    TEST_ASSERT_EQUAL_INT64(495, kit_number(a, "SELECT gated FROM pgwork.depth('q')"));
    for (int i = 0; i < 5; i++)
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &jobs[i], ""));
    TEST_ASSERT_EQUAL_INT(2, kit_claim(b, "q", 10, jobs + 5));
}

void test_a_letter_of_a_queue_with_a_limit_frees_its_place(void)
{
    kit_do(a, "SELECT pgwork.queue_limit('q', 1)");
    kit_put(a, "q");
    kit_put(a, "q");
    kit_claim(a, "q", 10, jobs);
    kit_say(a, "fail", &jobs[0], ", 'x', NULL, true");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 10, jobs + 1));
    kit_do(a, "SELECT pgwork.redrive('q')");
    TEST_ASSERT_EQUAL_INT(0, kit_claim(a, "q", 10, jobs + 2));
    kit_say(a, "complete", &jobs[1], "");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 10, jobs + 2));
    TEST_ASSERT_EQUAL_INT64(jobs[0].id, jobs[2].id);
}
