/* pq_int: declarations that only the files of the module pq share: the handle.
 *
 * One state machine serves blocking and non-blocking callers. An operation (pgw__op) goes through
 * phases. pgw__pq_advance() does all that needs no wait. Its callers wait: pgw__pq_run() by
 * poll(2), others in their event loop.
 *
 *   IDLE -> [PAUSE <-> CONNECT -> SETUP -> CONNECTED] -> [PREPARE] -> RUN -> IDLE
 *            only when there is no connection   once a statement and connection
 */
#ifndef PGW_PQ_INT_H
#define PGW_PQ_INT_H

#if __has_include(<libpq-fe.h>)
#include <libpq-fe.h>
#else
#include <postgresql/libpq-fe.h> /* Debian's default */
#endif

#include <stdatomic.h>
#include <sys/types.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "pq/pq.h"
#include "pq/pq_param.h"

#define PGW__CTX_MAX       192
#define PGW__LISTENS_MAX   4
#define PGW__LISTEN_SIZE   160  /* LISTEN and a quoted identifier */
#define PGW__PREFIX_MAX    3    /* statements that go in front of one, in its transaction */
#define PGW__GRACE_MS      2000 /* at most, after a deadline */
#define PGW__CANCEL_MS     500  /* between cancels: one that meets a session at rest is lost */
#define PGW__STOP_CHECK_MS 100  /* time between checks for the second request to stop */

typedef enum pgw__phase {
    PGW__IDLE,
    PGW__PAUSE,     /* before the next attempt to connect */
    PGW__CONNECT,   /* libpq connects */
    PGW__SETUP,     /* one statement of the session's setup is under way */
    PGW__CONNECTED, /* the session is set up: the statement can be sent */
    PGW__PREPARE,
    PGW__RUN,
    PGW__COPY /* between copy_begin and copy_end; nothing is awaited */
} pgw__phase;

/* What an operation wants to see at its end. */
typedef enum pgw__ending {
    PGW__AUTOCOMMIT, /* no transaction open, unless one was before */
    PGW__BEGUN,      /* BEGIN */
    PGW__COMMITTED,  /* COMMIT that said so (R6) */
    PGW__ROLLED_BACK /* ROLLBACK */
} pgw__ending;

typedef struct pgw__op {
    /* the hint */
    char name[64];    /* of the statement */
    const char *text; /* NULL: only to connect */
    char *owned_text; /* copy of a text that must outlive the call */
    int sql;          /* registered statement, -1: none */
    bool simple;      /* several statements in one text, or COPY: no parameters, no rows */
    bool copy;        /* stops in phase COPY */
    pgw__ending ending;
    unsigned flags;
    const char *altered;
    pgw__args args;
    pgw__reader *read;
    _Alignas(max_align_t) unsigned char ctx[PGW__CTX_MAX];
    int64_t deadline;
    bool waits;        /* it waits at the server: the first request to stop ends it */
    bool once;         /* a failed attempt to connect is not repeated */
    bool commits;      /* its end is the end of a transaction */
    bool named;        /* runs as a prepared statement */
    pgw_done_fn *done; /* not NULL: the caller has its own loop */
    void *done_arg;

    /* how far it is */
    const char *prefix[PGW__PREFIX_MAX];
    int prefixes;
    int parts; /* statements of the pipeline that were answered */
    bool piped, synced;
    bool sent;          /* from here on a lost connection may mean: applied */
    bool retried;       /* prepared again once (R23) */
    pgw_status halting; /* ETIMEDOUT or ECANCELED: a cancel was sent for this reason */
    int64_t grace;      /* deadline of the answer to it */
    int64_t cancel_at;  /* when the next one is due */
    bool adrift;        /* a cancel was not delivered: it may reach the next statement */
    bool answered;      /* a result of the statement itself came */
    bool dead;          /* the session ended, whatever PQstatus says (R3) */
    bool unconfirmed;   /* committed, but the wait for a synchronous standby was cut short */
    PGresult *rows;
    char tag[16];
    bool failed; /* fault holds the first error of the server */
    pgw__fault fault;
} pgw__op;

#define PGW__HOST_LISTS 3 /* host, hostaddr, port */

struct pgw {
    PGconn *conn; /* NULL: not connected */
    pgw_conf *conf;
    const pgw__log *log;
    bool owned;         /* of a loop, which logs failures */
    pgw__log_told told; /* of failed attempts to connect */
    const char *schema;
    int slot;                /* as a waiter: 0..255 */
    uint64_t mark;           /* random: no other handle has it */
    unsigned char spent[16]; /* the module table's */
    pid_t pid;               /* a child of fork() must not use the session (R16) */
#ifndef NDEBUG
    atomic_flag in_use;
#endif
    bool *gone; /* set when the handle is freed while `done` runs */
    bool attached;
    pgw_stop *stop;
    bool heeded;         /* only its second notify counts */
    int64_t timeout_ms;  /* 0: call.timeout_ms */
    int64_t grace_ms;    /* after a deadline: time for a cancel to bring the real outcome */
    int64_t lock_ms;     /* lock_timeout of its sessions; 0: none */
    char settings[1536]; /* for one transaction behind a pooler */
    int64_t call_timeout_ms, connect_timeout_ms;
    bool prepare, relaxed;
    bool own_session; /* a pooler keeps a session of the server for each of its clients */
    char *host_lists[PGW__HOST_LISTS]; /* as libpq found them; NULL: not given */
    int hosts;
    int silent_hosts; /* so many attempts in a row timed out, each at one of them ... */
    int next_host;    /* ... and the next one begins after the last of these */
    int64_t server_time;
    int64_t gated_ms;
    int64_t sent_us; /* monotonic: the last statement left */
    uint64_t epoch;
    pgw__backoff backoff;

    /* the session */
    bool ready; /* connected and set up */
    bool plain; /* the server or a pooler refused start-up options */
    bool pooled;
    bool unset;    /* start-up options did not reach the server */
    bool unnamed;  /* names of statements clash: prepare no more */
    uint64_t txns; /* begun */
    bool in_txn;   /* between pgw__pq_begin() and its end, also when the session was lost */
    bool dead;     /* the server ended the session while it was idle */
    pgw__notified_fn *on_notified;
    void *notified_arg;
    bool notified;  /* a notification was seen and not yet reported */
    char notice[6]; /* SQLSTATE by which the server said that the session ends (R2) */
    int setup_at;
    pgw__sql greeting; /* statement that checks each new session; PGW__SQL_COUNT: none */
    pgw__reader *greet;
    char listens[PGW__LISTENS_MAX][PGW__LISTEN_SIZE]; /* statements, repeated in each new session */
    int listens_count;
    unsigned generation; /* part of the names of prepared statements */
    bool prepared[PGW__SQL_COUNT + 1];
    char *texts[PGW__SQL_COUNT + 1]; /* statements with the schema's name, made when first used */

    /* the operation */
    pgw__phase phase;
    int want;     /* PGW_EVENT_READ | PGW_EVENT_WRITE */
    int64_t wake; /* end of PAUSE */
    pgw_status status;
    pgw_done_fn *armed; /* for the next call */
    void *armed_arg;
    pgw__op op;

    pgw__fault fault;
    char statement[64];

    pgw **borrower; /* the borrower of the handle; NULL: none */
    bool alone;     /* for the borrower only */
    void *kept;     /* a module's own */
    void (*bye)(void *kept);
};

/* ---- pq_op: an operation ---- */
/* EMISUSE: another process or thread, or something is under way. */
pgw_status pgw__pq_enter(pgw *h);
pgw_status pgw__pq_enter_or_disarm(pgw *h); /* a verb that is refused is not armed any more */
pgw_status pgw__pq_leave(pgw *h, pgw_status st);
void pgw__pq_reset(pgw *h, const char *name); /* a new operation, with the handle's deadline */
void pgw__pq_rewind(pgw *h);                  /* the operation is about to be sent (again) */
void pgw__pq_end(pgw *h, pgw_status st);      /* it is over; its diagnostics are in op.fault */
void pgw__pq_end_with(pgw *h, pgw_status st, const char *message, const char *hint);
void pgw__pq_lost_txn(pgw *h); /* it is over: the session went, and the transaction with it */
pgw_status pgw__pq_read(pgw *h, pgw__reader *read, void *ctx);
/* With the schema in place; NULL: out of memory. */
const char *pgw__pq_statement(pgw *h, pgw__sql sql);

/* ---- pq: the machine ---- */
pgw_status pgw__pq_begin_op(pgw *h); /* starts it: AGAIN, or it is over at once */
pgw_status pgw__pq_finish(pgw *h);   /* sees it through */
pgw_status pgw__pq_run(pgw *h);      /* both */
void pgw__pq_advance(pgw *h);
int64_t pgw__pq_until(const pgw *h);      /* when it must be advanced at the latest */
void pgw__pq_poll(pgw *h, int64_t until); /* until something moves, or earlier */

/* ---- pq_conn: the session ---- */
void pgw__conn_start(pgw *h); /* begins to connect */
bool pgw__conn_poll(pgw *h);  /* false: wait for the socket */
void pgw__conn_settled(pgw *h);
/* Reads pg_backend_pid(): a pooler answers with another one than it greeted with. */
pgw_status pgw__conn_read_pid(pgw *h, const pgw__rows *rows, void *ctx);
void pgw__conn_failed(pgw *h, const char *message);
bool pgw__conn_next_host(pgw *h); /* for the next attempt; false: it begins with the first again */
void pgw__conn_timed_out(pgw *h); /* connect.timeout_ms is over: the next host, if there is one */
void pgw__conn_drop(pgw *h);
void pgw__conn_abandon(PGconn *conn); /* frees it without a message to the server */
bool pgw__conn_alive(pgw *h);
extern const char pgw__conn_isolation[];

/* ---- pq_cancel ---- */
/* Asks the server to cancel the statement; bounded. False: the request was not delivered. */
bool pgw__cancel(PGconn *conn, int64_t max_ms, bool *adrift); /* taken? *adrift: or sent in vain */

/* ---- pq_dsn ---- */
#define PGW__DSN_VARIABLE "PGWORK_DSN"
/* Can libpq read the string? from_conf: it is the property's, else the variable's. */
pgw_status pgw__dsn_check(pgw__fault *f, const char *dsn, bool from_conf);
/* A URI whose password libpq takes in part for host, port or database. */
bool pgw__dsn_is_split(const char *dsn);

/* ---- pq_error ---- */
void pgw__fault_clear(pgw__fault *f);
pgw_status pgw__fault_set(pgw__fault *f, pgw_status st, const char *message, const char *hint);
/* The first error of an answer; true: the session is over (R3). The status follows from the
 * SQLSTATE; only where that would say too little it is set here, to PGW_ERETRY. */
bool pgw__fault_result(pgw__fault *f, const PGresult *res);
/* Why libpq could not connect; the status says if another attempt makes sense. split: as
 * pgw__dsn_is_split() says. */
void pgw__fault_connect(pgw__fault *f, const PGconn *conn, bool split);
bool pgw__fault_is_passing(const pgw__fault *f);

/* ---- pq_rows ---- */
struct pgw__rows {
    const PGresult *res;
    bool *misread; /* set when the shape is not what the reader asked for */
};

#endif
