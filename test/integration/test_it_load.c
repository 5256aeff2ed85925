/* load: fifty thousand jobs by COPY and by batches, all or none. */
#include "unity.h"
#include "pgw_all.h"
#include "pgtemp.h"
#include "itpgw.h"
#include "oom.h"

#define MANY 50000
#define FAR  INT64_C(4102444800000000) /* 2100 */

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

/* Fifty thousand jobs, a tenth of them for later, each a bit different. */
static void add_many(pgw *handle, pgw_load *load)
{
    const char *const tags[] = {"t1", "a \"b\" \\c"};
    char payload[64], body[3] = {0, 1, 2};
    int i;

    for (i = 0; i < MANY; i++) {
        pgw_job_spec job = PGW_JOB_SPEC_INIT;

        snprintf(payload, sizeof(payload), "{\"n\":%d}", i);
        job.payload = payload;
        job.priority = i % 3;
        if (i % 2 == 0) job.kind = "even";
        if (i % 5 == 0) job.tags = tags, job.tags_count = 2;
        if (i % 7 == 0) job.body = body, job.body_size = sizeof(body);
        if (i % 10 == 0) job.delay_ms = 3600000;
        if (i % 11 == 0) job.max_attempts = 3, job.lease_ms = 1000;
        if (i % 13 == 0)
            job.group = "ann", job.meta = "{\"t\":1}", job.expires_us = FAR;
        else if (i % 17 == 0)
            job.ttl_ms = 4000000;
        ASSERT_ST(PGW_OK, pgw_load_add(load, &job), handle);
    }
}

/* What must be in the queue then. */
static void check_many(const char *queue)
{
    static const char *const asked[][2] = {
        {"count(*)", "50000"},
        {"count(*) FILTER (WHERE state = 'ready')", "41538"}, /* a job of a group is due at once */
        {"count(*) FILTER (WHERE state = 'delayed' AND run_at BETWEEN now() + interval '50 min' "
         "AND now() + interval '61 min')",
         "5000"},
        {"count(*) FILTER (WHERE grp = 'ann' AND (state = 'gated' OR run_at <= now()))", "3462"},
        {"count(*) FILTER (WHERE kind = 'even')", "25000"},
        {"count(*) FILTER (WHERE priority = 1)", "16667"},
        {"count(*) FILTER (WHERE tags = '{t1,\"a \\\"b\\\" \\\\c\"}')", "10000"},
        {"count(*) FILTER (WHERE body_bytes = 3)", "7143"},
        {"count(*) FILTER (WHERE max_attempts = 3)", "4546"},
        {"count(DISTINCT id)", "50000"},
        {"sum((payload->>'n')::bigint)", "1249975000"},
    };
    char text[400];
    size_t i;

    for (i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        snprintf(text, sizeof(text), "SELECT %s FROM pgwork.job WHERE queue = '%s'", asked[i][0],
                 queue);
        TEST_ASSERT_EQUAL_STRING_MESSAGE(asked[i][1], pgtemp_value(text), asked[i][0]);
    }
    snprintf(
        text, sizeof(text),
        "SELECT count(*) FILTER (WHERE state = 'gated' OR run_at <= now()) || ' ' || count(*) FROM "
        "pgwork.job_list('%s', at_most => 100000) WHERE grp = 'ann' AND meta = '{\"t\": 1}' AND "
        "expires_at = '2100-01-01Z'",
        queue);
    TEST_ASSERT_EQUAL_STRING("3462 3847", pgtemp_value(text));
    snprintf(text, sizeof(text),
             "SELECT count(*) || ' ' || count(e.id) || ' ' || count(*) FILTER (WHERE e.at = "
             "j.expires_at) FROM pgwork.job j LEFT JOIN pgwork.expiring_job e USING (id) WHERE "
             "j.queue = '%s' AND j.expires_at IS NOT NULL AND (grp = 'ann' OR j.expires_at BETWEEN "
             "now() + interval '1 hour' AND now() + interval '3 hours')",
             queue);
    TEST_ASSERT_EQUAL_STRING_MESSAGE("6562 6562 6562", pgtemp_value(text), "known to the reaper");
}

void test_fifty_thousand_jobs_are_loaded_by_copy(void)
{
    pgw_load *load;
    int64_t added;

    ASSERT_ST(PGW_OK, pgw_load_begin(h, "copied", &load), h);
    add_many(h, load);
    TEST_ASSERT_EQUAL_INT64_MESSAGE(
        0, pgtemp_number("SELECT count(*) FROM pgwork.job WHERE queue = 'copied'"),
        "not before the end");
    ASSERT_ST(PGW_OK, pgw_load_end(load, true, &added), h);
    TEST_ASSERT_EQUAL_INT64(MANY, added);
    check_many("copied");
    it_claim_one(h, "copied");
}

void test_fifty_thousand_by_batches_for_a_producer(void)
{
    char dsn[1200];
    const char *const pairs[] = {"dsn", dsn, "schema.check", "off", NULL};
    pgw_load *load;
    int64_t added;
    pgw *producer;

    pgtemp_exec("DROP ROLE IF EXISTS pgw_it_producer; CREATE ROLE pgw_it_producer LOGIN IN ROLE "
                "pgwork_producer");
    snprintf(dsn, sizeof(dsn), "%s user=pgw_it_producer", pgtemp_dsn());
    producer = it_open_with(pairs);
    ASSERT_ST(PGW_OK, pgw_load_begin(producer, "batched", &load), producer);
    add_many(producer, load);
    TEST_ASSERT_EQUAL_INT64_MESSAGE(
        MANY, pgtemp_number("SELECT count(*) FROM pgwork.job WHERE queue = 'batched'"),
        "a batch goes as soon as it is full");
    ASSERT_ST(PGW_OK, pgw_load_end(load, true, &added), producer);
    TEST_ASSERT_EQUAL_INT64(MANY, added);
    check_many("batched");
    pgw_close(producer);
    pgtemp_exec("DROP ROLE pgw_it_producer");
}

void test_an_attached_load_is_the_callers_transaction(void)
{
    const pgw_job_spec job = PGW_JOB_SPEC_INIT;
    PGconn *conn = pgtemp_connect();
    pgw_load *load;
    int64_t added;
    pgw *a;

    ASSERT_ST(PGW_OK, pgw_attach(conn, NULL, &a), a);
    PQclear(PQexec(conn, "BEGIN"));
    ASSERT_ST(PGW_OK, pgw_load_begin(a, "attached", &load), a);
    ASSERT_ST(PGW_OK, pgw_load_add(load, &job), a);
    ASSERT_ST(PGW_OK, pgw_load_end(load, true, &added), a);
    TEST_ASSERT_EQUAL_INT64(1, added);
    PQclear(PQexec(conn, "ROLLBACK"));
    TEST_ASSERT_EQUAL_INT64(
        0, pgtemp_number("SELECT count(*) FROM pgwork.job WHERE queue = 'attached'"));
    pgw_close(a);
    PQfinish(conn);
}

void test_a_load_in_a_transaction_of_ours_is_part_of_it(void)
{
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_load *load;
    int64_t added;

    ASSERT_ST(PGW_OK, pgw_txn_begin(h), h);
    ASSERT_ST(PGW_OK, pgw_load_begin(h, "together", &load), h);
    ASSERT_ST(PGW_OK, pgw_load_add(load, &job), h);
    ASSERT_ST(PGW_OK, pgw_load_end(load, true, &added), h);
    TEST_ASSERT_EQUAL_INT64(1, added);
    TEST_ASSERT_EQUAL_INT64(
        0, pgtemp_number("SELECT count(*) FROM pgwork.job WHERE queue = 'together'"));
    ASSERT_ST(PGW_OK, pgw_txn_commit(h), h);
    TEST_ASSERT_EQUAL_INT64(
        1, pgtemp_number("SELECT count(*) FROM pgwork.job WHERE queue = 'together'"));
}

void test_an_abandoned_load_leaves_nothing(void)
{
    const pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_load *load;
    int64_t added = 7;
    int i;

    ASSERT_ST(PGW_OK, pgw_load_begin(h, "abandoned", &load), h);
    for (i = 0; i < 20000; i++) ASSERT_ST(PGW_OK, pgw_load_add(load, &job), h);
    ASSERT_ST(PGW_OK, pgw_load_end(load, false, &added), h);
    TEST_ASSERT_EQUAL_INT64(0, added);
    TEST_ASSERT_EQUAL_INT64(
        0, pgtemp_number("SELECT count(*) FROM pgwork.job WHERE queue = 'abandoned'"));
    it_enqueue(h, "abandoned", NULL); /* the handle is free again */
}

void test_a_refused_job_does_not_spoil_the_load(void)
{
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_load *load;
    int64_t added;

    ASSERT_ST(PGW_OK, pgw_load_begin(h, "picky", &load), h);
    ASSERT_ST(PGW_OK, pgw_load_add(load, &job), h);
    job.key = "k";
    ASSERT_ST(PGW_EINVAL, pgw_load_add(load, &job), h);
    ASSERT_HAS("job.key", pgw_error_message(h));
    TEST_ASSERT_EQUAL_size_t(1, pgw_error_index(h));
    job.key = NULL, job.priority = 10;
    ASSERT_ST(PGW_EINVAL, pgw_load_add(load, &job), h);
    ASSERT_ST(PGW_EINVAL, pgw_load_add(load, NULL), h);
    ASSERT_ST(PGW_OK, pgw_load_end(load, true, &added), h);
    TEST_ASSERT_EQUAL_INT64(1, added);
}

void test_a_job_that_the_server_refuses_fails_the_load(void)
{
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_load *load;
    int64_t added;

    ASSERT_ST(PGW_OK, pgw_load_begin(h, "spoiled", &load), h);
    ASSERT_ST(PGW_OK, pgw_load_add(load, &job), h);
    job.payload = "{no json";
    ASSERT_ST(PGW_EINVAL, pgw_load_add(load, &job), h); /* that is seen here */
    job.payload = "1e200000";                           /* JSON, and more than a numeric holds */
    ASSERT_ST(PGW_OK, pgw_load_add(load, &job), h);
    ASSERT_ST(PGW_EINVAL, pgw_load_end(load, true, &added), h);
    ASSERT_HAS("22003", pgw_error_message(h));
    TEST_ASSERT_EQUAL_INT64(0, added);
    TEST_ASSERT_EQUAL_INT64(
        0, pgtemp_number("SELECT count(*) FROM pgwork.job WHERE queue = 'spoiled'"));
    it_enqueue(h, "spoiled", NULL);
}

/* A COPY passes the functions that check what others enqueue. */
void test_a_load_refuses_a_time_of_more_than_ten_years_ahead(void)
{
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_load *load;
    int64_t added;

    ASSERT_ST(PGW_OK, pgw_load_begin(h, "too far", &load), h);
    job.run_at_us = FAR;
    ASSERT_ST(PGW_EINVAL, pgw_load_add(load, &job), h);
    ASSERT_HAS("`job.run_at_us`", pgw_error_message(h));
    job.run_at_us = 0;
    ASSERT_ST(PGW_OK, pgw_load_add(load, &job), h);
    ASSERT_ST(PGW_OK, pgw_load_end(load, true, &added), h);
    TEST_ASSERT_EQUAL_INT64(1, added);
}

/* Two tables are written in turns, each by its COPY. */
void test_jobs_for_now_and_for_later_may_alternate(void)
{
    static char payload[100 * 1024];
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_load *load;
    int64_t added;

    memset(payload, ' ', sizeof(payload) - 1);
    payload[0] = '1';
    job.payload = payload;
    ASSERT_ST(PGW_OK, pgw_load_begin(h, "turns", &load), h);
    for (int i = 0; i < 40; i++) {
        job.delay_ms = i % 2 == 0 ? 0 : 3600000;
        ASSERT_ST(PGW_OK, pgw_load_add(load, &job), h);
    }
    ASSERT_ST(PGW_OK, pgw_load_end(load, true, &added), h);
    TEST_ASSERT_EQUAL_INT64(40, added);
    TEST_ASSERT_EQUAL_INT64(
        20,
        pgtemp_number("SELECT count(*) FROM pgwork.job WHERE queue = 'turns' AND state = 'ready'"));
    TEST_ASSERT_EQUAL_INT64(
        20, pgtemp_number(
                "SELECT count(*) FROM pgwork.job WHERE queue = 'turns' AND state = 'delayed'"));
    ASSERT_ST(PGW_OK, pgw_load_begin(h, "turns", &load), h);
    for (int i = 0; i < 7; i++) ASSERT_ST(PGW_OK, pgw_load_add(load, &job), h);
    ASSERT_ST(PGW_OK, pgw_load_end(load, false, &added), h); /* given up while a COPY is open */
    TEST_ASSERT_EQUAL_INT64(0, added);
    TEST_ASSERT_EQUAL_INT64(40,
                            pgtemp_number("SELECT count(*) FROM pgwork.job WHERE queue = 'turns'"));
    it_enqueue(h, "turns", NULL);
}

static void never(pgw *handle, pgw_status st, void *arg)
{
    TEST_FAIL_MESSAGE("done was called");
}

void test_a_failed_load_goes_on_failing(void)
{
    static char payload[300 * 1024];
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_status st = PGW_OK;
    pgw_load *load;
    int64_t added;

    memset(payload, ' ', sizeof(payload) - 1);
    memcpy(payload, "1e200000", 8); /* for the server alone, and large enough to be sent at once */
    job.payload = payload;
    ASSERT_ST(PGW_OK, pgw_load_begin(h, "failing", &load), h);
    /* the server says so within 16 MB */
    for (int i = 0; st == PGW_OK && i < 60; i++) st = pgw_load_add(load, &job);
    ASSERT_ST(PGW_EINVAL, st, h);
    job.payload = NULL;
    ASSERT_ST(PGW_EINVAL, pgw_load_add(load, &job), h);
    ASSERT_HAS("22003", pgw_error_message(h)); /* the same diagnostics */
    pgw_async(h, never, NULL);
    ASSERT_ST(PGW_EINVAL, pgw_load_end(load, true, &added), h);
    ASSERT_HAS("22003", pgw_error_message(h));
    it_enqueue(h, "failing", NULL);
}

void test_a_large_body_goes_through(void)
{
    static char body[3 * 1024 * 1024];
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_load *load;

    memset(body, 0xa5, sizeof(body));
    job.body = body, job.body_size = sizeof(body);
    ASSERT_ST(PGW_OK, pgw_load_begin(h, "large", &load), h);
    ASSERT_ST(PGW_OK, pgw_load_add(load, &job), h);
    ASSERT_ST(PGW_OK, pgw_load_add(load, &job), h);
    ASSERT_ST(PGW_OK, pgw_load_end(load, true, NULL), h);
    TEST_ASSERT_EQUAL_INT64(
        2 * (long long)sizeof(body),
        pgtemp_number("SELECT sum(body_bytes) FROM pgwork.job WHERE queue = 'large'"));
}

/* What was not sent by its end belongs to no other one. */
void test_a_load_ends_with_the_transaction_that_it_is_part_of(void)
{
    static const char *const ends[] = {"ROLLBACK", "COMMIT"};
    PGconn *conn = pgtemp_connect();
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_load *load;
    int64_t added;
    pgw *a;

    ASSERT_ST(PGW_OK, pgw_attach(conn, NULL, &a), a);
    for (int i = 0; i < 2; i++) {
        PQclear(PQexec(conn, "BEGIN"));
        ASSERT_ST(PGW_OK, pgw_load_begin(a, "parted", &load), a);
        for (int k = 0; k < 5; k++) ASSERT_ST(PGW_OK, pgw_load_add(load, &job), a);
        PQclear(PQexec(conn, ends[i]));
        ASSERT_ST(PGW_EMISUSE, pgw_load_end(load, true, &added), a);
        TEST_ASSERT_EQUAL_INT64(0, added);
    }
    pgw_close(a);
    PQfinish(conn);
    ASSERT_ST(PGW_OK, pgw_txn_begin(h), h);
    ASSERT_ST(PGW_OK, pgw_load_begin(h, "parted", &load), h);
    ASSERT_ST(PGW_OK, pgw_load_add(load, &job), h);
    ASSERT_ST(PGW_OK, pgw_txn_rollback(h), h);
    ASSERT_ST(PGW_OK, pgw_txn_begin(h), h);
    ASSERT_ST(PGW_EMISUSE, pgw_load_end(load, true, NULL), h);
    ASSERT_ST(PGW_OK, pgw_txn_commit(h), h);
    TEST_ASSERT_EQUAL_INT64(
        0, pgtemp_number("SELECT count(*) FROM pgwork.job WHERE queue = 'parted'"));
}

/* Of all that the load has taken, though it goes in by batches of ten thousand. */
void test_which_job_the_server_refuses_of_a_load_by_batches(void)
{
    pgw_queue_opts o = PGW_QUEUE_OPTS_INIT;
    PGconn *conn = pgtemp_connect();
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_load *load;
    int64_t added;
    pgw *a;

    o.max_bytes = 10;
    ASSERT_ST(PGW_OK, pgw_queue_create(h, "which", &o), h);
    ASSERT_ST(PGW_OK, pgw_attach(conn, NULL, &a), a);
    ASSERT_ST(PGW_OK, pgw_load_begin(a, "which", &load), a);
    for (int i = 0; i < 10003; i++) ASSERT_ST(PGW_OK, pgw_load_add(load, &job), a);
    job.priority = 10;
    ASSERT_ST(PGW_EINVAL, pgw_load_add(load, &job), a); /* is not taken, and does not count */
    TEST_ASSERT_EQUAL_size_t(10003, pgw_error_index(a));
    job.priority = 0, job.payload = "\"longer than that\"";
    ASSERT_ST(PGW_OK, pgw_load_add(load, &job), a);
    job.payload = NULL;
    ASSERT_ST(PGW_OK, pgw_load_add(load, &job), a);
    ASSERT_ST(PGW_ELIMIT, pgw_load_end(load, true, &added), a);
    TEST_ASSERT_EQUAL_size_t(10003, pgw_error_index(a));
    TEST_ASSERT_EQUAL_INT64(10000, added);
    pgw_close(a);
    PQfinish(conn);
}

void test_limits_and_the_state_of_the_queue(void)
{
    pgw_queue_opts o = PGW_QUEUE_OPTS_INIT;
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_load *load;

    o.max_bytes = 10;
    ASSERT_ST(PGW_OK, pgw_queue_create(h, "tiny", &o), h);
    ASSERT_ST(PGW_OK, pgw_load_begin(h, "tiny", &load), h);
    job.payload = "\"12345678\"";
    ASSERT_ST(PGW_OK, pgw_load_add(load, &job), h);
    job.payload = "\"123456789\"";
    ASSERT_ST(PGW_ELIMIT, pgw_load_add(load, &job), h);
    ASSERT_HAS("the queue's max_bytes", pgw_error_hint(h));
    ASSERT_ST(PGW_OK, pgw_load_end(load, true, NULL), h);

    ASSERT_ST(PGW_OK, pgw_queue_drain(h, "tiny"), h);
    ASSERT_ST(PGW_EPAUSED, pgw_load_begin(h, "tiny", &load), h);
    TEST_ASSERT_NULL(load);
    it_enqueue(h, "not tiny", NULL); /* no transaction is left open */

    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw_load_begin(NULL, "q", &load));
    ASSERT_ST(PGW_EINVAL, pgw_load_begin(h, "", &load), h);
    TEST_ASSERT_NULL(load);
    ASSERT_ST(PGW_EINVAL, pgw_load_begin(h, "q", NULL), h);
    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw_load_add(NULL, &job));
    TEST_ASSERT_EQUAL_INT(PGW_OK, pgw_load_end(NULL, true, NULL));
}

void test_a_load_cannot_be_armed(void)
{
    pgw_load *load;

    pgw_async(h, never, NULL);
    ASSERT_ST(PGW_EMISUSE, pgw_load_begin(h, "armed", &load), h);
    TEST_ASSERT_NULL(load);
    it_enqueue(h, "armed", NULL);
}

/* What it sends would be told to be done while it is under way. By COPY and, attached, by batches.
 */
TEST_CASE(false)
TEST_CASE(true)
void test_a_load_that_has_begun_cannot_be_armed(bool attached)
{
    static char payload[10 * 1024];
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    const char *queue = attached ? "late batches" : "late copy";
    PGconn *conn = pgtemp_connect();
    char asked[100];
    pgw *a = h;
    pgw_load *load;
    int64_t added = 7;

    snprintf(asked, sizeof(asked), "SELECT count(*) FROM pgwork.job WHERE queue = '%s'", queue);
    memset(payload, ' ', sizeof(payload) - 1);
    payload[0] = '1';
    job.payload = payload;
    if (attached) ASSERT_ST(PGW_OK, pgw_attach(conn, NULL, &a), a);
    ASSERT_ST(PGW_OK, pgw_load_begin(a, queue, &load), a);
    for (int i = 0; i < 40; i++) ASSERT_ST(PGW_OK, pgw_load_add(load, &job), a);
    pgw_async(a, never, NULL);
    ASSERT_ST(PGW_EMISUSE, pgw_load_add(load, &job), a);
    ASSERT_ST(PGW_OK, pgw_load_add(load, &job), a); /* that one alone was refused */
    pgw_async(a, never, NULL);
    ASSERT_ST(PGW_EMISUSE, pgw_load_end(load, true, &added), a);
    ASSERT_HAS("cannot follow pgw_async()", pgw_error_message(a));
    TEST_ASSERT_EQUAL_INT64(0, added);
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number(asked));
    it_enqueue(a, queue, NULL);

    ASSERT_ST(PGW_OK, pgw_load_begin(a, queue, &load), a);
    for (int i = 0; i < 40; i++) ASSERT_ST(PGW_OK, pgw_load_add(load, &job), a);
    pgw_async(a, never, NULL);
    ASSERT_ST(PGW_OK, pgw_load_end(load, false, &added), a);
    it_enqueue(a, queue, NULL);
    TEST_ASSERT_EQUAL_INT64(2, pgtemp_number(asked));
    if (attached) pgw_close(a);
    PQfinish(conn);
}

/* What would be in the load's transaction, and undone with it, is refused; also before anything was
 * sent. */
void test_a_load_by_copy_has_the_handle_for_itself(void)
{
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_load *load, *second;
    int64_t added;

    ASSERT_ST(PGW_OK, pgw_load_begin(h, "alone", &load), h);
    ASSERT_ST(PGW_EMISUSE, pgw_enqueue(h, "alone", &job, NULL), h);
    ASSERT_HAS("a load is in progress", pgw_error_message(h));
    ASSERT_ST(PGW_EMISUSE, pgw_txn_commit(h), h);
    ASSERT_ST(PGW_EMISUSE, pgw_load_begin(h, "alone", &second), h);
    TEST_ASSERT_NULL(second);
    ASSERT_ST(PGW_OK, pgw_load_add(load, &job), h);
    ASSERT_ST(PGW_OK, pgw_load_end(load, true, &added), h);
    TEST_ASSERT_EQUAL_INT64(1, added);
    it_enqueue(h, "alone", NULL);
    TEST_ASSERT_EQUAL_INT64(2,
                            pgtemp_number("SELECT count(*) FROM pgwork.job WHERE queue = 'alone'"));
}

void test_a_load_outlives_its_handle(void)
{
    pgw *other = it_open();
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_load *load;
    int64_t added = 1;

    ASSERT_ST(PGW_OK, pgw_load_begin(other, "orphan", &load), other);
    ASSERT_ST(PGW_OK, pgw_load_add(load, &job), other);
    pgw_close(other);
    TEST_ASSERT_EQUAL_INT(PGW_ECONN, pgw_load_add(load, &job));
    TEST_ASSERT_EQUAL_INT(PGW_ECONN, pgw_load_end(load, true, &added));
    TEST_ASSERT_EQUAL_INT64(0, added);
    TEST_ASSERT_EQUAL_INT64(
        0, pgtemp_number("SELECT count(*) FROM pgwork.job WHERE queue = 'orphan'"));
}

/* By COPY and, attached, by batches. */
void test_a_load_survives_every_failed_allocation(void)
{
    const char *const tags[] = {"t"};
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    PGconn *conn = pgtemp_connect();
    pgw_status st;
    int way, n;

    job.payload = "1", job.kind = "k", job.tags = tags, job.tags_count = 1;
    pgw_close(h);
    h = NULL;
    oom_begin();
    for (way = 0; way < 2; way++) {
        if (way == 0)
            h = it_open();
        else
            ASSERT_ST(PGW_OK, pgw_attach(conn, NULL, &h), h);
        for (n = 1, st = PGW_ENOMEM; st != PGW_OK; n++) {
            pgw_load *load;
            int64_t added;

            oom_fail(n);
            st = pgw_load_begin(h, "oom", &load);
            if (st == PGW_OK) st = pgw_load_add(load, &job);
            if (st == PGW_OK)
                st = pgw_load_end(load, true, &added);
            else
                pgw_load_end(load, false, &added);
            TEST_ASSERT_TRUE_MESSAGE(st == PGW_OK || (st == PGW_ENOMEM && oom_failed()),
                                     pgw_error_message(h));
            TEST_ASSERT_EQUAL_INT64(st == PGW_OK, added);
        }
        oom_fail(0);
        pgw_close(h);
        h = NULL;
        TEST_ASSERT_EQUAL_INT64(
            way + 1, pgtemp_number("SELECT count(*) FROM pgwork.job WHERE queue = 'oom'"));
    }
    PQfinish(conn);
    oom_end();
}
