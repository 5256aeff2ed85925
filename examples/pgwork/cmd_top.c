/* SPDX-License-Identifier: PostgreSQL
 *
 * pgwork top: what is wrong, what the queues hold and what the workers do, again and again.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opts.h"
#include "out.h"
#include "signals.h"
#include "term.h"
#include "text.h"

#define TOP_DOCTOR_MS 30000 /* between two visits of the doctor, who looks at more than we do */
#define TOP_FINDINGS  5

/* A worker and one of its queues, and how fast it was between its last two reports: they come every
 * few seconds, whenever we look. */
typedef struct pace {
    char *name, *queue;
    int64_t since_us, report_us, done, failed, dead, lost;
    int concurrency, running;
    int64_t longest_us, longest_id; /* the job that runs longest; 0: none for a second */
    double done_rate, failed_rate;
    bool there;
} pace;

typedef struct queue_row {
    char *name, state[CLI_QUEUE_STATE];
    pgw_depth depth;
} queue_row;

typedef struct finding_row {
    pgw_grade grade;
    char *check, *text;
} finding_row;

typedef struct top {
    cli *c;
    int64_t at_most, now_us;
    pace *paces;
    queue_row *queues;
    finding_row *findings;
    size_t paces_count, queues_count, findings_count;
    int64_t doctor_at; /* when the doctor comes next; 0: now */
    char error[256];   /* the server did not answer; "": it did */
} top;

static char *top_copy(const char *text)
{
    return cli_copy(text, strlen(text));
}

/* -- looking -------------------------------------------------------------------------------- */

static void top_forget_queues(top *t)
{
    for (size_t i = 0; i < t->queues_count; i++) free(t->queues[i].name);
    t->queues_count = 0;
}

static void top_forget_findings(top *t)
{
    for (size_t i = 0; i < t->findings_count; i++) {
        free(t->findings[i].check);
        free(t->findings[i].text);
    }
    t->findings_count = 0;
}

/* Workers that have not been there this time, or all. */
static void top_forget_paces(top *t, bool all)
{
    size_t kept = 0;
    for (size_t i = 0; i < t->paces_count; i++) {
        if (!all && t->paces[i].there) {
            t->paces[kept++] = t->paces[i];
            continue;
        }
        free(t->paces[i].name);
        free(t->paces[i].queue);
    }
    t->paces_count = kept;
}

static int top_each_finding(const pgw_finding *f, void *arg)
{
    top *t = arg;
    if (f->grade == PGW_GRADE_GOOD) return 0;
    t->findings = cli_realloc(t->findings, (t->findings_count + 1) * sizeof *t->findings);
    t->findings[t->findings_count++] =
        (finding_row){f->grade, top_copy(f->check), top_copy(f->text)};
    return 0;
}

static int top_each_queue(const pgw_queue_info *q, void *arg)
{
    top *t = arg;
    t->queues = cli_realloc(t->queues, (t->queues_count + 1) * sizeof *t->queues);
    queue_row *row = &t->queues[t->queues_count++];
    *row = (queue_row){.name = top_copy(q->name), .depth = *q->depth};
    const char *state = cli_queue_word(q, row->state);
    if (state != row->state) snprintf(row->state, sizeof row->state, "%s", state);
    return 0;
}

static pace *top_pace(top *t, const pgw_worker_info *w)
{
    for (size_t i = 0; i < t->paces_count; i++) {
        pace *p = &t->paces[i];
        if (strcmp(p->name, w->name) == 0 && strcmp(p->queue, w->queue) == 0) return p;
    }
    t->paces = cli_realloc(t->paces, (t->paces_count + 1) * sizeof *t->paces);
    pace *p = &t->paces[t->paces_count++];
    *p = (pace){.name = top_copy(w->name), .queue = top_copy(w->queue)};
    return p;
}

/* Since its last report, or since it was started if there is no other. */
static void top_measure(pace *p, const pgw_worker_info *w)
{
    const bool same = p->since_us == w->since_us && w->done >= p->done;
    const int64_t from_us = same ? p->report_us : w->since_us, us = w->report_us - from_us;
    const int64_t failed = w->failed + w->dead, before = same ? p->failed + p->dead : 0;
    if (same && us == 0) return;
    p->done_rate = us > 0 ? (double)(w->done - (same ? p->done : 0)) * 1e6 / (double)us : 0;
    p->failed_rate = us > 0 ? (double)(failed - before) * 1e6 / (double)us : 0;
}

static int top_each_worker(const pgw_worker_info *w, void *arg)
{
    pace *p = top_pace(arg, w);
    top_measure(p, w);
    p->since_us = w->since_us, p->report_us = w->report_us;
    p->done = w->done, p->failed = w->failed, p->dead = w->dead, p->lost = w->lost + w->refused;
    p->concurrency = w->concurrency, p->running = w->running;
    p->longest_us = p->longest_id = 0;
    for (size_t i = 0; i < w->jobs_count; i++) {
        if (p->longest_us && w->jobs[i].since_us >= p->longest_us) continue;
        p->longest_us = w->jobs[i].since_us, p->longest_id = w->jobs[i].id;
    }
    p->there = true;
    return 0;
}

static int top_by_load(const void *a, const void *b)
{
    const queue_row *x = a, *y = b;
    int64_t left = x->depth.ready + x->depth.leased, right = y->depth.ready + y->depth.leased;
    return left != right ? (left < right) - (left > right) : strcmp(x->name, y->name);
}

/* Each call is bounded: counts end at at_most, workers have one report each. */
static pgw_status top_read(top *t)
{
    pgw_queues_opts counts = PGW_QUEUES_OPTS_INIT;
    pgw_status st = PGW_OK;
    t->now_us = text_now_us();
    if (text_tick_ms() >= t->doctor_at) {
        top_forget_findings(t);
        st = pgw_doctor(t->c->h, top_each_finding, t);
        if (st >= 0) t->doctor_at = text_tick_ms() + TOP_DOCTOR_MS;
    }
    counts.at_most = cli_limit(t->at_most);
    top_forget_queues(t);
    if (st >= 0) st = pgw_queues_each(t->c->h, &counts, top_each_queue, t);
    if (t->queues_count) qsort(t->queues, t->queues_count, sizeof *t->queues, top_by_load);
    for (size_t i = 0; i < t->paces_count; i++) t->paces[i].there = false;
    if (st >= 0) st = pgw_workers_each(t->c->h, NULL, top_each_worker, t);
    if (st >= 0) top_forget_paces(t, false);
    *t->error = '\0';
    if (st < 0) snprintf(t->error, sizeof t->error, "%s", pgw_error_message(t->c->h));
    return st;
}

/* -- showing -------------------------------------------------------------------------------- */

static void top_mark(pgw_grade grade, const char *check, const char *text)
{
    char *said = out_visible(text);
    printf("%s%s%s  %-14s %s\n", term_style(grade == PGW_GRADE_BAD ? TERM_RED : TERM_YELLOW),
           grade == PGW_GRADE_BAD ? "BAD " : "note", term_style(TERM_PLAIN), check, said);
    free(said);
}

/* The bad ones first, on a quarter of the @p lines at most. Returns how many it took. */
static int top_show_findings(const top *t, int lines)
{
    const int most = lines / 4 < 1 ? 1 : lines / 4 < TOP_FINDINGS ? lines / 4 : TOP_FINDINGS;
    int met = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < t->findings_count; i++) {
            const finding_row *f = &t->findings[i];
            if ((f->grade == PGW_GRADE_BAD) == (pass == 1)) continue;
            if (met++ < most) top_mark(f->grade, f->check, f->text);
        }
    }
    if (met == 0) return 0;
    fputs("      ", stdout);
    if (met > most) printf("and %d more; ", met - most);
    puts("`pgwork doctor` says what to do\n");
    return (met < most ? met : most) + 2;
}

static void top_rate(table *rows, double rate, bool known)
{
    char text[32];
    snprintf(text, sizeof text, rate < 99.95 ? "%.1f" : "%.0f", rate);
    table_text(rows, known ? text : NULL);
}

static void top_show_queue(const top *t, table *rows, const queue_row *q)
{
    double done = 0, failed = 0;
    int workers = 0;
    for (size_t i = 0; i < t->paces_count; i++) {
        if (strcmp(t->paces[i].queue, q->name) != 0) continue;
        done += t->paces[i].done_rate, failed += t->paces[i].failed_rate;
        workers++;
    }
    table_text(rows, q->name);
    table_text(rows, q->state);
    table_int(rows, q->depth.ready);
    table_int(rows, q->depth.leased);
    table_int(rows, q->depth.delayed);
    table_int(rows, q->depth.gated);
    table_int(rows, q->depth.dead);
    table_age(rows, q->depth.oldest_ms ? q->depth.oldest_ms : -1);
    table_int(rows, workers);
    top_rate(rows, done, workers > 0);
    top_rate(rows, failed, workers > 0);
}

static void top_show_worker(const top *t, table *rows, const pace *p)
{
    char longest[64] = "", age[TEXT_AGE];
    if (p->longest_id) {
        snprintf(longest, sizeof longest, "%" PRId64 ", %s", p->longest_id,
                 text_age(age, (t->now_us - p->longest_us) / 1000));
    }
    table_text(rows, p->name);
    table_text(rows, p->queue);
    table_age(rows, (t->now_us - p->since_us) / 1000);
    table_int(rows, p->concurrency);
    table_int(rows, p->running);
    top_rate(rows, p->done_rate, true);
    top_rate(rows, p->failed_rate, true);
    table_int(rows, p->lost);
    table_text(rows, longest);
}

/* How many of @p n rows fit on @p lines, with a heading and a word about the others. */
static size_t top_fits(size_t n, int lines)
{
    if (lines >= 0 && n + 1 <= (size_t)lines) return n;
    return lines > 3 ? (size_t)lines - 2 : n < 1 ? n : 1;
}

static void top_show_rest(size_t n, size_t shown, const char *what)
{
    if (shown < n) printf("and %zu more %s\n", n - shown, what);
}

/* @p lines: of the screen. */
static void top_show(const top *t, int lines)
{
    static const char *const queue_headings[] = {"QUEUE",    "STATE",   "READY>",   "LEASED>",
                                                 "DELAYED>", "GATED>",  "DEAD>",    "OLDEST>",
                                                 "WORKERS>", "DONE/S>", "FAILED/S>"};
    static const char *const worker_headings[] = {"WORKER",    "QUEUE",    "UP>",
                                                  "HANDLERS>", "RUNNING>", "DONE/S>",
                                                  "FAILED/S>", "LOST>",    "LONGEST"};
    table rows;
    lines -= top_show_findings(t, lines) + 1; /* a blank between the tables */
    /* workers get a third, and what the queues leave */
    const int least = (int)top_fits(t->paces_count, lines / 3) + 1;
    const size_t queues = top_fits(t->queues_count, lines - least);
    const int left = lines - (int)queues - 1 - (queues < t->queues_count);
    const size_t paces = top_fits(t->paces_count, left);
    table_begin(&rows, queue_headings, sizeof queue_headings / sizeof *queue_headings);
    for (size_t i = 0; i < queues; i++) top_show_queue(t, &rows, &t->queues[i]);
    table_end(&rows);
    top_show_rest(t->queues_count, queues, "queues");
    puts(t->queues_count ? "" : "there are no queues\n");
    table_begin(&rows, worker_headings, sizeof worker_headings / sizeof *worker_headings);
    for (size_t i = 0; i < paces; i++) top_show_worker(t, &rows, &t->paces[i]);
    table_end(&rows);
    top_show_rest(t->paces_count, paces, "workers");
    if (t->paces_count == 0) puts("no worker has reported within 30 s");
}

/* One screen. */
static void top_draw(const top *t, bool paused)
{
    char now[TEXT_TIME];
    term_home();
    printf("%spgwork%s  %.19sZ%s  q: quit, p: %s\n", term_style(TERM_BOLD), term_style(TERM_PLAIN),
           text_time(now, t->now_us), paused ? "  paused" : "", paused ? "go on" : "pause");
    if (*t->error) top_mark(PGW_GRADE_BAD, "server", t->error);
    putchar('\n');
    top_show(t, term_lines() - 3 - (*t->error != '\0'));
    fflush(stdout);
}

/* -- the loop ------------------------------------------------------------------------------- */

/* Until a look is due, or a key was pressed that changes something; false: the end. */
static bool top_wait(const top *t, int64_t interval_ms, bool *paused)
{
    const int64_t until = text_tick_ms() + interval_ms;
    for (;;) {
        const int64_t left = *paused ? CLI_DAY : until - text_tick_ms();
        int key = left > 0 ? signals_key(t->c, left) : 0;
        if (key < 0 || key == 'q' || key == 'Q') return false;
        if (key == 'p' || key == 'P') {
            *paused = !*paused;
            if (!*paused) return true;
            top_draw(t, true);
        } else if (key == 0 && !*paused) {
            return true;
        }
    }
}

static int top_live(top *t, int64_t interval_ms)
{
    bool paused = false;
    int code = CLI_DONE;
    term_screen(true);
    do {
        pgw_status st = top_read(t);
        if (pgw_stop_count(t->c->stop) > 0) break;
        code = st < 0 ? cli_code(st) : CLI_DONE;
        if (code != CLI_DONE && code != CLI_SERVER) break;
        top_draw(t, paused);
    } while (top_wait(t, interval_ms, &paused));
    term_screen(false);
    if (pgw_stop_count(t->c->stop) > 0) return signals_code();
    return code == CLI_DONE || code == CLI_SERVER ? CLI_DONE : cli_fail_at(t->c->h);
}

int cmd_top(cli *c, int argc, char **argv)
{
    bool once = false;
    int64_t interval_ms = 2000;
    top t = {.c = c, .at_most = 10000};
    const opt opts[] = {
        {0, "once", NULL, "print it once; so it does if stdout is not a terminal", .flag = &once},
        {'i', "interval", "TIME", "time between two screens (2s)", .ms = &interval_ms, .min = 100,
         .max = CLI_DAY},
        {0, "at-most", "N", "count up to N jobs of a queue (10000; 0: all)", .big = &t.at_most},
        {.name = NULL}};
    static const usage use = {
        .synopsis = "top [-i TIME] [--at-most N] [--once]",
        .about = "Shows what the doctor finds, queues and workers, and is drawn again every 2 s.\n"
                 "DONE/S and FAILED/S are jobs per second between the last two reports of each\n"
                 "worker, which come every 5 s; at first, since the worker was started. LONGEST\n"
                 "is the job that has run for longest.",
        .more = "Keys: q quits, p pauses. The doctor comes every 30 s. Jobs of programs that do\n"
                "not use the worker runtime are not in the rates.",
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if (c->json) {
        return cli_fail(CLI_USAGE, "`stats`, `workers` and `doctor` print JSON",
                        "%s: --json is not for a screen", c->command);
    }
    once = once || !term_is_one();
    if (!once && (code = signals_install(c)) != CLI_DONE) return code;
    if ((code = cli_open(c, true)) != CLI_DONE) return code;
    if (!once) {
        code = top_live(&t, interval_ms);
    } else if (top_read(&t) < 0) {
        code = cli_fail_at(c->h);
    } else {
        top_show(&t, INT16_MAX);
        code = CLI_DONE;
    }
    top_forget_findings(&t);
    top_forget_queues(&t);
    top_forget_paces(&t, true);
    free(t.findings);
    free(t.queues);
    free(t.paces);
    return cli_finish(code);
}
