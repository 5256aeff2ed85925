/* noop_worker QUEUE JOBS THREADS PREFETCH [MS]: runs JOBS jobs that do nothing, or sleep for MS
 * milliseconds, and prints jobs per second, microseconds of CPU time per job, the peak of its
 * resident memory in megabytes, and when the clock ran: ms on the machine's steady clock. It runs
 * from the first handler on, as pgbench's does not count connecting, until all have been completed.
 */
#include <stdatomic.h>
#include <sys/resource.h>

#define PROGRAM "noop_worker"
#include "kit.h"

static atomic_bool started;
static double begin; /* written once, by who sets `started`; read when the worker has stopped */

static pgw_verdict noop(pgw_task *task, void *arg)
{
    const int *ms = arg;

    (void)task;
    if (!atomic_load_explicit(&started, memory_order_relaxed) && !atomic_exchange(&started, true)) {
        begin = now_ms();
    }
    if (*ms > 0) nap_until(now_ms() + *ms);
    return PGW_VERDICT_DONE;
}

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

int main(int argc, char **argv)
{
    const char *queues[1];
    pgw_conf *conf = configured();
    pgw_worker *w = NULL;
    pgw_stop *stop = NULL;
    pgw_worker_stats stats = PGW_WORKER_STATS_INIT;
    pgw_status st;
    struct rusage used;
    double end;
    int ms;

    if (argc != 5 && argc != 6) {
        fprintf(stderr, "usage: noop_worker QUEUE JOBS THREADS PREFETCH [MS]\n");
        return 2;
    }
    queues[0] = argv[1];
    ms = argc == 6 ? atoi(argv[5]) : 0;
    st = pgw_conf_set(conf, "worker.max_jobs", argv[2]);
    if (st == PGW_OK) st = pgw_conf_set(conf, "worker.concurrency", argv[3]);
    if (st == PGW_OK) st = pgw_conf_set(conf, "worker.prefetch", argv[4]);
    if (st == PGW_OK) st = pgw_stop_new(&stop);
    if (st == PGW_OK)
        st = pgw_worker_new(
            conf, &(pgw_worker_spec){sizeof(pgw_worker_spec), queues, 1, noop, NULL, &ms}, &w);
    if (st == PGW_OK) st = pgw_worker_run(w, stop);
    end = now_ms();
    pgw_worker_get_stats(w, &stats);
    getrusage(RUSAGE_SELF, &used);
    if (st < 0) fprintf(stderr, "noop_worker: %s\n", pgw_worker_error(w));
    printf("%.1f %.3f %.2f %.1f %.1f\n", (double)stats.completed * 1e3 / (end - begin),
           (seconds(used.ru_utime) + seconds(used.ru_stime)) * 1e6 / (double)stats.completed,
           (double)used.ru_maxrss / 1024, begin, end);
    pgw_worker_free(w);
    pgw_stop_free(stop);
    pgw_conf_free(conf);
    return st < 0;
}
