/* stop: a self-pipe and a counter. */
#include "stop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "mem.h"

/* Anything else could deadlock in a signal handler. */
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "atomic_int must be lock-free");

struct pgw_stop {
    atomic_int count;
    int pipe[2]; /* read end, write end */
};

/* pipe2() is younger than POSIX 2008. */
static bool stop_prepare_end(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 &&
           fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

pgw_status pgw_stop_new(pgw_stop **stop)
{
    pgw_stop *s;

    if (stop == NULL) return PGW_EINVAL;
    *stop = NULL;
    s = pgw__mem_alloc(sizeof(*s));
    if (s == NULL) return PGW_ENOMEM;
    if (pipe(s->pipe) != 0) {
        pgw__mem_free(s);
        return PGW_ENOMEM;
    }
    atomic_init(&s->count, 0);
    if (!stop_prepare_end(s->pipe[0]) || !stop_prepare_end(s->pipe[1])) {
        pgw_stop_free(s);
        return PGW_ENOMEM;
    }
    *stop = s;
    return PGW_OK;
}

void pgw_stop_notify(pgw_stop *stop)
{
    int saved = errno, before;

    if (stop == NULL) return;
    before = atomic_load(&stop->count);
    while (before < 2 && !atomic_compare_exchange_weak(&stop->count, &before, before + 1)) continue;
    if (before == 0) {
        while (write(stop->pipe[1], "", 1) < 0 && errno == EINTR) continue;
    }
    errno = saved;
}

int pgw_stop_count(const pgw_stop *stop)
{
    return stop != NULL ? atomic_load(&stop->count) : 0;
}

int pgw_stop_fd(const pgw_stop *stop)
{
    return stop != NULL ? stop->pipe[0] : -1;
}

void pgw_stop_free(pgw_stop *stop)
{
    int saved = errno;

    if (stop == NULL) return;
    close(stop->pipe[0]);
    close(stop->pipe[1]);
    pgw__mem_free(stop);
    errno = saved;
}
