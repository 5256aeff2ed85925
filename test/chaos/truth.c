/* SPDX-License-Identifier: PostgreSQL
 *
 * truth.c: what the server's own log says about jobs: `chaos-truth PROC FOLDER DSN SLOT`. It reads
 * a slot of logical replication (test_decoding), so it sees each committed change, in the order of
 * commits, without a trigger or a query on the tables; and writes one event for each change of a
 * job's state. A transaction counts by what it changed in all. The time of an event is that of its
 * commit, by our clock.
 */
#include "hist.h"
#include "row.h"
#include <libpq-fe.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct place {
    int state; /* ST_ */
    int64_t queue, lane, pos, attempt, max_attempts, at_us;
    uint64_t number, nonce;
    int64_t runtime, gated;
} place;

typedef struct job {
    int64_t id, made, key, grp, weight;
    place was, is; /* before the transaction, and by now */
    int places;
    int touched;
} job;

static job **jobs; /* open addressing by id */
static size_t size = 1 << 16, used;
static job **touched;
static size_t touches, capacity;
static int64_t queues[1000],
    limits[1000];               /* by id in the database: number in the name, max_attempts */
static bool limited[100];       /* queues that have a gate of their own, by number */
static int64_t setting[100][8]; /* limits of groups and queues that this transaction has set */
static int settings_seen;
static uint64_t done_lsn;
static int64_t commits;

static job **find(int64_t id)
{
    size_t at = (size_t)id * 0x9e3779b97f4a7c15u >> 20 & (size - 1);
    while (jobs[at] && jobs[at]->id != id) at = (at + 1) & (size - 1);
    return &jobs[at];
}

static void grow(void)
{
    job **old = jobs;
    const size_t n = size;
    size *= 2;
    jobs = calloc(size, sizeof(*jobs));
    if (!jobs) abort();
    for (size_t i = 0; i < n; i++)
        if (old[i]) *find(old[i]->id) = old[i];
    free(old);
}

static job *touch(int64_t id)
{
    if (used > size / 2) grow();
    job **j = find(id);
    if (!*j) {
        *j = calloc(1, sizeof(job));
        if (!*j) abort();
        (*j)->id = id;
        used++;
    }
    if (!(*j)->touched) {
        if (touches == capacity) {
            capacity = capacity ? capacity * 2 : 1024;
            touched = realloc(touched, capacity * sizeof(*touched));
            if (!touched) abort();
        }
        touched[touches++] = *j;
        (*j)->touched = 1;
    }
    return *j;
}

static int64_t queue_of(int64_t id)
{
    return id > 0 && id < 1000 ? queues[id] : -1;
}

/* A row of table `state` comes (+1) or goes (-1), with all jobs in it. */
static void change(const row *r, int state, int by)
{
    const int64_t one = r->id ? r->id : r->pos;
    const int n = r->jobs ? r->jobs : 1;
    for (int i = 0; i < n; i++) {
        const int64_t id = r->jobs ? r->ids[i] : one;
        int gone = 0;
        for (int g = 0; g < r->gones; g++) gone |= r->gone[g] == id;
        if (gone) continue;
        job *j = touch(id);
        j->places += by;
        if (by < 0) {
            const int table = j->is.state == ST_LEASED ? ST_READY : j->is.state;
            if (table == state && j->is.pos == r->pos) j->is.state = ST_NONE;
            continue;
        }
        int proc, number;
        if (r->jobs)
            j->made = r->made[i];
        else if (sscanf(r->kind, "%d.%d", &proc, &number) == 2)
            j->made = MADE(proc, number);
        else if (r->slot)
            j->made = -(r->slot / 1000000);
        j->key = r->key;
        j->grp = r->grp;
        j->weight = r->weight ? r->weight : 1;
        j->is = (place){state == ST_READY && r->number ? ST_LEASED : state,
                        queue_of(r->queue),
                        state < ST_DELAYED ? r->lane : 2 * r->lane + 1,
                        r->pos,
                        r->attempt,
                        r->max_attempts ? r->max_attempts : limits[r->queue % 1000],
                        r->at_us,
                        r->number,
                        r->nonce,
                        r->runtime,
                        state == ST_DELAYED ? r->gated : 0};
    }
}

static void emit(const job *j, enum op op, int64_t number, int64_t nonce, int64_t a5, int64_t a6,
                 int64_t a7)
{
    const place *p = j->is.state ? &j->is : &j->was;
    hist_add(commits, 't', op, p->queue, j->id, number, nonce, p->attempt, a5, a6, a7,
             op == OP_new ? j->grp : p->runtime, op == OP_new ? j->weight : 0);
}

/* It has passed its gates, perhaps both, and perhaps it is leased in the same transaction. */
static void tell_admitted(const job *j)
{
    const bool two = limited[j->is.queue % 100];
    job then = *j;
    then.is.attempt -= j->is.state == ST_LEASED;
    if (two && j->was.gated == 1) emit(&then, OP_dly, 0, 0, 0, 2, j->is.max_attempts);
    emit(&then, OP_rdy, 0, 0, two ? 2 : 1, j->is.lane, j->is.max_attempts);
}

/* Writes how a transaction of this time has changed a job. */
static void tell(const job *j, int64_t commit_us)
{
    const place *a = &j->was, *b = &j->is;
    const int64_t old = a->state == ST_LEASED ? (int64_t)a->number : 0,
                  nonce = a->state == ST_LEASED ? (int64_t)a->nonce : 0,
                  left_ms = b->gated ? 0 : (b->at_us - commit_us) / 1000;

    if (j->places < 0 || j->places > 1) hist_add(commits, 't', OP_two, 0, j->id, j->places);
    if (a->state == ST_NONE && b->state != ST_NONE)
        emit(j, OP_new, (b->state == ST_DELAYED) + b->gated, b->state == ST_DELAYED ? left_ms : 0,
             j->made, j->key, b->lane);
    if (a->gated && (b->state == ST_READY || b->state == ST_LEASED)) tell_admitted(j);
    if (b->state == ST_LEASED) {
        if (a->state != ST_LEASED || a->number != b->number || a->nonce != b->nonce)
            emit(j, OP_lea, (int64_t)b->number, (int64_t)b->nonce, left_ms, b->lane,
                 b->max_attempts);
        else if (a->at_us != b->at_us)
            emit(j, OP_len, (int64_t)b->number, (int64_t)b->nonce, left_ms, 0, 0);
    } else if (b->state == ST_READY && a->state != ST_NONE) {
        if (!a->gated && (a->state != ST_READY || a->lane != b->lane))
            emit(j, OP_rdy, old, nonce, 0, b->lane, b->max_attempts);
    } else if (b->state == ST_DELAYED && a->state != ST_NONE) {
        if (a->state != ST_DELAYED || a->at_us != b->at_us || a->gated != b->gated)
            emit(j, OP_dly, old, nonce, left_ms, b->gated, b->max_attempts);
    } else if (b->state == ST_DEAD && a->state != ST_DEAD) {
        emit(j, OP_dea, old, nonce, 0, 0, b->max_attempts);
    } else if (b->state == ST_NONE && a->state != ST_NONE) {
        emit(j, OP_gon, old, nonce, a->state, 0, 0);
    }
}

static void note_setting(int64_t queue, int64_t grp, const int64_t limits_of[3],
                         const int64_t rate[3])
{
    const int64_t s[] = {queue,        grp,     limits_of[0], limits_of[1],
                         limits_of[2], rate[0], rate[1],      rate[2]};
    if (queue >= 0 && settings_seen < 100) memcpy(setting[settings_seen++], s, sizeof(s));
}

/* The end of a transaction; keep: it is a new one. */
static void commit(int keep, int64_t commit_us)
{
    commits += keep;
    for (int i = 0; keep && i < settings_seen; i++) {
        const int64_t *s = setting[i];
        hist_add(commits, 't', OP_lim, s[0], 0, s[1], s[2], s[3], s[4], s[5], s[6], s[7]);
        if (s[1] == -1) limited[s[0] % 100] = s[2] > 0 || s[5] > 0;
    }
    settings_seen = 0;
    for (size_t i = 0; i < touches; i++) {
        job *j = touched[i];
        if (keep) {
            tell(j, commit_us);
            j->was = j->is;
        } else {
            j->is = j->was;
            j->places = j->was.state != ST_NONE;
        }
        j->touched = 0;
    }
    touches = 0;
    hist_flush();
}

static void note_queue(const row *r)
{
    queues[r->id] = r->name[0] == 'q' ? atoll(r->name + 1) : -1;
    limits[r->id] = r->max_attempts;
    note_setting(queues[r->id], 0, (int64_t[]){r->group_limit, r->policy, 0}, r->group_rate);
    note_setting(queues[r->id], -1, (int64_t[]){r->queue_limit, 0, 0}, r->rate);
}

static void line(const char *text)
{
    static const struct {
        const char *name;
        int state;
    } tables[] = {{"pgwork.live_job: ", ST_READY},
                  {"pgwork.delayed_job: ", ST_DELAYED},
                  {"pgwork.dead_job: ", ST_DEAD},
                  {"pgwork.queue: ", ST_NONE},
                  {"pgwork.group_rule: ", ST_NONE}};
    static row r, z;

    if (strncmp(text, "table ", 6) != 0) return;
    text += 6;
    for (size_t i = 0; i < 5; i++) {
        const size_t n = strlen(tables[i].name);
        if (strncmp(text, tables[i].name, n) != 0) continue;
        const char *at = text + n;
        r = z;
        if (strncmp(at, "UPDATE: ", 8) == 0) {
            at += 8;
            if (strncmp(at, "old-key: ", 9) == 0) {
                at = row_read(&r, at + 9);
                if (tables[i].state) change(&r, tables[i].state, -1);
            } else if (tables[i].state > ST_READY) {
                row_read(&r, strncmp(at, "new-tuple: ", 11) == 0 ? at + 11 : at);
                change(&r, tables[i].state, -1);
            }
            at += strncmp(at, "new-tuple:", 10) == 0 ? 10 : 0;
        } else if (strncmp(at, "DELETE: ", 8) == 0) {
            row_read(&r, at + 8);
            if (tables[i].state) change(&r, tables[i].state, -1);
            if (i == 4) note_setting(queue_of(r.queue), r.grp, z.rate, z.rate);
            return;
        } else {
            at += 8; /* INSERT: */
        }
        row_read(&r, at);
        if (tables[i].state)
            change(&r, tables[i].state, 1);
        else if (i == 4)
            note_setting(queue_of(r.queue), r.grp, (int64_t[]){r.group_limit, r.policy, r.held},
                         r.rate);
        else if (r.id > 0 && r.id < 1000)
            note_queue(&r);
    }
}

static uint64_t big_endian(const char *p)
{
    uint64_t v = 0;
    for (int i = 0; i < 8; i++) v = v << 8 | (unsigned char)p[i];
    return v;
}

static int answer(PGconn *c, uint64_t lsn)
{
    char m[34] = {'r'};
    for (int f = 0; f < 3; f++)
        for (int i = 0; i < 8; i++) m[1 + f * 8 + i] = (char)(lsn >> (56 - 8 * i));
    return PQputCopyData(c, m, sizeof(m)) == 1 && PQflush(c) == 0;
}

/* -- whose clock says what -- */

enum { SETTINGS = 4096, NEAR = 300000 };
static struct { /* the server's clock is so far ahead of ours: since when, at the latest by when */
    int64_t ahead, since, by;
} settings[SETTINGS];
static int set; /* how often */

/* Asks for the server's clock, which somebody may have set since the last time. */
static void check_clock(const char *server)
{
    static PGconn *c;
    static int64_t last_check, again;
    if (!c || PQstatus(c) != CONNECTION_OK) {
        if (now_us() < again) return;
        PQfinish(c);
        c = PQconnectdb(server);
        again = now_us() + 1000000; /* what is there to read is read meanwhile */
    }
    const int64_t from = now_us();
    PGresult *res = PQexec(c, "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint");
    const int64_t to = now_us();
    if (PQresultStatus(res) == PGRES_TUPLES_OK) {
        const int64_t shown = strtoll(PQgetvalue(res, 0, 0), NULL, 10) - (from + to) / 2;
        const int64_t moved = set ? shown - settings[set - 1].ahead : INT64_MAX;
        const int64_t doubt = 2000000 + (to - from) / 2;
        if ((moved > doubt || moved < -doubt) && set < SETTINGS) {
            settings[set].since = set ? last_check : 0;
            settings[set].by = to;
            settings[set++].ahead = shown;
            fprintf(stderr, "chaos: at %lld us the server's clock was %lld us off\n",
                    (long long)from, (long long)(shown - settings[0].ahead));
        }
        last_check = from;
    }
    PQclear(res);
}

/* When a transaction was committed, by our clock: the first time that fits, since commits come in
 * their order. (After the clock was set back, the server has some times twice.) For a second after
 * a setting, some processes of the server go by the one before. */
static int64_t committed_at(int64_t now, int64_t commit_us)
{
    static int64_t last;
    static int at;
    int64_t then = set ? last : now; /* if none fits: as the commit before */
    for (int i = at ? at - 1 : 0; i < set; i++) {
        const int64_t t = commit_us - settings[i].ahead;
        if (t < last - NEAR || t < settings[i].since - NEAR || t > now + NEAR ||
            (i + 1 < set && t > settings[i + 1].by + 2000000))
            continue;
        then = t;
        if (at < i) at = i;
        break;
    }
    if (then > now) then = now;
    return last = then > last ? then : last;
}

static int message(PGconn *c, const char *m)
{
    if (m[0] == 'k') {
        const uint64_t end = big_endian(m + 1);
        if (touches == 0 && end > done_lsn && done_lsn) done_lsn = end;
        return m[17] ? answer(c, done_lsn) : 1;
    }
    if (m[0] != 'w') return 1;
    const uint64_t lsn = big_endian(m + 1);
    const char *text = m + 25, *at;
    if (strncmp(text, "COMMIT", 6) == 0 && (at = strstr(text, "(at ")) != NULL) {
        const int64_t commit_us = time_read(at + 4);
        const int again = lsn <= done_lsn; /* after a crash it begins with what we have had */
        if (!again) hist_at = committed_at(now_us(), commit_us), done_lsn = lsn;
        commit(!again, commit_us);
    } else {
        line(text);
    }
    return 1;
}

static void follow(PGconn *c, const char *slot, const char *server)
{
    char start[200];
    int64_t told = 0;
    snprintf(start, sizeof(start),
             "START_REPLICATION SLOT %s LOGICAL 0/0 (\"include-timestamp\" 'on', "
             "\"skip-empty-xacts\" 'on')",
             slot);
    check_clock(server);
    PGresult *res = PQexec(c, start);
    const int good = PQresultStatus(res) == PGRES_COPY_BOTH;
    PQclear(res);
    while (good) {
        char *m = NULL;
        const int n = PQgetCopyData(c, &m, 1);
        if (n < 0) break;
        if (n > 0) {
            const int ok = message(c, m);
            PQfreemem(m);
            if (!ok) break;
        } else {
            struct pollfd p = {.fd = PQsocket(c), .events = POLLIN};
            poll(&p, 1, 100);
            if (!PQconsumeInput(c)) break;
        }
        if (now_us() - told > 100000) {
            told = now_us();
            check_clock(server);
            if (done_lsn && !answer(c, done_lsn)) break;
        }
    }
    commit(0, 0);
}

int main(int argc, char **argv)
{
    char folder[300], dsn[500], clock_dsn[500];
    if (argc != 5) return 2;
    snprintf(folder, sizeof(folder), "%s/hist", argv[2]);
    snprintf(dsn, sizeof(dsn),
             "%s replication=database application_name=truth options='-c TimeZone=UTC'", argv[3]);
    /* A server that stops answers nobody until we have read everything: do not wait for it. */
    snprintf(clock_dsn, sizeof(clock_dsn), "%s application_name=truth connect_timeout=2", argv[3]);
    hist_open(folder, "truth", atoi(argv[1]));
    hist_proc = 0;
    jobs = calloc(size, sizeof(*jobs));
    if (!jobs) abort();
    for (;;) {
        PGconn *c = PQconnectdb(dsn);
        if (PQstatus(c) == CONNECTION_OK) follow(c, argv[4], clock_dsn);
        PQfinish(c);
        usleep(100000);
    }
}
