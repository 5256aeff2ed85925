/* SPDX-License-Identifier: PostgreSQL
 *
 * leases HOLDER UNTIL: holds rows of the table `leased` at random, up to a second of time(), and is
 * killed now and then. What it has for certain, and until when, is in `lease_of`: before each call,
 * that it ends now. What may never be is printed.
 */
#include "../support/callkit.h"
#include <libpq-fe.h>
#include <pgwork.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static PGconn *conn;
static pgw *h;
static pgw_table *t;

static int draw(int n)
{
    return (int)(random() % n);
}

static void maybe_die(void)
{
    if (draw(80) == 0) raise(SIGKILL);
}

static void never(const char *what, long long id)
{
    printf("never: %s (row %lld)\n", what, id);
    exit(1);
}

/* The first value as a number. A session that was shot or canceled is the end of us. */
__attribute__((format(printf, 1, 2))) static long long sql(const char *format, ...)
{
    char text[1000];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    PGresult *res = PQexec(conn, text);
    const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE);
    if (state && strncmp(state, "57", 2) != 0) never(PQerrorMessage(conn), 0);
    if (state || PQstatus(conn) != CONNECTION_OK) exit(0);
    long long n = PQntuples(res) == 1 ? atoll(PQgetvalue(res, 0, 0)) : 0;
    PQclear(res);
    return n;
}

static long long now_us(void)
{
    return sql("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint");
}

static int accepted(pgw_status st)
{
    if (st == PGW_OK || st == PGW_ELEASE) return st == PGW_OK;
    if (st != PGW_ECONN && st != PGW_ECANCELED && st != PGW_EUNKNOWN)
        never(pgw_error_message(h), 0);
    exit(0);
}

static void note(pgw_row_ref *ref, long long until_us, const char *more)
{
    sql("UPDATE lease_of SET until = to_timestamp(%lld / 1000000.0)%s WHERE id = %s AND number = "
        "%lld",
        until_us, more, ref->key[0], (long long)ref->token.number);
}

static void hold(pgw_row_ref *ref, long long until_us)
{
    const long long id = atoll(ref->key[0]);
    const int what = draw(12);

    maybe_die();
    if (what == 0) return; /* to its time, or until it is claimed again */
    if (what == 1) usleep((useconds_t)draw(400000));
    const long long now = now_us();
    note(ref, now < until_us ? now : until_us, "");
    if (what <= 3) {
        if (accepted(pgw_table_extend(h, t, ref, 1, ROWS_BY(200)))) {
            note(ref, now + 200000, "");
            usleep((useconds_t)draw(250000));
            return;
        }
    } else if (what <= 5) {
        if (accepted(pgw_table_release(h, t, ref, 1))) {
            note(ref, now, "");
            if (accepted(pgw_table_release(h, t, ref, 1))) never("released twice", id);
            return;
        }
    } else {
        sql("BEGIN");
        note(ref, now, ", finished = true");
        if (accepted(pgw_table_finish(h, t, ref, 1, FINISH("n = t.n + 1", NULL, 0)))) {
            maybe_die();
            sql(draw(4) == 0 ? "ROLLBACK" : "COMMIT");
            if (sql("SELECT count(*) FROM lease_of WHERE id = %lld AND number = %lld AND finished",
                    id, (long long)ref->token.number) == 1 &&
                accepted(pgw_table_release(h, t, ref, 1)))
                never("released after its finish", id);
            return;
        }
        sql("ROLLBACK");
    }
    if (now_us() < until_us) never("refused before its time", id);
}

int main(int argc, char **argv)
{
    static const char *const key[] = {"id"};
    pgw_table_spec spec = PGW_TABLE_SPEC_INIT;
    pgw_table_claim_opts o = PGW_TABLE_CLAIM_OPTS_INIT;
    pgw_rows *rows;

    if (argc != 3) return 2;
    srandom((unsigned)getpid());
    conn = PQconnectdb("");
    spec.table = "leased", spec.key = key, spec.key_count = 1;
    spec.locked_by = "locked_by", spec.expires_at = "expires_at", spec.token = "token";
    if (pgw_attach(conn, NULL, &h) != PGW_OK || pgw_table_open(h, &spec, &t) != PGW_OK)
        return 0; /* shot */
    while (time(NULL) < atoll(argv[2])) {
        sql("UPDATE lease_of SET until = clock_timestamp() WHERE holder = '%s' AND until > "
            "clock_timestamp()",
            argv[1]);
        o.max = 1 + draw(3), o.holder = argv[1], o.lease_ms = 100 + draw(300);
        const pgw_status st = pgw_table_claim(h, t, &o, &rows);
        if (st == PGW_OUTCOME_EMPTY) {
            usleep(5000);
            continue;
        }
        if (!accepted(st)) never("a claim that is refused", 0);
        for (size_t i = 0; i < pgw_rows_count(rows); i++) {
            pgw_row_ref ref = pgw_rows_ref(rows, i);
            if (sql("WITH w AS (INSERT INTO lease_of AS l VALUES (%s, %lld, '%s', "
                    "clock_timestamp(), to_timestamp(%lld / 1000000.0))"
                    " ON CONFLICT (id, number) DO UPDATE SET until = excluded.until WHERE l.holder "
                    "= excluded.holder AND NOT l.finished"
                    " RETURNING 1) SELECT count(*) FROM w",
                    ref.key[0], (long long)ref.token.number, argv[1],
                    (long long)pgw_rows_lease_until_us(rows, i)) != 1)
                never("a number that was another's, or finished", atoll(ref.key[0]));
        }
        for (size_t i = 0; i < pgw_rows_count(rows); i++) {
            pgw_row_ref ref = pgw_rows_ref(rows, i);
            hold(&ref, pgw_rows_lease_until_us(rows, i));
        }
        pgw_rows_free(rows);
    }
    return 0;
}
