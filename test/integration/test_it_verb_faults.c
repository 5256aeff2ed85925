/* Every verb meets every fault that no argument can prevent, and every invalid name. The table has
 * a row for each verb, and there is a test for each fault. So a new verb is tested against all
 * faults. */
#include "unity.h"
#include "callkit.h"
#include "pgw_all.h"
#include "pgtemp.h"
#include "itpgw.h"
#include "verbs.h"

#include <stdlib.h>

/* This status, with words and what to do next. */
static void meets(size_t i, const char *name, pgw_status expected, const char *what)
{
    const pgw_status st = verbs[i].call(name);
    char text[400];

    snprintf(text, sizeof(text), "%s, %s: %s, not %s: %s", verbs[i].name, what, pgw_status_name(st),
             pgw_status_name(expected), pgw_error_message(h));
    TEST_ASSERT_EQUAL_INT_MESSAGE(expected, st, text);
    TEST_ASSERT_TRUE_MESSAGE(*pgw_error_message(h) != '\0', text);
    /* a bad argument's message says what is allowed; the others say what to do */
    if (st != PGW_EINVAL) TEST_ASSERT_TRUE_MESSAGE(*pgw_error_hint(h) != '\0', text);
}

static pgw *open_hostile(const char *more)
{
    char dsn[700];
    const char *pairs[] = {"dsn", dsn, "schema.check", "off", NULL};

    snprintf(dsn, sizeof(dsn), "%s %s", pgtemp_dsn(), more);
    return it_open_with(pairs);
}

void setUp(void)
{
    h = open_hostile("");
    ASSERT_ST(PGW_OK, pgw_migrate_up(h, NULL), h);
    make_table(h, "r", &it.t);
    pgw_close(h);
    h = NULL;
}

void tearDown(void)
{
    pgw_table_free(it.t);
    pgw_close(h);
}

static const char counts[] =
    "SELECT (SELECT count(*) FROM pgwork.queue) + (SELECT count(*) FROM pgwork.live_job) + "
    "(SELECT count(*) FROM pgwork.semaphore) + (SELECT count(*) FROM pgwork.schedule)";

void test_an_invalid_name_is_refused_by_every_verb(void)
{
    static char longer[1001];
    const char *const bad[] = {NULL, "", longer, "\xff\xfe", "a\xc3"};

    memset(longer, 'x', 1000);
    h = it_open();
    for (size_t i = 0; i < VERBS; i++) {
        if (verbs[i].flags & NAMELESS) continue;
        for (size_t b = verbs[i].flags & ALL_OF_IT ? 1 : 0; b < sizeof(bad) / sizeof(bad[0]); b++) {
            char what[40];

            snprintf(what, sizeof(what), "name %zu", b);
            meets(i, bad[b], PGW_EINVAL, what);
        }
    }
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number(counts));
    it_enqueue(h, "fine", NULL);
    ASSERT_ST(PGW_OK, pgw_queue_drop(h, "fine", true), h);
}

void test_a_read_only_server_refuses_every_verb_that_writes(void)
{
    h = open_hostile("options='-c default_transaction_read_only=on'");
    pgtemp_exec(
        "SELECT pgwork.enqueue('q'); SELECT pgwork.sema_create('q', 2);"
        "SELECT pgwork.rate_set('q', 1, 1000)"); /* a claim of an empty queue writes nothing */
    for (size_t i = 0; i < VERBS; i++) {
        if (verbs[i].flags & READS) {
            const pgw_status st = verbs[i].call("q");

            TEST_ASSERT_TRUE_MESSAGE(st >= 0 || st == PGW_ENOTFOUND || st == PGW_ELEASE,
                                     verbs[i].name);
        } else
            meets(i, "q", PGW_EPERM, "read-only");
    }
    TEST_ASSERT_EQUAL_INT64(3, pgtemp_number(counts));
    pgtemp_exec("SELECT pgwork.queue_drop('q', true); SELECT pgwork.sema_drop('q');"
                "SELECT pgwork.rate_drop('q')");
}

void test_a_role_without_rights_is_refused_by_every_verb(void)
{
    pgtemp_exec(
        "DO $$BEGIN CREATE ROLE pgw_it_nobody; EXCEPTION WHEN duplicate_object THEN NULL; END$$");
    h = open_hostile("options='-c role=pgw_it_nobody'");
    for (size_t i = 0; i < VERBS; i++) meets(i, "q", PGW_EPERM, "no rights");
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number(counts));
    pgtemp_exec("DROP ROLE IF EXISTS pgw_it_nobody");
}

void test_a_schema_that_was_dropped_meanwhile(void)
{
    pgw *other;

    h = open_hostile("");
    for (size_t i = 0; i < VERBS; i++) (void)verbs[i].call("q"); /* what is prepared, is */
    pgtemp_exec("DROP SCHEMA pgwork CASCADE");
    for (size_t i = 0; i < VERBS; i++)
        if (!(verbs[i].flags & OWN_TABLE)) meets(i, "q", PGW_ESCHEMA, "no schema");
    other = open_hostile("");
    ASSERT_ST(PGW_OK, pgw_migrate_up(other, NULL), other);
    pgw_close(other);
    it_enqueue(h, "q", NULL); /* the same handle, as if nothing had been */
    ASSERT_ST(PGW_OK, pgw_queue_drop(h, "q", true), h);
}

void test_without_a_server_every_verb_returns_a_lost_connection(void)
{
    pgw_conf *conf = it_conf(NULL);

    ASSERT_ST(PGW_OK, pgw_conf_set(conf, "dsn", "host=/nowhere port=1"), NULL);
    ASSERT_ST(PGW_OK, pgw_conf_set(conf, "connect.timeout_ms", "100"), NULL);
    TEST_ASSERT_EQUAL_INT(PGW_ECONN, pgw_open(conf, &h));
    pgw_conf_free(conf);
    TEST_ASSERT_NOT_NULL(h);
    pgw_set_timeout(h, 20);
    for (size_t i = 0; i < VERBS; i++) {
        const pgw_status st = verbs[i].call("q");

        TEST_ASSERT_TRUE_MESSAGE(st == PGW_ECONN || st == PGW_ETIMEDOUT, verbs[i].name);
        TEST_ASSERT_TRUE_MESSAGE(*pgw_error_message(h) != '\0', verbs[i].name);
        TEST_ASSERT_TRUE_MESSAGE(pgw_is_retriable(st), verbs[i].name);
    }
}

void test_without_a_handle_each_verb_returns_an_error(void)
{
    for (size_t i = 0; i < VERBS; i++)
        TEST_ASSERT_TRUE_MESSAGE(verbs[i].call("q") < 0, verbs[i].name);
}
