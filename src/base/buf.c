/* buf: a byte buffer that grows up to a limit. */
#include "base/buf.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "pgwork.h"

#define BUF_FIRST 64

void pgw__buf_init(pgw__buf *b, size_t max)
{
    /* half of the address space: then no sum below can overflow */
    *b = (pgw__buf){.max = max < SIZE_MAX / 2 ? max : SIZE_MAX / 2};
}

void pgw__buf_free(pgw__buf *b)
{
    pgw__mem_free(b->data);
    pgw__buf_init(b, b->max);
}

void pgw__buf_reset(pgw__buf *b)
{
    b->len = 0;
    b->failed = 0;
    if (b->data != NULL) b->data[0] = '\0';
}

/* Makes space for n more bytes and the NUL. */
static bool buf_reserve(pgw__buf *b, size_t n)
{
    size_t need, cap;
    char *data;

    if (b->failed != 0) return false;
    if (n > b->max - b->len) {
        b->failed = PGW_ELIMIT;
        return false;
    }
    need = b->len + n + 1;
    if (need <= b->cap) return true;

    cap = b->cap > 0 ? b->cap : BUF_FIRST;
    while (cap < need) cap *= 2;
    if (cap > b->max + 1) cap = b->max + 1;
    data = pgw__mem_realloc(b->data, cap);
    if (data == NULL) {
        b->failed = PGW_ENOMEM;
        return false;
    }
    b->data = data;
    b->cap = cap;
    return true;
}

void pgw__buf_bytes(pgw__buf *b, const void *p, size_t n)
{
    if (n == 0 || !buf_reserve(b, n)) return;
    memcpy(b->data + b->len, p, n);
    b->len += n;
    b->data[b->len] = '\0';
}

void pgw__buf_text(pgw__buf *b, const char *text)
{
    pgw__buf_bytes(b, text, strlen(text));
}

void pgw__buf_int(pgw__buf *b, int64_t v)
{
    char digits[20]; /* 19 of them and a sign */
    size_t at = sizeof(digits);
    uint64_t rest = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;

    do digits[--at] = (char)('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (v < 0) digits[--at] = '-';
    pgw__buf_bytes(b, digits + at, sizeof(digits) - at);
}

static void buf_store_be32(void *to, uint32_t v)
{
    unsigned char bytes[4] = {(unsigned char)(v >> 24), (unsigned char)(v >> 16),
                              (unsigned char)(v >> 8), (unsigned char)v};

    memcpy(to, bytes, sizeof(bytes));
}

void pgw__buf_be16(pgw__buf *b, uint16_t v)
{
    unsigned char bytes[2] = {(unsigned char)(v >> 8), (unsigned char)v};

    pgw__buf_bytes(b, bytes, sizeof(bytes));
}

void pgw__buf_be32(pgw__buf *b, uint32_t v)
{
    unsigned char bytes[4];

    buf_store_be32(bytes, v);
    pgw__buf_bytes(b, bytes, sizeof(bytes));
}

void pgw__buf_be64(pgw__buf *b, uint64_t v)
{
    unsigned char bytes[8];

    buf_store_be32(bytes, (uint32_t)(v >> 32));
    buf_store_be32(bytes + 4, (uint32_t)v);
    pgw__buf_bytes(b, bytes, sizeof(bytes));
}

void pgw__buf_patch32(pgw__buf *b, size_t at, uint32_t v)
{
    if (b->failed != 0) return; /* the place may never have been written */
    assert(b->len >= 4 && at <= b->len - 4);
    buf_store_be32(b->data + at, v);
}

const char *pgw__buf_str(const pgw__buf *b)
{
    return b->data != NULL ? b->data : "";
}
