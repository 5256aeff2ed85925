/* wire_verbs: the public verbs that write, for test_it_wire.c: what comes before each, a call of it
 * through a wire, and how its effect shows. test/lint/rules.sh compares the table with inc/. */
#ifndef WIRE_VERBS_H
#define WIRE_VERBS_H

#include "pgwork.h"

typedef struct verb {
    const char *name; /* the function, without pgw_, and further ones that it needs */
    pgw_status (*call)(void);
    void (*prepare)(void);
    const char *done;  /* SQL: true once it is applied, and once only */
    pgw_status repeat; /* what a repeat may report beside success */
} verb;
#define VERB_NEVER PGW_EMISUSE /* it has no way to be repeated without a second effect */

extern const verb verbs[];
extern const int verbs_count;

/* For one test: a table, and a handle that is not disturbed. */
void verbs_open(void);
void verbs_close(void);

/* For one case: a new name for its objects, what comes before the verb, and a handle of its own
 * through the wire, borrowed until the next case. */
pgw *verbs_begin(const verb *v, const char *dsn);

/* Calls it; the first time is 0. */
pgw_status verbs_call(const verb *v, int time);

/* Waits until the server has ended the sessions whose line is cut, at most some seconds. connected:
 * the handle of the case has a session. */
void verbs_settle(bool connected);

/* Whether the effect is there, and there once. A lock comes and goes with its
 * session, so that one waits until it is as `expected`. */
bool verbs_is_done(const verb *v, bool expected);

#endif
