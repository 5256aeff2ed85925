/* Handles: opened, attached, forked, and in an event loop of the caller. Longer than 600 lines: all
 * of handles in one program, since each program costs a build and a migration. */
#include "unity.h"
#include "callkit.h"
#include "pgw_all.h"
#include "childkit.h"
#include "pgtemp.h"
#include "wire.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#if __has_include(<libpq-fe.h>)
#include <libpq-fe.h>
#else
#include <postgresql/libpq-fe.h>
#endif

static pgw *h;
static PGconn *conn;
static wire *w;

void setUp(void)
{
    char sql[300];

    pgtemp_exec("DROP TABLE IF EXISTS t; CREATE TABLE t (id int PRIMARY KEY); DROP SCHEMA IF "
                "EXISTS pgwork CASCADE; CREATE SCHEMA pgwork");
    snprintf(sql, sizeof(sql),
             "CREATE FUNCTION pgwork.version() RETURNS int LANGUAGE sql AS 'SELECT %d';"
             "CREATE FUNCTION pgwork.checksums() RETURNS text LANGUAGE sql AS 'SELECT NULL::text'",
             PGW__SCHEMA_MAX > 1 ? PGW__SCHEMA_MAX : 1);
    pgtemp_exec(sql);
}

void tearDown(void)
{
    pgw_close(h);
    h = NULL;
    PQfinish(conn);
    conn = NULL;
    wire_close(w);
    w = NULL;
    unsetenv("PGWORK_DSN");
}

static pgw_status open_with(const char *dsn, const char *name, const char *value)
{
    pgw_conf *conf;
    pgw_status st;

    TEST_ASSERT_EQUAL(PGW_OK, pgw_conf_new(&conf));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_conf_set(conf, "dsn", dsn));
    if (name) TEST_ASSERT_EQUAL(PGW_OK, pgw_conf_set(conf, name, value));
    st = pgw_open(conf, &h);
    pgw_conf_free(conf);
    return st;
}

static void open_raw(const char *dsn)
{
    TEST_ASSERT_EQUAL_STRING("", (open_with(dsn, "schema.check", "off"), pgw_error_message(h)));
}

static pgw_status run(const char *sql, unsigned flags)
{
    pgw__call call = {.flags = flags};

    return pgw__pq_text(h, "test", sql, &call);
}

static pgw_status read_number(pgw *handle, const pgw__rows *rows, void *ctx)
{
    **(int64_t **)ctx = pgw__rows_int(rows, 0, 0);
    return PGW_OK;
}

static pgw_status ask(int64_t *n, const char *sql, unsigned flags)
{
    pgw__call call = {.read = read_number, .ctx = &n, .ctx_size = sizeof(n), .flags = flags};

    return pgw__pq_text(h, "ask", sql, &call);
}

static int64_t number(const char *sql)
{
    int64_t n = -1;

    TEST_ASSERT_EQUAL_MESSAGE(PGW_OK, ask(&n, sql, 0), pgw_error_message(h));
    return n;
}

/* ---- opening ---- */

void test_open_checks_the_schema(void)
{
    TEST_ASSERT_EQUAL(PGW_OK, open_with(pgtemp_dsn(), NULL, NULL));
    TEST_ASSERT_EQUAL_INT64(1, number("SELECT 1"));
    pgw_close(h);
    pgtemp_exec(
        "CREATE OR REPLACE FUNCTION pgwork.version() RETURNS int LANGUAGE sql AS 'SELECT 1000000'");
    TEST_ASSERT_EQUAL(PGW_ESCHEMA, open_with(pgtemp_dsn(), NULL, NULL));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_message(h), "1000000"));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_hint(h), "newer libpgwork"));
    pgw_close(h);
    pgtemp_exec(
        "CREATE OR REPLACE FUNCTION pgwork.version() RETURNS int LANGUAGE sql AS 'SELECT 0'");
    TEST_ASSERT_EQUAL(PGW_ESCHEMA, open_with(pgtemp_dsn(), NULL, NULL));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_hint(h), "pgwork migrate"));
    pgw_close(h);
    pgtemp_exec("DROP SCHEMA pgwork CASCADE");
    TEST_ASSERT_EQUAL(PGW_ESCHEMA, open_with(pgtemp_dsn(), NULL, NULL));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_hint(h), "pgwork migrate"));
    TEST_ASSERT_EQUAL(PGW_ESCHEMA, run("SELECT 1", 0)); /* each new session is asked */
    pgw_close(h);
    TEST_ASSERT_EQUAL(PGW_OK, open_with(pgtemp_dsn(), "schema.check", "off"));
}

void test_a_failed_open_leaves_a_handle_with_the_error(void)
{
    TEST_ASSERT_EQUAL(PGW_ECONN, open_with("host=/nowhere", NULL, NULL));
    TEST_ASSERT_NOT_NULL(h);
    TEST_ASSERT_EQUAL(PGW_ECONN, pgw_error_status(h));
    TEST_ASSERT_EQUAL_STRING("connect", pgw_error_statement(h));
    TEST_ASSERT_TRUE(pgw_is_retriable(pgw_error_status(h)));
    TEST_ASSERT_EQUAL_INT(-1, pgw_fd(h));
    TEST_ASSERT_EQUAL_INT(0, pgw_events(h));
    TEST_ASSERT_EQUAL_INT64(-1, pgw_timeout_ms(h));
}

void test_null_is_refused_as_a_handle(void)
{
    pgw_close(NULL);
    pgw_abandon(NULL);
    TEST_ASSERT_EQUAL(PGW_ENOMEM, pgw_error_status(NULL));
    TEST_ASSERT_EQUAL_STRING(pgw_status_text(PGW_ENOMEM), pgw_error_message(NULL));
    TEST_ASSERT_EQUAL_STRING("", pgw_error_hint(NULL));
    TEST_ASSERT_EQUAL_STRING("", pgw_error_sqlstate(NULL));
    TEST_ASSERT_EQUAL_STRING("", pgw_error_statement(NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_open(NULL, NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_attach(NULL, NULL, NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_is_pooled(NULL, NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_step(NULL));
    TEST_ASSERT_EQUAL_INT(-1, pgw_fd(NULL));
    TEST_ASSERT_EQUAL_INT(0, pgw_events(NULL));
    TEST_ASSERT_EQUAL_INT64(-1, pgw_timeout_ms(NULL));
    TEST_ASSERT_EQUAL_INT64(0, pgw_server_time_us(NULL));
    pgw_set_stop(NULL, NULL);
    pgw_set_timeout(NULL, 1);
    pgw_async(NULL, NULL, NULL);
}

void test_attached_to_nothing_is_refused(void)
{
    pgw *nothing;

    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_attach(NULL, NULL, &nothing));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_message(nothing), "`conn` is NULL"));
    pgw_close(nothing);
}

void test_the_connection_string_comes_from_the_environment(void)
{
    int64_t n;

    setenv("PGWORK_DSN", pgtemp_dsn(), 1);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_open(NULL, &h));
    TEST_ASSERT_EQUAL(PGW_OK, ask(&n, "SELECT count(*) FROM public.t", 0));
    pgw_close(h);
    setenv("PGWORK_DSN", "host=/nowhere", 1);
    TEST_ASSERT_EQUAL(PGW_ECONN, pgw_open(NULL, &h));
}

void test_the_second_host_is_tried(void)
{
    char dsn[1200];

    w = wire_open();
    snprintf(dsn, sizeof(dsn), "%s host=127.0.0.1,127.0.0.1 port=1,%d", wire_dsn(w), wire_port(w));
    open_raw(dsn);
    TEST_ASSERT_EQUAL_INT64(1, number("SELECT 1"));
}

void test_a_server_that_does_not_answer_does_not_hold_open(void)
{
    w = wire_open();
    wire_freeze(w, true);
    TEST_ASSERT_EQUAL(PGW_ECONN, open_with(wire_dsn(w), "connect.timeout_ms", "300"));
    wire_freeze(w, false);
}

void test_the_servers_time_is_kept(void)
{
    open_raw(pgtemp_dsn());
    TEST_ASSERT_EQUAL_INT64(0, pgw_server_time_us(h));
    pgw__pq_set_server_time(h, 42);
    TEST_ASSERT_EQUAL_INT64(42, pgw_server_time_us(h));
}

/* ---- fork ---- */

void test_abandon_in_a_child_leaves_the_parents_session_alone(void)
{
    pid_t child;

    open_raw(pgtemp_dsn());
    child = forked();
    if (child == 0) {
        const bool refused = pgw_txn_rollback(h) == PGW_EMISUSE;

        pgw_abandon(h);
        _exit(refused ? 0 : 1);
    }
    TEST_ASSERT_EQUAL_INT(0, reaped(child));
    TEST_ASSERT_EQUAL_INT64(1, number("SELECT 1"));
    TEST_ASSERT_EQUAL_INT64(1, pgw__pq_epoch(h));
}

/* ---- one at a time ---- */

static pgw_status status_in_log;
static int lines_of_log;

static void call_from_log(pgw_log_level level, const char *component, const char *message,
                          void *arg)
{
    lines_of_log++;
    if (h != NULL) status_in_log = run("SELECT 1", 0);
}

void test_a_handle_in_use_is_not_entered_again(void)
{
    pgw_conf *conf;

    TEST_ASSERT_EQUAL(PGW_OK, pgw_conf_new(&conf));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_conf_set(conf, "dsn", pgtemp_dsn()));
    pgw_conf_set_log(conf, PGW_LOG_DEBUG, call_from_log, NULL);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_open(conf, &h));
    pgw_conf_free(conf);
    status_in_log = PGW_OK;
    TEST_ASSERT_EQUAL(PGW_OK, run("SELECT 1", 0));
    TEST_ASSERT_EQUAL(PGW_EMISUSE, status_in_log);
    TEST_ASSERT_TRUE(lines_of_log > 0);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_error_status(h));
}

/* ---- many threads, signals ---- */

static void *call_beside(void *refused)
{
    if (run("INSERT INTO public.t VALUES (2)", PGW__WRITES) == PGW_EMISUSE)
        atomic_fetch_add((atomic_int *)refused, 1);
    return NULL;
}

static bool is_open; /* pgw_open() has returned: the handle is ours */

static void call_from_threads(pgw_log_level level, const char *component, const char *message,
                              void *refused)
{
    pthread_t threads[32];

    if (!is_open) return;
    for (int i = 0; i < 32; i++)
        TEST_ASSERT_EQUAL_INT(0, pthread_create(&threads[i], NULL, call_beside, refused));
    for (int i = 0; i < 32; i++) pthread_join(threads[i], NULL);
}

void test_a_handle_in_use_refuses_32_other_threads(void)
{
    static atomic_int refused;
    pgw_conf *conf;

    TEST_ASSERT_EQUAL(PGW_OK, pgw_conf_new(&conf));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_conf_set(conf, "dsn", pgtemp_dsn()));
    pgw_conf_set_log(conf, PGW_LOG_DEBUG, call_from_threads, &refused);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_open(conf, &h));
    pgw_conf_free(conf);
    is_open = true;
    TEST_ASSERT_EQUAL(PGW_OK, run("INSERT INTO public.t VALUES (1)", PGW__WRITES));
    is_open = false;
    TEST_ASSERT_TRUE(atomic_load(&refused) > 0 && atomic_load(&refused) % 32 == 0);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_error_status(h));
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number("SELECT sum(id) FROM t"));
}

static volatile sig_atomic_t rung;

static void ring(int signal)
{
    (void)signal;
    rung++;
}

void test_a_storm_of_signals_ends_no_call(void)
{
    const struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    const struct sigaction on = {.sa_handler = ring}; /* without SA_RESTART */
    struct sigaction before;

    TEST_ASSERT_EQUAL_INT(0, sigaction(SIGALRM, &on, &before));
    TEST_ASSERT_EQUAL_INT(0, setitimer(ITIMER_REAL, &often, NULL));
    while (rung < 100) { /* connects, sends, waits and receives, until 100 signals came */
        TEST_ASSERT_EQUAL(PGW_OK, open_with(pgtemp_dsn(), NULL, NULL));
        TEST_ASSERT_EQUAL_INT64(5000000, number("SELECT length(repeat('x', 5000000))"));
        TEST_ASSERT_EQUAL(PGW_OK,
                          run("INSERT INTO public.t SELECT count(*) FROM public.t", PGW__WRITES));
        pgw_close(h);
        h = NULL;
    }
    TEST_ASSERT_EQUAL_INT(0, setitimer(ITIMER_REAL, &never, NULL));
    sigaction(SIGALRM, &before, NULL);
    TEST_ASSERT_EQUAL_INT64(pgtemp_number("SELECT max(id) + 1 FROM t"),
                            pgtemp_number("SELECT count(*) FROM t"));
}

/* ---- attached ---- */

static void attach(void)
{
    if (!conn) conn = pgtemp_connect();
    TEST_ASSERT_EQUAL(PGW_OK, pgw_attach(conn, NULL, &h));
}

static void sql(const char *text)
{
    PQclear(PQexec(conn, text));
}

void test_a_write_to_a_closed_connection_leaves_SIGPIPE_alone(void)
{
    struct sigaction on;
    sigset_t blocked;

    signal(SIGPIPE, SIG_DFL); /* which would end this process */
    attach();
    TEST_ASSERT_EQUAL_INT(0, shutdown(PQsocket(conn), SHUT_WR));
    TEST_ASSERT_EQUAL(PGW_ECONN, run("SELECT 1", 0));
    TEST_ASSERT_EQUAL_INT(0, sigaction(SIGPIPE, NULL, &on));
    TEST_ASSERT_TRUE(on.sa_handler == SIG_DFL);
    TEST_ASSERT_EQUAL_INT(0, pthread_sigmask(SIG_BLOCK, NULL, &blocked));
    TEST_ASSERT_EQUAL_INT(0, sigismember(&blocked, SIGPIPE));
}

void test_attached_joins_the_callers_transaction(void)
{
    attach();
    sql("BEGIN");
    TEST_ASSERT_EQUAL(PGW_OK, run("INSERT INTO t VALUES (1)", PGW__WRITES));
    TEST_ASSERT_EQUAL_INT(PQTRANS_INTRANS, PQtransactionStatus(conn));
    sql("ROLLBACK");
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT count(*) FROM t"));
    sql("BEGIN");
    TEST_ASSERT_EQUAL(PGW_OK, run("INSERT INTO t VALUES (1)", PGW__WRITES));
    sql("COMMIT");
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number("SELECT count(*) FROM t"));
    TEST_ASSERT_EQUAL(PGW_OK,
                      run("INSERT INTO t VALUES (2)", PGW__WRITES)); /* no transaction: by itself */
    TEST_ASSERT_EQUAL_INT64(2, pgtemp_number("SELECT count(*) FROM t"));
}

void test_attached_sends_nothing_into_a_failed_transaction(void)
{
    attach();
    sql("BEGIN");
    TEST_ASSERT_EQUAL(PGW_ESCHEMA, run("SELECT no_such_column", 0));
    TEST_ASSERT_EQUAL_INT(PQTRANS_INERROR, PQtransactionStatus(conn));
    TEST_ASSERT_EQUAL(PGW_ETXN, run("SELECT 1", 0));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_hint(h), "ROLLBACK"));
    TEST_ASSERT_EQUAL_STRING("", pgw_error_sqlstate(h)); /* the server was not asked */
    pgw_close(h);
    TEST_ASSERT_EQUAL(PGW_ETXN, pgw_attach(conn, NULL, &h));
    sql("ROLLBACK");
    TEST_ASSERT_EQUAL(PGW_OK, run("SELECT 1", 0));
}

void test_in_a_read_only_transaction_of_the_caller_no_hint_says_to_connect_elsewhere(void)
{
    attach();
    sql("BEGIN READ ONLY");
    TEST_ASSERT_EQUAL(PGW_EPERM, run("INSERT INTO t VALUES (1)", PGW__WRITES));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_hint(h), "READ WRITE"));
    TEST_ASSERT_NULL(strstr(pgw_error_hint(h), "dsn"));
    sql("ROLLBACK");
    TEST_ASSERT_EQUAL(PGW_OK, run("INSERT INTO t VALUES (1)", PGW__WRITES));
}

void test_attached_to_a_busy_connection_is_misuse(void)
{
    PGresult *res;

    attach();
    TEST_ASSERT_EQUAL_INT(1, PQsendQuery(conn, "SELECT 1"));
    TEST_ASSERT_EQUAL(PGW_EMISUSE, run("SELECT 1", 0));
    while ((res = PQgetResult(conn)) != NULL) PQclear(res);
    TEST_ASSERT_EQUAL_INT(1, PQenterPipelineMode(conn));
    TEST_ASSERT_EQUAL(PGW_EMISUSE, run("SELECT 1", 0));
    TEST_ASSERT_EQUAL_INT(1, PQexitPipelineMode(conn));
    TEST_ASSERT_EQUAL(PGW_OK, run("SELECT 1", 0));
}

static int notices;

static void count_notice(void *arg, const char *message)
{
    notices++;
}

void test_attached_leaves_no_trace(void)
{
    pgw__call call = {.sql = PGW__SQL_HANDLE_VERSION};
    PGnotify *note;

    attach();
    notices = 0;
    PQsetNoticeProcessor(conn, count_notice, NULL);
    sql("SET client_min_messages = notice; LISTEN c; SET TimeZone = 'Asia/Kathmandu'");
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_call(h, &call));
    TEST_ASSERT_EQUAL_INT64(0, number("SELECT count(*) FROM pg_prepared_statements"));
    TEST_ASSERT_EQUAL_INT64(
        1, number("SELECT count(*) WHERE current_setting('TimeZone') = 'Asia/Kathmandu'"));
    TEST_ASSERT_EQUAL(PGW_OK, run("DO $$ BEGIN RAISE NOTICE 'for the caller'; END $$", 0));
    TEST_ASSERT_EQUAL_INT(1, notices);
    TEST_ASSERT_EQUAL_INT(0, PQisnonblocking(conn));
    TEST_ASSERT_EQUAL(PGW_OK, run("NOTIFY c", 0));
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY, pgw__pq_wait(h, 10, -1));
    note = PQnotifies(conn); /* still there for its owner */
    TEST_ASSERT_NOT_NULL(note);
    PQfreemem(note);
    pgw_close(h);
    h = NULL;
    TEST_ASSERT_EQUAL_INT(CONNECTION_OK, PQstatus(conn));
    TEST_ASSERT_EQUAL_INT(PQTRANS_IDLE, PQtransactionStatus(conn));
}

void test_attached_handles_refuse_what_needs_a_session(void)
{
    bool pooled = true;

    attach();
    TEST_ASSERT_EQUAL(PGW_EMISUSE, run("SELECT 1", PGW__OWNED));
    TEST_ASSERT_EQUAL(PGW_EMISUSE, run("SELECT 1", PGW__DIRECT));
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw__pq_begin(h));
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw__pq_commit(h));
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw__pq_rollback(h));
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw__pq_listen(h, "c"));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_is_pooled(h, &pooled));
    TEST_ASSERT_FALSE(pooled);
    TEST_ASSERT_TRUE(pgw__pq_attached(h));
}

void test_attached_needs_utf8(void)
{
    attach();
    TEST_ASSERT_EQUAL_INT(0, PQsetClientEncoding(conn, "LATIN1"));
    TEST_ASSERT_EQUAL(PGW_EMISUSE, run("SELECT 1", 0));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_hint(h), "UTF8"));
    TEST_ASSERT_EQUAL_INT(0, PQsetClientEncoding(conn, "UTF8"));
    TEST_ASSERT_EQUAL(PGW_OK, run("SELECT 1", 0));
}

void test_a_deadline_keeps_an_attached_connection_and_its_death_is_reported(void)
{
    attach();
    pgw_set_timeout(h, 200);
    TEST_ASSERT_EQUAL(PGW_ETIMEDOUT, run("SELECT pg_sleep(60)", PGW__WRITES));
    pgw_set_timeout(h, PGW_DEFAULT);
    TEST_ASSERT_EQUAL(PGW_OK, run("SELECT 1", 0)); /* it was cancelled, the connection is fine */
    sql("BEGIN");
    TEST_ASSERT_EQUAL(PGW_ECONN, run("SELECT pg_terminate_backend(pg_backend_pid())",
                                     PGW__WRITES)); /* no COMMIT: not applied */
    TEST_ASSERT_EQUAL_STRING("57P01", pgw_error_sqlstate(h));
    TEST_ASSERT_EQUAL(PGW_ECONN, run("SELECT 1", 0)); /* never opened again by us */
    pgw_close(h);
    PQfinish(conn);
    conn = NULL;
    attach();
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN,
                      run("SELECT pg_terminate_backend(pg_backend_pid())", PGW__WRITES));
}

void test_attached_in_non_blocking_mode(void)
{
    static char big[1 << 20];
    const pgw__param params[] = {P_TEXT(big), P_END};
    int64_t n = 0, *out = &n;
    pgw__call call = {.params = params, .read = read_number, .ctx = &out, .ctx_size = sizeof(out)};

    memset(big, 'x', sizeof(big) - 1);
    attach();
    TEST_ASSERT_EQUAL_INT(0, PQsetnonblocking(conn, 1));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_text(h, "big", "SELECT length($1)", &call));
    TEST_ASSERT_EQUAL_INT64(sizeof(big) - 1, n);
    TEST_ASSERT_EQUAL_INT(1, PQisnonblocking(conn));
}

void test_an_error_of_a_call_that_sent_nothing_names_no_statement(void)
{
    open_raw(pgtemp_dsn());
    TEST_ASSERT_EQUAL(PGW_EINVAL, run("SELECT 1/0", 0));
    TEST_ASSERT_EQUAL_STRING("test", pgw_error_statement(h));
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw_txn_commit(h));
    TEST_ASSERT_EQUAL_STRING("", pgw_error_statement(h));
    TEST_ASSERT_EQUAL(PGW_EINVAL, run("SELECT 1/0", 0));
    TEST_ASSERT_EQUAL(PGW_EMISUSE,
                      pgw_lock_acquire_xact(h, "l", LOCK_AS(PGW_LOCK_SHARED, 0), NULL));
    TEST_ASSERT_EQUAL_STRING("", pgw_error_statement(h));
}

/* ---- without blocking ---- */

static int calls_of_done;
static pgw_status last_status;

static void done(pgw *handle, pgw_status st, void *arg)
{
    calls_of_done++;
    last_status = st;
    TEST_ASSERT_EQUAL_INT(pgw_error_status(handle), st);
    if (arg) *(pgw_status *)arg = st;
}

/* An event loop of five lines. */
static void loop(void)
{
    pgw_status st = PGW_OUTCOME_AGAIN;

    for (int turns = 0; st == PGW_OUTCOME_AGAIN; turns++) {
        struct pollfd p = {.fd = pgw_fd(h),
                           .events = (short)((pgw_events(h) & PGW_EVENT_READ ? POLLIN : 0) |
                                             (pgw_events(h) & PGW_EVENT_WRITE ? POLLOUT : 0))};

        poll(&p, 1, (int)pgw_timeout_ms(h));
        st = pgw_step(h);
        TEST_ASSERT_TRUE_MESSAGE(turns < 10000, "a busy loop");
    }
    TEST_ASSERT_EQUAL(PGW_OK, st);
}

void test_async_delivers_once_and_fills_the_answer(void)
{
    int64_t n = 0;

    open_raw(pgtemp_dsn());
    calls_of_done = 0;
    TEST_ASSERT_EQUAL_INT(0, pgw_events(h));
    pgw_async(h, done, NULL);
    TEST_ASSERT_EQUAL(PGW_OUTCOME_AGAIN, ask(&n, "SELECT 42", 0));
    TEST_ASSERT_EQUAL_INT(0, calls_of_done);
    TEST_ASSERT_TRUE(pgw_events(h) & PGW_EVENT_READ);
    TEST_ASSERT_TRUE(pgw_timeout_ms(h) > 0);
    TEST_ASSERT_TRUE(pgw_fd(h) >= 0);
    TEST_ASSERT_EQUAL(PGW_EMISUSE, run("SELECT 1", 0)); /* one at a time */
    loop();
    TEST_ASSERT_EQUAL_INT(1, calls_of_done);
    TEST_ASSERT_EQUAL(PGW_OK, last_status);
    TEST_ASSERT_EQUAL_INT64(42, n);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_step(h));
    TEST_ASSERT_EQUAL_INT(1, calls_of_done);
    TEST_ASSERT_EQUAL_INT64(7, number("SELECT 7")); /* armed for one call only */
}

void test_async_copies_its_text(void)
{
    char text[32] = "SELECT 42";
    int64_t n = 0;

    open_raw(pgtemp_dsn());
    pgw_async(h, done, NULL);
    TEST_ASSERT_EQUAL(PGW_OUTCOME_AGAIN, ask(&n, text, 0));
    memset(text, 'x', sizeof(text));
    loop();
    TEST_ASSERT_EQUAL_INT64(42, n);
}

void test_async_failure_at_once_is_not_delivered(void)
{
    const pgw__param params[] = {P_INT4(INT64_MAX), P_END};
    pgw__call call = {.params = params};

    open_raw(pgtemp_dsn());
    calls_of_done = 0;
    pgw_async(h, done, NULL);
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__pq_text(h, "test", "SELECT $1", &call));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_step(h));
    TEST_ASSERT_EQUAL_INT(0, calls_of_done);
    TEST_ASSERT_FALSE(pgw__pq_armed(h));
}

void test_an_async_call_is_prepared_and_answered(void)
{
    int64_t n = 0, *out = &n;
    pgw__call call = {
        .sql = PGW__SQL_HANDLE_VERSION, .read = read_number, .ctx = &out, .ctx_size = sizeof(out)};

    open_raw(pgtemp_dsn());
    for (int i = 0; i < 2; i++) {
        pgw_async(h, done, NULL);
        TEST_ASSERT_EQUAL(PGW_OUTCOME_AGAIN, pgw__pq_call(h, &call));
        loop();
        TEST_ASSERT_EQUAL(PGW_OK, last_status);
        TEST_ASSERT_TRUE(n >= 1);
    }
    TEST_ASSERT_EQUAL_INT64(1, number("SELECT count(*) FROM pg_prepared_statements"));
}

void test_async_errors_and_deadlines_are_delivered(void)
{
    open_raw(pgtemp_dsn());
    calls_of_done = 0;
    pgw_async(h, done, NULL);
    TEST_ASSERT_EQUAL(PGW_OUTCOME_AGAIN, run("SELECT 1/0", 0));
    loop();
    TEST_ASSERT_EQUAL(PGW_EINVAL, last_status);
    TEST_ASSERT_EQUAL_STRING("22012", pgw_error_sqlstate(h));
    pgw_set_timeout(h, 200);
    pgw_async(h, done, NULL);
    TEST_ASSERT_EQUAL(PGW_OUTCOME_AGAIN, run("SELECT pg_sleep(60)", PGW__WRITES));
    loop();
    TEST_ASSERT_EQUAL(PGW_ETIMEDOUT, last_status);
    TEST_ASSERT_EQUAL_INT(2, calls_of_done);
}

void test_async_errors_name_their_own_statement(void)
{
    open_raw(pgtemp_dsn());
    pgw_async(h, done, NULL);
    TEST_ASSERT_EQUAL(PGW_OUTCOME_AGAIN, run("SELECT 1/0", 0));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_queue_pause(h, "")); /* refused meanwhile */
    TEST_ASSERT_EQUAL_STRING("", pgw_error_statement(h));
    loop();
    TEST_ASSERT_EQUAL(PGW_EINVAL, last_status);
    TEST_ASSERT_EQUAL_STRING("test", pgw_error_statement(h));
}

void test_async_reconnects(void)
{
    int64_t n = 0;

    open_raw(pgtemp_dsn());
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_listen(h, "c"));
    TEST_ASSERT_EQUAL(PGW_ECONN, run("SELECT pg_terminate_backend(pg_backend_pid())", 0));
    pgw_async(h, done, NULL);
    TEST_ASSERT_EQUAL(PGW_OUTCOME_AGAIN,
                      ask(&n, "SELECT count(*) FROM pg_listening_channels()", 0));
    loop();
    TEST_ASSERT_EQUAL(PGW_OK, last_status);
    TEST_ASSERT_EQUAL_INT64(1, n);
    TEST_ASSERT_EQUAL_INT64(2, pgw__pq_epoch(h));
}

void test_async_waits_between_attempts_to_connect(void)
{
    TEST_ASSERT_EQUAL(PGW_ECONN, open_with("host=/nowhere", "reconnect.cap_ms", "100"));
    pgw_set_timeout(h, 400);
    calls_of_done = 0;
    pgw_async(h, done, NULL);
    TEST_ASSERT_EQUAL(PGW_OUTCOME_AGAIN, run("SELECT 1", 0));
    TEST_ASSERT_EQUAL_INT(0, pgw_events(h));
    TEST_ASSERT_EQUAL_INT(-1, pgw_fd(h));
    loop();
    TEST_ASSERT_EQUAL(PGW_ECONN, last_status);
    TEST_ASSERT_EQUAL_INT(1, calls_of_done);
}

void test_async_spurious_steps_are_harmless(void)
{
    int64_t n = 0;
    pgw_status st = PGW_OUTCOME_AGAIN;

    w = wire_open();
    open_raw(wire_dsn(w));
    TEST_ASSERT_EQUAL(PGW_ECONN, run("SELECT pg_terminate_backend(pg_backend_pid())", 0));
    pgw_async(h, done, NULL);
    TEST_ASSERT_EQUAL(PGW_OUTCOME_AGAIN, ask(&n, "SELECT 42", 0));
    /* called all the time, whatever poll would say, also while it connects */
    for (int i = 0; i < 1000000 && st == PGW_OUTCOME_AGAIN; i++) st = pgw_step(h);
    while (st == PGW_OUTCOME_AGAIN) poll(NULL, 0, 1), st = pgw_step(h);
    TEST_ASSERT_EQUAL(PGW_OK, st);
    TEST_ASSERT_EQUAL_INT64(42, n);
}

static void start_the_next(pgw *handle, pgw_status st, void *arg)
{
    static int64_t n;
    int *left = arg;

    TEST_ASSERT_EQUAL(PGW_OK, st);
    if (--*left == 0) return;
    pgw_async(handle, start_the_next, arg);
    TEST_ASSERT_EQUAL(PGW_OUTCOME_AGAIN, ask(&n, "SELECT 1", 0));
}

void test_async_done_may_start_the_next(void)
{
    int64_t n;
    int left = 5;

    open_raw(pgtemp_dsn());
    pgw_async(h, start_the_next, &left);
    TEST_ASSERT_EQUAL(PGW_OUTCOME_AGAIN, ask(&n, "SELECT 1", 0));
    loop();
    TEST_ASSERT_EQUAL_INT(0, left);
}

static pgw_status read_refusal(pgw *handle, const pgw__rows *rows, void *ctx)
{
    return pgw__pq_fail(handle, PGW_ELEASE, "refused", NULL);
}

static void start_what_was_armed(pgw *handle, pgw_status st, void *arg)
{
    static int64_t n;

    TEST_ASSERT_EQUAL(PGW_ELEASE, st);
    *(pgw_status *)arg = ask(&n, "SELECT 1", 0);
}

void test_async_arms_the_next_also_while_one_that_fails_is_under_way(void)
{
    const pgw__call call = {.read = read_refusal};
    pgw_status st = PGW_OK;

    open_raw(pgtemp_dsn());
    calls_of_done = 0;
    pgw_async(h, start_what_was_armed, &st);
    TEST_ASSERT_EQUAL(PGW_OUTCOME_AGAIN, pgw__pq_text(h, "test", "SELECT 1", &call));
    pgw_async(h, done, NULL);
    loop();
    TEST_ASSERT_EQUAL(PGW_OUTCOME_AGAIN, st);
    TEST_ASSERT_EQUAL_INT(1, calls_of_done);
    TEST_ASSERT_EQUAL(PGW_OK, last_status);
}

static void close_it(pgw *handle, pgw_status st, void *arg)
{
    pgw_close(handle);
    *(bool *)arg = true;
}

void test_async_done_may_close_the_handle(void)
{
    bool closed = false;

    open_raw(pgtemp_dsn());
    pgw_async(h, close_it, &closed);
    TEST_ASSERT_EQUAL(PGW_OUTCOME_AGAIN, run("SELECT 1", 0));
    loop();
    TEST_ASSERT_TRUE(closed);
    h = NULL;
}

void test_async_close_in_flight_is_quiet(void)
{
    open_raw(pgtemp_dsn());
    calls_of_done = 0;
    pgw_async(h, done, NULL);
    TEST_ASSERT_EQUAL(PGW_OUTCOME_AGAIN, run("SELECT pg_sleep(60)", 0));
    pgw_close(h);
    h = NULL;
    TEST_ASSERT_EQUAL_INT(0, calls_of_done);
}

void test_async_on_the_callers_connection(void)
{
    int64_t n = 0;

    attach();
    sql("BEGIN");
    pgw_async(h, done, NULL);
    TEST_ASSERT_EQUAL(PGW_OUTCOME_AGAIN, ask(&n, "SELECT 42", 0));
    loop();
    TEST_ASSERT_EQUAL_INT64(42, n);
    TEST_ASSERT_EQUAL_INT(PQTRANS_INTRANS, PQtransactionStatus(conn));
}

void test_verbs_that_block_refuse_when_armed(void)
{
    bool pooled = true;

    open_raw(pgtemp_dsn());
    pgw_async(h, done, NULL);
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw__pq_begin(h));
    TEST_ASSERT_FALSE(pgw__pq_armed(h));
    pgw_async(h, done, NULL);
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw__pq_copy_begin(h, "load", "COPY public.t FROM STDIN"));
    pgw_async(h, done, NULL);
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw_is_pooled(h, &pooled));
    TEST_ASSERT_FALSE(pooled);
    TEST_ASSERT_EQUAL_INT64(1, number("SELECT 1"));
}
