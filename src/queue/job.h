/* job: jobs of an answer in one block of memory, and code that the verbs on them share. */
#ifndef PGW_JOB_H
#define PGW_JOB_H

#include <stddef.h>

#include "pgwork.h"
#include "pq/pq.h"

/* Every pointer leads into the block of the batch. */
struct pgw_job {
    pgw_ref ref;
    const char *queue, *kind, *payload, *meta, *state, *holder, *error, *key, *group, *output,
        *progress;
    const void *body;
    size_t body_size;
    const char *const *tags;
    size_t tags_count;
    int64_t created_us, lease_until_us, run_at_us, finished_us, expires_us;
    int priority, attempt, max_attempts;
    int quarantined; /* its last holder died */
    int hidden;      /* payload, output, meta and progress, from a viewer */
};

struct pgw_batch {
    size_t count;
    int64_t since_us; /* monotonic: their leases did not begin before */
    pgw_job jobs[];   /* then the pointers of the tags, then all bytes */
};

/* Which columns a statement returns, in their order; job_row.c maps them. */
typedef enum pgw__job_column {
    PGW__JOB_END,
    PGW__JOB_QUEUE,
    PGW__JOB_ID,
    PGW__JOB_TOKEN,
    PGW__JOB_STATE,
    PGW__JOB_KIND,
    PGW__JOB_PRIORITY,
    PGW__JOB_ATTEMPT,
    PGW__JOB_MAX_ATTEMPTS,
    PGW__JOB_HOLDER,
    PGW__JOB_LEASE_UNTIL,
    PGW__JOB_RUN_AT,
    PGW__JOB_CREATED,
    PGW__JOB_FINISHED,
    PGW__JOB_ERROR,
    PGW__JOB_KEY,
    PGW__JOB_TAGS,
    PGW__JOB_PAYLOAD,
    PGW__JOB_BODY,
    PGW__JOB_BODY_BYTES,
    PGW__JOB_OUTPUT,
    PGW__JOB_GROUP,
    PGW__JOB_EXPIRES,
    PGW__JOB_META,
    PGW__JOB_HIDDEN,
    PGW__JOB_PROGRESS,
    PGW__JOB_QUARANTINED,
    /* columns of a row with several jobs; IDS gives their number */
    PGW__JOB_IDS,
    PGW__JOB_KINDS,
    PGW__JOB_PAYLOADS,
    PGW__JOB_CREATEDS,
    PGW__JOB_COLUMNS
} pgw__job_column;

/* The columns of job_list(), as the statements that call it return them. */
extern const pgw__job_column pgw__job_listed[];

/* Copies a filter, and checks its fields. */
pgw_status pgw__check_filter(pgw *h, pgw_filter *mine, const pgw_filter *given);

/* The first ten parameters of a statement with a filter. */
#define PGW__FILTER_PARAMS(f)                                                                    \
    P_TEXT((f)->queue), P_TEXT((f)->state != PGW_STATE_ANY ? pgw_state_name((f)->state) : NULL), \
        P_TEXT((f)->kind), P_TEXT((f)->tag), P_TEXT((f)->key), P_TEXT((f)->group),               \
        P_TEXT((f)->holder), P_TEXT((f)->error),                                                 \
        P_TIME_OR_NULL((f)->created_from_us, (f)->created_from_us == 0),                         \
        P_TIME_OR_NULL((f)->created_to_us, (f)->created_to_us == 0)

/* Makes one block of the jobs in rows[first .. first + count). PGW_ENOMEM; PGW_EPROTO where a row's
 * arrays are not of one length. */
pgw_status pgw__job_batch(pgw_batch **batch, const pgw__rows *rows, int first, int count,
                          const pgw__job_column *columns);

/* Of a claim, when all of its rows has been read: frees it where there are more jobs than were
 * asked for, or a value was misread. PGW_EPROTO. */
pgw_status pgw__job_deliver(pgw *h, pgw_batch **batch, int max, const pgw__rows *rows);

/* Of a claim: its leases began at this time of our monotonic clock, or later. Time that the
 * statement waited at the server before, such as for a lock, does not count. */
int64_t pgw__batch_since_us(const pgw_batch *batch);

/* Of a claim: is it a job whose last holder died? The server returns such a job alone. */
bool pgw__batch_quarantined(const pgw_batch *batch);

/* The server's word for the outcome of a job ("new", "stale", ...); PGW_EPROTO for an unknown one.
 */
pgw_status pgw__job_outcome(const pgw__rows *rows, int row, int col);

/* Ids and tokens of refs as columns; one token where all share it, as jobs that were claimed
 * together may. One allocation, caller frees `ids` with pgw__mem_free. */
typedef struct pgw__job_refs {
    int64_t *ids;
    unsigned char (*tokens)[16];
    size_t tokens_count;
} pgw__job_refs;
pgw_status pgw__job_refs_make(pgw *h, pgw__job_refs *out, const pgw_ref *refs, size_t n);
/* All outcomes become `st`; NULL is fine, and more than a call can name are left alone. */
void pgw__job_refs_fill(pgw_ref *refs, size_t n, pgw_status st);

/* Stores progress, JSON or NULL, of n jobs of a queue. */
pgw_status pgw__job_progress(pgw *h, const char *queue, pgw_ref *refs, size_t n,
                             const char *const *progress);

/* What a row says about the job at a position of the input, from 1; the columns of both are given.
 * PGW_EPROTO. */
pgw_status pgw__job_verdict(pgw *h, pgw_ref *refs, size_t n, const pgw__rows *rows, int row,
                            int position, int word);

#endif
