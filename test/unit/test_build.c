/* The build: one version everywhere, and the embedded SQL is that of the files. */
#include "unity.h"
#include "pgwork.h"

#include <stdio.h>
#include <string.h>

TEST_SOURCE_FILE("src/base/version.c")

void setUp(void) {}
void tearDown(void) {}

void test_number_and_string_of_the_version_agree(void)
{
    char text[32];

    snprintf(text, sizeof(text), "%d.%d.%d", PGW_VERSION_NUMBER >> 16,
             PGW_VERSION_NUMBER >> 8 & 0xff, PGW_VERSION_NUMBER & 0xff);
    TEST_ASSERT_EQUAL_STRING(PGW_VERSION_STRING, text);
}

void test_the_library_returns_the_version_of_its_header(void)
{
    TEST_ASSERT_EQUAL_STRING(PGW_VERSION_STRING, pgw_version());
}

static void assert_file_holds(const char *path, const char *text)
{
    static char bytes[1 << 20];
    FILE *file = fopen(path, "rb");
    size_t n;

    TEST_ASSERT_NOT_NULL_MESSAGE(file, path);
    n = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    TEST_ASSERT_EQUAL_MESSAGE(strlen(text), n, path);
    TEST_ASSERT_EQUAL_MEMORY_MESSAGE(text, bytes, n, path);
}

void test_embedded_sql_is_that_of_the_files_byte_for_byte(void)
{
#define PGW__SQL(id, name, text)           assert_file_holds("src/sql/" name ".sql", text);
#define PGW__MIGRATION(number, file, text) assert_file_holds("migrations/" file, text);
#include "sql_data.inc"
}
