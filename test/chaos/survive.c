/* SPDX-License-Identifier: PostgreSQL
 *
 * survive.c: what a history proves about servers that were lost: `chaos-survive FOLDER sync|async`.
 * `sync`: nothing acknowledged may be missing after a fault. `async`: only what was acknowledged
 * after the standby had last caught up. `chaos-survive now` prints the clock of histories.
 *
 * FOLDER/hist has the history. FOLDER/faults has a line `BEGIN DEAD SAFE END` for each fault: the
 * server was lost between BEGIN and DEAD, all that was acknowledged before SAFE was elsewhere by
 * then, and the next one served from END on. FOLDER/left has the kinds of the jobs that are left.
 */
#include "check.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
#define CLAIMS(XX)                                                                     \
    XX(lost, "an acknowledged job is neither there nor finished")                      \
    XX(undone, "a job whose completion was acknowledged came back")                    \
    XX(twice, "two completions of a job were accepted")                                \
    XX(stale, "a token was accepted though a newer claim of the job had been answered") \
    XX(phantom, "a job exists although its enqueue was reported as not applied")       \
    XX(forked, "one enqueue made two jobs")                                            \
    XX(fence, "the number of a lock did not grow")                                     \
    XX(silent, "a process got no answer between two faults")
/* clang-format on */
enum claim {
#define XX(name, text) W_##name,
    CLAIMS(XX)
#undef XX
        W_COUNT
};
static const char *const texts[] = {
#define XX(name, text) #name ": " text,
    CLAIMS(XX)
#undef XX
};

typedef struct fault {
    int64_t begin, dead, safe, end;
} fault;

typedef struct take { /* a claim of a job */
    const event *got;
    int64_t asked; /* when the call was sent; 0: the runtime does not say */
    struct take *next;
} take;

typedef struct deed { /* an accepted call on a job */
    const request *call;
    const take *by;
    struct deed *next;
} deed;

typedef struct record { /* of a job that a producer made */
    int64_t made;
    const event *acked; /* its outcome */
    int64_t sent;       /* when the acknowledged call was sent */
    bool maybe, refused, left, ended;
    take *takes;
    deed *deeds;
} record;

static check c;
static map records, tokens;
static record **all;
static size_t record_count;
static fault faults[1000];
static int fault_count;
static bool sync_mode;
static size_t count[W_COUNT];

static void *grab(size_t size)
{
    void *p = calloc(1, size);
    if (!p) abort();
    return p;
}

static void wrong(enum claim what, const event *a, const event *b)
{
    if (count[what]++ > 1) return;
    puts(texts[what]);
    if (a) event_print(a);
    if (b) event_print(b);
}

/* How many servers were dead by then: an answer before it came from the old one, a call after it
 * went to the new one. */
static int epoch(int64_t t)
{
    int n = 0;
    while (n < fault_count && faults[n].dead <= t) n++;
    return n;
}

/* The server that a call reached for certain; -1: one of two. */
static int reached(int64_t sent, int64_t answered)
{
    const int e = epoch(sent);
    return sync_mode ? 0 : sent && e == epoch(answered) ? e : -1;
}

/* Did the next server have what was asked for at `sent` and answered at `answered`? */
static bool sure(int64_t sent, int64_t answered)
{
    const int e = epoch(sent);
    return sync_mode || e == fault_count || answered < faults[e].safe;
}

static record *record_of(int64_t made)
{
    void **at = map_at(&records, made);
    if (*at) return *at;
    record *s = *at = grab(sizeof(record));
    s->made = made;
    if ((record_count & (record_count - 1)) == 0) {
        all = realloc(all, (record_count ? record_count * 2 : 1) * sizeof(*all));
        if (!all) abort();
    }
    return all[record_count++] = s;
}

static int64_t token_key(int64_t id, int64_t number, int64_t nonce)
{
    return (int64_t)((uint64_t)id * 0x9e3779b97f4a7c15u ^ (uint64_t)number * 0xc2b2ae3d27d4eb4fu ^
                     (uint64_t)nonce);
}

static void on_enqueue(const request *k)
{
    for (int64_t n = 0; n < k->i->a[2]; n++) {
        record *s = record_of(MADE(k->i->proc, k->i->a[1] + n));
        if (k->status == S_OK && !s->acked) s->acked = k->o, s->sent = k->i->t;
        if (k->status == S_UNKNOWN) s->maybe = true;
        if (k->status == S_NOT) s->refused = true;
    }
}

static void on_got(const event *e)
{
    if (e->a[5] == 0) return; /* not made by a producer */
    record *s = record_of(e->a[5]);
    const request *claim = e->call ? map_get(&c.by_call, CALL_KEY(e->proc, e->call)) : NULL;
    take *t = grab(sizeof(take));
    t->got = e;
    t->asked = claim ? claim->i->t : 0;
    t->next = s->takes;
    s->takes = t;
    *map_at(&tokens, token_key(e->a[1], e->a[2], e->a[3])) = t;
}

static bool is_deed(enum op op)
{
    return op == OP_don || op == OP_fai || op == OP_ded || op == OP_rel || op == OP_snz ||
           op == OP_ext;
}

static void on_deed(const request *k)
{
    const take *by = map_get(&tokens, token_key(k->i->a[1], k->i->a[2], k->i->a[3]));
    if (!by) return;
    record *s = record_of(by->got->a[5]);
    if (k->i->op == OP_don && (k->status == S_OK || k->status == S_UNKNOWN)) s->ended = true;
    if (k->status != S_OK) return;
    deed *d = grab(sizeof(deed));
    d->call = k, d->by = by, d->next = s->deeds;
    s->deeds = d;
}

/* Was `t` claimed after `than`, of the server `e` itself? */
static bool newer(const take *t, const take *than, int e)
{
    if (t->got->a[1] != than->got->a[1] || t == than || e < 0) return false;
    if (reached(t->asked, t->got->t) != e) return false;
    return (!sync_mode && epoch(than->got->t) < e) || t->got->a[2] > than->got->a[2];
}

static void judge_deed(const record *s, const deed *d)
{
    const event *i = d->call->i, *o = d->call->o;
    const int e = reached(i->t, o->t);
    for (const take *t = s->takes; t; t = t->next) {
        if (t->got->t < i->t && newer(t, d->by, e)) wrong(W_stale, t->got, i);
        if (i->op != OP_don || t == d->by) continue;
        const bool after = sync_mode ? newer(t, d->by, e) : t->asked > o->t;
        if (after && sure(i->t, o->t)) wrong(W_undone, i, t->got);
    }
    for (const deed *x = d->next; x; x = x->next)
        if (i->op == OP_don && x->call->i->op == OP_don && x->by->got->a[1] == i->a[1] && e >= 0 &&
            reached(x->call->i->t, x->call->o->t) == e)
            wrong(W_twice, x->call->i, i);
}

static void judge(const record *s, size_t *lost)
{
    const bool there = s->left || s->ended;
    if (s->acked && !there) {
        *lost += 1;
        if (sure(s->sent, s->acked->t)) wrong(W_lost, s->acked, s->takes ? s->takes->got : NULL);
    }
    if ((s->takes || s->left) && s->refused && !s->acked && !s->maybe)
        wrong(W_phantom, s->takes ? s->takes->got : NULL, NULL);
    for (const take *t = s->takes; t && t->next; t = t->next)
        if (t->got->a[1] != t->next->got->a[1] && reached(t->asked, t->got->t) >= 0 &&
            reached(t->asked, t->got->t) == reached(t->next->asked, t->next->got->t))
            wrong(W_forked, t->next->got, t->got);
    for (const deed *d = s->deeds; d; d = d->next) judge_deed(s, d);
}

/* Exclusive locks of sessions, one after the other. */
static void judge_fences(void)
{
    const event *last[16] = {NULL};
    for (size_t i = 0; i < c.h->n; i++) {
        const event *e = &c.h->e[i];
        const request *k = map_get(&c.by_call, CALL_KEY(e->proc, e->call));
        if (e->op != OP_lck || e->phase != 'o' || !k || e->a[0] != S_OK || k->i->a[1]) continue;
        const int64_t lock = k->i->a[0];
        if (lock < 0 || lock > 3) continue;
        const event *before = last[lock];
        const request *kb =
            before ? map_get(&c.by_call, CALL_KEY(before->proc, before->call)) : NULL;
        if (kb && before->t < k->i->t && e->a[1] <= before->a[1] && sure(kb->i->t, before->t))
            wrong(W_fence, before, e);
        if (!before || e->a[1] > before->a[1] || !sync_mode) last[lock] = e;
    }
}

static bool is_answer(const event *e)
{
    if (e->op == OP_got) return true;
    return e->phase == 'o' && e->op != OP_eff && e->a[0] != S_UNKNOWN && e->a[0] != S_NOT;
}

static int by_size(const void *x, const void *y)
{
    const int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return (a > b) - (a < b);
}

static void print_times(const char *what, int64_t *us, size_t n)
{
    if (n == 0) return;
    qsort(us, n, sizeof(*us), by_size);
    printf("  %s: median %.2f s, longest %.2f s, of %zu\n", what, (double)us[n / 2] / 1e6,
           (double)us[n - 1] / 1e6, n);
}

/* How long after each fault each process that was there before and after had its first answer.
 * Returns how many answers that were. */
static size_t judge_rescue(void)
{
    int64_t *served = grab((c.h->n + 1) * sizeof(int64_t)), *ready = grab(sizeof(faults));
    size_t n = 0;
    map seen = {NULL, 0, 0}; /* of each process: the epoch of its last answer, and 1 */
    for (size_t i = 0; i < c.h->n; i++) {
        const event *e = &c.h->e[i];
        const int at = epoch(e->t);
        if (!is_answer(e)) continue;
        void **last = map_at(&seen, e->proc);
        if ((intptr_t)*last == at + 1) continue;
        if (at > 0 && e->t < faults[at - 1].end) continue; /* sent by the server that was lost */
        if (*last && (intptr_t)*last < at) wrong(W_silent, e, NULL);
        if (*last) served[n++] = e->t - faults[at - 1].begin;
        *last = (void *)(intptr_t)(at + 1);
    }
    for (int i = 0; i < fault_count; i++) ready[i] = faults[i].end - faults[i].begin;
    print_times("until a server serves again", ready, (size_t)fault_count);
    print_times("until a process has its next answer", served, n);
    map_free(&seen, false);
    free(served);
    free(ready);
    return n;
}

static bool read_files(const char *folder)
{
    char path[400], line[200];
    long long a, d, b, e;
    int proc, n;
    snprintf(path, sizeof(path), "%s/faults", folder);
    FILE *f = fopen(path, "r");
    if (!f) return false;
    while (fault_count < 1000 && fscanf(f, "%lld %lld %lld %lld", &a, &d, &b, &e) == 4)
        faults[fault_count++] = (fault){a, d, b, e};
    fclose(f);
    snprintf(path, sizeof(path), "%s/left", folder);
    f = fopen(path, "r");
    if (!f) return false;
    while (fgets(line, sizeof(line), f))
        if (sscanf(line, "%d.%d", &proc, &n) == 2) record_of(MADE(proc, n))->left = true;
    fclose(f);
    return true;
}

/* What was put to the test; false: too little to prove anything. */
static bool report(size_t lost, size_t lived)
{
    size_t acked = 0, refused = 0, takes = 0;
    for (size_t i = 0; i < record_count; i++) {
        acked += all[i]->acked != NULL;
        for (const take *t = all[i]->takes; t; t = t->next) takes++;
    }
    for (size_t i = 0; i < c.called; i++)
        refused += is_deed(c.calls[i].i->op) && c.calls[i].status == S_STALE;
    printf("  %zu calls, %zu acknowledged jobs, %zu claims, %zu stale calls refused\n", c.called,
           acked, takes, refused);
    if (!sync_mode)
        printf("  %zu jobs lost that were acknowledged after the standby had last caught up\n",
               lost);
    /* After one fault or two, perhaps no holder of before has called again. */
    return fault_count > 0 && acked > 0 && takes > 0 &&
           (refused > 0 || lived == 0 || fault_count < 5) && (sync_mode || lost > 0);
}

int main(int argc, char **argv)
{
    static history h;
    char path[400];
    size_t lost = 0, bad = 0;

    if (argc == 2 && strcmp(argv[1], "now") == 0) {
        printf("%" PRId64 "\n", now_us());
        return 0;
    }
    if (argc != 3) return 2;
    sync_mode = strcmp(argv[2], "sync") == 0;
    snprintf(path, sizeof(path), "%s/hist", argv[1]);
    if (history_read(&h, path) < 0 || h.n == 0 || !read_files(argv[1])) {
        fprintf(stderr, "chaos-survive: no history in \"%s\"\n", argv[1]);
        return 2;
    }
    check_frame(&c, &h);
    for (size_t i = 0; i < h.n; i++)
        if (h.e[i].op == OP_got) on_got(&h.e[i]);
    for (size_t i = 0; i < c.called; i++) {
        if (c.calls[i].i->op == OP_enq) on_enqueue(&c.calls[i]);
        if (is_deed(c.calls[i].i->op)) on_deed(&c.calls[i]);
    }
    printf("%d faults, %s\n", fault_count, argv[2]);
    const size_t lived = judge_rescue();
    judge_fences();
    for (size_t i = 0; i < record_count; i++) judge(all[i], &lost);
    const bool proves = report(lost, lived);
    for (int i = 0; i < W_COUNT; i++)
        if (count[i]) bad++, printf("broken: %s, %zu times\n", texts[i], count[i]);
    printf("verdict: %s\n", bad ? "INVALID" : proves ? "VALID" : "UNKNOWN");
    return bad ? 1 : proves ? 0 : 3;
}
