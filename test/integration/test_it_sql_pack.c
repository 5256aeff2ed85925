/* Packs: jobs that were claimed together share a row and a token, and yet each is finished, failed,
 * extended, cancelled and lost for itself. */
#include "unity.h"
#include "pgtemp.h"
#include "sqlkit.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static PGconn *a, *b, *watch;
static struct took jobs[10000];

void setUp(void)
{
    kit_begin();
    a = kit_open();
    b = kit_open();
    watch = kit_open();
    kit_do(a, "SELECT pgwork.queue_create('q', backoff_ms => 3600000)");
}

void tearDown(void)
{
    kit_end();
}

/* -- tools ---------------------------------------------------------------------------------------
 */

static void fill(int n)
{
    kit_do(a, "SELECT count(*) FROM pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[%d]))",
           n);
}

static long long rows_of(const char *table)
{
    return kit_number(watch, "SELECT count(*) FROM pgwork.%s", table);
}

/* n jobs in one pack, jobs[0] .. jobs[n-1], and nothing else. */
static void take(int n)
{
    fill(n);
    TEST_ASSERT_EQUAL_INT(n, kit_claim(a, "q", n, jobs));
    TEST_ASSERT_EQUAL_INT64(1, rows_of("pack"));
    TEST_ASSERT_EQUAL_INT64(0, rows_of("live_job"));
}

/* verb('q', jobs[first .. first + n), their tokens + more) */
static const char *call(const char *verb, int first, int n, const char *more)
{
    static char sql[1 << 19];
    size_t length = (size_t)snprintf(sql, sizeof(sql), "pgwork.%s('q', '{", verb);

    for (int i = first; i < first + n; i++)
        length += (size_t)snprintf(sql + length, sizeof(sql) - length, "%s%lld",
                                   i > first ? "," : "", jobs[i].id);
    snprintf(sql + length, sizeof(sql) - length, "}', array_fill('%s'::uuid, ARRAY[%d])%s)",
             jobs[first].token, n, more);
    return sql;
}

/* What it says against some of them: "0 stale,2 gone" by number; "" when it accepts all. */
static const char *say(PGconn *conn, const char *verb, int first, int n, const char *more)
{
    const char *said = kit_text(conn,
                                "SELECT string_agg((id - %lld) || ' ' || status, ',' ORDER BY id)"
                                " FROM %s",
                                jobs[0].id, call(verb, first, n, more));

    return said ? said : "";
}

/* The states of all jobs in the order of their ids, "leased 1, ready 0" with their attempts. */
static const char *states(void)
{
    const char *all = kit_text(
        watch, "SELECT string_agg(state || ' ' || attempt, ', ' ORDER BY id) FROM pgwork.job");

    return all ? all : "";
}

static void reap(long long returned, long long died)
{
    TEST_ASSERT_EQUAL_STRING(kit_text(watch, "SELECT (%lld, %lld)::text", returned, died),
                             kit_text(b, "SELECT (returned, died)::text FROM pgwork.reap('q')"));
}

/* No trace of packs is left. */
static void check_no_packs_but(int n)
{
    TEST_ASSERT_EQUAL_INT64(n, rows_of("pack"));
    TEST_ASSERT_EQUAL_INT64(0, rows_of("pack_out"));
}

static void check_no_packs(void)
{
    check_no_packs_but(0);
}

static void hasty(PGconn *conn)
{
    kit_do(conn, "SET lock_timeout = '200ms'");
}

/* -- what is packed ------------------------------------------------------------------------------
 */

void test_jobs_claimed_together_share_a_row_and_a_token(void)
{
    take(5);
    for (int i = 1; i < 5; i++) {
        TEST_ASSERT_EQUAL_STRING(jobs[0].token, jobs[i].token);
        TEST_ASSERT_EQUAL_INT64(jobs[i - 1].id + 1, jobs[i].id);
        TEST_ASSERT_EQUAL_INT(1, jobs[i].attempt);
    }
    TEST_ASSERT_GREATER_THAN_INT64(
        jobs[4].id, kit_number(a, "SELECT pgwork.token_number('%s') >> 5", jobs[0].token));
    TEST_ASSERT_EQUAL_STRING("", say(a, "complete", 0, 5, ""));
    check_no_packs();
    TEST_ASSERT_EQUAL_STRING("0 1 2 3 4", /* each of them, once */
                             kit_text(a,
                                      "SELECT string_agg((id - %lld)::text, ' ' ORDER BY id) FROM "
                                      "%s WHERE status = 'gone'",
                                      jobs[0].id, call("complete", 0, 5, "")));
}

void test_a_job_claimed_alone_stays_in_its_row(void)
{
    fill(1);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, jobs));
    TEST_ASSERT_EQUAL_INT64(0, rows_of("pack"));
    TEST_ASSERT_EQUAL_INT64(1, rows_of("live_job"));
}

/* Odd ones stay in their rows; all come in order, and never more than n. */
void test_a_claim_mixes_odd_and_plain_jobs_in_order(void)
{
    struct took retried;

    kit_do(a, "SELECT pgwork.enqueue('q', '0')");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, &retried));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", &retried, ", 'boom', 0"));
    kit_do(a, "SELECT pgwork.enqueue('q', '4', priority => 2),"
              " pgwork.enqueue('q', '5', priority => 2, key => 'k'),"
              " pgwork.enqueue('q', '1'), pgwork.enqueue('q', '2', lease_ms => 120000),"
              " pgwork.enqueue('q', '3', max_attempts => 3),"
              " pgwork.enqueue('q', '6', priority => 2, body => convert_to(string_agg(md5(g::text),"
              " ''), 'utf8')), pgwork.enqueue('q', '7', priority => 3)"
              " FROM generate_series(1, 100) g");
    TEST_ASSERT_EQUAL_STRING(
        "0 odd 2 10 00:00:30, 1 packed 1 10 00:00:30, 2 odd 1 10 00:02:00, 3 odd 1 3 00:00:30,"
        " 4 packed 1 10 00:00:30, 5 odd 1 10 00:00:30, 6 odd 1 10 00:00:30",
        kit_text(b, "SELECT string_agg(concat_ws(' ', payload, CASE pgwork.token_number(token) & 31"
                    " WHEN 31 THEN 'packed' ELSE 'odd' END, attempt, max_attempts, lease_until -"
                    " server_time), ', ' ORDER BY i) FROM pgwork.claim('{q}', 7, 'w')"
                    " WITH ORDINALITY AS c (queue, id, token, attempt, max_attempts, priority,"
                    " kind, payload, body, tags, created_at, lease_until, server_time, i)"));
    TEST_ASSERT_EQUAL_STRING("1 7 0 0 0", kit_places(a, "q"));
    TEST_ASSERT_EQUAL_STRING("7",
                             kit_text(a, "SELECT payload FROM pgwork.job WHERE state = 'ready'"));
}

void test_odd_and_plain_jobs_are_finished_in_one_call(void)
{
    kit_do(a, "SELECT pgwork.enqueue('q', key => CASE g %% 2 WHEN 0 THEN g::text END)"
              " FROM generate_series(1, 6) g");
    kit_do(a, "CREATE TEMP TABLE held AS SELECT * FROM pgwork.claim('{q}', 6, 'w')");
    TEST_ASSERT_EQUAL_INT64(4, kit_number(a, "SELECT count(DISTINCT token) FROM held"));
    TEST_ASSERT_EQUAL_INT64(
        6, kit_number(a, "SELECT count(*) FROM (SELECT array_agg(id) AS i, array_agg(token) AS t"
                         " FROM held) h, pgwork.extend('q', h.i, h.t) WHERE status = 'ok'"));
    TEST_ASSERT_EQUAL_INT64(
        0, kit_number(a, "SELECT count(*) FROM (SELECT array_agg(id) AS i, array_agg(token) AS t"
                         " FROM held) h, pgwork.complete('q', h.i, h.t)"));
    TEST_ASSERT_EQUAL_STRING("0 0 0 0 0", kit_places(a, "q"));
    TEST_ASSERT_EQUAL_INT64(0, rows_of("unique_key"));
    check_no_packs();
}

void test_large_payloads_and_bodies_are_leased_in_their_rows(void)
{
    kit_do(a, "SELECT pgwork.enqueue('q', to_jsonb(string_agg(md5(g::text), ''))),"
              " pgwork.enqueue('q', '1', body => convert_to(string_agg(md5(g::text), ''), 'utf8'))"
              " FROM generate_series(1, 63) g");
    kit_do(a, "SELECT pgwork.enqueue('q', to_jsonb(string_agg(md5(g::text), '')),"
              " body => 'small') FROM generate_series(1, 60) g");
    TEST_ASSERT_EQUAL_INT(3, kit_claim(a, "q", 9, jobs));
    TEST_ASSERT_EQUAL_INT64(2, rows_of("live_job"));
    TEST_ASSERT_EQUAL_INT64(
        1,
        kit_number(a, "SELECT cardinality(ids) FROM pgwork.pack WHERE ids = '{%lld}'", jobs[2].id));
    for (int i = 0; i < 3; i++)
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", jobs + i, ""));
    TEST_ASSERT_EQUAL_STRING("0 0 0 0 0", kit_places(a, "q"));
}

void test_a_packed_job_is_all_that_was_enqueued(void)
{
    static const char all[] =
        "SELECT string_agg(concat_ws('|', id, kind, priority, payload, body_bytes, tags, "
        "created_at), '; ' ORDER BY id) FROM pgwork.job";
    const char *before;

    kit_do(a,
           "SELECT pgwork.enqueue('q', '{\"a\": [1.50, null]}', 'mail', '\\x00ff', 4, tags => "
           "'{\"x,\\\"y\",NULL,z}'), pgwork.enqueue('q'), pgwork.enqueue('q', 'null', 'x', '', 9,"
           " tags => '{}')");
    before = kit_text(a, all);
    TEST_ASSERT_EQUAL_STRING(
        "|NULL||NULL|NULL, mail|{\"a\": [1.50, null]}|\\x00ff|{\"x,\\\"y\",NULL,z}|4, "
        "x|null|\\x|{}|9",
        kit_text(a, "SELECT string_agg(concat_ws('|', kind, coalesce(payload::text, 'NULL'),"
                    " coalesce(body::text, ''), coalesce(tags::text, 'NULL'),"
                    " coalesce(nullif(priority, 0)::text, 'NULL')), ', ' ORDER BY priority)"
                    " FROM pgwork.claim('{q}', 3, 'w')"));
    TEST_ASSERT_EQUAL_INT64(1, rows_of("pack"));
    TEST_ASSERT_EQUAL_STRING(before, kit_text(a, all));
    TEST_ASSERT_EQUAL_STRING(
        "3 leased 1 10 w t",
        kit_text(a, "SELECT concat_ws(' ', count(*), min(state), max(attempt), max(max_attempts),"
                    " max(holder), min(lease_until) BETWEEN now() AND now() + interval '30 s')"
                    " FROM pgwork.job"));
    kit_do(a, "SELECT count(*) FROM pgwork.pack p, pgwork.fail('q', p.ids, array_fill(p.token,"
              " ARRAY[3]), 'boom', 0)");
    TEST_ASSERT_EQUAL_STRING(before, kit_text(a, all));
    TEST_ASSERT_EQUAL_STRING("\\x00ff,\\x",
                             kit_text(a, "SELECT string_agg(body::text, ',' ORDER BY priority) FROM"
                                         " pgwork.claim('{q}', 3, 'w')"));
}

void test_a_claim_of_ten_thousand(void)
{
    fill(10000);
    TEST_ASSERT_EQUAL_INT(10000, kit_claim(a, "q", 10000, jobs));
    TEST_ASSERT_EQUAL_STRING("0 10000 0 0 0", kit_places(a, "q"));
    TEST_ASSERT_EQUAL_INT64(
        10000, kit_number(a, "SELECT count(*) FROM pgwork.pack p, pgwork.extend('q', p.ids,"
                             " array_fill(p.token, ARRAY[10000])) WHERE status = 'ok'"));
    TEST_ASSERT_EQUAL_STRING("", say(a, "complete", 0, 4000, ""));
    TEST_ASSERT_EQUAL_STRING("", say(a, "fail", 4000, 1000, ", 'boom', 0, true"));
    TEST_ASSERT_EQUAL_STRING("0 5000 0 1000 0", kit_places(a, "q"));
    kit_expire(a, "q");
    reap(1000, 0);
    TEST_ASSERT_EQUAL_STRING("", say(a, "complete", 6000, 4000, ""));
    TEST_ASSERT_EQUAL_STRING("1000 0 0 1000 0", kit_places(a, "q"));
    check_no_packs();
}

/* -- finishing parts -----------------------------------------------------------------------------
 */

void test_transactions_that_finish_different_jobs_of_a_pack_do_not_wait(void)
{
    static const char *const verbs[][2] = {
        {"complete", ""}, {"fail", ", 'boom', 0"}, {"snooze", ", 60000"}, {"release", ""}};
    PGconn *c = kit_open();

    hasty(a);
    hasty(b);
    hasty(c);
    for (int v = 0; v < 4; v++)
        for (int w = 0; w < 4; w++) {
            take(6);
            kit_do(a, "BEGIN");
            TEST_ASSERT_EQUAL_STRING("", say(a, verbs[v][0], 0, 1, verbs[v][1]));
            kit_do(b, "BEGIN");
            TEST_ASSERT_EQUAL_STRING("", say(b, verbs[w][0], 1, 2, verbs[w][1]));
            TEST_ASSERT_EQUAL_STRING("", say(c, "complete", 3, 1, ""));
            TEST_ASSERT_EQUAL_STRING("3 gone,4 ok,5 ok", say(c, "extend", 3, 3, ""));
            TEST_ASSERT_EQUAL_STRING("", say(a, "complete", 4, 2, ""));
            kit_do(b, "COMMIT");
            kit_do(a, "COMMIT");
            TEST_ASSERT_EQUAL_INT64(
                6, kit_number(c, "SELECT count(*) FROM %s", call("complete", 0, 6, "")));
            TEST_ASSERT_EQUAL_INT64((v > 0) + 2 * (w > 0), rows_of("job"));
            kit_do(watch, "SELECT pgwork.queue_drop('q', true), pgwork.queue_create('q')");
        }
}

void test_a_transaction_that_finishes_all_waits_for_one_that_finishes_some(void)
{
    for (int commits = 0; commits < 2; commits++) {
        take(3);
        kit_do(a, "BEGIN");
        TEST_ASSERT_EQUAL_STRING("", say(a, "complete", 1, 1, ""));
        kit_send(b, "SELECT string_agg((id - %lld) || ' ' || status, ',') FROM %s", jobs[0].id,
                 call("complete", 0, 3, ""));
        kit_blocked(b, watch);
        kit_do(a, commits ? "COMMIT" : "ROLLBACK");
        if (commits)
            TEST_ASSERT_EQUAL_STRING("1 gone", kit_answer(b));
        else
            TEST_ASSERT_NULL(kit_answer(b));
        check_no_packs();
    }
}

void test_a_transaction_that_finishes_some_waits_for_one_that_finishes_all(void)
{
    for (int commits = 0; commits < 2; commits++) {
        take(3);
        kit_do(a, "BEGIN");
        TEST_ASSERT_EQUAL_STRING("", say(a, "complete", 0, 3, ""));
        kit_send(b, "SELECT string_agg((id - %lld) || ' ' || status, ',') FROM %s", jobs[0].id,
                 call("fail", 1, 2, ", 'boom', 0, true"));
        kit_blocked(b, watch);
        kit_do(a, commits ? "COMMIT" : "ROLLBACK");
        if (commits)
            TEST_ASSERT_NOT_NULL(strchr(kit_answer(b), ','));
        else
            TEST_ASSERT_NULL(kit_answer(b));
        TEST_ASSERT_EQUAL_STRING(commits ? "" : "leased 1, dead 1, dead 1", states());
        if (!commits) {
            TEST_ASSERT_EQUAL_STRING("", say(b, "complete", 0, 1, ""));
            kit_do(a, "SELECT pgwork.dead_purge('q')");
        }
        check_no_packs();
    }
}

void test_of_two_that_finish_one_job_the_second_waits_and_is_refused(void)
{
    static const char *const verbs[][3] = {{"complete", "", "gone"},
                                           {"fail", ", 'boom', 0", "stale"},
                                           {"fail", ", 'boom', 60000", "stale"},
                                           {"fail", ", 'boom', 0, true", "stale"},
                                           {"snooze", ", 60000", "stale"},
                                           {"release", "", "stale"}};
    const char *said;

    for (int v = 0; v < 6; v++)
        for (int w = 0; w < 6; w++) {
            take(3);
            kit_do(a, "BEGIN");
            TEST_ASSERT_EQUAL_STRING("", say(a, verbs[v][0], 0, 2, verbs[v][1]));
            kit_send(b, "SELECT string_agg((id - %lld) || ' ' || status, ',') FROM %s", jobs[0].id,
                     call(verbs[w][0], 1, 2, verbs[w][1]));
            kit_blocked(b, watch);
            kit_do(a, "COMMIT");
            said = kit_answer(b);
            TEST_ASSERT_EQUAL_STRING(kit_text(a, "SELECT '1 %s'", verbs[v][2]), said);
            TEST_ASSERT_EQUAL_INT64(2 * (v > 0) + (w > 0), rows_of("job"));
            check_no_packs();
            kit_do(a, "SELECT pgwork.queue_drop('q', true), pgwork.queue_create('q')");
        }
}

void test_a_finish_rolled_back_has_never_been(void)
{
    take(4);
    kit_do(a, "BEGIN");
    TEST_ASSERT_EQUAL_STRING("", say(a, "complete", 0, 2, ""));
    TEST_ASSERT_EQUAL_STRING("", say(a, "fail", 2, 1, ", 'boom', 0"));
    kit_do(a, "SAVEPOINT s");
    TEST_ASSERT_EQUAL_STRING("", say(a, "complete", 3, 1, ""));
    kit_do(a, "ROLLBACK TO s");
    TEST_ASSERT_EQUAL_STRING("", say(a, "release", 3, 1, ""));
    kit_do(a, "ROLLBACK");
    TEST_ASSERT_EQUAL_STRING("leased 1, leased 1, leased 1, leased 1", states());
    TEST_ASSERT_EQUAL_STRING("", say(b, "complete", 0, 4, ""));
    check_no_packs();
}

void test_each_job_of_a_pack_goes_where_its_holder_sends_it(void)
{
    take(8);
    TEST_ASSERT_EQUAL_STRING("", say(a, "complete", 0, 1, ""));
    TEST_ASSERT_EQUAL_STRING("", say(a, "fail", 1, 1, ", 'boom', 0"));
    TEST_ASSERT_EQUAL_STRING("", say(a, "fail", 2, 1, ", 'boom'"));
    TEST_ASSERT_EQUAL_STRING("", say(a, "fail", 3, 1, ", 'boom', 0, true"));
    TEST_ASSERT_EQUAL_STRING("", say(a, "snooze", 4, 1, ", 60000"));
    TEST_ASSERT_EQUAL_STRING("", say(a, "snooze", 5, 1, ", 0"));
    TEST_ASSERT_EQUAL_STRING("", say(a, "release", 6, 1, ""));
    TEST_ASSERT_EQUAL_STRING("ready 1, delayed 1, dead 1, delayed 0, ready 0, ready 0, leased 1",
                             states());
    TEST_ASSERT_EQUAL_STRING("boom,boom,boom,,,,", /* and the error is theirs alone */
                             kit_text(a, "SELECT string_agg(coalesce(error, ''), ',' ORDER BY id)"
                                         " FROM pgwork.job"));
    TEST_ASSERT_EQUAL_STRING("0 gone,1 stale,2 stale,3 stale,4 stale,5 stale,6 stale",
                             say(b, "complete", 0, 8, ""));
    check_no_packs();
    TEST_ASSERT_EQUAL_INT(3, kit_claim(a, "q", 9, jobs)); /* in front, in their order */
    TEST_ASSERT_EQUAL_INT(2, jobs[0].attempt);
    TEST_ASSERT_EQUAL_INT(1, jobs[1].attempt);
    TEST_ASSERT_EQUAL_INT(1, jobs[2].attempt);
}

void test_max_attempts_of_one_make_a_dead_letter_of_a_packed_job(void)
{
    kit_do(a, "SELECT pgwork.queue_set('q', max_attempts => 1)");
    take(3);
    TEST_ASSERT_EQUAL_STRING("", say(a, "fail", 0, 1, ", 'boom', 0"));
    TEST_ASSERT_EQUAL_STRING("", say(a, "release", 1, 1, ""));
    kit_expire(a, "q");
    reap(0, 1);
    TEST_ASSERT_EQUAL_STRING("dead 1, ready 0, dead 1", states());
    TEST_ASSERT_EQUAL_STRING("holder 1",
                             kit_text(a, "SELECT DISTINCT holder FROM pgwork.dead_job"));
}

void test_a_finished_job_is_gone_and_not_stale_while_its_pack_is_there(void)
{
    take(3);
    TEST_ASSERT_EQUAL_STRING("", say(a, "complete", 1, 1, ""));
    TEST_ASSERT_EQUAL_INT64(1, rows_of("pack"));
    TEST_ASSERT_EQUAL_STRING("1 gone", say(a, "fail", 1, 1, ", 'boom'"));
    TEST_ASSERT_EQUAL_STRING("1 gone", say(a, "extend", 1, 1, ""));
    TEST_ASSERT_EQUAL_STRING("0 ok,1 gone,2 ok", say(a, "extend", 0, 3, ""));
    TEST_ASSERT_EQUAL_STRING(
        "gone", kit_text(a, "SELECT status FROM pgwork.cancel('q', '{%lld}')", jobs[1].id));
    TEST_ASSERT_EQUAL_STRING("0 2 0 0 0", kit_places(a, "q"));
    TEST_ASSERT_EQUAL_STRING("1 gone", say(a, "complete", 0, 3, ""));
    check_no_packs();
}

void test_a_packed_job_named_twice_is_finished_once_and_not_refused(void)
{
    take(2);
    jobs[2] = jobs[1];
    jobs[3] = jobs[0];
    jobs[4] = jobs[0];
    TEST_ASSERT_EQUAL_STRING("", say(a, "complete", 3, 2, ""));
    TEST_ASSERT_EQUAL_STRING("leased 1", states());
    TEST_ASSERT_EQUAL_STRING("1 ok", say(a, "extend", 1, 2, ""));
    TEST_ASSERT_EQUAL_STRING("", say(a, "release", 1, 2, ""));
    TEST_ASSERT_EQUAL_STRING("ready 0", states());
    check_no_packs();
}

void test_only_the_pack_s_token_finishes_its_jobs(void)
{
    static const char *const verbs[][2] = {
        {"complete", ""}, {"fail", ", 'boom'"}, {"extend", ""}, {"snooze", ", 0"}, {"release", ""}};
    struct took odd[4];
    static const char packs[] = "SELECT md5(json_agg(p)::text) FROM pgwork.pack p";
    char before[40];

    take(3);
    odd[0] = odd[1] = odd[2] = jobs[0];
    memcpy(odd[0].token + 19, "0000-000000000000", 18); /* the pack's number, another nonce */
    snprintf(odd[1].token, sizeof(odd[1].token), "%s",  /* the nonce, at the job's old place */
             kit_text(a,
                      "SELECT (lpad(to_hex(%lld * 32 + 1), 16, '0') || right(replace('%s', '-',"
                      " ''), 16))::uuid",
                      jobs[0].id, jobs[0].token));
    odd[2].id = jobs[2].id + 1; /* the pack's own number: no job */
    fill(2);
    TEST_ASSERT_EQUAL_INT(2, kit_claim(b, "q", 2, jobs + 3));
    odd[3] = jobs[0];
    memcpy(odd[3].token, jobs[3].token, sizeof(odd[3].token)); /* another pack's */
    snprintf(before, sizeof(before), "%s", kit_text(a, packs));
    for (int i = 0; i < 4; i++)
        for (int v = 0; v < 5; v++)
            TEST_ASSERT_EQUAL_STRING(i == 2 ? "gone" : "stale",
                                     kit_say(a, verbs[v][0], &odd[i], verbs[v][1]));
    TEST_ASSERT_EQUAL_STRING(before, kit_text(a, packs));
    TEST_ASSERT_EQUAL_INT64(0, rows_of("pack_out"));
    TEST_ASSERT_EQUAL_STRING("0 stale,1 stale,2 stale",
                             kit_text(a,
                                      "SELECT string_agg((id - %lld) || ' ' || status, ',' ORDER"
                                      " BY id) FROM pgwork.complete('q', '{%lld,%lld,%lld}',"
                                      " array_fill('%s'::uuid, ARRAY[3]))",
                                      jobs[0].id, jobs[0].id, jobs[1].id, jobs[2].id,
                                      odd[0].token));
    TEST_ASSERT_EQUAL_STRING("0 5 0 0 0", kit_places(a, "q"));
}

/* An extend of the same jobs may be half-way at any moment. */
void test_a_mixed_call_takes_its_locks_in_the_order_of_the_others(void)
{
    fill(2);
    kit_do(a, "SELECT pgwork.enqueue('q', key => 'k')");
    TEST_ASSERT_EQUAL_INT(3, kit_claim(a, "q", 3, jobs));
    hasty(a);
    kit_do(a, "BEGIN");
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "extend", jobs + 2, ""));
    kit_send(b, "SELECT count(*) FROM pgwork.complete('q', '{%lld,%lld,%lld}', '{%s,%s,%s}')",
             jobs[0].id, jobs[1].id, jobs[2].id, jobs[0].token, jobs[1].token, jobs[2].token);
    kit_blocked(b, watch);
    TEST_ASSERT_EQUAL_STRING("0 ok,1 ok", say(a, "extend", 0, 2, ""));
    kit_do(a, "COMMIT");
    TEST_ASSERT_EQUAL_STRING("0", kit_answer(b));
    check_no_packs();
}

void test_jobs_of_several_packs_are_finished_in_one_call(void)
{
    fill(7);
    TEST_ASSERT_EQUAL_INT(2, kit_claim(a, "q", 2, jobs));
    TEST_ASSERT_EQUAL_INT(2, kit_claim(b, "q", 2, jobs + 2));
    TEST_ASSERT_EQUAL_INT(3, kit_claim(b, "q", 3, jobs + 4));
    TEST_ASSERT_NULL(kit_text(a,
                              "SELECT status FROM pgwork.complete('q',"
                              " '{%lld,%lld,%lld,%lld}', '{%s,%s,%s,%s}')",
                              jobs[5].id, jobs[0].id, jobs[2].id, jobs[1].id, jobs[5].token,
                              jobs[0].token, jobs[2].token, jobs[1].token));
    TEST_ASSERT_EQUAL_STRING(
        kit_text(a, "SELECT '%lld,%lld,%lld'", jobs[3].id, jobs[4].id, jobs[6].id),
        kit_text(a, "SELECT string_agg(id::text, ',' ORDER BY id) FROM pgwork.job"));
    TEST_ASSERT_EQUAL_INT64(2, rows_of("pack"));
}

/* Two who take out the last jobs at one moment do not see each other: an empty pack stays behind.
 */
static void husk(void)
{
    take(2);
    kit_do(a, "BEGIN");
    kit_do(b, "BEGIN");
    TEST_ASSERT_EQUAL_STRING("", say(a, "complete", 0, 1, ""));
    TEST_ASSERT_EQUAL_STRING("", say(b, "complete", 1, 1, ""));
    kit_do(a, "COMMIT");
    kit_do(b, "COMMIT");
}

void test_a_pack_that_all_have_left_is_nothing_and_goes_after_its_lease(void)
{
    husk();
    TEST_ASSERT_EQUAL_INT64(1, rows_of("pack"));
    TEST_ASSERT_EQUAL_STRING("", states());
    TEST_ASSERT_EQUAL_STRING("0 0 0 0 0", kit_places(a, "q"));
    TEST_ASSERT_EQUAL_STRING("0 gone,1 gone", say(a, "complete", 0, 2, ""));
    TEST_ASSERT_EQUAL_STRING("0 gone,1 gone", say(a, "extend", 0, 2, ""));
    reap(0, 0);
    kit_expire(a, "q");
    reap(0, 0);
    check_no_packs();
}

void test_a_queue_without_jobs_is_dropped_in_spite_of_an_empty_pack(void)
{
    husk();
    kit_do(a, "SELECT pgwork.queue_drop('q')");
    check_no_packs();
}

/* -- leases --------------------------------------------------------------------------------------
 */

void test_an_extend_moves_only_the_leases_that_it_names(void)
{
    take(4);
    kit_expire(a, "q");
    TEST_ASSERT_EQUAL_STRING("1 ok,2 ok", say(a, "extend", 1, 2, ", 60000"));
    TEST_ASSERT_EQUAL_STRING(
        "f t t f", kit_text(a, "SELECT string_agg(CASE WHEN lease_until > now() + interval '59 s'"
                               " THEN 't' WHEN lease_until < now() THEN 'f' END, ' ' ORDER BY id)"
                               " FROM pgwork.job"));
    TEST_ASSERT_EQUAL_STRING("2 ok", say(a, "extend", 2, 1, ", 3600000"));
    reap(2, 0);
    TEST_ASSERT_EQUAL_STRING("ready 1, leased 1, leased 1, ready 1", states());
    reap(0, 0);
    TEST_ASSERT_EQUAL_STRING("0 stale,1 ok,2 ok,3 stale", say(a, "extend", 0, 4, ""));
    TEST_ASSERT_EQUAL_STRING("0 stale,3 stale", say(a, "complete", 0, 4, ""));
    TEST_ASSERT_EQUAL_STRING("ready 1, ready 1", states());
    check_no_packs();
}

void test_leases_extended_one_by_one_end_one_by_one(void)
{
    take(3);
    for (int i = 0; i < 3; i++)
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "extend", jobs + i,
                                               i == 0   ? ", 100"
                                               : i == 1 ? ", 400"
                                                        : ", 60000"));
    for (int left = 2; left > 0; left--) {
        for (long long end = kit_ms() + 10000; kit_ms() < end;) {
            if (kit_number(b, "SELECT returned FROM pgwork.reap('q')") == 1) break;
            kit_sleep_ms(10);
        }
        TEST_ASSERT_EQUAL_STRING(
            left == 2 ? "ready 1, leased 1, leased 1" : "ready 1, ready 1, leased 1", states());
    }
    TEST_ASSERT_EQUAL_STRING("", say(a, "complete", 2, 1, ""));
    check_no_packs();
}

void test_an_extend_of_all_that_are_left_makes_one_lease_of_them_again(void)
{
    take(3);
    TEST_ASSERT_EQUAL_STRING("1 ok", say(a, "extend", 1, 1, ", 60000"));
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT count(ends) FROM pgwork.pack"));
    TEST_ASSERT_EQUAL_STRING("", say(a, "complete", 0, 1, ""));
    TEST_ASSERT_EQUAL_STRING("1 ok,2 ok", say(a, "extend", 1, 2, ", 90000"));
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT count(ends) FROM pgwork.pack"));
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT count(DISTINCT lease_until) FROM pgwork.job"
                                             " WHERE lease_until > now() + interval '85 s'"));
    kit_expire(a, "q");
    TEST_ASSERT_EQUAL_STRING("1 ok,2 ok", say(a, "extend", 1, 2, "")); /* late, yet before all */
    reap(0, 0);
    TEST_ASSERT_EQUAL_STRING("leased 1, leased 1", states());
}

void test_extend_tells_the_end_of_the_lease(void)
{
    const char *end;

    take(2);
    kit_do(a, "SELECT pgwork.queue_set('q', lease_ms => 77000)");
    end = kit_text(a, "SELECT lease_until FROM %s WHERE status = 'ok'", call("extend", 1, 1, ""));
    TEST_ASSERT_EQUAL_STRING(
        kit_text(a, "SELECT '%s|t'", end),
        kit_text(a,
                 "SELECT concat_ws('|', lease_until, lease_until BETWEEN now() + interval '60 s'"
                 " AND now() + interval '77 s') FROM pgwork.job WHERE id = %lld",
                 jobs[1].id));
}

void test_packs_are_reaped_in_batches_smaller_than_they_are(void)
{
    take(10);
    kit_expire(a, "q");
    for (int i = 0; i < 3; i++)
        TEST_ASSERT_EQUAL_INT64(3, kit_number(b, "SELECT returned FROM pgwork.reap('q', 3)"));
    TEST_ASSERT_EQUAL_STRING("9 1 0 0 0", kit_places(a, "q"));
    TEST_ASSERT_EQUAL_STRING("9 ok", say(a, "extend", 9, 1, ""));
    TEST_ASSERT_EQUAL_INT64(0, kit_number(b, "SELECT returned FROM pgwork.reap('q', 3)"));
    TEST_ASSERT_EQUAL_STRING("0 stale,1 stale,2 stale,3 stale,4 stale,5 stale,6 stale,7 stale,"
                             "8 stale",
                             say(a, "complete", 0, 10, ""));
    check_no_packs();
    TEST_ASSERT_EQUAL_STRING("9 0 0 0 0", kit_places(a, "q"));
}

void test_a_batch_of_reap_spans_packs_and_rows(void)
{
    fill(6);
    kit_do(a, "SELECT pgwork.enqueue('q', key => 'k')");
    TEST_ASSERT_EQUAL_INT(3, kit_claim(a, "q", 3, jobs));
    TEST_ASSERT_EQUAL_INT(4, kit_claim(a, "q", 4, jobs + 3));
    kit_expire(a, "q");
    TEST_ASSERT_EQUAL_INT64(5, kit_number(b, "SELECT returned FROM pgwork.reap('q', 5)"));
    TEST_ASSERT_EQUAL_INT64(2, kit_number(b, "SELECT returned FROM pgwork.reap('q', 5)"));
    TEST_ASSERT_EQUAL_STRING("7 0 0 0 0", kit_places(a, "q"));
    check_no_packs();
}

void test_a_stale_token_of_a_pack_is_refused_for_ever(void)
{
    static const char *const verbs[][2] = {
        {"complete", ""}, {"fail", ", 'boom'"}, {"extend", ""}, {"snooze", ", 0"}, {"release", ""}};
    struct took later[3];

    take(3);
    kit_expire(a, "q");
    reap(3, 0);
    for (int round = 0; round < 2; round++) {
        for (int v = 0; v < 5; v++)
            TEST_ASSERT_EQUAL_STRING("0 stale,1 stale,2 stale",
                                     say(a, verbs[v][0], 0, 3, verbs[v][1]));
        if (round == 0) /* each alone: suspects */
            for (int i = 0; i < 3; i++) TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 3, later + i));
    }
    for (int i = 0; i < 3; i++)
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", later + i, ""));
    TEST_ASSERT_EQUAL_STRING("0 gone,1 gone,2 gone", say(a, "complete", 0, 3, ""));
}

/* A reaper that has seen others looks only from the first pack there was; all that comes later lies
 * behind it, and all that commits late is found within a second. */
void test_a_pack_whose_claim_commits_late_is_reaped(void)
{
    fill(4);
    kit_do(a, "BEGIN");
    TEST_ASSERT_EQUAL_INT(2, kit_claim(a, "q", 2, jobs));
    TEST_ASSERT_EQUAL_INT(2, kit_claim(b, "q", 2, jobs + 2));
    kit_expire(b, "q");
    TEST_ASSERT_EQUAL_INT64(2, kit_number(watch, "SELECT returned FROM pgwork.reap()"));
    kit_do(a, "COMMIT");
    kit_expire(b, "q");
    for (long long end = kit_ms() + 15000;
         kit_ms() < end && kit_number(watch, "SELECT returned FROM pgwork.reap()") == 0;)
        kit_sleep_ms(20);
    TEST_ASSERT_EQUAL_STRING("4 0 0 0 0", kit_places(b, "q"));
}

/* -- cancel --------------------------------------------------------------------------------------
 */

static const char *cancel(PGconn *conn, int i)
{
    return kit_text(conn, "SELECT status FROM pgwork.cancel('q', '{%lld}')", jobs[i].id);
}

void test_a_cancel_is_heard_by_the_holder_of_the_pack_for_that_job_only(void)
{
    kit_do(a, "SELECT pgwork.queue_set('q', retention_ms => 3600000)");
    take(7);
    for (int i = 1; i < 6; i++) TEST_ASSERT_EQUAL_STRING("requested", cancel(b, i));
    TEST_ASSERT_EQUAL_STRING("requested", cancel(b, 1));
    TEST_ASSERT_EQUAL_STRING("0 ok,1 cancel,2 cancel,3 cancel,4 cancel,5 cancel,6 ok",
                             say(a, "extend", 0, 7, ""));
    TEST_ASSERT_EQUAL_STRING("0 ok,1 cancel", say(a, "extend", 0, 2, "")); /* some */
    TEST_ASSERT_EQUAL_STRING("", say(a, "complete", 0, 2, ""));
    TEST_ASSERT_EQUAL_STRING("", say(a, "release", 2, 1, ""));
    TEST_ASSERT_EQUAL_STRING("", say(a, "fail", 3, 1, ", 'boom', 0"));
    TEST_ASSERT_EQUAL_STRING("", say(a, "snooze", 4, 1, ", 60000"));
    kit_expire(a, "q");
    reap(2, 0);
    TEST_ASSERT_EQUAL_STRING(
        "done 1, done 1, cancelled 0, cancelled 1, cancelled 0, cancelled 1, ready 1", states());
    check_no_packs();
}

/* Else it would be retried, and nobody would ever hear of the request. */
void test_a_cancel_is_not_lost_on_a_job_that_is_just_leaving(void)
{
    static const char *const ends[][3] = {{"fail", ", 'boom', 60000", "cancelled"},
                                          {"snooze", ", 60000", "cancelled"},
                                          {"release", "", "cancelled"},
                                          {"fail", ", 'boom', 0, true", "gone"},
                                          {"complete", "", "gone"}};

    for (int i = 0; i < 5; i++) {
        take(3);
        kit_do(a, "BEGIN");
        TEST_ASSERT_EQUAL_STRING("", say(a, ends[i][0], 0, 1, ends[i][1]));
        kit_send(b, "SELECT status FROM pgwork.cancel('q', '{%lld}')", jobs[0].id);
        kit_blocked(b, watch);
        kit_do(a, "COMMIT");
        TEST_ASSERT_EQUAL_STRING(ends[i][2], kit_answer(b));
        kit_do(a, "SELECT pgwork.queue_drop('q', true), pgwork.queue_create('q')");
    }
}

void test_a_job_does_not_slip_away_from_an_open_cancel(void)
{
    take(3);
    kit_do(b, "BEGIN");
    TEST_ASSERT_EQUAL_STRING("requested", cancel(b, 0));
    kit_send(a, "SELECT string_agg(status, ',') FROM %s", call("fail", 0, 2, ", 'boom', 60000"));
    kit_blocked(a, watch);
    kit_do(b, "COMMIT");
    TEST_ASSERT_NULL(kit_answer(a));
    TEST_ASSERT_EQUAL_STRING("delayed 1, leased 1", states());
}

/* -- beside everything else ----------------------------------------------------------------------
 */

void test_a_retention_keeps_packed_jobs_with_their_outputs(void)
{
    kit_do(a, "SELECT pgwork.queue_set('q', retention_ms => 3600000)");
    kit_do(a, "SELECT pgwork.enqueue('q', to_jsonb(g), 'k' || g, tags => ARRAY['t' || g])"
              " FROM generate_series(1, 4) g");
    TEST_ASSERT_EQUAL_INT(4, kit_claim(a, "q", 4, jobs));
    TEST_ASSERT_EQUAL_STRING("", say(a, "complete", 0, 3, ", '{\"10\",null,\"{}\"}'"));
    TEST_ASSERT_EQUAL_STRING("", say(a, "complete", 3, 1, ""));
    TEST_ASSERT_EQUAL_STRING(
        "done k1 1 {t1} 10 1, done k2 2 {t2} 1, done k3 3 {t3} {} 1, done k4 4 {t4} 1",
        kit_text(a, "SELECT string_agg(concat_ws(' ', state, kind, payload, tags, output, attempt),"
                    " ', ' ORDER BY id) FROM pgwork.job"));
    TEST_ASSERT_EQUAL_STRING("0 0 0 0 4", kit_places(a, "q"));
    TEST_ASSERT_EQUAL_INT64(4, kit_number(a, "SELECT count(holder) FROM pgwork.done_job"));
    check_no_packs();
}

void test_depth_counts_packed_jobs_exactly_and_up_to_a_limit(void)
{
    static const struct {
        int most;
        const char *says;
    } depths[] = {{1, "0 1"}, {6, "0 6"},  {7, "0 7"}, {8, "0 8"},
                  {9, "1 8"}, {10, "2 8"}, {50, "4 8"}};

    fill(15);
    TEST_ASSERT_EQUAL_INT(4, kit_claim(a, "q", 4, jobs));
    TEST_ASSERT_EQUAL_INT(6, kit_claim(a, "q", 6, jobs + 4));
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, jobs + 10));
    TEST_ASSERT_EQUAL_STRING("", say(a, "complete", 1, 2, ""));
    TEST_ASSERT_EQUAL_STRING("", say(a, "complete", 5, 1, ""));
    TEST_ASSERT_EQUAL_STRING("4 8 0 0 0", kit_places(a, "q"));
    TEST_ASSERT_EQUAL_STRING("4 8", kit_text(a, "SELECT ready || ' ' || leased FROM"
                                                " pgwork.queue_stats"));
    TEST_ASSERT_EQUAL_STRING(
        "leased 8, ready 4",
        kit_text(a, "SELECT string_agg(state || ' ' || n, ', ' ORDER BY state) FROM (SELECT state,"
                    " count(*) AS n FROM pgwork.job GROUP BY 1) s"));
    for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++)
        TEST_ASSERT_EQUAL_STRING(depths[i].says, kit_text(a,
                                                          "SELECT ready || ' ' || leased FROM"
                                                          " pgwork.depth('q', %d)",
                                                          depths[i].most));
}

void test_a_purge_leaves_packed_jobs_alone(void)
{
    take(3);
    fill(2);
    TEST_ASSERT_EQUAL_INT64(2, kit_number(b, "SELECT pgwork.queue_purge('q', 'all')"));
    TEST_ASSERT_EQUAL_STRING("", say(a, "complete", 0, 3, ""));
}

void test_a_queue_with_packed_jobs_is_dropped_only_by_force(void)
{
    take(3);
    TEST_ASSERT_EQUAL_STRING("", say(a, "complete", 0, 1, ""));
    kit_refused(b, "PW006", "still has jobs", "SELECT pgwork.queue_drop('q')");
    kit_do(b, "SELECT pgwork.queue_drop('q', true)");
    check_no_packs();
    kit_refused(a, "PW003", "no queue", "SELECT pgwork.complete('q', '{%lld}', '{%s}')", jobs[1].id,
                jobs[1].token);
}

void test_prune_takes_the_packs_of_a_dropped_queue(void)
{
    fill(4);
    kit_do(a, "BEGIN");
    TEST_ASSERT_EQUAL_INT(3, kit_claim(a, "q", 3, jobs));
    TEST_ASSERT_EQUAL_STRING("", say(a, "complete", 0, 1, ""));
    kit_send(b, "SELECT pgwork.queue_drop('q', true)"); /* waits for the rows that were packed */
    kit_blocked(b, watch);
    kit_do(a, "COMMIT");
    kit_answer(b);
    kit_do(b, "SELECT pgwork.prune()");
    TEST_ASSERT_EQUAL_INT64(0, rows_of("live_job"));
    check_no_packs();
}

void test_packed_jobs_of_a_claim_rolled_back_are_ready(void)
{
    fill(5);
    kit_do(a, "BEGIN");
    TEST_ASSERT_EQUAL_INT(3, kit_claim(a, "q", 3, jobs));
    TEST_ASSERT_EQUAL_INT(2, kit_claim(b, "q", 5, jobs + 3)); /* skips, does not wait */
    kit_do(a, "ROLLBACK");
    TEST_ASSERT_EQUAL_STRING("0 stale,1 stale,2 stale", say(a, "complete", 0, 3, ""));
    TEST_ASSERT_EQUAL_STRING("ready 0, ready 0, ready 0, leased 1, leased 1", states());
    check_no_packs_but(1);
}

void test_a_claim_and_its_finish_in_one_transaction(void)
{
    fill(3);
    kit_do(a, "BEGIN");
    TEST_ASSERT_EQUAL_INT(3, kit_claim(a, "q", 3, jobs));
    TEST_ASSERT_EQUAL_STRING("", say(a, "complete", 0, 1, ""));
    TEST_ASSERT_EQUAL_STRING("1 ok,2 ok", say(a, "extend", 1, 2, ""));
    TEST_ASSERT_EQUAL_STRING("", say(a, "release", 1, 2, ""));
    kit_do(a, "COMMIT");
    TEST_ASSERT_EQUAL_STRING("ready 0, ready 0", states());
    check_no_packs();
}

void test_a_claim_completes_the_pack_before_it(void)
{
    fill(6);
    TEST_ASSERT_EQUAL_INT(3, kit_claim(a, "q", 3, jobs));
    TEST_ASSERT_EQUAL_STRING("", say(a, "release", 1, 1, ""));
    TEST_ASSERT_EQUAL_STRING(
        "0 1 stale, 1 1 new, 1 3 new, 1 4 new",
        kit_text(a,
                 "SELECT string_agg(concat_ws(' ', attempt, id - %lld, CASE WHEN attempt > 0"
                 " THEN 'new' ELSE kind END), ', ') FROM pgwork.claim('{q}', 3, 'w', NULL,"
                 " '{%lld,%lld,%lld}', array_fill('%s'::uuid, ARRAY[3]))",
                 jobs[0].id, jobs[0].id, jobs[1].id, jobs[2].id, jobs[0].token));
    TEST_ASSERT_EQUAL_STRING("1 3 0 0 0", kit_places(a, "q"));
}

/* -- other isolation levels ----------------------------------------------------------------------
 */

static const char *const levels[] = {"REPEATABLE READ", "SERIALIZABLE"};

void test_under_other_isolation_levels_a_pack_is_worked_as_ever(void)
{
    for (int l = 0; l < 2; l++) {
        kit_do(a, "SET default_transaction_isolation = '%s'", levels[l]);
        take(6);
        TEST_ASSERT_EQUAL_STRING("", say(a, "complete", 0, 1, ""));
        TEST_ASSERT_EQUAL_STRING("", say(a, "release", 1, 1, ""));
        TEST_ASSERT_EQUAL_STRING("0 gone,1 stale,2 ok", say(a, "extend", 0, 3, ""));
        TEST_ASSERT_EQUAL_STRING("0 gone,1 stale", say(a, "complete", 0, 6, ""));
        check_no_packs();
        TEST_ASSERT_EQUAL_STRING("ready 0", states());
        TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT pgwork.queue_purge('q')"));
        take(3);
        TEST_ASSERT_EQUAL_STRING("", say(a, "complete", 0, 3, ""));
        check_no_packs();
    }
}

/* Whatever others did to the pack since the snapshot: 40001, and never a second verdict. */
void test_a_stale_snapshot_finishes_no_packed_job_twice(void)
{
    static const char *const verbs[][2] = {
        {"complete", ""}, {"fail", ", 'boom', 0"}, {"release", ""}};

    for (int l = 0; l < 2; l++)
        for (int v = 0; v < 3; v++)
            for (int how = 0; how < 4; how++) {
                take(3);
                kit_do(a, "BEGIN ISOLATION LEVEL %s", levels[l]);
                kit_do(a, "SELECT count(*) FROM pgwork.queue"); /* sees the pack for good */
                if (how == 0) TEST_ASSERT_EQUAL_STRING("", say(b, "complete", 0, 1, ""));
                if (how == 1) TEST_ASSERT_EQUAL_STRING("", say(b, "complete", 0, 3, ""));
                if (how == 2) TEST_ASSERT_EQUAL_STRING("", say(b, "release", 0, 1, ""));
                if (how == 3) {
                    kit_expire(b, "q");
                    reap(3, 0);
                }
                TEST_ASSERT_EQUAL_STRING(
                    "40001", kit_state(a, "SELECT %s", call(verbs[v][0], 0, 2, verbs[v][1])));
                kit_do(a, "ROLLBACK");
                kit_do(a, "SELECT pgwork.queue_drop('q', true), pgwork.queue_create('q')");
            }
}

/* -- races ---------------------------------------------------------------------------------------
 */

enum { ROUNDS = 60, PACK = 12, RACERS = 4 };

struct race {
    struct took jobs[ROUNDS][PACK];
    int accepted[ROUNDS][PACK][RACERS];
    const char *level;
};

/* All finish parts of one pack, each another way, and overlapping: the first racer all of it. */
static void finish_parts(PGconn *conn, int i, void *ctx)
{
    static const char *const verbs[RACERS] = {"complete('q', %s)", "fail('q', %s, 'boom', 3600000)",
                                              "release('q', %s)", "snooze('q', %s, 3600000)"};
    struct race *r = ctx;

    kit_do(conn, "SET default_transaction_isolation = '%s'", r->level);
    for (int round = 0; round < ROUNDS; round++) {
        struct took *job = r->jobs[round];
        int first = i == 0 ? 0 : (i * 3 + round) % PACK, n = i == 0 ? PACK : 5;
        char refs[1000], sql[1200];
        size_t length;

        if (i == 0) {
            kit_do(conn, "SELECT pgwork.queue_purge('q', 'all')");
            kit_do(conn,
                   "SELECT count(*) FROM pgwork.enqueue_many('q', array_fill('1'::jsonb,"
                   " ARRAY[%d]))",
                   PACK);
            kit_claim(conn, "q", PACK, job);
        }
        kit_together();
        length = (size_t)snprintf(refs, sizeof(refs), "'{");
        for (int k = 0; k < n; k++)
            length += (size_t)snprintf(refs + length, sizeof(refs) - length, "%s%lld", k ? "," : "",
                                       job[(first + k) % PACK].id);
        snprintf(refs + length, sizeof(refs) - length, "}', array_fill('%s'::uuid, ARRAY[%d])",
                 job[0].token, n);
        snprintf(sql, sizeof(sql), verbs[i], refs);
        for (;;) { /* 40001: again */
            PGresult *res;
            const char *state =
                kit_state(conn,
                          "CREATE TEMP TABLE IF NOT EXISTS said (id bigint, status text);"
                          "TRUNCATE said; INSERT INTO said SELECT * FROM pgwork.%s",
                          sql);

            if (strcmp(state, "40001") == 0) continue;
            res = kit_rows(conn, "SELECT id FROM said");
            for (int k = 0; k < n; k++) {
                int at = (first + k) % PACK, refused = 0;

                for (int row = 0; row < PQntuples(res); row++)
                    refused |= strtoll(PQgetvalue(res, row, 0), NULL, 10) == job[at].id;
                r->accepted[round][at][i] = !refused && !*state;
            }
            PQclear(res);
            break;
        }
        kit_together();
    }
}

void test_racing_finishes_of_a_pack_come_to_one_verdict_for_each_job(void)
{
    static const char *const all[] = {"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"};
    static struct race r;

    for (int l = 0; l < 3; l++) {
        memset(&r, 0, sizeof(r));
        r.level = all[l];
        kit_race(RACERS, finish_parts, &r);
        for (int round = 0; round < ROUNDS; round++)
            for (int k = 0; k < PACK; k++) {
                int sum = 0;

                for (int i = 0; i < RACERS; i++) sum += r.accepted[round][k][i];
                TEST_ASSERT_EQUAL_INT(1, sum);
            }
        for (int k = 0; k < PACK; k++) { /* and it is where the accepted one has put it */
            static const char *const states_of[RACERS] = {"", "delayed 1", "ready 0", "delayed 0"};
            const char *is = kit_text(
                a,
                "SELECT string_agg(state || ' ' || attempt, ',') FROM pgwork.job WHERE id = %lld",
                r.jobs[ROUNDS - 1][k].id);

            for (int i = 0; i < RACERS; i++)
                if (r.accepted[ROUNDS - 1][k][i])
                    TEST_ASSERT_EQUAL_STRING(states_of[i], is ? is : "");
        }
        kit_expire(a, "q");
        kit_do(a, "SELECT pgwork.reap('q')");
        check_no_packs();
    }
}
