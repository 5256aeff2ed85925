/* status: what the codes are called, and the one table from SQLSTATE to code and advice. */
#ifndef PGW_STATUS_H
#define PGW_STATUS_H

#include <stdbool.h>

#include "pgwork.h"

/* What an error of the server means to the caller. NULL or "" is a connection that died without a
 * word. commit_in_flight: the answer that failed was that of a COMMIT, or of a statement that
 * commits by itself; together with writes it makes a lost answer PGW_EUNKNOWN. Severity is not
 * looked at: FATAL and PANIC are the end of the session whatever the code says, and pq knows. */
pgw_status pgw__status_from_sqlstate(const char *sqlstate, bool commit_in_flight, bool writes);

/* The same of an error that the session has survived: one that tells of a lost session means
 * another, of a trigger that asks another server for example, and the statement is rolled back. */
pgw_status pgw__status_in_session(const char *sqlstate, bool commit_in_flight, bool writes);

/* The same to a loop that goes on for ever: a server that is read-only just now may have been the
 * primary a moment ago, and the next session finds the new one, so that it counts as PGW_ECONN; and
 * what no verb of a loop says by itself, that a key is taken or a number is divided by 0, is said
 * by somebody's trigger: PGW_EDB. So is that a table or a right is missing, if that was met inside
 * of a function: this one is there, and the role may call it. */
pgw_status pgw__status_in_loop(pgw_status st, const char *sqlstate, bool inside);

/* No repetition will cure it: such a loop ends. */
bool pgw__status_is_hopeless(pgw_status st);

/* The server has no number left for a transaction, or for one of many lockers, until somebody
 * vacuums. It says 54000, as of an item that is too large: only who raised it tells that this will
 * pass. */
bool pgw__status_is_wraparound(const char *sqlstate, const char *function);
#define PGW__STATUS_WRAPAROUND                                                                \
    "the server is out of transaction numbers: VACUUM that database as a superuser; `pgwork " \
    "doctor` names what holds vacuum back"

/* A warning beside success: committed here, but the wait for a synchronous standby was cancelled,
 * so that a failover may undo it. NULL: the server does not tell its functions. */
bool pgw__status_is_unconfirmed(const char *sqlstate, const char *function);
#define PGW__STATUS_UNCONFIRMED                                                                \
    "see pg_stat_replication and synchronous_standby_names; finishing verbs may be repeated, " \
    "and an enqueue with an operation id"

#define PGW__STATUS_TOO_LATE \
    "see in pg_stat_activity and pg_locks what it waits for; `call.timeout_ms` allows more time"

/* What to do next, in one sentence for an operator; "" when there is no general advice. */
const char *pgw__status_hint(const char *sqlstate);

#endif
