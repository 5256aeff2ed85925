/* The module pq on a real server: parameters, rows, transactions, COPY, waits, reconnects, memory.
 * Longer than 600 lines: all of the module pq in one program, since each program costs a build and
 * a migration. */
#include "unity.h"
#include "pgw_all.h"
#include "pgtemp.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pgw *h;

static void open_with(const char *name, const char *value)
{
    pgw_conf *conf;

    TEST_ASSERT_EQUAL(PGW_OK, pgw_conf_new(&conf));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_conf_set(conf, "dsn", pgtemp_dsn()));
    if (name) TEST_ASSERT_EQUAL(PGW_OK, pgw_conf_set(conf, name, value));
    TEST_ASSERT_EQUAL_STRING("", (pgw__pq_open(&h, conf), pgw__pq_error_message(h)));
    pgw_conf_free(conf);
}

void setUp(void)
{
    pgtemp_exec("DROP TABLE IF EXISTS t; CREATE TABLE t (id int PRIMARY KEY, v text)");
    open_with(NULL, NULL);
}

void tearDown(void)
{
    pgw__pq_close(h);
    h = NULL;
}

static pgw_status run(const char *sql, unsigned flags)
{
    pgw__call call = {.flags = flags};

    return pgw__pq_text(h, "test", sql, &call);
}

static pgw_status read_number(pgw *handle, const pgw__rows *rows, void *ctx)
{
    **(int64_t **)ctx = pgw__rows_int(rows, 0, 0);
    return PGW_OK;
}

static pgw_status ask(int64_t *n, const char *sql, const pgw__param *params)
{
    pgw__call call = {.params = params, .read = read_number, .ctx = &n, .ctx_size = sizeof(n)};

    return pgw__pq_text(h, "ask", sql, &call);
}

static int64_t number(const char *sql)
{
    int64_t n = -1;

    TEST_ASSERT_EQUAL_MESSAGE(PGW_OK, ask(&n, sql, NULL), pgw__pq_error_message(h));
    return n;
}

/* ---- parameters and rows ---- */

static const unsigned char uuid[16] = {0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0,
                                       1,    2,    3,    4,    5,    6,    7,    8};

void test_the_server_reads_every_type_as_meant(void)
{
    static const int32_t four[] = {1, -2};
    static const int64_t eight[] = {INT64_MAX, INT64_MIN}, times[] = {0, INT64_MIN};
    static const char *const texts[] = {"a,\"b", NULL, ""}, *const jsons[] = {"{\"k\": 1}", NULL};
    static const pgw__bytes bodies[] = {{"\0\1", 2}, {NULL, 0}};
    static const unsigned char uuids[1][16] = {{0xff}};
    const pgw__param params[] = {P_BOOL(true),
                                 P_INT4(-7),
                                 P_INT8(INT64_MAX),
                                 P_TEXT("grün"),
                                 P_JSONB("[1, 2]"),
                                 P_BYTEA("\0\xff", 2),
                                 P_UUID(uuid),
                                 P_TIME_OR_NULL(1, false),
                                 P_ARRAY(INT4, four, 2),
                                 P_ARRAY(INT8, eight, 2),
                                 P_ARRAY(TEXT, texts, 3),
                                 P_ARRAY(JSONB, jsons, 2),
                                 P_ARRAY(BYTEA, bodies, 2),
                                 P_ARRAY(UUID, uuids, 1),
                                 P_ARRAY(TIME, times, 2),
                                 P_ARRAY(TEXT, texts, 0),
                                 P_TEXT((char *)NULL),
                                 P_END};
    int64_t n = 0;

    TEST_ASSERT_EQUAL_MESSAGE(
        PGW_OK,
        ask(&n,
            "SELECT count(*) WHERE $1 AND $2 = -7 AND $3 = 9223372036854775807 AND $4 = "
            "U&'gr\\00FCn' AND $5 = '[1,2]'::jsonb"
            " AND $6 = '\\x00ff'::bytea AND $7 = '12345678-9abc-def0-0102-030405060708' AND $8 = "
            "'1970-01-01 00:00:00.000001+00'"
            " AND $9 = '{1,-2}' AND $10 = '{9223372036854775807,-9223372036854775808}' AND $11 IS "
            "NOT DISTINCT FROM ARRAY['a,\"b', NULL, '']"
            " AND $12 IS NOT DISTINCT FROM ARRAY['{\"k\":1}', NULL]::jsonb[] AND $13 IS NOT "
            "DISTINCT FROM ARRAY['\\x0001'::bytea, NULL]"
            " AND $14 = ARRAY['ff000000-0000-0000-0000-000000000000'::uuid] AND $15 IS NOT "
            "DISTINCT FROM ARRAY['1970-01-01 00:00:00+00'::timestamptz, NULL]"
            " AND $16 = '{}' AND $17 IS NULL",
            params),
        pgw__pq_error_message(h));
    TEST_ASSERT_EQUAL_INT64(1, n);
}

static pgw_status read_row(pgw *handle, const pgw__rows *rows, void *ctx)
{
    unsigned char id[16];
    pgw__bytes items[2], item;
    pgw__items all;
    size_t size;

    TEST_ASSERT_EQUAL_INT(1, pgw__rows_count(rows));
    TEST_ASSERT_EQUAL_INT(19, pgw__rows_columns(rows));
    TEST_ASSERT_EQUAL_INT64(-1, pgw__rows_int(rows, 0, 0));
    TEST_ASSERT_EQUAL_INT64(-2, pgw__rows_int(rows, 0, 1));
    TEST_ASSERT_EQUAL_INT64(INT64_MIN, pgw__rows_int(rows, 0, 2));
    TEST_ASSERT_EQUAL_INT64(1, pgw__rows_int(rows, 0, 3));
    TEST_ASSERT_TRUE(pgw__rows_null(rows, 0, 4));
    TEST_ASSERT_EQUAL_INT64(0, pgw__rows_int(rows, 0, 4));
    TEST_ASSERT_NULL(pgw__rows_text(rows, 0, 4, &size));
    TEST_ASSERT_EQUAL_STRING("text", pgw__rows_text(rows, 0, 5, &size));
    TEST_ASSERT_EQUAL_INT64(4, size);
    TEST_ASSERT_EQUAL_STRING("{\"a\": 1}", pgw__rows_text(rows, 0, 6, &size));
    TEST_ASSERT_EQUAL_INT64(8, size);
    TEST_ASSERT_EQUAL_MEMORY("\0\1", pgw__rows_text(rows, 0, 7, &size), 2);
    TEST_ASSERT_EQUAL_INT64(2, size);
    TEST_ASSERT_EQUAL_INT64(1, pgw__rows_time_us(rows, 0, 8));
    TEST_ASSERT_EQUAL_INT64(INT64_MAX, pgw__rows_time_us(rows, 0, 9));
    TEST_ASSERT_EQUAL_INT64(INT64_MIN, pgw__rows_time_us(rows, 0, 10));
    TEST_ASSERT_TRUE(pgw__rows_real(rows, 0, 11) == 0.5);
    pgw__rows_uuid(rows, 0, 12, id);
    TEST_ASSERT_EQUAL_MEMORY(uuid, id, 16);
    TEST_ASSERT_EQUAL_INT(3, pgw__rows_array(rows, 0, 13, items, 2));
    TEST_ASSERT_EQUAL_MEMORY("x", items[0].p, 1);
    TEST_ASSERT_NULL(items[1].p);

    TEST_ASSERT_EQUAL_INT(3, pgw__rows_items(rows, 0, 14, &all));
    for (int64_t v = -1; v < 2; v++) {
        TEST_ASSERT_TRUE(pgw__items_next(&all, &item));
        TEST_ASSERT_EQUAL_INT64(v, pgw__item_int(&item)); /* 0 for NULL, too */
    }
    TEST_ASSERT_FALSE(pgw__items_next(&all, &item));
    TEST_ASSERT_EQUAL_INT(3, pgw__rows_items(rows, 0, 15, &all));
    TEST_ASSERT_TRUE(pgw__items_next(&all, &item));
    TEST_ASSERT_EQUAL_INT64(8, item.n);
    TEST_ASSERT_EQUAL_MEMORY("{\"a\": 1}", item.p, 8);
    TEST_ASSERT_TRUE(pgw__items_next(&all, &item));
    TEST_ASSERT_NULL(item.p);
    TEST_ASSERT_TRUE(pgw__items_next(&all, &item));
    TEST_ASSERT_EQUAL_MEMORY("2", item.p, item.n);
    TEST_ASSERT_EQUAL_INT(2, pgw__rows_items(rows, 0, 16, &all));
    TEST_ASSERT_TRUE(pgw__items_next(&all, &item));
    TEST_ASSERT_EQUAL_INT64(1, pgw__item_time_us(&item));
    TEST_ASSERT_TRUE(pgw__items_next(&all, &item));
    TEST_ASSERT_EQUAL_INT64(0, pgw__item_time_us(&item));
    TEST_ASSERT_EQUAL_INT(0, pgw__rows_items(rows, 0, 17, &all));
    TEST_ASSERT_FALSE(pgw__items_next(&all, &item));
    TEST_ASSERT_EQUAL_INT(0, pgw__rows_items(rows, 0, 18, &all));
    TEST_ASSERT_FALSE(pgw__items_next(&all, &item));
    return PGW_OUTCOME_CANCEL;
}

void test_every_type_of_a_row_is_read(void)
{
    pgw__call call = {.read = read_row};

    TEST_ASSERT_EQUAL(
        PGW_OUTCOME_CANCEL,
        pgw__pq_text(h, "row",
                     "SELECT (-1)::int2, -2, '-9223372036854775808'::int8, true, NULL::int, "
                     "'text'::text, '{\"a\":1}'::jsonb, "
                     "'\\x0001'::bytea, '1970-01-01 00:00:00.000001+00'::timestamptz, "
                     "'infinity'::timestamptz, '-infinity'::timestamptz, 0.5::float8, "
                     "'12345678-9abc-def0-0102-030405060708'::uuid, ARRAY['x', NULL, 'y'], "
                     "'{-1,NULL,1}'::int2[], ARRAY['{\"a\":1}', NULL, '2']::jsonb[], "
                     "ARRAY['1970-01-01 00:00:00.000001+00'::timestamptz, NULL], "
                     "'{}'::bigint[], NULL::text[]",
                     &call));
    TEST_ASSERT_EQUAL(PGW_OUTCOME_CANCEL, pgw__pq_error_status(h));
}

static pgw_status read_wrongly(pgw *handle, const pgw__rows *rows, void *ctx)
{
    pgw__bytes items[1];

    switch (*(int *)ctx) {
    case 0: pgw__rows_int(rows, 0, 0); break;
    case 1: pgw__rows_time_us(rows, 0, 0); break;
    case 2: pgw__rows_array(rows, 0, 0, items, 1); break;
    case 3: pgw__rows_int(rows, 0, 1); break;
    case 4: pgw__rows_text(rows, 1, 0, NULL); break;
    case 5: pgw__rows_real(rows, 0, 0); break;
    default: break;
    }
    return PGW_OK;
}

void test_an_answer_of_another_shape_is_a_protocol_error(void)
{
    for (int i = 0; i < 6; i++) {
        pgw__call call = {.read = read_wrongly, .ctx = &i, .ctx_size = sizeof(i)};

        TEST_ASSERT_EQUAL(PGW_EPROTO,
                          pgw__pq_text(h, "shape", "SELECT 'twelve bytes'::text", &call));
    }
    TEST_ASSERT_EQUAL_INT64(1, number("SELECT 1"));
}

void test_a_parameter_outside_of_its_type_is_not_sent(void)
{
    const pgw__param params[] = {P_INT4(INT64_MAX), P_END};
    int64_t n;

    TEST_ASSERT_EQUAL(PGW_EINVAL, ask(&n, "SELECT $1", params));
    TEST_ASSERT_NOT_NULL(strstr(pgw__pq_error_message(h), "parameter 1"));
}

/* ---- errors ---- */

static pgw_status read_refusing(pgw *handle, const pgw__rows *rows, void *ctx)
{
    return pgw__pq_fail(handle, PGW_ELEASE, "refused by the reader", "try elsewhere");
}

void test_the_diagnostics_of_the_reader_are_those_of_the_call(void)
{
    pgw__call call = {.read = read_refusing};

    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw__pq_text(h, "refusing", "SELECT 1", &call));
    TEST_ASSERT_EQUAL_STRING("refused by the reader", pgw__pq_error_message(h));
    TEST_ASSERT_EQUAL_STRING("try elsewhere", pgw__pq_error_hint(h));
    TEST_ASSERT_EQUAL_STRING("refusing", pgw__pq_error_statement(h));
    TEST_ASSERT_EQUAL_INT64(1, number("SELECT 1"));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_error_status(h));
    TEST_ASSERT_EQUAL_STRING("", pgw__pq_error_message(h));
}

void test_refusals_are_composed_without_surprises(void)
{
    char text[200];

    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__pq_refuse_int(h, "max", -1, "1..10000"));
    TEST_ASSERT_EQUAL_STRING("argument `max` is -1: expected 1..10000", pgw__pq_error_message(h));
    pgw__pq_refuse(h, "queue", NULL, "a name");
    TEST_ASSERT_EQUAL_STRING("argument `queue` is NULL: expected a name", pgw__pq_error_message(h));
    pgw__pq_refuse(h, "queue", "a\033[2Jb", "a name");
    TEST_ASSERT_EQUAL_STRING("argument `queue` is \"a\\x1b[2Jb\": expected a name",
                             pgw__pq_error_message(h));
    memset(text, 'x', sizeof(text));
    text[199] = '\0';
    memcpy(text + 63, "\xc3\xbc", 2); /* 64 bytes would end inside of it */
    pgw__pq_refuse(h, "queue", text, "a name");
    text[63] = '\0';
    TEST_ASSERT_NOT_NULL(strstr(pgw__pq_error_message(h), text));
    TEST_ASSERT_NULL(strstr(pgw__pq_error_message(h), "\xc3"));
    TEST_ASSERT_NOT_NULL(strstr(pgw__pq_error_message(h), "\"...: expected"));
    TEST_ASSERT_EQUAL(PGW_EPAUSED, pgw__pq_fail(h, PGW_EPAUSED, NULL, NULL));
    TEST_ASSERT_EQUAL(PGW_EPAUSED, pgw__pq_error_status(h));
}

void test_a_read_only_server_is_left(void)
{
    TEST_ASSERT_EQUAL(PGW_OK, run("SET default_transaction_read_only = on", 0));
    TEST_ASSERT_EQUAL(PGW_EPERM, run("INSERT INTO public.t VALUES (1)", PGW__WRITES));
    TEST_ASSERT_EQUAL_STRING("25006", pgw__pq_sqlstate(h));
    TEST_ASSERT_EQUAL(PGW_OK,
                      run("INSERT INTO public.t VALUES (1)", PGW__WRITES)); /* a new session */
    TEST_ASSERT_EQUAL_INT64(2, pgw__pq_epoch(h));
}

void test_an_unexpected_transaction_does_not_stay(void)
{
    TEST_ASSERT_EQUAL(PGW_EPROTO, run("BEGIN", 0));
    TEST_ASSERT_EQUAL_INT64(1, number("SELECT 1"));
    TEST_ASSERT_EQUAL_INT64(2, pgw__pq_epoch(h));
}

void test_an_unexpected_copy_does_not_stay(void)
{
    TEST_ASSERT_EQUAL(PGW_EPROTO, run("COPY public.t FROM STDIN", 0));
    TEST_ASSERT_EQUAL(PGW_EPROTO, run("COPY public.t TO STDOUT", 0));
    TEST_ASSERT_EQUAL_INT64(1, number("SELECT 1"));
}

/* ---- transactions ---- */

void test_several_statements_in_one_transaction(void)
{
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_begin(h));
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw__pq_begin(h));
    TEST_ASSERT_EQUAL(PGW_OK, run("INSERT INTO public.t VALUES (1)", PGW__WRITES));
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT count(*) FROM t"));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_commit(h));
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number("SELECT count(*) FROM t"));
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw__pq_commit(h));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_begin(h));
    TEST_ASSERT_EQUAL(PGW_OK, run("INSERT INTO public.t VALUES (2)", PGW__WRITES));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_rollback(h));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_rollback(h)); /* nothing to do */
    TEST_ASSERT_EQUAL_INT64(1, pgtemp_number("SELECT count(*) FROM t"));
}

void test_a_transaction_dies_with_its_session(void)
{
    char sql[128];
    int64_t pid;

    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_begin(h));
    pid = number("SELECT pg_backend_pid()");
    snprintf(sql, sizeof(sql), "SELECT count(pg_terminate_backend(%d, 5000))", (int)pid);
    pgtemp_number(sql);
    TEST_ASSERT_EQUAL(PGW_ECONN, run("INSERT INTO public.t VALUES (1)",
                                     PGW__WRITES)); /* nothing to be unknown: no COMMIT was sent */
    TEST_ASSERT_EQUAL(PGW_ECONN, run("INSERT INTO public.t VALUES (1)",
                                     PGW__WRITES)); /* not in a new session by itself */
    TEST_ASSERT_EQUAL(PGW_ECONN, pgw__pq_commit(h));
    TEST_ASSERT_EQUAL(PGW_OK, run("INSERT INTO public.t VALUES (1)", PGW__WRITES));
    TEST_ASSERT_EQUAL_INT64(2, pgw__pq_epoch(h));
    /* and a rollback has nothing to add */
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_begin(h));
    TEST_ASSERT_EQUAL(PGW_ECONN, run("SELECT pg_terminate_backend(pg_backend_pid())", 0));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_rollback(h));
    TEST_ASSERT_EQUAL_STRING("57P01",
                             pgw__pq_sqlstate(h)); /* the diagnostics of the failure is kept */
    TEST_ASSERT_EQUAL_INT64(1, number("SELECT 1"));
}

void test_a_commit_that_fails_is_over(void)
{
    pgtemp_exec(
        "DROP TABLE IF EXISTS d; CREATE TABLE d (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)");
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_begin(h));
    TEST_ASSERT_EQUAL(PGW_OK, run("INSERT INTO public.d VALUES (1), (1)", PGW__WRITES));
    TEST_ASSERT_EQUAL(PGW_EEXISTS, pgw__pq_commit(h));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_begin(h));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_rollback(h));
}

void test_several_statements_in_one_text(void)
{
    TEST_ASSERT_EQUAL(
        PGW_EEXISTS,
        run("INSERT INTO public.t VALUES (1); INSERT INTO public.t VALUES (1)", PGW__WRITES));
    TEST_ASSERT_EQUAL_INT64(0,
                            pgtemp_number("SELECT count(*) FROM t")); /* together or not at all */
    TEST_ASSERT_EQUAL(
        PGW_OK,
        run("INSERT INTO public.t VALUES (1); INSERT INTO public.t VALUES (2)", PGW__WRITES));
    TEST_ASSERT_EQUAL_INT64(2, pgtemp_number("SELECT count(*) FROM t"));
}

/* ---- COPY ---- */

static const char copy_head[] =
    "PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0"; /* and the NUL of the literal makes 19 */

static void copy_rows(int from, int count, pgw_status expected)
{
    for (int i = from; i < from + count; i++) {
        unsigned char row[] = {0, 2, 0, 0, 0,  4, 0, 0, (unsigned char)(i >> 8), (unsigned char)i,
                               0, 0, 0, 1, 'x'};

        TEST_ASSERT_EQUAL(expected, pgw__pq_copy_data(h, row, sizeof(row)));
    }
}

void test_a_copy_is_sent_in_pieces(void)
{
    TEST_ASSERT_EQUAL(PGW_OK,
                      pgw__pq_copy_begin(h, "load", "COPY public.t FROM STDIN (FORMAT binary)"));
    TEST_ASSERT_EQUAL(PGW_EMISUSE, run("SELECT 1", 0));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_copy_data(h, copy_head, 19));
    copy_rows(0, 5000, PGW_OK);
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_copy_data(h, "\377\377", 2));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_copy_end(h, true));
    TEST_ASSERT_EQUAL_INT64(5000, pgtemp_number("SELECT count(*) FROM t"));
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw__pq_copy_end(h, true));
    TEST_ASSERT_EQUAL_INT64(1, number("SELECT 1"));
}

void test_copy_given_up_leaves_nothing(void)
{
    TEST_ASSERT_EQUAL(PGW_OK,
                      pgw__pq_copy_begin(h, "load", "COPY public.t FROM STDIN (FORMAT binary)"));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_copy_data(h, copy_head, 19));
    copy_rows(0, 10, PGW_OK);
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_copy_end(h, false));
    TEST_ASSERT_EQUAL_STRING("", pgw__pq_error_message(h));
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT count(*) FROM t"));
    TEST_ASSERT_EQUAL_INT64(1, number("SELECT 1"));
}

void test_copy_refused_by_the_server(void)
{
    TEST_ASSERT_EQUAL(PGW_ESCHEMA,
                      pgw__pq_copy_begin(h, "load", "COPY public.no_such_table FROM STDIN"));
    TEST_ASSERT_EQUAL(PGW_OK,
                      pgw__pq_copy_begin(h, "load", "COPY public.t FROM STDIN (FORMAT binary)"));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_copy_data(h, copy_head, 19));
    copy_rows(1, 1, PGW_OK);
    copy_rows(1, 1, PGW_OK);
    TEST_ASSERT_EQUAL(PGW_EEXISTS, pgw__pq_copy_end(h, true));
    TEST_ASSERT_EQUAL_STRING("23505", pgw__pq_sqlstate(h));
    TEST_ASSERT_EQUAL_INT64(1, number("SELECT 1"));
}

void test_a_copy_is_part_of_its_transaction(void)
{
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_begin(h));
    TEST_ASSERT_EQUAL(PGW_OK,
                      pgw__pq_copy_begin(h, "load", "COPY public.t FROM STDIN (FORMAT binary)"));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_copy_data(h, copy_head, 19));
    copy_rows(0, 3, PGW_OK);
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_copy_end(h, true));
    TEST_ASSERT_EQUAL_INT64(3, number("SELECT count(*) FROM public.t"));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_rollback(h));
    TEST_ASSERT_EQUAL_INT64(0, pgtemp_number("SELECT count(*) FROM t"));
}

void test_copy_whose_session_is_killed_is_unknown(void)
{
    char sql[160];
    pgw_status st = PGW_OK;
    int64_t pid = number("SELECT pg_backend_pid()");

    TEST_ASSERT_EQUAL(PGW_OK,
                      pgw__pq_copy_begin(h, "load", "COPY public.t FROM STDIN (FORMAT binary)"));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_copy_data(h, copy_head, 19));
    snprintf(sql, sizeof(sql), "SELECT count(pg_terminate_backend(%d, 5000))", (int)pid);
    pgtemp_number(sql);
    for (int i = 0; i < 100 && st == PGW_OK; i++) st = pgw__pq_copy_data(h, "\0\2", 2);
    if (st == PGW_OK) st = pgw__pq_copy_end(h, true);
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN, st);
    TEST_ASSERT_EQUAL_INT64(1, number("SELECT 1"));
}

/* ---- waiting ---- */

void test_a_notification_wakes(void)
{
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_listen(h, "pgwork_\"x"));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_listen(h, "pgwork_\"x"));
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY, pgw__pq_wait(h, 0, -1));
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY, pgw__pq_wait(h, 10, -1));
    pgtemp_exec("NOTIFY \"pgwork_\"\"x\"");
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_wait(h, 20000, -1));
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY, pgw__pq_wait(h, 0, -1));
    /* one that came along with another answer is not lost */
    pgtemp_exec("NOTIFY \"pgwork_\"\"x\"");
    number("SELECT 1");
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_wait(h, 20000, -1));
}

void test_listening_goes_on_in_a_new_session(void)
{
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_listen(h, "c"));
    TEST_ASSERT_EQUAL(PGW_ECONN, run("SELECT pg_terminate_backend(pg_backend_pid())", 0));
    TEST_ASSERT_EQUAL(PGW_ECONN, pgw__pq_wait(h, 20000, -1));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_connect(h, 0));
    TEST_ASSERT_EQUAL_INT64(2, pgw__pq_epoch(h));
    pgtemp_exec("NOTIFY c");
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_wait(h, 20000, -1));
}

void test_after_unlisten_nothing_is_notified_and_another_channel_fits(void)
{
    static const char all[] = "SELECT count(*) FROM pg_listening_channels()";

    pgw__pq_unlisten(h, "\"b"); /* never did */
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_listen(h, "a"));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_listen(h, "\"b"));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_listen(h, "c"));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_listen(h, "d"));
    pgw__pq_unlisten(h, "\"b");
    TEST_ASSERT_EQUAL_INT64(3, number(all));
    pgtemp_exec("NOTIFY \"\"\"b\"");
    TEST_ASSERT_EQUAL_INT64(1, number("SELECT 1"));
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY, pgw__pq_wait(h, 0, -1));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_listen(h, "e"));
    pgw__pq_drop(h);
    pgw__pq_unlisten(h, "e"); /* also where the session is gone: the next one does without */
    TEST_ASSERT_EQUAL_INT64(3, number(all));
    pgtemp_exec("NOTIFY d");
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_wait(h, 20000, -1));
}

void test_five_channels_are_too_many(void)
{
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_listen(h, "1"));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_listen(h, "2"));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_listen(h, "3"));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_listen(h, "4"));
    TEST_ASSERT_EQUAL(PGW_EINVAL, pgw__pq_listen(h, "5"));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_listen(h, "2"));
}

void test_another_descriptor_wakes(void)
{
    int fds[2];

    TEST_ASSERT_EQUAL_INT(0, pipe(fds));
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY, pgw__pq_wait(h, 10, fds[0]));
    TEST_ASSERT_EQUAL_INT(1, write(fds[1], "x", 1));
    TEST_ASSERT_EQUAL(PGW_OUTCOME_AGAIN, pgw__pq_wait(h, 20000, fds[0]));
    close(fds[0]);
    close(fds[1]);
}

void test_a_dead_session_wakes(void)
{
    char sql[128];

    snprintf(sql, sizeof(sql), "SELECT count(pg_terminate_backend(%d, 5000))",
             (int)number("SELECT pg_backend_pid()"));
    pgtemp_number(sql);
    TEST_ASSERT_EQUAL(PGW_ECONN, pgw__pq_wait(h, 20000, -1));
}

static void *notify_soon(void *stop)
{
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    pgw_stop_notify(stop);
    return NULL;
}

static void *notify_twice(void *stop)
{
    notify_soon(stop);
    return notify_soon(stop);
}

void test_a_stop_ends_waits_at_once_and_statements_at_the_second(void)
{
    pgw_stop *stop;
    pthread_t thread;

    TEST_ASSERT_EQUAL(PGW_OK, pgw_stop_new(&stop));
    pgw__pq_set_stop(h, stop);
    TEST_ASSERT_EQUAL_INT(0, pthread_create(&thread, NULL, notify_soon, stop));
    TEST_ASSERT_EQUAL(PGW_ECANCELED, pgw__pq_wait(h, 60000, -1));
    pthread_join(thread, NULL);
    TEST_ASSERT_EQUAL_INT64(1, number("SELECT 1")); /* finish what runs: statements go on */
    pgw__pq_set_stop(h, NULL);
    pgw_stop_free(stop);

    TEST_ASSERT_EQUAL(PGW_OK, pgw_stop_new(&stop));
    pgw__pq_set_stop(h, stop);
    TEST_ASSERT_EQUAL_INT(0, pthread_create(&thread, NULL, notify_twice, stop));
    TEST_ASSERT_EQUAL(PGW_ECANCELED, run("SELECT pg_sleep(60)", PGW__WRITES));
    TEST_ASSERT_EQUAL_INT(2, pgw_stop_count(stop));
    pthread_join(thread, NULL);
    TEST_ASSERT_EQUAL_STRING("57014", pgw__pq_sqlstate(h));
    pgw__pq_set_stop(h, NULL);
    pgw_stop_free(stop);
    TEST_ASSERT_EQUAL_INT64(1, pgw__pq_epoch(h));
}

void test_a_stop_ends_reconnecting(void)
{
    pgw_conf *conf;
    pgw_stop *stop;
    pthread_t thread;

    pgw__pq_close(h);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_conf_new(&conf));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_conf_set(conf, "dsn", "host=/nowhere"));
    TEST_ASSERT_EQUAL(PGW_ECONN, pgw__pq_open(&h, conf));
    pgw_conf_free(conf);
    TEST_ASSERT_EQUAL(PGW_OK, pgw_stop_new(&stop));
    pgw__pq_set_stop(h, stop);
    TEST_ASSERT_EQUAL_INT(0, pthread_create(&thread, NULL, notify_soon, stop));
    TEST_ASSERT_EQUAL(PGW_ECANCELED, run("SELECT 1", 0));
    pthread_join(thread, NULL);
    pgw__pq_set_stop(h, NULL);
    pgw_stop_free(stop);
    /* without a stop the deadline ends it, and the reason is the server's absence */
    pgw__pq_set_timeout(h, 300);
    TEST_ASSERT_EQUAL(PGW_ECONN, run("SELECT 1", PGW__WRITES));
    TEST_ASSERT_NOT_NULL(strstr(pgw__pq_error_message(h), "/nowhere"));
}

/* ---- statements are cached ---- */

void test_statements_are_prepared_once_or_never(void)
{
    pgw__call call = {.sql = PGW__SQL_HANDLE_VERSION};

    pgtemp_exec("DROP SCHEMA IF EXISTS pgwork CASCADE; CREATE SCHEMA pgwork; CREATE FUNCTION "
                "pgwork.version() RETURNS int LANGUAGE sql AS 'SELECT 1'");
    for (int i = 0; i < 3; i++) TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_call(h, &call));
    TEST_ASSERT_EQUAL_INT64(
        1, number("SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'pgwork_%'"));
    pgw__pq_close(h);
    open_with("prepare", "never");
    for (int i = 0; i < 3; i++) TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_call(h, &call));
    TEST_ASSERT_EQUAL_INT64(0, number("SELECT count(*) FROM pg_prepared_statements"));
    pgtemp_exec("ALTER SCHEMA pgwork RENAME TO other_place");
    TEST_ASSERT_EQUAL(PGW_ESCHEMA, pgw__pq_call(h, &call));
    pgw__pq_close(h);
    open_with("schema", "other_place");
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_call(h, &call));
    pgtemp_exec("DROP SCHEMA other_place CASCADE");
}

/* ---- memory ---- */

static int allocations_left;

static void *scarce_alloc(void *ctx, size_t size)
{
    return allocations_left-- > 0 ? malloc(size) : NULL;
}

static void *scarce_realloc(void *ctx, void *p, size_t size)
{
    return allocations_left-- > 0 ? realloc(p, size) : NULL;
}

static void scarce_free(void *ctx, void *p)
{
    free(p);
}

void test_out_of_memory_at_every_point(void)
{
    static const pgw_allocator scarce = {NULL, scarce_alloc, scarce_realloc, scarce_free};
    static char big[20000];
    const pgw__param params[] = {P_TEXT(big), P_END};
    pgw__call call = {.sql = PGW__SQL_HANDLE_VERSION};
    pgw_status st = PGW_ENOMEM;
    pgw_conf *conf;
    int64_t n;
    int points = 0;

    pgtemp_exec("DROP SCHEMA IF EXISTS pgwork CASCADE; CREATE SCHEMA pgwork; CREATE FUNCTION "
                "pgwork.version() RETURNS int LANGUAGE sql AS 'SELECT 1'");
    memset(big, 'x', sizeof(big) - 1);
    pgw__pq_close(h);
    h = NULL;
    TEST_ASSERT_EQUAL(PGW_OK, pgw_conf_new(&conf));
    TEST_ASSERT_EQUAL(PGW_OK, pgw_conf_set(conf, "dsn", pgtemp_dsn()));
    pgw_set_allocator(&scarce);
    while (st == PGW_ENOMEM && points < 200) {
        allocations_left = points++;
        st = pgw__pq_open(&h, conf);
        if (st == PGW_OK) st = pgw__pq_call(h, &call);
        if (st == PGW_OK) st = ask(&n, "SELECT length($1)", params);
        if (st == PGW_ENOMEM && h) {
            /* the handle is usable once there is memory again */
            TEST_ASSERT_EQUAL_STRING(pgw_status_text(PGW_ENOMEM), pgw__pq_error_message(h));
            allocations_left = 1000;
            TEST_ASSERT_EQUAL(PGW_OK, ask(&n, "SELECT 1", NULL));
        }
        if (st == PGW_ENOMEM) pgw__pq_close(h), h = NULL;
    }
    TEST_ASSERT_EQUAL(PGW_OK, st);
    TEST_ASSERT_EQUAL_INT64(sizeof(big) - 1, n);
    TEST_ASSERT_TRUE(points > 5);
    allocations_left = 1000;
    pgw__pq_close(h);
    h = NULL;
    pgw_set_allocator(NULL);
    pgw_conf_free(conf);
    pgtemp_exec("DROP SCHEMA pgwork CASCADE");
}
