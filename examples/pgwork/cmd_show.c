/* SPDX-License-Identifier: PostgreSQL
 *
 * pgwork show: shows everything about jobs.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opts.h"
#include "out.h"
#include "running.h"
#include "term.h"
#include "text.h"

static void show_text(const char *name, const char *value)
{
    if (!value || !*value) return;
    char *visible = out_visible(value);
    printf("%s%-13s%s%s\n", term_style(TERM_BOLD), name, term_style(TERM_PLAIN), visible);
    free(visible);
}

/* Prints text line by line. Later lines are indented, so that they do not look like a name. */
static void show_lines(const char *name, const char *value)
{
    if (!value) return;
    for (const char *at = value, *end = value + strlen(value); at < end; name = "") {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t size = (size_t)((stop ? stop : end) - at);
        char *line = cli_copy(at, size);
        char *visible = out_visible(line);
        printf("%s%-13s%s%s\n", term_style(TERM_BOLD), name, term_style(TERM_PLAIN), visible);
        free(visible);
        free(line);
        at += size + 1;
    }
}

#define SHOW_WHEN (TEXT_TIME + TEXT_AGE + 16)
static const char *show_when(char both[SHOW_WHEN], int64_t us)
{
    char at[TEXT_TIME], age[TEXT_AGE];
    int64_t ms = (text_now_us() - us) / 1000;
    text_age(age, ms < 0 ? -ms : ms);
    snprintf(both, SHOW_WHEN, "%s (%s%s%s)", text_time(at, us), ms < 0 ? "in " : "", age,
             ms < 0 ? "" : " ago");
    return both;
}

static void show_time(const char *name, int64_t us)
{
    char when[SHOW_WHEN];
    if (us != 0) show_text(name, show_when(when, us));
}

typedef struct showing {
    bool json;
    running jobs;
    buf attempts; /* of the next job: lines, or members of a JSON array */
} showing;

/* -- attempts ------------------------------------------------------------------------------- */

static void attempts_member(buf *t, const char *name, const char *value)
{
    buf_puts(t, ",\"");
    buf_puts(t, name);
    buf_puts(t, "\":");
    if (value) {
        buf_add_json(t, value, strlen(value));
    } else {
        buf_puts(t, "null");
    }
}

static int attempts_json(const pgw_attempt_info *a, void *arg)
{
    buf *t = arg;
    char number[32], time[TEXT_TIME];
    snprintf(number, sizeof number, "%s{\"attempt\":%d", t->size > 1 ? "," : "", a->attempt);
    buf_puts(t, number);
    attempts_member(t, "ended_at", text_time(time, a->ended_us));
    attempts_member(t, "ended", a->ended);
    attempts_member(t, "holder", a->holder);
    attempts_member(t, "error", a->error);
    buf_puts(t, "}");
    return 0;
}

/* A line, and the error under it. */
static int attempts_lines(const pgw_attempt_info *a, void *arg)
{
    buf *t = arg;
    char number[16], when[SHOW_WHEN];
    const char *parts[] = {number,
                           " ",
                           a->ended,
                           " ",
                           show_when(when, a->ended_us),
                           " by ",
                           a->holder ? a->holder : "-",
                           "\n",
                           NULL};
    snprintf(number, sizeof number, "%d", a->attempt);
    for (size_t i = 0; parts[i]; i++) buf_puts(t, parts[i]);
    for (const char *at = a->error; at && *at;) {
        size_t size = strcspn(at, "\n");
        buf_puts(t, "  ");
        buf_add(t, at, size);
        buf_puts(t, "\n");
        at += size + (at[size] == '\n');
    }
    return 0;
}

/* Before the job itself: a callback cannot ask. */
static pgw_status attempts_read(cli *c, const char *queue, int64_t id, buf *t)
{
    pgw_attempts_opts o = PGW_ATTEMPTS_OPTS_INIT;
    o.queue = queue, o.id = id;
    buf_puts(t, c->json ? "[" : "");
    pgw_status st = pgw_attempts_each(c->h, &o, c->json ? attempts_json : attempts_lines, t);
    if (c->json) buf_puts(t, "]");
    return st;
}

/* -- jobs ----------------------------------------------------------------------------------- */

static int show_each(const pgw_job *job, void *arg)
{
    const showing *s = arg;
    char word[64];
    size_t size;
    if (s->json) {
        out_job(job, false, running_since_us(&s->jobs, job), s->attempts.at);
        return 0;
    }
    snprintf(word, sizeof word, "%" PRId64, pgw_job_id(job));
    show_text("id", word);
    show_text("queue", pgw_job_queue(job));
    show_text("state", pgw_state_name(pgw_job_state(job)));
    show_text("kind", pgw_job_kind(job));
    snprintf(word, sizeof word, "%d", pgw_job_priority(job));
    show_text("priority", word);
    text_ratio(word, sizeof word, pgw_job_attempt(job), pgw_job_max_attempts(job));
    show_text("attempt", word);
    show_time("created", pgw_job_created_us(job));
    show_time("run at", pgw_job_run_at_us(job));
    show_time("lease until", pgw_job_lease_until_us(job));
    show_time("finished", pgw_job_finished_us(job));
    show_time("expires", pgw_job_expires_us(job));
    show_time("runs since", running_since_us(&s->jobs, job));
    show_text("holder", pgw_job_holder(job));
    show_text("key", pgw_job_key(job));
    show_text("group", pgw_job_group(job));
    for (size_t i = 0; i < pgw_job_tags_count(job); i++) show_text("tag", pgw_job_tag(job, i));
    show_lines("progress", pgw_job_progress(job));
    show_lines("error", pgw_job_error(job));
    show_lines("attempts", s->attempts.at);
    show_lines("payload", pgw_job_payload(job));
    if (pgw_job_payload_hidden(job)) show_text("payload", "hidden: queue setting payload_visible");
    pgw_job_body(job, &size);
    if (size) {
        snprintf(word, sizeof word, "%zu bytes", size);
        show_text("body", word);
    }
    show_lines("meta", pgw_job_meta(job));
    show_lines("output", pgw_job_output(job));
    return 0;
}

int cmd_show(cli *c, int argc, char **argv)
{
    pgw_jobs_opts o = PGW_JOBS_OPTS_INIT;
    const opt opts[] = {
        {'Q', "queue", "NAME", "search only this queue, which is faster", .text = &o.queue},
        {.name = NULL}};
    static const usage use = {
        .synopsis = "show [-Q QUEUE] ID...",
        .about = "Shows everything about jobs, including payload, progress, error and output, and\n"
                 "attempts that failed: when, how and by whom, and the error.",
        .more = "Ends with 1 when one of the jobs does not exist.",
        .min = 1,
        .max = -1,
        .missing = "ID",
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    int64_t *ids;
    if ((code = cli_ids(&ids, a.at, (size_t)a.count)) != CLI_DONE) return code;
    code = cli_open(c, false);
    showing s = {.json = c->json};
    if (code == CLI_DONE) s.jobs = running_read(c, o.queue);
    for (int i = 0; i < a.count && code <= CLI_NOTHING; i++) {
        o.id = ids[i];
        if (i > 0 && !c->json) putchar('\n');
        pgw_status st = attempts_read(c, o.queue, o.id, &s.attempts);
        if (st >= 0) st = pgw_jobs_each(c->h, &o, show_each, &s);
        buf_free(&s.attempts);
        if (st < 0) {
            code = cli_fail_at(c->h);
        } else if (st == PGW_OUTCOME_EMPTY && o.queue && !cli_queue_there(c, o.queue)) {
            code = CLI_NOTHING;
        } else if (st == PGW_OUTCOME_EMPTY) {
            code = cli_fail(CLI_NOTHING, "finished jobs are kept for the retention of the queue",
                            "job %" PRId64 " does not exist", ids[i]);
        }
    }
    running_free(&s.jobs);
    free(ids);
    return cli_finish(code);
}
