/* check: each invalid argument is refused with its name, its value and what is allowed. */
#include "unity.h"
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

#include <unistd.h>

TEST_SOURCE_FILE("src/base/status.c")

void setUp(void)
{
    fake_begin();
}
void tearDown(void) {}

static pgw_status check_new(const pgw_job_spec *job)
{
    pgw_job_spec mine;

    return pgw__check_new(FAKE_H, &mine, job, -1, 1000);
}

/* Sets a field of a good job to a bad value: the refusal has this status and these words. */
#define REFUSED(status_, words, ...)                                    \
    do {                                                                \
        pgw_job_spec job = PGW_JOB_SPEC_INIT;                           \
        __VA_ARGS__;                                                    \
        TEST_ASSERT_EQUAL_INT_MESSAGE(status_, check_new(&job), words); \
        ASSERT_SAYS(words);                                             \
    } while (0)

#define ACCEPTED(...)                                                         \
    do {                                                                      \
        pgw_job_spec job = PGW_JOB_SPEC_INIT;                                 \
        __VA_ARGS__;                                                          \
        TEST_ASSERT_EQUAL_INT_MESSAGE(PGW_OK, check_new(&job), fake.message); \
    } while (0)

static char *letters(size_t n)
{
    static char text[2000];

    memset(text, 'x', n);
    text[n] = '\0';
    return text;
}

void test_a_null_handle_is_refused_without_a_message(void)
{
    pgw_job_spec job = PGW_JOB_SPEC_INIT, mine;
    const char *holder;
    char buffer[PGW__HOLDER_MAX + 1];

    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__check_handle(NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__check_given(NULL, "x", &job));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__check_name(NULL, "x", "name", 10));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__check_queue(NULL, "q"));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__check_int(NULL, "x", 1, 1, 1));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__check_count(NULL, "x", 1, 1, 1));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__check_lease(NULL, "x", 0));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__check_one_time(NULL, "x", 0, 0));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__check_json(NULL, "x", "{}", 10));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__check_opts(NULL, "x", &mine, sizeof(mine), &job));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__check_new(NULL, &mine, &job, -1, 10));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__check_holder(NULL, "holder", &holder, NULL, buffer));
}

void test_invalid_queue_names_are_refused(void)
{
    TEST_ASSERT_EQUAL(PGW_OK, pgw__check_queue(FAKE_H, "images"));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__check_queue(FAKE_H, letters(200)));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__check_queue(FAKE_H, letters(201)));
    ASSERT_SAYS("`queue` is longer than 200 bytes");
    ASSERT_SAYS("expected UTF-8 of 1 to 200 bytes");
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__check_queue(FAKE_H, ""));
    ASSERT_SAYS("is empty");
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__check_queue(FAKE_H, NULL));
    ASSERT_SAYS("is NULL");
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__check_queue(FAKE_H, "\xff"));
    ASSERT_SAYS("is not UTF-8");
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__check_queue(FAKE_H, "a\nb"));
    ASSERT_SAYS("control character");
}

void test_limits_of_numbers(void)
{
    TEST_ASSERT_EQUAL(PGW_OK, pgw__check_int(FAKE_H, "max", 10000, 1, 10000));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__check_int(FAKE_H, "max", 0, 1, 10000));
    TEST_ASSERT_EQUAL_STRING("argument `max` is 0: expected 1..10000", fake.message);
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__check_int(FAKE_H, "max", INT64_MIN, 1, 10000));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__check_count(FAKE_H, "n", SIZE_MAX, 1, 10000));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__check_lease(FAKE_H, "lease_ms", PGW_DEFAULT));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__check_lease(FAKE_H, "lease_ms", 100));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__check_lease(FAKE_H, "lease_ms", 86400000));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__check_lease(FAKE_H, "lease_ms", 99));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__check_lease(FAKE_H, "lease_ms", 0));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__check_lease(FAKE_H, "lease_ms", 86400001));
    ASSERT_SAYS("86400001");
}

void test_options_of_an_older_caller_keep_our_defaults(void)
{
    pgw_claim_opts mine = PGW_CLAIM_OPTS_INIT, given = PGW_CLAIM_OPTS_INIT;

    given.max = 7;
    given.wait_ms = 99;
    given.struct_size = offsetof(pgw_claim_opts, wait_ms);
    TEST_ASSERT_EQUAL(PGW_OK, pgw__check_opts(FAKE_H, "opts", &mine, sizeof(mine), &given));
    TEST_ASSERT_EQUAL_INT(7, mine.max);
    TEST_ASSERT_EQUAL_INT64(0, mine.wait_ms);
    TEST_ASSERT_EQUAL(PGW_OK, pgw__check_opts(FAKE_H, "opts", &mine, sizeof(mine), NULL));
}

void test_options_of_a_newer_caller_or_none_are_refused(void)
{
    pgw_claim_opts mine = PGW_CLAIM_OPTS_INIT, given = PGW_CLAIM_OPTS_INIT;

    given.struct_size = sizeof(given) + 8;
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__check_opts(FAKE_H, "opts", &mine, sizeof(mine), &given));
    ASSERT_SAYS("`opts->struct_size`");
    given.struct_size = 0;
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__check_opts(FAKE_H, "opts", &mine, sizeof(mine), &given));
    ASSERT_SAYS("is 0");
    given.struct_size = SIZE_MAX;
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__check_opts(FAKE_H, "opts", &mine, sizeof(mine), &given));
}

void test_a_size_that_ends_within_a_field_is_refused(void)
{
    pgw_claim_opts mine = PGW_CLAIM_OPTS_INIT, given = PGW_CLAIM_OPTS_INIT;

    for (size_t size = 0; size <= sizeof(given) + 8; size++) {
        const bool whole = size >= 8 && size <= sizeof(given) && size % sizeof(void *) == 0;

        given.struct_size = size;
        TEST_ASSERT_EQUAL(whole ? PGW_OK : PGW_EINVAL,
                          pgw__check_opts(FAKE_H, "opts", &mine, sizeof(mine), &given));
        if (!whole) ASSERT_SAYS("`opts->struct_size`");
    }
}

void test_a_job_without_anything_is_a_job(void)
{
    ACCEPTED((void)job);
    ACCEPTED(job.kind = "");
    ACCEPTED(job.body = "", job.body_size = 0);
}

void test_each_field_of_a_job(void)
{
    static const char *const tags[40] = {"a"}, *const bad_tag[] = {"a", ""},
                             *const null_tag[] = {NULL};
    char payload[1002];

    memset(payload, '1', sizeof(payload));
    payload[1001] = '\0';

    TEST_ASSERT_EQUAL(PGW_EINVAL, check_new(NULL));
    ASSERT_SAYS("`job` is NULL");
    REFUSED(PGW_EINVAL, "`job->struct_size`", job.struct_size = 0);
    REFUSED(PGW_EINVAL, "`job.kind` has a control character", job.kind = "a\tb");
    REFUSED(PGW_EINVAL, "`job.kind` is longer", job.kind = letters(256));
    ACCEPTED(job.kind = letters(255));
    REFUSED(PGW_ELIMIT, "`job.payload` has 1001 bytes: expected at most 1000",
            job.payload = payload);
    REFUSED(PGW_ELIMIT, "`job.body` has 998 bytes: expected at most 997", job.payload = "123";
            job.body = payload; job.body_size = 998);
    ACCEPTED(job.payload = "123"; job.body = payload; job.body_size = 997);
    REFUSED(PGW_EINVAL, "`job.payload` is empty", job.payload = " ");
    REFUSED(PGW_EINVAL, "`job.payload` is not UTF-8", job.payload = "\"\xc3\"");
    REFUSED(PGW_EINVAL, "`job.payload` is not JSON (line 1, column 4): expected JSON",
            job.payload = "[1,]");
    REFUSED(PGW_EINVAL, "`job.payload` is not UTF-8 (line 1, column 8)",
            job.payload = "{\"a\": \"\xff\"}");
    REFUSED(PGW_EINVAL, "`job.payload` is not JSON (line 2, column 5)",
            job.payload = "{\n\"\u00e9\" 1}");
    REFUSED(PGW_EINVAL, "u0000", job.payload = "\"\\u0000\"");
    REFUSED(PGW_EINVAL, "`job.body` is NULL", job.body_size = 1);
    REFUSED(PGW_EINVAL, "`job.priority` is -1: expected 0..9", job.priority = -1);
    REFUSED(PGW_EINVAL, "`job.priority` is 10", job.priority = 10);
    REFUSED(PGW_EINVAL, "`job.run_at_us` is -5", job.run_at_us = -5);
    REFUSED(PGW_EINVAL, "`job.delay_ms` is -5", job.delay_ms = -5);
    REFUSED(PGW_EINVAL, "`job.delay_ms` is 9223372036854775807", job.delay_ms = INT64_MAX);
    REFUSED(PGW_EINVAL, "`job.delay_ms` is set together with run_at_us", job.delay_ms = 1;
            job.run_at_us = 1);
    REFUSED(PGW_EINVAL, "`job.max_attempts` is 1001", job.max_attempts = 1001);
    REFUSED(PGW_EINVAL, "`job.max_attempts` is 0: expected 1..1000, PGW_UNLIMITED or PGW_DEFAULT",
            job.max_attempts = 0);
    REFUSED(PGW_EINVAL, "`job.meta.timeout_ms` is not a number of milliseconds: expected 1..",
            job.meta = "{\"timeout_ms\": \"1\"}");
    REFUSED(PGW_EINVAL, "`job.meta.timeout_ms`", job.meta = "{\"timeout_ms\": 0}");
    REFUSED(PGW_EINVAL, "`job.meta.timeout_ms`", job.meta = "{\"timeout_ms\": 2592000001}");
    REFUSED(PGW_EINVAL, "`job.lease_ms` is 99", job.lease_ms = 99);
    REFUSED(PGW_EINVAL, "`job.tags_count` is 33", job.tags = tags; job.tags_count = 33);
    REFUSED(PGW_EINVAL, "`job.tags` is NULL", job.tags_count = 1);
    REFUSED(PGW_EINVAL, "`job.tags` is empty", job.tags = bad_tag; job.tags_count = 2);
    REFUSED(PGW_EINVAL, "`job.tags` is NULL", job.tags = null_tag; job.tags_count = 1);
    REFUSED(PGW_EINVAL, "`job.key` is empty", job.key = "");
    REFUSED(PGW_EINVAL, "`job.key` is longer than 255 bytes", job.key = letters(256));
    REFUSED(PGW_EINVAL, "`job.key_scope` is 3", job.key = "k"; job.key_scope = (pgw_key_scope)3);
    REFUSED(PGW_EINVAL, "`job.key_policy` is 4", job.key = "k"; job.key_policy = (pgw_key_policy)4);
    REFUSED(PGW_EINVAL, "`job.key_scope` is 3", job.key_scope = (pgw_key_scope)3); /* and no key */
    REFUSED(PGW_EINVAL, "`job.key_policy` is 7", job.key_policy = (pgw_key_policy)7);
    REFUSED(PGW_EINVAL, "`job.key_period_ms` is 0", job.key = "k";
            job.key_scope = PGW_KEY_SCOPE_PERIOD);
    REFUSED(PGW_EINVAL, "`job.key_period_ms` is 5: expected 0..0", job.key = "k";
            job.key_period_ms = 5);
    ACCEPTED(job.key = "k"; job.key_scope = PGW_KEY_SCOPE_PERIOD; job.key_period_ms = 1);
}

void test_what_a_taken_key_replaces(void)
{
    REFUSED(PGW_EINVAL, "`job.key_replace` is 1: expected 0..0", job.key_replace = 1);
    REFUSED(PGW_EINVAL, "`job.key_replace` is 16: expected 0..15", job.key_replace = 16;
            job.key_policy = PGW_KEY_POLICY_REPLACE);
    ACCEPTED(job.key = "k"; job.key_policy = PGW_KEY_POLICY_REPLACE;
             job.key_replace = PGW_KEY_REPLACE_PRIORITY | PGW_KEY_REPLACE_TIME);
}

#define DEBOUNCE job.key = "k", job.key_policy = PGW_KEY_POLICY_DELAY, job.delay_ms = 9

void test_a_debounce_has_a_delay_and_a_latest_time(void)
{
    ACCEPTED(DEBOUNCE; job.key_period_ms = 9);
    ACCEPTED(DEBOUNCE; job.key_period_ms = 9; job.delay_ms = 0; job.run_at_us = 5);
    REFUSED(PGW_EINVAL, "`job.key_period_ms` is 0: expected 1..31536000000", DEBOUNCE);
    REFUSED(PGW_EINVAL, "`job.delay_ms` is 9: expected 1..8", DEBOUNCE; job.key_period_ms = 8);
    REFUSED(PGW_EINVAL, "`job.delay_ms` is 0: expected 1..9", DEBOUNCE; job.key_period_ms = 9;
            job.delay_ms = 0);
    REFUSED(PGW_EINVAL, "PGW_KEY_SCOPE_READY with PGW_KEY_POLICY_DELAY", DEBOUNCE;
            job.key_period_ms = 9; job.key_scope = PGW_KEY_SCOPE_PERIOD);
}

void test_group_expiry_and_meta_of_a_job(void)
{
    char payload[991];

    memset(payload, '1', sizeof(payload));
    payload[990] = '\0';
    ACCEPTED(job.group = letters(255); job.expires_us = INT64_MAX; job.meta = " \n{}");
    REFUSED(PGW_EINVAL, "`job.group` is empty", job.group = "");
    REFUSED(PGW_EINVAL, "`job.group` is longer than 255 bytes", job.group = letters(256));
    REFUSED(PGW_EINVAL, "`job.expires_us` is -1", job.expires_us = -1);
    REFUSED(PGW_EINVAL, "`job.ttl_ms` is 0: expected 1..315360000000", job.ttl_ms = 0);
    REFUSED(PGW_EINVAL, "`job.ttl_ms` is set together with expires_us: expected one of the two",
            job.ttl_ms = 1;
            job.expires_us = 1);
    REFUSED(PGW_EINVAL, "`job.meta` is not JSON (line 1, column 2)", job.meta = "{");
    REFUSED(PGW_EINVAL, "`job.meta` is not an object: expected a JSON object", job.meta = "[{}]");
    REFUSED(PGW_ELIMIT, "`job.meta` has 7 bytes: expected at most 5", job.payload = payload;
            job.body = payload; job.body_size = 5; job.meta = "{\"a\":1}");
    ACCEPTED(job.payload = payload; job.body = payload; job.body_size = 3; job.meta = "{\"a\":1}");
}

void test_a_job_among_many_is_named_by_its_index(void)
{
    pgw_job_spec job = PGW_JOB_SPEC_INIT, mine;

    job.priority = 11;
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__check_new(FAKE_H, &mine, &job, 9999, 10));
    ASSERT_SAYS("`jobs[9999].priority` is 11");
    TEST_ASSERT_EQUAL_size_t(9999, fake.index);
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__check_new(FAKE_H, &mine, &job, -1, 10));
    TEST_ASSERT_EQUAL_size_t(PGW_NO_INDEX, fake.index);
}

void test_a_holder_is_given_or_made_of_host_and_pid(void)
{
    char buffer[PGW__HOLDER_MAX + 1], end[32];
    const char *holder;

    TEST_ASSERT_EQUAL(PGW_OK, pgw__check_holder(FAKE_H, "holder", &holder, "me", buffer));
    TEST_ASSERT_EQUAL_STRING("me", holder);
    TEST_ASSERT_EQUAL(PGW_OK, pgw__check_holder(FAKE_H, "holder", &holder, NULL, buffer));
    snprintf(end, sizeof(end), ":%ld", (long)getpid());
    TEST_ASSERT_NOT_NULL(strstr(holder, end));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__check_holder(FAKE_H, "holder", &holder, "", buffer));
    ASSERT_SAYS("`holder` is empty");
    TEST_ASSERT_EQUAL(PGW_EINVAL,
                      pgw__check_holder(FAKE_H, "holder", &holder, letters(256), buffer));
}
