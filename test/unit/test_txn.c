/* txn: what is repeated, what is rolled back, and the resulting status. */
#include "unity.h"
#include "backoff.h"
#include "buf.h"
#include "check.h"
#include "clock.h"
#include "conf.h"
#include "json.h"
#include "log.h"
#include "mem.h"
#include "mock_pq.h"
#include "name.h"
#include "sql.h"
#include "fakepq.h"

TEST_SOURCE_FILE("src/base/status.c")
TEST_SOURCE_FILE("src/handle/txn.c")

static char seen[64]; /* b begin, f function, c commit, r rollback, w wait */
static pgw_status begins, commits, rolls, waits;
static const pgw_status *outcomes;

static pgw_status note(char what, pgw_status st)
{
    const size_t n = strlen(seen);

    TEST_ASSERT_LESS_THAN(sizeof(seen) - 1, n);
    seen[n] = what, seen[n + 1] = '\0';
    return st;
}

static pgw_status begin(pgw *h, int n)
{
    return note('b', begins);
}
static pgw_status commit(pgw *h, int n)
{
    return note('c', commits);
}
static pgw_status roll(pgw *h, int n)
{
    return note('r', rolls);
}
static pgw_status pause_a_little(pgw *h, int64_t ms, int fd, int n)
{
    TEST_ASSERT_INT64_WITHIN(250, 251, ms);
    return note('w', waits);
}

static bool armed;

static bool disarm(pgw *h, int n)
{
    return armed;
}

static pgw_status last_status(const pgw *h, int n)
{
    return fake.error;
}

static pgw_status work(pgw *h, void *arg)
{
    TEST_ASSERT_EQUAL_PTR(&outcomes, arg);
    return note('f', *outcomes++);
}

void setUp(void)
{
    fake_begin();
    pgw__pq_begin_Stub(begin);
    pgw__pq_commit_Stub(commit);
    pgw__pq_rollback_Stub(roll);
    pgw__pq_wait_Stub(pause_a_little);
    pgw__pq_error_status_Stub(last_status);
    pgw__pq_disarm_Stub(disarm);
    armed = false;
    seen[0] = '\0';
    begins = commits = rolls = PGW_OK, waits = PGW_OUTCOME_EMPTY;
}

void tearDown(void) {}

static pgw_status run(const pgw_status *script, int tries)
{
    outcomes = script;
    return pgw_txn_run(FAKE_H, tries, work, &outcomes);
}

void test_success_commits_and_an_outcome_is_passed_on(void)
{
    TEST_ASSERT_EQUAL(PGW_OK, run((pgw_status[]){PGW_OK}, 3));
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY, run((pgw_status[]){PGW_OUTCOME_EMPTY}, 3));
    TEST_ASSERT_EQUAL_STRING("bfcbfc", seen);
}

void test_an_error_rolls_back(void)
{
    TEST_ASSERT_EQUAL(PGW_ECONFLICT, run((pgw_status[]){PGW_ECONFLICT}, 3));
    TEST_ASSERT_EQUAL_STRING("bfr", seen);
}

/* Its commit would be one that nobody waits for. */
void test_a_function_that_arms_the_handle_is_rolled_back(void)
{
    armed = true;
    TEST_ASSERT_EQUAL(PGW_EMISUSE, run((pgw_status[]){PGW_OK}, 3));
    TEST_ASSERT_EQUAL_STRING("bfr", seen);
    TEST_ASSERT_EQUAL(PGW_ECONFLICT, run((pgw_status[]){PGW_ECONFLICT}, 3));
    TEST_ASSERT_EQUAL_STRING("bfrbfr", seen);
}

void test_an_error_has_diagnostics_though_no_verb_failed(void)
{
    TEST_ASSERT_EQUAL(PGW_ECONFLICT, run((pgw_status[]){PGW_ECONFLICT}, 3));
    TEST_ASSERT_EQUAL(PGW_ECONFLICT, fake.error);
    ASSERT_SAYS("the function in the transaction");
    fake.error = PGW_ELEASE; /* a verb's, with its own words */
    fake.message[0] = '\0';
    TEST_ASSERT_EQUAL(PGW_ELEASE, run((pgw_status[]){PGW_ELEASE}, 3));
    TEST_ASSERT_EQUAL_STRING("", fake.message);
}

void test_only_what_can_be_repeated_is_and_not_for_ever(void)
{
    TEST_ASSERT_EQUAL(PGW_OK, run((pgw_status[]){PGW_ERETRY, PGW_ERETRY, PGW_OK}, 3));
    TEST_ASSERT_EQUAL_STRING("bfrwbfrwbfc", seen);
    seen[0] = '\0';
    TEST_ASSERT_EQUAL(PGW_ERETRY, run((pgw_status[]){PGW_ERETRY, PGW_ERETRY}, 2));
    TEST_ASSERT_EQUAL_STRING("bfrwbfr", seen);
}

void test_a_commit_returns_how_it_ended(void)
{
    commits = PGW_EUNKNOWN;
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN, run((pgw_status[]){PGW_OK}, 3));
    commits = PGW_ETXN;
    TEST_ASSERT_EQUAL(PGW_ETXN, run((pgw_status[]){PGW_OK}, 3));
    TEST_ASSERT_EQUAL_STRING("bfcbfc", seen);
}

void test_a_stop_ends_the_tries_and_a_lost_connection_does_not(void)
{
    waits = PGW_ECONN;
    TEST_ASSERT_EQUAL(PGW_OK, run((pgw_status[]){PGW_ERETRY, PGW_OK}, 3));
    waits = PGW_ECANCELED;
    TEST_ASSERT_EQUAL(PGW_ECANCELED, run((pgw_status[]){PGW_ERETRY, PGW_OK}, 3));
    begins = PGW_ECONN;
    TEST_ASSERT_EQUAL(PGW_ECONN, run((pgw_status[]){PGW_OK}, 3));
}

void test_bad_arguments_are_refused(void)
{
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_txn_run(FAKE_H, 0, work, NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_txn_run(FAKE_H, 1001, work, NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_txn_run(FAKE_H, 1, NULL, NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_txn_run(NULL, 1, work, NULL));
    TEST_ASSERT_EQUAL_STRING("", seen);
}
