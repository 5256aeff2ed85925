/* Semaphores with real sessions and processes: never more permits are taken than exist. Longer than
 * 600 lines: all of semaphores in one program, since each program costs a build and a migration. */
#include "unity.h"
#include "pgw_all.h"
#include "oom.h"
#include "childkit.h"
#include "itpgw.h"
#include "pgtemp.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define expect(h, expected, call) ASSERT_ST(expected, call, h)

#define LONG_MS    20000 /* more than any wait that goes well */
#define CONTENDERS 64

void setUp(void)
{
    pgtemp_migrate();
}

void tearDown(void)
{
    pgw_set_allocator(NULL);
}

static pgw_status take(pgw *h, pgw_token *token, const char *name, int n, int64_t timeout_ms,
                       int64_t ttl_ms, bool session)
{
    pgw_sema_opts o = PGW_SEMA_OPTS_INIT;

    o.permits = n, o.timeout_ms = timeout_ms, o.ttl_ms = ttl_ms, o.session = session;
    return pgw_sema_acquire(h, name, &o, token);
}

static pgw_token taken(pgw *h, const char *name, int n)
{
    pgw_token token;

    expect(h, PGW_OK, take(h, &token, name, n, 0, 3600000, false));
    TEST_ASSERT_TRUE(token.number != 0);
    return token;
}

static void refused(pgw *h, const char *name, int n, int64_t timeout_ms)
{
    pgw_token token = {1, 1};

    expect(h, PGW_ELOCKED, take(h, &token, name, n, timeout_ms, 3600000, false));
    TEST_ASSERT_TRUE(token.number == 0 && token.nonce == 0);
}

static void status(pgw *h, const char *name, int permits, int out, int waiting)
{
    pgw_sema_info info = PGW_SEMA_INFO_INIT;

    expect(h, PGW_OK, pgw_sema_status(h, name, &info));
    TEST_ASSERT_EQUAL_INT(permits, info.permits);
    if (out >= 0) TEST_ASSERT_EQUAL_INT(out, info.taken);
    if (waiting >= 0) TEST_ASSERT_EQUAL_INT(waiting, info.waiting);
}

static pgw_status read_number(pgw *h, const pgw__rows *rows, void *ctx)
{
    (void)h;
    **(int64_t **)ctx = pgw__rows_int(rows, 0, 0);
    return PGW_OK;
}

/* In the session of the handle itself. */
static int64_t ask(pgw *h, const char *sql)
{
    int64_t n = -1, *out = &n;
    const pgw__call call = {.read = read_number, .ctx = &out, .ctx_size = sizeof(out)};

    return pgw__pq_text(h, "ask", sql, &call) == PGW_OK ? n : -1;
}

static const char session_locks[] =
    "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'";

/* ---- one after the other ---- */

void test_permits_go_out_and_come_back(void)
{
    pgw *h = it_open_bare(), *other = it_open_bare();
    pgw_token a, b;

    expect(h, PGW_OK, pgw_sema_create(h, "three", 3));
    expect(h, PGW_OK, pgw_sema_create(h, "three", 3));
    expect(h, PGW_EEXISTS, pgw_sema_create(h, "three", 4));
    a = taken(h, "three", 2);
    refused(other, "three", 2, 0);
    TEST_ASSERT_EQUAL_STRING("not enough permits are free", pgw_error_message(other));
    status(h, "three", 3, 2, 0); /* none of the two */
    b = taken(other, "three", 1);
    TEST_ASSERT_TRUE(a.nonce != b.nonce && a.number != b.number);
    refused(h, "three", 1, 0);
    refused(h, "three", 1, 30);
    expect(h, PGW_OK, pgw_sema_extend(h, "three", a, 5000));
    expect(h, PGW_OK, pgw_sema_release(h, "three", a));
    expect(h, PGW_ELEASE, pgw_sema_release(h, "three", a));
    expect(h, PGW_ELEASE, pgw_sema_extend(h, "three", a, 5000));
    status(h, "three", 3, 1, 0);
    a = taken(h, "three", 2);
    expect(other, PGW_OK, pgw_sema_release(other, "three", b));
    expect(other, PGW_ELOCKED, pgw_sema_drop(h, "three", false));
    expect(h, PGW_OK, pgw_sema_drop(h, "three", true));
    expect(h, PGW_ENOTFOUND, pgw_sema_extend(h, "three", a, 5000));
    expect(h, PGW_ENOTFOUND, pgw_sema_drop(h, "three", false));
    TEST_ASSERT_EQUAL_INT64(0, ask(h, session_locks));
    pgw_close(h);
    pgw_close(other);
}

void test_a_token_of_before_is_refused(void)
{
    pgw *h = it_open_bare();
    pgw_token a, b, wrong;

    expect(h, PGW_OK, pgw_sema_create(h, "fenced", 1));
    a = taken(h, "fenced", 1);
    pgtemp_exec("UPDATE pgwork.permit SET until = clock_timestamp() - interval '1 s' WHERE nonce "
                "IS NOT NULL");
    expect(h, PGW_ELEASE, pgw_sema_extend(h, "fenced", a, 5000)); /* though nobody has taken it */
    b = taken(h, "fenced", 1);
    TEST_ASSERT_TRUE(b.number > a.number);
    expect(h, PGW_ELEASE, pgw_sema_release(h, "fenced", a));
    wrong = b, wrong.nonce++;
    expect(h, PGW_ELEASE, pgw_sema_release(h, "fenced", wrong));
    wrong = b, wrong.number++;
    expect(h, PGW_ELEASE, pgw_sema_release(h, "fenced", wrong));
    status(h, "fenced", 1, 1, 0);
    expect(h, PGW_OK, pgw_sema_release(h, "fenced", b));
    expect(h, PGW_OK, pgw_sema_drop(h, "fenced", false));
    pgw_close(h);
}

void test_invalid_arguments_of_callers_are_refused(void)
{
    pgw *h = it_open_bare();
    pgw_token token;
    pgw_sema_info info = PGW_SEMA_INFO_INIT;
    char longest[257];

    expect(h, PGW_EINVAL, pgw_sema_create(h, "", 1));
    expect(h, PGW_EINVAL, pgw_sema_create(h, NULL, 1));
    expect(h, PGW_EINVAL, pgw_sema_create(h, "x", 0));
    expect(h, PGW_EINVAL, pgw_sema_create(h, "x", 10001));
    memset(longest, 's', sizeof(longest));
    longest[256] = '\0';
    expect(h, PGW_EINVAL, pgw_sema_create(h, longest, 1));
    longest[255] = '\0';
    expect(h, PGW_OK, pgw_sema_create(h, longest, 1));
    expect(h, PGW_OK, pgw_sema_release(h, longest, taken(h, longest, 1)));
    expect(h, PGW_OK, pgw_sema_drop(h, longest, false));
    expect(h, PGW_ENOTFOUND, pgw_sema_acquire(h, "nowhere", NULL, &token));
    expect(h, PGW_ENOTFOUND, pgw_sema_status(h, "nowhere", &info));
    expect(h, PGW_ENOTFOUND, pgw_sema_resize(h, "nowhere", 3));
    expect(h, PGW_EINVAL, pgw_sema_acquire(h, "x", NULL, NULL));
    expect(h, PGW_EINVAL, take(h, &token, "x", 0, 0, 1000, false));
    expect(h, PGW_EINVAL, take(h, &token, "x", 1, -2, 1000, false));
    expect(h, PGW_EINVAL, take(h, &token, "x", 1, 0, 99, false));
    expect(h, PGW_EINVAL, take(h, &token, "x", 1, 0, 86400001, false));
    expect(h, PGW_EINVAL, pgw_sema_extend(h, "x", token, 0));
    expect(h, PGW_OK, pgw_sema_create(h, "two", 2));
    expect(h, PGW_ELIMIT, take(h, &token, "two", 3, -1, 1000, false));
    expect(h, PGW_OK, pgw_sema_drop(h, "two", false));
    pgw_close(h);
}

void test_one_that_is_there_uses_no_number_up(void)
{
    static const char last[] =
        "SELECT pg_sequence_last_value(pg_get_serial_sequence('pgwork.semaphore', 'id')::regclass)";
    pgw *h = it_open_bare();
    int64_t number;

    expect(h, PGW_OK, pgw_sema_create(h, "again", 3));
    number = ask(h, last);
    TEST_ASSERT_GREATER_THAN_INT64(0, number);
    for (int i = 0; i < 5; i++) expect(h, PGW_OK, pgw_sema_create(h, "again", 3));
    expect(h, PGW_EEXISTS, pgw_sema_create(h, "again", 4));
    TEST_ASSERT_EQUAL_INT64(number, ask(h, last));
    expect(h, PGW_OK, pgw_sema_drop(h, "again", false));
    pgw_close(h);
}

void test_a_call_that_meets_a_drop_fails_and_leaves_nothing(void)
{
    static const char *const verbs[] = {"resize", "acquire"};
    PGconn *dropper = pgtemp_connect(), *late = pgtemp_connect();
    pgw *h = it_open_bare();
    PGresult *r;
    char sql[160];

    for (int i = 0; i < 2;) {
        expect(h, PGW_OK, pgw_sema_create(h, "doomed", 1));
        PQclear(PQexec(dropper, "BEGIN"));
        PQclear(PQexec(dropper, "SELECT pgwork.sema_drop('doomed')"));
        snprintf(sql, sizeof(sql), "SELECT pgwork.sema_%s('doomed', 1)", verbs[i]);
        TEST_ASSERT_EQUAL_INT(1, PQsendQuery(late, sql));
        snprintf(sql, sizeof(sql),
                 "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory' AND query "
                 "LIKE '%%sema_%s(''doomed%%'",
                 verbs[i]);
        while (ask(h, sql) != 1) poll(NULL, 0, 10);
        PQclear(PQexec(dropper, "COMMIT"));
        r = PQgetResult(late);
        if (strcmp(PQresultErrorField(r, PG_DIAG_SQLSTATE), "PW006") != 0) { /* we were in time */
            TEST_ASSERT_EQUAL_STRING("PW003", PQresultErrorField(r, PG_DIAG_SQLSTATE));
            TEST_ASSERT_NOT_NULL(
                strstr(PQresultErrorMessage(r), "semaphore \"doomed\" was dropped"));
            i++;
        }
        PQclear(r);
        PQclear(PQgetResult(late));
    }
    TEST_ASSERT_EQUAL_INT64(0,
                            ask(h, "SELECT count(*) FROM pgwork.permit p WHERE NOT EXISTS (SELECT "
                                   "FROM pgwork.semaphore s WHERE s.id = p.semaphore)"));
    PQfinish(dropper);
    PQfinish(late);
    pgw_close(h);
}

/* Neither there before nor when it looks again, and it was in between. */
void test_a_semaphore_that_is_dropped_while_it_is_created_is_created(void)
{
    static const char blocked[] = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND "
                                  "objid = %d AND NOT granted";
    PGconn *maker = pgtemp_connect();
    pgw *h = it_open_bare();
    PGresult *r;
    char sql[160];

    pgtemp_exec(
        "CREATE FUNCTION public.stay() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "PERFORM pg_advisory_xact_lock(CASE TG_WHEN WHEN 'BEFORE' THEN 71 ELSE 72 END); "
        "RETURN NULL; END $$;"
        "CREATE TRIGGER stay BEFORE INSERT ON pgwork.semaphore EXECUTE FUNCTION public.stay();"
        "CREATE TRIGGER go AFTER INSERT ON pgwork.semaphore EXECUTE FUNCTION public.stay()");
    ask(h, "SELECT pg_advisory_lock(71), pg_advisory_lock(72)");
    TEST_ASSERT_EQUAL_INT(1, PQsendQuery(maker, "SELECT pgwork.sema_create('brief', 1)"));
    snprintf(sql, sizeof(sql), blocked, 71);
    while (pgtemp_number(sql) != 1) poll(NULL, 0, 10);
    expect(h, PGW_OK, pgw_sema_create(h, "brief", 2));
    ask(h, "SELECT pg_advisory_unlock(71)");
    snprintf(sql, sizeof(sql), blocked, 72);
    while (pgtemp_number(sql) != 1) poll(NULL, 0, 10);
    expect(h, PGW_OK, pgw_sema_drop(h, "brief", false));
    ask(h, "SELECT pg_advisory_unlock(72)");
    r = PQgetResult(maker);
    TEST_ASSERT_EQUAL_STRING("", PQresultErrorMessage(r));
    PQclear(r);
    PQfinish(maker);
    pgtemp_exec("DROP FUNCTION public.stay() CASCADE");
    status(h, "brief", 1, 0, 0);
    expect(h, PGW_OK, pgw_sema_drop(h, "brief", false));
    pgw_close(h);
}

/* Whoever takes and returns permits may not have to wait for an open transaction, too. */
void test_a_resize_that_waits_for_an_open_transaction_lets_others_pass(void)
{
    PGconn *holder = pgtemp_connect(), *sizer = pgtemp_connect();
    pgw *h = it_open_bare();
    pgw_token a, b;
    PGresult *r;
    char pid[40];

    expect(h, PGW_OK, pgw_sema_create(h, "open", 3));
    a = taken(h, "open", 1);
    snprintf(pid, sizeof(pid), "process %d", PQbackendPID(holder));
    PQclear(PQexec(holder, "BEGIN"));
    PQclear(PQexec(holder, "SELECT pgwork.sema_acquire('open')"));
    TEST_ASSERT_EQUAL_INT(1, PQsendQuery(sizer, "SELECT pgwork.sema_resize('open', 5)"));
    while (ask(h, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory' AND query "
                  "LIKE '%sema_resize(''open%'") != 1)
        poll(NULL, 0, 10);
    pgw_set_timeout(h, 5000);
    expect(h, PGW_OK, pgw_sema_extend(h, "open", a, 60000));
    b = taken(h, "open", 1);
    expect(h, PGW_OK, pgw_sema_release(h, "open", a));
    TEST_ASSERT_EQUAL_INT(1, PQconsumeInput(sizer));
    TEST_ASSERT_EQUAL_INT(1, PQisBusy(sizer));

    r = PQgetResult(sizer); /* it gives up in the end */
    TEST_ASSERT_EQUAL_STRING("PW006", PQresultErrorField(r, PG_DIAG_SQLSTATE));
    TEST_ASSERT_NOT_NULL(strstr(PQresultErrorMessage(r), pid));
    PQclear(r);
    PQclear(PQgetResult(sizer));
    TEST_ASSERT_EQUAL_INT(1, PQsendQuery(sizer, "SELECT pgwork.sema_drop('open', true)"));
    while (ask(h, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory' AND query "
                  "LIKE '%sema_drop(''open%'") != 1)
        poll(NULL, 0, 10);
    expect(h, PGW_OK, pgw_sema_release(h, "open", b));
    PQclear(PQexec(holder, "COMMIT"));
    r = PQgetResult(sizer);
    TEST_ASSERT_EQUAL_INT(PGRES_TUPLES_OK, PQresultStatus(r));
    PQclear(r);
    PQfinish(holder);
    PQfinish(sizer);
    pgw_close(h);
}

/* Nobody loses a permit in silence while somebody resizes and does not commit. */
void test_a_resize_that_stays_open_is_named(void)
{
    PGconn *sizer = pgtemp_connect();
    pgw *h = it_open_bare();
    pgw_token a, b;
    char pid[40];

    expect(h, PGW_OK, pgw_sema_create(h, "lunch", 2));
    a = taken(h, "lunch", 1);
    snprintf(pid, sizeof(pid), "process %d", PQbackendPID(sizer));
    PQclear(PQexec(sizer, "BEGIN"));
    PQclear(PQexec(sizer, "SELECT pgwork.sema_resize('lunch', 4)"));
#define NAMED(call)               \
    expect(h, PGW_ELOCKED, call); \
    TEST_ASSERT_NOT_NULL_MESSAGE(strstr(pgw_error_message(h), pid), pgw_error_message(h))
    NAMED(take(h, &b, "lunch", 1, 0, 3600000, false));
    NAMED(take(h, &b, "lunch", 1, 1, 3600000, false)); /* in the queue */
    NAMED(pgw_sema_extend(h, "lunch", a, 60000));
    NAMED(pgw_sema_release(h, "lunch", a));
#undef NAMED
    TEST_ASSERT_EQUAL(PQTRANS_INTRANS, PQtransactionStatus(sizer));
    PQclear(PQexec(sizer, "COMMIT"));
    PQfinish(sizer);
    status(h, "lunch", 4, 1, 0);
    expect(h, PGW_OK, pgw_sema_extend(h, "lunch", a, 60000));
    b = taken(h, "lunch", 3);
    expect(h, PGW_OK, pgw_sema_release(h, "lunch", a));
    expect(h, PGW_OK, pgw_sema_release(h, "lunch", b));
    expect(h, PGW_OK, pgw_sema_drop(h, "lunch", false));
    pgw_close(h);
}

void test_any_text_is_a_name(void)
{
    static const char *const names[] = {"'",        "'; DROP TABLE pgwork.permit; --", "\"", "\\",
                                        "a\nb\x01", "\xf0\x9f\x94\x92 \xe2\x82\xac",   "%s"};
    pgw *h = it_open_bare();

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        expect(h, PGW_OK, pgw_sema_create(h, names[i], 1));
        expect(h, PGW_OK, pgw_sema_release(h, names[i], taken(h, names[i], 1)));
        expect(h, PGW_OK, pgw_sema_drop(h, names[i], false));
    }
    pgw_close(h);
}

static int note_name(const pgw_sema_info *info, void *arg)
{
    strncat(arg, info->name, 50);
    return strcmp(info->name, "b") == 0;
}

static int note_grant(const pgw_sema_grant *grant, void *arg)
{
    *(pgw_sema_grant *)arg = *grant;
    TEST_ASSERT_EQUAL_STRING("me", grant->holder);
    return 0;
}

void test_taken_permits_can_be_listed(void)
{
    pgw *h = it_open_bare();
    pgw_sema_opts o = PGW_SEMA_OPTS_INIT;
    pgw_sema_grant grant;
    pgw_token token;
    char names[200] = "";

    expect(h, PGW_OUTCOME_EMPTY, pgw_semas_each(h, note_name, names));
    expect(h, PGW_OK, pgw_sema_create(h, "b", 5));
    expect(h, PGW_OK, pgw_sema_create(h, "c", 5));
    expect(h, PGW_OK, pgw_sema_create(h, "a", 5));
    expect(h, PGW_OK, pgw_semas_each(h, note_name, names));
    TEST_ASSERT_EQUAL_STRING("ab", names);
    expect(h, PGW_OUTCOME_EMPTY, pgw_sema_grants_each(h, "a", note_grant, &grant));
    o.permits = 3, o.holder = "me", o.session = true;
    expect(h, PGW_OK, pgw_sema_acquire(h, "a", &o, &token));
    expect(h, PGW_OK, pgw_sema_grants_each(h, "a", note_grant, &grant));
    TEST_ASSERT_TRUE(grant.number == token.number);
    TEST_ASSERT_EQUAL_INT(3, grant.permits);
    TEST_ASSERT_EQUAL_INT64(ask(h, "SELECT pg_backend_pid()"), grant.pid);
    /* the clock is read twice */
    TEST_ASSERT_INT64_WITHIN(1000, 30000, (grant.until_us - grant.taken_us) / 1000);
    TEST_ASSERT_EQUAL_INT64(1, ask(h, session_locks));
    expect(h, PGW_OK, pgw_sema_release(h, "a", token));
    TEST_ASSERT_EQUAL_INT64(0, ask(h, session_locks));
    expect(h, PGW_EINVAL, pgw_semas_each(h, NULL, NULL));
    expect(h, PGW_EINVAL, pgw_sema_grants_each(h, "a", NULL, NULL));
    pgtemp_exec("DELETE FROM pgwork.semaphore; DELETE FROM pgwork.permit");
    pgw_close(h);
}

/* The server's lock table is as long as there are permits of sessions: where there are thousands,
 * to read it for each of them takes minutes. */
TEST_CASE("SELECT count(*) FROM pgwork.sema_holders('long')")
TEST_CASE("SELECT taken FROM pgwork.sema_list('long')")
void test_a_waiter_reads_the_locks_once(const char *look)
{
    static const char reads[] = "SELECT coalesce(pg_stat_get_xact_function_calls("
                                "'pgwork._advisory(bigint)'::regprocedure), 0)";
    pgw *h = it_open_bare();
    pgw_token token;
    long long before, seen, after;

    expect(h, PGW_OK, pgw_sema_create(h, "long", 5));
    for (int i = 0; i < 5; i++) expect(h, PGW_OK, take(h, &token, "long", 1, 0, 3600000, true));
    pgtemp_exec("BEGIN; SET LOCAL track_functions = 'all'");
    before = pgtemp_number(reads);
    seen = pgtemp_number(look);
    after = pgtemp_number(reads);
    pgtemp_exec("COMMIT");
    TEST_ASSERT_EQUAL_INT64(5, seen);
    TEST_ASSERT_EQUAL_INT64(1, after - before);
    expect(h, PGW_OK, pgw_sema_drop(h, "long", true));
    pgw_close(h);
}

/* ---- more out than there are ---- */

void test_after_a_resize_down_nothing_is_granted_before_enough_came_back(void)
{
    pgw *h = it_open_bare();
    pgw_token tokens[6], one;

    expect(h, PGW_OK, pgw_sema_create(h, "shrink", 6));
    for (int i = 0; i < 6; i++) tokens[i] = taken(h, "shrink", 1);
    expect(h, PGW_OK, pgw_sema_resize(h, "shrink", 3));
    status(h, "shrink", 3, 6, 0);
    expect(h, PGW_OK,
           pgw_sema_release(h, "shrink", tokens[0])); /* 5 out: the low ones come back first */
    refused(h, "shrink", 1, 0);
    expect(h, PGW_OK, pgw_sema_release(h, "shrink", tokens[1]));
    refused(h, "shrink", 1, 0);
    expect(h, PGW_OK, pgw_sema_extend(h, "shrink", tokens[5], 3600000));
    expect(h, PGW_OK, pgw_sema_release(h, "shrink", tokens[2]));
    refused(h, "shrink", 1, 0); /* 3 out of 3 */
    expect(h, PGW_OK, pgw_sema_release(h, "shrink", tokens[4]));
    one = taken(h, "shrink", 1);
    refused(h, "shrink", 1, 0);
    status(h, "shrink", 3, 3, 0);
    expect(h, PGW_OK, pgw_sema_release(h, "shrink", one));
    expect(h, PGW_OK, pgw_sema_release(h, "shrink", tokens[3]));
    expect(h, PGW_OK, pgw_sema_release(h, "shrink", tokens[5]));
    TEST_ASSERT_EQUAL_INT64(3, pgtemp_number("SELECT count(*) FROM pgwork.permit"));
    one = taken(h, "shrink", 3);
    expect(h, PGW_OK, pgw_sema_resize(h, "shrink", 5));
    tokens[0] = taken(h, "shrink", 2);
    refused(h, "shrink", 1, 0);
    expect(h, PGW_OK, pgw_sema_release(h, "shrink", one));
    expect(h, PGW_OK, pgw_sema_release(h, "shrink", tokens[0]));
    expect(h, PGW_OK, pgw_sema_drop(h, "shrink", false));
    pgw_close(h);
}

/* Neither who was refused nor who got some, and stays in its transaction, keeps others from what is
 * theirs. */
void test_a_count_in_an_open_transaction_does_not_block_extends(void)
{
    PGconn *open = pgtemp_connect();
    pgw *h = it_open_bare();
    pgw_token old[4];
    PGresult *r;

    expect(h, PGW_OK, pgw_sema_create(h, "counted", 4));
    for (int i = 0; i < 4; i++) old[i] = taken(h, "counted", 1);
    expect(h, PGW_OK, pgw_sema_resize(h, "counted", 2));
    PQclear(PQexec(open, "BEGIN"));
    r = PQexec(open, "SELECT token FROM pgwork.sema_acquire('counted')");
    TEST_ASSERT_EQUAL_INT(1, PQgetisnull(r, 0, 0));
    PQclear(r);
    expect(h, PGW_OK, pgw_sema_extend(h, "counted", old[3], 3600000));
    expect(h, PGW_OK, pgw_sema_release(h, "counted", old[0]));
    expect(h, PGW_OK, pgw_sema_release(h, "counted", old[1]));
    expect(h, PGW_OK, pgw_sema_release(h, "counted", old[2]));
    r = PQexec(open, "SELECT token FROM pgwork.sema_acquire('counted')"); /* 1 of 2 is out */
    TEST_ASSERT_EQUAL_INT(0, PQgetisnull(r, 0, 0));
    PQclear(r);
    refused(h, "counted", 1, 0);
    expect(h, PGW_OK, pgw_sema_extend(h, "counted", old[3], 3600000));
    PQclear(PQexec(open, "ROLLBACK"));
    old[0] = taken(h, "counted", 1);
    refused(h, "counted", 1, 0);
    PQfinish(open);
    TEST_ASSERT_EQUAL_INT64(-1, ask(h, "SELECT count(*) FROM pgwork.sema_drop('counted', NULL)"));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_message(h), "permits of semaphore"));
    expect(h, PGW_OK, pgw_sema_drop(h, "counted", true));
    pgw_close(h);
}

/* There the rows of all have to be locked, to see whether the snapshot knows them. */
void test_a_count_by_a_snapshot_grants_no_permit_too_many(void)
{
    PGconn *open = pgtemp_connect();
    pgw *h = it_open_bare();
    pgw_token old[3];
    PGresult *r;

    expect(h, PGW_OK, pgw_sema_create(h, "snapshot", 3));
    for (int i = 0; i < 3; i++) old[i] = taken(h, "snapshot", 1);
    expect(h, PGW_OK, pgw_sema_resize(h, "snapshot", 2));
    PQclear(PQexec(open, "BEGIN ISOLATION LEVEL REPEATABLE READ"));
    PQclear(PQexec(open, "SELECT 1"));
    expect(h, PGW_OK, pgw_sema_release(h, "snapshot", old[0]));
    r = PQexec(open, "SELECT token FROM pgwork.sema_acquire('snapshot')");
    TEST_ASSERT_EQUAL_STRING("40001", PQresultErrorField(r, PG_DIAG_SQLSTATE));
    PQclear(r);
    PQclear(PQexec(open, "ROLLBACK"));
    expect(h, PGW_OK, pgw_sema_release(h, "snapshot", old[1]));
    PQclear(PQexec(open, "BEGIN ISOLATION LEVEL REPEATABLE READ"));
    r = PQexec(open, "SELECT token FROM pgwork.sema_acquire('snapshot')"); /* 1 of 2 is out */
    TEST_ASSERT_EQUAL_INT(0, PQgetisnull(r, 0, 0));
    PQclear(r);
    refused(h, "snapshot", 1, 0);
    pgw_set_timeout(h, 5000);
    expect(h, PGW_OK, pgw_sema_extend(h, "snapshot", old[2], 3600000));
    expect(h, PGW_OK, pgw_sema_release(h, "snapshot", old[2]));
    TEST_ASSERT_EQUAL(PQTRANS_INTRANS, PQtransactionStatus(open));
    PQclear(PQexec(open, "COMMIT"));
    PQfinish(open);
    status(h, "snapshot", 2, 1, 0);
    expect(h, PGW_OK, pgw_sema_drop(h, "snapshot", true));
    pgw_close(h);
}

/* An extension that is not committed yet counts, though its permit seems to be over. */
void test_a_permit_that_is_just_being_extended_is_not_counted_as_free(void)
{
    PGconn *open = pgtemp_connect();
    pgw *h = it_open_bare();
    pgw_token old[2];
    char sql[200], token[PGW_TOKEN_TEXT_SIZE];

    expect(h, PGW_OK, pgw_sema_create(h, "late", 2));
    for (int i = 0; i < 2; i++) old[i] = taken(h, "late", 1);
    expect(h, PGW_OK, pgw_sema_resize(h, "late", 1));
    expect(h, PGW_OK, pgw_sema_release(h, "late", old[0])); /* its slot is the only one left */
    expect(h, PGW_OK, pgw_sema_extend(h, "late", old[1], 4000));
    PQclear(PQexec(open, "BEGIN"));
    snprintf(sql, sizeof(sql), "SELECT count(pgwork.sema_extend('late', '%s', 60000))",
             pgw_token_format(old[1], token));
    PQclear(PQexec(open, sql));
    poll(NULL, 0, 4100); /* to all others it is over */
    refused(h, "late", 1, 0);
    PQclear(PQexec(open, "ROLLBACK"));
    old[0] = taken(h, "late", 1);
    PQfinish(open);
    expect(h, PGW_OK, pgw_sema_drop(h, "late", true));
    pgw_close(h);
}

/* ---- waiting ---- */

typedef struct waiter {
    pgw *h;
    const char *name;
    pgw_token token;
    int n;
    pgw_status st;
} waiter;

static void *wait_for_permits(void *arg)
{
    waiter *w = arg;

    w->st = take(w->h, &w->token, w->name, w->n, LONG_MS, 3600000, false);
    return NULL;
}

static bool are_waiting(pgw *h, const char *name, int n)
{
    pgw_sema_info info = PGW_SEMA_INFO_INIT;

    for (int i = 0; i < LONG_MS / 10 && info.waiting != n; i++) {
        if (i > 0) (void)poll(NULL, 0, 10);
        if (pgw_sema_status(h, name, &info) != PGW_OK) return false;
    }
    return info.waiting == n;
}

void test_a_waiter_for_many_permits_is_not_overtaken_by_waiters_for_one(void)
{
    pgw *h = it_open_bare();
    waiter many = {it_open_bare(), "queue", {0, 0}, 3, PGW_OUTCOME_EMPTY},
           one = {it_open_bare(), "queue", {0, 0}, 1, PGW_OUTCOME_EMPTY};
    pthread_t threads[2];
    pgw_token a, b;

    expect(h, PGW_OK, pgw_sema_create(h, "queue", 3));
    a = taken(h, "queue", 1);
    b = taken(h, "queue", 1);
    TEST_ASSERT_EQUAL_INT(0, pthread_create(&threads[0], NULL, wait_for_permits, &many));
    TEST_ASSERT_TRUE(are_waiting(h, "queue", 1));
    refused(h, "queue", 1, 0); /* one is free, and not for us */
    TEST_ASSERT_EQUAL_INT(0, pthread_create(&threads[1], NULL, wait_for_permits, &one));
    TEST_ASSERT_TRUE(are_waiting(h, "queue", 2));
    expect(h, PGW_OK, pgw_sema_release(h, "queue", a));
    status(h, "queue", 3, 1, 2);
    expect(h, PGW_OK, pgw_sema_release(h, "queue", b));
    TEST_ASSERT_EQUAL_INT(0, pthread_join(threads[0], NULL));
    expect(many.h, PGW_OK, many.st);
    status(h, "queue", 3, 3, -1);
    expect(h, PGW_OK, pgw_sema_release(h, "queue", many.token));
    TEST_ASSERT_EQUAL_INT(0, pthread_join(threads[1], NULL));
    expect(one.h, PGW_OK, one.st);
    status(h, "queue", 3, 1, 0);
    expect(h, PGW_OK, pgw_sema_release(h, "queue", one.token)); /* from any session */
    expect(h, PGW_OK, pgw_sema_drop(h, "queue", false));
    pgw_close(h);
    pgw_close(one.h);
    pgw_close(many.h);
}

/* Possible in SQL only. */
TEST_CASE("SELECT pgwork.sema_acquire('idle')")
TEST_CASE("SELECT pgwork.sema_release('idle', (SELECT token FROM public.idle))")
void test_an_open_transaction_does_not_keep_the_permits_of_others(const char *verb)
{
    PGconn *open = pgtemp_connect();
    pgw *h = it_open_bare();
    waiter w = {it_open_bare(), "idle", {0, 0}, 1, PGW_OUTCOME_EMPTY};
    pthread_t thread;
    pgw_token token;
    PGresult *r;

    expect(h, PGW_OK, pgw_sema_create(h, "idle", 3));
    pgtemp_exec("CREATE TABLE public.idle AS SELECT token FROM pgwork.sema_acquire('idle')");
    token = taken(h, "idle", 1);
    PQclear(PQexec(open, "BEGIN"));
    r = PQexec(open, verb);
    TEST_ASSERT_EQUAL_INT(PGRES_TUPLES_OK, PQresultStatus(r));
    PQclear(r);
    if (strstr(verb, "release") != NULL) taken(h, "idle", 1);
    TEST_ASSERT_EQUAL_INT(0, pthread_create(&thread, NULL, wait_for_permits, &w));
    TEST_ASSERT_TRUE(are_waiting(h, "idle", 1));
    expect(h, PGW_OK, pgw_sema_release(h, "idle", token));
    TEST_ASSERT_EQUAL_INT(0, pthread_join(thread, NULL));
    expect(w.h, PGW_OK, w.st);
    TEST_ASSERT_EQUAL(PQTRANS_INTRANS, PQtransactionStatus(open));
    PQclear(PQexec(open, "COMMIT"));
    PQfinish(open);
    pgtemp_exec("DROP TABLE public.idle");
    expect(h, PGW_OK, pgw_sema_drop(h, "idle", true));
    pgw_close(h);
    pgw_close(w.h);
}

/* Otherwise its row locks would keep others from free permits, and while it holds some it would
 * wait for more at its next try, in no order. */
void test_a_request_that_finds_too_few_permits_keeps_none(void)
{
    PGconn *open = pgtemp_connect(), *dead = pgtemp_connect();
    pgw *h = it_open_bare();
    char sql[100];
    PGresult *r;

    expect(h, PGW_OK, pgw_sema_create(h, "few", 4));
    PQclear(PQexec(dead, "SELECT pgwork.sema_acquire('few', session => true)"));
    taken(h, "few", 1);
    status(h, "few", 4, 2, 0);
    snprintf(sql, sizeof(sql), "SELECT pg_terminate_backend(%d, 10000)", PQbackendPID(dead));
    TEST_ASSERT_EQUAL_STRING("t", pgtemp_value(sql));
    PQclear(PQexec(open, "BEGIN"));
    r = PQexec(open, "SELECT token FROM pgwork.sema_acquire('few', 4)");
    TEST_ASSERT_EQUAL_INT(PGRES_TUPLES_OK, PQresultStatus(r));
    TEST_ASSERT_TRUE(PQgetisnull(r, 0, 0));
    PQclear(r);
    for (int i = 0; i < 3; i++) taken(h, "few", 1);
    TEST_ASSERT_EQUAL(PQTRANS_INTRANS, PQtransactionStatus(open));
    PQclear(PQexec(open, "COMMIT"));
    PQfinish(open);
    PQfinish(dead);
    expect(h, PGW_OK, pgw_sema_drop(h, "few", true));
    pgw_close(h);
}

/* Nobody waits yet, so nobody will be told of what an open transaction did. */
void test_a_waiter_at_the_head_beside_an_open_transaction_asks_again_soon(void)
{
    static const char ask_again[] =
        "SELECT next_ms FROM pgwork.sema_wait('soon', 1, 60000, NULL, false, 1000, false)";
    pgw *h = it_open_bare();
    PGconn *open = pgtemp_connect();

    expect(h, PGW_OK, pgw_sema_create(h, "soon", 1));
    pgtemp_exec("CREATE TABLE public.soon AS SELECT token FROM pgwork.sema_acquire('soon')");
    TEST_ASSERT_GREATER_THAN_INT64(1000, ask(h, ask_again));
    TEST_ASSERT_EQUAL_INT64(1, ask(h, "SELECT pgwork.sema_leave('soon')::int"));
    PQclear(PQexec(open, "BEGIN"));
    PQclear(PQexec(open, "SELECT pgwork.sema_release('soon', token) FROM public.soon"));
    TEST_ASSERT_EQUAL_INT64(500, ask(h, ask_again));
    PQclear(PQexec(open, "COMMIT"));
    TEST_ASSERT_EQUAL_INT64(0, ask(h, "SELECT coalesce(next_ms, 0) FROM pgwork.sema_wait('soon', "
                                      "1, 60000, NULL, false, 0, true)"));
    TEST_ASSERT_EQUAL_INT64(0, ask(h, session_locks));
    pgtemp_exec("DROP TABLE public.soon");
    expect(h, PGW_OK, pgw_sema_drop(h, "soon", true));
    PQfinish(open);
    pgw_close(h);
}

/* What an open transaction has taken seems to be free, and cannot be had. */
void test_a_waiter_beside_an_open_transaction_polls_with_pauses(void)
{
    pgw *h = it_open_bare();
    PGconn *open = pgtemp_connect();

    expect(h, PGW_OK, pgw_sema_create(h, "calm", 1));
    PQclear(PQexec(open, "BEGIN"));
    PQclear(PQexec(open, "SELECT pgwork.sema_acquire('calm')"));
    TEST_ASSERT_EQUAL_INT64(500, ask(h, "SELECT next_ms FROM pgwork.sema_acquire('calm')"));
    TEST_ASSERT_EQUAL_INT64(500, ask(h, "SELECT next_ms FROM pgwork.sema_wait('calm', 1, 60000, "
                                        "NULL, false, 1000, false)"));
    TEST_ASSERT_EQUAL(PQTRANS_INTRANS, PQtransactionStatus(open));
    PQclear(PQexec(open, "COMMIT"));
    PQfinish(open);
    TEST_ASSERT_EQUAL_INT64(1, ask(h, "SELECT pgwork.sema_leave('calm')::int"));
    expect(h, PGW_OK, pgw_sema_drop(h, "calm", true));
    pgw_close(h);
}

void test_a_waiter_is_woken_by_a_resize_and_by_time(void)
{
    pgw *h = it_open_bare();
    waiter w = {it_open_bare(), "grow", {0, 0}, 1, PGW_OUTCOME_EMPTY};
    pthread_t thread;
    pgw_token token;

    expect(h, PGW_OK, pgw_sema_create(h, "grow", 1));
    expect(h, PGW_OK, take(h, &token, "grow", 1, 0, 3600000, false));
    TEST_ASSERT_EQUAL_INT(0, pthread_create(&thread, NULL, wait_for_permits, &w));
    TEST_ASSERT_TRUE(are_waiting(h, "grow", 1));
    expect(h, PGW_OK, pgw_sema_resize(h, "grow", 2));
    TEST_ASSERT_EQUAL_INT(0, pthread_join(thread, NULL));
    expect(w.h, PGW_OK, w.st);
    expect(h, PGW_OK, pgw_sema_extend(h, "grow", token, 150));
    expect(w.h, PGW_OK, take(w.h, &token, "grow", 1, LONG_MS, 3600000, false)); /* after 150 ms */
    TEST_ASSERT_EQUAL_INT64(0, ask(w.h, "SELECT count(*) FROM pg_listening_channels()"));
    expect(h, PGW_OK, pgw_sema_drop(h, "grow", true));
    pgw_close(h);
    pgw_close(w.h);
}

/* It is refused again and again meanwhile, and waits on. */
void test_a_waiter_outlasts_a_resize_that_stays_open(void)
{
    PGconn *sizer = pgtemp_connect();
    pgw *h = it_open_bare();
    waiter w = {it_open_bare(), "outlast", {0, 0}, 1, PGW_OUTCOME_EMPTY};
    pthread_t thread;

    expect(h, PGW_OK, pgw_sema_create(h, "outlast", 1));
    taken(h, "outlast", 1);
    PQclear(PQexec(sizer, "BEGIN"));
    PQclear(PQexec(sizer, "SELECT pgwork.sema_resize('outlast', 2)"));
    TEST_ASSERT_EQUAL_INT(0, pthread_create(&thread, NULL, wait_for_permits, &w));
    TEST_ASSERT_TRUE(are_waiting(h, "outlast", 1)); /* so it was refused already */
    TEST_ASSERT_EQUAL(PQTRANS_INTRANS, PQtransactionStatus(sizer));
    PQclear(PQexec(sizer, "COMMIT"));
    PQfinish(sizer);
    TEST_ASSERT_EQUAL_INT(0, pthread_join(thread, NULL));
    expect(w.h, PGW_OK, w.st);
    TEST_ASSERT_EQUAL_INT64(0, ask(w.h, session_locks));
    expect(h, PGW_OK, pgw_sema_drop(h, "outlast", true));
    pgw_close(h);
    pgw_close(w.h);
}

static pid_t waiting_process(const char *name)
{
    const pid_t pid = forked();

    if (pid == 0) {
        pgw *h = it_try_bare();
        pgw_token token;

        if (take(h, &token, name, 1, 3 * LONG_MS, 3600000, false) != PGW_OK) _exit(1);
        if (ask(h, "SELECT setting::bigint FROM pg_settings WHERE name = 'idle_session_timeout'") !=
            0)
            _exit(2);
        _exit(pgw_sema_release(h, name, token) == PGW_OK ? 0 : 3);
    }
    return pid;
}

/* Has the server answered all that the head of the queue has asked? Before that it might yet be
 * given a permit, which it would keep although it is frozen. */
static bool is_answered(pgw *h)
{
    for (int i = 0; i < LONG_MS / 10; i++) {
        if (i > 0) (void)poll(NULL, 0, 10);
        if (ask(h, "SELECT count(*) FROM pg_stat_activity a JOIN pg_locks l USING (pid) WHERE "
                   "a.datname = current_database() AND a.state = 'idle' AND l.locktype = "
                   "'advisory' AND l.mode = 'ExclusiveLock' AND l.granted") == 1)
            return true;
    }
    return false;
}

/* Nobody else would get a permit until it thaws. */
void test_a_frozen_head_of_the_queue_is_passed(void)
{
    pgw *h = it_open_bare();
    pgw_token token;
    pgw_status st;
    pid_t pid;

    expect(h, PGW_OK, pgw_sema_create(h, "frozen", 1));
    token = taken(h, "frozen", 1);
    pid = waiting_process("frozen");
    TEST_ASSERT_TRUE(are_waiting(h, "frozen", 1));
    kill(pid, SIGSTOP);
    TEST_ASSERT_EQUAL_INT(pid, waitpid(pid, NULL, WUNTRACED));
    TEST_ASSERT_TRUE(is_answered(h));
    expect(h, PGW_OK, pgw_sema_release(h, "frozen", token));
    st = take(h, &token, "frozen", 1, LONG_MS, 3600000, false);
    kill(pid, SIGCONT); /* it has lost its session, and queues anew */
    expect(h, PGW_OK, st);
    TEST_ASSERT_TRUE(are_waiting(h, "frozen", 1));
    expect(h, PGW_OK, pgw_sema_release(h, "frozen", token));
    TEST_ASSERT_EQUAL_INT(0, reaped(pid));
    status(h, "frozen", 1, 0, 0);
    expect(h, PGW_OK, pgw_sema_drop(h, "frozen", false));
    pgw_close(h);
}

void test_a_waiter_that_leaves_the_head_may_be_silent_again(void)
{
    pgw *h = it_open_bare();
    pgw_token token = {0, 0};

    expect(h, PGW_OK, pgw_sema_create(h, "silent", 1));
    token = taken(h, "silent", 1);
    TEST_ASSERT_EQUAL_INT64(
        0, ask(h, "SELECT count(set_config('idle_session_timeout', '1min', false)) - 1"));
    refused(h, "silent", 1, 30);
    TEST_ASSERT_EQUAL_INT64(
        60000,
        ask(h, "SELECT setting::bigint FROM pg_settings WHERE name = 'idle_session_timeout'"));
    expect(h, PGW_OK, pgw_sema_release(h, "silent", token));
    expect(h, PGW_OK, pgw_sema_drop(h, "silent", false));
    pgw_close(h);
}

static void *stop_soon(void *arg)
{
    void **in = arg;
    bool ok = are_waiting(in[0], "stopped", 1);

    pgw_stop_notify(in[1]);
    return ok ? in : NULL;
}

void test_a_stop_ends_the_wait_and_gives_the_turn_away(void)
{
    pgw *h = it_open_bare(), *waits = it_open_bare(), *observer = it_open_bare();
    pgw_stop *stop;
    void *in[2] = {observer, NULL}, *ok;
    pthread_t thread;
    pgw_token a, b;

    TEST_ASSERT_EQUAL(PGW_OK, pgw_stop_new(&stop));
    in[1] = stop;
    expect(h, PGW_OK, pgw_sema_create(h, "stopped", 2));
    a = taken(h, "stopped", 1);
    pgw_set_stop(waits, stop);
    TEST_ASSERT_EQUAL_INT(0, pthread_create(&thread, NULL, stop_soon, in));
    expect(waits, PGW_ECANCELED, take(waits, &b, "stopped", 2, -1, 3600000, false));
    TEST_ASSERT_EQUAL_INT(0, pthread_join(thread, &ok));
    TEST_ASSERT_NOT_NULL(ok);
    TEST_ASSERT_EQUAL_INT64(0, ask(waits, session_locks));
    b = taken(h, "stopped", 1);
    expect(h, PGW_OK, pgw_sema_release(h, "stopped", a));
    expect(h, PGW_OK, pgw_sema_release(h, "stopped", b));
    expect(h, PGW_OK, pgw_sema_drop(h, "stopped", false));
    pgw_close(h);
    pgw_close(waits);
    pgw_close(observer);
    pgw_stop_free(stop);
}

/* The first wait prepares the statement that waits, and is stopped at that. */
void test_a_stop_ends_the_wait_and_not_the_session(void)
{
    pgw *h = it_open_bare(), *holder = it_open_bare();
    pgw_lock *lock;
    pgw_stop *stop;
    pgw_token a, b;

    expect(h, PGW_OK, pgw_sema_create(h, "full", 1));
    a = taken(holder, "full", 1);
    expect(h, PGW_OK, pgw_lock_acquire(h, "held beside", NULL, &lock));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_stop_new(&stop));
    pgw_set_stop(h, stop);
    pgw_stop_notify(stop);
    for (int i = 0; i < 2; i++) {
        expect(h, PGW_ECANCELED, take(h, &b, "full", 1, LONG_MS, 3600000, false));
        TEST_ASSERT_TRUE(pgw_lock_is_held(lock));
    }
    expect(h, PGW_OK, pgw_lock_release(lock));
    TEST_ASSERT_EQUAL_INT64(0, ask(h, session_locks));
    expect(holder, PGW_OK, pgw_sema_release(holder, "full", a));
    expect(holder, PGW_OK, pgw_sema_drop(holder, "full", false));
    pgw_close(h);
    pgw_close(holder);
    pgw_stop_free(stop);
}

/* ---- holders that die ---- */

static pid_t holder_process(const char *name, bool session, int64_t ttl_ms, int64_t *backend)
{
    int fds[2];
    pid_t pid;

    TEST_ASSERT_EQUAL_INT(0, pipe(fds));
    pid = forked();
    if (pid == 0) {
        pgw *h = it_try_bare();
        pgw_token token;
        int64_t own = ask(h, "SELECT pg_backend_pid()");

        close(fds[0]);
        if (take(h, &token, name, 1, 0, ttl_ms, session) != PGW_OK) _exit(1);
        (void)!write(fds[1], &own, sizeof(own));
        for (;;) (void)pause();
    }
    close(fds[1]);
    TEST_ASSERT_EQUAL_INT(sizeof(*backend), (int)read(fds[0], backend, sizeof(*backend)));
    close(fds[0]);
    return pid;
}

void test_the_permit_of_a_dead_session_comes_back_at_once_if_asked_so(void)
{
    pgw *h = it_open_bare();
    int64_t backend;
    pgw_token token;
    pid_t pid;

    expect(h, PGW_OK, pgw_sema_create(h, "dead", 1));
    pid = holder_process("dead", true, 3600000, &backend);
    refused(h, "dead", 1, 0);
    kill(pid, SIGKILL);
    TEST_ASSERT_EQUAL_INT(128 + SIGKILL, reaped(pid));
    expect(h, PGW_OK, take(h, &token, "dead", 1, LONG_MS, 3600000, false));
    expect(h, PGW_OK, pgw_sema_release(h, "dead", token));

    pid = holder_process("dead", false, 3000, &backend);
    refused(h, "dead", 1, 0);
    kill(pid, SIGKILL);
    TEST_ASSERT_EQUAL_INT(128 + SIGKILL, reaped(pid));
    expect(h, PGW_OK, take(h, &token, "dead", 1, LONG_MS, 3600000, false)); /* after its ttl */
    expect(h, PGW_OK, pgw_sema_release(h, "dead", token));
    expect(h, PGW_OK, pgw_sema_drop(h, "dead", false));
    pgw_close(h);
}

void test_a_new_session_does_not_bring_the_permits_of_the_old_one_back(void)
{
    pgw *h = it_open_bare();
    pgw_token token;
    char sql[100];

    expect(h, PGW_OK, pgw_sema_create(h, "session", 2));
    expect(h, PGW_OK, take(h, &token, "session", 2, 0, 3600000, true));
    expect(h, PGW_OK, pgw_sema_extend(h, "session", token, 3600000));
    snprintf(sql, sizeof(sql), "SELECT pg_terminate_backend(%d, 10000)",
             (int)ask(h, "SELECT pg_backend_pid()"));
    TEST_ASSERT_EQUAL_STRING("t", pgtemp_value(sql));
    expect(h, PGW_ELEASE, pgw_sema_extend(h, "session", token, 3600000));
    status(h, "session", 2, 0, 0);
    expect(h, PGW_OK, pgw_sema_release(h, "session", taken(h, "session", 2)));
    expect(h, PGW_ELEASE, pgw_sema_release(h, "session", token));
    expect(h, PGW_OK, pgw_sema_drop(h, "session", false));
    pgw_close(h);
}

/* Who takes several does not wait for its end, with or without others that are free. */
void test_a_transaction_that_stays_open_holds_only_what_it_took(void)
{
    pgw *h = it_open_bare();
    PGconn *open = pgtemp_connect();
    pgw_token token;

    expect(h, PGW_OK, pgw_sema_create(h, "open", 4));
    PQclear(PQexec(open, "BEGIN; SELECT pgwork.sema_acquire('open')"));
    expect(h, PGW_OK, take(h, &token, "open", 3, 0, 3600000, false));
    expect(h, PGW_OK, pgw_sema_release(h, "open", token));
    refused(h, "open", 4, 0);
    refused(h, "open", 4, 200);
    TEST_ASSERT_EQUAL(PQTRANS_INTRANS, PQtransactionStatus(open));
    PQclear(PQexec(open, "ROLLBACK"));
    PQfinish(open);
    expect(h, PGW_OK, take(h, &token, "open", 4, LONG_MS, 3600000, false));
    expect(h, PGW_OK, pgw_sema_release(h, "open", token));
    expect(h, PGW_OK, pgw_sema_drop(h, "open", false));
    pgw_close(h);
}

/* A session that lives long would gather the locks of what it has lost. */
void test_permits_that_were_lost_leave_no_lock_behind(void)
{
    static const char over_now[] =
        "UPDATE pgwork.permit SET until = clock_timestamp() WHERE nonce IS NOT NULL";
    pgw *h = it_open_bare(), *other = it_open_bare();
    pgw_token token, wrong;

    expect(h, PGW_OK, pgw_sema_create(h, "lost", 1));
    for (int late = 0; late < 2; late++) {
        expect(h, PGW_OK, take(h, &token, "lost", 1, 0, 3600000, true));
        pgtemp_exec(over_now);
        if (late) {
            expect(h, PGW_ELEASE, pgw_sema_extend(h, "lost", token, 3600000));
            TEST_ASSERT_EQUAL_INT64(0, ask(h, session_locks));
        }
        expect(h, PGW_ELEASE, pgw_sema_release(h, "lost", token)); /* though nobody has it yet */
        TEST_ASSERT_EQUAL_INT64(0, ask(h, session_locks));
    }

    expect(h, PGW_OK, take(h, &token, "lost", 1, 0, 3600000, true));
    pgtemp_exec(over_now);
    wrong = taken(other, "lost", 1);
    expect(h, PGW_ELEASE, pgw_sema_release(h, "lost", token));
    TEST_ASSERT_EQUAL_INT64(0, ask(h, session_locks));
    expect(other, PGW_OK, pgw_sema_release(other, "lost", wrong));

    /* a wrong token takes nothing away */
    expect(h, PGW_OK, take(h, &token, "lost", 1, 0, 3600000, true));
    wrong = token, wrong.nonce++;
    expect(h, PGW_ELEASE, pgw_sema_release(h, "lost", wrong));
    expect(h, PGW_ELEASE, pgw_sema_extend(h, "lost", wrong, 3600000));
    expect(h, PGW_ENOTFOUND, pgw_sema_release(h, "elsewhere", token));
    TEST_ASSERT_EQUAL_INT64(1, ask(h, session_locks));
    expect(h, PGW_OK, pgw_sema_extend(h, "lost", token, 3600000));

    expect(h, PGW_OK, pgw_sema_drop(other, "lost", true));
    expect(h, PGW_ENOTFOUND, pgw_sema_extend(h, "lost", token, 3600000));
    TEST_ASSERT_EQUAL_INT64(0, ask(h, session_locks));
    pgw_close(h);
    pgw_close(other);
}

/* Nor does a grant that fails; and one that is rolled back goes when it is returned. */
void test_a_grant_that_failed_leaves_no_lock_behind(void)
{
    pgw *h = it_open_bare();
    pgw_sema_opts o = PGW_SEMA_OPTS_INIT;
    pgw_token token;
    char undone[120];

    expect(h, PGW_OK, pgw_sema_create(h, "failed", 1));
    o.session = true, o.holder = "nobody";
    pgtemp_exec("ALTER TABLE pgwork.permit ADD CONSTRAINT somebody CHECK (holder <> 'nobody')");
    TEST_ASSERT_LESS_THAN_INT(0, pgw_sema_acquire(h, "failed", &o, &token));
    pgtemp_exec("ALTER TABLE pgwork.permit DROP CONSTRAINT somebody");
    TEST_ASSERT_EQUAL_STRING("23514", pgw_error_sqlstate(h));
    TEST_ASSERT_EQUAL_INT64(0, ask(h, session_locks));

    pgtemp_exec("BEGIN");
    snprintf(undone, sizeof(undone), "SELECT pgwork.sema_release('failed', '%s')",
             pgtemp_value("SELECT token FROM pgwork.sema_acquire('failed', session => true)"));
    pgtemp_exec("ROLLBACK");
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number(session_locks));
    TEST_ASSERT_EQUAL_STRING("f", pgtemp_value(undone));
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number(session_locks));
    expect(h, PGW_OK, pgw_sema_drop(h, "failed", false));
    pgw_close(h);
}

/* A permit that a crash forgets would be out twice, and so would one whose extension it forgets. */
void test_permits_wait_for_the_disk_whatever_their_session_has_set(void)
{
    static const char setting[] = "SELECT current_setting('synchronous_commit')";
    pgw *h = it_open_bare();
    char token[40], sql[120];

    expect(h, PGW_OK, pgw_sema_create(h, "kept", 1));
    pgtemp_exec("SET synchronous_commit = off; BEGIN");
    snprintf(token, sizeof(token), "%s",
             pgtemp_value("SELECT token FROM pgwork.sema_acquire('kept')"));
    TEST_ASSERT_EQUAL_STRING("on", pgtemp_value(setting));
    pgtemp_exec("COMMIT; BEGIN");
    TEST_ASSERT_EQUAL_STRING("off", pgtemp_value(setting));
    snprintf(sql, sizeof(sql), "SELECT pgwork.sema_extend('kept', '%s') IS NOT NULL", token);
    TEST_ASSERT_EQUAL_STRING("t", pgtemp_value(sql));
    TEST_ASSERT_EQUAL_STRING("on", pgtemp_value(setting));
    pgtemp_exec("COMMIT; BEGIN");
    snprintf(sql, sizeof(sql), "SELECT pgwork.sema_release('kept', '%s')", token);
    TEST_ASSERT_EQUAL_STRING("t", pgtemp_value(sql));
    TEST_ASSERT_EQUAL_STRING("off", pgtemp_value(setting)); /* that may be forgotten */
    pgtemp_exec("COMMIT; RESET synchronous_commit");
    expect(h, PGW_OK, pgw_sema_drop(h, "kept", false));
    pgw_close(h);
}

void test_the_head_of_the_queue_of_a_dropped_semaphore_leaves(void)
{
    pgw *h = it_open_bare();
    waiter w = {it_open_bare(), "dropped", {0, 0}, 1, PGW_OUTCOME_EMPTY};
    pthread_t thread;

    expect(h, PGW_OK, pgw_sema_create(h, "dropped", 1));
    taken(h, "dropped", 1);
    TEST_ASSERT_EQUAL_INT(0, pthread_create(&thread, NULL, wait_for_permits, &w));
    TEST_ASSERT_TRUE(are_waiting(h, "dropped", 1));
    expect(h, PGW_OK, pgw_sema_drop(h, "dropped", true));
    TEST_ASSERT_EQUAL_INT(0, pthread_join(thread, NULL));
    expect(w.h, PGW_ENOTFOUND, w.st);
    TEST_ASSERT_EQUAL_INT64(0, ask(w.h, session_locks));
    pgw_close(h);
    pgw_close(w.h);
}

/* ---- where it can be had ---- */

void test_behind_a_pooler_waiting_is_polling(void)
{
    pgw *h = it_open_bare(), *holder = it_open_bare();
    pgw_token token;

    expect(h, PGW_OK, pgw_sema_create(h, "pooled", 1));
    h->pooled = true; /* as the probe finds it: see the tests of the module pq */
    expect(h, PGW_EPOOLED, take(h, &token, "pooled", 1, 0, 1000, true));
    expect(h, PGW_OK, pgw_sema_release(h, "pooled", taken(h, "pooled", 1)));
    expect(holder, PGW_OK, take(holder, &token, "pooled", 1, 0, 2000, false));
    refused(h, "pooled", 1, 20);
    expect(h, PGW_OK, take(h, &token, "pooled", 1, LONG_MS, 60000, false));
    expect(h, PGW_OK, pgw_sema_release(h, "pooled", token));
    expect(h, PGW_OK, pgw_sema_drop(h, "pooled", false));
    pgw_close(h);
    pgw_close(holder);
}

static void note_status(pgw *h, pgw_status st, void *arg)
{
    (void)h;
    *(pgw_status *)arg = st;
}

void test_a_try_can_be_armed_and_a_wait_not(void)
{
    pgw *h = it_open_bare();
    pgw_status st = PGW_OUTCOME_AGAIN;
    pgw_token token;

    expect(h, PGW_OK, pgw_sema_create(h, "armed", 1));
    pgw_async(h, note_status, &st);
    TEST_ASSERT_EQUAL_INT(PGW_EMISUSE, take(h, &token, "armed", 1, 10, 1000, false));
    pgw_async(h, note_status, &st);
    TEST_ASSERT_EQUAL_INT(PGW_OUTCOME_AGAIN, take(h, &token, "armed", 1, 0, 60000, false));
    while (pgw_step(h) == PGW_OUTCOME_AGAIN) {
        struct pollfd p = {.fd = pgw_fd(h), .events = POLLIN};

        (void)poll(&p, 1, 1000);
    }
    expect(h, PGW_OK, st);
    TEST_ASSERT_TRUE(token.number > 0);
    expect(h, PGW_OK, pgw_sema_release(h, "armed", token));
    expect(h, PGW_OK, pgw_sema_drop(h, "armed", false));
    pgw_close(h);
}

void test_neither_attached_nor_in_a_transaction_nor_in_a_child(void)
{
    struct pg_conn *conn = pgtemp_connect();
    pgw *h = it_open_bare(), *attached;
    pgw_token token;
    pid_t pid;

    expect(h, PGW_OK, pgw_sema_create(h, "where", 1));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_attach(conn, NULL, &attached));
    expect(attached, PGW_EMISUSE, take(attached, &token, "where", 1, 0, 1000, false));
    pgw_close(attached);
    PQfinish(conn);
    expect(h, PGW_OK, pgw__pq_begin(h));
    expect(h, PGW_EMISUSE, take(h, &token, "where", 1, 0, 1000, false));
    expect(h, PGW_EMISUSE, pgw_sema_release(h, "where", token));
    expect(h, PGW_OK, pgw__pq_rollback(h));
    token = taken(h, "where", 1);
    pid = forked();
    if (pid == 0) _exit(pgw_sema_release(h, "where", token) == PGW_EMISUSE ? 0 : 1);
    TEST_ASSERT_EQUAL_INT(0, reaped(pid));
    expect(h, PGW_OK, pgw_sema_release(h, "where", token));
    expect(h, PGW_OK, pgw_sema_drop(h, "where", false));
    pgw_close(h);
}

/* ---- many ---- */

/* Takes 1 to 3 permits, writes down when they were granted and when it is about to return them. */
static int rounds;

static int contend(pgw *h, int who)
{
    unsigned seed = (unsigned)who + 1;

    for (int i = 0; i < rounds; i++) {
        char sql[300];
        pgw_token token;
        int n;

        seed = seed * 1103515245u + 12345u;
        n = 1 + (int)((seed >> 16) % 3);
        if (take(h, &token, "busy", n, -1, 60000, (seed & 0x100000) != 0) != PGW_OK) return 2;
        snprintf(sql, sizeof(sql),
                 "INSERT INTO public.held SELECT number, taken_at, NULL, permits FROM "
                 "pgwork.sema_holders('busy') "
                 "WHERE number = %lld RETURNING 1",
                 (long long)token.number);
        if (ask(h, sql) != 1) return 3;
        snprintf(sql, sizeof(sql),
                 "UPDATE public.held SET went = clock_timestamp() WHERE number = %lld RETURNING 1",
                 (long long)token.number);
        if (ask(h, sql) != 1) return 4;
        if (pgw_sema_release(h, "busy", token) != PGW_OK) return 5;
    }
    return 0;
}

/* Changes the number of permits all the time, and writes down when each number was in force. */
static volatile sig_atomic_t over;

static int resize(void)
{
    pgw *h = it_try_bare();

    for (int i = 0; !over; i++) {
        char sql[200];
        const int permits = 3 + i % 6;

        snprintf(
            sql, sizeof(sql),
            "INSERT INTO public.sizes (began, permits) VALUES (clock_timestamp(), %d) RETURNING 1",
            permits);
        if (ask(h, sql) != 1) return 1;
        if (pgw_sema_resize(h, "busy", permits) != PGW_OK) return 2;
        if (ask(h, "UPDATE public.sizes SET ended = clock_timestamp() WHERE ended IS NULL "
                   "RETURNING 1") != 1)
            return 3;
        (void)poll(NULL, 0, 15);
    }
    pgw_close(h);
    return 0;
}

static void on_term(int sig)
{
    (void)sig;
    over = 1;
}

static void run_contenders(int count, int rounds_of_each)
{
    rounds = rounds_of_each;
    for (int i = 0; i < count; i++) spawn(contend, i);
    join();
    TEST_ASSERT_EQUAL_INT64(count * rounds, pgtemp_number("SELECT count(went) FROM public.held"));
}

static const char tables[] =
    "DROP TABLE IF EXISTS public.held, public.sizes;"
    "CREATE TABLE public.held (number bigint PRIMARY KEY, came timestamptz, went timestamptz, "
    "permits int);"
    "CREATE TABLE public.sizes (began timestamptz, ended timestamptz, permits int)";

void test_contenders_never_have_more_than_there_are(void)
{
    pgw *h = it_open_bare();

    pgtemp_exec(tables);
    expect(h, PGW_OK, pgw_sema_create(h, "busy", 5));
    run_contenders(CONTENDERS, 4);
    TEST_ASSERT_EQUAL_INT64(
        0, pgtemp_number(
               "SELECT count(*) FROM public.held x WHERE (SELECT sum(y.permits) FROM public.held y "
               "WHERE y.came <= x.came AND y.went >= x.came) > 5"));
    status(h, "busy", 5, 0, 0);
    expect(h, PGW_OK, pgw_sema_drop(h, "busy", false));
    pgw_close(h);
}

void test_contenders_never_have_more_while_the_number_changes(void)
{
    pgw *h = it_open_bare();
    pid_t pid;

    pgtemp_exec(tables);
    pgtemp_exec("INSERT INTO public.sizes VALUES ('-infinity', '-infinity', 8)");
    expect(h, PGW_OK, pgw_sema_create(h, "busy", 8));
    over = 0;
    signal(SIGTERM, on_term);
    pid = forked();
    if (pid == 0) _exit(resize());
    for (int i = 0; i < 20 && pgtemp_number("SELECT count(*) FROM public.sizes") <= 5; i++)
        run_contenders(16, 12);
    kill(pid, SIGTERM);
    TEST_ASSERT_EQUAL_INT(0, reaped(pid));
    signal(SIGTERM, SIG_DFL);
    TEST_ASSERT_GREATER_THAN_INT64(5, pgtemp_number("SELECT count(*) FROM public.sizes"));
    /* at a grant: what is out, and the largest number that may have been in force */
    TEST_ASSERT_EQUAL_INT64(
        0, pgtemp_number(
               "SELECT count(*) FROM public.held x "
               "WHERE (SELECT sum(y.permits) FROM public.held y WHERE y.came <= x.came AND y.went "
               ">= x.came) > "
               "(SELECT max(s.permits) FROM public.sizes s WHERE s.began <= x.came AND s.ended >= "
               "(SELECT max(t.ended) FROM public.sizes t WHERE t.ended <= x.came))"));
    pgtemp_exec("DELETE FROM pgwork.semaphore; DELETE FROM pgwork.permit");
    pgw_close(h);
}

static int race(pgw *h, int who)
{
    unsigned seed = (unsigned)who + 1;
    int got = 0;

    for (int i = 0; i < 400; i++) {
        pgw_token token;
        pgw_status st;

        seed = seed * 1103515245u + 12345u;
        st = take(h, &token, "race", 1 + (int)(seed >> 20) % 2, (int64_t)(seed >> 16) % 5, 60000,
                  false);
        if (st == PGW_OK) {
            if (pgw_sema_release(h, "race", token) != PGW_OK) return 2;
            got++;
        } else if (st != PGW_ELOCKED) {
            return 3;
        }
        if (ask(h, session_locks) != 0) return 4; /* the turn was kept */
    }
    return got > 0 ? 0 : 5;
}

void test_a_timeout_that_races_a_grant_leaves_nothing_behind(void)
{
    pgw *h = it_open_bare();

    expect(h, PGW_OK, pgw_sema_create(h, "race", 2));
    for (int i = 0; i < 6; i++) spawn(race, i);
    join();
    status(h, "race", 2, 0, 0);
    expect(h, PGW_OK, pgw_sema_drop(h, "race", false));
    pgw_close(h);
}

/* ---- memory ---- */

void test_without_memory_nothing_is_out(void)
{
    pgw *h;
    pgw_token token;
    pgw_status st = PGW_ENOMEM;

    oom_begin();
    h = it_open_bare();
    expect(h, PGW_OK, pgw_sema_create(h, "oom", 1));
    for (int n = 1; st == PGW_ENOMEM; n++) {
        oom_fail(n);
        st = take(h, &token, "oom", 1, 0, 3600000, true);
        oom_fail(0);
        status(h, "oom", 1, st == PGW_OK, 0);
    }
    expect(h, PGW_OK, st);
    expect(h, PGW_OK, pgw_sema_release(h, "oom", token));
    expect(h, PGW_OK, pgw_sema_drop(h, "oom", false));
    pgw_close(h);
    oom_end();
}

/* The limit is that of the last call; none is none. */
void test_the_last_call_sets_the_patience(void)
{
    static const char *const said[][2] = {
        {", 5000", "5s"}, {"", "0"}, {", 7000", "7s"}, {", NULL", "0"}};
    PGconn *head = pgtemp_connect();
    pgw *h = it_open_bare();
    PGresult *r;
    char sql[120];

    expect(h, PGW_OK, pgw_sema_create(h, "patient", 1));
    taken(h, "patient", 1);
    for (int i = 0; i < 4; i++) {
        snprintf(sql, sizeof(sql),
                 "SELECT FROM pgwork.sema_wait('patient', 1, 60000, NULL, false, 0, %s%s)",
                 i > 0 ? "true" : "false", said[i][0]);
        PQclear(PQexec(head, sql));
        r = PQexec(head, "SHOW idle_session_timeout");
        TEST_ASSERT_EQUAL_STRING(said[i][1], PQgetvalue(r, 0, 0));
        PQclear(r);
    }
    PQfinish(head);
    expect(h, PGW_OK, pgw_sema_drop(h, "patient", true));
    pgw_close(h);
}

/* Nor is there any for who is at the head no more. */
void test_a_waiter_that_goes_to_the_end_may_be_silent_again(void)
{
    static const char wait[] =
        "SELECT next_ms FROM pgwork.sema_wait('end', 1, 60000, NULL, false, %d, false, 5000)";
    PGconn *head = pgtemp_connect(), *next = pgtemp_connect();
    pgw *h = it_open_bare();
    PGresult *r;
    char sql[120];

    expect(h, PGW_OK, pgw_sema_create(h, "end", 1));
    taken(h, "end", 1);
    snprintf(sql, sizeof(sql), wait, 0);
    r = PQexec(head, sql);
    TEST_ASSERT_FALSE(PQgetisnull(r, 0, 0));
    PQclear(r);
    snprintf(sql, sizeof(sql), wait, 60000);
    TEST_ASSERT_EQUAL_INT(1, PQsendQuery(next, sql));
    TEST_ASSERT_TRUE(are_waiting(h, "end", 2));
    snprintf(sql, sizeof(sql), wait, 0);
    r = PQexec(head, sql);
    TEST_ASSERT_TRUE(PQgetisnull(r, 0, 0));
    PQclear(r);
    r = PQexec(head, "SHOW idle_session_timeout");
    TEST_ASSERT_EQUAL_STRING("0", PQgetvalue(r, 0, 0));
    PQclear(r);
    r = PQgetResult(next);
    TEST_ASSERT_FALSE(PQgetisnull(r, 0, 0));
    PQclear(r);
    PQfinish(next);
    PQfinish(head);
    expect(h, PGW_OK, pgw_sema_drop(h, "end", true));
    pgw_close(h);
}

static long long blocked(void)
{
    return pgtemp_number(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted");
}

/* A call that reads the queue, is delayed, and then finds a waiter at its head. Found by
 * test/models/sema.pml: nobody would have been notified of a permit that it took and returned. */
void test_a_call_that_is_held_up_does_not_pass_the_head_of_the_queue(void)
{
    PGconn *gate = pgtemp_connect(), *late = pgtemp_connect(), *head = pgtemp_connect();
    pgw *h = it_open_bare();
    PGresult *r;

    expect(h, PGW_OK, pgw_sema_create(h, "held up", 1));
    taken(h, "held up", 1);
    PQclear(PQexec(gate, "SELECT pg_advisory_lock(pgwork._lock('sema.past', id)) FROM "
                         "pgwork.semaphore WHERE name = 'held up'"));
    TEST_ASSERT_EQUAL_INT(1, PQsendQuery(late, "SELECT token FROM pgwork.sema_acquire('held up')"));
    while (blocked() == 0) {
    }
    r = PQexec(head, "SELECT FROM pgwork.sema_wait('held up', 1, 60000, NULL, false, 0, false)");
    TEST_ASSERT_EQUAL_INT(PGRES_TUPLES_OK, PQresultStatus(r));
    PQclear(r);
    PQclear(PQexec(head, "UPDATE pgwork.permit SET nonce = NULL")); /* a release would wait, too */
    PQclear(PQexec(gate, "SELECT pg_advisory_unlock_all()"));
    r = PQgetResult(late);
    TEST_ASSERT_EQUAL_INT(PGRES_TUPLES_OK, PQresultStatus(r));
    TEST_ASSERT_TRUE(PQgetisnull(r, 0, 0));
    PQclear(r);
    PQfinish(gate);
    PQfinish(late);
    PQfinish(head);
    expect(h, PGW_OK, pgw_sema_drop(h, "held up", true));
    pgw_close(h);
}

/* In plain SQL: who says that it is at the head of the queue has to be there. */
void test_a_turn_that_the_session_does_not_have_is_not_trusted(void)
{
    static const char wait[] =
        "SELECT count(token) FROM pgwork.sema_wait('heads', 1, 60000, NULL, false, 0, true)";
    PGconn *head = pgtemp_connect();
    pgw *h = it_open_bare();
    pgw_token token;

    expect(h, PGW_OK, pgw_sema_create(h, "heads", 1));
    token = taken(h, "heads", 1);
    PQclear(
        PQexec(head, "SELECT FROM pgwork.sema_wait('heads', 1, 60000, NULL, false, 1000, false)"));
    expect(h, PGW_OK, pgw_sema_release(h, "heads", token));
    TEST_ASSERT_EQUAL_INT64(0, ask(h, wait)); /* there is a permit, and somebody in front */
    PQfinish(head);
    while (ask(h, wait) != 1) poll(NULL, 0, 10);
    TEST_ASSERT_EQUAL_INT64(
        -1,
        ask(h, "SELECT count(*) FROM pgwork.sema_wait('heads', 1, 60000, NULL, false, 0, NULL)"));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_message(h), "argument turn"));
    expect(h, PGW_OK, pgw_sema_drop(h, "heads", true));
    pgw_close(h);
}

/* It is held once, however often one comes without a word of it, or it would outlast the grant. */
void test_a_turn_that_the_call_does_not_mention_is_not_kept(void)
{
    static const char wait[] =
        "SELECT count(token) FROM pgwork.sema_wait('twice', 1, 60000, NULL, false, 0, false)";
    pgw *h = it_open_bare(), *other = it_open_bare();
    pgw_token token;

    expect(h, PGW_OK, pgw_sema_create(h, "twice", 1));
    token = taken(other, "twice", 1);
    TEST_ASSERT_EQUAL_INT64(0, ask(h, wait));
    TEST_ASSERT_EQUAL_INT64(0, ask(h, wait));
    expect(h, PGW_OK, pgw_sema_create(h, "another", 1));
    taken(other, "another", 1);
    TEST_ASSERT_EQUAL_INT64(0, ask(h, "SELECT count(token) FROM pgwork.sema_wait('another', 1, "
                                      "60000, NULL, false, 0, false)"));
    expect(other, PGW_OK, pgw_sema_release(other, "twice", token));
    TEST_ASSERT_EQUAL_INT64(1, ask(h, wait));
    expect(h, PGW_OK, pgw_sema_resize(h, "twice", 2));
    taken(other, "twice", 1);
    expect(h, PGW_OK, pgw_sema_drop(h, "twice", true));
    expect(h, PGW_OK, pgw_sema_drop(h, "another", true));
    pgw_close(other);
    pgw_close(h);
}

/* Nor is it when the session's settings go, the transaction of the wait, or the semaphore: the turn
 * is the server's lock, on the name, and outlasts them all. */
TEST_CASE("COMMIT")
TEST_CASE("ROLLBACK")
TEST_CASE("COMMIT; RESET ALL")
TEST_CASE("COMMIT; SELECT pgwork.sema_drop('turn', true); SELECT pgwork.sema_create('turn', 1)")
void test_a_turn_that_was_forgotten_is_not_kept(const char *forget)
{
    static const char wait[] = "SELECT count(token) FROM pgwork.sema_wait('turn', 1, 60000, NULL, "
                               "false, 0, false, 3600000)";
    static const char *const got[] = {"0", "1"};
    PGconn *head = pgtemp_connect();
    pgw *other = it_open_bare();
    PGresult *r;

    expect(other, PGW_OK, pgw_sema_create(other, "turn", 1));
    taken(other, "turn", 1);
    PQclear(PQexec(head, "BEGIN"));
    for (int i = 0; i < 2; i++) {
        r = PQexec(head, wait);
        TEST_ASSERT_EQUAL_STRING(got[i], PQgetvalue(r, 0, 0));
        PQclear(r);
        if (i > 0) break;
        r = PQexec(head, forget);
        TEST_ASSERT_EQUAL_STRING("", PQresultErrorMessage(r));
        PQclear(r);
        status(other, "turn", 1, -1, 1); /* it is there yet */
        expect(other, PGW_OK, pgw_sema_resize(other, "turn", 3));
    }
    status(other, "turn", 3, -1, 0);
    taken(other, "turn", 1);
    TEST_ASSERT_EQUAL(PQTRANS_IDLE, PQtransactionStatus(head));
    PQfinish(head);
    expect(other, PGW_OK, pgw_sema_drop(other, "turn", true));
    pgw_close(other);
}
