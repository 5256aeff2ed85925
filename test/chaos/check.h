/* SPDX-License-Identifier: PostgreSQL
 *
 * check.h: the checker. Its parts share what is known of jobs, of leases, and of calls; each takes
 * a time that is linear in the history, except for the sort.
 */
#ifndef CHAOS_CHECK_H
#define CHAOS_CHECK_H

#include "hist.h"
#include <stdbool.h>

/* clang-format off */
#define RULES(XX)                                                                                  \
    XX(loss, "a job that was acknowledged is not there")                                           \
    XX(doubled, "a job is there twice")                                                            \
    XX(phantom, "a job is there that nobody has committed")                                        \
    XX(places, "a job is in two places at once")                                                   \
    XX(vanished, "a job is gone, and nobody has finished or deleted it")                           \
    XX(stuck, "a job did not come to its end")                                                     \
    XX(holders, "two leases of a job live at once")                                                \
    XX(claimed, "what a claim returned is not what was committed")                                 \
    XX(size, "a claim returned more than it was asked for")                                        \
    XX(token, "the number of a token did not grow")                                                \
    XX(stale, "a call was accepted that had to be refused")                                        \
    XX(refused, "a call was refused that had to be accepted")                                      \
    XX(outcome, "a call said that nothing was applied, but it was")                                \
    XX(moved, "a job was moved without a reason")                                                  \
    XX(attempts, "attempts are miscounted")                                                        \
    XX(letters, "a dead letter that should be none, or one that is missing")                       \
    XX(early, "a job was ready, or requeued, before its time")                                   \
    XX(unique, "two unfinished jobs have one unique key")                                          \
    XX(sink, "an effect was accepted or refused wrongly")                                          \
    XX(lock, "two hold a lock that excludes")                                                      \
    XX(fence, "the number of a lock did not grow")                                                 \
    XX(permits, "more permits are out than there are")                                             \
    XX(counter, "a counter has a wrong value")                                                     \
    XX(tick, "a tick came twice, or not at all")                                                   \
    XX(starved, "claims find nothing though a job is ready")                                       \
    XX(blocked, "a claim waited for others")                                                       \
    XX(passed, "a ready job was passed for too long")                                              \
    XX(reaped, "a job of an expired lease was not requeued in time")                                      \
    XX(due, "a delayed job was late")                                                              \
    XX(waited, "a lock was waited for too long")                                                   \
    XX(overdue, "a call took longer than its deadline")                                            \
    XX(limit, "more jobs of a group, or of a queue, are admitted than its limit")                  \
    XX(order, "a job was admitted before another that stood in front of it at its gate")           \
    XX(shut, "a job was admitted though its group is held, or stopped by a dead letter")           \
    XX(gated, "a job waits at its gate though its group, or its queue, has room")                  \
    XX(rate, "more than a rate allows")
/* clang-format on */

enum rule {
#define XX(name, text) R_##name,
    RULES(XX)
#undef XX
        R_COUNT
};

/* Microseconds */
#define SLACK   2000000 /* how wrong the time of a commit may be */
#define EARLY   60000   /* how much sooner than asked for a time may be over, as truth.c measures */
#define PATIENT 25000000 /* within which what is ready is claimed: claims are open for 20 s */
#define SOON    10000000 /* within which a reaper has done what is due */
#define WAITED \
    15000000 /* for a lock that others hold for moments; those who wait give up after 20 s */
#define DEADLINE \
    35000000 /* of a call: 20 s, after 5 s to connect; and for 8 s somebody may have stopped it */
#define PERMITS           3 /* of the semaphore */
#define QUEUES            13
#define DROPPED           5 /* the queue that is dropped now and then: what comes meanwhile may be lost */
#define FIRST_GROUPED     6        /* this queue and the later ones have groups */
#define OPEN              40000000 /* for so long a claim may stay open whose client is gone */
#define TICKS             4        /* the queue of a schedule's jobs */
#define TAKEN_N           20       /* a second, of each of the rates outside jobs */
#define TAKEN_BURST(rate) ((rate) ? 40 : 5)

typedef struct request { /* a call */
    const event *i, *o;  /* o NULL: never answered */
    int64_t status;      /* S_ */
} request;

typedef struct lease {
    int64_t job, number, nonce;
    const event *from, *end; /* end NULL: not over */
    const event *taken;      /* the claim that got it, as somebody says */
    int64_t until;           /* when it expires, by our clock */
    int64_t attempt, limit;
    bool accepted;         /* a call that ends it was accepted ... */
    bool maybe[OP_COUNT];  /* ... or may have been, of these */
    bool denied[OP_COUNT]; /* a call said that it was not applied */
    int64_t counter;       /* completed together with counter - 1 */
    bool counted;          /* for certain */
    const event *broken;   /* the call that ended it */
} lease;

typedef struct job {
    int64_t id, made, key, queue, state, number, attempt, lane, since, due;
    int64_t claimed, believed; /* from when and until when a holder believes to hold it */
    lease *held;
    bool cancelled, returned;
    int64_t serial; /* of its place in a line of ready jobs */
} job;

/* A hash table from a number to what belongs to it */
typedef struct map {
    struct {
        int64_t key;
        void *value;
    } * slots;
    size_t size, used;
} map;
void **map_at(map *m, int64_t key); /* the place of a key, which is made when it is not there */
void *map_get(const map *m, int64_t key);
int64_t pair_key(int64_t a, int64_t b); /* as good as unique: the first is mixed over all bits */
void map_free(map *m, bool values);

typedef struct span {
    int64_t from, to, what;
} span;
typedef struct spans {
    span *s;
    size_t n;
} spans;

typedef struct check {
    const history *h;
    const event **truth; /* in the order of commits */
    size_t truths;
    request *calls;
    size_t called;
    map by_call, jobs, leases, made;
    spans windows, admin[QUEUES]; /* admin: pur, drp, red, res, unb; pau, too */
    const event *calm, *fin;
    size_t count[R_COUNT], shown;
    bool quiet;
} check;

/* Notes that a rule is broken: of the job `id` (0: none), as these events show (either may be
 * NULL). */
void broken(check *c, enum rule rule, int64_t id, const event *a, const event *b);
/* Does a window lie within from .. to? And one in which the server's clock was set? */
bool disturbed(const check *c, int64_t from, int64_t to);
bool clock_set(const check *c, int64_t from, int64_t to);
/* Was a call of this kind for this queue under way within from .. to? */
bool administered(const check *c, int64_t queue, enum op op, int64_t from, int64_t to);
lease *lease_of(const check *c, int64_t id, int64_t number);
#define CALL_KEY(proc, call) ((int64_t)(proc) << 40 | (call))

/* The rate of a gate, and what has passed there; check_rate.c. */
typedef struct pace {
    int64_t n, per_ms, burst; /* n <= 0: none */
    int64_t changed;          /* when */
    int64_t commit, last;     /* the last transaction that has passed jobs, and when */
    bool windows, judged;     /* there is one; and it goes on in that transaction */
    int64_t taken;            /* since windows begin, in ns */
    int64_t least;            /* of all of them: what was taken before, less when it began */
    int64_t full;             /* when all of the burst is there again, at the latest */
} pace;
void pace_set(pace *p, const int64_t rate[3], int64_t t);
bool pace_same(const pace *p, const int64_t rate[3]);
int64_t pace_span(const pace *p); /* in which the burst comes back */
/* A job has passed in the transaction of `e`, which began at `from`. False: more than allowed. */
bool pace_pass(const check *c, pace *p, int64_t weight, int64_t from, const event *e);
void check_takes(check *c); /* those outside jobs */

void check_truth(check *c); /* check_job.c: what the server's log says by itself */
void check_calls(check *c); /* what was answered, against it */
void check_live(check *c);  /* check_live.c */
void check_group(check *c); /* check_group.c: limits, order and liveness of groups */
void check_other(check *c); /* check_other.c: locks, permits, counters, ticks, rows */

/* Reads the calls of a history. check_history() does this first. */
void check_frame(check *c, const history *h);
/* All of it. Returns how many rules were broken; count[] says which. */
size_t check_history(check *c, const history *h);
void check_free(check *c);

#endif
