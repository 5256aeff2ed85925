/* workerkit: for tests of the worker: a server, a queue for each test, and an audit trigger that
 * records every end of a lease. The token of each claim must end once for each of its jobs, by a
 * completion, a failure or a reaper. The test includes unity.h, pgw_all.h and pgtemp.h before it.
 */
#ifndef WORKERKIT_H
#define WORKERKIT_H

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define PATIENCE_MS 60000

static pgw_conf *conf;
static pgw_stop *stop;
static pgw *h;
static char queue[32];
static const char *queues[1];
static atomic_int called, seen, let_go;

/* ---- around every test ---- */

static inline void set(const char *name, const char *value)
{
    TEST_ASSERT_EQUAL_INT_MESSAGE(PGW_OK, pgw_conf_set(conf, name, value), name);
}

static inline void must(pgw_status st)
{
    if (st < 0) TEST_FAIL_MESSAGE(pgw_error_message(h));
}

static inline void first_time(void)
{
    must(pgw_migrate_up(h, NULL));
    pgtemp_exec(
        "CREATE TABLE audit (id bigint, token uuid);" /* ends of leases */
        "CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN "
        "IF TG_OP = 'INSERT' THEN" /* a batch row was split: these jobs did not leave */
        " DELETE FROM public.audit a USING pgwork._jobs(NEW) j"
        "  WHERE a.id = j.id AND a.token = NEW.token;"
        "ELSIF TG_OP = 'DELETE' THEN"
        " INSERT INTO public.audit SELECT j.id, OLD.token FROM pgwork._jobs(OLD) j"
        "  WHERE OLD.token IS NOT NULL;"
        "ELSE"
        " INSERT INTO public.audit SELECT g, NEW.token FROM unnest(NEW.gone_ids) g"
        "  WHERE g <> ALL (coalesce(OLD.gone_ids, '{}'));"
        "END IF; RETURN NULL; END $$;"
        "CREATE TRIGGER audit AFTER INSERT OR DELETE OR UPDATE OF gone_ids ON pgwork.live_job "
        "FOR EACH ROW EXECUTE FUNCTION audit();");
}

static inline void worker_begin(void)
{
    static int number;
    pgw_queue_opts o = PGW_QUEUE_OPTS_INIT;

    atomic_store(&called, 0);
    atomic_store(&seen, 0);
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_conf_new(&conf));
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_stop_new(&stop));
    set("dsn", pgtemp_dsn());
    set("worker.until_empty", "on");
    set("schema.check", number == 0 ? "off" : "on");
    must(pgw_open(conf, &h));
    if (number == 0) first_time();
    set("schema.check", "on");
    snprintf(queue, sizeof(queue), "queue %d", number++);
    queues[0] = queue;
    o.lease_ms = 5000; /* no machine stalls for so long */
    o.retention_ms = 3600000;
    o.max_attempts = 3;
    o.backoff_ms = 0;
    must(pgw_queue_create(h, queue, &o));
}

/* A worker in one thread, and a reaper in another. */
static pgw_worker *worker_beside;
static pthread_t worker_thread, reaper_thread;
static bool reaper_beside;

/* Ends them after a test that failed, because they must not outlive what they use. */
static inline void end_what_runs_beside(void)
{
    if (!worker_beside && !reaper_beside) return;
    pgw_stop_notify(stop);
    pgw_stop_notify(stop);
    atomic_store(&let_go, 1);
    atomic_store(&seen, INT_MAX);
    if (worker_beside) pthread_join(worker_thread, NULL);
    if (reaper_beside) pthread_join(reaper_thread, NULL);
    pgw_worker_free(worker_beside);
    worker_beside = NULL;
    reaper_beside = false;
}

static inline void worker_end(void)
{
    end_what_runs_beside();
    pgw_close(h);
    pgw_stop_free(stop);
    pgw_conf_free(conf);
}

/* ---- tools ---- */

static inline void nap(int ms)
{
    poll(NULL, 0, ms);
}

/* For handlers: an assertion may fail in the test's own thread only. */
static inline bool has_come(atomic_int *what, int value)
{
    for (int i = 0; i < PATIENCE_MS && atomic_load(what) < value; i++) nap(1);
    return atomic_load(what) >= value;
}

static inline void await(atomic_int *what, int value)
{
    if (!has_come(what, value)) TEST_FAIL_MESSAGE("waited in vain");
}

static inline void enqueue(int n)
{
    pgw_job_spec jobs[1000];
    int i;

    for (i = 0; i < 1000; i++) jobs[i] = (pgw_job_spec)PGW_JOB_SPEC_INIT;
    for (; n > 0; n -= 1000)
        must(pgw_enqueue_many(h, queue, jobs, n < 1000 ? (size_t)n : 1000, NULL));
}

static inline long long jobs_in(const char *state)
{
    char sql[200];

    snprintf(sql, sizeof(sql),
             "SELECT count(*) FROM pgwork.job WHERE queue = '%s' AND state = '%s'", queue, state);
    return pgtemp_number(sql);
}

static inline void await_jobs(const char *state, long long n)
{
    long long count = jobs_in(state);

    for (int i = 0; i < PATIENCE_MS / 10 && count < n; i++) {
        nap(10);
        count = jobs_in(state);
    }
    TEST_ASSERT_EQUAL_INT64(n, count);
}

static inline long long of_job(int64_t id, const char *column)
{
    char sql[200];

    snprintf(sql, sizeof(sql), "SELECT %s FROM pgwork.job WHERE queue = '%s' AND id = %lld", column,
             queue, (long long)id);
    return pgtemp_number(sql);
}

static const char *state_of(int64_t id)
{
    char sql[200];

    snprintf(sql, sizeof(sql), "SELECT state FROM pgwork.job WHERE queue = '%s' AND id = %lld",
             queue, (long long)id);
    return pgtemp_value(sql);
}

/* Where a test waits for its end, or for a beat, of which there are three in a lease. */
static inline void short_leases(void)
{
    set("worker.lease_ms", "600");
}

/* So many beats, as seen by the end of a job's lease. */
static inline void await_heartbeats(int64_t id, int beats)
{
    long long until = of_job(id, "(extract(epoch FROM lease_until) * 1000)::bigint");

    for (int i = 0; i < PATIENCE_MS / 10 && beats > 0; i++) {
        const long long seen_now = of_job(id, "(extract(epoch FROM lease_until) * 1000)::bigint");

        if (seen_now != until) beats--;
        until = seen_now;
        nap(10);
    }
    if (beats > 0) TEST_FAIL_MESSAGE("no beat");
}

static inline int64_t only_job(void)
{
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    int64_t id;

    must(pgw_enqueue(h, queue, &job, &id));
    return id;
}

/* ---- a worker, in this thread or in one of its own ---- */

static char last_words[512]; /* of a worker that finish() has seen end */

static inline pgw_worker_stats run(pgw_handler_fn *fn, pgw_status expected)
{
    pgw_worker_stats s = PGW_WORKER_STATS_INIT;
    pgw_worker *w;
    pgw_status st;

    TEST_ASSERT_EQUAL_INT(
        PGW_OK,
        pgw_worker_new(conf, &(pgw_worker_spec){sizeof(pgw_worker_spec), queues, 1, fn, NULL, NULL},
                       &w));
    st = pgw_worker_run(w, stop);
    pgw_worker_get_stats(w, &s);
    if (st != expected) TEST_FAIL_MESSAGE(pgw_worker_error(w));
    pgw_worker_free(w);
    return s;
}

static inline void *run_it(void *arg)
{
    return (void *)(intptr_t)pgw_worker_run(arg, stop);
}

static inline void start(pgw_handler_fn *fn)
{
    pgw_worker *w;

    TEST_ASSERT_EQUAL_INT(
        PGW_OK,
        pgw_worker_new(conf, &(pgw_worker_spec){sizeof(pgw_worker_spec), queues, 1, fn, NULL, NULL},
                       &w));
    TEST_ASSERT_EQUAL_INT(0, pthread_create(&worker_thread, NULL, run_it, w));
    worker_beside = w;
}

/* Where it goes to its end: waits for that. */
static inline pgw_worker_stats finish(pgw_status expected)
{
    pgw_worker_stats s = PGW_WORKER_STATS_INIT;
    pgw_worker *w = worker_beside;
    void *st;

    pthread_join(worker_thread, &st);
    worker_beside = NULL;
    pgw_worker_get_stats(w, &s);
    snprintf(last_words, sizeof(last_words), "%s", pgw_worker_error(w));
    pgw_worker_free(w);
    if ((pgw_status)(intptr_t)st != expected) TEST_FAIL_MESSAGE(last_words);
    return s;
}

/* Until the stop is notified, or the test is over. */
static inline void *reap_on(void *arg)
{
    pgw_reaper *r;

    (void)arg;
    if (pgw_reaper_new(conf, &r) != PGW_OK) return NULL;
    pgw_reaper_run(r, stop);
    pgw_reaper_free(r);
    return NULL;
}

static inline void start_reaper(void)
{
    TEST_ASSERT_EQUAL_INT(0, pthread_create(&reaper_thread, NULL, reap_on, NULL));
    reaper_beside = true;
}

static inline void finish_reaper(void)
{
    pthread_join(reaper_thread, NULL);
    reaper_beside = false;
}

/* Waits until a worker in this database is registered as a waiter, or no longer. */
static inline void await_registration(bool out)
{
    for (int i = 0; i < PATIENCE_MS / 10; i++) {
        if ((pgtemp_number(
                 "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock' "
                 "AND database = (SELECT oid FROM pg_database WHERE datname = "
                 "current_database())") > 0) == out)
            return;
        nap(10);
    }
    TEST_FAIL_MESSAGE(out ? "no worker registers" : "a worker stays registered");
}

static inline void await_registered(void)
{
    await_registration(true);
}

static inline void await_reconnects(int64_t n)
{
    pgw_worker_stats s = PGW_WORKER_STATS_INIT;
    int i;

    pgw_worker_get_stats(worker_beside, &s);
    for (i = 0; i < PATIENCE_MS && s.reconnects < n; i++) {
        nap(1);
        pgw_worker_get_stats(worker_beside, &s);
    }
    TEST_ASSERT_EQUAL_INT64(n, s.reconnects);
}

/* Every job was finished, each by one accepted completion; each claim's token ended once. */
static inline void all_done_once(long long n)
{
    char sql[500];

    TEST_ASSERT_EQUAL_INT64(n, jobs_in("done"));
    snprintf(sql, sizeof(sql), "SELECT count(*) FROM pgwork.job WHERE queue = '%s'", queue);
    TEST_ASSERT_EQUAL_INT64(n, pgtemp_number(sql));
    snprintf(sql, sizeof(sql),
             "SELECT count(*) FROM (SELECT id, count(*) AS ends, count(DISTINCT token) AS tokens "
             "FROM audit GROUP BY id) a "
             "RIGHT JOIN pgwork.job j USING (id) WHERE j.queue = '%s' AND (a.ends = j.attempt AND "
             "a.tokens = a.ends) IS NOT TRUE",
             queue);
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number(sql));
}

/* ---- handlers ---- */

static inline pgw_verdict noop(pgw_task *task, void *arg)
{
    (void)task, (void)arg;
    atomic_fetch_add(&called, 1);
    return PGW_VERDICT_DONE;
}

static inline pgw_verdict until_signalled(pgw_task *task, void *arg)
{
    struct pollfd fd = {pgw_task_fd(task), POLLIN, 0};

    (void)arg;
    atomic_fetch_add(&called, 1);
    poll(&fd, 1, PATIENCE_MS);
    atomic_store(&seen, pgw_task_signals(task));
    pgw_task_set_delay(task, 0);
    return PGW_VERDICT_RETRY;
}

static inline pgw_verdict until_let_go(pgw_task *task, void *arg)
{
    (void)task, (void)arg;
    atomic_fetch_add(&called, 1);
    has_come(&let_go, 1);
    return PGW_VERDICT_DONE;
}

#endif
