/* SPDX-License-Identifier: PostgreSQL
 *
 * test_check.c: is the checker to be trusted? `chaos-check-test [HISTORIES]`: so many right
 * histories raise no alarm; and each kind of damage is found in every history that it was done to.
 * Longer than 600 lines: one table holds every kind of damage and the rule that must find it.
 */
#include "check.h"
#include "classes.h"
#include "model.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static history h;

/* -- picking -- */

static bool is(const event *e, char phase, enum op op)
{
    return e->phase == phase && e->op == op;
}

/* Some event of this kind that fits, else NULL. */
static event *pick(char phase, enum op op, bool (*fits)(const event *e))
{
    const size_t from = (size_t)model_draw((int)h.n);
    for (size_t k = 0; k < h.n; k++) {
        event *e = &h.e[(from + k) % h.n];
        if (is(e, phase, op) && (!fits || fits(e))) return e;
    }
    return NULL;
}

static event *outcome_of(const event *i)
{
    for (size_t k = 0; k < h.n; k++)
        if (h.e[k].phase == 'o' && h.e[k].proc == i->proc && h.e[k].call == i->call) return &h.e[k];
    return NULL;
}

static event *call_of(const event *o)
{
    for (size_t k = 0; k < h.n; k++)
        if (h.e[k].phase == 'i' && h.e[k].proc == o->proc && h.e[k].call == o->call) return &h.e[k];
    return NULL;
}

static void drop(event *e)
{
    if (e) memmove(e, e + 1, (size_t)(&h.e[--h.n] - e) * sizeof(event));
}

static event *copy(const event *e, int64_t later)
{
    const event saved = *e;
    event *new = history_add(&h);
    *new = saved;
    new->t += later;
    return new;
}

static bool ok(const event *e)
{
    return e->a[0] == S_OK;
}
static bool refused(const event *e)
{
    return e->a[0] == S_STALE || e->a[0] == S_GONE;
}
static bool reaped(const event *e) /* to the lane of quarantined jobs, so by a reaper */
{
    return e->a[2] != 0 && e->a[6] == 0;
}
static bool was_delayed(const event *e)
{
    return e->a[2] == 0 && e->a[6] == 1 && e->a[0] != 1 && e->a[5] == 0;
}
static bool of_holder(const event *e)
{
    return e->a[2] != 0;
}
static bool made_keyless(const event *e)
{
    return e->a[5] > 0 && e->a[6] == 0 && e->a[2] == 0;
}
static bool acknowledged(const event *o)
{
    return ok(o);
}

/* -- damage: each returns false if there was nothing to do it to -- */

static bool lose_job(void)
{
    event *o = pick('o', OP_enq, acknowledged), *i = o ? call_of(o) : NULL;
    if (!i) return false;
    const int64_t made = MADE(i->proc, i->a[1]);
    int64_t id = 0;
    for (size_t k = 0; k < h.n; k++)
        if (is(&h.e[k], 't', OP_new) && h.e[k].a[5] == made) id = h.e[k].a[1];
    for (size_t k = h.n; k-- > 0;)
        if ((h.e[k].phase == 't' ||
             (h.e[k].op >= OP_got && h.e[k].op <= OP_ext && h.e[k].phase != 'o')) &&
            h.e[k].a[1] == id)
            drop(&h.e[k]);
    return id != 0;
}
static bool double_job(void)
{
    event *e = pick('t', OP_new, made_keyless);
    if (!e) return false;
    e = copy(e, 0);
    e->a[1] += 1000000;
    return true;
}
static bool undo_add(void)
{
    event *e = pick('o', OP_enq, acknowledged);
    if (e) e->a[0] = S_NOT;
    return e != NULL;
}
static bool invent_job(void)
{
    event *e = pick('t', OP_new, made_keyless);
    if (!e) return false;
    e = copy(e, 0);
    e->a[1] += 1000000, e->a[5] += 1000000;
    return true;
}
static bool keep_job(void)
{
    event *e = pick('t', OP_gon, of_holder);
    drop(e);
    return e != NULL;
}
static bool forget_completion(void)
{
    event *o = pick('o', OP_don, ok), *i = o ? call_of(o) : NULL;
    if (!i) return false;
    if (o > i)
        drop(o), drop(i);
    else
        drop(i), drop(o);
    return true;
}
static bool lease_twice(void)
{
    event *e = pick('t', OP_lea, NULL);
    if (!e) return false;
    e = copy(e, 10);
    e->a[2] += 1, e->a[3] += 1;
    return true;
}
static bool shrink_token(void)
{
    event *e = pick('t', OP_lea, NULL);
    if (!e) return false;
    const int64_t old = e->a[2];
    int64_t before = 0;
    for (size_t k = 0; k < h.n; k++)
        if (is(&h.e[k], 't', OP_lea) && h.e[k].a[1] == e->a[1] && h.e[k].a[2] < old)
            before = h.e[k].a[2];
    if (!before) return false;
    for (size_t k = 0; k < h.n; k++) /* everywhere */
        if (h.e[k].phase != 'o' && h.e[k].a[2] == old && h.e[k].a[1] == e->a[1] && &h.e[k] != e)
            h.e[k].a[2] = before - 1;
    e->a[2] = before - 1;
    return true;
}
static bool claim_other_token(void)
{
    event *e = pick('e', OP_got, NULL);
    if (e) e->a[3] ^= 1 << 20;
    return e != NULL && call_of(e) && outcome_of(call_of(e)) && ok(outcome_of(call_of(e)));
}
static bool claim_other_job(void)
{
    event *e = pick('e', OP_got, NULL);
    if (!e || !e->call || !call_of(e) || call_of(e)->a[3]) return false;
    e->a[5] += 1;
    return true;
}
static bool claim_by_two(void)
{
    event *e = pick('e', OP_got, NULL);
    if (!e || !e->call || !call_of(e) || call_of(e)->a[3]) return false;
    e = copy(e, 5);
    e->proc = 19;
    return true;
}
static bool claim_too_many(void)
{
    event *e = pick('o', OP_clm, ok);
    if (e) e->a[1] += 100;
    return e != NULL;
}
static bool keep_rolled_back_claim(void)
{
    event *o = pick('o', OP_clm, ok);
    if (!o || !o->a[1]) return false;
    o->a[0] = S_NOT;
    return true;
}
static bool accept_stale(void)
{
    event *o = pick('o', OP_don, refused), *i = o ? call_of(o) : NULL;
    if (!i) return false;
    for (size_t k = 0; k < h.n; k++) { /* one whose answer was lost may have been this one */
        const event *e = &h.e[k], *answer = is(e, 'i', OP_don) && e->a[2] == i->a[2] && e != i
                                                ? outcome_of(e)
                                                : e;
        if (!answer || (answer != e && answer->a[0] == S_UNKNOWN)) return false;
    }
    o->a[0] = S_OK;
    return true;
}
static bool accept_stale_extend(void)
{
    event *i = pick('i', OP_don, NULL), *o = i ? outcome_of(i) : NULL;
    if (!o || !refused(o)) return false;
    i->op = o->op = OP_ext;
    i->t += 10 * SLACK, o->t += 10 * SLACK;
    o->a[0] = S_OK;
    return true;
}
static bool accept_twice(void)
{
    event *o = pick('o', OP_don, ok), *i = o ? call_of(o) : NULL;
    if (!i) return false;
    i = copy(i, 50);
    i->call += 1000000;
    const int64_t number = i->call, proc = i->proc;
    o = pick('o', OP_don, ok);
    o = copy(o, 0);
    o->call = number, o->proc = (int32_t)proc, o->t = i->t + 100;
    return true;
}
static bool refuse_current(void)
{
    event *o = pick('o', OP_ext, ok), *i = o ? call_of(o) : NULL;
    if (!i) return false;
    for (size_t k = 0; k < h.n; k++) /* long before its lease ends */
        if (h.e[k].phase == 't' && h.e[k].op > OP_len && h.e[k].a[2] == i->a[2] &&
            h.e[k].a[1] == i->a[1] && h.e[k].t > o->t + SLACK)
            return o->a[0] = S_STALE, true;
    return false;
}
static bool deny_applied(void)
{
    event *e = pick('o', OP_don, ok);
    if (e) e->a[0] = S_NOT;
    return e != NULL;
}
static bool count_claim_twice(void)
{
    event *e = pick('t', OP_lea, NULL);
    if (e) e->a[4]++;
    return e != NULL;
}
static bool forgive_attempt(void)
{
    event *e = pick('t', OP_rdy, reaped);
    if (e) e->a[4]--;
    return e != NULL;
}
static bool reap_early(void)
{
    event *e = pick('t', OP_rdy, reaped);
    if (!e) return false;
    for (size_t k = 0; k < h.n; k++)
        if (h.e[k].phase == 't' && (h.e[k].op == OP_lea || h.e[k].op == OP_len) &&
            h.e[k].a[2] == e->a[2] && h.e[k].a[1] == e->a[1])
            h.e[k].a[5] += 60000;
    return true;
}
static bool die_early(void)
{
    event *e = pick('t', OP_rdy, reaped);
    if (!e) return false;
    const event saved = *e;
    bool more = false;
    for (size_t k = h.n; k-- > 0;)
        if (h.e[k].phase == 't' && h.e[k].a[1] == saved.a[1] && h.e[k].call > saved.call)
            more = true, drop(&h.e[k]);
    for (size_t k = 0; k < h.n; k++)
        if (is(&h.e[k], 't', OP_rdy) && h.e[k].a[1] == saved.a[1] && h.e[k].call == saved.call)
            h.e[k].op = OP_dea;
    return more;
}
static bool live_on(void)
{
    event *e = pick('t', OP_dea, of_holder);
    if (!e || e->a[4] < e->a[7]) return false;
    e->op = OP_rdy, e->a[6] = 0;
    return true;
}
static bool share_key(void)
{
    event *a = pick('t', OP_new, made_keyless), *b = pick('t', OP_new, made_keyless);
    if (!a || !b || a == b || a->call != b->call || a->a[1] == b->a[1]) return false;
    a->a[6] = b->a[6] = 99;
    return true;
}
static bool two_places(void)
{
    event *e = pick('t', OP_new, NULL);
    if (e) e = copy(e, 1), e->op = OP_two;
    return e != NULL;
}
static bool effect_of_old(void)
{
    event *e = pick('e', OP_snk, ok), *old = e;
    if (!old) old = pick('e', OP_snk, NULL);
    if (!old) return false;
    e = copy(old, 20);
    e->a[2] ^= 1 << 20;
    return true;
}
static bool effect_refused(void)
{
    event *e = pick('e', OP_snk, NULL);
    if (e) e->a[3] = 0;
    return e != NULL;
}
static bool effect_of_nobody(void)
{
    event *e = pick('e', OP_snk, NULL);
    if (e) e->a[1] += 500000;
    return e != NULL;
}
static bool lock_twice(void)
{
    event *o = pick('o', OP_lck, ok), *i = o ? call_of(o) : NULL;
    if (!i || i->a[1]) return false;
    event *u = NULL;
    for (event *e = o; e < &h.e[h.n] && !u; e++)
        if (is(e, 'i', OP_ulk) && e->proc == o->proc) u = e;
    if (!u || u->t - o->t < 5) return false;
    const event oi = *i, oo = *o, ui = *u, uo = *outcome_of(u);
    const event *all[] = {&oi, &oo, &ui, &uo};
    for (int k = 0; k < 4; k++) { /* somebody else at the same time */
        event *e = copy(all[k], 1);
        e->proc = 99;
        if (k == 1) e->a[1] += 1000;
    }
    return true;
}
static bool fence_goes_back(void)
{
    event *o = pick('o', OP_lck, ok), *i = o ? call_of(o) : NULL;
    if (!i || o->a[1] < 2) return false;
    o->a[1] = 0;
    return true;
}
static bool one_permit_more(void)
{
    event *o = pick('o', OP_sem, NULL);
    if (!o || o->a[0] != S_LOCKED) return false;
    o->a[0] = S_OK, o->a[1] = 99999;
    return true;
}
static bool miscount(void)
{
    event *e = pick('e', OP_end, NULL);
    if (e) e->a[1] += model_draw(2) ? 1 : -1;
    return e != NULL;
}
static bool skip_tick(void)
{
    event *e = NULL;
    int64_t first = 0, last = 0;
    for (size_t k = 0; k < h.n; k++)
        if (is(&h.e[k], 't', OP_new) && h.e[k].a[5] < 0) {
            const int64_t slot = -h.e[k].a[5];
            if (!first) first = slot;
            last = slot;
            if (slot == first + 1) e = &h.e[k];
        }
    if (!e || last < first + 2) return false;
    e->a[5] = -(last + 5);
    return true;
}
static bool finish_tick_twice(void)
{
    event *o = pick('o', OP_tfi, ok), *i = o ? call_of(o) : NULL;
    if (!i) return false;
    const event oi = *i, oo = *o;
    copy(&oi, 1)->call += 1000000;
    copy(&oo, 1)->call += 1000000;
    return true;
}
static bool starve(void)
{
    event *e = pick('t', OP_new, made_keyless);
    if (!e) return false;
    const int64_t t = e->t, queue = e->a[0];
    e->t -= 2 * PATIENT; /* it was there for long */
    event *i = history_add(&h);
    *i = (event){t - 1000, 1000000, 18, OP_clm, 'i', {queue, 10, 1000, 0}};
    event *o = history_add(&h);
    *o = (event){t - 900, 1000000, 18, OP_clm, 'o', {S_EMPTY, 0}};
    return true;
}
static bool pass(void)
{
    /* two of one queue: the first was there for long, and others are taken for long */
    event *e = pick('t', OP_new, made_keyless);
    if (!e) return false;
    const event saved = *e;
    for (int k = 1; k <= 2; k++) {
        event *n = copy(&saved, -PATIENT + k * PATIENT / 4);
        n->a[1] += 1000000 * k, n->a[5] += 1000000 * k;
        event *l = history_add(&h);
        *l = (event){saved.t - PATIENT / 2 + (k - 1) * (PATIENT + 10000),
                     saved.call,
                     0,
                     OP_lea,
                     't',
                     {n->a[0]}};
        n = &h.e[h.n - 2];
        const int64_t a[] = {n->a[0], n->a[1], 5 + k, 5, 1, 1000, 1, 3};
        memcpy(l->a, a, sizeof(a));
    }
    for (size_t k = 0; k < h.n; k++) /* the first one's own lease is later still */
        if (h.e[k].a[1] == saved.a[1] && h.e[k].phase == 't')
            h.e[k].t += is(&h.e[k], 't', OP_new) ? -2 * PATIENT : 2 * PATIENT;
    return true;
}
static bool reap_late(void)
{
    event *e = pick('t', OP_rdy, reaped);
    if (!e) return false;
    const event saved = *e;
    for (size_t k = 0; k < h.n; k++)
        if (h.e[k].t >= saved.t) h.e[k].t += 3 * SOON;
    return true;
}
static bool promote_late(void)
{
    event *e = pick('t', OP_rdy, was_delayed);
    if (!e) return false;
    const int64_t t = e->t;
    for (size_t k = 0; k < h.n; k++)
        if (h.e[k].t >= t) h.e[k].t += 3 * SOON;
    return true;
}
static bool promote_early(void)
{
    event *e = pick('t', OP_rdy, was_delayed);
    if (!e) return false;
    for (size_t k = 0; k < h.n; k++)
        if (h.e[k].phase == 't' && h.e[k].a[1] == e->a[1]) {
            if (h.e[k].op == OP_new) h.e[k].a[3] += 5000;
            if (h.e[k].op == OP_dly) h.e[k].a[5] += 5000;
        }
    return true;
}
static bool had_lease(const event *e)
{
    return e->a[2] != 0;
}
static bool move_by_itself(void)
{
    event *e = pick('t', OP_rdy, had_lease);
    if (!e) return false;
    e->a[2] = 0;
    return true;
}
static bool answered_late(int64_t answer)
{
    event *o = pick('o', OP_lck, ok), *i = o ? call_of(o) : NULL;
    if (!i) return false;
    o->a[0] = answer;
    o->t += 2 * WAITED;
    return true;
}
static bool wait_for_nothing(void)
{
    return answered_late(S_LOCKED);
}
static bool wait_long(void)
{
    return answered_late(S_OK);
}
static bool answer_after_deadline(void)
{
    event *o = pick('o', OP_don, ok);
    if (!o) return false;
    o->t += DEADLINE;
    return true;
}
static bool claim_waits(void)
{
    event *o = pick('o', OP_clm, NULL), *i = o ? call_of(o) : NULL;
    if (!i || i->a[3]) return false;
    o->t += 2 * SOON;
    return true;
}
static bool row_twice(void)
{
    event *e = pick('e', OP_rgt, NULL);
    if (!e) return false;
    const event saved = *e, claim = *call_of(e);
    event *i = copy(&claim, saved.t - claim.t + 5);
    i->call = 1000000, i->proc = 77;
    e = copy(&saved, 10);
    e->call = 1000000, e->proc = 77, e->a[1] -= model_draw(2);
    return true;
}

/* -- groups -- */

/* The group of a job of queue 6; 0: of queue 7. */
static int64_t group_of(const event *e)
{
    for (size_t k = 0; k < h.n; k++)
        if (is(&h.e[k], 't', OP_new) && h.e[k].a[1] == e->a[1]) return h.e[k].a[8];
    return 0;
}

static bool sets(const event *e, int64_t grp)
{
    return is(e, 't', OP_lim) && e->a[2] == (grp ? grp : -1);
}

/* How many jobs of a group, or of queue 7, are admitted after a transaction; hold: retries keep
 * their places. */
static int64_t admitted_after(int64_t commit, int64_t grp, bool hold, int64_t *limit)
{
    static signed char is_in[100000];
    int64_t n = 0;
    memset(is_in, 0, sizeof(is_in));
    for (size_t k = 0; k < h.n; k++) {
        const event *e = &h.e[k];
        if (e->phase != 't' || e->call > commit) continue;
        if (sets(e, grp)) *limit = e->a[5] ? 0 : e->a[3];
        if (e->op == OP_lim || e->op == OP_new || e->op == OP_len || e->a[1] < 0) continue;
        const bool in = e->op == OP_rdy || e->op == OP_lea ||
                        (e->op == OP_dly && e->a[6] == 0 && hold && (e->a[2] || is_in[e->a[1]]));
        is_in[e->a[1]] = in && e->a[0] == (grp ? 6 : 7) && group_of(e) == grp;
    }
    for (size_t i = 0; i < sizeof(is_in); i++) n += is_in[i];
    return n;
}

static bool from_gate(const event *e)
{
    return e->a[0] == 6 && e->a[5] == 1;
}
static bool from_queues_gate(const event *e)
{
    return e->a[0] == 7 && e->a[5] == 2;
}

static bool lower(event *e)
{
    int64_t limit = 0;
    if (!e) return false;
    const int64_t grp = group_of(e);
    if (admitted_after(e->call, grp, grp % 3 > 0, &limit) < 2) return false;
    for (size_t k = 0; k < h.n; k++) /* long ago */
        if (sets(&h.e[k], grp)) h.e[k].a[3] = 1, h.e[k].t -= 100000000;
    return true;
}
static bool one_of_group_more(void)
{
    return lower(pick('t', OP_rdy, from_gate));
}
/* A tick goes by a limit that was lowered before the tick in front of it. */
static bool old_limit_stays(void)
{
    event *e = pick('t', OP_rdy, from_gate);
    if (!e) return false;
    const int64_t commit = e->call, t = e->t, grp = group_of(e);
    int64_t limit = 0, tick = 0, tick_t = 0;
    if (admitted_after(commit, grp, grp % 3 > 0, &limit) < 2) return false;
    for (size_t k = 0; k < h.n; k++)
        if (is(&h.e[k], 't', OP_rdy) && from_gate(&h.e[k]) && h.e[k].call < commit)
            tick_t = h.e[k].call > tick ? h.e[k].t : tick_t, tick = h.e[k].call;
    for (size_t k = 0; k < h.n; k++) { /* no claim, and no other limit */
        if (h.e[k].phase != 't' || h.e[k].call < tick || h.e[k].call > commit) continue;
        if (sets(&h.e[k], grp)) return false;
        if (h.e[k].op == OP_lea && (h.e[k].call == tick || h.e[k].call == commit)) return false;
    }
    if (!tick) return false;
    for (size_t k = 0; k < h.n; k++) {
        event *o = &h.e[k];
        if (o->phase == 't' && o->call >= tick) o->call++;
        o->t += (o->t >= tick_t ? 2000000 : 0) + (o->t >= t ? 2000000 : 0);
    }
    *history_add(&h) =
        (event){tick_t, tick, 0, OP_lim, 't', {6, 0, grp, 1, grp == 3 ? POLICY_PASS : 0, 0}};
    return true;
}
static bool one_of_queue_more(void)
{
    return lower(pick('t', OP_rdy, from_queues_gate));
}
/* The lease ends later than the admission that its end has made possible. */
static bool stale_frees(void)
{
    event *e = pick('t', OP_rdy, from_gate);
    if (!e) return false;
    const int64_t grp = group_of(e), commit = e->call, t = e->t;
    int64_t limit = 0;
    if (grp == 3 || admitted_after(commit, grp, true, &limit) != limit || limit == 3) return false;
    for (size_t k = 0; k < h.n; k++)
        if (sets(&h.e[k], grp) && h.e[k].a[3] > limit) return false;
    for (size_t k = h.n; k-- > 0;) {
        event *g = &h.e[k];
        if (!is(g, 't', OP_gon) || g->call >= commit || g->a[0] != 6 || group_of(g) != grp)
            continue;
        for (size_t i = 0; i < h.n; i++)
            if (h.e[i].phase == 't' && h.e[i].call > commit) h.e[i].call++;
        g->call = commit + 1, g->t = t + 1;
        return true;
    }
    return false;
}
static bool pass_in_group(void)
{
    event *e = pick('t', OP_rdy, from_gate);
    if (!e) return false;
    const event at = *e;
    event *n = copy(&at, -50000000);
    const int64_t id = -at.a[1], made[] = {6, id, 2, 0, 0, 0, 0, 1, group_of(&at)};
    n->op = OP_new, n->call = 0;
    memcpy(n->a, made, sizeof(made));
    *history_add(&h) = (event){at.t + 10000, 1000000, 18, OP_can, 'i', {6, id}};
    *history_add(&h) = (event){at.t + 20000, 1000000, 18, OP_can, 'o', {S_OK}};
    *history_add(&h) = (event){at.t + 15000, 1 << 30, 0, OP_gon, 't', {6, id, 0, 0, 0, ST_DELAYED}};
    return true;
}
static bool gate_stays_shut(void)
{
    event *e = pick('t', OP_rdy, from_gate);
    if (!e) return false;
    const event at = *e;
    int64_t limit = 0, from = 0;
    const int64_t grp = group_of(&at);
    for (size_t k = 0; k < h.n; k++) /* it waited, and there was room, before this transaction */
        if (h.e[k].phase == 't' && h.e[k].a[1] == at.a[1] && h.e[k].call < at.call)
            from = h.e[k].call;
    if (!from || admitted_after(at.call - 1, grp, grp != 3, &limit) >= limit) return false;
    for (size_t k = 0; k < h.n; k++)
        if (h.e[k].t >= at.t || h.e[k].call >= at.call) h.e[k].t += 3 * SOON;
    return true;
}
static bool held_admits(void)
{
    event *e = pick('t', OP_rdy, from_gate);
    if (!e) return false;
    const int64_t grp = group_of(e);
    bool first = true;
    for (size_t k = 0; k < h.n; k++)
        if (sets(&h.e[k], grp)) {
            h.e[k].a[5] = 1;
            if (first) h.e[k].t -= 100000000;
            first = false;
        }
    return true;
}
static bool letter_stops_nobody(void)
{
    event *e = pick('t', OP_rdy, from_gate);
    if (!e) return false;
    const int64_t grp = group_of(e), t = e->t, commit = e->call;
    bool there = false;
    for (size_t k = 0; k < h.n; k++)
        there |= is(&h.e[k], 't', OP_dea) && h.e[k].call < commit && h.e[k].a[0] == 6 &&
                 group_of(&h.e[k]) == grp;
    if (!there) return false;
    for (size_t k = 0; k < h.n; k++) {
        if (sets(&h.e[k], grp)) h.e[k].a[4] = POLICY_BLOCK;
        if (h.e[k].t >= t) h.e[k].t += 60000000;
    }
    return true;
}
static bool retry_gives_up(void)
{
    event *e = pick('t', OP_rdy, from_gate);
    int64_t limit = 0;
    if (!e || group_of(e) != 3) return false;
    const int64_t n = admitted_after(e->call, 3, true, &limit);
    for (size_t k = 0; k < h.n; k++)
        if (sets(&h.e[k], 3) && h.e[k].a[3] >= n) return false;
    for (size_t k = 0; k < h.n; k++)
        if (sets(&h.e[k], 3)) h.e[k].a[4] = POLICY_HOLD;
    return n > limit;
}

/* -- rates -- */

static bool at_rate_of_queue(const event *e)
{
    return e->a[0] == 8 && e->a[5] == 2;
}
static bool at_rate_of_group(const event *e)
{
    return e->a[0] == 9 && e->a[5] == 1;
}

/* How many jobs pass a gate in one transaction; 0: not in that of a claim whose time is known. */
static int passed_with(int64_t commit, bool (*fits)(const event *))
{
    int64_t token = 0;
    int n = 0;
    for (size_t k = 0; k < h.n; k++)
        if (h.e[k].phase == 't' && h.e[k].call == commit) {
            n += is(&h.e[k], 't', OP_rdy) && fits(&h.e[k]);
            if (h.e[k].op == OP_lea) token = h.e[k].a[2];
        }
    for (size_t k = 0; token && k < h.n; k++)
        if (is(&h.e[k], 'e', OP_got) && h.e[k].a[2] == token) return n;
    return 0;
}

static void slow_down(int64_t queue, int64_t grp, int64_t n, int64_t per_ms, int64_t burst)
{
    const int64_t slow[] = {n, per_ms, burst};
    for (size_t k = 0; k < h.n; k++)
        if (is(&h.e[k], 't', OP_lim) && h.e[k].a[0] == queue && h.e[k].a[2] == grp)
            memcpy(&h.e[k].a[6], slow, sizeof(slow));
}

static bool one_of_rate_more(int64_t queue, int64_t grp, bool (*fits)(const event *))
{
    int n = 0;
    for (size_t k = 0; k < h.n; k++) n += is(&h.e[k], 't', OP_rdy) && fits(&h.e[k]);
    slow_down(queue, grp, 1, 1000000, n - 1);
    return n > 1 && n < 100;
}
static bool one_of_queues_rate_more(void)
{
    return one_of_rate_more(8, -1, at_rate_of_queue);
}
static bool one_of_groups_rate_more(void)
{
    return one_of_rate_more(9, 4, at_rate_of_group);
}
/* The burst of a rate is not capped: jobs that had waited all pass at once. */
static bool burst_uncapped(void)
{
    event *e = pick('t', OP_rdy, at_rate_of_queue);
    if (!e || passed_with(e->call, at_rate_of_queue) < 3) return false;
    slow_down(8, -1, 1, 2000, 1);
    return true;
}
static bool weight_ignored(void)
{
    event *e = pick('t', OP_rdy, at_rate_of_queue);
    if (!e || passed_with(e->call, at_rate_of_queue) < 2) return false;
    for (size_t k = 0; k < h.n; k++)
        if (is(&h.e[k], 't', OP_new) && h.e[k].a[0] == 8) h.e[k].a[9] = 3;
    return true;
}
static bool rate_of_another(void)
{
    event *e = pick('t', OP_rdy, at_rate_of_group);
    if (!e || passed_with(e->call, at_rate_of_group) < 3) return false;
    slow_down(9, 4, 2, 1000, 1); /* it passed by the burst of another rate */
    return true;
}
/* A delayed job becomes ready as if its queue had no rate, which allows no more. */
static bool past_its_rate(void)
{
    event *e = pick('t', OP_rdy, at_rate_of_queue);
    if (!e || !one_of_queues_rate_more()) return false;
    const int64_t id = e->a[1];
    for (size_t k = 0; k < h.n; k++) {
        if (is(&h.e[k], 't', OP_new) && h.e[k].a[1] == id && h.e[k].a[2] > 1) h.e[k].a[2] = 1;
        if (is(&h.e[k], 't', OP_dly) && h.e[k].a[1] == id) h.e[k].a[6] = 0;
    }
    e->a[5] = 0;
    return true;
}
static bool ticks_pass_many(void)
{
    event *e = pick('t', OP_rdy, at_rate_of_queue);
    if (!e || passed_with(e->call, at_rate_of_queue) < 2) return false;
    const int64_t commit = e->call;
    for (size_t k = 0; k < h.n; k++) /* who claims them comes later */
        if (h.e[k].phase == 't' &&
            (h.e[k].call > commit || (h.e[k].call == commit && h.e[k].op == OP_lea)))
            h.e[k].call++;
    return true;
}
static bool rate_lets_none_pass(void)
{
    event *e = pick('t', OP_rdy, at_rate_of_queue);
    if (!e) return false;
    const event at = *e;
    bool waited = false;
    for (size_t k = 0; k < h.n; k++)
        waited |= h.e[k].phase == 't' && h.e[k].a[1] == at.a[1] && h.e[k].call < at.call;
    if (!waited) return false;
    for (size_t k = 0; k < h.n; k++)
        if (h.e[k].t >= at.t || h.e[k].call >= at.call) h.e[k].t += 3 * SOON;
    return true;
}
static bool take_too_many(void)
{
    event *o = pick('o', OP_tak, ok), *i = o ? call_of(o) : NULL;
    if (!i) return false;
    const event oi = *i, oo = *o;
    for (int k = 1; k <= TAKEN_BURST(oi.a[0]); k++) {
        copy(&oi, k)->call += 1000000 * k;
        copy(&oo, k)->call += 1000000 * k;
    }
    return true;
}

static const struct {
    const char *name;
    bool (*damage)(void);
    enum rule rule; /* that finds it; others may, too */
} kinds[] = {
    {"a job is lost", lose_job, R_loss},
    {"a job is there twice", double_job, R_doubled},
    {"a refused enqueue is there", undo_add, R_phantom},
    {"a job of nobody", invent_job, R_phantom},
    {"a job stays", keep_job, R_stuck},
    {"a completion of nobody", forget_completion, R_vanished},
    {"a leased job is leased", lease_twice, R_holders},
    {"a token goes back", shrink_token, R_token},
    {"a claim with another token", claim_other_token, R_claimed},
    {"a claim with another job's kind", claim_other_job, R_claimed},
    {"a lease for two", claim_by_two, R_claimed},
    {"more than asked for", claim_too_many, R_size},
    {"a claim that was rolled back counts", keep_rolled_back_claim, R_outcome},
    {"a stale completion is accepted", accept_stale, R_stale},
    {"a stale extend is accepted", accept_stale_extend, R_stale},
    {"two completions are accepted", accept_twice, R_stale},
    {"the current holder is refused", refuse_current, R_refused},
    {"what was applied is denied", deny_applied, R_outcome},
    {"an attempt counts twice", count_claim_twice, R_attempts},
    {"an attempt is forgiven", forgive_attempt, R_attempts},
    {"a lease is taken away early", reap_early, R_early},
    {"a job dies with attempts left", die_early, R_letters},
    {"a job lives without attempts left", live_on, R_letters},
    {"two jobs have one key", share_key, R_unique},
    {"a job in two places", two_places, R_places},
    {"an effect with a stale token", effect_of_old, R_sink},
    {"a good effect is refused", effect_refused, R_sink},
    {"an effect of nobody", effect_of_nobody, R_sink},
    {"two hold a lock", lock_twice, R_lock},
    {"a fence goes back", fence_goes_back, R_fence},
    {"one permit too many", one_permit_more, R_permits},
    {"a counter is wrong", miscount, R_counter},
    {"a tick is missing", skip_tick, R_tick},
    {"a tick is finished twice", finish_tick_twice, R_tick},
    {"claims find nothing", starve, R_starved},
    {"a job is passed", pass, R_passed},
    {"a claim waits", claim_waits, R_blocked},
    {"a dead worker's job waits", reap_late, R_reaped},
    {"a delayed job waits", promote_late, R_due},
    {"a delayed job is early", promote_early, R_early},
    {"a lock is waited for in vain", wait_for_nothing, R_waited},
    {"a lock comes too late", wait_long, R_waited},
    {"a call outlives its deadline", answer_after_deadline, R_overdue},
    {"a leased job moves by itself", move_by_itself, R_moved},
    {"two hold a row", row_twice, R_holders},
    {"one more of a group than its limit", one_of_group_more, R_limit},
    {"one more of a queue than its limit", one_of_queue_more, R_limit},
    {"a tick goes by an old limit", old_limit_stays, R_limit},
    {"a stale token frees a place", stale_frees, R_limit},
    {"a retry gives up its place", retry_gives_up, R_limit},
    {"a job is passed in its group", pass_in_group, R_order},
    {"a group with room admits nobody", gate_stays_shut, R_gated},
    {"a group that is held admits", held_admits, R_shut},
    {"a dead letter does not stop its group", letter_stops_nobody, R_shut},
    {"one more than the rate of a queue", one_of_queues_rate_more, R_rate},
    {"one more than the rate of a group", one_of_groups_rate_more, R_rate},
    {"a burst without an end", burst_uncapped, R_rate},
    {"weights are ignored", weight_ignored, R_rate},
    {"a group goes by another rate", rate_of_another, R_rate},
    {"a job comes past its rate", past_its_rate, R_rate},
    {"a tick lets several jobs pass", ticks_pass_many, R_rate},
    {"a rate lets nobody pass", rate_lets_none_pass, R_gated},
    {"one take too many", take_too_many, R_rate},
};

static size_t verdict(size_t count[R_COUNT])
{
    static check c;
    c.quiet = true;
    const size_t n = check_history(&c, &h);
    memcpy(count, c.count, sizeof(c.count));
    check_free(&c);
    return n;
}

static int clean(int histories)
{
    size_t count[R_COUNT];
    for (int seed = 1; seed <= histories; seed++) {
        model_history(&h, (uint64_t)seed, 100, seed % 4 == 0);
        if (verdict(count) == 0) continue;
        static check c;
        printf("not ok - %d right histories raise no alarm: number %d does\n", histories, seed);
        check_history(&c, &h);
        return 1;
    }
    printf("ok - %d right histories raise no alarm\n", histories);
    return 0;
}

static int damaged(size_t kind, int times)
{
    size_t count[R_COUNT];
    int done = 0, found = 0, named = 0;
    for (int seed = 1; done < times && seed < 2000 * times; seed++) {
        model_history(&h, (uint64_t)seed + 1000000, 100, false);
        if (!kinds[kind].damage()) continue;
        history_sort(&h);
        done++;
        found += verdict(count) > 0;
        named += count[kinds[kind].rule] > 0;
    }
    const bool good = done == times && found == done && named > 0;
    printf("%sok - damage is found: %s (%d of %d; by its own rule %d)\n", good ? "" : "not ",
           kinds[kind].name, found, done, named);
    return !good;
}

static event *add(int64_t s, int proc, int call, char phase, enum op op, const int64_t a[7])
{
    event *e = history_add(&h);
    *e = (event){.t = s * 1000000, .proc = proc, .call = call, .phase = phase, .op = op};
    memcpy(e->a, a, 7 * sizeof(*a));
    return e;
}

/* A lease of 40 s, and 24 s later another one of the same job. The clock is set soon after the
 * first, or not at all. */
static size_t long_leases(bool clock_set)
{
    size_t count[R_COUNT];
    h.n = 0;
    if (clock_set) add(3, 1, 1, 'i', OP_win, (int64_t[7]){C_clock_forward});
    if (clock_set) add(5, 1, 1, 'o', OP_win, (int64_t[7]){0});
    add(0, 0, 0, 't', OP_new, (int64_t[7]){1, 7});
    for (int k = 0; k < 2; k++) {
        add(1 + 24 * k, 2 + k, 1, 'i', OP_clm, (int64_t[7]){1, 1, 40000});
        add(1 + 24 * k, 2 + k, 1, 'e', OP_got, (int64_t[7]){1, 7, 1 + k, 1, 1 + k, 0, 40000});
        add(1 + 24 * k, 2 + k, 1, 'o', OP_clm, (int64_t[7]){S_OK, 1});
    }
    history_sort(&h);
    verdict(count);
    return count[R_holders];
}

static int excused(void)
{
    const bool good = long_leases(false) == 1 && long_leases(true) == 0;
    printf("%sok - a long lease may end early when the clock was set since it began\n",
           good ? "" : "not ");
    return !good;
}

/* Rows 3 and 1, each finished once, or row 3 twice. Of two such numbers a weak key made one. */
static size_t finished_rows(bool twice)
{
    const int64_t number[2] = {1795807055161066, twice ? 1795807055161066 : 1795807057093216};
    size_t count[R_COUNT];
    h.n = 0;
    for (int k = 0; k < 2; k++) {
        add(1 + k, 2 + k, 1, 'i', OP_rfi, (int64_t[7]){k == 0 || twice ? 3 : 1, number[k]});
        add(1 + k, 2 + k, 1, 'o', OP_rfi, (int64_t[7]){S_OK});
    }
    history_sort(&h);
    verdict(count);
    return count[R_stale];
}

static int told_apart(void)
{
    const bool good = finished_rows(true) == 1 && finished_rows(false) == 0;
    printf("%sok - two rows are told apart, whatever their numbers\n", good ? "" : "not ");
    return !good;
}

/* A job fails forty times, then its last lease is completed twice. What is printed of it? */
static char *two_completions(void)
{
    static check c;
    char *text = NULL;
    size_t n = 0;
    h.n = 0;
    add(0, 0, 0, 't', OP_new, (int64_t[7]){1, 7});
    for (int k = 1; k <= 41; k++) {
        event *e = add(2 * k, 0, k, 't', OP_lea, (int64_t[7]){1, 7, k, 1, k, 40000, 1});
        e->a[7] = 50; /* attempts */
        if (k < 41) add(2 * k + 1, 0, k, 't', OP_rdy, (int64_t[7]){1, 7, k, 1, k, 0, 1});
    }
    for (int k = 0; k < 2; k++) {
        add(83 + 2 * k, 1, k, 'i', OP_don, (int64_t[7]){1, 7, 41, 1});
        add(84 + 2 * k, 1, k, 'o', OP_don, (int64_t[7]){S_OK});
    }
    add(84, 0, 42, 't', OP_gon, (int64_t[7]){1, 7, 41, 1, 41, ST_LEASED});
    history_sort(&h);
    FILE *const out = stdout;
    stdout = open_memstream(&text, &n); /* which glibc allows */
    check_history(&c, &h);
    check_free(&c);
    fclose(stdout);
    stdout = out;
    return text;
}

static int told_shortly(void)
{
    char *const text = two_completions(), *piece = strstr(text, "stale: ");
    char *const end = piece ? strstr(piece, "\n\n") : NULL;
    if (end) *end = '\0'; /* of another rule */
    const char *const first = piece ? strchr(piece, '\n') : NULL;
    const bool good = first && strstr(first, " t lea 1 7 41 ") && strstr(first, " i don ") &&
                      !strstr(first, " t rdy ");
    printf("%sok - of a job with many leases, what shows the violation is printed\n",
           good ? "" : "not ");
    free(text);
    return !good;
}

int main(int argc, char **argv)
{
    const int histories = argc > 1 ? atoi(argv[1]) : 10000;
    int bad = clean(histories) + excused() + told_apart() + told_shortly();
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) bad += damaged(k, 100);
    return bad != 0;
}
