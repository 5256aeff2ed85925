/* backoff: decorrelated jitter. */
#include "base/backoff.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/random.h>
#endif

void pgw__backoff_init(pgw__backoff *b, int64_t base_ms, int64_t cap_ms)
{
    int64_t base = base_ms > 0 ? base_ms : 1; /* 0 would be a busy loop */

    *b = (pgw__backoff){
        .base_ms = base,
        .cap_ms = cap_ms > base ? cap_ms : base,
        .last_ms = base,
        .random = pgw__random_u64,
    };
}

int64_t pgw__backoff_next_ms(pgw__backoff *b)
{
    /* The cap bounds the range, not the result: otherwise most clients would wait exactly cap_ms,
     * and return together. */
    int64_t top = b->last_ms < b->cap_ms / 3 ? b->last_ms * 3 : b->cap_ms;
    uint64_t span = (uint64_t)(top - b->base_ms) + 1;

    b->begun = true;
    b->last_ms = b->base_ms + (int64_t)(b->random() % span);
    return b->last_ms;
}

void pgw__backoff_reset(pgw__backoff *b)
{
    b->begun = false;
    b->last_ms = b->base_ms;
}

int64_t pgw__backoff_grow_ms(int64_t *next_ms, int64_t cap_ms)
{
    const int64_t pause = *next_ms;

    if (pause >= cap_ms) return cap_ms;
    *next_ms = 4 * pause;
    return pause;
}

static bool random_from_kernel(uint64_t *v)
{
#ifdef __linux__
    return getrandom(v, sizeof(*v), GRND_NONBLOCK) == (ssize_t)sizeof(*v);
#else
    (void)v;
    return false;
#endif
}

static bool random_from_device(uint64_t *v)
{
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    bool ok = fd >= 0 && read(fd, v, sizeof(*v)) == (ssize_t)sizeof(*v);

    if (fd >= 0) close(fd);
    return ok;
}

/* Good enough to keep clients apart: address of the stack, process id and time (splitmix64). */
static uint64_t random_from_circumstances(void)
{
    struct timespec now;
    uint64_t v;

    clock_gettime(CLOCK_MONOTONIC, &now);
    v = (uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec << 30 ^ (uint64_t)getpid() << 40;
    v ^= (uint64_t)(uintptr_t)&v << 8;
    v = (v ^ v >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    v = (v ^ v >> 27) * UINT64_C(0x94d049bb133111eb);
    return v ^ v >> 31;
}

uint64_t pgw__random_u64(void)
{
    int saved = errno;
    uint64_t v = 0;

    if (!random_from_kernel(&v) && !random_from_device(&v)) v = random_from_circumstances();
    errno = saved;
    return v;
}
