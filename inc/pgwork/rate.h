/* SPDX-License-Identifier: PostgreSQL
 *
 * @file pgwork/rate.h
 * Rates across machines.
 */
#ifndef PGWORK_RATE_H
#define PGWORK_RATE_H

#include <pgwork/job.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------- */
/** @name Rates @{
 * A rate limits how often something happens, over all machines. A program takes from the rate
 * before each action. A rate allows n takes per period. Its burst is the number of takes that are
 * granted at once after a pause. Any window of time W has at most burst + W * n / per_ms takes, by
 * the server's clock.
 *
 * A take is final, even if its transaction rolls back or its program ends. An open transaction that
 * has taken blocks no other take.
 *
 * After a crash of the server the burst counts as used up. doc/rates.md has more.
 *
 * Names: UTF-8, 1..255 bytes, as for locks. PGW_ENOTFOUND: no such rate. */

typedef struct pgw_rate_opts {
    size_t struct_size;
    int n;          /* takes per period: 1..1000000, at most 1000 for each millisecond */
    int burst;      /* takes at once after a pause: 1..1000000; PGW_DEFAULT: n */
    int64_t per_ms; /* the period: 1..31536000000 (a year) */
} pgw_rate_opts;
/* clang-format off */
#define PGW_RATE_OPTS_INIT {sizeof(pgw_rate_opts), 1, PGW_DEFAULT, 1000}
/* clang-format on */
/**
 * Creates a rate, or changes it. For operators.
 *
 * @param h     the handle
 * @param name  its name
 * @param opts  takes, period and burst; NULL: one take per second
 * @returns
 * - PGW_OK
 * - PGW_EINVAL
 *
 *     pgw_rate_opts o = PGW_RATE_OPTS_INIT;
 *     o.n = 10, o.burst = 5; // 10 per second, at most 5 at once
 *     st = pgw_rate_set(h, "geocoder", &o);
 *     if (pgw_rate_drop(h, "old") == PGW_ELOCKED) puts("a transaction has taken from it");
 */
PGW_API pgw_status pgw_rate_set(pgw *h, const char *name, const pgw_rate_opts *opts);
/**
 * Removes a rate. For operators.
 *
 * @param h     the handle
 * @param name  its name
 * @returns
 * - PGW_OK
 * - PGW_ENOTFOUND
 * - PGW_ELOCKED: a transaction that stays open has taken from it
 */
PGW_API pgw_status pgw_rate_drop(pgw *h, const char *name);

typedef struct pgw_rate_take_opts {
    size_t struct_size;
    int n;              /* all or none; 1..the burst */
    int64_t timeout_ms; /* longest wait, up to a year; 0: none; PGW_UNLIMITED: until stopped */
} pgw_rate_take_opts;
/* clang-format off */
#define PGW_RATE_TAKE_OPTS_INIT {sizeof(pgw_rate_take_opts), 1, 0}
/* clang-format on */
/**
 * Takes from a rate, all or none.
 *
 * @param h        the handle
 * @param name     the rate
 * @param opts     number of takes, and longest wait; NULL: one, without a wait
 * @param wait_ms  takes 0, or the time after which the take can be granted; may be NULL
 * @returns
 * - PGW_OK: granted
 * - PGW_ELOCKED: refused, because the wait would exceed timeout_ms. The call does not wait then.
 * - PGW_ELIMIT: more than the burst
 * - PGW_ECANCELED: stopped. The first notify of the handle's stop ends the wait.
 * - PGW_ENOTFOUND
 * - PGW_EUNKNOWN: the take may have been granted
 * @note Waiters are served in any order. A take of many may wait for long beside many takes of 1.
 * @note It can be armed by pgw_async() only with timeout_ms 0.
 *
 *     pgw_rate_take_opts o = PGW_RATE_TAKE_OPTS_INIT;
 *     o.timeout_ms = 5000;
 *     st = pgw_rate_take(h, "geocoder", &o, &n);
 *     if (st == PGW_OK) work("call it");
 *     else if (st == PGW_ELOCKED) printf("not within 5 s: in %" PRId64 " ms\n", n);
 */
PGW_API pgw_status pgw_rate_take(pgw *h, const char *name, const pgw_rate_take_opts *opts,
                                 int64_t *wait_ms);

typedef struct pgw_rate_info {
    size_t struct_size;
    const char *name; /* borrowed during the callback */
    int n, burst;
    int64_t per_ms;
    int64_t available; /* takes that are granted now */
    int64_t next_ms;   /* time until one take is granted; 0: now */
} pgw_rate_info;
/**
 * Lists rates by name.
 *
 * @param h    the handle
 * @param fn   called for each until it returns non-zero
 * @param arg  its second argument
 * @returns
 * - PGW_OK
 * - PGW_OUTCOME_EMPTY: there are none
 *
 *     static int show(const pgw_rate_info *r, void *arg)
 *     {
 *         return fprintf(arg, "%s: %" PRId64 " of %d\n", r->name, r->available, r->burst) < 0;
 *     }
 *
 *     if (pgw_rates_each(h, show, stdout) == PGW_OUTCOME_EMPTY) puts("no rates");
 */
PGW_API pgw_status pgw_rates_each(pgw *h, int (*fn)(const pgw_rate_info *info, void *arg),
                                  void *arg);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
