/* job: reads jobs from answers, and code that the verbs on jobs share. */
#include "queue/job.h"

#include <string.h>

#include "base/mem.h"
#include "base/name.h"
#include "base/token.h"
#include "call/ask.h"
#include "call/check.h"

size_t pgw_batch_count(const pgw_batch *batch)
{
    return batch != NULL ? batch->count : 0;
}

const pgw_job *pgw_batch_job(const pgw_batch *batch, size_t i)
{
    return batch != NULL && i < batch->count ? &batch->jobs[i] : NULL;
}

void pgw_batch_free(pgw_batch *batch)
{
    pgw__mem_free(batch);
}

/* ---- accessors ---- */

/* pgw_batch_job() returns NULL for a number that is too high: such a job has nothing. */
static const pgw_job *job_or_none(const pgw_job *job)
{
    static const pgw_job none;

    return job != NULL ? job : &none;
}

int64_t pgw_job_id(const pgw_job *job)
{
    return job_or_none(job)->ref.id;
}

pgw_ref pgw_job_ref(const pgw_job *job)
{
    return job_or_none(job)->ref;
}

const char *pgw_job_queue(const pgw_job *job)
{
    return job_or_none(job)->queue;
}

const char *pgw_job_kind(const pgw_job *job)
{
    return job_or_none(job)->kind;
}

const char *pgw_job_payload(const pgw_job *job)
{
    return job_or_none(job)->payload;
}

const char *pgw_job_meta(const pgw_job *job)
{
    return job_or_none(job)->meta;
}

bool pgw_job_payload_hidden(const pgw_job *job)
{
    return job_or_none(job)->hidden != 0;
}

int pgw_job_priority(const pgw_job *job)
{
    return job_or_none(job)->priority;
}

int pgw_job_attempt(const pgw_job *job)
{
    return job_or_none(job)->attempt;
}

int pgw_job_max_attempts(const pgw_job *job)
{
    return job_or_none(job)->max_attempts;
}

size_t pgw_job_tags_count(const pgw_job *job)
{
    return job_or_none(job)->tags_count;
}

int64_t pgw_job_created_us(const pgw_job *job)
{
    return job_or_none(job)->created_us;
}

int64_t pgw_job_lease_until_us(const pgw_job *job)
{
    return job_or_none(job)->lease_until_us;
}

pgw_state pgw_job_state(const pgw_job *job)
{
    pgw_state state = PGW_STATE_ANY;

    pgw_state_parse(job_or_none(job)->state, &state);
    return state;
}

const char *pgw_job_holder(const pgw_job *job)
{
    return job_or_none(job)->holder;
}

const char *pgw_job_error(const pgw_job *job)
{
    return job_or_none(job)->error;
}

const char *pgw_job_key(const pgw_job *job)
{
    return job_or_none(job)->key;
}

const char *pgw_job_group(const pgw_job *job)
{
    return job_or_none(job)->group;
}

const char *pgw_job_output(const pgw_job *job)
{
    return job_or_none(job)->output;
}

const char *pgw_job_progress(const pgw_job *job)
{
    return job_or_none(job)->progress;
}

int64_t pgw_job_run_at_us(const pgw_job *job)
{
    return job_or_none(job)->run_at_us;
}

int64_t pgw_job_expires_us(const pgw_job *job)
{
    return job_or_none(job)->expires_us;
}

int64_t pgw_job_finished_us(const pgw_job *job)
{
    return job_or_none(job)->finished_us;
}

const void *pgw_job_body(const pgw_job *job, size_t *size)
{
    if (size != NULL) *size = job_or_none(job)->body_size;
    return job_or_none(job)->body;
}

const char *pgw_job_tag(const pgw_job *job, size_t i)
{
    return job != NULL && i < job->tags_count ? job->tags[i] : NULL;
}

/* ---- code that the verbs share ---- */

pgw_status pgw__job_refs_make(pgw *h, pgw__job_refs *out, const pgw_ref *refs, size_t n)
{
    /* n is at most PGW__BATCH_MAX; at least one element, so that the arrays are empty and not NULL
     */
    char *block = pgw__mem_alloc((n + 1) * (sizeof(*out->ids) + sizeof(*out->tokens)));
    bool shared = n > 0;
    size_t i;

    out->ids = NULL;
    out->tokens = NULL;
    if (block == NULL) return pgw__pq_reject(h, PGW_ENOMEM, NULL, NULL);
    out->ids = (void *)block;
    out->tokens = (void *)(block + (n + 1) * sizeof(*out->ids));
    for (i = 0; i < n; i++) {
        out->ids[i] = refs[i].id;
        shared &= refs[i].token.number == refs[0].token.number &&
                  refs[i].token.nonce == refs[0].token.nonce;
        pgw__token_write(out->tokens[i], refs[i].token);
    }
    out->tokens_count = shared ? 1 : n;
    return PGW_OK;
}

pgw_status pgw__job_outcome(const pgw__rows *rows, int row, int col)
{
    static const struct {
        const char *word;
        pgw_status st;
    } map[] = {
        {"new", PGW_OK},
        {"exists", PGW_OUTCOME_EXISTS},
        {"replaced", PGW_OUTCOME_REPLACED},
        {"repeated", PGW_OUTCOME_REPEATED},
        {"ok", PGW_OK},
        {"cancel", PGW_OUTCOME_CANCEL},
        {"stale", PGW_ELEASE},
        {"locked", PGW_ELOCKED},
        {"gone", PGW_ENOTFOUND},
        {"cancelled", PGW_OK},
        {"requested", PGW_OUTCOME_CANCEL},
    };
    const char *word = pgw__rows_text(rows, row, col, NULL);
    size_t i;

    for (i = 0; word != NULL && i < sizeof(map) / sizeof(map[0]); i++) {
        if (strcmp(word, map[i].word) == 0) return map[i].st;
    }
    return PGW_EPROTO;
}

void pgw__job_refs_fill(pgw_ref *refs, size_t n, pgw_status st)
{
    if (refs == NULL || n > PGW__BATCH_MAX) return;
    for (size_t i = 0; i < n; i++) refs[i].outcome = st;
}

pgw_status pgw__job_verdict(pgw *h, pgw_ref *refs, size_t n, const pgw__rows *rows, int row,
                            int position, int word)
{
    const int64_t at = pgw__rows_int(rows, row, position);
    const pgw_status st = pgw__job_outcome(rows, row, word);

    if (at < 1 || at > (int64_t)n || st == PGW_EPROTO)
        return pgw__ask_misfit(h, "the answer has an unknown job or outcome");
    refs[at - 1].outcome = st;
    return st;
}

pgw_status pgw__job_deliver(pgw *h, pgw_batch **batch, int max, const pgw__rows *rows)
{
    if ((*batch)->count <= (size_t)max && !pgw__rows_misread(rows)) return PGW_OK;
    pgw_batch_free(*batch);
    *batch = NULL;
    return pgw__ask_misfit(h, "a claim returned more jobs than requested");
}
