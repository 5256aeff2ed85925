/* For LD_PRELOAD: the OOM_AT-th allocation of the process fails; with OOM_COUNT their number is
 * printed on stderr at its end. Programs that it starts are left alone. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern void *__libc_malloc(size_t), *__libc_realloc(void *, size_t), *__libc_calloc(size_t, size_t);

static long count, at = -1;

static int fails(void)
{
    const char *given = at < 0 ? getenv("OOM_AT") : NULL;

    if (at < 0) at = given ? strtol(given, NULL, 10) : 0;
    if (++count != at) return 0;
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

__attribute__((constructor)) static void begin(void)
{
    unsetenv("LD_PRELOAD");
}

__attribute__((destructor)) static void tell(void)
{
    char line[32];
    int n;

    if (!getenv("OOM_COUNT")) return;
    n = snprintf(line, sizeof(line), "%ld\n", count);
    if (n > 0 && write(STDERR_FILENO, line, (size_t)n) < 0) return;
}
