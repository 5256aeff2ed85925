/* pgtemp: a database for each integration test program.
 *
 * The server is that of PGW_TEST_DSN; test/support/with_pg.sh starts a private one. Without it the
 * running test is ignored, or fails with PGW_TEST_STRICT=1. The database pgw_it_<test>_<pid> is
 * created at the first call and dropped when the program ends. An error fails the running test with
 * the message of the server, so tests need not check results. */
#ifndef PGTEMP_H
#define PGTEMP_H

#include <stdbool.h>

struct pg_conn;

/* The connection string of the database, borrowed until the program ends. */
const char *pgtemp_dsn(void);

/* A connection beside the library; opened once, closed at the end. */
struct pg_conn *pgtemp_conn(void);

/* A new connection; the caller owns it (PQfinish). */
struct pg_conn *pgtemp_connect(void);

/* Applies the migrations of the tree. The second call does nothing. */
void pgtemp_migrate(void);

/* Runs one or more statements on pgtemp_conn(). */
void pgtemp_exec(const char *sql);

/* Makes the database read-only for new sessions, or writable again. */
void pgtemp_read_only(bool on);

/* The first value of the first row as text, up to 4095 bytes; NULL: no row, or SQL NULL. Borrowed
 * until eight more calls, so that several fit into one assertion. */
const char *pgtemp_value(const char *sql);

/* The same as a number. Fails the test if there is none. */
long long pgtemp_number(const char *sql);

#endif
