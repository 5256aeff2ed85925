/* queue, reap: settings, switches and counts of queues. */
#include "unity.h"
#include "callkit.h"
#include "pgw_all.h"
#include "pgtemp.h"
#include "itpgw.h"

static pgw *h;

void setUp(void)
{
    h = it_open();
}

void tearDown(void)
{
    pgw_close(h);
}

typedef struct found {
    const char *name;
    pgw_queue_info info; /* but for what it points to, which was borrowed */
    pgw_queue_opts opts;
    int count;
} found;

static int find(const pgw_queue_info *info, void *arg)
{
    found *f = arg;

    f->count++;
    if (strcmp(info->name, f->name) == 0) f->info = *info, f->opts = *info->opts;
    return 0;
}

static found queue_info(const char *name)
{
    found f = {.name = name};

    ASSERT_ST(PGW_OK, pgw_queues_each(h, COUNTED(NULL, PGW_UNLIMITED), find, &f), h);
    TEST_ASSERT_EQUAL_MESSAGE(sizeof(f.info), f.info.struct_size, name);
    return f;
}

void test_a_queue_is_created_with_the_defaults_and_set(void)
{
    pgw_queue_opts o = PGW_QUEUE_OPTS_INIT;
    found q;

    ASSERT_ST(PGW_OK, pgw_queue_create(h, "plain", NULL), h);
    q = queue_info("plain");
    TEST_ASSERT_EQUAL_INT64(30000, q.opts.lease_ms);
    TEST_ASSERT_EQUAL_INT64(1000, q.opts.backoff_ms);
    TEST_ASSERT_EQUAL_INT64(3600000, q.opts.backoff_cap_ms);
    TEST_ASSERT_EQUAL_INT64(0, q.opts.retention_ms);
    TEST_ASSERT_EQUAL_INT(10, q.opts.max_attempts);
    TEST_ASSERT_EQUAL_INT(16777216, q.opts.max_bytes);
    TEST_ASSERT_EQUAL(PGW_SWITCH_ON, q.opts.notify);
    TEST_ASSERT_EQUAL(PGW_EXPIRED_DEAD, q.opts.expired);

    o.lease_ms = 500;
    o.notify = PGW_SWITCH_OFF;
    ASSERT_ST(PGW_OK, pgw_queue_create(h, "plain", &o), h);
    o = (pgw_queue_opts)PGW_QUEUE_OPTS_INIT;
    o.max_attempts = 3, o.backoff_ms = 0, o.backoff_cap_ms = 7, o.retention_ms = 8, o.max_bytes = 9;
    o.expired = PGW_EXPIRED_DROP;
    ASSERT_ST(PGW_OK, pgw_queue_set(h, "plain", &o), h);
    q = queue_info("plain");
    TEST_ASSERT_EQUAL_INT64(500, q.opts.lease_ms);
    TEST_ASSERT_EQUAL(PGW_SWITCH_OFF, q.opts.notify);
    TEST_ASSERT_EQUAL_INT(3, q.opts.max_attempts);
    TEST_ASSERT_EQUAL_INT64(0, q.opts.backoff_ms);
    TEST_ASSERT_EQUAL_INT64(7, q.opts.backoff_cap_ms);
    TEST_ASSERT_EQUAL_INT64(8, q.opts.retention_ms);
    TEST_ASSERT_EQUAL_INT(9, q.opts.max_bytes);
    TEST_ASSERT_EQUAL_INT(PGW_EXPIRED_DROP, q.opts.expired);
}

void test_verbs_on_a_missing_queue_return_not_found(void)
{
    pgw_depth d = PGW_DEPTH_INIT;
    int64_t n;

    ASSERT_ST(PGW_ENOTFOUND, pgw_queue_set(h, "nowhere", NULL), h);
    ASSERT_HAS("nowhere", pgw_error_message(h));
    ASSERT_ST(PGW_ENOTFOUND, pgw_queue_pause(h, "nowhere"), h);
    ASSERT_ST(PGW_ENOTFOUND, pgw_queue_drain(h, "nowhere"), h);
    ASSERT_ST(PGW_ENOTFOUND, pgw_queue_resume(h, "nowhere"), h);
    ASSERT_ST(PGW_ENOTFOUND, pgw_queue_purge(h, "nowhere", PGW_STATE_ANY, &n), h);
    ASSERT_ST(PGW_ENOTFOUND, pgw_queue_drop(h, "nowhere", true), h);
    ASSERT_ST(PGW_ENOTFOUND, pgw_queue_depth(h, "nowhere", PGW_UNLIMITED, &d), h);
}

void test_pause_stops_claims_and_drain_stops_enqueues(void)
{
    const pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_batch *batch;

    it_enqueue(h, "shut", "1");
    ASSERT_ST(PGW_OK, pgw_queue_pause(h, "shut"), h);
    TEST_ASSERT_TRUE(queue_info("shut").info.paused);
    ASSERT_ST(PGW_OUTCOME_EMPTY, it_claim(h, &batch, "shut", 1), h);
    it_enqueue(h, "shut", "2");

    ASSERT_ST(PGW_OK, pgw_queue_resume(h, "shut"), h);
    ASSERT_ST(PGW_OK, pgw_queue_drain(h, "shut"), h);
    TEST_ASSERT_TRUE(queue_info("shut").info.draining);
    ASSERT_ST(PGW_EPAUSED, pgw_enqueue(h, "shut", &job, NULL), h);
    ASSERT_ST(PGW_EPAUSED, pgw_enqueue_many(h, "shut", &job, 1, NULL), h);
    it_claim_one(h, "shut");

    ASSERT_ST(PGW_OK, pgw_queue_resume(h, "shut"), h);
    TEST_ASSERT_FALSE(queue_info("shut").info.draining);
    it_enqueue(h, "shut", "3");
}

void test_jobs_are_counted_purged_and_dropped_with_their_queue(void)
{
    pgw_job_spec later = PGW_JOB_SPEC_INIT;
    pgw_depth d = PGW_DEPTH_INIT;
    int64_t n;
    int i;

    for (i = 0; i < 5; i++) it_enqueue(h, "counted", NULL);
    later.delay_ms = 100000;
    ASSERT_ST(PGW_OK, pgw_enqueue(h, "counted", &later, NULL), h);
    it_claim_one(h, "counted");
    ASSERT_ST(PGW_OK, pgw_queue_depth(h, "counted", PGW_UNLIMITED, &d), h);
    TEST_ASSERT_EQUAL_INT64(4, d.ready);
    TEST_ASSERT_EQUAL_INT64(1, d.leased);
    TEST_ASSERT_EQUAL_INT64(1, d.delayed);
    TEST_ASSERT_EQUAL_INT64(0, d.dead);
    TEST_ASSERT_EQUAL_INT64(0, d.done);
    ASSERT_ST(PGW_OK, pgw_queue_depth(h, "counted", 2, &d), h);
    TEST_ASSERT_EQUAL_INT64(2, d.ready + d.leased);

    ASSERT_ST(PGW_ELOCKED, pgw_queue_drop(h, "counted", false), h);
    ASSERT_ST(PGW_OK, pgw_queue_purge(h, "counted", PGW_STATE_DELAYED, &n), h);
    TEST_ASSERT_EQUAL_INT64(1, n);
    ASSERT_ST(PGW_OK, pgw_queue_purge(h, "counted", PGW_STATE_READY, &n), h);
    TEST_ASSERT_EQUAL_INT64(4, n);
    ASSERT_ST(PGW_OK, pgw_queue_purge(h, "counted", PGW_STATE_ANY, &n), h);
    TEST_ASSERT_EQUAL_INT64_MESSAGE(0, n, "a leased job is never purged");
    ASSERT_ST(PGW_ELOCKED, pgw_queue_drop(h, "counted", false), h);
    ASSERT_ST(PGW_OK, pgw_queue_drop(h, "counted", true), h);
    ASSERT_ST(PGW_ENOTFOUND, pgw_queue_depth(h, "counted", PGW_UNLIMITED, &d), h);
    ASSERT_ST(PGW_OK, pgw_queue_create(h, "counted", NULL), h);
    ASSERT_ST(PGW_OK, pgw_queue_drop(h, "counted", false), h);
}

static int64_t still_there(void)
{
    pgw_depth d = PGW_DEPTH_INIT;

    ASSERT_ST(PGW_OK, pgw_queue_depth(h, "large", PGW_UNLIMITED, &d), h);
    return d.ready + d.delayed;
}

void test_a_large_queue_is_purged_piece_by_piece(void)
{
    pgw_stop *stop;
    int64_t n;

    /* jobs with tags do not share a row */
    pgtemp_exec("SELECT pgwork.enqueue_many('large', array_fill('1'::jsonb, ARRAY[n]), tags => "
                "'{\"{a}\"}') FROM unnest('{10000,5000}'::int[]) n;"
                "SELECT pgwork.enqueue_many('large', array_fill('1'::jsonb, ARRAY[8000]), "
                "delays_ms => '{60000}')");
    TEST_ASSERT_EQUAL(PGW_OK, pgw_stop_new(&stop));
    pgw_set_stop(h, stop);
    pgw_stop_notify(stop);
    ASSERT_ST(PGW_ECANCELED, pgw_queue_purge(h, "large", PGW_STATE_ANY, &n), h);
    TEST_ASSERT_EQUAL_INT64(10000, n);
    TEST_ASSERT_EQUAL_INT64(13000, still_there());
    pgw_set_stop(h, NULL);
    pgw_stop_free(stop);
    ASSERT_ST(PGW_OK, pgw_queue_purge(h, "large", PGW_STATE_ANY, &n), h);
    TEST_ASSERT_EQUAL_INT64(13000, n);
    TEST_ASSERT_EQUAL_INT64(0, still_there());
    pgtemp_exec("SELECT pgwork.enqueue_many('large', array_fill('1'::jsonb, ARRAY[n])) FROM "
                "unnest('{10000,1}'::int[]) n");
    ASSERT_ST(PGW_OK, pgw_queue_drop(h, "large", true), h);
}

void test_without_implicit_queues_an_enqueue_needs_one(void)
{
    const pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_batch *batch;

    pgtemp_exec("SELECT pgwork.setting('implicit_queues', 'off')");
    ASSERT_ST(PGW_ENOTFOUND, pgw_enqueue(h, "explicit", &job, NULL), h);
    ASSERT_ST(PGW_OUTCOME_EMPTY, it_claim(h, &batch, "explicit", 1), h);
    ASSERT_ST(PGW_OK, pgw_queue_create(h, "explicit", NULL), h);
    ASSERT_ST(PGW_OK, pgw_enqueue(h, "explicit", &job, NULL), h);
    pgtemp_exec("SELECT pgwork.setting('implicit_queues', 'on')");
}

void test_each_in_a_schema_without_queues_is_empty(void)
{
    static const char *const pairs[] = {"schema", "empty_one", "schema.check", "off", NULL};
    pgw *other = it_open_with(pairs);
    found f = {.name = ""};

    ASSERT_ST(PGW_OK, pgw_migrate_up(other, NULL), other);
    ASSERT_ST(PGW_OUTCOME_EMPTY, pgw_queues_each(other, COUNTED(NULL, PGW_UNLIMITED), find, &f),
              other);
    ASSERT_ST(PGW_OK, pgw_queue_create(other, "here", NULL), other);
    ASSERT_ST(PGW_OK, pgw_queues_each(other, COUNTED(NULL, 1), find, &f), other);
    TEST_ASSERT_EQUAL_INT(1, f.count);
    pgw_close(other);
}

/* ---- reap ---- */

void test_a_tick_requeues_expired_leases_and_makes_delayed_jobs_ready(void)
{
    pgw_reap_stats stats = PGW_REAP_STATS_INIT;
    pgw_queue_opts o = PGW_QUEUE_OPTS_INIT;
    pgw_job_spec later = PGW_JOB_SPEC_INIT;
    int64_t next_ms = -1, until;
    pgw_ref first, again;
    pgw_batch *batch;

    o.lease_ms = 100;
    ASSERT_ST(PGW_OK, pgw_queue_create(h, "reaped", &o), h);
    it_enqueue(h, "reaped", NULL);
    later.delay_ms = 100;
    ASSERT_ST(PGW_OK, pgw_enqueue(h, "reaped", &later, NULL), h);
    first = it_claim_one(h, "reaped");
    ASSERT_ST(PGW_OUTCOME_EMPTY, it_claim(h, &batch, "reaped", 1), h);

    for (until = pgw__deadline_in(20000);
         stats.reaped + stats.promoted < 2 && pgw__deadline_left_ms(until) > 0;) {
        ASSERT_ST(PGW_OK, pgw_reaper_tick(h, &stats, &next_ms), h);
        TEST_ASSERT_GREATER_OR_EQUAL_INT64(0, next_ms);
        pgtemp_exec("SELECT pg_sleep(0.02)");
    }
    TEST_ASSERT_EQUAL_INT64(1, stats.reaped);
    TEST_ASSERT_EQUAL_INT64(1, stats.promoted);
    TEST_ASSERT_EQUAL_INT64(0, stats.died);
    TEST_ASSERT_GREATER_THAN_INT64(0, stats.ticks);
    again = it_claim_one(h, "reaped"); /* the reaped job lies in a lane of its own */
    if (again.id != first.id) again = it_claim_one(h, "reaped");
    TEST_ASSERT_EQUAL_INT64(first.id, again.id);
    TEST_ASSERT_TRUE(again.token.number > first.token.number);
    ASSERT_ST(PGW_ELEASE, pgw_complete(h, "reaped", &first, 1, NULL), h);
    ASSERT_ST(PGW_OK, pgw_complete(h, "reaped", &again, 1, NULL), h);
    TEST_ASSERT_EQUAL_INT64(
        1, pgtemp_number("SELECT count(*) FROM pgwork.beat WHERE role = 'reaper'"));
}
