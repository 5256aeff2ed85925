/* fuzz_cronexpr: whatever the bytes, an expression that is read stays within its ranges and means
 * the same when it is written out in full; one that is refused says where, inside of the text. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cronexpr.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)           \
    do {                           \
        if (!(condition)) abort(); \
    } while (0)

/* The set as a list, or as a range where it is full: all lists would not fit into an expression. */
static size_t write_field(char *out, uint64_t set, int least, int most)
{
    size_t n = 0;

    if (set >> least == (UINT64_C(1) << (most - least + 1)) - 1)
        return (size_t)sprintf(out, "%d-%d ", least, most);
    for (int v = least; v <= most; v++)
        if (set >> v & 1) n += (size_t)sprintf(out + n, "%d,", v);
    out[n - 1] = ' ';
    return n;
}

static void check_read(const pgw__cronexpr *e)
{
    pgw__cronexpr again;
    pgw__cronexpr_fault fault;
    char text[1024];
    size_t n = 0;

    if (e->every_s != 0) {
        const pgw__cronexpr only = {.every_s = e->every_s};

        CHECK(e->every_s > 0 && e->every_s <= PGW__CRONEXPR_EVERY);
        CHECK(memcmp(&only, e, sizeof(only)) == 0);
        snprintf(text, sizeof(text), "@every %llds", (long long)e->every_s);
        CHECK(pgw__cronexpr_parse(&again, text, &fault) && again.every_s == e->every_s);
        return;
    }
    CHECK(e->second != 0 && e->second >> 60 == 0);
    CHECK(e->minute != 0 && e->minute >> 60 == 0);
    CHECK(e->hour != 0 && e->hour >> 24 == 0);
    CHECK(e->month != 0 && (e->month & 1) == 0 && e->month >> 13 == 0);
    CHECK((e->day & 1) == 0 && (e->near & 1) == 0);
    CHECK((e->day | e->near) != 0 && e->weekday != 0);
    if (e->special) return; /* L, W and # are not written as lists of numbers */
    CHECK(e->day != 0);
    CHECK(e->weekday != 0 && e->weekday >> 7 == 0);
    n += write_field(text + n, e->second, 0, 59);
    n += write_field(text + n, e->minute, 0, 59);
    n += write_field(text + n, e->hour, 0, 23);
    n += write_field(text + n, e->day, 1, 31);
    n += write_field(text + n, e->month, 1, 12);
    n += write_field(text + n, e->weekday, 0, 6);
    text[n] = '\0';
    if (n > PGW__CRONEXPR_MAX) return;
    CHECK(pgw__cronexpr_parse(&again, text, &fault));
    CHECK(again.second == e->second && again.minute == e->minute && again.hour == e->hour);
    CHECK(again.day == e->day && again.month == e->month && again.weekday == e->weekday);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pgw__cronexpr e, again;
    pgw__cronexpr_fault fault, same;
    char *text = malloc(size + 1), *spaced = malloc(size + 3);
    size_t n;

    CHECK(text != NULL && spaced != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    n = strlen(text);
    if (pgw__cronexpr_parse(&e, text, &fault)) {
        CHECK(n <= PGW__CRONEXPR_MAX && fault.at == 0 && fault.text[0] == '\0');
        check_read(&e);
        if (n + 2 <= PGW__CRONEXPR_MAX) {
            snprintf(spaced, size + 3, "\t%s ", text);
            CHECK(pgw__cronexpr_parse(&again, spaced, &same));
            CHECK(memcmp(&e, &again, sizeof(e)) == 0);
        }
    } else {
        CHECK(fault.at >= 1 && (size_t)fault.at <= n + 1);
        CHECK(strstr(fault.text, "column ") != NULL && strstr(fault.text, ": expected ") != NULL);
        for (const char *p = fault.text; *p != '\0'; p++) CHECK(*p >= ' ' && *p <= '~');
    }
    free(spaced);
    free(text);
    return 0;
}
