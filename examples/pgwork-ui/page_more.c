/* SPDX-License-Identifier: PostgreSQL
 *
 * Dead letters, schedules, workers, locks, tables, and the log of operations.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ui.h"

/* A table whose rows the library lists: where it begins, and its end. @p empty: said when there are
 * none. */
static size_t list_begin(req *r, const char *caption, const char *headings)
{
    size_t before = r->out.size;
    html_table(&r->out, caption, headings);
    return before;
}

static void list_end(req *r, size_t before, pgw_status st, const char *empty)
{
    html_table_end(&r->out);
    if (st == PGW_OUTCOME_EMPTY) {
        r->out.size = before;
        html(&r->out, "<p class=\"empty\">%s</p>\n", empty);
    }
    page_ok(r, st);
}

/* -- dead letters --------------------------------------------------------------------------- */

static void dead_row(req *r, const PGresult *res, int row)
{
    const char *queue = cell(res, row, 0), *kind = cell(res, row, 1), *error = cell(res, row, 2);
    buf *b = &r->out;
    if (kind && !*kind) kind = NULL; /* a filter cannot ask for none */
    html(b, "<tr><td class=\"n\">");
    html_count(b, cell_int(res, row, 3));
    html(b, "</td><td>");
    page_queue_link(r, queue);
    html(b,
         "</td><td><bdi>%s</bdi></td><td class=\"detail\"><a class=\"error\" "
         "href=\"%s/jobs?queue=%u&amp;state=dead",
         kind, r->prefix, queue);
    if (kind) html(b, "&amp;kind=%u", kind);
    if (*error) html(b, "&amp;error=%u", error);
    html(b, "\"><bdi>%s</bdi></a></td><td>", *error ? error : "no error text");
    html_time(b, cell_time(res, row, 4), r->now_us);
    html(b, "</td><td>");
    html_time(b, cell_time(res, row, 5), r->now_us);
    html(b, "</td><td>");
    page_job_link(r, queue, cell_int(res, row, 6));
    html(b, "</td>");
    if (page_acts(r)) {
        html(b, "<td class=\"actions\">");
        page_ask(r, "Redrive …", "bulk-redrive", "queue", queue, "state", "dead", "kind", kind,
                 "error", *error ? error : NULL, NULL);
        page_ask(r, "Purge …", "bulk-purge", "queue", queue, "state", "dead", "kind", kind, "error",
                 *error ? error : NULL, NULL);
        html(b, "</td>");
    }
    html(b, "</tr>\n");
}

void page_dead_errors(req *r, const char *queue)
{
    static const char sql[] = "SELECT queue, kind, error, n, " UI_US("first_at") ", " UI_US(
        "last_at") ", last_id FROM dead_errors($1, 1000) LIMIT 200";
    PGresult *res = db_ask(r->d, sql, 1, &queue);
    html(&r->out, "<section aria-labelledby=\"dead\"><h2 id=\"dead\">Dead letters by error</h2>\n");
    if (page_got(r, res)) {
        int rows = PQntuples(res);
        if (rows)
            html_table(&r->out, "Dead letters by error",
                       page_acts(r) ? "Jobs>|Queue|Kind|Error|First|Last|Newest|Actions"
                                    : "Jobs>|Queue|Kind|Error|First|Last|Newest");
        for (int row = 0; row < rows; row++) dead_row(r, res, row);
        if (rows) html_table_end(&r->out);
        html(&r->out, rows ? "<p class=\"note\">Of the newest 1,000 of each queue. Numbers in "
                             "errors are shown as #.</p>"
                           : "<p class=\"empty\">There are no dead letters.</p>");
    }
    html(&r->out, "</section>\n");
    PQclear(res);
}

void page_dead(req *r)
{
    page_begin(r, "Dead letters", "dead");
    page_dead_errors(r, req_query(r, "queue"));
    page_end(r);
}

/* -- schedules ------------------------------------------------------------------------------ */

static void schedule_link(req *r, const char *name)
{
    html(&r->out, "<a href=\"%s/schedule?name=%u\"><bdi>%s</bdi></a>", r->prefix, name, name);
}

static int schedule_row(const pgw_cron_info *i, void *arg)
{
    req *r = arg;
    buf *b = &r->out;
    html(b, "<tr><th scope=\"row\">");
    schedule_link(r, i->name);
    if (i->paused) html_badge(b, "paused", "warn");
    if (i->error) html_badge(b, "failing", "dead");
    html(b, "</th><td><code>%s</code></td><td>%s</td><td>", i->expression, i->zone);
    html_time(b, i->next_us, r->now_us);
    html(b, "</td><td>");
    html_time(b, i->last_us, r->now_us);
    html(b, "</td><td>");
    if (i->queue)
        page_queue_link(r, i->queue);
    else
        html(b, "a node");
    html(b, "</td><td class=\"detail\">");
    if (i->holder) html(b, "held by <bdi>%s</bdi> ", i->holder);
    if (i->error) html(b, "<span class=\"error\"><bdi>%s</bdi></span>", i->error);
    html(b, "</td></tr>\n");
    return 0;
}

void page_schedules(req *r)
{
    page_begin(r, "Schedules", "schedules");
    pgw *h = page_handle(r);
    if (h) {
        size_t before =
            list_begin(r, "Schedules", "Schedule|Expression|Zone|Next|Last|Queue|Details");
        list_end(r, before, pgw_crons_each(h, NULL, schedule_row, r),
                 "There are no schedules. pgwork cron add makes one.");
    }
    page_end(r);
}

/* A copy of what the page needs, for while the handle is busy. */
typedef struct plan {
    req *r;
    char *expression, *zone;
    bool paused;
} plan;

static int schedule_facts(const pgw_cron_info *i, void *arg)
{
    static const char *const misfires[] = {"the latest runs", "only those in the grace time run",
                                           "the latest ones run, oldest first"};
    plan *p = arg;
    req *r = p->r;
    buf *b = &r->out;
    p->expression = cli_copy(i->expression, strlen(i->expression));
    p->zone = cli_copy(i->zone, strlen(i->zone));
    p->paused = i->paused;
    if (i->paused) html(b, "<p class=\"banner\">Paused: it has no ticks.</p>");
    if (i->error) html(b, "<p class=\"banner bad\"><bdi>%s</bdi></p>", i->error);
    html(b,
         "<dl "
         "class=\"facts\"><div><dt>expression</dt><dd><code>%s</code></dd></div><div><dt>zone</"
         "dt><dd>%s</dd></div><div><dt>next</dt><dd>",
         i->expression, i->zone);
    html_time(b, i->next_us, r->now_us);
    html(b, "</dd></div><div><dt>last</dt><dd>");
    html_time(b, i->last_us, r->now_us);
    html(b, "</dd></div><div><dt>a tick is</dt><dd>");
    if (i->queue)
        html(b, "a job of "), page_queue_link(r, i->queue);
    else
        html(b, "held by a node");
    html(b, "</dd></div><div><dt>missed ticks</dt><dd>%s</dd></div>", misfires[i->misfire]);
    if (i->kind && *i->kind) html(b, "<div><dt>kind</dt><dd><bdi>%s</bdi></dd></div>", i->kind);
    if (i->holder) {
        html(b, "<div><dt>held by</dt><dd><bdi>%s</bdi>, until ", i->holder);
        html_time(b, i->until_us, r->now_us);
        html(b, "</dd></div>");
    }
    html(b, "</dl>\n");
    return 0;
}

static int schedule_fire(int64_t at_us, const char *local, void *arg)
{
    req *r = arg;
    html(&r->out, "<li>%s <span class=\"none\">", local);
    html_time(&r->out, at_us, r->now_us);
    html(&r->out, "</span></li>");
    return 0;
}

static void schedule_history(req *r, const char *name)
{
    static const char sql[] =
        "SELECT " UI_US("t.slot") ", " UI_US("t.at") ", t.job, s.queue, t.holder, " UI_US(
            "t.finished_at") ", t.error FROM ticks t JOIN schedules s ON s.id = t.schedule WHERE "
                             "s.name = $1 ORDER BY t.slot DESC LIMIT 20";
    buf *b = &r->out;
    PGresult *res = db_ask(r->d, sql, 1, &name);
    html(b, "<h2>Last ticks</h2>\n");
    if (!page_got(r, res)) return;
    if (PQntuples(res)) html_table(b, "Last ticks", "Due|Decided|Job or node|Finished|Error");
    for (int row = 0; row < PQntuples(res); row++) {
        html(b, "<tr><td>");
        html_time(b, cell_time(res, row, 0), r->now_us);
        html(b, "</td><td>");
        html_time(b, cell_time(res, row, 1), r->now_us);
        html(b, "</td><td>");
        if (cell(res, row, 2))
            page_job_link(r, cell(res, row, 3), cell_int(res, row, 2));
        else
            html(b, "<bdi>%s</bdi>", cell(res, row, 4));
        html(b, "</td><td>");
        html_time(b, cell_time(res, row, 5), r->now_us);
        html(b, "</td><td class=\"detail\"><span class=\"error\"><bdi>%s</bdi></span></td></tr>\n",
             cell(res, row, 6));
    }
    if (PQntuples(res))
        html_table_end(b);
    else
        html(b, "<p class=\"empty\">There were none yet.</p>");
    PQclear(res);
}

void page_schedule(req *r)
{
    const char *name = req_query(r, "name");
    plan p = {.r = r};
    pgw_cron_next_opts o = PGW_CRON_NEXT_OPTS_INIT;
    page_begin(r, name ? name : "Schedule", "schedules");
    pgw *h = name ? page_handle(r) : NULL;
    pgw_status st = h ? pgw_crons_each(h, name, schedule_facts, &p) : PGW_OK;
    if (!name || st == PGW_OUTCOME_EMPTY) {
        page_message(r, 404, "Schedule", "There is no such schedule.");
        return;
    }
    if (h && page_ok(r, st) && p.expression) {
        if (page_acts(r)) {
            html(&r->out, "<div class=\"actions\">");
            page_button(r, "Run now", "cron-run", "schedule", name, NULL);
            page_button(r, p.paused ? "Resume" : "Pause", p.paused ? "cron-resume" : "cron-pause",
                        "schedule", name, NULL);
            html(&r->out, "</div>\n");
        }
        o.zone = p.zone;
        html(&r->out, "<h2>Next times</h2><ol class=\"times\">");
        st = pgw_cron_next(h, p.expression, &o, schedule_fire, r);
        html(&r->out, "</ol>\n");
        page_ok(r, st);
        schedule_history(r, name);
    }
    free(p.expression);
    free(p.zone);
    page_end(r);
}

/* -- workers -------------------------------------------------------------------------------- */

static int worker_row(const pgw_worker_info *w, void *arg)
{
    req *r = arg;
    buf *b = &r->out;
    const int64_t counts[] = {w->done, w->failed, w->dead, w->refused + w->lost};
    html(b, "<tr><th scope=\"row\"><bdi>%s</bdi></th><td>", w->name);
    page_queue_link(r, w->queue);
    html(b, "</td><td class=\"n\">%d of %d</td>", w->running, w->concurrency);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        html(b, "<td class=\"n\">");
        html_bounded(b, counts[i], INT64_MAX);
        html(b, "</td>");
    }
    html(b, "<td>");
    html_time(b, w->since_us, r->now_us);
    html(b, "</td><td>");
    html_time(b, w->report_us, r->now_us);
    html(b, "</td><td class=\"detail\">");
    for (size_t i = 0; i < w->jobs_count && i < 10; i++) {
        page_job_link(r, w->queue, w->jobs[i].id);
        html(b, " since ");
        html_time(b, w->jobs[i].since_us, r->now_us);
        html(b, "<br>");
    }
    if (w->jobs_count > 10) html(b, "and %d more", (int)w->jobs_count - 10);
    html(b, "</td></tr>\n");
    return 0;
}

void page_workers(req *r)
{
    page_begin(r, "Workers", "workers");
    pgw *h = page_handle(r);
    if (h) {
        size_t before = list_begin(r, "Workers",
                                   "Worker|Queue|Running>|Done>|Failed>|Dead>|Lost>|Since|Last "
                                   "report|Jobs that run for a second or longer");
        list_end(r, before, pgw_workers_each(h, req_query(r, "queue"), worker_row, r),
                 "No worker has reported within 30 seconds. Programs that only call claim do not "
                 "report.");
    }
    page_end(r);
}

/* -- locks, semaphores, rates --------------------------------------------------------------- */

static int lock_row(const pgw_lock_info *i, void *arg)
{
    req *r = arg;
    buf *b = &r->out;
    html(b, "<tr><th scope=\"row\"><bdi>%s</bdi></th><td>", i->name);
    html_badge(b, i->held ? (i->shared ? "shared" : "held") : "waits",
               i->held ? "leased" : "delayed");
    html(b,
         "</td><td><bdi>%s</bdi></td><td>%s</td><td>%s</td><td class=\"n\">%d</td><td class=\"n\">",
         i->application, i->user, i->client ? i->client : "local", i->pid);
    if (i->fence != PGW_NONE) html(b, "%l", i->fence);
    html(b, "</td><td>");
    html_time(b, i->since_us, r->now_us);
    html(b, "</td></tr>\n");
    return 0;
}

typedef struct names {
    req *r;
    char **at;
    size_t count;
} names;

static int sema_row(const pgw_sema_info *i, void *arg)
{
    names *n = arg;
    html(&n->r->out,
         "<tr><th scope=\"row\"><bdi>%s</bdi></th><td class=\"n\">%d</td><td "
         "class=\"n\">%d</td><td class=\"n\">%d</td></tr>\n",
         i->name, i->taken, i->permits, i->waiting);
    if (i->taken > 0 && n->count < UI_ROWS) {
        n->at = cli_realloc(n->at, (n->count + 1) * sizeof *n->at);
        n->at[n->count++] = cli_copy(i->name, strlen(i->name));
    }
    return 0;
}

static int grant_row(const pgw_sema_grant *g, void *arg)
{
    req *r = arg;
    html(&r->out, "<li><bdi>%s</bdi>: %d, taken ", g->holder, g->permits);
    html_time(&r->out, g->taken_us, r->now_us);
    html(&r->out, ", end ");
    html_time(&r->out, g->until_us, r->now_us);
    if (g->pid != PGW_NONE) html(&r->out, ", or with session %d", g->pid);
    html(&r->out, "</li>");
    return 0;
}

static int rate_row(const pgw_rate_info *i, void *arg)
{
    req *r = arg;
    buf *b = &r->out;
    html(b, "<tr><th scope=\"row\"><bdi>%s</bdi></th><td class=\"n\">%d</td><td>", i->name, i->n);
    html_age(b, i->per_ms);
    html(b, "</td><td class=\"n\">%d</td><td class=\"n\">%l</td><td>", i->burst, i->available);
    if (i->next_ms > 0)
        html(b, "in "), html_age(b, i->next_ms);
    else
        html(b, "now");
    html(b, "</td></tr>\n");
    return 0;
}

static void locks_semas(req *r, pgw *h)
{
    names n = {.r = r};
    html(&r->out, "<h2>Semaphores</h2>\n");
    size_t before = list_begin(r, "Semaphores", "Semaphore|Taken>|Permits>|Waiting>");
    list_end(r, before, pgw_semas_each(h, sema_row, &n), "There are no semaphores.");
    for (size_t i = 0; i < n.count; i++) {
        html(&r->out, "<h3>Holders of <bdi>%s</bdi></h3><ul class=\"plain\">", n.at[i]);
        page_ok(r, pgw_sema_grants_each(h, n.at[i], grant_row, r));
        html(&r->out, "</ul>\n");
        free(n.at[i]);
    }
    free(n.at);
}

void page_locks(req *r)
{
    page_begin(r, "Locks, semaphores, rates", "locks");
    pgw *h = page_handle(r);
    if (h) {
        html(&r->out, "<h2>Locks</h2>\n");
        size_t before =
            list_begin(r, "Locks", "Lock|State|Application|User|Client|Pid>|Fence>|Since");
        list_end(r, before, pgw_locks_each(h, NULL, lock_row, r),
                 "There are no holders of locks, and no waiters.");
        locks_semas(r, h);
        html(&r->out, "<h2>Rates</h2>\n");
        before = list_begin(r, "Rates", "Rate|Takes>|Per|Burst>|Available>|Next");
        list_end(r, before, pgw_rates_each(h, rate_row, r), "There are no rates.");
    }
    page_end(r);
}

/* -- tables and the log --------------------------------------------------------------------- */

static int table_row(const pgw_table_info *i, void *arg)
{
    req *r = arg;
    buf *b = &r->out;
    html(b, "<tr><th scope=\"row\"><bdi>%s.%s</bdi></th><td>%s</td><td>%s</td><td>%s</td><td>",
         i->schema, i->table, i->locked_by, i->expires_at, i->token);
    html_time(b, i->reaped_us, r->now_us);
    html(b, "</td><td class=\"detail\"><span class=\"error\"><bdi>%s</bdi></span></td></tr>\n",
         i->error);
    return 0;
}

void page_tables(req *r)
{
    page_begin(r, "Registered tables", "tables");
    pgw *h = page_handle(r);
    if (h) {
        size_t before = list_begin(r, "Registered tables",
                                   "Table|Holder|End|Token|Rows last freed|Error of the last pass");
        list_end(r, before, pgw_tables_each(h, table_row, r),
                 "No table is registered. pgwork table register does it.");
    }
    page_end(r);
}

static int log_row(const pgw_log_info *l, void *arg)
{
    req *r = arg;
    buf *b = &r->out;
    html(b, "<tr><td>");
    html_time(b, l->at_us, r->now_us);
    html(b, "</td><td><bdi>%s</bdi></td><td>%s</td><td class=\"n\">", l->who, l->verb);
    html_count(b, l->n);
    html(b, "</td><td class=\"detail\"><code><bdi>%s</bdi></code></td><td class=\"detail\">",
         l->filter);
    if (l->change && strcmp(l->change, "{}") != 0) html(b, "<code><bdi>%s</bdi></code>", l->change);
    html(b, "</td></tr>\n");
    return 0;
}

void page_log(req *r)
{
    page_begin(r, "Log of operations", "log");
    pgw *h = page_handle(r);
    if (h) {
        size_t before = list_begin(r, "Log of operations", "When|Who|What|Jobs>|Which|Change");
        list_end(r, before, pgw_log_each(h, 200, log_row, r),
                 "Nothing was done in the last 90 days.");
    }
    page_end(r);
}
