/* SPDX-License-Identifier: PostgreSQL
 *
 * check_job.c: jobs. First what the server's log says by itself: states, tokens, attempts, unique
 * keys. Then the answers that clients got, against it.
 */
#include "check.h"
#include <stdlib.h>

/* -- the server's log ----------------------------------------------------------------------------
 */

static job *job_of(check *c, int64_t id)
{
    job *j = map_get(&c->jobs, id);
    if (j) return j;
    j = calloc(1, sizeof(*j));
    if (!j) abort();
    j->id = id;
    return *map_at(&c->jobs, id) = j;
}

static void on_new(check *c, job *j, const event *e, map *keys)
{
    if (j->state != ST_NONE) broken(c, R_doubled, j->id, e, NULL);
    j->queue = e->a[0];
    j->made = e->a[5];
    j->key = e->a[6];
    j->lane = e->a[7];
    j->since = e->t;
    j->state = e->a[2] ? ST_DELAYED : ST_READY;
    j->due = e->a[2] ? e->t + e->a[3] * 1000 : 0;
    if (j->made) {
        if (map_get(&c->made, j->made)) broken(c, R_doubled, j->id, e, NULL);
        *map_at(&c->made, j->made) = j;
    }
    if (j->key) {
        job *other = map_get(keys, j->key);
        if (other && other->key && other->state != ST_NONE) broken(c, R_unique, other->id, e, NULL);
        *map_at(keys, j->key) = j;
    }
}

static void on_lease(check *c, job *j, const event *e)
{
    if (j->state != ST_READY) broken(c, R_holders, j->id, e, NULL);
    if (e->a[2] <= j->number) broken(c, R_token, j->id, e, NULL);
    if (e->a[4] != j->attempt + 1 || e->a[4] > e->a[7]) broken(c, R_attempts, j->id, e, NULL);
    lease *l = calloc(1, sizeof(*l));
    if (!l) abort();
    *l = (lease){.job = j->id, .number = e->a[2], .nonce = e->a[3], .from = e, .attempt = e->a[4]};
    l->limit = e->a[7];
    l->maybe[OP_rel] = e->a[8] != 0; /* the runtime releases unstarted jobs by itself */
    l->until = e->t + e->a[5] * 1000;
    void **at = map_at(&c->leases, pair_key(j->id, l->number));
    free(*at); /* the same number twice: reported above */
    *at = l;
    j->held = l, j->number = l->number, j->attempt = l->attempt;
    j->state = ST_LEASED;
}

/* A lease ends: the job is ready, delayed, dead or gone. */
static void on_end(check *c, job *j, const event *e)
{
    if (e->a[2] != 0) {
        lease *l = lease_of(c, j->id, e->a[2]);
        if (j->state != ST_LEASED || !l || l != j->held)
            broken(c, R_stale, j->id, e, NULL);
        else
            l->end = e;
    } else if (j->state == ST_LEASED) {
        broken(c, R_moved, j->id, e, NULL);
    }
    j->held = NULL;
}

/* Delayed or dead jobs become ready, or come to a gate; ready ones go to another lane, and keep all
 * else. */
static void on_ready(check *c, job *j, const event *e)
{
    const int64_t was = j->state;
    if (was == ST_DELAYED && e->t < j->due - EARLY &&
        !administered(c, j->queue, OP_res, e->t - 10 * SLACK, e->t) &&
        !clock_set(c, j->due - 60000000, j->due))
        broken(c, R_early, j->id, e, NULL);
    if (was == ST_DEAD) {
        if (!administered(c, j->queue, OP_red, e->t, e->t)) broken(c, R_moved, j->id, e, NULL);
        if (e->a[4] != 0) broken(c, R_attempts, j->id, e, NULL);
    } else if (e->a[2] == 0 && e->a[4] != j->attempt) {
        broken(c, R_attempts, j->id, e, NULL);
    }
    if (e->op == OP_rdy) j->lane = e->a[6];
}

static void on_gone(check *c, job *j, const event *e)
{
    /* Jobs that are added while their queue is dropped are lost, and pruned later. */
    const int64_t from = j->queue == DROPPED ? j->since - 40000000 : e->t;
    if (e->a[2] == 0 && !j->cancelled && !administered(c, j->queue, OP_pur, e->t, e->t) &&
        !administered(c, j->queue, OP_drp, from, e->t))
        broken(c, R_vanished, j->id, e, NULL);
}

void check_truth(check *c)
{
    map keys = {0};
    for (size_t i = 0; i < c->called; i++)
        if (c->calls[i].i->op == OP_can &&
            (c->calls[i].status == S_OK || c->calls[i].status == S_UNKNOWN))
            job_of(c, c->calls[i].i->a[1])->cancelled = true;
    for (size_t i = 0; i < c->truths; i++) {
        const event *e = c->truth[i];
        if (e->op == OP_lim) continue;
        job *j = job_of(c, e->a[1]);
        switch ((int)e->op) {
        case OP_new: on_new(c, j, e, &keys); break;
        case OP_two: broken(c, R_places, j->id, e, NULL); break;
        case OP_lea: on_lease(c, j, e); break;
        case OP_len:
            if (j->held && j->held->number == e->a[2])
                j->held->until = e->t + e->a[5] * 1000;
            else
                broken(c, R_stale, j->id, e, NULL);
            break;
        case OP_rdy:
            if (j->state == ST_NONE) broken(c, R_phantom, j->id, e, NULL);
            on_ready(c, j, e);
            on_end(c, j, e);
            j->state = ST_READY, j->attempt = e->a[4];
            break;
        case OP_dly:
            if (e->a[6]) on_ready(c, j, e);
            on_end(c, j, e);
            j->state = ST_DELAYED, j->attempt = e->a[4], j->due = e->t + e->a[5] * 1000;
            break;
        case OP_dea:
            on_end(c, j, e);
            j->state = ST_DEAD, j->attempt = 0, j->key = 0;
            break;
        case OP_gon:
            if (j->state == ST_NONE) broken(c, R_phantom, j->id, e, NULL);
            on_gone(c, j, e);
            on_end(c, j, e);
            j->state = ST_NONE, j->returned = true;
            break;
        default: break;
        }
    }
    map_free(&keys, false);
}

/* -- the answers of clients ----------------------------------------------------------------------
 */

static bool ends(int op)
{
    return op >= OP_don && op <= OP_snz;
}

/* Does this verb leave a job so? (A job that was cancelled meanwhile is gone.) */
static bool may_end(int verb, int end)
{
    if (verb == OP_don) return end == OP_gon;
    if (verb == OP_ded) return end == OP_dea;
    if (end == OP_gon || (end == OP_dea && verb == OP_fai)) return true;
    return end == OP_rdy || (end == OP_dly && verb != OP_rel);
}

static void on_verb(check *c, const request *k)
{
    const event *i = k->i;
    lease *l = lease_of(c, i->a[1], i->a[2]);
    const int64_t t = k->o ? k->o->t : INT64_MAX / 2;

    if (l && l->nonce != i->a[3]) l = NULL;
    if (!l) {
        if (k->status == S_OK) broken(c, R_stale, i->a[1], i, k->o);
        return;
    }
    if (k->status == S_UNKNOWN) l->maybe[i->op] = true;
    if (k->status == S_NOT) l->denied[i->op] = true;
    if (i->op == OP_don && i->a[4] && k->status != S_NOT)
        l->counter = i->a[4], l->counted = k->status == S_OK;
    if (k->status == S_STALE || k->status == S_GONE) {
        /* Jobs that are claimed while their queue is dropped are lost, too, and pruned later. */
        if ((!l->end || l->end->t > t + SLACK) &&
            !(i->a[0] == DROPPED && administered(c, DROPPED, OP_drp, l->from->t, t)))
            broken(c, R_refused, l->job, i, k->o);
    } else if (k->status == S_OK && i->op == OP_ext) {
        if (l->end && l->end->t < i->t - SLACK) broken(c, R_stale, l->job, i, l->end);
    } else if (k->status == S_OK) {
        if (l->accepted) broken(c, R_stale, l->job, i, l->broken);
        if (!l->end || !may_end(i->op, l->end->op) || l->end->t < i->t - SLACK ||
            l->end->t > t + SLACK)
            broken(c, R_stale, l->job, i, l->end);
        l->accepted = true, l->broken = i;
        l->maybe[i->op] = true;
    }
}

/* Why has a lease ended? By a call of its holder, a cancellation, a deletion; or a reaper took the
 * job. */
static void on_lease_end(check *c, const lease *l, const job *j)
{
    const event *e = l->end;
    const bool fai = l->maybe[OP_fai], snz = l->maybe[OP_snz], rel = l->maybe[OP_rel];
    const bool done = l->maybe[OP_don], dead = l->maybe[OP_ded];
    const bool used_up = l->attempt >= l->limit;
    bool reaped = false;
    enum rule rule = R_moved;
    bool good = true;

    if (e->op == OP_gon) {
        good = done || administered(c, j->queue, OP_drp, e->t, e->t) || j->cancelled;
        rule = R_vanished;
    } else if (e->op == OP_dly) {
        good = snz || fai;
        if (!snz && used_up) good = false, rule = R_letters;
        if (!snz && e->a[4] != l->attempt) broken(c, R_attempts, l->job, e, NULL);
        if (!fai && e->a[4] != l->attempt - 1) broken(c, R_attempts, l->job, e, NULL);
    } else if (e->op == OP_dea) {
        good = dead || used_up, rule = R_letters;
        reaped = !dead && !fai;
    } else if (rel || fai || snz) { /* ready */
        if (e->a[4] != l->attempt - (rel || snz) && !((rel || snz) && e->a[4] == l->attempt))
            broken(c, R_attempts, l->job, e, NULL);
        if (e->a[4] == l->attempt && used_up) good = false, rule = R_letters;
    } else {
        reaped = true;
        if (e->a[4] != l->attempt) broken(c, R_attempts, l->job, e, NULL);
        if (used_up) good = false, rule = R_letters;
    }
    for (int op = OP_don; !good && op <= OP_snz; op++)
        if (l->denied[op]) rule = R_outcome;
    if (!good) broken(c, rule, l->job, l->from, e);
    if (reaped && e->t < l->until - EARLY && !clock_set(c, l->from->t, e->t)) {
        for (int op = OP_don; op <= OP_snz; op++)
            if (l->denied[op]) rule = R_outcome;
        broken(c, rule == R_outcome ? rule : R_early, l->job, l->from, e);
    }
}

static void on_got(check *c, const event *e)
{
    const request *claim = e->call ? map_get(&c->by_call, CALL_KEY(e->proc, e->call)) : NULL;
    lease *l = lease_of(c, e->a[1], e->a[2]);
    const bool undone = claim && (claim->i->a[3] == 1 || claim->status == S_NOT);

    if (l && l->nonce != e->a[3]) l = NULL;
    if (claim && claim->status == S_UNKNOWN && !l) return;
    if (undone ? l != NULL : l == NULL) broken(c, undone ? R_outcome : R_claimed, e->a[1], e, NULL);
    if (!l || undone) return;
    const job *j = map_get(&c->jobs, l->job);
    if (l->taken || e->a[4] != l->attempt || (e->a[5] && e->a[5] != j->made))
        broken(c, R_claimed, l->job, e, l->taken);
    l->taken = e;
}

/* A holder believes to hold the job from the answer of the claim until its lease is over, counted
 * from before the claim was sent; or until it begins to finish it. */
static void believe(check *c, const event *e)
{
    job *j = map_get(&c->jobs, e->a[1]);
    if (!j) return;
    if (e->op == OP_got) {
        const request *claim = e->call ? map_get(&c->by_call, CALL_KEY(e->proc, e->call)) : NULL;
        if (claim && claim->i->a[3]) return; /* noted after its transaction */
        if (e->a[2] < j->number) return;     /* frozen in between */
        if (e->t < j->believed && !clock_set(c, j->claimed, e->t))
            broken(c, R_holders, j->id, e, NULL);
        j->claimed = claim ? claim->i->t : e->t;
        j->believed = claim && claim->status == S_OK ? claim->i->t + e->a[6] * 1000 : 0;
        j->number = e->a[2];
    } else if (e->phase == 'i' && j->number == e->a[2] && j->believed > e->t) {
        j->believed = e->t;
    }
}

/* Each number of a producer, against what became of the calls that were to add it. */
static void check_added(check *c)
{
    map best = {0}; /* by the first number of a call: its best outcome, + 1 */
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < c->called; i++) {
            const request *k = &c->calls[i];
            if (k->i->op != OP_enq) continue;
            const int64_t first = MADE(k->i->proc, k->i->a[1]);
            const intptr_t before = (intptr_t)map_get(&best, first);
            const bool sure = k->status == S_OK, maybe = k->status == S_UNKNOWN;
            if (pass == 0) {
                if (!before || sure || (maybe && before != S_OK + 1))
                    *map_at(&best, first) = (void *)(intptr_t)(k->status + 1);
                continue;
            }
            int64_t there = 0;
            for (int64_t n = 0; n < k->i->a[2]; n++) {
                job *j = map_get(&c->made, first + n);
                there += j != NULL;
                if (j) j->serial = 1; /* somebody has made it */
                if (!j && before == S_OK + 1) broken(c, R_loss, 0, k->i, NULL);
                if (j && before != S_OK + 1 && before != S_UNKNOWN + 1)
                    broken(c, R_phantom, j->id, k->i, NULL);
            }
            if (there && there != k->i->a[2]) broken(c, R_loss, 0, k->i, NULL);
        }
    for (size_t i = 0; i < c->jobs.size; i++) {
        job *j = c->jobs.slots[i].value;
        if (j && j->made >= 0 && j->serial == 0 && (j->made || j->number))
            broken(c, R_phantom, j->id, NULL, NULL);
        if (j) j->serial = 0;
    }
    map_free(&best, false);
}

void check_calls(check *c)
{
    for (size_t i = 0; i < c->called; i++) {
        const request *k = &c->calls[i];
        if (ends(k->i->op) || k->i->op == OP_ext) on_verb(c, k);
        if (k->i->op == OP_clm && k->o && k->o->a[1] > k->i->a[1]) broken(c, R_size, 0, k->i, NULL);
    }
    check_added(c);
    for (size_t i = 0; i < c->jobs.size; i++)
        if (c->jobs.slots[i].value) ((job *)c->jobs.slots[i].value)->number = 0;
    for (size_t i = 0; i < c->h->n; i++) {
        const event *e = &c->h->e[i];
        if (e->op == OP_got) on_got(c, e);
        if (e->op == OP_got || ends(e->op)) believe(c, e);
    }
    for (size_t i = 0; i < c->leases.size; i++) {
        const lease *l = c->leases.slots[i].value;
        if (l && l->end) on_lease_end(c, l, map_get(&c->jobs, l->job));
    }
    for (size_t i = 0; c->fin && i < c->jobs.size; i++) {
        const job *j = c->jobs.slots[i].value;
        if (j && j->state != ST_NONE && j->state != ST_DEAD && j->queue != DROPPED && j->queue >= 0)
            broken(c, R_stuck, j->id, NULL, NULL);
    }
}
