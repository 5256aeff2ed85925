/* name: rules for names, and the exact words for each fault. */
#ifndef PGW_NAME_H
#define PGW_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PGW__QUEUE_MAX       200
#define PGW__KIND_MAX        255
#define PGW__KEY_MAX         255
#define PGW__SCHEMA_NAME_MAX 40
#define PGW__ERROR_MAX       8000      /* of an error's text, which is cut there */
#define PGW__BYTES_MAX       268435455 /* of payload, body and meta: no jsonb holds more */

/* Each returns NULL if the text is well formed. Otherwise the fault as the end of a sentence: "is
 * NULL", "is empty", "is longer than 200 bytes", "is not UTF-8", "has a control character", ... */

/* A name: not empty, UTF-8 of at most max bytes, no control characters. */
const char *pgw__name_fault(const char *text, size_t max);
/* Free text: UTF-8 of at most max bytes; may be empty. */
const char *pgw__text_fault(const char *text, size_t max);
/* ^[a-z_][a-z0-9_]{0,39}$, and not pg_..., so that it never needs quoting. */
const char *pgw__schema_fault(const char *text);
/* 8-4-4-4-12 hexadecimal digits in either case. out is zeroed when there is a fault. */
const char *pgw__uuid_parse(unsigned char out[16], const char *text);

/* As much of the text as fits, cut between characters; the two may overlap. */
void pgw__text_copy(char *to, size_t size, const char *from);
/* Decimal digits with or without a minus, and nothing else; false also beyond 64 bits. */
bool pgw__int_parse(int64_t *out, const char *text);

/* Text from any source, cut in the same way. Bytes that are not UTF-8 become '?'. */
void pgw__text_mend(char *to, size_t size, const char *from);

/* Strict; and no NUL, which no text of PostgreSQL can hold. */
bool pgw__utf8_ok(const char *text, size_t n);
/* The offset of the first byte that is not; n: none. */
size_t pgw__utf8_span(const char *text, size_t n);
/* The line of text[at], and the column: characters, both counted from 1. */
void pgw__text_where(const char *text, size_t at, size_t *line, size_t *column);

#endif
