/* SPDX-License-Identifier: PostgreSQL
 *
 * pgwork queue: lists, creates, configures and removes queues.
 */
#include <stdlib.h>
#include <string.h>

#include "opts.h"
#include "out.h"
#include "signals.h"

static const opt queue_no_options[] = {{.name = NULL}};

static void queue_out_depth(out *o, const pgw_depth *d)
{
    out_int(o, "ready", d->ready);
    out_int(o, "leased", d->leased);
    out_int(o, "delayed", d->delayed);
    out_int(o, "gated", d->gated);
    out_int(o, "dead", d->dead);
    out_int(o, "done", d->done);
    out_int(o, "oldest_ms", d->oldest_ms);
}

typedef struct listing {
    bool json;
    table rows;
} listing;

static int queue_each(const pgw_queue_info *q, void *arg)
{
    listing *l = arg;
    char text[CLI_QUEUE_STATE];
    const char *state = cli_queue_state(q, text);
    if (l->json) {
        out o;
        out_begin(&o);
        out_text(&o, "queue", q->name);
        out_bool(&o, "paused", q->paused);
        out_bool(&o, "draining", q->draining);
        out_time(&o, "held_until", q->held_until_us);
        out_text(&o, "hold_reason", q->hold_reason);
        if (q->limit == PGW_UNLIMITED)
            out_json(&o, "limit", NULL);
        else
            out_int(&o, "limit", q->limit);
        out_rate(&o, q->rate);
        out_time(&o, "next_at", q->next_us);
        out_text(&o, "semaphore", q->semaphore);
        queue_out_depth(&o, q->depth);
        out_int(&o, "lease_ms", q->opts->lease_ms);
        out_int(&o, "max_attempts", q->opts->max_attempts);
        out_int(&o, "backoff_ms", q->opts->backoff_ms);
        out_int(&o, "backoff_cap_ms", q->opts->backoff_cap_ms);
        out_int(&o, "retention_ms", q->opts->retention_ms);
        out_int(&o, "dead_retention_ms", q->opts->dead_retention_ms);
        out_int(&o, "max_bytes", q->opts->max_bytes);
        out_bool(&o, "notify", q->opts->notify == PGW_SWITCH_ON);
        out_text(&o, "expired", q->opts->expired == PGW_EXPIRED_DROP ? "drop" : "dead");
        out_bool(&o, "payload_visible", q->opts->payload_visible == PGW_SWITCH_ON);
        out_end(&o);
        return 0;
    }
    table_text(&l->rows, q->name);
    table_text(&l->rows, state ? state : "open");
    table_int(&l->rows, q->depth->ready);
    table_int(&l->rows, q->depth->leased);
    table_int(&l->rows, q->depth->delayed);
    table_int(&l->rows, q->depth->gated);
    table_int(&l->rows, q->depth->dead);
    table_age(&l->rows, q->depth->oldest_ms ? q->depth->oldest_ms : -1);
    table_age(&l->rows, q->opts->lease_ms);
    if (q->opts->max_attempts == PGW_UNLIMITED) {
        table_text(&l->rows, "unlimited");
    } else {
        table_int(&l->rows, q->opts->max_attempts);
    }
    table_age(&l->rows, q->opts->retention_ms ? q->opts->retention_ms : -1);
    if (q->limit == PGW_UNLIMITED)
        table_text(&l->rows, NULL);
    else
        table_int(&l->rows, q->limit);
    table_text(&l->rows, q->semaphore);
    table_rate(&l->rows, q->rate);
    return 0;
}

static int queue_list(cli *c, int argc, char **argv)
{
    int64_t at_most = 0;
    const opt opts[] = {{0, "at-most", "N", "count up to N jobs (0: all)", .big = &at_most},
                        {.name = NULL}};
    static const usage use = {
        .synopsis = "queue list [--at-most N]",
        .about = "Lists all queues with their counts and settings. STATE is open, paused (no\n"
                 "claims), held until a time (no claims until then), draining (no enqueues) or\n"
                 "closed (neither). LIMIT, SEMAPHORE and RATE are those of `queue limit`,\n"
                 "`queue semaphore` and `queue rate`.",
        .more = "Ends with 1 when there are none.",
    };
    static const char *const headings[] = {
        "QUEUE",   "STATE",  "READY>",    "LEASED>",    "DELAYED>", "GATED>",    "DEAD>",
        "OLDEST>", "LEASE>", "ATTEMPTS>", "RETENTION>", "LIMIT>",   "SEMAPHORE", "RATE"};
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    listing l = {.json = c->json};
    table_begin(&l.rows, headings, sizeof headings / sizeof *headings);
    pgw_queues_opts counts = PGW_QUEUES_OPTS_INIT;
    counts.at_most = cli_limit(at_most);
    pgw_status st = pgw_queues_each(c->h, &counts, queue_each, &l);
    table_end(&l.rows);
    return cli_listed(c, st, "there are no queues yet");
}

static int queue_switch(cli *c, const char *name, const char *text, pgw_switch *value)
{
    if (!text) return CLI_DONE;
    *value = strcmp(text, "on") == 0 ? PGW_SWITCH_ON : PGW_SWITCH_OFF;
    if (*value == PGW_SWITCH_ON || strcmp(text, "off") == 0) return CLI_DONE;
    return cli_fail(CLI_USAGE, NULL, "%s: --%s is \"%s\": expected on or off", c->command, name,
                    text);
}

static int queue_expired(cli *c, const char *text, pgw_expired *value)
{
    if (!text) return CLI_DONE;
    *value = strcmp(text, "drop") == 0 ? PGW_EXPIRED_DROP : PGW_EXPIRED_DEAD;
    if (*value == PGW_EXPIRED_DROP || strcmp(text, "dead") == 0) return CLI_DONE;
    return cli_fail(CLI_USAGE, NULL, "%s: --expired is \"%s\": expected dead or drop", c->command,
                    text);
}

static int queue_configure(cli *c, int argc, char **argv, const usage *use,
                           pgw_status (*apply)(pgw *, const char *, const pgw_queue_opts *))
{
    pgw_queue_opts q = PGW_QUEUE_OPTS_INIT;
    const char *notify = NULL, *expired = NULL, *visible = NULL;
    const opt opts[] = {
        {0, "lease", "TIME", "lease of jobs that have none (30s)", .ms = &q.lease_ms, .min = 100,
         .max = CLI_DAY},
        {0, "max-attempts", "N", "failed attempts until a dead letter (10)",
         .number = &q.max_attempts, .min = 1, .max = 1000, .unlimited = true},
        {0, "backoff", "TIME", "first retry within TIME; doubles each time (1s)",
         .ms = &q.backoff_ms, .min = 0, .max = CLI_YEAR},
        {0, "backoff-cap", "TIME", "largest backoff (1h)", .ms = &q.backoff_cap_ms, .min = 0,
         .max = CLI_YEAR},
        {0, "retention", "TIME", "keep finished jobs for TIME; 0: keep none (0)",
         .ms = &q.retention_ms, .min = 0, .max = 100 * CLI_YEAR},
        {0, "dead-retention", "TIME", "keep dead letters so long (unlimited)",
         .ms = &q.dead_retention_ms, .min = 1, .max = 100 * CLI_YEAR, .unlimited = true},
        {0, "max-bytes", "N", "limit of payload, body and meta together (16777216)",
         .number = &q.max_bytes, .min = 1, .max = 268435455},
        {0, "notify", "on|off", "wake up waiting workers (on)", .text = &notify},
        {0, "expired", "dead|drop", "a job not started in time: dead letter, or dropped (dead)",
         .text = &expired},
        {0, "payload-visible", "on|off", "viewers see payloads (off)", .text = &visible},
        {.name = NULL}};
    args a;
    int code = opts_parse(c, &a, use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = queue_switch(c, "notify", notify, &q.notify)) != CLI_DONE) return code;
    if ((code = queue_expired(c, expired, &q.expired)) != CLI_DONE) return code;
    code = queue_switch(c, "payload-visible", visible, &q.payload_visible);
    if (code != CLI_DONE) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    return apply(c->h, a.at[0], &q) < 0 ? cli_fail_at(c->h) : CLI_DONE;
}

static int queue_create(cli *c, int argc, char **argv)
{
    static const usage use = {
        .synopsis = "queue create NAME [OPTIONS]",
        .about = "Creates a queue, or changes the given settings of an existing one. TIME is\n"
                 "500ms, 30s, 5m, 2h, 1d or 1h30m. A number without a unit is in seconds.",
        .min = 1,
        .max = 1,
        .missing = "NAME",
    };
    return queue_configure(c, argc, argv, &use, pgw_queue_create);
}

static int queue_set(cli *c, int argc, char **argv)
{
    static const usage use = {
        .synopsis = "queue set NAME [OPTIONS]",
        .about = "Changes the given settings of a queue.",
        .min = 1,
        .max = 1,
        .missing = "NAME",
    };
    return queue_configure(c, argc, argv, &use, pgw_queue_set);
}

static int queue_apply(cli *c, int argc, char **argv, const usage *use,
                       pgw_status (*apply)(pgw *, const char *))
{
    args a;
    int code = opts_parse(c, &a, use, queue_no_options, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    return cli_each(c, a.at, a.count, apply);
}

static int queue_pause(cli *c, int argc, char **argv)
{
    static const usage use = {
        .synopsis = "queue pause NAME...",
        .about = "Stops claims. Enqueues go on.",
        .min = 1,
        .max = -1,
        .missing = "NAME",
    };
    return queue_apply(c, argc, argv, &use, pgw_queue_pause);
}

static int queue_hold(cli *c, int argc, char **argv)
{
    pgw_queue_hold_opts o = PGW_QUEUE_HOLD_OPTS_INIT;
    const opt opts[] = {{0, "for", "TIME", "hold the queue for TIME from now", .ms = &o.for_ms,
                         .min = 1, .max = 10 * CLI_YEAR},
                        {0, "until", "WHEN", "hold it until WHEN, such as 2030-01-31T12:00:00Z",
                         .time_us = &o.until_us},
                        {0, "reason", "TEXT", "the reason, for people", .text = &o.reason},
                        {.name = NULL}};
    static const usage use = {
        .synopsis = "queue hold NAME --for TIME|--until WHEN [--reason TEXT]",
        .about = "Stops claims until a time. Enqueues go on. If the queue is held already, the "
                 "later end counts.",
        .min = 1,
        .max = 1,
        .missing = "NAME",
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if (!o.for_ms == !o.until_us)
        return cli_fail(CLI_USAGE, NULL, "%s: --for or --until, one of the two", c->command);
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    pgw_status st = pgw_queue_hold(c->h, a.at[0], &o);
    return st < 0 ? cli_fail_at(c->h) : CLI_DONE;
}

static int queue_unhold(cli *c, int argc, char **argv)
{
    static const usage use = {
        .synopsis = "queue unhold NAME...",
        .about = "Ends a hold now. A pause stays.",
        .min = 1,
        .max = -1,
        .missing = "NAME",
    };
    return queue_apply(c, argc, argv, &use, pgw_queue_unhold);
}

static int queue_resume(cli *c, int argc, char **argv)
{
    static const usage use = {
        .synopsis = "queue resume NAME...",
        .about = "Allows claims and enqueues again, after pause or drain. A hold stays.",
        .min = 1,
        .max = -1,
        .missing = "NAME",
    };
    return queue_apply(c, argc, argv, &use, pgw_queue_resume);
}

static int queue_drain(cli *c, int argc, char **argv)
{
    static const usage use = {
        .synopsis = "queue drain NAME...",
        .about = "Stops enqueues. Claims go on.",
        .min = 1,
        .max = -1,
        .missing = "NAME",
    };
    return queue_apply(c, argc, argv, &use, pgw_queue_drain);
}

static int queue_limit(cli *c, int argc, char **argv)
{
    static const usage use = {
        .synopsis = "queue limit NAME N|none",
        .about =
            "At most N jobs of the queue (1 to 10000) are leased at a time, over all workers.\n"
            "none removes the limit.",
        .min = 2,
        .max = 2,
        .missing = "NAME and N",
    };
    args a;
    int code = opts_parse(c, &a, &use, queue_no_options, argc, argv);
    if (code != OPTS_GO) return code;
    char *end = NULL;
    const bool none = strcmp(a.at[1], "none") == 0;
    long limit = none ? PGW_UNLIMITED : strtol(a.at[1], &end, 10);
    if (!none && (end == a.at[1] || *end != '\0' || limit < 1 || limit > 10000))
        return cli_fail(CLI_USAGE, NULL, "%s: N is \"%s\": expected 1 to 10000, or none",
                        c->command, a.at[1]);
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    return pgw_queue_limit(c->h, a.at[0], (int)limit) < 0 ? cli_fail_at(c->h) : CLI_DONE;
}

static int queue_semaphore(cli *c, int argc, char **argv)
{
    static const usage use = {
        .synopsis = "queue semaphore NAME SEMAPHORE|none",
        .about =
            "Each leased job of the queue has a permit of the semaphore. So that is a limit for\n"
            "several queues together, and for programs that use `pgwork sem run`.\n"
            "none removes it.",
        .min = 2,
        .max = 2,
        .missing = "NAME and SEMAPHORE",
    };
    args a;
    int code = opts_parse(c, &a, &use, queue_no_options, argc, argv);
    if (code != OPTS_GO) return code;
    const char *semaphore = strcmp(a.at[1], "none") == 0 ? NULL : a.at[1];
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    pgw_status st = pgw_queue_semaphore(c->h, a.at[0], semaphore);
    return st < 0 ? cli_fail_at(c->h) : CLI_DONE;
}

static int queue_rate(cli *c, int argc, char **argv)
{
    pgw_rate_opts o = PGW_RATE_OPTS_INIT;
    bool none;
    const opt opts[] = {CLI_RATE_OPTS(o), {.name = NULL}};
    static const usage use = {
        .synopsis = "queue rate NAME N|none [--per TIME] [--burst N]",
        .about =
            "At most N jobs of the queue are started per TIME, over all workers. none removes\n"
            "the rate.",
        .min = 2,
        .max = 2,
        .missing = "NAME and N",
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = cli_rate(a.at[1], &o.n, &none)) != CLI_DONE) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    return pgw_queue_rate(c->h, a.at[0], none ? NULL : &o) < 0 ? cli_fail_at(c->h) : CLI_DONE;
}

static int queue_report_deleted(const cli *c, pgw_status st, int64_t deleted)
{
    int code = st < 0 ? signals_failed(c, st) : CLI_DONE;
    return cli_finish(cli_report_done(c, code, "deleted", deleted, "deleted", "job"));
}

#define QUEUE_PURGE_STATES "ready, delayed, dead, done or all"

static int queue_purge(cli *c, int argc, char **argv)
{
    const char *word = NULL;
    pgw_state state = PGW_STATE_READY;
    const opt opts[] = {{0, "state", "STATE", QUEUE_PURGE_STATES " (ready)", .text = &word},
                        {.name = NULL}};
    static const usage use = {
        .synopsis = "queue purge NAME [--state STATE]",
        .about = "Deletes jobs, but never leased ones. `--state delayed` includes gated jobs.\n"
                 "Works in batches: if it fails or is interrupted, deleted jobs stay deleted.",
        .min = 1,
        .max = 1,
        .missing = "NAME",
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    code = cli_state(c, word, QUEUE_PURGE_STATES, &state);
    if (code == CLI_DONE &&
        (state == PGW_STATE_LEASED || state == PGW_STATE_GATED || state == PGW_STATE_CANCELLED))
        code = cli_fail(CLI_USAGE,
                        state == PGW_STATE_GATED ? "`--state delayed` deletes gated jobs, too, "
                                                   "`pgwork groups purge` those of a group"
                                                 : NULL,
                        "%s: --state is \"%s\": expected " QUEUE_PURGE_STATES, c->command, word);
    if (code == CLI_DONE) code = signals_open(c);
    if (code != CLI_DONE) return code;
    int64_t deleted = 0;
    pgw_status st = pgw_queue_purge(c->h, a.at[0], state, &deleted);
    return queue_report_deleted(c, st, deleted);
}

static int queue_drop(cli *c, int argc, char **argv)
{
    bool force = false;
    const opt opts[] = {
        {0, "force", NULL, "drop it with all jobs, including leased ones", .flag = &force},
        {.name = NULL}};
    static const usage use = {
        .synopsis = "queue drop NAME [--force]",
        .about = "Removes a queue, its settings, and the finished jobs that its retention keeps.\n"
                 "Refuses while there are other jobs or dead letters. --force deletes these in\n"
                 "batches: if it fails or is interrupted, deleted jobs stay deleted.",
        .min = 1,
        .max = 1,
        .missing = "NAME",
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = signals_open(c)) != CLI_DONE) return code;
    int64_t deleted = 0; /* purged here first, in order to count the jobs */
    pgw_status st = force ? pgw_queue_purge(c->h, a.at[0], PGW_STATE_ANY, &deleted) : PGW_OK;
    if (st >= 0)
        st = pgw_stop_count(c->stop) > 0 ? PGW_ECANCELED : pgw_queue_drop(c->h, a.at[0], force);
    return st < 0 ? queue_report_deleted(c, st, deleted) : CLI_DONE;
}

static int queue_depth(cli *c, int argc, char **argv)
{
    int64_t at_most = 0;
    const opt opts[] = {{0, "at-most", "N", "count up to N jobs (0: all)", .big = &at_most},
                        {.name = NULL}};
    static const usage use = {
        .synopsis = "queue depth NAME [--at-most N]",
        .about = "Counts the jobs of one queue by state, and prints how long the oldest ready job\n"
                 "has waited.",
        .min = 1,
        .max = 1,
        .missing = "NAME",
    };
    static const char *const headings[] = {"READY>", "LEASED>", "DELAYED>", "GATED>",
                                           "DEAD>",  "DONE>",   "OLDEST>"};
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    pgw_depth d = PGW_DEPTH_INIT;
    if (pgw_queue_depth(c->h, a.at[0], cli_limit(at_most), &d) < 0) return cli_fail_at(c->h);
    if (c->json) {
        out o;
        out_begin(&o);
        out_text(&o, "queue", a.at[0]);
        queue_out_depth(&o, &d);
        out_end(&o);
        return cli_finish(CLI_DONE);
    }
    table t;
    table_begin(&t, headings, sizeof headings / sizeof *headings);
    table_int(&t, d.ready);
    table_int(&t, d.leased);
    table_int(&t, d.delayed);
    table_int(&t, d.gated);
    table_int(&t, d.dead);
    table_int(&t, d.done);
    table_age(&t, d.oldest_ms ? d.oldest_ms : -1);
    table_end(&t);
    return cli_finish(CLI_DONE);
}

int cmd_queue(cli *c, int argc, char **argv)
{
    static const verb verbs[] = {
        {"list", "", queue_list},   {"create", "", queue_create},       {"set", "", queue_set},
        {"pause", "", queue_pause}, {"resume", "", queue_resume},       {"drain", "", queue_drain},
        {"hold", "", queue_hold},   {"unhold", "", queue_unhold},       {"purge", "", queue_purge},
        {"drop", "", queue_drop},   {"depth", "", queue_depth},         {"limit", "", queue_limit},
        {"rate", "", queue_rate},   {"semaphore", "", queue_semaphore}, {NULL, NULL, NULL}};
    static const usage use = {
        .synopsis = "queue list [--at-most N]\nqueue create|set NAME [OPTIONS]\n"
                    "queue pause|resume|drain|unhold NAME...\n"
                    "queue hold NAME --for TIME|--until WHEN [--reason TEXT]\nqueue purge NAME "
                    "[--state STATE]\n"
                    "queue drop NAME [--force]\nqueue depth NAME [--at-most N]\n"
                    "queue limit NAME N|none\nqueue semaphore NAME SEMAPHORE|none\nqueue rate NAME "
                    "N|none [--per TIME] [--burst N]",
        .about = "Manages queues. The first enqueue creates a queue, and so does `create`.\n"
                 "\n"
                 "  list      list all queues with their counts and settings\n"
                 "  create    create a queue, with settings\n"
                 "  set       change settings of a queue\n"
                 "  pause     stop claims; enqueues go on\n"
                 "  drain     stop enqueues; claims go on\n"
                 "  resume    allow both again\n"
                 "  hold      stop claims until a time\n"
                 "  unhold    end a hold\n"
                 "  purge     delete jobs of one state\n"
                 "  drop      remove a queue\n"
                 "  depth     count the jobs of one queue\n"
                 "  limit     limit how many of its jobs are leased at a time\n"
                 "  semaphore limit that for several queues together\n"
                 "  rate      limit how many of its jobs are started per second, or per hour",
        .more = "Options of a verb: `pgwork queue create --help`.",
        .missing = "list, create, set, pause, resume, hold, unhold, drain, purge, drop, depth, "
                   "limit, semaphore or rate",
    };
    return opts_dispatch(c, &use, verbs, NULL, argc, argv);
}
