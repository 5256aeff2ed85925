/* clock: deadlines, by a clock that the tests set. */
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "unity.h"
#include "clock.h"

static int64_t (*real_source)(void);
static int64_t now_us;

static int64_t fake_us(void)
{
    return now_us;
}

void setUp(void)
{
    real_source = pgw__clock_source_us;
    pgw__clock_source_us = fake_us;
    now_us = 5000000;
}

void tearDown(void)
{
    pgw__clock_source_us = real_source;
}

void test_units(void)
{
    now_us = 1234567;
    TEST_ASSERT_EQUAL_INT64(1234567, pgw__clock_us());
    TEST_ASSERT_EQUAL_INT64(1234, pgw__clock_ms());
}

void test_the_real_clock_never_goes_back(void)
{
    int64_t last;

    pgw__clock_source_us = real_source;
    last = pgw__clock_us();
    TEST_ASSERT_GREATER_THAN_INT64(0, last);
    for (int i = 0; i < 10000; i++) {
        int64_t now = pgw__clock_us();

        TEST_ASSERT_GREATER_OR_EQUAL_INT64(last, now);
        last = now;
    }
}

void test_a_deadline_comes_nearer_and_passes(void)
{
    int64_t d = pgw__deadline_in(100);

    TEST_ASSERT_EQUAL_INT64(5100, d);
    TEST_ASSERT_EQUAL_INT64(100, pgw__deadline_left_ms(d));
    now_us += 99999;
    TEST_ASSERT_EQUAL_INT64(1, pgw__deadline_left_ms(d));
    now_us += 1;
    TEST_ASSERT_EQUAL_INT64(0, pgw__deadline_left_ms(d));
    now_us += 1000000000;
    TEST_ASSERT_EQUAL_INT64(0, pgw__deadline_left_ms(d));
}

void test_a_deadline_may_be_now_or_never(void)
{
    TEST_ASSERT_EQUAL_INT64(0, pgw__deadline_left_ms(pgw__deadline_in(0)));
    TEST_ASSERT_EQUAL_INT64(-1, pgw__deadline_in(-1));
    TEST_ASSERT_EQUAL_INT64(-1, pgw__deadline_in(INT64_MIN));
    TEST_ASSERT_EQUAL_INT64(-1, pgw__deadline_left_ms(-1));
}

void test_far_ends_saturate(void)
{
    TEST_ASSERT_EQUAL_INT64(INT64_MAX, pgw__deadline_in(INT64_MAX));
    TEST_ASSERT_EQUAL_INT64(INT64_MAX, pgw__deadline_in(INT64_MAX - 5000));
    TEST_ASSERT_EQUAL_INT64(INT64_MAX - 1, pgw__deadline_in(INT64_MAX - 5001));
    TEST_ASSERT_EQUAL_INT64(INT64_MAX - 5000, pgw__deadline_left_ms(INT64_MAX));
}

void test_never_is_later_than_all(void)
{
    TEST_ASSERT_EQUAL_INT64(3, pgw__deadline_min(3, 4));
    TEST_ASSERT_EQUAL_INT64(3, pgw__deadline_min(4, 3));
    TEST_ASSERT_EQUAL_INT64(3, pgw__deadline_min(3, 3));
    TEST_ASSERT_EQUAL_INT64(3, pgw__deadline_min(-1, 3));
    TEST_ASSERT_EQUAL_INT64(3, pgw__deadline_min(3, -1));
    TEST_ASSERT_EQUAL_INT64(0, pgw__deadline_min(0, INT64_MAX));
    TEST_ASSERT_EQUAL_INT64(-1, pgw__deadline_min(-1, -1));
}

static volatile sig_atomic_t rung;

static void ring(int signal)
{
    (void)signal;
    rung++;
}

void test_a_signal_does_not_end_a_wait(void)
{
    const struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    struct sigaction on = {.sa_handler = ring}, before; /* without SA_RESTART */
    struct pollfd none = {-1, POLLIN, 0};
    int64_t until;

    pgw__clock_source_us = real_source;
    TEST_ASSERT_EQUAL_INT(0, sigaction(SIGALRM, &on, &before));
    TEST_ASSERT_EQUAL_INT(0, setitimer(ITIMER_REAL, &often, NULL));
    until = pgw__deadline_in(30);
    TEST_ASSERT_FALSE(pgw__deadline_poll(&none, 1, until));
    TEST_ASSERT_EQUAL_INT(0, setitimer(ITIMER_REAL, &never, NULL));
    sigaction(SIGALRM, &before, NULL);
    TEST_ASSERT_GREATER_OR_EQUAL_INT64(until, pgw__clock_ms());
    TEST_ASSERT_GREATER_THAN_INT(0, rung);
}

void test_a_wait_returns_what_is_ready_and_does_not_continue(void)
{
    struct pollfd p = {-1, POLLIN, 0};
    int fd[2];

    TEST_ASSERT_EQUAL_INT(0, pipe(fd));
    p.fd = fd[0];
    TEST_ASSERT_FALSE(pgw__deadline_poll(&p, 1, pgw__deadline_in(0)));
    TEST_ASSERT_EQUAL_INT(1, write(fd[1], "", 1));
    TEST_ASSERT_TRUE(pgw__deadline_poll(&p, 1, -1)); /* else never */
    close(fd[0]);
    close(fd[1]);
}
