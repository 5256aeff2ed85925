/* pq_handle: opens and closes handles, and runs them in the caller's event loop. */
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "pq/pq_int.h"

static pgw *handle_new(const pgw_conf *conf)
{
    pgw *h = pgw__mem_zero(1, sizeof(*h));

    if (h == NULL) return NULL;
    h->conf = pgw__conf_copy(conf);
    if (h->conf == NULL) {
        pgw__mem_free(h);
        return NULL;
    }
#ifndef NDEBUG
    atomic_flag_clear(&h->in_use);
#endif
    pgw__args_init(&h->op.args);
    h->pid = getpid();
    h->log = pgw__conf_log(h->conf);
    h->schema = pgw__conf_text(h->conf, "schema");
    h->grace_ms = PGW__GRACE_MS;
    h->slot = (int)(pgw__random_u64() % 256);
    h->mark = pgw__random_u64();
    h->call_timeout_ms = pgw__conf_int(h->conf, "call.timeout_ms");
    h->connect_timeout_ms = pgw__conf_int(h->conf, "connect.timeout_ms");
    h->prepare = strcmp(pgw__conf_text(h->conf, "prepare"), "auto") == 0;
    h->own_session = strcmp(pgw__conf_text(h->conf, "pooler"), "session") == 0;
    h->relaxed = strcmp(pgw__conf_text(h->conf, "durability"), "relaxed") == 0;
    pgw__backoff_init(&h->backoff, pgw__conf_int(h->conf, "reconnect.base_ms"),
                      pgw__conf_int(h->conf, "reconnect.cap_ms"));
    return h;
}

pgw_status pgw__pq_new(pgw **h, const pgw_conf *conf)
{
    *h = handle_new(conf);
    return *h != NULL ? PGW_OK : PGW_ENOMEM;
}

void pgw__pq_greet(pgw *h, pgw__sql sql, pgw__reader *read)
{
    h->greeting = sql;
    h->greet = read;
}

static pgw_status handle_connect(pgw *h, int64_t timeout_ms, bool once)
{
    pgw_status st = pgw__pq_enter(h);

    if (st != PGW_OK) return st;
    pgw__pq_reset(h, "connect");
    h->op.once = once;
    if (timeout_ms != 0) h->op.deadline = pgw__deadline_in(timeout_ms);
    return pgw__pq_leave(h, h->op.done != NULL ? pgw__pq_begin_op(h) : pgw__pq_run(h));
}

pgw_status pgw__pq_connect_once(pgw *h)
{
    return handle_connect(h, -1, true); /* connect.timeout_ms for each host */
}

pgw_status pgw__pq_connect(pgw *h, int64_t timeout_ms)
{
    h->armed = NULL;
    return handle_connect(h, timeout_ms, false);
}

pgw_status pgw__pq_open(pgw **h, const pgw_conf *conf)
{
    pgw_status st = pgw__pq_new(h, conf);

    return st == PGW_OK ? pgw__pq_connect_once(*h) : st;
}

pgw_status pgw__pq_attach(pgw **h, struct pg_conn *conn, const pgw_conf *conf)
{
    pgw_status st = pgw__pq_new(h, conf);

    if (st != PGW_OK) return st;
    (*h)->attached = true;
    (*h)->conn = conn;
    if (conn == NULL) return pgw__pq_refuse(*h, "conn", NULL, "a connection of PQconnectdb()");
    /* no text: only checks the state of the connection */
    return handle_connect(*h, 0, true);
}

static void handle_free(pgw *h)
{
    if (h->gone != NULL) *h->gone = true;
    if (h->bye != NULL) h->bye(h->kept);
    if (h->borrower != NULL) *h->borrower = NULL;
    PQclear(h->op.rows);
    pgw__args_free(&h->op.args);
    pgw__mem_free(h->op.owned_text);
    for (int i = 0; i < (int)PGW__SQL_COUNT; i++) pgw__mem_free(h->texts[i]);
    for (int i = 0; i < PGW__HOST_LISTS; i++) pgw__mem_free(h->host_lists[i]);
    pgw_conf_free(h->conf);
    pgw__mem_free(h);
}

void pgw__pq_abandon(pgw *h)
{
    if (h == NULL) return;
    if (h->conn != NULL && !h->attached) pgw__conn_abandon(h->conn);
    handle_free(h);
}

void pgw__pq_close(pgw *h)
{
    if (h == NULL) return;
    if (h->pid != getpid()) {
        pgw__pq_abandon(h); /* the session is the parent's */
        return;
    }
    pgw__conn_drop(h);
    handle_free(h);
}

/* ---- the caller's event loop ---- */

void pgw__pq_arm(pgw *h, pgw_done_fn *done, void *arg)
{
    h->armed = done;
    h->armed_arg = arg;
}

bool pgw__pq_armed(const pgw *h)
{
    return h->armed != NULL;
}

int pgw__pq_fd(const pgw *h)
{
    return h->conn != NULL ? PQsocket(h->conn) : -1;
}

int pgw__pq_events(const pgw *h)
{
    return h->phase == PGW__PAUSE ? 0 : h->want;
}

int64_t pgw__pq_timeout_ms(const pgw *h)
{
    int64_t left = pgw__deadline_left_ms(pgw__pq_until(h));

    if (left > INT_MAX) left = INT_MAX; /* for poll() */
    if (h->phase == PGW__IDLE || h->stop == NULL) return left;
    return left < 0 || left > PGW__STOP_CHECK_MS ? PGW__STOP_CHECK_MS : left;
}

/* The operation is over and forgotten before `done` is called, which may therefore start the next
 * one, or close the handle. */
static pgw_status handle_deliver(pgw *h, pgw_done_fn *done, void *arg)
{
    bool gone = false, *outer = h->gone;

    /* put back below, unless the handle is gone with it */
    /* cppcheck-suppress autoVariables */
    h->gone = &gone;
    done(h, h->status, arg);
    if (gone) {
        if (outer != NULL) *outer = true;
        return PGW_OK;
    }
    h->gone = outer;
    return h->phase == PGW__IDLE ? PGW_OK : PGW_OUTCOME_AGAIN;
}

pgw_status pgw__pq_step(pgw *h)
{
    pgw_done_fn *done = h->op.done;
    void *arg = h->op.done_arg;

    if (h->pid != getpid()) return pgw__pq_enter(h);
    if (h->phase == PGW__IDLE) {
        if (!h->attached && h->conn != NULL && !pgw__conn_alive(h)) pgw__conn_drop(h);
        return PGW_OK;
    }
    if (done == NULL)
        return pgw__pq_fail(h, PGW_EMISUSE, "no call of pgw_async() is in progress on this handle",
                            NULL);
    pgw__pq_advance(h);
    return h->phase == PGW__IDLE ? handle_deliver(h, done, arg) : PGW_OUTCOME_AGAIN;
}

/* ---- properties ---- */

pgw_status pgw__pq_pooled(pgw *h, bool *pooled)
{
    static const pgw__call call = {.read = pgw__conn_read_pid};
    pgw_status st;

    *pooled = false;
    /* of an opened handle it is known since it connected */
    st = h->attached ? pgw__pq_text(h, "pooled", "SELECT pg_catalog.pg_backend_pid()", &call)
                     : pgw__pq_connect(h, 0);
    if (st == PGW_OK) *pooled = h->pooled;
    return st;
}

/* ---- borrowers ---- */

static pgw_status handle_taken(pgw *h)
{
    return pgw__pq_reject(h, PGW_EMISUSE, "a load is in progress on this handle",
                          "end it with pgw_load_end(), or use another handle");
}

pgw_status pgw__pq_borrow(pgw *h, pgw **borrower)
{
    if (h->borrower != NULL) return handle_taken(h);
    h->borrower = borrower;
    return PGW_OK;
}

void pgw__pq_give_back(pgw *h)
{
    h->borrower = NULL;
    h->alone = false;
}

void pgw__pq_alone(pgw *h, bool alone)
{
    h->alone = alone;
}

uint64_t pgw__pq_epoch(const pgw *h)
{
    return h->epoch;
}

bool pgw__pq_attached(const pgw *h)
{
    return h->attached;
}

void pgw__pq_keep(pgw *h, void *kept, void (*bye)(void *kept))
{
    h->kept = kept;
    h->bye = bye;
}

void *pgw__pq_kept(const pgw *h)
{
    return h->kept;
}

const pgw_conf *pgw__pq_conf(const pgw *h)
{
    return h->conf;
}

const char *pgw__pq_schema(const pgw *h)
{
    return h->schema;
}

int pgw__pq_slot(const pgw *h, char channel[64])
{
    if (h->slot == 0)
        snprintf(channel, 64, "pgwork_wake_%s", h->schema);
    else
        snprintf(channel, 64, "pgwork_wake_%s_%d", h->schema, h->slot);
    return h->slot;
}

void pgw__pq_on_notified(pgw *h, pgw__notified_fn *fn, void *arg)
{
    h->on_notified = fn;
    h->notified_arg = arg;
}

uint64_t pgw__pq_mark(const pgw *h)
{
    return h->mark;
}

unsigned char *pgw__pq_spent(pgw *h)
{
    return h->spent;
}

pgw_stop *pgw__pq_stop(const pgw *h)
{
    return h->stop;
}

void pgw__pq_limit_locks(pgw *h, int64_t lock_ms)
{
    h->lock_ms = lock_ms;
}

void pgw__pq_own(pgw *h)
{
    h->owned = true;
}

void pgw__pq_set_stop(pgw *h, pgw_stop *stop)
{
    h->stop = stop;
    h->heeded = false;
}

void pgw__pq_heed_stop(pgw *h)
{
    h->heeded = true;
}

bool pgw__pq_stopped(const pgw *h)
{
    return pgw_stop_count(h->stop) > (h->heeded ? 1 : 0);
}

void pgw__pq_set_timeout(pgw *h, int64_t timeout_ms)
{
    h->timeout_ms = timeout_ms;
    h->grace_ms = PGW__GRACE_MS;
}

void pgw__pq_limit_calls(pgw *h, int64_t ms)
{
    const int64_t quarter = ms / 4 > 0 ? ms / 4 : 1;

    h->grace_ms = quarter < PGW__GRACE_MS ? quarter : PGW__GRACE_MS;
    h->timeout_ms = ms - h->grace_ms > 0 ? ms - h->grace_ms : 1;
}

int64_t pgw__pq_server_time(const pgw *h)
{
    return h->server_time;
}

int64_t pgw__pq_sent_us(const pgw *h)
{
    return h->sent_us;
}

void pgw__pq_set_server_time(pgw *h, int64_t us)
{
    h->server_time = us;
}
