/* pgtemp: a database of its own for each integration test program.
 *
 * The server is the one of PGW_TEST_DSN (test/support/with_pg.sh starts a private one). Without it
 * the running test is ignored, or fails when PGW_TEST_STRICT=1 says that a skip would hide
 * something. The database pgw_it_<test>_<pid> is made at the first call and dropped when the
 * program ends.
 * Everything fails the running test with the server's own words; nothing needs to be checked. */
#ifndef PGTEMP_H
#define PGTEMP_H

#include <stdbool.h>

struct pg_conn;

/* The connection string of the database; borrowed, lives as long as the program. */
const char *pgtemp_dsn(void);

/* A connection that observes beside the library; opened once, closed at the end. */
struct pg_conn *pgtemp_conn(void);

/* A new connection; the caller owns it (PQfinish). */
struct pg_conn *pgtemp_connect(void);

/* Put pgwork's schema in, as the migrations stand in the tree; the second call does nothing. */
void pgtemp_migrate(void);

/* Run one or more statements on pgtemp_conn(). */
void pgtemp_exec(const char *sql);

/* The database takes no writes from new sessions, or takes them again. */
void pgtemp_read_only(bool on);

/* The first value of the first row as text, NULL for no row or SQL NULL. Borrowed: good until eight
 * more calls, so that several fit into one assertion. At most 4095 bytes. */
const char *pgtemp_value(const char *sql);

/* The same as a number; no row or no number fails the test. */
long long pgtemp_number(const char *sql);

#endif
