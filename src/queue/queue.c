/* queue: queues, their settings and counts. */
#include <string.h>

#include "base/name.h"
#include "call/ask.h"
#include "call/check.h"
#include "pq/pq.h"

#define QUEUE_YEAR_MS INT64_C(31536000000)

static const char *const queue_expired[] = {"dead", "drop"}; /* by pgw_expired */

/* ---- settings; PGW_DEFAULT leaves one unchanged ---- */

static pgw_status queue_settings(pgw *h, pgw__sql sql, const char *queue,
                                 const pgw_queue_opts *opts)
{
    pgw_queue_opts o = PGW_QUEUE_OPTS_INIT;
    pgw_status st = pgw__check_queue(h, queue);

    if (st == PGW_OK) st = pgw__check_opts(h, "opts", &o, sizeof(o), opts);
    if (st == PGW_OK && o.lease_ms != PGW_DEFAULT)
        st = pgw__check_int(h, "opts->lease_ms", o.lease_ms, PGW__LEASE_MIN_MS, PGW__LEASE_MAX_MS);
    if (st == PGW_OK && o.backoff_ms != PGW_DEFAULT)
        st = pgw__check_int(h, "opts->backoff_ms", o.backoff_ms, 0, QUEUE_YEAR_MS);
    if (st == PGW_OK && o.backoff_cap_ms != PGW_DEFAULT)
        st = pgw__check_int(h, "opts->backoff_cap_ms", o.backoff_cap_ms, 0, QUEUE_YEAR_MS);
    if (st == PGW_OK && o.retention_ms != PGW_DEFAULT)
        st = pgw__check_int(h, "opts->retention_ms", o.retention_ms, 0, 100 * QUEUE_YEAR_MS);
    if (st == PGW_OK && o.dead_retention_ms != PGW_DEFAULT && o.dead_retention_ms != PGW_UNLIMITED)
        st = pgw__check_int(h, "opts->dead_retention_ms", o.dead_retention_ms, 1,
                            100 * QUEUE_YEAR_MS);
    if (st == PGW_OK) st = pgw__check_attempts(h, "opts->max_attempts", o.max_attempts);
    if (st == PGW_OK && o.max_bytes != PGW_DEFAULT)
        st = pgw__check_int(h, "opts->max_bytes", o.max_bytes, 1, PGW__BYTES_MAX);
    if (st == PGW_OK && o.notify != PGW_SWITCH_DEFAULT)
        st = pgw__check_int(h, "opts->notify", o.notify, PGW_SWITCH_OFF, PGW_SWITCH_ON);
    if (st == PGW_OK && o.expired != PGW_EXPIRED_DEFAULT)
        st = pgw__check_int(h, "opts->expired", o.expired, PGW_EXPIRED_DEAD, PGW_EXPIRED_DROP);
    if (st == PGW_OK && o.payload_visible != PGW_SWITCH_DEFAULT)
        st = pgw__check_int(h, "opts->payload_visible", o.payload_visible, PGW_SWITCH_OFF,
                            PGW_SWITCH_ON);
    if (st != PGW_OK) return st;
    {
        const pgw__param params[] = {
            P_TEXT(queue),
            P_INT8_OR_NULL(o.lease_ms, o.lease_ms < 0),
            P_INT4_OR_NULL(o.max_attempts, o.max_attempts == PGW_DEFAULT),
            P_INT8_OR_NULL(o.backoff_ms, o.backoff_ms < 0),
            P_INT8_OR_NULL(o.backoff_cap_ms, o.backoff_cap_ms < 0),
            P_INT8_OR_NULL(o.retention_ms, o.retention_ms < 0),
            P_INT4_OR_NULL(o.max_bytes, o.max_bytes < 0),
            P_SWITCH(o.notify),
            P_TEXT(o.expired != PGW_EXPIRED_DEFAULT ? queue_expired[o.expired] : NULL),
            P_INT8_OR_NULL(o.dead_retention_ms, o.dead_retention_ms == PGW_DEFAULT),
            P_SWITCH(o.payload_visible),
            P_END,
        };

        return pgw__ask(h, sql, params);
    }
}

pgw_status pgw_queue_create(pgw *h, const char *queue, const pgw_queue_opts *opts)
{
    return queue_settings(h, PGW__SQL_QUEUE_CREATE, queue, opts);
}

pgw_status pgw_queue_set(pgw *h, const char *queue, const pgw_queue_opts *opts)
{
    return queue_settings(h, PGW__SQL_QUEUE_SET, queue, opts);
}

/* ---- the switches ---- */

static pgw_status queue_switch(pgw *h, pgw__sql sql, const char *queue)
{
    const pgw__param params[] = {P_TEXT(queue), P_END};
    const pgw_status st = pgw__check_queue(h, queue);

    return st == PGW_OK ? pgw__ask(h, sql, params) : st;
}

pgw_status pgw_queue_pause(pgw *h, const char *queue)
{
    return queue_switch(h, PGW__SQL_QUEUE_PAUSE, queue);
}

pgw_status pgw_queue_drain(pgw *h, const char *queue)
{
    return queue_switch(h, PGW__SQL_QUEUE_DRAIN, queue);
}

pgw_status pgw_queue_resume(pgw *h, const char *queue)
{
    return queue_switch(h, PGW__SQL_QUEUE_RESUME, queue);
}

pgw_status pgw_queue_hold(pgw *h, const char *queue, const pgw_queue_hold_opts *opts)
{
    pgw_queue_hold_opts o = PGW_QUEUE_HOLD_OPTS_INIT;
    char words[PGW__REASON_MAX + 1];
    pgw_status st = pgw__check_queue(h, queue);

    if (st == PGW_OK) st = pgw__check_opts(h, "opts", &o, sizeof(o), opts);
    if (st == PGW_OK) st = pgw__check_int(h, "opts->until_us", o.until_us, 0, INT64_MAX);
    if (st == PGW_OK)
        st = pgw__check_int(h, "opts->for_ms", o.for_ms, o.until_us == 0,
                            o.until_us == 0 ? PGW__DELAY_MAX_MS : 0);
    if (st != PGW_OK) return st;
    if (o.reason != NULL) pgw__text_mend(words, sizeof(words), o.reason);
    {
        const pgw__param params[] = {
            P_TEXT(queue),
            P_TIME_OR_NULL(o.until_us, o.until_us == 0),
            P_INT8_OR_NULL(o.for_ms, o.until_us != 0),
            P_TEXT(o.reason != NULL ? words : NULL),
            P_END,
        };

        return pgw__ask(h, PGW__SQL_QUEUE_HOLD, params);
    }
}

pgw_status pgw_queue_unhold(pgw *h, const char *queue)
{
    bool held = false;
    const pgw__param params[] = {P_TEXT(queue), P_END};
    pgw_status st = pgw__check_queue(h, queue);

    if (st == PGW_OK) st = pgw__ask_flag(h, &held, PGW__SQL_QUEUE_UNHOLD, params, PGW__WRITES);
    return st == PGW_OK && !held ? PGW_OUTCOME_EMPTY : st;
}

pgw_status pgw_queue_limit(pgw *h, const char *queue, int limit)
{
    const pgw__param params[] = {P_TEXT(queue), P_INT4_OR_NULL(limit, limit == PGW_UNLIMITED),
                                 P_END};
    pgw_status st = pgw__check_queue(h, queue);

    if (st == PGW_OK && limit != PGW_UNLIMITED) st = pgw__check_int(h, "limit", limit, 1, 10000);
    return st == PGW_OK ? pgw__ask(h, PGW__SQL_QUEUE_LIMIT, params) : st;
}

pgw_status pgw_queue_semaphore(pgw *h, const char *queue, const char *semaphore)
{
    const pgw__param params[] = {P_TEXT(queue), P_TEXT(semaphore), P_END};
    pgw_status st = pgw__check_queue(h, queue);

    if (st == PGW_OK && semaphore != NULL) st = pgw__check_any_name(h, "semaphore", semaphore);
    return st == PGW_OK ? pgw__ask(h, PGW__SQL_QUEUE_SEMAPHORE, params) : st;
}

/* ---- the end of jobs and queues ---- */

static pgw_status queue_purge(pgw *h, int64_t *deleted, const char *queue, const char *state)
{
    const pgw__param params[] = {P_TEXT(queue), P_TEXT(state), P_END};

    return pgw__ask_in_pieces(h, deleted, PGW_UNLIMITED, PGW__SQL_QUEUE_PURGE, params);
}

pgw_status pgw_queue_purge(pgw *h, const char *queue, pgw_state state, int64_t *deleted)
{
    pgw_status st;

    if (deleted != NULL) *deleted = 0;
    st = pgw__check_queue(h, queue);
    if (st == PGW_OK && (pgw_state_name(state) == NULL || state == PGW_STATE_LEASED ||
                         state == PGW_STATE_GATED || state == PGW_STATE_CANCELLED))
        st = pgw__pq_refuse(h, "state", pgw_state_name(state), "ready, delayed, dead, done, all");
    return st == PGW_OK ? queue_purge(h, deleted, queue, pgw_state_name(state)) : st;
}

pgw_status pgw_queue_drop(pgw *h, const char *queue, bool force)
{
    const pgw__param params[] = {P_TEXT(queue), P_BOOL(force), P_END};
    pgw_status st = pgw__check_queue(h, queue);

    if (st == PGW_OK && force) st = queue_purge(h, NULL, queue, "all"); /* millions take long */
    return st == PGW_OK ? pgw__ask(h, PGW__SQL_QUEUE_DROP, params) : st;
}

/* ---- counts ---- */

/* Seven columns from col on, in the order of pgw_depth. */
static void queue_depth_from(pgw_depth *depth, const pgw__rows *rows, int row, int col)
{
    depth->ready = pgw__rows_int(rows, row, col);
    depth->leased = pgw__rows_int(rows, row, col + 1);
    depth->delayed = pgw__rows_int(rows, row, col + 2);
    depth->gated = pgw__rows_int(rows, row, col + 3);
    depth->dead = pgw__rows_int(rows, row, col + 4);
    depth->done = pgw__rows_int(rows, row, col + 5);
    depth->oldest_ms = pgw__rows_int(rows, row, col + 6);
}

typedef struct queue_depth_ctx {
    pgw_depth *depth;
} queue_depth_ctx;

static pgw_status queue_read_depth(pgw *h, const pgw__rows *rows, void *ctx)
{
    const queue_depth_ctx *in = ctx;
    const pgw_status st = pgw__ask_rows(h, rows, 1);

    pgw_depth depth = PGW_DEPTH_INIT;

    if (st != PGW_OK) return st;
    queue_depth_from(&depth, rows, 0, 0);
    pgw__fill(in->depth, &depth, sizeof(depth));
    return PGW_OK;
}

pgw_status pgw_queue_depth(pgw *h, const char *queue, int64_t at_most, pgw_depth *depth)
{
    const queue_depth_ctx ctx = {depth};
    const pgw__param params[] = {P_TEXT(queue), P_INT8_OR_NULL(at_most, at_most == PGW_UNLIMITED),
                                 P_END};
    const pgw__call call = {
        .sql = PGW__SQL_QUEUE_DEPTH,
        .params = params,
        .read = queue_read_depth,
        .ctx = &ctx,
        .ctx_size = sizeof(ctx),
    };
    pgw_status st;

    st = pgw__check_filled(h, "depth", depth);
    if (st == PGW_OK) st = pgw__check_queue(h, queue);
    if (st == PGW_OK) st = pgw__check_limit(h, "at_most", at_most);
    return st == PGW_OK ? pgw__pq_call(h, &call) : st;
}

typedef struct queue_each {
    int (*fn)(const pgw_queue_info *info, void *arg);
    void *arg;
} queue_each;

static pgw_expired queue_expired_from(const char *word)
{
    return word != NULL && strcmp(word, queue_expired[PGW_EXPIRED_DROP]) == 0 ? PGW_EXPIRED_DROP
                                                                              : PGW_EXPIRED_DEAD;
}

/* Columns: name, paused, draining, the settings and the depth in the order of their structs, the
 * hold, the limits. */
static pgw_status queue_read_each(pgw *h, const pgw__rows *rows, void *ctx)
{
    const queue_each *each = ctx;
    const int count = pgw__rows_count(rows);
    int row, stop = 0;

    (void)h;
    for (row = 0; row < count && stop == 0; row++) {
        pgw_queue_opts opts = PGW_QUEUE_OPTS_INIT;
        pgw_depth depth = PGW_DEPTH_INIT;
        pgw_queue_info info = {.struct_size = sizeof(info), .opts = &opts, .depth = &depth};
        pgw_rate_opts rate;

        info.name = pgw__rows_text(rows, row, 0, NULL);
        info.paused = pgw__rows_int(rows, row, 1) != 0;
        info.draining = pgw__rows_int(rows, row, 2) != 0;
        opts.lease_ms = pgw__rows_int(rows, row, 3);
        opts.backoff_ms = pgw__rows_int(rows, row, 4);
        opts.backoff_cap_ms = pgw__rows_int(rows, row, 5);
        opts.retention_ms = pgw__rows_int(rows, row, 6);
        opts.max_attempts = (int)pgw__rows_int(rows, row, 7);
        opts.max_bytes = (int)pgw__rows_int(rows, row, 8);
        opts.notify = pgw__rows_int(rows, row, 9) != 0 ? PGW_SWITCH_ON : PGW_SWITCH_OFF;
        opts.expired = queue_expired_from(pgw__rows_text(rows, row, 10, NULL));
        opts.dead_retention_ms = pgw__rows_int(rows, row, 11);
        opts.payload_visible = pgw__rows_int(rows, row, 12) != 0 ? PGW_SWITCH_ON : PGW_SWITCH_OFF;
        queue_depth_from(&depth, rows, row, 13);
        info.held_until_us = pgw__rows_null(rows, row, 20) ? 0 : pgw__rows_time_us(rows, row, 20);
        info.hold_reason = pgw__rows_text(rows, row, 21, NULL);
        info.limit =
            pgw__rows_null(rows, row, 22) ? PGW_UNLIMITED : (int)pgw__rows_int(rows, row, 22);
        info.rate = pgw__ask_rate(&rate, rows, row, 23);
        info.next_us = pgw__rows_time_us(rows, row, 26);
        info.semaphore = pgw__rows_text(rows, row, 27, NULL);
        stop = each->fn(&info, each->arg);
    }
    return count > 0 ? PGW_OK : PGW_OUTCOME_EMPTY;
}

pgw_status pgw_queues_each(pgw *h, const pgw_queues_opts *opts,
                           int (*fn)(const pgw_queue_info *info, void *arg), void *arg)
{
    const queue_each ctx = {fn, arg};
    pgw_queues_opts o = PGW_QUEUES_OPTS_INIT;
    pgw_status st;

    if (fn == NULL) return pgw__check_given(h, "fn", NULL);
    st = pgw__check_opts(h, "opts", &o, sizeof(o), opts);
    if (st == PGW_OK && o.queue != NULL) st = pgw__check_queue(h, o.queue);
    if (st == PGW_OK) st = pgw__check_limit(h, "opts->at_most", o.at_most);
    if (st != PGW_OK) return st;
    {
        const pgw__param params[] = {P_INT8_OR_NULL(o.at_most, o.at_most == PGW_UNLIMITED),
                                     P_TEXT(o.queue), P_END};
        const pgw__call call = {
            .sql = PGW__SQL_QUEUE_EACH,
            .params = params,
            .read = queue_read_each,
            .ctx = &ctx,
            .ctx_size = sizeof(ctx),
        };

        return pgw__pq_call(h, &call);
    }
}
