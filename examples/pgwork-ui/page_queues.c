/* SPDX-License-Identifier: PostgreSQL
 *
 * The overview, queues, and one queue. Counts end at UI_COUNT, and rates come from rows of minutes:
 * no page counts jobs.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ui.h"

#define QUEUES_PAGE 100 /* names; a depth is asked for each */

/* clang-format off */
/* "AGO:done:failed:wait:run ..." of the last hour, as minutes_read() wants it. */
#define MINUTES(which) \
    "(SELECT string_agg(concat_ws(':', m.ago, m.done, m.failed, m.wait, m.run), ' ') FROM (" \
    "SELECT floor(extract(epoch FROM date_trunc('minute', now()) - m.at) / 60)::integer AS ago, sum(m.done) AS done, " \
    "sum(m.failed + m.dead) AS failed, coalesce(max(m.wait_p95_ms), 0) AS wait, coalesce(max(m.run_p95_ms), 0) AS run " \
    "FROM minutes m WHERE m.at > now() - interval '1 hour' AND " which " GROUP BY 1) m)"

/* Queues with pauses and holds, counts up to @p most, and minutes; @p which: a query on the view queues. */
#define QUEUES(most, which) \
    "SELECT q.name, d.ready, d.leased, d.delayed, d.gated, d.dead, d.oldest_ms, coalesce(h.paused, q.paused), q.draining, " \
    UI_US("h.until") ", h.reason, q.queue_limit, (SELECT l.semaphore FROM queue_limits(q.name) l), " \
    MINUTES("m.queue = q.name") " FROM (" which ") q " \
    "CROSS JOIN LATERAL depth(q.name, " most ", true) d LEFT JOIN LATERAL queue_holds(q.name) h ON true "
enum { Q_NAME, Q_READY, Q_LEASED, Q_DELAYED, Q_GATED, Q_DEAD, Q_OLDEST, Q_PAUSED, Q_DRAINING, Q_UNTIL, Q_REASON, Q_LIMIT, Q_SEMAPHORE, Q_MINUTES };

/* Queues whose name is greater than $1 and contains $3; at most $2 */
#define SOME_QUEUES \
    QUEUES("100", "SELECT * FROM queues t WHERE t.name > $1 AND strpos(lower(t.name), lower($3)) > 0 ORDER BY t.name LIMIT $2::integer")
/* clang-format on */

static bool is_true(const PGresult *res, int row, int column)
{
    const char *text = cell(res, row, column);
    return text && *text == 't';
}

/* Pause, hold and drain. */
static void queue_doors(req *r, const PGresult *res, int row)
{
    buf *b = &r->out;
    if (is_true(res, row, Q_PAUSED)) html_badge(b, "paused", "warn");
    if (cell(res, row, Q_UNTIL)) html_badge(b, "held", "warn");
    if (is_true(res, row, Q_DRAINING)) html_badge(b, "draining", "warn");
}

/* A count that leads to its jobs. */
static void queue_count(req *r, const char *queue, const char *state, int64_t n, const char *class)
{
    buf *b = &r->out;
    html(b, "<td class=\"n\">");
    if (n > 0)
        html(b, "<a class=\"%s\" href=\"%s/jobs?queue=%u&amp;state=%s\">", class, r->prefix, queue,
             state);
    html_bounded(b, n, UI_COUNT_SOME);
    html(b, n > 0 ? "</a></td>" : "</td>");
}

/* How long the oldest ready job has waited. */
static void queue_oldest(buf *b, const PGresult *res, int row)
{
    html_age(b, cell_int(res, row, Q_READY) > 0 ? cell_int(res, row, Q_OLDEST) : -1);
}

static void queue_rows(req *r, const PGresult *res, int rows)
{
    static const struct {
        int column;
        const char *state, *class;
    } counts[] = {{Q_READY, "ready", ""},
                  {Q_LEASED, "leased", ""},
                  {Q_DELAYED, "delayed", ""},
                  {Q_GATED, "gated", ""},
                  {Q_DEAD, "dead", "alarm"}};
    buf *b = &r->out;
    html_table(b, "Queues", "Queue|Ready>|Leased>|Delayed>|Gated>|Dead>|Oldest ready>|Last hour");
    for (int row = 0; row < rows; row++) {
        const char *name = cell(res, row, Q_NAME);
        minutes m;
        html(b, "<tr><th scope=\"row\">");
        page_queue_link(r, name);
        queue_doors(r, res, row);
        html(b, "</th>");
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
            queue_count(r, name, counts[i].state, cell_int(res, row, counts[i].column),
                        counts[i].class);
        html(b, "<td class=\"n\">");
        queue_oldest(b, res, row);
        html(b, "</td><td>");
        minutes_read(&m, cell(res, row, Q_MINUTES));
        html_spark(b, &m);
        html(b, "</td></tr>\n");
    }
    html_table_end(b);
}

/* -- charts --------------------------------------------------------------------------------- */

static void charts(req *r, const minutes *m)
{
    const chart all[] = {
        {"Throughput", "jobs a minute", "done", "failed", m->done, m->failed, false, false,
         r->now_us},
        {"Failures", "a minute", "failed", NULL, m->failed, NULL, true, false, r->now_us},
        {"Waiting time", "for 95 of 100 jobs", "for 95 of 100 jobs", NULL, m->wait_ms, NULL, false,
         true, r->now_us},
        {"Running time", "for 95 of 100 jobs", "for 95 of 100 jobs", NULL, m->run_ms, NULL, false,
         true, r->now_us}};
    html(&r->out, "<div class=\"charts\">");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) html_chart(&r->out, &all[i]);
    html(&r->out, "</div>\n");
}

/* Of a queue; NULL: of all. */
static bool minutes_ask(req *r, const char *queue, minutes *m)
{
    const char *values[] = {queue};
    PGresult *res =
        db_ask(r->d, "SELECT " MINUTES("($1::text IS NULL OR m.queue = $1)"), 1, values);
    if (!page_got(r, res)) return false;
    minutes_read(m, cell(res, 0, 0));
    PQclear(res);
    return true;
}

/* -- overview ------------------------------------------------------------------------------- */

static void tile_begin(buf *b, const char *label)
{
    html(b, "<div class=\"tile\"><dt>%s</dt><dd>", label);
}

static void tile_end(buf *b, const char *more)
{
    html(b, "</dd><dd class=\"small\">%s</dd></div>", more);
}

/* Of the five last whole minutes. */
static int64_t recent(const int64_t *values)
{
    int64_t sum = 0;
    for (size_t i = HTML_MINUTES - 6; i < HTML_MINUTES - 1; i++) sum += values[i];
    return sum;
}

static int64_t recent_most(const int64_t *values)
{
    int64_t most = 0;
    for (size_t i = HTML_MINUTES - 6; i < HTML_MINUTES; i++)
        if (values[i] > most) most = values[i];
    return most;
}

typedef struct crew {
    char last[256]; /* a worker has a row for each of its queues, one after the other */
    int64_t workers, running, places;
} crew;

static int crew_add(const pgw_worker_info *w, void *arg)
{
    crew *c = arg;
    c->running += w->running;
    if (strcmp(c->last, w->name) == 0) return 0;
    snprintf(c->last, sizeof c->last, "%s", w->name);
    c->workers++;
    c->places += w->concurrency;
    return 0;
}

static void overview_tiles(req *r, const minutes *m)
{
    buf *b = &r->out;
    crew c = {.workers = 0};
    pgw_gauges g = PGW_GAUGES_INIT;
    char text[64];
    pgw *h = page_handle(r);
    if (!h || !page_ok(r, pgw_workers_each(h, NULL, crew_add, &c)) ||
        !page_ok(r, pgw_gauges_read(h, &g)))
        return;
    html(b, "<dl class=\"tiles\">");
    tile_begin(b, "Done a minute");
    html_count(b, recent(m->done) / 5);
    tile_end(b, "in the last five minutes");
    tile_begin(b, "Failed");
    html_count(b, recent(m->failed));
    tile_end(b, "in the last five minutes");
    tile_begin(b, "Waiting time");
    html_age(b, recent_most(m->wait_ms));
    tile_end(b, "or less, for 95 of 100 jobs");
    tile_begin(b, "Running jobs");
    html_count(b, c.running);
    snprintf(text, sizeof text, "%" PRId64 " worker%s, %" PRId64 " place%s", c.workers,
             c.workers == 1 ? "" : "s", c.places, c.places == 1 ? "" : "s");
    tile_end(b, text);
    tile_begin(b, "Reapers");
    html_count(b, g.reapers);
    html(b, "</dd><dd class=\"small\">last round ");
    if (g.reaper_ms < 0)
        html(b, "never");
    else
        html_age(b, g.reaper_ms), html(b, " ago");
    html(b, "</dd></div></dl>\n");
}

/* Of the first 100 by name those that wait longest. */
static void overview_queues(req *r)
{
    static const char sql[] =
        SOME_QUEUES "ORDER BY d.oldest_ms DESC NULLS LAST, d.ready DESC, q.name LIMIT 10";
    const char *values[] = {"", "100", ""};
    buf *b = &r->out;
    html(b,
         "<section aria-labelledby=\"queues\"><h2 id=\"queues\">Queues that wait longest</h2>\n");
    PGresult *res = db_ask(r->d, sql, 3, values);
    if (page_got(r, res)) {
        if (PQntuples(res))
            queue_rows(r, res, PQntuples(res));
        else
            html(b, "<p class=\"empty\">There are no queues yet. The first enqueue makes one.</p>");
    }
    PQclear(res);
    html(b, "<p><a href=\"%s/queues\">All queues</a></p></section>\n", r->prefix);
}

void page_overview(req *r)
{
    minutes m = {.done = {0}};
    page_begin(r, "Overview", "overview");
    page_findings(r);
    if (minutes_ask(r, NULL, &m)) {
        overview_tiles(r, &m);
        charts(r, &m);
        overview_queues(r);
    }
    page_end(r);
}

/* -- databases ------------------------------------------------------------------------------ */

/* Its worst finding. */
static void database_finding(req *r, const db *d)
{
    static const char *const words[] = {"good", "note", "bad"};
    const finding *first = NULL;
    for (size_t i = 0; i < d->findings_count; i++)
        if (!first || d->findings[i].grade > first->grade) first = &d->findings[i];
    if (!first) return;
    html_badge(&r->out, words[first->grade],
               first->grade == PGW_GRADE_NOTE ? "warn" : words[first->grade]);
    if (first->grade == PGW_GRADE_GOOD)
        html(&r->out, " all is well");
    else
        html(&r->out, " "), page_check_link(&r->out, d, first->check),
            html(&r->out, ": %s", first->text);
}

static void database_depth(req *r, db *d)
{
    static const char sql[] = "SELECT coalesce(sum(d.ready), 0), coalesce(sum(d.leased), 0), "
                              "coalesce(sum(d.delayed), 0), "
                              "coalesce(sum(d.gated), 0), coalesce(sum(d.dead), 0), "
                              "coalesce(max(d.oldest_ms) FILTER (WHERE d.ready > 0), -1) "
                              "FROM (SELECT name FROM queues ORDER BY name LIMIT 100) q "
                              "CROSS JOIN LATERAL depth(q.name, 100, true) d";
    buf *b = &r->out;
    PGresult *res = db_ask(d, sql, 0, NULL);
    for (int i = 0; i < 5; i++) {
        html(b, "<td class=\"n\">");
        if (res) html_bounded(b, cell_int(res, 0, i), UI_COUNT_SOME);
        html(b, "</td>");
    }
    html(b, "<td class=\"n\">");
    html_age(b, res ? cell_int(res, 0, 5) : -1);
    html(b, "</td></tr>\n");
    PQclear(res);
}

void page_databases(req *r)
{
    buf *b = &r->out;
    page_begin(r, "Databases", "databases");
    html_table(b, "Databases",
               "Database|Doctor|Ready>|Leased>|Delayed>|Gated>|Dead>|Oldest ready>");
    for (size_t i = 0; i < r->u->dbs_count; i++) {
        db *d = &r->u->dbs[i];
        html(b, "<tr><th scope=\"row\"><a href=\"%s/\">%s</a></th><td class=\"detail\">", d->prefix,
             d->name);
        if (db_examine(d))
            database_finding(r, d);
        else
            html_badge(b, "down", "bad"), html(b, " %s", d->error);
        html(b, "</td>");
        database_depth(r, d);
    }
    html_table_end(b);
    html(b, "<p class=\"note\">Counts include the first 100 queues by name, and up to 100 jobs of "
            "each state per queue.</p>");
    page_end(r);
}

/* -- queues --------------------------------------------------------------------------------- */

void page_queues(req *r)
{
    static const char sql[] = SOME_QUEUES "ORDER BY q.name";
    const char *after = req_query(r, "after"), *part = req_query(r, "part");
    const char *values[] = {after ? after : "", "101", part ? part : ""};
    buf *b = &r->out;
    page_begin(r, "Queues", "queues");
    html(b,
         "<form class=\"filter\" method=\"get\" action=\"%s/queues\"><label>Name contains <input "
         "name=\"part\" value=\"%s\" maxlength=\"200\"></label>"
         "<button>Filter</button></form>\n",
         r->prefix, part);
    PGresult *res = db_ask(r->d, sql, 3, values);
    if (page_got(r, res)) {
        int rows = PQntuples(res) > QUEUES_PAGE ? QUEUES_PAGE : PQntuples(res);
        if (rows)
            queue_rows(r, res, rows);
        else
            html(b, "<p class=\"empty\">There are no such queues.</p>");
        html(b,
             "<p class=\"note\">Counts stop at 100. The page of a queue counts up to 1,000.</p>");
        if (PQntuples(res) > QUEUES_PAGE) {
            html(b, "<p><a rel=\"next\" href=\"%s/queues?part=%u&amp;after=%u\">Next page</a></p>",
                 r->prefix, part, cell(res, rows - 1, Q_NAME));
        }
    }
    PQclear(res);
    page_end(r);
}

/* -- one queue ------------------------------------------------------------------------------ */

static void setting_ms(buf *b, const char *label, int64_t ms, const char *if_negative,
                       const char *if_zero)
{
    html(b, "<div><dt>%s</dt><dd>", label);
    if (ms < 0 || (ms == 0 && if_zero))
        html(b, "%s", ms < 0 ? if_negative : if_zero);
    else
        html_age(b, ms);
    html(b, "</dd></div>");
}

static int queue_settings(const pgw_queue_info *q, void *arg)
{
    req *r = arg;
    buf *b = &r->out;
    const pgw_queue_opts *o = q->opts;
    html(b, "<details id=\"settings\"><summary>Settings</summary><dl class=\"facts\">");
    setting_ms(b, "lease", o->lease_ms, "", NULL);
    html(b, "<div><dt>attempts</dt><dd>");
    if (o->max_attempts < 0)
        html(b, "unlimited");
    else
        html(b, "%d", o->max_attempts);
    html(b, "</dd></div>");
    setting_ms(b, "first backoff", o->backoff_ms, "", NULL);
    setting_ms(b, "longest backoff", o->backoff_cap_ms, "", NULL);
    setting_ms(b, "finished jobs are kept for", o->retention_ms, "", "not at all");
    setting_ms(b, "dead letters are kept for", o->dead_retention_ms, "ever", NULL);
    html(b, "<div><dt>largest job</dt><dd>");
    html_count(b, o->max_bytes);
    html(b, " bytes</dd></div><div><dt>a job that expires</dt><dd>%s</dd></div>",
         o->expired == PGW_EXPIRED_DROP ? "is dropped" : "becomes a dead letter");
    html(b, "<div><dt>payloads</dt><dd>%s viewers</dd></div></dl></details>\n",
         o->payload_visible == PGW_SWITCH_ON ? "visible to" : "hidden from");
    return 0;
}

static void queue_buttons(req *r, const PGresult *res)
{
    const char *name = cell(res, 0, Q_NAME);
    bool shut = is_true(res, 0, Q_PAUSED) || is_true(res, 0, Q_DRAINING);
    if (!page_acts(r)) return;
    html(&r->out, "<div class=\"actions\">");
    if (!is_true(res, 0, Q_PAUSED)) page_button(r, "Pause", "queue-pause", "queue", name, NULL);
    if (shut) page_button(r, "Resume", "queue-resume", "queue", name, NULL);
    if (cell(res, 0, Q_UNTIL)) page_button(r, "End the hold", "queue-unhold", "queue", name, NULL);
    if (!is_true(res, 0, Q_DRAINING)) page_ask(r, "Drain …", "queue-drain", "queue", name, NULL);
    html(&r->out, "</div>\n");
}

static void queue_notes(req *r, const PGresult *res)
{
    buf *b = &r->out;
    if (is_true(res, 0, Q_PAUSED))
        html(b, "<p class=\"banner\">Paused: claims find no jobs, enqueues work.</p>");
    if (is_true(res, 0, Q_DRAINING))
        html(b, "<p class=\"banner\">Draining: enqueues are refused, claims work.</p>");
    if (cell(res, 0, Q_UNTIL)) {
        html(b, "<p class=\"banner\">Held until a time, no claims before: ");
        html_time(b, cell_time(res, 0, Q_UNTIL), r->now_us);
        if (cell(res, 0, Q_REASON)) html(b, ". Reason: <bdi>%s</bdi>", cell(res, 0, Q_REASON));
        html(b, "</p>");
    }
    if (cell(res, 0, Q_LIMIT))
        html(b,
             "<p class=\"note\">Limit: %s jobs of this queue are leased at a time. The others are "
             "gated.</p>",
             cell(res, 0, Q_LIMIT));
    if (cell(res, 0, Q_SEMAPHORE))
        html(b,
             "<p class=\"note\">Semaphore: each leased job has a permit of <bdi>%s</bdi>. The "
             "other jobs are gated.</p>",
             cell(res, 0, Q_SEMAPHORE));
}

static int group_row(const pgw_group_info *g, void *arg)
{
    req *r = arg;
    buf *b = &r->out;
    const char *queue = req_query(r, "name");
    html(b, "<tr><th scope=\"row\"><bdi>%s</bdi></th><td class=\"n\">", g->group);
    html_bounded(b, g->gated, 1000);
    html(b, "</td><td class=\"n\">%l of %d</td><td>", g->admitted, g->limit);
    if (g->held_until_us == INT64_MAX)
        html(b, "held until it is unblocked");
    else if (g->held_until_us != PGW_NONE)
        html(b, "held, free "), html_time(b, g->held_until_us, r->now_us);
    if (g->blocked_by != PGW_NONE)
        html(b, "waits for job "), page_job_link(r, queue, g->blocked_by);
    html(b, "</td><td>");
    html_time(b, g->next_since_us, r->now_us);
    html(b, "</td><td>");
    if (g->held_until_us != PGW_NONE || g->blocked_by != PGW_NONE)
        page_button(r, "Unblock", "group-unblock", "queue", queue, "group", g->group, NULL);
    html(b, "</td></tr>\n");
    return 0;
}

static void queue_groups(req *r, pgw *h, const char *name)
{
    pgw_groups_opts o = PGW_GROUPS_OPTS_INIT;
    size_t before = r->out.size, body;
    o.at_most = UI_ROWS;
    html(&r->out, "<section aria-labelledby=\"groups\"><h2 id=\"groups\">Groups</h2>");
    html_table(&r->out, "Groups", "Group|Gated>|Admitted>|Stopped|Oldest gated|Actions");
    body = r->out.size;
    page_ok(r, pgw_groups_each(h, name, &o, group_row, r));
    if (r->out.size == body) { /* none: most queues have none */
        r->out.size = before;
        r->out.at[before] = '\0';
        return;
    }
    html_table_end(&r->out);
    html(&r->out,
         "<p class=\"note\">The first %d groups by name; counts end at 1,000.</p></section>\n",
         UI_ROWS);
}

static void queue_counts(req *r, const PGresult *res)
{
    static const struct {
        int column;
        const char *state;
    } counts[] = {{Q_READY, "ready"},
                  {Q_LEASED, "leased"},
                  {Q_DELAYED, "delayed"},
                  {Q_GATED, "gated"},
                  {Q_DEAD, "dead"}};
    buf *b = &r->out;
    html(b, "<dl class=\"tiles\">");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        html(b, "<div class=\"tile\"><dt>");
        page_state(r, counts[i].state);
        html(b, "</dt><dd><a href=\"%s/jobs?queue=%u&amp;state=%s\">", r->prefix,
             cell(res, 0, Q_NAME), counts[i].state);
        html_bounded(b, cell_int(res, 0, counts[i].column), UI_COUNT);
        html(b, "</a></dd></div>");
    }
    tile_begin(b, "Oldest ready job");
    queue_oldest(b, res, 0);
    html(b, "</dd></div></dl>\n");
}

static void queue_show(req *r, const PGresult *res)
{
    const char *name = cell(res, 0, Q_NAME);
    pgw_queues_opts o = PGW_QUEUES_OPTS_INIT;
    pgw *h = page_handle(r);
    minutes m;
    o.queue = name, o.at_most = 1;
    queue_notes(r, res);
    queue_buttons(r, res);
    queue_counts(r, res);
    minutes_read(&m, cell(res, 0, Q_MINUTES));
    charts(r, &m);
    if (!h) return;
    page_ok(r, pgw_queues_each(h, &o, queue_settings, r));
    queue_groups(r, h, name);
    page_dead_errors(r, name);
}

void page_queue(req *r)
{
    static const char sql[] = QUEUES("1000", "SELECT * FROM queues t WHERE t.name = $1");
    const char *name = req_query(r, "name"), *values[] = {name};
    if (!name) {
        page_message(r, 404, "Queue", "The address names no queue.");
        return;
    }
    page_begin(r, name, "queues");
    PGresult *res = db_ask(r->d, sql, 1, values);
    if (page_got(r, res)) {
        if (PQntuples(res))
            queue_show(r, res);
        else
            page_message(r, 404, "Queue", "There is no such queue. Names are case-sensitive.");
    }
    if (r->status != 404) page_end(r);
    PQclear(res);
}
