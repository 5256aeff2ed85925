/* SPDX-License-Identifier: PostgreSQL
 *
 * role_rate.c: rates. One role enqueues jobs into the queues that have a rate: many at a time and
 * then none, so that the burst is used up and refills, but fewer on average than the rates allow.
 * The other role takes from named rates, sometimes in transactions that it rolls back. chaos.sh
 * sets the rates: of q10, of q11 and each of its groups, and the named rates t0 and t1.
 */
#include "role.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int made; /* the last number of a job */

/* The weight of a job. Some jobs are heavier than the burst, which is 6. */
static int weight(void)
{
    return draw(4) ? 1 : draw(3) ? 2 + draw(2) : 4 + draw(6);
}

/* Appends an item to a list: word, number and after. Without a word: NULL. */
static void list(char *into, const char *word, int number, const char *after)
{
    const char *comma = *into ? "," : "";
    into += strlen(into);
    if (word)
        sprintf(into, "%s%s%d%s", comma, word, number, after);
    else
        sprintf(into, "%sNULL", comma);
}

static int64_t add(int queue, int n, int groups, int64_t *call)
{
    static char sql[8000];
    char kinds[1500] = "", grps[500] = "", metas[2500] = "";
    char prefix[20];
    const int first = made + 1;

    snprintf(prefix, sizeof(prefix), "%d.", hist_proc);
    for (int i = 0; i < n; i++) {
        list(kinds, prefix, ++made, "");
        list(grps, queue == 10 && draw(3) == 0 ? NULL : "g", draw(groups), "");
        list(metas, "{\"rate_weight\": ", queue == 10 ? weight() : 1, "}");
    }
    snprintf(sql, sizeof(sql),
             "SELECT FROM pgwork.enqueue_many('q%d', array_fill('1'::jsonb, ARRAY[%d]), kinds => "
             "'{%s}', grps => '{%s}', metas => ARRAY(SELECT * FROM jsonb_array_elements('[%s]')))",
             queue, n, kinds, grps, metas);
    return sql_enqueue(sql, queue, first, n, call);
}

void role_rated(void)
{
    while (going()) {
        int64_t call = 0;
        if (sql_up() && sql_run("BEGIN") == S_OK) {
            const bool many = draw(3) == 0, keep = draw(6) > 0;
            const int64_t st = draw(2) ? add(10, 6 + draw(8), GROUPS, &call)
                                       : add(11, many ? 30 : 12, many ? GROUPS : 2, &call);
            nap_ms(draw(5) ? 0 : draw(1500));
            hist(call, 'o', OP_enq, sql_end(st, keep));
        }
        nap_ms(draw(3500));
    }
}

/* -- outside jobs --------------------------------------------------------------------------------
 */

static void take_and_roll_back(int which, int n)
{
    char sql[100];
    PGresult *res = NULL;
    if (!sql_up() || sql_run(draw(2) ? "BEGIN" : "BEGIN ISOLATION LEVEL REPEATABLE READ") != S_OK)
        return;
    snprintf(sql, sizeof(sql), "SELECT pgwork.rate_take('t%d', %d)", which, n);
    const int64_t call = hist_call();
    hist(call, 'i', OP_tak, which, n);
    int64_t st = sql_ask(sql, &res);
    const bool granted = res && strcmp(PQgetvalue(res, 0, 0), "0") == 0;
    if (st == S_OK && !granted) st = S_LOCKED;
    hist(call, 'o', OP_tak, st);
    if (res) PQclear(res);
    nap_ms(draw(4) ? 0 : draw(1000));
    sql_run("ROLLBACK");
    if (granted) fired(C_take_rollback);
}

void role_taker(void)
{
    pgw *h = open_handle();
    while (going()) {
        const int which = draw(2), n = draw(3) ? 1 : 1 + draw(5);
        pgw_rate_take_opts o = PGW_RATE_TAKE_OPTS_INIT;
        o.n = n, o.timeout_ms = draw(3) ? 0 : draw(300);
        if (draw(5) == 0) {
            take_and_roll_back(which, n);
        } else {
            const int64_t call = hist_call();
            hist(call, 'i', OP_tak, which, n);
            hist(call, 'o', OP_tak, outcome(pgw_rate_take(h, which ? "t1" : "t0", &o, NULL)));
        }
        nap_ms(draw(15) ? draw(80) : draw(4000)); /* the long pause lets the burst refill */
    }
    pgw_close(h);
}
