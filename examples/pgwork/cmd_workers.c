/* SPDX-License-Identifier: PostgreSQL
 *
 * pgwork workers: lists workers. pgwork demand: prints how much there is to do.
 */
#include <inttypes.h>
#include <stdio.h>

#include "opts.h"
#include "out.h"
#include "text.h"

typedef struct listing {
    bool json;
    int64_t now_us;
    table rows;
} listing;

static void workers_out_jobs(out *o, const pgw_worker_info *w)
{
    buf t = {0};
    char number[32], when[TEXT_TIME];
    buf_puts(&t, "[");
    for (size_t i = 0; i < w->jobs_count; i++) {
        snprintf(number, sizeof number, "%s{\"id\":%" PRId64, i ? "," : "", w->jobs[i].id);
        buf_puts(&t, number);
        snprintf(number, sizeof number, ",\"attempt\":%d,\"since\":\"", w->jobs[i].attempt);
        buf_puts(&t, number);
        buf_puts(&t, text_time(when, w->jobs[i].since_us));
        buf_puts(&t, "\"}");
    }
    buf_puts(&t, "]");
    out_json(o, "jobs", t.at);
    buf_free(&t);
}

/* The average in ms of a sum of microseconds; -1: there are none. */
static int64_t workers_average_ms(int64_t us, int64_t n)
{
    return n > 0 ? us / n / 1000 : -1;
}

static int workers_each(const pgw_worker_info *w, void *arg)
{
    listing *l = arg;
    if (l->json) {
        out o;
        out_begin(&o);
        out_text(&o, "worker", w->name);
        out_text(&o, "queue", w->queue);
        out_time(&o, "since", w->since_us);
        out_time(&o, "reported_at", w->report_us);
        out_int(&o, "concurrency", w->concurrency);
        out_int(&o, "running", w->running);
        out_int(&o, "claimed", w->claimed);
        out_int(&o, "done", w->done);
        out_int(&o, "failed", w->failed);
        out_int(&o, "dead", w->dead);
        out_int(&o, "refused", w->refused);
        out_int(&o, "lost", w->lost);
        out_int(&o, "wait_us", w->wait_us);
        out_int(&o, "run_us", w->run_us);
        workers_out_jobs(&o, w);
        out_end(&o);
        return 0;
    }
    table_text(&l->rows, w->name);
    table_text(&l->rows, w->queue);
    table_age(&l->rows, (l->now_us - w->since_us) / 1000);
    table_age(&l->rows, (l->now_us - w->report_us) / 1000);
    table_int(&l->rows, w->concurrency);
    table_int(&l->rows, w->running);
    table_int(&l->rows, w->done);
    table_int(&l->rows, w->failed);
    table_int(&l->rows, w->dead);
    table_int(&l->rows, w->lost + w->refused);
    table_age(&l->rows, workers_average_ms(w->run_us, w->done + w->failed + w->dead));
    return 0;
}

int cmd_workers(cli *c, int argc, char **argv)
{
    const opt opts[] = {{.name = NULL}};
    static const usage use = {
        .synopsis = "workers [QUEUE]",
        .about =
            "Lists workers that have reported within 30 s, with a line for each of their queues. "
            "Counts\n"
            "begin at the start of the worker. REPORT is the age of the report. LOST counts leases "
            "that ended\n"
            "before their jobs, and results that came too late. RUN is the average time of a "
            "handler.",
        .more =
            "Programs that claim without the worker runtime, and `pgwork claim`, do not report. "
            "Ends with 1\n"
            "when there are none.",
        .max = 1,
    };
    static const char *const headings[] = {"WORKER",    "QUEUE",    "UP>",   "REPORT>",
                                           "HANDLERS>", "RUNNING>", "DONE>", "FAILED>",
                                           "DEAD>",     "LOST>",    "RUN>"};
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    listing l = {.json = c->json, .now_us = text_now_us()};
    const char *queue = a.count ? a.at[0] : NULL;
    table_begin(&l.rows, headings, sizeof headings / sizeof *headings);
    pgw_status st = pgw_workers_each(c->h, queue, workers_each, &l);
    table_end(&l.rows);
    if (st == PGW_OUTCOME_EMPTY && queue && !cli_queue_there(c, queue))
        return cli_listed(c, st, NULL);
    return cli_listed(c, st, "no worker has reported within 30 s");
}

int cmd_demand(cli *c, int argc, char **argv)
{
    pgw_demand_opts o = PGW_DEMAND_OPTS_INIT;
    int64_t n = 0;
    const opt opts[] = {{0, "at-most", "N", "count up to N jobs (10000)", .big = &o.at_most},
                        {'w', "within", "TIME",
                         "also count delayed jobs that are due within TIME (0)", .ms = &o.within_ms,
                         .max = CLI_DAY},
                        {.name = NULL}};
    static const usage use = {
        .synopsis = "demand QUEUE [--at-most N] [-w TIME]",
        .about =
            "Prints one number for autoscalers: how many jobs are ready, leased, or due within "
            "TIME.\n"
            "In a paused queue, only leased jobs count. The number of a missing queue is 0.",
        .min = 1,
        .max = 1,
        .missing = "QUEUE",
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    o.queue = a.at[0];
    if (pgw_demand(c->h, &o, &n) < 0) return cli_fail_at(c->h);
    if (c->json) {
        out_number("demand", n);
    } else {
        printf("%" PRId64 "\n", n);
    }
    return cli_finish(CLI_DONE);
}
