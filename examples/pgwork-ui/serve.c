/* SPDX-License-Identifier: PostgreSQL
 *
 * serve: HTTP by libmicrohttpd, in one poll loop. Of that library only reading requests and writing
 * answers is used: addresses and forms are read here, and no TLS, no digest, no threads.
 */
#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../pgwork/metrics.h"
#include "../pgwork/sd.h"
#include "../pgwork/text.h"
#include "ui.h"
#include "ui_assets.inc"

#define SERVE_BODY_MAX 65536
#define SERVE_FIELDS   64

/* -- fields --------------------------------------------------------------------------------- */

static int serve_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* %41 and +, in place. False: not UTF-8, or a NUL. */
static bool serve_decode(char *text, bool plus)
{
    char *to = text;
    for (const char *at = text; *at; at++) {
        int high = at[0] == '%' ? serve_digit(at[1]) : -1,
            low = high >= 0 ? serve_digit(at[2]) : -1;
        if (low >= 0) {
            if (high == 0 && low == 0) return false;
            *to++ = (char)(high << 4 | low);
            at += 2;
        } else {
            *to++ = *at == '+' && plus ? ' ' : *at;
        }
    }
    *to = '\0';
    return text_utf8_span(text, strlen(text)) == strlen(text);
}

/* "a=1&b=2", which is cut into pieces. False: it cannot be read. */
static bool serve_fields(fields *f, char *text)
{
    while (text && *text) {
        char *end = text + strcspn(text, "&"), *next = *end ? end + 1 : end, *value;
        *end = '\0';
        value = strchr(text, '=');
        if (value)
            *value++ = '\0';
        else
            value = end;
        if (f->count == SERVE_FIELDS || !serve_decode(text, true) || !serve_decode(value, true))
            return false;
        f->at = cli_realloc(f->at, (f->count + 1) * sizeof *f->at);
        f->at[f->count++] = (field){text, value};
        text = next;
    }
    return true;
}

static const char *serve_find(const fields *f, const char *name)
{
    for (size_t i = 0; i < f->count; i++) {
        if (strcmp(f->at[i].name, name) == 0) return *f->at[i].value ? f->at[i].value : NULL;
    }
    return NULL;
}

const char *req_query(const req *r, const char *name)
{
    return serve_find(&r->query, name);
}

const char *req_form(const req *r, const char *name)
{
    return serve_find(&r->form, name);
}

int64_t req_id(const req *r, const char *name)
{
    int64_t id;
    const char *text = req_query(r, name);
    if (!text) text = req_form(r, name);
    return text && text_to_int(&id, text) && id > 0 ? id : 0;
}

/* -- answers -------------------------------------------------------------------------------- */

/* The databases that the request is about: one, or all. */
static db *serve_dbs(const req *r, size_t *count)
{
    *count = r->d ? 1 : r->u->dbs_count;
    return r->d ? r->d : r->u->dbs;
}

static void serve_metrics(req *r)
{
    size_t count;
    db *dbs = serve_dbs(r, &count);
    metrics *m = metrics_new();
    for (size_t i = 0; i < count; i++) {
        const char *name = r->u->dbs_count > 1 ? dbs[i].name : NULL;
        pgw *h = db_handle(&dbs[i]);
        pgw_status st = metrics_read(m, h, name, 10000, true);
        if (h) db_ok(&dbs[i], st);
    }
    metrics_end(m, &r->out);
    r->type = "text/plain; version=0.0.4; charset=utf-8";
}

/* Needs no credentials, so the answer names no database. */
static void serve_health(req *r)
{
    size_t count, down = 0;
    db *dbs = serve_dbs(r, &count);
    for (size_t i = 0; i < count; i++) {
        PGresult *res = db_ask(&dbs[i], "SELECT version()", 0, NULL);
        down += res == NULL;
        PQclear(res);
    }
    r->status = down ? 503 : 200;
    if (down == 0)
        html(&r->out, "ok\n");
    else if (count == 1)
        html(&r->out, "the database does not answer\n");
    else
        html(&r->out, "%d of %d databases do not answer\n", (int)down, (int)count);
    r->type = "text/plain; charset=utf-8";
}

static const struct {
    const char *path;
    void (*page)(req *r);
} serve_pages[] = {
    {"/", page_overview},           {"/queues", page_queues},     {"/queue", page_queue},
    {"/jobs", page_jobs},           {"/job", page_job},           {"/dead", page_dead},
    {"/schedules", page_schedules}, {"/schedule", page_schedule}, {"/workers", page_workers},
    {"/locks", page_locks},         {"/tables", page_tables},     {"/log", page_log},
    {"/confirm", act_confirm},      {"/metrics", serve_metrics},  {"/help", page_help}};

static void serve_page(req *r)
{
    static const char now[] = "SELECT " UI_US("clock_timestamp()");
    if (!r->d && strcmp(r->path, "/") == 0) {
        page_databases(r);
        return;
    }
    if (!r->d && strcmp(r->path, "/metrics") == 0) {
        serve_metrics(r);
        return;
    }
    for (size_t i = 0; r->d && i < sizeof serve_pages / sizeof *serve_pages; i++) {
        if (strcmp(r->path, serve_pages[i].path) != 0) continue;
        PGresult *res = db_ask(r->d, now, 0, NULL); /* the page will report an error */
        r->now_us = res ? cell_int(res, 0, 0) : text_now_us();
        PQclear(res);
        serve_pages[i].page(r);
        return;
    }
    page_message(r, 404, "Not found", "There is no such page.");
}

static const struct ui_asset *serve_asset(const req *r)
{
    for (size_t i = 0; i < sizeof ui_assets / sizeof *ui_assets; i++) {
        if (strcmp(r->path, ui_assets[i].path) == 0) return &ui_assets[i];
    }
    return NULL;
}

static void serve_answer(req *r, bool post, const headers *h)
{
    const struct ui_asset *asset = serve_asset(r);
    if (r->bad) {
        page_message(r, 400, "Bad request", "The address or the form cannot be read.");
    } else if (asset && !post) {
        r->type = asset->type;
        for (size_t i = 0; asset->text[i]; i++) buf_puts(&r->out, asset->text[i]);
    } else if (strcmp(r->path, "/healthz") == 0 && !post) {
        serve_health(r);
    } else if (!auth_admit(r, h)) {
        return;
    } else if (!post) {
        serve_page(r);
    } else if (strcmp(r->path, "/act") != 0) {
        page_message(r, 405, "Refused", "This page takes no form.");
    } else if (!page_acts(r)) {
        page_message(r, 403, "Read only",
                     "This dashboard was started without --act, so it changes nothing.");
    } else if (auth_allows_post(r, h)) {
        act_post(r);
    }
}

/* -- libmicrohttpd -------------------------------------------------------------------------- */

static void serve_header(struct MHD_Response *response, const char *name, const char *value)
{
    MHD_add_response_header(response, name, value);
}

static enum MHD_Result serve_send(struct MHD_Connection *connection, req *r)
{
    static const char *const fixed[][2] = {
        {"Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; "
                                    "img-src 'self'; connect-src 'self'; "
                                    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"},
        {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "same-origin"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
        {"Cross-Origin-Resource-Policy", "same-origin"}};
    struct MHD_Response *response =
        MHD_create_response_from_buffer(r->out.size, r->out.at, MHD_RESPMEM_MUST_FREE);
    if (!response) return MHD_NO;
    r->out = (buf){0};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        serve_header(response, fixed[i][0], fixed[i][1]);
    serve_header(response, "Content-Type", r->type);
    /* the address of an asset names its version */
    serve_header(response, "Cache-Control",
                 serve_asset(r) && r->status == 200 ? "max-age=604800, immutable" : "no-store");
    if (r->location) serve_header(response, "Location", r->location);
    if (r->status == 401)
        serve_header(response, "WWW-Authenticate", "Basic realm=\"pgwork\", charset=\"UTF-8\"");
    enum MHD_Result queued = MHD_queue_response(connection, (unsigned)r->status, response);
    MHD_destroy_response(response);
    return queued;
}

/* With several databases, "/db/NAME/queues" is the page "/queues" of the database NAME. */
static void serve_choose(req *r)
{
    static const char start[] = "/db/";
    ui *u = r->u;
    r->prefix = u->prefix;
    if (u->dbs_count == 1) r->d = u->dbs;
    if (u->dbs_count == 1 || strncmp(r->path, start, sizeof start - 1) != 0) return;
    char *name = r->path + sizeof start - 1;
    size_t n = strcspn(name, "/");
    for (size_t i = 0; i < u->dbs_count; i++) {
        if (strlen(u->dbs[i].name) != n || strncmp(u->dbs[i].name, name, n) != 0) continue;
        r->d = &u->dbs[i];
        r->prefix = r->d->prefix;
        memmove(r->path, name + n, strlen(name + n) + 1);
        if (*r->path == '\0') strcpy(r->path, "/");
        return;
    }
}

/* For each request, when its first line has been read. */
static void *serve_begin(void *arg, const char *uri, struct MHD_Connection *connection)
{
    ui *u = arg;
    req *r = cli_alloc(sizeof *r);
    size_t prefix = strlen(u->prefix);
    (void)connection;
    r->u = u;
    r->status = 200;
    r->type = "text/html; charset=utf-8";
    r->path = cli_alloc(strlen(uri) + 2);
    strcpy(r->path, uri);
    char *query = strchr(r->path, '?');
    if (query) *query++ = '\0';
    r->bad = !serve_decode(r->path, false) || !serve_fields(&r->query, query);
    if (strncmp(r->path, u->prefix, prefix) != 0 ||
        (prefix && r->path[prefix] && r->path[prefix] != '/')) {
        *r->path = '\0'; /* not ours */
    } else {
        memmove(r->path, r->path + prefix, strlen(r->path + prefix) + 1);
        if (*r->path == '\0') strcpy(r->path, "/");
    }
    serve_choose(r);
    return r;
}

static void serve_end(void *arg, struct MHD_Connection *connection, void **state,
                      enum MHD_RequestTerminationCode why)
{
    req *r = *state;
    (void)arg, (void)connection, (void)why;
    if (!r) return;
    free(r->path); /* fields of the address lie behind it */
    free(r->query.at);
    free(r->form.at);
    free(r->location);
    buf_free(&r->body);
    buf_free(&r->out);
    free(r);
    *state = NULL;
}

static const char *serve_request_header(struct MHD_Connection *c, const char *name)
{
    return name ? MHD_lookup_connection_value(c, MHD_HEADER_KIND, name) : NULL;
}

static enum MHD_Result serve_request(void *arg, struct MHD_Connection *c, const char *url,
                                     const char *method, const char *version, const char *data,
                                     size_t *size, void **state)
{
    ui *u = arg;
    req *r = *state;
    bool post = strcmp(method, "POST") == 0;
    (void)url, (void)version;
    if (!r) return MHD_NO;
    if (!r->begun) { /* headers only */
        r->begun = true;
        return MHD_YES;
    }
    if (*size) {
        if (post && r->body.size + *size <= SERVE_BODY_MAX)
            buf_add(&r->body, data, *size);
        else
            r->bad = true;
        *size = 0;
        return MHD_YES;
    }
    if (!post && strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        page_message(r, 405, "Refused", "Only GET, HEAD and POST are answered.");
        return serve_send(c, r);
    }
    const headers h = {.host = serve_request_header(c, "Host"),
                       .origin = serve_request_header(c, "Origin"),
                       .fetch_site = serve_request_header(c, "Sec-Fetch-Site"),
                       .authorization = serve_request_header(c, "Authorization"),
                       .proxy_user = serve_request_header(c, u->proxy_header)};
    if (r->body.at && (strlen(r->body.at) != r->body.size || !serve_fields(&r->form, r->body.at)))
        r->bad = true;
    serve_answer(r, post, &h);
    return serve_send(c, r);
}

static int serve_wait_ms(struct MHD_Daemon *daemon)
{
    MHD_UNSIGNED_LONG_LONG ms;
    if (MHD_get_timeout(daemon, &ms) != MHD_YES || ms > 60000) return 60000;
    return (int)ms;
}

int serve(ui *u)
{
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_EPOLL, 0, NULL, NULL, serve_request, u, MHD_OPTION_LISTEN_SOCKET, u->fd,
        MHD_OPTION_URI_LOG_CALLBACK, serve_begin, u, MHD_OPTION_NOTIFY_COMPLETED, serve_end, NULL,
        MHD_OPTION_CONNECTION_LIMIT, 128U, MHD_OPTION_CONNECTION_TIMEOUT, 20U,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)65536, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_END);
    const union MHD_DaemonInfo *info =
        daemon ? MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
    if (!info) return cli_fail(CLI_OTHER, NULL, "cannot serve: %s", strerror(errno));
    struct pollfd fds[] = {{.fd = info->epoll_fd, .events = POLLIN},
                           {.fd = pgw_stop_fd(u->c.stop), .events = POLLIN}};
    sd_notify("READY=1\nSTATUS=serving");
    while (pgw_stop_count(u->c.stop) == 0) {
        poll(fds, 2, serve_wait_ms(daemon));
        MHD_run(daemon);
    }
    sd_notify("STOPPING=1");
    MHD_stop_daemon(daemon);
    return CLI_DONE;
}
