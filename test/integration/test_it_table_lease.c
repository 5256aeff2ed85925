/* Leases on rows of a caller's table: each row has one holder, and the token decides. Longer than
 * 600 lines: all of leases on rows in one program, since each program costs a build and a
 * migration. */
#include "unity.h"
#include "callkit.h"
#include "pgw_all.h"
#include "oom.h"
#include "childkit.h"
#include "itpgw.h"
#include "pgtemp.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pgw *h;
static pgw_table *t;

void setUp(void)
{
    h = it_open_bare();
    t = NULL;
    pgtemp_exec("DROP SCHEMA public CASCADE; CREATE SCHEMA public");
}

void tearDown(void)
{
    pgw_table_free(t);
    pgw_close(h);
}

static const char *const by_id[] = {"id"};
#define LEASE "locked_by text, expires_at timestamptz, token uuid"

static pgw_table_spec spec_of(const char *const *key, size_t n)
{
    pgw_table_spec s = PGW_TABLE_SPEC_INIT;

    s.table = "t", s.key = key, s.key_count = n;
    s.locked_by = "locked_by", s.expires_at = "expires_at", s.token = "token";
    return s;
}

static void must(pgw_status st)
{
    TEST_ASSERT_EQUAL_STRING_MESSAGE("PGW_OK", pgw_status_name(st), pgw_error_message(h));
}

/* Table t with rows 1 .. n, and its description. */
static void articles(int n)
{
    pgw_table_spec s = spec_of(by_id, 1);
    char sql[256];

    snprintf(sql, sizeof(sql),
             "CREATE TABLE t (id int PRIMARY KEY, a int DEFAULT 0, " LEASE
             "); INSERT INTO t (id) SELECT generate_series(1, %d)",
             n);
    pgtemp_exec(sql);
    must(pgw_table_open(h, &s, &t));
}

static pgw_table_claim_opts asking(int max, const char *holder)
{
    pgw_table_claim_opts o = PGW_TABLE_CLAIM_OPTS_INIT;

    o.max = max, o.holder = holder;
    return o;
}

static pgw_rows *claimed(int max, const char *holder)
{
    const pgw_table_claim_opts o = asking(max, holder);
    pgw_rows *rows;

    must(pgw_table_claim(h, t, &o, &rows));
    return rows;
}

static bool same(pgw_token a, pgw_token b)
{
    return a.number == b.number && a.nonce == b.nonce;
}

static void expire(const char *where)
{
    char sql[256];

    snprintf(sql, sizeof(sql),
             "UPDATE t SET expires_at = clock_timestamp() - interval '1 second' WHERE %s", where);
    pgtemp_exec(sql);
}

/* ---- claim ---- */

/* Both have the same host and process number, as two containers may, each with its process 1. */
void test_without_a_name_each_handle_is_a_holder_of_its_own(void)
{
    const pgw_table_claim_opts o = asking(2, NULL);
    pgw *other = it_open_bare();
    pgw_rows *mine, *again, *theirs;

    articles(2);
    mine = claimed(1, NULL);
    TEST_ASSERT_EQUAL_STRING("PGW_OK", pgw_status_name(pgw_table_claim(other, t, &o, &theirs)));
    TEST_ASSERT_EQUAL(1, pgw_rows_count(theirs));
    TEST_ASSERT_EQUAL_STRING("2", pgw_rows_key(theirs, 0)[0]);
    TEST_ASSERT_EQUAL_INT64(2, pgtemp_number("SELECT count(DISTINCT locked_by) FROM t"));
    /* it is the handle's name, not the session's */
    pgw__pq_drop(h);
    again = claimed(2, NULL);
    TEST_ASSERT_EQUAL(1, pgw_rows_count(again));
    TEST_ASSERT_TRUE(same(pgw_rows_ref(mine, 0).token, pgw_rows_ref(again, 0).token));
    pgw_rows_free(mine);
    pgw_rows_free(again);
    pgw_rows_free(theirs);
    pgw_close(other);
}

void test_a_claim_takes_the_first_free_rows(void)
{
    const char *const columns[] = {"a", "id"};
    pgw_table_claim_opts o = asking(3, "anna");
    pgw_rows *rows;

    articles(10);
    o.columns = columns, o.columns_count = 2, o.lease_ms = 60000;
    must(pgw_table_claim(h, t, &o, &rows));
    TEST_ASSERT_EQUAL(3, pgw_rows_count(rows));
    TEST_ASSERT_EQUAL(2, pgw_rows_columns(rows));
    TEST_ASSERT_EQUAL_STRING("id", pgw_rows_name(rows, 1));
    for (size_t i = 0; i < 3; i++) {
        const char want[] = {(char)('1' + i), 0};

        TEST_ASSERT_EQUAL_STRING(want, pgw_rows_key(rows, i)[0]);
        TEST_ASSERT_EQUAL_STRING(want, pgw_rows_get(rows, i, "id"));
        TEST_ASSERT_EQUAL_STRING("0", pgw_rows_at(rows, i, 0));
        TEST_ASSERT_GREATER_THAN(0, pgw_rows_ref(rows, i).token.number);
    }
    TEST_ASSERT_INT64_WITHIN(
        30000000,
        pgtemp_number("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint") +
            60000000,
        pgw_rows_lease_until_us(rows, 0));
    TEST_ASSERT_EQUAL_INT64(3, pgtemp_number("SELECT count(*) FROM t WHERE locked_by = 'anna' AND "
                                             "expires_at > clock_timestamp() AND id <= 3"));
    /* what is not there */
    TEST_ASSERT_NULL(pgw_rows_get(rows, 0, "nope"));
    TEST_ASSERT_NULL(pgw_rows_get(rows, 0, NULL));
    TEST_ASSERT_NULL(pgw_rows_at(rows, 3, 0));
    TEST_ASSERT_NULL(pgw_rows_at(rows, 0, 2));
    TEST_ASSERT_NULL(pgw_rows_key(rows, 3));
    TEST_ASSERT_NULL(pgw_rows_name(rows, 2));
    TEST_ASSERT_NULL(pgw_rows_version(rows, 3));
    TEST_ASSERT_NULL(pgw_rows_ref(rows, 3).key);
    TEST_ASSERT_EQUAL_INT64(0, pgw_rows_lease_until_us(rows, 3));
    pgw_rows_free(rows);
    TEST_ASSERT_EQUAL(0, pgw_rows_count(NULL));
    pgw_rows_free(NULL);
}

void test_nothing_free_is_empty(void)
{
    const pgw_table_claim_opts o = asking(5, "bert");
    pgw_rows *rows;

    articles(2);
    pgw_rows_free(claimed(2, "anna"));
    rows = (pgw_rows *)&rows;
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY, pgw_table_claim(h, t, &o, &rows));
    TEST_ASSERT_NULL(rows);
}

void test_a_holder_that_claims_again_gets_its_own_rows_first(void)
{
    pgw_rows *first, *again;

    articles(10);
    pgtemp_exec("UPDATE t SET locked_by = 'bert', expires_at = clock_timestamp() + interval '1 "
                "hour' WHERE id IN (1, 4)");
    first = claimed(2, "anna");
    TEST_ASSERT_EQUAL_STRING("2", pgw_rows_key(first, 0)[0]);
    TEST_ASSERT_EQUAL_STRING("3", pgw_rows_key(first, 1)[0]);
    again = claimed(3, "anna");
    TEST_ASSERT_EQUAL(3, pgw_rows_count(again));
    for (size_t i = 0; i < 2; i++) {
        TEST_ASSERT_EQUAL_STRING(pgw_rows_key(first, i)[0], pgw_rows_key(again, i)[0]);
        TEST_ASSERT_TRUE(same(pgw_rows_ref(first, i).token, pgw_rows_ref(again, i).token));
        TEST_ASSERT_GREATER_THAN_INT64(pgw_rows_lease_until_us(first, i),
                                       pgw_rows_lease_until_us(again, i));
    }
    TEST_ASSERT_EQUAL_STRING("5", pgw_rows_key(again, 2)[0]);
    pgw_rows_free(again);
    again = claimed(1, "anna");
    TEST_ASSERT_EQUAL(1, pgw_rows_count(again));
    TEST_ASSERT_EQUAL_STRING("2", pgw_rows_key(again, 0)[0]);
    pgw_rows_free(again);
    pgw_rows_free(first);
}

/* Else its holder got it at every claim, and could never finish it. */
void test_a_row_that_was_assigned_by_hand_gets_its_token_with_the_claim(void)
{
    pgw_rows *rows, *again;
    pgw_row_ref ref;

    articles(2);
    pgtemp_exec("UPDATE t SET locked_by = 'anna', expires_at = now() + interval '1 hour' WHERE id "
                "= 2");
    rows = claimed(1, "anna");
    ref = pgw_rows_ref(rows, 0);
    TEST_ASSERT_EQUAL_STRING("2", ref.key[0]);
    again = claimed(1, "anna");
    TEST_ASSERT_TRUE(same(ref.token, pgw_rows_ref(again, 0).token));
    must(pgw_table_finish(h, t, &ref, 1, FINISH("a = 1", NULL, 0)));
    pgw_rows_free(rows);
    pgw_rows_free(again);
}

void test_an_expired_lease_goes_to_the_next_and_the_old_token_is_worth_nothing(void)
{
    pgw_rows *old, *new;
    pgw_row_ref ref;

    articles(1);
    old = claimed(1, "anna");
    ref = pgw_rows_ref(old, 0);
    expire("true");
    new = claimed(1, "bert");
    TEST_ASSERT_GREATER_THAN_UINT64(ref.token.number, pgw_rows_ref(new, 0).token.number);
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_table_extend(h, t, &ref, 1, ROWS_BY(1000)));
    TEST_ASSERT_EQUAL(PGW_ELEASE, ref.outcome);
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_table_release(h, t, &ref, 1));
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_table_finish(h, t, &ref, 1, FINISH("a = 666", NULL, 0)));
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT a FROM t"));
    TEST_ASSERT_EQUAL_STRING("bert", pgtemp_value("SELECT locked_by FROM t"));
    pgw_rows_free(old);
    pgw_rows_free(new);
}

void test_a_token_needs_both_of_its_halves(void)
{
    pgw_rows *rows;
    pgw_row_ref ref;

    articles(1);
    rows = claimed(1, "anna");
    ref = pgw_rows_ref(rows, 0);
    ref.token.nonce ^= 1;
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_table_release(h, t, &ref, 1));
    ref.token.nonce ^= 1, ref.token.number ^= 1;
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_table_release(h, t, &ref, 1));
    ref.token.number ^= 1;
    must(pgw_table_release(h, t, &ref, 1));
    pgw_rows_free(rows);
}

void test_a_late_call_is_accepted_until_another_session_takes_the_lease(void)
{
    pgw_rows *rows;
    pgw_row_ref ref;

    articles(1);
    rows = claimed(1, "anna");
    ref = pgw_rows_ref(rows, 0);
    expire("true");
    must(pgw_table_extend(h, t, &ref, 1, ROWS_BY(60000)));
    expire("true");
    must(pgw_table_finish(h, t, &ref, 1, FINISH("a = 1", NULL, 0)));
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_table_finish(h, t, &ref, 1, FINISH("a = 2", NULL, 0)));
    TEST_ASSERT_EQUAL_INT64(
        1, pgtemp_number("SELECT a FROM t WHERE locked_by IS NULL AND expires_at IS NULL"));
    pgw_rows_free(rows);
}

void test_numbers_grow_also_over_releases_reaping_and_rebirth(void)
{
    uint64_t last = 0;

    articles(1);
    for (int i = 0; i < 20; i++) {
        pgw_rows *rows = claimed(1, "anna");
        pgw_row_ref ref = pgw_rows_ref(rows, 0);

        TEST_ASSERT_GREATER_THAN_UINT64(last, ref.token.number);
        last = ref.token.number;
        if (i % 4 == 0) must(pgw_table_release(h, t, &ref, 1));
        if (i % 4 == 1) must(pgw_table_finish(h, t, &ref, 1, FINISH("a = a + 1", NULL, 0)));
        if (i % 4 == 2) expire("true"), must(pgw_table_reap(h, t, 10, NULL));
        if (i % 4 == 3) pgtemp_exec("DELETE FROM t; INSERT INTO t (id) VALUES (1)");
        pgw_rows_free(rows);
    }
    /* a clock that went back does not matter either */
    pgtemp_exec("UPDATE t SET token = '0fffffff-0000-0000-0000-000000000000'");
    pgw_rows *rows = claimed(1, "anna");
    TEST_ASSERT_EQUAL_HEX64(0x0fffffff00000001, pgw_rows_ref(rows, 0).token.number);
    pgw_rows_free(rows);
}

void test_fragments_choose_and_order_with_values_that_are_bound(void)
{
    const char *const values[] = {"x'; DROP TABLE t; --", "3", NULL};
    pgw_table_claim_opts o = asking(10, "anna");
    pgw_table_spec s = spec_of(by_id, 1);
    pgw_rows *rows;

    s.claimable = "done IS NOT TRUE -- a comment takes nothing with it";
    pgtemp_exec("CREATE TABLE t (id int PRIMARY KEY, name text, weight int, done boolean, " LEASE
                ");"
                "INSERT INTO t VALUES (1, 'x''; DROP TABLE t; --', 1, false), (2, 'x''; DROP TABLE "
                "t; --', 9, false), (3, 'y', 9, false), (4, 'x''; DROP TABLE t; --', 5, NULL),"
                "(5, 'x''; DROP TABLE t; --', 7, true), (6, 'y', 1, false)");
    must(pgw_table_open(h, &s, &t));
    o.where = "name = $1 AND weight > $2 AND $3::text IS NULL -- so",
    o.order = "t.weight DESC, id -- first";
    o.values = values, o.values_count = 3;
    must(pgw_table_claim(h, t, &o, &rows));
    TEST_ASSERT_EQUAL(2, pgw_rows_count(rows));
    TEST_ASSERT_EQUAL_STRING("2", pgw_rows_key(rows, 0)[0]);
    TEST_ASSERT_EQUAL_STRING("4", pgw_rows_key(rows, 1)[0]);
    pgw_rows_free(rows);
    o.where = "nope = 1", o.values_count = 0, o.order = NULL;
    TEST_ASSERT_EQUAL(PGW_ESCHEMA, pgw_table_claim(h, t, &o, &rows));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_message(h), "nope"));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_hint(h), "fragments"));
    o.where = "weight = $1", o.values_count = 1;
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_table_claim(h, t, &o, &rows));
    TEST_ASSERT_NULL(strstr(pgw_error_message(h), "DROP"));
}

/* A subselect with LIMIT is executed again for each row under some plans: not ours. */
void test_the_limit_holds_under_any_plan(void)
{
    static const char *const knobs[] = {"enable_hashjoin", "enable_mergejoin", "enable_nestloop",
                                        "enable_seqscan",  "enable_indexscan", "enable_bitmapscan",
                                        "enable_material", "enable_sort"};

    articles(1000);
    pgtemp_exec("ANALYZE t");
    for (unsigned bits = 0; bits < 256; bits += 5) {
        char sql[128], who[32];

        for (unsigned k = 0; k < 8; k++) {
            snprintf(sql, sizeof(sql), "SET %s = %s", knobs[k], bits >> k & 1 ? "off" : "on");
            must(pgw__pq_text(h, "knob", sql, &(pgw__call){0}));
        }
        snprintf(who, sizeof(who), "plan %u", bits);
        pgw_rows *rows = claimed(3, who);
        TEST_ASSERT_EQUAL(3, pgw_rows_count(rows));
        snprintf(sql, sizeof(sql), "SELECT count(*) FROM t WHERE locked_by = '%s'", who);
        TEST_ASSERT_EQUAL_INT64(3, pgtemp_number(sql));
        expire("id = 1");
        must(pgw_table_reap(h, t, 1, NULL));
        pgw_rows_free(rows);
    }
}

/* Whoever has no rows, or wants them in an order that an index has, must not cost a walk through
 * the table. */
void test_a_claim_reads_few_rows_when_the_indexes_are_there(void)
{
    static const char *const orders[] = {NULL, "id"};
    PGconn *conn = pgtemp_connect();
    pgw_rows *rows;
    pgw *mine;

    articles(20000);
    pgtemp_exec("UPDATE t SET locked_by = 'r' || id % 500, expires_at = now() + interval '1 day', "
                "token = gen_random_uuid() WHERE id % 100 > 0");
    must(pgw_table_init(h, t));
    pgtemp_exec("VACUUM ANALYZE t");
    TEST_ASSERT_EQUAL(PGW_OK, pgw_attach(conn, NULL, &mine));
    for (size_t i = 0; i < 2; i++) {
        pgw_table_claim_opts o = asking(5, "anna");
        PGresult *res;

        o.order = orders[i];
        PQclear(PQexec(conn, "BEGIN"));
        TEST_ASSERT_EQUAL(PGW_OK, pgw_table_claim(mine, t, &o, &rows));
        TEST_ASSERT_EQUAL(5, pgw_rows_count(rows));
        pgw_rows_free(rows);
        res = PQexec(conn, "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables "
                           "WHERE relid = 'public.t'::regclass");
        TEST_ASSERT_LESS_THAN(2000, atoi(PQgetvalue(res, 0, 0)));
        PQclear(res);
        PQclear(PQexec(conn, "ROLLBACK"));
    }
    pgw_close(mine);
    PQfinish(conn);
}

void test_rights_on_some_columns_are_enough(void)
{
    pgw_table_claim_opts o = asking(2, "anna");
    pgw_rows *rows;
    pgw_row_ref ref;

    articles(3);
    pgw_table_free(t);
    pgtemp_exec("ALTER TABLE t ADD secret text; DROP ROLE IF EXISTS clerk; CREATE ROLE clerk; "
                "GRANT USAGE ON SCHEMA public TO clerk;"
                "GRANT SELECT (id, a, locked_by, expires_at, token), UPDATE (a, locked_by, "
                "expires_at, token) ON t TO clerk");
    must(pgw__pq_text(h, "role", "SET ROLE clerk", &(pgw__call){0}));
    const pgw_table_spec s = spec_of(by_id, 1);
    must(pgw_table_open(h, &s, &t));
    for (int twice = 0; twice < 2; twice++) {
        must(pgw_table_claim(h, t, &o, &rows));
        TEST_ASSERT_EQUAL(2, pgw_rows_count(rows));
        if (twice == 0) pgw_rows_free(rows);
    }
    ref = pgw_rows_ref(rows, 0);
    must(pgw_table_finish(h, t, &ref, 1, FINISH("a = 1", NULL, 0)));
    TEST_ASSERT_EQUAL(PGW_EPERM, pgw_table_finish(h, t, &ref, 1, FINISH("secret = 'x'", NULL, 0)));
    TEST_ASSERT_EQUAL(PGW_EMISUSE,
                      pgw_table_update(h, t, CHANGE(ref.key, "x", CELL("a", "2"), 1), NULL));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_message(h), "xmin"));
    must(pgw__pq_text(h, "role", "RESET ROLE", &(pgw__call){0}));
    pgtemp_exec("DROP OWNED BY clerk; DROP ROLE clerk");
    pgw_rows_free(rows);
}

void test_rows_that_a_transaction_holds_are_passed_over(void)
{
    pgw_rows *rows;

    articles(3);
    pgtemp_exec("BEGIN; SELECT FROM t WHERE id = 1 FOR UPDATE");
    rows = claimed(3, "anna");
    pgtemp_exec("ROLLBACK");
    TEST_ASSERT_EQUAL(2, pgw_rows_count(rows));
    TEST_ASSERT_EQUAL_STRING("2", pgw_rows_key(rows, 0)[0]);
    pgw_rows_free(rows);
}

void test_bad_options_are_refused(void)
{
    static const char *const nope[] = {"nope"};
    pgw_table_claim_opts o;
    pgw_table_spec s = spec_of(by_id, 1);
    pgw_table *plain;
    pgw_rows *rows;

    articles(1);
#define REFUSED(change)                                                  \
    do {                                                                 \
        o = asking(1, "anna");                                           \
        (change);                                                        \
        TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_table_claim(h, t, &o, &rows)); \
        TEST_ASSERT_NULL(rows);                                          \
    } while (0)
    REFUSED(o.max = 0);
    REFUSED(o.max = 10001);
    REFUSED(o.lease_ms = 99);
    REFUSED(o.lease_ms = INT64_C(31536000001));
    REFUSED(o.holder = "");
    REFUSED(o.holder = "a\nb");
    REFUSED(o.values_count = 1);
    REFUSED(o.values_count = 33);
    REFUSED((o.columns = nope, o.columns_count = 1));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_message(h), "column `nope` does not exist"));
    REFUSED(o.struct_size = 4096);
#undef REFUSED
    o.struct_size = sizeof(o), o.where = "id ="; /* the server says where, and we in what */
    TEST_ASSERT_EQUAL(PGW_EDB, pgw_table_claim(h, t, &o, &rows));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_hint(h), "your fragments"));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_table_claim(h, t, NULL, NULL));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_table_claim(h, NULL, NULL, &rows));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_table_claim(NULL, t, NULL, &rows));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_table_extend(h, t, NULL, 1, ROWS_BY(1000)));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_table_extend(h, t, &(pgw_row_ref){0}, 1, ROWS_BY(1000)));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_table_release(h, t, &(pgw_row_ref){0}, 0));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_table_reap(h, t, 0, NULL));
    s.locked_by = s.expires_at = s.token = NULL;
    must(pgw_table_open(h, &s, &plain));
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw_table_claim(h, plain, NULL, &rows));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_message(h), "without leases"));
    pgw_table_free(plain);
    /* all defaults: the holder is host:pid:mark */
    must(pgw_table_claim(h, t, NULL, &rows));
    TEST_ASSERT_EQUAL_INT64(
        1, pgtemp_number("SELECT count(*) FROM t WHERE locked_by ~ ':[0-9]+:[0-9a-f]{12}$'"));
    pgw_rows_free(rows);
}

/* ---- keys ---- */

void test_keys_of_every_type_make_the_round_trip(void)
{
    static const struct {
        const char *type, *values[2];
    } types[] = {
        {"smallint", {"-32768", "7"}},
        {"bigint", {"9223372036854775807", "0"}},
        {"numeric(20, 5)", {"-1.50000", "12345678901234.56789"}},
        {"double precision", {"0.1", "-1e+300"}},
        {"text", {"", "\xf0\x9f\x92\xa5 '\"\\ {,} NULL"}},
        {"varchar(10)", {"a", "NULL"}},
        {"char(5)", {"ab", "a"}},
        {"boolean", {"true", "false"}},
        {"uuid", {"00000000-0000-0000-0000-000000000001", "ffffffff-ffff-ffff-ffff-ffffffffffff"}},
        {"date", {"infinity", "2024-02-29"}},
        {"timestamptz", {"-infinity", "2024-03-31 01:30:00.123456+00"}},
        {"timestamp", {"2024-03-31 02:30:00", "0044-03-15 12:00:00 BC"}},
        {"interval", {"1 mon -3 days +04:05:06", "00:00:00"}},
        {"bytea", {"\\x", "\\x00ff"}},
        {"inet", {"10.0.0.1/32", "::1/64"}},
        {"int[]", {"{1,2}", "{}"}},
        {"int4range", {"[1,3)", "empty"}},
        {"jsonb", {"{\"a\": [1]}", "null"}},
        {"\"mo od\".\"Mood\"", {"so so", "O'K"}},
        {"\"mo od\".positive", {"1", "2"}},
        {"\"mo od\".short", {"ab", "c"}},
        {"\"mo od\".shorter", {"ab", "c"}},
        {"\"mo od\".pair", {"(1,\"a b\")", "(2,)"}},
        {"name", {"x", "y"}},
        {"oid", {"1", "4294967295"}},
        {"pg_lsn", {"0/10000000", "FF/FFFFFFFF"}},
        {"\"char\"", {"a", "b"}},
        {"bit varying", {"101", "0"}},
    };

    pgtemp_exec("DROP SCHEMA IF EXISTS \"mo od\" CASCADE; CREATE SCHEMA \"mo od\"; CREATE TYPE "
                "\"mo od\".\"Mood\" AS ENUM ('so so', 'O''K');"
                "CREATE DOMAIN \"mo od\".positive AS int CHECK (VALUE > 0); CREATE DOMAIN \"mo "
                "od\".short AS varchar(3); CREATE DOMAIN \"mo od\".shorter AS \"mo od\".short;"
                "CREATE TYPE \"mo od\".pair AS (a int, b text)");
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        static const char *const key[] = {"k", "n"};
        const pgw_table_spec s = spec_of(key, 2);
        pgw_row_ref refs[2];
        pgw_table *typed;
        pgw_rows *rows, *one;
        char sql[512];

        snprintf(sql, sizeof(sql),
                 "DROP TABLE IF EXISTS t; CREATE TABLE t (n int, k %s, " LEASE
                 ", PRIMARY KEY (n, k)); "
                 "INSERT INTO t VALUES (1, $a$%s$a$), (2, $a$%s$a$)",
                 types[i].type, types[i].values[0], types[i].values[1]);
        pgtemp_exec(sql);
        TEST_ASSERT_EQUAL_STRING_MESSAGE("", (pgw_table_open(h, &s, &typed), pgw_error_message(h)),
                                         types[i].type);
        const pgw_table_claim_opts o = asking(2, "anna");
        TEST_ASSERT_EQUAL_STRING_MESSAGE(
            "", (pgw_table_claim(h, typed, &o, &rows), pgw_error_message(h)), types[i].type);
        TEST_ASSERT_EQUAL(2, pgw_rows_count(rows));
        for (size_t r = 0; r < 2; r++) {
            refs[r] = pgw_rows_ref(rows, r);
            TEST_ASSERT_EQUAL_STRING(types[i].values[refs[r].key[1][0] - '1'], refs[r].key[0]);
            TEST_ASSERT_EQUAL(PGW_OK, pgw_table_get(h, typed, THE_ROW(refs[r].key, key, 2), &one));
            TEST_ASSERT_EQUAL_STRING(refs[r].key[1], pgw_rows_get(one, 0, "n"));
            pgw_rows_free(one);
        }
        TEST_ASSERT_EQUAL_STRING_MESSAGE(
            "", (pgw_table_extend(h, typed, refs, 2, ROWS_BY(60000)), pgw_error_message(h)),
            types[i].type);
        TEST_ASSERT_EQUAL_STRING_MESSAGE(
            "", (pgw_table_release(h, typed, refs, 2), pgw_error_message(h)), types[i].type);
        pgw_rows_free(rows);
        pgw_table_free(typed);
    }
    pgtemp_exec("DROP SCHEMA \"mo od\" CASCADE");
}

/* A type whose equality is not that of its text, in a schema that is not in the search path. */
void test_keys_are_compared_by_the_operator_of_their_index(void)
{
    const pgw_table_spec s = spec_of(by_id, 1);
    const char *const shout[] = {"PARIS"};
    pgw_rows *rows;

    if (pgtemp_number("SELECT count(*) FROM pg_available_extensions WHERE name = 'citext'") == 0) {
        TEST_ASSERT_EQUAL_INT64(
            0, pgtemp_number("SELECT count(*) FROM pg_extension WHERE extname = 'citext'"));
        return;
    }
    pgtemp_exec(
        "DROP SCHEMA IF EXISTS ext CASCADE; CREATE SCHEMA ext; CREATE EXTENSION citext SCHEMA ext;"
        "CREATE TABLE t (id ext.citext PRIMARY KEY, " LEASE "); INSERT INTO t VALUES ('Paris')");
    must(pgw_table_open(h, &s, &t));
    must(pgw_table_get(h, t, THE_ROW(shout, by_id, 1), &rows));
    TEST_ASSERT_EQUAL_STRING("Paris", pgw_rows_get(rows, 0, "id"));
    pgw_rows_free(rows);
    pgtemp_exec("DROP SCHEMA public CASCADE; CREATE SCHEMA public; DROP SCHEMA ext CASCADE");
}

static void set_for_all(const char *what)
{
    char sql[256];

    snprintf(sql, sizeof(sql),
             "DO $$ BEGIN EXECUTE format('ALTER DATABASE %%I %s', current_database()); END $$",
             what);
    pgtemp_exec(sql);
}

/* The key goes out as text and comes back as text. */
void test_the_text_of_a_key_names_its_row_whatever_the_database_has_set(void)
{
    static const char *const key[] = {"id", "names"};
    const pgw_table_spec s = spec_of(key, 2);
    pgw_rows *rows;
    pgw_row_ref ref;

    set_for_all("SET extra_float_digits = 0");
    set_for_all("SET array_nulls = off");
    pgw_close(h);
    h = it_open_bare();
    set_for_all("RESET ALL");
    pgtemp_exec("CREATE TABLE t (id double precision, names text[], a int, " LEASE
                ", PRIMARY KEY (id, names)); INSERT INTO t VALUES "
                "(0.1::double precision + 0.2::double precision, ARRAY['a', NULL])");
    must(pgw_table_open(h, &s, &t));
    rows = claimed(1, "anna");
    ref = pgw_rows_ref(rows, 0);
    TEST_ASSERT_EQUAL_STRING("0.30000000000000004", ref.key[0]);
    TEST_ASSERT_EQUAL_STRING("{a,NULL}", ref.key[1]);
    must(pgw_table_finish(h, t, &ref, 1, FINISH("a = 1", NULL, 0)));
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number("SELECT a FROM t"));
    pgw_rows_free(rows);
}

static void must_have_nocase(void)
{
    if (pgtemp_number("SELECT count(*) FROM pg_collation WHERE collprovider = 'i'") == 0)
        TEST_IGNORE_MESSAGE("this server was built without ICU");
    pgtemp_exec("CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', "
                "deterministic = false)");
}

/* To the column 'a' and 'A' are one, to the index they are two: what names a row would name both,
 * and a claim of one take the other from its holder. */
void test_an_index_by_another_collation_than_its_columns_is_refused_as_a_key(void)
{
    const pgw_table_spec s = spec_of(by_id, 1);
    pgw_rows *rows;

    must_have_nocase();
    pgtemp_exec("CREATE TABLE t (id text COLLATE nocase NOT NULL, " LEASE ");"
                "CREATE UNIQUE INDEX ON t (id COLLATE \"C\"); INSERT INTO t VALUES ('a'), ('A')");
    TEST_ASSERT_EQUAL_STRING("PGW_EINVAL", pgw_status_name(pgw_table_open(h, &s, &t)));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_message(h), "no unique key over (`id`)"));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_hint(h), "collations of the columns"));
    /* the other index is passed over, not the table */
    pgtemp_exec("DELETE FROM t WHERE id COLLATE \"C\" = 'A'; CREATE UNIQUE INDEX ON t (id)");
    must(pgw_table_open(h, &s, &t));
    rows = claimed(2, "anna");
    TEST_ASSERT_EQUAL(1, pgw_rows_count(rows));
    TEST_ASSERT_EQUAL_STRING("a", pgw_rows_key(rows, 0)[0]);
    pgw_rows_free(rows);
}

void test_a_row_that_is_named_twice_in_different_spelling_counts_once(void)
{
    static const char *const both[] = {"a", "A"};
    pgw_table_lock_opts o = PGW_TABLE_LOCK_OPTS_INIT;
    const pgw_table_spec s = spec_of(by_id, 1);
    pgw_row_ref refs[2];
    pgw_rows *rows, *locked;

    must_have_nocase();
    pgtemp_exec("CREATE TABLE t (id text COLLATE nocase PRIMARY KEY, a int DEFAULT 0, " LEASE "); "
                "INSERT INTO t VALUES ('a')");
    must(pgw_table_open(h, &s, &t));
    rows = claimed(1, "anna");
    o.keys = both, o.keys_count = 2;
    must(pgw_txn_begin(h));
    must(pgw_table_lock(h, t, &o, &locked));
    TEST_ASSERT_EQUAL(1, pgw_rows_count(locked));
    pgw_rows_free(locked);
    must(pgw_txn_commit(h));
    for (int i = 0; i < 2; i++) refs[i] = pgw_rows_ref(rows, 0), refs[i].key = &both[i];
    must(pgw_table_finish(h, t, refs, 2, FINISH("a = t.a + 1", NULL, 0)));
    TEST_ASSERT_EQUAL(PGW_OK, refs[0].outcome);
    TEST_ASSERT_EQUAL(PGW_OK, refs[1].outcome);
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number("SELECT a FROM t"));
    pgw_rows_free(rows);
}

void test_holders_may_be_numbers_and_uuids(void)
{
    static const struct {
        const char *type, *holder, *other;
    } types[] = {
        {"bigint", "7", "8"},
        {"varchar(20)", "anna", "bert"},
        {"uuid", "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"}};

    for (size_t i = 0; i < 3; i++) {
        const pgw_table_spec s = spec_of(by_id, 1);
        pgw_table_claim_opts o;
        pgw_rows *rows;
        pgw_table *typed;
        char sql[256];

        snprintf(sql, sizeof(sql),
                 "DROP TABLE IF EXISTS t; CREATE TABLE t (id int PRIMARY KEY, locked_by %s, "
                 "expires_at timestamptz, token uuid); INSERT INTO t VALUES (1)",
                 types[i].type);
        pgtemp_exec(sql);
        must(pgw_table_open(h, &s, &typed));
        for (int twice = 0; twice < 2; twice++) {
            o = asking(1, types[i].holder);
            must(pgw_table_claim(h, typed, &o, &rows));
            pgw_rows_free(rows);
        }
        o = asking(1, types[i].other);
        TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY, pgw_table_claim(h, typed, &o, &rows));
        TEST_ASSERT_EQUAL_STRING(types[i].holder, pgtemp_value("SELECT locked_by FROM t"));
        pgw_table_free(typed);
    }
    pgtemp_exec("DROP TABLE t");
    articles(1);
}

/* ---- finishing verbs ---- */

void test_each_row_of_a_batch_has_its_own_verdict(void)
{
    enum { N = 1000 };
    static pgw_row_ref refs[N + 2];
    static const char *const no_row[] = {"-1"};
    pgw_rows *rows;

    articles(N);
    rows = claimed(N, "anna");
    for (size_t i = 0; i < N; i++) refs[i] = pgw_rows_ref(rows, i);
    refs[N] = refs[0]; /* named twice */
    refs[N + 1] = refs[1];
    refs[N + 1].key = no_row;
    pgtemp_exec("DELETE FROM t WHERE id % 10 = 3; UPDATE t SET token = gen_random_uuid() WHERE id "
                "% 10 = 5");
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_table_extend(h, t, refs, N + 2, ROWS_BY(60000)));
    TEST_ASSERT_EQUAL_STRING("201 of 1002 rows refused: 100 with a lease that is not the current "
                             "one, 101 gone, 0 not written because of a trigger",
                             pgw_error_message(h));
    for (int i = 0; i < N; i++) {
        const int last = (i + 1) % 10;

        TEST_ASSERT_EQUAL(last == 3   ? PGW_ENOTFOUND
                          : last == 5 ? PGW_ELEASE
                                      : PGW_OK,
                          refs[i].outcome);
    }
    TEST_ASSERT_EQUAL(PGW_OK, refs[N].outcome);
    TEST_ASSERT_EQUAL(PGW_ENOTFOUND, refs[N + 1].outcome);
    TEST_ASSERT_EQUAL(PGW_ELEASE,
                      pgw_table_finish(h, t, refs, N + 1, FINISH("a = a + 1", NULL, 0)));
    TEST_ASSERT_EQUAL_INT64(800, pgtemp_number("SELECT sum(a) FROM t"));
    TEST_ASSERT_EQUAL_INT64(100,
                            pgtemp_number("SELECT count(*) FROM t WHERE locked_by IS NOT NULL"));
    pgw_rows_free(rows);
}

void test_finish_writes_what_the_caller_says_and_moves_the_version(void)
{
    const char *const values[] = {"it's \"good\"", "3"};
    pgw_table_spec s = spec_of(by_id, 1);
    pgw_rows *rows;
    pgw_row_ref ref;

    s.version = "v";
    pgtemp_exec("CREATE TABLE t (id int PRIMARY KEY, review text, grade int, twice int GENERATED "
                "ALWAYS AS (grade * 2) STORED, v int NOT NULL DEFAULT 5, " LEASE
                "); INSERT INTO t (id) VALUES (1)");
    must(pgw_table_open(h, &s, &t));
    rows = claimed(1, "anna");
    TEST_ASSERT_EQUAL_STRING("5", pgw_rows_version(rows, 0));
    ref = pgw_rows_ref(rows, 0);
    must(pgw_table_finish(h, t, &ref, 1, FINISH("review = $1, grade = $2 -- so", values, 2)));
    TEST_ASSERT_EQUAL_STRING("it's \"good\"|3|6|6",
                             pgtemp_value("SELECT concat_ws('|', review, grade, twice, v) FROM t"));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_table_finish(h, t, &ref, 1, FINISH(NULL, NULL, 0)));
    pgw_rows_free(rows);
}

void test_a_finish_at_the_end_of_the_versions_begins_again(void)
{
    pgw_table_spec s = spec_of(by_id, 1);
    pgw_rows *rows;
    pgw_row_ref ref;

    s.version = "v";
    pgtemp_exec(
        "CREATE TABLE t (id int PRIMARY KEY, a int, v smallint NOT NULL DEFAULT 32767, " LEASE
        "); INSERT INTO t (id) VALUES (1)");
    must(pgw_table_open(h, &s, &t));
    rows = claimed(1, "anna");
    ref = pgw_rows_ref(rows, 0);
    must(pgw_table_finish(h, t, &ref, 1, FINISH("a = 1", NULL, 0)));
    TEST_ASSERT_EQUAL_STRING("1|-32768",
                             pgtemp_value("SELECT concat_ws('|', a, v) FROM t WHERE token IS NOT "
                                          "NULL AND locked_by IS NULL"));
    pgw_rows_free(rows);
}

void test_a_trigger_that_prevents_a_write_is_distinguished_from_a_conflict(void)
{
    pgw_row_ref refs[2];
    pgw_rows *rows;

    articles(2);
    rows = claimed(2, "anna");
    refs[0] = pgw_rows_ref(rows, 0), refs[1] = pgw_rows_ref(rows, 1);
    pgtemp_exec("CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF old.id = 1 "
                "THEN RETURN NULL; END IF; RETURN new; END $$;"
                "CREATE TRIGGER no BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION no()");
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_table_release(h, t, refs, 2));
    TEST_ASSERT_EQUAL(PGW_EPERM, refs[0].outcome);
    TEST_ASSERT_EQUAL(PGW_OK, refs[1].outcome);
    pgw_rows_free(rows);
}

/* Each claim would find the same row first, and say that there is none. */
void test_a_claim_says_so_when_a_trigger_keeps_all_its_rows(void)
{
    pgw_table_claim_opts o = asking(1, "anna");
    pgw_rows *rows = (pgw_rows *)&rows;

    articles(3);
    pgtemp_exec("CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; "
                "END $$;"
                "CREATE TRIGGER keep BEFORE UPDATE ON t FOR EACH ROW WHEN (old.id = 1) "
                "EXECUTE FUNCTION keep()");
    TEST_ASSERT_EQUAL_STRING("PGW_EPERM", pgw_status_name(pgw_table_claim(h, t, &o, &rows)));
    TEST_ASSERT_NULL(rows);
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_message(h), "a trigger of the table keeps them"));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_hint(h), "`claimable`"));
    o.max = 2;
    must(pgw_table_claim(h, t, &o, &rows));
    TEST_ASSERT_EQUAL(1, pgw_rows_count(rows));
    TEST_ASSERT_EQUAL_STRING("2", pgw_rows_key(rows, 0)[0]);
    pgw_rows_free(rows);
    o.holder = "bert", o.where = "id <> 1";
    must(pgw_table_claim(h, t, &o, &rows));
    TEST_ASSERT_EQUAL_STRING("3", pgw_rows_key(rows, 0)[0]);
    pgw_rows_free(rows);
    o.holder = "carl";
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY, pgw_table_claim(h, t, &o, &rows));
}

void test_a_row_that_row_security_hides_is_not_there(void)
{
    pgw_row_ref refs[2];
    pgw_rows *rows;

    articles(4);
    pgtemp_exec("DROP ROLE IF EXISTS tenant; CREATE ROLE tenant; GRANT USAGE ON SCHEMA public TO "
                "tenant; GRANT SELECT, UPDATE ON t TO tenant;"
                "ALTER TABLE t ENABLE ROW LEVEL SECURITY; CREATE POLICY odd ON t TO tenant USING "
                "(id % 2 = 1)");
    must(pgw__pq_text(h, "role", "SET ROLE tenant", &(pgw__call){0}));
    rows = claimed(4, "anna");
    TEST_ASSERT_EQUAL(2, pgw_rows_count(rows));
    refs[0] = pgw_rows_ref(rows, 0), refs[1] = pgw_rows_ref(rows, 1);
    pgtemp_exec("ALTER POLICY odd ON t USING (id = 1)");
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_table_extend(h, t, refs, 2, ROWS_BY(1000)));
    TEST_ASSERT_EQUAL(PGW_OK, refs[0].outcome);
    TEST_ASSERT_EQUAL(PGW_ENOTFOUND, refs[1].outcome);
    must(pgw__pq_text(h, "role", "RESET ROLE", &(pgw__call){0}));
    pgtemp_exec("DROP OWNED BY tenant; DROP ROLE tenant");
    pgw_rows_free(rows);
}

void test_partitioned_tables_have_leases_too(void)
{
    static const char *const key[] = {"year", "id"};
    const char *const columns[] = {"year"};
    pgw_table_claim_opts o = asking(10, "anna");
    pgw_row_ref refs[3];
    pgw_rows *rows;
    pgw_table_spec s = spec_of(key, 2);

    pgtemp_exec("CREATE TABLE t (year int, id int, a int, " LEASE
                ", PRIMARY KEY (year, id)) PARTITION BY LIST (year);"
                "CREATE TABLE t23 PARTITION OF t FOR VALUES IN (2023);"
                "INSERT INTO t VALUES (2023, 1), (2023, 2)");
    must(pgw_table_open(h, &s, &t));
    must(pgw_table_init(h, t));
    pgw_table_free(t);
    must(pgw_table_open(h, &s, &t));
    TEST_ASSERT_EQUAL_STRING("", pgw_table_sql(t));
    pgtemp_exec("CREATE TABLE t24 PARTITION OF t FOR VALUES IN (2024);"
                "INSERT INTO t VALUES (2024, 1)");
    o.columns = columns, o.columns_count = 1;
    must(pgw_table_claim(h, t, &o, &rows));
    TEST_ASSERT_EQUAL(3, pgw_rows_count(rows));
    TEST_ASSERT_NULL(pgw_rows_version(rows, 0));
    for (size_t i = 0; i < 3; i++) refs[i] = pgw_rows_ref(rows, i);
    /* a finish may move the row to another partition */
    must(pgw_table_finish(h, t, refs, 3,
                          FINISH("year = 2024, id = id + 10 * (2024 - t.year) + 100", NULL, 0)));
    TEST_ASSERT_EQUAL_INT64(3, pgtemp_number("SELECT count(*) FROM t24 WHERE locked_by IS NULL"));
    TEST_ASSERT_EQUAL(PGW_EMISUSE,
                      pgw_table_update(h, t, CHANGE(refs[0].key, "x", CELL("a", "1"), 1), NULL));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_message(h), "partitioned"));
    pgw_rows_free(rows);
}

/* No unique key covers its rows, and a table that has such is refused when it is opened. */
void test_rows_of_a_child_that_comes_later_are_left_alone(void)
{
    pgw_row_ref refs[2];
    pgw_rows *rows, *row;
    int64_t freed;

    articles(2);
    pgtemp_exec("CREATE TABLE child () INHERITS (t); INSERT INTO child (id) VALUES (1);"
                "INSERT INTO child (id, locked_by, expires_at) VALUES (2, 'bert', '2020-01-01')");
    rows = claimed(10, "anna");
    TEST_ASSERT_EQUAL(2, pgw_rows_count(rows));
    for (size_t i = 0; i < 2; i++) refs[i] = pgw_rows_ref(rows, i);
    must(pgw_table_finish(h, t, refs, 2, FINISH("a = t.a + 1", NULL, 0)));
    must(pgw_table_reap(h, t, 10, &freed));
    TEST_ASSERT_EQUAL_INT64(0, freed);
    must(pgw_table_get(h, t, THE_ROW(refs[0].key, NULL, 0), &row));
    must(pgw_table_update(h, t, CHANGE(refs[0].key, pgw_rows_version(row, 0), CELL("a", "7"), 1),
                          NULL));
    pgw_rows_free(row);
    pgw_rows_free(rows);
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT sum(a) FROM child"));
    TEST_ASSERT_EQUAL_INT64(1,
                            pgtemp_number("SELECT count(*) FROM child WHERE locked_by = 'bert'"));
}

/* ---- several processes ---- */

static int contend(pgw *mine, int who)
{
    char holder[32];
    pgw_table_claim_opts o = PGW_TABLE_CLAIM_OPTS_INIT;
    int empty = 0;

    snprintf(holder, sizeof(holder), "c%d", who);
    o.max = 1 + who % 7, o.holder = holder, o.lease_ms = 600000, o.where = "a = 0";
    while (empty < 3) {
        pgw_rows *rows;
        pgw_status st = pgw_table_claim(mine, t, &o, &rows);

        if (st == PGW_OUTCOME_EMPTY) {
            empty++;
            poll(NULL, 0, 2);
            continue;
        }
        if (st != PGW_OK) return 1;
        for (size_t i = 0; i < pgw_rows_count(rows); i++) {
            pgw_row_ref ref = pgw_rows_ref(rows, i);

            /* a second holder would make it 2 */
            if (pgw_table_finish(mine, t, &ref, 1, FINISH("a = t.a + 1", NULL, 0)) != PGW_OK)
                return 2;
        }
        pgw_rows_free(rows);
    }
    return 0;
}

void test_64_contenders_and_each_row_has_one_holder(void)
{
    articles(2000);
    must(pgw_table_init(h, t));
    for (int i = 0; i < 64; i++) spawn(contend, i);
    join();
    TEST_ASSERT_EQUAL_INT64(
        2000, pgtemp_number("SELECT count(*) FROM t WHERE a = 1 AND locked_by IS NULL"));
}

static int hold_and_hang(pgw *mine, int who)
{
    pgw_table_claim_opts o = PGW_TABLE_CLAIM_OPTS_INIT;
    pgw_rows *rows;
    char name[16];

    snprintf(name, sizeof(name), "h%d", who);
    o.max = 5, o.lease_ms = 300, o.holder = name;
    if (pgw_table_claim(mine, t, &o, &rows) != PGW_OK) return 1;
    for (;;) poll(NULL, 0, 1000);
}

static void wait_for(const char *sql, long long number)
{
    for (int i = 0; i < 3000 && pgtemp_number(sql) != number; i++) poll(NULL, 0, 10);
    TEST_ASSERT_EQUAL_INT64(number, pgtemp_number(sql));
}

/* Chooses its rows, and locks them when nobody holds 7 any more. */
static void *claim_late(void *arg)
{
    pgw_table_claim_opts o = asking(1, "anna");
    pgw_rows *rows;

    o.where = "pg_advisory_xact_lock_shared(7) IS NOT NULL";
    *(pgw_status *)arg = pgw_table_claim(h, t, &o, &rows);
    pgw_rows_free(rows);
    return NULL;
}

/* Of a table with @p n rows, to which somebody writes behind its snapshot. */
static pgw_status claim_beside(int n, const char *writes)
{
    pgw_status late = PGW_OUTCOME_AGAIN;
    pthread_t thread;

    articles(n);
    pgtemp_exec("SELECT pg_advisory_lock(7)");
    TEST_ASSERT_EQUAL(0, pthread_create(&thread, NULL, claim_late, &late));
    wait_for("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND "
             "database = (SELECT oid FROM pg_database WHERE datname = current_database())",
             1);
    pgtemp_exec(writes);
    pgtemp_exec("SELECT pg_advisory_unlock(7)");
    pthread_join(thread, NULL);
    return late;
}

/* Its snapshot knows no row of the new key, or another one, which has moved on as well; and no
 * trigger kept it from being written. */
TEST_CASE(1)
TEST_CASE(2)
void test_a_row_that_gets_another_key_meanwhile_is_for_the_next_claim(int articles_count)
{
    const pgw_status late = claim_beside(
        articles_count, "UPDATE t SET id = 3 WHERE id = 2; UPDATE t SET id = 2 WHERE id = 1");
    pgw_rows *rows;

    TEST_ASSERT_EQUAL_STRING("PGW_OUTCOME_EMPTY", pgw_status_name(late));
    rows = claimed(1, "anna");
    TEST_ASSERT_EQUAL_STRING("2", pgw_rows_key(rows, 0)[0]);
    pgw_rows_free(rows);
}

/* But what it has leased it tells. */
TEST_CASE(1)
TEST_CASE(2)
void test_a_row_that_is_written_meanwhile_is_claimed_and_returned(int articles_count)
{
    TEST_ASSERT_EQUAL_STRING("PGW_OK",
                             pgw_status_name(claim_beside(articles_count, "UPDATE t SET a = 7")));
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number("SELECT count(*) FROM t WHERE locked_by = 'anna'"));
}

/* What a child row locks of its parent keeps a key from being changed: a token may be one. */
TEST_CASE("", "1")
TEST_CASE("UNIQUE", "2")
void test_a_row_with_an_uncommitted_child_is_not_waited_for(const char *unique, const char *first)
{
    pgw_table_spec s = spec_of(by_id, 1);
    PGconn *other = pgtemp_connect();
    pgw_row_ref ref;
    pgw_rows *rows;
    char sql[400];

    snprintf(sql, sizeof(sql),
             "CREATE TABLE t (id int PRIMARY KEY, locked_by text, expires_at timestamptz, token "
             "uuid %s); INSERT INTO t SELECT generate_series(1, 2); CREATE TABLE child (t int "
             "REFERENCES t)",
             unique);
    pgtemp_exec(sql);
    must(pgw_table_open(h, &s, &t));
    PQclear(PQexec(other, "BEGIN; INSERT INTO child VALUES (1)"));
    TEST_ASSERT_EQUAL(PQTRANS_INTRANS, PQtransactionStatus(other));
    rows = claimed(1, "anna");
    TEST_ASSERT_EQUAL(1, pgw_rows_count(rows));
    TEST_ASSERT_EQUAL_STRING(first, pgw_rows_key(rows, 0)[0]);
    pgw_rows_free(rows);
    PQclear(PQexec(other, "COMMIT; BEGIN; INSERT INTO child VALUES (1), (2)"));
    rows = claimed(1, "anna"); /* who has it keeps it, whatever its key */
    TEST_ASSERT_EQUAL_STRING(first, pgw_rows_key(rows, 0)[0]);
    ref = pgw_rows_ref(rows, 0);
    must(pgw_table_extend(h, t, &ref, 1, ROWS_BY(1000)));
    pgw_rows_free(rows);
    PQfinish(other);
}

TEST_CASE("smallint", "32767", "32768", "a number from -32768 to 32767")
TEST_CASE("integer", "-2147483648", "anna", "a number from -2147483648 to 2147483647")
TEST_CASE("bigint", "9223372036854775807", "-", "a whole number")
TEST_CASE("uuid", "3f2504e0-4f89-41d3-9a0c-0305e82c3301", "7", "a uuid")
void test_a_holder_is_what_its_column_can_hold(const char *type, const char *good, const char *bad,
                                               const char *allowed)
{
    const char *const holders[] = {bad, NULL};
    pgw_table_spec s = spec_of(by_id, 1);
    pgw_rows *rows;
    char sql[256];

    snprintf(sql, sizeof(sql),
             "CREATE TABLE t (id int PRIMARY KEY, locked_by %s, expires_at timestamptz, token "
             "uuid); INSERT INTO t VALUES (1)",
             type);
    pgtemp_exec(sql);
    must(pgw_table_open(h, &s, &t));
    for (int i = 0; i < 2; i++) {
        const pgw_table_claim_opts o = asking(1, holders[i]);

        TEST_ASSERT_EQUAL(PGW_EINVAL, pgw_table_claim(h, t, &o, &rows));
        TEST_ASSERT_NOT_NULL(strstr(pgw_error_message(h), "argument `opts->holder` is "));
        TEST_ASSERT_NOT_NULL(strstr(pgw_error_message(h), allowed));
    }
    rows = claimed(1, good);
    TEST_ASSERT_EQUAL(1, pgw_rows_count(rows));
    pgw_rows_free(rows);
}

/* As the documents say how. */
void test_a_row_that_is_assigned_by_hand_is_lost_to_its_holder(void)
{
    pgw_rows *mine, *theirs;
    pgw_row_ref ref;

    articles(1);
    mine = claimed(1, "anna");
    pgtemp_exec(
        "UPDATE t SET locked_by = 'ben', expires_at = now() + interval '1 h', token = NULL");
    ref = pgw_rows_ref(mine, 0);
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_table_release(h, t, &ref, 1));
    theirs = claimed(1, "ben");
    TEST_ASSERT_EQUAL(1, pgw_rows_count(theirs));
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_table_release(h, t, &ref, 1));
    ref = pgw_rows_ref(theirs, 0);
    must(pgw_table_release(h, t, &ref, 1));
    pgw_rows_free(mine);
    pgw_rows_free(theirs);
}

/* Whoever comes while it waits for a long report gets its turn. */
void test_columns_are_added_without_stopping_others(void)
{
    pgw_table_spec s = spec_of(by_id, 1);
    PGconn *report = pgtemp_connect(), *reader = pgtemp_connect();
    PGresult *res;

    pgtemp_exec("CREATE TABLE t (id int PRIMARY KEY)");
    PQclear(PQexec(report, "BEGIN; SELECT FROM t"));
    TEST_ASSERT_EQUAL(PQTRANS_INTRANS, PQtransactionStatus(report));
    PQclear(PQexec(reader, "SET statement_timeout = '5s'"));
    TEST_ASSERT_EQUAL(PGW_ESCHEMA, pgw_table_open(h, &s, &t));
    TEST_ASSERT_EQUAL(1, PQsendQuery(reader, "DO $$ BEGIN FOR i IN 1 .. 1000 LOOP PERFORM "
                                             "pg_sleep(0.01); EXIT WHEN EXISTS (SELECT FROM "
                                             "pg_locks WHERE relation = 't'::regclass AND NOT "
                                             "granted); END LOOP; PERFORM FROM t; END $$"));
    pgw_set_timeout(h, 8000);
    TEST_ASSERT_EQUAL_STRING("PGW_ELOCKED", pgw_status_name(pgw_table_init(h, t)));
    res = PQgetResult(reader);
    TEST_ASSERT_EQUAL_STRING_MESSAGE("", PQresultErrorMessage(res), "it had to wait");
    PQclear(res);
    TEST_ASSERT_NULL(PQgetResult(reader));
    TEST_ASSERT_EQUAL(1, PQsendQuery(report, "SELECT pg_sleep(1); COMMIT"));
    pgw_set_timeout(h, PGW_UNLIMITED);
    must(pgw_table_init(h, t));
    PQfinish(report);
    PQfinish(reader);
}

void test_the_rows_of_killed_holders_come_back(void)
{
    pgw_rows *rows;

    articles(10);
    for (int i = 0; i < 2; i++) spawn(hold_and_hang, i);
    wait_for("SELECT count(*) FROM t WHERE token IS NOT NULL", 10);
    while (children_count > 0) {
        const pid_t pid = children[--children_count];

        kill(pid, SIGKILL);
        TEST_ASSERT_EQUAL_INT(128 + SIGKILL, reaped(pid));
    }
    wait_for("SELECT count(*) FROM t WHERE expires_at > clock_timestamp()", 0);
    rows = claimed(10, "heir");
    TEST_ASSERT_EQUAL(10, pgw_rows_count(rows));
    pgw_rows_free(rows);
}

static int reap_all(pgw *mine, int who)
{
    int64_t freed, sum = 0;

    do {
        if (pgw_table_reap(mine, t, 37, &freed) != PGW_OK) return 255;
        sum += freed;
    } while (freed > 0);
    /* what it freed goes to the parent through the table */
    char sql[64];
    snprintf(sql, sizeof(sql), "INSERT INTO public.freed VALUES (%lld)", (long long)sum);
    return pgw__pq_text(mine, "note", sql, &(pgw__call){0}) == PGW_OK ? 0 : who + 1;
}

void test_two_reapers_at_once_free_each_row_once(void)
{
    articles(3000);
    pgtemp_exec("CREATE TABLE freed (n bigint)");
    pgw_rows_free(claimed(2900, "anna"));
    expire("id <= 2800");
    spawn(reap_all, 0);
    spawn(reap_all, 1);
    join();
    TEST_ASSERT_EQUAL_INT64(100,
                            pgtemp_number("SELECT count(*) FROM t WHERE locked_by IS NOT NULL"));
    TEST_ASSERT_EQUAL_INT64(2900, pgtemp_number("SELECT count(*) FROM t WHERE token IS NOT NULL"));
    TEST_ASSERT_EQUAL_INT64(2800, pgtemp_number("SELECT sum(n) FROM freed"));
}

static pgw_row_ref shared_refs[100];

static int extend_in_some_order(pgw *mine, int who)
{
    pgw_row_ref refs[100];

    for (int i = 0; i < 100; i++) refs[i] = shared_refs[who == 0 ? i : 99 - i];
    for (int i = 0; i < 200; i++)
        if (pgw_table_extend(mine, t, refs, 100, ROWS_BY(600000)) != PGW_OK) return 1;
    return 0;
}

void test_batches_in_opposite_orders_do_not_deadlock(void)
{
    pgw_rows *rows;

    articles(100);
    rows = claimed(100, "anna");
    for (size_t i = 0; i < 100; i++) shared_refs[i] = pgw_rows_ref(rows, i);
    spawn(extend_in_some_order, 0);
    spawn(extend_in_some_order, 1);
    join();
    pgw_rows_free(rows);
    TEST_ASSERT_EQUAL_INT64(
        100,
        pgtemp_number(
            "SELECT count(*) FROM t WHERE expires_at > clock_timestamp() + interval '60 seconds'"));
}

/* ---- other ways to call ---- */

void test_on_an_attached_handle_leases_are_part_of_the_transaction(void)
{
    const pgw_table_claim_opts o = asking(1, "anna");
    PGconn *conn = pgtemp_connect();
    pgw *mine;
    pgw_rows *rows;
    pgw_row_ref ref;

    articles(1);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_attach(conn, NULL, &mine));
    PQclear(PQexec(conn, "BEGIN"));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_table_claim(mine, t, &o, &rows));
    pgw_rows_free(rows);
    PQclear(PQexec(conn, "ROLLBACK"));
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT count(*) FROM t WHERE locked_by IS NOT NULL"));
    rows = claimed(1, "anna");
    ref = pgw_rows_ref(rows, 0);
    PQclear(PQexec(conn, "BEGIN"));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_table_finish(mine, t, &ref, 1, FINISH("a = 1", NULL, 0)));
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT a FROM t"));
    PQclear(PQexec(conn, "COMMIT"));
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number("SELECT a FROM t"));
    pgw_rows_free(rows);
    pgw_close(mine);
    PQfinish(conn);
}

static void note_status(pgw *handle, pgw_status st, void *arg)
{
    *(pgw_status *)arg = st;
}

static pgw_status claim_without_blocking(pgw_rows **rows)
{
    const pgw_table_claim_opts o = asking(1, "anna");
    pgw_status done = PGW_OUTCOME_AGAIN;

    pgw_async(h, note_status, &done);
    TEST_ASSERT_EQUAL(PGW_OUTCOME_AGAIN, pgw_table_claim(h, t, &o, rows));
    while (done == PGW_OUTCOME_AGAIN) {
        struct pollfd p = {.fd = pgw_fd(h), .events = POLLIN};

        poll(&p, 1, 1000);
        pgw_step(h);
    }
    return done;
}

void test_a_claim_can_be_made_without_blocking(void)
{
    pgw_rows *rows;

    articles(1);
    TEST_ASSERT_EQUAL(PGW_OK, claim_without_blocking(&rows));
    TEST_ASSERT_EQUAL(1, pgw_rows_count(rows));
    pgw_rows_free(rows);
}

/* Its answer may have another shape. With and without blocking. */
void test_a_claim_of_a_table_that_was_altered_returns_no_rows_and_says_what_to_do(void)
{
    const pgw_table_claim_opts o = asking(1, "anna");
    pgw_rows *rows;

    articles(1);
    pgtemp_exec("ALTER TABLE t ALTER expires_at TYPE date");
    TEST_ASSERT_EQUAL(PGW_EPROTO, pgw_table_claim(h, t, &o, &rows));
    TEST_ASSERT_NULL(rows);
    TEST_ASSERT_EQUAL(PGW_EPROTO, claim_without_blocking(&rows));
    TEST_ASSERT_NULL(rows);
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_hint(h), "open it again"));
    pgtemp_exec("ALTER TABLE t DROP a");
    TEST_ASSERT_EQUAL(PGW_ESCHEMA, claim_without_blocking(&rows));
    TEST_ASSERT_NOT_NULL(strstr(pgw_error_hint(h), "open it again"));
}

void test_claims_and_finishes_survive_the_loss_of_each_allocation(void)
{
    const pgw_table_claim_opts o = asking(3, "anna");
    pgw_status st = PGW_ENOMEM;
    pgw_rows *rows;
    int n;

    pgw_close(h);
    oom_begin();
    h = it_open_bare();
    articles(5);
    for (n = 1; st == PGW_ENOMEM; n++) {
        oom_fail(n);
        st = pgw_table_claim(h, t, &o, &rows);
        if (st != PGW_OK) TEST_ASSERT_NULL(rows);
    }
    must(st);
    TEST_ASSERT_GREATER_THAN(3, n);
    pgw_row_ref refs[] = {pgw_rows_ref(rows, 0), pgw_rows_ref(rows, 1)};
    for (n = 1, st = PGW_ENOMEM; st == PGW_ENOMEM; n++) {
        oom_fail(n);
        st = pgw_table_finish(h, t, refs, 2, FINISH("a = 1", NULL, 0));
    }
    must(st);
    TEST_ASSERT_GREATER_THAN(3, n);
    oom_fail(0);
    pgw_rows_free(rows);
    pgw_table_free(t);
    pgw_close(h);
    oom_end();
    t = NULL;
    h = it_open_bare();
}
