/* The owner's short way of small claims, by the verbs: that it is gone, that all comes out as by
 * the function, and where it is not gone. Which way it was is read in the log. What a session knows
 * is good for some ms; where a test needs it for longer, it is made to last. */
#include "unity.h"
#include "pgw_all.h"
#include "itpgw.h"
#include "oom.h"
#include "pgtemp.h"
#include "sqlkit.h"
#include "wire.h"

#include <poll.h>
#include <pthread.h>

/* struct short_way */
#define pgw__short_note  it_short_note
#define pgw__short_claim it_short_claim
#include "../../src/job_short.c"
#undef pgw__short_note
#undef pgw__short_claim

enum { PATIENCE_MS = 30000, MANY = 10, LEASE_MS = 600000 };

#define NOW_MS "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"

/* A handle, what it has said, and what it has in its hands. */
typedef struct session {
    pgw *h;
    char said[1 << 16];
    pgw_batch *batch;
    pgw_ref held[PGW__SHORT_JOBS * 2];
    pgw_status verdicts[PGW__SHORT_JOBS * 2];
    int count;
} session;

static session a, b;
static PGconn *watch;
static wire *between;

/* ---- sessions ---- */

static void hear(void *arg, pgw_level level, const char *room, const char *message)
{
    session *s = arg;
    const size_t length = strlen(s->said);

    (void)level;
    if (strcmp(room, "pq") == 0)
        snprintf(s->said + length, sizeof(s->said) - length, "%s\n", message);
}

static pgw_conf *conf_of(session *s, const char *name, const char *value)
{
    pgw_conf *conf = it_conf((const char *const[]){"schema.check", "off", name, value, NULL});

    pgw_conf_set_log(conf, PGW_DEBUG, hear, s);
    return conf;
}

static void open_with(session *s, const char *name, const char *value)
{
    pgw_conf *conf = conf_of(s, name, value);

    ASSERT_ST(PGW_OK, pgw_open(&s->h, conf), s->h);
    pgw_conf_free(conf);
}

static void close_session(session *s)
{
    static const session none;

    pgw_batch_free(s->batch);
    pgw_close(s->h);
    *s = none;
}

static void drop_role(void)
{
    pgtemp_exec("DO $$ BEGIN IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'pgw_it_short') THEN"
                " DROP OWNED BY pgw_it_short; DROP ROLE pgw_it_short; END IF; END $$");
}

void setUp(void)
{
    kit_begin();
    watch = kit_open();
    kit_do(watch, "SELECT pgwork.queue_create('q', lease_ms => %d)", LEASE_MS);
    open_with(&a, NULL, NULL);
}

void tearDown(void)
{
    pgw_set_allocator(NULL);
    close_session(&a);
    close_session(&b);
    wire_close(between);
    between = NULL;
    kit_end();
    pgtemp_exec("ALTER TABLE pgwork.live_job OWNER TO current_user;"
                "ALTER TABLE pgwork.live_job RESET (autovacuum_enabled);"
                "GRANT ALL ON ALL TABLES IN SCHEMA pgwork TO current_user;"
                "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I RESET ALL', current_database());"
                " END $$");
    drop_role();
}

/* ---- which way ---- */

static bool begins(const char *line, const char *with)
{
    return strncmp(line, with, strlen(with)) == 0;
}

/* What was sent since the last time, in order: "short" and "function" are claims. */
static const char *went(session *s)
{
    static const struct {
        const char *statement, *way;
    } ways[] = {{"job_short_claim: ", "short"},
                {"job_short_claim_one: ", "short"},
                {"job_claim: ", "function"},
                {"job_complete_and_claim: ", "function"},
                {"job_complete: ", "complete"}};
    static char text[1000];

    *text = '\0';
    for (const char *line = s->said; *line != '\0'; line += strcspn(line, "\n") + 1)
        for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
            const size_t length = strlen(text);

            if (!begins(line, ways[i].statement)) continue;
            line += strlen(ways[i].statement);
            if (!begins(line, "PGW_")) continue; /* said of it meanwhile */
            snprintf(
                text + length, sizeof(text) - length, "%s%s%s", length > 0 ? ", " : "", ways[i].way,
                begins(line, "PGW_OK") || begins(line, "PGW_EMPTY") || begins(line, "PGW_ELEASE")
                    ? ""
                    : " failed");
        }
    *s->said = '\0';
    return text;
}

#define WENT(s, expected) TEST_ASSERT_EQUAL_STRING(expected, went(s))

static const char *nothing_short(session *s)
{
    const char *found = strstr(s->said, "job_short");

    return found == NULL ? "" : found;
}

static short_way *knows(const session *s)
{
    return pgw__pq_kept(s->h, PGW__KEPT_SHORT);
}

static void make_last(session *s)
{
    knows(s)->until_us = pgw__clock_us() + INT64_C(3600000000);
}

/* ---- jobs ---- */

static void fill_at(int priority, int n)
{
    kit_do(watch,
           "SELECT count(*) FROM pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[%d]),"
           " priorities => '{%d}')",
           n, priority);
}

static void fill(int n)
{
    fill_at(5, n);
}

static const pgw_job *job(const session *s, int i)
{
    return pgw_batch_job(s->batch, (size_t)i);
}

static pgw_claim_opts claim_opts(int n)
{
    static const char *const queues[] = {"q"};
    pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;

    o.queues = queues, o.queues_count = 1, o.max = n, o.holder = "it";
    return o;
}

static void hold(session *s, pgw_batch *batch)
{
    pgw_batch_free(s->batch);
    s->batch = batch;
    s->count = (int)pgw_batch_count(batch);
    for (int i = 0; i < s->count; i++) s->held[i] = pgw_job_ref(job(s, i));
}

/* Completes all that it holds, and claims n. */
static pgw_status trade(session *s, int n)
{
    const pgw_claim_opts o = claim_opts(n);
    pgw_batch *batch = NULL;
    const pgw_status st =
        pgw_complete_and_claim(s->h, s->verdicts, s->held, (size_t)s->count, &batch, &o);

    if (st >= 0) hold(s, batch);
    return st;
}

/* Claims n more. */
static pgw_status take(session *s, int n)
{
    const pgw_claim_opts o = claim_opts(n);
    pgw_batch *batch = NULL;
    const pgw_status st = pgw_claim(s->h, &batch, &o);

    if (st >= 0) hold(s, batch);
    return st;
}

#define TRADE(s, expected, n)                        \
    do {                                             \
        ASSERT_ST(PGW_OK, trade(s, n), (s)->h);      \
        TEST_ASSERT_EQUAL_INT(expected, (s)->count); \
    } while (0)

static void check_verdicts(const session *s, int n)
{
    for (int i = 0; i < n; i++) TEST_ASSERT_EQUAL_STRING("PGW_OK", pgw_status_name(s->verdicts[i]));
}

/* What its last claim by the function has left in the session is good for a second from now on. */
static void refresh(session *s)
{
    kit_set_short(s->h->conn, "CASE WHEN s[2] > 0 THEN ARRAY[" NOW_MS " + 1100] || s[2:] END");
}

/* Until it goes the short way; then it holds n jobs, and there are no others. What it knows lasts.
 */
static void warm(session *s, int n)
{
    for (long long end = kit_ms() + PATIENCE_MS; kit_ms() < end; kit_sleep_ms(2)) {
        fill(n);
        ASSERT_ST(PGW_OK, trade(s, n), s->h);
        if (strcmp(went(s), "short") == 0 && s->count == n) {
            make_last(s);
            return;
        }
        refresh(s);
    }
    TEST_FAIL_MESSAGE("never");
}

static void second_session(int n)
{
    open_with(&b, NULL, NULL);
    warm(&b, n);
}

static const char *token_of(const pgw_ref *ref)
{
    static char texts[4][PGW_TOKEN_TEXT];
    static int next;

    return pgw_token_format(ref->token, texts[next++ % 4]);
}

static void expire(const pgw_ref *ref)
{
    kit_do(watch,
           "UPDATE pgwork.live_job SET lease_until = now() - interval '1 s' WHERE token = '%s'",
           token_of(ref));
}

static void reap(int returned)
{
    TEST_ASSERT_EQUAL_INT64(returned, kit_number(watch, "SELECT returned FROM pgwork.reap('q')"));
}

static void check_places(int ready, int leased)
{
    TEST_ASSERT_EQUAL_STRING(kit_text(watch, "SELECT '%d %d 0 0 0'", ready, leased),
                             kit_places(watch, "q"));
}

static void check_none_of(const session *s, const session *others)
{
    for (int i = 0; i < s->count; i++)
        for (int j = 0; j < others->count; j++)
            TEST_ASSERT_TRUE(s->held[i].id != others->held[j].id);
}

/* ---- one after another ---- */

/* Nothing is made to last here. */
TEST_CASE(1, true)
TEST_CASE(10, true)
TEST_CASE(1, false)
TEST_CASE(10, false)
void test_claims_one_upon_another_go_the_short_way(int n, bool trades)
{
    enum { ROUNDS = 20 };
    int64_t last = 0;
    bool short_too = false;
    long long end = kit_ms() + PATIENCE_MS;

    for (int i = 0; i < ROUNDS || !(short_too || kit_ms() > end); i++) {
        if (i % ROUNDS == 0) fill(ROUNDS * n);
        if (trades) {
            TRADE(&a, n, n);
            check_verdicts(&a, i == 0 ? 0 : n);
        } else {
            ASSERT_ST(PGW_OK, take(&a, n), a.h);
            TEST_ASSERT_EQUAL_INT(n, a.count);
        }
        for (int k = 0; k < n; k++) {
            TEST_ASSERT_GREATER_THAN_INT64(last, a.held[k].id);
            TEST_ASSERT_EQUAL_INT(1, pgw_job_attempt(job(&a, k)));
            last = a.held[k].id;
        }
        short_too |= strcmp(went(&a), "short") == 0;
    }
    TEST_ASSERT_TRUE(short_too);
    if (trades)
        TEST_ASSERT_EQUAL_INT64(n, kit_number(watch, "SELECT count(*) FROM pgwork.live_job"
                                                     " WHERE token IS NOT NULL"));
}

TEST_CASE(1)
TEST_CASE(10)
void test_a_job_comes_as_it_was_sent(int n)
{
    static const char *const tags[] = {"plain", "with \"quotes\", commas and \\"};
    static const char bytes[] = {0, 1, '\n', (char)0xff};
    pgw_new plain = PGW_NEW_INIT, own;
    size_t size;
    int64_t id;

    warm(&a, n);
    plain.priority = 5;
    own = plain;
    own.payload = "{\"a\":[1,{\"b\":\"\xc3\xa9\"}]}", own.kind = "resize";
    own.body = bytes, own.body_size = sizeof(bytes);
    own.max_attempts = 4, own.lease_ms = 60000;
    own.tags = tags, own.tags_count = 2;
    ASSERT_ST(PGW_OK, pgw_enqueue(a.h, &id, "q", &own, NULL), a.h);
    for (int i = 1; i < n; i++) ASSERT_ST(PGW_OK, pgw_enqueue(a.h, NULL, "q", &plain, NULL), a.h);
    if (n == 1) fill(1);
    TRADE(&a, n, n);
    WENT(&a, "short");
    check_verdicts(&a, n);
    TEST_ASSERT_EQUAL_INT64(id, pgw_job_id(job(&a, 0)));
    TEST_ASSERT_EQUAL_STRING("q", pgw_job_queue(job(&a, 0)));
    TEST_ASSERT_EQUAL_STRING("{\"a\": [1, {\"b\": \"\xc3\xa9\"}]}", pgw_job_payload(job(&a, 0)));
    TEST_ASSERT_EQUAL_STRING("resize", pgw_job_kind(job(&a, 0)));
    TEST_ASSERT_EQUAL_MEMORY(bytes, pgw_job_body(job(&a, 0), &size), sizeof(bytes));
    TEST_ASSERT_EQUAL(sizeof(bytes), size);
    TEST_ASSERT_EQUAL(2, pgw_job_tags_count(job(&a, 0)));
    TEST_ASSERT_EQUAL_STRING(tags[1], pgw_job_tag(job(&a, 0), 1));
    TEST_ASSERT_EQUAL_INT(4, pgw_job_max_attempts(job(&a, 0)));
    TEST_ASSERT_INT64_WITHIN(1000000, 60000000,
                             pgw_job_lease_until_us(job(&a, 0)) - pgw_server_time_us(a.h));
    if (n == 1) TRADE(&a, 1, 1);
    for (int i = n > 1; i < n; i++) {
        TEST_ASSERT_EQUAL_INT(10, pgw_job_max_attempts(job(&a, i)));
        TEST_ASSERT_INT64_WITHIN(1000000, LEASE_MS * INT64_C(1000),
                                 pgw_job_lease_until_us(job(&a, i)) - pgw_server_time_us(a.h));
        TEST_ASSERT_EQUAL_INT(5, pgw_job_priority(job(&a, i)));
        TEST_ASSERT_EQUAL_INT(1, pgw_job_attempt(job(&a, i)));
        TEST_ASSERT_LESS_OR_EQUAL_INT64(pgw_server_time_us(a.h), pgw_job_created_us(job(&a, i)));
        TEST_ASSERT_NULL(pgw_job_body(job(&a, i), &size));
        TEST_ASSERT_EQUAL(0, pgw_job_tags_count(job(&a, i)));
        TEST_ASSERT_EQUAL_STRING("", pgw_job_kind(job(&a, i)));
    }
    WENT(&a, n == 1 ? "short" : "");
    TEST_ASSERT_EQUAL_INT64(
        n, kit_number(watch, "SELECT count(*) FROM pgwork.live_job WHERE holder = 'it' AND attempt"
                             " = 1 AND lease_until > clock_timestamp()"));
    for (int i = 0; i < n; i++)
        TEST_ASSERT_EQUAL_INT64(
            pgw_job_lease_until_us(job(&a, i)),
            kit_number(watch,
                       "SELECT (extract(epoch FROM lease_until) * 1000000)::bigint FROM"
                       " pgwork.live_job WHERE token = '%s'",
                       token_of(&a.held[i])));
}

void test_the_claims_own_lease_goes_before_the_queues(void)
{
    pgw_claim_opts o = claim_opts(1);
    pgw_batch *batch;

    warm(&a, 1);
    fill(1);
    o.lease_ms = 5000;
    ASSERT_ST(PGW_OK, pgw_complete_and_claim(a.h, NULL, a.held, 1, &batch, &o), a.h);
    hold(&a, batch);
    WENT(&a, "short");
    TEST_ASSERT_INT64_WITHIN(1000000, 5000000,
                             pgw_job_lease_until_us(job(&a, 0)) - pgw_server_time_us(a.h));
    check_places(0, 1);
}

void test_priorities_go_before_places(void)
{
    static const int sent[] = {9, 5, 0, 5, 9, 0}, come[] = {2, 5, 1, 3, 0, 4};
    int64_t ids[6];

    for (int i = 0; i < 10; i += 1) fill_at(i, 1); /* so that they are known */
    warm(&a, 10);
    while (trade(&a, 10) == PGW_OK) continue; /* none is left of those */
    warm(&a, 6);
    for (int i = 0; i < 6; i++)
        ids[i] = kit_number(watch, "SELECT id FROM pgwork.enqueue('q', priority => %d)", sent[i]);
    TRADE(&a, 6, 6);
    WENT(&a, "short");
    for (int i = 0; i < 6; i++) {
        TEST_ASSERT_EQUAL_INT64(ids[come[i]], a.held[i].id);
        TEST_ASSERT_EQUAL_INT(sent[come[i]], pgw_job_priority(job(&a, i)));
    }
    fill(6);
    TRADE(&a, 6, 6); /* those were of several lanes */
    WENT(&a, "function");
    check_verdicts(&a, 6);
}

/* They have new places, and keep their ids. */
TEST_CASE(1)
TEST_CASE(10)
void test_what_was_handed_back_comes_first_and_by_its_id(int n)
{
    pgw_ref back[MANY];

    warm(&a, n);
    second_session(n);
    memcpy(back, b.held, sizeof(back));
    ASSERT_ST(PGW_OK, pgw_release(b.h, NULL, "q", back, (size_t)n), b.h);
    fill(n);
    make_last(&a);
    TRADE(&a, n, n);
    WENT(&a, "short");
    check_verdicts(&a, n);
    for (int i = 0; i < n; i++) {
        TEST_ASSERT_EQUAL_INT64(back[i].id, a.held[i].id);
        TEST_ASSERT_TRUE((uint64_t)back[i].id != a.held[i].token.number >> 5);
        TEST_ASSERT_EQUAL_INT(1, pgw_job_attempt(job(&a, i)));
        TEST_ASSERT_EQUAL_INT(5, pgw_job_priority(job(&a, i)));
    }
    TRADE(&a, n, n);
    WENT(&a, "short");
    check_verdicts(&a, n);
    check_places(0, n);
}

void test_waiting_for_a_job_does_not_end_it(void)
{
    pgw_claim_opts o = claim_opts(1);
    pgw_batch *batch;

    warm(&a, 1);
    TEST_ASSERT_EQUAL(PGW_EMPTY, trade(&a, 1));
    o.wait_ms = 50;
    ASSERT_ST(PGW_EMPTY, pgw_claim(a.h, &batch, &o), a.h);
    warm(&a, 1);
    check_places(0, 1);
}

/* ---- the fence ---- */

TEST_CASE(1)
TEST_CASE(10)
void test_a_stale_token_is_refused_and_the_new_holder_keeps_it(int n)
{
    open_with(&b, NULL, NULL);
    warm(&a, n);
    expire(&a.held[0]);
    reap(1);
    ASSERT_ST(PGW_OK, take(&b, 1), b.h);
    TEST_ASSERT_EQUAL_INT64(a.held[0].id, b.held[0].id);
    TEST_ASSERT_EQUAL_INT(2, pgw_job_attempt(job(&b, 0)));
    reap(0); /* no suspects any more */
    fill(3 * n);
    TRADE(&a, n, n);
    TEST_ASSERT_EQUAL(PGW_ELEASE, a.verdicts[0]);
    for (int i = 1; i < n; i++) TEST_ASSERT_EQUAL(PGW_OK, a.verdicts[i]);
    check_none_of(&a, &b);
    check_places(2 * n, n + 1);
    ASSERT_ST(PGW_OK, pgw_extend(b.h, NULL, "q", b.held, 1, 0), b.h);
    ASSERT_ST(PGW_OK, pgw_complete(b.h, NULL, "q", b.held, NULL, 1), b.h);
}

/* The queue is as it was: nothing but the token stands against it. */
TEST_CASE(1)
TEST_CASE(10)
void test_a_token_of_before_is_refused_on_the_short_way(int n)
{
    pgw_ref before;

    warm(&a, n);
    before = a.held[0];
    ASSERT_ST(PGW_OK, pgw_release(a.h, NULL, "q", &before, 1), a.h);
    open_with(&b, NULL, NULL);
    ASSERT_ST(PGW_OK, take(&b, 1), b.h);
    TEST_ASSERT_EQUAL_INT64(before.id, b.held[0].id);
    fill(2 * n);
    went(&a);
    a.held[0] = before;
    TRADE(&a, n, n);
    WENT(&a, "short, complete");
    TEST_ASSERT_EQUAL(PGW_ELEASE, a.verdicts[0]);
    for (int i = 1; i < n; i++) TEST_ASSERT_EQUAL(PGW_OK, a.verdicts[i]);
    check_none_of(&a, &b);
    ASSERT_ST(PGW_OK, pgw_extend(b.h, NULL, "q", b.held, 1, 0), b.h);
}

TEST_CASE(1)
TEST_CASE(10)
void test_what_is_completed_already_is_gone(int n)
{
    warm(&a, n);
    ASSERT_ST(PGW_OK, pgw_complete(a.h, NULL, "q", a.held, NULL, 1), a.h);
    fill(n);
    went(&a);
    TRADE(&a, n, n);
    WENT(&a, "short, complete");
    TEST_ASSERT_EQUAL(PGW_ENOTFOUND, a.verdicts[0]);
    for (int i = 1; i < n; i++) TEST_ASSERT_EQUAL(PGW_OK, a.verdicts[i]);
    check_places(0, n);
}

/* Alone, exchanged, and beside the job that the token is of. */
TEST_CASE(0)
TEST_CASE(1)
TEST_CASE(2)
void test_an_id_with_another_jobs_token_is_refused(int how)
{
    const pgw_status ok = how == 2 ? PGW_OK : PGW_ELEASE;
    pgw_ref was[3];

    warm(&a, 3);
    memcpy(was, a.held, sizeof(was));
    a.held[1].token = was[0].token;
    if (how == 1) a.held[0].token = was[1].token;
    if (how == 0) {
        a.held[0] = a.held[1];
        a.count = 1;
    }
    fill(3);
    TRADE(&a, 3, 3);
    WENT(&a, how == 2 ? "function" : "short, complete"); /* one place names one job */
    TEST_ASSERT_EQUAL(ok, a.verdicts[0]);
    if (how > 0) TEST_ASSERT_EQUAL(PGW_ELEASE, a.verdicts[1]);
    if (how > 0) TEST_ASSERT_EQUAL(PGW_OK, a.verdicts[2]);
    ASSERT_ST(PGW_OK, pgw_extend(a.h, NULL, "q", was + 1, 1, 0), a.h);
    check_places(0, how == 0 ? 6 : how == 1 ? 5 : 4);
}

TEST_CASE(false)
TEST_CASE(true)
void test_a_job_that_is_given_twice_is_for_the_function(bool right_first)
{
    warm(&a, 3);
    a.held[2] = a.held[0];
    a.held[right_first ? 2 : 0].token.nonce ^= 1;
    fill(3);
    TRADE(&a, 3, 3);
    WENT(&a, "function");
    check_verdicts(&a, 3);
    TEST_ASSERT_EQUAL_INT64(
        4, kit_number(watch, "SELECT count(*) FROM pgwork.live_job WHERE token IS NOT NULL"));
}

typedef struct waiter {
    PGconn *conn;
    int pid;
    const char *then;
} waiter;

/* Ends what a session waits for, when it waits. */
static void *when_it_waits(void *arg)
{
    const waiter *w = arg;
    char sql[100];
    bool waits = false;

    snprintf(sql, sizeof(sql), "SELECT cardinality(pg_blocking_pids(%d))", w->pid);
    for (long long end = kit_ms() + PATIENCE_MS; kit_ms() < end && !waits; kit_sleep_ms(2)) {
        PGresult *res = PQexec(w->conn, sql);

        waits = PQntuples(res) == 1 && strcmp(PQgetvalue(res, 0, 0), "0") != 0;
        PQclear(res);
    }
    PQclear(PQexec(w->conn, w->then));
    PQclear(PQexec(w->conn, "COMMIT"));
    return NULL;
}

TEST_CASE(1)
TEST_CASE(10)
void test_of_two_who_complete_the_same_jobs_at_once_one_wins(int n)
{
    waiter w = {kit_open(), 0, "SELECT 1"};
    pthread_t thread;
    char ids[400] = "", tokens[400] = "";

    warm(&a, n);
    fill(n);
    for (int i = 0; i < n; i++) {
        snprintf(ids + strlen(ids), 24, "%s%lld", i > 0 ? "," : "", (long long)a.held[i].id);
        snprintf(tokens + strlen(tokens), 40, "%s%s", i > 0 ? "," : "", token_of(&a.held[i]));
    }
    kit_do(w.conn, "BEGIN; SELECT * FROM pgwork.complete('q', '{%s}', '{%s}')", ids, tokens);
    w.pid = PQbackendPID(a.h->conn);
    TEST_ASSERT_EQUAL_INT(0, pthread_create(&thread, NULL, when_it_waits, &w));
    TRADE(&a, n, n);
    TEST_ASSERT_EQUAL_INT(0, pthread_join(thread, NULL));
    WENT(&a, "short, complete");
    for (int i = 0; i < n; i++) TEST_ASSERT_EQUAL(PGW_ENOTFOUND, a.verdicts[i]);
    check_places(0, n);
}

/* ---- obeyed at once ---- */

TEST_CASE(1)
TEST_CASE(10)
void test_a_pause_is_obeyed_at_once(int n)
{
    warm(&a, n);
    fill(n);
    kit_do(watch, "SELECT pgwork.queue_pause('q')");
    ASSERT_ST(PGW_EMPTY, trade(&a, n), a.h);
    check_verdicts(&a, n);
    check_places(n, 0);
    kit_do(watch, "SELECT pgwork.queue_resume('q')");
    ASSERT_ST(PGW_OK, take(&a, n), a.h);
    check_places(0, n);
}

TEST_CASE(1)
TEST_CASE(10)
void test_new_settings_are_obeyed_at_once(int n)
{
    warm(&a, n);
    fill(n);
    kit_do(watch, "SELECT pgwork.queue_set('q', lease_ms => 5000, max_attempts => 3)");
    TRADE(&a, n, n);
    check_verdicts(&a, n);
    for (int i = 0; i < n; i++) {
        TEST_ASSERT_EQUAL_INT(3, pgw_job_max_attempts(job(&a, i)));
        TEST_ASSERT_INT64_WITHIN(1000000, 5000000,
                                 pgw_job_lease_until_us(job(&a, i)) - pgw_server_time_us(a.h));
    }
    check_places(0, n);
}

TEST_CASE(1)
TEST_CASE(10)
void test_what_is_to_be_kept_is_kept_at_once(int n)
{
    int64_t id;

    warm(&a, n);
    id = a.held[0].id;
    fill(6 * n);
    kit_do(watch, "SELECT pgwork.queue_set('q', retention_ms => 600000)");
    for (int i = 0; i < 6; i++) {
        TRADE(&a, n, n);
        check_verdicts(&a, n);
        refresh(&a);
        kit_set_hint(a.h->conn, "ARRAY[h[1], 0] || h[3:]"); /* to be renewed */
        knows(&a)->again_us = 0;
    }
    TEST_ASSERT_NOT_NULL(strstr(a.said, "job_short_look: PGW_EMPTY"));
    TEST_ASSERT_NULL(strstr(a.said, "job_short_look: PGW_OK"));
    TEST_ASSERT_EQUAL_INT64(6 * n, kit_number(watch, "SELECT count(*) FROM pgwork.done_job"));
    TEST_ASSERT_EQUAL_STRING(
        "done", kit_text(watch, "SELECT state FROM pgwork.job WHERE id = %lld", (long long)id));
}

TEST_CASE(1, false)
TEST_CASE(10, false)
TEST_CASE(1, true)
TEST_CASE(10, true)
void test_the_first_job_that_is_more_urgent_comes_at_once(int n, bool known)
{
    int64_t id;

    if (known) { /* by the queue, before it begins */
        fill_at(2, 1);
        ASSERT_ST(PGW_OK, take(&a, 1), a.h);
    }
    warm(&a, n);
    fill(n);
    id = kit_number(watch, "SELECT id FROM pgwork.enqueue('q', priority => 2)");
    TRADE(&a, n, n);
    check_verdicts(&a, n);
    if (known) WENT(&a, "short");
    TEST_ASSERT_EQUAL_INT64(id, a.held[0].id);
    TEST_ASSERT_EQUAL_INT(2, pgw_job_priority(job(&a, 0)));
    check_places(1, n);
}

/* Also when the queue has changed since the claim whose marks are to be used. */
TEST_CASE(1)
TEST_CASE(10)
void test_a_more_urgent_job_that_came_before_the_look_is_not_passed_over(int n)
{
    int64_t id;

    warm(&a, n);
    knows(&a)->until_us = 0;
    knows(&a)->filled = false;
    kit_set_short(a.h->conn, "NULL");
    kit_set_hint(a.h->conn, "ARRAY[h[1], 0] || h[3:]"); /* to be renewed */
    fill(2 * n);
    TRADE(&a, n, n);
    WENT(&a, "function");
    refresh(&a);
    id = kit_number(watch, "SELECT id FROM pgwork.enqueue('q', priority => 2)");
    went(&a);
    TRADE(&a, n, n);
    TEST_ASSERT_NOT_NULL(strstr(a.said, "job_short_look: PGW_EMPTY"));
    WENT(&a, "function");
    TEST_ASSERT_EQUAL_INT64(id, a.held[0].id);
    check_verdicts(&a, n);
    check_places(1, n);
}

TEST_CASE(1)
TEST_CASE(10)
void test_a_suspect_comes_alone_and_at_once(int n)
{
    warm(&a, n);
    second_session(1);
    make_last(&a);
    expire(&b.held[0]);
    reap(1);
    fill(n);
    TRADE(&a, 1, n);
    check_verdicts(&a, n);
    TEST_ASSERT_EQUAL_INT64(b.held[0].id, a.held[0].id);
    TEST_ASSERT_EQUAL_INT(2, pgw_job_attempt(job(&a, 0)));
    TEST_ASSERT_TRUE(pgw__batch_suspect(a.batch));
    check_places(n, 1);
}

/* The reaper may not have been able to say so yet. */
TEST_CASE(1)
TEST_CASE(10)
void test_a_suspect_that_the_queue_does_not_know_of_is_not_taken_along(int n)
{
    int seen = 0;
    long long id;

    warm(&a, n);
    id = kit_number(watch, "SELECT id FROM pgwork.enqueue('q', priority => 5)");
    fill(2 * n);
    kit_do(watch, "UPDATE pgwork.live_job SET flags = 2 WHERE pos = %lld", id);
    TRADE(&a, n, n);
    WENT(&a, "short");
    TEST_ASSERT_GREATER_THAN_INT64(id, a.held[0].id);
    for (pgw_status st = PGW_OK; st == PGW_OK; st = trade(&a, n))
        for (int i = 0; i < a.count; i++)
            if (a.held[i].id == id) {
                TEST_ASSERT_EQUAL_INT(1, a.count);
                seen++;
            }
    TEST_ASSERT_EQUAL_INT(1, seen);
    check_places(0, 0);
}

TEST_CASE(false)
TEST_CASE(true)
void test_a_queue_that_was_dropped_is_gone_at_once(bool renamed)
{
    pgw_ref was;

    warm(&a, 1);
    was = a.held[0];
    fill(3);
    kit_do(watch, "%s",
           renamed ? "UPDATE pgwork.queue SET name = 'p' WHERE name = 'q'"
                   : "SELECT pgwork.queue_drop('q', true)");
    ASSERT_ST(PGW_ENOTFOUND, trade(&a, 1), a.h);
    ASSERT_ST(PGW_EMPTY, take(&a, 1), a.h);
    if (!renamed) return;
    TEST_ASSERT_EQUAL_STRING("3 1 0 0 0", kit_places(watch, "p"));
    ASSERT_ST(PGW_OK, pgw_complete(a.h, NULL, "p", &was, NULL, 1), a.h);
    kit_do(watch, "UPDATE pgwork.queue SET name = 'q' WHERE name = 'p'");
}

/* And a plain claim finds nothing. */
TEST_CASE(false)
TEST_CASE(true)
void test_a_queue_that_was_dropped_has_no_jobs_at_once(bool renamed)
{
    warm(&a, 1);
    fill(3);
    kit_do(watch, "%s",
           renamed ? "UPDATE pgwork.queue SET name = 'p' WHERE name = 'q'"
                   : "SELECT pgwork.queue_drop('q', true)");
    ASSERT_ST(PGW_EMPTY, take(&a, 1), a.h);
    WENT(&a, "short, function");
    if (renamed) TEST_ASSERT_EQUAL_STRING("3 1 0 0 0", kit_places(watch, "p"));
}

TEST_CASE(false, 1)
TEST_CASE(true, 1)
TEST_CASE(false, 10)
TEST_CASE(true, 10)
void test_another_queue_of_the_same_name_is_another(bool renamed, int n)
{
    pgw_ref was[MANY];

    warm(&a, n);
    memcpy(was, a.held, sizeof(was));
    fill(3);
    kit_do(watch, "%s",
           renamed ? "UPDATE pgwork.queue SET name = 'p' WHERE name = 'q'"
                   : "SELECT pgwork.queue_drop('q', true)");
    kit_do(watch, "SELECT pgwork.queue_create('q', lease_ms => 5000)");
    fill(n);
    TRADE(&a, n, n);
    for (int i = 0; i < n; i++) {
        TEST_ASSERT_EQUAL(PGW_ENOTFOUND, a.verdicts[i]);
        TEST_ASSERT_INT64_WITHIN(1000000, 5000000,
                                 pgw_job_lease_until_us(job(&a, i)) - pgw_server_time_us(a.h));
    }
    check_places(0, n);
    warm(&a, n); /* it learns the new one */
    if (!renamed) return;
    TEST_ASSERT_EQUAL_STRING(kit_text(watch, "SELECT '3 %d 0 0 0'", n), kit_places(watch, "p"));
    ASSERT_ST(PGW_OK, pgw_complete(a.h, NULL, "p", was, NULL, (size_t)n), a.h);
}

TEST_CASE(1)
TEST_CASE(10)
void test_the_unique_key_of_a_completed_job_is_freed(int n)
{
    pgw_new keyed = PGW_NEW_INIT;

    keyed.key = "k", keyed.priority = 5;
    warm(&a, n);
    fill(n - 1);
    ASSERT_ST(PGW_OK, pgw_enqueue(a.h, NULL, "q", &keyed, NULL), a.h);
    TRADE(&a, n, n);
    WENT(&a, "short");
    ASSERT_ST(PGW_EXISTS, pgw_enqueue(a.h, NULL, "q", &keyed, NULL), a.h);
    fill(n);
    TRADE(&a, n, n);
    WENT(&a, "short, complete");
    check_verdicts(&a, n);
    ASSERT_ST(PGW_OK, pgw_enqueue(a.h, NULL, "q", &keyed, NULL), a.h);
    check_places(1, n);
}

TEST_CASE(1)
TEST_CASE(10)
void test_a_cancelled_job_does_not_come_and_can_be_completed(int n)
{
    long long id;

    warm(&a, n);
    id = kit_number(watch, "SELECT id FROM pgwork.enqueue('q', priority => 5)");
    fill(n);
    kit_do(watch, "SELECT pgwork.cancel('q', '{%lld, %lld}')", id, (long long)a.held[0].id);
    TRADE(&a, n, n);
    WENT(&a, "short");
    check_verdicts(&a, n);
    TEST_ASSERT_GREATER_THAN_INT64(id, a.held[0].id);
    check_places(0, n);
}

/* ---- others ---- */

TEST_CASE(1)
TEST_CASE(10)
void test_two_sessions_in_turn_never_get_the_same_job(int n)
{
    enum { TURNS = 40 };
    static int64_t seen[TURNS * MANY];
    int count = 0;

    warm(&a, n);
    second_session(n);
    fill(TURNS * n);
    make_last(&a);
    for (int i = 0; i < TURNS; i++) {
        session *s = i % 2 ? &b : &a;

        TRADE(s, n, n);
        WENT(s, "short");
        check_verdicts(s, n);
        for (int k = 0; k < n; k++) {
            for (int j = 0; j < count; j++) TEST_ASSERT_TRUE(seen[j] != s->held[k].id);
            seen[count++] = s->held[k].id;
        }
    }
    check_places(0, 2 * n);
}

static void *trade_along(void *arg)
{
    session *s = arg;
    int n = s->count;

    for (int i = 0; i < 50; i++)
        if (trade(s, n) != PGW_OK || s->count != n) return "not so many";
    return NULL;
}

/* Both at once; there is more than they take. */
TEST_CASE(1)
TEST_CASE(10)
void test_two_sessions_at_once_never_get_the_same_job(int n)
{
    pthread_t thread;
    void *failed;

    warm(&a, n);
    second_session(n);
    fill(150 * n);
    make_last(&a);
    TEST_ASSERT_EQUAL_INT(0, pthread_create(&thread, NULL, trade_along, &b));
    failed = trade_along(&a);
    TEST_ASSERT_NULL(failed);
    TEST_ASSERT_EQUAL_INT(0, pthread_join(thread, &failed));
    TEST_ASSERT_NULL(failed);
    check_none_of(&a, &b);
    check_verdicts(&a, n);
    check_verdicts(&b, n);
    check_places(50 * n, 2 * n);
}

TEST_CASE(1)
TEST_CASE(10)
void test_what_an_open_transaction_has_claimed_is_skipped(int n)
{
    PGconn *other = kit_open();
    struct took theirs[3];

    warm(&a, n);
    fill(n + 3);
    kit_do(other, "BEGIN");
    TEST_ASSERT_EQUAL_INT(3, kit_claim(other, "q", 3, theirs));
    TRADE(&a, n, n);
    WENT(&a, "short");
    check_verdicts(&a, n);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < 3; j++) TEST_ASSERT_TRUE(a.held[i].id != theirs[j].id);
    kit_do(other, "COMMIT");
    check_places(0, n + 3);
}

/* Its place was drawn when the marks had been made: these stay before it. */
TEST_CASE(1)
TEST_CASE(10)
void test_a_job_whose_place_is_passed_before_it_is_committed_comes_next(int n)
{
    PGconn *late = kit_open();
    long long id;

    warm(&a, n);
    kit_do(late, "BEGIN");
    id = kit_number(late, "SELECT id FROM pgwork.enqueue('q', priority => 5)");
    fill(3 * n);
    for (int i = 0; i < 2; i++) { /* completes jobs behind it */
        TRADE(&a, n, n);
        WENT(&a, "short");
        TEST_ASSERT_GREATER_THAN_INT64(id, a.held[0].id);
    }
    kit_do(late, "COMMIT");
    TRADE(&a, n, n);
    WENT(&a, "short");
    TEST_ASSERT_EQUAL_INT64(id, a.held[0].id);
    check_verdicts(&a, n);
    check_places(1, n);
}

/* Its place lies before those that are long claimed. */
TEST_CASE(1)
TEST_CASE(10)
void test_a_job_that_was_committed_late_comes_soon(int n)
{
    PGconn *late = kit_open();
    bool passed = false, short_too = false;
    long long id;

    warm(&a, n); /* the queue knows the priority */
    kit_do(late, "BEGIN");
    id = kit_number(late, "SELECT id FROM pgwork.enqueue('q', priority => 5)");
    for (long long end = kit_ms() + PATIENCE_MS; kit_ms() < end && !passed;) {
        kit_set_short(a.h->conn, "NULL"); /* the marks are to be renewed */
        kit_set_hint(a.h->conn, "ARRAY[h[1], 0] || h[3:]");
        knows(&a)->until_us = 0;
        warm(&a, n);
        passed = knows(&a)->through >= id;
    }
    TEST_ASSERT_TRUE(passed);
    kit_do(late, "COMMIT");
    fill(n);
    TRADE(&a, n, n);
    WENT(&a, "short"); /* and does not see it */
    check_verdicts(&a, n);
    knows(&a)->until_us = pgw__clock_us() + 20000;
    for (long long end = kit_ms() + PATIENCE_MS; kit_ms() < end; kit_sleep_ms(2)) {
        fill(n);
        TRADE(&a, n, n);
        short_too |= strcmp(went(&a), "short") == 0;
        for (int i = 0; i < n; i++)
            if (a.held[i].id == id) {
                TEST_ASSERT_EQUAL_INT(1, pgw_job_attempt(job(&a, i)));
                return;
            }
    }
    TEST_FAIL_MESSAGE("passed over");
}

TEST_CASE(1)
TEST_CASE(10)
void test_a_job_of_a_claim_rolled_back_comes_soon(int n)
{
    PGconn *other = kit_open();
    struct took theirs;

    warm(&a, n);
    fill(n);
    kit_do(other, "BEGIN");
    TEST_ASSERT_EQUAL_INT(1, kit_claim(other, "q", 1, &theirs));
    kit_do(other, "ROLLBACK");
    for (long long end = kit_ms() + PATIENCE_MS; kit_ms() < end; kit_sleep_ms(2)) {
        fill(n);
        TRADE(&a, n, n);
        for (int i = 0; i < n; i++)
            if (a.held[i].id == theirs.id) {
                TEST_ASSERT_EQUAL_INT(1, pgw_job_attempt(job(&a, i)));
                return;
            }
        knows(&a)->until_us = 0; /* it does not last */
    }
    TEST_FAIL_MESSAGE("passed over");
}

TEST_CASE(1)
TEST_CASE(10)
void test_a_queue_runs_dry_and_goes_on(int n)
{
    warm(&a, n);
    ASSERT_ST(PGW_EMPTY, trade(&a, n), a.h);
    check_verdicts(&a, n);
    WENT(&a, "short, function");
    check_places(0, 0);
    ASSERT_ST(PGW_EMPTY, trade(&a, n), a.h);
    ASSERT_ST(PGW_EMPTY, take(&a, n), a.h);
    fill(n);
    TRADE(&a, n, n);
    fill(n - 1);
    if (n > 1) TRADE(&a, n - 1, n);
    check_places(0, n > 1 ? n - 1 : 1);
    warm(&a, n);
}

/* Some by each way: all are in one batch, in their order. */
void test_what_is_left_for_the_function_comes_with_the_rest(void)
{
    PGconn *other = kit_open();
    struct took theirs[3];
    int64_t last = 0;

    warm(&a, 10);
    fill(10);
    kit_do(other, "BEGIN"); /* an xmax that the short way leaves alone */
    TEST_ASSERT_EQUAL_INT(3, kit_claim(other, "q", 3, theirs));
    kit_do(other, "ROLLBACK");
    TRADE(&a, 10, 10);
    WENT(&a, "short, function");
    check_verdicts(&a, 10);
    for (int i = 0; i < 10; i++) {
        TEST_ASSERT_EQUAL_STRING("1", pgw_job_payload(job(&a, i)));
        TEST_ASSERT_EQUAL_STRING("q", pgw_job_queue(job(&a, i)));
        last += a.held[i].id;
    }
    TEST_ASSERT_EQUAL_INT64(last, kit_number(watch, "SELECT sum(pos) FROM pgwork.live_job"));
    check_places(0, 10);
}

/* ---- what is left to the function ---- */

TEST_CASE(33, 1)
TEST_CASE(1, 33)
TEST_CASE(33, 33)
void test_more_than_32_are_left_to_the_function(int done, int n)
{
    warm(&a, 10);
    fill(2 * done);
    TRADE(&a, done < 33 ? done : 32, done < 33 ? done : 32);
    if (done == 33) { /* of these claims, for otherwise it would be a pack */
        const pgw_ref one = a.held[0];

        ASSERT_ST(PGW_OK, take(&a, 32), a.h);
        a.held[a.count++] = one;
    }
    fill(n);
    make_last(&a);
    went(&a);
    TRADE(&a, n, n);
    WENT(&a, "function");
    check_verdicts(&a, done);
}

void test_several_queues_are_left_to_the_function(void)
{
    static const char *const queues[] = {"q", "other"};
    pgw_claim_opts o = claim_opts(1);
    pgw_batch *batch;

    warm(&a, 1);
    fill(1);
    o.queues = queues, o.queues_count = 2;
    ASSERT_ST(PGW_OK, pgw_claim(a.h, &batch, &o), a.h);
    pgw_batch_free(batch);
    WENT(&a, "function");
    check_places(0, 2);
}

/* What is known is of one queue; a job of another one is not taken for one of it. */
void test_another_queue_is_asked_for_by_the_function(void)
{
    static const char *const queues[] = {"p"};
    pgw_claim_opts o = claim_opts(1);
    pgw_batch *batch;
    pgw_ref other;

    warm(&a, 1);
    kit_do(watch, "SELECT pgwork.enqueue('p', priority => 5)");
    o.queues = queues;
    ASSERT_ST(PGW_OK, pgw_claim(a.h, &batch, &o), a.h);
    WENT(&a, "function");
    TEST_ASSERT_EQUAL_STRING("p", pgw_job_queue(pgw_batch_job(batch, 0)));
    other = pgw_job_ref(pgw_batch_job(batch, 0));
    pgw_batch_free(batch);
    warm(&a, 2);
    a.held[1] = other;
    fill(2);
    TRADE(&a, 2, 2);
    WENT(&a, "short, complete");
    TEST_ASSERT_EQUAL(PGW_OK, a.verdicts[0]);
    TEST_ASSERT_EQUAL(PGW_ENOTFOUND, a.verdicts[1]);
    check_places(0, 3);
    TEST_ASSERT_EQUAL_STRING("0 1 0 0 0", kit_places(watch, "p"));
    ASSERT_ST(PGW_OK, pgw_complete(a.h, NULL, "p", &other, NULL, 1), a.h);
}

/* With all that is of the same names there. */
void test_another_schema_has_a_short_way_of_its_own(void)
{
    warm(&a, 3);
    fill(3);
    pgtemp_exec("DROP SCHEMA IF EXISTS other_work CASCADE");
    open_with(&b, "schema", "other_work");
    ASSERT_ST(PGW_OK, pgw_migrate_up(b.h, NULL), b.h);
    ASSERT_ST(PGW_OK, pgw_queue_create(b.h, "q", NULL), b.h);
    for (long long end = kit_ms() + PATIENCE_MS; kit_ms() < end; kit_sleep_ms(2)) {
        kit_do(watch, "SELECT count(*) FROM other_work.enqueue_many('q',"
                      " array_fill('2'::jsonb, ARRAY[3]))");
        TRADE(&b, 3, 3);
        if (strcmp(went(&b), "short") == 0) break;
        kit_do(b.h->conn,
               "SELECT set_config(name, (ARRAY[" NOW_MS " + 1100] || s[2:])::text, false)"
               " FROM (SELECT other_work._short('q')) n (name), LATERAL (SELECT"
               " nullif(current_setting(name, true), '')::bigint[]) m (s)"
               " WHERE s[2] > 0");
    }
    make_last(&b);
    kit_do(watch, "SELECT count(*) FROM other_work.enqueue_many('q',"
                  " array_fill('2'::jsonb, ARRAY[3]))");
    TRADE(&b, 3, 3);
    WENT(&b, "short");
    check_verdicts(&b, 3);
    for (int i = 0; i < 3; i++) TEST_ASSERT_EQUAL_STRING("2", pgw_job_payload(job(&b, i)));
    check_places(3, 3);
    TRADE(&a, 3, 3);
    WENT(&a, "short");
    for (int i = 0; i < 3; i++) TEST_ASSERT_EQUAL_STRING("1", pgw_job_payload(job(&a, i)));
    close_session(&b);
    pgtemp_exec("DROP SCHEMA other_work CASCADE");
}

/* Their places are far from one another. */
void test_jobs_that_were_claimed_apart_are_completed_by_the_function(void)
{
    pgw_ref first;

    warm(&a, 1);
    first = a.held[0];
    kit_do(watch, "SELECT nextval('pgwork.place') FROM generate_series(1, 1000)");
    fill(2);
    ASSERT_ST(PGW_OK, take(&a, 1), a.h);
    WENT(&a, "short");
    a.held[a.count++] = first;
    TRADE(&a, 1, 2);
    WENT(&a, "function");
    check_verdicts(&a, 2);
    check_places(0, 1);
}

void test_jobs_of_a_pack_are_completed_by_the_function(void)
{
    warm(&a, 10);
    TEST_ASSERT_EQUAL(PGW_EMPTY, trade(&a, 10));
    fill(50);
    ASSERT_ST(PGW_OK, take(&a, 50), a.h);
    TEST_ASSERT_EQUAL_INT64(1, kit_number(watch, "SELECT count(*) FROM pgwork.pack"));
    a.count = 10;
    fill(10);
    make_last(&a);
    went(&a);
    TRADE(&a, 10, 10);
    WENT(&a, "function");
    check_verdicts(&a, 10);
    check_places(0, 50);
}

/* What bundles hold comes as it lies; of the most urgent priority only, the short way too. */
TEST_CASE(1)
TEST_CASE(7)
void test_jobs_of_bundles_come_once_and_in_order(int n)
{
    enum { JOBS = 300 };
    int64_t last = 0;
    int seen = 0, shorts = 0;

    kit_do(watch, "SELECT pgwork.queue_set('q', bulk => true)");
    for (int i = 0; i < JOBS / 100; i++) fill_at(0, 100);
    TEST_ASSERT_EQUAL_INT64(
        JOBS / 100,
        kit_number(watch, "SELECT count(*) FROM pgwork.live_job WHERE jobs IS NOT NULL"));
    while (trade(&a, n) == PGW_OK) {
        for (int i = 0; i < a.count; i++, seen++) {
            TEST_ASSERT_GREATER_THAN_INT64(last, a.held[i].id);
            TEST_ASSERT_EQUAL_INT(1, pgw_job_attempt(job(&a, i)));
            last = a.held[i].id;
        }
        shorts += strcmp(went(&a), "short") == 0;
        if (knows(&a)->until_us > 0) continue;
        refresh(&a);
        kit_set_hint(a.h->conn, "ARRAY[h[1], 0] || h[3:]"); /* to be renewed */
    }
    TEST_ASSERT_EQUAL_INT(JOBS, seen);
    TEST_ASSERT_GREATER_THAN_INT(0, shorts);
    check_places(0, 0);
}

TEST_CASE(1)
TEST_CASE(10)
void test_a_claim_that_completes_nothing(int n)
{
    warm(&a, n);
    fill(2 * n);
    a.count = 0;
    TRADE(&a, n, n);
    WENT(&a, "short");
    ASSERT_ST(PGW_OK, take(&a, n), a.h);
    WENT(&a, "short");
    check_places(0, 3 * n);
}

void test_a_late_call_is_accepted_as_long_as_nobody_took_the_lease_away(void)
{
    warm(&a, 10);
    for (int i = 0; i < 10; i++) expire(&a.held[i]);
    fill(10);
    TRADE(&a, 10, 10);
    WENT(&a, "short");
    check_verdicts(&a, 10);
    check_places(0, 10);
}

/* Of what was refused its verdict tells, and nothing else. */
TEST_CASE(1)
TEST_CASE(10)
void test_a_refused_completion_is_no_error_of_the_call(int n)
{
    const pgw_claim_opts o = claim_opts(n);
    pgw_batch *batch;

    warm(&a, n);
    a.held[n - 1].token.nonce ^= 1;
    fill(2 * n);
    TRADE(&a, n, n);
    WENT(&a, "short, complete");
    TEST_ASSERT_EQUAL(PGW_ELEASE, a.verdicts[n - 1]);
    TEST_ASSERT_EQUAL_STRING("", pgw_error_message(a.h));
    TEST_ASSERT_EQUAL_STRING("", pgw_error_hint(a.h));
    TEST_ASSERT_EQUAL(PGW_OK, pgw__pq_error_status(a.h));
    TEST_ASSERT_EQUAL_STRING(n == 1 ? "job_short_claim_one" : "job_short_claim",
                             pgw__pq_error_statement(a.h));
    a.held[0].token.nonce ^= 1;
    ASSERT_ST(PGW_OK, pgw_complete_and_claim(a.h, NULL, a.held, (size_t)n, &batch, &o), a.h);
    hold(&a, batch);
    TEST_ASSERT_EQUAL_INT(n, a.count);
    check_places(0, n + 2);
}

/* Where commits may be late, claims alone are. */
TEST_CASE(1)
TEST_CASE(10)
void test_commits_that_do_not_wait_for_the_disk(int n)
{
    open_with(&b, "durability", "relaxed");
    warm(&b, n);
    fill(2 * n);
    ASSERT_ST(PGW_OK, take(&b, n), b.h);
    WENT(&b, "short");
    TRADE(&b, n, n);
    WENT(&b, "short");
    check_verdicts(&b, n);
    TEST_ASSERT_EQUAL_STRING("on", kit_text(b.h->conn, "SHOW synchronous_commit"));
    check_places(0, 2 * n);
}

/* Verdicts tell of what is done, also when there is no memory for what was claimed. */
void test_no_memory(void)
{
    int failed = 0;

    close_session(&a);
    oom_begin();
    open_with(&b, NULL, NULL);
    for (int nth = 1;; nth++) {
        pgw_status st;

        warm(&b, 3);
        fill(6);
        b.held[1].token.nonce ^= 1;
        oom_fail(nth);
        st = trade(&b, 6);
        if (!oom_failed()) break;
        oom_fail(0);
        failed += st == PGW_ENOMEM;
        if (st != PGW_ENOMEM) ASSERT_ST(PGW_OK, st, b.h);
        if (st == PGW_OK) TEST_ASSERT_EQUAL_INT(6, b.count);
        TEST_ASSERT_EQUAL_INT64(
            st == PGW_OK || b.verdicts[0] == PGW_OK ? 7 : 3,
            kit_number(watch, "SELECT count(*) FROM pgwork.live_job WHERE token IS NOT NULL"));
        if (st != PGW_OK || b.verdicts[1] != PGW_ELEASE)
            TEST_ASSERT_EQUAL(PGW_EUNKNOWN, b.verdicts[1]);
        TEST_ASSERT_EQUAL(b.verdicts[0], b.verdicts[2]);
        kit_do(watch, "DELETE FROM pgwork.live_job");
        b.count = 0;
    }
    TEST_ASSERT_GREATER_THAN_INT(1, failed);
    close_session(&b);
    oom_end();
}

/* It finds what was moved meanwhile, and a call that has to wait for that. */
TEST_CASE(1, false)
TEST_CASE(10, false)
TEST_CASE(1, true)
TEST_CASE(10, true)
void test_a_new_file_of_the_table(int n, bool waits)
{
    waiter w = {kit_open(), 0, "SELECT 1"};
    pthread_t thread;

    warm(&a, n);
    fill(2 * n);
    w.pid = PQbackendPID(a.h->conn);
    kit_do(w.conn, "BEGIN");
    kit_renew(w.conn, "live_job", false);
    if (!waits) kit_do(w.conn, "COMMIT");
    if (waits) TEST_ASSERT_EQUAL_INT(0, pthread_create(&thread, NULL, when_it_waits, &w));
    for (int i = 0; i < 2; i++) {
        TRADE(&a, n, n);
        check_verdicts(&a, n);
    }
    if (waits) TEST_ASSERT_EQUAL_INT(0, pthread_join(thread, NULL));
    check_places(0, n);
}

/* ---- rights ---- */

/* Who is a member of these roles, as the other session. */
static void open_role(bool owner)
{
    char dsn[1200];

    drop_role();
    kit_do(watch, "CREATE ROLE pgw_it_short LOGIN; GRANT pgwork_worker TO pgw_it_short");
    if (owner)
        kit_do(watch, "DO $$ BEGIN EXECUTE format('GRANT %%I TO pgw_it_short',"
                      " current_user); END $$");
    snprintf(dsn, sizeof(dsn), "%s user=pgw_it_short", pgtemp_dsn());
    open_with(&b, "dsn", dsn);
}

static void check_by_function(session *s, int n, int rounds)
{
    *s->said = '\0';
    for (int i = 0; i < rounds; i++) {
        const int before = s->count;

        fill(n);
        TRADE(s, n, n);
        check_verdicts(s, before);
    }
    TEST_ASSERT_EQUAL_STRING("", nothing_short(s));
    TEST_ASSERT_TRUE(begins(went(s), "function, function"));
}

TEST_CASE(1)
TEST_CASE(10)
void test_a_worker_that_is_not_the_owner_goes_by_the_function(int n)
{
    open_role(false);
    fill(n);
    TRADE(&b, n, n);
    fill(n);
    TRADE(&b, n, n);
    TEST_ASSERT_NOT_NULL(strstr(b.said, "handle_owner: PGW_OK")); /* it was considered */
    TEST_ASSERT_EQUAL_STRING("", nothing_short(&b));
    check_by_function(&b, n, 20);
    check_places(0, n);
}

TEST_CASE("REVOKE %I FROM pgw_it_short", 1)
TEST_CASE("REVOKE %I FROM pgw_it_short", 10)
TEST_CASE("ALTER TABLE pgwork.live_job OWNER TO pgwork_operator", 1)
TEST_CASE("ALTER TABLE pgwork.live_job OWNER TO pgwork_operator", 10)
TEST_CASE("REVOKE DELETE ON pgwork.live_job FROM %I", 1)
TEST_CASE("REVOKE DELETE ON pgwork.live_job FROM %I", 10)
TEST_CASE("REVOKE UPDATE ON pgwork.live_job FROM %I", 1)
TEST_CASE("REVOKE UPDATE ON pgwork.live_job FROM %I", 10)
TEST_CASE("REVOKE SELECT ON pgwork.queue FROM %I", 1)
TEST_CASE("REVOKE SELECT ON pgwork.queue FROM %I", 10)
void test_who_loses_the_rights_goes_on_by_the_function(const char *loss, int n)
{
    open_role(true);
    warm(&b, n);
    kit_do(watch, "DO $$ BEGIN EXECUTE format('%s', current_user); END $$", loss);
    fill(n);
    TRADE(&b, n, n);
    WENT(&b, "short failed, function");
    check_verdicts(&b, n);
    check_by_function(&b, n, 10);
    check_places(0, n);
}

/* And from a plain claim. */
void test_who_loses_the_rights_claims_by_the_function(void)
{
    open_role(true);
    warm(&b, 1);
    kit_do(watch, "DO $$ BEGIN EXECUTE format('REVOKE %%I FROM pgw_it_short', current_user);"
                  " END $$");
    fill(1);
    ASSERT_ST(PGW_OK, take(&b, 1), b.h);
    WENT(&b, "short failed, function");
    check_places(0, 2);
}

/* ---- where it is not gone ---- */

void test_without_prepared_statements_the_function_is_asked(void)
{
    open_with(&b, "prepare", "never");
    check_by_function(&b, 1, 10);
    check_by_function(&b, 10, 10);
    check_places(0, 10);
}

void test_on_an_attached_connection_the_function_is_asked(void)
{
    pgw_conf *conf = conf_of(&b, NULL, NULL);

    ASSERT_ST(PGW_OK, pgw_attach(&b.h, kit_open(), conf), b.h);
    pgw_conf_free(conf);
    check_by_function(&b, 1, 10);
    check_by_function(&b, 10, 10);
    check_places(0, 10);
}

void test_behind_a_pooler_the_function_is_asked(void)
{
    between = wire_open();
    wire_act_as_pooler(between, false);
    open_with(&b, "dsn", wire_dsn(between));
    check_by_function(&b, 1, 10);
    check_by_function(&b, 10, 10);
    TEST_ASSERT_TRUE(b.h->pooled);
    check_places(0, 10);
}

static void when_done(pgw *h, pgw_status st, void *arg)
{
    (void)h;
    *(pgw_status *)arg = st;
}

TEST_CASE(1)
TEST_CASE(10)
void test_a_claim_that_does_not_wait_asks_the_function(int n)
{
    const pgw_claim_opts o = claim_opts(n);
    pgw_status st = PGW_AGAIN;
    pgw_batch *batch = NULL;

    warm(&a, n);
    fill(n);
    pgw_async(a.h, when_done, &st);
    ASSERT_ST(PGW_AGAIN, pgw_complete_and_claim(a.h, a.verdicts, a.held, (size_t)n, &batch, &o),
              a.h);
    while (st == PGW_AGAIN) {
        struct pollfd p = {pgw_fd(a.h),
                           (short)((pgw_events(a.h) & PGW_READ ? POLLIN : 0) |
                                   (pgw_events(a.h) & PGW_WRITE ? POLLOUT : 0)),
                           0};

        TEST_ASSERT_GREATER_OR_EQUAL_INT(0, poll(&p, 1, 10000));
        pgw_step(a.h, PGW_READ | PGW_WRITE);
    }
    ASSERT_ST(PGW_OK, st, a.h);
    hold(&a, batch);
    check_verdicts(&a, n);
    WENT(&a, "function");
    check_places(0, n);
    warm(&a, n); /* and the next one may go the short way */
}

static const char *settings(const session *s)
{
    return kit_text(s->h->conn,
                    "SELECT string_agg(setting, ' ' ORDER BY name) FROM pg_settings WHERE name ~"
                    " '^(enable_(seq|bitmap|index|tid)scan|enable_(hash|merge)join|enable_nestloop|"
                    "plan_cache_mode)$'");
}

/* What the session has for statements that are not of pgwork. */
TEST_CASE("begin, commit")
TEST_CASE("begin, rollback")
TEST_CASE("get")
TEST_CASE("begin, get, commit")
TEST_CASE("begin, get, rollback")
void test_others_statements_find_the_settings_as_they_were(const char *how)
{
    static const char *const key[] = {"a"}, *const columns[] = {"id"};
    pgw_table_spec spec = PGW_TABLE_SPEC_INIT;
    const bool in_txn = begins(how, "begin"), get = strstr(how, "get") != NULL;
    char before[400];
    pgw_table *table;
    pgw_rows *rows;

    kit_do(watch, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %%1$I SET enable_mergejoin = off;"
                  " ALTER DATABASE %%1$I SET enable_indexscan = off', current_database()); END $$");
    kit_do(watch, "DROP TABLE IF EXISTS counter; CREATE TABLE counter (id text PRIMARY KEY);"
                  " INSERT INTO counter VALUES ('a')");
    open_with(&b, NULL, NULL);
    spec.table = "counter", spec.key = columns, spec.key_count = 1;
    ASSERT_ST(PGW_OK, pgw_table_open(b.h, &table, &spec), b.h);
    snprintf(before, sizeof(before), "%s", settings(&b));
    TEST_ASSERT_EQUAL_STRING("on on off off on on on auto", before);
    if (b.h->mixed) TEST_FAIL_MESSAGE("already");
    warm(&b, 3);
    TEST_ASSERT_EQUAL_STRING("off off on off on off on force_generic_plan", settings(&b));
    if (in_txn) ASSERT_ST(PGW_OK, pgw_txn_begin(b.h), b.h);
    if (in_txn) TEST_ASSERT_EQUAL_STRING(before, settings(&b));
    if (get) {
        ASSERT_ST(PGW_OK, pgw_table_get(b.h, &rows, table, key, columns, 1), b.h);
        pgw_rows_free(rows);
        TEST_ASSERT_EQUAL_STRING(before, settings(&b));
    }
    fill(3);
    went(&b);
    TRADE(&b, 3, 3);
    WENT(&b, "function");
    check_verdicts(&b, 3);
    TEST_ASSERT_EQUAL_STRING(before, settings(&b));
    if (strstr(how, "commit") != NULL) ASSERT_ST(PGW_OK, pgw_txn_commit(b.h), b.h);
    if (strstr(how, "rollback") != NULL) {
        ASSERT_ST(PGW_OK, pgw_txn_rollback(b.h), b.h);
        check_places(3, 3);
        b.count = 0;
    }
    TEST_ASSERT_EQUAL_STRING(before, settings(&b));
    for (int i = 0; i < 5; i++) {
        check_by_function(&b, 3, 2);
        refresh(&b);
    }
    TEST_ASSERT_EQUAL_STRING(before, settings(&b));
    ASSERT_ST(PGW_OK, pgw_table_get(b.h, &rows, table, key, columns, 1), b.h);
    pgw_rows_free(rows);
    pgw_table_free(table);
    TEST_ASSERT_EQUAL_STRING(before, settings(&b));
}

/* ---- what becomes of the session ---- */

TEST_CASE("DEALLOCATE ALL", 1)
TEST_CASE("DEALLOCATE ALL", 10)
TEST_CASE("DISCARD ALL", 1)
TEST_CASE("DISCARD ALL", 10)
TEST_CASE("short_claim_one", 1)
TEST_CASE("short_claim", 10)
TEST_CASE("short_complete_one", 1)
TEST_CASE("short_complete", 10)
void test_statements_that_were_forgotten_are_prepared_anew(const char *what, int n)
{
    warm(&a, n);
    if (begins(what, "short"))
        what = kit_text(a.h->conn,
                        "SELECT 'DEALLOCATE ' || name FROM pg_prepared_statements WHERE name ~"
                        " '^pgwork_job_%s_[0-9]+$'",
                        what);
    kit_do(a.h->conn, "%s", what);
    fill(2 * n);
    for (int i = 0; i < 2; i++) {
        TRADE(&a, n, n);
        WENT(&a, "short");
        check_verdicts(&a, n);
    }
    check_places(0, n);
    ASSERT_ST(PGW_EMPTY, trade(&a, n), a.h);
    check_verdicts(&a, n);
    warm(&a, n);
}

static void wait_until_gone(int pid)
{
    for (long long end = kit_ms() + PATIENCE_MS; kit_ms() < end; kit_sleep_ms(2))
        if (kit_number(watch, "SELECT count(*) FROM pg_stat_activity WHERE pid = %d", pid) == 0)
            return;
    TEST_FAIL_MESSAGE("still there");
}

TEST_CASE(1)
TEST_CASE(10)
void test_after_the_end_of_its_session_it_goes_on(int n)
{
    const int pid = (warm(&a, n), PQbackendPID(a.h->conn));

    kit_do(watch, "SELECT pg_terminate_backend(%d)", pid);
    wait_until_gone(pid);
    fill(n);
    TRADE(&a, n, n);
    check_verdicts(&a, n);
    check_places(0, n);
    went(&a);
    fill(n);
    TRADE(&a, n, n); /* what it knew was of the other session */
    WENT(&a, "function");
    warm(&a, n);
    check_places(0, n);
}

/* Nothing was committed. */
TEST_CASE(1, true)
TEST_CASE(10, true)
TEST_CASE(1, false)
TEST_CASE(10, false)
void test_a_call_that_ends_in_the_midst_loses_nothing(int n, bool killed)
{
    waiter w = {kit_open(), 0, NULL};
    pgw_ref was[MANY];
    pthread_t thread;
    char kill[60];

    warm(&a, n);
    fill(n);
    memcpy(was, a.held, sizeof(was));
    kit_do(w.conn, "BEGIN; SELECT FROM pgwork.live_job WHERE token = '%s' FOR UPDATE",
           token_of(&was[n - 1]));
    w.pid = PQbackendPID(a.h->conn);
    snprintf(kill, sizeof(kill), "SELECT pg_%s_backend(%d)", killed ? "terminate" : "cancel",
             w.pid);
    w.then = kill;
    TEST_ASSERT_EQUAL_INT(0, pthread_create(&thread, NULL, when_it_waits, &w));
    ASSERT_ST(killed ? PGW_EUNKNOWN : PGW_ECANCELED, trade(&a, n), a.h);
    TEST_ASSERT_EQUAL_INT(0, pthread_join(thread, NULL));
    WENT(&a, "short failed");
    for (int i = 0; i < n; i++) TEST_ASSERT_EQUAL(PGW_EUNKNOWN, a.verdicts[i]);
    if (killed) wait_until_gone(w.pid);
    check_places(n, n);
    ASSERT_ST(PGW_OK, pgw_extend(a.h, NULL, "q", was, (size_t)n, 0), a.h);
    TRADE(&a, n, n); /* once more */
    check_verdicts(&a, n);
    check_places(0, n);
}

/* The deadline ends it: nothing was done, and nothing is tried by another way. */
TEST_CASE(1)
TEST_CASE(10)
void test_a_deadline_that_passes_leaves_all_as_it_was(int n)
{
    PGconn *other = kit_open();

    warm(&a, n);
    fill(n);
    kit_do(other, "BEGIN; SELECT FROM pgwork.live_job WHERE token = '%s' FOR UPDATE",
           token_of(&a.held[n - 1]));
    pgw_set_timeout(a.h, 100);
    ASSERT_ST(PGW_ETIMEDOUT, trade(&a, n), a.h);
    WENT(&a, "short failed");
    check_places(n, n);
    kit_do(other, "COMMIT");
    pgw_set_timeout(a.h, 60000);
    TRADE(&a, n, n);
    check_verdicts(&a, n);
    check_places(0, n);
}

/* The answer is lost: at its beginning; between what was completed and what is claimed; when all is
 * committed. */
TEST_CASE('2', 1)
TEST_CASE('2', 10)
TEST_CASE('C', 1)
TEST_CASE('C', 10)
TEST_CASE('Z', 1)
TEST_CASE('Z', 10)
void test_of_a_lost_answer_nothing_is_lost(int type, int n)
{
    pgw_ref was[MANY];
    pgw_status st;
    int pid;

    between = wire_open();
    open_with(&b, "dsn", wire_dsn(between));
    warm(&b, n);
    fill(n);
    memcpy(was, b.held, sizeof(was));
    pid = PQbackendPID(b.h->conn);
    wire_at(between, (char)type, 1, NULL, 0, WIRE_CUT);
    ASSERT_ST(PGW_EUNKNOWN, trade(&b, n), b.h);
    TEST_ASSERT_EQUAL_INT(1, wire_orders(between));
    TEST_ASSERT_NULL(strstr(b.said, "job_complete_and_claim: "));
    for (int i = 0; i < n; i++) TEST_ASSERT_EQUAL(PGW_EUNKNOWN, b.verdicts[i]);
    wait_until_gone(pid);
    st = pgw_complete(b.h, b.verdicts, "q", was, NULL, (size_t)n); /* it can be repeated */
    if (type == 'Z') TEST_ASSERT_EQUAL(PGW_ELEASE, st);
    for (int i = 0; i < n; i++)
        TEST_ASSERT_EQUAL(st == PGW_OK ? PGW_OK : PGW_ENOTFOUND, b.verdicts[i]);
    b.count = 0;
    if (st == PGW_OK) {
        check_places(n, 0);
        TRADE(&b, n, n);
        return;
    }
    check_places(0, n); /* claimed for nobody: they come back after their leases */
    kit_expire(watch, "q");
    reap(n);
    for (int i = 0; i < n; i++) {
        TRADE(&b, 1, n); /* suspects come alone */
        TEST_ASSERT_EQUAL_INT(2, pgw_job_attempt(job(&b, 0)));
    }
    ASSERT_ST(PGW_EMPTY, trade(&b, n), b.h);
    check_places(0, 0);
}

/* ---- plans ---- */

static char plans[1 << 17];

static void collect(void *context, const PGresult *res)
{
    const size_t length = strlen(plans);

    (void)context;
    snprintf(plans + length, sizeof(plans) - length, "%s\n",
             PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY));
}

static void fail_with(const char *what, const char *at)
{
    static char text[1500];

    snprintf(text, sizeof(text), "%s: %.1400s", what, at);
    TEST_FAIL_MESSAGE(text);
}

/* Wherever the index is used, its condition names the place. */
static void check_plans(const char *with)
{
    static const char *const columns[] = {"queue", "lane", "pos"};
    static const char use[] = "Index Scan using live_job_place ";

    for (const char *at = plans; (at = strstr(at, use)) != NULL; at++) {
        const char *cond = strstr(at, "Index Cond:"), *end = cond ? strchr(cond, '\n') : NULL;

        if (end == NULL || cond - strchr(at, '\n') > 200) fail_with("no condition", at);
        for (int i = 0; i < 3; i++) {
            const char *column = strstr(cond, columns[i]);

            if (column == NULL || column > end) fail_with(columns[i], at);
        }
    }
    if (strstr(plans, "Seq Scan") != NULL) fail_with("all rows", plans);
    if (strstr(plans, "Bitmap") != NULL) fail_with("a bitmap", plans);
    if (strstr(plans, use) == NULL) fail_with(use, plans);
    if (strstr(plans, with) == NULL) fail_with(with, plans);
}

/* The plans of both statements, in the session that has them. */
static void check_session(session *s, int n)
{
    for (int claims = 0; claims < 2; claims++) {
        make_last(s);
        went(s);
        *plans = '\0';
        if (claims)
            ASSERT_ST(PGW_OK, take(s, n), s->h);
        else
            TRADE(s, n, n);
        WENT(s, "short");
        if (!claims) check_plans("Delete on live_job");
        check_plans("Update on live_job");
        check_plans("Tid Scan on live_job");
    }
}

static void open_explaining(int n)
{
    open_with(&b, NULL, NULL);
    warm(&b, n);
    kit_do(b.h->conn, "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0;"
                      " SET auto_explain.log_level = notice; SET client_min_messages = notice");
    PQsetNoticeReceiver(b.h->conn, collect, NULL);
}

static void analyze(void)
{
    kit_do(watch, "VACUUM ANALYZE pgwork.live_job");
}

TEST_CASE("of an empty table", 1)
TEST_CASE("of an empty table", 10)
TEST_CASE("none", 1)
TEST_CASE("none", 10)
TEST_CASE("of many rows", 1)
TEST_CASE("of many rows", 10)
void test_each_statement_has_one_good_plan(const char *statistics, int n)
{
    const bool empty = begins(statistics, "of an empty");

    kit_do(watch, "ALTER TABLE pgwork.live_job SET (autovacuum_enabled = off)");
    kit_do(watch, "TRUNCATE pgwork.live_job; DELETE FROM pg_statistic WHERE starelid ="
                  " 'pgwork.live_job'::regclass");
    kit_do(watch, "VACUUM pgwork.live_job");
    if (empty) analyze();
    if (!empty) fill(60000);
    if (begins(statistics, "of many")) analyze();
    open_explaining(n);
    if (empty) fill(2 * n);
    check_session(&b, n);
    fill(60000); /* it keeps its plans */
    check_session(&b, n);
    analyze(); /* or makes new ones */
    check_session(&b, n);
    pgw_batch_free(b.batch);
    b.batch = NULL;
    kit_do(watch, "DELETE FROM pgwork.live_job");
    analyze();
    b.count = 0;
    fill(4 * n);
    TRADE(&b, n, n); /* whichever way it goes, behind 120,000 that are gone */
    check_places(3 * n, n);
}
