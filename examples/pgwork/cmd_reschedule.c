/* SPDX-License-Identifier: PostgreSQL
 *
 * pgwork reschedule: moves delayed jobs to another time, or makes them ready.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "opts.h"
#include "out.h"
#include "signals.h"

static int reschedule_report(const cli *c, pgw_status st, const char *queue,
                             const pgw_reschedule_opts *o, int64_t moved)
{
    int code = st < 0 ? signals_failed(c, st) : CLI_DONE;
    cli_report_done(c, code, "moved", moved, "rescheduled", "delayed job");
    if (st >= 0 && moved < (int64_t)o->ids_count) {
        code = cli_ids_not(
            "delayed job", queue, o->ids, o->ids_count, moved,
            "`pgwork show ID` shows the state of a job; `pgwork retry` makes dead letters ready");
    } else if (st >= 0 && moved == 0) {
        code = CLI_NOTHING;
    }
    return cli_finish(code);
}

int cmd_reschedule(cli *c, int argc, char **argv)
{
    pgw_reschedule_opts o = PGW_RESCHEDULE_OPTS_INIT;
    bool all = false;
    int64_t moved = 0, *ids;
    const opt opts[] = {
        {'k', "kind", "KIND", "delayed jobs of this kind", .text = &o.kind},
        {0, "all", NULL, "all delayed jobs of the queue", .flag = &all},
        {'n', "limit", "N", "at most N jobs, the oldest first (0: all)", .big = &o.limit},
        {0, "delay", "TIME", "ready TIME from now", .ms = &o.delay_ms, .max = 10 * CLI_YEAR},
        {0, "run-at", "WHEN", "ready at WHEN, such as 2030-01-31T12:00:00Z",
         .time_us = &o.run_at_us},
        {.name = NULL}};
    static const usage use = {
        .synopsis = "reschedule QUEUE ID... [--delay TIME | --run-at WHEN]\n"
                    "reschedule QUEUE -k KIND|--all [-n N] [--delay TIME | --run-at WHEN]",
        .about = "Moves delayed jobs to another time, including jobs that failed and wait for\n"
                 "their next attempt. Without --delay and --run-at they become ready at once.\n"
                 "Attempts are not changed.",
        .more = "Ends with 1 when there are no such jobs, or when an ID is not a delayed job.",
        .min = 1,
        .max = -1,
        .missing = "QUEUE",
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    o.ids_count = (size_t)a.count - 1;
    code = opts_which(c, (o.ids_count > 0) + (o.kind != NULL) + all == 1, "ID, or -k, or --all");
    if (code != CLI_DONE) return code;
    if (o.ids_count > 0 && o.limit > 0) {
        return cli_fail(CLI_USAGE, NULL, "%s: -n is for -k and --all, not for ID", c->command);
    }
    o.limit = cli_limit(o.limit);
    if (o.run_at_us && o.delay_ms) {
        return cli_fail(CLI_USAGE, NULL, "%s: --run-at or --delay, not both", c->command);
    }
    if ((code = cli_ids(&ids, a.at + 1, o.ids_count)) != CLI_DONE) return code;
    o.ids_count = cli_ids_once(ids, o.ids_count); /* a repeated id would not be delayed any more */
    if (o.ids_count > 0) o.ids = ids;
    code = signals_open(c);
    if (code == CLI_DONE) {
        pgw_status st = pgw_reschedule(c->h, a.at[0], &o, &moved);
        code = reschedule_report(c, st, a.at[0], &o, moved);
    }
    free(ids);
    return code;
}
