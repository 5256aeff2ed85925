/* pq: the only module that talks to libpq, and the owner of struct pgw.
 *
 * Callers pass a statement, its parameters and a reader. A handle has one statement in flight. The
 * answer is trusted only when the transaction has ended (R5): a reader's results count once
 * pgw__pq_call returned, or `done` was called, with a status >= 0.
 */
#ifndef PGW_PQ_H
#define PGW_PQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/conf.h"
#include "pgwork.h"
#include "sql/sql.h"

/* ---- parameters: typed, sent in binary; no arithmetic with $n: in the order of the statement's
 * header line ---- */
typedef enum pgw__type {
    PGW__END,
    PGW__BOOL,
    PGW__INT4,
    PGW__INT8,
    PGW__TEXT,
    PGW__JSONB,
    PGW__BYTEA,
    PGW__UUID,
    PGW__TIME, /* timestamptz from microseconds since 1970 */
    PGW__INT4_ARRAY,
    PGW__INT8_ARRAY,
    PGW__TEXT_ARRAY, /* NULL elements allowed */
    PGW__JSONB_ARRAY,
    PGW__BYTEA_ARRAY,
    PGW__UUID_ARRAY,
    PGW__TIME_ARRAY, /* INT64_MIN is a NULL element */
    PGW__VALUE       /* text that the server reads as the type that this place requires */
} pgw__type;

typedef struct pgw__bytes {
    const void *p; /* NULL: SQL NULL */
    size_t n;
} pgw__bytes;

typedef struct pgw__param {
    pgw__type type;
    bool null;
    size_t n; /* elements of an array, bytes of a BYTEA or sized TEXT/JSONB */
    union {
        bool b;
        int64_t i;
        /* char * | unsigned char[16] | int32_t * | int64_t * | char *const * | pgw__bytes * |
         * unsigned char (*)[16] */
        const void *p;
    } v;
} pgw__param;

/* initializers, which the formatter takes for blocks */
/* clang-format off */
#define P_BOOL(x) {.type = PGW__BOOL, .v.b = (x)}
#define P_SWITCH(x) /* a pgw_switch; PGW_SWITCH_DEFAULT: SQL NULL */ \
    {.type = PGW__BOOL, .null = (x) == PGW_SWITCH_DEFAULT, .v.b = (x) == PGW_SWITCH_ON}
#define P_INT4(x) {.type = PGW__INT4, .v.i = (x)}
#define P_INT8(x) {.type = PGW__INT8, .v.i = (x)}
#define P_INT8_OR_NULL(x, isnull) {.type = PGW__INT8, .null = (isnull), .v.i = (x)}
#define P_INT4_OR_NULL(x, isnull) {.type = PGW__INT4, .null = (isnull), .v.i = (x)}
#define P_TIME_OR_NULL(us, isnull) {.type = PGW__TIME, .null = (isnull), .v.i = (us)}
#define P_TEXT(s) {.type = PGW__TEXT, .null = (s) == NULL, .v.p = (s)} /* NULL: SQL NULL */
#define P_VALUE(s) {.type = PGW__VALUE, .null = (s) == NULL, .v.p = (s)}
#define P_JSONB(s) {.type = PGW__JSONB, .null = (s) == NULL, .v.p = (s)}
#define P_BYTEA(ptr, size) {.type = PGW__BYTEA, .null = (ptr) == NULL, .n = (size), .v.p = (ptr)}
#define P_UUID(ptr) {.type = PGW__UUID, .null = (ptr) == NULL, .v.p = (ptr)}
#define P_ARRAY(kind, ptr, count) \
    {.type = PGW__##kind##_ARRAY, .null = (ptr) == NULL, .n = (count), .v.p = (ptr)}
#define P_END {.type = PGW__END}
/* clang-format on */

/* ---- results: read by row and column; strings are borrowed until the reader returns ---- */
typedef struct pgw__rows pgw__rows;
int pgw__rows_count(const pgw__rows *r);
int pgw__rows_columns(const pgw__rows *r);
bool pgw__rows_null(const pgw__rows *r, int row, int col);
/* int2, int4, int8, bool; 0 for NULL */
int64_t pgw__rows_int(const pgw__rows *r, int row, int col);
/* since 1970; 0 for NULL */
int64_t pgw__rows_time_us(const pgw__rows *r, int row, int col);
double pgw__rows_real(const pgw__rows *r, int row, int col);
/* text, jsonb (as text), bytea; NULL for NULL; NUL-terminated; size may be NULL */
const char *pgw__rows_text(const pgw__rows *r, int row, int col, size_t *size);
void pgw__rows_uuid(const pgw__rows *r, int row, int col, unsigned char out[16]);
/* Whether a value of another shape was read. Then the call fails, whatever its reader returns. A
 * reader that creates something from the rows checks this at its end, and undoes it. */
bool pgw__rows_misread(const pgw__rows *r);
/* text[]: elements borrowed (not NUL-terminated), returns how many there are */
int pgw__rows_array(const pgw__rows *r, int row, int col, pgw__bytes *items, int max);
/* An array of any length and shape, an element at a time: returns how many there are, 0 for NULL.
 * Elements are borrowed and not NUL-terminated; p is NULL for NULL; of jsonb the text. */
typedef struct pgw__items {
    const unsigned char *at;
    int left;
    bool json;
} pgw__items;
int pgw__rows_items(const pgw__rows *r, int row, int col, pgw__items *items);
bool pgw__items_next(pgw__items *items, pgw__bytes *item);
/* of an int2, int4 or int8; of a timestamptz, since 1970; 0 for NULL */
int64_t pgw__item_int(const pgw__bytes *item);
int64_t pgw__item_time_us(const pgw__bytes *item);

/* ---- one statement ---- */
typedef pgw_status pgw__reader(pgw *h, const pgw__rows *rows, void *ctx);

#define PGW__WRITES  1u /* a lost answer is PGW_EUNKNOWN */
#define PGW__RELAXED 2u /* may commit asynchronously if configured so (claim, extend) */
#define PGW__OWNED   4u /* only on opened handles: PGW_EMISUSE on an attached one */
#define PGW__DIRECT  8u /* needs a session: PGW_EPOOLED behind a transaction pooler */

typedef struct pgw__call {
    pgw__sql sql;
    const pgw__param *params; /* encoded before pgw__pq_call returns: may live on the stack */
    pgw__reader *read;        /* may be NULL: rows are ignored */
    /* copied into the handle (ctx_size <= 192 bytes), so it survives until the answer; the reader
     * gets the copy */
    const void *ctx;
    size_t ctx_size;
    unsigned flags;
    const char *altered; /* static: what to do about PGW_ESCHEMA and other errors of class 42, and
                            about an answer of another shape; NULL: it is about pgwork's own schema
                          */
    int64_t timeout_ms;  /* 0: the handle's */
    /* more than 0: the statement waits at the server up to this long, in addition to the deadline,
     * and the first request to stop ends it */
    int64_t wait_ms;
} pgw__call;

/* Sends, and waits for the answer; or, when pgw_async() armed the handle, sends and returns
 * PGW_OUTCOME_AGAIN.
 * The reader's status is the call's status unless the transaction fails afterwards.
 * Clears the last error at its start. */
pgw_status pgw__pq_call(pgw *h, const pgw__call *call);

/* The same for text that is not a registered statement (generated SQL of the module table, DDL of
 * migrate): name is for errors and logs. Several statements in one text only without parameters.
 */
pgw_status pgw__pq_text(pgw *h, const char *name, const char *sql, const pgw__call *call);

/* BEGIN / COMMIT / ROLLBACK on an opened handle; PGW_EMISUSE on an attached one. COMMIT that became
 * ROLLBACK is PGW_ETXN (R6). */
pgw_status pgw__pq_begin(pgw *h);
/* The same, but its statements wait up to so long for each lock, then return PGW_ELOCKED. */
pgw_status pgw__pq_begin_limited(pgw *h, int lock_ms);
pgw_status pgw__pq_commit(pgw *h);
/* Also after failures; a lost connection counts as rolled back. */
pgw_status pgw__pq_rollback(pgw *h);
bool pgw__pq_in_txn(const pgw *h); /* does the next statement join a transaction that is open? */
/* Which one: 0: none. Those of attached handles are all alike. */
uint64_t pgw__pq_txn(const pgw *h);

/* COPY name FROM STDIN in binary: sql is the COPY statement. Data may come in any pieces.
 * end(keep=false) aborts. Errors of the server are known at the end: libpq keeps them until then.
 */
pgw_status pgw__pq_copy_begin(pgw *h, const char *name, const char *sql);
pgw_status pgw__pq_copy_data(pgw *h, const void *data, size_t n);
pgw_status pgw__pq_copy_end(pgw *h, bool keep);

/* Waits until a notification comes on this session (PGW_OK), the extra descriptor (or -1) is
 * readable (PGW_OUTCOME_AGAIN), the stop of the handle is notified (PGW_ECANCELED) or the timeout
 * passes (PGW_OUTCOME_EMPTY). A dead connection is PGW_ECONN at once. */
pgw_status pgw__pq_wait(pgw *h, int64_t timeout_ms, int extra_fd);
/* Once per connection; again after a reconnect by itself. */
pgw_status pgw__pq_listen(pgw *h, const char *channel);
/* Stops listening. If that is not possible, notifications arrive until the session ends. */
void pgw__pq_unlisten(pgw *h, const char *channel);
void pgw__pq_unlisten_slot(pgw *h); /* the channel of pgw__pq_slot() */
/* Whether the session still exists. Reads what arrived, never waits. PGW_ECONN: it ended.
 * PGW_EMISUSE: it belongs to another process. */
pgw_status pgw__pq_check_session(pgw *h);
/* Ends the session of an opened handle, and with it all that the session holds; the next call
 * begins a new one. */
void pgw__pq_drop(pgw *h);

/* ---- a borrower uses the handle across calls, and must learn when the handle is closed ---- */
/* *borrower is h until then, and NULL afterwards. One at a time: PGW_EMISUSE. */
pgw_status pgw__pq_borrow(pgw *h, pgw **borrower);
void pgw__pq_give_back(pgw *h);
/* While `alone` is true, every verb is refused. The borrower sets it to false for each call of its
 * own.
 */
void pgw__pq_alone(pgw *h, bool alone);

/* ---- the handle ---- */
/* The same as pgw_open(), without the schema check. */
pgw_status pgw__pq_open(pgw **h, const pgw_conf *conf);
pgw_status pgw__pq_attach(pgw **h, struct pg_conn *conn, const pgw_conf *conf);
/* A handle that is not connected yet. PGW_ENOMEM: *h is NULL. */
pgw_status pgw__pq_new(pgw **h, const pgw_conf *conf);
/* Which server and database the connection string names, for a log: "host=db1 dbname=app". It may
 * name none: "". */
void pgw__pq_server(const pgw_conf *conf, char *to, size_t size);
/* Each new session runs sql first; an error of the reader ends it. */
void pgw__pq_greet(pgw *h, pgw__sql sql, pgw__reader *read);
/* One attempt, within connect.timeout_ms for each host. Armed by pgw_async(): in steps,
 * PGW_OUTCOME_AGAIN.
 */
pgw_status pgw__pq_connect_once(pgw *h);
void pgw__pq_close(pgw *h);
void pgw__pq_abandon(pgw *h); /* for the child of a fork */
/* (Re)connects an opened handle now; PGW_OK when it is alive already. */
pgw_status pgw__pq_connect(pgw *h, int64_t timeout_ms);
/* Grows with every new connection: session state is gone when it changed. */
uint64_t pgw__pq_epoch(const pgw *h);
bool pgw__pq_attached(const pgw *h);
/* What a module keeps with the handle from call to call: `kept` is its own, and bye(kept) is called
 * when the handle is freed. */
void pgw__pq_keep(pgw *h, void *kept, void (*bye)(void *kept));
void *pgw__pq_kept(const pgw *h); /* NULL at first */
bool pgw__pq_armed(const pgw *h); /* pgw_async was called: the next call will not wait */
/* For an opened handle: disarms it. If a call that does not wait is in progress, ends it with its
 * session. Returns whether there was anything. */
bool pgw__pq_disarm(pgw *h);
const pgw_conf *pgw__pq_conf(const pgw *h);
const char *pgw__pq_schema(const pgw *h);
/* fn receives each notification when the session is checked, by pgw__pq_check_session() or any
 * call. fn must not use the handle. */
typedef void pgw__notified_fn(void *arg, const char *channel, const char *payload);
void pgw__pq_on_notified(pgw *h, pgw__notified_fn *fn, void *arg);
/* The slot of this handle as a waiter, see pgwork.idle(), and the channel that wakes it up. */
int pgw__pq_slot(const pgw *h, char channel[64]);
/* Identifies this handle among all handles of all machines: random, and kept when it reconnects.
 */
uint64_t pgw__pq_mark(const pgw *h);
/* 16 bytes that the module table keeps with the handle: the last operation id of its own making
 * that has done its work; zeros at first. */
unsigned char *pgw__pq_spent(pgw *h);
pgw_stop *pgw__pq_stop(const pgw *h);
/* For a loop that logs failures itself: pq then logs them for debugging only. */
void pgw__pq_own(pgw *h);
void pgw__pq_set_stop(pgw *h, pgw_stop *stop);
/* Sessions opened from now on wait up to so long for a lock (0: no limit), then return
 * PGW_ELOCKED; not behind a pooler. */
void pgw__pq_limit_locks(pgw *h, int64_t lock_ms);
/* The first request to stop was heard: only the second one ends anything from now on. */
void pgw__pq_heed_stop(pgw *h);
bool pgw__pq_stopped(const pgw *h); /* there was such a request */
void pgw__pq_set_timeout(pgw *h, int64_t timeout_ms);
/* The same, with the answer to a cancel included: after `ms` the call is over, and a session that
 * has not answered is dropped. */
void pgw__pq_limit_calls(pgw *h, int64_t ms);
int64_t pgw__pq_call_ms(const pgw *h); /* how long each call may take; < 0: for ever */
pgw_status pgw__pq_pooled(pgw *h, bool *pooled);

/* ---- the caller's event loop: see pgwork.h ---- */
void pgw__pq_arm(pgw *h, pgw_done_fn *done, void *arg);
int pgw__pq_fd(const pgw *h);
int pgw__pq_events(const pgw *h);
int64_t pgw__pq_timeout_ms(const pgw *h);
pgw_status pgw__pq_step(pgw *h);

/* ---- errors: composed in fixed arrays on the handle, no allocation ---- */
#define PGW__MESSAGE_MAX 1024
#define PGW__HINT_MAX    512
/* Room for `message: hint`, and for a few words in place of the hint. */
#define PGW__ERROR_LINE  (PGW__MESSAGE_MAX + 2 + PGW__HINT_MAX)
/* A status and its diagnostics. */
typedef struct pgw__fault {
    pgw_status status;
    char sqlstate[6];
    bool inside;     /* a function on the server met it, not the statement itself */
    bool no_session; /* met before there was one */
    size_t index;    /* of the element that it is about; PGW_NO_INDEX: of none in particular */
    char message[PGW__MESSAGE_MAX];
    char hint[PGW__HINT_MAX];
} pgw__fault;
/* The status of the last call, for a caller that must clean up before it reports. */
typedef struct pgw__diagnostics {
    pgw__fault fault;
    char statement[64];
} pgw__diagnostics;
void pgw__pq_keep_diagnostics(const pgw *h, pgw__diagnostics *diagnostics);
pgw_status pgw__pq_tell(pgw *h, const pgw__diagnostics *diagnostics); /* returns its status */
/* "argument `max` is -1: expected 1..10000" -> PGW_EINVAL. value may be NULL ("is NULL"). */
pgw_status pgw__pq_refuse(pgw *h, const char *argument, const char *value, const char *allowed);
pgw_status pgw__pq_refuse_int(pgw *h, const char *argument, int64_t value, const char *allowed);
/* Any status with a message and a hint (either may be NULL). Returns st. */
pgw_status pgw__pq_fail(pgw *h, pgw_status st, const char *message, const char *hint);
/* Like pgw__pq_fail(), for a failure before any statement was sent. */
pgw_status pgw__pq_reject(pgw *h, pgw_status st, const char *message, const char *hint);
/* If st is a failure, it is about this element of the call's input. Returns st. */
pgw_status pgw__pq_about(pgw *h, size_t index, pgw_status st);
/* The same diagnostics, with another status and hint. Returns st. */
pgw_status pgw__pq_advise(pgw *h, pgw_status st, const char *hint);
/* The same as pgw__pq_fail() outside a verb: the verb that pgw_async() announced is still to come.
 */
pgw_status pgw__pq_remark(pgw *h, pgw_status st, const char *message, const char *hint);
pgw_status pgw__pq_error_status(const pgw *h);
const char *pgw__pq_error_message(const pgw *h);
const char *pgw__pq_error_hint(const pgw *h);
const char *pgw__pq_error_statement(const pgw *h);
size_t pgw__pq_error_index(const pgw *h);
const char *pgw__pq_sqlstate(const pgw *h);
/* What the last call's status means to a loop: see pgw__status_in_loop(). */
pgw_status pgw__pq_in_loop(const pgw *h, pgw_status st);
int64_t pgw__pq_server_time(const pgw *h);
/* When the last statement left, by the monotonic clock: after the session was there. */
int64_t pgw__pq_sent_us(const pgw *h);
void pgw__pq_set_server_time(pgw *h, int64_t us);

#endif
