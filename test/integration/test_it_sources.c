/* One worker and several databases: jobs are done where they came from, the databases take turns,
 * and one that is lost or refused does not stop the others. A schema of its own is a database
 * here; four servers, one of which is killed, are in test/cli/49_sources.sh. */
#include "unity.h"
#include "pgw_all.h"
#include "pgtemp.h"
#include "wire.h"
#include "workerkit.h"

#define TENANTS 3

static const char *const schemas[TENANTS] = {"pgwork", "tenant_b", "tenant_c"};
static pgw_conf *confs[TENANTS]; /* of those but the first */
static pgw *handles[TENANTS];
static pgw_worker *w;
static atomic_int strayed, at_work, most_at_work, turns[400];
static char words[20000]; /* the log */

static void listen_to(pgw_log_level level, const char *component, const char *message, void *arg)
{
    const size_t n = strlen(words);

    (void)level, (void)component, (void)arg;
    snprintf(words + n, sizeof(words) - n, "%s\n", message);
}

static void add_tenant(int i)
{
    static bool there[TENANTS];
    pgw_queue_opts o = PGW_QUEUE_OPTS_INIT;

    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_conf_new(&confs[i]));
    pgw_conf_set(confs[i], "dsn", pgtemp_dsn());
    pgw_conf_set(confs[i], "schema", schemas[i]);
    pgw_conf_set(confs[i], "schema.check", "off");
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_open(confs[i], &handles[i]));
    if (!there[i]) TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_migrate_up(handles[i], NULL));
    there[i] = true;
    pgw_conf_set(confs[i], "schema.check", "on");
    o.retention_ms = 3600000;
    o.lease_ms = 5000;
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_queue_create(handles[i], queue, &o));
}

void setUp(void)
{
    worker_begin();
    handles[0] = h;
    for (int i = 1; i < TENANTS; i++) add_tenant(i);
    atomic_store(&strayed, 0);
    atomic_store(&at_work, 0);
    atomic_store(&most_at_work, 0);
    atomic_store(&let_go, 0);
    words[0] = '\0';
    w = NULL;
}

void tearDown(void)
{
    worker_end();
    for (int i = 1; i < TENANTS; i++) {
        pgw_close(handles[i]);
        pgw_conf_free(confs[i]);
        handles[i] = NULL;
        confs[i] = NULL;
    }
}

/* ---- tools ---- */

/* The payload of a job is the number of its tenant. */
static void fill(int tenant, const char *kind, int n)
{
    char payload[8];
    pgw_job_spec jobs[100];

    snprintf(payload, sizeof(payload), "%d", tenant);
    for (int i = 0; i < 100; i++) {
        jobs[i] = (pgw_job_spec)PGW_JOB_SPEC_INIT;
        jobs[i].payload = payload;
        jobs[i].kind = kind;
    }
    for (; n > 0; n -= 100)
        TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_enqueue_many(handles[tenant], queue, jobs,
                                                       n < 100 ? (size_t)n : 100, NULL));
}

static long long done_of(int tenant)
{
    char sql[200];

    snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s.job WHERE queue = '%s' AND state = 'done'",
             schemas[tenant], queue);
    return pgtemp_number(sql);
}

static void await_done(int tenant, long long n)
{
    for (int i = 0; i < PATIENCE_MS / 10 && done_of(tenant) < n; i++) nap(10);
    TEST_ASSERT_EQUAL_INT64(n, done_of(tenant));
}

static pgw_worker_stats stats_of(size_t source)
{
    pgw_worker_stats s = PGW_WORKER_STATS_INIT;

    pgw_worker_get_source_stats(w, source, &s);
    return s;
}

static void make(pgw_handler_fn *fn, pgw_batch_fn *batch_fn)
{
    const pgw_worker_spec spec = {sizeof(spec), queues, 1, fn, batch_fn, NULL};

    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_worker_new(conf, &spec, &w));
}

static void add(int tenant)
{
    if (pgw_worker_add_source(w, confs[tenant]) != PGW_OK) TEST_FAIL_MESSAGE(pgw_worker_error(w));
}

static void begin(void)
{
    worker_beside = w; /* workerkit.h frees it */
    TEST_ASSERT_EQUAL_INT(0, pthread_create(&worker_thread, NULL, run_it, w));
}

static pgw_worker_stats run_all(pgw_status expected)
{
    begin();
    return finish(expected);
}

static int tenant_of(pgw_task *task)
{
    return pgw_job_payload(pgw_task_job(task))[0] - '0';
}

static pgw_verdict checks_its_source(pgw_task *task, void *arg)
{
    const int turn = atomic_fetch_add(&called, 1);

    (void)arg;
    if ((size_t)tenant_of(task) != pgw_task_source(task)) atomic_fetch_add(&strayed, 1);
    if (turn < 400) atomic_store(&turns[turn], tenant_of(task));
    return PGW_VERDICT_DONE;
}

/* ---- every job where it came from ---- */

void test_jobs_of_each_database_are_done_there(void)
{
    pgw_worker_stats s, sum = PGW_WORKER_STATS_INIT;

    for (int i = 0; i < TENANTS; i++) fill(i, NULL, 500);
    make(checks_its_source, NULL);
    add(1);
    add(2);
    begin();
    await(&called, 1500);
    for (int i = 0; i < TENANTS; i++) {
        await_done(i, 500);
        s = stats_of((size_t)i);
        TEST_ASSERT_EQUAL_INT64(500, s.claimed);
        sum.claimed += s.claimed;
    }
    s = finish(PGW_OK);
    TEST_ASSERT_EQUAL_INT64(sum.claimed, s.claimed);
    TEST_ASSERT_EQUAL_INT64(1500, s.completed);
    TEST_ASSERT_EQUAL_INT64(0, s.refused + s.lost + s.failed + s.dead);
    TEST_ASSERT_EQUAL_INT(0, atomic_load(&strayed));
}

static void same_source(pgw_task *const *tasks, size_t n, void *arg)
{
    (void)arg;
    for (size_t i = 0; i < n; i++) {
        checks_its_source(tasks[i], NULL);
        if (pgw_task_source(tasks[i]) != pgw_task_source(tasks[0])) atomic_fetch_add(&strayed, 1);
    }
}

void test_a_batch_has_jobs_of_one_database_only(void)
{
    for (int i = 0; i < TENANTS; i++) fill(i, NULL, 200);
    set("worker.batch", "10");
    make(NULL, same_source);
    add(1);
    add(2);
    TEST_ASSERT_EQUAL_INT64(600, run_all(PGW_OK).completed);
    TEST_ASSERT_EQUAL_INT(0, atomic_load(&strayed));
}

/* ---- in turn ---- */

/* The first call waits until each database has given all that the buffer holds of it. */
static pgw_verdict waits_for_all(pgw_task *task, void *arg)
{
    for (int i = 0; atomic_load(&called) == 0 && i < PATIENCE_MS; i++) {
        if (stats_of(0).claimed >= 20 && stats_of(1).claimed >= 10) break;
        nap(1);
    }
    return checks_its_source(task, arg);
}

void test_a_free_handler_takes_jobs_of_the_databases_in_turn(void)
{
    int others = 0, turn;

    fill(0, NULL, 300);
    fill(1, NULL, 10);
    set("worker.concurrency", "1");
    set("worker.prefetch", "20");
    make(waits_for_all, NULL);
    add(1);
    TEST_ASSERT_EQUAL_INT64(310, run_all(PGW_OK).completed);
    for (turn = 0; turn < 310 && others < 10; turn++) others += atomic_load(&turns[turn]) == 1;
    TEST_ASSERT_EQUAL_INT(10, others);
    TEST_ASSERT_LESS_OR_EQUAL_INT(22, turn); /* every second one, but for the first */
}

static pgw_verdict is_alone(pgw_task *task, void *arg)
{
    const int n = atomic_fetch_add(&at_work, 1) + 1;
    int most = atomic_load(&most_at_work);

    while (n > most && !atomic_compare_exchange_weak(&most_at_work, &most, n)) continue;
    nap(1);
    atomic_fetch_sub(&at_work, 1);
    return checks_its_source(task, arg);
}

void test_a_limit_of_a_kind_counts_over_all_databases(void)
{
    pgw_kind_opts o = PGW_KIND_OPTS_INIT;

    fill(0, "alone", 20);
    fill(1, "alone", 20);
    set("worker.until_empty", "off");
    make(checks_its_source, NULL);
    add(1);
    o.concurrency = 1;
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_worker_handle(w, "alone", is_alone, NULL, &o));
    start_reaper();
    begin();
    for (int i = 0; i < PATIENCE_MS / 10 && done_of(0) + done_of(1) < 40; i++) {
        pgw_reaper_tick(handles[1], NULL, NULL);
        nap(10);
    }
    TEST_ASSERT_EQUAL_INT64(40, done_of(0) + done_of(1));
    pgw_stop_notify(stop);
    finish(PGW_OK);
    finish_reaper();
    TEST_ASSERT_EQUAL_INT(1, atomic_load(&most_at_work));
}

void test_max_jobs_counts_over_all_databases(void)
{
    fill(0, NULL, 100);
    fill(1, NULL, 100);
    set("worker.max_jobs", "33");
    set("worker.until_empty", "off");
    make(checks_its_source, NULL);
    add(1);
    TEST_ASSERT_EQUAL_INT64(33, run_all(PGW_OK).completed);
    TEST_ASSERT_EQUAL_INT64(33, done_of(0) + done_of(1));
}

/* ---- one is lost ---- */

void test_a_database_that_hangs_does_not_stop_the_others(void)
{
    wire *line = wire_open();

    fill(1, NULL, 50);
    set("worker.until_empty", "off");
    pgw_conf_set(confs[1], "dsn", wire_dsn(line));
    pgw_conf_set(confs[1], "connect.timeout_ms", "200");
    pgw_conf_set(confs[1], "call.timeout_ms", "200");
    wire_freeze(line, true);
    make(checks_its_source, NULL);
    add(1);
    add(2);
    begin();
    fill(0, NULL, 100);
    fill(2, NULL, 100);
    await_done(0, 100);
    await_done(2, 100);
    TEST_ASSERT_EQUAL_INT64(0, stats_of(1).claimed);
    wire_freeze(line, false); /* it is back */
    await_done(1, 50);
    wire_freeze(line, true); /* with a session this time */
    fill(0, NULL, 100);
    await_done(0, 200);
    fill(1, NULL, 50);
    wire_freeze(line, false);
    await_done(1, 100);
    pgw_stop_notify(stop);
    TEST_ASSERT_EQUAL_INT64(0, finish(PGW_OK).refused);
    wire_close(line);
    TEST_ASSERT_EQUAL_INT(0, atomic_load(&strayed));
}

/* ---- one is refused ---- */

void test_a_database_without_the_schema_ends_alone_and_is_named(void)
{
    char dsn[1000];

    fill(0, NULL, 50);
    fill(2, NULL, 50);
    snprintf(dsn, sizeof(dsn), "%s password=sesame", pgtemp_dsn());
    pgw_conf_set(confs[1], "dsn", dsn);
    pgw_conf_set(confs[1], "schema", "nowhere");
    pgw_conf_set_log(conf, PGW_LOG_INFO, listen_to, NULL);
    make(checks_its_source, NULL);
    add(1);
    add(2);
    run_all(PGW_ESCHEMA);
    TEST_ASSERT_EQUAL_INT64(50, done_of(0));
    TEST_ASSERT_EQUAL_INT64(50, done_of(2));
    TEST_ASSERT_EQUAL_STRING_LEN("source 1 (host=", last_words, 15);
    TEST_ASSERT_NOT_NULL_MESSAGE(strstr(words, "source 1 (host="), words);
    TEST_ASSERT_NOT_NULL_MESSAGE(strstr(words, "dbname=pgw_it_"), words);
    TEST_ASSERT_NULL_MESSAGE(strstr(words, "sesame"), words);
    TEST_ASSERT_NULL(strstr(last_words, "sesame"));
}

static void is_named(const char *dsn, const char *expected)
{
    char name[128];
    pgw_conf *c;

    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_conf_new(&c));
    pgw_conf_set(c, "dsn", dsn);
    pgw__pq_server(c, name, sizeof(name));
    TEST_ASSERT_EQUAL_STRING_MESSAGE(expected, name, dsn);
    pgw_conf_free(c);
}

void test_the_name_of_a_database_has_no_part_of_a_password(void)
{
    is_named("host=db port=5433 dbname=app user=me password=sesame",
             "host=db port=5433 dbname=app");
    is_named("postgresql://me:sesame@db:5433/app", "host=db port=5433 dbname=app");
    is_named("postgresql://me:ses@me@db:5433/app", "");
    is_named("postgresql://me:ses/ame@db:5433/app", "");
    is_named("host=db dbname=postgresql://me:sesame@other/app", "host=db");
    is_named("host=db dbname='password=sesame'", "host=db");
    is_named("service=app sslpassword=sesame", "service=app");
    is_named("host=db port", "");
}

/* ---- the end of all ---- */

/* Two jobs of each of two databases run. */
static void begin_with_two_of_each(pgw_handler_fn *fn)
{
    fill(0, NULL, 2);
    fill(1, NULL, 2);
    set("worker.until_empty", "off");
    make(fn, NULL);
    add(1);
    begin();
    await(&called, 4);
}

static atomic_int stopping; /* static: a worker may log after a test that failed */

static void count_stops(pgw_log_level level, const char *component, const char *message, void *arg)
{
    (void)level, (void)component, (void)arg;
    if (strstr(message, "stopping: ") != NULL) atomic_fetch_add(&stopping, 1);
}

void test_a_stop_ends_the_work_for_all_databases(void)
{
    atomic_store(&stopping, 0);
    pgw_conf_set_log(conf, PGW_LOG_INFO, count_stops, NULL);
    begin_with_two_of_each(until_let_go);
    pgw_stop_notify(stop);
    await(&stopping, 2); /* until then a claim may be on its way */
    fill(0, NULL, 5);
    fill(1, NULL, 5);
    atomic_store(&let_go, 1);
    TEST_ASSERT_EQUAL_INT64(4, finish(PGW_OK).completed);
    TEST_ASSERT_EQUAL_INT64(2, done_of(0));
    TEST_ASSERT_EQUAL_INT64(2, done_of(1));
}

static pgw_verdict until_stopping(pgw_task *task, void *arg)
{
    struct pollfd fd = {pgw_task_fd(task), POLLIN, 0};

    (void)arg;
    atomic_fetch_add(&called, 1);
    poll(&fd, 1, PATIENCE_MS);
    if (pgw_task_signals(task) & PGW_SIGNAL_STOPPING) atomic_fetch_add(&seen, 1);
    return PGW_VERDICT_RELEASE;
}

void test_a_second_stop_reaches_handlers_of_all_databases(void)
{
    begin_with_two_of_each(until_stopping);
    pgw_stop_notify(stop);
    pgw_stop_notify(stop);
    TEST_ASSERT_EQUAL_INT64(4, finish(PGW_OK).released);
    TEST_ASSERT_EQUAL_INT(4, atomic_load(&seen));
}

void test_a_worker_with_several_databases_runs_again(void)
{
    set("worker.until_empty", "on");
    make(checks_its_source, NULL);
    add(1);
    for (int i = 1; i <= 2; i++) {
        fill(0, NULL, 10);
        fill(1, NULL, 10);
        TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_worker_run(w, stop));
        TEST_ASSERT_EQUAL_INT64(10 * i, stats_of(0).completed);
        TEST_ASSERT_EQUAL_INT64(10 * i, stats_of(1).completed);
    }
    pgw_worker_free(w);
}

/* ---- what is refused ---- */

void test_a_bad_source_is_refused(void)
{
    pgw_worker_stats s = PGW_WORKER_STATS_INIT;

    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw_worker_add_source(NULL, conf));
    set("worker.concurrency", "0");
    make(noop, NULL);
    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw_worker_add_source(w, NULL));
    TEST_ASSERT_EQUAL_STRING("argument `conf` is NULL: expected a configuration",
                             pgw_worker_error(w));
    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw_worker_add_source(w, conf));
    TEST_ASSERT_NOT_NULL(strstr(pgw_worker_error(w), "`worker.concurrency` 0"));
    pgw_worker_free(w);
    set("worker.concurrency", "1");
    make(noop, NULL);
    for (int i = 1; i < 64; i++) TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_worker_add_source(w, conf));
    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw_worker_add_source(w, conf));
    TEST_ASSERT_NOT_NULL(strstr(pgw_worker_error(w), "64"));
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_worker_get_source_stats(w, 63, &s));
    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw_worker_get_source_stats(w, 64, &s));
    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw_worker_get_source_stats(NULL, 0, &s));
    pgw_worker_free(w);
}

void test_a_running_worker_takes_no_other_source(void)
{
    set("worker.until_empty", "off");
    fill(0, NULL, 1);
    make(until_let_go, NULL);
    begin();
    await(&called, 1);
    TEST_ASSERT_EQUAL_INT(PGW_EMISUSE, pgw_worker_add_source(w, confs[1]));
    atomic_store(&let_go, 1);
    pgw_stop_notify(stop);
    finish(PGW_OK);
}
