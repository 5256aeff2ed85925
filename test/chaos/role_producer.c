/* SPDX-License-Identifier: PostgreSQL
 *
 * role_producer.c: adds jobs, alone and many at a time, delayed, with unique keys and operation
 * ids, in transactions that commit and roll back. Each job's kind names its producer and a number.
 */
#include "role.h"
#include <stdio.h>
#include <stdlib.h>

static pgw *h;
static int made; /* numbers given out */

#define MANY 400
enum { PATIENT_ADDS = 30 };
typedef struct adds {
    int queue, first, n, key;
    int64_t delay_ms, call;
    bool op, open;
} adds;

static adds plan(int queue, int n)
{
    adds a = {.queue = queue, .first = made + 1, .n = n};
    made += n;
    return a;
}

static void begin(adds *a)
{
    a->call = hist_call();
    hist(a->call, 'i', OP_enq, a->queue, a->first, a->n, a->key, a->delay_ms, a->op, a->open);
}

static pgw_status send(const adds *a)
{
    static char kinds[MANY][32];
    static pgw_job_spec jobs[MANY];
    char op[40], key[20];

    for (int i = 0; i < a->n; i++) {
        jobs[i] = (pgw_job_spec)PGW_JOB_SPEC_INIT;
        snprintf(kinds[i], sizeof(kinds[i]), "%d.%d", hist_proc, a->first + i);
        jobs[i].kind = kinds[i];
        jobs[i].payload = "{\"a\": 1}";
        jobs[i].delay_ms = a->delay_ms;
        jobs[i].priority = a->queue == 1 ? (a->first / 3) % 3 : 0;
    }
    snprintf(op, sizeof(op), "00000000-0000-4000-8%03d-%012d", hist_proc % 1000,
             hist_proc / 1000 * 10000000 + a->first);
    snprintf(key, sizeof(key), "k%d", a->key);
    if (a->key) jobs[0].key = key;
    if (a->op) jobs[0].op = op;
    if (a->n == 1 && a->first % 2) return pgw_enqueue(h, queue_name(a->queue), &jobs[0], NULL);
    return pgw_enqueue_many(h, queue_name(a->queue), jobs, (size_t)a->n, NULL);
}

static void alone(adds a)
{
    int64_t st;
    do {
        begin(&a);
        st = outcome(send(&a));
        hist(a.call, 'o', OP_enq, st);
        if (st == S_UNKNOWN && a.op) nap_ms(20);
    } while ((st == S_UNKNOWN || st == S_NOT) && a.op && going());
}

/* Several, which stand or fall together, with a pause after each, and one before the end. Did they
 * end as planned? */
static bool together(int n, bool keep, int64_t pause_ms, int64_t open_ms)
{
    adds a[PATIENT_ADDS];
    int begun = 0;
    int64_t st = outcome(pgw_txn_begin(h));
    for (; st == S_OK && begun < n; begun++) {
        a[begun] = plan(draw(4), pause_ms ? 1 : 1 + draw(30));
        a[begun].open = true;
        begin(&a[begun]);
        st = outcome(send(&a[begun]));
        nap_ms(pause_ms);
    }
    nap_ms(open_ms);
    const bool whole = st == S_OK;
    if (whole && keep) {
        st = outcome(pgw_txn_commit(h));
    } else {
        pgw_txn_rollback(h);
        st = S_NOT;
    }
    for (int i = 0; i < begun; i++) hist(a[i].call, 'o', OP_enq, st);
    return whole && (st == S_OK) == keep;
}

void role_producer(void)
{
    const int pause_ms = getenv("CHAOS_PACE_MS") ? atoi(getenv("CHAOS_PACE_MS")) : 50;

    h = open_handle();
    while (going()) {
        adds a = {0};
        switch (draw(10)) {
        case 0: a = plan(0, 100 + draw(MANY - 99)); break;
        case 1: a = plan(draw(6) == 4 ? 0 : draw(4), 1 + draw(40)); break;
        case 2: together(1 + draw(3), draw(3) > 0, 0, 0); break;
        case 3:
            a = plan(1, 1);
            a.key = 1 + draw(8);
            break;
        case 4:
        case 5:
            a = plan(draw(3), 1 + draw(3));
            a.op = true;
            break;
        case 6:
            a = plan(1, 1 + draw(10));
            a.delay_ms = 100 + draw(2000);
            break;
        case 7: a = plan(5, 1 + draw(5)); break;
        default: a = plan(draw(4), 1); a.op = draw(2);
        }
        if (a.n) alone(a);
        nap_ms(draw(2 * pause_ms));
    }
    pgw_close(h);
}

/* A producer that takes its time. */
void role_late(void)
{
    h = open_handle();
    for (int i = 0; going(); i++) {
        const bool keep = i % 3 != 1;
        if (together(1 + draw(4), keep, 0, i < 2 ? 1500 : 500 + draw(draw(3) ? 3000 : late_ms())))
            fired(keep ? C_late_commit : C_late_rollback);
        nap_ms(draw(500));
    }
    pgw_close(h);
}

/* One that is open for half a minute. It adds a job every second, so it notices when its session is
 * lost, and begins again. Then it pauses: a REINDEX CONCURRENTLY waits for it. */
void role_patient(void)
{
    h = open_handle();
    for (bool keep = hist_proc % 2; going();) {
        if (!together(PATIENT_ADDS, keep, late_ms() / PATIENT_ADDS, 0)) {
            nap_ms(100);
        } else if (going()) {
            fired(keep ? C_open_commit : C_open_rollback);
            keep = !keep;
            nap_ms(2 * late_ms());
        }
    }
    pgw_close(h);
}
