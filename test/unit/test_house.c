/* The house stands: the header's version is well formed and the library says the same. */
#include "unity.h"
#include "pgwork.h"

#include <stdio.h>

TEST_SOURCE_FILE("src/version.c")

void setUp(void) {}
void tearDown(void) {}

void test_number_and_string_of_the_version_agree(void)
{
    char text[32];

    snprintf(text, sizeof(text), "%d.%d.%d", PGW_VERSION_NUMBER >> 16, PGW_VERSION_NUMBER >> 8 & 0xff,
             PGW_VERSION_NUMBER & 0xff);
    TEST_ASSERT_EQUAL_STRING(PGW_VERSION_STRING, text);
}

void test_the_library_tells_the_version_of_its_header(void)
{
    TEST_ASSERT_EQUAL_STRING(PGW_VERSION_STRING, pgw_version());
}
