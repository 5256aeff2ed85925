/* txn: transactions of several verbs, and the one way to repeat them. */

#include "base/backoff.h"
#include "call/check.h"
#include "pq/pq.h"

#define TXN_TRIES_MAX     1000
#define TXN_PAUSE_BASE_MS 2
#define TXN_PAUSE_CAP_MS  500

pgw_status pgw_txn_begin(pgw *h)
{
    return h != NULL ? pgw__pq_begin(h) : PGW_EINVAL;
}

pgw_status pgw_txn_commit(pgw *h)
{
    return h != NULL ? pgw__pq_commit(h) : PGW_EINVAL;
}

pgw_status pgw_txn_rollback(pgw *h)
{
    return h != NULL ? pgw__pq_rollback(h) : PGW_EINVAL;
}

/* The diagnostics of an error of fn stay: a rollback keeps them. */
static pgw_status txn_try(pgw *h, pgw_txn_fn *fn, void *arg)
{
    pgw_status st = pgw__pq_begin(h), outcome;

    if (st != PGW_OK) return st;
    outcome = fn(h, arg);
    if (pgw__pq_disarm(h) && outcome >= PGW_OK)
        outcome =
            pgw__pq_reject(h, PGW_EMISUSE, "the function in the transaction called pgw_async()",
                           "call verbs without pgw_async() there");
    if (outcome >= PGW_OK) {
        st = pgw__pq_commit(h);
        return st == PGW_OK ? outcome : st;
    }
    if (pgw__pq_error_status(h) != outcome)
        pgw__pq_reject(h, outcome, "the function in the transaction returned an error", NULL);
    st = pgw__pq_rollback(h);
    return st == PGW_OK ? outcome : st;
}

pgw_status pgw_txn_run(pgw *h, int tries, pgw_txn_fn *fn, void *arg)
{
    pgw__backoff pause;
    pgw_status st = pgw__check_int(h, "tries", tries, 1, TXN_TRIES_MAX);

    if (st != PGW_OK) return st;
    if (fn == NULL) return pgw__pq_refuse(h, "fn", NULL, "a function");
    pgw__backoff_init(&pause, TXN_PAUSE_BASE_MS, TXN_PAUSE_CAP_MS);
    for (;;) {
        st = txn_try(h, fn, arg);
        if (st != PGW_ERETRY || --tries == 0) return st;
        st = pgw__pq_wait(h, pgw__backoff_next_ms(&pause), -1);
        if (st == PGW_ECANCELED) return st;
    }
}
