#include "oom.h"

#include <stddef.h>
#include <stdlib.h>

#include "pgwork.h"
#include "unity.h"

static int alive, seen, fail_at, broken_rules;
static bool forever, failed;

static bool oom_now(void)
{
    seen++;
    if (fail_at == 0 || seen < fail_at || (seen > fail_at && !forever)) return false;
    return failed = true;
}

static void *oom_alloc(void *ctx, size_t size)
{
    void *p;

    if (ctx != &alive || size == 0) broken_rules++;
    if (oom_now()) return NULL;
    p = malloc(size);
    if (p != NULL) alive++;
    return p;
}

static void *oom_realloc(void *ctx, void *ptr, size_t size)
{
    if (ctx != &alive || ptr == NULL || size == 0) broken_rules++;
    return oom_now() ? NULL : realloc(ptr, size);
}

static void oom_free(void *ctx, void *ptr)
{
    if (ctx != &alive || ptr == NULL) broken_rules++;
    alive--;
    free(ptr);
}

void oom_begin(void)
{
    const pgw_allocator hooks = {&alive, oom_alloc, oom_realloc, oom_free};

    alive = broken_rules = 0;
    oom_fail(0);
    pgw_set_allocator(&hooks);
}

void oom_end(void)
{
    pgw_set_allocator(NULL);
    TEST_ASSERT_EQUAL_INT_MESSAGE(0, alive, "blocks left");
    TEST_ASSERT_EQUAL_INT_MESSAGE(0, broken_rules, "hooks called with 0 or NULL");
}

void oom_fail(int n)
{
    seen = 0;
    fail_at = n;
    forever = failed = false;
}

void oom_fail_from(int n)
{
    oom_fail(n);
    forever = true;
}

bool oom_failed(void)
{
    return failed;
}

int oom_alive(void)
{
    return alive;
}
