/* sqlkit: SQL on several connections, for tests without the library.
 *
 * Statements are printf formats. An error fails the running test, also in the thread of a racer.
 * Uses the database of pgtemp.h. Call kit_begin() in setUp: it removes all queues. */
#ifndef SQLKIT_H
#define SQLKIT_H

#if __has_include(<libpq-fe.h>)
#include <libpq-fe.h>
#else
#include <postgresql/libpq-fe.h>
#endif

#include <stdbool.h>

#define KIT_FORMAT(n) __attribute__((format(printf, n, n + 1)))

/* Migrates, drops all queues, and resets all settings. */
void kit_begin(void);

/* A connection with a name of its own. kit_end() in tearDown closes those that are still open. */
PGconn *kit_open(void);
void kit_close(PGconn *conn);
void kit_end(void);

/* Run a statement. Return nothing; the result, which the caller clears; its first value (NULL: none
 * or SQL NULL; borrowed until sixteen more calls of this thread); that value as a number. */
void kit_do(PGconn *conn, const char *format, ...) KIT_FORMAT(2);
PGresult *kit_rows(PGconn *conn, const char *format, ...) KIT_FORMAT(2);
const char *kit_text(PGconn *conn, const char *format, ...) KIT_FORMAT(2);
long long kit_number(PGconn *conn, const char *format, ...) KIT_FORMAT(2);

/* The SQLSTATE of a statement, "" for success. kit_why() returns its message and detail. */
const char *kit_state(PGconn *conn, const char *format, ...) KIT_FORMAT(2);
const char *kit_why(void);

/* The statement must fail with this SQLSTATE. The message must contain each of `words`, which are
 * separated by |. */
void kit_refused(PGconn *conn, const char *state, const char *words, const char *format, ...)
    KIT_FORMAT(4);

/* Send a statement without waiting for the answer; wait until it waits for a lock, as another
 * connection sees it; return the first value of the answer, as kit_text() does. */
void kit_send(PGconn *conn, const char *format, ...) KIT_FORMAT(2);
void kit_blocked(PGconn *conn, PGconn *watch);
const char *kit_answer(PGconn *conn);

/* Calls compact(), again while autovacuum holds a snapshot. */
void kit_compact(PGconn *conn);

/* A job under a lease. */
struct took {
    long long id;
    int attempt, priority;
    char token[40], queue[64];
};

/* Claims with the name of the connection as holder. Returns the number of jobs, at most n. */
int kit_claim(PGconn *conn, const char *queue, int n, struct took *out);

/* Calls complete, fail, snooze, release or extend for a job. Returns "ok" if no row refuses it,
 * else stale, gone or cancel. `more` are arguments after the tokens: ", 'error'". */
const char *kit_say(PGconn *conn, const char *verb, const struct took *job, const char *more);

/* Enqueues one plain job. Returns its id. */
long long kit_put(PGconn *conn, const char *queue);

/* Ends all leases of a queue, or makes all delayed jobs due, without waiting. */
void kit_expire(PGconn *conn, const char *queue);
void kit_due(PGconn *conn, const char *queue);

/* Counts of jobs as "ready leased delayed dead done". */
const char *kit_places(PGconn *conn, const char *queue);

/* Runs fn(conn, i, ctx) in n threads, each with a connection of its own. kit_together() in fn waits
 * until all racers have called it. */
void kit_race(int n, void (*fn)(PGconn *conn, int i, void *ctx), void *ctx);
void kit_together(void);

/* Replaces the first `from` in a function of the schema. kit_restore() puts the function back, of
 * which one at a time may be changed; kit_end() does, too. */
void kit_mutate(PGconn *conn, const char *function, const char *from, const char *to);
void kit_restore(void);

void kit_sleep_ms(int ms);
long long kit_ms(void); /* a clock for deadlines */

#endif
