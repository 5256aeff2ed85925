/* worker_report: counts by queue, reported to the server with the heartbeat.
 *
 * Counting costs a few additions a job, under the lock that is held anyway. A report says what was
 * counted since the one before, so it can be late or fail: the next one says it all. When only the
 * answer was lost, a part may be counted twice. */
#include "worker/worker_report.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "call/check.h"

#define REPORT_FIRST_MS 500   /* after the start; a worker that ends before reports at its end */
#define REPORT_BUSY_MS  5000  /* between two reports, and while nothing changes: */
#define REPORT_IDLE_MS  10000 /* the server takes a worker for gone after three times as long */
#define REPORT_REST_MS  60000 /* after one that failed */
#define REPORT_CALL_MS  1000  /* the longest time that it may delay the heartbeat */
#define REPORT_LAST_MS  500
#define REPORT_LONG_US  1000000 /* a job that runs for so long is named */

bool pgw__report_init(pgw_worker *w)
{
    const size_t n = w->given.queues_count;

    w->report.lease_ms = INT64_MAX;
    w->report.tallies = pgw__mem_zero(n, sizeof(w->report.tallies[0]));
    w->report.versions = pgw__mem_zero(n, sizeof(w->report.versions[0]));
    w->report.running = pgw__mem_zero(n, sizeof(w->report.running[0]));
    w->report.counts = pgw__mem_zero(n * PGW__COUNTS, sizeof(w->report.counts[0]));
    return w->report.tallies != NULL && w->report.versions != NULL && w->report.running != NULL &&
           w->report.counts != NULL;
}

void pgw__report_begin(pgw_worker *w)
{
    w->report.began_at = pgw__clock_ms();
    w->report.due_at = w->report.began_at + REPORT_FIRST_MS;
    if (w->given.concurrency == 0) w->shared.heartbeat_at = w->report.due_at;
}

/* ---- counting ---- */

/* The first power of two, in ms, that is not below. */
static int report_bucket(int64_t us)
{
    int64_t ms = us > 1000 ? (us - 1) / 1000 : 0;
    int i = 0;

    for (; ms > 0 && i < PGW__COUNT_BUCKETS - 1; ms >>= 1) i++;
    return i;
}

static pgw__tally *report_tally(pgw_worker *w, const char *queue, size_t guess)
{
    size_t i = guess;

    if (w->given.queues_count == 1) return &w->report.tallies[0];
    if (strcmp(w->given.queues[i], queue) == 0) return &w->report.tallies[i];
    for (i = 0; i + 1 < w->given.queues_count; i++)
        if (strcmp(w->given.queues[i], queue) == 0) break;
    return &w->report.tallies[i];
}

/* How long a job waited is known if it was ready when it was enqueued: then it lies at its first
 * position, which is its id or that of the first job in its row. A delayed or requeued job has
 * another position, and waits since a time that a claim does not return. */
void pgw__report_claimed(pgw_worker *w, pgw__taskset *c, int64_t since_ms, int64_t server_us)
{
    pgw__tally *tally = w->report.tallies;
    uint64_t claim = 0;
    bool fresh = false;

    for (size_t i = 0; i < c->count; i++) {
        pgw_task *t = &c->tasks[i];

        tally = report_tally(w, pgw_job_queue(t->job), (size_t)(tally - w->report.tallies));
        t->tally = tally;
        if (i == 0 || t->ref.token.number != claim) {
            claim = t->ref.token.number;
            fresh = (int64_t)(claim >> 5) == t->ref.id && pgw_job_attempt(t->job) == 1;
        }
        t->ready_us =
            fresh ? since_ms * 1000 - (server_us - pgw_job_created_us(t->job)) : INT64_MIN;
        tally->n[PGW__COUNT_CLAIMED]++;
        if (t->lease_ms < w->report.lease_ms) w->report.lease_ms = t->lease_ms;
    }
}

void pgw__report_started(pgw_task *t, int64_t now_us)
{
    const int64_t waited =
        t->ready_us != INT64_MIN && now_us > t->ready_us ? now_us - t->ready_us : 0;

    t->began_us = now_us;
    t->tally->running++;
    if (t->ready_us == INT64_MIN) return;
    t->tally->n[PGW__COUNT_WAIT_US] += waited;
    t->tally->n[PGW__COUNT_WAIT + report_bucket(waited)]++;
}

void pgw__report_returned(pgw_task *t, int64_t now_us)
{
    const int64_t ran = now_us > t->began_us ? now_us - t->began_us : 0;

    t->tally->running--;
    t->tally->n[PGW__COUNT_RUN_US] += ran;
    t->tally->n[PGW__COUNT_RUN + report_bucket(ran)]++;
}

void pgw__report_told(pgw_task *t, pgw__counted what)
{
    t->tally->n[what]++;
}

/* ---- telling ---- */

typedef struct report_ctx {
    pgw_worker *w;
} report_ctx;

/* Everything is copied under the lock: handlers count on while the server is asked. */
typedef struct report_jobs {
    int32_t places[PGW__REPORT_JOBS], attempts[PGW__REPORT_JOBS];
    int64_t ids[PGW__REPORT_JOBS], ran_ms[PGW__REPORT_JOBS];
    size_t count;
} report_jobs;

static bool report_collect(pgw_worker *w)
{
    bool news = false;

    for (size_t q = 0; q < w->given.queues_count; q++) {
        pgw__tally *t = &w->report.tallies[q];
        int64_t *counts = w->report.counts + q * PGW__COUNTS;

        t->n[PGW__COUNT_LOST] = atomic_load(&t->lost);
        for (size_t i = 0; i < PGW__COUNTS; i++) {
            /* a loss that was none is taken back: the server's counts only grow */
            counts[i] = t->n[i] > t->told[i] ? t->n[i] - t->told[i] : 0;
            news = news || counts[i] > 0;
        }
        w->report.running[q] = t->running;
    }
    return news;
}

/* The oldest ones come last in the list of task sets: any of those that run for long will do. */
static void report_collect_jobs(const pgw_worker *w, report_jobs *jobs)
{
    const int64_t now_us = pgw__clock_us();

    jobs->count = 0;
    for (const pgw__taskset *c = w->shared.tasksets; c != NULL; c = c->next) {
        for (size_t i = 0; i < c->count && jobs->count < PGW__REPORT_JOBS; i++) {
            const pgw_task *t = &c->tasks[i];

            if (t->stage != PGW__RUNNING || now_us - t->began_us < REPORT_LONG_US) continue;
            jobs->places[jobs->count] = (int32_t)(t->tally - w->report.tallies) + 1;
            jobs->attempts[jobs->count] = pgw_job_attempt(t->job);
            jobs->ids[jobs->count] = t->ref.id;
            jobs->ran_ms[jobs->count++] = (now_us - t->began_us) / 1000;
        }
    }
}

static pgw_status report_read(pgw *h, const pgw__rows *rows, void *ctx)
{
    pgw_worker *w = ((const report_ctx *)ctx)->w;
    pgw__items items;
    pgw__bytes item;

    (void)h;
    if (pgw__rows_count(rows) != 1) return PGW_OK;
    pgw__rows_items(rows, 0, 0, &items);
    for (size_t q = 0; q < w->given.queues_count && pgw__items_next(&items, &item); q++)
        w->report.versions[q] = pgw__item_int(&item);
    return PGW_OK;
}

static pgw_status report_call(pgw_worker *w, pgw *h, const report_jobs *jobs, bool gone)
{
    const size_t n = w->given.queues_count;
    const report_ctx ctx = {w};
    char buffer[PGW__HOLDER_MAX + 1];
    const char *name;
    pgw_status st = pgw__check_holder(h, "holder", &name, NULL, buffer);

    if (st != PGW_OK) return st;
    {
        const pgw__param params[] = {
            P_TEXT(name),
            P_ARRAY(TEXT, w->given.queues, n),
            P_ARRAY(INT8, w->report.versions, n),
            P_ARRAY(INT4, w->report.running, n),
            P_ARRAY(INT8, w->report.counts, n * PGW__COUNTS),
            P_INT8(pgw__clock_ms() - w->report.began_at),
            P_INT4(w->given.concurrency > 0 ? w->given.concurrency : 1),
            P_BOOL(gone),
            P_ARRAY(INT4, jobs->places, jobs->count),
            P_ARRAY(INT8, jobs->ids, jobs->count),
            P_ARRAY(INT4, jobs->attempts, jobs->count),
            P_ARRAY(INT8, jobs->ran_ms, jobs->count),
            P_END,
        };
        const pgw__call call = {.sql = PGW__SQL_WORKER_REPORT,
                                .params = params,
                                .read = report_read,
                                .ctx = &ctx,
                                .ctx_size = sizeof(ctx),
                                .flags = PGW__OWNED | PGW__WRITES};

        return pgw__pq_call(h, &call);
    }
}

/* With the lock held: what was sent is not sent again. */
static void report_accepted(pgw_worker *w)
{
    for (size_t q = 0; q < w->given.queues_count; q++)
        for (size_t i = 0; i < PGW__COUNTS; i++)
            w->report.tallies[q].told[i] += w->report.counts[q * PGW__COUNTS + i];
}

/* With the lock held, which is dropped meanwhile. */
static pgw_status report_send(pgw_worker *w, pgw *h, int64_t limit_ms, bool gone)
{
    report_jobs jobs;
    pgw_status st;

    report_collect_jobs(w, &jobs);
    pthread_mutex_unlock(&w->pool->lock);
    pgw__pq_limit_calls(h, limit_ms);
    st = report_call(w, h, &jobs, gone);
    if (st < 0)
        PGW__LOG(&w->given.log, PGW_LOG_DEBUG, "worker", "report not sent: %s",
                 pgw_error_message(h));
    if (h == w->loop.h) pgw_set_timeout(h, PGW_DEFAULT);
    pthread_mutex_lock(&w->pool->lock);
    if (st >= 0) report_accepted(w);
    return st;
}

/* A session that hangs must not cost the leases: the call takes a quarter of the shortest one. */
int64_t pgw__report_if_due(pgw_worker *w, pgw *h, int64_t next)
{
    const int64_t now = pgw__clock_ms();
    int64_t limit_ms = w->report.lease_ms / 4;
    bool news;

    if (now < w->report.due_at) return next < w->report.due_at ? next : w->report.due_at;
    if (next <= now || pgw__pq_check_session(h) != PGW_OK) return next;
    news = report_collect(w);
    if (!news && now < w->report.sent_at + REPORT_IDLE_MS) {
        w->report.due_at = w->report.sent_at + REPORT_IDLE_MS;
        return next < w->report.due_at ? next : w->report.due_at;
    }
    if (limit_ms > REPORT_CALL_MS) limit_ms = REPORT_CALL_MS;
    if (limit_ms < PGW__LEASE_LEAST_CALL_MS) limit_ms = PGW__LEASE_LEAST_CALL_MS;
    if (report_send(w, h, limit_ms, false) >= 0) {
        w->report.sent_at = now;
        w->report.due_at = now + REPORT_BUSY_MS;
    } else {
        w->report.due_at = now + REPORT_REST_MS;
    }
    return pgw__clock_ms(); /* check again: time has passed */
}

void pgw__report_end(pgw_worker *w, pgw *h)
{
    if (pgw__pq_check_session(h) != PGW_OK) return;
    pthread_mutex_lock(&w->pool->lock);
    report_collect(w);
    if (report_send(w, h, REPORT_LAST_MS, true) >= 0)
        memset(w->report.versions, 0, w->given.queues_count * sizeof(w->report.versions[0]));
    pthread_mutex_unlock(&w->pool->lock);
}
