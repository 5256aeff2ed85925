/* worker_plan: the next action of a worker. */
#include "worker/worker_plan.h"

#define PLAN_MAX_CLAIM    10000 /* of one pgw_claim() */
#define PLAN_MAX_WAIT_MS  1000
#define PLAN_RUSH         8 /* part of a call's time that may be spent on making it a larger one */
#define PLAN_MAX_RUSH_US  10000 /* however long the last one took: it may have met with trouble */
#define PLAN_STOP_WAIT_MS 50    /* a second stop makes no descriptor readable: check for it */

static int64_t plan_earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Nothing new is taken: asked to stop, the count is full, or a draining worker found nothing. */
static bool plan_is_over(const pgw__worker_view *v)
{
    return v->stops > 0 || v->left <= 0 || (v->drain && v->found_none);
}

/* Are handlers so quick that at this pace all they have is finished in no time? Then one large call
 * that takes the results along is cheaper than two small ones that handlers need not wait for. */
static bool plan_rush(const pgw__worker_view *v)
{
    const int64_t time_us = plan_earlier(v->call_us / PLAN_RUSH, PLAN_MAX_RUSH_US);
    const int64_t finished = v->n.done - v->done_before;
    const int64_t left = v->n.ready + v->n.running;

    if (left == 0 || (v->n.ready == 0 && v->n.whole > 0)) return false; /* large enough */
    return v->since_us < 2 * time_us && left * v->since_us < finished * time_us;
}

/* Jobs for idle handlers, or the prefetch if that is more. Refilling it by halves keeps round
 * trips few and handlers busy. An empty prefetch is refilled at once, but not while prefetched jobs
 * are requeued because handlers take long. In the calling thread claims and handlers alternate, so
 * early claims are useless. */
static int plan_claim_size(const pgw__worker_view *v)
{
    const int ahead = v->stale ? 0 : v->prefetch;
    const int most = ahead > v->n.free ? ahead : v->n.free;
    const int space = most - v->n.ready;

    if (plan_is_over(v) || v->no_heartbeat || space <= 0 || v->now < v->n.hold_until) return 0;
    if (v->n.ready > 0 && (v->here || space < most - space)) return 0;
    return (int)plan_earlier(plan_earlier(space, v->left), PLAN_MAX_CLAIM);
}

/* `along`: with results, in the same call. */
static int plan_claim(const pgw__worker_view *v, bool along)
{
    const bool last_check = v->drain && v->n.ready + v->n.running == 0;

    if (v->now < v->claim_at && !last_check && !(along && v->fell_short)) return 0;
    return plan_claim_size(v);
}

/* At once if no handler runs, so that a single job is not delayed, and if time is short; otherwise
 * in batches. */
static bool plan_flush(const pgw__worker_view *v)
{
    if (v->n.done == 0) return false;
    return v->n.blocked || v->stops > 1 || v->n.done >= v->flush_jobs ||
           v->n.ready + v->n.running == 0 || v->now >= v->n.due_at;
}

/* Parts of a claim cost the server much more than the whole of it. */
static bool plan_flush_all(const pgw__worker_view *v)
{
    return v->n.blocked || v->stops > 1 || (v->n.done >= v->flush_jobs && v->n.whole == 0);
}

/* Handlers that still run after the second stop's time are left behind, but prefetched jobs are
 * requeued if the server answers. */
static bool plan_end(const pgw__worker_view *v)
{
    const int prefetched = v->n.ready + v->n.waiting;

    if (v->stops > 1 && v->now >= v->end_at)
        return prefetched == 0 && (v->n.done == 0 || v->now < v->call_at);
    return plan_is_over(v) && prefetched + v->n.running + v->n.done == 0;
}

static int64_t plan_wait_ms(const pgw__worker_view *v)
{
    const int64_t longest = v->stops > 0 ? PLAN_STOP_WAIT_MS : PLAN_MAX_WAIT_MS;
    const int64_t claim_at = v->claim_at > v->n.hold_until ? v->claim_at : v->n.hold_until;
    int64_t call = v->extend_at; /* when the server is to be called next */
    int64_t until;

    if (!plan_is_over(v) && claim_at > v->now) call = plan_earlier(call, claim_at);
    call = plan_earlier(call, v->n.due_at);
    if (v->call_at > v->now) call = v->call_at;
    until = plan_earlier(call, v->now + longest);
    if (v->stops > 1) until = plan_earlier(until, v->end_at);
    return until > v->now ? until - v->now : 1;
}

pgw__worker_plan pgw__worker_plan_next(const pgw__worker_view *v)
{
    pgw__worker_plan p = {0};
    const bool may_call = v->now >= v->call_at;

    p.end = plan_end(v);
    if (p.end) return p;
    p.release = (v->stops > 0 || v->stale) && v->n.ready + v->n.waiting > 0;
    p.extend = may_call && v->now >= v->extend_at;
    if (may_call) {
        p.flush = plan_flush(v);
        p.claim = plan_claim(v, p.flush);
        p.rush = p.claim > 0 && plan_rush(v);
        if (p.rush) p.claim = 0;
        p.flush = p.flush || (p.claim > 0 && v->n.whole > 0);
        p.flush_all = p.flush && plan_flush_all(v);
    }
    p.run = v->here && v->n.ready > 0 && !v->n.blocked;
    p.no_wakeups = may_call && plan_claim_size(v) == 0;
    p.wait_ms = p.rush ? 1 : plan_wait_ms(v);
    return p;
}

pgw__worker_stir_for pgw__worker_plan_stirs(const pgw__worker_view *before, pgw__worker_counts now)
{
    pgw__worker_view v = *before;
    pgw__worker_plan p;

    if (now.due_at < before->n.due_at) return PGW__STIR_OTHER; /* it would wait too long */
    v.n = now;
    p = pgw__worker_plan_next(&v);
    if (p.rush && !before->rush) return PGW__STIR_OTHER; /* so it would here */
    if (p.end || p.release || p.flush) return PGW__STIR_OTHER;
    return p.claim > 0 ? PGW__STIR_CLAIM : PGW__STIR_NOT;
}
