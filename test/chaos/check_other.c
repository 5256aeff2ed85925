/* SPDX-License-Identifier: PostgreSQL
 *
 * check_other.c: locks, permits, counters, ticks, leases on the rows of a table, and the sink.
 */
#include "check.h"
#include <stdlib.h>

/* -- something that is held from .. to, of an object ---------------------------------------------
 */

typedef struct hold {
    int64_t object, from, to, weight, fence;
    const event *i;
} hold;
typedef struct holds {
    hold *h;
    size_t n, capacity;
} holds;

static void hold_add(holds *s, hold h)
{
    if (s->n == s->capacity) {
        s->capacity = s->capacity ? s->capacity * 2 : 256;
        s->h = realloc(s->h, s->capacity * sizeof(hold));
        if (!s->h) abort();
    }
    s->h[s->n++] = h;
}

static int by_from(const void *x, const void *y)
{
    const hold *a = x, *b = y;
    if (a->object != b->object) return a->object < b->object ? -1 : 1;
    return a->from < b->from ? -1 : a->from > b->from;
}

/* At no instant weigh those of one object more than `most`. Few are held at a time. */
static void check_holds(check *c, holds *s, int64_t most, enum rule rule)
{
    hold *now[64];
    size_t n = 0;
    if (s->n) qsort(s->h, s->n, sizeof(hold), by_from);
    for (size_t i = 0; i < s->n; i++) {
        hold *h = &s->h[i];
        int64_t weight = h->weight;
        size_t kept = 0;
        if (h->to <= h->from) continue; /* for no time that is certain */
        for (size_t k = 0; k < n; k++)
            if (now[k]->object == h->object && now[k]->to > h->from) {
                weight += now[k]->weight;
                now[kept++] = now[k];
            }
        n = kept;
        if (weight > most && n) broken(c, rule, 0, now[0]->i, h->i);
        if (n < 64) now[n++] = h;
    }
    free(s->h);
}

/* -- locks ---------------------------------------------------------------------------------------
 */

enum {
    ALL = 1000, /* the weight of an exclusive lock; a shared one weighs 1 */
    OF_SESSION = 4
}; /* locks below are of sessions; the number of a transaction's counts once it
    * has committed */

typedef struct fence { /* the highest numbers that were seen */
    int64_t shared, exclusive;
} fence;

static void note_fence(fence *f, int64_t shared, int64_t number)
{
    int64_t *most = shared ? &f->shared : &f->exclusive;
    if (number > *most) *most = number;
}

/* Only of a lock that was released well it is known that it was held until then. A number grows
 * past those of all acquisitions that were answered before it was asked for. */
static void check_locks(check *c)
{
    holds s = {0};
    map open = {0}; /* by process */
    fence *fences = calloc(1000, sizeof(*fences));
    int64_t *asked = calloc(c->called + 1, sizeof(int64_t)); /* what an acquisition has to exceed */
    if (!fences || !asked) abort();

    for (size_t i = 0; i < c->h->n; i++) {
        const event *e = &c->h->e[i];
        if (e->op != OP_lck && e->op != OP_ulk) continue;
        const request *k = map_get(&c->by_call, CALL_KEY(e->proc, e->call));
        if (!k || k->i->a[0] < 0 || k->i->a[0] >= 1000) continue;
        const int64_t lock = k->i->a[0], shared = k->i->a[1];
        int64_t *floor = &asked[k - c->calls];
        if (e->op == OP_lck && e->phase == 'i') {
            *floor = shared ? fences[lock].exclusive * 2 : fences[lock].exclusive * 2;
            if (!shared && fences[lock].shared > fences[lock].exclusive)
                *floor = fences[lock].shared * 2;
            else if (shared && fences[lock].shared > fences[lock].exclusive)
                *floor = fences[lock].shared * 2 - 1; /* side by side they have the same one */
        } else if (e->op == OP_lck && k->status == S_OK) {
            if (e->a[1] * 2 <= *floor) broken(c, R_fence, 0, k->i, e);
            if (lock < OF_SESSION) note_fence(&fences[lock], shared, e->a[1]);
            void *p = (void *)(uintptr_t)(uint64_t)k; /* const request */
            *map_at(&open, e->proc) = p;
        } else if (e->op == OP_ulk && e->phase == 'o' && k->status == S_OK) {
            const request *a = map_get(&open, e->proc);
            if (!a || a->i->a[0] != lock) continue;
            note_fence(&fences[lock], shared, a->o->a[1]);
            hold_add(&s, (hold){lock, a->o->t, k->i->t, a->i->a[1] ? 1 : ALL, a->o->a[1], a->i});
        }
    }
    check_holds(c, &s, ALL, R_lock);
    free(fences);
    free(asked);
    map_free(&open, false);
}

/* -- permits -------------------------------------------------------------------------------------
 */

/* Out for certain: from the answer to the acquisition, to the return or the end of the time that
 * was asked for, counted from before it was asked. Of a session only as far as it has shown that it
 * lives. */
static void check_permits(check *c)
{
    holds s = {0};
    map at = {0}; /* by number: its place + 1 */
    for (size_t i = 0; i < c->h->n; i++) {
        const event *e = &c->h->e[i];
        if (e->op != OP_sem && e->op != OP_sex && e->op != OP_srl) continue;
        const request *k = map_get(&c->by_call, CALL_KEY(e->proc, e->call));
        if (!k) continue;
        const event *b = k->i;
        const int64_t until = b->t + b->a[2] * 1000;
        if (e->op == OP_sem) {
            if (e->phase != 'o' || k->status != S_OK) continue;
            hold_add(&s, (hold){b->a[0], e->t, b->a[3] ? e->t : until, b->a[1], 0, b});
            *map_at(&at, e->a[1]) = (void *)s.n;
            continue;
        }
        const size_t place = (size_t)map_get(&at, b->a[4]);
        if (!place) continue;
        hold *h = &s.h[place - 1];
        if (e->op == OP_srl && e->phase == 'i' && h->to > e->t) h->to = e->t;
        if (e->phase == 'o' && k->status == S_OK && e->op == OP_sex) h->to = b->a[3] ? e->t : until;
        if (e->phase == 'o' && k->status == S_OK && e->op == OP_srl && b->a[3]) h->to = b->t;
    }
    for (size_t i = 0; i < s.n; i++) /* a clock that is set ends them early */
        if (disturbed(c, s.h[i].from, s.h[i].to)) s.h[i].to = s.h[i].from;
    check_holds(c, &s, PERMITS, R_permits);
    map_free(&at, false);
}

/* -- counters ------------------------------------------------------------------------------------
 */

enum { COUNTERS = 32 };

/* With an operation id each call counts once; a completion in the transaction that counts does so
 * if and only if the server's log says that the lease ended by it. */
static void check_counters(check *c)
{
    int64_t sure[COUNTERS] = {0}, maybe[COUNTERS] = {0};
    for (size_t i = 0; i < c->called; i++) {
        const request *k = &c->calls[i];
        if (k->i->op == OP_rfi) {
            if (k->status == S_OK) sure[COUNTERS - 1]++;
            if (k->status == S_UNKNOWN) maybe[COUNTERS - 1]++;
        }
        if (k->i->op != OP_inc || k->i->a[0] < 0 || k->i->a[0] >= COUNTERS) continue;
        if (k->status == S_OK) sure[k->i->a[0]] += k->i->a[1];
        if (k->status == S_UNKNOWN) maybe[k->i->a[0]] += k->i->a[1];
    }
    for (size_t i = 0; i < c->leases.size; i++) {
        const lease *l = c->leases.slots[i].value;
        if (!l || l->counter <= 0 || l->counter > COUNTERS || !l->end || l->end->op != OP_gon)
            continue;
        const job *j = map_get(&c->jobs, l->job);
        if (l->counted || !j->cancelled)
            sure[l->counter - 1]++;
        else
            maybe[l->counter - 1]++;
    }
    for (size_t i = 0; i < c->h->n; i++) {
        const event *e = &c->h->e[i];
        if (e->op != OP_end || e->a[0] < 0 || e->a[0] >= COUNTERS) continue;
        if (e->a[1] < sure[e->a[0]] || e->a[1] > sure[e->a[0]] + maybe[e->a[0]]) {
            event shown = *e;
            shown.a[2] = sure[e->a[0]], shown.a[3] = maybe[e->a[0]];
            broken(c, R_counter, 0, &shown, NULL);
        }
    }
}

/* -- ticks ---------------------------------------------------------------------------------------
 */

static int by_value(const void *x, const void *y)
{
    const int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return a < b ? -1 : a > b;
}

/* Of a schedule's slots, a second apart, none is missing between the first and the last. */
static void check_slots(check *c, int64_t schedule, int64_t *slots, size_t n)
{
    qsort(slots, n, sizeof(int64_t), by_value);
    for (size_t i = 1; i < n; i++)
        if (slots[i] > slots[i - 1] + 1) { /* shown as if it were there */
            const event missing = {
                .op = OP_tic, .phase = 'e', .a = {schedule, (slots[i - 1] + 1) * 1000000}};
            broken(c, R_tick, 0, &missing, NULL);
        }
}

/* One job a second (a doubled one is a doubled job), and of a node's schedule one finish a slot. */
static void check_ticks(check *c)
{
    int64_t *slots = malloc((c->jobs.used + 1) * sizeof(int64_t));
    size_t n = 0;
    map done = {0};
    if (!slots) abort();
    for (size_t i = 0; i < c->jobs.size; i++) {
        const job *j = c->jobs.slots[i].value;
        if (j && j->made < 0) slots[n++] = -j->made;
    }
    check_slots(c, -1, slots, n);
    for (int64_t schedule = 0; schedule < 2; schedule++) {
        n = 0;
        for (size_t i = 0; i < c->h->n && n <= c->jobs.used; i++)
            if (c->h->e[i].op == OP_tic && c->h->e[i].a[0] == schedule)
                slots[n++] = c->h->e[i].a[1] / 1000000;
        if (n <= c->jobs.used) check_slots(c, schedule, slots, n);
    }
    free(slots);
    for (size_t i = 0; i < c->called; i++) {
        const request *k = &c->calls[i];
        if (k->i->op != OP_tfi || k->status != S_OK) continue;
        const int64_t key = k->i->a[0] * 100000000000 + k->i->a[1] / 1000;
        const request *other = map_get(&done, key);
        if (other) broken(c, R_tick, 0, other->i, k->i);
        *map_at(&done, key) = (void *)(uintptr_t)(uint64_t)k;
    }
    map_free(&done, false);
}

/* -- rows of a table -----------------------------------------------------------------------------
 */

typedef struct held_row {
    int64_t number, until, claimed;
    int32_t proc;
    const event *e;
} held_row;

static void check_rows(check *c)
{
    map rows = {0}, finished = {0};
    for (size_t i = 0; i < c->h->n; i++) {
        const event *e = &c->h->e[i];
        if (e->op != OP_rgt && e->op != OP_rfi && e->op != OP_rrl) continue;
        const int64_t id = e->op == OP_rgt || e->phase == 'i' ? e->a[0] : -1;
        held_row *r = id < 0 ? NULL : map_get(&rows, id + 1);
        if (e->op == OP_rgt) {
            const request *claim = map_get(&c->by_call, CALL_KEY(e->proc, e->call));
            if (!r) r = *map_at(&rows, id + 1) = calloc(1, sizeof(*r));
            if (!r || !claim) continue;
            if (claim->i->t < r->claimed)
                continue; /* it was frozen between its claim and this line */
            if (e->a[1] < r->number || (e->a[1] == r->number && e->proc != r->proc))
                broken(c, R_token, 0, r->e, e);
            if (e->t < r->until && e->proc != r->proc && !clock_set(c, r->claimed, e->t))
                broken(c, R_holders, 0, r->e, e);
            *r = (held_row){e->a[1], claim->i->t + e->a[2] * 1000, e->t, e->proc, e};
        } else if (r && e->phase == 'i' && r->number == e->a[1] && r->until > e->t) {
            r->until = e->t;
        } else if (r && e->phase == 'i' && r->number > e->a[1]) { /* somebody has it since */
            const request *k = map_get(&c->by_call, CALL_KEY(e->proc, e->call));
            if (k && k->status == S_OK) broken(c, R_stale, 0, r->e, e);
        }
    }
    for (size_t i = 0; i < c->called; i++) {
        const request *k = &c->calls[i];
        if (k->i->op != OP_rfi || k->status != S_OK) continue;
        const int64_t key = pair_key(k->i->a[0], k->i->a[1]);
        if (map_get(&finished, key)) broken(c, R_stale, 0, map_get(&finished, key), k->i);
        *map_at(&finished, key) = (void *)(uintptr_t)(uint64_t)k->i;
    }
    map_free(&rows, true);
    map_free(&finished, false);
}

/* -- the sink ------------------------------------------------------------------------------------
 */

/* It keeps its rule, knows only tokens that were given out, and its answers are what clients got.
 */
static void check_sink(check *c)
{
    static event none;
    map last = {0}, locks = {0};
    for (size_t i = 0; i < c->h->n; i++) {
        const event *e = &c->h->e[i];
        if (e->op == OP_snk) {
            const event *before = map_get(&last, e->a[0]);
            const bool good = !before || e->a[1] > before->a[1] ||
                              (e->a[1] == before->a[1] && e->a[2] == before->a[2]);
            if (good != (e->a[3] != 0)) broken(c, R_sink, e->a[0] > 0 ? e->a[0] : 0, before, e);
            if (e->a[0] > 0 && !lease_of(c, e->a[0], e->a[1])) broken(c, R_sink, e->a[0], e, NULL);
            if (e->a[3]) *map_at(&last, e->a[0]) = (void *)(uintptr_t)(uint64_t)e;
        }
        /* An effect under a lock that is then released well is never stale. */
        if (e->op == OP_eff && e->phase == 'o' && e->a[0] == S_STALE) {
            const request *k = map_get(&c->by_call, CALL_KEY(e->proc, e->call));
            if (k && k->i->a[0] < 0 && k->i->a[0] > -1000)
                *map_at(&locks, e->proc) = (void *)(uintptr_t)(uint64_t)e;
        }
        if (e->op == OP_lck && e->phase == 'i') *map_at(&locks, e->proc) = &none;
        if (e->op == OP_ulk && e->phase == 'o' && e->a[0] == S_OK) {
            const event *refused = map_get(&locks, e->proc);
            if (refused && refused != &none) broken(c, R_sink, 0, refused, e);
        }
    }
    map_free(&last, false);
    map_free(&locks, false);
}

void check_other(check *c)
{
    check_locks(c);
    check_permits(c);
    check_counters(c);
    check_ticks(c);
    check_rows(c);
    check_sink(c);
}
