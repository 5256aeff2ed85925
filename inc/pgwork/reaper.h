/* SPDX-License-Identifier: PostgreSQL
 *
 * @file pgwork/reaper.h
 * The reaper: requeues jobs of expired leases, promotes delayed ones, runs schedules, prunes.
 */
#ifndef PGWORK_REAPER_H
#define PGWORK_REAPER_H

#include <pgwork/handle.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pgw_reaper pgw_reaper; /* the loop that requeues, promotes, schedules and prunes */

/* ------------------------------------------------------------------------------------------- */
/** @name Reaper @{
 * Several reapers may run at once. Without a reaper nothing is lost, but jobs of dead workers stay
 * leased and delayed jobs stay delayed. doc/reaper.md has the figures. */
typedef struct pgw_reap_stats {
    size_t struct_size;
    int64_t ticks;
    int64_t reaped;   /* jobs of expired leases that are ready again */
    int64_t died;     /* jobs of expired leases without attempts left: dead letters now */
    int64_t promoted; /* delayed jobs that are ready now */
    int64_t pruned;   /* finished jobs deleted after their retention */
    int64_t errors;
    int64_t freed; /* expired rows of registered tables, by pgw_reaper_run() */
} pgw_reap_stats;
#define PGW_REAP_STATS_INIT                         \
    {                                               \
        sizeof(pgw_reap_stats), 0, 0, 0, 0, 0, 0, 0 \
    }

/**
 * Makes one pass: does all tasks that are due, in batches of `reaper.batch`.
 *
 * @param h        the handle
 * @param stats    the counts are added to it; `errors` counts batches that failed, except armed
 *                 ones; may be NULL
 * @param next_ms  takes the time until the next call (0: at once, there is more to do); may be NULL
 * @returns
 * - PGW_OK
 * - PGW_EMISUSE: a transaction is open, which would keep the moved jobs locked
 * @note A job that cannot be requeued (a trigger raises an error), or a row that cannot be deleted,
 *   does not delay others. The log (PGW_LOG_WARN) and pgwork.stuck_jobs name it.
 *
 *     pgw_reap_stats stats = PGW_REAP_STATS_INIT;
 *     do st = pgw_reaper_tick(h, &stats, &next_ms);
 *     while (st == PGW_OK && next_ms == 0);
 */
PGW_API pgw_status pgw_reaper_tick(pgw *h, pgw_reap_stats *stats, int64_t *next_ms);

/**
 * Makes a reaper: a loop around pgw_reaper_tick().
 *
 * @param conf  copied: reaper.*, holder, and the properties of a handle; NULL: the defaults
 * @param r     takes the reaper; the caller owns it (free with pgw_reaper_free)
 * @returns
 * - PGW_OK
 * - PGW_ENOMEM: no memory, or no descriptors left
 *
 *     static pgw_reaper *reaper;
 *     static void on_hup(int sig) { (void)sig; pgw_reaper_reload(reaper); }
 *     static const pgw_conf *reread(void *arg) { return arg; }
 *     static void count(const pgw_reap_stats *s, void *arg) { *(int64_t *)arg = s->reaped; }
 *
 *     if (pgw_reaper_new(conf, &reaper) != PGW_OK) return;
 *     pgw_reaper_on_reload(reaper, reread, conf);
 *     pgw_reaper_on_tick(reaper, count, &n);
 *     signal(SIGHUP, on_hup);
 *     if (pgw_reaper_run(reaper, stop) != PGW_OK) puts(pgw_reaper_error(reaper));
 *     pgw_reaper_free(reaper);
 */
PGW_API pgw_status pgw_reaper_new(const pgw_conf *conf, pgw_reaper **r);
/**
 * Runs until @p stop is notified: a recovery pass first, then ticks.
 *
 * @param r     the reaper
 * @param stop  borrowed; NULL: none
 * @returns
 * - PGW_OK: stopped
 * - PGW_ESCHEMA, PGW_EPERM, PGW_EINVAL, PGW_ENOMEM, PGW_EMISUSE, PGW_EPROTO: an error that does not
 *   pass
 * @note After a lost connection, or on a read-only server, it reconnects.
 */
PGW_API pgw_status pgw_reaper_run(pgw_reaper *r, pgw_stop *stop);
/**
 * Asks the loop to get a new configuration from the function of pgw_reaper_on_reload().
 *
 * @param r  the reaper
 * @note Any thread, any signal handler.
 */
PGW_API void pgw_reaper_reload(pgw_reaper *r);
/**
 * Sets the function that returns a new configuration. The loop copies it and opens a new session
 * with it.
 *
 * @param r    the reaper
 * @param fn   called from the loop's own thread, between ticks; if it returns NULL, the old
 *             configuration stays
 * @param arg  its argument
 * @returns
 * - PGW_OK
 * - PGW_EINVAL: @p r is NULL
 * @note Set it before pgw_reaper_run().
 */
PGW_API pgw_status pgw_reaper_on_reload(pgw_reaper *r, const pgw_conf *(*fn)(void *arg), void *arg);
/**
 * Sets a function that is called after each successful tick, for counters and watchdogs. Its first
 * call means that the reaper is ready (sd_notify).
 *
 * @param r    the reaper
 * @param fn   called from the loop's own thread
 * @param arg  its second argument
 * @returns
 * - PGW_OK
 * - PGW_EINVAL: @p r is NULL
 * @note Set it before pgw_reaper_run().
 */
PGW_API pgw_status pgw_reaper_on_tick(pgw_reaper *r,
                                      void (*fn)(const pgw_reap_stats *stats, void *arg),
                                      void *arg);
/**
 * Returns the last error. Call it after pgw_reaper_run() has returned.
 *
 * @param r  may be NULL
 * @returns a message or "", borrowed until the next run
 */
PGW_API const char *pgw_reaper_error(const pgw_reaper *r);
/**
 * Frees a reaper.
 *
 * @param r  may be NULL
 * @note pgw_reaper_run() must have returned, and no signal handler may use the reaper any more.
 */
PGW_API void pgw_reaper_free(pgw_reaper *r);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
