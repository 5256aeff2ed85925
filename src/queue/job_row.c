/* job_row: rows into jobs, all in one block: the head with the jobs, the pointers of the tags, the
 * bytes. Two passes over the rows: the first adds up, the second copies. */
#include "queue/job.h"

#include <string.h>

#include "base/mem.h"
#include "base/token.h"
#include "call/check.h"

typedef enum row_kind {
    ROW_TEXT,
    ROW_BYTES,
    ROW_TAGS,
    ROW_INT,
    ROW_ID,
    ROW_TIME,
    ROW_SIZE,
    ROW_TOKEN,
    ROW_EACH_TEXT, /* from here on an array, with an element for each job of the row */
    ROW_EACH_ID,
    ROW_EACH_TIME
} row_kind;

static const struct {
    row_kind kind;
    size_t offset; /* in pgw_job */
} row_fields[PGW__JOB_COLUMNS] = {
    [PGW__JOB_QUEUE] = {ROW_TEXT, offsetof(pgw_job, queue)},
    [PGW__JOB_ID] = {ROW_ID, offsetof(pgw_job, ref.id)},
    [PGW__JOB_TOKEN] = {ROW_TOKEN, offsetof(pgw_job, ref.token)},
    [PGW__JOB_STATE] = {ROW_TEXT, offsetof(pgw_job, state)},
    [PGW__JOB_KIND] = {ROW_TEXT, offsetof(pgw_job, kind)},
    [PGW__JOB_PRIORITY] = {ROW_INT, offsetof(pgw_job, priority)},
    [PGW__JOB_ATTEMPT] = {ROW_INT, offsetof(pgw_job, attempt)},
    [PGW__JOB_MAX_ATTEMPTS] = {ROW_INT, offsetof(pgw_job, max_attempts)},
    [PGW__JOB_HOLDER] = {ROW_TEXT, offsetof(pgw_job, holder)},
    [PGW__JOB_LEASE_UNTIL] = {ROW_TIME, offsetof(pgw_job, lease_until_us)},
    [PGW__JOB_RUN_AT] = {ROW_TIME, offsetof(pgw_job, run_at_us)},
    [PGW__JOB_CREATED] = {ROW_TIME, offsetof(pgw_job, created_us)},
    [PGW__JOB_FINISHED] = {ROW_TIME, offsetof(pgw_job, finished_us)},
    [PGW__JOB_ERROR] = {ROW_TEXT, offsetof(pgw_job, error)},
    [PGW__JOB_KEY] = {ROW_TEXT, offsetof(pgw_job, key)},
    [PGW__JOB_TAGS] = {ROW_TAGS, 0},
    [PGW__JOB_PAYLOAD] = {ROW_TEXT, offsetof(pgw_job, payload)},
    [PGW__JOB_BODY] = {ROW_BYTES, 0},
    [PGW__JOB_BODY_BYTES] = {ROW_SIZE, offsetof(pgw_job, body_size)},
    [PGW__JOB_OUTPUT] = {ROW_TEXT, offsetof(pgw_job, output)},
    [PGW__JOB_GROUP] = {ROW_TEXT, offsetof(pgw_job, group)},
    [PGW__JOB_EXPIRES] = {ROW_TIME, offsetof(pgw_job, expires_us)},
    [PGW__JOB_META] = {ROW_TEXT, offsetof(pgw_job, meta)},
    [PGW__JOB_HIDDEN] = {ROW_INT, offsetof(pgw_job, hidden)},
    [PGW__JOB_PROGRESS] = {ROW_TEXT, offsetof(pgw_job, progress)},
    [PGW__JOB_QUARANTINED] = {ROW_INT, offsetof(pgw_job, quarantined)},
    [PGW__JOB_IDS] = {ROW_EACH_ID, offsetof(pgw_job, ref.id)},
    [PGW__JOB_KINDS] = {ROW_EACH_TEXT, offsetof(pgw_job, kind)},
    [PGW__JOB_PAYLOADS] = {ROW_EACH_TEXT, offsetof(pgw_job, payload)},
    [PGW__JOB_CREATEDS] = {ROW_EACH_TIME, offsetof(pgw_job, created_us)},
};

/* Where the second pass writes: the pointers of tags and the bytes after them. */
typedef struct row_cursor {
    const char **tags;
    char *bytes;
} row_cursor;

static const char *row_keep(row_cursor *at, const void *bytes, size_t n)
{
    char *kept = at->bytes;

    memcpy(kept, bytes, n);
    kept[n] = '\0';
    at->bytes += n + 1;
    return kept;
}

/* How many jobs a row is. */
static int row_jobs(const pgw__rows *rows, int row, const pgw__job_column *columns)
{
    pgw__items items;
    int col;

    for (col = 0; columns[col] != PGW__JOB_END; col++)
        if (columns[col] == PGW__JOB_IDS && !pgw__rows_null(rows, row, col))
            return pgw__rows_items(rows, row, col, &items);
    return 1;
}

/* What the jobs of one row need beyond their pgw_job. False: its arrays are not of one length. */
static bool row_measure(const pgw__rows *rows, int row, const pgw__job_column *columns, int jobs,
                        size_t *tags, size_t *bytes)
{
    pgw__bytes items[PGW__TAGS_MAX], item;
    pgw__items each;
    size_t size;
    int col, n;

    for (col = 0; columns[col] != PGW__JOB_END; col++) {
        const row_kind kind = row_fields[columns[col]].kind;

        if (kind >= ROW_EACH_TEXT && !pgw__rows_null(rows, row, col)) {
            if (pgw__rows_items(rows, row, col, &each) != jobs) return false;
            while (kind == ROW_EACH_TEXT && pgw__items_next(&each, &item))
                *bytes += item.p != NULL ? item.n + 1 : 0;
        }
        if ((kind == ROW_TEXT || kind == ROW_BYTES) &&
            pgw__rows_text(rows, row, col, &size) != NULL) {
            *bytes += size + 1;
        } else if (kind == ROW_TAGS) {
            n = pgw__rows_array(rows, row, col, items, PGW__TAGS_MAX);
            if (n > PGW__TAGS_MAX) n = PGW__TAGS_MAX;
            *tags += n > 0 ? (size_t)n : 0;
            while (n-- > 0) *bytes += items[n].n + 1;
        }
    }
    return true;
}

static void row_tags(pgw_job *job, row_cursor *at, const pgw__rows *rows, int row, int col)
{
    pgw__bytes items[PGW__TAGS_MAX];
    int i, n = pgw__rows_array(rows, row, col, items, PGW__TAGS_MAX);

    if (n > PGW__TAGS_MAX) n = PGW__TAGS_MAX;
    job->tags = at->tags;
    for (i = 0; i < n; i++)
        *at->tags++ = row_keep(at, items[i].n > 0 ? items[i].p : "", items[i].n);
    job->tags_count = n > 0 ? (size_t)n : 0;
}

static pgw_token row_token(const pgw__rows *rows, int row, int col)
{
    unsigned char bytes[16] = {0};

    if (!pgw__rows_null(rows, row, col)) pgw__rows_uuid(rows, row, col, bytes);
    return pgw__token_read(bytes);
}

/* What all jobs of a row have. */
static void row_copy(pgw_job *job, row_cursor *at, const pgw__rows *rows, int row,
                     const pgw__job_column *columns)
{
    int col;

    for (col = 0; columns[col] != PGW__JOB_END; col++) {
        void *field = (char *)job + row_fields[columns[col]].offset;
        const char *text;
        size_t size;

        switch (row_fields[columns[col]].kind) {
        case ROW_TEXT:
            text = pgw__rows_text(rows, row, col, &size);
            if (text != NULL) *(const char **)field = row_keep(at, text, size);
            break;
        case ROW_BYTES:
            text = pgw__rows_text(rows, row, col, &size);
            if (text == NULL) break;
            job->body = row_keep(at, text, size);
            job->body_size = size;
            break;
        case ROW_TAGS: row_tags(job, at, rows, row, col); break;
        case ROW_INT: *(int *)field = (int)pgw__rows_int(rows, row, col); break;
        case ROW_ID: *(int64_t *)field = pgw__rows_int(rows, row, col); break;
        case ROW_TIME: *(int64_t *)field = pgw__rows_time_us(rows, row, col); break;
        case ROW_SIZE: *(size_t *)field = (size_t)pgw__rows_int(rows, row, col); break;
        case ROW_TOKEN: *(pgw_token *)field = row_token(rows, row, col); break;
        case ROW_EACH_TEXT:
        case ROW_EACH_ID:
        case ROW_EACH_TIME: break; /* row_copy_each() */
        }
    }
}

/* What each of them has of its own. */
static void row_copy_each(pgw_job *jobs, row_cursor *at, const pgw__rows *rows, int row,
                          const pgw__job_column *columns)
{
    int col;

    for (col = 0; columns[col] != PGW__JOB_END; col++) {
        const row_kind kind = row_fields[columns[col]].kind;
        char *field = (char *)jobs + row_fields[columns[col]].offset;
        pgw__items items;
        pgw__bytes item;

        if (kind < ROW_EACH_TEXT) continue;
        pgw__rows_items(rows, row, col, &items);
        for (; pgw__items_next(&items, &item); field += sizeof(pgw_job)) {
            if (kind == ROW_EACH_ID)
                *(int64_t *)(void *)field = pgw__item_int(&item);
            else if (kind == ROW_EACH_TIME)
                *(int64_t *)(void *)field = pgw__item_time_us(&item);
            else if (item.p != NULL)
                *(const char **)(void *)field = row_keep(at, item.p, item.n);
        }
    }
}

pgw_status pgw__job_batch(pgw_batch **batch, const pgw__rows *rows, int first, int count,
                          const pgw__job_column *columns)
{
    size_t jobs = 0, tags = 0, bytes = 0, head;
    row_cursor at;
    pgw_job *job;
    int row, n;

    *batch = NULL;
    for (row = first; row < first + count; row++) {
        n = row_jobs(rows, row, columns);
        if (!row_measure(rows, row, columns, n, &tags, &bytes)) return PGW_EPROTO;
        jobs += (size_t)n;
    }
    head = sizeof(pgw_batch) + jobs * sizeof(pgw_job);
    *batch = pgw__mem_alloc(head + tags * sizeof(char *) + bytes);
    if (*batch == NULL) return PGW_ENOMEM;
    memset(*batch, 0, head);
    (*batch)->count = jobs;
    at.tags = (void *)((char *)*batch + head);
    at.bytes = (char *)(at.tags + tags);
    job = (*batch)->jobs;
    for (row = first; row < first + count; row++) {
        n = row_jobs(rows, row, columns);
        if (n == 0) continue;
        row_copy(job, &at, rows, row, columns);
        for (int i = 1; i < n; i++) job[i] = job[0];
        row_copy_each(job, &at, rows, row, columns);
        job += n;
    }
    return PGW_OK;
}
