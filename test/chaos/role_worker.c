/* SPDX-License-Identifier: PostgreSQL
 *
 * role_worker.c: claims jobs and finishes them in every way: by verbs, by the worker runtime; and
 * the reaper, which requeues the jobs of expired leases.
 */
#include "role.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pgw *h;
static const int sizes[] = {1, 7, 33, 100, 1000};

typedef struct hand { /* jobs that are held */
    int queue;
    size_t n;
    int64_t lease_ms;
    pgw_ref refs[MAX_JOBS];
    int64_t calls[MAX_JOBS];
} hand;

static void begin(enum op op, hand *j, size_t from, size_t n, int64_t what)
{
    for (size_t i = from; i < from + n; i++) {
        j->calls[i] = hist_call();
        hist_add(j->calls[i], 'i', op, j->queue, j->refs[i].id, (int64_t)j->refs[i].token.number,
                 (int64_t)j->refs[i].token.nonce, what);
    }
    hist_flush();
}

static void finish(enum op op, hand *j, size_t from, size_t n, pgw_status st)
{
    const bool each = st == PGW_OK || st == PGW_ELEASE || st == PGW_ELOCKED;

    for (size_t i = from; i < from + n; i++)
        hist_add(j->calls[i], 'o', op, outcome(each ? j->refs[i].outcome : st));
    hist_flush();
}

/* One verb for some of the jobs. Returns how many were accepted. */
static void verb(enum op op, hand *j, size_t from, size_t n, int64_t what)
{
    const char *queue = queue_name(j->queue);
    pgw_ref *refs = j->refs + from;
    pgw_fail_opts o = PGW_FAIL_OPTS_INIT;
    pgw_status st = PGW_OK;

    if (n == 0) return;
    begin(op, j, from, n, what);
    o.error = "chaos", o.retry_ms = what, o.dead = op == OP_ded;
    if (op == OP_ext) st = pgw_extend(h, queue, refs, n, EXTEND_BY(what));
    if (op == OP_don) st = pgw_complete(h, queue, refs, n, NULL);
    if (op == OP_rel) st = pgw_release(h, queue, refs, n);
    if (op == OP_snz) st = pgw_snooze(h, queue, refs, n, SNOOZE_BY(what));
    if (op == OP_fai || op == OP_ded) st = pgw_fail(h, queue, refs, n, &o);
    finish(op, j, from, n, st);
}

static void take(hand *j, int64_t call, pgw_status st, pgw_batch *batch, int max)
{
    j->n = pgw_batch_count(batch);
    for (size_t i = 0; i < j->n; i++) {
        const pgw_job *job = pgw_batch_job(batch, i);
        j->refs[i] = pgw_job_ref(job);
        hist_add(call, 'e', OP_got, j->queue, j->refs[i].id, (int64_t)j->refs[i].token.number,
                 (int64_t)j->refs[i].token.nonce, pgw_job_attempt(job), made_of(pgw_job_kind(job)),
                 j->lease_ms);
    }
    hist_add(call, 'o', OP_clm, outcome(st), (int64_t)j->n);
    for (int c = 0; c < 5; c++)
        if (sizes[c] == max && j->n > (max == 1000 ? 100u : 0u))
            hist_add(0, 'e', OP_nem, C_claim_1 + c);
    hist_flush();
    pgw_batch_free(batch);
}

/* Claims up to `max` for j->lease_ms from the queue j->queue, and in the same call completes what
 * is left of the last claim where `done` says so. */
static void claim(hand *j, int max, bool done)
{
    pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;
    pgw_batch *batch = NULL;
    const size_t finished = done ? j->n : 0;
    pgw_status st;

    const char *queue = queue_name(j->queue);
    o.queues = &queue, o.queues_count = 1;
    o.max = max, o.lease_ms = j->lease_ms;
    o.apart = draw(8) == 0;
    if (done) begin(OP_don, j, 0, finished, 0);
    const int64_t call = hist_call();
    hist(call, 'i', OP_clm, j->queue, o.max, j->lease_ms);
    if (done) {
        st = pgw_complete_and_claim(h, j->refs, finished, &o, &batch);
        finish(OP_don, j, 0, finished, st == PGW_OUTCOME_EMPTY ? PGW_OK : st);
    } else {
        st = pgw_claim(h, &o, &batch);
    }
    take(j, call, st, batch, o.max);
}

/* Finishes them in one of many ways. Returns true if the rest is to be completed by the next claim.
 */
static bool settle(hand *j)
{
    int what = calm() ? 19 : draw(20);
    size_t half = j->n / 2;

    if (j->queue >= GROUPED && what < 3 && draw(4)) what = 19; /* few at a time: so seldom slowly */
    if (what == 0 && (j->n <= 100 || draw(4) == 0)) return false; /* forgotten */
    if (what == 1 && (j->n <= 100 || draw(4) == 0)) {
        nap_ms(j->lease_ms + 200 + draw(1500)); /* too late, perhaps */
        verb(OP_don, j, 0, j->n, 0);
    } else if (what == 2 || (what == 1 && j->n > 100)) {
        verb(OP_ext, j, 0, half + 1, 2000);
        nap_ms(draw(1000));
        verb(OP_don, j, 0, j->n, 0);
    } else if (what == 3) {
        verb(OP_rel, j, 0, j->n, 0);
    } else if (what == 4) {
        verb(OP_snz, j, 0, half, 100 + draw(400));
        verb(OP_don, j, half, j->n - half, 0);
    } else if (what == 5) {
        verb(OP_don, j, 0, half, 0);
        verb(OP_fai, j, half, j->n - half, draw(300));
    } else if (what == 6 && (j->queue == 1 || j->queue == 8)) {
        verb(OP_ded, j, 0, 1, 0);
        verb(OP_don, j, 1, j->n - 1, 0);
    } else if (what == 7) {
        verb(OP_don, j, 0, half, 0);
        verb(OP_don, j, 0, j->n, 0); /* half of them again: refused */
    } else if (what < 14) {
        return true;
    } else {
        verb(OP_don, j, 0, j->n, 0);
    }
    return false;
}

void role_worker(void)
{
    static hand j;
    bool done = false;

    h = open_handle();
    while (going()) {
        if (!done)
            j.queue = rated_or(draw(4) == 0   ? GROUPED + draw(4)
                               : draw(8) == 0 ? 4 + draw(2)
                                              : draw(4));
        j.lease_ms = 1000 + draw(1500);
        claim(&j, sizes[draw(5)], done);
        done = false;
        for (size_t i = 0; i < j.n && i < 40; i++) /* some: the sink is not what is tested */
            effect(j.refs[i].id, j.refs[i].token.number, j.refs[i].token.nonce);
        if (j.n)
            done = settle(&j);
        else
            nap_ms(draw(30));
    }
    if (done) verb(OP_don, &j, 0, j.n, 0);
    pgw_close(h);
}

/* Holds jobs of groups for long, and finishes one after the other: groups are full, others wait. */
void role_slow(void)
{
    static hand j;

    h = open_handle();
    while (going()) {
        j.queue = draw(8) ? GROUPED + draw(4) : 4, j.lease_ms = 6000; /* 4: ticks */
        claim(&j, 33, false);
        for (size_t i = 0; i < j.n; i++) {
            nap_ms(calm() ? 0 : draw(200));
            const bool dead = j.queue == 8 && !calm() && draw(40) == 0; /* it stops its group */
            verb(dead ? OP_ded : OP_don, &j, i, 1, 0);
        }
        if (j.n == 0) nap_ms(draw(30));
    }
    pgw_close(h);
}

/* -- a line of its own ----------------------------------------------------------------------------
 */

static void add_to_line(int n, int priority)
{
    static int made; /* numbers given out */
    static pgw_job_spec jobs[3];
    static char kinds[3][32];
    for (int i = 0; i < n; i++) {
        snprintf(kinds[i], sizeof(kinds[i]), "%d.%d", hist_proc, made + 1 + i);
        jobs[i] = (pgw_job_spec)PGW_JOB_SPEC_INIT;
        jobs[i].kind = kinds[i], jobs[i].group = "g0", jobs[i].priority = priority;
    }
    const int64_t call = hist_call();
    hist(call, 'i', OP_enq, LINE, made + 1, n, 0, 0, 0);
    made += n;
    hist(call, 'o', OP_enq, outcome(pgw_enqueue_many(h, queue_name(LINE), jobs, (size_t)n, NULL)));
}

static void clear_line(void)
{
    hand j = {.queue = LINE, .lease_ms = 2000};
    do {
        claim(&j, 7, false);
        verb(OP_don, &j, 0, j.n, 0);
    } while (j.n && going());
}

/* A group of two: one job runs, several urgent ones come, and the first of them runs for long. Its
 * other place is for the next urgent job as soon as the first job is done. */
void role_line(void)
{
    static hand first, urgent;
    h = open_handle();
    while (going()) {
        clear_line(); /* what is left, perhaps of one that was killed */
        if (calm()) {
            nap_ms(100);
            continue;
        }
        first.queue = urgent.queue = LINE;
        first.lease_ms = urgent.lease_ms = 40000;
        add_to_line(1, 1);
        claim(&first, 1, false);
        add_to_line(3, 0);
        claim(&urgent, 1, false);
        verb(OP_don, &first, 0, first.n, 0);
        for (int i = 0; i < 280 && going() && !calm(); i++) nap_ms(100);
        verb(OP_don, &urgent, 0, urgent.n, 0);
    }
    pgw_close(h);
}

/* -- the runtime ---------------------------------------------------------------------------------
 */

static pgw_verdict handle(pgw_task *task, void *arg)
{
    const pgw_job *job = pgw_task_job(task);
    const pgw_ref ref = pgw_job_ref(job);
    const int queue = atoi(pgw_job_queue(job) + 1), what = calm() ? 0 : (int)(ref.id % 16);

    (void)arg;
    hist(0, 'e', OP_got, queue, ref.id, (int64_t)ref.token.number, (int64_t)ref.token.nonce,
         pgw_job_attempt(job), made_of(pgw_job_kind(job)), 0);
    if (what == 3) nap_ms(ref.id % 1500);
    if (pgw_task_signals(task) & PGW_SIGNAL_LOST) return PGW_VERDICT_RELEASE;
    effect(ref.id, ref.token.number, ref.token.nonce);
    /* The runtime reports the result by itself: what came of it is not known here. */
    const enum op op = what == 5 ? OP_fai : what == 6 ? OP_rel : OP_don;
    hist(hist_call(), 'i', op, queue, ref.id, (int64_t)ref.token.number, (int64_t)ref.token.nonce);
    pgw_task_set_delay(task, 50);
    return op == OP_fai ? PGW_VERDICT_RETRY : op == OP_rel ? PGW_VERDICT_RELEASE : PGW_VERDICT_DONE;
}

static void log_error(pgw_log_level level, const char *module, const char *message, void *arg)
{
    (void)arg;
    if (level <= PGW_LOG_WARN) fprintf(stderr, "%d: %s: %s\n", hist_proc, module, message);
}

void role_runtime(void)
{
    const char *queues[] = {"q0", "q1", "q2", "q3", "q4",  "q5",
                            "q6", "q7", "q8", "q9", "q10", "q11"};
    pgw_worker_spec spec = PGW_WORKER_SPEC_INIT;
    pgw_worker *w = NULL;

    spec.queues = queues, spec.queues_count = rates_on() ? LINE : RATED, spec.handler = handle;

    pgw_conf_set_log(conf, PGW_LOG_WARN, log_error, NULL);
    pgw_conf_set(conf, "holder", "runtime");
    pgw_conf_set(conf, "worker.lease_ms", "1500");
    pgw_conf_set(conf, "worker.concurrency", "3");
    while (going()) {
        if (pgw_worker_new(conf, &spec, &w) != PGW_OK) exit(2);
        if (pgw_worker_run(w, stop) != PGW_OK)
            fprintf(stderr, "%d: worker: %s\n", hist_proc, pgw_worker_error(w));
        pgw_worker_free(w);
    }
}

void role_reaper(void)
{
    pgw_reaper *r;

    while (going()) {
        if (pgw_reaper_new(conf, &r) != PGW_OK) exit(2);
        if (pgw_reaper_run(r, stop) != PGW_OK)
            fprintf(stderr, "%d: reaper: %s\n", hist_proc, pgw_reaper_error(r));
        pgw_reaper_free(r);
    }
}
