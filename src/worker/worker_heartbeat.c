/* worker_heartbeat: extends leases well before they end, or gives them up in time. A lease is
 * trusted until its claim or last extension was sent, plus its length, plus the known wait of the
 * claim at the server. The server's lease starts later, so no other session can have the job
 * before. */
#include "worker/worker_heartbeat.h"

#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/name.h"
#include "base/status.h"
#include "handle/handle.h"
#include "worker/worker_progress.h"
#include "worker/worker_report.h"

#define HEARTBEAT_MAX_SLEEP_MS 1000 /* by a clock that may stop while the machine sleeps */
#define HEARTBEAT_LOCKED       10 /* part of a lease after which a locked row is asked for again */
#define HEARTBEAT_LOCKED_MS    200
#define HEARTBEAT_LAST         30 /* part of a lease that is nearly over after which is tried again */
#define HEARTBEAT_CALLS        64 /* to find those whose leases cannot be extended, among others */

bool pgw__worker_heartbeat_init(pgw_worker *w)
{
    pgw__extension *b = &w->extension;

    if (w->given.concurrency > 0 && !pgw__wake_open(&b->wake)) return false;
    b->tasks = pgw__mem_zero(PGW__EXTEND_MAX, sizeof(pgw_task *));
    b->refs = pgw__mem_zero(PGW__EXTEND_MAX, sizeof(b->refs[0]));
    b->sent_at = pgw__mem_zero(PGW__EXTEND_MAX, sizeof(b->sent_at[0]));
    return b->tasks != NULL && b->refs != NULL && b->sent_at != NULL;
}

void pgw__worker_heartbeat_retry(pgw_worker *w)
{
    pthread_mutex_lock(&w->pool->lock);
    if (w->extension.away) {
        w->extension.rest_until = w->shared.heartbeat_at = 0;
        pgw__worker_heartbeat_wake(w);
    }
    pthread_mutex_unlock(&w->pool->lock);
}

/* With the lock held. Jobs claimed without a heartbeat session are lost when their lease ends: the
 * main loop waits until there is one again. */
static void heartbeat_is_away(pgw_worker *w, bool away)
{
    if (w->extension.away && !away) pgw__wake_poke(&w->shared.wake);
    w->extension.away = away;
}

/* Signals to a handler what is true at `now`; *next takes the earliest time of the next signal.
 * Returns whether the lease must still be extended. */
static bool heartbeat_tell(pgw_task *t, int64_t now, int64_t *next)
{
    const pgw_worker *w = t->worker;
    const int64_t tired_at = atomic_load(&t->tired_at);
    const int64_t safe_until = atomic_load(&t->safe_until);

    if (t->stage == PGW__GONE) return false;
    if (now >= safe_until && t->stage != PGW__DONE) pgw__worker_lose(t);
    if (atomic_load(&t->signals) != 0)
        pgw__worker_raise(t, 0); /* found by the handler: poke the rest */
    if (now >= safe_until || (atomic_load(&t->signals) & PGW_SIGNAL_LOST)) return false;

    if (t->stage == PGW__RUNNING && tired_at != INT64_MAX) {
        if (now >= tired_at) pgw__worker_raise(t, PGW_SIGNAL_TIMEOUT);
        /* A handler that ignores its timeout must lose the job in the end, or no other worker ever
         * gets it. */
        if (now >= tired_at + w->given.stop_ms) {
            if (safe_until < *next) *next = safe_until;
            return false;
        }
        if (now < tired_at && tired_at < *next) *next = tired_at;
        if (now >= tired_at && tired_at + w->given.stop_ms < *next)
            *next = tired_at + w->given.stop_ms;
    }
    if (safe_until < *next) *next = safe_until;
    return true;
}

/* The same, and whether a heartbeat at `now` must extend the lease. */
static bool heartbeat_wants(pgw_task *t, int64_t now, int64_t *next)
{
    const int64_t late = atomic_load(&t->safe_until) - t->lease_ms / 3;

    if (!heartbeat_tell(t, now, next)) return false;
    /* a worker that ends waits as long as the lease holds for a server that refuses the result */
    if (t->stage == PGW__DONE && atomic_load(&t->worker->stopping) > 0) return false;
    if (now < t->ask_at) {
        if (t->ask_at < *next) *next = t->ask_at;
        return false;
    }
    if (t->told && now < late) { /* nearly finished, and locked meanwhile */
        if (late < *next) *next = late;
        return false;
    }
    /* those that are nearly due go with those that are */
    if (t->extend_at - t->lease_ms / 6 <= now) return true;
    if (t->extend_at < *next) *next = t->extend_at;
    return false;
}

/* Returns when to check again. */
static int64_t heartbeat_tell_all(pgw_worker *w)
{
    const int64_t now = pgw__clock_ms();
    int64_t next = INT64_MAX;
    pgw__taskset *c;
    size_t i;

    for (c = w->shared.tasksets; c != NULL; c = c->next)
        for (i = 0; i < c->count; i++) heartbeat_tell(&c->tasks[i], now, &next);
    return next;
}

static int heartbeat_order(const void *x, const void *y)
{
    const pgw_task *a = *(pgw_task *const *)x, *b = *(pgw_task *const *)y;
    int order;

    if (a->lease_ms != b->lease_ms) return a->lease_ms < b->lease_ms ? -1 : 1;
    order = strcmp(pgw_job_queue(a->job), pgw_job_queue(b->job));
    if (order != 0) return order;
    return a->ref.id < b->ref.id ? -1 : a->ref.id > b->ref.id;
}

/* Not a job that was lost and claimed again meanwhile: its two holders are asked for apart, since a
 * call names each job once. */
static bool heartbeat_together(const pgw_task *a, const pgw_task *b)
{
    return a->lease_ms == b->lease_ms && a->ref.id != b->ref.id &&
           strcmp(pgw_job_queue(a->job), pgw_job_queue(b->job)) == 0;
}

/* With the lock held. Each collected task keeps its task set in memory until heartbeat_apply(). */
static int64_t heartbeat_collect(pgw_worker *w)
{
    const int64_t now = pgw__clock_ms();
    pgw__extension *b = &w->extension;
    int64_t next = INT64_MAX;
    pgw__taskset *c;
    size_t i;

    b->count = 0;
    for (c = w->shared.tasksets; c != NULL; c = c->next) {
        for (i = 0; i < c->count; i++) {
            if (!heartbeat_wants(&c->tasks[i], now, &next)) continue;
            if (b->count == PGW__EXTEND_MAX) return now;
            b->tasks[b->count++] = &c->tasks[i];
            c->open++;
        }
    }
    return next;
}

/* ---- cancelled jobs ----
 *
 * cancel() announces the id of a running job. The worker that has it extends its lease at once,
 * and the answer reports the cancel. So a stray notification does no harm, and the next extension
 * makes up for a missed one. */

static void heartbeat_notified(void *arg, const char *channel, const char *payload)
{
    pgw__extension *b = arg;
    int64_t id;

    (void)channel; /* it listens to one */
    if (b->canceled_count > PGW__CANCELED_MAX || !pgw__int_parse(&id, payload)) return;
    if (b->canceled_count < PGW__CANCELED_MAX) b->canceled[b->canceled_count] = id;
    b->canceled_count++;
}

static bool heartbeat_is_canceled(const pgw__extension *b, int64_t id)
{
    if (b->canceled_count > PGW__CANCELED_MAX) return true;
    for (int i = 0; i < b->canceled_count; i++)
        if (b->canceled[i] == id) return true;
    return false;
}

/* With the lock held. */
static void heartbeat_heed_cancels(pgw_worker *w)
{
    pgw__extension *b = &w->extension;
    pgw__taskset *c;
    size_t i;

    if (b->canceled_count == 0) return;
    for (c = w->shared.tasksets; c != NULL; c = c->next) {
        for (i = 0; i < c->count; i++) {
            if (!heartbeat_is_canceled(b, c->tasks[i].ref.id)) continue;
            c->tasks[i].extend_at = c->tasks[i].ask_at = 0;
            w->shared.heartbeat_at = 0;
        }
    }
    b->canceled_count = 0;
}

pgw_status pgw__worker_heartbeat_listen(pgw_worker *w)
{
    char channel[64];

    if (!w->given.notify) return PGW_OK;
    snprintf(channel, sizeof(channel), "pgwork_cancel_%s", pgw__pq_schema(w->heartbeat.h));
    w->extension.canceled_count = 0;
    pgw__pq_on_notified(w->heartbeat.h, heartbeat_notified, &w->extension);
    return pgw__pq_listen(w->heartbeat.h, channel);
}

/* ---- asking the server ---- */

static void heartbeat_answered(pgw *h, pgw_status st, void *arg)
{
    (void)h;
    *(pgw_status *)arg = st;
}

/* Waits for the server until `next` at most. Threads that wait for the heartbeat are signalled in
 * time, even before a step that needs time to cancel a statement. */
static int64_t heartbeat_wait(pgw_worker *w, pgw *h, int64_t next)
{
    const int events = pgw_events(h);
    const int64_t most_ms = pgw_timeout_ms(h);
    int64_t left_ms = pgw__deadline_left_ms(next);
    struct pollfd fd = {pgw_fd(h), 0, 0};

    if (most_ms >= 0 && most_ms < left_ms) left_ms = most_ms;
    fd.events = (short)(((events & PGW_EVENT_READ) != 0 ? POLLIN : 0) |
                        ((events & PGW_EVENT_WRITE) != 0 ? POLLOUT : 0));
    poll(&fd, 1, left_ms < INT_MAX ? (int)left_ms : INT_MAX);
    pthread_mutex_lock(&w->pool->lock);
    next = heartbeat_tell_all(w);
    pthread_mutex_unlock(&w->pool->lock);
    return next;
}

/* Waits for the end of a call that was armed, unless it failed at once. */
static pgw_status heartbeat_finish(pgw_worker *w, pgw *h, pgw_status st, const pgw_status *answer)
{
    int64_t next = 0;

    if (st != PGW_OUTCOME_AGAIN) return st;
    while (*answer == PGW_OUTCOME_AGAIN) {
        next = heartbeat_wait(w, h, next);
        pgw_step(h);
    }
    return *answer;
}

static pgw_status heartbeat_extend(pgw_worker *w, pgw *h, size_t from, size_t n)
{
    pgw__extension *b = &w->extension;
    const pgw_task *t = b->tasks[from];
    pgw_extend_opts opts = PGW_EXTEND_OPTS_INIT;
    pgw_status answer = PGW_OUTCOME_AGAIN, st;

    if (h != w->loop.h) pgw_async(h, heartbeat_answered, &answer);
    opts.lease_ms = t->lease_ms;
    st = pgw_extend(h, pgw_job_queue(t->job), b->refs + from, n, &opts);
    return heartbeat_finish(w, h, st, &answer);
}

static pgw_status heartbeat_connect(pgw_worker *w, pgw *h)
{
    pgw_status answer = PGW_OUTCOME_AGAIN;

    pgw_async(h, heartbeat_answered, &answer);
    return heartbeat_finish(w, h, pgw__pq_connect_once(h), &answer);
}

/* One statement per queue and length. A session that hangs is given up while there is time for
 * another one; and when the last lease ends, because then the answer is useless. Handlers whose
 * leases end earlier are signalled meanwhile. */
static pgw_status heartbeat_send(pgw_worker *w, pgw *h, size_t from, size_t n)
{
    pgw__extension *b = &w->extension;
    const int64_t now = pgw__clock_ms();
    const int64_t third = pgw__lease_third(b->tasks[from]->lease_ms);
    int64_t left = PGW__LEASE_LEAST_CALL_MS;
    size_t i;
    pgw_status st;

    for (i = from; i < from + n; i++) {
        const int64_t left_i = atomic_load(&b->tasks[i]->safe_until) - now;

        if (left_i > left) left = left_i;
        b->refs[i] = b->tasks[i]->ref;
        b->sent_at[i] = now;
    }
    if (left > third) left = third;
    pgw__pq_limit_calls(h, left < w->given.call_ms ? left : w->given.call_ms);
    st = pgw__pq_in_loop(h, heartbeat_extend(w, h, from, n));
    for (i = from; i < from + n; i++) {
        /* PGW_ENOTFOUND: the queue was dropped, and the jobs with it */
        if (st < 0 && st != PGW_ELEASE && st != PGW_ELOCKED) b->refs[i].outcome = st;
        /* the answer is about no job: the call as a whole waited for a lock */
        if (st == PGW_ELOCKED && b->refs[i].outcome == PGW_EUNKNOWN) b->refs[i].outcome = st;
    }
    return st == PGW_ELEASE || st == PGW_ELOCKED ? PGW_OK : st;
}

/* A damaged row, or a trigger that fails: one job whose lease cannot be extended must not cost the
 * others theirs. */
static bool heartbeat_is_ones(pgw_status st)
{
    return st == PGW_EDB || st == PGW_EINVAL || st == PGW_ELIMIT;
}

static pgw_status heartbeat_send_apart(pgw_worker *w, pgw *h, size_t from, size_t n, int *calls)
{
    const size_t half = n / 2;
    pgw_status st = heartbeat_send(w, h, from, n);

    ++*calls;
    if (!heartbeat_is_ones(st)) return st;
    if (n == 1) {
        PGW__LOG(&w->given.log, PGW_LOG_WARN, "worker",
                 "the lease of job %lld cannot be extended: %s",
                 (long long)w->extension.refs[from].id, pgw_error_message(h));
        return PGW_OK;
    }
    if (*calls >= HEARTBEAT_CALLS) return PGW_EDB;
    st = heartbeat_send_apart(w, h, from, half, calls);
    if (!pgw__worker_goes_on(st)) {
        for (size_t i = from + half; i < from + n; i++) w->extension.refs[i].outcome = st;
        return st;
    }
    st = heartbeat_send_apart(w, h, from + half, n - half, calls);
    return st;
}

static pgw_status heartbeat_send_all(pgw_worker *w, pgw *h)
{
    pgw__extension *b = &w->extension;
    pgw_status st = PGW_OK, first = PGW_OK;
    pgw__diagnostics diagnostics;
    int calls = 0;
    size_t i, n;

    qsort(b->tasks, b->count, sizeof(pgw_task *), heartbeat_order);
    for (i = 0; i < b->count; i += n) {
        for (n = 1; i + n < b->count && heartbeat_together(b->tasks[i + n - 1], b->tasks[i + n]);
             n++)
            continue;
        if (!pgw__worker_goes_on(st)) {
            for (size_t k = i; k < i + n; k++) b->refs[k].outcome = st;
            continue;
        }
        st = heartbeat_send_apart(w, h, i, n, &calls);
        if (st < 0 && st != PGW_ENOTFOUND && first >= 0) {
            first = st;
            pgw__pq_keep_diagnostics(h, &diagnostics);
        }
    }
    return first < 0 ? pgw__pq_tell(h, &diagnostics) : PGW_OK;
}

/* With the lock held again; jobs that are GONE meanwhile need nothing. */
static void heartbeat_apply(pgw_worker *w)
{
    const int64_t now = pgw__clock_ms();
    pgw__extension *b = &w->extension;
    size_t i;

    for (i = 0; i < b->count; i++) {
        pgw_task *t = b->tasks[i];
        const pgw_status st = b->refs[i].outcome;

        if (t->stage == PGW__GONE) {
            pgw__taskset_put(w, t->taskset);
            continue;
        }
        if (st == PGW_OK || st == PGW_OUTCOME_CANCEL) {
            t->extend_at = b->sent_at[i] + t->lease_ms / 3;
            atomic_store(&t->safe_until, pgw__lease_end(b->sent_at[i], t->lease_ms));
            if (st == PGW_OUTCOME_CANCEL) pgw__worker_raise(t, PGW_SIGNAL_CANCELED);
        } else if (st == PGW_ELEASE || st == PGW_ENOTFOUND) {
            if (t->stage != PGW__DONE) /* the report of a finished job shows its outcome */
                pgw__worker_lose(t);
            else
                atomic_store(&t->safe_until, b->sent_at[i]);
        } else if (st == PGW_ELOCKED || heartbeat_is_ones(st)) {
            /* a session is finishing it, or reads it: the outcome is known soon */
            int64_t pause = t->lease_ms / HEARTBEAT_LOCKED;
            const int64_t left = atomic_load(&t->safe_until) - now;

            if (pause < HEARTBEAT_LOCKED_MS && HEARTBEAT_LOCKED_MS <= left / 3)
                pause = HEARTBEAT_LOCKED_MS;
            t->ask_at = now + pause;
        }
        pgw__taskset_put(w, t->taskset);
    }
}

/* With the lock held. A pause may be longer than a lease: in the last third of one, attempts follow
 * upon each other as closely as its length allows. */
static void heartbeat_rest(pgw__extension *b, int64_t pause)
{
    b->failed_at = pgw__clock_ms();
    b->rest_until = b->failed_at + pause;
}

/* Until when it rests, as far as known. */
static int64_t heartbeat_rests_until(const pgw_worker *w)
{
    const pgw__extension *b = &w->extension;
    const int64_t now = pgw__clock_ms();
    int64_t until = b->rest_until;
    const pgw__taskset *c;
    size_t i;

    for (c = w->shared.tasksets; c != NULL; c = c->next) {
        for (i = 0; i < c->count; i++) {
            const pgw_task *t = &c->tasks[i];
            const int64_t pause = t->lease_ms / HEARTBEAT_LAST;
            int64_t at = b->failed_at +
                         (pause > PGW__LEASE_LEAST_CALL_MS ? pause : PGW__LEASE_LEAST_CALL_MS);
            const int64_t safe_until = atomic_load(&t->safe_until);
            const int64_t late = safe_until - t->lease_ms / 3;

            if (t->stage == PGW__GONE || (atomic_load(&t->signals) & PGW_SIGNAL_LOST)) continue;
            if (now >= safe_until) continue; /* a result that waits: there is nothing to extend */
            if (at < late) at = late;
            if (at < until) until = at;
        }
    }
    return until;
}

/* With the lock held. Some failures are permanent, such as a schema that is too new. Then the main
 * loop ends the worker, which would otherwise claim jobs and lose those that outlast their lease.
 */
static void heartbeat_failed(pgw_worker *w, const pgw *h, pgw_status st, const char *what,
                             const char *diagnostics)
{
    pgw__extension *b = &w->extension;

    heartbeat_rest(b, pgw__backoff_next_ms(&b->trouble));
    if (pgw__worker_is_crowded(h)) {
        b->crowded = true;
        pgw__wake_poke(&w->shared.wake);
    }
    if (atomic_load(&b->fatal) != PGW_OK) return;
    st = pgw__pq_in_loop(h, st);
    if (!pgw__status_is_hopeless(st)) return;
    snprintf(b->error, sizeof(b->error), "%s: %s", what, diagnostics);
    atomic_store(&b->fatal, st);
    pgw__wake_poke(&w->shared.wake);
}

/* With the lock held. The main loop waits for a connection: another worker may wait for this one
 * with its own. */
static void heartbeat_yield(pgw_worker *w, pgw *h)
{
    pgw__extension *b = &w->extension;

    if (!b->yields) return;
    b->yields = false;
    pgw__pq_drop(h);
    heartbeat_is_away(w, true);
    heartbeat_rest(b, pgw__backoff_next_ms(&b->trouble));
}

int64_t pgw__worker_extend(pgw_worker *w, pgw *h)
{
    pgw__extension *b = &w->extension;
    const char *what;
    char diagnostics[PGW__ERROR_LINE] = "";
    int64_t next, rest;
    uint64_t epoch;
    bool away;
    pgw_status st;

    heartbeat_yield(w, h);
    if (pgw__clock_ms() < b->rest_until) {
        next = heartbeat_tell_all(w);
        rest = heartbeat_rests_until(w);
        if (pgw__clock_ms() < rest) return next < rest ? next : rest;
    }
    next = heartbeat_collect(w);
    /* The heartbeat opens its session before it needs it, as a step of its own, which may take
     * longer than a lease and must not be cut short because one of many leases ends. */
    away = h != w->loop.h && pgw__pq_check_session(h) != PGW_OK;
    heartbeat_is_away(w, away);
    if (b->count == 0 && !away) return next;
    pthread_mutex_unlock(&w->pool->lock);
    epoch = pgw__pq_epoch(h);
    what = b->count > 0 ? "leases not extended" : "no claims: the heartbeat has no session";
    for (size_t i = 0; away && i < b->count; i++) b->refs[i].outcome = PGW_ECONN;
    st = away ? heartbeat_connect(w, h) : heartbeat_send_all(w, h);
    if (h == w->loop.h) pgw_set_timeout(h, PGW_DEFAULT);
    if (pgw__pq_epoch(h) != epoch && h != w->loop.h) atomic_fetch_add(&w->n.reconnects, 1);
    if (st < 0) pgw__handle_diagnostics(h, diagnostics, sizeof(diagnostics));
    if (st < 0 && st != PGW_ECANCELED) {
        const bool news = pgw__log_is_news(&b->told, what, pgw__clock_ms());

        PGW__LOG(&w->given.log, news ? PGW_LOG_WARN : PGW_LOG_DEBUG, "worker", "%s: %s", what,
                 diagnostics);
    }
    pthread_mutex_lock(&w->pool->lock);
    heartbeat_apply(w);
    if (st < 0) {
        heartbeat_failed(w, h, st, what, diagnostics);
    } else {
        pgw__backoff_reset(&b->trouble);
        b->told = (pgw__log_told){0};
    }
    heartbeat_is_away(w, h != w->loop.h && pgw__pq_check_session(h) != PGW_OK);
    return pgw__clock_ms(); /* check again: time has passed */
}

/* Waits until the next heartbeat, an earlier request, or the end of the session. In the last case
 * all sessions of this server may have ended, and their owners reconnect at different times. The
 * lock is released meanwhile. */
static void heartbeat_sleep(pgw_worker *w)
{
    pgw__extension *b = &w->extension;
    pgw *h = w->heartbeat.h;
    struct pollfd fds[2] = {{b->wake.read_fd, POLLIN, 0}, {pgw_fd(h), POLLIN, 0}};
    const bool there = fds[1].fd >= 0;
    const int64_t left_ms = pgw__deadline_left_ms(w->shared.heartbeat_at);
    int64_t pause = 0;
    bool lost;

    heartbeat_heed_cancels(w); /* heard while the server answered something else */
    if (pgw__clock_ms() >= w->shared.heartbeat_at) return;
    pthread_mutex_unlock(&w->pool->lock);
    poll(fds, 2, left_ms < HEARTBEAT_MAX_SLEEP_MS ? (int)left_ms : HEARTBEAT_MAX_SLEEP_MS);
    pgw__wake_drain(&b->wake);
    lost = there && pgw__pq_check_session(h) != PGW_OK;
    if (lost) {
        pause = pgw__backoff_next_ms(&b->trouble);
        PGW__LOG(&w->given.log, PGW_LOG_WARN, "worker",
                 "the connection that extends leases was lost; next try in %lld ms",
                 (long long)pause);
    }
    pthread_mutex_lock(&w->pool->lock);
    if (!lost) {
        heartbeat_heed_cancels(w);
        return;
    }
    heartbeat_is_away(w, true);
    heartbeat_rest(b, pause);
    w->shared.heartbeat_at = b->failed_at; /* it is to check when that will be */
}

static void *heartbeat_thread(void *arg)
{
    pgw_worker *w = arg;

    pthread_mutex_lock(&w->pool->lock);
    while (!w->shared.heartbeat_ends) {
        w->shared.heartbeat_at = pgw__worker_extend(w, w->heartbeat.h);
        if (w->progress.asks > 0) pgw__progress_answer_all(w, w->heartbeat.h);
        w->shared.heartbeat_at = pgw__progress_if_due(w, w->heartbeat.h, w->shared.heartbeat_at);
        w->shared.heartbeat_at = pgw__report_if_due(w, w->heartbeat.h, w->shared.heartbeat_at);
        while (!w->shared.heartbeat_ends && pgw__clock_ms() < w->shared.heartbeat_at)
            heartbeat_sleep(w);
    }
    pthread_mutex_unlock(&w->pool->lock);
    return NULL;
}

pgw_status pgw__worker_heartbeat_start(pgw_worker *w)
{
    pgw_status st = pgw_stop_new(&w->heartbeat.stop);

    if (st < 0) return st;
    pgw_set_stop(w->heartbeat.h, w->heartbeat.stop);
    w->shared.heartbeat_ends = false;
    st = pgw__worker_start(&w->heartbeat.thread, heartbeat_thread, w);
    w->heartbeat.started = st == PGW_OK;
    return st;
}

void pgw__worker_heartbeat_end(pgw_worker *w)
{
    pthread_mutex_lock(&w->pool->lock);
    w->shared.heartbeat_ends = true;
    pthread_cond_broadcast(&w->progress.answered);
    pgw__worker_heartbeat_wake(w);
    pthread_mutex_unlock(&w->pool->lock);
    if (w->heartbeat.started) {
        pgw_stop_notify(w->heartbeat.stop); /* twice: a statement under way is cancelled, too */
        pgw_stop_notify(w->heartbeat.stop);
        pthread_join(w->heartbeat.thread, NULL);
    }
    w->heartbeat.started = false;
    pgw_close(w->heartbeat.h);
    w->heartbeat.h = NULL;
    pgw_stop_free(w->heartbeat.stop);
    w->heartbeat.stop = NULL;
}
