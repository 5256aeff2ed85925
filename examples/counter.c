/* counter: many processes add to one number by optimistic writes. No addition is lost.
 *
 *   cc counter.c $(pkg-config --cflags --libs pgwork) && PGWORK_DSN=... ./a.out 64 20
 *
 * Each process reads the row, adds one, and writes if nobody else has written. Otherwise it starts
 * again. Each addition has an operation id, so it can be repeated after a lost connection without
 * being applied twice: the sum is exact. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <pgwork.h>

static struct timespec begun; /* distinguishes this run from all others */
static const char *const key_columns[] = {"name"}, *const key[] = {"visits"};

static int fail(pgw *h)
{
    fprintf(stderr, "%s\n%s\n", pgw_error_message(h), pgw_error_hint(h));
    return 1;
}

/* A handle and the table. The next call reopens a lost connection. */
static pgw_status begin(pgw **h, pgw_table **t)
{
    pgw_table_spec spec = PGW_TABLE_SPEC_INIT;
    pgw_status st = pgw_open(NULL, h);

    *t = NULL;
    spec.table = "counter", spec.version = "version";
    spec.key = key_columns, spec.key_count = 1;
    for (int tries = 0; (st == PGW_OK || pgw_is_retriable(st)) && *t == NULL && tries < 30; tries++)
        st = pgw_table_open(*h, &spec, t);
    return st;
}

/* Reads the row and sets what should change. It may be called several times. */
static pgw_status add_one(pgw_edit *row, void *arg)
{
    char n[32];

    (void)arg;
    snprintf(n, sizeof(n), "%lld", strtoll(pgw_edit_get(row, "n"), NULL, 10) + 1);
    return pgw_edit_set(row, "n", n);
}

static int count(int who, int times)
{
    pgw_table_process_opts o = PGW_TABLE_PROCESS_OPTS_INIT;
    pgw_table *t;
    char op[37];
    pgw *h;

    if (begin(&h, &t) != PGW_OK) return fail(h);
    o.key = key, o.tries = 10000, o.op = op;
    for (int i = 0; i < times; i++) {
        pgw_status st;

        /* names run, process and addition: a real program would store it with the counted object */
        snprintf(op, sizeof(op), "%08x-%04x-4%03x-8%03x-%04x%08x", (unsigned)begun.tv_sec,
                 (unsigned)begun.tv_nsec >> 14 & 0xffff, (unsigned)begun.tv_nsec >> 2 & 0xfff,
                 (unsigned)getppid() & 0xfff, (unsigned)who & 0xffff, (unsigned)i);
        do {
            st = pgw_table_process(h, t, &o, add_one, NULL);
        } while (pgw_is_unknown(st) ||
                 pgw_is_retriable(st)); /* PGW_OUTCOME_REPEATED: it was applied before */
        if (st < PGW_OK) return fail(h);
    }
    pgw_table_free(t);
    pgw_close(h);
    return 0;
}

/* The sum before and after. */
static int look(long long *n)
{
    static const char *const columns[] = {"n"};
    pgw_table_get_opts o = PGW_TABLE_GET_OPTS_INIT;
    pgw_table *t;
    pgw_rows *rows;
    pgw_status st;
    pgw *h;

    if (begin(&h, &t) != PGW_OK) return fail(h);
    o.key = key, o.columns = columns, o.columns_count = 1;
    do {
        st = pgw_table_get(h, t, &o, &rows);
    } while (pgw_is_retriable(st));
    if (st != PGW_OK) return fail(h);
    *n = strtoll(pgw_rows_get(rows, 0, "n"), NULL, 10);
    pgw_rows_free(rows);
    pgw_table_free(t);
    pgw_close(h);
    return 0;
}

int main(int argc, char **argv)
{
    const long processes = argc > 1 ? strtol(argv[1], NULL, 10) : 64;
    const long times = argc > 2 ? strtol(argv[2], NULL, 10) : 20;
    long long before, after;
    int failed = 0;

    if (processes < 1 || processes > 1000 || times < 1 || times > 1000000)
        return fprintf(stderr, "counter [PROCESSES [TIMES]]\n"), 2;
    clock_gettime(CLOCK_REALTIME, &begun);
    if (look(&before) != 0) {
        fprintf(stderr,
                "the table: CREATE TABLE counter (name text PRIMARY KEY, n bigint NOT NULL,"
                " version bigint NOT NULL DEFAULT 0); INSERT INTO counter VALUES ('visits', 0);\n");
        return 1;
    }
    for (long p = 0; p < processes; p++)
        if (fork() == 0) _exit(count((int)p, (int)times));
    for (long p = 0; p < processes; p++) {
        int status = 1;

        wait(&status);
        failed += status != 0;
    }
    if (look(&after) != 0) return 1;
    printf("%ld processes added %ld each: from %lld to %lld, %s\n", processes, times, before, after,
           after - before == processes * times ? "exact" : "NOT EXACT");
    return failed == 0 && after - before == processes * times ? 0 : 1;
}
