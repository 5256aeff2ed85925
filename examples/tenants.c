/* tenants: a farm that tenants share fairly, and an API that is called within its limit.
 *
 *   cc tenants.c -pthread $(pkg-config --cflags --libs pgwork)
 *   PGWORK_DSN=... ./a.out [JOBS]
 *
 * "big" enqueues JOBS jobs, "middle" then a fifth of them, and "small" a twentieth. Each tenant is
 * a group: two of its jobs are admitted at a time, and the next one goes behind those of the
 * others. So "small" is served long before "big", though it came last.
 *
 * Each job calls an API that allows 50 calls per second. A rate keeps all threads, processes and
 * machines together below that. If the API answers 429 nevertheless, the queue is held as long as
 * the API says. A reaper (pgwork reap) ends the hold. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pgwork.h>

#define QUEUE  "tenants"
#define RATE   "tenants api"
#define PER_S  50
#define BURST  10
#define TENANT 2 /* jobs of a tenant at a time */

/* Payloads are JSON. */
static struct tenant {
    const char *name, *payload;
    int part, jobs, done, last_call;
} tenants[] = {{"big", "\"big\"", 1, 0, 0, 0},
               {"middle", "\"middle\"", 5, 0, 0, 0},
               {"small", "\"small\"", 20, 0, 0, 0}};
#define TENANTS (sizeof(tenants) / sizeof(tenants[0]))

static pgw_stop *stop;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows, and of tenants */
static double began_at, filled_at, room = 2 * BURST;
static int calls, left;

static void on_signal(int number)
{
    (void)number;
    pgw_stop_notify(stop);
}

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- the API: 200, or 429 and how long to wait ---- */

static int call_api(int *number, int64_t *retry_after_ms)
{
    const double now = seconds();
    int code = 429;

    pthread_mutex_lock(&lock);
    room += (now - filled_at) * PER_S;
    if (room > 2 * BURST) room = 2 * BURST; /* calls may come closer than their takes */
    filled_at = now;
    *retry_after_ms = 1000;
    if (room >= 1) {
        room -= 1;
        *number = ++calls;
        code = 200;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

/* ---- the worker ---- */

/* A handle is for one thread, so each handler thread has its own. The last act of the thread is to
 * close it. */
static pthread_key_t handles;

static void close_handle(void *h)
{
    pgw_close(h);
}

static pgw *my_handle(pgw_task *task)
{
    pgw *h = pthread_getspecific(handles);

    if (h != NULL) return h;
    if (pgw_open(NULL, &h) != PGW_OK) {
        pgw_task_set_error(task, pgw_error_message(h));
        pgw_close(h);
        return NULL;
    }
    pthread_setspecific(handles, h);
    return h;
}

static void count(const char *payload, int call)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < TENANTS; i++) {
        if (payload == NULL || strcmp(payload, tenants[i].payload) != 0) continue;
        tenants[i].done++;
        tenants[i].last_call = call;
        if (--left == 0) pgw_stop_notify(stop);
    }
    pthread_mutex_unlock(&lock);
}

static pgw_verdict handle(pgw_task *task, void *arg)
{
    pgw_rate_take_opts take = PGW_RATE_TAKE_OPTS_INIT;
    pgw *h = my_handle(task);
    int64_t wait_ms = 0;
    int call = 0;
    pgw_status st;

    (void)arg;
    if (h == NULL) return PGW_VERDICT_RETRY;
    take.timeout_ms = 5000;
    st = pgw_rate_take(h, RATE, &take, &wait_ms);
    if (st != PGW_OK) {
        pgw_task_set_error(task, pgw_error_message(h));
        pgw_task_set_delay(task, wait_ms);
        return st == PGW_ELOCKED ? PGW_VERDICT_SNOOZE : PGW_VERDICT_RETRY;
    }
    if (call_api(&call, &wait_ms) == 429) {
        pgw_task_set_error(task, "429 from the API"); /* the reason of the hold, for operators */
        pgw_task_set_delay(task, wait_ms);
        return PGW_VERDICT_HOLD;
    }
    count(pgw_job_payload(pgw_task_job(task)), call);
    return PGW_VERDICT_DONE;
}

/* ---- before and after ---- */

static pgw_status prepare(pgw *h)
{
    pgw_group_opts fair = PGW_GROUP_OPTS_INIT;
    pgw_rate_opts rate = PGW_RATE_OPTS_INIT;
    pgw_status st = pgw_queue_drop(h, QUEUE, true); /* what an earlier run left */

    fair.limit = TENANT;
    rate.n = PER_S, rate.burst = BURST, rate.per_ms = 1000;
    if (st == PGW_OK || st == PGW_ENOTFOUND) st = pgw_queue_create(h, QUEUE, NULL);
    if (st == PGW_OK) st = pgw_group_set(h, QUEUE, NULL, &fair);
    if (st == PGW_OK) st = pgw_rate_set(h, RATE, &rate);
    return st;
}

static pgw_status enqueue(pgw *h, int jobs)
{
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_status st = PGW_OK;

    for (size_t i = 0; i < TENANTS; i++) {
        tenants[i].jobs = jobs / tenants[i].part;
        left += tenants[i].jobs;
        job.group = tenants[i].name, job.payload = tenants[i].payload;
        for (int n = 0; n < tenants[i].jobs && st == PGW_OK; n++)
            st = pgw_enqueue(h, QUEUE, &job, NULL);
    }
    return st;
}

static pgw_status work(void)
{
    static const char *const queues[] = {QUEUE};
    pgw_worker_spec spec = PGW_WORKER_SPEC_INIT;
    pgw_worker *w = NULL;
    pgw_status st;

    spec.queues = queues, spec.queues_count = 1, spec.handler = handle;
    began_at = filled_at = seconds();
    st = pgw_worker_new(NULL, &spec, &w);
    if (st == PGW_OK) st = pgw_worker_run(w, stop);
    if (st != PGW_OK) fprintf(stderr, "%s\n", w ? pgw_worker_error(w) : pgw_status_text(st));
    pgw_worker_free(w);
    return st;
}

static int report(void)
{
    const double took = seconds() - began_at;
    const int most = BURST + (int)(took * PER_S) + 1;

    for (size_t i = 0; i < TENANTS; i++)
        printf("%s: %d of %d jobs, the last one was call %d\n", tenants[i].name, tenants[i].done,
               tenants[i].jobs, tenants[i].last_call);
    printf("%d calls in %.1f s, at most %d are allowed\n", calls, took, most);
    return left == 0 && calls <= most ? 0 : 1;
}

int main(int argc, char **argv)
{
    const int jobs = argc > 1 ? atoi(argv[1]) : 60;
    struct sigaction action = {.sa_handler = on_signal};
    pgw_status st;
    pgw *h;

    if (jobs < 20 || jobs > 10000) return fprintf(stderr, "tenants [JOBS], 20 to 10000\n"), 2;
    if (pgw_stop_new(&stop) != PGW_OK || pthread_key_create(&handles, close_handle) != 0) return 1;
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    st = pgw_open(NULL, &h);
    if (st == PGW_OK) st = prepare(h);
    if (st == PGW_OK) st = enqueue(h, jobs);
    if (st != PGW_OK) fprintf(stderr, "%s\n%s\n", pgw_error_message(h), pgw_error_hint(h));
    pgw_close(h);
    if (st == PGW_OK) st = work();
    signal(SIGTERM, SIG_DFL); /* before what they notify is gone */
    signal(SIGINT, SIG_DFL);
    pgw_stop_free(stop);
    return st == PGW_OK ? report() : 1;
}
