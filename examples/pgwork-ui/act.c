/* SPDX-License-Identifier: PostgreSQL
 *
 * act: actions. Each has a session of its own, with the connection string of actions. So the server
 * decides whether it is allowed. The log of operations gets the role and the user.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ui.h"

typedef struct act act;

typedef struct action {
    const char *name, *title, *text; /* text: what it does, for the page that asks */
    pgw_status (*run)(act *a);
    const char *verb; /* in the log; NULL: pgw_bulk() writes it */
    pgw_bulk_verb bulk;
} action;

struct act {
    const req *r;
    const fields *from; /* the address, or the form */
    const action *what;
    PGconn *conn;
    pgw *h;
    const char *queue, *schedule, *group;
    int64_t id, n;
    bool more;
};

static const char *act_field(const act *a, const char *name)
{
    return a->from == &a->r->form ? req_form(a->r, name) : req_query(a->r, name);
}

/* -- what is done --------------------------------------------------------------------------- */

static pgw_status act_queue_pause(act *a)
{
    return pgw_queue_pause(a->h, a->queue);
}

static pgw_status act_queue_resume(act *a)
{
    return pgw_queue_resume(a->h, a->queue);
}

static pgw_status act_queue_drain(act *a)
{
    return pgw_queue_drain(a->h, a->queue);
}

static pgw_status act_queue_unhold(act *a)
{
    return pgw_queue_unhold(a->h, a->queue);
}

static pgw_status act_group_unblock(act *a)
{
    return pgw_group_unblock(a->h, a->queue, a->group, &a->n);
}

static pgw_status act_job_cancel(act *a)
{
    pgw_ref ref = {.id = a->id};
    pgw_status st = pgw_cancel(a->h, a->queue, &ref, 1);
    a->n = 1;
    if (st == PGW_OK) a->id = PGW_NONE; /* it is gone, with its page */
    return st;
}

static pgw_status act_job_redrive(act *a)
{
    pgw_redrive_opts o = PGW_REDRIVE_OPTS_INIT;
    o.ids = &a->id, o.ids_count = 1;
    return pgw_redrive(a->h, a->queue, &o, &a->n);
}

static pgw_status act_job_delete(act *a)
{
    pgw_dead_purge_opts o = PGW_DEAD_PURGE_OPTS_INIT;
    o.ids = &a->id, o.ids_count = 1;
    return pgw_dead_purge(a->h, a->queue, &o, &a->n);
}

static pgw_status act_job_run(act *a)
{
    pgw_reschedule_opts o = PGW_RESCHEDULE_OPTS_INIT;
    o.ids = &a->id, o.ids_count = 1;
    return pgw_reschedule(a->h, a->queue, &o, &a->n);
}

static pgw_status act_cron_run(act *a)
{
    a->n = 1;
    return pgw_cron_run(a->h, a->schedule, &a->id);
}

static pgw_status act_cron_pause(act *a)
{
    return pgw_cron_pause(a->h, a->schedule);
}

static pgw_status act_cron_resume(act *a)
{
    return pgw_cron_resume(a->h, a->schedule);
}

static pgw_status act_bulk_of(act *a, bool dry_run)
{
    pgw_filter f = PGW_FILTER_INIT;
    pgw_bulk_opts o = PGW_BULK_OPTS_INIT;
    const char *state = act_field(a, "state");
    f.queue = a->queue, f.kind = act_field(a, "kind"), f.tag = act_field(a, "tag"),
    f.key = act_field(a, "key");
    f.group = a->group, f.holder = act_field(a, "holder"), f.error = act_field(a, "error");
    o.verb = a->what->bulk, o.filter = &f, o.dry_run = dry_run;
    if (state && pgw_state_parse(state, &f.state) != PGW_OK) return PGW_EINVAL;
    return pgw_bulk(a->h, &o, &a->n, &a->more);
}

static pgw_status act_bulk(act *a)
{
    return act_bulk_of(a, false);
}

static const action actions[] = {
    {"queue-pause", "Pause the queue",
     "Claims find no jobs until it is resumed. Running jobs go on.", act_queue_pause, "queue pause",
     0},
    {"queue-resume", "Resume the queue", "Its jobs are claimed again, and new ones accepted.",
     act_queue_resume, "queue resume", 0},
    {"queue-drain", "Drain the queue",
     "New jobs are refused until it is resumed. Programs that enqueue get an error.",
     act_queue_drain, "queue drain", 0},
    {"queue-unhold", "End the hold", "Its jobs are claimed again.", act_queue_unhold,
     "queue unhold", 0},
    {"group-unblock", "Unblock the group",
     "Its hold ends, and jobs that stop it give up their places.", act_group_unblock,
     "group unblock", 0},
    {"job-cancel", "Cancel the job",
     "If it waits, it is removed. If it runs, its worker is asked to stop.", act_job_cancel,
     "job cancel", 0},
    {"job-redrive", "Redrive the job", "It is ready again, with a new count of attempts.",
     act_job_redrive, "job redrive", 0},
    {"job-delete", "Delete the dead letter", "It is gone for good.", act_job_delete, "job delete",
     0},
    {"job-run", "Run the job now", "It becomes ready at once.", act_job_run, "job run", 0},
    {"cron-run", "Run the schedule now", "It has a tick now. The next planned one does not change.",
     act_cron_run, "cron run", 0},
    {"cron-pause", "Pause the schedule", "It has no ticks until it is resumed.", act_cron_pause,
     "cron pause", 0},
    {"cron-resume", "Resume the schedule", "It has ticks again, from now on.", act_cron_resume,
     "cron resume", 0},
    {"bulk-redrive", "Redrive dead letters", "They are ready again, with a new count of attempts.",
     act_bulk, NULL, PGW_BULK_REDRIVE},
    {"bulk-cancel", "Cancel jobs",
     "Those that wait are removed. Workers of those that run are asked to stop.", act_bulk, NULL,
     PGW_BULK_CANCEL},
    {"bulk-purge", "Purge jobs", "They are gone for good.", act_bulk, NULL, PGW_BULK_PURGE}};

/* -- sessions and the log ------------------------------------------------------------------- */

static const char *const act_names[] = {"queue", "schedule", "group", "id",     "state",
                                        "kind",  "tag",      "key",   "holder", "error"};
#define ACT_NAMES (sizeof act_names / sizeof *act_names)

/* False: the page says what is wrong. */
static bool act_begin(act *a, req *r, const fields *from)
{
    const char *name;
    *a = (act){.r = r, .from = from};
    name = act_field(a, "action");
    for (size_t i = 0; name && i < sizeof actions / sizeof *actions; i++)
        if (strcmp(actions[i].name, name) == 0) a->what = &actions[i];
    a->queue = act_field(a, "queue"), a->schedule = act_field(a, "schedule"),
    a->group = act_field(a, "group");
    a->id = req_id(r, "id");
    bool job = a->what && strncmp(a->what->name, "job-", 4) == 0,
         cron = a->what && strncmp(a->what->name, "cron-", 5) == 0;
    if (!a->what || (cron ? !a->schedule : !a->queue) || (job && a->id == 0)) {
        page_message(r, 400, "Bad request",
                     "This action is unknown, or the form names no queue, schedule or job.");
        return false;
    }
    if ((a->conn = db_act(r->d, r->user)) && pgw_attach(a->conn, NULL, &a->h) == PGW_OK)
        return true;
    page_message(r, 503, a->what->title,
                 a->conn ? "The session of actions cannot be used." : r->d->error);
    return false;
}

static void act_end(act *a)
{
    pgw_close(a->h);
    PQfinish(a->conn);
}

/* In the transaction of the action. False: it may not be, so nothing is done. */
static bool act_log(act *a)
{
    static const char sql[] = "SELECT log_write($1, jsonb_strip_nulls(jsonb_build_object('queue', "
                              "$2::text, 'schedule', $3::text, 'group', $4::text, "
                              "'id', $5::bigint)), '{}', $6::bigint)";
    char n[24];
    const char *values[] = {a->what->verb, a->queue, a->schedule, a->group, act_field(a, "id"), n};
    snprintf(n, sizeof n, "%" PRId64, a->n);
    PGresult *res = PQexecParams(a->conn, sql, 6, NULL, values, NULL, NULL, 0);
    bool good = PQresultStatus(res) == PGRES_TUPLES_OK;
    PQclear(res);
    return good;
}

/* Ends the transaction; false: it is not known whether it was committed. */
static bool act_close(act *a, bool commit)
{
    PGresult *res = PQexec(a->conn, commit ? "COMMIT" : "ROLLBACK");
    bool good = !commit || PQresultStatus(res) == PGRES_COMMAND_OK;
    PQclear(res);
    return good;
}

/* A bulk operation has a transaction for each slice, and writes the log itself. */
static pgw_status act_run(act *a, char *error, size_t size)
{
    bool ours = a->what->verb != NULL;
    pgw_status st;
    if (ours) PQclear(PQexec(a->conn, "BEGIN"));
    st = a->what->run(a);
    snprintf(error, size, "%s%s%s", pgw_error_message(a->h), *pgw_error_hint(a->h) ? ": " : "",
             pgw_error_hint(a->h));
    if (ours && st >= 0 && !act_log(a)) {
        snprintf(error, size, "the log cannot be written: %s", PQerrorMessage(a->conn));
        st = PGW_EPERM;
    }
    if (ours && !act_close(a, st >= 0)) {
        snprintf(error, size, "the answer was lost, so it may have been done: %s",
                 PQerrorMessage(a->conn));
        st = PGW_EUNKNOWN;
    }
    return st;
}

/* -- pages ---------------------------------------------------------------------------------- */

/* Where the outcome can be seen. */
static void act_place(buf *to, const req *r, const act *a)
{
    html(to, "%s", r->prefix);
    if (a->schedule)
        html(to, "/schedule?name=%u", a->schedule);
    else if (a->what->run == act_job_delete)
        html(to, "/dead?queue=%u", a->queue);
    else if (a->id)
        html(to, "/job?id=%l&queue=%u", a->id, a->queue);
    else
        html(to, "/queue?name=%u", a->queue);
}

static void act_go(req *r, const act *a)
{
    buf to = {0};
    if (a->what->verb)
        act_place(&to, r, a);
    else
        html(&to, "%s/log", r->prefix);
    r->location = to.at;
    r->status = 303;
}

void act_post(req *r)
{
    act a;
    char error[1024];
    if (!act_begin(&a, r, &r->form)) {
        act_end(&a);
        return;
    }
    pgw_status st = act_run(&a, error, sizeof error);
    if (st >= 0)
        act_go(r, &a);
    else
        page_message(r,
                     st == PGW_EPERM       ? 403
                     : st == PGW_ENOTFOUND ? 404
                                           : 409,
                     a.what->title, error);
    act_end(&a);
}

static void confirm_fields(req *r, const act *a)
{
    buf no = {0};
    html(&r->out, "<dl class=\"facts\">");
    for (size_t i = 0; i < ACT_NAMES; i++) {
        const char *value = act_field(a, act_names[i]);
        if (value)
            html(&r->out, "<div><dt>%s</dt><dd><bdi>%s</bdi></dd></div>", act_names[i], value);
    }
    html(&r->out,
         "</dl>\n<form method=\"post\" action=\"%s/act\" class=\"confirm\"><input type=\"hidden\" "
         "name=\"token\" value=\"%s\">"
         "<input type=\"hidden\" name=\"action\" value=\"%s\">",
         r->prefix, r->u->token, a->what->name);
    for (size_t i = 0; i < ACT_NAMES; i++) {
        const char *value = act_field(a, act_names[i]);
        if (value)
            html(&r->out, "<input type=\"hidden\" name=\"%s\" value=\"%s\">", act_names[i], value);
    }
    act_place(&no, r, a);
    html(&r->out,
         "<button class=\"danger\">%s</button> <a class=\"button\" href=\"%s\">No</a></form>\n",
         a->what->title, no.at);
    buf_free(&no);
}

void act_confirm(req *r)
{
    act a;
    pgw_status st = PGW_OK;
    if (!page_acts(r)) {
        page_message(r, 403, "Read only",
                     "This dashboard was started without --act, so it changes nothing.");
        return;
    }
    if (act_begin(&a, r, &r->query)) {
        if (!a.what->verb) st = act_bulk_of(&a, true);
        page_begin(r, a.what->title, NULL);
        if (st < 0) {
            page_error(r, pgw_error_message(a.h), pgw_error_hint(a.h));
        } else {
            html(&r->out, "<p class=\"lead\">");
            if (!a.what->verb) {
                html(&r->out, a.more ? "At least <b>" : "<b>");
                html_count(&r->out, a.n);
                html(&r->out, a.n == 1 && !a.more ? "</b> job fits now. " : "</b> jobs fit now. ");
            }
            html(&r->out, "%s</p>\n", a.what->text);
            confirm_fields(r, &a);
        }
        page_end(r);
    }
    act_end(&a);
}
