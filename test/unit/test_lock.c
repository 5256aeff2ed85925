/* lock: what a handle knows of its locks, and locks whose release or acquisition failed. */
#include "unity.h"
#include "callkit.h"
#include "ask.h"
#include "buf.h"
#include "check.h"
#include "clock.h"
#include "conf.h"
#include "json.h"
#include "log.h"
#include "mem.h"
#include "mock_pq.h"
#include "name.h"
#include "sql.h"
#include "fakepq.h"

TEST_SOURCE_FILE("src/base/status.c")
TEST_SOURCE_FILE("src/coord/lock.c")

static const fake_cell granted[] = {F_INT(17)}, not_granted[] = {F_NULL}, yes[] = {F_INT(1)},
                       no[] = {F_INT(0)};

/* the session, as the module pq would tell of it */
static struct session {
    uint64_t epoch;
    pgw_status look;
    bool in_txn;
    int drops;
    bool reconnects;
    void *kept;
    void (*bye)(void *kept);
    char sqlstate[6];
} session;

static uint64_t the_epoch(const pgw *h, int n)
{
    return session.epoch;
}

static pgw_status stub_check_session(pgw *h, int n)
{
    return session.look;
}

static void the_drop(pgw *h, int n)
{
    session.drops++;
    session.look = PGW_ECONN;
}

static bool the_in_txn(const pgw *h, int n)
{
    return session.in_txn;
}

static void the_keep(pgw *h, void *kept, void (*bye)(void *kept_), int n)
{
    session.kept = kept;
    session.bye = bye;
}

static void *the_kept(const pgw *h, int n)
{
    return session.kept;
}

static const char *the_sqlstate(const pgw *h, int n)
{
    return session.sqlstate;
}

static const char *the_message(const pgw *h, int n)
{
    return fake.message;
}

static const char *the_hint(const pgw *h, int n)
{
    return "";
}

static pgw_status the_connect(pgw *h, int64_t timeout_ms, int n)
{
    if (session.reconnects) session.epoch++, session.look = PGW_OK;
    return session.look;
}

static int the_fd(const pgw *h, int n)
{
    return 33;
}

void setUp(void)
{
    fake_begin();
    memset(&session, 0, sizeof(session));
    session.epoch = 1;
    pgw__pq_epoch_Stub(the_epoch);
    pgw__pq_check_session_Stub(stub_check_session);
    pgw__pq_drop_Stub(the_drop);
    pgw__pq_in_txn_Stub(the_in_txn);
    pgw__pq_keep_Stub(the_keep);
    pgw__pq_kept_Stub(the_kept);
    pgw__pq_sqlstate_Stub(the_sqlstate);
    pgw__pq_error_message_Stub(the_message);
    pgw__pq_error_hint_Stub(the_hint);
    pgw__pq_fd_Stub(the_fd);
    pgw__pq_connect_Stub(the_connect);
    pgw__pq_unlisten_slot_Ignore();
}

void tearDown(void) {}

static pgw_lock *taken(const char *name)
{
    pgw_lock *l;

    FAKE_ROWS(granted, 1);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_lock_acquire(FAKE_H, name, NULL, &l));
    return l;
}

static void given_back(pgw_lock *l)
{
    FAKE_ROWS(yes, 1);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_lock_release(l));
}

/* ---- what a handle knows ---- */

void test_a_lock_is_known_until_it_is_released(void)
{
    pgw_lock *a = taken("a"), *b = taken("b"), *c = taken("c"), *again;

    TEST_ASSERT_EQUAL(PGW__WRITES | PGW__OWNED | PGW__DIRECT, fake.flags);
    TEST_ASSERT_EQUAL_INT64(17, pgw_lock_fence(a));
    TEST_ASSERT_EQUAL_STRING("a", pgw_lock_name(a));
    TEST_ASSERT_EQUAL_INT(33, pgw_lock_watch(a));
    fake.calls = 0;
    TEST_ASSERT_EQUAL(PGW_EHELD,
                      pgw_lock_acquire(FAKE_H, "b", LOCK_AS(PGW_LOCK_SHARED, 0), &again));
    TEST_ASSERT_NULL(again);
    TEST_ASSERT_EQUAL_INT(0, fake.calls);
    given_back(b);
    TEST_ASSERT_EQUAL(PGW__SQL_LOCK_RELEASE, fake.sql);
    b = taken("b");
    given_back(c);
    given_back(a);
    given_back(b);
    TEST_ASSERT_NULL(session.kept);
}

void test_a_new_session_holds_nothing(void)
{
    pgw_lock *old = taken("a"), *l;

    session.epoch++;
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_lock_check(old));
    TEST_ASSERT_FALSE(pgw_lock_is_held(old));
    TEST_ASSERT_EQUAL_INT(-1, pgw_lock_watch(old));
    l = taken("a"); /* not PGW_EHELD */
    fake.calls = 0;
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_lock_release(old)); /* without a word to the server */
    TEST_ASSERT_EQUAL_INT(0, fake.calls);
    TEST_ASSERT_TRUE(pgw_lock_is_held(l));
    given_back(l);
}

void test_the_end_of_the_handle_orphans_its_locks(void)
{
    pgw_lock *a = taken("a"), *b = taken("b");

    session.bye(session.kept);
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_lock_check(a));
    TEST_ASSERT_EQUAL_INT(-1, pgw_lock_watch(b));
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_lock_release(a));
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_lock_release(b));
}

void test_functions_accept_a_missing_lock(void)
{
    TEST_ASSERT_EQUAL(PGW_OK, pgw_lock_release(NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_lock_check(NULL));
    TEST_ASSERT_FALSE(pgw_lock_is_held(NULL));
    TEST_ASSERT_EQUAL_INT(-1, pgw_lock_watch(NULL));
    TEST_ASSERT_NULL(pgw_lock_name(NULL));
    TEST_ASSERT_EQUAL_INT64(0, pgw_lock_fence(NULL));
}

/* ---- releases that go wrong ---- */

void test_a_denied_release_ends_the_session(void)
{
    pgw_lock *l = taken("a");

    FAKE_ROWS(no, 1);
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_lock_release(l));
    TEST_ASSERT_EQUAL_INT(1, session.drops);
    TEST_ASSERT_NULL(session.kept);
}

void test_a_release_without_an_answer_ends_the_session(void)
{
    pgw_lock *l = taken("a");

    fake.status = PGW_ETIMEDOUT;
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_lock_release(l));
    TEST_ASSERT_EQUAL_INT(1, session.drops);
}

void test_checking_a_lock_keeps_an_armed_verb_and_releasing_disarms_it(void)
{
    pgw_lock *l = taken("a");

    session.epoch++; /* lost */
    fake.armed = true;
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_lock_check(l));
    TEST_ASSERT_FALSE(pgw_lock_is_held(l));
    ASSERT_SAYS("the lock was lost");
    TEST_ASSERT_TRUE(fake.armed);
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_lock_guard(l, PGW_NO_FD, 0));
    TEST_ASSERT_FALSE(fake.armed);
    fake.armed = true;
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_lock_release(l));
    TEST_ASSERT_FALSE(fake.armed);
}

void test_a_release_out_of_place_changes_nothing(void)
{
    pgw_lock *l = taken("a");

    session.look = PGW_EMISUSE; /* another process */
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw_lock_check(l));
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw_lock_release(l));
    session.look = PGW_OK;
    fake.armed = true;
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw_lock_release(l));
    session.in_txn = true;
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw_lock_release(l));
    session.in_txn = false;
    TEST_ASSERT_EQUAL_INT(0, session.drops);
    given_back(l);
}

/* ---- acquisitions that go wrong ---- */

static pgw_status failure, forgetting;

static void fail_acquire(const pgw__call *call)
{
    FAKE_ROWS(yes, 1);
    fake.status = call->sql == PGW__SQL_LOCK_QUEUE ? failure : forgetting;
}

void test_a_failure_with_the_session_alive_is_settled(void)
{
    static const pgw_status failures[] = {PGW_ECANCELED, PGW_ETIMEDOUT, PGW_ERETRY,
                                          PGW_EDB,       PGW_EPROTO,    PGW_ENOMEM};
    pgw_lock *l;

    fake.on_call = fail_acquire;
    for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
        failure = failures[i];
        forgetting = PGW_OK;
        fake.calls = 0;
        TEST_ASSERT_EQUAL(failure,
                          pgw_lock_acquire(FAKE_H, "a", LOCK_AS(PGW_LOCK_EXCLUSIVE, 5), &l));
        TEST_ASSERT_NULL(l);
        TEST_ASSERT_EQUAL_INT(2, fake.calls);
        TEST_ASSERT_EQUAL(PGW__SQL_LOCK_FORGET, fake.sql);
        TEST_ASSERT_EQUAL_STRING("the fake failed", fake.message);
        TEST_ASSERT_EQUAL_INT(0, session.drops);
    }
    forgetting = PGW_EDB;
    TEST_ASSERT_EQUAL(failure, pgw_lock_acquire(FAKE_H, "a", LOCK_AS(PGW_LOCK_EXCLUSIVE, 5), &l));
    TEST_ASSERT_EQUAL_INT(1, session.drops);
    TEST_ASSERT_NULL(session.kept);
}

void test_a_failure_with_the_session_gone_needs_no_settling(void)
{
    pgw_lock *l;

    session.look = PGW_ECONN;
    fake.on_call = fail_acquire;
    failure = PGW_EUNKNOWN;
    TEST_ASSERT_EQUAL(PGW_ECONN, pgw_lock_acquire(FAKE_H, "a", LOCK_AS(PGW_LOCK_EXCLUSIVE, 5), &l));
    TEST_ASSERT_EQUAL_INT(1, fake.calls);
    TEST_ASSERT_EQUAL_STRING("the connection was lost while waiting for the lock", fake.message);
}

/* As where a cancel came late, and may hit what comes next: then the session is given up. */
void test_a_lock_that_went_with_its_session_is_not_held(void)
{
    pgw_lock *l;

    session.look = PGW_ECONN;
    FAKE_ROWS(granted, 1);
    TEST_ASSERT_EQUAL(PGW_ECONN, pgw_lock_acquire(FAKE_H, "a", LOCK_AS(PGW_LOCK_EXCLUSIVE, 5), &l));
    TEST_ASSERT_NULL(l);
    TEST_ASSERT_NULL(session.kept);
    TEST_ASSERT_EQUAL_INT(1, fake.calls);
    TEST_ASSERT_EQUAL_STRING("the connection was lost while waiting for the lock", fake.message);
}

void test_a_pooler_gets_advice(void)
{
    pgw_lock *l;

    fake.status = PGW_EPOOLED;
    TEST_ASSERT_EQUAL(PGW_EPOOLED,
                      pgw_lock_acquire(FAKE_H, "a", LOCK_AS(PGW_LOCK_EXCLUSIVE, 5), &l));
    TEST_ASSERT_EQUAL_INT(1, fake.calls);
}

/* ---- waiting ---- */

static int turns;
static int64_t longest;
static const fake_cell at_place_4[] = {F_NULL, F_INT(4)};

static void grant_the_third(const pgw__call *call)
{
    if (call->wait_ms > longest) longest = call->wait_ms;
    TEST_ASSERT_EQUAL_INT64(call->wait_ms, call->params[3].v.i);
    TEST_ASSERT_EQUAL_INT64(turns > 0 ? 4 : 0, call->params[4].v.i);
    if (++turns < 3) {
        FAKE_ROWS(at_place_4, 2);
    } else {
        FAKE_ROWS(granted, 1);
    }
}

void test_no_turn_of_a_wait_is_longer_than_half_a_second_and_each_goes_on_from_its_place(void)
{
    pgw_lock *l;

    turns = 0, longest = 0;
    fake.on_call = grant_the_third;
    TEST_ASSERT_EQUAL(
        PGW_OK, pgw_lock_acquire(FAKE_H, "a", LOCK_AS(PGW_LOCK_EXCLUSIVE, PGW_UNLIMITED), &l));
    TEST_ASSERT_EQUAL_INT(3, turns);
    TEST_ASSERT_EQUAL_INT64(500, longest);
    fake.on_call = NULL;
    given_back(l);
}

static void restart_the_server(const pgw__call *call)
{
    if (++turns == 2) {
        session.look = PGW_ECONN;
        fake.status = PGW_EUNKNOWN;
        return;
    }
    fake.status = PGW_OK;
    if (turns == 1) {
        FAKE_ROWS(at_place_4, 2);
    } else {
        TEST_ASSERT_EQUAL_INT64(0, call->params[4].v.i);
        FAKE_ROWS(granted, 1);
    }
}

void test_a_wait_goes_on_in_a_new_session_at_the_end_of_the_line(void)
{
    pgw_lock *l;

    turns = 0;
    session.reconnects = true;
    fake.on_call = restart_the_server;
    TEST_ASSERT_EQUAL(
        PGW_OK, pgw_lock_acquire(FAKE_H, "a", LOCK_AS(PGW_LOCK_EXCLUSIVE, PGW_UNLIMITED), &l));
    TEST_ASSERT_EQUAL_INT(3, turns);
    fake.on_call = NULL;
    given_back(l);
}

void test_a_wait_ends_with_the_session_that_holds_another_lock(void)
{
    pgw_lock *other = taken("other"), *l;

    turns = 0;
    session.reconnects = true;
    fake.on_call = restart_the_server;
    TEST_ASSERT_EQUAL(
        PGW_ECONN, pgw_lock_acquire(FAKE_H, "a", LOCK_AS(PGW_LOCK_EXCLUSIVE, PGW_UNLIMITED), &l));
    fake.on_call = NULL;
    fake.status = PGW_OK;
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_lock_release(other));
}

void test_a_try_is_one_statement(void)
{
    pgw_lock *l;

    FAKE_ROWS(not_granted, 1);
    TEST_ASSERT_EQUAL(PGW_ELOCKED, pgw_lock_acquire(FAKE_H, "a", LOCK_AS(PGW_LOCK_SHARED, 0), &l));
    TEST_ASSERT_EQUAL_INT(1, fake.calls);
    ASSERT_SAYS("another session holds the lock");
}

void test_a_stop_between_two_stands(void)
{
    pgw_lock *l;

    fake.stopped = true;
    FAKE_ROWS(not_granted, 1);
    TEST_ASSERT_EQUAL(
        PGW_ECANCELED,
        pgw_lock_acquire(FAKE_H, "a", LOCK_AS(PGW_LOCK_EXCLUSIVE, PGW_UNLIMITED), &l));
}

/* ---- transactions ---- */

void test_transactions_and_sessions_are_not_mixed(void)
{
    pgw_lock *l;
    int64_t fence = 5;

    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw_lock_acquire_xact(FAKE_H, "a", NULL, &fence));
    TEST_ASSERT_EQUAL_INT64(0, fence);
    session.in_txn = true;
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw_lock_acquire(FAKE_H, "a", NULL, &l));
    TEST_ASSERT_EQUAL_INT(0, fake.calls);
    FAKE_ROWS(granted, 1);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_lock_acquire_xact(FAKE_H, "a", NULL, &fence));
    TEST_ASSERT_EQUAL_INT64(17, fence);
    TEST_ASSERT_EQUAL(PGW__WRITES, fake.flags);
    TEST_ASSERT_EQUAL(
        PGW_OK, pgw_lock_acquire_xact(FAKE_H, "a", LOCK_AS(PGW_LOCK_SHARED, PGW_UNLIMITED), NULL));
}

void test_a_transaction_does_not_take_what_the_session_holds(void)
{
    pgw_lock *a = taken("a");
    int64_t fence = 5;

    session.in_txn = true;
    fake.calls = 0;
    TEST_ASSERT_EQUAL(PGW_EHELD,
                      pgw_lock_acquire_xact(FAKE_H, "a", LOCK_AS(PGW_LOCK_SHARED, 0), &fence));
    TEST_ASSERT_EQUAL_INT(0, fake.calls);
    TEST_ASSERT_EQUAL_INT64(0, fence);
    FAKE_ROWS(granted, 1);
    TEST_ASSERT_EQUAL(PGW_OK,
                      pgw_lock_acquire_xact(FAKE_H, "b", LOCK_AS(PGW_LOCK_SHARED, 0), &fence));
    session.epoch++; /* lost */
    TEST_ASSERT_EQUAL(PGW_OK,
                      pgw_lock_acquire_xact(FAKE_H, "a", LOCK_AS(PGW_LOCK_SHARED, 0), &fence));
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_lock_release(a));
}

/* ---- what callers may pass ---- */

void test_wrong_arguments_are_refused_with_a_message(void)
{
    pgw_lock *l;
    bool is_free = true;
    pgw_lock_who who = PGW_LOCK_WHO_INIT;
    int64_t n = 3;

    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_lock_acquire(NULL, "a", NULL, &l));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_lock_acquire(FAKE_H, "a", NULL, NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_lock_acquire(FAKE_H, "", NULL, &l));
    ASSERT_SAYS("`name` is empty");
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_lock_acquire(FAKE_H, "a", LOCK_AS((pgw_lock_mode)7, 0), &l));
    ASSERT_SAYS("`opts->mode` is 7");
    TEST_ASSERT_EQUAL(PGW_EINVAL,
                      pgw_lock_acquire(FAKE_H, "a", LOCK_AS(PGW_LOCK_EXCLUSIVE, -2), &l));
    ASSERT_SAYS("`opts->timeout_ms` is -2: expected 0..31536000000, or PGW_UNLIMITED");
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_lock_is_free(FAKE_H, "a", NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_lock_is_free(FAKE_H, NULL, &is_free));
    TEST_ASSERT_FALSE(is_free);
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_lock_holder(FAKE_H, NULL, &who));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_lock_holder(FAKE_H, "a", NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_locks_each(NULL, NULL, NULL, NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_locks_prune(FAKE_H, 0, 1001, &n));
    TEST_ASSERT_EQUAL_INT64(0, n);
    fake.armed = true;
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw_lock_acquire(FAKE_H, "a", NULL, &l));
    fake.armed = true;
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw_lock_is_free(FAKE_H, "a", &is_free));
    TEST_ASSERT_EQUAL_INT(0, fake.calls);
}

/* ---- looking ---- */

void test_the_holder_of_shared_ones_is_the_first_that_is_known(void)
{
    static const fake_cell answer[] = {
        F_TEXT("a"), F_INT(1),    F_INT(1),    F_INT(41),          F_TEXT("x"), F_TEXT("u"),
        F_NULL,      F_NULL,      F_INT(9),    F_TEXT("a"),        F_INT(1),    F_INT(1),
        F_INT(42),   F_TEXT("y"), F_TEXT("u"), F_TEXT("10.0.0.1"), F_INT(5),    F_INT(9),
        F_TEXT("a"), F_INT(0),    F_INT(0),    F_INT(43),          F_TEXT("z"), F_TEXT("u"),
        F_NULL,      F_INT(6),    F_NULL};
    static const fake_cell waits[] = {F_TEXT("a"), F_INT(0), F_INT(0), F_INT(43), F_NULL,
                                      F_NULL,      F_NULL,   F_INT(6), F_NULL};
    pgw_lock_who who = PGW_LOCK_WHO_INIT;

    FAKE_ROWS(answer, 9);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_lock_holder(FAKE_H, "a", &who));
    TEST_ASSERT_EQUAL_INT(42, who.pid);
    TEST_ASSERT_EQUAL_STRING("10.0.0.1", who.client);
    TEST_ASSERT_TRUE(who.shared);
    FAKE_ROWS(waits, 9);
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY, pgw_lock_holder(FAKE_H, "a", &who));
    TEST_ASSERT_EQUAL_INT(0, who.pid);
}
