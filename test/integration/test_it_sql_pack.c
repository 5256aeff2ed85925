/* Packs: jobs that were claimed together share a row and a token, and yet each is finished and
 * failed for itself. Their leases: test_it_sql_pack_lease. */
#include "unity.h"
#include "pgtemp.h"
#include "sqlkit.h"
#include "packkit.h"

#include <stdlib.h>
#include <string.h>

void setUp(void)
{
    pack_begin();
}

void tearDown(void)
{
    kit_end();
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

/* Where the server can: else they stay as they are. */
void test_a_pack_of_jobs_that_are_alike_is_compressed(void)
{
    const char *lz4 = kit_text(a, "SELECT CASE WHEN 'lz4' = ANY (enumvals) THEN 'lz4' ELSE 'no' END"
                                  " FROM pg_settings WHERE name = 'default_toast_compression'");

    kit_do(a, "SELECT pgwork.enqueue_many('q', array_fill('{\"a\": \"same\"}'::jsonb, '{500}'))");
    kit_do(a, "SELECT pgwork.claim('{q}', 500, 'me')");
    TEST_ASSERT_EQUAL_STRING(lz4,
                             kit_text(a, "SELECT coalesce(pg_column_compression(payloads), 'no')"
                                         " FROM pgwork.pack"));
    TEST_ASSERT_EQUAL_INT64(500, kit_number(a, "SELECT cardinality(payloads) FROM pgwork.pack"));
}

void test_a_job_claimed_alone_stays_in_its_row(void)
{
    fill(1);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, jobs));
    TEST_ASSERT_EQUAL_INT64(0, rows_of("pack"));
    TEST_ASSERT_EQUAL_INT64(1, rows_of("live_job"));
}

/* One odd job, and all stay in their rows; they come in order, and never more than n. */
void test_a_claim_with_an_odd_job_makes_no_pack(void)
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
        "0 row 2 10 00:00:30, 1 row 1 10 00:00:30, 2 row 1 10 00:02:00, 3 row 1 3 00:00:30,"
        " 4 row 1 10 00:00:30, 5 row 1 10 00:00:30, 6 row 1 10 00:00:30",
        kit_text(b, "SELECT string_agg(concat_ws(' ', payload, CASE pgwork.token_number(token) & 31"
                    " WHEN 31 THEN 'packed' ELSE 'row' END, attempt, max_attempts, lease_until -"
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
    TEST_ASSERT_EQUAL_INT64(6, kit_number(a, "SELECT count(DISTINCT token) FROM held"));
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
    /* small as it lies, and large in a pack */
    kit_do(a, "SELECT pgwork.enqueue('q', to_jsonb(repeat('y', 50000)))");
    TEST_ASSERT_EQUAL_INT(2, kit_claim(a, "q", 2, jobs));
    TEST_ASSERT_EQUAL_INT64(4, rows_of("live_job"));
    TEST_ASSERT_EQUAL_INT(2, kit_claim(a, "q", 2, jobs + 2));
    TEST_ASSERT_EQUAL_INT64(4, rows_of("live_job"));
    for (int i = 0; i < 4; i++)
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

/* Of jobs that share a token, the row is one; whoever has a body or tags has one of its own. */
void test_a_batch_has_a_row_for_each_token(void)
{
    static const char rows[] =
        "SELECT string_agg(concat_ws(' ', coalesce(cardinality(ids), -1), priorities, kinds,"
        " payloads, cardinality(created), id > 0, priority, kind, payload, body, tags,"
        " created_at IS NULL, attempt, max_attempts), '; ' ORDER BY ids[1], id)"
        " FROM pgwork.claim_batch('{q}', 3, 'w')";

    kit_do(a, "SELECT pgwork.enqueue('q', '1', 'mail', priority => 2), pgwork.enqueue('q'),"
              " pgwork.enqueue('q', '{\"a\": [1]}', '', priority => 9)");
    TEST_ASSERT_EQUAL_STRING("3 {0,2,9} {\"\",mail,\"\"} {NULL,1,\"{\\\"a\\\": [1]}\"} 3 t 1 10",
                             kit_text(a, rows));
    TEST_ASSERT_EQUAL_INT64(
        0, kit_number(a, "SELECT count(*) FROM pgwork.pack p, pgwork.complete('q', p.ids,"
                         " ARRAY[p.token])"));
    check_no_packs();
    kit_do(a,
           "SELECT pgwork.enqueue('q', '1', body => 'x'), pgwork.enqueue('q', '2', tags => '{y}')");
    TEST_ASSERT_EQUAL_STRING("-1 t 0  1 \\x78 f 1 10; -1 t 0  2 {y} f 1 10", kit_text(a, rows));
    TEST_ASSERT_EQUAL_INT64(1, rows_of("pack"));
    TEST_ASSERT_NULL(
        kit_text(a, "SELECT f FROM pgwork.pack p, pgwork.release('q', p.ids, ARRAY[p.token]) f"));
    TEST_ASSERT_EQUAL_STRING("2 0 0 0 0", kit_places(a, "q"));
}

/* One token for all of a pack's jobs, or for some of them, in each verb. */
void test_one_token_stands_for_all(void)
{
    static const char *const verbs[][2] = {{"complete", ""},      {"fail", ", 'boom', 0"},
                                           {"release", ""},       {"snooze", ", 60000"},
                                           {"extend", ", 60000"}, {"complete", ", '{1,2}'"}};

    for (int i = 0; i < 6; i++) {
        const bool extends = strcmp(verbs[i][0], "extend") == 0;
        const char *said;

        if (i == 5) kit_do(a, "SELECT pgwork.queue_set('q', retention_ms => 60000)");
        take(4);
        said = kit_text(
            a, "SELECT string_agg(status, ',') FROM pgwork.%s('q', '{%lld,%lld}', '{%s}'%s)",
            verbs[i][0], jobs[1].id, jobs[2].id, jobs[0].token, verbs[i][1]);
        if (extends)
            TEST_ASSERT_EQUAL_STRING("ok,ok", said);
        else
            TEST_ASSERT_NULL(said);
        TEST_ASSERT_EQUAL_STRING(
            extends ? "" : "stale,stale",
            kit_text(
                a,
                "SELECT coalesce(string_agg(CASE status WHEN 'gone' THEN 'stale' ELSE status END,"
                " ','), '') FROM pgwork.complete('q', '{%lld,%lld}', '{%s}')",
                jobs[1].id, jobs[2].id, jobs[0].token));
        kit_do(a, "SELECT pgwork.complete('q', '{%lld,%lld}', '{%s}')", jobs[3].id, jobs[0].id,
               jobs[0].token);
        check_no_packs();
        kit_do(a, "SELECT pgwork.queue_purge('q', 'all')");
    }
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

void test_a_pack_finished_in_another_order_goes_as_a_whole_but_for_who_had_left(void)
{
    for (int left = 0; left < 2; left++) {
        take(3);
        if (left) TEST_ASSERT_EQUAL_STRING("", say(b, "complete", 1, 1, ""));
        TEST_ASSERT_EQUAL_STRING(
            left ? "1 gone" : "",
            kit_text(a,
                     "SELECT coalesce(string_agg((id - %lld) || ' ' || status, ','), '') FROM "
                     "pgwork.complete('q', '{%lld,%lld,%lld}', '{%s}')",
                     jobs[0].id, jobs[2].id, jobs[0].id, jobs[1].id, jobs[0].token));
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
    TEST_ASSERT_EQUAL_INT(2, kit_claim(a, "q", 2, jobs));
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, jobs + 2));
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

/* Of one a part, of the next all: by their numbers, whatever is done with each. */
void test_packs_are_locked_in_one_order_whether_a_part_is_finished_or_all(void)
{
    fill(4);
    TEST_ASSERT_EQUAL_INT(2, kit_claim(a, "q", 2, jobs));
    TEST_ASSERT_EQUAL_INT(2, kit_claim(a, "q", 2, jobs + 2));
    hasty(b);
    kit_do(b, "BEGIN");
    kit_do(b, "SELECT pgwork.cancel('q', '{%lld}')", jobs[0].id);
    kit_send(a, "SELECT count(*) FROM pgwork.complete('q', '{%lld,%lld,%lld}', '{%s,%s,%s}')",
             jobs[1].id, jobs[2].id, jobs[3].id, jobs[1].token, jobs[2].token, jobs[3].token);
    kit_blocked(a, watch);
    TEST_ASSERT_EQUAL_STRING(
        "requested", kit_text(b, "SELECT status FROM pgwork.cancel('q', '{%lld}')", jobs[2].id));
    kit_do(b, "COMMIT");
    TEST_ASSERT_EQUAL_STRING("0", kit_answer(a));
    TEST_ASSERT_EQUAL_STRING("leased 1", states());
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

/* Completes jobs[0] .. jobs[n - 1], each under its own token: what say() says. */
static const char *each(int n)
{
    static char sql[2000];
    char ids[400] = "", tokens[1000] = "";

    for (int i = 0; i < n; i++) {
        snprintf(ids + strlen(ids), sizeof(ids) - strlen(ids), "%s%lld", i > 0 ? "," : "",
                 jobs[i].id);
        snprintf(tokens + strlen(tokens), sizeof(tokens) - strlen(tokens), "%s%s", i > 0 ? "," : "",
                 jobs[i].token);
    }
    snprintf(sql, sizeof(sql),
             "SELECT coalesce(string_agg((id - %lld) || ' ' || status, ',' ORDER BY id), '')"
             " FROM pgwork.complete('q', '{%s}', '{%s}')",
             jobs[0].id, ids, tokens);
    return sql;
}

/* Three of three jobs each: jobs[0] .. jobs[8]. */
static void take_three(void)
{
    fill(9);
    for (int i = 0; i < 9; i += 3) TEST_ASSERT_EQUAL_INT(3, kit_claim(a, "q", 3, jobs + i));
    TEST_ASSERT_EQUAL_INT64(3, rows_of("pack"));
}

/* As they were claimed: not pack by pack, and in no other way. */
void test_whole_packs_are_finished_together(void)
{
    take_three();
    kit_do(a, "SET track_functions = 'pl'");
    kit_do(a, "BEGIN");
    TEST_ASSERT_EQUAL_STRING("", kit_text(a, "%s", each(9)));
    TEST_ASSERT_EQUAL_STRING(
        "1 0 0", kit_text(a, "SELECT concat_ws(' ',"
                             " pg_stat_get_xact_function_calls('pgwork._finish_packs'::regproc),"
                             " coalesce(pg_stat_get_xact_function_calls('pgwork._finish_pack'"
                             "::regproc), 0), coalesce(pg_stat_get_xact_function_calls("
                             "'pgwork._leave'::regproc), 0))"));
    kit_do(a, "COMMIT");
    check_no_packs();
    TEST_ASSERT_EQUAL_STRING("0 gone,1 gone,2 gone,3 gone,4 gone,5 gone,6 gone,7 gone,8 gone",
                             kit_text(a, "%s", each(9)));
    take_three();
    kit_do(a, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    TEST_ASSERT_EQUAL_STRING("", kit_text(a, "%s", each(9)));
    kit_do(a, "COMMIT");
    TEST_ASSERT_EQUAL_STRING("0 0 0 0 0", kit_places(a, "q"));
}

void test_of_whole_packs_those_are_refused_that_had_left(void)
{
    take_three();
    TEST_ASSERT_EQUAL_STRING("", say(b, "complete", 4, 1, ""));
    TEST_ASSERT_EQUAL_STRING("", say(b, "fail", 8, 1, ", 'boom'"));
    TEST_ASSERT_EQUAL_STRING("4 gone,8 stale", kit_text(a, "%s", each(9)));
    check_no_packs();
    TEST_ASSERT_EQUAL_STRING("0 0 1 0 0", kit_places(a, "q"));
}

/* One alone, or all of the second pack, in a transaction that ends so or so. */
TEST_CASE(1, "COMMIT", "3 gone")
TEST_CASE(1, "ROLLBACK", "")
TEST_CASE(3, "COMMIT", "3 gone,4 gone,5 gone")
TEST_CASE(3, "ROLLBACK", "")
void test_who_finishes_whole_packs_waits_for_who_is_at_one_of_them(int n, const char *end,
                                                                   const char *says)
{
    take_three();
    kit_do(b, "BEGIN");
    TEST_ASSERT_EQUAL_STRING("", say(b, "complete", 3, n, ""));
    kit_send(a, "%s", each(9));
    kit_blocked(a, watch);
    kit_do(b, "%s", end);
    TEST_ASSERT_EQUAL_STRING(says, kit_answer(a));
    check_no_packs();
    TEST_ASSERT_EQUAL_STRING("0 0 0 0 0", kit_places(a, "q"));
}

/* A token in the midst of them that is another's, or a pack that was taken back: the rest is done.
 */
void test_a_stale_pack_among_whole_ones_is_refused_alone(void)
{
    struct took ours[9];

    take_three();
    memcpy(ours, jobs, sizeof(ours));
    kit_do(watch, "UPDATE pgwork.pack SET lease_until = now() - interval '1 s' WHERE token = '%s'",
           jobs[3].token);
    reap(3, 0);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 1, jobs));
    memcpy(jobs, ours, sizeof(ours));
    TEST_ASSERT_EQUAL_STRING("3 stale,4 stale,5 stale", kit_text(a, "%s", each(9)));
    check_no_packs();
    TEST_ASSERT_EQUAL_STRING("2 1 0 0 0", kit_places(a, "q"));
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

/* -- a job in two packs --------------------------------------------------------------------------
 *
 * Handed back, and packed again with others: the first pack's row still names it. */

static struct took again[40];

/* jobs[4] left its pack, and is again[0] of another; the token of that one. */
static void pack_it_again(void)
{
    take(40);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "release", &jobs[4], ""));
    fill(39);
    TEST_ASSERT_EQUAL_INT(40, kit_claim(b, "q", 40, again));
    TEST_ASSERT_EQUAL_INT64(jobs[4].id, again[0].id);
    TEST_ASSERT_EQUAL_INT64(2, rows_of("pack"));
}

static const char *twice(void)
{
    return kit_text(watch, "SELECT coalesce(string_agg(id::text, ','), '') FROM (SELECT id FROM "
                           "pgwork.job WHERE queue = 'q' GROUP BY id HAVING count(*) > 1) t");
}

TEST_CASE("release", "")
TEST_CASE("snooze", ", 60000")
TEST_CASE("fail", ", 'boom', 60000")
void test_a_job_of_two_packs_goes_back_once(const char *verb, const char *more)
{
    pack_it_again();
    TEST_ASSERT_EQUAL_INT64(
        0, kit_number(a, "SELECT count(*) FROM pgwork.%s('q', '{%lld,%lld}', '{%s,%s}'%s)", verb,
                      again[0].id, jobs[6].id, again[0].token, jobs[6].token, more));
    TEST_ASSERT_EQUAL_STRING("", twice());
    TEST_ASSERT_EQUAL_STRING("stale", kit_say(a, "complete", &jobs[4], ""));
}

void test_a_job_of_two_packs_is_taken_back_once(void)
{
    pack_it_again();
    kit_expire(a, "q");
    TEST_ASSERT_EQUAL_INT64(79, kit_number(a, "SELECT returned FROM pgwork.reap('q')"));
    TEST_ASSERT_EQUAL_STRING("", twice());
    TEST_ASSERT_EQUAL_INT64(79, kit_number(a, "SELECT ready FROM pgwork.depth('q')"));
}

/* Both packs are finished at once, also by who was in the first one all the time. */
void test_a_job_of_two_packs_is_finished_by_its_own(void)
{
    char ids[2000] = "", tokens[8000] = "";

    pack_it_again();
    for (int i = 0; i < 80; i++) {
        const struct took *job = i < 40 ? &jobs[i] : &again[i - 40];

        snprintf(ids + strlen(ids), sizeof(ids) - strlen(ids), "%s%lld", i > 0 ? "," : "", job->id);
        snprintf(tokens + strlen(tokens), sizeof(tokens) - strlen(tokens), "%s%s", i > 0 ? "," : "",
                 job->token);
    }
    TEST_ASSERT_EQUAL_INT64(
        0, kit_number(a, "SELECT count(*) FROM pgwork.complete('q', '{%s}', '{%s}')", ids, tokens));
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT count(*) FROM pgwork.job WHERE queue = 'q'"));
}
