/* Schedules: each slot once under many schedulers, takeover, misfires, pauses, and errors of one
 * schedule. Where years must pass, the tests pass a time to internal functions of the server.
 * Longer than 600 lines: all of schedules in one program, since each program costs a build and a
 * migration. */
#include "unity.h"
#include "callkit.h"
#include "pgw_all.h"
#include "oom.h"
#include "itpgw.h"
#include "childkit.h"
#include "pgtemp.h"

#if __has_include(<libpq-fe.h>)
#include <libpq-fe.h>
#else
#include <postgresql/libpq-fe.h>
#endif
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pgw *h;

void setUp(void)
{
    h = it_open();
    pgtemp_exec(
        "DELETE FROM pgwork.schedule; SELECT pgwork.queue_drop(name, true) FROM pgwork.queue");
}

void tearDown(void)
{
    pgw_close(h);
    h = NULL;
}

#define OK(call) ASSERT_ST(PGW_OK, call, h)

/* A schedule that does not come due while a test looks at the real clock. */
static const char yearly[] = "0 0 1 1 *";

/* Plans from the given instant, as if the schedule had been made then. */
static void planned_from(const char *name, const char *instant)
{
    char sql[400];

    snprintf(sql, sizeof(sql),
             "UPDATE pgwork.schedule SET base = '%s', anchor = '%s', next_at = '-infinity' WHERE "
             "name = '%s'",
             instant, instant, name);
    pgtemp_exec(sql);
}

/* One pass of a scheduler whose clock shows this. */
static long long tick_at(const char *instant)
{
    char sql[200];

    snprintf(sql, sizeof(sql), "SELECT fired FROM pgwork._cron_tick(100000, '%s')", instant);
    return pgtemp_number(sql);
}

/* Which slots have become jobs, in order. */
static const char *slots(void)
{
    return pgtemp_value("SELECT string_agg(substring(tags[array_length(tags, 1)] FROM 6), ' ' "
                        "ORDER BY id) FROM pgwork.job");
}

static void create(const char *name, const char *expression, pgw_cron_opts *o)
{
    OK(pgw_cron_create(h, name, expression, o, NULL));
}

/* ---- what a tick is ---- */

void test_a_tick_is_a_job_as_the_schedule_says(void)
{
    static const char *const tags[] = {"eu", "daily"};
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_cron_opts o = PGW_CRON_OPTS_INIT;
    int64_t next = 0;

    job.kind = "report", job.payload = "{\"to\": \"all\"}", job.body = "\0x", job.body_size = 2;
    job.priority = 3, job.max_attempts = 7, job.lease_ms = 5000, job.tags = tags,
    job.tags_count = 2;
    o.job = &job, o.queue = "mail", o.zone = "europe/berlin";
    OK(pgw_cron_create(h, "report", "0 6 * * *", &o, &next));
    TEST_ASSERT_EQUAL_INT64(
        next, pgtemp_number(
                  "SELECT extract(epoch FROM next_slot)::bigint * 1000000 FROM pgwork.schedule"));
    TEST_ASSERT_EQUAL_STRING("Europe/Berlin", pgtemp_value("SELECT zone FROM pgwork.schedule"));
    planned_from("report", "2026-06-01 00:00 UTC");
    TEST_ASSERT_EQUAL_INT64(0, tick_at("2026-06-01 03:59:59.999 UTC"));
    TEST_ASSERT_EQUAL_INT64(1, tick_at("2026-06-01 04:00 UTC"));
    TEST_ASSERT_EQUAL_INT64(0, tick_at("2026-06-01 04:00 UTC"));
    TEST_ASSERT_EQUAL_STRING(
        "report|{\"to\": \"all\"}|3|7|{eu,daily,schedule=report,slot=2026-06-01T04:00:00Z}|2",
        pgtemp_value("SELECT concat_ws('|', kind, payload, priority, max_attempts, tags, "
                     "body_bytes) FROM pgwork.job WHERE queue = 'mail'"));
    TEST_ASSERT_EQUAL_STRING("2026-06-01 04:00:00|1",
                             pgtemp_value("SELECT slot AT TIME ZONE 'UTC' || '|' || (job = (SELECT "
                                          "id FROM pgwork.job)::bigint)::int FROM pgwork.tick"));
}

void test_a_tick_of_the_reaper_enqueues_due_ticks(void)
{
    pgw_cron_opts o = PGW_CRON_OPTS_INIT;
    pgw_reap_stats stats = PGW_REAP_STATS_INIT;
    int64_t next_ms = -1, fired = -1;

    OK(pgw_cron_tick(h, &fired, &next_ms));
    TEST_ASSERT_EQUAL_INT64(-1, next_ms);
    o.queue = "q";
    create("s", "@every 1s", &o);
    planned_from("s", "now");
    pgtemp_exec("SELECT pg_sleep(1.2)");
    OK(pgw_reaper_tick(h, &stats, &next_ms));
    TEST_ASSERT_TRUE(pgtemp_number("SELECT count(*) FROM pgwork.job") >= 1);
    TEST_ASSERT_TRUE(next_ms >= 0 && next_ms <= 1000);
    OK(pgw_cron_tick(h, &fired, &next_ms));
    TEST_ASSERT_TRUE(next_ms >= 0 && next_ms <= 1000);
}

void test_a_key_keeps_ticks_from_piling_up(void)
{
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_cron_opts o = PGW_CRON_OPTS_INIT;

    job.key = "sync", o.job = &job, o.queue = "q";
    create("s", "* * * * *", &o);
    planned_from("s", "2026-01-01 00:00:30 UTC");
    tick_at("2026-01-01 00:01 UTC");
    tick_at("2026-01-01 00:02 UTC");
    TEST_ASSERT_EQUAL_STRING("2026-01-01T00:01:00Z", slots());
    TEST_ASSERT_EQUAL_INT64(
        2, pgtemp_number("SELECT count(*) FROM pgwork.tick WHERE job IS NOT NULL"));
}

/* ---- once ---- */

/* In a child, which is no place for assertions; its session may be ended while it begins. */
static pgw *open_in_child(void)
{
    pgw_conf *conf;
    pgw *mine = NULL;
    pgw_status st;

    if (pgw_conf_new(&conf) != PGW_OK || pgw_conf_set(conf, "dsn", pgtemp_dsn()) != PGW_OK)
        _exit(1);
    do {
        pgw_close(mine);
        st = pgw_open(conf, &mine);
    } while (pgw_is_retriable(st));
    if (st != PGW_OK) _exit(1);
    pgw_conf_free(conf);
    return mine;
}

/* One scheduler: goes on after whatever happens to its session. */
static pid_t start_scheduler(int64_t until)
{
    const pid_t pid = forked();
    pgw *mine;

    if (pid != 0) return pid;
    mine = open_in_child();
    while (pgw__clock_ms() < until) {
        int64_t next_ms;
        const pgw_status st = pgw_cron_tick(mine, NULL, &next_ms);

        if (st != PGW_OK && !pgw_is_retriable(st) && !pgw_is_unknown(st)) _exit(1);
        poll(NULL, 0, next_ms < 1 ? 1 : next_ms > 20 ? 20 : (int)next_ms);
    }
    _exit(0);
}

/* Real clocks, 200 slots and more; sessions are ended under the schedulers all the time, and two of
 * them are killed. */
void test_eight_schedulers_fire_each_slot_once(void)
{
    enum { SCHEDULERS = 8, SCHEDULES = 25, SECONDS = 9 };
    int64_t end;
    pgw_cron_opts o = PGW_CRON_OPTS_INIT;
    pid_t pids[SCHEDULERS];

    o.queue = "q", o.misfire = PGW_MISFIRE_ALL;
    for (int i = 0; i < SCHEDULES; i++) {
        char name[32];

        snprintf(name, sizeof(name), "s%d", i);
        create(name, i % 2 == 0 ? "* * * * * *" : "@every 1s", &o);
    }
    pgtemp_exec("UPDATE pgwork.schedule SET base = date_trunc('second', clock_timestamp()), anchor "
                "= date_trunc('second', clock_timestamp())");
    end = pgw__clock_ms() + SECONDS * 1000;
    for (int i = 0; i < SCHEDULERS; i++) pids[i] = start_scheduler(end);
    for (int i = 0; pgw__clock_ms() < end - 1000; i++) {
        poll(NULL, 0, 100);
        pgtemp_exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = "
                    "current_database() AND application_name = 'pgwork' ORDER BY random() LIMIT 2");
        if (i == 20 || i == 40) kill(pids[i / 20 - 1], SIGKILL);
    }
    for (int i = 0; i < SCHEDULERS; i++) {
        const int code = reaped(pids[i]);

        if (i >= 2) TEST_ASSERT_EQUAL_INT(0, code);
    }
    TEST_ASSERT_EQUAL_INT64(
        0,
        pgtemp_number(
            "SELECT count(*) FROM (SELECT FROM pgwork.job GROUP BY tags HAVING count(*) > 1) t"));
    TEST_ASSERT_EQUAL_INT64(/* none left out */
                            0,
                            pgtemp_number("SELECT count(*) FROM (SELECT slot - lag(slot) OVER "
                                          "(PARTITION BY s ORDER BY slot) "
                                          "AS apart FROM (SELECT tags[1] AS s, substring(tags[2] "
                                          "FROM 6)::timestamptz AS slot "
                                          "FROM pgwork.job) j) t WHERE apart <> interval '1 s'"));
    TEST_ASSERT_EQUAL_INT64(SCHEDULES,
                            pgtemp_number("SELECT count(DISTINCT tags[1]) FROM pgwork.job"));
    TEST_ASSERT_TRUE(pgtemp_number("SELECT count(*) FROM pgwork.job") >= 100);
    TEST_ASSERT_NULL(pgtemp_value("SELECT error FROM pgwork.schedule WHERE error IS NOT NULL"));
}

void test_a_clock_set_back_fires_nothing_twice(void)
{
    pgw_cron_opts o = PGW_CRON_OPTS_INIT;

    o.queue = "q";
    create("s", "* * * * *", &o);
    planned_from("s", "2026-01-01 00:00:30 UTC");
    tick_at("2026-01-01 00:01:01 UTC");
    TEST_ASSERT_EQUAL_INT64(0, tick_at("2026-01-01 00:00:59 UTC"));
    TEST_ASSERT_EQUAL_INT64(0, tick_at("2026-01-01 00:01:30 UTC"));
    planned_from("s", "2026-01-01 00:00:30 UTC");
    TEST_ASSERT_EQUAL_INT64(0, tick_at("2026-01-01 00:01:30 UTC"));
    TEST_ASSERT_EQUAL_STRING(
        "2026-01-01 00:01:01",
        pgtemp_value("SELECT last_at AT TIME ZONE 'UTC' FROM pgwork.schedule"));
    TEST_ASSERT_EQUAL_INT64(1, tick_at("2026-01-01 00:02:00 UTC"));
    TEST_ASSERT_EQUAL_STRING("2026-01-01T00:01:00Z 2026-01-01T00:02:00Z", slots());
}

/* What a clock three hours ahead has left: later ticks than can come, as many as are kept. */
static void clock_set_back(void)
{
    pgtemp_exec("DELETE FROM pgwork.tick; UPDATE pgwork.schedule SET base = date_trunc('minute', "
                "clock_timestamp()) + interval '3 h'; INSERT INTO pgwork.tick (schedule, slot, at) "
                "SELECT s.id, s.base - i * interval '1 min', s.base FROM pgwork.schedule s, "
                "generate_series(0, 99) i");
}

static void goes_on_from_now(void)
{
    static const char *const passes[] = {"(SELECT next_slot FROM pgwork.schedule)",
                                         "clock_timestamp() + interval '2 h'"};

    for (int i = 0; i < 2; i++) {
        char sql[200];

        snprintf(sql, sizeof(sql), "SELECT fired FROM pgwork._cron_tick(100, %s)", passes[i]);
        TEST_ASSERT_EQUAL_INT64(1, pgtemp_number(sql));
        TEST_ASSERT_EQUAL_INT64(i + 1, pgtemp_number("SELECT count(*) FROM pgwork.tick"));
        TEST_ASSERT_EQUAL_STRING("t",
                                 pgtemp_value("SELECT s.last_slot = max(t.slot) FROM "
                                              "pgwork.schedule s, pgwork.tick t GROUP BY s.id"));
    }
}

void test_after_a_clock_set_back_a_pause_and_a_resume_plan_from_now(void)
{
    pgw_cron_opts o = PGW_CRON_OPTS_INIT;

    o.queue = "q";
    create("s", "* * * * *", &o);
    clock_set_back();
    OK(pgw_cron_pause(h, "s"));
    OK(pgw_cron_resume(h, "s"));
    goes_on_from_now();
    clock_set_back();
    create("s", "*/2 * * * *", &o); /* as another expression does */
    goes_on_from_now();
}

/* ---- misfires ---- */

static void outage(const char *expression, pgw_misfire policy, int most, const char *until,
                   const char *expected)
{
    pgw_cron_opts o = PGW_CRON_OPTS_INIT;

    pgtemp_exec(
        "DELETE FROM pgwork.schedule; SELECT pgwork.queue_drop(name, true) FROM pgwork.queue");
    o.queue = "q", o.misfire = policy, o.misfire_max = most;
    create("s", expression, &o);
    planned_from("s", "2026-01-01 00:00 UTC");
    tick_at(until);
    TEST_ASSERT_NULL(pgtemp_value("SELECT error FROM pgwork.schedule"));
    if (expected == NULL) {
        TEST_ASSERT_NULL(slots());
    } else {
        TEST_ASSERT_EQUAL_STRING_MESSAGE(expected, slots(), until);
    }
    TEST_ASSERT_EQUAL_INT64(0, tick_at(until)); /* all has been decided */
}

void test_missed_ticks_follow_the_policy(void)
{
    /* on time, within the grace of a minute: all the same */
    outage("*/20 * * * * *", PGW_MISFIRE_ONCE, 1, "2026-01-01 00:00:45 UTC",
           "2026-01-01T00:00:20Z 2026-01-01T00:00:40Z");
    outage("*/20 * * * * *", PGW_MISFIRE_SKIP, 1, "2026-01-01 00:00:45 UTC",
           "2026-01-01T00:00:20Z 2026-01-01T00:00:40Z");
    outage("*/20 * * * * *", PGW_MISFIRE_ALL, 1, "2026-01-01 00:00:45 UTC",
           "2026-01-01T00:00:20Z 2026-01-01T00:00:40Z");
    outage("0 1 * * *", PGW_MISFIRE_SKIP, 1, "2026-01-01 01:01:00 UTC",
           "2026-01-01T01:00:00Z");                                                /* just */
    outage("0 1 * * *", PGW_MISFIRE_SKIP, 1, "2026-01-01 01:01:00.001 UTC", NULL); /* no more */
    outage("0 1 * * *", PGW_MISFIRE_ONCE, 1, "2026-01-01 01:01:00.001 UTC", "2026-01-01T01:00:00Z");
    /* a few minutes */
    outage("* * * * *", PGW_MISFIRE_SKIP, 1, "2026-01-01 00:04:30 UTC", "2026-01-01T00:04:00Z");
    outage("* * * * *", PGW_MISFIRE_ONCE, 1, "2026-01-01 00:04:30 UTC", "2026-01-01T00:04:00Z");
    outage("* * * * *", PGW_MISFIRE_ALL, 2, "2026-01-01 00:04:30 UTC",
           "2026-01-01T00:03:00Z 2026-01-01T00:04:00Z");
    outage("* * * * *", PGW_MISFIRE_ALL, 4, "2026-01-01 00:04:30 UTC",
           "2026-01-01T00:01:00Z 2026-01-01T00:02:00Z 2026-01-01T00:03:00Z 2026-01-01T00:04:00Z");
    outage("* * * * *", PGW_MISFIRE_ALL, 1000, "2026-01-01 00:03:00 UTC",
           "2026-01-01T00:01:00Z 2026-01-01T00:02:00Z 2026-01-01T00:03:00Z");
    /* a day, a month, a year */
    outage("30 2 * * *", PGW_MISFIRE_ONCE, 1, "2026-01-05 12:00 UTC", "2026-01-05T02:30:00Z");
    outage("30 2 * * *", PGW_MISFIRE_SKIP, 1, "2026-01-05 12:00 UTC", NULL);
    outage("30 2 * * *", PGW_MISFIRE_ALL, 3, "2026-02-05 12:00 UTC",
           "2026-02-03T02:30:00Z 2026-02-04T02:30:00Z 2026-02-05T02:30:00Z");
    outage("* * * * * *", PGW_MISFIRE_ALL, 3, "2027-01-01 00:00:00 UTC",
           "2026-12-31T23:59:58Z 2026-12-31T23:59:59Z 2027-01-01T00:00:00Z");
    outage("* * * * * *", PGW_MISFIRE_ONCE, 1, "2027-01-01 00:00:00.5 UTC", "2027-01-01T00:00:00Z");
    outage("@every 1h1m", PGW_MISFIRE_ALL, 2, "2027-01-01 00:00:00 UTC",
           "2026-12-31T22:35:00Z 2026-12-31T23:36:00Z");
    outage("30 2 * * *", PGW_MISFIRE_SKIP, 1, "2027-01-01 00:00 UTC", NULL);
    outage("*/30 * * * * *", PGW_MISFIRE_SKIP, 1, "2027-01-01 00:01:10 UTC",
           "2027-01-01T00:00:30Z 2027-01-01T00:01:00Z");
    outage("* * * * * mon", PGW_MISFIRE_ONCE, 1, "2026-12-31 00:00:00 UTC", "2026-12-28T23:59:59Z");
    outage("0 0 29 2 *", PGW_MISFIRE_ALL, 5, "2037-01-01 00:00:00 UTC",
           "2028-02-29T00:00:00Z 2032-02-29T00:00:00Z 2036-02-29T00:00:00Z");
}

void test_an_outage_of_a_year_is_made_up_for_exactly(void)
{
    pgw_cron_opts o = PGW_CRON_OPTS_INIT;

    o.queue = "q", o.misfire = PGW_MISFIRE_ALL, o.misfire_max = 1000, o.zone = "Europe/Berlin";
    create("s", "30 1,2 * * *", &o);
    planned_from("s", "2026-01-01 00:00 UTC");
    TEST_ASSERT_EQUAL_INT64(2 * 365, tick_at("2026-12-31 23:00 UTC"));
    TEST_ASSERT_EQUAL_INT64(2 * 365, pgtemp_number("SELECT count(DISTINCT tags) FROM pgwork.job"));
    TEST_ASSERT_EQUAL_INT64(
        100, pgtemp_number("SELECT count(*) FROM pgwork.tick")); /* the newest are kept */
    TEST_ASSERT_EQUAL_STRING("2026-12-31 01:30:00",
                             pgtemp_value("SELECT max(slot) AT TIME ZONE 'UTC' FROM pgwork.tick"));
}

void test_a_batch_bounds_what_is_made_up_for_at_once(void)
{
    pgw_cron_opts o = PGW_CRON_OPTS_INIT;

    o.queue = "q", o.misfire = PGW_MISFIRE_ALL, o.misfire_max = 1000;
    create("s", "* * * * *", &o);
    planned_from("s", "2026-01-01 00:00 UTC");
    for (int i = 0; i < 3; i++)
        TEST_ASSERT_EQUAL_STRING(i < 2 ? "4 0" : "2 60000",
                                 pgtemp_value("SELECT fired || ' ' || next_ms FROM "
                                              "pgwork._cron_tick(4, '2026-01-01 00:10:00 UTC')"));
    TEST_ASSERT_EQUAL_INT64(10, pgtemp_number("SELECT count(DISTINCT tags) FROM pgwork.job"));
}

/* ---- jitter ---- */

void test_jitter_is_decided_once_per_slot(void)
{
    pgw_cron_opts o = PGW_CRON_OPTS_INIT;

    o.queue = "q", o.jitter_ms = 30000;
    create("s", "* * * * *", &o);
    for (int i = 0; i < 2; i++) {
        pgtemp_exec("CREATE TEMP TABLE IF NOT EXISTS seen (slot timestamptz, late interval)");
        planned_from("s", "2026-01-01 00:00:30 UTC");
        pgtemp_exec("DO $$ DECLARE s pgwork.schedule; BEGIN SELECT * INTO s FROM pgwork.schedule; "
                    "FOR i IN 1 .. 200 LOOP "
                    "s := pgwork._cron_plan(s, pgwork._cron_parse(s.expression), now()); INSERT "
                    "INTO seen VALUES (s.next_slot, s.next_at - s.next_slot); "
                    "s.base := s.next_slot; END LOOP; END $$");
    }
    TEST_ASSERT_EQUAL_INT64(400, pgtemp_number("SELECT count(*) FROM seen"));
    TEST_ASSERT_EQUAL_INT64(200,
                            pgtemp_number("SELECT count(*) FROM (SELECT DISTINCT * FROM seen) s"));
    TEST_ASSERT_EQUAL_INT64(
        0,
        pgtemp_number("SELECT count(*) FROM seen WHERE late NOT BETWEEN '0' AND interval '30 s'"));
    TEST_ASSERT_TRUE(pgtemp_number("SELECT count(DISTINCT late) FROM seen") > 150);
    TEST_ASSERT_TRUE(
        pgtemp_number("SELECT extract(epoch FROM max(late) - min(late))::int FROM seen") > 20);
    planned_from("s", "2026-01-01 00:00:30 UTC");
    TEST_ASSERT_EQUAL_INT64(1, tick_at("2026-01-01 00:01:30 UTC"));
    TEST_ASSERT_EQUAL_STRING("2026-01-01T00:01:00Z", slots());
}

/* Three hours were missed; the fourth has come, and its jitter has not passed. */
static void missed_but_for_the_last(pgw_misfire policy, int most, const char *expected)
{
    static const char before[] =
        "SELECT string_agg((h - substring(tags[array_length(tags, 1)] FROM "
        "6)::timestamptz)::text, ' ' ORDER BY id) FROM late, pgwork.job";
    pgw_cron_opts o = PGW_CRON_OPTS_INIT;
    char all[100];

    pgtemp_exec("DELETE FROM pgwork.schedule; SELECT pgwork.queue_drop(name, true) FROM "
                "pgwork.queue");
    o.queue = "q", o.misfire = policy, o.misfire_max = most, o.jitter_ms = 1800000;
    create("s", "0 * * * *", &o);
    pgtemp_exec(
        "DROP TABLE IF EXISTS late; CREATE TEMP TABLE late AS SELECT h, h + j AS comes FROM "
        "pgwork.schedule s, generate_series('2026-01-01 04:00 UTC'::timestamptz, '2026-02-01 "
        "UTC', '1 h') h, pgwork._cron_jitter(s, h) j WHERE j > '1 s' ORDER BY h LIMIT 1; "
        "UPDATE pgwork.schedule SET base = h - interval '4 h', next_at = '-infinity' FROM "
        "late");
    pgtemp_exec("SELECT pgwork._cron_tick(100, h + interval '1 s') FROM late");
    TEST_ASSERT_EQUAL_STRING(expected, pgtemp_value(before));
    TEST_ASSERT_EQUAL_INT64(
        0, pgtemp_number("SELECT t.fired FROM late, pgwork._cron_tick(100, h + interval '1 s') t"));
    TEST_ASSERT_EQUAL_INT64(
        1, pgtemp_number("SELECT t.fired FROM late, pgwork._cron_tick(100, comes) t"));
    snprintf(all, sizeof(all), "%s 00:00:00", expected);
    TEST_ASSERT_EQUAL_STRING(all, pgtemp_value(before));
}

void test_a_tick_that_jitter_delays_is_neither_missed_nor_due(void)
{
    missed_but_for_the_last(PGW_MISFIRE_ONCE, 1, "01:00:00");
    missed_but_for_the_last(PGW_MISFIRE_ALL, 2, "02:00:00 01:00:00");
    missed_but_for_the_last(PGW_MISFIRE_ALL, 3, "03:00:00 02:00:00 01:00:00");
    missed_but_for_the_last(PGW_MISFIRE_ALL, 4, "03:00:00 02:00:00 01:00:00");
}

/* ---- what can be said about a schedule ---- */

void test_creating_a_schedule_again_changes_no_plan(void)
{
    pgw_cron_opts o = PGW_CRON_OPTS_INIT;
    int64_t first, again;

    o.queue = "q";
    OK(pgw_cron_create(h, "s", "@every 1h", &o, &first));
    pgtemp_exec("UPDATE pgwork.schedule SET base = base - interval '30 min', anchor = anchor - "
                "interval '30 min'");
    o.misfire = PGW_MISFIRE_ALL;
    OK(pgw_cron_create(h, "s", "@every 1h", &o, &again));
    TEST_ASSERT_EQUAL_INT64(first - INT64_C(1800000000), again);
    TEST_ASSERT_EQUAL_STRING("all", pgtemp_value("SELECT misfire FROM pgwork.schedule"));
    OK(pgw_cron_create(h, "s", "@every 2h", &o, &again));
    TEST_ASSERT_TRUE(again >= first + INT64_C(3600000000));
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number("SELECT count(*) FROM pgwork.schedule"));
}

/* By the time that it can be said again, nobody has it any more. */
void test_one_that_goes_meanwhile_is_made(void)
{
    static const char *const goes[] = {"SELECT pgwork.cron_drop('s'); COMMIT",
                                       "SELECT pgwork.cron_rename('s', 't'); COMMIT"};
    struct pg_conn *other = pgtemp_connect(), *maker = pgtemp_connect();
    char waits[100];

    snprintf(waits, sizeof(waits), "SELECT cardinality(pg_blocking_pids(%d))", PQbackendPID(maker));
    for (int i = 0; i < 2; i++) {
        PGresult *r;

        create("s", "@daily", NULL);
        PQclear(PQexec(other, "BEGIN; SELECT pgwork.cron_pause('s')"));
        TEST_ASSERT_EQUAL_INT(1, PQsendQuery(maker, "SELECT pgwork.cron_create('s', '@hourly')"));
        while (pgtemp_number(waits) == 0) poll(NULL, 0, 2);
        PQclear(PQexec(other, goes[i]));
        r = PQgetResult(maker);
        TEST_ASSERT_EQUAL_STRING("", PQresultErrorMessage(r));
        PQclear(r);
        TEST_ASSERT_NULL(PQgetResult(maker));
        TEST_ASSERT_EQUAL_STRING("@hourly f",
                                 pgtemp_value("SELECT concat_ws(' ', expression, paused) FROM "
                                              "pgwork.schedule WHERE name = 's'"));
    }
    PQfinish(other);
    PQfinish(maker);
}

void test_a_paused_schedule_has_no_tick_until_it_is_resumed(void)
{
    pgw_cron_opts o = PGW_CRON_OPTS_INIT;
    int64_t job = -1, next = -1;

    o.queue = "q";
    create("s", yearly, &o);
    OK(pgw_cron_pause(h, "s"));
    OK(pgw_cron_pause(h, "s"));
    OK(pgw_cron_create(h, "s", yearly, &o, &next));
    TEST_ASSERT_EQUAL_INT64(0, next);
    planned_from("s", "2025-06-01 00:00 UTC");
    TEST_ASSERT_EQUAL_INT64(0, tick_at("2026-01-01 01:00 UTC"));
    OK(pgw_cron_run(h, "s", &job));
    TEST_ASSERT_EQUAL_INT64(job, pgtemp_number("SELECT id FROM pgwork.job"));
    TEST_ASSERT_EQUAL_STRING("t", pgtemp_value("SELECT last_slot = t.slot AND last_at = t.slot "
                                               "FROM pgwork.schedule, pgwork.tick t"));
    OK(pgw_cron_resume(h, "s"));
    TEST_ASSERT_EQUAL_INT64(
        1, pgtemp_number("SELECT (next_slot > clock_timestamp())::int FROM pgwork.schedule"));
    OK(pgw_cron_tick(h, NULL, NULL));
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number("SELECT count(*) FROM pgwork.job"));
}

static int keep_info(const pgw_cron_info *info, void *arg)
{
    char *text = arg;

    sprintf(text + strlen(text), "%s %s %s %s %d %s %s|", info->name, info->expression, info->zone,
            info->queue != NULL ? info->queue : "-", (int)info->misfire,
            info->paused ? "paused" : "on", info->next_us > 0 ? "next" : "-");
    return 0;
}

void test_schedules_are_renamed_dropped_and_listed(void)
{
    pgw_cron_opts o = PGW_CRON_OPTS_INIT;
    char text[500] = "";

    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY, pgw_crons_each(h, NULL, keep_info, text));
    o.queue = "q", o.misfire = PGW_MISFIRE_SKIP;
    create("b", "@daily", &o);
    create("a \"'; DROP", "0 0 * * *", NULL);
    OK(pgw_cron_rename(h, "b", "caf\xc3\xa9"));
    TEST_ASSERT_EQUAL(PGW_EEXISTS, pgw_cron_rename(h, "caf\xc3\xa9", "a \"'; DROP"));
    TEST_ASSERT_EQUAL(PGW_ENOTFOUND, pgw_cron_rename(h, "b", "c"));
    OK(pgw_cron_pause(h, "caf\xc3\xa9"));
    OK(pgw_crons_each(h, NULL, keep_info, text));
    TEST_ASSERT_EQUAL_STRING(
        "a \"'; DROP 0 0 * * * UTC - 0 on next|caf\xc3\xa9 @daily UTC q 1 paused -|", text);
    OK(pgw_cron_drop(h, "caf\xc3\xa9"));
    TEST_ASSERT_EQUAL(PGW_ENOTFOUND, pgw_cron_drop(h, "caf\xc3\xa9"));
    TEST_ASSERT_EQUAL(PGW_ENOTFOUND, pgw_cron_pause(h, "caf\xc3\xa9"));
    TEST_ASSERT_EQUAL(PGW_ENOTFOUND, pgw_cron_run(h, "caf\xc3\xa9", NULL));
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY, pgw_crons_each(h, "caf\xc3\xa9", keep_info, text));
}

void test_invalid_schedules_are_refused(void)
{
    pgw_cron_opts o = PGW_CRON_OPTS_INIT;
    char fault[160];

    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_cron_create(h, "s", "* * 32 * *", NULL, NULL));
    TEST_ASSERT_EQUAL_STRING("argument expression is \"* * 32 * *\": day of month field, "
                             "column 5: expected * or 1..31, got \"32\"",
                             pgw_error_message(h));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_cron_check("* * 32 * *", fault, sizeof(fault)));
    TEST_ASSERT_EQUAL_STRING("day of month field, column 5: expected * or 1..31, got \"32\"",
                             fault);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_cron_check("* * 31 * *", fault, sizeof(fault)));
    TEST_ASSERT_EQUAL_STRING("", fault);
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_cron_create(h, "s", NULL, NULL, NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_cron_create(h, "", "* * * * *", NULL, NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_cron_create(h, "s", "* * * * *\xff", NULL, NULL));
    o.zone = "Europe/Berlinn";
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_cron_create(h, "s", "* * * * *", &o, NULL));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_message(h), "zone is \"Europe/Berlinn\""));
    o.zone = "CET-1CEST"; /* no name of a zone, though the server could read it */
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_cron_create(h, "s", "* * * * *", &o, NULL));
    o.zone = NULL, o.jitter_ms = 3600001;
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_cron_create(h, "s", "* * * * *", &o, NULL));
    o.jitter_ms = 0, o.misfire = PGW_MISFIRE_SKIP, o.grace_ms = 999; /* it would never run */
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_cron_create(h, "s", "* * * * *", &o, NULL));
    {
        struct pg_conn *conn = pgtemp_connect();
        PGresult *r = PQexec(conn, "SELECT pgwork.cron_create('s', '* * * * *', misfire => 'skip', "
                                   "grace_ms => 999)");

        TEST_ASSERT_EQUAL_STRING("PW001", PQresultErrorField(r, PG_DIAG_SQLSTATE));
        TEST_ASSERT_NOT_NULL(strstr(PQresultErrorMessage(r),
                                    "argument grace_ms is \"999\": expected 1000..86400000"));
        PQclear(r);
        PQfinish(conn);
    }
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT count(*) FROM pgwork.schedule"));
    o.grace_ms = 1000;
    create("s", "* * * * *", &o);
    o.misfire = PGW_MISFIRE_ONCE, o.grace_ms = 0;
    create("s", "* * * * *", &o);
}

static int ignore_time(int64_t at_us, const char *local, void *arg)
{
    return 0;
}

/* The server computes by the abbreviation, which has no summer time; and what it is, is a matter of
 * the session. */
void test_a_zone_that_may_be_taken_for_an_abbreviation_is_refused(void)
{
    static const struct {
        const char *zone;
        pgw_status expected;
    } cases[] = {{"CET", PGW_EINVAL}, {"eet", PGW_EINVAL},   {"MET", PGW_EINVAL},
                 {"WET", PGW_EINVAL}, {"EST", PGW_EINVAL},   {"mst", PGW_EINVAL},
                 {"HST", PGW_EINVAL}, {"GMT", PGW_OK},       {"utc", PGW_OK},
                 {"UCT", PGW_OK},     {"Asia/Tokyo", PGW_OK}};
    pgw_cron_opts o = PGW_CRON_OPTS_INIT;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *zone = cases[i].zone;
        char sql[300];

        snprintf(sql, sizeof(sql),
                 "SELECT count(*) FROM pg_timezone_names WHERE lower(name) = lower('%s')", zone);
        if (pgtemp_number(sql) == 0) continue; /* tzdata without the old names */
        o.zone = zone;
        TEST_ASSERT_EQUAL_MESSAGE(cases[i].expected, pgw_cron_create(h, "s", "0 0 * * *", &o, NULL),
                                  zone);
        TEST_ASSERT_EQUAL_MESSAGE(
            cases[i].expected,
            pgw_cron_next(h, "0 0 * * *", TIMES(zone, PGW_NONE, 1), ignore_time, NULL), zone);
        if (cases[i].expected != PGW_OK) ASSERT_HAS("Europe/Berlin", pgw_error_message(h));
    }
    /* nor is what is no name of a zone at all */
    TEST_ASSERT_EQUAL(PGW_EINVAL,
                      pgw_cron_next(h, "0 0 * * *", TIMES("CEST", PGW_NONE, 1), ignore_time, NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_cron_next(h, "0 0 * * *", TIMES("CET-1CEST", PGW_NONE, 1),
                                                ignore_time, NULL));
}

/* ---- one fails alone ---- */

void test_a_zone_that_is_gone_stops_its_schedule_alone(void)
{
    pgw_cron_opts o = PGW_CRON_OPTS_INIT;

    o.queue = "q";
    create("bad", "* * * * *", &o);
    create("good", "* * * * *", &o);
    planned_from("bad", "2026-01-01 00:00:30 UTC");
    planned_from("good", "2026-01-01 00:00:30 UTC");
    pgtemp_exec("UPDATE pgwork.schedule SET zone = 'Atlantis/Capital' WHERE name = 'bad'");
    TEST_ASSERT_EQUAL_INT64(1, tick_at("2026-01-01 00:01 UTC"));
    TEST_ASSERT_EQUAL_STRING("good",
                             pgtemp_value("SELECT substring(tags[1] FROM 10) FROM pgwork.job"));
    TEST_ASSERT_NOT_NULL(strstr(
        pgtemp_value("SELECT error FROM pgwork.schedule WHERE name = 'bad'"), "Atlantis/Capital"));
    TEST_ASSERT_NULL(pgtemp_value("SELECT error FROM pgwork.schedule WHERE name = 'good'"));
    pgtemp_exec(
        "UPDATE pgwork.schedule SET zone = 'UTC' WHERE name = 'bad'"); /* the zone is back */
    TEST_ASSERT_EQUAL_INT64(1, tick_at("2026-01-01 00:01:10 UTC"));
    TEST_ASSERT_NULL(pgtemp_value("SELECT error FROM pgwork.schedule WHERE name = 'bad'"));
}

/* An ASSERT that fails is no error to WHEN OTHERS. */
void test_a_failed_assert_of_a_trigger_stops_only_its_schedule(void)
{
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_cron_opts o = PGW_CRON_OPTS_INIT;

    o.queue = "q", o.job = &job, job.kind = "bad";
    create("bad", "* * * * *", &o);
    o.job = NULL;
    create("good", "* * * * *", &o);
    planned_from("bad", "2026-01-01 00:00:30 UTC");
    planned_from("good", "2026-01-01 00:00:30 UTC");
    pgtemp_exec("CREATE FUNCTION strict() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ASSERT "
                "NEW.kind <> 'bad', 'a bad one'; RETURN NEW; END $$;"
                "CREATE TRIGGER strict BEFORE INSERT ON pgwork.live_job FOR EACH ROW EXECUTE "
                "FUNCTION strict()");
    TEST_ASSERT_EQUAL_INT64(1, tick_at("2026-01-01 00:01 UTC"));
    pgtemp_exec("DROP FUNCTION strict() CASCADE");
    TEST_ASSERT_EQUAL_STRING("bad: a bad one",
                             pgtemp_value("SELECT string_agg(name || ': ' || error, ', ') FROM "
                                          "pgwork.schedule WHERE error IS NOT NULL"));
}

void test_a_drained_queue_is_an_error_and_then_a_misfire(void)
{
    pgw_cron_opts o = PGW_CRON_OPTS_INIT;

    o.queue = "q";
    create("s", "* * * * *", &o);
    OK(pgw_queue_create(h, "q", NULL));
    OK(pgw_queue_drain(h, "q"));
    planned_from("s", "2026-01-01 00:00:30 UTC");
    TEST_ASSERT_EQUAL_INT64(0, tick_at("2026-01-01 00:01 UTC"));
    TEST_ASSERT_NOT_NULL(strstr(pgtemp_value("SELECT error FROM pgwork.schedule"), "drained"));
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT count(*) FROM pgwork.tick"));
    TEST_ASSERT_EQUAL(PGW_EPAUSED, pgw_cron_run(h, "s", NULL));
    OK(pgw_queue_resume(h, "q"));
    TEST_ASSERT_EQUAL_INT64(1, tick_at("2026-01-01 00:05:30 UTC"));
    TEST_ASSERT_EQUAL_STRING("2026-01-01T00:05:00Z", slots());
}

/* An open transaction holds the key of them all: a pass of the reaper may not wait for each, and
 * comes to the others all the same. */
void test_many_blocked_schedules_do_not_hold_up_a_pass(void)
{
    enum { BLOCKED = 60 };
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_cron_opts o = PGW_CRON_OPTS_INIT;
    struct pg_conn *holder = pgtemp_connect();

    job.key = "held", o.job = &job, o.queue = "q";
    for (int i = 0; i < BLOCKED; i++) {
        char name[32];

        snprintf(name, sizeof(name), "blocked %d", i);
        create(name, "0 0 * * *", &o);
        planned_from(name, "2026-01-01 12:00 UTC");
    }
    o.job = NULL, o.queue = "free";
    create("free", "0 0 * * *", &o);
    planned_from("free", "2026-01-01 12:00 UTC");
    pgtemp_exec("UPDATE pgwork.schedule SET next_at = '2026-01-01 23:59:59 UTC'; UPDATE "
                "pgwork.schedule SET next_at = '2026-01-02 UTC' WHERE name = 'free'");
    PQclear(PQexec(holder, "BEGIN"));
    PQclear(PQexec(holder, "SELECT pgwork.enqueue('q', key => 'held')"));

    tick_at("2026-01-02 00:00 UTC");
    TEST_ASSERT_LESS_THAN_INT64(
        BLOCKED, pgtemp_number("SELECT count(*) FROM pgwork.schedule WHERE error IS NOT NULL"));
    for (int i = 0; i < BLOCKED && slots() == NULL; i++) tick_at("2026-01-02 00:00 UTC");
    TEST_ASSERT_EQUAL_STRING("2026-01-02T00:00:00Z", slots());
    TEST_ASSERT_EQUAL_INT64(
        BLOCKED, pgtemp_number("SELECT count(*) FROM pgwork.schedule WHERE error IS NOT NULL"));
    PQclear(PQexec(holder, "ROLLBACK"));
    PQfinish(holder);
    TEST_ASSERT_EQUAL_INT64(BLOCKED, tick_at("2026-01-02 00:00:30 UTC"));
    TEST_ASSERT_EQUAL_INT64(
        0, pgtemp_number("SELECT count(*) FROM pgwork.schedule WHERE error IS NOT NULL"));
}

void test_new_rules_of_a_zone_take_effect(void)
{
    pgw_cron_opts o = PGW_CRON_OPTS_INIT;

    /* What was planned by other rules, an hour early and an hour late. */
    o.queue = "q";
    create("s", "0 12 * * *", &o);
    pgtemp_exec("UPDATE pgwork.schedule SET base = '2026-01-01 UTC', next_slot = '2026-01-01 11:00 "
                "UTC', next_at = '2026-01-01 11:00 UTC', planned_at = '2026-01-01 UTC'");
    TEST_ASSERT_EQUAL_INT64(0, tick_at("2026-01-01 11:00 UTC"));
    pgtemp_exec("UPDATE pgwork.schedule SET next_slot = '2026-01-01 13:00 UTC', next_at = "
                "'2026-01-01 13:00 UTC'");
    TEST_ASSERT_EQUAL_INT64(1, tick_at("2026-01-01 12:00:01 UTC"));
    TEST_ASSERT_EQUAL_STRING("2026-01-01T12:00:00Z", slots());
}

static int keep_findings(const pgw_finding *f, void *arg)
{
    char *text = arg;

    if (strcmp(f->check, "schedules") == 0)
        sprintf(text + strlen(text), "%d %s|", (int)f->grade, f->text);
    return 0;
}

void test_the_doctor_checks_schedules(void)
{
    pgw_cron_opts o = PGW_CRON_OPTS_INIT;
    char text[2000] = "";

    OK(pgw_doctor(h, keep_findings, text));
    TEST_ASSERT_EQUAL_STRING("0 0 schedules, none with a fault|", text);
    o.queue = "q";
    create("gone", "* * * * *", &o);
    create("late", "* * * * *", NULL);
    create("ahead", "* * * * *", &o);
    create("shut", "* * * * *", &o);
    OK(pgw_cron_pause(h, "shut"));
    create("asked", "0 0 1 1 *", NULL);
    OK(pgw_cron_pause(h, "asked"));
    OK(pgw_cron_run(h, "asked", NULL));
    pgtemp_exec("UPDATE pgwork.schedule SET asked = asked - interval '5 min'");
    pgtemp_exec(
        "UPDATE pgwork.schedule SET zone = 'Nowhere', next_at = '-infinity' WHERE name = 'gone'");
    OK(pgw_cron_tick(h, NULL, NULL));
    pgtemp_exec("UPDATE pgwork.schedule SET next_at = clock_timestamp() - interval '5 min' "
                "WHERE name = 'late'; "
                "UPDATE pgwork.schedule SET base = '2999-01-01 UTC', next_at = '2999-01-01 UTC' "
                "WHERE name = 'ahead'");
    *text = '\0';
    OK(pgw_doctor(h, keep_findings, text));
    ASSERT_HAS("2 schedule \"gone\" does not run: time zone \"Nowhere\" not recognized|", text);
    ASSERT_HAS("2 schedule \"late\" is overdue by 00:05:", text);
    ASSERT_HAS("2 schedule \"asked\" is overdue by 00:05:", text); /* a tick out of turn */
    ASSERT_HAS("1 schedule \"ahead\" has recorded ticks up to 2999-01-01", text);
    ASSERT_HAS("1 schedule \"shut\" is paused|", text);
}

/* ---- ticks that a node holds ---- */

static pgw_tick *claimed(const char *node)
{
    pgw_tick *tick;
    int64_t next_ms;

    OK(pgw_cron_claim_due(h, DUE_FOR(node, NULL, 0), &tick, &next_ms));
    return tick;
}

void test_a_node_holds_a_tick_until_it_is_finished(void)
{
    static const char *const others[] = {"elsewhere"};
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_cron_opts o = PGW_CRON_OPTS_INIT;
    pgw_tick *tick, *second;
    int64_t next_ms = 0, until = 0, first_number;
    size_t size;

    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY,
                      pgw_cron_claim_due(h, DUE_FOR("n1", NULL, 0), &tick, &next_ms));
    TEST_ASSERT_NULL(tick);
    TEST_ASSERT_EQUAL_INT64(60000, next_ms);
    TEST_ASSERT_EQUAL_STRING("60000", pgtemp_value("SELECT next_ms FROM pgwork.cron_claim('n1')"));
    job.kind = "sweep", job.payload = "[1]", job.body = "a\0b", job.body_size = 3;
    o.job = &job;
    create("s", yearly, &o);
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY,
                      pgw_cron_claim_due(h, DUE_FOR("n1", NULL, 0), &tick, &next_ms));
    TEST_ASSERT_TRUE(next_ms >= 1 && next_ms <= 60000);
    pgtemp_exec(
        "UPDATE pgwork.schedule SET base = clock_timestamp() - interval '10 years', next_at "
        "= '-infinity'");
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY,
                      pgw_cron_claim_due(h, DUE_FOR("n1", others, 1), &tick, NULL));
    tick = claimed("n1");
    first_number = (int64_t)pgw_tick_token(tick).number;
    TEST_ASSERT_EQUAL_STRING("s", pgw_tick_schedule(tick));
    TEST_ASSERT_EQUAL_STRING("sweep", pgw_tick_kind(tick));
    TEST_ASSERT_EQUAL_STRING("[1]", pgw_tick_payload(tick));
    TEST_ASSERT_EQUAL_MEMORY("a\0b", pgw_tick_body(tick, &size), 3);
    TEST_ASSERT_EQUAL_size_t(3, size);
    TEST_ASSERT_EQUAL_INT(1, pgw_tick_attempt(tick));
    TEST_ASSERT_EQUAL_INT64(
        pgtemp_number("SELECT extract(epoch FROM date_trunc('year', clock_timestamp() AT TIME ZONE "
                      "'UTC'))::bigint * 1000000"),
        pgw_tick_slot_us(tick)); /* the latest of ten */
    TEST_ASSERT_TRUE(pgw_tick_until_us(tick) > pgw_tick_slot_us(tick));
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY,
                      pgw_cron_claim_due(h, DUE_FOR("n2", NULL, 0), &second, &next_ms));
    TEST_ASSERT_NULL(second);
    OK(pgw_cron_extend(h, pgw_tick_token(tick), 600000, &until));
    TEST_ASSERT_TRUE(until > pgw_tick_until_us(tick));
    OK(pgw_cron_finish(h, pgw_tick_token(tick), NULL));
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_cron_finish(h, pgw_tick_token(tick), NULL));
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_cron_extend(h, pgw_tick_token(tick), PGW_DEFAULT, NULL));
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_cron_release(h, pgw_tick_token(tick)));
    pgw_tick_free(tick);
    TEST_ASSERT_EQUAL_STRING(
        "n1 1 t",
        pgtemp_value(
            "SELECT concat_ws(' ', holder, attempt, finished_at IS NOT NULL) FROM pgwork.tick"));

    pgtemp_exec("UPDATE pgwork.schedule SET base = base - interval '10 years', next_at = "
                "'-infinity'"); /* decided slots do not come again */
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY,
                      pgw_cron_claim_due(h, DUE_FOR("n2", NULL, 0), &tick, NULL));
    OK(pgw_cron_run(h, "s", NULL));
    OK(pgw_cron_run(h, "s", &next_ms));
    TEST_ASSERT_EQUAL_INT64(0, next_ms);
    tick = claimed("n2");
    TEST_ASSERT_TRUE((int64_t)pgw_tick_token(tick).number > first_number);
    OK(pgw_cron_finish(h, pgw_tick_token(tick), "no space left"));
    TEST_ASSERT_EQUAL_STRING(
        "no space left", pgtemp_value("SELECT error FROM pgwork.tick ORDER BY slot DESC LIMIT 1"));
    pgw_tick_free(tick);
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY,
                      pgw_cron_claim_due(h, DUE_FOR("n2", NULL, 0), &tick, NULL)); /* one */
}

/* In psql, say: the row is passed over, but what others see of it is due all the time. */
void test_a_due_tick_locked_by_an_open_transaction_is_polled_with_pauses(void)
{
    struct pg_conn *open = pgtemp_connect();
    pgw_cron_opts o = PGW_CRON_OPTS_INIT;
    pgw_tick *tick;
    int64_t next_ms = 0, fired = 0;
    PGresult *r;

    o.queue = "q";
    create("held", yearly, NULL);
    create("later", yearly, NULL);
    create("job", yearly, &o);
    OK(pgw_cron_run(h, "held", NULL));
    planned_from("job", "2020-01-01 UTC");
    PQclear(PQexec(open, "BEGIN"));
    r = PQexec(open, "SELECT schedule, fired FROM pgwork.cron_claim('me'), pgwork.cron_tick()");
    TEST_ASSERT_EQUAL_STRING("held", PQgetvalue(r, 0, 0));
    TEST_ASSERT_EQUAL_STRING("1", PQgetvalue(r, 0, 1));
    PQclear(r);
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY,
                      pgw_cron_claim_due(h, DUE_FOR("n", NULL, 0), &tick, &next_ms));
    TEST_ASSERT_EQUAL_INT64(500, next_ms);
    OK(pgw_cron_tick(h, &fired, &next_ms));
    TEST_ASSERT_EQUAL_INT64(0, fired);
    TEST_ASSERT_EQUAL_INT64(250, next_ms);
    TEST_ASSERT_EQUAL_STRING(/* another that comes sooner is not forgotten */
                             "100",
                             pgtemp_value(
                                 "SELECT next_ms FROM pgwork._cron_claim('n', NULL, (SELECT "
                                 "next_at - "
                                 "interval '100 ms' FROM pgwork.schedule WHERE name = 'later'))"));
    TEST_ASSERT_EQUAL(PQTRANS_INTRANS, PQtransactionStatus(open));
    PQclear(PQexec(open, "ROLLBACK"));
    PQfinish(open);
    tick = claimed("n");
    TEST_ASSERT_EQUAL_STRING("held", pgw_tick_schedule(tick));
    pgw_tick_free(tick);
    OK(pgw_cron_tick(h, &fired, &next_ms));
    TEST_ASSERT_EQUAL_INT64(1, fired);
}

/* The slot that a node gets whose clock shows this; it is done with it at once. */
static const char *claimed_at(const char *instant)
{
    char sql[200];
    const char *slot;

    snprintf(sql, sizeof(sql),
             "SELECT slot AT TIME ZONE 'UTC' FROM pgwork._cron_claim('n', NULL, '%s')", instant);
    slot = pgtemp_value(sql);
    pgtemp_exec("SELECT pgwork.cron_finish(token) FROM pgwork.schedule");
    return slot;
}

void test_a_held_tick_waits_for_the_disk_whatever_its_session_has_set(void)
{
    static const char setting[] = "SELECT current_setting('synchronous_commit')";

    create("s", "* * * * *", NULL);
    pgtemp_exec("SET synchronous_commit = off; BEGIN; SELECT pgwork.cron_run('s')");
    TEST_ASSERT_EQUAL_STRING("off", pgtemp_value(setting));
    TEST_ASSERT_EQUAL_STRING("s", pgtemp_value("SELECT schedule FROM pgwork.cron_claim('n')"));
    TEST_ASSERT_EQUAL_STRING("on", pgtemp_value(setting));
    pgtemp_exec("COMMIT; BEGIN");
    TEST_ASSERT_EQUAL_STRING(
        "t", pgtemp_value("SELECT pgwork.cron_extend(token) > now() FROM pgwork.schedule"));
    TEST_ASSERT_EQUAL_STRING("on", pgtemp_value(setting));
    pgtemp_exec("COMMIT; RESET synchronous_commit");
}

void test_held_ticks_that_were_missed_come_one_by_one(void)
{
    pgw_cron_opts o = PGW_CRON_OPTS_INIT;

    o.misfire = PGW_MISFIRE_ALL, o.misfire_max = 3;
    create("s", "* * * * *", &o);
    planned_from("s", "2026-01-01 00:00 UTC");
    TEST_ASSERT_EQUAL_STRING("2026-01-01 00:03:00", claimed_at("2026-01-01 00:05:30 UTC"));
    TEST_ASSERT_EQUAL_STRING("2026-01-01 00:04:00", claimed_at("2026-01-01 00:05:30 UTC"));
    TEST_ASSERT_EQUAL_STRING("2026-01-01 00:06:00", claimed_at("2026-01-01 00:08:30 UTC"));
    TEST_ASSERT_EQUAL_STRING("2026-01-01 00:07:00", claimed_at("2026-01-01 00:08:30 UTC"));
    TEST_ASSERT_EQUAL_STRING("2026-01-01 00:08:00", claimed_at("2026-01-01 00:08:30 UTC"));
    TEST_ASSERT_NULL(claimed_at("2026-01-01 00:08:30 UTC"));
}

/* Without a reaper; planned an hour early and an hour late, as above. */
void test_nodes_hear_of_new_rules_of_a_zone(void)
{
    create("s", "0 12 * * *", NULL);
    pgtemp_exec("UPDATE pgwork.schedule SET base = '2026-01-01 UTC', next_slot = '2026-01-01 11:00 "
                "UTC', next_at = '2026-01-01 11:00 UTC', planned_at = '2026-01-01 UTC'");
    TEST_ASSERT_NULL(claimed_at("2026-01-01 11:00 UTC"));
    pgtemp_exec("UPDATE pgwork.schedule SET next_slot = '2026-01-01 13:00 UTC', next_at = "
                "'2026-01-01 13:00 UTC'");
    TEST_ASSERT_EQUAL_STRING("2026-01-01 12:00:00", claimed_at("2026-01-01 12:00:01 UTC"));
}

/* Of a clock that was ahead, and still to come: its node is at it. */
void test_a_resume_leaves_the_tick_that_is_held(void)
{
    pgw_tick *tick;

    create("s", "@every 1h", NULL);
    OK(pgw_cron_run(h, "s", NULL));
    tick = claimed("n1");
    pgtemp_exec("UPDATE pgwork.schedule SET slot = slot + interval '2 h'; UPDATE pgwork.tick SET "
                "slot = slot + interval '2 h'");
    OK(pgw_cron_pause(h, "s"));
    OK(pgw_cron_resume(h, "s"));
    OK(pgw_cron_finish(h, pgw_tick_token(tick), NULL));
    pgw_tick_free(tick);
    TEST_ASSERT_EQUAL_STRING("n1 t", pgtemp_value("SELECT concat_ws(' ', holder, finished_at IS "
                                                  "NOT NULL) FROM pgwork.tick"));
}

void test_a_released_tick_goes_to_another_node_uncharged(void)
{
    pgw_tick *tick;
    uint64_t fence;

    create("s", "@every 1h", NULL);
    OK(pgw_cron_run(h, "s", NULL));
    tick = claimed("n1");
    fence = pgw_tick_token(tick).number;
    OK(pgw_cron_release(h, pgw_tick_token(tick)));
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_cron_finish(h, pgw_tick_token(tick), NULL));
    pgw_tick_free(tick);
    tick = claimed("n2");
    TEST_ASSERT_EQUAL_INT(1, pgw_tick_attempt(tick));
    TEST_ASSERT_GREATER_THAN_UINT64(fence, pgw_tick_token(tick).number);
    OK(pgw_cron_drop(h, "s"));
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_cron_finish(h, pgw_tick_token(tick), NULL));
    pgw_tick_free(tick);
}

/* Else a dump could not be restored: no schedule has such a tick. */
void test_a_drop_takes_the_ticks_along_where_no_trigger_fires(void)
{
    create("s", yearly, NULL);
    OK(pgw_cron_run(h, "s", NULL));
    pgw_tick_free(claimed("n1"));
    pgtemp_exec("SET session_replication_role = replica; SELECT pgwork.cron_drop('s')");
    pgtemp_exec("RESET session_replication_role");
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT count(*) FROM pgwork.tick"));
}

/* Its ticks are jobs from now on: no node has one, and none is asked for. */
void test_a_schedule_that_gets_a_queue_ends_its_tick(void)
{
    pgw_cron_opts o = PGW_CRON_OPTS_INIT;
    pgw_tick *tick;

    create("s", "@every 1h", NULL);
    OK(pgw_cron_run(h, "s", NULL));
    tick = claimed("n1");
    OK(pgw_cron_run(h, "s", NULL));
    create("s", "@every 1h", NULL); /* no change */
    OK(pgw_cron_extend(h, pgw_tick_token(tick), 600000, NULL));
    o.queue = "q";
    create("s", "@every 1h", &o);
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_cron_extend(h, pgw_tick_token(tick), PGW_DEFAULT, NULL));
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_cron_finish(h, pgw_tick_token(tick), NULL));
    pgw_tick_free(tick);
    TEST_ASSERT_EQUAL_STRING("0", pgtemp_value("SELECT concat_ws(' ', slot, token, holder, since, "
                                               "until, asked, attempt) FROM pgwork.schedule"));
    TEST_ASSERT_EQUAL_STRING(
        "n1 t given up: the schedule has a queue now",
        pgtemp_value("SELECT concat_ws(' ', holder, finished_at IS NOT NULL, error) FROM "
                     "pgwork.tick"));
    create("s", "@every 1h", NULL);
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY,
                      pgw_cron_claim_due(h, DUE_FOR("n2", NULL, 0), &tick, NULL));
}

/* A claim that came back to it at once would never end. */
void test_a_tick_out_of_turn_that_cannot_be_planned_is_tried_later(void)
{
    pgw_tick *tick;
    int64_t next_ms = 0;

    create("bad", yearly, NULL);
    create("good", yearly, NULL);
    pgtemp_exec("UPDATE pgwork.schedule SET zone = 'Atlantis/Capital' WHERE name = 'bad'");
    OK(pgw_cron_run(h, "bad", NULL));
    OK(pgw_cron_run(h, "good", NULL));
    pgw_set_timeout(h, 10000);
    tick = claimed("n1");
    TEST_ASSERT_EQUAL_STRING("good", pgw_tick_schedule(tick));
    pgw_tick_free(tick);
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY,
                      pgw_cron_claim_due(h, DUE_FOR("n1", NULL, 0), &tick, &next_ms));
    TEST_ASSERT_INT64_WITHIN(5000, 5001, next_ms); /* ten seconds, less what has passed */
    TEST_ASSERT_NOT_NULL(strstr(
        pgtemp_value("SELECT error FROM pgwork.schedule WHERE name = 'bad'"), "Atlantis/Capital"));
    pgtemp_exec("UPDATE pgwork.schedule SET zone = 'UTC', asked = asked - interval '10 s' WHERE "
                "name = 'bad'"); /* the zone is back, and the time has come */
    tick = claimed("n1");
    TEST_ASSERT_EQUAL_STRING("bad", pgw_tick_schedule(tick));
    pgw_tick_free(tick);
    TEST_ASSERT_NULL(pgtemp_value("SELECT error FROM pgwork.schedule WHERE name = 'bad'"));
}

/* The farm: a node is killed while it runs a tick. */
void test_another_node_takes_over_from_a_dead_one(void)
{
    pgw_cron_opts o = PGW_CRON_OPTS_INIT;
    pgw_tick *tick = NULL;
    pgw_token old;
    int ends[2];
    int64_t slot;
    pid_t pid;

    o.timeout_ms = 1000;
    create("s", "@every 1h", &o);
    OK(pgw_cron_run(h, "s", NULL));
    TEST_ASSERT_EQUAL_INT(0, pipe(ends));
    pid = forked();
    if (pid == 0) {
        pgw *mine = open_in_child();
        pgw_tick *held;
        pgw_token token;

        if (pgw_cron_claim_due(mine, DUE_FOR("victim", NULL, 0), &held, NULL) != PGW_OK) _exit(1);
        token = pgw_tick_token(held);
        if (write(ends[1], &token, sizeof(token)) != sizeof(token)) _exit(1);
        for (;;) pause();
    }
    TEST_ASSERT_EQUAL_INT(sizeof(old), read(ends[0], &old, sizeof(old)));
    slot =
        pgtemp_number("SELECT (extract(epoch FROM slot) * 1000000)::bigint FROM pgwork.schedule");
    kill(pid, SIGKILL);
    TEST_ASSERT_EQUAL_INT(128 + SIGKILL, reaped(pid));
    for (int i = 0; i < 200 && tick == NULL; i++) {
        int64_t next_ms;

        if (pgw_cron_claim_due(h, DUE_FOR("heir", NULL, 0), &tick, &next_ms) == PGW_OUTCOME_EMPTY)
            poll(NULL, 0, next_ms > 100 ? 100 : (int)next_ms);
    }
    TEST_ASSERT_NOT_NULL(tick);
    TEST_ASSERT_EQUAL_INT64(slot, pgw_tick_slot_us(tick));
    TEST_ASSERT_EQUAL_INT(2, pgw_tick_attempt(tick));
    TEST_ASSERT_TRUE(pgw_tick_token(tick).number > old.number);
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_cron_finish(h, old, "too late"));
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_cron_extend(h, old, PGW_DEFAULT, NULL));
    OK(pgw_cron_finish(h, pgw_tick_token(tick), NULL));
    TEST_ASSERT_EQUAL_STRING(
        "heir 2",
        pgtemp_value("SELECT holder || ' ' || attempt FROM pgwork.tick WHERE error IS NULL"));
    pgw_tick_free(tick);
    close(ends[0]), close(ends[1]);
}

/* A late node of the old one could not be told from a node of the new one. */
/* By nothing else is it noticed: who died leaves no error behind, and the hourly look at the plan
 * does not decide for the nodes what was missed. */
void test_the_doctor_sees_that_no_node_asks_any_more(void)
{
    static const pgw_misfire policies[] = {PGW_MISFIRE_SKIP, PGW_MISFIRE_ONCE, PGW_MISFIRE_ALL};

    for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
        pgw_cron_opts o = PGW_CRON_OPTS_INIT;
        char text[2000] = "";

        o.misfire = policies[i];
        create("s", "* * * * *", &o);
        planned_from("s", "now");
        pgtemp_exec("UPDATE pgwork.schedule SET base = base - interval '60 h', planned_at = "
                    "'-infinity'");
        OK(pgw_cron_tick(h, NULL, NULL));
        OK(pgw_doctor(h, keep_findings, text));
        ASSERT_HAS("2 schedule \"s\" is overdue by 2 days 1", text);

        pgw_tick_free(claimed("n")); /* as by one who dies then */
        TEST_ASSERT_EQUAL_INT64(policies[i] == PGW_MISFIRE_ALL ? 100 : 1,
                                pgtemp_number("SELECT 1 + floor(extract(epoch FROM since - slot) "
                                              "/ 60)::int FROM pgwork.schedule"));
        pgtemp_exec("UPDATE pgwork.schedule SET until = clock_timestamp() - interval '2 min'");
        *text = '\0';
        OK(pgw_doctor(h, keep_findings, text));
        ASSERT_HAS("2 schedule \"s\": its tick of ", text);
        ASSERT_HAS(" timed out 00:02:0", text);
        ASSERT_HAS(" with \"n\", and no node has claimed it since|", text);
        OK(pgw_cron_drop(h, "s"));
    }
}

void test_the_fence_of_a_name_grows_over_a_drop_and_a_rename(void)
{
    pgw_tick *tick;
    uint64_t fence = 0;

    create("s", "@daily", NULL);
    for (int i = 0; i < 4; i++) {
        if (i == 2) {
            OK(pgw_cron_drop(h, "s"));
            create("s", "@daily", NULL);
        } else if (i == 3) {
            create("t", "@daily", NULL);
            OK(pgw_cron_drop(h, "s"));
            OK(pgw_cron_rename(h, "t", "s"));
        }
        OK(pgw_cron_run(h, "s", NULL));
        tick = claimed("n");
        TEST_ASSERT_NOT_NULL(tick);
        TEST_ASSERT_GREATER_THAN_UINT64(fence, pgw_tick_token(tick).number);
        fence = pgw_tick_token(tick).number;
        OK(pgw_cron_finish(h, pgw_tick_token(tick), NULL));
        pgw_tick_free(tick);
    }
}

void test_a_tick_that_kills_its_nodes_is_given_up(void)
{
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_cron_opts o = PGW_CRON_OPTS_INIT;
    pgw_tick *tick;

    job.max_attempts = 2, o.job = &job;
    create("s", "@every 1h", &o);
    OK(pgw_cron_run(h, "s", NULL));
    for (int i = 0; i < 2; i++) {
        pgw_tick_free(claimed("n"));
        pgtemp_exec("UPDATE pgwork.schedule SET until = clock_timestamp()");
    }
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY, pgw_cron_claim_due(h, DUE_FOR("n", NULL, 0), &tick, NULL));
    TEST_ASSERT_NOT_NULL(strstr(pgtemp_value("SELECT error FROM pgwork.tick"), "given up"));
    TEST_ASSERT_EQUAL_STRING("t", pgtemp_value("SELECT finished_at > at FROM pgwork.tick"));
    create("s", "@every 1h", &o); /* its node begins again: it may fare no better */
    OK(pgw_cron_pause(h, "s"));
    OK(pgw_cron_resume(h, "s"));
    TEST_ASSERT_NOT_NULL(strstr(pgtemp_value("SELECT error FROM pgwork.schedule"), "given up"));
    TEST_ASSERT_NOT_NULL(pgtemp_value("SELECT error_at FROM pgwork.schedule"));
    OK(pgw_cron_run(h, "s", NULL)); /* the schedule goes on */
    tick = claimed("n");
    OK(pgw_cron_finish(h, pgw_tick_token(tick), NULL));
    pgw_tick_free(tick);
    TEST_ASSERT_NULL(pgtemp_value("SELECT error FROM pgwork.schedule"));
    pgtemp_exec("UPDATE pgwork.schedule SET error = 'given up', error_at = clock_timestamp()");
    o.queue = "q"; /* nodes have nothing to do with it any more */
    create("s", "@every 1h", &o);
    TEST_ASSERT_NULL(pgtemp_value("SELECT coalesce(error, error_at::text) FROM pgwork.schedule"));
}

/* The next tick may be due in the same call: it says nothing about why the last one was given up.
 */
void test_the_error_of_a_tick_that_was_given_up_stays_until_one_ends_well(void)
{
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw_cron_opts o = PGW_CRON_OPTS_INIT;
    pgw_tick *tick;

    job.max_attempts = 1, o.job = &job;
    create("s", "* * * * *", &o);
    for (int i = 0; i < 3; i++) {
        pgtemp_exec("UPDATE pgwork.schedule SET until = clock_timestamp(), base = base - interval "
                    "'1 hour', next_at = '-infinity'; DELETE FROM pgwork.tick");
        tick = claimed("n");
        TEST_ASSERT_EQUAL_INT64(i > 0, pgtemp_number("SELECT count(*) FROM pgwork.schedule WHERE "
                                                     "error ~ 'given up' AND slot IS NOT NULL"));
        if (i == 2) break;
        pgw_tick_free(tick);
    }
    pgtemp_exec("UPDATE pgwork.schedule SET planned_at = '-infinity'");
    OK(pgw_cron_tick(h, NULL, NULL)); /* the hourly look at the plan */
    TEST_ASSERT_NOT_NULL(pgtemp_value("SELECT error FROM pgwork.schedule"));
    OK(pgw_cron_finish(h, pgw_tick_token(tick), "no space left"));
    TEST_ASSERT_NOT_NULL(pgtemp_value("SELECT error FROM pgwork.schedule"));
    pgw_tick_free(tick);
    OK(pgw_cron_run(h, "s", NULL));
    tick = claimed("n");
    OK(pgw_cron_finish(h, pgw_tick_token(tick), NULL));
    pgw_tick_free(tick);
    TEST_ASSERT_NULL(pgtemp_value("SELECT coalesce(error, error_at::text) FROM pgwork.schedule"));
}

enum { NODES = 8, SECONDS = 6 };

static int run_what_is_due(pgw *mine, int node)
{
    const int64_t end = pgw__clock_ms() + SECONDS * 1000;
    PGconn *conn = PQconnectdb(pgtemp_dsn());

    while (pgw__clock_ms() < end) {
        pgw_tick *tick;
        int64_t next_ms;
        char sql[200];
        const pgw_status st = pgw_cron_claim_due(mine, NULL, &tick, &next_ms);

        if (st == PGW_OUTCOME_EMPTY) {
            poll(NULL, 0, next_ms > 20 ? 20 : (int)next_ms);
            continue;
        }
        if (st != PGW_OK) return 1;
        snprintf(sql, sizeof(sql), "INSERT INTO ran VALUES ('%s', %lld, %lld, %d)",
                 pgw_tick_schedule(tick), (long long)pgw_tick_slot_us(tick),
                 (long long)pgw_tick_token(tick).number, node);
        PQclear(PQexec(conn, sql));
        if (pgw_cron_finish(mine, pgw_tick_token(tick), NULL) != PGW_OK) return 2;
        pgw_tick_free(tick);
    }
    PQfinish(conn);
    return 0;
}

/* Nodes that claim as fast as they can: one at a time holds a schedule's tick, each slot is run
 * once. */
void test_eight_nodes_run_each_slot_once(void)
{
    pgtemp_exec("DROP TABLE IF EXISTS ran; CREATE TABLE ran (schedule text, slot bigint, fence "
                "bigint, node int)");
    create("a", "* * * * * *", NULL);
    create("b", "@every 1s", NULL);
    pgtemp_exec("UPDATE pgwork.schedule SET misfire = 'all'");
    for (int i = 0; i < NODES; i++) spawn(run_what_is_due, i);
    join();
    TEST_ASSERT_TRUE(pgtemp_number("SELECT count(*) FROM ran") >= 2 * (SECONDS - 2));
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT count(*) FROM (SELECT FROM ran GROUP BY "
                                             "schedule, slot HAVING count(*) > 1) t"));
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT count(*) FROM (SELECT FROM ran GROUP BY "
                                             "schedule, fence HAVING count(*) > 1) t"));
    TEST_ASSERT_EQUAL_INT64(
        0, pgtemp_number("SELECT count(*) FROM (SELECT slot - lag(slot) OVER (PARTITION BY "
                         "schedule ORDER BY fence) AS apart FROM ran) t WHERE apart <> 1000000"));
}

/* ---- other ways to call ---- */

static void note(pgw *handle, pgw_status st, void *arg)
{
    (void)handle;
    *(pgw_status *)arg = st;
}

static pgw_status stepped(const pgw_status *done)
{
    while (*done == PGW_OUTCOME_AGAIN) {
        struct pollfd fd = {.fd = pgw_fd(h), .events = POLLIN};

        TEST_ASSERT_TRUE(poll(&fd, 1, 10000) > 0);
        pgw_step(h);
    }
    return *done;
}

void test_schedules_work_without_blocking(void)
{
    pgw_status done = PGW_OUTCOME_AGAIN;
    pgw_tick *tick;
    int64_t next_us, fired;

    pgw_async(h, note, &done);
    TEST_ASSERT_EQUAL(PGW_OUTCOME_AGAIN, pgw_cron_create(h, "s", "@every 1h", NULL, &next_us));
    TEST_ASSERT_EQUAL(PGW_OK, stepped(&done));
    TEST_ASSERT_TRUE(next_us > 0);
    OK(pgw_cron_run(h, "s", NULL));
    done = PGW_OUTCOME_AGAIN;
    pgw_async(h, note, &done);
    TEST_ASSERT_EQUAL(PGW_OUTCOME_AGAIN, pgw_cron_claim_due(h, DUE_FOR("n", NULL, 0), &tick, NULL));
    TEST_ASSERT_EQUAL(PGW_OK, stepped(&done));
    done = PGW_OUTCOME_AGAIN;
    pgw_async(h, note, &done);
    TEST_ASSERT_EQUAL(PGW_OUTCOME_AGAIN, pgw_cron_finish(h, pgw_tick_token(tick), NULL));
    TEST_ASSERT_EQUAL(PGW_OK, stepped(&done));
    pgw_tick_free(tick);
    done = PGW_OUTCOME_AGAIN;
    pgw_async(h, note, &done);
    TEST_ASSERT_EQUAL(PGW_OUTCOME_AGAIN, pgw_cron_tick(h, &fired, NULL));
    TEST_ASSERT_EQUAL(PGW_OK, stepped(&done));
    TEST_ASSERT_EQUAL_INT64(0, fired);
}

void test_a_finished_tick_is_part_of_the_callers_transaction(void)
{
    PGconn *conn = pgtemp_connect();
    pgw_conf *conf;
    pgw *attached;
    pgw_tick *tick;

    create("s", "@every 1h", NULL);
    OK(pgw_cron_run(h, "s", NULL));
    tick = claimed("n");
    TEST_ASSERT_EQUAL(PGW_OK, pgw_conf_new(&conf));
    PQclear(PQexec(conn, "BEGIN"));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_attach(conn, conf, &attached));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_cron_finish(attached, pgw_tick_token(tick), NULL));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_cron_create(attached, "other", "@daily", NULL, NULL));
    pgw_close(attached);
    PQclear(PQexec(conn, "ROLLBACK"));
    PQfinish(conn);
    pgw_conf_free(conf);
    TEST_ASSERT_EQUAL_INT64(
        1, pgtemp_number("SELECT count(*) FROM pgwork.schedule WHERE slot IS NOT NULL"));
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number("SELECT count(*) FROM pgwork.schedule"));
    OK(pgw_cron_finish(h, pgw_tick_token(tick), NULL));
    pgw_tick_free(tick);
}

static int count_times(int64_t at_us, const char *local, void *arg)
{
    char *text = arg;

    TEST_ASSERT_TRUE(at_us > 0);
    sprintf(text + strlen(text), "%s|", local);
    return 0;
}

void test_next_times_are_listed_in_the_zone(void)
{
    char text[400] = "";

    OK(pgw_cron_next(h, "0 12 29 2 *", TIMES("Asia/Kathmandu", INT64_C(1767225600000000), 2),
                     count_times, text));
    TEST_ASSERT_EQUAL_STRING("Tue 2028-02-29 12:00:00 +05:45|Sun 2032-02-29 12:00:00 +05:45|",
                             text);
    TEST_ASSERT_EQUAL(PGW_EINVAL,
                      pgw_cron_next(h, "* * * *", TIMES(NULL, PGW_NONE, 1), count_times, text));
    TEST_ASSERT_EQUAL(PGW_EINVAL,
                      pgw_cron_next(h, "* * * * *", TIMES("Mars", PGW_NONE, 1), count_times, text));
    ASSERT_HAS("zone is \"Mars\": expected a name in pg_timezone_names", pgw_error_message(h));
    TEST_ASSERT_EQUAL(PGW_EINVAL,
                      pgw_cron_next(h, "* * * * *", TIMES(NULL, PGW_NONE, 0), count_times, text));
}

/* ---- roles ---- */

static const char *may(const char *role)
{
    static char sql[300];

    snprintf(sql, sizeof(sql),
             "SELECT string_agg(p.proname, ' ' ORDER BY p.proname) FROM pg_proc p WHERE "
             "p.pronamespace = 'pgwork'::regnamespace "
             "AND (p.proname LIKE 'cron%%' OR p.proname LIKE '\\_cron%%' OR p.proname LIKE "
             "'\\_maintain%%') AND has_function_privilege('%s', p.oid, 'EXECUTE')",
             role);
    return pgtemp_value(sql);
}

void test_each_role_may_call_only_its_functions(void)
{
    TEST_ASSERT_NULL(may("pgwork_producer"));
    TEST_ASSERT_EQUAL_STRING(
        "cron_claim cron_extend cron_finish cron_next cron_release cron_tick cron_times",
        may("pgwork_worker"));
    TEST_ASSERT_EQUAL_STRING(
        "cron_break cron_claim cron_create cron_drop cron_extend cron_finish cron_next cron_pause "
        "cron_release cron_rename cron_resume cron_run cron_tick cron_times",
        may("pgwork_operator"));
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number("SELECT has_function_privilege('pgwork_worker', "
                                             "'pgwork.maintain(integer)', 'EXECUTE')::int"));
    TEST_ASSERT_EQUAL_INT64(
        0, pgtemp_number(
               "SELECT has_table_privilege('pgwork_worker', 'pgwork.schedules', 'SELECT')::int"));
    TEST_ASSERT_EQUAL_INT64(
        1, pgtemp_number(
               "SELECT has_table_privilege('pgwork_operator', 'pgwork.ticks', 'SELECT')::int"));
}

/* ---- memory ---- */

void test_every_failed_allocation_is_reported(void)
{
    pgw_tick *tick = NULL;
    int n;

    pgw_close(h);
    oom_begin();
    h = it_open();
    for (n = 1; n < 100; n++) {
        pgw_status st;

        oom_fail(n);
        st = pgw_cron_create(h, "s", "@every 1h", NULL, NULL);
        oom_fail(0);
        if (st == PGW_OK) break;
        TEST_ASSERT_EQUAL(PGW_ENOMEM, st);
    }
    TEST_ASSERT_TRUE(n < 100);
    for (n = 1; n < 100; n++) {
        pgw_status st;

        OK(pgw_cron_create(h, "s", "@every 1h", NULL, NULL));
        OK(pgw_cron_run(h, "s", NULL));
        oom_fail(n);
        st = pgw_cron_claim_due(h, DUE_FOR("n", NULL, 0), &tick, NULL);
        oom_fail(0);
        if (st == PGW_OK) break;
        TEST_ASSERT_EQUAL(PGW_ENOMEM, st);
        TEST_ASSERT_NULL(tick);
        OK(pgw_cron_drop(h, "s"));
    }
    TEST_ASSERT_TRUE(n < 100);
    OK(pgw_cron_finish(h, pgw_tick_token(tick), NULL));
    pgw_tick_free(tick);
    pgw_close(h);
    h = NULL;
    oom_end();
}
