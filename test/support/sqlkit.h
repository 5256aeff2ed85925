/* sqlkit: the SQL protocol on several connections, for tests that use nothing of the library.
 *
 * Statements are printf formats. Whatever goes wrong fails the running test, also from within a
 * racer's thread. Needs pgtemp.h's database; kit_begin() in setUp leaves no queue there. */
#ifndef SQLKIT_H
#define SQLKIT_H

#if __has_include(<libpq-fe.h>)
#include <libpq-fe.h>
#else
#include <postgresql/libpq-fe.h>
#endif

#include <stdbool.h>

#define KIT_FORMAT(n) __attribute__((format(printf, n, n + 1)))

/* Put the schema in, drop all queues, forget all settings. */
void kit_begin(void);

/* A connection with its own name; kit_end() in tearDown closes those that a test left open. */
PGconn *kit_open(void);
void kit_close(PGconn *conn);
void kit_end(void);

/* Run; the server's answer, which the caller clears; the first value of it (NULL: none or NULL;
 * borrowed until sixteen more calls of this thread); the same as a number. */
void kit_do(PGconn *conn, const char *format, ...) KIT_FORMAT(2);
PGresult *kit_rows(PGconn *conn, const char *format, ...) KIT_FORMAT(2);
const char *kit_text(PGconn *conn, const char *format, ...) KIT_FORMAT(2);
long long kit_number(PGconn *conn, const char *format, ...) KIT_FORMAT(2);

/* The SQLSTATE of what happens, "" for success; kit_why() has the message then, with its detail. */
const char *kit_state(PGconn *conn, const char *format, ...) KIT_FORMAT(2);
const char *kit_why(void);

/* It has to be refused so, and each word of `words` (parted by |) has to be in the message. */
void kit_refused(PGconn *conn, const char *state, const char *words, const char *format, ...)
    KIT_FORMAT(4);

/* Send without waiting for the answer; wait until the server says that it waits for a lock (seen on
 * another connection); take the answer's first value as kit_text() does. */
void kit_send(PGconn *conn, const char *format, ...) KIT_FORMAT(2);
void kit_blocked(PGconn *conn, PGconn *watch);
const char *kit_answer(PGconn *conn);

/* A job under a lease. */
struct took {
    long long id;
    int attempt, priority;
    char token[40], queue[64];
};

/* Claim for the connection's holder name; how many came. More than n fails the test. */
int kit_claim(PGconn *conn, const char *queue, int n, struct took *out);

/* What complete, fail, snooze, release or extend says to the holder of a job: "ok" when no row
 * speaks against it, else stale, gone, cancel. `more` is put behind the tokens: ", 'error'". */
const char *kit_say(PGconn *conn, const char *verb, const struct took *job, const char *more);

/* Enqueue one plain job; its id. */
long long kit_put(PGconn *conn, const char *queue);

/* Let all leases of a queue run out, or all delayed jobs become due, without waiting. */
void kit_expire(PGconn *conn, const char *queue);
void kit_due(PGconn *conn, const char *queue);

/* Counts of jobs by place as "ready leased delayed dead done". */
const char *kit_places(PGconn *conn, const char *queue);

/* Run fn(conn, i, ctx) in n threads at once, each with a connection of its own. kit_together()
 * waits inside until all racers have come to it. */
void kit_race(int n, void (*fn)(PGconn *conn, int i, void *ctx), void *ctx);
void kit_together(void);

void kit_sleep_ms(int ms);
long long kit_ms(void); /* a clock for deadlines */

#endif
