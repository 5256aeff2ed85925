/* SPDX-License-Identifier: PostgreSQL
 *
 * role_sql.c: claims by plain SQL on libpq, with the rights of a worker and nothing else of
 * pgwork's library: in transactions that stay open and that roll back; and jobs that are finished
 * in the transaction that counts them, exactly once. And the operator, who pauses, purges, drops,
 * redrives, reschedules and cancels.
 */
#include "role.h"
#include <libpq-fe.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static PGconn *c;

/* The outcome of a statement: an error that is one of the server's has undone it; 57xxx and lost
 * connections leave that open. */
static int64_t result(PGresult *res, PGresult **keep)
{
    const ExecStatusType s = PQresultStatus(res);
    const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE);
    int64_t st = S_UNKNOWN;
    if (s == PGRES_TUPLES_OK || s == PGRES_COMMAND_OK)
        st = strcmp(PQcmdStatus(res), "ROLLBACK") == 0 ? S_NOT : S_OK;
    else if (state && strncmp(state, "57P", 3) != 0 && strncmp(state, "08", 2) != 0)
        st = S_NOT;
    if (state && strncmp(state, "57", 2) != 0 && strncmp(state, "40", 2) != 0)
        fprintf(stderr, "%d: %s\n", hist_proc, PQresultErrorMessage(res));
    if (keep && st == S_OK)
        *keep = res;
    else
        PQclear(res);
    return st;
}

int64_t sql_run(const char *sql)
{
    return result(PQexec(c, sql), NULL);
}

int64_t sql_ask(const char *sql, PGresult **res)
{
    return result(PQexec(c, sql), res);
}

int64_t sql_enqueue(const char *sql, int queue, int first, int n, int64_t *call)
{
    PGresult *res = NULL;
    *call = hist_call();
    hist(*call, 'i', OP_enq, queue, first, n, 0, 0, 0, 1);
    const int64_t st = sql_ask(sql, &res);
    if (res) PQclear(res);
    return st;
}

int64_t sql_end(int64_t st, bool keep)
{
    if (st == S_OK && keep) return sql_run("COMMIT");
    sql_run("ROLLBACK");
    return S_NOT; /* no COMMIT was sent */
}

bool sql_up(void)
{
    if (c && PQstatus(c) == CONNECTION_OK && PQtransactionStatus(c) == PQTRANS_IDLE) return true;
    if (c) PQfinish(c);
    c = PQconnectdb(pgw_conf_get(conf, "dsn"));
    if (PQstatus(c) == CONNECTION_OK) return true;
    nap_ms(50 + draw(100));
    return false;
}

typedef struct hand {
    size_t n;
    pgw_ref refs[MAX_JOBS];
    int64_t calls[MAX_JOBS];
} hand;

static void got(hand *j, PGresult *res, int queue, int64_t call, int64_t lease_ms)
{
    j->n = (size_t)PQntuples(res);
    for (size_t i = 0; i < j->n && i < MAX_JOBS; i++) {
        const int row = (int)i;
        j->refs[i].id = atoll(PQgetvalue(res, row, 0));
        pgw_token_parse(PQgetvalue(res, row, 1), &j->refs[i].token);
        hist_add(call, 'e', OP_got, queue, j->refs[i].id, (int64_t)j->refs[i].token.number,
                 (int64_t)j->refs[i].token.nonce, atoll(PQgetvalue(res, row, 2)),
                 made_of(PQgetvalue(res, row, 3)), lease_ms);
    }
    hist_flush();
}

static bool repeatable;

static int64_t begin_txn(void)
{
    repeatable = draw(4) == 0;
    return sql_run(repeatable ? "BEGIN ISOLATION LEVEL REPEATABLE READ" : "BEGIN");
}

/* Notes the calls of a verb for the jobs that are held, and returns its SQL. */
static char *begin_verb(enum op op, const char *verb, hand *j, int queue, int64_t what)
{
    static char sql[120000];
    size_t at;

    for (size_t i = 0; i < j->n; i++) {
        j->calls[i] = hist_call();
        hist_add(j->calls[i], 'i', op, queue, j->refs[i].id, (int64_t)j->refs[i].token.number,
                 (int64_t)j->refs[i].token.nonce, what);
    }
    hist_flush();
    at = (size_t)sprintf(sql, "SELECT id, status FROM pgwork.%s('q%d', '{", verb, queue);
    for (size_t i = 0; i < j->n; i++)
        at += (size_t)sprintf(sql + at, "%s%" PRId64, i ? "," : "", j->refs[i].id);
    at += (size_t)sprintf(sql + at, "}', '{");
    for (size_t i = 0; i < j->n; i++) {
        char text[PGW_TOKEN_TEXT_SIZE];
        at += (size_t)sprintf(sql + at, "%s%s", i ? "," : "",
                              pgw_token_format(j->refs[i].token, text));
    }
    sprintf(sql + at, "}')");
    return sql;
}

/* Extends, also under tokens that a rollback has undone. */
static void extend(hand *j, int queue)
{
    PGresult *res = NULL;
    char *sql = begin_verb(OP_ext, "extend", j, queue, 2000);
    strcpy(sql + strlen(sql) - 1, ", 2000)");
    const int64_t st = result(PQexec(c, sql), &res);

    for (size_t i = 0; i < j->n; i++) {
        int64_t its = st;
        for (int row = 0; res && row < PQntuples(res); row++) {
            const char *said = PQgetvalue(res, row, 1);
            if (atoll(PQgetvalue(res, row, 0)) != j->refs[i].id) continue;
            if (strcmp(said, "ok") == 0 || strcmp(said, "cancel") == 0)
                its = S_OK;
            else
                its = said[0] == 'l' ? S_LOCKED : said[0] == 's' ? S_STALE : S_GONE;
        }
        hist_add(j->calls[i], 'o', OP_ext, its);
    }
    hist_flush();
    if (res) PQclear(res);
}

/* Completes the jobs that are held: `counter` counts them in the same transaction. */
static void complete(hand *j, int queue, int counter)
{
    PGresult *res = NULL;
    char *sql = begin_verb(OP_don, "complete", j, queue, counter + 1);
    int64_t st = begin_txn() == S_OK ? result(PQexec(c, sql), &res) : S_NOT;
    const bool lost = st == S_OK && PQntuples(res) > 0;
    if (res) PQclear(res);
    if (st == S_OK && !lost) {
        sprintf(sql, "UPDATE counter SET n = n + %zu WHERE id = %d", j->n, counter);
        st = sql_run(sql);
        if (st == S_OK) {
            nap_ms(draw(4) == 0 ? draw(300) : 0);
            st = sql_run("COMMIT");
        } else {
            sql_run("ROLLBACK");
            st = S_NOT; /* no COMMIT was sent */
        }
    } else { /* one of them is not ours any more: undo all */
        sql_run("ROLLBACK");
        st = S_NOT;
    }
    for (size_t i = 0; i < j->n; i++) hist_add(j->calls[i], 'o', OP_don, st);
    hist_flush();
}

static void claim(int mode)
{
    const int one_in = getenv("CHAOS_OPEN") ? atoi(getenv("CHAOS_OPEN")) : 10;
    static hand j;
    static const int sizes[] = {1, 7, 33, 100, 1000};
    char sql[300];
    PGresult *res = NULL;
    const int queue = rated_or(draw(4) ? draw(4) : GROUPED + draw(4)),
              max = sizes[draw(mode ? 5 : 3)], counter = draw(4);
    const int64_t call = hist_call(), lease_ms = 2000 + draw(2000);
    const int long_ms = queue < GROUPED ? 12000 : late_ms() * 2 / 3; /* less than PATIENT */

    hist(call, 'i', OP_clm, queue, max, lease_ms, mode);
    if (mode && begin_txn() != S_OK) {
        hist(call, 'o', OP_clm, S_NOT, 0);
        return;
    }
    snprintf(sql, sizeof(sql),
             "SELECT id, token, attempt, kind FROM pgwork.claim('{q%d}', %d, 'sql %d', %" PRId64
             ")",
             queue, max, hist_proc, lease_ms);
    int64_t st = result(PQexec(c, sql), &res);
    j.n = 0;
    if (st == S_OK) {
        if (mode == 0)
            got(&j, res, queue, call, lease_ms);
        else
            j.n = (size_t)PQntuples(res);
        const size_t n = j.n;
        /* more than ten seconds: nobody's claim may wait for that */
        if (mode) nap_ms(mode == 2 && draw(one_in) == 0 ? long_ms : draw(mode == 2 ? 2500 : 300));
        if (mode == 1) {
            got(&j, res, queue, call, 0);
            sql_run("ROLLBACK");
            st = S_NOT;
            if (n) fired(C_claim_rollback);
            if (n && repeatable) fired(C_claim_rr);
            j.n = n;
        } else if (mode == 2) {
            got(&j, res, queue, call, 0);
            st = sql_run("COMMIT");
            if (st == S_OK && n) fired(C_claim_open);
            if (st == S_OK && n && repeatable) fired(C_claim_rr);
        }
        PQclear(res);
        hist(call, 'o', OP_clm, st == S_OK && n == 0 ? S_EMPTY : st, (int64_t)n);
        if (st != S_OK && mode != 1) j.n = 0; /* else: with tokens that were undone */
    } else {
        if (mode) sql_run("ROLLBACK"), st = S_NOT;
        hist(call, 'o', OP_clm, st, 0);
    }
    if (j.n && (calm() || draw(10))) {
        if (!calm() && draw(queue < GROUPED ? 8 : 40) == 0) nap_ms(draw(3000));
        if (j.n <= 100 && draw(2)) extend(&j, queue);
        complete(&j, queue, counter);
    }
}

void role_sql(void)
{
    while (going()) {
        if (!sql_up()) continue;
        claim(calm() ? 0 : draw(5) == 0 ? 1 : draw(8) == 0 ? 2 : 0);
        nap_ms(draw(60));
    }
}

/* -- the operator --------------------------------------------------------------------------------
 */

static pgw *h;

int64_t admin_begin(enum op op, int queue, int64_t what)
{
    const int64_t call = hist_call();
    hist(call, 'i', op, queue, what);
    return call;
}

void admin_end(enum op op, int64_t call, pgw_status st, bool effect_seen, enum class class)
{
    hist(call, 'o', op, st == PGW_OK || st == PGW_OUTCOME_EMPTY ? S_OK : S_UNKNOWN);
    if (effect_seen) fired(class);
}

static void pause_queue(void)
{
    const int64_t call = admin_begin(OP_pau, 2, 0);
    pgw_status st = pgw_queue_pause(h, "q2");
    const bool did = st == PGW_OK;
    nap_ms(did ? 300 + draw(1500) : 0);
    do st = pgw_queue_resume(h, "q2");
    while (st != PGW_OK && (nap_ms(50), going()));
    admin_end(OP_pau, call, PGW_OK, did, C_pause);
}

static void drop_queue(void)
{
    const int64_t call = admin_begin(OP_drp, 5, 0);
    pgw_queue_opts o = PGW_QUEUE_OPTS_INIT;
    const pgw_status st = pgw_queue_drop(h, "q5", true);
    o.max_attempts = 50, o.backoff_ms = 100;
    while (pgw_queue_create(h, "q5", &o) != PGW_OK && going()) nap_ms(50);
    admin_end(OP_drp, call, st, st == PGW_OK, C_drop);
}

typedef struct some_jobs {
    pgw_ref refs[20];
    int queue;
    size_t n;
} some_jobs;
static int note_id(const pgw_job *job, void *arg)
{
    some_jobs *some = arg;
    some->refs[some->n++] = pgw_job_ref(job);
    return some->n == 20;
}

void admin_cancel(pgw *by, int queue, bool undo)
{
    static const pgw_state states[] = {PGW_STATE_READY, PGW_STATE_DELAYED, PGW_STATE_LEASED,
                                       PGW_STATE_GATED};
    some_jobs some = {.queue = queue};
    int64_t calls[20];
    pgw_jobs_opts o = PGW_JOBS_OPTS_INIT;

    o.queue = queue_name(some.queue),
    o.state = undo ? PGW_STATE_GATED : states[draw(queue < GROUPED ? 3 : 4)],
    o.limit = 1 + draw(19);
    if (pgw_jobs_each(by, &o, note_id, &some) < 0 || some.n == 0) return;
    for (size_t i = 0; i < some.n; i++) {
        calls[i] = hist_call();
        hist_add(calls[i], 'i', OP_can, some.queue, some.refs[i].id);
    }
    hist_flush();
    pgw_status st = undo ? pgw_txn_begin(by) : PGW_OK;
    if (st == PGW_OK) st = pgw_cancel(by, queue_name(some.queue), some.refs, some.n);
    if (undo) {
        nap_ms(draw(1500)); /* nobody may pass them meanwhile */
        pgw_txn_rollback(by);
        st = PGW_ECONN; /* not applied, for certain: no COMMIT was sent */
    }
    bool did = false;
    for (size_t i = 0; i < some.n; i++) {
        did |= st >= 0 && some.refs[i].outcome >= 0;
        hist_add(calls[i], 'o', OP_can, st < 0 ? outcome(st) : outcome(some.refs[i].outcome));
    }
    hist_flush();
    if (did) fired(C_cancel_job);
}

void role_operator(void)
{
    h = open_handle();
    while (going()) {
        int64_t n = 0, call;
        pgw_status st;
        switch (draw(12)) {
        case 0:
        case 1: pause_queue(); break;
        case 2:
            call = admin_begin(OP_pur, 2, 0);
            st = pgw_queue_purge(h, "q2", draw(2) ? PGW_STATE_READY : PGW_STATE_DELAYED, &n);
            admin_end(OP_pur, call, st, n > 0, C_purge);
            break;
        case 3: drop_queue(); break;
        case 4:
        case 5:
            call = admin_begin(OP_red, 1, 0);
            st = pgw_redrive(h, "q1", NULL, &n);
            admin_end(OP_red, call, st, n > 0, C_redrive);
            break;
        case 6:
        case 7:
        case 8:
            call = admin_begin(OP_res, 1, 0);
            st = pgw_reschedule(h, "q1", NULL, &n);
            admin_end(OP_res, call, st, n > 0, C_reschedule);
            break;
        default: admin_cancel(h, 1 + draw(2), false);
        }
        nap_ms(draw(1000));
    }
    pgw_close(h);
}
