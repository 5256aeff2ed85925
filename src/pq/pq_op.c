/* pq_op: an operation from its beginning to its end. The machine (pq.c) and the session
 * (pq_conn.c) do the work between. */
#include "pq/pq_int.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

static const char pq_unknown_hint[] =
    "it is safe to repeat a call that passes a token, or an enqueue with an "
    "operation id; check the result of other calls first";

/* ---- checks before a call ---- */

static pgw_status pq_enter(pgw *h, bool disarms)
{
    if (h->pid != getpid()) {
        if (disarms) h->armed = NULL;
        return pgw__pq_fail(
            h, PGW_EMISUSE, "the handle belongs to another process",
            "after fork() the child must call pgw_abandon() and open its own handle");
    }
#ifndef NDEBUG
    if (atomic_flag_test_and_set(&h->in_use))
        return PGW_EMISUSE; /* all of the handle is the other call's, which may be in a thread */
#endif
    if (h->phase == PGW__IDLE && !h->alone) return PGW_OK;
    if (disarms) h->armed = NULL;
    return pgw__pq_leave(h, pgw__pq_fail(h, PGW_EMISUSE,
                                         h->alone || h->phase == PGW__COPY
                                             ? "a load is in progress on this handle"
                                             : "a call is in progress on this handle",
                                         "call one verb at a time on a handle"));
}

pgw_status pgw__pq_enter(pgw *h)
{
    return pq_enter(h, false);
}

pgw_status pgw__pq_enter_or_disarm(pgw *h)
{
    return pq_enter(h, true);
}

pgw_status pgw__pq_leave(pgw *h, pgw_status st)
{
#ifndef NDEBUG
    atomic_flag_clear(&h->in_use);
#else
    (void)h;
#endif
    return st;
}

/* ---- the operation ---- */

void pgw__pq_rewind(pgw *h)
{
    pgw__op *op = &h->op;

    PQclear(op->rows);
    op->rows = NULL;
    op->parts = op->prefixes = 0;
    op->piped = op->synced = op->sent = op->answered = op->dead = op->failed = op->named =
        op->unconfirmed = false;
    op->tag[0] = '\0';
    h->notice[0] = '\0';
    pgw__fault_clear(&op->fault);
}

int64_t pgw__pq_call_ms(const pgw *h)
{
    return h->timeout_ms != 0 ? h->timeout_ms : h->call_timeout_ms;
}

void pgw__pq_reset(pgw *h, const char *name)
{
    pgw__op *op = &h->op;

    pgw__fault_clear(&h->fault);
    snprintf(op->name, sizeof(op->name), "%s", name);
    memcpy(h->statement, op->name, sizeof(h->statement));
    pgw__pq_rewind(h);
    pgw__mem_free(op->owned_text);
    op->text = op->owned_text = NULL;
    op->sql = -1;
    op->simple = op->copy = op->waits = op->once = op->retried = op->commits = false;
    op->ending = PGW__AUTOCOMMIT;
    op->flags = 0;
    op->altered = NULL;
    op->read = NULL;
    op->halting = PGW_OK;
    op->adrift = false;
    op->deadline = pgw__deadline_in(pgw__pq_call_ms(h));
    op->done = h->armed;
    op->done_arg = h->armed_arg;
    h->armed = NULL;
    pgw__args_reset(&op->args);
}

void pgw__pq_end(pgw *h, pgw_status st)
{
    pgw__op *op = &h->op;
    /* "not available yet" is the usual answer to a wait for a lock or a permit; the reason for no
     * connection was logged */
    const bool news = st < 0 && st != PGW_ELOCKED && !h->owned && h->phase != PGW__PAUSE &&
                      h->phase != PGW__CONNECT && h->phase != PGW__SETUP &&
                      h->phase != PGW__CONNECTED;

    h->fault = op->fault;
    memcpy(h->statement, op->name, sizeof(h->statement)); /* others may be refused since */
    if (st < 0 && h->fault.message[0] == '\0')
        snprintf(h->fault.message, sizeof(h->fault.message), "%s", pgw_status_text(st));
    if (st == PGW_EUNKNOWN && h->fault.hint[0] == '\0')
        snprintf(h->fault.hint, sizeof(h->fault.hint), "%s", pq_unknown_hint);
    h->status = h->fault.status = st;
    h->phase = PGW__IDLE;
    h->want = 0;
    PQclear(op->rows);
    op->rows = NULL;
    pgw__args_reset(&op->args);
    PGW__LOG(h->log, news ? PGW_LOG_WARN : PGW_LOG_DEBUG, "pq", "%s: %s%s%s", h->statement,
             pgw_status_name(st), h->fault.sqlstate[0] != '\0' ? " " : "", h->fault.sqlstate);
}

void pgw__pq_end_with(pgw *h, pgw_status st, const char *message, const char *hint)
{
    pgw__pq_end(h, pgw__fault_set(&h->op.fault, st, message, hint));
}

void pgw__pq_lost_txn(pgw *h)
{
    pgw__pq_end_with(h, PGW_ECONN, "the transaction was lost with its connection",
                     "begin it again");
}

const char *pgw__pq_statement(pgw *h, pgw__sql sql)
{
    if (h->texts[sql] == NULL) h->texts[sql] = pgw__sql_in_schema(pgw__sql_text(sql), h->schema);
    return h->texts[sql];
}

/* ---- reading ---- */

pgw_status pgw__pq_read(pgw *h, pgw__reader *read, void *ctx)
{
    bool misread = false;
    const pgw__rows rows = {.res = h->op.rows, .misread = &misread};
    pgw_done_fn *const armed = h->armed;
    void *const armed_arg = h->armed_arg;
    pgw_status st;

    pgw__fault_clear(&h->fault);
    st = h->op.rows != NULL ? read(h, &rows, ctx) : PGW_EPROTO;
    h->op.fault = h->fault;
    if (h->armed == NULL) { /* a failure of this verb leaves the next one armed */
        h->armed = armed;
        h->armed_arg = armed_arg;
    }
    if (!misread && h->op.rows != NULL) return st;
    return pgw__fault_set(&h->op.fault, PGW_EPROTO, "the server's answer has an unexpected shape",
                          h->op.altered != NULL
                              ? h->op.altered
                              : "library and schema have different versions: see `pgwork doctor`");
}
