/* SPDX-License-Identifier: PostgreSQL
 *
 * pgwork bulk, pgwork log: one operation on all jobs that match a filter, and a log of them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "filter.h"
#include "opts.h"
#include "out.h"
#include "signals.h"
#include "text.h"

static int bulk_report(cli *c, const char *what, pgw_status st, const pgw_bulk_opts *o, int64_t n,
                       bool more)
{
    int code = st < 0 ? signals_failed(c, st) : CLI_DONE;
    if (code == CLI_DONE && o->dry_run) {
        if (c->json) {
            out t;
            out_begin(&t);
            out_int(&t, "would", n);
            out_bool(&t, "more", more);
            out_end(&t);
        }
        cli_say(c, "would %s %s%" PRId64 " job%s", what, more ? "at least " : "", n,
                n == 1 ? "" : "s");
    } else {
        cli_report_done(c, code, "changed", n, "changed", "job");
    }
    return code == CLI_DONE && n == 0 && !more ? CLI_NOTHING : code;
}

static int bulk_run(cli *c, int argc, char **argv, pgw_bulk_verb kind, const usage *use)
{
    filter which = FILTER_INIT;
    pgw_bulk_opts o = PGW_BULK_OPTS_INIT;
    bool all = false, more = false;
    int64_t n = 0, limit = 0;
    const opt opts[] = {
        FILTER_OPTS(&which),
        {0, "all", NULL, "all jobs of the queue that the verb applies to", .flag = &all},
        {0, "dry-run", NULL, "change nothing, only count", .flag = &o.dry_run},
        {'n', "limit", "N", "at most N jobs, the oldest first (0: all)", .big = &limit},
        {0, "delay", "TIME", "reschedule: ready TIME from now", .ms = &o.delay_ms,
         .max = 10 * CLI_YEAR},
        {0, "run-at", "WHEN", "reschedule: ready at WHEN, such as 2030-01-31T12:00:00Z",
         .time_us = &o.run_at_us},
        {0, "to", "QUEUE", "move: the target queue", .text = &o.to},
        {'p', "priority", "N", "priority: 0 (first) to 9 (last)", .number = &o.priority, .min = 0,
         .max = 9},
        {.name = NULL}};
    args a;
    int code = opts_parse(c, &a, use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    which.f.queue = a.at[0];
    code = opts_which(c, all != (which.state || which.f.kind || filter_searches(&which)),
                      "a filter, or --all without one");
    if (code != CLI_DONE) return code;
    if ((code = filter_settle(c, &which)) != CLI_DONE) return code;
    o.verb = kind, o.filter = &which.f, o.limit = cli_limit(limit);
    if ((code = signals_open(c)) != CLI_DONE) return code;
    pgw_status st = pgw_bulk(c->h, &o, &n, &more);
    return cli_finish(bulk_report(c, strrchr(c->command, ' ') + 1, st, &o, n, more));
}

#define BULK_USAGE(verb, what)                                                                \
    static const usage use = {                                                                \
        .synopsis = "bulk " verb " QUEUE FILTER|--all [--dry-run] [-n N]",                    \
        .about = what,                                                                        \
        .more = "Works in batches of 10,000 jobs. `pgwork log` shows who changed what. Ends " \
                "with 1 when no job\nmatches.",                                               \
        .min = 1,                                                                             \
        .max = 1,                                                                             \
        .missing = "QUEUE",                                                                   \
    }

static int bulk_cancel(cli *c, int argc, char **argv)
{
    BULK_USAGE("cancel", "Removes waiting jobs, and asks the holders of leased ones to stop.");
    return bulk_run(c, argc, argv, PGW_BULK_CANCEL, &use);
}

static int bulk_redrive(cli *c, int argc, char **argv)
{
    BULK_USAGE("redrive", "Makes dead letters ready again, with a fresh count of attempts.");
    return bulk_run(c, argc, argv, PGW_BULK_REDRIVE, &use);
}

static int bulk_reschedule(cli *c, int argc, char **argv)
{
    BULK_USAGE("reschedule",
               "Moves delayed jobs to another time. Without --delay and --run-at they "
               "become ready\nat once.");
    return bulk_run(c, argc, argv, PGW_BULK_RESCHEDULE, &use);
}

static int bulk_purge(cli *c, int argc, char **argv)
{
    BULK_USAGE("purge",
               "Deletes jobs of the state -s: ready, gated, delayed, dead, done or cancelled.");
    return bulk_run(c, argc, argv, PGW_BULK_PURGE, &use);
}

static int bulk_move(cli *c, int argc, char **argv)
{
    BULK_USAGE("move",
               "Moves ready, gated and delayed jobs, and dead letters, to the queue --to. They "
               "keep\ntheir ids.");
    return bulk_run(c, argc, argv, PGW_BULK_MOVE, &use);
}

static int bulk_priority(cli *c, int argc, char **argv)
{
    BULK_USAGE("priority",
               "Gives ready, gated and delayed jobs, and dead letters, the priority -p.");
    return bulk_run(c, argc, argv, PGW_BULK_PRIORITY, &use);
}

int cmd_bulk(cli *c, int argc, char **argv)
{
    static const verb verbs[] = {{"cancel", "", bulk_cancel},
                                 {"redrive", "", bulk_redrive},
                                 {"reschedule", "", bulk_reschedule},
                                 {"purge", "", bulk_purge},
                                 {"move", "", bulk_move},
                                 {"priority", "", bulk_priority},
                                 {NULL, NULL, NULL}};
    static const usage use = {
        .synopsis = "bulk VERB QUEUE FILTER|--all [--dry-run] [-n N]",
        .about = "Applies one operation to all jobs of a queue that match a filter: -s STATE, -k "
                 "KIND, -t TAG,\n"
                 "--key, --group, --holder, --error, --older-than, --newer-than. --dry-run only "
                 "counts jobs.\n\n"
                 "  cancel      remove waiting jobs, ask running ones to stop\n"
                 "  redrive     make dead letters ready again\n"
                 "  reschedule  move delayed jobs to another time: --delay, --run-at\n"
                 "  purge       delete jobs of one state\n"
                 "  move        move jobs to another queue: --to\n"
                 "  priority    change the priority: -p",
        .missing = "cancel, redrive, reschedule, purge, move or priority",
    };
    return opts_dispatch(c, &use, verbs, NULL, argc, argv);
}

/* -- the log -------------------------------------------------------------------------------- */

typedef struct listing {
    bool json;
    table rows;
} listing;

static int log_each(const pgw_log_info *l, void *arg)
{
    listing *t = arg;
    char when[TEXT_TIME];
    if (t->json) {
        out o;
        out_begin(&o);
        out_time(&o, "at", l->at_us);
        out_text(&o, "who", l->who);
        out_text(&o, "verb", l->verb);
        out_json(&o, "filter", l->filter);
        out_json(&o, "change", l->change);
        out_int(&o, "jobs", l->n);
        out_end(&o);
        return 0;
    }
    table_text(&t->rows, text_time(when, l->at_us));
    table_text(&t->rows, l->who);
    table_text(&t->rows, l->verb);
    table_int(&t->rows, l->n);
    table_text(&t->rows, l->filter);
    table_text(&t->rows, l->change);
    return 0;
}

int cmd_log(cli *c, int argc, char **argv)
{
    int limit = 100;
    const opt opts[] = {{'n', "limit", "N", "list up to N operations (100)", .number = &limit,
                         .min = 1, .max = 100000},
                        {.name = NULL}};
    static const usage use = {
        .synopsis = "log [-n N]",
        .about =
            "Lists bulk operations of the last 90 days, the newest first: time, role, verb, number "
            "of jobs,\nfilter and change.",
        .more = "Ends with 1 when there are none.",
    };
    static const char *const headings[] = {"AT", "WHO", "VERB", "JOBS>", "FILTER", "CHANGE"};
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    listing l = {.json = c->json};
    table_begin(&l.rows, headings, sizeof headings / sizeof *headings);
    pgw_status st = pgw_log_each(c->h, limit, log_each, &l);
    table_end(&l.rows);
    return cli_listed(c, st, NULL);
}
