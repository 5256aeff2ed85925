/* When expressions come: the server's pgwork.cron_next() against an oracle that knows nothing of
 * how it is computed. The oracle walks through time minute by minute (second by second where
 * seconds matter) with the server's own conversions, and applies the two rules to what the clock
 * shows.
 *
 * PGW_TEST_CRON_YEARS="1970 2100" walks around the changes of those years instead of 2026 and 2027.
 * Of zones that change alike at one instant, one is taken; "1970 2100 all" takes each. */
#include "unity.h"
#include "pgw_all.h"
#include "pgtemp.h"

#if __has_include(<libpq-fe.h>)
#include <libpq-fe.h>
#else
#include <postgresql/libpq-fe.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MINUTE 60
#define DAY    86400

void setUp(void)
{
    pgtemp_migrate();
}
void tearDown(void) {}

static PGresult *ask(const char *sql, int n, const char *const *values)
{
    PGresult *r = PQexecParams(pgtemp_conn(), sql, n, NULL, values, NULL, NULL, 0);

    if (PQresultStatus(r) != PGRES_TUPLES_OK) TEST_FAIL_MESSAGE(PQresultErrorMessage(r));
    return r;
}

/* ---- the oracle ---- */

typedef struct civil {
    int year, month, day, weekday, hour, minute, second;
} civil;

/* The parts of a local time, given in seconds since 1970 as if it were UTC: days are counted off
 * year by year and month by month, as on a calendar on the wall. */
static civil civil_from(long long local)
{
    static const int length[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    long long days = local / DAY, rest = local % DAY;
    civil c = {.year = 1970, .month = 1};

    if (rest < 0) rest += DAY, days--;
    c.weekday = (int)(((days + 4) % 7 + 7) % 7); /* a Thursday */
    c.hour = (int)(rest / 3600), c.minute = (int)(rest / 60 % 60), c.second = (int)(rest % 60);
    for (;;) {
        const int leap = (c.year % 4 == 0 && c.year % 100 != 0) || c.year % 400 == 0;
        const int month = length[c.month - 1] + (c.month == 2 && leap);

        if (c.month == 1 && days < 0) {
            const int last = c.year - 1;

            c.year = last;
            days += 365 + ((last % 4 == 0 && last % 100 != 0) || last % 400 == 0);
        } else if (c.month == 1 && days >= 365 + leap) {
            days -= 365 + leap, c.year++;
        } else if (days >= month) {
            days -= month, c.month++;
        } else {
            break;
        }
    }
    c.day = (int)days + 1;
    return c;
}

static bool matches(const pgw__cronexpr *e, const civil *c)
{
    const bool day = e->day >> c->day & 1, weekday = e->weekday >> c->weekday & 1;

    return (e->second >> c->second & 1) && (e->minute >> c->minute & 1) &&
           (e->hour >> c->hour & 1) && (e->month >> c->month & 1) &&
           (e->any_day || e->any_weekday ? day && weekday : day || weekday);
}

/* Does it come at this step? Wild: what is shown matches. Fixed: a match lies between the highest
 * time shown so far and what is shown now. */
static bool comes(const pgw__cronexpr *e, long long highest, long long shown, int step)
{
    if (e->wild) {
        const civil c = civil_from(shown);

        return matches(e, &c);
    }
    for (long long l = highest + step; l <= shown; l += step) {
        const civil c = civil_from(l);

        if (matches(e, &c)) return true;
    }
    return false;
}

/* Civil times of a window are looked at many times: made once. */
typedef struct shown_time {
    long long local;
    civil c;
} shown_time;

/* All times of the expression in [from, to) by the oracle. Returns how many. */
static size_t walk(const pgw__cronexpr *e, const shown_time *shown, size_t n, long long from,
                   int step, long long *out, size_t size)
{
    long long highest = shown[0].local;
    size_t found = 0;

    /* The first step only says where the clock stands. */
    for (size_t i = 1; i < n; i++) {
        const bool hit = shown[i].local == highest + step || e->wild
                             ? (e->wild || shown[i].local > highest) && matches(e, &shown[i].c)
                             : comes(e, highest, shown[i].local, step);

        if (hit) {
            TEST_ASSERT_TRUE(found < size);
            out[found++] = from + (long long)i * step;
        }
        if (shown[i].local > highest) highest = shown[i].local;
    }
    return found;
}

/* ---- around one change ---- */

static size_t compared;

static void compare(const char *zone, const char *expression, const shown_time *shown, size_t n,
                    long long from, int step, const PGresult *r, int row)
{
    static long long expected[200000];
    pgw__cronexpr e;
    pgw__cronexpr_fault fault;
    const char *p = PQgetvalue(r, row, 1);
    char message[300];
    size_t count;

    TEST_ASSERT_TRUE_MESSAGE(pgw__cronexpr_parse(&e, expression, &fault), fault.text);
    count = walk(&e, shown, n, from, step, expected, sizeof(expected) / sizeof(expected[0]));
    for (size_t i = 0; i < count; i++, compared++) {
        char *end;
        const long long got = strtoll(p, &end, 10);

        if (end == p || got != expected[i]) {
            snprintf(message, sizeof(message), "%s in %s: expected %lld, the server says %.20s",
                     expression, zone, expected[i], p);
            TEST_FAIL_MESSAGE(message);
        }
        p = *end == ' ' ? end + 1 : end;
    }
    snprintf(message, sizeof(message), "%s in %s: the server has one more: %.20s", expression, zone,
             p);
    TEST_ASSERT_EQUAL_STRING_MESSAGE("", p, message);
}

/* Compares some expressions (an array of PostgreSQL, and the same in C) in [from, from + n * step).
 */
static void compare_window(const char *zone, long long from, size_t n, int step,
                           const char *const *expressions, size_t expressions_count)
{
    static shown_time shown[400000];
    char array[4000] = "{", begin[32], count[32], pace[32];
    const char *const times[] = {zone, begin, count, pace};
    const char *const lists[] = {zone, begin, count, pace, array};
    PGresult *r;
    const char *p;

    TEST_ASSERT_TRUE(n <= sizeof(shown) / sizeof(shown[0]));
    snprintf(begin, sizeof(begin), "%lld", from);
    snprintf(count, sizeof(count), "%zu", n);
    snprintf(pace, sizeof(pace), "%d", step);
    r = ask("SELECT string_agg(extract(epoch FROM to_timestamp($2::bigint + i * $4::int) AT TIME "
            "ZONE $1)::bigint::text, ' ' ORDER BY i) "
            "FROM generate_series(0, $3::int - 1) i",
            4, times);
    p = PQgetvalue(r, 0, 0);
    for (size_t i = 0; i < n; i++) {
        char *end;

        shown[i].local = strtoll(p, &end, 10);
        shown[i].c = civil_from(shown[i].local);
        p = end;
    }
    PQclear(r);
    for (size_t i = 0; i < expressions_count; i++)
        sprintf(array + strlen(array), "%s\"%s\"", i > 0 ? "," : "", expressions[i]);
    strcat(array, "}");
    r = ask("SELECT i, coalesce((WITH RECURSIVE t (at) AS (SELECT pgwork._cron_after(e, $1, "
            "to_timestamp($2::bigint), to_timestamp(0)) "
            "UNION ALL SELECT pgwork._cron_after(e, $1, t.at, to_timestamp(0)) FROM t WHERE t.at < "
            "to_timestamp($2::bigint + $3::bigint * $4::int)) "
            "SELECT string_agg(extract(epoch FROM at)::bigint::text, ' ' ORDER BY at) FROM t WHERE "
            "at < to_timestamp($2::bigint + $3::bigint * $4::int)), '') "
            "FROM (SELECT i, pgwork._cron_parse(x) AS e FROM unnest($5::text[]) WITH ORDINALITY u "
            "(x, i) OFFSET 0) p ORDER BY i",
            5, lists);
    TEST_ASSERT_EQUAL_INT((int)expressions_count, PQntuples(r));
    for (size_t i = 0; i < expressions_count; i++)
        compare(zone, expressions[i], shown, n, from, step, r, (int)i);
    PQclear(r);
}

/* ---- every change ---- */

static uint64_t state = 88172645463325252;

static int draw(int least, int most)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return least + (int)((uint32_t)(state >> 32) % (uint32_t)(most - least + 1));
}

static size_t draw_field(char *out, int least, int most, bool rare)
{
    const int a = draw(least, most), b = draw(least, most);

    switch (draw(0, rare ? 4 : 6)) {
    case 0: return (size_t)sprintf(out, "%d ", a);
    case 1: return (size_t)sprintf(out, "%d,%d ", a, b);
    case 2: return (size_t)sprintf(out, "%d-%d ", a < b ? a : b, a < b ? b : a);
    case 3: return (size_t)sprintf(out, "%d-%d/%d ", a < b ? a : b, a < b ? b : a, draw(1, most));
    case 4: return (size_t)sprintf(out, "*/%d ", draw(1, most));
    default: return (size_t)sprintf(out, "* ");
    }
}

/* An expression whose hours lie near the usual changes more often than not. */
static void draw_expression(char *out)
{
    size_t n = 0;

    if (draw(0, 2) > 0) {
        n += draw_field(out, 0, 59, true);
        n += (size_t)sprintf(out + n, draw(0, 1) ? "%d " : "%d,23 ", draw(0, 3));
    } else {
        n += draw_field(out, 0, 59, false);
        n += draw_field(out + n, 0, 23, false);
    }
    n += draw(0, 2) > 0 ? (size_t)sprintf(out + n, "* ") : draw_field(out + n, 1, 28, false);
    n += (size_t)sprintf(out + n, "* ");
    n += draw(0, 2) > 0 ? (size_t)sprintf(out + n, "* ") : draw_field(out + n, 0, 7, false);
    out[n - 1] = '\0';
}

void test_every_change_of_every_zone(void)
{
    static const char *const fixed[] = {
        "30 2 * * *",   "0 2 * * *",     "0 3 * * *",      "15,45 0-3 * * *", "0 0 * * *",
        "59 1 * * *",   "0 1,2,3 * * *", "*/15 * * * *",   "0 * * * *",       "*/20 1-3 * * *",
        "30 */2 * * *", "10 12 1 * 1",   "*/30 0 */2 * *", "0 0-23 * * *",    "17 23 * * 0,6",
    };
    const size_t kept = sizeof(fixed) / sizeof(fixed[0]);
    const char *years = getenv("PGW_TEST_CRON_YEARS");
    int first = 2026, last = 2028, changes;
    char from[16], to[16];
    char which[4] = "one";
    const char *const bounds[] = {from, to, which};
    PGresult *r;

    if (years != NULL) TEST_ASSERT_TRUE(sscanf(years, "%d %d %3s", &first, &last, which) >= 2);
    snprintf(from, sizeof(from), "%d-01-01", first);
    snprintf(to, sizeof(to), "%d-01-01", last);
    compared = 0;
    /* Offsets with seconds (Monrovia until 1972) are for the test below: here, steps are minutes.
     * The hour of each change, found by looking once a day and then once an hour. */
    r = ask("WITH z AS (SELECT name FROM pg_timezone_names WHERE name !~ '^(posix|right)/'), "
            "d AS (SELECT z.name, d FROM z, generate_series($1::timestamp AT TIME ZONE 'UTC', "
            "$2::timestamp AT TIME ZONE 'UTC', interval '1 day') d "
            "WHERE (d AT TIME ZONE z.name) - (d AT TIME ZONE 'UTC') <> ((d + interval '24 h') AT "
            "TIME ZONE z.name) - ((d + interval '24 h') AT TIME ZONE 'UTC')), "
            "c AS (SELECT d.name, min(h) AS h, (d AT TIME ZONE name) - (d AT TIME ZONE 'UTC') AS "
            "was, ((d + interval '24 h') AT TIME ZONE name) - ((d + interval '24 h') AT TIME ZONE "
            "'UTC') AS is_now "
            "FROM d, generate_series(d, d + interval '24 h', interval '30 min') h "
            "WHERE (h AT TIME ZONE d.name) - (h AT TIME ZONE 'UTC') <> (d AT TIME ZONE d.name) - "
            "(d AT TIME ZONE 'UTC') GROUP BY d.name, d) "
            "SELECT min(name), extract(epoch FROM h)::bigint FROM c "
            "WHERE extract(second FROM was) = 0 AND extract(second FROM is_now) = 0 GROUP BY h, "
            "was, is_now, CASE $3 WHEN 'all' THEN name END ORDER BY 2, 1",
            3, bounds);
    changes = PQntuples(r);
    TEST_ASSERT_TRUE(changes > 100);
    for (int i = 0; i < changes; i++) {
        const char *list[sizeof(fixed) / sizeof(fixed[0]) + 10];
        char drawn[10][64];

        for (size_t k = 0; k < kept; k++) list[k] = fixed[k];
        for (size_t k = 0; k < 10; k++) {
            draw_expression(drawn[k]);
            list[kept + k] = drawn[k];
        }
        compare_window(PQgetvalue(r, i, 0),
                       strtoll(PQgetvalue(r, i, 1), NULL, 10) / DAY * DAY - DAY, 3 * DAY / MINUTE,
                       MINUTE, list, kept + 10);
    }
    PQclear(r);
    printf("%d changes, %zu times compared\n", changes, compared);
    TEST_ASSERT_TRUE(compared > 100000);
}

void test_expressions_with_seconds_agree_with_the_oracle_around_changes(void)
{
    static const char *const expressions[] = {
        "0 30 2 * * *", "*/7 * * * * *", "30 * 2 * * *",   "15,45 59 1 * * *", "0 0 * * * *",
        "* 0 0 * * *",  "* 1 2 * * *",   "59 59 23 * * *", "30 0 0 7 1 *",     "* 44,45 * * * *",
    };
    static const struct {
        const char *zone;
        long long at;
    } changes[] = {
        {"Europe/Berlin", 1774746000},       {"Europe/Berlin", 1792890000},
        {"Australia/Lord_Howe", 1775314800}, {"Australia/Lord_Howe", 1791037800},
        {"Africa/Monrovia", 63593070},       {"America/New_York", 1793512800},
        {"Africa/Casablanca", 1771120800},   {"Africa/Casablanca", 1774144800},
        {"Asia/Kathmandu", 504901800},       {"Pacific/Apia", 1325239200},
    };

    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
        compare_window(changes[i].zone, changes[i].at - 3 * 3600, 6 * 3600, 1, expressions,
                       sizeof(expressions) / sizeof(expressions[0]));
}

void test_days_agree_with_the_oracle_over_years(void)
{
    static const char *const expressions[] = {
        "0 0 29 2 *", "0 12 31 * *",   "0 0 29 2 1",      "0 0 13 * 5",    "30 6 */2 * 1-5",
        "0 0 1 1 *",  "30 4 29 2 */3", "0 0 30 1-12/5 *", "0 0 1-7 * */7", "0 0 31 * 0",
    };
    static const char *const zones[] = {"UTC", "Europe/Berlin", "Asia/Kathmandu", "Pacific/Apia"};

    /* By the quarter, as all of them are. The years around 2000, 2038 and 2100. */
    for (size_t z = 0; z < sizeof(zones) / sizeof(zones[0]); z++) {
        static const long long from[] = {915148800, 2082758400, 4070908800};

        for (size_t i = 0; i < sizeof(from) / sizeof(from[0]); i++)
            compare_window(zones[z], from[i], 366 * 4 * 96, 900, expressions,
                           sizeof(expressions) / sizeof(expressions[0]));
    }
}

/* ---- what the documentation says ---- */

static void times(const char *expression, const char *zone, const char *after, const char *expected)
{
    const char *const values[] = {expression, zone, after};
    PGresult *r = ask("SELECT string_agg(local, ', ') FROM (SELECT substring(local FROM 5) AS "
                      "local FROM pgwork.cron_times($1, $2, 3, $3::timestamp AT TIME ZONE $2)) t",
                      3, values);

    TEST_ASSERT_EQUAL_STRING_MESSAGE(expected, PQgetvalue(r, 0, 0), expression);
    PQclear(r);
}

void test_the_table_of_the_documentation(void)
{
    times("30 2 * * *", "Europe/Berlin", "2026-03-28 12:00",
          "2026-03-29 03:00:00 +02:00, 2026-03-30 02:30:00 +02:00, 2026-03-31 02:30:00 +02:00");
    times("30 2 * * *", "Europe/Berlin", "2026-10-24 12:00",
          "2026-10-25 02:30:00 +02:00, 2026-10-26 02:30:00 +01:00, 2026-10-27 02:30:00 +01:00");
    times("0 * * * *", "Europe/Berlin", "2026-03-29 01:00",
          "2026-03-29 03:00:00 +02:00, 2026-03-29 04:00:00 +02:00, 2026-03-29 05:00:00 +02:00");
    times("0 * * * *", "Europe/Berlin", "2026-10-25 01:00",
          "2026-10-25 02:00:00 +02:00, 2026-10-25 02:00:00 +01:00, 2026-10-25 03:00:00 +01:00");
    times("0 2,3 * * *", "Europe/Berlin", "2026-03-28 12:00",
          "2026-03-29 03:00:00 +02:00, 2026-03-30 02:00:00 +02:00, 2026-03-30 03:00:00 +02:00");
    times("0 12 * * *", "Pacific/Apia", "2011-12-29 11:00",
          "2011-12-29 12:00:00 -10:00, 2011-12-31 00:00:00 +14:00, 2011-12-31 12:00:00 +14:00");
    times("15 2 * * *", "Australia/Lord_Howe", "2026-10-03 12:00",
          "2026-10-04 02:30:00 +11:00, 2026-10-05 02:15:00 +11:00, 2026-10-06 02:15:00 +11:00");
}

/* Of 2026: 28 February is a Saturday, 1 August too, 31 May a Sunday, 1 November a Sunday. */
void test_days_by_their_position_in_the_month_are_found(void)
{
    times("0 0 L * *", "UTC", "2026-01-31 00:00",
          "2026-02-28 00:00:00 +00:00, 2026-03-31 00:00:00 +00:00, 2026-04-30 00:00:00 +00:00");
    times("0 0 LW 2,5,8 *", "UTC", "2026-01-31 00:00",
          "2026-02-27 00:00:00 +00:00, 2026-05-29 00:00:00 +00:00, 2026-08-31 00:00:00 +00:00");
    times("0 0 1W 8,11 *", "UTC", "2026-01-31 00:00",
          "2026-08-03 00:00:00 +00:00, 2026-11-02 00:00:00 +00:00, 2027-08-02 00:00:00 +00:00");
    times("0 0 31W 1,5 *", "UTC", "2026-01-01 00:00",
          "2026-01-30 00:00:00 +00:00, 2026-05-29 00:00:00 +00:00, 2027-01-29 00:00:00 +00:00");
    times("0 0 15W 2,3,8 *", "UTC", "2026-01-31 00:00",
          "2026-02-16 00:00:00 +00:00, 2026-03-16 00:00:00 +00:00, 2026-08-14 00:00:00 +00:00");
    times("0 0 * * fri#2", "UTC", "2026-01-01 00:00",
          "2026-01-09 00:00:00 +00:00, 2026-02-13 00:00:00 +00:00, 2026-03-13 00:00:00 +00:00");
    times("0 0 * * sun#5", "UTC", "2026-01-01 00:00",
          "2026-03-29 00:00:00 +00:00, 2026-05-31 00:00:00 +00:00, 2026-08-30 00:00:00 +00:00");
    times("0 0 * * friL", "UTC", "2026-01-01 00:00",
          "2026-01-30 00:00:00 +00:00, 2026-02-27 00:00:00 +00:00, 2026-03-27 00:00:00 +00:00");
}

void test_an_interval_keeps_its_phase(void)
{
    TEST_ASSERT_EQUAL_STRING("2026-01-01 00:01:30+00",
                             pgtemp_value("SELECT pgwork.cron_next('@every 90s', 'UTC', "
                                          "'2026-01-01 00:00 UTC') AT TIME ZONE 'UTC' || '+00'"));
    TEST_ASSERT_EQUAL_INT64(
        1, pgtemp_number(
               "SELECT count(DISTINCT extract(epoch FROM pgwork.cron_next('@every 90s', "
               "'Europe/Berlin', a, '2026-01-01 00:00:07 UTC'))::bigint % 90) "
               "FROM generate_series('2026-03-01 UTC'::timestamptz, '2026-11-01 UTC', '997 s') a"));
    TEST_ASSERT_EQUAL_INT64(
        0, pgtemp_number("SELECT count(*) FROM generate_series(-200, 200) i, LATERAL (SELECT "
                         "'2026-01-01 UTC'::timestamptz + i * interval '0.9 s' AS a) a, "
                         "LATERAL pgwork.cron_next('@every 7s', 'UTC', a, '2026-01-01 UTC') n "
                         "WHERE n <= a OR n > a + interval '7 s'"));
}

/* ---- two parsers, one meaning ---- */

/* Text near the grammar: pieces of it, in an order that is often right. */
static void draw_text(char *out)
{
    static const char *const pieces[] = {
        "*",          "*",        "0",     "5",        "59",   "60",  "7",     "1-5", "9-5",
        "/2",         "/0",       ",",     "-",        "mon",  "Fri", "jan",   "DEC", "monday",
        "31",         "30",       "29",    "2",        "4",    "L",   "?",     "#",   "@daily",
        "@every",     "90s",      "1h30m", "0s",       "400d", "@",   "\t",    " ",   "000000012",
        "0000000012", "\xc3\xa9", "1w",    "LW",       "15W",  "1w",  "fri#2", "0#5", "6L",
        "friL",       "fri-mon",  "5/15",  "Thursday",
    };
    size_t n = 0;

    out[0] = '\0';
    if (draw(0, 19) == 0) { /* around the limit, which may be within a character */
        const char *piece = pieces[draw(0, (int)(sizeof(pieces) / sizeof(pieces[0])) - 1)];

        for (const size_t most = (size_t)draw(250, 260); n < most;)
            n += (size_t)sprintf(out + n, "%s", piece);
        return;
    }
    if (draw(0, 1) == 0) {
        const int fields = draw(0, 9) == 0 ? draw(1, 8) : draw(5, 6);

        for (int i = fields; i > 0; i--) {
            const int from_right = i - 1; /* weekday is 0 */
            const int most = from_right == 0   ? 7
                             : from_right == 1 ? 12
                             : from_right == 2 ? 31
                             : from_right == 3 ? 23
                                               : 59;

            n += draw_field(out + n, from_right == 1 || from_right == 2 ? 1 : 0, most,
                            draw(0, 1) == 0);
        }
        if (n > 0 && draw(0, 5) > 0) out[--n] = '\0';
        if (n > 0 && draw(0, 3) == 0) out[draw(0, (int)n - 1)] = "*-/,5 7x"[draw(0, 7)];
        return;
    }
    for (int i = draw(0, 14); i > 0; i--) {
        n += (size_t)sprintf(out + n, "%s",
                             pieces[draw(0, (int)(sizeof(pieces) / sizeof(pieces[0])) - 1)]);
        if (draw(0, 1) == 0) n += (size_t)sprintf(out + n, " ");
    }
}

static void bits_text(char *out, uint64_t bits)
{
    for (int i = 0; i < 60; i++) out[i] = bits >> i & 1 ? '1' : '0';
    out[60] = '\0';
}

void test_both_parsers_agree(void)
{
    int read = 0, refused = 0;

    pgtemp_exec(
        "CREATE OR REPLACE FUNCTION pg_temp.reading(x text) RETURNS text LANGUAGE plpgsql AS $$ "
        "DECLARE e pgwork._cron; BEGIN e := pgwork._cron_parse(x); RETURN coalesce('every ' || "
        "e.every_s, "
        "concat_ws(' ', e.second, e.minute, e.hour, e.day, e.month, e.weekday, e.any_day, "
        "e.any_weekday, e.wild, e.near)); "
        "EXCEPTION WHEN SQLSTATE 'PW001' THEN RETURN substring(SQLERRM FROM '.*\": (.*)'); "
        "END $$");
    for (int i = 0; i < 20000; i++) {
        char text[400], mine[600];
        const char *const values[] = {text};
        pgw__cronexpr e;
        pgw__cronexpr_fault fault;
        PGresult *r;

        draw_text(text);
        if (!pgw__cronexpr_parse(&e, text, &fault)) {
            snprintf(mine, sizeof(mine), "%s", fault.text);
            refused++;
        } else if (e.every_s != 0) {
            snprintf(mine, sizeof(mine), "every %lld", (long long)e.every_s);
            read++;
        } else {
            char s[7][61];

            bits_text(s[0], e.second), bits_text(s[1], e.minute), bits_text(s[2], e.hour);
            bits_text(s[3], e.day), bits_text(s[4], e.month), bits_text(s[5], e.weekday);
            bits_text(s[6], e.near);
            snprintf(mine, sizeof(mine), "%s %s %s %s %s %s %c %c %c%s%s", s[0], s[1], s[2], s[3],
                     s[4], s[5], e.any_day ? 't' : 'f', e.any_weekday ? 't' : 'f',
                     e.wild ? 't' : 'f', e.special ? " " : "", e.special ? s[6] : "");
            read++;
        }
        r = ask("SELECT pg_temp.reading($1)", 1, values);
        TEST_ASSERT_EQUAL_STRING_MESSAGE(mine, PQgetvalue(r, 0, 0), text);
        PQclear(r);
    }
    TEST_ASSERT_TRUE(read > 3000 && refused > 3000);
}

/* In Turkish, a capital I is that of another letter. */
void test_no_collation_changes_what_capitals_mean(void)
{
    static const char *const texts[] = {"0 0 * * FRI", "0 0 * APR-DEC SUN,SAT", "@DAILY",
                                        "@MIDNIGHT", "@EVERY 1H30M"};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        char sql[300];

        snprintf(sql, sizeof(sql),
                 "SELECT (pgwork._cron_parse('%s' COLLATE \"tr-x-icu\") = "
                 "pgwork._cron_parse(lower('%s' COLLATE \"C\")))::int",
                 texts[i], texts[i]);
        TEST_ASSERT_EQUAL_INT64_MESSAGE(1, pgtemp_number(sql), texts[i]);
    }
    pgtemp_exec("SELECT pgwork.cron_create('s', '@daily', 'EUROPE/ISTANBUL' COLLATE \"tr-x-icu\")");
    TEST_ASSERT_EQUAL_STRING("Europe/Istanbul", pgtemp_value("SELECT zone FROM pgwork.schedule"));
    pgtemp_exec("SELECT pgwork.cron_drop('s')");
}

/* PostgreSQL 18 takes a name first for an abbreviation of the session's own zone. */
void test_no_session_changes_what_a_zone_means(void)
{
    static const char *const own[] = {"UTC+5", "GMT-3"};

    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        char sql[300];

        snprintf(sql, sizeof(sql), "SET timezone = '%s'; SELECT pgwork.queue_create('q')", own[i]);
        pgtemp_exec(sql);
        TEST_ASSERT_EQUAL_INT64(
            4, pgtemp_number("SELECT count(*) FROM unnest('{UTC,GMT}'::text[]) zone CROSS JOIN "
                             "unnest('{0 12 * * *,0 */6 * * *}'::text[]) e WHERE "
                             "extract(epoch FROM pgwork.cron_next(e, zone, '2026-06-01 11:00+00'))"
                             " = extract(epoch FROM timestamptz '2026-06-01 12:00+00')"));
        TEST_ASSERT_EQUAL_STRING(
            "Mon 2026-06-01 12:00:00 +00:00",
            pgtemp_value("SELECT local FROM pgwork.cron_times('0 12 * * *', 'UTC', 1, '2026-06-01 "
                         "11:00+00')"));
        pgtemp_exec("SELECT pgwork.cron_create('s', '0 12 * * *', queue => 'q')");
        pgtemp_exec("UPDATE pgwork.schedule SET base = '2026-06-01 11:00+00', next_at = "
                    "'-infinity'");
        pgtemp_exec("SELECT pgwork._cron_tick(100, '2026-06-01 12:00+00')");
        TEST_ASSERT_EQUAL_STRING("{schedule=s,slot=2026-06-01T12:00:00Z}",
                                 pgtemp_value("SELECT tags FROM pgwork.job WHERE queue = 'q'"));
        pgtemp_exec("SELECT pgwork.cron_drop('s'), pgwork.queue_drop('q', true)");
        pgtemp_exec("RESET timezone");
    }
}

static void refused(const char *word, const char *sql)
{
    PGresult *r;

    PQclear(PQexec(pgtemp_conn(), "SET statement_timeout = '10s'"));
    r = PQexec(pgtemp_conn(), sql);
    TEST_ASSERT_EQUAL_STRING("PW001", PQresultErrorField(r, PG_DIAG_SQLSTATE));
    TEST_ASSERT_NOT_NULL(strstr(PQresultErrorMessage(r), word));
    PQclear(r);
    PQclear(PQexec(pgtemp_conn(), "RESET statement_timeout"));
}

void test_no_zone_is_refused(void)
{
    refused("zone", "SELECT pgwork.cron_next('0 0 * * *', NULL)");
    refused("zone", "SELECT * FROM pgwork.cron_times('0 0 * * *', NULL)");
}

/* 29 February on a Sunday, ten thousand times. */
void test_times_end_before_those_of_the_server(void)
{
    TEST_ASSERT_EQUAL_INT64(
        100, pgtemp_number("SELECT count(DISTINCT at) FROM pgwork.cron_times('0 0 29 2 */7', "
                           "'UTC', 100, '9999-12-31 UTC')"));
    refused("after the year 30000",
            "SELECT * FROM pgwork.cron_times('0 0 29 2 */7', 'UTC', 10000, '9999-12-31 UTC')");
}
