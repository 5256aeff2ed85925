/* worker_pool: the claimed jobs, the handler threads, and the functions that handlers call. */
#include "worker/worker_pool.h"

#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/name.h"
#include "call/check.h"
#include "queue/job.h"
#include "worker/worker_report.h"

#define POOL_ALONE_MS 1000 /* after a claim that brought a last attempt too many */
#define POOL_TRUST_MS 1000 /* a killer is quick */

/* ---- quarantined jobs ----
 *
 * A job whose last worker died comes alone: the server sees to it. It may kill this worker, too,
 * and then no other job may lose an attempt. So the worker claims nothing until that job is
 * finished, or has run for POOL_TRUST_MS. The job starts only when all results are reported, except
 * those that rest: a result that dies with the worker would be lost. */

static void pool_unpack(pgw_task *t, pgw__taskset *c, const pgw_job *job, int64_t since,
                        int64_t server_us)
{
    int64_t lease_ms = (pgw_job_lease_until_us(job) - server_us) / 1000;

    if (lease_ms < 1) lease_ms = 1;
    t->taskset = c;
    t->self = t;
    t->job = job;
    t->ref = pgw_job_ref(job);
    /* What is asked for when it is extended. The time is that of the first job: of other queues, or
     * by a clock that was set, a lease may seem longer or shorter than may be asked for. */
    t->lease_ms = lease_ms < PGW__LEASE_MIN_MS   ? PGW__LEASE_MIN_MS
                  : lease_ms > PGW__LEASE_MAX_MS ? PGW__LEASE_MAX_MS
                                                 : lease_ms;
    t->extend_at = since + lease_ms / 3;
    /* The server started the lease after that, so by our clock it lasts at least until then. */
    atomic_init(&t->safe_until, pgw__lease_end(since, lease_ms));
    atomic_init(&t->tired_at, INT64_MAX);
    atomic_init(&t->signals, 0);
    t->wake = (pgw__wake)PGW__WAKE_INIT;
    t->delay_ms = -1;
}

/* The first result of a task set is reported after worker.flush_ms, together with those that exist
 * by then. All results are reported before the last third of a lease that is not extended. If the
 * next handler would delay a result, the run time of this one estimates by how much. */
static int64_t pool_due_at(const pgw_worker *w, const pgw_task *t)
{
    const int64_t late = atomic_load(&t->safe_until) - t->lease_ms / 3;
    int64_t at;

    if (t->taskset->done > 0) return late;
    at = (w->given.concurrency == 0 ? w->shared.began_at : pgw__clock_ms()) + w->given.flush_ms;
    return at < late ? at : late;
}

static void pool_finish(pgw_worker *w, pgw_task *t)
{
    t->stage = PGW__DONE;
    pgw__worker_clear(w, t);
    pgw__wake_close(&t->wake);
    pgw__taskset_settle(w, t->taskset);
    pgw__result_add(w, t, pool_due_at(w, t));
}

static void pool_release(pgw_worker *w, pgw_task *t)
{
    t->verdict = PGW_VERDICT_RELEASE;
    pool_finish(w, t);
}

/* At once: others can have it while the handlers run. It does not count for worker.max_jobs. */
static void pool_requeue(pgw_worker *w, pgw_task *t, int64_t now)
{
    pool_release(w, t);
    t->taskset->due_at = w->shared.due_at = now;
    w->loop.taken--;
}

/* ---- prefetched jobs ---- */

static int pool_free(const pgw_worker *w)
{
    return w->given.batch * (pgw__worker_handlers(w) - w->shared.busy);
}

/* Would the job be dead, should this process die before it has begun? Then it waits at the server:
 * such a job is requeued unless a handler is free for it, and nothing is prefetched for a while. */
static bool pool_is_last(const pgw_job *job)
{
    const int most = pgw_job_max_attempts(job);

    return most > 0 && pgw_job_attempt(job) >= most;
}

/* With the lock held. */
static void pool_add(pgw_worker *w, pgw__taskset *c)
{
    const int64_t now = pgw__clock_ms();
    const int free = pool_free(w);
    size_t i;

    for (i = 0; i < c->count; i++) {
        if (w->shared.ready.count < free || !pool_is_last(c->tasks[i].job)) {
            pgw__list_push(&w->shared.ready, &c->tasks[i]);
            continue;
        }
        pool_requeue(w, &c->tasks[i], now);
        w->loop.alone_until = now + POOL_ALONE_MS;
    }
}

pgw_status pgw__worker_admit(pgw_worker *w, pgw_batch *batch, int64_t since, int64_t server_us)
{
    const size_t n = pgw_batch_count(batch);
    pgw__taskset *c = pgw__mem_zero(1, sizeof(*c) + n * sizeof(c->tasks[0]));
    int64_t extend_at = INT64_MAX;
    size_t i;

    if (c == NULL) {
        pgw_batch_free(batch);
        return PGW_ENOMEM;
    }
    c->batch = batch;
    c->open = c->busy = c->count = n;
    c->due_at = INT64_MAX;
    for (i = 0; i < n; i++) {
        c->tasks[i].worker = w;
        pool_unpack(&c->tasks[i], c, pgw_batch_job(batch, i), since, server_us);
        if (c->tasks[i].extend_at < extend_at) extend_at = c->tasks[i].extend_at;
    }
    atomic_fetch_add(&w->n.claimed, (int64_t)n);

    pthread_mutex_lock(&w->lock);
    c->next = w->shared.tasksets;
    if (c->next != NULL) c->next->prev = c;
    w->shared.tasksets = c;
    pgw__report_claimed(w, c, since, server_us);
    pool_add(w, c);
    w->shared.done_before = w->shared.done.count;
    if (pgw__batch_quarantined(batch)) {
        w->shared.quarantined = &c->tasks[0];
        w->shared.hold_until = INT64_MAX;
    }
    if (extend_at < w->shared.heartbeat_at) {
        w->shared.heartbeat_at = extend_at;
        pgw__worker_heartbeat_wake(w);
    }
    if (n >= (size_t)w->shared.idle)
        pthread_cond_broadcast(&w->work);
    else
        for (i = 0; i < n; i++) pthread_cond_signal(&w->work);
    pthread_mutex_unlock(&w->lock);
    return PGW_OK;
}

void pgw__worker_release_ready(pgw_worker *w)
{
    const int64_t now = pgw__clock_ms();
    pgw_task *t;

    while ((t = pgw__list_pop(&w->shared.ready)) != NULL) pool_requeue(w, t, now);
}

/* ---- taking and giving back, with the lock held ---- */

pgw__worker_counts pgw__worker_count(const pgw_worker *w)
{
    return (pgw__worker_counts){.ready = w->shared.ready.count,
                                .free = pool_free(w),
                                .running = w->shared.running,
                                .done = w->shared.done.count,
                                .whole = w->shared.whole,
                                .due_at = w->shared.due_at,
                                .blocked = pgw__worker_blocked(w),
                                .hold_until = w->shared.hold_until};
}

/* Something changed that a waiting main loop may want to act upon. */
static void pool_stir(pgw_worker *w)
{
    if (!w->shared.waits) return;
    if (!pgw__worker_plan_stirs(&w->shared.view, pgw__worker_count(w))) return;
    w->shared.waits = false;
    pgw__wake_poke(&w->shared.wake);
}

/* Jobs whose lease has ended are never given to a handler: another worker may have them. A
 * cancelled job is requeued, and the server removes it. */
static bool pool_may_start(pgw_worker *w, pgw_task *t, int64_t now)
{
    if (now >= atomic_load(&t->safe_until)) pgw__worker_mark_lost(t);
    if (atomic_load(&t->signals) & PGW_SIGNAL_LOST)
        pgw__worker_drop(t);
    else if (atomic_load(&t->signals) & PGW_SIGNAL_CANCELED)
        pool_release(w, t);
    else
        return true;
    return false;
}

void pgw__worker_sort_out(pgw_worker *w)
{
    int64_t now;
    int left;

    if (!w->shared.unfit) return;
    w->shared.unfit = false;
    now = pgw__clock_ms();
    for (left = w->shared.ready.count; left > 0; left--) {
        pgw_task *t = pgw__list_pop(&w->shared.ready);

        if (pool_may_start(w, t, now)) pgw__list_push(&w->shared.ready, t);
    }
}

static size_t pool_take(pgw_worker *w, pgw_task **tasks, int64_t now_us)
{
    const size_t max = w->given.batch_fn != NULL ? (size_t)w->given.batch : 1;
    const int64_t now = now_us / 1000;
    size_t n = 0;

    while (n < max && w->shared.ready.first != NULL && !pgw__worker_blocked(w)) {
        pgw_task *t = pgw__list_pop(&w->shared.ready);

        if (!pool_may_start(w, t, now)) continue;
        t->stage = PGW__RUNNING;
        pgw__report_started(t, now_us);
        if (t == w->shared.quarantined) w->shared.hold_until = now + POOL_TRUST_MS;
        if (w->given.timeout_ms > 0) {
            atomic_store(&t->tired_at, now + w->given.timeout_ms);
            if (now + w->given.timeout_ms < w->shared.heartbeat_at) {
                w->shared.heartbeat_at = now + w->given.timeout_ms;
                pgw__worker_heartbeat_wake(w);
            }
        }
        tasks[n++] = t;
    }
    w->shared.began_at = now;
    w->shared.busy += n > 0;
    w->shared.running += (int)n;
    atomic_store(&w->n.running, w->shared.running);
    return n;
}

/* The job was gone before we heard why: a heartbeat in between has taken that for a loss. */
static void pool_settled(pgw_worker *w, pgw_task *t)
{
    atomic_fetch_add(&w->n.settled, 1);
    pgw__report_told(t, PGW__COUNT_DONE);
    if (atomic_load(&t->signals) & PGW_SIGNAL_LOST) {
        atomic_fetch_sub(&w->n.lost, 1);
        atomic_fetch_sub(&t->tally->lost, 1);
    }
    pgw__worker_drop(t);
}

static void pool_put(pgw_worker *w, pgw_task **tasks, size_t n, int64_t now_us)
{
    size_t i;

    w->shared.busy--;
    w->shared.finished += (int64_t)n;
    w->shared.running -= (int)n;
    atomic_store(&w->n.running, w->shared.running);
    for (i = 0; i < n; i++) {
        pgw_task *t = tasks[i];

        pgw__report_returned(t, now_us);
        if (t->verdict == PGW_VERDICT_SETTLED)
            pool_settled(w, t);
        else if (w->shared.closing) /* no thread is left to report it */
            pgw__worker_drop(t);
        else
            pool_finish(w, t);
    }
}

/* ---- handlers ---- */

static void pool_call(pgw_worker *w, pgw_task **tasks, size_t n)
{
    if (w->given.batch_fn != NULL)
        w->given.batch_fn(tasks, n, w->given.arg);
    else
        tasks[0]->verdict = w->given.fn(tasks[0], w->given.arg);
}

void pgw__worker_run_here(pgw_worker *w)
{
    pgw_task **tasks = w->shared.handlers[0].tasks;
    size_t n;

    pthread_mutex_lock(&w->lock);
    n = pool_take(w, tasks, pgw__clock_us());
    pthread_mutex_unlock(&w->lock);
    if (n == 0) return;
    pool_call(w, tasks, n);
    pthread_mutex_lock(&w->lock);
    pool_put(w, tasks, n, pgw__clock_us());
    pthread_mutex_unlock(&w->lock);
}

static void *pool_thread(void *arg)
{
    pgw__handler_thread *handler = arg;
    pgw_worker *w = handler->worker;
    int64_t now_us = 0; /* read once for the end of a job and the start of the next */
    bool last;

    pthread_mutex_lock(&w->lock);
    for (;;) {
        while ((w->shared.ready.first == NULL || pgw__worker_blocked(w)) && !w->shared.closing) {
            w->shared.idle++;
            pthread_cond_wait(&w->work, &w->lock);
            w->shared.idle--;
            now_us = 0;
        }
        if (w->shared.closing) break;
        if (now_us == 0) now_us = pgw__clock_us();
        handler->held = pool_take(w, handler->tasks, now_us);
        pool_stir(w);
        if (handler->held == 0) {
            now_us = 0;
            continue;
        }
        pthread_mutex_unlock(&w->lock);
        pool_call(w, handler->tasks, handler->held);
        pthread_mutex_lock(&w->lock);
        now_us = pgw__clock_us();
        pool_put(w, handler->tasks, handler->held, now_us);
        handler->held = 0;
        pool_stir(w);
    }
    handler->left = true;
    last = handler->alone && --w->shared.owners == 0;
    pthread_cond_broadcast(&w->left);
    pthread_mutex_unlock(&w->lock);
    if (last) pgw__worker_destroy(w);
    return NULL;
}

pgw_status pgw__worker_hire(pgw_worker *w)
{
    int i;

    w->shared.closing = false;
    for (i = 0; i < w->given.concurrency; i++) {
        pgw__handler_thread *handler = &w->shared.handlers[i];

        handler->left = handler->alone = false; /* it may be left from the last run */
        handler->started = pgw__worker_start(&handler->thread, pool_thread, handler) == PGW_OK;
        if (!handler->started) return PGW_ENOMEM;
    }
    return PGW_OK;
}

bool pgw__worker_dismiss(pgw_worker *w)
{
    bool all = true;
    int i;

    pthread_mutex_lock(&w->lock);
    w->shared.closing = true;
    pthread_cond_broadcast(&w->work);
    for (i = 0; i < w->given.concurrency; i++) {
        pgw__handler_thread *handler = &w->shared.handlers[i];

        if (!handler->started) continue;
        while (!handler->left && handler->held == 0) pthread_cond_wait(&w->left, &w->lock);
        if (!handler
                 ->left) { /* in a handler that does not return: it will find its way out alone */
            handler->alone = true;
            w->shared.owners++;
            all = false;
        }
    }
    pthread_mutex_unlock(&w->lock);
    for (i = 0; i < w->given.concurrency; i++) {
        pgw__handler_thread *handler = &w->shared.handlers[i];

        if (!handler->started) continue;
        if (handler->alone)
            pthread_detach(handler->thread);
        else
            pthread_join(handler->thread, NULL);
        handler->started = false;
    }
    return all;
}

/* ---- functions that a handler calls to ask ---- */

const pgw_job *pgw_task_job(const pgw_task *task)
{
    return task->job;
}

/* By the clock, and not only by what the heartbeat has found: after the process was suspended, the
 * handler may be the first to run. */
int pgw_task_signals(const pgw_task *task)
{
    const pgw_worker *w = task->worker;
    const int64_t now = pgw__clock_ms();
    int signals;

    if (now >= atomic_load(&task->safe_until)) pgw__worker_mark_lost(task->self);
    signals = atomic_load(&task->signals);
    if (now >= atomic_load(&task->tired_at)) signals |= PGW_SIGNAL_TIMEOUT;
    if (atomic_load(&w->stopping) > 1) signals |= PGW_SIGNAL_STOPPING;
    if (w->given.concurrency == 0 && pgw_stop_count(w->loop.stop) > 1)
        signals |= PGW_SIGNAL_STOPPING;
    return signals;
}

int pgw_task_fd(pgw_task *task)
{
    pgw_worker *w = task->worker;

    pthread_mutex_lock(&w->lock);
    if (task->wake.read_fd < 0 && pgw__wake_open(&task->wake) && pgw_task_signals(task) != 0)
        pgw__worker_raise(task, pgw_task_signals(task));
    pthread_mutex_unlock(&w->lock);
    return task->wake.read_fd;
}

/* ---- functions that a handler calls to report ---- */

pgw_status pgw_task_set_output(pgw_task *task, const char *json)
{
    char *copy = NULL;
    size_t at;

    if (json != NULL) {
        if (pgw__json_fault(json, task->worker->given.output_max, &at) != NULL) return PGW_EINVAL;
        copy = pgw__mem_dup(json);
        if (copy == NULL) return PGW_ENOMEM;
    }
    pgw__mem_free(task->output);
    task->output = copy;
    return PGW_OK;
}

pgw_status pgw_task_set_error(pgw_task *task, const char *error)
{
    pgw__mem_free(task->error);
    task->error = error != NULL ? pgw__mem_dup_n(error, strnlen(error, PGW__ERROR_MAX)) : NULL;
    return error == NULL || task->error != NULL ? PGW_OK : PGW_ENOMEM;
}

pgw_status pgw_task_set_delay(pgw_task *task, int64_t delay_ms)
{
    task->delay_ms = delay_ms > 0 ? delay_ms : 0;
    return PGW_OK;
}

pgw_status pgw_task_set_verdict(pgw_task *task, pgw_verdict verdict)
{
    task->verdict = verdict;
    return PGW_OK;
}
