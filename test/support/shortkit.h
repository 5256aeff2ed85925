/* shortkit: what the tests of short claims share: sessions that remember, on purpose, and claims
 * that complete. While the memory is fresh, a small claim goes the short way: one statement that
 * completes what is done and claims the next jobs. In these programs' databases the memory is good
 * for hours instead of milliseconds: each test knows which way it went, whatever the machine's
 * speed. Included by a test program's one file; needs its own includes of unity.h, pgtemp.h and
 * sqlkit.h. */
#ifndef SHORTKIT_H
#define SHORTKIT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATIENCE_MS = 30000, MANY = 10 };

#define NOW   "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
#define QUEUE "(SELECT id FROM pgwork.queue WHERE name = 'q')"

static PGconn *a, *b, *watch;
static struct took mine[MANY], theirs[MANY], more[MANY];
static char kept[1000];    /* what remember() saw */
static char refused[1000]; /* by the last trade(): "0 stale,2 gone", numbers of what was done */

/* -- what a session remembers ------------------------------------------------------------------ */

/* The one condition that knows the time; all else stays as it is. */
static inline void stretch_time(void)
{
    kit_do(watch, "DO $$ DECLARE is_now text := pg_get_functiondef('pgwork.claim_batch'::regproc);"
                  " BEGIN IF strpos(is_now, 'now_ms + 1200 ') > 0 THEN"
                  " EXECUTE replace(is_now, 'now_ms + 1200 ', 'now_ms + 10000000 ');"
                  " END IF; END $$");
    TEST_ASSERT_EQUAL_INT64(
        1,
        kit_number(watch, "SELECT count(*) FROM regexp_matches(pg_get_functiondef("
                          "'pgwork.claim_batch'::regproc), 'short.1. BETWEEN now_ms AND now_ms [+]"
                          " 10000000 ', 'g')"));
}

static inline long long through(PGconn *conn)
{
    return kit_number(
        conn, "SELECT coalesce((nullif(current_setting(pgwork._short('q'), true), '')::bigint[])[4]"
              ", -1)");
}

/* What the last claim has left is good from now on; and the hint is due, so that it will be seen
 * when a later one goes the long way and gets something there. */
static inline void remember(PGconn *conn)
{
    TEST_ASSERT_TRUE_MESSAGE(through(conn) >= 0, "no memory");
    kit_set_short(conn, "ARRAY[" NOW " + 3600000] || s[2:]");
    kit_set_hint(conn, "ARRAY[h[1], 0] || h[3:]");
    snprintf(kept, sizeof(kept), "%s",
             kit_text(conn, "SELECT current_setting(pgwork._short('q'))"));
}

/* The same once more, whatever claims have done since. */
static inline void remember_again(PGconn *conn)
{
    kit_do(conn, "SELECT set_config(pgwork._short('q'), '%s', false)", kept);
    kit_set_hint(conn, "ARRAY[h[1], 0] || h[3:]");
}

/* A claim that goes the short way and gets enough leaves all as it was; one that does not get
 * enough there forgets. */
static inline const char *way(PGconn *conn)
{
    return kit_text(conn, "SELECT CASE WHEN s[1] > " NOW " + 1000000 IS NOT TRUE THEN 'both'"
                          " WHEN h[2] = 0 THEN 'short' ELSE 'long' END FROM (SELECT"
                          " nullif(current_setting(pgwork._short('q'), true), '')::bigint[],"
                          " nullif(current_setting(pgwork._hint(" QUEUE "), true),"
                          " '')::bigint[]) m (s, h)");
}

#define WENT(conn, expected) TEST_ASSERT_EQUAL_STRING(expected, way(conn))

/* -- jobs -------------------------------------------------------------------------------------- */

static inline void fill_at(int priority, int n)
{
    kit_do(watch,
           "SELECT count(*) FROM pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[%d]),"
           " priorities => '{%d}')",
           n, priority);
}

static inline void fill(int n)
{
    fill_at(0, n);
}

/* Claim n the long way, and remember. */
static inline void take(PGconn *conn, int n, struct took *out)
{
    kit_set_short(conn, "NULL");
    kit_set_hint(conn, "ARRAY[h[1], 0, h[3], " NOW " + 60000] || h[5:]"); /* no survey just now */
    TEST_ASSERT_EQUAL_INT(n, kit_claim(conn, "q", n, out));
    remember(conn);
}

/* Until the marks stand where they stand in a session that has worked for a while: all that was
 * enqueued up to now lies behind them. */
static inline void warm(PGconn *conn)
{
    struct took job;
    long long id = kit_put(watch, "q");

    for (long long end = kit_ms() + PATIENCE_MS; kit_ms() < end; kit_put(watch, "q")) {
        take(conn, 1, &job);
        TEST_ASSERT_EQUAL_STRING("ok", kit_say(conn, "complete", &job, ""));
        if (through(conn) >= id) return;
        kit_sleep_ms(2);
    }
    TEST_FAIL_MESSAGE("the marks do not move on");
}

/* Complete k jobs and claim n, in one call. */
static inline void ask(PGconn *conn, int n, const struct took *done, int k)
{
    char ids[MANY * 24] = "", tokens[MANY * 40] = "";

    for (int i = 0; i < k; i++) {
        const char *comma = i > 0 ? "," : "";

        snprintf(ids + strlen(ids), 24, "%s%lld", comma, done[i].id);
        snprintf(tokens + strlen(tokens), 40, "%s%s", comma, done[i].token);
    }
    kit_send(conn,
             "SELECT id, attempt, kind, token, priority, queue FROM pgwork.claim('{q}', %d,"
             " current_setting('application_name'), NULL, '{%s}', '{%s}')",
             n, ids, tokens);
}

/* How many came, and what was refused. */
static inline int answer(PGconn *conn, int n, const struct took *done, int k, struct took *out)
{
    PGresult *res = PQgetResult(conn);
    size_t length = 0;
    int got = 0, said = 0, told = 0;

    TEST_ASSERT_EQUAL_INT_MESSAGE(PGRES_TUPLES_OK, PQresultStatus(res), PQerrorMessage(conn));
    TEST_ASSERT_NULL(PQgetResult(conn));
    while (said < PQntuples(res) && *PQgetvalue(res, said, 1) == '0') said++;
    *refused = 0;
    for (int i = 0; i < k; i++)
        for (int row = 0; row < said; row++)
            if (strtoll(PQgetvalue(res, row, 0), NULL, 10) == done[i].id)
                length += (size_t)snprintf(refused + length, sizeof(refused) - length, "%s%d %s",
                                           told++ > 0 ? "," : "", i, PQgetvalue(res, row, 2));
    TEST_ASSERT_EQUAL_INT_MESSAGE(said, told, "refused what was not done, or one twice");
    for (int row = said; row < PQntuples(res); row++, got++) {
        TEST_ASSERT_TRUE_MESSAGE(got < n, "more than n");
        out[got].id = strtoll(PQgetvalue(res, row, 0), NULL, 10);
        out[got].attempt = (int)strtol(PQgetvalue(res, row, 1), NULL, 10);
        out[got].priority = (int)strtol(PQgetvalue(res, row, 4), NULL, 10);
        snprintf(out[got].token, sizeof(out[got].token), "%s", PQgetvalue(res, row, 3));
        snprintf(out[got].queue, sizeof(out[got].queue), "%s", PQgetvalue(res, row, 5));
        TEST_ASSERT_TRUE_MESSAGE(out[got].attempt > 0, "refused ones come first");
    }
    PQclear(res);
    return got;
}

static inline int trade(PGconn *conn, int n, const struct took *done, int k, struct took *out)
{
    ask(conn, n, done, k);
    return answer(conn, n, done, k, out);
}

/* "0 gone,1 gone" for n */
static inline const char *each(int n, const char *why)
{
    static char text[1000];
    size_t length = 0;

    for (int i = 0; i < n; i++)
        length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%d %s",
                                   i > 0 ? "," : "", i, why);
    return text;
}

#define TRADED(got, says, n, done, k, out)                     \
    do {                                                       \
        TEST_ASSERT_EQUAL_INT(got, trade(a, n, done, k, out)); \
        TEST_ASSERT_EQUAL_STRING(says, refused);               \
    } while (0)

#define SAYS(status, conn, verb, job) TEST_ASSERT_EQUAL_STRING(status, kit_say(conn, verb, job, ""))

static inline void check_places(int ready, int leased)
{
    TEST_ASSERT_EQUAL_STRING(kit_text(watch, "SELECT '%d %d 0 0 0'", ready, leased),
                             kit_places(watch, "q"));
}

/* First attempts, in their order, and none of them among the others. */
static inline void check_new(const struct took *jobs, int n, const struct took *others, int k)
{
    for (int i = 0; i < n; i++) {
        TEST_ASSERT_EQUAL_INT(1, jobs[i].attempt);
        TEST_ASSERT_TRUE(i == 0 || jobs[i - 1].id < jobs[i].id);
        for (int j = 0; j < k; j++) TEST_ASSERT_TRUE(jobs[i].id != others[j].id);
    }
}

/* The reaper takes a job whose lease has run out. */
static inline void expire(const struct took *job)
{
    kit_do(watch,
           "UPDATE pgwork.live_job SET lease_until = now() - interval '1 s' WHERE token = '%s'",
           job->token);
}

static inline void reap(int returned)
{
    TEST_ASSERT_EQUAL_INT64(returned, kit_number(watch, "SELECT returned FROM pgwork.reap('q')"));
}

/* mine[i] is theirs[i] now. */
static inline void lose(int i)
{
    expire(mine + i);
    reap(1);
    TEST_ASSERT_EQUAL_INT(1, kit_claim(b, "q", 1, theirs + i));
    TEST_ASSERT_EQUAL_INT64(mine[i].id, theirs[i].id);
    TEST_ASSERT_EQUAL_INT(2, theirs[i].attempt);
    reap(0); /* no suspects any more */
}

static inline void short_begin(void)
{
    kit_begin();
    a = kit_open();
    b = kit_open();
    watch = kit_open();
    stretch_time();
    kit_do(watch, "SELECT pgwork.queue_create('q', lease_ms => 600000)");
    warm(a);
    warm(b);
}

#endif
