/* cronexpr: which expressions mean what, and the place and the words of every refusal. */
#include "unity.h"
#include "cronexpr.h"

#include <stdio.h>
#include <string.h>

void setUp(void) {}
void tearDown(void) {}

static pgw__cronexpr e;
static pgw__cronexpr_fault fault;

static void parse(const char *text)
{
    TEST_ASSERT_TRUE_MESSAGE(pgw__cronexpr_parse(&e, text, &fault), text);
    TEST_ASSERT_EQUAL_STRING("", fault.text);
    TEST_ASSERT_EQUAL_INT(0, fault.at);
}

static void refused(const char *text, const char *words)
{
    static const pgw__cronexpr empty;
    int at = 0;

    TEST_ASSERT_FALSE_MESSAGE(pgw__cronexpr_parse(&e, text, &fault), text);
    TEST_ASSERT_EQUAL_STRING_MESSAGE(words, fault.text, text);
    TEST_ASSERT_EQUAL_INT(1, sscanf(words, "at %d", &at));
    TEST_ASSERT_EQUAL_INT(at, fault.at);
    TEST_ASSERT_EQUAL_MEMORY(&empty, &e, sizeof(e));
}

/* The bits of the numbers given, which end with -1. */
static uint64_t bits(const int *n)
{
    uint64_t set = 0;

    for (; *n >= 0; n++) set |= UINT64_C(1) << *n;
    return set;
}
#define BITS(...) bits((const int[]){__VA_ARGS__, -1})

#define ALL_MINUTES  UINT64_C(0x0fffffffffffffff)
#define ALL_HOURS    0xffffffu
#define ALL_DAYS     0xfffffffeu
#define ALL_MONTHS   0x1ffeu
#define ALL_WEEKDAYS 0x7fu

/* ---- what is read ---- */

void test_five_fields_start_at_second_0(void)
{
    parse("30 2 * * *");
    TEST_ASSERT_EQUAL_HEX64(BITS(0), e.second);
    TEST_ASSERT_EQUAL_HEX64(BITS(30), e.minute);
    TEST_ASSERT_EQUAL_HEX32(BITS(2), e.hour);
    TEST_ASSERT_EQUAL_HEX32(ALL_DAYS, e.day);
    TEST_ASSERT_EQUAL_HEX32(ALL_MONTHS, e.month);
    TEST_ASSERT_EQUAL_HEX32(ALL_WEEKDAYS, e.weekday);
    TEST_ASSERT_TRUE(e.any_day && e.any_weekday);
    TEST_ASSERT_FALSE(e.wild);
    TEST_ASSERT_EQUAL_INT64(0, e.every_s);
}

void test_six_fields_start_with_the_second(void)
{
    parse("*/20 * * * * *");
    TEST_ASSERT_EQUAL_HEX64(BITS(0, 20, 40), e.second);
    TEST_ASSERT_EQUAL_HEX64(ALL_MINUTES, e.minute);
    TEST_ASSERT_EQUAL_HEX32(ALL_HOURS, e.hour);
    TEST_ASSERT_TRUE(e.wild);
}

void test_lists_ranges_and_steps(void)
{
    parse("0,7-9,50-59/4,9 1-23/11 31,1 2-4,12 5");
    TEST_ASSERT_EQUAL_HEX64(BITS(0, 7, 8, 9, 50, 54, 58), e.minute);
    TEST_ASSERT_EQUAL_HEX32(BITS(1, 12, 23), e.hour);
    TEST_ASSERT_EQUAL_HEX32(BITS(1, 31), e.day);
    TEST_ASSERT_EQUAL_HEX32(BITS(2, 3, 4, 12), e.month);
    TEST_ASSERT_EQUAL_HEX32(BITS(5), e.weekday);
    TEST_ASSERT_FALSE(e.any_day || e.any_weekday);
    parse("59 23 31 12 7");
    TEST_ASSERT_EQUAL_HEX64(BITS(59), e.minute);
    parse("*,5 * * * *");
    TEST_ASSERT_EQUAL_HEX64(ALL_MINUTES, e.minute);
    parse("000000005 0 * * *");
    TEST_ASSERT_EQUAL_HEX64(BITS(5), e.minute);
}

void test_names_of_months_and_weekdays_in_any_case(void)
{
    parse("0 0 * jan,Feb-APR,dec mon-fri");
    TEST_ASSERT_EQUAL_HEX32(BITS(1, 2, 3, 4, 12), e.month);
    TEST_ASSERT_EQUAL_HEX32(BITS(1, 2, 3, 4, 5), e.weekday);
    parse("0 0 * may,jun,jul,aug,sep,oct,nov,mar sun,sat");
    TEST_ASSERT_EQUAL_HEX32(BITS(3, 5, 6, 7, 8, 9, 10, 11), e.month);
    TEST_ASSERT_EQUAL_HEX32(BITS(0, 6), e.weekday);
}

void test_full_names_and_ranges_that_wrap_and_steps_from_a_number(void)
{
    parse("5/15 22-2 * nov-february Friday-monday");
    TEST_ASSERT_EQUAL_HEX64(BITS(5, 20, 35, 50), e.minute);
    TEST_ASSERT_EQUAL_HEX32(BITS(22, 23, 0, 1, 2), e.hour);
    TEST_ASSERT_EQUAL_HEX32(BITS(11, 12, 1, 2), e.month);
    TEST_ASSERT_EQUAL_HEX32(BITS(5, 6, 0, 1), e.weekday);
    parse("50-10/10 * 30-2 * 7-2");
    TEST_ASSERT_EQUAL_HEX64(BITS(50, 0, 10), e.minute);
    TEST_ASSERT_EQUAL_HEX64(BITS(30, 31, 1, 2), e.day);
    TEST_ASSERT_EQUAL_HEX32(BITS(0, 1, 2), e.weekday);
    TEST_ASSERT_FALSE(e.special);
}

void test_days_by_their_place_in_the_month(void)
{
    parse("0 0 L,15w,LW * *");
    TEST_ASSERT_EQUAL_HEX64(BITS(32, 33), e.day);
    TEST_ASSERT_EQUAL_HEX32(BITS(15), e.near);
    TEST_ASSERT_TRUE(e.special);
    parse("0 0 * * fri#2,5L,sundayL,0#5,mon");
    TEST_ASSERT_EQUAL_HEX64(BITS(1, 14 + 5, 35, 42 + 5, 42), e.weekday);
    TEST_ASSERT_TRUE(e.special);
}

void test_sunday_is_0_and_7(void)
{
    parse("0 0 * * 0");
    TEST_ASSERT_EQUAL_HEX32(BITS(0), e.weekday);
    parse("0 0 * * 7");
    TEST_ASSERT_EQUAL_HEX32(BITS(0), e.weekday);
    parse("0 0 * * 5-7");
    TEST_ASSERT_EQUAL_HEX32(BITS(0, 5, 6), e.weekday);
    parse("0 0 * * */2");
    TEST_ASSERT_EQUAL_HEX32(BITS(0, 2, 4, 6), e.weekday);
    parse("0 0 * * 0-7/2");
    TEST_ASSERT_EQUAL_HEX32(BITS(0, 2, 4, 6), e.weekday);
    parse("0 0 * * 1-7/2");
    TEST_ASSERT_EQUAL_HEX32(BITS(0, 1, 3, 5), e.weekday);
}

void test_a_field_that_begins_with_a_star_is_free(void)
{
    parse("0 0 */2 * mon");
    TEST_ASSERT_TRUE(e.any_day);
    TEST_ASSERT_FALSE(e.any_weekday);
    parse("0 0 1,*/2 * */3");
    TEST_ASSERT_FALSE(e.any_day);
    TEST_ASSERT_TRUE(e.any_weekday);
    parse("*/15 2 * * *");
    TEST_ASSERT_TRUE(e.wild);
    parse("0 */2 * * *");
    TEST_ASSERT_TRUE(e.wild);
    parse("0 0-23 * * *");
    TEST_ASSERT_FALSE(e.wild);
    parse("* 0 0 * * *"); /* every second of a fixed minute */
    TEST_ASSERT_FALSE(e.wild);
}

void test_names_for_whole_expressions(void)
{
    static const char *const same[][2] = {
        {"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"},    {"@monthly", "0 0 1 * *"},
        {"@weekly", "0 0 * * 0"}, {"@Daily", "0 0 * * *"},       {"@MIDNIGHT", "0 0 * * *"},
        {"@hourly", "0 * * * *"}, {" \t@daily \t", "0 0 * * *"},
    };
    pgw__cronexpr other;

    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        parse(same[i][1]);
        other = e;
        parse(same[i][0]);
        TEST_ASSERT_EQUAL_MEMORY(&other, &e, sizeof(e));
    }
}

void test_every(void)
{
    static const struct {
        const char *text;
        int64_t s;
    } cases[] = {
        {"@every 1s", 1},          {"@every 90s", 90},    {"@every 1h30m", 5400},
        {"@every 2D", 172800},     {"@every 1w", 604800}, {"@every  1m1s ", 61},
        {"@every 366d", 31622400}, {"@every 0h5s", 5},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pgw__cronexpr only = {.every_s = cases[i].s};

        parse(cases[i].text);
        TEST_ASSERT_EQUAL_MEMORY(&only, &e, sizeof(e));
    }
}

void test_blanks_around_and_between(void)
{
    parse("\t 1  2\t3 4 5 ");
    TEST_ASSERT_EQUAL_HEX64(BITS(1), e.minute);
    TEST_ASSERT_EQUAL_HEX32(BITS(5), e.weekday);
}

/* ---- what is refused ---- */

void test_a_value_out_of_its_range(void)
{
    refused("60 * * * *", "at 1 (minute) stands \"60\", expected * or 0 .. 59");
    refused("* 24 * * *", "at 3 (hour) stands \"24\", expected * or 0 .. 23");
    refused("* * 0 * *", "at 5 (day of month) stands \"0\", expected * or 1 .. 31");
    refused("* * 32 * *", "at 5 (day of month) stands \"32\", expected * or 1 .. 31");
    refused("* * * 13 *", "at 7 (month) stands \"13\", expected * or 1 .. 12 or jan .. dec");
    refused("* * * 0 *", "at 7 (month) stands \"0\", expected * or 1 .. 12 or jan .. dec");
    refused("* * * * 8", "at 9 (weekday) stands \"8\", expected * or 0 .. 7 or sun .. sat");
    refused("60 * * * * *", "at 1 (second) stands \"60\", expected * or 0 .. 59");
    refused("0000000005 * * * *", "at 1 (minute) stands \"0000000005\", expected * or 0 .. 59");
    refused("99999999999999999999999 * * * *",
            "at 1 (minute) stands \"99999999999999999999\", expected * or 0 .. 59");
    refused("1-60 * * * *", "at 3 (minute) stands \"60\", expected 0 .. 59");
}

void test_what_is_no_value(void)
{
    refused("? * * * *", "at 1 (minute) stands \"?\", expected * or 0 .. 59");
    refused("-5 * * * *", "at 1 (minute) stands \"-\", expected * or 0 .. 59");
    refused("* * * monday *",
            "at 7 (month) stands \"monday\", expected * or 1 .. 12 or jan .. dec");
    refused("* * * * Mond", "at 9 (weekday) stands \"Mond\", expected * or 0 .. 7 or sun .. sat");
    refused("* * * * L", "at 9 (weekday) stands \"L\", expected * or 0 .. 7 or sun .. sat");
    refused("* L * * *", "at 3 (hour) stands \"L\", expected * or 0 .. 23");
    refused("* * 32W * *", "at 5 (day of month) stands \"32W\", expected * or 1 .. 31");
    refused("* * 1#2 * *", "at 6 (day of month) stands \"#\", expected , or the field's end");
    refused("* * * * fri#6", "at 13 (weekday) stands \"6\", expected 1 .. 5");
    refused("* * * * fri#", "at 13 (weekday) stands the end, expected 1 .. 5");
    refused("* * L-3 * *", "at 6 (day of month) stands \"-\", expected , or the field's end");
    refused("1,,2 * * * *", "at 3 (minute) stands \",\", expected * or 0 .. 59");
    refused("1, * * * *", "at 3 (minute) stands \" \", expected * or 0 .. 59");
    refused("* * * * 1,", "at 11 (weekday) stands the end, expected * or 0 .. 7 or sun .. sat");
    refused("5- * * * *", "at 3 (minute) stands \" \", expected 0 .. 59");
    refused("* * * * mon-", "at 13 (weekday) stands the end, expected 0 .. 7 or sun .. sat");
    refused("\xc3\xa9 * * * *",
            "at 1 (minute) stands a character beyond ASCII, expected * or 0 .. 59");
    refused("\n * * * *", "at 1 (minute) stands a control character, expected * or 0 .. 59");
    refused("* * * * *\n",
            "at 10 (weekday) stands a control character, expected , or the field's end");
}

void test_ranges_and_steps_that_make_no_sense(void)
{
    refused("*/0 * * * *", "at 3 (minute) stands \"0\", expected a step of 1 .. 59");
    refused("*/60 * * * *", "at 3 (minute) stands \"60\", expected a step of 1 .. 59");
    refused("*/x * * * *", "at 3 (minute) stands \"x\", expected a step of 1 .. 59");
    refused("* 1-5/ * * *", "at 7 (hour) stands \" \", expected a step of 1 .. 23");
    refused("5/0 * * * *", "at 3 (minute) stands \"0\", expected a step of 1 .. 59");
    refused("*5 * * * *", "at 2 (minute) stands \"5\", expected , or the field's end");
    refused("1-2-3 * * * *", "at 4 (minute) stands \"-\", expected , or the field's end");
    refused("*/2/2 * * * *", "at 4 (minute) stands \"/\", expected , or the field's end");
    refused("5W * * * *", "at 1 (minute) stands \"5W\", expected * or 0 .. 59");
}

void test_the_number_of_fields(void)
{
    refused("", "at 1 stands the end, expected 5 or 6 fields, not 0");
    refused("  ", "at 3 stands the end, expected 5 or 6 fields, not 0");
    refused("* * * *", "at 8 stands the end, expected 5 or 6 fields, not 4");
    refused("* * * * * * 2026", "at 13 stands \"2026\", expected the end: 5 or 6 fields, not 7");
    refused("* * * * * * * *", "at 13 stands \"*\", expected the end: 5 or 6 fields, not 8");
}

void test_days_that_never_come(void)
{
    refused("0 0 30 2 *",
            "at 5 (day of month) stands \"30\", expected a day that one of these months has");
    refused("0 0 0 31 4,6,9,11,2 *",
            "at 7 (day of month) stands \"31\", expected a day that one of these months has");
    refused("0 0 30,31 feb */2",
            "at 5 (day of month) stands \"30\", expected a day that one of these months has");
    parse("0 0 29 2 *");
    parse("0 0 30 2,4 *");
    parse("0 0 31 1,2 *");
    parse("0 0 31 2 mon"); /* its Mondays come */
    TEST_ASSERT_FALSE(e.any_day || e.any_weekday);
}

void test_names_that_are_none(void)
{
    refused("@", "at 1 stands \"@\", expected @yearly @monthly @weekly @daily @hourly or @every");
    refused("@reboot",
            "at 1 stands \"@reboot\", expected @yearly @monthly @weekly @daily @hourly or @every");
    refused("@dailyx",
            "at 1 stands \"@dailyx\", expected @yearly @monthly @weekly @daily @hourly or @every");
    refused("@daily 5", "at 8 stands \"5\", expected the end");
    refused("@daily-", "at 7 stands \"-\", expected the end");
    refused(" @every", "at 8 stands the end, expected a time such as 90s, 1h30m or 2d");
    refused("@every 90", "at 8 stands \"90\", expected a time such as 90s, 1h30m or 2d");
    refused("@every 1h30", "at 10 stands \"30\", expected a time such as 90s, 1h30m or 2d");
    refused("@every 5y", "at 8 stands \"5y\", expected a time such as 90s, 1h30m or 2d");
    refused("@every -5s", "at 8 stands \"-\", expected a time such as 90s, 1h30m or 2d");
    refused("@every 1234567890s",
            "at 8 stands \"1234567890s\", expected a time such as 90s, 1h30m or 2d");
    refused("@every 0s", "at 8 stands \"0s\", expected 1s .. 366d");
    refused("@every 367d", "at 8 stands \"367d\", expected 1s .. 366d");
    refused("@every 5s 5s", "at 11 stands \"5s\", expected the end");
    refused("0 0 * * @daily",
            "at 9 (weekday) stands \"@daily\", expected * or 0 .. 7 or sun .. sat");
}

void test_255_bytes_are_the_limit(void)
{
    char text[300];

    memset(text, ' ', sizeof(text));
    memcpy(text, "* * * * *", 9);
    text[255] = '\0';
    parse(text);
    text[255] = ' ';
    text[256] = '\0';
    refused(text, "at 256 stands \" \", expected the end: 255 bytes are the limit");
    for (size_t i = 0; i < 256; i += 2) memcpy(text + i, "\xc3\xa9", 2);
    refused(text, "at 128 stands a character beyond ASCII, expected the end: 255 bytes are the "
                  "limit"); /* it begins within the limit, and ends beyond */
}
