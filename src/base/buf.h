/* buf: a byte buffer that grows up to a limit (after curl's dynbuf). Errors stick, so a caller
 * checks once, at the end. */
#ifndef PGW_BUF_H
#define PGW_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pgw__buf {
    char *data; /* NUL-terminated when not NULL */
    size_t len, cap, max;
    int failed; /* 0, PGW_ENOMEM or PGW_ELIMIT */
} pgw__buf;

void pgw__buf_init(pgw__buf *b, size_t max);
void pgw__buf_free(pgw__buf *b);
void pgw__buf_reset(pgw__buf *b); /* empty again, memory kept */
void pgw__buf_bytes(pgw__buf *b, const void *p, size_t n);
void pgw__buf_text(pgw__buf *b, const char *text);
void pgw__buf_int(pgw__buf *b, int64_t v);   /* decimal */
void pgw__buf_be16(pgw__buf *b, uint16_t v); /* network byte order, for binary parameters */
void pgw__buf_be32(pgw__buf *b, uint32_t v);
void pgw__buf_be64(pgw__buf *b, uint64_t v);
void pgw__buf_patch32(pgw__buf *b, size_t at, uint32_t v);
const char *pgw__buf_str(const pgw__buf *b); /* never NULL */

#endif
