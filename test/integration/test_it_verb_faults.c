/* Every verb meets every fault that no argument can prevent, and every invalid name. The table has
 * a row for each verb, and there is a test for each fault. So a new verb is tested against all
 * faults. */
#include "unity.h"
#include "callkit.h"
#include "pgw_all.h"
#include "pgtemp.h"
#include "itpgw.h"

#include <stdlib.h>

static pgw *h;

enum { GO_ON = 0 };
static int on_job(const pgw_job *j, void *a)
{
    return (void)j, (void)a, GO_ON;
}
static int on_queue(const pgw_queue_info *i, void *a)
{
    return (void)i, (void)a, GO_ON;
}
static int on_lock(const pgw_lock_info *i, void *a)
{
    return (void)i, (void)a, GO_ON;
}
static int on_sema(const pgw_sema_info *i, void *a)
{
    return (void)i, (void)a, GO_ON;
}
static int on_grant(const pgw_sema_grant *g, void *a)
{
    return (void)g, (void)a, GO_ON;
}
static int on_cron(const pgw_cron_info *i, void *a)
{
    return (void)i, (void)a, GO_ON;
}

/* ---- the verbs: each with one name, and otherwise with arguments that are right ---- */

static pgw_ref ref = {1, {33, 2}};

#define VERB(verb) static pgw_status call_##verb(const char *name)

VERB(enqueue)
{
    const pgw_job_spec job = PGW_JOB_SPEC_INIT;
    return pgw_enqueue(h, name, &job, NULL);
}
VERB(enqueue_many)
{
    const pgw_job_spec jobs[2] = {PGW_JOB_SPEC_INIT, PGW_JOB_SPEC_INIT};
    return pgw_enqueue_many(h, name, jobs, 2, NULL);
}
VERB(load)
{
    const pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_load *load;
    pgw_status st = pgw_load_begin(h, name, &load);

    if (st != PGW_OK) {
        TEST_ASSERT_NULL(load);
        return st;
    }
    st = pgw_load_add(load, &job);
    return st == PGW_OK ? pgw_load_end(load, true, NULL) : (pgw_load_end(load, false, NULL), st);
}
VERB(claim)
{
    pgw_batch *batch = (pgw_batch *)&ref;
    pgw_status st = it_claim(h, &batch, name, 1);

    if (st != PGW_OK) TEST_ASSERT_NULL(batch);
    if (st == PGW_OK) pgw_batch_free(batch);
    return st;
}
VERB(complete_and_claim)
{
    pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;
    pgw_batch *batch;
    pgw_status st;

    o.queues = &name;
    o.queues_count = 1;
    st = pgw_complete_and_claim(h, &ref, 1, &o, &batch);
    if (st == PGW_OK) pgw_batch_free(batch);
    return st;
}
VERB(complete)
{
    return pgw_complete(h, name, &ref, 1, NULL);
}
VERB(fail)
{
    return pgw_fail(h, name, &ref, 1, NULL);
}
VERB(snooze)
{
    return pgw_snooze(h, name, &ref, 1, SNOOZE_BY(1000));
}
VERB(hold)
{
    return pgw_hold(h, name, &ref, 1, NULL);
}
VERB(release)
{
    return pgw_release(h, name, &ref, 1);
}
VERB(extend)
{
    return pgw_extend(h, name, &ref, 1, NULL);
}
VERB(cancel)
{
    return pgw_cancel(h, name, &ref, 1);
}
VERB(redrive)
{
    return pgw_redrive(h, name, NULL, NULL);
}
VERB(reschedule)
{
    return pgw_reschedule(h, name, NULL, NULL);
}
VERB(dead_purge)
{
    return pgw_dead_purge(h, name, NULL, NULL);
}
VERB(jobs_each)
{
    pgw_jobs_opts o = PGW_JOBS_OPTS_INIT;
    o.queue = name;
    return pgw_jobs_each(h, &o, on_job, NULL);
}
VERB(queue_create)
{
    return pgw_queue_create(h, name, NULL);
}
VERB(queue_set)
{
    pgw_queue_opts o = PGW_QUEUE_OPTS_INIT;
    o.max_attempts = 3;
    return pgw_queue_set(h, name, &o);
}
VERB(queue_pause)
{
    return pgw_queue_pause(h, name);
}
VERB(queue_hold)
{
    pgw_queue_hold_opts o = PGW_QUEUE_HOLD_OPTS_INIT;
    o.for_ms = 1;
    return pgw_queue_hold(h, name, &o);
}
VERB(queue_unhold)
{
    return pgw_queue_unhold(h, name);
}
VERB(queue_semaphore)
{
    return pgw_queue_semaphore(h, name, NULL);
}
VERB(queue_drain)
{
    return pgw_queue_drain(h, name);
}
VERB(queue_resume)
{
    return pgw_queue_resume(h, name);
}
VERB(queue_purge)
{
    return pgw_queue_purge(h, name, PGW_STATE_ANY, NULL);
}
VERB(queue_depth)
{
    pgw_depth depth = PGW_DEPTH_INIT;
    return pgw_queue_depth(h, name, PGW_UNLIMITED, &depth);
}
VERB(queue_drop)
{
    return pgw_queue_drop(h, name, true);
}
VERB(queues_each)
{
    return (void)name, pgw_queues_each(h, COUNTED(NULL, PGW_UNLIMITED), on_queue, NULL);
}
VERB(reaper_tick)
{
    return (void)name, pgw_reaper_tick(h, NULL, NULL);
}
VERB(lock_acquire)
{
    pgw_lock *lock;
    pgw_status st = pgw_lock_acquire(h, name, NULL, &lock);
    return st == PGW_OK ? pgw_lock_release(lock) : st;
}
VERB(lock_is_free)
{
    bool is_free;
    return pgw_lock_is_free(h, name, &is_free);
}
VERB(lock_holder)
{
    pgw_lock_who who = PGW_LOCK_WHO_INIT;
    return pgw_lock_holder(h, name, &who);
}
VERB(locks_each)
{
    return pgw_locks_each(h, name, on_lock, NULL);
}
VERB(rate_set)
{
    return pgw_rate_set(h, name, NULL);
}
VERB(queue_rate)
{
    return pgw_queue_rate(h, name, NULL);
}
VERB(rate_take)
{
    return pgw_rate_take(h, name, NULL, NULL);
}
VERB(rate_drop)
{
    return pgw_rate_drop(h, name);
}
VERB(sema_create)
{
    return pgw_sema_create(h, name, 2);
}
VERB(sema_resize)
{
    return pgw_sema_resize(h, name, 3);
}
VERB(sema_acquire)
{
    pgw_token token;
    return pgw_sema_acquire(h, name, NULL, &token);
}
VERB(sema_extend)
{
    return pgw_sema_extend(h, name, ref.token, 1000);
}
VERB(sema_release)
{
    return pgw_sema_release(h, name, ref.token);
}
VERB(sema_status)
{
    pgw_sema_info info = PGW_SEMA_INFO_INIT;
    return pgw_sema_status(h, name, &info);
}
VERB(semas_each)
{
    return (void)name, pgw_semas_each(h, on_sema, NULL);
}
VERB(sema_grants_each)
{
    return pgw_sema_grants_each(h, name, on_grant, NULL);
}
VERB(sema_drop)
{
    return pgw_sema_drop(h, name, true);
}
VERB(cron_create)
{
    return pgw_cron_create(h, name, "0 0 1 1 *", NULL, NULL);
}
VERB(cron_pause)
{
    return pgw_cron_pause(h, name);
}
VERB(cron_resume)
{
    return pgw_cron_resume(h, name);
}
VERB(crons_each)
{
    return pgw_crons_each(h, name, on_cron, NULL);
}
VERB(cron_tick)
{
    return (void)name, pgw_cron_tick(h, NULL, NULL);
}
VERB(cron_finish)
{
    return (void)name, pgw_cron_finish(h, ref.token, NULL);
}
VERB(cron_release)
{
    return (void)name, pgw_cron_release(h, ref.token);
}
VERB(cron_extend)
{
    return (void)name, pgw_cron_extend(h, ref.token, PGW_DEFAULT, NULL);
}
VERB(cron_drop)
{
    return pgw_cron_drop(h, name);
}

enum {
    READS = 1,    /* or finds nothing to write, with these arguments */
    NAMELESS = 2, /* takes no name */
    ALL_OF_IT = 4 /* NULL as its name means all */
};

#define ROW(verb, flags)          \
    {                             \
#verb, call_##verb, flags \
    }
static const struct {
    const char *name;
    pgw_status (*call)(const char *name);
    int flags;
} verbs[] = {
    /* what makes things comes first, what drops them last */
    ROW(queue_create, 0),
    ROW(enqueue, 0),
    ROW(enqueue_many, 0),
    ROW(load, 0),
    ROW(claim, 0),
    ROW(complete_and_claim, 0),
    ROW(complete, 0),
    ROW(fail, 0),
    ROW(snooze, 0),
    ROW(hold, 0),
    ROW(release, 0),
    ROW(extend, 0),
    ROW(cancel, 0),
    ROW(redrive, 0),
    ROW(reschedule, 0),
    ROW(dead_purge, 0),
    ROW(jobs_each, READS | ALL_OF_IT),
    ROW(queue_set, 0),
    ROW(queue_pause, 0),
    ROW(queue_hold, 0),
    ROW(queue_unhold, 0),
    ROW(queue_rate, 0),
    ROW(queue_semaphore, 0),
    ROW(queue_drain, 0),
    ROW(queue_resume, 0),
    ROW(queue_purge, 0),
    ROW(queue_depth, READS),
    ROW(queues_each, READS | NAMELESS),
    ROW(reaper_tick, NAMELESS),
    ROW(lock_acquire, 0),
    ROW(lock_is_free, READS),
    ROW(lock_holder, READS),
    ROW(locks_each, READS | ALL_OF_IT),
    ROW(rate_set, 0),
    ROW(rate_take, 0),
    ROW(sema_create, READS), /* that one is there */
    ROW(sema_resize, 0),
    ROW(sema_acquire, 0),
    ROW(sema_extend, READS),
    ROW(sema_release, READS),
    ROW(sema_status, READS),
    ROW(semas_each, READS | NAMELESS),
    ROW(sema_grants_each, READS),
    ROW(cron_create, 0),
    ROW(cron_pause, 0),
    ROW(cron_resume, 0),
    ROW(crons_each, READS | ALL_OF_IT),
    ROW(cron_tick, NAMELESS),
    ROW(cron_finish, NAMELESS),
    ROW(cron_release, NAMELESS),
    ROW(cron_extend, NAMELESS),
    ROW(cron_drop, 0),
    ROW(rate_drop, 0),
    ROW(sema_drop, 0),
    ROW(queue_drop, 0),
};
#define VERBS (sizeof(verbs) / sizeof(verbs[0]))

/* This status, with words and what to do next. */
static void meets(size_t i, const char *name, pgw_status expected, const char *what)
{
    const pgw_status st = verbs[i].call(name);
    char text[400];

    snprintf(text, sizeof(text), "%s, %s: %s, not %s: %s", verbs[i].name, what, pgw_status_name(st),
             pgw_status_name(expected), pgw_error_message(h));
    TEST_ASSERT_EQUAL_INT_MESSAGE(expected, st, text);
    TEST_ASSERT_TRUE_MESSAGE(*pgw_error_message(h) != '\0', text);
    /* a bad argument's message says what is allowed; the others say what to do */
    if (st != PGW_EINVAL) TEST_ASSERT_TRUE_MESSAGE(*pgw_error_hint(h) != '\0', text);
}

static pgw *open_hostile(const char *more)
{
    char dsn[700];
    const char *pairs[] = {"dsn", dsn, "schema.check", "off", NULL};

    snprintf(dsn, sizeof(dsn), "%s %s", pgtemp_dsn(), more);
    return it_open_with(pairs);
}

void setUp(void)
{
    h = open_hostile("");
    ASSERT_ST(PGW_OK, pgw_migrate_up(h, NULL), h);
    pgw_close(h);
    h = NULL;
}

void tearDown(void)
{
    pgw_close(h);
}

static const char counts[] =
    "SELECT (SELECT count(*) FROM pgwork.queue) + (SELECT count(*) FROM pgwork.live_job) + "
    "(SELECT count(*) FROM pgwork.semaphore) + (SELECT count(*) FROM pgwork.schedule)";

void test_an_invalid_name_is_refused_by_every_verb(void)
{
    static char longer[1001];
    const char *const bad[] = {NULL, "", longer, "\xff\xfe", "a\xc3"};

    memset(longer, 'x', 1000);
    h = it_open();
    for (size_t i = 0; i < VERBS; i++) {
        if (verbs[i].flags & NAMELESS) continue;
        for (size_t b = verbs[i].flags & ALL_OF_IT ? 1 : 0; b < sizeof(bad) / sizeof(bad[0]); b++) {
            char what[40];

            snprintf(what, sizeof(what), "name %zu", b);
            meets(i, bad[b], PGW_EINVAL, what);
        }
    }
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number(counts));
    it_enqueue(h, "fine", NULL);
    ASSERT_ST(PGW_OK, pgw_queue_drop(h, "fine", true), h);
}

void test_a_read_only_server_refuses_every_verb_that_writes(void)
{
    h = open_hostile("options='-c default_transaction_read_only=on'");
    pgtemp_exec(
        "SELECT pgwork.enqueue('q'); SELECT pgwork.sema_create('q', 2);"
        "SELECT pgwork.rate_set('q', 1, 1000)"); /* a claim of an empty queue writes nothing */
    for (size_t i = 0; i < VERBS; i++) {
        if (verbs[i].flags & READS) {
            const pgw_status st = verbs[i].call("q");

            TEST_ASSERT_TRUE_MESSAGE(st >= 0 || st == PGW_ENOTFOUND || st == PGW_ELEASE,
                                     verbs[i].name);
        } else
            meets(i, "q", PGW_EPERM, "read-only");
    }
    TEST_ASSERT_EQUAL_INT64(3, pgtemp_number(counts));
    pgtemp_exec("SELECT pgwork.queue_drop('q', true); SELECT pgwork.sema_drop('q');"
                "SELECT pgwork.rate_drop('q')");
}

void test_a_role_without_rights_is_refused_by_every_verb(void)
{
    pgtemp_exec(
        "DO $$BEGIN CREATE ROLE pgw_it_nobody; EXCEPTION WHEN duplicate_object THEN NULL; END$$");
    h = open_hostile("options='-c role=pgw_it_nobody'");
    for (size_t i = 0; i < VERBS; i++) meets(i, "q", PGW_EPERM, "no rights");
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number(counts));
    pgtemp_exec("DROP ROLE IF EXISTS pgw_it_nobody");
}

void test_a_schema_that_was_dropped_meanwhile(void)
{
    pgw *other;

    h = open_hostile("");
    for (size_t i = 0; i < VERBS; i++) (void)verbs[i].call("q"); /* what is prepared, is */
    pgtemp_exec("DROP SCHEMA pgwork CASCADE");
    for (size_t i = 0; i < VERBS; i++) meets(i, "q", PGW_ESCHEMA, "no schema");
    other = open_hostile("");
    ASSERT_ST(PGW_OK, pgw_migrate_up(other, NULL), other);
    pgw_close(other);
    it_enqueue(h, "q", NULL); /* the same handle, as if nothing had been */
    ASSERT_ST(PGW_OK, pgw_queue_drop(h, "q", true), h);
}

void test_without_a_server_every_verb_returns_a_lost_connection(void)
{
    pgw_conf *conf = it_conf(NULL);

    ASSERT_ST(PGW_OK, pgw_conf_set(conf, "dsn", "host=/nowhere port=1"), NULL);
    ASSERT_ST(PGW_OK, pgw_conf_set(conf, "connect.timeout_ms", "100"), NULL);
    TEST_ASSERT_EQUAL_INT(PGW_ECONN, pgw_open(conf, &h));
    pgw_conf_free(conf);
    TEST_ASSERT_NOT_NULL(h);
    pgw_set_timeout(h, 20);
    for (size_t i = 0; i < VERBS; i++) {
        const pgw_status st = verbs[i].call("q");

        TEST_ASSERT_TRUE_MESSAGE(st == PGW_ECONN || st == PGW_ETIMEDOUT, verbs[i].name);
        TEST_ASSERT_TRUE_MESSAGE(*pgw_error_message(h) != '\0', verbs[i].name);
        TEST_ASSERT_TRUE_MESSAGE(pgw_is_retriable(st), verbs[i].name);
    }
}

void test_without_a_handle_each_verb_returns_an_error(void)
{
    for (size_t i = 0; i < VERBS; i++)
        TEST_ASSERT_TRUE_MESSAGE(verbs[i].call("q") < 0, verbs[i].name);
}
