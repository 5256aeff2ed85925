/* sema: waiting for permits: the queue, its head, and how a wait ends. */
#include "unity.h"
#include "token.h"
#include "ask.h"
#include "backoff.h"
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
TEST_SOURCE_FILE("src/coord/sema.c")

#define TOKEN "00000000-0000-4001-89ab-cdef01234567"
static const fake_cell granted[] = {F_UUID(TOKEN), F_NULL}, our_turn[] = {F_NULL, F_INT(40)},
                       not_yet[] = {F_NULL, F_NULL}, yes[] = {F_INT(1)}, no[] = {F_NULL};

static struct session {
    uint64_t epoch;
    pgw_status look, wait, listen;
    bool in_txn;
    const char *sqlstate;
    int64_t now_us; /* a refusal takes two seconds */
    int drops, waits, unlistened;
    int64_t waited;
    char channel[80];
} session;

static int64_t the_clock(void)
{
    return session.now_us;
}

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
}

static bool the_in_txn(const pgw *h, int n)
{
    return session.in_txn;
}

static const char *the_empty(const pgw *h, int n)
{
    return "";
}

static const char *the_sqlstate(const pgw *h, int n)
{
    return session.sqlstate;
}

static const char *the_message(const pgw *h, int n)
{
    return fake.message;
}

static const char *the_schema(const pgw *h, int n)
{
    return "q";
}

static pgw_status the_wait(pgw *h, int64_t timeout_ms, int fd, int n)
{
    session.waits++;
    session.waited = timeout_ms;
    return session.wait;
}

static pgw_status the_listen(pgw *h, const char *channel, int n)
{
    snprintf(session.channel, sizeof(session.channel), "%s", channel);
    return session.listen;
}

static void the_unlisten(pgw *h, const char *channel, int n)
{
    TEST_ASSERT_EQUAL_STRING(session.channel, channel);
    session.unlistened++;
}

void setUp(void)
{
    fake_begin();
    memset(&session, 0, sizeof(session));
    session.now_us = 1000000;
    pgw__clock_source_us = the_clock;
    session.epoch = 1;
    session.sqlstate = "";
    pgw__pq_epoch_Stub(the_epoch);
    pgw__pq_check_session_Stub(stub_check_session);
    pgw__pq_drop_Stub(the_drop);
    pgw__pq_in_txn_Stub(the_in_txn);
    pgw__pq_sqlstate_Stub(the_sqlstate);
    pgw__pq_error_message_Stub(the_message);
    pgw__pq_error_hint_Stub(the_empty);
    pgw__pq_schema_Stub(the_schema);
    pgw__pq_wait_Stub(the_wait);
    pgw__pq_listen_Stub(the_listen);
    pgw__pq_unlisten_Stub(the_unlisten);
}

void tearDown(void) {}

static pgw_status take(pgw_token *token, int64_t timeout_ms)
{
    pgw_sema_opts o = PGW_SEMA_OPTS_INIT;

    o.timeout_ms = timeout_ms, o.holder = "me";
    return pgw_sema_acquire(FAKE_H, "s", &o, token);
}

void test_a_token_comes_as_it_goes(void)
{
    pgw_token token;

    FAKE_ROWS(granted, 2);
    TEST_ASSERT_EQUAL(PGW_OK, take(&token, 0));
    TEST_ASSERT_TRUE(token.number == 0x4001);
    TEST_ASSERT_TRUE(token.nonce == UINT64_C(0x89abcdef01234567));
    TEST_ASSERT_EQUAL(PGW__SQL_SEMA_ACQUIRE, fake.sql);
    TEST_ASSERT_EQUAL(PGW__WRITES | PGW__OWNED, fake.flags);
}

/* As where a cancel came late, and may hit what comes next: then the session is given up. */
void test_permits_that_went_with_their_session_are_not_held(void)
{
    pgw_sema_opts o = PGW_SEMA_OPTS_INIT;
    pgw_token token;

    session.look = PGW_ECONN;
    FAKE_ROWS(granted, 2);
    TEST_ASSERT_EQUAL(PGW_OK, take(&token, 0)); /* they last until their time is over */
    o.session = true, o.holder = "me", o.timeout_ms = 0;
    TEST_ASSERT_EQUAL(PGW_ECONN, pgw_sema_acquire(FAKE_H, "s", &o, &token));
    ASSERT_SAYS("the connection was lost");
}

static void see_token(const pgw__call *call)
{
    static const unsigned char packed[16] = {0,    0,    0,    0,    0, 0,    0x40, 1,
                                             0x89, 0xab, 0xcd, 0xef, 1, 0x23, 0x45, 0x67};

    TEST_ASSERT_EQUAL(PGW__UUID, call->params[1].type);
    TEST_ASSERT_EQUAL_MEMORY(packed, call->params[1].v.p, 16);
}

void test_extend_and_release_send_the_token(void)
{
    const pgw_token token = {0x4001, UINT64_C(0x89abcdef01234567)};

    fake.on_call = see_token;
    FAKE_ROWS(yes, 1);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_sema_extend(FAKE_H, "s", token, 1000));
    TEST_ASSERT_EQUAL(PGW__SQL_SEMA_EXTEND, fake.sql);
    {
        static const fake_cell released[] = {F_INT(1), F_TEXT("off")};

        FAKE_ROWS(released, 2);
        TEST_ASSERT_EQUAL(PGW_OK, pgw_sema_release(FAKE_H, "s", token));
        TEST_ASSERT_EQUAL(PGW__SQL_SEMA_RELEASE, fake.sql);
    }
    FAKE_ROWS(no, 1);
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_sema_extend(FAKE_H, "s", token, 1000));
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_sema_release(FAKE_H, "s", token));
    ASSERT_SAYS("lost");
}

/* ---- waiting: a script of answers ---- */

typedef struct step {
    pgw__sql sql;
    const fake_cell *answer;
    pgw_status status;
    int turn; /* sema_wait: 0 or 1 */
} step;

static const step *script;
static int at;

static void play(const pgw__call *call)
{
    const step *s = &script[at++];

    TEST_ASSERT_EQUAL_INT_MESSAGE(s->sql, call->sql, pgw__sql_name(call->sql));
    if (s->sql == PGW__SQL_SEMA_WAIT) TEST_ASSERT_EQUAL_INT(s->turn, call->params[6].v.b);
    fake.status = s->status;
    fake.cells = s->answer;
    fake.rows = 1;
    fake.columns = s->sql == PGW__SQL_SEMA_LEAVE ? 1 : 2;
    if (s->sql == PGW__SQL_SEMA_LEAVE) return; /* after which the diagnostics is that of before */
    session.sqlstate = s->status == PGW_ELOCKED ? "PW006" : "";
    if (s->status == PGW_ELOCKED) session.now_us += 2000000;
}

static pgw_status run(const step *steps, int64_t timeout_ms)
{
    pgw_token token = {1, 1};
    pgw_status st;

    script = steps, at = 0;
    fake.on_call = play;
    st = take(&token, timeout_ms);
    TEST_ASSERT_TRUE(st == PGW_OK || (token.number == 0 && token.nonce == 0));
    return st;
}

void test_through_the_queue_to_its_head_and_out(void)
{
    static const step steps[] = {{PGW__SQL_SEMA_ACQUIRE, our_turn, PGW_OK, 0},
                                 {PGW__SQL_SEMA_WAIT, not_yet, PGW_OK, 0},
                                 {PGW__SQL_SEMA_WAIT, our_turn, PGW_OK, 0},
                                 {PGW__SQL_SEMA_WAIT, our_turn, PGW_OK, 1},
                                 {PGW__SQL_SEMA_WAIT, granted, PGW_OK, 1}};

    session.wait = PGW_OUTCOME_EMPTY;
    TEST_ASSERT_EQUAL(PGW_OK, run(steps, -1));
    TEST_ASSERT_EQUAL_INT(5, at);
    TEST_ASSERT_EQUAL_INT(2, session.waits);
    TEST_ASSERT_EQUAL_INT64(40, session.waited); /* when the first that is out will be over */
    TEST_ASSERT_EQUAL_STRING("pgwork_sema_q", session.channel);
    TEST_ASSERT_EQUAL_INT(1, session.unlistened);
}

void test_a_stop_at_the_head_gives_the_turn_away(void)
{
    static const step steps[] = {{PGW__SQL_SEMA_ACQUIRE, not_yet, PGW_OK, 0},
                                 {PGW__SQL_SEMA_WAIT, our_turn, PGW_OK, 0},
                                 {PGW__SQL_SEMA_LEAVE, yes, PGW_OK, 0}};

    session.wait = PGW_ECANCELED;
    TEST_ASSERT_EQUAL(PGW_ECANCELED, run(steps, -1));
    TEST_ASSERT_EQUAL_INT(3, at);
    TEST_ASSERT_EQUAL_INT(0, session.drops);
    TEST_ASSERT_EQUAL_INT(1, session.unlistened);
}

void test_a_turn_that_cannot_be_given_away_ends_with_the_session(void)
{
    static const step steps[] = {{PGW__SQL_SEMA_ACQUIRE, not_yet, PGW_OK, 0},
                                 {PGW__SQL_SEMA_WAIT, our_turn, PGW_EDB, 0},
                                 {PGW__SQL_SEMA_LEAVE, yes, PGW_EDB, 0}};

    TEST_ASSERT_EQUAL(PGW_EDB, run(steps, -1));
    TEST_ASSERT_EQUAL_INT(1, session.drops);
}

/* Somebody resizes and stays in his transaction. */
void test_a_refused_head_of_the_queue_asks_again(void)
{
    static const step steps[] = {{PGW__SQL_SEMA_ACQUIRE, NULL, PGW_ELOCKED, 0},
                                 {PGW__SQL_SEMA_WAIT, our_turn, PGW_OK, 0},
                                 {PGW__SQL_SEMA_WAIT, NULL, PGW_ELOCKED, 1},
                                 {PGW__SQL_SEMA_WAIT, granted, PGW_OK, 0}};

    session.wait = PGW_OUTCOME_EMPTY;
    TEST_ASSERT_EQUAL(PGW_OK, run(steps, -1));
    TEST_ASSERT_EQUAL_INT(4, at);
    TEST_ASSERT_EQUAL(PGW_ELOCKED, run(steps, 0));
    TEST_ASSERT_EQUAL_INT(1, at);
}

/* What was set for the head of the queue is still set after a statement that failed. */
void test_a_waiter_that_was_refused_leaves_the_queue(void)
{
    static const step steps[] = {{PGW__SQL_SEMA_ACQUIRE, not_yet, PGW_OK, 0},
                                 {PGW__SQL_SEMA_WAIT, NULL, PGW_ELOCKED, 0},
                                 {PGW__SQL_SEMA_LEAVE, yes, PGW_OK, 0}};

    TEST_ASSERT_EQUAL(PGW_ELOCKED, run(steps, 1000));
    TEST_ASSERT_EQUAL_INT(3, at);
    ASSERT_SAYS("the fake failed"); /* the server's words */
}

void test_behind_a_pooler_it_polls(void)
{
    static const step steps[] = {{PGW__SQL_SEMA_ACQUIRE, our_turn, PGW_OK, 0},
                                 {PGW__SQL_SEMA_ACQUIRE, not_yet, PGW_OK, 0},
                                 {PGW__SQL_SEMA_ACQUIRE, granted, PGW_OK, 0}};

    session.listen = PGW_EPOOLED;
    session.wait = PGW_OUTCOME_EMPTY;
    TEST_ASSERT_EQUAL(PGW_OK, run(steps, -1));
    TEST_ASSERT_EQUAL_INT(2, session.waits);
}

void test_a_refused_try_is_one_statement(void)
{
    static const step steps[] = {{PGW__SQL_SEMA_ACQUIRE, our_turn, PGW_OK, 0}};

    TEST_ASSERT_EQUAL(PGW_ELOCKED, run(steps, 0));
    TEST_ASSERT_EQUAL_INT(1, at);
    ASSERT_SAYS("not enough permits");
}

void test_wrong_arguments_are_refused_with_a_message(void)
{
    const pgw_token token = {1, 1};
    pgw_sema_opts o;
    pgw_token got;

#define BAD(words, change)                                                                 \
    o = (pgw_sema_opts)PGW_SEMA_OPTS_INIT, change;                                         \
    TEST_ASSERT_EQUAL_MESSAGE(PGW_EINVAL, pgw_sema_acquire(FAKE_H, "s", &o, &got), words); \
    ASSERT_SAYS(words)
    BAD("`opts->struct_size` is 0", o.struct_size = 0);
    BAD("`opts->permits` is 0", o.permits = 0);
    BAD("`opts->permits` is 10001", o.permits = 10001);
    BAD("`opts->timeout_ms` is -2", o.timeout_ms = -2);
    BAD("`opts->ttl_ms` is 99: expected 100..86400000", o.ttl_ms = 99);
#undef BAD
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_sema_acquire(FAKE_H, "", NULL, &got));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_sema_acquire(NULL, "s", NULL, &got));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_sema_extend(FAKE_H, "s", token, 86400001));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_sema_release(FAKE_H, NULL, token));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_sema_create(FAKE_H, "s", 0));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_sema_resize(FAKE_H, "s", 10001));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_sema_drop(FAKE_H, "", true));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_semas_each(NULL, NULL, NULL));
    session.in_txn = true;
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw_sema_acquire(FAKE_H, "s", NULL, &got));
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw_sema_release(FAKE_H, "s", token));
    TEST_ASSERT_EQUAL_INT(0, fake.calls);
}
