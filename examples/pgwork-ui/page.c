/* SPDX-License-Identifier: PostgreSQL
 *
 * page: the frame of each page, and what pages share.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../pgwork/text.h"
#include "ui.h"
#include "ui_help.inc"
#include "ui_version.inc"

static const struct {
    const char *at, *path, *label;
} page_places[] = {{"overview", "/", "Overview"},
                   {"queues", "/queues", "Queues"},
                   {"jobs", "/jobs", "Jobs"},
                   {"dead", "/dead", "Dead letters"},
                   {"schedules", "/schedules", "Schedules"},
                   {"workers", "/workers", "Workers"},
                   {"locks", "/locks", "Locks"},
                   {"tables", "/tables", "Tables"},
                   {"log", "/log", "Log"}};

bool page_acts(const req *r)
{
    return r->d && r->d->act_info;
}

void page_begin(req *r, const char *title, const char *at)
{
    buf *b = &r->out;
    const char *p = r->u->prefix, *name = r->d ? r->d->name : "";
    html(
        b,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta "
        "name=\"color-scheme\" content=\"light dark\">"
        "<title>%s%r%s · pgwork</title><link rel=\"stylesheet\" href=\"%s/static/ui.css?" UI_VERSION
        "\">"
        "<link rel=\"icon\" type=\"image/svg+xml\" href=\"%s/static/icon.svg?" UI_VERSION "\">"
        "<script src=\"%s/static/ui.js?" UI_VERSION
        "\" defer></script></head>\n<body><a class=\"skip\" href=\"#main\">Skip to content</a>\n",
        title, *name ? " · " : "", name, p, p, p);
    html(b, "<header><a class=\"brand\" href=\"%s/\">pgwork</a>", p);
    if (*name) html(b, "<b class=\"database\">%s</b>", name);
    html(b, "<nav aria-label=\"Pages\">");
    if (!r->d) html(b, "<a href=\"%s/\"%r>Databases</a>", p, at ? " aria-current=\"page\"" : "");
    for (size_t i = 0; r->d && i < sizeof page_places / sizeof *page_places; i++) {
        html(b, "<a href=\"%s%s\"%r>%s</a>", r->prefix, page_places[i].path,
             at && strcmp(at, page_places[i].at) == 0 ? " aria-current=\"page\"" : "",
             page_places[i].label);
    }
    html(b,
         "</nav><div class=\"live\" hidden><span id=\"age\"></span><button type=\"button\" "
         "id=\"pause\" aria-pressed=\"false\">Pause</button></div></header>\n"
         "<main id=\"main\" tabindex=\"-1\"><h1>%s</h1>\n",
         title);
}

void page_end(req *r)
{
    const PGconn *conn = r->d ? r->d->conn : NULL;
    buf *b = &r->out;
    html(b, "</main>\n<footer>");
    if (conn) html(b, "database <b>%s</b> as role <b>%s</b> · ", PQdb(conn), PQuser(conn));
    if (*r->user) html(b, "you are <b>%s</b> · ", r->user);
    if (r->d) html(b, "<a href=\"%s/help\">Troubleshooting</a> · ", r->prefix);
    html(b, "%r · times are UTC · pgwork %s</footer></body></html>\n",
         page_acts(r) || (!r->d && r->u->act) ? "actions are logged" : "read only",
         PGW_VERSION_STRING);
}

void page_message(req *r, int status, const char *title, const char *text)
{
    buf_free(&r->out);
    r->status = status;
    page_begin(r, title, NULL);
    html(&r->out, "<p class=\"banner\">%s</p><p><a href=\"%s/\">%s</a></p>", text, r->prefix,
         r->d ? "Overview" : "Databases");
    page_end(r);
}

/* -- errors --------------------------------------------------------------------------------- */

void page_error(req *r, const char *message, const char *hint)
{
    html(&r->out, "<p class=\"banner bad\" role=\"alert\">%s",
         message && *message ? message : "unknown error");
    if (hint && *hint) html(&r->out, "<br><span>%s</span>", hint);
    html(&r->out, "</p>\n");
    if (r->status == 200) r->status = 503;
}

bool page_ok(req *r, pgw_status st)
{
    if (db_ok(r->d, st)) return true;
    page_error(r, r->d->error, pgw_error_hint(r->d->h));
    return false;
}

bool page_got(req *r, const PGresult *res)
{
    if (!res) page_error(r, r->d->error, NULL);
    return res != NULL;
}

pgw *page_handle(req *r)
{
    pgw *h = db_handle(r->d);
    if (!h) page_error(r, r->d->error, NULL);
    return h;
}

/* -- links and buttons ---------------------------------------------------------------------- */

void page_button(req *r, const char *label, const char *action, ...)
{
    va_list args;
    const char *name;
    if (!page_acts(r)) return;
    html(&r->out,
         "<form class=\"act\" method=\"post\" action=\"%s/act\"><input type=\"hidden\" "
         "name=\"token\" value=\"%s\">"
         "<input type=\"hidden\" name=\"action\" value=\"%s\">",
         r->prefix, r->u->token, action);
    va_start(args, action);
    while ((name = va_arg(args, const char *)) != NULL) {
        const char *value = va_arg(args, const char *);
        if (value) html(&r->out, "<input type=\"hidden\" name=\"%s\" value=\"%s\">", name, value);
    }
    va_end(args);
    html(&r->out, "<button>%s</button></form>", label);
}

void page_ask(req *r, const char *label, const char *action, ...)
{
    va_list args;
    const char *name;
    if (!page_acts(r)) return;
    html(&r->out, "<a class=\"button\" href=\"%s/confirm?action=%u", r->prefix, action);
    va_start(args, action);
    while ((name = va_arg(args, const char *)) != NULL) {
        const char *value = va_arg(args, const char *);
        if (value) html(&r->out, "&amp;%u=%u", name, value);
    }
    va_end(args);
    html(&r->out, "\">%s</a>", label);
}

void page_queue_link(req *r, const char *queue)
{
    html(&r->out, "<a href=\"%s/queue?name=%u\"><bdi>%s</bdi></a>", r->prefix, queue, queue);
}

void page_job_link(req *r, const char *queue, int64_t id)
{
    html(&r->out, "<a class=\"id\" href=\"%s/job?id=%l", r->prefix, id);
    if (queue) html(&r->out, "&amp;queue=%u", queue);
    html(&r->out, "\">%l</a>", id);
}

void page_state(req *r, const char *state)
{
    html_badge(&r->out, state, state); /* words of the schema */
}

/* -- the doctor ----------------------------------------------------------------------------- */

void page_check_link(buf *b, const db *d, const char *check)
{
    char anchor[64];
    snprintf(anchor, sizeof anchor, "%s", check);
    for (char *at = anchor; *at; at++)
        if (*at == ' ') *at = '-';
    html(b, "<a href=\"%s/help#%u\">%s</a>", d->prefix, anchor, check);
}

void page_help(req *r)
{
    page_begin(r, "Troubleshooting", NULL);
    for (size_t i = 0; ui_help[i]; i++) buf_puts(&r->out, ui_help[i]);
    page_end(r);
}

static const char *const page_grades[] = {"good", "note", "bad"};

static size_t page_findings_of(req *r, pgw_grade grade)
{
    const db *d = r->d;
    size_t count = 0;
    for (size_t i = 0; i < d->findings_count; i++) {
        const finding *f = &d->findings[i];
        if (f->grade != grade) continue;
        count++;
        html(&r->out, "<li class=\"%s\"><b>", page_grades[grade]);
        page_check_link(&r->out, d, f->check);
        html(&r->out, "</b> <span class=\"what\">%s</span>", f->text);
        if (grade != PGW_GRADE_GOOD && *f->advice) {
            html(&r->out, "<p>");
            html_advice(&r->out, f->advice);
            html(&r->out, "</p>");
        }
        html(&r->out, "</li>\n");
    }
    return count;
}

void page_findings(req *r)
{
    buf *b = &r->out;
    size_t bad;
    html(b, "<section aria-labelledby=\"doctor\"><h2 id=\"doctor\">Doctor</h2>\n");
    if (!db_examine(r->d)) {
        page_error(r, r->d->error, "Is the server there? `pgwork doctor` says more.");
        html(b, "</section>");
        return;
    }
    html(b, "<ul class=\"findings\">");
    bad = page_findings_of(r, PGW_GRADE_BAD) + page_findings_of(r, PGW_GRADE_NOTE);
    if (bad == 0)
        html(b,
             "<li class=\"good\"><b>all is well</b> <span class=\"what\">%d checks are "
             "good</span></li>",
             (int)r->d->findings_count);
    html(
        b,
        "</ul><details id=\"good\"><summary>Checks that are good</summary><ul class=\"findings\">");
    if (page_findings_of(r, PGW_GRADE_GOOD) == 0) html(b, "<li class=\"note\">none</li>");
    html(b, "</ul></details></section>\n");
}
