#include "pgtemp.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if __has_include(<libpq-fe.h>)
#include <libpq-fe.h>
#else
#include <postgresql/libpq-fe.h>
#endif

#include "unity.h"

static char temp_name[64];
static char temp_dsn[1024];
static PGconn *temp_conn;
static pid_t temp_owner;

static const char *server_dsn(void)
{
    const char *dsn = getenv("PGW_TEST_DSN");
    const char *strict = getenv("PGW_TEST_STRICT");

    if (dsn && *dsn) return dsn;
    if (strict && strcmp(strict, "1") == 0) TEST_FAIL_MESSAGE("PGW_TEST_DSN is not set");
    TEST_IGNORE_MESSAGE("no server: run under test/support/with_pg.sh");
    return NULL;
}

/* The test's file name without path, test_ or it_, and ending. */
static void make_name(void)
{
    const char *file = Unity.TestFile, *slash = file ? strrchr(file, '/') : NULL;
    char stem[40];

    if (slash) file = slash + 1;
    if (!file) file = "test";
    if (strncmp(file, "test_", 5) == 0) file += 5;
    if (strncmp(file, "it_", 3) == 0) file += 3;
    snprintf(stem, sizeof(stem), "%.*s", (int)strcspn(file, "."), file);
    snprintf(temp_name, sizeof(temp_name), "pgw_it_%s_%ld", stem, (long)getpid());
}

static PGconn *must_connect(const char *dsn)
{
    PGconn *conn = PQconnectdb(dsn);
    char message[512];

    if (PQstatus(conn) == CONNECTION_OK) return conn;
    snprintf(message, sizeof(message), "%s", PQerrorMessage(conn));
    PQfinish(conn);
    TEST_FAIL_MESSAGE(message);
    return NULL;
}

/* At the end of the program, but not of a child that the test forked. */
static void drop_database(void)
{
    const char *dsn = getenv("PGW_TEST_DSN");
    PGconn *conn;
    char sql[128];

    if (getpid() != temp_owner || !dsn) return;
    PQfinish(temp_conn);
    temp_conn = NULL;
    conn = PQconnectdb(dsn);
    snprintf(sql, sizeof(sql), "DROP DATABASE IF EXISTS \"%s\" WITH (FORCE)", temp_name);
    PQclear(PQexec(conn, sql));
    PQfinish(conn);
}

const char *pgtemp_dsn(void)
{
    const char *dsn = server_dsn();
    PGconn *conn;
    PGresult *res;
    char sql[128], message[512] = "";

    if (*temp_dsn) return temp_dsn;
    make_name();
    conn = must_connect(dsn);
    snprintf(sql, sizeof(sql), "CREATE DATABASE \"%s\" TEMPLATE template0", temp_name);
    res = PQexec(conn, sql);
    if (PQresultStatus(res) != PGRES_COMMAND_OK)
        snprintf(message, sizeof(message), "%s", PQerrorMessage(conn));
    PQclear(res);
    PQfinish(conn);
    if (*message) TEST_FAIL_MESSAGE(message);
    temp_owner = getpid();
    atexit(drop_database);
    /* a later word wins over an earlier one in a connection string */
    snprintf(temp_dsn, sizeof(temp_dsn), "%s dbname=%s", dsn, temp_name);
    return temp_dsn;
}

struct pg_conn *pgtemp_connect(void)
{
    PGconn *conn = must_connect(pgtemp_dsn());

    PQclear(PQexec(conn, "SET client_min_messages = warning"));
    return conn;
}

/* In a child it is the parent's. A child comes here when one of its assertions failed and it goes
 * on with the next test. */
struct pg_conn *pgtemp_conn(void)
{
    if (temp_owner && getpid() != temp_owner) _exit(99);
    if (!temp_conn) temp_conn = pgtemp_connect();
    return temp_conn;
}

/* The result, or the test fails with the statement's error. */
static PGresult *must_run(const char *sql)
{
    PGresult *res = PQexec(pgtemp_conn(), sql);
    ExecStatusType status = PQresultStatus(res);
    char message[1024];

    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_EMPTY_QUERY)
        return res;
    snprintf(message, sizeof(message), "%s in: %.400s", PQerrorMessage(temp_conn), sql);
    PQclear(res);
    TEST_FAIL_MESSAGE(message);
    return NULL;
}

void pgtemp_exec(const char *sql)
{
    PQclear(must_run(sql));
}

void pgtemp_read_only(bool on)
{
    char sql[200];

    snprintf(sql, sizeof(sql), "ALTER DATABASE \"%s\" SET default_transaction_read_only = %s",
             temp_name, on ? "on" : "off");
    pgtemp_exec(sql);
}

const char *pgtemp_value(const char *sql)
{
    static char ring[8][4096];
    static unsigned next;
    PGresult *res = must_run(sql);
    char *value = NULL;

    if (PQntuples(res) > 0 && PQnfields(res) > 0 && !PQgetisnull(res, 0, 0)) {
        value = ring[next++ % 8];
        snprintf(value, sizeof(ring[0]), "%s", PQgetvalue(res, 0, 0));
    }
    PQclear(res);
    return value;
}

long long pgtemp_number(const char *sql)
{
    const char *value = pgtemp_value(sql);
    char *end = NULL;
    long long number = value ? strtoll(value, &end, 10) : 0;

    if (!value || end == value || *end) TEST_FAIL_MESSAGE(sql);
    return number;
}

void pgtemp_migrate(void)
{
    static bool done;
    PGconn *turn;

    if (done) return;
    pgtemp_dsn();
    /* roles belong to the whole server: the test programs take turns to make them */
    turn = must_connect(getenv("PGW_TEST_DSN"));
    PQclear(PQexec(turn, "SELECT pg_advisory_lock(1886418802)"));
#define PGW__MIGRATION(number, file, text) pgtemp_exec(text);
#include "sql_data.inc"
    PQfinish(turn);
    done = true;
}
