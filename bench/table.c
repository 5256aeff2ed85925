/* table: what a claim from a table of the user's costs, and what an optimistic increment does,
 * beside the bare thing in the same run.
 *
 *   make all
 *   WITH_PG_FSYNC=1 test/support/with_pg.sh sh -c 'build/pgwork -q migrate && build/bench/table'
 *
 * Environment: BENCH_ROWS (1000000), BENCH_SECONDS per figure (3). Prints one figure a line. */

#define PROGRAM "table"
#include "kit.h"

#define CLAIMS 2000 /* at most, for a latency */

static const char *const id[] = {"id"};

/* ---- claims: 99 of 100 rows are leased to somebody else ---- */

static void claims(pgw *h, const char *what, const char *order)
{
    pgw_table_spec s = PGW_TABLE_SPEC_INIT;
    pgw_table_claim_opts o = PGW_TABLE_CLAIM_OPTS_INIT;
    const double until = now_ms() + 1e3 * (double)setting("BENCH_SECONDS", 3);
    static double took[CLAIMS];
    pgw_table *t;
    int n = 0;

    s.table = "article", s.key = id, s.key_count = 1;
    s.locked_by = "locked_by", s.expires_at = "expires_at", s.token = "token";
    if (pgw_table_open(h, &s, &t) != PGW_OK) die("open table", pgw_error_message(h));
    o.max = 10, o.holder = "bench", o.order = order;
    while (n < CLAIMS && (n < 3 || now_ms() < until)) {
        const double start = now_ms();
        pgw_row_ref refs[10];
        pgw_rows *rows;

        if (pgw_table_claim(h, t, &o, &rows) != PGW_OK) die("claim", pgw_error_message(h));
        took[n++] = now_ms() - start;
        for (size_t i = 0; i < pgw_rows_count(rows); i++) refs[i] = pgw_rows_ref(rows, i);
        if (pgw_table_release(h, t, refs, pgw_rows_count(rows)) != PGW_OK)
            die("release", pgw_error_message(h));
        pgw_rows_free(rows);
    }
    sort_values(took, n);
    printf("claim of 10, %-38s %6d claims  p50 %9.2f ms  p99 %9.2f ms\n", what, n, took[n / 2],
           took[n * 99 / 100]);
    fflush(stdout);
    pgw_table_free(t);
}

static void claim_figures(PGconn *c)
{
    pgw_table_spec s = PGW_TABLE_SPEC_INIT;
    pgw *h = opened();
    pgw_table *t;
    char sql[600];

    run_sql(c, "DROP TABLE IF EXISTS article");
    snprintf(sql, sizeof(sql),
             "CREATE TABLE article AS SELECT i AS id, 'article ' || i AS title,"
             " CASE WHEN i %% 100 > 0 THEN 'r' || i %% 1000 END AS locked_by,"
             " CASE WHEN i %% 100 > 0 THEN now() + interval '1 day' END AS expires_at,"
             " CASE WHEN i %% 100 > 0 THEN gen_random_uuid() END AS token"
             " FROM generate_series(1, %ld) i",
             setting("BENCH_ROWS", 1000000));
    run_sql(c, sql);
    run_sql(c, "ALTER TABLE article ADD PRIMARY KEY (id)");
    run_sql(c, "VACUUM ANALYZE article");
    claims(h, "no index, default order", NULL);
    claims(h, "no index, by the caller's order", "id");
    s.table = "article", s.key = id, s.key_count = 1;
    s.locked_by = "locked_by", s.expires_at = "expires_at", s.token = "token";
    pgw_set_timeout(h, 3600000);
    if (pgw_table_open(h, &s, &t) != PGW_OK || pgw_table_init(h, t) != PGW_OK)
        die("init", pgw_error_message(h));
    pgw_table_free(t);
    pgw_set_timeout(h, PGW_DEFAULT);
    run_sql(c, "VACUUM ANALYZE article");
    claims(h, "proposed indexes, default order", NULL);
    claims(h, "proposed indexes, by the caller's order", "id");
    pgw_close(h);
}

/* ---- increments ---- */

static pgw_status add_one(pgw_edit *e, void *arg)
{
    char n[32];

    (void)arg;
    snprintf(n, sizeof(n), "%lld", strtoll(pgw_edit_get(e, "n"), NULL, 10) + 1);
    return pgw_edit_set(e, "n", n);
}

static long optimistic(int row)
{
    char name[16];
    const char *const key[] = {name};
    pgw_table_spec s = PGW_TABLE_SPEC_INIT;
    pgw_table_process_opts o = PGW_TABLE_PROCESS_OPTS_INIT;
    pgw *h = opened();
    pgw_table *t;
    long n = 0;

    snprintf(name, sizeof(name), "%d", row);
    s.table = "counter", s.key = id, s.key_count = 1, s.version = "version";
    o.key = key, o.tries = 100000;
    if (pgw_table_open(h, &s, &t) != PGW_OK) die("open table", pgw_error_message(h));
    begin_together();
    for (; goes_on(); n++)
        if (pgw_table_process(h, t, &o, add_one, NULL) != PGW_OK)
            die("process", pgw_error_message(h));
    pgw_table_free(t);
    pgw_close(h);
    return n;
}

static long locked(int row)
{
    PGconn *c = connected();
    char look[80], write[80];
    long n = 0;

    snprintf(look, sizeof(look), "SELECT n FROM counter WHERE id = %d FOR NO KEY UPDATE", row);
    snprintf(write, sizeof(write), "UPDATE counter SET n = n + 1 WHERE id = %d", row);
    begin_together();
    for (; goes_on(); n++) {
        run_sql(c, "BEGIN");
        run_sql(c, look);
        run_sql(c, write);
        run_sql(c, "COMMIT");
    }
    PQfinish(c);
    return n;
}

static void rate(const char *what, client_fn *fn, int clients, bool one_row)
{
    printf("%-40s %2d clients, %-12s %10.0f /s\n", what, clients, one_row ? "one row" : "own rows",
           rate_of(what, fn, clients, one_row));
}

int main(void)
{
    static const int clients[] = {1, 8};
    PGconn *c = connected();

    claim_figures(c);
    run_sql(
        c,
        "DROP TABLE IF EXISTS counter; CREATE TABLE counter (id int PRIMARY KEY, n bigint NOT NULL,"
        " version bigint NOT NULL) WITH (fillfactor = 50);"
        "INSERT INTO counter SELECT i, 0, 0 FROM generate_series(0, 63) i");
    for (size_t i = 0; i < sizeof(clients) / sizeof(clients[0]); i++)
        for (int one_row = 0; one_row < 2; one_row++) {
            rate("increments, optimistic (process)", optimistic, clients[i], one_row != 0);
            rate("increments, SELECT FOR UPDATE", locked, clients[i], one_row != 0);
        }
    PQfinish(c);
    return 0;
}
