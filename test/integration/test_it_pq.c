/* The machine against a real server: parameters and rows, outcomes, deadlines, transactions, COPY.
 */
#include "unity.h"
#include "pgw_all.h"
#include "pgtemp.h"

#include <stdio.h>
#include <string.h>

void setUp(void) {}
void tearDown(void) {}

static pgw *opened(const char *name, const char *value)
{
    pgw_conf *conf;
    pgw *h;

    TEST_ASSERT_EQUAL(PGW_OK, pgw_conf_new(&conf));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_conf_set(conf, "dsn", pgtemp_dsn()));
    if (name) TEST_ASSERT_EQUAL(PGW_OK, pgw_conf_set(conf, name, value));
    TEST_ASSERT_EQUAL_STRING("", (pgw__pq_open(&h, conf), pgw__pq_error_message(h)));
    pgw_conf_free(conf);
    return h;
}

static pgw_status read_int(pgw *h, const pgw__rows *rows, void *ctx)
{
    TEST_ASSERT_EQUAL_INT(1, pgw__rows_count(rows));
    **(int64_t **)ctx = pgw__rows_int(rows, 0, 0);
    return PGW_OK;
}

static int64_t number(pgw *h, const char *sql)
{
    int64_t n = -1, *out = &n;
    pgw__call call = {.read = read_int, .ctx = &out, .ctx_size = sizeof(out)};

    TEST_ASSERT_EQUAL_STRING("", (pgw__pq_text(h, "number", sql, &call), pgw__pq_error_message(h)));
    return n;
}

void test_a_statement_is_answered(void)
{
    pgw *h = opened(NULL, NULL);

    TEST_ASSERT_EQUAL_INT64(42, number(h, "SELECT 42"));
    TEST_ASSERT_EQUAL_INT64(-1, number(h, "SELECT -1::int2"));
    TEST_ASSERT_EQUAL_INT64(1, pgw__pq_epoch(h));
    pgw__pq_close(h);
}
