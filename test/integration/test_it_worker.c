/* The worker with a real server, real processes and real deaths.
 *
 * Audit triggers note every end of a lease, in a row of its own or in a pack: each claim's token
 * ends once for each of its jobs, by a completion, a failure or a reaper; and that every ready job
 * that leaves its row goes into a pack. Children are forked before they open anything, and
 * end by _exit. */
#include "unity.h"
#include "pgw_all.h"
#include "pgtemp.h"
#include "wire.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 60000

static pgw_conf *conf;
static pgw_stop *stop;
static pgw *h;
static char queue[32];
static const char *queues[1];
static atomic_int called, seen;
static int talk[2]; /* what a child has to say */

/* ---- around every test ---- */

static void set(const char *name, const char *value)
{
    TEST_ASSERT_EQUAL_INT_MESSAGE(PGW_OK, pgw_conf_set(conf, name, value), name);
}

static void must(pgw_status st)
{
    if (st < 0) TEST_FAIL_MESSAGE(pgw_error_message(h));
}

static void first_time(void)
{
    must(pgw_migrate_up(h, NULL));
    pgtemp_exec(
        "CREATE TABLE audit (id bigint, token uuid);"      /* ends of leases */
        "CREATE TABLE outs (queue integer);"               /* jobs that left their pack alone */
        "CREATE TABLE packing (id bigint, moved integer);" /* out of a row 1, into a pack -1 */
        "CREATE FUNCTION audit_row() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN "
        "IF OLD.token IS NULL THEN"
        " INSERT INTO public.packing VALUES (coalesce(OLD.id, OLD.pos), 1);"
        "ELSE INSERT INTO public.audit VALUES (coalesce(OLD.id, OLD.pos), OLD.token); END IF; "
        "RETURN NULL; END $$;"
        "CREATE FUNCTION audit_pack() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ "
        "BEGIN "
        "IF TG_OP = 'INSERT' THEN"
        " INSERT INTO public.packing SELECT unnest(NEW.ids), -1;"
        "ELSE INSERT INTO public.audit SELECT i, OLD.token FROM unnest(OLD.ids) i WHERE NOT EXISTS "
        "(SELECT FROM pgwork.pack_out o WHERE o.queue = OLD.queue AND o.number = OLD.number AND "
        "o.id = i); END IF; RETURN NULL; END $$;"
        "CREATE FUNCTION audit_out() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN "
        "INSERT INTO public.outs VALUES (NEW.queue);"
        "INSERT INTO public.audit SELECT NEW.id, p.token FROM pgwork.pack p WHERE p.queue = "
        "NEW.queue AND p.number = NEW.number; RETURN NULL; END $$;"
        "CREATE TRIGGER audit AFTER DELETE ON pgwork.live_job FOR EACH ROW EXECUTE FUNCTION "
        "audit_row();"
        "CREATE TRIGGER audit AFTER INSERT OR DELETE ON pgwork.pack FOR EACH ROW EXECUTE FUNCTION "
        "audit_pack();"
        "CREATE TRIGGER audit AFTER INSERT ON pgwork.pack_out FOR EACH ROW EXECUTE FUNCTION "
        "audit_out();");
}

void setUp(void)
{
    static int number;
    pgw_queue_opts o = PGW_QUEUE_OPTS_INIT;

    atomic_store(&called, 0);
    atomic_store(&seen, 0);
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_conf_new(&conf));
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_stop_new(&stop));
    set("dsn", pgtemp_dsn());
    set("worker.drain", "on");
    set("schema.check", number == 0 ? "off" : "on");
    must(pgw_open(&h, conf));
    if (number == 0) first_time();
    set("schema.check", "on");
    snprintf(queue, sizeof(queue), "queue %d", number++);
    queues[0] = queue;
    o.lease_ms = 5000; /* no machine stalls for so long */
    o.retention_ms = 3600000;
    o.max_attempts = 3;
    o.backoff_ms = 0;
    must(pgw_queue_create(h, queue, &o));
    TEST_ASSERT_EQUAL_INT(0, pipe(talk));
}

void tearDown(void)
{
    close(talk[0]);
    close(talk[1]);
    pgw_close(h);
    pgw_stop_free(stop);
    pgw_conf_free(conf);
}

/* ---- tools ---- */

static void nap(int ms)
{
    poll(NULL, 0, ms);
}

static void await(atomic_int *what, int value)
{
    int i;

    for (i = 0; i < PATIENCE_MS && atomic_load(what) < value; i++) nap(1);
    if (atomic_load(what) < value) TEST_FAIL_MESSAGE("waited in vain");
}

static void enqueue(int n)
{
    static const pgw_new jobs[1000] = {{0}};
    pgw_new copy[1000];
    int i;

    for (i = 0; i < 1000; i++) {
        copy[i] = jobs[i];
        copy[i].struct_size = sizeof(copy[i]);
    }
    for (; n > 0; n -= 1000)
        must(pgw_enqueue_many(h, NULL, NULL, queue, copy, n < 1000 ? (size_t)n : 1000, NULL));
}

static long long jobs_in(const char *state)
{
    char sql[200];

    snprintf(sql, sizeof(sql),
             "SELECT count(*) FROM pgwork.job WHERE queue = '%s' AND state = '%s'", queue, state);
    return pgtemp_number(sql);
}

static long long of_job(int64_t id, const char *column)
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
static void short_leases(void)
{
    set("worker.lease_ms", "600");
}

/* So many beats, as seen by the end of a job's lease. */
static void await_beats(int64_t id, int beats)
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

/* As if their time was up: whoever had these leases is dead. */
static void end_leases(void)
{
    pgtemp_exec("UPDATE pgwork.live_job SET lease_until = '-infinity' WHERE token IS NOT NULL;"
                "UPDATE pgwork.pack SET lease_until = clock_timestamp() - interval '1 s', ends = "
                "NULL");
}

static int64_t only_job(void)
{
    pgw_new job = PGW_NEW_INIT;
    int64_t id;

    must(pgw_enqueue(h, &id, queue, &job, NULL));
    return id;
}

/* An open transaction that has the rows of the n oldest jobs; the caller ends it. */
static PGconn *lock_first(int n)
{
    PGconn *other = pgtemp_connect();
    char sql[300];

    snprintf(sql, sizeof(sql),
             "BEGIN; SELECT pgwork.cancel('%s', ARRAY(SELECT id FROM pgwork.job WHERE queue = '%s' "
             "ORDER BY id LIMIT %d))",
             queue, queue, n);
    PQclear(PQexec(other, sql));
    TEST_ASSERT_EQUAL(PQTRANS_INTRANS, PQtransactionStatus(other));
    return other;
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

static pgw_worker_stats run(pgw_handler_fn *fn, pgw_status expected)
{
    pgw_worker_stats s = PGW_WORKER_STATS_INIT;
    pgw_worker *w;
    pgw_status st;

    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_worker_new(&w, conf, queues, 1, fn, NULL, NULL));
    st = pgw_worker_run(w, stop);
    pgw_worker_get_stats(w, &s);
    if (st != expected) TEST_FAIL_MESSAGE(pgw_worker_error(w));
    pgw_worker_free(w);
    return s;
}

/* Every job was finished, each by one accepted completion; each claim's token ended once. */
static void all_done_once(long long n)
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
    TEST_ASSERT_EQUAL_INT64(
        0, pgtemp_number("SELECT count(*) FROM (SELECT FROM packing GROUP BY id HAVING sum(moved) "
                         "<> 0 OR count(*) > 2) p"));
}

static pid_t spawn(pgw_handler_fn *fn)
{
    pid_t pid;

    fflush(NULL); /* what is said so far is said once */
    pid = fork();
    if (pid == 0) {
        pgw_worker_stats s = PGW_WORKER_STATS_INIT;
        pgw_worker *w;

        if (pgw_worker_new(&w, conf, queues, 1, fn, NULL, NULL) != PGW_OK) _exit(2);
        if (pgw_worker_run(w, stop) < 0) _exit(3);
        pgw_worker_get_stats(w, &s);
        if (write(talk[1], &s, sizeof(s)) < 0) _exit(4);
        _exit(0);
    }
    TEST_ASSERT_TRUE(pid > 0);
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

/* ---- handlers ---- */

static pgw_verdict noop(pgw_task *task, void *arg)
{
    (void)task, (void)arg;
    atomic_fetch_add(&called, 1);
    return PGW_DONE;
}

static pgw_verdict for_a_moment(pgw_task *task, void *arg)
{
    (void)task, (void)arg;
    atomic_fetch_add(&called, 1);
    nap(4);
    return PGW_DONE;
}

static pgw_verdict for_ever(pgw_task *task, void *arg)
{
    (void)task, (void)arg;
    say('r');
    for (;;) nap(1000);
}

static pgw_verdict until_signalled(pgw_task *task, void *arg)
{
    struct pollfd fd = {pgw_task_fd(task), POLLIN, 0};

    (void)arg;
    atomic_fetch_add(&called, 1);
    poll(&fd, 1, PATIENCE_MS);
    atomic_store(&seen, pgw_task_signals(task));
    pgw_task_set_delay(task, 0);
    return PGW_RETRY;
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

void test_the_calling_thread_does_them_just_as_well(void)
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
    const pgw_ref ref = pgw_job_ref(pgw_task_job(task));
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
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_attach(&mine, pgtemp_conn(), NULL));
    st = pgw_complete(mine, NULL, queue, &ref, NULL, 1);
    pgw_close(mine);
    pgtemp_exec(st == PGW_OK ? "COMMIT" : "ROLLBACK");
    return st == PGW_OK ? PGW_SETTLED : PGW_RETRY;
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

/* One row of the server for each claim, and no row for any of its jobs. */
void test_jobs_that_were_claimed_together_are_finished_together(void)
{
    pgw_queue_opts o = PGW_QUEUE_OPTS_INIT;
    pgw_worker_stats s;
    char sql[200];

    o.retention_ms = 0; /* what is kept is moved job by job */
    must(pgw_queue_set(h, queue, &o));
    enqueue(5000);
    set("worker.prefetch", "200");
    set("worker.flush_ms", "10000");
    set("worker.lease_ms", "60000");
    s = run(noop, PGW_OK);
    TEST_ASSERT_EQUAL_INT64(5000, s.completed);
    TEST_ASSERT_EQUAL_INT64(0, s.refused + s.lost + s.released + s.failed);
    snprintf(sql, sizeof(sql),
             "SELECT count(*) FROM outs JOIN pgwork.queue q ON q.id = outs.queue WHERE name = '%s'",
             queue);
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number(sql));
    snprintf(sql, sizeof(sql), "SELECT count(*) FROM pgwork.job WHERE queue = '%s'", queue);
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number(sql));
}

/* A verdict for each; who gets none is done. */
static void judge(pgw_task *const *tasks, size_t n, void *arg)
{
    static const pgw_verdict verdicts[] = {PGW_DEAD, PGW_RETRY, PGW_SNOOZE};
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
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_worker_new(&w, conf, queues, 1, NULL, judge, NULL));
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
    for (i = 0; i < 3; i++) pid[i] = spawn(noop);
    for (i = 0; i < 3; i++) {
        hear_bytes(&s, sizeof(s));
        sum += s.completed;
        TEST_ASSERT_EQUAL_INT(0, end_of(pid[i]));
    }
    TEST_ASSERT_EQUAL_INT64(3000, sum);
    all_done_once(3000);
}

static void *run_it(void *arg)
{
    return (void *)(intptr_t)pgw_worker_run(arg, stop);
}

static pgw_worker *start(pgw_handler_fn *fn, pthread_t *thread)
{
    pgw_worker *w;

    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_worker_new(&w, conf, queues, 1, fn, NULL, NULL));
    TEST_ASSERT_EQUAL_INT(0, pthread_create(thread, NULL, run_it, w));
    return w;
}

static pgw_worker_stats finish(pgw_worker *w, pthread_t thread, pgw_status expected)
{
    pgw_worker_stats s = PGW_WORKER_STATS_INIT;
    void *st;

    pthread_join(thread, &st);
    if ((pgw_status)(intptr_t)st != expected) TEST_FAIL_MESSAGE(pgw_worker_error(w));
    pgw_worker_get_stats(w, &s);
    pgw_worker_free(w);
    return s;
}

/* Waits for the sleeping sign of a worker in this database. */
static void await_sign(void)
{
    int i;

    for (i = 0; i < PATIENCE_MS / 10; i++) {
        if (pgtemp_number(
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock' "
                "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())") >
            0)
            return;
        nap(10);
    }
    TEST_FAIL_MESSAGE("no sleeping sign");
}

static void await_reconnects(const pgw_worker *w, int64_t n)
{
    pgw_worker_stats s = PGW_WORKER_STATS_INIT;
    int i;

    pgw_worker_get_stats(w, &s);
    for (i = 0; i < PATIENCE_MS && s.reconnects < n; i++) {
        nap(1);
        pgw_worker_get_stats(w, &s);
    }
    TEST_ASSERT_EQUAL_INT64(n, s.reconnects);
}

void test_a_sleeping_worker_is_woken(void)
{
    pthread_t thread;
    pgw_worker *w;
    int i;

    set("worker.drain", "off");
    set("poll.max_ms", "3600000"); /* nobody lives to see the next look: a notification must come */
    w = start(noop, &thread);
    await_sign();
    nap(50); /* the look after the sign */
    for (i = 1; i <= 20; i++) {
        only_job();
        await(&called, i);
    }
    pgw_stop_notify(stop);
    TEST_ASSERT_EQUAL_INT64(20, finish(w, thread, PGW_OK).completed);
    all_done_once(20);
}

/* Who enqueued it saw no sign, and the look after the sign did not see it. */
void test_a_job_that_was_enqueued_before_the_sign_and_committed_after_it_is_found(void)
{
    PGconn *open = pgtemp_connect();
    pthread_t thread;
    pgw_worker *w;
    char sql[100];

    set("worker.drain", "off");
    set("poll.max_ms", "3600000");
    snprintf(sql, sizeof(sql), "BEGIN; SELECT pgwork.enqueue('%s')", queue);
    PQclear(PQexec(open, sql));
    w = start(noop, &thread);
    await_sign();
    nap(50);
    TEST_ASSERT_EQUAL(PQTRANS_INTRANS, PQtransactionStatus(open));
    PQclear(PQexec(open, "COMMIT"));
    PQfinish(open);
    await(&called, 1);
    pgw_stop_notify(stop);
    TEST_ASSERT_EQUAL_INT64(1, finish(w, thread, PGW_OK).completed);
}

void test_a_sleeper_that_lost_its_session_sleeps_on_in_another(void)
{
    pthread_t thread;
    pgw_worker *w;

    set("worker.drain", "off");
    set("poll.max_ms", "3600000");
    set("application_name", "sleeper");
    w = start(noop, &thread);
    await_sign();
    nap(50);
    pgtemp_exec("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE "
                "application_name = 'sleeper'");
    await_sign();
    await_reconnects(w, 2); /* the session that extends leases, too */
    nap(50);
    only_job();
    await(&called, 1);
    pgw_stop_notify(stop);
    finish(w, thread, PGW_OK);
}

void test_a_queue_younger_than_the_worker_wakes_it_too(void)
{
    pthread_t thread;
    pgw_worker *w;

    must(pgw_queue_drop(h, queue, false));
    set("worker.drain", "off");
    set("poll.max_ms", "50");
    w = start(noop, &thread);
    nap(200); /* asleep, with a sign that speaks of no queue */
    only_job();
    await(&called, 1);
    await_sign();
    pgw_stop_notify(stop);
    TEST_ASSERT_EQUAL_INT64(1, finish(w, thread, PGW_OK).completed);
}

/* The sign spoke of the old one. */
void test_a_queue_that_was_dropped_and_made_anew_wakes_it_too(void)
{
    pthread_t thread;
    pgw_worker *w;
    char held[200];
    int i;

    set("worker.drain", "off");
    set("poll.max_ms", "100");
    w = start(noop, &thread);
    only_job();
    await(&called, 1);
    await_sign();
    must(pgw_queue_drop(h, queue, true));
    must(pgw_queue_create(h, queue, NULL));
    snprintf(held, sizeof(held),
             "SELECT pgwork._held('sleep', id)::integer FROM pgwork.queue WHERE name = '%s'",
             queue);
    for (i = 2; i < 200 && pgtemp_number(held) == 0; i++) {
        only_job();
        await(&called, i); /* by a look */
        nap(50);           /* and hangs it out again */
    }
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number(held));
    pgw_stop_notify(stop);
    finish(w, thread, PGW_OK);
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
    pid = spawn(for_ever);
    hear();
    hear(); /* both hands are busy */
    for (i = 0; i < PATIENCE_MS && jobs_in("leased") < 6; i++) nap(1);
    TEST_ASSERT_EQUAL_INT64(6, jobs_in("leased"));
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
    return PGW_DONE;
}

void test_a_job_that_kills_its_workers_is_dead_after_its_attempts(void)
{
    pgw_new poison = PGW_NEW_INIT;
    int64_t id;
    int killed = 0, i;

    enqueue(20);
    poison.kind = "poison";
    must(pgw_enqueue(h, &id, queue, &poison, NULL));
    enqueue(20);
    for (i = 0; i < 50 && (state_of(id) == NULL || strcmp(state_of(id), "dead") != 0); i++) {
        const pid_t pid = spawn(kill_myself);
        const int status = end_of(pid);

        if (WIFSIGNALED(status))
            killed++;
        else
            TEST_ASSERT_EQUAL_INT(0, WEXITSTATUS(status));
        end_leases();
        while (jobs_in("leased") > 0) {
            must(pgw_reaper_tick(h, NULL, NULL));
            nap(20);
        }
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
    say(pgw_task_signals(task) == PGW_LOST ? 'L' : '?');
    return PGW_DONE;
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
    pid = spawn(frozen);
    TEST_ASSERT_EQUAL_INT('r', hear());
    kill(pid, SIGSTOP);
    reap_until(id, "ready");
    o.queues = queues, o.queues_count = 1, o.lease_ms = 60000;
    must(pgw_claim(h, &b, &o));
    ref = pgw_job_ref(pgw_batch_job(b, 0));
    TEST_ASSERT_EQUAL_INT(2, pgw_job_attempt(pgw_batch_job(b, 0)));
    kill(pid, SIGCONT);
    TEST_ASSERT_EQUAL_INT('L', hear());
    hear_bytes(&s, sizeof(s));
    TEST_ASSERT_EQUAL_INT(0, end_of(pid));
    TEST_ASSERT_EQUAL_INT64(1, s.refused);
    TEST_ASSERT_EQUAL_INT64(1, s.lost);
    TEST_ASSERT_EQUAL_INT64(0, s.completed);
    must(pgw_complete(h, NULL, queue, &ref, NULL, 1));
    pgw_batch_free(b);
    all_done_once(1);
}

/* ---- a claim that waits ---- */

/* Large claims take turns while others write: while somebody has them all, this one waits. */
void test_a_claim_may_wait_longer_than_its_lease(void)
{
    PGconn *conns[3];
    pgw_worker_stats s;
    pthread_t thread;
    pgw_worker *w;
    char sql[300];
    int i;

    enqueue(100);
    set("worker.prefetch", "1000");
    set("worker.lease_ms", "2000");
    set("application_name", "patient");
    for (i = 0; i < 3; i++) conns[i] = pgtemp_connect();
    PQclear(PQexec(conns[0], "BEGIN; SELECT pg_current_xact_id()"));
    PQclear(PQexec(conns[1], "SELECT pg_current_xact_id()"));
    snprintf(sql, sizeof(sql),
             "BEGIN; SELECT pg_advisory_xact_lock(pgwork._lock('turn %s', i)) FROM "
             "generate_series(0, 7) i",
             queue);
    PQclear(PQexec(conns[2], sql));
    w = start(noop, &thread);
    for (i = 0; i < PATIENCE_MS && pgtemp_number("SELECT count(*) FROM pg_stat_activity WHERE "
                                                 "application_name = 'patient' AND wait_event = "
                                                 "'advisory'") == 0;
         i++)
        nap(1);
    nap(2500);
    TEST_ASSERT_EQUAL_INT(0, atomic_load(&called));
    for (i = 0; i < 3; i++) PQfinish(conns[i]);
    s = finish(w, thread, PGW_OK);
    TEST_ASSERT_EQUAL_INT64(0, s.lost);
    TEST_ASSERT_EQUAL_INT64(100, s.completed);
    all_done_once(100);
}

/* ---- signals ---- */

void test_a_long_job_keeps_its_lease_beside_a_reaper(void)
{
    const int64_t id = only_job();
    pthread_t thread;
    pgw_worker *w;
    pgw_worker_stats s;
    int i;

    set("worker.lease_ms", "2000");
    w = start(until_signalled, &thread);
    await(&called, 1);
    for (i = 0; i < 250; i++) { /* more than two leases long */
        must(pgw_reaper_tick(h, NULL, NULL));
        nap(20);
    }
    TEST_ASSERT_EQUAL_STRING("leased", state_of(id));
    pgw_stop_notify(stop);
    pgw_stop_notify(stop);
    s = finish(w, thread, PGW_OK);
    TEST_ASSERT_EQUAL_INT(PGW_STOPPING, atomic_load(&seen));
    TEST_ASSERT_EQUAL_INT64(1, s.failed);
    TEST_ASSERT_EQUAL_INT64(0, s.lost);
}

/* The heart's session is the one that has not claimed. */
static pgw_verdict meanwhile_migrated(pgw_task *task, void *arg)
{
    pgtemp_exec("INSERT INTO pgwork.migration VALUES (999, 'later', '') ON CONFLICT DO NOTHING");
    pgtemp_exec("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE "
                "application_name = 'migrated' AND query !~ 'jobs under a lease'");
    return until_signalled(task, arg);
}

/* Its session is older than the schema's new version, the heart's next one is not: it must not
 * claim on, and lose all that outlasts a lease. */
void test_a_worker_whose_leases_cannot_be_extended_gives_up(void)
{
    set("worker.lease_ms", "3000");
    set("application_name", "migrated");
    only_job();
    run(meanwhile_migrated, PGW_ESCHEMA);
    pgtemp_exec("DELETE FROM pgwork.migration WHERE number = 999");
    TEST_ASSERT_EQUAL_INT(1, atomic_load(&called));
    TEST_ASSERT_TRUE(atomic_load(&seen) & PGW_LOST);
}

static void hear_refused_login(void *arg, pgw_level level, const char *room, const char *message)
{
    (void)arg, (void)level, (void)room;
    if (strstr(message, "53300") != NULL) atomic_fetch_add(&seen, 1);
}

/* A worker with one connection could claim, and would lose what outlasts a lease. */
void test_no_job_is_claimed_without_the_connection_that_extends_leases(void)
{
    const int64_t id = only_job();
    char dsn[1200];
    pthread_t thread;
    pgw_worker *w;

    pgtemp_exec("DROP ROLE IF EXISTS pgw_it_single; CREATE ROLE pgw_it_single LOGIN IN ROLE "
                "pgwork_worker CONNECTION LIMIT 1");
    snprintf(dsn, sizeof(dsn), "%s user=pgw_it_single", pgtemp_dsn());
    set("dsn", dsn);
    set("reconnect.base_ms", "1");
    set("reconnect.cap_ms", "50");
    pgw_conf_set_log(conf, PGW_WARN, hear_refused_login, NULL);
    w = start(noop, &thread);
    await(&seen, 3);
    TEST_ASSERT_EQUAL_STRING("ready", state_of(id));
    TEST_ASSERT_EQUAL_INT(0, of_job(id, "attempt"));
    pgtemp_exec("ALTER ROLE pgw_it_single CONNECTION LIMIT 2");
    TEST_ASSERT_EQUAL_INT64(1, finish(w, thread, PGW_OK).completed);
    pgtemp_exec("DROP ROLE pgw_it_single");
}

static atomic_int let_go;

static pgw_verdict until_let_go(pgw_task *task, void *arg)
{
    (void)task, (void)arg;
    atomic_fetch_add(&called, 1);
    await(&let_go, 1);
    return PGW_DONE;
}

/* A lease is not due for long, but when it is there may be no time to find a server. */
void test_the_connection_that_extends_leases_is_back_before_it_is_needed(void)
{
    char dsn[1200];
    pthread_t thread;
    pgw_worker *w;

    only_job();
    pgtemp_exec("DROP ROLE IF EXISTS pgw_it_pair; CREATE ROLE pgw_it_pair LOGIN IN ROLE "
                "pgwork_worker CONNECTION LIMIT 2");
    snprintf(dsn, sizeof(dsn), "%s user=pgw_it_pair", pgtemp_dsn());
    set("dsn", dsn);
    set("application_name", "pair");
    set("worker.lease_ms", "3600000");
    set("reconnect.base_ms", "1");
    set("reconnect.cap_ms", "50");
    pgw_conf_set_log(conf, PGW_WARN, hear_refused_login, NULL);
    atomic_store(&let_go, 0);
    w = start(until_let_go, &thread);
    await(&called, 1);
    pgtemp_exec("ALTER ROLE pgw_it_pair CONNECTION LIMIT 1");
    TEST_ASSERT_EQUAL_INT(1, pgtemp_number("SELECT count(pg_terminate_backend(pid, 10000)) FROM "
                                           "pg_stat_activity WHERE application_name = 'pair' "
                                           "AND query !~ 'jobs under a lease'"));
    await(&seen, 3); /* it asks again and again */
    pgtemp_exec("ALTER ROLE pgw_it_pair CONNECTION LIMIT 2");
    await_reconnects(w, 1);
    atomic_store(&let_go, 1);
    TEST_ASSERT_EQUAL_INT64(1, finish(w, thread, PGW_OK).completed);
    pgtemp_exec("DROP ROLE pgw_it_pair");
}

static pgw_verdict in_a_thousand_years(pgw_task *task, void *arg)
{
    (void)arg;
    pgw_task_set_delay(task, INT64_MAX);
    return PGW_SNOOZE;
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

/* The first one's job is handed back by an operator, and comes again. */
static pgw_verdict handed_back(pgw_task *task, void *arg)
{
    const pgw_ref ref = pgw_job_ref(pgw_task_job(task));
    struct pollfd fd = {pgw_task_fd(task), POLLIN, 0};
    const bool first = atomic_fetch_add(&called, 1) == 0;
    char token[PGW_TOKEN_TEXT], sql[200];

    (void)arg;
    if (!first) {
        poll(&fd, 1, 2500); /* longer than a lease */
        atomic_fetch_or(&seen, pgw_task_signals(task) << 4);
        return PGW_DONE;
    }
    snprintf(sql, sizeof(sql), "SELECT pgwork.release('%s', '{%lld}', '{%s}')", queue,
             (long long)ref.id, pgw_token_format(ref.token, token));
    pgtemp_exec(sql);
    await(&called, 2);
    poll(&fd, 1, 2500);
    atomic_fetch_or(&seen, pgw_task_signals(task));
    return PGW_DONE;
}

void test_who_has_lost_a_job_to_its_own_worker_is_told(void)
{
    pgw_worker_stats s;

    only_job();
    set("worker.lease_ms", "2000");
    set("worker.max_jobs", "2");
    set("poll.max_ms", "20"); /* it comes again before a beat */
    s = run(handed_back, PGW_OK);
    TEST_ASSERT_EQUAL_INT(PGW_LOST, atomic_load(&seen)); /* and nothing to the second one */
    TEST_ASSERT_EQUAL_INT64(1, s.completed);
    TEST_ASSERT_EQUAL_INT64(1, s.refused);
}

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
void test_a_report_that_always_fails_holds_nobody_up(const char *sqlstate)
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

static pgw_verdict when_told(pgw_task *task, void *arg)
{
    (void)task, (void)arg;
    atomic_fetch_add(&called, 1);
    await(&seen, 1);
    return PGW_DONE;
}

/* As with a full disk: a claim has to write more than a completion, and undoes it when they go
 * together. */
void test_what_is_done_is_told_though_claims_fail(void)
{
    pthread_t thread;
    pgw_worker *w;
    int i;

    enqueue(100);
    set("worker.concurrency", "0");
    set("worker.prefetch", "50"); /* so many take a pack */
    set("reconnect.base_ms", "1");
    set("reconnect.cap_ms", "20");
    w = start(when_told, &thread);
    await(&called, 1);
    pgtemp_exec("CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE "
                "EXCEPTION ''no space left'' USING ERRCODE = ''53100''; END';"
                "CREATE TRIGGER full_disk BEFORE INSERT ON pgwork.pack FOR EACH ROW EXECUTE "
                "FUNCTION full_disk()");
    atomic_store(&seen, 1);
    for (i = 0; i < PATIENCE_MS / 10 && jobs_in("done") < 50; i++) nap(10);
    TEST_ASSERT_EQUAL_INT64(50, jobs_in("done"));
    pgtemp_exec("DROP TRIGGER full_disk ON pgwork.pack; DROP FUNCTION full_disk()");
    TEST_ASSERT_EQUAL_INT64(100, finish(w, thread, PGW_OK).completed);
    all_done_once(100);
}

void test_a_cancel_reaches_a_running_handler(void)
{
    const int64_t id = only_job();
    pthread_t thread;
    pgw_worker *w = start(until_signalled, &thread);
    pgw_status outcome;

    await(&called, 1);
    must(pgw_cancel(h, &outcome, queue, &id, 1));
    TEST_ASSERT_EQUAL_INT(PGW_CANCEL, outcome);
    TEST_ASSERT_EQUAL_INT64(1, finish(w, thread, PGW_OK).failed);
    TEST_ASSERT_EQUAL_INT(PGW_CANCELED, atomic_load(&seen));
    TEST_ASSERT_EQUAL_STRING("cancelled", state_of(id));
}

void test_a_cancel_of_a_prefetched_job_ends_it_unseen(void)
{
    const int64_t running = only_job(), waiting = only_job();
    pthread_t thread;
    pgw_worker *w;
    pgw_status outcome;

    set("worker.lease_ms", "3000");
    set("worker.concurrency", "1");
    w = start(until_signalled, &thread);
    await(&called, 1);
    must(pgw_cancel(h, &outcome, queue, &waiting, 1));
    await_beats(running, 2); /* the second one begins when the first is read */
    must(pgw_cancel(h, &outcome, queue, &running, 1));
    finish(w, thread, PGW_OK);
    TEST_ASSERT_EQUAL_INT(1, atomic_load(&called));
    TEST_ASSERT_EQUAL_STRING("cancelled", state_of(waiting));
}

/* An operator's open transaction has the rows of some: the others are told meanwhile, new ones
 * taken, and these are told when he is through. */
TEST_CASE(1, 1)
TEST_CASE(4, 1)
TEST_CASE(6, 4)
void test_jobs_whose_rows_somebody_has_locked_hold_no_others_up(int n, int locked)
{
    PGconn *other;
    pthread_t thread;
    pgw_worker *w;
    int i;

    for (i = 0; i < n; i++) only_job();
    atomic_store(&let_go, 0);
    set("worker.drain", "off");
    set("worker.concurrency", "6");
    set("worker.prefetch", "6");
    w = start(until_let_go, &thread);
    await(&called, n);
    other = lock_first(locked);
    atomic_store(&let_go, 1);
    only_job();
    for (i = 0; i < PATIENCE_MS / 10 && jobs_in("done") < n - locked + 1; i++) nap(10);
    TEST_ASSERT_EQUAL_INT64(n - locked + 1, jobs_in("done"));
    TEST_ASSERT_EQUAL_INT64(locked, jobs_in("leased"));
    TEST_ASSERT_EQUAL(PQTRANS_INTRANS, PQtransactionStatus(other));
    PQclear(PQexec(other, "ROLLBACK"));
    PQfinish(other);
    pgw_stop_notify(stop);
    TEST_ASSERT_EQUAL_INT64(n + 1, finish(w, thread, PGW_OK).completed);
    all_done_once(n + 1);
}

/* Jobs of one claim lie in one row, so who has locked it holds all of them. */
void test_a_locked_pack_holds_no_others_up(void)
{
    PGconn *other;
    pthread_t thread;
    pgw_worker *w;
    int i;

    enqueue(40);
    atomic_store(&let_go, 0);
    set("worker.drain", "off");
    set("worker.concurrency", "40");
    set("worker.prefetch", "40");
    w = start(until_let_go, &thread);
    await(&called, 40);
    other = lock_first(1);
    atomic_store(&let_go, 1);
    only_job();
    for (i = 0; i < PATIENCE_MS / 10 && jobs_in("done") < 1; i++) nap(10);
    TEST_ASSERT_EQUAL_INT64(1, jobs_in("done"));
    TEST_ASSERT_EQUAL_INT64(40, jobs_in("leased"));
    PQclear(PQexec(other, "ROLLBACK"));
    PQfinish(other);
    pgw_stop_notify(stop);
    TEST_ASSERT_EQUAL_INT64(41, finish(w, thread, PGW_OK).completed);
    all_done_once(41);
}

/* Somebody's trigger, or a damaged row. */
TEST_CASE("P0001")
TEST_CASE("22012")
TEST_CASE("23505")
void test_a_lease_that_cannot_be_extended_costs_no_other_job_its_own(const char *sqlstate)
{
    const int64_t bad = only_job(), good = only_job();
    pgw_worker_stats s;
    pthread_t thread;
    pgw_worker *w;

    deny("UPDATE ON pgwork.live_job",
         "CASE WHEN OLD.token = NEW.token THEN coalesce(OLD.id, OLD.pos) END", bad, sqlstate);
    atomic_store(&let_go, 0);
    set("worker.lease_ms", "3000");
    w = start(until_let_go, &thread);
    await(&called, 2);
    await_beats(good, 5); /* a second apart */
    atomic_store(&let_go, 1);
    s = finish(w, thread, PGW_OK);
    pgtemp_exec("DROP FUNCTION deny() CASCADE");
    TEST_ASSERT_EQUAL_INT64(1, s.lost);
    TEST_ASSERT_EQUAL_STRING("done", state_of(good));
}

void test_a_timeout_is_told(void)
{
    const int64_t id = only_job();

    set("worker.job_timeout_ms", "100");
    set("worker.max_jobs", "1");
    TEST_ASSERT_EQUAL_INT64(1, run(until_signalled, PGW_OK).failed);
    TEST_ASSERT_EQUAL_INT(PGW_TIMEOUT, atomic_load(&seen));
    TEST_ASSERT_EQUAL_STRING("ready", state_of(id));
}

/* And the reaper has taken the job. */
static pgw_verdict until_lost(pgw_task *task, void *arg)
{
    int i;

    (void)arg;
    for (i = 0; i < PATIENCE_MS && !(pgw_task_signals(task) & PGW_LOST); i++) nap(1);
    for (; i < PATIENCE_MS && jobs_in("ready") == 0; i += 10) nap(10);
    return PGW_DONE;
}

static void *reap_on(void *arg)
{
    pgw_reaper *r;

    (void)arg;
    if (pgw_reaper_new(&r, conf) != PGW_OK) return NULL;
    pgw_reaper_run(r, stop);
    pgw_reaper_free(r);
    return NULL;
}

void test_who_ignores_the_timeout_loses_the_job(void)
{
    const int64_t id = only_job();
    pgw_worker_stats s;
    pthread_t reaper;

    short_leases();
    set("worker.job_timeout_ms", "100");
    set("worker.stop_ms", "100");
    set("worker.max_jobs", "1");
    TEST_ASSERT_EQUAL_INT(0, pthread_create(&reaper, NULL, reap_on, NULL));
    s = run(until_lost, PGW_OK);
    pgw_stop_notify(stop);
    pthread_join(reaper, NULL);
    TEST_ASSERT_EQUAL_INT64(1, s.lost);
    TEST_ASSERT_EQUAL_INT64(1, s.refused);
    TEST_ASSERT_EQUAL_STRING("ready", state_of(id));
}

/* ---- stopping ---- */

/* Nor does it stay for a row that somebody has locked. */
TEST_CASE(1)
TEST_CASE(2)
void test_a_stop_does_not_wait_for_a_locked_row(int stops)
{
    PGconn *other;
    const int64_t locked = only_job();
    pthread_t thread;
    pgw_worker *w;

    atomic_store(&let_go, 0);
    set("worker.drain", "off");
    set("worker.stop_ms", "500");
    set("worker.lease_ms", "6000");
    w = start(until_let_go, &thread);
    await(&called, 1);
    other = lock_first(1);
    for (int i = 0; i < stops; i++) pgw_stop_notify(stop);
    atomic_store(&let_go, 1);
    finish(w, thread, PGW_OK);
    TEST_ASSERT_EQUAL(PQTRANS_INTRANS, PQtransactionStatus(other));
    PQclear(PQexec(other, "ROLLBACK"));
    PQfinish(other);
    TEST_ASSERT_EQUAL_STRING("leased", state_of(locked)); /* until a reaper sees that it is over */
}

void test_a_graceful_stop_hands_back_what_was_not_started(void)
{
    pthread_t thread;
    pgw_worker *w;
    pgw_worker_stats s;
    char sql[200];
    int i;

    enqueue(50);
    set("worker.concurrency", "2");
    set("worker.prefetch", "10");
    set("worker.lease_ms", "2000");
    w = start(until_signalled, &thread);
    await(&called, 2);
    pgw_stop_notify(stop);
    for (i = 0; i < PATIENCE_MS && jobs_in("ready") < 48; i++) nap(1);
    nap(2500); /* longer than the lease: those that run keep it */
    TEST_ASSERT_EQUAL_INT64(48, jobs_in("ready"));
    TEST_ASSERT_EQUAL_INT64(2, jobs_in("leased"));
    snprintf(sql, sizeof(sql),
             "SELECT max(attempt) FROM pgwork.job WHERE queue = '%s' AND state = 'ready'", queue);
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number(sql));
    pgw_stop_notify(stop);
    s = finish(w, thread, PGW_OK);
    TEST_ASSERT_GREATER_THAN_INT64(0, s.released);
    TEST_ASSERT_EQUAL_INT64(s.claimed, s.released + s.failed);
    TEST_ASSERT_EQUAL_INT64(50, jobs_in("ready"));
}

/* Nobody answers, and to connect may take an hour. */
void test_the_second_stop_is_heard_while_it_connects(void)
{
    wire *wire = wire_open();
    pthread_t thread;
    pgw_worker *w;
    pgw_worker_stats s;

    only_job();
    set("dsn", wire_dsn(wire));
    set("connect.timeout_ms", "3600000");
    set("reconnect.base_ms", "500");
    set("reconnect.cap_ms", "500");
    set("worker.lease_ms", "60000");
    set("worker.stop_ms", "1000");
    set("application_name", "cut off");
    w = start(until_signalled, &thread);
    await(&called, 1);
    pgtemp_exec("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE "
                "application_name = 'cut off'");
    nap(100); /* it hears of that, and waits a little */
    wire_freeze(wire, true);
    pgw_stop_notify(stop);
    nap(1500); /* it connects by now */
    TEST_ASSERT_EQUAL_INT(0, atomic_load(&seen));
    pgw_stop_notify(stop);
    await(&seen, PGW_STOPPING);
    s = finish(w, thread, PGW_OK);
    TEST_ASSERT_EQUAL_INT64(1, s.lost);
    wire_close(wire);
}

void test_after_the_second_stop_it_waits_no_longer(void)
{
    const int64_t id = only_job();
    pthread_t thread;
    pgw_worker *w;

    atomic_store(&let_go, 0);
    set("worker.stop_ms", "50");
    w = start(until_let_go, &thread);
    await(&called, 1);
    pgw_stop_notify(stop);
    pgw_stop_notify(stop);
    finish(w, thread, PGW_ETIMEDOUT);
    TEST_ASSERT_EQUAL_STRING("leased", state_of(id));
    reap_until(id, "ready"); /* nobody extends it any more */
    atomic_store(&let_go, 1);
    nap(100);
}

/* ---- a server that is read-only for a while ---- */

static void hear_refusal(void *arg, pgw_level level, const char *room, const char *message)
{
    (void)arg, (void)level;
    if (strcmp(room, "pq") == 0 && strstr(message, "25006") != NULL) atomic_fetch_add(&seen, 1);
}

void test_a_server_that_turns_read_only_is_outlived(void)
{
    pthread_t thread;
    pgw_worker *w;

    only_job();
    atomic_store(&let_go, 0);
    set("worker.drain", "off");
    set("worker.lease_ms", "60000");
    set("poll.max_ms", "50");
    set("reconnect.base_ms", "1");
    set("reconnect.cap_ms", "50");
    set("application_name", "switched");
    pgw_conf_set_log(conf, PGW_WARN, hear_refusal, NULL);
    w = start(until_let_go, &thread);
    await(&called, 1);
    await_sign();
    pgtemp_read_only(true);
    pgtemp_exec("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE "
                "application_name = 'switched'");
    await(&seen, 2); /* claims */
    atomic_store(&let_go, 1);
    await(&seen, atomic_load(&seen) + 3); /* the result, too */
    pgtemp_read_only(false);
    only_job();
    await(&called, 2);
    pgw_stop_notify(stop);
    TEST_ASSERT_EQUAL_INT64(2, finish(w, thread, PGW_OK).completed);
    all_done_once(2);
}

/* ---- a server that keeps hanging up ---- */

void test_every_job_is_done_once_though_all_sessions_keep_dying(void)
{
    pthread_t worker, reaper;
    pgw_queue_opts o = PGW_QUEUE_OPTS_INIT;
    pgw_worker_stats s;
    pgw_worker *w;
    int i;

    o.max_attempts = 1000; /* a claim whose answer is lost charges one */
    must(pgw_queue_set(h, queue, &o));
    enqueue(2000);
    short_leases();
    set("worker.drain", "off");
    set("worker.prefetch", "50");
    set("reconnect.base_ms", "1");
    set("reconnect.cap_ms", "50");
    set("application_name", "storm");
    TEST_ASSERT_EQUAL_INT(0, pthread_create(&reaper, NULL, reap_on, NULL));
    w = start(for_a_moment, &worker);
    for (i = 0; i < PATIENCE_MS / 50 && jobs_in("done") < 2000; i++) {
        if (i < 100)
            pgtemp_exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
                        "application_name = 'storm'");
        nap(50);
    }
    pgw_stop_notify(stop);
    s = finish(w, worker, PGW_OK);
    pthread_join(reaper, NULL);
    TEST_ASSERT_GREATER_THAN_INT(20, i);
    TEST_ASSERT_GREATER_THAN_INT64(0, s.reconnects);
    all_done_once(2000);
}
