/* queue, reap: settings and counts are sent and read correctly, and invalid ones are refused. */
#include "unity.h"
#include "callkit.h"
#include "ask.h"
#include "clock.h"
#include "check.h"
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
TEST_SOURCE_FILE("src/queue/queue.c")
TEST_SOURCE_FILE("src/queue/reap.c")

void setUp(void)
{
    fake_begin();
}
void tearDown(void) {}

/* ---- settings ---- */

static void see_nothing_set(const pgw__call *call)
{
    for (int i = 1; i < 9; i++) TEST_ASSERT_TRUE(call->params[i].null);
}

static void see_all_set(const pgw__call *call)
{
    const pgw__param *p = call->params;

    for (int i = 1; i < 9; i++) TEST_ASSERT_FALSE(p[i].null);
    TEST_ASSERT_EQUAL_INT64(100, p[1].v.i);
    TEST_ASSERT_EQUAL_INT64(3, p[2].v.i);
    TEST_ASSERT_EQUAL_INT64(0, p[3].v.i);
    TEST_ASSERT_EQUAL_INT64(5, p[4].v.i);
    TEST_ASSERT_EQUAL_INT64(6, p[5].v.i);
    TEST_ASSERT_EQUAL_INT64(7, p[6].v.i);
    TEST_ASSERT_EQUAL(PGW__BOOL, p[7].type);
    TEST_ASSERT_FALSE(p[7].v.b);
    TEST_ASSERT_EQUAL_STRING("drop", p[8].v.p);
    TEST_ASSERT_EQUAL_INT64(PGW_UNLIMITED, p[9].v.i);
}

void test_a_setting_that_is_not_given_is_unchanged(void)
{
    fake.on_call = see_nothing_set;
    TEST_ASSERT_EQUAL(PGW_OK, pgw_queue_create(FAKE_H, "q", NULL));
    TEST_ASSERT_EQUAL(PGW__SQL_QUEUE_CREATE, fake.sql);
    TEST_ASSERT_EQUAL(PGW__WRITES, fake.flags);
}

void test_zero_is_given(void)
{
    pgw_queue_opts o = {sizeof(o), 100, 0, 5, 6, PGW_UNLIMITED, 3, 7, 0, PGW_EXPIRED_DROP};

    fake.on_call = see_all_set;
    TEST_ASSERT_EQUAL(PGW_OK, pgw_queue_set(FAKE_H, "q", &o));
    TEST_ASSERT_EQUAL(PGW__SQL_QUEUE_SET, fake.sql);
}

void test_settings_out_of_their_limits(void)
{
    pgw_queue_opts o;

#define BAD(words, change)                                                        \
    o = (pgw_queue_opts)PGW_QUEUE_OPTS_INIT, change;                              \
    TEST_ASSERT_EQUAL_MESSAGE(PGW_EINVAL, pgw_queue_set(FAKE_H, "q", &o), words); \
    ASSERT_SAYS(words)
    BAD("`opts->struct_size` is 0", o.struct_size = 0);
    BAD("`opts->lease_ms` is 99: expected 100..86400000", o.lease_ms = 99);
    BAD("`opts->backoff_ms` is -1", o.backoff_ms = -1);
    BAD("`opts->backoff_cap_ms` is 31536000001", o.backoff_cap_ms = 31536000001);
    BAD("`opts->retention_ms` is -1", o.retention_ms = -1);
    BAD("`opts->dead_retention_ms` is 0", o.dead_retention_ms = 0);
    BAD("`opts->max_attempts` is 0: expected 1..1000", o.max_attempts = 0);
    BAD("`opts->max_bytes` is 0", o.max_bytes = 0);
    BAD("`opts->notify` is 2", o.notify = (pgw_switch)2);
    BAD("`opts->expired` is 2: expected 0..1", o.expired = (pgw_expired)2);
#undef BAD
    TEST_ASSERT_EQUAL_INT(0, fake.calls);
}

void test_every_verb_wants_a_handle_and_a_name(void)
{
    pgw_depth depth = PGW_DEPTH_INIT;

    for (int i = 0; i < 2; i++) {
        pgw *h = i == 0 ? NULL : FAKE_H;
        const char *queue = i == 0 ? "q" : "";

        TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_queue_create(h, queue, NULL));
        TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_queue_set(h, queue, NULL));
        TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_queue_pause(h, queue));
        TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_queue_drain(h, queue));
        TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_queue_resume(h, queue));
        TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_queue_hold(h, queue, NULL));
        TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_queue_unhold(h, queue));
        TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_queue_semaphore(h, queue, "s"));
        TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_queue_purge(h, queue, PGW_STATE_ANY, NULL));
        TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_queue_drop(h, queue, true));
        TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_queue_depth(h, queue, PGW_UNLIMITED, &depth));
    }
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_queue_semaphore(FAKE_H, "q", ""));
    TEST_ASSERT_EQUAL_INT(0, fake.calls);
}

void test_each_switch_sends_its_statement(void)
{
    TEST_ASSERT_EQUAL(PGW_OK, pgw_queue_pause(FAKE_H, "q"));
    TEST_ASSERT_EQUAL(PGW__SQL_QUEUE_PAUSE, fake.sql);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_queue_drain(FAKE_H, "q"));
    TEST_ASSERT_EQUAL(PGW__SQL_QUEUE_DRAIN, fake.sql);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_queue_resume(FAKE_H, "q"));
    TEST_ASSERT_EQUAL(PGW__SQL_QUEUE_RESUME, fake.sql);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_queue_drop(FAKE_H, "q", false));
    TEST_ASSERT_EQUAL(PGW__SQL_QUEUE_DROP, fake.sql);
}

/* ---- counts ---- */

void test_a_purge_returns_its_count(void)
{
    static const fake_cell answer[] = {F_INT(9)};
    int64_t n = 5;

    FAKE_ROWS(answer, 1);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_queue_purge(FAKE_H, "q", PGW_STATE_DEAD, &n));
    TEST_ASSERT_EQUAL_INT64(9, n);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_queue_purge(FAKE_H, "q", PGW_STATE_ANY, NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_queue_purge(FAKE_H, "q", PGW_STATE_LEASED, &n));
    ASSERT_SAYS("ready, delayed, dead, done, all");
    TEST_ASSERT_EQUAL_INT64(0, n);
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_queue_purge(FAKE_H, "q", (pgw_state)7, &n));
    fake.rows = 0;
    TEST_ASSERT_EQUAL(PGW_EPROTO, pgw_queue_purge(FAKE_H, "q", PGW_STATE_ANY, &n));
}

void test_purge_goes_piece_by_piece(void)
{
    static const fake_cell full[] = {F_INT(10000)}, less[] = {F_INT(9)};
    int64_t n = 5;

    fake.armed = true;
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw_queue_purge(FAKE_H, "q", PGW_STATE_ANY, &n));
    fake.armed = true;
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw_queue_drop(FAKE_H, "q", true));
    TEST_ASSERT_EQUAL_INT(0, fake.calls);
    FAKE_ROWS(full, 1);
    fake.stopped = true;
    TEST_ASSERT_EQUAL(PGW_ECANCELED, pgw_queue_purge(FAKE_H, "q", PGW_STATE_ANY, &n));
    TEST_ASSERT_EQUAL_INT64(10000, n);
    TEST_ASSERT_EQUAL(PGW_ECANCELED, pgw_queue_drop(FAKE_H, "q", true));
    TEST_ASSERT_EQUAL_INT(2, fake.calls);
    FAKE_ROWS(less, 1);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_queue_drop(FAKE_H, "q", true));
    TEST_ASSERT_EQUAL(PGW__SQL_QUEUE_PURGE, fake.history[2]);
    TEST_ASSERT_EQUAL(PGW__SQL_QUEUE_DROP, fake.history[3]);
}

void test_the_counts_of_a_depth_are_read(void)
{
    static const fake_cell answer[] = {F_INT(1), F_INT(2), F_INT(3), F_INT(4),
                                       F_INT(5), F_INT(6), F_INT(7)};
    pgw_depth d = PGW_DEPTH_INIT;

    FAKE_ROWS(answer, 7);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_queue_depth(FAKE_H, "q", PGW_UNLIMITED, &d));
    TEST_ASSERT_EQUAL_INT64(1, d.ready);
    TEST_ASSERT_EQUAL_INT64(2, d.leased);
    TEST_ASSERT_EQUAL_INT64(3, d.delayed);
    TEST_ASSERT_EQUAL_INT64(4, d.gated);
    TEST_ASSERT_EQUAL_INT64(5, d.dead);
    TEST_ASSERT_EQUAL_INT64(6, d.done);
    TEST_ASSERT_EQUAL_INT64(7, d.oldest_ms);
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_queue_depth(FAKE_H, "q", 0, &d));
    TEST_ASSERT_EQUAL_INT64(0, d.ready);
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_queue_depth(FAKE_H, "q", PGW_UNLIMITED, NULL));
    fake.rows = 0;
    TEST_ASSERT_EQUAL(PGW_EPROTO, pgw_queue_depth(FAKE_H, "q", PGW_UNLIMITED, &d));
}

/* A program may be older than the library, or newer, or have forgotten. */
void test_as_much_of_a_struct_is_filled_as_there_is(void)
{
    static const fake_cell answer[] = {F_INT(1), F_INT(2), F_INT(3), F_INT(4),
                                       F_INT(5), F_INT(6), F_INT(7)};
    struct {
        pgw_depth d;
        int64_t later[2];
    } newer = {PGW_DEPTH_INIT, {7, 7}};
    pgw_depth d = PGW_DEPTH_INIT;

    FAKE_ROWS(answer, 7);
    d.struct_size = offsetof(pgw_depth, dead);
    d.dead = d.oldest_ms = 7;
    TEST_ASSERT_EQUAL(PGW_OK, pgw_queue_depth(FAKE_H, "q", PGW_UNLIMITED, &d));
    TEST_ASSERT_EQUAL_INT64(3, d.delayed);
    TEST_ASSERT_EQUAL_INT64(7, d.dead); /* is none of ours */
    TEST_ASSERT_EQUAL_INT64(7, d.oldest_ms);
    TEST_ASSERT_EQUAL(offsetof(pgw_depth, dead), d.struct_size);
    newer.d.struct_size = offsetof(__typeof__(newer), later[1]);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_queue_depth(FAKE_H, "q", PGW_UNLIMITED, &newer.d));
    TEST_ASSERT_EQUAL_INT64(7, newer.d.oldest_ms);
    TEST_ASSERT_EQUAL_INT64(0, newer.later[0]);
    TEST_ASSERT_EQUAL_INT64(7, newer.later[1]);
    d.struct_size = 0;
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_queue_depth(FAKE_H, "q", PGW_UNLIMITED, &d));
    ASSERT_SAYS("`depth->struct_size` is 0");
    d.struct_size = 5000;
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_queue_depth(FAKE_H, "q", PGW_UNLIMITED, &d));
}

static int each(const pgw_queue_info *q, void *arg)
{
    int *seen = arg;

    TEST_ASSERT_EQUAL(sizeof(*q), q->struct_size);
    TEST_ASSERT_EQUAL_STRING("q", q->name);
    TEST_ASSERT_TRUE(q->paused);
    TEST_ASSERT_FALSE(q->draining);
    TEST_ASSERT_EQUAL(sizeof(*q->opts), q->opts->struct_size);
    TEST_ASSERT_EQUAL(sizeof(*q->depth), q->depth->struct_size);
    TEST_ASSERT_EQUAL_INT64(3, q->opts->lease_ms);
    TEST_ASSERT_EQUAL_INT64(4, q->opts->backoff_ms);
    TEST_ASSERT_EQUAL_INT64(5, q->opts->backoff_cap_ms);
    TEST_ASSERT_EQUAL_INT64(6, q->opts->retention_ms);
    TEST_ASSERT_EQUAL_INT64(9, q->opts->dead_retention_ms);
    TEST_ASSERT_EQUAL_INT(7, q->opts->max_attempts);
    TEST_ASSERT_EQUAL_INT(8, q->opts->max_bytes);
    TEST_ASSERT_EQUAL(PGW_SWITCH_ON, q->opts->notify);
    TEST_ASSERT_EQUAL(PGW_EXPIRED_DROP, q->opts->expired);
    TEST_ASSERT_EQUAL(PGW_SWITCH_OFF, q->opts->payload_visible);
    TEST_ASSERT_EQUAL_INT64(10, q->depth->ready);
    TEST_ASSERT_EQUAL_INT64(16, q->depth->oldest_ms);
    TEST_ASSERT_EQUAL_INT64(17, q->held_until_us);
    TEST_ASSERT_EQUAL_STRING("429", q->hold_reason);
    TEST_ASSERT_EQUAL_INT(20, q->limit);
    TEST_ASSERT_EQUAL_INT(21, q->rate->n);
    TEST_ASSERT_EQUAL_INT64(22, q->rate->per_ms);
    TEST_ASSERT_EQUAL_INT(23, q->rate->burst);
    TEST_ASSERT_EQUAL_INT64(24, q->next_us);
    return --*seen == 0;
}

#define QUEUE_ROW                                                                                 \
    F_TEXT("q"), F_INT(1), F_INT(0), F_INT(3), F_INT(4), F_INT(5), F_INT(6), F_INT(7), F_INT(8),  \
        F_INT(1), F_TEXT("drop"), F_INT(9), F_INT(0), F_INT(10), F_INT(11), F_INT(12), F_INT(13), \
        F_INT(14), F_INT(15), F_INT(16), F_INT(17), F_TEXT("429"), F_INT(20), F_INT(21),          \
        F_INT(22), F_INT(23), F_INT(24), F_TEXT("s")

void test_queues_are_shown_until_the_caller_has_enough(void)
{
    static const fake_cell answer[] = {QUEUE_ROW, QUEUE_ROW, QUEUE_ROW};
    int enough = 2;

    FAKE_ROWS(answer, 28);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_queues_each(FAKE_H, COUNTED(NULL, 100), each, &enough));
    TEST_ASSERT_EQUAL_INT(0, enough);
    fake.rows = 0;
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY,
                      pgw_queues_each(FAKE_H, COUNTED(NULL, PGW_UNLIMITED), each, &enough));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_queues_each(FAKE_H, COUNTED(NULL, 0), each, &enough));
    TEST_ASSERT_EQUAL(PGW_EINVAL,
                      pgw_queues_each(FAKE_H, COUNTED(NULL, PGW_UNLIMITED), NULL, &enough));
    TEST_ASSERT_EQUAL(PGW_EINVAL,
                      pgw_queues_each(NULL, COUNTED(NULL, PGW_UNLIMITED), each, &enough));
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY, pgw_queues_each(FAKE_H, COUNTED("q", 1), each, &enough));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_queues_each(FAKE_H, COUNTED("", 1), each, &enough));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_queues_each(FAKE_H, COUNTED("q", 1), NULL, &enough));
}

/* ---- reap ---- */

void test_a_tick_adds_up(void)
{
    static const fake_cell answer[] = {F_INT(1), F_INT(2), F_INT(3), F_INT(4), F_INT(250), F_NULL};
    pgw_reap_stats stats = {sizeof(stats), 10, 10, 10, 10, 10, 0};
    int64_t next_ms = 0;

    FAKE_ROWS(answer, 6);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_reaper_tick(FAKE_H, &stats, &next_ms));
    TEST_ASSERT_EQUAL_INT64(250, next_ms);
    TEST_ASSERT_EQUAL_INT64(11, stats.ticks);
    TEST_ASSERT_EQUAL_INT64(11, stats.reaped);
    TEST_ASSERT_EQUAL_INT64(12, stats.died);
    TEST_ASSERT_EQUAL_INT64(13, stats.promoted);
    TEST_ASSERT_EQUAL_INT64(14, stats.pruned);
    TEST_ASSERT_EQUAL_INT64(0, stats.errors);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_reaper_tick(FAKE_H, NULL, NULL));
}

void test_a_tick_that_fails_counts_as_an_error(void)
{
    pgw_reap_stats stats = PGW_REAP_STATS_INIT;
    int64_t next_ms = 77;

    fake.status = PGW_ECONN;
    TEST_ASSERT_EQUAL(PGW_ECONN, pgw_reaper_tick(FAKE_H, &stats, &next_ms));
    TEST_ASSERT_EQUAL_INT64(0, next_ms);
    TEST_ASSERT_EQUAL_INT64(1, stats.errors);
    TEST_ASSERT_EQUAL_INT64(0, stats.ticks);
    fake.status = PGW_OK;
    TEST_ASSERT_EQUAL(PGW_EPROTO, pgw_reaper_tick(FAKE_H, &stats, &next_ms));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_reaper_tick(NULL, &stats, &next_ms));
}
