/* job_row: rows into jobs, all in one block: the head with the jobs, the pointers of the tags, the
 * bytes. Two passes over the rows: the first adds up, the second copies. */
#include "job.h"

#include <string.h>

#include "check.h"
#include "mem.h"

typedef enum row_kind {
    ROW_TEXT,
    ROW_BYTES,
    ROW_TAGS,
    ROW_INT,
    ROW_ID,
    ROW_TIME,
    ROW_SIZE,
    ROW_TOKEN
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
};

/* Where the second pass writes: into the pointers of tags and the bytes behind them. */
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

/* What one row needs beyond its pgw_job. */
static void row_measure(const pgw__rows *rows, int row, const pgw__job_column *columns,
                        size_t *tags, size_t *bytes)
{
    pgw__bytes items[PGW__TAGS_MAX];
    size_t size;
    int col, n;

    for (col = 0; columns[col] != PGW__JOB_END; col++) {
        const row_kind kind = row_fields[columns[col]].kind;

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
    return pgw__job_token(bytes);
}

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
        }
    }
}

pgw_status pgw__job_batch(pgw_batch **batch, const pgw__rows *rows, int first, int count,
                          const pgw__job_column *columns)
{
    size_t tags = 0, bytes = 0, head = sizeof(pgw_batch) + (size_t)count * sizeof(pgw_job);
    row_cursor at;
    int i;

    *batch = NULL;
    for (i = 0; i < count; i++) row_measure(rows, first + i, columns, &tags, &bytes);
    *batch = pgw__mem_alloc(head + tags * sizeof(char *) + bytes);
    if (*batch == NULL) return PGW_ENOMEM;
    memset(*batch, 0, head);
    (*batch)->count = (size_t)count;
    at.tags = (void *)((char *)*batch + head);
    at.bytes = (char *)(at.tags + tags);
    for (i = 0; i < count; i++) row_copy(&(*batch)->jobs[i], &at, rows, first + i, columns);
    return PGW_OK;
}
