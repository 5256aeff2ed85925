/* table: identifiers, and answers of an unexpected shape. Other tests of tables need a server. */
#include "unity.h"
#include "callkit.h"
#include "token.h"
#include "ask.h"
#include "backoff.h"
#include "buf.h"
#include "check.h"
#include "clock.h"
#include "conf.h"
#include "json.h"
#include "log.h"
#include "mem.h"
#include "mock_pq.h"
#include "name.h"
#include "sql.h"
#include "table_int.h"
#include "fakepq.h"

TEST_SOURCE_FILE("src/base/status.c")
TEST_SOURCE_FILE("src/table/table.c")
TEST_SOURCE_FILE("src/table/table_ddl.c")
TEST_SOURCE_FILE("src/table/table_lease.c")
TEST_SOURCE_FILE("src/table/table_lock.c")
TEST_SOURCE_FILE("src/table/table_mem.c")
TEST_SOURCE_FILE("src/table/table_registry.c")
TEST_SOURCE_FILE("src/table/table_rows.c")
TEST_SOURCE_FILE("src/table/table_text.c")
TEST_SOURCE_FILE("src/table/table_write.c")

static pgw__column columns[] = {
    {"id", "pg_catalog", "int4", NULL, NULL, true, true, false, true},
    {"n", "pg_catalog", "int4", NULL, NULL, true, false, false, true},
    {"who", "pg_catalog", "text", NULL, NULL, true, false, false, true},
    {"until", "pg_catalog", "timestamptz", NULL, NULL, true, false, false, true},
    {"token", "pg_catalog", "uuid", NULL, NULL, true, false, false, true},
    {"v", "pg_catalog", "int8", NULL, NULL, true, true, false, true},
};
static pgw_table t;
static const char *const key[] = {"7"};

/* Each statement of generated text takes the next step. */
typedef struct step {
    pgw_status status;
    const fake_cell *cells;
    int columns, rows;
} step;
static const step *script;
static char sent[4000];
static bool in_txn;
static int pauses;
static pgw_status pause_ends;

static pgw_status text_call(pgw *h, const char *name, const char *sql, const pgw__call *call, int n)
{
    const step *s = script++;
    char ctx[192];

    snprintf(sent, sizeof(sent), "%s", sql);
    fake.flags = call->flags;
    if (s->status < 0) return fake_fail(h, s->status, "the fake failed", NULL, 0);
    fake.cells = s->cells, fake.columns = s->columns, fake.rows = s->rows;
    if (call->read == NULL) return PGW_OK;
    memcpy(ctx, call->ctx, call->ctx_size);
    return call->read(h, (const pgw__rows *)(const void *)&fake, ctx);
}

static bool is_in_txn(const pgw *h, int n)
{
    return in_txn;
}

static pgw_status wait_a_little(pgw *h, int64_t ms, int fd, int n)
{
    TEST_ASSERT_INT64_WITHIN(100, 101, ms);
    pauses++;
    return pause_ends;
}

static const char *last_message(const pgw *h, int n)
{
    return fake.message;
}

static pgw_status last_status(const pgw *h, int n)
{
    return fake.error;
}

static const char *no_sqlstate(const pgw *h, int n)
{
    return "";
}

static unsigned char *kept_id(pgw *h, int n)
{
    static unsigned char id[16];

    return id;
}

static void disarm(pgw *h, pgw_done_fn *done, void *arg, int n)
{
    fake.armed = false;
}

void setUp(void)
{
    fake_begin();
    pgw__pq_text_Stub(text_call);
    pgw__pq_in_txn_Stub(is_in_txn);
    pgw__pq_wait_Stub(wait_a_little);
    pgw__pq_error_message_Stub(last_message);
    pgw__pq_error_status_Stub(last_status);
    pgw__pq_sqlstate_Stub(no_sqlstate);
    pgw__pq_arm_Stub(disarm);
    pgw__pq_spent_Stub(kept_id);
    in_txn = false, pauses = 0, pause_ends = PGW_OUTCOME_EMPTY;
    t = (pgw_table){.schema = "public",
                    .name = "article",
                    .columns = columns,
                    .columns_count = 6,
                    .key = {{&columns[0], {"pg_catalog", "="}, {"pg_catalog", "<"}}},
                    .key_count = 1,
                    .locked_by = &columns[2],
                    .expires_at = &columns[3],
                    .token = &columns[4],
                    .version = &columns[5],
                    .home = "pgwork",
                    .complete = true};
}

void tearDown(void) {}

/* ---- identifiers ---- */

static const char *quoted(const char *name)
{
    static char out[300];
    pgw__buf b;

    pgw__buf_init(&b, 1000);
    pgw__put_ident(&b, name);
    snprintf(out, sizeof(out), "%s", b.failed ? "refused" : pgw__buf_str(&b));
    pgw__buf_free(&b);
    return out;
}

void test_identifiers_are_quoted_and_quotes_doubled(void)
{
    TEST_ASSERT_EQUAL_STRING("\"a\"", quoted("a"));
    TEST_ASSERT_EQUAL_STRING("\"\"\"\"", quoted("\""));
    TEST_ASSERT_EQUAL_STRING("\"\"\"\"\"a\"\"\"", quoted("\"\"a\""));
    TEST_ASSERT_EQUAL_STRING("\"x\"\"; DROP TABLE y; --\"", quoted("x\"; DROP TABLE y; --"));
    TEST_ASSERT_EQUAL_STRING("\"a\\b'$1%s\"", quoted("a\\b'$1%s"));
    TEST_ASSERT_EQUAL_STRING("\"\xc3\xa9\"", quoted("\xc3\xa9"));
}

void test_names_that_the_server_would_cut_or_refuse_are_refused(void)
{
    char name[66];

    memset(name, 'x', sizeof(name));
    name[63] = '\0';
    TEST_ASSERT_EQUAL('"', quoted(name)[0]);
    name[63] = 'x', name[64] = '\0';
    TEST_ASSERT_EQUAL_STRING("refused", quoted(name));
    TEST_ASSERT_EQUAL_STRING("refused", quoted(""));
    TEST_ASSERT_EQUAL_STRING("refused", quoted(NULL));
    TEST_ASSERT_EQUAL_STRING("refused", quoted("\xff"));
    TEST_ASSERT_EQUAL_STRING("refused", quoted("\xed\xa0\x80"));
}

void test_names_of_indexes_are_cut_between_characters(void)
{
    pgw_table_spec s = PGW_TABLE_SPEC_INIT;
    char long_name[64], out[PGW__IDENT_MAX + 1], other[PGW__IDENT_MAX + 1];

    s.table = "article", s.key = key, s.key_count = 1;
    pgw__table_index_name(out, &s, 0);
    TEST_ASSERT_EQUAL(strlen("article_pgwork_lease_01234567"), strlen(out));
    TEST_ASSERT_EQUAL_STRING_LEN("article_pgwork_lease_", out, 21);
    memset(long_name, 'x', 63);
    long_name[63] = '\0';
    memcpy(long_name + 39, "\xc3\xa9", 2);
    s.table = long_name;
    pgw__table_index_name(out, &s, 1);
    TEST_ASSERT_EQUAL(62, strlen(out));
    TEST_ASSERT_EQUAL_STRING_LEN("x_pgwork_holder_", out + 38, 16);
    long_name[62] = 'y'; /* which is cut off */
    pgw__table_index_name(other, &s, 1);
    TEST_ASSERT_EQUAL_STRING_LEN(out, other, 54);
    TEST_ASSERT_NOT_EQUAL(0, strcmp(out, other));
}

/* ---- what is sent ---- */

void test_a_claim_locks_first_and_once(void)
{
    const step steps[] = {{PGW_OK, NULL, 0, 0}};
    pgw_table_claim_opts o = PGW_TABLE_CLAIM_OPTS_INIT;
    pgw_rows *rows;

    o.holder = "anna", o.where = "n > 0";
    script = steps;
    TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY, pgw_table_claim(FAKE_H, &t, &o, &rows));
    TEST_ASSERT_EQUAL(PGW__WRITES | PGW__RELAXED, fake.flags);
    TEST_ASSERT_NOT_NULL(strstr(sent, "pgw_free AS MATERIALIZED ("));
    TEST_ASSERT_NOT_NULL(strstr(sent, "LIMIT $2::pg_catalog.int8 - (SELECT pg_catalog.count(*) "
                                      "FROM pgw_own) FOR NO KEY UPDATE OF t SKIP LOCKED"));
    TEST_ASSERT_NOT_NULL(strstr(sent, "AND (n > 0\n)"));
    TEST_ASSERT_NOT_NULL(strstr(sent, "t.\"id\" OPERATOR(\"pg_catalog\".=) c.pgw_k1"));
}

/* Without a column the version is the number of the transaction, which must not be lost. */
void test_without_a_version_column_calls_wait_for_the_disk(void)
{
    static const fake_cell done[] = {F_INT(1), F_INT(1), F_INT(1)};
    const step steps[] = {{PGW_OK, NULL, 0, 0}, {PGW_OK, done, 3, 1}, {PGW_OK, done, 1, 1}};
    pgw_row_ref ref = {key, {1, 2}, PGW_OK};
    pgw_table_claim_opts o = PGW_TABLE_CLAIM_OPTS_INIT;
    pgw_rows *rows;

    o.holder = "anna";
    for (int m = 0; m < 3; m++) {
        const unsigned flags = PGW__WRITES | (m == 0 ? 0 : PGW__RELAXED);

        t.version = m == 1 ? &columns[5] : NULL;
        t.has_xmin = m == 0, t.partitioned = m == 2; /* which has no such version */
        script = steps;
        TEST_ASSERT_EQUAL(PGW_OUTCOME_EMPTY, pgw_table_claim(FAKE_H, &t, &o, &rows));
        TEST_ASSERT_EQUAL(flags, fake.flags);
        TEST_ASSERT_EQUAL(PGW_OK, pgw_table_extend(FAKE_H, &t, &ref, 1, ROWS_BY(1000)));
        TEST_ASSERT_EQUAL(flags, fake.flags);
        TEST_ASSERT_EQUAL(PGW_OK, pgw_table_reap(FAKE_H, &t, 1, NULL));
        TEST_ASSERT_EQUAL(flags, fake.flags);
    }
}

/* ---- answers that should not be ---- */

void test_a_claim_with_more_rows_than_asked_for_is_refused(void)
{
    static const fake_cell two[][5] = {{F_INT(1), F_UUID("00000000-0000-0001-0000-000000000002"),
                                        F_INT(9), F_TEXT("0"), F_TEXT("7")},
                                       {F_INT(2), F_UUID("00000000-0000-0001-0000-000000000003"),
                                        F_INT(9), F_TEXT("0"), F_TEXT("8")}};
    const step steps[] = {{PGW_OK, &two[0][0], 5, 2}, {PGW_OK, &two[0][0], 5, 2}};
    pgw_table_claim_opts o = PGW_TABLE_CLAIM_OPTS_INIT;
    pgw_rows *rows;

    o.holder = "anna";
    script = steps;
    TEST_ASSERT_EQUAL(PGW_EPROTO, pgw_table_claim(FAKE_H, &t, &o, &rows));
    TEST_ASSERT_NULL(rows);
    o.max = 2;
    TEST_ASSERT_EQUAL(PGW_OK, pgw_table_claim(FAKE_H, &t, &o, &rows));
    TEST_ASSERT_EQUAL_STRING("8", pgw_rows_key(rows, 1)[0]);
    TEST_ASSERT_EQUAL_UINT64(1, pgw_rows_ref(rows, 1).token.number);
    TEST_ASSERT_EQUAL_UINT64(3, pgw_rows_ref(rows, 1).token.nonce);
    TEST_ASSERT_EQUAL_INT64(9, pgw_rows_lease_until_us(rows, 0));
    pgw_rows_free(rows);
}

void test_verdicts_are_unknown_until_they_are_known(void)
{
    static const fake_cell odd[] = {F_INT(1), F_INT(1), F_INT(1), F_INT(3), F_INT(1), F_INT(1)},
                           none[] = {F_INT(1), F_NULL, F_INT(0)};
    const step steps[] = {{PGW_EUNKNOWN, NULL, 0, 0},
                          {PGW_OK, NULL, 3, 0},
                          {PGW_OK, odd, 3, 2},
                          {PGW_OK, none, 3, 1}};
    pgw_row_ref ref = {key, {1, 2}, PGW_OK}, refs[] = {ref, ref};

    script = steps;
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN, pgw_table_release(FAKE_H, &t, &ref, 1));
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN, ref.outcome);
    TEST_ASSERT_EQUAL(PGW_EPROTO, pgw_table_release(FAKE_H, &t, &ref, 1));
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN, ref.outcome);
    TEST_ASSERT_EQUAL(PGW_EPROTO, pgw_table_release(FAKE_H, &t, refs, 2));
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN, refs[0].outcome);
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN, refs[1].outcome);
    TEST_ASSERT_EQUAL(PGW_ELEASE, pgw_table_release(FAKE_H, &t, &ref, 1));
    TEST_ASSERT_EQUAL(PGW_ENOTFOUND, ref.outcome);
}

/* ---- process: when the answer is lost ---- */

static const fake_cell row_as_read[] = {F_TEXT("0"), F_TEXT("7"), F_TEXT("7"), F_TEXT("1"),
                                        F_NULL,      F_NULL,      F_NULL,      F_TEXT("0")};
static const fake_cell written[] = {F_TEXT("1"), F_INT(1), F_INT(1)},
                       conflict[] = {F_NULL, F_INT(1), F_NULL};
static const fake_cell yes[] = {F_INT(1)}, no[] = {F_INT(0)};
static int edits;

#define READ                      \
    {                             \
        PGW_OK, row_as_read, 8, 1 \
    }
#define WRITTEN               \
    {                         \
        PGW_OK, written, 3, 1 \
    }
#define CONFLICT               \
    {                          \
        PGW_OK, conflict, 3, 1 \
    }
#define LOST                     \
    {                            \
        PGW_EUNKNOWN, NULL, 0, 0 \
    }

static pgw_status edit(pgw_edit *e, void *arg)
{
    edits++;
    TEST_ASSERT_EQUAL_STRING("1", pgw_edit_get(e, "n"));
    return pgw_edit_set(e, "n", "2");
}

static pgw_status processed(const step *steps, const pgw_table_process_opts *o)
{
    script = steps, edits = 0;
    return pgw_table_process(FAKE_H, &t, AT_ROW(key, o), edit, NULL);
}

static const fake_cell *looked_up;

static void answer_the_lookup(const pgw__call *call)
{
    TEST_ASSERT_EQUAL(PGW__SQL_TABLE_APPLIED, call->sql);
    TEST_ASSERT_EQUAL(PGW__UUID, call->params[0].type);
    TEST_ASSERT_EQUAL(PGW__WRITES, call->flags); /* or a wait that was cut short would not show */
    fake.cells = looked_up, fake.columns = 1, fake.rows = 1;
}

void test_after_a_lost_answer_the_operation_id_is_read_before_each_try(void)
{
    const step applied[] = {READ, LOST}, not_applied[] = {READ, LOST, READ, WRITTEN},
               late[] = {READ, LOST, READ, CONFLICT, READ, WRITTEN};

    fake.on_call = answer_the_lookup;
    looked_up = yes;
    TEST_ASSERT_EQUAL(PGW_OK, processed(applied, NULL));
    TEST_ASSERT_EQUAL(1, edits);
    TEST_ASSERT_EQUAL(1, fake.calls);
    looked_up = no;
    TEST_ASSERT_EQUAL(PGW_OK, processed(not_applied, NULL));
    TEST_ASSERT_EQUAL(2, edits);
    TEST_ASSERT_EQUAL(2, fake.calls);
    TEST_ASSERT_EQUAL(PGW_OK, processed(late, NULL));
    TEST_ASSERT_EQUAL(3, edits);
    TEST_ASSERT_EQUAL(4, fake.calls);
}

static int lost_lookups;

static void lose_the_lookup(const pgw__call *call)
{
    answer_the_lookup(call);
    fake.status = lost_lookups-- > 0 ? PGW_EUNKNOWN : PGW_OK;
}

/* That is not a try of ours which may have been applied. */
void test_a_lost_read_of_an_operation_id_is_repeated(void)
{
    pgw_table_process_opts o = PGW_TABLE_PROCESS_OPTS_INIT;

    o.op = "6f1b1c52-9d3e-4a43-8f53-0d6a0a1d7e01", o.tries = 2;
    fake.on_call = lose_the_lookup, looked_up = yes;
    lost_lookups = 1;
    TEST_ASSERT_EQUAL(PGW_OUTCOME_REPEATED, processed(NULL, &o));
    lost_lookups = 2;
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN, processed(NULL, &o));
    ASSERT_SAYS("the fake failed");
    TEST_ASSERT_NULL(strstr(fake.message, "may have been applied"));
    TEST_ASSERT_EQUAL(0, edits);
}

static void lose_the_session(const pgw__call *call)
{
    fake.status = PGW_ECONN;
}

void test_a_session_of_the_library_reconnects_and_the_callers_does_not(void)
{
    const step steps[] = {READ, LOST};

    fake.on_call = lose_the_session;
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN, processed(steps, NULL));
    TEST_ASSERT_EQUAL(19, fake.calls);
    fake.attached = true, fake.calls = 0;
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN, processed(steps, NULL));
    TEST_ASSERT_EQUAL(1, fake.calls);
}

void test_an_outcome_that_stays_unknown_is_returned_as_unknown(void)
{
    const step steps[] = {READ, LOST, READ, CONFLICT, READ, CONFLICT};
    pgw_table_process_opts o = PGW_TABLE_PROCESS_OPTS_INIT;

    o.tries = 3;
    fake.on_call = answer_the_lookup, looked_up = no;
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN, processed(steps, &o));
    TEST_ASSERT_EQUAL(2, pauses);
    t.home = NULL;
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN, processed(steps, &o));
    TEST_ASSERT_EQUAL(1, edits);
    TEST_ASSERT_NULL(strstr(sent, "table_operation"));
}

static const fake_cell row_as_written[] = {F_TEXT("1"), F_TEXT("7"), F_TEXT("7"), F_TEXT("1"),
                                           F_NULL,      F_NULL,      F_NULL,      F_TEXT("1")};
#define READ_ANEW                    \
    {                                \
        PGW_OK, row_as_written, 8, 1 \
    }

/* Only two conflicts running, and nothing between them, say that nobody wrote. */
void test_a_row_that_cannot_be_written_is_distinguished_from_a_conflict(void)
{
    const step kept[] = {READ, CONFLICT, READ, CONFLICT},
               others[] = {READ, CONFLICT, READ_ANEW, CONFLICT, READ, CONFLICT, READ, WRITTEN},
               between[] = {READ,
                            CONFLICT,
                            READ,
                            {PGW_ERETRY, NULL, 0, 0},
                            READ,
                            CONFLICT,
                            READ,
                            {PGW_ERETRY, NULL, 0, 0},
                            {PGW_ERETRY, NULL, 0, 0},
                            READ,
                            CONFLICT,
                            READ,
                            WRITTEN};
    pgw_table_process_opts o = PGW_TABLE_PROCESS_OPTS_INIT;

    TEST_ASSERT_EQUAL(PGW_EPERM, processed(kept, NULL));
    ASSERT_SAYS("a trigger or a policy");
    TEST_ASSERT_EQUAL(2, edits);
    TEST_ASSERT_EQUAL(PGW_OK, processed(others, NULL));
    TEST_ASSERT_EQUAL(4, edits);
    TEST_ASSERT_EQUAL(PGW_OK, processed(between, NULL));
    TEST_ASSERT_EQUAL(6, edits);
    o.tries = 1;
    TEST_ASSERT_EQUAL(PGW_ECONFLICT, processed(kept, &o));
}

static pgw_status refuse_the_second_time(pgw_edit *e, void *arg)
{
    if (edits == 0) return edit(e, arg);
    return fake_fail(FAKE_H, PGW_ENOTFOUND, "the prefetch buffer is used up", NULL, 0);
}

/* Perhaps it was the first try, applied since it was looked up, that used the prefetch buffer up.
 */
void test_a_refusal_after_a_lost_answer_does_not_say_that_nothing_was_applied(void)
{
    const step steps[] = {READ, LOST, READ}, at_once[] = {READ};

    fake.on_call = answer_the_lookup, looked_up = no;
    script = steps, edits = 0;
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN, pgw_table_process(FAKE_H, &t, AT_ROW(key, NULL),
                                                      refuse_the_second_time, NULL));
    ASSERT_SAYS("may have been applied");
    ASSERT_SAYS("the prefetch buffer is used up");
    script = at_once;
    TEST_ASSERT_EQUAL(PGW_ENOTFOUND, pgw_table_process(FAKE_H, &t, AT_ROW(key, NULL),
                                                       refuse_the_second_time, NULL));
}

#define LONG   "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4"
#define LONGER LONG LONG LONG LONG LONG LONG LONG LONG LONG LONG LONG LONG LONG LONG LONG

static pgw_status refuse_at_length(pgw_edit *e, void *arg)
{
    if (edits == 0) return edit(e, arg);
    return fake_fail(FAKE_H, PGW_ENOTFOUND, ", " LONGER, NULL, 0);
}

void test_long_diagnostics_are_not_cut_within_a_letter(void)
{
    const step steps[] = {READ, LOST, READ};
    static const char *const columns_of_none[] = {"x" LONG LONG LONG LONG};
    pgw_rows *rows;

    fake.on_call = answer_the_lookup, looked_up = no;
    script = steps, edits = 0;
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN,
                      pgw_table_process(FAKE_H, &t, AT_ROW(key, NULL), refuse_at_length, NULL));
    ASSERT_SAYS("may have been applied");
    TEST_ASSERT_TRUE(pgw__utf8_ok(fake.message, strlen(fake.message)));
    TEST_ASSERT_EQUAL(PGW_EINVAL,
                      pgw_table_get(FAKE_H, &t, THE_ROW(key, columns_of_none, 1), &rows));
    ASSERT_SAYS("does not exist");
    TEST_ASSERT_TRUE(pgw__utf8_ok(fake.message, strlen(fake.message)));
}

void test_the_same_operation_twice_at_once_is_found_by_its_key(void)
{
    const step steps[] = {READ, {PGW_EEXISTS, NULL, 0, 0}},
               own[] = {READ, {PGW_EEXISTS, NULL, 0, 0}};

    fake.on_call = answer_the_lookup, looked_up = yes;
    TEST_ASSERT_EQUAL(PGW_OUTCOME_REPEATED, processed(steps, NULL));
    looked_up = no; /* a unique key of the table's own */
    TEST_ASSERT_EQUAL(PGW_EEXISTS, processed(own, NULL));
}

static pgw_status exists_elsewhere(pgw_edit *e, void *arg)
{
    return fake_fail(FAKE_H, PGW_EEXISTS, "such a name is taken", NULL, 0);
}

void test_after_an_error_of_the_function_no_operation_id_is_read(void)
{
    const step steps[] = {READ};

    fake.on_call = answer_the_lookup, looked_up = yes;
    script = steps;
    TEST_ASSERT_EQUAL(PGW_EEXISTS,
                      pgw_table_process(FAKE_H, &t, AT_ROW(key, NULL), exists_elsewhere, NULL));
    ASSERT_SAYS("such a name is taken");
}

void test_errors_are_repeated_only_outside_of_a_transaction(void)
{
    const step deadlock[] = {READ, {PGW_ERETRY, NULL, 0, 0}, READ, WRITTEN},
               fatal[] = {READ, {PGW_EPERM, NULL, 0, 0}};

    TEST_ASSERT_EQUAL(PGW_OK, processed(deadlock, NULL));
    TEST_ASSERT_EQUAL(2, edits);
    TEST_ASSERT_EQUAL(PGW_EPERM, processed(fatal, NULL));
    in_txn = true;
    TEST_ASSERT_EQUAL(PGW_ERETRY, processed(deadlock, NULL));
    TEST_ASSERT_EQUAL(1, edits);
}

void test_a_stop_ends_the_tries(void)
{
    const step steps[] = {READ, CONFLICT}, lost[] = {READ, LOST};

    pause_ends = PGW_ECANCELED;
    TEST_ASSERT_EQUAL(PGW_ECANCELED, processed(steps, NULL));
    TEST_ASSERT_EQUAL(PGW_EUNKNOWN, processed(lost, NULL));
}

void test_armed_verbs_of_several_round_trips_are_refused(void)
{
    pgw_table_lock_opts o = PGW_TABLE_LOCK_OPTS_INIT;
    pgw_rows *rows;

    in_txn = true;
    fake.armed = true;
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw_table_process(FAKE_H, &t, AT_ROW(key, NULL), edit, NULL));
    TEST_ASSERT_FALSE(fake.armed);
    fake.armed = true;
    TEST_ASSERT_EQUAL(PGW_EMISUSE, pgw_table_lock(FAKE_H, &t, &o, &rows));
    TEST_ASSERT_FALSE(fake.armed);
}
