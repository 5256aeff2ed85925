/* SPDX-License-Identifier: PostgreSQL
 *
 * @file pgwork/cron.h
 * Schedules: each tick happens once, on one of many machines.
 */
#ifndef PGWORK_CRON_H
#define PGWORK_CRON_H

#include <pgwork/job.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------- */
/** @name Schedules @{
 * Many machines run the same program; each tick of a schedule happens once, on one of them. Any
 * number of schedulers may run, there is no leader, and all times are by the clock of the server.
 *
 *     minute hour day month weekday          each * or a list of n, n-n, with /step
 *     second minute hour day month weekday   jan .. dec, sun .. sat, 7 is Sunday; day also L, LW,
 *                                            15W, weekday also fri#2, friL
 *     @yearly @monthly @weekly @daily @hourly
 *     @every 90s                             also 1h30m, 2d, 1w; counted from the creation
 *
 * If day or weekday begins with *, a tick comes on days that match both, otherwise on days that
 * match one of them. When clocks change, an expression whose minute or hour begins with * follows
 * the clock: it has no tick in a skipped hour, and ticks in both passes of a repeated hour. Any
 * other expression ticks once: right after the gap if its time is skipped, and in the first pass of
 * a repeated hour.
 *
 * If the schedule names a queue, a tick is a job. pgw_cron_tick(), which each reaper calls,
 * enqueues it in the transaction that records the tick. If the schedule names no queue, a tick is a
 * lease. pgw_cron_claim_due() gives it to one node, and to another one if that does not finish
 * within the timeout. doc/schedules.md has the rules.
 *
 * Each verb on one schedule returns PGW_ENOTFOUND when there is no such schedule. */

/** What happens to due ticks if the oldest one is found more than `grace_ms` late. */
typedef enum pgw_misfire {
    PGW_MISFIRE_ONCE, /* only the latest runs */
    PGW_MISFIRE_SKIP, /* only those within the grace run */
    PGW_MISFIRE_ALL   /* the latest `misfire_max` run, oldest first */
} pgw_misfire;

/* clang-format off */
typedef struct pgw_cron_opts {
    size_t struct_size;
    const char *zone;    /* a name of pg_timezone_names, such as Europe/Berlin; NULL: UTC. CET, EET, EST, HST, MET, MST
                          * and WET are refused: to the server they are abbreviations without summer time */
    const char *queue;   /* a tick is a job in this queue; NULL: a node holds it */
    const pgw_job_spec *job;  /* the job; without a queue: kind, payload and body for the node; NULL: none. It must not set
                          * run_at_us, delay_ms, expires_us (use ttl_ms), meta or op. With a key, no tick adds a job
                          * while an earlier one is unfinished: the scope is PGW_KEY_SCOPE_UNFINISHED, the policy
                          * PGW_KEY_POLICY_SKIP. With a group, which needs a queue, the jobs run one after the other.
                          * Up to 30 tags */
    pgw_misfire misfire;
    int misfire_max;     /* 1 .. 1000 */
    int64_t grace_ms;    /* up to a day: a tick that is later counts as missed; at least 1000 with
                          * PGW_MISFIRE_SKIP, because every tick is found a little late */
    int64_t jitter_ms;   /* up to an hour: the longest delay of a tick, always the same for one tick; keep it
                          * below the distance of two ticks */
    int64_t timeout_ms;  /* 100 .. a week: how long a node may hold a tick */
} pgw_cron_opts;
#define PGW_CRON_OPTS_INIT {sizeof(pgw_cron_opts), NULL, NULL, NULL, PGW_MISFIRE_ONCE, 100, 60000, 0, 300000}
/* clang-format on */

/**
 * Checks an expression. Needs no server.
 *
 * @param expression  the expression
 * @param fault       takes the field, the column, and what was expected there; may be NULL
 * @param size        of @p fault
 * @returns
 * - PGW_OK
 * - PGW_EINVAL: not an expression
 *
 *     char fault[200];
 *     if (pgw_cron_check("30 6 32 * *", fault, sizeof(fault)) != PGW_OK)
 *         puts(fault); // day of month field, column 6: expected * or 1..31, got "32"
 */
PGW_API pgw_status pgw_cron_check(const char *expression, char *fault, size_t size);

typedef struct pgw_cron_next_opts {
    size_t struct_size;
    const char *zone; /* as in pgw_cron_opts; NULL: UTC */
    int64_t after_us; /* server's clock; PGW_NONE: now */
    int max;          /* number of times, 1 .. 10,000 */
} pgw_cron_next_opts;
/* clang-format off */
#define PGW_CRON_NEXT_OPTS_INIT {sizeof(pgw_cron_next_opts), NULL, PGW_NONE, 10}
/* clang-format on */
/**
 * Lists the next times of an expression.
 *
 * @param h           the handle
 * @param expression  the expression; @every counts from 1970
 * @param opts        zone, start and number of times; NULL: the defaults
 * @param fn          called with each time, and the local time ("Sun 2026-03-29 03:00:00 +02:00"),
 *                    until it returns non-zero
 * @param arg         its third argument
 * @returns
 * - PGW_OK
 * - PGW_EINVAL: expression or zone
 *
 *     static int show(int64_t at_us, const char *local, void *arg)
 *     {
 *         return fprintf(arg, "%" PRId64 " %s\n", at_us, local) < 0;
 *     }
 *
 *     pgw_cron_next_opts o = PGW_CRON_NEXT_OPTS_INIT;
 *     o.zone = "Europe/Berlin", o.max = 5;
 *     st = pgw_cron_next(h, "0 2 * * sun", &o, show, stdout);
 */
PGW_API pgw_status pgw_cron_next(pgw *h, const char *expression, const pgw_cron_next_opts *opts,
                                 int (*fn)(int64_t at_us, const char *local, void *arg), void *arg);

/**
 * Creates a schedule, or changes it to this definition. So every machine may call it when it
 * starts. If expression and zone do not change, the next tick does not change.
 *
 * @param h           the handle
 * @param schedule    its name, with the limits of a queue's name
 * @param expression  the times of its ticks
 * @param opts        zone, queue, job and policies; NULL: the defaults
 * @param next_us     takes the time of the next tick (PGW_NONE: it is paused); may be NULL
 * @returns
 * - PGW_OK
 * - PGW_EINVAL: for an expression, the message names the column
 * - PGW_ELIMIT: payload and body of the job are too large
 * @note For operators.
 *
 *     pgw_job_spec job = PGW_JOB_SPEC_INIT;
 *     pgw_cron_opts o = PGW_CRON_OPTS_INIT;
 *     job.kind = "report", o.job = &job, o.queue = "mail", o.zone = "Europe/Berlin";
 *     st = pgw_cron_create(h, "daily report", "30 6 * * mon-fri", &o, NULL);
 *     if (st == PGW_OK) st = pgw_cron_run(h, "daily report", &id); // and one now
 */
PGW_API pgw_status pgw_cron_create(pgw *h, const char *schedule, const char *expression,
                                   const pgw_cron_opts *opts, int64_t *next_us);
/**
 * Pauses a schedule. A held tick continues.
 *
 * @param h         the handle
 * @param schedule  its name
 * @returns
 * - PGW_OK
 * - PGW_ENOTFOUND
 *
 *     pgw_cron_pause(h, "daily report");
 *     pgw_cron_resume(h, "daily report");
 *     if (pgw_cron_rename(h, "daily report", "report") == PGW_EEXISTS) pgw_cron_drop(h, "report");
 */
PGW_API pgw_status pgw_cron_pause(pgw *h, const char *schedule);
/**
 * Resumes a schedule. Its next tick is planned from now. Ticks that were due during the pause are
 * lost.
 *
 * @param h         the handle
 * @param schedule  its name
 * @returns
 * - PGW_OK
 * - PGW_ENOTFOUND
 */
PGW_API pgw_status pgw_cron_resume(pgw *h, const char *schedule);
/**
 * Changes the name of a schedule.
 *
 * @param h         the handle
 * @param schedule  its name
 * @param new_name  the new one
 * @returns
 * - PGW_OK
 * - PGW_ENOTFOUND
 * - PGW_EEXISTS: the new name is taken
 */
PGW_API pgw_status pgw_cron_rename(pgw *h, const char *schedule, const char *new_name);
/**
 * Removes a schedule. The holder of its tick gets PGW_ELEASE.
 *
 * @param h         the handle
 * @param schedule  its name
 * @returns
 * - PGW_OK
 * - PGW_ENOTFOUND
 */
PGW_API pgw_status pgw_cron_drop(pgw *h, const char *schedule);
/**
 * Makes a tick now, also of a paused schedule. The next planned tick does not change.
 *
 * @param h         the handle
 * @param schedule  its name
 * @param job_id    takes the id of the job, or of the job that has its unique key. PGW_NONE: the
 *                  schedule has no queue, and the next node that asks gets one tick, however often
 *                  this was called. May be NULL.
 * @returns
 * - PGW_OK
 * - PGW_ENOTFOUND
 * - PGW_EPAUSED: the queue is drained
 * - PGW_ELIMIT: the job is over the queue's max_bytes
 */
PGW_API pgw_status pgw_cron_run(pgw *h, const char *schedule, int64_t *job_id);

/* clang-format off */
typedef struct pgw_cron_info {
    size_t struct_size;
    const char *name, *expression, *zone;
    const char *queue;          /* NULL: a node holds the tick */
    const char *kind, *payload, *key;
    pgw_misfire misfire;
    int misfire_max, priority;
    int64_t grace_ms, jitter_ms, timeout_ms;
    bool paused;
    int64_t next_us, last_us;   /* the next tick (PGW_NONE: none, or paused), and the last one that happened (PGW_NONE: none) */
    const char *holder;         /* of the held tick, with since_us and until_us; NULL: none is held */
    int64_t since_us, until_us;
    int attempt;
    const char *error;          /* why it does not run, such as a drained queue, or that a tick was dropped and no later
                                 * one has succeeded; NULL: no error */
    int64_t error_us;
    const char *group;          /* of its jobs; or NULL */
} pgw_cron_info;
/* clang-format on */
/**
 * Lists schedules by name.
 *
 * @param h         the handle
 * @param schedule  only this one; NULL: all
 * @param fn        called for each until it returns non-zero
 * @param arg       its second argument
 * @returns
 * - PGW_OK
 * - PGW_OUTCOME_EMPTY: there is none
 *
 *     static int show(const pgw_cron_info *i, void *arg)
 *     {
 *         return fprintf(arg, "%s: %s %s\n", i->name, i->expression, i->zone) < 0;
 *     }
 *
 *     st = pgw_crons_each(h, NULL, show, stdout);
 */
PGW_API pgw_status pgw_crons_each(pgw *h, const char *schedule,
                                  int (*fn)(const pgw_cron_info *info, void *arg), void *arg);

/**
 * Enqueues the jobs of all due ticks. pgw_reaper_tick() includes it.
 *
 * @param h        the handle
 * @param fired    takes how many; may be NULL
 * @param next_ms  takes the time until the next call (0: at once, there is more to do;
 *                 PGW_UNLIMITED: no schedule); may be NULL
 * @returns PGW_OK, or an error of any verb
 * @note A schedule that fails does not stop others. Its error is recorded, and it is tried again
 *   after ten seconds.
 *
 *     st = pgw_cron_tick(h, &n, &next_ms);
 */
PGW_API pgw_status pgw_cron_tick(pgw *h, int64_t *fired, int64_t *next_ms);

typedef struct pgw_tick pgw_tick; /* a tick that this node holds */

typedef struct pgw_cron_claim_opts {
    size_t struct_size;
    const char *holder;           /* this node, 1 to 255 bytes; NULL: property `holder` */
    const char *const *schedules; /* of these; NULL: of all without a queue */
    size_t schedules_count;       /* up to 64 */
} pgw_cron_claim_opts;
/* clang-format off */
#define PGW_CRON_CLAIM_OPTS_INIT {sizeof(pgw_cron_claim_opts), NULL, NULL, 0}
/* clang-format on */
/**
 * Claims a due tick for this node.
 *
 * @param h        the handle
 * @param opts     name of the node, and which schedules; NULL: the defaults
 * @param tick     takes the tick; the caller owns it (free with pgw_tick_free)
 * @param next_ms  with PGW_OUTCOME_EMPTY takes the time until the next call, at most a minute; may
 *                 be NULL
 * @returns
 * - PGW_OK
 * - PGW_OUTCOME_EMPTY: no tick is due, or there are no such schedules
 * - PGW_EUNKNOWN, or PGW_ENOMEM after the server has answered: the tick is claimed again after its
 *   timeout
 * @note Ticks whose node exceeded its timeout come first: the tick gets a new, higher token, and
 *   the late node is refused. One tick of a schedule is held at a time. After `max_attempts` nodes
 *   (of the job; default 10) a tick is dropped.
 *
 *     while (pgw_stop_count(stop) == 0) {
 *         struct pollfd p = {.fd = pgw_stop_fd(stop), .events = POLLIN};
 *         st = pgw_cron_claim_due(h, NULL, &tick, &next_ms);
 *         if (st < 0) return;
 *         if (st == PGW_OUTCOME_EMPTY) {
 *             poll(&p, 1, (int)next_ms);
 *             continue;
 *         }
 *         work(pgw_tick_schedule(tick));
 *         st = pgw_cron_finish(h, pgw_tick_token(tick), NULL); // PGW_ELEASE: it took too long
 *         pgw_tick_free(tick);
 *     }
 */
PGW_API pgw_status pgw_cron_claim_due(pgw *h, const pgw_cron_claim_opts *opts, pgw_tick **tick,
                                      int64_t *next_ms);

/*
 * Verbs on a held tick return PGW_ELEASE if another node has the tick, the schedule was removed, or
 * the tick has ended, for example by an earlier call whose answer was lost. A late call is accepted
 * as long as no other node has the tick.
 */
/**
 * Finishes a tick.
 *
 * @param h      the handle
 * @param token  of the tick
 * @param error  UTF-8 text kept with it, cut at 8,000 bytes; NULL: it succeeded
 * @returns
 * - PGW_OK
 * - PGW_ELEASE
 */
PGW_API pgw_status pgw_cron_finish(pgw *h, pgw_token token, const char *error);
/**
 * Extends the lease of a tick.
 *
 * @param h           the handle
 * @param token       of the tick
 * @param timeout_ms  from now; PGW_DEFAULT: that of the schedule
 * @param until_us    takes when it ends; may be NULL
 * @returns
 * - PGW_OK
 * - PGW_ELEASE
 *
 *     token = pgw_tick_token(tick);
 *     if (pgw_cron_extend(h, token, 600000, NULL) != PGW_OK) return;
 *     if (pgw_stop_count(stop) > 0) pgw_cron_release(h, token);
 */
PGW_API pgw_status pgw_cron_extend(pgw *h, pgw_token token, int64_t timeout_ms, int64_t *until_us);
/**
 * Releases a tick that was not done: another node may claim it at once. The attempt is not counted.
 *
 * @param h      the handle
 * @param token  of the tick
 * @returns
 * - PGW_OK
 * - PGW_ELEASE
 */
PGW_API pgw_status pgw_cron_release(pgw *h, pgw_token token);
/**
 * Takes a held tick away from its node, whose token is stale from then on. Another node may claim
 * it at once. For operators.
 *
 * @param h         the handle
 * @param schedule  its name
 * @param held      takes whether a tick was held; may be NULL
 * @returns
 * - PGW_OK
 * - PGW_ENOTFOUND
 * @note It also discards plans that were made while the server's clock was ahead. The error of the
 *   schedule names the role that called it.
 *
 *     bool held;
 *
 *     if (pgw_cron_break(h, "sweep", &held) == PGW_OK && held) work("another node may have it");
 */
PGW_API pgw_status pgw_cron_break(pgw *h, const char *schedule, bool *held);

/**
 * Return the fields of a tick: its schedule, when it was due, its token, the number of the node (1:
 * the first), when the lease ends, and kind, payload and body of the schedule's job. The payload is
 * JSON text.
 *
 * @param tick  the tick
 * @param size  takes the number of bytes; may be NULL
 * @returns strings are borrowed until pgw_tick_free(); NULL: there is none
 * @note The token's number grows with every claim of the schedule: a fence for what the tick
 * writes.
 *
 *     size_t size;
 *     const void *body = pgw_tick_body(tick, &size);
 *     printf("%s of %" PRId64 ", node %d, until %" PRId64 ": %zu bytes\n", pgw_tick_kind(tick),
 *            pgw_tick_slot_us(tick), pgw_tick_attempt(tick), pgw_tick_until_us(tick), size);
 *     work(body != NULL ? body : pgw_tick_payload(tick));
 */
PGW_API const char *pgw_tick_schedule(const pgw_tick *tick);
PGW_API int64_t pgw_tick_slot_us(const pgw_tick *tick);
PGW_API pgw_token pgw_tick_token(const pgw_tick *tick);
PGW_API int pgw_tick_attempt(const pgw_tick *tick);
PGW_API int64_t pgw_tick_until_us(const pgw_tick *tick);
PGW_API const char *pgw_tick_kind(const pgw_tick *tick);
PGW_API const char *pgw_tick_payload(const pgw_tick *tick);
PGW_API const void *pgw_tick_body(const pgw_tick *tick, size_t *size);
/**
 * Frees a tick. Its lease lasts until the tick is finished or released, or its time is over.
 *
 * @param tick  may be NULL
 */
PGW_API void pgw_tick_free(pgw_tick *tick);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
