/* SPDX-License-Identifier: PostgreSQL
 *
 * pgwork reap: the reaper, as a daemon or for one round.
 */
#include <inttypes.h>
#include <stdio.h>

#include "opts.h"
#include "out.h"
#include "sd.h"
#include "signals.h"
#include "text.h"

typedef struct service {
    const cli *c;
    pgw_conf *conf; /* the one of the last reload */
    bool ready;
    int64_t reported_ms, watchdog_ms;
    pgw_reap_stats stats;
} service;

static void reap_summary(const cli *c, const pgw_reap_stats *s)
{
    if (c->json) {
        out o;
        out_begin(&o);
        out_int(&o, "ticks", s->ticks);
        out_int(&o, "reaped", s->reaped);
        out_int(&o, "died", s->died);
        out_int(&o, "promoted", s->promoted);
        out_int(&o, "pruned", s->pruned);
        out_int(&o, "freed", s->freed);
        out_int(&o, "errors", s->errors);
        out_end(&o);
        return;
    }
    cli_say(c,
            "%" PRId64 " requeued, %" PRId64 " dead letters, %" PRId64
            " delayed jobs made ready, %" PRId64 " old jobs deleted, %" PRId64
            " rows of tables freed",
            s->reaped, s->died, s->promoted, s->pruned, s->freed);
}

static void reap_on_tick(const pgw_reap_stats *s, void *arg)
{
    service *d = arg;
    int64_t now = text_tick_ms();
    d->stats = *s;
    if (!d->ready) {
        d->ready = true;
        sd_notify("READY=1\nSTATUS=reaping");
        cli_say(d->c, "reaping");
        d->reported_ms = now;
    } else if (d->watchdog_ms && now - d->reported_ms >= d->watchdog_ms) {
        sd_notify("WATCHDOG=1");
        d->reported_ms = now;
    }
}

/* After HUP: reads --dsn-file again; libpq reads its files when it reconnects. If --dsn-file is not
 * valid, prints the error and keeps the old configuration. */
static const pgw_conf *reap_on_reload(void *arg)
{
    service *d = arg;
    pgw_conf *fresh;
    if (cli_configure(d->c, &fresh) != CLI_DONE) return NULL;
    pgw_conf_free(d->conf);
    d->conf = fresh;
    cli_say(d->c, "configuration reloaded");
    return fresh;
}

static int reap_daemon(cli *c)
{
    service d = {.c = c, .watchdog_ms = sd_watchdog_ms()};
    pgw_reaper *r;
    pgw_status st = pgw_reaper_new(c->conf, &r);
    if (st < 0) return cli_fail_with(st, NULL, NULL);
    pgw_reaper_on_tick(r, reap_on_tick, &d);
    pgw_reaper_on_reload(r, reap_on_reload, &d);
    signals_on_reload(r);
    st = pgw_reaper_run(r, c->stop);
    sd_notify("STOPPING=1");
    signals_on_reload(NULL);
    int code = CLI_DONE;
    if (st < 0) code = cli_fail_with(st, pgw_reaper_error(r), NULL);
    if (pgw_stop_count(c->stop) > 1) code = signals_code();
    pgw_reaper_free(r);
    pgw_conf_free(d.conf);
    reap_summary(c, &d.stats);
    return cli_finish(code);
}

/* Runs until nothing is due or an error occurs. A second signal ends the current statement. */
static pgw_status reap_due(const cli *c, pgw_reap_stats *stats)
{
    int64_t next_ms = 0, freed = 1;
    pgw_status st = PGW_OK;
    while (st >= 0 && next_ms == 0 && pgw_stop_count(c->stop) == 0)
        st = pgw_reaper_tick(c->h, stats, &next_ms);
    while (st >= 0 && freed > 0 && pgw_stop_count(c->stop) == 0) {
        freed = 0;
        st = pgw_tables_reap(c->h, 10000, &freed);
        if (st == PGW_ESCHEMA) st = PGW_OK; /* an older schema has no such function */
        stats->freed += freed;
    }
    return st;
}

static int reap_once(cli *c)
{
    pgw_reap_stats stats = PGW_REAP_STATS_INIT;
    int code = cli_open(c, false);
    if (code != CLI_DONE) return code;
    pgw_status st = reap_due(c, &stats);
    if (st < 0) code = signals_failed(c, st);
    reap_summary(c, &stats);
    return cli_finish(code);
}

int cmd_reap(cli *c, int argc, char **argv)
{
    bool once = false;
    const opt opts[] = {{0, "once", NULL, "do all work that is due, then end", .flag = &once},
                        {.name = NULL}};
    static const usage use = {
        .synopsis = "reap [--once]",
        .about = "Requeues jobs of expired leases, makes delayed jobs ready at their time, and\n"
                 "deletes finished jobs after their retention. Runs until TERM, INT or QUIT. On\n"
                 "HUP it reads --dsn-file, service file and password file again. Run at least one\n"
                 "reaper, better two, on different machines.",
        .more = "Under systemd it sends READY=1, WATCHDOG=1 and STOPPING=1.",
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = signals_install(c)) != CLI_DONE) return code;
    if ((code = cli_configure(c, &c->conf)) != CLI_DONE) return code;
    return once ? reap_once(c) : reap_daemon(c);
}
