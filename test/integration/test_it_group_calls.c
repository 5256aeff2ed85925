/* Groups by the C interface: settings, holds, what stops a group, and lists. What groups promise is
 * in test_it_groups.c. Also pgw_job_wait(). */
#include "unity.h"
#include "pgw_all.h"
#include "itpgw.h"
#include "pgtemp.h"
#include "sqlkit.h"

static pgw *h;
static PGconn *a;
static struct took jobs[10];

void setUp(void)
{
    kit_begin();
    a = kit_open();
    h = it_open_bare();
    kit_do(a, "SELECT pgwork.queue_create('q', retention_ms => 60000)");
    kit_do(a, "SELECT count(*) FROM pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[6]), "
              "grps => '{x,x,x,y,y,y}')");
}

void tearDown(void)
{
    pgw_close(h);
    kit_end();
}

struct seen {
    pgw_group_info info[5];
    char name[5][20];
    int n, most;
};

static int note(const pgw_group_info *info, void *arg)
{
    struct seen *s = arg;

    s->info[s->n] = *info;
    snprintf(s->name[s->n], sizeof(s->name[0]), "%s", info->group);
    return ++s->n == s->most;
}

/* Of one group */
static pgw_group_info look(const char *group)
{
    pgw_groups_opts o = PGW_GROUPS_OPTS_INIT;
    struct seen s = {.n = 0};

    o.group = group;
    ASSERT_ST(PGW_OK, pgw_groups_each(h, "q", &o, note, &s), h);
    TEST_ASSERT_EQUAL_INT(1, s.n);
    TEST_ASSERT_EQUAL_STRING(group, s.name[0]);
    return s.info[0];
}

void test_limits_of_a_queue_and_of_one_group_are_set_and_reset(void)
{
    pgw_group_opts o = PGW_GROUP_OPTS_INIT;

    o.limit = 2;
    ASSERT_ST(PGW_OK, pgw_group_set(h, "q", NULL, &o), h);
    o.limit = 3, o.retry = PGW_GROUP_RETRY_PASS;
    ASSERT_ST(PGW_OK, pgw_group_set(h, "q", "x", &o), h);
    TEST_ASSERT_EQUAL_INT(3, look("x").limit);
    TEST_ASSERT_EQUAL_INT(PGW_GROUP_RETRY_PASS, look("x").retry);
    TEST_ASSERT_EQUAL_INT(2, look("y").limit);
    TEST_ASSERT_EQUAL_INT(5, kit_claim(a, "q", 10, jobs));
    ASSERT_ST(PGW_OK, pgw_group_reset(h, "q", "x"), h);
    TEST_ASSERT_EQUAL_INT(2, look("x").limit);
    TEST_ASSERT_EQUAL_INT(PGW_GROUP_RETRY_HOLD, look("x").retry);
}

void test_a_list_shows_counts_and_the_job_that_is_next_and_ends_when_it_is_told(void)
{
    pgw_groups_opts o = PGW_GROUPS_OPTS_INIT;
    struct seen s = {.n = 0};
    const long long second =
        kit_number(a, "SELECT id FROM pgwork.job WHERE grp = 'x' ORDER BY id OFFSET 1 LIMIT 1");

    TEST_ASSERT_EQUAL_INT(2, kit_claim(a, "q", 10, jobs));
    ASSERT_ST(PGW_OK, pgw_groups_each(h, "q", NULL, note, &s), h);
    TEST_ASSERT_EQUAL_INT(2, s.n);
    TEST_ASSERT_EQUAL_INT64(2, s.info[0].gated);
    TEST_ASSERT_EQUAL_INT64(1, s.info[0].admitted);
    TEST_ASSERT_EQUAL_INT64(1, s.info[0].leased);
    TEST_ASSERT_EQUAL_INT64(second, s.info[0].next_id);
    TEST_ASSERT_TRUE(s.info[0].next_since_us > 0);
    TEST_ASSERT_EQUAL_INT64(PGW_NONE, s.info[0].blocked_by);
    s = (struct seen){.most = 1};
    ASSERT_ST(PGW_OK, pgw_groups_each(h, "q", NULL, note, &s), h);
    TEST_ASSERT_EQUAL_INT(1, s.n);
    s = (struct seen){.n = 0};
    o.at_most = 1;
    ASSERT_ST(PGW_OK, pgw_groups_each(h, "q", &o, note, &s), h);
    TEST_ASSERT_EQUAL_INT(1, s.n);
}

void test_a_group_that_is_held_starts_when_it_is_unblocked(void)
{
    int64_t freed = 7;

    ASSERT_ST(PGW_OK, pgw_group_hold(h, "q", "x", PGW_UNLIMITED), h);
    TEST_ASSERT_EQUAL_INT64(INT64_MAX, look("x").held_until_us);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 10, jobs));
    ASSERT_ST(PGW_OK, pgw_group_unblock(h, "q", "x", &freed), h);
    TEST_ASSERT_EQUAL_INT64(0, freed);
    TEST_ASSERT_EQUAL_INT64(PGW_NONE, look("x").held_until_us);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 10, jobs + 1));
}

void test_a_letter_that_stops_its_group_is_named_and_gives_up_its_place(void)
{
    pgw_group_opts o = PGW_GROUP_OPTS_INIT;
    int64_t freed = 0;

    o.retry = PGW_GROUP_RETRY_BLOCK;
    ASSERT_ST(PGW_OK, pgw_group_set(h, "q", NULL, &o), h);
    TEST_ASSERT_EQUAL_INT(2, kit_claim(a, "q", 10, jobs));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", &jobs[0], ", 'x', NULL, true"));
    TEST_ASSERT_EQUAL_INT64(jobs[0].id, look("x").blocked_by);
    TEST_ASSERT_EQUAL_INT(0, kit_claim(a, "q", 10, jobs + 2));
    ASSERT_ST(PGW_OK, pgw_group_unblock(h, "q", "x", &freed), h);
    TEST_ASSERT_EQUAL_INT64(1, freed);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 10, jobs + 2));
}

void test_a_purge_deletes_the_jobs_of_one_group_that_wait(void)
{
    int64_t deleted = 0;

    TEST_ASSERT_EQUAL_INT(2, kit_claim(a, "q", 10, jobs));
    ASSERT_ST(PGW_OK, pgw_group_purge(h, "q", "x", &deleted), h);
    TEST_ASSERT_EQUAL_INT64(2, deleted);
    TEST_ASSERT_EQUAL_INT64(0, look("x").gated);
    TEST_ASSERT_EQUAL_INT64(2, look("y").gated);
}

void test_bad_groups_and_limits_are_refused_by_name(void)
{
    pgw_group_opts o = PGW_GROUP_OPTS_INIT;
    struct seen s = {.n = 0};

    o.limit = 0;
    ASSERT_ST(PGW_EINVAL, pgw_group_set(h, "q", "x", &o), h);
    ASSERT_HAS("limit", pgw_error_message(h));
    o.limit = 1, o.retry = (pgw_group_retry)7;
    ASSERT_ST(PGW_EINVAL, pgw_group_set(h, "q", "x", &o), h);
    ASSERT_HAS("retry", pgw_error_message(h));
    ASSERT_ST(PGW_EINVAL, pgw_group_reset(h, "q", ""), h);
    ASSERT_HAS("group", pgw_error_message(h));
    ASSERT_ST(PGW_EINVAL, pgw_group_hold(h, "q", "x", -5), h);
    ASSERT_HAS("for_ms", pgw_error_message(h));
    ASSERT_ST(PGW_EINVAL, pgw_groups_each(h, "q", NULL, NULL, &s), h);
    ASSERT_HAS("fn", pgw_error_message(h));
    ASSERT_ST(PGW_ENOTFOUND, pgw_group_unblock(h, "nosuch", "x", NULL), h);
    ASSERT_HAS("nosuch", pgw_error_message(h));
}

/* -- pgw_job_wait() ------------------------------------------------------------------------------
 */

void test_a_wait_ends_with_the_job_and_shows_what_came_of_it(void)
{
    pgw_wait_opts o = PGW_WAIT_OPTS_INIT;
    pgw_batch *job = NULL;

    TEST_ASSERT_EQUAL_INT(2, kit_claim(a, "q", 10, jobs));
    o.id = jobs[0].id, o.timeout_ms = 0;
    ASSERT_ST(PGW_OUTCOME_EMPTY, pgw_job_wait(h, &o, &job), h);
    TEST_ASSERT_NULL(job);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &jobs[0], ""));
    o.timeout_ms = 60000;
    ASSERT_ST(PGW_OK, pgw_job_wait(h, &o, &job), h);
    TEST_ASSERT_EQUAL_INT64(jobs[0].id, pgw_job_ref(pgw_batch_job(job, 0)).id);
    pgw_batch_free(job);
    o.queue = "q";
    ASSERT_ST(PGW_OK, pgw_job_wait(h, &o, &job), h);
    pgw_batch_free(job);
}

void test_a_wait_for_no_job_and_one_in_a_transaction_are_refused(void)
{
    pgw_wait_opts o = PGW_WAIT_OPTS_INIT;
    pgw_batch *job = NULL;

    ASSERT_ST(PGW_EINVAL, pgw_job_wait(h, &o, &job), h);
    ASSERT_HAS("id", pgw_error_message(h));
    o.id = 1LL << 50;
    ASSERT_ST(PGW_ENOTFOUND, pgw_job_wait(h, &o, &job), h);
    ASSERT_ST(PGW_EINVAL, pgw_job_wait(h, &o, NULL), h);
    ASSERT_HAS("job", pgw_error_message(h));
    ASSERT_ST(PGW_OK, pgw_txn_begin(h), h);
    ASSERT_ST(PGW_EMISUSE, pgw_job_wait(h, &o, &job), h);
    ASSERT_ST(PGW_OK, pgw_txn_rollback(h), h);
}
