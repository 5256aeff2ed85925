/* What a worker does next, for every sort of situation. */
#include "unity.h"
#include "worker_plan.h"

static pgw__worker_view v;

void setUp(void)
{
    v = (pgw__worker_view){.now = 1000000,
                           .left = INT64_MAX,
                           .beat_at = INT64_MAX,
                           .prefetch = 8,
                           .flush_jobs = 100,
                           .flush_ms = 5};
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

void test_it_claims_when_half_of_the_stock_is_gone(void)
{
    v.ready = 5;
    TEST_ASSERT_EQUAL_INT(0, next().claim);
    v.ready = 4;
    TEST_ASSERT_EQUAL_INT(4, next().claim);
    v.ready = 8;
    TEST_ASSERT_EQUAL_INT(0, next().claim);
    v.ready = 9;
    TEST_ASSERT_EQUAL_INT(0, next().claim);
}

void test_a_stock_of_one_is_filled_whenever_it_is_empty(void)
{
    v.prefetch = 1;
    v.running = 4;
    TEST_ASSERT_EQUAL_INT(1, next().claim);
    v.ready = 1;
    TEST_ASSERT_EQUAL_INT(0, next().claim);
}

void test_one_claim_is_never_larger_than_the_limit(void)
{
    v.prefetch = 1000000;
    TEST_ASSERT_EQUAL_INT(10000, next().claim);
    v.left = 7;
    TEST_ASSERT_EQUAL_INT(7, next().claim);
}

void test_after_an_empty_claim_it_waits_until_the_next_look(void)
{
    v.claim_at = v.now + 300;
    TEST_ASSERT_EQUAL_INT(0, next().claim);
    TEST_ASSERT_EQUAL_INT64(300, next().wait_ms);
    v.now += 300;
    TEST_ASSERT_EQUAL_INT(8, next().claim);
}

void test_a_wait_is_bounded_both_ways(void)
{
    v.claim_at = v.now + 3600000;
    TEST_ASSERT_EQUAL_INT64(1000, next().wait_ms);
    v.ready = 8;
    v.claim_at = 0;
    v.done = 1;
    v.done_since = v.now - 4;
    v.flush_ms = 4; /* due this very millisecond, or a hair later */
    v.call_at = v.now + 1;
    TEST_ASSERT_EQUAL_INT64(1, next().wait_ms);
}

void test_results_go_at_once_when_nobody_is_at_work(void)
{
    v.done = 1;
    v.done_since = v.now;
    v.claim_at = v.now + 100;
    TEST_ASSERT_TRUE(next().flush);
    v.running = 1;
    TEST_ASSERT_FALSE(next().flush);
    v.running = 0;
    v.ready = 8;
    TEST_ASSERT_FALSE(next().flush);
}

void test_results_go_by_number_or_by_age(void)
{
    v.running = 4;
    v.ready = 8;
    v.done = 99;
    v.done_since = v.now - 3;
    TEST_ASSERT_FALSE(next().flush);
    TEST_ASSERT_EQUAL_INT64(2, next().wait_ms);
    v.done = 100;
    TEST_ASSERT_TRUE(next().flush);
    v.done = 1;
    v.now += 2;
    TEST_ASSERT_TRUE(next().flush);
}

void test_results_travel_with_a_claim(void)
{
    v.ready = 4;
    v.running = 4;
    v.done = 1;
    v.done_since = v.now;
    TEST_ASSERT_EQUAL_INT(4, next().claim);
    TEST_ASSERT_TRUE(next().flush);
}

void test_after_a_failed_call_the_server_is_left_alone(void)
{
    v.done = 500;
    v.done_since = v.now - 1000;
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
    v.ready = 1;
    TEST_ASSERT_TRUE(next().run);
    TEST_ASSERT_EQUAL_INT(0, next().claim);
    v.ready = 0;
    TEST_ASSERT_FALSE(next().run);
    TEST_ASSERT_EQUAL_INT(8, next().claim);
    v.ready = 3;
    v.beat_at = v.now;
    TEST_ASSERT_TRUE(next().beat);
}

void test_a_job_that_must_start_alone_waits_for_the_report(void)
{
    v.here = true;
    v.ready = 1;
    v.done = 1;
    v.done_since = v.now;
    v.claim_at = INT64_MAX;
    v.blocked = true;
    TEST_ASSERT_TRUE(next().flush);
    TEST_ASSERT_FALSE(next().run);
    v.call_at = v.now + 100; /* the server is away: no spinning meanwhile */
    TEST_ASSERT_FALSE(next().run);
    TEST_ASSERT_EQUAL_INT64(100, next().wait_ms);
}

void test_the_first_stop_hands_back_and_waits_for_what_runs(void)
{
    v.stops = 1;
    v.ready = 3;
    v.running = 2;
    TEST_ASSERT_TRUE(next().release);
    TEST_ASSERT_EQUAL_INT(0, next().claim);
    v.ready = 0;
    TEST_ASSERT_FALSE(next().release);
    TEST_ASSERT_FALSE(next().end);
    TEST_ASSERT_TRUE(next().wait_ms <= 50);
    v.running = 0;
    v.done = 1;
    TEST_ASSERT_FALSE(next().end);
    TEST_ASSERT_TRUE(next().flush);
    v.done = 0;
    TEST_ASSERT_TRUE(next().end);
}

void test_the_second_stop_waits_no_longer_than_it_may(void)
{
    v.stops = 2;
    v.running = 1;
    v.end_at = v.now + 20;
    TEST_ASSERT_FALSE(next().end);
    TEST_ASSERT_EQUAL_INT64(20, next().wait_ms);
    v.now += 20;
    TEST_ASSERT_TRUE(next().end);
}

void test_draining_ends_with_a_claim_that_finds_nothing(void)
{
    v.drain = true;
    TEST_ASSERT_FALSE(next().end);
    v.found_none = true;
    TEST_ASSERT_TRUE(next().end);
    v.running = 1; /* it may still enqueue something */
    TEST_ASSERT_FALSE(next().end);
}

void test_draining_looks_once_more_when_the_last_handler_is_back(void)
{
    v.drain = true;
    v.claim_at = v.now + 300;
    v.done = 1;
    v.done_since = v.now;
    TEST_ASSERT_EQUAL_INT(8, next().claim);
    TEST_ASSERT_TRUE(next().flush);
    v.running = 1;
    TEST_ASSERT_EQUAL_INT(0, next().claim);
}

void test_a_counted_worker_ends_after_its_last_job(void)
{
    v.left = 0;
    v.ready = 1;
    TEST_ASSERT_FALSE(next().end);
    TEST_ASSERT_FALSE(next().release);
    v.ready = 0;
    TEST_ASSERT_TRUE(next().end);
}

void test_a_waiting_loop_is_stirred_only_for_something_to_do(void)
{
    v.claim_at = v.now + 300;
    v.ready = 2;
    v.running = 2;
    TEST_ASSERT_FALSE(pgw__worker_plan_stirs(&v, 1, 2, 0));
    TEST_ASSERT_TRUE(pgw__worker_plan_stirs(&v, 1, 2, 1)); /* the first result starts the clock */
    v.done = 1;
    v.done_since = v.now;
    TEST_ASSERT_FALSE(pgw__worker_plan_stirs(&v, 1, 2, 2));
    TEST_ASSERT_TRUE(pgw__worker_plan_stirs(&v, 1, 2, 100));
    TEST_ASSERT_TRUE(pgw__worker_plan_stirs(&v, 0, 0, 2));
    v.claim_at = 0;
    v.ready = 6;
    TEST_ASSERT_TRUE(pgw__worker_plan_stirs(&v, 4, 2, 1));
}
