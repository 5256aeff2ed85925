/* wake: several pokes of the self-pipe wake up once. */
#include "unity.h"
#include "wake.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>

static pgw__wake w;

void setUp(void)
{
    TEST_ASSERT_TRUE(pgw__wake_open(&w));
}

void tearDown(void)
{
    pgw__wake_close(&w);
}

static int readable(void)
{
    struct pollfd fd = {w.read_fd, POLLIN, 0};

    return poll(&fd, 1, 0);
}

void test_a_poke_makes_it_readable_until_it_is_drained(void)
{
    TEST_ASSERT_EQUAL_INT(0, readable());
    pgw__wake_poke(&w);
    TEST_ASSERT_EQUAL_INT(1, readable());
    pgw__wake_drain(&w);
    TEST_ASSERT_EQUAL_INT(0, readable());
}

void test_more_pokes_than_the_pipe_holds_do_not_block(void)
{
    int i;

    errno = 77;
    for (i = 0; i < 200000; i++) pgw__wake_poke(&w);
    TEST_ASSERT_EQUAL_INT(77, errno);
    pgw__wake_drain(&w);
    TEST_ASSERT_EQUAL_INT(77, errno);
    TEST_ASSERT_EQUAL_INT(0, readable());
}

void test_it_does_not_survive_exec(void)
{
    TEST_ASSERT_BITS_HIGH(FD_CLOEXEC, fcntl(w.read_fd, F_GETFD));
    TEST_ASSERT_BITS_HIGH(FD_CLOEXEC, fcntl(w.write_fd, F_GETFD));
}

void test_a_closed_wake_can_be_poked_and_closed_again(void)
{
    pgw__wake_close(&w);
    pgw__wake_poke(&w);
    pgw__wake_drain(&w);
    pgw__wake_close(&w);
    TEST_ASSERT_EQUAL_INT(-1, w.read_fd);
}
