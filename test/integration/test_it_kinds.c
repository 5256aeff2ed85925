/* Handlers by kind, timeouts of jobs, unlimited attempts, and the retention of dead letters. */
#include "unity.h"
#include "pgw_all.h"
#include "pgtemp.h"
#include "workerkit.h"

static atomic_int now_at_work, most_at_work;

void setUp(void)
{
    worker_begin();
    atomic_store(&let_go, 0);
    atomic_store(&now_at_work, 0);
    atomic_store(&most_at_work, 0);
}

void tearDown(void)
{
    worker_end();
}

/* ---- tools ---- */

static void enqueue_kind(const char *kind, int n, const char *meta)
{
    pgw_job_spec jobs[200];

    for (int i = 0; i < n; i++) {
        jobs[i] = (pgw_job_spec)PGW_JOB_SPEC_INIT;
        jobs[i].kind = kind, jobs[i].meta = meta;
    }
    must(pgw_enqueue_many(h, queue, jobs, (size_t)n, NULL));
}

static long long jobs_that(const char *condition)
{
    char sql[300];

    snprintf(sql, sizeof(sql), "SELECT count(*) FROM pgwork.job WHERE queue = '%s' AND %s", queue,
             condition);
    return pgtemp_number(sql);
}

static void await_jobs_that(const char *condition, long long n)
{
    for (int i = 0; i < PATIENCE_MS / 10 && jobs_that(condition) != n; i++) nap(10);
    TEST_ASSERT_EQUAL_INT64_MESSAGE(n, jobs_that(condition), condition);
}

static pgw_verdict limited(pgw_task *task, void *arg)
{
    const int n = atomic_fetch_add(&now_at_work, 1) + 1;

    (void)task;
    if (n > atomic_load(&most_at_work)) atomic_store(&most_at_work, n);
    nap(*(int *)arg);
    atomic_fetch_sub(&now_at_work, 1);
    return PGW_VERDICT_DONE;
}

static pgw_verdict fails(pgw_task *task, void *arg)
{
    (void)task, (void)arg;
    atomic_fetch_add(&called, 1);
    return PGW_VERDICT_RETRY;
}

static pgw_verdict fails_now(pgw_task *task, void *arg)
{
    pgw_task_set_delay(task, 0);
    return fails(task, arg);
}

static pgw_worker *worker_of(pgw_handler_fn *fn)
{
    pgw_worker *w;

    TEST_ASSERT_EQUAL_INT(
        PGW_OK,
        pgw_worker_new(conf, &(pgw_worker_spec){sizeof(pgw_worker_spec), queues, 1, fn, NULL, NULL},
                       &w));
    return w;
}

static void start_it(pgw_worker *w)
{
    TEST_ASSERT_EQUAL_INT(0, pthread_create(&worker_thread, NULL, run_it, w));
    worker_beside = w;
}

static void run_to_the_end(pgw_worker *w)
{
    start_it(w);
    finish(PGW_OK);
}

static void handle(pgw_worker *w, const char *kind, pgw_handler_fn *fn, void *arg,
                   const pgw_kind_opts *opts)
{
    if (pgw_worker_handle(w, kind, fn, arg, opts) != PGW_OK) TEST_FAIL_MESSAGE(pgw_worker_error(w));
}

/* ---- a limit ---- */

/* Each of them once, and none pays for having waited. */
static void all_of_a_limited_kind(int limit, int ms, int n)
{
    pgw_kind_opts o = PGW_KIND_OPTS_INIT;
    pgw_worker *w = worker_of(noop);
    pgw_worker_stats s;

    enqueue_kind("limited", n, NULL);
    enqueue_kind("other", 20, NULL);
    start_reaper();
    o.concurrency = limit;
    handle(w, "limited", limited, &ms, &o);
    start_it(w);
    s = finish(PGW_OK);
    TEST_ASSERT_EQUAL_INT64(n + 20, jobs_that("state = 'done' AND attempt = 1"));
    TEST_ASSERT_EQUAL_INT64(n + 20, s.completed);
    TEST_ASSERT_EQUAL_INT64(0, s.failed + s.dead + s.refused + s.lost);
    TEST_ASSERT_EQUAL_INT(limit, atomic_load(&most_at_work));
    pgw_stop_notify(stop);
    finish_reaper();
}

void test_no_more_jobs_of_a_kind_run_at_once_than_its_limit_says(void)
{
    all_of_a_limited_kind(2, 20, 60);
}

void test_jobs_that_take_no_time_of_a_limited_kind_are_all_done(void)
{
    all_of_a_limited_kind(1, 1, 150);
}

void test_a_kind_over_its_limit_is_left_to_other_workers(void)
{
    pgw_kind_opts o = PGW_KIND_OPTS_INIT;
    pgw_worker *w;

    set("worker.until_empty", "off");
    w = worker_of(noop);
    enqueue_kind("held", 12, NULL);
    enqueue_kind("other", 4, NULL);
    o.concurrency = 1;
    handle(w, "held", until_let_go, NULL, &o);
    start_it(w);
    await_jobs_that("kind = 'other' AND state = 'done'", 4);
    await_jobs_that("kind = 'held' AND state = 'delayed' AND attempt = 0", 11);
    TEST_ASSERT_EQUAL_INT64(1, jobs_in("leased"));
    start_reaper(); /* they come back, and are put off again, until there is room for each */
    atomic_store(&let_go, 1);
    await_jobs_that("state = 'done'", 16);
    pgw_stop_notify(stop);
    finish(PGW_OK);
    finish_reaper();
}

/* ---- attempts ---- */

void test_a_job_of_unlimited_attempts_never_dies_of_them(void)
{
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_queue_opts q = PGW_QUEUE_OPTS_INIT;
    pgw_kind_opts o = PGW_KIND_OPTS_INIT;
    pgw_ref ref = {0};
    pgw_worker *w;
    int64_t id;

    job.max_attempts = PGW_UNLIMITED;
    must(pgw_enqueue(h, queue, &job, &id));
    ref.id = id;
    TEST_ASSERT_EQUAL_INT64(-1, of_job(id, "max_attempts"));
    pgtemp_exec("UPDATE pgwork.live_job SET attempt = 2147483645 WHERE token IS NULL");
    for (int i = 0; i < 4; i++) {
        set("worker.max_jobs", "1");
        TEST_ASSERT_EQUAL_INT64(1, run(fails_now, PGW_OK).failed);
        TEST_ASSERT_EQUAL_INT64(1, jobs_in("ready"));
    }
    must(pgw_cancel(h, queue, &ref, 1));
    set("worker.max_jobs", "0");

    q.max_attempts = PGW_UNLIMITED;
    must(pgw_queue_set(h, queue, &q));
    enqueue_kind("three times", 1, NULL);
    o.max_attempts = 3, o.backoff_ms = 0;
    w = worker_of(noop);
    handle(w, "three times", fails, NULL, &o);
    run_to_the_end(w);
    TEST_ASSERT_EQUAL_INT64(1, jobs_that("state = 'dead' AND attempt = 3"));
}

void test_attempts_are_limited_by_a_number_or_not_at_all(void)
{
    static const int bad[] = {0, -3, 1001};
    pgw_job_spec jobs[3] = {PGW_JOB_SPEC_INIT, PGW_JOB_SPEC_INIT, PGW_JOB_SPEC_INIT};
    pgw_queue_opts q = PGW_QUEUE_OPTS_INIT;
    pgw_enqueued done[3];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        jobs[0].max_attempts = q.max_attempts = bad[i];
        TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw_enqueue(h, queue, &jobs[0], NULL));
        TEST_ASSERT_NOT_NULL(strstr(pgw_error_message(h), "1..1000, PGW_UNLIMITED"));
        TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw_queue_set(h, queue, &q));
    }
    jobs[0].max_attempts = PGW_UNLIMITED, jobs[2].max_attempts = 7; /* 1: as the queue says */
    must(pgw_enqueue_many(h, queue, jobs, 3, done));
    TEST_ASSERT_EQUAL_INT64(-1, of_job(done[0].id, "max_attempts"));
    TEST_ASSERT_EQUAL_INT64(3, of_job(done[1].id, "max_attempts"));
    TEST_ASSERT_EQUAL_INT64(7, of_job(done[2].id, "max_attempts"));
}

void test_a_kind_without_a_handler_is_retried_and_dies_with_its_name(void)
{
    pgw_worker *w;

    set("worker.until_empty", "off");
    w = worker_of(NULL);
    enqueue_kind("odd", 1, NULL);
    handle(w, "other", noop, NULL, NULL);
    start_reaper();
    start_it(w);
    await_jobs_that("state = 'dead' AND attempt = 3 AND error = 'this worker has no handler for "
                    "kind \"odd\"'",
                    1);
    pgw_stop_notify(stop);
    finish(PGW_OK);
    finish_reaper();
}

/* ---- timeouts ---- */

void test_a_job_brings_its_timeout_along(void)
{
    enqueue_kind("", 1, "{\"timeout_ms\": 50}");
    set("worker.max_jobs", "1");
    run(until_signalled, PGW_OK);
    TEST_ASSERT_EQUAL_INT(PGW_SIGNAL_TIMEOUT, atomic_load(&seen));
}

void test_a_timeout_that_is_none_is_refused(void)
{
    static const char *const bad[] = {"0", "-1", "2592000001", "\"5s\"", "null", "[5]", "true"};
    char meta[64], sql[200];
    pgw_job_spec job = PGW_JOB_SPEC_INIT;

    job.meta = meta;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        snprintf(meta, sizeof(meta), "{\"timeout_ms\": %s}", bad[i]);
        TEST_ASSERT_EQUAL_INT_MESSAGE(PGW_EINVAL, pgw_enqueue(h, queue, &job, NULL), meta);
        TEST_ASSERT_NOT_NULL(strstr(pgw_error_message(h), "`job.meta.timeout_ms`"));
        snprintf(sql, sizeof(sql),
                 "DO $$ BEGIN PERFORM pgwork.enqueue('%s', NULL, meta => '%s');"
                 " RAISE 'taken'; EXCEPTION WHEN SQLSTATE 'PW001' THEN NULL; END $$",
                 queue, meta);
        pgtemp_exec(sql);
    }
    snprintf(meta, sizeof(meta), "{\"timeout_ms\": 2592000000, \"other\": \"x\"}");
    must(pgw_enqueue(h, queue, &job, NULL));
}

/* ---- dead letters ---- */

void test_dead_letters_are_kept_as_long_as_the_queue_says(void)
{
    pgw_queue_opts q = PGW_QUEUE_OPTS_INIT;
    char sql[200];

    enqueue_kind("", 3, NULL);
    run(fails_now, PGW_OK);
    TEST_ASSERT_EQUAL_INT64(3, jobs_in("dead"));
    pgtemp_exec("SELECT pgwork.prune()");
    TEST_ASSERT_EQUAL_INT64(3, jobs_in("dead")); /* for ever, unless told otherwise */
    q.dead_retention_ms = PGW_UNLIMITED;
    must(pgw_queue_set(h, queue, &q));
    q.dead_retention_ms = 60000;
    must(pgw_queue_set(h, queue, &q));
    snprintf(sql, sizeof(sql),
             "UPDATE pgwork.dead_job SET died_at = died_at - interval '2 min' WHERE id ="
             " (SELECT min(id) FROM pgwork.job WHERE queue = '%s' AND state = 'dead')",
             queue);
    pgtemp_exec(sql);
    pgtemp_exec("SELECT pgwork.prune()");
    TEST_ASSERT_EQUAL_INT64(2, jobs_in("dead"));
}
