/* settle: a worker whose jobs take effect exactly once, whichever process dies and when. The writes
 * of a job and its completion are one transaction.
 *
 *   cc settle.c $(pkg-config --cflags --libs pgwork libpq) && PGWORK_DSN=... ./a.out payments
 *
 * A job says who gets how much, {"to": "ada", "amount": 5}. The table is the program's own:
 *
 *   CREATE TABLE account (name text PRIMARY KEY, balance bigint NOT NULL);
 *
 * Here handlers run in the thread of pgw_worker_run() (worker.concurrency 0) and share one
 * connection. Handlers that run in threads need one each. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <libpq-fe.h>
#include <pgwork.h>

static pgw_stop *stop;

static void on_signal(int number)
{
    (void)number;
    pgw_stop_notify(stop);
}

/* Only the log shows faults that the worker survives, such as an unreachable server. */
static void on_log(pgw_log_level level, const char *component, const char *message, void *arg)
{
    (void)arg, (void)level;
    fprintf(stderr, "%s: %s\n", component, message);
}

/* Sets the error of the task. */
static bool run(pgw_task *task, PGconn *conn, const char *sql, const char *value)
{
    PGresult *res = PQexecParams(conn, sql, value != NULL, NULL, &value, NULL, NULL, 0);
    const bool done = PQresultStatus(res) == PGRES_COMMAND_OK;

    if (!done) pgw_task_set_error(task, PQerrorMessage(conn));
    PQclear(res);
    return done;
}

static bool pay(pgw_task *task, PGconn *conn)
{
    return run(
        task, conn,
        "INSERT INTO account SELECT p->>'to', (p->>'amount')::bigint FROM CAST($1 AS jsonb) p"
        " ON CONFLICT (name) DO UPDATE SET balance = account.balance + excluded.balance",
        pgw_job_payload(pgw_task_job(task)));
}

/* False: probably another claim has the job now. Then all our writes must be rolled back. */
static bool finish(pgw_task *task, PGconn *conn)
{
    const pgw_job *job = pgw_task_job(task);
    pgw_ref ref = pgw_job_ref(job);
    pgw *h;
    bool ours = pgw_attach(conn, NULL, &h) == PGW_OK &&
                pgw_complete(h, pgw_job_queue(job), &ref, 1, NULL) == PGW_OK;

    if (!ours) pgw_task_set_error(task, pgw_error_message(h));
    pgw_close(h);
    return ours;
}

/* If the answer to COMMIT is lost, its outcome is unknown. Failing the job is right in both cases:
 * if the commit was applied, the job is gone, and the server refuses the failure. */
static pgw_verdict settle(pgw_task *task, void *arg)
{
    PGconn *conn = arg;

    if (PQstatus(conn) != CONNECTION_OK) PQreset(conn);
    if (PQstatus(conn) != CONNECTION_OK) { /* the next call would clear the message */
        pgw_task_set_error(task, PQerrorMessage(conn));
        return PGW_VERDICT_RETRY;
    }
    if (run(task, conn, "BEGIN", NULL) && pay(task, conn) && finish(task, conn) &&
        run(task, conn, "COMMIT", NULL))
        return PGW_VERDICT_SETTLED;
    PQclear(PQexec(conn, "ROLLBACK"));
    return PGW_VERDICT_RETRY;
}

int main(int argc, char **argv)
{
    const char *queues[] = {argc > 1 ? argv[1] : "payments"};
    /* like the worker's own, with an end to waiting for a dead server; in UTF-8, as pgw_attach()
     * wants it, also after PQreset() */
    const char *const names[] = {"dbname", "client_encoding", "connect_timeout", "tcp_user_timeout",
                                 NULL};
    const char *const values[] = {getenv("PGWORK_DSN"), "UTF8", "10", "30000", NULL};
    PGconn *conn = PQconnectdbParams(names, values, 1);
    struct sigaction action = {.sa_handler = on_signal};
    pgw_worker_stats stats = PGW_WORKER_STATS_INIT;
    pgw_conf *conf = NULL;
    pgw_worker *w = NULL;
    pgw_status st;

    if (pgw_stop_new(&stop) != PGW_OK || pgw_conf_new(&conf) != PGW_OK) return 1;
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);

    pgw_conf_set_log(conf, PGW_LOG_WARN, on_log, NULL);
    pgw_conf_set(conf, "worker.concurrency", "0");
    st = pgw_worker_new(
        conf, &(pgw_worker_spec){sizeof(pgw_worker_spec), queues, 1, settle, NULL, conn}, &w);
    if (st == PGW_OK) st = pgw_worker_run(w, stop);
    if (st != PGW_OK)
        fprintf(stderr, "%s: %s\n", pgw_status_name(st),
                w ? pgw_worker_error(w) : pgw_status_text(st));
    pgw_worker_get_stats(w, &stats);
    printf("%lld settled, %lld failed, %lld refused\n", (long long)stats.settled,
           (long long)stats.failed, (long long)stats.refused);
    pgw_worker_free(w);
    pgw_conf_free(conf);
    signal(SIGTERM, SIG_DFL); /* before what they notify is gone */
    signal(SIGINT, SIG_DFL);
    pgw_stop_free(stop);
    PQfinish(conn);
    return st == PGW_OK ? 0 : 1;
}
