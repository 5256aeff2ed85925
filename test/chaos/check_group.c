/* SPDX-License-Identifier: PostgreSQL
 *
 * check_group.c: limits of groups and queues. In the order of commits, each gate keeps its jobs:
 * those that wait there, and those that it has admitted, which are ready, leased, or keep their
 * place for a retry. Each admission is held against the limit, the order, and what stops the group,
 * as they were since its transaction began. A gate with room, at which jobs wait, admits one soon.
 */
#include "check.h"
#include <stdlib.h>

enum { GROUPS = 40, LONG = 3000000, NO_LIMIT = 1 << 30 };
typedef struct member {
    int64_t id, place, since; /* since: the last change */
    int64_t weight;           /* at a rate */
    int64_t passed;           /* when it was first passed at its gate; 0: never */
    int state, gate;
    bool kept; /* its place, for a retry */
} member;
typedef struct gate { /* of a group; or of a queue, where grp is 0 */
    int64_t queue, grp;
    member **m;
    size_t n, size;
    const event **set; /* its settings, in the order of commits */
    size_t sets, sets_room;
    int64_t room; /* since when it has room and somebody waits; 0: it has not */
    pace pace;
} gate;

typedef struct groups {
    check *c;
    gate gates[QUEUES][GROUPS];
    const event **every[QUEUES]; /* settings of all groups of a queue */
    size_t everys[QUEUES];
    spans busy[QUEUES];      /* in which nobody is promised to be admitted in time */
    spans unblocked[QUEUES]; /* calls that unblock; what: the group, 0: all */
    spans freed[QUEUES];     /* those of them that have done it */
    bool sure;               /* only these count: what is in doubt is still stopped */
    map members;
    struct passing { /* what the transaction that is looked at has changed */
        gate *gt;
        const member *admitted; /* NULL: none, something else */
        const member *rated;    /* takes from its rate */
        const event *e;
        size_t at;
    } * passing;
    size_t passings;
    int64_t commit,
        began;     /* the transaction that is looked at: when it has begun, at the earliest */
    bool claim;    /* it has given leases */
    int64_t tick;  /* when the last one was committed that was no claim */
    int64_t first; /* call: what was set before stands for ever */
} groups;

static void *more(void *list, size_t n, size_t size)
{
    if (n & (n - 1)) return list;
    list = realloc(list, (n ? 2 * n : 1) * size);
    if (!list) abort();
    return list;
}

static void note(spans *all, int64_t queue, int64_t from, int64_t to, int64_t what)
{
    for (int q = 0; q < QUEUES; q++)
        if (q == queue || queue < 0) {
            spans *s = &all[q];
            s->s = more(s->s, s->n, sizeof(span));
            s->s[s->n++] = (span){from, to, what};
        }
}

/* Windows; pauses; and claims that stay open, since they keep the gates of the jobs they took. */
static void note_calls(groups *g)
{
    const check *c = g->c;
    for (size_t i = 0; i < c->called; i++) {
        const request *k = &c->calls[i];
        const int64_t from = k->i->t, queue = k->i->a[0], to = k->o ? k->o->t : from + OPEN;
        if (k->i->op == OP_win) note(g->busy, -1, from, to, 0);
        if (k->i->op == OP_pau) note(g->busy, queue, from, to, 0);
        if (k->i->op == OP_unb) note(g->unblocked, queue, from, to, k->i->a[1]);
        if (k->i->op == OP_unb && k->status == S_OK) note(g->freed, queue, from, to, k->i->a[1]);
        if (k->i->op == OP_clm && k->i->a[3] && (!k->o || to - from > LONG))
            note(g->busy, queue, from, to, 0);
    }
}

/* Has a gate kept somebody waiting for too long since then? */
static bool too_long(const groups *g, int64_t queue, int64_t since, int64_t to)
{
    const spans *s = &g->busy[queue];
    for (size_t i = 0; i < s->n && s->s[i].from <= to; i++) {
        if (s->s[i].from - since > PATIENT) return true;
        if (s->s[i].to + SLACK > since) since = s->s[i].to + SLACK;
    }
    return to - since > PATIENT;
}

/* The first lease that the transaction of an event has given; NULL: none. */
static const event *first_lease(const check *c, size_t at)
{
    const int64_t commit = c->truth[at]->call;
    while (at > 0 && c->truth[at - 1]->call == commit) at--;
    for (; at < c->truths && c->truth[at]->call == commit; at++)
        if (c->truth[at]->op == OP_lea) return c->truth[at];
    return NULL;
}

/* When the transaction of an event has begun: a claim when it was called, if somebody knows. A tick
 * is short, and begins after the one before it is over. */
static int64_t began(groups *g, size_t at)
{
    const check *c = g->c;
    const event *e = c->truth[at], *given = first_lease(c, at);
    if (g->commit == e->call) return g->began;
    g->commit = e->call, g->claim = given != NULL;
    if (given) {
        const lease *its = lease_of(c, given->a[1], given->a[2]);
        const event *taken = its ? its->taken : NULL;
        const request *claim =
            taken && taken->call ? map_get(&c->by_call, CALL_KEY(taken->proc, taken->call)) : NULL;
        g->began = claim ? claim->i->t : e->t - (taken ? 2 * SOON : OPEN);
    } else {
        g->began = g->tick > e->t - SOON ? g->tick : e->t - SOON;
        g->tick = e->t;
    }
    g->began -= clock_set(c, e->t - 60000000, e->t) ? SLACK : SLACK / 4;
    return g->began;
}

/* -- settings ------------------------------------------------------------------------------------
 */

static int64_t limit_in(const groups *g, const gate *gt, const event *set)
{
    if (set && set->a[3]) return set->a[3];
    const size_t n = g->everys[gt->queue];
    return gt->grp && n ? g->every[gt->queue][n - 1]->a[3] : NO_LIMIT;
}

static const event *now_set(const gate *gt)
{
    return gt->sets ? gt->set[gt->sets - 1] : NULL;
}

/* The highest limit since then. (Those of all groups stay as they are.) */
static int64_t limit_since(const groups *g, const gate *gt, int64_t from)
{
    int64_t most = gt->sets ? 0 : limit_in(g, gt, NULL);
    for (size_t i = gt->sets; i-- > 0;) {
        const int64_t its = limit_in(g, gt, gt->set[i]);
        if (its > most) most = its;
        if (gt->set[i]->t < from) return most;
    }
    const int64_t first = limit_in(g, gt, NULL); /* before any was set */
    return first > most ? first : most;
}

static int64_t policy(const groups *g, const gate *gt)
{
    const event *set = now_set(gt);
    if (gt->grp == 0) return POLICY_PASS;
    if (set && set->a[4]) return set->a[4];
    const size_t n = g->everys[gt->queue];
    return n ? g->every[gt->queue][n - 1]->a[4] : POLICY_HOLD;
}

/* Was it held for good all the time since then? */
static bool held_since(const gate *gt, int64_t from)
{
    for (size_t i = gt->sets; i-- > 0;) {
        if (gt->set[i]->a[5] != 1) return false;
        if (gt->set[i]->t < from) return true;
    }
    return false;
}

/* -- jobs ----------------------------------------------------------------------------------------
 */

static bool unblocked(const groups *g, const gate *gt, int64_t since, int64_t to)
{
    const spans *s = g->sure ? &g->freed[gt->queue] : &g->unblocked[gt->queue];
    for (size_t i = 0; i < s->n && s->s[i].from <= to + SLACK; i++)
        if ((g->sure ? s->s[i].from > since + SLACK && s->s[i].to < to
                     : s->s[i].to >= since - SLACK) &&
            (s->s[i].what == gt->grp || s->s[i].what == 0))
            return true;
    return false;
}

/* Is it admitted at this gate? */
static bool admitted(const groups *g, const gate *gt, const member *m, int64_t t)
{
    if (m->state == ST_READY || m->state == ST_LEASED) return true;
    if (m->state != ST_DELAYED || gt->grp == 0) return false;
    return m->gate == 2 || (m->gate == 0 && m->kept && !unblocked(g, gt, m->since, t));
}

static int64_t count(const groups *g, const gate *gt, int64_t t)
{
    int64_t n = 0;
    for (size_t i = 0; i < gt->n; i++) n += admitted(g, gt, gt->m[i], t);
    return n;
}

/* A dead letter that has stopped the group since before then. */
static bool stopped(const groups *g, const gate *gt, int64_t from, int64_t t)
{
    for (size_t i = 0; i < gt->n; i++)
        if (gt->m[i]->state == ST_DEAD && gt->m[i]->since < from && policy(g, gt) == POLICY_BLOCK &&
            !unblocked(g, gt, gt->m[i]->since, t))
            return true;
    return false;
}

/* -- rates ---------------------------------------------------------------------------------------
 */

/* Those of a gate, as they are now. */
static const int64_t *rate_in(const groups *g, const gate *gt)
{
    static const int64_t none[3];
    const event *set = now_set(gt);
    const size_t n = g->everys[gt->queue];
    if (set && set->a[6]) return &set->a[6];
    return gt->grp && n ? &g->every[gt->queue][n - 1]->a[6] : none;
}

static void on_rate(groups *g, gate *gt, const member *m, const event *e, size_t at)
{
    int64_t from = began(g, at);
    const bool again = gt->pace.commit == e->call;
    /* a tick may have begun before another one was over */
    if (!g->claim && from > e->t - SOON) from = e->t - SOON;
    if (!pace_pass(g->c, &gt->pace, m->weight, from, e))
        broken(g->c, R_rate, m->id, e, now_set(gt));
    else if (gt->pace.n > 0 && gt->grp == 0 && again && !g->claim)
        broken(g->c, R_rate, m->id, e, NULL); /* who does not claim lets one pass */
}

/* A job that is new, or was delayed or dead, takes from a rate though it was not seen to wait
 * there: a tick may bring it to the gate and let it pass in one transaction. */
static bool comes_past(const member *m, const event *e, bool of_queue)
{
    const bool comes = m->state == ST_NONE || m->state == ST_DELAYED || m->state == ST_DEAD;
    const bool inside = e->op == OP_rdy || (e->op == OP_new && e->a[2] == 0);
    const bool at_queue = (e->op == OP_dly && e->a[6] == 2) || (e->op == OP_new && e->a[2] == 3);
    return comes && m->gate == 0 && (inside || (at_queue && !of_queue));
}

/* `m` has passed the gate. */
static void on_admission(groups *g, gate *gt, const member *m, const event *e, size_t at)
{
    const int64_t from = began(g, at);
    if (gt->grp && (held_since(gt, from) || stopped(g, gt, from, e->t)))
        broken(g->c, R_shut, m->id, e, now_set(gt));
    const int64_t most = limit_since(g, gt, from);
    if (count(g, gt, e->t) > most) broken(g->c, R_limit, m->id, e, now_set(gt));
    for (size_t i = 0; gt->grp && i < gt->n; i++) {
        member *w = gt->m[i];
        if (w->state != ST_DELAYED || w->gate != 1 || w->since >= from || w->place > m->place)
            continue;
        if (!w->passed) w->passed = e->t;
        /* with more places than one, whom an open transaction has in its hands is passed */
        if (most == 1 || too_long(g, gt->queue, w->passed, e->t))
            broken(g->c, R_order, w->id, e, NULL);
    }
}

/* Has it room for somebody who waits? Then since when? */
static void look(groups *g, gate *gt, const event *e, bool moved)
{
    g->sure = true;
    const event *set = now_set(gt);
    const int waits = gt->grp ? 1 : 2;
    const member *first = NULL;
    for (size_t i = 0; i < gt->n; i++)
        if (gt->m[i]->state == ST_DELAYED && gt->m[i]->gate == waits) first = gt->m[i];
    const bool room = first && !(set && set->a[5]) && !stopped(g, gt, e->t + 1, e->t) &&
                      count(g, gt, e->t) < limit_in(g, gt, set);
    g->sure = false;
    if (gt->room && (moved || !room || e->op == OP_fin)) {
        if (too_long(g, gt->queue, gt->room, e->t))
            broken(g->c, R_gated, first ? first->id : e->a[1], e, NULL);
        gt->room = 0;
    }
    if (room && !gt->room) gt->room = gt->pace.full > e->t ? gt->pace.full : e->t;
}

static void pass(groups *g, gate *gt, const member *admitted, const member *rated, const event *e,
                 size_t at)
{
    g->passing = more(g->passing, g->passings, sizeof(*g->passing));
    g->passing[g->passings++] = (struct passing){gt, admitted, rated, e, at};
}

static void on_setting(groups *g, const event *e)
{
    const int64_t q = e->a[0], grp = e->a[2] < 0 ? 0 : e->a[2];
    const int64_t t = e->t < g->first ? -OPEN : e->t;
    if (q < 0 || q >= QUEUES || grp >= GROUPS) return;
    if (e->a[2] == 0) {
        g->every[q] = more(g->every[q], g->everys[q], sizeof(*g->every[q]));
        g->every[q][g->everys[q]++] = e;
        for (int64_t i = 1; i < GROUPS; i++) {
            gate *its = &g->gates[q][i];
            its->queue = q, its->grp = i;
            pace_set(&its->pace, rate_in(g, its), t);
        }
        return;
    }
    gate *gt = &g->gates[q][grp];
    gt->queue = q, gt->grp = grp;
    gt->set = more(gt->set, gt->sets, sizeof(*gt->set));
    gt->set[gt->sets++] = e;
    pace_set(&gt->pace, rate_in(g, gt), t);
    pass(g, gt, NULL, NULL, e, 0);
}

static void leave(gate *gt, const member *m)
{
    for (size_t i = 0; i < gt->n; i++)
        if (gt->m[i] == m) {
            gt->m[i] = gt->m[--gt->n];
            return;
        }
}

static void enter(gate *gt, member *m, int64_t queue, int64_t grp)
{
    gt->queue = queue, gt->grp = grp;
    if (gt->n == gt->size) {
        gt->size = gt->size ? 2 * gt->size : 64;
        gt->m = realloc(gt->m, gt->size * sizeof(*gt->m));
        if (!gt->m) abort();
    }
    gt->m[gt->n++] = m;
}

static member *new_member(groups *g, const event *e)
{
    member *m = calloc(1, sizeof(*m));
    if (!m) abort();
    m->id = e->a[1];
    m->place = (e->a[7] / 2 << 58) + m->id;
    m->weight = e->a[9] ? e->a[9] : 1;
    void **at = map_at(&g->members, m->id);
    if (*at) { /* doubled: reported elsewhere */
        free(m);
        return *at;
    }
    *at = m;
    if (e->a[8]) enter(&g->gates[e->a[0]][e->a[8]], m, e->a[0], e->a[8]);
    enter(&g->gates[e->a[0]][0], m, e->a[0], 0);
    return m;
}

static void on_truth(groups *g, const event *e, size_t at, int64_t grp, member *m)
{
    gate *own = grp ? &g->gates[e->a[0]][grp] : NULL, *all = &g->gates[e->a[0]][0];
    const int was = m->gate;
    const bool past_group = comes_past(m, e, false), past_queue = comes_past(m, e, true);
    const bool still = m->kept && m->state == ST_DELAYED; /* at another time */
    m->gate = 0;
    m->kept = e->op == OP_dly && own && policy(g, own) != POLICY_PASS && (e->a[2] || still);
    m->since = e->t, m->passed = 0;
    switch ((int)e->op) {
    case OP_new:
        m->state = e->a[2] ? ST_DELAYED : ST_READY;
        m->gate = e->a[2] > 1 ? (int)e->a[2] - 1 : 0;
        break;
    case OP_rdy: m->state = ST_READY; break;
    case OP_lea: m->state = ST_LEASED; break;
    case OP_dly: m->state = ST_DELAYED, m->gate = (int)e->a[6]; break;
    case OP_dea: m->state = ST_DEAD; break;
    case OP_gon: m->state = ST_NONE; break;
    default: break;
    }
    const bool by_group = own && was == 1 && m->gate != 1 && m->state != ST_NONE;
    const bool by_queue = e->op == OP_rdy && e->a[5] == 2;
    if (own) pass(g, own, by_group ? m : NULL, by_group || past_group ? m : NULL, e, at);
    if (all->sets) pass(g, all, by_queue ? m : NULL, by_queue || past_queue ? m : NULL, e, at);
    if (m->state == ST_NONE) {
        if (own) leave(own, m);
        leave(all, m);
    }
}

/* A transaction changes all at once: so first it is done, and then it is judged. */
static void on_commit(groups *g)
{
    for (size_t i = 0; i < g->passings; i++) {
        const struct passing *p = &g->passing[i];
        if (p->rated) on_rate(g, p->gt, p->rated, p->e, p->at);
        if (p->admitted) on_admission(g, p->gt, p->admitted, p->e, p->at);
    }
    for (size_t i = 0; i < g->passings; i++)
        look(g, g->passing[i].gt, g->passing[i].e, g->passing[i].admitted != NULL);
    g->passings = 0;
}

void check_group(check *c)
{
    groups *g = calloc(1, sizeof(*g));
    map grps = {0}; /* of a job: its group, + 1 */
    if (!g) abort();
    g->c = c, g->commit = -1;
    g->first = c->called ? c->calls[0].i->t : 0;
    note_calls(g);
    for (size_t i = 0; i < c->truths; i++) {
        const event *e = c->truth[i];
        if (i && e->call != c->truth[i - 1]->call) on_commit(g);
        if (e->op == OP_lim) on_setting(g, e);
        if (e->op == OP_lim || e->op == OP_len || e->op == OP_two) continue;
        if (e->a[0] < FIRST_GROUPED || e->a[0] >= QUEUES) continue;
        member *m = map_get(&g->members, e->a[1]);
        if (e->op == OP_new && e->a[8] >= 0 && e->a[8] < GROUPS) {
            if (!m) *map_at(&grps, e->a[1]) = (void *)(intptr_t)(e->a[8] + 1);
            m = new_member(g, e);
        }
        if (m) on_truth(g, e, i, (intptr_t)map_get(&grps, e->a[1]) - 1, m);
    }
    on_commit(g);
    for (int q = 0; q < QUEUES; q++) {
        for (int n = 0; n < GROUPS; n++) {
            gate *gt = &g->gates[q][n];
            if (c->fin && gt->n && (n || gt->sets)) look(g, gt, c->fin, true);
            free(gt->m);
            free(gt->set);
        }
        free(g->every[q]);
        free(g->busy[q].s);
        free(g->unblocked[q].s);
        free(g->freed[q].s);
    }
    free(g->passing);
    map_free(&g->members, true);
    map_free(&grps, false);
    free(g);
}
