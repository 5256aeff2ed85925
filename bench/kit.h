/* kit: what the programs of the benchmark share. A program defines PROGRAM, its name in messages,
 * before it includes this. */
#ifndef BENCH_KIT_H
#define BENCH_KIT_H

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pgwork.h"

/* Milliseconds on the machine's steady clock, the same for all processes. */
static inline double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Sleeps until now_ms() is there. */
static inline void nap_until(double ms)
{
    const double left = ms - now_ms();

    if (left > 0) {
        const struct timespec t = {.tv_sec = (time_t)(left / 1e3),
                                   .tv_nsec = (long)(left * 1e6) % 1000000000L};
        nanosleep(&t, NULL);
    }
}

/* Says what failed and why, and ends the program: a figure that misses something is none. */
static inline void die(const char *what, const char *why)
{
    fprintf(stderr, PROGRAM ": %s: %s\n", what, why);
    exit(1);
}

/* A number from the environment. */
static inline long setting(const char *name, long otherwise)
{
    const char *text = getenv(name);

    return text != NULL ? strtol(text, NULL, 10) : otherwise;
}

/* Defaults, and the schema of PGWORK_SCHEMA, as for the command line tool. The caller frees it. */
static inline pgw_conf *configured(void)
{
    const char *schema = getenv("PGWORK_SCHEMA");
    pgw_conf *conf;

    if (pgw_conf_new(&conf) != PGW_OK) die("configure", "out of memory");
    if (schema != NULL && pgw_conf_set(conf, "schema", schema) != PGW_OK)
        die("PGWORK_SCHEMA", pgw_conf_error(conf));
    return conf;
}

/* A handle to the database of PGWORK_DSN; the caller closes it. */
static inline pgw *opened(void)
{
    pgw_conf *conf = configured();
    pgw *h;

    if (pgw_open(conf, &h) != PGW_OK) die("open", pgw_error_message(h));
    pgw_conf_free(conf);
    return h;
}

/* A session of libpq alone with the same database; the caller finishes it. */
static inline PGconn *connected(void)
{
    PGconn *c = PQconnectdb(getenv("PGWORK_DSN"));

    if (PQstatus(c) != CONNECTION_OK) die("connect", PQerrorMessage(c));
    return c;
}

/* Runs statements on it, and returns how many rows the last one gave. */
static inline int run_sql(PGconn *c, const char *sql)
{
    PGresult *res = PQexec(c, sql);
    const int n = PQntuples(res);

    if (PQresultStatus(res) != PGRES_TUPLES_OK && PQresultStatus(res) != PGRES_COMMAND_OK)
        die(sql, PQerrorMessage(c));
    PQclear(res);
    return n;
}

/* ---- rates: each client is a process that counts its rounds ---- */

typedef long client_fn(int number);

typedef struct kit_span {
    double from, until;
} kit_span;

static inline kit_span *kit_counted(void)
{
    static kit_span span;

    return &span;
}

/* For a client that is connected: rounds count from when all are. */
static inline void begin_together(void)
{
    if (now_ms() > kit_counted()->from) die("connect", "it took longer than there was time for");
    nap_until(kit_counted()->from);
}

static inline int goes_on(void)
{
    return now_ms() < kit_counted()->until;
}

/* Rounds that so many clients count in that time, with a number for each, or 0 for all. */
static inline long run_clients(const char *what, client_fn *fn, int clients, int alike,
                               double seconds)
{
    long all = 0, n;
    int fds[2];

    if (pipe(fds) != 0) die("pipe", "no descriptors");
    fflush(stdout);
    kit_counted()->from = now_ms() + 500 + 30.0 * clients;
    kit_counted()->until = kit_counted()->from + seconds * 1e3;
    for (int i = 0; i < clients; i++) {
        if (fork() == 0) {
            n = fn(alike ? 0 : i);
            _exit(write(fds[1], &n, sizeof(n)) == (ssize_t)sizeof(n) ? 0 : 1);
        }
    }
    close(fds[1]);
    for (int i = 0; i < clients; i++) {
        if (read(fds[0], &n, sizeof(n)) != (ssize_t)sizeof(n)) die(what, "a client failed");
        all += n;
    }
    close(fds[0]);
    while (wait(NULL) > 0) continue;
    return all;
}

/* The same a second, for BENCH_SECONDS. */
static inline double rate_of(const char *what, client_fn *fn, int clients, int alike)
{
    const double seconds = (double)setting("BENCH_SECONDS", 3);

    return (double)run_clients(what, fn, clients, alike, seconds) / seconds;
}

/* For qsort: the least first. */
static inline int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Sorts n values, so that v[n * P / 100] is their percentile P. */
static inline void sort_values(double *v, int n)
{
    qsort(v, (size_t)n, sizeof(*v), by_size);
}

#endif
