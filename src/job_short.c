/* job_short: the short way of small claims one upon another, as claim_batch() has it, by two plain
 * statements and without a function around them: to start that costs more than some jobs do.
 *
 *   claim_batch() fills the hands --> look: what it has left in the session, good for some ms
 *         ^                              |
 *         |                              v
 *         +-- too late, changed, less -- two statements, in one transaction and on one trip
 *
 * It writes the tables, so it is for the role that owns them; to all others the function does the
 * same. What it claims that would claim, too, and what it leaves undone is left to that:
 * doc/decisions/0013-the-owners-short-way.md. */
#include "job.h"

#include <string.h>

#include "ask.h"
#include "backoff.h"
#include "check.h"
#include "clock.h"
#include "mem.h"
#include "name.h"

#define SHORT_LANES       20
#define SHORT_SPREAD      1000  /* places from the first job that is done to the last one */
#define SHORT_REACH       8     /* times as far as it was to the last job ... */
#define SHORT_REACH_LEAST 64    /* ... and so many places more */
#define SHORT_MOST_MS     1200  /* it is good for no longer, whatever the clocks say */
#define SHORT_PATIENCE    4     /* looks in vain ... */
#define SHORT_REST_US     50000 /* ... and then none for so long */

/* columns of job_short_look.sql */
enum {
    LOOK_ID,
    LOOK_VERSION,
    LOOK_LEASE_MS,
    LOOK_MAX_ATTEMPTS,
    LOOK_LEFT_MS,
    LOOK_WAY, /* [4]: who drew places up to there is through; from [5] on the marks */
    LOOK_SUSPECTS
};
#define SHORT_WAY_MARKS   4
/* columns of job_short_claim.sql: when the lease ends, and how long it is if the job says so */
#define SHORT_LEASE_UNTIL 10
#define SHORT_LEASE_MS    11

typedef struct short_way {
    char queue[PGW__QUEUE_MAX + 1];
    uint64_t epoch; /* of the session that the rest is about */
    enum { SHORT_UNASKED, SHORT_OWNED, SHORT_REFUSED } rights;
    bool suspects;    /* may wait there */
    bool filled;      /* the last claim by the function got all that it was asked for */
    int vain;         /* looks, one upon another */
    int64_t again_us; /* no look before */
    int64_t until_us; /* from here on a look is due; 0: it is */
    int64_t id, lease_ms, through, marks[SHORT_LANES];
    int max_attempts, lanes;
    int64_t reach;  /* the next jobs are expected within so many places ... */
    int reach_lane; /* ... in this lane, that of the last job */
    char version[16];
} short_way;

static const pgw__job_column short_columns[] = {
    PGW__JOB_QUEUE,        PGW__JOB_ID,      PGW__JOB_TOKEN,       PGW__JOB_ATTEMPT,
    PGW__JOB_MAX_ATTEMPTS, PGW__JOB_KIND,    PGW__JOB_PAYLOAD,     PGW__JOB_BODY,
    PGW__JOB_TAGS,         PGW__JOB_CREATED, PGW__JOB_LEASE_UNTIL, PGW__JOB_END,
};

/* ---- where it can begin ---- */

static bool short_is_small(const pgw *h, const pgw_claim_opts *o)
{
    return o->queues_count == 1 && o->max <= PGW__SHORT_JOBS && pgw__pq_keeps_plans(h);
}

void pgw__short_note(pgw *h, const pgw_claim_opts *o, const pgw_batch *batch)
{
    short_way *w;

    if (!short_is_small(h, o)) return;
    w = pgw__pq_kept(h, PGW__KEPT_SHORT);
    if (w == NULL) {
        w = pgw__mem_zero(1, sizeof(*w));
        if (w == NULL) return;
        pgw__pq_keep(h, PGW__KEPT_SHORT, w, pgw__mem_free);
    }
    if (w->epoch != pgw__pq_epoch(h)) {
        w->epoch = pgw__pq_epoch(h);
        w->rights = SHORT_UNASKED;
        w->again_us = 0;
    }
    w->filled = pgw_batch_count(batch) == (size_t)o->max;
    w->until_us = 0;
}

typedef struct short_looking {
    short_way *way;
} short_looking;

static pgw_status short_read_look(pgw *h, const pgw__rows *rows, void *ctx)
{
    short_way *w = ((const short_looking *)ctx)->way;
    const int64_t left_ms = pgw__rows_count(rows) > 0 ? pgw__rows_int(rows, 0, LOOK_LEFT_MS) : -1;
    pgw__items items;
    pgw__bytes item;
    const char *version;
    size_t size;

    if (left_ms < 0 || left_ms > SHORT_MOST_MS) return PGW_EMPTY;
    version = pgw__rows_text(rows, 0, LOOK_VERSION, &size);
    w->lanes = pgw__rows_items(rows, 0, LOOK_WAY, &items) - SHORT_WAY_MARKS;
    if (w->lanes < 1 || w->lanes > SHORT_LANES || version == NULL || size >= sizeof(w->version))
        return PGW_EMPTY;
    memcpy(w->version, version, size + 1);
    w->id = pgw__rows_int(rows, 0, LOOK_ID);
    w->lease_ms = pgw__rows_int(rows, 0, LOOK_LEASE_MS);
    w->max_attempts = (int)pgw__rows_int(rows, 0, LOOK_MAX_ATTEMPTS);
    w->suspects = pgw__rows_int(rows, 0, LOOK_SUSPECTS) != 0;
    for (int i = 0; pgw__items_next(&items, &item); i++) {
        if (i == SHORT_WAY_MARKS - 1) w->through = pgw__item_int(&item);
        if (i >= SHORT_WAY_MARKS) w->marks[i - SHORT_WAY_MARKS] = pgw__item_int(&item);
    }
    /* to the end of its last ms: then the function goes the long way, which renews it */
    w->until_us = pgw__pq_sent_us(h) + (left_ms + 1) * 1000;
    w->reach = 0;
    return PGW_OK;
}

static pgw_status short_look(pgw *h, short_way *w, const char *queue)
{
    const short_looking ctx = {w};
    const pgw__param params[] = {P_TEXT(w->queue), P_END};
    const pgw__call call = {.sql = PGW__SQL_JOB_SHORT_LOOK,
                            .params = params,
                            .read = short_read_look,
                            .ctx = &ctx,
                            .ctx_size = sizeof(ctx),
                            .flags = PGW__INDEXED};
    bool owner = false;
    pgw_status st = PGW_OK;

    if (w->rights == SHORT_UNASKED) {
        st = pgw__ask_flag(h, &owner, PGW__SQL_HANDLE_OWNER, NULL, 0);
        w->rights = owner ? SHORT_OWNED : SHORT_REFUSED;
    }
    if (st < 0 || w->rights != SHORT_OWNED) return st < 0 ? st : PGW_EMPTY;
    memcpy(w->queue, queue, strlen(queue) + 1);
    st = pgw__pq_call(h, &call);
    if (st != PGW_OK) w->until_us = 0; /* it was read, and is not to be believed */
    return st;
}

/* Is what is known good for this claim, or can it be had? The answer may be an error of a look. */
static pgw_status short_begin(pgw *h, short_way *w, const char *queue)
{
    const int64_t now = pgw__clock_us();
    pgw_status st;

    if (w->epoch != pgw__pq_epoch(h)) return PGW_EMPTY;
    if (now < w->until_us) return strcmp(w->queue, queue) == 0 ? PGW_OK : PGW_EMPTY;
    if (!w->filled || w->rights == SHORT_REFUSED || now < w->again_us) return PGW_EMPTY;
    w->filled = false; /* once */
    st = short_look(h, w, queue);
    w->vain = st == PGW_OK ? 0 : w->vain + 1;
    if (w->vain >= SHORT_PATIENCE) w->again_us = now + SHORT_REST_US;
    return st;
}

/* ---- what was claimed together ---- */

static int64_t short_place(pgw_token token)
{
    return (int64_t)(token.number >> 5);
}

static int short_lane(pgw_token token)
{
    return (int)(token.number & 31);
}

/* Rows of one lane, near one another, each with a place of its own, by which the answer tells of
 * it; first and last of their places. (A pack's number has a lane that no row has.) */
static bool short_lie_together(const pgw__done *done, int64_t *first, int64_t *last)
{
    const pgw_ref *const refs = done->refs;
    const size_t n = done->n;

    *first = *last = n > 0 ? short_place(refs[0].token) : 0;
    for (size_t i = 0; i < n; i++) {
        const int64_t place = short_place(refs[i].token);

        if (short_lane(refs[i].token) != short_lane(refs[0].token)) return false;
        for (size_t k = 0; k < i; k++)
            if (short_place(refs[k].token) == place) return false;
        if (place < *first) *first = place;
        if (place > *last) *last = place;
    }
    return n == 0 || (short_lane(refs[0].token) < SHORT_LANES && *last - *first < SHORT_SPREAD);
}

/* From where to where a claim looks, by lane. What was claimed is a fresh mark: nothing is expected
 * before it, but by who drew places later than `through`. In the lane that is just worked off the
 * next jobs are near; if they are not, the function finds them. */
static void short_marks(const short_way *w, int64_t *marks, int64_t *tos, const pgw__done *done,
                        int64_t first)
{
    const int64_t place = first - 1 < w->through ? first - 1 : w->through;

    for (int i = 0; i < w->lanes; i++) {
        const int lane = (int)(w->marks[i] & 31);

        marks[i] = w->marks[i];
        if (done->n > 0 && lane <= short_lane(done->refs[0].token) && marks[i] >> 5 < place)
            marks[i] = place * 32 + lane;
        tos[i] = w->reach > 0 && lane == w->reach_lane ? (marks[i] >> 5) + w->reach : INT64_MAX;
    }
}

/* How far it was from the mark to the last job. */
static void short_learn_reach(short_way *w, const int64_t *marks, const pgw_batch *batch)
{
    const pgw_token last = batch->jobs[batch->count - 1].ref.token;

    for (int i = 0; i < w->lanes; i++)
        if ((int)(marks[i] & 31) == short_lane(last)) {
            w->reach_lane = short_lane(last);
            w->reach = SHORT_REACH * (short_place(last) - (marks[i] >> 5)) + SHORT_REACH_LEAST;
        }
}

/* ---- the claim ---- */

typedef struct short_ctx {
    pgw__short *out;
    const short_way *way;
    const pgw__done *done;
    int max;
    int64_t lease_ms;
} short_ctx;

static bool short_is_before(pgw_token a, pgw_token b)
{
    return short_lane(a) != short_lane(b) ? short_lane(a) < short_lane(b)
                                          : short_place(a) < short_place(b);
}

/* The server updates rows in the order in which they lie on the disk, and says of them only what
 * is not known. */
static void short_complete_jobs(pgw_batch *batch, const short_way *w)
{
    for (size_t i = 0; i < batch->count; i++) {
        pgw_job job = batch->jobs[i];
        size_t at = i;

        if (job.ref.id == 0) job.ref.id = short_place(job.ref.token);
        if (job.max_attempts == 0) job.max_attempts = w->max_attempts;
        job.priority = short_lane(job.ref.token) / 2;
        for (; at > 0 && short_is_before(job.ref.token, batch->jobs[at - 1].ref.token); at--)
            batch->jobs[at] = batch->jobs[at - 1];
        batch->jobs[at] = job;
    }
}

static void short_read_gone(const short_ctx *in, const pgw__rows *gone)
{
    for (int row = 0; gone != NULL && row < pgw__rows_count(gone); row++)
        for (size_t i = 0; i < in->done->n; i++)
            if (short_place(in->done->refs[i].token) == pgw__rows_int(gone, row, 0))
                in->out->gone[i] = true;
}

static pgw_status short_read(pgw *h, const pgw__rows *rows, void *ctx)
{
    const short_ctx *in = ctx;
    const int count = pgw__rows_count(rows);
    int64_t own_ms;
    pgw_status st;

    if (in->done->n == 1)
        in->out->gone[0] = pgw__rows_before_affected(rows) == 1;
    else
        short_read_gone(in, pgw__rows_before(rows));
    if (count == 0) return PGW_OK;
    st = pgw__job_batch(&in->out->batch, rows, 0, count, short_columns);
    if (st != PGW_OK) return pgw__pq_fail(h, st, NULL, NULL);
    in->out->batch->since_us = pgw__pq_sent_us(h);
    short_complete_jobs(in->out->batch, in->way);
    own_ms = pgw__rows_int(rows, 0, SHORT_LEASE_MS);
    pgw__pq_set_server_time(h, pgw__rows_time_us(rows, 0, SHORT_LEASE_UNTIL) -
                                   (own_ms > 0 ? own_ms : in->lease_ms) * 1000);
    return pgw__job_hand_over(h, &in->out->batch, in->max, rows);
}

static pgw_status short_claim(pgw *h, short_way *w, pgw__short *out, const pgw_claim_opts *o,
                              const pgw__done *done, int64_t first, int64_t last, unsigned flags)
{
    const int64_t lease_ms = o->lease_ms != 0 ? o->lease_ms : w->lease_ms;
    const short_ctx ctx = {out, w, done, o->max, lease_ms};
    const uint64_t nonce = pgw__random_u64();
    int64_t marks[SHORT_LANES] = {0}, tos[SHORT_LANES];
    const int lane = done->n > 0 ? short_lane(done->refs[0].token) : 0;
    const pgw__param fence[] = {
        P_INT4(w->id),
        P_VALUE(w->version),
        P_INT4(lane),
        P_INT8(first),
        P_INT8(last),
        P_ARRAY(UUID, done->columns.tokens, done->n),
        P_ARRAY(INT8, done->columns.ids, done->n),
        P_END,
    };
    const pgw__param fence_of_one[] = {
        P_INT4(w->id),
        P_VALUE(w->version),
        P_INT4(lane),
        P_INT8(first),
        P_UUID(done->n > 0 ? done->columns.tokens[0] : NULL),
        P_INT8(done->n > 0 ? done->columns.ids[0] : 0),
        P_END,
    };
    const pgw__call complete = {.sql = PGW__SQL_JOB_SHORT_COMPLETE, .params = fence};
    const pgw__call complete_one = {.sql = PGW__SQL_JOB_SHORT_COMPLETE_ONE, .params = fence_of_one};
    const pgw__param pick[] = {
        P_INT4(w->id),
        P_TEXT(w->queue),
        P_VALUE(w->version),
        P_ARRAY(INT8, marks, (size_t)w->lanes),
        P_ARRAY(INT8, tos, (size_t)w->lanes),
        P_BYTEA(&nonce, sizeof(nonce)),
        P_TEXT(o->holder),
        P_INT8(lease_ms),
        o->max > 1 ? (pgw__param)P_BOOL(w->through > 0) : (pgw__param)P_END,
        P_INT4(o->max),
        P_END,
    };
    const pgw__call call = {
        .sql = o->max > 1 ? PGW__SQL_JOB_SHORT_CLAIM : PGW__SQL_JOB_SHORT_CLAIM_ONE,
        .params = pick,
        .before = done->n > 1    ? &complete
                  : done->n == 1 ? &complete_one
                                 : NULL,
        .read = short_read,
        .ctx = &ctx,
        .ctx_size = sizeof(ctx),
        .flags = flags | PGW__INDEXED,
    };
    pgw_status st;

    short_marks(w, marks, tos, done, first);
    st = pgw__pq_call(h, &call);
    if (out->batch != NULL) short_learn_reach(w, marks, out->batch);
    return st;
}

/* After this nothing has happened, and the function can be asked. */
static bool short_is_undone(pgw_status st)
{
    return st != PGW_EUNKNOWN && st != PGW_ECONN && st != PGW_ECANCELED && st != PGW_ETIMEDOUT &&
           st != PGW_ENOMEM && st != PGW_EPROTO;
}

bool pgw__short_claim(pgw *h, pgw__short *out, const pgw_claim_opts *o, const pgw__done *done,
                      unsigned flags)
{
    int64_t first, last;
    short_way *w;

    memset(out, 0, sizeof(*out));
    if (done->n > PGW__SHORT_JOBS || !short_is_small(h, o) ||
        !short_lie_together(done, &first, &last))
        return false;
    w = pgw__pq_kept(h, PGW__KEPT_SHORT);
    if (w == NULL) return false;
    out->st = short_begin(h, w, o->queues[0]);
    if (out->st == PGW_OK) {
        out->st = short_claim(h, w, out, o, done, first, last, flags);
        out->more = o->max - (int)pgw_batch_count(out->batch);
        if (out->st != PGW_OK || out->more > 0) w->until_us = 0;
        /* a suspect is to come alone; who has something does not ask for more where there may be
         * one, as within the function */
        if (w->suspects && out->batch != NULL) out->more = 0;
    }
    if (out->st >= PGW_OK) return out->st == PGW_OK;
    if (!short_is_undone(out->st)) return true;
    if (out->st != PGW_ERETRY && out->st != PGW_ELOCKED) w->rights = SHORT_REFUSED;
    return false;
}
