/* SPDX-License-Identifier: PostgreSQL
 *
 * check_rate.c: rates. In any window of length W there are at most burst + W / step takes. The
 * history shows only that a take happened between two times, from and to. So the checker takes each
 * window as long as it can have been, and reports a violation only if it is one for all possible
 * times of the takes. It skips windows in which the server's clock was set or the rate was changed.
 *
 * Jobs pass a gate under its lock, which is held until the transaction ends. So a job passed after
 * the commit of the transaction before, and before that of its own transaction. A take outside jobs
 * happened between its call and its answer.
 */
#include "check.h"
#include <stdlib.h>

enum {
    DOUBT = 50000, /* how much the times of two commits may be wrong relative to each other */
    TAKES = 400
};

bool pace_same(const pace *p, const int64_t rate[3])
{
    return p->n == rate[0] && p->per_ms == rate[1] && p->burst == rate[2];
}

/* The time that one take costs, in nanoseconds and rounded as in the server. 0: no rate. */
static int64_t step(const pace *p)
{
    return p->n > 0 ? (p->per_ms * 1000000 + p->n - 1) / p->n : 0;
}

int64_t pace_span(const pace *p)
{
    return step(p) * p->burst / 1000;
}

void pace_set(pace *p, const int64_t rate[3], int64_t t)
{
    if (pace_same(p, rate)) return;
    p->n = rate[0], p->per_ms = rate[1], p->burst = rate[2];
    p->changed = t, p->windows = false;
    if (t + pace_span(p) > p->full) p->full = t + pace_span(p);
}

/* Takes `weight`: moves the time at which the burst is full again, at the latest. */
static void use(pace *p, int64_t weight, int64_t to)
{
    const int64_t most = to + pace_span(p);
    p->full = (p->full > to ? p->full : to) + weight * step(p) / 1000;
    if (p->full > most) p->full = most;
}

/* A transaction between from and to passes the gate. Keeps it as the beginning of windows if these
 * allow less than those from earlier beginnings.
 */
static void begin_window(const check *c, pace *p, int64_t from, int64_t to)
{
    const int64_t before = p->last;
    p->last = to;
    if (from <= p->changed || clock_set(c, before && before < from ? before : from, to)) {
        p->windows = p->judged = false;
        return;
    }
    if (from < before - DOUBT) from = before - DOUBT;
    if (!p->windows || p->taken - from * 1000 < p->least) p->least = p->taken - from * 1000;
    p->windows = p->judged = true;
}

bool pace_pass(const check *c, pace *p, int64_t weight, int64_t from, const event *e)
{
    if (p->n <= 0) return true;
    if (weight > p->burst) weight = p->burst;
    use(p, weight, e->t);
    if (e->call != p->commit) begin_window(c, p, from, e->t);
    p->commit = e->call;
    if (!p->judged) return true;
    p->taken += weight * step(p);
    return p->taken - e->t * 1000 - p->least <= (pace_span(p) + 1000) * 1000;
}

/* -- takes ---------------------------------------------------------------------------------------
 */

static int by_answer(const void *x, const void *y)
{
    const request *a = *(const request *const *)x, *b = *(const request *const *)y;
    return a->o->t < b->o->t ? -1 : a->o->t > b->o->t;
}

/* Checks the windows that begin with this call, up to the next TAKES answers. */
static void check_windows(check *c, const request *first, const request *const *takes, size_t n)
{
    const pace p = {.n = TAKEN_N, .per_ms = 1000, .burst = TAKEN_BURST(first->i->a[0])};
    int64_t taken = 0;
    for (size_t k = 0; k < n && k < TAKES; k++) {
        const request *t = takes[k];
        if (t->i->a[0] != first->i->a[0] || t->i->t < first->i->t) continue;
        if (clock_set(c, first->i->t, t->o->t)) return;
        taken += t->i->a[1] * step(&p);
        if (taken / 1000 > pace_span(&p) + t->o->t - first->i->t + 1000) {
            broken(c, R_rate, 0, first->i, t->i);
            return;
        }
    }
}

void check_takes(check *c)
{
    const request **takes = malloc((c->called + 1) * sizeof(*takes));
    size_t n = 0;
    if (!takes) abort();
    for (size_t i = 0; i < c->called; i++)
        if (c->calls[i].i->op == OP_tak && c->calls[i].o && c->calls[i].status == S_OK)
            takes[n++] = &c->calls[i];
    qsort(takes, n, sizeof(*takes), by_answer);
    for (size_t i = 0; i < n; i++) {
        size_t from = i; /* an earlier answer may belong to a later call */
        while (from > 0 && takes[from - 1]->o->t >= takes[i]->i->t) from--;
        check_windows(c, takes[i], takes + from, n - from);
    }
    free(takes);
}
