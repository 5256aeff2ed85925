/* locks: what locks and semaphores cost, beside the bare thing in the same run.
 *
 *   make all
 *   WITH_PG_FSYNC=1 test/support/with_pg.sh sh -c 'build/pgwork -q migrate && build/bench/locks'
 *
 * Environment: BENCH_SECONDS per figure (3). Prints one figure a line: what, clients, value. */
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "locks"
#include "kit.h"

#define ROUNDS 200 /* of a latency */

/* ---- rates ---- */

static const pgw_lock_opts queued = {sizeof(queued), PGW_LOCK_EXCLUSIVE, PGW_UNLIMITED};

static long lock_own(int number)
{
    pgw *h = opened();
    char name[32];
    long n = 0;

    snprintf(name, sizeof(name), "own %d", number);
    begin_together();
    for (; goes_on(); n++) {
        pgw_lock *l;

        if (pgw_lock_acquire(h, name, NULL, &l) != PGW_OK || pgw_lock_release(l) != PGW_OK)
            die("lock", pgw_error_message(h));
    }
    pgw_close(h);
    return n;
}

static long lock_one(int number)
{
    pgw *h = opened();
    long n = 0;

    (void)number;
    begin_together();
    for (; goes_on(); n++) {
        pgw_lock *l;

        if (pgw_lock_acquire(h, "one for all", &queued, &l) != PGW_OK ||
            pgw_lock_release(l) != PGW_OK)
            die("lock", pgw_error_message(h));
    }
    pgw_close(h);
    return n;
}

static long lock_bare(int number)
{
    PGconn *c = connected();
    char take[80], give[80];
    long n = 0;

    snprintf(take, sizeof(take), "SELECT pg_try_advisory_lock(%d)", number);
    snprintf(give, sizeof(give), "SELECT pg_advisory_unlock(%d)", number);
    begin_together();
    for (; goes_on(); n++) {
        run_sql(c, take);
        run_sql(c, give);
    }
    PQfinish(c);
    return n;
}

static long sema_permits(int number)
{
    pgw *h = opened();
    pgw_sema_opts o = PGW_SEMA_OPTS_INIT;
    long n = 0;

    (void)number;
    o.timeout_ms = PGW_UNLIMITED;
    begin_together();
    for (; goes_on(); n++) {
        pgw_token token;

        if (pgw_sema_acquire(h, "bench", &o, &token) != PGW_OK ||
            pgw_sema_release(h, "bench", token) != PGW_OK)
            die("sema", pgw_error_message(h));
    }
    pgw_close(h);
    return n;
}

/* The counter that a semaphore is made of at home. Who gets none waits 5 ms. */
static long sema_counter(int number)
{
    PGconn *c = connected();
    long n = 0;

    (void)number;
    begin_together();
    while (goes_on()) {
        if (run_sql(c,
                    "UPDATE bench_counter SET used = used + 1 WHERE used < permits RETURNING 1") ==
            0) {
            (void)poll(NULL, 0, 5);
            continue;
        }
        run_sql(c, "UPDATE bench_counter SET used = used - 1");
        n++;
    }
    PQfinish(c);
    return n;
}

static void rate(const char *what, client_fn *fn, int clients)
{
    printf("%-44s %3d clients  %9.0f /s\n", what, clients, rate_of(what, fn, clients, 0));
}

/* ---- latencies ---- */

static void latency(const char *what, double *ms, int n)
{
    sort_values(ms, n);
    printf("%-44s median %.2f  p99 %.2f  max %.2f ms\n", what, ms[n / 2], ms[n * 99 / 100],
           ms[n - 1]);
}

/* The child waits for the lock, and tells when it has it; the clock is the machine's. */
static void wake_up(void)
{
    double ms[ROUNDS], got;
    int fds[2], go[2];
    pgw *h;
    pgw_lock *l;
    char byte = 'x';

    if (pipe(fds) != 0 || pipe(go) != 0) die("pipe", "failed");
    fflush(stdout);
    if (fork() == 0) {
        h = opened();
        for (int i = 0; i < ROUNDS; i++) {
            if (read(go[0], &byte, 1) != 1) _exit(1);
            if (pgw_lock_acquire(h, "wake", &queued, &l) != PGW_OK) _exit(1);
            got = now_ms();
            pgw_lock_release(l);
            if (write(fds[1], &got, sizeof(got)) != (ssize_t)sizeof(got)) _exit(1);
        }
        _exit(0);
    }
    h = opened();
    for (int i = 0; i < ROUNDS; i++) {
        double from;

        if (pgw_lock_acquire(h, "wake", &queued, &l) != PGW_OK) die("wake", pgw_error_message(h));
        if (write(go[1], &byte, 1) != 1) die("wake", "pipe");
        (void)poll(NULL, 0, 20); /* it stands in the queue by then */
        from = now_ms();
        pgw_lock_release(l);
        if (read(fds[0], &got, sizeof(got)) != (ssize_t)sizeof(got))
            die("wake", "the waiter failed");
        ms[i] = got - from;
    }
    latency("release to the next holder", ms, ROUNDS);
    pgw_close(h);
    wait(NULL);
}

/* From the call of pg_terminate_backend to the word that the lock is lost. */
static void lost(void)
{
    double ms[ROUNDS], saw;
    int fds[2];
    PGconn *c;

    if (pipe(fds) != 0) die("pipe", "failed");
    fflush(stdout);
    if (fork() == 0) {
        pgw *h = opened();

        for (int i = 0; i < ROUNDS; i++) {
            pgw_lock *l;

            if (pgw_lock_acquire(h, "lost", &queued, &l) != PGW_OK) _exit(1);
            saw = 0;
            if (write(fds[1], &saw, sizeof(saw)) != (ssize_t)sizeof(saw)) _exit(1);
            if (pgw_lock_guard(l, PGW_NO_FD, PGW_UNLIMITED) != PGW_ELEASE) _exit(1);
            saw = now_ms();
            pgw_lock_release(l);
            if (write(fds[1], &saw, sizeof(saw)) != (ssize_t)sizeof(saw)) _exit(1);
        }
        _exit(0);
    }
    c = connected();
    for (int i = 0; i < ROUNDS; i++) {
        double from;

        if (read(fds[0], &saw, sizeof(saw)) != (ssize_t)sizeof(saw)) die("lost", "no holder");
        (void)poll(NULL, 0, 10); /* it watches by then */
        from = now_ms();
        run_sql(c, "SELECT pg_terminate_backend(pid) FROM pgwork.lock_list('lost')");
        if (read(fds[0], &saw, sizeof(saw)) != (ssize_t)sizeof(saw))
            die("lost", "the holder failed");
        ms[i] = saw - from;
    }
    latency("pg_terminate_backend to lost lock seen", ms, ROUNDS);
    PQfinish(c);
    wait(NULL);
}

static void permits(int n)
{
    pgw *h = opened();
    PGconn *c = connected();
    char sql[80];

    pgw_sema_drop(h, "bench", true);
    if (pgw_sema_create(h, "bench", n) != PGW_OK) die("sema", pgw_error_message(h));
    run_sql(c, "DROP TABLE IF EXISTS bench_counter");
    run_sql(c, "CREATE TABLE bench_counter (used int, permits int)");
    snprintf(sql, sizeof(sql), "INSERT INTO bench_counter VALUES (0, %d)", n);
    run_sql(c, sql);
    PQfinish(c);
    pgw_close(h);
}

int main(void)
{
    wake_up();
    lost();
    rate("bare pg_try_advisory_lock, own key", lock_bare, 1);
    rate("lock acquire + release, own name", lock_own, 1);
    rate("bare pg_try_advisory_lock, own key", lock_bare, 64);
    rate("lock acquire + release, own name", lock_own, 64);
    rate("lock acquire + release, one name", lock_one, 64);
    permits(64);
    rate("counter row, 64 permits", sema_counter, 64);
    rate("semaphore acquire + release, 64 permits", sema_permits, 64);
    permits(8);
    rate("counter row, 8 permits", sema_counter, 64);
    rate("semaphore acquire + release, 8 permits", sema_permits, 64);
    return 0;
}
