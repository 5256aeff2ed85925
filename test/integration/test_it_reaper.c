/* The loop of the reaper on a real server. */
#include "unity.h"
#include "pgw_all.h"
#include "pgtemp.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE_MS 60000

static pgw_conf *conf, *other_conf;
static pgw_stop *stop;
static pgw *h;
static char queue[32];
static atomic_int ticks, refusals;

typedef struct run {
    pthread_t thread;
    pgw_reaper *r;
    pgw_status st;
    long long reaped; /* so far, as it told; to be read when it has ended */
} run;

static void must(pgw_status st)
{
    if (st < 0) TEST_FAIL_MESSAGE(pgw_error_message(h));
}

static void set(pgw_conf *c, const char *name, const char *value)
{
    TEST_ASSERT_EQUAL_INT_MESSAGE(PGW_OK, pgw_conf_set(c, name, value), name);
}

void setUp(void)
{
    static int number;

    atomic_store(&ticks, 0);
    atomic_store(&refusals, 0);
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_stop_new(&stop));
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_conf_new(&conf));
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_conf_new(&other_conf));
    set(conf, "dsn", pgtemp_dsn());
    set(conf, "schema.check", number == 0 ? "off" : "on");
    set(conf, "reconnect.base_ms", "1");
    must(pgw_open(conf, &h));
    if (number == 0) must(pgw_migrate_up(h, NULL));
    set(conf, "schema.check", "on");
    snprintf(queue, sizeof(queue), "queue %d", number++);
    must(pgw_queue_create(h, queue, NULL));
}

void tearDown(void)
{
    pgw_close(h);
    pgw_conf_free(conf);
    pgw_conf_free(other_conf);
    pgw_stop_free(stop);
}

/* ---- tools ---- */

static void nap(int ms)
{
    poll(NULL, 0, ms);
}

static void await_ticks(int more)
{
    const int until = atomic_load(&ticks) + more;
    int i;

    for (i = 0; i < PATIENCE_MS && atomic_load(&ticks) < until; i++) nap(1);
    if (atomic_load(&ticks) < until) TEST_FAIL_MESSAGE("the reaper does not tick");
}

static void await_number(long long number, const char *sql)
{
    int i;

    for (i = 0; i < PATIENCE_MS / 10 && pgtemp_number(sql) != number; i++) nap(10);
    TEST_ASSERT_EQUAL_INT64_MESSAGE(number, pgtemp_number(sql), sql);
}

static const char *count_of(const char *state)
{
    static char sql[200];

    snprintf(sql, sizeof(sql),
             "SELECT count(*) FROM pgwork.job WHERE queue = '%s' AND state = '%s'", queue, state);
    return sql;
}

/* n jobs under leases that have run out. */
static void expired_jobs(int n)
{
    const char *const queues[] = {queue};
    pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_batch *b;
    int i;

    for (i = 0; i < n; i++) must(pgw_enqueue(h, queue, &job, NULL));
    o.queues = queues, o.queues_count = 1, o.max = n, o.lease_ms = 100;
    must(pgw_claim(h, &o, &b));
    TEST_ASSERT_EQUAL_INT(n, pgw_batch_count(b));
    pgw_batch_free(b);
    nap(150);
}

static void on_tick(const pgw_reap_stats *stats, void *arg)
{
    run *x = arg;

    x->reaped = (long long)(stats->reaped + stats->died);
    atomic_fetch_add(&ticks, 1);
}

static void *run_it(void *arg)
{
    run *x = arg;

    x->st = pgw_reaper_run(x->r, stop);
    return NULL;
}

static void start(run *x)
{
    x->reaped = 0;
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_reaper_new(conf, &x->r));
    pgw_reaper_on_tick(x->r, on_tick, x);
    TEST_ASSERT_EQUAL_INT(0, pthread_create(&x->thread, NULL, run_it, x));
}

static void finish(run *x, pgw_status expected)
{
    pgw_stop_notify(stop);
    pthread_join(x->thread, NULL);
    if (x->st != expected) TEST_FAIL_MESSAGE(pgw_reaper_error(x->r));
}

/* ---- what it is for ---- */

void test_jobs_of_dead_workers_are_requeued_in_the_first_pass(void)
{
    run x;

    expired_jobs(30);
    start(&x);
    await_ticks(1);
    await_number(30, count_of("ready"));
    finish(&x, PGW_OK);
    TEST_ASSERT_EQUAL_INT64(30, x.reaped);
    TEST_ASSERT_EQUAL_STRING("", pgw_reaper_error(x.r));
    pgw_reaper_free(x.r);
}

static atomic_int heard;

static void hear_stuck(pgw_log_level level, const char *component, const char *message, void *arg)
{
    (void)arg, (void)level;
    if (strcmp(component, "reap") == 0 && strstr(message, "job ") != NULL)
        atomic_fetch_add(&heard, 1);
}

/* Whoever mends it has to know of it; but not four times a second. */
void test_a_job_that_cannot_be_requeued_is_reported_once(void)
{
    char sql[300];
    run x;

    expired_jobs(5);
    snprintf(sql, sizeof(sql),
             "ALTER TABLE pgwork.live_job ADD CONSTRAINT odd CHECK (token IS NOT NULL OR id IS "
             "DISTINCT FROM %lld)",
             pgtemp_number("SELECT max(id) FROM pgwork.job WHERE state = 'leased'"));
    pgtemp_exec(sql);
    atomic_store(&heard, 0);
    pgw_conf_set_log(conf, PGW_LOG_WARN, hear_stuck, NULL);
    start(&x);
    await_number(4, count_of("ready"));
    await_number(1, "SELECT count(*) FROM pgwork.stuck_jobs WHERE tries > 1");
    pgtemp_exec("ALTER TABLE pgwork.live_job DROP CONSTRAINT odd");
    await_number(5, count_of("ready")); /* it was tried again */
    finish(&x, PGW_OK);
    pgw_reaper_free(x.r);
    TEST_ASSERT_EQUAL_INT(1, atomic_load(&heard));
}

void test_a_tick_inside_a_transaction_is_refused(void)
{
    must(pgw_txn_begin(h));
    TEST_ASSERT_EQUAL_INT(PGW_EMISUSE, pgw_reaper_tick(h, NULL, NULL));
    must(pgw_txn_commit(h));
    must(pgw_reaper_tick(h, NULL, NULL));
}

void test_more_than_one_batch_is_taken_at_once(void)
{
    run x;

    set(conf, "reaper.batch", "7");
    expired_jobs(100);
    start(&x);
    await_number(100, count_of("ready"));
    finish(&x, PGW_OK);
    pgw_reaper_free(x.r);
}

void test_a_delayed_job_comes_in_at_its_time(void)
{
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    run x;

    start(&x);
    await_ticks(1);
    job.delay_ms = 5000;
    must(pgw_enqueue(h, queue, &job, NULL));
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number(count_of("delayed")));
    await_number(1, count_of("ready"));
    finish(&x, PGW_OK);
    pgw_reaper_free(x.r);
}

void test_a_live_lease_is_left_alone(void)
{
    const char *const queues[] = {queue};
    pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_batch *b;
    run x;

    must(pgw_enqueue(h, queue, &job, NULL));
    o.queues = queues, o.queues_count = 1, o.lease_ms = 3600000; /* in later tests, too */
    must(pgw_claim(h, &o, &b));
    pgw_batch_free(b);
    start(&x);
    await_ticks(5);
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number(count_of("leased")));
    finish(&x, PGW_OK);
    TEST_ASSERT_EQUAL_INT64(0, x.reaped);
    pgw_reaper_free(x.r);
}

void test_several_reapers_take_each_job_once(void)
{
    long long reaped = 0;
    run x[3];
    char sql[200];
    int i;

    set(conf, "reaper.batch", "10");
    expired_jobs(500);
    for (i = 0; i < 3; i++) start(&x[i]);
    await_number(500, count_of("ready"));
    for (i = 0; i < 3; i++) finish(&x[i], PGW_OK);
    for (i = 0; i < 3; i++) {
        reaped += x[i].reaped;
        pgw_reaper_free(x[i].r);
    }
    TEST_ASSERT_EQUAL_INT64(500, reaped);
    snprintf(sql, sizeof(sql), "SELECT count(*) FROM pgwork.job WHERE queue = '%s'", queue);
    TEST_ASSERT_EQUAL_INT64(500, pgtemp_number(sql)); /* none is there twice */
    snprintf(sql, sizeof(sql),
             "SELECT count(DISTINCT id) FROM pgwork.job WHERE queue = '%s' AND attempt = 1", queue);
    TEST_ASSERT_EQUAL_INT64(500, pgtemp_number(sql));
}

void test_it_shows_that_it_lives(void)
{
    run x;

    pgtemp_exec("DELETE FROM pgwork.beat");
    set(conf, "holder", "the reaper of this test");
    start(&x);
    await_number(1, "SELECT count(*) FROM pgwork.beat WHERE role = 'reaper' AND name = 'the reaper "
                    "of this test'");
    finish(&x, PGW_OK);
    pgw_reaper_free(x.r);
}

/* ---- what it survives ---- */

void test_lost_connections_are_survived(void)
{
    run x;
    int i;

    set(conf, "application_name", "mortal");
    start(&x);
    for (i = 0; i < 10; i++) {
        await_ticks(1);
        pgtemp_exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name "
                    "= 'mortal'");
    }
    expired_jobs(5);
    await_number(5, count_of("ready"));
    finish(&x, PGW_OK);
    TEST_ASSERT_TRUE(pgw_reaper_error(x.r)[0] != '\0'); /* the last one is told */
    pgw_reaper_free(x.r);
}

static void hear_refusal(pgw_log_level level, const char *component, const char *message, void *arg)
{
    (void)arg, (void)level;
    if (strcmp(component, "pq") == 0 && strstr(message, "25006") != NULL)
        atomic_fetch_add(&refusals, 1);
}

void test_a_server_that_turns_read_only_is_outlived(void)
{
    run x;
    int i;

    set(conf, "application_name", "switched");
    pgw_conf_set_log(conf, PGW_LOG_DEBUG, hear_refusal, NULL);
    start(&x);
    await_ticks(1);
    pgtemp_read_only(true);
    pgtemp_exec("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE "
                "datname = current_database() AND application_name = 'switched'");
    for (i = 0; i < PATIENCE_MS && atomic_load(&refusals) < 3; i++) nap(1);
    pgtemp_read_only(false);
    TEST_ASSERT_GREATER_OR_EQUAL_INT(3, atomic_load(&refusals));
    expired_jobs(5);
    await_number(5, count_of("ready"));
    finish(&x, PGW_OK);
    pgw_reaper_free(x.r);
}

static void hear_trouble(pgw_log_level level, const char *component, const char *message, void *arg)
{
    (void)arg, (void)level, (void)message;
    if (strcmp(component, "reaper") == 0) atomic_fetch_add(&refusals, 1);
}

#define NOWHERE "/nowhere/0123456789012345678901234567890123456789"

/* Of each of these hosts libpq says what was the matter. */
void test_long_diagnostics_do_not_hide_what_to_do(void)
{
    run x;
    int i;

    set(conf, "dsn", "host=" NOWHERE "," NOWHERE "," NOWHERE "," NOWHERE);
    pgw_conf_set_log(conf, PGW_LOG_DEBUG, hear_trouble, NULL);
    start(&x);
    for (i = 0; i < PATIENCE_MS && atomic_load(&refusals) == 0; i++) nap(1);
    finish(&x, PGW_OK);
    TEST_ASSERT_NOT_NULL_MESSAGE(strstr(pgw_reaper_error(x.r), "that the server runs"),
                                 pgw_reaper_error(x.r));
    pgw_reaper_free(x.r);
}

static void hear_cancel(pgw_log_level level, const char *component, const char *message, void *arg)
{
    (void)arg, (void)level;
    if (strcmp(component, "reaper") == 0 && strstr(message, "57014") != NULL)
        atomic_fetch_add(&refusals, 1);
}

/* By an administrator, or a trigger that asks a server where it takes too long: it is not a stop of
 * ours, and nothing is requeued meanwhile. */
void test_a_pass_that_the_server_cancels_is_reported(void)
{
    run x;

    expired_jobs(5);
    pgtemp_exec("CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE "
                "EXCEPTION USING ERRCODE = ''57014''; END';"
                "CREATE TRIGGER slow BEFORE INSERT ON pgwork.live_job FOR EACH ROW EXECUTE "
                "FUNCTION slow()");
    pgw_conf_set_log(conf, PGW_LOG_WARN, hear_cancel, NULL);
    start(&x);
    for (int i = 0; i < PATIENCE_MS && atomic_load(&refusals) == 0; i++) nap(1);
    pgtemp_exec("DROP FUNCTION slow() CASCADE");
    TEST_ASSERT_GREATER_THAN_INT(0, atomic_load(&refusals));
    await_number(5, count_of("ready"));
    finish(&x, PGW_OK);
    pgw_reaper_free(x.r);
}

void test_a_stop_ends_the_wait_while_there_is_no_server(void)
{
    run x;

    set(conf, "dsn", "host=/nonexistent");
    set(conf, "reconnect.base_ms", "3600000");
    set(conf, "reconnect.cap_ms", "3600000");
    pgw_conf_set_log(conf, PGW_LOG_DEBUG, hear_trouble, NULL);
    start(&x);
    for (int i = 0; i < PATIENCE_MS && atomic_load(&refusals) == 0; i++) nap(1);
    finish(&x, PGW_OK);
    TEST_ASSERT_NOT_NULL(strstr(pgw_reaper_error(x.r), "nonexistent"));
    TEST_ASSERT_EQUAL_INT(0, atomic_load(&ticks));
    pgw_reaper_free(x.r);
}

void test_without_a_schema_it_gives_up_and_says_so(void)
{
    run x;

    set(conf, "schema", "nowhere");
    start(&x);
    pthread_join(x.thread, NULL);
    TEST_ASSERT_EQUAL_INT(PGW_ESCHEMA, x.st);
    TEST_ASSERT_TRUE(pgw_reaper_error(x.r)[0] != '\0');
    pgw_reaper_free(x.r);
}

/* ---- reload ---- */

static const pgw_conf *fetch(void *arg)
{
    return arg;
}

void test_a_reload_opens_a_session_with_the_new_configuration(void)
{
    run x;

    set(conf, "application_name", "before");
    set(other_conf, "application_name", "after");
    set(other_conf, "dsn", pgtemp_dsn());
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_reaper_new(conf, &x.r));
    pgw_reaper_on_tick(x.r, on_tick, &x);
    pgw_reaper_on_reload(x.r, fetch, other_conf);
    TEST_ASSERT_EQUAL_INT(0, pthread_create(&x.thread, NULL, run_it, &x));
    await_number(1, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'before'");
    pgw_reaper_reload(x.r);
    await_number(1, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'after'");
    await_number(0, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'before'");
    await_ticks(2);
    finish(&x, PGW_OK);
    pgw_reaper_free(x.r);
}

void test_a_reload_that_offers_nothing_changes_nothing(void)
{
    run x;

    set(conf, "application_name", "steady");
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_reaper_new(conf, &x.r));
    pgw_reaper_on_tick(x.r, on_tick, &x);
    pgw_reaper_on_reload(x.r, fetch, NULL);
    TEST_ASSERT_EQUAL_INT(0, pthread_create(&x.thread, NULL, run_it, &x));
    await_ticks(1);
    pgw_reaper_reload(x.r);
    await_ticks(3);
    await_number(1, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'steady'");
    finish(&x, PGW_OK);
    pgw_reaper_free(x.r);
}

static void *no_memory(void *ctx, size_t size)
{
    return NULL;
}

static void *no_more_memory(void *ctx, void *ptr, size_t size)
{
    return NULL;
}

static void give_back(void *ctx, void *ptr)
{
    free(ptr);
}

static const pgw_conf *fetch_what_there_is_no_memory_for(void *arg)
{
    static const pgw_allocator none = {NULL, no_memory, no_more_memory, give_back};

    pgw_set_allocator(&none);
    return arg;
}

void test_a_reload_without_memory_ends_it_and_says_so(void)
{
    pgw_reaper *r;
    pgw_status st;

    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_reaper_new(conf, &r));
    pgw_reaper_on_reload(r, fetch_what_there_is_no_memory_for, other_conf);
    pgw_reaper_reload(r);
    st = pgw_reaper_run(r, stop);
    pgw_set_allocator(NULL);
    TEST_ASSERT_EQUAL_INT(PGW_ENOMEM, st);
    TEST_ASSERT_NOT_NULL(strstr(pgw_reaper_error(r), "memory"));
    pgw_reaper_free(r);
}
