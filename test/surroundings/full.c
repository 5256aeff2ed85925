/* SPDX-License-Identifier: PostgreSQL
 *
 * full.c: a full disk where none may be mounted: a library that full.sh has the server preload.
 * FULL_DISKS names folders, with colons between them. While a folder has a file `ballast`, no file
 * below it grows: a call that would make one longer fails with ENOSPC.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static bool is_below(const char *path, const char *folder, size_t n)
{
    return strncmp(path, folder, n) == 0 && path[n] == '/';
}

/* Is the disk of this file full? */
static bool is_full(int fd)
{
    const char *folder = getenv("FULL_DISKS");
    char link[40], path[PATH_MAX], ballast[PATH_MAX + 20];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    const ssize_t size = readlink(link, path, sizeof(path) - 1);
    if (size < 0) return false;
    path[size] = '\0';
    while (folder && *folder) {
        const size_t n = strcspn(folder, ":");
        snprintf(ballast, sizeof(ballast), "%.*s/ballast", (int)n, folder);
        if (is_below(path, folder, n) && access(ballast, F_OK) == 0) return true;
        folder += n + (folder[n] == ':');
    }
    return false;
}

/* May so many bytes be written there? at -1: where the file stands. */
static bool may_grow(int fd, size_t bytes, off_t at)
{
    const int saved = errno;
    struct stat s;
    bool may = true;
    if (fstat(fd, &s) == 0 && S_ISREG(s.st_mode)) {
        if (at < 0) at = fcntl(fd, F_GETFL) & O_APPEND ? s.st_size : lseek(fd, 0, SEEK_CUR);
        may = at + (off_t)bytes <= s.st_size || !is_full(fd);
    }
    errno = may ? saved : ENOSPC;
    return may;
}

static size_t total(const struct iovec *v, int n)
{
    size_t bytes = 0;
    for (int i = 0; i < n; i++) bytes += v[i].iov_len;
    return bytes;
}

/* What the C library has under this name */
#define REAL(name, type, ...)         \
    static type (*real)(__VA_ARGS__); \
    if (!real) *(void **)(void *)&real = dlsym(RTLD_NEXT, name)

ssize_t write(int fd, const void *data, size_t n)
{
    REAL("write", ssize_t, int, const void *, size_t);
    return may_grow(fd, n, -1) ? real(fd, data, n) : -1;
}

ssize_t writev(int fd, const struct iovec *v, int n)
{
    REAL("writev", ssize_t, int, const struct iovec *, int);
    return may_grow(fd, total(v, n), -1) ? real(fd, v, n) : -1;
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at)
{
    REAL("pwrite", ssize_t, int, const void *, size_t, off_t);
    return may_grow(fd, n, at) ? real(fd, data, n, at) : -1;
}

ssize_t pwritev(int fd, const struct iovec *v, int n, off_t at)
{
    REAL("pwritev", ssize_t, int, const struct iovec *, int, off_t);
    return may_grow(fd, total(v, n), at) ? real(fd, v, n, at) : -1;
}

int posix_fallocate(int fd, off_t at, off_t n)
{
    REAL("posix_fallocate", int, int, off_t, off_t);
    return may_grow(fd, (size_t)n, at) ? real(fd, at, n) : ENOSPC;
}

/* The names that programs with large files use: the same on machines of 64 bits. */
ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at)
{
    return pwrite(fd, data, n, at);
}

ssize_t pwritev64(int fd, const struct iovec *v, int n, off64_t at)
{
    return pwritev(fd, v, n, at);
}

int posix_fallocate64(int fd, off64_t at, off64_t n)
{
    return posix_fallocate(fd, at, n);
}
