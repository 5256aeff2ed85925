/* worker_plan: the next step of a worker in each situation. */
#include "unity.h"
#include "worker_plan.h"

static pgw__worker_view v;

void setUp(void)
{
    v = (pgw__worker_view){.now = 1000000,
                           .left = INT64_MAX,
                           .extend_at = INT64_MAX,
                           .prefetch = 8,
                           .flush_jobs = 100,
                           .n = {.due_at = INT64_MAX}};
}

void tearDown(void) {}

static pgw__worker_plan next(void)
{
    return pgw__worker_plan_next(&v);
}

void test_an_empty_worker_claims_all_it_may_hold(void)
{
    TEST_ASSERT_EQUAL_INT(8, next().claim);
    TEST_ASSERT_FALSE(next().flush);
    TEST_ASSERT_FALSE(next().end);
}

void test_it_claims_when_half_of_the_prefetch_buffer_is_gone(void)
{
    v.n.ready = 5;
    TEST_ASSERT_EQUAL_INT(0, next().claim);
    v.n.ready = 4;
    TEST_ASSERT_EQUAL_INT(4, next().claim);
    v.n.ready = 8;
    TEST_ASSERT_EQUAL_INT(0, next().claim);
    v.n.ready = 9;
    TEST_ASSERT_EQUAL_INT(0, next().claim);
}

void test_idle_handlers_get_jobs_whatever_the_prefetch(void)
{
    v.prefetch = 0;
    TEST_ASSERT_EQUAL_INT(0, next().claim);
    v.n.free = 3;
    TEST_ASSERT_EQUAL_INT(3, next().claim);
    v.n.ready = 3;
    TEST_ASSERT_EQUAL_INT(0, next().claim);
    v.prefetch = 8;
    v.n.ready = 0;
    TEST_ASSERT_EQUAL_INT(8, next().claim);
}

void test_it_does_not_end_while_jobs_wait_for_others_of_their_kind(void)
{
    v.drain = v.found_none = true;
    v.n.waiting = 1;
    TEST_ASSERT_FALSE(next().end);
    v.stops = 2;
    v.end_at = v.now;
    TEST_ASSERT_FALSE(next().end);
    TEST_ASSERT_TRUE(next().release);
    v.n.waiting = 0;
    TEST_ASSERT_TRUE(next().end);
}

void test_prefetched_jobs_that_no_handler_will_take_soon_are_requeued(void)
{
    v.stale = true;
    TEST_ASSERT_FALSE(next().release);
    TEST_ASSERT_EQUAL_INT(0, next().claim); /* they would be requeued, too */
    v.n.free = 2;
    TEST_ASSERT_EQUAL_INT(2, next().claim);
    v.n.free = 0;
    v.n.ready = 1;
    TEST_ASSERT_TRUE(next().release);
}

void test_jobs_that_wait_for_others_of_their_kind_are_requeued_at_a_stop(void)
{
    v.n.waiting = v.n.running = 1;
    TEST_ASSERT_FALSE(next().release);
    TEST_ASSERT_EQUAL_INT(8, next().claim); /* they count for no other kind */
    v.stops = 1;
    TEST_ASSERT_TRUE(next().release);
}

void test_a_prefetch_buffer_of_one_is_filled_whenever_it_is_empty(void)
{
    v.prefetch = 1;
    v.n.running = 4;
    TEST_ASSERT_EQUAL_INT(1, next().claim);
    v.n.ready = 1;
    TEST_ASSERT_EQUAL_INT(0, next().claim);
}

void test_one_claim_is_never_larger_than_the_limit(void)
{
    v.prefetch = 1000000;
    TEST_ASSERT_EQUAL_INT(10000, next().claim);
    v.left = 7;
    TEST_ASSERT_EQUAL_INT(7, next().claim);
}

void test_after_an_empty_claim_it_waits_until_the_next_claim_is_due(void)
{
    v.claim_at = v.now + 300;
    TEST_ASSERT_EQUAL_INT(0, next().claim);
    TEST_ASSERT_EQUAL_INT64(300, next().wait_ms);
    v.now += 300;
    TEST_ASSERT_EQUAL_INT(8, next().claim);
}

/* The worker is registered as a waiter, and the queues had fewer jobs than it could take. */
void test_after_a_claim_that_fell_short_it_claims_again_with_results(void)
{
    v.fell_short = true;
    v.claim_at = v.now + 300;
    v.n.running = v.n.done = 1;
    TEST_ASSERT_EQUAL_INT(0, next().claim);
    v.n.running = 0;
    TEST_ASSERT_TRUE(next().flush);
    TEST_ASSERT_EQUAL_INT(8, next().claim);
    v.fell_short = false;
    TEST_ASSERT_TRUE(next().flush);
    TEST_ASSERT_EQUAL_INT(0, next().claim);
}

void test_a_wait_is_bounded_both_ways(void)
{
    v.claim_at = v.now + 3600000;
    TEST_ASSERT_EQUAL_INT64(1000, next().wait_ms);
    v.n.ready = 8;
    v.claim_at = 0;
    v.n.done = 1;
    v.n.due_at = v.now; /* due this very millisecond, or a hair later */
    v.call_at = v.now + 1;
    TEST_ASSERT_EQUAL_INT64(1, next().wait_ms);
}

void test_results_go_at_once_when_nobody_is_at_work(void)
{
    v.n.done = 1;
    v.n.due_at = v.now + 5;
    v.claim_at = v.now + 100;
    TEST_ASSERT_TRUE(next().flush);
    v.n.running = 1;
    TEST_ASSERT_FALSE(next().flush);
    v.n.running = 0;
    v.n.ready = 8;
    TEST_ASSERT_FALSE(next().flush);
}

void test_results_go_by_number_or_by_age(void)
{
    v.n.running = 4;
    v.n.ready = 8;
    v.n.done = 99;
    v.n.due_at = v.now + 2;
    TEST_ASSERT_FALSE(next().flush);
    TEST_ASSERT_EQUAL_INT64(2, next().wait_ms);
    v.n.done = 100;
    TEST_ASSERT_TRUE(next().flush);
    v.n.done = 1;
    v.now += 2;
    TEST_ASSERT_TRUE(next().flush);
}

void test_results_travel_with_a_claim(void)
{
    v.n.ready = 4;
    v.n.running = 4;
    v.n.done = 1;
    v.n.whole = 1;
    v.n.due_at = v.now + 5;
    TEST_ASSERT_EQUAL_INT(4, next().claim);
    TEST_ASSERT_TRUE(next().flush);
}

void test_after_a_failed_call_the_server_is_left_alone(void)
{
    v.n.done = 500;
    v.n.due_at = v.now - 995;
    v.call_at = v.now + 70;
    TEST_ASSERT_FALSE(next().flush);
    TEST_ASSERT_EQUAL_INT(0, next().claim);
    TEST_ASSERT_EQUAL_INT64(70, next().wait_ms);
    v.now += 70;
    TEST_ASSERT_TRUE(next().flush);
    TEST_ASSERT_EQUAL_INT(8, next().claim);
}

void test_in_the_calling_thread_claims_and_handlers_take_turns(void)
{
    v.here = true;
    v.n.ready = 1;
    TEST_ASSERT_TRUE(next().run);
    TEST_ASSERT_EQUAL_INT(0, next().claim);
    v.n.ready = 0;
    TEST_ASSERT_FALSE(next().run);
    TEST_ASSERT_EQUAL_INT(8, next().claim);
    v.n.ready = 3;
    v.extend_at = v.now;
    TEST_ASSERT_TRUE(next().extend);
}

void test_a_job_that_must_start_alone_waits_for_the_report(void)
{
    v.here = true;
    v.n.ready = 1;
    v.n.done = 1;
    v.n.due_at = v.now + 5;
    v.claim_at = INT64_MAX;
    v.n.blocked = true;
    TEST_ASSERT_TRUE(next().flush);
    TEST_ASSERT_FALSE(next().run);
    v.call_at = v.now + 100; /* the server is away: no spinning meanwhile */
    TEST_ASSERT_FALSE(next().run);
    TEST_ASSERT_EQUAL_INT64(100, next().wait_ms);
}

void test_the_first_stop_requeues_and_waits_for_what_runs(void)
{
    v.stops = 1;
    v.n.ready = 3;
    v.n.running = 2;
    TEST_ASSERT_TRUE(next().release);
    TEST_ASSERT_EQUAL_INT(0, next().claim);
    v.n.ready = 0;
    TEST_ASSERT_FALSE(next().release);
    TEST_ASSERT_FALSE(next().end);
    TEST_ASSERT_TRUE(next().wait_ms <= 50);
    v.n.running = 0;
    v.n.done = 1;
    TEST_ASSERT_FALSE(next().end);
    TEST_ASSERT_TRUE(next().flush);
    v.n.done = 0;
    TEST_ASSERT_TRUE(next().end);
}

void test_the_second_stop_waits_no_longer_than_it_may(void)
{
    v.stops = 2;
    v.n.running = 1;
    v.end_at = v.now + 20;
    TEST_ASSERT_FALSE(next().end);
    TEST_ASSERT_EQUAL_INT64(20, next().wait_ms);
    v.now += 20;
    TEST_ASSERT_TRUE(next().end);
}

void test_after_the_second_stop_results_wait_for_nothing(void)
{
    v.stops = 2;
    v.n.running = 1;
    v.n.done = 7;
    v.n.due_at = v.now + 5000;
    v.end_at = v.now + 1000;
    TEST_ASSERT_TRUE(next().flush);
    TEST_ASSERT_TRUE(next().flush_all);
    TEST_ASSERT_EQUAL_INT(0, next().claim);
}

void test_prefetched_jobs_are_requeued_before_the_end(void)
{
    v.stops = 2;
    v.n.ready = 1;
    v.n.running = 1;
    v.end_at = v.now;
    TEST_ASSERT_FALSE(next().end);
    TEST_ASSERT_TRUE(next().release);
    v.n.ready = 0;
    v.n.done = 1;
    TEST_ASSERT_FALSE(next().end);
    TEST_ASSERT_TRUE(next().flush_all);
    v.call_at = v.now + 1; /* the server is away */
    TEST_ASSERT_TRUE(next().end);
    v.n.ready = 1; /* it becomes a result, that is given up */
    TEST_ASSERT_FALSE(next().end);
    TEST_ASSERT_TRUE(next().release);
    v.n.ready = v.n.done = v.call_at = 0;
    TEST_ASSERT_TRUE(next().end);
}

void test_draining_ends_with_a_claim_that_finds_nothing(void)
{
    v.drain = true;
    TEST_ASSERT_FALSE(next().end);
    v.found_none = true;
    TEST_ASSERT_TRUE(next().end);
    v.n.running = 1; /* it may still enqueue something */
    TEST_ASSERT_FALSE(next().end);
}

void test_until_empty_claims_once_more_when_the_last_handler_is_back(void)
{
    v.drain = true;
    v.claim_at = v.now + 300;
    v.n.done = 1;
    v.n.due_at = v.now + 5;
    TEST_ASSERT_EQUAL_INT(8, next().claim);
    TEST_ASSERT_TRUE(next().flush);
    v.n.running = 1;
    TEST_ASSERT_EQUAL_INT(0, next().claim);
}

void test_a_counted_worker_ends_after_its_last_job(void)
{
    v.left = 0;
    v.n.ready = 1;
    TEST_ASSERT_FALSE(next().end);
    TEST_ASSERT_FALSE(next().release);
    v.n.ready = 0;
    TEST_ASSERT_TRUE(next().end);
}

static bool stirs(int ready, int running, int done)
{
    return pgw__worker_plan_stirs(
        &v, (pgw__worker_counts){
                .ready = ready, .running = running, .done = done, .due_at = v.n.due_at});
}

void test_a_waiting_loop_is_stirred_only_for_something_to_do(void)
{
    v.claim_at = v.now + 300;
    v.n.ready = 2;
    v.n.running = 2;
    TEST_ASSERT_FALSE(stirs(1, 2, 0));
    v.n.done = 1;
    v.n.due_at = v.now + 5;
    TEST_ASSERT_FALSE(stirs(1, 2, 2));
    TEST_ASSERT_TRUE(stirs(1, 2, 100));
    TEST_ASSERT_TRUE(stirs(0, 0, 2));
    v.claim_at = 0;
    v.n.ready = 6;
    TEST_ASSERT_TRUE(stirs(4, 2, 1));
}

/* One was settled by its handler, or thrown away since its lease was over: nothing of it is to be
 * told, and who waited for it may claim again. */
void test_a_waiting_loop_wakes_up_when_the_job_is_gone_that_held_it(void)
{
    pgw__worker_counts now = v.n;

    v.n.running = 1;
    v.n.hold_until = INT64_MAX;
    TEST_ASSERT_EQUAL_INT(0, next().claim);
    TEST_ASSERT_EQUAL_INT64(1000, next().wait_ms);
    TEST_ASSERT_TRUE(pgw__worker_plan_stirs(&v, now));
    now.hold_until = v.now + 1000; /* it has begun, and is not trusted yet */
    TEST_ASSERT_FALSE(pgw__worker_plan_stirs(&v, now));
}

void test_a_waiting_loop_is_stirred_for_the_report_that_the_next_job_waits_for(void)
{
    pgw__worker_counts now = {.ready = 1, .running = 1, .done = 1, .due_at = v.now + 500};

    v.n = (pgw__worker_counts){.ready = 2, .done = 1, .due_at = v.now + 500};
    v.claim_at = v.now + 1000;
    TEST_ASSERT_FALSE(pgw__worker_plan_stirs(&v, now));
    now.blocked = true;
    TEST_ASSERT_TRUE(pgw__worker_plan_stirs(&v, now));
}

void test_nothing_is_claimed_that_nobody_could_extend(void)
{
    v.no_heartbeat = true;
    TEST_ASSERT_EQUAL_INT(0, next().claim);
    TEST_ASSERT_TRUE(next().no_wakeups);
    v.n.done = v.n.whole = 1; /* and what is done is told */
    TEST_ASSERT_TRUE(next().flush);
    v.drain = true; /* which needs a claim to end */
    TEST_ASSERT_FALSE(next().end);
    TEST_ASSERT_EQUAL_INT(0, next().claim);
}

void test_a_worker_that_would_claim_nothing_does_not_wake_up(void)
{
    v.claim_at = v.now + 300;
    TEST_ASSERT_FALSE(next().no_wakeups);
    v.n.ready = 4;
    TEST_ASSERT_FALSE(next().no_wakeups);
    v.n.ready = 5;
    TEST_ASSERT_TRUE(next().no_wakeups);
    v.call_at = v.now + 10; /* the server is left alone */
    TEST_ASSERT_FALSE(next().no_wakeups);
    v.call_at = 0;
    v.n.ready = 0;
    v.n.hold_until = INT64_MAX;
    TEST_ASSERT_TRUE(next().no_wakeups);
    v.n.hold_until = 0;
    v.n.running = 1;
    v.stops = 1;
    TEST_ASSERT_TRUE(next().no_wakeups);
}

void test_a_waiting_loop_is_stirred_for_a_result_that_is_due_before_it_wakes(void)
{
    pgw__worker_counts now = {.ready = 7, .running = 1, .done = 1, .due_at = v.now + 5};

    v.n.ready = 8;
    TEST_ASSERT_TRUE(pgw__worker_plan_stirs(&v, now));
    v.n.due_at = v.now + 4;
    TEST_ASSERT_FALSE(pgw__worker_plan_stirs(&v, now));
}

/* ---- claims as a whole ---- */

void test_parts_of_a_claim_do_not_travel_with_the_next(void)
{
    v.n.ready = 4;
    v.n.running = 2;
    v.n.done = 2;
    v.n.due_at = v.now + 1;
    TEST_ASSERT_EQUAL_INT(4, next().claim);
    TEST_ASSERT_FALSE(next().flush);
    v.now++; /* long enough */
    TEST_ASSERT_TRUE(next().flush);
    TEST_ASSERT_FALSE(next().flush_all); /* what is due */
}

void test_whole_claims_go_by_themselves_before_parts_do(void)
{
    v.n.running = 1;
    v.n.ready = 8;
    v.n.due_at = v.now + 5;
    v.n.done = 100;
    v.n.whole = 60;
    TEST_ASSERT_TRUE(next().flush);
    TEST_ASSERT_FALSE(next().flush_all);
    v.n.whole = 0;
    TEST_ASSERT_TRUE(next().flush_all);
    v.n.done = 99;
    TEST_ASSERT_FALSE(next().flush);
}

void test_a_job_that_must_start_alone_waits_for_parts_as_well(void)
{
    v.n.ready = 1;
    v.n.done = 2;
    v.n.whole = 1;
    v.n.due_at = v.now + 5;
    v.n.blocked = true;
    TEST_ASSERT_TRUE(next().flush_all);
}

/* ---- handlers in a rush ---- */

/* Half of the prefetch buffer is gone, in a tenth of the time that is worth waiting for. */
static void rush(void)
{
    v.prefetch = 100;
    v.n = (pgw__worker_counts){.ready = 48, .running = 4, .done = 48, .due_at = v.now + 5};
    v.call_us = 8000;
    v.since_us = 100;
}

void test_quick_handlers_are_let_finish_before_the_next_claim(void)
{
    rush();
    TEST_ASSERT_EQUAL_INT(0, next().claim);
    TEST_ASSERT_FALSE(next().flush);
    TEST_ASSERT_EQUAL_INT64(1, next().wait_ms);
    v.n.ready = 0; /* the last ones are at work, and what they hold up is worth the wait */
    v.n.done = 96;
    TEST_ASSERT_EQUAL_INT(0, next().claim);
    v.n.running = 0;
    v.n.done = v.n.whole = 100;
    TEST_ASSERT_EQUAL_INT(100, next().claim);
    TEST_ASSERT_TRUE(next().flush);
}

void test_with_nothing_left_and_something_whole_the_claim_goes(void)
{
    rush();
    v.n.ready = 0;
    v.n.done = 196;
    v.n.whole = 100;
    TEST_ASSERT_EQUAL_INT(100, next().claim);
    TEST_ASSERT_TRUE(next().flush);
}

void test_a_claim_waits_for_quick_handlers_only(void)
{
    rush();
    v.since_us = 1500; /* so the rest takes as long */
    TEST_ASSERT_EQUAL_INT(52, next().claim);
    rush();
    v.done_before = 48; /* nothing was finished since */
    TEST_ASSERT_EQUAL_INT(52, next().claim);
    rush();
    v.n.ready = 0;
    v.n.running = 1; /* one that takes its time */
    v.n.done = 99;
    TEST_ASSERT_EQUAL_INT(0, next().claim);
    v.since_us = 2000;
    TEST_ASSERT_EQUAL_INT(100, next().claim);
    rush();
    v.call_us = 30000000; /* the server was away */
    v.since_us = 20000;
    TEST_ASSERT_EQUAL_INT(52, next().claim);
    v.call_us = 0; /* no claim was made so far */
    TEST_ASSERT_EQUAL_INT(52, next().claim);
}

void test_a_waiting_loop_is_stirred_once_when_the_rush_begins(void)
{
    pgw__worker_counts now;

    rush();
    now = v.n;
    v.n.ready = 96;
    v.n.done = 0;
    TEST_ASSERT_TRUE(pgw__worker_plan_stirs(&v, now));
    v.rush = true;
    TEST_ASSERT_FALSE(pgw__worker_plan_stirs(&v, now));
    now.ready = 0;
    TEST_ASSERT_FALSE(pgw__worker_plan_stirs(&v, now));
    now.running = 0;
    TEST_ASSERT_TRUE(pgw__worker_plan_stirs(&v, now));
}
