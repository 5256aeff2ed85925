/* SPDX-License-Identifier: PostgreSQL
 *
 * pgwork dead: lists, redrives and purges dead letters.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "opts.h"
#include "out.h"
#include "signals.h"
#include "text.h"

typedef struct listing {
    bool json;
    int64_t now_us;
    int count;
    int64_t last;
    table rows;
} listing;

static int dead_each(const pgw_job *job, void *arg)
{
    listing *l = arg;
    char attempts[32], error[80] = "";
    l->count++;
    l->last = pgw_job_id(job);
    if (l->json) {
        out_job(job, false, 0, NULL);
        return 0;
    }
    table_int(&l->rows, pgw_job_id(job));
    table_text(&l->rows, pgw_job_queue(job));
    table_text(&l->rows, pgw_job_kind(job));
    text_ratio(attempts, sizeof attempts, pgw_job_attempt(job), pgw_job_max_attempts(job));
    table_text(&l->rows, attempts);
    table_age(&l->rows, (l->now_us - pgw_job_finished_us(job)) / 1000);
    if (pgw_job_error(job)) { /* the last line is usually the most specific */
        const char *e = pgw_job_error(job);
        size_t n = strlen(e);
        while (n > 0 && e[n - 1] == '\n') n--;
        size_t from = n;
        while (from > 0 && e[from - 1] != '\n') from--;
        int width = n - from < 72 ? (int)(n - from) : 72;
        while (width > 0 && ((unsigned char)e[from + (size_t)width] & 0xc0) == 0x80) width--;
        snprintf(error, sizeof error, "%.*s%s", width, e + from, n - from > 72 ? "..." : "");
    }
    table_text(&l->rows, error);
    return 0;
}

static int dead_errors_each(const pgw_dead_errors *e, void *arg)
{
    listing *l = arg;
    if (l->json) {
        out o;
        out_begin(&o);
        out_text(&o, "queue", e->queue);
        out_text(&o, "kind", e->kind);
        out_text(&o, "error", e->error);
        out_int(&o, "jobs", e->n);
        out_time(&o, "first_at", e->first_us);
        out_time(&o, "last_at", e->last_us);
        out_int(&o, "last_id", e->last_id);
        out_end(&o);
        return 0;
    }
    table_int(&l->rows, e->n);
    table_text(&l->rows, e->queue);
    table_text(&l->rows, e->kind);
    table_age(&l->rows, (l->now_us - e->last_us) / 1000);
    table_int(&l->rows, e->last_id);
    table_text(&l->rows, e->error);
    return 0;
}

static int dead_by_error(cli *c, const char *queue)
{
    static const char *const headings[] = {"JOBS>", "QUEUE", "KIND", "LAST>", "ID>", "ERROR"};
    listing l = {.json = c->json, .now_us = text_now_us()};
    table_begin(&l.rows, headings, sizeof headings / sizeof *headings);
    pgw_status st = pgw_dead_errors_each(c->h, queue, dead_errors_each, &l);
    table_end(&l.rows);
    if (st == PGW_OUTCOME_EMPTY && queue) cli_queue_there(c, queue);
    return cli_listed(c, st, NULL);
}

static int dead_list(cli *c, int argc, char **argv)
{
    pgw_jobs_opts o = PGW_JOBS_OPTS_INIT;
    bool by_error = false;
    const opt opts[] = {
        {0, "by-error", NULL, "count them by kind and error", .flag = &by_error},
        {'k', "kind", "KIND", "only of this kind", .text = &o.kind},
        {'n', "limit", "N", "list up to N jobs (100)", .number = &o.limit, .min = 1, .max = 100000},
        {0, "after", "ID", "only jobs with a higher id", .big = &o.after_id},
        {.name = NULL}};
    static const usage use = {
        .synopsis = "dead list [QUEUE] [-k KIND] [-n N] [--after ID]\n"
                    "dead list [QUEUE] --by-error",
        .about =
            "Lists dead letters with the last line of their error, in the order of their\n"
            "ids. If there may be more, stderr prints the --after option for the next page.\n"
            "With --by-error it counts them by kind and last line; # stands for numbers and ids.",
        .more = "Ends with 1 when there are none.",
        .max = 1,
    };
    static const char *const headings[] = {"ID>", "QUEUE", "KIND", "ATTEMPT>", "DIED>", "ERROR"};
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    o.state = PGW_STATE_DEAD;
    if (a.count) o.queue = a.at[0];
    if (by_error && (o.kind || o.after_id)) {
        return cli_fail(CLI_USAGE, NULL, "%s: --by-error counts all: no -k, no --after",
                        c->command);
    }
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    if (by_error) return dead_by_error(c, o.queue);
    listing l = {.json = c->json, .now_us = text_now_us()};
    table_begin(&l.rows, headings, sizeof headings / sizeof *headings);
    pgw_status st = pgw_jobs_each(c->h, &o, dead_each, &l);
    table_end(&l.rows);
    cli_go_on(c, l.count, o.limit, l.last);
    if (st == PGW_OUTCOME_EMPTY && o.queue) cli_queue_there(c, o.queue);
    return cli_listed(c, st, NULL);
}

static int dead_report(const cli *c, pgw_status st, const char *name, int64_t n)
{
    int code = st < 0 ? signals_failed(c, st) : CLI_DONE;
    cli_report_done(c, code, name, n, name, "dead letter");
    if (st >= 0 && n == 0) code = CLI_NOTHING;
    return code;
}

static int dead_redrive(cli *c, int argc, char **argv)
{
    const char *kind = NULL;
    int64_t limit = 0, moved = 0;
    const opt opts[] = {{'k', "kind", "KIND", "only of this kind", .text = &kind},
                        {'n', "limit", "N", "at most N dead letters (0: all)", .big = &limit},
                        {.name = NULL}};
    static const usage use = {
        .synopsis = "dead redrive QUEUE [-k KIND] [-n N]",
        .about = "Makes dead letters ready again, and sets their count of attempts to 0.",
        .more = "Ends with 1 when there are none. By id: `pgwork retry`.",
        .min = 1,
        .max = 1,
        .missing = "QUEUE",
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = signals_open(c)) != CLI_DONE) return code;
    pgw_status st = pgw_redrive(
        c->h, a.at[0],
        &(pgw_redrive_opts){sizeof(pgw_redrive_opts), NULL, 0, kind, cli_limit(limit)}, &moved);
    return cli_finish(dead_report(c, st, "moved", moved));
}

static int dead_purge(cli *c, int argc, char **argv)
{
    const char *kind = NULL;
    bool all = false;
    int64_t older_ms = -1, deleted = 0, *ids;
    const opt opts[] = {{'k', "kind", "KIND", "only of this kind", .text = &kind},
                        {0, "older-than", "TIME", "only those that died longer than TIME ago",
                         .ms = &older_ms, .max = 10 * CLI_YEAR},
                        {0, "all", NULL, "all dead letters of the queue", .flag = &all},
                        {.name = NULL}};
    static const usage use = {
        .synopsis = "dead purge QUEUE [-k KIND] [--older-than TIME] [ID...]\n"
                    "dead purge QUEUE --all",
        .about = "Deletes dead letters: by id, by kind, by age, or all.",
        .more = "Ends with 1 when there are none, or when an ID is not such a dead letter.",
        .min = 1,
        .max = -1,
        .missing = "QUEUE",
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    size_t n = (size_t)a.count - 1;
    code = opts_which(c, all != (n > 0 || kind || older_ms >= 0),
                      "ID, -k or --older-than, or --all without these");
    if (code != CLI_DONE) return code;
    if ((code = cli_ids(&ids, a.at + 1, n)) != CLI_DONE) return code;
    n = cli_ids_once(ids, n); /* a repeated id would not be a dead letter any more */
    code = signals_open(c);
    if (code == CLI_DONE) {
        pgw_status st =
            pgw_dead_purge(c->h, a.at[0],
                           &(pgw_dead_purge_opts){sizeof(pgw_dead_purge_opts), n ? ids : NULL, n,
                                                  kind, older_ms < 0 ? 0 : older_ms},
                           &deleted);
        code = dead_report(c, st, "deleted", deleted);
        if (st >= 0 && deleted < (int64_t)n) {
            code =
                cli_ids_not(kind || older_ms >= 0 ? "matching dead letter" : "dead letter", a.at[0],
                            ids, n, deleted, "`pgwork show ID` shows the state of a job");
        }
        code = cli_finish(code);
    }
    free(ids);
    return code;
}

int cmd_dead(cli *c, int argc, char **argv)
{
    static const verb verbs[] = {{"list", "", dead_list},
                                 {"redrive", "", dead_redrive},
                                 {"purge", "", dead_purge},
                                 {NULL, NULL, NULL}};
    static const usage use = {
        .synopsis = "dead list [QUEUE] [-k KIND] [-n N] [--after ID] [--by-error]\n"
                    "dead redrive QUEUE [-k KIND] [-n N]\n"
                    "dead purge QUEUE [-k KIND] [--older-than TIME] [ID...]\n"
                    "dead purge QUEUE --all",
        .about = "Manages dead letters: jobs that used up their attempts, or that a worker\n"
                 "declared dead.\n"
                 "\n"
                 "  list      list dead letters and their errors\n"
                 "  redrive   make them ready again, with a fresh count of attempts\n"
                 "  purge     delete them",
        .missing = "list, redrive or purge",
    };
    return opts_dispatch(c, &use, verbs, NULL, argc, argv);
}
