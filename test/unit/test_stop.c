/* stop: it counts to two, and wakes poll(), from signal handlers and many threads. */
#include "unity.h"
#include "stop.h"
#include "mem.h"
#include "wake.h"
#include "oom.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

static pgw_stop *stop;

void setUp(void)
{
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_stop_new(&stop));
}
void tearDown(void)
{
    pgw_stop_free(stop);
    pgw_set_allocator(NULL);
}

static bool readable(void)
{
    struct pollfd p = {.fd = pgw_stop_fd(stop), .events = POLLIN};

    return poll(&p, 1, 0) == 1 && (p.revents & POLLIN) != 0;
}

void test_counts_to_two(void)
{
    static const int expected[] = {1, 2, 2, 2};

    TEST_ASSERT_EQUAL_INT(0, pgw_stop_count(stop));
    for (int i = 0; i < 4; i++) {
        pgw_stop_notify(stop);
        TEST_ASSERT_EQUAL_INT(expected[i], pgw_stop_count(stop));
    }
}

void test_the_descriptor_becomes_readable_and_stays_so(void)
{
    TEST_ASSERT_FALSE(readable());
    for (int i = 0; i < 3; i++) {
        pgw_stop_notify(stop);
        TEST_ASSERT_TRUE(readable());
    }
    TEST_ASSERT_TRUE(readable());
}

void test_more_notifications_than_a_pipe_holds_do_not_block(void)
{
    for (int i = 0; i < 200000; i++) pgw_stop_notify(stop);
    TEST_ASSERT_EQUAL_INT(2, pgw_stop_count(stop));
}

void test_null_is_a_stop_that_is_never_asked(void)
{
    pgw_stop_notify(NULL);
    pgw_stop_free(NULL);
    TEST_ASSERT_EQUAL_INT(0, pgw_stop_count(NULL));
    TEST_ASSERT_EQUAL_INT(-1, pgw_stop_fd(NULL));
    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw_stop_new(NULL));
}

void test_the_descriptor_is_not_inherited_and_does_not_block(void)
{
    char c;

    TEST_ASSERT_TRUE((fcntl(pgw_stop_fd(stop), F_GETFD) & FD_CLOEXEC) != 0);
    TEST_ASSERT_EQUAL_INT(-1, (int)read(pgw_stop_fd(stop), &c, 1));
    TEST_ASSERT_EQUAL_INT(EAGAIN, errno);
}

void test_errno_survives(void)
{
    errno = ENOENT;
    pgw_stop_notify(stop);
    TEST_ASSERT_EQUAL_INT(ENOENT, errno);
    pgw_stop_free(stop);
    stop = NULL;
    TEST_ASSERT_EQUAL_INT(ENOENT, errno);
}

static void on_signal(int number)
{
    (void)number;
    pgw_stop_notify(stop);
}

void test_from_a_signal_handler_it_ends_a_poll(void)
{
    struct sigaction action = {.sa_handler = on_signal}, before;
    struct pollfd p = {.fd = pgw_stop_fd(stop), .events = POLLIN};

    sigaction(SIGUSR1, &action, &before);
    raise(SIGUSR1);
    sigaction(SIGUSR1, &before, NULL);
    TEST_ASSERT_EQUAL_INT(1, poll(&p, 1, 10000));
    TEST_ASSERT_EQUAL_INT(1, pgw_stop_count(stop));
}

static void *notify_from_thread(void *arg)
{
    (void)arg;
    pgw_stop_notify(stop);
    return NULL;
}

void test_from_many_threads_it_is_two_and_wakes_a_waiting_one(void)
{
    struct pollfd p = {.fd = pgw_stop_fd(stop), .events = POLLIN};
    pthread_t threads[16];

    for (int i = 0; i < 16; i++)
        TEST_ASSERT_EQUAL_INT(0, pthread_create(&threads[i], NULL, notify_from_thread, NULL));
    TEST_ASSERT_EQUAL_INT(1, poll(&p, 1, 10000));
    for (int i = 0; i < 16; i++) pthread_join(threads[i], NULL);
    TEST_ASSERT_EQUAL_INT(2, pgw_stop_count(stop));
}

static int lowest_free_descriptor(void)
{
    int fd = dup(0);

    close(fd);
    return fd;
}

void test_free_gives_both_descriptors_back(void)
{
    int before = lowest_free_descriptor();
    pgw_stop *other;

    for (int i = 0; i < 100; i++) {
        TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_stop_new(&other));
        pgw_stop_free(other);
    }
    TEST_ASSERT_EQUAL_INT(before, lowest_free_descriptor());
}

void test_a_stop_reports_missing_memory(void)
{
    pgw_stop *other = stop;

    oom_begin();
    oom_fail(1);
    TEST_ASSERT_EQUAL_INT(PGW_ENOMEM, pgw_stop_new(&other));
    TEST_ASSERT_NULL(other);
    oom_end();
}

void test_a_stop_reports_missing_descriptors(void)
{
    struct rlimit before, none;
    pgw_stop *other = stop;
    pgw_status st;

    TEST_ASSERT_EQUAL_INT(0, getrlimit(RLIMIT_NOFILE, &before));
    none = before;
    none.rlim_cur = (rlim_t)lowest_free_descriptor();
    TEST_ASSERT_EQUAL_INT(0, setrlimit(RLIMIT_NOFILE, &none));
    oom_begin();
    st = pgw_stop_new(&other);
    setrlimit(RLIMIT_NOFILE, &before);
    TEST_ASSERT_EQUAL_INT(PGW_ENOMEM, st);
    TEST_ASSERT_NULL(other);
    oom_end();
}
