/* SPDX-License-Identifier: PostgreSQL
 *
 * db: two sessions to read with, and one for each action. Those that read are read-only for the
 * server, whatever their role may do.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../pgwork/text.h"
#include "ui.h"

#define DB_CONNECT_S "3"
#define DB_ACT_MS    "30000"
#define DB_DOWN_MS \
    1000 /* at least, before a database that is down is tried again; see db_went_down() */
#define DB_EXAMINE_MS \
    10000 /* how old findings may be; more if they take long: a 20th of the time at most */

/* -- connection strings --------------------------------------------------------------------- */

static void db_add(buf *b, const char *name, const char *value)
{
    buf_puts(b, name);
    buf_puts(b, "='");
    for (; *value; value++) {
        if (*value == '\'' || *value == '\\') buf_puts(b, "\\");
        buf_add(b, value, 1);
    }
    buf_puts(b, "' ");
}

/* @p dsn with limits, and with @p options behind its own. NULL: it cannot be parsed. */
static char *db_limit(const char *dsn, const char *options)
{
    const char *own = getenv("PGOPTIONS");
    bool limited = false;
    buf b = {0}, all = {0};
    PQconninfoOption *words = PQconninfoParse(dsn, NULL);
    if (!words) return NULL;
    for (const PQconninfoOption *w = words; w->keyword; w++) {
        if (!w->val) continue;
        if (strcmp(w->keyword, "options") == 0)
            own = w->val;
        else
            db_add(&b, w->keyword, w->val);
        if (strcmp(w->keyword, "connect_timeout") == 0) limited = true;
    }
    if (!limited) db_add(&b, "connect_timeout", DB_CONNECT_S);
    buf_puts(&all, own ? own : "");
    buf_puts(&all, options);
    db_add(&b, "options", all.at);
    db_add(&b, "tcp_user_timeout", "5000");
    db_add(&b, "fallback_application_name", "pgwork-ui");
    PQconninfoFree(words);
    buf_free(&all);
    return b.at;
}

static const char *db_dsn(const pgw_conf *conf)
{
    const char *dsn = pgw_conf_get(conf, "dsn");
    if (!dsn || !*dsn) dsn = getenv("PGWORK_DSN");
    return dsn ? dsn : "";
}

/* The connection string of actions: of @p file, or NULL for that of @p conf. */
static int db_prepare_act(db *d, const cli *c, const char *file)
{
    static const char options[] = " -c statement_timeout=" DB_ACT_MS " -c lock_timeout=2000";
    cli other = *c;
    pgw_conf *conf = NULL;
    other.dsn_file = file;
    int code = file ? cli_configure(&other, &conf) : CLI_DONE;
    if (code == CLI_DONE) {
        d->act_info = db_limit(db_dsn(file ? conf : d->conf), options);
        if (!d->act_info)
            code = cli_fail(CLI_USAGE, NULL, "the connection string of actions cannot be parsed");
    }
    pgw_conf_free(conf);
    return code;
}

int db_prepare(db *d, const cli *c, bool act, const char *act_file)
{
    static const char options[] = " -c default_transaction_read_only=on -c statement_timeout=2000 "
                                  "-c idle_in_transaction_session_timeout=10000";
    int code = cli_configure(c, &d->conf);
    if (code != CLI_DONE) return code;
    if (act && (code = db_prepare_act(d, c, act_file)) != CLI_DONE) return code;
    d->conninfo = db_limit(db_dsn(d->conf), options);
    if (!d->conninfo) return cli_fail(CLI_USAGE, NULL, "the connection string cannot be parsed");
    const char *schema = pgw_conf_get(d->conf, "schema");
    d->schema = cli_copy(schema, strlen(schema));
    if (pgw_conf_set(d->conf, "dsn", d->conninfo) != PGW_OK ||
        pgw_conf_set(d->conf, "schema.check", "off") != PGW_OK || /* the doctor is to say it */
        pgw_conf_set(d->conf, "connect.timeout_ms", "3000") != PGW_OK ||
        pgw_conf_set(d->conf, "application_name", "pgwork-ui") != PGW_OK) {
        return cli_fail(CLI_USAGE, NULL, "%s", pgw_conf_error(d->conf));
    }
    return CLI_DONE;
}

/* -- sessions ------------------------------------------------------------------------------- */

/* Begins a call. A page makes several calls: only the first one waits for a server that is down. */
static bool db_is_down(db *d)
{
    d->asked_ms = text_tick_ms();
    return d->asked_ms < d->down_ms;
}

/* Sets when the database is tried again. A database that does not answer gets at most a tenth of
 * the time: the next try comes after nine times as long as this one took.
 */
static void db_went_down(db *d)
{
    int64_t now = text_tick_ms(), rest = 9 * (now - d->asked_ms);
    d->down_ms = now + (rest > DB_DOWN_MS ? rest : DB_DOWN_MS);
}

bool db_ok(db *d, pgw_status st)
{
    if (st >= 0) return true;
    snprintf(d->error, sizeof d->error, "%s", pgw_error_message(d->h));
    if (st == PGW_ECONN) db_went_down(d);
    return false;
}

pgw *db_handle(db *d)
{
    if (db_is_down(d)) return NULL;
    if (d->h) return d->h;
    if (pgw_open(d->conf, &d->h) != PGW_OK) {
        snprintf(d->error, sizeof d->error, "%s", d->h ? pgw_error_message(d->h) : "out of memory");
        db_went_down(d);
        pgw_close(d->h);
        d->h = NULL;
        return NULL;
    }
    pgw_set_timeout(d->h, UI_STATEMENT_MS);
    return d->h;
}

static PGconn *db_fail(db *d, PGconn *conn)
{
    snprintf(d->error, sizeof d->error, "%s", PQerrorMessage(conn));
    d->error[strcspn(d->error, "\n")] = '\0';
    PQfinish(conn);
    return NULL;
}

/* With names of the schema first. */
static PGconn *db_connect(db *d, const char *conninfo)
{
    PGconn *conn = PQconnectdb(conninfo);
    char text[256];
    if (PQstatus(conn) != CONNECTION_OK) return db_fail(d, conn);
    PQsetClientEncoding(conn, "UTF8");
    char *schema = PQescapeIdentifier(conn, d->schema, strlen(d->schema));
    snprintf(text, sizeof text,
             "SET search_path TO pg_catalog, %s; SET TimeZone TO 'UTC'; SET DateStyle TO 'ISO'; "
             "SET jit TO off", /* compiling takes longer than any of our questions */
             schema ? schema : "");
    PQfreemem(schema);
    PGresult *res = PQexec(conn, text);
    bool good = PQresultStatus(res) == PGRES_COMMAND_OK;
    PQclear(res);
    return good ? conn : db_fail(d, conn);
}

/* Writes into d->error why @p res is not an answer. */
static void db_explain(db *d, const PGresult *res)
{
    const char *text = PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);
    const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE);
    if (state && strcmp(state, "57014") == 0)
        text = "it took longer than two seconds: name a queue and a state, or ask with pgwork";
    snprintf(d->error, sizeof d->error, "%s", text ? text : PQerrorMessage(d->conn));
}

PGresult *db_ask(db *d, const char *sql, int n, const char *const *values)
{
    for (int tries = 0; tries < 2; tries++) {
        bool fresh = !d->conn;
        if (db_is_down(d)) return NULL;
        if (fresh && !(d->conn = db_connect(d, d->conninfo))) {
            db_went_down(d);
            return NULL;
        }
        PGresult *res = PQexecParams(d->conn, sql, n, NULL, values, NULL, NULL, 0);
        if (PQresultStatus(res) == PGRES_TUPLES_OK) return res;
        db_explain(d, res);
        PQclear(res);
        if (PQstatus(d->conn) == CONNECTION_OK) return NULL;
        PQfinish(d->conn); /* lost, perhaps while nobody asked: once more */
        d->conn = NULL;
        if (fresh) return NULL;
    }
    return NULL;
}

PGconn *db_act(db *d, const char *user)
{
    const char *values[] = {d->schema, user};
    PGconn *conn = db_connect(d, d->act_info);
    if (!conn) return NULL;
    PGresult *res = PQexecParams(conn, "SELECT set_config($1 || '.person', $2, false)", 2, NULL,
                                 values, NULL, NULL, 0);
    bool good = PQresultStatus(res) == PGRES_TUPLES_OK;
    PQclear(res);
    return good ? conn : db_fail(d, conn);
}

/* -- the doctor ----------------------------------------------------------------------------- */

static char *db_copy(const char *text)
{
    return cli_copy(text ? text : "", text ? strlen(text) : 0);
}

static void db_forget_findings(db *d)
{
    for (size_t i = 0; i < d->findings_count; i++) {
        free(d->findings[i].check);
        free(d->findings[i].text);
        free(d->findings[i].advice);
    }
    d->findings_count = 0;
}

static int db_keep_finding(const pgw_finding *f, void *arg)
{
    db *d = arg;
    d->findings = cli_realloc(d->findings, (d->findings_count + 1) * sizeof *d->findings);
    d->findings[d->findings_count++] =
        (finding){f->grade, db_copy(f->check), db_copy(f->text), db_copy(f->advice)};
    return 0;
}

bool db_examine(db *d)
{
    int64_t now = text_tick_ms();
    if (d->findings_count && now < d->examine_ms) return true;
    if (!db_handle(d)) return false;
    db_forget_findings(d);
    pgw_status st = pgw_doctor(d->h, db_keep_finding, d);
    int64_t took = text_tick_ms() - now;
    d->examine_ms = now + (20 * took > DB_EXAMINE_MS ? 20 * took : DB_EXAMINE_MS);
    if (db_ok(d, st)) return true;
    db_forget_findings(d);
    return false;
}

void db_close(db *d)
{
    pgw_close(d->h);
    PQfinish(d->conn);
    pgw_conf_free(d->conf);
    db_forget_findings(d);
    free(d->findings);
    free(d->conninfo);
    free(d->act_info);
    free(d->schema);
    free(d->prefix);
}

/* -- cells ---------------------------------------------------------------------------------- */

const char *cell(const PGresult *res, int row, int column)
{
    return PQgetisnull(res, row, column) ? NULL : PQgetvalue(res, row, column);
}

int64_t cell_int(const PGresult *res, int row, int column)
{
    const char *text = cell(res, row, column);
    return text ? strtoll(text, NULL, 10) : 0;
}

int64_t cell_time(const PGresult *res, int row, int column)
{
    const char *text = cell(res, row, column);
    return text ? strtoll(text, NULL, 10) : PGW_NONE;
}
