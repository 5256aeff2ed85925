/* backoff: every step stays in its range, with fixed and with real random numbers. */
#include "unity.h"
#include "backoff.h"

#include <errno.h>

static uint64_t pick;
static pgw__backoff b;

static uint64_t chosen(void)
{
    return pick;
}

void setUp(void)
{
    pgw__backoff_init(&b, 50, 5000);
    b.random = chosen;
    pick = 0;
}
void tearDown(void) {}

void test_the_lowest_numbers_stay_at_the_base(void)
{
    TEST_ASSERT_FALSE(b.begun);
    for (int i = 0; i < 10; i++) TEST_ASSERT_EQUAL_INT64(50, pgw__backoff_next_ms(&b));
    TEST_ASSERT_TRUE(b.begun);
}

void test_the_highest_numbers_triple_up_to_the_cap(void)
{
    static const int64_t expected[] = {150, 450, 1350, 4050, 5000, 5000};

    for (int i = 0; i < 6; i++) {
        pick = (uint64_t)(expected[i] - 50); /* the last of the range base .. expected */
        TEST_ASSERT_EQUAL_INT64(expected[i], pgw__backoff_next_ms(&b));
        pick++; /* one more begins the range again */
        b.last_ms = i > 0 ? expected[i - 1] : 50;
        TEST_ASSERT_EQUAL_INT64(50, pgw__backoff_next_ms(&b));
        b.last_ms = expected[i];
    }
}

void test_reset_begins_again(void)
{
    pick = 100;
    TEST_ASSERT_EQUAL_INT64(150, pgw__backoff_next_ms(&b));
    pgw__backoff_reset(&b);
    TEST_ASSERT_FALSE(b.begun);
    pick = 101; /* the range is 101 numbers wide again */
    TEST_ASSERT_EQUAL_INT64(50, pgw__backoff_next_ms(&b));
}

void test_real_numbers_stay_within_and_spread(void)
{
    int64_t low = INT64_MAX, high = 0;

    pgw__backoff_init(&b, 50, 5000);
    for (int i = 0; i < 20000; i++) {
        int64_t last = b.last_ms, next = pgw__backoff_next_ms(&b);

        TEST_ASSERT_GREATER_OR_EQUAL_INT64(50, next);
        TEST_ASSERT_LESS_OR_EQUAL_INT64(last * 3 < 5000 ? last * 3 : 5000, next);
        if (next < low) low = next;
        if (next > high) high = next;
    }
    TEST_ASSERT_LESS_THAN_INT64(500, low);
    TEST_ASSERT_GREATER_THAN_INT64(4000, high);
}

TEST_CASE(0, 0, 1, 1)
TEST_CASE(-5, -7, 1, 1)
TEST_CASE(100, 10, 100, 100)
TEST_CASE(100, 100, 100, 100)
TEST_CASE(0, 3, 1, 3)
void test_senseless_limits_still_wait_and_end(int64_t base, int64_t cap, int64_t low, int64_t high)
{
    pgw__backoff_init(&b, base, cap);
    for (int i = 0; i < 100; i++) {
        int64_t next = pgw__backoff_next_ms(&b);

        TEST_ASSERT_GREATER_OR_EQUAL_INT64(low, next);
        TEST_ASSERT_LESS_OR_EQUAL_INT64(high, next);
    }
}

void test_the_largest_cap_does_not_overflow(void)
{
    pgw__backoff_init(&b, 1, INT64_MAX);
    b.random = chosen;
    for (int i = 0; i < 200; i++) {
        int64_t next;

        pick = b.last_ms < INT64_MAX / 3 ? (uint64_t)b.last_ms * 3 - 1 : INT64_MAX - 1;
        next = pgw__backoff_next_ms(&b);
        TEST_ASSERT_GREATER_THAN_INT64(0, next);
    }
    TEST_ASSERT_EQUAL_INT64(INT64_MAX, b.last_ms);
}

void test_pauses_grow_to_the_cap_and_stay_there(void)
{
    static const int64_t expected[] = {5, 20, 80, 320, 500, 500, 60};
    int64_t next = 5;

    for (int i = 0; i < 7; i++)
        TEST_ASSERT_EQUAL_INT64(expected[i], pgw__backoff_grow_ms(&next, i < 6 ? 500 : 60));
}

void test_random_numbers_differ_and_errno_survives(void)
{
    uint64_t seen[64], ones = 0, zeros = 0;

    errno = ENOENT;
    for (int i = 0; i < 64; i++) {
        seen[i] = pgw__random_u64();
        ones |= seen[i];
        zeros |= ~seen[i];
        for (int k = 0; k < i; k++) TEST_ASSERT_TRUE(seen[k] != seen[i]);
    }
    TEST_ASSERT_EQUAL_HEX64_MESSAGE(UINT64_MAX, ones, "every bit is set at times");
    TEST_ASSERT_EQUAL_HEX64_MESSAGE(UINT64_MAX, zeros, "and clear at times");
    TEST_ASSERT_EQUAL_INT(ENOENT, errno);
}
