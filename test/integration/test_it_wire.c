/* Every verb of a queue that writes, with the line cut at each message of the answer, with or
 * without a last word of the server: the outcome is one of those that the verb may have, and a
 * repeat has one effect together with it. */
#include "unity.h"
#include "callkit.h"
#include "pgw_all.h"
#include "itpgw.h"
#include "pgtemp.h"
#include "wire.h"

#include <stdio.h>
#include <string.h>

static wire *w;
static pgw *h, *direct;

void setUp(void)
{
    pgtemp_migrate();
    direct = it_open_bare();
    w = wire_open();
}

void tearDown(void)
{
    pgw_close(h);
    pgw_close(direct);
    h = NULL;
    wire_close(w);
}

static void open_through_wire(void)
{
    const char *const pairs[] = {"dsn", wire_dsn(w), "schema.check", "off", NULL};

    pgw_close(h);
    h = it_open_with(pairs);
}

/* A verb: does it once. */
typedef struct verb {
    const char *name;
    pgw_status (*call)(pgw_ref ref, const char *op);
    bool needs_job;
    const char *done; /* SQL: true once it is applied; %lld: the id */
} verb;

static pgw_status do_enqueue(pgw_ref ref, const char *op)
{
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    int64_t id;

    (void)ref;
    job.op = op;
    return pgw_enqueue(h, "wired", &job, &id);
}

static pgw_status do_complete(pgw_ref ref, const char *op)
{
    (void)op;
    return pgw_complete(h, "wired", &ref, 1, NULL);
}

static pgw_status do_fail(pgw_ref ref, const char *op)
{
    (void)op;
    return pgw_fail(h, "wired", &ref, 1, NULL);
}

static pgw_status do_release(pgw_ref ref, const char *op)
{
    (void)op;
    return pgw_release(h, "wired", &ref, 1);
}

static pgw_status do_snooze(pgw_ref ref, const char *op)
{
    (void)op;
    return pgw_snooze(h, "wired", &ref, 1, SNOOZE_BY(3600000));
}

static const verb verbs[] = {
    {"enqueue", do_enqueue, false, "SELECT count(*) FROM pgwork.operation WHERE op = '%s'"},
    {"complete", do_complete, true, "SELECT count(*) = 0 FROM pgwork.job WHERE id = %lld"},
    {"fail", do_fail, true, "SELECT state <> 'leased' FROM pgwork.job WHERE id = %lld"},
    {"release", do_release, true, "SELECT state <> 'leased' FROM pgwork.job WHERE id = %lld"},
    {"snooze", do_snooze, true, "SELECT state <> 'leased' FROM pgwork.job WHERE id = %lld"},
};

static bool is_done(const verb *v, pgw_ref ref, const char *op)
{
    char sql[200], number[24];
    const char *value;

    snprintf(number, sizeof(number), "%lld", (long long)ref.id);
    snprintf(sql, sizeof(sql), "%.*s%s%s", (int)(strchr(v->done, '%') - v->done), v->done,
             v->needs_job ? number : op, v->needs_job ? "" : "'");
    value = pgtemp_value(sql);
    return value != NULL && (*value == 't' || *value == '1');
}

/* At the n-th message of this type; false: there are not so many. */
static bool cut_at(const verb *v, char type, int n, bool fatal)
{
    static int number;
    char op[40], where[80];
    pgw_ref ref = {0};
    pgw_status first, again;
    int orders = wire_orders(w);
    size_t size = 0;
    const char *words =
        fatal ? wire_message('E', "FATAL", "57P01", "terminating connection", &size) : NULL;

    snprintf(where, sizeof(where), "%s, cut at message %d of type %c%s", v->name, n, type,
             fatal ? ", with 57P01" : "");
    snprintf(op, sizeof(op), "00000000-0000-4000-8000-%012d", ++number);
    if (v->needs_job) {
        it_enqueue(direct, "wired", "1");
        ref = it_claim_one(direct, "wired");
    }
    open_through_wire();
    wire_at(w, type, n, words, size, WIRE_CUT);
    first = v->call(ref, op);
    wire_at(w, type, 1000, NULL, 0, WIRE_PASS);
    if (wire_orders(w) == orders) {
        TEST_ASSERT_EQUAL_INT_MESSAGE(PGW_OK, first, where);
        return false;
    }
    if (first == PGW_OK) {
        TEST_ASSERT_TRUE_MESSAGE(is_done(v, ref, op), where);
    } else if (first != PGW_EUNKNOWN) {
        TEST_ASSERT_EQUAL_INT_MESSAGE(PGW_ECONN, first, where);
        TEST_ASSERT_FALSE_MESSAGE(is_done(v, ref, op), where);
    }
    again = v->call(ref, op);
    if (again != PGW_ELEASE) TEST_ASSERT_TRUE_MESSAGE(again >= PGW_OK, where);
    TEST_ASSERT_TRUE_MESSAGE(is_done(v, ref, op), where);
    return true;
}

void test_a_cut_at_each_message_of_each_verb_has_a_true_outcome_and_one_effect(void)
{
    static const char types[] = "12tTDCZ";
    int cuts = 0;
    long long before = 0;

    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        for (const char *type = types; *type != '\0'; type++)
            for (int n = 1; n < 20 && cut_at(&verbs[i], *type, n, false); n++)
                cuts += 1 + cut_at(&verbs[i], *type, n, true);
        /* each enqueue with an operation id made one job, whatever happened to its answer */
        if (i == 0)
            before = pgtemp_number("SELECT count(*) - (SELECT count(*) FROM pgwork.operation) "
                                   "FROM pgwork.job WHERE queue = 'wired'");
    }
    TEST_ASSERT_EQUAL_INT64(0, before);
    TEST_ASSERT_TRUE(cuts > 40);
}
