/* pq_error: the diagnostics behind a status, in fixed arrays, and which of the server's words may
 * be repeated. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "base/status.h"
#include "pq/pq_int.h"

#define ERROR_VALUE_MAX 64  /* bytes of a refused value that are shown */
#define ERROR_FIRST_MAX 800 /* limit of the server's text, so that its code fits after it */
#define ERROR_WHICH     "This is element " /* DETAIL of _refuse() in SQL begins with this */
#define ERROR_INSIDE \
    "the error comes from a function on the server, such as a trigger: see the server's log"

void pgw__fault_clear(pgw__fault *f)
{
    f->status = PGW_OK;
    f->inside = f->no_session = false;
    f->index = PGW_NO_INDEX;
    f->sqlstate[0] = f->message[0] = f->hint[0] = '\0';
}

pgw_status pgw__fault_set(pgw__fault *f, pgw_status st, const char *message, const char *hint)
{
    f->status = st;
    f->inside = f->no_session = false;
    f->index = PGW_NO_INDEX;
    f->sqlstate[0] = '\0';
    pgw__text_copy(f->message, sizeof(f->message), message != NULL ? message : "");
    pgw__text_copy(f->hint, sizeof(f->hint), hint != NULL ? hint : "");
    return st;
}

static const char *error_field(const PGresult *res, int code)
{
    const char *text = PQresultErrorField(res, code);

    return text != NULL ? text : "";
}

/* Our own functions say in DETAIL which of many they refuse, and nothing else. */
static size_t error_index_of(const char *detail)
{
    size_t number = 0;

    if (strncmp(detail, ERROR_WHICH, sizeof(ERROR_WHICH) - 1) == 0)
        number = strtoul(detail + sizeof(ERROR_WHICH) - 1, NULL, 10);
    return number > 0 ? number - 1 : PGW_NO_INDEX;
}

/* Errors of class 22 quote the value; DETAIL and CONTEXT quote rows and arguments (R19). None of
 * them is repeated. Errors of class PW from our own functions are written for the reader. */
bool pgw__fault_result(pgw__fault *f, const PGresult *res)
{
    const char *sqlstate = error_field(res, PG_DIAG_SQLSTATE);
    const char *severity = error_field(res, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *primary = error_field(res, PG_DIAG_MESSAGE_PRIMARY);
    const char *constraint = error_field(res, PG_DIAG_CONSTRAINT_NAME);
    const bool wraparound =
        pgw__status_is_wraparound(sqlstate, error_field(res, PG_DIAG_SOURCE_FUNCTION));
    /* in every language; where the server logs values, these are a context, too */
    const bool inside = strstr(error_field(res, PG_DIAG_CONTEXT), "PL/pgSQL") != NULL;
    const char *hint =
        inside && strncmp(sqlstate, "42", 2) == 0 ? ERROR_INSIDE : pgw__status_hint(sqlstate);
    char text[sizeof(f->message)], first[ERROR_FIRST_MAX + 1];

    if (sqlstate[0] == '\0') {
        pgw__fault_set(f, PGW_ECONN, "the connection was lost", NULL);
    } else if (strncmp(sqlstate, "PW", 2) == 0) {
        pgw__fault_set(f, PGW_EDB, primary, error_field(res, PG_DIAG_MESSAGE_HINT));
        if (f->hint[0] == '\0')
            pgw__text_copy(f->hint, sizeof(f->hint), pgw__status_hint(sqlstate));
        f->index = error_index_of(error_field(res, PG_DIAG_MESSAGE_DETAIL));
    } else {
        if (strncmp(sqlstate, "22", 2) == 0) primary = "the server refused a value";
        pgw__text_copy(first, sizeof(first), primary);
        snprintf(text, sizeof(text), "%s (SQLSTATE %.5s%s%.70s)", first, sqlstate,
                 constraint[0] != '\0' ? ", constraint " : "", constraint);
        pgw__fault_set(f, wraparound ? PGW_ERETRY : PGW_EDB, text,
                       wraparound ? PGW__STATUS_WRAPAROUND : hint);
    }
    pgw__text_copy(f->sqlstate, sizeof(f->sqlstate), sqlstate);
    f->inside = inside;
    return sqlstate[0] == '\0' || strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0;
}

/* Is it the user's name as well, or the database's? Then a text that shows it need not show a
 * secret. */
static bool error_is_public(const PQconninfoOption *o, const char *value)
{
    for (; o->keyword != NULL; o++) {
        const bool shown = strcmp(o->keyword, "user") == 0 || strcmp(o->keyword, "dbname") == 0;

        if (shown && o->val != NULL && strcmp(o->val, value) == 0) return true;
    }
    return false;
}

/* Whether the text contains a secret value of the connection. */
static bool error_is_secret(const PGconn *conn, const char *text)
{
    PQconninfoOption *options = PQconninfo((PGconn *)(uintptr_t)conn), *o;
    const char *password = PQpass(conn);
    bool secret = options == NULL;

    if (!secret && password != NULL && password[0] != '\0')
        secret = strstr(text, password) != NULL && !error_is_public(options, password);
    for (o = options; !secret && o->keyword != NULL; o++) {
        secret = o->dispchar[0] == '*' && o->val != NULL && o->val[0] != '\0' &&
                 strstr(text, o->val) != NULL && !error_is_public(options, o->val);
    }
    PQconninfoFree(options);
    return secret;
}

/* With PQERRORS_VERBOSE a line has the form "FATAL:  28P01: reason" in any language (R4). Returns
 * where the code begins; NULL: none. */
static const char *error_code_in(const char *line, size_t n)
{
    static const char alphabet[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

    for (const char *p = line; (size_t)(p - line) + 10 <= n; p++) {
        if (memcmp(p, ":  ", 3) == 0 && strspn(p + 3, alphabet) == 5 && memcmp(p + 8, ": ", 2) == 0)
            return p + 3;
    }
    return NULL;
}

/* "LOCATION:  function, file:line" in any language: the last line of a message. Some of the three
 * may be missing. */
static bool error_is_location(const char *line, size_t n)
{
    const char *end = line + n, *p = line;

    while (end - p > 3 && memcmp(p, ":  ", 3) != 0) p++;
    if (end - p <= 3) return false;
    for (p += 3; p < end && *p != ' ' && *p != ','; p++) {
    }
    if (end - p >= 2 && memcmp(p, ", ", 2) == 0) p += 2;
    if (memchr(p, ' ', (size_t)(end - p)) != NULL) return false;
    return p == end ? end[-1] == ' ' : end[-1] >= '0' && end[-1] <= '9';
}

/* Where the line after this one begins. */
static const char *error_next(const char *line)
{
    line += strcspn(line, "\n");
    return line + (*line == '\n');
}

/* The end of the message that begins with this line, after its location, if it has one. */
static const char *error_behind(const char *line)
{
    for (const char *p = error_next(line); *p != '\0'; p = error_next(p)) {
        const size_t n = strcspn(p, "\n");

        if (error_is_location(p, n)) return error_next(p);
        if (error_code_in(p, n) != NULL) break;
    }
    return error_next(line);
}

/* Reasons for a refused session. Nothing was sent yet, so all but mistakes of the set-up are
 * failed connections. An unknown name or value is that of a setting. */
static pgw_status error_status_at_start(const char *sqlstate)
{
    const pgw_status st = strcmp(sqlstate, "42704") == 0
                              ? PGW_EINVAL
                              : pgw__status_from_sqlstate(sqlstate, false, false);

    return st == PGW_EPERM || st == PGW_ESCHEMA || st == PGW_EINVAL ? st : PGW_ECONN;
}

static const char *error_hint_at_start(const char *sqlstate, pgw_status st)
{
    if (st == PGW_EINVAL)
        return "the server refuses a setting of the session: see options in `dsn`, PGOPTIONS, "
               "PGTZ, PGDATESTYLE, and `session.check_interval_ms`";
    if (strcmp(sqlstate, "42501") == 0)
        return "GRANT CONNECT ON DATABASE to the role, or remove options that it may not set";
    if (sqlstate[0] == '\0')
        return "check that the server runs, and host, port, service and TLS (ssl...) in `dsn`";
    return pgw__status_hint(sqlstate);
}

static bool error_is_lasting(const char *sqlstate)
{
    return error_status_at_start(sqlstate) != PGW_ECONN;
}

/* Each attempt has an answer: at one host after another, and where TLS is only preferred, without
 * it after one with it, which may have been cut: then that pg_hba.conf refuses the other says
 * nothing. So if one of them may go well the next time, that is the reason. */
static void error_reason_of(char sqlstate[6], const char *text)
{
    bool passing = false;

    sqlstate[0] = '\0';
    while (*text != '\0') {
        const size_t n = strcspn(text, "\n");
        const char *at = error_code_in(text, n);
        const bool more = n == 0 || text[0] == '\t'; /* continues the line before */
        char code[6] = "";

        text = at != NULL ? error_behind(text) : error_next(text);
        if (more) continue;
        if (at != NULL) memcpy(code, at, 5);
        if (passing && error_is_lasting(code)) continue;
        passing = !error_is_lasting(code);
        memcpy(sqlstate, code, sizeof(code));
        if (strcmp(code, "28P01") == 0) return; /* the name of the password's owner follows */
    }
}

/* One line of libpq's, its SQLSTATE moved to the end as in other messages. */
static size_t error_add_line(char *to, size_t size, const char *line, size_t n)
{
    const char *code = error_code_in(line, n);
    const int head = code != NULL ? (int)(code - line) : 0;
    const int rest = (int)n - head - (code != NULL ? 7 : 0);
    const char *behind = code != NULL ? code + 7 : line;
    int used = code != NULL
                   ? snprintf(to, size, "%.*s%.*s (SQLSTATE %.5s)", head, line, rest, behind, code)
                   : snprintf(to, size, "%.*s", rest, behind);

    return used < (int)size ? (size_t)used : size - 1;
}

/* Lines become "; ", so that the message is one line; where in the server's source it was found is
 * left out. */
static void error_flatten(char *to, size_t size, const char *text)
{
    size_t used = 0;

    for (; *text != '\0' && used + 3 < size; text = error_next(text)) {
        const char *line = text + strspn(text, "\t ");
        const size_t n = strcspn(line, "\n");

        if (n == 0 || error_is_location(line, n)) continue;
        if (used > 0) used += (size_t)snprintf(to + used, size - used, "; ");
        used += error_add_line(to + used, size - used, line, n);
    }
    to[used] = '\0';
}

/* libpq refuses a value before it connects: "invalid sslmode value". No repetition helps. */
static bool error_is_setting(const char *text)
{
    return strncmp(text, "invalid ", 8) == 0;
}

#define ERROR_SPLIT                                                                         \
    "in a URI write %40 for an @ in the password, %2F for a / and %3A for a :, or put the " \
    "password into a file (PGPASSFILE)"

void pgw__fault_connect(pgw__fault *f, const PGconn *conn, bool split)
{
    const char *text = PQerrorMessage(conn), *hint;
    char flat[sizeof(f->message)] = "", whole[sizeof(f->message)], sqlstate[6];
    pgw_status st;

    error_reason_of(sqlstate, text);
    if (split || error_is_secret(conn, text)) {
        snprintf(flat, sizeof(flat),
                 "cannot connect (the reason may contain a part of a password and is hidden)");
    } else {
        error_flatten(flat, sizeof(flat), text);
    }
    st = error_status_at_start(sqlstate);
    hint = error_hint_at_start(sqlstate, st);
    if (sqlstate[0] == '\0' && PQconnectionNeedsPassword(conn)) { /* libpq itself gave up */
        hint = "the server requires a password: put it into a file (PGPASSFILE), or into `dsn`";
        st = PGW_EPERM;
    } else if (sqlstate[0] == '\0' && error_is_setting(text)) {
        hint = "correct this value in `dsn`";
        st = PGW_EINVAL;
    }
    pgw__text_mend(whole, sizeof(whole), flat); /* no client encoding was agreed upon yet */
    pgw__fault_set(f, st, whole[0] != '\0' ? whole : "cannot connect", split ? ERROR_SPLIT : hint);
    f->no_session = true;
    memcpy(f->sqlstate, sqlstate, sizeof(sqlstate));
}

bool pgw__fault_is_passing(const pgw__fault *f)
{
    return f->status == PGW_ECONN && strcmp(f->sqlstate, "08P01") != 0;
}

/* ---- errors of other modules ---- */

pgw_status pgw__pq_remark(pgw *h, pgw_status st, const char *message, const char *hint)
{
    if (message == NULL && st < 0) message = pgw_status_text(st);
    return pgw__fault_set(&h->fault, st, message, hint);
}

/* A verb that fails at once was the one that pgw_async() armed; the next one blocks again. */
pgw_status pgw__pq_fail(pgw *h, pgw_status st, const char *message, const char *hint)
{
    h->armed = NULL;
    return pgw__pq_remark(h, st, message, hint);
}

pgw_status pgw__pq_about(pgw *h, size_t index, pgw_status st)
{
    if (h != NULL && st < PGW_OK) h->fault.index = index;
    return st;
}

pgw_status pgw__pq_advise(pgw *h, pgw_status st, const char *hint)
{
    h->armed = NULL;
    h->fault.status = st;
    pgw__text_copy(h->fault.hint, sizeof(h->fault.hint), hint);
    return st;
}

pgw_status pgw__pq_reject(pgw *h, pgw_status st, const char *message, const char *hint)
{
    h->statement[0] = '\0';
    return pgw__pq_fail(h, st, message, hint);
}

void pgw__pq_keep_diagnostics(const pgw *h, pgw__diagnostics *diagnostics)
{
    diagnostics->fault = h->fault;
    memcpy(diagnostics->statement, h->statement, sizeof(diagnostics->statement));
}

pgw_status pgw__pq_tell(pgw *h, const pgw__diagnostics *diagnostics)
{
    h->armed = NULL;
    h->fault = diagnostics->fault;
    memcpy(h->statement, diagnostics->statement, sizeof(h->statement));
    return diagnostics->fault.status;
}

/* Control characters as \xNN, because the message may be shown on a terminal. */
static void error_quote(char *to, size_t size, const char *value)
{
    size_t n = 0, taken = 0;

    to[n++] = '"';
    for (; taken < ERROR_VALUE_MAX && value[taken] != '\0' && n + 9 < size; taken++) {
        unsigned char c = (unsigned char)value[taken];

        if (c < 0x20 || c == 0x7f) {
            n += (size_t)snprintf(to + n, size - n, "\\x%02x", (unsigned)c);
        } else {
            to[n++] = (char)c;
        }
    }
    if (value[taken] != '\0') {
        /* not in the middle of a character */
        while (taken > 0 && ((unsigned char)value[taken] & 0xc0) == 0x80) taken--, n--;
        n += (size_t)snprintf(to + n, size - n, "\"...");
    } else {
        to[n++] = '"';
    }
    to[n] = '\0';
}

static pgw_status error_refuse(pgw *h, const char *argument, const char *shown, const char *allowed)
{
    char text[sizeof(h->fault.message)];

    h->armed = NULL;
    h->statement[0] = '\0'; /* none was sent */
    snprintf(text, sizeof(text), "argument `%.64s` is %s: expected %.400s", argument, shown,
             allowed);
    return pgw__fault_set(&h->fault, PGW_EINVAL, text, NULL);
}

pgw_status pgw__pq_refuse(pgw *h, const char *argument, const char *value, const char *allowed)
{
    char shown[4 * ERROR_VALUE_MAX + 16] = "NULL";

    if (value != NULL) error_quote(shown, sizeof(shown), value);
    return error_refuse(h, argument, shown, allowed);
}

pgw_status pgw__pq_refuse_int(pgw *h, const char *argument, int64_t value, const char *allowed)
{
    char shown[32];

    snprintf(shown, sizeof(shown), "%lld", (long long)value);
    return error_refuse(h, argument, shown, allowed);
}

pgw_status pgw__pq_error_status(const pgw *h)
{
    return h->fault.status;
}

const char *pgw__pq_error_message(const pgw *h)
{
    return h->fault.message;
}

const char *pgw__pq_error_hint(const pgw *h)
{
    return h->fault.hint;
}

const char *pgw__pq_sqlstate(const pgw *h)
{
    return h->fault.sqlstate;
}

pgw_status pgw__pq_in_loop(const pgw *h, pgw_status st)
{
    if (h == NULL || (st == PGW_EINVAL && h->fault.no_session)) return st; /* no job is at fault */
    return pgw__status_in_loop(st, h->fault.sqlstate, h->fault.inside);
}

const char *pgw__pq_error_statement(const pgw *h)
{
    return h->statement;
}

size_t pgw__pq_error_index(const pgw *h)
{
    return h->fault.index;
}
