/* SPDX-License-Identifier: PostgreSQL
 *
 * check_live.c: nobody waits for ever. Events in the order of time: the jobs of a queue and lane
 * that are ready stand in a line. A claim that finds nothing, and one that takes a job, are held
 * against the first of the line. Time in which the server was away, or the queue paused, does not
 * count.
 */
#include "check.h"
#include <stdlib.h>
#include <string.h>

#define LANES 20
typedef struct waiting {
    job *j;
    int64_t serial, since;
    int64_t passed; /* since when jobs are taken that came later; 0: none was */
} waiting;
typedef struct line {
    waiting *w;
    size_t first, n, capacity;
} line;

typedef struct live {
    check *c;
    line lines[QUEUES][LANES];
    int64_t calm[QUEUES]; /* since when nothing disturbs; INT64_MAX: something does */
    int open;             /* windows */
    int64_t serial;
} live;

static void join(live *l, job *j, const event *e, int64_t lane)
{
    if (j->queue < 0 || j->queue >= QUEUES || lane < 0 || lane >= LANES) return;
    line *q = &l->lines[j->queue][lane];
    if (q->n == q->capacity) {
        q->capacity = q->capacity ? q->capacity * 2 : 256;
        q->w = realloc(q->w, q->capacity * sizeof(waiting));
        if (!q->w) abort();
    }
    j->serial = ++l->serial;
    j->lane = lane;
    j->since = e->t;
    q->w[q->n++] = (waiting){j, j->serial, e->t, 0};
}

/* The first of a line that still waits, and since when; NULL: nobody. */
static waiting *front(line *q)
{
    while (q->first < q->n && q->w[q->first].serial != q->w[q->first].j->serial) q->first++;
    return q->first < q->n ? &q->w[q->first] : NULL;
}

static bool too_long(const live *l, int64_t since, int64_t queue, int64_t t)
{
    const int64_t calm = l->calm[queue], from = since > calm ? since : calm;
    return l->open == 0 && calm != INT64_MAX && t - from > PATIENT;
}

static void on_claimed(live *l, job *j, const event *e)
{
    j->serial = 0;
    if (j->queue < 0 || j->queue >= QUEUES || j->lane < 0 || j->lane >= LANES) return;
    waiting *w = front(&l->lines[j->queue][j->lane]);
    if (!w || j->since <= w->since + SLACK) return; /* side by side */
    if (w->passed == 0) w->passed = e->t;
    if (too_long(l, w->passed, j->queue, e->t)) broken(l->c, R_passed, w->j->id, e, NULL);
}

static void on_empty(live *l, const request *k)
{
    const int64_t queue = k->i->a[0];
    if (queue < 0 || queue >= QUEUES) return;
    for (int lane = 0; lane < LANES; lane++) {
        const waiting *w = front(&l->lines[queue][lane]);
        if (w && queue == DROPPED && /* lost with its queue, and pruned later */
            administered(l->c, queue, OP_drp, w->since - 40000000, w->since))
            continue;
        if (w && too_long(l, w->since, queue, k->i->t))
            broken(l->c, R_starved, w->j->id, k->i, NULL);
    }
}

static void on_truth(live *l, const event *e)
{
    check *c = l->c;
    job *j = map_get(&l->c->jobs, e->a[1]);
    if (!j || e->op == OP_two || e->op == OP_lim) return;
    if (e->op == OP_new && e->a[2] == 0) join(l, j, e, e->a[7]);
    if (e->op == OP_new && e->a[2] == 1) j->due = e->t + e->a[3] * 1000;
    if (e->op == OP_rdy || (e->op == OP_dly && e->a[6])) {
        const int64_t calm =
            l->open ? e->t : l->calm[j->queue >= 0 && j->queue < QUEUES ? j->queue : 0];
        if (j->due && e->t - (j->due > calm ? j->due : calm) > SOON &&
            !clock_set(c, j->due - 60000000, e->t))
            broken(c, R_due, j->id, e, NULL);
        j->due = 0;
    }
    if (e->op == OP_rdy) join(l, j, e, e->a[6]);
    if (e->op == OP_dly && e->a[6] == 0) j->due = e->t + e->a[5] * 1000;
    if (e->op == OP_lea) on_claimed(l, j, e);
    if (e->op == OP_gon || e->op == OP_dly || e->op == OP_dea) j->serial = 0;
    if (e->op != OP_dly && e->op != OP_new && e->op != OP_len) j->due = 0;
}

static void on_disturbance(live *l, const event *e, const event *i)
{
    if (i->op == OP_win) {
        l->open += e->phase == 'i' ? 1 : -1;
        for (int q = 0; q < QUEUES; q++)
            if (e->phase == 'o' && l->calm[q] != INT64_MAX) l->calm[q] = e->t;
    } else if (i->a[0] >= 0 && i->a[0] < QUEUES) {
        l->calm[i->a[0]] = e->phase == 'i' ? INT64_MAX : e->t;
    }
}

/* Leases that nobody has ended: the reaper comes soon. */
static void check_reaped(check *c)
{
    const int64_t last = c->fin ? c->fin->t : c->h->n ? c->h->e[c->h->n - 1].t : 0;
    for (size_t i = 0; i < c->leases.size; i++) {
        const lease *l = c->leases.slots[i].value;
        if (!l) continue;
        const int64_t end = l->end ? l->end->t : last;
        /* A claim that stayed open was committed later, perhaps after the lease. */
        const int64_t since = l->from->t > l->until ? l->from->t : l->until;
        if (end - since > SOON + SLACK && !l->accepted && !disturbed(c, l->until - 60000000, end)) {
            bool mine = false; /* a late call is accepted as long as no reaper was there */
            for (int op = OP_don; op <= OP_snz; op++) mine |= l->maybe[op];
            if (!mine) broken(c, R_reaped, l->job, l->from, l->end);
        } else if (l->accepted && l->broken->t - since > SOON + SLACK &&
                   !disturbed(c, l->until - 60000000, end)) {
            broken(c, R_reaped, l->job, l->from, l->end);
        }
    }
}

/* Does it last as long as a transaction, or a pause, on purpose? */
static bool stays_open(const event *i)
{
    return (i->op == OP_enq && i->a[6]) || (i->op == OP_clm && i->a[3]) || i->op == OP_pau ||
           i->op == OP_win;
}

void check_live(check *c)
{
    live *l = calloc(1, sizeof(*l));
    if (!l) abort();
    l->c = c;
    for (size_t i = 0; i < c->jobs.size; i++) {
        job *j = c->jobs.slots[i].value;
        if (j) j->serial = 0, j->due = 0;
    }
    for (size_t i = 0; i < c->h->n; i++) {
        const event *e = &c->h->e[i];
        if (e->phase == 't') on_truth(l, e);
        if (e->phase != 'i' && e->phase != 'o') continue;
        const request *k = map_get(&c->by_call, CALL_KEY(e->proc, e->call));
        if (!k) continue;
        if (e->op == OP_win || e->op == OP_pau) on_disturbance(l, e, k->i);
        if (e->phase == 'o' && e->op == OP_clm && k->status == S_EMPTY) on_empty(l, k);
        if (e->phase == 'o' && e->op == OP_clm && k->i->a[3] == 0 && e->t - k->i->t > SOON &&
            !disturbed(c, k->i->t, e->t))
            broken(c, R_blocked, 0, k->i, e);
        if (e->phase == 'o' && e->op == OP_lck && (k->status == S_LOCKED || k->status == S_OK) &&
            e->t - k->i->t > WAITED && !disturbed(c, k->i->t, e->t))
            broken(c, R_waited, 0, k->i, NULL);
        const int64_t waits = e->op == OP_lck ? k->i->a[2] * 1000 : 0;
        if (e->phase == 'o' && e->t - k->i->t > DEADLINE + waits && !stays_open(k->i))
            broken(c, R_overdue, 0, k->i, NULL);
    }
    check_reaped(c);
    for (int q = 0; q < QUEUES; q++)
        for (int lane = 0; lane < LANES; lane++) free(l->lines[q][lane].w);
    free(l);
}
