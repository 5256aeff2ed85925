/* worker_state: the base of all files of the worker: memory, lists and results, signals of a task.
 * No function here calls the server. */
#include "worker/worker_state.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define STATE_REST_MS     2000 /* first pause of a result whose row is locked */
#define STATE_REST_MAX_MS 60000

/* ---- lists and tasksets ---- */

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

void pgw__taskset_settle(pgw_worker *w, pgw__taskset *c)
{
    if (--c->busy == 0) w->shared.whole += (int)c->done;
}

void pgw__result_add(pgw_worker *w, pgw_task *t, int64_t due_at)
{
    pgw__taskset *c = t->taskset;

    c->done++;
    if (c->busy == 0) w->shared.whole++;
    if (due_at < c->due_at) c->due_at = due_at;
    pgw__result_put_back(w, t);
}

void pgw__result_take(pgw_worker *w, pgw_task *t)
{
    pgw__taskset *c = t->taskset;

    if (c->busy == 0) w->shared.whole--;
    if (--c->done == 0) c->due_at = INT64_MAX;
}

void pgw__result_put_back(pgw_worker *w, pgw_task *t)
{
    if (t->taskset->due_at < w->shared.due_at) w->shared.due_at = t->taskset->due_at;
    pgw__list_push(&w->shared.done, t);
}

void pgw__taskset_put(pgw_worker *w, pgw__taskset *c)
{
    if (--c->open > 0) return;
    if (c->prev != NULL)
        c->prev->next = c->next;
    else
        w->shared.tasksets = c->next;
    if (c->next != NULL) c->next->prev = c->prev;
    pgw_batch_free(c->batch);
    pgw__mem_free(c);
}

void pgw__result_rest(pgw_worker *w, pgw_task *t, int64_t now)
{
    if (t->rest_ms == 0) t->rest_ms = STATE_REST_MS;
    t->rest_until = now + pgw__backoff_grow_ms(&t->rest_ms, STATE_REST_MAX_MS);
    pgw__list_push(&w->shared.resting, t);
}

void pgw__result_resume(pgw_worker *w, int64_t now, bool all)
{
    for (int left = w->shared.resting.count; left > 0; left--) {
        pgw_task *t = pgw__list_pop(&w->shared.resting);

        if (t == NULL) return;
        if (all || now >= t->rest_until)
            pgw__result_add(w, t, now);
        else
            pgw__list_push(&w->shared.resting, t);
    }
}

void pgw__worker_clear(pgw_worker *w, const pgw_task *t)
{
    if (w->shared.quarantined != t) return;
    w->shared.quarantined = NULL;
    w->shared.hold_until = 0;
}

bool pgw__worker_blocked(const pgw_worker *w)
{
    return w->shared.quarantined != NULL && w->shared.ready.first == w->shared.quarantined &&
           w->shared.done.count + w->shared.telling > 0;
}

void pgw__worker_drop(pgw_task *t)
{
    if (t->stage != PGW__DONE) pgw__taskset_settle(t->worker, t->taskset);
    t->stage = PGW__GONE;
    pgw__worker_clear(t->worker, t);
    pgw__wake_close(&t->wake);
    pgw__mem_free(t->output);
    pgw__mem_free(t->error);
    pgw__mem_free(t->progress);
    pgw_batch_free(t->before);
    t->output = t->error = t->progress = NULL;
    t->before = NULL;
    pgw__taskset_put(t->worker, t->taskset);
}

/* ---- signals ---- */

bool pgw__worker_mark_lost(pgw_task *t)
{
    if (atomic_fetch_or(&t->signals, PGW_SIGNAL_LOST) & PGW_SIGNAL_LOST) return false;
    atomic_fetch_add(&t->worker->n.lost, 1);
    atomic_fetch_add(&t->tally->lost, 1);
    return true;
}

void pgw__worker_raise(pgw_task *t, int signals)
{
    if ((atomic_fetch_or(&t->signals, signals) | signals) == 0) return;
    if (t->stage == PGW__READY &&
        !t->worker->shared.unfit) { /* all handlers may be busy for long */
        t->worker->shared.unfit = true;
        pgw__wake_poke(&t->worker->shared.wake);
    }
    if (t->wake.write_fd < 0 || t->poked) return;
    pgw__wake_poke(&t->wake);
    t->poked = true;
}

bool pgw__worker_lose(pgw_task *t)
{
    const bool first = pgw__worker_mark_lost(t);

    pgw__worker_raise(t, PGW_SIGNAL_LOST);
    return first;
}

/* ---- threads ---- */

int pgw__worker_handlers(const pgw_worker *w)
{
    return w->given.concurrency > 0 ? w->given.concurrency : 1;
}

pgw_status pgw__worker_start(pthread_t *thread, void *(*fn)(void *), void *arg)
{
    /* faults of the thread itself; blocked, they would kill the process without the program's
     * handler */
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

/* ---- calls ---- */

void pgw__worker_limit_calls(pgw_worker *w, int64_t ms)
{
    if (ms < PGW__WORKER_LEAST_CALL_MS) ms = PGW__WORKER_LEAST_CALL_MS;
    pgw_set_timeout(w->loop.h, ms < w->given.call_ms ? ms : w->given.call_ms);
}

bool pgw__worker_is_crowded(const pgw *h)
{
    return strcmp(pgw_error_sqlstate(h), "53300") == 0;
}

bool pgw__worker_goes_on(pgw_status st)
{
    return st >= 0 || st == PGW_ENOTFOUND || st == PGW_EDB || st == PGW_ETIMEDOUT ||
           st == PGW_ERETRY || st == PGW_ELOCKED;
}

void pgw__worker_heartbeat_wake(pgw_worker *w)
{
    pgw__wake_poke(&w->extension.wake);
}

bool pgw__worker_runs(pgw__pool *p)
{
    bool runs;

    pthread_mutex_lock(&p->lock);
    runs = p->runs || p->owners > 1;
    pthread_mutex_unlock(&p->lock);
    return runs;
}

pgw_status pgw__worker_refuse(pgw_worker *w, const char *argument, const char *what,
                              const char *allowed)
{
    snprintf(w->loop.error, sizeof(w->loop.error), "argument `%s` %s: expected %s", argument, what,
             allowed);
    return PGW_EINVAL;
}

/* ---- the end ---- */

void pgw__worker_source_free(pgw_worker *w)
{
    for (size_t i = 0; i < w->given.queues_count; i++) pgw__mem_free(w->given.queues[i]);
    pgw__mem_free(w->given.queues);
    pgw__mem_free(w->flush.out);
    pgw__mem_free(w->flush.refs);
    pgw__mem_free(w->flush.outputs);
    pgw__mem_free(w->extension.tasks);
    pgw__mem_free(w->extension.refs);
    pgw__mem_free(w->extension.sent_at);
    pgw__wake_close(&w->extension.wake);
    pgw__mem_free(w->loop.why);
    pgw__mem_free(w->report.tallies);
    pgw__mem_free(w->report.versions);
    pgw__mem_free(w->report.running);
    pgw__mem_free(w->report.counts);
    pgw__wake_close(&w->shared.wake);
    pthread_cond_destroy(&w->progress.answered);
    pgw_conf_free(w->given.conf);
    pgw__mem_free(w);
}

void pgw__worker_destroy(pgw__pool *p)
{
    size_t i;

    for (i = 0; i < p->sources_count; i++) pgw__worker_source_free(p->sources[i]);
    for (i = 0; i < p->handlers_count; i++) pgw__mem_free(p->handlers[i].tasks);
    pgw__mem_free(p->handlers);
    for (i = 0; i < p->kinds_count; i++) {
        pgw__mem_free(p->kinds[i]->name);
        pgw__mem_free(p->kinds[i]);
    }
    pgw__mem_free(p->kinds);
    pthread_cond_destroy(&p->work);
    pthread_cond_destroy(&p->left);
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->log_lock);
    pgw__mem_free(p);
}
