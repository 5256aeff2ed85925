/* Tables that are nearly all remains get a new file, whatever holds vacuum back: nothing that lives
 * is lost or changed by it, and nobody waits for it for long. */
#include "unity.h"
#include "pgtemp.h"
#include "sqlkit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static PGconn *a, *b;
static struct took job, jobs[100];

void setUp(void)
{
    kit_begin();
    a = kit_open();
    b = kit_open();
    kit_do(a, "ALTER TABLE pgwork.live_job SET (autovacuum_enabled = off)"); /* it counts anew */
}

void tearDown(void)
{
    kit_end();
    kit_do(pgtemp_conn(),
           "SELECT pgwork.setting('compact_mb', '256'), setval('pgwork.compact_pause', 0)");
    kit_do(pgtemp_conn(), "ALTER TABLE pgwork.live_job RESET (autovacuum_enabled)");
}

/* -- what stays -------------------------------------------------------------------------------- */

/* Every row of every table, with all that it holds. */
static const char *everything(void)
{
    static char text[1000];

    *text = 0;
    for (int i = 0; i < KIT_PASSAGES; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s %s\n", kit_passages[i],
                 kit_text(b,
                          "SELECT count(*) || ' ' || md5(string_agg(j::text, ' ' ORDER BY "
                          "j::text)) FROM pgwork.%s j",
                          kit_passages[i]));
    return text;
}

/* Jobs in all states that these tables know, under leases of both kinds, with all that a job can
 * have. */
static void set_the_scene(void)
{
    kit_do(a, "SELECT pgwork.queue_create('q'), pgwork.queue_create('b', bulk => true)");
    kit_do(a, "SELECT pgwork.enqueue_many('b', array_fill('1'::jsonb, ARRAY[40]))");
    kit_do(a, "SELECT pgwork.enqueue_many('q', array_fill('{\"a\": [1, null]}'::jsonb, ARRAY[60]), "
              "priorities => '{2}')");
    kit_do(a, "SELECT pgwork.enqueue('q', to_jsonb(repeat('large ', 100000)), 'kind', "
              "convert_to(repeat('body', 5000), 'UTF8'),"
              " tags => '{x,y}', key => 'k', max_attempts => 3, lease_ms => 5000)");
    kit_do(a, "SELECT pgwork.enqueue('q', delay_ms => 3600000, key => 'l')");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, &job)); /* the large one */
    TEST_ASSERT_EQUAL_INT(3, kit_claim(a, "q", 3, jobs));
    TEST_ASSERT_EQUAL_INT(20, kit_claim(a, "b", 20, jobs));
    TEST_ASSERT_EQUAL_INT(40, kit_claim(a, "q", 40, jobs)); /* a pack */
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &jobs[3], ""));
    kit_claim(a, "q", 1, &job);
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "release", &job, ""));
}

void test_whatever_lives_stays_as_it_is(void)
{
    char before[1000];

    set_the_scene();
    snprintf(before, sizeof(before), "%s", everything());
    for (int i = 0; i < 2 * KIT_PASSAGES; i++) {
        const char *table = kit_passages[i / 2];
        long long file = kit_number(a, "SELECT pg_relation_filenode('pgwork.%s')", table);

        kit_renew(a, table, i % 2);
        TEST_ASSERT_NOT_EQUAL_INT64(
            file, kit_number(a, "SELECT pg_relation_filenode('pgwork.%s')", table));
        TEST_ASSERT_NOT_EQUAL_INT64_MESSAGE(
            0, kit_number(b, "SELECT count(*) FROM pgwork.%s", table), table);
        TEST_ASSERT_EQUAL_STRING(before, everything());
    }
}

void test_its_holders_go_on_as_if_nothing_had_been(void)
{
    struct took mine[100];
    int n = 0;

    set_the_scene();
    kit_do(a, "SELECT pgwork.queue_purge('q'), pgwork.queue_purge('b')");
    kit_do(a, "SELECT pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[50]))");
    n += kit_claim(a, "q", 1, mine);
    n += kit_claim(a, "q", 40, mine + n); /* a pack */
    n += kit_claim(a, "q", 3, mine + n);
    TEST_ASSERT_EQUAL_INT(44, n);
    for (int i = 0; i < KIT_PASSAGES; i++) kit_renew(b, kit_passages[i], false);
    TEST_ASSERT_EQUAL_INT(6, kit_claim(a, "q", 10, mine + n));
    for (int i = 0; i < n; i++) TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "extend", mine + i, ""));
    for (int i = 0; i < KIT_PASSAGES; i++) kit_renew(b, kit_passages[i], true);
    for (int i = 0; i < n; i++) {
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", mine + i, ""));
        TEST_ASSERT_EQUAL_STRING("gone", kit_say(a, "complete", mine + i, ""));
    }
}

/* -- while vacuum is held back ----------------------------------------------------------------- */

static void leave_remains(int n)
{
    kit_do(a, "SELECT count(*) FROM pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[%d]))",
           n);
    kit_do(a, "SELECT pgwork.queue_purge('q')");
    kit_do(a, "SELECT pg_stat_force_next_flush()");
}

/* How long compact() is put off, from now on. */
static long long pause_ms(void)
{
    return kit_number(b, "SELECT (last_value >> 3) - (extract(epoch FROM clock_timestamp()) * "
                         "1000)::bigint FROM pgwork.compact_pause");
}

static void pass_the_pause(void)
{
    kit_do(b, "SELECT setval('pgwork.compact_pause', last_value & 7) FROM pgwork.compact_pause");
}

static long long size(const char *table)
{
    return kit_number(b, "SELECT pg_total_relation_size('pgwork.%s')", table);
}

void test_remains_go_though_an_old_snapshot_is_held(void)
{
    PGconn *old = kit_open();
    long long before;

    kit_do(old, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    leave_remains(30000);
    kit_put(a, "q");
    before = size("live_job");
    kit_do(a, "VACUUM pgwork.live_job");
    TEST_ASSERT_GREATER_OR_EQUAL_INT64(before, size("live_job")); /* in vain */
    TEST_ASSERT_GREATER_THAN_INT64(before / 2, kit_number(a, "SELECT pgwork.compact(1)"));
    TEST_ASSERT_LESS_THAN_INT64(1000000, size("live_job"));
    TEST_ASSERT_NULL(kit_text(a, "SELECT pgwork.compact(1)"));
    TEST_ASSERT_EQUAL_STRING("1 0 0 0 0", kit_places(b, "q"));
}

static long long walks(const char *index)
{
    return kit_number(a, "SELECT pg_stat_get_xact_numscans('pgwork.%s'::regclass)", index);
}

/* A large file of holes need not be read to see that: the index leads to what lives. */
void test_where_vacuum_has_been_through_only_what_lives_is_read(void)
{
    for (int vacuumed = 0; vacuumed < 2; vacuumed++) {
        long long before;

        leave_remains(30000);
        kit_do(a, "SELECT pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[3]))");
        kit_do(a, vacuumed
                      ? "VACUUM (TRUNCATE off) pgwork.live_job"
                      : "SELECT pg_stat_reset_single_table_counters('pgwork.live_job'::regclass)");
        kit_do(a, "BEGIN");
        before = walks("live_job_place");
        TEST_ASSERT_GREATER_THAN_INT64(1000000, kit_number(a, "SELECT pgwork.compact(1)"));
        TEST_ASSERT_EQUAL_INT64(before + 2 * vacuumed, walks("live_job_place"));
        kit_do(a, "COMMIT");
        TEST_ASSERT_EQUAL_STRING("3 0 0 0 0", kit_places(b, "q"));
    }
}

void test_maintain_does_it_when_a_table_has_grown_and_is_nearly_all_remains(void)
{
    long long before;

    leave_remains(20000);
    kit_do(a, "SELECT pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[1000]))");
    kit_do(a, "SELECT pg_stat_force_next_flush()");
    before = size("live_job");
    kit_do(a, "SELECT pgwork.maintain()"); /* it is not that large */
    TEST_ASSERT_EQUAL_INT64(before, size("live_job"));
    kit_do(b, "SELECT pgwork.setting('compact_mb', '1'), set_config('pgwork.upkeep', '', false)");
    kit_do(b, "SELECT pgwork.maintain()"); /* a twentieth lives */
    TEST_ASSERT_EQUAL_INT64(before, size("live_job"));
    leave_remains(20000);
    before = size("live_job");
    kit_do(b, "SELECT set_config('pgwork.upkeep', '', false), pgwork.setting('compact_mb', '0')");
    kit_do(b, "SELECT pgwork.maintain()"); /* it may not */
    TEST_ASSERT_EQUAL_INT64(before, size("live_job"));
    kit_do(b, "SELECT set_config('pgwork.upkeep', '', false), pgwork.setting('compact_mb', '1')");
    pass_the_pause();
    kit_do(b, "SELECT pgwork.maintain()");
    TEST_ASSERT_LESS_THAN_INT64(before / 2, size("live_job"));
}

/* As for what cannot be pruned. */
void test_what_cannot_be_moved_keeps_no_job_from_being_taken_back(void)
{
    leave_remains(40000);
    kit_put(a, "q");
    kit_claim(a, "q", 1, &job);
    kit_expire(a, "q");
    kit_do(a, "CREATE FUNCTION public.no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE "
              "'not this table'; END $$; CREATE TRIGGER no BEFORE TRUNCATE ON pgwork.live_job "
              "EXECUTE FUNCTION public.no()");
    kit_do(b, "SELECT pgwork.setting('compact_mb', '1')");
    TEST_ASSERT_EQUAL_INT64(1, kit_number(b, "SELECT reaped FROM pgwork.maintain()"));
    TEST_ASSERT_EQUAL_STRING(
        "compact(): not this table (SQLSTATE P0001)",
        kit_text(b, "SELECT error FROM pgwork.stuck_jobs WHERE queue IS NULL"));
    kit_do(a, "DROP FUNCTION public.no() CASCADE; DELETE FROM pgwork.stuck_job");
}

/* Or too many bytes, or it takes too long only to look. */
void test_more_than_can_be_moved_at_once_stays_where_it_is(void)
{
    kit_do(a, "SELECT pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[10]))");
    kit_refused(
        a, "54000", "",
        "SELECT pgwork._renew('pgwork.live_job', NULL::pgwork.live_job[], 9, 100000, NULL, false)");
    kit_refused(
        a, "54000", "",
        "SELECT pgwork._renew('pgwork.live_job', NULL::pgwork.live_job[], 10, 500, NULL, false)");
    kit_refused(
        a, "54000", "",
        "SELECT pgwork._renew('pgwork.live_job', NULL::pgwork.live_job[], 10, 100000, 0, false)");
    TEST_ASSERT_EQUAL_STRING("10 0 0 0 0", kit_places(b, "q"));
    kit_do(a, "SELECT pgwork._renew('pgwork.live_job', NULL::pgwork.live_job[], 10, 100000, 60000, "
              "false)");
    TEST_ASSERT_EQUAL_STRING("10 0 0 0 0", kit_places(b, "q"));
}

void test_it_is_asked_for_with_a_size(void)
{
    kit_refused(a, "PW001", "mb|'-1'|0 and up", "SELECT pgwork.compact(-1)");
    kit_refused(a, "PW001", "value|'-1'|megabytes", "SELECT pgwork.setting('compact_mb', '-1')");
    kit_refused(a, "PW001", "value|'1 GB'", "SELECT pgwork.setting('compact_mb', '1 GB')");
    kit_refused(a, "PW001", "value|1000000000",
                "SELECT pgwork.setting('compact_mb', '1000000000')");
    kit_do(a, "SELECT pgwork.setting('compact_mb', '100000000')");
    leave_remains(100);
    TEST_ASSERT_NULL(kit_text(a, "SELECT pgwork.compact()")); /* the greatest of them works */
}

/* -- others ------------------------------------------------------------------------------------ */

/* Whoever is in the midst of something with a table keeps it; and the others go on meanwhile. */
void test_it_gives_way_to_who_is_in_the_table(void)
{
    static const char *const busy[] = {
        "SELECT pgwork.enqueue('q')", "SELECT count(*) FROM pgwork.job",
        "LOCK TABLE pgwork.live_job IN SHARE UPDATE EXCLUSIVE MODE", /* as VACUUM does */
    };

    leave_remains(20000);
    kit_do(a, "SET deadlock_timeout = '10ms'"); /* it waits for somewhat longer than that */
    for (int i = 0; i < 3; i++) {
        long long before = size("live_job");

        kit_do(b, "BEGIN");
        kit_do(b, "%s", busy[i]);
        TEST_ASSERT_EQUAL_STRING("0", kit_text(a, "SELECT pgwork.compact(1)"));
        kit_do(b, "ROLLBACK");
        TEST_ASSERT_EQUAL_INT64(before, size("live_job"));
    }
    kit_do(a, "BEGIN; DECLARE c CURSOR FOR SELECT * FROM pgwork.job"); /* even itself */
    TEST_ASSERT_EQUAL_STRING("0", kit_text(a, "SELECT pgwork.compact(1)"));
    kit_do(a, "ROLLBACK");
    kit_do(b, "BEGIN; SELECT pgwork.enqueue('q')");
    kit_send(a, "SELECT pgwork.compact(1)");
    kit_put(pgtemp_conn(), "q");
    TEST_ASSERT_EQUAL_STRING("0", kit_answer(a));
    kit_do(b, "COMMIT");
    TEST_ASSERT_GREATER_THAN_INT64(1000000, kit_number(a, "SELECT pgwork.compact(1)"));
    TEST_ASSERT_EQUAL_STRING("2 0 0 0 0", kit_places(b, "q"));
    TEST_ASSERT_EQUAL_STRING(kit_text(b, "SHOW lock_timeout"), kit_text(a, "SHOW lock_timeout"));
}

/* It would not see what was committed after its own snapshot. */
void test_it_needs_a_new_snapshot_itself(void)
{
    static const char *const levels[] = {"REPEATABLE READ", "SERIALIZABLE"};

    leave_remains(20000);
    for (int i = 0; i < 2; i++) {
        kit_do(a, "BEGIN ISOLATION LEVEL %s; SELECT 1", levels[i]);
        kit_put(b, "q");
        TEST_ASSERT_EQUAL_STRING("0", kit_text(a, "SELECT pgwork.compact(1)"));
        kit_refused(a, "55P03", "",
                    "SELECT pgwork._renew('pgwork.live_job', NULL::pgwork.live_job[], 100, 100000, "
                    "NULL, false)");
        kit_do(a, "ROLLBACK");
    }
    TEST_ASSERT_EQUAL_STRING("2 0 0 0 0", kit_places(b, "q"));
}

/* pg_dump takes its snapshot before its locks: it would find an empty table. */
void test_it_leaves_a_dump_in_peace(void)
{
    leave_remains(20000);
    kit_do(b, "SET application_name = 'pg_dump'");
    TEST_ASSERT_EQUAL_STRING("0", kit_text(a, "SELECT pgwork.compact(1)"));
    /* it came in the midst */
    kit_refused(
        a, "55P03", "",
        "SELECT pgwork._renew('pgwork.live_job', NULL::pgwork.live_job[], 9, 100000, NULL, false)");
    kit_do(b, "RESET application_name");
    TEST_ASSERT_GREATER_THAN_INT64(1000000, kit_number(a, "SELECT pgwork.compact(1)"));
}

/* In vain it comes less and less often, whoever calls it; and so when it is cancelled. */
void test_upkeep_does_not_insist(void)
{
    PGconn *vacuum = kit_open();

    leave_remains(20000);
    kit_do(a, "SELECT pgwork.setting('compact_mb', '1')");
    kit_do(a, "SET deadlock_timeout = '10ms'"); /* it waits for somewhat longer than that */
    kit_do(vacuum, "BEGIN; LOCK TABLE pgwork.live_job IN SHARE UPDATE EXCLUSIVE MODE");
    pass_the_pause();
    TEST_ASSERT_EQUAL_STRING("0", kit_text(a, "SELECT pgwork.compact()"));
    TEST_ASSERT_NULL(kit_text(b, "SELECT pgwork.compact()")); /* not yet again */
    for (int times = 1; times < 8; times++) {
        pass_the_pause();
        kit_do(a, "SET statement_timeout = '%dms'", times == 3 ? 50 : 0);
        TEST_ASSERT_EQUAL_STRING(times == 3 ? "57014" : "",
                                 kit_state(a, "SELECT pgwork.compact()"));
        TEST_ASSERT_GREATER_THAN_INT64(1000 << (times < 5 ? times : 5), pause_ms());
        TEST_ASSERT_LESS_THAN_INT64(100000, pause_ms());
    }
    kit_do(vacuum, "ROLLBACK");
    pass_the_pause();
    TEST_ASSERT_GREATER_THAN_INT64(1000000, kit_number(a, "SELECT pgwork.compact()"));
    TEST_ASSERT_EQUAL_INT64(0, kit_number(b, "SELECT last_value & 7 FROM pgwork.compact_pause"));
    TEST_ASSERT_GREATER_THAN_INT64(0, pause_ms());
    leave_remains(20000);
    kit_do(b, "SELECT setval('pgwork.compact_pause', last_value + (10000000 << 3)) FROM "
              "pgwork.compact_pause"); /* a clock was set back */
    TEST_ASSERT_GREATER_THAN_INT64(1000000, kit_number(a, "SELECT pgwork.compact()"));
}

/* What a look that took too long leaves grows on, and takes longer still. */
void test_after_a_look_that_took_too_long_it_looks_for_longer(void)
{
    static const int most_ms[] = {2000, 4000, 8000, 8000};

    leave_remains(20000);
    kit_do(a, "SELECT pgwork.setting('compact_mb', '1')");
    kit_do(a, "BEGIN; CREATE TEMP SEQUENCE look");
    kit_do(a,
           "CREATE OR REPLACE FUNCTION pgwork._renew(place regclass, kept anyarray, most bigint, "
           "most_bytes bigint, most_ms bigint, by_index boolean) RETURNS void LANGUAGE plpgsql "
           "AS 'BEGIN PERFORM setval(''pg_temp.look'', most_ms); RAISE "
           "program_limit_exceeded; END'");
    for (int i = 0; i < 4; i++) {
        pass_the_pause();
        TEST_ASSERT_EQUAL_STRING("0", kit_text(a, "SELECT pgwork.compact()"));
        TEST_ASSERT_EQUAL_INT64(most_ms[i], kit_number(a, "SELECT last_value FROM look"));
    }
    kit_do(a, "ROLLBACK");
    pass_the_pause();
    TEST_ASSERT_GREATER_THAN_INT64(1000000, kit_number(a, "SELECT pgwork.compact()"));
    TEST_ASSERT_EQUAL_INT64(0, kit_number(a, "SELECT last_value & 7 FROM pgwork.compact_pause"));
}

/* It disturbs nobody while it only looks who is in there. */
void test_it_comes_soon_again_while_somebody_stays(void)
{
    leave_remains(20000);
    kit_do(a, "SELECT pgwork.setting('compact_mb', '1')");
    kit_do(b, "BEGIN; SELECT pgwork.enqueue('q')");
    for (int times = 0; times < 6; times++) {
        kit_do(a, "SELECT setval('pgwork.compact_pause', 2)");
        TEST_ASSERT_EQUAL_STRING("0", kit_text(a, "SELECT pgwork.compact()"));
        TEST_ASSERT_GREATER_THAN_INT64(1000, pause_ms());
        TEST_ASSERT_LESS_THAN_INT64(5000, pause_ms());
        TEST_ASSERT_EQUAL_INT64(2,
                                kit_number(a, "SELECT last_value & 7 FROM pgwork.compact_pause"));
    }
    kit_do(b, "COMMIT");
    kit_do(a, "SELECT setval('pgwork.compact_pause', 2)");
    TEST_ASSERT_GREATER_THAN_INT64(1000000, kit_number(a, "SELECT pgwork.compact()"));
}

void test_where_somebody_stays_in_the_largest_the_next_one_goes(void)
{
    long long before;

    leave_remains(20000);
    kit_do(a, "INSERT INTO pgwork.pack_out SELECT 0, 0, i FROM generate_series(1, 20000) i");
    kit_do(a, "DELETE FROM pgwork.pack_out WHERE queue = 0");
    before = size("live_job");
    TEST_ASSERT_GREATER_THAN_INT64(size("pack_out"), before);
    kit_do(b, "BEGIN; SELECT pgwork.enqueue('q')");
    TEST_ASSERT_GREATER_THAN_INT64(1000000, kit_number(a, "SELECT pgwork.compact(1)"));
    TEST_ASSERT_EQUAL_INT64(before, size("live_job"));
    TEST_ASSERT_LESS_THAN_INT64(100000, size("pack_out"));
    kit_do(b, "COMMIT");
}

static bool sent_away(void)
{
    return *kit_text(a, "SELECT pgwork._send_vacuum_away(1000000)") == 't';
}

/* It is seen twice at least before that, and only while who holds it back is there. */
void test_vacuum_in_vain_is_sent_away(void)
{
    PGconn *writer = kit_open();

    kit_do(a, "SET deadlock_timeout = '10ms'"); /* it waits for somewhat longer than that */
    kit_do(a, "ALTER TABLE pgwork.live_job SET (autovacuum_enabled = off)"); /* the test is one */
    kit_do(a, "SELECT pgwork.queue_create('q')");
    kit_do(writer, "BEGIN; SELECT pgwork.enqueue('q')");
    leave_remains(20000);
    for (int visits = 0; visits < 3; visits++) {
        TEST_ASSERT_EQUAL_INT(visits == 2, sent_away());
        kit_do(b, "VACUUM pgwork.live_job");
    }
    kit_do(a, "BEGIN");
    TEST_ASSERT_TRUE(sent_away());
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT count(*) FROM pg_locks WHERE mode = "
                                             "'ShareUpdateExclusiveLock' AND relation = "
                                             "'pgwork.live_job'::regclass"));
    kit_do(a, "COMMIT");
    TEST_ASSERT_EQUAL_STRING("f", kit_text(a, "SELECT pgwork._send_vacuum_away(1000000000)"));
    kit_do(b, "BEGIN; LOCK TABLE pgwork.live_job IN SHARE UPDATE EXCLUSIVE MODE");
    TEST_ASSERT_FALSE(sent_away()); /* this one stays */
    kit_do(b, "COMMIT");
    TEST_ASSERT_FALSE(sent_away()); /* for a minute, nothing is asked for */
    kit_do(a,
           "SELECT set_config('pgwork.visits', jsonb_set(current_setting('pgwork.visits')::jsonb,"
           " '{next_ms}', '0')::text, false)");
    TEST_ASSERT_TRUE(sent_away());
    kit_do(writer, "COMMIT");
    TEST_ASSERT_FALSE(sent_away());
    kit_do(a, "ALTER TABLE pgwork.live_job RESET (autovacuum_enabled)");
}

/* Where it finds what it can remove, it may come again, whoever is there. */
void test_vacuum_that_removes_something_is_not(void)
{
    PGconn *writer = kit_open();

    leave_remains(20000);
    kit_do(writer, "BEGIN; SELECT pgwork.enqueue('q')");
    for (int visits = 0; visits < 3; visits++) {
        TEST_ASSERT_FALSE(sent_away());
        kit_do(b, "VACUUM pgwork.live_job");
    }
    kit_do(a, "SELECT set_config('pgwork.visits', 'rubbish', false)");
    TEST_ASSERT_FALSE(sent_away());
    kit_do(writer, "COMMIT");
}

static void waits_for_the_new_file(const char *expected, const char *call)
{
    kit_do(b, "BEGIN");
    kit_renew(b, "live_job", false);
    kit_renew(b, "pack", false);
    kit_renew(b, "pack_out", false);
    kit_send(a, "%s", call);
    kit_blocked(a, pgtemp_conn());
    kit_do(b, "COMMIT");
    TEST_ASSERT_EQUAL_STRING_MESSAGE(expected, kit_answer(a), call);
}

/* Who had to wait sees what is there now, not the empty table of a snapshot from before. */
void test_who_comes_meanwhile_finds_the_jobs(void)
{
    char finish[2][200];

    kit_do(a, "SELECT pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[60]))");
    TEST_ASSERT_EQUAL_INT(40, kit_claim(a, "q", 40, jobs)); /* a pack */
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, &job));
    snprintf(finish[0], sizeof(finish[0]), "('q', '{%lld}', '{%s}')", jobs[0].id, jobs[0].token);
    snprintf(finish[1], sizeof(finish[1]), "('q', '{%lld}', '{%s}')", job.id, job.token);
    for (int warm = 0; warm < 2; warm++) { /* plans are made, plans are there */
        char text[300];

        waits_for_the_new_file(warm ? "16" : "19", "SELECT ready FROM pgwork.depth('q')");
        waits_for_the_new_file("60", "SELECT count(*) FROM pgwork.job");
        waits_for_the_new_file("60", "SELECT count(*) FROM pgwork.job_list('q')");
        waits_for_the_new_file("2", "SELECT count(*) FROM pgwork.claim('{q}', 2, 'w')");
        waits_for_the_new_file("1", "SELECT count(*) FROM pgwork.claim('{q}', 1, 'w')");
        for (int i = 0; i < 2; i++) {
            snprintf(text, sizeof(text), "SELECT status FROM pgwork.extend%s", finish[i]);
            waits_for_the_new_file("ok", text);
        }
    }
}

/* A function that is not VOLATILE looks with the snapshot of who calls it, from before the lock. */
void test_whatever_reads_these_tables_has_its_own_snapshot(void)
{
    static const char read_by[] =
        "SELECT string_agg(proname, ' ') FROM pg_proc WHERE pronamespace = 'pgwork'::regnamespace"
        " AND prosrc ~ ('pgwork[.](' || array_to_string(ARRAY(SELECT relname FROM pg_class"
        " WHERE oid = ANY (pgwork._passages())), '|') || ')\\M')"
        " AND proname <> '_passages' AND provolatile %s 'v'";

    TEST_ASSERT_NOT_NULL(strstr(kit_text(a, read_by, "="), "claim_batch"));
    TEST_ASSERT_NULL(kit_text(a, read_by, "<>"));
}

/* Other isolation levels keep their snapshot: they are told, and not that the jobs are gone. */
void test_an_old_snapshot_has_to_be_taken_anew(void)
{
    static const char *const calls[] = {
        "SELECT * FROM pgwork.complete('q', '{%lld}', '{%s}')",
        "SELECT * FROM pgwork.fail('q', '{%lld}', '{%s}')",
        "SELECT * FROM pgwork.extend('q', '{%lld}', '{%s}')",
        "SELECT * FROM pgwork.release('q', '{%lld}', '{%s}')",
        "SELECT * FROM pgwork.snooze('q', '{%lld}', '{%s}', 0)",
        "SELECT * FROM pgwork.cancel('q', '{%lld}') WHERE '%s' <> ''",
        "SELECT * FROM pgwork.claim('{q}', 1, 'w', NULL, '{%lld}', '{%s}')",
        "SELECT pgwork.depth('q'), %lld, '%s'",
        "SELECT pgwork.queue_purge('q'), %lld, '%s'",
        "SELECT pgwork.reschedule('q'), %lld, '%s'",
        "SELECT pgwork.queue_drop('q', true), %lld, '%s'",
    };

    kit_do(a, "SELECT pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[50]))");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, &job));
    TEST_ASSERT_EQUAL_INT(40, kit_claim(a, "q", 40, jobs)); /* a pack */
    for (size_t i = 0; i < 2 * sizeof(calls) / sizeof(calls[0]); i++) {
        const struct took *one = i % 2 ? &job : &jobs[4];

        kit_do(a, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
        for (int k = 0; k < KIT_PASSAGES; k++) kit_renew(b, kit_passages[k], false);
        TEST_ASSERT_EQUAL_STRING_MESSAGE("40001", kit_state(a, calls[i / 2], one->id, one->token),
                                         calls[i / 2]);
        TEST_ASSERT_NOT_NULL(strstr(kit_why(), "moved to a new file"));
        kit_do(a, "ROLLBACK");
    }
    kit_do(a, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "complete", &jobs[4], ""));
    TEST_ASSERT_EQUAL_STRING("gone", kit_say(a, "complete", &jobs[4], ""));
    kit_do(a, "COMMIT");
    TEST_ASSERT_EQUAL_STRING("9 40 0 0 0", kit_places(b, "q"));
}
