/* SPDX-License-Identifier: PostgreSQL
 *
 * pgwork stats: counts jobs by state, once or repeatedly.
 */
#include <stdio.h>
#include <string.h>

#include "opts.h"
#include "out.h"
#include "signals.h"
#include "term.h"
#include "text.h"

typedef struct sample {
    bool json;
    int64_t now_us;
    const args *only; /* these queues; if empty: all */
    bool *seen;
    table rows;
} sample;

static int stats_each(const pgw_queue_info *q, void *arg)
{
    sample *s = arg;
    const pgw_depth *d = q->depth;
    char text[CLI_QUEUE_STATE];
    bool wanted = s->only->count == 0;
    for (int i = 0; i < s->only->count; i++) {
        if (strcmp(s->only->at[i], q->name) == 0) wanted = s->seen[i] = true;
    }
    if (!wanted) return 0;
    if (s->json) {
        out o;
        out_begin(&o);
        out_time(&o, "time", s->now_us);
        out_text(&o, "queue", q->name);
        out_text(&o, "state", cli_queue_word(q, NULL));
        out_int(&o, "ready", d->ready);
        out_int(&o, "leased", d->leased);
        out_int(&o, "delayed", d->delayed);
        out_int(&o, "gated", d->gated);
        out_int(&o, "dead", d->dead);
        out_int(&o, "done", d->done);
        out_int(&o, "oldest_ms", d->oldest_ms);
        out_end(&o);
        return 0;
    }
    table_text(&s->rows, q->name);
    table_text(&s->rows, cli_queue_word(q, text));
    table_int(&s->rows, d->ready);
    table_int(&s->rows, d->leased);
    table_int(&s->rows, d->delayed);
    table_int(&s->rows, d->gated);
    table_int(&s->rows, d->dead);
    table_int(&s->rows, d->done);
    table_age(&s->rows, d->oldest_ms ? d->oldest_ms : -1);
    return 0;
}

static int stats_once(cli *c, const args *a, int64_t at_most, bool redraw)
{
    static const char *const headings[] = {"QUEUE",  "STATE", "READY>", "LEASED>", "DELAYED>",
                                           "GATED>", "DEAD>", "DONE>",  "OLDEST>"};
    bool seen[64] = {false};
    char now[TEXT_TIME];
    sample s = {.json = c->json, .now_us = text_now_us(), .only = a, .seen = seen};
    table_begin(&s.rows, headings, sizeof headings / sizeof *headings);
    pgw_queues_opts counts = PGW_QUEUES_OPTS_INIT;
    counts.at_most = cli_limit(at_most);
    pgw_status st = pgw_queues_each(c->h, &counts, stats_each, &s);
    if (redraw && !c->json && term_home()) printf("%.19sZ\n\n", text_time(now, s.now_us));
    table_end(&s.rows);
    if (st < 0) return cli_fail_at(c->h);
    int code = cli_code(st);
    for (int i = 0; i < a->count; i++) {
        if (seen[i]) continue;
        code = cli_fail(CLI_NOTHING, "`pgwork queue list` lists all queues",
                        "there is no queue \"%s\"", a->at[i]);
    }
    return cli_finish(code);
}

int cmd_stats(cli *c, int argc, char **argv)
{
    bool watch = false;
    int64_t at_most = 0, interval_ms = 0;
    int count = 0;
    const opt opts[] = {
        {'w', "watch", NULL, "repeat until interrupted", .flag = &watch},
        {'i', "interval", "TIME", "time between two counts (2s)", .ms = &interval_ms, .min = 100,
         .max = 86400000},
        {'n', "count", "N", "with --watch: end after N counts (0: never)", .number = &count},
        {0, "at-most", "N", "count up to N jobs (0: all)", .big = &at_most},
        {.name = NULL}};
    static const usage use = {
        .synopsis = "stats [QUEUE...] [--at-most N] [--watch [-i TIME] [-n N]]",
        .about = "Counts the jobs of each queue by state. OLDEST is how long the oldest ready job\n"
                 "has waited.",
        .more = "Ends with 1 when there are no queues, or when a named queue does not exist.",
        .max = 64,
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if (!watch && (interval_ms || count))
        return cli_fail(CLI_USAGE, NULL, "%s: -i and -n are for --watch", c->command);
    if (interval_ms == 0) interval_ms = 2000;
    if (watch && (code = signals_install(c)) != CLI_DONE) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    if (!watch) return stats_once(c, &a, at_most, false);
    for (int updates = 1;; updates++) {
        code = stats_once(c, &a, at_most, true);
        if (pgw_stop_count(c->stop) > 0) return signals_code();
        /* try again after a lost connection, not after another error */
        if (code > CLI_NOTHING && code != CLI_SERVER) return code;
        if (count && updates == count) return code;
        if (!signals_sleep(c, interval_ms)) return signals_code();
    }
}
