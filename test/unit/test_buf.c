/* buf: growth, limits, and failures that last. */
#include "unity.h"
#include "buf.h"
#include "mem.h"
#include "oom.h"

#include <string.h>

static pgw__buf b;

void setUp(void)
{
    pgw__buf_init(&b, 1000);
}
void tearDown(void)
{
    pgw__buf_free(&b);
    pgw_set_allocator(NULL);
}

void test_a_new_buffer_is_empty_text_without_memory(void)
{
    TEST_ASSERT_EQUAL_STRING("", pgw__buf_str(&b));
    TEST_ASSERT_NULL(b.data);
    TEST_ASSERT_EQUAL_size_t(0, b.len);
    pgw__buf_bytes(&b, NULL, 0);
    pgw__buf_text(&b, "");
    TEST_ASSERT_NULL(b.data);
    TEST_ASSERT_EQUAL_INT(0, b.failed);
}

void test_text_bytes_and_numbers_follow_each_other(void)
{
    pgw__buf_text(&b, "n=");
    pgw__buf_int(&b, -42);
    pgw__buf_bytes(&b, ";xyz", 2);
    TEST_ASSERT_EQUAL_STRING("n=-42;x", pgw__buf_str(&b));
    TEST_ASSERT_EQUAL_size_t(7, b.len);
}

TEST_CASE(0, "0")
TEST_CASE(7, "7")
TEST_CASE(10, "10")
TEST_CASE(-1, "-1")
TEST_CASE(9223372036854775807LL, "9223372036854775807")
TEST_CASE(-9223372036854775807LL - 1, "-9223372036854775808")
void test_numbers_are_written_in_decimal(int64_t v, const char *text)
{
    pgw__buf_int(&b, v);
    TEST_ASSERT_EQUAL_STRING(text, pgw__buf_str(&b));
}

void test_numbers_are_written_in_network_byte_order(void)
{
    static const unsigned char expected[] = {0x12, 0x34,                          /* 16 */
                                             0x89, 0xab, 0xcd, 0xef,              /* 32 */
                                             0xfe, 0xdc, 0xba, 0x98, 1, 2, 3, 4}; /* 64 */

    pgw__buf_be16(&b, 0x1234);
    pgw__buf_be32(&b, 0x89abcdef);
    pgw__buf_be64(&b, UINT64_C(0xfedcba9801020304));
    TEST_ASSERT_EQUAL_size_t(sizeof(expected), b.len);
    TEST_ASSERT_EQUAL_MEMORY(expected, b.data, sizeof(expected));
    TEST_ASSERT_EQUAL_INT(0, b.data[b.len]);
}

void test_patch_fills_a_length_in_afterwards(void)
{
    static const unsigned char expected[] = {'a', 0, 0, 1, 2, 'b'};

    pgw__buf_text(&b, "a");
    pgw__buf_be32(&b, 0);
    pgw__buf_text(&b, "b");
    pgw__buf_patch32(&b, 1, 0x102);
    TEST_ASSERT_EQUAL_MEMORY(expected, b.data, sizeof(expected));
    pgw__buf_patch32(&b, 2, 0xffffffff); /* the very end */
    TEST_ASSERT_EQUAL_size_t(6, b.len);
    TEST_ASSERT_EQUAL_INT(0, b.data[6]);
}

void test_grows_to_its_limit_and_no_further(void)
{
    for (int i = 0; i < 1000; i++) pgw__buf_text(&b, "x");
    TEST_ASSERT_EQUAL_INT(0, b.failed);
    TEST_ASSERT_EQUAL_size_t(1000, b.len);
    TEST_ASSERT_LESS_OR_EQUAL_size_t(1001, b.cap);
    pgw__buf_text(&b, "y");
    TEST_ASSERT_EQUAL_INT(PGW_ELIMIT, b.failed);
    TEST_ASSERT_EQUAL_size_t(1000, strlen(pgw__buf_str(&b)));
}

void test_a_piece_that_does_not_fit_is_left_out_whole_and_the_failure_sticks(void)
{
    static const char big[1001] = {'x'};

    pgw__buf_text(&b, "kept");
    pgw__buf_bytes(&b, big, sizeof(big));
    TEST_ASSERT_EQUAL_INT(PGW_ELIMIT, b.failed);
    pgw__buf_text(&b, "small");
    pgw__buf_int(&b, 1);
    pgw__buf_be64(&b, 1);
    pgw__buf_patch32(&b, 900, 1); /* a place that was never written: no matter after a failure */
    TEST_ASSERT_EQUAL_STRING("kept", pgw__buf_str(&b));
    pgw__buf_reset(&b);
    TEST_ASSERT_EQUAL_INT(0, b.failed);
    TEST_ASSERT_EQUAL_STRING("", pgw__buf_str(&b));
    pgw__buf_text(&b, "again");
    TEST_ASSERT_EQUAL_STRING("again", pgw__buf_str(&b));
}

void test_sizes_beyond_all_memory_are_over_the_limit(void)
{
    pgw__buf huge;

    pgw__buf_init(&huge, SIZE_MAX);
    pgw__buf_text(&huge, "a");
    pgw__buf_bytes(&huge, "", SIZE_MAX);
    TEST_ASSERT_EQUAL_INT(PGW_ELIMIT, huge.failed);
    pgw__buf_reset(&huge);
    pgw__buf_text(&huge, "b");
    TEST_ASSERT_EQUAL_STRING("b", pgw__buf_str(&huge));
    pgw__buf_free(&huge);
}

void test_a_limit_of_0_or_1_is_kept(void)
{
    pgw__buf tiny;

    pgw__buf_init(&tiny, 0);
    pgw__buf_text(&tiny, "");
    TEST_ASSERT_EQUAL_INT(0, tiny.failed);
    pgw__buf_text(&tiny, "a");
    TEST_ASSERT_EQUAL_INT(PGW_ELIMIT, tiny.failed);
    pgw__buf_free(&tiny);

    pgw__buf_init(&tiny, 1);
    pgw__buf_text(&tiny, "a");
    TEST_ASSERT_EQUAL_STRING("a", pgw__buf_str(&tiny));
    pgw__buf_free(&tiny);
}

void test_free_leaves_a_buffer_that_can_be_used_again(void)
{
    pgw__buf_text(&b, "one");
    pgw__buf_free(&b);
    pgw__buf_free(&b);
    TEST_ASSERT_EQUAL_STRING("", pgw__buf_str(&b));
    pgw__buf_text(&b, "two");
    TEST_ASSERT_EQUAL_STRING("two", pgw__buf_str(&b));
    TEST_ASSERT_EQUAL_size_t(1000, b.max);
}

void test_out_of_memory_sticks_and_keeps_what_was_there(void)
{
    int n = 0;

    oom_begin();
    do {
        oom_fail(++n);
        pgw__buf_reset(&b);
        for (int i = 0; i < 300; i++) pgw__buf_int(&b, i % 10);
        TEST_ASSERT_EQUAL_INT(oom_failed() ? PGW_ENOMEM : 0, b.failed);
        for (size_t i = 0; i < b.len; i++) TEST_ASSERT_EQUAL_INT('0' + (int)(i % 10), b.data[i]);
        if (oom_failed()) pgw__buf_free(&b);
    } while (oom_failed());
    TEST_ASSERT_GREATER_THAN_INT(2, n);
    TEST_ASSERT_EQUAL_size_t(300, b.len);
    pgw__buf_free(&b);
    oom_end();
}
