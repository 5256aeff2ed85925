/* philosophers: five of them, five forks, each eats with two. No deadlock, and nobody starves.
 *
 *   cc philosophers.c $(pkg-config --cflags --libs pgwork) && PGWORK_DSN=... ./a.out [MEALS]
 *
 * Each fork is a named lock; a semaphore lets four sit down at a time, so one of them always gets
 * both forks. Every philosopher is a process of its own, with a session of its own. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pgwork.h>

#define PHILOSOPHERS 5

static pgw_status take_fork(pgw *h, pgw_lock **lock, int number)
{
    char name[32];

    snprintf(name, sizeof(name), "fork %d", number % PHILOSOPHERS);
    return pgw_lock_acquire(h, lock, name, PGW_EXCLUSIVE, -1);
}

static pgw_status dine(pgw *h, int philosopher, int meal)
{
    pgw_sema_opts opts = PGW_SEMA_OPTS_INIT;
    pgw_lock *left = NULL, *right = NULL;
    pgw_token seat;
    pgw_status st;

    opts.timeout_ms = -1;
    opts.session = true; /* the seat of a philosopher who dies is free at once */
    st = pgw_sema_acquire(h, &seat, "seats", &opts);
    if (st != PGW_OK) return st;
    st = take_fork(h, &left, philosopher);
    if (st == PGW_OK) st = take_fork(h, &right, philosopher + 1);
    if (st == PGW_OK) {
        printf("philosopher %d eats meal %d\n", philosopher, meal);
        fflush(stdout);
        (void)poll(NULL, 0, 5);
    }
    pgw_lock_release(right); /* NULL is fine */
    pgw_lock_release(left);
    pgw_sema_release(h, "seats", seat);
    return st;
}

static int live(int philosopher, int meals)
{
    pgw *h;
    pgw_status st = pgw_open(&h, NULL);

    for (int meal = 1; st == PGW_OK && meal <= meals; meal++) st = dine(h, philosopher, meal);
    if (st != PGW_OK) fprintf(stderr, "philosopher %d: %s\n", philosopher, pgw_error_message(h));
    pgw_close(h);
    return st == PGW_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
    const int meals = argc > 1 ? atoi(argv[1]) : 10;
    int status, sated = 0;
    pgw *h;

    if (pgw_open(&h, NULL) != PGW_OK || pgw_sema_create(h, "seats", PHILOSOPHERS - 1) != PGW_OK) {
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
