/* job_short: when small claims go the short way, what they send there, and what becomes of what it
 * leaves undone. */
#include "unity.h"
#include "job.h"
#include "ask.h"
#include "check.h"
#include "mock_pq.h"
#include "name.h"
#include "sql.h"
#include "token.h"
#include "conf.h"
#include "clock.h"
#include "backoff.h"
#include "mem.h"
#include "buf.h"
#include "json.h"
#include "log.h"
#include "fakepq.h"
#include "oom.h"

TEST_SOURCE_FILE("src/status.c")
TEST_SOURCE_FILE("src/job_row.c")
TEST_SOURCE_FILE("src/job_claim.c")
TEST_SOURCE_FILE("src/job_short.c")
TEST_SOURCE_FILE("src/job_finish.c")

#define NONCE   77
#define MOST    40    /* rows of an answer */
#define GOOD_US 21000 /* how long the way is good: to the end of its 20th ms */

/* ---- a server of which each statement has an answer of its own ---- */

typedef struct table {
    fake_cell cells[MOST * 21];
    char tokens[MOST][40];
    int rows, columns;
    pgw_status status; /* < 0: the statement fails */
    bool misread;      /* a value has another shape */
} table;

static struct {
    table owner, look, jobs, gone, by_function, after_complete, complete;
    bool mute; /* what goes before returns no rows */
} says;

static struct {
    uint64_t epoch;
    int64_t sent_us;
    void *kept;
    void (*bye)(void *kept);
    bool suspects;
} session;

/* What the last statement of a kind has carried. */
static struct {
    char log[512]; /* the statements, in words */
    unsigned flags;
    int64_t id, max, lease_ms;
    char name[64], version[16], holder[16];
    int64_t marks[20], tos[20];
    size_t marks_count;
    bool shared, lease_is_null, before;
    /* of what is done */
    int64_t done_id, lane, first, last, ids[MOST];
    unsigned char tokens[MOST][16];
    char done_version[16];
    size_t ids_count, tokens_count;
} seen;

static int64_t now_us, trip_us;
static pgw_claim_opts opts;
static pgw_batch *batch;
static pgw_status verdicts[MOST];

#define GONE ((const pgw__rows *)(const void *)&says.gone)

static const char *const queues[] = {"q", "other"};

static int64_t fake_clock(void)
{
    return now_us;
}

static uint64_t the_epoch(const pgw *h, int n)
{
    return session.epoch;
}

static int64_t the_sent_us(const pgw *h, int n)
{
    return session.sent_us;
}

static void the_keep(pgw *h, pgw__keeper whose, void *kept, void (*bye)(void *kept_), int n)
{
    TEST_ASSERT_EQUAL(PGW__KEPT_SHORT, whose);
    TEST_ASSERT_NULL_MESSAGE(session.kept, "kept twice");
    session.kept = kept;
    session.bye = bye;
}

static void *the_kept(const pgw *h, pgw__keeper whose, int n)
{
    return whose == PGW__KEPT_SHORT ? session.kept : NULL;
}

static const pgw__rows *the_rows_before(const pgw__rows *r, int n)
{
    return seen.before && !says.mute ? GONE : NULL;
}

/* Of a single job only the number is told. */
static int the_rows_before_affected(const pgw__rows *r, int n)
{
    return seen.before && !says.mute ? says.gone.rows : 0;
}

static int the_count(const pgw__rows *r, int n)
{
    TEST_ASSERT_NOT_NULL(r);
    return r == GONE ? says.gone.rows : fake_count(r, n);
}

static int64_t the_int(const pgw__rows *r, int row, int col, int n)
{
    if (r != GONE) return fake_int(r, row, col, n);
    TEST_ASSERT_LESS_THAN(says.gone.rows, row);
    TEST_ASSERT_EQUAL_INT(0, col);
    return says.gone.cells[row].i;
}

static void see_text(char *text, size_t size, const pgw__param *p)
{
    snprintf(text, size, "%s", p->null ? "(null)" : (const char *)p->v.p);
}

static void see_done(const pgw__param *ids, const pgw__param *tokens)
{
    TEST_ASSERT_EQUAL(PGW__INT8_ARRAY, ids->type);
    TEST_ASSERT_EQUAL(PGW__UUID_ARRAY, tokens->type);
    TEST_ASSERT_FALSE_MESSAGE(ids->null || tokens->null, "empty, and not NULL");
    TEST_ASSERT_LESS_OR_EQUAL(MOST, ids->n);
    seen.ids_count = ids->n;
    seen.tokens_count = tokens->n;
    memcpy(seen.ids, ids->v.p, ids->n * sizeof(seen.ids[0]));
    memcpy(seen.tokens, tokens->v.p, tokens->n * sizeof(seen.tokens[0]));
}

static void see_short(const pgw__param *p, const pgw__call *before)
{
    seen.id = p[0].v.i;
    see_text(seen.name, sizeof(seen.name), &p[1]);
    see_text(seen.version, sizeof(seen.version), &p[2]);
    TEST_ASSERT_LESS_OR_EQUAL(20, p[3].n);
    seen.marks_count = p[3].n;
    memcpy(seen.marks, p[3].v.p, p[3].n * sizeof(seen.marks[0]));
    TEST_ASSERT_EQUAL(p[3].n, p[4].n);
    memcpy(seen.tos, p[4].v.p, p[4].n * sizeof(seen.tos[0]));
    TEST_ASSERT_EQUAL(PGW__BYTEA, p[5].type);
    TEST_ASSERT_EQUAL_MESSAGE(8, p[5].n, "half of a token");
    see_text(seen.holder, sizeof(seen.holder), &p[6]);
    seen.lease_ms = p[7].v.i;
    seen.lease_is_null = p[7].null;
    seen.shared = p[8].type == PGW__BOOL && p[8].v.b;
    seen.max = p[8].type == PGW__BOOL ? p[9].v.i : 1;
    seen.before = before != NULL;
    if (before == NULL) return;
    TEST_ASSERT_TRUE(before->sql == PGW__SQL_JOB_SHORT_COMPLETE ||
                     before->sql == PGW__SQL_JOB_SHORT_COMPLETE_ONE);
    TEST_ASSERT_NULL(before->before);
    fake_check_params(before);
    p = before->params;
    seen.done_id = p[0].v.i;
    see_text(seen.done_version, sizeof(seen.done_version), &p[1]);
    seen.lane = p[2].v.i;
    seen.first = p[3].v.i;
    if (before->sql == PGW__SQL_JOB_SHORT_COMPLETE_ONE) {
        seen.last = seen.first;
        seen.ids_count = seen.tokens_count = 1;
        memcpy(seen.tokens, p[4].v.p, sizeof(seen.tokens[0]));
        seen.ids[0] = p[5].v.i;
        return;
    }
    seen.last = p[4].v.i;
    see_done(&p[6], &p[5]);
    TEST_ASSERT_GREATER_THAN(1, seen.ids_count);
}

static table *see_call(const pgw__call *call, const char **word)
{
    const pgw__param *p = call->params;

    switch (call->sql) {
    case PGW__SQL_HANDLE_OWNER: return *word = "owner", &says.owner;
    case PGW__SQL_JOB_SHORT_LOOK:
        see_text(seen.name, sizeof(seen.name), &p[0]);
        TEST_ASSERT_EQUAL(PGW__INDEXED, call->flags);
        return *word = "look", &says.look;
    case PGW__SQL_JOB_SHORT_CLAIM_ONE:
    case PGW__SQL_JOB_SHORT_CLAIM:
        see_short(p, call->before);
        TEST_ASSERT_EQUAL(seen.max == 1, call->sql == PGW__SQL_JOB_SHORT_CLAIM_ONE);
        return *word = call->before != NULL ? "done+short" : "short", &says.jobs;
    case PGW__SQL_JOB_CLAIM: seen.max = p[1].v.i; return *word = "function", &says.by_function;
    case PGW__SQL_JOB_COMPLETE_AND_CLAIM:
        see_done(&p[1], &p[2]);
        seen.max = p[3].v.i;
        see_text(seen.holder, sizeof(seen.holder), &p[4]);
        seen.lease_ms = p[5].v.i;
        seen.lease_is_null = p[5].null;
        return *word = "after", &says.after_complete;
    case PGW__SQL_JOB_COMPLETE: see_done(&p[1], &p[2]); return *word = "complete", &says.complete;
    default: TEST_FAIL_MESSAGE(pgw__sql_name(call->sql)); return NULL;
    }
}

static void on_call(const pgw__call *call)
{
    const char *word;
    const table *t = see_call(call, &word);
    const size_t used = strlen(seen.log);

    snprintf(seen.log + used, sizeof(seen.log) - used, "%s%s", used > 0 ? " " : "", word);
    if (call->sql != PGW__SQL_JOB_SHORT_CLAIM && call->sql != PGW__SQL_JOB_SHORT_CLAIM_ONE)
        TEST_ASSERT_NULL(call->before);
    seen.flags = call->flags;
    session.sent_us = now_us;
    fake.cells = t->cells, fake.rows = t->rows, fake.columns = t->columns;
    fake.status = t->status;
    fake.misread = t->misread;
    now_us += trip_us;
}

/* As the room pq does it: what was misread fails, whatever the reader says. */
static pgw_status the_call(pgw *h, const pgw__call *call, int n)
{
    const pgw_status st = fake_call(h, call, n);

    return fake.status >= 0 && fake.misread ? fake_fail(h, PGW_EPROTO, "misread", NULL, n) : st;
}

/* ---- its answers ---- */

#define F_INT_OR_NULL(v)                           \
    {                                              \
        (v) != 0 ? FAKE_INT : FAKE_NULL, (v), NULL \
    }

static void add_row(table *t, const fake_cell *cells, int columns)
{
    TEST_ASSERT_LESS_THAN(MOST, t->rows);
    t->columns = columns;
    memcpy(&t->cells[t->rows * columns], cells, (size_t)columns * sizeof(*cells));
    t->rows++;
}

/* Of the row that comes next. */
static const char *token_text(table *t, int64_t place, int lane)
{
    const unsigned long long number = (unsigned long long)(place * 32 + lane);

    TEST_ASSERT_LESS_THAN(MOST, t->rows);
    snprintf(t->tokens[t->rows], sizeof(t->tokens[0]), "%08llx-%04llx-%04llx-0000-%012x",
             number >> 32, number >> 16 & 0xffff, number & 0xffff, NONCE);
    return t->tokens[t->rows];
}

/* By the short way comes this job; 0: that is not told. */
static void comes(int64_t place, int lane, int64_t id, int max_attempts)
{
    const fake_cell row[] = {F_TEXT("q"),
                             F_INT_OR_NULL(id),
                             F_UUID(token_text(&says.jobs, place, lane)),
                             F_INT(1),
                             F_INT_OR_NULL(max_attempts),
                             F_TEXT("short"),
                             F_TEXT("{}"),
                             F_TEXT("body"),
                             F_TAGS("x,yy"),
                             F_INT(100),
                             F_INT(INT64_C(30000400)),
                             F_NULL};

    add_row(&says.jobs, row, 12);
}

static void comes_by(table *t, int64_t place, int lane)
{
    const fake_cell row[] = {F_TEXT("q"),    F_INT(place), F_UUID(token_text(t, place, lane)),
                             F_INT(1),       F_INT(10),    F_INT(lane / 2),
                             F_TEXT("long"), F_TEXT("{}"), F_NULL,
                             F_NULL,         F_INT(100),   F_INT(200),
                             F_NULL,         F_NULL,       F_NULL,
                             F_NULL,         F_NULL,       F_INT(0),
                             F_INT(300),     F_INT(250),   F_NULL};

    add_row(t, row, 21);
}

/* complete_and_claim() refuses the one at this position. */
static void refuses(int at, const char *word)
{
    const fake_cell row[] = {F_TEXT("q"),  F_INT(1), F_NULL,   F_INT(0), F_INT(0), F_INT(0),
                             F_TEXT(word), F_NULL,   F_NULL,   F_NULL,   F_NULL,   F_NULL,
                             F_NULL,       F_NULL,   F_NULL,   F_NULL,   F_NULL,   F_NULL,
                             F_NULL,       F_NULL,   F_INT(at)};

    add_row(&says.after_complete, row, 21);
}

/* Of what is done this one is accepted. */
static void accepts(int64_t place)
{
    const fake_cell row[] = {F_INT(place)};

    add_row(&says.gone, row, 1);
}

static void looks(int64_t left_ms, const char *version, const char *way)
{
    const fake_cell row[] = {F_INT(7),       F_TEXT(version), F_INT(30000),           F_INT(5),
                             F_INT(left_ms), F_TAGS(way),     F_INT(session.suspects)};

    says.look.rows = 0;
    add_row(&says.look, row, 7);
}

/* From here on the functions give so many jobs. */
static void functions_give(int n)
{
    says.by_function.rows = says.after_complete.rows = 0;
    for (int i = 0; i < n; i++) {
        comes_by(&says.by_function, 500 + i, 1);
        comes_by(&says.after_complete, 500 + i, 1);
    }
}

static void short_gives(int n)
{
    says.jobs.rows = 0;
    for (int i = 0; i < n; i++) comes(60 + i, 1, 0, 0);
}

/* ---- what is done with it ---- */

/* Producers are through up to place 50; lane 0 is done with up to 10, lane 1 up to 12, lane 4 up
 * to 90. */
#define WAY "0,7,0,50,320,385,2884"

#define WENT(expected)                                \
    do {                                              \
        TEST_ASSERT_EQUAL_STRING(expected, seen.log); \
        seen.log[0] = '\0';                           \
    } while (0)

#define VERDICTS(...)                                                   \
    TEST_ASSERT_EQUAL_INT_ARRAY(((const int[]){__VA_ARGS__}), verdicts, \
                                sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

#define MARKS(...)                                                                             \
    do {                                                                                       \
        const int64_t marks_[] = {__VA_ARGS__};                                                \
                                                                                               \
        TEST_ASSERT_EQUAL_size_t(sizeof(marks_) / sizeof(marks_[0]), seen.marks_count);        \
        TEST_ASSERT_EQUAL_INT64_ARRAY(marks_, seen.marks, sizeof(marks_) / sizeof(marks_[0])); \
    } while (0)

static pgw_ref ref(int64_t place, int lane)
{
    const pgw_ref r = {place, {(uint64_t)place * 32 + (uint64_t)lane, NONCE}};

    return r;
}

static pgw_status claim(int max)
{
    pgw_batch_free(batch);
    opts.max = max;
    return pgw_claim(FAKE_H, &batch, &opts);
}

static pgw_status trade(const pgw_ref *refs, size_t n, int max)
{
    pgw_batch_free(batch);
    opts.max = max;
    return pgw_complete_and_claim(FAKE_H, verdicts, refs, n, &batch, &opts);
}

/* As `id/priority/max_attempts`. */
#define JOBS(expected) TEST_ASSERT_EQUAL_STRING(expected, jobs_text())
static const char *jobs_text(void)
{
    static char text[1024];
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < pgw_batch_count(batch); i++) {
        const pgw_job *job = pgw_batch_job(batch, i);

        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%lld/%d/%d", i ? " " : "",
                                 (long long)pgw_job_id(job), pgw_job_priority(job),
                                 pgw_job_max_attempts(job));
    }
    return text;
}

static void session_ends(void)
{
    if (session.kept != NULL) session.bye(session.kept);
    session.kept = NULL;
    session.epoch++;
}

static void forget_batch(void)
{
    pgw_batch_free(batch);
    batch = NULL;
}

/* A new handle, whose first claim has filled the hands. */
static void warm(void)
{
    session_ends();
    functions_give(2);
    TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    WENT("function");
    forget_batch();
}

/* And one that goes the short way, now and for some ms. */
static void hot(void)
{
    warm();
    short_gives(2);
    TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    WENT("owner look short");
    forget_batch();
}

void setUp(void)
{
    const fake_cell yes[] = {F_INT(1)};

    fake_begin();
    memset(&says, 0, sizeof(says));
    memset(&seen, 0, sizeof(seen));
    memset(&session, 0, sizeof(session));
    for (size_t i = 0; i < MOST; i++) verdicts[i] = PGW_AGAIN;
    says.by_function.columns = says.after_complete.columns = 21;
    now_us = 1000000, trip_us = 0;
    batch = NULL;
    fake.on_call = on_call;
    fake.keeps_plans = true;
    opts = (pgw_claim_opts)PGW_CLAIM_OPTS_INIT;
    opts.queues = queues;
    opts.queues_count = 1;
    opts.holder = "me";
    add_row(&says.owner, yes, 1);
    looks(20, "1234", WAY);
    pgw__clock_source_us = fake_clock;
    pgw__pq_call_Stub(the_call);
    pgw__pq_epoch_Stub(the_epoch);
    pgw__pq_sent_us_Stub(the_sent_us);
    pgw__pq_keep_Stub(the_keep);
    pgw__pq_kept_Stub(the_kept);
    pgw__rows_before_Stub(the_rows_before);
    pgw__rows_before_affected_Stub(the_rows_before_affected);
    pgw__rows_count_Stub(the_count);
    pgw__rows_int_Stub(the_int);
}

void tearDown(void)
{
    forget_batch();
    session_ends();
    pgw_set_allocator(NULL);
}

/* ---- the way ---- */

void test_in_the_lane_that_is_worked_off_it_looks_as_far_as_the_next_jobs_are_expected(void)
{
    const int64_t anywhere[] = {INT64_MAX, INT64_MAX, INT64_MAX};
    const int64_t near[] = {INT64_MAX, 12 + 8 * (61 - 12) + 64, INT64_MAX};

    warm();
    short_gives(2);
    TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    TEST_ASSERT_EQUAL_INT64_ARRAY(anywhere, seen.tos, 3);
    TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    TEST_ASSERT_EQUAL_INT64_ARRAY(near, seen.tos, 3);
    functions_give(2);
    short_gives(1);
    TEST_ASSERT_EQUAL(PGW_OK, claim(2)); /* they were not */
    TEST_ASSERT_EQUAL(PGW_OK, claim(2)); /* filled */
    short_gives(2);
    WENT("owner look short short short after function");
    TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    WENT("look short");
    TEST_ASSERT_EQUAL_INT64_ARRAY(anywhere, seen.tos, 3);
}

void test_where_a_suspect_waits_who_has_something_asks_for_no_more(void)
{
    session.suspects = true;
    looks(20, "900", WAY);
    warm();
    short_gives(1);
    TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    WENT("owner look short");
    JOBS("60/0/5");
}

void test_a_claim_of_one_has_a_statement_of_its_own(void)
{
    hot();
    short_gives(1);
    TEST_ASSERT_EQUAL(PGW_OK, claim(1));
    WENT("short");
    TEST_ASSERT_EQUAL(PGW__SQL_JOB_SHORT_CLAIM_ONE, fake.sql);
    JOBS("60/0/5");
}

void test_after_a_claim_that_filled_the_hands_the_next_one_looks_and_goes_short(void)
{
    static const pgw__sql expected[] = {PGW__SQL_JOB_CLAIM, PGW__SQL_HANDLE_OWNER,
                                        PGW__SQL_JOB_SHORT_LOOK, PGW__SQL_JOB_SHORT_CLAIM,
                                        PGW__SQL_JOB_SHORT_CLAIM};

    warm();
    short_gives(2);
    TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    JOBS("60/0/5 61/0/5");
    TEST_ASSERT_EQUAL_INT64_MESSAGE(400, fake.server_time, "from its own column");
    TEST_ASSERT_EQUAL_INT64(now_us, pgw__batch_since_us(batch));
    TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    WENT("owner look short short");
    TEST_ASSERT_EQUAL_INT(5, fake.calls);
    TEST_ASSERT_EQUAL_MEMORY(expected, fake.history, sizeof(expected));
}

void test_what_was_looked_up_is_good_to_the_end_of_its_last_ms(void)
{
    hot();
    now_us += GOOD_US - 1;
    TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    WENT("short");
    now_us++;
    TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    WENT("function");
}

void test_the_owner_is_asked_once_a_session(void)
{
    hot();
    for (int i = 0; i < 3; i++) {
        now_us += GOOD_US;
        TEST_ASSERT_EQUAL(PGW_OK, claim(2));
        TEST_ASSERT_EQUAL(PGW_OK, claim(2));
        WENT("function look short");
    }
    session.epoch++;
    TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    WENT("function owner look short");
}

/* What it was told of lies in the session that is gone. */
void test_nothing_looked_up_is_good_in_another_session(void)
{
    hot();
    session.epoch++;
    TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    WENT("function");
}

void test_a_complete_and_claim_that_filled_the_hands_is_as_good_as_a_claim(void)
{
    const pgw_ref refs[] = {ref(55, 1)};

    functions_give(2);
    short_gives(2);
    TEST_ASSERT_EQUAL(PGW_OK, trade(refs, 1, 2));
    TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    WENT("after owner look short");
}

void test_what_a_short_claim_sends(void)
{
    warm();
    short_gives(3);
    TEST_ASSERT_EQUAL(PGW_OK, claim(3));
    WENT("owner look short");
    TEST_ASSERT_FALSE_MESSAGE(seen.before, "nothing is done");
    TEST_ASSERT_EQUAL(PGW__WRITES | PGW__RELAXED | PGW__INDEXED, seen.flags);
    TEST_ASSERT_EQUAL_INT64(7, seen.id);
    TEST_ASSERT_EQUAL_STRING("q", seen.name);
    TEST_ASSERT_EQUAL_STRING("1234", seen.version);
    MARKS(320, 385, 2884);
    TEST_ASSERT_EQUAL_INT64(3, seen.max);
    TEST_ASSERT_EQUAL_STRING("me", seen.holder);
    TEST_ASSERT_EQUAL_INT64_MESSAGE(30000, seen.lease_ms, "the queue's");
    opts.lease_ms = 5000;
    TEST_ASSERT_EQUAL(PGW_OK, claim(3));
    WENT("short");
    TEST_ASSERT_EQUAL_INT64(5000, seen.lease_ms);
}

void test_what_is_done_goes_before_on_the_same_trip(void)
{
    static const unsigned char first[16] = {0, 0, 0, 0, 0, 0, 6, 0xe1, 0, 0, 0, 0, 0, 0, 0, NONCE};
    pgw_ref refs[] = {ref(55, 1), ref(57, 1), ref(52, 1)};

    refs[1].id = 9;
    hot();
    for (int i = 0; i < 3; i++) accepts(refs[i].id == 9 ? 57 : refs[i].id);
    TEST_ASSERT_EQUAL(PGW_OK, trade(refs, 3, 2));
    WENT("done+short");
    TEST_ASSERT_TRUE(seen.before);
    TEST_ASSERT_EQUAL_MESSAGE(PGW__WRITES | PGW__INDEXED, seen.flags, "what ends a job is durable");
    TEST_ASSERT_EQUAL_INT64(7, seen.done_id);
    TEST_ASSERT_EQUAL_STRING("1234", seen.done_version);
    TEST_ASSERT_EQUAL_INT64(1, seen.lane);
    TEST_ASSERT_EQUAL_INT64(52, seen.first);
    TEST_ASSERT_EQUAL_INT64(57, seen.last);
    TEST_ASSERT_EQUAL(3, seen.ids_count);
    TEST_ASSERT_EQUAL_INT64(55, seen.ids[0]);
    TEST_ASSERT_EQUAL_INT64(9, seen.ids[1]);
    TEST_ASSERT_EQUAL_INT64(52, seen.ids[2]);
    TEST_ASSERT_EQUAL_MESSAGE(3, seen.tokens_count, "one for each, also where they are alike");
    TEST_ASSERT_EQUAL_MEMORY(first, seen.tokens[0], 16);
    VERDICTS(PGW_OK, PGW_OK, PGW_OK);
    JOBS("60/0/5 61/0/5");
    TEST_ASSERT_EQUAL_MESSAGE(PGW_OK, fake.error, "nothing is left, and nothing more is asked");
}

static void done_in(int64_t place, int lane)
{
    const pgw_ref refs[] = {ref(place + 3, lane), ref(place, lane)};

    says.gone.rows = 0;
    accepts(place);
    accepts(place + 3);
    TEST_ASSERT_EQUAL(PGW_OK, trade(refs, 2, 2));
    WENT("done+short");
}

void test_marks_move_up_to_before_what_is_done(void)
{
    hot();
    done_in(40, 1);
    MARKS(39 * 32, 39 * 32 + 1, 2884);
    done_in(12, 1);
    MARKS(11 * 32, 385, 2884);
}

void test_marks_move_no_farther_than_producers_are_through(void)
{
    hot();
    done_in(51, 1);
    MARKS(50 * 32, 50 * 32 + 1, 2884);
    done_in(70, 1);
    MARKS(50 * 32, 50 * 32 + 1, 2884);
    warm();
    looks(20, "1234", "0,7,0,0,320,385,2884");
    TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    WENT("owner look short");
    done_in(70, 1);
    MARKS(320, 385, 2884);
}

void test_marks_never_move_back(void)
{
    hot();
    done_in(5, 1);
    MARKS(320, 385, 2884);
}

void test_marks_of_less_urgent_lanes_stay_where_they_are(void)
{
    looks(20, "1234", "0,7,0,50,320,385,34,67");
    hot();
    done_in(40, 0);
    MARKS(39 * 32, 385, 34, 67);
    done_in(40, 2);
    MARKS(39 * 32, 39 * 32 + 1, 39 * 32 + 2, 67);
    TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    WENT("short");
    MARKS(320, 385, 34, 67);
}

void test_others_marks_count_for_several_jobs_where_producers_are_through(void)
{
    hot();
    TEST_ASSERT_TRUE(seen.shared);
    short_gives(1);
    TEST_ASSERT_EQUAL(PGW_OK, claim(1));
    WENT("short");
    TEST_ASSERT_FALSE(seen.shared);
    looks(20, "1234", "0,7,0,0,320,385,2884");
    hot();
    TEST_ASSERT_FALSE(seen.shared);
}

/* ---- where there is none ---- */

void test_after_a_claim_that_got_less_nobody_looks(void)
{
    functions_give(1);
    short_gives(2);
    for (int i = 0; i < 3; i++) TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    functions_give(0);
    for (int i = 0; i < 2; i++) TEST_ASSERT_EQUAL(PGW_EMPTY, claim(2));
    says.by_function.status = PGW_EDB;
    for (int i = 0; i < 2; i++) TEST_ASSERT_EQUAL(PGW_EDB, claim(2));
    WENT("function function function function function function function");
}

void test_who_does_not_own_the_tables_asks_no_more_in_this_session(void)
{
    warm();
    says.owner.cells[0].i = 0;
    for (int i = 0; i < 4; i++) TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    WENT("owner function function function function");
    session.epoch++;
    says.owner.cells[0].i = 1;
    short_gives(2);
    for (int i = 0; i < 2; i++) TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    WENT("function owner look short");
}

void test_after_four_looks_in_vain_there_is_none_for_a_while(void)
{
    warm();
    says.look.rows = 0;
    for (int i = 0; i < 6; i++) TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    WENT("owner look function look function look function look function function function");
    now_us += 49999;
    TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    WENT("function");
    now_us++;
    for (int i = 0; i < 2; i++) TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    WENT("look function function");
    now_us += 50000;
    looks(20, "1234", WAY);
    short_gives(2);
    TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    WENT("look short");
    /* and all begins anew */
    says.look.rows = 0;
    now_us += GOOD_US;
    for (int i = 0; i < 5; i++) TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    WENT("function look function look function look function look function");
}

void test_in_a_new_session_nobody_rests(void)
{
    warm();
    says.look.rows = 0;
    for (int i = 0; i < 5; i++) TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    WENT("owner look function look function look function look function function");
    session.epoch++;
    for (int i = 0; i < 2; i++) TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    WENT("function owner look function");
}

#define MARKS_20 "32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51"

void test_what_a_look_must_tell(void)
{
    static const struct {
        int64_t left_ms;
        const char *version, *way;
        bool good;
    } told[] = {
        {0, "1", WAY, true},
        {-1, "1", WAY, false}, /* too late */
        {1200, "1", WAY, true},
        {1201, "1", WAY, false}, /* a clock was set back */
        {20, NULL, WAY, false},
        {20, "4294967295", WAY, true},
        {20, "123456789012345", WAY, true},
        {20, "1234567890123456", WAY, false},
        {20, "1", NULL, false},
        {20, "1", "0,7,0,50", false},
        {20, "1", "0,7,0,50,320", true},
        {20, "1", "0,7,0,50," MARKS_20, true},
        {20, "1", "0,7,0,50," MARKS_20 ",52", false},
    };

    for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
        char which[16];

        snprintf(which, sizeof(which), "case %zu", i);
        warm();
        short_gives(2);
        looks(told[i].left_ms, told[i].version, told[i].way);
        TEST_ASSERT_EQUAL_MESSAGE(PGW_OK, claim(2), which);
        TEST_ASSERT_EQUAL_STRING_MESSAGE(told[i].good ? "owner look short" : "owner look function",
                                         seen.log, which);
        if (told[i].good) TEST_ASSERT_EQUAL_STRING_MESSAGE(told[i].version, seen.version, which);
        seen.log[0] = '\0';
    }
}

void test_a_look_whose_answer_was_misread_tells_nothing(void)
{
    hot();
    now_us += GOOD_US;
    TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    says.look.misread = true;
    TEST_ASSERT_EQUAL(PGW_EPROTO, claim(2));
    WENT("function look");
    TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    WENT("function");
}

/* ---- less than was asked for ---- */

void test_the_function_is_asked_for_the_rest_and_all_is_one_batch(void)
{
    warm();
    trip_us = 1000;
    comes(64, 4, 0, 0);
    comes(62, 1, 0, 3);
    comes(61, 4, 8, 0);
    comes(63, 0, 0, 0);
    functions_give(2);
    oom_begin();
    TEST_ASSERT_EQUAL(PGW_OK, claim(7));
    WENT("owner look short after");
    TEST_ASSERT_EQUAL_INT64(3, seen.max);
    TEST_ASSERT_EQUAL(0, seen.ids_count);
    TEST_ASSERT_EQUAL(0, seen.tokens_count);
    TEST_ASSERT_EQUAL_STRING("me", seen.holder);
    TEST_ASSERT_TRUE(seen.lease_is_null);
    JOBS("63/0/5 62/0/3 8/2/5 64/2/5 500/0/10 501/0/10");
    TEST_ASSERT_EQUAL_INT64_MESSAGE(now_us - 2000, pgw__batch_since_us(batch), "the earlier one");
    for (size_t i = 0; i < 6; i++) {
        const pgw_job *job = pgw_batch_job(batch, i);

        TEST_ASSERT_EQUAL_STRING(i < 4 ? "short" : "long", pgw_job_kind(job));
        TEST_ASSERT_EQUAL_STRING("q", pgw_job_queue(job));
        TEST_ASSERT_EQUAL_INT(i < 4 ? 2 : 0, pgw_job_tags_count(job));
        if (i < 4) TEST_ASSERT_EQUAL_STRING("body", pgw_job_body(job, NULL));
        if (i < 4) TEST_ASSERT_EQUAL_STRING("yy", pgw_job_tag(job, 1));
    }
    TEST_ASSERT_EQUAL_UINT64(61 * 32 + 4, pgw_job_ref(pgw_batch_job(batch, 2)).token.number);
    TEST_ASSERT_NULL(pgw_batch_job(batch, 6));
    forget_batch();
    oom_end();
}

void test_the_function_gets_the_callers_lease_for_the_rest(void)
{
    hot();
    opts.lease_ms = 5000;
    TEST_ASSERT_EQUAL(PGW_OK, claim(4));
    WENT("short after");
    TEST_ASSERT_FALSE(seen.lease_is_null);
    TEST_ASSERT_EQUAL_INT64(5000, seen.lease_ms);
    TEST_ASSERT_EQUAL_INT64(2, seen.max);
}

void test_what_the_short_way_has_not_the_function_may_have_alone(void)
{
    hot();
    short_gives(0);
    TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    WENT("short after");
    JOBS("500/0/10 501/0/10");
    TEST_ASSERT_EQUAL_INT64(2, seen.max);
}

void test_when_neither_has_anything_it_is_empty(void)
{
    hot();
    short_gives(0);
    functions_give(0);
    TEST_ASSERT_EQUAL(PGW_EMPTY, claim(2));
    WENT("short after");
    TEST_ASSERT_NULL(batch);
    TEST_ASSERT_EQUAL(PGW_EMPTY, claim(2));
    WENT("function");
}

void test_after_less_another_look_is_due(void)
{
    hot();
    short_gives(1);
    functions_give(1);
    TEST_ASSERT_EQUAL(PGW_OK, claim(2)); /* the function has filled the hands */
    WENT("short after");
    functions_give(0);
    TEST_ASSERT_EQUAL(PGW_OK, claim(2)); /* nobody has */
    WENT("look short after");
    JOBS("60/0/5");
    TEST_ASSERT_EQUAL(PGW_EMPTY, claim(2));
    WENT("function");
}

/* ---- what is not accepted ---- */

void test_what_is_not_accepted_goes_to_the_function_that_claims_the_rest(void)
{
    const pgw_ref refs[] = {ref(40, 1), ref(41, 1), ref(42, 1), ref(43, 1)};

    hot();
    accepts(43);
    accepts(41);
    says.after_complete.rows = 0;
    refuses(2, "gone");
    comes_by(&says.after_complete, 500, 1);
    TEST_ASSERT_EQUAL(PGW_OK, trade(refs, 4, 3));
    WENT("done+short after");
    TEST_ASSERT_EQUAL(2, seen.ids_count);
    TEST_ASSERT_EQUAL(2, seen.tokens_count);
    TEST_ASSERT_EQUAL_INT64(40, seen.ids[0]);
    TEST_ASSERT_EQUAL_INT64(42, seen.ids[1]);
    TEST_ASSERT_EQUAL_HEX8(42 * 32 / 256, seen.tokens[1][6]);
    TEST_ASSERT_EQUAL_HEX8((42 * 32 + 1) & 255, seen.tokens[1][7]);
    TEST_ASSERT_EQUAL_INT64(1, seen.max);
    TEST_ASSERT_EQUAL(PGW__WRITES, seen.flags);
    VERDICTS(PGW_OK, PGW_OK, PGW_ENOTFOUND, PGW_OK, PGW_AGAIN);
    JOBS("60/0/5 61/0/5 500/0/10");
}

void test_when_the_hands_are_full_it_is_completed_alone(void)
{
    static const fake_cell refused[] = {F_INT(1), F_TEXT("stale")};
    const pgw_ref refs[] = {ref(40, 1), ref(41, 1), ref(42, 1)};

    hot();
    accepts(42);
    add_row(&says.complete, refused, 2);
    TEST_ASSERT_EQUAL(PGW_OK, trade(refs, 3, 2));
    WENT("done+short complete");
    TEST_ASSERT_EQUAL(2, seen.ids_count);
    TEST_ASSERT_EQUAL_INT64(40, seen.ids[0]);
    TEST_ASSERT_EQUAL_INT64(41, seen.ids[1]);
    VERDICTS(PGW_ELEASE, PGW_OK, PGW_OK, PGW_AGAIN);
    JOBS("60/0/5 61/0/5");
    says.gone.rows = 0; /* the way is as good as before */
    accepts(40);
    TEST_ASSERT_EQUAL(PGW_OK, trade(refs, 1, 2));
    WENT("done+short");
}

void test_of_none_that_is_accepted_the_function_hears_all(void)
{
    const pgw_ref refs[] = {ref(40, 1), ref(41, 1)};

    for (int i = 0; i < 2; i++) {
        says.mute = i > 0; /* no rows at all, or none that are known */
        hot();
        short_gives(0);
        says.gone.rows = 0;
        accepts(99);
        TEST_ASSERT_EQUAL(PGW_OK, trade(refs, 2, 2));
        WENT("done+short after");
        TEST_ASSERT_EQUAL(2, seen.ids_count);
        TEST_ASSERT_EQUAL_INT64(2, seen.max);
        VERDICTS(PGW_OK, PGW_OK);
        JOBS("500/0/10 501/0/10");
    }
}

void test_verdicts_need_not_be_asked_for(void)
{
    const pgw_ref refs[] = {ref(40, 1), ref(41, 1)};

    hot();
    accepts(40);
    for (int max = 2; max < 4; max++) {
        opts.max = max;
        TEST_ASSERT_EQUAL(PGW_OK, pgw_complete_and_claim(FAKE_H, NULL, refs, 2, &batch, &opts));
        WENT(max == 2 ? "done+short complete" : "done+short after");
        forget_batch();
    }
}

/* ---- failures ---- */

static const pgw_status undone[] = {PGW_EDB,  PGW_EPERM,  PGW_ESCHEMA,
                                    PGW_ETXN, PGW_ERETRY, PGW_ELOCKED};
static const pgw_status open_end[] = {PGW_EUNKNOWN,  PGW_ECONN,  PGW_ETIMEDOUT,
                                      PGW_ECANCELED, PGW_ENOMEM, PGW_EPROTO};

static bool passes(pgw_status st)
{
    return st == PGW_ERETRY || st == PGW_ELOCKED;
}

void test_after_an_error_that_undoes_all_the_function_is_asked_for_all(void)
{
    const pgw_ref refs[] = {ref(40, 1), ref(41, 1)};

    for (size_t i = 0; i < sizeof(undone) / sizeof(undone[0]); i++) {
        const char *which = pgw_status_name(undone[i]);

        hot();
        says.jobs.status = undone[i];
        accepts(40);
        TEST_ASSERT_EQUAL_MESSAGE(PGW_OK, trade(refs, 2, 2), which);
        WENT("done+short after");
        TEST_ASSERT_EQUAL(2, seen.ids_count);
        TEST_ASSERT_EQUAL_INT64(2, seen.max);
        VERDICTS(PGW_OK, PGW_OK);
        JOBS("500/0/10 501/0/10");
        says.jobs.status = PGW_OK;
        TEST_ASSERT_EQUAL_MESSAGE(PGW_OK, claim(2), which);
        TEST_ASSERT_EQUAL_STRING_MESSAGE(passes(undone[i]) ? "look short" : "function", seen.log,
                                         which);
        TEST_ASSERT_EQUAL_MESSAGE(PGW_OK, claim(2), which);
        TEST_ASSERT_EQUAL_STRING_MESSAGE(
            passes(undone[i]) ? "look short short" : "function function", seen.log, which);
        seen.log[0] = '\0';
    }
}

void test_what_was_refused_in_one_session_is_tried_again_in_the_next(void)
{
    hot();
    says.jobs.status = PGW_EDB;
    TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    WENT("short function");
    says.jobs.status = PGW_OK;
    session.epoch++;
    for (int i = 0; i < 2; i++) TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    WENT("function owner look short");
}

void test_an_error_of_open_outcome_is_the_claims(void)
{
    const pgw_ref refs[] = {ref(40, 1), ref(41, 1)};

    for (size_t i = 0; i < sizeof(open_end) / sizeof(open_end[0]); i++) {
        const char *which = pgw_status_name(open_end[i]);

        hot();
        says.jobs.status = open_end[i];
        TEST_ASSERT_EQUAL_MESSAGE(open_end[i], trade(refs, 2, 2), which);
        TEST_ASSERT_EQUAL_STRING_MESSAGE("done+short", seen.log, which);
        TEST_ASSERT_EQUAL_MESSAGE(open_end[i], fake.error, which);
        TEST_ASSERT_NULL(batch);
        VERDICTS(PGW_EUNKNOWN, PGW_EUNKNOWN);
        says.jobs.status = PGW_OK;
        TEST_ASSERT_EQUAL_MESSAGE(PGW_OK, claim(2), which);
        TEST_ASSERT_EQUAL_STRING_MESSAGE("done+short function", seen.log, which);
        seen.log[0] = '\0';
    }
}

void test_an_error_of_the_look_is_taken_like_one_of_the_claim(void)
{
    for (size_t i = 0; i < sizeof(undone) / sizeof(undone[0]); i++) {
        warm();
        short_gives(2);
        says.look.status = undone[i];
        TEST_ASSERT_EQUAL_MESSAGE(PGW_OK, claim(2), pgw_status_name(undone[i]));
        WENT("owner look function");
        says.look.status = PGW_OK;
        TEST_ASSERT_EQUAL(PGW_OK, claim(2));
        WENT(passes(undone[i]) ? "look short" : "function");
    }
    for (size_t i = 0; i < sizeof(open_end) / sizeof(open_end[0]); i++) {
        warm();
        says.look.status = open_end[i];
        TEST_ASSERT_EQUAL(open_end[i], claim(2));
        WENT("owner look");
        TEST_ASSERT_NULL(batch);
        says.look.status = PGW_OK;
    }
}

void test_where_it_is_not_known_who_owns_the_tables_the_function_is_asked(void)
{
    warm();
    says.owner.status = PGW_EDB;
    for (int i = 0; i < 2; i++) TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    WENT("owner function function");
    warm();
    says.owner.status = PGW_ECONN;
    TEST_ASSERT_EQUAL(PGW_ECONN, claim(2));
    WENT("owner");
    TEST_ASSERT_NULL(batch);
}

void test_a_short_claim_that_was_misread_is_not_handed_over(void)
{
    const pgw_ref refs[] = {ref(40, 1)};

    hot();
    says.jobs.misread = true;
    accepts(40);
    oom_begin();
    TEST_ASSERT_EQUAL(PGW_EPROTO, trade(refs, 1, 2));
    TEST_ASSERT_NULL(batch);
    oom_end();
    WENT("done+short");
    VERDICTS(PGW_EUNKNOWN);
}

void test_more_jobs_than_asked_for_are_not_believed_on_the_short_way_either(void)
{
    hot();
    short_gives(3);
    oom_begin();
    TEST_ASSERT_EQUAL(PGW_EPROTO, claim(2));
    TEST_ASSERT_NULL(batch);
    oom_end();
    ASSERT_SAYS("more jobs than were asked for");
    WENT("short");
}

/* ---- what stays the function's ---- */

static void claims_by(const char *expected, const pgw_ref *refs, size_t n, int max)
{
    TEST_ASSERT_EQUAL(PGW_OK, n > 0 ? trade(refs, n, max) : claim(max));
    WENT(expected);
}

void test_large_claims_never_go_short(void)
{
    pgw_ref refs[33];

    for (int i = 0; i < 33; i++) refs[i] = ref(40 + i, 1);
    hot();
    claims_by("function", NULL, 0, 33);
    claims_by("after", refs, 33, 2);
    hot();
    short_gives(32);
    for (int i = 0; i < 32; i++) accepts(40 + i);
    claims_by("done+short", refs, 32, 32);
    TEST_ASSERT_EQUAL(32, pgw_batch_count(batch));
    TEST_ASSERT_EQUAL(32, seen.ids_count);
    TEST_ASSERT_EQUAL_INT(PGW_OK, verdicts[31]);
}

void test_a_large_claim_that_fills_the_hands_is_no_reason_to_look(void)
{
    functions_give(33);
    TEST_ASSERT_EQUAL(PGW_OK, claim(33));
    TEST_ASSERT_NULL(session.kept);
    functions_give(1);
    TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    WENT("function function function");
}

void test_claims_of_several_queues_never_go_short(void)
{
    hot();
    opts.queues_count = 2;
    claims_by("function", NULL, 0, 2);
    claims_by("function", NULL, 0, 2);
    opts.queues_count = 1;
    claims_by("short", NULL, 0, 2);
}

void test_done_jobs_that_do_not_lie_together_never_go_short(void)
{
    const struct {
        pgw_ref refs[2];
        size_t n;
        bool together;
    } done[] = {
        {{ref(40, 1), ref(41, 0)}, 2, false},
        {{ref(40, 31), ref(41, 31)}, 2, false}, /* a pack */
        {{ref(40, 20)}, 1, false},
        {{ref(40, 19)}, 1, true},
        {{ref(1040, 1), ref(40, 1)}, 2, false},
        {{ref(40, 1), ref(1039, 1)}, 2, true},
    };

    for (size_t i = 0; i < sizeof(done) / sizeof(done[0]); i++) {
        char which[16];

        snprintf(which, sizeof(which), "case %zu", i);
        hot();
        says.gone.rows = 0;
        for (size_t k = 0; k < done[i].n; k++) accepts(done[i].refs[k].id);
        TEST_ASSERT_EQUAL_MESSAGE(PGW_OK, trade(done[i].refs, done[i].n, 2), which);
        TEST_ASSERT_EQUAL_STRING_MESSAGE(done[i].together ? "done+short" : "after", seen.log,
                                         which);
        seen.log[0] = '\0';
    }
}

/* Only a place comes back: of which of them would not be known. */
void test_done_jobs_under_one_token_never_go_short(void)
{
    const pgw_ref refs[] = {ref(40, 1), ref(41, 1), {42, ref(40, 1).token}};

    hot();
    accepts(40);
    accepts(41);
    says.after_complete.rows = 0;
    refuses(3, "stale");
    TEST_ASSERT_EQUAL(PGW_EMPTY, trade(refs, 3, 2));
    WENT("after");
    VERDICTS(PGW_OK, PGW_OK, PGW_ELEASE);
}

void test_another_queue_goes_by_the_function_until_it_was_looked_at(void)
{
    hot();
    opts.queues = queues + 1;
    claims_by("function", NULL, 0, 2);
    claims_by("look short", NULL, 0, 2);
    TEST_ASSERT_EQUAL_STRING("other", seen.name);
    claims_by("short", NULL, 0, 2);
    opts.queues = queues;
    claims_by("function", NULL, 0, 2);
    claims_by("look short", NULL, 0, 2);
    TEST_ASSERT_EQUAL_STRING("q", seen.name);
}

void test_a_session_that_keeps_no_plans_never_goes_short(void)
{
    hot();
    fake.keeps_plans = false;
    claims_by("function", NULL, 0, 2);
    session_ends();
    claims_by("function", NULL, 0, 2);
    TEST_ASSERT_NULL(session.kept);
    claims_by("function", NULL, 0, 2);
}

/* ---- halfway ---- */

void test_what_is_in_the_hands_stays_whatever_becomes_of_the_rest(void)
{
    static const pgw_status fails[] = {PGW_EDB, PGW_ECONN, PGW_EUNKNOWN, PGW_ERETRY};
    const pgw_ref refs[] = {ref(40, 1), ref(41, 1)};

    for (size_t i = 0; i < sizeof(fails) / sizeof(fails[0]); i++) {
        for (int max = 2; max < 4; max++) {
            hot();
            says.gone.rows = 0;
            accepts(41);
            says.after_complete.status = says.complete.status = fails[i];
            TEST_ASSERT_EQUAL(PGW_OK, trade(refs, 2, max));
            WENT(max == 2 ? "done+short complete" : "done+short after");
            VERDICTS(PGW_EUNKNOWN, PGW_OK);
            JOBS("60/0/5 61/0/5");
            says.after_complete.status = says.complete.status = PGW_OK;
        }
    }
}

void test_with_empty_hands_it_fails_and_verdicts_tell_what_is_done(void)
{
    const pgw_ref refs[] = {ref(40, 1), ref(41, 1)};

    hot();
    short_gives(0);
    accepts(40);
    says.after_complete.status = PGW_ERETRY;
    TEST_ASSERT_EQUAL(PGW_ERETRY, trade(refs, 2, 2));
    WENT("done+short after");
    TEST_ASSERT_NULL(batch);
    VERDICTS(PGW_OK, PGW_EUNKNOWN);
    TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    WENT("function");
}

/* ---- memory ---- */

void test_without_memory_for_what_it_keeps_claims_go_by_the_function(void)
{
    functions_give(2);
    short_gives(2);
    oom_begin();
    oom_fail(2); /* after the batch */
    TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    TEST_ASSERT_TRUE(oom_failed());
    TEST_ASSERT_NULL(session.kept);
    TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    TEST_ASSERT_NOT_NULL(session.kept);
    TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    WENT("function function owner look short");
    forget_batch();
    session_ends();
    oom_end();
}

/* The answer comes when both are committed. */
void test_verdicts_of_the_short_way_stand_though_there_is_no_memory_for_its_jobs(void)
{
    const pgw_ref refs[] = {ref(40, 1), ref(41, 1)};

    hot();
    accepts(41);
    oom_begin();
    oom_fail(2); /* after the columns of what is sent */
    TEST_ASSERT_EQUAL(PGW_ENOMEM, trade(refs, 2, 2));
    TEST_ASSERT_TRUE(oom_failed());
    TEST_ASSERT_NULL(batch);
    oom_end();
    WENT("done+short");
    VERDICTS(PGW_EUNKNOWN, PGW_OK);
    opts.max = 2;
    oom_begin();
    oom_fail(2);
    TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    forget_batch();
    oom_end();
    WENT("function");
}

void test_without_memory_for_the_jobs_verdicts_need_not_be_asked_for(void)
{
    const pgw_ref refs[] = {ref(40, 1)};

    hot();
    accepts(40);
    oom_begin();
    oom_fail(2);
    TEST_ASSERT_EQUAL(PGW_ENOMEM, pgw_complete_and_claim(FAKE_H, NULL, refs, 1, &batch, &opts));
    TEST_ASSERT_NULL(batch);
    oom_end();
    WENT("done+short");
}

void test_after_less_the_way_is_good_no_more_though_the_function_could_not_be_asked(void)
{
    hot();
    short_gives(1);
    oom_begin();
    oom_fail(2); /* after the jobs, the columns of the rest */
    TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    TEST_ASSERT_TRUE(oom_failed());
    JOBS("60/0/5");
    TEST_ASSERT_EQUAL(PGW_OK, claim(2));
    WENT("short function");
    forget_batch();
    oom_end();
}

void test_every_failed_allocation_leaves_nothing_behind(void)
{
    const pgw_ref refs[] = {ref(40, 1), ref(41, 1)};
    pgw_status st = PGW_ENOMEM;
    int n = 0;

    functions_give(1);
    do {
        hot();
        short_gives(1);
        functions_give(1);
        says.gone.rows = 0;
        accepts(40);
        oom_begin();
        oom_fail(++n);
        st = trade(refs, 2, 2);
        if (!oom_failed()) {
            WENT("done+short after");
            VERDICTS(PGW_OK, PGW_OK);
            JOBS("60/0/5 500/0/10");
        } else if (n < 3 || n > 4) { /* 1 the columns, 2 the jobs, 5 the join */
            TEST_ASSERT_EQUAL(PGW_ENOMEM, st);
            TEST_ASSERT_NULL(batch);
            if (n == 5) VERDICTS(PGW_OK, PGW_OK);
        } else { /* 3 the columns of the rest, 4 its jobs */
            TEST_ASSERT_EQUAL(PGW_OK, st);
            JOBS("60/0/5");
            TEST_ASSERT_EQUAL_INT(PGW_OK, verdicts[0]);
        }
        forget_batch();
        oom_end();
        seen.log[0] = '\0';
        session_ends();
        batch = NULL;
    } while (n < 6);
    TEST_ASSERT_EQUAL(PGW_OK, st);
}
