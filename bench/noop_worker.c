/* noop_worker QUEUE JOBS THREADS PREFETCH [MS]: runs JOBS jobs that do nothing, or sleep for MS
 * milliseconds, and prints jobs per second. */
#define _POSIX_C_SOURCE 200809L
#include <pgwork.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static pgw_verdict noop(pgw_task *task, void *arg)
{
    const int *ms = arg;

    (void)task;
    if (*ms > 0) {
        const struct timespec t = {.tv_sec = *ms / 1000, .tv_nsec = *ms % 1000 * 1000000L};

        nanosleep(&t, NULL);
    }
    return PGW_DONE;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    const char *queues[1];
    pgw_conf *conf = NULL;
    pgw_worker *w = NULL;
    pgw_stop *stop = NULL;
    pgw_worker_stats stats = {.struct_size = sizeof(stats)};
    pgw_status st;
    double begin;
    int ms;

    if (argc != 5 && argc != 6) {
        fprintf(stderr, "usage: noop_worker QUEUE JOBS THREADS PREFETCH [MS]\n");
        return 2;
    }
    queues[0] = argv[1];
    ms = argc == 6 ? atoi(argv[5]) : 0;
    st = pgw_conf_new(&conf);
    if (st == PGW_OK) st = pgw_conf_set(conf, "worker.max_jobs", argv[2]);
    if (st == PGW_OK) st = pgw_conf_set(conf, "worker.concurrency", argv[3]);
    if (st == PGW_OK) st = pgw_conf_set(conf, "worker.prefetch", argv[4]);
    if (st == PGW_OK) st = pgw_stop_new(&stop);
    if (st == PGW_OK) st = pgw_worker_new(&w, conf, queues, 1, noop, NULL, &ms);
    begin = now();
    if (st == PGW_OK) st = pgw_worker_run(w, stop);
    pgw_worker_get_stats(w, &stats);
    if (st < 0) fprintf(stderr, "noop_worker: %s\n", pgw_worker_error(w));
    printf("%.1f\n", (double)stats.completed / (now() - begin));
    pgw_worker_free(w);
    pgw_stop_free(stop);
    pgw_conf_free(conf);
    return st < 0;
}
