/* reaper: the loop around pgw_reaper_tick(), in the shape of a PostgreSQL background worker.
 * Policy lives in the tick, which returns when to come back. The loop ticks, waits for events (the
 * server's socket, the stop, a reload), and survives what it can. It has no state that a restart
 * would lose, so its first ticks are the recovery pass, and any number of reapers may run. */
#include <stdatomic.h>
#include <stdio.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/conf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"
#include "base/wake.h"
#include "handle/handle.h"
#include "pq/pq.h"

#define REAPER_COMPONENT "reaper"
#define REAPER_ROWS_MAX  10000
#define REAPER_TABLES_MS 1000 /* time between passes over the users' tables */
#define REAPER_STUCK_MS  10   /* there is more to do, and another reaper is at it */

struct pgw_reaper {
    pgw_conf *conf;
    int64_t max_wait_ms;
    pgw__backoff trouble;
    pgw__log_told told; /* of trouble */
    pgw *h;             /* NULL: not open */
    pgw_stop *stop;
    bool ready; /* a tick went well */
    int64_t tables_due;
    pgw_reap_stats stats;
    char error[PGW__ERROR_LINE];

    pgw__wake wake;
    atomic_int reload; /* asked for, and not yet done */
    const pgw_conf *(*on_reload)(void *arg);
    void *reload_arg;
    void (*on_tick)(const pgw_reap_stats *stats, void *arg);
    void *tick_arg;
};

/* ---- birth and death ---- */

static void reaper_read_conf(pgw_reaper *r)
{
    r->max_wait_ms = pgw__conf_int(r->conf, "reaper.max_wait_ms");
    pgw__backoff_init(&r->trouble, pgw__conf_int(r->conf, "reconnect.base_ms"),
                      pgw__conf_int(r->conf, "reconnect.cap_ms"));
}

pgw_status pgw_reaper_new(const pgw_conf *conf, pgw_reaper **out)
{
    pgw_reaper *r;

    if (out == NULL) return PGW_EINVAL;
    *out = NULL;
    r = pgw__mem_zero(1, sizeof(*r));
    if (r == NULL) return PGW_ENOMEM;
    r->stats.struct_size = sizeof(r->stats);
    r->conf = pgw__conf_copy(conf);
    if (!pgw__wake_open(&r->wake) || r->conf == NULL) {
        pgw_reaper_free(r);
        return PGW_ENOMEM;
    }
    reaper_read_conf(r);
    *out = r;
    return PGW_OK;
}

void pgw_reaper_free(pgw_reaper *r)
{
    if (r == NULL) return;
    pgw__wake_close(&r->wake);
    pgw_conf_free(r->conf);
    pgw__mem_free(r);
}

const char *pgw_reaper_error(const pgw_reaper *r)
{
    return r != NULL ? r->error : "";
}

void pgw_reaper_reload(pgw_reaper *r)
{
    if (r == NULL) return;
    atomic_store(&r->reload, 1);
    pgw__wake_poke(&r->wake);
}

pgw_status pgw_reaper_on_reload(pgw_reaper *r, const pgw_conf *(*fn)(void *arg), void *arg)
{
    if (r == NULL) return PGW_EINVAL;
    r->on_reload = fn;
    r->reload_arg = arg;
    return PGW_OK;
}

pgw_status pgw_reaper_on_tick(pgw_reaper *r, void (*fn)(const pgw_reap_stats *stats, void *arg),
                              void *arg)
{
    if (r == NULL) return PGW_EINVAL;
    r->on_tick = fn;
    r->tick_arg = arg;
    return PGW_OK;
}

/* ---- the loop ---- */

static void reaper_note(pgw_reaper *r, pgw_status st)
{
    bool news;

    pgw__handle_diagnostics(r->h, r->error, sizeof(r->error));
    news = pgw__log_is_news(&r->told, r->error, pgw__clock_ms());
    PGW__LOG(pgw__conf_log(r->conf),
             pgw__status_is_hopeless(st) ? PGW_LOG_ERROR
             : news                      ? PGW_LOG_WARN
                                         : PGW_LOG_DEBUG,
             REAPER_COMPONENT, "%s", r->error);
}

static void reaper_hang_up(pgw_reaper *r)
{
    pgw_close(r->h);
    r->h = NULL;
}

/* A new configuration is a new session: nearly all of it is about sessions. */
static pgw_status reaper_heed_reload(pgw_reaper *r)
{
    const pgw_conf *given;
    pgw_conf *conf;

    if (atomic_exchange(&r->reload, 0) == 0 || r->on_reload == NULL) return PGW_OK;
    given = r->on_reload(r->reload_arg);
    if (given == NULL) return PGW_OK; /* the program has no valid configuration: keep the old one */
    conf = pgw__conf_copy(given);
    if (conf == NULL) {
        snprintf(r->error, sizeof(r->error), "out of memory for the new configuration");
        PGW__LOG(pgw__conf_log(r->conf), PGW_LOG_ERROR, REAPER_COMPONENT, "%s", r->error);
        return PGW_ENOMEM;
    }
    reaper_hang_up(r);
    pgw_conf_free(r->conf);
    r->conf = conf;
    reaper_read_conf(r);
    PGW__LOG(pgw__conf_log(r->conf), PGW_LOG_INFO, REAPER_COMPONENT, "configuration reloaded");
    return PGW_OK;
}

/* A stop is not a failure; a cancel that this process did not request is one. */
static bool reaper_failed(const pgw_reaper *r, pgw_status st)
{
    return st < 0 && (st != PGW_ECANCELED || pgw_stop_count(r->stop) == 0);
}

static pgw_status reaper_open(pgw_reaper *r)
{
    pgw_status st;

    if (r->h != NULL) return PGW_OK;
    st = pgw__handle_open(&r->h, r->conf, r->stop, 0);
    if (st >= 0) return PGW_OK;
    st = pgw__pq_in_loop(r->h, st);
    if (reaper_failed(r, st)) {
        r->stats.errors++;
        reaper_note(r, st);
    }
    reaper_hang_up(r);
    return st;
}

static int64_t reaper_work(const pgw_reap_stats *s)
{
    return s->reaped + s->died + s->promoted + s->pruned;
}

/* Rows of the users' tables. Not urgent: a claim takes expired rows without a reaper. A schema
 * without these tables, a role that may not read them, or an unreadable list of them does not keep
 * the queues from being served. */
static pgw_status reaper_tables(pgw_reaper *r)
{
    int64_t freed = 0, batch = pgw__conf_int(r->conf, "reaper.batch");
    pgw_status st;

    if (pgw__deadline_left_ms(r->tables_due) > 0) return PGW_OK;
    st = pgw_tables_reap(r->h, batch < REAPER_ROWS_MAX ? (int)batch : REAPER_ROWS_MAX, &freed);
    r->tables_due = pgw__deadline_in(REAPER_TABLES_MS); /* the queues' turn, however long it took */
    r->stats.freed += freed;
    st = pgw__pq_in_loop(r->h, st);
    return st == PGW_ESCHEMA || st == PGW_EPERM || st == PGW_EPROTO ? PGW_OK : st;
}

/* One tick. *wait_ms: when to come back. */
static pgw_status reaper_tick(pgw_reaper *r, int64_t *wait_ms)
{
    const int64_t before = reaper_work(&r->stats);
    pgw_status st = reaper_open(r);

    if (st >= 0) {
        st = pgw_reaper_tick(r->h, &r->stats, wait_ms);
        st = pgw__pq_in_loop(r->h, st);
        if (st >= 0) {
            st = reaper_tables(r);
            r->stats.errors += reaper_failed(r, st);
        }
        if (reaper_failed(r, st)) reaper_note(r, st);
    }
    if (st < 0) {
        *wait_ms = pgw__backoff_next_ms(&r->trouble);
        return st;
    }
    pgw__backoff_reset(&r->trouble);
    r->told = (pgw__log_told){0};
    if (!r->ready)
        PGW__LOG(pgw__conf_log(r->conf), PGW_LOG_INFO, REAPER_COMPONENT,
                 "ready; the first pass requeued %lld jobs",
                 (long long)(r->stats.reaped + r->stats.died));
    r->ready = true;
    if (*wait_ms == 0 && reaper_work(&r->stats) == before) *wait_ms = REAPER_STUCK_MS;
    if (*wait_ms < 0 || *wait_ms > r->max_wait_ms) *wait_ms = r->max_wait_ms;
    if (r->on_tick != NULL) r->on_tick(&r->stats, r->tick_arg);
    return PGW_OK;
}

static void reaper_wait(pgw_reaper *r, int64_t wait_ms, bool well)
{
    struct pollfd fds[2] = {{r->wake.read_fd, POLLIN, 0}, {pgw_stop_fd(r->stop), POLLIN, 0}};
    pgw_status st = PGW_OK;

    if (wait_ms == 0) return;
    if (well) st = pgw__pq_wait(r->h, wait_ms, r->wake.read_fd);
    if (st < 0 && st != PGW_ECANCELED) { /* the session was lost; the next tick opens another */
        r->stats.errors++;
        reaper_note(r, st);
        wait_ms = pgw__backoff_next_ms(&r->trouble);
    }
    if (!well || st < 0) pgw__deadline_poll(fds, 2, pgw__deadline_in(wait_ms));
    pgw__wake_drain(&r->wake);
}

pgw_status pgw_reaper_run(pgw_reaper *r, pgw_stop *stop)
{
    pgw_status st = PGW_OK;

    if (r == NULL) return PGW_EINVAL;
    r->stop = stop;
    r->error[0] = '\0';
    r->ready = false;
    while (pgw_stop_count(stop) == 0) {
        int64_t wait_ms = 0;

        st = reaper_heed_reload(r);
        if (st >= 0) st = reaper_tick(r, &wait_ms);
        if (pgw__status_is_hopeless(st)) break;
        reaper_wait(r, wait_ms, st >= 0);
    }
    reaper_hang_up(r);
    return pgw__status_is_hopeless(st) ? st : PGW_OK;
}
