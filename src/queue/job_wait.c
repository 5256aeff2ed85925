/* job_wait: waits until a job is over. It asks for the job by its id, which an index finds, with
 * growing pauses. */
#include "base/backoff.h"
#include "base/clock.h"
#include "call/check.h"
#include "queue/job.h"

#include <assert.h>

#define WAIT_FIRST_MS 20 /* between two checks, growing, and at most */
#define WAIT_MOST_MS  1000

typedef struct wait_ctx {
    pgw_batch **job;
} wait_ctx;

static pgw_status wait_read(pgw *h, const pgw__rows *rows, void *ctx)
{
    const wait_ctx *in = ctx;

    if (pgw__rows_count(rows) == 0) return PGW_OUTCOME_EMPTY;
    if (pgw__job_batch(in->job, rows, 0, 1, pgw__job_listed) != PGW_OK)
        return pgw__pq_fail(h, PGW_ENOMEM, NULL, NULL);
    return PGW_OK;
}

static bool wait_is_over(const pgw_job *job)
{
    const pgw_state state = pgw_job_state(job);

    return state == PGW_STATE_DONE || state == PGW_STATE_DEAD || state == PGW_STATE_CANCELLED;
}

static pgw_status wait_ask(pgw *h, const char *queue, int64_t id, pgw_batch **job)
{
    const wait_ctx ctx = {job};
    const pgw__param params[] = {
        P_TEXT(queue), P_TEXT(NULL), P_TEXT(NULL), P_INT8(id), P_INT8(0), P_INT8(1), P_END,
    };
    const pgw__call call = {.sql = PGW__SQL_JOB_EACH,
                            .params = params,
                            .read = wait_read,
                            .ctx = &ctx,
                            .ctx_size = sizeof(ctx)};

    return pgw__pq_call(h, &call);
}

static pgw_status wait_check(pgw *h, pgw_wait_opts *mine, const pgw_wait_opts *given,
                             pgw_batch **job)
{
    pgw_status st = pgw__check_given(h, "job", job);

    if (st == PGW_OK) st = pgw__check_opts(h, "opts", mine, sizeof(*mine), given);
    if (st == PGW_OK && mine->queue != NULL) st = pgw__check_queue(h, mine->queue);
    if (st == PGW_OK) st = pgw__check_int(h, "opts->id", mine->id, 1, INT64_MAX);
    if (st == PGW_OK) st = pgw__check_wait(h, "opts->timeout_ms", mine->timeout_ms, INT64_MAX);
    if (st == PGW_OK) st = pgw__check_unarmed(h, NULL);
    if (st == PGW_OK && pgw__pq_in_txn(h) && pgw__pq_check_session(h) == PGW_OK)
        st = pgw__pq_reject(h, PGW_EMISUSE,
                            "a transaction is open: workers do not see its uncommitted jobs",
                            "commit, then wait");
    return st;
}

pgw_status pgw_job_wait(pgw *h, const pgw_wait_opts *opts, pgw_batch **job)
{
    pgw_wait_opts o = PGW_WAIT_OPTS_INIT;
    int64_t next_ms = WAIT_FIRST_MS, deadline;
    bool seen = false;
    pgw_status st;

    if (job != NULL) *job = NULL;
    st = wait_check(h, &o, opts, job);
    assert(st != PGW_OK || job != NULL); /* NULL is refused */
    deadline = pgw__deadline_in(o.timeout_ms);
    while (st == PGW_OK) {
        int64_t until;

        st = wait_ask(h, o.queue, o.id, job);
        if (st == PGW_OUTCOME_EMPTY) {
            if (seen) return PGW_OK; /* over, and nothing of it was kept */
            return pgw__pq_fail(h, PGW_ENOTFOUND,
                                "there is no such job, or it has finished and was not retained",
                                "set a retention on the queue: finished jobs are kept that long");
        }
        if (st != PGW_OK || wait_is_over(pgw_batch_job(*job, 0))) return st;
        pgw_batch_free(*job);
        *job = NULL;
        seen = true;
        if (pgw__deadline_left_ms(deadline) == 0) return PGW_OUTCOME_EMPTY;
        until = pgw__deadline_in(pgw__backoff_grow_ms(&next_ms, WAIT_MOST_MS));
        st = pgw__pq_wait(h, pgw__deadline_left_ms(pgw__deadline_min(until, deadline)), PGW_NO_FD);
        if (st == PGW_OUTCOME_EMPTY) st = PGW_OK;
    }
    return st;
}
