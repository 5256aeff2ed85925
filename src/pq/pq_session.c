/* pq_session: functions that need their own session: transactions of several statements, LISTEN,
 * and waiting. */
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/name.h"
#include "pq/pq_int.h"

#define SESSION_CHANNEL_MAX 63 /* bytes; the server cuts longer names without a word (R18) */

/* ---- transactions ---- */

static pgw_status session_misuse(pgw *h, pgw__ending ending)
{
    if (h->attached)
        return pgw__pq_reject(h, PGW_EMISUSE,
                              "the caller controls the transactions of an attached connection",
                              "send BEGIN, COMMIT or ROLLBACK on the connection itself");
    if (h->armed != NULL)
        return pgw__pq_reject(h, PGW_EMISUSE, "this call cannot follow pgw_async()", NULL);
    if (ending == PGW__BEGUN)
        return pgw__pq_reject(h, PGW_EMISUSE, "a transaction is open already",
                              "end it first: pgw_txn_commit() or pgw_txn_rollback()");
    return pgw__pq_reject(h, PGW_EMISUSE, "no transaction is open", "call pgw_txn_begin() first");
}

static pgw_status session_transact(pgw *h, const char *name, const char *text, pgw__ending ending)
{
    pgw_status st = pgw__pq_enter(h);

    if (st != PGW_OK) return st;
    if (h->attached || h->armed != NULL || (ending == PGW__BEGUN) == h->in_txn)
        return pgw__pq_leave(h, session_misuse(h, ending));
    pgw__pq_reset(h, name);
    h->op.text = text;
    h->op.ending = ending;
    h->txns += ending == PGW__BEGUN;
    h->op.flags = ending == PGW__COMMITTED ? PGW__WRITES : 0;
    return pgw__pq_leave(h, pgw__pq_run(h));
}

pgw_status pgw__pq_begin(pgw *h)
{
    return session_transact(h, "begin", "BEGIN ISOLATION LEVEL READ COMMITTED", PGW__BEGUN);
}

pgw_status pgw__pq_begin_limited(pgw *h, int lock_ms)
{
    static const pgw__call call = {.flags = 0};
    char limit[64];
    pgw_status st = pgw__pq_begin(h), undone;

    if (st != PGW_OK) return st;
    snprintf(limit, sizeof(limit), "SET LOCAL lock_timeout = %d", lock_ms);
    st = pgw__pq_text(h, "limit_locks", limit, &call);
    if (st == PGW_OK) return PGW_OK;
    undone = pgw__pq_rollback(h);
    return undone == PGW_OK ? st : undone;
}

pgw_status pgw__pq_commit(pgw *h)
{
    bool was_open = h->in_txn;
    pgw_status st = session_transact(h, "commit", "COMMIT", PGW__COMMITTED);

    /* lost before COMMIT was sent */
    if (was_open && st == PGW_ECONN) h->in_txn = false;
    return st;
}

pgw_status pgw__pq_rollback(pgw *h)
{
    pgw__diagnostics diagnostics;
    pgw_status st;

    if (h->pid != getpid()) return pgw__pq_enter(h); /* with the diagnostics */
    if (!h->attached && !h->in_txn && h->armed == NULL) return PGW_OK;
    pgw__pq_keep_diagnostics(h, &diagnostics);
    st = session_transact(h, "rollback", "ROLLBACK", PGW__ROLLED_BACK);
    if (st == PGW_EMISUSE) return st;
    if (st != PGW_OK) {
        /* whatever failed, without its session the transaction has ended */
        pgw__conn_drop(h);
        h->in_txn = false;
    }
    /* keep the diagnostics of the first failure */
    pgw__pq_tell(h, &diagnostics);
    return PGW_OK;
}

bool pgw__pq_in_txn(const pgw *h)
{
    if (!h->attached) return h->in_txn;
    return h->conn != NULL && PQtransactionStatus(h->conn) != PQTRANS_IDLE;
}

/* ---- LISTEN ---- */

/* The statement that listens, also if there is no connection. False: not a name. */
static bool session_listen_text(const char *channel, char text[PGW__LISTEN_SIZE])
{
    const size_t n = strlen(channel);
    char *to = text + sizeof("LISTEN \"") - 1;

    if (n == 0 || n > SESSION_CHANNEL_MAX || !pgw__utf8_ok(channel, n)) return false;
    memcpy(text, "LISTEN \"", sizeof("LISTEN \"") - 1);
    for (; *channel != '\0'; *to++ = *channel++)
        if (*channel == '"') *to++ = '"';
    memcpy(to, "\"", 2);
    return true;
}

/* Its place among those that are remembered, so that each new session repeats them; or the next. */
static int session_listen_at(const pgw *h, const char *text)
{
    int i = 0;

    while (i < h->listens_count && strcmp(h->listens[i], text) != 0) i++;
    return i;
}

pgw_status pgw__pq_listen(pgw *h, const char *channel)
{
    static const pgw__call call = {.flags = PGW__OWNED | PGW__DIRECT};
    char text[PGW__LISTEN_SIZE];
    int at;
    bool known;
    pgw_status st;

    if (h->attached)
        return pgw__pq_fail(h, PGW_EMISUSE, "an attached connection cannot LISTEN", NULL);
    st = pgw__pq_connect(h, 0);
    if (st != PGW_OK) return st;
    if (!session_listen_text(channel, text) ||
        (at = session_listen_at(h, text)) == PGW__LISTENS_MAX)
        return pgw__pq_refuse(h, "channel", channel,
                              "at most 4 channels, with UTF-8 names of at most 63 bytes");
    known = at < h->listens_count;
    if (known && !h->pooled) return PGW_OK;
    if (!known) memcpy(h->listens[h->listens_count++], text, sizeof(text));
    st = pgw__pq_text(h, "listen", h->listens[at], &call);
    if (st != PGW_OK && !known) h->listens_count--;
    return st;
}

void pgw__pq_unlisten(pgw *h, const char *channel)
{
    static const pgw__call call = {.flags = PGW__OWNED | PGW__DIRECT};
    char text[PGW__LISTEN_SIZE], undo[PGW__LISTEN_SIZE + 2];
    int at;

    if (!session_listen_text(channel, text)) return;
    at = session_listen_at(h, text);
    if (at == h->listens_count) return;
    h->listens_count--;
    for (; at < h->listens_count; at++) memcpy(h->listens[at], h->listens[at + 1], sizeof(text));
    if (pgw__pq_check_session(h) != PGW_OK) return; /* the next session does not listen to it */
    snprintf(undo, sizeof(undo), "UN%s", text);
    (void)pgw__pq_text(h, "unlisten", undo, &call);
}

void pgw__pq_unlisten_slot(pgw *h)
{
    char channel[64];

    pgw__pq_slot(h, channel);
    pgw__pq_unlisten(h, channel);
}

/* ---- waiting ---- */

/* PGW_OUTCOME_EMPTY: nothing yet. */
static pgw_status session_check(pgw *h, int extra_fd)
{
    struct pollfd p = {.fd = extra_fd, .events = POLLIN};

    if (!h->attached && !pgw__conn_alive(h)) {
        pgw__conn_drop(h);
        return pgw__pq_fail(h, PGW_ECONN, "the connection was lost", NULL);
    }
    if (h->notified) {
        h->notified = false;
        return PGW_OK;
    }
    if (extra_fd >= 0 && poll(&p, 1, 0) > 0) return PGW_OUTCOME_AGAIN;
    if (pgw_stop_count(h->stop) > (h->heeded ? 1 : 0))
        return pgw__pq_fail(h, PGW_ECANCELED, NULL, NULL);
    return PGW_OUTCOME_EMPTY;
}

static void session_sleep(pgw *h, int64_t deadline, int extra_fd)
{
    int64_t left = pgw__deadline_left_ms(deadline);
    /* descriptors below 0 are passed over; an attached connection's notifications are its owner's
     */
    struct pollfd p[3] = {{.fd = h->attached ? -1 : PQsocket(h->conn), .events = POLLIN},
                          {.fd = h->heeded ? -1 : pgw_stop_fd(h->stop), .events = POLLIN},
                          {.fd = extra_fd, .events = POLLIN}};

    if (h->heeded && (left < 0 || left > PGW__STOP_CHECK_MS)) left = PGW__STOP_CHECK_MS;
    (void)poll(p, 3, left > INT_MAX ? INT_MAX : (int)left);
}

pgw_status pgw__pq_wait(pgw *h, int64_t timeout_ms, int extra_fd)
{
    int64_t deadline = pgw__deadline_in(timeout_ms);
    pgw_status st = pgw__pq_enter(h);

    if (st != PGW_OK) return st;
    for (;;) {
        st = session_check(h, extra_fd);
        if (st != PGW_OUTCOME_EMPTY || pgw__deadline_left_ms(deadline) == 0) break;
        session_sleep(h, deadline, extra_fd);
    }
    return pgw__pq_leave(h, st);
}

/* ---- is it there, and its end ---- */

pgw_status pgw__pq_check_session(pgw *h)
{
    if (h->pid != getpid()) return pgw__pq_enter(h);
    if (h->phase == PGW__IDLE && !h->attached && h->conn != NULL && !pgw__conn_alive(h))
        pgw__conn_drop(h);
    /* a session that is being opened is not the one in question */
    if (h->conn == NULL || (!h->attached && !h->ready)) return PGW_ECONN;
    return PQstatus(h->conn) == CONNECTION_OK ? PGW_OK : PGW_ECONN;
}

/* An open transaction is lost with it, and the next verb says so. */
void pgw__pq_drop(pgw *h)
{
    if (!h->attached && h->pid == getpid() && h->phase == PGW__IDLE) pgw__conn_drop(h);
}

bool pgw__pq_disarm(pgw *h)
{
    const bool under_way = h->pid == getpid() && h->phase != PGW__IDLE && h->phase != PGW__COPY;

    if (!under_way && h->armed == NULL) return false;
    h->armed = NULL;
    if (under_way) {
        pgw__conn_drop(h);
        pgw__pq_end(h, pgw__fault_set(&h->op.fault, PGW_ECONN, NULL, NULL));
    }
    return true;
}

uint64_t pgw__pq_txn(const pgw *h)
{
    return !pgw__pq_in_txn(h) ? 0 : h->attached ? 1 : h->txns;
}
