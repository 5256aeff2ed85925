/* clock: monotonic milliseconds and deadlines. */
#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <time.h>

/* A lease goes on while the machine is suspended, so the holder may have lost it afterwards. */
#ifdef __linux__
#define CLOCK_STEADY CLOCK_BOOTTIME
#else
#define CLOCK_STEADY CLOCK_MONOTONIC
#endif

static int64_t clock_monotonic_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_STEADY, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t (*pgw__clock_source_us)(void) = clock_monotonic_us;

int64_t pgw__clock_us(void)
{
    return pgw__clock_source_us();
}

int64_t pgw__clock_ms(void)
{
    return pgw__clock_us() / 1000;
}

int64_t pgw__deadline_in(int64_t timeout_ms)
{
    int64_t now = pgw__clock_ms();

    if (timeout_ms < 0) return -1;
    return timeout_ms < INT64_MAX - now ? now + timeout_ms : INT64_MAX;
}

int64_t pgw__deadline_left_ms(int64_t deadline)
{
    int64_t now = pgw__clock_ms();

    if (deadline < 0) return -1;
    return deadline > now ? deadline - now : 0;
}

int64_t pgw__deadline_min(int64_t a, int64_t b)
{
    if (a < 0) return b;
    if (b < 0) return a;
    return a < b ? a : b;
}

bool pgw__deadline_poll(struct pollfd *fds, nfds_t n, int64_t deadline)
{
    int ready;

    do {
        const int64_t left = pgw__deadline_left_ms(deadline);

        ready = poll(fds, n, left < INT_MAX ? (int)left : INT_MAX);
    } while (ready < 0 && errno == EINTR);
    return ready > 0;
}
