/* token: sixteen bytes on the wire, a UUID as text. */
#include "unity.h"
#include "token.h"
#include "name.h"

TEST_SOURCE_FILE("src/base/status.c")

#define TOKEN "00000000-0000-0021-67da-7e57557e33d2"

void setUp(void) {}

void tearDown(void) {}

void test_a_token_is_a_uuid_in_network_order(void)
{
    const pgw_token token = {0x0000000000000021u, 0x67da7e57557e33d2u};
    char text[PGW_TOKEN_TEXT_SIZE];
    pgw_token again;

    TEST_ASSERT_EQUAL_STRING(TOKEN, pgw_token_format(token, text));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_token_parse(text, &again));
    TEST_ASSERT_EQUAL_UINT64(token.number, again.number);
    TEST_ASSERT_EQUAL_UINT64(token.nonce, again.nonce);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_token_parse("FFFFFFFF-FFFF-FFFF-8000-000000000000", &again));
    TEST_ASSERT_EQUAL_UINT64(UINT64_MAX, again.number);
    TEST_ASSERT_EQUAL_UINT64(UINT64_C(1) << 63, again.nonce);
}

void test_text_that_is_not_a_token_is_refused(void)
{
    pgw_token token = {1, 1};

    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_token_parse("00000000-0000-0021-67da-7e57557e33d", &token));
    TEST_ASSERT_EQUAL_UINT64(0, token.number);
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_token_parse(TOKEN "0", &token));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_token_parse("", &token));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_token_parse(NULL, &token));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_token_parse(TOKEN, NULL));
}

void test_a_written_token_is_read_back(void)
{
    static const unsigned char expected[16] = {0,    0,    0,    0,    0,    0,    0,    0x21,
                                               0x67, 0xda, 0x7e, 0x57, 0x55, 0x7e, 0x33, 0xd2};
    const pgw_token token = {0x21, 0x67da7e57557e33d2u};
    unsigned char bytes[16];

    pgw__token_write(bytes, token);
    TEST_ASSERT_EQUAL_HEX8_ARRAY(expected, bytes, 16);
    TEST_ASSERT_EQUAL_UINT64(token.number, pgw__token_read(bytes).number);
    TEST_ASSERT_EQUAL_UINT64(token.nonce, pgw__token_read(bytes).nonce);
}
