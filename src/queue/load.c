/* load: a bulk enqueue. The owner of the tables writes them by COPY in binary, in chunks, in one
 * transaction. Other roles, and callers in their own transaction, send batches. */
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "call/ask.h"
#include "call/check.h"
#include "pq/pq.h"
#include "pq/pq_param.h"

#define LOAD_CHUNK ((size_t)256 * 1024) /* bytes that are sent at a time */
#define LOAD_COPY  ((size_t)16 << 20)   /* size of one COPY: only its end reports errors */
#define LOAD_BATCH_BYTES \
    ((size_t)8 * 1024 * 1024) /* a batch is sent at this size, or at PGW__BATCH_MAX jobs */
#define LOAD_ROW_EXTRA ((size_t)64 * 1024) /* a row needs less beside payload, body and meta */
#define LOAD_TEXT_OID  25

/* One table's rows, on their way. */
typedef struct load_stream {
    const char *name;
    char *sql; /* the COPY statement */
    pgw__buf rows;
} load_stream;

struct pgw_load {
    pgw *h; /* NULL: the handle was closed */
    char *queue;
    pgw_status failed;            /* the first failure; nothing is sent after it */
    pgw__diagnostics diagnostics; /* its own */
    int64_t added;
    size_t max_bytes; /* for payload, body and meta */
    bool copying;
    uint64_t txn; /* which one that is not its own it is part of; 0: none */

    /* by COPY */
    load_stream live, delayed;
    load_stream *open;                     /* whose COPY is under way; NULL: none */
    size_t sent;                           /* bytes in it */
    int64_t queue_id, server_us, clock_us; /* the times at the server and here */
    int64_t rows;
    int64_t position; /* the last one that was drawn before it */
    bool expiring;    /* some of its jobs expire */
    bool gated;       /* all its jobs have to pass a gate */

    /* by batches: copies of the jobs, each with its strings in one block */
    pgw_job_spec *jobs;
    void **blocks;
    size_t count, bytes;
};

/* ---- rows of a COPY: the number of fields, then length and value of each ---- */

static const char load_head[] =
    "PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0"; /* signature, no flags, no extension */

static void load_null(pgw__buf *b)
{
    pgw__buf_be32(b, UINT32_MAX);
}

static void load_int2(pgw__buf *b, int v)
{
    pgw__buf_be32(b, 2);
    pgw__buf_be16(b, (uint16_t)v);
}

static void load_int4(pgw__buf *b, int64_t v)
{
    pgw__buf_be32(b, 4);
    pgw__buf_be32(b, (uint32_t)v);
}

static void load_time(pgw__buf *b, int64_t us)
{
    pgw__buf_be32(b, 8);
    pgw__buf_be64(b, (uint64_t)(us - PGW__PG_EPOCH_US));
}

static void load_bytes(pgw__buf *b, const void *p, size_t n)
{
    pgw__buf_be32(b, (uint32_t)n);
    pgw__buf_bytes(b, p, n);
}

static void load_text(pgw__buf *b, const char *text)
{
    if (text != NULL)
        load_bytes(b, text, strlen(text));
    else
        load_null(b);
}

static void load_json(pgw__buf *b, const char *json)
{
    if (json != NULL) {
        const size_t n = strlen(json);

        pgw__buf_be32(b, (uint32_t)(n + 1));
        pgw__buf_bytes(b, "\001", 1); /* jsonb's version */
        pgw__buf_bytes(b, json, n);
    } else {
        load_null(b);
    }
}

static void load_tags(pgw__buf *b, const pgw_job_spec *j)
{
    const size_t at = b->len;
    size_t i;

    pgw__buf_be32(b, 0); /* the length, known at the end */
    pgw__buf_be32(b, 1); /* dimensions */
    pgw__buf_be32(b, 0); /* no NULL inside */
    pgw__buf_be32(b, LOAD_TEXT_OID);
    pgw__buf_be32(b, (uint32_t)j->tags_count);
    pgw__buf_be32(b, 1); /* lower bound */
    for (i = 0; i < j->tags_count; i++) load_bytes(b, j->tags[i], strlen(j->tags[i]));
    pgw__buf_patch32(b, at, (uint32_t)(b->len - at - 4));
}

/* The fields that both tables share, in the order of the COPY statements. */
static void load_common(pgw__buf *b, const pgw_job_spec *j, int64_t expires_us)
{
    if (j->max_attempts != PGW_DEFAULT)
        load_int4(b, j->max_attempts);
    else
        load_null(b);
    if (j->lease_ms != PGW_DEFAULT)
        load_int4(b, j->lease_ms);
    else
        load_null(b);
    load_text(b, j->kind != NULL ? j->kind : "");
    if (j->tags_count > 0)
        load_tags(b, j);
    else
        load_null(b);
    load_json(b, j->payload);
    if (j->body != NULL)
        load_bytes(b, j->body, j->body_size);
    else
        load_null(b);
    load_text(b, j->group);
    if (expires_us != 0)
        load_time(b, expires_us);
    else
        load_null(b);
    load_json(b, j->meta);
}

/* By the server's clock. */
static int64_t load_now(const pgw_load *l)
{
    return l->server_us + (pgw__clock_us() - l->clock_us);
}

static void load_row(pgw_load *l, const pgw_job_spec *j, int64_t run_at_us)
{
    pgw__buf *b = run_at_us > 0 ? &l->delayed.rows : &l->live.rows;
    int64_t expires_us = j->expires_us;

    if (j->ttl_ms != PGW_UNLIMITED)
        expires_us = (run_at_us > 0 ? run_at_us : load_now(l)) + j->ttl_ms * 1000;
    l->expiring |= expires_us != 0;

    if (run_at_us > 0) {
        pgw__buf_be16(b, 12);
        load_time(b, run_at_us);
        load_int4(b, l->queue_id);
        load_int2(b, j->priority);
    } else {
        pgw__buf_be16(b, 11);
        load_int4(b, l->queue_id);
        load_int2(b, 2 * j->priority + 1);
    }
    load_common(b, j, expires_us);
}

static pgw_status load_close_stream(pgw_load *l, bool keep)
{
    static const char end[] = "\377\377";
    const load_stream *s = l->open;
    pgw_status st = PGW_OK;

    l->open = NULL;
    if (s == NULL) return PGW_OK;
    if (keep) st = pgw__pq_copy_data(l->h, end, 2);
    return st == PGW_OK ? pgw__pq_copy_end(l->h, keep) : st;
}

/* The COPY stays open, so that the server works on these rows while the next are made. */
static pgw_status load_flush_stream(pgw_load *l, load_stream *s)
{
    pgw_status st = PGW_OK;

    if (s->rows.failed != 0) return pgw__pq_fail(l->h, (pgw_status)s->rows.failed, NULL, NULL);
    if (s->rows.len == 0) return PGW_OK;
    if (l->open != s || l->sent >= LOAD_COPY) {
        st = load_close_stream(l, true);
        if (st == PGW_OK) st = pgw__pq_copy_begin(l->h, s->name, s->sql);
        if (st != PGW_OK) return st;
        l->open = s;
        l->sent = 0;
        st = pgw__pq_copy_data(l->h, load_head, 19);
    }
    if (st == PGW_OK) st = pgw__pq_copy_data(l->h, s->rows.data, s->rows.len);
    l->sent += s->rows.len;
    if (st != PGW_OK) l->open = NULL; /* the server has given it up */
    pgw__buf_reset(&s->rows);
    return st;
}

/* 0: at once */
static int64_t load_due(const pgw_load *l, const pgw_job_spec *j)
{
    const int64_t now = load_now(l);

    if (j->delay_ms > 0) return now + j->delay_ms * 1000;
    if ((j->group != NULL || l->gated) && j->run_at_us < now)
        return now; /* the next tick takes it to its gate */
    return j->run_at_us > now ? j->run_at_us : 0;
}

static pgw_status load_add_row(pgw_load *l, const pgw_job_spec *j)
{
    pgw_status st = PGW_OK;

    load_row(l, j, load_due(l, j));
    l->rows++;
    if (l->live.rows.len >= LOAD_CHUNK || l->live.rows.failed != 0)
        st = load_flush_stream(l, &l->live);
    if (st == PGW_OK && (l->delayed.rows.len >= LOAD_CHUNK || l->delayed.rows.failed != 0))
        st = load_flush_stream(l, &l->delayed);
    return st;
}

/* ---- batches ---- */

static void load_drop_jobs(pgw_load *l)
{
    while (l->count > 0) pgw__mem_free(l->blocks[--l->count]);
    l->bytes = 0;
}

static pgw_status load_flush_jobs(pgw_load *l)
{
    const size_t n = l->count;
    size_t index;
    pgw_status st;

    if (n == 0) return PGW_OK;
    if (l->txn != 0 && pgw__pq_txn(l->h) != l->txn)
        return pgw__pq_reject(
            l->h, PGW_EMISUSE, "the transaction of the load has ended",
            "end the load before the transaction; jobs that were not sent are not added");
    st = pgw_enqueue_many(l->h, l->queue, l->jobs, n, NULL);
    load_drop_jobs(l);
    if (st < PGW_OK) {
        index = pgw__pq_error_index(l->h); /* among these */
        return index < n ? pgw__pq_about(l->h, (size_t)l->added + index, st) : st;
    }
    l->added += (int64_t)n;
    return PGW_OK;
}

static void *load_keep(char **at, const void *p, size_t n)
{
    void *kept = *at;

    if (p == NULL) return NULL;
    memcpy(kept, p, n);
    *at += n;
    return kept;
}

static pgw_status load_add_job(pgw_load *l, const pgw_job_spec *j)
{
    const size_t kind = j->kind != NULL ? strlen(j->kind) + 1 : 0,
                 payload = j->payload != NULL ? strlen(j->payload) + 1 : 0,
                 group = j->group != NULL ? strlen(j->group) + 1 : 0,
                 meta = j->meta != NULL ? strlen(j->meta) + 1 : 0;
    size_t size = j->tags_count * sizeof(char *) + kind + payload + group + meta + j->body_size + 1,
           i;
    pgw_job_spec *mine = &l->jobs[l->count];
    const char **tags;
    char *block, *at;

    for (i = 0; i < j->tags_count; i++) size += strlen(j->tags[i]) + 1;
    block = pgw__mem_alloc(size);
    if (block == NULL) return pgw__pq_reject(l->h, PGW_ENOMEM, NULL, NULL);
    tags = (void *)block;
    at = block + j->tags_count * sizeof(char *);
    *mine = *j;
    mine->struct_size = sizeof(*mine);
    mine->tags = tags;
    for (i = 0; i < j->tags_count; i++)
        tags[i] = load_keep(&at, j->tags[i], strlen(j->tags[i]) + 1);
    mine->kind = load_keep(&at, j->kind, kind);
    mine->payload = load_keep(&at, j->payload, payload);
    mine->group = load_keep(&at, j->group, group);
    mine->meta = load_keep(&at, j->meta, meta);
    mine->body = load_keep(&at, j->body, j->body_size);
    l->blocks[l->count++] = block;
    l->bytes += size;
    return l->count == PGW__BATCH_MAX || l->bytes >= LOAD_BATCH_BYTES ? load_flush_jobs(l) : PGW_OK;
}

/* ---- the load ---- */

typedef struct load_ctx {
    pgw_load *load;
} load_ctx;

static pgw_status load_read_open(pgw *h, const pgw__rows *rows, void *ctx)
{
    pgw_load *l = ((const load_ctx *)ctx)->load;
    const size_t most = (size_t)pgw__rows_int(rows, 0, 1);

    l->queue_id = pgw__rows_int(rows, 0, 0);
    if (most < l->max_bytes) l->max_bytes = most;
    l->server_us = pgw__rows_time_us(rows, 0, 3);
    l->position = pgw__rows_int(rows, 0, 5);
    l->gated = pgw__rows_int(rows, 0, 6) != 0;
    l->clock_us = pgw__clock_us();
    if (pgw__rows_int(rows, 0, 2) == 0) return PGW_OK;
    return pgw__pq_fail(h, PGW_EPAUSED, "the queue is being drained and accepts no jobs",
                        "pgw_queue_resume() opens it again");
}

static pgw_status load_stream_open(pgw_load *l, load_stream *s, pgw__sql sql)
{
    s->name = pgw__sql_name(sql);
    s->sql = pgw__sql_in_schema(pgw__sql_text(sql), pgw__pq_schema(l->h));
    pgw__buf_init(&s->rows, LOAD_CHUNK + l->max_bytes + LOAD_ROW_EXTRA);
    return s->sql != NULL ? PGW_OK : pgw__pq_fail(l->h, PGW_ENOMEM, NULL, NULL);
}

static pgw_status load_open_copy(pgw_load *l)
{
    const load_ctx ctx = {l};
    const pgw__param params[] = {P_TEXT(l->queue), P_END};
    const pgw__call open = {.sql = PGW__SQL_LOAD_OPEN,
                            .params = params,
                            .read = load_read_open,
                            .ctx = &ctx,
                            .ctx_size = sizeof(ctx),
                            .flags = PGW__WRITES};
    pgw_status st = load_stream_open(l, &l->live, PGW__SQL_LOAD_LIVE);

    if (st == PGW_OK) st = load_stream_open(l, &l->delayed, PGW__SQL_LOAD_DELAYED);
    if (st == PGW_OK) st = pgw__pq_begin(l->h);
    return st == PGW_OK ? pgw__pq_call(l->h, &open) : st;
}

static pgw_status load_open_batches(pgw_load *l)
{
    l->jobs = pgw__mem_zero(PGW__BATCH_MAX, sizeof(*l->jobs));
    l->blocks = pgw__mem_zero(PGW__BATCH_MAX, sizeof(*l->blocks));
    return l->jobs != NULL && l->blocks != NULL ? PGW_OK
                                                : pgw__pq_fail(l->h, PGW_ENOMEM, NULL, NULL);
}

static void load_free(pgw_load *l)
{
    if (l->h != NULL) pgw__pq_give_back(l->h);
    load_drop_jobs(l);
    pgw__mem_free(l->jobs);
    pgw__mem_free(l->blocks);
    pgw__mem_free(l->live.sql);
    pgw__mem_free(l->delayed.sql);
    pgw__buf_free(&l->live.rows);
    pgw__buf_free(&l->delayed.rows);
    pgw__mem_free(l->queue);
    pgw__mem_free(l);
}

/* What is not committed is undone by the end of the session as well. */
static void load_undo(pgw_load *l)
{
    pgw_status undone = load_close_stream(l, false);

    if (l->copying) undone = pgw__pq_rollback(l->h);
    (void)undone;
}

/* A call of the load itself inside a call of its caller. It waits for each answer, even after
 * pgw_async(). A COPY needs the session for itself. */
static void load_enter(pgw_load *l)
{
    pgw__pq_arm(l->h, NULL, NULL);
    pgw__pq_alone(l->h, false);
}

static pgw_status load_leave(pgw_load *l, pgw_status st)
{
    pgw__pq_alone(l->h, l->copying);
    return st;
}

pgw_status pgw_load_begin(pgw *h, const char *queue, pgw_load **load)
{
    pgw_load *l;
    pgw_status st;

    if (load == NULL) return pgw__check_given(h, "load", NULL);
    *load = NULL;
    st = pgw__check_queue(h, queue);
    if (st == PGW_OK) st = pgw__check_unarmed(h, NULL);
    if (st != PGW_OK) return st;

    l = pgw__mem_zero(1, sizeof(*l));
    if (l == NULL) return pgw__pq_reject(h, PGW_ENOMEM, NULL, NULL);
    st = pgw__pq_borrow(h, &l->h);
    if (st != PGW_OK) {
        pgw__mem_free(l);
        return st;
    }
    l->h = h;
    l->max_bytes = (size_t)pgw__conf_int(pgw__pq_conf(h), "payload.max_bytes");
    l->queue = pgw__mem_dup(queue);
    l->txn = pgw__pq_txn(h);
    if (l->queue == NULL) st = pgw__pq_reject(h, PGW_ENOMEM, NULL, NULL);
    if (st == PGW_OK && !pgw__pq_attached(h) && l->txn == 0)
        st = pgw__ask_flag(h, &l->copying, PGW__SQL_HANDLE_OWNER, NULL, 0);
    if (st == PGW_OK) st = l->copying ? load_open_copy(l) : load_open_batches(l);
    if (st == PGW_OK) {
        *load = l;
        return load_leave(l, st);
    }
    load_undo(l);
    load_free(l);
    return st;
}

static void load_fail(pgw_load *l, pgw_status st)
{
    l->failed = st;
    pgw__pq_keep_diagnostics(l->h, &l->diagnostics);
}

pgw_status pgw_load_add(pgw_load *load, const pgw_job_spec *job)
{
    pgw_job_spec j;
    pgw_status st;

    if (load == NULL) return PGW_EINVAL;
    if (load->h == NULL) return PGW_ECONN; /* closed, and uncommitted jobs are lost */
    if (load->failed != PGW_OK) return pgw__pq_report(load->h, &load->diagnostics);
    st = pgw__check_unarmed(load->h, NULL);
    if (st != PGW_OK) return st;
    st = pgw__check_new(load->h, &j, job, -1, load->max_bytes);
    if (st == PGW_OK && j.key != NULL)
        st = pgw__pq_refuse(load->h, "job.key", j.key,
                            "NULL in a load: unique keys are for pgw_enqueue()");
    if (st == PGW_OK && j.op != NULL)
        st = pgw__pq_refuse(load->h, "job.op", j.op,
                            "NULL in a load: operation ids are for pgw_enqueue()");
    if (st == PGW_OK && load->copying) /* batches are checked by the server */
        st = pgw__check_int(load->h, "job.run_at_us", j.run_at_us, 0,
                            load_now(load) + PGW__DELAY_MAX_MS * 1000);
    if (st != PGW_OK) /* this job is refused, the load goes on */
        return pgw__pq_about(load->h, (size_t)(load->added + load->rows) + load->count, st);
    load_enter(load);
    st = load->copying ? load_add_row(load, &j) : load_add_job(load, &j);
    if (st != PGW_OK) load_fail(load, st);
    return load_leave(load, st);
}

static pgw_status load_close_copy(pgw_load *l)
{
    const pgw__param params[] = {P_INT4(l->queue_id), P_INT8_OR_NULL(l->position, !l->expiring),
                                 P_END};
    const pgw__call close = {.sql = PGW__SQL_LOAD_CLOSE, .params = params, .flags = PGW__WRITES};
    pgw_status st = load_flush_stream(l, &l->live);

    if (st == PGW_OK) st = load_flush_stream(l, &l->delayed);
    if (st == PGW_OK) st = load_close_stream(l, true);
    if (st == PGW_OK) st = pgw__pq_call(l->h, &close);
    if (st == PGW_OK) st = pgw__pq_commit(l->h);
    if (st == PGW_OK) l->added = l->rows;
    return st;
}

static pgw_status load_close(pgw_load *l, bool keep)
{
    pgw_status st = PGW_OK;

    if (l->h == NULL) return keep ? PGW_ECONN : PGW_OK;
    if (l->failed == PGW_OK && keep) st = pgw__check_unarmed(l->h, NULL);
    load_enter(l);
    if (l->failed == PGW_OK && keep) {
        if (st == PGW_OK) st = l->copying ? load_close_copy(l) : load_flush_jobs(l);
        if (st != PGW_OK) load_fail(l, st);
    }
    if (!keep || l->failed != PGW_OK) load_undo(l);
    if (l->failed != PGW_OK && keep) st = pgw__pq_report(l->h, &l->diagnostics);
    return st;
}

pgw_status pgw_load_end(pgw_load *load, bool keep, int64_t *added)
{
    pgw_status st;

    if (added != NULL) *added = 0;
    if (load == NULL) return PGW_OK;
    st = load_close(load, keep);
    if (added != NULL) *added = load->added;
    load_free(load);
    return st;
}
