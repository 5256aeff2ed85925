/* job_enqueue: one job, or many in one statement. */
#include "queue/job.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/name.h"
#include "call/ask.h"
#include "call/check.h"

static const char *const enqueue_scopes[] = {"unfinished", "ready",
                                             "period"}; /* by pgw_key_scope */
static const char *const enqueue_policies[] = {"skip", "replace", "error",
                                               "delay"}; /* by pgw_key_policy */

/* The words of key_replace; how many. */
static size_t enqueue_replaced(const char *words[4], int key_replace)
{
    static const char *const all[] = {"payload", "kind", "priority", "time"};
    size_t i, n = 0;

    for (i = 0; i < 4; i++)
        if (key_replace & 1 << i) words[n++] = all[i];
    return n;
}

/* A UUID in text into 16 bytes; *op becomes NULL when there is none. */
static pgw_status enqueue_op(pgw *h, unsigned char bytes[16], const unsigned char **op,
                             const char *argument, const char *text)
{
    *op = text != NULL ? bytes : NULL;
    if (text == NULL || pgw__uuid_parse(bytes, text) == NULL) return PGW_OK;
    return pgw__pq_refuse(h, argument, text, "a UUID as text, or NULL");
}

static size_t enqueue_max_bytes(const pgw *h)
{
    return (size_t)pgw__conf_int(pgw__pq_conf(h), "payload.max_bytes");
}

/* ---- one ---- */

typedef struct enqueue_one {
    int64_t *id;
} enqueue_one;

static pgw_status enqueue_one_read(pgw *h, const pgw__rows *rows, void *ctx)
{
    const enqueue_one *one = ctx;
    pgw_status st = pgw__ask_rows(h, rows, 1);

    if (st != PGW_OK) return st;
    st = pgw__job_outcome(rows, 0, 1);
    if (st == PGW_EPROTO) return pgw__ask_misfit(h, "an enqueue returned an unknown outcome");
    if (one->id != NULL) *one->id = pgw__rows_int(rows, 0, 0);
    return st;
}

pgw_status pgw_enqueue(pgw *h, const char *queue, const pgw_job_spec *job, int64_t *id)
{
    const enqueue_one ctx = {id};
    unsigned char uuid[16];
    const unsigned char *given_op;
    pgw_job_spec j;
    pgw_status st;

    if (id != NULL) *id = 0;
    st = pgw__check_queue(h, queue);
    if (st != PGW_OK) return st;
    st = pgw__check_new(h, &j, job, -1, enqueue_max_bytes(h));
    if (st != PGW_OK) return st;
    st = enqueue_op(h, uuid, &given_op, "job.op", j.op);
    if (st != PGW_OK) return st;
    {
        const char *replaced[4];
        const size_t n_replaced = enqueue_replaced(replaced, j.key_replace);
        const pgw__param params[] = {
            P_TEXT(queue),
            P_JSONB(j.payload),
            P_TEXT(j.kind != NULL ? j.kind : ""),
            P_BYTEA(j.body, j.body_size),
            P_INT4(j.priority),
            P_TIME_OR_NULL(j.run_at_us, j.run_at_us == 0),
            P_INT8_OR_NULL(j.delay_ms, j.delay_ms == 0),
            P_INT4_OR_NULL(j.max_attempts, j.max_attempts == PGW_DEFAULT),
            P_INT8_OR_NULL(j.lease_ms, j.lease_ms == PGW_DEFAULT),
            P_ARRAY(TEXT, j.tags_count > 0 ? j.tags : NULL, j.tags_count),
            P_TEXT(j.key),
            P_TEXT(enqueue_scopes[j.key_scope]),
            P_TEXT(enqueue_policies[j.key_policy]),
            P_INT8_OR_NULL(j.key_period_ms, j.key_period_ms == 0),
            P_UUID(given_op),
            P_TEXT(j.group),
            P_TIME_OR_NULL(j.expires_us, j.expires_us == 0),
            P_JSONB(j.meta),
            P_INT8_OR_NULL(j.ttl_ms, j.ttl_ms == PGW_UNLIMITED),
            P_ARRAY(TEXT, n_replaced > 0 ? replaced : NULL, n_replaced),
            P_END,
        };
        const pgw__call call = {
            .sql = PGW__SQL_JOB_ENQUEUE,
            .params = params,
            .read = enqueue_one_read,
            .ctx = &ctx,
            .ctx_size = sizeof(ctx),
            .flags = PGW__WRITES,
        };

        return pgw__pq_call(h, &call);
    }
}

/* ---- many: the jobs turned into columns; a column that no job uses is NULL ---- */

typedef struct enqueue_columns {
    size_t n;
    const char **payloads, **kinds, **keys, **tags, **groups, **metas;
    pgw__bytes *bodies;
    int64_t *run_ats, *delays, *leases, *expires, *ttls;
    int32_t *priorities, *attempts;
    size_t *tag_ats; /* where in tag_text the array of tags of job i begins */
    pgw__buf tag_text;
    /* operation id, scope, policy and period of the unique keys, and key_replace, are its */
    pgw_job_spec first;
    bool any_kind, any_body, any_priority, any_run_at, any_delay, any_attempts, any_lease, any_tags,
        any_key, any_group, any_expires, any_meta, any_ttl;
    void *block;
} enqueue_columns;

static pgw_status enqueue_columns_make(pgw *h, enqueue_columns *c, size_t n)
{
    char *at;

    memset(c, 0, sizeof(*c));
    c->n = n;
    pgw__buf_init(&c->tag_text, (size_t)1 << 30);
    c->block = pgw__mem_zero(n, 6 * sizeof(char *) + sizeof(pgw__bytes) + 5 * sizeof(int64_t) +
                                    sizeof(size_t) + 2 * sizeof(int32_t));
    if (c->block == NULL) return pgw__pq_reject(h, PGW_ENOMEM, NULL, NULL);
    /* from the widest elements to the narrowest, so that each array is aligned */
    at = c->block;
    c->bodies = (void *)at, at += n * sizeof(pgw__bytes);
    c->payloads = (void *)at, at += n * sizeof(char *);
    c->kinds = (void *)at, at += n * sizeof(char *);
    c->keys = (void *)at, at += n * sizeof(char *);
    c->tags = (void *)at, at += n * sizeof(char *);
    c->groups = (void *)at, at += n * sizeof(char *);
    c->metas = (void *)at, at += n * sizeof(char *);
    c->run_ats = (void *)at, at += n * sizeof(int64_t);
    c->delays = (void *)at, at += n * sizeof(int64_t);
    c->leases = (void *)at, at += n * sizeof(int64_t);
    c->expires = (void *)at, at += n * sizeof(int64_t);
    c->ttls = (void *)at, at += n * sizeof(int64_t);
    c->tag_ats = (void *)at, at += n * sizeof(size_t);
    c->priorities = (void *)at, at += n * sizeof(int32_t);
    c->attempts = (void *)at;
    return PGW_OK;
}

static void enqueue_columns_free(enqueue_columns *c)
{
    pgw__buf_free(&c->tag_text);
    pgw__mem_free(c->block);
}

/* {"a","b"}: an array inside an array of arrays would have to be rectangular, so tags go as text.
 */
static void enqueue_tags(pgw__buf *out, const char *const *tags, size_t n)
{
    const char *p;
    size_t i;

    pgw__buf_bytes(out, "{", 1);
    for (i = 0; i < n; i++) {
        pgw__buf_text(out, i > 0 ? ",\"" : "\"");
        for (p = tags[i]; *p != '\0'; p++) {
            if (*p == '"' || *p == '\\') pgw__buf_bytes(out, "\\", 1);
            pgw__buf_bytes(out, p, 1);
        }
        pgw__buf_bytes(out, "\"", 1);
    }
    pgw__buf_bytes(out, "}", 2); /* with its NUL */
}

static void enqueue_columns_put(enqueue_columns *c, size_t i, const pgw_job_spec *j)
{
    if (i == 0) c->first = *j;
    c->payloads[i] = j->payload;
    c->kinds[i] = j->kind != NULL ? j->kind : "";
    c->keys[i] = j->key;
    c->bodies[i].p = j->body;
    c->bodies[i].n = j->body_size;
    c->priorities[i] = j->priority;
    c->run_ats[i] = j->run_at_us != 0 ? j->run_at_us : INT64_MIN;
    c->delays[i] = j->delay_ms;
    c->attempts[i] = j->max_attempts;
    c->leases[i] = j->lease_ms != PGW_DEFAULT ? j->lease_ms : 0;
    c->groups[i] = j->group;
    c->expires[i] = j->expires_us != 0 ? j->expires_us : INT64_MIN;
    c->metas[i] = j->meta;
    c->ttls[i] = j->ttl_ms != PGW_UNLIMITED ? j->ttl_ms : 0;
    if (j->tags_count > 0) {
        c->tag_ats[i] = c->tag_text.len + 1; /* 0: none */
        enqueue_tags(&c->tag_text, j->tags, j->tags_count);
    }
    c->any_kind |= *c->kinds[i] != '\0';
    c->any_body |= j->body != NULL;
    c->any_priority |= j->priority != 0;
    c->any_run_at |= j->run_at_us != 0;
    c->any_delay |= j->delay_ms != 0;
    c->any_attempts |= j->max_attempts != PGW_DEFAULT;
    c->any_lease |= j->lease_ms != PGW_DEFAULT;
    c->any_tags |= j->tags_count > 0;
    c->any_key |= j->key != NULL;
    c->any_group |= j->group != NULL;
    c->any_expires |= j->expires_us != 0;
    c->any_meta |= j->meta != NULL;
    c->any_ttl |= j->ttl_ms != PGW_UNLIMITED;
}

/* An array of an older caller's jobs has a smaller stride. */
static pgw_status enqueue_columns_fill(pgw *h, enqueue_columns *c, const pgw_job_spec *jobs)
{
    const size_t max_bytes = enqueue_max_bytes(h);
    size_t stride = 0, i;
    pgw_job_spec j;
    pgw_status st;

    for (i = 0; i < c->n; i++) {
        st = pgw__check_new(h, &j, (const char *)jobs + i * stride, (int64_t)i, max_bytes);
        if (st != PGW_OK) return st;
        if (i == 0) stride = j.struct_size;
        if (j.struct_size != stride)
            return pgw__pq_about(h, i,
                                 pgw__pq_refuse_int(h, "jobs[i].struct_size",
                                                    (int64_t)j.struct_size,
                                                    "the same size in all elements"));
        if (i > 0 && j.op != NULL)
            return pgw__pq_about(h, i,
                                 pgw__pq_refuse(h, "jobs[i].op", j.op,
                                                "NULL: only the first job has an operation id"));
        enqueue_columns_put(c, i, &j);
    }
    if (c->tag_text.failed != 0)
        return pgw__pq_reject(h, (pgw_status)c->tag_text.failed, NULL, NULL);
    for (i = 0; i < c->n; i++)
        c->tags[i] = c->tag_ats[i] > 0 ? c->tag_text.data + c->tag_ats[i] - 1 : NULL;
    return PGW_OK;
}

typedef struct enqueue_many {
    pgw_enqueued *results;
    size_t n;
} enqueue_many;

/* The status of the call is the most notable one of its jobs. */
static pgw_status enqueue_many_read(pgw *h, const pgw__rows *rows, void *ctx)
{
    const enqueue_many *many = ctx;
    const size_t count = (size_t)pgw__rows_count(rows);
    pgw_status st;
    size_t i;

    if (count > 0 && count != many->n && pgw__job_outcome(rows, 0, 1) == PGW_OUTCOME_REPEATED)
        return pgw__pq_fail(h, PGW_EINVAL,
                            "the operation id was used for another number of jobs: expected one "
                            "for this call alone, or the same jobs again",
                            NULL);
    st = pgw__ask_rows(h, rows, many->n);
    if (st != PGW_OK) return st;
    for (i = 0; i < many->n; i++) {
        const pgw_status outcome = pgw__job_outcome(rows, (int)i, 1);

        if (outcome == PGW_EPROTO)
            return pgw__ask_misfit(h, "an enqueue returned an unknown outcome");
        if (many->results != NULL) {
            many->results[i].id = pgw__rows_int(rows, (int)i, 0);
            many->results[i].outcome = outcome;
        }
        if (outcome == PGW_OUTCOME_REPEATED ||
            (outcome == PGW_OUTCOME_EXISTS && st != PGW_OUTCOME_REPEATED) || st == PGW_OK)
            st = outcome;
    }
    return st;
}

static pgw_status enqueue_columns_send(pgw *h, const enqueue_columns *c, const enqueue_many *ctx,
                                       const char *queue, const unsigned char *op)
{
    const char *replaced[4];
    const size_t n_replaced = enqueue_replaced(replaced, c->first.key_replace);
    const pgw__param params[] = {
        P_TEXT(queue),
        P_ARRAY(JSONB, c->payloads, c->n),
        P_ARRAY(TEXT, c->any_kind ? c->kinds : NULL, c->n),
        P_ARRAY(BYTEA, c->any_body ? c->bodies : NULL, c->n),
        P_ARRAY(INT4, c->any_priority ? c->priorities : NULL, c->n),
        P_ARRAY(TIME, c->any_run_at ? c->run_ats : NULL, c->n),
        P_ARRAY(INT8, c->any_delay ? c->delays : NULL, c->n),
        P_ARRAY(INT4, c->any_attempts ? c->attempts : NULL, c->n),
        P_ARRAY(INT8, c->any_lease ? c->leases : NULL, c->n),
        P_ARRAY(TEXT, c->any_tags ? c->tags : NULL, c->n),
        P_ARRAY(TEXT, c->any_key ? c->keys : NULL, c->n),
        P_TEXT(enqueue_scopes[c->first.key_scope]),
        P_TEXT(enqueue_policies[c->first.key_policy]),
        P_INT8_OR_NULL(c->first.key_period_ms, c->first.key_period_ms == 0),
        P_UUID(op),
        P_ARRAY(TEXT, c->any_group ? c->groups : NULL, c->n),
        P_ARRAY(TIME, c->any_expires ? c->expires : NULL, c->n),
        P_ARRAY(JSONB, c->any_meta ? c->metas : NULL, c->n),
        P_ARRAY(INT8, c->any_ttl ? c->ttls : NULL, c->n),
        P_ARRAY(TEXT, n_replaced > 0 ? replaced : NULL, n_replaced),
        P_END,
    };
    const pgw__call call = {
        .sql = PGW__SQL_JOB_ENQUEUE_MANY,
        .params = params,
        .read = enqueue_many_read,
        .ctx = ctx,
        .ctx_size = sizeof(*ctx),
        .flags = PGW__WRITES,
    };

    return pgw__pq_call(h, &call);
}

pgw_status pgw_enqueue_many(pgw *h, const char *queue, const pgw_job_spec *jobs, size_t n,
                            pgw_enqueued *results)
{
    const enqueue_many ctx = {results, n};
    enqueue_columns columns;
    unsigned char uuid[16];
    const unsigned char *given_op;
    pgw_status st;

    for (size_t i = 0; results != NULL && i < n && n <= PGW__BATCH_MAX; i++)
        results[i] = (pgw_enqueued){0, PGW_EUNKNOWN};
    st = pgw__check_queue(h, queue);
    if (st != PGW_OK) return st;
    st = pgw__check_given(h, "jobs", jobs);
    if (st != PGW_OK) return st;
    st = pgw__check_count(h, "n", n, 1, PGW__BATCH_MAX);
    if (st != PGW_OK) return st;

    st = enqueue_columns_make(h, &columns, n);
    if (st == PGW_OK) st = enqueue_columns_fill(h, &columns, jobs);
    if (st == PGW_OK) st = enqueue_op(h, uuid, &given_op, "jobs[0].op", columns.first.op);
    if (st == PGW_OK) st = enqueue_columns_send(h, &columns, &ctx, queue, given_op);
    enqueue_columns_free(&columns);
    return st;
}
