/* reap: one pass of the work that time requires: expired leases, due jobs, ended retention. */
#include "call/ask.h"
#include "call/check.h"
#include "pq/pq.h"

#define REAP_STATS_OLDEST (offsetof(pgw_reap_stats, freed) + sizeof(int64_t)) /* in 0.1 */

typedef struct reap_ctx {
    pgw_reap_stats *stats;
    int64_t *next_ms;
} reap_ctx;

static pgw_status reap_read(pgw *h, const pgw__rows *rows, void *ctx)
{
    const reap_ctx *in = ctx;
    const pgw_status st = pgw__ask_rows(h, rows, 1);
    const char *stuck;

    if (st != PGW_OK) return st;
    stuck = pgw__rows_text(rows, 0, 5, NULL);
    if (stuck != NULL)
        PGW__LOG(pgw__conf_log(pgw__pq_conf(h)), PGW_LOG_WARN, "reap", "stuck: %s", stuck);
    if (in->next_ms != NULL) *in->next_ms = pgw__rows_int(rows, 0, 4);
    if (in->stats == NULL) return PGW_OK;
    in->stats->ticks++;
    in->stats->reaped += pgw__rows_int(rows, 0, 0);
    in->stats->died += pgw__rows_int(rows, 0, 1);
    in->stats->promoted += pgw__rows_int(rows, 0, 2);
    in->stats->pruned += pgw__rows_int(rows, 0, 3);
    return PGW_OK;
}

pgw_status pgw_reaper_tick(pgw *h, pgw_reap_stats *stats, int64_t *next_ms)
{
    const reap_ctx ctx = {stats, next_ms};
    char buffer[PGW__HOLDER_MAX + 1];
    const char *holder;
    pgw_status st;

    if (next_ms != NULL) *next_ms = 0;
    st = pgw__check_holder(h, "holder", &holder, NULL, buffer);
    if (st == PGW_OK && stats != NULL &&
        (stats->struct_size < REAP_STATS_OLDEST || !pgw__size_is_whole(stats->struct_size)))
        st = pgw__pq_refuse_int(h, "stats->struct_size", (int64_t)stats->struct_size,
                                "that of the _INIT macro: start from it");
    if (st == PGW_OK && pgw__pq_in_txn(h) &&
        pgw__pq_check_session(h) == PGW_OK) /* else the call says why */
        st = pgw__pq_reject(
            h, PGW_EMISUSE,
            "a transaction is open: rows that a pass locks would stay locked until its end",
            "commit or roll back first");
    if (st != PGW_OK) return st;
    {
        const pgw__param params[] = {P_INT4(pgw__conf_int(pgw__pq_conf(h), "reaper.batch")),
                                     P_TEXT(holder), P_END};
        const pgw__call call = {
            .sql = PGW__SQL_REAP_TICK,
            .params = params,
            .read = reap_read,
            .ctx = &ctx,
            .ctx_size = sizeof(ctx),
            .flags = PGW__WRITES,
        };

        st = pgw__pq_call(h, &call);
    }
    if (st < PGW_OK && stats != NULL) stats->errors++;
    return st;
}
