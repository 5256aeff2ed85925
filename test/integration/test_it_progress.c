/* Progress and attempts through the library: what a handler reports is shown while it runs, and its
 * next attempt finds it. */
#include "unity.h"
#include "pgw_all.h"
#include "pgtemp.h"
#include "workerkit.h"

static char shown[200];

void setUp(void)
{
    worker_begin();
    atomic_store(&let_go, 0);
    shown[0] = '\0';
}

void tearDown(void)
{
    worker_end();
}

/* ---- tools ---- */

static int keep_progress(const pgw_job *job, void *arg)
{
    const char *progress = pgw_job_progress(job);

    (void)arg;
    snprintf(shown, sizeof(shown), "%s", progress != NULL ? progress : "");
    return 0;
}

static const char *progress_of(int64_t id)
{
    pgw_jobs_opts o = PGW_JOBS_OPTS_INIT;

    o.queue = queue, o.id = id;
    must(pgw_jobs_each(h, &o, keep_progress, NULL));
    return shown;
}

static void await_progress(int64_t id, const char *json)
{
    for (int i = 0; i < PATIENCE_MS / 10 && strcmp(progress_of(id), json) != 0; i++) nap(10);
    TEST_ASSERT_EQUAL_STRING(json, shown);
}

static int add_attempt(const pgw_attempt_info *a, void *arg)
{
    char *all = arg;
    const size_t n = strlen(all);

    snprintf(all + n, 500 - n, "%d %s %s; ", a->attempt, a->ended,
             a->error != NULL ? a->error : "-");
    return a->holder == NULL || a->ended_us <= 0;
}

static const char *attempts_of(int64_t id)
{
    static char all[500];
    pgw_attempts_opts o = PGW_ATTEMPTS_OPTS_INIT;

    all[0] = '\0';
    o.queue = queue, o.id = id;
    must(pgw_attempts_each(h, &o, add_attempt, all));
    return all;
}

static pgw_ref claim_it(void)
{
    pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;
    pgw_batch *batch;
    pgw_ref ref;

    o.queues = queues, o.queues_count = 1;
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_claim(h, &o, &batch));
    ref = pgw_job_ref(pgw_batch_job(batch, 0));
    pgw_batch_free(batch);
    return ref;
}

/* ---- without a worker ---- */

void test_a_holder_stores_progress_and_anybody_who_works_reads_it(void)
{
    const int64_t id = only_job();
    pgw_ref ref = claim_it();
    pgw_batch *batch;

    TEST_ASSERT_EQUAL_INT(PGW_OUTCOME_EMPTY, pgw_progress_read(h, queue, id, &batch));
    TEST_ASSERT_NULL(batch);
    must(pgw_progress(h, queue, &ref, "{\"done\":1}"));
    must(pgw_progress_read(h, queue, id, &batch));
    TEST_ASSERT_EQUAL_STRING("{\"done\": 1}", pgw_job_progress(pgw_batch_job(batch, 0)));
    TEST_ASSERT_EQUAL_INT64(id, pgw_job_id(pgw_batch_job(batch, 0)));
    pgw_batch_free(batch);
    TEST_ASSERT_EQUAL_STRING("{\"done\": 1}", progress_of(id));
    must(pgw_progress(h, queue, &ref, NULL));
    TEST_ASSERT_EQUAL_STRING("", progress_of(id));
}

void test_a_stale_holder_is_refused(void)
{
    pgw_ref first, second;

    only_job();
    first = claim_it();
    must(pgw_release(h, queue, &(pgw_ref){first.id, first.token, PGW_OK}, 1));
    second = claim_it();
    TEST_ASSERT_EQUAL_INT(PGW_ELEASE, pgw_progress(h, queue, &first, "1"));
    TEST_ASSERT_EQUAL_INT(PGW_ELEASE, first.outcome);
    TEST_ASSERT_EQUAL_STRING("", progress_of(first.id));
    must(pgw_complete(h, queue, &second, 1, NULL));
    TEST_ASSERT_EQUAL_INT(PGW_ELEASE, pgw_progress(h, queue, &second, "1"));
    TEST_ASSERT_EQUAL_INT(PGW_ENOTFOUND, second.outcome);
}

void test_bad_arguments_are_refused(void)
{
    pgw_ref ref = {.id = 1};
    pgw_batch *batch;
    pgw_attempts_opts o = PGW_ATTEMPTS_OPTS_INIT;
    static char long_one[70000];

    memset(long_one, '1', sizeof(long_one) - 1);
    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw_progress(h, queue, &ref, "{"));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_message(h), "progress"));
    TEST_ASSERT_EQUAL_INT(PGW_ELIMIT, pgw_progress(h, queue, &ref, long_one));
    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw_progress(h, queue, NULL, "1"));
    TEST_ASSERT_EQUAL_INT(PGW_ENOTFOUND, pgw_progress(h, "none", &ref, "1"));
    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw_progress_read(h, queue, 0, &batch));
    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw_progress_read(h, queue, 1, NULL));
    TEST_ASSERT_EQUAL_INT(PGW_ENOTFOUND, pgw_progress_read(h, "none", 1, &batch));
    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw_attempts_each(h, &o, add_attempt, NULL));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_message(h), "opts->id"));
    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw_attempts_each(h, &o, NULL, NULL));
    o.id = 1;
    TEST_ASSERT_EQUAL_INT(PGW_OUTCOME_EMPTY, pgw_attempts_each(h, &o, add_attempt, NULL));
}

/* ---- handlers ---- */

static pgw_verdict reports_and_stays(pgw_task *task, void *arg)
{
    (void)arg;
    pgw_task_progress(task, "{\"step\":1}");
    pgw_task_progress(task, "{\"step\":2}");
    atomic_fetch_add(&called, 1);
    has_come(&let_go, 1);
    return PGW_VERDICT_DONE;
}

void test_the_heartbeat_sends_what_a_handler_reports_while_it_runs(void)
{
    const int64_t id = only_job();

    start(reports_and_stays);
    await(&called, 1);
    await_progress(id, "{\"step\": 2}");
    atomic_store(&let_go, 1);
    finish(PGW_OK);
    TEST_ASSERT_EQUAL_STRING("done", state_of(id));
}

/* Each of a few jobs that run at once has its own. */
static pgw_verdict reports_its_id(pgw_task *task, void *arg)
{
    char json[40];

    (void)arg;
    snprintf(json, sizeof(json), "%lld", (long long)pgw_job_id(pgw_task_job(task)));
    pgw_task_progress(task, json);
    atomic_fetch_add(&called, 1);
    has_come(&let_go, 1);
    return PGW_VERDICT_DONE;
}

void test_jobs_that_run_at_once_report_each_for_itself(void)
{
    set("worker.concurrency", "4");
    enqueue(4);
    start(reports_its_id);
    await(&called, 4);
    for (int i = 0; i < PATIENCE_MS / 10; i++) {
        char sql[200];

        snprintf(sql, sizeof(sql),
                 "SELECT count(*) FROM pgwork.job WHERE queue = '%s' AND progress::text = id::text",
                 queue);
        if (pgtemp_number(sql) == 4) break;
        nap(10);
    }
    atomic_store(&let_go, 1);
    finish(PGW_OK);
    TEST_ASSERT_EQUAL_INT64(4, jobs_in("done"));
}

/* The first attempt leaves a checkpoint with its last breath; the second goes on there. */
static pgw_verdict resumes(pgw_task *task, void *arg)
{
    const char *before;

    (void)arg;
    atomic_fetch_add(&called, 1);
    if (pgw_task_last_progress(task, &before) != PGW_OK) return PGW_VERDICT_DEAD;
    if (pgw_job_attempt(pgw_task_job(task)) == 1) {
        if (before != NULL) return PGW_VERDICT_DEAD;
        pgw_task_progress(task, "{\"frame\": 1200}");
        pgw_task_set_delay(task, 0);
        pgw_task_set_error(task, "out of disk");
        return PGW_VERDICT_RETRY;
    }
    snprintf(shown, sizeof(shown), "%s", before != NULL ? before : "nothing");
    return PGW_VERDICT_DONE;
}

void test_the_next_attempt_finds_what_the_last_one_reported_at_its_end(void)
{
    const int64_t id = only_job();

    start_reaper();
    start(resumes);
    await(&called, 2);
    finish(PGW_OK);
    pgw_stop_notify(stop);
    finish_reaper();
    TEST_ASSERT_EQUAL_STRING("{\"frame\": 1200}", shown);
    TEST_ASSERT_EQUAL_STRING("1 failed out of disk; ", attempts_of(id));
}

void test_so_it_is_without_threads(void)
{
    const int64_t id = only_job();

    set("worker.concurrency", "0");
    TEST_ASSERT_EQUAL_INT64(2, run(resumes, PGW_OK).claimed);
    TEST_ASSERT_EQUAL_STRING("done", state_of(id));
    TEST_ASSERT_EQUAL_STRING("{\"frame\": 1200}", shown);
}

static pgw_status said[4];

static pgw_verdict reports_nonsense(pgw_task *task, void *arg)
{
    (void)arg;
    said[0] = pgw_task_progress(task, NULL);
    said[1] = pgw_task_progress(task, "{");
    said[2] = pgw_task_progress(task, "1e999999"); /* JSON, but no number of the server's */
    said[3] = pgw_task_progress(task, "1e999999");
    pgw_task_set_delay(task, 0);
    return pgw_job_attempt(pgw_task_job(task)) == 1 ? PGW_VERDICT_RETRY : PGW_VERDICT_DONE;
}

void test_nonsense_is_refused_and_costs_no_job(void)
{
    const int64_t id = only_job();

    set("worker.concurrency", "0");
    run(reports_nonsense, PGW_OK);
    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, said[0]);
    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, said[1]);
    TEST_ASSERT_EQUAL_STRING("done", state_of(id));
    TEST_ASSERT_EQUAL_STRING("", progress_of(id));
}

static pgw_verdict says_nothing(pgw_task *task, void *arg)
{
    (void)task, (void)arg;
    return PGW_VERDICT_DONE;
}

void test_a_job_that_never_reports_leaves_nothing(void)
{
    enqueue(10);
    run(says_nothing, PGW_OK);
    TEST_ASSERT_EQUAL_INT64(
        0, pgtemp_number("SELECT count(*) FROM pgwork.job_history h JOIN pgwork.queue q ON q.id = "
                         "h.queue WHERE q.name = (SELECT name FROM pgwork.queue ORDER BY id DESC "
                         "LIMIT 1)"));
}
