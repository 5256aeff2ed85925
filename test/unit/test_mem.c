/* mem: calls of the allocator, overflows, and errno afterwards. */
#include "unity.h"
#include "mem.h"
#include "oom.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void setUp(void) {}
void tearDown(void)
{
    pgw_set_allocator(NULL);
}

void test_every_kind_of_block_is_allocated_and_freed_by_the_hooks(void)
{
    void *a, *b, *c;
    char *d, *e;

    oom_begin();
    a = pgw__mem_alloc(10);
    b = pgw__mem_zero(3, 5);
    c = pgw__mem_realloc(NULL, 7);
    d = pgw__mem_dup("text");
    e = pgw__mem_dup_n("text", 2);
    TEST_ASSERT_EQUAL_INT(5, oom_alive());
    c = pgw__mem_realloc(c, 7000);
    TEST_ASSERT_EQUAL_INT(5, oom_alive());
    TEST_ASSERT_EQUAL_STRING("text", d);
    TEST_ASSERT_EQUAL_STRING("te", e);
    pgw__mem_free(a), pgw__mem_free(b), pgw__mem_free(c), pgw__mem_free(d), pgw__mem_free(e);
    pgw__mem_free(NULL);
    oom_end();
}

void test_size_0_is_a_block_too(void)
{
    void *a, *b, *c;

    oom_begin(); /* its rules: never called with size 0 */
    a = pgw__mem_alloc(0);
    b = pgw__mem_zero(0, 0);
    c = pgw__mem_realloc(pgw__mem_alloc(1), 0);
    TEST_ASSERT_NOT_NULL(a);
    TEST_ASSERT_NOT_NULL(b);
    TEST_ASSERT_NOT_NULL(c);
    pgw__mem_free(a), pgw__mem_free(b), pgw__mem_free(c);
    a = pgw__mem_zero(0, 8);
    b = pgw__mem_zero(8, 0);
    TEST_ASSERT_NOT_NULL(a);
    TEST_ASSERT_NOT_NULL(b);
    pgw__mem_free(a), pgw__mem_free(b);
    oom_end();
}

void test_zeroed_means_zeroed(void)
{
    unsigned char zeros[300] = {0};
    unsigned char *p = pgw__mem_alloc(300);

    TEST_ASSERT_NOT_NULL(p);
    memset(p, 0xff, 300); /* likely handed out again below */
    pgw__mem_free(p);
    p = pgw__mem_zero(100, 3);
    TEST_ASSERT_NOT_NULL(p);
    TEST_ASSERT_EQUAL_MEMORY(zeros, p, 300);
    pgw__mem_free(p);
}

void test_sizes_that_overflow_reach_no_allocator(void)
{
    oom_begin();
    TEST_ASSERT_NULL(pgw__mem_zero(SIZE_MAX, 2));
    TEST_ASSERT_NULL(pgw__mem_zero(2, SIZE_MAX));
    TEST_ASSERT_NULL(pgw__mem_zero(SIZE_MAX / 2 + 1, 2));
    TEST_ASSERT_NULL(pgw__mem_dup_n("", SIZE_MAX));
    TEST_ASSERT_EQUAL_INT(0, oom_alive());
    oom_end();
}

void test_growing_keeps_the_content_without_hooks_too(void)
{
    char *p = pgw__mem_realloc(pgw__mem_dup("content"), 100000);

    TEST_ASSERT_EQUAL_STRING("content", p);
    pgw__mem_free(p);
}

void test_copies_end_with_nul(void)
{
    char *p;

    TEST_ASSERT_NULL(pgw__mem_dup(NULL));
    p = pgw__mem_dup_n(NULL, 0);
    TEST_ASSERT_EQUAL_STRING("", p);
    pgw__mem_free(p);
    p = pgw__mem_dup_n("a\0b", 3);
    TEST_ASSERT_NOT_NULL(p);
    TEST_ASSERT_EQUAL_MEMORY("a\0b\0", p, 4);
    pgw__mem_free(p);
}

static void free_that_spoils_errno(void *ctx, void *ptr)
{
    (void)ctx;
    free(ptr);
    errno = EIO;
}

static void *plain_alloc(void *ctx, size_t size)
{
    (void)ctx;
    return malloc(size);
}

static void *plain_realloc(void *ctx, void *ptr, size_t size)
{
    (void)ctx;
    return realloc(ptr, size);
}

void test_free_keeps_errno(void)
{
    const pgw_allocator spoiler = {NULL, plain_alloc, plain_realloc, free_that_spoils_errno};
    void *p;

    pgw_set_allocator(&spoiler);
    p = pgw__mem_alloc(1);
    errno = ENOENT;
    pgw__mem_free(p);
    TEST_ASSERT_EQUAL_INT(ENOENT, errno);
    pgw__mem_free(NULL);
    TEST_ASSERT_EQUAL_INT(ENOENT, errno);
}

void test_out_of_memory_is_null_and_leaves_the_old_block(void)
{
    char *p;

    oom_begin();
    p = pgw__mem_dup("kept");
    oom_fail_from(1);
    TEST_ASSERT_NULL(pgw__mem_alloc(1));
    TEST_ASSERT_NULL(pgw__mem_zero(1, 1));
    TEST_ASSERT_NULL(pgw__mem_dup("x"));
    TEST_ASSERT_NULL(pgw__mem_dup_n("x", 1));
    TEST_ASSERT_NULL(pgw__mem_realloc(NULL, 1));
    TEST_ASSERT_NULL(pgw__mem_realloc(p, 100));
    TEST_ASSERT_EQUAL_STRING("kept", p);
    pgw__mem_free(p);
    oom_end();
}

void test_null_brings_malloc_back(void)
{
    void *p;

    oom_begin();
    pgw_set_allocator(NULL);
    p = pgw__mem_alloc(1);
    TEST_ASSERT_NOT_NULL(p);
    TEST_ASSERT_EQUAL_INT(0, oom_alive());
    pgw__mem_free(p);
    oom_end();
}
