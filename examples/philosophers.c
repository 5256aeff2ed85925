/* philosophers: five philosophers share five forks, and each eats with two. There is no deadlock,
 * and nobody starves.
 *
 *   psql -c "CREATE TABLE fork (number int PRIMARY KEY, used int, version bigint NOT NULL)"
 *   psql -c "INSERT INTO fork SELECT i, 0, 0 FROM generate_series(0, 4) i"
 *   cc philosophers.c $(pkg-config --cflags --libs pgwork)
 *   PGWORK_DSN=... ./a.out [MEALS]
 *
 * A fork is a row. To eat, a philosopher locks both rows in one call, counts each as used, and
 * commits. The call locks rows in the order of their keys, so nobody waits in a circle. A semaphore
 * lets four sit down at a time. Every philosopher is a process with a session of its own. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pgwork.h>

#define PHILOSOPHERS 5

static pgw_status failed(pgw *h, int philosopher, pgw_status st)
{
    fprintf(stderr, "philosopher %d: %s\n", philosopher,
            st == PGW_OUTCOME_EMPTY ? "a fork is missing" : pgw_error_message(h));
    return st;
}

static pgw_status describe(pgw *h, pgw_table **t)
{
    static const char *const key[] = {"number"};
    pgw_table_spec spec = PGW_TABLE_SPEC_INIT;

    spec.table = "fork", spec.version = "version";
    spec.key = key, spec.key_count = 1;
    return pgw_table_open(h, &spec, t);
}

/* Counts a use of a fork whose row is locked. */
static pgw_status use(pgw *h, const pgw_table *t, const pgw_rows *forks, size_t i)
{
    char used[16];
    const pgw_cell cell = {"used", used};
    pgw_table_update_opts o = PGW_TABLE_UPDATE_OPTS_INIT;

    snprintf(used, sizeof(used), "%d", atoi(pgw_rows_get(forks, i, "used")) + 1);
    o.key = pgw_rows_key(forks, i), o.version = pgw_rows_version(forks, i);
    o.cells = &cell, o.cells_count = 1;
    return pgw_table_update(h, t, &o, NULL);
}

/* With both forks, in one transaction. */
static pgw_status eat(pgw *h, const pgw_table *t, int philosopher, int meal)
{
    static const char *const columns[] = {"used"};
    char left[8], right[8];
    const char *const keys[] = {left, right};
    pgw_table_lock_opts opts = PGW_TABLE_LOCK_OPTS_INIT;
    pgw_rows *forks = NULL;
    pgw_status st = pgw_txn_begin(h);

    snprintf(left, sizeof(left), "%d", philosopher);
    snprintf(right, sizeof(right), "%d", (philosopher + 1) % PHILOSOPHERS);
    opts.keys = keys, opts.keys_count = 2;
    opts.columns = columns, opts.columns_count = 1;
    if (st == PGW_OK) st = pgw_table_lock(h, t, &opts, &forks);
    if (st == PGW_OK && pgw_rows_count(forks) < 2) st = PGW_OUTCOME_EMPTY;
    if (st == PGW_OK) {
        printf("philosopher %d eats meal %d\n", philosopher, meal);
        fflush(stdout);
        (void)poll(NULL, 0, 5);
        st = use(h, t, forks, 0);
    }
    if (st == PGW_OK) st = use(h, t, forks, 1);
    pgw_rows_free(forks);
    if (st == PGW_OK) {
        st = pgw_txn_commit(h);
        return st == PGW_OK ? st : failed(h, philosopher, st);
    }
    failed(h, philosopher, st);
    pgw_txn_rollback(h);
    return st;
}

static pgw_status dine(pgw *h, const pgw_table *t, int philosopher, int meal)
{
    pgw_sema_opts opts = PGW_SEMA_OPTS_INIT;
    pgw_token seat;
    pgw_status st;

    opts.timeout_ms = PGW_UNLIMITED;
    opts.session = true; /* if a philosopher dies, the seat is free at once */
    st = pgw_sema_acquire(h, "seats", &opts, &seat);
    if (st != PGW_OK) return failed(h, philosopher, st);
    st = eat(h, t, philosopher, meal);
    pgw_sema_release(h, "seats", seat);
    return st;
}

static int live(int philosopher, int meals)
{
    pgw_table *t = NULL;
    pgw *h;
    pgw_status st = pgw_open(NULL, &h);

    if (st == PGW_OK) st = describe(h, &t);
    if (st != PGW_OK) failed(h, philosopher, st);
    for (int meal = 1; st == PGW_OK && meal <= meals; meal++) st = dine(h, t, philosopher, meal);
    pgw_table_free(t);
    pgw_close(h);
    return st == PGW_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
    const int meals = argc > 1 ? atoi(argv[1]) : 10;
    int status, sated = 0;
    pgw *h;

    if (pgw_open(NULL, &h) != PGW_OK || pgw_sema_create(h, "seats", PHILOSOPHERS - 1) != PGW_OK) {
        fprintf(stderr, "%s\n", pgw_error_message(h));
        return 1;
    }
    pgw_close(h);
    for (int i = 0; i < PHILOSOPHERS; i++)
        if (fork() == 0) _exit(live(i, meals));
    while (wait(&status) > 0) sated += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    printf("%d philosophers had %d meals each\n", sated, meals);
    return sated == PHILOSOPHERS ? 0 : 1;
}
