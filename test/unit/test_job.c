/* job: what each verb sends, how it reads the answer, and how it waits. Longer than 600 lines: what
 * each verb on jobs sends, refuses and returns, with one fake of the module below. */
#include "unity.h"
#include "callkit.h"
#include "job.h"
#include "ask.h"
#include "check.h"
#include "mock_pq.h"
#include "name.h"
#include "sql.h"
#include "token.h"
#include "conf.h"
#include "clock.h"
#include "backoff.h"
#include "mem.h"
#include "buf.h"
#include "json.h"
#include "log.h"
#include "fakepq.h"
#include "oom.h"

TEST_SOURCE_FILE("src/base/status.c")
TEST_SOURCE_FILE("src/queue/job_row.c")
TEST_SOURCE_FILE("src/queue/job_enqueue.c")
TEST_SOURCE_FILE("src/queue/job_claim.c")
TEST_SOURCE_FILE("src/queue/job_finish.c")
TEST_SOURCE_FILE("src/queue/job_list.c")

#define TOKEN "00000000-0000-0021-67da-7e57557e33d2"

static const char *const queues[] = {"q", "other"};
static int64_t now_us;

static int64_t fake_clock(void)
{
    return now_us;
}

void setUp(void)
{
    fake_begin();
    now_us = 1000000;
    pgw__clock_source_us = fake_clock;
}

void tearDown(void)
{
    pgw_set_allocator(NULL);
}

static pgw_claim_opts claim_opts(void)
{
    pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;

    o.queues = queues;
    o.queues_count = 1;
    o.max = 10;
    o.holder = "me";
    return o;
}

static pgw_ref ref(int64_t id)
{
    pgw_ref r = {id, {(uint64_t)id * 32 + 1, 77}};

    return r;
}

/* ---- enqueue ---- */

static void see_enqueue(const pgw__call *call)
{
    const pgw__param *p = call->params;

    TEST_ASSERT_EQUAL_STRING("q", p[0].v.p);
    TEST_ASSERT_EQUAL(PGW__JSONB, p[1].type);
    TEST_ASSERT_EQUAL_STRING("{}", p[1].v.p);
    TEST_ASSERT_EQUAL_STRING("", p[2].v.p);
    TEST_ASSERT_TRUE(p[3].null);
    TEST_ASSERT_EQUAL_INT64(4, p[4].v.i);
    TEST_ASSERT_TRUE(p[5].null);
    TEST_ASSERT_FALSE(p[6].null);
    TEST_ASSERT_EQUAL_INT64(250, p[6].v.i);
    TEST_ASSERT_TRUE(p[7].null);
    TEST_ASSERT_TRUE(p[8].null);
    TEST_ASSERT_TRUE(p[9].null);
    TEST_ASSERT_EQUAL_STRING("k", p[10].v.p);
    TEST_ASSERT_EQUAL_STRING("period", p[11].v.p);
    TEST_ASSERT_EQUAL_STRING("error", p[12].v.p);
    TEST_ASSERT_EQUAL_INT64(60000, p[13].v.i);
    TEST_ASSERT_EQUAL_HEX8(0xab, ((const unsigned char *)p[14].v.p)[15]);
    TEST_ASSERT_EQUAL_STRING("team", p[15].v.p);
    TEST_ASSERT_EQUAL(PGW__TIME, p[16].type);
    TEST_ASSERT_EQUAL_INT64(99, p[16].v.i);
    TEST_ASSERT_EQUAL(PGW__JSONB, p[17].type);
    TEST_ASSERT_EQUAL_STRING(" {}", p[17].v.p);
    TEST_ASSERT_TRUE(p[18].null);
    TEST_ASSERT_TRUE(p[19].null);
}

void test_enqueue_sends_what_is_given_and_null_for_the_rest(void)
{
    static const fake_cell answer[] = {F_INT(42), F_TEXT("new")};
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    int64_t id = -1;

    job.payload = "{}";
    job.priority = 4;
    job.delay_ms = 250;
    job.key = "k";
    job.key_scope = PGW_KEY_SCOPE_PERIOD;
    job.key_policy = PGW_KEY_POLICY_ERROR;
    job.key_period_ms = 60000;
    job.group = "team", job.expires_us = 99, job.meta = " {}";
    job.op = "00000000-0000-0000-0000-0000000000ab";
    fake.on_call = see_enqueue;
    FAKE_ROWS(answer, 2);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_enqueue(FAKE_H, "q", &job, &id));
    TEST_ASSERT_EQUAL_INT64(42, id);
    TEST_ASSERT_EQUAL(PGW__SQL_JOB_ENQUEUE, fake.sql);
    TEST_ASSERT_EQUAL(PGW__WRITES, fake.flags);
}

static void see_debounce(const pgw__call *call)
{
    const pgw__param *p = call->params;
    const char *const *replaced = p[19].v.p;

    TEST_ASSERT_EQUAL_STRING("delay", p[12].v.p);
    TEST_ASSERT_EQUAL_INT64(60000, p[13].v.i);
    TEST_ASSERT_TRUE(p[16].null);
    TEST_ASSERT_EQUAL_INT64(77, p[18].v.i);
    TEST_ASSERT_EQUAL(2, p[19].n);
    TEST_ASSERT_EQUAL_STRING("kind", replaced[0]);
    TEST_ASSERT_EQUAL_STRING("time", replaced[1]);
}

void test_enqueue_sends_a_time_to_live_and_the_words_of_what_is_replaced(void)
{
    static const fake_cell answer[] = {F_INT(42), F_TEXT("replaced")};
    pgw_job_spec job = PGW_JOB_SPEC_INIT;

    job.key = "k", job.key_policy = PGW_KEY_POLICY_DELAY;
    job.delay_ms = 250, job.key_period_ms = 60000, job.ttl_ms = 77;
    job.key_replace = PGW_KEY_REPLACE_KIND | PGW_KEY_REPLACE_TIME;
    fake.on_call = see_debounce;
    FAKE_ROWS(answer, 2);
    TEST_ASSERT_EQUAL(PGW_OUTCOME_REPLACED, pgw_enqueue(FAKE_H, "q", &job, NULL));
}

static void enqueue_is(pgw_status expected, const char *word)
{
    const fake_cell answer[] = {F_INT(7), F_TEXT(word)};
    const pgw_job_spec job = PGW_JOB_SPEC_INIT;
    int64_t id;

    FAKE_ROWS(answer, 2);
    TEST_ASSERT_EQUAL_INT(expected, pgw_enqueue(FAKE_H, "q", &job, &id));
    TEST_ASSERT_EQUAL_INT64(expected < 0 ? 0 : 7, id);
}

void test_each_outcome_of_an_enqueue_is_returned(void)
{
    enqueue_is(PGW_OK, "new");
    enqueue_is(PGW_OUTCOME_EXISTS, "exists");
    enqueue_is(PGW_OUTCOME_REPLACED, "replaced");
    enqueue_is(PGW_OUTCOME_REPEATED, "repeated");
    enqueue_is(PGW_EPROTO, "whatever");
    enqueue_is(PGW_EPROTO, NULL);
}

void test_a_refused_enqueue_sends_nothing(void)
{
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    int64_t id = 5;

    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_enqueue(NULL, "q", &job, &id));
    TEST_ASSERT_EQUAL_INT64(0, id);
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_enqueue(FAKE_H, "", &job, NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_enqueue(FAKE_H, "q", NULL, &id));
    job.op = "no uuid";
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_enqueue(FAKE_H, "q", &job, &id));
    ASSERT_SAYS("`job.op` is no uuid");
    job.priority = 10;
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_enqueue(FAKE_H, "q", &job, &id));
    TEST_ASSERT_EQUAL_INT(0, fake.calls);
}

static void see_many(const pgw__call *call)
{
    const pgw__param *p = call->params;
    const char *const *payloads = p[1].v.p, *const *kinds = p[2].v.p, *const *tags = p[9].v.p;
    const char *const *metas = p[17].v.p;
    const int64_t *run_ats = p[5].v.p, *delays = p[6].v.p, *expires = p[16].v.p, *ttls = p[18].v.p;
    const int32_t *priorities = p[4].v.p;

    TEST_ASSERT_EQUAL(3, p[1].n);
    TEST_ASSERT_NULL(payloads[0]);
    TEST_ASSERT_EQUAL_STRING("[1]", payloads[1]);
    TEST_ASSERT_EQUAL_STRING("", kinds[0]);
    TEST_ASSERT_EQUAL_STRING("b", kinds[2]);
    TEST_ASSERT_TRUE_MESSAGE(p[3].null, "bodies");
    TEST_ASSERT_EQUAL_INT32(9, priorities[0]);
    TEST_ASSERT_EQUAL_INT64(INT64_MIN, run_ats[0]);
    TEST_ASSERT_EQUAL_INT64(5, run_ats[1]);
    TEST_ASSERT_EQUAL_INT64(0, delays[1]);
    TEST_ASSERT_EQUAL_INT64(8, delays[2]);
    TEST_ASSERT_TRUE_MESSAGE(p[7].null, "max_attempts");
    TEST_ASSERT_TRUE_MESSAGE(p[8].null, "leases");
    TEST_ASSERT_NULL(tags[0]);
    TEST_ASSERT_EQUAL_STRING("{\"a\",\"b\\\"\\\\,}\"}", tags[1]);
    TEST_ASSERT_EQUAL_STRING("{\"c\"}", tags[2]);
    TEST_ASSERT_TRUE_MESSAGE(p[10].null, "keys");
    TEST_ASSERT_EQUAL_STRING("unfinished", p[11].v.p);
    TEST_ASSERT_TRUE_MESSAGE(p[14].null, "op");
    TEST_ASSERT_TRUE_MESSAGE(p[15].null, "groups");
    TEST_ASSERT_EQUAL(PGW__TIME_ARRAY, p[16].type);
    TEST_ASSERT_EQUAL_INT64(INT64_MIN, expires[0]);
    TEST_ASSERT_EQUAL_INT64(9, expires[1]);
    TEST_ASSERT_EQUAL(PGW__JSONB_ARRAY, p[17].type);
    TEST_ASSERT_NULL(metas[1]);
    TEST_ASSERT_EQUAL_STRING("{\"a\":1}", metas[2]);
    TEST_ASSERT_EQUAL_INT64(0, ttls[1]);
    TEST_ASSERT_EQUAL_INT64(6, ttls[2]);
    TEST_ASSERT_TRUE_MESSAGE(p[19].null, "key_replace");
}

void test_many_jobs_go_as_columns(void)
{
    static const fake_cell answer[] = {F_INT(1),         F_TEXT("new"), F_INT(2),
                                       F_TEXT("exists"), F_INT(3),      F_TEXT("replaced")};
    const char *const tags1[] = {"a", "b\"\\,}"}, *const tags2[] = {"c"};
    pgw_job_spec jobs[3] = {PGW_JOB_SPEC_INIT, PGW_JOB_SPEC_INIT, PGW_JOB_SPEC_INIT};
    pgw_enqueued results[3];

    jobs[0].priority = 9;
    jobs[1].payload = "[1]", jobs[1].run_at_us = 5, jobs[1].tags = tags1, jobs[1].tags_count = 2;
    jobs[1].expires_us = 9;
    jobs[2].kind = "b", jobs[2].delay_ms = 8, jobs[2].tags = tags2, jobs[2].tags_count = 1;
    jobs[2].meta = "{\"a\":1}", jobs[2].ttl_ms = 6;
    fake.on_call = see_many;
    FAKE_ROWS(answer, 2);
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EXISTS, pgw_enqueue_many(FAKE_H, "q", jobs, 3, results));
    TEST_ASSERT_EQUAL_INT64(3, results[2].id);
    TEST_ASSERT_EQUAL(PGW_OK, results[0].outcome);
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EXISTS, results[1].outcome);
    TEST_ASSERT_EQUAL(PGW_OUTCOME_REPLACED, results[2].outcome);
}

void test_many_is_all_or_none_also_in_what_is_refused(void)
{
    pgw_job_spec jobs[2] = {PGW_JOB_SPEC_INIT, PGW_JOB_SPEC_INIT};
    pgw_enqueued results[2] = {{7, PGW_OK}, {7, PGW_OK}};

    jobs[1].priority = -1;
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_enqueue_many(FAKE_H, "q", jobs, 2, results));
    ASSERT_SAYS("`jobs[1].priority`");
    TEST_ASSERT_EQUAL_size_t(1, fake.index);
    TEST_ASSERT_EQUAL_INT64(0, results[0].id);
    jobs[1].priority = 0;
    jobs[1].struct_size = sizeof(size_t);
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_enqueue_many(FAKE_H, "q", jobs, 2, results));
    ASSERT_SAYS("the same size in all elements");
    TEST_ASSERT_EQUAL_size_t(1, fake.index);
    jobs[1] = jobs[0];
    jobs[1].op = "00000000-0000-0000-0000-0000000000ab"; /* it would be of the whole call */
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_enqueue_many(FAKE_H, "q", jobs, 2, results));
    ASSERT_SAYS("`jobs[i].op`");
    TEST_ASSERT_EQUAL_size_t(1, fake.index);
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_enqueue_many(FAKE_H, "q", jobs, 0, results));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_enqueue_many(FAKE_H, "q", jobs, 10001, results));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_enqueue_many(FAKE_H, "q", NULL, 1, results));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_enqueue_many(NULL, "q", jobs, 1, results));
    TEST_ASSERT_EQUAL_INT(0, fake.calls);
}

void test_a_short_answer_to_many_is_refused(void)
{
    static const fake_cell answer[] = {F_INT(1), F_TEXT("new")};
    pgw_job_spec jobs[2] = {PGW_JOB_SPEC_INIT, PGW_JOB_SPEC_INIT};
    pgw_enqueued results[2];

    FAKE_ROWS(answer, 2);
    TEST_ASSERT_EQUAL(PGW_EPROTO, pgw_enqueue_many(FAKE_H, "q", jobs, 2, results));
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN, results[0].outcome);
}

void test_many_survives_every_failed_allocation(void)
{
    static const fake_cell answer[] = {F_INT(1), F_TEXT("new")};
    const char *const tags[] = {"a"};
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_status st;
    int n = 0;

    job.tags = tags, job.tags_count = 1;
    FAKE_ROWS(answer, 2);
    oom_begin();
    do {
        oom_fail(++n);
        st = pgw_enqueue_many(FAKE_H, "q", &job, 1, NULL);
        TEST_ASSERT_EQUAL(oom_failed() ? PGW_ENOMEM : PGW_OK, st);
    } while (st != PGW_OK);
    TEST_ASSERT_EQUAL_INT(3, n);
    oom_end();
}

/* ---- claim ---- */

#define JOB_ROW(id, body, tags)                                                                   \
    F_TEXT("q"), F_INT(id), F_UUID(TOKEN), F_INT(2), F_INT(10), F_INT(5), F_TEXT("resize"),       \
        F_TEXT("{\"a\": 1}"), body, tags, F_INT(100), F_INT(200), F_TEXT("{\"t\": 1}"), F_INT(0), \
        F_NULL, F_NULL, F_NULL, F_NULL, F_INT(300), F_INT(250)
/* as many jobs as ids */
#define BATCH_ROW(ids, kinds, payloads, created)                                               \
    F_TEXT("q"), F_NULL, F_UUID(TOKEN), F_INT(1), F_INT(10), F_INT(5), F_NULL, F_NULL, F_NULL, \
        F_NULL, F_INT(100), F_INT(200), F_TEXT("{\"m\": 2}"), F_INT(0), F_TAGS(ids), kinds,    \
        payloads, created, F_INT(300), F_INT(250)

void test_a_claim_is_one_block_of_jobs(void)
{
    static const fake_cell answer[] = {JOB_ROW(1, F_TEXT("bytes"), F_TAGS("x,yy")),
                                       JOB_ROW(2, F_NULL, F_NULL)};
    const pgw_claim_opts o = claim_opts();
    const pgw_job *job;
    pgw_batch *batch;
    size_t size;

    FAKE_ROWS(answer, 20);
    oom_begin();
    TEST_ASSERT_EQUAL(PGW_OK, pgw_claim(FAKE_H, &o, &batch));
    TEST_ASSERT_EQUAL_INT(1, oom_alive());
    TEST_ASSERT_EQUAL(2, pgw_batch_count(batch));
    TEST_ASSERT_NULL(pgw_batch_job(batch, 2));
    job = pgw_batch_job(batch, 0);
    TEST_ASSERT_EQUAL_INT64(1, pgw_job_id(job));
    TEST_ASSERT_EQUAL_UINT64(0x21, pgw_job_ref(job).token.number);
    TEST_ASSERT_EQUAL_UINT64(0x67da7e57557e33d2u, pgw_job_ref(job).token.nonce);
    TEST_ASSERT_EQUAL_STRING("q", pgw_job_queue(job));
    TEST_ASSERT_EQUAL_STRING("resize", pgw_job_kind(job));
    TEST_ASSERT_EQUAL_STRING("{\"a\": 1}", pgw_job_payload(job));
    TEST_ASSERT_EQUAL_STRING("{\"t\": 1}", pgw_job_meta(job));
    TEST_ASSERT_EQUAL_STRING("bytes", pgw_job_body(job, &size));
    TEST_ASSERT_EQUAL(5, size);
    TEST_ASSERT_EQUAL_INT(5, pgw_job_priority(job));
    TEST_ASSERT_EQUAL_INT(2, pgw_job_attempt(job));
    TEST_ASSERT_EQUAL_INT(10, pgw_job_max_attempts(job));
    TEST_ASSERT_EQUAL(2, pgw_job_tags_count(job));
    TEST_ASSERT_EQUAL_STRING("x", pgw_job_tag(job, 0));
    TEST_ASSERT_EQUAL_STRING("yy", pgw_job_tag(job, 1));
    TEST_ASSERT_NULL(pgw_job_tag(job, 2));
    TEST_ASSERT_EQUAL_INT64(100, pgw_job_created_us(job));
    TEST_ASSERT_EQUAL_INT64(200, pgw_job_lease_until_us(job));
    TEST_ASSERT_EQUAL(PGW_STATE_ANY, pgw_job_state(job));
    TEST_ASSERT_NULL(pgw_job_error(job));
    job = pgw_batch_job(batch, 1);
    TEST_ASSERT_EQUAL_INT64(2, pgw_job_id(job));
    TEST_ASSERT_NULL(pgw_job_body(job, NULL));
    TEST_ASSERT_EQUAL(0, pgw_job_tags_count(job));
    TEST_ASSERT_EQUAL_INT64(300, fake.server_time);
    TEST_ASSERT_EQUAL(PGW__WRITES | PGW__RELAXED, fake.flags);
    pgw_batch_free(batch);
    pgw_batch_free(NULL);
    oom_end();
    TEST_ASSERT_EQUAL(0, pgw_batch_count(NULL));
}

void test_a_row_may_be_several_jobs(void)
{
    static const fake_cell answer[] = {
        JOB_ROW(1, F_TEXT("bytes"), F_TAGS("x,yy")),
        BATCH_ROW("7,8,9", F_TAGS("mail,,sms"), F_TAGS("1,22,{}"), F_NULL),
        BATCH_ROW("11,12", F_NULL, F_TAGS("3,4"), F_TAGS("500,600")),
        JOB_ROW(20, F_NULL, F_TAGS("z"))};
    static const char *const lines[] = {"1 resize {\"a\": 1} 5 100 2",
                                        "7 mail 1 5 100 1",
                                        "8  22 5 100 1",
                                        "9 sms {} 5 100 1",
                                        "11 - 3 5 500 1",
                                        "12 - 4 5 600 1",
                                        "20 resize {\"a\": 1} 5 100 2"};
    const pgw_claim_opts o = claim_opts();
    pgw_batch *batch;
    size_t i;

    FAKE_ROWS(answer, 20);
    oom_begin();
    TEST_ASSERT_EQUAL(PGW_OK, pgw_claim(FAKE_H, &o, &batch));
    TEST_ASSERT_EQUAL_INT(1, oom_alive());
    TEST_ASSERT_EQUAL(7, pgw_batch_count(batch));
    for (i = 0; i < 7; i++) {
        const pgw_job *job = pgw_batch_job(batch, i);
        const char *kind = pgw_job_kind(job);
        char line[80];

        snprintf(line, sizeof(line), "%lld %s %s %d %lld %d", (long long)pgw_job_id(job),
                 kind != NULL ? kind : "-", pgw_job_payload(job), pgw_job_priority(job),
                 (long long)pgw_job_created_us(job), pgw_job_attempt(job));
        TEST_ASSERT_EQUAL_STRING(lines[i], line);
        TEST_ASSERT_EQUAL_STRING("q", pgw_job_queue(job));
        TEST_ASSERT_EQUAL_UINT64(0x21, pgw_job_ref(job).token.number);
        TEST_ASSERT_EQUAL_INT64(200, pgw_job_lease_until_us(job));
        TEST_ASSERT_EQUAL_STRING(i > 0 && i < 6 ? "{\"m\": 2}" : "{\"t\": 1}", pgw_job_meta(job));
    }
    TEST_ASSERT_EQUAL_STRING("z", pgw_job_tag(pgw_batch_job(batch, 6), 0));
    TEST_ASSERT_EQUAL(0, pgw_job_tags_count(pgw_batch_job(batch, 5)));
    pgw_batch_free(batch);
    oom_end();
}

void test_a_row_of_jobs_that_lack_something_is_not_believed(void)
{
    static const fake_cell answer[] = {BATCH_ROW("7,8,9", F_NULL, F_TAGS("1,2"), F_NULL)};
    const pgw_claim_opts o = claim_opts();
    pgw_batch *batch;

    FAKE_ROWS(answer, 20);
    TEST_ASSERT_EQUAL(PGW_EPROTO, pgw_claim(FAKE_H, &o, &batch));
    TEST_ASSERT_NULL(batch);
}

/* A second attempt tells nothing: the first may have asked for it. */
void test_only_the_server_says_that_a_job_is_quarantined(void)
{
    fake_cell row[] = {JOB_ROW(1, F_NULL, F_NULL)};
    const pgw_claim_opts o = claim_opts();
    pgw_batch *batch;

    for (int quarantined = 0; quarantined < 2; quarantined++) {
        row[13].i = quarantined;
        FAKE_ROWS(row, 20);
        TEST_ASSERT_EQUAL(PGW_OK, pgw_claim(FAKE_H, &o, &batch));
        TEST_ASSERT_EQUAL_INT(2, pgw_job_attempt(pgw_batch_job(batch, 0)));
        TEST_ASSERT_EQUAL(quarantined == 1, pgw__batch_quarantined(batch));
        pgw_batch_free(batch);
    }
}

static int64_t sent_at_us;

static int64_t sent(const pgw *h, int n)
{
    (void)h, (void)n;
    return sent_at_us;
}

/* The server says that the leases began 50 us after it had got the statement. */
void test_leases_are_counted_from_when_they_began(void)
{
    static const fake_cell answer[] = {JOB_ROW(1, F_NULL, F_NULL)};
    const pgw_claim_opts o = claim_opts();
    const int64_t ages_us[] = {1000, 50, 20, 0}, counted_us[] = {50, 50, 20, 0};
    pgw_batch *batch;
    size_t i;

    pgw__pq_sent_us_Stub(sent);
    FAKE_ROWS(answer, 20);
    for (i = 0; i < 4; i++) {
        sent_at_us = now_us - ages_us[i];
        TEST_ASSERT_EQUAL(PGW_OK, pgw_claim(FAKE_H, &o, &batch));
        TEST_ASSERT_EQUAL_INT64(sent_at_us + counted_us[i], pgw__batch_since_us(batch));
        pgw_batch_free(batch);
    }
}

static bool sent_apart, sent_in_order;

static void see_switches(const pgw__call *call)
{
    const pgw__param *p = call->params;

    while (p->type != PGW__BOOL) p++;
    sent_apart = p[0].v.b;
    sent_in_order = p[1].type != PGW__END && p[1].v.b;
}

void test_a_claim_asks_for_jobs_apart_only_with_that_option(void)
{
    pgw_claim_opts o = claim_opts();
    pgw_batch *batch;

    fake.on_call = see_switches;
    for (int i = 0; i < 2; i++) {
        o.apart = i == 1;
        TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY, pgw_claim(FAKE_H, &o, &batch));
        TEST_ASSERT_EQUAL(o.apart, sent_apart);
        TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY, pgw_complete_and_claim(FAKE_H, NULL, 0, &o, &batch));
        TEST_ASSERT_EQUAL(o.apart, sent_apart);
    }
}

void test_a_claim_asks_for_queues_in_order_only_with_that_option(void)
{
    pgw_claim_opts o = claim_opts();
    pgw_batch *batch;

    fake.on_call = see_switches;
    for (int i = 0; i < 2; i++) {
        o.in_order = i == 1;
        TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY, pgw_claim(FAKE_H, &o, &batch));
        TEST_ASSERT_EQUAL(o.in_order, sent_in_order);
        TEST_ASSERT_FALSE(sent_apart);
    }
}

void test_a_claim_without_rows_is_empty(void)
{
    const pgw_claim_opts o = claim_opts();
    pgw_batch *batch = (pgw_batch *)(void *)&now_us;

    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY, pgw_claim(FAKE_H, &o, &batch));
    TEST_ASSERT_NULL(batch);
}

void test_more_jobs_than_asked_for_are_not_believed(void)
{
    static const fake_cell answer[] = {JOB_ROW(1, F_NULL, F_NULL), JOB_ROW(2, F_NULL, F_NULL)};
    static const fake_cell several[] = {BATCH_ROW("7,8", F_NULL, F_NULL, F_NULL)};
    pgw_claim_opts o = claim_opts();
    pgw_batch *batch;

    o.max = 1;
    FAKE_ROWS(answer, 20);
    TEST_ASSERT_EQUAL(PGW_EPROTO, pgw_claim(FAKE_H, &o, &batch));
    TEST_ASSERT_NULL(batch);
    FAKE_ROWS(several, 20);
    TEST_ASSERT_EQUAL(PGW_EPROTO, pgw_claim(FAKE_H, &o, &batch));
    TEST_ASSERT_NULL(batch);
}

void test_a_claim_without_memory_keeps_nothing(void)
{
    static const fake_cell answer[] = {JOB_ROW(1, F_NULL, F_TAGS("a"))};
    const pgw_claim_opts o = claim_opts();
    pgw_batch *batch;

    FAKE_ROWS(answer, 20);
    oom_begin();
    oom_fail(1);
    TEST_ASSERT_EQUAL(PGW_ENOMEM, pgw_claim(FAKE_H, &o, &batch));
    TEST_ASSERT_NULL(batch);
    oom_fail(2);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_claim(FAKE_H, &o, &batch));
    pgw_batch_free(batch);
    oom_end();
}

void test_a_claim_refuses_invalid_arguments(void)
{
    pgw_claim_opts o = claim_opts();
    const char *const bad[] = {"q", "a\nb"};
    pgw_batch *batch;

    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_claim(NULL, &o, &batch));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_claim(FAKE_H, &o, NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_claim(FAKE_H, NULL, &batch));
#define BAD(words, change)                                                       \
    o = claim_opts(), change;                                                    \
    TEST_ASSERT_EQUAL_MESSAGE(PGW_EINVAL, pgw_claim(FAKE_H, &o, &batch), words); \
    ASSERT_SAYS(words)
    BAD("`opts->struct_size` is 4096", o.struct_size = 4096);
    BAD("`opts->queues` is NULL", o.queues = NULL);
    BAD("`opts->queues_count` is 0: expected 1..64", o.queues_count = 0);
    BAD("`opts->queues_count` is 65", o.queues_count = 65);
    BAD("`opts->queues[1]` has a control character", (o.queues = bad, o.queues_count = 2));
    BAD("`opts->max` is 0: expected 1..10000", o.max = 0);
    BAD("`opts->max` is 10001", o.max = 10001);
    BAD("`opts->lease_ms` is 5", o.lease_ms = 5);
    BAD("`opts->wait_ms` is -2", o.wait_ms = -2);
    BAD("`opts->holder` is empty", o.holder = "");
#undef BAD
    TEST_ASSERT_EQUAL_INT(0, fake.calls);
}

/* ---- waiting ---- */

static struct {
    int waits, job_at_call;
    int64_t last_ms, longest_ms;
    pgw_status says, listens, looks;
    uint64_t epoch;
} wait;

static const fake_cell one_job[] = {JOB_ROW(1, F_NULL, F_NULL)};

static pgw_status fake_wait(pgw *h, int64_t timeout_ms, int fd, int n)
{
    wait.waits++;
    wait.last_ms = timeout_ms;
    if (timeout_ms > wait.longest_ms) wait.longest_ms = timeout_ms;
    now_us += timeout_ms * 1000;
    return wait.says;
}

static pgw_status fake_listen(pgw *h, const char *channel, int n)
{
    TEST_ASSERT_EQUAL_STRING("pgwork_wake_pgwork_7", channel);
    return wait.listens;
}

static int fake_slot(const pgw *h, char channel[64], int n)
{
    strcpy(channel, "pgwork_wake_pgwork_7");
    return 7;
}

static uint64_t fake_epoch(const pgw *h, int n)
{
    return wait.epoch;
}

static pgw_status stub_check_session(pgw *h, int n)
{
    return wait.looks;
}

/* The job is there from the job_at_call-th call on. */
static void job_comes(const pgw__call *call)
{
    if (fake.calls == wait.job_at_call) FAKE_ROWS(one_job, 20);
}

static void waiting_begins(void)
{
    memset(&wait, 0, sizeof(wait));
    wait.says = PGW_OUTCOME_EMPTY;
    fake.on_call = job_comes;
    pgw__pq_wait_Stub(fake_wait);
    pgw__pq_listen_Stub(fake_listen);
    pgw__pq_epoch_Stub(fake_epoch);
    pgw__pq_slot_Stub(fake_slot);
    pgw__pq_check_session_Stub(stub_check_session);
    pgw__pq_kept_IgnoreAndReturn(NULL);
}

void test_waiting_registers_a_waiter_claims_again_and_unregisters(void)
{
    static const pgw__sql expected[] = {PGW__SQL_JOB_CLAIM, PGW__SQL_JOB_IDLE, PGW__SQL_JOB_CLAIM,
                                        PGW__SQL_JOB_CLAIM, PGW__SQL_JOB_AWAKE};
    pgw_claim_opts o = claim_opts();
    pgw_batch *batch;

    waiting_begins();
    wait.says = PGW_OK; /* notified */
    wait.job_at_call = 4;
    o.wait_ms = PGW_UNLIMITED;
    TEST_ASSERT_EQUAL(PGW_OK, pgw_claim(FAKE_H, &o, &batch));
    TEST_ASSERT_EQUAL(1, pgw_batch_count(batch));
    pgw_batch_free(batch);
    TEST_ASSERT_EQUAL_INT(5, fake.calls);
    TEST_ASSERT_EQUAL_MEMORY(expected, fake.history, sizeof(expected));
    TEST_ASSERT_EQUAL_INT(1, wait.waits);
    TEST_ASSERT_EQUAL_INT64_MESSAGE(5, wait.last_ms, "poll.min_ms");
}

void test_a_job_enqueued_before_the_waiter_registered_is_found_without_waiting(void)
{
    pgw_claim_opts o = claim_opts();
    pgw_batch *batch;

    waiting_begins();
    wait.job_at_call = 3;
    o.wait_ms = 10000;
    TEST_ASSERT_EQUAL(PGW_OK, pgw_claim(FAKE_H, &o, &batch));
    pgw_batch_free(batch);
    TEST_ASSERT_EQUAL_INT(0, wait.waits);
    TEST_ASSERT_EQUAL(PGW__SQL_JOB_AWAKE, fake.sql);
}

/* 5, 20, 80, 320 and 500 ms, in case a transaction was open when the waiter registered; then what
 * is left. */
void test_a_wait_ends_at_its_deadline(void)
{
    pgw_claim_opts o = claim_opts();
    pgw_batch *batch;

    waiting_begins();
    o.wait_ms = 1200;
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY, pgw_claim(FAKE_H, &o, &batch));
    TEST_ASSERT_NULL(batch);
    TEST_ASSERT_EQUAL_INT64(1000000 + 1200000, now_us);
    TEST_ASSERT_EQUAL_INT(6, wait.waits);
    TEST_ASSERT_EQUAL_INT64_MESSAGE(500, wait.longest_ms, "poll.max_ms");
    TEST_ASSERT_EQUAL_INT64(275, wait.last_ms);
    TEST_ASSERT_EQUAL(PGW__SQL_JOB_AWAKE, fake.sql);
}

void test_behind_a_pooler_it_polls_with_growing_pauses(void)
{
    pgw_claim_opts o = claim_opts();
    pgw_batch *batch;
    int i;

    waiting_begins();
    wait.listens = PGW_EPOOLED;
    o.wait_ms = 60000;
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY, pgw_claim(FAKE_H, &o, &batch));
    TEST_ASSERT_LESS_OR_EQUAL_INT64(500, wait.longest_ms);
    TEST_ASSERT_GREATER_OR_EQUAL_INT(120, wait.waits);
    for (i = 0; i < 64; i++) TEST_ASSERT_EQUAL(PGW__SQL_JOB_CLAIM, fake.history[i]);
}

void test_an_attached_handle_polls(void)
{
    pgw_claim_opts o = claim_opts();
    pgw_batch *batch;

    waiting_begins();
    fake.attached = true;
    wait.listens = PGW_EMISUSE;
    o.wait_ms = 100;
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY, pgw_claim(FAKE_H, &o, &batch));
    TEST_ASSERT_GREATER_THAN_INT(0, wait.waits);
}

void test_a_wait_is_ended_by_a_stop_with_its_own_words(void)
{
    pgw_claim_opts o = claim_opts();
    pgw_batch *batch;

    waiting_begins();
    wait.says = PGW_ECANCELED;
    o.wait_ms = PGW_UNLIMITED;
    TEST_ASSERT_EQUAL(PGW_ECANCELED, pgw_claim(FAKE_H, &o, &batch));
    TEST_ASSERT_EQUAL(PGW__SQL_JOB_AWAKE, fake.sql);
    TEST_ASSERT_EQUAL(PGW_ECANCELED, fake.error);
    ASSERT_SAYS("asked to stop");
}

void test_a_lost_connection_ends_the_wait_and_its_registration(void)
{
    pgw_claim_opts o = claim_opts();
    pgw_batch *batch;

    waiting_begins();
    wait.says = wait.looks = PGW_ECONN;
    o.wait_ms = PGW_UNLIMITED;
    TEST_ASSERT_EQUAL(PGW_ECONN, pgw_claim(FAKE_H, &o, &batch));
    TEST_ASSERT_EQUAL(PGW__SQL_JOB_CLAIM, fake.sql);
}

static void the_third_is_unknown(const pgw__call *call)
{
    fake.status = fake.calls == 3 ? PGW_EUNKNOWN : PGW_OK;
}

/* Such as where no standby confirms the claim: the session goes on, and must not seem to sleep. */
void test_a_session_that_outlives_an_unknown_claim_unregisters(void)
{
    static const pgw__sql expected[] = {PGW__SQL_JOB_CLAIM, PGW__SQL_JOB_IDLE, PGW__SQL_JOB_CLAIM,
                                        PGW__SQL_JOB_AWAKE};
    pgw_claim_opts o = claim_opts();
    pgw_batch *batch;

    waiting_begins();
    fake.on_call = the_third_is_unknown;
    o.wait_ms = PGW_UNLIMITED;
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN, pgw_claim(FAKE_H, &o, &batch));
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN, fake.error);
    TEST_ASSERT_EQUAL_INT(4, fake.calls);
    TEST_ASSERT_EQUAL_MEMORY(expected, fake.history, sizeof(expected));
}

static pgw_status wait_reconnects(pgw *h, int64_t timeout_ms, int fd, int n)
{
    wait.epoch++;
    return fake_wait(h, timeout_ms, fd, n);
}

void test_in_a_new_session_the_waiter_registers_again(void)
{
    static const pgw__sql expected[] = {PGW__SQL_JOB_CLAIM, PGW__SQL_JOB_IDLE, PGW__SQL_JOB_CLAIM,
                                        PGW__SQL_JOB_CLAIM, PGW__SQL_JOB_IDLE, PGW__SQL_JOB_CLAIM,
                                        PGW__SQL_JOB_AWAKE};
    pgw_claim_opts o = claim_opts();
    pgw_batch *batch;

    waiting_begins();
    pgw__pq_wait_Stub(wait_reconnects);
    wait.job_at_call = 6;
    o.wait_ms = PGW_UNLIMITED;
    TEST_ASSERT_EQUAL(PGW_OK, pgw_claim(FAKE_H, &o, &batch));
    pgw_batch_free(batch);
    TEST_ASSERT_EQUAL_INT(7, fake.calls);
    TEST_ASSERT_EQUAL_MEMORY(expected, fake.history, sizeof(expected));
}

void test_a_waiting_claim_cannot_be_armed(void)
{
    pgw_claim_opts o = claim_opts();
    pgw_batch *batch;

    fake.armed = true;
    o.wait_ms = 1;
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw_claim(FAKE_H, &o, &batch));
    TEST_ASSERT_EQUAL_INT(0, fake.calls);
}

/* ---- finish ---- */

static void see_refs(const pgw__call *call)
{
    static const unsigned char token[16] = {0, 0, 0, 0, 0, 0, 1, 0x41, 0, 0, 0, 0, 0, 0, 0, 77};
    const pgw__param *p = call->params;

    TEST_ASSERT_EQUAL_STRING("q", p[0].v.p);
    TEST_ASSERT_EQUAL(PGW__INT8_ARRAY, p[1].type);
    TEST_ASSERT_EQUAL_INT64(10, ((const int64_t *)p[1].v.p)[0]);
    TEST_ASSERT_EQUAL(PGW__UUID_ARRAY, p[2].type);
    TEST_ASSERT_EQUAL_MEMORY(token, p[2].v.p, 16);
    TEST_ASSERT_EQUAL_MESSAGE(PGW__WRITES, call->flags, "what ends a job is durable");
}

void test_accepted_jobs_need_no_row(void)
{
    pgw_ref refs[] = {ref(10), ref(11)};
    const char *const outputs[] = {"1", NULL};

    fake.on_call = see_refs;
    TEST_ASSERT_EQUAL(PGW_OK, pgw_complete(FAKE_H, "q", refs, 2, OUTPUTS(outputs)));
    TEST_ASSERT_EQUAL(PGW_OK, refs[0].outcome);
    TEST_ASSERT_EQUAL(PGW_OK, refs[1].outcome);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_complete(FAKE_H, "q", refs, 2, NULL));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_snooze(FAKE_H, "q", refs, 2, SNOOZE_BY(5)));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_release(FAKE_H, "q", refs, 2));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_fail(FAKE_H, "q", refs, 2, NULL));
    TEST_ASSERT_EQUAL_INT(5, fake.calls);
}

void test_refused_jobs_are_reported_by_their_index(void)
{
    static const fake_cell answer[] = {F_INT(3), F_TEXT("gone"), F_INT(1), F_TEXT("stale")};
    pgw_ref refs[] = {ref(10), ref(11), ref(12)};

    FAKE_ROWS(answer, 2);
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_release(FAKE_H, "q", refs, 3));
    TEST_ASSERT_EQUAL(PGW_ELEASE, refs[0].outcome);
    TEST_ASSERT_EQUAL(PGW_OK, refs[1].outcome);
    TEST_ASSERT_EQUAL(PGW_ENOTFOUND, refs[2].outcome);
    ASSERT_SAYS("2 of 3 jobs refused");
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_release(FAKE_H, "q", refs, 3));
}

void test_an_answer_about_other_jobs_is_not_believed(void)
{
    static const fake_cell beyond[] = {F_INT(2), F_TEXT("gone")},
                           nowhere[] = {F_NULL, F_TEXT("gone")}, what[] = {F_INT(1), F_TEXT("?")};
    static const fake_cell second[] = {F_INT(1), F_TEXT("stale"), F_INT(2), F_TEXT("?")};
    pgw_ref refs[] = {ref(10), ref(11), ref(12)};

    FAKE_ROWS(beyond, 2);
    TEST_ASSERT_EQUAL(PGW_EPROTO, pgw_complete(FAKE_H, "q", refs, 1, NULL));
    FAKE_ROWS(nowhere, 2);
    TEST_ASSERT_EQUAL(PGW_EPROTO, pgw_complete(FAKE_H, "q", refs, 1, NULL));
    FAKE_ROWS(what, 2);
    TEST_ASSERT_EQUAL(PGW_EPROTO, pgw_complete(FAKE_H, "q", refs, 1, NULL));
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN, refs[0].outcome);
    FAKE_ROWS(second, 2);
    TEST_ASSERT_EQUAL(PGW_EPROTO, pgw_complete(FAKE_H, "q", refs, 3, NULL));
    for (int i = 0; i < 3; i++) TEST_ASSERT_EQUAL(PGW_EUNKNOWN, refs[i].outcome);
}

void test_verdicts_of_a_lost_answer_are_unknown(void)
{
    pgw_ref refs[] = {ref(10)};

    fake.status = PGW_EUNKNOWN;
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN, pgw_complete(FAKE_H, "q", refs, 1, NULL));
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN, refs[0].outcome);
}

void test_an_extended_job_may_be_asked_to_stop(void)
{
    static const fake_cell answer[] = {F_INT(1), F_TEXT("ok"),     F_INT(900),
                                       F_INT(2), F_TEXT("cancel"), F_INT(900)};
    pgw_ref refs[] = {ref(10), ref(11)};

    FAKE_ROWS(answer, 3);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_extend(FAKE_H, "q", refs, 2, NULL));
    TEST_ASSERT_EQUAL(PGW_OK, refs[0].outcome);
    TEST_ASSERT_EQUAL(PGW_OUTCOME_CANCEL, refs[1].outcome);
    TEST_ASSERT_EQUAL_INT64(900, fake.server_time);
    TEST_ASSERT_EQUAL(PGW__WRITES | PGW__RELAXED, fake.flags);
}

void test_a_job_locked_by_another_transaction_is_neither_extended_nor_refused(void)
{
    static const fake_cell answer[] = {F_INT(1), F_TEXT("ok"),     F_INT(900),
                                       F_INT(2), F_TEXT("locked"), F_INT(900),
                                       F_INT(3), F_TEXT("stale"),  F_INT(900)};
    pgw_ref refs[] = {ref(10), ref(11), ref(12)};

    FAKE_ROWS(answer, 3);
    fake.rows = 2;
    TEST_ASSERT_EQUAL(PGW_ELOCKED, pgw_extend(FAKE_H, "q", refs, 2, NULL));
    TEST_ASSERT_EQUAL(PGW_OK, refs[0].outcome);
    TEST_ASSERT_EQUAL(PGW_ELOCKED, refs[1].outcome);
    FAKE_ROWS(answer, 3);
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_extend(FAKE_H, "q", refs, 3, NULL));
    TEST_ASSERT_EQUAL(PGW_ELOCKED, refs[1].outcome);
    TEST_ASSERT_EQUAL(PGW_ELEASE, refs[2].outcome);
}

static char sent_error[9000];

static void see_error(const pgw__call *call)
{
    snprintf(sent_error, sizeof(sent_error), "%s",
             call->params[3].null ? "(null)" : (const char *)call->params[3].v.p);
}

void test_an_errors_text_is_cut_and_mended_but_never_refused(void)
{
    pgw_ref refs[] = {ref(10)};
    pgw_fail_opts o = PGW_FAIL_OPTS_INIT;
    static char longer[9001];

    fake.on_call = see_error;
    TEST_ASSERT_EQUAL(PGW_OK, pgw_fail(FAKE_H, "q", refs, 1, &o));
    TEST_ASSERT_EQUAL_STRING("(null)", sent_error);
    o.error = "caf\xc3\xa9 \xff\xc3(\xe2\x82";
    TEST_ASSERT_EQUAL(PGW_OK, pgw_fail(FAKE_H, "q", refs, 1, &o));
    TEST_ASSERT_EQUAL_STRING("caf\xc3\xa9 ?"
                             "?(?"
                             "?",
                             sent_error);
    memset(longer, 'x', sizeof(longer) - 1);
    memcpy(longer + 7999, "\xc3\xa9", 2); /* a character across the limit */
    o.error = longer;
    TEST_ASSERT_EQUAL(PGW_OK, pgw_fail(FAKE_H, "q", refs, 1, &o));
    TEST_ASSERT_EQUAL(7999, strlen(sent_error));
}

void test_finishing_verbs_refuse_invalid_arguments(void)
{
    pgw_ref refs[] = {ref(10)};
    const char *const bad_output[] = {"\xff"};
    pgw_fail_opts o = PGW_FAIL_OPTS_INIT;

    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_complete(NULL, "q", refs, 1, NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_complete(FAKE_H, NULL, refs, 1, NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_complete(FAKE_H, "q", NULL, 1, NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_complete(FAKE_H, "q", refs, 0, NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_complete(FAKE_H, "q", refs, 10001, NULL));
    ASSERT_SAYS("`n` is 10001: expected 1..10000");
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_complete(FAKE_H, "q", refs, 1, OUTPUTS(bad_output)));
    ASSERT_SAYS("`opts->outputs[0]`");
    o.retry_ms = -1;
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_fail(FAKE_H, "q", refs, 1, &o));
    o.retry_ms = INT64_MAX;
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_fail(FAKE_H, "q", refs, 1, &o));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_snooze(FAKE_H, "q", refs, 1, SNOOZE_BY(-1)));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_snooze(FAKE_H, "q", refs, 1, SNOOZE_BY(INT64_MAX)));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_extend(FAKE_H, "q", refs, 1, EXTEND_BY(1)));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_release(FAKE_H, "", refs, 1));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_cancel(FAKE_H, "q", NULL, 1));
    TEST_ASSERT_EQUAL_INT(0, fake.calls);
}

void test_a_finishing_verb_without_memory(void)
{
    pgw_ref refs[] = {ref(10)};

    oom_begin();
    oom_fail(1);
    TEST_ASSERT_EQUAL(PGW_ENOMEM, pgw_release(FAKE_H, "q", refs, 1));
    oom_fail(2);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_release(FAKE_H, "q", refs, 1));
    oom_end();
}

static void cancel_is(pgw_status expected, const char *a, const char *b)
{
    const fake_cell answer[] = {F_INT(1), F_TEXT(a), F_INT(2), F_TEXT(b)};
    pgw_ref refs[] = {ref(1), ref(2)};

    FAKE_ROWS(answer, 2);
    TEST_ASSERT_EQUAL_INT(expected, pgw_cancel(FAKE_H, "q", refs, 2));
    TEST_ASSERT_EQUAL_INT(strcmp(b, "gone") == 0        ? PGW_ENOTFOUND
                          : strcmp(b, "requested") == 0 ? PGW_OUTCOME_CANCEL
                                                        : PGW_OK,
                          refs[1].outcome);
}

void test_a_cancel_returns_the_most_important_outcome(void)
{
    cancel_is(PGW_OK, "cancelled", "cancelled");
    cancel_is(PGW_OK, "cancelled", "gone");
    cancel_is(PGW_OUTCOME_CANCEL, "gone", "requested");
    cancel_is(PGW_ENOTFOUND, "gone", "gone");
}

/* ---- complete and claim ---- */

#define REFUSED_ROW(at, why)                                                                    \
    F_TEXT("q"), F_INT(10), F_NULL, F_INT(0), F_INT(0), F_INT(0), F_TEXT(why), F_NULL, F_NULL,  \
        F_NULL, F_NULL, F_NULL, F_NULL, F_NULL, F_NULL, F_NULL, F_NULL, F_NULL, F_NULL, F_NULL, \
        F_INT(at)

void test_a_completion_and_a_claim_share_a_call(void)
{
    static const fake_cell answer[] = {REFUSED_ROW(2, "stale"), JOB_ROW(5, F_NULL, F_NULL), F_NULL};
    static const fake_cell refused[] = {REFUSED_ROW(1, "gone")};
    pgw_ref refs[] = {ref(10), ref(11)};
    const pgw_claim_opts o = claim_opts();
    pgw_batch *batch;

    FAKE_ROWS(answer, 21);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_complete_and_claim(FAKE_H, refs, 2, &o, &batch));
    TEST_ASSERT_EQUAL_MESSAGE(PGW__WRITES, fake.flags, "durable, though it claims");
    TEST_ASSERT_EQUAL(PGW_OK, refs[0].outcome);
    TEST_ASSERT_EQUAL(PGW_ELEASE, refs[1].outcome);
    TEST_ASSERT_EQUAL(1, pgw_batch_count(batch));
    TEST_ASSERT_EQUAL_INT64(5, pgw_job_id(pgw_batch_job(batch, 0)));
    pgw_batch_free(batch);

    FAKE_ROWS(refused, 21);
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY, pgw_complete_and_claim(FAKE_H, refs, 2, &o, &batch));
    TEST_ASSERT_EQUAL(PGW_ENOTFOUND, refs[0].outcome);
    TEST_ASSERT_NULL(batch);
    fake.rows = 0;
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY, pgw_complete_and_claim(FAKE_H, NULL, 0, &o, &batch));
}

void test_a_claim_that_was_misread_is_not_handed_over(void)
{
    static const fake_cell answer[] = {JOB_ROW(1, F_NULL, F_NULL)};
    const pgw_claim_opts o = claim_opts();
    pgw_batch *batch;

    FAKE_ROWS(answer, 20);
    fake.misread = true;
    TEST_ASSERT_EQUAL(PGW_EPROTO, pgw_claim(FAKE_H, &o, &batch));
    TEST_ASSERT_NULL(batch);
}

/* The answer comes when both are committed. */
void test_verdicts_count_although_memory_is_missing_for_the_claim(void)
{
    static const fake_cell answer[] = {REFUSED_ROW(2, "stale"), JOB_ROW(5, F_NULL, F_NULL), F_NULL};
    static const fake_cell nonsense[] = {REFUSED_ROW(1, "?")};
    pgw_ref refs[] = {ref(10), ref(11)};
    const pgw_claim_opts o = claim_opts();
    pgw_batch *batch;

    FAKE_ROWS(answer, 21);
    oom_begin();
    oom_fail(2); /* after the columns of what is sent */
    TEST_ASSERT_EQUAL(PGW_ENOMEM, pgw_complete_and_claim(FAKE_H, refs, 2, &o, &batch));
    oom_end();
    TEST_ASSERT_NULL(batch);
    TEST_ASSERT_EQUAL(PGW_OK, refs[0].outcome);
    TEST_ASSERT_EQUAL(PGW_ELEASE, refs[1].outcome);

    FAKE_ROWS(nonsense, 21);
    TEST_ASSERT_EQUAL(PGW_EPROTO, pgw_complete_and_claim(FAKE_H, refs, 2, &o, &batch));
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN, refs[0].outcome);
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN, refs[1].outcome);
}

void test_complete_and_claim_refuses_invalid_arguments(void)
{
    pgw_ref refs[] = {ref(10)};
    pgw_claim_opts o = claim_opts();
    pgw_batch *batch;

    o.queues_count = 2;
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_complete_and_claim(FAKE_H, refs, 1, &o, &batch));
    o = claim_opts(), o.wait_ms = 1;
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_complete_and_claim(FAKE_H, refs, 1, &o, &batch));
    o = claim_opts();
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_complete_and_claim(FAKE_H, NULL, 1, &o, &batch));
    TEST_ASSERT_EQUAL_INT(0, fake.calls);
}

/* ---- looking ---- */

static int seen;

static int look(const pgw_job *job, void *arg)
{
    size_t size;

    seen++;
    TEST_ASSERT_EQUAL(PGW_STATE_DEAD, pgw_job_state(job));
    TEST_ASSERT_EQUAL_STRING("boom", pgw_job_error(job));
    TEST_ASSERT_EQUAL_STRING("key", pgw_job_key(job));
    TEST_ASSERT_EQUAL_STRING("h:1", pgw_job_holder(job));
    TEST_ASSERT_EQUAL_STRING("{}", pgw_job_output(job));
    TEST_ASSERT_EQUAL_STRING("team", pgw_job_group(job));
    TEST_ASSERT_EQUAL_STRING("{\"a\":1}", pgw_job_meta(job));
    TEST_ASSERT_EQUAL_INT64(15, pgw_job_expires_us(job));
    TEST_ASSERT_EQUAL_INT64(11, pgw_job_lease_until_us(job));
    TEST_ASSERT_EQUAL_INT64(12, pgw_job_run_at_us(job));
    TEST_ASSERT_EQUAL_INT64(13, pgw_job_created_us(job));
    TEST_ASSERT_EQUAL_INT64(14, pgw_job_finished_us(job));
    TEST_ASSERT_NULL(pgw_job_body(job, &size));
    TEST_ASSERT_EQUAL(5, size);
    return *(int *)arg;
}

#define LOOK_ROW                                                                                  \
    F_TEXT("q"), F_INT(1), F_TEXT("dead"), F_TEXT("k"), F_INT(0), F_INT(1), F_INT(1),             \
        F_TEXT("h:1"), F_INT(11), F_INT(12), F_INT(13), F_INT(14), F_TEXT("boom"), F_TEXT("key"), \
        F_NULL, F_TEXT("1"), F_INT(5), F_TEXT("{}"), F_TEXT("team"), F_INT(15),                   \
        F_TEXT("{\"a\":1}"), F_INT(0), F_TEXT("{\"n\":2}")

void test_jobs_are_shown_until_the_caller_has_enough(void)
{
    static const fake_cell answer[] = {LOOK_ROW, LOOK_ROW, LOOK_ROW};
    int stop = 0;

    seen = 0;
    FAKE_ROWS(answer, 23);
    oom_begin();
    TEST_ASSERT_EQUAL(PGW_OK, pgw_jobs_each(FAKE_H, NULL, look, &stop));
    TEST_ASSERT_EQUAL_INT(3, seen);
    stop = 1;
    TEST_ASSERT_EQUAL(PGW_OK, pgw_jobs_each(FAKE_H, NULL, look, &stop));
    TEST_ASSERT_EQUAL_INT(4, seen);
    oom_fail(1);
    TEST_ASSERT_EQUAL(PGW_ENOMEM, pgw_jobs_each(FAKE_H, NULL, look, &stop));
    oom_end();
    fake.rows = 0;
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY, pgw_jobs_each(FAKE_H, NULL, look, &stop));
}

static int64_t after_id;

static void see_page(const pgw__call *call)
{
    TEST_ASSERT_TRUE(call->params[3].null);
    TEST_ASSERT_EQUAL_INT64(after_id, call->params[4].v.i);
    TEST_ASSERT_EQUAL_INT64(7, call->params[5].v.i);
}

void test_a_page_begins_where_the_one_before_has_ended(void)
{
    pgw_jobs_opts o = PGW_JOBS_OPTS_INIT;

    fake.on_call = see_page;
    o.limit = 7, o.after_id = after_id = INT64_C(1) << 40;
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY, pgw_jobs_each(FAKE_H, &o, look, NULL));
    o.struct_size = offsetof(pgw_jobs_opts, after_id); /* who was built before there were pages */
    after_id = 0;
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY, pgw_jobs_each(FAKE_H, &o, look, NULL));
    TEST_ASSERT_EQUAL_INT(2, fake.calls);
}

void test_lists_refuse_invalid_arguments(void)
{
    pgw_jobs_opts o = PGW_JOBS_OPTS_INIT;

    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_jobs_each(NULL, &o, look, NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_jobs_each(FAKE_H, &o, NULL, NULL));
    o.state = (pgw_state)8;
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_jobs_each(FAKE_H, &o, look, NULL));
    ASSERT_SAYS("`opts->state` is 8");
    o.state = PGW_STATE_ANY, o.limit = 0;
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_jobs_each(FAKE_H, &o, look, NULL));
    o.limit = 1, o.id = -1;
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_jobs_each(FAKE_H, &o, look, NULL));
    o.id = 0, o.after_id = -1;
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_jobs_each(FAKE_H, &o, look, NULL));
    ASSERT_SAYS("`opts->after_id` is -1");
    o.after_id = 0, o.queue = "";
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_jobs_each(FAKE_H, &o, look, NULL));
    TEST_ASSERT_EQUAL_INT(0, fake.calls);
}

void test_redrive_and_purge_return_their_counts(void)
{
    static const fake_cell answer[] = {F_INT(12)};
    const int64_t ids[] = {1};
    int64_t n;

    FAKE_ROWS(answer, 1);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_redrive(FAKE_H, "q",
                                          &(pgw_redrive_opts){sizeof(pgw_redrive_opts), ids, 1,
                                                              NULL, PGW_UNLIMITED},
                                          &n));
    TEST_ASSERT_EQUAL_INT64(12, n);
    TEST_ASSERT_EQUAL(PGW_OK,
                      pgw_redrive(FAKE_H, "q",
                                  &(pgw_redrive_opts){sizeof(pgw_redrive_opts), NULL, 0, "kind", 5},
                                  NULL));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_dead_purge(FAKE_H, "q",
                                             &(pgw_dead_purge_opts){sizeof(pgw_dead_purge_opts),
                                                                    ids, 1, "kind", 1000},
                                             &n));
    fake.calls = 0;
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_redrive(FAKE_H, "q",
                                              &(pgw_redrive_opts){sizeof(pgw_redrive_opts), NULL, 1,
                                                                  NULL, PGW_UNLIMITED},
                                              &n));
    TEST_ASSERT_EQUAL_INT64(0, n);
    TEST_ASSERT_EQUAL(PGW_EINVAL,
                      pgw_redrive(FAKE_H, "q",
                                  &(pgw_redrive_opts){sizeof(pgw_redrive_opts), NULL, 0, NULL, 0},
                                  &n));
    TEST_ASSERT_EQUAL(
        PGW_EINVAL,
        pgw_dead_purge(FAKE_H, "q",
                       &(pgw_dead_purge_opts){sizeof(pgw_dead_purge_opts), NULL, 0, NULL, -1}, &n));
    TEST_ASSERT_EQUAL(
        PGW_EINVAL,
        pgw_dead_purge(FAKE_H, "q",
                       &(pgw_dead_purge_opts){sizeof(pgw_dead_purge_opts), NULL, 1, NULL, 0}, &n));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_dead_purge(FAKE_H, "q",
                                                 &(pgw_dead_purge_opts){sizeof(pgw_dead_purge_opts),
                                                                        NULL, 0, "a\nb", 0},
                                                 &n));
    TEST_ASSERT_EQUAL_INT(0, fake.calls);
    fake.rows = 0;
    TEST_ASSERT_EQUAL(PGW_EPROTO, pgw_dead_purge(FAKE_H, "q", NULL, &n));
}

/* A second piece begins where the first one ended. */
static void see_piece(const pgw__call *call)
{
    TEST_ASSERT_EQUAL_INT64(after_id, call->params[6].v.i);
    after_id = 77;
}

void test_rescheduling_goes_from_id_to_id(void)
{
    static const fake_cell full[] = {F_INT(10000), F_INT(77)}, none[] = {F_INT(0), F_NULL};
    pgw_reschedule_opts o = PGW_RESCHEDULE_OPTS_INIT;
    const int64_t ids[] = {1};
    int64_t n;

    FAKE_ROWS(full, 2);
    fake.on_call = see_piece;
    after_id = 0, o.limit = 20000;
    TEST_ASSERT_EQUAL(PGW_OK, pgw_reschedule(FAKE_H, "q", &o, &n));
    TEST_ASSERT_EQUAL_INT64(20000, n);
    TEST_ASSERT_EQUAL_INT(2, fake.calls);
    FAKE_ROWS(none, 2);
    fake.on_call = NULL;
    TEST_ASSERT_EQUAL(PGW_OK, pgw_reschedule(FAKE_H, "q", NULL, NULL));
    fake.calls = 0;
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_reschedule(FAKE_H, "", NULL, &n));
    o.ids_count = 1;
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_reschedule(FAKE_H, "q", &o, &n));
    ASSERT_SAYS("opts->ids");
    o.ids = ids, o.kind = "a\nb";
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_reschedule(FAKE_H, "q", &o, &n));
    o.kind = NULL, o.run_at_us = -1;
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_reschedule(FAKE_H, "q", &o, &n));
    o.run_at_us = 1, o.delay_ms = 1;
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_reschedule(FAKE_H, "q", &o, &n));
    ASSERT_SAYS("`opts->delay_ms` is set together with run_at_us");
    o.run_at_us = PGW_NONE, o.limit = 0;
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_reschedule(FAKE_H, "q", &o, &n));
    ASSERT_SAYS("`opts->limit` is 0: expected 1 or more, or PGW_UNLIMITED");
    TEST_ASSERT_EQUAL_INT(0, fake.calls);
    TEST_ASSERT_EQUAL_INT64(0, n);
    fake.rows = 0, o.limit = PGW_UNLIMITED;
    TEST_ASSERT_EQUAL(PGW_EPROTO, pgw_reschedule(FAKE_H, "q", &o, &n));
    fake.armed = true;
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw_reschedule(FAKE_H, "q", &o, &n));
}

void test_redrive_goes_piece_by_piece_up_to_its_limit(void)
{
    static const fake_cell full[] = {F_INT(10000)};
    int64_t n;

    FAKE_ROWS(full, 1);
    TEST_ASSERT_EQUAL(
        PGW_OK,
        pgw_redrive(FAKE_H, "q",
                    &(pgw_redrive_opts){sizeof(pgw_redrive_opts), NULL, 0, NULL, 30000}, &n));
    TEST_ASSERT_EQUAL_INT64(30000, n);
    TEST_ASSERT_EQUAL_INT(3, fake.calls);
    TEST_ASSERT_EQUAL(
        PGW_OK,
        pgw_redrive(FAKE_H, "q",
                    &(pgw_redrive_opts){sizeof(pgw_redrive_opts), NULL, 0, NULL, 10000}, &n));
    TEST_ASSERT_EQUAL_INT(4, fake.calls);
    fake.armed = true;
    TEST_ASSERT_EQUAL(PGW_EMISUSE,
                      pgw_redrive(FAKE_H, "q",
                                  &(pgw_redrive_opts){sizeof(pgw_redrive_opts), NULL, 0, NULL, 1},
                                  &n));
}
