/* One test for each rule of the connection (doc/rules.md): behaviour that was seen of libpq, a
 * server, a network or a pooler. Longer than 600 lines: one test for each rule of doc/rules.md, in
 * the order of that page. */
#include "unity.h"
#include "pgw_all.h"
#include "childkit.h"
#include "pgtemp.h"
#include "wire.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#if __has_include(<libpq-fe.h>)
#include <libpq-fe.h>
#else
#include <postgresql/libpq-fe.h>
#endif

static pgw *h;
static wire *w;

void setUp(void)
{
    pgtemp_exec("DROP TABLE IF EXISTS t CASCADE; CREATE TABLE t (id int PRIMARY KEY, v text)");
}

void tearDown(void)
{
    pgw_close(h);
    wire_close(w);
    h = NULL;
    w = NULL;
}

static pgw_status open_at(const char *dsn, const char *name, const char *value)
{
    pgw_conf *conf;
    pgw_status st;

    TEST_ASSERT_EQUAL(PGW_OK, pgw_conf_new(&conf));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_conf_set(conf, "dsn", dsn));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_conf_set(conf, "schema.check", "off"));
    if (name) TEST_ASSERT_EQUAL(PGW_OK, pgw_conf_set(conf, name, value));
    st = pgw_open(conf, &h);
    pgw_conf_free(conf);
    return st;
}

static void open_direct(void)
{
    TEST_ASSERT_EQUAL(PGW_OK, open_at(pgtemp_dsn(), NULL, NULL));
}

static void open_through_wire(void)
{
    if (!w) w = wire_open();
    TEST_ASSERT_EQUAL(PGW_OK, open_at(wire_dsn(w), NULL, NULL));
}

static char text_read[256];

static pgw_status read_text(pgw *handle, const pgw__rows *rows, void *ctx)
{
    const char *text = pgw__rows_count(rows) > 0 ? pgw__rows_text(rows, 0, 0, NULL) : NULL;

    snprintf(text_read, sizeof(text_read), "%s", text ? text : "(null)");
    return PGW_OK;
}

static pgw_status run(const char *sql, unsigned flags, int64_t timeout_ms)
{
    pgw__call call = {.flags = flags, .timeout_ms = timeout_ms};

    return pgw__pq_text(h, "test", sql, &call);
}

static pgw_status ask(const char *sql, unsigned flags, int64_t timeout_ms)
{
    pgw__call call = {.read = read_text, .flags = flags, .timeout_ms = timeout_ms};

    text_read[0] = '\0';
    return pgw__pq_text(h, "test", sql, &call);
}

static const char *answer(const char *sql)
{
    TEST_ASSERT_EQUAL_MESSAGE(PGW_OK, ask(sql, 0, 0), pgw_error_message(h));
    return text_read;
}

static bool contains(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

static void terminate(const char *pid)
{
    char sql[128];

    snprintf(sql, sizeof(sql), "SELECT count(pg_terminate_backend(%s, 5000))", pid);
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number(sql));
}

/* ---- errors ---- */

void test_R01_first_error_is_kept(void)
{
    PGconn *conn;

    open_direct();
    /* the session ends itself: 57P01, then a second result without any SQLSTATE */
    TEST_ASSERT_EQUAL(PGW_ECONN, ask("SELECT pg_terminate_backend(pg_backend_pid())::text", 0, 0));
    TEST_ASSERT_EQUAL_STRING("57P01", pgw_error_sqlstate(h));
    TEST_ASSERT_EQUAL_STRING("1", answer("SELECT '1'"));
    TEST_ASSERT_EQUAL_INT64(2, pgw__pq_epoch(h));
    /* the same for a write, whose outcome nobody knows now */
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN,
                      ask("SELECT pg_terminate_backend(pg_backend_pid())::text", PGW__WRITES, 0));
    TEST_ASSERT_EQUAL_STRING("57P01", pgw_error_sqlstate(h));
    TEST_ASSERT_TRUE(pgw_is_unknown(pgw_error_status(h)));
    pgw_close(h);
    /* a connection of the caller's is read to its end, and the later results do not hide the first
     */
    conn = pgtemp_connect();
    TEST_ASSERT_EQUAL(PGW_OK, pgw_attach(conn, NULL, &h));
    TEST_ASSERT_EQUAL(PGW_ECONN, ask("SELECT pg_terminate_backend(pg_backend_pid())::text", 0, 0));
    TEST_ASSERT_EQUAL_STRING("57P01", pgw_error_sqlstate(h));
    PQfinish(conn);
}

/* A write whose connection is cut in the midst of the answer, right after a warning. */
static void warned_and_cut(const char *sqlstate, const char *text)
{
    size_t n;
    const char *warning = wire_message('N', "WARNING", sqlstate, text, &n);

    open_through_wire();
    wire_at(w, 'D', 1, warning, n, WIRE_CUT);
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN, ask("SELECT 'x'", PGW__WRITES, 0));
}

void test_R02_a_crash_of_the_server_is_reported_by_a_warning(void)
{
    warned_and_cut("57P02", "terminating connection because of crash");
    TEST_ASSERT_EQUAL_STRING("57P02", pgw_error_sqlstate(h));
    TEST_ASSERT_TRUE(contains(pgw_error_hint(h), "crash"));
    TEST_ASSERT_EQUAL_INT(1, wire_orders(w));
    TEST_ASSERT_EQUAL_STRING("again", answer("SELECT 'again'"));
}

void test_R02_another_warning_before_the_end_is_not_the_cause(void)
{
    warned_and_cut("25P01", "SET TRANSACTION can only be used in blocks");
    TEST_ASSERT_EQUAL_STRING("", pgw_error_sqlstate(h));
    TEST_ASSERT_EQUAL_STRING("again", answer("SELECT 'again'"));
}

void test_R03_an_error_without_sqlstate_is_a_dead_connection(void)
{
    open_through_wire();
    wire_at(w, 'D', 1, NULL, 0, WIRE_CUT);
    TEST_ASSERT_EQUAL(PGW_ECONN, ask("SELECT 'x'", 0, 0));
    TEST_ASSERT_EQUAL_STRING("", pgw_error_sqlstate(h));
    TEST_ASSERT_EQUAL_INT(-1, pgw_fd(h));
    TEST_ASSERT_EQUAL_STRING("again", answer("SELECT 'again'"));
    TEST_ASSERT_EQUAL_INT(2, wire_connections(w));
}

void test_R03_fatal_is_a_dead_connection_even_if_it_stays_open(void)
{
    size_t n;
    const char *fatal = wire_message('E', "FATAL", "57P05",
                                     "terminating connection due to idle-session timeout", &n);

    open_through_wire();
    wire_at(w, 'D', 1, fatal, n, WIRE_SILENT);
    TEST_ASSERT_EQUAL(PGW_ECONN, ask("SELECT 'x'", 0, 20000));
    TEST_ASSERT_EQUAL_STRING("57P05", pgw_error_sqlstate(h));
    TEST_ASSERT_EQUAL_STRING("again", answer("SELECT 'again'"));
}

void test_R03_a_connection_of_which_the_server_closed_its_half_is_dead(void)
{
    open_through_wire();
    wire_at(w, 'Z', 1, NULL, 0, WIRE_HALF);
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN, run("INSERT INTO public.t VALUES (1)", PGW__WRITES, 0));
    TEST_ASSERT_EQUAL_STRING("1", answer("SELECT '1'"));
    wire_at(w, 'Z', 1, NULL, 0, WIRE_HALF);
    TEST_ASSERT_EQUAL(PGW_ECONN, ask("SELECT '2'", 0, 0)); /* it was not waited for */
    TEST_ASSERT_EQUAL_STRING("3", answer("SELECT '3'"));
}

void test_R04_a_failed_connect_has_its_sqlstate(void)
{
    char dsn[1200];

    snprintf(dsn, sizeof(dsn), "%s dbname=there_is_none", pgtemp_dsn());
    TEST_ASSERT_EQUAL(PGW_ESCHEMA, open_at(dsn, NULL, NULL));
    TEST_ASSERT_EQUAL_STRING("3D000", pgw_error_sqlstate(h));
    pgw_close(h);

    snprintf(dsn, sizeof(dsn), "%s user=there_is_none", pgtemp_dsn());
    TEST_ASSERT_EQUAL(PGW_EPERM, open_at(dsn, NULL, NULL));
    TEST_ASSERT_EQUAL_STRING("28000", pgw_error_sqlstate(h));
    pgw_close(h);

    TEST_ASSERT_EQUAL(PGW_ECONN, open_at("host=/nowhere port=1", NULL, NULL));
    TEST_ASSERT_EQUAL_STRING("", pgw_error_sqlstate(h));
    TEST_ASSERT_TRUE(contains(pgw_error_message(h), "/nowhere"));
    TEST_ASSERT_TRUE(contains(pgw_error_hint(h), "dsn"));
}

/* No network is at fault, and no schema: to try again is of no use. */
TEST_CASE("-c no_such_setting=1", "42704")
TEST_CASE("-c work_mem=much", "22023")
void test_R04_a_refused_setting_is_not_a_missing_server(const char *options, const char *sqlstate)
{
    char dsn[1200];

    snprintf(dsn, sizeof(dsn), "%s options='%s'", pgtemp_dsn(), options);
    TEST_ASSERT_EQUAL(PGW_EINVAL, open_at(dsn, NULL, NULL));
    TEST_ASSERT_EQUAL_STRING(sqlstate, pgw_error_sqlstate(h));
    TEST_ASSERT_TRUE(contains(pgw_error_hint(h), "PGOPTIONS"));
    TEST_ASSERT_TRUE(pgw__status_is_hopeless(pgw__pq_in_loop(h, PGW_EINVAL)));
}

/* libpq gives up by itself, without a word of the server's. */
void test_R04_a_missing_password_is_not_a_missing_server(void)
{
    static const char ask_for_it[] = {'R', 0, 0, 0, 8, 0, 0, 0, 3};

    w = wire_open();
    wire_at(w, 'R', 1, ask_for_it, sizeof(ask_for_it), WIRE_PASS);
    TEST_ASSERT_EQUAL(PGW_EPERM, open_at(wire_dsn(w), "connect.timeout_ms", "20000"));
    TEST_ASSERT_TRUE(contains(pgw_error_message(h), "password"));
    TEST_ASSERT_TRUE(contains(pgw_error_hint(h), "PGPASSFILE"));
}

/* libpq says whose password it was behind the server's refusal. */
void test_R04_a_wrong_password_of_a_file_is_not_a_missing_server(void)
{
    static const char ask_for_it[] = {'R', 0, 0, 0, 8, 0, 0, 0, 3};
    char file[] = "/tmp/pgwork.passwords.XXXXXX", dsn[1200], messages[300];
    const int fd = mkstemp(file);
    const char *refusal;
    size_t n;

    /* in no name of a temporary file: a message with a password in it is not shown */
    TEST_ASSERT_EQUAL_INT(10, write(fd, "*:*:*:*:~\n", 10));
    close(fd);
    w = wire_open();
    snprintf(dsn, sizeof(dsn), "%s passfile=%s", wire_dsn(w), file);
    refusal = wire_message('E', "FATAL", "28P01", "password authentication failed", &n);
    memcpy(messages, ask_for_it, sizeof(ask_for_it));
    memcpy(messages + sizeof(ask_for_it), refusal, n);
    wire_at(w, 'R', 1, messages, sizeof(ask_for_it) + n, WIRE_SILENT);
    TEST_ASSERT_EQUAL(PGW_EPERM, open_at(dsn, NULL, NULL));
    unlink(file);
    TEST_ASSERT_EQUAL_STRING("28P01", pgw_error_sqlstate(h));
    TEST_ASSERT_TRUE(contains(pgw_error_message(h), file));
}

/* Where TLS is only preferred, libpq tries without it after any failure, and a server that insists
 * on TLS refuses that for ever. */
void test_R04_a_cut_of_TLS_is_a_passing_state(void)
{
    const char *refusal;
    size_t n;

    w = wire_open();
    wire_break_tls(w, 1);
    refusal = wire_message('E', "FATAL", "28000", "no pg_hba.conf entry, no encryption", &n);
    wire_at(w, 'R', 1, refusal, n, WIRE_CUT);
    TEST_ASSERT_EQUAL(PGW_ECONN, open_at(wire_dsn(w), NULL, NULL));
    TEST_ASSERT_TRUE(contains(pgw_error_message(h), "28000"));
    TEST_ASSERT_EQUAL_STRING("in", answer("SELECT 'in'"));
}

void test_R04_too_many_connections_is_a_passing_state(void)
{
    char dsn[1200], role[64], sql[256];

    snprintf(role, sizeof(role), "pgw_rules_full_%ld", (long)getpid());
    snprintf(sql, sizeof(sql), "CREATE ROLE %s LOGIN CONNECTION LIMIT 0", role);
    pgtemp_exec(sql);
    snprintf(dsn, sizeof(dsn), "%s user=%s", pgtemp_dsn(), role);
    TEST_ASSERT_EQUAL(PGW_ECONN, open_at(dsn, NULL, NULL));
    TEST_ASSERT_EQUAL_STRING("53300", pgw_error_sqlstate(h));
    snprintf(sql, sizeof(sql), "ALTER ROLE %s CONNECTION LIMIT 1", role);
    pgtemp_exec(sql);
    TEST_ASSERT_EQUAL_STRING("in", answer("SELECT 'in'"));
    pgw_close(h);
    h = NULL;
    snprintf(
        sql, sizeof(sql),
        "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE usename = '%s'",
        role);
    pgtemp_number(sql);
    snprintf(sql, sizeof(sql), "DROP ROLE %s", role);
    pgtemp_exec(sql);
}

void test_R05_the_answer_is_believed_only_after_the_commit(void)
{
    pgtemp_exec(
        "CREATE TABLE d (id int UNIQUE DEFERRABLE INITIALLY DEFERRED); INSERT INTO d VALUES (1)");
    open_direct();
    TEST_ASSERT_EQUAL(PGW_EEXISTS,
                      ask("INSERT INTO public.d VALUES (1) RETURNING 'row'", PGW__WRITES, 0));
    TEST_ASSERT_EQUAL_STRING("23505", pgw_error_sqlstate(h));
    TEST_ASSERT_EQUAL_STRING("", text_read); /* the row came, the reader never saw it */
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number("SELECT count(*) FROM d"));
    TEST_ASSERT_EQUAL_INT64(1, pgw__pq_epoch(h));
    pgtemp_exec("DROP TABLE d");
}

/* There a statement is one of several that are sent together; their commit is one answer more. */
TEST_CASE(true)
TEST_CASE(false)
void test_R05_nor_before_the_commit_of_several(bool pooler)
{
    pgtemp_exec(
        "CREATE TABLE d (id int UNIQUE DEFERRABLE INITIALLY DEFERRED); INSERT INTO d VALUES (1)");
    w = wire_open();
    wire_act_as_pooler(w, pooler);
    TEST_ASSERT_EQUAL(PGW_OK, open_at(wire_dsn(w), "durability", "relaxed"));
    for (int i = 0; i < 2; i++) {
        TEST_ASSERT_EQUAL(PGW_EEXISTS, ask("INSERT INTO public.d VALUES (1) RETURNING 'row'",
                                           PGW__WRITES | PGW__RELAXED, 0));
        TEST_ASSERT_EQUAL_STRING("23505", pgw_error_sqlstate(h));
        TEST_ASSERT_EQUAL_STRING("", text_read);
    }
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number("SELECT count(*) FROM d"));
    TEST_ASSERT_EQUAL_INT64(1, pgw__pq_epoch(h));
    pgtemp_exec("DROP TABLE d");
}

/* As where it has no memory for them: libpq says so in its own words, and reads on. */
void test_R05_rows_that_libpq_cannot_keep_are_not_a_lost_connection(void)
{
    static const char two_fields[] = {'D', 0, 0, 0, 14, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0};

    open_through_wire();
    wire_at(w, 'D', 1, two_fields, sizeof(two_fields), WIRE_PASS);
    TEST_ASSERT_EQUAL(PGW_ENOMEM, ask("SELECT 'row'", 0, 0));
    TEST_ASSERT_TRUE(contains(pgw_error_hint(h), "request less"));
    wire_at(w, 'D', 1, two_fields, sizeof(two_fields), WIRE_PASS);
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN,
                      ask("INSERT INTO public.t VALUES (1) RETURNING 'row'", PGW__WRITES, 0));
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number("SELECT count(*) FROM t WHERE id = 1"));
    TEST_ASSERT_EQUAL_STRING("1", answer("SELECT '1'"));
    TEST_ASSERT_EQUAL_INT64(1, pgw__pq_epoch(h));
}

void test_R05_panic_at_commit_is_unknown(void)
{
    size_t n;
    const char *panic = wire_message('E', "PANIC", "58030", "could not fdatasync file", &n);

    open_through_wire();
    wire_at(w, 'Z', 1, panic, n, WIRE_CUT);
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN,
                      ask("INSERT INTO public.t VALUES (1) RETURNING 'row'", PGW__WRITES, 0));
    TEST_ASSERT_EQUAL_STRING("58030", pgw_error_sqlstate(h));
    TEST_ASSERT_EQUAL_STRING("", text_read);
}

void test_R05_a_cut_before_ready_is_unknown_for_a_write_only(void)
{
    open_through_wire();
    wire_at(w, 'Z', 1, NULL, 0, WIRE_CUT);
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN, run("INSERT INTO public.t VALUES (2)", PGW__WRITES, 0));
    TEST_ASSERT_EQUAL_INT64(
        1, pgtemp_number("SELECT count(*) FROM t WHERE id = 2")); /* it was applied */
    TEST_ASSERT_TRUE(contains(pgw_error_hint(h), "operation id"));
    TEST_ASSERT_EQUAL_STRING("1", answer("SELECT '1'"));
    wire_at(w, 'Z', 1, NULL, 0, WIRE_CUT);
    TEST_ASSERT_EQUAL(PGW_ECONN, ask("SELECT '1'", 0, 0));
}

void test_R06_a_commit_that_rolls_back_is_not_a_success(void)
{
    open_direct();
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_begin(h));
    TEST_ASSERT_EQUAL(PGW_OK, run("INSERT INTO public.t VALUES (1)", PGW__WRITES, 0));
    TEST_ASSERT_EQUAL(PGW_EEXISTS, run("INSERT INTO public.t VALUES (1)", PGW__WRITES, 0));
    TEST_ASSERT_EQUAL(PGW_ETXN, run("INSERT INTO public.t VALUES (2)", PGW__WRITES, 0));
    TEST_ASSERT_EQUAL(PGW_ETXN, pgw__pq_commit(h));
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT count(*) FROM t"));
    TEST_ASSERT_EQUAL(PGW_OK, run("INSERT INTO public.t VALUES (3)", PGW__WRITES, 0));
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number("SELECT count(*) FROM t"));
}

/* ---- time ---- */

void test_R11_the_clients_deadline_bounds_every_call(void)
{
    open_direct();
    TEST_ASSERT_EQUAL(PGW_ETIMEDOUT, ask("SELECT pg_sleep(60)::text", PGW__WRITES, 200));
    TEST_ASSERT_EQUAL_STRING("57014", pgw_error_sqlstate(h)); /* cancelled: surely not applied */
    TEST_ASSERT_EQUAL_STRING("cancelled at the deadline (SQLSTATE 57014)",
                             pgw_error_message(h)); /* not: by somebody's request */
    TEST_ASSERT_TRUE(contains(pgw_error_hint(h), "call.timeout_ms"));
    TEST_ASSERT_EQUAL_STRING("on", answer("SELECT 'on'"));
    TEST_ASSERT_EQUAL_INT64(1, pgw__pq_epoch(h)); /* and the session is kept */
}

/* As one is that comes before its statement, to a session at rest. */
void test_R11_a_cancel_that_is_lost_is_sent_again(void)
{
    open_through_wire();
    wire_lose_cancels(w, 1);
    TEST_ASSERT_EQUAL(PGW_ETIMEDOUT, ask("SELECT pg_sleep(60)::text", PGW__WRITES, 200));
    TEST_ASSERT_EQUAL_STRING("57014", pgw_error_sqlstate(h));
    TEST_ASSERT_GREATER_OR_EQUAL(2, wire_cancels(w));
    TEST_ASSERT_EQUAL_INT64(1, pgw__pq_epoch(h)); /* the session is kept, and what it holds */
}

enum { GETS_THERE_MS = 1500 }; /* to its sleep, the first time, on any machine */

/* Where the machine stands still for half a second, a second cancel meets what the first one has
 * brought about: then once more. */
static pgw_status ask_stubborn(unsigned flags, int64_t timeout_ms)
{
    pgw_status st = PGW_ETIMEDOUT;

    for (int i = 0; i < 5 && st == PGW_ETIMEDOUT; i++)
        st = ask("SELECT public.stubborn()", flags, timeout_ms);
    return st;
}

void test_R11_success_after_a_cancel_is_success(void)
{
    pgtemp_exec("CREATE OR REPLACE FUNCTION stubborn() RETURNS text LANGUAGE plpgsql AS $$ BEGIN "
                "PERFORM pg_sleep(60); RETURN 'slept'; "
                "EXCEPTION WHEN query_canceled THEN INSERT INTO public.t VALUES (7); RETURN 'done "
                "all the same'; END $$");
    open_direct();
    TEST_ASSERT_EQUAL(PGW_OK, ask_stubborn(PGW__WRITES, GETS_THERE_MS));
    TEST_ASSERT_EQUAL_STRING("done all the same", text_read);
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number("SELECT count(*) FROM t WHERE id = 7"));
}

/* Nobody else's warnings are ours to hear. */
void test_R11_success_after_a_cancel_on_the_callers_connection_is_unknown(void)
{
    PGconn *conn = pgtemp_connect();

    pgtemp_exec("CREATE OR REPLACE FUNCTION stubborn() RETURNS text LANGUAGE plpgsql AS $$ BEGIN "
                "PERFORM pg_sleep(60); RETURN 'slept'; "
                "EXCEPTION WHEN query_canceled THEN RETURN 'done all the same'; END $$");
    TEST_ASSERT_EQUAL(PGW_OK, pgw_attach(conn, NULL, &h));
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN, ask_stubborn(PGW__WRITES, GETS_THERE_MS));
    TEST_ASSERT_EQUAL(PGW_OK, ask_stubborn(0, 200));
    PQclear(PQexec(conn, "BEGIN")); /* the caller's COMMIT will say what there is to say */
    TEST_ASSERT_EQUAL(PGW_OK, ask_stubborn(PGW__WRITES, 200));
    pgw_close(h);
    h = NULL;
    PQfinish(conn);
}

/* The server says so between the statement's success and its readiness. */
void test_R11_success_that_no_synchronous_standby_confirms_is_unknown(void)
{
    static const char waits[] = "SyncRepWaitForLSN";
    size_t n;
    const char *warning = wire_message_of(waits, 'N', "WARNING", "01000",
                                          "canceling wait for synchronous replication", &n);

    open_through_wire();
    wire_at(w, 'Z', 1, warning, n, WIRE_PASS);
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN, run("INSERT INTO public.t VALUES (5)", PGW__WRITES, 0));
    TEST_ASSERT_TRUE(contains(pgw_error_message(h), "no synchronous standby has confirmed it"));
    TEST_ASSERT_TRUE(contains(pgw_error_hint(h), "synchronous_standby_names"));
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number("SELECT count(*) FROM t WHERE id = 5"));
    TEST_ASSERT_EQUAL(PGW_OK, run("INSERT INTO public.t VALUES (6)", PGW__WRITES, 0));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_txn_begin(h));
    TEST_ASSERT_EQUAL(PGW_OK, run("INSERT INTO public.t VALUES (7)", PGW__WRITES, 0));
    wire_at(w, 'Z', 1, warning, n, WIRE_PASS);
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN, pgw_txn_commit(h));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_txn_begin(h)); /* that one is over */
    TEST_ASSERT_EQUAL_INT64(1, pgw__pq_epoch(h));
    /* a warning of somebody's function */
    warning = wire_message_of("exec_stmt_raise", 'N', "WARNING", "01000", "beware", &n);
    wire_at(w, 'Z', 1, warning, n, WIRE_PASS);
    TEST_ASSERT_EQUAL(PGW_OK, run("INSERT INTO public.t VALUES (8)", PGW__WRITES, 0));
}

void test_R11_no_answer_to_the_cancel_either_is_unknown(void)
{
    open_through_wire();
    wire_at(w, 'C', 1, NULL, 0, WIRE_SILENT);
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN, run("INSERT INTO public.t VALUES (5)", PGW__WRITES, 200));
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number("SELECT count(*) FROM t WHERE id = 5"));
    TEST_ASSERT_GREATER_OR_EQUAL(1, wire_cancels(w));
    TEST_ASSERT_EQUAL_INT(-1, pgw_fd(h));
    TEST_ASSERT_EQUAL_STRING("again", answer("SELECT 'again'"));
    /* a read that was not answered is no riddle */
    wire_at(w, 'D', 1, NULL, 0, WIRE_SILENT);
    TEST_ASSERT_EQUAL(PGW_ETIMEDOUT, ask("SELECT 'x'", 0, 200));
}

/* The caller's transaction goes on, and its COMMIT may keep what was not answered. */
void test_R11_no_answer_on_the_callers_connection_is_unknown(void)
{
    PGconn *conn;

    w = wire_open();
    conn = PQconnectdb(wire_dsn(w));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_attach(conn, NULL, &h));
    PQclear(PQexec(conn, "BEGIN"));
    wire_at(w, 'C', 1, NULL, 0, WIRE_SILENT);
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN, run("INSERT INTO public.t VALUES (5)", PGW__WRITES, 200));
    TEST_ASSERT_TRUE(contains(pgw_error_hint(h), "still busy"));
    pgw_close(h);
    h = NULL;
    PQfinish(conn);
}

void test_R12_durability_does_not_hang_on_the_role(void)
{
    char sql[256];

    snprintf(sql, sizeof(sql), "ALTER DATABASE %s SET synchronous_commit = off",
             pgtemp_value("SELECT current_database()"));
    pgtemp_exec(sql);
    open_direct();
    TEST_ASSERT_EQUAL_STRING("on", answer("SELECT current_setting('synchronous_commit')"));
    TEST_ASSERT_EQUAL(PGW_OK, ask("SELECT current_setting('synchronous_commit')", PGW__RELAXED, 0));
    TEST_ASSERT_EQUAL_STRING("on", text_read); /* the configuration does not allow it */
    pgw_close(h);
    TEST_ASSERT_EQUAL(PGW_OK, open_at(pgtemp_dsn(), "durability", "relaxed"));
    TEST_ASSERT_EQUAL(PGW_OK, ask("SELECT current_setting('synchronous_commit')", PGW__RELAXED, 0));
    TEST_ASSERT_EQUAL_STRING("off", text_read);
    TEST_ASSERT_EQUAL_STRING("on", answer("SELECT current_setting('synchronous_commit')"));
    snprintf(sql, sizeof(sql), "ALTER DATABASE %s RESET synchronous_commit",
             pgtemp_value("SELECT current_database()"));
    pgtemp_exec(sql);
}

/* A host that accepts and says nothing. libpq alone would begin each attempt with it. */
static int silent_host(int *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    TEST_ASSERT_EQUAL_INT(0, bind(fd, (struct sockaddr *)&at, size));
    TEST_ASSERT_EQUAL_INT(0, listen(fd, 5));
    TEST_ASSERT_EQUAL_INT(0, getsockname(fd, (struct sockaddr *)&at, &size));
    *port = ntohs(at.sin_port);
    return fd;
}

void test_R13_a_host_that_says_nothing_is_passed_over(void)
{
    char dsn[600];
    int port, fd = silent_host(&port);

    snprintf(dsn, sizeof(dsn), "%s host=127.0.0.1,%s port=%d,%s", pgtemp_dsn(), getenv("PGHOST"),
             port, getenv("PGPORT"));
    TEST_ASSERT_EQUAL(PGW_OK, open_at(dsn, "connect.timeout_ms", "5000"));
    TEST_ASSERT_EQUAL_STRING("here", answer("SELECT 'here'"));
    close(fd);
}

static bool libpq_knows(const char *keyword)
{
    PQconninfoOption *all = PQconndefaults(), *o = all;

    while (o->keyword != NULL && strcmp(o->keyword, keyword) != 0) o++;
    keyword = o->keyword;
    PQconninfoFree(all);
    return keyword != NULL;
}

/* Since 16 libpq may be told to begin with any of them. */
void test_R13_nor_is_it_asked_twice_where_the_order_is_random(void)
{
    const bool shuffled = libpq_knows("load_balance_hosts");
    char dsn[600];
    int port, fd = silent_host(&port);

    fcntl(fd, F_SETFL, O_NONBLOCK);
    snprintf(dsn, sizeof(dsn), "%s host=%s,127.0.0.1 port=%s,%d%s", pgtemp_dsn(), getenv("PGHOST"),
             getenv("PGPORT"), port, shuffled ? " load_balance_hosts=random" : "");
    for (int i = 0; i < (shuffled ? 8 : 1); i++) {
        int asked = 0, one;

        TEST_ASSERT_EQUAL(PGW_OK, open_at(dsn, "connect.timeout_ms", "5000"));
        TEST_ASSERT_EQUAL_STRING("here", answer("SELECT 'here'"));
        pgw_close(h);
        h = NULL;
        for (; (one = accept(fd, NULL, NULL)) >= 0; asked++) close(one);
        TEST_ASSERT_LESS_THAN_INT(2, asked);
    }
    close(fd);
}

/* The library has no word of these hosts but from libpq. */
void test_R13_a_silent_host_of_a_service_is_passed_over_too(void)
{
    char file[] = "/tmp/pgw_service.XXXXXX", dsn[200];
    int port, fd = silent_host(&port), services = mkstemp(file);

    TEST_ASSERT_TRUE(services >= 0);
    dprintf(services, "[pgw]\nhost=127.0.0.1,%s\nport=%d,%s\n", getenv("PGHOST"), port,
            getenv("PGPORT"));
    close(services);
    setenv("PGSERVICEFILE", file, 1);
    snprintf(dsn, sizeof(dsn), "service=pgw dbname='%s'",
             pgtemp_value("SELECT current_database()"));
    TEST_ASSERT_EQUAL(PGW_OK, open_at(dsn, "connect.timeout_ms", "5000"));
    TEST_ASSERT_EQUAL_STRING("here", answer("SELECT 'here'"));
    unsetenv("PGSERVICEFILE");
    unlink(file);
    close(fd);
}

void test_R13_a_black_hole_holds_no_call(void)
{
    open_through_wire();
    wire_freeze(w, true);
    TEST_ASSERT_EQUAL(PGW_ETIMEDOUT,
                      ask("SELECT 'x'", 0, 300)); /* the cancel finds no ear, and is bounded too */
    TEST_ASSERT_EQUAL(PGW_ECONN, (pgw_set_timeout(h, 300), ask("SELECT 'x'", 0, 300)));
    TEST_ASSERT_TRUE(pgw_error_message(h)[0] != '\0');
    wire_freeze(w, false);
    pgw_set_timeout(h, PGW_DEFAULT); /* to connect may take a pause or two */
    TEST_ASSERT_EQUAL_STRING("back", answer("SELECT 'back'"));
    TEST_ASSERT_EQUAL_INT(0, wire_cancels(w));
}

static int socket_option(int level, int name)
{
    int value = -1;
    socklen_t size = sizeof(value);

    TEST_ASSERT_EQUAL_INT(0, getsockopt(pgw_fd(h), level, name, &value, &size));
    return value;
}

void test_R13_the_client_notices_a_silent_death(void)
{
    open_through_wire();
    TEST_ASSERT_EQUAL_INT(1, socket_option(SOL_SOCKET, SO_KEEPALIVE));
    TEST_ASSERT_EQUAL_INT(1, socket_option(IPPROTO_TCP, TCP_KEEPIDLE));
    TEST_ASSERT_EQUAL_INT(1, socket_option(IPPROTO_TCP, TCP_KEEPINTVL));
    TEST_ASSERT_EQUAL_INT(3, socket_option(IPPROTO_TCP, TCP_KEEPCNT));
    TEST_ASSERT_EQUAL_INT(4000, socket_option(IPPROTO_TCP, TCP_USER_TIMEOUT));
}

void test_R14_the_server_checks_its_client_too(void)
{
    open_through_wire();
    TEST_ASSERT_TRUE(contains(wire_startup(w), "-c tcp_keepalives_idle=1"));
    TEST_ASSERT_TRUE(contains(wire_startup(w), "-c tcp_keepalives_interval=1"));
    TEST_ASSERT_TRUE(contains(wire_startup(w), "-c tcp_keepalives_count=3"));
    TEST_ASSERT_TRUE(contains(wire_startup(w), "-c tcp_user_timeout=4000"));
    TEST_ASSERT_EQUAL_STRING("500ms",
                             answer("SELECT current_setting('client_connection_check_interval')"));
    pgw_close(h);
    TEST_ASSERT_EQUAL(PGW_OK, open_at(wire_dsn(w), "session.check_interval_ms", "0"));
    TEST_ASSERT_EQUAL_STRING("0",
                             answer("SELECT current_setting('client_connection_check_interval')"));
}

void test_R14_refused_startup_options_are_left_out(void)
{
    w = wire_open();
    wire_act_as_pooler(w, true);
    open_through_wire();
    TEST_ASSERT_EQUAL_INT(2, wire_connections(w));
    TEST_ASSERT_FALSE(contains(wire_startup(w), "options="));
    TEST_ASSERT_EQUAL_STRING("works", answer("SELECT 'works'"));
}

/* ---- poolers ---- */

static void check_behind_pooler(bool refuse_options)
{
    pgw__call call = {.sql = PGW__SQL_HANDLE_VERSION, .read = read_text};
    bool pooled = false;

    pgtemp_exec("DROP SCHEMA IF EXISTS pgwork CASCADE; CREATE SCHEMA pgwork; "
                "CREATE FUNCTION pgwork.version() RETURNS text LANGUAGE sql AS $$ SELECT "
                "count(*)::text FROM pg_prepared_statements $$");
    w = wire_open();
    wire_act_as_pooler(w, refuse_options);
    open_through_wire();
    TEST_ASSERT_EQUAL(PGW_OK, pgw_is_pooled(h, &pooled));
    TEST_ASSERT_TRUE(pooled);
    TEST_ASSERT_EQUAL(PGW_EPOOLED, ask("SELECT 'x'", PGW__DIRECT, 0));
    TEST_ASSERT_TRUE(pgw_error_hint(h)[0] != '\0');
    TEST_ASSERT_EQUAL(PGW_EPOOLED, pgw__pq_listen(h, "pgwork_wake_pgwork"));
    for (int i = 0; i < 2; i++) {
        TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_call(h, &call));
        TEST_ASSERT_EQUAL_STRING("0", text_read); /* no named statement */
    }
    pgtemp_exec("DROP SCHEMA pgwork CASCADE");
}

void test_R15_a_pooler_is_detected_by_what_it_refuses(void)
{
    check_behind_pooler(true);
}

void test_R15_a_pooler_is_detected_by_the_process_number(void)
{
    check_behind_pooler(false);
}

void test_R15_a_direct_session_is_not_taken_for_a_pooled_one(void)
{
    bool pooled = true;

    open_direct();
    TEST_ASSERT_EQUAL(PGW_OK, pgw_is_pooled(h, &pooled));
    TEST_ASSERT_FALSE(pooled);
    TEST_ASSERT_EQUAL(PGW_OK, ask("SELECT 'x'", PGW__DIRECT, 0));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_listen(h, "pgwork_wake_pgwork"));
}

void test_R15_settings_go_with_the_transaction_and_do_not_leak(void)
{
    char sql[256];

    snprintf(sql, sizeof(sql), "ALTER DATABASE %s SET TimeZone = 'Asia/Kathmandu'",
             pgtemp_value("SELECT current_database()"));
    pgtemp_exec(sql);
    snprintf(sql, sizeof(sql),
             "ALTER DATABASE %s SET default_transaction_isolation = 'serializable'",
             pgtemp_value("SELECT current_database()"));
    pgtemp_exec(sql);
    w = wire_open();
    wire_act_as_pooler(w, true);
    open_through_wire();
    TEST_ASSERT_EQUAL_STRING("UTC", answer("SELECT current_setting('TimeZone')"));
    TEST_ASSERT_EQUAL_STRING("read committed",
                             answer("SELECT current_setting('transaction_isolation')"));
    TEST_ASSERT_EQUAL(PGW_OK, run("INSERT INTO public.t VALUES (1, current_setting('TimeZone'))",
                                  PGW__WRITES, 0));
    TEST_ASSERT_EQUAL_STRING("Asia/Kathmandu", pgtemp_value("SELECT v FROM t WHERE id = 1"));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_begin(h));
    TEST_ASSERT_EQUAL_STRING("UTC", answer("SELECT current_setting('TimeZone')"));
    TEST_ASSERT_EQUAL_STRING("read committed",
                             answer("SELECT current_setting('transaction_isolation')"));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_commit(h));
    /* an error in the middle leaves no transaction behind */
    TEST_ASSERT_EQUAL(PGW_EEXISTS,
                      ask("INSERT INTO public.t VALUES (1) RETURNING 'x'", PGW__WRITES, 0));
    TEST_ASSERT_EQUAL_STRING("UTC", answer("SELECT current_setting('TimeZone')"));
    TEST_ASSERT_EQUAL_INT64(1, pgw__pq_epoch(h));
    snprintf(sql, sizeof(sql), "ALTER DATABASE %s RESET ALL",
             pgtemp_value("SELECT current_database()"));
    pgtemp_exec(sql);
}

/* PostgreSQL 17 brought transaction_timeout; 15 and 16 have nothing to switch off, and are not to
 * be told to. */
void test_R15_nor_does_a_time_limit_of_transactions_hold_behind_a_pooler(void)
{
    char sql[256], name[64];

    snprintf(name, sizeof(name), "%s", pgtemp_value("SELECT current_database()"));
    snprintf(sql, sizeof(sql),
             "DO $$ BEGIN ALTER DATABASE %s SET transaction_timeout = '300ms'; EXCEPTION WHEN "
             "undefined_object THEN NULL; END $$",
             name);
    pgtemp_exec(sql);
    w = wire_open();
    wire_act_as_pooler(w, true);
    open_through_wire();
    TEST_ASSERT_EQUAL_STRING("awake", answer("SELECT 'awake' FROM pg_sleep(0.5)"));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_begin(h));
    TEST_ASSERT_EQUAL_STRING("awake", answer("SELECT 'awake' FROM pg_sleep(0.5)"));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_commit(h));
    snprintf(sql, sizeof(sql), "ALTER DATABASE %s RESET ALL", name);
    pgtemp_exec(sql);
}

/* ---- processes, names, secrets ---- */

void test_R16_a_child_cannot_harm_the_parents_session(void)
{
    pid_t child;

    open_direct();
    TEST_ASSERT_EQUAL_STRING("1", answer("SELECT '1'"));
    child = forked();
    if (child == 0) {
        bool good = run("SELECT 1", 0, 0) == PGW_EMISUSE && pgw_error_message(h)[0] != '\0' &&
                    pgw__pq_begin(h) == PGW_EMISUSE && pgw__pq_wait(h, 0, -1) == PGW_EMISUSE &&
                    pgw_step(h) == PGW_EMISUSE;

        pgw_close(h);
        _exit(good ? 0 : 1);
    }
    TEST_ASSERT_EQUAL_INT(0, reaped(child));
    TEST_ASSERT_EQUAL_STRING("2", answer("SELECT '2'"));
    TEST_ASSERT_EQUAL_INT64(1, pgw__pq_epoch(h));
}

void test_R18_long_names_are_refused_not_cut(void)
{
    char name[65];

    memset(name, 'n', sizeof(name));
    name[64] = '\0';
    open_direct();
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__pq_listen(h, name));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__pq_listen(h, "\xff\xfe"));
    name[63] = '\0';
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_listen(h, name));
}

static char logged[65536];

static void keep_log(pgw_log_level level, const char *component, const char *message, void *arg)
{
    size_t at = strlen(logged);

    snprintf(logged + at, sizeof(logged) - at, "%s\n", message);
}

static void no_secret_anywhere(void)
{
    TEST_ASSERT_TRUE(pgw_error_message(h)[0] != '\0');
    TEST_ASSERT_FALSE(contains(pgw_error_message(h), "SECRET"));
    TEST_ASSERT_FALSE(contains(pgw_error_hint(h), "SECRET"));
    TEST_ASSERT_FALSE(contains(logged, "SECRET"));
}

void test_R19_values_and_passwords_are_never_reported(void)
{
    static const char *const bad_dsns[] = {"host=/nowhere password=SECRET x",
                                           "host=h password='a SECRET' nosuch",
                                           "password='it\\'s SECRET' nosuch",
                                           "host=h password = SECRET nosuch=1",
                                           "nosuch=1 password=\"SECRET",
                                           "password='SECRET",
                                           "postgresql://u:SECRET@[h/",
                                           "postgresql://u:SECRET%zz@h/",
                                           "postgresql://u:SECRET@h/db?nosuch=1",
                                           "postgresql://u@h/db?password=SECRET&nosuch=1",
                                           "SECRET"};
    static const char *const statements[] = {"INSERT INTO public.k VALUES ('SECRET')",
                                             "SELECT 'SECRET'::int", "SELECT 'SECRET'::jsonb",
                                             "SELECT 'SECRET'::timestamptz"};
    pgw__param params[] = {P_TEXT("SECRET"), P_END};
    pgw__call call = {.params = params, .read = read_text};
    pgw_conf *conf;

    logged[0] = '\0';
    pgtemp_exec(
        "CREATE TABLE k (k text CONSTRAINT k_once PRIMARY KEY); INSERT INTO k VALUES ('SECRET')");
    TEST_ASSERT_EQUAL(PGW_OK, pgw_conf_new(&conf));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_conf_set(conf, "schema.check", "off"));
    pgw_conf_set_log(conf, PGW_LOG_TRACE, keep_log, NULL);
    for (size_t i = 0; i < sizeof(bad_dsns) / sizeof(bad_dsns[0]); i++) {
        TEST_ASSERT_EQUAL(PGW_OK, pgw_conf_set(conf, "dsn", bad_dsns[i]));
        TEST_ASSERT_EQUAL_MESSAGE(PGW_EINVAL, pgw_open(conf, &h), bad_dsns[i]);
        no_secret_anywhere();
        pgw_close(h);
    }
    for (size_t i = 0; i < 2; i++) { /* the second has a raw "@", so the rest is taken for a host */
        TEST_ASSERT_EQUAL(PGW_OK, pgw_conf_set(conf, "dsn",
                                               i ? "postgresql://u:p@SECRET.invalid@/x"
                                                 : "host=/SECRET password=SECRET"));
        TEST_ASSERT_EQUAL(PGW_ECONN, pgw_open(conf, &h));
        no_secret_anywhere();
        pgw_close(h);
    }
    TEST_ASSERT_EQUAL(PGW_OK, pgw_conf_set(conf, "dsn", pgtemp_dsn()));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_open(conf, &h));
    for (size_t i = 0; i < 4; i++) {
        TEST_ASSERT_TRUE(run(statements[i], 0, 0) < 0);
        no_secret_anywhere();
    }
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__pq_text(h, "cast", "SELECT ($1::text)::int::text", &call));
    no_secret_anywhere();
    TEST_ASSERT_EQUAL(PGW_EEXISTS, run(statements[0], 0, 0));
    TEST_ASSERT_TRUE(contains(pgw_error_message(h), "k_once")); /* what helps is told */
    TEST_ASSERT_TRUE(contains(pgw_error_message(h), "23505"));
    TEST_ASSERT_TRUE(contains(logged, "23505"));
    pgw_conf_free(conf);
    pgtemp_exec("DROP TABLE k");
}

void test_R19_messages_of_our_own_functions_are_reported_in_full(void)
{
    open_direct();
    TEST_ASSERT_EQUAL(PGW_ENOTFOUND, run("DO $$ BEGIN RAISE EXCEPTION 'no queue \"mail\"' USING "
                                         "ERRCODE = 'PW003', HINT = 'create it'; END $$",
                                         0, 0));
    TEST_ASSERT_EQUAL_STRING("no queue \"mail\"", pgw_error_message(h));
    TEST_ASSERT_EQUAL_STRING("create it", pgw_error_hint(h));
    TEST_ASSERT_EQUAL_STRING("PW003", pgw_error_sqlstate(h));
    TEST_ASSERT_EQUAL_STRING("test", pgw_error_statement(h));
}

void test_R20_a_write_into_a_hole_is_bounded(void)
{
    size_t n = (size_t)16 << 20;
    char *big = malloc(n + 1);
    pgw__param params[] = {P_TEXT(big), P_END};
    pgw__call call = {.params = params, .flags = PGW__WRITES, .timeout_ms = 300};

    TEST_ASSERT_NOT_NULL(big);
    memset(big, 'x', n);
    big[n] = '\0';
    open_through_wire();
    wire_freeze(w, true);
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN,
                      pgw__pq_text(h, "big", "INSERT INTO public.t VALUES (1, $1)", &call));
    wire_freeze(w, false);
    call.timeout_ms = 0;
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_text(h, "big", "INSERT INTO public.t VALUES (2, $1)", &call));
    TEST_ASSERT_EQUAL_INT64((long long)n, pgtemp_number("SELECT length(v) FROM t WHERE id = 2"));
    free(big);
}

/* ---- statements ---- */

void test_R23_a_stale_plan_is_prepared_again(void)
{
    pgw__call call = {.sql = PGW__SQL_HANDLE_VERSION, .read = read_text};

    pgtemp_exec("CREATE SCHEMA pgwork; CREATE FUNCTION pgwork.version() RETURNS text LANGUAGE sql "
                "AS $$ SELECT 'one' $$");
    open_direct();
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_call(h, &call));
    TEST_ASSERT_EQUAL_STRING("one", text_read);
    TEST_ASSERT_EQUAL(PGW_OK, ask("SELECT count(*)::text FROM pg_prepared_statements", 0, 0));
    TEST_ASSERT_EQUAL_STRING("1", text_read);

    /* 0A000: cached plan must not change result type */
    pgtemp_exec("DROP FUNCTION pgwork.version(); CREATE FUNCTION pgwork.version() RETURNS varchar "
                "LANGUAGE sql AS $$ SELECT 'two'::varchar $$");
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_call(h, &call));
    TEST_ASSERT_EQUAL_STRING("two", text_read);

    /* 26000: somebody threw the statements away */
    TEST_ASSERT_EQUAL(PGW_OK, run("DEALLOCATE ALL", 0, 0));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_call(h, &call));
    TEST_ASSERT_EQUAL_STRING("two", text_read);

    /* 42P05: the name is taken; on without a name */
    pgw_close(h);
    open_direct();
    TEST_ASSERT_EQUAL(PGW_OK, run("PREPARE pgwork_handle_version_0 AS SELECT 1", 0, 0));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_call(h, &call));
    TEST_ASSERT_EQUAL_STRING("two", text_read);
    TEST_ASSERT_EQUAL_INT64(1, pgw__pq_epoch(h));

    /* once only: an error that stays is reported */
    pgtemp_exec("DROP FUNCTION pgwork.version()");
    TEST_ASSERT_EQUAL(PGW_ESCHEMA, pgw__pq_call(h, &call));
    TEST_ASSERT_TRUE(contains(pgw_error_hint(h), "migrate"));
    pgtemp_exec("DROP SCHEMA pgwork");
}

void test_R23_nothing_is_repeated_inside_a_transaction(void)
{
    pgw__call call = {.sql = PGW__SQL_HANDLE_VERSION, .read = read_text};

    pgtemp_exec("CREATE SCHEMA pgwork; CREATE FUNCTION pgwork.version() RETURNS text LANGUAGE sql "
                "AS $$ SELECT 'one' $$");
    open_direct();
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_call(h, &call));
    TEST_ASSERT_EQUAL(PGW_OK, run("DEALLOCATE ALL", 0, 0));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_begin(h));
    TEST_ASSERT_EQUAL(PGW_EPOOLED, pgw__pq_call(h, &call));
    TEST_ASSERT_EQUAL_STRING("26000", pgw_error_sqlstate(h));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_rollback(h));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_call(h, &call));
    pgtemp_exec("DROP SCHEMA pgwork CASCADE");
}

void test_R23_no_statement_leaves_its_transaction_while_it_is_prepared(void)
{
    pgw__call call = {.sql = PGW__SQL_HANDLE_VERSION, .read = read_text, .flags = PGW__WRITES};

    pgtemp_exec("CREATE SCHEMA pgwork; CREATE FUNCTION pgwork.version() RETURNS int LANGUAGE sql "
                "AS $$ INSERT INTO public.t VALUES (2) RETURNING id $$");
    open_through_wire();
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_begin(h));
    TEST_ASSERT_EQUAL(PGW_OK, run("INSERT INTO public.t VALUES (1)", PGW__WRITES, 0));
    wire_at(w, '1', 1, NULL, 0, WIRE_CUT); /* the answer to Parse */
    TEST_ASSERT_EQUAL(PGW_ECONN, pgw__pq_call(h, &call));
    TEST_ASSERT_TRUE(contains(pgw_error_message(h), "transaction was lost"));
    TEST_ASSERT_EQUAL(PGW_ECONN, pgw__pq_commit(h));
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT count(*) FROM t"));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_call(h, &call));
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number("SELECT count(*) FROM t"));
    pgtemp_exec("DROP SCHEMA pgwork CASCADE");
}

void test_R24_hostile_settings_change_nothing(void)
{
    static const char *const hostile[][3] = {
        {"default_transaction_isolation", "serializable", "read committed"},
        {"default_transaction_deferrable", "on", "off"},
        {"statement_timeout", "1s", "0"},
        {"lock_timeout", "1s", "0"},
        {"idle_in_transaction_session_timeout", "1s", "0"},
        {"idle_session_timeout", "1s", "0"},
        {"search_path", "hostile", "pg_catalog,pg_temp"},
        {"DateStyle", "German", "ISO, MDY"},
        {"IntervalStyle", "sql_standard", "postgres"},
        {"TimeZone", "Asia/Kathmandu", "UTC"},
        {"extra_float_digits", "-15", "1"},
        {"array_nulls", "off", "on"},
        {"synchronous_commit", "off", "on"},
        {"row_security", "off", "on"},
        {"client_min_messages", "error", "warning"},
        {"exit_on_error", "on", "off"},
        {"plan_cache_mode", "force_generic_plan", "auto"},
        {"jit", "on", "off"},
        {"client_encoding", "LATIN1", "UTF8"},
        {"bytea_output", "escape", "escape"},         /* all is binary: left alone */
        {"standard_conforming_strings", "off", "on"}, /* until 18 */
    };
    const bool fixed = pgtemp_number("SELECT current_setting('server_version_num')") >= 190000;
    const size_t n = sizeof(hostile) / sizeof(hostile[0]) - (fixed ? 1 : 0);
    char sql[256], name[64];
    pgw__param params[] = {P_TEXT(""), P_END};
    pgw__call call = {.params = params, .read = read_text};

    snprintf(name, sizeof(name), "%s", pgtemp_value("SELECT current_database()"));
    for (size_t i = 0; i < n; i++) {
        snprintf(sql, sizeof(sql), "ALTER DATABASE %s SET %s = '%s'", name, hostile[i][0],
                 hostile[i][1]);
        pgtemp_exec(sql);
    }
    open_direct();
    for (size_t i = 0; i < n; i++) {
        params[0].v.p = hostile[i][0];
        TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_text(h, "setting", "SELECT current_setting($1)", &call));
        if (strcmp(hostile[i][0], "DateStyle") == 0)
            text_read[3] = '\0', TEST_ASSERT_EQUAL_STRING("ISO", text_read);
        else
            TEST_ASSERT_EQUAL_STRING_MESSAGE(hostile[i][2], text_read, hostile[i][0]);
    }
    snprintf(sql, sizeof(sql), "ALTER DATABASE %s RESET ALL", name);
    pgtemp_exec(sql);
}

/* libpq sends what these say behind all options. */
TEST_CASE("German")
TEST_CASE("ISO, DMY")
void test_R24_variables_that_libpq_reads_change_nothing(const char *style)
{
    setenv("PGTZ", "Asia/Kathmandu", 1);
    setenv("PGDATESTYLE", style, 1);
    open_direct();
    unsetenv("PGTZ");
    unsetenv("PGDATESTYLE");
    TEST_ASSERT_EQUAL_STRING("UTC", answer("SELECT current_setting('TimeZone')"));
    TEST_ASSERT_EQUAL_STRING("ISO, MDY", answer("SELECT current_setting('DateStyle')"));
    if (pgtemp_number("SELECT current_setting('server_version_num')") >= 170000)
        TEST_ASSERT_EQUAL_STRING("0", answer("SELECT current_setting('transaction_timeout')"));
}

void test_R24_the_users_own_options_are_kept(void)
{
    char dsn[1200];

    snprintf(dsn, sizeof(dsn),
             "%s options='-c work_mem=1MB -c TimeZone=Asia/Kathmandu' application_name=mine",
             pgtemp_dsn());
    TEST_ASSERT_EQUAL(PGW_OK, open_at(dsn, NULL, NULL));
    TEST_ASSERT_EQUAL_STRING("1MB", answer("SELECT current_setting('work_mem')"));
    TEST_ASSERT_EQUAL_STRING(
        "UTC", answer("SELECT current_setting('TimeZone')")); /* what our SQL depends on is ours */
    TEST_ASSERT_EQUAL_STRING("mine", answer("SELECT current_setting('application_name')"));
    pgw_close(h);
    TEST_ASSERT_EQUAL(PGW_OK, open_at(pgtemp_dsn(), "application_name", "from conf"));
    TEST_ASSERT_EQUAL_STRING("from conf", answer("SELECT current_setting('application_name')"));
}

/* Where the string names a service, libpq would keep ours and pass over these. */
void test_R24_options_of_a_service_are_kept(void)
{
    char file[] = "/tmp/pgw_service.XXXXXX", dsn[200];
    int services = mkstemp(file);

    TEST_ASSERT_TRUE(services >= 0);
    dprintf(services, "[pgw]\nhost=%s\nport=%s\noptions=-c work_mem=7MB -c role=pg_monitor\n",
            getenv("PGHOST"), getenv("PGPORT"));
    close(services);
    setenv("PGSERVICEFILE", file, 1);
    setenv("PGOPTIONS", "-c work_mem=9MB", 1);
    snprintf(dsn, sizeof(dsn), "dbname='%s' service=pgw",
             pgtemp_value("SELECT current_database()"));
    TEST_ASSERT_EQUAL(PGW_OK, open_at(dsn, NULL, NULL));
    TEST_ASSERT_EQUAL_STRING("7MB pg_monitor UTC",
                             answer("SELECT current_setting('work_mem') || ' ' || current_user || "
                                    "' ' || current_setting('TimeZone')"));
    pgw_close(h);
    strcat(dsn, " options='-c work_mem=8MB'"); /* the string's own come before */
    TEST_ASSERT_EQUAL(PGW_OK, open_at(dsn, NULL, NULL));
    TEST_ASSERT_EQUAL_STRING("8MB", answer("SELECT current_setting('work_mem')"));
    pgw_close(h);
    *strstr(dsn, " service") = '\0';
    setenv("PGSERVICE", "pgw", 1);
    TEST_ASSERT_EQUAL(PGW_OK, open_at(dsn, NULL, NULL));
    TEST_ASSERT_EQUAL_STRING("7MB", answer("SELECT current_setting('work_mem')"));
    pgw_close(h);
    unsetenv("PGSERVICE");
    unsetenv("PGSERVICEFILE");
    TEST_ASSERT_EQUAL(PGW_OK, open_at(pgtemp_dsn(), NULL, NULL));
    TEST_ASSERT_EQUAL_STRING("9MB", answer("SELECT current_setting('work_mem')"));
    unsetenv("PGOPTIONS");
    unlink(file);
}

/* What libpq goes by on this side. */
static const char *libpq_has(const char *keyword)
{
    static char value[64];
    PQconninfoOption *found = PQconninfo(h->conn);

    value[0] = '\0';
    for (const PQconninfoOption *o = found; o->keyword != NULL; o++)
        if (strcmp(o->keyword, keyword) == 0 && o->val != NULL)
            snprintf(value, sizeof(value), "%s", o->val);
    PQconninfoFree(found);
    return value;
}

/* Our defaults are for who has said nothing: in whatever way it was said, it counts. */
void test_a_service_file_or_the_environment_overrides_our_defaults(void)
{
    char file[] = "/tmp/pgw_service.XXXXXX", dsn[200];
    int services = mkstemp(file);

    TEST_ASSERT_TRUE(services >= 0);
    dprintf(services,
            "[pgw]\nhost=%s\nport=%s\napplication_name=served\nkeepalives_idle=77\n"
            "tcp_user_timeout=7700\noptions=-c client_connection_check_interval=1234\n",
            getenv("PGHOST"), getenv("PGPORT"));
    close(services);
    setenv("PGSERVICEFILE", file, 1);
    snprintf(dsn, sizeof(dsn), "dbname='%s' service=pgw",
             pgtemp_value("SELECT current_database()"));
    TEST_ASSERT_EQUAL(PGW_OK, open_at(dsn, NULL, NULL));
    TEST_ASSERT_EQUAL_STRING("served", answer("SELECT current_setting('application_name')"));
    TEST_ASSERT_EQUAL_STRING("1234ms",
                             answer("SELECT current_setting('client_connection_check_interval')"));
    TEST_ASSERT_EQUAL_STRING("77", libpq_has("keepalives_idle"));
    TEST_ASSERT_EQUAL_STRING("7700", libpq_has("tcp_user_timeout"));
    TEST_ASSERT_EQUAL_STRING("3", libpq_has("keepalives_count")); /* nobody has said */
    pgw_close(h);
    TEST_ASSERT_EQUAL(PGW_OK, open_at(dsn, "application_name", "from conf"));
    TEST_ASSERT_EQUAL_STRING("from conf", answer("SELECT current_setting('application_name')"));
    pgw_close(h);
    TEST_ASSERT_EQUAL(PGW_OK, open_at(dsn, "keepalive.idle_s", "5"));
    TEST_ASSERT_EQUAL_STRING("5", libpq_has("keepalives_idle"));
    pgw_close(h);
    TEST_ASSERT_EQUAL(PGW_OK, open_at(dsn, "session.check_interval_ms", "2000"));
    TEST_ASSERT_EQUAL_STRING("2s",
                             answer("SELECT current_setting('client_connection_check_interval')"));
    pgw_close(h);
    unsetenv("PGSERVICEFILE");
    unlink(file);
    setenv("PGAPPNAME", "of the environment", 1);
    TEST_ASSERT_EQUAL(PGW_OK, open_at(pgtemp_dsn(), NULL, NULL));
    unsetenv("PGAPPNAME");
    TEST_ASSERT_EQUAL_STRING("of the environment",
                             answer("SELECT current_setting('application_name')"));
    pgw_close(h);
    TEST_ASSERT_EQUAL(PGW_OK, open_at(pgtemp_dsn(), NULL, NULL));
    TEST_ASSERT_EQUAL_STRING("pgwork", answer("SELECT current_setting('application_name')"));
}

void test_R25_poison_is_refused_and_the_session_goes_on(void)
{
    static char deep[40001], loud[8001];
    const char *const texts[] = {"{\"a\": \"\\u0000\"}", "\"\xff\"", deep, "{"};
    const char *const sqlstates[] = {"22P05", "22021", "54001", "22P02"};
    const pgw_status expected[] = {PGW_EINVAL, PGW_EINVAL, PGW_ELIMIT, PGW_EINVAL};

    open_direct();
    memset(deep, '[', 20000);
    memset(deep + 20000, ']', 20000);
    memset(loud, 'x', 8000);
    for (size_t i = 0; i < 4; i++) {
        pgw__param params[] = {P_JSONB(texts[i]), P_END};
        pgw__call call = {.params = params, .read = read_text, .flags = PGW__WRITES};

        TEST_ASSERT_EQUAL(expected[i], pgw__pq_text(h, "poison", "SELECT $1::text", &call));
        TEST_ASSERT_EQUAL_STRING(sqlstates[i], pgw_error_sqlstate(h));
    }
    {
        pgw__param params[] = {P_TEXT(loud), P_END};
        pgw__call call = {.params = params, .read = read_text};

        TEST_ASSERT_EQUAL(PGW_EINVAL,
                          pgw__pq_text(h, "notify", "SELECT pg_notify('c', $1)::text", &call));
    }
    TEST_ASSERT_EQUAL_STRING("alive", answer("SELECT 'alive'"));
    TEST_ASSERT_EQUAL_INT64(1, pgw__pq_epoch(h));
}

void test_a_session_killed_while_idle_is_replaced_without_a_riddle(void)
{
    char pid[32];

    open_direct();
    snprintf(pid, sizeof(pid), "%s", answer("SELECT pg_backend_pid()::text"));
    terminate(pid);
    TEST_ASSERT_EQUAL(PGW_OK, run("INSERT INTO public.t VALUES (1)", PGW__WRITES, 0));
    TEST_ASSERT_EQUAL_INT64(2, pgw__pq_epoch(h));
}

/* Nothing was sent yet, so the write is simply sent over the next connection. */
void test_a_session_lost_before_the_statement_is_replaced_without_a_riddle(void)
{
    static const char types[] = {'R', 'K', 'D',
                                 '1'}; /* greeting, key, probe of the setup, prepare */
    pgw__call call = {.sql = PGW__SQL_HANDLE_VERSION, .read = read_text, .flags = PGW__WRITES};

    pgtemp_exec(
        "CREATE SCHEMA pgwork; CREATE FUNCTION pgwork.version() RETURNS text LANGUAGE sql AS "
        "$$ SELECT 'one' $$");
    w = wire_open();
    for (size_t i = 0; i < sizeof(types); i++) {
        open_through_wire();
        TEST_ASSERT_EQUAL(PGW_ECONN,
                          ask("SELECT pg_terminate_backend(pg_backend_pid())::text", 0, 0));
        wire_at(w, types[i], 1, NULL, 0, WIRE_CUT);
        TEST_ASSERT_EQUAL_MESSAGE(PGW_OK, pgw__pq_call(h, &call), pgw_error_message(h));
        TEST_ASSERT_EQUAL_INT((int)i + 1, wire_orders(w));
        TEST_ASSERT_EQUAL_STRING("one", text_read);
        pgw_close(h);
        h = NULL;
    }
    pgtemp_exec("DROP SCHEMA pgwork CASCADE");
}

void test_open_does_not_hide_a_session_lost_in_its_setup(void)
{
    w = wire_open();
    wire_at(w, 'D', 1, NULL, 0, WIRE_CUT);
    TEST_ASSERT_EQUAL(PGW_ECONN, open_at(wire_dsn(w), NULL, NULL));
    TEST_ASSERT_EQUAL_INT(1, wire_connections(w));
}

void test_a_server_that_is_silent_while_connecting_is_asked_again(void)
{
    w = wire_open();
    TEST_ASSERT_EQUAL(PGW_OK, open_at(wire_dsn(w), "connect.timeout_ms", "5000"));
    TEST_ASSERT_EQUAL(PGW_ECONN, ask("SELECT pg_terminate_backend(pg_backend_pid())::text", 0, 0));
    wire_at(w, 'R', 1, NULL, 0, WIRE_SILENT);
    TEST_ASSERT_EQUAL_STRING("there", answer("SELECT 'there'"));
    TEST_ASSERT_EQUAL_INT(1, wire_orders(w));
    TEST_ASSERT_EQUAL_INT(3, wire_connections(w));
}

void test_a_load_into_a_hole_is_bounded(void)
{
    static char rows[1 << 20];
    pgw_status st = PGW_OK;

    for (size_t i = 0; i + 4 <= sizeof(rows); i += 4) memcpy(rows + i, "1\tx\n", 4);
    open_through_wire();
    pgw_set_timeout(h, 300);
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_copy_begin(h, "load", "COPY public.t FROM STDIN"));
    wire_freeze(w, true);
    for (int i = 0; i < 100 && st == PGW_OK; i++) st = pgw__pq_copy_data(h, rows, sizeof(rows));
    TEST_ASSERT_EQUAL(PGW_ETIMEDOUT, st);                      /* its end was not sent */
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw__pq_copy_end(h, true)); /* it is over */
    wire_freeze(w, false);
    pgw_set_timeout(h, PGW_DEFAULT);
    TEST_ASSERT_EQUAL_STRING("back", answer("SELECT 'back'"));
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT count(*) FROM t"));
    /* and the server's refusal in the middle of a load is heard */
    st = PGW_OK;
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_copy_begin(h, "load", "COPY public.t FROM STDIN"));
    for (int i = 0; i < 100 && st == PGW_OK; i++) st = pgw__pq_copy_data(h, rows, sizeof(rows));
    if (st == PGW_OK) st = pgw__pq_copy_end(h, true);
    TEST_ASSERT_EQUAL(PGW_EEXISTS, st);
    TEST_ASSERT_EQUAL_STRING("again", answer("SELECT 'again'"));
}

/* The same SQLSTATE says that an item is too large, and that no item can be stored until somebody
 * vacuums: then it has to wait. */
void test_a_server_without_transaction_numbers_is_short_of_resources(void)
{
    static const struct {
        const char *function, *hint;
        pgw_status status;
    } cases[] = {{"GetNewTransactionId", "VACUUM", PGW_ERETRY},
                 {"GetNewMultiXactId", "VACUUM", PGW_ERETRY},
                 {"_bt_check_third_page", "", PGW_ELIMIT}};

    open_through_wire();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t n;
        const char *error = wire_message_of(cases[i].function, 'E', "ERROR", "54000", "no", &n);

        wire_at(w, 'Z', 1, error, n, WIRE_PASS);
        TEST_ASSERT_EQUAL(cases[i].status, ask("SELECT 'x'", PGW__WRITES, 0));
        TEST_ASSERT_EQUAL_STRING("54000", pgw_error_sqlstate(h));
        TEST_ASSERT_TRUE(contains(pgw_error_hint(h), cases[i].hint));
    }
    TEST_ASSERT_EQUAL_STRING("again", answer("SELECT 'again'"));
}
