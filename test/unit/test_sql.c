/* sql: the registry is complete, and the name of the schema is inserted in the right places only.
 */
#include "unity.h"
#include "sql.h"
#include "buf.h"
#include "mem.h"
#include "oom.h"

#include <stdlib.h>
#include <string.h>

void setUp(void) {}
void tearDown(void)
{
    pgw_set_allocator(NULL);
}

void test_every_statement_has_a_name_of_its_own_and_a_text(void)
{
    for (int id = 0; id < (int)PGW__SQL_COUNT; id++) {
        const char *name = pgw__sql_name((pgw__sql)id), *text = pgw__sql_text((pgw__sql)id);

        TEST_ASSERT_NOT_NULL(name);
        TEST_ASSERT_NOT_NULL(text);
        TEST_ASSERT_TRUE_MESSAGE(strlen(text) > 0 && text[strlen(text) - 1] == '\n', name);
        for (int k = 0; k < id; k++)
            TEST_ASSERT_TRUE_MESSAGE(strcmp(name, pgw__sql_name((pgw__sql)k)) != 0, name);
    }
}

void test_migrations_are_numbered_from_1_without_gaps(void)
{
    TEST_ASSERT_GREATER_OR_EQUAL_INT(0, pgw__sql_migrations());
    for (int number = 1; number <= pgw__sql_migrations(); number++) {
        const char *name = pgw__sql_migration_name(number);

        TEST_ASSERT_NOT_NULL(name);
        TEST_ASSERT_EQUAL_INT(number, atoi(name));
        TEST_ASSERT_NOT_NULL(pgw__sql_migration_text(number));
    }
    TEST_ASSERT_NULL(pgw__sql_migration_name(0));
    TEST_ASSERT_NULL(pgw__sql_migration_text(0));
    TEST_ASSERT_NULL(pgw__sql_migration_name(-1));
    TEST_ASSERT_NULL(pgw__sql_migration_text(pgw__sql_migrations() + 1));
    TEST_ASSERT_NULL(pgw__sql_migration_name(pgw__sql_migrations() + 1));
}

void test_the_schema_goes_where_it_belongs(void)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"", ""},
        {"SELECT 1", "SELECT 1"},
        {"pgwork.job", "q.job"},
        {"SELECT pgwork.enqueue($1)", "SELECT q.enqueue($1)"},
        {"(pgwork.a,pgwork.b)", "(q.a,q.b)"},
        {"'pgwork.job'::regclass", "'q.job'::regclass"},
        {"$$pgwork.job$$", "$$pgwork.job$$"}, /* a $ can be of an identifier; nobody writes so */
        {"$$ pgwork.job $$", "$$ q.job $$"},
        {"CREATE SCHEMA pgwork", "CREATE SCHEMA q"},
        {"CREATE SCHEMA pgwork;", "CREATE SCHEMA q;"},
        {"create schema\n\t pgwork\n", "create schema\n\t q\n"},
        {"ON SCHEMA pgwork TO pgwork_worker", "ON SCHEMA q TO pgwork_worker"},
        {"IN Schema pgwork;", "IN Schema q;"},
        {"SCHEMA pgwork.", "SCHEMA q."},
        /* and not here */
        {"pgwork", "pgwork"},
        {"run pgwork migrate", "run pgwork migrate"},
        {"'pgwork'", "'pgwork'"},
        {"pgwork_producer", "pgwork_producer"},
        {"SCHEMA pgwork_producer", "SCHEMA pgwork_producer"},
        {"SCHEMA pgwork2", "SCHEMA pgwork2"},
        {"SCHEMA pgwork$", "SCHEMA pgwork$"},
        {"SCHEMA pgwork\xc3\xa9", "SCHEMA pgwork\xc3\xa9"},
        {"SCHEMA \"pgwork\"", "SCHEMA \"pgwork\""},
        {"\"pgwork\".job", "\"pgwork\".job"},
        {"\"pgwork.job\"", "\"pgwork.job\""},
        {"mypgwork.job", "mypgwork.job"},
        {"_pgwork.job", "_pgwork.job"},
        {"$pgwork.job", "$pgwork.job"},
        {"7pgwork.job", "7pgwork.job"},
        {"\xc3\xa9pgwork.job", "\xc3\xa9pgwork.job"},
        {"db.pgwork.job", "db.pgwork.job"},
        {"PGWORK.job", "PGWORK.job"},
        {"pgwork .job", "pgwork .job"},
        {"SCHEMApgwork", "SCHEMApgwork"},
        {"MYSCHEMA pgwork", "MYSCHEMA pgwork"},
        {"\"SCHEMA pgwork", "\"SCHEMA pgwork"},
        {"CHEMA pgwork", "CHEMA pgwork"},
        {" pgwork", " pgwork"},
        {"SCHEMA", "SCHEMA"},
        {"pgworkpgwork.x", "pgworkpgwork.x"},
        {"pgwork.pgwork.x", "q.pgwork.x"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *text = pgw__sql_in_schema(cases[i].text, "q");

        TEST_ASSERT_EQUAL_STRING(cases[i].expected, text);
        pgw__mem_free(text);
        text = pgw__sql_in_schema(cases[i].text, "pgwork");
        TEST_ASSERT_EQUAL_STRING(cases[i].text, text);
        pgw__mem_free(text);
    }
}

void test_everything_that_is_registered_keeps_its_sense(void)
{
    for (int number = 1; number <= pgw__sql_migrations(); number++) {
        char *text = pgw__sql_in_schema(pgw__sql_migration_text(number), "another_schema");
        char *back = pgw__sql_in_schema(pgw__sql_migration_text(number), "pgwork");

        TEST_ASSERT_NULL_MESSAGE(strstr(text, " pgwork."), pgw__sql_migration_name(number));
        TEST_ASSERT_EQUAL_STRING(pgw__sql_migration_text(number), back);
        pgw__mem_free(text);
        pgw__mem_free(back);
    }
}

void test_out_of_memory_is_null(void)
{
    int n = 0;
    char *text;

    oom_begin();
    do {
        oom_fail(++n);
        text =
            pgw__sql_in_schema("SELECT pgwork.a, pgwork.b, pgwork.c", "a_much_longer_name_for_it");
        TEST_ASSERT_TRUE((text == NULL) == oom_failed());
    } while (oom_failed());
    TEST_ASSERT_EQUAL_STRING("SELECT a_much_longer_name_for_it.a, a_much_longer_name_for_it.b, "
                             "a_much_longer_name_for_it.c",
                             text);
    TEST_ASSERT_GREATER_THAN_INT(2, n);
    pgw__mem_free(text);
    oom_fail(1);
    TEST_ASSERT_NULL(pgw__sql_in_schema("", "q"));
    oom_end();
}
