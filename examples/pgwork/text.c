/* SPDX-License-Identifier: PostgreSQL */
#include "text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

bool text_to_int(int64_t *n, const char *word)
{
    bool negative = *word == '-';
    if (negative) word++;
    if (*word == '\0') return false;
    int64_t sum = 0; /* negative, because INT64_MIN has no positive counterpart */
    for (; *word; word++) {
        if (*word < '0' || *word > '9') return false;
        int digit = *word - '0';
        if (sum < (INT64_MIN + digit) / 10) return false;
        sum = sum * 10 - digit;
    }
    if (!negative && sum == INT64_MIN) return false;
    *n = negative ? sum : -sum;
    return true;
}

/* Reads up to @p width digits, and moves *word behind them. */
static bool text_digits(int64_t *n, const char **word, int width)
{
    int used = 0;
    *n = 0;
    while (used < width && **word >= '0' && **word <= '9') {
        *n = *n * 10 + (**word - '0');
        (*word)++;
        used++;
    }
    return used > 0;
}

bool text_to_ms(int64_t *ms, const char *word)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
    int64_t sum = 0, n;
    bool first = true;
    do {
        if (!text_digits(&n, &word, 12)) return false;
        size_t letters = strspn(word, "msdh");
        if (letters == 0 && first && *word == '\0') {
            *ms = n * 1000;
            return true;
        }
        size_t u = 0, all = sizeof units / sizeof *units;
        while (u < all &&
               (strlen(units[u].name) != letters || strncmp(units[u].name, word, letters) != 0)) {
            u++;
        }
        if (u == all || n > INT64_MAX / 4 / units[u].ms) return false;
        if (sum > INT64_MAX / 2) return false;
        sum += n * units[u].ms;
        word += letters;
        first = false;
    } while (*word);
    *ms = sum;
    return true;
}

/* Days since 1970-01-01 in the Gregorian calendar. Years are counted from March, so that a leap day
 * is the last of its year. */
static int64_t text_days(int64_t y, int64_t m, int64_t d)
{
    if (m <= 2) y--;
    int64_t era = y / 400, year = y % 400;
    int64_t day = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
    return era * 146097 + year * 365 + year / 4 - year / 100 + day - 719468;
}

static bool text_fixed(int64_t *n, const char **word, int width, char end)
{
    const char *from = *word;
    if (!text_digits(n, word, width) || *word - from != width) return false;
    if (end && **word != end) return false;
    if (end) (*word)++;
    return true;
}

bool text_to_time_us(int64_t *us, const char *word)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int64_t y, mo, d, h, mi, s = 0, fraction = 0, zone_h = 0, zone_m = 0;
    if (!text_fixed(&y, &word, 4, '-') || !text_fixed(&mo, &word, 2, '-') ||
        !text_fixed(&d, &word, 2, 0)) {
        return false;
    }
    if (*word != 'T' && *word != ' ') return false;
    word++;
    if (!text_fixed(&h, &word, 2, ':') || !text_fixed(&mi, &word, 2, 0)) return false;
    if (*word == ':') {
        word++;
        if (!text_fixed(&s, &word, 2, 0)) return false;
    }
    if (*word == '.') {
        word++;
        int64_t unit = 100000;
        if (*word < '0' || *word > '9') return false;
        for (; *word >= '0' && *word <= '9'; word++, unit /= 10) fraction += (*word - '0') * unit;
    }
    char sign = *word++;
    if (sign == '+' || sign == '-') {
        if (!text_fixed(&zone_h, &word, 2, 0)) return false;
        if (*word == ':') word++;
        if (*word && !text_fixed(&zone_m, &word, 2, 0)) return false;
    } else if (sign != 'Z') {
        return false; /* without a zone the time would depend on the machine */
    }
    bool leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
    if (*word || y < 1970 || mo < 1 || mo > 12 || d < 1 || h > 23 || mi > 59 || s > 59 ||
        zone_h > 15 || zone_m > 59 || d > days[mo - 1] + (mo == 2 && leap)) {
        return false;
    }
    int64_t zone = (zone_h * 60 + zone_m) * 60 * (sign == '-' ? -1 : 1);
    *us = (text_days(y, mo, d) * 86400 + h * 3600 + mi * 60 + s - zone) * 1000000 + fraction;
    return true;
}

char *text_age(char buf[TEXT_AGE], int64_t ms)
{
    int64_t s = ms / 1000;
    if (ms < 0) {
        snprintf(buf, TEXT_AGE, "0ms");
    } else if (ms < 1000) {
        snprintf(buf, TEXT_AGE, "%" PRId64 "ms", ms);
    } else if (s < 60) {
        snprintf(buf, TEXT_AGE, "%" PRId64 "s", s);
    } else if (s < 3600) {
        snprintf(buf, TEXT_AGE, "%" PRId64 "m%02" PRId64 "s", s / 60, s % 60);
    } else if (s < 86400) {
        snprintf(buf, TEXT_AGE, "%" PRId64 "h%02" PRId64 "m", s / 3600, s / 60 % 60);
    } else {
        snprintf(buf, TEXT_AGE, "%" PRId64 "d%02" PRId64 "h", s / 86400, s / 3600 % 24);
    }
    return buf;
}

char *text_time(char buf[TEXT_TIME], int64_t us)
{
    int64_t rest = us % 1000000;
    time_t s = (time_t)(us / 1000000 - (rest < 0));
    if (rest < 0) rest += 1000000;
    struct tm tm;
    char day[16];
    if (!gmtime_r(&s, &tm) || strftime(day, sizeof day, "%m-%dT%H:%M:%S", &tm) == 0) day[0] = '\0';
    int year =
        day[0] != '\0' ? tm.tm_year + 1900 : 0; /* at least four digits, also before the year 1 */
    snprintf(buf, TEXT_TIME, "%0*d-%s.%06dZ", year < 0 ? 5 : 4, year, day, (int)rest);
    return buf;
}

size_t text_utf8_char(const unsigned char *s, size_t n)
{
    if (n == 0) return 0;
    if (s[0] < 0x80) return 1;
    size_t size = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4 || n < size) return 0;
    /* the range of the second byte excludes overlong forms, surrogates and values over U+10FFFF */
    unsigned char low = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char high = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;
    if (s[1] < low || s[1] > high) return 0;
    for (size_t i = 2; i < size; i++) {
        if (s[i] < 0x80 || s[i] > 0xbf) return 0;
    }
    return size;
}

size_t text_utf8_span(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n) {
        size_t step = text_utf8_char((const unsigned char *)s + i, n - i);
        if (step == 0) return i;
        i += step;
    }
    return n;
}

/* Category Cf of Unicode, separators of lines and paragraphs, and blank letters. Two names that
 * differ by such a character look the same, and a direction mark reverses the rest of the line. */
static bool text_is_unseen(uint32_t c)
{
    static const uint32_t ranges[][2] = {
        {0x00, 0x1f},       {0x7f, 0x9f},       {0xad, 0xad},       {0x34f, 0x34f},
        {0x600, 0x605},     {0x61c, 0x61c},     {0x6dd, 0x6dd},     {0x70f, 0x70f},
        {0x890, 0x891},     {0x8e2, 0x8e2},     {0x115f, 0x1160},   {0x17b4, 0x17b5},
        {0x180b, 0x180f},   {0x200b, 0x200f},   {0x2028, 0x202e},   {0x2060, 0x206f},
        {0x3164, 0x3164},   {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0},
        {0xfff0, 0xfffb},   {0x110bd, 0x110bd}, {0x110cd, 0x110cd}, {0x13430, 0x1343f},
        {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        if (c >= ranges[i][0] && c <= ranges[i][1]) return true;
    }
    return false;
}

uint32_t text_unseen(size_t *step, const char *s, size_t n)
{
    static const unsigned char mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    size_t size = text_utf8_char((const unsigned char *)s, n);
    *step = size ? size : 1;
    if (size == 0) return 0xfffd;
    uint32_t c = (unsigned char)s[0] & mask[size];
    for (size_t i = 1; i < size; i++) c = c << 6 | ((unsigned char)s[i] & 0x3f);
    if (c == 0xfffd) return 0;
    return text_is_unseen(c) ? c : 0;
}

const char *text_escape(char buf[TEXT_ESCAPE], size_t *step, const char *s, size_t n)
{
    uint32_t c = text_unseen(step, s, n);
    buf[0] = '\0';
    if (c == 0 && *s) return buf;
    if (*step == 1) {
        snprintf(buf, TEXT_ESCAPE, "\\x%02x", (unsigned char)*s);
    } else {
        snprintf(buf, TEXT_ESCAPE, c > 0xffff ? "\\U%08x" : "\\u%04x", (unsigned)c);
    }
    return buf;
}

char *text_where(char buf[TEXT_WHERE], const char *s, size_t n, size_t at)
{
    size_t line = 1, column = 1, step;
    for (size_t i = 0; i < at; i += step) {
        step = text_utf8_char((const unsigned char *)s + i, n - i);
        if (step == 0) step = 1;
        column++;
        if (s[i] == '\n') line++, column = 1;
    }
    if (memchr(s, '\n', n)) {
        snprintf(buf, TEXT_WHERE, "line %zu, column %zu", line, column);
    } else {
        snprintf(buf, TEXT_WHERE, "column %zu", column);
    }
    return buf;
}

int64_t text_now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Counts while the machine is suspended, as leases do. The library uses the same clock. */
#ifdef __linux__
#define TEXT_CLOCK CLOCK_BOOTTIME
#else
#define TEXT_CLOCK CLOCK_MONOTONIC
#endif

int64_t text_tick_ms(void)
{
    struct timespec t;
    clock_gettime(TEXT_CLOCK, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void text_ratio(char *buf, size_t size, int part, int whole)
{
    int used = snprintf(buf, size, "%d", part);
    if (whole > 0) snprintf(buf + used, size - (size_t)used, "/%d", whole);
}
