/* enqueue_in_tx: an order and the job that mails its receipt, in one transaction of the program's
 * own: both exist, or neither does. With an argument the order is rolled back, and so is the job.
 *
 *   cc enqueue_in_tx.c $(pkg-config --cflags --libs pgwork libpq) && ./a.out
 *
 * It calls libpq itself, so it is linked with libpq, too. */
#include <stdio.h>
#include <stdlib.h>

#include <libpq-fe.h>
#include <pgwork.h>

static int run(PGconn *conn, const char *sql)
{
    PGresult *res = PQexec(conn, sql);
    const ExecStatusType status = PQresultStatus(res);

    if (status != PGRES_COMMAND_OK) fprintf(stderr, "%s", PQerrorMessage(conn));
    PQclear(res);
    return status == PGRES_COMMAND_OK;
}

/* The handle is needed for one transaction only; the connection belongs to the program. */
static int enqueue_receipt(PGconn *conn, int64_t *id)
{
    pgw_job_spec job = PGW_JOB_SPEC_INIT;
    pgw *h;
    pgw_status st;

    job.kind = "receipt";
    job.payload = "{\"order\": 1, \"to\": \"ada@example.org\"}";
    st = pgw_attach(conn, NULL, &h);
    if (st == PGW_OK) st = pgw_enqueue(h, "mail", &job, id);
    if (st < 0)
        fprintf(stderr, "%s: %s\n%s\n", pgw_status_name(st), pgw_error_message(h),
                pgw_error_hint(h));
    pgw_close(h);
    return st >= 0;
}

int main(int argc, char **argv)
{
    /* Without PGWORK_DSN, libpq's variables apply: PGHOST, PGDATABASE, ... In UTF-8, as
     * pgw_attach() wants it. */
    const char *const names[] = {"dbname", "client_encoding", NULL};
    const char *const values[] = {getenv("PGWORK_DSN"), "UTF8", NULL};
    PGconn *conn = PQconnectdbParams(names, values, 1);
    const int keep = argc < 2;
    int64_t id = 0;
    int ok;

    (void)argv;
    if (PQstatus(conn) != CONNECTION_OK) { /* the next call would clear the message */
        fprintf(stderr, "%s", PQerrorMessage(conn));
        PQfinish(conn);
        return 1;
    }
    ok = run(conn, "CREATE TABLE IF NOT EXISTS orders (id bigint GENERATED ALWAYS AS IDENTITY, "
                   "item text)") &&
         run(conn, "BEGIN") && run(conn, "INSERT INTO orders (item) VALUES ('lamp')") &&
         enqueue_receipt(conn, &id) && run(conn, keep ? "COMMIT" : "ROLLBACK");
    if (ok) printf("order and job %lld %s\n", (long long)id, keep ? "are there" : "never were");
    PQfinish(conn);
    return ok ? 0 : 1;
}
