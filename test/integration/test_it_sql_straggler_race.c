/* Stragglers among many: producers that are open for long and for short, that roll back all or a
 * savepoint, beside claims of all sizes, and beside tables that get new files. Each committed job
 * is finished, and once. */
#include "unity.h"
#include "pgtemp.h"
#include "sqlkit.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PRODUCERS = 6, CLAIMERS = 6, RUN_MS = 1200, PATIENCE_MS = 30000, MOST = 50000 };

static bool bulk;   /* jobs come in bundles, too */
static bool renews; /* tables get new files */

struct bustle {
    atomic_int producing; /* of them, still at it */
    atomic_int made, finished, refused, renewed, wrong;
    int n_made[PRODUCERS], n_finished[CLAIMERS];
    long long ids_made[PRODUCERS][MOST], ids_finished[CLAIMERS][MOST];
};

void setUp(void)
{
    kit_begin();
    bulk = false;
    renews = false;
}

void tearDown(void)
{
    kit_end();
}

static unsigned any(unsigned *seed, unsigned n)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % n;
}

static int enqueue(PGconn *conn, unsigned *seed, long long *ids)
{
    int n = any(seed, 3) ? 1 : 1 + (int)any(seed, bulk ? 200 : 30);
    PGresult *res = kit_rows(conn,
                             "SELECT id FROM pgwork.enqueue_many('q', array_fill('1'::jsonb,"
                             " ARRAY[%d]), priorities => '{%u}')",
                             n, any(seed, 4) / 2);

    for (int i = 0; i < n; i++) ids[i] = strtoll(PQgetvalue(res, i, 0), NULL, 10);
    PQclear(res);
    return n;
}

/* One transaction, open for a while; how many jobs came to be. */
static int produce(PGconn *conn, unsigned *seed, unsigned open_ms, long long *ids)
{
    bool committed = any(seed, 10) != 0;
    int n = 0;

    kit_do(conn, "BEGIN");
    if (any(seed, 4) == 0) {
        bool released = any(seed, 2) != 0;
        int within;

        kit_do(conn, "SAVEPOINT s");
        within = enqueue(conn, seed, ids);
        kit_do(conn, released ? "RELEASE s" : "ROLLBACK TO s");
        if (released) n += within;
    }
    n += enqueue(conn, seed, ids + n);
    kit_sleep_ms((int)any(seed, open_ms));
    if (any(seed, 3) == 0) n += enqueue(conn, seed, ids + n);
    kit_do(conn, committed ? "COMMIT" : "ROLLBACK");
    return committed ? n : 0;
}

/* Some are open for less than the time between surveys, one for more, one hardly at all. */
static void produce_often(PGconn *conn, int i, struct bustle *b)
{
    static const unsigned open_ms[PRODUCERS] = {80, 80, 80, 80, 800, 5};
    unsigned seed = 77u * (unsigned)i + 5;

    for (long long end = kit_ms() + RUN_MS; kit_ms() < end && b->n_made[i] < MOST - 1000;) {
        int n = produce(conn, &seed, open_ms[i], b->ids_made[i] + b->n_made[i]);

        b->n_made[i] += n;
        atomic_fetch_add(&b->made, n);
    }
    atomic_fetch_sub(&b->producing, 1);
}

/* Jobs as the arguments "ids, tokens" of the protocol. */
static const char *named(const struct took *job, int n)
{
    static _Thread_local char text[100 * 64];
    size_t length = (size_t)snprintf(text, sizeof(text), "'{");

    for (int i = 0; i < n; i++)
        length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%lld", i ? "," : "",
                                   job[i].id);
    length += (size_t)snprintf(text + length, sizeof(text) - length, "}'::bigint[], '{");
    for (int i = 0; i < n; i++)
        length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%s", i ? "," : "",
                                   job[i].token);
    snprintf(text + length, sizeof(text) - length, "}'::uuid[]");
    return text;
}

static void finished(struct bustle *b, int i, const struct took *job, int n)
{
    for (int k = 0; k < n && b->n_finished[i] < MOST; k++)
        b->ids_finished[i][b->n_finished[i]++] = job[k].id;
    atomic_fetch_add(&b->finished, n);
}

/* Completes what it holds and claims in one call; how many it holds then. */
static int swap(PGconn *conn, int i, struct bustle *b, int most, struct took *job, int held)
{
    PGresult *res = kit_rows(conn,
                             "SELECT id, token, attempt FROM pgwork.claim('{q}', %d, 'swap',"
                             " NULL, %s)",
                             most, named(job, held));
    int got = 0;

    finished(b, i, job, held);
    for (int k = 0; k < PQntuples(res); k++) {
        if (strcmp(PQgetvalue(res, k, 2), "0") == 0) {
            atomic_fetch_add(&b->refused, 1);
            continue;
        }
        job[got].id = strtoll(PQgetvalue(res, k, 0), NULL, 10);
        snprintf(job[got++].token, sizeof(job[0].token), "%s", PQgetvalue(res, k, 1));
    }
    PQclear(res);
    return got;
}

/* Until all is finished that was ever committed, or patience is. */
static void claim_often(PGconn *conn, int i, struct bustle *b)
{
    static const int most[3] = {1, 7, 100};
    struct took job[100];
    bool swaps = i < 3;
    int held = 0;

    for (long long end = kit_ms() + RUN_MS + PATIENCE_MS; kit_ms() < end;) {
        if (swaps) {
            held = swap(conn, i, b, most[i % 3], job, held);
        } else {
            held = kit_claim(conn, "q", most[i % 3], job);
            atomic_fetch_add(&b->refused,
                             (int)kit_number(conn, "SELECT count(*) FROM pgwork.complete('q', %s)",
                                             named(job, held)));
            finished(b, i, job, held);
        }
        if (held > 0) continue;
        if (atomic_load(&b->producing) == 0 && atomic_load(&b->finished) == atomic_load(&b->made))
            break;
        kit_sleep_ms(4);
    }
}

/* Never waits for a producer that is open for long: nobody would get in meanwhile. */
static void renew_often(PGconn *conn, struct bustle *b)
{
    static const char *const tables[] = {"live_job", "pack", "live_job", "pack_out"};

    kit_do(conn, "SET lock_timeout = '20ms'");
    for (long long end = kit_ms() + RUN_MS + PATIENCE_MS, k = 0; kit_ms() < end; k++) {
        const char *state = kit_try_renew(conn, tables[k % 4], k % 8 > 3);

        if (*state == '\0')
            atomic_fetch_add(&b->renewed, 1);
        else if (strcmp(state, "55P03") != 0)
            atomic_fetch_add(&b->wrong, 1);
        if (atomic_load(&b->producing) == 0 && atomic_load(&b->finished) == atomic_load(&b->made))
            break;
        kit_sleep_ms(10);
    }
}

static void bustle_one(PGconn *conn, int i, void *ctx)
{
    if (i < PRODUCERS)
        produce_often(conn, i, ctx);
    else if (i < PRODUCERS + CLAIMERS)
        claim_often(conn, i - PRODUCERS, ctx);
    else
        renew_often(conn, ctx);
}

static int by_number(const void *x, const void *y)
{
    long long p = *(const long long *)x, q = *(const long long *)y;

    return (p > q) - (p < q);
}

/* All lists in one, in order. */
static int merge(long long lists[][MOST], const int *lengths, int n, long long *all)
{
    int sum = 0;

    for (int i = 0; i < n; i++) {
        memcpy(all + sum, lists[i], (size_t)lengths[i] * sizeof(*all));
        sum += lengths[i];
    }
    qsort(all, (size_t)sum, sizeof(*all), by_number);
    return sum;
}

static void check_that_each_is_finished_once(void)
{
    static struct bustle b;
    static long long made[PRODUCERS * MOST], done[CLAIMERS * MOST];
    int n;

    kit_do(pgtemp_conn(), "SELECT pgwork.queue_create('q', lease_ms => 600000, bulk => %d = 1)",
           bulk);
    memset(&b, 0, sizeof(b));
    b.producing = PRODUCERS;
    kit_race(PRODUCERS + CLAIMERS + renews, bustle_one, &b);
    n = merge(b.ids_made, b.n_made, PRODUCERS, made);
    TEST_ASSERT_TRUE(n > 0);
    TEST_ASSERT_EQUAL_INT(0, b.refused);
    TEST_ASSERT_EQUAL_INT(0, b.wrong);
    TEST_ASSERT_EQUAL(renews, b.renewed > 0);
    TEST_ASSERT_EQUAL_STRING("0 0 0 0 0", kit_places(pgtemp_conn(), "q"));
    TEST_ASSERT_EQUAL_INT(n, merge(b.ids_finished, b.n_finished, CLAIMERS, done));
    for (int i = 0; i < n; i++) TEST_ASSERT_EQUAL_INT64(made[i], done[i]);
}

void test_each_job_of_many_late_producers_is_finished_once(void)
{
    check_that_each_is_finished_once();
}

void test_and_so_where_many_come_in_bundles(void)
{
    bulk = true;
    check_that_each_is_finished_once();
}

void test_and_so_while_vacuum_is_held_back(void)
{
    PGconn *reader = kit_open();

    kit_do(reader,
           "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT count(*) FROM pgwork.job");
    check_that_each_is_finished_once();
}

TEST_CASE(false)
TEST_CASE(true)
void test_and_so_while_tables_get_new_files(bool in_bundles)
{
    bulk = in_bundles;
    renews = true;
    check_that_each_is_finished_once();
}
