/* worker_pool: the claimed jobs, the handler threads, and the functions that handlers call. */
#include "worker/worker_pool.h"

#include <limits.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/name.h"
#include "call/check.h"
#include "queue/job.h"
#include "worker/worker_kind.h"
#include "worker/worker_report.h"

#define POOL_ALONE_MS 1000 /* after a claim that brought a last attempt too many */
#define POOL_TRUST_MS 1000 /* a job that kills its worker usually does so at once */

/* ---- quarantined jobs ----
 *
 * The server returns a job whose last worker died alone. It may kill this worker, too,
 * and then no other job may lose an attempt. So the worker claims nothing until that job is
 * finished, or has run for POOL_TRUST_MS. The job starts only when all results are reported, except
 * those that rest: a result that dies with the worker would be lost. */

static void pool_unpack(pgw_worker *w, pgw_task *t, pgw__taskset *c, const pgw_job *job,
                        int64_t since, int64_t server_us)
{
    int64_t lease_ms = (pgw_job_lease_until_us(job) - server_us) / 1000;

    if (lease_ms < 1) lease_ms = 1;
    t->worker = w;
    t->taskset = c;
    t->self = t;
    t->kind = pgw__kind_of(w, job);
    t->timeout_ms = pgw__kind_timeout_ms(w, t->kind, job);
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
    at = (w->given.concurrency == 0 ? w->pool->began_at : pgw__clock_ms()) + w->given.flush_ms;
    return at < late ? at : late;
}

/* ---- kinds with a limit ---- */

static void pool_push_ready(pgw_task *t)
{
    pgw__list_push(&t->worker->shared.ready, t);
    t->worker->pool->ready++;
}

static pgw_task *pool_pop_ready(pgw_worker *w)
{
    w->pool->ready--;
    return pgw__list_pop(&w->shared.ready);
}

static void pool_make_ready(pgw_task *t)
{
    t->held = true;
    t->kind->held++;
    pool_push_ready(t);
}

static void pool_wait(pgw_task *t)
{
    pgw__list_push(&t->kind->waiting, t);
    t->worker->shared.waiting++;
}

static pgw_task *pool_stop_waiting(pgw__kind *kind)
{
    pgw_task *t = pgw__list_pop(&kind->waiting);

    if (t != NULL) t->worker->shared.waiting--;
    return t;
}

/* It runs no longer, or will not: the next of its kind may. */
static void pool_end_holding(pgw_task *t)
{
    pgw_task *next;

    if (!t->held) return;
    t->held = false;
    t->kind->held--;
    next = pool_stop_waiting(t->kind);
    if (next == NULL) return;
    pool_make_ready(next);
    pthread_cond_signal(&t->worker->pool->work);
}

/* ---- giving back ---- */

static void pool_finish(pgw_worker *w, pgw_task *t)
{
    pool_end_holding(t);
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
static void pool_return(pgw_worker *w, pgw_task *t, pgw_verdict verdict, int64_t now)
{
    t->verdict = verdict;
    pool_finish(w, t);
    t->taskset->due_at = w->shared.due_at = now;
    w->loop.taken--;
}

static void pool_put_off(pgw_worker *w, pgw_task *t, int64_t now)
{
    t->delay_ms = pgw__kind_put_off_ms(t->kind, now * 1000);
    pool_return(w, t, PGW_VERDICT_SNOOZE, now);
}

/* ---- prefetched jobs ---- */

static int pool_free(const pgw_worker *w)
{
    return w->given.batch * (pgw__worker_handlers(w) - w->pool->busy);
}

/* What is left of them for jobs of this source. */
static int pool_free_here(const pgw_worker *w)
{
    const int free = pool_free(w) - (w->pool->ready - w->shared.ready.count);

    return free > 0 ? free : 0;
}

/* With the lock held. A job in its last attempt would be dead, should this process die before it
 * has begun. Such a job is requeued unless a handler is free for it, and nothing is prefetched for
 * a while. */
static void pool_add(pgw_worker *w, pgw__taskset *c)
{
    const int64_t now = pgw__clock_ms();
    const int free = pool_free(w);
    size_t i;

    for (i = 0; i < c->count; i++) {
        pgw_task *t = &c->tasks[i];
        const bool last = pgw__worker_is_last(t->job);

        if (last && w->pool->ready >= free) {
            pool_return(w, t, PGW_VERDICT_RELEASE, now);
            w->loop.alone_until = now + POOL_ALONE_MS;
        } else if (t->kind->held < t->kind->limit) {
            pool_make_ready(t);
        } else if (!last && t->kind->waiting.count < pgw__kind_waiting_max(t->kind)) {
            if (t->kind->waiting.count == 0) t->kind->began_at = now;
            pool_wait(t);
        } else {
            pool_put_off(w, t, now);
        }
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
        pool_unpack(w, &c->tasks[i], c, pgw_batch_job(batch, i), since, server_us);
        if (c->tasks[i].extend_at < extend_at) extend_at = c->tasks[i].extend_at;
    }
    atomic_fetch_add(&w->n.claimed, (int64_t)n);

    pthread_mutex_lock(&w->pool->lock);
    c->next = w->shared.tasksets;
    if (c->next != NULL) c->next->prev = c;
    w->shared.tasksets = c;
    pgw__report_claimed(w, c, since, server_us);
    pool_add(w, c);
    w->shared.done_before = w->shared.done.count;
    if (pgw__batch_quarantined(batch) && c->tasks[0].stage != PGW__DONE) {
        w->shared.quarantined = &c->tasks[0];
        w->shared.hold_until = INT64_MAX;
    }
    if (extend_at < w->shared.heartbeat_at) {
        w->shared.heartbeat_at = extend_at;
        pgw__worker_heartbeat_wake(w);
    }
    if (n >= (size_t)w->pool->idle)
        pthread_cond_broadcast(&w->pool->work);
    else
        for (i = 0; i < n; i++) pthread_cond_signal(&w->pool->work);
    pthread_mutex_unlock(&w->pool->lock);
    return PGW_OK;
}

static bool pool_is_of(const pgw_task *t, const pgw_worker *w, const char *queue)
{
    return t->worker == w && (queue == NULL || strcmp(pgw_job_queue(t->job), queue) == 0);
}

void pgw__worker_release_ready(pgw_worker *w, const char *queue)
{
    const int64_t now = pgw__clock_ms();
    pgw_task *t;

    for (size_t i = 0; i < w->pool->kinds_count; i++)
        for (int left = w->pool->kinds[i]->waiting.count; left > 0; left--) {
            t = pool_stop_waiting(w->pool->kinds[i]);
            if (pool_is_of(t, w, queue))
                pool_return(w, t, PGW_VERDICT_RELEASE, now);
            else
                pool_wait(t);
        }
    for (int left = w->shared.ready.count; left > 0; left--) {
        t = pool_pop_ready(w);
        if (pool_is_of(t, w, queue))
            pool_return(w, t, PGW_VERDICT_RELEASE, now);
        else
            pool_push_ready(t);
    }
}

void pgw__worker_give_up_waiting(pgw_worker *w, int64_t now)
{
    for (size_t i = 0; w->shared.waiting > 0 && i < w->pool->kinds_count; i++) {
        pgw__kind *kind = w->pool->kinds[i];

        if (!pgw__kind_hangs(kind, now)) continue;
        for (int left = kind->waiting.count; left > 0; left--) {
            pgw_task *t = pool_stop_waiting(kind);

            if (t->worker == w)
                pool_put_off(w, t, now);
            else
                pool_wait(t);
        }
    }
}

/* ---- taking and giving back, with the lock held ---- */

pgw__worker_counts pgw__worker_count(const pgw_worker *w)
{
    return (pgw__worker_counts){.waiting = w->shared.waiting,
                                .ready = w->shared.ready.count,
                                .free = pool_free_here(w),
                                .running = w->shared.running,
                                .done = w->shared.done.count,
                                .whole = w->shared.whole,
                                .due_at = w->shared.due_at,
                                .blocked = pgw__worker_blocked(w),
                                .hold_until = w->shared.hold_until};
}

/* The sources in the order of their turns. */
static pgw_worker *pool_source(const pgw__pool *p, size_t i)
{
    i += p->turn;
    return p->sources[i < p->sources_count ? i : i - p->sources_count];
}

/* One source is woken up to claim for free handlers, the next one that would. Its loop
 * stirs again after the claim: see worker_pass_on(). */
void pgw__worker_stir(pgw__pool *p)
{
    bool claims = false;

    for (size_t i = 0; i < p->sources_count; i++) {
        pgw_worker *w = pool_source(p, i);
        pgw__worker_stir_for what;

        if (!w->shared.waits) continue;
        what = pgw__worker_plan_stirs(&w->shared.view, pgw__worker_count(w));
        if (what == PGW__STIR_NOT || (what == PGW__STIR_CLAIM && claims)) continue;
        claims = claims || what == PGW__STIR_CLAIM;
        w->shared.waits = false;
        pgw__wake_poke(&w->shared.wake);
    }
}

/* Jobs whose lease has ended are never given to a handler: another worker may have them. A
 * cancelled job is requeued, and the server removes it. */
static bool pool_may_start(pgw_worker *w, pgw_task *t, int64_t now)
{
    if (now >= atomic_load(&t->safe_until)) pgw__worker_mark_lost(t);
    if (atomic_load(&t->signals) & PGW_SIGNAL_LOST) {
        pool_end_holding(t);
        pgw__worker_drop(t);
    } else if (atomic_load(&t->signals) & PGW_SIGNAL_CANCELED) {
        pool_release(w, t);
    } else {
        return true;
    }
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
        pgw_task *t = pool_pop_ready(w);

        if (pool_may_start(w, t, now)) pool_push_ready(t);
    }
}

/* A batch handler takes several jobs of its own, any other one. */
static bool pool_takes(const pgw_worker *w, pgw_task *const *tasks, size_t n)
{
    const pgw_task *next = w->shared.ready.first;

    if (next == NULL || pgw__worker_blocked(w)) return false;
    if (n == 0) return true;
    return n < (size_t)w->given.batch && next->kind == tasks[0]->kind &&
           next->kind->batch_fn != NULL;
}

static void pool_begin(pgw_worker *w, pgw_task *t, int64_t now_us)
{
    const int64_t now = now_us / 1000;

    t->stage = PGW__RUNNING;
    pgw__report_started(t, now_us);
    t->kind->began_at = now;
    if (t == w->shared.quarantined) w->shared.hold_until = now + POOL_TRUST_MS;
    if (t->timeout_ms == 0) return;
    atomic_store(&t->tired_at, now + t->timeout_ms);
    if (now + t->timeout_ms >= w->shared.heartbeat_at) return;
    w->shared.heartbeat_at = now + t->timeout_ms;
    pgw__worker_heartbeat_wake(w);
}

static size_t pool_take(pgw_worker *w, pgw_task **tasks, int64_t now_us)
{
    const int64_t now = now_us / 1000;
    size_t n = 0;

    while (pool_takes(w, tasks, n)) {
        pgw_task *t = pool_pop_ready(w);

        if (!pool_may_start(w, t, now)) continue;
        pool_begin(w, t, now_us);
        tasks[n++] = t;
    }
    w->pool->turn = w->given.place + 1 < w->pool->sources_count ? w->given.place + 1 : 0;
    w->pool->began_at = now;
    w->pool->busy += n > 0;
    w->shared.running += (int)n;
    atomic_store(&w->n.running, w->shared.running);
    return n;
}

/* The job was gone before the answer came: a heartbeat in between has taken that for a loss. */
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

/* The queue is held at the server, too: at once, before the next claim returns another job of it.
 */
static void pool_hold(pgw_worker *w, pgw_task *t)
{
    pgw__worker_release_ready(w, pgw_job_queue(t->job));
    pool_finish(w, t);
    t->taskset->due_at = w->shared.due_at = pgw__clock_ms();
}

static void pool_put(pgw_worker *w, pgw_task **tasks, size_t n, int64_t now_us)
{
    size_t i;

    if (tasks[0]->kind->limit < INT_MAX) pgw__kind_ran(tasks[0]->kind, now_us - tasks[0]->began_us);
    w->pool->busy--;
    w->pool->finished += (int64_t)n;
    w->shared.running -= (int)n;
    atomic_store(&w->n.running, w->shared.running);
    for (i = 0; i < n; i++) {
        pgw_task *t = tasks[i];

        pgw__report_returned(t, now_us);
        pool_end_holding(t);
        if (t->verdict == PGW_VERDICT_SETTLED)
            pool_settled(w, t);
        else if (w->shared.ended) /* no thread is left to report it */
            pgw__worker_drop(t);
        else if (t->verdict == PGW_VERDICT_HOLD)
            pool_hold(w, t);
        else
            pool_finish(w, t);
    }
}

/* ---- handlers ---- */

bool pgw__worker_handlers_init(const pgw_worker *w)
{
    const size_t n = (size_t)pgw__worker_handlers(w);
    pgw__pool *p = w->pool;

    p->handlers = pgw__mem_zero(n, sizeof(p->handlers[0]));
    for (size_t i = 0; p->handlers != NULL && i < n; i++) {
        p->handlers[i].pool = p;
        p->handlers[i].tasks = pgw__mem_zero((size_t)w->given.batch, sizeof(pgw_task *));
        if (p->handlers[i].tasks == NULL) return false;
        p->handlers_count = i + 1;
    }
    return p->handlers != NULL;
}

static void pool_call(pgw_task **tasks, size_t n)
{
    const pgw__kind *kind = tasks[0]->kind;

    if (kind->batch_fn != NULL)
        kind->batch_fn(tasks, n, kind->arg);
    else
        tasks[0]->verdict = kind->fn(tasks[0], kind->arg);
    for (size_t i = 0; i < n; i++) pgw__kind_judge(tasks[i]);
}

void pgw__worker_run_here(pgw_worker *w)
{
    pgw_task **tasks = w->pool->handlers[0].tasks;
    size_t n;

    pthread_mutex_lock(&w->pool->lock);
    n = pool_take(w, tasks, pgw__clock_us());
    pthread_mutex_unlock(&w->pool->lock);
    if (n == 0) return;
    pool_call(tasks, n);
    pthread_mutex_lock(&w->pool->lock);
    pool_put(w, tasks, n, pgw__clock_us());
    pthread_mutex_unlock(&w->pool->lock);
}

/* The next source that has a job to start, or NULL. */
static pgw_worker *pool_next(const pgw__pool *p)
{
    for (size_t i = 0; p->ready > 0 && i < p->sources_count; i++) {
        pgw_worker *w = pool_source(p, i);

        if (w->shared.ready.first != NULL && !pgw__worker_blocked(w)) return w;
    }
    return NULL;
}

static void *pool_thread(void *arg)
{
    pgw__handler_thread *handler = arg;
    pgw__pool *p = handler->pool;
    int64_t now_us = 0; /* read once for the end of a job and the start of the next */
    bool last;

    pthread_mutex_lock(&p->lock);
    for (;;) {
        pgw_worker *w;

        while ((w = pool_next(p)) == NULL && !p->closing) {
            p->idle++;
            pthread_cond_wait(&p->work, &p->lock);
            p->idle--;
            now_us = 0;
        }
        if (w == NULL || p->closing) break;
        if (now_us == 0) now_us = pgw__clock_us();
        handler->held = pool_take(w, handler->tasks, now_us);
        pgw__worker_stir(p);
        if (handler->held == 0) {
            now_us = 0;
            continue;
        }
        pthread_mutex_unlock(&p->lock);
        pool_call(handler->tasks, handler->held);
        pthread_mutex_lock(&p->lock);
        now_us = pgw__clock_us();
        pool_put(w, handler->tasks, handler->held, now_us);
        handler->held = 0;
        pgw__worker_stir(p);
    }
    handler->left = true;
    last = handler->alone && --p->owners == 0;
    pthread_cond_broadcast(&p->left);
    pthread_mutex_unlock(&p->lock);
    if (last) pgw__worker_destroy(p);
    return NULL;
}

static size_t pool_threads(const pgw__pool *p)
{
    return (size_t)p->sources[0]->given.concurrency;
}

pgw_status pgw__worker_hire(pgw__pool *p)
{
    p->closing = false;
    for (size_t i = 0; i < pool_threads(p); i++) {
        pgw__handler_thread *handler = &p->handlers[i];

        handler->left = handler->alone = false; /* it may be left from the last run */
        handler->started = pgw__worker_start(&handler->thread, pool_thread, handler) == PGW_OK;
        if (!handler->started) return PGW_ENOMEM;
    }
    return PGW_OK;
}

bool pgw__worker_dismiss(pgw__pool *p)
{
    const size_t n = pool_threads(p);
    bool all = true;

    pthread_mutex_lock(&p->lock);
    p->closing = true;
    pthread_cond_broadcast(&p->work);
    for (size_t i = 0; i < n; i++) {
        pgw__handler_thread *handler = &p->handlers[i];

        if (!handler->started) continue;
        while (!handler->left && handler->held == 0) pthread_cond_wait(&p->left, &p->lock);
        if (!handler->left) { /* in a handler that does not return: the thread ends alone */
            handler->alone = true;
            p->owners++;
            all = false;
        }
    }
    pthread_mutex_unlock(&p->lock);
    for (size_t i = 0; i < n; i++) {
        pgw__handler_thread *handler = &p->handlers[i];

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

size_t pgw_task_source(const pgw_task *task)
{
    return task->worker->given.place;
}

int pgw_task_fd(pgw_task *task)
{
    pgw_worker *w = task->worker;

    pthread_mutex_lock(&w->pool->lock);
    if (task->wake.read_fd < 0 && pgw__wake_open(&task->wake) && pgw_task_signals(task) != 0)
        pgw__worker_raise(task, pgw_task_signals(task));
    pthread_mutex_unlock(&w->pool->lock);
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
