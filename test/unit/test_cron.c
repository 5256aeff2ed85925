/* cron, cron_hold: what is sent, what is refused before anything is sent, and how answers are read.
 */
#include "unity.h"
#include "callkit.h"
#include "token.h"
#include "ask.h"
#include "clock.h"
#include "check.h"
#include "cronexpr.h"
#include "mock_pq.h"
#include "name.h"
#include "sql.h"
#include "conf.h"
#include "mem.h"
#include "buf.h"
#include "json.h"
#include "log.h"
#include "fakepq.h"

TEST_SOURCE_FILE("src/base/status.c")
TEST_SOURCE_FILE("src/coord/cron.c")
TEST_SOURCE_FILE("src/coord/cron_hold.c")

void setUp(void)
{
    fake_begin();
}
void tearDown(void) {}

/* ---- definitions ---- */

static void see_defaults(const pgw__call *call)
{
    const pgw__param *p = call->params;

    TEST_ASSERT_EQUAL_STRING("s", p[0].v.p);
    TEST_ASSERT_EQUAL_STRING("@daily", p[1].v.p);
    TEST_ASSERT_EQUAL_STRING("UTC", p[2].v.p);
    for (int i = 3; i <= 6; i++) TEST_ASSERT_TRUE(p[i].null);
    TEST_ASSERT_EQUAL_INT64(0, p[7].v.i);
    for (int i = 8; i <= 11; i++) TEST_ASSERT_TRUE(p[i].null);
    TEST_ASSERT_EQUAL_STRING("once", p[12].v.p);
    TEST_ASSERT_EQUAL_INT64(100, p[13].v.i);
    TEST_ASSERT_EQUAL_INT64(60000, p[14].v.i);
    TEST_ASSERT_EQUAL_INT64(0, p[15].v.i);
    TEST_ASSERT_EQUAL_INT64(300000, p[16].v.i);
    for (int i = 17; i <= 18; i++) TEST_ASSERT_TRUE(p[i].null);
    TEST_ASSERT_EQUAL(PGW__END, p[19].type);
}

void test_a_schedule_is_created_with_the_defaults(void)
{
    static const fake_cell cells[] = {F_INT(77)};
    int64_t next = -1;

    fake.cells = cells, fake.rows = 1, fake.columns = 1;
    fake.on_call = see_defaults;
    TEST_ASSERT_EQUAL(PGW_OK, pgw_cron_create(FAKE_H, "s", "@daily", NULL, &next));
    TEST_ASSERT_EQUAL(PGW__SQL_CRON_CREATE, fake.sql);
    TEST_ASSERT_EQUAL(PGW__WRITES, fake.flags);
    TEST_ASSERT_EQUAL_INT64(77, next);
}

static int see_time(int64_t at_us, const char *local, void *arg)
{
    (void)at_us, (void)local, (void)arg;
    return 0;
}

void test_refused_arguments_are_not_sent(void)
{
    pgw_cron_opts o = PGW_CRON_OPTS_INIT;
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_tick *tick = (pgw_tick *)(void *)&job;
    int64_t next = 1;

#define REFUSED(call) TEST_ASSERT_EQUAL(PGW_EINVAL, (call))
    REFUSED(pgw_cron_create(NULL, "s", "@daily", NULL, NULL));
    REFUSED(pgw_cron_create(FAKE_H, "", "@daily", NULL, &next));
    TEST_ASSERT_EQUAL_INT64(0, next);
    REFUSED(pgw_cron_create(FAKE_H, NULL, "@daily", NULL, NULL));
    REFUSED(pgw_cron_create(FAKE_H, "s", NULL, NULL, NULL));
    REFUSED(pgw_cron_create(FAKE_H, "s", "0 0 30 2 *", NULL, NULL));
    TEST_ASSERT_EQUAL_STRING("argument expression is \"0 0 30 2 *\": day of month field, "
                             "column 5: expected a day that one of these months has, got \"30\"",
                             fake.message);
    REFUSED(pgw_cron_create(FAKE_H, "s", "* * * * \xff", NULL, NULL));
    TEST_ASSERT_EQUAL_STRING(
        "argument `expression` is not valid: weekday field, column 9: expected "
        "* or 0..7 or sun..sat, got a character beyond ASCII",
        fake.message);
    o.misfire = (pgw_misfire)3;
    REFUSED(pgw_cron_create(FAKE_H, "s", "@daily", &o, NULL));
    o.misfire = PGW_MISFIRE_ALL, o.misfire_max = 0;
    REFUSED(pgw_cron_create(FAKE_H, "s", "@daily", &o, NULL));
    o.misfire_max = 1, o.grace_ms = -1;
    REFUSED(pgw_cron_create(FAKE_H, "s", "@daily", &o, NULL));
    o.misfire = PGW_MISFIRE_SKIP, o.grace_ms = 999;
    REFUSED(pgw_cron_create(FAKE_H, "s", "@daily", &o, NULL));
    TEST_ASSERT_EQUAL_STRING("argument `opts->grace_ms` is 999: expected 1000..86400000 with "
                             "PGW_MISFIRE_SKIP: every tick is found a little late",
                             fake.message);
    o.misfire = PGW_MISFIRE_ALL, o.grace_ms = 0, o.timeout_ms = 99;
    REFUSED(pgw_cron_create(FAKE_H, "s", "@daily", &o, NULL));
    o.timeout_ms = 100, o.job = &job, job.delay_ms = 1;
    REFUSED(pgw_cron_create(FAKE_H, "s", "@daily", &o, NULL));
    job.delay_ms = 0, job.key = "k", job.key_policy = PGW_KEY_POLICY_ERROR;
    REFUSED(pgw_cron_create(FAKE_H, "s", "@daily", &o, NULL));
    job.key_policy = PGW_KEY_POLICY_SKIP, job.meta = "{}";
    REFUSED(pgw_cron_create(FAKE_H, "s", "@daily", &o, NULL));
    job.meta = NULL, job.expires_us = 1;
    REFUSED(pgw_cron_create(FAKE_H, "s", "@daily", &o, NULL));
    REFUSED(pgw_cron_rename(FAKE_H, "s", ""));
    REFUSED(pgw_cron_pause(FAKE_H, NULL));
    REFUSED(pgw_cron_next(FAKE_H, "@daily", TIMES(NULL, PGW_NONE, 1), NULL, NULL));
    REFUSED(pgw_cron_next(FAKE_H, "@daily", TIMES(NULL, PGW_NONE, 0), see_time, NULL));
    REFUSED(pgw_cron_next(FAKE_H, "@daily", TIMES(NULL, PGW_NONE, 10001), see_time, NULL));
    REFUSED(pgw_cron_next(FAKE_H, "@dail", TIMES(NULL, PGW_NONE, 10000), see_time, NULL));
    REFUSED(pgw_crons_each(FAKE_H, NULL, NULL, NULL));
    REFUSED(pgw_cron_claim_due(FAKE_H, DUE_FOR("n", NULL, 0), NULL, NULL));
    REFUSED(pgw_cron_claim_due(FAKE_H, DUE_FOR("n", NULL, 1), &tick, &next));
    TEST_ASSERT_NULL(tick);
    REFUSED(pgw_cron_extend(FAKE_H, (pgw_token){1, 2}, 99, NULL));
    REFUSED(pgw_cron_finish(NULL, (pgw_token){1, 2}, NULL));
    TEST_ASSERT_EQUAL_INT(0, fake.calls);
}

/* ---- ticks ---- */

void test_a_tick_is_read(void)
{
    static const fake_cell cells[] = {
        F_TEXT("s"),   F_INT(5000000), F_UUID("00000000-0000-0007-0000-0000000000ff"),
        F_INT(2),      F_INT(9000000), F_TEXT(""),
        F_TEXT("[1]"), F_NULL,         F_INT(100),
    };
    pgw_tick *tick;
    size_t size = 1;

    fake.cells = cells, fake.rows = 1, fake.columns = 9;
    TEST_ASSERT_EQUAL(PGW_OK, pgw_cron_claim_due(FAKE_H, DUE_FOR("n", NULL, 0), &tick, NULL));
    TEST_ASSERT_EQUAL_STRING("s", pgw_tick_schedule(tick));
    TEST_ASSERT_EQUAL_INT64(5000000, pgw_tick_slot_us(tick));
    TEST_ASSERT_EQUAL_UINT64(7, pgw_tick_token(tick).number);
    TEST_ASSERT_EQUAL_UINT64(255, pgw_tick_token(tick).nonce);
    TEST_ASSERT_EQUAL_INT(2, pgw_tick_attempt(tick));
    TEST_ASSERT_EQUAL_INT64(9000000, pgw_tick_until_us(tick));
    TEST_ASSERT_EQUAL_STRING("", pgw_tick_kind(tick));
    TEST_ASSERT_EQUAL_STRING("[1]", pgw_tick_payload(tick));
    TEST_ASSERT_NULL(pgw_tick_body(tick, &size));
    TEST_ASSERT_EQUAL_size_t(0, size);
    pgw_tick_free(tick);
}

void test_no_tick_is_due(void)
{
    static const fake_cell cells[] = {F_NULL, F_NULL, F_NULL, F_NULL,      F_NULL,
                                      F_NULL, F_NULL, F_NULL, F_INT(60000)};
    pgw_tick *tick;
    int64_t next_ms = 0;

    fake.cells = cells, fake.rows = 1, fake.columns = 9;
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY,
                      pgw_cron_claim_due(FAKE_H, DUE_FOR("n", NULL, 0), &tick, &next_ms));
    TEST_ASSERT_NULL(tick);
    TEST_ASSERT_EQUAL_INT64(60000, next_ms);
}

void test_a_stale_token_is_elease(void)
{
    static const fake_cell no[] = {F_INT(0)}, null[] = {F_NULL}, yes[] = {F_INT(1)};
    const pgw_token token = {1, 2};

    fake.rows = 1, fake.columns = 1;
    fake.cells = no;
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_cron_finish(FAKE_H, token, NULL));
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_cron_release(FAKE_H, token));
    fake.cells = null;
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_cron_extend(FAKE_H, token, PGW_DEFAULT, NULL));
    fake.cells = yes;
    TEST_ASSERT_EQUAL(PGW_OK, pgw_cron_finish(FAKE_H, token, "why"));
}

void test_no_tick_says_nothing(void)
{
    size_t size = 1;

    TEST_ASSERT_NULL(pgw_tick_schedule(NULL));
    TEST_ASSERT_EQUAL_INT64(0, pgw_tick_slot_us(NULL));
    TEST_ASSERT_EQUAL_UINT64(0, pgw_tick_token(NULL).number);
    TEST_ASSERT_NULL(pgw_tick_body(NULL, &size));
    TEST_ASSERT_EQUAL_size_t(0, size);
    pgw_tick_free(NULL);
}
