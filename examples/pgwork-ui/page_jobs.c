/* SPDX-License-Identifier: PostgreSQL
 *
 * Lists of jobs, and one job.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../pgwork/text.h"
#include "ui.h"

static const char *const states[] = {"ready", "leased", "delayed",  "gated",
                                     "dead",  "done",   "cancelled"};

/* Fields of the address. The first ones are found by indexes. */
static const struct {
    const char *name, *label;
} filters[] = {
    {"queue", "Queue"}, {"state", "State"}, {"kind", "Kind"},     {"tag", "Tag"},
    {"key", "Key"},     {"group", "Group"}, {"holder", "Holder"}, {"error", "Error contains"}};
#define FILTERS (sizeof filters / sizeof *filters)
#define INDEXED 2
#define SHOWN   3 /* the others are folded */

/* -- the list ------------------------------------------------------------------------------- */

static void jobs_field(req *r, const char *name, const char *label)
{
    html(&r->out, "<label>%s <input name=\"%s\" value=\"%s\" maxlength=\"255\"></label>", label,
         name, req_query(r, name));
}

static void jobs_states(buf *b, const char *chosen)
{
    html(b, "<label>State <select name=\"state\"><option value=\"\">any</option>");
    for (size_t k = 0; k < sizeof states / sizeof *states; k++) {
        html(b, "<option%r>%s</option>",
             chosen && strcmp(chosen, states[k]) == 0 ? " selected" : "", states[k]);
    }
    html(b, "</select></label>");
}

static void jobs_form(req *r, bool unfolded)
{
    buf *b = &r->out;
    html(b, "<div class=\"filters\"><form class=\"filter\" method=\"get\" action=\"%s/jobs\">",
         r->prefix);
    for (size_t i = 0; i < FILTERS; i++) {
        if (i == SHOWN) {
            html(b, "<button>Filter</button> <a href=\"%s/jobs\">Clear</a>", r->prefix);
            html(b, "<details id=\"more\"%r><summary>More</summary><div class=\"filter\">",
                 unfolded ? " open" : "");
        }
        if (strcmp(filters[i].name, "state") == 0)
            jobs_states(b, req_query(r, "state"));
        else
            jobs_field(r, filters[i].name, filters[i].label);
    }
    html(b, "</div></details></form>\n<form class=\"filter\" method=\"get\" action=\"%s/job\">",
         r->prefix);
    html(b, "<label>Job id <input name=\"id\" inputmode=\"numeric\" pattern=\"[0-9]+\" required>"
            "</label><button>Open</button></form></div>\n");
}

static void jobs_next(req *r, int64_t after)
{
    html(&r->out, "<p><a rel=\"next\" href=\"%s/jobs?after=%l", r->prefix, after);
    for (size_t i = 0; i < FILTERS; i++)
        if (req_query(r, filters[i].name))
            html(&r->out, "&amp;%s=%u", filters[i].name, req_query(r, filters[i].name));
    html(&r->out, "\">Next page</a></p>");
}

/* clang-format off */
#define JOB_COLUMNS \
    "j.queue, j.id, j.state, j.kind, j.priority, j.attempt, j.max_attempts, " UI_US("j.created_at") ", " UI_US("j.run_at") ", j.holder, " \
    UI_US("j.lease_until") ", " UI_US("j.finished_at") ", left(j.error, 300), j.key, j.grp"
/* clang-format on */

/* The fields that matter in its state. */
static void job_detail(req *r, const PGresult *res, int row)
{
    buf *b = &r->out;
    const char *state = cell(res, row, J_STATE);
    if (cell(res, row, J_GROUP)) html(b, "group <bdi>%s</bdi> ", cell(res, row, J_GROUP));
    if (cell(res, row, J_KEY)) html(b, "key <bdi>%s</bdi> ", cell(res, row, J_KEY));
    if (strcmp(state, "leased") == 0) {
        html(b, "held by <bdi>%s</bdi>, lease ends ", cell(res, row, J_HOLDER));
        html_time(b, cell_time(res, row, J_UNTIL), r->now_us);
    } else if (cell(res, row, J_RUN_AT)) {
        html(b, "runs ");
        html_time(b, cell_time(res, row, J_RUN_AT), r->now_us);
    } else if (cell(res, row, J_FINISHED)) {
        html_time(b, cell_time(res, row, J_FINISHED), r->now_us);
    }
    if (cell(res, row, J_ERROR))
        html(b, " <span class=\"error\"><bdi>%s</bdi></span>", cell(res, row, J_ERROR));
}

static void jobs_row(req *r, const PGresult *res, int row)
{
    buf *b = &r->out;
    html(b, "<tr><td>");
    page_job_link(r, cell(res, row, J_QUEUE), cell_int(res, row, J_ID));
    html(b, "</td><td>");
    page_state(r, cell(res, row, J_STATE));
    html(b, "</td><td>");
    page_queue_link(r, cell(res, row, J_QUEUE));
    html(b, "</td><td><bdi>%s</bdi></td><td class=\"n\">%s</td><td class=\"n\">%s",
         cell(res, row, J_KIND), cell(res, row, J_PRIORITY), cell(res, row, J_ATTEMPT));
    if (cell_int(res, row, J_MOST) > 0) html(b, "/%s", cell(res, row, J_MOST));
    html(b, "</td><td>");
    html_time(b, cell_time(res, row, J_CREATED), r->now_us);
    html(b, "</td><td class=\"detail\">");
    job_detail(r, res, row);
    html(b, "</td></tr>\n");
}

/* A page of jobs. The last row of a search may have nothing but an id: behind that it goes on. */
static void jobs_rows(req *r, const PGresult *res)
{
    int rows = PQntuples(res), shown = 0;
    int64_t after = 0;
    html_table(&r->out, "Jobs", "Id|State|Queue|Kind|Priority>|Attempt>|Created|Details");
    for (int row = 0; row < rows; row++) {
        after = cell_int(res, row, J_ID);
        if (!cell(res, row, J_STATE)) continue;
        jobs_row(r, res, row);
        shown++;
    }
    html_table_end(&r->out);
    if (shown == 0)
        html(&r->out, "<p class=\"empty\">%s</p>",
             rows ? "None of these 2,000 jobs matches." : "There are no such jobs.");
    if (shown == UI_ROWS || (rows && shown < rows)) jobs_next(r, after);
}

/* Operations on all jobs that fit: they have to be of one queue and one state. */
static void jobs_actions(req *r)
{
    const char *queue = req_query(r, "queue"), *state = req_query(r, "state");
    const char *kind = req_query(r, "kind"), *tag = req_query(r, "tag"), *key = req_query(r, "key");
    const char *group = req_query(r, "group"), *holder = req_query(r, "holder"),
               *error = req_query(r, "error");
    if (!page_acts(r) || !queue || !state) return;
    html(&r->out, "<div class=\"actions\"><span>All that fit:</span>");
#define JOBS_ASK(label, action)                                                                 \
    page_ask(r, label, action, "queue", queue, "state", state, "kind", kind, "tag", tag, "key", \
             key, "group", group, "holder", holder, "error", error, NULL)
    if (strcmp(state, "dead") == 0) JOBS_ASK("Redrive …", "bulk-redrive");
    if (strcmp(state, "ready") == 0 || strcmp(state, "delayed") == 0 ||
        strcmp(state, "gated") == 0 || strcmp(state, "leased") == 0)
        JOBS_ASK("Cancel …", "bulk-cancel");
    if (strcmp(state, "leased") != 0) JOBS_ASK("Purge …", "bulk-purge");
#undef JOBS_ASK
    html(&r->out, "</div>\n");
}

/* clang-format off */
/* $1: jobs with a greater id; then the filters in their order */
static const char jobs_list[] = "SELECT " JOB_COLUMNS " FROM job_list($2, $3, NULL, NULL, $1::bigint, 50) j";
/* job_list() would read millions of ready jobs to find a few leased ones, or all jobs if none is gated or delayed. */
static const char jobs_leased[] = "SELECT " JOB_COLUMNS " FROM leased_list($2, $1::bigint, 50) j WHERE j.state = $3";
static const char jobs_gates[] =
    "SELECT " JOB_COLUMNS " FROM depth($2, 1, true) d CROSS JOIN LATERAL job_list($2, $3, NULL, NULL, $1::bigint, 50) j "
    "WHERE CASE $3 WHEN 'gated' THEN d.gated ELSE d.delayed END > 0";
static const char jobs_search[] =
    "SELECT " JOB_COLUMNS " FROM job_search(jsonb_strip_nulls(jsonb_build_object('queue', $2::text, 'state', $3::text, 'kind', $4::text, "
    "'tag', $5::text, 'key', $6::text, 'group', $7::text, 'holder', $8::text, 'error', $9::text)), $1::bigint, 50, 2000) j";
/* clang-format on */

/* The statement for a list. All of them have the same parameters. */
static const char *jobs_sql(const req *r, bool searches)
{
    const char *state = req_query(r, "state");
    if (searches) return jobs_search;
    if (!state) return jobs_list;
    if (strcmp(state, "leased") == 0) return jobs_leased;
    bool gates = strcmp(state, "gated") == 0 || strcmp(state, "delayed") == 0;
    return gates && req_query(r, "queue") ? jobs_gates : jobs_list;
}

void page_jobs(req *r)
{
    char after[24];
    const char *values[1 + FILTERS] = {after};
    bool searches = false, unfolded = false;
    snprintf(after, sizeof after, "%" PRId64, req_id(r, "after"));
    for (size_t i = 0; i < FILTERS; i++) {
        values[1 + i] = req_query(r, filters[i].name);
        if (i >= INDEXED && values[1 + i]) searches = true;
        if (i >= SHOWN && values[1 + i]) unfolded = true;
    }
    page_begin(r, "Jobs", "jobs");
    jobs_form(r, unfolded);
    jobs_actions(r);
    PGresult *res = db_ask(r->d, jobs_sql(r, searches), 1 + (searches ? FILTERS : INDEXED), values);
    if (page_got(r, res)) jobs_rows(r, res);
    PQclear(res);
    page_end(r);
}

/* -- one job -------------------------------------------------------------------------------- */

/* $3: with payload, output and meta. Short ones are laid out, which makes deep ones much longer. Of
 * a long text the server sends what is shown, and its size. */
#define JOB_LAID(x) \
    "CASE WHEN octet_length(" x "::text) < 4096 THEN jsonb_pretty(" x ") ELSE " x "::text END"
#define JOB_TEXT(x) \
    "CASE WHEN $3::boolean THEN left(" JOB_LAID(x) ", 65536) END, octet_length(" JOB_LAID(x) ")"
/* clang-format off */
static const char job_sql[] =
    "SELECT " JOB_COLUMNS ", " UI_US("j.expires_at") ", j.body_bytes, array_to_string(j.tags, E'\\x1f'), j.error, j.payload_hidden, "
    JOB_TEXT("j.payload") ", " JOB_TEXT("j.output") ", " JOB_TEXT("j.meta") ", " JOB_TEXT("j.progress") " FROM job_list($1, NULL, NULL, $2::bigint) j";
/* clang-format on */

static void fact_begin(buf *b, const char *label)
{
    html(b, "<div><dt>%s</dt><dd>", label);
}

static void fact(buf *b, const char *label, const char *value)
{
    if (!value || !*value) return;
    fact_begin(b, label);
    html(b, "<bdi>%s</bdi></dd></div>", value);
}

static void fact_time(req *r, const char *label, int64_t us)
{
    if (us == PGW_NONE) return;
    fact_begin(&r->out, label);
    html_time(&r->out, us, r->now_us);
    html(&r->out, "</dd></div>");
}

/* When its handler started, if its worker has reported it. */
typedef struct since {
    int64_t id, us;
} since;

static int since_look(const pgw_worker_info *w, void *arg)
{
    since *s = arg;
    for (size_t i = 0; i < w->jobs_count; i++)
        if (w->jobs[i].id == s->id) s->us = w->jobs[i].since_us;
    return s->us != PGW_NONE;
}

static void job_tags(buf *b, const char *tags)
{
    char tag[256];
    while (tags && *tags) {
        size_t n = strcspn(tags, "\x1f");
        snprintf(tag, sizeof tag, "%.*s", (int)n, tags);
        fact(b, "tag", tag);
        tags += n + (tags[n] != '\0');
    }
}

static void job_times(req *r, const PGresult *res)
{
    since s = {cell_int(res, 0, J_ID), PGW_NONE};
    pgw *h = strcmp(cell(res, 0, J_STATE), "leased") == 0 ? db_handle(r->d) : NULL;
    if (h) pgw_workers_each(h, cell(res, 0, J_QUEUE), since_look, &s);
    fact_time(r, "created", cell_time(res, 0, J_CREATED));
    fact_time(r, "runs since", s.us);
    fact_time(r, "lease ends", cell_time(res, 0, J_UNTIL));
    fact_time(r, "runs at", cell_time(res, 0, J_RUN_AT));
    fact_time(r, "expires", cell_time(res, 0, J_EXPIRES));
    fact_time(r, "finished", cell_time(res, 0, J_FINISHED));
}

static void job_facts(req *r, const PGresult *res)
{
    buf *b = &r->out;
    html(b, "<dl class=\"facts\">");
    fact_begin(b, "queue");
    page_queue_link(r, cell(res, 0, J_QUEUE));
    html(b, "</dd></div>");
    fact(b, "kind", cell(res, 0, J_KIND));
    fact(b, "priority", cell(res, 0, J_PRIORITY));
    fact_begin(b, "attempt");
    html(b, cell_int(res, 0, J_MOST) > 0 ? "%s of %s</dd></div>" : "%s</dd></div>",
         cell(res, 0, J_ATTEMPT), cell(res, 0, J_MOST));
    fact(b, "key", cell(res, 0, J_KEY));
    fact(b, "group", cell(res, 0, J_GROUP));
    job_tags(b, cell(res, 0, J_TAGS));
    fact(b, "holder", cell(res, 0, J_HOLDER));
    job_times(r, res);
    if (cell(res, 0, J_BODY)) {
        fact_begin(b, "body");
        html_count(b, cell_int(res, 0, J_BODY));
        html(b, " bytes, never shown here</dd></div>");
    }
    html(b, "</dl>\n");
}

static void job_buttons(req *r, const PGresult *res)
{
    const char *queue = cell(res, 0, J_QUEUE), *id = cell(res, 0, J_ID),
               *state = cell(res, 0, J_STATE);
    bool dead = strcmp(state, "dead") == 0, delayed = strcmp(state, "delayed") == 0;
    if (!page_acts(r)) return;
    html(&r->out, "<div class=\"actions\">");
    if (dead) page_button(r, "Redrive", "job-redrive", "queue", queue, "id", id, NULL);
    if (dead) page_ask(r, "Delete …", "job-delete", "queue", queue, "id", id, NULL);
    if (delayed) page_button(r, "Run now", "job-run", "queue", queue, "id", id, NULL);
    if (!dead && !cell(res, 0, J_FINISHED))
        page_ask(r, "Cancel …", "job-cancel", "queue", queue, "id", id, NULL);
    html(&r->out, "</div>\n");
}

/* A text of a person or a program, unchanged. @p size: of all of it; 0: all is here. */
static void job_block(buf *b, const char *label, const char *text, int64_t size)
{
    int64_t here = text ? (int64_t)strlen(text) : 0;
    if (!text) return;
    html(b, "<h2>%s</h2><pre tabindex=\"0\" role=\"group\" dir=\"auto\" aria-label=\"%s\">%s",
         label, label, text);
    if (size > here) html(b, "<span class=\"more\"> … %l bytes more</span>", size - here);
    html(b, "</pre>\n");
}

static void job_texts(req *r, const PGresult *res)
{
    const char *hidden = cell(res, 0, J_HIDDEN);
    job_block(&r->out, "Error", cell(res, 0, J_WHOLE_ERROR), 0);
    if (!r->u->payloads) {
        html(&r->out, "<p class=\"note\">Payload, output and meta are hidden: start with "
                      "--payloads to see them.</p>\n");
    } else if (hidden && *hidden == 't') {
        html(&r->out, "<p class=\"note\">Payload, output and meta are hidden from this role: see "
                      "the setting payload_visible of the queue.</p>\n");
    } else {
        job_block(&r->out, "Payload", cell(res, 0, J_PAYLOAD), cell_int(res, 0, J_PAYLOAD + 1));
        job_block(&r->out, "Output", cell(res, 0, J_OUTPUT), cell_int(res, 0, J_OUTPUT + 1));
        job_block(&r->out, "Meta", cell(res, 0, J_META), cell_int(res, 0, J_META + 1));
        job_block(&r->out, "Progress", cell(res, 0, J_PROGRESS), cell_int(res, 0, J_PROGRESS + 1));
    }
}

/* The attempts that did not complete it. */
static void job_attempts(req *r, const PGresult *job)
{
    static const char sql[] =
        "SELECT attempt, " UI_US("ended_at") ", ended, holder, error "
                                             "FROM job_attempts($1, $2::bigint)";
    const char *values[] = {cell(job, 0, J_QUEUE), cell(job, 0, J_ID)};
    buf *b = &r->out;
    PGresult *res = db_ask(r->d, sql, 2, values);
    if (page_got(r, res) && PQntuples(res)) {
        html(b, "<h2>Attempts that failed</h2>\n");
        html_table(b, "Attempts that failed", "Attempt>|Ended|How|Holder|Error");
        for (int row = 0; row < PQntuples(res); row++) {
            html(b, "<tr><td class=\"n\">%s</td><td>", cell(res, row, 0));
            html_time(b, cell_time(res, row, 1), r->now_us);
            html(b, "</td><td>%s</td><td><bdi>%s</bdi></td>", cell(res, row, 2), cell(res, row, 3));
            html(b, "<td class=\"detail\"><span class=\"error\"><bdi>%s</bdi></span></td></tr>\n",
                 cell(res, row, 4));
        }
        html_table_end(b);
    }
    PQclear(res);
}

void page_job(req *r)
{
    char id[24], title[40];
    const char *values[] = {req_query(r, "queue"), id, r->u->payloads ? "t" : "f"};
    snprintf(id, sizeof id, "%" PRId64, req_id(r, "id"));
    snprintf(title, sizeof title, "Job %s", id);
    if (*id == '0') {
        page_message(r, 404, "Job", "The address names no job.");
        return;
    }
    PGresult *res = db_ask(r->d, job_sql, 3, values);
    if (res && PQntuples(res) == 0) {
        page_message(
            r, 404, title,
            "There is no such job. Finished jobs are kept for the retention of their queue.");
    } else {
        page_begin(r, title, "jobs");
        if (page_got(r, res)) {
            html(&r->out, "<p class=\"lead\">");
            page_state(r, cell(res, 0, J_STATE));
            html(&r->out, "</p>\n");
            why(r, res);
            job_buttons(r, res);
            job_facts(r, res);
            job_attempts(r, res);
            job_texts(r, res);
        }
        page_end(r);
    }
    PQclear(res);
}
