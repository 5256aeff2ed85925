/* worker_pool: the stock of claimed jobs, the threads that work on them, and what a handler can ask
 * and say. */
#include "worker/worker.h"

#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/name.h"
#include "call/check.h"
#include "queue/job.h"

#define POOL_ALONE_MS    1000 /* after a claim that brought a last attempt too many */
#define POOL_TRUST_MS    1000 /* a killer is quick */
#define POOL_REST_MS     2000 /* of a result whose row somebody has locked, the first time */
#define POOL_REST_MAX_MS 60000

/* ---- lists and crates ---- */

void pgw__list_push(pgw__list *l, pgw_task *t)
{
    t->next = NULL;
    if (l->last != NULL)
        l->last->next = t;
    else
        l->first = t;
    l->last = t;
    l->count++;
}

pgw_task *pgw__list_pop(pgw__list *l)
{
    pgw_task *t = l->first;

    if (t == NULL) return NULL;
    l->first = t->next;
    if (l->first == NULL) l->last = NULL;
    l->count--;
    return t;
}

/* One task less that is READY or RUNNING. */
static void crate_settle(pgw_worker *w, pgw__crate *c)
{
    if (--c->busy == 0) w->whole += (int)c->done;
}

void pgw__result_add(pgw_worker *w, pgw_task *t, int64_t due_at)
{
    pgw__crate *c = t->crate;

    c->done++;
    if (c->busy == 0) w->whole++;
    if (due_at < c->due_at) c->due_at = due_at;
    pgw__result_put_back(w, t);
}

void pgw__result_take(pgw_worker *w, pgw_task *t)
{
    pgw__crate *c = t->crate;

    if (c->busy == 0) w->whole--;
    if (--c->done == 0) c->due_at = INT64_MAX;
}

void pgw__result_put_back(pgw_worker *w, pgw_task *t)
{
    if (t->crate->due_at < w->due_at) w->due_at = t->crate->due_at;
    pgw__list_push(&w->done, t);
}

void pgw__crate_put(pgw_worker *w, pgw__crate *c)
{
    if (--c->open > 0) return;
    if (c->prev != NULL)
        c->prev->next = c->next;
    else
        w->crates = c->next;
    if (c->next != NULL) c->next->prev = c->prev;
    pgw_batch_free(c->batch);
    pgw__mem_free(c);
}

void pgw__result_rest(pgw_worker *w, pgw_task *t, int64_t now)
{
    if (t->rest_ms == 0) t->rest_ms = POOL_REST_MS;
    t->rest_until = now + pgw__backoff_grow_ms(&t->rest_ms, POOL_REST_MAX_MS);
    pgw__list_push(&w->resting, t);
}

void pgw__result_resume(pgw_worker *w, int64_t now, bool all)
{
    for (int left = w->resting.count; left > 0; left--) {
        pgw_task *t = pgw__list_pop(&w->resting);

        if (all || now >= t->rest_until)
            pgw__result_add(w, t, now);
        else
            pgw__list_push(&w->resting, t);
    }
}

/* ---- quarantined jobs ----
 *
 * A job whose last worker died comes alone: the server sees to it. It may kill this worker, too,
 * and then no other job may lose an attempt. So the worker claims nothing until that job is
 * finished, or has run for POOL_TRUST_MS. The job starts only when all results are reported, except
 * those that rest: a result that dies with the worker would be lost. */

static void pool_clear(pgw_worker *w, const pgw_task *t)
{
    if (w->quarantined != t) return;
    w->quarantined = NULL;
    w->hold_until = 0;
}

bool pgw__worker_blocked(const pgw_worker *w)
{
    return w->quarantined != NULL && w->ready.first == w->quarantined &&
           w->done.count + w->telling > 0;
}

void pgw__worker_drop(pgw_task *t)
{
    if (t->stage != PGW__DONE) crate_settle(t->worker, t->crate);
    t->stage = PGW__GONE;
    pool_clear(t->worker, t);
    pgw__wake_close(&t->wake);
    pgw__mem_free(t->output);
    pgw__mem_free(t->error);
    t->output = t->error = NULL;
    pgw__crate_put(t->worker, t->crate);
}

static void pool_unpack(pgw_task *t, pgw__crate *c, const pgw_job *job, int64_t since,
                        int64_t server_us)
{
    int64_t lease_ms = (pgw_job_lease_until_us(job) - server_us) / 1000;

    if (lease_ms < 1) lease_ms = 1;
    t->crate = c;
    t->self = t;
    t->job = job;
    t->ref = pgw_job_ref(job);
    /* What is asked for when it is extended. The time is that of the first job: of other queues, or
     * by a clock that was set, a lease may seem longer or shorter than may be asked for. */
    t->lease_ms = lease_ms < PGW__LEASE_MIN_MS   ? PGW__LEASE_MIN_MS
                  : lease_ms > PGW__LEASE_MAX_MS ? PGW__LEASE_MAX_MS
                                                 : lease_ms;
    t->beat_at = since + lease_ms / 3;
    /* The server started the lease after that, so by our clock it lasts at least until then. */
    atomic_init(&t->safe_until, pgw__lease_end(since, lease_ms));
    atomic_init(&t->tired_at, INT64_MAX);
    atomic_init(&t->signals, 0);
    t->wake = (pgw__wake)PGW__WAKE_INIT;
    t->delay_ms = -1;
}

/* The first result of a crate says when all that are there by then are reported, after
 * worker.flush_ms; and each, that it is before the last third of a lease that nobody extends. Where
 * the next handler would hold it up, the time of this one counts: it tells how long that may be. */
static int64_t pool_due_at(const pgw_worker *w, const pgw_task *t)
{
    const int64_t late = atomic_load(&t->safe_until) - t->lease_ms / 3;
    int64_t at;

    if (t->crate->done > 0) return late;
    at = (w->concurrency == 0 ? w->began_at : pgw__clock_ms()) + w->flush_ms;
    return at < late ? at : late;
}

static void pool_finish(pgw_worker *w, pgw_task *t)
{
    t->stage = PGW__DONE;
    pool_clear(w, t);
    pgw__wake_close(&t->wake);
    crate_settle(w, t->crate);
    pgw__result_add(w, t, pool_due_at(w, t));
}

static void pool_release(pgw_worker *w, pgw_task *t)
{
    t->verdict = PGW_RELEASE;
    pool_finish(w, t);
}

/* At once: others can have it while what runs here goes on. It was not one of worker.max_jobs. */
static void pool_requeue(pgw_worker *w, pgw_task *t, int64_t now)
{
    pool_release(w, t);
    t->crate->due_at = w->due_at = now;
    w->taken--;
}

/* ---- stock ---- */

int pgw__worker_handlers(const pgw_worker *w)
{
    return w->concurrency > 0 ? w->concurrency : 1;
}

static int pool_free(const pgw_worker *w)
{
    return w->batch * (pgw__worker_handlers(w) - w->busy);
}

/* Would the job be dead, should this process die before it has begun? Then it waits at the server:
 * such a job is requeued unless a handler is free for it, and nothing is prefetched for a while. */
static bool pool_is_last(const pgw_job *job)
{
    const int most = pgw_job_max_attempts(job);

    return most > 0 && pgw_job_attempt(job) >= most;
}

/* With the lock held. */
static void pool_stock(pgw_worker *w, pgw__crate *c)
{
    const int64_t now = pgw__clock_ms();
    const int free = pool_free(w);
    size_t i;

    for (i = 0; i < c->count; i++) {
        if (w->ready.count < free || !pool_is_last(c->tasks[i].job)) {
            pgw__list_push(&w->ready, &c->tasks[i]);
            continue;
        }
        pool_requeue(w, &c->tasks[i], now);
        w->alone_until = now + POOL_ALONE_MS;
    }
}

pgw_status pgw__worker_admit(pgw_worker *w, pgw_batch *batch, int64_t since, int64_t server_us)
{
    const size_t n = pgw_batch_count(batch);
    pgw__crate *c = pgw__mem_zero(1, sizeof(*c) + n * sizeof(c->tasks[0]));
    int64_t beat_at = INT64_MAX;
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
        if (c->tasks[i].beat_at < beat_at) beat_at = c->tasks[i].beat_at;
    }
    atomic_fetch_add(&w->n.claimed, (int64_t)n);

    pthread_mutex_lock(&w->lock);
    c->next = w->crates;
    if (c->next != NULL) c->next->prev = c;
    w->crates = c;
    pool_stock(w, c);
    w->done_before = w->done.count;
    if (pgw__batch_quarantined(batch)) {
        w->quarantined = &c->tasks[0];
        w->hold_until = INT64_MAX;
    }
    if (beat_at < w->heart_at) {
        w->heart_at = beat_at;
        pgw__worker_heart_wake(w);
    }
    if (n >= (size_t)w->idle)
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

    while ((t = pgw__list_pop(&w->ready)) != NULL) pool_requeue(w, t, now);
}

/* ---- signals ---- */

static bool pool_mark_lost(pgw_task *t)
{
    if (atomic_fetch_or(&t->signals, PGW_LOST) & PGW_LOST) return false;
    atomic_fetch_add(&t->worker->n.lost, 1);
    return true;
}

void pgw__worker_raise(pgw_task *t, int signals)
{
    if ((atomic_fetch_or(&t->signals, signals) | signals) == 0) return;
    if (t->stage == PGW__READY && !t->worker->unfit) { /* all handlers may be busy for long */
        t->worker->unfit = true;
        pgw__wake_poke(&t->worker->wake);
    }
    if (t->wake.write_fd < 0 || t->poked) return;
    pgw__wake_poke(&t->wake);
    t->poked = true;
}

bool pgw__worker_lose(pgw_task *t)
{
    const bool first = pool_mark_lost(t);

    pgw__worker_raise(t, PGW_LOST);
    return first;
}

/* ---- taking and giving back, with the lock held ---- */

pgw__worker_counts pgw__worker_count(const pgw_worker *w)
{
    return (pgw__worker_counts){.ready = w->ready.count,
                                .free = pool_free(w),
                                .running = w->running,
                                .done = w->done.count,
                                .whole = w->whole,
                                .due_at = w->due_at,
                                .blocked = pgw__worker_blocked(w),
                                .hold_until = w->hold_until};
}

/* Something changed that a waiting main loop may want to act upon. */
static void pool_stir(pgw_worker *w)
{
    if (!w->waits) return;
    if (!pgw__worker_plan_stirs(&w->view, pgw__worker_count(w))) return;
    w->waits = false;
    pgw__wake_poke(&w->wake);
}

/* Jobs whose lease is over are never given to a handler: somebody else may have them. One that was
 * cancelled goes back, and the server removes it. */
static bool pool_may_start(pgw_worker *w, pgw_task *t, int64_t now)
{
    if (now >= atomic_load(&t->safe_until)) pool_mark_lost(t);
    if (atomic_load(&t->signals) & PGW_LOST)
        pgw__worker_drop(t);
    else if (atomic_load(&t->signals) & PGW_CANCELED)
        pool_release(w, t);
    else
        return true;
    return false;
}

void pgw__worker_sort_out(pgw_worker *w)
{
    int64_t now;
    int left;

    if (!w->unfit) return;
    w->unfit = false;
    now = pgw__clock_ms();
    for (left = w->ready.count; left > 0; left--) {
        pgw_task *t = pgw__list_pop(&w->ready);

        if (pool_may_start(w, t, now)) pgw__list_push(&w->ready, t);
    }
}

static size_t pool_take(pgw_worker *w, pgw_task **tasks)
{
    const size_t max = w->batch_fn != NULL ? (size_t)w->batch : 1;
    const int64_t now = pgw__clock_ms();
    size_t n = 0;

    while (n < max && w->ready.first != NULL && !pgw__worker_blocked(w)) {
        pgw_task *t = pgw__list_pop(&w->ready);

        if (!pool_may_start(w, t, now)) continue;
        t->stage = PGW__RUNNING;
        if (t == w->quarantined) w->hold_until = now + POOL_TRUST_MS;
        if (w->timeout_ms > 0) {
            atomic_store(&t->tired_at, now + w->timeout_ms);
            if (now + w->timeout_ms < w->heart_at) {
                w->heart_at = now + w->timeout_ms;
                pgw__worker_heart_wake(w);
            }
        }
        tasks[n++] = t;
    }
    w->began_at = now;
    w->busy += n > 0;
    w->running += (int)n;
    atomic_store(&w->n.running, w->running);
    return n;
}

/* The job was gone before we heard why: a heartbeat in between has taken that for a loss. */
static void pool_settled(pgw_worker *w, pgw_task *t)
{
    atomic_fetch_add(&w->n.settled, 1);
    if (atomic_load(&t->signals) & PGW_LOST) atomic_fetch_sub(&w->n.lost, 1);
    pgw__worker_drop(t);
}

static void pool_put(pgw_worker *w, pgw_task **tasks, size_t n)
{
    size_t i;

    w->busy--;
    w->finished += (int64_t)n;
    w->running -= (int)n;
    atomic_store(&w->n.running, w->running);
    for (i = 0; i < n; i++) {
        pgw_task *t = tasks[i];

        if (t->verdict == PGW_SETTLED)
            pool_settled(w, t);
        else if (w->closing) /* nobody is left to report it */
            pgw__worker_drop(t);
        else
            pool_finish(w, t);
    }
}

/* ---- handlers ---- */

static void pool_call(pgw_worker *w, pgw_task **tasks, size_t n)
{
    if (w->batch_fn != NULL)
        w->batch_fn(tasks, n, w->arg);
    else
        tasks[0]->verdict = w->fn(tasks[0], w->arg);
}

void pgw__worker_run_here(pgw_worker *w)
{
    pgw_task **tasks = w->hands[0].tasks;
    size_t n;

    pthread_mutex_lock(&w->lock);
    n = pool_take(w, tasks);
    pthread_mutex_unlock(&w->lock);
    if (n == 0) return;
    pool_call(w, tasks, n);
    pthread_mutex_lock(&w->lock);
    pool_put(w, tasks, n);
    pthread_mutex_unlock(&w->lock);
}

static void *pool_thread(void *arg)
{
    pgw__hand *hand = arg;
    pgw_worker *w = hand->worker;
    bool last;

    pthread_mutex_lock(&w->lock);
    for (;;) {
        while ((w->ready.first == NULL || pgw__worker_blocked(w)) && !w->closing) {
            w->idle++;
            pthread_cond_wait(&w->work, &w->lock);
            w->idle--;
        }
        if (w->closing) break;
        hand->held = pool_take(w, hand->tasks);
        pool_stir(w);
        if (hand->held == 0) continue;
        pthread_mutex_unlock(&w->lock);
        pool_call(w, hand->tasks, hand->held);
        pthread_mutex_lock(&w->lock);
        pool_put(w, hand->tasks, hand->held);
        hand->held = 0;
        pool_stir(w);
    }
    hand->left = true;
    last = hand->alone && --w->owners == 0;
    pthread_cond_broadcast(&w->left);
    pthread_mutex_unlock(&w->lock);
    if (last) pgw__worker_destroy(w);
    return NULL;
}

pgw_status pgw__worker_start(pthread_t *thread, void *(*fn)(void *), void *arg)
{
    /* what a fault of the thread's own raises: blocked, it would kill without the program's handler
     */
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
    sigset_t all, before;
    int fault;

    /* The program's signals are for the program's threads. */
    sigfillset(&all);
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) sigdelset(&all, own[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    fault = pthread_create(thread, NULL, fn, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return fault == 0 ? PGW_OK : PGW_ENOMEM;
}

pgw_status pgw__worker_hire(pgw_worker *w)
{
    int i;

    w->closing = false;
    for (i = 0; i < w->concurrency; i++) {
        pgw__hand *hand = &w->hands[i];

        hand->left = hand->alone = false; /* it may have been left behind in the last run */
        hand->started = pgw__worker_start(&hand->thread, pool_thread, hand) == PGW_OK;
        if (!hand->started) return PGW_ENOMEM;
    }
    return PGW_OK;
}

bool pgw__worker_dismiss(pgw_worker *w)
{
    bool all = true;
    int i;

    pthread_mutex_lock(&w->lock);
    w->closing = true;
    pthread_cond_broadcast(&w->work);
    for (i = 0; i < w->concurrency; i++) {
        pgw__hand *hand = &w->hands[i];

        if (!hand->started) continue;
        while (!hand->left && hand->held == 0) pthread_cond_wait(&w->left, &w->lock);
        if (!hand->left) { /* in a handler that does not return: it will find its way out alone */
            hand->alone = true;
            w->owners++;
            all = false;
        }
    }
    pthread_mutex_unlock(&w->lock);
    for (i = 0; i < w->concurrency; i++) {
        pgw__hand *hand = &w->hands[i];

        if (!hand->started) continue;
        if (hand->alone)
            pthread_detach(hand->thread);
        else
            pthread_join(hand->thread, NULL);
        hand->started = false;
    }
    return all;
}

/* ---- what a handler can ask ---- */

const pgw_job *pgw_task_job(const pgw_task *task)
{
    return task->job;
}

/* By the clock, and not only by what the heart has found so far: after the process was frozen the
 * handler may be the first to run again. */
int pgw_task_signals(const pgw_task *task)
{
    const pgw_worker *w = task->worker;
    const int64_t now = pgw__clock_ms();
    int signals;

    if (now >= atomic_load(&task->safe_until)) pool_mark_lost(task->self);
    signals = atomic_load(&task->signals);
    if (now >= atomic_load(&task->tired_at)) signals |= PGW_TIMEOUT;
    if (atomic_load(&w->stopping) > 1) signals |= PGW_STOPPING;
    if (w->concurrency == 0 && pgw_stop_count(w->stop) > 1) signals |= PGW_STOPPING;
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

/* ---- what a handler can say ---- */

pgw_status pgw_task_set_output(pgw_task *task, const char *json)
{
    char *copy = NULL;
    size_t at;

    if (json != NULL) {
        if (pgw__json_fault(json, task->worker->output_max, &at) != NULL) return PGW_EINVAL;
        copy = pgw__mem_dup(json);
        if (copy == NULL) return PGW_ENOMEM;
    }
    pgw__mem_free(task->output);
    task->output = copy;
    return PGW_OK;
}

void pgw_task_set_error(pgw_task *task, const char *error)
{
    pgw__mem_free(task->error);
    task->error = error != NULL ? pgw__mem_dup_n(error, strnlen(error, PGW__ERROR_MAX)) : NULL;
}

void pgw_task_set_delay(pgw_task *task, int64_t delay_ms)
{
    task->delay_ms = delay_ms > 0 ? delay_ms : 0;
}

void pgw_task_set_verdict(pgw_task *task, pgw_verdict verdict)
{
    task->verdict = verdict;
}
