/* pq: parameters in binary, byte for byte as the *_recv functions of the server read them. */
#include "unity.h"
#include "pq_param.h"
#include "buf.h"
#include "mem.h"

#include <stdlib.h>
#include <string.h>

static pgw__args a;

void setUp(void)
{
    pgw__args_init(&a);
}

void tearDown(void)
{
    pgw__args_free(&a);
}

static void encode(const pgw__param *params, int count)
{
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw__args_encode(&a, params));
    TEST_ASSERT_EQUAL_INT(count, a.count);
    for (int i = 0; i < count; i++) TEST_ASSERT_EQUAL_INT(1, a.formats[i]);
}

static void expect(int i, unsigned type, const void *bytes, int size)
{
    TEST_ASSERT_EQUAL_UINT(type, a.types[i]);
    TEST_ASSERT_EQUAL_INT(size, a.lengths[i]);
    TEST_ASSERT_NOT_NULL(a.values[i]);
    if (size > 0) TEST_ASSERT_EQUAL_MEMORY(bytes, a.values[i], size);
}

void test_a_call_may_have_no_parameters(void)
{
    static const pgw__param none[] = {P_END};

    encode(none, 0);
    encode(NULL, 0);
}

void test_scalars_are_encoded_in_binary(void)
{
    static const unsigned char uuid[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    const pgw__param params[] = {P_BOOL(true),       P_BOOL(false), P_INT4(-2),
                                 P_INT8(INT64_MIN),  P_TEXT("abc"), P_JSONB("{}"),
                                 P_BYTEA("a\0b", 3), P_UUID(uuid),  P_END};

    encode(params, 8);
    expect(0, 16, "\x01", 1);
    expect(1, 16, "\x00", 1);
    expect(2, 23, "\xff\xff\xff\xfe", 4);
    expect(3, 20, "\x80\0\0\0\0\0\0\0", 8);
    expect(4, 25, "abc", 3);
    expect(5, 3802, "\x01{}", 3);
    expect(6, 17, "a\0b", 3);
    expect(7, 2950, uuid, 16);
}

void test_times_are_encoded_from_2000_on(void)
{
    const pgw__param params[] = {
        P_TIME_OR_NULL(INT64_C(946684800000000), false), P_TIME_OR_NULL(0, false),
        P_TIME_OR_NULL(INT64_C(946684800000001), false), P_TIME_OR_NULL(0, true), P_END};

    encode(params, 4);
    expect(0, 1184, "\0\0\0\0\0\0\0\0", 8);
    expect(1, 1184, "\xff\xfc\xa2\xfe\xc4\xc8\x20\x00", 8);
    expect(2, 1184, "\0\0\0\0\0\0\0\x01", 8);
    TEST_ASSERT_NULL(a.values[3]);
}

void test_null_is_a_null_pointer_and_empty_is_not(void)
{
    const char *none = NULL;
    const pgw__param params[] = {P_TEXT(none),
                                 P_TEXT(""),
                                 P_BYTEA(NULL, 0),
                                 P_BYTEA("", 0),
                                 P_INT8_OR_NULL(1, true),
                                 P_INT4_OR_NULL(1, true),
                                 P_JSONB(none),
                                 P_END};

    encode(params, 7);
    TEST_ASSERT_NULL(a.values[0]);
    expect(1, 25, "", 0);
    TEST_ASSERT_NULL(a.values[2]);
    expect(3, 17, "", 0);
    TEST_ASSERT_NULL(a.values[4]);
    TEST_ASSERT_NULL(a.values[5]);
    TEST_ASSERT_NULL(a.values[6]);
    TEST_ASSERT_EQUAL_UINT(3802, a.types[6]);
}

void test_sized_text_needs_no_end(void)
{
    const pgw__param params[] = {{.type = PGW__TEXT, .n = 2, .v.p = "abcd"},
                                 {.type = PGW__JSONB, .n = 1, .v.p = "12"},
                                 P_END};

    encode(params, 2);
    expect(0, 25, "ab", 2);
    expect(1, 3802,
           "\x01"
           "1",
           2);
}

void test_arrays_of_numbers_are_encoded(void)
{
    static const int32_t four[] = {1, -1};
    static const int64_t eight[] = {5};
    static const int64_t times[] = {INT64_C(946684800000000), INT64_MIN};
    const pgw__param params[] = {P_ARRAY(INT4, four, 2),  P_ARRAY(INT8, eight, 1),
                                 P_ARRAY(TIME, times, 2), P_ARRAY(INT8, eight, 0),
                                 P_ARRAY(INT8, NULL, 3),  P_END};

    encode(params, 5);
    expect(0, 1007,
           "\0\0\0\1\0\0\0\0\0\0\0\x17\0\0\0\2\0\0\0\1\0\0\0\4\0\0\0\1\0\0\0\4\xff\xff\xff\xff",
           36);
    expect(1, 1016, "\0\0\0\1\0\0\0\0\0\0\0\x14\0\0\0\1\0\0\0\1\0\0\0\x08\0\0\0\0\0\0\0\5", 32);
    expect(2, 1185,
           "\0\0\0\1\0\0\0\1\0\0\x04\xa0\0\0\0\2\0\0\0\1\0\0\0\x08\0\0\0\0\0\0\0\0\xff\xff\xff\xff",
           36);
    expect(3, 1016, "\0\0\0\0\0\0\0\0\0\0\0\x14", 12);
    TEST_ASSERT_NULL(a.values[4]);
}

void test_null_elements_of_arrays_are_encoded(void)
{
    static const char *const texts[] = {"a", NULL, ""};
    static const char *const jsons[] = {"1", NULL};
    static const pgw__bytes bodies[] = {{"x", 1}, {NULL, 0}, {"", 0}};
    static const unsigned char uuids[1][16] = {{9}};
    const pgw__param params[] = {P_ARRAY(TEXT, texts, 3), P_ARRAY(JSONB, jsons, 2),
                                 P_ARRAY(BYTEA, bodies, 3), P_ARRAY(UUID, uuids, 1), P_END};

    encode(params, 4);
    expect(0, 1009,
           "\0\0\0\1\0\0\0\1\0\0\0\x19\0\0\0\3\0\0\0\1\0\0\0\1"
           "a\xff\xff\xff\xff\0\0\0\0",
           33);
    expect(1, 3807,
           "\0\0\0\1\0\0\0\1\0\0\x0e\xda\0\0\0\2\0\0\0\1\0\0\0\2\1"
           "1\xff\xff\xff\xff",
           30);
    expect(2, 1001, "\0\0\0\1\0\0\0\1\0\0\0\x11\0\0\0\3\0\0\0\1\0\0\0\1x\xff\xff\xff\xff\0\0\0\0",
           33);
    expect(
        3, 2951,
        "\0\0\0\1\0\0\0\0\0\0\x0b\x86\0\0\0\1\0\0\0\1\0\0\0\x10\x09\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        40);
}

void test_a_parameter_that_does_not_fit_its_type_is_named(void)
{
    const pgw__param params[] = {P_INT4(1), P_INT4((int64_t)INT32_MAX + 1), P_END};
    const pgw__param early[] = {P_TIME_OR_NULL(INT64_MIN, false), P_END};

    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw__args_encode(&a, params));
    TEST_ASSERT_EQUAL_INT(1, a.at);
    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw__args_encode(&a, early));
    TEST_ASSERT_EQUAL_INT(0, a.at);
}

void test_a_message_stays_below_a_gigabyte(void)
{
    const pgw__param params[] = {{.type = PGW__BYTEA, .n = PGW__ARGS_BYTES_MAX, .v.p = ""}, P_END};

    TEST_ASSERT_EQUAL_INT(PGW_ELIMIT, pgw__args_encode(&a, params));
}

void test_a_buffer_serves_many_statements(void)
{
    const pgw__param params[] = {P_TEXT("abc"), P_END};
    const char *place;

    encode(params, 1);
    place = a.values[0];
    encode(params, 1);
    TEST_ASSERT_EQUAL_PTR(place, a.values[0]);
    pgw__args_reset(&a);
    TEST_ASSERT_EQUAL_INT(0, a.count);
}

static int left;

static void *few(void *ctx, size_t size)
{
    return left-- > 0 ? malloc(size) : NULL;
}

static void *few_more(void *ctx, void *p, size_t size)
{
    return left-- > 0 ? realloc(p, size) : NULL;
}

static void back(void *ctx, void *p)
{
    free(p);
}

void test_out_of_memory_at_every_point(void)
{
    static char text[3000];
    static const pgw_allocator failing = {NULL, few, few_more, back};
    const pgw__param params[] = {P_TEXT(text), P_INT8(1), P_TEXT(text), P_END};
    pgw_status st = PGW_ENOMEM;

    memset(text, 'x', sizeof(text) - 1);
    pgw_set_allocator(&failing);
    for (int n = 0; n < 20 && st != PGW_OK; n++) {
        left = n;
        st = pgw__args_encode(&a, params);
        TEST_ASSERT_TRUE(st == PGW_OK || st == PGW_ENOMEM);
        pgw__args_free(&a);
        pgw__args_init(&a);
    }
    pgw_set_allocator(NULL);
    TEST_ASSERT_EQUAL_INT(PGW_OK, st);
}

/* Of a type that only the server knows: text without a type, terminated as libpq wants text. */
void test_values_of_any_type_go_as_text(void)
{
    const pgw__param params[] = {P_INT4(1), P_VALUE("12.5"), P_VALUE(""), P_VALUE(NULL), P_END};

    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw__args_encode(&a, params));
    TEST_ASSERT_EQUAL_INT(1, a.formats[0]);
    for (int i = 1; i < 4; i++) {
        TEST_ASSERT_EQUAL_INT(0, a.formats[i]);
        TEST_ASSERT_EQUAL_UINT(0, a.types[i]);
    }
    TEST_ASSERT_EQUAL_STRING("12.5", a.values[1]);
    TEST_ASSERT_EQUAL_STRING("", a.values[2]);
    TEST_ASSERT_NULL(a.values[3]);
}
