/* The short way of a claim beside other sessions, with jobs that lie behind it, and with nonsense.
 * Alone: test_it_sql_short. */
#include "unity.h"
#include "pgtemp.h"
#include "sqlkit.h"
#include "shortkit.h"

#include <stdbool.h>

void setUp(void)
{
    short_begin();
}

void tearDown(void)
{
    kit_end();
}

/* -- stragglers -------------------------------------------------------------------------------- */

/* It is claimed while newer ones keep coming and there is always enough, by a session whose memory
 * lasts as long as it does. */
static void hunt(int n, long long id)
{
    int left = n;

    memcpy(mine, more, sizeof(mine));
    kit_set_short(a, "ARRAY[" NOW " + 20] || s[2:]");
    kit_set_hint(a, "h[1:3] || (" NOW " + 500) || h[5:]"); /* take() has put surveys off */
    for (long long end = kit_ms() + PATIENCE_MS; kit_ms() < end; left = n) {
        fill(n);
        TRADED(left, "", n, mine, left, more);
        for (int i = 0; i < n; i++)
            if (more[i].id == id) {
                TEST_ASSERT_EQUAL_INT(1, more[i].attempt);
                return;
            }
        memcpy(mine, more, sizeof(mine));
        kit_sleep_ms(2);
    }
    TEST_FAIL_MESSAGE("passed over");
}

TEST_CASE(1)
TEST_CASE(10)
void test_a_job_of_a_claim_rolled_back_comes_soon(int n)
{
    fill(6 * n);
    take(a, n, mine);
    kit_do(b, "BEGIN");
    kit_set_short(b, "NULL");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 1, theirs));
    TRADED(n, "", n, mine, n, more); /* skips it */
    WENT(a, "short");
    check_new(more, n, theirs, 1);
    kit_do(b, "ROLLBACK");
    TRADED(n, "", n, more, n, mine); /* leaves it, for its xmax */
    WENT(a, "short");
    check_new(mine, n, theirs, 1);
    memcpy(more, mine, sizeof(more));
    hunt(n, theirs[0].id);
}

TEST_CASE(1)
TEST_CASE(10)
void test_jobs_of_a_claim_rolled_back_come_at_once_when_there_are_no_others(int n)
{
    fill(2 * n);
    take(a, n, mine);
    kit_do(b, "BEGIN");
    TEST_ASSERT_EQUAL_INT(n, kit_claim(b, "q", n, theirs));
    kit_do(b, "ROLLBACK");
    TRADED(n, "", n, mine, n, more);
    WENT(a, "both");
    check_new(more, n, mine, n);
    check_places(0, n);
}

TEST_CASE(1)
TEST_CASE(10)
void test_a_job_that_was_committed_late_comes_soon(int n)
{
    PGconn *late = kit_open();
    long long id;

    kit_do(late, "BEGIN");
    id = kit_put(late, "q");
    warm(a); /* beyond it */
    TEST_ASSERT_GREATER_OR_EQUAL_INT64(id, through(a));
    fill(3 * n);
    take(a, n, mine);
    kit_do(late, "COMMIT");
    TRADED(n, "", n, mine, n, more);
    WENT(a, "short");
    check_new(more, n, mine, n);
    TEST_ASSERT_GREATER_THAN_INT64(id, more[0].id);
    hunt(n, id);
}

/* Without anybody's help: long claims complete by a function of their own, which is counted. */
TEST_CASE(1)
TEST_CASE(10)
void test_claims_one_upon_another_go_the_short_way(int n)
{
    long long traded = 0, before;

    kit_do(a, "SET track_functions = 'pl'");
    before = kit_number(a, "SELECT coalesce(pg_stat_get_function_calls("
                           "'pgwork._complete'::regproc), 0)");
    fill(n);
    kit_set_short(a, "NULL");
    TEST_ASSERT_EQUAL_INT(n, kit_claim(a, "q", n, mine));
    for (long long end = kit_ms() + PATIENCE_MS; kit_ms() < end;) {
        for (int i = 0; i < 10; i++, traded++) {
            fill(n);
            TRADED(n, "", n, mine, n, more);
            check_new(more, n, mine, n);
            memcpy(mine, more, sizeof(mine));
        }
        kit_do(a, "SELECT pg_stat_force_next_flush()");
        if (kit_number(a, "SELECT coalesce(pg_stat_get_function_calls("
                          "'pgwork._complete'::regproc), 0)") -
                before <
            traded)
            return;
    }
    TEST_FAIL_MESSAGE("never");
}

/* -- others ------------------------------------------------------------------------------------ */

TEST_CASE(1)
TEST_CASE(10)
void test_two_sessions_in_turn_never_get_the_same_job(int n)
{
    bool seen[600] = {false};
    long long first;

    fill(52 * n);
    take(a, n, mine);
    take(b, n, theirs);
    first = mine[0].id;
    for (int i = 0; i < 50; i++) {
        PGconn *conn = i % 2 ? b : a;
        struct took *jobs = i % 2 ? theirs : mine;

        TEST_ASSERT_EQUAL_INT(n, trade(conn, n, jobs, n, jobs));
        TEST_ASSERT_EQUAL_STRING("", refused);
        WENT(conn, "short");
        check_new(jobs, n, i % 2 ? mine : theirs, n);
        for (int j = 0; j < n; j++) {
            TEST_ASSERT_TRUE(jobs[j].id >= first && jobs[j].id < first + 600);
            TEST_ASSERT_FALSE(seen[jobs[j].id - first]);
            seen[jobs[j].id - first] = true;
        }
    }
    check_places(0, 2 * n);
}

TEST_CASE(1)
TEST_CASE(10)
void test_what_an_open_transaction_has_claimed_is_skipped(int n)
{
    fill(6 * n);
    take(a, n, mine);
    take(b, n, theirs);
    kit_do(a, "BEGIN");
    TRADED(n, "", n, mine, n, more);
    WENT(a, "short");
    TEST_ASSERT_EQUAL_INT(n, trade(b, n, theirs, n, mine));
    TEST_ASSERT_EQUAL_STRING("", refused);
    WENT(b, "short");
    check_new(mine, n, more, n);
    TRADED(n, "", n, more, n, theirs); /* once more in the same transaction */
    check_new(theirs, n, mine, n);
    kit_do(a, "COMMIT");
    check_places(n, 2 * n);
    for (int i = 0; i < n; i++) SAYS("ok", a, "complete", theirs + i);
    for (int i = 0; i < n; i++) SAYS("ok", b, "complete", mine + i);
}

/* The claim waits for the row, and is told what has become of it. */
TEST_CASE(1)
TEST_CASE(10)
void test_a_done_job_that_the_reaper_is_just_taking_is_refused(int n)
{
    fill(3 * n);
    take(a, n, mine);
    for (int i = 0; i < n; i++) expire(mine + i);
    kit_do(b, "BEGIN; SELECT * FROM pgwork.reap('q')");
    ask(a, n, mine, n);
    kit_blocked(a, watch);
    kit_do(b, "COMMIT");
    TEST_ASSERT_EQUAL_INT(1, answer(a, n, mine, n, more)); /* a suspect now */
    TEST_ASSERT_EQUAL_STRING(each(n, "stale"), refused);
    TEST_ASSERT_EQUAL_INT64(mine[0].id, more[0].id);
    TEST_ASSERT_EQUAL_INT(2, more[0].attempt);
    check_places(3 * n - 1, 1);
}

TEST_CASE(1)
TEST_CASE(10)
void test_of_two_who_complete_the_same_jobs_one_is_refused(int n)
{
    fill(6 * n);
    take(a, n, mine);
    take(b, n, theirs);
    kit_do(b, "BEGIN");
    TEST_ASSERT_EQUAL_INT(n, trade(b, n, mine, n, theirs));
    ask(a, n, mine, n);
    kit_blocked(a, watch);
    kit_do(b, "COMMIT");
    TEST_ASSERT_EQUAL_INT(n, answer(a, n, mine, n, more));
    TEST_ASSERT_EQUAL_STRING(each(n, "gone"), refused);
    check_new(more, n, theirs, n);

    kit_do(b, "BEGIN");
    remember_again(b);
    TEST_ASSERT_EQUAL_INT(n, trade(b, n, theirs, n, mine));
    remember_again(a);
    ask(a, n, theirs, n);
    kit_blocked(a, watch);
    kit_do(b, "ROLLBACK");
    TEST_ASSERT_EQUAL_INT(n, answer(a, n, theirs, n, mine));
    TEST_ASSERT_EQUAL_STRING("", refused);
    check_new(mine, n, more, n);
    check_places(n, 3 * n); /* with those that b took first */
}

/* Nor is a lease shorter for it that what is done had to be waited for: in one statement; or when
 * that leaves it to the others, since the queue keeps what is done. */
TEST_CASE(1, 0)
TEST_CASE(5, 0)
TEST_CASE(1, 600000)
TEST_CASE(5, 600000)
void test_a_claim_that_had_to_wait_hands_out_whole_leases(int n, int retention_ms)
{
    char done[1000];

    fill(3 * n);
    take(a, n, mine);
    kit_do(watch, "SELECT pgwork.queue_set('q', retention_ms => %d)", retention_ms);
    snprintf(done, sizeof(done), "%s",
             kit_text(watch, "SELECT format('%%L, %%L', array_agg(pos ORDER BY pos),"
                             " array_agg(token ORDER BY pos))"
                             " FROM pgwork.live_job WHERE token IS NOT NULL"));
    kit_do(b, "BEGIN");
    kit_do(b, "SELECT pgwork.cancel('q', '{%lld}')", mine[0].id);
    kit_send(a,
             "SELECT count(*) FROM pgwork.claim('{q}', %d, 'w', 60000, %s)"
             " WHERE attempt = 1 AND lease_until = server_time + interval '60 s'"
             " AND server_time > clock_timestamp() - interval '1 s'",
             n, done);
    kit_blocked(a, watch);
    kit_sleep_ms(1500);
    kit_do(b, "COMMIT");
    TEST_ASSERT_EQUAL_STRING(kit_text(watch, "SELECT %d", n), kit_answer(a));
    WENT(a, retention_ms > 0 ? "both" : "short");
}

/* Who enqueues meanwhile has an id behind that of the transaction that waits, and must not be taken
 * to be through when that one is. */
TEST_CASE(0)
TEST_CASE(600000)
void test_a_claim_that_had_to_wait_passes_no_place_that_was_drawn_meanwhile(int retention_ms)
{
    PGconn *late = kit_open();
    long long id, xid;

    fill(3);
    take(a, 1, mine);
    kit_do(watch, "SELECT pgwork.queue_set('q', retention_ms => %d)", retention_ms);
    if (retention_ms == 0) kit_set_short(a, "NULL"); /* else it goes both ways */
    kit_set_hint(a, "ARRAY[h[1], 0, h[3], " NOW " + 60000] || h[5:8] || 0::bigint || h[10:]");
    kit_do(b, "BEGIN");
    kit_do(b, "SELECT pgwork.cancel('q', '{%lld}')", mine[0].id);
    ask(a, 1, mine, 1);
    kit_blocked(a, watch);
    kit_do(late, "BEGIN");
    id = kit_put(late, "q");
    xid = kit_number(late, "SELECT pg_current_xact_id()");
    kit_put(watch, "q");
    kit_do(b, "COMMIT");
    TEST_ASSERT_EQUAL_INT(1, answer(a, 1, mine, 1, more));
    TEST_ASSERT_EQUAL_STRING(
        "t f", kit_text(a,
                        "SELECT concat_ws(' ', h[2] > 0, h[7] >= %lld AND h[8] <= %lld)"
                        " FROM (SELECT current_setting(pgwork._hint(" QUEUE "))::bigint[]) m (h)",
                        id, xid));
}

TEST_CASE(1)
TEST_CASE(10)
void test_a_rollback_takes_all_of_it_back(int n)
{
    int got = 0;

    fill(3 * n);
    take(a, n, mine);
    kit_do(a, "BEGIN");
    TRADED(n, "", n, mine, n, more);
    WENT(a, "short");
    kit_do(a, "ROLLBACK");
    check_places(2 * n, n);
    for (int i = 0; i < n; i++) SAYS("ok", a, "extend", mine + i);
    TRADED(n, "", n, mine, n, more);
    check_places(n, n);
    for (long long end = kit_ms() + PATIENCE_MS; kit_ms() < end && got < n; kit_sleep_ms(2))
        got += kit_claim(b, "q", n - got, theirs + got);
    TEST_ASSERT_EQUAL_INT_MESSAGE(n, got, "passed over");
    check_new(theirs, n, more, n);
}

TEST_CASE(1)
TEST_CASE(10)
void test_a_rollback_brings_the_memory_back(int n)
{
    fill(n);
    take(a, n, mine);
    kit_do(a, "BEGIN");
    TRADED(0, "", n, mine, n, more);
    WENT(a, "both");
    kit_do(a, "ROLLBACK");
    WENT(a, "short");
    check_places(0, n);
    fill(n);
    TRADED(n, "", n, mine, n, more);
    WENT(a, "short");
    check_new(more, n, mine, n);
}

/* What others have done since its snapshot is not repeated, and not undone. */
TEST_CASE(1, "repeatable read")
TEST_CASE(10, "repeatable read")
TEST_CASE(1, "serializable")
TEST_CASE(10, "serializable")
void test_a_transaction_with_an_old_snapshot(int n, const char *level)
{
    struct took last[MANY];

    fill(6 * n);
    take(a, n, mine);
    take(b, n, theirs);
    kit_do(a, "BEGIN ISOLATION LEVEL %s; SELECT count(*) FROM pgwork.job", level);
    TEST_ASSERT_EQUAL_INT(n, trade(b, n, theirs, n, last));
    TRADED(n, "", n, mine, n, more);
    check_new(more, n, last, n);
    kit_do(a, "COMMIT");
    check_places(2 * n, 2 * n);

    memcpy(mine, more, sizeof(mine));
    kit_do(a, "BEGIN ISOLATION LEVEL %s; SELECT count(*) FROM pgwork.job", level);
    remember_again(a);
    lose(0);
    kit_refused(a, "40001", "could not serialize",
                "SELECT * FROM pgwork.claim('{q}', %d, 'w', NULL, '{%lld}', '{%s}')", n, mine[0].id,
                mine[0].token);
    kit_do(a, "ROLLBACK");
    remember_again(a);
    TRADED(n, "0 stale", n, mine, n, more);
    SAYS("ok", b, "complete", theirs);
}

/* -- what makes no sense ----------------------------------------------------------------------- */

/* An error's code and message, or how many came and what was refused. Undone. */
static const char *outcome(bool remembered, const char *args)
{
    static char texts[2][1000];
    char *text = texts[remembered], sql[1000];
    PGresult *res;

    kit_do(a, "BEGIN");
    if (!remembered) kit_set_short(a, "NULL");
    snprintf(sql, sizeof(sql),
             "SELECT concat_ws(', ', count(*) FILTER (WHERE attempt > 0) || ' came',"
             " string_agg(concat_ws(' ', coalesce(id - ids[1], -1), kind), ', ' ORDER BY id)"
             " FILTER (WHERE attempt = 0)) FROM held, pgwork.claim(%s)",
             args);
    res = PQexec(a, sql);
    if (PQresultStatus(res) == PGRES_TUPLES_OK)
        snprintf(text, sizeof(texts[0]), "%s", PQgetvalue(res, 0, 0));
    else
        snprintf(text, sizeof(texts[0]), "%s %s", PQresultErrorField(res, PG_DIAG_SQLSTATE),
                 PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY));
    PQclear(res);
    kit_do(a, "ROLLBACK");
    return text;
}

void test_bad_input_is_told_as_without_memory(void)
{
    static const char *const calls[][2] = {
        {"'{q}', 1, 'w', NULL, ids[1:1], tokens[1:1]", "1 came"},
        {"'{q}', 9, 'w', NULL, ids, tokens", "9 came"},
        /* arguments of their own */
        {"'{q}', 0, 'w', NULL, ids[1:1], tokens[1:1]", "PW001 argument n is '0'"},
        {"'{q}', -1, 'w', NULL, ids[1:1], tokens[1:1]", "PW001 argument n is '-1'"},
        {"'{q}', NULL, 'w', NULL, ids[1:1], tokens[1:1]", "PW001 argument n is NULL"},
        {"'{q}', 1, NULL, NULL, ids[1:1], tokens[1:1]", "PW001 argument holder is NULL"},
        {"'{q}', 9, NULL, NULL, ids, tokens", "PW001 argument holder is NULL"},
        {"'{q}', 1, '', NULL, ids[1:1], tokens[1:1]", "PW001 argument holder is ''"},
        {"'{q}', 9, repeat('x', 256), NULL, ids, tokens", "PW001 argument holder is 'xxx"},
        {"'{q}', 9, repeat('x', 255), NULL, ids, tokens", "9 came"},
        {"'{q}', 1, 'w', 1, ids[1:1], tokens[1:1]", "PW001 argument lease_ms is '1'"},
        {"'{q}', 9, 'w', 86400001, ids, tokens", "PW001 argument lease_ms is '86400001'"},
        {"'{}', 1, 'w', NULL, ids[1:1], tokens[1:1]", "PW001 argument queues"},
        {"NULL, 1, 'w', NULL, ids[1:1], tokens[1:1]", "PW001 argument queues"},
        /* what is done */
        {"'{q}', 1, 'w', NULL, NULL, NULL", "1 came"},
        {"'{q}', 9, 'w', NULL, '{}', NULL", "9 came"},
        {"'{q}', 1, 'w', NULL, ids[1:1], NULL", "PW001 argument done_tokens is '0 tokens'"},
        {"'{q}', 1, 'w', NULL, ids[1:1], '{}'", "PW001 argument done_tokens is '0 tokens'"},
        {"'{q}', 1, 'w', NULL, ids[1:1], tokens[1:2]", "PW001 argument done_tokens is '2 tokens'"},
        {"'{q}', 9, 'w', NULL, ids[1:1], tokens[1:2]", "PW001 argument done_tokens is '2 tokens'"},
        {"'{q}', 9, 'w', NULL, ids[1:3], tokens[1:2]", "PW001 argument done_tokens is '2 tokens'"},
        {"'{q}', 9, 'w', NULL, ids[1:2], tokens[1:1]", "9 came, 1 stale"}, /* one for all */
        {"'{q}', 1, 'w', NULL, ARRAY[NULL::bigint], tokens[1:1]", "1 came, -1 gone"},
        {"'{q}', 1, 'w', NULL, ids[1:1], ARRAY[NULL::uuid]", "1 came, 0 stale"},
        {"'{q}', 9, 'w', NULL, ARRAY[ids[1], NULL, ids[3]], tokens[1:3]", "9 came, -1 gone"},
        {"'{q}', 9, 'w', NULL, ids[1:3], ARRAY[tokens[1], NULL, tokens[3]]", "9 came, 1 stale"},
        {"'{q}', 9, 'w', NULL, ids[1:2], ARRAY[NULL, tokens[2]]", "9 came, 0 stale"},
        {"'{q}', 9, 'w', NULL, ids[1:2], ARRAY[tokens[1], NULL]", "9 came, 1 stale"},
        {"'{q}', 9, 'w', NULL, ids[1:2], ARRAY[NULL, NULL]::uuid[]", "9 came, 0 stale, 1 stale"},
        {"'{q}', 1, 'w', NULL, ids[1:1] || ids[1:1], tokens[1:1] || tokens[1:1]", "1 came"},
        {"'{q}', 9, 'w', NULL, ids[1:2] || ids[1:2], tokens[1:2] || tokens[1:2]", "9 came"},
        {"'{q}', 9, 'w', NULL, ids[1:1] || ids[1:1], tokens[1:2]", "9 came"},
        {"'{q}', 9, 'w', NULL, ids[1:1] || ids[1:1], ARRAY[tokens[2], tokens[1]]", "9 came"},
        {"'{q}', 9, 'w', NULL, ARRAY[ids[3], ids[1]], ARRAY[tokens[3], tokens[1]]", "9 came"},
        {"'{q}', 9, 'w', NULL, ids, array_fill(tokens[1], ARRAY[10])", "9 came, 1 stale, 2 stale"},
        {"'{q}', 9, 'w', NULL, ids, array_fill(gen_random_uuid(), ARRAY[10])", "9 came, 0 stale"},
        {"'{q}', 9, 'w', NULL, '{9000000000}', tokens[1:1]", "9 came, "},
        {"'{q}', 1, 'w', NULL, '{9000000000}', tokens[1:1]", "1 came, "},
        {"'{q}', 9, 'w', NULL, ARRAY[ids[1:2], ids[3:4]], ARRAY[tokens[1:2], tokens[3:4]]",
         "9 came"},
        {"'{q}', 9, 'w', NULL, ('[3:4]=' || ids[1:2]::text)::bigint[], tokens[1:2]", "9 came"},
    };

    fill(60);
    kit_do(a, "CREATE TEMP TABLE held AS SELECT array_agg(id) AS ids, array_agg(token) AS tokens"
              " FROM pgwork.claim('{q}', 10, 'w')");
    take(a, 1, mine);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        const char *with = outcome(true, calls[i][0]);

        TEST_ASSERT_EQUAL_STRING_MESSAGE(outcome(false, calls[i][0]), with, calls[i][0]);
        TEST_ASSERT_EQUAL_STRING_LEN_MESSAGE(calls[i][1], with, strlen(calls[i][1]), calls[i][0]);
        WENT(a, "short"); /* that is, it would */
    }
    check_places(49, 11);
}

/* -- other queues ------------------------------------------------------------------------------ */

TEST_CASE(1)
TEST_CASE(10)
void test_a_queue_deleted_and_created_again_is_another_one(int n)
{
    fill(3 * n);
    take(a, n, mine);
    kit_do(watch, "SELECT pgwork.queue_drop('q', force => true)");
    TRADED(0, "", n, NULL, 0, more);
    remember_again(a);
    kit_refused(a, "PW003", "no queue 'q'",
                "SELECT * FROM pgwork.claim('{q}', %d, 'w', NULL, '{%lld}', '{%s}')", n, mine[0].id,
                mine[0].token);
    kit_do(watch, "SELECT pgwork.queue_create('q')");
    fill(2 * n);
    TRADED(n, each(n, "gone"), n, mine, n, more);
    check_new(more, n, mine, n);
    check_places(n, n);
}

TEST_CASE(1)
TEST_CASE(10)
void test_queues_whose_names_share_a_memory_share_nothing_else(int n)
{
    char twin[64];
    PGresult *res;

    snprintf(twin, sizeof(twin), "%s",
             kit_text(watch, "SELECT 'twin ' || g FROM generate_series(1, 100000) g"
                             " WHERE pgwork._short('twin ' || g) = pgwork._short('q') LIMIT 1"));
    kit_do(watch, "SELECT pgwork.enqueue('%s') FROM generate_series(1, %d)", twin, 4 * n);
    fill(4 * n);
    for (int i = 0; i < 2; i++) { /* with the other one's memory */
        take(a, n, mine);
        res = kit_rows(a,
                       "SELECT queue, kind FROM pgwork.claim('{%s}', %d, 'w', NULL, '{%lld}',"
                       " '{%s}') ORDER BY attempt",
                       twin, n, mine[0].id, mine[0].token);
        TEST_ASSERT_EQUAL_INT(n + 1, PQntuples(res));
        TEST_ASSERT_EQUAL_STRING("gone", PQgetvalue(res, 0, 1));
        for (int k = 0; k <= n; k++) TEST_ASSERT_EQUAL_STRING(twin, PQgetvalue(res, k, 0));
        PQclear(res);
        TRADED(n, "", n, mine, n, more);
        for (int k = 0; k < n; k++) TEST_ASSERT_EQUAL_STRING("q", more[k].queue);
        check_places(2 * n - 2 * n * i, n + n * i);
    }
    TEST_ASSERT_EQUAL_STRING(kit_text(watch, "SELECT '%d %d 0 0 0'", 2 * n, 2 * n),
                             kit_places(watch, twin));
}
