/* SPDX-License-Identifier: PostgreSQL
 *
 * pgwork-ui, the dashboard: what its parts share. One process, one thread, one request at a time;
 * every question to the server has a limit.
 */
#ifndef UI_H
#define UI_H

#include <libpq-fe.h>

#include "../pgwork/cli.h"
#include "html.h"

#define UI_STATEMENT_MS 2000  /* longest statement of a page */
#define UI_COUNT        1000  /* counts on the page of one queue stop here */
#define UI_COUNT_SOME   100   /* counts in lists of queues: a count costs time for each job */
#define UI_ROWS         50    /* jobs on a page */
#define UI_SHOWN        65536 /* bytes of a payload that are shown */

/* -- requests ------------------------------------------------------------------------------- */

typedef struct field {
    char *name, *value;
} field;

typedef struct fields {
    field *at;
    size_t count;
} fields;

typedef struct ui ui;
typedef struct db db;
typedef struct req {
    ui *u;
    db *d;              /* the database of the page; NULL: the page is about all databases */
    const char *prefix; /* how addresses of pages of this database begin */
    char *path;         /* behind the prefix; decoded */
    fields query;       /* of the address */
    fields form;        /* of a POST */
    buf body;           /* that is read */
    bool begun, bad;
    char user[256]; /* who asks */
    /* the answer */
    int status;
    const char *type;
    char *location; /* of a redirection */
    buf out;
    int64_t now_us; /* server's clock */
} req;

/** A field of the address, or of the form; NULL where it is missing or empty. */
const char *req_query(const req *r, const char *name);
const char *req_form(const req *r, const char *name);
/** The same as a number above 0; 0: missing, or none. */
int64_t req_id(const req *r, const char *name);

/* -- a database ----------------------------------------------------------------------------- */

typedef struct finding {
    pgw_grade grade;
    char *check, *text, *advice;
} finding;

struct db {
    char name[64];  /* in addresses; "": it is the only database */
    char *prefix;   /* how addresses of its pages begin */
    pgw_conf *conf; /* for h */
    char *conninfo; /* read only, with limits */
    char *act_info; /* of actions; NULL: there are none */
    char *schema;
    pgw *h;          /* NULL: not open */
    PGconn *conn;    /* for views; NULL: not open */
    char error[700]; /* why the last question has no answer */
    finding *findings;
    size_t findings_count;
    /* times of the monotonic clock */
    int64_t asked_ms;   /* when the last call began */
    int64_t down_ms;    /* if it is down, when to try again */
    int64_t examine_ms; /* when the doctor may run again */
};

/** Reads connection strings. CLI_DONE, or an exit code after a message. @p act_file: of actions;
 * NULL: the same. */
int db_prepare(db *d, const cli *c, bool act, const char *act_file);
/** The handle for reading; NULL: see d->error. */
pgw *db_handle(db *d);
/** Checks the status of a call with d->h. False for an error, which is then in d->error. */
bool db_ok(db *d, pgw_status st);
/** Rows of a query on views of the schema; NULL: see d->error. */
PGresult *db_ask(db *d, const char *sql, int n, const char *const *values);
/** Findings of the doctor, some seconds old. False: see d->error. */
bool db_examine(db *d);
/** A session for one action, in the name of @p user; NULL: see d->error. */
PGconn *db_act(db *d, const char *user);
void db_close(db *d);

/* Cells of a result: NULL for NULL. */
const char *cell(const PGresult *res, int row, int column);
int64_t cell_int(const PGresult *res, int row, int column);  /* NULL: 0 */
int64_t cell_time(const PGresult *res, int row, int column); /* of microseconds; NULL: PGW_NONE */

/** In SQL: a time as microseconds since 1970. */
#define UI_US(x) "(extract(epoch FROM " x ") * 1000000)::bigint"

/* -- the program ---------------------------------------------------------------------------- */

struct ui {
    cli c;
    db *dbs;
    size_t dbs_count;          /* 1: addresses do not contain a name */
    wordlist files, act_files; /* arguments of -d and --act-dsn-file */
    const char *listen, *prefix, *token_file, *proxy_header;
    bool act, payloads;
    char token[33]; /* of our forms */
    int fd;         /* where it listens */
    bool loopback, unix_socket;
    buf credentials; /* lines "NAME TOKEN", of the token file */
};

/* -- who may ask (auth.c) ------------------------------------------------------------------- */

/* Headers of a request; each may be NULL. */
typedef struct headers {
    const char *host, *origin, *fetch_site, *authorization, *proxy_user;
} headers;

/** Refuses to serve other machines without a way to know their users. CLI_DONE, or an exit code
 * after a message. */
int auth_prepare(ui *u);
/** Stores the user in r->user. False: the request is refused, and the answer says why. */
bool auth_admit(req *r, const headers *h);
/** True if this POST comes from a page of ours. False: the answer says why not. */
bool auth_allows_post(req *r, const headers *h);

/* -- serving (serve.c) ---------------------------------------------------------------------- */

int serve(ui *u);

/* -- pages ---------------------------------------------------------------------------------- */

/** True if the pages of its database have buttons. */
bool page_acts(const req *r);
void page_begin(req *r, const char *title, const char *at); /* at: "queues", of the navigation */
void page_end(req *r);
/** A whole page with nothing but a message. */
void page_message(req *r, int status, const char *title, const char *text);
/** A status of the library: false for an error, which then is on the page. */
bool page_ok(req *r, pgw_status st);
/** A result of db_ask(): false for NULL, and the error is on the page. */
bool page_got(req *r, const PGresult *res);
void page_error(req *r, const char *message, const char *hint);
/** The handle, or NULL: the error is on the page. */
pgw *page_handle(req *r);
/** A form of one button, with hidden fields "name", value, ..., NULL. Nothing where nobody may act.
 */
void page_button(req *r, const char *label, const char *action, ...);
/** A link to the page that asks before a dangerous action; the same fields. */
void page_ask(req *r, const char *label, const char *action, ...);
void page_queue_link(req *r, const char *queue);
void page_job_link(req *r, const char *queue, int64_t id);
void page_state(req *r, const char *state);

void page_databases(req *r); /* the first page, if there are several databases */
void page_overview(req *r);
void page_queues(req *r);
void page_queue(req *r);
void page_jobs(req *r);
void page_job(req *r);
void page_dead(req *r);
void page_schedules(req *r);
void page_schedule(req *r);
void page_workers(req *r);
void page_locks(req *r);
void page_tables(req *r);
void page_log(req *r);
void page_help(req *r);
/** Writes a link to the section of the page /help about a check of the doctor. */
void page_check_link(buf *b, const db *d, const char *check);
void page_findings(req *r);                       /* of the doctor */
void page_dead_errors(req *r, const char *queue); /* a table */

/* Columns of a job in a result. */
/* clang-format off */
enum { J_QUEUE, J_ID, J_STATE, J_KIND, J_PRIORITY, J_ATTEMPT, J_MOST, J_CREATED, J_RUN_AT, J_HOLDER, J_UNTIL, J_FINISHED, J_ERROR, J_KEY,
       J_GROUP, J_EXPIRES, J_BODY, J_TAGS, J_WHOLE_ERROR, J_HIDDEN, J_PAYLOAD, J_OUTPUT = J_PAYLOAD + 2, J_META = J_OUTPUT + 2, J_PROGRESS = J_META + 2 };
/* clang-format on */
/** The list of reasons why a job does not run. */
void why(req *r, const PGresult *job);

/** The page that tells what an action would do, and asks. */
void act_confirm(req *r);
/** Does it. */
void act_post(req *r);

#endif
