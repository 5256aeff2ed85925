/* cronexpr: parses a cron expression into sets of bits, or reports the position of its fault. The
 * server computes the next times, because it has the time zones (migration 0011, whose parser gives
 * the same answers; a test compares them).
 *
 *     [second] minute hour day month weekday      each * or a list of n, n-n, with /step; days also
 *                                                 L, LW, nW; weekdays nL, n#k
 *     @yearly @annually @monthly @weekly @daily @midnight @hourly
 *     @every 90s | 1h30m | 2d | 1w
 */
#ifndef PGW_CRONEXPR_H
#define PGW_CRONEXPR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PGW__CRONEXPR_MAX          255 /* bytes of an expression */
#define PGW__CRONEXPR_LAST_DAY     (UINT64_C(1) << 32)
#define PGW__CRONEXPR_LAST_WORKDAY (UINT64_C(1) << 33)
#define PGW__CRONEXPR_LAST_WEEKDAY 42       /* and the weekday: a bit's number */
#define PGW__CRONEXPR_EVERY        31622400 /* seconds: 366 days */

typedef struct pgw__cronexpr {
    uint64_t second, minute;   /* bit n: at n */
    uint32_t hour, month;      /* month 1..12 */
    uint64_t day;              /* 1..31, and the two LAST below */
    uint64_t weekday;          /* bit 0: Sunday; 7 * k + n: the k-th of a month; and the last */
    uint32_t near;             /* bit n: the workday that is nearest to day n */
    bool special;              /* day or weekday has one of L, W and # */
    bool any_day, any_weekday; /* begins with '*': the other one of the two decides, else either */
    bool wild;                 /* minute or hour begins with '*' */
    int64_t every_s;           /* @every: the period, and nothing else is set */
} pgw__cronexpr;

typedef struct pgw__cronexpr_fault {
    int at;         /* character, from 1 */
    char text[192]; /* `minute field, column 1: expected 0..59, got "60"` */
} pgw__cronexpr_fault;

/* False: *fault says why, and *out is empty. */
bool pgw__cronexpr_parse(pgw__cronexpr *out, const char *text, pgw__cronexpr_fault *fault);

#endif
