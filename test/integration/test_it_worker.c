/* The worker with a real server, real processes and real deaths; see the audit of workerkit.h.
 * Children are forked before they open anything, and end by _exit. Longer than 600 lines: all tests
 * start the same worker, and each program costs a build and a migration. */
#include "unity.h"
#include "pgw_all.h"
#include "childkit.h"
#include "pgtemp.h"
#include "wire.h"
#include "workerkit.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static int talk[2]; /* what a child has to say */

void setUp(void)
{
    worker_begin();
    TEST_ASSERT_EQUAL_INT(0, pipe(talk));
}

void tearDown(void)
{
    close(talk[0]);
    close(talk[1]);
    worker_end();
}

/* ---- tools ---- */

/* As if their time was up: whoever had these leases is dead. */
static void end_leases(void)
{
    pgtemp_exec("UPDATE pgwork.live_job SET lease_until = '-infinity' WHERE token IS NOT NULL");
}

/* Reaps until a job is in the state, or fails. */
static void reap_until(int64_t id, const char *state)
{
    int i;

    for (i = 0; i < PATIENCE_MS / 20; i++) {
        const char *now = state_of(id);

        if (now != NULL && strcmp(now, state) == 0) return;
        must(pgw_reaper_tick(h, NULL, NULL));
        nap(20);
    }
    TEST_FAIL_MESSAGE(state);
}

static pid_t worker_process(pgw_handler_fn *fn)
{
    pid_t pid;

    pid = forked();
    if (pid == 0) {
        pgw_worker_stats s = PGW_WORKER_STATS_INIT;
        pgw_worker *w;

        if (pgw_worker_new(conf,
                           &(pgw_worker_spec){sizeof(pgw_worker_spec), queues, 1, fn, NULL, NULL},
                           &w) != PGW_OK)
            _exit(2);
        if (pgw_worker_run(w, stop) < 0) _exit(3);
        pgw_worker_get_stats(w, &s);
        if (write(talk[1], &s, sizeof(s)) < 0) _exit(4);
        _exit(0);
    }
    return pid;
}

static void say(char c)
{
    if (write(talk[1], &c, 1) < 0) _exit(5);
}

static void hear_bytes(void *p, size_t n)
{
    char *to = p;

    while (n > 0) {
        struct pollfd fd = {talk[0], POLLIN, 0};
        ssize_t got;

        TEST_ASSERT_EQUAL_INT_MESSAGE(1, poll(&fd, 1, PATIENCE_MS), "the child says nothing");
        got = read(talk[0], to, n);
        TEST_ASSERT_TRUE(got > 0);
        to += got;
        n -= (size_t)got;
    }
}

static char hear(void)
{
    char c;

    hear_bytes(&c, 1);
    return c;
}

static int end_of(pid_t pid)
{
    int status = -1, i;

    for (i = 0; i < PATIENCE_MS; i++) {
        if (waitpid(pid, &status, WNOHANG) == pid) return status;
        nap(1);
    }
    kill(pid, SIGKILL);
    TEST_FAIL_MESSAGE("the child does not end");
    return status;
}

static pgw_verdict for_ever(pgw_task *task, void *arg)
{
    (void)task, (void)arg;
    say('r');
    for (;;) nap(1000);
}

/* ---- several queues ---- */

static const char *const fairly[] = {"old", "urgent", "late"};
static int turns[64]; /* which of them the jobs came from */

static pgw_verdict take_turn(pgw_task *task, void *arg)
{
    const char *from = pgw_job_queue(pgw_task_job(task));
    int q = 0;

    (void)arg;
    while (strcmp(fairly[q], from) != 0) q++;
    turns[atomic_fetch_add(&called, 1)] = q;
    return PGW_VERDICT_DONE;
}

/* One job after the other, so that each is a claim. */
static void run_three_queues(void)
{
    pgw_worker_spec spec = PGW_WORKER_SPEC_INIT;
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_worker *w;

    for (int q = 0; q < 3; q++) {
        job.priority = q == 2 ? 5 : q == 1 ? 0 : 1;
        for (int i = 0; i < (q == 0 ? 40 : 4); i++) must(pgw_enqueue(h, fairly[q], &job, NULL));
    }
    set("worker.concurrency", "1");
    set("worker.prefetch", "0");
    spec.queues = fairly, spec.queues_count = 3, spec.handler = take_turn;
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_worker_new(conf, &spec, &w));
    if (pgw_worker_run(w, stop) != PGW_OK) TEST_FAIL_MESSAGE(pgw_worker_error(w));
    pgw_worker_free(w);
    TEST_ASSERT_EQUAL_INT(48, atomic_load(&called));
}

void test_the_queues_of_a_fair_worker_take_turns_whatever_waits_in_them(void)
{
    set("worker.fair", "on");
    run_three_queues();
    for (int i = 0; i < 12; i++) TEST_ASSERT_EQUAL_INT((turns[0] + i) % 3, turns[i]);
    for (int i = 12; i < 48; i++) TEST_ASSERT_EQUAL_INT(0, turns[i]);
}

void test_without_fairness_the_most_urgent_job_comes_first_then_the_oldest(void)
{
    run_three_queues();
    for (int i = 0; i < 48; i++) TEST_ASSERT_EQUAL_INT(i < 4 ? 1 : i < 44 ? 0 : 2, turns[i]);
}

/* ---- every job once ---- */

void test_threads_do_ten_thousand_jobs_once_each(void)
{
    pgw_worker_stats s;

    enqueue(10000);
    set("worker.prefetch", "500");
    s = run(noop, PGW_OK);
    TEST_ASSERT_EQUAL_INT(10000, atomic_load(&called));
    TEST_ASSERT_EQUAL_INT64(10000, s.completed);
    TEST_ASSERT_EQUAL_INT64(0, s.refused + s.lost + s.released + s.failed);
    all_done_once(10000);
}

void test_the_calling_thread_runs_handlers_without_threads(void)
{
    pgw_worker_stats s;

    enqueue(5000);
    set("worker.concurrency", "0");
    set("worker.prefetch", "500");
    s = run(noop, PGW_OK);
    TEST_ASSERT_EQUAL_INT64(5000, s.completed);
    all_done_once(5000);
}

/* What it writes and the end of its job are one transaction; the first one loses its lease in
 * between. */
static pgw_verdict book(pgw_task *task, void *arg)
{
    pgw_ref ref = pgw_job_ref(pgw_task_job(task));
    char sql[200];
    pgw *mine;
    pgw_status st;

    (void)arg;
    if (atomic_fetch_add(&called, 1) == 0) {
        pgtemp_exec("UPDATE pgwork.live_job SET lease_until = '-infinity' WHERE token IS NOT NULL");
        snprintf(sql, sizeof(sql), "SELECT returned FROM pgwork.reap('%s')", queue);
        TEST_ASSERT_EQUAL_INT64(1, pgtemp_number(sql));
    }
    pgtemp_exec("BEGIN");
    snprintf(sql, sizeof(sql), "INSERT INTO ledger VALUES (%lld)", (long long)ref.id);
    pgtemp_exec(sql);
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_attach(pgtemp_conn(), NULL, &mine));
    st = pgw_complete(mine, queue, &ref, 1, NULL);
    pgw_close(mine);
    pgtemp_exec(st == PGW_OK ? "COMMIT" : "ROLLBACK");
    return st == PGW_OK ? PGW_VERDICT_SETTLED : PGW_VERDICT_RETRY;
}

void test_a_handler_settles_its_jobs_in_transactions_of_its_own(void)
{
    pgw_worker_stats s;

    pgtemp_exec("CREATE TABLE ledger (id bigint)");
    enqueue(5);
    set("worker.concurrency", "0");
    set("worker.prefetch", "1");
    s = run(book, PGW_OK);
    TEST_ASSERT_EQUAL_INT(6, atomic_load(&called));
    TEST_ASSERT_EQUAL_INT64(5, s.settled);
    TEST_ASSERT_EQUAL_INT64(1, s.refused);
    TEST_ASSERT_EQUAL_INT64(0, s.completed + s.failed + s.lost);
    TEST_ASSERT_EQUAL_STRING(
        "5 5", pgtemp_value("SELECT concat_ws(' ', count(*), count(DISTINCT id)) FROM ledger"));
    all_done_once(5);
}

void test_finished_jobs_of_a_queue_without_retention_leave_nothing_behind(void)
{
    pgw_queue_opts o = PGW_QUEUE_OPTS_INIT;
    pgw_worker_stats s;
    char sql[200];

    o.retention_ms = 0;
    must(pgw_queue_set(h, queue, &o));
    enqueue(5000);
    set("worker.prefetch", "200");
    set("worker.flush_ms", "10000");
    set("worker.lease_ms", "60000");
    s = run(noop, PGW_OK);
    TEST_ASSERT_EQUAL_INT64(5000, s.completed);
    TEST_ASSERT_EQUAL_INT64(0, s.refused + s.lost + s.released + s.failed);
    snprintf(sql, sizeof(sql), "SELECT count(*) FROM pgwork.job WHERE queue = '%s'", queue);
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number(sql));
}

/* A verdict for each; who gets none is done. */
static void judge(pgw_task *const *tasks, size_t n, void *arg)
{
    static const pgw_verdict verdicts[] = {PGW_VERDICT_DEAD, PGW_VERDICT_RETRY, PGW_VERDICT_SNOOZE};
    size_t i;

    for (i = 0; i < n; i++) {
        pgw_task_set_error(tasks[i], "judged");
        pgw_task_set_delay(tasks[i], 3600000);
        if (i > 0) pgw_task_set_verdict(tasks[i], verdicts[i - 1]);
    }
    atomic_fetch_add(&called, (int)n);
    atomic_fetch_add(&seen, 1);
}

void test_a_batch_handler_judges_each_job_alone(void)
{
    pgw_worker *w;

    enqueue(4);
    set("worker.concurrency", "1");
    set("worker.prefetch", "4");
    set("worker.batch", "4");
    TEST_ASSERT_EQUAL_INT(
        PGW_OK,
        pgw_worker_new(
            conf, &(pgw_worker_spec){sizeof(pgw_worker_spec), queues, 1, NULL, judge, NULL}, &w));
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_worker_run(w, stop));
    pgw_worker_free(w);
    TEST_ASSERT_EQUAL_INT(1, atomic_load(&seen));
    TEST_ASSERT_EQUAL_INT(4, atomic_load(&called));
    TEST_ASSERT_EQUAL_INT64(1, jobs_in("done"));
    TEST_ASSERT_EQUAL_INT64(1, jobs_in("dead"));
    TEST_ASSERT_EQUAL_INT64(2, jobs_in("delayed"));
    TEST_ASSERT_EQUAL_INT64(
        1,
        pgtemp_number("SELECT count(*) FROM pgwork.job WHERE error = 'judged' AND state = 'dead'"));
    /* the retry has used an attempt, the snooze has not */
    TEST_ASSERT_EQUAL_INT64(
        1, pgtemp_number("SELECT sum(attempt) FROM pgwork.job WHERE state = 'delayed'"));
}

void test_several_processes_share_the_work(void)
{
    pgw_worker_stats s;
    int64_t sum = 0;
    pid_t pid[3];
    int i;

    enqueue(3000);
    set("worker.prefetch", "20");
    for (i = 0; i < 3; i++) pid[i] = worker_process(noop);
    for (i = 0; i < 3; i++) {
        hear_bytes(&s, sizeof(s));
        sum += s.completed;
        TEST_ASSERT_EQUAL_INT(0, end_of(pid[i]));
    }
    TEST_ASSERT_EQUAL_INT64(3000, sum);
    all_done_once(3000);
}

/* ---- who sleeps ---- */

void test_a_waiting_worker_is_woken_up(void)
{
    int i;

    set("worker.until_empty", "off");
    set("poll.max_ms", "3600000"); /* no poll within the test: a notification must come */
    start(noop);
    await_registered();
    nap(50); /* the claim after the registration */
    for (i = 1; i <= 20; i++) {
        only_job();
        await(&called, i);
    }
    pgw_stop_notify(stop);
    TEST_ASSERT_EQUAL_INT64(20, finish(PGW_OK).completed);
    all_done_once(20);
}

/* The producer saw no waiter, and the claim after the registration did not see the job. */
void test_a_job_enqueued_before_and_committed_after_the_registration_is_found(void)
{
    PGconn *open = pgtemp_connect();
    char sql[100];

    set("worker.until_empty", "off");
    set("poll.max_ms", "3600000");
    snprintf(sql, sizeof(sql), "BEGIN; SELECT pgwork.enqueue('%s')", queue);
    PQclear(PQexec(open, sql));
    start(noop);
    await_registered();
    nap(50);
    TEST_ASSERT_EQUAL(PQTRANS_INTRANS, PQtransactionStatus(open));
    PQclear(PQexec(open, "COMMIT"));
    PQfinish(open);
    await(&called, 1);
    pgw_stop_notify(stop);
    TEST_ASSERT_EQUAL_INT64(1, finish(PGW_OK).completed);
}

void test_a_waiter_that_lost_its_session_registers_again_in_another(void)
{
    set("worker.until_empty", "off");
    set("poll.max_ms", "3600000");
    set("application_name", "waiter");
    start(noop);
    await_registered();
    nap(50);
    pgtemp_exec("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE "
                "application_name = 'waiter'");
    await_registered();
    await_reconnects(2); /* the session that extends leases, too */
    nap(50);
    only_job();
    await(&called, 1);
    pgw_stop_notify(stop);
    finish(PGW_OK);
}

static void hear_absent(pgw_log_level level, const char *component, const char *message, void *arg)
{
    char expected[100];

    (void)arg;
    snprintf(expected, sizeof(expected), "there is no queue \"%s\" yet", queue);
    if (level == PGW_LOG_WARN && strcmp(component, "worker") == 0 &&
        strstr(message, expected) != NULL)
        atomic_fetch_add(&seen, 1);
}

/* A worker on a queue that is not there, and has said so. */
static void start_astray(void)
{
    must(pgw_queue_drop(h, queue, false));
    pgw_conf_set_log(conf, PGW_LOG_WARN, hear_absent, NULL);
    set("worker.until_empty", "off");
    start(noop);
    await(&seen, 1);
}

void test_a_worker_that_only_polls_reports_a_missing_queue_once(void)
{
    set("notify", "off");
    set("poll.min_ms", "5");
    set("poll.max_ms", "20");
    start_astray();
    only_job();
    await(&called, 1);
    nap(100); /* in which it finds nothing, again and again */
    pgw_stop_notify(stop);
    finish(PGW_OK);
    TEST_ASSERT_EQUAL_INT(1, atomic_load(&seen));
}

void test_a_queue_younger_than_the_worker_is_warned_about_once_and_wakes_it(void)
{
    set("poll.max_ms", "50");
    start_astray(); /* registered before the queue exists */
    only_job();
    await(&called, 1);
    /* a drop before would take its result along */
    for (int i = 0; i < PATIENCE_MS / 10 && jobs_in("leased") > 0; i++) nap(10);
    await_registered();
    must(pgw_queue_drop(h, queue, true));
    only_job();
    await(&called, 2); /* by polling; then it registers again */
    await_registered();
    pgw_stop_notify(stop);
    TEST_ASSERT_EQUAL_INT64(2, finish(PGW_OK).completed);
    TEST_ASSERT_EQUAL_INT(1, atomic_load(&seen));
}

void test_a_queue_that_was_dropped_and_created_again_wakes_it_too(void)
{
    set("worker.until_empty", "off");
    set("poll.max_ms", "3600000"); /* only a notification can wake it in time */
    start(noop);
    only_job();
    await(&called, 1);
    await_registered();
    must(pgw_queue_drop(h, queue, true));
    must(pgw_queue_create(h, queue, NULL));
    only_job();
    await(&called, 2);
    pgw_stop_notify(stop);
    finish(PGW_OK);
}

/* Who claims nothing more is not to be called in the place of others. */
void test_a_stopping_worker_unregisters_though_a_job_still_runs(void)
{
    set("worker.until_empty", "off");
    set("poll.max_ms", "3600000");
    set("worker.concurrency", "1");
    set("worker.prefetch", "2");
    start(until_signalled);
    await_registered();
    only_job();
    await(&called, 1);
    await_registered();
    pgw_stop_notify(stop);
    await_registration(false);
    TEST_ASSERT_EQUAL_INT64(1, jobs_in("leased"));
    pgw_stop_notify(stop);
    finish(PGW_OK);
}

void test_a_worker_with_enough_prefetched_jobs_unregisters(void)
{
    set("worker.until_empty", "off");
    set("poll.max_ms", "3600000");
    set("worker.concurrency", "1");
    set("worker.prefetch", "4");
    start(until_signalled);
    await_registered();
    for (int i = 1; i <= 4; i++) {
        await_registered();
        only_job();
        await_jobs("leased", i);
    }
    await_registration(false);
    pgw_stop_notify(stop);
    pgw_stop_notify(stop);
    finish(PGW_OK);
}

/* ---- rows that somebody has locked ---- */

static PGconn *locker;

/* The first one's row is locked by somebody else. */
static void lock_first(pgw_task *task)
{
    char sql[200];

    if (atomic_load(&called) == 0) {
        snprintf(sql, sizeof(sql), "BEGIN; SELECT FROM pgwork.live_job WHERE pos = %lld FOR UPDATE",
                 (long long)pgw_job_id(pgw_task_job(task)));
        PQclear(PQexec(locker, sql));
    }
    atomic_fetch_add(&called, 1); /* from now on the test has the connection */
}

static pgw_verdict locked_and_done(pgw_task *task, void *arg)
{
    (void)arg;
    lock_first(task);
    return PGW_VERDICT_DONE;
}

static pgw_verdict locked_and_released(pgw_task *task, void *arg)
{
    (void)arg;
    lock_first(task);
    return atomic_load(&called) == 1 ? PGW_VERDICT_RELEASE : PGW_VERDICT_DONE;
}

/* It has to be seen that it is a lock, before the call is over. */
void test_other_results_are_sent_beside_a_locked_one_however_short_calls_are(void)
{
    locker = pgtemp_connect();
    for (int i = 0; i < 5; i++) only_job(); /* jobs of one call would share a row */
    set("call.timeout_ms", "1500");
    set("worker.concurrency", "0");
    set("worker.lease_ms", "60000");
    set("worker.prefetch", "5");
    start(locked_and_done);
    await(&called, 5);
    TEST_ASSERT_EQUAL(PQTRANS_INTRANS, PQtransactionStatus(locker));
    await_jobs("done", 4);
    PQclear(PQexec(locker, "ROLLBACK"));
    TEST_ASSERT_EQUAL_INT64(5, finish(PGW_OK).completed);
    PQfinish(locker);
}

void test_a_worker_until_empty_claims_again_when_a_job_is_requeued_late(void)
{
    locker = pgtemp_connect();
    only_job();
    set("worker.concurrency", "0");
    set("worker.lease_ms", "60000");
    start(locked_and_released);
    await(&called, 1);
    TEST_ASSERT_EQUAL(PQTRANS_INTRANS, PQtransactionStatus(locker));
    nap(2500); /* it has looked for others, and found none */
    PQclear(PQexec(locker, "ROLLBACK"));
    TEST_ASSERT_EQUAL_INT64(1, finish(PGW_OK).completed);
    PQfinish(locker);
}

/* ---- deaths ---- */

void test_the_jobs_of_a_killed_worker_are_done_by_another(void)
{
    pgw_worker_stats s;
    pid_t pid;
    int i;

    enqueue(10);
    set("worker.concurrency", "2");
    set("worker.prefetch", "4");
    pid = worker_process(for_ever);
    hear();
    hear(); /* both hands are busy */
    await_jobs("leased", 6);
    kill(pid, SIGKILL);
    end_of(pid);
    end_leases();
    for (i = 0; i < PATIENCE_MS / 20 && jobs_in("ready") < 10; i++) {
        must(pgw_reaper_tick(h, NULL, NULL));
        nap(20);
    }
    TEST_ASSERT_EQUAL_INT64(10, jobs_in("ready"));
    s = run(noop, PGW_OK);
    TEST_ASSERT_EQUAL_INT64(10, s.completed);
    all_done_once(10);
    {
        char sql[200];

        snprintf(sql, sizeof(sql),
                 "SELECT count(*) FROM pgwork.job WHERE queue = '%s' AND attempt = 2", queue);
        TEST_ASSERT_EQUAL_INT64(6, pgtemp_number(sql));
    }
}

static pgw_verdict kill_myself(pgw_task *task, void *arg)
{
    const char *kind = pgw_job_kind(pgw_task_job(task));

    (void)arg;
    if (strcmp(kind, "poison") == 0) kill(getpid(), SIGKILL);
    return PGW_VERDICT_DONE;
}

void test_a_job_that_kills_its_workers_is_dead_after_its_attempts(void)
{
    pgw_job_spec poison = PGW_JOB_SPEC_INIT;
    int64_t id;
    int killed = 0, i;

    enqueue(20);
    poison.kind = "poison";
    must(pgw_enqueue(h, queue, &poison, &id));
    enqueue(20);
    for (i = 0; i < 50 && (state_of(id) == NULL || strcmp(state_of(id), "dead") != 0); i++) {
        const pid_t pid = worker_process(kill_myself);
        const int status = end_of(pid);

        if (WIFSIGNALED(status))
            killed++;
        else
            TEST_ASSERT_EQUAL_INT(0, WEXITSTATUS(status));
        end_leases();
        for (int k = 0; k < PATIENCE_MS / 20 && jobs_in("leased") > 0; k++) {
            must(pgw_reaper_tick(h, NULL, NULL));
            nap(20);
        }
        TEST_ASSERT_EQUAL_INT64(0, jobs_in("leased"));
    }
    TEST_ASSERT_EQUAL_STRING("dead", state_of(id));
    TEST_ASSERT_EQUAL_INT64(3, of_job(id, "attempt"));
    TEST_ASSERT_EQUAL_INT(3, killed);
    run(noop, PGW_OK);
    TEST_ASSERT_EQUAL_INT64(40, jobs_in("done"));
}

/* Asks the moment it runs again, before anything else in the process had a chance. */
static pgw_verdict frozen(pgw_task *task, void *arg)
{
    int i;

    (void)arg;
    say('r');
    for (i = 0; i < PATIENCE_MS && pgw_task_signals(task) == 0; i++) nap(1);
    say(pgw_task_signals(task) == PGW_SIGNAL_LOST ? 'L' : '?');
    return PGW_VERDICT_DONE;
}

void test_a_worker_that_was_frozen_past_its_lease_is_refused(void)
{
    const int64_t id = only_job();
    pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;
    pgw_worker_stats s;
    pgw_batch *b = NULL;
    pgw_ref ref;
    pid_t pid;

    set("worker.lease_ms", "2000"); /* no longer than needed, but a stall is not to end it */
    pid = worker_process(frozen);
    TEST_ASSERT_EQUAL_INT('r', hear());
    kill(pid, SIGSTOP);
    reap_until(id, "ready");
    o.queues = queues, o.queues_count = 1, o.lease_ms = 60000;
    must(pgw_claim(h, &o, &b));
    ref = pgw_job_ref(pgw_batch_job(b, 0));
    TEST_ASSERT_EQUAL_INT(2, pgw_job_attempt(pgw_batch_job(b, 0)));
    kill(pid, SIGCONT);
    TEST_ASSERT_EQUAL_INT('L', hear());
    hear_bytes(&s, sizeof(s));
    TEST_ASSERT_EQUAL_INT(0, end_of(pid));
    TEST_ASSERT_EQUAL_INT64(1, s.refused);
    TEST_ASSERT_EQUAL_INT64(1, s.lost);
    TEST_ASSERT_EQUAL_INT64(0, s.completed);
    must(pgw_complete(h, queue, &ref, 1, NULL));
    pgw_batch_free(b);
    all_done_once(1);
}

/* ---- signals ---- */

void test_a_long_job_keeps_its_lease_beside_a_reaper(void)
{
    const int64_t id = only_job();
    pgw_worker_stats s;
    int i;

    set("worker.lease_ms", "5000");
    start(until_signalled);
    await(&called, 1);
    for (i = 0; i < 400; i++) { /* longer than a lease */
        must(pgw_reaper_tick(h, NULL, NULL));
        nap(20);
    }
    TEST_ASSERT_EQUAL_STRING("leased", state_of(id));
    pgw_stop_notify(stop);
    pgw_stop_notify(stop);
    s = finish(PGW_OK);
    TEST_ASSERT_EQUAL_INT(PGW_SIGNAL_STOPPING, atomic_load(&seen));
    TEST_ASSERT_EQUAL_INT64(1, s.failed);
    TEST_ASSERT_EQUAL_INT64(0, s.lost);
}

static pgw_verdict in_a_thousand_years(pgw_task *task, void *arg)
{
    (void)arg;
    pgw_task_set_delay(task, INT64_MAX);
    return PGW_VERDICT_SNOOZE;
}

void test_the_longest_snooze_is_ten_years(void)
{
    const int64_t id = only_job();

    set("worker.max_jobs", "1");
    TEST_ASSERT_EQUAL_INT64(1, run(in_a_thousand_years, PGW_OK).snoozed);
    TEST_ASSERT_EQUAL_STRING("delayed", state_of(id));
    TEST_ASSERT_GREATER_THAN_INT64(9 * 365,
                                   of_job(id, "extract(day FROM run_at - clock_timestamp())"));
}

/* An operator requeues the job of the first one, and it is claimed again. */
static pgw_verdict requeued_by_an_operator(pgw_task *task, void *arg)
{
    pgw_ref ref = pgw_job_ref(pgw_task_job(task));
    struct pollfd fd = {pgw_task_fd(task), POLLIN, 0};
    const bool first = atomic_fetch_add(&called, 1) == 0;
    char token[PGW_TOKEN_TEXT_SIZE], sql[200];

    (void)arg;
    if (!first) {
        poll(&fd, 1, 5500); /* longer than a lease */
        atomic_fetch_or(&seen, pgw_task_signals(task) << 4);
        return PGW_VERDICT_DONE;
    }
    snprintf(sql, sizeof(sql), "SELECT pgwork.release('%s', '{%lld}', '{%s}')", queue,
             (long long)ref.id, pgw_token_format(ref.token, token));
    PQclear(PQexec(pgtemp_conn(), sql));
    has_come(&called, 2);
    poll(&fd, 1, PATIENCE_MS);
    atomic_fetch_or(&seen, pgw_task_signals(task));
    return PGW_VERDICT_DONE;
}

void test_a_handler_that_lost_its_job_to_its_own_worker_is_signalled(void)
{
    pgw_worker_stats s;

    only_job();
    set("worker.lease_ms", "5000");
    set("worker.max_jobs", "2");
    set("poll.max_ms", "20"); /* it comes again before a beat */
    s = run(requeued_by_an_operator, PGW_OK);
    TEST_ASSERT_EQUAL_INT(PGW_SIGNAL_LOST, atomic_load(&seen)); /* and nothing to the second one */
    TEST_ASSERT_EQUAL_INT64(1, s.completed);
    TEST_ASSERT_EQUAL_INT64(1, s.refused);
}

void test_a_cancel_reaches_a_running_handler(void)
{
    const int64_t id = only_job();
    pgw_ref ref = {.id = id};

    start(until_signalled);
    await(&called, 1);
    must(pgw_cancel(h, queue, &ref, 1));
    TEST_ASSERT_EQUAL_INT(PGW_OUTCOME_CANCEL, ref.outcome);
    TEST_ASSERT_EQUAL_INT64(1, finish(PGW_OK).failed);
    TEST_ASSERT_EQUAL_INT(PGW_SIGNAL_CANCELED, atomic_load(&seen));
    TEST_ASSERT_EQUAL_STRING("cancelled", state_of(id));
}

/* A lease of an hour is extended when 20 minutes are over. */
void test_a_cancel_is_noticed_at_once_however_long_the_lease(void)
{
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    int64_t id;

    job.lease_ms = 3600000;
    must(pgw_enqueue(h, queue, &job, &id));
    set("worker.until_empty", "off");
    start(until_signalled);
    await(&called, 1);
    must(pgw_cancel(h, queue, &(pgw_ref){.id = id}, 1));
    await(&seen, PGW_SIGNAL_CANCELED);
    pgw_stop_notify(stop);
    finish(PGW_OK);
    TEST_ASSERT_EQUAL_INT(PGW_SIGNAL_CANCELED, atomic_load(&seen));
}

void test_a_cancel_of_a_prefetched_job_ends_it_unseen(void)
{
    const int64_t running = only_job(), waiting = only_job();

    set("worker.lease_ms", "6000");
    set("worker.concurrency", "1");
    start(until_signalled);
    await(&called, 1);
    must(pgw_cancel(h, queue, &(pgw_ref){.id = waiting}, 1));
    await_heartbeats(running, 2); /* the second one begins when the first is read */
    must(pgw_cancel(h, queue, &(pgw_ref){.id = running}, 1));
    finish(PGW_OK);
    TEST_ASSERT_EQUAL_INT(1, atomic_load(&called));
    TEST_ASSERT_EQUAL_STRING("cancelled", state_of(waiting));
}

void test_a_timeout_is_reported(void)
{
    const int64_t id = only_job();

    set("worker.job_timeout_ms", "100");
    set("worker.max_jobs", "1");
    TEST_ASSERT_EQUAL_INT64(1, run(until_signalled, PGW_OK).failed);
    TEST_ASSERT_EQUAL_INT(PGW_SIGNAL_TIMEOUT, atomic_load(&seen));
    TEST_ASSERT_EQUAL_STRING("ready", state_of(id));
}

/* Until it is said that the reaper has taken the job. */
static pgw_verdict until_lost(pgw_task *task, void *arg)
{
    int i;

    (void)arg;
    atomic_fetch_add(&called, 1);
    for (i = 0; i < PATIENCE_MS && !(pgw_task_signals(task) & PGW_SIGNAL_LOST); i++) nap(1);
    has_come(&let_go, 1);
    return PGW_VERDICT_DONE;
}

void test_a_handler_that_ignores_the_timeout_loses_its_job(void)
{
    const int64_t id = only_job();
    pgw_worker_stats s;

    short_leases();
    set("worker.job_timeout_ms", "100");
    set("worker.stop_ms", "100");
    set("worker.max_jobs", "1");
    atomic_store(&let_go, 0);
    start_reaper();
    start(until_lost);
    await(&called, 1);
    await_jobs("ready", 1);
    atomic_store(&let_go, 1);
    s = finish(PGW_OK);
    pgw_stop_notify(stop);
    finish_reaper();
    TEST_ASSERT_EQUAL_INT64(1, s.lost);
    TEST_ASSERT_EQUAL_INT64(1, s.refused);
    TEST_ASSERT_EQUAL_STRING("ready", state_of(id));
}

/* ---- stopping ---- */

void test_a_graceful_stop_requeues_unstarted_jobs(void)
{
    pgw_worker_stats s;
    char sql[200];

    enqueue(50);
    set("worker.concurrency", "2");
    set("worker.prefetch", "10");
    set("worker.lease_ms", "5000");
    start(until_signalled);
    await(&called, 2);
    pgw_stop_notify(stop);
    await_jobs("ready", 48);
    nap(5500); /* longer than the lease: those that run keep it */
    TEST_ASSERT_EQUAL_INT64(48, jobs_in("ready"));
    TEST_ASSERT_EQUAL_INT64(2, jobs_in("leased"));
    snprintf(sql, sizeof(sql),
             "SELECT max(attempt) FROM pgwork.job WHERE queue = '%s' AND state = 'ready'", queue);
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number(sql));
    pgw_stop_notify(stop);
    s = finish(PGW_OK);
    TEST_ASSERT_GREATER_THAN_INT64(0, s.released);
    TEST_ASSERT_EQUAL_INT64(s.claimed, s.released + s.failed);
    TEST_ASSERT_EQUAL_INT64(50, jobs_in("ready"));
}

/* Nobody answers, and to connect may take an hour. */
void test_the_second_stop_is_heard_while_it_connects(void)
{
    wire *wire = wire_open();
    pgw_worker_stats s;

    only_job();
    set("dsn", wire_dsn(wire));
    set("connect.timeout_ms", "3600000");
    set("reconnect.base_ms", "500");
    set("reconnect.cap_ms", "500");
    set("worker.lease_ms", "60000");
    set("worker.stop_ms", "1000");
    set("application_name", "cut off");
    start(until_signalled);
    await(&called, 1);
    pgtemp_exec("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE "
                "application_name = 'cut off'");
    nap(100); /* it hears of that, and waits a little */
    wire_freeze(wire, true);
    pgw_stop_notify(stop);
    nap(1500); /* it connects by now */
    TEST_ASSERT_EQUAL_INT(0, atomic_load(&seen));
    pgw_stop_notify(stop);
    await(&seen, PGW_SIGNAL_STOPPING);
    s = finish(PGW_OK);
    TEST_ASSERT_EQUAL_INT64(1, s.lost);
    wire_close(wire);
}

void test_after_the_second_stop_it_waits_no_longer(void)
{
    const int64_t id = only_job();

    atomic_store(&let_go, 0);
    set("worker.stop_ms", "50");
    start(until_let_go);
    await(&called, 1);
    pgw_stop_notify(stop);
    pgw_stop_notify(stop);
    finish(PGW_ETIMEDOUT);
    TEST_ASSERT_EQUAL_STRING("leased", state_of(id));
    reap_until(id, "ready"); /* nobody extends it any more */
    atomic_store(&let_go, 1);
    nap(100);
}
