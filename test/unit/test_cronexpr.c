/* cronexpr: the meaning of expressions, and the column and text of each refusal. */
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
    const char *column = strstr(words, "column ");
    int at = 0;

    TEST_ASSERT_FALSE_MESSAGE(pgw__cronexpr_parse(&e, text, &fault), text);
    TEST_ASSERT_EQUAL_STRING_MESSAGE(words, fault.text, text);
    TEST_ASSERT_NOT_NULL(column);
    TEST_ASSERT_EQUAL_INT(1, sscanf(column, "column %d", &at));
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

void test_lists_ranges_and_steps_are_read(void)
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

void test_days_by_their_position_in_the_month(void)
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

void test_names_stand_for_whole_expressions(void)
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

void test_intervals_are_read(void)
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

void test_blanks_around_and_between_fields_are_ignored(void)
{
    parse("\t 1  2\t3 4 5 ");
    TEST_ASSERT_EQUAL_HEX64(BITS(1), e.minute);
    TEST_ASSERT_EQUAL_HEX32(BITS(5), e.weekday);
}

/* ---- what is refused ---- */

void test_a_value_out_of_its_range(void)
{
    refused("60 * * * *", "minute field, column 1: expected * or 0..59, got \"60\"");
    refused("* 24 * * *", "hour field, column 3: expected * or 0..23, got \"24\"");
    refused("* * 0 * *", "day of month field, column 5: expected * or 1..31, got \"0\"");
    refused("* * 32 * *", "day of month field, column 5: expected * or 1..31, got \"32\"");
    refused("* * * 13 *", "month field, column 7: expected * or 1..12 or jan..dec, got \"13\"");
    refused("* * * 0 *", "month field, column 7: expected * or 1..12 or jan..dec, got \"0\"");
    refused("* * * * 8", "weekday field, column 9: expected * or 0..7 or sun..sat, got \"8\"");
    refused("60 * * * * *", "second field, column 1: expected * or 0..59, got \"60\"");
    refused("0000000005 * * * *",
            "minute field, column 1: expected * or 0..59, got \"0000000005\"");
    refused("99999999999999999999999 * * * *",
            "minute field, column 1: expected * or 0..59, got \"99999999999999999999\"");
    refused("1-60 * * * *", "minute field, column 3: expected 0..59, got \"60\"");
}

void test_invalid_values_of_a_field_are_refused_with_their_column(void)
{
    refused("? * * * *", "minute field, column 1: expected * or 0..59, got \"?\"");
    refused("-5 * * * *", "minute field, column 1: expected * or 0..59, got \"-\"");
    refused("* * * monday *",
            "month field, column 7: expected * or 1..12 or jan..dec, got \"monday\"");
    refused("* * * * Mond",
            "weekday field, column 9: expected * or 0..7 or sun..sat, got \"Mond\"");
    refused("* * * * L", "weekday field, column 9: expected * or 0..7 or sun..sat, got \"L\"");
    refused("* L * * *", "hour field, column 3: expected * or 0..23, got \"L\"");
    refused("* * 32W * *", "day of month field, column 5: expected * or 1..31, got \"32W\"");
    refused("* * 1#2 * *",
            "day of month field, column 6: expected , or the field's end, got \"#\"");
    refused("* * * * fri#6", "weekday field, column 13: expected 1..5, got \"6\"");
    refused("* * * * fri#", "weekday field ends at column 13: expected 1..5");
    refused("* * L-3 * *",
            "day of month field, column 6: expected , or the field's end, got \"-\"");
    refused("1,,2 * * * *", "minute field, column 3: expected * or 0..59, got \",\"");
    refused("1, * * * *", "minute field, column 3: expected * or 0..59, got \" \"");
    refused("* * * * 1,", "weekday field ends at column 11: expected * or 0..7 or sun..sat");
    refused("5- * * * *", "minute field, column 3: expected 0..59, got \" \"");
    refused("* * * * mon-", "weekday field ends at column 13: expected 0..7 or sun..sat");
    refused("\xc3\xa9 * * * *",
            "minute field, column 1: expected * or 0..59, got a character beyond ASCII");
    refused("\n * * * *", "minute field, column 1: expected * or 0..59, got a control character");
    refused("* * * * *\n",
            "weekday field, column 10: expected , or the field's end, got a control character");
}

void test_ranges_and_steps_that_make_no_sense(void)
{
    refused("*/0 * * * *", "minute field, column 3: expected a step of 1..59, got \"0\"");
    refused("*/60 * * * *", "minute field, column 3: expected a step of 1..59, got \"60\"");
    refused("*/x * * * *", "minute field, column 3: expected a step of 1..59, got \"x\"");
    refused("* 1-5/ * * *", "hour field, column 7: expected a step of 1..23, got \" \"");
    refused("5/0 * * * *", "minute field, column 3: expected a step of 1..59, got \"0\"");
    refused("*5 * * * *", "minute field, column 2: expected , or the field's end, got \"5\"");
    refused("1-2-3 * * * *", "minute field, column 4: expected , or the field's end, got \"-\"");
    refused("*/2/2 * * * *", "minute field, column 4: expected , or the field's end, got \"/\"");
    refused("5W * * * *", "minute field, column 1: expected * or 0..59, got \"5W\"");
}

void test_a_wrong_number_of_fields_is_refused(void)
{
    refused("", "cron expression ends at column 1: expected 5 or 6 fields, got 0");
    refused("  ", "cron expression ends at column 3: expected 5 or 6 fields, got 0");
    refused("* * * *", "cron expression ends at column 8: expected 5 or 6 fields, got 4");
    refused("* * * * * * 2026", "column 13: expected the end: 5 or 6 fields, got 7, got \"2026\"");
    refused("* * * * * * * *", "column 13: expected the end: 5 or 6 fields, got 8, got \"*\"");
}

void test_days_that_never_come_are_refused(void)
{
    refused(
        "0 0 30 2 *",
        "day of month field, column 5: expected a day that one of these months has, got \"30\"");
    refused(
        "0 0 0 31 4,6,9,11,2 *",
        "day of month field, column 7: expected a day that one of these months has, got \"31\"");
    refused(
        "0 0 30,31 feb */2",
        "day of month field, column 5: expected a day that one of these months has, got \"30\"");
    parse("0 0 29 2 *");
    parse("0 0 30 2,4 *");
    parse("0 0 31 1,2 *");
    parse("0 0 31 2 mon"); /* its Mondays come */
    TEST_ASSERT_FALSE(e.any_day || e.any_weekday);
}

void test_unknown_names_are_refused(void)
{
    refused("@", "column 1: expected @yearly @monthly @weekly @daily @hourly or @every, got \"@\"");
    refused(
        "@reboot",
        "column 1: expected @yearly @monthly @weekly @daily @hourly or @every, got \"@reboot\"");
    refused(
        "@dailyx",
        "column 1: expected @yearly @monthly @weekly @daily @hourly or @every, got \"@dailyx\"");
    refused("@daily 5", "column 8: expected the end, got \"5\"");
    refused("@daily-", "column 7: expected the end, got \"-\"");
    refused(" @every",
            "cron expression ends at column 8: expected a time such as 90s, 1h30m or 2d");
    refused("@every 90", "column 8: expected a time such as 90s, 1h30m or 2d, got \"90\"");
    refused("@every 1h30", "column 10: expected a time such as 90s, 1h30m or 2d, got \"30\"");
    refused("@every 5y", "column 8: expected a time such as 90s, 1h30m or 2d, got \"5y\"");
    refused("@every -5s", "column 8: expected a time such as 90s, 1h30m or 2d, got \"-\"");
    refused("@every 1234567890s",
            "column 8: expected a time such as 90s, 1h30m or 2d, got \"1234567890s\"");
    refused("@every 0s", "column 8: expected 1s..366d, got \"0s\"");
    refused("@every 367d", "column 8: expected 1s..366d, got \"367d\"");
    refused("@every 5s 5s", "column 11: expected the end, got \"5s\"");
    refused("0 0 * * @daily",
            "weekday field, column 9: expected * or 0..7 or sun..sat, got \"@daily\"");
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
    refused(text, "column 256: expected the end: 255 bytes are the limit, got \" \"");
    for (size_t i = 0; i < 256; i += 2) memcpy(text + i, "\xc3\xa9", 2);
    refused(text, "column 128: expected the end: 255 bytes are the limit, "
                  "got a character beyond ASCII"); /* it begins within the limit, and ends beyond */
}
