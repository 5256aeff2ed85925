/* worker: runs jobs of a queue, four at a time, until SIGTERM. A second SIGTERM ends running jobs.
 *
 *   cc worker.c $(pkg-config --cflags --libs pgwork) && PGWORK_DSN=... ./a.out images
 *
 * Without PGWORK_DSN, libpq's own variables name the database (PGHOST, PGSERVICE, ...). */
#include <poll.h>
#include <signal.h>
#include <stdio.h>

#include <pgwork.h>

static pgw_stop *stop;

static void on_signal(int number)
{
    (void)number;
    pgw_stop_notify(stop);
}

/* Half a second of work in small pieces. Before each piece it checks whether to go on. */
static pgw_verdict handle(pgw_task *task, void *arg)
{
    const pgw_job *job = pgw_task_job(task);
    const char *payload = pgw_job_payload(job);

    (void)arg;
    for (int piece = 0; piece < 10; piece++) {
        const int signals = pgw_task_signals(task);

        if (signals & PGW_SIGNAL_LOST) return PGW_VERDICT_RETRY; /* write nothing more */
        if (signals & PGW_SIGNAL_STOPPING) { /* again at once, elsewhere: no attempt charged */
            pgw_task_set_delay(task, 0);
            return PGW_VERDICT_SNOOZE;
        }
        if (signals & (PGW_SIGNAL_CANCELED | PGW_SIGNAL_TIMEOUT)) {
            pgw_task_set_error(task, "given up");
            return PGW_VERDICT_RETRY;
        }
        poll(NULL, 0, 50); /* a real program works here */
    }
    printf("%lld %s %s\n", (long long)pgw_job_id(job), pgw_job_kind(job), payload ? payload : "-");
    pgw_task_set_output(task, "{\"ok\": true}");
    return PGW_VERDICT_DONE;
}

static void on_log(pgw_log_level level, const char *component, const char *message, void *arg)
{
    (void)arg, (void)level;
    fprintf(stderr, "%s: %s\n", component, message);
}

int main(int argc, char **argv)
{
    const char *queues[] = {argc > 1 ? argv[1] : "default"};
    struct sigaction action = {.sa_handler = on_signal};
    pgw_worker_stats stats = PGW_WORKER_STATS_INIT;
    pgw_conf *conf = NULL;
    pgw_worker *w = NULL;
    pgw_status st;

    if (pgw_stop_new(&stop) != PGW_OK || pgw_conf_new(&conf) != PGW_OK) return 1;
    sigaction(SIGTERM, &action, NULL); /* the library installs no handlers: they are yours */
    sigaction(SIGINT, &action, NULL);

    pgw_conf_set_log(conf, PGW_LOG_WARN, on_log, NULL);
    pgw_conf_set(conf, "worker.concurrency", "4");
    pgw_conf_set(conf, "worker.job_timeout_ms", "60000");
    st = pgw_worker_new(
        conf, &(pgw_worker_spec){sizeof(pgw_worker_spec), queues, 1, handle, NULL, NULL}, &w);
    if (st == PGW_OK) st = pgw_worker_run(w, stop);
    if (st != PGW_OK) {
        fprintf(stderr, "%s: %s\n", pgw_status_name(st),
                w ? pgw_worker_error(w) : pgw_status_text(st));
    } else {
        pgw_worker_get_stats(w, &stats);
        printf("%lld done, %lld failed, %lld requeued\n", (long long)stats.completed,
               (long long)stats.failed, (long long)stats.released);
    }
    pgw_worker_free(w);
    pgw_conf_free(conf);
    signal(SIGTERM, SIG_DFL); /* before what they notify is gone */
    signal(SIGINT, SIG_DFL);
    pgw_stop_free(stop);
    return st == PGW_OK ? 0 : 1;
}
