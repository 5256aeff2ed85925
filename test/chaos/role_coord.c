/* SPDX-License-Identifier: PostgreSQL
 *
 * role_coord.c: locks, permits, ticks that a node holds, counters, and leases on the rows of a
 * table.
 */
#include "role.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pgw *h;

/* -- locks -- */

static pgw_lock_mode lock_mode(bool shared)
{
    return shared ? PGW_LOCK_SHARED : PGW_LOCK_EXCLUSIVE;
}

static void lock_session(const char *name, int64_t lock, bool shared)
{
    pgw_lock *l = NULL;
    int64_t call = hist_call();
    const int64_t timeout_ms = draw(3) ? 20000 : 0;

    hist(call, 'i', OP_lck, lock, shared, timeout_ms);
    pgw_set_timeout(h, timeout_ms + 20000);
    pgw_status st = pgw_lock_acquire(h, name, LOCK_AS(lock_mode(shared), timeout_ms), &l);
    hist(call, 'o', OP_lck, outcome(st), st == PGW_OK ? pgw_lock_fence(l) : 0);
    pgw_set_timeout(h, 20000);
    if (st != PGW_OK) return;
    effect(LOCK_OBJECT(lock), (uint64_t)pgw_lock_fence(l), 0);
    nap_ms(draw(40));
    if (pgw_lock_is_held(l)) effect(LOCK_OBJECT(lock), (uint64_t)pgw_lock_fence(l), 0);
    call = hist_call();
    hist(call, 'i', OP_ulk, lock, shared);
    st = pgw_lock_release(l);
    hist(call, 'o', OP_ulk, outcome(st));
}

static void lock_transaction(const char *name, int64_t lock, bool shared)
{
    int64_t fence = 0, call;

    if (pgw_txn_begin(h) != PGW_OK) {
        pgw_txn_rollback(h);
        return;
    }
    call = hist_call();
    hist(call, 'i', OP_lck, lock, shared, 5000);
    pgw_status st = pgw_lock_acquire_xact(h, name, LOCK_AS(lock_mode(shared), 5000), &fence);
    hist(call, 'o', OP_lck, outcome(st) == S_OK ? S_OK : S_NOT, fence);
    nap_ms(draw(20));
    if (st != PGW_OK) {
        pgw_txn_rollback(h);
        return;
    }
    call = hist_call();
    hist(call, 'i', OP_ulk, lock, shared);
    st = pgw_txn_commit(h);
    hist(call, 'o', OP_ulk, outcome(st));
}

void role_lock(void)
{
    h = open_handle();
    pgw_set_stop(h, stop);
    while (going()) {
        const int64_t lock = draw(4);
        char name[20];
        snprintf(name, sizeof(name), "lock %d", (int)lock);
        if (draw(4))
            lock_session(name, lock, draw(3) == 0);
        else
            lock_transaction(name, lock + 4,
                             draw(3) == 0); /* others: of an undone number less is known */
        nap_ms(draw(20));
    }
    pgw_close(h);
}

/* -- permits -- */

void role_sema(void)
{
    h = open_handle();
    pgw_set_stop(h, stop);
    while (going()) {
        pgw_sema_opts o = PGW_SEMA_OPTS_INIT;
        pgw_token token;
        const int64_t ttl_ms = 300 + draw(1200);
        int64_t call = hist_call();

        o.permits = 1 + draw(2), o.ttl_ms = ttl_ms, o.timeout_ms = draw(3) * 500;
        o.session = draw(4) == 0 && strstr(pgw_conf_get(conf, "dsn"), "6432") == NULL;
        hist(call, 'i', OP_sem, 0, o.permits, ttl_ms, o.session);
        pgw_status st = pgw_sema_acquire(h, "permits", &o, &token);
        hist(call, 'o', OP_sem, outcome(st), st == PGW_OK ? (int64_t)token.number : 0);
        if (st != PGW_OK) {
            nap_ms(draw(50));
            continue;
        }
        nap_ms(draw(200));
        if (draw(3) == 0) {
            call = hist_call();
            hist(call, 'i', OP_sex, 0, o.permits, ttl_ms, o.session, (int64_t)token.number);
            st = pgw_sema_extend(h, "permits", token, ttl_ms);
            hist(call, 'o', OP_sex, outcome(st));
            nap_ms(draw(200));
        }
        if (draw(8) == 0) continue; /* to its end */
        call = hist_call();
        hist(call, 'i', OP_srl, 0, o.permits, ttl_ms, o.session, (int64_t)token.number);
        st = pgw_sema_release(h, "permits", token);
        hist(call, 'o', OP_srl, outcome(st));
    }
    pgw_close(h);
}

/* -- ticks -- */

void role_node(void)
{
    static const char *const names[] = {"node 0", "node 1"};

    h = open_handle();
    while (going()) {
        pgw_tick *tick = NULL;
        int64_t next_ms = 0;
        const int one = draw(2);
        if (pgw_cron_claim_due(h, DUE_FOR(NULL, &names[one], 1), &tick, &next_ms) != PGW_OK) {
            nap_ms(draw(100));
            continue;
        }
        const int64_t slot = pgw_tick_slot_us(tick), number = (int64_t)pgw_tick_token(tick).number;
        const int what = draw(10);
        hist(0, 'e', OP_tic, one, slot, number);
        if (what == 0)
            nap_ms(600 + draw(600));
        else
            nap_ms(draw(50));
        const int64_t call = hist_call();
        const enum op op = what == 1 ? OP_trl : OP_tfi;
        if (what != 2) {
            hist(call, 'i', op, one, slot, number);
            const pgw_status st = op == OP_trl ? pgw_cron_release(h, pgw_tick_token(tick))
                                               : pgw_cron_finish(h, pgw_tick_token(tick), NULL);
            hist(call, 'o', op, outcome(st));
        }
        pgw_tick_free(tick);
    }
    pgw_close(h);
}

/* -- counters: optimistic writes -- */

static pgw_table *table(const char *name, bool leases)
{
    static const char *const key[] = {"id"};
    pgw_table_spec spec = PGW_TABLE_SPEC_INIT;
    pgw_table *t = NULL;

    spec.table = name, spec.key = key, spec.key_count = 1;
    if (leases)
        spec.locked_by = "locked_by", spec.expires_at = "expires_at", spec.token = "token";
    else
        spec.version = "version";
    while (going() && pgw_table_open(h, &spec, &t) != PGW_OK) {
        pgw_table_free(t);
        t = NULL;
        nap_ms(100);
    }
    if (!t) exit(0);
    return t;
}

static pgw_status add(pgw_edit *edit, void *arg)
{
    char text[30];
    snprintf(text, sizeof(text), "%lld", atoll(pgw_edit_get(edit, "n")) + *(int64_t *)arg);
    return pgw_edit_set(edit, "n", text);
}

void role_counter(void)
{
    h = open_handle();
    pgw_table *t = table("counter", false);
    for (int64_t n = 1; going(); n++) {
        const int counter = 4 + draw(4);
        int64_t amount = 1 + draw(5), st;
        char id[20], op[60];
        const char *key[] = {id};
        pgw_table_process_opts o = PGW_TABLE_PROCESS_OPTS_INIT;

        snprintf(id, sizeof(id), "%d", counter);
        snprintf(op, sizeof(op), "00000000-0000-4000-8%03d-%012" PRId64, hist_proc % 1000,
                 hist_proc / 1000 * 10000000 + n);
        o.key = key, o.op = op, o.tries = 1000;
        const int64_t call = hist_call();
        hist(call, 'i', OP_inc, counter, amount);
        do { /* with its operation id until it is certain */
            st = outcome(pgw_table_process(h, t, &o, add, &amount));
        } while (st != S_OK && (nap_ms(20), going()));
        hist(call, 'o', OP_inc, st == S_OK ? S_OK : S_UNKNOWN);
        nap_ms(draw(30));
    }
    pgw_table_free(t);
    pgw_close(h);
}

/* -- rows -- */

void role_rows(void)
{
    char holder[30];

    h = open_handle();
    pgw_table *t = table("leased", true);
    snprintf(holder, sizeof(holder), "holder %d", hist_proc);
    while (going()) {
        pgw_table_claim_opts o = PGW_TABLE_CLAIM_OPTS_INIT;
        pgw_rows *rows = NULL;
        const int64_t claim = hist_call(), lease_ms = 300 + draw(1000);

        o.max = 1 + draw(3), o.lease_ms = lease_ms, o.holder = holder;
        hist(claim, 'i', OP_row, o.max, lease_ms);
        const pgw_status st = pgw_table_claim(h, t, &o, &rows);
        for (size_t i = 0; i < pgw_rows_count(rows); i++)
            hist_add(claim, 'e', OP_rgt, atoll(pgw_rows_key(rows, i)[0]),
                     (int64_t)pgw_rows_ref(rows, i).token.number, lease_ms);
        hist(claim, 'o', OP_row, outcome(st));
        if (st != PGW_OK) nap_ms(draw(50));
        for (size_t i = 0; i < pgw_rows_count(rows); i++) {
            pgw_row_ref ref = pgw_rows_ref(rows, i);
            const int64_t id = atoll(ref.key[0]), number = (int64_t)ref.token.number;
            const int what = draw(10);
            effect(ROW_OBJECT(id), ref.token.number, ref.token.nonce);
            if (what == 0) continue;
            if (what == 1) nap_ms(lease_ms + draw(500));
            const int64_t call = hist_call();
            const enum op op = what == 2 ? OP_rrl : OP_rfi;
            hist(call, 'i', op, id, number);
            const pgw_status s =
                op == OP_rrl ? pgw_table_release(h, t, &ref, 1)
                             : pgw_table_finish(h, t, &ref, 1, FINISH("n = t.n + 1", NULL, 0));
            hist(call, 'o', op, outcome(s));
        }
        pgw_rows_free(rows);
        nap_ms(draw(20));
    }
    pgw_table_free(t);
    pgw_close(h);
}
