/* name: each invalid name is refused with a reason, and every valid one is accepted. */
#include "unity.h"
#include "name.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void setUp(void) {}
void tearDown(void) {}

/* A copy of exactly its size, so that the sanitizer sees a read beyond the end. */
static char *exactly(const void *bytes, size_t n)
{
    char *copy = malloc(n > 0 ? n : 1);

    TEST_ASSERT_NOT_NULL(copy);
    memcpy(copy, bytes, n);
    return copy;
}

static char *repeated(const char *piece, size_t times)
{
    size_t size = strlen(piece);
    char *text = malloc(size * times + 1);

    TEST_ASSERT_NOT_NULL(text);
    for (size_t i = 0; i < times; i++) memcpy(text + i * size, piece, size);
    text[size * times] = '\0';
    return text;
}

/* ---- UTF-8 ---- */

static size_t utf8_encode(uint32_t cp, char out[4])
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xc0 | cp >> 6), out[1] = (char)(0x80 | (cp & 0x3f));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xe0 | cp >> 12), out[1] = (char)(0x80 | (cp >> 6 & 0x3f));
        out[2] = (char)(0x80 | (cp & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | cp >> 18), out[1] = (char)(0x80 | (cp >> 12 & 0x3f));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3f)), out[3] = (char)(0x80 | (cp & 0x3f));
    return 4;
}

void test_every_code_point_but_0_and_surrogates_is_well_formed(void)
{
    for (uint32_t cp = 0; cp < 0x1fffff; cp++) {
        char text[4];
        size_t n = utf8_encode(cp, text);
        bool ok = cp != 0 && (cp < 0xd800 || cp > 0xdfff) && cp <= 0x10ffff;

        if (pgw__utf8_ok(text, n) != ok) {
            char message[20];

            snprintf(message, sizeof(message), "U+%04X", (unsigned)cp);
            TEST_FAIL_MESSAGE(message);
        }
        if (n > 1 && pgw__utf8_ok(text, n - 1)) TEST_FAIL_MESSAGE("truncated, and accepted");
    }
}

/* All sequences of one to three bytes, against a decoder written the other way round: what is well
 * formed is exactly what encoding its code point gives. */
void test_every_short_byte_sequence_is_judged_as_by_another_decoder(void)
{
    for (uint32_t v = 0; v < 0x1000000; v++) {
        const char bytes[3] = {(char)(v >> 16), (char)(v >> 8), (char)v};
        size_t at = 0;
        bool ok = true;

        if ((v & 0xff) > 1 && (v >> 8 & 0xff) < 0x80 && v >> 16 < 0x80) continue; /* plain ASCII */
        while (ok && at < 3) {
            unsigned char lead = (unsigned char)bytes[at];
            size_t n = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : 3;
            uint32_t cp = lead < 0x80 ? lead : lead & (n == 2 ? 0x1f : 0x0f);
            char again[4];

            if (at + n > 3) ok = false;
            for (size_t i = 1; ok && i < n; i++)
                cp = cp << 6 | ((unsigned char)bytes[at + i] & 0x3f);
            ok = ok && cp != 0 && (cp < 0xd800 || cp > 0xdfff) && utf8_encode(cp, again) == n &&
                 memcmp(again, bytes + at, n) == 0;
            at += n;
        }
        if (pgw__utf8_ok(bytes, 3) != ok) {
            char message[20];

            snprintf(message, sizeof(message), "%06x", (unsigned)v);
            TEST_FAIL_MESSAGE(message);
        }
    }
}

void test_a_copy_is_cut_between_characters(void)
{
    static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x94\x92";
    static const size_t whole[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10}; /* by size */
    char out[sizeof(text) + 1];

    for (size_t size = 0; size < sizeof(whole) / sizeof(whole[0]); size++) {
        memset(out, 'x', sizeof(out));
        pgw__text_copy(out, size + 1, text);
        TEST_ASSERT_EQUAL_size_t(whole[size], strlen(out));
        TEST_ASSERT_EQUAL_INT(0, memcmp(text, out, whole[size]));
    }
    pgw__text_copy(out, 3, out + 1); /* from itself */
    TEST_ASSERT_EQUAL_STRING("\xc3\xa9", out);
}

void test_malformed_utf8_is_refused_with_a_reason(void)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *why;
    } cases[] = {
        {"a\0b", 3, "NUL"},
        {"\x80", 1, "continuation alone"},
        {"a\xbf", 2, "continuation after a letter"},
        {"\xc0\x80", 2, "overlong NUL"},
        {"\xc1\xbf", 2, "overlong, two bytes"},
        {"\xe0\x9f\xbf", 3, "overlong, three bytes"},
        {"\xf0\x8f\xbf\xbf", 4, "overlong, four bytes"},
        {"\xed\xa0\x80", 3, "first surrogate"},
        {"\xed\xbf\xbf", 3, "last surrogate"},
        {"\xed\xa0\xbd\xed\xb8\x80", 6, "pair of surrogates (CESU-8)"},
        {"\xf4\x90\x80\x80", 4, "U+110000"},
        {"\xf5\x80\x80\x80", 4, "lead F5"},
        {"\xf8\x88\x80\x80\x80", 5, "five bytes"},
        {"\xfe", 1, "FE"},
        {"\xff", 1, "FF"},
        {"\xc3", 1, "cut after 1 of 2"},
        {"\xe2\x82", 2, "cut after 2 of 3"},
        {"\xf0\x9f\x98", 3, "cut after 3 of 4"},
        {"\xe2\x28\xa1", 3, "second byte no continuation"},
        {"\xf0\x9f\x98\x41", 4, "last byte no continuation"},
        {"\xe9t\xe9", 3, "Latin-1"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *bytes = exactly(cases[i].bytes, cases[i].n);

        TEST_ASSERT_FALSE_MESSAGE(pgw__utf8_ok(bytes, cases[i].n), cases[i].why);
        free(bytes);
    }
    TEST_ASSERT_TRUE(pgw__utf8_ok("", 0));
    TEST_ASSERT_TRUE(pgw__utf8_ok(NULL, 0));
}

/* ---- names and texts ---- */

void test_invalid_names_are_refused_with_a_reason(void)
{
    static const struct {
        const char *text, *fault;
    } cases[] = {
        {"mail", NULL},
        {" ", NULL},
        {"a/b:c \"quoted\" 'x' $1 %s \\", NULL},
        {"\xc3\xa9t\xc3\xa9 \xf0\x9f\x98\x80", NULL},
        {"\xc2\xa0", NULL}, /* the first after C1 */
        {NULL, "is NULL"},
        {"", "is empty"},
        {"a\tb", "has a control character"},
        {"a\n", "has a control character"},
        {"\x01", "has a control character"},
        {"\x1f", "has a control character"},
        {"\x7f", "has a control character"},
        {"\xc2\x80", "has a control character"},
        {"a\xc2\x9f", "has a control character"},
        {"\xff", "is not UTF-8"},
        {"\xc2", "is not UTF-8"},
        {"a\n\xff", "is not UTF-8"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        TEST_ASSERT_EQUAL_STRING(cases[i].fault, pgw__name_fault(cases[i].text, PGW__QUEUE_MAX));
}

void test_lengths_count_bytes_and_are_said(void)
{
    static const struct {
        size_t max;
        const char *fault;
    } cases[] = {
        {PGW__QUEUE_MAX, "is longer than 200 bytes"},
        {PGW__KIND_MAX, "is longer than 255 bytes"},
        {PGW__KEY_MAX, "is longer than 255 bytes"},
        {1, "is too long"},
        {4096, "is too long"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *text = repeated("x", cases[i].max + 1);

        TEST_ASSERT_EQUAL_STRING(cases[i].fault, pgw__name_fault(text, cases[i].max));
        TEST_ASSERT_EQUAL_STRING(cases[i].fault, pgw__text_fault(text, cases[i].max));
        text[cases[i].max] = '\0';
        TEST_ASSERT_NULL(pgw__name_fault(text, cases[i].max));
        TEST_ASSERT_NULL(pgw__text_fault(text, cases[i].max));
        free(text);
    }
}

void test_a_limit_inside_a_character_is_a_matter_of_length(void)
{
    char *text = repeated("\xc3\xa9", 101);

    TEST_ASSERT_EQUAL_STRING("is longer than 200 bytes", pgw__name_fault(text, 200));
    TEST_ASSERT_EQUAL_STRING("is too long", pgw__name_fault(text, 199));
    text[200] = '\0';
    TEST_ASSERT_NULL(pgw__name_fault(text, 200));
    free(text);
}

void test_free_text_may_be_empty_and_have_lines(void)
{
    TEST_ASSERT_NULL(pgw__text_fault("", 10));
    TEST_ASSERT_NULL(pgw__text_fault("a\n\tb", 10));
    TEST_ASSERT_NULL(pgw__text_fault("any", SIZE_MAX));
    TEST_ASSERT_EQUAL_STRING("is not UTF-8", pgw__text_fault("\xc3", 10));
    TEST_ASSERT_EQUAL_STRING("is NULL", pgw__text_fault(NULL, 10));
    TEST_ASSERT_NULL(pgw__text_fault("", 0));
    TEST_ASSERT_EQUAL_STRING("is too long", pgw__text_fault("a", 0));
}

void test_invalid_names_of_schemas_are_refused_with_a_reason(void)
{
    static const struct {
        const char *text, *fault;
    } cases[] = {
        {"pgwork", NULL},
        {"_", NULL},
        {"a1_", NULL},
        {"pg", NULL},
        {"pgx", NULL},
        {"abcdefghijabcdefghijabcdefghijabcdefghij", NULL},
        {"abcdefghijabcdefghijabcdefghijabcdefghijk", "is longer than 40 bytes"},
        {NULL, "is NULL"},
        {"", "is empty"},
        {"1a", "begins with a digit"},
        {"A", "has a character other than a-z, 0-9 and _"},
        {"a-b", "has a character other than a-z, 0-9 and _"},
        {"a b", "has a character other than a-z, 0-9 and _"},
        {"a\"b", "has a character other than a-z, 0-9 and _"},
        {"a;drop", "has a character other than a-z, 0-9 and _"},
        {"a\n", "has a character other than a-z, 0-9 and _"},
        {"\xc3\xa9", "has a character other than a-z, 0-9 and _"},
        {"pg_x", "begins with pg_, which PostgreSQL keeps for itself"},
        {"pg_", "begins with pg_, which PostgreSQL keeps for itself"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        TEST_ASSERT_EQUAL_STRING(cases[i].fault, pgw__schema_fault(cases[i].text));
}

/* ---- text from anywhere ---- */

TEST_CASE("", 6, "")
TEST_CASE("error", 6, "error")
TEST_CASE("errors", 6, "error")
TEST_CASE("abcd\xc3\xa9", 6, "abcd")
TEST_CASE("abc\xc3\xa9", 6, "abc\xc3\xa9")
TEST_CASE("\xff\xc3", 6, "??")
TEST_CASE("a\xe2\x82", 6, "a??")
TEST_CASE("\xed\xa0\x80z", 6, "???z")
void test_text_is_mended_and_cut_between_characters(const char *from, size_t size,
                                                    const char *expected)
{
    char to[8];

    memset(to, 'x', sizeof(to));
    pgw__text_mend(to, size, from);
    TEST_ASSERT_EQUAL_STRING(expected, to);
    TEST_ASSERT_EQUAL('x', to[size]);
}

/* ---- UUIDs ---- */

void test_uuids_are_read_in_either_case(void)
{
    static const unsigned char expected[16] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
                                               0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10};
    unsigned char out[16];

    TEST_ASSERT_NULL(pgw__uuid_parse(out, "01234567-89ab-cdef-fedc-ba9876543210"));
    TEST_ASSERT_EQUAL_MEMORY(expected, out, 16);
    memset(out, 0, sizeof(out));
    TEST_ASSERT_NULL(pgw__uuid_parse(out, "01234567-89AB-CDEF-FEDC-BA9876543210"));
    TEST_ASSERT_EQUAL_MEMORY(expected, out, 16);
}

void test_text_that_is_not_a_uuid_is_refused(void)
{
    static const char good[] = "01234567-89ab-cdef-fedc-ba9876543210",
                      strange[] = "g:/@`G -\xb0\x80";
    static const unsigned char zeros[16] = {0};
    unsigned char out[16];

    memset(out, 0xff, sizeof(out));
    TEST_ASSERT_EQUAL_STRING("is NULL", pgw__uuid_parse(out, NULL));
    TEST_ASSERT_EQUAL_MEMORY(zeros, out, 16);
    for (size_t n = 0; n < 36; n++) { /* cut anywhere, and strange at any place */
        char *cut = exactly(good, n + 1);

        cut[n] = '\0';
        TEST_ASSERT_NOT_NULL(pgw__uuid_parse(out, cut));
        TEST_ASSERT_EQUAL_MEMORY(zeros, out, 16);
        free(cut);
        for (size_t k = 0; k < sizeof(strange) - 1; k++) {
            char text[sizeof(good)];

            memcpy(text, good, sizeof(good));
            if (text[n] == strange[k]) continue;
            text[n] = strange[k];
            TEST_ASSERT_NOT_NULL(pgw__uuid_parse(out, text));
        }
    }
    TEST_ASSERT_NOT_NULL(pgw__uuid_parse(out, "01234567-89ab-cdef-fedc-ba98765432100"));
    TEST_ASSERT_NOT_NULL(pgw__uuid_parse(out, "0123456789abcdeffedcba9876543210"));
    TEST_ASSERT_NOT_NULL(pgw__uuid_parse(out, "{01234567-89ab-cdef-fedc-ba9876543210}"));
    TEST_ASSERT_NOT_NULL(pgw__uuid_parse(out, " 01234567-89ab-cdef-fedc-ba9876543210"));
}
