/* status: names of the codes, and the one table from SQLSTATE to code and hint. */
#ifndef PGW_STATUS_H
#define PGW_STATUS_H

#include <stdbool.h>

#include "pgwork.h"

/* What an error of the server means to the caller. NULL or "" is a connection that ended without
 * an error. commit_in_flight: the failed answer was that of a COMMIT, or of a statement that
 * commits by itself. With writes, a lost answer is then PGW_EUNKNOWN. Severity is ignored: FATAL
 * and PANIC end the session whatever the code is, and pq handles that. */
pgw_status pgw__status_from_sqlstate(const char *sqlstate, bool commit_in_flight, bool writes);

/* The same for an error that the session survived. A code of a lost session then means another
 * session, for example of a trigger that calls another server, and the statement is rolled back.
 */
pgw_status pgw__status_in_session(const char *sqlstate, bool commit_in_flight, bool writes);

/* The same for an endless loop. A read-only server may have been the primary a moment ago, and the
 * next session finds the new one: PGW_ECONN. Errors that no verb of a loop causes, such as a
 * unique violation or a division by 0, come from a trigger: PGW_EDB. So does a missing table or
 * right that was met inside a function, because the function exists and the role may call it. */
pgw_status pgw__status_in_loop(pgw_status st, const char *sqlstate, bool inside);

/* Whether no retry can help, so that the loop must end. */
bool pgw__status_is_hopeless(pgw_status st);

/* The server has no transaction ids or multixact ids left until a vacuum. It reports 54000, as for
 * a value that is too large. Only the function that raised the error shows that it will pass. */
bool pgw__status_is_wraparound(const char *sqlstate, const char *function);
#define PGW__STATUS_WRAPAROUND                                                                \
    "the server is out of transaction numbers: VACUUM that database as a superuser; `pgwork " \
    "doctor` names what holds vacuum back"

/* A warning with success: committed here, but the wait for a synchronous standby was cancelled, so
 * a failover may undo it. NULL: the server does not name its functions. */
bool pgw__status_is_unconfirmed(const char *sqlstate, const char *function);
#define PGW__STATUS_UNCONFIRMED                                                                \
    "see pg_stat_replication and synchronous_standby_names; finishing verbs may be repeated, " \
    "and an enqueue with an operation id"

#define PGW__STATUS_TOO_LATE \
    "see in pg_stat_activity and pg_locks what it waits for; `call.timeout_ms` allows more time"

/* What to do next, in one sentence for an operator; "" if there is no general hint. */
const char *pgw__status_hint(const char *sqlstate);

#endif
