/* SPDX-License-Identifier: PostgreSQL
 *
 * model.c: a queue, locks, permits, counters, ticks and rows in memory. Each step does one thing at
 * a time of its own and writes what clients and the server's log would say of it: answers that are
 * lost, transactions that are rolled back, leases that expire, holders that come late. Queue 6 has
 * groups 1 and 2 (hold) and 3 (pass), whose limits change and which are held; queue 7 has a limit.
 * Queue 8 has a rate, and queue 9 group 4, which has one that changes. The server's clock is set.
 */
#include "model.h"
#include "check.h"
#include "classes.h"
#include <string.h>

enum { JOBS = 400, WORKERS = 4, LEASE_MS = 1000, LIMIT = 3 };

typedef struct model_job {
    int64_t id, made, key, queue, state, number, nonce, attempt, until, lane;
    int worker; /* who holds it, or has; 0: it does not know (the answer was lost) */
    bool late;  /* a former holder, who does not know either */
    int64_t grp, gate, weight;
    bool kept; /* its place, for a retry */
} model_job;

static struct {
    history *h;
    uint64_t dice;
    int64_t t, commit, position, calls, made;
    model_job jobs[JOBS];
    int n;
    struct {
        int64_t number, nonce, job, queue;
    } stale[JOBS]; /* tokens of leases that are over */
    int stales;
    int64_t counted, fence[3], slot, row_number[3], permit;
    int64_t limit[4], held[4];  /* of groups; 0: of queue 7 */
    int64_t rate[2][3], tat[4]; /* of queue 8 and of group 4; of two rates outside jobs, too */
    int64_t ahead;              /* the server's clock */
} m;

int model_draw(int n)
{
    m.dice ^= m.dice << 13, m.dice ^= m.dice >> 7, m.dice ^= m.dice << 17;
    return (int)(m.dice % (uint64_t)n);
}
#define draw model_draw

static void put(int proc, int64_t call, char phase, enum op op, const int64_t *a, size_t n)
{
    event *e = history_add(m.h);
    e->t = m.t += 1 + draw(200);
    e->proc = proc, e->call = call, e->phase = phase, e->op = (uint8_t)op;
    memcpy(e->a, a, n * sizeof(int64_t));
}
#define PUT(proc, call, phase, op, ...)                        \
    put(proc, call, phase, op, (const int64_t[]){__VA_ARGS__}, \
        sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define TRUTH(op, ...) PUT(0, m.commit, 't', op, __VA_ARGS__)

/* -- groups -- */

static int64_t some_queue(void)
{
    const int64_t q = draw(8);
    return q < 3 ? q : q < 5 ? 6 : q + 2;
}

static void say_limit(int64_t grp)
{
    if (grp)
        TRUTH(OP_lim, 6, 0, grp, m.limit[grp], grp == 3 ? POLICY_PASS : 0, m.held[grp]);
    else
        TRUTH(OP_lim, 7, 0, -1, m.limit[0], 0, 0);
}

/* Takes from a rate, as the server does. */
static bool take(int64_t *tat, const int64_t rate[3], int64_t n)
{
    const int64_t now = m.t + m.ahead, step = rate[1] * 1000 / rate[0], last = now + step * rate[2];
    int64_t at = *tat < last ? *tat : last;
    if (at < now) at = now;
    if (at + n * step > last) return false;
    *tat = at + n * step;
    return true;
}

static void say_rate(int64_t grp)
{
    const int64_t *r = m.rate[grp > 0];
    if (grp)
        TRUTH(OP_lim, 9, 0, grp, 0, 0, 0, r[0], r[1], r[2]);
    else
        TRUTH(OP_lim, 8, 0, -1, 0, 0, 0, r[0], r[1], r[2]);
}

static void begin_groups(void)
{
    static const int64_t first[2][3] = {{2, 1000, 3}, {4, 1000, 4}};
    memcpy(m.rate, first, sizeof(first));
    m.commit++;
    TRUTH(OP_lim, 6, 0, 0, 1, POLICY_HOLD, 0);
    m.limit[0] = m.limit[1] = m.limit[3] = 2, m.limit[2] = 1;
    for (int grp = 0; grp < 4; grp++) say_limit(grp);
    TRUTH(OP_lim, 9, 0, 0, 100, POLICY_HOLD, 0, 1, 100, 1); /* of groups that have none */
    say_rate(0);
    say_rate(4);
}

static void keep_rate(void)
{
    m.commit++;
    m.rate[1][0] = 1 + draw(4), m.rate[1][2] = 1 + draw(4);
    say_rate(4);
}

/* Calls that take from the two rates outside jobs. */
static void take_some(void)
{
    for (int i = draw(12); i >= 0; i--) {
        const int64_t call = ++m.calls, which = draw(2), n = 1 + draw(3), fate = draw(8);
        const int64_t rate[] = {TAKEN_N, 1000, TAKEN_BURST(which)};
        PUT(40 + i, call, 'i', OP_tak, which, n);
        m.t += draw(20000);
        const bool did = fate != 1 && take(&m.tat[2 + which], rate, n);
        if (fate > 1)
            PUT(40 + i, call, 'o', OP_tak, did ? S_OK : S_LOCKED);
        else if (draw(2))
            PUT(40 + i, call, 'o', OP_tak, S_UNKNOWN);
    }
}

static void set_clock(void)
{
    const bool back = m.ahead > 0;
    const int64_t call = ++m.calls;
    PUT(9, call, 'i', OP_win, back ? C_clock_back : C_clock_forward);
    m.ahead = back ? 0 : 5000000 + draw(20000000);
    m.t += 2300000;
    PUT(9, call, 'o', OP_win, S_OK);
}

static void keep_groups(void)
{
    const int grp = draw(4);
    m.commit++;
    if (grp > 0 && draw(2))
        m.held[grp] = !m.held[grp];
    else if (grp != 2)
        m.limit[grp] = 1 + draw(3);
    say_limit(grp);
}

/* Lets jobs pass the gate of queue 8, or of group 4: so many at most, in the order of their ids. */
static void admit_rated(int64_t queue, int most)
{
    for (int i = 0; i < m.n && most > 0; i++) {
        model_job *j = &m.jobs[i];
        if (j->queue != queue || j->state != ST_DELAYED || !j->gate) continue;
        const int64_t *rate = m.rate[queue - 8];
        if (!take(&m.tat[queue - 8], rate, j->weight < rate[2] ? j->weight : rate[2])) return;
        TRUTH(OP_rdy, queue, j->id, 0, 0, j->attempt, j->gate, 1, LIMIT);
        j->state = ST_READY, j->lane = 1, j->gate = 0;
        most--;
    }
}

static bool any_ready(int64_t queue)
{
    for (int i = 0; i < m.n; i++)
        if (m.jobs[i].queue == queue && m.jobs[i].state == ST_READY) return true;
    return false;
}

/* Opens the gates of a queue as far as there is room. */
static void admit(int64_t queue)
{
    for (int64_t grp = queue == 6 ? 1 : 0; grp < (queue == 6 ? 4 : 1); grp++) {
        int64_t n = 0;
        for (int i = 0; i < m.n; i++) {
            const model_job *j = &m.jobs[i];
            n += j->queue == queue && j->grp == grp &&
                 (j->state == ST_READY || j->state == ST_LEASED ||
                  (j->state == ST_DELAYED && j->kept));
        }
        for (int i = 0; i < m.n && n < m.limit[grp] && !m.held[grp]; i++) {
            model_job *j = &m.jobs[i]; /* in the order of their ids */
            if (j->queue != queue || j->grp != grp || j->state != ST_DELAYED || !j->gate) continue;
            TRUTH(OP_rdy, queue, j->id, 0, 0, j->attempt, j->gate, 1, LIMIT);
            j->state = ST_READY, j->lane = 1, j->gate = 0;
            n++;
        }
    }
}

static int64_t gate_of(int64_t queue)
{
    return queue == 6 || queue == 9 ? 1 : 2;
}

static void add_jobs(void)
{
    const int64_t call = ++m.calls, first = m.made + 1, count = 1 + draw(4), queue = some_queue();
    const int64_t delay_ms = draw(4) == 0 ? 500 : 0,
                  key = count == 1 && draw(3) == 0 ? 1 + draw(3) : 0;
    const int fate = draw(8); /* 0: rolled back, 1: unknown and not done, 2: unknown and done */

    if (m.n + count > JOBS) return;
    for (int i = 0; key && i < m.n; i++)
        if (m.jobs[i].key == key && m.jobs[i].state != ST_NONE) return;
    m.made += count;
    PUT(1, call, 'i', OP_enq, queue, first, count, key, delay_ms);
    m.commit++;
    for (int i = 0; fate > 1 && i < count; i++) {
        model_job *j = &m.jobs[m.n++];
        *j =
            (model_job){.id = ++m.position, .made = MADE(1, first + i), .key = key, .queue = queue};
        j->state = delay_ms ? ST_DELAYED : ST_READY;
        j->lane = 1;
        j->grp = queue == 6 ? 1 + draw(3) : queue == 9 ? 4 : 0;
        j->gate = queue < 6 || delay_ms ? 0 : gate_of(queue);
        j->weight = queue < 8 || draw(2) ? 1 : 1 + draw(6);
        if (j->gate) j->state = ST_DELAYED;
        TRUTH(OP_new, queue, j->id, (delay_ms > 0) + (j->gate > 0) * (1 + j->gate), delay_ms, 0,
              j->made, key, 1, j->grp, j->weight);
        j->until = m.t + delay_ms * 1000;
    }
    if (fate == 1 || fate == 2) {
        if (draw(2)) PUT(1, call, 'o', OP_enq, S_UNKNOWN);
    } else {
        PUT(1, call, 'o', OP_enq, fate ? S_OK : S_NOT);
    }
}

static void claim(void)
{
    static const int64_t sizes[] = {1, 7, 33};
    const int worker = 1 + draw(WORKERS), fate = draw(8);
    const int64_t call = ++m.calls, queue = some_queue(), max = sizes[draw(3)], mode = fate == 0;
    const int64_t nonce = (int64_t)m.dice >> 2;
    int64_t got = 0;

    PUT(10 + worker, call, 'i', OP_clm, queue, max, LEASE_MS, mode);
    m.commit += mode == 0;
    if ((queue == 6 || queue == 7) && mode == 0) admit(queue);
    if (queue >= 8 && mode == 0) admit_rated(queue, (int)max);
    for (int lane = 0; lane < 2; lane++)
        for (int i = 0; i < m.n && got < max; i++) {
            model_job *j = &m.jobs[i];
            if (j->state != ST_READY || j->queue != queue || j->lane != lane) continue;
            got++;
            if (mode) { /* rolled back: seen, and as if it had not been */
                PUT(10 + worker, call, 'e', OP_got, queue, j->id, (m.position + 1) * 32, nonce,
                    j->attempt + 1, j->made, 0);
                continue;
            }
            j->state = ST_LEASED, j->attempt++, j->number = ++m.position * 32 + lane,
            j->nonce = nonce;
            TRUTH(OP_lea, queue, j->id, j->number, nonce, j->attempt, LEASE_MS, lane, LIMIT);
            j->until = m.t + LEASE_MS * 1000, j->worker = fate == 1 ? 0 : worker;
        }
    for (int i = 0; i < m.n && mode == 0 && fate != 1; i++) {
        const model_job *j = &m.jobs[i];
        if (j->state == ST_LEASED && j->nonce == nonce)
            PUT(10 + worker, call, 'e', OP_got, queue, j->id, j->number, nonce, j->attempt, j->made,
                LEASE_MS);
    }
    if (fate == 1) return; /* the answer is lost */
    PUT(10 + worker, call, 'o', OP_clm, mode ? S_NOT : got ? S_OK : S_EMPTY, got);
}

static void over(model_job *j)
{
    if (m.stales < JOBS) {
        m.stale[m.stales].number = j->number, m.stale[m.stales].nonce = j->nonce;
        m.stale[m.stales].job = j->id, m.stale[m.stales++].queue = j->queue;
    }
}

/* A holder ends its lease, by this verb. */
static void finish(model_job *j, enum op op)
{
    const int proc = 10 + j->worker;
    const int64_t call = ++m.calls, delay_ms = op == OP_fai || op == OP_snz ? 200 : 0;
    const bool lost = draw(8) == 0;

    if (draw(3) == 0) {
        const int64_t c = ++m.calls;
        PUT(proc, c, 'i', OP_eff, j->id, j->number, j->nonce);
        PUT(2, 0, 'e', OP_snk, j->id, j->number, j->nonce, 1);
        PUT(proc, c, 'o', OP_eff, S_OK);
    }
    PUT(proc, call, 'i', op, j->queue, j->id, j->number, j->nonce, op == OP_don ? 1 : delay_ms);
    m.commit++;
    if (op == OP_rel || op == OP_snz) j->attempt--;
    if (op == OP_don) {
        TRUTH(OP_gon, j->queue, j->id, j->number, j->nonce, j->attempt, ST_LEASED);
        j->state = ST_NONE, m.counted++;
    } else if (op == OP_ded || (op == OP_fai && j->attempt >= LIMIT)) {
        TRUTH(OP_dea, j->queue, j->id, j->number, j->nonce, j->attempt, 0, 0, LIMIT);
        j->state = ST_DEAD;
    } else if (op == OP_rel) {
        TRUTH(OP_rdy, j->queue, j->id, j->number, j->nonce, j->attempt, 0, 1, LIMIT);
        j->state = ST_READY, j->lane = 1;
    } else {
        TRUTH(OP_dly, j->queue, j->id, j->number, j->nonce, j->attempt, delay_ms, 0, LIMIT);
        j->state = ST_DELAYED, j->until = m.t + delay_ms * 1000;
        j->kept = j->grp == 1 || j->grp == 2;
    }
    if (!lost)
        PUT(proc, call, 'o', op, S_OK);
    else if (draw(2))
        PUT(proc, call, 'o', op, S_UNKNOWN);
    over(j);
}

/* A reaper: expired leases, and delayed jobs that are due. */
static void reap(void)
{
    m.commit++;
    for (int i = 0; i < m.n; i++) {
        model_job *j = &m.jobs[i];
        if (j->until > m.t) continue;
        if (j->state == ST_LEASED && j->attempt >= LIMIT) {
            TRUTH(OP_dea, j->queue, j->id, j->number, j->nonce, j->attempt, 0, 0, LIMIT);
            j->state = ST_DEAD;
            over(j);
        } else if (j->state == ST_LEASED) {
            TRUTH(OP_rdy, j->queue, j->id, j->number, j->nonce, j->attempt, 0, 0, LIMIT);
            j->state = ST_READY, j->lane = 0;
            over(j);
        } else if (j->state == ST_DELAYED && j->gate) {
            continue;
        } else if (j->state == ST_DELAYED && j->queue >= 6 && !j->kept) {
            j->gate = gate_of(j->queue);
            TRUTH(OP_dly, j->queue, j->id, 0, 0, j->attempt, 0, j->gate, LIMIT);
        } else if (j->state == ST_DELAYED) {
            j->kept = false;
            TRUTH(OP_rdy, j->queue, j->id, 0, 0, j->attempt, 0, 1, LIMIT);
            j->state = ST_READY, j->lane = 1;
        }
    }
    admit(6);
    admit(7);
    admit_rated(8, !any_ready(8));
    admit_rated(9, 1);
}

static void work(void)
{
    static const enum op verbs[] = {OP_don, OP_don, OP_don, OP_don, OP_fai, OP_ded, OP_rel, OP_snz};
    const int from = m.n ? draw(m.n) : 0;
    for (int k = 0; k < m.n; k++) {
        model_job *j = &m.jobs[(from + k) % m.n];
        if (j->state != ST_LEASED || j->worker == 0) continue;
        if (draw(4) == 0) {
            const int64_t call = ++m.calls;
            PUT(10 + j->worker, call, 'i', OP_ext, j->queue, j->id, j->number, j->nonce, LEASE_MS);
            m.commit++;
            TRUTH(OP_len, j->queue, j->id, j->number, j->nonce, j->attempt, LEASE_MS);
            j->until = m.t + LEASE_MS * 1000;
            PUT(10 + j->worker, call, 'o', OP_ext, S_OK);
        } else {
            finish(j, verbs[draw(8)]);
        }
        return;
    }
}

static void come_late(void)
{
    if (!m.stales) return;
    const int i = draw(m.stales);
    const int64_t call = ++m.calls;
    PUT(15, call, 'i', OP_don, m.stale[i].queue, m.stale[i].job, m.stale[i].number,
        m.stale[i].nonce);
    PUT(15, call, 'o', OP_don, draw(2) ? S_STALE : S_GONE);
}

static void redrive(void)
{
    const int64_t call = ++m.calls;
    PUT(3, call, 'i', OP_red, 1);
    m.commit++;
    for (int i = 0; i < m.n; i++) {
        model_job *j = &m.jobs[i];
        if (j->state != ST_DEAD || j->queue != 1) continue;
        j->state = ST_READY, j->attempt = 0, j->lane = 1, j->key = 0;
        TRUTH(OP_rdy, 1, j->id, 0, 0, 0, 0, 1, LIMIT);
    }
    PUT(3, call, 'o', OP_red, S_OK);
}

static void coordinate(void)
{
    const int who = 20 + draw(3), lock = draw(3);
    const int64_t a = ++m.calls, b = ++m.calls, shared = draw(3) == 0;
    switch (draw(4)) {
    case 0:
        PUT(who, a, 'i', OP_lck, lock, shared, 1000);
        PUT(who, a, 'o', OP_lck, S_OK, ++m.fence[lock]);
        PUT(who, b, 'i', OP_ulk, lock, shared);
        PUT(who, b, 'o', OP_ulk, S_OK);
        break;
    case 1: /* all of them at once, and then somebody who gets none */
        for (int i = 0; i < PERMITS; i++) {
            m.calls++;
            PUT(who + i, m.calls, 'i', OP_sem, 0, 1, 500, 0);
            PUT(who + i, m.calls, 'o', OP_sem, S_OK, ++m.permit);
        }
        PUT(30, b, 'i', OP_sem, 0, 1, 500, 0);
        PUT(30, b, 'o', OP_sem, S_LOCKED, 0);
        for (int i = 0; i < PERMITS; i++) {
            m.calls++;
            PUT(who + i, m.calls, 'i', OP_srl, 0, 1, 500, 0, m.permit - PERMITS + 1 + i);
            PUT(who + i, m.calls, 'o', OP_srl, S_OK);
        }
        break;
    case 2:
        PUT(who, 0, 'e', OP_tic, 0, ++m.slot * 1000000, m.slot);
        PUT(who, a, 'i', OP_tfi, 0, m.slot * 1000000, m.slot);
        PUT(who, a, 'o', OP_tfi, S_OK);
        break;
    default:
        PUT(who, a, 'i', OP_row, 1, 500);
        PUT(who, a, 'e', OP_rgt, lock, ++m.row_number[lock], 500);
        PUT(who, a, 'o', OP_row, S_OK);
        PUT(who, b, 'i', OP_rfi, lock, m.row_number[lock]);
        PUT(who, b, 'o', OP_rfi, S_OK);
    }
}

static void tick(void)
{
    static int64_t slot = 1700000000;
    m.commit++;
    if (m.n == JOBS) return;
    model_job *j = &m.jobs[m.n++];
    *j = (model_job){.id = ++m.position, .made = -++slot, .queue = 4, .state = ST_READY, .lane = 1};
    TRUTH(OP_new, 4, j->id, 0, 0, 0, j->made, 0, 1);
    m.commit++; /* and soon done */
    j->number = ++m.position * 32 + 1, j->nonce = 7, j->attempt = 1;
    TRUTH(OP_lea, 4, j->id, j->number, 7, 1, LEASE_MS, 1, LIMIT);
    PUT(16, 0, 'e', OP_got, 4, j->id, j->number, 7, 1, j->made, 0);
    const int64_t call = ++m.calls;
    PUT(16, call, 'i', OP_don, 4, j->id, j->number, 7);
    m.commit++;
    TRUTH(OP_gon, 4, j->id, j->number, 7, 1, ST_LEASED);
    PUT(16, call, 'o', OP_don, S_OK);
    j->state = ST_NONE;
}

static bool unfinished(void)
{
    for (int i = 0; i < m.n; i++)
        if (m.jobs[i].state != ST_NONE && m.jobs[i].state != ST_DEAD) return true;
    return false;
}

void model_history(history *h, uint64_t seed, int steps, bool clock)
{
    memset(&m, 0, sizeof(m));
    m.h = h, h->n = 0;
    m.dice = seed * 0x9e3779b97f4a7c15u + 1, m.t = 1000000000;
    for (int i = 0; i < 10; i++) draw(2);
    begin_groups();
    for (int i = 0; i < steps; i++) {
        m.t += draw(200000);
        if (clock && draw(20) == 0) set_clock();
        switch (draw(15)) {
        case 13: take_some(); break;
        case 12: draw(3) ? keep_groups() : keep_rate(); break;
        case 0:
        case 1: add_jobs(); break;
        case 2:
        case 3: claim(); break;
        case 14:
        case 4: reap(); break;
        case 5: come_late(); break;
        case 6: coordinate(); break;
        case 7: tick(); break;
        case 8: redrive(); break;
        default: work();
        }
    }
    m.commit++;
    for (int grp = 1; grp < 4; grp++) m.held[grp] = 0, say_limit(grp);
    while (unfinished()) {
        m.t += 150000;
        claim();
        work();
        work();
        reap();
    }
    PUT(9, 0, 'e', OP_fin, 0);
    PUT(9, 0, 'e', OP_end, 0, m.counted);
    history_sort(h);
}
