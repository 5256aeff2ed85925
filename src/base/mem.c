/* mem: the process-wide allocator and helpers on it. */
#include "base/mem.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void *mem_libc_alloc(void *ctx, size_t size)
{
    (void)ctx;
    return malloc(size);
}

static void *mem_libc_realloc(void *ctx, void *ptr, size_t size)
{
    (void)ctx;
    return realloc(ptr, size);
}

static void mem_libc_free(void *ctx, void *ptr)
{
    (void)ctx;
    free(ptr);
}

static const pgw_allocator mem_libc = {NULL, mem_libc_alloc, mem_libc_realloc, mem_libc_free};
static pgw_allocator mem_hooks = {NULL, mem_libc_alloc, mem_libc_realloc, mem_libc_free};

pgw_status pgw_set_allocator(const pgw_allocator *a)
{
    if (a != NULL && (a->alloc == NULL || a->realloc == NULL || a->free == NULL)) return PGW_EINVAL;
    mem_hooks = a != NULL ? *a : mem_libc;
    return PGW_OK;
}

void *pgw__mem_alloc(size_t size)
{
    return mem_hooks.alloc(mem_hooks.ctx, size > 0 ? size : 1);
}

void *pgw__mem_zero(size_t count, size_t size)
{
    void *p;

    if (size > 0 && count > SIZE_MAX / size) return NULL;
    p = pgw__mem_alloc(count * size);
    return p != NULL ? memset(p, 0, count * size) : NULL;
}

void *pgw__mem_realloc(void *ptr, size_t size)
{
    if (ptr == NULL) return pgw__mem_alloc(size);
    return mem_hooks.realloc(mem_hooks.ctx, ptr, size > 0 ? size : 1);
}

char *pgw__mem_dup(const char *text)
{
    return text != NULL ? pgw__mem_dup_n(text, strlen(text)) : NULL;
}

char *pgw__mem_dup_n(const void *bytes, size_t n)
{
    char *copy = n < SIZE_MAX ? pgw__mem_alloc(n + 1) : NULL;

    if (copy == NULL) return NULL;
    if (n > 0) memcpy(copy, bytes, n);
    copy[n] = '\0';
    return copy;
}

void pgw__mem_free(void *ptr)
{
    int saved = errno; /* callers clean up first and read errno afterwards */

    if (ptr != NULL) mem_hooks.free(mem_hooks.ctx, ptr);
    errno = saved;
}
