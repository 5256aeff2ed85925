/* pq_conn: how a session is opened, set up, checked and ended. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/status.h"
#include "pq/pq_int.h"

#define CONN_OPTIONS_MAX         4096
#define CONN_READS_MAX           16
#define CONN_TRANSACTION_TIMEOUT 170000 /* the server's version that brought it */

/* Settings that the SQL of this library depends on, whatever the role, the database or the server
 * has set (R12, R24). Read-only and encoding are not here: the first is the administrator's
 * choice, the second a start-up parameter. client_min_messages: R2 needs warnings. */
#define CONN_SETTINGS(XX, LOCK_TIMEOUT)            \
    XX("search_path", "pg_catalog,pg_temp")        \
    XX("synchronous_commit", "on")                 \
    XX("statement_timeout", "0")                   \
    XX("lock_timeout", LOCK_TIMEOUT)               \
    XX("idle_in_transaction_session_timeout", "0") \
    XX("DateStyle", "ISO,MDY")                     \
    XX("IntervalStyle", "postgres")                \
    XX("TimeZone", "UTC")                          \
    XX("extra_float_digits", "1")                  \
    XX("array_nulls", "on")                        \
    XX("standard_conforming_strings", "on")        \
    XX("row_security", "on")                       \
    XX("client_min_messages", "warning")           \
    XX("exit_on_error", "off")                     \
    XX("plan_cache_mode", "auto")                  \
    XX("jit", "off")

#define CONN_SESSION(XX)                                  \
    XX("default_transaction_isolation", "read committed") \
    XX("default_transaction_deferrable", "off")           \
    XX("idle_session_timeout", "0")

#define CONN_AS_OPTION(name, value) " -c " name "=" value
#define CONN_AS_LOCAL(name, value)  ", pg_catalog.set_config('" name "', '" value "', true)"
#define CONN_AS_OURS(name, value)   ", pg_catalog.set_config('" name "', '" value "', false)"

static const char conn_options[] =
    CONN_SETTINGS(CONN_AS_OPTION, "0") " -c default_transaction_isolation=read\\ committed -c "
                                       "default_transaction_deferrable=off"
                                       " -c idle_session_timeout=0";

/* Behind a pooler a SET would stay with the server's session and meet another client (R15), so
 * these go along with each transaction instead: h->settings, made once a session. */
const char pgw__conn_isolation[] = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED";

static void conn_make_settings(pgw *h)
{
    const bool older = PQserverVersion(h->conn) < CONN_TRANSACTION_TIMEOUT;

    if (h->own_session) { /* behind a pooler that keeps it */
        _Static_assert(
            sizeof("SELECT true" CONN_SETTINGS(CONN_AS_OURS, "9223372036854775807") CONN_SESSION(
                CONN_AS_OURS) CONN_AS_OURS("transaction_timeout", "0")) <= sizeof(h->settings),
            "space for the settings");
        snprintf(h->settings, sizeof(h->settings),
                 "SELECT true" CONN_SETTINGS(CONN_AS_OURS, "%lld") CONN_SESSION(CONN_AS_OURS) "%s",
                 (long long)h->lock_ms, older ? "" : CONN_AS_OURS("transaction_timeout", "0"));
        return;
    }

    _Static_assert(sizeof("SELECT true" CONN_SETTINGS(CONN_AS_LOCAL, "9223372036854775807")
                              CONN_AS_LOCAL("transaction_timeout", "0")) <= sizeof(h->settings),
                   "space for the settings");
    snprintf(h->settings, sizeof(h->settings),
             "SELECT true" CONN_SETTINGS(CONN_AS_LOCAL, "%lld") "%s", (long long)h->lock_ms,
             older ? "" : CONN_AS_LOCAL("transaction_timeout", "0"));
}

/* ---- how to connect ---- */

/* Both ends must notice that the other is gone (R13, R14): this is the server's half. */
static void conn_add_options(const pgw *h, pgw__buf *b, bool set)
{
    static const char *const halves[][2] = {
        {"tcp_keepalives_idle", "keepalive.idle_s"},
        {"tcp_keepalives_interval", "keepalive.interval_s"},
        {"tcp_keepalives_count", "keepalive.count"},
        {"tcp_user_timeout", "tcp.user_timeout_ms"},
        {"client_connection_check_interval", "session.check_interval_ms"}};

    for (size_t i = 0; i < sizeof(halves) / sizeof(halves[0]); i++) {
        const char *property = halves[i][1];

        if (pgw__conf_is_set(h->conf, property) != set || pgw__conf_int(h->conf, property) == 0)
            continue;
        pgw__buf_text(b, " -c ");
        pgw__buf_text(b, halves[i][0]);
        pgw__buf_text(b, "=");
        pgw__buf_int(b, pgw__conf_int(h->conf, property));
    }
}

/* The last one wins: defaults, then the user's options, then explicit properties and mandatory
 * settings. */
static void conn_make_options(const pgw *h, pgw__buf *b, const char *users)
{
    conn_add_options(h, b, false);
    pgw__buf_text(b, " ");
    pgw__buf_text(b, users);
    pgw__buf_text(b, conn_options);
    if (h->lock_ms > 0) {
        pgw__buf_text(b, " -c lock_timeout=");
        pgw__buf_int(b, h->lock_ms);
    }
    conn_add_options(h, b, true);
}

/* What libpq has found for a parameter; NULL: nothing. */
static const char *conn_found(const PQconninfoOption *found, const char *keyword)
{
    for (; found != NULL && found->keyword != NULL; found++)
        if (strcmp(found->keyword, keyword) == 0) return found->val;
    return NULL;
}

/* What libpq makes of the string, a service file and the environment. Two ports for one host make
 * libpq stop there, so it connects to no server. */
static PQconninfoOption *conn_resolve(const char *dsn)
{
    static const char *const keys[] = {"dbname", "host", "port", NULL};
    const char *const values[] = {dsn, "nobody", "1,2", NULL};
    PGconn *conn = PQconnectStartParams(keys, values, 1);
    PQconninfoOption *found = PQconninfo(conn);

    PQfinish(conn);
    return found;
}

/* Several hosts may come from the string, a service or the environment. libpq tries the next host
 * after a refusal, but has no timeout: a host that accepts and stays silent would be the first of
 * every attempt. */
static const char *const conn_host_keys[PGW__HOST_LISTS] = {"host", "hostaddr", "port"};

static int conn_parts(const char *list)
{
    int parts = 1;

    for (const char *p = list; *p != '\0'; p++) parts += *p == ',';
    return parts;
}

static void conn_forget_hosts(pgw *h)
{
    h->hosts = 0;
    for (size_t i = 0; i < PGW__HOST_LISTS; i++) {
        pgw__mem_free(h->host_lists[i]);
        h->host_lists[i] = NULL;
    }
}

/* The parameters of the connection, including those of a service file. All lists or none: a host
 * must not get the port of another one. */
static void conn_keep_hosts(pgw *h)
{
    PQconninfoOption *found = PQconninfo(h->conn);
    bool whole = true;

    conn_forget_hosts(h);
    for (size_t i = 0; i < PGW__HOST_LISTS; i++) {
        const char *list = conn_found(found, conn_host_keys[i]);

        h->host_lists[i] = pgw__mem_dup(list);
        whole = whole && (list == NULL || h->host_lists[i] != NULL);
        if (h->host_lists[i] != NULL && conn_parts(h->host_lists[i]) > h->hosts)
            h->hosts = conn_parts(h->host_lists[i]);
    }
    if (!whole) conn_forget_hosts(h);
    PQconninfoFree(found);
}

static bool conn_is_part(const char *list, int at, const char *text)
{
    size_t n;

    if (list == NULL) return false;
    if (conn_parts(list) > 1)
        for (; at > 0 && *list != '\0'; list++) at -= *list == ',';
    n = strcspn(list, ",");
    return text != NULL && strlen(text) == n && memcmp(list, text, n) == 0;
}

/* Which of the hosts this attempt uses. libpq continues with the next after a refusal, and need
 * not begin with the first (load_balance_hosts, since 16). */
static int conn_host_at(const pgw *h)
{
    const char *host = PQhost(h->conn), *port = PQport(h->conn);

    for (int at = 0; at < h->hosts; at++) {
        const bool named =
            conn_is_part(h->host_lists[0], at, host) || conn_is_part(h->host_lists[1], at, host);

        if (named && (h->host_lists[2] == NULL || conn_is_part(h->host_lists[2], at, port)))
            return at;
    }
    return h->next_host;
}

/* The list of hosts, starting after those that were silent; empty if it stays as it is. */
static void conn_rotate(const pgw *h, pgw__buf *b, const char *list)
{
    const char *start = list;

    if (list == NULL || h->next_host == 0 || h->next_host >= conn_parts(list)) return;
    for (int n = h->next_host; n > 0; n--) start = strchr(start, ',') + 1;
    pgw__buf_text(b, start);
    pgw__buf_text(b, ",");
    pgw__buf_bytes(b, list, (size_t)(start - 1 - list));
}

/* Properties come before the user's string, which may override them; mandatory settings come after
 * it. libpq applies all of it before a service file and the environment. So a property with its
 * default gives way to what is `found` there. */
static PGconn *conn_begin(pgw *h, const char *dsn, const PQconninfoOption *found, pgw__buf *hosts,
                          const char *options)
{
    static const char *const properties[][2] = {{"application_name", "application_name"},
                                                {"keepalives_idle", "keepalive.idle_s"},
                                                {"keepalives_interval", "keepalive.interval_s"},
                                                {"keepalives_count", "keepalive.count"},
                                                {"tcp_user_timeout", "tcp.user_timeout_ms"}};
    const char *keys[16], *values[16];
    size_t n = 0;

    for (size_t i = 0; i < sizeof(properties) / sizeof(properties[0]); i++) {
        if (!pgw__conf_is_set(h->conf, properties[i][1]) &&
            conn_found(found, properties[i][0]) != NULL)
            continue;
        keys[n] = properties[i][0];
        values[n++] = pgw_conf_get(h->conf, properties[i][1]);
    }
    if (dsn[0] != '\0') {
        keys[n] = "dbname";
        values[n++] = dsn;
    }
    for (size_t i = 0; i < PGW__HOST_LISTS; i++) {
        if (hosts[i].len == 0 || hosts[i].failed != 0) continue;
        keys[n] = conn_host_keys[i];
        values[n++] = pgw__buf_str(&hosts[i]);
    }
    if (h->silent_hosts > 0 && conn_found(found, "load_balance_hosts") != NULL) {
        keys[n] = "load_balance_hosts"; /* else it may begin with a silent one again */
        values[n++] = "disable";
    }
    keys[n] = "client_encoding";
    values[n++] = "UTF8";
    if (options != NULL) {
        keys[n] = "options";
        values[n++] = options;
    }
    keys[n] = values[n] = NULL;
    return PQconnectStartParams(keys, values, 1);
}

/* The connection string: the property's, else the environment's, else "". */
static const char *conn_dsn(const pgw *h, bool *from_conf)
{
    const char *dsn = pgw__conf_text(h->conf, "dsn");

    *from_conf = dsn[0] != '\0';
    if (!*from_conf) dsn = getenv(PGW__DSN_VARIABLE);
    return dsn != NULL ? dsn : "";
}

static bool conn_open(pgw *h)
{
    bool from_conf;
    const char *dsn = conn_dsn(h, &from_conf), *users = "";
    PQconninfoOption *found;
    pgw__buf options, hosts[PGW__HOST_LISTS];

    if (dsn[0] != '\0' && pgw__dsn_check(&h->op.fault, dsn, from_conf) != PGW_OK) return false;
    found = conn_resolve(dsn);
    if (conn_found(found, "options") != NULL) users = conn_found(found, "options");
    pgw__buf_init(&options, CONN_OPTIONS_MAX);
    conn_make_options(h, &options, users);
    for (size_t i = 0; i < PGW__HOST_LISTS; i++) {
        pgw__buf_init(&hosts[i], CONN_OPTIONS_MAX);
        conn_rotate(h, &hosts[i], h->host_lists[i]);
    }
    if (options.failed == 0 && found != NULL)
        h->conn = conn_begin(h, dsn, found, hosts, h->plain ? NULL : pgw__buf_str(&options));
    if (h->conn == NULL) {
        pgw__fault_set(&h->op.fault, options.failed == PGW_ELIMIT ? PGW_EINVAL : PGW_ENOMEM,
                       options.failed == PGW_ELIMIT
                           ? "the options in the connection string are too long"
                           : NULL,
                       NULL);
    }
    if (h->conn != NULL && h->silent_hosts == 0) conn_keep_hosts(h);
    for (size_t i = 0; i < PGW__HOST_LISTS; i++) pgw__buf_free(&hosts[i]);
    pgw__buf_free(&options);
    PQconninfoFree(found);
    return h->conn != NULL;
}

/* ---- connecting ---- */

/* Stores what libpq would print. An error while nothing runs is the server's message before it
 * ends the session. After a crash or an immediate stop this is a warning (R2), and so is a
 * cancelled wait for a synchronous standby. */
static void conn_notice(void *arg, const PGresult *res)
{
    pgw *h = arg;
    const char *severity = PQresultErrorField(res, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *sqlstate = PQresultErrorField(res, PG_DIAG_SQLSTATE);

    if (severity == NULL || sqlstate == NULL || strlen(sqlstate) != 5) return;
    if (strcmp(severity, "WARNING") == 0) {
        h->op.unconfirmed =
            h->op.unconfirmed ||
            pgw__status_is_unconfirmed(sqlstate, PQresultErrorField(res, PG_DIAG_SOURCE_FUNCTION));
        if (strcmp(sqlstate, "57P01") != 0 && strcmp(sqlstate, "57P02") != 0) return;
    } else if (strcmp(severity, "FATAL") != 0 && strcmp(severity, "PANIC") != 0) {
        return;
    }
    h->dead = true;
    memcpy(h->notice, sqlstate, 6);
}

static void conn_report(pgw *h)
{
    const char *why = h->op.fault.message;
    const bool news = !h->owned && pgw__log_is_news(&h->told, why, pgw__clock_ms());

    PGW__LOG(h->log, news ? PGW_LOG_WARN : PGW_LOG_DEBUG, "pq", "not connected: %s", why);
}

/* The attempt failed for the reason in op.fault: once more, later, or not at all. */
static void conn_failed(pgw *h)
{
    int64_t pause;

    if (strcmp(h->op.fault.sqlstate, "08P01") == 0 && !h->plain) {
        /* the answer of a pooler to start-up options (R14) */
        PGW__LOG(h->log, PGW_LOG_INFO, "pq",
                 "the server, perhaps a pooler, refuses start-up options: using SET");
        h->plain = true;
        pgw__conn_start(h);
        return;
    }
    conn_report(h);
    pgw__conn_drop(h);
    h->plain = false;
    if (h->in_txn) { /* in another session the statement would commit by itself */
        pgw__pq_lost_txn(h);
        return;
    }
    pause = pgw__backoff_next_ms(&h->backoff);
    if (h->op.once || !pgw__fault_is_passing(&h->op.fault) ||
        pgw__deadline_min(pgw__deadline_in(pause), h->op.deadline) == h->op.deadline) {
        pgw__pq_end(h, h->op.fault.status);
        return;
    }
    h->phase = PGW__PAUSE;
    h->want = 0;
    h->wake = pgw__deadline_in(pause);
}

/* libpq says why. */
static void conn_refused(pgw *h)
{
    bool from_conf;

    pgw__fault_connect(&h->op.fault, h->conn, pgw__dsn_is_split(conn_dsn(h, &from_conf)));
    conn_failed(h);
}

void pgw__conn_failed(pgw *h, const char *message)
{
    pgw__fault_set(&h->op.fault, PGW_ECONN, message, NULL);
    conn_failed(h);
}

bool pgw__conn_next_host(pgw *h)
{
    const int next = conn_host_at(h) + 1;

    h->silent_hosts = h->silent_hosts + 1 < h->hosts ? h->silent_hosts + 1 : 0;
    h->next_host = h->silent_hosts > 0 && next < h->hosts ? next : 0;
    return h->silent_hosts > 0;
}

void pgw__conn_timed_out(pgw *h)
{
    if (pgw__conn_next_host(h)) {
        pgw__fault_set(&h->op.fault, PGW_ECONN, "a host did not answer within connect.timeout_ms",
                       NULL);
        conn_report(h);
        pgw__conn_start(h);
        return;
    }
    pgw__conn_failed(h, "the server did not answer within connect.timeout_ms");
}

void pgw__conn_start(pgw *h)
{
    pgw__conn_drop(h);
    if (!conn_open(h)) {
        pgw__pq_end(h, h->op.fault.status);
        return;
    }
    PQsetErrorVerbosity(h->conn, PQERRORS_VERBOSE); /* with the SQLSTATE: R4 */
    PQsetNoticeReceiver(h->conn, conn_notice, h);
    h->phase = PGW__CONNECT;
    h->want = PGW_EVENT_WRITE; /* as libpq asks for */
    h->wake = pgw__deadline_in(h->connect_timeout_ms);
    if (PQstatus(h->conn) == CONNECTION_BAD) conn_refused(h);
}

/* PQconnectPoll must not be called before its time. */
static bool conn_is_ready(const pgw *h)
{
    struct pollfd p = {.fd = PQsocket(h->conn),
                       .events = h->want == PGW_EVENT_WRITE ? POLLOUT : POLLIN};

    return p.fd >= 0 && poll(&p, 1, 0) > 0;
}

static void conn_setup(pgw *h);

bool pgw__conn_poll(pgw *h)
{
    if (!conn_is_ready(h)) return false;
    switch ((int)PQconnectPoll(h->conn)) {
    case PGRES_POLLING_READING: h->want = PGW_EVENT_READ; break;
    case PGRES_POLLING_WRITING: h->want = PGW_EVENT_WRITE; break;
    case PGRES_POLLING_OK:
        PQsetnonblocking(h->conn, 1);
        conn_make_settings(h);
        h->setup_at = 0;
        h->unset = h->plain;
        h->pooled = h->plain && !h->own_session;
        conn_setup(h);
        break;
    default: conn_refused(h); break;
    }
    return true;
}

/* ---- setting up the session: the probe, then the greeting's requests, then LISTEN ---- */

enum { SETUP_PROBE, SETUP_SETTINGS, SETUP_GREETING, SETUP_LISTEN };

#define CONN_NO_TIMEOUT "pg_catalog.set_config('transaction_timeout', '0', false)"
#define CONN_OUR_TIMES                                       \
    "pg_catalog.set_config('DateStyle', 'ISO,MDY', false), " \
    "pg_catalog.set_config('TimeZone', 'UTC', false)"

/* PGDATESTYLE and PGTZ: libpq sends them as parameters, which override all options. */
static bool conn_has_other_times(const pgw *h)
{
    const char *style = PQparameterStatus(h->conn, "DateStyle");
    const char *zone = PQparameterStatus(h->conn, "TimeZone");

    return style == NULL || strcmp(style, "ISO, MDY") != 0 || zone == NULL ||
           strcmp(zone, "UTC") != 0;
}

/* Settings that start-up options do not make. Behind a pooler they are sent with each transaction.
 */
static const char *conn_late_settings(const pgw *h)
{
    const bool timed = PQserverVersion(h->conn) >= CONN_TRANSACTION_TIMEOUT; /* older: unknown */

    if (h->pooled) return NULL;
    if (h->unset) return h->settings;
    if (conn_has_other_times(h))
        return timed ? "SELECT " CONN_NO_TIMEOUT ", " CONN_OUR_TIMES : "SELECT " CONN_OUR_TIMES;
    return timed ? "SELECT " CONN_NO_TIMEOUT : NULL;
}

static const char *conn_setup_text(pgw *h)
{
    switch (h->setup_at) {
    case SETUP_PROBE: return h->plain ? NULL : "SELECT pg_catalog.pg_backend_pid()";
    case SETUP_SETTINGS: return conn_late_settings(h);
    case SETUP_GREETING: return h->greet != NULL ? pgw__pq_statement(h, h->greeting) : NULL;
    default: return h->pooled ? NULL : h->listens[h->setup_at - SETUP_LISTEN];
    }
}

/* Sends the next statement of the setup, if there is one. */
static void conn_setup(pgw *h)
{
    for (; h->setup_at < SETUP_LISTEN + h->listens_count; h->setup_at++) {
        const char *text = conn_setup_text(h);

        if (text == NULL && h->setup_at == SETUP_GREETING && h->greet != NULL) {
            pgw__conn_drop(h);
            pgw__pq_end(h, pgw__fault_set(&h->op.fault, PGW_ENOMEM, NULL, NULL));
            return;
        }
        if (text == NULL) continue;
        pgw__pq_rewind(h);
        h->phase = PGW__SETUP;
        h->want = PGW_EVENT_READ | PGW_EVENT_WRITE;
        if (PQsendQueryParams(h->conn, text, 0, NULL, NULL, NULL, NULL, 1) == 0)
            pgw__conn_failed(h, "the connection was lost while the session was set up");
        return;
    }
    h->ready = true;
    h->epoch++;
    h->silent_hosts = h->next_host = 0;
    pgw__backoff_reset(&h->backoff);
    h->told = (pgw__log_told){0};
    PGW__LOG(h->log, PGW_LOG_INFO, "pq", "connected%s", h->pooled ? " through a pooler" : "");
    h->phase = PGW__CONNECTED;
}

/* PgBouncer invents the process number that a client gets at connect. It is not that of the
 * session that runs a statement. */
pgw_status pgw__conn_read_pid(pgw *h, const pgw__rows *rows, void *ctx)
{
    (void)ctx;
    h->unset = pgw__rows_int(rows, 0, 0) != PQbackendPID(h->conn);
    h->pooled = h->unset && !h->own_session;
    return PGW_OK;
}

void pgw__conn_settled(pgw *h)
{
    pgw__reader *read = h->setup_at == SETUP_PROBE      ? pgw__conn_read_pid
                        : h->setup_at == SETUP_GREETING ? h->greet
                                                        : NULL;
    pgw_status st = PGW_OK;

    if (h->op.dead) {
        h->op.fault.status = PGW_ECONN;
        conn_failed(h);
        return;
    }
    if (h->op.failed) {
        st = h->op.fault.status = pgw__status_from_sqlstate(h->op.fault.sqlstate, false, false);
    } else if (read != NULL) {
        st = pgw__pq_read(h, read, NULL);
    }
    if (st < 0) {
        pgw__conn_drop(h);
        pgw__pq_end(h, st);
        return;
    }
    h->setup_at++;
    conn_setup(h);
}

/* ---- looking and ending ---- */

/* Reads what the server sent while nothing ran: notifications, or the end of the session. To see
 * the latter before a statement is sent is the difference between "not applied" and "unknown".
 * libpq reads once per call, and the end follows the last message. */
bool pgw__conn_alive(pgw *h)
{
    PGnotify *note;
    struct pollfd p = {.events = POLLIN};

    if (h->conn == NULL || !h->ready) return false;
    p.fd = PQsocket(h->conn);
    if (p.fd < 0) return false;
    for (int i = 0; i < CONN_READS_MAX && poll(&p, 1, 0) > 0; i++)
        if (PQconsumeInput(h->conn) == 0) return false;
    while ((note = PQnotifies(h->conn)) != NULL) {
        h->notified = true;
        if (h->on_notified != NULL) h->on_notified(h->notified_arg, note->relname, note->extra);
        PQfreemem(note);
    }
    return !h->dead && PQstatus(h->conn) == CONNECTION_OK;
}

void pgw__conn_drop(pgw *h)
{
    if (h->conn != NULL && !h->attached) PQfinish(h->conn);
    h->conn = NULL;
    h->ready = h->pooled = h->unset = h->unnamed = h->dead = false;
    h->notice[0] = '\0';
    memset(h->prepared, 0, sizeof(h->prepared));
}

/* The session belongs to another process. PQfinish would end it in that process's name, so its
 * message goes into a socket that no process reads. */
void pgw__conn_abandon(PGconn *conn)
{
    int fd = PQsocket(conn), pair[2];

    if (fd >= 0) {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) {
            close(fd); /* out of descriptors: the memory leaks, but the session is safe */
            return;
        }
        dup2(pair[0], fd);
        fcntl(fd, F_SETFD, FD_CLOEXEC);
        close(pair[0]);
        close(pair[1]);
    }
    PQfinish(conn);
}
