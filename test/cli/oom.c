/* For LD_PRELOAD: the OOM_AT-th allocation fails; the file OOM_COUNT gets their number at the end.
 * Those before main() do not count: libraries that libpq needs make more than 1,000. Programs that
 * it starts are left alone. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern void *__libc_malloc(size_t), *__libc_realloc(void *, size_t), *__libc_calloc(size_t, size_t);

static long count, at = -1;

static int fails(void)
{
    if (at < 0 || __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED) != at) return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

void *realloc(void *p, size_t size)
{
    return fails() ? NULL : __libc_realloc(p, size);
}

void *calloc(size_t n, size_t size)
{
    return fails() ? NULL : __libc_calloc(n, size);
}

/* Comes after the constructors of the other libraries, because a preloaded one is initialized last.
 */
__attribute__((constructor)) static void begin(void)
{
    const char *given = getenv("OOM_AT");

    unsetenv("LD_PRELOAD");
    at = given ? strtol(given, NULL, 10) : 0;
}

__attribute__((destructor)) static void tell(void)
{
    const char *path = getenv("OOM_COUNT");
    char line[32];
    int n = snprintf(line, sizeof(line), "%ld\n", count);
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600) : -1;

    if (fd >= 0 && write(fd, line, (size_t)n) < 0) perror(path);
}
