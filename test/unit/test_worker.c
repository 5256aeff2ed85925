/* The worker against a server in memory. Every answer can fail, and the clock can jump. Longer than
 * 600 lines: every promise of the worker against one server in memory, with the handlers below. */
#include "unity.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backoff.h"
#include "buf.h"
#include "clock.h"
#include "conf.h"
#include "json.h"
#include "fake_server.h"
#include "log.h"
#include "mem.h"
#include "name.h"
#include "status.h"
#include "stop.h"
#include "wake.h"
#include "worker_flush.h"
#include "worker_heartbeat.h"
#include "worker_kind.h"
#include "worker_plan.h"
#include "worker_pool.h"
#include "worker_progress.h"
#include "worker_report.h"
#include "worker_state.h"
#include "worker_why.h"

TEST_SOURCE_FILE("src/worker/worker.c")

static pgw_conf *conf;
static pgw_stop *stop;
static pgw_worker *w;
static pgw_worker_stats stats;
static pthread_t thread; /* the worker's, ... */
static bool runs_beside; /* ... if there is one */
static atomic_int called, phase, seen;
static atomic_int in_vain; /* handlers that waited so */
static const char *const one[] = {"q"};
static const char *const two[] = {"q", "r"};

void setUp(void)
{
    fake_reset();
    atomic_store(&called, 0);
    atomic_store(&phase, 0);
    atomic_store(&seen, 0);
    atomic_store(&in_vain, 0);
    w = NULL;
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_conf_new(&conf));
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_stop_new(&stop));
    pgw_conf_set(conf, "worker.until_empty", "on");
    pgw_conf_set(conf, "poll.min_ms", "1");
    pgw_conf_set(conf, "poll.max_ms", "5");
    pgw_conf_set(conf, "reconnect.base_ms", "1");
    pgw_conf_set(conf, "reconnect.cap_ms", "3");
}

static void nap(int ms)
{
    poll(NULL, 0, ms);
}

static pgw_status join(void)
{
    void *st;

    pthread_join(thread, &st);
    runs_beside = false;
    return (pgw_status)(intptr_t)st;
}

/* After a test that failed: neither the worker nor its handlers may outlive what they use. A
 * handler that was left behind is let go before the next test sets `phase`. */
static void end_what_runs(void)
{
    int i;

    atomic_store(&phase, INT_MAX);
    if (runs_beside) {
        for (i = 0; i < FAKE_VERBS; i++) fake_fails((fake_verb)i, PGW_OK, 0, 0);
        fake_hangs(false);
        pgw_stop_notify(stop);
        pgw_stop_notify(stop);
        join();
    }
    for (i = 0; i < 20000 && w != NULL && pgw__worker_runs(w->pool); i++) nap(1);
}

void tearDown(void)
{
    end_what_runs();
    pgw_worker_free(w);
    pgw_stop_free(stop);
    pgw_conf_free(conf);
    TEST_ASSERT_EQUAL_INT_MESSAGE(0, atomic_load(&in_vain), "a handler waited in vain");
}

static void set(const char *name, const char *value)
{
    TEST_ASSERT_EQUAL_INT_MESSAGE(PGW_OK, pgw_conf_set(conf, name, value), name);
}

static pgw_status run(const char *const *queues, size_t n, pgw_handler_fn *fn,
                      pgw_batch_fn *batch_fn)
{
    pgw_status st;

    TEST_ASSERT_EQUAL_INT(
        PGW_OK,
        pgw_worker_new(
            conf, &(pgw_worker_spec){sizeof(pgw_worker_spec), queues, n, fn, batch_fn, NULL}, &w));
    st = pgw_worker_run(w, stop);
    stats.struct_size = sizeof(stats);
    pgw_worker_get_stats(w, &stats);
    return st;
}

static void *run_in_thread(void *arg)
{
    (void)arg;
    return (void *)(intptr_t)pgw_worker_run(w, stop);
}

static void begin(void)
{
    TEST_ASSERT_EQUAL_INT(0, pthread_create(&thread, NULL, run_in_thread, NULL));
    runs_beside = true;
}

static void start(pgw_handler_fn *fn)
{
    TEST_ASSERT_EQUAL_INT(
        PGW_OK, pgw_worker_new(
                    conf, &(pgw_worker_spec){sizeof(pgw_worker_spec), one, 1, fn, NULL, NULL}, &w));
    begin();
}

static void let_it_end(void)
{
    atomic_store(&phase, 1);
    pgw_stop_notify(stop);
    join();
}

static bool has_come(atomic_int *what, int value)
{
    int i;

    for (i = 0; i < 20000 && atomic_load(what) < value; i++) nap(1);
    return atomic_load(what) >= value;
}

/* Waits for a value, or fails. */
static void await(atomic_int *what, int value)
{
    if (!has_come(what, value)) TEST_FAIL_MESSAGE("waited in vain");
}

/* The same for a count of jobs, which may change again. */
static void await_count(fake_state state, int n)
{
    int count = fake_count(state);

    for (int i = 0; i < 20000 && count != n; i++, nap(1)) count = fake_count(state);
    TEST_ASSERT_EQUAL_INT(n, count);
}

/* ---- handlers: an assertion may fail in the test's own thread only ---- */

static void await_phase(int value)
{
    if (!has_come(&phase, value)) atomic_fetch_add(&in_vain, 1);
}

static pgw_verdict noop(pgw_task *task, void *arg)
{
    (void)task, (void)arg;
    atomic_fetch_add(&called, 1);
    return PGW_VERDICT_DONE;
}

static void noop_batch(pgw_task *const *tasks, size_t n, void *arg)
{
    (void)tasks, (void)arg;
    atomic_fetch_add(&called, (int)n);
    if ((int)n > atomic_load(&seen)) atomic_store(&seen, (int)n);
}

/* Waits until the test says `phase` 1, then is done. */
static pgw_verdict held(pgw_task *task, void *arg)
{
    (void)task, (void)arg;
    atomic_fetch_add(&called, 1);
    await_phase(1);
    return PGW_VERDICT_DONE;
}

/* Waits for a signal on the descriptor, and keeps it. */
static pgw_verdict until_signalled(pgw_task *task, void *arg)
{
    struct pollfd fd = {pgw_task_fd(task), POLLIN, 0};

    (void)arg;
    atomic_fetch_add(&called, 1);
    if (poll(&fd, 1, 20000) != 1) atomic_fetch_add(&in_vain, 1);
    atomic_store(&seen, pgw_task_signals(task));
    return PGW_VERDICT_RETRY;
}

/* ---- birth (first of all: an allocator may be set only while no other thread is there) ---- */

static int budget;

static void *lean_alloc(void *ctx, size_t size)
{
    (void)ctx;
    return budget-- > 0 ? malloc(size) : NULL;
}

static void *lean_realloc(void *ctx, void *p, size_t size)
{
    (void)ctx;
    return budget-- > 0 ? realloc(p, size) : NULL;
}

static void lean_free(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

void test_without_memory_no_worker_is_created_and_nothing_leaks(void)
{
    const pgw_allocator lean = {NULL, lean_alloc, lean_realloc, lean_free};
    pgw_status st = PGW_ENOMEM;
    int n;

    for (n = 0; st == PGW_ENOMEM && n < 1000; n++) {
        budget = n;
        pgw_set_allocator(&lean);
        st = pgw_worker_new(
            conf, &(pgw_worker_spec){sizeof(pgw_worker_spec), two, 2, noop, NULL, NULL}, &w);
        pgw_set_allocator(NULL);
        if (st == PGW_ENOMEM) TEST_ASSERT_NULL(w);
    }
    TEST_ASSERT_EQUAL_INT(PGW_OK, st);
    TEST_ASSERT_GREATER_THAN_INT(10, n);
}

void test_an_invalid_worker_spec_is_refused(void)
{
    const char *const bad[] = {"a\nb"};

    TEST_ASSERT_EQUAL_INT(
        PGW_EINVAL,
        pgw_worker_new(conf, &(pgw_worker_spec){sizeof(pgw_worker_spec), one, 0, noop, NULL, NULL},
                       &w));
    TEST_ASSERT_NULL(w);
    TEST_ASSERT_EQUAL_INT(
        PGW_EINVAL,
        pgw_worker_new(conf, &(pgw_worker_spec){sizeof(pgw_worker_spec), one, 65, noop, NULL, NULL},
                       &w));
    TEST_ASSERT_EQUAL_INT(
        PGW_EINVAL,
        pgw_worker_new(conf, &(pgw_worker_spec){sizeof(pgw_worker_spec), NULL, 1, noop, NULL, NULL},
                       &w));
    TEST_ASSERT_EQUAL_INT(
        PGW_EINVAL,
        pgw_worker_new(conf, &(pgw_worker_spec){sizeof(pgw_worker_spec), bad, 1, noop, NULL, NULL},
                       &w));
    TEST_ASSERT_EQUAL_INT(
        PGW_EINVAL,
        pgw_worker_new(
            conf, &(pgw_worker_spec){sizeof(pgw_worker_spec), one, 1, noop, noop_batch, NULL}, &w));
}

/* ---- every job once ---- */

static void all_done_once(int n)
{
    int i;

    TEST_ASSERT_EQUAL_INT(n, atomic_load(&called));
    TEST_ASSERT_EQUAL_INT(n, fake_count(FAKE_DONE));
    for (i = 1; i <= n; i++) TEST_ASSERT_EQUAL_INT(1, fake_finishes_of(i));
    TEST_ASSERT_EQUAL_INT64(n, stats.claimed);
    TEST_ASSERT_EQUAL_INT64(n, stats.completed);
    TEST_ASSERT_EQUAL_INT64(0, stats.refused + stats.lost + stats.released + stats.running);
}

void test_threads_do_every_job_once(void)
{
    fake_jobs("q", 20000, 60000);
    set("worker.prefetch", "200");
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, noop, NULL));
    all_done_once(20000);
    /* few of them in a call of their own */
    TEST_ASSERT_LESS_THAN_INT(2000, fake_calls(FAKE_COMPLETE) + fake_calls(FAKE_CLAIM));
}

void test_the_calling_thread_does_every_job_once(void)
{
    fake_jobs("q", 20000, 60000);
    set("worker.concurrency", "0");
    set("worker.prefetch", "500");
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, noop, NULL));
    all_done_once(20000);
    TEST_ASSERT_LESS_THAN_INT(200, fake_calls(FAKE_COMPLETE));
}

void test_two_queues_are_reported_each_by_name(void)
{
    fake_jobs("q", 1000, 60000);
    fake_jobs("r", 1000, 60000);
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(two, 2, noop, NULL));
    all_done_once(2000);
}

void test_a_batch_handler_gets_several_at_once(void)
{
    fake_jobs("q", 1000, 60000);
    set("worker.batch", "16");
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, NULL, noop_batch));
    all_done_once(1000);
    TEST_ASSERT_GREATER_THAN_INT(1, atomic_load(&seen));
    TEST_ASSERT_LESS_OR_EQUAL_INT(16, atomic_load(&seen));
}

void test_a_worker_with_max_jobs_does_exactly_as_many(void)
{
    fake_jobs("q", 100, 60000);
    set("worker.until_empty", "off");
    set("worker.max_jobs", "37");
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, noop, NULL));
    TEST_ASSERT_EQUAL_INT(37, atomic_load(&called));
    TEST_ASSERT_EQUAL_INT(37, fake_count(FAKE_DONE));
    TEST_ASSERT_EQUAL_INT(63, fake_count(FAKE_READY));
}

/* ---- results in the calling thread, where nobody extends a lease while a handler runs ---- */

static pgw_verdict first_takes_its_time(pgw_task *task, void *arg)
{
    (void)arg;
    if (pgw_job_id(pgw_task_job(task)) == 1)
        fake_freezes_for(1000);
    else
        atomic_store(&seen, fake_state_of(1) == FAKE_DONE);
    return PGW_VERDICT_DONE;
}

void test_the_result_of_a_long_job_is_sent_before_the_next_handler_starts(void)
{
    fake_jobs("q", 2, 60000);
    set("worker.concurrency", "0");
    set("worker.prefetch", "2");
    set("worker.flush_ms", "1000");
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, first_takes_its_time, NULL));
    TEST_ASSERT_EQUAL_INT(1, atomic_load(&seen));
}

static pgw_verdict all_before_are_done(pgw_task *task, void *arg)
{
    (void)arg;
    if (fake_count(FAKE_DONE) == pgw_job_id(pgw_task_job(task)) - 1 && fake_count(FAKE_LEASED) == 1)
        atomic_fetch_add(&seen, 1);
    return PGW_VERDICT_DONE;
}

void test_without_prefetching_no_job_waits_for_the_handler_of_another(void)
{
    fake_jobs("q", 10, 60000);
    set("worker.concurrency", "0");
    set("worker.flush_ms", "10000");
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, all_before_are_done, NULL));
    TEST_ASSERT_EQUAL_INT(10, atomic_load(&seen));
}

/* ---- results of a claim ---- */

static pgw_verdict first_is_held(pgw_task *task, void *arg)
{
    atomic_fetch_add(&called, 1);
    return pgw_job_id(pgw_task_job(task)) == 1 ? held(task, arg) : PGW_VERDICT_DONE;
}

static void run_until_done(int done)
{
    int i;

    start(first_is_held);
    for (i = 0; i < 20000 && fake_count(FAKE_DONE) < done; i++) nap(1);
    TEST_ASSERT_EQUAL_INT(done, fake_count(FAKE_DONE));
    TEST_ASSERT_EQUAL_INT(FAKE_LEASED, fake_state_of(1));
    atomic_store(&phase, 1);
    join();
}

void test_a_long_job_does_not_hold_back_the_results_of_others(void)
{
    fake_jobs("q", 50, 60000);
    set("worker.concurrency", "2");
    set("worker.prefetch", "8"); /* claims before and after the one with the long job */
    run_until_done(49);
    TEST_ASSERT_EQUAL_INT(50, fake_count(FAKE_DONE));
}

void test_results_are_sent_before_their_lease_ends_whatever_the_flush_time(void)
{
    fake_jobs("q", 8, 3000);
    set("worker.concurrency", "2");
    set("worker.flush_ms", "10000");
    run_until_done(7);
    TEST_ASSERT_EQUAL_INT(8, fake_count(FAKE_DONE));
}

/* Its claim's first result waits for others, and its lease is the longer one. */
void test_a_result_waits_no_longer_than_its_own_lease_allows(void)
{
    int64_t due_at = 0, late = 0;
    int i, done = 0;

    fake_jobs("q", 2, 60000);
    fake_jobs("q", 1, 12000);
    set("worker.concurrency", "2");
    set("worker.prefetch", "3");
    set("worker.flush_ms", "10000");
    start(first_is_held);
    for (i = 0; i < 20000 && done < 2; i++, nap(1)) {
        pthread_mutex_lock(&w->pool->lock);
        done = w->shared.done.count + fake_count(FAKE_DONE);
        if (w->shared.done.count == 2) {
            due_at = w->shared.due_at;
            late = atomic_load(&w->shared.tasksets->tasks[2].safe_until) - 12000 / 3;
        }
        pthread_mutex_unlock(&w->pool->lock);
    }
    atomic_store(&phase, 1);
    join();
    TEST_ASSERT_EQUAL_INT(2, done);
    TEST_ASSERT_LESS_OR_EQUAL_INT64(late, due_at);
}

/* One that may have killed its last worker: what is done would die with this one. */
static pgw_verdict beside_a_quarantined_job(pgw_task *task, void *arg)
{
    (void)arg;
    atomic_fetch_add(&called, 1);
    switch (pgw_job_id(pgw_task_job(task))) {
    case 1: await_phase(1); return PGW_VERDICT_DONE;
    case 2: await_phase(2); return PGW_VERDICT_SETTLED; /* nothing of it is to be told */
    default: atomic_store(&seen, fake_state_of(1) == FAKE_DONE ? 1 : 2); return PGW_VERDICT_DONE;
    }
}

static void a_thread_claims_meanwhile(void)
{
    int i;

    atomic_store(&phase, 2);
    for (i = 0; i < 300 && atomic_load(&called) < 3; i++) nap(1);
}

void test_a_quarantined_job_does_not_begin_while_results_are_on_their_way(void)
{
    bool there = false;
    int i;

    fake_jobs("q", 3, 60000);
    fake_quarantine(3);
    fake_on_complete(a_thread_claims_meanwhile);
    set("worker.concurrency", "2");
    set("worker.prefetch", "1");
    start(beside_a_quarantined_job);
    await(&called, 2);
    for (i = 0; i < 20000 && !there; i++, nap(1)) {
        pthread_mutex_lock(&w->pool->lock);
        there = w->shared.quarantined != NULL;
        pthread_mutex_unlock(&w->pool->lock);
    }
    TEST_ASSERT_TRUE(there);
    atomic_store(&phase, 1);
    join();
    TEST_ASSERT_EQUAL_INT(1, atomic_load(&seen));
}

void test_results_of_one_claim_go_in_one_call(void)
{
    fake_jobs("q", 2000, 60000);
    set("worker.flush_ms", "10000");
    set("worker.prefetch", "100");
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, noop, NULL));
    all_done_once(2000);
    TEST_ASSERT_EQUAL_INT(0, fake_parts());
}

/* ---- verdicts ---- */

static pgw_verdict by_id(pgw_task *task, void *arg)
{
    (void)arg;
    atomic_fetch_add(&called, 1);
    switch (pgw_job_id(pgw_task_job(task))) {
    case 1: return PGW_VERDICT_DONE;
    case 2: pgw_task_set_error(task, "no disk"); return PGW_VERDICT_RETRY;
    case 3: pgw_task_set_error(task, "no disk"); return PGW_VERDICT_RETRY;
    case 4: pgw_task_set_error(task, "nonsense"); return PGW_VERDICT_DEAD;
    case 5: pgw_task_set_delay(task, 5000); return PGW_VERDICT_SNOOZE;
    case 6: return PGW_VERDICT_SETTLED;
    case 9: pgw_task_set_delay(task, 5000); return PGW_VERDICT_HOLD;
    case 7:
        return pgw_task_set_output(task, "{\"a\":1}") == PGW_OK ? PGW_VERDICT_DONE
                                                                : PGW_VERDICT_DEAD;
    default: return (pgw_verdict)77; /* none of ours */
    }
}

void test_each_verdict_goes_its_way(void)
{
    fake_jobs("q", 9, 60000);
    set("worker.concurrency", "0");
    set("worker.prefetch", "9");
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, by_id, NULL));
    TEST_ASSERT_EQUAL_INT(FAKE_DONE, fake_state_of(1));
    TEST_ASSERT_EQUAL_INT(FAKE_LATER, fake_state_of(2));
    TEST_ASSERT_EQUAL_STRING("no disk", fake_error_of(3));
    TEST_ASSERT_EQUAL_INT(FAKE_DEAD, fake_state_of(4));
    TEST_ASSERT_EQUAL_STRING("nonsense", fake_error_of(4));
    TEST_ASSERT_EQUAL_INT(FAKE_LATER, fake_state_of(5));
    TEST_ASSERT_EQUAL_INT(FAKE_LEASED, fake_state_of(6)); /* the handler's own business */
    TEST_ASSERT_EQUAL_INT(FAKE_DONE, fake_state_of(7));
    TEST_ASSERT_EQUAL_INT(FAKE_LATER, fake_state_of(8));
    TEST_ASSERT_EQUAL_INT(3, fake_calls(FAKE_FAIL)); /* two of them share their error */
    TEST_ASSERT_EQUAL_INT(FAKE_LATER, fake_state_of(9));
    TEST_ASSERT_EQUAL_INT(1, fake_calls(FAKE_SNOOZE));
    TEST_ASSERT_EQUAL_INT(1, fake_calls(FAKE_HOLD));
    TEST_ASSERT_EQUAL_INT64(2, stats.completed);
    TEST_ASSERT_EQUAL_INT64(3, stats.failed);
    TEST_ASSERT_EQUAL_INT64(1, stats.dead);
    TEST_ASSERT_EQUAL_INT64(2, stats.snoozed);
    TEST_ASSERT_EQUAL_INT64(1, stats.settled);
    TEST_ASSERT_EQUAL_INT64(0, stats.lost);
}

static pgw_verdict settles_the_second(pgw_task *task, void *arg)
{
    (void)arg;
    return pgw_job_id(pgw_task_job(task)) == 2 ? PGW_VERDICT_SETTLED : PGW_VERDICT_DONE;
}

void test_jobs_are_claimed_apart_as_soon_as_a_handler_has_settled_one(void)
{
    fake_jobs("q", 5, 60000);
    set("worker.concurrency", "0");
    set("worker.prefetch", "1");
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, settles_the_second, NULL));
    TEST_ASSERT_EQUAL_INT64(4, stats.completed);
    TEST_ASSERT_EQUAL_INT(2, fake_together());
}

static pgw_verdict with_output(pgw_task *task, void *arg)
{
    char json[32];

    (void)arg;
    snprintf(json, sizeof(json), "{\"id\": %d}", (int)pgw_job_id(pgw_task_job(task)));
    return pgw_task_set_output(task, json) == PGW_OK ? PGW_VERDICT_DONE : PGW_VERDICT_DEAD;
}

static void count_ready(void *arg)
{
    ++*(int *)arg;
}

void test_it_is_ready_once_in_each_run_when_it_has_claimed(void)
{
    int ready = 0;

    fake_jobs("q", 20, 60000);
    set("worker.concurrency", "0");
    set("worker.prefetch", "5");
    TEST_ASSERT_EQUAL_INT(
        PGW_OK,
        pgw_worker_new(conf, &(pgw_worker_spec){sizeof(pgw_worker_spec), one, 1, noop, NULL, NULL},
                       &w));
    pgw_worker_on_ready(w, count_ready, &ready);
    fake_fails(FAKE_CLAIM, PGW_EPERM, 1, 0);
    TEST_ASSERT_EQUAL_INT(PGW_EPERM, pgw_worker_run(w, stop));
    TEST_ASSERT_EQUAL_INT(0, ready);
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_worker_run(w, stop));
    TEST_ASSERT_EQUAL_INT(1, ready);
    TEST_ASSERT_EQUAL_INT(20, atomic_load(&called));
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_worker_run(w, stop)); /* which finds nothing */
    TEST_ASSERT_EQUAL_INT(2, ready);
}

void test_one_refused_output_does_not_hold_up_the_others(void)
{
    fake_jobs("q", 50, 60000);
    fake_refuses_output("{\"id\": 17}");
    set("worker.concurrency", "0");
    set("worker.prefetch", "50");
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, with_output, NULL));
    TEST_ASSERT_EQUAL_INT(49, fake_count(FAKE_DONE));
    TEST_ASSERT_EQUAL_INT(FAKE_LATER, fake_state_of(17));
    TEST_ASSERT_NOT_NULL(strstr(fake_error_of(17), "invalid input syntax"));
    TEST_ASSERT_EQUAL_INT64(49, stats.completed);
    TEST_ASSERT_EQUAL_INT64(1, stats.failed);
}

void test_groups_are_by_queue_verb_and_arguments(void)
{
    pgw_task a = {.verdict = PGW_VERDICT_RETRY, .delay_ms = -1}, b = a, c = a;
    pgw_task *list[] = {&a, &b, &c};
    char text[] = "{}";
    pgw_batch *batch;
    pgw *h;
    pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;

    fake_jobs("q", 2, 1000);
    fake_jobs("r", 1, 1000);
    o.queues = two, o.queues_count = 2, o.max = 3;
    h = fake_open(conf);
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_claim(h, &o, &batch));
    a.job = pgw_batch_job(batch, 0), b.job = pgw_batch_job(batch, 1),
    c.job = pgw_batch_job(batch, 2);
    a.ref = pgw_job_ref(a.job), b.ref = pgw_job_ref(b.job), c.ref = pgw_job_ref(c.job);
    TEST_ASSERT_EQUAL_INT(2, pgw__worker_group(list, 3));
    TEST_ASSERT_TRUE(pgw__worker_order(&a, &b) < 0);
    TEST_ASSERT_TRUE(pgw__worker_order(&b, &c) < 0);
    b.error = text;
    TEST_ASSERT_EQUAL_INT(1, pgw__worker_group(list, 3));
    b.error = NULL;
    b.delay_ms = 5;
    TEST_ASSERT_EQUAL_INT(1, pgw__worker_group(list, 3));
    b.delay_ms = -1;
    b.verdict = PGW_VERDICT_DEAD;
    TEST_ASSERT_EQUAL_INT(1, pgw__worker_group(list, 3));
    a.verdict = b.verdict = PGW_VERDICT_DONE;
    a.error = text; /* says nothing about a completion */
    TEST_ASSERT_EQUAL_INT(2, pgw__worker_group(list, 3));
    b.output = text;
    TEST_ASSERT_EQUAL_INT(1, pgw__worker_group(list, 3));
    pgw_batch_free(batch);
    pgw_close(h);
}

static pgw_verdict snooze(pgw_task *task, void *arg)
{
    (void)task, (void)arg;
    return PGW_VERDICT_SNOOZE;
}

void test_a_refused_snooze_is_sent_as_a_failure(void)
{
    fake_jobs("q", 1, 60000);
    fake_fails(FAKE_SNOOZE, PGW_EDB, 1000, 0);
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, snooze, NULL));
    TEST_ASSERT_EQUAL_INT(FAKE_LATER, fake_state_of(1));
    TEST_ASSERT_NOT_NULL(strstr(fake_error_of(1), "the test wants it so"));
    TEST_ASSERT_EQUAL_INT64(1, stats.failed);
    TEST_ASSERT_EQUAL_INT64(0, stats.snoozed + stats.refused + stats.lost);
}

static pgw_verdict holds_first(pgw_task *task, void *arg)
{
    (void)arg;
    return pgw_job_id(pgw_task_job(task)) == 1 ? PGW_VERDICT_HOLD : PGW_VERDICT_DONE;
}

void test_a_hold_releases_what_was_prefetched(void)
{
    fake_jobs("q", 5, 60000);
    set("worker.concurrency", "0");
    set("worker.prefetch", "5");
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, holds_first, NULL));
    TEST_ASSERT_EQUAL_INT64(4, stats.released);
    TEST_ASSERT_EQUAL_INT64(4, stats.completed); /* the server of this test holds nothing */
    TEST_ASSERT_EQUAL_INT64(1, stats.snoozed);
}

/* ---- trouble with the server ---- */

void test_a_lost_answer_is_asked_for_again(void)
{
    fake_jobs("q", 3000, 60000);
    fake_fails(FAKE_COMPLETE, PGW_EUNKNOWN, 5, 1);
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, noop, NULL));
    all_done_once(3000);
    TEST_ASSERT_GREATER_THAN_INT64(0, stats.reconnects);
}

void test_a_lost_connection_is_survived(void)
{
    fake_jobs("q", 3000, 60000);
    fake_fails(FAKE_OPEN, PGW_ECONN, 3, 0);
    fake_fails(FAKE_CLAIM, PGW_ECONN, 3, 0);
    fake_fails(FAKE_COMPLETE, PGW_ECONN, 7, 0);
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, noop, NULL));
    all_done_once(3000);
}

void test_a_deadlock_or_a_timeout_is_tried_again(void)
{
    fake_jobs("q", 100, 60000);
    fake_fails(FAKE_CLAIM, PGW_ERETRY, 2, 0);
    fake_fails(FAKE_COMPLETE, PGW_ETIMEDOUT, 2, 0);
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, noop, NULL));
    all_done_once(100);
}

/* Relents when all others have had their turn. */
static pgw_verdict relent(pgw_task *task, void *arg)
{
    (void)task, (void)arg;
    if (atomic_fetch_add(&called, 1) + 1 == 50) fake_stalls(3, PGW_OK, 0);
    return PGW_VERDICT_DONE;
}

static void one_stalls(pgw_status st)
{
    fake_reset();
    atomic_store(&called, 0);
    fake_jobs("q", 50, 60000);
    fake_stalls(3, st, 1000000);
    set("worker.concurrency", "0");
    set("worker.prefetch", "10");
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, relent, NULL));
    all_done_once(50);
    pgw_worker_free(w);
    w = NULL;
}

void test_a_result_that_never_goes_through_holds_up_no_others(void)
{
    one_stalls(PGW_ERETRY);
    one_stalls(PGW_ETIMEDOUT);
}

static atomic_int given_up, next_tries;

static void hear_trouble(pgw_log_level level, const char *component, const char *message, void *arg)
{
    (void)arg, (void)level, (void)component;
    if (strstr(message, "giving up") != NULL) atomic_fetch_add(&given_up, 1);
    if (strstr(message, "next try in") != NULL) atomic_fetch_add(&next_tries, 1);
}

/* A trigger of somebody's refuses one of them: it rests, and there is no pause for the others. */
void test_a_refused_result_costs_no_others_a_pause(void)
{
    atomic_store(&next_tries, 0);
    fake_jobs("q", 50, 60000);
    fake_stalls(3, PGW_EDB, 1000000);
    set("worker.concurrency", "0");
    set("worker.prefetch", "10");
    pgw_conf_set_log(conf, PGW_LOG_DEBUG, hear_trouble, NULL);
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, relent, NULL));
    all_done_once(50);
    TEST_ASSERT_EQUAL_INT(0, atomic_load(&next_tries));
    /* it was found by halves */
    TEST_ASSERT_LESS_THAN_INT(25, fake_calls(FAKE_COMPLETE));
}

static int calls_before_pause;

static void hear_pause(pgw_log_level level, const char *component, const char *message, void *arg)
{
    (void)arg, (void)level, (void)component;
    if (strstr(message, "next try in") != NULL && calls_before_pause == 0)
        calls_before_pause = fake_calls(FAKE_COMPLETE);
}

/* But where all are refused it is not the fault of one, and there is no use in more of them. */
void test_where_all_results_are_refused_there_is_a_pause(void)
{
    calls_before_pause = 0;
    fake_jobs("q", 1000, 60000);
    fake_fails(FAKE_COMPLETE, PGW_EDB, 40, 0);
    set("worker.concurrency", "0");
    set("worker.prefetch", "500");
    pgw_conf_set_log(conf, PGW_LOG_DEBUG, hear_pause, NULL);
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, noop, NULL));
    all_done_once(1000);
    TEST_ASSERT_GREATER_THAN_INT(0, calls_before_pause);
    TEST_ASSERT_LESS_OR_EQUAL_INT(41, calls_before_pause);
}

/* Nor do completions wait for failures that cannot be told. */
static pgw_verdict first_fails(pgw_task *task, void *arg)
{
    (void)arg;
    atomic_fetch_add(&called, 1);
    return pgw_job_id(pgw_task_job(task)) == 1 ? PGW_VERDICT_RETRY : PGW_VERDICT_DONE;
}

static void note_failures(void)
{
    int none = 0;

    atomic_compare_exchange_strong(&seen, &none, fake_calls(FAKE_FAIL));
}

void test_completions_are_sent_although_a_failure_cannot_be(void)
{
    fake_jobs("q", 10, 60000);
    fake_fails(FAKE_FAIL, PGW_ERETRY, 3, 0);
    fake_on_complete(note_failures);
    set("worker.concurrency", "0");
    set("worker.prefetch", "10");
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, first_fails, NULL));
    TEST_ASSERT_EQUAL_INT64(9, stats.completed);
    TEST_ASSERT_EQUAL_INT64(1, stats.failed);
    TEST_ASSERT_EQUAL_INT(1, atomic_load(&seen)); /* in the same flush */
}

/* Neither do they wait for it when it is to be told at once, since the worker is to end. */
static pgw_verdict stop_at_ten(pgw_task *task, void *arg)
{
    (void)task, (void)arg;
    if (atomic_fetch_add(&called, 1) + 1 == 10) pgw_stop_notify(stop);
    return PGW_VERDICT_DONE;
}

void test_a_result_that_never_goes_through_is_given_up_alone(void)
{
    fake_jobs("q", 10, 600);
    fake_stalls(3, PGW_ERETRY, 1000000);
    set("worker.concurrency", "0");
    set("worker.prefetch", "10");
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, stop_at_ten, NULL));
    TEST_ASSERT_EQUAL_INT(9, fake_count(FAKE_DONE));
    TEST_ASSERT_EQUAL_INT64(1, stats.lost);
}

static void relents_in_the_end(void)
{
    if (fake_calls(FAKE_COMPLETE) == 20) fake_stalls(3, PGW_OK, 0);
}

/* And each time that it is told in vain, before or after others, there is a pause. */
void test_a_result_that_is_always_refused_is_sent_with_pauses(void)
{
    atomic_store(&next_tries, 0);
    fake_jobs("q", 10, 60000);
    fake_stalls(3, PGW_ERETRY, 1000000);
    fake_on_complete(relents_in_the_end);
    set("worker.concurrency", "0");
    set("worker.prefetch", "10");
    set("worker.flush_ms", "10000");
    pgw_conf_set_log(conf, PGW_LOG_DEBUG, hear_trouble, NULL);
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, stop_at_ten, NULL));
    all_done_once(10);
    /* three together; together and each alone; then it alone, until that goes well */
    TEST_ASSERT_EQUAL_INT(3 + 11 + 7, fake_calls(FAKE_COMPLETE));
    TEST_ASSERT_EQUAL_INT(3 + 1 + 6, atomic_load(&next_tries));
}

void test_results_wait_for_a_server_that_is_short_of_something(void)
{
    fake_jobs("q", 20, 60000);
    fake_fails(FAKE_COMPLETE, PGW_ERETRY, 10, 0);
    set("worker.concurrency", "0");
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, noop, NULL));
    all_done_once(20);
}

static pgw_verdict no_claim_goes_well(pgw_task *task, void *arg)
{
    (void)task, (void)arg;
    if (atomic_fetch_add(&called, 1) == 0) fake_fails(FAKE_CLAIM, PGW_ERETRY, 50, 0);
    return PGW_VERDICT_DONE;
}

static void note_claims(void)
{
    int none = 0;

    atomic_compare_exchange_strong(&seen, &none, fake_calls(FAKE_CLAIM));
}

/* A claim needs space on the server's disk, a completion frees some. */
void test_completions_are_sent_although_claims_fail(void)
{
    fake_jobs("q", 10, 60000);
    fake_on_complete(note_claims);
    set("worker.concurrency", "0");
    set("worker.prefetch", "10");
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, no_claim_goes_well, NULL));
    all_done_once(10);
    TEST_ASSERT_EQUAL_INT(2, atomic_load(&seen)); /* the first one, and one that failed */
}

static pgw_verdict no_memory_for_the_next_claim(pgw_task *task, void *arg)
{
    (void)task, (void)arg;
    if (atomic_fetch_add(&called, 1) == 0) fake_fails(FAKE_CLAIM, PGW_ENOMEM, 1, 1);
    return PGW_VERDICT_DONE;
}

void test_completions_count_although_memory_is_missing_for_the_claim_beside_them(void)
{
    fake_jobs("q", 20, 60000);
    set("worker.concurrency", "0");
    set("worker.prefetch", "10");
    TEST_ASSERT_EQUAL_INT(PGW_ENOMEM, run(one, 1, no_memory_for_the_next_claim, NULL));
    TEST_ASSERT_EQUAL_INT(10, fake_count(FAKE_DONE));
    TEST_ASSERT_EQUAL_INT(10, fake_count(FAKE_LEASED));
    TEST_ASSERT_EQUAL_INT64(10, stats.completed);
    TEST_ASSERT_EQUAL_INT64(0, stats.lost);
}

/* Its handlers may run for hours yet. */
void test_a_worker_that_gave_up_retries_with_pauses_until_its_results_are_sent(void)
{
    atomic_store(&given_up, 0);
    atomic_store(&next_tries, 0);
    fake_jobs("q", 1, 60000);
    set("worker.until_empty", "off");
    set("worker.prefetch", "2");
    pgw_conf_set_log(conf, PGW_LOG_DEBUG, hear_trouble, NULL);
    start(held);
    await(&called, 1);
    fake_fails(FAKE_OPEN, PGW_EPERM, 5, 0);
    fake_fails(FAKE_CLAIM, PGW_ECONN, 1, 0);
    await(&next_tries, 5);
    fake_fails(FAKE_COMPLETE, PGW_ECONN, 1, 0);
    atomic_store(&phase, 1);
    TEST_ASSERT_EQUAL_INT(PGW_EPERM, join());
    TEST_ASSERT_EQUAL_STRING("the test wants it so: do something",
                             pgw_worker_error(w)); /* why it ended */
    TEST_ASSERT_EQUAL_INT(1, atomic_load(&given_up));
    /* the lost claim and result, and all but the first */
    TEST_ASSERT_EQUAL_INT(6, atomic_load(&next_tries));
    TEST_ASSERT_EQUAL_INT(FAKE_DONE, fake_state_of(1));
}

/* As with a trigger of somebody's that always raises 40001. */
void test_a_stop_does_not_wait_for_ever_for_a_server_that_takes_no_result(void)
{
    fake_jobs("q", 1, 300);
    fake_fails(FAKE_COMPLETE, PGW_ERETRY, 1000000, 0);
    set("worker.until_empty", "off");
    start(held);
    await(&called, 1);
    pgw_stop_notify(stop);
    atomic_store(&phase, 1);
    TEST_ASSERT_EQUAL_INT(PGW_OK, join());
    stats.struct_size = sizeof(stats);
    pgw_worker_get_stats(w, &stats);
    TEST_ASSERT_EQUAL_INT64(1, stats.lost);
    TEST_ASSERT_EQUAL_INT(FAKE_LEASED, fake_state_of(1)); /* for a reaper */
}

/* By an administrator, or by somebody's trigger that asks a server where it takes too long. */
void test_a_claim_that_the_server_cancels_is_tried_again_with_pauses(void)
{
    atomic_store(&next_tries, 0);
    fake_jobs("q", 1, 60000);
    pgw_conf_set_log(conf, PGW_LOG_DEBUG, hear_trouble, NULL);
    fake_fails(FAKE_CLAIM, PGW_ECANCELED, 3, 0);
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, noop, NULL));
    TEST_ASSERT_EQUAL_INT(3, atomic_load(&next_tries));
    all_done_once(1);
}

void test_an_error_that_does_not_pass_ends_the_run(void)
{
    fake_jobs("q", 10, 60000);
    fake_fails(FAKE_CLAIM, PGW_EPERM, 1, 0);
    TEST_ASSERT_EQUAL_INT(PGW_EPERM, run(one, 1, noop, NULL));
    TEST_ASSERT_EQUAL_STRING("the test wants it so: do something", pgw_worker_error(w));
    TEST_ASSERT_EQUAL_INT(10, fake_count(FAKE_READY));
}

/* After a switchover the old primary is still about, and is left for the new one. */
void test_a_server_that_turned_read_only_is_survived(void)
{
    fake_jobs("q", 3000, 60000);
    fake_turns_read_only();
    fake_fails(FAKE_OPEN, PGW_EPERM, 2, 0);
    fake_fails(FAKE_CLAIM, PGW_EPERM, 3, 0);
    fake_fails(FAKE_COMPLETE, PGW_EPERM, 7, 0);
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, noop, NULL));
    all_done_once(3000);
    TEST_ASSERT_GREATER_THAN_INT64(0, stats.reconnects);
}

void test_a_schema_that_is_missing_ends_the_run_at_once(void)
{
    fake_fails(FAKE_OPEN, PGW_ESCHEMA, 1, 0);
    TEST_ASSERT_EQUAL_INT(PGW_ESCHEMA, run(one, 1, noop, NULL));
}

/* ---- registered as a waiter ---- */

/* Waits for so many, while minutes pass. */
static void await_idle(int calls)
{
    int i;

    for (i = 0; i < 20000 && fake_calls(FAKE_IDLE) < calls; i++) {
        if (i % 50 == 49) fake_freezes_for(60000);
        nap(1);
    }
    TEST_ASSERT_EQUAL_INT(calls, fake_calls(FAKE_IDLE));
}

static void hear_advice(pgw_log_level level, const char *component, const char *message, void *arg)
{
    (void)arg, (void)level, (void)component;
    if (strstr(message, "no notifications, polling: ") && strstr(message, ": do something; next"))
        atomic_fetch_add(&seen, 1);
}

/* A worker that is not registered as a waiter only polls, here once in an hour. So a registration
 * that failed is tried again within a minute, whatever the error was. */
TEST_CASE(PGW_ERETRY)
TEST_CASE(PGW_ETIMEDOUT)
TEST_CASE(PGW_EPERM)
void test_a_failed_registration_is_tried_again(pgw_status trouble)
{
    set("worker.until_empty", "off");
    set("poll.min_ms", "3600000");
    set("poll.max_ms", "3600000");
    pgw_conf_set_log(conf, PGW_LOG_DEBUG, hear_advice, NULL);
    fake_fails(FAKE_IDLE, trouble, 3, 0);
    start(noop);
    await_idle(4);
    pgw_stop_notify(stop);
    join();
    /* a server that does not answer is told of as everywhere */
    TEST_ASSERT_EQUAL_INT(trouble == PGW_ETIMEDOUT ? 0 : 3, atomic_load(&seen));
}

/* There is nothing to wait for: what stands between is a pooler as long as the session lives. */
void test_behind_a_pooler_no_registration_is_tried_again(void)
{
    int i;

    set("worker.until_empty", "off");
    fake_fails(FAKE_IDLE, PGW_EPOOLED, 1, 0);
    start(noop);
    await_idle(1);
    fake_freezes_for(600000);
    for (i = 0; i < 20000 && fake_calls(FAKE_CLAIM) < 10; i++) nap(1);
    TEST_ASSERT_EQUAL_INT(1, fake_calls(FAKE_IDLE));
    pgw_stop_notify(stop);
    join();
}

/* ---- leases ---- */

void test_a_long_job_keeps_its_lease(void)
{
    int i;

    fake_jobs("q", 1, 5000);
    start(held);
    await(&called, 1);
    for (i = 0; i < 20000 && fake_calls(FAKE_EXTEND) <= 3; i++) nap(1); /* longer than a lease */
    atomic_store(&phase, 1);
    join();
    stats.struct_size = sizeof(stats);
    pgw_worker_get_stats(w, &stats);
    TEST_ASSERT_EQUAL_INT64(1, stats.completed);
    TEST_ASSERT_EQUAL_INT64(0, stats.lost);
    TEST_ASSERT_GREATER_THAN_INT(3, fake_calls(FAKE_EXTEND));
}

static pgw_verdict taken_away(pgw_task *task, void *arg)
{
    fake_takes_away(pgw_job_id(pgw_task_job(task)));
    return until_signalled(task, arg);
}

void test_a_lost_lease_is_signalled_and_the_verdict_refused(void)
{
    fake_jobs("q", 1, 300);
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, taken_away, NULL));
    TEST_ASSERT_EQUAL_INT(PGW_SIGNAL_LOST, atomic_load(&seen));
    TEST_ASSERT_EQUAL_INT64(1, stats.lost);
    TEST_ASSERT_EQUAL_INT64(1, stats.refused);
    TEST_ASSERT_EQUAL_INT64(0, stats.failed);
}

/* An operator requeues the first one, and it is claimed again; both results are sent together. */
static pgw_verdict all_but_the_first_are_held(pgw_task *task, void *arg)
{
    if (pgw_job_id(pgw_task_job(task)) != 1 || atomic_load(&seen) != 0) return held(task, arg);
    atomic_store(&seen, 1);
    atomic_fetch_add(&called, 1);
    return PGW_VERDICT_DONE;
}

static void await_running(int n);

void test_a_job_that_its_own_worker_claimed_again_is_reported_per_claim(void)
{
    fake_jobs("q", 2, 60000);
    set("worker.until_empty", "off");
    set("worker.max_jobs", "3");
    set("worker.concurrency", "2");
    set("worker.prefetch", "2");
    set("worker.flush_ms", "10000");
    start(all_but_the_first_are_held);
    await(&called, 2);
    await_running(1);
    fake_requeues(1);
    await(&called, 3);
    atomic_store(&phase, 1);
    join();
    pgw_worker_get_stats(w, &stats);
    TEST_ASSERT_EQUAL_INT64(2, stats.completed);
    TEST_ASSERT_EQUAL_INT64(1, stats.refused);
}

/* The server says nothing any more: a handler that waits for its descriptor must learn in time that
 * others may have the job. */
static pgw_verdict in_silence(pgw_task *task, void *arg)
{
    struct pollfd fd = {pgw_task_fd(task), POLLIN, 0};

    (void)arg;
    if (poll(&fd, 1, 10000) == 1) atomic_store(&seen, pgw_task_signals(task));
    fake_hangs(false);
    return PGW_VERDICT_RETRY;
}

void test_a_descriptor_is_readable_in_time_whatever_the_server_does(void)
{
    fake_jobs("q", 1, 300);
    fake_hangs(true);
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, in_silence, NULL));
    TEST_ASSERT_EQUAL_INT(PGW_SIGNAL_LOST, atomic_load(&seen));
    TEST_ASSERT_EQUAL_INT64(1, stats.lost);
}

void test_it_is_readable_in_time_also_after_a_failure(void)
{
    fake_jobs("q", 1, 300);
    fake_fails(FAKE_EXTEND, PGW_ERETRY, 1000000, 0);
    set("reconnect.base_ms", "60000");
    set("reconnect.cap_ms", "60000");
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, in_silence, NULL));
    TEST_ASSERT_EQUAL_INT(PGW_SIGNAL_LOST, atomic_load(&seen));
    TEST_ASSERT_LESS_OR_EQUAL_INT(4, fake_calls(FAKE_EXTEND));
}

/* After a long trouble pauses are long, leases may be short: in the last third of one nothing is
 * left to wait for. */
void test_a_pause_after_a_failure_does_not_outlast_a_lease(void)
{
    int i;

    fake_jobs("q", 1, 6000);
    fake_fails(FAKE_EXTEND, PGW_ERETRY, 2, 0);
    set("reconnect.base_ms", "60000");
    set("reconnect.cap_ms", "60000");
    start(held);
    await(&called, 1);
    for (i = 0; i < 20000 && fake_calls(FAKE_EXTEND) < 4; i++) nap(1);
    atomic_store(&phase, 1);
    join();
    stats.struct_size = sizeof(stats);
    pgw_worker_get_stats(w, &stats);
    TEST_ASSERT_EQUAL_INT64(0, stats.lost);
    TEST_ASSERT_EQUAL_INT64(1, stats.completed);
}

/* Somebody else's transaction holds the first job for a while: the others keep their leases, and so
 * does this one when it is over. */
void test_a_job_that_is_locked_is_asked_for_again(void)
{
    int i;

    fake_jobs("q", 2, 6000);
    fake_locks(1, 2);
    set("worker.concurrency", "2");
    set("reconnect.base_ms", "60000"); /* it is no failure, after which there is a pause */
    set("reconnect.cap_ms", "60000");
    start(held);
    await(&called, 2);
    for (i = 0; i < 20000 && fake_calls(FAKE_EXTEND) < 4; i++) nap(1);
    atomic_store(&phase, 1);
    join();
    stats.struct_size = sizeof(stats);
    pgw_worker_get_stats(w, &stats);
    TEST_ASSERT_EQUAL_INT64(2, stats.completed);
    TEST_ASSERT_EQUAL_INT64(0, stats.lost);
}

static _Atomic int64_t still_us;

static int64_t still_clock(void)
{
    return atomic_load(&still_us);
}

void test_a_lock_for_a_moment_does_not_cost_a_short_lease(void)
{
    int64_t safe_until, ask_at;
    pgw_task *t;
    pgw *h = fake_open(conf);

    atomic_store(&still_us, pgw__clock_us());
    pgw__clock_source_us = still_clock;
    fake_jobs("q", 1, 300);
    fake_locks(1, 1);
    start(held);
    await(&called, 1);
    pgw__worker_heartbeat_end(w); /* this thread is to beat alone */
    pthread_mutex_lock(&w->pool->lock);
    t = &w->shared.tasksets->tasks[0];
    safe_until = atomic_load(&t->safe_until);
    atomic_store(&still_us, (safe_until - 200) * 1000); /* a third is over */
    pgw__worker_extend(w, h);
    ask_at = t->ask_at;
    pthread_mutex_unlock(&w->pool->lock);
    atomic_store(&phase, 1);
    join();
    pgw_close(h);
    TEST_ASSERT_GREATER_THAN_INT64(safe_until - 200, ask_at);
    TEST_ASSERT_LESS_OR_EQUAL_INT64(safe_until - 100, ask_at);
}

void test_a_job_that_stays_locked_is_lost_in_the_end(void)
{
    fake_jobs("q", 1, 900);
    fake_locks(1, 1000000);
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, until_signalled, NULL));
    TEST_ASSERT_EQUAL_INT(PGW_SIGNAL_LOST, atomic_load(&seen));
    TEST_ASSERT_EQUAL_INT64(1, stats.lost);
    TEST_ASSERT_LESS_OR_EQUAL_INT(8, fake_calls(FAKE_EXTEND)); /* now and then */
}

/* The whole call failed so, and says nothing of any job. */
void test_a_lock_that_blocks_all_extends_is_not_a_failure(void)
{
    fake_jobs("q", 1, 900);
    fake_fails(FAKE_EXTEND, PGW_ELOCKED, 1000000, 0);
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, until_signalled, NULL));
    TEST_ASSERT_EQUAL_INT(PGW_SIGNAL_LOST, atomic_load(&seen));
    TEST_ASSERT_LESS_OR_EQUAL_INT(8, fake_calls(FAKE_EXTEND));
}

static int extends_after[2];

/* A beat while the result is on its way: in the middle of the lease, and in its last third. */
static void beat_meanwhile(void)
{
    pgw *h = fake_open(conf);
    int i;

    for (i = 0; i < 2; i++) {
        fake_freezes_for(25000);
        pthread_mutex_lock(&w->pool->lock);
        pgw__worker_extend(w, h);
        pthread_mutex_unlock(&w->pool->lock);
        extends_after[i] = fake_calls(FAKE_EXTEND);
    }
    pgw_close(h);
    atomic_fetch_add(&seen, 1);
}

void test_the_lease_of_a_result_on_its_way_is_left_alone_as_long_as_it_can_be(void)
{
    fake_jobs("q", 1, 60000);
    fake_on_complete(beat_meanwhile);
    set("worker.concurrency", "0");
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, noop, NULL));
    TEST_ASSERT_EQUAL_INT(1, atomic_load(&seen));
    TEST_ASSERT_EQUAL_INT(0, extends_after[0]);
    TEST_ASSERT_EQUAL_INT(1, extends_after[1]);
    all_done_once(1);
}

/* Two jobs at work, the second one claimed 20 s after the first, each under a lease of a minute; 25
 * s later both are to be extended. Without the worker's own heartbeat: it would extend them. */
static pgw *begin_apart(void)
{
    pgw *h = fake_open(conf);

    fake_jobs("q", 1, 60000);
    set("worker.concurrency", "2");
    set("worker.prefetch", "1");
    set("worker.until_empty", "off");
    set("call.timeout_ms", "3600000");
    start(held);
    await(&called, 1);
    pgw__worker_heartbeat_end(w);
    fake_freezes_for(20000);
    fake_jobs("q", 1, 60000);
    await(&called, 2);
    fake_freezes_for(25000);
    return h;
}

static void extend_with(pgw *h)
{
    pthread_mutex_lock(&w->pool->lock);
    pgw__worker_extend(w, h);
    pthread_mutex_unlock(&w->pool->lock);
}

static void end_apart(void)
{
    let_it_end();
    stats.struct_size = sizeof(stats);
    pgw_worker_get_stats(w, &stats);
    all_done_once(2);
}

void test_an_extend_takes_a_third_of_a_lease_at_most_whatever_is_left_of_the_others(void)
{
    pgw *h = begin_apart();
    int64_t limit;

    extend_with(h);
    limit = fake_limit(h);
    pgw_close(h);
    TEST_ASSERT_EQUAL_INT64(20000, limit); /* the first has 15 s left, the second 35 */
    end_apart();
}

/* However little is left of the leases that are due. */
void test_a_heartbeat_without_a_session_connects_first_and_waits_for_it(void)
{
    pgw *h = begin_apart();
    int64_t limit;
    pgw_status there;

    pgw__pq_drop(h);
    extend_with(h);
    limit = fake_limit(h);
    there = pgw__pq_check_session(h);
    pgw_close(h);
    TEST_ASSERT_EQUAL_INT64(0, limit);
    TEST_ASSERT_EQUAL_INT(PGW_OK, there);
    end_apart();
}

/* Whatever pause it has come to: without it nothing is claimed. */
void test_a_heartbeat_without_a_session_tries_again_when_there_is_a_server(void)
{
    bool away = true;
    int i;

    fake_jobs("q", 1, 3600000);
    start(held);
    await(&called, 1);
    pthread_mutex_lock(&w->pool->lock);
    w->extension.away = true;
    w->extension.failed_at = pgw__clock_ms();
    w->extension.rest_until = w->shared.heartbeat_at = w->extension.failed_at + 600000;
    pthread_mutex_unlock(&w->pool->lock);
    pgw__worker_heartbeat_retry(w);
    for (i = 0; i < 10000 && away; i++, nap(1)) {
        pthread_mutex_lock(&w->pool->lock);
        away = w->extension.away;
        pthread_mutex_unlock(&w->pool->lock);
    }
    pgw_stop_notify(stop);
    atomic_store(&phase, 1);
    join();
    TEST_ASSERT_FALSE(away);
}

static pgw_verdict canceled(pgw_task *task, void *arg)
{
    fake_cancels(pgw_job_id(pgw_task_job(task)));
    return until_signalled(task, arg);
}

void test_a_cancel_reaches_the_handler(void)
{
    fake_jobs("q", 1, 3000);
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, canceled, NULL));
    TEST_ASSERT_EQUAL_INT(PGW_SIGNAL_CANCELED, atomic_load(&seen));
    TEST_ASSERT_EQUAL_INT64(1, stats.failed);
}

void test_a_cancel_before_the_start_requeues_the_job(void)
{
    fake_state before;
    int i;

    fake_jobs("q", 2, 3000);
    set("worker.concurrency", "1");
    set("worker.prefetch", "2");
    start(held);
    await(&called, 1);
    fake_cancels(2);
    for (i = 0; i < 10000 && fake_state_of(2) != FAKE_CANCELED; i++) nap(1);
    before = fake_state_of(2); /* no handler has had time for it */
    atomic_store(&phase, 1);
    join();
    TEST_ASSERT_EQUAL_INT(FAKE_CANCELED, before);
    TEST_ASSERT_EQUAL_INT(1, atomic_load(&called));
}

static atomic_int seen_before;

/* The clock jumps inside the handler, as when the process was stopped and goes on: the handler may
 * be the first to run, so the question itself must look at the clock. */
static pgw_verdict frozen(pgw_task *task, void *arg)
{
    (void)arg;
    atomic_fetch_add(&called, 1);
    atomic_store(&seen_before, pgw_task_signals(task));
    fake_freezes_for(60001);
    atomic_store(&seen, pgw_task_signals(task));
    return PGW_VERDICT_DONE;
}

void test_a_frozen_handler_learns_at_once_that_its_lease_is_over(void)
{
    fake_jobs("q", 1, 60000);
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, frozen, NULL));
    TEST_ASSERT_EQUAL_INT(0, atomic_load(&seen_before));
    TEST_ASSERT_EQUAL_INT(PGW_SIGNAL_LOST, atomic_load(&seen));
    TEST_ASSERT_EQUAL_INT64(1, stats.lost);
    TEST_ASSERT_EQUAL_INT64(
        1, stats.completed); /* nobody else had it: the server takes a late result */
}

void test_a_job_whose_lease_ended_before_its_start_is_never_started(void)
{
    fake_jobs("q", 5, 60000);
    set("worker.concurrency", "0");
    set("worker.prefetch", "5");
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, frozen, NULL));
    TEST_ASSERT_EQUAL_INT(0, atomic_load(&seen_before));
    TEST_ASSERT_EQUAL_INT(1, atomic_load(&called));
    TEST_ASSERT_EQUAL_INT64(5, stats.lost);
    TEST_ASSERT_EQUAL_INT(4, fake_count(FAKE_LEASED));
}

void test_a_handler_thread_starts_nothing_whose_lease_is_over(void)
{
    fake_jobs("q", 5, 60000);
    set("worker.concurrency", "1");
    set("worker.prefetch", "5");
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, frozen, NULL));
    TEST_ASSERT_EQUAL_INT(0, atomic_load(&seen_before));
    TEST_ASSERT_EQUAL_INT(1, atomic_load(&called));
    TEST_ASSERT_EQUAL_INT64(5, stats.lost);
}

void test_the_calling_thread_extends_between_jobs(void)
{
    fake_jobs("q", 3, 90);
    set("worker.concurrency", "0");
    set("worker.prefetch", "3");
    fake_fails(FAKE_EXTEND, PGW_ERETRY, 1, 0);
    atomic_store(&phase, 1);
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, held, NULL));
    TEST_ASSERT_EQUAL_INT(3, fake_count(FAKE_DONE));
}

void test_a_timeout_is_reported(void)
{
    fake_jobs("q", 1, 60000);
    set("worker.job_timeout_ms", "50");
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, until_signalled, NULL));
    TEST_ASSERT_EQUAL_INT(PGW_SIGNAL_TIMEOUT, atomic_load(&seen));
    TEST_ASSERT_EQUAL_INT64(1, stats.failed);
}

/* Goes on until the lease is lost, whatever else it is told. */
static pgw_verdict stubborn(pgw_task *task, void *arg)
{
    int i;

    (void)arg;
    for (i = 0; i < 20000 && !(pgw_task_signals(task) & PGW_SIGNAL_LOST); i++) nap(1);
    atomic_store(&seen, pgw_task_signals(task));
    return PGW_VERDICT_DONE;
}

void test_a_handler_that_ignores_the_timeout_loses_its_lease(void)
{
    fake_jobs("q", 1, 300);
    set("worker.job_timeout_ms", "50");
    set("worker.stop_ms", "50");
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, stubborn, NULL));
    TEST_ASSERT_EQUAL_INT(PGW_SIGNAL_LOST | PGW_SIGNAL_TIMEOUT, atomic_load(&seen));
    TEST_ASSERT_EQUAL_INT64(1, stats.lost);
}

/* For its turn, or until there was a session: the lease begins when that is over. */
void test_a_claim_that_waits_longer_than_its_lease_loses_nothing(void)
{
    fake_jobs("q", 20, 60000);
    fake_claims_late(60001);
    set("worker.concurrency", "0");
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, noop, NULL));
    all_done_once(20);
}

/* ---- prefetch ---- */

/* Waits until so many jobs are done, one is leased, so many are ready, and the first of these has
 * no attempt charged. */
static void await_requeued(int done, int ready)
{
    int is_done = 0, is_leased = 0, is_ready = 0, attempt = 0;

    for (int i = 0; i < 20000; i++, nap(1)) {
        is_done = fake_count(FAKE_DONE);
        is_leased = fake_count(FAKE_LEASED);
        is_ready = fake_count(FAKE_READY);
        attempt = fake_attempt_of(done + 2);
        if (is_done == done && is_leased == 1 && is_ready == ready && attempt == 0) return;
    }
    TEST_ASSERT_EQUAL_INT(done, is_done);
    TEST_ASSERT_EQUAL_INT(1, is_leased);
    TEST_ASSERT_EQUAL_INT(ready, is_ready);
    TEST_ASSERT_EQUAL_INT(0, attempt);
}

void test_nothing_is_prefetched_behind_a_long_job(void)
{
    fake_jobs("q", 10, 60000);
    set("worker.concurrency", "2");
    start(held);
    await(&called, 2);
    nap(50); /* time to do the wrong thing */
    TEST_ASSERT_EQUAL_INT(8, fake_count(FAKE_READY));
    let_it_end();
}

void test_without_prefetch_as_many_are_claimed_as_handlers_are_idle(void)
{
    fake_jobs("q", 10, 60000);
    set("worker.concurrency", "3");
    set("worker.prefetch", "0");
    start(held);
    await(&called, 3);
    nap(50);
    TEST_ASSERT_EQUAL_INT(7, fake_count(FAKE_READY));
    TEST_ASSERT_EQUAL_INT(1, fake_calls(FAKE_CLAIM));
    let_it_end();
}

void test_quick_jobs_are_claimed_many_at_a_time(void)
{
    fake_jobs("q", 100000, 60000);
    set("worker.concurrency", "1");
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, noop, NULL));
    all_done_once(100000);
    TEST_ASSERT_LESS_THAN_INT64(50000, stats.claims);
}

static pgw_verdict held_after_many(pgw_task *task, void *arg)
{
    if (pgw_job_id(pgw_task_job(task)) == 20001) return held(task, arg);
    return PGW_VERDICT_DONE;
}

void test_jobs_prefetched_before_a_long_job_are_requeued_for_idle_workers(void)
{
    fake_jobs("q", 21000, 60000);
    set("worker.concurrency", "1");
    set("worker.until_empty", "off");
    start(held_after_many);
    await(&called, 1);
    await_requeued(20000, 999);
    let_it_end();
}

void test_a_last_attempt_is_never_prefetched(void)
{
    fake_jobs("q", 5, 60000);
    fake_max_attempts(1);
    set("worker.concurrency", "1");
    set("worker.prefetch", "4");
    start(held);
    await(&called, 1);
    await_requeued(0, 4);
    let_it_end();
}

void test_a_counted_worker_does_as_many_though_some_were_requeued(void)
{
    fake_jobs("q", 10, 60000);
    fake_max_attempts(1);
    set("worker.concurrency", "1");
    set("worker.prefetch", "4");
    set("worker.max_jobs", "6");
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, noop, NULL));
    TEST_ASSERT_EQUAL_INT(6, fake_count(FAKE_DONE));
    TEST_ASSERT_EQUAL_INT(4, fake_count(FAKE_READY));
}

/* ---- stopping ---- */

void test_the_first_stop_finishes_what_runs_and_requeues_the_rest(void)
{
    fake_jobs("q", 100, 60000);
    set("worker.until_empty", "off");
    set("worker.concurrency", "2");
    set("worker.prefetch", "10");
    start(held);
    await(&called, 2);
    pgw_stop_notify(stop);
    nap(100);
    atomic_store(&phase, 1);
    TEST_ASSERT_EQUAL_INT(PGW_OK, join());
    TEST_ASSERT_EQUAL_INT(2, atomic_load(&called));
    TEST_ASSERT_EQUAL_INT(2, fake_count(FAKE_DONE));
    TEST_ASSERT_EQUAL_INT(98, fake_count(FAKE_READY));
    TEST_ASSERT_EQUAL_INT(0, fake_attempt_of(3)); /* not charged */
}

static pgw_verdict until_stopping(pgw_task *task, void *arg)
{
    const pgw_verdict verdict = until_signalled(task, arg);

    atomic_store(&phase, 1);
    return verdict;
}

/* Others can have them while the running one goes on. */
void test_unstarted_jobs_are_requeued_at_once_whatever_the_flush_time(void)
{
    int i;

    fake_jobs("q", 4, 60000);
    set("worker.concurrency", "1");
    set("worker.prefetch", "4");
    set("worker.flush_ms", "10000");
    start(held);
    await(&called, 1);
    pgw_stop_notify(stop);
    for (i = 0; i < 5000 && fake_count(FAKE_READY) < 3; i++) nap(1);
    TEST_ASSERT_EQUAL_INT(3, fake_count(FAKE_READY));
    atomic_store(&phase, 1);
    join();
    TEST_ASSERT_EQUAL_INT(1, fake_count(FAKE_DONE));
}

void test_the_second_stop_is_signalled_to_handlers(void)
{
    fake_jobs("q", 1, 60000);
    start(until_stopping);
    await(&called, 1);
    pgw_stop_notify(stop);
    pgw_stop_notify(stop);
    join();
    TEST_ASSERT_EQUAL_INT(1, atomic_load(&phase));
    TEST_ASSERT_EQUAL_INT(PGW_SIGNAL_STOPPING, atomic_load(&seen));
    TEST_ASSERT_EQUAL_INT(FAKE_LATER, fake_state_of(1)); /* its result was still reported */
}

static atomic_int out;

static pgw_verdict ignores_signals(pgw_task *task, void *arg)
{
    (void)task, (void)arg;
    atomic_fetch_add(&called, 1);
    await_phase(1);
    atomic_store(&out, 1);
    return PGW_VERDICT_DONE;
}

void test_a_handler_that_does_not_return_is_left_behind(void)
{
    fake_jobs("q", 1, 60000);
    atomic_store(&out, 0);
    set("worker.stop_ms", "20");
    set("worker.until_empty", "off");
    start(ignores_signals);
    await(&called, 1);
    pgw_stop_notify(stop);
    pgw_stop_notify(stop);
    TEST_ASSERT_EQUAL_INT(PGW_ETIMEDOUT, join());
    TEST_ASSERT_EQUAL_INT(PGW_EMISUSE, pgw_worker_run(w, stop));
    pgw_worker_free(w); /* the thread still needs it, and frees it */
    w = NULL;
    TEST_ASSERT_EQUAL_INT(FAKE_LEASED, fake_state_of(1));
    atomic_store(&phase, 1);
    await(&out, 1);
    nap(50);
}

static void await_running(int n)
{
    int i;

    stats.struct_size = sizeof(stats);
    for (i = 0; i < 20000; i++) {
        pgw_worker_get_stats(w, &stats);
        if (stats.running == n) return;
        nap(1);
    }
    TEST_FAIL_MESSAGE("waited in vain");
}

static pgw_verdict last_is_held(pgw_task *task, void *arg)
{
    if (pgw_job_id(pgw_task_job(task)) == 8) return held(task, arg);
    atomic_fetch_add(&called, 1);
    return PGW_VERDICT_DONE;
}

void test_results_go_before_the_end_though_their_claim_is_not_whole(void)
{
    fake_jobs("q", 8, 60000);
    set("worker.stop_ms", "20");
    set("worker.flush_ms", "10000");
    set("worker.concurrency", "2");
    set("worker.prefetch", "8");
    start(last_is_held);
    await(&called, 8);
    await_running(1);
    TEST_ASSERT_EQUAL_INT(0, fake_count(FAKE_DONE));
    pgw_stop_notify(stop);
    pgw_stop_notify(stop);
    join();
    pgw_worker_get_stats(w, &stats);
    TEST_ASSERT_EQUAL_INT(7, fake_count(FAKE_DONE));
    TEST_ASSERT_EQUAL_INT64(0, stats.lost);
    atomic_store(&phase, 1);
    await_running(0);
}

/* Both stops at once, before the main loop looks. */
static pgw_verdict stops_twice(pgw_task *task, void *arg)
{
    pgw_stop_notify(stop);
    pgw_stop_notify(stop);
    return held(task, arg);
}

void test_unstarted_jobs_are_requeued_although_there_is_no_time_left(void)
{
    fake_jobs("q", 2, 60000);
    set("worker.stop_ms", "0");
    set("worker.concurrency", "1");
    TEST_ASSERT_EQUAL_INT(PGW_ETIMEDOUT, run(one, 1, stops_twice, NULL));
    TEST_ASSERT_EQUAL_INT(FAKE_READY, fake_state_of(2));
    TEST_ASSERT_EQUAL_INT(0, fake_attempt_of(2)); /* not charged */
    atomic_store(&phase, 1);
    await_running(0);
}

static void all_fail_apart(pgw_task *const *tasks, size_t n, void *arg)
{
    char error[32];
    size_t i;

    (void)arg;
    for (i = 0; i < n; i++) {
        snprintf(error, sizeof(error), "error %zu", i);
        pgw_task_set_error(tasks[i], error);
        pgw_task_set_verdict(tasks[i], PGW_VERDICT_RETRY);
    }
    pgw_stop_notify(stop);
    pgw_stop_notify(stop);
}

static void stop_with_twenty_results(int64_t ms_each)
{
    fake_jobs("q", 20, 60000);
    fake_finishes_late(ms_each);
    set("reconnect.base_ms", "60000");
    set("reconnect.cap_ms", "60000");
    set("worker.stop_ms", "0");
    set("worker.concurrency", "0");
    set("worker.prefetch", "20");
    set("worker.batch", "20");
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, NULL, all_fail_apart));
}

void test_after_the_second_stop_there_is_a_second_for_all_results_not_for_each(void)
{
    stop_with_twenty_results(1500);
    TEST_ASSERT_EQUAL_INT(1, fake_calls(FAKE_FAIL));
    TEST_ASSERT_EQUAL_INT64(1, stats.failed);
    TEST_ASSERT_EQUAL_INT64(19, stats.lost);
}

void test_after_the_second_stop_a_server_that_answers_gets_all_results(void)
{
    stop_with_twenty_results(0);
    TEST_ASSERT_EQUAL_INT(20, fake_calls(FAKE_FAIL));
    TEST_ASSERT_EQUAL_INT64(20, stats.failed);
}

/* The same, and no server to tell: a leak checker tells if anything is left. */
void test_jobs_that_cannot_be_requeued_are_freed(void)
{
    fake_jobs("q", 2, 60000);
    fake_fails(FAKE_RELEASE, PGW_ECONN, 1000000, 0);
    set("reconnect.base_ms", "60000");
    set("reconnect.cap_ms", "60000");
    set("worker.stop_ms", "0");
    set("worker.concurrency", "1");
    set("worker.prefetch", "2");
    TEST_ASSERT_EQUAL_INT(PGW_ETIMEDOUT, run(one, 1, stops_twice, NULL));
    TEST_ASSERT_EQUAL_INT(FAKE_LEASED, fake_state_of(2));
    TEST_ASSERT_EQUAL_INT64(1, stats.lost);
    atomic_store(&phase, 1);
    await_running(0);
}

/* Its lease ended under it, and nobody is there to be told of what it has done all the same. */
static pgw_verdict frozen_and_stopped(pgw_task *task, void *arg)
{
    (void)arg;
    fake_freezes_for(60001);
    atomic_store(&seen, pgw_task_signals(task));
    fake_fails(FAKE_COMPLETE, PGW_ECONN, 1000000, 0);
    fake_fails(FAKE_OPEN, PGW_ECONN, 1000000, 0);
    pgw_stop_notify(stop);
    return PGW_VERDICT_DONE;
}

void test_a_lease_is_lost_once(void)
{
    fake_jobs("q", 1, 60000);
    set("worker.concurrency", "0");
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, frozen_and_stopped, NULL));
    TEST_ASSERT_EQUAL_INT(PGW_SIGNAL_LOST, atomic_load(&seen));
    TEST_ASSERT_EQUAL_INT64(1, stats.lost);
}

void test_it_runs_again_when_the_handler_that_was_left_behind_has_returned(void)
{
    pgw_status st = PGW_EMISUSE;
    int i;

    fake_jobs("q", 1, 60000);
    set("worker.stop_ms", "20");
    set("worker.concurrency", "1");
    start(held);
    await(&called, 1);
    pgw_stop_notify(stop);
    pgw_stop_notify(stop);
    join();
    atomic_store(&phase, 1);
    pgw_stop_free(stop);
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_stop_new(&stop));
    fake_jobs("q", 10, 60000);
    for (i = 0; i < 20000 && (st = pgw_worker_run(w, stop)) == PGW_EMISUSE; i++) nap(1);
    TEST_ASSERT_EQUAL_INT(PGW_OK, st);
    TEST_ASSERT_EQUAL_INT(10, fake_count(FAKE_DONE));
    TEST_ASSERT_EQUAL_INT(1, w->pool->owners); /* ours: no thread has taken it along */
}

void test_a_stop_before_the_start_does_nothing(void)
{
    fake_jobs("q", 1, 60000);
    pgw_stop_notify(stop);
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, noop, NULL));
    TEST_ASSERT_EQUAL_INT(0, fake_calls(FAKE_CLAIM));
}

void test_a_worker_can_run_again(void)
{
    fake_jobs("q", 10, 60000);
    TEST_ASSERT_EQUAL_INT(PGW_OK, run(one, 1, noop, NULL));
    fake_jobs("q", 10, 60000);
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_worker_run(w, stop));
    TEST_ASSERT_EQUAL_INT(20, fake_count(FAKE_DONE));
}

void test_without_a_server_a_stop_ends_the_attempts(void)
{
    int i;

    fake_fails(FAKE_OPEN, PGW_ECONN, 1000000, 0);
    start(noop);
    for (i = 0; i < 20000 && fake_calls(FAKE_OPEN) < 3; i++) nap(1);
    pgw_stop_notify(stop);
    TEST_ASSERT_EQUAL_INT(PGW_OK, join());
    TEST_ASSERT_GREATER_OR_EQUAL_INT(3, fake_calls(FAKE_OPEN));
}

void test_statistics_fill_no_struct_whose_size_is_not_set(void)
{
    struct {
        pgw_worker_stats stats;
        unsigned char behind[4096];
    } given, before;

    TEST_ASSERT_EQUAL_INT(
        PGW_OK,
        pgw_worker_new(conf, &(pgw_worker_spec){sizeof(pgw_worker_spec), one, 1, noop, NULL, NULL},
                       &w));
    memset(&given, 0xa5, sizeof(given));
    for (size_t size = 0; size < sizeof(given); size++) {
        const bool whole = size >= sizeof(size_t) && size % sizeof(void *) == 0 && size <= 4096;

        given.stats.struct_size = size;
        before = given;
        pgw_worker_get_stats(w, &given.stats);
        if (!whole) TEST_ASSERT_EQUAL_MEMORY(&before, &given, sizeof(given));
        TEST_ASSERT_EQUAL_MEMORY((char *)&before + size, (char *)&given + size,
                                 sizeof(given) - size);
    }
}

/* ---- handlers by kind ---- */

static atomic_int slow_now, slow_most;

static pgw_verdict slow(pgw_task *task, void *arg)
{
    const int now = atomic_fetch_add(&slow_now, 1) + 1;

    (void)task, (void)arg;
    if (now > atomic_load(&slow_most)) atomic_store(&slow_most, now);
    atomic_fetch_add(&seen, 1);
    await_phase(1);
    atomic_fetch_sub(&slow_now, 1);
    return PGW_VERDICT_DONE;
}

static pgw_verdict failing(pgw_task *task, void *arg)
{
    if (arg != NULL) pgw_task_set_delay(task, 77);
    return PGW_VERDICT_RETRY;
}

static pgw_verdict counting(pgw_task *task, void *arg)
{
    (void)task;
    atomic_fetch_add((atomic_int *)arg, 1);
    return PGW_VERDICT_DONE;
}

static void born(pgw_handler_fn *fn, pgw_batch_fn *batch_fn)
{
    TEST_ASSERT_EQUAL_INT(
        PGW_OK,
        pgw_worker_new(
            conf, &(pgw_worker_spec){sizeof(pgw_worker_spec), one, 1, fn, batch_fn, NULL}, &w));
}

static void runs(void)
{
    if (pgw_worker_run(w, stop) != PGW_OK) TEST_FAIL_MESSAGE(pgw_worker_error(w));
    stats.struct_size = sizeof(stats);
    pgw_worker_get_stats(w, &stats);
}

static void handle(const char *kind, pgw_handler_fn *fn, void *arg, const pgw_kind_opts *opts)
{
    if (pgw_worker_handle(w, kind, fn, arg, opts) != PGW_OK) TEST_FAIL_MESSAGE(pgw_worker_error(w));
}

void test_a_job_goes_to_the_handler_of_its_kind(void)
{
    atomic_int counts[3] = {0, 0, 0};

    fake_jobs("q", 60, 60000);
    fake_kind(1, 10, "b", NULL);
    fake_kind(11, 30, "a", NULL);
    fake_kind(31, 40, "c", NULL);
    born(noop, NULL);
    handle("b", counting, &counts[2], NULL);
    handle("a", counting, &counts[0], NULL);
    handle("b", counting, &counts[1], NULL); /* instead */
    handle("", counting, &counts[2], NULL);
    runs();
    TEST_ASSERT_EQUAL_INT(20, atomic_load(&counts[0]));
    TEST_ASSERT_EQUAL_INT(10, atomic_load(&counts[1]));
    TEST_ASSERT_EQUAL_INT(20, atomic_load(&counts[2]));
    TEST_ASSERT_EQUAL_INT(10, atomic_load(&called));
    TEST_ASSERT_EQUAL_INT(60, fake_count(FAKE_DONE));
}

void test_a_batch_handler_gets_no_job_of_a_kind_with_a_handler(void)
{
    atomic_int count = 0;

    fake_jobs("q", 100, 60000);
    fake_kind(50, 59, "a", NULL);
    set("worker.batch", "8");
    born(NULL, noop_batch);
    handle("a", counting, &count, NULL);
    runs();
    TEST_ASSERT_EQUAL_INT(10, atomic_load(&count));
    TEST_ASSERT_EQUAL_INT(90, atomic_load(&called));
    TEST_ASSERT_EQUAL_INT(100, fake_count(FAKE_DONE));
}

void test_a_job_without_a_handler_fails_and_names_its_kind(void)
{
    fake_jobs("q", 1, 60000);
    fake_kind(1, 1, "odd", NULL);
    born(NULL, NULL);
    handle("a", noop, NULL, NULL);
    runs();
    TEST_ASSERT_EQUAL_INT(FAKE_LATER, fake_state_of(1));
    TEST_ASSERT_EQUAL_STRING("this worker has no handler for kind \"odd\"", fake_error_of(1));
    TEST_ASSERT_EQUAL_INT64(1, stats.failed);
}

void test_a_worker_without_any_handler_does_not_run(void)
{
    born(NULL, NULL);
    TEST_ASSERT_EQUAL_INT(PGW_EMISUSE, pgw_worker_run(w, stop));
    TEST_ASSERT_NOT_NULL(strstr(pgw_worker_error(w), "pgw_worker_handle()"));
}

void test_a_kind_over_its_limit_keeps_no_handler_from_other_kinds(void)
{
    pgw_kind_opts o = PGW_KIND_OPTS_INIT;

    atomic_store(&slow_now, 0);
    atomic_store(&slow_most, 0);
    fake_jobs("q", 60, 60000);
    fake_kind(1, 40, "slow", NULL);
    set("worker.until_empty", "off");
    born(noop, NULL);
    o.concurrency = 2;
    handle("slow", slow, NULL, &o);
    begin();
    await(&called, 20);          /* behind 40 slow ones, of which none is done */
    await_count(FAKE_LEASED, 2); /* nothing but what runs is kept */
    TEST_ASSERT_EQUAL_INT(38, fake_count(FAKE_LATER));
    for (int64_t id = 1; id <= 40; id++) {
        if (fake_state_of(id) != FAKE_LATER) continue;
        TEST_ASSERT_TRUE(fake_delay_of(id) >= 250 && fake_delay_of(id) <= 60000);
    }
    atomic_store(&phase, 1);
    pgw_stop_notify(stop);
    TEST_ASSERT_EQUAL_INT(PGW_OK, join());
    TEST_ASSERT_EQUAL_INT(2, atomic_load(&slow_most));
    TEST_ASSERT_EQUAL_INT(22, fake_count(FAKE_DONE));
}

void test_quick_jobs_of_a_kind_with_a_limit_wait_their_turn_in_the_worker(void)
{
    pgw_kind_opts o = PGW_KIND_OPTS_INIT;
    atomic_int count = 0;

    fake_jobs("q", 1, 60000);
    fake_kind(1, 1, "a", NULL);
    set("worker.concurrency", "8");
    o.concurrency = 1;
    born(NULL, NULL);
    handle("a", counting, &count, &o);
    runs(); /* from now on it knows how long one takes */
    fake_jobs("q", 8, 60000);
    fake_kind(2, 9, "a", NULL);
    runs();
    TEST_ASSERT_EQUAL_INT(9, atomic_load(&count));
    TEST_ASSERT_EQUAL_INT(0, fake_calls(FAKE_SNOOZE) + fake_calls(FAKE_RELEASE));
}

void test_a_kind_says_when_its_jobs_are_retried_and_when_they_die(void)
{
    pgw_kind_opts o = PGW_KIND_OPTS_INIT;

    fake_jobs("q", 3, 60000);
    fake_kind(1, 1, "backs off", NULL);
    fake_kind(2, 2, "says so", NULL);
    fake_kind(3, 3, "dies", NULL);
    born(noop, NULL);
    o.backoff_ms = 1600;
    handle("backs off", failing, NULL, &o);
    handle("says so", failing, &o, &o);
    o.max_attempts = 1;
    handle("dies", failing, NULL, &o);
    runs();
    TEST_ASSERT_EQUAL_INT(FAKE_LATER, fake_state_of(1));
    TEST_ASSERT_TRUE(fake_delay_of(1) >= 100 && fake_delay_of(1) <= 1600);
    TEST_ASSERT_EQUAL_INT64(77, fake_delay_of(2));
    TEST_ASSERT_EQUAL_INT(FAKE_DEAD, fake_state_of(3));
    TEST_ASSERT_EQUAL_INT64(1, stats.dead);
}

void test_the_backoff_of_a_kind_doubles_up_to_its_cap(void)
{
    static const int64_t most[] = {160, 320, 640, 1000, 1000};
    pgw_kind_opts o = PGW_KIND_OPTS_INIT;

    o.backoff_ms = 160, o.backoff_cap_ms = 1000;
    fake_jobs("q", 1, 60000);
    born(failing, NULL);
    handle("", failing, NULL, &o);
    for (size_t i = 0; i < sizeof(most) / sizeof(most[0]); i++) {
        runs();
        TEST_ASSERT_TRUE(fake_delay_of(1) >= most[i] / 16 && fake_delay_of(1) <= most[i]);
        fake_retries(1);
    }
}

void test_jobs_that_are_put_off_come_back_twice_as_fast_as_they_run(void)
{
    pgw__kind kind = {.limit = 2};
    int64_t last = 0;

    pgw__kind_ran(&kind, 400000);
    TEST_ASSERT_EQUAL_INT(1, pgw__kind_waiting_max(&kind)); /* a quarter of a second for two */
    for (int i = 1; i <= 50; i++) {
        const int64_t ms = pgw__kind_put_off_ms(&kind, 1000000);

        TEST_ASSERT_TRUE(ms > i * 100 && ms <= i * 100 + 250);
        TEST_ASSERT_EQUAL_INT64(0, ms % 250);
        TEST_ASSERT_TRUE(ms >= last);
        last = ms;
    }
    for (int i = 0; i < 10000; i++) last = pgw__kind_put_off_ms(&kind, 1000000);
    TEST_ASSERT_TRUE(last >= 60000 && last <= 60250);
    TEST_ASSERT_TRUE(pgw__kind_put_off_ms(&kind, INT64_C(200000000)) <= 500); /* all are back */
}

void test_the_timeout_of_a_job_goes_before_its_kinds_and_that_before_the_workers(void)
{
    pgw_kind_opts o = PGW_KIND_OPTS_INIT;

    fake_jobs("q", 1, 60000);
    fake_kind(1, 1, "a", NULL);
    o.timeout_ms = 20;
    born(noop, NULL);
    handle("a", until_signalled, NULL, &o);
    runs();
    TEST_ASSERT_EQUAL_INT(PGW_SIGNAL_TIMEOUT, atomic_load(&seen));
    pgw_worker_free(w);

    fake_jobs("q", 1, 60000);
    fake_kind(2, 2, "a", "{\"a\": {\"timeout_ms\": 5}, \"timeout_ms\": 20}");
    atomic_store(&seen, 0);
    set("worker.job_timeout_ms", "86400000");
    o.timeout_ms = PGW_UNLIMITED;
    born(noop, NULL);
    handle("a", until_signalled, NULL, &o);
    runs();
    TEST_ASSERT_EQUAL_INT(PGW_SIGNAL_TIMEOUT, atomic_load(&seen));
    TEST_ASSERT_EQUAL_INT(0, w->pool->kinds[0]->held);
}

void test_what_no_handler_can_be_set_with_is_named(void)
{
    char longer[257];
    pgw_kind_opts o;

    memset(longer, 'x', 256);
    longer[256] = '\0';
    born(NULL, NULL);
#define BAD(words, ...)                                                                         \
    do {                                                                                        \
        o = (pgw_kind_opts)PGW_KIND_OPTS_INIT;                                                  \
        TEST_ASSERT_EQUAL_INT(PGW_EINVAL, (__VA_ARGS__));                                       \
        if (strstr(pgw_worker_error(w), words) == NULL) TEST_FAIL_MESSAGE(pgw_worker_error(w)); \
    } while (0)
    BAD("`kind` is NULL", pgw_worker_handle(w, NULL, noop, NULL, &o));
    BAD("`kind` is longer than 255 bytes", pgw_worker_handle(w, longer, noop, NULL, &o));
    BAD("`kind` has a control character", pgw_worker_handle(w, "a\n", noop, NULL, &o));
    BAD("`fn` is NULL", pgw_worker_handle(w, "a", NULL, NULL, &o));
    BAD("`opts->struct_size`", (o.struct_size = 3, pgw_worker_handle(w, "a", noop, NULL, &o)));
    BAD("`opts->concurrency` is 0: expected 1..1024",
        (o.concurrency = 0, pgw_worker_handle(w, "a", noop, NULL, &o)));
    BAD("`opts->max_attempts` is -1",
        (o.max_attempts = -1, pgw_worker_handle(w, "a", noop, NULL, &o)));
    BAD("`opts->timeout_ms` is 0: expected 1..",
        (o.timeout_ms = 0, pgw_worker_handle(w, "a", noop, NULL, &o)));
    BAD("`opts->timeout_ms` is 2592000001",
        (o.timeout_ms = 2592000001, pgw_worker_handle(w, "a", noop, NULL, &o)));
    BAD("`opts->backoff_ms` is -1", (o.backoff_ms = -1, pgw_worker_handle(w, "a", noop, NULL, &o)));
    BAD("`opts->backoff_cap_ms` is -1",
        (o.backoff_cap_ms = -1, pgw_worker_handle(w, "a", noop, NULL, &o)));
#undef BAD
    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw_worker_handle(NULL, "a", noop, NULL, NULL));
    TEST_ASSERT_EQUAL_INT(0, w->pool->kinds_count);
}

static void misused(void *arg)
{
    *(int *)arg = pgw_worker_handle(w, "a", noop, NULL, NULL);
}

void test_a_worker_that_runs_gets_no_handler(void)
{
    int st = PGW_OK;

    born(noop, NULL);
    pgw_worker_on_ready(w, misused, &st);
    runs();
    TEST_ASSERT_EQUAL_INT(PGW_EMISUSE, st);
}
