/* Every verb that writes, with the line disturbed at each message of the answer: cut, cut after an
 * error, silent, delayed, or with other messages in between. The outcome is true, and a repeat has
 * one effect together with the first call. */
#include "unity.h"
#include "callkit.h"
#include "pgw_all.h"
#include "itpgw.h"
#include "pgtemp.h"
#include "wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static wire *w;
static pgw *h, *direct;
static pgw_table *rows_table;

/* What one case is about: objects of its own, all with the same name. */
static struct {
    char name[24], op[40];
    pgw_ref ref;
    pgw_token token;
    pgw_rows *rows;
} it;

void setUp(void)
{
    const char *key[] = {"id"};
    pgw_table_spec s = PGW_TABLE_SPEC_INIT;

    pgtemp_migrate();
    direct = it_open_bare();
    w = wire_open();
    pgtemp_exec("DROP TABLE IF EXISTS r; CREATE TABLE r (id text PRIMARY KEY, a int DEFAULT 0, "
                "v int NOT NULL DEFAULT 0, locked_by text, expires_at timestamptz, token uuid)");
    s.table = "r", s.key = key, s.key_count = 1, s.version = "v";
    s.locked_by = "locked_by", s.expires_at = "expires_at", s.token = "token";
    ASSERT_ST(PGW_OK, pgw_table_open(direct, &s, &rows_table), direct);
}

void tearDown(void)
{
    pgw_table_free(rows_table);
    pgw_close(h);
    pgw_close(direct);
    h = NULL;
    wire_close(w);
}

/* Each case has a line of its own. */
static void open_through_wire(void)
{
    const char *const pairs[] = {
        "dsn", wire_dsn(w), "schema.check", "off", "reconnect.base_ms", "1", "reconnect.cap_ms",
        "1",   NULL};

    pgw_close(h);
    h = it_open_with(pairs);
}

/* -- what comes before a verb -- */

static void with_nothing(void) {}

static void with_queue(void)
{
    ASSERT_ST(PGW_OK, pgw_queue_create(direct, it.name, NULL), direct);
}

static void with_ready(void)
{
    it.ref.id = it_enqueue(direct, it.name, "1");
}

static void with_job(void)
{
    with_ready();
    it.ref = it_claim_one(direct, it.name);
}

static void with_job_and_another(void)
{
    with_job();
    it_enqueue(direct, it.name, "2");
}

static void with_dead(void)
{
    pgw_fail_opts o = PGW_FAIL_OPTS_INIT;

    with_job();
    o.dead = true;
    ASSERT_ST(PGW_OK, pgw_fail(direct, it.name, &it.ref, 1, &o), direct);
}

static void with_sema(void)
{
    ASSERT_ST(PGW_OK, pgw_sema_create(direct, it.name, 3), direct);
}

static void with_permit(void)
{
    with_sema();
    ASSERT_ST(PGW_OK, pgw_sema_acquire(direct, it.name, NULL, &it.token), direct);
}

static pgw_status create_schedule(pgw *on)
{
    return pgw_cron_create(on, it.name, "0 0 1 1 *", NULL, NULL);
}

static void with_schedule(void)
{
    ASSERT_ST(PGW_OK, create_schedule(direct), direct);
}

static void with_due_tick(void)
{
    with_schedule();
    ASSERT_ST(PGW_OK, pgw_cron_run(direct, it.name, NULL), direct);
}

static pgw_status claim_tick(pgw *on)
{
    const char *names[] = {it.name};
    pgw_tick *tick;
    const pgw_status st = pgw_cron_claim_due(on, DUE_FOR("node", names, 1), &tick, NULL);

    if (st == PGW_OK) it.token = pgw_tick_token(tick);
    pgw_tick_free(tick);
    return st;
}

static void with_tick(void)
{
    with_due_tick();
    ASSERT_ST(PGW_OK, claim_tick(direct), direct);
}

static void with_row(void)
{
    char sql[80];

    snprintf(sql, sizeof(sql), "INSERT INTO r (id) VALUES ('%s')", it.name);
    pgtemp_exec(sql);
}

static pgw_status claim_row(pgw *on)
{
    pgw_table_claim_opts o = PGW_TABLE_CLAIM_OPTS_INIT;
    const char *values[] = {it.name};

    o.holder = "me", o.lease_ms = 60000;
    o.where = "id = $1", o.values = values, o.values_count = 1;
    pgw_rows_free(it.rows);
    return pgw_table_claim(on, rows_table, &o, &it.rows);
}

static void with_leased_row(void)
{
    with_row();
    ASSERT_ST(PGW_OK, claim_row(direct), direct);
}

/* -- verbs -- */

static pgw_status do_enqueue(void)
{
    pgw_job_spec job = PGW_JOB_SPEC_INIT;

    job.op = it.op;
    return pgw_enqueue(h, it.name, &job, NULL);
}

static pgw_status do_enqueue_many(void)
{
    const pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_job_spec jobs[3] = {job, job, job};

    jobs[0].op = it.op; /* of the call */
    return pgw_enqueue_many(h, it.name, jobs, 3, NULL);
}

static pgw_status do_txn(void)
{
    pgw_status st = pgw_txn_begin(h);

    if (st == PGW_OK) st = do_enqueue();
    if (st >= PGW_OK) return pgw_txn_commit(h);
    pgw_txn_rollback(h);
    return st;
}

static pgw_status do_load(void)
{
    const pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_load *load;
    pgw_status st = pgw_load_begin(h, it.name, &load), ended;

    if (st != PGW_OK) return st;
    st = pgw_load_add(load, &job);
    ended = pgw_load_end(load, st == PGW_OK, NULL);
    return st == PGW_OK ? ended : st;
}

static pgw_status do_claim(void)
{
    pgw_batch *batch = NULL;
    const pgw_status st = it_claim(h, &batch, it.name, 1);

    pgw_batch_free(batch);
    return st;
}

static pgw_status do_complete_and_claim(void)
{
    const char *queue = it.name;
    pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;
    pgw_batch *batch = NULL;
    pgw_status st;

    o.queues = &queue, o.queues_count = 1;
    st = pgw_complete_and_claim(h, &it.ref, 1, &o, &batch);
    pgw_batch_free(batch);
    return st;
}

/* clang-format off */
static pgw_status do_complete(void) { return pgw_complete(h, it.name, &it.ref, 1, NULL); }
static pgw_status do_fail(void) { return pgw_fail(h, it.name, &it.ref, 1, NULL); }
static pgw_status do_release(void) { return pgw_release(h, it.name, &it.ref, 1); }
static pgw_status do_snooze(void) { return pgw_snooze(h, it.name, &it.ref, 1, SNOOZE_BY(3600000)); }
static pgw_status do_extend(void) { return pgw_extend(h, it.name, &it.ref, 1, EXTEND_BY(7200000)); }
static pgw_status do_cancel(void) { return pgw_cancel(h, it.name, &it.ref, 1); }
static pgw_status do_redrive(void) { return pgw_redrive(h, it.name, NULL, NULL); }
static pgw_status do_dead_purge(void) { return pgw_dead_purge(h, it.name, NULL, NULL); }
static pgw_status do_queue_create(void) { return pgw_queue_create(h, it.name, NULL); }
static pgw_status do_queue_pause(void) { return pgw_queue_pause(h, it.name); }
static pgw_status do_hold(void) { return pgw_hold(h, it.name, &it.ref, 1, NULL); }
static pgw_status do_queue_purge(void) { return pgw_queue_purge(h, it.name, PGW_STATE_ANY, NULL); }
static pgw_status do_queue_drop(void) { return pgw_queue_drop(h, it.name, true); }
static pgw_status do_sema_create(void) { return pgw_sema_create(h, it.name, 3); }
static pgw_status do_sema_resize(void) { return pgw_sema_resize(h, it.name, 5); }
static pgw_status do_sema_acquire(void) { return pgw_sema_acquire(h, it.name, NULL, &it.token); }
static pgw_status do_sema_extend(void) { return pgw_sema_extend(h, it.name, it.token, 7200000); }
static pgw_status do_sema_release(void) { return pgw_sema_release(h, it.name, it.token); }
static pgw_status do_cron_create(void) { return create_schedule(h); }
static pgw_status do_cron_pause(void) { return pgw_cron_pause(h, it.name); }
static pgw_status do_cron_run(void) { return pgw_cron_run(h, it.name, NULL); }
static pgw_status do_cron_drop(void) { return pgw_cron_drop(h, it.name); }
static pgw_status do_cron_claim(void) { return claim_tick(h); }
static pgw_status do_cron_finish(void) { return pgw_cron_finish(h, it.token, NULL); }
static pgw_status do_cron_extend(void) { return pgw_cron_extend(h, it.token, 7200000, NULL); }
static pgw_status do_cron_release(void) { return pgw_cron_release(h, it.token); }
static pgw_status do_table_claim(void) { return claim_row(h); }
/* clang-format on */

static pgw_status do_table_extend(void)
{
    pgw_row_ref ref = pgw_rows_ref(it.rows, 0);

    return pgw_table_extend(h, rows_table, &ref, 1, ROWS_BY(7200000));
}

static pgw_status do_table_release(void)
{
    pgw_row_ref ref = pgw_rows_ref(it.rows, 0);

    return pgw_table_release(h, rows_table, &ref, 1);
}

static pgw_status do_table_finish(void)
{
    pgw_row_ref ref = pgw_rows_ref(it.rows, 0);

    return pgw_table_finish(h, rows_table, &ref, 1, FINISH("a = a + 1", NULL, 0));
}

static pgw_status do_table_update(void)
{
    const char *key[] = {it.name};
    const pgw_cell cell = {"a", "1"};
    char next[PGW_ROW_VERSION_SIZE];

    return pgw_table_update(h, rows_table, CHANGE(key, "0", &cell, 1), next);
}

/* The name of the case is in the setting wire.name. */
#define NAME       "current_setting('wire.name')"
#define JOBS(what) "SELECT " what " FROM pgwork.job WHERE queue = " NAME
#define PERMITS(what)                                                                     \
    "SELECT " what " FROM pgwork.permit p JOIN pgwork.semaphore s ON s.id = p.semaphore " \
    "WHERE s.name = " NAME
#define SCHEDULE(what) "SELECT " what " FROM pgwork.schedules WHERE name = " NAME
#define ROW(what)      "SELECT " what " FROM r WHERE id = " NAME
#define SOON           "clock_timestamp() + interval '1 h'"

typedef struct verb {
    const char *name;
    pgw_status (*call)(void);
    void (*prepare)(void);
    const char *done;  /* SQL: true once it is applied, and once only */
    pgw_status repeat; /* what a repeat may report beside success */
} verb;
#define NEVER PGW_EMISUSE /* it has no way to be repeated without a second effect */

static const verb verbs[] = {
    {"enqueue", do_enqueue, with_queue, JOBS("count(*) = 1"), PGW_OK},
    {"enqueue_many", do_enqueue_many, with_queue, JOBS("count(*) = 3"), PGW_OK},
    {"transaction", do_txn, with_queue, JOBS("count(*) = 1"), PGW_OK},
    {"load", do_load, with_queue, JOBS("count(*) = 1"), NEVER},
    {"claim", do_claim, with_ready,
     JOBS("count(*) = 1 AND min(attempt) = 1 AND min(state) = 'leased'"), PGW_OK},
    {"complete", do_complete, with_job, JOBS("count(*) = 0"), PGW_ELEASE},
    {"complete_and_claim", do_complete_and_claim, with_job_and_another,
     JOBS("count(*) = 1 AND min(attempt) = 1 AND min(state) = 'leased'"), PGW_ELEASE},
    {"fail", do_fail, with_job,
     JOBS("count(*) = 1 AND min(state) <> 'leased' AND min(attempt) = 1"), PGW_ELEASE},
    {"release", do_release, with_job, JOBS("count(*) = 1 AND min(state) = 'ready'"), PGW_ELEASE},
    {"snooze", do_snooze, with_job, JOBS("count(*) = 1 AND min(state) = 'delayed'"), PGW_ELEASE},
    {"hold", do_hold, with_job,
     JOBS("count(*) = 1 AND min(state) = 'delayed' AND min(attempt) = 0"), PGW_ELEASE},
    {"extend", do_extend, with_job, JOBS("count(*) = 1 AND min(lease_until) > " SOON), PGW_OK},
    {"cancel", do_cancel, with_ready, JOBS("count(*) = 0"), PGW_ENOTFOUND},
    {"redrive", do_redrive, with_dead, JOBS("count(*) = 1 AND min(state) = 'ready'"), PGW_OK},
    {"dead_purge", do_dead_purge, with_dead, JOBS("count(*) = 0"), PGW_OK},
    {"queue_create", do_queue_create, with_nothing,
     "SELECT count(*) = 1 FROM pgwork.queue WHERE name = " NAME, PGW_OK},
    {"queue_pause", do_queue_pause, with_queue,
     "SELECT paused FROM pgwork.queue WHERE name = " NAME, PGW_OK},
    {"queue_purge", do_queue_purge, with_ready, JOBS("count(*) = 0"), PGW_OK},
    {"queue_drop", do_queue_drop, with_ready,
     "SELECT count(*) = 0 FROM pgwork.queue WHERE name = " NAME, PGW_ENOTFOUND},
    {"sema_create", do_sema_create, with_nothing, PERMITS("count(*) = 3"), PGW_OK},
    {"sema_resize", do_sema_resize, with_sema, PERMITS("count(*) = 5"), PGW_OK},
    {"sema_acquire", do_sema_acquire, with_sema, PERMITS("count(nonce) = 1"), NEVER},
    {"sema_extend", do_sema_extend, with_permit, PERMITS("max(until) > " SOON), PGW_OK},
    {"sema_release", do_sema_release, with_permit, PERMITS("count(nonce) = 0"), PGW_ELEASE},
    {"cron_create", do_cron_create, with_nothing, SCHEDULE("count(*) = 1"), PGW_OK},
    {"cron_pause", do_cron_pause, with_schedule, SCHEDULE("paused"), PGW_OK},
    {"cron_run", do_cron_run, with_schedule, SCHEDULE("asked IS NOT NULL"), PGW_OK},
    {"cron_drop", do_cron_drop, with_schedule, SCHEDULE("count(*) = 0"), PGW_ENOTFOUND},
    {"cron_claim_due", do_cron_claim, with_due_tick, SCHEDULE("holder = 'node'"), PGW_OK},
    {"cron_finish", do_cron_finish, with_tick, SCHEDULE("holder IS NULL"), PGW_ELEASE},
    {"cron_extend", do_cron_extend, with_tick, SCHEDULE("until > " SOON), PGW_OK},
    {"cron_release", do_cron_release, with_tick, SCHEDULE("holder IS NULL"), PGW_ELEASE},
    {"table_claim", do_table_claim, with_row, ROW("locked_by = 'me'"), PGW_OK},
    {"table_extend", do_table_extend, with_leased_row, ROW("expires_at > " SOON), PGW_OK},
    {"table_release", do_table_release, with_leased_row, ROW("expires_at IS NULL"), PGW_ELEASE},
    {"table_finish", do_table_finish, with_leased_row, ROW("expires_at IS NULL AND a = 1"),
     PGW_ELEASE},
    {"table_update", do_table_update, with_row, ROW("a = 1 AND v = 1"), PGW_ECONFLICT},
};

static bool is_done(const verb *v)
{
    const char *value = pgtemp_value(v->done);

    return value != NULL && *value == 't';
}

/* -- disturbances -- */

typedef struct fault {
    const char *name;
    wire_deed deed;
    const char *words; /* messages that come before the deed */
    size_t size;
    int timeout_ms; /* of the call; 0: as usual */
    bool harmless;  /* the call is to succeed */
} fault;

static void begin_case(const verb *v)
{
    static int number;
    char sql[80];

    number++;
    snprintf(it.name, sizeof(it.name), "w%d", number);
    snprintf(it.op, sizeof(it.op), "00000000-0000-4000-8000-%012d", number);
    snprintf(sql, sizeof(sql), "SET wire.name = '%s'", it.name);
    pgtemp_exec(sql);
    pgw_rows_free(it.rows);
    it.rows = NULL;
    v->prepare();
    open_through_wire();
}

/* At the n-th message that the server sends; false: there are not so many. */
static bool disturb(const verb *v, const fault *f, int n)
{
    const int orders = wire_orders(w);
    char where[120];
    pgw_status st;

    begin_case(v);
    snprintf(where, sizeof(where), "%s, %s at message %d", v->name, f->name, n);
    if (f->timeout_ms) pgw__pq_limit_calls(h, f->timeout_ms); /* else 2 s more for a cancel */
    wire_at(w, WIRE_ANY, n, f->words, f->size, f->deed);
    st = v->call();
    wire_at(w, 0, 0, NULL, 0, WIRE_PASS);
    if (wire_orders(w) == orders || f->harmless) {
        if (st < 0) TEST_FAIL_MESSAGE(pgw_error_message(h));
    }
    if (st >= PGW_OK) {
        TEST_ASSERT_TRUE_MESSAGE(is_done(v), where);
    } else if (st != PGW_EUNKNOWN) {
        if (st != PGW_ECONN) TEST_ASSERT_EQUAL_INT_MESSAGE(PGW_ETIMEDOUT, st, where);
        TEST_ASSERT_FALSE_MESSAGE(is_done(v), where);
    }
    if (wire_orders(w) == orders) return false;
    if (v->repeat == NEVER) return true;
    pgw_set_timeout(h, PGW_DEFAULT);
    st = v->call();
    if (st != v->repeat && st < PGW_OK) {
        snprintf(where + strlen(where), sizeof(where) - strlen(where), ": the repeat: %s",
                 pgw_status_name(st));
        TEST_FAIL_MESSAGE(where);
    }
    TEST_ASSERT_TRUE_MESSAGE(is_done(v), where);
    return true;
}

/* PGW_WIRE_ALL=1: at each message. Else at every fourth one, of each verb at others. */
static void disturb_all(const fault *f)
{
    const int step = getenv("PGW_WIRE_ALL") ? 1 : 4, count = sizeof(verbs) / sizeof(verbs[0]);
    int times = 0;

    for (int i = 0; i < count; i++)
        for (int n = 1 + i % step; n < 60 && disturb(&verbs[i], f, n); n += step) times++;
    printf("%s: at %d messages of %d verbs\n", f->name, times, count);
    TEST_ASSERT_TRUE(times > count);
}

void test_a_cut_at_each_message_of_each_verb_has_a_true_outcome_and_one_effect(void)
{
    const fault f = {"cut", WIRE_CUT, NULL, 0, 0, false};

    disturb_all(&f);
}

void test_a_last_error_before_the_cut_changes_nothing_of_that(void)
{
    size_t size;
    const char *words = wire_message('E', "FATAL", "57P01", "terminating connection", &size);
    const fault f = {"cut with 57P01", WIRE_CUT, words, size, 0, false};

    disturb_all(&f);
}

void test_silence_at_each_message_of_each_verb_has_a_true_outcome_and_one_effect(void)
{
    const fault f = {"silence", WIRE_SILENT, NULL, 0, 160, false};

    disturb_all(&f);
}

void test_a_delay_at_each_message_of_each_verb_changes_nothing(void)
{
    const fault f = {"delay", WIRE_DELAY, NULL, 0, 0, true};

    disturb_all(&f);
}

/* A notice, a changed parameter and a notification, as a server may send them at any time. */
void test_other_messages_before_each_message_of_each_verb_change_nothing(void)
{
    static const char more[] = "S\0\0\0\x17"
                               "application_name\0x\0"    /* 4 + 17 + 2 */
                               "A\0\0\0\x0c\0\0\0\1c\0p"; /* the last byte is that of the string */
    char words[1400];
    size_t size;
    const char *notice = wire_message('N', "NOTICE", "00000", "by the way", &size);
    fault f = {"other messages", WIRE_PASS, words, 0, 0, true};

    memcpy(words, notice, size);
    memcpy(words + size, more, sizeof(more));
    f.size = size + sizeof(more);
    disturb_all(&f);
}
