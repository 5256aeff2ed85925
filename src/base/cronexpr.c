/* cronexpr: recursive descent over one line. Each function starts before its input, and leaves the
 * cursor after it. The first fault stays. */
#include "base/cronexpr.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct cronexpr_kind {
    const char *name;
    int least, most;          /* 7 is Sunday as well as 0 */
    const char *const *names; /* the first one for `least`; three letters do */
    const char *values;
    int size; /* of the circle that a range may go around */
} cronexpr_kind;

enum { SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY, FIELDS };

static const char *const cronexpr_months[] = {
    "january", "february",  "march",   "april",    "may",      "june", "july",
    "august",  "september", "october", "november", "december", NULL};
static const char *const cronexpr_weekdays[] = {"sunday",   "monday", "tuesday",  "wednesday",
                                                "thursday", "friday", "saturday", NULL};

static const cronexpr_kind cronexpr_kinds[FIELDS] = {
    [SECOND] = {"second", 0, 59, NULL, "0..59", 60},
    [MINUTE] = {"minute", 0, 59, NULL, "0..59", 60},
    [HOUR] = {"hour", 0, 23, NULL, "0..23", 24},
    [DAY] = {"day of month", 1, 31, NULL, "1..31", 31},
    [MONTH] = {"month", 1, 12, cronexpr_months, "1..12 or jan..dec", 12},
    [WEEKDAY] = {"weekday", 0, 7, cronexpr_weekdays, "0..7 or sun..sat", 7},
};

typedef struct cronexpr_reader {
    const char *text, *p;
    const char *where; /* the field's name, or NULL */
    pgw__cronexpr_fault *fault;
    bool failed;
    bool special;  /* there was one of L, W and # */
    uint32_t near; /* days with a W */
} cronexpr_reader;

static bool cronexpr_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool cronexpr_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char cronexpr_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool cronexpr_is_word(char c)
{
    return cronexpr_is_digit(c) || (cronexpr_lower(c) >= 'a' && cronexpr_lower(c) <= 'z');
}

static size_t cronexpr_word(const char *p)
{
    size_t n = 0;

    while (cronexpr_is_word(p[n])) n++;
    return n;
}

/* A byte of a UTF-8 character that is not its first. */
static bool cronexpr_continues(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* ---- faults ---- */

/* The text at p, for humans; at most 20 characters of a word. */
static void cronexpr_found(char out[32], const char *p)
{
    size_t n = (*p == '@') + cronexpr_word(p + (*p == '@'));

    if ((unsigned char)*p >= 0x80) {
        snprintf(out, 32, "a character beyond ASCII");
    } else if ((unsigned char)*p < 0x20 || *p == 0x7f) {
        snprintf(out, 32, "a control character");
    } else {
        snprintf(out, 32, "\"%.*s\"", n == 0 ? 1 : n > 20 ? 20 : (int)n, p);
    }
}

static void cronexpr_expect(cronexpr_reader *r, const char *at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void cronexpr_expect(cronexpr_reader *r, const char *at, const char *fmt, ...)
{
    pgw__cronexpr_fault *f = r->fault;
    char found[32], expected[100];
    va_list args;

    if (r->failed) return;
    r->failed = true;
    va_start(args, fmt);
    vsnprintf(expected, sizeof(expected), fmt, args);
    va_end(args);
    cronexpr_found(found, at);
    f->at = 1;
    for (const char *p = r->text; p < at; p++) f->at += !cronexpr_continues(*p);
    if (*at == '\0') {
        snprintf(f->text, sizeof(f->text), "%s%s ends at column %d: expected %s",
                 r->where != NULL ? r->where : "cron expression", r->where != NULL ? " field" : "",
                 f->at, expected);
    } else {
        snprintf(f->text, sizeof(f->text), "%s%scolumn %d: expected %s, got %s",
                 r->where != NULL ? r->where : "", r->where != NULL ? " field, " : "", f->at,
                 expected, found);
    }
}

/* ---- fields ---- */

/* Nine digits at most, else -1. */
static int cronexpr_number(const char *p, size_t n)
{
    int v = 0;

    if (n == 0 || n > 9) return -1;
    for (size_t i = 0; i < n; i++) {
        if (!cronexpr_is_digit(p[i])) return -1;
        v = v * 10 + (p[i] - '0');
    }
    return v;
}

static bool cronexpr_is(const char *p, size_t n, const char *name)
{
    if (strlen(name) != n) return false;
    for (size_t i = 0; i < n; i++)
        if (cronexpr_lower(p[i]) != name[i]) return false;
    return true;
}

/* -1: it is none of the kind's names. */
static int cronexpr_named(const cronexpr_kind *kind, const char *p, size_t n)
{
    char shortened[4] = "";

    for (int i = 0; kind->names != NULL && kind->names[i] != NULL; i++) {
        memcpy(shortened, kind->names[i], 3);
        if (cronexpr_is(p, n, kind->names[i]) || cronexpr_is(p, n, shortened))
            return kind->least + i;
    }
    return -1;
}

/* A name or a number; -1: neither, or out of range. */
static int cronexpr_known(const cronexpr_kind *kind, const char *p, size_t n)
{
    int v = cronexpr_named(kind, p, n);

    if (v < 0) v = cronexpr_number(p, n);
    return v < kind->least || v > kind->most ? -1 : v;
}

static int cronexpr_value(cronexpr_reader *r, const cronexpr_kind *kind, const char *or_else)
{
    const size_t n = cronexpr_word(r->p);
    const int v = cronexpr_known(kind, r->p, n);

    if (v < 0) {
        cronexpr_expect(r, r->p, "%s%s", or_else, kind->values);
        return 0;
    }
    r->p += n;
    return v;
}

/* L, LW, nW: a bit of the day's set, or a day in `near`. */
static uint64_t cronexpr_special_day(cronexpr_reader *r, size_t n)
{
    int v;

    if (cronexpr_is(r->p, n, "l")) return PGW__CRONEXPR_LAST_DAY;
    if (cronexpr_is(r->p, n, "lw")) return PGW__CRONEXPR_LAST_WORKDAY;
    if (n < 2 || cronexpr_lower(r->p[n - 1]) != 'w') return 0;
    v = cronexpr_number(r->p, n - 1);
    if (v < 1 || v > 31) return 0;
    r->near |= UINT32_C(1) << v;
    return UINT64_C(1) << 63; /* not of the set */
}

/* nL, n#k: a bit of the weekday's set. */
static uint64_t cronexpr_special_weekday(cronexpr_reader *r, size_t *n)
{
    const cronexpr_kind *kind = &cronexpr_kinds[WEEKDAY];
    int v = cronexpr_known(kind, r->p, *n);

    if (v >= 0 && r->p[*n] == '#') {
        const char *k = r->p + *n + 1;

        if (cronexpr_word(k) != 1 || *k < '1' || *k > '5') {
            cronexpr_expect(r, k, "1..5");
            return 0;
        }
        *n += 2;
        return UINT64_C(1) << (7 * (*k - '0') + v % 7);
    }
    if (v >= 0 || *n < 2 || cronexpr_lower(r->p[*n - 1]) != 'l') return 0;
    v = cronexpr_known(kind, r->p, *n - 1);
    return v < 0 ? 0 : UINT64_C(1) << (PGW__CRONEXPR_LAST_WEEKDAY + v % 7);
}

/* 0: it is none. */
static uint64_t cronexpr_special(cronexpr_reader *r, const cronexpr_kind *kind)
{
    size_t n = cronexpr_word(r->p);
    uint64_t bits = 0;

    if (kind == &cronexpr_kinds[DAY]) bits = cronexpr_special_day(r, n);
    if (kind == &cronexpr_kinds[WEEKDAY]) bits = cronexpr_special_weekday(r, &n);
    if (bits == 0) return 0;
    r->p += n;
    r->special = true;
    return bits;
}

/* n | n-n | * , each with a step or without */
static uint64_t cronexpr_range(cronexpr_reader *r, const cronexpr_kind *kind)
{
    const int most = kind == &cronexpr_kinds[WEEKDAY] ? 6 : kind->most;
    int from = kind->least, to = most, step = 1;
    uint64_t bits = 0;

    if (*r->p == '*') {
        r->p++;
    } else {
        to = from = cronexpr_value(r, kind, "* or ");
        if (!r->failed && *r->p == '-') {
            r->p++;
            to = cronexpr_value(r, kind, "");
        } else if (!r->failed && *r->p == '/' && most > from) {
            to = most;
        }
    }
    if (!r->failed && *r->p == '/') {
        const size_t n = cronexpr_word(++r->p);

        step = cronexpr_number(r->p, n);
        if (step < 1 || step > kind->most) cronexpr_expect(r, r->p, "a step of 1..%d", kind->most);
        r->p += n;
    }
    if (r->failed) return 0;
    if (to < from) to += kind->size;
    for (int v = from; v <= to; v += step)
        bits |= UINT64_C(1) << (kind->least + (v - kind->least) % kind->size);
    return bits;
}

static uint64_t cronexpr_item(cronexpr_reader *r, const cronexpr_kind *kind)
{
    uint64_t bits = cronexpr_special(r, kind);

    if (bits == 0 && !r->failed) bits = cronexpr_range(r, kind);
    if (r->failed) return 0;
    if (*r->p != '\0' && *r->p != ',' && !cronexpr_is_blank(*r->p)) {
        cronexpr_expect(r, r->p, ", or the field's end");
        return 0;
    }
    return bits & ~(UINT64_C(1) << 63);
}

static uint64_t cronexpr_field(cronexpr_reader *r, int which, bool *star)
{
    const cronexpr_kind *kind = &cronexpr_kinds[which];
    uint64_t bits = 0;

    r->where = kind->name;
    *star = *r->p == '*';
    for (;;) {
        bits |= cronexpr_item(r, kind);
        if (r->failed || *r->p != ',') break;
        r->p++;
    }
    while (cronexpr_is_blank(*r->p)) r->p++;
    return bits;
}

/* Fields from p on; *extra: where the seventh begins. */
static int cronexpr_count(const char *p, const char **extra)
{
    int n = 0;

    while (*p != '\0') {
        if (n++ == FIELDS) *extra = p;
        while (*p != '\0' && !cronexpr_is_blank(*p)) p++;
        while (cronexpr_is_blank(*p)) p++;
    }
    return n;
}

/* A schedule without a tick is a mistake: none of its days is in any of its months. */
static bool cronexpr_comes(const pgw__cronexpr *e)
{
    const uint64_t every_month = 0x3ffffffe; /* days 1..29: February has leap years */
    const uint64_t last = PGW__CRONEXPR_LAST_DAY | PGW__CRONEXPR_LAST_WORKDAY;
    const uint32_t february = 1u << 2, long_months = 0x15aa;
    const uint64_t day = e->day | e->near;

    if (!e->any_day && !e->any_weekday) return true; /* a weekday matches */
    return (day & (every_month | last)) != 0 ||
           ((day & 1u << 30) != 0 && (e->month & ~february) != 0) ||
           ((day & UINT64_C(1) << 31) != 0 && (e->month & long_months) != 0);
}

static void cronexpr_fields(cronexpr_reader *r, pgw__cronexpr *out)
{
    const char *extra = NULL, *day;
    const int n = cronexpr_count(r->p, &extra);
    bool second, minute, hour, month;

    if (n < FIELDS - 1) {
        cronexpr_expect(r, r->text + strlen(r->text), "5 or 6 fields, got %d", n);
        return;
    }
    if (extra != NULL) {
        cronexpr_expect(r, extra, "the end: 5 or 6 fields, got %d", n);
        return;
    }
    out->second = n == FIELDS ? cronexpr_field(r, SECOND, &second) : 1;
    out->minute = cronexpr_field(r, MINUTE, &minute);
    out->hour = (uint32_t)cronexpr_field(r, HOUR, &hour);
    day = r->p;
    out->day = cronexpr_field(r, DAY, &out->any_day);
    out->month = (uint32_t)cronexpr_field(r, MONTH, &month);
    out->weekday = cronexpr_field(r, WEEKDAY, &out->any_weekday);
    out->near = r->near;
    out->special = r->special;
    out->wild = minute || hour;
    if (!r->failed && !cronexpr_comes(out)) {
        r->where = cronexpr_kinds[DAY].name;
        cronexpr_expect(r, day, "a day that one of these months has");
    }
}

/* ---- @names ---- */

/* 1h30m: numbers with a unit each. */
static int64_t cronexpr_duration(cronexpr_reader *r)
{
    const char *begin = r->p;
    int64_t total = 0;

    do {
        size_t n = 0;
        int64_t unit = 0;

        while (cronexpr_is_digit(r->p[n])) n++;
        if (n > 0 && n <= 9) {
            switch (cronexpr_lower(r->p[n])) {
            case 's': unit = 1; break;
            case 'm': unit = 60; break;
            case 'h': unit = 3600; break;
            case 'd': unit = 86400; break;
            case 'w': unit = 604800; break;
            default: break;
            }
        }
        if (unit == 0) {
            cronexpr_expect(r, r->p, "a time such as 90s, 1h30m or 2d");
            return 0;
        }
        total += cronexpr_number(r->p, n) * unit;
        r->p += n + 1;
    } while (*r->p != '\0' && !cronexpr_is_blank(*r->p));
    if (total < 1 || total > PGW__CRONEXPR_EVERY) cronexpr_expect(r, begin, "1s..366d");
    return total;
}

static void cronexpr_at_name(cronexpr_reader *r, pgw__cronexpr *out)
{
    static const struct {
        const char *name, *fields;
    } names[] = {
        {"yearly", "0 0 1 1 *"}, {"annually", "0 0 1 1 *"}, {"monthly", "0 0 1 * *"},
        {"weekly", "0 0 * * 0"}, {"daily", "0 0 * * *"},    {"midnight", "0 0 * * *"},
        {"hourly", "0 * * * *"},
    };
    const char *name = r->p + 1;
    const size_t n = cronexpr_word(name);
    const char *fields = NULL;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (cronexpr_is(name, n, names[i].name)) fields = names[i].fields;
    if (fields == NULL && !cronexpr_is(name, n, "every")) {
        cronexpr_expect(r, r->p, "@yearly @monthly @weekly @daily @hourly or @every");
        return;
    }
    r->p = name + n;
    if (fields == NULL) {
        while (cronexpr_is_blank(*r->p)) r->p++;
        out->every_s = cronexpr_duration(r);
    } else {
        cronexpr_reader own = {.text = fields, .p = fields, .fault = r->fault};

        cronexpr_fields(&own, out);
    }
    while (cronexpr_is_blank(*r->p)) r->p++;
    if (*r->p != '\0') cronexpr_expect(r, r->p, "the end");
}

bool pgw__cronexpr_parse(pgw__cronexpr *out, const char *text, pgw__cronexpr_fault *fault)
{
    cronexpr_reader r = {.text = text, .p = text, .fault = fault};

    memset(out, 0, sizeof(*out));
    memset(fault, 0, sizeof(*fault));
    if (strnlen(text, PGW__CRONEXPR_MAX + 1) > PGW__CRONEXPR_MAX) {
        const char *at = text + PGW__CRONEXPR_MAX;

        while (at > text && cronexpr_continues(*at)) at--; /* the first character too many */
        cronexpr_expect(&r, at, "the end: %d bytes are the limit", PGW__CRONEXPR_MAX);
    } else {
        while (cronexpr_is_blank(*r.p)) r.p++;
        if (*r.p == '@')
            cronexpr_at_name(&r, out);
        else
            cronexpr_fields(&r, out);
    }
    if (r.failed) memset(out, 0, sizeof(*out));
    return !r.failed;
}
