/* pq_param: see pq_param.h. The layouts are those of the server's *_recv functions. */
#include "pq/pq_param.h"

#include <assert.h>
#include <string.h>

/* src/include/catalog/pg_type.dat: these numbers never change. */
enum {
    OID_UNKNOWN = 0, /* the server infers it */
    OID_BOOL = 16,
    OID_BYTEA = 17,
    OID_INT8 = 20,
    OID_INT4 = 23,
    OID_TEXT = 25,
    OID_INT4_ARRAY = 1007,
    OID_TEXT_ARRAY = 1009,
    OID_BYTEA_ARRAY = 1001,
    OID_INT8_ARRAY = 1016,
    OID_TIME = 1184,
    OID_TIME_ARRAY = 1185,
    OID_UUID = 2950,
    OID_UUID_ARRAY = 2951,
    OID_JSONB = 3802,
    OID_JSONB_ARRAY = 3807
};

#define FORMAT_TEXT   0
#define FORMAT_BINARY 1
#define NULL_LENGTH   UINT32_MAX /* -1 on the wire */
#define JSONB_VERSION "\001"
#define KEEP_BYTES    ((size_t)64 * 1024)
#define TIME_MIN_US   (-INT64_C(210866803200000000)) /* 4713 BC, where timestamptz begins */

void pgw__args_init(pgw__args *a)
{
    memset(a, 0, sizeof(*a));
    pgw__buf_init(&a->bytes, PGW__ARGS_BYTES_MAX);
}

void pgw__args_free(pgw__args *a)
{
    pgw__buf_free(&a->bytes);
    a->count = 0;
}

void pgw__args_reset(pgw__args *a)
{
    if (a->bytes.cap > KEEP_BYTES || a->bytes.failed != 0) {
        pgw__buf_free(&a->bytes);
        pgw__buf_init(&a->bytes, PGW__ARGS_BYTES_MAX);
    } else {
        pgw__buf_reset(&a->bytes);
    }
    a->count = 0;
}

static unsigned param_oid(pgw__type type)
{
    switch (type) {
    case PGW__BOOL: return OID_BOOL;
    case PGW__INT4: return OID_INT4;
    case PGW__INT8: return OID_INT8;
    case PGW__TEXT: return OID_TEXT;
    case PGW__JSONB: return OID_JSONB;
    case PGW__BYTEA: return OID_BYTEA;
    case PGW__UUID: return OID_UUID;
    case PGW__TIME: return OID_TIME;
    case PGW__INT4_ARRAY: return OID_INT4_ARRAY;
    case PGW__INT8_ARRAY: return OID_INT8_ARRAY;
    case PGW__TEXT_ARRAY: return OID_TEXT_ARRAY;
    case PGW__JSONB_ARRAY: return OID_JSONB_ARRAY;
    case PGW__VALUE: return OID_UNKNOWN;
    case PGW__BYTEA_ARRAY: return OID_BYTEA_ARRAY;
    case PGW__UUID_ARRAY: return OID_UUID_ARRAY;
    case PGW__TIME_ARRAY: return OID_TIME_ARRAY;
    case PGW__END: break;
    }
    assert(!"a parameter of no type");
    return 0;
}

/* The type of an array's elements; PGW__END if it is not an array. */
static pgw__type param_element(pgw__type type)
{
    switch (type) {
    case PGW__INT4_ARRAY: return PGW__INT4;
    case PGW__INT8_ARRAY: return PGW__INT8;
    case PGW__TEXT_ARRAY: return PGW__TEXT;
    case PGW__JSONB_ARRAY: return PGW__JSONB;
    case PGW__BYTEA_ARRAY: return PGW__BYTEA;
    case PGW__UUID_ARRAY: return PGW__UUID;
    case PGW__TIME_ARRAY: return PGW__TIME;
    case PGW__END:
    case PGW__BOOL:
    case PGW__INT4:
    case PGW__INT8:
    case PGW__TEXT:
    case PGW__JSONB:
    case PGW__BYTEA:
    case PGW__UUID:
    case PGW__TIME:
    case PGW__VALUE: break;
    }
    return PGW__END;
}

/* One value without its length. False: outside of its type. */
static bool param_value(pgw__buf *b, pgw__type type, int64_t i, const void *p, size_t n)
{
    if (type == PGW__BOOL) {
        pgw__buf_bytes(b, i != 0 ? "\001" : "\000", 1);
    } else if (type == PGW__INT4) {
        if (i < INT32_MIN || i > INT32_MAX) return false;
        pgw__buf_be32(b, (uint32_t)i);
    } else if (type == PGW__INT8) {
        pgw__buf_be64(b, (uint64_t)i);
    } else if (type == PGW__TIME) {
        if (i < TIME_MIN_US) return false;
        pgw__buf_be64(b, (uint64_t)(i - PGW__PG_EPOCH_US));
    } else {
        if (type == PGW__JSONB) pgw__buf_bytes(b, JSONB_VERSION, 1);
        pgw__buf_bytes(b, p, n);
    }
    return true;
}

/* What element k of an array is, in the terms of param_value(). False: it is NULL. */
static bool param_pick(const pgw__param *p, size_t k, int64_t *i, const void **bytes, size_t *n)
{
    *i = 0;
    *n = 0;
    if (p->type == PGW__INT4_ARRAY) {
        *i = ((const int32_t *)p->v.p)[k];
    } else if (p->type == PGW__INT8_ARRAY) {
        *i = ((const int64_t *)p->v.p)[k];
    } else if (p->type == PGW__TIME_ARRAY) {
        *i = ((const int64_t *)p->v.p)[k];
        return *i != INT64_MIN;
    } else if (p->type == PGW__UUID_ARRAY) {
        *bytes = (const unsigned char *)p->v.p + 16 * k;
        *n = 16;
    } else if (p->type == PGW__BYTEA_ARRAY) {
        const pgw__bytes *item = (const pgw__bytes *)p->v.p + k;
        *bytes = item->p;
        *n = item->n;
        return item->p != NULL;
    } else {
        const char *text = ((const char *const *)p->v.p)[k];
        *bytes = text;
        *n = text != NULL ? strlen(text) : 0;
        return text != NULL;
    }
    return true;
}

/* dimensions, has-null flag, element type; for a dimension size and lower bound; then length and
 * value of each. */
static bool param_array(pgw__buf *b, const pgw__param *p)
{
    pgw__type element = param_element(p->type);
    size_t null_flag = b->len + 4;
    bool has_null = false;

    if (p->n > INT32_MAX) return false;
    pgw__buf_be32(b, p->n > 0 ? 1 : 0);
    pgw__buf_be32(b, 0);
    pgw__buf_be32(b, param_oid(element));
    if (p->n == 0) return true;
    pgw__buf_be32(b, (uint32_t)p->n);
    pgw__buf_be32(b, 1);
    for (size_t k = 0; k < p->n && b->failed == 0; k++) {
        size_t start = b->len + 4, n;
        const void *bytes = NULL;
        int64_t i;

        if (!param_pick(p, k, &i, &bytes, &n)) {
            has_null = true;
            pgw__buf_be32(b, NULL_LENGTH);
            continue;
        }
        pgw__buf_be32(b, 0);
        if (!param_value(b, element, i, bytes, n)) return false;
        if (b->failed == 0) pgw__buf_patch32(b, start - 4, (uint32_t)(b->len - start));
    }
    if (has_null && b->failed == 0) pgw__buf_patch32(b, null_flag, 1);
    return true;
}

static bool param_encode(pgw__buf *b, const pgw__param *p)
{
    switch (p->type) {
    case PGW__BOOL: return param_value(b, p->type, p->v.b, NULL, 0);
    case PGW__INT4:
    case PGW__INT8:
    case PGW__TIME: return param_value(b, p->type, p->v.i, NULL, 0);
    case PGW__UUID: return param_value(b, p->type, 0, p->v.p, 16);
    case PGW__BYTEA: return param_value(b, p->type, 0, p->v.p, p->n);
    case PGW__TEXT:
    case PGW__JSONB: return param_value(b, p->type, 0, p->v.p, p->n > 0 ? p->n : strlen(p->v.p));
    case PGW__INT4_ARRAY:
    case PGW__INT8_ARRAY:
    case PGW__TEXT_ARRAY:
    case PGW__JSONB_ARRAY:
    case PGW__BYTEA_ARRAY:
    case PGW__UUID_ARRAY:
    case PGW__TIME_ARRAY: return param_array(b, p);
    case PGW__VALUE:
        pgw__buf_bytes(b, p->v.p, strlen(p->v.p) + 1);
        return true; /* libpq wants the NUL */
    case PGW__END: break;
    }
    return false;
}

pgw_status pgw__args_encode(pgw__args *a, const pgw__param *params)
{
    static const pgw__param none = P_END;
    size_t starts[PGW__ARGS_MAX] = {0};
    pgw__buf *b = &a->bytes;

    if (params == NULL) params = &none;
    pgw__args_reset(a);
    /* libpq takes a NULL pointer for SQL NULL, so that even an empty first value needs an address
     */
    pgw__buf_bytes(b, "", 1);
    for (; params[a->count].type != PGW__END; a->count++) {
        const pgw__param *p = &params[a->count];

        assert(a->count < PGW__ARGS_MAX);
        a->at = a->count;
        a->types[a->count] = param_oid(p->type);
        a->formats[a->count] = p->type == PGW__VALUE ? FORMAT_TEXT : FORMAT_BINARY;
        starts[a->count] = b->len;
        if (!p->null && !param_encode(b, p)) return PGW_EINVAL;
        if (b->failed != 0) return (pgw_status)b->failed;
        a->lengths[a->count] = (int)(b->len - starts[a->count]);
    }
    /* the buffer stays where it is from here on */
    for (int i = 0; i < a->count; i++) a->values[i] = params[i].null ? NULL : b->data + starts[i];
    return b->failed != 0 ? (pgw_status)b->failed : PGW_OK;
}
