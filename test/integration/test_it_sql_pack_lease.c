/* Packs: their leases, extended and lost one by one or together; cancels; what upkeep and other
 * isolation levels make of them. */
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
                                               : i == 1 ? ", 5000"
                                                        : ", 60000"));
    for (int left = 2; left > 0; left--) {
        for (long long end = kit_ms() + 20000; kit_ms() < end;) {
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

void test_a_cancel_that_stays_open_makes_no_extend_wait(void)
{
    take(3);
    kit_do(b, "BEGIN");
    TEST_ASSERT_EQUAL_STRING("requested", cancel(b, 1));
    kit_do(a, "SET statement_timeout = '10s'");
    TEST_ASSERT_EQUAL_STRING("0 locked,1 locked,2 locked", say(a, "extend", 0, 3, ""));
    kit_do(b, "COMMIT");
    TEST_ASSERT_EQUAL_STRING("0 ok,1 cancel,2 ok", say(a, "extend", 0, 3, ""));
    TEST_ASSERT_EQUAL_STRING("", say(a, "complete", 0, 3, ""));
    check_no_packs();
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

/* Each version of a pack's row is read by all that look for one of its jobs. */
void test_a_cancel_of_many_writes_a_pack_once(void)
{
    take(7);
    TEST_ASSERT_EQUAL_STRING("requested", cancel(a, 1));
    TEST_ASSERT_EQUAL_STRING("", say(a, "complete", 2, 1, ""));
    kit_do(b, "BEGIN");
    TEST_ASSERT_EQUAL_STRING(
        "1 requested,2 gone,3 requested,3 requested,6 requested",
        kit_text(b,
                 "SELECT string_agg((id - %lld) || ' ' || status, ',' ORDER BY id)"
                 " FROM pgwork.cancel('q', '{%lld,%lld,%lld,%lld,%lld}')",
                 jobs[0].id, jobs[3].id, jobs[2].id, jobs[6].id, jobs[3].id, jobs[1].id));
    TEST_ASSERT_EQUAL_INT64(1, kit_number(b, "SELECT n_tup_upd FROM pg_stat_xact_user_tables"
                                             " WHERE relid = 'pgwork.pack'::regclass"));
    kit_do(b, "COMMIT");
    TEST_ASSERT_EQUAL_STRING("0 ok,1 cancel,2 gone,3 cancel,4 ok,5 ok,6 cancel",
                             say(a, "extend", 0, 7, ""));
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
        {"complete", ""}, {"fail", ", 'boom', 0"}, {"release", ""}, {"extend", ""}};

    for (int l = 0; l < 2; l++)
        for (int v = 0; v < 4; v++)
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

void test_a_stale_snapshot_cancels_no_packed_job_that_has_left(void)
{
    for (int i = 0; i < 4; i++) {
        take(3);
        kit_do(a, "BEGIN ISOLATION LEVEL %s", levels[i / 2]);
        kit_do(a, "SELECT count(*) FROM pgwork.queue");
        TEST_ASSERT_EQUAL_STRING("", say(b, i % 2 ? "release" : "complete", 0, 1, ""));
        TEST_ASSERT_EQUAL_STRING("40001",
                                 kit_state(a, "SELECT pgwork.cancel('q', '{%lld}')", jobs[0].id));
        kit_do(a, "ROLLBACK");
        kit_do(a, "SELECT pgwork.queue_drop('q', true), pgwork.queue_create('q')");
    }
}

/* What it locks to find out who has left, it lets go. */
void test_under_other_isolation_levels_an_extend_neither_waits_nor_keeps_others_waiting(void)
{
    hasty(a);
    hasty(b);
    for (int l = 0; l < 2; l++) {
        take(3);
        kit_do(b, "BEGIN");
        TEST_ASSERT_EQUAL_STRING("", say(b, "complete", 0, 1, ""));
        kit_do(a, "BEGIN ISOLATION LEVEL %s", levels[l]);
        TEST_ASSERT_EQUAL_STRING("0 locked,1 locked,2 locked", say(a, "extend", 0, 3, ""));
        kit_do(a, "COMMIT");
        kit_do(b, "ROLLBACK");
        kit_do(a, "BEGIN ISOLATION LEVEL %s", levels[l]);
        TEST_ASSERT_EQUAL_STRING("0 ok,1 ok,2 ok", say(a, "extend", 0, 3, ""));
        TEST_ASSERT_EQUAL_STRING("", say(b, "complete", 0, 1, ""));
        kit_do(a, "COMMIT");
        TEST_ASSERT_EQUAL_STRING("", say(b, "complete", 1, 2, ""));
        check_no_packs();
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
