/* doctor: finds faults and says what to do. Each check is a statement that returns grade, name,
 * finding and advice, so it can also be run in psql. This file runs them in order, and adds what
 * only the client knows. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "call/check.h"
#include "pq/pq.h"

#define DOCTOR_CLOCK_MS 1000 /* largest difference of clocks that is good */
#define DOCTOR_LOCK_MS  2000 /* how long a check waits for a locked table */

typedef int doctor_fn(const pgw_finding *f, void *arg);

typedef struct doctor {
    pgw *h;
    doctor_fn *fn;
    void *arg;
    int stop;        /* the result of fn */
    bool may;        /* a missing right to read is not a fault of the queues */
    int there;       /* whether the schema exists; -1: not known */
    int64_t version; /* -1: not known */
    int64_t now_us;
} doctor;

/* The checks of a server without our schema, and those of the schema. */
/* `name`: the name of its first finding, used if the check cannot be made. */
typedef struct doctor_check {
    pgw__sql sql;
    const char *name;
} doctor_check;

static const doctor_check doctor_server[] = {{PGW__SQL_DOCTOR_SERVER, "server version"},
                                             {PGW__SQL_DOCTOR_HORIZON, "vacuum horizon"}};
static const doctor_check doctor_schema[] = {{PGW__SQL_DOCTOR_LOCKS, "locks"},
                                             {PGW__SQL_DOCTOR_FOREIGN, "foreign locks"},
                                             {PGW__SQL_DOCTOR_ROLES, "roles"},
                                             {PGW__SQL_DOCTOR_UPKEEP, "reaper"},
                                             {PGW__SQL_DOCTOR_TABLES, "registered tables"},
                                             {PGW__SQL_DOCTOR_QUEUES, "queues"},
                                             {PGW__SQL_DOCTOR_GATED, "gated jobs"},
                                             {PGW__SQL_DOCTOR_SCHEDULES, "schedules"}};

typedef struct doctor_ctx {
    doctor *d;
} doctor_ctx;

static void doctor_say(doctor *d, pgw_grade grade, const char *check, const char *text,
                       const char *advice)
{
    const pgw_finding f = {grade, check, text, advice};

    if (d->stop == 0) d->stop = d->fn(&f, d->arg);
}

static const char *doctor_text(const pgw__rows *rows, int row, int col)
{
    const char *text = pgw__rows_text(rows, row, col, NULL);

    return text != NULL ? text : "";
}

static pgw_status doctor_read(pgw *h, const pgw__rows *rows, void *ctx)
{
    doctor *d = ((const doctor_ctx *)ctx)->d;
    const int count = pgw__rows_count(rows);
    int row;

    (void)h;
    for (row = 0; row < count; row++) {
        const int64_t grade = pgw__rows_int(rows, row, 0);

        doctor_say(d,
                   grade <= 0   ? PGW_GRADE_GOOD
                   : grade == 1 ? PGW_GRADE_NOTE
                                : PGW_GRADE_BAD,
                   doctor_text(rows, row, 1), doctor_text(rows, row, 2), doctor_text(rows, row, 3));
    }
    return PGW_OK;
}

/* A lock that is not granted soon would cost each check the whole timeout of a call. The
 * transaction only sets that limit. */
static pgw_status doctor_call(pgw *h, const pgw__call *call)
{
    pgw_status st, undone;

    if (pgw__pq_in_txn(h)) return pgw__pq_call(h, call);
    st = pgw__pq_begin_limited(h, DOCTOR_LOCK_MS);
    if (st != PGW_OK) return st;
    st = pgw__pq_call(h, call);
    undone = pgw__pq_rollback(h);
    return undone == PGW_OK ? st : undone;
}

/* A check that cannot be made is a finding; only a lost connection ends the run. */
static pgw_status doctor_ask(doctor *d, doctor_check check, pgw__reader *read)
{
    const doctor_ctx ctx = {d};
    const pgw__call call = {
        .sql = check.sql, .read = read, .ctx = &ctx, .ctx_size = sizeof(ctx), .flags = PGW__OWNED};
    const pgw_status st = doctor_call(d->h, &call);
    char text[PGW__ERROR_LINE], advice[PGW__HINT_MAX];
    bool barred;

    if (st >= 0 || st == PGW_ECONN || st == PGW_EUNKNOWN || st == PGW_ECANCELED ||
        st == PGW_EMISUSE || st == PGW_ENOMEM)
        return st;
    barred = strcmp(pgw__pq_sqlstate(d->h), "42501") == 0;
    snprintf(text, sizeof(text), "%s%s",
             barred && !d->may ? "not checked: needs pgwork_viewer: " : "check failed: ",
             pgw_error_message(d->h));
    snprintf(
        advice, sizeof(advice), "%s",
        barred
            ? "Ask as a member of pgwork_viewer or pgwork_operator, or as the owner of the schema."
            : pgw_error_hint(d->h));
    doctor_say(d, barred && !d->may ? PGW_GRADE_NOTE : PGW_GRADE_BAD, check.name, text, advice);
    return PGW_OK;
}

static pgw_status doctor_ask_all(doctor *d, const doctor_check *checks, size_t n)
{
    pgw_status st = PGW_OK;
    size_t i;

    for (i = 0; i < n && st == PGW_OK && d->stop == 0; i++)
        st = doctor_ask(d, checks[i], doctor_read);
    return st;
}

/* ---- the schema's version ---- */

static pgw_status doctor_read_there(pgw *h, const pgw__rows *rows, void *ctx)
{
    (void)h;
    ((const doctor_ctx *)ctx)->d->there = pgw__rows_int(rows, 0, 0) != 0;
    return PGW_OK;
}

static pgw_status doctor_read_may(pgw *h, const pgw__rows *rows, void *ctx)
{
    (void)h;
    ((const doctor_ctx *)ctx)->d->may = pgw__rows_int(rows, 0, 0) != 0;
    return PGW_OK;
}

static pgw_status doctor_read_version(pgw *h, const pgw__rows *rows, void *ctx)
{
    (void)h;
    ((const doctor_ctx *)ctx)->d->version = pgw__rows_int(rows, 0, 0); /* NULL: 0 */
    return PGW_OK;
}

static pgw_status doctor_read_checksums(pgw *h, const pgw__rows *rows, void *ctx)
{
    doctor *d = ((const doctor_ctx *)ctx)->d;
    const char *applied = pgw__rows_text(rows, 0, 1, NULL);
    const int changed = applied != NULL ? pgw__sql_differs(applied) : 0;
    char text[200];

    if (changed == 0) return PGW_OK;
    snprintf(text, sizeof(text),
             "migration %d of schema %s was applied with another text than this library has",
             changed, pgw__pq_schema(h));
    doctor_say(d, PGW_GRADE_BAD, "schema version", text,
               "Use the pgwork that created the schema. Drop a schema from before the first "
               "release, with its jobs, and migrate again.");
    return PGW_OK;
}

/* Equal versions may have different texts, so this compares checksums. */
static pgw_status doctor_version_text(doctor *d)
{
    if (d->version < 1 || d->version > PGW__SCHEMA_MAX) return PGW_OK;
    return doctor_ask(d, (doctor_check){PGW__SQL_HANDLE_GREETING, "schema version"},
                      doctor_read_checksums);
}

static pgw_status doctor_version(doctor *d)
{
    const int known = PGW__SCHEMA_MAX;
    char text[200];
    pgw_status st =
        doctor_ask(d, (doctor_check){PGW__SQL_MIGRATE_THERE, "schema version"}, doctor_read_there);

    if (st != PGW_OK || d->stop != 0 || d->there < 0) return st;
    if (d->there == 0) {
        snprintf(text, sizeof(text), "there is no schema %s in this database",
                 pgw__pq_schema(d->h));
        doctor_say(d, PGW_GRADE_BAD, "schema version", text,
                   "Run `pgwork migrate`, or correct `dsn` or `schema`.");
        return PGW_OK;
    }
    st = doctor_ask(d, (doctor_check){PGW__SQL_DOCTOR_MAY, "schema version"}, doctor_read_may);
    if (st == PGW_OK)
        st = doctor_ask(d, (doctor_check){PGW__SQL_HANDLE_VERSION, "schema version"},
                        doctor_read_version);
    if (st != PGW_OK || d->version < 0) return st;
    snprintf(text, sizeof(text),
             "schema %s has version %" PRId64 ", this library works with %d to %d",
             pgw__pq_schema(d->h), d->version, PGW__SCHEMA_MIN, known);
    if (d->version > known) {
        doctor_say(d, PGW_GRADE_BAD, "schema version", text, "Use a newer library.");
    } else if (d->version < known) {
        doctor_say(d, d->version < PGW__SCHEMA_MIN ? PGW_GRADE_BAD : PGW_GRADE_NOTE,
                   "schema version", text,
                   "Run `pgwork migrate up` once every worker and reaper runs this version of the "
                   "library.");
    } else {
        doctor_say(d, PGW_GRADE_GOOD, "schema version", text, "");
    }
    return doctor_version_text(d);
}

/* ---- clocks ---- */

static pgw_status doctor_read_clock(pgw *h, const pgw__rows *rows, void *ctx)
{
    (void)h;
    ((const doctor_ctx *)ctx)->d->now_us = pgw__rows_time_us(rows, 0, 0);
    return PGW_OK;
}

static int64_t doctor_wall_ms(void)
{
    struct timespec now;

    return clock_gettime(CLOCK_REALTIME, &now) == 0
               ? (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000
               : 0;
}

/* The server read its clock at some time between the request and the answer. */
static pgw_status doctor_clock(doctor *d)
{
    const int64_t before = doctor_wall_ms();
    const pgw_status st =
        doctor_ask(d, (doctor_check){PGW__SQL_DOCTOR_CLOCK, "clock"}, doctor_read_clock);
    const int64_t after = doctor_wall_ms(), server = d->now_us / 1000;
    const int64_t apart = server < before ? before - server : server > after ? server - after : 0;
    char text[160];

    if (st != PGW_OK || d->now_us == 0) return st;
    snprintf(text, sizeof(text), "this machine's clock and the server's are %" PRId64 " ms apart",
             apart);
    doctor_say(d, apart > DOCTOR_CLOCK_MS ? PGW_GRADE_NOTE : PGW_GRADE_GOOD, "clock", text,
               apart > DOCTOR_CLOCK_MS
                   ? "Leases are safe, because they use the server's clock. run_at times computed "
                     "here are wrong: synchronise with NTP, or use delays."
                   : "");
    return st;
}

pgw_status pgw_doctor(pgw *h, int (*fn)(const pgw_finding *f, void *arg), void *arg)
{
    doctor d = {.h = h, .fn = fn, .arg = arg, .there = -1, .version = -1};
    pgw_status st;

    if (fn == NULL) return pgw__check_given(h, "fn", NULL);
    st = pgw__check_handle(h);
    if (st == PGW_OK) st = pgw__check_unarmed(h, NULL);
    if (st == PGW_OK)
        st = doctor_ask_all(&d, doctor_server, sizeof(doctor_server) / sizeof(doctor_server[0]));
    if (st == PGW_OK && d.stop == 0) st = doctor_clock(&d);
    if (st == PGW_OK && d.stop == 0) st = doctor_version(&d);
    if (st == PGW_OK && d.stop == 0 && d.there > 0)
        st = doctor_ask_all(&d, doctor_schema, sizeof(doctor_schema) / sizeof(doctor_schema[0]));
    return st;
}
