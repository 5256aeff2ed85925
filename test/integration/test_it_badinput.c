/* Bad input: the result is a status with a message, nothing is applied in part, and the handle
 * stays usable. */
#include "unity.h"
#include "callkit.h"
#include "pgw_all.h"
#include "pgtemp.h"
#include "itpgw.h"

#include <stdlib.h>

static pgw *h;

void setUp(void)
{
    h = it_open();
}

void tearDown(void)
{
    pgw_close(h);
}

static long long jobs(void)
{
    return pgtemp_number("SELECT count(*) FROM pgwork.job");
}

/* Refused with this status and with words, by one and by many; nothing is there afterwards. */
static void refused(pgw_status expected, const pgw_job_spec *job, const char *what)
{
    const long long before = jobs();
    int64_t id = 1;
    pgw_job_spec two[2];
    pgw_status st;

    st = pgw_enqueue(h, "bad", job, &id);
    TEST_ASSERT_EQUAL_INT_MESSAGE(expected, st, what);
    TEST_ASSERT_EQUAL_INT64_MESSAGE(0, id, what);
    TEST_ASSERT_TRUE_MESSAGE(*pgw_error_message(h) != '\0', what);
    TEST_ASSERT_NULL_MESSAGE(strstr(pgw_error_message(h), "SECRET"), "a payload is never repeated");
    two[0] = (pgw_job_spec)PGW_JOB_SPEC_INIT;
    two[1] = *job;
    st = pgw_enqueue_many(h, "bad", two, 2, NULL);
    TEST_ASSERT_EQUAL_INT_MESSAGE(expected, st, what);
    TEST_ASSERT_EQUAL_INT64_MESSAGE(before, jobs(), what);
    it_enqueue(h, "good", NULL);
}

void test_payloads_that_are_not_json_are_refused(void)
{
    static const char *const bad[] = {"",
                                      " ",
                                      "{",
                                      "}",
                                      "{\"SECRET\"}",
                                      "[1,]",
                                      "{'a':1}",
                                      "nul",
                                      "01",
                                      "1 2",
                                      "\"\\u0000\"",
                                      "\"\\ud800\"",
                                      "\"\x01\"",
                                      "\"\\x\"",
                                      "NaN",
                                      "\"SECRET",
                                      "{\"a\":1}}",
                                      "\xff",
                                      "\"\xc0\x80\"",
                                      "\"\xed\xa0\x80\"",
                                      "1e400000"};
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    size_t i;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        job.payload = bad[i];
        refused(PGW_EINVAL, &job, bad[i]);
    }
}

void test_payloads_that_are_odd_but_json(void)
{
    static const char *const good[] = {"null",
                                       "0",
                                       "-0.0e-5",
                                       "\"\"",
                                       "[]",
                                       "{}",
                                       " { \"a\" : [ ] } ",
                                       "\"\\\\u0000\"",
                                       "\"\xf0\x9f\x90\x98\"",
                                       "\"\\ud83d\\ude00\"",
                                       "{\"a\":1,\"a\":2}",
                                       "1e300"};
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    size_t i;

    for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        job.payload = good[i];
        TEST_ASSERT_EQUAL_INT_MESSAGE(PGW_OK, pgw_enqueue(h, "odd", &job, NULL), good[i]);
    }
}

/* Of texts that are nearly JSON, the library takes those that the server takes. */
void test_the_library_and_the_server_agree_about_json(void)
{
    static const char *const seeds[] = {
        "{\"a\": [1, -2.5e+3, true, null], \"b\\n\": {\"c\": \"\\ud83d\\ude00\"}}",
        "[[], {}, \"\\\\\\/\\\"\", 0, -0.0, 1E5, false]", " \"\\u00e9 \xc3\xa9\" "};
    static const char letters[] = "{}[]:,\"\\/u0d8eE+-.1 anrt\t\n\x1f\x7f";
    unsigned random = 1;
    int good = 0;

    for (int n = 0; n < 6000; n++) {
        char text[200];
        const char *const values[] = {text};
        size_t at;
        PGresult *r;
        bool ours, theirs;

        strcpy(text, seeds[n % 3]);
        for (int edits = 1 + n % 4; edits > 0; edits--) {
            const size_t size = strlen(text);
            size_t where;
            char letter;

            random = random * 1664525 + 1013904223;
            where = (random >> 8) % size;
            letter = letters[(random >> 20) % (sizeof(letters) - 1)];
            if (random >> 30 == 0) {
                memmove(text + where, text + where + 1, size - where); /* with the end */
            } else if (random >> 30 == 1 && size + 2 < sizeof(text)) {
                memmove(text + where + 1, text + where, size - where + 1);
                text[where] = letter;
            } else {
                text[where] = letter;
            }
        }
        r = PQexecParams(pgtemp_conn(), "SELECT $1::jsonb", 1, NULL, values, NULL, NULL, 0);
        theirs = PQresultStatus(r) == PGRES_TUPLES_OK;
        ours = pgw__json_fault(text, sizeof(text), &at) == NULL;
        PQclear(r);
        TEST_ASSERT_EQUAL_INT_MESSAGE(theirs, ours, text);
        good += ours;
    }
    TEST_ASSERT_GREATER_THAN_INT(300, good);
    TEST_ASSERT_LESS_THAN_INT(5700, good);
}

void test_json_is_refused_beyond_a_thousand_levels(void)
{
    static char deep[20001];
    pgw_job_spec job = PGW_JOB_SPEC_INIT;

    memset(deep, '[', 1000), memset(deep + 1000, ']', 1000), deep[2000] = '\0';
    job.payload = deep;
    ASSERT_ST(PGW_OK, pgw_enqueue(h, "deep", &job, NULL), h);
    memset(deep, '[', 10000), memset(deep + 10000, ']', 10000), deep[20000] = '\0';
    refused(PGW_EINVAL, &job, "10,000 levels");
}

void test_a_payload_over_the_limit_is_refused(void)
{
    const size_t limit = 16777216;
    char *big = malloc(limit + 2);
    pgw_job_spec job = PGW_JOB_SPEC_INIT;

    TEST_ASSERT_NOT_NULL(big);
    memset(big, 'x', limit + 1);
    big[0] = '"', big[limit] = '"', big[limit + 1] = '\0';
    job.payload = big;
    refused(PGW_ELIMIT, &job, "one byte too many");
    job.payload = NULL, job.body = big, job.body_size = limit + 1;
    refused(PGW_ELIMIT, &job, "a body one byte too large");
    job.body_size = SIZE_MAX;
    refused(PGW_ELIMIT, &job, "a body of all memory");
    job.payload = "1", job.body_size = limit;
    refused(PGW_ELIMIT, &job, "together one byte too many");
    free(big);
}

void test_names_are_data(void)
{
    static const char *const odd[] = {"'; DROP SCHEMA pgwork CASCADE; --",
                                      "\"quoted\"",
                                      "$1",
                                      "%s%n",
                                      "\\",
                                      "a b",
                                      "NULL",
                                      "pgwork.job",
                                      "\xf0\x9f\x90\x98",
                                      "-",
                                      "*"};
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_depth d = PGW_DEPTH_INIT;
    size_t i;

    for (i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        pgw_ref ref;

        job.kind = job.key = odd[i];
        job.tags = &odd[i], job.tags_count = 1;
        ASSERT_ST(PGW_OK, pgw_enqueue_many(h, odd[i], &job, 1, NULL), h);
        ASSERT_ST(PGW_OK, pgw_queue_depth(h, odd[i], PGW_UNLIMITED, &d), h);
        TEST_ASSERT_EQUAL_INT64(1, d.ready);
        ref = it_claim_one(h, odd[i]);
        ASSERT_ST(PGW_OK, pgw_complete(h, odd[i], &ref, 1, NULL), h);
        ASSERT_ST(PGW_OK, pgw_queue_drop(h, odd[i], false), h);
    }
}

void test_times_out_of_range_are_refused(void)
{
    pgw_job_spec job = PGW_JOB_SPEC_INIT;

    job.run_at_us = INT64_MIN;
    refused(PGW_EINVAL, &job, "run_at INT64_MIN");
    job.run_at_us = 0, job.delay_ms = INT64_MIN;
    refused(PGW_EINVAL, &job, "delay INT64_MIN");
    job.delay_ms = INT64_C(315360000001);
    refused(PGW_EINVAL, &job, "delay of more than ten years");
    job.delay_ms = INT64_C(315360000000);
    ASSERT_ST(PGW_OK, pgw_enqueue(h, "far", &job, NULL), h);
    ASSERT_ST(PGW_OK, pgw_enqueue_many(h, "far", &job, 1, NULL), h);
    job.delay_ms = 0, job.run_at_us = INT64_MAX;
    refused(PGW_EINVAL, &job, "run_at INT64_MAX");
    job.run_at_us = pgtemp_number("SELECT extract(epoch FROM now() + interval '3650 days 2 hours')"
                                  "::bigint * 1000000");
    refused(PGW_EINVAL, &job, "run_at of more than ten years ahead");
    TEST_ASSERT_EQUAL_INT64(
        2,
        pgtemp_number("SELECT count(*) FROM pgwork.job WHERE queue = 'far' AND state = 'delayed'"));
}

void test_options_of_an_older_caller_are_read_and_of_a_newer_refused(void)
{
    pgw_job_spec job = PGW_JOB_SPEC_INIT;

    job.struct_size = 0;
    refused(PGW_EINVAL, &job, "struct_size 0");
    job.struct_size = sizeof(job) + 1;
    ASSERT_ST(PGW_EINVAL, pgw_enqueue(h, "bad", &job, NULL), h);
    /* an older caller, who knows nothing behind body_size: what stands there is not read */
    memset(&job, 0xff, sizeof(job));
    job.struct_size = offsetof(pgw_job_spec, priority);
    job.payload = "1", job.kind = "old", job.body = NULL, job.body_size = 0;
    ASSERT_ST(PGW_OK, pgw_enqueue(h, "old", &job, NULL), h);
    TEST_ASSERT_EQUAL_INT64(0,
                            pgtemp_number("SELECT priority FROM pgwork.job WHERE queue = 'old'"));
}

void test_tokens_and_ids_that_never_were(void)
{
    pgw_ref refs[] = {{0, {0, 0}, PGW_OK},
                      {-1, {UINT64_MAX, UINT64_MAX}, PGW_OK},
                      {INT64_MIN, {1, 1}, PGW_OK},
                      {INT64_MAX, {UINT64_MAX, 0}, PGW_OK}};
    const int64_t ids[] = {0, -1, INT64_MIN, INT64_MAX};
    int64_t moved;
    int i;

    ASSERT_ST(PGW_OK, pgw_queue_create(h, "refs", NULL), h);
    ASSERT_ST(PGW_ELEASE, pgw_complete(h, "refs", refs, 4, NULL), h);
    for (i = 0; i < 4; i++) TEST_ASSERT_EQUAL_INT(PGW_ENOTFOUND, refs[i].outcome);
    ASSERT_ST(PGW_ELEASE, pgw_extend(h, "refs", refs, 4, NULL), h);
    for (i = 0; i < 4; i++) TEST_ASSERT_EQUAL_INT(PGW_ENOTFOUND, refs[i].outcome);
    ASSERT_ST(PGW_ELEASE, pgw_fail(h, "refs", refs, 4, NULL), h);
    ASSERT_ST(PGW_ELEASE, pgw_snooze(h, "refs", refs, 4, SNOOZE_BY(1)), h);
    ASSERT_ST(PGW_ELEASE, pgw_release(h, "refs", refs, 4), h);
    ASSERT_ST(PGW_ENOTFOUND, pgw_cancel(h, "refs", refs, 4), h);
    ASSERT_ST(
        PGW_OK,
        pgw_redrive(h, "refs",
                    &(pgw_redrive_opts){sizeof(pgw_redrive_opts), ids, 4, NULL, PGW_UNLIMITED},
                    &moved),
        h);
    TEST_ASSERT_EQUAL_INT64(0, moved);
}

void test_a_job_of_another_queue_is_not_touched(void)
{
    pgw_ref ref;

    it_enqueue(h, "mine", NULL);
    it_enqueue(h, "yours", NULL);
    ref = it_claim_one(h, "mine");
    ASSERT_ST(PGW_ELEASE, pgw_complete(h, "yours", &ref, 1, NULL), h);
    ASSERT_ST(PGW_ENOTFOUND, pgw_cancel(h, "yours", &ref, 1), h);
    ASSERT_ST(PGW_OK, pgw_complete(h, "mine", &ref, 1, NULL), h);
}

void test_an_output_that_is_not_json_finishes_nothing(void)
{
    const char *const outputs[] = {"1", "{no"};
    pgw_ref refs[2];

    it_enqueue(h, "output", NULL);
    it_enqueue(h, "output", NULL);
    refs[0] = it_claim_one(h, "output");
    refs[1] = it_claim_one(h, "output");
    ASSERT_ST(PGW_EINVAL, pgw_complete(h, "output", refs, 2, OUTPUTS(outputs)), h);
    ASSERT_HAS("`opts->outputs[1]` is not JSON (line 1, column 2)", pgw_error_message(h));
    TEST_ASSERT_EQUAL_INT(PGW_EUNKNOWN, refs[0].outcome); /* nothing is said of it */
    ASSERT_ST(PGW_OK, pgw_complete(h, "output", refs, 2, NULL), h);
}

void test_counts_at_their_limits_are_accepted_and_above_refused(void)
{
    static pgw_job_spec many[10000];
    static pgw_ref refs[10000];
    pgw_batch *batch;
    size_t i;

    for (i = 0; i < 10000; i++) many[i] = (pgw_job_spec)PGW_JOB_SPEC_INIT;
    ASSERT_ST(PGW_OK, pgw_enqueue_many(h, "limits", many, 10000, NULL), h);
    ASSERT_ST(PGW_EINVAL, pgw_enqueue_many(h, "limits", many, 10001, NULL), h);
    ASSERT_ST(PGW_EINVAL, it_claim(h, &batch, "limits", 10001), h);
    ASSERT_ST(PGW_OK, it_claim(h, &batch, "limits", 10000), h);
    TEST_ASSERT_EQUAL(10000, pgw_batch_count(batch));
    for (i = 0; i < 10000; i++) refs[i] = pgw_job_ref(pgw_batch_job(batch, i));
    pgw_batch_free(batch);
    ASSERT_ST(PGW_EINVAL, pgw_complete(h, "limits", refs, 10001, NULL), h);
    ASSERT_ST(PGW_OK, pgw_complete(h, "limits", refs, 10000, NULL), h);
}
