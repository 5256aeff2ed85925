/* SPDX-License-Identifier: PostgreSQL
 *
 * check.c: the frame of the checker: tables, calls with their outcomes, disturbances; and what is
 * printed of a rule that was broken.
 */
#include "check.h"
#include "classes.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const rule_names[] = {
#define XX(name, text) #name ": " text,
    RULES(XX)
#undef XX
};

/* -- tables -- */

static size_t slot_of(const map *m, int64_t key)
{
    size_t at = (size_t)((uint64_t)key * 0x9e3779b97f4a7c15u >> 16) & (m->size - 1);
    while (m->slots[at].value && m->slots[at].key != key) at = (at + 1) & (m->size - 1);
    return at;
}

void *map_get(const map *m, int64_t key)
{
    return m->size ? m->slots[slot_of(m, key)].value : NULL;
}

void **map_at(map *m, int64_t key)
{
    if (m->used >= m->size / 2) {
        const map old = *m;
        m->size = old.size ? old.size * 2 : 256;
        m->slots = calloc(m->size, sizeof(*m->slots));
        if (!m->slots) abort();
        for (size_t i = 0; i < old.size; i++)
            if (old.slots[i].value) m->slots[slot_of(m, old.slots[i].key)] = old.slots[i];
        free(old.slots);
    }
    const size_t at = slot_of(m, key);
    if (!m->slots[at].value) m->used++; /* the caller sets it */
    m->slots[at].key = key;
    return &m->slots[at].value;
}

/* A sum or product with a small factor is not enough: two rows of a run had the same key. */
int64_t pair_key(int64_t a, int64_t b)
{
    uint64_t x = (uint64_t)a + 0x9e3779b97f4a7c15; /* the mixer of splitmix64 */
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return (int64_t)((x ^ x >> 31) ^ (uint64_t)b);
}

void map_free(map *m, bool values)
{
    for (size_t i = 0; values && i < m->size; i++) free(m->slots[i].value);
    free(m->slots);
    memset(m, 0, sizeof(*m));
}

/* -- what is printed -- */

static bool concerns(const event *e, int64_t id)
{
    if (e->op >= OP_new) return e->op != OP_lim && e->a[1] == id;
    if (e->op == OP_eff || e->op == OP_snk) return e->a[0] == id && e->phase != 'o';
    return (e->op == OP_got || e->op == OP_can || (e->op >= OP_don && e->op <= OP_ext)) &&
           e->phase != 'o' && e->a[1] == id;
}

static void show(const check *c, const event *e)
{
    event_print(e);
    const request *k = e->phase == 'i' ? map_get(&c->by_call, CALL_KEY(e->proc, e->call)) : NULL;
    if (k && k->o)
        event_print(k->o);
    else if (k)
        puts("                              (never answered)");
}

/* The piece of the history that shows it. Of a job: from the lease before the first of the two, or
 * from its making, up to the later of the two. */
static void tell(const check *c, enum rule rule, int64_t id, const event *a, const event *b)
{
    const bool turned = a && b && b->t < a->t;
    const event *first = turned || !a ? b : a, *last = turned || !b ? a : b;
    size_t from = 0, to = 0;

    printf("\n%s", rule_names[rule]);
    if (id) printf(" (job %" PRId64 ")", id);
    puts("");
    if (!id) {
        if (a) show(c, a);
        if (b) show(c, b);
        return;
    }
    for (; to < c->h->n && (!last || c->h->e[to].t <= last->t); to++) {
        const event *e = &c->h->e[to];
        if ((e->op == OP_new || e->op == OP_lea) && concerns(e, id) && first && e->t < first->t)
            from = to;
    }
    for (size_t i = from; i < to; i++)
        if (concerns(&c->h->e[i], id)) show(c, &c->h->e[i]);
    const event *others[] = {a, b};
    for (size_t i = 0; i < 2; i++)
        if (others[i] && others[i]->phase != 'o' && !concerns(others[i], id))
            puts("  and"), show(c, others[i]);
}

void broken(check *c, enum rule rule, int64_t id, const event *a, const event *b)
{
    if (c->count[rule]++ < 2 && !c->quiet && c->shown++ < 20) tell(c, rule, id, a, b);
}

/* -- disturbances -- */

static span *span_add(spans *s, int64_t from, int64_t to, int64_t what)
{
    if ((s->n & (s->n - 1)) == 0) {
        s->s = realloc(s->s, (s->n ? s->n * 2 : 1) * sizeof(span));
        if (!s->s) abort();
    }
    s->s[s->n] = (span){from, to, what};
    return &s->s[s->n++];
}

/* Few, and in the order of their begins. */
static bool overlaps(const spans *s, int64_t what, int64_t from, int64_t to)
{
    for (size_t i = 0; i < s->n && s->s[i].from <= to; i++)
        if (s->s[i].to >= from && (what < 0 || s->s[i].what == what)) return true;
    return false;
}

bool disturbed(const check *c, int64_t from, int64_t to)
{
    return overlaps(&c->windows, -1, from - SLACK, to + SLACK);
}

bool clock_set(const check *c, int64_t from, int64_t to)
{
    return overlaps(&c->windows, C_clock_forward, from - SLACK, to + SLACK) ||
           overlaps(&c->windows, C_clock_back, from - SLACK, to + SLACK);
}

bool administered(const check *c, int64_t queue, enum op op, int64_t from, int64_t to)
{
    return queue >= 0 && queue < QUEUES && overlaps(&c->admin[queue], op, from - SLACK, to + SLACK);
}

lease *lease_of(const check *c, int64_t id, int64_t number)
{
    return map_get(&c->leases, pair_key(id, number));
}

/* -- the frame -- */

static int by_commit(const void *x, const void *y)
{
    const event *a = *(const event *const *)x, *b = *(const event *const *)y;
    if (a->call != b->call) return a->call < b->call ? -1 : 1;
    return a < b ? -1 : 1;
}

void check_frame(check *c, const history *h)
{
    c->h = h;
    c->truth = malloc((h->n + 1) * sizeof(*c->truth));
    c->calls = malloc((h->n + 1) * sizeof(*c->calls));
    if (!c->truth || !c->calls) abort();
    for (size_t i = 0; i < h->n; i++) {
        const event *e = &h->e[i];
        if (e->phase == 't') c->truth[c->truths++] = e;
        if (e->op == OP_cal) c->calm = e;
        if (e->op == OP_fin) c->fin = e;
        if (e->phase == 'i') {
            request *k = &c->calls[c->called++];
            *k = (request){e, NULL, S_UNKNOWN};
            *map_at(&c->by_call, CALL_KEY(e->proc, e->call)) = k;
        } else if (e->phase == 'o') {
            request *k = map_get(&c->by_call, CALL_KEY(e->proc, e->call));
            if (k) k->o = e, k->status = e->a[0];
        }
    }
    qsort(c->truth, c->truths, sizeof(*c->truth), by_commit);
    for (size_t i = 0; i < c->called; i++) {
        const request *k = &c->calls[i];
        /* A call without an answer may still run, for a while. */
        const int64_t to = k->status != S_UNKNOWN ? k->o->t : (k->o ? k->o : k->i)->t + 60000000;
        if (k->i->op == OP_win) span_add(&c->windows, k->i->t, to, k->i->a[0]);
        if (k->i->op >= OP_pau && (k->i->op <= OP_res || k->i->op == OP_unb) && k->i->a[0] < QUEUES)
            span_add(&c->admin[k->i->a[0]], k->i->t, to, k->i->op);
    }
}

size_t check_history(check *c, const history *h)
{
    size_t n = 0;
    check_frame(c, h);
    check_truth(c);
    check_calls(c);
    check_live(c);
    check_group(c);
    check_takes(c);
    check_other(c);
    for (int r = 0; r < R_COUNT; r++) n += c->count[r] > 0;
    return n;
}

void check_free(check *c)
{
    free(c->truth);
    free(c->calls);
    map_free(&c->by_call, false);
    map_free(&c->jobs, true);
    map_free(&c->leases, true);
    map_free(&c->made, false);
    free(c->windows.s);
    for (int q = 0; q < QUEUES; q++) free(c->admin[q].s);
    memset(c, 0, sizeof(*c));
}
