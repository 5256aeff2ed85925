/* job: every verb and every outcome on a real server, transactions of the caller, and late holders.
 * Longer than 600 lines: all verbs on jobs use the same small fixtures, and each program costs a
 * build and a migration. */
#include "unity.h"
#include "callkit.h"
#include "pgw_all.h"
#include "pgtemp.h"
#include "itpgw.h"
#include "oom.h"

#include <poll.h>
#include <pthread.h>

static pgw *h;

void setUp(void)
{
    h = it_open();
}

void tearDown(void)
{
    pgw_set_allocator(NULL);
    pgw_close(h);
}

static void sql(const char *text)
{
    pgtemp_exec(text);
}

/* A plain connection with a handle attached to it. */
static pgw *attached(PGconn **conn)
{
    pgw *a;

    *conn = pgtemp_connect();
    ASSERT_ST(PGW_OK, pgw_attach(*conn, NULL, &a), a);
    return a;
}

static void run(PGconn *conn, const char *text)
{
    PGresult *res = PQexec(conn, text);
    const ExecStatusType st = PQresultStatus(res);

    PQclear(res);
    TEST_ASSERT_TRUE_MESSAGE(st == PGRES_COMMAND_OK || st == PGRES_TUPLES_OK, PQerrorMessage(conn));
}

/* ---- enqueue ---- */

void test_a_job_comes_back_as_it_was_sent(void)
{
    const char *const tags[] = {"plain", "with \"quotes\", commas and \\", "\xc3\xa4"};
    static const char bytes[] = {0, 1, '\n', (char)0xff};
    pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;
    const char *queues[] = {"whole"};
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    const pgw_job *got;
    pgw_batch *batch;
    int64_t id;
    size_t size;
    int i;

    job.payload = "{\"a\":[1,2,{\"b\":\"\xc3\xa9\"}]}";
    job.kind = "resize";
    job.body = bytes, job.body_size = sizeof(bytes);
    job.priority = 3;
    job.max_attempts = 4;
    job.lease_ms = 60000;
    job.tags = tags, job.tags_count = 3;
    ASSERT_ST(PGW_OK, pgw_enqueue(h, "whole", &job, &id), h);
    ASSERT_ST(PGW_OK, pgw_enqueue_many(h, "whole", &job, 1, NULL), h);

    o.queues = queues, o.queues_count = 1, o.max = 10, o.lease_ms = 1000;
    ASSERT_ST(PGW_OK, pgw_claim(h, &o, &batch), h);
    TEST_ASSERT_EQUAL(2, pgw_batch_count(batch));
    TEST_ASSERT_EQUAL_INT64(id, pgw_job_id(pgw_batch_job(batch, 0)));
    for (i = 0; i < 2; i++) {
        got = pgw_batch_job(batch, (size_t)i);
        TEST_ASSERT_EQUAL_STRING("{\"a\": [1, 2, {\"b\": \"\xc3\xa9\"}]}", pgw_job_payload(got));
        TEST_ASSERT_EQUAL_STRING("resize", pgw_job_kind(got));
        TEST_ASSERT_EQUAL_MEMORY(bytes, pgw_job_body(got, &size), sizeof(bytes));
        TEST_ASSERT_EQUAL(sizeof(bytes), size);
        TEST_ASSERT_EQUAL_INT(3, pgw_job_priority(got));
        TEST_ASSERT_EQUAL_INT(1, pgw_job_attempt(got));
        TEST_ASSERT_EQUAL_INT(4, pgw_job_max_attempts(got));
        TEST_ASSERT_EQUAL(3, pgw_job_tags_count(got));
        TEST_ASSERT_EQUAL_STRING(tags[1], pgw_job_tag(got, 1));
        TEST_ASSERT_EQUAL_STRING(tags[2], pgw_job_tag(got, 2));
        TEST_ASSERT_INT64_WITHIN_MESSAGE(1000000, 60000000,
                                         pgw_job_lease_until_us(got) - pgw_server_time_us(h),
                                         "the job's lease");
        TEST_ASSERT_LESS_OR_EQUAL_INT64(pgw_server_time_us(h), pgw_job_created_us(got));
    }
    pgw_batch_free(batch);
    TEST_ASSERT_NOT_NULL(pgtemp_value(
        "SELECT holder FROM pgwork.job WHERE queue = 'whole' AND holder ~ '^.+:[0-9]+$' LIMIT 1"));
}

/* The server keeps jobs that travel together in one row. */
TEST_CASE(0)
TEST_CASE(1) /* one of them has tags */
void test_each_of_many_comes_back_as_it_was_sent(int tagged)
{
    enum { N = 250 };
    static const char *const kinds[] = {"", "mail", "\xc3\xa4"}, *const tags[] = {"x,y"};
    static char payloads[N][40];
    static pgw_job_spec jobs[N];
    static pgw_ref refs[N];
    static pgw_enqueued results[N];
    const pgw_job_spec blank = PGW_JOB_SPEC_INIT;
    pgw_batch *batch;
    int i;

    ASSERT_ST(PGW_OK, pgw_queue_create(h, "each", NULL), h);
    for (i = 0; i < N; i++) {
        jobs[i] = blank;
        snprintf(payloads[i], sizeof(payloads[i]), "{\"i\": %d}", i);
        jobs[i].payload = i % 7 == 0 ? NULL : payloads[i];
        jobs[i].kind = kinds[i % 3];
        jobs[i].priority = i < N / 2 ? 2 : 5;
    }
    if (tagged > 0) jobs[N - 1].tags = tags, jobs[N - 1].tags_count = 1;
    ASSERT_ST(PGW_OK, pgw_enqueue_many(h, "each", jobs, N, results), h);
    for (int got = 0; got < N; got = i) { /* in one claim, or in several */
        ASSERT_ST(PGW_OK, it_claim(h, &batch, "each", 1000), h);
        for (i = got; i < got + (int)pgw_batch_count(batch); i++) {
            const pgw_job *job = pgw_batch_job(batch, (size_t)(i - got));

            TEST_ASSERT_EQUAL_INT64(results[i].id, pgw_job_id(job));
            TEST_ASSERT_EQUAL_STRING(jobs[i].payload, pgw_job_payload(job));
            TEST_ASSERT_EQUAL_STRING(jobs[i].kind, pgw_job_kind(job));
            TEST_ASSERT_EQUAL_INT(jobs[i].priority, pgw_job_priority(job));
            TEST_ASSERT_EQUAL_STRING("each", pgw_job_queue(job));
            TEST_ASSERT_EQUAL_INT(1, pgw_job_attempt(job));
            TEST_ASSERT_EQUAL_INT(10, pgw_job_max_attempts(job));
            TEST_ASSERT_EQUAL(tagged > 0 && i == N - 1 ? 1 : 0, pgw_job_tags_count(job));
            TEST_ASSERT_INT64_WITHIN(60000000, pgw_server_time_us(h), pgw_job_created_us(job));
            TEST_ASSERT_GREATER_THAN_INT64(pgw_server_time_us(h), pgw_job_lease_until_us(job));
            refs[i] = pgw_job_ref(job);
        }
        pgw_batch_free(batch);
    }
    ASSERT_ST(PGW_OK, pgw_complete(h, "each", refs, 2, NULL), h); /* a part of a row */
    ASSERT_ST(PGW_ELEASE, pgw_complete(h, "each", refs + 1, N - 1, NULL), h);
    TEST_ASSERT_EQUAL(PGW_ENOTFOUND, refs[1].outcome);
    TEST_ASSERT_EQUAL(PGW_OK, refs[2].outcome);
    TEST_ASSERT_EQUAL(PGW_OK, refs[N - 1].outcome);
    TEST_ASSERT_EQUAL_INT64(0,
                            pgtemp_number("SELECT count(*) FROM pgwork.job WHERE queue = 'each'"));
    ASSERT_ST(PGW_OK, pgw_queue_drop(h, "each", true), h);
}

static int keep_extras(const pgw_job *job, void *arg)
{
    const char *group = pgw_job_group(job), *meta = pgw_job_meta(job);
    char *text = arg, *end = text + strlen(text);

    sprintf(end, "%s %s %lld %s;", pgw_state_name(pgw_job_state(job)), group != NULL ? group : "-",
            (long long)pgw_job_expires_us(job), meta != NULL ? meta : "-");
    return 0;
}

void test_group_expiry_and_meta_stay_with_a_job(void)
{
    pgw_jobs_opts o = PGW_JOBS_OPTS_INIT;
    pgw_job_spec jobs[3] = {PGW_JOB_SPEC_INIT, PGW_JOB_SPEC_INIT, PGW_JOB_SPEC_INIT};
    char text[400] = "";
    pgw_batch *batch;

    jobs[0].group = "ann", jobs[0].meta = "{\"t\":1}";
    jobs[0].expires_us = INT64_C(4102444800000000); /* 2100 */
    jobs[2].group = "bob", jobs[2].delay_ms = 3600000, jobs[2].meta = "{}";
    ASSERT_ST(PGW_OK, pgw_enqueue(h, "extras", &jobs[0], NULL), h);
    ASSERT_ST(PGW_OK, pgw_enqueue_many(h, "extras", jobs, 3, NULL), h);
    o.queue = "extras";
    ASSERT_ST(PGW_OK, pgw_jobs_each(h, &o, keep_extras, text), h);
    TEST_ASSERT_EQUAL_STRING("gated ann 4102444800000000 {\"t\": 1};"
                             "gated ann 4102444800000000 {\"t\": 1};ready - 0 -;"
                             "delayed bob 0 {};",
                             text);
    ASSERT_ST(PGW_OK, it_claim(h, &batch, "extras", 10), h);
    TEST_ASSERT_EQUAL(2, pgw_batch_count(batch));
    TEST_ASSERT_NULL(pgw_job_meta(pgw_batch_job(batch, 0)));
    TEST_ASSERT_EQUAL_STRING("{\"t\": 1}",
                             pgw_job_meta(pgw_batch_job(batch, 1))); /* one of ann's */
    pgw_batch_free(batch);
    ASSERT_ST(PGW_OK, pgw_queue_drop(h, "extras", true), h);
}

/* Each handler finishes its job in a transaction of its own, and keeps that open. */
void test_jobs_that_are_claimed_apart_do_not_wait_for_each_other(void)
{
    static const char *const queues[] = {"apart"};
    static const pgw_job_spec blank = PGW_JOB_SPEC_INIT;
    pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;
    static pgw_job_spec jobs[100];
    pgw_ref refs[3];
    pgw_batch *batch;
    pgw *other = it_open();

    for (int i = 0; i < 100; i++) jobs[i] = blank;
    ASSERT_ST(PGW_OK, pgw_enqueue_many(h, "apart", jobs, 100, NULL), h);
    o.queues = queues, o.queues_count = 1, o.max = 3, o.apart = true;
    ASSERT_ST(PGW_OK, pgw_claim(h, &o, &batch), h);
    TEST_ASSERT_EQUAL(3, pgw_batch_count(batch));
    for (size_t i = 0; i < 3; i++) refs[i] = pgw_job_ref(pgw_batch_job(batch, i));
    pgw_batch_free(batch);
    ASSERT_ST(PGW_OK, pgw_txn_begin(h), h);
    ASSERT_ST(PGW_OK, pgw_complete(h, "apart", &refs[0], 1, NULL), h);
    ASSERT_ST(PGW_OK, pgw_complete(other, "apart", &refs[1], 1, NULL), other);
    ASSERT_ST(PGW_OK, pgw_complete_and_claim(other, &refs[2], 1, &o, &batch), other);
    TEST_ASSERT_EQUAL(3, pgw_batch_count(batch));
    pgw_batch_free(batch);
    ASSERT_ST(PGW_OK, pgw_txn_commit(h), h);
    pgw_close(other);
    ASSERT_ST(PGW_OK, pgw_queue_drop(h, "apart", true), h);
}

/* Found by test/chaos: "bigint out of range", where fewer than 32 rows were ready. */
void test_a_claim_of_many_jobs_apart_takes_the_few_that_there_are(void)
{
    static const char *const queues[] = {"few"};
    const pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;
    pgw_batch *batch;

    ASSERT_ST(PGW_OK, pgw_enqueue(h, "few", &job, NULL), h);
    o.queues = queues, o.queues_count = 1, o.max = 10000, o.apart = true;
    ASSERT_ST(PGW_OK, pgw_claim(h, &o, &batch), h);
    TEST_ASSERT_EQUAL(1, pgw_batch_count(batch));
    pgw_batch_free(batch);
    ASSERT_ST(PGW_OK, pgw_queue_drop(h, "few", true), h);
}

void test_priority_goes_first_then_age(void)
{
    pgw_job_spec jobs[4] = {PGW_JOB_SPEC_INIT, PGW_JOB_SPEC_INIT, PGW_JOB_SPEC_INIT,
                            PGW_JOB_SPEC_INIT};
    pgw_enqueued results[4];
    pgw_batch *batch;

    jobs[0].priority = 9, jobs[1].priority = 0, jobs[2].priority = 5, jobs[3].priority = 0;
    ASSERT_ST(PGW_OK, pgw_enqueue_many(h, "prio", jobs, 4, results), h);
    ASSERT_ST(PGW_OK, it_claim(h, &batch, "prio", 10), h);
    TEST_ASSERT_EQUAL_INT64(results[1].id, pgw_job_id(pgw_batch_job(batch, 0)));
    TEST_ASSERT_EQUAL_INT64(results[3].id, pgw_job_id(pgw_batch_job(batch, 1)));
    TEST_ASSERT_EQUAL_INT64(results[2].id, pgw_job_id(pgw_batch_job(batch, 2)));
    TEST_ASSERT_EQUAL_INT64(results[0].id, pgw_job_id(pgw_batch_job(batch, 3)));
    pgw_batch_free(batch);
}

static int64_t in_a_year(void)
{
    return pgtemp_number("SELECT extract(epoch FROM now() + interval '1 year')::bigint * 1000000");
}

void test_a_delayed_job_is_not_claimed_before_its_time(void)
{
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_batch *batch;

    job.delay_ms = 3600000;
    ASSERT_ST(PGW_OK, pgw_enqueue(h, "later", &job, NULL), h);
    job.delay_ms = 0;
    job.run_at_us = in_a_year();
    ASSERT_ST(PGW_OK, pgw_enqueue(h, "later", &job, NULL), h);
    ASSERT_ST(PGW_OUTCOME_EMPTY, it_claim(h, &batch, "later", 10), h);
    TEST_ASSERT_EQUAL_INT64(
        job.run_at_us, pgtemp_number("SELECT max(extract(epoch FROM run_at) * 1000000)::bigint "
                                     "FROM pgwork.job WHERE queue = 'later'"));
    job.run_at_us = 1; /* long ago: at once */
    ASSERT_ST(PGW_OK, pgw_enqueue(h, "later", &job, NULL), h);
    it_claim_one(h, "later");
}

void test_jobs_of_one_call_may_have_different_settings(void)
{
    pgw_job_spec jobs[4] = {PGW_JOB_SPEC_INIT, PGW_JOB_SPEC_INIT, PGW_JOB_SPEC_INIT,
                            PGW_JOB_SPEC_INIT};
    pgw_batch *batch;

    jobs[1].delay_ms = 3600000;
    jobs[2].run_at_us = in_a_year();
    jobs[3].max_attempts = 7, jobs[3].lease_ms = 200, jobs[3].kind = "k";
    ASSERT_ST(PGW_OK, pgw_enqueue_many(h, "mixed", jobs, 4, NULL), h);
    TEST_ASSERT_EQUAL_INT64(
        2, pgtemp_number(
               "SELECT count(*) FROM pgwork.job WHERE queue = 'mixed' AND state = 'delayed'"));
    ASSERT_ST(PGW_OK, it_claim(h, &batch, "mixed", 10), h);
    TEST_ASSERT_EQUAL(2, pgw_batch_count(batch));
    TEST_ASSERT_EQUAL_INT(10, pgw_job_max_attempts(pgw_batch_job(batch, 0)));
    TEST_ASSERT_EQUAL_INT(7, pgw_job_max_attempts(pgw_batch_job(batch, 1)));
    pgw_batch_free(batch);
}

void test_a_debounced_job_has_the_last_payload_and_expires(void)
{
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_enqueued one;
    int64_t id, again;

    job.key = "k", job.payload = "1", job.key_policy = PGW_KEY_POLICY_DELAY;
    job.delay_ms = 60000, job.key_period_ms = 90000, job.ttl_ms = 5000;
    ASSERT_ST(PGW_OK, pgw_enqueue(h, "debounced", &job, &id), h);
    job.payload = "2", job.kind = "x", job.priority = 3;
    job.key_replace = PGW_KEY_REPLACE_KIND | PGW_KEY_REPLACE_PRIORITY;
    ASSERT_ST(PGW_OUTCOME_REPLACED, pgw_enqueue(h, "debounced", &job, &again), h);
    TEST_ASSERT_EQUAL_INT64(id, again);
    TEST_ASSERT_EQUAL_STRING(
        "2 x 3 60 65",
        pgtemp_value("SELECT concat_ws(' ', payload, kind, priority, round(extract(epoch FROM "
                     "run_at - created_at)), round(extract(epoch FROM expires_at - created_at))) "
                     "FROM pgwork.job WHERE queue = 'debounced'"));
    ASSERT_ST(PGW_OUTCOME_REPLACED, pgw_enqueue_many(h, "debounced", &job, 1, &one), h);
    TEST_ASSERT_EQUAL_INT64(id, one.id);
}

void test_unique_keys_and_their_policies(void)
{
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_enqueued results[2];
    pgw_job_spec two[2];
    int64_t id, again;
    pgw_ref ref;

    job.key = "k", job.payload = "1";
    ASSERT_ST(PGW_OK, pgw_enqueue(h, "unique", &job, &id), h);
    ASSERT_ST(PGW_OUTCOME_EXISTS, pgw_enqueue(h, "unique", &job, &again), h);
    TEST_ASSERT_EQUAL_INT64(id, again);
    job.key_policy = PGW_KEY_POLICY_REPLACE, job.payload = "2";
    ASSERT_ST(PGW_OUTCOME_REPLACED, pgw_enqueue(h, "unique", &job, &again), h);
    TEST_ASSERT_EQUAL_INT64(id, again);
    TEST_ASSERT_EQUAL_STRING("2",
                             pgtemp_value("SELECT payload FROM pgwork.job WHERE queue = 'unique'"));
    job.key_policy = PGW_KEY_POLICY_ERROR;
    ASSERT_ST(PGW_EEXISTS, pgw_enqueue(h, "unique", &job, &again), h);
    TEST_ASSERT_EQUAL_INT64(0, again);

    two[0] = two[1] = job;
    two[0].key_policy = two[1].key_policy = PGW_KEY_POLICY_SKIP;
    two[0].key = "fresh";
    ASSERT_ST(PGW_OUTCOME_EXISTS, pgw_enqueue_many(h, "unique", two, 2, results), h);
    TEST_ASSERT_EQUAL(PGW_OK, results[0].outcome);
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EXISTS, results[1].outcome);

    /* unfinished: taken until the end of the job */
    ref = it_claim_one(h, "unique");
    ASSERT_ST(PGW_EEXISTS, pgw_enqueue(h, "unique", &job, NULL), h);
    ASSERT_ST(PGW_OK, pgw_complete(h, "unique", &ref, 1, NULL), h);
    ASSERT_ST(PGW_OK, pgw_enqueue(h, "unique", &job, NULL), h);

    /* ready: taken until the claim */
    job.key_scope = PGW_KEY_SCOPE_READY, job.key_policy = PGW_KEY_POLICY_SKIP;
    ASSERT_ST(PGW_OK, pgw_enqueue(h, "unique_ready", &job, NULL), h);
    ASSERT_ST(PGW_OUTCOME_EXISTS, pgw_enqueue(h, "unique_ready", &job, NULL), h);
    it_claim_one(h, "unique_ready");
    ASSERT_ST(PGW_OK, pgw_enqueue(h, "unique_ready", &job, NULL), h);

    /* period: taken for a time, whatever becomes of the job */
    job.key_scope = PGW_KEY_SCOPE_PERIOD, job.key_period_ms = 3600000;
    ASSERT_ST(PGW_OK, pgw_enqueue(h, "unique_period", &job, NULL), h);
    ref = it_claim_one(h, "unique_period");
    ASSERT_ST(PGW_OK, pgw_complete(h, "unique_period", &ref, 1, NULL), h);
    ASSERT_ST(PGW_OUTCOME_EXISTS, pgw_enqueue(h, "unique_period", &job, NULL), h);
}

void test_an_operation_is_applied_once(void)
{
    static const char op[] = "11111111-2222-3333-4444-555555555555",
                      other[] = "11111111-2222-3333-4444-555555555556";
    pgw_job_spec jobs[2] = {PGW_JOB_SPEC_INIT, PGW_JOB_SPEC_INIT};
    pgw_enqueued first[2], second[2];
    int64_t id, again;

    jobs[0].op = op;
    ASSERT_ST(PGW_OK, pgw_enqueue(h, "ops", jobs, &id), h);
    ASSERT_ST(PGW_OUTCOME_REPEATED, pgw_enqueue(h, "ops", jobs, &again), h);
    TEST_ASSERT_EQUAL_INT64(id, again);
    jobs[0].op = other;
    ASSERT_ST(PGW_OK, pgw_enqueue_many(h, "ops", jobs, 2, first), h);
    ASSERT_ST(PGW_OUTCOME_REPEATED, pgw_enqueue_many(h, "ops", jobs, 2, second), h);
    TEST_ASSERT_EQUAL_INT64(first[0].id, second[0].id);
    TEST_ASSERT_EQUAL_INT64(first[1].id, second[1].id);
    ASSERT_ST(PGW_EINVAL, pgw_enqueue_many(h, "ops", jobs, 1, second), h);
    ASSERT_HAS("the operation id was used for another number of jobs", pgw_error_message(h));
    TEST_ASSERT_EQUAL_INT64(0, second[0].id);
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN, second[0].outcome);
    TEST_ASSERT_EQUAL_INT64(3,
                            pgtemp_number("SELECT count(*) FROM pgwork.job WHERE queue = 'ops'"));
}

void test_a_queues_limit_of_bytes(void)
{
    pgw_queue_opts o = PGW_QUEUE_OPTS_INIT;
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    char body[200] = {0};

    o.max_bytes = 100;
    ASSERT_ST(PGW_OK, pgw_queue_create(h, "small", &o), h);
    job.body = body, job.body_size = 101;
    ASSERT_ST(PGW_ELIMIT, pgw_enqueue(h, "small", &job, NULL), h);
    ASSERT_ST(PGW_ELIMIT, pgw_enqueue_many(h, "small", &job, 1, NULL), h);
    job.body_size = 100;
    ASSERT_ST(PGW_OK, pgw_enqueue(h, "small", &job, NULL), h);
}

/* Whether the library refuses it or the server does. */
void test_which_of_many_is_refused_can_be_asked(void)
{
    pgw_queue_opts o = PGW_QUEUE_OPTS_INIT;
    pgw_job_spec jobs[3] = {PGW_JOB_SPEC_INIT, PGW_JOB_SPEC_INIT, PGW_JOB_SPEC_INIT};
    const char *const queues[] = {"which", "no\nname"};
    pgw_claim_opts claim = PGW_CLAIM_OPTS_INIT;
    char body[101] = {0};
    pgw_batch *batch;

    o.max_bytes = 100;
    ASSERT_ST(PGW_OK, pgw_queue_create(h, "which", &o), h);
    jobs[2].body = body, jobs[2].body_size = sizeof(body);
    ASSERT_ST(PGW_ELIMIT, pgw_enqueue_many(h, "which", jobs, 3, NULL), h);
    TEST_ASSERT_EQUAL_size_t(2, pgw_error_index(h));
    ASSERT_ST(PGW_ELIMIT, pgw_enqueue(h, "which", &jobs[2], NULL), h);
    TEST_ASSERT_EQUAL_size_t(PGW_NO_INDEX, pgw_error_index(h));
    jobs[2].body = NULL, jobs[2].body_size = 0;

    /* in the order of the keys the second one comes last */
    jobs[0].key_policy = jobs[1].key_policy = jobs[2].key_policy = PGW_KEY_POLICY_ERROR;
    jobs[0].key = "b", jobs[1].key = "c", jobs[2].key = "a";
    ASSERT_ST(PGW_OK, pgw_enqueue(h, "which", &jobs[1], NULL), h);
    ASSERT_ST(PGW_EEXISTS, pgw_enqueue_many(h, "which", jobs, 3, NULL), h);
    TEST_ASSERT_EQUAL_size_t(1, pgw_error_index(h));

    jobs[0].priority = 10;
    ASSERT_ST(PGW_EINVAL, pgw_enqueue_many(h, "which", jobs, 3, NULL), h);
    TEST_ASSERT_EQUAL_size_t(0, pgw_error_index(h));
    claim.queues = queues, claim.queues_count = 2;
    ASSERT_ST(PGW_EINVAL, pgw_claim(h, &claim, &batch), h);
    TEST_ASSERT_EQUAL_size_t(1, pgw_error_index(h));
    ASSERT_ST(PGW_EINVAL, pgw_enqueue(h, "no\nname", &jobs[1], NULL), h);
    TEST_ASSERT_EQUAL_size_t(PGW_NO_INDEX, pgw_error_index(h));
    TEST_ASSERT_EQUAL_size_t(PGW_NO_INDEX, pgw_error_index(NULL));
}

/* ---- whose transaction ---- */

void test_an_attached_enqueue_stands_and_falls_with_the_transaction(void)
{
    const pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_batch *batch;
    PGconn *conn;
    pgw *a;

    sql("CREATE TABLE IF NOT EXISTS orders (id bigint)");
    a = attached(&conn);
    run(conn, "BEGIN");
    run(conn, "INSERT INTO orders VALUES (1)");
    ASSERT_ST(PGW_OK, pgw_enqueue(a, "tx", &job, NULL), a);
    ASSERT_ST(PGW_OUTCOME_EMPTY, it_claim(h, &batch, "tx", 1), h);
    run(conn, "ROLLBACK");
    ASSERT_ST(PGW_OUTCOME_EMPTY, it_claim(h, &batch, "tx", 1), h);
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT count(*) FROM pgwork.job WHERE queue = 'tx'"));

    run(conn, "BEGIN");
    run(conn, "INSERT INTO orders VALUES (2)");
    ASSERT_ST(PGW_OK, pgw_enqueue_many(a, "tx", &job, 1, NULL), a);
    run(conn, "COMMIT");
    it_claim_one(h, "tx");
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number("SELECT count(*) FROM orders"));
    pgw_close(a);
    PQfinish(conn);
}

void test_an_attached_complete_commits_with_the_callers_writes(void)
{
    PGconn *conn;
    pgw_ref ref, stale;
    pgw *a = attached(&conn);

    sql("CREATE TABLE IF NOT EXISTS results (id bigint)");
    it_enqueue(h, "exact", NULL);
    ref = it_claim_one(h, "exact");
    run(conn, "BEGIN");
    run(conn, "INSERT INTO results VALUES (1)");
    ASSERT_ST(PGW_OK, pgw_complete(a, "exact", &ref, 1, NULL), a);
    run(conn, "ROLLBACK");
    TEST_ASSERT_EQUAL_STRING("leased",
                             pgtemp_value("SELECT state FROM pgwork.job WHERE queue = 'exact'"));

    stale = ref;
    stale.token.nonce++;
    run(conn, "BEGIN");
    run(conn, "INSERT INTO results VALUES (2)");
    ASSERT_ST(PGW_ELEASE, pgw_complete(a, "exact", &stale, 1, NULL), a);
    TEST_ASSERT_EQUAL_INT_MESSAGE(PQTRANS_INTRANS, PQtransactionStatus(conn), "the caller decides");
    run(conn, "ROLLBACK");

    run(conn, "BEGIN");
    run(conn, "INSERT INTO results VALUES (3)");
    ASSERT_ST(PGW_OK, pgw_complete(a, "exact", &ref, 1, NULL), a);
    run(conn, "COMMIT");
    TEST_ASSERT_EQUAL_INT64(0,
                            pgtemp_number("SELECT count(*) FROM pgwork.job WHERE queue = 'exact'"));
    TEST_ASSERT_EQUAL_INT64(3, pgtemp_number("SELECT sum(id) FROM results"));
    pgw_close(a);
    PQfinish(conn);
}

void test_in_a_failed_transaction_nothing_is_sent(void)
{
    const pgw_job_spec job = PGW_JOB_SPEC_INIT;
    PGconn *conn;
    pgw *a = attached(&conn);

    run(conn, "BEGIN");
    PQclear(PQexec(conn, "SELECT 1/0"));
    ASSERT_ST(PGW_ETXN, pgw_enqueue(a, "tx", &job, NULL), a);
    pgw_close(a);
    PQfinish(conn);
}

/* ---- finishing ---- */

void test_release_and_snooze_charge_no_attempt_and_fail_does(void)
{
    pgw_fail_opts now = PGW_FAIL_OPTS_INIT;
    pgw_batch *batch;
    pgw_ref ref;
    int64_t id = it_enqueue(h, "attempts", NULL);

    ref = it_claim_one(h, "attempts");
    ASSERT_ST(PGW_OK, pgw_release(h, "attempts", &ref, 1), h);
    ASSERT_ST(PGW_ELEASE, pgw_release(h, "attempts", &ref, 1), h);
    ref = it_claim_one(h, "attempts");
    ASSERT_ST(PGW_OK, pgw_snooze(h, "attempts", &ref, 1, SNOOZE_BY(0)), h);
    ASSERT_ST(PGW_OK, pgw_reaper_tick(h, NULL, NULL), h);
    ref = it_claim_one(h, "attempts");
    now.retry_ms = 0, now.error = "it rained";
    ASSERT_ST(PGW_OK, pgw_fail(h, "attempts", &ref, 1, &now), h);
    TEST_ASSERT_EQUAL_STRING("it rained",
                             pgtemp_value("SELECT error FROM pgwork.job WHERE queue = 'attempts'"));
    ASSERT_ST(PGW_OK, pgw_reaper_tick(h, NULL, NULL), h);
    ASSERT_ST(PGW_OK, it_claim(h, &batch, "attempts", 1), h);
    TEST_ASSERT_EQUAL_INT64(id, pgw_job_id(pgw_batch_job(batch, 0)));
    TEST_ASSERT_EQUAL_INT(2, pgw_job_attempt(pgw_batch_job(batch, 0)));
    pgw_batch_free(batch);
}

void test_delayed_jobs_run_at_another_time(void)
{
    pgw_reschedule_opts o = PGW_RESCHEDULE_OPTS_INIT;
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_depth depth = PGW_DEPTH_INIT;
    int64_t id, n;

    job.delay_ms = 3600000;
    ASSERT_ST(PGW_OK, pgw_enqueue(h, "waiting", &job, &id), h);
    o.ids = &id, o.ids_count = 1, o.delay_ms = 1800000;
    ASSERT_ST(PGW_OK, pgw_reschedule(h, "waiting", &o, &n), h);
    TEST_ASSERT_EQUAL_INT64(1, n);
    o.kind = "another";
    ASSERT_ST(PGW_OK, pgw_reschedule(h, "waiting", &o, &n), h);
    TEST_ASSERT_EQUAL_INT64(0, n);
    ASSERT_ST(PGW_OK, pgw_reschedule(h, "waiting", NULL, &n), h);
    TEST_ASSERT_EQUAL_INT64(1, n);
    ASSERT_ST(PGW_OK, pgw_queue_depth(h, "waiting", 10, &depth), h);
    TEST_ASSERT_EQUAL_INT64(1, depth.ready);
    TEST_ASSERT_EQUAL_INT64(0, depth.delayed);
    ASSERT_ST(PGW_ENOTFOUND, pgw_reschedule(h, "no such queue", NULL, &n), h);
    TEST_ASSERT_EQUAL_INT64(0, n);
}

void test_a_job_without_attempts_left_is_a_dead_letter_and_comes_back_by_redrive(void)
{
    pgw_fail_opts dead = PGW_FAIL_OPTS_INIT;
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    int64_t id, n;
    pgw_ref ref;

    job.max_attempts = 1, job.kind = "x";
    ASSERT_ST(PGW_OK, pgw_enqueue(h, "dying", &job, &id), h);
    ref = it_claim_one(h, "dying");
    ASSERT_ST(PGW_OK, pgw_fail(h, "dying", &ref, 1, NULL), h);
    it_enqueue(h, "dying", NULL);
    ref = it_claim_one(h, "dying");
    dead.dead = true, dead.error = "no use";
    ASSERT_ST(PGW_OK, pgw_fail(h, "dying", &ref, 1, &dead), h);
    TEST_ASSERT_EQUAL_INT64(
        2,
        pgtemp_number("SELECT count(*) FROM pgwork.job WHERE queue = 'dying' AND state = 'dead'"));

    ASSERT_ST(PGW_OK,
              pgw_redrive(h, "dying",
                          &(pgw_redrive_opts){sizeof(pgw_redrive_opts), NULL, 0, "nothing of it",
                                              PGW_UNLIMITED},
                          &n),
              h);
    TEST_ASSERT_EQUAL_INT64(0, n);
    ASSERT_ST(
        PGW_OK,
        pgw_redrive(h, "dying",
                    &(pgw_redrive_opts){sizeof(pgw_redrive_opts), &id, 0, NULL, PGW_UNLIMITED}, &n),
        h);
    TEST_ASSERT_EQUAL_INT64(0, n); /* an empty list is not all of them */
    ASSERT_ST(PGW_OK,
              pgw_dead_purge(h, "dying",
                             &(pgw_dead_purge_opts){sizeof(pgw_dead_purge_opts), &id, 0, NULL, 0},
                             &n),
              h);
    TEST_ASSERT_EQUAL_INT64(0, n);
    ASSERT_ST(
        PGW_OK,
        pgw_redrive(h, "dying",
                    &(pgw_redrive_opts){sizeof(pgw_redrive_opts), &id, 1, NULL, PGW_UNLIMITED}, &n),
        h);
    TEST_ASSERT_EQUAL_INT64(1, n);
    TEST_ASSERT_EQUAL_INT64(id, it_claim_one(h, "dying").id);
    ASSERT_ST(PGW_OK,
              pgw_dead_purge(
                  h, "dying",
                  &(pgw_dead_purge_opts){sizeof(pgw_dead_purge_opts), NULL, 0, NULL, 3600000}, &n),
              h);
    TEST_ASSERT_EQUAL_INT64(0, n);
    ASSERT_ST(PGW_OK,
              pgw_dead_purge(h, "dying",
                             &(pgw_dead_purge_opts){sizeof(pgw_dead_purge_opts), &id, 1, NULL, 0},
                             &n),
              h);
    TEST_ASSERT_EQUAL_INT64(0, n); /* it is at work again */
    ASSERT_ST(PGW_OK,
              pgw_dead_purge(
                  h, "dying",
                  &(pgw_dead_purge_opts){sizeof(pgw_dead_purge_opts), NULL, 0, "nothing of it", 0},
                  &n),
              h);
    TEST_ASSERT_EQUAL_INT64(0, n);
    ASSERT_ST(PGW_OK, pgw_dead_purge(h, "dying", NULL, &n), h);
    TEST_ASSERT_EQUAL_INT64(1, n);
    ASSERT_ST(PGW_ENOTFOUND, pgw_redrive(h, "no such queue", NULL, &n), h);
    ASSERT_ST(PGW_ENOTFOUND, pgw_dead_purge(h, "no such queue", NULL, &n), h);
}

void test_each_job_of_many_gets_its_verdict(void)
{
    enum { N = 300 };
    static pgw_job_spec jobs[N];
    static pgw_ref refs[N];
    pgw_batch *batch;
    int i;

    for (i = 0; i < N; i++) jobs[i] = (pgw_job_spec)PGW_JOB_SPEC_INIT;
    ASSERT_ST(PGW_OK, pgw_enqueue_many(h, "verdicts", jobs, N, NULL), h);
    ASSERT_ST(PGW_OK, it_claim(h, &batch, "verdicts", N), h);
    TEST_ASSERT_EQUAL(N, pgw_batch_count(batch));
    for (i = 0; i < N; i++) refs[i] = pgw_job_ref(pgw_batch_job(batch, (size_t)(N - 1 - i)));
    pgw_batch_free(batch);
    for (i = 0; i < N; i += 10) refs[i].token.nonce ^= 1;
    refs[7].id = 987654321;
    ASSERT_ST(PGW_ELEASE, pgw_complete(h, "verdicts", refs, N, NULL), h);
    ASSERT_HAS("31 of 300", pgw_error_message(h));
    for (i = 0; i < N; i++) {
        TEST_ASSERT_EQUAL_INT_MESSAGE(i == 7        ? PGW_ENOTFOUND
                                      : i % 10 == 0 ? PGW_ELEASE
                                                    : PGW_OK,
                                      refs[i].outcome, "an outcome");
    }
    TEST_ASSERT_EQUAL_INT64(
        31, pgtemp_number("SELECT count(*) FROM pgwork.job WHERE queue = 'verdicts'"));
    ASSERT_ST(PGW_ENOTFOUND, pgw_complete(h, "no such queue", refs, 1, NULL), h);
}

void test_outputs_are_kept_as_long_as_retention_says(void)
{
    const char *const outputs[] = {"{\"ok\":true}", NULL};
    pgw_queue_opts o = PGW_QUEUE_OPTS_INIT;
    pgw_ref refs[2];

    o.retention_ms = 3600000;
    ASSERT_ST(PGW_OK, pgw_queue_create(h, "kept", &o), h);
    it_enqueue(h, "kept", NULL);
    it_enqueue(h, "kept", NULL);
    refs[0] = it_claim_one(h, "kept");
    refs[1] = it_claim_one(h, "kept");
    ASSERT_ST(PGW_OK, pgw_complete(h, "kept", refs, 2, OUTPUTS(outputs)), h);
    TEST_ASSERT_EQUAL_INT64(
        2,
        pgtemp_number("SELECT count(*) FROM pgwork.job WHERE queue = 'kept' AND state = 'done'"));
    TEST_ASSERT_EQUAL_STRING(
        "{\"ok\": true}",
        pgtemp_value("SELECT output FROM pgwork.job WHERE queue = 'kept' AND output IS NOT NULL"));
}

void test_extend_prolongs_and_reports_a_cancel(void)
{
    pgw_ref refs[3];
    int i;

    for (i = 0; i < 3; i++) it_enqueue(h, "extended", NULL);
    for (i = 0; i < 3; i++) refs[i] = it_claim_one(h, "extended");
    ASSERT_ST(PGW_OK, pgw_extend(h, "extended", refs, 3, EXTEND_BY(3600000)), h);
    TEST_ASSERT_EQUAL_INT64(
        3, pgtemp_number("SELECT count(*) FROM pgwork.job WHERE queue = 'extended' AND lease_until "
                         "> now() + interval '59 min'"));
    TEST_ASSERT_NOT_EQUAL_INT64(0, pgw_server_time_us(h));

    ASSERT_ST(PGW_OUTCOME_CANCEL, pgw_cancel(h, "extended", &refs[1], 1), h);
    refs[2].token.nonce++;
    ASSERT_ST(PGW_ELEASE, pgw_extend(h, "extended", refs, 3, NULL), h);
    TEST_ASSERT_EQUAL_INT(PGW_OK, refs[0].outcome);
    TEST_ASSERT_EQUAL_INT(PGW_OUTCOME_CANCEL, refs[1].outcome);
    TEST_ASSERT_EQUAL_INT(PGW_ELEASE, refs[2].outcome);
}

void test_cancel_removes_what_waits_and_asks_what_runs(void)
{
    pgw_ref refs[4] = {{.id = 0}};
    pgw_job_spec later = PGW_JOB_SPEC_INIT;

    refs[0].id = it_enqueue(h, "cancelled", NULL);
    refs[1].id = it_claim_one(h, "cancelled").id;
    TEST_ASSERT_EQUAL_INT64(refs[0].id, refs[1].id);
    refs[0].id = it_enqueue(h, "cancelled", NULL);
    later.delay_ms = 100000;
    ASSERT_ST(PGW_OK, pgw_enqueue(h, "cancelled", &later, &refs[2].id), h);
    refs[3].id = 123456789;
    ASSERT_ST(PGW_OUTCOME_CANCEL, pgw_cancel(h, "cancelled", refs, 4), h);
    TEST_ASSERT_EQUAL_INT(PGW_OK, refs[0].outcome);
    TEST_ASSERT_EQUAL_INT(PGW_OUTCOME_CANCEL, refs[1].outcome);
    TEST_ASSERT_EQUAL_INT(PGW_OK, refs[2].outcome);
    TEST_ASSERT_EQUAL_INT(PGW_ENOTFOUND, refs[3].outcome);
    ASSERT_ST(PGW_ENOTFOUND, pgw_cancel(h, "cancelled", &refs[3], 1), h);
    refs[0].id = refs[2].id = it_enqueue(h, "cancelled", NULL); /* named twice */
    ASSERT_ST(PGW_OUTCOME_CANCEL, pgw_cancel(h, "cancelled", refs, 3), h);
    TEST_ASSERT_EQUAL_INT(PGW_OK, refs[0].outcome);
    TEST_ASSERT_EQUAL_INT(PGW_OUTCOME_CANCEL, refs[1].outcome);
    TEST_ASSERT_EQUAL_INT(PGW_OK, refs[2].outcome);
    TEST_ASSERT_EQUAL_INT64(
        1, pgtemp_number("SELECT count(*) FROM pgwork.job WHERE queue = 'cancelled'"));
}

void test_complete_and_claim_in_one_round_trip(void)
{
    const char *queues[] = {"both"};
    pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;
    pgw_batch *batch;
    pgw_ref refs[2];
    int64_t third;

    it_enqueue(h, "both", NULL);
    it_enqueue(h, "both", NULL);
    third = it_enqueue(h, "both", NULL);
    refs[0] = it_claim_one(h, "both");
    refs[1] = it_claim_one(h, "both");
    refs[1].token.nonce++;
    o.queues = queues, o.queues_count = 1, o.max = 5;
    ASSERT_ST(PGW_OK, pgw_complete_and_claim(h, refs, 2, &o, &batch), h);
    TEST_ASSERT_EQUAL_INT(PGW_OK, refs[0].outcome);
    TEST_ASSERT_EQUAL_INT(PGW_ELEASE, refs[1].outcome);
    TEST_ASSERT_EQUAL(1, pgw_batch_count(batch));
    TEST_ASSERT_EQUAL_INT64(third, pgw_job_id(pgw_batch_job(batch, 0)));
    refs[0] = pgw_job_ref(pgw_batch_job(batch, 0));
    pgw_batch_free(batch);
    ASSERT_ST(PGW_OUTCOME_EMPTY, pgw_complete_and_claim(h, refs, 1, &o, &batch), h);
    TEST_ASSERT_EQUAL_INT(PGW_OK, refs[0].outcome);
    TEST_ASSERT_NULL(batch);
    ASSERT_ST(PGW_OUTCOME_EMPTY, pgw_complete_and_claim(h, NULL, 0, &o, &batch), h);
}

void test_a_quarantined_job_comes_alone_also_beside_completions(void)
{
    static const char *const queues[] = {"wary"};
    pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;
    int alone = 0;

    o.queues = queues, o.queues_count = 1, o.max = 10;
    sql("SELECT pgwork.queue_create('wary', lease_ms => 600000);"
        "SELECT pgwork.enqueue('wary', '1', priority => 5, max_attempts => 100);"
        "SELECT FROM pgwork.claim('{wary}', 1, 'who dies')");
    for (int round = 0; round < 10; round++) {
        pgw_ref refs[10];
        size_t n = 0;

        sql("UPDATE pgwork.live_job SET lease_until = now() - interval '1 s' WHERE lane >= 10 AND"
            " queue = (SELECT id FROM pgwork.queue WHERE name = 'wary');"
            "SELECT FROM pgwork.reap('wary');"
            "SELECT FROM pgwork.enqueue_many('wary', array_fill('1'::jsonb, ARRAY[203]))");
        for (bool met = false; !met;) {
            pgw_batch *batch;

            ASSERT_ST(PGW_OK, pgw_complete_and_claim(h, refs, n, &o, &batch), h);
            n = pgw_batch_count(batch);
            for (size_t i = 0; i < n; i++) {
                refs[i] = pgw_job_ref(pgw_batch_job(batch, i));
                met |= pgw_job_priority(pgw_batch_job(batch, i)) == 5;
            }
            alone += met && n == 1;
            pgw_batch_free(batch);
        }
    }
    TEST_ASSERT_EQUAL_INT(10, alone);
    ASSERT_ST(PGW_OK, pgw_queue_drop(h, "wary", true), h);
}

/* ---- waiting ---- */

typedef struct sender {
    pgw *h;
    const char *queue;
} sender;

static void *send_later(void *arg)
{
    const sender *s = arg;

    pgw__pq_wait(s->h, 200, -1);
    return it_enqueue(s->h, s->queue, "\"hello\"") > 0 ? arg : NULL;
}

/* In a transaction that is open when the other registers: neither sees the other. */
static void *commit_later(void *arg)
{
    const sender *s = arg;

    pgw__pq_wait(s->h, 200, -1);
    return pgw_txn_commit(s->h) == PGW_OK ? arg : NULL;
}

/* The job comes 200 ms after the wait began. There is no limit to the wait: at its end a claim
 * looks once more, and would find the job though nothing had told of it. */
static void wait_for_job(const char *const *conf, const char *const *senders_conf,
                         const char *queue, bool early)
{
    const char *queues[] = {queue};
    pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;
    pgw *waiting = it_open_with(conf);
    sender s = {it_open_with(senders_conf), queue};
    pgw_batch *batch;
    pthread_t thread;

    o.queues = queues, o.queues_count = 1, o.wait_ms = PGW_UNLIMITED;
    ASSERT_ST(PGW_OK, pgw_queue_create(s.h, queue, NULL), s.h);
    if (early) {
        ASSERT_ST(PGW_OK, pgw_txn_begin(s.h), s.h);
        it_enqueue(s.h, queue, "\"hello\"");
    }
    TEST_ASSERT_EQUAL_INT(0, pthread_create(&thread, NULL, early ? commit_later : send_later, &s));
    ASSERT_ST(PGW_OK, pgw_claim(waiting, &o, &batch), waiting);
    TEST_ASSERT_EQUAL_STRING("\"hello\"", pgw_job_payload(pgw_batch_job(batch, 0)));
    pgw_batch_free(batch);
    pthread_join(thread, NULL);
    TEST_ASSERT_EQUAL_INT64_MESSAGE(
        0,
        pgtemp_number(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock' AND "
            "database = (SELECT oid FROM pg_database WHERE datname = current_database())"),
        "no waiter is registered");
    pgw_close(s.h);
    pgw_close(waiting);
}

void test_a_claim_waits_for_a_job_and_is_notified(void)
{
    /* polling alone would come too late */
    static const char *const conf[] = {"poll.min_ms", "3600000", "poll.max_ms", "3600000", NULL};

    wait_for_job(conf, NULL, "notified", false);
}

void test_a_claim_finds_what_was_enqueued_before_its_wait_and_committed_in_it(void)
{
    static const char *const conf[] = {"poll.max_ms", "3600000", NULL};

    wait_for_job(conf, NULL, "early", true);
}

void test_a_claim_waits_for_a_job_by_polling(void)
{
    static const char *const conf[] = {"notify", "off", "poll.max_ms", "50", NULL};

    wait_for_job(conf, NULL, "polled", false);
}

void test_a_wait_ends_empty_or_by_a_stop(void)
{
    const char *queues[] = {"never"};
    pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;
    pgw_batch *batch;
    pgw_stop *stop;

    o.queues = queues, o.queues_count = 1, o.wait_ms = 50;
    ASSERT_ST(PGW_OUTCOME_EMPTY, pgw_claim(h, &o, &batch), h);
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_stop_new(&stop));
    pgw_set_stop(h, stop);
    pgw_stop_notify(stop);
    o.wait_ms = PGW_UNLIMITED;
    ASSERT_ST(PGW_ECANCELED, pgw_claim(h, &o, &batch), h);
    TEST_ASSERT_NULL(batch);
    TEST_ASSERT_NOT_EQUAL('\0', *pgw_error_message(h));
    pgw_set_stop(h, NULL);
    pgw_stop_free(stop);
    o.wait_ms = 1;
    ASSERT_ST(PGW_OK, pgw_txn_begin(h), h);
    ASSERT_ST(PGW_EMISUSE, pgw_claim(h, &o, &batch), h);
    ASSERT_ST(PGW_OK, pgw_txn_rollback(h), h);
}

void test_several_queues_in_one_claim(void)
{
    const char *queues[] = {"several_a", "several_b", "not there"};
    pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;
    pgw_batch *batch;

    it_enqueue(h, "several_b", NULL);
    it_enqueue(h, "several_a", NULL);
    o.queues = queues, o.queues_count = 3, o.max = 5;
    ASSERT_ST(PGW_OK, pgw_claim(h, &o, &batch), h);
    TEST_ASSERT_EQUAL(2, pgw_batch_count(batch));
    TEST_ASSERT_EQUAL_STRING("several_b", pgw_job_queue(pgw_batch_job(batch, 0)));
    pgw_batch_free(batch);
}

/* ---- without blocking ---- */

typedef struct outcome {
    int calls;
    pgw_status st;
} outcome;

static void done(pgw *handle, pgw_status st, void *arg)
{
    outcome *o = arg;

    o->calls++;
    o->st = st;
}

/* Arms h, sends by `call`, and steps to the end. */
#define ASYNC(expected, call)                                                             \
    do {                                                                                  \
        outcome out_ = {0, PGW_OUTCOME_AGAIN};                                            \
        pgw_async(h, done, &out_);                                                        \
        ASSERT_ST(PGW_OUTCOME_AGAIN, call, h);                                            \
        while (out_.calls == 0) {                                                         \
            struct pollfd p_ = {pgw_fd(h),                                                \
                                (short)((pgw_events(h) & PGW_EVENT_READ ? POLLIN : 0) |   \
                                        (pgw_events(h) & PGW_EVENT_WRITE ? POLLOUT : 0)), \
                                0};                                                       \
            TEST_ASSERT_GREATER_OR_EQUAL_INT(0, poll(&p_, 1, 10000));                     \
            pgw_step(h);                                                                  \
        }                                                                                 \
        TEST_ASSERT_EQUAL_INT(1, out_.calls);                                             \
        ASSERT_ST(expected, out_.st, h);                                                  \
    } while (0)

/* Whatever the caller passed may be gone when the answer comes; only the out-parameters live. */
static pgw_status enqueue_from_the_stack(pgw_enqueued *results)
{
    char queue[] = "async", payload[] = "{\"n\":1}", kind[] = "k", tag[] = "t";
    const char *tags[] = {tag};
    pgw_job_spec jobs[2] = {PGW_JOB_SPEC_INIT, PGW_JOB_SPEC_INIT};
    pgw_status st;

    jobs[0].payload = payload, jobs[1].kind = kind, jobs[1].tags = tags, jobs[1].tags_count = 1;
    st = pgw_enqueue_many(h, queue, jobs, 2, results);
    memset(queue, 'X', 5), memset(payload, 'X', 7), memset(kind, 'X', 1), memset(tag, 'X', 1),
        memset(jobs, 'X', sizeof(jobs));
    return st;
}

static pgw_status finish_from_the_stack(pgw_ref *refs)
{
    char queue[] = "async", output[] = "1";
    const char *outputs[] = {output, NULL};
    pgw_complete_opts o = {sizeof(o), outputs};
    const pgw_status st = pgw_complete(h, queue, refs, 2, &o);

    memset(queue, 'X', 5), memset(output, 'X', 1);
    memset(outputs, 'X', sizeof(outputs)), memset(&o, 'X', sizeof(o));
    return st;
}

static int count_jobs(const pgw_job *job, void *arg)
{
    ++*(int *)arg;
    return 0;
}

void test_every_verb_can_be_armed(void)
{
    const char *queues[] = {"async"};
    pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;
    pgw_enqueued results[2];
    int64_t next_ms;
    pgw_batch *batch;
    pgw_ref refs[2];
    pgw_depth d = PGW_DEPTH_INIT;
    int n = 0;

    ASYNC(PGW_OK, pgw_queue_create(h, "async", NULL));
    ASYNC(PGW_OK, enqueue_from_the_stack(results));
    TEST_ASSERT_TRUE(results[0].id > 0 && results[1].id > results[0].id);
    ASYNC(PGW_OK, pgw_queue_depth(h, "async", PGW_UNLIMITED, &d));
    TEST_ASSERT_EQUAL_INT64(2, d.ready);
    o.queues = queues, o.queues_count = 1, o.max = 2;
    ASYNC(PGW_OK, pgw_claim(h, &o, &batch));
    TEST_ASSERT_EQUAL(2, pgw_batch_count(batch));
    TEST_ASSERT_EQUAL_STRING("t", pgw_job_tag(pgw_batch_job(batch, 1), 0));
    for (size_t i = 0; i < 2; i++) refs[i] = pgw_job_ref(pgw_batch_job(batch, i));
    pgw_batch_free(batch);
    ASYNC(PGW_OK, pgw_extend(h, "async", refs, 1, NULL));
    refs[1].token.nonce++;
    ASYNC(PGW_ELEASE, finish_from_the_stack(refs));
    TEST_ASSERT_EQUAL_INT(PGW_OK, refs[0].outcome);
    TEST_ASSERT_EQUAL_INT(PGW_ELEASE, refs[1].outcome);
    ASYNC(PGW_OK, pgw_jobs_each(h, NULL, count_jobs, &n));
    TEST_ASSERT_GREATER_THAN_INT(0, n);
    ASYNC(PGW_OK, pgw_reaper_tick(h, NULL, &next_ms));
    ASYNC(PGW_OUTCOME_EMPTY, pgw_claim(h, &o, &batch));
    TEST_ASSERT_NULL(batch);
}

void test_a_verb_refused_at_once_is_not_armed_any_more(void)
{
    outcome out = {0, PGW_OUTCOME_AGAIN};
    pgw_batch *batch;
    pgw_job_spec job = PGW_JOB_SPEC_INIT;

    job.priority = -1;
    pgw_async(h, done, &out);
    ASSERT_ST(PGW_EINVAL, pgw_enqueue(h, "async", &job, NULL), h);
    ASSERT_ST(PGW_OUTCOME_EMPTY, it_claim(h, &batch, "not there", 1), h);
    TEST_ASSERT_EQUAL_INT(0, out.calls);
}

/* ---- looking ---- */

static int only_id(const pgw_job *job, void *arg)
{
    size_t size;

    TEST_ASSERT_EQUAL_INT64(*(int64_t *)arg, pgw_job_id(job));
    TEST_ASSERT_EQUAL(PGW_STATE_READY, pgw_job_state(job));
    TEST_ASSERT_NULL(pgw_job_body(job, &size));
    TEST_ASSERT_EQUAL(4, size);
    TEST_ASSERT_EQUAL_STRING("the key", pgw_job_key(job));
    return 0;
}

void test_jobs_are_found_by_queue_state_kind_and_id(void)
{
    pgw_jobs_opts o = PGW_JOBS_OPTS_INIT;
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    int64_t id;
    int n = 0;

    job.kind = "wanted", job.key = "the key", job.body = "body", job.body_size = 4;
    ASSERT_ST(PGW_OK, pgw_enqueue(h, "looked", &job, &id), h);
    it_enqueue(h, "looked", NULL);
    o.queue = "looked", o.state = PGW_STATE_READY, o.kind = "wanted";
    ASSERT_ST(PGW_OK, pgw_jobs_each(h, &o, only_id, &id), h);
    o.queue = o.kind = NULL, o.state = PGW_STATE_ANY, o.id = id;
    ASSERT_ST(PGW_OK, pgw_jobs_each(h, &o, only_id, &id), h);
    o.id = 0, o.queue = "looked";
    ASSERT_ST(PGW_OK, pgw_jobs_each(h, &o, count_jobs, &n), h);
    TEST_ASSERT_EQUAL_INT(2, n);
    o.limit = 1, n = 0;
    ASSERT_ST(PGW_OK, pgw_jobs_each(h, &o, count_jobs, &n), h);
    TEST_ASSERT_EQUAL_INT(1, n);
    o.state = PGW_STATE_DEAD;
    ASSERT_ST(PGW_OUTCOME_EMPTY, pgw_jobs_each(h, &o, count_jobs, &n), h);
}

typedef struct page {
    int64_t ids[10];
    int count;
} page;

static int keep_id(const pgw_job *job, void *arg)
{
    page *p = arg;

    TEST_ASSERT_LESS_THAN_INT(10, p->count);
    p->ids[p->count++] = pgw_job_id(job);
    return 0;
}

/* Whatever becomes of the others meanwhile. */
void test_a_list_goes_on_behind_its_last_job(void)
{
    pgw_jobs_opts o = PGW_JOBS_OPTS_INIT;
    page p = {.count = 0};
    pgw_batch *batch;
    int64_t ids[7];

    for (int i = 0; i < 7; i++) ids[i] = it_enqueue(h, "pages", NULL);
    ASSERT_ST(PGW_OK, it_claim(h, &batch, "pages", 2), h);
    pgw_batch_free(batch);
    o.queue = "pages", o.limit = 3;
    ASSERT_ST(PGW_OK, pgw_jobs_each(h, &o, keep_id, &p), h);
    TEST_ASSERT_EQUAL_INT(3, p.count);
    ASSERT_ST(PGW_OK, pgw_cancel(h, "pages", &(pgw_ref){.id = ids[2]}, 1),
              h); /* the last of the page */
    o.after_id = ids[2];
    ASSERT_ST(PGW_OK, pgw_jobs_each(h, &o, keep_id, &p), h);
    o.after_id = ids[5];
    ASSERT_ST(PGW_OK, pgw_jobs_each(h, &o, keep_id, &p), h);
    TEST_ASSERT_EQUAL_INT(7, p.count);
    TEST_ASSERT_EQUAL_INT64_ARRAY(ids, p.ids, 7);
    o.after_id = ids[6];
    ASSERT_ST(PGW_OUTCOME_EMPTY, pgw_jobs_each(h, &o, keep_id, &p), h);
}

static int keep_tags(const pgw_job *job, void *arg)
{
    char *text = arg;

    for (size_t i = 0; i < pgw_job_tags_count(job); i++) {
        strcat(text, pgw_job_tag(job, i));
        strcat(text, ";");
    }
    return 0;
}

/* As they were taken once: who is sent such a job must not fail for all that come after it. */
void test_tags_of_a_shape_that_nobody_sends_are_read(void)
{
    static const char *const tags[] = {"a"};
    pgw_jobs_opts o = PGW_JOBS_OPTS_INIT;
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_batch *batch;
    char text[64] = "";
    int64_t id;

    job.tags = tags, job.tags_count = 1;
    ASSERT_ST(PGW_OK, pgw_enqueue(h, "shapes", &job, &id), h);
    sql("UPDATE pgwork.live_job SET tags = '[0:1][7:8]={{a,b},{NULL,d}}'"
        " WHERE queue = (SELECT id FROM pgwork.queue WHERE name = 'shapes')");
    o.queue = "shapes";
    ASSERT_ST(PGW_OK, pgw_jobs_each(h, &o, keep_tags, text), h);
    TEST_ASSERT_EQUAL_STRING("a;b;;d;", text);
    ASSERT_ST(PGW_OK, it_claim(h, &batch, "shapes", 2), h);
    TEST_ASSERT_EQUAL(1, pgw_batch_count(batch));
    text[0] = '\0';
    keep_tags(pgw_batch_job(batch, 0), text);
    TEST_ASSERT_EQUAL_STRING("a;b;;d;", text);
    pgw_batch_free(batch);
}

/* ---- memory ---- */

/* Fails each allocation in turn: nothing leaks, nothing is half done, the handle stays usable. */
void test_a_claim_and_an_enqueue_survive_every_failed_allocation(void)
{
    const char *const tags[] = {"a", "b"};
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_batch *batch;
    pgw_status st;
    int n, before;

    job.payload = "{}", job.tags = tags, job.tags_count = 2;
    pgw_close(h);
    h = NULL;
    oom_begin();
    h = it_open();
    before = oom_alive();
    for (n = 1, st = PGW_ENOMEM; st != PGW_OK; n++) {
        oom_fail(n);
        st = pgw_enqueue(h, "oom", &job, NULL);
        TEST_ASSERT_TRUE_MESSAGE(st == PGW_OK || (st == PGW_ENOMEM && oom_failed()),
                                 pgw_error_message(h));
    }
    for (n = 1, st = PGW_ENOMEM; st != PGW_OK; n++) {
        oom_fail(n);
        st = pgw_enqueue_many(h, "oom", &job, 1, NULL);
        TEST_ASSERT_TRUE_MESSAGE(st == PGW_OK || (st == PGW_ENOMEM && oom_failed()),
                                 pgw_error_message(h));
    }
    oom_fail(0);
    TEST_ASSERT_EQUAL_INT64_MESSAGE(
        2, pgtemp_number("SELECT count(*) FROM pgwork.job WHERE queue = 'oom'"),
        "no enqueue that failed was applied");
    for (n = 1, st = PGW_ENOMEM; st == PGW_ENOMEM; n++) {
        oom_fail(n);
        st = it_claim(h, &batch, "oom", 10);
        TEST_ASSERT_TRUE(st == PGW_ENOMEM || !oom_failed());
        TEST_ASSERT_TRUE((st == PGW_OK) == (batch != NULL));
        pgw_batch_free(batch);
        oom_fail(0);
        if (st == PGW_ENOMEM) /* what was claimed all the same goes back, so that all are there */
            sql("SELECT pgwork.release('oom', array_agg(coalesce(j.id, j.pos)), array_agg(j.token))"
                " FROM pgwork.live_job j WHERE j.token IS NOT NULL");
    }
    TEST_ASSERT_EQUAL_INT(PGW_OK, st);
    TEST_ASSERT_GREATER_THAN_INT(1, n);
    TEST_ASSERT_GREATER_OR_EQUAL_INT(before, oom_alive());
    pgw_close(h);
    h = NULL;
    oom_end();
}

/* ---- durability ---- */

/* Under which synchronous_commit jobs have been written since the last question: "on" waits for the
 * disk. A trigger tells. */
static const char *written(void)
{
    return pgtemp_value("WITH old AS (DELETE FROM written RETURNING how) SELECT string_agg("
                        "DISTINCT how, ' ') FROM old");
}

/* Claims and extends do not wait for the disk, once prepared and when they are being prepared; what
 * finishes a job does, also when it claims in the same call. */
void test_a_relaxed_claim_and_its_completion_work(void)
{
    static const char *const pairs[] = {"durability", "relaxed", NULL};
    static const char *const queues[] = {"relaxed"};
    pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;
    pgw *relaxed = it_open_with(pairs);
    pgw_batch *batch;
    pgw_ref ref;

    sql("CREATE TABLE written (how text);"
        "CREATE FUNCTION note_how() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN "
        "INSERT INTO public.written VALUES (current_setting('synchronous_commit')); RETURN NULL; "
        "END $$;"
        "CREATE TRIGGER note_how AFTER INSERT OR UPDATE OR DELETE ON pgwork.live_job FOR EACH ROW "
        "EXECUTE FUNCTION note_how()");
    o.queues = queues, o.queues_count = 1;
    for (int i = 0; i < 3; i++) {
        it_enqueue(relaxed, "relaxed", "1");
        it_enqueue(relaxed, "relaxed", "2");
        TEST_ASSERT_EQUAL_STRING("on", written());
        ref = it_claim_one(relaxed, "relaxed");
        TEST_ASSERT_EQUAL_STRING("off", written());
        ASSERT_ST(PGW_OK, pgw_extend(relaxed, "relaxed", &ref, 1, EXTEND_BY(60000)), relaxed);
        TEST_ASSERT_EQUAL(PGW_OK, ref.outcome);
        TEST_ASSERT_EQUAL_STRING("off", written());
        ASSERT_ST(PGW_OK, pgw_complete_and_claim(relaxed, &ref, 1, &o, &batch), relaxed);
        TEST_ASSERT_EQUAL_STRING("on", written());
        ref = pgw_job_ref(pgw_batch_job(batch, 0));
        pgw_batch_free(batch);
        ASSERT_ST(PGW_OK, pgw_complete(relaxed, "relaxed", &ref, 1, NULL), relaxed);
        TEST_ASSERT_EQUAL_STRING("on", written());
    }
    it_enqueue(h, "relaxed", "3");
    it_claim_one(h, "relaxed");
    TEST_ASSERT_EQUAL_STRING_MESSAGE("on", written(), "without durability=relaxed");
    sql("DROP TRIGGER note_how ON pgwork.live_job; DROP FUNCTION note_how(); DROP TABLE written");
    ASSERT_ST(PGW_OK, pgw_queue_drop(h, "relaxed", true), h);
    pgw_close(relaxed);
}

/* ---- a schema of another name ---- */

void test_all_of_it_in_a_schema_of_another_name(void)
{
    static const char *const pairs[] = {"schema", "jobs_2", "schema.check", "off", NULL};
    static const char *const waiting[] = {"schema",      "jobs_2",  "poll.min_ms", "3600000",
                                          "poll.max_ms", "3600000", NULL};
    pgw *other = it_open_with(pairs);
    pgw_batch *batch;
    pgw_ref ref;

    ASSERT_ST(PGW_OK, pgw_migrate_up(other, NULL), other);
    it_enqueue(other, "q", "1");
    ASSERT_ST(PGW_OUTCOME_EMPTY, it_claim(h, &batch, "q", 1), h);
    ref = it_claim_one(other, "q");
    ASSERT_ST(PGW_OK, pgw_complete(other, "q", &ref, 1, NULL), other);
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT count(*) FROM jobs_2.job"));
    pgw_close(other);
    wait_for_job(waiting, pairs, "notified", false);
}
