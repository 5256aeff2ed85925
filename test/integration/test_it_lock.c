/* Named locks with real sessions and processes: holders, waiters, and how a lost lock is noticed.
 * Longer than 600 lines: all of named locks in one program, since each program costs a build and a
 * migration. */
#include "unity.h"
#include "callkit.h"
#include "pgw_all.h"
#include "oom.h"
#include "childkit.h"
#include "itpgw.h"
#include "pgtemp.h"
#include "wire.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define expect(h, expected, call) ASSERT_ST(expected, call, h)

#define LONG_MS    20000 /* more than any wait that goes well */
#define CONTENDERS 64
#define ROUNDS     5
/* the server has others, with tests of their own */
#define OF_THIS_DATABASE \
    "database = (SELECT oid FROM pg_database WHERE datname = current_database())"

void setUp(void)
{
    pgtemp_migrate();
}

void tearDown(void)
{
    pgw_set_allocator(NULL);
}

static pgw_lock *acquired(pgw *h, const char *name, pgw_lock_mode mode, int64_t timeout_ms)
{
    pgw_lock *l;

    expect(h, PGW_OK, pgw_lock_acquire(h, name, LOCK_AS(mode, timeout_ms), &l));
    TEST_ASSERT_NOT_NULL(l);
    TEST_ASSERT_EQUAL_STRING(name, pgw_lock_name(l));
    TEST_ASSERT_GREATER_THAN_INT64(0, pgw_lock_fence(l));
    return l;
}

static void refused(pgw *h, pgw_status expected, const char *name, pgw_lock_mode mode,
                    int64_t timeout_ms)
{
    pgw_lock *l = (pgw_lock *)1;

    expect(h, expected, pgw_lock_acquire(h, name, LOCK_AS(mode, timeout_ms), &l));
    TEST_ASSERT_NULL(l);
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

static const char session_pid[] = "SELECT pg_backend_pid()";
static const char session_locks[] =
    "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'";

/* Not before the session has gone is its end over. */
static void terminate(int64_t pid)
{
    char sql[120];

    snprintf(sql, sizeof(sql), "SELECT pg_terminate_backend(%d, 10000)", (int)pid);
    TEST_ASSERT_EQUAL_STRING("t", pgtemp_value(sql));
}

static bool fence_ok(const char *name, int64_t fence)
{
    char sql[160];

    snprintf(sql, sizeof(sql), "SELECT pgwork.fence_ok('%s', %lld)", name, (long long)fence);
    return strcmp(pgtemp_value(sql), "t") == 0;
}

/* ---- one holder, or several that share ---- */

void test_one_holds_and_the_other_is_refused(void)
{
    pgw *a = it_open_bare(), *b = it_open_bare();
    pgw_lock *l = acquired(a, "one", PGW_LOCK_EXCLUSIVE, 0), *m;
    int64_t fence = pgw_lock_fence(l);
    bool is_free = true;

    TEST_ASSERT_TRUE(pgw_lock_is_held(l));
    refused(b, PGW_ELOCKED, "one", PGW_LOCK_EXCLUSIVE, 0);
    TEST_ASSERT_EQUAL_STRING("another session holds the lock", pgw_error_message(b));
    refused(b, PGW_ELOCKED, "one", PGW_LOCK_SHARED, 0);
    refused(b, PGW_ELOCKED, "one", PGW_LOCK_EXCLUSIVE, 50);
    expect(b, PGW_OK, pgw_lock_is_free(b, "one", &is_free));
    TEST_ASSERT_FALSE(is_free);
    TEST_ASSERT_EQUAL_INT64(0, ask(b, session_locks));

    expect(a, PGW_OK, pgw_lock_release(l));
    expect(b, PGW_OK, pgw_lock_is_free(b, "one", &is_free));
    TEST_ASSERT_TRUE(is_free);
    m = acquired(b, "one", PGW_LOCK_EXCLUSIVE, 0);
    TEST_ASSERT_GREATER_THAN_INT64(fence, pgw_lock_fence(m));
    TEST_ASSERT_FALSE(fence_ok("one", fence));
    TEST_ASSERT_TRUE(fence_ok("one", pgw_lock_fence(m)));
    TEST_ASSERT_EQUAL_INT64(
        1, ask(b, "SELECT count(*) FROM pgwork.fence_ok('one', NULL) ok WHERE NOT ok"));
    expect(b, PGW_OK, pgw_lock_release(m));
    pgw_close(a);
    pgw_close(b);
}

void test_a_second_acquire_on_one_handle_is_refused(void)
{
    pgw *h = it_open_bare();
    pgw_lock *l = acquired(h, "again", PGW_LOCK_EXCLUSIVE, 0), *other;

    refused(h, PGW_EHELD, "again", PGW_LOCK_EXCLUSIVE, 0);
    refused(h, PGW_EHELD, "again", PGW_LOCK_SHARED, -1);
    TEST_ASSERT_EQUAL_STRING("locks are not re-entrant: release it first", pgw_error_hint(h));
    other = acquired(h, "again2", PGW_LOCK_SHARED, 0);
    refused(h, PGW_EHELD, "again2", PGW_LOCK_SHARED, 0);
    expect(h, PGW_OK, pgw_lock_release(l));
    l = acquired(h, "again", PGW_LOCK_EXCLUSIVE, 0);
    expect(h, PGW_OK, pgw_lock_release(other));
    expect(h, PGW_OK, pgw_lock_release(l));
    TEST_ASSERT_EQUAL_INT64(0, ask(h, session_locks));
    pgw_close(h);
}

void test_shared_holders_have_one_fence_and_end_that_of_an_exclusive_one(void)
{
    pgw *a = it_open_bare(), *b = it_open_bare();
    pgw_lock *x = acquired(a, "shared", PGW_LOCK_EXCLUSIVE, 0), *l, *m;
    int64_t fence = pgw_lock_fence(x), shared;

    expect(a, PGW_OK, pgw_lock_release(x));
    TEST_ASSERT_TRUE(fence_ok("shared", fence)); /* nobody came since */
    l = acquired(a, "shared", PGW_LOCK_SHARED, 0);
    m = acquired(b, "shared", PGW_LOCK_SHARED, 0);
    shared = pgw_lock_fence(l);
    TEST_ASSERT_GREATER_THAN_INT64(fence, shared);
    TEST_ASSERT_EQUAL_INT64(shared, pgw_lock_fence(m));
    TEST_ASSERT_FALSE(fence_ok("shared", fence));
    TEST_ASSERT_TRUE(fence_ok("shared", shared));
    expect(a, PGW_OK, pgw_lock_release(l));
    refused(a, PGW_ELOCKED, "shared", PGW_LOCK_EXCLUSIVE, 0);
    expect(b, PGW_OK, pgw_lock_release(m));
    x = acquired(a, "shared", PGW_LOCK_EXCLUSIVE, 0);
    TEST_ASSERT_GREATER_THAN_INT64(shared, pgw_lock_fence(x));
    TEST_ASSERT_FALSE(fence_ok("shared", shared));
    expect(a, PGW_OK, pgw_lock_release(x));
    pgw_close(a);
    pgw_close(b);
}

void test_psql_and_the_library_exclude_each_other(void)
{
    pgw *h = it_open_bare();
    pgw_lock *l;

    pgtemp_exec("SELECT pg_advisory_lock(pgwork.lock_key('from psql'))");
    refused(h, PGW_ELOCKED, "from psql", PGW_LOCK_EXCLUSIVE, 0);
    pgtemp_exec("SELECT pg_advisory_unlock(pgwork.lock_key('from psql'))");
    l = acquired(h, "from psql", PGW_LOCK_EXCLUSIVE, 0);
    TEST_ASSERT_EQUAL_STRING(
        "f", pgtemp_value("SELECT pg_try_advisory_lock(pgwork.lock_key('from psql'))"));
    TEST_ASSERT_NULL(pgtemp_value("SELECT pgwork.lock_acquire('from psql')"));
    expect(h, PGW_OK, pgw_lock_release(l));
    pgw_close(h);
}

void test_the_key_is_the_documented_one(void)
{
    /* computed by another program from the rule in the manual */
    TEST_ASSERT_EQUAL_INT64(INT64_C(-4724695578984985318),
                            pgtemp_number("SELECT pgwork.lock_key('x')"));
}

/* ---- names ---- */

void test_any_text_of_up_to_255_bytes_is_a_name(void)
{
    static const char *const names[] = {" ",
                                        "'",
                                        "''; DROP SCHEMA pgwork CASCADE; --",
                                        "\"",
                                        "\\",
                                        "$1",
                                        "%s%n",
                                        "a\nb\tc\x01\x7f",
                                        "\xc3\xa4\xe2\x82\xac\xf0\x9f\x94\x92",
                                        "NULL",
                                        "{}"};
    char longest[257];
    pgw *h = it_open_bare(), *other = it_open_bare();

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        pgw_lock *l = acquired(h, names[i], PGW_LOCK_EXCLUSIVE, 0);

        refused(other, PGW_ELOCKED, names[i], PGW_LOCK_EXCLUSIVE, 0);
        expect(h, PGW_OK, pgw_lock_release(l));
    }
    memset(longest, 'n', sizeof(longest));
    longest[255] = '\0';
    expect(h, PGW_OK, pgw_lock_release(acquired(h, longest, PGW_LOCK_EXCLUSIVE, 0)));
    longest[255] = 'n', longest[256] = '\0';
    refused(h, PGW_EINVAL, longest, PGW_LOCK_EXCLUSIVE, 0);
    refused(h, PGW_EINVAL, "", PGW_LOCK_EXCLUSIVE, 0);
    refused(h, PGW_EINVAL, NULL, PGW_LOCK_EXCLUSIVE, 0);
    refused(h, PGW_EINVAL, "\xff\xfe", PGW_LOCK_EXCLUSIVE, 0);
    TEST_ASSERT_EQUAL_STRING("argument `name` is not UTF-8: expected UTF-8 of 1 to 255 bytes",
                             pgw_error_message(h));
    refused(h, PGW_EINVAL, "x", (pgw_lock_mode)2, 0);
    refused(h, PGW_EINVAL, "x", PGW_LOCK_EXCLUSIVE, -2);
    pgw_close(h);
    pgw_close(other);
}

void test_two_names_with_one_key_are_distinguished(void)
{
    pgw *h = it_open_bare();

    pgtemp_exec("INSERT INTO pgwork.named_lock (key, fence, taken_at, pid, shared, name) "
                "VALUES (pgwork.lock_key('mine'), 0, now(), 0, false, 'theirs')");
    refused(h, PGW_ECONFLICT, "mine", PGW_LOCK_EXCLUSIVE, 0);
    refused(h, PGW_ECONFLICT, "mine", PGW_LOCK_SHARED, -1);
    TEST_ASSERT_EQUAL_INT64(0, ask(h, session_locks));
    TEST_ASSERT_FALSE(fence_ok("mine", 0));
    pgtemp_exec("DELETE FROM pgwork.named_lock WHERE name = 'theirs'");
    expect(h, PGW_OK, pgw_lock_release(acquired(h, "mine", PGW_LOCK_EXCLUSIVE, 0)));
    pgw_close(h);
}

void test_names_out_of_use_are_forgotten_and_numbers_go_on(void)
{
    pgw *h = it_open_bare();
    pgw_lock *kept = acquired(h, "kept", PGW_LOCK_EXCLUSIVE, 0),
             *l = acquired(h, "old", PGW_LOCK_EXCLUSIVE, 0);
    int64_t fence = pgw_lock_fence(l), n;

    expect(h, PGW_OK, pgw_lock_release(l));
    expect(h, PGW_OK, pgw_locks_prune(h, 3600000, 1000, &n));
    TEST_ASSERT_EQUAL_INT64(0, n);
    pgtemp_exec("UPDATE pgwork.named_lock SET taken_at = now() - interval '2 hours'");
    {
        pgw *other = it_open_bare();

        expect(other, PGW_OK, pgw_locks_prune(other, 3600000, 1000, &n));
        TEST_ASSERT_GREATER_THAN_INT64(0, n);
        pgw_close(other);
    }
    TEST_ASSERT_EQUAL_STRING("kept",
                             pgtemp_value("SELECT string_agg(name, ' ') FROM pgwork.named_lock"));
    TEST_ASSERT_FALSE(fence_ok("old", fence));
    l = acquired(h, "old", PGW_LOCK_EXCLUSIVE, 0);
    TEST_ASSERT_GREATER_THAN_INT64(fence, pgw_lock_fence(l));
    expect(h, PGW_EINVAL, pgw_locks_prune(h, -1, 10, &n));
    expect(h, PGW_EINVAL, pgw_locks_prune(h, 0, 0, &n));
    expect(h, PGW_OK, pgw_lock_release(l));
    expect(h, PGW_OK, pgw_lock_release(kept));
    pgw_close(h);
}

/* Neither by the session that asks, nor in the way of those behind them. */
void test_names_that_are_held_are_not_forgotten(void)
{
    pgw *h = it_open_bare(), *other = it_open_bare();
    pgw_lock *mine, *shared, *theirs, *l;
    int64_t n;

    pgtemp_exec("DELETE FROM pgwork.named_lock");
    mine = acquired(h, "mine", PGW_LOCK_EXCLUSIVE, 0);
    shared = acquired(h, "shared", PGW_LOCK_SHARED, 0);
    theirs = acquired(other, "theirs", PGW_LOCK_EXCLUSIVE, 0);
    l = acquired(other, "old", PGW_LOCK_EXCLUSIVE, 0);
    expect(other, PGW_OK, pgw_lock_release(l));
    pgtemp_exec("UPDATE pgwork.named_lock SET taken_at = now() - interval '2 hours'");
    expect(h, PGW_OK, pgw_locks_prune(h, 3600000, 1, &n));
    TEST_ASSERT_EQUAL_INT64(1, n);
    expect(h, PGW_OK, pgw_locks_prune(h, 3600000, 1, &n));
    TEST_ASSERT_EQUAL_INT64(0, n);
    TEST_ASSERT_TRUE(fence_ok("mine", pgw_lock_fence(mine)));
    TEST_ASSERT_TRUE(fence_ok("shared", pgw_lock_fence(shared)));
    TEST_ASSERT_TRUE(fence_ok("theirs", pgw_lock_fence(theirs)));
    expect(h, PGW_OK, pgw_lock_release(mine));
    expect(h, PGW_OK, pgw_lock_release(shared));
    expect(other, PGW_OK, pgw_lock_release(theirs));
    pgw_close(h);
    pgw_close(other);
}

/* ---- who ---- */

static int count_infos(const pgw_lock_info *info, void *arg)
{
    int *n = arg;

    n[0] += info->held;
    n[1] += info->shared;
    TEST_ASSERT_EQUAL_STRING("who", info->name);
    TEST_ASSERT_EQUAL_STRING("pgwork", info->application);
    return 0;
}

void test_the_holder_is_known(void)
{
    pgw *a = it_open_bare(), *b = it_open_bare();
    pgw_lock *l, *m;
    pgw_lock_who who = PGW_LOCK_WHO_INIT;
    int n[2] = {0, 0};

    expect(b, PGW_OUTCOME_EMPTY, pgw_lock_holder(b, "who", &who));
    l = acquired(a, "who", PGW_LOCK_EXCLUSIVE, 0);
    expect(b, PGW_OK, pgw_lock_holder(b, "who", &who));
    TEST_ASSERT_EQUAL_INT64(ask(a, session_pid), who.pid);
    TEST_ASSERT_EQUAL_STRING("pgwork", who.application);
    TEST_ASSERT_EQUAL_STRING("postgres", who.user);
    TEST_ASSERT_EQUAL_INT64(pgw_lock_fence(l), who.fence);
    TEST_ASSERT_FALSE(who.shared);
    TEST_ASSERT_INT64_WITHIN(
        60000000, pgtemp_number("SELECT extract(epoch FROM now())::int8 * 1000000"), who.since_us);
    expect(a, PGW_OK, pgw_lock_release(l));
    l = acquired(a, "who", PGW_LOCK_SHARED, 0);
    m = acquired(b, "who", PGW_LOCK_SHARED, 0);
    expect(b, PGW_OK, pgw_lock_holder(b, "who", &who));
    TEST_ASSERT_EQUAL_INT64(ask(a, session_pid), who.pid);
    TEST_ASSERT_TRUE(who.shared);
    expect(b, PGW_OK, pgw_locks_each(b, "who", count_infos, n));
    expect(b, PGW_OK, pgw_locks_each(b, NULL, count_infos, n));
    TEST_ASSERT_EQUAL_INT(4, n[0]);
    TEST_ASSERT_EQUAL_INT(4, n[1]);
    expect(a, PGW_OK, pgw_lock_release(l));
    expect(b, PGW_OK, pgw_lock_release(m));
    expect(b, PGW_OUTCOME_EMPTY, pgw_locks_each(b, NULL, count_infos, n));
    expect(b, PGW_EINVAL, pgw_locks_each(b, NULL, NULL, NULL));
    pgw_close(a);
    pgw_close(b);
}

/* Its row is not there yet, or never will be. */
void test_the_holder_of_a_name_without_a_row_is_known(void)
{
    pgw *a = it_open_bare(), *b = it_open_bare();
    pgw_lock_who who = PGW_LOCK_WHO_INIT;
    pgw_lock *l;

    expect(a, PGW_OK, pgw_txn_begin(a));
    expect(a, PGW_OK, pgw_lock_acquire_xact(a, "unheard of", LOCK_AS(PGW_LOCK_SHARED, 0), NULL));
    expect(b, PGW_OK, pgw_lock_holder(b, "unheard of", &who));
    TEST_ASSERT_EQUAL_INT64(ask(a, session_pid), who.pid);
    TEST_ASSERT_TRUE(who.shared);
    TEST_ASSERT_EQUAL_INT64(0, who.fence);
    expect(a, PGW_OK, pgw_txn_commit(a));
    expect(b, PGW_OUTCOME_EMPTY, pgw_lock_holder(b, "unheard of", &who));
    ask(a, "SELECT pg_advisory_lock(pgwork.lock_key('a stranger''s'))");
    expect(b, PGW_OK, pgw_lock_holder(b, "a stranger's", &who));
    TEST_ASSERT_EQUAL_INT64(ask(a, session_pid), who.pid);
    l = acquired(b, "known", PGW_LOCK_EXCLUSIVE, 0);
    TEST_ASSERT_EQUAL_STRING(
        "known",
        pgtemp_value("SELECT string_agg(name, ' ') FROM pgwork.lock_list() WHERE pid > 0"));
    expect(b, PGW_OK, pgw_lock_release(l));
    pgw_close(a);
    pgw_close(b);
}

/* ---- waiting ---- */

typedef struct holder {
    pgw *h;
    pgw_lock *lock;
    const char *waits; /* until somebody waits for this lock */
    bool bad;
} holder;

/* On pgtemp's server, but not on its connection: that is the main thread's. */
static bool somebody_waits(pgw *h)
{
    for (int i = 0; i < LONG_MS / 10; i++) {
        if (ask(h, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted "
                   "AND " OF_THIS_DATABASE) > 0)
            return true;
        (void)poll(NULL, 0, 10);
    }
    return false;
}

static void *release_when_waited_for(void *arg)
{
    holder *in = arg;

    in->bad = !somebody_waits(in->h) || pgw_lock_release(in->lock) != PGW_OK;
    return NULL;
}

void test_a_waiter_is_woken_by_the_release(void)
{
    pgw *a = it_open_bare(), *b = it_open_bare();
    holder in = {a, acquired(a, "wait", PGW_LOCK_EXCLUSIVE, 0), "wait", false};
    pthread_t thread;
    pgw_lock *l;

    TEST_ASSERT_EQUAL_INT(0, pthread_create(&thread, NULL, release_when_waited_for, &in));
    l = acquired(b, "wait", PGW_LOCK_EXCLUSIVE, LONG_MS);
    TEST_ASSERT_EQUAL_INT(0, pthread_join(thread, NULL));
    TEST_ASSERT_FALSE(in.bad);
    expect(b, PGW_OK, pgw_lock_release(l));
    pgw_close(a);
    pgw_close(b);
}

typedef struct stopper {
    pgw *observer;
    pgw_stop *stop;
    bool bad;
} stopper;

static void *stop_the_waiter(void *arg)
{
    stopper *in = arg;

    in->bad = !somebody_waits(in->observer);
    pgw_stop_notify(in->stop);
    return NULL;
}

void test_the_first_stop_ends_a_wait_and_nothing_else(void)
{
    pgw *a = it_open_bare(), *b = it_open_bare(), *observer = it_open_bare();
    stopper in = {observer, NULL, false};
    pgw_lock *l = acquired(a, "stop", PGW_LOCK_EXCLUSIVE, 0), *other;
    pthread_t thread;

    TEST_ASSERT_EQUAL(PGW_OK, pgw_stop_new(&in.stop));
    other = acquired(b, "held meanwhile", PGW_LOCK_EXCLUSIVE, 0);
    pgw_set_stop(b, in.stop);
    TEST_ASSERT_EQUAL_INT(0, pthread_create(&thread, NULL, stop_the_waiter, &in));
    refused(b, PGW_ECANCELED, "stop", PGW_LOCK_EXCLUSIVE, -1);
    TEST_ASSERT_EQUAL_INT(0, pthread_join(thread, NULL));
    TEST_ASSERT_FALSE(in.bad);
    refused(b, PGW_ECANCELED, "stop", PGW_LOCK_EXCLUSIVE,
            -1); /* and so does one that came before */
    TEST_ASSERT_TRUE(pgw_lock_is_held(other));
    TEST_ASSERT_EQUAL_INT64(1, ask(b, session_locks));
    expect(b, PGW_OK, pgw_lock_release(other));
    expect(a, PGW_OK, pgw_lock_release(l));
    pgw_close(a);
    pgw_close(b);
    pgw_close(observer);
    pgw_stop_free(in.stop);
}

static void *wait_for_second(void *arg)
{
    holder *in = arg;
    pgw_lock *l;
    pgw_status st = pgw_lock_acquire(in->h, in->waits, LOCK_AS(PGW_LOCK_EXCLUSIVE, LONG_MS), &l);

    in->bad = st != PGW_OK && st != PGW_ERETRY;
    if (st == PGW_OK) in->bad = pgw_lock_release(l) != PGW_OK;
    if (pgw_lock_release(in->lock) != PGW_OK) in->bad = true;
    return st == PGW_ERETRY ? in : NULL;
}

void test_a_deadlock_ends_for_one_of_the_two(void)
{
    pgw *a = it_open_bare(), *b = it_open_bare();
    pgw_lock *mine = acquired(a, "first", PGW_LOCK_EXCLUSIVE, 0), *l;
    holder in = {b, acquired(b, "second", PGW_LOCK_EXCLUSIVE, 0), "first", false};
    pthread_t thread;
    void *victim;
    pgw_status st;

    TEST_ASSERT_EQUAL_INT(0, pthread_create(&thread, NULL, wait_for_second, &in));
    st = pgw_lock_acquire(a, "second", LOCK_AS(PGW_LOCK_EXCLUSIVE, LONG_MS), &l);
    TEST_ASSERT_TRUE(pgw_lock_is_held(mine));
    if (st == PGW_OK) expect(a, PGW_OK, pgw_lock_release(l));
    expect(a, PGW_OK, pgw_lock_release(mine));
    TEST_ASSERT_EQUAL_INT(0, pthread_join(thread, &victim));
    TEST_ASSERT_EQUAL(victim != NULL ? PGW_OK : PGW_ERETRY, st);
    TEST_ASSERT_FALSE(in.bad);
    TEST_ASSERT_EQUAL_INT64(0, ask(a, session_locks));
    TEST_ASSERT_EQUAL_INT64(0, ask(b, session_locks));
    pgw_close(a);
    pgw_close(b);
}

/* ---- lost ---- */

void test_a_lock_whose_session_was_ended_is_lost_and_known_to_be(void)
{
    pgw *h = it_open_bare();
    pgw_lock *l = acquired(h, "lost", PGW_LOCK_EXCLUSIVE, 0),
             *other = acquired(h, "too", PGW_LOCK_SHARED, 0);
    struct pollfd p = {.fd = pgw_lock_watch(l), .events = POLLIN};
    int64_t fence = pgw_lock_fence(l);

    TEST_ASSERT_GREATER_OR_EQUAL_INT(0, p.fd);
    TEST_ASSERT_EQUAL_INT(0, poll(&p, 1, 0));
    expect(h, PGW_OK, pgw_lock_check(l));
    expect(h, PGW_OUTCOME_EMPTY, pgw_lock_guard(l, PGW_NO_FD, 10));
    terminate(ask(h, session_pid));
    TEST_ASSERT_EQUAL_INT(1, poll(&p, 1, LONG_MS));
    expect(h, PGW_ELEASE, pgw_lock_guard(l, PGW_NO_FD, LONG_MS));
    expect(h, PGW_ELEASE, pgw_lock_check(l));
    TEST_ASSERT_FALSE(pgw_lock_is_held(other));
    TEST_ASSERT_EQUAL_INT64(1, ask(h, "SELECT 1")); /* a new session ... */
    expect(h, PGW_ELEASE, pgw_lock_check(l));       /* ... does not bring it back */
    TEST_ASSERT_EQUAL_INT(-1, pgw_lock_watch(l));
    {
        pgw_lock *again = acquired(h, "lost", PGW_LOCK_EXCLUSIVE, 0);

        TEST_ASSERT_GREATER_THAN_INT64(fence, pgw_lock_fence(again));
        expect(h, PGW_ELEASE, pgw_lock_release(l));
        TEST_ASSERT_TRUE(pgw_lock_is_held(again));
        expect(h, PGW_OK, pgw_lock_release(again));
    }
    expect(h, PGW_ELEASE, pgw_lock_release(other));
    pgw_close(h);
}

static void count_done(pgw *h, pgw_status st, void *arg)
{
    expect(h, PGW_OK, st);
    ++*(int *)arg;
}

/* Who rests with a lock in hand reads nothing: what gathers would cost it the session. */
void test_a_claim_that_waited_does_not_listen_while_it_holds_a_lock(void)
{
    static const char listens[] = "SELECT count(*) FROM pg_listening_channels()";
    const char *const queues[] = {"none"};
    pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;
    pgw_batch *batch;
    pgw *h = it_open_bare();
    pgw_lock *l;

    o.queues = queues, o.queues_count = 1, o.wait_ms = 20;
    expect(h, PGW_OUTCOME_EMPTY, pgw_claim(h, &o, &batch));
    TEST_ASSERT_EQUAL_INT64(1, ask(h, listens));
    l = acquired(h, "at rest", PGW_LOCK_EXCLUSIVE, 0);
    TEST_ASSERT_EQUAL_INT64(0, ask(h, listens));
    expect(h, PGW_OUTCOME_EMPTY, pgw_claim(h, &o, &batch));
    TEST_ASSERT_EQUAL_INT64(0, ask(h, listens));
    expect(h, PGW_OK, pgw_lock_release(l));
    pgw_close(h);
}

/* Between the arming and the verb one may well ask. */
void test_checking_a_lost_lock_leaves_the_armed_verb_armed(void)
{
    pgw *h = it_open_bare();
    pgw_lock *l = acquired(h, "asked", PGW_LOCK_EXCLUSIVE, 0);
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    int done = 0;

    terminate(ask(h, session_pid));
    pgw_async(h, count_done, &done);
    expect(h, PGW_ELEASE, pgw_lock_check(l));
    TEST_ASSERT_FALSE(pgw_lock_is_held(l));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_message(h), "the lock was lost"));
    expect(h, PGW_OUTCOME_AGAIN, pgw_enqueue(h, "asked", &job, NULL));
    while (done == 0) {
        struct pollfd p = {.fd = pgw_fd(h)};

        if ((pgw_events(h) & PGW_EVENT_READ) != 0) p.events |= POLLIN;
        if ((pgw_events(h) & PGW_EVENT_WRITE) != 0) p.events |= POLLOUT;
        poll(&p, 1, (int)pgw_timeout_ms(h));
        pgw_step(h);
    }
    TEST_ASSERT_EQUAL_INT(1, done);
    expect(h, PGW_ELEASE, pgw_lock_release(l));
    pgw_close(h);
}

void test_a_lock_whose_grant_stays_without_an_answer_is_free(void)
{
    wire *w = wire_open();
    const char *const pairs[] = {"schema.check", "off", "dsn", wire_dsn(w), NULL};
    pgw *h = it_open_with(pairs), *other = it_open_bare();
    pgw_lock *l = acquired(h, "silent", PGW_LOCK_EXCLUSIVE, 0);

    expect(h, PGW_OK, pgw_lock_release(l));
    wire_at(w, 'D', 1, NULL, 0, WIRE_SILENT);
    pgw_set_timeout(h, 300);
    TEST_ASSERT_LESS_THAN_INT(0, pgw_lock_acquire(h, "silent", LOCK_AS(PGW_LOCK_EXCLUSIVE, 0), &l));
    TEST_ASSERT_NULL(l);
    TEST_ASSERT_EQUAL_INT(1, wire_orders(w));
    expect(other, PGW_OK, pgw_lock_release(acquired(other, "silent", PGW_LOCK_EXCLUSIVE, LONG_MS)));
    pgw_close(other);
    pgw_close(h);
    wire_close(w);
}

void test_guard_wakes_for_a_descriptor(void)
{
    pgw *h = it_open_bare();
    pgw_lock *l = acquired(h, "guard", PGW_LOCK_EXCLUSIVE, 0);
    int fds[2];

    TEST_ASSERT_EQUAL_INT(0, pipe(fds));
    expect(h, PGW_OUTCOME_EMPTY, pgw_lock_guard(l, fds[0], 5));
    expect(h, PGW_OK, pgw__pq_listen(h, "other_news"));
    pgtemp_exec("NOTIFY other_news");
    expect(h, PGW_OUTCOME_EMPTY, pgw_lock_guard(l, fds[0], 50));
    TEST_ASSERT_EQUAL_INT(1, (int)write(fds[1], "x", 1));
    expect(h, PGW_OK, pgw_lock_guard(l, fds[0], LONG_MS));
    close(fds[0]);
    close(fds[1]);
    expect(h, PGW_OK, pgw_lock_release(l));
    pgw_close(h);
}

void test_a_release_that_the_server_denies_closes_the_connection(void)
{
    pgw *h = it_open_bare();
    pgw_lock *l = acquired(h, "denied", PGW_LOCK_EXCLUSIVE, 0),
             *other = acquired(h, "other", PGW_LOCK_EXCLUSIVE, 0);
    int64_t pid = ask(h, session_pid);

    TEST_ASSERT_EQUAL_INT64(1,
                            ask(h, "SELECT 1 FROM pg_advisory_unlock(pgwork.lock_key('denied'))"));
    expect(h, PGW_ELEASE, pgw_lock_release(l));
    TEST_ASSERT_FALSE(pgw_lock_is_held(other));
    TEST_ASSERT_TRUE(pid != ask(h, session_pid));
    expect(h, PGW_ELEASE, pgw_lock_release(other));
    pgw_close(h);
}

void test_a_closed_handle_leaves_a_lost_lock(void)
{
    pgw *h = it_open_bare(), *other = it_open_bare();
    pgw_lock *l = acquired(h, "closed", PGW_LOCK_EXCLUSIVE, 0);

    pgw_close(h);
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_lock_check(l));
    TEST_ASSERT_EQUAL_INT(-1, pgw_lock_watch(l));
    expect(other, PGW_OK, pgw_lock_release(acquired(other, "closed", PGW_LOCK_EXCLUSIVE, LONG_MS)));
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_lock_release(l));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_lock_release(NULL));
    pgw_close(other);
}

void test_the_lock_of_a_killed_process_is_free(void)
{
    pgw *h;
    pgw_lock *l;
    int fds[2];
    char byte;
    pid_t pid;

    TEST_ASSERT_EQUAL_INT(0, pipe(fds));
    pid = forked();
    if (pid == 0) {
        h = it_try_bare();
        if (pgw_lock_acquire(h, "killed", NULL, &l) != PGW_OK) {
            close(fds[1]);
            _exit(1);
        }
        (void)!write(fds[1], "x", 1);
        for (;;) (void)pause();
    }
    close(fds[1]);
    TEST_ASSERT_EQUAL_INT(1, (int)read(fds[0], &byte, 1));
    h = it_open_bare();
    refused(h, PGW_ELOCKED, "killed", PGW_LOCK_EXCLUSIVE, 0);
    kill(pid, SIGKILL);
    TEST_ASSERT_EQUAL_INT(128 + SIGKILL, reaped(pid));
    l = acquired(h, "killed", PGW_LOCK_EXCLUSIVE, LONG_MS);
    expect(h, PGW_OK, pgw_lock_release(l));
    pgw_close(h);
    close(fds[0]);
}

void test_a_child_of_fork_cannot_touch_its_parents_lock(void)
{
    pgw *h = it_open_bare();
    pgw_lock *l = acquired(h, "fork", PGW_LOCK_EXCLUSIVE, 0);
    pid_t pid = forked();

    if (pid == 0) {
        pgw_lock *m;

        if (pgw_lock_check(l) != PGW_EMISUSE) _exit(1);
        if (pgw_lock_release(l) != PGW_EMISUSE) _exit(2);
        if (pgw_lock_acquire(h, "fork2", NULL, &m) != PGW_EMISUSE) _exit(3);
        pgw_abandon(h);
        if (pgw_lock_release(l) != PGW_ELEASE) _exit(4);
        _exit(0);
    }
    TEST_ASSERT_EQUAL_INT(0, reaped(pid));
    TEST_ASSERT_TRUE(pgw_lock_is_held(l));
    expect(h, PGW_OK, pgw_lock_release(l));
    pgw_close(h);
}

/* ---- where session locks cannot be had ---- */

void test_a_pooler_is_refused_with_advice(void)
{
    pgw *h = it_open_bare();

    h->pooled = true; /* as the probe finds it: see the tests of the module pq */
    refused(h, PGW_EPOOLED, "pooled", PGW_LOCK_EXCLUSIVE, -1);
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_hint(h), "pgw_lock_acquire_xact"));
    pgw_close(h);
}

static void nobody(pgw *h, pgw_status st, void *arg)
{
    (void)h, (void)st, (void)arg;
}

void test_neither_in_a_transaction_nor_armed(void)
{
    pgw *h = it_open_bare();
    int64_t fence;

    expect(h, PGW_OK, pgw__pq_begin(h));
    refused(h, PGW_EMISUSE, "in txn", PGW_LOCK_EXCLUSIVE, 0);
    expect(h, PGW_OK, pgw_lock_acquire_xact(h, "in txn", NULL, &fence));
    TEST_ASSERT_GREATER_THAN_INT64(0, fence);
    expect(h, PGW_OK, pgw__pq_commit(h));
    TEST_ASSERT_TRUE(fence_ok("in txn", fence));
    pgw_async(h, nobody, NULL);
    refused(h, PGW_EMISUSE, "armed", PGW_LOCK_EXCLUSIVE, 0);
    TEST_ASSERT_NULL(strstr(pgw_error_hint(h), "timeout")); /* none helps */
    pgw_async(h, nobody, NULL);
    expect(h, PGW_EMISUSE, pgw_txn_rollback(h)); /* there is nothing to roll back, armed or not */
    expect(h, PGW_OK, pgw_txn_rollback(h));
    pgw_async(h, NULL, NULL);
    pgw_close(h);
}

/* In a transaction a lock stays, and so does the transaction. */
TEST_CASE(false)
TEST_CASE(true)
void test_a_release_in_a_transaction_is_refused(bool failed)
{
    pgw *h = it_open_bare();
    pgw_lock *l = acquired(h, "kept", PGW_LOCK_EXCLUSIVE, 0);
    const int64_t pid = ask(h, session_pid);

    expect(h, PGW_OK, pgw_txn_begin(h));
    if (failed) TEST_ASSERT_EQUAL_INT64(-1, ask(h, "SELECT 1/0"));
    expect(h, PGW_EMISUSE, pgw_lock_release(l));
    expect(h, failed ? PGW_ETXN : PGW_OK, pgw_txn_commit(h));
    TEST_ASSERT_TRUE(pgw_lock_is_held(l));
    TEST_ASSERT_EQUAL_INT64(pid, ask(h, session_pid));
    expect(h, PGW_OK, pgw_lock_release(l));
    pgw_close(h);
}

void test_the_lock_of_a_transaction_ends_with_it(void)
{
    struct pg_conn *conn = pgtemp_connect();
    pgw *h, *other = it_open_bare();
    pgw_lock *l;
    int64_t fence, again;

    TEST_ASSERT_EQUAL(PGW_OK, pgw_attach(conn, NULL, &h));
    refused(h, PGW_EMISUSE, "txn", PGW_LOCK_EXCLUSIVE, 0);
    expect(h, PGW_EMISUSE, pgw_lock_acquire_xact(h, "txn", NULL, &fence));
    PQclear(PQexec(conn, "BEGIN"));
    PQclear(PQexec(conn, "SET LOCAL lock_timeout = '7s'"));
    expect(h, PGW_OK, pgw_lock_acquire_xact(h, "txn", NULL, &fence));
    expect(h, PGW_OK, pgw_lock_acquire_xact(h, "txn", NULL, &again));
    TEST_ASSERT_EQUAL_INT64(fence, again);
    refused(other, PGW_ELOCKED, "txn", PGW_LOCK_EXCLUSIVE, 20);
    refused(other, PGW_ELOCKED, "txn", PGW_LOCK_SHARED, 0);
    PQclear(PQexec(conn, "COMMIT"));
    l = acquired(other, "txn", PGW_LOCK_EXCLUSIVE, 0);
    TEST_ASSERT_GREATER_THAN_INT64(again, pgw_lock_fence(l));

    /* a timeout leaves the caller's transaction and its settings as they were */
    PQclear(PQexec(conn, "BEGIN"));
    PQclear(PQexec(conn, "SET LOCAL lock_timeout = '7s'"));
    expect(h, PGW_ELOCKED, pgw_lock_acquire_xact(h, "txn", LOCK_AS(PGW_LOCK_SHARED, 30), &fence));
    {
        PGresult *res = PQexec(conn, "SHOW lock_timeout");

        TEST_ASSERT_EQUAL_STRING("7s", PQgetvalue(res, 0, 0));
        PQclear(res);
    }
    PQclear(PQexec(conn, "ROLLBACK"));
    expect(other, PGW_OK, pgw_lock_release(l));
    pgw_close(h);
    pgw_close(other);
    PQfinish(conn);
}

/* Cancelled wherever that meets it: what was held before stays. */
void test_a_failed_second_acquire_does_not_release_the_lock(void)
{
    struct pg_conn *conn = pgtemp_connect();
    int failures = 0;
    char held[200];

    PQclear(PQexec(conn, "SELECT pgwork.lock_acquire('twice')"));
    snprintf(held, sizeof(held),
             "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = %d",
             PQbackendPID(conn));
    for (int i = 0; i < 3000; i++) {
        PGresult *res;

        if (i % 100 == 0)
            PQclear(PQexec(conn, "SET statement_timeout = 0; SELECT pg_advisory_unlock_all(),"
                                 " pgwork.lock_acquire('twice'); SET statement_timeout = '1ms'"));
        res = PQexec(conn, "SELECT pgwork.lock_acquire('twice')");
        failures += PQresultStatus(res) != PGRES_TUPLES_OK;
        PQclear(res);
        if (i % 100 == 99 || (failures > 0 && failures % 10 == 0))
            TEST_ASSERT_EQUAL_INT64(1, pgtemp_number(held));
    }
    PQfinish(conn);
}

/* ---- the fence ---- */

void test_a_fence_holds_off_the_next_holder_until_the_writer_commits(void)
{
    struct pg_conn *writer = pgtemp_connect();
    pgw *h = it_open_bare(), *next = it_open_bare();
    pgw_lock *l = acquired(h, "fence", PGW_LOCK_EXCLUSIVE, 0), *m;
    char sql[120];
    PGresult *res;

    snprintf(sql, sizeof(sql), "SELECT pgwork.fence_ok('fence', %lld)",
             (long long)pgw_lock_fence(l));
    PQclear(PQexec(writer, "BEGIN"));
    res = PQexec(writer, sql);
    TEST_ASSERT_EQUAL_STRING("t", PQgetvalue(res, 0, 0));
    PQclear(res);
    terminate(ask(h, session_pid)); /* lost, and the writer does not know */
    refused(next, PGW_ELOCKED, "fence", PGW_LOCK_EXCLUSIVE, 0);
    refused(next, PGW_ELOCKED, "fence", PGW_LOCK_EXCLUSIVE, 50);
    TEST_ASSERT_EQUAL_INT64(0, ask(next, session_locks));
    PQclear(PQexec(writer, "COMMIT"));
    m = acquired(next, "fence", PGW_LOCK_EXCLUSIVE, 0);
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_lock_release(l));
    res = PQexec(writer, sql); /* too late now */
    TEST_ASSERT_EQUAL_STRING("f", PQgetvalue(res, 0, 0));
    PQclear(res);
    TEST_ASSERT_FALSE(fence_ok("fence", pgw_lock_fence(m) + 1));
    TEST_ASSERT_FALSE(fence_ok("no such lock", 1));
    expect(next, PGW_OK, pgw_lock_release(m));
    PQfinish(writer);
    pgw_close(h);
    pgw_close(next);
}

/* ---- many ---- */

static int contend(pgw *h, int who)
{
    int64_t last = 0;

    (void)who;
    for (int i = 0; i < ROUNDS; i++) {
        char sql[200];
        pgw_lock *l;

        if (pgw_lock_acquire(h, "busy", LOCK_AS(PGW_LOCK_EXCLUSIVE, PGW_UNLIMITED), &l) != PGW_OK)
            return 2;
        if (pgw_lock_fence(l) <= last) return 3;
        last = pgw_lock_fence(l);
        snprintf(
            sql, sizeof(sql),
            "INSERT INTO public.held (came, fence) VALUES (clock_timestamp(), %lld) RETURNING 1",
            (long long)last);
        if (ask(h, sql) != 1) return 4;
        snprintf(sql, sizeof(sql),
                 "UPDATE public.held SET went = clock_timestamp() WHERE fence = %lld RETURNING 1",
                 (long long)last);
        if (ask(h, sql) != 1) return 5;
        if (pgw_lock_release(l) != PGW_OK) return 6;
    }
    return 0;
}

void test_contenders_never_overlap_and_fences_follow_time(void)
{
    pgtemp_exec("CREATE TABLE held (came timestamptz, went timestamptz, fence bigint PRIMARY KEY)");
    for (int i = 0; i < CONTENDERS; i++) spawn(contend, i);
    join();
    TEST_ASSERT_EQUAL_INT64(ROUNDS * CONTENDERS, pgtemp_number("SELECT count(went) FROM held"));
    TEST_ASSERT_EQUAL_INT64(
        0, pgtemp_number(
               "SELECT count(*) FROM (SELECT came, lag(went) OVER (ORDER BY fence) AS before "
               "FROM held) s WHERE came < before"));
}

static int apart(pgw *h, int who)
{
    for (int i = 0; i < 15; i++) {
        char name[40];
        pgw_lock *l;

        snprintf(name, sizeof(name), "apart %d %d", who, i);
        if (pgw_lock_acquire(h, name, NULL, &l) != PGW_OK) return 2;
        if (pgw_lock_release(l) != PGW_OK) return 3;
    }
    return 0;
}

/* They write to one table: to wait there for a moment is no reason to be refused. */
void test_tries_of_different_names_do_not_get_in_each_others_way(void)
{
    for (int i = 0; i < CONTENDERS; i++) spawn(apart, i);
    join();
}

/* Timeouts of the same size as the holds: many grants meet a timeout. */
static volatile int *inside; /* in memory that the processes share */

static int race(pgw *h, int who)
{
    unsigned seed = (unsigned)who + 1;
    int got = 0;

    for (int i = 0; i < 700; i++) {
        pgw_lock *l;
        pgw_status st;

        seed = seed * 1103515245u + 12345u;
        st =
            pgw_lock_acquire(h, "race", LOCK_AS(PGW_LOCK_EXCLUSIVE, (int64_t)(seed >> 16) % 4), &l);
        if (st == PGW_OK) {
            if (__atomic_add_fetch(inside, 1, __ATOMIC_SEQ_CST) != 1) return 2;
            if (ask(h, session_locks) != 1) return 3;
            __atomic_sub_fetch(inside, 1, __ATOMIC_SEQ_CST);
            if (pgw_lock_release(l) != PGW_OK) return 4;
            got++;
        } else {
            if (st != PGW_ELOCKED) return 5;
            if (ask(h, session_locks) != 0) return 6; /* refused, and held all the same */
        }
    }
    return got > 0 ? 0 : 7;
}

void test_a_timeout_that_races_a_grant_is_one_or_the_other(void)
{
    FILE *file = tmpfile();

    TEST_ASSERT_NOT_NULL(file);
    TEST_ASSERT_EQUAL_INT(0, ftruncate(fileno(file), sizeof(*inside)));
    inside = mmap(NULL, sizeof(*inside), PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    TEST_ASSERT_TRUE((void *)(uintptr_t)inside != MAP_FAILED);
    for (int i = 0; i < 6; i++) spawn(race, i);
    join();
    TEST_ASSERT_EQUAL_INT64(
        0, pgtemp_number(
               "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND " OF_THIS_DATABASE));
    munmap((void *)(uintptr_t)inside, sizeof(*inside));
    fclose(file);
}

/* As documented: a ROLLBACK undoes the number. */
void test_the_fence_of_a_transaction_counts_once_committed(void)
{
    pgw *h = it_open_bare();
    int64_t first, undone, fence;
    pgw_lock *l = acquired(h, "undone", PGW_LOCK_SHARED, 0);

    first = pgw_lock_fence(l);
    expect(h, PGW_OK, pgw_lock_release(l));
    expect(h, PGW_OK, pgw_txn_begin(h));
    expect(h, PGW_OK, pgw_lock_acquire_xact(h, "undone", NULL, &undone));
    TEST_ASSERT_GREATER_THAN_INT64(first, undone);
    expect(h, PGW_OK, pgw_txn_rollback(h));
    TEST_ASSERT_FALSE(fence_ok("undone", undone));
    l = acquired(h, "undone", PGW_LOCK_SHARED, 0);
    TEST_ASSERT_EQUAL_INT64(first, pgw_lock_fence(l));
    expect(h, PGW_OK, pgw_lock_release(l));
    expect(h, PGW_OK, pgw_txn_begin(h));
    expect(h, PGW_OK, pgw_lock_acquire_xact(h, "undone", NULL, &fence));
    expect(h, PGW_OK, pgw_txn_commit(h));
    TEST_ASSERT_GREATER_THAN_INT64(undone, fence); /* no number is drawn twice */
    l = acquired(h, "undone", PGW_LOCK_SHARED, 0);
    TEST_ASSERT_GREATER_THAN_INT64(fence, pgw_lock_fence(l));
    expect(h, PGW_OK, pgw_lock_release(l));
    pgw_close(h);
}

/* Nobody came in between: what was handed on under the first number must not be refused. */
void test_a_transaction_that_takes_a_lock_again_keeps_its_number(void)
{
    pgw *h = it_open_bare();
    pgw_lock *l = acquired(h, "mine", PGW_LOCK_EXCLUSIVE, 0);
    int64_t fence = pgw_lock_fence(l), again;

    expect(h, PGW_OK, pgw_txn_begin(h));
    expect(h, PGW_EHELD, pgw_lock_acquire_xact(h, "mine", NULL, &again));
    TEST_ASSERT_EQUAL_INT64(0, again);
    expect(h, PGW_EHELD,
           pgw_lock_acquire_xact(h, "mine", LOCK_AS(PGW_LOCK_SHARED, PGW_UNLIMITED), &again));
    expect(h, PGW_OK, pgw_txn_commit(h)); /* it goes on */
    TEST_ASSERT_TRUE(fence_ok("mine", fence));
    expect(h, PGW_OK, pgw_lock_release(l));

    for (pgw_lock_mode mode = PGW_LOCK_EXCLUSIVE; mode <= PGW_LOCK_SHARED; mode++) {
        const int64_t before = fence;

        expect(h, PGW_OK, pgw_txn_begin(h));
        expect(h, PGW_OK, pgw_lock_acquire_xact(h, "mine", LOCK_AS(mode, 0), &fence));
        TEST_ASSERT_GREATER_THAN_INT64(before, fence);
        expect(h, PGW_OK, pgw_lock_acquire_xact(h, "mine", LOCK_AS(mode, 0), &again));
        TEST_ASSERT_EQUAL_INT64(fence, again);
        expect(h, PGW_OK, pgw_txn_commit(h));
        TEST_ASSERT_TRUE(fence_ok("mine", fence));
    }
    pgw_close(h);
}

/* The number of a holder before is not one's own, though it was the same session; nor one that was
 * undone. */
void test_no_number_of_before_is_had_again(void)
{
    static const char acquire[] = "SELECT pgwork.lock_acquire_xact('other')";
    pgw *h = it_open_bare();
    int64_t before, undone, fence;

    expect(h, PGW_OK, pgw_txn_begin(h));
    before = ask(h, acquire);
    expect(h, PGW_OK, pgw_txn_commit(h));
    expect(h, PGW_OK, pgw_txn_begin(h));
    TEST_ASSERT_EQUAL_INT64(-1, ask(h, "SAVEPOINT s"));
    undone = ask(h, acquire);
    TEST_ASSERT_GREATER_THAN_INT64(before, undone);
    TEST_ASSERT_EQUAL_INT64(-1, ask(h, "ROLLBACK TO s"));
    fence = ask(h, acquire);
    TEST_ASSERT_GREATER_THAN_INT64(undone, fence);
    TEST_ASSERT_EQUAL_INT64(-1, ask(h, "SAVEPOINT t"));
    TEST_ASSERT_EQUAL_INT64(fence, ask(h, acquire));
    TEST_ASSERT_EQUAL_INT64(-1, ask(h, "ROLLBACK TO t"));
    TEST_ASSERT_EQUAL_INT64(fence, ask(h, acquire));
    expect(h, PGW_OK, pgw_txn_commit(h));
    TEST_ASSERT_TRUE(fence_ok("other", fence));
    pgw_close(h);
}

/* A number that a crash forgets would be drawn again. The session goes on as it was. */
void test_a_number_waits_for_the_disk_whatever_its_session_has_set(void)
{
    static const char setting[] = "SELECT current_setting('synchronous_commit')";
    static const char *const said[][2] = {{"off", "on"}, {"local", "local"}};
    char sql[80];

    for (size_t i = 0; i < 2; i++) {
        snprintf(sql, sizeof(sql), "SET synchronous_commit = %s; BEGIN", said[i][0]);
        pgtemp_exec(sql);
        TEST_ASSERT_GREATER_THAN_INT64(0, pgtemp_number("SELECT pgwork.lock_acquire_xact('kept')"));
        TEST_ASSERT_EQUAL_STRING(said[i][1], pgtemp_value(setting));
        pgtemp_exec("COMMIT");
        TEST_ASSERT_EQUAL_STRING(said[i][0], pgtemp_value(setting));
    }
    pgtemp_exec("RESET synchronous_commit");
}

/* The release would never end. */
void test_without_a_name_nothing_is_taken_or_released(void)
{
    pgw *h = it_open_bare();
    pgw_lock *l = acquired(h, "named", PGW_LOCK_EXCLUSIVE, 0);

    pgw_set_timeout(h, 10000);
    TEST_ASSERT_EQUAL_INT64(0, ask(h, "SELECT pgwork.lock_forget(NULL)"));
    TEST_ASSERT_EQUAL_INT64(-1, ask(h, "SELECT pgwork.lock_acquire(NULL)"));
    TEST_ASSERT_EQUAL_STRING("PW001", pgw_error_sqlstate(h));
    expect(h, PGW_OK, pgw_lock_release(l));
    pgw_close(h);
}

/* That it reaches beyond all times is no reason to speak of anything else. */
void test_a_timeout_beyond_all_times_is_refused_as_any_other(void)
{
    static const char *const calls[] = {
        "SELECT pgwork.lock_acquire('far', timeout_ms => 9223372036854775807)",
        "SELECT pgwork.lock_acquire_xact('far', true, 9223372036854775807)"};
    pgw *h = it_open_bare();

    for (int i = 0; i < 2; i++) {
        TEST_ASSERT_EQUAL_INT64(-1, ask(h, calls[i]));
        TEST_ASSERT_EQUAL_STRING("PW001", pgw_error_sqlstate(h));
        TEST_ASSERT_NOT_NULL(strstr(pgw_error_message(h), "9223372036854775807"));
    }
    TEST_ASSERT_EQUAL_INT64(0, ask(h, session_locks));
    pgw_close(h);
}

/* A statement that waits keeps its snapshot; who waits for longer commits in between. */
void test_a_statement_waits_half_a_second_at_most_and_a_procedure_longer(void)
{
    static const char *const too_long[] = {"SELECT pgwork.lock_acquire('slow', timeout_ms => 501)",
                                           "SELECT pgwork.lock_acquire('slow', timeout_ms => -1)",
                                           "SELECT pgwork.lock_acquire_xact('slow', false, 501)"};
    pgw *h = it_open_bare();
    pgw_lock *l = acquired(h, "slow", PGW_LOCK_EXCLUSIVE, 0);
    struct pg_conn *sql = pgtemp_connect();
    PGresult *res;

    for (size_t i = 0; i < sizeof(too_long) / sizeof(too_long[0]); i++) {
        res = PQexec(sql, too_long[i]);
        TEST_ASSERT_EQUAL_STRING("PW001", PQresultErrorField(res, PG_DIAG_SQLSTATE));
        TEST_ASSERT_NOT_NULL(
            strstr(PQresultErrorField(res, PG_DIAG_MESSAGE_HINT), "CALL pgwork.lock_wait("));
        PQclear(res);
    }
    res = PQexec(sql, "CALL pgwork.lock_wait('slow', timeout_ms => 700)");
    TEST_ASSERT_EQUAL_INT(PGRES_TUPLES_OK, PQresultStatus(res));
    TEST_ASSERT_TRUE(PQgetisnull(res, 0, 0));
    PQclear(res);
    PQclear(PQexec(sql, "BEGIN"));
    res = PQexec(sql, "CALL pgwork.lock_wait('free')"); /* before anything is taken */
    TEST_ASSERT_EQUAL_STRING("2D000", PQresultErrorField(res, PG_DIAG_SQLSTATE));
    PQclear(res);
    PQclear(PQexec(sql, "ROLLBACK"));
    TEST_ASSERT_EQUAL_INT64(1, ask(h, "SELECT pgwork.lock_is_free('free')"));
    expect(h, PGW_OK, pgw_lock_release(l));
    res = PQexec(sql, "CALL pgwork.lock_wait('slow')");
    TEST_ASSERT_EQUAL_INT(PGRES_TUPLES_OK, PQresultStatus(res));
    TEST_ASSERT_EQUAL_INT64(1, ask(h, "SELECT count(*) FROM pgwork.lock_list('slow')"));
    PQclear(res);
    PQfinish(sql);
    pgw_close(h);
}

/* SQL callers may have a lock already, which a handle refuses. */
void test_an_acquisition_that_fails_undoes_itself_alone(void)
{
    static const char held[] =
        "SELECT coalesce(sum(CASE mode WHEN 'ShareLock' THEN 1 ELSE 10 END), 0) FROM pg_locks "
        "WHERE pid = pg_backend_pid() AND locktype = 'advisory'";
    pgw *h = it_open_bare(), *other = it_open_bare();
    struct pg_conn *writer = pgtemp_connect();
    pgw_lock *l;
    PGresult *res;

    TEST_ASSERT_GREATER_THAN_INT64(0, ask(h, "SELECT pgwork.lock_acquire('both', true)"));
    l = acquired(other, "both", PGW_LOCK_SHARED, 0);
    TEST_ASSERT_EQUAL_INT64(0, ask(h, "SELECT pgwork.lock_acquire('both', false, 50)"));
    TEST_ASSERT_EQUAL_INT64(1, ask(h, held));
    expect(other, PGW_OK, pgw_lock_release(l));
    TEST_ASSERT_GREATER_THAN_INT64(0, ask(h, "SELECT pgwork.lock_acquire('both', false)"));
    TEST_ASSERT_EQUAL_INT64(11, ask(h, held));

    /* granted, but for the row that a writer has under its fence */
    PQclear(PQexec(writer, "BEGIN"));
    res = PQexec(writer, "SELECT pgwork.fence_ok('both', fence) FROM pgwork.named_lock WHERE name "
                         "= 'both'");
    TEST_ASSERT_EQUAL_STRING("t", PQgetvalue(res, 0, 0));
    PQclear(res);
    TEST_ASSERT_EQUAL_INT64(0, ask(h, "SELECT pgwork.lock_acquire('both', false, 50)"));
    TEST_ASSERT_EQUAL_INT64(11, ask(h, held));
    PQclear(PQexec(writer, "ROLLBACK"));
    TEST_ASSERT_EQUAL_INT64(-1, ask(h, "SELECT pgwork.lock_acquire('both', NULL)"));
    TEST_ASSERT_EQUAL_INT64(11, ask(h, held));
    TEST_ASSERT_EQUAL_INT64(1, ask(h, "SELECT pgwork.lock_release('both')"));
    TEST_ASSERT_EQUAL_INT64(1, ask(h, held));
    TEST_ASSERT_EQUAL_INT64(1, ask(h, "SELECT pgwork.lock_release('both', true)"));
    TEST_ASSERT_EQUAL_INT64(0, ask(h, held));
    PQfinish(writer);
    pgw_close(h);
    pgw_close(other);
}

/* The server has given it, and then does not commit: a session would keep it. */
void test_a_commit_that_fails_leaves_no_lock(void)
{
    static const char *const codes[] = {"lock_not_available", "insufficient_privilege", "PW009"};
    pgw *h = it_open_bare(), *other = it_open_bare();

    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        char sql[500];

        snprintf(sql, sizeof(sql),
                 "CREATE FUNCTION public.no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE "
                 "EXCEPTION 'no' USING ERRCODE = '%s'; END $$;"
                 "CREATE CONSTRAINT TRIGGER no AFTER INSERT OR UPDATE ON pgwork.named_lock "
                 "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.no()",
                 codes[i]);
        pgtemp_exec(sql);
        {
            pgw_lock *l = (pgw_lock *)1;

            TEST_ASSERT_LESS_THAN_INT(0, pgw_lock_acquire(h, "late", NULL, &l));
            TEST_ASSERT_NULL(l);
        }
        pgtemp_exec("DROP FUNCTION public.no() CASCADE");
        expect(other, PGW_OK, pgw_lock_release(acquired(other, "late", PGW_LOCK_EXCLUSIVE, 0)));
    }
    pgw_close(h);
    pgw_close(other);
}

/* Its row is another's, and not there before that one's end. */
void test_a_try_of_a_new_name_does_not_wait_for_another_transaction(void)
{
    pgw *h = it_open_bare(), *first = it_open_bare();
    int64_t fence;

    expect(first, PGW_OK, pgw_txn_begin(first));
    expect(first, PGW_OK,
           pgw_lock_acquire_xact(first, "new name", LOCK_AS(PGW_LOCK_SHARED, 0), &fence));
    pgw_set_timeout(h, 10000);
    refused(h, PGW_ELOCKED, "new name", PGW_LOCK_SHARED, 0);
    TEST_ASSERT_EQUAL_INT64(0, ask(h, session_locks));
    expect(first, PGW_OK, pgw_txn_commit(first));
    {
        pgw_lock *l = acquired(h, "new name", PGW_LOCK_SHARED, 0);

        TEST_ASSERT_EQUAL_INT64(fence, pgw_lock_fence(l));
        expect(h, PGW_OK, pgw_lock_release(l));
    }
    pgw_close(h);
    pgw_close(first);
}

/* ---- memory ---- */

void test_without_memory_nothing_is_held(void)
{
    pgw *h = it_open_bare();
    pgw_lock *l = NULL;
    pgw_status st = PGW_ENOMEM;

    pgw_close(h);
    oom_begin();
    h = it_open_bare();
    for (int n = 1; st == PGW_ENOMEM; n++) {
        oom_fail(n);
        st = pgw_lock_acquire(h, "oom", NULL, &l);
        oom_fail(0);
        if (st != PGW_OK) TEST_ASSERT_NULL(l);
        TEST_ASSERT_EQUAL_INT64(st == PGW_OK, ask(h, session_locks));
    }
    expect(h, PGW_OK, st);
    st = PGW_ENOMEM;
    oom_fail(1);
    st = pgw_lock_release(l);
    oom_fail(0);
    TEST_ASSERT_TRUE(st == PGW_OK || st == PGW_ELEASE);
    TEST_ASSERT_EQUAL_INT64(0, ask(h, session_locks));
    pgw_close(h);
    oom_end();
}
