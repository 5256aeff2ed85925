/* pq: the state machine that sends one statement, and trusts its answer only when the transaction
 * has ended.
 *
 * A server may say INSERT 0 1 and then fail to commit (R5). So results are collected until the
 * server is ready for the next statement, the first error among them decides (R1), and the reader
 * runs last. */
#include "pq/pq_int.h"

#include <assert.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/name.h"
#include "base/status.h"

#define PQ_READS_MAX         16
#define PQ_ENCRYPTED_READ_MS 1000 /* what arrived between the last two reads of pq_consume() */

static const char pq_relaxed[] = "SELECT pg_catalog.set_config('synchronous_commit', 'off', true)";

/* For a statement on a user's table. */
static const char pq_denied_hint[] =
    "grant the role the missing right on this table; if a policy "
    "(row security) refuses the row, see "
    "the table's policies; for a function of pgwork's grant pgwork_worker";

/* ---- sending ---- */

/* The settings for this transaction only: behind a pooler all settings, and asynchronous commit. */
static void pq_choose_prefixes(pgw *h)
{
    pgw__op *op = &h->op;

    if (h->attached || op->simple) return;
    if (op->ending == PGW__BEGUN && h->pooled) {
        op->prefix[op->prefixes++] = op->text;
        op->text = h->settings;
    } else if (op->ending == PGW__AUTOCOMMIT && op->commits) {
        if (h->pooled) {
            op->prefix[op->prefixes++] = pgw__conn_isolation;
            op->prefix[op->prefixes++] = h->settings;
        }
        if (h->relaxed && (op->flags & PGW__RELAXED) != 0) op->prefix[op->prefixes++] = pq_relaxed;
    }
}

static void pq_statement_name(const pgw *h, char *name, size_t size)
{
    snprintf(name, size, "pgwork_%s_%u", pgw__sql_name((pgw__sql)h->op.sql), h->generation);
}

static bool pq_send_text(pgw *h, const char *text)
{
    return PQsendQueryParams(h->conn, text, 0, NULL, NULL, NULL, NULL, 1) != 0;
}

/* With Sync in the same write, the statements of a pipeline are one transaction. */
static bool pq_send_all(pgw *h)
{
    pgw__op *op = &h->op;
    const pgw__args *a = &op->args;
    char name[80];

    if (op->simple) return PQsendQuery(h->conn, op->text) != 0;
    if (op->piped && PQenterPipelineMode(h->conn) == 0) return false;
    for (int i = 0; i < op->prefixes; i++)
        if (!pq_send_text(h, op->prefix[i])) return false;
    if (op->named) {
        pq_statement_name(h, name, sizeof(name));
        if (PQsendQueryPrepared(h->conn, name, a->count, a->values, a->lengths, a->formats, 1) == 0)
            return false;
    } else if (PQsendQueryParams(h->conn, op->text, a->count, a->types, a->values, a->lengths,
                                 a->formats, 1) == 0) {
        return false;
    }
    return !op->piped || PQpipelineSync(h->conn) != 0;
}

/* Without an answer: may it have been applied, or be applied later? In a transaction of this
 * library the end of the session undoes it. The caller's connection lives on, and the caller's
 * COMMIT would keep it. */
static bool pq_open_outcome(const pgw *h)
{
    const pgw__op *op = &h->op;

    return op->sent && (op->flags & PGW__WRITES) != 0 &&
           (op->commits || (h->attached && PQstatus(h->conn) == CONNECTION_OK));
}

static void pq_settle(pgw *h);

/* libpq could not take the statement: out of memory, or no connection. Which part of it was sent
 * is unknown, so the session ends. */
static void pq_not_sent(pgw *h)
{
    h->op.failed = h->op.dead = true;
    pgw__fault_set(&h->op.fault, PGW_ECONN, "the statement could not be sent", NULL);
    pq_settle(h);
}

static void pq_send(pgw *h)
{
    pgw__op *op = &h->op;

    op->sent = true;
    h->sent_us = pgw__clock_us();
    op->piped = op->prefixes > 0; /* not before: a statement is prepared without */
    h->phase = PGW__RUN;
    h->want = PGW_EVENT_READ | PGW_EVENT_WRITE;
    if (!pq_send_all(h)) {
        pq_not_sent(h);
    } else if (PQflush(h->conn) == 0) {
        h->want = PGW_EVENT_READ;
    }
}

static void pq_prepare(pgw *h)
{
    pgw__op *op = &h->op;
    char name[80];

    pq_statement_name(h, name, sizeof(name));
    h->phase = PGW__PREPARE;
    h->want = PGW_EVENT_READ | PGW_EVENT_WRITE;
    if (PQsendPrepare(h->conn, name, op->text, op->args.count, op->args.types) == 0)
        pgw__conn_failed(h, "the connection was lost while a statement was prepared");
}

static void pq_launch(pgw *h)
{
    pgw__op *op = &h->op;
    PGTransactionStatusType txn = PQtransactionStatus(h->conn);

    pgw__pq_rewind(h);
    if (op->text == NULL) {
        pgw__pq_end(h, PGW_OK);
        return;
    }
    if ((op->flags & PGW__DIRECT) != 0 && h->pooled) {
        pgw__pq_end_with(
            h, PGW_EPOOLED,
            "this call needs its own session, but the connection goes through a pooler",
            "connect directly to the server, or set property `pooler` to session if it pools "
            "sessions");
        return;
    }
    if (txn == PQTRANS_INERROR && op->ending < PGW__COMMITTED) {
        pgw__pq_end_with(h, PGW_ETXN, NULL, NULL);
        return;
    }
    op->commits = txn == PQTRANS_IDLE || op->ending == PGW__COMMITTED;
    pq_choose_prefixes(h);
    op->named = op->sql >= 0 && h->prepare && !h->attached && !h->pooled && !h->unnamed;
    if (op->named && !h->prepared[op->sql]) {
        pq_prepare(h);
    } else {
        pq_send(h);
    }
}

/* The caller's connection is used as it is, or not at all. */
static bool pq_check_attached(pgw *h)
{
    PGTransactionStatusType txn = PQtransactionStatus(h->conn);
    const char *encoding = PQparameterStatus(h->conn, "client_encoding");

    if ((h->op.flags & (PGW__OWNED | PGW__DIRECT)) != 0) {
        pgw__pq_end_with(h, PGW_EMISUSE, "this cannot be done on an attached connection",
                         "use a handle from pgw_open()");
    } else if (PQstatus(h->conn) != CONNECTION_OK || txn == PQTRANS_UNKNOWN) {
        pgw__pq_end_with(h, PGW_ECONN, "the attached connection is lost", NULL);
    } else if (PQpipelineStatus(h->conn) != PQ_PIPELINE_OFF || txn == PQTRANS_ACTIVE) {
        pgw__pq_end_with(h, PGW_EMISUSE, "the attached connection is busy",
                         "read the results of its statement to the end, and leave pipeline mode");
    } else if (txn == PQTRANS_INERROR) {
        pgw__pq_end_with(h, PGW_ETXN, NULL, "send ROLLBACK, then begin again");
    } else if (encoding == NULL || strcmp(encoding, "UTF8") != 0) {
        pgw__pq_end_with(h, PGW_EMISUSE, "the attached connection's client_encoding is not UTF8",
                         "call PQsetClientEncoding(conn, \"UTF8\")");
    } else {
        return true;
    }
    return false;
}

pgw_status pgw__pq_begin_op(pgw *h)
{
    h->status = PGW_OUTCOME_AGAIN;
    if (h->attached) {
        if (pq_check_attached(h)) pq_launch(h);
    } else if (pgw__conn_alive(h)) {
        pq_launch(h);
    } else if (h->in_txn) {
        pgw__conn_drop(h);
        pgw__pq_lost_txn(h);
    } else {
        pgw__conn_start(h);
    }
    return h->status;
}

/* ---- receiving ---- */

static void pq_keep_rows(pgw__op *op, PGresult *res)
{
    PQclear(op->rows);
    op->rows = res;
}

/* Takes the result over. */
static void pq_note(pgw *h, PGresult *res)
{
    pgw__op *op = &h->op;
    bool main = op->parts == op->prefixes;

    /* as a number, because newer libpqs know more results than we ask for */
    switch ((int)PQresultStatus(res)) {
    case PGRES_TUPLES_OK:
        op->answered = op->answered || main;
        if (main) {
            pq_keep_rows(op, res);
            return;
        }
        break;
    case PGRES_COMMAND_OK:
    case PGRES_EMPTY_QUERY:
        op->answered = op->answered || main;
        snprintf(op->tag, sizeof(op->tag), "%s", PQcmdStatus(res));
        break;
    case PGRES_PIPELINE_SYNC: op->synced = true; break;
    case PGRES_PIPELINE_ABORTED: break;
    case PGRES_COPY_IN:
    case PGRES_COPY_OUT:
    case PGRES_COPY_BOTH:
        op->answered = op->copy && PQresultStatus(res) == PGRES_COPY_IN;
        if (op->answered) break;
        op->failed = op->dead = true;
        pgw__fault_set(&op->fault, PGW_EPROTO, "the server began an unexpected COPY", NULL);
        break;
    default:
        if (op->failed) {
            pgw__fault later;

            op->dead = op->dead || pgw__fault_result(&later, res);
        } else {
            op->failed = true;
            op->dead = pgw__fault_result(&op->fault, res);
            if (op->dead && op->fault.sqlstate[0] == '\0' &&
                PQstatus(h->conn) == CONNECTION_OK) { /* libpq reads the rest, and discards it */
                op->dead = false;
                pgw__fault_set(&op->fault, PGW_ENOMEM,
                               "libpq could not store the answer: it is probably out of memory",
                               "request less at a time");
            }
        }
    }
    PQclear(res);
}

static bool pq_is_encrypted(const pgw *h)
{
    return PQsslInUse(h->conn) != 0 || PQgssEncInUse(h->conn) != 0;
}

/* libpq reads once per call, and from an encrypted record only what fits. The rest is not in the
 * socket, so poll() does not report it. So read until the socket is empty, and once more. */
static bool pq_consume(const pgw *h)
{
    struct pollfd p = {.fd = PQsocket(h->conn), .events = POLLIN};
    bool more = pq_is_encrypted(h);

    for (int i = 0; PQconsumeInput(h->conn) != 0; i++) {
        if (!more || i == PQ_READS_MAX) return true;
        more = poll(&p, 1, 0) > 0;
    }
    return false;
}

/* libpq may report a failed write only at the next read (R20), hence no look at PQflush's failure.
 */
static bool pq_receive(pgw *h)
{
    pgw__op *op = &h->op;
    bool more_to_send = PQflush(h->conn) > 0;

    if (!pq_consume(h) && PQstatus(h->conn) == CONNECTION_OK) {
        /* out of memory in libpq: to ask for the result would wait for the socket */
        op->failed = op->dead = true;
        pgw__fault_set(&op->fault, PGW_ECONN, "the answer could not be read", NULL);
        return true;
    }
    while (PQisBusy(h->conn) == 0 || PQstatus(h->conn) != CONNECTION_OK) {
        PGresult *res = PQgetResult(h->conn);

        if (res != NULL) {
            const ExecStatusType kind = PQresultStatus(res);
            /* wanted or not: nothing else arrives until it is ended */
            const bool copy =
                kind == PGRES_COPY_IN || kind == PGRES_COPY_OUT || kind == PGRES_COPY_BOTH;

            pq_note(h, res);
            /* a dead session of the library is discarded; the caller's is read to the end */
            if ((op->dead && !h->attached) || op->synced || copy) return true;
        } else if (!op->piped || op->parts++ > op->prefixes + 1) {
            /* a pipeline ends with its sync, or with the connection; an error of its commit is one
             * answer more */
            if (op->piped) op->failed = op->dead = true;
            return true;
        }
    }
    h->want = more_to_send ? PGW_EVENT_READ | PGW_EVENT_WRITE : PGW_EVENT_READ;
    return false;
}

/* ---- the outcome ---- */

/* A standby is left for the primary. But if a setting of the role or the database is the cause, all
 * hosts are alike. */
static void pq_hint_read_only(pgw *h)
{
    const char *standby = PQparameterStatus(h->conn, "in_hot_standby");
    const char *hint = NULL;

    if (h->attached) /* not `dsn` of the library */
        hint =
            "the transaction is READ ONLY, or the server is: begin it READ WRITE, on the primary";
    else if (standby != NULL && strcmp(standby, "off") == 0)
        hint =
            "the server is not a standby: default_transaction_read_only is on, for the role, the "
            "database or the server: ALTER ROLE or DATABASE ... RESET "
            "default_transaction_read_only";
    if (hint != NULL) pgw__text_copy(h->op.fault.hint, sizeof(h->op.fault.hint), hint);
}

static pgw_status pq_ended_badly(pgw *h)
{
    pgw__op *op = &h->op;
    pgw_status st;

    if (op->fault.sqlstate[0] == '\0' && h->notice[0] != '\0') {
        /* R2: a crash announces itself as a warning only */
        memcpy(op->fault.sqlstate, h->notice, sizeof(h->notice));
        snprintf(op->fault.hint, sizeof(op->fault.hint), "%s", pgw__status_hint(h->notice));
    }
    if (op->dead) {
        st = op->fault.status == PGW_EPROTO ? PGW_EPROTO : PGW_ECONN;
        if (pq_open_outcome(h)) st = PGW_EUNKNOWN;
    } else if (op->fault.status == PGW_ERETRY) {
        st = PGW_ERETRY;
    } else if (op->fault.status == PGW_ENOMEM) {
        st = pq_open_outcome(h) ? PGW_EUNKNOWN : PGW_ENOMEM;
    } else {
        st = pgw__status_in_session(op->fault.sqlstate, op->commits && op->sent,
                                    (op->flags & PGW__WRITES) != 0);
        if (st == PGW_ECANCELED && op->halting != PGW_OK) st = op->halting;
        if (st == PGW_ETIMEDOUT) { /* the library cancelled it */
            snprintf(op->fault.message, sizeof(op->fault.message),
                     "cancelled at the deadline (SQLSTATE %s)", op->fault.sqlstate);
            snprintf(op->fault.hint, sizeof(op->fault.hint), "%s", PGW__STATUS_TOO_LATE);
        }
        if (op->altered != NULL && strcmp(op->fault.sqlstate, "42501") == 0)
            snprintf(op->fault.hint, sizeof(op->fault.hint), "%s", pq_denied_hint);
        if (op->altered != NULL &&
            (st == PGW_ESCHEMA ||
             (st == PGW_EDB && strncmp(op->fault.sqlstate, "42", 2) == 0))) /* not our SQL */
            snprintf(op->fault.hint, sizeof(op->fault.hint), "%s", op->altered);
        if (strcmp(op->fault.sqlstate, "25006") == 0) pq_hint_read_only(h);
    }
    if (op->ending == PGW__COMMITTED && (op->dead || PQtransactionStatus(h->conn) == PQTRANS_IDLE))
        h->in_txn = false;
    return st;
}

static pgw_status pq_ended_well(pgw *h)
{
    pgw__op *op = &h->op;
    PGTransactionStatusType txn = PQtransactionStatus(h->conn);
    bool open = txn == PQTRANS_INTRANS;

    if ((txn != PQTRANS_IDLE && txn != PQTRANS_INTRANS) ||
        open != (op->ending == PGW__BEGUN || (op->ending == PGW__AUTOCOMMIT && !op->commits))) {
        op->dead = true;
        return pgw__fault_set(&op->fault, PGW_EPROTO,
                              "the statement changed the state of the transaction", NULL);
    }
    if (!op->answered) {
        op->dead = true;
        return pgw__fault_set(&op->fault, pq_open_outcome(h) ? PGW_EUNKNOWN : PGW_EPROTO,
                              "the server gave no answer", NULL);
    }
    if (op->ending != PGW__AUTOCOMMIT) h->in_txn = open;
    if (op->ending == PGW__COMMITTED && strcmp(op->tag, "COMMIT") != 0)
        return pgw__fault_set(&op->fault, PGW_ETXN,
                              "the transaction had failed earlier and was rolled back", NULL);
    if (op->unconfirmed)
        return pgw__fault_set(&op->fault, PGW_EUNKNOWN,
                              "committed, but no synchronous standby has confirmed it: a failover "
                              "may undo it",
                              PGW__STATUS_UNCONFIRMED);
    /* warnings on the caller's connection are not seen here */
    if (h->attached && op->commits && op->halting != PGW_OK && (op->flags & PGW__WRITES) != 0)
        return pgw__fault_set(&op->fault, PGW_EUNKNOWN,
                              "committed although it was cancelled: perhaps no synchronous standby "
                              "has confirmed it",
                              PGW__STATUS_UNCONFIRMED);
    return op->read != NULL ? pgw__pq_read(h, op->read, op->ctx) : PGW_OK;
}

/* A plan or a name is stale (R23). The error comes before any effect, so the statement may be sent
 * once more. Inside a transaction it may not, because the error has ended the transaction; the
 * next one prepares again. */
static bool pq_try_again(pgw *h)
{
    pgw__op *op = &h->op;
    const char *sqlstate = op->fault.sqlstate;

    if (!op->named || !op->failed || op->dead || op->retried) return false;
    if (strcmp(sqlstate, "42P05") == 0) {
        h->unnamed = true;
    } else if (strcmp(sqlstate, "26000") != 0 && strcmp(sqlstate, "0A000") != 0) {
        return false;
    }
    PGW__LOG(h->log, PGW_LOG_INFO, "pq", "%s: will be prepared again after %s", op->name, sqlstate);
    h->generation++;
    memset(h->prepared, 0, sizeof(h->prepared));
    if (!op->commits || op->halting != PGW_OK) return false;
    op->retried = true;
    pq_launch(h);
    return true;
}

static void pq_settle(pgw *h)
{
    pgw__op *op = &h->op;
    bool lost, doubtful;
    pgw_status st;

    if (op->piped && !op->dead && PQexitPipelineMode(h->conn) == 0) op->failed = op->dead = true;
    if (pq_try_again(h)) return;
    if (op->copy && !op->failed) {
        pgw__pq_end(h, PGW_OK);
        h->phase = PGW__COPY;
        return;
    }
    st = op->failed ? pq_ended_badly(h) : pq_ended_well(h);
    /* a read-only server is the wrong one, the next session may find the primary; a transaction
     * that the library did not begin must not stay; a pooler, or a busy server, may deliver a
     * cancel late, to the next statement */
    doubtful = strcmp(op->fault.sqlstate, "25006") == 0 || op->adrift ||
               (h->pooled && op->halting != PGW_OK) ||
               (!op->dead && !h->in_txn && PQtransactionStatus(h->conn) != PQTRANS_IDLE);
    lost = op->dead || (doubtful && !h->attached);
    if (lost && !h->attached) pgw__conn_drop(h);
    pgw__pq_end(h, st);
}

static void pq_prepared(pgw *h)
{
    pgw__op *op = &h->op;

    if (op->dead) {
        pgw__conn_failed(h, "the connection was lost while a statement was prepared");
    } else if (op->failed) {
        pq_settle(h);
    } else {
        h->prepared[op->sql] = true;
        if (op->halting == PGW_OK) {
            pq_launch(h);
        } else { /* the session is idle and stays, unless a cancel may still arrive */
            if (op->adrift) pgw__conn_drop(h);
            pgw__pq_end_with(h, op->halting, NULL, NULL);
        }
    }
}

/* ---- time ---- */

/* A cancel that arrives before its statement stops nothing, so another one follows. If a cancel
 * cannot be delivered, it is not repeated: the attempt blocks until it is delivered, or half of
 * the grace has passed. */
static void pq_cancel(pgw *h)
{
    bool taken = pgw__cancel(h->conn, pgw__deadline_left_ms(h->op.grace) / 2, &h->op.adrift);

    h->op.cancel_at = pgw__deadline_in(taken ? PGW__CANCEL_MS : -1);
}

/* The deadline passed, or a stop was requested, before the session was set up. */
static void pq_give_up(pgw *h, pgw_status reason)
{
    if (reason == PGW_ETIMEDOUT && h->phase != PGW__PAUSE) pgw__conn_next_host(h);
    if (h->phase != PGW__PAUSE) pgw__conn_drop(h);
    if (reason == PGW_ETIMEDOUT) {
        /* the last failed attempt says more than the clock */
        if (h->op.fault.status != PGW_ECONN)
            pgw__fault_set(&h->op.fault, PGW_ECONN,
                           "no connection to the server within the deadline", NULL);
        pgw__pq_end(h, PGW_ECONN);
    } else {
        pgw__pq_end_with(h, reason, NULL, NULL);
    }
}

/* No answer even to the cancel. */
static void pq_abandon_answer(pgw *h)
{
    pgw__op *op = &h->op;
    pgw_status st = pq_open_outcome(h) ? PGW_EUNKNOWN : op->halting;

    if (op->ending == PGW__COMMITTED) h->in_txn = false;
    if (!h->attached) pgw__conn_drop(h);
    pgw__pq_end_with(
        h, st,
        st == PGW_EUNKNOWN ? "no answer within the deadline: the call may have been applied" : NULL,
        h->attached ? "the connection is still busy: read its results to the end, or close it"
                    : NULL);
}

/* Whether the session is alive and runs our statement. The session may hold locks, so the statement
 * is cancelled, and the session is ended only if it does not answer. */
static bool pq_at_work(const pgw *h)
{
    return h->phase == PGW__PREPARE || h->phase == PGW__RUN;
}

int64_t pgw__pq_until(const pgw *h)
{
    int64_t until = h->op.deadline;

    if (h->phase == PGW__IDLE || h->phase == PGW__COPY) return -1;
    if (pq_at_work(h) && h->op.halting != PGW_OK)
        until = pgw__deadline_min(h->op.grace, h->op.cancel_at);
    if (h->phase == PGW__PAUSE || h->phase == PGW__CONNECT || h->phase == PGW__SETUP)
        until = pgw__deadline_min(until, h->wake);
    if (pq_is_encrypted(h))
        until = pgw__deadline_min(until, pgw__deadline_in(PQ_ENCRYPTED_READ_MS));
    return until;
}

/* Nothing has arrived. False: wait on. */
static bool pq_check_clock(pgw *h)
{
    pgw__op *op = &h->op;
    pgw_status reason = PGW_OK;

    if (pgw__deadline_left_ms(op->deadline) == 0) {
        reason = PGW_ETIMEDOUT;
    } else if (pgw_stop_count(h->stop) >= (h->heeded || (pq_at_work(h) && !op->waits) ? 2 : 1)) {
        reason = PGW_ECANCELED;
    }
    if (pq_at_work(h)) {
        if (op->halting != PGW_OK) {
            if (pgw__deadline_left_ms(op->grace) == 0)
                pq_abandon_answer(h);
            else if (pgw__deadline_left_ms(op->cancel_at) == 0)
                pq_cancel(h);
            else
                return false;
        } else if (reason != PGW_OK) {
            op->halting = reason;
            op->grace = pgw__deadline_in(h->grace_ms);
            pq_cancel(h);
        } else {
            return false;
        }
    } else if (reason != PGW_OK) {
        pq_give_up(h, reason);
    } else if ((h->phase == PGW__CONNECT || h->phase == PGW__SETUP) &&
               pgw__deadline_left_ms(h->wake) == 0) {
        pgw__conn_timed_out(h);
    } else {
        return false;
    }
    return true;
}

/* ---- the machine ---- */

/* One step; false: wait. */
static bool pq_step(pgw *h)
{
    switch (h->phase) {
    case PGW__PAUSE:
        if (pgw__deadline_left_ms(h->wake) > 0) return false;
        pgw__conn_start(h);
        return true;
    case PGW__CONNECT: return pgw__conn_poll(h);
    case PGW__CONNECTED: pq_launch(h); return true;
    case PGW__SETUP:
        if (!pq_receive(h)) return false;
        pgw__conn_settled(h);
        return true;
    case PGW__PREPARE:
        if (!pq_receive(h)) return false;
        pq_prepared(h);
        return true;
    case PGW__RUN:
        if (!pq_receive(h)) return false;
        pq_settle(h);
        return true;
    case PGW__IDLE:
    case PGW__COPY: break;
    }
    return false;
}

void pgw__pq_advance(pgw *h)
{
    while (h->phase != PGW__IDLE && h->phase != PGW__COPY)
        if (!pq_step(h) && !pq_check_clock(h)) return;
}

void pgw__pq_poll(pgw *h, int64_t until)
{
    struct pollfd p[2];
    nfds_t n = 0;
    int64_t left = pgw__deadline_left_ms(until);
    int stops = pgw_stop_count(h->stop);

    if (h->phase != PGW__PAUSE && h->conn != NULL) {
        p[n].fd = PQsocket(h->conn);
        p[n++].events = (short)(((h->want & PGW_EVENT_READ) != 0 ? POLLIN : 0) |
                                ((h->want & PGW_EVENT_WRITE) != 0 ? POLLOUT : 0));
    }
    if (h->stop != NULL && stops == 0) {
        p[n].fd = pgw_stop_fd(h->stop);
        p[n++].events = POLLIN;
    } else if (stops == 1 && (left < 0 || left > PGW__STOP_CHECK_MS)) {
        left = PGW__STOP_CHECK_MS; /* its descriptor stays readable, the second request has to be
                                     looked for */
    }
    (void)poll(p, n,
               left > INT_MAX ? INT_MAX
                              : (int)left); /* interrupted or failed: the caller checks again */
}

pgw_status pgw__pq_finish(pgw *h)
{
    for (pgw__pq_advance(h); h->phase != PGW__IDLE && h->phase != PGW__COPY; pgw__pq_advance(h))
        pgw__pq_poll(h, pgw__pq_until(h));
    return h->status;
}

pgw_status pgw__pq_run(pgw *h)
{
    return pgw__pq_begin_op(h) == PGW_OUTCOME_AGAIN ? pgw__pq_finish(h) : h->status;
}

/* ---- functions for other modules ---- */

static pgw_status pq_fill(pgw *h, const pgw__call *call)
{
    pgw__op *op = &h->op;
    pgw_status st;
    char text[128];

    if (call == NULL) return PGW_OK;
    assert(call->ctx_size <= sizeof(op->ctx));
    if (call->ctx_size > 0) memcpy(op->ctx, call->ctx, call->ctx_size);
    op->read = call->read;
    op->flags = call->flags;
    op->altered = call->altered;
    op->waits = call->wait_ms > 0;
    if (call->timeout_ms != 0) op->deadline = pgw__deadline_in(call->timeout_ms);
    if (op->waits && op->deadline >= 0 && op->deadline <= INT64_MAX - call->wait_ms)
        op->deadline += call->wait_ms;
    st = pgw__args_encode(&op->args, call->params);
    if (st == PGW_OK) return st;
    snprintf(text, sizeof(text), "parameter %d %s", op->args.at + 1,
             st == PGW_EINVAL ? "is out of range for its type" : "is too large");
    return pgw__fault_set(&op->fault, st, st == PGW_ENOMEM ? NULL : text, NULL);
}

static pgw_status pq_submit(pgw *h, const char *name, int sql, const char *text,
                            const pgw__call *call)
{
    pgw__op *op = &h->op;
    pgw_status st = pgw__pq_enter_or_disarm(h);

    if (st != PGW_OK) return st;
    pgw__pq_reset(h, name);
    st = pq_fill(h, call);
    if (st == PGW_OK) {
        op->sql = sql;
        if (sql >= 0) {
            op->text = pgw__pq_statement(h, (pgw__sql)sql);
        } else if (op->done != NULL) {
            op->text = op->owned_text = pgw__mem_dup(text);
        } else {
            op->text = text;
        }
        op->simple = text != NULL && op->args.count == 0 && op->read == NULL;
        if (op->text == NULL) st = PGW_ENOMEM;
    }
    if (st != PGW_OK) {
        pgw__pq_end(h, st);
    } else {
        st = op->done != NULL ? pgw__pq_begin_op(h) : pgw__pq_run(h);
    }
    return pgw__pq_leave(h, st);
}

pgw_status pgw__pq_call(pgw *h, const pgw__call *call)
{
    return pq_submit(h, pgw__sql_name(call->sql), (int)call->sql, NULL, call);
}

pgw_status pgw__pq_text(pgw *h, const char *name, const char *sql, const pgw__call *call)
{
    return pq_submit(h, name, -1, sql, call);
}
