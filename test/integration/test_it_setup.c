/* The set-up of integration tests: a private server, a database of its own, the library in one
 * unit. */
#include "unity.h"
#include "pgw_all.h"
#include "pgtemp.h"

void setUp(void) {}
void tearDown(void) {}

void test_a_statement_runs_in_a_database_of_our_own(void)
{
    pgtemp_exec("CREATE TABLE t (a int); INSERT INTO t VALUES (1), (2)");
    TEST_ASSERT_EQUAL_INT64(3, pgtemp_number("SELECT sum(a) FROM t"));
    TEST_ASSERT_NOT_NULL(
        pgtemp_value("SELECT 1 WHERE current_database() ~ '^pgw_it_setup_[0-9]+$'"));
    TEST_ASSERT_NULL(pgtemp_value("SELECT NULL"));
}

void test_the_server_listens_on_no_network(void)
{
    pgtemp_dsn();
    TEST_ASSERT_EQUAL_STRING("", pgtemp_value("SHOW listen_addresses"));
}

void test_the_amalgamation_holds_the_library(void)
{
    TEST_ASSERT_EQUAL_STRING(PGW_VERSION_STRING, pgw_version());
}

void test_the_schema_goes_into_an_empty_database(void)
{
    pgtemp_migrate();
    pgtemp_migrate();
    TEST_ASSERT_EQUAL_INT64(
        1, pgtemp_number("SELECT count(*) FROM pg_namespace WHERE nspname = 'pgwork'"));
}
