/* Rights: which role may call what, no call gives the rights of the owner, and several schemas in
 * one database. */
#include "unity.h"
#include "pgw_all.h"
#include "pgtemp.h"
#include "sqlkit.h"

#include <stdio.h>
#include <string.h>

static PGconn *a, *b;

void setUp(void)
{
    kit_begin();
    a = kit_open();
    b = kit_open();
}

void tearDown(void)
{
    kit_end();
}

/* -- rights -------------------------------------------------------------------------------------
 */

static const char *const roles[] = {"pgwork_producer", "pgwork_worker", "pgwork_viewer",
                                    "pgwork_operator"};

enum { ROLES = sizeof(roles) / sizeof(roles[0]) };

/* Every public function, and for producer, worker, viewer, operator whether they may call it. */
static const struct {
    const char *name, *may;
} functions[] = {{"absent", ".wvo"},       {"awake", ".w.o"},         {"beat", ".w.o"},
                 {"cancel", "p..o"},       {"claim", ".w.o"},         {"claim_batch", ".w.o"},
                 {"compact", "...o"},      {"complete", ".w.o"},      {"dead_purge", "...o"},
                 {"depth", "..vo"},        {"enqueue", "pw.o"},       {"enqueue_many", "pw.o"},
                 {"extend", ".w.o"},       {"fail", ".w.o"},          {"idle", ".w.o"},
                 {"job_attempts", "..vo"}, {"job_list", "..vo"},      {"job_progress", ".w.o"},
                 {"maintain", ".w.o"},     {"progress", ".w.o"},      {"promote", ".w.o"},
                 {"prune", ".w.o"},        {"queue_create", "...o"},  {"queue_drain", "...o"},
                 {"queue_drop", "...o"},   {"queue_list", ".wvo"},    {"queue_pause", "...o"},
                 {"queue_purge", "...o"},  {"queue_resume", "...o"},  {"queue_set", "...o"},
                 {"reap", ".w.o"},         {"redrive", "...o"},       {"release", ".w.o"},
                 {"reschedule", "...o"},   {"sees_payloads", "..vo"}, {"set_aside", ".w.o"},
                 {"setting", "...o"},      {"snooze", ".w.o"},        {"token_number", "pwvo"},
                 {"version", "pwvo"}};

enum { FUNCTIONS = sizeof(functions) / sizeof(functions[0]) };

#define EACH_FUNCTION " FROM pg_proc p WHERE pronamespace = 'pgwork'::regnamespace "

void test_each_role_may_call_what_is_its_business(void)
{
    for (int f = 0; f < FUNCTIONS; f++)
        for (int r = 0; r < ROLES; r++)
            TEST_ASSERT_EQUAL_STRING_MESSAGE(
                functions[f].may[r] == '.' ? "f" : "t",
                kit_text(a,
                         "SELECT has_function_privilege('%s', oid, 'EXECUTE')" EACH_FUNCTION
                         "AND proname = '%s'",
                         roles[r], functions[f].name),
                functions[f].name);
}

void test_no_function_of_the_queue_is_missing_in_this_table(void)
{
    static const char start[] = "CREATE FUNCTION pgwork.";

    for (int number = 1; number <= 8; number++) {
        const char *at = pgw__sql_migration_text(number);

        while ((at = strstr(at, start))) {
            char name[64];
            int f;

            at += sizeof(start) - 1;
            snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, "("), at);
            if (*name == '_') continue;
            for (f = 0; f < FUNCTIONS && strcmp(name, functions[f].name) != 0; f++)
                ;
            TEST_ASSERT_NOT_EQUAL_INT_MESSAGE(FUNCTIONS, f, name);
        }
    }
}

void test_no_role_may_call_private_functions_and_a_role_without_rights_nothing(void)
{
    TEST_ASSERT_NULL(kit_text(a, "SELECT string_agg(proname, ', ')" EACH_FUNCTION
                                 "AND has_function_privilege('public', oid, 'EXECUTE')"));
    for (int r = 0; r < ROLES; r++)
        TEST_ASSERT_NULL(
            kit_text(a,
                     "SELECT string_agg(proname, ', ')" EACH_FUNCTION
                     "AND proname ~ '^_' AND has_function_privilege('%s', oid, 'EXECUTE')",
                     roles[r]));
    TEST_ASSERT_EQUAL_STRING(
        "f", kit_text(a, "SELECT has_schema_privilege('public', 'pgwork', 'USAGE')"));
    TEST_ASSERT_EQUAL_STRING(
        "f", kit_text(a, "SELECT bool_or(has_schema_privilege(r::text, 'pgwork', 'CREATE')) FROM"
                         " unnest('{public,pgwork_producer,pgwork_worker,pgwork_viewer,pgwork_"
                         "operator}'::text[]) r"));
}

#define VIEWS                                                                                   \
    "beats, groups, job, last_tick, log, migrations, minutes, queue_stats, queues, schedules, " \
    "stuck_jobs, "                                                                              \
    "ticks, workers"

/* The viewer and the operator read views; nobody has a right on a table. */
void test_no_role_has_rights_on_tables(void)
{
    TEST_ASSERT_EQUAL_STRING(
        "pgwork_operator SELECT " VIEWS "; pgwork_viewer SELECT " VIEWS,
        kit_text(
            a,
            "SELECT string_agg(grantee || ' ' || privilege_type || ' ' || t, '; ' ORDER BY "
            "grantee) FROM ("
            "SELECT grantee, privilege_type, string_agg(table_name, ', ' ORDER BY table_name) AS t"
            " FROM information_schema.table_privileges WHERE table_schema = 'pgwork' AND grantee "
            "<> current_user"
            " GROUP BY 1, 2) x"));
    TEST_ASSERT_NULL(kit_text(
        a, "SELECT string_agg(relname, ', ') FROM pg_class c, "
           "unnest('{pgwork_producer,pgwork_worker,pgwork_viewer,pgwork_operator}'::text[]) r"
           " WHERE relnamespace = 'pgwork'::regnamespace AND relkind = 'S'"
           " AND has_sequence_privilege(r, c.oid, 'USAGE, SELECT, UPDATE')"));
    TEST_ASSERT_NULL(
        kit_text(a, "SELECT string_agg(column_name, ', ') FROM information_schema.column_privileges"
                    " WHERE table_schema = 'pgwork' AND grantee <> current_user AND privilege_type "
                    "<> 'SELECT'"));
    for (int r = 0; r < ROLES; r++) {
        kit_do(a, "SET ROLE %s", roles[r]);
        kit_refused(a, "42501", "permission denied", "SELECT * FROM pgwork.live_job");
        kit_refused(a, "42501", "permission denied", "DELETE FROM pgwork.mark");
        kit_refused(a, "42501", "permission denied", "DELETE FROM pgwork.queue");
        kit_refused(a, "42501", "permission denied", "SELECT pgwork._take(1, NULL, NULL)");
        kit_do(a, "RESET ROLE");
    }
}

/* The session's role decides: within job_list(), current_user is the owner. */
void test_a_viewer_sees_payloads_only_where_the_queue_shows_them(void)
{
    static const char *const froms[] = {"pgwork.job", "pgwork.job_list('q')",
                                        "pgwork.job_list('q', id => 1)"};

    kit_do(a, "SELECT pgwork.enqueue('q', '1', meta => '{}')");
    kit_do(a, "SELECT pgwork.progress('q', ARRAY[c.id], ARRAY[c.token], ARRAY['1'::jsonb]) FROM "
              "pgwork.claim('{q}', 1, 'w') c");
    for (int shown = 0; shown < 2; shown++) {
        kit_do(a, "SELECT pgwork.queue_set('q', payload_visible => %s)", shown ? "true" : "false");
        for (int f = 0; f < 3; f++) {
            kit_do(a, "SET ROLE pgwork_viewer");
            TEST_ASSERT_EQUAL_STRING(
                shown ? "3 f" : "0 t",
                kit_text(a,
                         "SELECT num_nonnulls(payload, meta, output, progress) || ' ' || "
                         "left(payload_hidden::text, 1) FROM %s",
                         froms[f]));
            kit_do(a, "SET ROLE pgwork_operator");
            TEST_ASSERT_EQUAL_STRING(
                "1 f", kit_text(a,
                                "SELECT payload::text || ' ' || left(payload_hidden::text, "
                                "1) FROM %s",
                                froms[f]));
            kit_do(a, "RESET ROLE");
        }
    }
}

void test_the_roles_drive_a_job_through_its_life(void)
{
    struct took job;

    kit_do(a, "SET ROLE pgwork_producer");
    kit_put(a, "q");
    kit_do(a, "RESET ROLE; SET ROLE pgwork_worker");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(a, "q", 1, &job));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "extend", &job, ""));
    TEST_ASSERT_EQUAL_STRING("ok", kit_say(a, "fail", &job, ", 'boom', 0, true"));
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT dead FROM pgwork.queue_list('q')"));
    kit_do(a, "SELECT pgwork.maintain(), pgwork.beat('reaper', 'me'), pgwork.idle('{q}'), "
              "pgwork.awake('{q}')");
    kit_do(a, "RESET ROLE; SET ROLE pgwork_operator");
    TEST_ASSERT_EQUAL_STRING("dead boom",
                             kit_text(a, "SELECT state || ' ' || error FROM pgwork.job"));
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT dead FROM pgwork.queue_stats"));
    kit_do(a, "SELECT pgwork.redrive('q'), pgwork.queue_pause('q')");
    kit_do(a, "RESET ROLE");
}

/* -- the owner's rights -------------------------------------------------------------------------
 */

/* Except those parsed when they were made (prosqlbody), which have no names left to look up.
 * Private functions may leave the path to their callers: nobody else can call them. */
void test_R17_functions_run_as_owner_with_a_fixed_search_path(void)
{
    TEST_ASSERT_NULL(kit_text(a, "SELECT string_agg(proname, ', ')" EACH_FUNCTION
                                 "AND proname !~ '^_' AND prosqlbody IS NULL AND NOT prosecdef "
                                 "AND prokind <> 'p'")); /* which could not commit */
    TEST_ASSERT_NULL(kit_text(a, "SELECT string_agg(proname, ', ')" EACH_FUNCTION
                                 "AND proname ~ '^_' AND prosecdef"));
    TEST_ASSERT_NULL(kit_text(a, "SELECT string_agg(proname, ', ')" EACH_FUNCTION
                                 "AND prosecdef AND NOT coalesce('search_path=pg_catalog, "
                                 "pg_temp' = ANY (proconfig), false)"));
}

/* Every verb once, as somebody who laid traps. */
static void call_everything(PGconn *conn)
{
    static const char *const calls[] = {
        "pgwork.enqueue('q', '1', key => 'k', op => gen_random_uuid())",
        "pgwork.enqueue_many('q', '{1,2}', keys => '{a,b}')",
        "pgwork.enqueue_many('q', '{1,2}', delays_ms => '{1,60000}')",
        "pgwork.cancel('q', '{1}')",
        "pgwork.claim('{q,p}', 2, 'w')",
        "pgwork.claim_batch('{q,p}', 2, 'w')",
        "pgwork.complete('q', '{1}', ARRAY[gen_random_uuid()])",
        "pgwork.claim('{q}', 1, 'w', NULL, '{1}', ARRAY[gen_random_uuid()])",
        "pgwork.extend('q', '{1}', ARRAY[gen_random_uuid()])",
        "pgwork.fail('q', '{1}', ARRAY[gen_random_uuid()])",
        "pgwork.snooze('q', '{1}', ARRAY[gen_random_uuid()], 1)",
        "pgwork.release('q', '{1}', ARRAY[gen_random_uuid()])",
        "pgwork.absent('{q}')",
        "pgwork.idle('{q}')",
        "pgwork.awake('{q}')",
        "pgwork.maintain()",
        "pgwork.reap()",
        "pgwork.promote()",
        "pgwork.prune()",
        "pgwork.beat('a', 'b')",
        "pgwork.depth('q')",
        "pgwork.job_list('q')",
        "pgwork.redrive('q')",
        "pgwork.dead_purge('q')",
        "pgwork.reschedule('q')",
        "pgwork.queue_set('q', lease_ms => 100)",
        "pgwork.setting('implicit_queues')",
        "pgwork.version()",
        "pgwork.queue_pause('q')",
        "pgwork.queue_resume('q')",
        "pgwork.queue_purge('q', 'all')",
        "pgwork.queue_drop('q', true)"};

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        kit_do(conn, "SELECT %s", calls[i]);
}

void test_R17_temporary_tables_of_the_same_names_are_not_read(void)
{
    kit_do(a, "CREATE TEMP TABLE trapped (who text); GRANT ALL ON trapped TO PUBLIC");
    kit_do(a, "SET ROLE pgwork_operator");
    kit_do(a, "CREATE FUNCTION pg_temp.trap() RETURNS trigger LANGUAGE plpgsql AS"
              " 'BEGIN INSERT INTO pg_temp.trapped VALUES (current_user); RETURN NULL; END'");
    kit_do(a, "DO $$ DECLARE r text; BEGIN"
              " FOREACH r IN ARRAY "
              "'{live_job,mark,reaper_tick,delayed_job,dead_job,done_job,queue,setting,unique_key,"
              "operation,beat,migration}'::text[] LOOP"
              "  EXECUTE format('CREATE TEMP TABLE %%I (id int, name text, queue int)', r);"
              "  EXECUTE format('CREATE TRIGGER t BEFORE INSERT OR UPDATE OR DELETE ON pg_temp.%%I "
              "FOR EACH STATEMENT EXECUTE FUNCTION pg_temp.trap()', r);"
              " END LOOP; END $$");
    call_everything(a);
    TEST_ASSERT_NULL(kit_text(a, "SELECT string_agg(DISTINCT who, ', ') FROM trapped"));
    kit_do(a, "RESET ROLE");
}

void test_R17_a_hostile_search_path_shadows_nothing(void)
{
    kit_do(a, "CREATE SCHEMA evil; CREATE TABLE evil.trapped (who text); GRANT ALL ON SCHEMA evil "
              "TO PUBLIC; GRANT ALL ON evil.trapped TO PUBLIC");
    kit_do(a, "SET ROLE pgwork_operator");
    kit_do(a,
           "CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ INSERT "
           "INTO evil.trapped VALUES (current_user); SELECT pg_catalog.clock_timestamp() $$;"
           "CREATE FUNCTION evil.octet_length(text) RETURNS int LANGUAGE sql AS $$ INSERT INTO "
           "evil.trapped VALUES (current_user); SELECT 1 $$;"
           "CREATE FUNCTION evil.same(int, int) RETURNS boolean LANGUAGE sql AS $$ INSERT INTO "
           "evil.trapped VALUES (current_user); SELECT true $$;"
           "CREATE OPERATOR evil.= (LEFTARG = int, RIGHTARG = int, FUNCTION = evil.same);"
           "CREATE FUNCTION evil.same(bigint, bigint) RETURNS boolean LANGUAGE sql AS $$ INSERT "
           "INTO evil.trapped VALUES (current_user); SELECT true $$;"
           "CREATE OPERATOR evil.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.same);"
           "CREATE TABLE evil.live_job (id int); CREATE TABLE evil.queue (id int, name text)");
    kit_do(a, "SET search_path = evil, pg_catalog");
    call_everything(a);
    TEST_ASSERT_NULL(kit_text(a, "SELECT string_agg(DISTINCT who, ', ') FROM evil.trapped"));
    kit_do(a, "RESET ROLE; RESET search_path; DROP SCHEMA evil CASCADE");
}

void test_each_public_object_has_a_comment(void)
{
    TEST_ASSERT_NULL(kit_text(
        a, "SELECT string_agg(proname, ', ')" EACH_FUNCTION
           "AND proname !~ '^_' AND coalesce(length(obj_description(oid, 'pg_proc')), 0) < 20"));
    TEST_ASSERT_NULL(kit_text(
        a,
        "SELECT string_agg(relname, ', ') FROM pg_class WHERE relnamespace = 'pgwork'::regnamespace"
        " AND relkind = 'v' AND relname !~ '^_' AND coalesce(length(obj_description(oid, "
        "'pg_class')), 0) < 20"));
    TEST_ASSERT_NOT_NULL(
        kit_text(a, "SELECT obj_description('pgwork'::regnamespace, 'pg_namespace')"));
}

/* -- migrations ---------------------------------------------------------------------------------
 */

static const char *catalog(void)
{
    return kit_text(a, "SELECT concat_ws(' ', (SELECT count(*)" EACH_FUNCTION "),"
                       " (SELECT md5(string_agg(oid::text, ',' ORDER BY oid)) FROM pg_class WHERE "
                       "relnamespace = 'pgwork'::regnamespace),"
                       " (SELECT string_agg(name || value, ',' ORDER BY name) FROM pgwork.setting),"
                       " (SELECT count(*) FROM pg_depend))");
}

void test_each_migration_twice_is_refused_and_changes_nothing(void)
{
    const char *before = catalog();

    for (int number = 1; number <= 8; number++) {
        PGresult *res = PQexec(a, pgw__sql_migration_text(number));

        TEST_ASSERT_EQUAL_INT_MESSAGE(PGRES_FATAL_ERROR, PQresultStatus(res),
                                      pgw__sql_migration_name(number));
        TEST_ASSERT_EQUAL_STRING_LEN("42", PQresultErrorField(res, PG_DIAG_SQLSTATE),
                                     2); /* is there already */
        PQclear(res);
        TEST_ASSERT_EQUAL_STRING(before, catalog());
    }
}

void test_another_schema_lives_beside_it(void)
{
    for (int number = 1; number <= pgw__sql_migrations(); number++) {
        char *text = pgw__sql_in_schema(pgw__sql_migration_text(number), "other_work");
        PGresult *res;

        TEST_ASSERT_NOT_NULL(text);
        TEST_ASSERT_NULL(strstr(text, "pgwork."));
        res = PQexec(a, text);
        TEST_ASSERT_EQUAL_STRING("", PQresultErrorMessage(res));
        PQclear(res);
        pgw__mem_free(text);
    }
    kit_put(a, "q");
    kit_do(a,
           "LISTEN pgwork_wake_pgwork; LISTEN pgwork_wake_other_work; SELECT pgwork.idle('{q}')");
    kit_do(b, "SELECT other_work.enqueue('q', '1'), other_work.enqueue('q', '2')");
    kit_do(a, "SELECT 1");
    TEST_ASSERT_NULL(PQnotifies(a)); /* another queue of the same number and name */
    TEST_ASSERT_EQUAL_INT64(1, kit_number(a, "SELECT count(*) FROM pgwork.claim('{q}', 9, 'w')"));
    TEST_ASSERT_EQUAL_STRING(
        "1,2",
        kit_text(a, "SELECT string_agg(payload::text, ',') FROM other_work.claim('{q}', 9, 'w')"));
    kit_do(a, "SELECT other_work.idle('{q}')");
    kit_do(b, "SELECT other_work.enqueue('q')");
    kit_do(a, "SELECT other_work.maintain()");
    PGnotify *note = PQnotifies(a);

    TEST_ASSERT_NOT_NULL(note);
    TEST_ASSERT_EQUAL_STRING("pgwork_wake_other_work", note->relname);
    PQfreemem(note);
    kit_do(a, "SET ROLE pgwork_operator; SELECT count(*) FROM other_work.queue_stats; RESET ROLE");
    kit_do(a, "DROP SCHEMA other_work CASCADE");
    TEST_ASSERT_EQUAL_STRING("0 1 0 0 0", kit_places(b, "q"));
}

/* The rights of each role but the owner in a schema, in their order. */
#define RIGHTS_IN(schema)                                                                          \
    "SELECT string_agg(a.grantee || ' ' || a.privilege_type || ' ' || name, '; ' ORDER BY "        \
    "a.grantee, name, a.privilege_type) FROM (SELECT proname || ' ' || pronargs AS name, "         \
    "proowner AS owner, proacl AS acl FROM pg_proc WHERE pronamespace = '" schema                  \
    "'::regnamespace UNION ALL SELECT relname, relowner, relacl FROM pg_class WHERE relnamespace"  \
    " = '" schema "'::regnamespace UNION ALL SELECT '', nspowner, nspacl FROM pg_namespace WHERE " \
    "nspname = '" schema "') o, aclexplode(acl) a WHERE grantee <> owner"

/* Whoever makes the schema may give others by default what is his; not what is here. */
void test_default_privileges_give_nothing_here(void)
{
    static const char *const kinds[] = {"TABLES", "SEQUENCES", "FUNCTIONS", "SCHEMAS"};

    kit_do(a, "DROP ROLE IF EXISTS pgw_it_given; CREATE ROLE pgw_it_given");
    for (int k = 0; k < 4; k++)
        kit_do(a, "ALTER DEFAULT PRIVILEGES GRANT ALL ON %s TO pgw_it_given, pgwork_producer",
               kinds[k]);
    for (int number = 1; number <= pgw__sql_migrations(); number++) {
        char *text = pgw__sql_in_schema(pgw__sql_migration_text(number), "given_work");

        PQclear(PQexec(a, text));
        TEST_ASSERT_EQUAL_STRING("", PQerrorMessage(a));
        pgw__mem_free(text);
        if (number == 1)
            TEST_ASSERT_EQUAL_STRING(
                "t",
                kit_text(a, "SELECT has_table_privilege('pgw_it_given', 'given_work.live_job', "
                            "'SELECT')")); /* the test is one */
    }
    for (int k = 0; k < 4; k++)
        kit_do(a, "ALTER DEFAULT PRIVILEGES REVOKE ALL ON %s FROM pgw_it_given, pgwork_producer",
               kinds[k]);
    TEST_ASSERT_EQUAL_STRING(
        "f", kit_text(a, "SELECT has_table_privilege('pgw_it_given', 'given_work.live_job', "
                         "'SELECT')"));
    TEST_ASSERT_EQUAL_STRING(
        "t", kit_text(a, "SELECT (" RIGHTS_IN("given_work") ") = (" RIGHTS_IN("pgwork") ")"));
    kit_do(a, "DROP SCHEMA given_work CASCADE; DROP ROLE pgw_it_given");
}
