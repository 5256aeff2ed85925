/* wake: a self-pipe. */
#include "base/wake.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* pipe2() is younger than POSIX 2008. */
static bool wake_prepare(int fd)
{
    const int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 &&
           fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

bool pgw__wake_open(pgw__wake *w)
{
    int fd[2];

    w->read_fd = w->write_fd = -1;
    if (pipe(fd) != 0) return false;
    w->read_fd = fd[0];
    w->write_fd = fd[1];
    if (wake_prepare(fd[0]) && wake_prepare(fd[1])) return true;
    pgw__wake_close(w);
    return false;
}

void pgw__wake_poke(const pgw__wake *w)
{
    const int saved = errno;

    if (w->write_fd < 0) return;
    /* a full pipe is readable, which is enough */
    while (write(w->write_fd, "", 1) < 0 && errno == EINTR) continue;
    errno = saved;
}

void pgw__wake_drain(const pgw__wake *w)
{
    const int saved = errno;
    char bytes[64];
    ssize_t n;

    if (w->read_fd < 0) return;
    do {
        n = read(w->read_fd, bytes, sizeof(bytes));
    } while (n == (ssize_t)sizeof(bytes) || (n < 0 && errno == EINTR));
    errno = saved;
}

void pgw__wake_close(pgw__wake *w)
{
    const int saved = errno;

    if (w->read_fd >= 0) close(w->read_fd);
    if (w->write_fd >= 0) close(w->write_fd);
    w->read_fd = w->write_fd = -1;
    errno = saved;
}
