/* Bundles: plain jobs that are enqueued together share a row, in queues with `bulk`. Seen from
 * outside nothing differs, but for how many a claim brings. */
#include "unity.h"
#include "pgtemp.h"
#include "sqlkit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static PGconn *a, *b;
static struct took jobs[1000];

void setUp(void)
{
    kit_begin();
    a = kit_open();
    b = kit_open();
    kit_do(a, "SELECT pgwork.queue_create('q', bulk => true)");
}

void tearDown(void)
{
    kit_end();
}

/* n jobs, numbered from `from` on, of a priority; the first one's id. */
static long long fill(PGconn *conn, int from, int n, int priority)
{
    return kit_number(conn,
                      "SELECT min(id) FROM pgwork.enqueue_many('q', ARRAY(SELECT to_jsonb(g) FROM"
                      " generate_series(%d, %d) g), kinds => '{k}', priorities => '{%d}')",
                      from, from + n - 1, priority);
}

/* Rows that hold ready jobs: bundles, and others. */
static const char *rows(void)
{
    return kit_text(a, "SELECT count(jobs) || ' ' || count(*) - count(jobs) FROM pgwork.live_job"
                       " WHERE token IS NULL");
}

/* What a claim of n brings: how many, and the numbers of the first and the last. */
static const char *claim(PGconn *conn, int n)
{
    return kit_text(conn,
                    "SELECT concat_ws(' ', count(*), min(payload::int), max(payload::int)) FROM"
                    " (SELECT payload FROM pgwork.claim('{q}', %d, 'w') OFFSET 0) c",
                    n);
}

/* By so many, until none is left: what somebody gave back may come late. How many that were. */
static int claim_rest(PGconn *conn, int n)
{
    const long long end = kit_ms() + 30000;
    int sum = 0;

    while (kit_number(conn, "SELECT ready FROM pgwork.depth('q')") > 0 && kit_ms() < end)
        sum += (int)kit_number(conn, "SELECT count(*) FROM pgwork.claim('{q}', %d, 'w')", n);
    return sum;
}

void test_plain_jobs_enqueued_together_share_rows(void)
{
    fill(a, 1, 250, 0);
    TEST_ASSERT_EQUAL_STRING("3 0", rows());
    TEST_ASSERT_EQUAL_STRING("250 0 0 0 0", kit_places(a, "q"));
    TEST_ASSERT_EQUAL_INT64(120, kit_number(a, "SELECT ready FROM pgwork.depth('q', 120)"));
    TEST_ASSERT_EQUAL_STRING(
        "250 250 1 250 ready k",
        kit_text(a, "SELECT concat_ws(' ', count(*), count(DISTINCT id), min(payload::int),"
                    " max(payload::int), min(state), min(kind)) FROM pgwork.job"));
    TEST_ASSERT_EQUAL_STRING("100 1 100", claim(a, 100));
    TEST_ASSERT_EQUAL_STRING("150 101 250", claim(a, 1000));
    TEST_ASSERT_EQUAL_STRING("0", claim(a, 1000));
    TEST_ASSERT_EQUAL_STRING("0 250 0 0 0", kit_places(a, "q"));
}

void test_others_keep_rows_of_their_own(void)
{
    static const char *const more[] = {"bodies => '{x}'", "tags => '{\"{t}\"}'",
                                       "delays_ms => '{1}'", "max_attempts => '{3}'",
                                       "leases_ms => '{500}'"};
    int others = 32;

    fill(a, 1, 32, 0); /* few */
    TEST_ASSERT_EQUAL_STRING("0 32", rows());
    for (int i = 0; i < 5; i++) {
        kit_do(a, "SELECT pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[50]), %s)",
               more[i]);
        kit_due(a, "q");
        while (kit_number(a, "SELECT promoted FROM pgwork.promote()") > 0) continue;
        others += 50;
    }
    kit_do(a, "SELECT pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[50]), keys =>"
              " ARRAY(SELECT g::text FROM generate_series(1, 50) g))");
    kit_do(a,
           "SELECT pgwork.enqueue_many('q', array_fill(to_jsonb(repeat('x', 3000)), ARRAY[50]))");
    kit_do(a, "SELECT pgwork.queue_create('plain'), pgwork.enqueue_many('plain',"
              " array_fill('1'::jsonb, ARRAY[50]))");
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT count(jobs) FROM pgwork.live_job"));
    TEST_ASSERT_EQUAL_INT64(others + 150, kit_number(a, "SELECT count(*) FROM pgwork.live_job"));
}

void test_priority_goes_first_then_age_also_among_rows_of_both_kinds(void)
{
    fill(a, 1, 50, 3);
    fill(a, 51, 1, 3);
    fill(a, 52, 50, 3);
    fill(a, 102, 50, 1);
    TEST_ASSERT_EQUAL_STRING("50 102 151", claim(a, 50));
    TEST_ASSERT_EQUAL_STRING("51 1 51",
                             claim(a, 60)); /* half a bundle more is not worth opening it */
    fill(a, 152, 1, 0);
    TEST_ASSERT_EQUAL_STRING("51 52 152", claim(a, 200));
}

void test_a_claim_of_several_priorities_in_one_call(void)
{
    kit_do(a, "SELECT pgwork.enqueue_many('q', ARRAY(SELECT to_jsonb(g) FROM generate_series(1, 80)"
              " g), priorities => ARRAY(SELECT g %% 2 FROM generate_series(1, 80) g))");
    TEST_ASSERT_EQUAL_STRING("2 0", rows());
    TEST_ASSERT_EQUAL_STRING(
        "40 2 80 0",
        kit_text(a, "SELECT concat_ws(' ', count(*), min(payload::int),"
                    " max(payload::int), max(priority)) FROM pgwork.claim('{q}', 40, 'w')"));
    TEST_ASSERT_EQUAL_STRING("40 1 79", claim(a, 40));
}

void test_a_bundle_is_one_row_of_a_batch(void)
{
    static const char rows[] =
        "SELECT concat_ws(' ', count(*), min(cardinality(ids)), sum(cardinality(ids)),"
        " min(payloads[1]::int), max(payloads[cardinality(payloads)]::int), "
        "max(cardinality(kinds)),"
        " max(priority), count(DISTINCT token), count(id), count(priorities), count(created),"
        " bool_and(created_at <= now())) FROM pgwork.claim_batch('{q}', %d, 'w')";

    fill(a, 1, 350, 3);
    TEST_ASSERT_EQUAL_STRING("2 100 200 1 200 100 3 2 0 0 0 t", kit_text(a, rows, 250));
    TEST_ASSERT_EQUAL_STRING("2 50 150 201 350 100 3 2 0 0 0 t", kit_text(a, rows, 1000));
    TEST_ASSERT_EQUAL_INT64(
        0, kit_number(a, "SELECT count(*) FROM pgwork.pack p, pgwork.complete('q', p.ids,"
                         " ARRAY[p.token])"));
    TEST_ASSERT_EQUAL_STRING("0 0 0 0 0", kit_places(a, "q"));
}

/* Its jobs become rows; who comes later finds the others before what is younger. */
void test_a_smaller_claim_opens_a_bundle(void)
{
    fill(a, 1, 200, 0);
    TEST_ASSERT_EQUAL_STRING("10 1 10", claim(a, 10));
    TEST_ASSERT_EQUAL_STRING("1 90", rows());
    TEST_ASSERT_EQUAL_STRING("190 10 0 0 0", kit_places(a, "q"));
    TEST_ASSERT_EQUAL_STRING("1 11 11", claim(b, 1));
    TEST_ASSERT_EQUAL_STRING("89 12 100", claim(b, 89));
    TEST_ASSERT_EQUAL_STRING("50 101 150", claim(b, 50));
    TEST_ASSERT_EQUAL_STRING("50 151 200", claim(a, 1000));
    TEST_ASSERT_EQUAL_STRING("0 0", rows());
}

/* While that transaction is open others pass. What it leaves behind is no straggler: it comes at
 * once. */
void test_what_an_open_transaction_leaves_of_a_bundle_comes_with_its_end(void)
{
    for (int commit = 0; commit < 2; commit++) {
        fill(a, 1, 300, 0);
        kit_do(a, "BEGIN");
        TEST_ASSERT_EQUAL_STRING("10 1 10", claim(a, 10));
        TEST_ASSERT_EQUAL_STRING("100 101 200", claim(b, 100));
        TEST_ASSERT_EQUAL_STRING("5 201 205", claim(b, 5));
        kit_do(a, commit ? "COMMIT" : "ROLLBACK");
        if (commit) TEST_ASSERT_EQUAL_STRING("5 11 15", claim(b, 5));
        claim_rest(b, 1000);
        TEST_ASSERT_EQUAL_STRING("0 300 0 0 0", kit_places(a, "q"));
        kit_do(a, "SELECT pgwork.queue_drop('q', true), pgwork.queue_create('q', bulk => true)");
    }
}

void test_a_bundle_is_finished_as_what_is_claimed_together(void)
{
    fill(a, 1, 100, 0);
    TEST_ASSERT_EQUAL_INT(100, kit_claim(a, "q", 100, jobs));
    TEST_ASSERT_EQUAL_STRING(jobs[0].token, jobs[99].token);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", jobs + 7, ", 'boom', 0"));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", jobs + 8, ""));
    TEST_ASSERT_EQUAL_STRING("gone", kit_say(a, "complete", jobs + 8, ""));
    kit_expire(a, "q");
    TEST_ASSERT_EQUAL_INT64(98, kit_number(a, "SELECT returned FROM pgwork.reap()"));
    TEST_ASSERT_EQUAL_STRING("stale", kit_say(a, "complete", jobs + 9, ""));
    TEST_ASSERT_EQUAL_STRING("99 0 0 0 0", kit_places(a, "q"));
    TEST_ASSERT_EQUAL_INT64(2, kit_number(b, "SELECT attempt FROM pgwork.claim('{q}', 1, 'w')"));
}

void test_a_job_of_a_bundle_is_cancelled(void)
{
    long long id;

    kit_do(a, "SELECT pgwork.queue_set('q', retention_ms => 60000)");
    id = fill(a, 1, 100, 2);
    TEST_ASSERT_EQUAL_STRING(
        "cancelled cancelled cancelled gone",
        kit_text(a,
                 "SELECT string_agg(status, ' ') FROM pgwork.cancel('q', '{%lld,%lld,%lld,%lld}')",
                 id, id + 50, id + 99, id + 100));
    TEST_ASSERT_EQUAL_STRING("97 0 0 0 3", kit_places(a, "q"));
    TEST_ASSERT_EQUAL_STRING(
        "1 51 100 k 2",
        kit_text(a, "SELECT string_agg(payload::text, ' ' ORDER BY id) || ' ' ||"
                    " min(kind) || ' ' || max(priority) FROM pgwork.job WHERE state ="
                    " 'cancelled'"));
    TEST_ASSERT_EQUAL_STRING("97 2 99", claim(b, 97));
    fill(a, 1, 33, 0);
    TEST_ASSERT_EQUAL_INT64(33, kit_number(a, "SELECT count(*) FROM pgwork.cancel('q', ARRAY(SELECT"
                                              " id FROM pgwork.job WHERE state = 'ready'))"));
    TEST_ASSERT_EQUAL_STRING("0 0", rows());
}

/* It waits for who is just claiming them. */
void test_a_cancel_meets_a_claim_of_the_bundle(void)
{
    PGconn *c = kit_open();
    static const char *const requested[] = {"requested", "cancelled"};

    for (int rolled_back = 0; rolled_back < 2; rolled_back++) {
        long long id = fill(c, 1, 100, 0);

        kit_do(a, "BEGIN");
        TEST_ASSERT_EQUAL_STRING("100 1 100", claim(a, 100));
        kit_send(b, "SELECT status FROM pgwork.cancel('q', '{%lld}')", id + 10);
        kit_blocked(b, c);
        kit_do(a, rolled_back ? "ROLLBACK" : "COMMIT");
        TEST_ASSERT_EQUAL_STRING(requested[rolled_back], kit_answer(b));
    }
}

/* Where a job stands in its bundle may change while one waits for the row. */
TEST_CASE(50)
TEST_CASE(100)
void test_a_cancel_meets_another_one(int second)
{
    PGconn *c = kit_open();
    const long long first = fill(c, 1, 100, 0);

    kit_do(a, "BEGIN");
    TEST_ASSERT_EQUAL_STRING(
        "cancelled", kit_text(a, "SELECT status FROM pgwork.cancel('q', '{%lld}')", first + 9));
    kit_send(b, "SELECT status FROM pgwork.cancel('q', '{%lld}')", first + second - 1);
    kit_blocked(b, c);
    kit_do(a, "COMMIT");
    TEST_ASSERT_EQUAL_STRING("cancelled", kit_answer(b));
    TEST_ASSERT_EQUAL_STRING(
        "98 0 t", kit_text(a,
                           "SELECT concat_ws(' ', count(*), count(*) FILTER (WHERE payload::int IN"
                           " (10, %d)), (SELECT jobs = cardinality(all_ids) FROM pgwork.live_job))"
                           " FROM pgwork.job",
                           second));
    TEST_ASSERT_EQUAL_INT(98, claim_rest(a, 98));
    kit_expire(a, "q");
    TEST_ASSERT_EQUAL_INT64(98, kit_number(a, "SELECT reaped FROM pgwork.maintain()"));
}

void test_purge_drop_and_the_switch(void)
{
    fill(a, 1, 150, 0);
    TEST_ASSERT_EQUAL_INT64(150, kit_number(a, "SELECT pgwork.queue_purge('q')"));
    fill(a, 1, 100, 0);
    kit_refused(a, "PW006", "still has jobs", "SELECT pgwork.queue_drop('q')");
    kit_do(a, "SELECT pgwork.queue_set('q', bulk => false)");
    fill(a, 101, 50, 0);
    TEST_ASSERT_EQUAL_STRING("1 50", rows());
    kit_do(a, "SELECT pgwork.reap()"); /* which sees that one is left */
    TEST_ASSERT_EQUAL_STRING("t", kit_text(a, "SELECT bundles FROM pgwork.queue"));
    TEST_ASSERT_EQUAL_STRING("150 1 150", claim(a, 150));
    kit_do(a, "SELECT pgwork.reap()");
    TEST_ASSERT_EQUAL_STRING("f", kit_text(a, "SELECT bundles FROM pgwork.queue"));
}

/* A savepoint's transaction is not among those that are seen to run: that others hold a bundle is
 * found by trying to lock it. */
static const char *claim_in_savepoint(PGconn *conn, int n)
{
    kit_do(conn, "BEGIN");
    kit_do(conn, "SAVEPOINT s");
    return claim(conn, n);
}

/* What lies behind comes nevertheless, of lower priorities, too. */
void test_bundles_that_others_hold_hide_nothing_behind_them(void)
{
    fill(a, 1, 50, 0);
    fill(a, 51, 50, 0);
    fill(a, 101, 50, 2);
    TEST_ASSERT_EQUAL_STRING("150 1 150", claim_in_savepoint(a, 150));
    TEST_ASSERT_EQUAL_STRING("0", claim(b, 100));
    fill(b, 151, 1, 0);
    fill(b, 152, 50, 1);
    fill(b, 202, 1, 2);
    TEST_ASSERT_EQUAL_STRING("52 151 202", claim(b, 200));
    kit_do(a, "ROLLBACK");
    claim_rest(b, 1000);
    TEST_ASSERT_EQUAL_STRING("0 202 0 0 0", kit_places(a, "q"));
}

void test_a_row_that_others_hold_hides_no_bundle_behind_it(void)
{
    fill(a, 1, 1, 0);
    fill(a, 2, 100, 0);
    fill(a, 102, 1, 0);
    fill(a, 103, 100, 2);
    TEST_ASSERT_EQUAL_STRING("1 1 1", claim_in_savepoint(a, 1));
    kit_do(b, "SELECT pg_current_xact_id()"); /* is over: so the savepoint looks old */
    TEST_ASSERT_EQUAL_STRING("10 2 11", claim(b, 10));
    TEST_ASSERT_EQUAL_STRING("91 12 102", claim(b, 100));
    TEST_ASSERT_EQUAL_STRING("100 103 202", claim(b, 100));
    kit_do(a, "ROLLBACK");
    TEST_ASSERT_EQUAL_INT(1, claim_rest(b, 100));
}

/* They are taken in part, as by smaller claims. */
void test_a_bundle_that_others_hold_hides_no_larger_one(void)
{
    fill(a, 1, 40, 0);
    fill(a, 41, 100, 0);
    TEST_ASSERT_EQUAL_STRING("40 1 40", claim_in_savepoint(a, 40));
    kit_do(b, "SELECT pg_current_xact_id()");
    TEST_ASSERT_EQUAL_STRING("50 41 90", claim(b, 50));
    TEST_ASSERT_EQUAL_STRING("50 91 140", claim(b, 50));
    kit_do(a, "COMMIT");
    TEST_ASSERT_EQUAL_STRING("0 140 0 0 0", kit_places(a, "q"));
}

/* What a claim that found the first bundle taken by another took instead lies further on: the rows
 * before it are the next ones. */
void test_rows_between_bundles_are_not_passed(void)
{
    fill(a, 1, 100, 0);
    fill(a, 101, 20, 0);
    fill(a, 121, 100, 0);
    TEST_ASSERT_EQUAL_STRING("100 1 100", claim_in_savepoint(a, 100));
    kit_do(b, "SELECT pg_current_xact_id()"); /* is over: so the savepoint looks old */
    TEST_ASSERT_EQUAL_STRING("100 121 220", claim(b, 100));
    TEST_ASSERT_EQUAL_STRING("20 101 120", claim(b, 100));
    kit_do(a, "COMMIT");
    TEST_ASSERT_EQUAL_STRING("0 220 0 0 0", kit_places(a, "q"));
}

/* However much waits behind the bundle at which it ends. */
void test_a_claim_of_rows_before_a_bundle_reads_no_further(void)
{
    fill(a, 1, 5, 0);
    fill(a, 6, 100, 0);
    kit_do(a, "SELECT count(*) FROM pgwork.enqueue_many('q', array_fill('1'::jsonb,"
              " ARRAY[10000]), tags => ARRAY['{t}'])");
    TEST_ASSERT_EQUAL_STRING("1 10005", rows());
    kit_do(b, "BEGIN");
    TEST_ASSERT_EQUAL_STRING("5 1 5", claim(b, 10));
    TEST_ASSERT_LESS_THAN_INT64(
        1000, kit_number(b, "SELECT sum(pg_stat_get_xact_tuples_returned(i.indexrelid))"
                            " FROM pg_index i WHERE i.indrelid = 'pgwork.live_job'::regclass"));
    kit_do(b, "COMMIT");
    TEST_ASSERT_EQUAL_STRING("10 6 15", claim(b, 10));
}

/* One that wants many takes all bundles that fit; each is a pack of its own. */
void test_a_large_claim_takes_many_bundles(void)
{
    fill(a, 1, 1000, 0);
    TEST_ASSERT_EQUAL_INT(900, kit_claim(a, "q", 950, jobs));
    TEST_ASSERT_EQUAL_INT64(9, kit_number(a, "SELECT count(*) FROM pgwork.pack"));
    for (int i = 1; i < 900; i++) TEST_ASSERT_TRUE(jobs[i - 1].id < jobs[i].id);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", jobs + 250, ""));
    kit_expire(a, "q");
    TEST_ASSERT_EQUAL_INT64(899, kit_number(a, "SELECT returned FROM pgwork.reap()"));
    TEST_ASSERT_EQUAL_STRING("999 0 0 0 0", kit_places(a, "q"));
}

/* A job whose holder died comes alone, and opens nothing for that. */
void test_a_suspect_among_bundles_comes_alone(void)
{
    fill(a, 1, 1, 0);
    fill(a, 2, 100, 0);
    TEST_ASSERT_EQUAL_STRING("1 1 1", claim(a, 1));
    kit_expire(a, "q");
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT returned FROM pgwork.reap()"));
    TEST_ASSERT_EQUAL_STRING("1 1 1", claim(b, 150));
    TEST_ASSERT_EQUAL_STRING("1 0", rows());
    TEST_ASSERT_EQUAL_STRING("100 2 101", claim(b, 150));
}

/* As when a producer commits after the switch: found by who finds nothing else, and by the reaper.
 */
void test_a_bundle_that_nobody_was_told_of_is_found(void)
{
    fill(a, 1, 100, 0);
    fill(a, 101, 1, 0);
    kit_do(a, "UPDATE pgwork.queue SET bundles = false, bulk = false");
    TEST_ASSERT_EQUAL_STRING("1 101 101", claim(a, 1));
    TEST_ASSERT_EQUAL_STRING("1 1 1", claim(a, 1));
    fill(a, 201, 20, 0);
    kit_do(a, "SELECT pgwork.queue_set('q', bulk => true)");
    fill(a, 301, 100, 0);
    kit_do(a, "UPDATE pgwork.queue SET bundles = false, bulk = false");
    kit_do(a, "SELECT pgwork.reap()");
    TEST_ASSERT_EQUAL_STRING("t", kit_text(a, "SELECT bundles FROM pgwork.queue"));
}

/* What claims have taught is written down by the reaper. */
static const char *believes(void)
{
    kit_do(b, "SELECT pgwork._learn()");
    return kit_text(a, "SELECT large_claims FROM pgwork.queue WHERE name = 'q'");
}

/* By default rows are bundled where claims are large. */
void test_a_queue_learns_from_its_claims(void)
{
    kit_do(a, "SELECT pgwork.queue_drop('q')");
    fill(a, 1, 200, 0);
    TEST_ASSERT_EQUAL_STRING("0 200", rows());
    TEST_ASSERT_EQUAL_STRING("50 1 50", claim(a, 50)); /* not large */
    TEST_ASSERT_EQUAL_STRING("f", believes());
    TEST_ASSERT_EQUAL_STRING("100 51 150", claim(a, 100));
    TEST_ASSERT_EQUAL_STRING("t", believes());
    fill(a, 201, 100, 0);
    TEST_ASSERT_EQUAL_STRING("1 50", rows());
    TEST_ASSERT_EQUAL_STRING("50 151 200", claim(a, 50));
    TEST_ASSERT_EQUAL_STRING("1 201 201", claim(a, 1)); /* too soon to change it again */
    TEST_ASSERT_EQUAL_STRING("t", believes());
    fill(a, 301, 100, 0);
    TEST_ASSERT_EQUAL_STRING("1 99", rows());
    TEST_ASSERT_EQUAL_STRING("99 202 300", claim(a, 99));
    kit_do(a, "UPDATE pgwork.queue SET learned_at = learned_at - interval '1 min'");
    TEST_ASSERT_EQUAL_STRING("1 301 301", claim(a, 1));
    TEST_ASSERT_EQUAL_STRING("f", believes());
    fill(a, 401, 100, 0);
    TEST_ASSERT_EQUAL_STRING("0 199", rows());
    kit_do(a, "UPDATE pgwork.queue SET bulk = false, learned_at = '-infinity'");
    TEST_ASSERT_EQUAL_STRING("199 302 500", claim(a, 1000));
    TEST_ASSERT_EQUAL_STRING("f", believes());
}

/* Nor is a lesson kept for later: by then it may be wrong. */
void test_a_claim_teaches_and_holds_nothing(void)
{
    kit_do(a, "SELECT pgwork.queue_drop('q')");
    fill(a, 1, 200, 0);
    kit_do(b, "BEGIN");
    TEST_ASSERT_EQUAL_STRING("100 1 100", claim(b, 100));
    kit_do(a, "SET statement_timeout = '10s'");
    kit_do(a, "SELECT pgwork.queue_pause('q'), pgwork.queue_resume('q')");
    kit_do(b, "ROLLBACK");
    TEST_ASSERT_EQUAL_STRING("t", believes());
    kit_do(a, "SELECT pgwork.queue_set('q', bulk => false)");
    TEST_ASSERT_EQUAL_STRING("f", believes());
    kit_do(a, "UPDATE pgwork.queue SET bulk = true, learned_at = '-infinity'");
    TEST_ASSERT_EQUAL_STRING("f", believes());
    TEST_ASSERT_EQUAL_STRING("100 1 100", claim(a, 100));
    kit_do(a, "SELECT pgwork.maintain()");
    TEST_ASSERT_EQUAL_STRING("t",
                             kit_text(a, "SELECT large_claims FROM pgwork.queue WHERE name = 'q'"));
}

/* That there are bundles is said by who makes the first one, and taken back when none has been
 * there for a while: not each time that the queue is empty. */
void test_it_is_known_whether_there_are_bundles(void)
{
    static const char known[] = "SELECT bundles FROM pgwork.queue WHERE name = 'q'";
    const long long end = kit_ms() + 30000;
    int looks = 0;

    TEST_ASSERT_EQUAL_STRING("f", kit_text(a, known));
    fill(a, 1, 32, 0);
    TEST_ASSERT_EQUAL_STRING("f", kit_text(a, known));
    fill(a, 33, 33, 0);
    TEST_ASSERT_EQUAL_STRING("t", kit_text(a, known));
    claim_rest(a, 1000);
    kit_do(a, "SELECT setseed(0)");
    while (kit_text(a, known)[0] == 't' && kit_ms() < end) {
        kit_do(a, "SELECT pgwork.reap('q')");
        looks++;
    }
    TEST_ASSERT_EQUAL_STRING("f", kit_text(a, known));
    TEST_ASSERT_GREATER_THAN_INT(1, looks);

    /* who holds the queue's row keeps no producer from enqueueing, nor does an old snapshot; but
     * then rows are not shared, since claims would pass over what they do not know of */
    kit_do(b, "BEGIN; SELECT FROM pgwork.queue FOR UPDATE");
    fill(a, 1, 33, 0);
    kit_do(b, "ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM pgwork.queue");
    kit_do(a, "SELECT pgwork.queue_set('q', lease_ms => 20000)");
    fill(b, 34, 33, 0);
    kit_do(b, "COMMIT");
    TEST_ASSERT_EQUAL_STRING("f", kit_text(a, known));
    TEST_ASSERT_EQUAL_STRING("0 66", rows());
    TEST_ASSERT_EQUAL_STRING("66 1 66", claim(a, 100));
}

/* What it hands back is as good as any: many of these share a row again. */
void test_a_middling_claim_makes_a_pack_of_a_part_of_a_bundle(void)
{
    static const char packs[] = "SELECT string_agg(cardinality(ids) || ' ' || payloads[1] || ' ' ||"
                                " (first_id <= ids[1] AND last_id >= ids[cardinality(ids)]), ' '"
                                " ORDER BY number) FROM pgwork.pack";
    const long long first = fill(a, 1, 100, 0);

    TEST_ASSERT_EQUAL_STRING("60 1 60", claim(a, 60));
    TEST_ASSERT_EQUAL_STRING("60 1 true", kit_text(a, packs));
    TEST_ASSERT_EQUAL_STRING("0 40", rows());
    TEST_ASSERT_EQUAL_STRING("40 61 100", claim(a, 60));
    TEST_ASSERT_EQUAL_STRING("60 1 true 40 61 true", kit_text(a, packs));
    TEST_ASSERT_EQUAL_STRING(
        "requested requested",
        kit_text(a, "SELECT string_agg(status, ' ') FROM pgwork.cancel('q', '{%lld,%lld}')",
                 first + 59, first + 60));
    kit_expire(a, "q");
    TEST_ASSERT_EQUAL_INT64(100, kit_number(a, "SELECT returned FROM pgwork.reap()"));
    TEST_ASSERT_EQUAL_STRING("98 0 0 0 0", kit_places(a, "q"));
    TEST_ASSERT_EQUAL_INT64(first, kit_number(a, "SELECT min(id) FROM pgwork.job"));
}

/* Claims of all sizes at once: each job once, and none is forgotten. */
static void claim_any(PGconn *conn, int i, void *ctx)
{
    static const int most[] = {1, 7, 40, 100, 150, 1000};
    int *sums = ctx;

    sums[i] = claim_rest(conn, most[i]);
}

void test_claims_of_all_sizes_share_bundles(void)
{
    int sums[6] = {0}, sum = 0;

    for (int i = 0; i < 20; i++) fill(a, 1, 33 + 13 * i, i % 3);
    sum = (int)kit_number(a, "SELECT ready FROM pgwork.depth('q')");
    kit_race(6, claim_any, sums);
    TEST_ASSERT_EQUAL_INT(sum, sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5]);
    TEST_ASSERT_EQUAL_INT64(sum, kit_number(a, "SELECT count(DISTINCT id) FROM pgwork.job WHERE"
                                               " state = 'leased' AND attempt = 1"));
}
