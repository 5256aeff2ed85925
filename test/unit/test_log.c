/* log: levels, and long messages that are cut between characters. */
#include "unity.h"
#include "log.h"

#include <errno.h>
#include <string.h>
#include <wchar.h>

static struct {
    int calls;
    void *arg;
    pgw_log_level level;
    char component[20], message[2000];
} seen;
static int evaluated;

static void sink(pgw_log_level level, const char *component, const char *message, void *arg)
{
    seen.calls++;
    seen.arg = arg;
    seen.level = level;
    strncpy(seen.component, component, sizeof(seen.component) - 1);
    strncpy(seen.message, message, sizeof(seen.message) - 1);
    errno = EIO;
}

static int costly(void)
{
    return ++evaluated;
}

static const pgw__log at_info = {PGW_LOG_INFO, sink, &seen};

void setUp(void)
{
    memset(&seen, 0, sizeof(seen));
    evaluated = 0;
}
void tearDown(void) {}

void test_a_message_arrives_with_all_that_belongs_to_it(void)
{
    PGW__LOG(&at_info, PGW_LOG_WARN, "component", "%s is %d", "x", 5);
    TEST_ASSERT_EQUAL_INT(1, seen.calls);
    TEST_ASSERT_EQUAL_PTR(&seen, seen.arg);
    TEST_ASSERT_EQUAL_INT(PGW_LOG_WARN, seen.level);
    TEST_ASSERT_EQUAL_STRING("component", seen.component);
    TEST_ASSERT_EQUAL_STRING("x is 5", seen.message);
}

void test_messages_above_the_level_are_not_evaluated(void)
{
    PGW__LOG(&at_info, PGW_LOG_ERROR, "component", "e");
    PGW__LOG(&at_info, PGW_LOG_INFO, "component", "i");
    TEST_ASSERT_EQUAL_INT(2, seen.calls);
    PGW__LOG(&at_info, PGW_LOG_DEBUG, "component", "d %d", costly());
    PGW__LOG(&at_info, PGW_LOG_TRACE, "component", "t %d", costly());
    TEST_ASSERT_EQUAL_INT(2, seen.calls);
    TEST_ASSERT_EQUAL_INT_MESSAGE(0, evaluated, "arguments of a silent message are not evaluated");
    pgw__log_write(&at_info, PGW_LOG_DEBUG, "component", "past the macro");
    TEST_ASSERT_EQUAL_INT(2, seen.calls);
}

void test_silence_is_level_0_or_no_sink(void)
{
    const pgw__log zero = {0, sink, NULL}, nobody = {PGW_LOG_TRACE, NULL, NULL};

    PGW__LOG(&zero, PGW_LOG_ERROR, "component", "%d", costly());
    PGW__LOG(&nobody, PGW_LOG_ERROR, "component", "%d", costly());
    pgw__log_write(&nobody, PGW_LOG_ERROR, "component", "x");
    TEST_ASSERT_EQUAL_INT(0, seen.calls);
    TEST_ASSERT_EQUAL_INT(0, evaluated);
}

void test_errno_survives(void)
{
    errno = ENOENT;
    PGW__LOG(&at_info, PGW_LOG_ERROR, "component", "x");
    TEST_ASSERT_EQUAL_INT(1, seen.calls);
    TEST_ASSERT_EQUAL_INT(ENOENT, errno);
}

void test_the_longest_message_that_fits(void)
{
    char text[1024];

    memset(text, 'x', 1023);
    text[1023] = '\0';
    PGW__LOG(&at_info, PGW_LOG_ERROR, "component", "%s", text);
    TEST_ASSERT_EQUAL_STRING(text, seen.message);
}

void test_longer_ones_are_cut_with_dots(void)
{
    char text[5000];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    PGW__LOG(&at_info, PGW_LOG_ERROR, "component", "%s", text);
    TEST_ASSERT_EQUAL_size_t(1023, strlen(seen.message));
    TEST_ASSERT_EQUAL_STRING("x...", seen.message + 1019);
}

void test_never_cut_inside_a_character(void)
{
    for (size_t shift = 0; shift < 4; shift++) {
        char text[1600] = "abcd";
        size_t end;

        for (size_t at = shift; at + 4 < sizeof(text); at += 4)
            memcpy(text + at, "\xf0\x9f\x98\x80", 5);
        PGW__LOG(&at_info, PGW_LOG_ERROR, "component", "%s", text);
        end = strlen(seen.message);
        TEST_ASSERT_EQUAL_STRING("...", seen.message + end - 3);
        TEST_ASSERT_EQUAL_size_t_MESSAGE(0, (end - 3 - shift) % 4,
                                         "only whole characters before the dots");
        TEST_ASSERT_GREATER_THAN_size_t(1015, end);
    }
}

void test_a_message_that_cannot_be_formatted_is_empty(void)
{
    static const wchar_t strange[] = {0x20ac, 0}; /* no such character in the C locale */

    PGW__LOG(&at_info, PGW_LOG_ERROR, "component", "%ls", strange);
    TEST_ASSERT_EQUAL_INT(1, seen.calls);
    TEST_ASSERT_EQUAL_STRING("", seen.message);
}

void test_a_reason_is_news_once_a_minute(void)
{
    pgw__log_told told = {0};

    TEST_ASSERT_TRUE(pgw__log_is_news(&told, "refused", 0));
    TEST_ASSERT_FALSE(pgw__log_is_news(&told, "refused", 59999));
    TEST_ASSERT_TRUE(pgw__log_is_news(&told, "refused", 60000));
    TEST_ASSERT_FALSE(pgw__log_is_news(&told, "refused", 119999));
}

void test_reasons_that_take_turns_are_news_once_each(void)
{
    static const char *const reasons[] = {"a", "b", "c", "d"};
    pgw__log_told told = {0};

    for (int64_t at = 0; at < 10; at++)
        for (size_t i = 0; i < 4; i++)
            TEST_ASSERT_EQUAL(at == 0, pgw__log_is_news(&told, reasons[i], at));
}

void test_a_reason_is_news_again_after_the_fault_is_over(void)
{
    pgw__log_told told = {0};

    TEST_ASSERT_TRUE(pgw__log_is_news(&told, "refused", 5));
    told = (pgw__log_told){0};
    TEST_ASSERT_TRUE(pgw__log_is_news(&told, "refused", 6));
}
