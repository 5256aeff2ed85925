/* pq_copy: COPY FROM STDIN in pieces, each with a deadline of its own. */
#include <stdio.h>

#include "pq/pq_int.h"

#define COPY_PIECE ((size_t)1 << 20) /* limit of what libpq buffers if the socket is full */

pgw_status pgw__pq_copy_begin(pgw *h, const char *name, const char *sql)
{
    pgw_status st = pgw__pq_enter(h);

    if (st != PGW_OK) return st;
    if (h->armed != NULL) {
        h->armed = NULL;
        return pgw__pq_leave(
            h, pgw__pq_reject(h, PGW_EMISUSE, "a load cannot follow pgw_async()", NULL));
    }
    pgw__pq_reset(h, name);
    h->op.text = sql;
    h->op.simple = h->op.copy = true;
    h->op.flags = PGW__WRITES;
    return pgw__pq_leave(h, pgw__pq_run(h));
}

static pgw_status copy_enter(pgw *h)
{
    if (h->phase == PGW__IDLE)
        return pgw__pq_reject(h, PGW_EMISUSE, "there is no load on this handle", NULL);
    h->phase = PGW__IDLE; /* for the guard; it is put back by copy_leave */
    h->status = pgw__pq_enter(h);
    h->phase = PGW__COPY;
    if (h->status != PGW_OK) return h->status;
    h->op.deadline = pgw__deadline_in(pgw__pq_call_ms(h));
    h->op.halting = PGW_OK; /* if something was, the COPY began all the same */
    return PGW_OK;
}

/* The answer to a COPY that the server has already given up. */
static pgw_status copy_finish(pgw *h)
{
    h->op.copy = false;
    h->phase = PGW__RUN;
    h->want = PGW_EVENT_READ | PGW_EVENT_WRITE;
    return pgw__pq_finish(h);
}

/* A COPY whose end was not sent is not applied, however the session ends. */
static pgw_status copy_give_up(pgw *h, pgw_status reason)
{
    h->op.copy = false;
    pgw__fault_set(&h->op.fault, reason, NULL,
                   h->attached ? "the connection is in a COPY: close it" : NULL);
    if (!h->attached) pgw__conn_drop(h);
    pgw__pq_end(h, reason);
    return reason;
}

/* Waits until libpq has handed all to the socket. The server may end the load with an error
 * meanwhile: it stops reading then, so we read as well. */
static pgw_status copy_flush(pgw *h)
{
    h->want = PGW_EVENT_READ | PGW_EVENT_WRITE;
    while (PQflush(h->conn) > 0) {
        if (pgw_stop_count(h->stop) > 1) return copy_give_up(h, PGW_ECANCELED);
        if (pgw__deadline_left_ms(h->op.deadline) == 0) return copy_give_up(h, PGW_ETIMEDOUT);
        pgw__pq_poll(h, h->op.deadline);
        if (PQconsumeInput(h->conn) == 0) return copy_finish(h);
    }
    return PGW_OK;
}

pgw_status pgw__pq_copy_data(pgw *h, const void *data, size_t n)
{
    const char *p = data;
    pgw_status st = copy_enter(h);
    bool full = false;

    if (st != PGW_OK) return st;
    while (n > 0 && st == PGW_OK) {
        size_t piece = n < COPY_PIECE ? n : COPY_PIECE;
        int put = PQputCopyData(h->conn, p, (int)piece);

        if (put < 0) {
            st = copy_finish(h);
            break;
        }
        if (put > 0) p += piece, n -= piece;
        if (put == 0 && full) { /* nothing is in its buffer, and that cannot grow */
            st = copy_give_up(h, PGW_ENOMEM);
            break;
        }
        full = put == 0;
        st = copy_flush(h);
    }
    return pgw__pq_leave(h, st);
}

pgw_status pgw__pq_copy_end(pgw *h, bool keep)
{
    pgw_status st = copy_enter(h);
    int put = 0;

    if (st != PGW_OK) return st;
    for (int tries = 0; put == 0 && st == PGW_OK; tries++) {
        put = PQputCopyEnd(h->conn, keep ? NULL : "cancelled by the client");
        if (put == 0) st = tries == 0 ? copy_flush(h) : copy_give_up(h, PGW_ENOMEM);
    }
    if (h->phase == PGW__COPY) st = copy_finish(h);
    if (!keep && st == PGW_ECANCELED) st = PGW_OK; /* as requested: 57014 */
    if (st == PGW_OK) pgw__fault_clear(&h->fault);
    return pgw__pq_leave(h, st);
}
