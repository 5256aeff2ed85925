/* pickup QUEUE WORKERS RATE JOBS [DURABILITY]: enqueues JOBS jobs at RATE a second while WORKERS
 * idle workers (of that durability) wait, and prints how many milliseconds passed from before the
 * enqueue until the handler ran: p50, p99, p99.9 and the worst; and the same for the enqueue alone
 * and for a bare round trip (SELECT 1 on another session, by libpq alone). Before that, at the same
 * rate, come as many jobs as give each worker some twenty: its session plans each statement when it
 * first meets it. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define PROGRAM "pickup"
#include "kit.h"

static double *taken; /* by number of the job */
static atomic_int arrived;

static pgw_verdict note(pgw_task *task, void *arg)
{
    const double ran = now_ms();
    size_t size;
    struct {
        double begin;
        int i;
    } mark;
    const void *body = pgw_job_body(pgw_task_job(task), &size);

    (void)arg;
    if (size == sizeof(mark)) {
        memcpy(&mark, body, size);
        if (mark.i < 0) return PGW_VERDICT_DONE;
        taken[mark.i] = ran - mark.begin;
        arrived++;
    }
    return PGW_VERDICT_DONE;
}

struct one {
    pgw_worker *worker;
    pgw_stop *stop;
};

static void *run(void *arg)
{
    struct one *o = arg;

    pgw_worker_run(o->worker, o->stop);
    return NULL;
}

static void print(const char *what, double *v, int n)
{
    sort_values(v, n);
    printf("%s p50 %.3f\n%s p99 %.3f\n", what, v[n / 2], what, v[n * 99 / 100]);
    if (n >= 1000) printf("%s p99.9 %.3f\n", what, v[n - 1 - n / 1000]);
    printf("%s worst %.3f\n", what, v[n - 1]);
}

int main(int argc, char **argv)
{
    const char *queues[1];
    struct one workers[64];
    pthread_t threads[64];
    pgw *h;
    PGconn *bare;
    pgw_conf *conf = NULL;
    pgw_stop *stop = NULL;
    double *trips, *put_in, begin;
    int count, rate, jobs, first;

    if (argc < 5 || argc > 6 || (count = atoi(argv[2])) < 1 || count > 64 ||
        (rate = atoi(argv[3])) < 1 || (jobs = atoi(argv[4])) < 1) {
        fprintf(stderr, "usage: pickup QUEUE WORKERS(1..64) RATE JOBS [DURABILITY]\n");
        return 2;
    }
    queues[0] = argv[1];
    first = 20 * count;
    taken = calloc((size_t)jobs, sizeof(*taken));
    trips = calloc((size_t)jobs, sizeof(*trips));
    put_in = calloc((size_t)jobs, sizeof(*put_in));
    if (taken == NULL || trips == NULL || put_in == NULL || pgw_stop_new(&stop) != PGW_OK)
        die("start", "out of memory");
    h = opened();
    bare = connected();
    conf = configured();
    if (argc == 6 && pgw_conf_set(conf, "durability", argv[5]) != PGW_OK)
        die("start", "durability is sync or relaxed");
    for (int i = 0; i < count; i++) {
        workers[i].stop = stop;
        if (pgw_worker_new(conf,
                           &(pgw_worker_spec){sizeof(pgw_worker_spec), queues, 1, note, NULL, NULL},
                           &workers[i].worker) != PGW_OK)
            return 1;
        pthread_create(&threads[i], NULL, run, &workers[i]);
    }
    nap_until(now_ms() + 500);
    begin = now_ms();
    for (int i = -first; i < jobs; i++) {
        pgw_job_spec job = PGW_JOB_SPEC_INIT;
        struct {
            double begin;
            int i;
        } mark;

        nap_until(begin + (double)(i + first) * 1e3 / rate);
        memset(&mark, 0, sizeof(mark));
        mark.begin = now_ms();
        mark.i = i;
        job.body = &mark;
        job.body_size = sizeof(mark);
        if (pgw_enqueue(h, queues[0], &job, NULL) != PGW_OK)
            fprintf(stderr, "pickup: %s\n", pgw_error_message(h));
        if (i < 0) continue;
        put_in[i] = now_ms() - mark.begin;
        if (i % 10 == 0) {
            double asked;

            nap_until(begin + (i + first + 0.5) * 1e3 / rate); /* when that job is through */
            asked = now_ms();
            PQclear(PQexec(bare, "SELECT 1"));
            trips[i / 10] = now_ms() - asked;
        }
    }
    for (double limit = now_ms() + 10000; arrived < jobs && now_ms() < limit;)
        nap_until(now_ms() + 10);
    if (arrived < jobs)
        fprintf(stderr, "pickup: %d of %d jobs did not arrive\n", jobs - arrived, jobs);
    pgw_stop_notify(stop);
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < count; i++) pgw_worker_free(workers[i].worker);
    print("roundtrip", trips, (jobs + 9) / 10);
    print("enqueue", put_in, jobs);
    print("pickup", taken, jobs);
    pgw_stop_free(stop);
    pgw_conf_free(conf);
    pgw_close(h);
    PQfinish(bare);
    free(taken);
    free(trips);
    free(put_in);
    return arrived < jobs;
}
