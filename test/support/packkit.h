/* packkit: what the tests of packs share: three connections and the jobs that were claimed last.
 * Included by a test program's one file; needs its own includes of unity.h, pgtemp.h and sqlkit.h.
 */
#ifndef PACKKIT_H
#define PACKKIT_H

#include <stdio.h>

static PGconn *a, *b, *watch;
static struct took jobs[10000];

static inline void pack_begin(void)
{
    kit_begin();
    kit_few(1);
    a = kit_open();
    b = kit_open();
    watch = kit_open();
    kit_do(a, "SELECT pgwork.queue_create('q', backoff_ms => 3600000)");
}

static inline void fill(int n)
{
    kit_do(a, "SELECT count(*) FROM pgwork.enqueue_many('q', array_fill('1'::jsonb, ARRAY[%d]))",
           n);
}

static inline long long rows_of(const char *table)
{
    return kit_number(watch, "SELECT count(*) FROM pgwork.%s", table);
}

/* n jobs in one pack, jobs[0] .. jobs[n-1], and nothing else. */
static inline void take(int n)
{
    fill(n);
    TEST_ASSERT_EQUAL_INT(n, kit_claim(a, "q", n, jobs));
    TEST_ASSERT_EQUAL_INT64(1, rows_of("pack"));
    TEST_ASSERT_EQUAL_INT64(0, rows_of("live_job"));
}

/* verb('q', jobs[first .. first + n), their tokens + more) */
static inline const char *call(const char *verb, int first, int n, const char *more)
{
    static char sql[1 << 19];
    size_t length = (size_t)snprintf(sql, sizeof(sql), "pgwork.%s('q', '{", verb);

    for (int i = first; i < first + n; i++)
        length += (size_t)snprintf(sql + length, sizeof(sql) - length, "%s%lld",
                                   i > first ? "," : "", jobs[i].id);
    snprintf(sql + length, sizeof(sql) - length, "}', array_fill('%s'::uuid, ARRAY[%d])%s)",
             jobs[first].token, n, more);
    return sql;
}

/* What it says against some of them: "0 stale,2 gone" by number; "" when it accepts all. */
static inline const char *say(PGconn *conn, const char *verb, int first, int n, const char *more)
{
    const char *said = kit_text(conn,
                                "SELECT string_agg((id - %lld) || ' ' || status, ',' ORDER BY id)"
                                " FROM %s",
                                jobs[0].id, call(verb, first, n, more));

    return said ? said : "";
}

/* The states of all jobs in the order of their ids, "leased 1, ready 0" with their attempts. */
static inline const char *states(void)
{
    const char *all = kit_text(
        watch, "SELECT string_agg(state || ' ' || attempt, ', ' ORDER BY id) FROM pgwork.job");

    return all ? all : "";
}

static inline void reap(long long returned, long long died)
{
    TEST_ASSERT_EQUAL_STRING(kit_text(watch, "SELECT (%lld, %lld)::text", returned, died),
                             kit_text(b, "SELECT (returned, died)::text FROM pgwork.reap('q')"));
}

/* No trace of packs is left. */
static inline void check_no_packs_but(int n)
{
    TEST_ASSERT_EQUAL_INT64(n, rows_of("pack"));
    TEST_ASSERT_EQUAL_INT64(0, rows_of("pack_out"));
}

static inline void check_no_packs(void)
{
    check_no_packs_but(0);
}

static inline void hasty(PGconn *conn)
{
    kit_do(conn, "SET lock_timeout = '200ms'");
}

#endif
