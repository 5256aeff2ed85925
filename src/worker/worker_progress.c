/* worker_progress: what handlers report of their jobs, told to the server with the heartbeat.
 *
 * A report is kept until the server has it, or a later one replaces it. Of a job that is done, none
 * is sent; before a job is requeued, its last one is. */
#include "worker/worker_progress.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "call/check.h"
#include "queue/job.h"

#define PROGRESS_PAUSE_MS 1000 /* between two calls of the heartbeat */
#define PROGRESS_CALL_MS  1000 /* as long at most as it may hold up the leases */
#define PROGRESS_MAX      100  /* jobs of one call */

typedef struct progress_lot {
    size_t n;
    pgw_task *tasks[PROGRESS_MAX];
    pgw_ref refs[PROGRESS_MAX];
    char *texts[PROGRESS_MAX];
    unsigned numbers[PROGRESS_MAX];
} progress_lot;

/* A session that hangs must not cost the leases: a call takes a quarter of the shortest one. */
static void progress_limit(const pgw_worker *w, pgw *h)
{
    int64_t ms = w->report.lease_ms / 4;

    if (ms > PROGRESS_CALL_MS) ms = PROGRESS_CALL_MS;
    pgw__pq_limit_calls(h, ms > PGW__LEASE_LEAST_CALL_MS ? ms : PGW__LEASE_LEAST_CALL_MS);
}

pgw_status pgw_task_progress(pgw_task *task, const char *json)
{
    pgw_worker *w = task->worker;
    char *copy, *before;
    size_t at;

    if (json == NULL || pgw__json_fault(json, PGW__PROGRESS_MAX, &at) != NULL) return PGW_EINVAL;
    copy = pgw__mem_dup(json);
    if (copy == NULL) return PGW_ENOMEM;
    pthread_mutex_lock(&w->pool->lock);
    before = task->progress;
    task->progress = copy;
    task->progress_n++;
    if (!w->progress.waits) {
        const int64_t due_at = w->progress.sent_at + PROGRESS_PAUSE_MS;

        w->progress.waits = true;
        if (due_at < w->shared.heartbeat_at) w->shared.heartbeat_at = due_at;
        pgw__worker_heartbeat_wake(w);
    }
    pthread_mutex_unlock(&w->pool->lock);
    pgw__mem_free(before);
    return PGW_OK;
}

/* ---- what was stored before ---- */

/* In the thread of the heartbeat, whose session it is. With the lock held, which is dropped
 * meanwhile. */
static void progress_answer(pgw_worker *w, pgw *h, pgw_task *t)
{
    pgw_batch *before = NULL;
    pgw_status st = PGW_ECONN;

    t->taskset->open++; /* it stays in memory */
    if (pgw__pq_check_session(h) == PGW_OK) {
        progress_limit(w, h);
        pthread_mutex_unlock(&w->pool->lock);
        st = pgw_progress_read(h, pgw_job_queue(t->job), t->ref.id, &before);
        if (h == w->loop.h) pgw_set_timeout(h, PGW_DEFAULT);
        pthread_mutex_lock(&w->pool->lock);
    }
    if (t->asks) {
        t->answer = st < 0 ? st : PGW_OK;
        t->before = before;
        t->asks = false;
        w->progress.asks--;
    } else { /* the worker ends: the handler waits no longer */
        pgw_batch_free(before);
    }
    pgw__taskset_put(w, t->taskset);
}

static pgw_task *progress_asking(const pgw_worker *w)
{
    for (pgw__taskset *c = w->shared.tasksets; c != NULL; c = c->next)
        for (size_t i = 0; i < c->count; i++)
            if (c->tasks[i].asks) return &c->tasks[i];
    return NULL;
}

static void progress_ask(pgw_task *t)
{
    pgw_worker *w = t->worker;

    t->asks = true;
    w->progress.asks++;
    w->shared.heartbeat_at = 0;
    pgw__worker_heartbeat_wake(w);
    while (t->asks && !w->shared.heartbeat_ends)
        pthread_cond_wait(&w->progress.answered, &w->pool->lock);
    if (!t->asks) return;
    t->asks = false; /* the worker ends, and no heartbeat is left */
    w->progress.asks--;
    t->answer = PGW_ECANCELED;
}

pgw_status pgw_task_last_progress(pgw_task *task, const char **json)
{
    pgw_worker *w = task->worker;

    if (json == NULL) return PGW_EINVAL;
    pthread_mutex_lock(&w->pool->lock);
    if (task->before == NULL && w->given.concurrency > 0) progress_ask(task);
    if (task->before == NULL && w->given.concurrency == 0) {
        task->asks = true;
        w->progress.asks++;
        progress_answer(w, w->loop.h, task);
    }
    *json = pgw_job_progress(pgw_batch_job(task->before, 0));
    pthread_mutex_unlock(&w->pool->lock);
    return task->answer;
}

void pgw__progress_answer_all(pgw_worker *w, pgw *h)
{
    pgw_task *t;

    while (w->progress.asks > 0 && (t = progress_asking(w)) != NULL) progress_answer(w, h, t);
    pthread_cond_broadcast(&w->progress.answered);
}

/* ---- what is reported ---- */

/* With the lock held: a handler may report again while this is sent. */
static bool progress_take(progress_lot *lot, pgw_task *t)
{
    char *text = t->progress != NULL ? pgw__mem_dup(t->progress) : NULL;

    if (text == NULL) return false;
    lot->tasks[lot->n] = t;
    lot->refs[lot->n] = t->ref;
    lot->texts[lot->n] = text;
    lot->numbers[lot->n++] = t->progress_n;
    return true;
}

/* One value that the server refuses must not cost the others theirs. */
static bool progress_is_ones(pgw_status st)
{
    return st == PGW_EINVAL || st == PGW_ELIMIT || st == PGW_EDB;
}

static pgw_status progress_call(pgw_worker *w, pgw *h, progress_lot *lot, size_t from, size_t n)
{
    const char *queue = pgw_job_queue(lot->tasks[from]->job);
    const char *const *texts = (const char *const *)lot->texts + from;
    const pgw_status st = pgw__job_progress(h, queue, lot->refs + from, n, texts);

    if (st >= 0 || st == PGW_ELEASE || st == PGW_ELOCKED) return PGW_OK;
    for (size_t i = from; i < from + n; i++) lot->refs[i].outcome = st;
    if (n == 1 && progress_is_ones(st))
        PGW__LOG(&w->given.log, PGW_LOG_WARN, "worker", "progress of job %lld refused: %s",
                 (long long)lot->refs[from].id, pgw_error_message(h));
    return st;
}

static void progress_send(pgw_worker *w, pgw *h, progress_lot *lot)
{
    pgw_status st = progress_call(w, h, lot, 0, lot->n);

    if (lot->n == 1 || !progress_is_ones(st)) return;
    st = PGW_OK;
    for (size_t i = 0; i < lot->n; i++) {
        if (pgw__worker_goes_on(st) || progress_is_ones(st))
            st = progress_call(w, h, lot, i, 1);
        else
            lot->refs[i].outcome = st;
    }
}

/* With the lock held. Returns whether all of it is settled: stored, or refused for good. */
static bool progress_settle(progress_lot *lot)
{
    bool settled = true;

    for (size_t i = 0; i < lot->n; i++) {
        pgw_task *t = lot->tasks[i];
        const pgw_status st = lot->refs[i].outcome;

        pgw__mem_free(lot->texts[i]);
        if (st < 0 && st != PGW_ELEASE && st != PGW_ENOTFOUND && !progress_is_ones(st)) {
            settled = false;
        } else if (t->progress_n == lot->numbers[i]) {
            pgw__mem_free(t->progress);
            t->progress = NULL;
        }
    }
    return settled;
}

/* With the lock held. Each task keeps its task set in memory until it is settled. */
static void progress_collect(pgw_worker *w, progress_lot *lot, const pgw__tally *queue)
{
    lot->n = 0;
    for (pgw__taskset *c = w->shared.tasksets; c != NULL; c = c->next) {
        for (size_t i = 0; i < c->count && lot->n < PROGRESS_MAX; i++) {
            pgw_task *t = &c->tasks[i];

            if (t->progress == NULL || t->tally != queue || t->stage != PGW__RUNNING) continue;
            if (t->progress_at == w->progress.sent_at) continue; /* tried in this round */
            if (atomic_load(&t->signals) & PGW_SIGNAL_LOST) continue;
            t->progress_at = w->progress.sent_at;
            if (progress_take(lot, t)) c->open++;
        }
    }
}

/* With the lock held, which is dropped meanwhile. */
static void progress_send_queue(pgw_worker *w, pgw *h, const pgw__tally *queue)
{
    progress_lot lot;

    do {
        progress_collect(w, &lot, queue);
        if (lot.n == 0) return;
        pthread_mutex_unlock(&w->pool->lock);
        progress_send(w, h, &lot);
        pthread_mutex_lock(&w->pool->lock);
        if (!progress_settle(&lot) || lot.n == PROGRESS_MAX) w->progress.waits = true;
        for (size_t i = 0; i < lot.n; i++) pgw__taskset_put(w, lot.tasks[i]->taskset);
    } while (lot.n == PROGRESS_MAX && pgw__clock_ms() < w->progress.sent_at + PROGRESS_CALL_MS);
}

int64_t pgw__progress_if_due(pgw_worker *w, pgw *h, int64_t next)
{
    const int64_t now = pgw__clock_ms(), due_at = w->progress.sent_at + PROGRESS_PAUSE_MS;

    if (!w->progress.waits) return next;
    if (now < due_at) return next < due_at ? next : due_at;
    if (next <= now || pgw__pq_check_session(h) != PGW_OK) return next;
    progress_limit(w, h);
    w->progress.waits = false;
    w->progress.sent_at = now;
    for (size_t q = 0; q < w->given.queues_count; q++)
        progress_send_queue(w, h, &w->report.tallies[q]);
    return pgw__clock_ms(); /* look again: time has passed */
}

void pgw__progress_before(pgw_worker *w, pgw_task *const *tasks, size_t n)
{
    for (size_t i = 0; i < n;) {
        progress_lot lot = {.n = 0};

        pthread_mutex_lock(&w->pool->lock);
        for (; i < n && lot.n < PROGRESS_MAX; i++) progress_take(&lot, tasks[i]);
        pthread_mutex_unlock(&w->pool->lock);
        if (lot.n == 0) continue;
        progress_send(w, w->loop.h, &lot);
        pthread_mutex_lock(&w->pool->lock);
        progress_settle(&lot);
        pthread_mutex_unlock(&w->pool->lock);
    }
}
