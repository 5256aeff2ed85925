/* Faults around a worker: locked rows, triggers that raise errors, a full disk, no second
 * connection, a server that is read-only or closes connections. The worker does all other jobs
 * meanwhile, each once. */
#include "unity.h"
#include "pgw_all.h"
#include "pgtemp.h"
#include "workerkit.h"

static atomic_int tries, misled;

void setUp(void)
{
    worker_begin();
}

void tearDown(void)
{
    worker_end();
}

/* ---- the connection that extends leases ---- */

/* Of a worker's two sessions the one that extends leases is the younger. */
static void end_heartbeat_session(const char *application_name)
{
    char sql[300];

    snprintf(sql, sizeof(sql),
             "SELECT count(pg_terminate_backend(pid, 10000)) FROM (SELECT pid FROM "
             "pg_stat_activity WHERE application_name = '%s' ORDER BY backend_start DESC LIMIT 1) "
             "s",
             application_name);
    TEST_ASSERT_EQUAL_INT(1, pgtemp_number(sql));
}

/* Its session is older than the schema's new version, the heartbeat's next one is not: it must not
 * claim on, and lose all that outlasts a lease. */
void test_a_worker_whose_leases_cannot_be_extended_gives_up(void)
{
    set("worker.lease_ms", "3000");
    set("application_name", "migrated");
    only_job();
    start(until_signalled);
    await(&called, 1);
    pgtemp_exec("INSERT INTO pgwork.migration VALUES (999, 'later', '')");
    end_heartbeat_session("migrated");
    finish(PGW_ESCHEMA);
    /* and says what to do about it */
    TEST_ASSERT_NOT_NULL_MESSAGE(strstr(last_words, "999, this library"), last_words);
    TEST_ASSERT_NOT_NULL_MESSAGE(strstr(last_words, "install a newer"), last_words);
    pgtemp_exec("DELETE FROM pgwork.migration WHERE number = 999");
    TEST_ASSERT_EQUAL_INT(1, atomic_load(&called));
    TEST_ASSERT_TRUE(atomic_load(&seen) & PGW_SIGNAL_LOST);
}

static void hear_refused_login(pgw_log_level level, const char *component, const char *message,
                               void *arg)
{
    (void)arg, (void)level, (void)component;
    if (strstr(message, "53300") != NULL) atomic_fetch_add(&seen, 1);
}

static atomic_int warnings, attempts;

static void hear_warnings(pgw_log_level level, const char *component, const char *message,
                          void *arg)
{
    (void)arg, (void)component;
    if (strstr(message, "/nowhere") == NULL) return;
    if (level <= PGW_LOG_WARN) atomic_fetch_add(&warnings, 1);
    if (strstr(message, "next try in") != NULL) atomic_fetch_add(&attempts, 1);
}

void test_a_server_that_stays_away_is_logged_once_with_the_reason(void)
{
    set("dsn", "host=/nowhere port=1");
    set("worker.until_empty", "off");
    set("reconnect.base_ms", "1");
    set("reconnect.cap_ms", "20");
    atomic_store(&warnings, 0);
    atomic_store(&attempts, 0);
    pgw_conf_set_log(conf, PGW_LOG_DEBUG, hear_warnings, NULL);
    start(noop);
    await(&attempts, 20);
    pgw_stop_notify(stop);
    finish(PGW_OK);
    TEST_ASSERT_EQUAL_INT(1, atomic_load(&warnings));
}

static atomic_int failures;

static void hear_failures(pgw_log_level level, const char *component, const char *message,
                          void *arg)
{
    (void)arg;
    if (level == PGW_LOG_INFO && strcmp(component, "worker") == 0 &&
        strstr(message, "out of paper") && strstr(message, "attempt 1 of 1"))
        atomic_fetch_add(&failures, 1);
}

static pgw_verdict out_of_paper(pgw_task *task, void *arg)
{
    (void)arg;
    pgw_task_set_error(task, "out of paper");
    return PGW_VERDICT_RETRY;
}

void test_a_failed_handler_is_logged_with_attempt_and_error_and_the_last_one_counts_as_dead(void)
{
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_worker_stats s;

    job.max_attempts = 1;
    must(pgw_enqueue(h, queue, &job, NULL));
    atomic_store(&failures, 0);
    pgw_conf_set_log(conf, PGW_LOG_INFO, hear_failures, NULL);
    start(out_of_paper);
    s = finish(PGW_OK);
    TEST_ASSERT_EQUAL_INT(1, atomic_load(&failures));
    TEST_ASSERT_EQUAL_INT64(1, s.dead);
    TEST_ASSERT_EQUAL_INT64(0, s.failed);
}

/* A worker with one connection could claim, and would lose what outlasts a lease. */
void test_no_job_is_claimed_without_the_connection_that_extends_leases(void)
{
    const int64_t id = only_job();
    char dsn[1200];

    pgtemp_exec("DROP ROLE IF EXISTS pgw_it_single; CREATE ROLE pgw_it_single LOGIN IN ROLE "
                "pgwork_worker CONNECTION LIMIT 1");
    snprintf(dsn, sizeof(dsn), "%s user=pgw_it_single", pgtemp_dsn());
    set("dsn", dsn);
    set("reconnect.base_ms", "1");
    set("reconnect.cap_ms", "50");
    pgw_conf_set_log(conf, PGW_LOG_DEBUG, hear_refused_login, NULL);
    start(noop);
    await(&seen, 3);
    TEST_ASSERT_EQUAL_STRING("ready", state_of(id));
    TEST_ASSERT_EQUAL_INT(0, of_job(id, "attempt"));
    pgtemp_exec("ALTER ROLE pgw_it_single CONNECTION LIMIT 2");
    TEST_ASSERT_EQUAL_INT64(1, finish(PGW_OK).completed);
    pgtemp_exec("DROP ROLE pgw_it_single");
}

/* A lease is not due for long, but when it is there may be no time to find a server. */
void test_the_connection_that_extends_leases_is_back_before_it_is_needed(void)
{
    char dsn[1200];
    int64_t second;

    only_job();
    pgtemp_exec("DROP ROLE IF EXISTS pgw_it_pair; CREATE ROLE pgw_it_pair LOGIN IN ROLE "
                "pgwork_worker CONNECTION LIMIT 2");
    snprintf(dsn, sizeof(dsn), "%s user=pgw_it_pair", pgtemp_dsn());
    set("dsn", dsn);
    set("application_name", "pair");
    set("worker.lease_ms", "3600000");
    set("poll.max_ms", "20");
    set("reconnect.base_ms", "1");
    set("reconnect.cap_ms", "50");
    pgw_conf_set_log(conf, PGW_LOG_DEBUG, hear_refused_login, NULL);
    atomic_store(&let_go, 0);
    start(until_let_go);
    await(&called, 1);
    pgtemp_exec("ALTER ROLE pgw_it_pair CONNECTION LIMIT 1");
    end_heartbeat_session("pair");
    await(&seen, 3); /* it asks again and again */
    nap(500);        /* a claim may have been about to go when it was lost */
    second = only_job();
    await(&seen, atomic_load(&seen) + 10); /* and claims nothing meanwhile */
    TEST_ASSERT_EQUAL_INT(1, atomic_load(&called));
    TEST_ASSERT_EQUAL_STRING("ready", state_of(second));
    TEST_ASSERT_EQUAL_INT(0, of_job(second, "attempt"));
    pgtemp_exec("ALTER ROLE pgw_it_pair CONNECTION LIMIT 2");
    await_reconnects(1);
    await(&called, 2);
    atomic_store(&let_go, 1);
    TEST_ASSERT_EQUAL_INT64(2, finish(PGW_OK).completed);
    pgtemp_exec("DROP ROLE pgw_it_pair");
}

/* ---- what the server refuses ---- */

/* The server refuses whatever does that to this job. */
static void deny(const char *what, const char *its_id, int64_t id, const char *sqlstate)
{
    char sql[600];

    snprintf(sql, sizeof(sql),
             "CREATE FUNCTION deny() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION "
             "''denied'' USING ERRCODE = ''%s''; END';"
             "CREATE TRIGGER deny BEFORE %s FOR EACH ROW WHEN (%s = %lld) EXECUTE FUNCTION deny()",
             sqlstate, what, its_id, (long long)id);
    pgtemp_exec(sql);
}

/* Somebody's trigger, or a damaged row: one report fails whenever it is sent. */
TEST_CASE("P0001")
TEST_CASE("22012") /* as if it were the argument's fault */
TEST_CASE("23505") /* or a key's */
TEST_CASE("42501") /* or the role's */
void test_a_report_that_always_fails_delays_no_other(const char *sqlstate)
{
    int64_t id;
    pgw_worker_stats s;

    enqueue(20);
    id = only_job();
    deny("INSERT ON pgwork.done_job", "NEW.id", id, sqlstate);
    set("reconnect.base_ms", "1");
    set("reconnect.cap_ms", "20");
    set("worker.prefetch", "50");
    s = run(noop, PGW_OK);
    pgtemp_exec("DROP FUNCTION deny() CASCADE");
    TEST_ASSERT_EQUAL_INT64(20, s.completed);
    TEST_ASSERT_EQUAL_INT64(20, jobs_in("done"));
    TEST_ASSERT_EQUAL_INT64(1, s.failed); /* told as a failure, it waits for its retry */
    TEST_ASSERT_EQUAL_STRING("delayed", state_of(id));
}

/* Nor does anything wait for it while the worker works on: a pause would be of a minute. */
void test_a_refused_report_costs_no_other_a_pause(void)
{
    pgw_worker_stats s;
    int i;

    enqueue(20);
    deny("INSERT ON pgwork.done_job", "NEW.id", only_job(), "P0001");
    set("worker.until_empty", "off");
    set("worker.prefetch", "50");
    set("worker.lease_ms", "60000");
    set("reconnect.base_ms", "60000");
    set("reconnect.cap_ms", "60000");
    start(noop);
    for (i = 0; i < PATIENCE_MS / 20 && jobs_in("done") < 20; i++) nap(10);
    only_job(); /* and the next claim goes on */
    for (; i < PATIENCE_MS / 20 && jobs_in("done") < 21; i++) nap(10);
    s.completed = jobs_in("done");
    pgtemp_exec("DROP FUNCTION deny() CASCADE");
    pgw_stop_notify(stop);
    TEST_ASSERT_EQUAL_INT64(21, s.completed);
    s = finish(PGW_OK);
    TEST_ASSERT_EQUAL_INT64(22, s.completed + s.failed);
}

static pgw_verdict when_told(pgw_task *task, void *arg)
{
    (void)task, (void)arg;
    atomic_fetch_add(&called, 1);
    has_come(&seen, 1);
    return PGW_VERDICT_DONE;
}

static void hear_next_try(pgw_log_level level, const char *component, const char *message,
                          void *arg)
{
    (void)arg, (void)level;
    if (strcmp(component, "worker") == 0 && strstr(message, "next try in") != NULL)
        atomic_fetch_add(&tries, 1);
    if (strstr(message, "pgwork migrate") != NULL) atomic_fetch_add(&misled, 1);
}

/* As with a full disk: a claim has to write more than a completion, and undoes it when they go
 * together. It is tried again, with pauses; also where somebody's trigger blames the arguments, or
 * misses a table of its own. */
TEST_CASE("53100")
TEST_CASE("22012")
TEST_CASE("42P01")
void test_completions_are_sent_although_claims_fail(const char *sqlstate)
{
    char sql[600];

    enqueue(50);
    set("worker.concurrency", "0");
    set("worker.prefetch", "25");
    set("reconnect.base_ms", "1");
    set("reconnect.cap_ms", "20");
    atomic_store(&tries, 0);
    pgw_conf_set_log(conf, PGW_LOG_DEBUG, hear_next_try, NULL);
    start(when_told);
    await(&called, 1);
    snprintf(sql, sizeof(sql),
             "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE "
             "EXCEPTION ''no space left'' USING ERRCODE = ''%s''; END';"
             "CREATE TRIGGER full_disk BEFORE INSERT ON pgwork.live_job FOR EACH ROW "
             "WHEN (NEW.token IS NOT NULL) EXECUTE FUNCTION full_disk();"
             "CREATE TRIGGER fuller_disk BEFORE UPDATE ON pgwork.live_job FOR EACH ROW "
             "WHEN (NEW.token <> coalesce(OLD.token, gen_random_uuid())) EXECUTE FUNCTION "
             "full_disk()",
             sqlstate);
    pgtemp_exec(sql);
    atomic_store(&seen, 1);
    await_jobs("done", 25);
    await(&tries, 3); /* the claim beside the results, and two alone */
    pgtemp_exec("DROP FUNCTION full_disk() CASCADE");
    TEST_ASSERT_EQUAL_INT64(50, finish(PGW_OK).completed);
    TEST_ASSERT_EQUAL_INT(0, atomic_load(&misled));
    all_done_once(50);
}

/* Somebody's trigger, or a damaged row. */
TEST_CASE("P0001")
TEST_CASE("22012")
TEST_CASE("42883")
void test_a_lease_that_cannot_be_extended_costs_no_other_job_its_own(const char *sqlstate)
{
    const int64_t bad = only_job(), good = only_job();
    pgw_worker_stats s;

    deny("UPDATE ON pgwork.live_job",
         "CASE WHEN OLD.token = NEW.token THEN coalesce(OLD.id, OLD.pos) END", bad, sqlstate);
    atomic_store(&let_go, 0);
    set("worker.lease_ms", "6000");
    start(until_let_go);
    await(&called, 2);
    s = (pgw_worker_stats)PGW_WORKER_STATS_INIT;
    for (int i = 0; i < PATIENCE_MS / 10 && s.lost == 0; i++, nap(10))
        pgw_worker_get_stats(worker_beside, &s);
    await_heartbeats(good, 1);
    atomic_store(&let_go, 1);
    s = finish(PGW_OK);
    pgtemp_exec("DROP FUNCTION deny() CASCADE");
    TEST_ASSERT_EQUAL_INT64(1, s.lost);
    TEST_ASSERT_EQUAL_STRING("done", state_of(good));
}

/* ---- rows that somebody has locked ---- */

/* An open transaction that has the rows of the n oldest jobs; the caller ends it. */
static PGconn *lock_first(int n)
{
    PGconn *other = pgtemp_connect();
    char sql[300];

    snprintf(sql, sizeof(sql),
             "BEGIN; SELECT FROM pgwork.live_job j JOIN pgwork.queue q ON q.id = j.queue WHERE "
             "q.name = '%s' ORDER BY coalesce(j.id, j.pos) LIMIT %d FOR UPDATE OF j",
             queue, n);
    PQclear(PQexec(other, sql));
    TEST_ASSERT_EQUAL(PQTRANS_INTRANS, PQtransactionStatus(other));
    return other;
}

/* An operator's open transaction has the rows of some: the others are told meanwhile, new ones
 * taken, and these are told when he is through. */
TEST_CASE(1, 1)
TEST_CASE(4, 1)
TEST_CASE(6, 4)
void test_jobs_whose_rows_are_locked_delay_no_others(int n, int locked)
{
    PGconn *other;
    int i;

    for (i = 0; i < n; i++) only_job();
    atomic_store(&let_go, 0);
    set("worker.until_empty", "off");
    set("worker.concurrency", "6");
    set("worker.prefetch", "6");
    start(until_let_go);
    await(&called, n);
    other = lock_first(locked);
    atomic_store(&let_go, 1);
    only_job();
    await_jobs("done", n - locked + 1);
    TEST_ASSERT_EQUAL_INT64(locked, jobs_in("leased"));
    TEST_ASSERT_EQUAL(PQTRANS_INTRANS, PQtransactionStatus(other));
    PQclear(PQexec(other, "ROLLBACK"));
    PQfinish(other);
    pgw_stop_notify(stop);
    TEST_ASSERT_EQUAL_INT64(n + 1, finish(PGW_OK).completed);
    all_done_once(n + 1);
}

/* Jobs of one claim lie in one row, so who has locked it holds all of them. */
void test_a_locked_row_of_many_jobs_holds_no_others_up(void)
{
    PGconn *other;

    enqueue(40);
    atomic_store(&let_go, 0);
    set("worker.until_empty", "off");
    set("worker.concurrency", "40");
    set("worker.prefetch", "40");
    start(until_let_go);
    await(&called, 40);
    other = lock_first(1);
    atomic_store(&let_go, 1);
    only_job();
    await_jobs("done", 1);
    TEST_ASSERT_EQUAL_INT64(40, jobs_in("leased"));
    PQclear(PQexec(other, "ROLLBACK"));
    PQfinish(other);
    pgw_stop_notify(stop);
    TEST_ASSERT_EQUAL_INT64(41, finish(PGW_OK).completed);
    all_done_once(41);
}

/* A producer that cancels jobs which run, and then stays in its transaction, holds up none of them.
 */
TEST_CASE(5)
TEST_CASE(40)
void test_an_open_cancel_holds_up_no_job(int n)
{
    PGconn *other = pgtemp_connect();
    char sql[200];

    enqueue(n);
    atomic_store(&let_go, 0);
    set("worker.concurrency", "40");
    start(until_let_go);
    await(&called, n);
    snprintf(sql, sizeof(sql),
             "BEGIN; SELECT pgwork.cancel(queue, array_agg(id)) FROM pgwork.job WHERE queue = '%s' "
             "GROUP BY queue",
             queue);
    PQclear(PQexec(other, sql));
    TEST_ASSERT_EQUAL(PQTRANS_INTRANS, PQtransactionStatus(other));
    atomic_store(&let_go, 1);
    TEST_ASSERT_EQUAL_INT64(n, finish(PGW_OK).completed);
    TEST_ASSERT_EQUAL(PQTRANS_INTRANS, PQtransactionStatus(other));
    PQclear(PQexec(other, "COMMIT"));
    PQfinish(other);
    all_done_once(n);
}

/* Nor does it stay for them when it is to end. */
TEST_CASE(1)
TEST_CASE(2)
void test_a_stop_does_not_wait_for_a_locked_row(int stops)
{
    PGconn *other;
    const int64_t locked = only_job();

    atomic_store(&let_go, 0);
    set("worker.until_empty", "off");
    set("worker.stop_ms", "500");
    set("worker.lease_ms", "6000");
    start(until_let_go);
    await(&called, 1);
    other = lock_first(1);
    for (int i = 0; i < stops; i++) pgw_stop_notify(stop);
    atomic_store(&let_go, 1);
    finish(PGW_OK);
    TEST_ASSERT_EQUAL(PQTRANS_INTRANS, PQtransactionStatus(other));
    PQclear(PQexec(other, "ROLLBACK"));
    PQfinish(other);
    TEST_ASSERT_EQUAL_STRING("leased", state_of(locked)); /* until a reaper sees that it is over */
}

/* The first stop waits for what runs, and so for a server that takes its time. */
void test_a_stop_leaves_a_slow_server_its_time(void)
{
    pgw_worker_stats s;

    only_job();
    pgtemp_exec(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM "
        "pg_sleep(3); RETURN NEW; END';"
        "CREATE TRIGGER slow BEFORE INSERT ON pgwork.done_job FOR EACH ROW EXECUTE FUNCTION "
        "slow()");
    atomic_store(&let_go, 0);
    set("worker.until_empty", "off");
    set("worker.stop_ms", "0");
    set("worker.lease_ms", "20000");
    start(until_let_go);
    await(&called, 1);
    pgw_stop_notify(stop);
    atomic_store(&let_go, 1);
    s = finish(PGW_OK);
    pgtemp_exec("DROP FUNCTION slow() CASCADE");
    TEST_ASSERT_EQUAL_INT64(1, s.completed);
    TEST_ASSERT_EQUAL_INT64(0, s.lost);
}

/* ---- a server that is read-only for a while ---- */

static void hear_refusal(pgw_log_level level, const char *component, const char *message, void *arg)
{
    (void)arg, (void)level;
    if (strcmp(component, "pq") == 0 && strstr(message, "25006") != NULL)
        atomic_fetch_add(&seen, 1);
}

void test_a_server_that_turns_read_only_is_outlived(void)
{
    only_job();
    atomic_store(&let_go, 0);
    set("worker.until_empty", "off");
    set("worker.lease_ms", "60000");
    set("poll.max_ms", "50");
    set("reconnect.base_ms", "1");
    set("reconnect.cap_ms", "50");
    set("application_name", "switched");
    pgw_conf_set_log(conf, PGW_LOG_DEBUG, hear_refusal, NULL);
    start(until_let_go);
    await(&called, 1);
    await_registered();
    pgtemp_read_only(true);
    pgtemp_exec("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE "
                "datname = current_database() AND application_name = 'switched'");
    await(&seen, 2); /* claims */
    atomic_store(&let_go, 1);
    await(&seen, atomic_load(&seen) + 3); /* the result, too */
    pgtemp_read_only(false);
    only_job();
    await(&called, 2);
    pgw_stop_notify(stop);
    TEST_ASSERT_EQUAL_INT64(2, finish(PGW_OK).completed);
    all_done_once(2);
}

/* ---- a server that keeps hanging up ---- */

static pgw_verdict for_a_moment(pgw_task *task, void *arg)
{
    (void)task, (void)arg;
    atomic_fetch_add(&called, 1);
    nap(4);
    return PGW_VERDICT_DONE;
}

void test_every_job_is_done_once_though_all_sessions_keep_dying(void)
{
    pgw_queue_opts o = PGW_QUEUE_OPTS_INIT;
    pgw_worker_stats s;
    int i;

    o.max_attempts = 1000; /* a claim whose answer is lost charges one */
    must(pgw_queue_set(h, queue, &o));
    enqueue(2000);
    short_leases();
    set("worker.until_empty", "off");
    set("worker.prefetch", "50");
    set("reconnect.base_ms", "1");
    set("reconnect.cap_ms", "50");
    set("application_name", "storm");
    start_reaper();
    start(for_a_moment);
    for (i = 0; i < PATIENCE_MS / 50 && jobs_in("done") < 2000; i++) {
        if (i < 100)
            pgtemp_exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
                        "application_name = 'storm'");
        nap(50);
    }
    pgw_stop_notify(stop);
    s = finish(PGW_OK);
    finish_reaper();
    TEST_ASSERT_GREATER_THAN_INT(20, i);
    TEST_ASSERT_GREATER_THAN_INT64(0, s.reconnects);
    all_done_once(2000);
}
