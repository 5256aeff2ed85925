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

#define SHORT_LANES     20
#define SHORT_SPREAD    1000  /* places from the first job that is done to the last one */
#define SHORT_MOST_MS   1200  /* it is good for no longer, whatever the clocks say */
#define SHORT_PATIENCE  4     /* looks in vain ... */
#define SHORT_REST_US   50000 /* ... and then none for so long */
#define SHORT_LOOK_LEFT 4     /* columns of job_short_look.sql: how long it is good ... */
#define SHORT_LOOK_WAY  5     /* ... and the way: [4] who drew places up to there is through ... */
#define SHORT_WAY_MARKS 4     /* ... and from [5] on the marks */

#define SHORT_SERVER_TIME 11 /* of job_short_claim.sql, behind the columns of the job */

typedef struct short_way {
    char queue[PGW__QUEUE_MAX + 1];
    uint64_t epoch; /* of the session that the rest is about */
    enum { SHORT_UNASKED, SHORT_OWNED, SHORT_REFUSED } rights;
    bool filled;      /* the last claim by the function got all that it was asked for */
    int vain;         /* looks, one upon another */
    int64_t again_us; /* no look before */
    int64_t until_us; /* from here on a look is due; 0: it is */
    int64_t id, lease_ms, through, marks[SHORT_LANES];
    int max_attempts, lanes;
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

static pgw_status short_read_look(pgw *h, const pgw__rows *rows, void *ctx)
{
    short_way *w = *(short_way **)ctx;
    const int64_t left_ms =
        pgw__rows_count(rows) > 0 ? pgw__rows_int(rows, 0, SHORT_LOOK_LEFT) : -1;
    pgw__items items;
    pgw__bytes item;
    const char *version;
    size_t size;

    if (left_ms < 0 || left_ms > SHORT_MOST_MS) return PGW_EMPTY;
    version = pgw__rows_text(rows, 0, 1, &size);
    w->lanes = pgw__rows_items(rows, 0, SHORT_LOOK_WAY, &items) - SHORT_WAY_MARKS;
    if (w->lanes < 1 || w->lanes > SHORT_LANES || version == NULL || size >= sizeof(w->version))
        return PGW_EMPTY;
    memcpy(w->version, version, size + 1);
    w->id = pgw__rows_int(rows, 0, 0);
    w->lease_ms = pgw__rows_int(rows, 0, 2);
    w->max_attempts = (int)pgw__rows_int(rows, 0, 3);
    for (int i = 0; pgw__items_next(&items, &item); i++) {
        if (i == SHORT_WAY_MARKS - 1) w->through = pgw__item_int(&item);
        if (i >= SHORT_WAY_MARKS) w->marks[i - SHORT_WAY_MARKS] = pgw__item_int(&item);
    }
    /* to the end of its last ms: then the function goes the long way, which renews it */
    w->until_us = pgw__pq_sent_us(h) + (left_ms + 1) * 1000;
    return PGW_OK;
}

static pgw_status short_look(pgw *h, short_way *w, const char *queue)
{
    const pgw__param params[] = {P_TEXT(queue), P_END};
    const pgw__call call = {.sql = PGW__SQL_JOB_SHORT_LOOK,
                            .params = params,
                            .read = short_read_look,
                            .ctx = &w,
                            .ctx_size = sizeof(w),
                            .flags = PGW__INDEXED};
    bool owner = false;
    pgw_status st = PGW_OK;

    if (w->rights == SHORT_UNASKED) {
        st = pgw__ask_flag(h, &owner, PGW__SQL_HANDLE_OWNER, NULL, 0);
        w->rights = owner ? SHORT_OWNED : SHORT_REFUSED;
    }
    if (st < 0 || w->rights != SHORT_OWNED) return st < 0 ? st : PGW_EMPTY;
    st = pgw__pq_call(h, &call);
    if (st == PGW_OK) memcpy(w->queue, queue, strlen(queue) + 1);
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

/* Rows of one lane, near one another; first and last of their places. (A pack's number has a lane
 * that no row has.) */
static bool short_lie_together(const pgw_ref *refs, size_t n, int64_t *first, int64_t *last)
{
    *first = *last = n > 0 ? short_place(refs[0].token) : 0;
    for (size_t i = 0; i < n; i++) {
        const int64_t place = short_place(refs[i].token);

        if (short_lane(refs[i].token) != short_lane(refs[0].token)) return false;
        if (place < *first) *first = place;
        if (place > *last) *last = place;
    }
    return n == 0 || (short_lane(refs[0].token) < SHORT_LANES && *last - *first < SHORT_SPREAD);
}

/* What was claimed is a fresh mark: nothing is expected before it, but by who drew places later
 * than `through`. */
static void short_marks(const short_way *w, int64_t *marks, const pgw_ref *refs, size_t n,
                        int64_t first)
{
    const int64_t place = first - 1 < w->through ? first - 1 : w->through;

    for (int i = 0; i < w->lanes; i++) {
        const int lane = (int)(w->marks[i] & 31);

        marks[i] = w->marks[i];
        if (n > 0 && lane <= short_lane(refs[0].token) && marks[i] >> 5 < place)
            marks[i] = place * 32 + lane;
    }
}

/* ---- the claim ---- */

typedef struct short_ctx {
    pgw_batch **batch;
    const short_way *way;
    const pgw_ref *refs;
    size_t n;
    bool *done;
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

static pgw_status short_read(pgw *h, const pgw__rows *rows, void *ctx)
{
    const short_ctx *in = ctx;
    const pgw__rows *gone = pgw__rows_before(rows);
    const int count = pgw__rows_count(rows);
    pgw_status st;

    for (int row = 0; gone != NULL && row < pgw__rows_count(gone); row++)
        for (size_t i = 0; i < in->n; i++)
            if (in->refs[i].id == pgw__rows_int(gone, row, 0)) in->done[i] = true;
    if (count == 0) return PGW_OK;
    st = pgw__job_batch(in->batch, rows, 0, count, short_columns);
    if (st == PGW_EPROTO)
        return pgw__ask_misfit(h, "a claim answered with jobs that lack something");
    if (st != PGW_OK) return pgw__pq_fail(h, st, NULL, NULL);
    (*in->batch)->since_us = pgw__pq_sent_us(h);
    short_complete_jobs(*in->batch, in->way);
    pgw__pq_set_server_time(h, pgw__rows_time_us(rows, 0, SHORT_SERVER_TIME));
    return PGW_OK;
}

static pgw_status short_claim(pgw *h, const short_way *w, pgw_batch **batch,
                              const pgw_claim_opts *o, const pgw_ref *refs,
                              const pgw__job_refs *columns, size_t n, int64_t first, int64_t last,
                              bool *done, unsigned flags)
{
    const short_ctx ctx = {batch, w, refs, n, done};
    const uint64_t nonce = pgw__random_u64();
    int64_t marks[SHORT_LANES];
    const pgw__param fence[] = {
        P_INT4(w->id),
        P_VALUE(w->version),
        P_INT4(n > 0 ? short_lane(refs[0].token) : 0),
        P_INT8(first),
        P_INT8(last),
        P_ARRAY(UUID, columns->tokens, n),
        P_ARRAY(INT8, columns->ids, n),
        P_END,
    };
    const pgw__call complete = {.sql = PGW__SQL_JOB_SHORT_COMPLETE, .params = fence};
    const pgw__param pick[] = {
        P_INT4(w->id),
        P_TEXT(w->queue),
        P_VALUE(w->version),
        P_ARRAY(INT8, marks, (size_t)w->lanes),
        P_BOOL(o->max > 1 && w->through > 0),
        P_INT4(o->max),
        P_BYTEA(&nonce, sizeof(nonce)),
        P_TEXT(o->holder),
        P_INT8(o->lease_ms != 0 ? o->lease_ms : w->lease_ms),
        P_END,
    };
    const pgw__call call = {
        .sql = PGW__SQL_JOB_SHORT_CLAIM,
        .params = pick,
        .before = n > 0 ? &complete : NULL,
        .read = short_read,
        .ctx = &ctx,
        .ctx_size = sizeof(ctx),
        .flags = flags | PGW__INDEXED,
    };

    short_marks(w, marks, refs, n, first);
    return pgw__pq_call(h, &call);
}

/* After this nothing has happened, and the function can be asked. */
static bool short_is_undone(pgw_status st)
{
    return st != PGW_EUNKNOWN && st != PGW_ECONN && st != PGW_ECANCELED && st != PGW_ETIMEDOUT &&
           st != PGW_ENOMEM && st != PGW_EPROTO;
}

bool pgw__short_claim(pgw *h, pgw_status *st, pgw_batch **batch, const pgw_claim_opts *o,
                      const pgw_ref *refs, const pgw__job_refs *columns, size_t n, bool *done,
                      unsigned flags)
{
    int64_t first, last;
    short_way *w;

    if (n > PGW__SHORT_JOBS || !short_is_small(h, o) || !short_lie_together(refs, n, &first, &last))
        return false;
    w = pgw__pq_kept(h, PGW__KEPT_SHORT);
    if (w == NULL) return false;
    *st = short_begin(h, w, o->queues[0]);
    if (*st == PGW_OK) {
        *st = short_claim(h, w, batch, o, refs, columns, n, first, last, done, flags);
        if (*st != PGW_OK || pgw_batch_count(*batch) < (size_t)o->max) w->until_us = 0;
    }
    if (*st >= PGW_OK) return *st == PGW_OK;
    if (!short_is_undone(*st)) return true;
    if (*st != PGW_ERETRY && *st != PGW_ELOCKED) w->rights = SHORT_REFUSED;
    return false;
}
