/* pq: arrays of an answer, as array_send() writes them: any shape, and no read beyond the end. */
#include "unity.h"
#include "name.h"
#include "pq_int.h"

#include <string.h>

TEST_SOURCE_FILE("src/pq/pq_rows.c")

#define TEXT_ARRAY 1009 /* pg_type.dat */

static unsigned char bytes[256];
static size_t size;
static bool misread;
static pgw__items items;

void setUp(void)
{
    size = 0;
}

void tearDown(void) {}

static void number(int64_t n)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        bytes[size++] = (unsigned char)((uint64_t)n >> shift);
}

static void text(const char *word)
{
    number((int64_t)strlen(word));
    memcpy(bytes + size, word, strlen(word));
    size += strlen(word);
}

/* An array of text up to its elements; each dimension begins with 5. */
static void head(int dimensions, const int64_t *sizes)
{
    number(dimensions);
    number(0);
    number(25);
    for (int d = 0; d < dimensions; d++) {
        number(sizes[d]);
        number(5);
    }
}

/* As many of the bytes as are given; the elements are copied, since the answer goes away. */
static int read_items(size_t given, char *words)
{
    static char name[] = "tags";
    PGresAttDesc column = {.name = name, .typid = TEXT_ARRAY, .typlen = -1, .format = 1};
    PGresult *res = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
    const pgw__rows rows = {.res = res, .misread = &misread};
    pgw__bytes item;
    int count;

    misread = false;
    TEST_ASSERT_NOT_EQUAL(0, PQsetResultAttrs(res, 1, &column));
    TEST_ASSERT_NOT_EQUAL(0, PQsetvalue(res, 0, 0, (char *)bytes, (int)given));
    count = pgw__rows_items(&rows, 0, 0, &items);
    words[0] = '\0';
    while (pgw__items_next(&items, &item)) {
        strncat(words, item.p != NULL ? item.p : "NULL", item.p != NULL ? item.n : 4);
        strcat(words, ";");
    }
    PQclear(res);
    return count;
}

TEST_CASE(1, 6, 0, 0)
TEST_CASE(2, 2, 3, 0)
TEST_CASE(3, 1, 3, 2)
void test_the_elements_of_all_dimensions_are_read(int dimensions, int a, int b, int c)
{
    const int64_t sizes[] = {a, b, c};
    char words[64];

    head(dimensions, sizes);
    text("a");
    number(-1);
    text("");
    text("bc");
    text("d");
    text("e");
    TEST_ASSERT_EQUAL_INT(6, read_items(size, words));
    TEST_ASSERT_EQUAL_STRING("a;NULL;;bc;d;e;", words);
    TEST_ASSERT_FALSE(misread);
    for (size_t given = 0; given < size; given++) {
        TEST_ASSERT_EQUAL_INT(0, read_items(given, words));
        TEST_ASSERT_TRUE(misread);
    }
}

void test_an_empty_array_has_no_dimension(void)
{
    char words[64];

    head(0, NULL);
    TEST_ASSERT_EQUAL_INT(0, read_items(size, words));
    TEST_ASSERT_FALSE(misread);
}

/* One of them, or their product, which may be small again in 32 bits. */
void test_sizes_that_cannot_be_are_misread(void)
{
    static const int64_t sizes[][6] = {
        {-1, 1, 1, 1, 1, 1},        {1, INT32_MAX, 1, 1, 1, 1},
        {65536, 65536, 1, 1, 1, 1}, {1 << 30, 1 << 30, 16, 1, 1, 1},
        {64, 64, 64, 64, 64, 4},    {0, INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX, 1}};
    static const int64_t numbers[] = {-1, INT32_MAX, 1 << 29};
    char words[64];

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size = 0;
        head(6, sizes[i]);
        text("a");
        TEST_ASSERT_EQUAL_INT(0, read_items(size, words));
        TEST_ASSERT_TRUE_MESSAGE(misread, words);
    }
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        size = 0;
        number(numbers[i]); /* of dimensions */
        number(0);
        number(25);
        text("a");
        TEST_ASSERT_EQUAL_INT(0, read_items(size, words));
        TEST_ASSERT_TRUE(misread);
    }
}
