/* doctor: each problem is found and named, with advice. Longer than 600 lines: one test for each
 * finding of the doctor. */
#include "unity.h"
#include "pgw_all.h"
#include "pgtemp.h"
#include "itpgw.h"

#include <poll.h>
#include <time.h>

static pgw *h;

void setUp(void)
{
    h = it_open();
}

void tearDown(void)
{
    pgw_close(h);
}

/* All findings as "grade check: text | advice" lines. */
typedef struct sheet {
    char text[16384];
    int count, bad, note;
    const char *missing; /* a check that is worse than good and has no advice */
} sheet;

static int write_down(const pgw_finding *f, void *arg)
{
    sheet *s = arg;
    const size_t used = strlen(s->text);

    s->count++;
    s->bad += f->grade == PGW_GRADE_BAD;
    s->note += f->grade == PGW_GRADE_NOTE;
    if (f->grade != PGW_GRADE_GOOD && *f->advice == '\0') s->missing = "an advice is missing";
    snprintf(s->text + used, sizeof(s->text) - used, "%s %s: %s | %s\n",
             f->grade == PGW_GRADE_GOOD   ? "good"
             : f->grade == PGW_GRADE_NOTE ? "note"
                                          : "bad",
             f->check, f->text, f->advice);
    return 0;
}

static const sheet *visit(pgw *handle)
{
    static sheet s;

    memset(&s, 0, sizeof(s));
    ASSERT_ST(PGW_OK, pgw_doctor(handle, write_down, &s), handle);
    TEST_ASSERT_NULL_MESSAGE(s.missing, s.text);
    return &s;
}

void test_the_doctor_finds_nothing_on_a_healthy_server(void)
{
    const sheet *s;

    ASSERT_ST(PGW_OK, pgw_reaper_tick(h, NULL, NULL), h);
    s = visit(h);
    ASSERT_HAS("good server version: PostgreSQL 1", s->text);
    ASSERT_HAS("good encoding: ", s->text);
    ASSERT_HAS("good primary: ", s->text);
    ASSERT_HAS("good autovacuum: ", s->text);
    ASSERT_HAS("good connections: ", s->text);
    ASSERT_HAS("good clock: ", s->text);
    ASSERT_HAS("good schema version: ", s->text);
    ASSERT_HAS("good locks: ", s->text);
    ASSERT_HAS("good roles: ", s->text);
    ASSERT_HAS("reaper", s->text);
    ASSERT_HAS("good tables: live_job", s->text);
    ASSERT_HAS("good expired leases: ", s->text);
    /* the tests' server does not keep what it acknowledged, and the doctor sees it */
    if (strcmp(pgtemp_value("SHOW fsync"), "off") == 0)
        ASSERT_HAS("bad durability: fsync is off", s->text);
    else
        ASSERT_HAS("good durability: ", s->text);
}

void test_reapers_are_seen_and_missed(void)
{
    pgtemp_exec("DELETE FROM pgwork.heartbeat");
    ASSERT_HAS("bad reaper: no reaper has been seen", visit(h)->text);
    ASSERT_ST(PGW_OK, pgw_reaper_tick(h, NULL, NULL), h);
    ASSERT_HAS("good reaper: 1 reaper runs", visit(h)->text);
    pgtemp_exec(
        "UPDATE pgwork.heartbeat SET at = now() + interval '1 h'"); /* the clock was set back */
    ASSERT_HAS("bad reaper: no reaper has been seen", visit(h)->text);
    pgtemp_exec("UPDATE pgwork.heartbeat SET at = now() - interval '70 s'");
    ASSERT_HAS("note reaper: no reaper since 00:01:1", visit(h)->text);
    pgtemp_exec("UPDATE pgwork.heartbeat SET at = now() - interval '5 min'");
    ASSERT_HAS("bad reaper: no reaper since 00:05:0", visit(h)->text);
}

void test_low_water_marks_that_no_reaper_moves(void)
{
    pgtemp_exec("DELETE FROM pgwork.reaper_tick; DELETE FROM pgwork.mark");
    ASSERT_HAS("good low-water marks: ", visit(h)->text); /* there is no job */
    it_enqueue(h, "still", NULL);
    ASSERT_HAS("bad low-water marks: No reaper has run yet. Expired leases, delayed jobs and late "
               "commits wait until it runs. | Run `pgwork reap`.",
               visit(h)->text);
    ASSERT_ST(PGW_OK, pgw_reaper_tick(h, NULL, NULL), h);
    ASSERT_HAS("good low-water marks: ", visit(h)->text);
    pgtemp_exec("UPDATE pgwork.reaper_tick SET at = now() - interval '40 s'");
    ASSERT_HAS("note low-water marks: The reaper ran 4", visit(h)->text);
    ASSERT_HAS(" s ago. Expired leases, delayed jobs and late commits wait until it runs. | ",
               visit(h)->text);
    pgtemp_exec("UPDATE pgwork.reaper_tick SET at = now() - interval '6 min'");
    ASSERT_HAS("bad low-water marks: The reaper ran 36", visit(h)->text);
    ASSERT_ST(PGW_OK, pgw_queue_drop(h, "still", true), h);
    ASSERT_HAS("good low-water marks: ", visit(h)->text);
}

void test_positions_that_are_not_drawn_in_order(void)
{
    char cure[200];

    it_enqueue(h, "order", NULL);
    ASSERT_ST(PGW_OK, pgw_reaper_tick(h, NULL, NULL), h);
    TEST_ASSERT_NULL(strstr(visit(h)->text, " positions: "));
    pgtemp_exec("ALTER SEQUENCE pgwork.position CACHE 20");
    ASSERT_HAS("bad positions: sequence pgwork.position has CACHE 20", visit(h)->text);
    pgtemp_exec("ALTER SEQUENCE pgwork.position CACHE 1");
    snprintf(cure, sizeof(cure), "SELECT setval('pgwork.position', %lld);",
             pgtemp_number("SELECT last_value FROM pgwork.position"));
    pgtemp_exec("SELECT setval('pgwork.position', 1, false)");
    ASSERT_HAS("bad positions: sequence pgwork.position went back to 0, but ", visit(h)->text);
    ASSERT_HAS(cure, visit(h)->text);
    pgtemp_exec(cure);
    TEST_ASSERT_NULL(strstr(visit(h)->text, " positions: "));
    ASSERT_ST(PGW_OK, pgw_queue_drop(h, "order", true), h);
}

void test_queue_ids_near_their_end_are_reported_long_before(void)
{
    const long long last = pgtemp_number("SELECT last_value FROM pgwork.queue_id_seq");
    char back[80];

    TEST_ASSERT_NULL(strstr(visit(h)->text, " queue ids: "));
    pgtemp_exec("SELECT setval('pgwork.queue_id_seq', 1000000001)");
    ASSERT_HAS("note queue ids: queue ids have reached 1000000001", visit(h)->text);
    pgtemp_exec("SELECT setval('pgwork.queue_id_seq', 1600000001)");
    ASSERT_HAS("bad queue ids: queue ids have reached 1600000001", visit(h)->text);
    snprintf(back, sizeof(back), "SELECT setval('pgwork.queue_id_seq', %lld)", last);
    pgtemp_exec(back);
}

void test_overdue_leases_and_delayed_jobs_are_bad_at_once_where_no_reaper_is_at_work(void)
{
    pgw_job_spec later = PGW_JOB_SPEC_INIT;

    for (int i = 0; i < 2; i++) it_enqueue(h, "overdue", NULL);
    for (int i = 0; i < 2; i++) it_claim_one(h, "overdue");
    later.delay_ms = 100000;
    ASSERT_ST(PGW_OK, pgw_enqueue(h, "overdue", &later, NULL), h);
    ASSERT_HAS("good delayed jobs: ", visit(h)->text);
    pgtemp_exec(
        "DELETE FROM pgwork.heartbeat;"
        "UPDATE pgwork.live_job SET lease_until = now() - interval '10 s' WHERE token IS NOT NULL");
    ASSERT_HAS("good expired leases: ", visit(h)->text);
    pgtemp_exec(
        "UPDATE pgwork.live_job SET lease_until = now() - interval '2 min' WHERE token IS NOT NULL;"
        "UPDATE pgwork.delayed_job SET run_at = now() - interval '1 min'");
    ASSERT_HAS("bad expired leases: expired leases that no reaper has requeued: 2,",
               visit(h)->text);
    ASSERT_HAS("bad delayed jobs: delayed jobs that are overdue: 1,", visit(h)->text);
    pgtemp_exec(
        "INSERT INTO pgwork.heartbeat VALUES ('reaper', 'r', 1, now())"); /* it will come to it */
    ASSERT_HAS("note expired leases: expired leases that no reaper has requeued: 2,",
               visit(h)->text);
    ASSERT_HAS("note delayed jobs: delayed jobs that are overdue: 1,", visit(h)->text);
    pgtemp_exec("UPDATE pgwork.live_job SET lease_until = now() - interval '7 min'"
                " WHERE token IS NOT NULL;"
                "UPDATE pgwork.delayed_job SET run_at = run_at - interval '5 min'");
    ASSERT_HAS("bad expired leases: ", visit(h)->text);
    ASSERT_HAS("bad delayed jobs: ", visit(h)->text);
    ASSERT_ST(PGW_OK, pgw_queue_drop(h, "overdue", true), h);
}

void test_shut_queues_and_dead_letters(void)
{
    pgw_fail_opts dead = PGW_FAIL_OPTS_INIT;
    pgw_ref ref;

    it_enqueue(h, "ill", NULL);
    ref = it_claim_one(h, "ill");
    dead.dead = true;
    ASSERT_ST(PGW_OK, pgw_fail(h, "ill", &ref, 1, &dead), h);
    ASSERT_ST(PGW_OK, pgw_queue_pause(h, "ill"), h);
    ASSERT_ST(PGW_OK, pgw_queue_drain(h, "ill"), h);
    ASSERT_HAS("note queues: queue \"ill\" is paused: its jobs are not claimed | ", visit(h)->text);
    ASSERT_HAS("note queues: queue \"ill\" is draining", visit(h)->text);
    ASSERT_HAS("note dead letters: dead letters in queue \"ill\": 1,", visit(h)->text);
    ASSERT_ST(PGW_OK, pgw_queue_drop(h, "ill", true), h);
    ASSERT_HAS("good queues: ", visit(h)->text);
}

/* All that somebody might take for of no use, and one that was being made anew. */
void test_indexes_that_are_missing_or_not_valid(void)
{
    const char *const made =
        "SELECT string_agg(replace(indexdef, ' USING btree', ''), '; ' ORDER BY indexname)"
        " FROM pg_indexes WHERE schemaname = 'pgwork' AND indexname NOT IN"
        " (SELECT conname FROM pg_constraint)";
    char before[4000];
    const sheet *s;

    snprintf(before, sizeof(before), "%s", pgtemp_value(made));
    TEST_ASSERT_NULL(strstr(visit(h)->text, " indexes: "));
    pgtemp_exec("DO $$ DECLARE i text; BEGIN FOR i IN SELECT indexname FROM pg_indexes WHERE "
                "schemaname = 'pgwork' AND indexname NOT IN (SELECT conname FROM pg_constraint) "
                "LOOP EXECUTE 'DROP INDEX pgwork.' || i; END LOOP; END $$");
    s = visit(h);
    for (const char *at = s->text; (at = strstr(at, "CREATE INDEX CONCURRENTLY")) != NULL; at++) {
        char sql[300];

        snprintf(sql, sizeof(sql), "%.*s", (int)strcspn(at, ";"), at);
        pgtemp_exec(sql);
    }
    TEST_ASSERT_EQUAL_STRING(before, pgtemp_value(made));
    pgtemp_exec("CREATE INDEX dead_job_died_ccnew1 ON pgwork.dead_job (queue);"
                "UPDATE pg_index SET indisvalid = false WHERE indexrelid IN"
                " ('pgwork.dead_job_died_ccnew1'::regclass, 'pgwork.live_job_id'::regclass)");
    s = visit(h);
    ASSERT_HAS(
        "note indexes: index dead_job_died_ccnew1 is not valid: the server does not use it | "
        "As the owner of the schema: DROP INDEX CONCURRENTLY pgwork.dead_job_died_ccnew1;",
        s->text);
    ASSERT_HAS("REINDEX INDEX CONCURRENTLY pgwork.live_job_id;", s->text);
    pgtemp_exec("DROP INDEX CONCURRENTLY pgwork.dead_job_died_ccnew1");
    pgtemp_exec("REINDEX INDEX CONCURRENTLY pgwork.live_job_id");
    TEST_ASSERT_NULL(strstr(visit(h)->text, " indexes: "));
}

void test_tables_that_no_reaper_could_serve(void)
{
    pgtemp_exec("SELECT pgwork.table_register('public', 'Seat', '{id}', 'who', 'until', 'token')");
    TEST_ASSERT_NULL(strstr(visit(h)->text, "registered tables"));
    ASSERT_ST(PGW_OK, pgw_tables_reap(h, 10, NULL), h);
    ASSERT_HAS("note registered tables: expired rows of table public.\"Seat\" are not freed: table "
               "`public`.`Seat`: there is no such table | ",
               visit(h)->text);
    ASSERT_ST(PGW_OK, pgw_table_unregister(h, "public", "Seat"), h);
}

void test_jobs_that_no_reaper_can_requeue_are_reported(void)
{
    it_enqueue(h, "odd", NULL);
    pgtemp_exec("INSERT INTO pgwork.stuck_job (queue, id, error, again_at) SELECT id, 17, 'boom', "
                "clock_timestamp() FROM pgwork.queue WHERE name = 'odd'");
    ASSERT_HAS("bad stuck jobs: job 17 of queue \"odd\" cannot be requeued since ", visit(h)->text);
    ASSERT_HAS(": boom | Fix the cause", visit(h)->text);
    pgtemp_exec("UPDATE pgwork.stuck_job SET again_at = clock_timestamp() - interval '2 min'");
    TEST_ASSERT_NULL(strstr(visit(h)->text, "stuck jobs"));
    pgtemp_exec("SELECT pgwork._note_stuck(0, 1, '23503', 'boom')");
    ASSERT_HAS("bad upkeep: a part of the upkeep fails since ", visit(h)->text);
    ASSERT_HAS(": prune(): boom (SQLSTATE 23503) | Fix the cause", visit(h)->text);
    ASSERT_ST(PGW_OK, pgw_queue_drop(h, "odd", true), h);
    pgtemp_exec("DELETE FROM pgwork.stuck_job");
}

void test_schedules_are_named_so_that_a_shell_can_take_it(void)
{
    pgw_cron_opts o = PGW_CRON_OPTS_INIT;

    o.queue = "reports";
    ASSERT_ST(PGW_OK, pgw_cron_create(h, "daily report", "0 6 * * *", &o, NULL), h);
    ASSERT_HAS("good schedules: ", visit(h)->text);
    pgtemp_exec("UPDATE pgwork.schedule SET base = now() + interval '1 h'");
    ASSERT_HAS("note schedules: schedule \"daily report\" has recorded ticks up to ",
               visit(h)->text);
    ASSERT_HAS("`pgwork cron pause 'daily report'`", visit(h)->text);
    ASSERT_ST(PGW_OK, pgw_cron_pause(h, "daily report"), h);
    ASSERT_HAS("note schedules: schedule \"daily report\" is paused", visit(h)->text);
    ASSERT_HAS("`pgwork cron resume 'daily report'`", visit(h)->text);
    ASSERT_ST(PGW_OK, pgw_cron_drop(h, "daily report"), h);
}

void test_the_doctor_names_jobs_that_nobody_claims(void)
{
    it_enqueue(h, "left", NULL);
    ASSERT_HAS("good queues: ", visit(h)->text);
    pgtemp_exec("UPDATE pgwork.live_job SET created_at = now() - interval '12 min'");
    ASSERT_HAS("note ready jobs: queue \"left\": the oldest ready job has waited for 00:12:",
               visit(h)->text);
    ASSERT_HAS("nothing is leased: no worker claims from it | Check that workers run for exactly "
               "this queue name, and that their log shows no failed claims",
               visit(h)->text);
    pgtemp_exec("UPDATE pgwork.live_job SET created_at = now() - interval '26 h'");
    ASSERT_HAS("bad ready jobs: queue \"left\": the oldest ready job has waited for 1 day 02:00:",
               visit(h)->text);
    ASSERT_ST(PGW_OK, pgw_queue_pause(h, "left"), h);
    TEST_ASSERT_NULL(strstr(visit(h)->text, "ready jobs"));
    ASSERT_HAS("note queues: queue \"left\" is paused: its jobs are not claimed, its oldest ready "
               "job has waited for 1 day 02:00:",
               visit(h)->text);
    ASSERT_ST(PGW_OK, pgw_queue_resume(h, "left"), h);

    /* somebody is at it: how long the others may have to wait is not for us to say */
    it_enqueue(h, "left", NULL);
    it_claim_one(h, "left");
    pgtemp_exec("UPDATE pgwork.live_job SET created_at = now() - interval '2 h'");
    ASSERT_HAS("note ready jobs: queue \"left\": the oldest ready job has waited for 02:00:",
               visit(h)->text);
    ASSERT_HAS("1 is leased, so a worker claims from it | If all workers are busy", visit(h)->text);

    /* it does not count what is too much */
    ASSERT_ST(PGW_OK, pgw_queue_purge(h, "left", PGW_STATE_ANY, NULL), h);
    pgtemp_exec(
        "INSERT INTO pgwork.live_job (queue, created_at) SELECT q.id, now() - interval '6 min'"
        " FROM pgwork.queue q, generate_series(1, 1000) WHERE q.name = 'left';"
        "UPDATE pgwork.live_job SET token = NULL, lease_until = NULL, holder = NULL");
    ASSERT_HAS("none of the first 1000 is leased: no worker claims from it", visit(h)->text);
    ASSERT_ST(PGW_OK, pgw_queue_drop(h, "left", true), h);
    ASSERT_HAS("good queues: ", visit(h)->text);
}

/* Says since when the jobs that exist now have waited. */
static void age_gated_jobs(const char *interval)
{
    char sql[200];

    snprintf(sql, sizeof(sql),
             "UPDATE pgwork.delayed_job SET created_at = now() - interval '%s' WHERE gate IS NOT "
             "NULL",
             interval);
    pgtemp_exec(sql);
}

void test_the_doctor_names_groups_whose_jobs_wait(void)
{
    pgtemp_exec("SELECT pgwork.queue_create('sync', max_attempts => 1);"
                "SELECT pgwork.group_set('sync', group_retry => 'block');"
                "SELECT pgwork.enqueue('sync', grp => g) FROM unnest('{a,a,b b,c,c}'::text[]) g;"
                "SELECT pgwork.group_hold('sync', 'b b'), pgwork.group_hold('sync', 'd', 3600000);"
                "SELECT pgwork.enqueue('sync', grp => 'd');"
                "SELECT f.status FROM pgwork.claim('{sync}', 1, 'x') c CROSS JOIN LATERAL"
                " pgwork.fail('sync', ARRAY[c.id], ARRAY[c.token], 'no') f");
    ASSERT_HAS("good gated jobs: no group is blocked", visit(h)->text);
    age_gated_jobs("2 hours");
    ASSERT_HAS("note gated jobs: queue \"sync\": group \"a\" is stopped by dead letter ",
               visit(h)->text);
    ASSERT_HAS("its first gated job has waited for 02:00:0", visit(h)->text);
    ASSERT_HAS("go on without it", visit(h)->text);
    ASSERT_HAS("note gated jobs: queue \"sync\": group \"b b\" is held, and", visit(h)->text);
    ASSERT_HAS("1 more groups are in the same state | Run `pgwork groups unblock 'sync' 'b b'` to "
               "end the hold.",
               visit(h)->text);
    pgtemp_exec("SELECT pgwork.group_unblock('sync', g) FROM unnest('{a,b b}'::text[]) g");
    ASSERT_HAS("group \"d\" is held until ", visit(h)->text);
    TEST_ASSERT_NULL(strstr(visit(h)->text, "dead letter "));
    pgtemp_exec("SELECT pgwork.queue_drop('sync', true)");
}

void test_the_doctor_names_groups_that_wait_for_a_retry(void)
{
    pgtemp_exec("SELECT pgwork.queue_create('sync');"
                "SELECT pgwork.enqueue('sync', grp => 'a') FROM generate_series(1, 2);"
                "SELECT f.status FROM pgwork.claim('{sync}', 1, 'x') c CROSS JOIN LATERAL"
                " pgwork.fail('sync', ARRAY[c.id], ARRAY[c.token], 'no', 3600000) f");
    age_gated_jobs("6 min");
    ASSERT_HAS("group \"a\" waits for the retry of job ", visit(h)->text);
    ASSERT_HAS("Run `pgwork groups unblock 'sync' 'a'` to run the next jobs before the retry.",
               visit(h)->text);
    pgtemp_exec("SELECT pgwork.queue_drop('sync', true)");
}

void test_the_doctor_names_queues_with_a_semaphore_and_no_worker(void)
{
    pgtemp_exec("SELECT pgwork.sema_create('gpu', 2), pgwork.queue_create('train');"
                "SELECT pgwork.queue_semaphore('train', 'gpu'), pgwork.enqueue('train')");
    ASSERT_HAS("good gated jobs: ", visit(h)->text);
    age_gated_jobs("6 min");
    ASSERT_HAS("note gated jobs: queue \"train\": jobs wait for permits of semaphore \"gpu\" since",
               visit(h)->text);
    ASSERT_HAS("`pgwork sem list 'gpu'` shows who holds permits.", visit(h)->text);
    pgtemp_exec("SELECT count(*) FROM pgwork.claim('{train}', 1, 'x')");
    ASSERT_HAS("good gated jobs: ", visit(h)->text);
    pgtemp_exec("SELECT pgwork.queue_drop('train', true), pgwork.sema_drop('gpu', true)");
}

void test_many_dead_letters_are_not_counted_to_the_end(void)
{
    ASSERT_ST(PGW_OK, pgw_queue_create(h, "many", NULL), h);
    pgtemp_exec(
        "INSERT INTO pgwork.dead_job (id, created_at, died_at, queue, priority, attempt, kind)"
        " SELECT i, now(), now() - i * interval '1 s', q.id, 0, 1, ''"
        " FROM pgwork.queue q, generate_series(60, 1100) i WHERE q.name = 'many'");
    ASSERT_HAS("dead letters in queue \"many\": 1000 or more, the last one died 00:01:0",
               visit(h)->text);
    pgtemp_exec("DELETE FROM pgwork.dead_job WHERE id > 500");
    ASSERT_HAS("dead letters in queue \"many\": 441, the last one died 00:01:0", visit(h)->text);
    ASSERT_ST(PGW_OK, pgw_queue_drop(h, "many", true), h);
}

/* What waits and what was done may be millions of rows. */
void test_each_check_reads_the_tables_that_it_is_about(void)
{
    static const struct {
        pgw__sql sql;
        const char *others;
    } checks[] = {{PGW__SQL_DOCTOR_QUEUES, "live_job"},
                  {PGW__SQL_DOCTOR_QUEUES, "done_job"},
                  {PGW__SQL_DOCTOR_UPKEEP, "live_job"},
                  {PGW__SQL_DOCTOR_UPKEEP, "done_job"}};

    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        char sql[8000];
        PGresult *plan;

        snprintf(sql, sizeof(sql), "EXPLAIN %s", pgw__sql_text(checks[i].sql));
        plan = PQexec(pgtemp_conn(), sql);
        TEST_ASSERT_EQUAL_INT_MESSAGE(PGRES_TUPLES_OK, PQresultStatus(plan),
                                      PQresultErrorMessage(plan));
        for (int row = 0; row < PQntuples(plan); row++) {
            const char *line = PQgetvalue(plan, row, 0);

            TEST_ASSERT_NULL_MESSAGE(strstr(line, checks[i].others), line);
        }
        PQclear(plan);
    }
}

void test_the_check_of_the_upkeep_does_not_read_all_that_waits(void)
{
    ASSERT_ST(PGW_OK, pgw_queue_create(h, "long", NULL), h);
    pgtemp_exec("INSERT INTO pgwork.delayed_job (queue, priority, run_at) SELECT q.id, 0, now() + "
                "interval '1 day' FROM pgwork.queue q, generate_series(1, 30000) WHERE q.name = "
                "'long'; INSERT INTO pgwork.live_job (queue) SELECT q.id FROM pgwork.queue q, "
                "generate_series(1, 30000) WHERE q.name = 'long'; ANALYZE pgwork.live_job, "
                "pgwork.delayed_job; BEGIN");
    pgtemp_exec(pgw__sql_text(PGW__SQL_DOCTOR_UPKEEP));
    TEST_ASSERT_LESS_THAN_INT64(
        12000, pgtemp_number("SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM "
                             "pg_stat_xact_user_tables WHERE relname ~ '^(live|delayed)_job$'"));
    pgtemp_exec("COMMIT");
    ASSERT_ST(PGW_OK, pgw_queue_drop(h, "long", true), h);
}

void test_roles_that_lost_a_grant_and_functions_open_to_all(void)
{
    pgtemp_exec("REVOKE EXECUTE ON FUNCTION pgwork.claim FROM pgwork_worker");
    ASSERT_HAS("bad roles: role pgwork_worker may not call claim()", visit(h)->text);
    pgtemp_exec("GRANT EXECUTE ON FUNCTION pgwork.claim TO PUBLIC");
    ASSERT_HAS("bad roles: everybody has 1 rights that pgwork does not grant, for example EXECUTE "
               "on claim()",
               visit(h)->text);
    pgtemp_exec("SELECT pgwork._grant()"); /* the advice */
    ASSERT_HAS("good roles: ", visit(h)->text);
}

/* What was given by hand, or by default privileges: some of it may be meant. */
void test_rights_beyond_those_of_the_roles(void)
{
    static const struct {
        const char *given, *found;
    } cases[] = {
        {"SELECT ON pgwork.live_job TO pgw_it_app", "bad roles: role pgw_it_app has 1 rights that "
                                                    "pgwork does not grant, for example SELECT on "
                                                    "live_job |"},
        {"USAGE ON SEQUENCE pgwork.position TO pgw_it_app", "for example USAGE on position |"},
        {"EXECUTE ON ALL FUNCTIONS IN SCHEMA pgwork TO pgw_it_app", "for example EXECUTE on _"},
        {"CREATE ON SCHEMA pgwork TO pgw_it_app", "for example CREATE on the schema |"},
        {"DELETE ON pgwork.queues TO pgwork_operator",
         "bad roles: role pgwork_operator has 1 rights that pgwork does not grant, for example "
         "DELETE on queues |"},
        {"USAGE ON SCHEMA pgwork TO PUBLIC", "bad roles: everybody has 1 rights "},
        {"SELECT (payload) ON pgwork.live_job TO pgw_it_app",
         "for example SELECT on live_job.payload |"},
        {"SELECT ON pgwork.queues TO pgw_it_app", "note roles: role pgw_it_app has 1 rights "},
        {"EXECUTE ON FUNCTION pgwork.depth TO pgw_it_app", "note roles: role pgw_it_app has 1 "}};
    char sql[200];

    pgtemp_exec("DROP ROLE IF EXISTS pgw_it_app; CREATE ROLE pgw_it_app");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(sql, sizeof(sql), "GRANT %s WITH GRANT OPTION", cases[i].given);
        if (strstr(sql, "PUBLIC") != NULL) *strstr(sql, " WITH") = '\0';
        pgtemp_exec(sql);
        ASSERT_HAS(cases[i].found, visit(h)->text);
        pgtemp_exec("SELECT pgwork._grant()");
        ASSERT_HAS("good roles: ", visit(h)->text);
    }
    pgtemp_exec("DROP ROLE pgw_it_app");
}

/* All that is bad for vacuum, in one line. A transaction cannot be made old, so the statement is
 * asked for younger ones. */
static const char *pins(void)
{
    char sql[8000];
    const char *text = pgw__sql_text(PGW__SQL_DOCTOR_HORIZON),
               *at = strstr(text, "interval '10 min'"), *found;

    TEST_ASSERT_NOT_NULL(at);
    snprintf(sql, sizeof(sql),
             "SELECT string_agg(finding || ' | ' || advice, ' ') FROM (%.*sinterval '0 s'%s) x "
             "(grade, check_name, finding, advice) WHERE grade = 2",
             (int)(at - text), text, at + strlen("interval '10 min'"));
    found = pgtemp_value(sql);
    return found != NULL ? found : "";
}

static const char *end_of(PGconn *conn)
{
    static char word[64];

    snprintf(word, sizeof(word), "pg_terminate_backend(%d)", PQbackendPID(conn));
    return word;
}

void test_sessions_that_hold_vacuum_back_are_named(void)
{
    PGconn *conn = pgtemp_connect();

    PQclear(PQexec(conn, "BEGIN ISOLATION LEVEL REPEATABLE READ"));
    PQclear(PQexec(conn, "SELECT 1"));
    ASSERT_HAS(end_of(conn), pins());
    ASSERT_HAS("good vacuum horizon: ", visit(h)->text);
    PQclear(PQexec(conn, "ROLLBACK"));
    PQfinish(conn);
}

/* It reads for minutes where it is to be gentle, and has a snapshot, but none that others heed. */
void test_a_vacuum_at_work_holds_no_other_back(void)
{
    enum { PATIENCE_MS = 10000, LOOK_MS = 10 };
    char sql[100], error[256];
    PGconn *conn = pgtemp_connect(), *idle = pgtemp_connect();
    PGcancel *cancel = PQgetCancel(conn);
    const char *found;
    int left;

    pgtemp_exec("CREATE TABLE wide (n) WITH (autovacuum_enabled = off) AS"
                " SELECT repeat('x', 900) FROM generate_series(1, 4000)");
    PQclear(PQexec(conn, "SET vacuum_cost_delay = 100; SET vacuum_cost_limit = 1"));
    TEST_ASSERT_EQUAL_INT(1, PQsendQuery(conn, "VACUUM wide"));
    snprintf(sql, sizeof(sql), "SELECT count(*) FROM pg_stat_progress_vacuum WHERE pid = %d",
             PQbackendPID(conn));
    for (left = PATIENCE_MS; left > 0 && pgtemp_number(sql) == 0; left -= LOOK_MS)
        nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000L}, NULL);
    TEST_ASSERT_GREATER_THAN_INT(0, left);
    PQclear(PQexec(idle, "BEGIN ISOLATION LEVEL REPEATABLE READ"));
    PQclear(PQexec(idle, "SELECT 1"));
    found = pins();
    TEST_ASSERT_EQUAL_INT(1, pgtemp_number(sql)); /* still */
    ASSERT_HAS(end_of(idle), found);
    TEST_ASSERT_NULL_MESSAGE(strstr(found, end_of(conn)), found);
    TEST_ASSERT_EQUAL_INT(1, PQcancel(cancel, error, sizeof(error)));
    PQfreeCancel(cancel);
    PQfinish(idle);
    PQfinish(conn);
    pgtemp_exec("DROP TABLE wide");
}

/* A replica takes long to make, so the statement is given the view's rows. What it finds that
 * begins with a word, worst first. */
static const char *found_in(pgw__sql check, const char *view, const char *rows, const char *word)
{
    static char sql[8000];
    const char *text = pgw__sql_text(check), *at = strstr(text, view);

    TEST_ASSERT_NOT_NULL(at);
    snprintf(sql, sizeof(sql),
             "SELECT string_agg(grade || ' ' || finding || ' | ' || advice, '; ' ORDER BY grade "
             "DESC) FROM (%.*s(%s)%s) x (grade, check_name, finding, advice) WHERE finding LIKE "
             "'%s%%'",
             (int)(at - text), text, rows, at + strlen(view), word);
    return pgtemp_value(sql);
}

void test_a_replica_without_a_slot_holds_vacuum_back(void)
{
    const char *found = found_in(PGW__SQL_DOCTOR_HORIZON, "pg_stat_replication",
                                 "SELECT 'stand''by' AS application_name, inet '10.0.0.7' AS "
                                 "client_addr, '2'::xid AS backend_xmin",
                                 "replica");

    ASSERT_HAS("2 replica \"stand'by\" (10.0.0.7) holds rows of the last ", found);
    ASSERT_HAS("hot_standby_feedback", found);
}

/* It takes a snapshot that is held for long, and very many acquisitions. */
void test_locks_and_permits_full_of_dead_tuples_are_reported(void)
{
#define TABLE(name, live, dead)                                                                    \
    "SELECT '" name "'::regclass AS relid, name '" name "' AS relname, " live                      \
    " AS n_live_tup, " dead " AS n_dead_tup, NULL::timestamptz AS last_vacuum, NULL::timestamptz " \
    "AS last_autovacuum"
    static const char some[] = TABLE("pgwork.named_lock", "3",
                                     "20000") " UNION ALL " TABLE("pgwork.permit", "8", "100001"),
                      few[] = TABLE("pgwork.named_lock", "3000",
                                    "20000") " UNION ALL " TABLE("pgwork.permit", "8", "9000");
#undef TABLE
    const char *found =
        found_in(PGW__SQL_DOCTOR_TABLES, "pg_stat_user_tables", some, "%which slow down%");

    ASSERT_HAS("1 pgwork.named_lock: 3 live and 20000 dead rows, which slow down locks", found);
    ASSERT_HAS("2 pgwork.permit: 8 live and 100001 dead rows, which slow down semaphores", found);
    ASSERT_HAS("vacuum horizon", found);
    TEST_ASSERT_NULL(
        found_in(PGW__SQL_DOCTOR_TABLES, "pg_stat_user_tables", few, "%which slow down%"));
}

/* Its xmin is shown as it was. */
void test_a_lost_slot_holds_nothing_back(void)
{
    const char *found = found_in(
        PGW__SQL_DOCTOR_HORIZON, "pg_replication_slots",
        "SELECT x.*, false AS active, '2'::xid AS xmin FROM (VALUES ('one', 'extended'), ('two', "
        "'lost'), ('new', NULL)) x (slot_name, wal_status)",
        "replication slot");

    ASSERT_HAS("\"one\" (not in use) holds rows", found);
    ASSERT_HAS("\"new\" (not in use) holds rows", found);
    TEST_ASSERT_NULL_MESSAGE(strstr(found, "\"two\""), found);
}

/* Ids are counted in a circle; this server has used some thousands. */
static const char *ids_go_back(uint32_t transactions, uint32_t multixacts)
{
    char rows[200];

    snprintf(rows, sizeof(rows),
             "SELECT name 'old' AS datname, '%lu'::xid AS datfrozenxid, '%lu'::xid AS datminmxid",
             (unsigned long)(uint32_t)(10 - transactions),
             (unsigned long)(uint32_t)(10 - multixacts));
    return found_in(PGW__SQL_DOCTOR_HORIZON, "pg_database", rows, "%ids of database");
}

void test_ids_that_run_out_are_reported(void)
{
    TEST_ASSERT_NULL(ids_go_back(999000000, 999000000));
    ASSERT_HAS("1 transaction ids of database \"old\" have an age of 10",
               ids_go_back(1001000000, 5));
    ASSERT_HAS("2 transaction ids of database \"old\" have an age of 16",
               ids_go_back(1601000000, 5));
    ASSERT_HAS("1 multixact ids of database \"old\" have an age of 10", ids_go_back(5, 1001000000));
}

/* It takes gigabytes to fill it. */
void test_a_queue_of_notifications_that_fills_is_reported(void)
{
    const char *const view = "pg_notification_queue_usage()",
                      *const word = "the server''s notification queue";

    TEST_ASSERT_NULL(found_in(PGW__SQL_DOCTOR_SERVER, view, "SELECT 0.49", word));
    ASSERT_HAS("1 the server's notification queue is 50 % full | A listening session",
               found_in(PGW__SQL_DOCTOR_SERVER, view, "SELECT 0.501", word));
    ASSERT_HAS("2 the server's notification queue is 90 % full: workers are not woken up",
               found_in(PGW__SQL_DOCTOR_SERVER, view, "SELECT 0.9", word));
}

void test_the_doctor_reports_a_missing_schema(void)
{
    static const char *const pairs[] = {"schema", "nowhere", "schema.check", "off", NULL};
    pgw *other = it_open_with(pairs);
    const sheet *s = visit(other);

    ASSERT_HAS("bad schema version: there is no schema nowhere", s->text);
    ASSERT_HAS("pgwork migrate", s->text);
    pgw_close(other);
}

void test_a_schema_that_cannot_be_asked_for_is_not_taken_for_missing(void)
{
    static sheet s;

    ASSERT_ST(PGW_OK, pgw_txn_begin(h), h);
    ASSERT_ST(PGW_ENOTFOUND, pgw_queue_pause(h, "nowhere"), h); /* the transaction has failed */
    memset(&s, 0, sizeof(s));
    ASSERT_ST(PGW_OK, pgw_doctor(h, write_down, &s), h);
    ASSERT_HAS("bad schema version: check failed", s.text);
    TEST_ASSERT_NULL_MESSAGE(strstr(s.text, "there is no schema"), s.text);
    ASSERT_ST(PGW_OK, pgw_txn_rollback(h), h);
}

void test_a_schema_of_another_version(void)
{
    static const char *const pairs[] = {"schema", "aged", "schema.check", "off", NULL};
    pgw *other = it_open_with(pairs);

    ASSERT_ST(PGW_OK, pgw_migrate_up(other, NULL), other);
    pgtemp_exec("INSERT INTO aged.migration VALUES (1000, 'x', 'x')");
    ASSERT_HAS("bad schema version: schema aged has version 1000", visit(other)->text);
    pgtemp_exec("DELETE FROM aged.migration WHERE number > 1");
    ASSERT_HAS("schema aged has version 1, ", visit(other)->text);
    ASSERT_HAS("`pgwork migrate up` once every worker and reaper runs this version",
               visit(other)->text);
    TEST_ASSERT_NULL(strstr(visit(other)->text, "another text"));
    pgtemp_exec("UPDATE aged.migration SET checksum = 'x'");
    ASSERT_HAS("bad schema version: migration 1 of schema aged was applied with another text",
               visit(other)->text);
    pgw_close(other);
}

void test_a_table_that_a_role_may_not_read_is_not_checked_and_is_not_a_fault(void)
{
    const sheet *s;
    char dsn[1200];
    const char *const pairs[] = {"dsn", dsn, "schema.check", "off", NULL};
    pgw *other;

    pgtemp_exec(
        "DROP ROLE IF EXISTS pgw_it_without_rights; CREATE ROLE pgw_it_without_rights LOGIN");
    snprintf(dsn, sizeof(dsn), "%s user=pgw_it_without_rights", pgtemp_dsn());
    other = it_open_with(pairs);
    s = visit(other);
    ASSERT_HAS("note queues: not checked: needs pgwork_viewer: permission denied", s->text);
    TEST_ASSERT_NULL_MESSAGE(strstr(s->text, "cannot be examined"), s->text);
    ASSERT_HAS("GRANT pg_read_all_stats TO pgw_it_without_rights", visit(other)->text);
    pgw_close(other);
    pgtemp_exec("DROP ROLE pgw_it_without_rights");
}

void test_a_table_that_an_operator_may_not_read_is_bad(void)
{
    char dsn[1200];
    const char *const pairs[] = {"dsn", dsn, NULL};
    pgw *other;

    pgtemp_exec("DROP ROLE IF EXISTS pgw_it_barred; CREATE ROLE pgw_it_barred LOGIN IN ROLE "
                "pgwork_operator; REVOKE SELECT ON pgwork.queues FROM pgwork_operator");
    snprintf(dsn, sizeof(dsn), "%s user=pgw_it_barred", pgtemp_dsn());
    other = it_open_with(pairs);
    ASSERT_HAS("bad reaper: check failed: permission denied", visit(other)->text);
    pgw_close(other);
    pgtemp_exec("DROP ROLE pgw_it_barred; SELECT pgwork._grant()");
}

void test_an_operator_may_list_everything(void)
{
    static const char connections[] = "connections: ";
    char dsn[1200];
    const char *const pairs[] = {"dsn", dsn, NULL}, *found;
    pgw *other;
    int used = 0;

    pgtemp_exec("DROP ROLE IF EXISTS pgw_it_operator; CREATE ROLE pgw_it_operator LOGIN IN ROLE "
                "pgwork_operator");
    snprintf(dsn, sizeof(dsn), "%s user=pgw_it_operator", pgtemp_dsn());
    other = it_open_with(pairs);
    TEST_ASSERT_NULL_MESSAGE(strstr(visit(other)->text, "cannot be examined"), visit(other)->text);
    found = strstr(visit(other)->text, connections);
    TEST_ASSERT_NOT_NULL(found);
    TEST_ASSERT_EQUAL_INT(1, sscanf(found + strlen(connections), "%d of ", &used));
    TEST_ASSERT_GREATER_OR_EQUAL_INT(3, used); /* ours and the observer's, besides his own */
    pgw_close(other);
    pgtemp_exec("DROP ROLE pgw_it_operator");
}

void test_a_lock_on_our_tables_is_found(void)
{
    char dsn[1200], expected[80];
    const char *const pairs[] = {"dsn", dsn, NULL};
    PGconn *conn = pgtemp_connect();
    pgw *other;

    pgtemp_exec("DROP ROLE IF EXISTS pgw_it_operator; CREATE ROLE pgw_it_operator LOGIN IN ROLE "
                "pgwork_operator");
    snprintf(dsn, sizeof(dsn), "%s user=pgw_it_operator", pgtemp_dsn());
    other = it_open_with(pairs); /* who does not see how old it is, and is told at once */
    PQclear(PQexec(conn, "BEGIN; LOCK TABLE pgwork.live_job IN SHARE MODE"));
    snprintf(expected, sizeof(expected), "bad locks: session %d", PQbackendPID(conn));
    ASSERT_HAS(expected, visit(other)->text);
    ASSERT_HAS("has locked live_job", visit(other)->text);
    ASSERT_HAS("pg_terminate_backend", visit(other)->text);
    ASSERT_HAS("good locks: ", visit(h)->text);
    PQfinish(conn);
    pgw_close(other);
    pgtemp_exec("DROP ROLE pgw_it_operator");
}

/* Until it is gone: who waits for a lock does not see that nobody waits for him. */
static void end(PGconn *conn)
{
    char sql[80];

    snprintf(sql, sizeof(sql), "SELECT pg_terminate_backend(%d, 10000)", PQbackendPID(conn));
    pgtemp_exec(sql);
    PQfinish(conn);
}

/* For longer than a second, as the server notes it. */
static void await_wait(PGconn *conn)
{
    char sql[200];

    snprintf(sql, sizeof(sql),
             "SELECT count(*) FROM pg_locks WHERE pid = %d AND NOT granted AND waitstart < "
             "clock_timestamp() - interval '1 s'",
             PQbackendPID(conn));
    for (int i = 0; i < 3000 && pgtemp_number(sql) == 0; i++) poll(NULL, 0, 10);
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number(sql));
}

/* Any role that may connect can take them. */
void test_foreign_holders_of_our_advisory_locks_are_reported(void)
{
    char dsn[1200], sql[300];
    PGconn *conn;

    pgtemp_exec("DROP ROLE IF EXISTS pgw_it_stranger; CREATE ROLE pgw_it_stranger LOGIN;"
                "SELECT pgwork.queue_create('ours'); SELECT pgwork.sema_create('ours', 2)");
    TEST_ASSERT_NULL(strstr(visit(h)->text, "foreign locks"));
    snprintf(dsn, sizeof(dsn), "%s user=pgw_it_stranger", pgtemp_dsn());
    conn = PQconnectdb(dsn);
    snprintf(sql, sizeof(sql), "SELECT pg_advisory_lock(%lld), pg_advisory_lock(42)",
             pgtemp_number("SELECT pgwork._waiters('ours', 272)"));
    PQclear(PQexec(conn, sql));
    snprintf(sql, sizeof(sql),
             "bad foreign locks: session %d of user pgw_it_stranger, which has no role of pgwork, "
             "holds an advisory lock of queue \"ours\" | ",
             PQbackendPID(conn));
    ASSERT_HAS(sql, visit(h)->text);
    ASSERT_HAS("REVOKE CONNECT ON DATABASE ", visit(h)->text);
    snprintf(sql, sizeof(sql), "SELECT pg_advisory_unlock_all(); SELECT pg_advisory_lock(%lld)",
             pgtemp_number("SELECT pgwork._turn_key('ours')"));
    PQclear(PQexec(conn, sql));
    ASSERT_HAS("holds an advisory lock of semaphore \"ours\" | ", visit(h)->text);
    PQclear(PQexec(conn, "SELECT pg_advisory_unlock_all()"));
    pgtemp_exec("SELECT pgwork.lock_acquire('ours')");
    snprintf(sql, sizeof(sql), "SELECT pg_advisory_lock_shared(%lld)",
             pgtemp_number("SELECT pgwork.lock_key('ours')"));
    pgtemp_exec("SELECT pgwork.lock_release('ours')");
    PQclear(PQexec(conn, sql));
    ASSERT_HAS("note foreign locks: ", visit(h)->text);
    ASSERT_HAS("holds an advisory lock of lock \"ours\" | ", visit(h)->text);
    /* a name that nobody has acquired yet is known by who stands in line for it */
    snprintf(sql, sizeof(sql), "SELECT pg_advisory_unlock_all(); SELECT pg_advisory_lock(%lld)",
             pgtemp_number("SELECT pgwork.lock_key('new')"));
    PQclear(PQexec(conn, sql));
    TEST_ASSERT_NULL(strstr(visit(h)->text, "foreign locks"));
    pgtemp_exec("SELECT pgwork.lock_queue('new', false, false, 1, 0, false, false)");
    snprintf(sql, sizeof(sql),
             "note foreign locks: session %d of user pgw_it_stranger, which has no role of pgwork, "
             "holds an advisory lock of lock with the key %lld, whose name was never acquired | ",
             PQbackendPID(conn), pgtemp_number("SELECT pgwork.lock_key('new')"));
    ASSERT_HAS(sql, visit(h)->text);
    pgtemp_exec("SELECT pgwork.lock_forget('new')");
    end(conn);
    TEST_ASSERT_NULL(strstr(visit(h)->text, "foreign locks"));
    pgtemp_exec("SELECT pgwork.queue_drop('ours'); SELECT pgwork.sema_drop('ours');"
                "DROP ROLE pgw_it_stranger");
}

/* And so keeps all others out; the check that meets it is given up soon. */
void test_a_waiter_for_such_a_lock_is_found_with_its_blockers(void)
{
    PGconn *reads = pgtemp_connect(), *waits = pgtemp_connect();
    char expected[80];
    const sheet *s;

    PQclear(PQexec(reads, "BEGIN; SELECT FROM pgwork.leased_table"));
    TEST_ASSERT_EQUAL_INT(1, PQsendQuery(waits, "BEGIN; LOCK TABLE pgwork.leased_table"));
    await_wait(waits);
    s = visit(h);
    snprintf(expected, sizeof(expected), "bad locks: session %d", PQbackendPID(waits));
    ASSERT_HAS(expected, s->text);
    ASSERT_HAS("waits to lock leased_table for 00:00:0", s->text);
    ASSERT_HAS("all other sessions wait behind it", s->text);
    snprintf(expected, sizeof(expected), "It waits for %d:", PQbackendPID(reads));
    ASSERT_HAS(expected, s->text);
    ASSERT_HAS("bad registered tables: check failed: canceling statement due to lock timeout",
               s->text);
    end(waits);
    PQfinish(reads);
    ASSERT_HAS("good locks: ", visit(h)->text);
}

/* It outlives its session, and has no pid by which it could be ended. */
void test_a_prepared_transaction_that_has_locked_a_table_is_found(void)
{
    const char *const text = pgw__sql_text(PGW__SQL_DOCTOR_LOCKS), *at = strstr(text, "'5 s'");
    PGconn *waits = pgtemp_connect();
    char sql[8000];

    pgtemp_exec("BEGIN; LOCK TABLE pgwork.leased_table; PREPARE TRANSACTION 'it''s left'");
    TEST_ASSERT_EQUAL_INT(1, PQsendQuery(waits, "BEGIN; LOCK TABLE pgwork.leased_table"));
    await_wait(waits);
    ASSERT_HAS("It waits for a prepared transaction (see pg_prepared_xacts):", visit(h)->text);
    TEST_ASSERT_NOT_NULL(at); /* nobody waits here for five seconds */
    snprintf(sql, sizeof(sql),
             "SELECT finding || ' | ' || advice FROM (%.*s'0 s'%s) x (grade, check_name, finding, "
             "advice) WHERE finding LIKE 'prepared%%'",
             (int)(at - text), text, at + strlen("'5 s'"));
    at = pgtemp_value(sql);
    ASSERT_HAS("prepared transaction \"it's left\" of ", at);
    ASSERT_HAS(" has locked leased_table for 00:00:0", at);
    ASSERT_HAS("ROLLBACK PREPARED 'it''s left', in database ", at);
    end(waits);
    pgtemp_exec("ROLLBACK PREPARED 'it''s left'");
    ASSERT_HAS("good locks: ", visit(h)->text);
}

static int once(const pgw_finding *f, void *arg)
{
    return ++*(int *)arg;
}

static void never(pgw *handle, pgw_status st, void *arg)
{
    TEST_FAIL_MESSAGE("done was called");
}

void test_the_visit_ends_when_the_caller_has_enough_and_is_for_opened_handles(void)
{
    pgw *a;
    int n = 0;

    ASSERT_ST(PGW_OK, pgw_doctor(h, once, &n), h);
    TEST_ASSERT_EQUAL_INT(1, n);
    ASSERT_ST(PGW_EINVAL, pgw_doctor(h, NULL, NULL), h);
    TEST_ASSERT_EQUAL_INT(PGW_EINVAL, pgw_doctor(NULL, once, &n));
    pgw_async(h, never, NULL);
    ASSERT_ST(PGW_EMISUSE, pgw_doctor(h, once, &n), h);
    ASSERT_ST(PGW_OK, pgw_attach(pgtemp_conn(), NULL, &a), a);
    ASSERT_ST(PGW_EMISUSE, pgw_doctor(a, once, &n), a);
    pgw_close(a);
}
