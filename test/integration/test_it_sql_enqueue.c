/* Enqueue: all or nothing, unique keys, operation ids, times, and refusals. Longer than 600 lines:
 * every argument of enqueue() and enqueue_many() is refused or accepted in one place. */
#include "unity.h"
#include "pgtemp.h"
#include "sqlkit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static PGconn *a, *b;
static struct took job, jobs[100];

void setUp(void)
{
    kit_begin();
    a = kit_open();
    b = kit_open();
}

void tearDown(void)
{
    kit_end();
}

static long long rows_of_all_tables(void)
{
    return kit_number(a, "SELECT (SELECT count(*) FROM pgwork.live_job)"
                         " + (SELECT count(*) FROM pgwork.delayed_job)"
                         " + (SELECT count(*) FROM pgwork.dead_job)"
                         " + (SELECT count(*) FROM pgwork.done_job)"
                         " + (SELECT count(*) FROM pgwork.unique_key)"
                         " + (SELECT count(*) FROM pgwork.operation)");
}

/* -- in the caller's transaction ----------------------------------------------------------------
 */

#define OP "'6b1f0e0a-9f3c-4a57-8a5e-111111111111'"

void test_a_rolled_back_enqueue_leaves_nothing(void)
{
    for (int i = 0; i < 2; i++) { /* twice: nothing is in the way of the second */
        kit_do(a, "BEGIN");
        kit_do(a, "SELECT pgwork.enqueue('q', key => 'k', op => " OP ")");
        kit_do(a, "SELECT pgwork.enqueue('q', delay_ms => 1000, key => 'l')");
        kit_do(a, "SELECT pgwork.enqueue_many('new', '{1,2}', keys => '{m,n}')");
        TEST_ASSERT_EQUAL_INT(0, kit_claim(b, "q,new", 9, jobs));
        kit_do(a, "ROLLBACK");
        TEST_ASSERT_EQUAL_INT64(0, rows_of_all_tables());
        TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT count(*) FROM pgwork.queue"));
    }
    TEST_ASSERT_EQUAL_STRING(
        "new", kit_text(a, "SELECT outcome FROM pgwork.enqueue('q', key => 'k', op => " OP ")"));
}

void test_an_enqueue_is_seen_at_its_commit(void)
{
    kit_do(a, "SELECT pgwork.queue_create('q')");
    kit_do(a, "BEGIN");
    kit_put(a, "q");
    TEST_ASSERT_EQUAL_INT(0, kit_claim(b, "q", 1, &job));
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, &job)); /* its own transaction may go on */
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "release", &job, ""));
    kit_do(a, "COMMIT");
    for (long long end = kit_ms() + 10000; kit_ms() < end && kit_claim(b, "q", 1, &job) == 0;)
        kit_sleep_ms(5);
    TEST_ASSERT_EQUAL_INT(1, job.attempt);
}

/* -- unique keys --------------------------------------------------------------------------------
 */

static const char *const scopes[] = {"ready", "unfinished", "period"};
static const char *const policies[] = {"skip", "replace", "error"};

enum { PRODUCERS = 64 };

struct keys {
    int fresh[9], other[9], wrong[9];
};

static void same_key(PGconn *conn, int i, void *ctx)
{
    struct keys *all = ctx;
    static const char *const outcomes[] = {"exists", "replaced", "PW005"};

    for (int round = 0; round < 9; round++) {
        char outcome[16];

        kit_together();
        PGresult *res = PQexecParams(
            conn,
            "SELECT outcome FROM pgwork.enqueue('race', key => $1, key_scope => $2, key_policy => "
            "$3, key_period_ms => 60000)",
            3, NULL, (const char *[]){policies[round % 3], scopes[round / 3], policies[round % 3]},
            NULL, NULL, 0);
        const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE);

        snprintf(outcome, sizeof(outcome), "%s", state ? state : PQgetvalue(res, 0, 0));
        PQclear(res);
        if (strcmp(outcome, "new") == 0)
            __atomic_add_fetch(&all->fresh[round], 1, __ATOMIC_SEQ_CST);
        else if (strcmp(outcome, outcomes[round % 3]) == 0)
            __atomic_add_fetch(&all->other[round], 1, __ATOMIC_SEQ_CST);
        else
            __atomic_add_fetch(&all->wrong[round], 1, __ATOMIC_SEQ_CST);
        kit_together();
        if (i == 0 && round % 3 == 2)
            kit_do(conn,
                   "SELECT pgwork.queue_purge('race')"); /* frees the keys for the next scope */
    }
}

void test_one_of_64_racing_producers_of_a_key_creates_the_job(void)
{
    struct keys all;

    memset(&all, 0, sizeof(all));
    kit_do(a, "SELECT pgwork.queue_create('race')");
    kit_race(PRODUCERS, same_key, &all);
    for (int round = 0; round < 9; round++) {
        TEST_ASSERT_EQUAL_INT(0, all.wrong[round]);
        TEST_ASSERT_EQUAL_INT(1, all.fresh[round]);
        TEST_ASSERT_EQUAL_INT(PRODUCERS - 1, all.other[round]);
    }
    kit_do(a, "UPDATE pgwork.unique_key SET free_after = clock_timestamp()"); /* of a period */
    TEST_ASSERT_EQUAL_INT64(3, kit_number(a, "SELECT pgwork.prune()"));
    TEST_ASSERT_EQUAL_INT64(0, rows_of_all_tables());
}

/* Enqueues of one key go on while the job of it is claimed and completed. */
static void produce_and_consume(PGconn *conn, int i, void *ctx)
{
    int *fresh = ctx;
    struct took mine;

    for (int k = 0; k < 60; k++) {
        if (i % 2) {
            if (kit_claim(conn, "race", 1, &mine)) kit_say(conn, "complete", &mine, "");
        } else if (strcmp("new", kit_text(conn, "SELECT outcome FROM pgwork.enqueue('race', key => "
                                                "'k', key_scope => 'ready')")) == 0) {
            __atomic_add_fetch(fresh, 1, __ATOMIC_SEQ_CST);
        }
    }
}

void test_a_key_freed_by_claims_under_way_never_yields_two_ready_jobs(void)
{
    int fresh = 0;
    long long done;

    kit_do(a, "SELECT pgwork.queue_create('race', retention_ms => 3600000)");
    kit_race(8, produce_and_consume, &fresh);
    TEST_ASSERT_TRUE(kit_number(a, "SELECT ready FROM pgwork.depth('race')") <= 1);
    done = kit_number(a, "SELECT ready + done FROM pgwork.depth('race')");
    TEST_ASSERT_EQUAL_INT64(fresh, done);
    TEST_ASSERT_EQUAL_INT64(kit_number(a, "SELECT ready FROM pgwork.depth('race')"),
                            kit_number(a, "SELECT count(*) FROM pgwork.unique_key"));
}

static const char *put_key(const char *scope)
{
    return kit_text(a,
                    "SELECT outcome FROM pgwork.enqueue('q', key => 'k', key_scope => '%s', "
                    "key_period_ms => 60000)",
                    scope);
}

void test_a_key_is_freed_as_its_scope_says(void)
{
    TEST_ASSERT_EQUAL_STRING("new", put_key("ready"));
    TEST_ASSERT_EQUAL_STRING("exists", put_key("ready"));
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, &job));
    TEST_ASSERT_EQUAL_STRING("new", put_key("ready"));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &job, "")); /* not its key any more */
    TEST_ASSERT_EQUAL_STRING("exists", put_key("ready"));
    kit_do(a, "SELECT pgwork.queue_purge('q')");

    TEST_ASSERT_EQUAL_STRING("new", put_key("unfinished"));
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, &job));
    TEST_ASSERT_EQUAL_STRING("exists", put_key("unfinished"));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", &job, ", 'boom', 0"));
    TEST_ASSERT_EQUAL_STRING("exists", put_key("unfinished"));
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, &job));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &job, ""));
    TEST_ASSERT_EQUAL_STRING("new", put_key("unfinished"));
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, &job));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", &job, ", 'boom', 0, true")); /* dead */
    TEST_ASSERT_EQUAL_STRING("new", put_key("unfinished"));
    kit_do(a, "SELECT pgwork.cancel('q', array_agg(id)) FROM pgwork.job WHERE state = 'ready'");
    TEST_ASSERT_EQUAL_STRING("new", put_key("unfinished"));
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, &job));
    kit_do(a, "SELECT pgwork.cancel('q', '{%lld}')", job.id); /* heard at the end */
    TEST_ASSERT_EQUAL_STRING("exists", put_key("unfinished"));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "release", &job, ""));

    TEST_ASSERT_EQUAL_STRING("new", put_key("period"));
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, &job));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &job, ""));
    TEST_ASSERT_EQUAL_STRING("exists", put_key("period"));
    kit_do(a, "UPDATE pgwork.unique_key SET free_after = clock_timestamp()");
    TEST_ASSERT_EQUAL_STRING("new", put_key("period"));
    kit_do(a, "UPDATE pgwork.unique_key SET free_after = clock_timestamp()");
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT pgwork.prune()"));
    TEST_ASSERT_EQUAL_STRING("new", put_key("period"));
}

void test_a_key_of_a_period_stays_taken_when_its_job_is_cancelled_or_purged(void)
{
    static const char *const ends[][2] = {
        {"0", "SELECT pgwork.cancel('q', array_agg(id)) FROM pgwork.job"},
        {"60000", "SELECT pgwork.cancel('q', array_agg(id)) FROM pgwork.job"},
        {"0", "SELECT pgwork.queue_purge('q', 'ready')"},
        {"60000", "SELECT pgwork.queue_purge('q', 'delayed')"}};

    for (int i = 0; i < 4; i++) {
        TEST_ASSERT_EQUAL_STRING(
            "new", kit_text(a,
                            "SELECT outcome FROM pgwork.enqueue('q', key => 'k', key_scope => "
                            "'period', key_period_ms => 60000, delay_ms => %s)",
                            ends[i][0]));
        kit_do(a, "%s", ends[i][1]);
        TEST_ASSERT_EQUAL_STRING("0 0 0 0 0", kit_places(a, "q"));
        TEST_ASSERT_EQUAL_STRING("exists", put_key("period"));
        kit_do(a, "UPDATE pgwork.unique_key SET free_after = clock_timestamp()");
    }
}

void test_a_retry_keeps_the_key_while_the_job_is_delayed(void)
{
    TEST_ASSERT_EQUAL_STRING("new", put_key("unfinished"));
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, &job));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", &job, ", 'boom', 60000"));
    TEST_ASSERT_EQUAL_STRING("exists", put_key("unfinished"));
    kit_due(a, "q");
    kit_do(a, "SELECT pgwork.promote()");
    TEST_ASSERT_EQUAL_STRING("exists", put_key("unfinished"));
    kit_claim(a, "q", 1, &job);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &job, ""));
    TEST_ASSERT_EQUAL_STRING("new", put_key("unfinished"));
}

static const char *replace(int payload)
{
    return kit_text(
        a, "SELECT outcome FROM pgwork.enqueue('q', '%d', key => 'k', key_policy => 'replace')",
        payload);
}

void test_replace_changes_the_payload_of_a_job_that_waits(void)
{
    static const char payload[] = "SELECT payload FROM pgwork.job";

    kit_do(a, "SELECT pgwork.enqueue('q', '1', delay_ms => 60000, key => 'k')");
    TEST_ASSERT_EQUAL_STRING("replaced", replace(2));
    TEST_ASSERT_EQUAL_STRING("2", kit_text(a, payload));
    kit_due(a, "q");
    kit_do(a, "SELECT pgwork.promote()");
    TEST_ASSERT_EQUAL_STRING("replaced", replace(3));
    TEST_ASSERT_EQUAL_STRING("3", kit_text(a, payload));
    kit_claim(a, "q", 1, &job);
    TEST_ASSERT_EQUAL_STRING("exists", replace(4)); /* running: left alone */
    TEST_ASSERT_EQUAL_STRING("3", kit_text(a, payload));
    kit_say(a, "release", &job, "");
    TEST_ASSERT_EQUAL_STRING("replaced", replace(5));
    TEST_ASSERT_EQUAL_STRING("5", kit_text(a, payload));
    TEST_ASSERT_EQUAL_STRING("1 0 0 0 0", kit_places(a, "q"));
}

void test_replace_follows_a_job_that_moves(void)
{
    PGconn *producer = kit_open();

    kit_do(a, "SELECT pgwork.enqueue('q', '1', delay_ms => 60000, key => 'k')");
    kit_due(a, "q");
    kit_do(b, "BEGIN; SELECT pgwork.promote()");
    kit_send(producer,
             "SELECT outcome FROM pgwork.enqueue('q', '2', key => 'k', key_policy => 'replace')");
    kit_blocked(producer, a);
    kit_do(b, "COMMIT");
    TEST_ASSERT_EQUAL_STRING("replaced", kit_answer(producer));
    TEST_ASSERT_EQUAL_STRING("2 ready",
                             kit_text(a, "SELECT concat_ws(' ', payload, state) FROM pgwork.job"));
}

/* Whatever a producer did with a key in a transaction that stays open: work goes on. */
void test_an_open_transaction_with_a_key_keeps_nobody_waiting(void)
{
    static const char *const others[] = {"ready", "unfinished"};
    PGconn *producer = kit_open();

    kit_do(a, "SET lock_timeout = '3s'");
    for (int i = 0; i < 4; i++) {
        char enqueue[200];

        snprintf(enqueue, sizeof(enqueue),
                 "SELECT outcome FROM pgwork.enqueue('q', key => 'k', key_scope => '%s')",
                 others[i / 2]);
        TEST_ASSERT_EQUAL_STRING("new", kit_text(a, "%s", enqueue));
        kit_do(producer, "BEGIN");
        if (i % 2 == 0) TEST_ASSERT_EQUAL_STRING("exists", kit_text(producer, "%s", enqueue));
        TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, &job));
        TEST_ASSERT_EQUAL_STRING(i == 1 ? "new" : "exists",
                                 i % 2 ? kit_text(producer, "%s", enqueue) : "exists");
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "extend", &job, ""));
        if (i == 2) {
            TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", &job, ", 'boom', 0, true"));
        } else {
            TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &job, ""));
        }
        kit_do(producer, i == 1 ? "ROLLBACK" : "COMMIT");
        TEST_ASSERT_EQUAL_STRING("new", kit_text(a, "%s", enqueue)); /* the key is free */
        kit_do(a, "SELECT pgwork.queue_purge('q')");
    }
}

void test_keys_of_different_queues_have_nothing_to_do_with_each_other(void)
{
    kit_do(a, "SELECT pgwork.enqueue('q', key => 'k')");
    TEST_ASSERT_EQUAL_STRING("new",
                             kit_text(a, "SELECT outcome FROM pgwork.enqueue('p', key => 'k')"));
}

/* -- operation ids ------------------------------------------------------------------------------
 */

struct repeats {
    long long id[16];
    int fresh;
};

static void same_op(PGconn *conn, int i, void *ctx)
{
    struct repeats *r = ctx;
    PGresult *res =
        kit_rows(conn, "SELECT id, outcome FROM pgwork.enqueue('race', '%d', op => " OP ")", i);

    r->id[i] = strtoll(PQgetvalue(res, 0, 0), NULL, 10);
    if (strcmp(PQgetvalue(res, 0, 1), "new") == 0)
        __atomic_add_fetch(&r->fresh, 1, __ATOMIC_SEQ_CST);
    PQclear(res);
}

void test_sixteen_racing_repeats_of_an_operation_make_one_job(void)
{
    struct repeats r;

    memset(&r, 0, sizeof(r));
    kit_race(16, same_op, &r);
    TEST_ASSERT_EQUAL_INT(1, r.fresh);
    for (int i = 1; i < 16; i++) TEST_ASSERT_EQUAL_INT64(r.id[0], r.id[i]);
    TEST_ASSERT_EQUAL_STRING("1 0 0 0 0", kit_places(a, "race"));
}

void test_an_operation_of_many_is_repeated_in_order(void)
{
    static const char many[] =
        "SELECT string_agg(id || outcome, ',') FROM pgwork.enqueue_many('q', '{1,2,3}', op => " OP
        ")";
    char first[200];
    const char *at;

    snprintf(first, sizeof(first), "%s", kit_text(a, many));
    kit_claim(a, "q", 3, jobs);
    for (int i = 0; i < 3; i++) kit_say(a, "complete", jobs + i, ""); /* finished, but applied */
    at = kit_text(a, many);
    TEST_ASSERT_EQUAL_STRING(kit_text(a, "SELECT replace('%s', 'new', 'repeated')", first), at);
    TEST_ASSERT_EQUAL_STRING("0 0 0 0 0", kit_places(a, "q"));
    kit_do(a, "SELECT pgwork.setting('op_retention_ms', '0')");
    kit_do(a, "SELECT pgwork.prune()"); /* forgotten */
    TEST_ASSERT_NOT_NULL(strstr(kit_text(a, many), "new"));
}

/* Whoever repeats it wants to know whether it was applied, not whether it would be now. */
void test_a_repeat_is_answered_whatever_has_changed_since(void)
{
    static const char one[] = "SELECT outcome FROM pgwork.enqueue('q', '\"long\"', op => " OP ")";
    static const char many[] =
        "SELECT string_agg(outcome, ',') FROM pgwork.enqueue_many('q', '{1,2}', op => "
        "'6b1f0e0a-9f3c-4a57-8a5e-222222222222')";

    TEST_ASSERT_EQUAL_STRING("new", kit_text(a, one));
    TEST_ASSERT_EQUAL_STRING("new,new", kit_text(a, many));
    kit_do(a, "SELECT pgwork.queue_drain('q')");
    TEST_ASSERT_EQUAL_STRING("repeated", kit_text(a, one));
    TEST_ASSERT_EQUAL_STRING("repeated,repeated", kit_text(a, many));
    kit_refused(a, "PW004", "drained", "SELECT pgwork.enqueue('q', op => gen_random_uuid())");
    kit_do(a, "SELECT pgwork.queue_resume('q'), pgwork.queue_set('q', max_bytes => 1)");
    TEST_ASSERT_EQUAL_STRING("repeated", kit_text(a, one));
    TEST_ASSERT_EQUAL_STRING("repeated,repeated", kit_text(a, many));
    kit_refused(a, "PW002", "at most 1",
                "SELECT pgwork.enqueue('q', '\"long\"', op => gen_random_uuid())");
    TEST_ASSERT_EQUAL_INT64(2, kit_number(a, "SELECT count(*) FROM pgwork.operation"));
}

/* -- many ---------------------------------------------------------------------------------------
 */

void test_many_come_in_order_with_arrays_of_n_or_one(void)
{
    static const char by_id[] = "SELECT string_agg(concat_ws(' ', payload, kind, priority, "
                                "max_attempts, tags), '; ' ORDER BY id)"
                                " FROM pgwork.job";

    TEST_ASSERT_TRUE(kit_number(
        a, "SELECT (array_agg(id ORDER BY o) = array_agg(id ORDER BY id))::int FROM "
           "pgwork.enqueue_many('q', '{1,2,3}', kinds => '{x,y,NULL}', priorities => '{5}',"
           " max_attempts => '{3,NULL,4}', tags => '{\"{a,b}\"}')"
           " WITH ORDINALITY m (id, outcome, o)"));
    TEST_ASSERT_EQUAL_STRING("1 x 5 3 {a,b}; 2 y 5 10 {a,b}; 3  5 4 {a,b}", kit_text(a, by_id));
    kit_do(a, "SELECT pgwork.queue_purge('q')");
    kit_do(a, "SELECT pgwork.enqueue_many('q', '{1,2}', keys => '{z,y}', kinds => '{k}', bodies => "
              "'{\\\\x01}', leases_ms => '{5000}')");
    TEST_ASSERT_EQUAL_STRING("1 k 0 10; 2 k 0 10", kit_text(a, by_id));
    kit_do(a, "SELECT pgwork.enqueue_many('q', '{}'), pgwork.enqueue_many('q', NULL)");
    TEST_ASSERT_EQUAL_STRING("2 0 0 0 0", kit_places(a, "q"));
}

/* Payloads alone take a shorter way than the other columns. */
void test_payloads_alone_come_in_order_whatever_they_are(void)
{
    static const char in_order[] =
        "SELECT string_agg(coalesce(j.payload::text, '-'), ' ' ORDER BY m.o)"
        " || ' ' || (array_agg(m.id ORDER BY m.o) = array_agg(m.id ORDER BY m.id))"
        " FROM m JOIN pgwork.job j USING (id)";

    kit_do(a, "SELECT pgwork.queue_create('q')");
    kit_do(a, "CREATE TEMP TABLE m AS SELECT * FROM"
              " pgwork.enqueue_many('q', '{{3,1},{NULL,2}}') WITH ORDINALITY m (id, outcome, o)");
    TEST_ASSERT_EQUAL_STRING("3 1 - 2 true", kit_text(a, in_order));
    TEST_ASSERT_EQUAL_INT64(0,
                            kit_number(a, "SELECT count(*) FROM pgwork.enqueue_many('q', '{}')"));
    TEST_ASSERT_EQUAL_INT64(0,
                            kit_number(a, "SELECT count(*) FROM pgwork.enqueue_many('q', NULL)"));
    TEST_ASSERT_EQUAL_INT64(
        1, kit_number(a, "SELECT (array_agg(id) = array_agg(id ORDER BY id))::int FROM"
                         " pgwork.enqueue_many('q', ARRAY(SELECT to_jsonb(i)"
                         " FROM generate_series(1, 1000) i))"));
    TEST_ASSERT_EQUAL_INT64(
        1, kit_number(a, "SELECT (count(*) = 1000 AND bool_and(payload = to_jsonb(i)))::int"
                         " FROM (SELECT payload, row_number() OVER (ORDER BY id) i FROM pgwork.job"
                         " WHERE id > (SELECT max(id) FROM m)) p"));
    kit_refused(a, "PW001", "key_scope|NULL",
                "SELECT pgwork.enqueue_many('q', '{1}', key_scope => NULL)");
    kit_refused(a, "PW001", "key_policy|\"x\"",
                "SELECT pgwork.enqueue_many('q', '{1}', key_policy => 'x')");
    TEST_ASSERT_EQUAL_STRING("1004 0 0 0 0", kit_places(a, "q"));
    kit_do(a, "DROP TABLE m");
}

/* Else a claim could see a later place used and not wait for the transaction of an earlier one. */
void test_a_position_is_drawn_by_a_transaction_that_has_its_id(void)
{
    static const char *const settings[] = {
        "plan_cache_mode = force_generic_plan",
        "plan_cache_mode = force_custom_plan",
        "enable_indexscan = off",
        "enable_nestloop = off",
        "enable_material = off",
    };

    kit_do(a, "SELECT pgwork.queue_create('q')");
    kit_do(a,
           "ALTER TABLE pgwork.live_job ALTER pos SET DEFAULT"
           " 1 / (pg_current_xact_id_if_assigned() IS NOT NULL)::int * nextval('pgwork.position')");
    TEST_ASSERT_EQUAL_STRING("22012", kit_state(a, "INSERT INTO pgwork.live_job DEFAULT VALUES"));
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        PGconn *c = kit_open();

        kit_do(c, "SET %s", settings[i]);
        for (int again = 0; again < 2; again++) {
            kit_do(c, "SELECT pgwork.enqueue('q')");
            TEST_ASSERT_EQUAL_INT64(
                1, kit_number(c, "SELECT (array_agg(id) = array_agg(id ORDER BY id))::int FROM"
                                 " pgwork.enqueue_many('q', '{1,2,3}')"));
        }
        kit_close(c);
    }
    kit_do(a, "ALTER TABLE pgwork.live_job ALTER pos SET DEFAULT nextval('pgwork.position')");
    TEST_ASSERT_EQUAL_STRING("40 0 0 0 0", kit_places(a, "q"));
}

void test_many_with_one_key_make_one_job(void)
{
    TEST_ASSERT_EQUAL_STRING("new,exists,exists",
                             kit_text(a, "SELECT string_agg(outcome, ',') FROM "
                                         "pgwork.enqueue_many('q', '{1,2,3}', keys => '{k}')"));
    TEST_ASSERT_EQUAL_STRING(
        "new,exists,new", kit_text(a, "SELECT string_agg(outcome, ',') FROM "
                                      "pgwork.enqueue_many('q', '{1,2,3}', keys => '{m,k,NULL}')"));
    TEST_ASSERT_EQUAL_STRING("3 0 0 0 0", kit_places(a, "q"));
}

void test_jobs_of_one_call_may_have_different_times(void)
{
    kit_do(a, "SELECT pgwork.enqueue_many('q', '{1,2,3}', delays_ms => '{60000,NULL,0}')");
    TEST_ASSERT_EQUAL_STRING("2 0 1 0 0", kit_places(a, "q"));
    kit_do(a, "SELECT pgwork.enqueue_many('q', '{4,5}', run_ats => ARRAY[now() + '1 h', now() - '1 "
              "h'::interval])");
    TEST_ASSERT_EQUAL_STRING("3 0 2 0 0", kit_places(a, "q"));
    kit_do(a, "SELECT pgwork.enqueue_many('q', '{6,7}', delays_ms => '{60000}', keys => '{a,b}')");
    TEST_ASSERT_EQUAL_STRING("3 0 4 0 0", kit_places(a, "q"));
}

void test_one_bad_element_refuses_all(void)
{
    static const struct {
        const char *words, *more;
    } bad[] = {
        {"priority|10|0..9 (0 comes first)|This is element 2 of the call.",
         "priorities => '{0,10}'"},
        {"priority|-1|This is element 1 of the call.", "priorities => '{-1}'"},
        {"kind|255 bytes|This is element 2 ", "kinds => ARRAY['', repeat('x', 256)]"},
        {"max_attempts|1001|1..1000|element 2 ", "max_attempts => '{1,1001}'"},
        {"lease_ms|99|100..86400000|element 2 ", "leases_ms => '{100,99}'"},
        {"tags|not an array|{a,b}", "tags => '{x}'"},
        {"tags|33|at most 32|element 2 ",
         "tags => ARRAY['{a}', array_fill('t'::text, ARRAY[33])::text]"},
        {"key|1 to 255 bytes|element 2 ", "keys => ARRAY['a', '']"},
        {"kind|control characters|element 2 ", "kinds => ARRAY['a', E'b\\n']"},
        {"meta|number|object|element 2 ", "metas => '{\"{}\",1}'"},
        {"grp|1 to 255 bytes|element 1 ", "grps => '{\"\"}'"},
        {"key|1 to 255 bytes|element 2 ", "keys => ARRAY['a', repeat('x', 256)]"},
        {"delay_ms|-1|0..|element 2 ", "delays_ms => '{0,-1}'"},
        {"delay_ms|-1|0..|element 2 ", "delays_ms => '{0,-1}', keys => '{a,b}'"},
        {"run_at|infinity|a time up to|ten years|element 2 ", "run_ats => '{now,infinity}'"},
        {"kinds|3 elements|2 elements", "kinds => '{a,b,c}'"},
        {"keys|0 elements|2 elements", "keys => '{}'"},
        {"bodies|3 elements", "bodies => '{a,b,c}'"},
        {"key_scope|\"never\"|ready, unfinished or period", "keys => '{a}', key_scope => 'never'"},
        {"key_period_ms|NULL", "keys => '{a}', key_scope => 'period'"}};

    kit_do(a, "SELECT pgwork.queue_create('q')");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        kit_refused(a, "PW001", bad[i].words,
                    "SELECT pgwork.enqueue_many('q', '{1,2}', op => " OP ", %s)", bad[i].more);
    TEST_ASSERT_EQUAL_INT64(0, rows_of_all_tables());
    kit_refused(a, "PW005", "unique key|element 2 ",
                "SELECT pgwork.enqueue_many('q', '{1,2}', keys => '{a,a}', key_policy => 'error')");
    TEST_ASSERT_EQUAL_INT64(0, rows_of_all_tables());
}

static void overlapping_keys(PGconn *conn, int i, void *ctx)
{
    for (int k = 0; k < 15; k++)
        kit_do(
            conn,
            "SELECT pgwork.enqueue_many('race', array_fill('1'::jsonb, ARRAY[40]), keys => ("
            "SELECT array_agg('key ' || g ORDER BY g * %d %% 41) FROM generate_series(1, 40) g))",
            i + 1);
    (void)ctx;
}

void test_batches_with_the_same_keys_do_not_deadlock(void)
{
    kit_race(6, overlapping_keys, NULL);
    TEST_ASSERT_EQUAL_STRING("40 0 0 0 0", kit_places(a, "race"));
}

/* -- times --------------------------------------------------------------------------------------
 */

void test_a_delayed_job_is_not_claimed_before_its_time(void)
{
    kit_do(a, "SELECT pgwork.enqueue('q', run_at => clock_timestamp() + '1 h'), "
              "pgwork.enqueue('q', delay_ms => 2000)");
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT promoted FROM pgwork.promote()"));
    TEST_ASSERT_EQUAL_INT(0, kit_claim(b, "q", 9, jobs));
    for (long long end = kit_ms() + 10000; kit_ms() < end && kit_claim(b, "q", 1, &job) == 0;) {
        kit_do(a, "SELECT pgwork.maintain()");
        kit_sleep_ms(10);
    }
    TEST_ASSERT_EQUAL_STRING("t", kit_text(a, "SELECT clock_timestamp() >= created_at + '2 s' "
                                              "FROM pgwork.job WHERE state = 'leased'"));
    TEST_ASSERT_EQUAL_STRING("0 1 1 0 0", kit_places(a, "q"));
}

void test_a_time_that_is_past_means_now(void)
{
    kit_do(
        a,
        "SELECT pgwork.enqueue('q', run_at => '2000-01-01'), pgwork.enqueue('q', delay_ms => 0)");
    TEST_ASSERT_EQUAL_STRING("2 0 0 0 0", kit_places(a, "q"));
}

/* -- waking -------------------------------------------------------------------------------------
 */

/* How often b has woken a until now: a mark that b sends on another channel comes behind. */
static int wakes(void)
{
    const long long end = kit_ms() + 30000;

    kit_do(b, "NOTIFY mark");
    for (int n = 0;;) {
        PGnotify *note;
        bool mark = false;

        kit_do(a, "SELECT 1");
        while (!mark && (note = PQnotifies(a)) != NULL) {
            mark = strcmp(note->relname, "mark") == 0;
            if (!mark)
                TEST_ASSERT_EQUAL_STRING("pgwork_wake_pgwork q",
                                         kit_text(b, "SELECT '%s %s'", note->relname, note->extra));
            n += !mark;
            PQfreemem(note);
        }
        if (mark) return n;
        TEST_ASSERT_TRUE(kit_ms() < end);
    }
}

void test_an_enqueue_notifies_waiters_unless_the_queue_has_notify_off(void)
{
    static const char *const calls[] = {"enqueue('q')", "enqueue_many('q', '{1,2}')",
                                        "enqueue('q', tags => '{t}')",
                                        "enqueue_many('q', '{1}', kinds => '{k}')"};

    kit_do(a, "SELECT pgwork.queue_create('q')");
    kit_do(a, "LISTEN mark");
    kit_do(a, "LISTEN pgwork_wake_pgwork");
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        kit_do(b, "SELECT pgwork.%s", calls[i]);
        TEST_ASSERT_EQUAL_INT(0, wakes()); /* awake */
        kit_do(a, "SELECT pgwork.idle('{q}')");
        kit_do(b, "SELECT pgwork.%s", calls[i]);
        TEST_ASSERT_EQUAL_INT(1, wakes());
        kit_do(b, "SELECT pgwork.queue_set('q', notify => false)");
        kit_do(b, "SELECT pgwork.%s", calls[i]);
        TEST_ASSERT_EQUAL_INT(0, wakes());
        kit_do(b, "SELECT pgwork.queue_set('q', notify => true)");
        kit_do(a, "SELECT pgwork.awake('{q}')");
    }
}

/* -- limits -------------------------------------------------------------------------------------
 */

void test_an_argument_out_of_range_is_named_with_the_allowed_values(void)
{
    static const struct {
        const char *state, *words, *call;
    } bad[] = {
        {"PW001", "queue|NULL|1 to 200 bytes", "NULL"},
        {"PW001", "queue|\"\"", "''"},
        {"PW001", "queue|1 to 200 bytes", "repeat('q', 201)"},
        {"PW001", "queue|control characters", "E'a\\nb'"},
        {"PW001", "priority|10", "'q', priority => 10"},
        {"PW001", "priority|-2147483648", "'q', priority => -2147483648"},
        {"PW001", "kind|255", "'q', kind => repeat('k', 256)"},
        {"PW001", "tags|33 tags|at most 32", "'q', tags => array_fill('t'::text, ARRAY[33])"},
        {"PW001", "tags|255 bytes", "'q', tags => ARRAY[repeat('t', 256)]"},
        {"PW001", "key|\"\"|1 to 255 bytes", "'q', key => ''"},
        {"PW001", "key|1 to 255 bytes", "'q', key => repeat('k', 256)"},
        {"PW001", "kind|control characters", "'q', kind => E'a\\nb'"},
        {"PW001", "tags|control characters", "'q', tags => ARRAY[E'a\\x7f']"},
        {"PW001", "key|control characters", "'q', key => E'\\x1b[2J'"},
        {"PW001", "grp|control characters", "'q', grp => E'a\\tb'"},
        {"PW001", "grp|\"\"|1 to 255 bytes", "'q', grp => ''"},
        {"PW001", "grp|1 to 255 bytes", "'q', grp => repeat('g', 256)"},
        {"PW001", "expires_at|infinity", "'q', expires_at => 'infinity'"},
        {"PW001", "expires_at|294276|294247", "'q', expires_at => '294276-12-31'"},
        {"PW001", "run_at|294276|ten years", "'q', run_at => '294276-12-31'"},
        {"PW001", "run_at|ten years", "'q', run_at => now() + interval '3650 days 2 hours'"},
        {"PW001", "meta|array|object", "'q', meta => '[1]'"},
        {"PW001", "key_scope|\"x\"", "'q', key => 'k', key_scope => 'x'"},
        {"PW001", "key_scope|NULL", "'q', key => 'k', key_scope => NULL"},
        {"PW001", "key_policy|\"x\"", "'q', key => 'k', key_policy => 'x'"},
        {"PW001", "key_period_ms|NULL", "'q', key => 'k', key_scope => 'period'"},
        {"PW001", "key_period_ms|0", "'q', key => 'k', key_scope => 'period', key_period_ms => 0"},
        {"PW001", "max_attempts|0", "'q', max_attempts => 0"},
        {"PW001", "lease_ms|9223372036854775807", "'q', lease_ms => 9223372036854775807"},
        {"PW001", "delay_ms|-1", "'q', delay_ms => -1"},
        {"PW001", "delay_ms|9223372036854775807", "'q', delay_ms => 9223372036854775807"},
        {"PW001", "delay_ms|run_at", "'q', delay_ms => 1, run_at => now()"},
        {"PW001", "run_at|infinity", "'q', run_at => 'infinity'"},
        {"PW001", "run_at|infinity", "'q', run_at => '-infinity'"},
        {"PW002", "16777216", "'q', jsonb_build_object('a', repeat('x', 16777216))"},
        {"PW002", "16777216|16777217", "'q', body => convert_to(repeat('x', 16777217), 'UTF8')"},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        kit_refused(a, bad[i].state, bad[i].words, "SELECT pgwork.enqueue(%s)", bad[i].call);
    TEST_ASSERT_EQUAL_INT64(0, rows_of_all_tables());
    TEST_ASSERT_EQUAL_INT64(
        0, kit_number(a, "SELECT count(*) FROM pgwork.queue")); /* no partial effect */
}

void test_no_more_queues_are_made_than_the_setting_allows(void)
{
    kit_do(a, "SELECT pgwork.setting('max_queues', '2'); SELECT pgwork.queue_create('q'); SELECT "
              "pgwork.enqueue('r')");
    kit_refused(a, "PW002", "cannot create queue \"one\"|at most 2",
                "SELECT pgwork.queue_create('one')");
    kit_refused(a, "PW002", "cannot create queue \"one\"|at most 2",
                "SELECT pgwork.enqueue('one')");
    kit_refused(a, "PW002", "cannot create queue \"one\"",
                "SELECT count(*) FROM pgwork.enqueue_many('one', '{1}')");
    kit_do(a, "SELECT pgwork.queue_create('q', 5000); SELECT pgwork.enqueue('r')");
    kit_do(a, "SELECT pgwork.queue_drop('q'); SELECT pgwork.enqueue('one')");
    kit_refused(a, "PW001", "value|\"many\"", "SELECT pgwork.setting('max_queues', 'many')");
}

/* One element stands for all jobs, and is stored with each. */
void test_a_call_of_many_stores_at_most_256_mb(void)
{
    static const struct {
        const char *words, *call;
    } bad[] = {
        {"60 jobs have 3145|a call accepts at most 268435456",
         "array_fill('1'::jsonb, ARRAY[60]), bodies => ARRAY[convert_to(repeat('x', 5242880), "
         "'UTF8')]"},
        {"10000 jobs have 5", "array_fill('1'::jsonb, ARRAY[10000]), metas => "
                              "ARRAY[jsonb_build_object('a', repeat('x', 50000))]"},
        {"10000 jobs have ", "array_fill('1'::jsonb, ARRAY[10000]), tags => "
                             "ARRAY[array_fill(repeat('t', 250), ARRAY[200])::text]"},
        {"20 jobs have ", "array_fill(to_jsonb(repeat('x', 15000000)), ARRAY[20])"},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        kit_refused(a, "PW002", bad[i].words, "SELECT count(*) FROM pgwork.enqueue_many('q', %s)",
                    bad[i].call);
    TEST_ASSERT_EQUAL_INT64(0, rows_of_all_tables());
    kit_do(a, "SELECT pgwork.queue_create('q', max_bytes => 268435455);"
              "SELECT count(*) FROM pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[50]), "
              "bodies => ARRAY[convert_to(repeat('x', 1048576), 'UTF8')])");
    TEST_ASSERT_EQUAL_INT64(50, rows_of_all_tables());
}

void test_the_limit_itself_is_allowed(void)
{
    kit_do(a, "SELECT pgwork.enqueue(repeat('q', 200), kind => repeat('k', 255), priority => 9, "
              "key => repeat('k', 255),"
              " tags => array_fill(repeat('t', 255), ARRAY[32]), max_attempts => 1000, lease_ms => "
              "86400000,"
              " body => convert_to(repeat('x', 16777216), 'UTF8'))");
    TEST_ASSERT_EQUAL_INT64(
        16777216, kit_number(a, "SELECT octet_length(body) FROM pgwork.claim(ARRAY[repeat('q', "
                                "200)], 1, repeat('h', 255))"));
}

/* On a queue that is there a job with nothing odd takes a shorter way. */
void test_the_limits_of_a_plain_job_are_the_same(void)
{
    static const char *const priorities[] = {"10", "15", "32", "-1", "2147483647", "-2147483648"};

    kit_do(a, "SELECT pgwork.queue_create('q', max_bytes => 100)");
    for (int i = 0; i < 20; i++) /* each when it is new and when it is known */
        kit_do(a, "SELECT pgwork.enqueue('q', priority => %d)", i / 2);
    TEST_ASSERT_EQUAL_STRING("00112233445566778899",
                             kit_text(a, "SELECT string_agg(priority::text, '' ORDER BY priority)"
                                         " FROM pgwork.job"));
    kit_do(a, "SELECT pgwork.enqueue('q', kind => NULL, priority => NULL)");
    TEST_ASSERT_EQUAL_INT64(3, kit_number(a, "SELECT count(*) FROM pgwork.job"
                                             " WHERE priority = 0 AND kind = ''"));
    for (size_t i = 0; i < sizeof(priorities) / sizeof(priorities[0]); i++)
        kit_refused(a, "PW001", "priority|0..9 (0 comes first)",
                    "SELECT pgwork.enqueue('q', priority => %s)", priorities[i]);
    kit_do(a, "SELECT pgwork.enqueue('q', kind => repeat('k', 255))");
    kit_refused(a, "PW001", "kind|255", "SELECT pgwork.enqueue('q', kind => repeat('k', 256))");

    /* A text of n bytes is a payload of n + 12. */
    kit_do(a, "SELECT pgwork.enqueue('q', to_jsonb(repeat('x', 88)))");
    kit_refused(a, "PW002", "101|100", "SELECT pgwork.enqueue('q', to_jsonb(repeat('x', 89)))");
    kit_do(a, "SELECT pgwork.enqueue('q', body => convert_to(repeat('x', 100), 'UTF8'))");
    kit_refused(a, "PW002", "101|100",
                "SELECT pgwork.enqueue('q', body => convert_to(repeat('x', 101), 'UTF8'))");
    kit_refused(a, "PW002", "101|100",
                "SELECT pgwork.enqueue('q', to_jsonb(repeat('x', 48)), body => "
                "convert_to(repeat('x', 41), 'UTF8'))");
    kit_do(a, "SELECT pgwork.enqueue_many('q', array_fill(to_jsonb(repeat('x', 88)), '{50}'))");
    kit_refused(a, "PW002", "100|element 2 ",
                "SELECT pgwork.enqueue_many('q', ARRAY['1', to_jsonb(repeat('x', 200))])");
    TEST_ASSERT_EQUAL_STRING("74 0 0 0 0", kit_places(a, "q"));
}

void test_the_limit_counts_what_is_in_a_payload_however_it_is_stored(void)
{
    kit_do(a, "CREATE TEMP TABLE mine (payload jsonb);"
              "INSERT INTO mine SELECT jsonb_build_object('a', repeat('x', 20000000))");
    TEST_ASSERT_EQUAL_STRING("t",
                             kit_text(a, "SELECT pg_column_size(payload) < 1000000 FROM mine"));
    kit_refused(a, "PW002", "16777216", "SELECT pgwork.enqueue('q', payload) FROM mine");
    kit_do(a, "SELECT pgwork.queue_create('q', max_bytes => 1000)");
    kit_do(a, "CREATE TEMP TABLE ours AS"
              " SELECT array_fill(to_jsonb(repeat('x', 5000)), '{2}') AS payloads");
    TEST_ASSERT_EQUAL_STRING("t", kit_text(a, "SELECT pg_column_size(payloads) < 1000 FROM ours"));
    kit_refused(a, "PW002", "1000", "SELECT pgwork.enqueue_many('q', payloads) FROM ours");
    kit_refused(a, "PW002", "1000",
                "SELECT pgwork.enqueue_many('q', '{1,2}', bodies => ARRAY[convert_to(repeat('x', "
                "999), 'UTF8')])");
    kit_refused(a, "PW002", "1000",
                "SELECT pgwork.enqueue_many('q', ARRAY['1', to_jsonb(repeat('x', 990))], bodies => "
                "ARRAY['0123456789'::bytea])");
    TEST_ASSERT_EQUAL_INT64(0, rows_of_all_tables());
}

void test_text_that_is_not_json_makes_no_job(void)
{
    kit_refused(a, "22P05", "Unicode", "SELECT pgwork.enqueue('q', '\"\\u0000\"')");
    kit_refused(a, "22P02", "json", "SELECT pgwork.enqueue('q', '{')");
    kit_refused(a, "54001", "stack depth",
                "SELECT pgwork.enqueue('q', (repeat('[', 60000) || repeat(']', 60000))::jsonb)");
    kit_refused(a, "22021", "encoding", "SELECT pgwork.enqueue('q', kind => E'\\xff')");
    TEST_ASSERT_EQUAL_INT64(0, rows_of_all_tables());
}

/* One element for all is the first one, wherever an array of SQL begins to count. */
void test_arrays_of_other_shapes_are_refused(void)
{
    kit_refused(a, "PW001", "kinds|[0:0]",
                "SELECT pgwork.enqueue_many('q', '{1,2,3}', kinds => '[0:0]={mail}')");
    kit_refused(a, "PW001", "keys|[1:1][1:1]",
                "SELECT pgwork.enqueue_many('q', '{1,2,3}', keys => '{{k}}')");
    kit_refused(a, "PW001", "delays_ms|[2:4]",
                "SELECT pgwork.enqueue_many('q', '{1,2,3}', delays_ms => '[2:4]={1,2,3}')");
    kit_refused(a, "PW001", "tags|[1:1][1:2]",
                "SELECT pgwork.enqueue('q', tags => ARRAY[['a','b']])");
    kit_refused(a, "PW001", "tags|[1:2][1:1]",
                "SELECT pgwork.enqueue_many('q', '{1,2}', tags => ARRAY['{a}', '{{a},{b}}'])");
    kit_refused(a, "PW001", "tags|[1:1][1:1]",
                "SELECT pgwork.cron_create('s', '* * * * *', queue => 'q', tags => '{{a}}')");
    TEST_ASSERT_EQUAL_INT64(0, rows_of_all_tables());
}

void test_an_enqueue_into_a_missing_or_drained_queue_is_refused(void)
{
    kit_do(a, "SELECT pgwork.setting('implicit_queues', 'off')");
    kit_refused(a, "PW003", "no queue \"q\"", "SELECT pgwork.enqueue('q')");
    kit_refused(a, "PW003", "no queue \"q\"", "SELECT pgwork.enqueue_many('q', '{1}')");
    kit_refused(a, "PW003", "no queue \"q\"", "SELECT pgwork.cancel('q', '{1}')");
    kit_do(a, "SELECT pgwork.queue_create('q')");
    kit_put(a, "q");
    kit_do(a, "SELECT pgwork.queue_drain('q')");
    kit_refused(a, "PW004", "\"q\"|drained", "SELECT pgwork.enqueue('q')");
    kit_refused(a, "PW004", "\"q\"|drained", "SELECT pgwork.enqueue_many('q', '{1}')");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 5, jobs)); /* what is there is worked off */
    kit_do(a, "SELECT pgwork.queue_resume('q')");
    kit_put(a, "q");
}

/* -- cancels that meet --------------------------------------------------------------------------
 */

/* Two cancel the same two jobs; one of these is locked until both wait. */
static void cancels_meet(const char *lock, long long first, long long second, const char *status)
{
    PGconn *c = kit_open(), *d = kit_open();

    kit_do(c, "BEGIN; %s", lock);
    kit_send(a, "SELECT string_agg(status, ',') FROM pgwork.cancel('q', '{%lld,%lld}')", first,
             second);
    kit_blocked(a, d);
    kit_send(b, "SELECT string_agg(status, ',') FROM pgwork.cancel('q', '{%lld,%lld}')", second,
             first);
    kit_blocked(b, d);
    kit_do(c, "COMMIT");
    TEST_ASSERT_EQUAL_STRING(status, kit_answer(a));
    TEST_ASSERT_NOT_NULL(kit_answer(b));
    kit_close(c);
    kit_close(d);
}

void test_cancels_of_the_same_jobs_do_not_deadlock(void)
{
    char lock[200];
    long long first = kit_put(a, "q"), second = kit_put(a, "q");

    snprintf(lock, sizeof(lock), "SELECT FROM pgwork.live_job WHERE pos = %lld FOR UPDATE", first);
    cancels_meet(lock, first, second, "cancelled,cancelled");

    kit_do(a, "SELECT pgwork.enqueue('q', delay_ms => 60000) FROM generate_series(1, 2)");
    first = kit_number(a, "SELECT min(id) FROM pgwork.delayed_job");
    snprintf(lock, sizeof(lock), "SELECT FROM pgwork.delayed_job WHERE id = %lld FOR UPDATE",
             first);
    cancels_meet(lock, first, first + 1, "cancelled,cancelled");

    /* leased in place, and merged into a row behind that one, of lower ids */
    for (int i = 0; i < 41; i++) kit_put(a, "q");
    TEST_ASSERT_EQUAL_INT(40, kit_claim(a, "q", 40, jobs));
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, jobs + 40));
    snprintf(lock, sizeof(lock), "SELECT pgwork.cancel('q', '{%lld}')", jobs[40].id);
    cancels_meet(lock, jobs[40].id, jobs[0].id, "requested,requested");
}

/* It goes by keys, but locks what it replaces as a cancel does; ready, and delayed. */
void test_a_batch_that_replaces_and_a_cancel_do_not_deadlock(void)
{
    PGconn *c = kit_open();

    kit_do(b, "SET lock_timeout = '200ms'");
    for (int delay_ms = 0; delay_ms <= 60000; delay_ms += 60000) {
        long long first, second;

        first = kit_number(a, "SELECT id FROM pgwork.enqueue('q', key => 'l', delay_ms => %d)",
                           delay_ms);
        second = kit_number(a, "SELECT id FROM pgwork.enqueue('q', key => 'k', delay_ms => %d)",
                            delay_ms);
        kit_do(b, "BEGIN");
        kit_do(b, "SELECT pgwork.cancel('q', '{%lld}')", first);
        kit_send(a, "SELECT string_agg(outcome, ',') FROM pgwork.enqueue_many('q', '{1,2}',"
                    " keys => '{k,l}', key_policy => 'replace')");
        kit_blocked(a, c);
        TEST_ASSERT_EQUAL_STRING(
            "cancelled", kit_text(b, "SELECT status FROM pgwork.cancel('q', '{%lld}')", second));
        kit_do(b, "COMMIT");
        TEST_ASSERT_EQUAL_STRING("new,new", kit_answer(a));
        kit_do(a, "SELECT pgwork.queue_purge('q')");
    }
}

/* What is to be replaced has moved, and waits again; but the key belongs to nobody any more. */
void test_a_job_that_is_new_at_the_second_try_is_reported_as_new(void)
{
    PGconn *c = kit_open();
    long long first, second;

    first = kit_number(a, "SELECT id FROM pgwork.enqueue('q', key => 'k', key_scope => 'ready')");
    kit_do(b, "BEGIN");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 1, &job));
    kit_send(a, "SELECT outcome || ' ' || id FROM pgwork.enqueue('q', '2', key => 'k', key_scope =>"
                " 'ready', key_policy => 'replace')");
    kit_blocked(a, c);
    second = kit_number(b, "SELECT id FROM pgwork.enqueue('q', key => 'k', key_scope => 'ready')");
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(b, "release", &job, ""));
    TEST_ASSERT_EQUAL_STRING(
        "cancelled", kit_text(b, "SELECT status FROM pgwork.cancel('q', '{%lld}')", second));
    kit_do(b, "COMMIT");
    TEST_ASSERT_EQUAL_STRING(
        kit_text(b, "SELECT 'new ' || max(id) FROM pgwork.job HAVING max(id) > %lld", first),
        kit_answer(a));
    TEST_ASSERT_EQUAL_STRING("2 0 0 0 0", kit_places(a, "q"));
}

/* What is to be replaced is claimed, or gone, once its claim commits: the payload is not lost. */
void test_a_job_that_was_claimed_meanwhile_is_not_replaced(void)
{
    static const char *const scopes[] = {"ready", "unfinished"};
    PGconn *c = kit_open();

    for (int i = 0; i < 2; i++) {
        long long first;

        first = kit_number(a, "SELECT id FROM pgwork.enqueue('q', key => 'k%d', key_scope => '%s')",
                           i, scopes[i]);
        kit_do(b, "BEGIN");
        TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 1, &job));
        TEST_ASSERT_EQUAL_INT64(first, job.id);
        kit_send(a,
                 "SELECT outcome || (id > %lld) FROM pgwork.enqueue('q', '2', key => 'k%d',"
                 " key_scope => '%s', key_policy => 'replace')",
                 first, i, scopes[i]);
        kit_blocked(a, c);
        if (i == 1) TEST_ASSERT_EQUAL_STRING("ok", kit_say(b, "complete", &job, ""));
        kit_do(b, "COMMIT");
        TEST_ASSERT_EQUAL_STRING("newtrue", kit_answer(a));
        TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 1, &job));
    }
}

/* The first one has made a key that both want, the other one has found what both are to replace. */
void test_batches_that_replace_do_not_deadlock(void)
{
    kit_do(a, "SELECT pgwork.queue_create('q')");
    for (int more = 0; more <= 100; more += 100) { /* keys besides: so many have one lock */
        PGconn *c = kit_open(), *d = kit_open();

        kit_do(c, "BEGIN");
        kit_do(c, "SELECT pgwork.enqueue('q', key => 'l')");
        kit_send(a,
                 "SELECT string_agg(DISTINCT outcome, ',') FROM pgwork.enqueue_many('q', "
                 "array_fill('1'::jsonb, '{%d}'), keys => '{k,l,m}'::text[] || ARRAY(SELECT 'n' || "
                 "g FROM generate_series(1, %d) g), key_policy => 'replace')",
                 more + 3, more);
        kit_blocked(a, d);
        kit_do(d, "SELECT pgwork.enqueue('q', key => 'm')");
        kit_send(b, "SELECT string_agg(outcome, ',') FROM pgwork.enqueue_many('q', '{4,5}',"
                    " keys => '{k,m}', key_policy => 'replace')");
        kit_blocked(b, d);
        kit_do(c, "ROLLBACK");
        TEST_ASSERT_EQUAL_STRING("new,replaced", kit_answer(a));
        TEST_ASSERT_EQUAL_STRING("replaced,replaced", kit_answer(b));
        kit_do(a, "SELECT pgwork.queue_purge('q')");
        kit_close(c);
        kit_close(d);
    }
}

/* Who takes over a key, since its job was claimed, goes on to others; the job comes back meanwhile,
 * and goes together with one of those. */
void test_a_call_that_removes_jobs_does_not_wait_for_an_enqueue_that_takes_over_a_key(void)
{
    PGconn *c = kit_open(), *d = kit_open();

    kit_do(b, "SET lock_timeout = '200ms'");
    for (int purged = 0; purged < 2; purged++) {
        long long other;

        kit_do(a, "SELECT pgwork.enqueue('q', key => 'k', key_scope => 'ready')");
        TEST_ASSERT_EQUAL_INT(1, kit_claim(d, "q", 1, &job));
        kit_do(c, "BEGIN");
        kit_do(c, "SELECT pgwork.enqueue('q', key => 'l', key_scope => 'ready')");
        kit_send(a, "SELECT string_agg(outcome, ',') FROM pgwork.enqueue_many('q', '{1,2,3}',"
                    " keys => '{k,l,m}', key_scope => 'ready')");
        kit_blocked(a, d);
        other =
            kit_number(d, "SELECT id FROM pgwork.enqueue('q', key => 'm', key_scope => 'ready')");
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(d, "release", &job, ""));
        TEST_ASSERT_EQUAL_INT64(
            2, purged ? kit_number(b, "SELECT pgwork.queue_purge('q')")
                      : kit_number(b,
                                   "SELECT count(*) FROM pgwork.cancel('q', '{%lld,%lld}')"
                                   " WHERE status = 'cancelled'",
                                   job.id, other));
        kit_do(c, "ROLLBACK");
        TEST_ASSERT_EQUAL_STRING("new,new,new", kit_answer(a));
        TEST_ASSERT_EQUAL_INT64(3, kit_number(a, "SELECT count(*) FROM pgwork.unique_key"));
        kit_do(a, "SELECT pgwork.queue_purge('q')");
        TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT count(*) FROM pgwork.unique_key"));
    }
}

/* -- group, expiry and meta ---------------------------------------------------------------------
 */

static void check_extras(int n)
{
    TEST_ASSERT_EQUAL_INT64(
        n, kit_number(a, "SELECT count(*) FROM pgwork.job WHERE grp = 'g' AND expires_at ="
                         " '2100-01-01 00:00Z' AND meta = '{\"trace\": 1}'"));
}

/* Wherever a job goes, they go with it. */
void test_group_expiry_and_meta_stay_with_a_job(void)
{
    static const char claimed[] = "SELECT string_agg(DISTINCT meta::text, ',') FROM"
                                  " pgwork.claim('{q}', 100, current_setting('application_name'))";

    kit_do(a, "SELECT pgwork.queue_create('q'), pgwork.group_set('q', 'g', 100)");
    kit_do(a, "SELECT pgwork.enqueue('q', grp => 'g', expires_at => '2100-01-01 00:00Z',"
              " meta => '{\"trace\": 1}', delay_ms => 60000)");
    kit_do(a, "SELECT pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[40]), grps => '{g}',"
              " expires_ats => '{2100-01-01 00:00Z}', metas => '{\"{\\\"trace\\\": 1}\"}')");
    check_extras(41); /* delayed, and ready */
    kit_due(a, "q");
    kit_do(a, "SELECT pgwork.promote()");
    check_extras(41);
    TEST_ASSERT_EQUAL_STRING("{\"trace\": 1}", kit_text(a, claimed));
    TEST_ASSERT_EQUAL_STRING("0 41 0 0 0", kit_places(a, "q"));
    check_extras(41);
    kit_expire(a, "q");
    kit_do(a, "SELECT pgwork.reap('q')");
    check_extras(41);
    for (int i = 0; i < 41; i++) {
        TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, &job));
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, i % 2 ? "fail" : "snooze", &job,
                                               i % 2 ? ", 'boom', NULL, true" : ", 60000"));
    }
    TEST_ASSERT_EQUAL_STRING("0 0 21 20 0", kit_places(a, "q"));
    check_extras(41);
    kit_do(a, "SELECT pgwork.redrive('q')");
    check_extras(41);
}
