/* Random walks of four sessions beside a model: each job is in one place, with the state and the
 * attempts of the model; waiters for permits are served in order. One walk is always the same, the
 * others are new each time. PGW_SEED repeats one. Longer than 600 lines: the model and the two
 * random walks beside it belong together. */
#include "unity.h"
#include "pgtemp.h"
#include "sqlkit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SESSIONS = 4, JOBS = 8000, STEPS = 1500, WALKS = 2, MAX_ATTEMPTS = 3 };

enum state { READY, LEASED, DELAYED, DEAD, DONE, CANCELLED, GONE, STATES };

static const char *const state_names[] = {"ready", "leased", "delayed",
                                          "dead",  "done",   "cancelled"};

struct job {
    long long id;
    enum state state;
    int attempt, asked; /* to be cancelled */
    struct took held;   /* the claim that counts, when leased */
    struct took stale;  /* one that does not */
};

static PGconn *session[SESSIONS];
static struct job jobs[JOBS];
static int count, shared; /* jobs; claims of them that shared a token */
static uint64_t seed;

void setUp(void)
{
    kit_begin();
    for (int i = 0; i < SESSIONS; i++) session[i] = kit_open();
}

void tearDown(void)
{
    kit_end();
}

static unsigned any(unsigned n) /* 0 .. n-1 */
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % n;
}

static PGconn *anyone(void)
{
    return session[any(SESSIONS)];
}

/* Some job in the state; NULL: none. */
static struct job *some(enum state state)
{
    for (int i = 0, at = count ? (int)any((unsigned)count) : 0; i < count; i++)
        if (jobs[(at + i) % count].state == state) return &jobs[(at + i) % count];
    return NULL;
}

static struct job *by_id(long long id)
{
    for (int i = 0; i < count; i++)
        if (jobs[i].id == id) return &jobs[i];
    TEST_FAIL_MESSAGE("a job that nobody enqueued");
    return NULL;
}

static void leave(struct job *job, enum state state, int attempt)
{
    job->stale = job->held;
    job->state = state;
    job->attempt = attempt;
}

/* -- the verbs, on both sides --------------------------------------------------------------------
 */

static void put(void)
{
    int n = 1 + (int)any(any(4) == 0 ? 120 : 4), delayed = any(4) == 0;
    PGresult *res = kit_rows(
        anyone(),
        any(2) ? "SELECT id FROM pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[%d]),"
                 " priorities => '{%u}', delays_ms => '{%s}')"
               : "SELECT (pgwork.enqueue('q', '1', priority => n.priority, delay_ms => n.delay)).id"
                 " FROM (SELECT generate_series(1, %d), %u AS priority, %s AS delay) n",
        n, any(3), delayed ? "3600000" : "0");

    TEST_ASSERT_EQUAL_INT(n, PQntuples(res));
    TEST_ASSERT_TRUE(count + n <= JOBS);
    for (int i = 0; i < n; i++) {
        memset(&jobs[count], 0, sizeof(jobs[count]));
        jobs[count].id = strtoll(PQgetvalue(res, i, 0), NULL, 10);
        jobs[count++].state = delayed ? DELAYED : READY;
    }
    PQclear(res);
}

static void claim(void)
{
    struct took got[100];
    int n = kit_claim(anyone(), "q", 1 + (int)any(any(4) == 0 ? 100 : 8), got);

    for (int i = 0; i < n; i++) {
        struct job *job = by_id(got[i].id);

        shared += job->attempt == 0 && strcmp(got[i].token, got[n - 1].token) == 0 && n > 1;

        TEST_ASSERT_EQUAL_INT(READY, job->state);
        TEST_ASSERT_EQUAL_INT(job->attempt + 1, got[i].attempt);
        leave(job, LEASED, got[i].attempt);
        job->held = got[i];
    }
}

static void finish(void)
{
    struct job *job = some(LEASED);
    const char *verb;

    if (!job) return;
    switch (any(6)) {
    case 0:
    case 1:
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(anyone(), "complete", &job->held, ""));
        leave(job, DONE, job->attempt);
        return;
    case 2:
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(anyone(), "fail", &job->held, ", 'boom', 0, true"));
        leave(job, DEAD, job->attempt);
        return;
    case 3: {
        int later = (int)any(2);

        TEST_ASSERT_EQUAL_STRING(
            "ok", kit_say(anyone(), "fail", &job->held, later ? ", 'boom'" : ", 'boom', 0"));
        leave(job,
              job->asked                     ? CANCELLED
              : job->attempt >= MAX_ATTEMPTS ? DEAD
              : later                        ? DELAYED
                                             : READY,
              job->attempt);
        return;
    }
    default:
        verb = any(2) ? "release" : "snooze";
        TEST_ASSERT_EQUAL_STRING(
            "ok", kit_say(anyone(), verb, &job->held, *verb == 's' ? ", 3600000" : ""));
        leave(job, job->asked ? CANCELLED : *verb == 's' ? DELAYED : READY, job->attempt - 1);
    }
}

/* Several leased jobs, of one claim or of many, and one in four without a lease of that token. */
static int pick(struct job **out, int most)
{
    struct job *job = some(LEASED);
    int n = 0, whole = any(2) == 0; /* those of one token, or whatever comes */

    for (int i = 0, at = count ? (int)any((unsigned)count) : 0; job && i < count && n < most; i++) {
        struct job *one = &jobs[(at + i) % count];

        if (one->state == LEASED &&
            (whole ? strcmp(one->held.token, job->held.token) == 0 : any(3) > 0))
            out[n++] = one;
        else if (!whole && one->stale.id && any(12) == 0)
            out[n++] = one;
    }
    return n;
}

/* The call that names them: those under their lease by that, the others by the stale one. */
static const char *refs(struct job *const *some_jobs, int n)
{
    static char text[8192];
    size_t length = (size_t)snprintf(text, sizeof(text), "'q', '{");

    for (int i = 0; i < n; i++)
        length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%lld", i ? "," : "",
                                   some_jobs[i]->id);
    length += (size_t)snprintf(text + length, sizeof(text) - length, "}', '{");
    for (int i = 0; i < n; i++)
        length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%s", i ? "," : "",
                                   some_jobs[i]->state == LEASED ? some_jobs[i]->held.token
                                                                 : some_jobs[i]->stale.token);
    snprintf(text + length, sizeof(text) - length, "}'");
    return text;
}

/* A column of the job's row in an answer whose first column is the id; NULL: there is no row. */
static const char *column_of(const PGresult *res, long long id, int column)
{
    for (int row = 0; row < PQntuples(res); row++)
        if (strtoll(PQgetvalue(res, row, 0), NULL, 10) == id) return PQgetvalue(res, row, column);
    return NULL;
}

/* What the server says of a job in an answer with columns id, status; "ok" when nothing. */
static const char *said_of(const PGresult *res, long long id)
{
    const char *said = column_of(res, id, 1);

    return said ? said : "ok";
}

static const char *refusal(enum state state)
{
    return state == LEASED                                       ? "ok"
           : state == READY || state == DELAYED || state == DEAD ? "stale"
                                                                 : "gone";
}

static void finish_many(void)
{
    static const char *const verbs[][2] = {{"complete", ""},
                                           {"complete", ""},
                                           {"fail", ", 'boom', 0"},
                                           {"release", ""},
                                           {"snooze", ", 3600000"}};
    struct job *some_jobs[60];
    unsigned verb = any(5);
    int n = pick(some_jobs, 1 + (int)any(60));
    PGresult *res;

    if (n == 0) return;
    res = kit_rows(anyone(), "SELECT id, status FROM pgwork.%s(%s%s)", verbs[verb][0],
                   refs(some_jobs, n), verbs[verb][1]);
    /* complete says what is gone by now, the others what was there before them: no difference but
     * for those that the same call has moved, and it names none twice. */
    for (int i = 0; i < n; i++) {
        struct job *job = some_jobs[i];
        int charged = verb > 2 ? job->attempt - 1 : job->attempt;

        TEST_ASSERT_EQUAL_STRING(refusal(job->state), said_of(res, job->id));
        if (job->state != LEASED) continue;
        leave(job,
              verb < 2                                    ? DONE
              : job->asked                                ? CANCELLED
              : verb == 2 && job->attempt >= MAX_ATTEMPTS ? DEAD
              : verb == 4                                 ? DELAYED
                                                          : READY,
              charged);
    }
    PQclear(res);
}

static void extend(void)
{
    struct job *some_jobs[60];
    int n = pick(some_jobs, 1 + (int)any(60));
    PGresult *res;

    if (n == 0) return;
    res = kit_rows(anyone(),
                   "SELECT id, status, lease_until > clock_timestamp() FROM "
                   "pgwork.extend(%s, 7200000)",
                   refs(some_jobs, n));
    TEST_ASSERT_EQUAL_INT(n, PQntuples(res));
    for (int i = 0; i < n; i++) {
        struct job *job = some_jobs[i];

        TEST_ASSERT_EQUAL_STRING(job->state == LEASED && job->asked ? "cancel"
                                                                    : refusal(job->state),
                                 said_of(res, job->id));
        TEST_ASSERT_EQUAL_STRING(job->state == LEASED ? "t" : "", column_of(res, job->id, 2));
    }
    PQclear(res);
}

/* A holder that lost its job tries again. */
static void meddle(void)
{
    static const char *const verbs[][2] = {
        {"complete", ""}, {"fail", ", 'late'"}, {"release", ""}, {"snooze", ", 0"}, {"extend", ""}};
    unsigned verb = any(5);

    if (!count) return;
    struct job *job = &jobs[any((unsigned)count)];

    if (!job->stale.id) return;
    TEST_ASSERT_EQUAL_STRING(job->state == READY || job->state == LEASED || job->state == DELAYED ||
                                     job->state == DEAD
                                 ? "stale"
                                 : "gone",
                             kit_say(anyone(), verbs[verb][0], &job->stale, verbs[verb][1]));
}

static void cancel(void)
{
    static const char *const said[] = {"cancelled", "requested", "cancelled", "gone",
                                       "gone",      "gone",      "gone"};

    if (!count) return;
    struct job *job = &jobs[any((unsigned)count)];

    TEST_ASSERT_EQUAL_STRING(
        said[job->state],
        kit_text(anyone(), "SELECT status FROM pgwork.cancel('q', '{%lld}')", job->id));
    if (job->state == LEASED) job->asked = 1;
    if (job->state == READY || job->state == DELAYED) job->state = CANCELLED;
}

/* All leases run out, some holders extend theirs in time, and the others lose them: in batches. */
static void reap(void)
{
    struct job *some_jobs[60];
    int n, lost = 0, got, batch = 1 + (int)any(40);
    int saved[JOBS] = {0};

    kit_expire(session[0], "q");
    n = pick(some_jobs, (int)any(60));
    if (n > 0) kit_do(anyone(), "SELECT pgwork.extend(%s, 7200000)", refs(some_jobs, n));
    for (int i = 0; i < n; i++) saved[some_jobs[i] - jobs] = 1;
    for (int i = 0; i < count; i++) {
        if (jobs[i].state != LEASED || saved[i]) continue;
        lost++;
        leave(&jobs[i],
              jobs[i].asked                     ? CANCELLED
              : jobs[i].attempt >= MAX_ATTEMPTS ? DEAD
                                                : READY,
              jobs[i].attempt);
    }
    do {
        got = (int)kit_number(anyone(), "SELECT returned + died FROM pgwork.reap('q', %d)", batch);
        TEST_ASSERT_EQUAL_INT(lost < batch ? lost : batch, got);
        lost -= got;
    } while (got == batch);
    TEST_ASSERT_EQUAL_INT(0, lost);
}

static void promote(void)
{
    int due = 0;

    kit_due(session[0], "q");
    for (int i = 0; i < count; i++) {
        if (jobs[i].state != DELAYED) continue;
        due++;
        jobs[i].state = READY;
    }
    TEST_ASSERT_EQUAL_INT64(due, kit_number(anyone(), "SELECT promoted FROM pgwork.promote()"));
}

/* Some delayed jobs, and whatever else their ids are given for: at once, or later still. */
static void reschedule(void)
{
    char ids[4096] = "";
    size_t length = 0;
    int late = (int)any(2), due = 0;

    for (int i = 0; i < count && length < sizeof(ids) - 32; i++) {
        if (any(4) > 0) continue;
        length += (size_t)snprintf(ids + length, sizeof(ids) - length, "%s%lld",
                                   length > 0 ? "," : "", jobs[i].id);
        if (jobs[i].state != DELAYED) continue;
        due++;
        if (!late) jobs[i].state = READY;
    }
    TEST_ASSERT_EQUAL_INT64(
        due,
        kit_number(anyone(), "SELECT moved FROM pgwork.reschedule('q', '{%s}', delay_ms => %d)",
                   ids, late ? 7200000 : 0));
}

static void redrive(void)
{
    struct job *job = some(DEAD);

    if (!job) return;
    TEST_ASSERT_EQUAL_INT64(1,
                            kit_number(anyone(), "SELECT pgwork.redrive('q', '{%lld}')", job->id));
    job->state = READY;
    job->attempt = job->asked = 0;
}

static void purge(void)
{
    enum state state = any(2) ? READY : DONE;
    int gone = 0;

    for (int i = 0; i < count; i++) {
        if (jobs[i].state != state && (state != DONE || jobs[i].state != CANCELLED)) continue;
        gone++;
        jobs[i].state = GONE;
    }
    TEST_ASSERT_EQUAL_INT64(
        gone, kit_number(anyone(), "SELECT pgwork.queue_purge('q', '%s')", state_names[state]));
}

/* A claim, or a finish, that is rolled back has never been. */
static void undo(void)
{
    PGconn *conn = anyone();
    struct job *job = some(LEASED), *some_jobs[20];
    struct took got[8];
    int n;

    kit_do(conn, "BEGIN");
    kit_claim(conn, "q", 8, got);
    if (job)
        TEST_ASSERT_EQUAL_STRING("ok",
                                 kit_say(conn, any(2) ? "complete" : "release", &job->held, ""));
    n = pick(some_jobs, 20);
    if (n > 0) kit_do(conn, "SELECT pgwork.complete(%s)", refs(some_jobs, n));
    kit_put(conn, "q");
    kit_do(conn, "ROLLBACK");
}

/* Nothing is due: all that the reaper moves are its low-water marks. */
static void maintain(void)
{
    TEST_ASSERT_EQUAL_INT64(
        0, kit_number(anyone(), "SELECT reaped + died + promoted + pruned FROM pgwork.maintain()"));
}

/* Or autovacuum is at it. */
static void compact(void)
{
    const char *state = kit_state(anyone(), "SELECT pgwork.compact()");

    if (*state) TEST_ASSERT_EQUAL_STRING_MESSAGE("55006", state, kit_why());
}

/* -- the walk ------------------------------------------------------------------------------------
 */

static void check(void)
{
    PGresult *res = kit_rows(
        session[0], "SELECT id, state, attempt FROM pgwork.job WHERE queue = 'q' ORDER BY id");
    int there = 0, at = 0;

    for (int i = 0; i < count; i++) there += jobs[i].state != GONE;
    TEST_ASSERT_EQUAL_INT(there,
                          PQntuples(res)); /* so none is in two places, and none in no place */
    for (int i = 0; i < count; i++) {
        if (jobs[i].state == GONE) continue;
        TEST_ASSERT_EQUAL_INT64(jobs[i].id, strtoll(PQgetvalue(res, at, 0), NULL, 10));
        TEST_ASSERT_EQUAL_STRING(state_names[jobs[i].state], PQgetvalue(res, at, 1));
        TEST_ASSERT_EQUAL_INT(jobs[i].attempt, strtol(PQgetvalue(res, at, 2), NULL, 10));
        at++;
    }
    PQclear(res);
}

static void walk(void)
{
    static void (*const verbs[])(void) = {
        put,      put,      put,      put,         claim,   claim,       claim,
        finish,   finish,   extend,   meddle,      meddle,  finish_many, finish_many,
        cancel,   cancel,   reap,     promote,     redrive, reschedule,  undo,
        maintain, maintain, maintain, finish_many, compact};

    count = shared = 0;
    kit_do(session[0],
           "SELECT pgwork.queue_create('q', lease_ms => 7200000, max_attempts => %d,"
           " retention_ms => 36000000, backoff_ms => 3600000, backoff_cap_ms => 3600000)",
           MAX_ATTEMPTS);
    for (int step = 0; step < STEPS; step++) {
        verbs[any(sizeof(verbs) / sizeof(verbs[0]))]();
        if (any(200) == 0) purge();
        if (step % 50 == 0) check();
    }
    check();
    for (long long end = kit_ms() + 120000;
         some(READY) && kit_ms() < end;) { /* all that is ready can be had */
        claim();
        while (some(LEASED)) finish();
    }
    TEST_ASSERT_NULL(some(READY));
    check();
    TEST_ASSERT_GREATER_THAN_INT(30, shared); /* else it has tried little */
    kit_expire(session[0], "q");
    kit_do(session[0], "SELECT pgwork.reap('q')");
    kit_do(session[0], "SELECT pgwork.queue_drop('q', true)");
    kit_do(session[0], "SELECT pgwork.prune()"); /* what it leaves to reapers */
}

/* Walks as often as it should, with a seed each. */
static void walks(void (*walk_once)(void))
{
    const char *given = getenv("PGW_SEED");

    for (int i = 0; i < (given ? 1 : WALKS); i++) {
        seed = given    ? strtoull(given, NULL, 10)
               : i == 0 ? 1 /* what it finds, it finds again */
                        : (uint64_t)time(NULL) * 2000006u;
        printf("PGW_SEED=%" PRIu64 "\n", seed);
        fflush(stdout);
        walk_once();
    }
}

void test_a_random_walk_agrees_with_the_model(void)
{
    walks(walk);
}

/* -- permits ------------------------------------------------------------------------------------
 */

enum { WAITERS = 6, TURNS = 500 };

struct waiter {
    PGconn *conn;
    int n;        /* permits that it wants; 0: it does not wait */
    bool at_head; /* and was told so */
};

struct grant {
    char token[40];
    int n;
};

static struct waiter waiters[WAITERS];
static struct waiter *queue[WAITERS]; /* in the order of their coming */
static struct grant grants[100];
static int queued, granted, permits, taken, passed;

static void go(struct waiter *w)
{
    int at = 0;

    while (queue[at] != w) at++;
    queued--;
    for (; at < queued; at++) queue[at] = queue[at + 1];
    w->n = 0, w->at_head = false;
}

static void ask(struct waiter *w, bool turn)
{
    kit_send(
        w->conn,
        "SELECT coalesce(token::text, '') FROM pgwork.sema_wait('s', %d, 3600000, NULL, false, "
        "600000, %s)",
        w->n, turn ? "true" : "false");
}

static void grant(const char *token, int n)
{
    TEST_ASSERT_TRUE(granted < 100);
    snprintf(grants[granted].token, sizeof(grants[granted].token), "%s", token);
    grants[granted++].n = n;
    taken += n;
}

/* Who stands in front gets his permits if there are enough, and nobody else gets any. */
static void settle(void)
{
    while (queued > 0) {
        struct waiter *w = queue[0];
        const bool enough = permits - taken >= w->n;
        const char *token;

        if (w->at_head) ask(w, true);
        token = kit_answer(w->conn); /* else he was asking, and waited for those in front */
        for (int i = 0; i < 500 && enough && token[0] == '\0';
             i++) { /* who looks on may lock one */
            kit_sleep_ms(10);
            ask(w, true);
            token = kit_answer(w->conn);
        }
        w->at_head = true;
        TEST_ASSERT_EQUAL_INT(enough, token[0] != '\0');
        if (!enough) break;
        grant(token, w->n);
        go(w);
        passed += queued > 0;
    }
    for (int i = 1; i < queued; i++) {
        TEST_ASSERT_EQUAL_INT(1, PQconsumeInput(queue[i]->conn));
        TEST_ASSERT_EQUAL_INT(1, PQisBusy(queue[i]->conn));
    }
}

/* As the last one, who is seen to wait before anybody else comes; or to be through: when it was the
 * head itself that came anew, those behind it may have been quicker. */
static void come(struct waiter *w, int n)
{
    w->n = n;
    queue[queued++] = w;
    ask(w, false);
    while (queued > 1 && PQconsumeInput(w->conn) && PQisBusy(w->conn) &&
           kit_number(session[0], "SELECT cardinality(pg_blocking_pids(%d))",
                      PQbackendPID(w->conn)) == 0)
        kit_sleep_ms(2);
}

static void waiter_comes(void)
{
    struct waiter *w = &waiters[any(WAITERS)];

    if (w->n == 0) come(w, 1 + (int)any(3));
}

/* Who does not speak of his turn goes to the end. */
static void head_comes_again(void)
{
    struct waiter *w = queue[0];
    const int n = queued > 0 ? w->n : 0;

    if (n == 0) return;
    go(w);
    come(w, n);
}

static void permits_come_back(void)
{
    const int i = granted > 0 ? (int)any((unsigned)granted) : 0;

    if (granted == 0) return;
    TEST_ASSERT_EQUAL_STRING(
        "t", kit_text(session[0], "SELECT pgwork.sema_release('s', '%s')", grants[i].token));
    taken -= grants[i].n;
    grants[i] = grants[--granted];
}

static void somebody_leaves(void)
{
    const unsigned i = queued > 0 ? any((unsigned)queued) : 0;
    struct waiter *w = queue[i];

    if (queued == 0) return;
    if (!w->at_head) {
        kit_do(session[0], "SELECT pg_cancel_backend(%d)", PQbackendPID(w->conn));
        PQclear(PQgetResult(w->conn));
        PQclear(PQgetResult(w->conn));
    } else {
        TEST_ASSERT_EQUAL_STRING("t", kit_text(w->conn, "SELECT pgwork.sema_leave('s')"));
    }
    go(w);
}

static void somebody_dies(void)
{
    const unsigned i = queued > 0 ? any((unsigned)queued) : 0;
    struct waiter *w = queue[i];

    if (queued == 0) return;
    kit_do(session[0], "SELECT pg_terminate_backend(%d, 60000)", PQbackendPID(w->conn));
    kit_close(w->conn);
    w->conn = kit_open();
    go(w);
}

static void somebody_tries(void)
{
    const int n = 1 + (int)any(3);
    const char *token =
        kit_text(session[0], "SELECT token FROM pgwork.sema_acquire('s', %d, 3600000)", n);

    TEST_ASSERT_EQUAL_INT(queued == 0 && permits - taken >= n, token != NULL);
    if (token != NULL) grant(token, n);
}

static void their_number_changes(void)
{
    permits = 3 + (int)any(4);
    kit_do(session[0], "SELECT pgwork.sema_resize('s', %d)", permits);
}

static void walk_of_waiters(void)
{
    static void (*const verbs[])(void) = {
        waiter_comes,      waiter_comes,      waiter_comes,        waiter_comes,
        waiter_comes,      permits_come_back, permits_come_back,   permits_come_back,
        permits_come_back, head_comes_again,  somebody_leaves,     somebody_dies,
        somebody_tries,    somebody_tries,    their_number_changes};

    granted = queued = taken = passed = 0;
    permits = 4;
    kit_do(session[0], "SELECT pgwork.sema_create('s', %d)", permits);
    for (int i = 0; i < WAITERS; i++) waiters[i] = (struct waiter){.conn = kit_open()};
    for (int step = 0; step < TURNS; step++) {
        verbs[any(sizeof(verbs) / sizeof(verbs[0]))]();
        settle();
        TEST_ASSERT_EQUAL_STRING(
            kit_text(session[0], "SELECT '%d %d'", taken, queued),
            kit_text(session[0], "SELECT taken || ' ' || waiting FROM pgwork.sema_list('s')"));
    }
    TEST_ASSERT_GREATER_THAN_INT(5, passed); /* else hardly anybody has waited */
    for (int i = 0; i < WAITERS; i++) kit_close(waiters[i].conn);
    kit_do(session[0], "SELECT pgwork.sema_drop('s', true)");
}

void test_waiters_for_permits_get_them_in_the_order_of_arrival(void)
{
    walks(walk_of_waiters);
}
