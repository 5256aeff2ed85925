/* SPDX-License-Identifier: PostgreSQL
 *
 * pgwork ls: jobs in columns, without payloads.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "filter.h"
#include "opts.h"
#include "out.h"
#include "running.h"
#include "text.h"

#define LS_PROGRESS 40 /* bytes that are shown, and the rest of a character */

typedef struct listing {
    bool json;
    int64_t now_us;
    int count;
    int64_t last;
    running jobs;
    table rows;
} listing;

/* The column WHEN, which depends on the state. */
static void ls_when(listing *l, const pgw_job *job)
{
    pgw_state state = pgw_job_state(job);
    char age[TEXT_AGE], when[TEXT_AGE + 16] = "";
    int64_t due = 0, past = 0;
    if (state == PGW_STATE_LEASED) due = pgw_job_lease_until_us(job);
    if (state == PGW_STATE_DELAYED) due = pgw_job_run_at_us(job);
    if (due == 0) past = pgw_job_finished_us(job);
    if (due > l->now_us) {
        strcat(strcpy(when, "in "), text_age(age, (due - l->now_us) / 1000));
    } else if (due) {
        strcat(text_age(when, (l->now_us - due) / 1000), " late");
    } else if (past) {
        strcat(text_age(when, (l->now_us - past) / 1000), " ago");
    }
    table_text(&l->rows, when);
}

/* The beginning of it. The last column, so that it widens no other. */
static void ls_progress(listing *l, const pgw_job *job)
{
    const char *progress = pgw_job_progress(job);
    size_t size = progress ? strlen(progress) : 0, n = 0;
    while (n < size && n < LS_PROGRESS) {
        n += text_utf8_char((const unsigned char *)progress + n, size - n);
    }
    char *shown = cli_alloc(n + 4);
    if (n > 0) memcpy(shown, progress, n);
    if (n < size) strcpy(shown + n, "...");
    table_text(&l->rows, shown);
    free(shown);
}

static int ls_each(const pgw_job *job, void *arg)
{
    listing *l = arg;
    char attempts[32];
    int64_t since_us;
    l->count++;
    l->last = pgw_job_id(job);
    if (l->json) {
        out_job(job, false, running_since_us(&l->jobs, job), NULL);
        return 0;
    }
    table_int(&l->rows, pgw_job_id(job));
    table_text(&l->rows, pgw_job_queue(job));
    table_text(&l->rows, pgw_state_name(pgw_job_state(job)));
    table_text(&l->rows, pgw_job_kind(job));
    table_int(&l->rows, pgw_job_priority(job));
    text_ratio(attempts, sizeof attempts, pgw_job_attempt(job), pgw_job_max_attempts(job));
    table_text(&l->rows, attempts);
    table_age(&l->rows, (l->now_us - pgw_job_created_us(job)) / 1000);
    ls_when(l, job);
    since_us = running_since_us(&l->jobs, job);
    table_age(&l->rows, since_us ? (l->now_us - since_us) / 1000 : -1);
    table_text(&l->rows, pgw_job_holder(job));
    ls_progress(l, job);
    return 0;
}

/* Filters without an index search 100,000 jobs at a time. */
static pgw_status ls_find(cli *c, const filter *which, int limit, int64_t after, listing *l)
{
    const pgw_filter *f = &which->f;
    if (!filter_searches(which)) {
        pgw_jobs_opts o = PGW_JOBS_OPTS_INIT;
        o.queue = f->queue, o.state = f->state, o.kind = f->kind;
        o.limit = limit, o.after_id = after;
        return pgw_jobs_each(c->h, &o, ls_each, l);
    }
    pgw_search_opts o = PGW_SEARCH_OPTS_INIT;
    o.filter = f, o.after_id = after, o.limit = limit;
    pgw_status st = pgw_search(c->h, &o, ls_each, l, &after);
    if (st >= 0 && after && l->count < limit) {
        cli_say(c, "there are more jobs to search: continue with --after %" PRId64, after);
    }
    return st;
}

int cmd_ls(cli *c, int argc, char **argv)
{
    filter which = FILTER_INIT;
    int limit = 100;
    int64_t after = 0;
    const opt opts[] = {
        FILTER_OPTS(&which),
        {'n', "limit", "N", "list up to N jobs (100)", .number = &limit, .min = 1, .max = 100000},
        {0, "after", "ID", "only jobs with a higher id", .big = &after},
        {.name = NULL}};
    static const usage use = {
        .synopsis = "ls [QUEUE] [-s STATE] [-k KIND] [-t TAG] [OPTIONS] [-n N] [--after ID]",
        .about = "Lists jobs in the order of their ids. WHEN shows the rest of a lease or how\n"
                 "late it is, when a delayed job is due, or how long ago a job was finished.\n"
                 "RUNS shows how long a job has been with its handler, from a second on. If\n"
                 "there may be more, stderr prints the --after option for the next page.",
        .more = "With --json each job is a line with everything that `pgwork show` prints, except\n"
                "its attempts. Ends with 1 when no job was found.",
        .max = 1,
    };
    static const char *const headings[] = {"ID>",   "QUEUE",    "STATE",   "KIND",
                                           "PRIO>", "ATTEMPT>", "AGE>",    "WHEN>",
                                           "RUNS>", "HOLDER",   "PROGRESS"};
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if (a.count) which.f.queue = a.at[0];
    if ((code = filter_settle(c, &which)) != CLI_DONE) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    listing l = {.json = c->json, .now_us = text_now_us()};
    if (which.f.state == PGW_STATE_ANY || which.f.state == PGW_STATE_LEASED) {
        l.jobs = running_read(c, which.f.queue);
    }
    table_begin(&l.rows, headings, sizeof headings / sizeof *headings);
    pgw_status st = ls_find(c, &which, limit, after, &l);
    table_end(&l.rows);
    running_free(&l.jobs);
    cli_go_on(c, l.count, limit, l.last);
    if (st == PGW_OUTCOME_EMPTY && which.f.queue) cli_queue_there(c, which.f.queue);
    return cli_listed(c, st, NULL);
}
