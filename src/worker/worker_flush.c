/* worker_flush: reports results in as few calls as their outcomes allow. A call whose answer was
 * lost is repeated: the token decides. One result that the server refuses (output that is not
 * JSON, a trigger that fails) must not block the others: its group is halved until the result is
 * alone and rests. After a few tries the job is failed with the server's message. */
#include "worker/worker_flush.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"
#include "call/check.h"
#include "worker/worker_progress.h"
#include "worker/worker_report.h"

#define FLUSH_MAX     10000 /* of one call */
#define FLUSH_TRIES   3     /* of a report that the server answers with an error */
#define FLUSH_DOUBLED 8     /* times that it gets twice as long as before */
#define FLUSH_VAIN    3     /* locked rows and similar failures, one after another */
#define FLUSH_REFUSED 16    /* one after another: then the jobs are not the cause */

bool pgw__worker_flush_init(pgw_worker *w)
{
    const int ahead = w->given.prefetch < 0 ? PGW__AHEAD_MAX : w->given.prefetch;
    const int held = ahead + w->given.batch * pgw__worker_handlers(w);
    const int most = 2 * held; /* held when the last call was sent, and reported with it */
    const int size = most > w->given.flush_jobs ? most : w->given.flush_jobs;

    w->flush.max = (size_t)(size < FLUSH_MAX ? size : FLUSH_MAX);
    w->flush.out = pgw__mem_zero(w->flush.max, sizeof(pgw_task *));
    w->flush.refs = pgw__mem_zero(w->flush.max, sizeof(w->flush.refs[0]));
    w->flush.outputs = pgw__mem_zero(w->flush.max, sizeof(w->flush.outputs[0]));
    return w->flush.out != NULL && w->flush.refs != NULL && w->flush.outputs != NULL;
}

/* ---- groups ---- */

static int flush_order_text(const char *a, const char *b)
{
    if (a == b) return 0;
    if (a == NULL || b == NULL) return a == NULL ? -1 : 1;
    return strcmp(a, b);
}

/* Sorts by what one call has in common: queue, verb and its arguments. Results that failed before
 * go apart, because they may fail again. */
static int flush_order_group(const pgw_task *a, const pgw_task *b)
{
    int order;

    if (a->verdict != b->verdict) return a->verdict < b->verdict ? -1 : 1;
    order = flush_order_text(pgw_job_queue(a->job), pgw_job_queue(b->job));
    if (order != 0) return order;
    if (a->verdict == PGW_VERDICT_DONE && (a->output == NULL) != (b->output == NULL))
        return a->output == NULL ? -1 : 1;
    if (a->refusals != b->refusals) return a->refusals - b->refusals;
    if (a->stalls != b->stalls) return a->stalls - b->stalls;
    if (a->verdict == PGW_VERDICT_DONE || a->verdict == PGW_VERDICT_RELEASE) return 0;
    if (a->delay_ms != b->delay_ms) return a->delay_ms < b->delay_ms ? -1 : 1;
    return flush_order_text(a->error, b->error);
}

/* Within a group as they were claimed: so the server finds them in the row that they share. */
int pgw__worker_order(const pgw_task *a, const pgw_task *b)
{
    const int order = flush_order_group(a, b);
    const uint64_t claim_a = a->ref.token.number, claim_b = b->ref.token.number;

    if (order != 0) return order;
    if (claim_a != claim_b) return claim_a < claim_b ? -1 : 1;
    if (a->taskset == b->taskset) return (a > b) - (a < b);
    return (a->ref.id > b->ref.id) - (a->ref.id < b->ref.id);
}

static int flush_compare(const void *x, const void *y)
{
    return pgw__worker_order(*(pgw_task *const *)x, *(pgw_task *const *)y);
}

/* Usually they are in order, as claimed and finished. Sorting a thousand regardless was an eighth
 * of the CPU time of the runtime. */
static void flush_sort(pgw_task **tasks, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        if (pgw__worker_order(tasks[i - 1], tasks[i]) <= 0) continue;
        qsort(tasks, n, sizeof(pgw_task *), flush_compare);
        return;
    }
}

size_t pgw__worker_group(pgw_task *const *tasks, size_t n)
{
    size_t i;

    for (i = 1; i < n && flush_order_group(tasks[0], tasks[i]) == 0; i++) continue;
    return i < n ? i : n;
}

static int flush_compare_ids(const void *x, const void *y)
{
    const pgw_ref *a = x, *b = y;

    return (a->id > b->id) - (a->id < b->id);
}

static bool flush_ascends(const pgw_ref *refs, size_t n)
{
    size_t i;

    for (i = 1; i < n && refs[i - 1].id < refs[i].id; i++) continue;
    return i >= n;
}

static void flush_name(pgw_worker *w, size_t from, size_t n)
{
    size_t i;

    for (i = from; i < from + n; i++) w->flush.refs[i] = w->flush.out[i]->ref;
}

/* Whether a job of this group was lost, and claimed again by this worker, before its first result
 * was reported. */
static bool flush_has_twins(pgw_worker *w, size_t from, size_t n)
{
    pgw_ref *refs = w->flush.refs + from;

    if (w->flush.out[from]->taskset == w->flush.out[from + n - 1]->taskset)
        return false; /* all of one claim */
    flush_name(w, from, n);
    if (flush_ascends(refs, n)) return false;
    qsort(refs, n, sizeof(*refs), flush_compare_ids);
    return !flush_ascends(refs, n);
}

/* How many from there on fit into one call. It must not name a job twice, because the answer names
 * refused jobs, not their claim. */
static size_t flush_group_size(pgw_worker *w, size_t from, size_t end)
{
    pgw_task **tasks = w->flush.out + from;
    const size_t n = pgw__worker_group(tasks, end - from);
    size_t i, k;

    if (!flush_has_twins(w, from, n)) return n;
    for (i = 1; i < n; i++)
        for (k = 0; k < i; k++)
            if (tasks[k]->ref.id == tasks[i]->ref.id) return i;
    return n;
}

/* ---- sending ---- */

/* A third of the shortest lease, so that a session that hangs leaves time for another one. Each
 * time the server has not done it by then it gets twice as long. */
static int64_t flush_limit_ms(const pgw_worker *w, size_t from, size_t n)
{
    int64_t ms = INT64_MAX;

    for (size_t i = from; i < from + n; i++) {
        const pgw_task *t = w->flush.out[i];
        const int64_t third = pgw__lease_third(t->lease_ms)
                              << (t->stalls < FLUSH_DOUBLED ? t->stalls : FLUSH_DOUBLED);

        if (third < ms) ms = third;
    }
    return ms < w->given.call_ms ? ms : w->given.call_ms;
}

/* While the worker ends, all results share the remaining time. */
static pgw_status flush_limit(pgw_worker *w, size_t from, size_t n)
{
    int64_t left_ms;

    if (w->loop.stops < 2) {
        pgw__pq_limit_calls(w->loop.h, flush_limit_ms(w, from, n));
        return PGW_OK;
    }
    left_ms = w->loop.flush_until - pgw__clock_ms();
    if (left_ms <= 0)
        return pgw__pq_fail(w->loop.h, PGW_ETIMEDOUT, "no time was left for results", NULL);
    pgw__worker_limit_calls(w, left_ms);
    return PGW_OK;
}

static pgw_status flush_send(pgw_worker *w, size_t from, size_t n)
{
    const pgw_task *t = w->flush.out[from];
    const char *queue = pgw_job_queue(t->job);
    pgw_ref *refs = w->flush.refs + from;
    pgw_complete_opts complete = PGW_COMPLETE_OPTS_INIT;
    pgw_snooze_opts snooze = PGW_SNOOZE_OPTS_INIT;
    pgw_hold_opts hold = PGW_HOLD_OPTS_INIT;
    pgw_fail_opts fail = PGW_FAIL_OPTS_INIT;
    const int64_t delay_ms = t->delay_ms;

    switch (t->verdict) {
    case PGW_VERDICT_DONE:
        if (t->output != NULL) complete.outputs = w->flush.outputs + from;
        return pgw_complete(w->loop.h, queue, refs, n, &complete);
    case PGW_VERDICT_SNOOZE:
    case PGW_VERDICT_HOLD:
        if (delay_ms >= 0)
            hold.for_ms = delay_ms < PGW__DELAY_MAX_MS ? delay_ms : PGW__DELAY_MAX_MS;
        snooze.delay_ms = hold.for_ms;
        hold.reason = t->error;
        if (t->verdict == PGW_VERDICT_HOLD && hold.for_ms > 0)
            return pgw_hold(w->loop.h, queue, refs, n, &hold);
        return pgw_snooze(w->loop.h, queue, refs, n, &snooze);
    case PGW_VERDICT_RELEASE: return pgw_release(w->loop.h, queue, refs, n);
    case PGW_VERDICT_RETRY:
    case PGW_VERDICT_DEAD:
    case PGW_VERDICT_SETTLED: /* never reached */
    default:                  /* not a verdict: a failure */
        fail.error = t->error;
        if (delay_ms >= 0)
            fail.retry_ms = delay_ms < PGW__PERIOD_MAX_MS ? delay_ms : PGW__PERIOD_MAX_MS;
        fail.dead = t->verdict == PGW_VERDICT_DEAD;
        return pgw_fail(w->loop.h, queue, refs, n, &fail);
    }
}

static pgw_status flush_call(pgw_worker *w, size_t from, size_t n)
{
    pgw_status st = flush_limit(w, from, n);

    if (st == PGW_OK && w->flush.out[from]->verdict != PGW_VERDICT_DONE)
        pgw__progress_before(w, w->flush.out + from, n);
    flush_name(w, from, n);
    if (st == PGW_OK) st = flush_send(w, from, n);
    if (st == PGW_EINVAL) return st; /* it may be the output's fault */
    return pgw__pq_in_loop(w->loop.h, st);
}

/* One of a call's results may be at fault, for which the server refuses them all. */
static bool flush_is_ones(pgw_status st)
{
    return st == PGW_EINVAL || st == PGW_ELIMIT || st == PGW_EDB;
}

/* The server answered and will always refuse this: arguments at once, other errors (a damaged row,
 * a trigger) after a few refusals. */
static bool flush_is_poison(const pgw_task *t, pgw_status st)
{
    return flush_is_ones(st) && (st != PGW_EDB || t->refusals + 1 >= FLUSH_TRIES);
}

/* An error that usually passes does not pass for this result, or for one reported with it: an open
 * transaction has locked its row where waits are not limited, or a trigger raises such a code each
 * time. */
static bool flush_is_stuck(const pgw_task *t, pgw_status st)
{
    return (st == PGW_ERETRY || st == PGW_ETIMEDOUT) && t->stalls >= FLUSH_TRIES;
}

static void flush_fill(pgw_worker *w, size_t from, size_t n, pgw_status st)
{
    size_t i;

    for (i = from; i < from + n; i++) w->flush.refs[i].outcome = st;
}

/* One call. Afterwards refs[from ..].outcome is PGW_OK, PGW_ELEASE or PGW_ENOTFOUND, or the failure
 * of the whole call. Returns PGW_OK if the server decided. */
static pgw_status flush_decided(pgw_worker *w, pgw_status st, size_t from, size_t n)
{
    if (st >= 0 || st == PGW_ELEASE) return PGW_OK;
    flush_fill(w, from, n, st);
    return st == PGW_ENOTFOUND ? PGW_OK : st; /* the queue was dropped, and its jobs with it */
}

/* The first failure in a flush is the one that is logged. */
typedef struct flush_trouble {
    pgw_status st;
    pgw__diagnostics diagnostics;
    int refused; /* results, since a call of this group went well */
} flush_trouble;

static pgw_status flush_note(pgw_worker *w, flush_trouble *first, pgw_status st)
{
    if (st < 0 && first->st >= 0) {
        first->st = st;
        pgw__pq_keep_diagnostics(w->loop.h, &first->diagnostics);
    }
    return st;
}

/* A result that cannot be reported as it is. */
static pgw_status flush_condemn(pgw_worker *w, size_t i)
{
    pgw_task *t = w->flush.out[i];
    char error[PGW__ERROR_LINE];

    PGW__LOG(&w->given.log, PGW_LOG_ERROR, "worker", "result of job %lld refused: %s",
             (long long)t->ref.id, pgw_error_message(w->loop.h));
    snprintf(error, sizeof(error), "the result was refused: %s", pgw_error_message(w->loop.h));
    if (t->verdict != PGW_VERDICT_DEAD) t->verdict = PGW_VERDICT_RETRY;
    t->delay_ms = -1;
    pgw__mem_free(t->error);
    t->error = pgw__mem_dup(error);
    return flush_call(w, i, 1);
}

/* After a call with this result alone. If it is refused or stuck, or its row is locked, it is set
 * aside, and nothing else waits for it. If the worker ends, or all results are refused, it is
 * retried with pauses, and nothing is claimed meanwhile. */
static pgw_status flush_one(pgw_worker *w, flush_trouble *first, size_t i, pgw_status st)
{
    pgw_task *t = w->flush.out[i];
    bool apart;

    if (flush_is_poison(t, st)) st = flush_condemn(w, i);
    if (flush_is_poison(t, st)) st = PGW_ENOTFOUND; /* not reportable: let its lease end */
    st = flush_decided(w, st, i, 1);
    first->refused = st == PGW_EDB ? first->refused + 1 : 0;
    apart = (st == PGW_EDB && first->refused < FLUSH_REFUSED) || flush_is_stuck(t, st);
    t->aside = st == PGW_ELOCKED || (apart && !w->loop.hurries);
    return t->aside ? PGW_OK : st;
}

/* Jobs of one claim may lie in one row: they are as locked as the one before. How many. */
static size_t flush_lay_aside(pgw_worker *w, size_t from, size_t end)
{
    size_t i;

    for (i = from; i < end; i++) {
        if (w->flush.out[i]->ref.token.number != w->flush.out[from - 1]->ref.token.number) break;
        w->flush.out[i]->aside = true;
        w->flush.refs[i].outcome = PGW_ELOCKED;
    }
    return i - from;
}

/* One by one if each failure takes its time, and only a few failures in a row. The others follow
 * the next claim, which shows whether the table is locked. */
static pgw_status flush_each(pgw_worker *w, flush_trouble *first, size_t from, size_t n)
{
    const size_t end = from + n;
    pgw_status st = PGW_OK;
    int vain = 0;
    size_t i;

    for (i = from; i < end && vain < FLUSH_VAIN && pgw__worker_goes_on(st); i++) {
        st = flush_note(w, first, flush_one(w, first, i, flush_call(w, i, 1)));
        vain = w->flush.out[i]->aside || st < 0 ? vain + 1 : 0;
        if (w->flush.refs[i].outcome == PGW_ELOCKED) i += flush_lay_aside(w, i + 1, end);
    }
    flush_fill(w, i, end - i, PGW_ECONN); /* not sent */
    return st;
}

/* One group, in as many calls as needed. Returns the last failure, if any. */
static pgw_status flush_group(pgw_worker *w, flush_trouble *first, size_t from, size_t n)
{
    const size_t half = n / 2;
    pgw_status st = flush_call(w, from, n);

    if (n == 1) return flush_note(w, first, flush_one(w, first, from, st));
    if (st == PGW_ELOCKED || flush_is_stuck(w->flush.out[from], st))
        return flush_each(w, first, from, n);
    if (st >= 0) first->refused = 0;
    if (!flush_is_ones(st)) return flush_note(w, first, flush_decided(w, st, from, n));
    st = flush_group(w, first, from, half);
    if (pgw__worker_goes_on(st) && first->refused < FLUSH_REFUSED)
        return flush_group(w, first, from + half, n - half);
    flush_fill(w, from + half, n - half, PGW_ECONN); /* not sent */
    return st;
}

/* Whether the outcome of any of them is known although the call failed. */
static bool flush_is_told(const pgw_worker *w, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (w->flush.refs[i].outcome != PGW_EUNKNOWN) return true;
    return false;
}

/* Beside a claim, in its transaction. Whose fault it is when that fails shows when they are sent
 * alone, and the claim after them. */
static pgw_status flush_and_claim(pgw_worker *w, flush_trouble *first, size_t n, pgw__claim *claim)
{
    pgw_status st;

    pgw__pq_limit_calls(w->loop.h, flush_limit_ms(w, 0, n));
    flush_name(w, 0, n);
    claim->sent_us = pgw__clock_us();
    st = pgw_complete_and_claim(w->loop.h, w->flush.refs, n, &claim->opts, &claim->batch);
    claim->done = st >= 0;
    w->loop.claims_fail = st < 0;
    if (st >= 0 || flush_is_told(w, n)) return flush_note(w, first, st);
    st = pgw__pq_in_loop(w->loop.h, st);
    if (st == PGW_ELOCKED) return flush_each(w, first, 0, n);
    if (st != PGW_ETIMEDOUT && (pgw__worker_goes_on(st) || pgw__status_is_hopeless(st)))
        return flush_group(w, first, 0, n);
    flush_fill(w, 0, n, st);
    return flush_note(w, first, st);
}

/* ---- afterwards ---- */

/* The last failure makes a dead letter of a job, unless it was cancelled: then it is gone. */
static bool flush_kills(const pgw_task *t)
{
    if (t->verdict == PGW_VERDICT_DEAD) return true;
    return pgw__worker_is_last(t->job) && (atomic_load(&t->signals) & PGW_SIGNAL_CANCELED) == 0;
}

static bool flush_is_failure(const pgw_task *t)
{
    return t->verdict != PGW_VERDICT_DONE && t->verdict != PGW_VERDICT_SNOOZE &&
           t->verdict != PGW_VERDICT_HOLD && t->verdict != PGW_VERDICT_RELEASE &&
           t->verdict != PGW_VERDICT_SETTLED;
}

static void flush_tell_failure(const pgw_worker *w, const pgw_task *t)
{
    const char *error = t->error != NULL && t->error[0] != '\0' ? t->error : "no reason was given";
    const int most = pgw_job_max_attempts(t->job);
    char of[16] = "";

    if (most > 0) snprintf(of, sizeof(of), " of %d", most);
    PGW__LOG(&w->given.log, PGW_LOG_INFO, "worker",
             "job %lld of queue \"%s\" failed at attempt %d%s%s: %s", (long long)t->ref.id,
             pgw_job_queue(t->job), pgw_job_attempt(t->job), of,
             flush_kills(t) ? " and is a dead letter" : "", error);
}

static void flush_count(pgw_worker *w, pgw_task *t)
{
    if (flush_is_failure(t) && flush_kills(t)) {
        atomic_fetch_add(&w->n.dead, 1);
        pgw__report_told(t, PGW__COUNT_DEAD);
        return;
    }
    switch (t->verdict) {
    case PGW_VERDICT_DONE:
        atomic_fetch_add(&w->n.completed, 1);
        pgw__report_told(t, PGW__COUNT_DONE);
        break;
    case PGW_VERDICT_SNOOZE:
    case PGW_VERDICT_HOLD: atomic_fetch_add(&w->n.snoozed, 1); break;
    case PGW_VERDICT_RELEASE: atomic_fetch_add(&w->n.released, 1); break;
    case PGW_VERDICT_DEAD:
    case PGW_VERDICT_RETRY:
    case PGW_VERDICT_SETTLED:
    default:
        atomic_fetch_add(&w->n.failed, 1);
        pgw__report_told(t, PGW__COUNT_FAILED);
        break;
    }
}

/* Whether to give up a result. While the worker runs, a result waits for its server as long
 * as it takes; one that is to end waits as long as the lease holds. */
static bool flush_gives_up(const pgw_worker *w, const pgw_task *t, pgw_status st, int64_t now)
{
    if (pgw__status_is_hopeless(st)) return true;
    return w->loop.stops > 0 && now >= atomic_load(&t->safe_until);
}

/* It is to be reported again. */
static void flush_keep(pgw_worker *w, pgw_task *t, pgw_status st, int64_t now)
{
    t->doubt = t->doubt || st == PGW_EUNKNOWN;
    t->refusals += st == PGW_EDB;
    t->stalls += st == PGW_ERETRY || st == PGW_ETIMEDOUT;
    if (t->aside)
        pgw__result_rest(w, t, now);
    else
        pgw__result_add(w, t, now);
    t->aside = false;
}

static void flush_settle(pgw_worker *w, size_t n)
{
    const int64_t now = pgw__clock_ms();
    size_t i;

    for (i = 0; i < n; i++) /* not under the lock: the program's callback takes its time */
        if (w->flush.refs[i].outcome == PGW_OK && flush_is_failure(w->flush.out[i]))
            flush_tell_failure(w, w->flush.out[i]);
    pthread_mutex_lock(&w->pool->lock);
    w->shared.telling = 0;
    for (i = 0; i < n; i++) {
        pgw_task *t = w->flush.out[i];
        const pgw_status st = w->flush.refs[i].outcome;

        t->told = false;
        if (st == PGW_OK || (st == PGW_ENOTFOUND && t->doubt)) { /* in doubt, and gone: it was us */
            if (t->verdict != PGW_VERDICT_DONE && t->verdict != PGW_VERDICT_DEAD)
                w->loop.found_none = false; /* it may be claimed again */
            flush_count(w, t);
            pgw__worker_drop(t);
        } else if (st == PGW_ELEASE || st == PGW_ENOTFOUND) {
            atomic_fetch_add(&w->n.refused, 1);
            pgw__report_told(t, PGW__COUNT_REFUSED);
            pgw__worker_drop(t);
        } else if (flush_gives_up(w, t, st, now)) {
            pgw__worker_lose(t);
            pgw__worker_drop(t);
        } else {
            flush_keep(w, t, st, now);
        }
    }
    if (w->shared.quarantined != NULL)
        pthread_cond_broadcast(&w->pool->work); /* it may have waited for this */
    pthread_mutex_unlock(&w->pool->lock);
}

static size_t flush_take(pgw_worker *w, bool all)
{
    const int64_t now = pgw__clock_ms();
    size_t n = 0, i;
    int left;

    pthread_mutex_lock(&w->pool->lock);
    w->shared.due_at = INT64_MAX;
    for (left = w->shared.done.count; left > 0; left--) {
        pgw_task *t = pgw__list_pop(&w->shared.done);

        if (n < w->flush.max && (all || t->taskset->busy == 0 || now >= t->taskset->due_at)) {
            pgw__result_take(w, t);
            t->told = true;
            w->flush.out[n++] = t;
        } else {
            pgw__result_put_back(w, t);
        }
    }
    w->shared.telling = (int)n;
    pthread_mutex_unlock(&w->pool->lock);

    flush_sort(w->flush.out, n);
    for (i = 0; i < n; i++) w->flush.outputs[i] = w->flush.out[i]->output;
    return n;
}

/* How many plain completions at the front can go along with the claim, in its transaction. A result
 * that has failed before could block the claim. While claims fail, none goes along, because the
 * claim would block it. */
static size_t flush_plain(pgw_worker *w, size_t n)
{
    const pgw_task *t = w->flush.out[0];

    if (n == 0 || w->loop.claims_fail || w->given.queues_count != 1 ||
        t->verdict != PGW_VERDICT_DONE || t->output != NULL || t->refusals > 0 || t->stalls > 0)
        return 0;
    return flush_group_size(w, 0, n);
}

pgw_status pgw__worker_flush(pgw_worker *w, bool all, pgw__claim *claim)
{
    const size_t n = flush_take(w, all);
    const size_t plain = claim != NULL ? flush_plain(w, n) : 0;
    const int64_t least = pgw__clock_ms() + PGW__WORKER_LEAST_CALL_MS;
    flush_trouble first = {.st = PGW_OK};
    pgw_status st = PGW_OK;
    size_t i, size;

    w->loop.flush_until = w->loop.end_at > least ? w->loop.end_at : least;
    for (i = plain; i < n && pgw__worker_goes_on(st); i += size) {
        size = flush_group_size(w, i, n);
        first.refused = 0;
        st = flush_group(w, &first, i, size);
    }
    if (i < n) flush_fill(w, i, n - i, PGW_ECONN); /* not sent */
    if (plain > 0 && first.st >= 0)
        st = flush_and_claim(w, &first, plain, claim);
    else if (plain > 0 && pgw__worker_goes_on(st))
        flush_group(w, &first, 0, plain); /* and no claim: there is trouble */
    else
        flush_fill(w, 0, plain, PGW_ECONN);
    if (w->loop.stops < 2) pgw_set_timeout(w->loop.h, PGW_DEFAULT);
    flush_settle(w, n);
    if (first.st < 0) return pgw__pq_tell(w->loop.h, &first.diagnostics);
    return claim != NULL && claim->done ? st : PGW_OK;
}
