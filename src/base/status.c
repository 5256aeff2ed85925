/* status: names of the codes, and the one table from SQLSTATE to code and hint. */
#include "base/status.h"

#include <string.h>

const char *pgw_status_name(pgw_status st)
{
    switch (st) {
#define STATUS_NAME(name, number, text) \
    case PGW_##name: return "PGW_" #name;
        PGW_STATUS_MAP(STATUS_NAME)
#undef STATUS_NAME
    }
    return "PGW_?";
}

const char *pgw_status_text(pgw_status st)
{
    switch (st) {
#define STATUS_TEXT(name, number, text) \
    case PGW_##name: return text;
        PGW_STATUS_MAP(STATUS_TEXT)
#undef STATUS_TEXT
    }
    return "unknown status";
}

bool pgw_is_retriable(pgw_status st)
{
    return st == PGW_ECONN || st == PGW_ETIMEDOUT || st == PGW_ERETRY || st == PGW_ELOCKED;
}

bool pgw_is_lost(pgw_status st)
{
    return st == PGW_ELEASE || st == PGW_ECONN;
}

bool pgw_is_unknown(pgw_status st)
{
    return st == PGW_EUNKNOWN;
}

bool pgw_is_bug(pgw_status st)
{
    return st == PGW_EINVAL || st == PGW_EMISUSE || st == PGW_ESCHEMA || st == PGW_EPROTO;
}

#define STATUS_GRANT                                                                          \
    "grant the user pgwork_producer (to enqueue), pgwork_worker (to claim and finish) or "    \
    "pgwork_operator (to inspect and to administer); `pgwork doctor` reports if these roles " \
    "lack a right"
#define STATUS_MIGRATE                                                                     \
    "run `pgwork migrate` on this database (with --schema, if the schema is not pgwork); " \
    "`pgwork doctor` compares the versions"
#define STATUS_LOGIN "check user, password and the server's pg_hba.conf"
#define STATUS_POOLER                                                                              \
    "a pooler changes sessions between transactions: set property `prepare` to never, or connect " \
    "to the server itself"
#define STATUS_DISK \
    "the server is out of disk space: free some, then check retention and dead letters"

/* A code of fewer than five characters stands for all codes that begin with it; the longest match
 * wins. `in_flight` is the status if the commit of a write was in progress. An ERROR from the
 * server always means rolled back, even 57014: a cancelled wait for a standby succeeds with a
 * warning (pgw__status_is_unconfirmed). Only the end of the session, or of its disk, leaves the
 * outcome open. */
static const struct status_row {
    char code[6];
    pgw_status status, in_flight;
    const char *hint;
} status_rows[] = {
    /* the session is over */
    {"08", PGW_ECONN, PGW_EUNKNOWN, ""},
    {"08P01", PGW_ECONN, PGW_EUNKNOWN,
     "often a pooler that cannot reach its server, or that is full: see its log"},
    {"25P03", PGW_ECONN, PGW_EUNKNOWN,
     "the transaction was idle for too long: see idle_in_transaction_session_timeout"},
    {"25P04", PGW_ECONN, PGW_EUNKNOWN, "the transaction took too long: see transaction_timeout"},
    {"57P", PGW_ECONN, PGW_EUNKNOWN, ""},
    {"57P01", PGW_ECONN, PGW_EUNKNOWN,
     "an administrator ended the session, or is stopping the server"},
    {"57P02", PGW_ECONN, PGW_EUNKNOWN, "the server crashed and is recovering: see its log"},
    {"57P03", PGW_ECONN, PGW_EUNKNOWN,
     "the server is starting, stopping or recovering: wait, or name the primary in `dsn`"},
    {"57P05", PGW_ECONN, PGW_EUNKNOWN,
     "the session was idle for too long: see idle_session_timeout"},
    {"40003", PGW_ECONN, PGW_EUNKNOWN, ""},

    /* nothing was applied, and it may go well the next time */
    {"40", PGW_ERETRY, PGW_ERETRY, ""},
    {"40002", PGW_EDB, PGW_EDB, ""},
    {"72", PGW_ERETRY, PGW_ERETRY, ""},
    {"53", PGW_ERETRY, PGW_ERETRY, "the server is short of resources: see its log"},
    {"53100", PGW_ERETRY, PGW_ERETRY, STATUS_DISK},
    {"53200", PGW_ERETRY, PGW_ERETRY,
     "the server is out of memory, or of shared lock space: see max_locks_per_transaction"},
    {"53300", PGW_ECONN, PGW_ECONN,
     "too many connections: use a pooler, fewer workers, or raise max_connections or the role's "
     "limit"},
    {"58030", PGW_ERETRY, PGW_EUNKNOWN, "the server cannot read or write its files: see its log"},
    {"55P03", PGW_ELOCKED, PGW_ELOCKED,
     "another session holds the lock: see pg_locks, or try again"},

    /* asked for */
    {"57014", PGW_ECANCELED, PGW_ECANCELED,
     "cancelled by request, or by the role's statement_timeout"},

    /* the caller's transaction */
    {"25P02", PGW_ETXN, PGW_ETXN, "send ROLLBACK, then begin again"},

    /* the input is refused: a fault of the item, not of the server */
    {"22", PGW_EINVAL, PGW_EINVAL, ""},
    {"54", PGW_ELIMIT, PGW_ELIMIT, ""},
    {"23505", PGW_EEXISTS, PGW_EEXISTS, ""},

    /* set up wrongly: no retry helps */
    {"25006", PGW_EPERM, PGW_EPERM,
     "the server is a standby or read-only: put target_session_attrs=read-write into `dsn`"},
    {"28", PGW_EPERM, PGW_EPERM, STATUS_LOGIN},
    {"28P01", PGW_EPERM, PGW_EPERM, STATUS_LOGIN " (the password was refused)"},
    {"42501", PGW_EPERM, PGW_EPERM, STATUS_GRANT},
    {"3D000", PGW_ESCHEMA, PGW_ESCHEMA,
     "there is no such database: check dbname in `dsn`, or create it and run `pgwork migrate`"},
    {"3F000", PGW_ESCHEMA, PGW_ESCHEMA, STATUS_MIGRATE},
    {"42703", PGW_ESCHEMA, PGW_ESCHEMA, STATUS_MIGRATE},
    {"42704", PGW_ESCHEMA, PGW_ESCHEMA, STATUS_MIGRATE},
    {"42725", PGW_ESCHEMA, PGW_ESCHEMA, STATUS_MIGRATE},
    {"42883", PGW_ESCHEMA, PGW_ESCHEMA, STATUS_MIGRATE},
    {"42P01", PGW_ESCHEMA, PGW_ESCHEMA, STATUS_MIGRATE},
    {"26000", PGW_EPOOLED, PGW_EPOOLED, STATUS_POOLER},
    {"42P05", PGW_EPOOLED, PGW_EPOOLED, STATUS_POOLER},

    /* raised by functions of the schema, which add their own hints */
    {"PW001", PGW_EINVAL, PGW_EINVAL, ""},
    {"PW002", PGW_ELIMIT, PGW_ELIMIT, ""},
    {"PW003", PGW_ENOTFOUND, PGW_ENOTFOUND, ""},
    {"PW004", PGW_EPAUSED, PGW_EPAUSED, ""},
    {"PW005", PGW_EEXISTS, PGW_EEXISTS, ""},
    {"PW006", PGW_ELOCKED, PGW_ELOCKED, ""},
    {"PW007", PGW_ESCHEMA, PGW_ESCHEMA, STATUS_MIGRATE},
    {"PW009", PGW_ECONFLICT, PGW_ECONFLICT, ""},

    /* advice without a code of its own */
    {"58P01", PGW_EDB, PGW_EDB, "a file of the server is missing: see its log"},
    {"XX001", PGW_EDB, PGW_EDB,
     "the server's data is damaged: stop it, then restore from a backup"},
    {"XX002", PGW_EDB, PGW_EDB, "an index is damaged: REINDEX it, and find the cause"},
};

static const struct status_row *status_find(const char *sqlstate)
{
    const struct status_row *best = NULL;
    size_t best_size = 0;

    for (size_t i = 0; i < sizeof(status_rows) / sizeof(status_rows[0]); i++) {
        size_t size = strlen(status_rows[i].code);

        if (size > best_size && strncmp(status_rows[i].code, sqlstate, size) == 0)
            best = &status_rows[i], best_size = size;
    }
    return best;
}

pgw_status pgw__status_from_sqlstate(const char *sqlstate, bool commit_in_flight, bool writes)
{
    const struct status_row *row;

    if (sqlstate == NULL || sqlstate[0] == '\0')
        return commit_in_flight && writes ? PGW_EUNKNOWN : PGW_ECONN;
    row = status_find(sqlstate);
    if (row == NULL) return PGW_EDB;
    return commit_in_flight && writes ? row->in_flight : row->status;
}

pgw_status pgw__status_in_session(const char *sqlstate, bool commit_in_flight, bool writes)
{
    const bool lost = pgw__status_from_sqlstate(sqlstate, false, false) == PGW_ECONN;

    if (lost && strcmp(sqlstate, "40003") != 0) return PGW_EDB;
    return pgw__status_from_sqlstate(sqlstate, commit_in_flight, writes);
}

pgw_status pgw__status_in_loop(pgw_status st, const char *sqlstate, bool inside)
{
    if (st == PGW_EPERM && strcmp(sqlstate, "25006") == 0) return PGW_ECONN;
    if (inside && (st == PGW_EPERM || st == PGW_ESCHEMA)) return PGW_EDB;
    if (st == PGW_EINVAL && strncmp(sqlstate, "22", 2) == 0) return PGW_EDB;
    return st == PGW_EEXISTS || st == PGW_EPAUSED || st == PGW_ECONFLICT ? PGW_EDB : st;
}

bool pgw__status_is_hopeless(pgw_status st)
{
    return st == PGW_ESCHEMA || st == PGW_EPERM || st == PGW_EINVAL || st == PGW_ENOMEM ||
           st == PGW_EMISUSE || st == PGW_EPROTO;
}

bool pgw__status_is_wraparound(const char *sqlstate, const char *function)
{
    return strcmp(sqlstate, "54000") == 0 && (strcmp(function, "GetNewTransactionId") == 0 ||
                                              strcmp(function, "GetNewMultiXactId") == 0);
}

bool pgw__status_is_unconfirmed(const char *sqlstate, const char *function)
{
    return strcmp(sqlstate, "01000") == 0 && function != NULL &&
           strcmp(function, "SyncRepWaitForLSN") == 0;
}

const char *pgw__status_hint(const char *sqlstate)
{
    const struct status_row *row = sqlstate != NULL ? status_find(sqlstate) : NULL;

    return row != NULL ? row->hint : "";
}

/* ---- words for the states of jobs ---- */

static const char *const status_states[] = {
    [PGW_STATE_ANY] = "all",         [PGW_STATE_READY] = "ready",
    [PGW_STATE_DELAYED] = "delayed", [PGW_STATE_GATED] = "gated",
    [PGW_STATE_LEASED] = "leased",   [PGW_STATE_DONE] = "done",
    [PGW_STATE_DEAD] = "dead",       [PGW_STATE_CANCELLED] = "cancelled"};
#define STATUS_STATES (sizeof(status_states) / sizeof(status_states[0]))

const char *pgw_state_name(pgw_state state)
{
    return (size_t)state < STATUS_STATES ? status_states[state] : NULL;
}

pgw_status pgw_state_parse(const char *text, pgw_state *state)
{
    for (size_t i = 0; text != NULL && state != NULL && i < STATUS_STATES; i++) {
        if (strcmp(text, status_states[i]) != 0) continue;
        *state = (pgw_state)i;
        return PGW_OK;
    }
    return PGW_EINVAL;
}
