/* job_claim: taking jobs, and waiting for them. */
#include "queue/job.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/name.h"
#include "call/ask.h"
#include "call/check.h"

#define CLAIM_KIND        6  /* column of the kind; of a refused completion: why */
#define CLAIM_SERVER_TIME 18 /* column, after those of the job */
#define CLAIM_STARTED     19
#define CLAIM_POSITION    20

static const pgw__job_column claim_columns[] = {
    PGW__JOB_QUEUE,        PGW__JOB_ID,          PGW__JOB_TOKEN,   PGW__JOB_ATTEMPT,
    PGW__JOB_MAX_ATTEMPTS, PGW__JOB_PRIORITY,    PGW__JOB_KIND,    PGW__JOB_PAYLOAD,
    PGW__JOB_BODY,         PGW__JOB_TAGS,        PGW__JOB_CREATED, PGW__JOB_LEASE_UNTIL,
    PGW__JOB_META,         PGW__JOB_QUARANTINED, PGW__JOB_IDS,     PGW__JOB_KINDS,
    PGW__JOB_PAYLOADS,     PGW__JOB_CREATEDS,    PGW__JOB_END,
};

/* Where the answer goes. The refs are those of complete_and_claim. */
typedef struct claim_ctx {
    pgw_batch **batch;
    int max;
    pgw_ref *refs;
    size_t n;
} claim_ctx;

/* How long after it received the statement the server started the leases. The statement was sent
 * before that, and received before now, however its clock changed. */
static int64_t claim_since_us(const pgw *h, const pgw__rows *rows, int row)
{
    const int64_t sent_us = pgw__pq_sent_us(h), most_us = pgw__clock_us() - sent_us;
    const int64_t waited_us = pgw__rows_time_us(rows, row, CLAIM_SERVER_TIME) -
                              pgw__rows_time_us(rows, row, CLAIM_STARTED);

    if (waited_us <= 0 || most_us <= 0) return sent_us;
    return sent_us + (waited_us < most_us ? waited_us : most_us);
}

int64_t pgw__batch_since_us(const pgw_batch *batch)
{
    return batch->since_us;
}

bool pgw__batch_quarantined(const pgw_batch *batch)
{
    return batch->count == 1 && batch->jobs[0].quarantined != 0;
}

/* The jobs of rows first .. end; a row may be several. */
static pgw_status claim_read_jobs(pgw *h, const claim_ctx *ctx, const pgw__rows *rows, int first)
{
    const int count = pgw__rows_count(rows) - first;
    pgw_status st;

    if (count == 0) return PGW_OUTCOME_EMPTY;
    st = pgw__job_batch(ctx->batch, rows, first, count, claim_columns);
    if (st == PGW_EPROTO) return pgw__ask_misfit(h, "a claim returned incomplete jobs");
    if (st != PGW_OK) return pgw__pq_fail(h, st, NULL, NULL);
    (*ctx->batch)->since_us = claim_since_us(h, rows, first);
    pgw__pq_set_server_time(h, pgw__rows_time_us(rows, first, CLAIM_SERVER_TIME));
    return pgw__job_deliver(h, ctx->batch, ctx->max, rows);
}

static pgw_status claim_read(pgw *h, const pgw__rows *rows, void *ctx)
{
    return claim_read_jobs(h, ctx, rows, 0);
}

/* Refused completions come first, each with its position in the input; jobs have none. */
static pgw_status claim_read_after_complete(pgw *h, const pgw__rows *rows, void *ctx)
{
    const claim_ctx *in = ctx;
    const int count = pgw__rows_count(rows);
    int row;

    pgw__job_refs_fill(in->refs, in->n, PGW_OK);
    for (row = 0; row < count && !pgw__rows_null(rows, row, CLAIM_POSITION); row++) {
        const pgw_status st =
            pgw__job_verdict(h, in->refs, in->n, rows, row, CLAIM_POSITION, CLAIM_KIND);

        if (st == PGW_EPROTO) {
            pgw__job_refs_fill(in->refs, in->n, PGW_EUNKNOWN);
            return st;
        }
    }
    return claim_read_jobs(h, in, rows, row);
}

/* ---- checks ---- */

static pgw_status claim_check(pgw *h, pgw_claim_opts *o, pgw_batch **batch,
                              const pgw_claim_opts *opts, char holder[PGW__HOLDER_MAX + 1])
{
    pgw_status st;

    if (batch != NULL) *batch = NULL;
    st = pgw__check_given(h, "batch", batch);
    if (st == PGW_OK) st = pgw__check_given(h, "opts", opts);
    if (st == PGW_OK) st = pgw__check_opts(h, "opts", o, sizeof(*o), opts);
    if (st == PGW_OK) st = pgw__check_given(h, "opts->queues", o->queues);
    if (st == PGW_OK)
        st = pgw__check_count(h, "opts->queues_count", o->queues_count, 1, PGW__QUEUES_MAX);
    if (st == PGW_OK)
        st = pgw__check_all_names(h, "opts->queues", o->queues, o->queues_count, PGW__QUEUE_MAX);
    if (st == PGW_OK) st = pgw__check_int(h, "opts->max", o->max, 1, PGW__BATCH_MAX);
    if (st == PGW_OK) st = pgw__check_lease(h, "opts->lease_ms", o->lease_ms);
    if (st == PGW_OK) st = pgw__check_wait(h, "opts->wait_ms", o->wait_ms, INT64_MAX);
    if (st == PGW_OK) st = pgw__check_holder(h, "opts->holder", &o->holder, o->holder, holder);
    return st;
}

/* ---- one claim ---- */

static pgw_status claim_once(pgw *h, pgw_batch **batch, const pgw_claim_opts *o)
{
    const claim_ctx ctx = {batch, o->max, NULL, 0};
    const pgw__param params[] = {
        P_ARRAY(TEXT, o->queues, o->queues_count),
        P_INT4(o->max),
        P_TEXT(o->holder),
        P_INT8_OR_NULL(o->lease_ms, o->lease_ms == PGW_DEFAULT),
        P_BOOL(o->apart),
        P_END,
    };
    const pgw__call call = {
        .sql = PGW__SQL_JOB_CLAIM,
        .params = params,
        .read = claim_read,
        .ctx = &ctx,
        .ctx_size = sizeof(ctx),
        .flags = PGW__WRITES | PGW__RELAXED,
    };

    return pgw__pq_call(h, &call);
}

/* ---- waiting ----
 *
 * An idle session listens, registers as a waiter, and claims once more: that claim finds a job that
 * came before, and a job that comes afterwards sends a notification. A job whose transaction was
 * open during the registration is neither seen nor announced, so a few claims follow, at growing
 * intervals. Where a session cannot listen, or a notification is lost with a crash, the claim every
 * poll.max_ms finds the job. */

typedef struct claim_wait {
    pgw *h;
    const pgw_claim_opts *o;
    pgw__backoff backoff;
    bool listen;        /* notifications can be had */
    bool registered;    /* as a waiter ... */
    uint64_t epoch;     /* ... in this session */
    int64_t recheck_ms; /* the pause before the next claim, for jobs that were enqueued before */
} claim_wait;

static pgw_status claim_waiter_call(const claim_wait *w, pgw__sql sql)
{
    char channel[64];
    const pgw__param params[] = {P_ARRAY(TEXT, w->o->queues, w->o->queues_count),
                                 P_INT4(pgw__pq_slot(w->h, channel)), P_END};
    const pgw__call call = {.sql = sql, .params = params, .flags = PGW__OWNED | PGW__DIRECT};

    return pgw__pq_call(w->h, &call);
}

static bool claim_is_registered(const claim_wait *w)
{
    return w->registered && w->epoch == pgw__pq_epoch(w->h);
}

/* PGW_EPOOLED: poll instead. */
static pgw_status claim_register(claim_wait *w)
{
    char channel[64];
    pgw_status st;

    pgw__pq_slot(w->h, channel);
    st = pgw__pq_listen(w->h, channel);
    if (st == PGW_OK) st = claim_waiter_call(w, PGW__SQL_JOB_IDLE);
    w->registered = st == PGW_OK;
    w->epoch = pgw__pq_epoch(w->h);
    w->recheck_ms = w->backoff.base_ms;
    return st;
}

/* While a waiter is registered, every enqueue notifies, so it unregisters before the jobs run. The
 * session goes on listening for the next wait, except in a session that holds locks: it reads
 * nothing while it rests, and notifications would pile up until the server considers it dead. */
static pgw_status claim_unregister(claim_wait *w, pgw_status st)
{
    pgw__diagnostics diagnostics;

    if (!claim_is_registered(w) || pgw__pq_check_session(w->h) != PGW_OK) return st;
    w->registered = false;
    pgw__pq_keep_diagnostics(w->h, &diagnostics);
    if (claim_waiter_call(w, PGW__SQL_JOB_AWAKE) != PGW_OK) pgw__pq_drop(w->h);
    if (pgw__pq_kept(w->h) != NULL) pgw__pq_unlisten_slot(w->h);
    pgw__pq_tell(w->h, &diagnostics);
    return st;
}

static pgw_status claim_waiting(claim_wait *w, pgw_batch **batch)
{
    const int64_t deadline = pgw__deadline_in(w->o->wait_ms);
    const int64_t poll_ms = w->backoff.cap_ms;

    for (;;) {
        int64_t left, pause;
        pgw_status st;

        if (w->listen && !claim_is_registered(w)) {
            st = claim_register(w);
            if (st == PGW_EPOOLED)
                w->listen = false;
            else if (st != PGW_OK)
                return st;
        } else {
            left = pgw__deadline_left_ms(deadline);
            if (left == 0) return PGW_OUTCOME_EMPTY;
            pause = w->listen ? pgw__backoff_grow_ms(&w->recheck_ms, poll_ms)
                              : pgw__backoff_next_ms(&w->backoff);
            st = pgw__pq_wait(w->h, left >= 0 && left < pause ? left : pause, -1);
            if (st == PGW_ECANCELED)
                pgw__pq_fail(w->h, st, "asked to stop while waiting for a job", NULL);
            if (st < PGW_OK) return st;
        }
        st = claim_once(w->h, batch, w->o);
        if (st != PGW_OUTCOME_EMPTY) return st;
    }
}

static pgw_status claim_check_wait(pgw *h)
{
    pgw_status st =
        pgw__check_unarmed(h, "claim with wait_ms 0, and repeat the call from your event loop");

    if (st == PGW_OK && !pgw__pq_attached(h) && pgw__pq_in_txn(h))
        st = pgw__pq_reject(h, PGW_EMISUSE, "a claim that waits would keep the transaction open",
                            "claim with wait_ms 0, or outside the transaction");
    return st;
}

pgw_status pgw_claim(pgw *h, const pgw_claim_opts *opts, pgw_batch **batch)
{
    pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;
    char holder[PGW__HOLDER_MAX + 1];
    pgw_status st = claim_check(h, &o, batch, opts, holder);

    if (st == PGW_OK && o.wait_ms != 0) st = claim_check_wait(h);
    if (st != PGW_OK) return st;
    st = claim_once(h, batch, &o);
    if (st == PGW_OUTCOME_EMPTY && o.wait_ms != 0) {
        const pgw_conf *conf = pgw__pq_conf(h);
        claim_wait w = {.h = h, .o = &o};

        w.listen = !pgw__pq_attached(h) && pgw__conf_bool(conf, "notify");
        pgw__backoff_init(&w.backoff, pgw__conf_int(conf, "poll.min_ms"),
                          pgw__conf_int(conf, "poll.max_ms"));
        st = claim_unregister(&w, claim_waiting(&w, batch));
    }
    return st;
}

/* ---- finish and claim in one ---- */

static pgw_status claim_after_complete(pgw *h, pgw_ref *refs, const pgw__job_refs *done, size_t n,
                                       pgw_batch **batch, const pgw_claim_opts *o)
{
    const claim_ctx ctx = {batch, o->max, refs, n};
    const pgw__param params[] = {
        P_TEXT(o->queues[0]),
        P_ARRAY(INT8, done->ids, n),
        P_ARRAY(UUID, done->tokens, done->tokens_count),
        P_INT4(o->max),
        P_TEXT(o->holder),
        P_INT8_OR_NULL(o->lease_ms, o->lease_ms == PGW_DEFAULT),
        P_BOOL(o->apart),
        P_END,
    };
    const pgw__call call = {
        .sql = PGW__SQL_JOB_COMPLETE_AND_CLAIM,
        .params = params,
        .read = claim_read_after_complete,
        .ctx = &ctx,
        .ctx_size = sizeof(ctx),
        .flags = PGW__WRITES,
    };

    return pgw__pq_call(h, &call);
}

pgw_status pgw_complete_and_claim(pgw *h, pgw_ref *refs, size_t n, const pgw_claim_opts *opts,
                                  pgw_batch **batch)
{
    pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;
    char holder[PGW__HOLDER_MAX + 1];
    pgw__job_refs done = {NULL, NULL, 0};
    pgw_status st = claim_check(h, &o, batch, opts, holder);

    pgw__job_refs_fill(refs, n, PGW_EUNKNOWN);
    if (st == PGW_OK) st = pgw__check_int(h, "opts->queues_count", (int64_t)o.queues_count, 1, 1);
    if (st == PGW_OK) st = pgw__check_int(h, "opts->wait_ms", o.wait_ms, 0, 0);
    if (st == PGW_OK) st = pgw__check_count(h, "n", n, 0, PGW__BATCH_MAX);
    if (st == PGW_OK && n > 0) st = pgw__check_given(h, "refs", refs);
    if (st == PGW_OK) st = pgw__job_refs_make(h, &done, refs, n);
    if (st == PGW_OK) st = claim_after_complete(h, refs, &done, n, batch, &o);
    pgw__mem_free(done.ids);
    return st;
}
