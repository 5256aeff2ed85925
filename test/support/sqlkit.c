#include "sqlkit.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pgtemp.h"
#include "unity.h"

enum { KIT_CONNS = 128, KIT_SQL = 65536 };

struct racer {
    pthread_t thread;
    PGconn *conn;
    int i;
    void (*fn)(PGconn *, int, void *);
    void *ctx;
    jmp_buf out;
    char message[600];
};

static PGconn *kit_conns[KIT_CONNS];
static int kit_opened;
static char *kit_unchanged; /* the definition that kit_mutate() has replaced */
static pthread_mutex_t kit_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t kit_met = PTHREAD_COND_INITIALIZER;
static int kit_racing, kit_waiting; /* racers that run; of these, waiting at kit_together() */
static unsigned kit_round;
static _Thread_local struct racer *kit_me; /* NULL: the test's own thread */
static _Thread_local char kit_message[1024];

/* Unity jumps out of a test, which only the test's own thread may do; a racer leaves by a door of
 * its own. */
static _Noreturn void fail(const char *message, const char *sql)
{
    char text[600];

    snprintf(text, sizeof(text), "%.380s in: %.200s", message, sql);
    if (kit_me) {
        memcpy(kit_me->message, text, sizeof(text));
        longjmp(kit_me->out, 1);
    }
    TEST_FAIL_MESSAGE(text);
    abort(); /* not reached */
}

static PGresult *run(PGconn *conn, const char *format, va_list args)
{
    static _Thread_local char sql[KIT_SQL];
    int length = vsnprintf(sql, sizeof(sql), format, args);

    if (length < 0 || length >= (int)sizeof(sql)) fail("statement too long", format);
    return PQexec(conn, sql);
}

static bool good(const PGresult *res)
{
    ExecStatusType status = PQresultStatus(res);

    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

static PGresult *must(PGconn *conn, PGresult *res, const char *sql)
{
    char message[400];

    if (good(res)) return res;
    snprintf(message, sizeof(message), "%s", PQerrorMessage(conn));
    PQclear(res);
    fail(message, sql);
}

static const char *first_value(PGresult *res)
{
    static _Thread_local char ring[16][4096];
    static _Thread_local unsigned next;
    char *value = NULL;

    if (PQntuples(res) > 0 && PQnfields(res) > 0 && !PQgetisnull(res, 0, 0)) {
        value = ring[next++ % 16];
        snprintf(value, sizeof(ring[0]), "%s", PQgetvalue(res, 0, 0));
    }
    PQclear(res);
    return value;
}

void kit_begin(void)
{
    pgtemp_migrate();
    pgtemp_exec("SELECT pgwork.queue_drop(name, true) FROM pgwork.queue;"
                "SELECT pgwork.prune(100000);"
                "SELECT pgwork.setting('implicit_queues', 'on');"
                "SELECT pgwork.setting('low_water_marks', 'on');"
                "SELECT pgwork.setting('max_queues', '10000');"
                "SELECT pgwork.setting('op_retention_ms', '86400000')");
}

PGconn *kit_open(void)
{
    PGconn *conn = pgtemp_connect();

    if (kit_opened == KIT_CONNS) fail("too many connections", "kit_open");
    kit_conns[kit_opened++] = conn;
    kit_do(conn, "SET application_name = 'holder %d'", kit_opened);
    /* Nobody else ends a wait for a session of the test's own. */
    kit_do(conn, "SET lock_timeout = '60s'");
    return conn;
}

void kit_close(PGconn *conn)
{
    int i;

    for (i = 0; i < kit_opened && kit_conns[i] != conn; i++)
        ;
    if (i < kit_opened) kit_conns[i] = kit_conns[--kit_opened];
    PQfinish(conn);
}

void kit_mutate(PGconn *conn, const char *function, const char *from, const char *to)
{
    PGresult *res = kit_rows(conn,
                             "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname = '%s' AND "
                             "pronamespace = 'pgwork'::regnamespace",
                             function);
    const char *text = PQgetvalue(res, 0, 0), *found = strstr(text, from);

    if (found == NULL) fail("it has no such text", from);
    if (kit_unchanged == NULL) kit_unchanged = strdup(text);
    kit_do(conn, "%.*s%s%s", (int)(found - text), text, to, found + strlen(from));
    PQclear(res);
}

void kit_restore(void)
{
    if (kit_unchanged != NULL) pgtemp_exec(kit_unchanged);
    free(kit_unchanged);
    kit_unchanged = NULL;
}

void kit_end(void)
{
    kit_restore();
    while (kit_opened > 0) PQfinish(kit_conns[--kit_opened]);
}

PGresult *kit_rows(PGconn *conn, const char *format, ...)
{
    va_list args;
    PGresult *res;

    va_start(args, format);
    res = run(conn, format, args);
    va_end(args);
    return must(conn, res, format);
}

void kit_do(PGconn *conn, const char *format, ...)
{
    va_list args;
    PGresult *res;

    va_start(args, format);
    res = run(conn, format, args);
    va_end(args);
    PQclear(must(conn, res, format));
}

const char *kit_text(PGconn *conn, const char *format, ...)
{
    va_list args;
    PGresult *res;

    va_start(args, format);
    res = run(conn, format, args);
    va_end(args);
    return first_value(must(conn, res, format));
}

long long kit_number(PGconn *conn, const char *format, ...)
{
    va_list args;
    PGresult *res;
    const char *value;
    char *end = NULL;
    long long number;

    va_start(args, format);
    res = run(conn, format, args);
    va_end(args);
    value = first_value(must(conn, res, format));
    if (!value) fail("no number", format);
    number = strtoll(value, &end, 10);
    if (end == value || *end) fail("no number", format);
    return number;
}

void kit_send(PGconn *conn, const char *format, ...)
{
    char sql[4096];
    va_list args;

    va_start(args, format);
    vsnprintf(sql, sizeof(sql), format, args);
    va_end(args);
    if (!PQsendQuery(conn, sql)) fail(PQerrorMessage(conn), sql);
}

void kit_blocked(PGconn *conn, PGconn *watch)
{
    for (long long end = kit_ms() + 10000; kit_ms() < end; kit_sleep_ms(2))
        if (kit_number(watch, "SELECT cardinality(pg_blocking_pids(%d))", PQbackendPID(conn)) > 0)
            return;
    fail("waits for nobody", "kit_blocked");
}

const char *kit_answer(PGconn *conn)
{
    PGresult *res = PQgetResult(conn), *end;

    while ((end = PQgetResult(conn))) PQclear(end);
    return first_value(must(conn, res, "an answer"));
}

static const char *state_of(PGresult *res)
{
    static _Thread_local char state[8];
    const char *code = PQresultErrorField(res, PG_DIAG_SQLSTATE);
    const char *why = PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);
    const char *which = PQresultErrorField(res, PG_DIAG_MESSAGE_DETAIL);

    snprintf(state, sizeof(state), "%s", good(res) ? "" : code ? code : "?????");
    snprintf(kit_message, sizeof(kit_message), "%s%s%s", why ? why : "", which ? "\n" : "",
             which ? which : "");
    PQclear(res);
    return state;
}

const char *kit_state(PGconn *conn, const char *format, ...)
{
    va_list args;
    PGresult *res;

    va_start(args, format);
    res = run(conn, format, args);
    va_end(args);
    return state_of(res);
}

const char *kit_why(void)
{
    return kit_message;
}

void kit_refused(PGconn *conn, const char *state, const char *words, const char *format, ...)
{
    va_list args;
    PGresult *res;
    const char *got;
    char word[128];

    va_start(args, format);
    res = run(conn, format, args);
    va_end(args);
    got = state_of(res);
    TEST_ASSERT_EQUAL_STRING_MESSAGE(state, got, format);
    while (*words) {
        size_t length = strcspn(words, "|");

        snprintf(word, sizeof(word), "%.*s", (int)length, words);
        if (!strstr(kit_message, word)) {
            char text[1400];

            snprintf(text, sizeof(text), "no \"%s\" in \"%s\"", word, kit_message);
            TEST_FAIL_MESSAGE(text);
        }
        words += length + (words[length] == '|');
    }
}

void kit_compact(PGconn *conn)
{
    const char *state = "55006";

    for (int i = 0; i < 600 && strcmp(state, "55006") == 0; i++) {
        if (i > 0) poll(NULL, 0, 50);
        state = kit_state(conn, "SELECT pgwork.compact()");
    }
    TEST_ASSERT_EQUAL_STRING_MESSAGE("", state, kit_why());
}

int kit_claim(PGconn *conn, const char *queue, int n, struct took *out)
{
    PGresult *res = kit_rows(conn,
                             "SELECT id, token, attempt, priority, queue FROM "
                             "pgwork.claim('{%s}', %d, current_setting('application_name'))",
                             queue, n);
    int got = PQntuples(res);

    if (got > n) fail("a claim returned more than n", queue);
    for (int i = 0; i < got; i++) {
        out[i].id = strtoll(PQgetvalue(res, i, 0), NULL, 10);
        out[i].attempt = (int)strtol(PQgetvalue(res, i, 2), NULL, 10);
        out[i].priority = (int)strtol(PQgetvalue(res, i, 3), NULL, 10);
        snprintf(out[i].token, sizeof(out[i].token), "%s", PQgetvalue(res, i, 1));
        snprintf(out[i].queue, sizeof(out[i].queue), "%s", PQgetvalue(res, i, 4));
    }
    PQclear(res);
    return got;
}

const char *kit_say(PGconn *conn, const char *verb, const struct took *job, const char *more)
{
    const char *status =
        kit_text(conn, "SELECT status FROM pgwork.%s('%s', '{%lld}'::bigint[], '{%s}'::uuid[]%s)",
                 verb, job->queue, job->id, job->token, more);

    return status ? status : "ok";
}

long long kit_put(PGconn *conn, const char *queue)
{
    return kit_number(conn, "SELECT id FROM pgwork.enqueue('%s')", queue);
}

void kit_expire(PGconn *conn, const char *queue)
{
    kit_do(conn,
           "UPDATE pgwork.live_job SET lease_until = clock_timestamp() - interval '1 s'"
           " WHERE token IS NOT NULL AND queue = (SELECT id FROM pgwork.queue WHERE name = '%s')",
           queue);
}

void kit_due(PGconn *conn, const char *queue)
{
    kit_do(conn,
           "UPDATE pgwork.delayed_job SET run_at = clock_timestamp() - interval '1 s'"
           " WHERE gate IS NULL AND queue = (SELECT id FROM pgwork.queue WHERE name = '%s')",
           queue);
}

const char *kit_places(PGconn *conn, const char *queue)
{
    return kit_text(
        conn, "SELECT concat_ws(' ', ready, leased, delayed, dead, done) FROM pgwork.depth('%s')",
        queue);
}

static void meet(void)
{
    if (kit_waiting < kit_racing) return;
    kit_waiting = 0;
    kit_round++;
    pthread_cond_broadcast(&kit_met);
}

void kit_together(void)
{
    unsigned round;

    pthread_mutex_lock(&kit_mutex);
    round = kit_round;
    kit_waiting++;
    meet();
    while (round == kit_round) pthread_cond_wait(&kit_met, &kit_mutex);
    pthread_mutex_unlock(&kit_mutex);
}

static void *race_one(void *arg)
{
    struct racer *r = arg;

    kit_me = r;
    if (setjmp(r->out) == 0) {
        kit_together();
        r->fn(r->conn, r->i, r->ctx);
    }
    kit_me = NULL;
    pthread_mutex_lock(&kit_mutex);
    kit_racing--; /* nobody waits for one that has left */
    meet();
    pthread_mutex_unlock(&kit_mutex);
    return NULL;
}

void kit_race(int n, void (*fn)(PGconn *conn, int i, void *ctx), void *ctx)
{
    struct racer *racers = calloc((size_t)n, sizeof(*racers));
    char message[600] = "";

    TEST_ASSERT_NOT_NULL(racers);
    kit_racing = n;
    kit_waiting = 0;
    for (int i = 0; i < n; i++) {
        racers[i].conn = kit_open();
        racers[i].i = i;
        racers[i].fn = fn;
        racers[i].ctx = ctx;
    }
    for (int i = 0; i < n; i++)
        if (pthread_create(&racers[i].thread, NULL, race_one, &racers[i]) != 0) abort();
    for (int i = 0; i < n; i++) {
        pthread_join(racers[i].thread, NULL);
        kit_close(racers[i].conn);
        if (!*message) memcpy(message, racers[i].message, sizeof(message));
    }
    free(racers);
    if (*message) TEST_FAIL_MESSAGE(message);
}

void kit_sleep_ms(int ms)
{
    struct timespec wait = {ms / 1000, ms % 1000 * 1000000L};

    nanosleep(&wait, NULL);
}

long long kit_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}
