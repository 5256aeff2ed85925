/* json: what is refused, with the message and the place. test_it_badinput compares the rest with
 * the server. */
#include "unity.h"
#include "json.h"
#include "name.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void setUp(void) {}
void tearDown(void) {}

static size_t at;

static const char *fault(const char *text)
{
    return pgw__json_fault(text, SIZE_MAX, &at);
}

static char *repeated(const char *piece, size_t times, const char *end)
{
    size_t size = strlen(piece);
    char *text = malloc(size * times + strlen(end) + 1);

    TEST_ASSERT_NOT_NULL(text);
    for (size_t i = 0; i < times; i++) memcpy(text + i * size, piece, size);
    strcpy(text + size * times, end);
    return text;
}

TEST_CASE("{}")
TEST_CASE("[]")
TEST_CASE("null")
TEST_CASE(" true\t")
TEST_CASE("\nfalse\r")
TEST_CASE("\"\"")
TEST_CASE("0")
TEST_CASE("-0")
TEST_CASE("-12.50e+07")
TEST_CASE("1E5")
TEST_CASE(" [1, \"a\", [], {} ,[[ ]]] ")
TEST_CASE("{\"a\" : {\"b\":[1,2,{\"c\":null}]}, \"\": -1}")
TEST_CASE("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0001\\uFFFF\"")
TEST_CASE("\"\\ud83d\\ude00 \\uDBFF\\uDFFF\"")
TEST_CASE("\"\x7f \xc3\xa9 \xf0\x9f\x98\x80\"")
TEST_CASE("\"\\\\u0000\"") /* a backslash, then u0000 */
void test_valid_json_is_accepted(const char *text)
{
    TEST_ASSERT_NULL(fault(text));
}

TEST_CASE("u0000", 0)
TEST_CASE("nul", 0)
TEST_CASE("True", 0)
TEST_CASE("nullx", 4)
TEST_CASE("1 2", 2)
TEST_CASE("]]]]", 0)
TEST_CASE("[1,]", 3)
TEST_CASE("[1 2]", 3)
TEST_CASE("[,1]", 1)
TEST_CASE("[1}", 2)
TEST_CASE("[1", 2)
TEST_CASE("{", 1)
TEST_CASE("{,}", 1)
TEST_CASE("{\"a\"}", 4)
TEST_CASE("{\"a\":}", 5)
TEST_CASE("{\"a\":1,}", 7)
TEST_CASE("{a:1}", 1)
TEST_CASE("{1:1}", 1)
TEST_CASE("{\"a\" 1}", 5)
TEST_CASE("{\"a\":1]", 6)
TEST_CASE("{\"a\":1 \"b\":2}", 7)
TEST_CASE("'a'", 0)
TEST_CASE("\"a", 2)
TEST_CASE("\"a\nb\"", 2)
TEST_CASE("\"\\", 2)
TEST_CASE("\"\\x\"", 2)
TEST_CASE("\"\\u00", 2)
TEST_CASE("\"\\u000g\"", 2)
TEST_CASE("\"\\ud83d\"", 7)
TEST_CASE("\"\\ud83d\\n\"", 7)
TEST_CASE("\"\\ud83d\\u0041\"", 7)
TEST_CASE("\"\\ude00\"", 2)
TEST_CASE("-", 1)
TEST_CASE("+1", 0)
TEST_CASE("01", 1)
TEST_CASE(".5", 0)
TEST_CASE("1.", 2)
TEST_CASE("1.e5", 2)
TEST_CASE("1e", 2)
TEST_CASE("1e+", 3)
TEST_CASE("0x10", 1)
TEST_CASE("NaN", 0)
TEST_CASE("\xc2\xa0"
          "1",
          0) /* a space, but not one of JSON's */
void test_invalid_json_is_refused_with_its_position(const char *text, size_t where)
{
    TEST_ASSERT_EQUAL_STRING("is not JSON", fault(text));
    TEST_ASSERT_EQUAL_size_t(where, at);
}

TEST_CASE(NULL, "is NULL")
TEST_CASE("", "is empty")
TEST_CASE(" \t\r\n", "is empty")
TEST_CASE("\"\xff\"", "is not UTF-8")
TEST_CASE("\"\xed\xa0\x80\"", "is not UTF-8")
TEST_CASE("\"\\u0000\"", "has a \\u0000 escape, which PostgreSQL cannot store")
TEST_CASE("\"\\u00000\"", "has a \\u0000 escape, which PostgreSQL cannot store")
TEST_CASE("{\"\\u0000\":1}", "has a \\u0000 escape, which PostgreSQL cannot store")
TEST_CASE("\"\\\\\\u0000\"",
          "has a \\u0000 escape, which PostgreSQL cannot store") /* a backslash, then the escape */
TEST_CASE("\"\\\"\\u0000\"",
          "has a \\u0000 escape, which PostgreSQL cannot store") /* after a quote that does not end
                                                                    the string */
void test_each_fault_has_its_message(const char *text, const char *expected)
{
    TEST_ASSERT_EQUAL_STRING(expected, fault(text));
}

void test_text_after_its_length_is_not_read(void)
{
    TEST_ASSERT_NULL(pgw__json_fault("[1]", 3, &at));
    TEST_ASSERT_EQUAL_STRING("is too long", pgw__json_fault("[1]", 2, &at));
}

TEST_CASE("[", "]")
TEST_CASE("{\"a\":", "}")
void test_nesting_beyond_the_limit_is_refused(const char *open, const char *close)
{
    char *closes = repeated(close, 1000, "");
    char *inside = repeated("1", 1, closes);
    char *text = repeated(open, 1000, inside);

    TEST_ASSERT_NULL(fault(text));
    free(text);
    text = repeated(open, 1001, inside);
    TEST_ASSERT_EQUAL_STRING("is nested deeper than 1000 levels", fault(text));
    TEST_ASSERT_EQUAL_size_t(1000 * strlen(open), at);
    free(text);
    free(inside);
    free(closes);
}

void test_json_brackets_that_close_again_or_stand_in_strings_have_no_depth(void)
{
    char *text = repeated("[],{},\"[{\\\"[\",", 5000, "0]");
    char *all = repeated("[", 1, text);

    TEST_ASSERT_NULL(fault(all));
    free(all);
    free(text);
}

void test_a_number_is_found_by_its_name(void)
{
    static const struct {
        const char *text;
        int64_t value; /* -2: no such member */
    } rows[] = {{"{\"n\": 7}", 7},
                {"{\"a\": [{\"n\": 1}], \"n\" : 42 }", 42},
                {"{\"n\": 2592000000}", 2592000000},
                {"{\"n\": 1.9}", 1},
                {"{\"n\": 1, \"n\": 2}", 2},
                {"{\"n\": \"7\"}", -1},
                {"{\"n\": -7}", -1},
                {"{\"n\": null}", -1},
                {"{\"n\": {\"n\": 3}}", -1},
                {"{\"n\": 99999999999999999999}", -1},
                {"{\"nn\": 1, \"\": 2}", -2},
                {"{\"a\": {\"n\": 1}}", -2},
                {"[\"n\", 1]", -2},
                {"{}", -2},
                {"{\"n\": 1", -2}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t value = -2;

        if (!pgw__json_int(rows[i].text, "n", &value)) value = -2;
        TEST_ASSERT_EQUAL_INT64_MESSAGE(rows[i].value, value, rows[i].text);
    }
}
