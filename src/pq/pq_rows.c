/* pq_rows: values of a result in binary format. A value of another shape than the one asked for is
 * 0 or NULL and makes the call PGW_EPROTO: the schema and the library disagree. */
#include <string.h>

#include "pq/pq_int.h"

#define ROWS_JSONB 3802 /* pg_type.dat */

/* The bytes of a value; NULL for NULL, or for a place that does not exist. */
static const unsigned char *rows_bytes(const pgw__rows *r, int row, int col, size_t *size)
{
    *size = 0;
    if (row < 0 || col < 0 || row >= PQntuples(r->res) || col >= PQnfields(r->res)) {
        *r->misread = true;
        return NULL;
    }
    if (PQgetisnull(r->res, row, col)) return NULL;
    *size = (size_t)PQgetlength(r->res, row, col);
    return (const unsigned char *)PQgetvalue(r->res, row, col);
}

bool pgw__rows_misread(const pgw__rows *r)
{
    return *r->misread;
}

/* n bytes, most significant first, with sign. */
static int64_t rows_number(const unsigned char *p, size_t n)
{
    uint64_t v = n > 0 && p[0] >= 0x80 ? UINT64_MAX : 0;

    for (size_t i = 0; i < n; i++) v = v << 8 | p[i];
    return (int64_t)v;
}

int pgw__rows_count(const pgw__rows *r)
{
    return PQntuples(r->res);
}

int pgw__rows_columns(const pgw__rows *r)
{
    return PQnfields(r->res);
}

bool pgw__rows_null(const pgw__rows *r, int row, int col)
{
    size_t size;

    return rows_bytes(r, row, col, &size) == NULL;
}

int64_t pgw__rows_int(const pgw__rows *r, int row, int col)
{
    size_t size;
    const unsigned char *p = rows_bytes(r, row, col, &size);

    if (p == NULL) return 0;
    if (size == 1 || size == 2 || size == 4 || size == 8) return rows_number(p, size);
    *r->misread = true;
    return 0;
}

/* From microseconds since 2000. */
static int64_t rows_time_us(int64_t us)
{
    if (us == INT64_MIN) return us; /* -infinity; infinity saturates like the last years do */
    return us > INT64_MAX - PGW__PG_EPOCH_US ? INT64_MAX : us + PGW__PG_EPOCH_US;
}

int64_t pgw__rows_time_us(const pgw__rows *r, int row, int col)
{
    size_t size;
    const unsigned char *p = rows_bytes(r, row, col, &size);

    if (p == NULL) return 0;
    if (size != 8) {
        *r->misread = true;
        return 0;
    }
    return rows_time_us(rows_number(p, size));
}

double pgw__rows_real(const pgw__rows *r, int row, int col)
{
    size_t size;
    const unsigned char *p = rows_bytes(r, row, col, &size);
    uint64_t bits;

    if (p == NULL) return 0;
    bits = (uint64_t)rows_number(p, size <= 8 ? size : 0);
    if (size == sizeof(double)) {
        double v;

        memcpy(&v, &bits, sizeof(v));
        return v;
    }
    if (size == sizeof(float)) {
        uint32_t half = (uint32_t)bits;
        float v;

        memcpy(&v, &half, sizeof(v));
        return (double)v;
    }
    *r->misread = true;
    return 0;
}

const char *pgw__rows_text(const pgw__rows *r, int row, int col, size_t *size)
{
    size_t n;
    const char *p = (const char *)rows_bytes(r, row, col, &n);

    if (p != NULL && PQftype(r->res, col) == ROWS_JSONB && n > 0) p++, n--; /* a version byte */
    if (size != NULL) *size = n;
    return p;
}

void pgw__rows_uuid(const pgw__rows *r, int row, int col, unsigned char out[16])
{
    size_t size;
    const unsigned char *p = rows_bytes(r, row, col, &size);

    memset(out, 0, 16);
    if (p != NULL && size == 16) {
        memcpy(out, p, 16);
    } else if (p != NULL) {
        *r->misread = true;
    }
}

/* See param_array() in pq_param.c for the layout. Returns the elements of all dimensions, as
 * unnest() does, so any stored array can be read. Everything is checked here, so that next() need
 * not. */
int pgw__rows_items(const pgw__rows *r, int row, int col, pgw__items *items)
{
    size_t size;
    const unsigned char *p = rows_bytes(r, row, col, &size), *end;
    int64_t count = 1, dimensions;

    *items = (pgw__items){NULL, 0, false};
    if (p == NULL) return 0;
    end = p + size;
    if (size < 12) goto misread;
    dimensions = rows_number(p, 4);
    if (dimensions == 0) return 0;
    if (dimensions < 0 || dimensions > (int64_t)(size - 12) / 8) goto misread;
    for (int64_t d = 0; d < dimensions; d++) {
        int64_t n = rows_number(p + 12 + 8 * d, 4);

        if (n < 0 || (uint64_t)n > size) goto misread;
        count *= n;
        if ((uint64_t)count > size) goto misread; /* an element takes 4 bytes at least */
    }
    *items = (pgw__items){p + 12 + 8 * dimensions, (int)count, rows_number(p + 8, 4) == ROWS_JSONB};
    p += 12 + 8 * dimensions;
    for (int64_t i = 0; i < count; i++) {
        int64_t n;

        if (end - p < 4) goto misread;
        n = rows_number(p, 4);
        p += 4;
        if (n > end - p || (n == 0 && items->json)) goto misread;
        if (n > 0) p += n;
    }
    return (int)count;
misread:
    *items = (pgw__items){NULL, 0, false};
    *r->misread = true;
    return 0;
}

bool pgw__items_next(pgw__items *items, pgw__bytes *item)
{
    int64_t n;

    if (items->left == 0) return false;
    items->left--;
    n = rows_number(items->at, 4);
    items->at += 4;
    *item = (pgw__bytes){.p = n < 0 ? NULL : items->at, .n = n < 0 ? 0 : (size_t)n};
    if (n > 0) items->at += n;
    if (n > 0 && items->json) /* a version byte */
        *item = (pgw__bytes){.p = items->at - n + 1, .n = (size_t)n - 1};
    return true;
}

int64_t pgw__item_int(const pgw__bytes *item)
{
    return item->p == NULL ? 0 : rows_number(item->p, item->n);
}

int64_t pgw__item_time_us(const pgw__bytes *item)
{
    return item->p == NULL ? 0 : rows_time_us(rows_number(item->p, item->n));
}

int pgw__rows_array(const pgw__rows *r, int row, int col, pgw__bytes *items, int max)
{
    pgw__items all;
    pgw__bytes item;
    const int count = pgw__rows_items(r, row, col, &all);

    for (int i = 0; i < max && pgw__items_next(&all, &item); i++) items[i] = item;
    return count;
}
