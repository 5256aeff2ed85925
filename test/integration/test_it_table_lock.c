/* Transactions and row locks: rows are locked in one order, so no deadlock occurs. */
#include "unity.h"
#include "pgw_all.h"
#include "oom.h"
#include "childkit.h"
#include "itpgw.h"
#include "pgtemp.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static pgw *h;
static pgw_table *t;
static const char *const key_columns[] = {"a", "b"}, *const asked[] = {"n"};

static void must(pgw_status st)
{
    TEST_ASSERT_EQUAL_STRING_MESSAGE("PGW_OK", pgw_status_name(st), pgw_error_message(h));
}

static void describe(void)
{
    pgw_table_spec s = PGW_TABLE_SPEC_INIT;

    s.table = "t", s.key = key_columns, s.key_count = 2;
    must(pgw_table_open(h, &s, &t));
}

void setUp(void)
{
    h = it_open_bare();
    if (PQtransactionStatus(pgtemp_conn()) != PQTRANS_IDLE) pgtemp_exec("ROLLBACK");
    pgtemp_exec("DROP SCHEMA public CASCADE; CREATE SCHEMA public;"
                "CREATE TABLE t (a int, b text, n int NOT NULL DEFAULT 0, PRIMARY KEY (a, b));"
                "INSERT INTO t SELECT i / 10, 'r' || i FROM generate_series(0, 99) i");
    describe();
}

void tearDown(void)
{
    pgw_table_free(t);
    pgw_close(h);
}

/* ---- transactions ---- */

static void set_n(int n)
{
    char sql[80];

    snprintf(sql, sizeof(sql), "UPDATE public.t SET n = %d WHERE a = 0", n);
    must(pgw__pq_text(h, "set", sql, &(pgw__call){.flags = PGW__WRITES}));
}

void test_a_transaction_commits_or_rolls_back_as_a_whole(void)
{
    must(pgw_txn_begin(h));
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw_txn_begin(h));
    TEST_ASSERT_EQUAL_STRING("a transaction is open already", pgw_error_message(h));
    set_n(1);
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT sum(n) FROM t"));
    must(pgw_txn_commit(h));
    TEST_ASSERT_EQUAL_INT64(10, pgtemp_number("SELECT sum(n) FROM t"));
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw_txn_commit(h));
    TEST_ASSERT_EQUAL_STRING("no transaction is open", pgw_error_message(h));
    must(pgw_txn_begin(h));
    set_n(2);
    must(pgw_txn_rollback(h));
    must(pgw_txn_rollback(h));
    TEST_ASSERT_EQUAL_INT64(10, pgtemp_number("SELECT sum(n) FROM t"));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_txn_begin(NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_txn_commit(NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_txn_rollback(NULL));
}

void test_a_commit_that_became_a_rollback_says_so(void)
{
    must(pgw_txn_begin(h));
    set_n(1);
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__pq_text(h, "bad", "SELECT 1 / n FROM public.t WHERE n = 0",
                                               &(pgw__call){0}));
    TEST_ASSERT_EQUAL(PGW_ETXN, pgw_txn_commit(h));
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT sum(n) FROM t"));
    must(pgw_txn_begin(h));
    must(pgw_txn_commit(h));
}

void test_on_an_attached_handle_transactions_are_the_callers(void)
{
    PGconn *conn = pgtemp_connect();
    pgw *mine;

    TEST_ASSERT_EQUAL(PGW_OK, pgw_attach(conn, NULL, &mine));
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw_txn_begin(mine));
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw_txn_commit(mine));
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw_txn_rollback(mine));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_message(mine), "the caller controls"));
    pgw_close(mine);
    PQfinish(conn);
}

static int runs;

static pgw_status write_and(pgw *handle, void *arg)
{
    runs++;
    set_n(runs);
    return *(pgw_status *)arg;
}

static pgw_status fail_for_good(pgw *handle, void *arg)
{
    set_n(1);
    return pgw__pq_text(handle, "bad", "SELECT * FROM public.nope", &(pgw__call){0});
}

/* The second try finds nobody in its way. */
static pgw_status serialize(pgw *handle, void *arg)
{
    must(pgw__pq_text(h, "isolation", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
                      &(pgw__call){0}));
    must(pgw__pq_text(h, "look", "SELECT FROM public.t", &(pgw__call){0}));
    if (++runs == 1) pgtemp_exec("UPDATE t SET n = n + 100 WHERE a = 0");
    return pgw__pq_text(handle, "set", "UPDATE public.t SET n = n + 1 WHERE a = 0",
                        &(pgw__call){.flags = PGW__WRITES});
}

void test_the_callback_form_rolls_back_after_an_error_and_keeps_its_diagnostics(void)
{
    pgw_status told = PGW_ECANCELED;

    runs = 0;
    TEST_ASSERT_EQUAL(PGW_ECANCELED, pgw_txn_run(h, 5, write_and, &told));
    TEST_ASSERT_EQUAL(PGW_ECANCELED, pgw_error_status(h));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_message(h), "returned an error"));
    TEST_ASSERT_EQUAL(1, runs);
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT sum(n) FROM t"));
    TEST_ASSERT_EQUAL(PGW_ESCHEMA, pgw_txn_run(h, 5, fail_for_good, NULL));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_message(h), "nope"));
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT sum(n) FROM t"));
    told = PGW_OK;
    must(pgw_txn_run(h, 5, write_and, &told));
    TEST_ASSERT_EQUAL_INT64(20, pgtemp_number("SELECT sum(n) FROM t"));
    told = PGW_OUTCOME_EMPTY;
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY, pgw_txn_run(h, 5, write_and, &told));
    TEST_ASSERT_EQUAL_INT64(30, pgtemp_number("SELECT sum(n) FROM t"));
}

static void nobody_calls(pgw *handle, pgw_status st, void *arg)
{
    (void)handle, (void)st, (void)arg;
    TEST_FAIL_MESSAGE("done was called");
}

typedef struct start {
    bool uses;
    pgw_status returns;
} start;

static pgw_status start_and(pgw *handle, void *arg)
{
    const start *s = arg;

    set_n(1);
    pgw_async(handle, nobody_calls, NULL);
    if (s->uses)
        TEST_ASSERT_EQUAL(PGW_OUTCOME_AGAIN,
                          pgw__pq_text(handle, "set", "UPDATE public.t SET n = n + 1",
                                       &(pgw__call){.flags = PGW__WRITES}));
    return s->returns;
}

/* Whatever it has under way then. */
TEST_CASE(true, PGW_OUTCOME_AGAIN, PGW_EMISUSE)
TEST_CASE(true, PGW_OK, PGW_EMISUSE)
TEST_CASE(true, PGW_ECONFLICT, PGW_ECONFLICT)
TEST_CASE(false, PGW_OK, PGW_EMISUSE)
TEST_CASE(false, PGW_ECONFLICT, PGW_ECONFLICT)
void test_the_callback_form_does_not_leave_an_armed_transaction_open(bool uses, pgw_status returns,
                                                                     pgw_status outcome)
{
    start s = {uses, returns};

    TEST_ASSERT_EQUAL(outcome, pgw_txn_run(h, 5, start_and, &s));
    TEST_ASSERT_FALSE(pgw__pq_in_txn(h));
    must(pgw_txn_begin(h));
    must(pgw_txn_commit(h));
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT sum(n) FROM t"));
}

void test_a_transaction_that_can_be_repeated_is_repeated_up_to_a_bound(void)
{
    pgw_status told = PGW_ERETRY;

    runs = 0;
    must(pgw_txn_run(h, 5, serialize, NULL));
    TEST_ASSERT_EQUAL(2, runs);
    TEST_ASSERT_EQUAL_INT64(1010, pgtemp_number("SELECT sum(n) FROM t"));
    runs = 0;
    TEST_ASSERT_EQUAL(PGW_ERETRY, pgw_txn_run(h, 3, write_and, &told));
    TEST_ASSERT_EQUAL(3, runs);
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_txn_run(h, 0, write_and, &told));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_txn_run(h, 1, NULL, &told));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_txn_run(NULL, 1, write_and, &told));
}

/* ---- locks ---- */

static pgw_table_lock_opts locking(const char *where)
{
    pgw_table_lock_opts o = PGW_TABLE_LOCK_OPTS_INIT;

    o.where = where, o.columns = asked, o.columns_count = 1;
    return o;
}

void test_rows_are_locked_and_returned_in_the_order_of_their_keys(void)
{
    const char *const keys[] = {"9", "r99", "0", "r1", "3", "r30", "0", "r1", "7", "nobody"};
    pgw_table_lock_opts o = locking(NULL);
    pgw_rows *rows;

    o.keys = keys, o.keys_count = 5;
    must(pgw_txn_begin(h));
    must(pgw_table_lock(h, t, &o, &rows));
    TEST_ASSERT_EQUAL(3, pgw_rows_count(rows));
    TEST_ASSERT_EQUAL_STRING("r1", pgw_rows_key(rows, 0)[1]);
    TEST_ASSERT_EQUAL_STRING("r30", pgw_rows_key(rows, 1)[1]);
    TEST_ASSERT_EQUAL_STRING("9", pgw_rows_key(rows, 2)[0]);
    TEST_ASSERT_EQUAL_STRING("0", pgw_rows_get(rows, 0, "n"));
    TEST_ASSERT_NOT_NULL(pgw_rows_version(rows, 0));
    pgw_rows_free(rows);
    TEST_ASSERT_EQUAL_INT64(
        97, pgtemp_number("SELECT count(*) FROM (SELECT FROM t FOR UPDATE SKIP LOCKED) x"));
    must(pgw_txn_commit(h));
    TEST_ASSERT_EQUAL_INT64(
        100, pgtemp_number("SELECT count(*) FROM (SELECT FROM t FOR UPDATE SKIP LOCKED) x"));
}

void test_a_lock_takes_the_first_rows_that_match(void)
{
    const char *const values[] = {"3"};
    pgw_table_lock_opts o = locking("a = $1");
    pgw_rows *rows;

    o.values = values, o.values_count = 1, o.max = 4;
    must(pgw_txn_begin(h));
    must(pgw_table_lock(h, t, &o, &rows));
    TEST_ASSERT_EQUAL(4, pgw_rows_count(rows));
    TEST_ASSERT_EQUAL_STRING("r30", pgw_rows_key(rows, 0)[1]);
    pgw_rows_free(rows);
    o.where = "a = $1 + 1000";
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY, pgw_table_lock(h, t, &o, &rows));
    TEST_ASSERT_NULL(rows);
    must(pgw_txn_rollback(h));
}

void test_each_strength_keeps_out_what_it_should(void)
{
    static const struct {
        pgw_row_lock strength;
        const char
            *passes; /* what another session still gets: KEY SHARE, SHARE, NO KEY UPDATE, UPDATE */
    } table[] = {{PGW_ROW_LOCK_UPDATE, "0000"},
                 {PGW_ROW_LOCK_NO_KEY_UPDATE, "1000"},
                 {PGW_ROW_LOCK_SHARE, "1100"},
                 {PGW_ROW_LOCK_KEY_SHARE, "1110"}};
    static const char *const words[] = {"KEY SHARE", "SHARE", "NO KEY UPDATE", "UPDATE"};

    for (size_t i = 0; i < 4; i++) {
        pgw_table_lock_opts o = locking("a = 0 AND b = 'r0'");
        pgw_rows *rows;

        o.strength = table[i].strength;
        must(pgw_txn_begin(h));
        must(pgw_table_lock(h, t, &o, &rows));
        pgw_rows_free(rows);
        for (size_t wanted = 0; wanted < 4; wanted++) {
            char sql[128];

            snprintf(sql, sizeof(sql),
                     "SELECT count(*) FROM (SELECT FROM t WHERE a = 0 AND b = 'r0' FOR %s SKIP "
                     "LOCKED) x",
                     words[wanted]);
            TEST_ASSERT_EQUAL_INT64(table[i].passes[wanted] - '0', pgtemp_number(sql));
        }
        must(pgw_txn_rollback(h));
    }
}

void test_held_rows_are_refused_waited_for_or_left_out(void)
{
    pgw_table_lock_opts o = locking("a = 0");
    pgw_rows *rows;

    pgtemp_exec("BEGIN; SELECT FROM t WHERE b = 'r5' FOR UPDATE");
    o.wait_ms = 0;
    must(pgw_txn_begin(h));
    TEST_ASSERT_EQUAL(PGW_ELOCKED, pgw_table_lock(h, t, &o, &rows));
    TEST_ASSERT_NULL(rows);
    TEST_ASSERT_EQUAL(PGW_ETXN, pgw_table_lock(h, t, &o, &rows));
    must(pgw_txn_rollback(h));
    o.wait_ms = 50;
    must(pgw_txn_begin(h));
    TEST_ASSERT_EQUAL(PGW_ETIMEDOUT, pgw_table_lock(h, t, &o, &rows));
    TEST_ASSERT_NULL(rows);
    must(pgw_txn_rollback(h));
    o.skip = true;
    must(pgw_txn_begin(h));
    must(pgw_table_lock(h, t, &o, &rows));
    TEST_ASSERT_EQUAL(9, pgw_rows_count(rows));
    pgw_rows_free(rows);
    must(pgw_txn_rollback(h));
    o.skip = false, o.wait_ms = PGW_DEFAULT;
    pgw_set_timeout(h, 100);
    must(pgw_txn_begin(h));
    TEST_ASSERT_EQUAL(PGW_ETIMEDOUT, pgw_table_lock(h, t, &o, &rows));
    must(pgw_txn_rollback(h));
    pgw_set_timeout(h, PGW_DEFAULT);
    pgtemp_exec("ROLLBACK");
}

static pgw_status read_text(pgw *handle, const pgw__rows *rows, void *ctx)
{
    TEST_ASSERT_EQUAL_STRING(*(const char **)ctx, pgw__rows_text(rows, 0, 0, NULL));
    return PGW_OK;
}

void test_a_timeout_leaves_no_trace(void)
{
    const char *const was = "7s";
    pgw_table_lock_opts o = locking("a = 0");
    pgw_rows *rows;

    o.wait_ms = 5000;
    must(pgw_txn_begin(h));
    must(pgw__pq_text(h, "set", "SET LOCAL lock_timeout = '7s'", &(pgw__call){0}));
    must(pgw_table_lock(h, t, &o, &rows));
    pgw_rows_free(rows);
    must(pgw__pq_text(h, "show", "SHOW lock_timeout",
                      &(pgw__call){.read = read_text, .ctx = &was, .ctx_size = sizeof(was)}));
    must(pgw_txn_commit(h));
}

/* Nothing was sent that could fail, so the transaction goes on, as it was before. */
void test_a_statement_that_was_never_sent_does_not_fail_the_transaction(void)
{
    static char where[1100000];
    const char *const was = "7s";
    pgw_table_lock_opts o = locking(where);
    pgw_rows *rows;

    memset(where, ' ', sizeof(where) - 1);
    memcpy(where, "true", 4);
    o.wait_ms = 5000;
    must(pgw_txn_begin(h));
    must(pgw__pq_text(h, "set", "SET LOCAL lock_timeout = '7s'", &(pgw__call){0}));
    TEST_ASSERT_EQUAL_STRING("PGW_ELIMIT", pgw_status_name(pgw_table_lock(h, t, &o, &rows)));
    TEST_ASSERT_EQUAL_STRING("the statement is longer than 1 MB", pgw_error_message(h));
    must(pgw__pq_text(h, "show", "SHOW lock_timeout",
                      &(pgw__call){.read = read_text, .ctx = &was, .ctx_size = sizeof(was)}));
    /* and in one that has failed the diagnostics is the server's */
    o.where = "nope";
    TEST_ASSERT_EQUAL_STRING("PGW_ESCHEMA", pgw_status_name(pgw_table_lock(h, t, &o, &rows)));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_message(h), "nope"));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_hint(h), "check your fragments"));
    TEST_ASSERT_EQUAL(PGW_ETXN, pgw_table_lock(h, t, &o, &rows));
    must(pgw_txn_rollback(h));
}

void test_locks_without_a_transaction_are_refused(void)
{
    const pgw_table_lock_opts o = locking(NULL);
    PGconn *conn = pgtemp_connect();
    pgw_rows *rows;
    pgw *mine;

    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw_table_lock(h, t, &o, &rows));
    TEST_ASSERT_EQUAL_STRING("call pgw_txn_begin() first", pgw_error_hint(h));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_attach(conn, NULL, &mine));
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw_table_lock(mine, t, &o, &rows));
    PQclear(PQexec(conn, "BEGIN"));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_table_lock(mine, t, &o, &rows));
    TEST_ASSERT_EQUAL(100, pgw_rows_count(rows));
    pgw_rows_free(rows);
    PQclear(PQexec(conn, "ROLLBACK"));
    pgw_close(mine);
    PQfinish(conn);
}

void test_bad_options_are_refused(void)
{
    const char *const half[] = {"1", NULL};
    pgw_table_lock_opts o;
    pgw_rows *rows;

    must(pgw_txn_begin(h));
#define REFUSED(change)                                                 \
    do {                                                                \
        o = locking(NULL);                                              \
        change;                                                         \
        TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_table_lock(h, t, &o, &rows)); \
        TEST_ASSERT_NULL(rows);                                         \
    } while (0)
    REFUSED(o.strength = (pgw_row_lock)4);
    REFUSED(o.wait_ms = -1);
    REFUSED(o.max = 0);
    REFUSED(o.keys_count = 1);
    REFUSED(o.keys = half);
    REFUSED((o.keys = half, o.keys_count = 1));
    REFUSED(o.values_count = 1);
    REFUSED(o.columns_count = 300);
#undef REFUSED
    must(pgw_txn_rollback(h));
}

/* ---- no deadlock ---- */

static int lock_in_some_order(pgw *mine, int who)
{
    static char texts[200][16];
    static const char *keys[200];
    pgw_table_lock_opts o = PGW_TABLE_LOCK_OPTS_INIT;

    for (int i = 0; i < 100; i++) {
        const int row = who == 0 ? i : 99 - i;

        snprintf(texts[2 * i], sizeof(texts[0]), "%d", row / 10);
        snprintf(texts[2 * i + 1], sizeof(texts[0]), "r%d", row);
        keys[2 * i] = texts[2 * i];
        keys[2 * i + 1] = texts[2 * i + 1];
    }
    o.keys = keys, o.keys_count = 100;
    for (int i = 0; i < 200; i++) {
        pgw_rows *rows;

        if (pgw_txn_begin(mine) != PGW_OK || pgw_table_lock(mine, t, &o, &rows) != PGW_OK ||
            pgw_rows_count(rows) != 100)
            return 2;
        pgw_rows_free(rows);
        if (pgw__pq_text(mine, "add", "UPDATE public.t SET n = n + 1",
                         &(pgw__call){.flags = PGW__WRITES}) != PGW_OK)
            return 3;
        if (pgw_txn_commit(mine) != PGW_OK) return 4;
    }
    return 0;
}

void test_the_same_rows_in_opposite_orders_200_times_and_no_deadlock(void)
{
    for (int who = 0; who < 2; who++) spawn(lock_in_some_order, who);
    join();
    TEST_ASSERT_EQUAL_INT64(40000, pgtemp_number("SELECT sum(n) FROM t"));
}

void test_locking_survives_the_loss_of_each_allocation(void)
{
    const char *const keys[] = {"0", "r1", "9", "r99"};
    pgw_table_lock_opts o = locking("true");
    pgw_status st = PGW_ENOMEM;
    pgw_rows *rows;
    int n;

    tearDown();
    oom_begin();
    h = it_open_bare();
    describe();
    o.keys = keys, o.keys_count = 2, o.wait_ms = 1000;
    must(pgw_txn_begin(h));
    for (n = 1; st == PGW_ENOMEM; n++) {
        oom_fail(n);
        st = pgw_table_lock(h, t, &o, &rows);
        if (st != PGW_OK) TEST_ASSERT_NULL(rows);
    }
    oom_fail(0);
    must(st);
    TEST_ASSERT_GREATER_THAN(4, n);
    pgw_rows_free(rows);
    must(pgw_txn_rollback(h));
    tearDown();
    oom_end();
    h = it_open_bare();
    describe();
}
