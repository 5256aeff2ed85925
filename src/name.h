/* name: what a name may be, and exact words for what is wrong with it. */
#ifndef PGW_NAME_H
#define PGW_NAME_H

#include <stdbool.h>
#include <stddef.h>

#define PGW__QUEUE_MAX 200
#define PGW__KIND_MAX 255
#define PGW__KEY_MAX 255
#define PGW__SCHEMA_NAME_MAX 40

/* NULL when text is well formed; else why not ("is empty", "is longer than 200 bytes", "is not UTF-8", "has a control character", "is NULL"). */
const char *pgw__name_fault(const char *text, size_t max);  /* a name: not empty, UTF-8, no control characters */
const char *pgw__text_fault(const char *text, size_t max);  /* free text: UTF-8 up to max bytes, may be empty */
const char *pgw__schema_fault(const char *text);            /* ^[a-z_][a-z0-9_]{0,39}$, not pg_... */
const char *pgw__json_fault(const char *text, size_t max);  /* UTF-8, no \u0000 escape, nesting <= 1000, not empty; the server does the rest */
const char *pgw__uuid_parse(unsigned char out[16], const char *text); /* NULL, or the fault */
bool pgw__utf8_ok(const char *text, size_t n); /* strict; and no NUL, which no text of PostgreSQL can hold */

#endif
