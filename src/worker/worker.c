/* worker: creation and end, the main loop, statistics. */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/mem.h"
#include "base/name.h"
#include "base/status.h"
#include "call/check.h"
#include "handle/handle.h"
#include "queue/job.h"
#include "worker/worker_flush.h"
#include "worker/worker_heartbeat.h"
#include "worker/worker_kind.h"
#include "worker/worker_pool.h"
#include "worker/worker_report.h"
#include "worker/worker_why.h"

#define WORKER_QUEUES_MAX      64
#define WORKER_LOCK_MS         2000 /* as long at most as a locked row may hold up all the rest */
#define WORKER_COMPONENT       "worker"
#define WORKER_PACE_US         50000 /* us of work to prefetch, by the last measurement ... */
#define WORKER_PACE_EACH_US    10000 /* ... which is at least this old */
#define WORKER_STALE_MS        1000  /* all handlers are busy for so long: others may be idle */
#define WORKER_REGISTER_MIN_MS 1000  /* before it tries again to register as a waiter */
#define WORKER_REGISTER_MAX_MS 60000
#define WORKER_RATE_MIN_MS     1 /* behind the time that a rate says */

/* ---- birth and death ---- */

/* One thread at a time calls the program's callback. */
static void worker_log(pgw_log_level level, const char *component, const char *message, void *arg)
{
    const pgw_worker *w = arg;
    pgw__pool *p = w->pool;
    char line[PGW__ERROR_LINE + PGW__SOURCE_NAME];

    if (p->sources_count > 1) {
        snprintf(line, sizeof(line), "source %s: %s", w->given.name, message);
        message = line;
    }
    pthread_mutex_lock(&p->log_lock);
    p->user_log.fn(level, component, message, p->user_log.arg);
    pthread_mutex_unlock(&p->log_lock);
}

/* Of the properties of a handle each source has its own, all others are those of the first. */
static void worker_read_conf(pgw_worker *w)
{
    const pgw_conf *own = w->given.conf;
    const pgw_conf *c = w->given.place > 0 ? w->pool->sources[0]->given.conf : own;

    w->given.concurrency = (int)pgw__conf_int(c, "worker.concurrency");
    w->given.batch = w->pool->rest.batch_fn != NULL ? (int)pgw__conf_int(c, "worker.batch") : 1;
    w->given.prefetch = (int)pgw__conf_int(c, "worker.prefetch");
    /* with one thread for all, nothing would extend a job that waits for a handler */
    if (w->given.prefetch < 0 && w->given.concurrency == 0) w->given.prefetch = 0;
    w->given.flush_jobs = (int)pgw__conf_int(c, "worker.flush_jobs");
    w->given.flush_ms = pgw__conf_int(c, "worker.flush_ms");
    w->given.lease_ms = pgw__conf_int(c, "worker.lease_ms");
    w->given.timeout_ms = pgw__conf_int(c, "worker.job_timeout_ms");
    w->given.stop_ms = pgw__conf_int(c, "worker.stop_ms");
    w->given.max_jobs = pgw__conf_int(c, "worker.max_jobs");
    w->given.drain = pgw__conf_bool(c, "worker.until_empty");
    w->given.notify = pgw__conf_bool(own, "notify");
    w->given.fair = pgw__conf_bool(c, "worker.fair");
    w->given.poll_ms = pgw__conf_int(c, "poll.max_ms");
    w->given.call_ms = pgw__conf_int(own, "call.timeout_ms");
    w->given.connect_ms = pgw__conf_int(own, "connect.timeout_ms");
    w->given.output_max = (size_t)pgw__conf_int(own, "payload.max_bytes");
    pgw__backoff_init(&w->loop.poll, pgw__conf_int(c, "poll.min_ms"), w->given.poll_ms);
    w->given.poll_ms = w->loop.poll.cap_ms; /* no less than the other one */
    pgw__backoff_init(&w->loop.trouble, pgw__conf_int(own, "reconnect.base_ms"),
                      pgw__conf_int(own, "reconnect.cap_ms"));
    w->extension.trouble = w->loop.trouble;
    pgw__backoff_init(&w->loop.registering, WORKER_REGISTER_MIN_MS, WORKER_REGISTER_MAX_MS);
}

/* It is held for some dozens of instructions, twice per job: a thread that waits for it should
 * spin for a moment before it sleeps, if the C library supports that. */
static bool worker_init_lock(pthread_mutex_t *lock)
{
    pthread_mutexattr_t attr;
    bool ok;

    if (pthread_mutexattr_init(&attr) != 0) return false;
#ifdef __GLIBC__
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
#endif
    ok = pthread_mutex_init(lock, &attr) == 0;
    pthread_mutexattr_destroy(&attr);
    return ok;
}

static bool worker_init_locks(pgw__pool *p)
{
    return pthread_cond_init(&p->work, NULL) == 0 && pthread_cond_init(&p->left, NULL) == 0 &&
           worker_init_lock(&p->lock) && pthread_mutex_init(&p->log_lock, NULL) == 0;
}

static bool worker_allocate(pgw_worker *w, const char *const *queues, size_t n)
{
    w->given.queues = pgw__mem_zero(2 * n, sizeof(w->given.queues[0]));
    if (w->given.queues == NULL) return false;
    for (w->given.queues_count = 0; w->given.queues_count < n; w->given.queues_count++) {
        w->given.queues[w->given.queues_count] = pgw__mem_dup(queues[w->given.queues_count]);
        if (w->given.queues[w->given.queues_count] == NULL) return false;
        w->given.queues[n + w->given.queues_count] = w->given.queues[w->given.queues_count];
    }
    return pgw__worker_flush_init(w) && pgw__worker_heartbeat_init(w) &&
           pgw__worker_why_init(w, n) && pgw__report_init(w) && pgw__wake_open(&w->shared.wake) &&
           pthread_cond_init(&w->progress.answered, NULL) == 0;
}

/* Copies the caller's struct, which may have fewer fields. */
static bool worker_take_spec(pgw_worker_spec *mine, const pgw_worker_spec *given)
{
    if (given == NULL || !pgw__size_is_whole(given->struct_size)) return false;
    if (given->struct_size > sizeof(*mine)) return false;
    memcpy(mine, given, given->struct_size);
    if (mine->handler != NULL && mine->batch_handler != NULL) return false;
    if (mine->queues == NULL || mine->queues_count < 1 || mine->queues_count > WORKER_QUEUES_MAX)
        return false;
    for (size_t i = 0; i < mine->queues_count; i++)
        if (pgw__name_fault(mine->queues[i], PGW__QUEUE_MAX) != NULL) return false;
    return true;
}

static pgw__pool *worker_pool_new(const pgw_worker_spec *spec)
{
    pgw__pool *p = pgw__mem_zero(1, sizeof(*p));

    if (p == NULL || !worker_init_locks(p)) {
        pgw__mem_free(p);
        return NULL;
    }
    p->owners = 1;
    pgw__kind_init_rest(p, spec);
    return p;
}

/* For the log: by its number, and the parts of its connection string that name a server. */
static void worker_name(pgw_worker *w)
{
    char server[PGW__SOURCE_NAME - 32];

    pgw__pq_server(w->given.conf, server, sizeof(server));
    snprintf(w->given.name, sizeof(w->given.name), server[0] != '\0' ? "%zu (%s)" : "%zu",
             w->given.place, server);
}

/* The next source of the pool. NULL: out of memory. */
static pgw_worker *worker_source_new(pgw__pool *p, const pgw_conf *conf, const char *const *queues,
                                     size_t n)
{
    pgw_worker *w = pgw__mem_zero(1, sizeof(*w));

    if (w == NULL) return NULL;
    w->pool = p;
    w->given.place = p->sources_count;
    w->shared.wake = w->extension.wake = (pgw__wake)PGW__WAKE_INIT;
    w->given.conf = pgw__conf_copy(conf);
    if (w->given.conf != NULL) {
        worker_name(w);
        if (w->given.place == 0) p->user_log = *pgw__conf_log(w->given.conf);
        pgw_conf_set_log(w->given.conf, p->user_log.level,
                         p->user_log.fn != NULL ? worker_log : NULL, w);
        w->given.log = *pgw__conf_log(w->given.conf);
        worker_read_conf(w);
    }
    if (w->given.conf != NULL && worker_allocate(w, queues, n)) {
        p->sources[p->sources_count++] = w;
        return w;
    }
    pgw__worker_source_free(w);
    return NULL;
}

pgw_status pgw_worker_new(const pgw_conf *conf, const pgw_worker_spec *spec, pgw_worker **out)
{
    pgw_worker_spec mine = PGW_WORKER_SPEC_INIT;
    pgw__pool *p;

    if (out == NULL) return PGW_EINVAL;
    *out = NULL;
    if (!worker_take_spec(&mine, spec)) return PGW_EINVAL;

    p = worker_pool_new(&mine);
    if (p == NULL) return PGW_ENOMEM;
    *out = worker_source_new(p, conf, mine.queues, mine.queues_count);
    if (*out != NULL && pgw__worker_handlers_init(*out)) return PGW_OK;
    pgw__worker_destroy(p);
    *out = NULL;
    return PGW_ENOMEM;
}

pgw_status pgw_worker_add_source(pgw_worker *w, const pgw_conf *conf)
{
    if (w == NULL) return PGW_EINVAL;
    if (pgw__worker_runs(w->pool)) return PGW_EMISUSE;
    if (conf == NULL) return pgw__worker_refuse(w, "conf", "is NULL", "a configuration");
    if (w->given.concurrency == 0)
        return pgw__worker_refuse(w, "conf", "is for a worker with `worker.concurrency` 0",
                                  "1 or more there");
    if (w->pool->sources_count == PGW__SOURCES_MAX)
        return pgw__worker_refuse(w, "conf", "exceeds the limit", "at most 64 databases");
    if (worker_source_new(w->pool, conf, (const char *const *)w->given.queues,
                          w->given.queues_count) == NULL)
        return PGW_ENOMEM;
    return PGW_OK;
}

void pgw_worker_free(pgw_worker *w)
{
    pgw__pool *p;
    bool last;

    if (w == NULL) return;
    p = w->pool;
    pthread_mutex_lock(&p->lock);
    last = --p->owners == 0; /* otherwise the last handler that is still busy does it */
    pthread_mutex_unlock(&p->lock);
    if (last) pgw__worker_destroy(p);
}

const char *pgw_worker_error(const pgw_worker *w)
{
    return w != NULL ? w->loop.error : "";
}

pgw_status pgw_worker_on_ready(pgw_worker *w, void (*fn)(void *arg), void *arg)
{
    if (w == NULL) return PGW_EINVAL;
    w->pool->on_ready = fn;
    w->pool->ready_arg = arg;
    return PGW_OK;
}

static void worker_add_stats(const pgw_worker *w, pgw_worker_stats *s)
{
    s->claimed += atomic_load(&w->n.claimed);
    s->completed += atomic_load(&w->n.completed);
    s->failed += atomic_load(&w->n.failed);
    s->dead += atomic_load(&w->n.dead);
    s->snoozed += atomic_load(&w->n.snoozed);
    s->released += atomic_load(&w->n.released);
    s->settled += atomic_load(&w->n.settled);
    s->refused += atomic_load(&w->n.refused);
    s->lost += atomic_load(&w->n.lost);
    s->claims += atomic_load(&w->n.claims);
    s->empty_claims += atomic_load(&w->n.empty_claims);
    s->reconnects += atomic_load(&w->n.reconnects);
    s->running += atomic_load(&w->n.running);
}

pgw_status pgw_worker_get_stats(const pgw_worker *w, pgw_worker_stats *stats)
{
    pgw_worker_stats s = PGW_WORKER_STATS_INIT;

    if (w == NULL || stats == NULL || !pgw__size_is_whole(stats->struct_size)) return PGW_EINVAL;
    for (size_t i = 0; i < w->pool->sources_count; i++) worker_add_stats(w->pool->sources[i], &s);
    pgw__fill(stats, &s, sizeof(s));
    return PGW_OK;
}

pgw_status pgw_worker_get_source_stats(const pgw_worker *w, size_t source, pgw_worker_stats *stats)
{
    pgw_worker_stats s = PGW_WORKER_STATS_INIT;

    if (w == NULL || stats == NULL || !pgw__size_is_whole(stats->struct_size) ||
        source >= w->pool->sources_count)
        return PGW_EINVAL;
    worker_add_stats(w->pool->sources[source], &s);
    pgw__fill(stats, &s, sizeof(s));
    return PGW_OK;
}

/* ---- trouble ---- */

/* What a failed call means for the loop: wait before the next one, or give up. A worker that gave
 * up still waits for handlers and reports their results, so it also pauses between calls; but the
 * error that ends it stays the first one. */
static void worker_trouble(pgw_worker *w, pgw_status st, const char *diagnostics)
{
    int64_t pause;
    bool news;

    if (st == PGW_ECANCELED && pgw_stop_count(w->loop.stop) > w->loop.stops)
        return; /* the loop sees the stop by itself; else it was the server that cancelled */
    if (w->loop.fatal == PGW_OK) snprintf(w->loop.error, sizeof(w->loop.error), "%s", diagnostics);
    pause = pgw__backoff_next_ms(&w->loop.trouble);
    w->loop.call_at = pgw__clock_ms() + pause;
    if (!pgw__status_is_hopeless(st)) {
        w->loop.down = st == PGW_ECONN || st == PGW_EUNKNOWN;
    } else if (w->loop.fatal == PGW_OK) {
        w->loop.fatal = st;
        PGW__LOG(&w->given.log, PGW_LOG_ERROR, WORKER_COMPONENT, "giving up: %s", diagnostics);
        return;
    }
    news = pgw__log_is_news(&w->loop.told, diagnostics, pgw__clock_ms());
    PGW__LOG(&w->given.log, news ? PGW_LOG_WARN : PGW_LOG_DEBUG, WORKER_COMPONENT,
             "%s; next try in %lld ms", diagnostics, (long long)pause);
}

/* It is over. */
static void worker_untrouble(pgw_worker *w)
{
    pgw__backoff_reset(&w->loop.trouble);
    w->loop.told = (pgw__log_told){0};
}

static void worker_failed_on(pgw_worker *w, const pgw *h, pgw_status st)
{
    char diagnostics[sizeof(w->loop.error)];

    pgw__handle_diagnostics(h, diagnostics, sizeof(diagnostics));
    worker_trouble(w, pgw__pq_in_loop(h, st), diagnostics);
}

static void worker_call_failed(pgw_worker *w, pgw_status st)
{
    worker_failed_on(w, w->loop.h, st);
}

/* Whatever the old session knew is gone if this is a new one. */
static void worker_connected(pgw_worker *w)
{
    const uint64_t epoch = pgw__pq_epoch(w->loop.h);

    w->loop.down = false;
    if (epoch == w->loop.epoch) return;
    w->loop.epoch = epoch;
    w->loop.registered = false;
    w->loop.poll_only_until = w->given.notify ? 0 : INT64_MAX;
    w->loop.claim_at = 0; /* notifications were missed meanwhile */
    atomic_fetch_add(&w->n.reconnects, 1);
    PGW__LOG(&w->given.log, PGW_LOG_INFO, WORKER_COMPONENT, "connected again");
    pgw__worker_heartbeat_retry(w);
}

/* A call succeeded. A new session alone is not a proof: its server may be read-only. */
static void worker_well(pgw_worker *w)
{
    worker_untrouble(w);
    worker_connected(w);
}

/* ---- registered as a waiter ----
 *
 * Before it sleeps, a worker listens, registers as a waiter and claims once more: from then on an
 * enqueue wakes it up. Jobs that were enqueued before and are committed later are neither seen nor
 * announced, so a few claims follow, at growing intervals. The worker unregisters when it wants no
 * more jobs, so that others are woken up, and when the calling thread runs the handlers. It
 * registers again when a job comes from a queue that may be newer than the registration, or that
 * was not announced. */

typedef struct worker_ctx {
    pgw_worker *w;
} worker_ctx;

static pgw_status worker_waiter_call(pgw_worker *w, pgw__sql sql, pgw__reader *read)
{
    char channel[64];
    const pgw__param params[] = {P_ARRAY(TEXT, w->given.queues, w->given.queues_count),
                                 P_INT4(pgw__pq_slot(w->loop.h, channel)), P_END};
    const worker_ctx ctx = {w};
    const pgw__call call = {.sql = sql,
                            .params = params,
                            .read = read,
                            .ctx = &ctx,
                            .ctx_size = sizeof(ctx),
                            .flags = PGW__OWNED | PGW__DIRECT};

    return pgw__pq_call(w->loop.h, &call);
}

/* A queue may be missing before its first job. But the name may be wrong, and nothing else would
 * show that. */
static pgw_status worker_read_absent(pgw *h, const pgw__rows *rows, void *ctx)
{
    pgw_worker *w = ((const worker_ctx *)ctx)->w;
    const int count = pgw__rows_count(rows);
    int row;

    (void)h;
    for (row = 0; row < count && !w->loop.told_absent; row++) {
        const char *queue = pgw__rows_text(rows, row, 0, NULL);

        if (queue != NULL)
            PGW__LOG(
                &w->given.log, PGW_LOG_WARN, WORKER_COMPONENT,
                "there is no queue \"%s\" yet: its first job creates it; names are case-sensitive",
                queue);
    }
    w->loop.told_absent = true;
    return PGW_OK;
}

/* Nothing that would be the same in a new session. */
static bool worker_passes(pgw_status st)
{
    return st == PGW_ECONN || st == PGW_EUNKNOWN || st == PGW_ECANCELED || st == PGW_ETIMEDOUT;
}

/* A worker that is not registered polls. An error of the server here does not end the worker. */
static void worker_ask_absent(pgw_worker *w)
{
    const pgw__param params[] = {P_ARRAY(TEXT, w->given.queues, w->given.queues_count), P_END};
    const worker_ctx ctx = {w};
    const pgw__call call = {.sql = PGW__SQL_JOB_ABSENT,
                            .params = params,
                            .read = worker_read_absent,
                            .ctx = &ctx,
                            .ctx_size = sizeof(ctx),
                            .flags = PGW__OWNED};
    pgw_status st;

    if (w->loop.told_absent) return;
    st = pgw__pq_call(w->loop.h, &call);
    if (worker_passes(st)) {
        worker_call_failed(w, st);
    } else {
        w->loop.told_absent = true;
    }
}

/* Behind a pooler no session of this worker can be woken up. Other errors may pass, such as a
 * server without free locks. Until the worker is registered, an enqueue does not wake it up. */
static void worker_register_failed(pgw_worker *w, pgw_status st)
{
    const int64_t pause = pgw__backoff_next_ms(&w->loop.registering);
    char diagnostics[sizeof(w->loop.error)];

    st = pgw__pq_in_loop(w->loop.h, st);
    if (st == PGW_EPOOLED) {
        w->loop.poll_only_until = INT64_MAX;
        PGW__LOG(&w->given.log, PGW_LOG_INFO, WORKER_COMPONENT,
                 "no notifications on this connection, polling: %s", pgw_error_message(w->loop.h));
        return;
    }
    w->loop.poll_only_until = pgw__clock_ms() + pause;
    if (worker_passes(st)) {
        worker_call_failed(w, st);
        return;
    }
    pgw__handle_diagnostics(w->loop.h, diagnostics, sizeof(diagnostics));
    PGW__LOG(&w->given.log, PGW_LOG_WARN, WORKER_COMPONENT,
             "no notifications, polling: %s; next try in %lld ms", diagnostics, (long long)pause);
}

static void worker_register(pgw_worker *w)
{
    char channel[64];
    pgw_status st;

    pgw__pq_slot(w->loop.h, channel);
    st = pgw__pq_listen(w->loop.h, channel);
    if (st == PGW_OK) st = worker_waiter_call(w, PGW__SQL_JOB_IDLE, worker_read_absent);
    if (st < 0) {
        worker_register_failed(w, st);
        return;
    }
    worker_well(w); /* perhaps in a new session: it is registered there */
    pgw__backoff_reset(&w->loop.registering);
    w->loop.recheck_ms = w->loop.poll.base_ms;
    w->loop.registered = true;
    w->loop.woken = false;
}

static void worker_unregister(pgw_worker *w)
{
    w->loop.registered = w->loop.fell_short = false;
    w->loop.claim_at = 0; /* from now on there are no notifications */
    if (worker_waiter_call(w, PGW__SQL_JOB_AWAKE, NULL) == PGW_OK) return;
    worker_call_failed(w, pgw_error_status(w->loop.h));
    pgw__pq_drop(w->loop.h); /* or it would be registered for as long as the session lives */
}

/* ---- claiming ---- */

/* Registered: notifications wake the worker up. It still claims now and then. */
static void worker_await_wakeup(pgw_worker *w)
{
    const int64_t jitter = (int64_t)(pgw__random_u64() % (uint64_t)(w->given.poll_ms / 4 + 1));

    w->loop.claim_at =
        pgw__clock_ms() + pgw__backoff_grow_ms(&w->loop.recheck_ms, w->given.poll_ms - jitter);
}

/* A rate lets a job pass before the next poll, and nobody announces that. Of many workers that come
 * then one gets it. So those that come in vain come later and later. */
static void worker_heed_rate(pgw_worker *w, int64_t gated_ms)
{
    const int64_t at = pgw__clock_ms() + gated_ms + w->loop.rate_ms;

    if (gated_ms < 0) return;
    pgw__backoff_grow_ms(&w->loop.rate_ms, w->given.poll_ms);
    if (at < w->loop.claim_at) w->loop.claim_at = at;
}

static void worker_rest(pgw_worker *w)
{
    const int64_t gated_ms = pgw_gated_ms(w->loop.h);
    int64_t now;

    w->loop.rated = gated_ms >= 0;
    atomic_fetch_add(&w->n.empty_claims, 1);
    w->loop.fell_short = false;
    pthread_mutex_lock(&w->pool->lock);
    w->loop.found_none =
        w->shared.ready.count + w->shared.waiting + w->shared.running + w->shared.done.count == 0 &&
        !pgw__kind_expects(w->pool, pgw__clock_us()) && !w->loop.rated;
    pthread_mutex_unlock(&w->pool->lock);
    if (w->loop.registered) {
        worker_await_wakeup(w);
        worker_heed_rate(w, gated_ms);
        return;
    }
    if (!w->given.drain && pgw__clock_ms() >= w->loop.poll_only_until) {
        worker_register(w);
        if (w->loop.registered) {
            w->loop.claim_at = 0;
            return;
        }
    }
    now = pgw__clock_ms();
    w->loop.claim_at = now + pgw__backoff_next_ms(&w->loop.poll);
    if (!w->given.drain && w->loop.poll_only_until > now) worker_ask_absent(w);
    if (!w->given.drain && w->loop.poll_only_until > now &&
        w->loop.poll_only_until < w->loop.claim_at)
        w->loop.claim_at = w->loop.poll_only_until; /* before it registers it has to claim */
    worker_heed_rate(w, gated_ms);
}

static void worker_found_none(pgw_worker *w)
{
    worker_rest(w);
    if (!w->loop.down && (!w->given.drain || w->loop.taken == 0)) pgw__worker_tell_why(w);
}

/* Which of the worker's queues a job came from; their number, if from none. */
static size_t worker_queue_of(const pgw_worker *w, const pgw_job *job)
{
    size_t q;

    for (q = 0; q < w->given.queues_count; q++)
        if (strcmp(w->given.queues[q], pgw_job_queue(job)) == 0) break;
    return q;
}

/* Whether a job came from a queue that had given none before. The queue may be newer than the
 * registration. */
static bool worker_meets_queue(pgw_worker *w, const pgw_batch *batch)
{
    const uint64_t before = w->loop.seen;

    if (before == UINT64_MAX >> (WORKER_QUEUES_MAX - w->given.queues_count)) return false;
    for (size_t i = 0; i < pgw_batch_count(batch); i++) {
        const size_t q = worker_queue_of(w, pgw_batch_job(batch, i));

        if (q < w->given.queues_count) w->loop.seen |= UINT64_C(1) << q;
    }
    return w->loop.seen != before;
}

static void worker_found(pgw_worker *w, pgw__claim *claim)
{
    const size_t n = pgw_batch_count(claim->batch);
    const bool newcomer = worker_meets_queue(w, claim->batch);
    const bool alone = pgw__batch_quarantined(claim->batch); /* there may be more to claim */
    /* A late claim found a job that was not announced: perhaps a queue was dropped and created
     * again since the registration. */
    const bool unheard =
        !w->loop.woken && !w->loop.rated && w->loop.recheck_ms > w->given.poll_ms / 2;
    pgw_status st;

    /* a turn: the queue that was served first is the last one of the next claim */
    if (w->given.fair)
        w->loop.turn =
            (worker_queue_of(w, pgw_batch_job(claim->batch, 0)) + 1) % w->given.queues_count;
    w->loop.filled_us = pgw__clock_us();
    w->loop.call_us = w->loop.filled_us - claim->sent_us;
    st = pgw__worker_admit(w, claim->batch, pgw__batch_since_us(claim->batch) / 1000,
                           pgw_server_time_us(w->loop.h));

    if (st < 0) {
        worker_trouble(w, st, "out of memory for claimed jobs");
        return;
    }
    w->loop.fell_short = w->loop.found_none = false;
    w->loop.rate_ms = WORKER_RATE_MIN_MS;
    w->loop.claim_at = 0;
    w->loop.taken += (int64_t)n;
    pgw__backoff_reset(&w->loop.poll);
    if (!w->loop.registered) return;
    if (newcomer || unheard || n == (size_t)claim->opts.max || w->given.concurrency == 0) {
        worker_unregister(w);
    } else if (!alone) {
        w->loop.fell_short = true;
        worker_await_wakeup(w);
        if (w->loop.rated) w->loop.claim_at = 0; /* that claim says when the next one passes */
    }
}

static void worker_tell_ready(pgw_worker *w)
{
    if (atomic_exchange(&w->pool->told_ready, true)) return;
    if (w->pool->on_ready != NULL) w->pool->on_ready(w->pool->ready_arg);
}

/* A damaged row, or a trigger that fails, must not keep the worker from all other jobs. */
static void worker_set_aside(pgw_worker *w)
{
    const pgw__param params[] = {P_ARRAY(TEXT, w->given.queues, w->given.queues_count), P_END};
    const pgw__call call = {
        .sql = PGW__SQL_JOB_SET_ASIDE, .params = params, .flags = PGW__OWNED | PGW__WRITES};
    const pgw_status st = pgw__pq_call(w->loop.h, &call);

    PGW__LOG(&w->given.log, PGW_LOG_WARN, WORKER_COMPONENT, "%s",
             st == PGW_OK ? "checked for ready jobs that cannot be claimed: see "
                            "the view pgwork.stuck_jobs"
                          : pgw_error_message(w->loop.h));
}

/* Reports results and claims, in one round trip where that can be. */
static void worker_exchange(pgw_worker *w, const pgw__worker_plan *plan)
{
    pgw__claim claim = {PGW_CLAIM_OPTS_INIT, NULL, 0, false};
    pgw_status st = PGW_OK;

    claim.opts.queues = (const char *const *)w->given.queues + w->loop.turn;
    claim.opts.queues_count = w->given.queues_count;
    claim.opts.max = plan->claim;
    claim.opts.lease_ms = w->given.lease_ms > 0 ? w->given.lease_ms : PGW_DEFAULT;
    /* handlers finish jobs themselves: no job is to wait for another one's transaction */
    claim.opts.apart = atomic_load(&w->n.settled) > 0;
    claim.opts.in_order = w->given.fair;
    if (plan->flush) st = pgw__worker_flush(w, plan->flush_all, plan->claim > 0 ? &claim : NULL);
    if (st >= 0 && plan->claim > 0 && !claim.done) {
        claim.sent_us = pgw__clock_us();
        st = pgw_claim(w->loop.h, &claim.opts, &claim.batch);
        claim.done = st >= 0;
    }
    if (st < 0) {
        worker_call_failed(w, st);
        if (st == PGW_EDB && claim.sent_us > 0) worker_set_aside(w);
        return;
    }
    worker_well(w);
    if (!claim.done) return;
    w->loop.claims_fail = false;
    atomic_fetch_add(&w->n.claims, 1);
    worker_tell_ready(w);
    if (st == PGW_OUTCOME_EMPTY)
        worker_found_none(w);
    else
        worker_found(w, &claim);
    w->loop.woken = false;
}

/* ---- the loop ---- */

/* Waits on the server's socket, the handlers, and the stop; the connection's death ends it, too. */
static void worker_wait(pgw_worker *w, int64_t wait_ms)
{
    struct pollfd fds[2] = {{w->shared.wake.read_fd, POLLIN, 0}, {-1, POLLIN, 0}};
    pgw_status st;

    if (w->loop.down) {
        if (w->loop.stops == 0) fds[1].fd = pgw_stop_fd(w->loop.stop);
        poll(fds, 2, (int)wait_ms);
    } else {
        st = pgw__pq_wait(w->loop.h, wait_ms, w->shared.wake.read_fd);
        if (st == PGW_OK && w->loop.registered) {
            w->loop.claim_at = 0;
            w->loop.woken = true;
        }
        if (st < 0) worker_call_failed(w, st);
    }
    pthread_mutex_lock(&w->pool->lock);
    w->shared.waits = false;
    pthread_mutex_unlock(&w->pool->lock);
    pgw__wake_drain(&w->shared.wake);
}

/* The heartbeat has given up: so does the loop. */
static void worker_heed_heartbeat(pgw_worker *w)
{
    const pgw_status st = (pgw_status)atomic_load(&w->extension.fatal);

    if (st != PGW_OK && w->loop.fatal == PGW_OK) worker_trouble(w, st, w->extension.error);
}

/* The handle has the stop. The first notify ends its waits. From then on only the second one does,
 * because results must still be reported. */
static void worker_heed_stop(pgw_worker *w)
{
    const int stops = w->loop.fatal != PGW_OK && pgw_stop_count(w->loop.stop) == 0
                          ? 1
                          : pgw_stop_count(w->loop.stop);
    pgw__taskset *c;
    size_t i;

    if (stops == w->loop.stops) return;
    PGW__LOG(&w->given.log, PGW_LOG_INFO, WORKER_COMPONENT,
             stops == 1 ? "stopping: finishing running jobs" : "stopping now");
    w->loop.stops = stops;
    if (stops < 2)
        pgw__pq_heed_stop(w->loop.h);
    else
        pgw_set_stop(w->loop.h, NULL);
    atomic_store(&w->stopping, stops);
    if (stops < 2) return;
    pgw__worker_limit_calls(w, w->given.stop_ms);
    w->loop.end_at = pgw__clock_ms() + w->given.stop_ms;
    pthread_mutex_lock(&w->pool->lock);
    for (c = w->shared.tasksets; c != NULL; c = c->next)
        for (i = 0; i < c->count; i++)
            if (c->tasks[i].stage == PGW__RUNNING)
                pgw__worker_raise(&c->tasks[i], PGW_SIGNAL_STOPPING);
    pthread_mutex_unlock(&w->pool->lock);
}

/* ---- prefetch ----
 *
 * Prefetched jobs wait under a lease, and no other worker can take them. So only as many are
 * prefetched as handlers finish during a few round trips: none if jobs take long. If a job takes
 * long after many short ones, the prefetched jobs are requeued. */

static int worker_ahead(pgw_worker *w, int64_t now_us)
{
    const int64_t elapsed = now_us - w->loop.pace_us;
    int64_t pace;

    if (now_us / 1000 < w->loop.alone_until) return 0;
    if (w->given.prefetch >= 0) return w->given.prefetch;
    if (elapsed < WORKER_PACE_EACH_US) return w->loop.pace;
    pace = (w->pool->finished - w->loop.pace_finished) * WORKER_PACE_US / elapsed;
    w->loop.pace = (int)(pace < PGW__AHEAD_MAX ? pace : PGW__AHEAD_MAX);
    w->loop.pace_us = now_us;
    w->loop.pace_finished = w->pool->finished;
    return w->loop.pace;
}

/* Sources that claim for the same free handler get more than they can start. */
static bool worker_is_stale(const pgw_worker *w, int64_t now)
{
    const bool ahead =
        w->given.prefetch < 0 || (w->given.prefetch == 0 && w->pool->sources_count > 1);

    return ahead && w->pool->busy == w->given.concurrency &&
           now - w->pool->began_at >= WORKER_STALE_MS;
}

/* Jobs that worker.max_jobs still allows. *asked: so many of them other sources just ask for. */
static int64_t worker_left(const pgw_worker *w, int64_t *asked)
{
    int64_t left = w->given.max_jobs;

    *asked = 0;
    if (left == 0) return INT64_MAX;
    for (size_t i = 0; i < w->pool->sources_count; i++) {
        const pgw_worker *s = w->pool->sources[i];

        left -= s->loop.taken;
        if (s != w) *asked += s->loop.asked;
    }
    return left;
}

/* Fills in the state and makes a plan. If the plan is to wait, handlers that change it end the
 * wait. */
static pgw__worker_plan worker_plan(pgw_worker *w)
{
    pgw__worker_view *v = &w->shared.view;
    pgw__worker_plan plan;
    int64_t now_us, asked;

    pthread_mutex_lock(&w->pool->lock);
    now_us = pgw__clock_us();
    v->now = now_us / 1000;
    v->left = worker_left(w, &asked);
    pgw__worker_sort_out(w);
    pgw__worker_give_up_waiting(w, v->now);
    w->loop.hurries = w->loop.stops > 0 || v->left <= 0 || (w->given.drain && w->loop.found_none);
    if (w->loop.stops < 2 || v->now < w->loop.end_at)
        pgw__result_resume(w, v->now, w->loop.hurries);
    v->n = pgw__worker_count(w);
    v->claim_at = w->loop.claim_at;
    v->since_us = now_us - w->loop.filled_us;
    v->call_us = w->loop.call_us;
    v->done_before = w->shared.done_before;
    v->call_at = w->loop.call_at;
    v->no_heartbeat = w->extension.away;
    v->extend_at = w->given.concurrency == 0 ? w->shared.heartbeat_at : INT64_MAX;
    v->end_at = w->loop.end_at;
    v->fell_short = w->loop.fell_short;
    v->stops = w->loop.stops;
    v->found_none = w->loop.found_none;
    v->prefetch = worker_ahead(w, now_us);
    v->stale = worker_is_stale(w, v->now);
    v->flush_jobs = w->given.flush_jobs;
    v->here = w->given.concurrency == 0;
    v->drain = w->given.drain;
    plan = pgw__worker_plan_next(v);
    if (plan.claim > v->left - asked) plan.claim = v->left > asked ? (int)(v->left - asked) : 0;
    w->loop.asked = plan.claim;
    v->rush = plan.rush;
    if (plan.release && !plan.end) pgw__worker_release_ready(w, NULL);
    w->shared.waits =
        !(plan.end || plan.release || plan.extend || plan.flush || plan.claim > 0 || plan.run);
    pthread_mutex_unlock(&w->pool->lock);
    return plan;
}

/* ---- where connections are short ----
 *
 * Workers that hold one session each while they wait for a second would wait for each other
 * forever, for example after a restart of the server. So a worker closes the one it has: the main
 * loop's when there is nothing to report, the heartbeat's when no job needs it. */

static bool worker_uses(const pgw_worker *w)
{
    return w->shared.ready.count + w->shared.running > 0;
}

static void worker_yield_connection(pgw_worker *w)
{
    bool leaves;

    pthread_mutex_lock(&w->pool->lock);
    leaves = w->extension.crowded && !w->loop.down && !worker_uses(w) &&
             w->shared.done.count + w->shared.resting.count == 0;
    w->extension.crowded = false;
    pthread_mutex_unlock(&w->pool->lock);
    if (!leaves) return;
    pgw__pq_drop(w->loop.h);
    w->loop.down = true;
    w->loop.call_at = pgw__clock_ms() + pgw__backoff_next_ms(&w->loop.trouble);
}

static void worker_reconnect(pgw_worker *w)
{
    const bool hurries = w->loop.stops > 1 && w->given.connect_ms > PGW__WORKER_LEAST_CALL_MS;
    const pgw_status st = hurries ? pgw__pq_connect(w->loop.h, PGW__WORKER_LEAST_CALL_MS)
                                  : pgw__pq_connect_once(w->loop.h);

    if (st >= 0) {
        worker_connected(w);
        return;
    }
    worker_call_failed(w, st);
    if (w->given.concurrency == 0 || !pgw__worker_is_crowded(w->loop.h)) return;
    pthread_mutex_lock(&w->pool->lock);
    w->extension.yields = !worker_uses(w) && !w->extension.away;
    if (w->extension.yields) {
        w->shared.heartbeat_at = 0;
        pgw__worker_heartbeat_wake(w);
    }
    pthread_mutex_unlock(&w->pool->lock);
}

static void worker_extend_here(pgw_worker *w)
{
    pthread_mutex_lock(&w->pool->lock);
    w->shared.heartbeat_at = pgw__report_if_due(w, w->loop.h, pgw__worker_extend(w, w->loop.h));
    pthread_mutex_unlock(&w->pool->lock);
}

/* What cannot be reported: the leases end by themselves, if they have not ended before `now`. */
static void worker_abandon_results(pgw_worker *w, int64_t now)
{
    int left;

    pthread_mutex_lock(&w->pool->lock);
    pgw__result_resume(w, now, true);
    w->shared.due_at = INT64_MAX;
    for (left = w->shared.done.count; left > 0; left--) {
        pgw_task *t = pgw__list_pop(&w->shared.done);

        if (now < atomic_load(&t->safe_until)) {
            pgw__result_put_back(w, t);
            continue;
        }
        pgw__result_take(w, t);
        pgw__worker_lose(t);
        pgw__worker_drop(t);
    }
    pthread_mutex_unlock(&w->pool->lock);
}

/* Handlers that this claim has left free are for other sources, of which one may wait. */
static void worker_pass_on(pgw_worker *w)
{
    if (w->pool->sources_count == 1) return;
    pthread_mutex_lock(&w->pool->lock);
    w->loop.asked = 0;
    pgw__worker_stir(w->pool);
    pthread_mutex_unlock(&w->pool->lock);
}

static void worker_loop(pgw_worker *w)
{
    for (;;) {
        pgw__worker_plan plan;

        worker_heed_heartbeat(w);
        worker_heed_stop(w);
        worker_yield_connection(w);
        if (w->loop.down && pgw__clock_ms() >= w->loop.call_at) worker_reconnect(w);
        if (w->loop.down && w->loop.stops > 0) worker_abandon_results(w, pgw__clock_ms());
        plan = worker_plan(w);
        if (plan.end) return;
        if (plan.release)
            continue;
        else if (plan.extend)
            worker_extend_here(w);
        else if (plan.flush || plan.claim > 0) {
            worker_exchange(w, &plan);
            worker_pass_on(w);
        } else if (plan.run)
            pgw__worker_run_here(w);
        else if (plan.no_wakeups && w->loop.registered && !w->loop.down)
            worker_unregister(w); /* another waiter is to be woken up */
        else
            worker_wait(w, plan.wait_ms);
    }
}

/* Shorter than the timeout of any call: so the error says that the call waited for a lock. */
static int64_t worker_lock_ms(const pgw_worker *w)
{
    const int64_t stop_ms =
        w->given.stop_ms > PGW__WORKER_LEAST_CALL_MS ? w->given.stop_ms : PGW__WORKER_LEAST_CALL_MS;
    int64_t half = (w->given.call_ms < stop_ms ? w->given.call_ms : stop_ms) / 2;

    if (w->given.lease_ms > 0 && w->given.lease_ms / 8 < half)
        half = w->given.lease_ms / 8; /* pgw__lease_third() */
    return half < 1 ? 1 : half < WORKER_LOCK_MS ? half : WORKER_LOCK_MS;
}

/* The first connection: only one attempt, because a wrong setting never connects. */
static pgw_status worker_open(pgw_worker *w, pgw **h)
{
    const pgw_status st = pgw__handle_open(h, w->given.conf, w->loop.stop, worker_lock_ms(w));

    if (st >= 0) return PGW_OK;
    worker_failed_on(w, *h, st);
    pgw_close(*h);
    *h = NULL;
    if (w->loop.fatal != PGW_OK) return w->loop.fatal;
    return pgw_stop_count(w->loop.stop) > 0 ? PGW_ECANCELED : PGW_ECONN;
}

/* Without LISTEN, as behind a pooler, cancels are seen when leases are extended. */
static pgw_status worker_open_ears(pgw_worker *w)
{
    const pgw_status st = pgw__worker_heartbeat_listen(w);

    if (st >= 0) return PGW_OK;
    if (!worker_passes(st)) {
        PGW__LOG(&w->given.log, PGW_LOG_INFO, WORKER_COMPONENT,
                 "no notifications about cancelled jobs: %s", pgw_error_message(w->heartbeat.h));
        return PGW_OK;
    }
    worker_failed_on(w, w->heartbeat.h, st);
    pgw_close(w->heartbeat.h);
    w->heartbeat.h = NULL;
    return pgw_stop_count(w->loop.stop) > 0 ? PGW_ECANCELED : PGW_ECONN;
}

/* Both sessions, or none: where connections are short, workers that held their first one while they
 * wait for the second would wait for each other for ever. */
static pgw_status worker_open_both(pgw_worker *w)
{
    pgw_status st = worker_open(w, &w->loop.h);

    if (st < 0 || w->given.concurrency == 0) return st;
    st = worker_open(w, &w->heartbeat.h);
    if (st >= 0) st = worker_open_ears(w);
    if (st >= 0) return st;
    pgw_close(w->loop.h);
    w->loop.h = NULL;
    return st;
}

/* Before the first claim: without a connection for the heartbeat a worker would lose jobs that
 * outlast their lease. */
static pgw_status worker_open_all(pgw_worker *w)
{
    struct pollfd stop = {pgw_stop_fd(w->loop.stop), POLLIN, 0};
    pgw_status st = worker_open_both(w);

    while (st < 0 && st != PGW_ECANCELED && w->loop.fatal == PGW_OK) {
        pgw__deadline_poll(&stop, 1, w->loop.call_at);
        st = worker_open_both(w);
    }
    if (st < 0) return st;
    w->loop.epoch = pgw__pq_epoch(w->loop.h);
    worker_untrouble(w);
    return PGW_OK;
}

static void worker_reset(pgw_worker *w, pgw_stop *stop)
{
    w->loop.stop = stop;
    w->loop.stops = 0;
    w->loop.fatal = PGW_OK;
    w->loop.error[0] = '\0';
    w->loop.down = w->loop.registered = w->loop.fell_short = w->loop.found_none =
        w->loop.claims_fail = w->loop.hurries = w->loop.rated = false;
    w->loop.poll_only_until = w->given.notify ? 0 : INT64_MAX;
    w->loop.claim_at = w->loop.call_at = w->loop.end_at = 0;
    w->loop.taken = 0; /* atomic: clang does not chain it */
    w->loop.rate_ms = WORKER_RATE_MIN_MS;
    w->loop.told_absent = w->loop.beside = w->shared.ended = false;
    w->loop.asked = 0;
    w->loop.pace_us = pgw__clock_us();
    w->loop.pace_finished = w->pool->finished;
    w->loop.pace = 0;
    w->loop.alone_until = 0;
    memset(w->loop.why, 0, w->given.queues_count);
    w->loop.why_at = 0;
    w->loop.seen = 0;
    /* any: many workers that end after a job must not all begin with the same queue */
    w->loop.turn = w->given.fair ? pgw__random_u64() % w->given.queues_count : 0;
    w->loop.filled_us = w->loop.call_us = 0;
    w->shared.heartbeat_at = w->shared.due_at = INT64_MAX;
    pgw__report_begin(w);
    w->shared.quarantined = NULL;
    w->shared.hold_until = 0;
    w->extension.rest_until = 0;
    w->extension.away = w->extension.crowded = w->extension.yields = false;
    atomic_store(&w->extension.fatal, PGW_OK);
    atomic_store(&w->stopping, 0);
}

/* One source, from its first connection to its last. */
static void *worker_serve(void *arg)
{
    pgw_worker *w = arg;
    pgw_status st = worker_open_all(w);

    if (st < 0) return NULL;
    if (w->given.concurrency > 0) st = pgw__worker_heartbeat_start(w);
    if (st >= 0)
        worker_loop(w);
    else
        worker_trouble(w, st, "cannot start another thread");
    pthread_mutex_lock(&w->pool->lock);
    w->shared.ended = true;
    pthread_mutex_unlock(&w->pool->lock);
    if (w->given.concurrency > 0) pgw__worker_heartbeat_end(w);
    worker_abandon_results(w, INT64_MAX);
    pgw__report_end(w, w->loop.h);
    pgw_close(w->loop.h);
    w->loop.h = NULL;
    return NULL;
}

/* The first one in this thread. A source that cannot go on ends alone. */
static void worker_serve_all(pgw__pool *p)
{
    for (size_t i = 1; i < p->sources_count; i++) {
        pgw_worker *s = p->sources[i];

        s->loop.beside = pgw__worker_start(&s->loop.thread, worker_serve, s) == PGW_OK;
        if (!s->loop.beside) worker_trouble(s, PGW_ENOMEM, "cannot start another thread");
    }
    worker_serve(p->sources[0]);
    for (size_t i = 1; i < p->sources_count; i++)
        if (p->sources[i]->loop.beside) pthread_join(p->sources[i]->loop.thread, NULL);
}

/* The first error that did not pass. */
static pgw_status worker_outcome(pgw_worker *w)
{
    char error[sizeof(w->loop.error)];

    for (size_t i = 0; i < w->pool->sources_count; i++) {
        const pgw_worker *s = w->pool->sources[i];

        if (s->loop.fatal == PGW_OK) continue;
        if (w->pool->sources_count > 1) {
            snprintf(error, sizeof(error), "source %s: %.*s", s->given.name,
                     (int)(sizeof(error) - PGW__SOURCE_NAME - 16), s->loop.error);
            memcpy(w->loop.error, error, sizeof(error));
        }
        return s->loop.fatal;
    }
    return PGW_OK;
}

static pgw_status worker_run(pgw_worker *w, pgw_stop *stop)
{
    for (size_t i = 0; i < w->pool->sources_count; i++) worker_reset(w->pool->sources[i], stop);
    atomic_store(&w->pool->told_ready, false);
    if (!pgw__kind_any(w->pool)) {
        snprintf(w->loop.error, sizeof(w->loop.error),
                 "the worker has no handler: give one to pgw_worker_new() or pgw_worker_handle()");
        return PGW_EMISUSE;
    }
    if (pgw_stop_count(stop) > 0) return PGW_OK;
    if (pgw__worker_hire(w->pool) == PGW_OK)
        worker_serve_all(w->pool);
    else
        worker_trouble(w, PGW_ENOMEM, "cannot start another thread");
    if (pgw__worker_dismiss(w->pool)) return worker_outcome(w);
    /* logged before a fatal error, whose diagnostics were logged: the caller must not free what
     * the handlers use */
    snprintf(w->loop.error, sizeof(w->loop.error),
             "handlers did not return within %lld ms of the second stop",
             (long long)w->given.stop_ms);
    PGW__LOG(&w->given.log, PGW_LOG_WARN, WORKER_COMPONENT, "%s", w->loop.error);
    return PGW_ETIMEDOUT;
}

/* False if it runs already, or handlers of its last run do. */
static bool worker_begin(pgw__pool *p)
{
    bool may;

    pthread_mutex_lock(&p->lock);
    may = !p->runs && p->owners <= 1;
    if (may) p->runs = true;
    pthread_mutex_unlock(&p->lock);
    return may;
}

static void worker_end(pgw__pool *p)
{
    pthread_mutex_lock(&p->lock);
    p->runs = false;
    pthread_mutex_unlock(&p->lock);
}

pgw_status pgw_worker_run(pgw_worker *w, pgw_stop *stop)
{
    pgw_status st;

    if (w == NULL) return PGW_EINVAL;
    if (!worker_begin(w->pool)) return PGW_EMISUSE;
    st = worker_run(w, stop);
    for (size_t i = 0; i < w->pool->sources_count; i++) w->pool->sources[i]->loop.stop = NULL;
    worker_end(w->pool);
    return st;
}
