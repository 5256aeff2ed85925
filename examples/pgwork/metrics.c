/* SPDX-License-Identifier: PostgreSQL */
#include "metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define METRICS_OVERDUE 1000 /* rows of a lane that are checked for expired leases */

/* The format needs all samples of a metric together, but they come queue by queue. So each metric
 * collects its samples, and the text is joined at the end. */
enum metric {
    UP,
    JOBS,
    OLDEST,
    PAUSED,
    HELD,
    DRAINING,
    PERMITS,
    TAKEN,
    WAITING,
    CRON_NEXT,
    CRON_LAST,
    CRON_PAUSED,
    CRON_FAILING,
    GRADE,
    WORKERS,
    RUNNING,
    CLAIMED,
    DONE,
    FAILED,
    DEAD,
    REFUSED,
    LOST,
    WAIT,
    RUN,
    EXPIRED,
    DUE,
    HORIZON,
    HORIZON_XIDS,
    REAPER,
    REAPERS,
    STUCK,
    METRICS
};

static const struct {
    const char *name, *help, *type;
} described[METRICS] = {
    [UP] = {"up", "1 if the metrics could be read, else 0.", "gauge"},
    [JOBS] = {"queue_jobs", "Jobs by state, counted up to --at-most.", "gauge"},
    [OLDEST] = {"queue_oldest_seconds",
                "How long the oldest ready job has waited; 0 if none is ready.", "gauge"},
    [PAUSED] = {"queue_paused", "1 if claims are stopped.", "gauge"},
    [HELD] = {"queue_held", "1 if claims are stopped until a time.", "gauge"},
    [DRAINING] = {"queue_draining", "1 if enqueues are stopped.", "gauge"},
    [PERMITS] = {"semaphore_permits", "Number of permits.", "gauge"},
    [TAKEN] = {"semaphore_taken", "Number of permits that are held.", "gauge"},
    [WAITING] = {"semaphore_waiting", "Number of waiting sessions.", "gauge"},
    [CRON_NEXT] = {"schedule_next_timestamp_seconds",
                   "Time of the next tick; it is late if in the past.", "gauge"},
    [CRON_LAST] = {"schedule_last_timestamp_seconds", "Time of the last tick.", "gauge"},
    [CRON_PAUSED] = {"schedule_paused", "1 if the schedule is paused.", "gauge"},
    [CRON_FAILING] = {"schedule_failing", "1 if the schedule cannot run, or a tick was given up.",
                      "gauge"},
    [GRADE] = {"doctor_grade", "Grade of a check of the doctor: 0 good, 1 note, 2 bad.", "gauge"},
    [WORKERS] = {"workers", "Workers that have reported within 30 s.", "gauge"},
    [RUNNING] = {"jobs_running", "Jobs that are with their handlers.", "gauge"},
    [CLAIMED] = {"jobs_claimed_total", "Jobs that workers have claimed.", "counter"},
    [DONE] = {"jobs_done_total", "Jobs that are done.", "counter"},
    [FAILED] = {"jobs_failed_total", "Attempts that failed and are followed by another.",
                "counter"},
    [DEAD] = {"jobs_dead_total", "Jobs that workers have made dead letters.", "counter"},
    [REFUSED] = {"jobs_refused_total", "Results that came too late.", "counter"},
    [LOST] = {"jobs_lost_total", "Leases that ended before their jobs.", "counter"},
    [WAIT] = {"job_wait_seconds",
              "From the enqueue to the handler, of jobs that were ready at once.", "histogram"},
    [RUN] = {"job_run_seconds", "How long handlers took.", "histogram"},
    [EXPIRED] = {"queue_expired_leases", "Jobs whose lease ended, and nobody took them back.",
                 "gauge"},
    [DUE] = {"queue_overdue_jobs", "Delayed jobs whose time came, and that are not ready.",
             "gauge"},
    [HORIZON] = {"horizon_age_seconds", "The oldest transaction that holds vacuum back.", "gauge"},
    [HORIZON_XIDS] = {"horizon_age_transactions",
                      "The same in transactions; slots and standbys too.", "gauge"},
    [REAPER] = {"reaper_age_seconds", "Since the last round of the reapers.", "gauge"},
    [REAPERS] = {"reapers", "Reapers that were seen within 30 s.", "gauge"},
    [STUCK] = {"stuck_jobs", "Jobs that no reaper can move.", "gauge"},
};

typedef struct grade {
    char *check;
    pgw_grade worst;
} grade;

struct metrics {
    const char *database; /* NULL: it has no label */
    buf samples[METRICS];
    grade *grades; /* a check may have several findings */
    size_t checks;
};

typedef struct label {
    const char *name, *value;
} label;
static const label none = {NULL, NULL};

static void metrics_quote(buf *t, const char *value)
{
    char *visible = out_visible(value);
    buf_puts(t, "\"");
    for (const char *at = visible; *at; at++) {
        if (*at == '"' || *at == '\\') buf_puts(t, "\\");
        buf_add(t, at, 1);
    }
    buf_puts(t, "\"");
    free(visible);
}

/* Adds milliseconds as seconds. @p ending: the suffix of a histogram's series. */
static void metrics_series(metrics *m, enum metric which, const char *ending, label a, label b,
                           int64_t thousandths)
{
    buf *t = &m->samples[which];
    const label labels[] = {{"database", m->database}, a, b};
    char number[32];
    bool labelled = false;
    buf_puts(t, "pgwork_");
    buf_puts(t, described[which].name);
    buf_puts(t, ending);
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
        if (!labels[i].value) continue;
        buf_puts(t, labelled ? "," : "{");
        buf_puts(t, labels[i].name);
        buf_puts(t, "=");
        metrics_quote(t, labels[i].value);
        labelled = true;
    }
    snprintf(number, sizeof number, "%" PRId64 ".%03d", thousandths / 1000,
             (int)(thousandths % 1000));
    if (thousandths % 1000 == 0) *strchr(number, '.') = '\0';
    buf_puts(t, labelled ? "} " : " ");
    buf_puts(t, number);
    buf_puts(t, "\n");
}

/* Either label may be NULL. */
static void metrics_add(metrics *m, enum metric which, label a, label b, int64_t thousandths)
{
    metrics_series(m, which, "", a, b, thousandths);
}

/* @p jobs: counts up to 1, 2, 4, ... ms. In the format, each bucket includes the smaller ones. */
static void metrics_histogram(metrics *m, enum metric which, label queue, const int64_t *jobs,
                              int64_t sum_us)
{
    int64_t all = 0;
    char le[32];
    for (int i = 0; i < PGW_BUCKETS; i++) {
        int64_t ms = INT64_C(1) << i;
        all += jobs[i];
        if (i + 1 < PGW_BUCKETS) {
            snprintf(le, sizeof le, "%" PRId64 ".%03d", ms / 1000, (int)(ms % 1000));
        } else {
            strcpy(le, "+Inf");
        }
        metrics_series(m, which, "_bucket", queue, (label){"le", le}, all * 1000);
    }
    metrics_series(m, which, "_sum", queue, none, sum_us / 1000);
    metrics_series(m, which, "_count", queue, none, all * 1000);
}

static void metrics_clear(metrics *m)
{
    for (size_t i = 0; i < METRICS; i++) buf_free(&m->samples[i]);
    for (size_t i = 0; i < m->checks; i++) free(m->grades[i].check);
    free(m->grades);
    *m = (metrics){.database = m->database};
}

static int metrics_queue(const pgw_queue_info *q, void *arg)
{
    const pgw_depth *d = q->depth;
    const struct {
        const char *state;
        int64_t count;
    } states[] = {{"ready", d->ready}, {"leased", d->leased}, {"delayed", d->delayed},
                  {"gated", d->gated}, {"dead", d->dead},     {"done", d->done}};
    const label queue = {"queue", q->name};
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        metrics_add(arg, JOBS, queue, (label){"state", states[i].state}, states[i].count * 1000);
    }
    metrics_add(arg, OLDEST, queue, none, d->oldest_ms);
    metrics_add(arg, PAUSED, queue, none, q->paused * 1000);
    metrics_add(arg, HELD, queue, none, (q->held_until_us != 0) * 1000);
    metrics_add(arg, DRAINING, queue, none, q->draining * 1000);
    return 0;
}

static int metrics_sema(const pgw_sema_info *s, void *arg)
{
    const label sema = {"semaphore", s->name};
    metrics_add(arg, PERMITS, sema, none, s->permits * INT64_C(1000));
    metrics_add(arg, TAKEN, sema, none, s->taken * INT64_C(1000));
    metrics_add(arg, WAITING, sema, none, s->waiting * INT64_C(1000));
    return 0;
}

static int metrics_cron(const pgw_cron_info *i, void *arg)
{
    const label schedule = {"schedule", i->name};
    if (i->next_us) metrics_add(arg, CRON_NEXT, schedule, none, i->next_us / 1000);
    if (i->last_us) metrics_add(arg, CRON_LAST, schedule, none, i->last_us / 1000);
    metrics_add(arg, CRON_PAUSED, schedule, none, i->paused * 1000);
    metrics_add(arg, CRON_FAILING, schedule, none, (i->error != NULL) * 1000);
    return 0;
}

static int metrics_counts(const pgw_queue_counts *c, void *arg)
{
    const struct {
        enum metric which;
        int64_t n;
    } counts[] = {{WORKERS, c->workers}, {RUNNING, c->running}, {CLAIMED, c->claimed},
                  {DONE, c->done},       {FAILED, c->failed},   {DEAD, c->dead},
                  {REFUSED, c->refused}, {LOST, c->lost}};
    const label queue = {"queue", c->queue};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        metrics_add(arg, counts[i].which, queue, none, counts[i].n * 1000);
    }
    if (c->claimed == 0) return 0; /* saves fifty series for a queue without workers */
    metrics_histogram(arg, WAIT, queue, c->wait, c->wait_us);
    metrics_histogram(arg, RUN, queue, c->run, c->run_us);
    return 0;
}

static int metrics_overdue(const pgw_overdue *o, void *arg)
{
    const label queue = {"queue", o->queue};
    metrics_add(arg, EXPIRED, queue, none, o->expired * 1000);
    metrics_add(arg, DUE, queue, none, o->due * 1000);
    return 0;
}

static void metrics_gauges(metrics *m, const pgw_gauges *g)
{
    metrics_add(m, HORIZON, none, none, g->horizon_ms);
    metrics_add(m, HORIZON_XIDS, none, none, g->horizon_xids * 1000);
    if (g->reaper_ms >= 0) metrics_add(m, REAPER, none, none, g->reaper_ms);
    metrics_add(m, REAPERS, none, none, g->reapers * 1000);
    metrics_add(m, STUCK, none, none, g->stuck * 1000);
}

static int metrics_finding(const pgw_finding *f, void *arg)
{
    metrics *m = arg;
    size_t i = 0;
    while (i < m->checks && strcmp(m->grades[i].check, f->check) != 0) i++;
    if (i == m->checks) {
        m->grades = cli_realloc(m->grades, ++m->checks * sizeof *m->grades);
        m->grades[i] = (grade){cli_copy(f->check, strlen(f->check)), PGW_GRADE_GOOD};
    }
    if (f->grade > m->grades[i].worst) m->grades[i].worst = f->grade;
    return 0;
}

static pgw_status metrics_ask(pgw *h, metrics *m, int64_t at_most, bool doctor)
{
    pgw_gauges gauges = PGW_GAUGES_INIT;
    pgw_queues_opts counts = PGW_QUEUES_OPTS_INIT;
    pgw_status st = pgw_gauges_read(h, &gauges);
    counts.at_most = cli_limit(at_most);
    if (st >= 0) st = pgw_counts_each(h, NULL, metrics_counts, m);
    if (st >= 0) st = pgw_overdue_each(h, METRICS_OVERDUE, metrics_overdue, m);
    if (st >= 0) metrics_gauges(m, &gauges);
    if (st >= 0) st = pgw_queues_each(h, &counts, metrics_queue, m);
    if (st >= 0) st = pgw_semas_each(h, metrics_sema, m);
    if (st >= 0) st = pgw_crons_each(h, NULL, metrics_cron, m);
    if (st >= 0 && doctor) st = pgw_doctor(h, metrics_finding, m);
    for (size_t i = 0; i < m->checks; i++) {
        metrics_add(m, GRADE, (label){"check", m->grades[i].check}, none,
                    (int64_t)m->grades[i].worst * 1000);
    }
    return st;
}

metrics *metrics_new(void)
{
    return cli_alloc(sizeof(metrics));
}

void metrics_end(metrics *m, buf *t)
{
    for (size_t i = 0; i < METRICS; i++) {
        if (m->samples[i].size == 0) continue;
        buf_puts(t, "# HELP pgwork_");
        buf_puts(t, described[i].name);
        buf_puts(t, " ");
        buf_puts(t, described[i].help);
        buf_puts(t, "\n# TYPE pgwork_");
        buf_puts(t, described[i].name);
        buf_puts(t, " ");
        buf_puts(t, described[i].type);
        buf_puts(t, "\n");
        buf_add(t, m->samples[i].at, m->samples[i].size);
    }
    metrics_clear(m);
    free(m);
}

pgw_status metrics_read(metrics *all, pgw *h, const char *database, int64_t at_most, bool doctor)
{
    metrics m = {.database = database};
    pgw_status st = h ? metrics_ask(h, &m, at_most, doctor) : PGW_ECONN;
    if (st < 0) metrics_clear(&m); /* half of it would look like queues that are gone */
    metrics_add(&m, UP, none, none, st < 0 ? 0 : 1000);
    for (size_t i = 0; i < METRICS; i++)
        buf_add(&all->samples[i], m.samples[i].at, m.samples[i].size);
    metrics_clear(&m);
    return st;
}
