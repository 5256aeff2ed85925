/* SPDX-License-Identifier: PostgreSQL
 *
 * out: data for programs (one JSON object per line) and for people (columns). Text from the
 * database never reaches a terminal raw: characters that text_unseen() names are escaped.
 */
#ifndef OUT_H
#define OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pgwork.h"

/* A growing text, always terminated. Initialize with {0}. */
typedef struct buf {
    char *at;
    size_t size, capacity;
} buf;
void buf_add(buf *t, const char *bytes, size_t n);
void buf_puts(buf *t, const char *s);
/** Adds a JSON string with its quotes. Bytes that are not UTF-8, and NUL, become U+FFFD. */
void buf_add_json(buf *t, const char *bytes, size_t n);
/** Adds JSON, and escapes invisible characters in its strings. */
void buf_add_json_text(buf *t, const char *json);
/** Adds text, and escapes invisible characters. */
void buf_add_visible(buf *t, const char *value);
void buf_free(buf *t);

/* A JSON object on stdout: out_begin(), members, out_end(). A NULL text is the value null. */
typedef struct out {
    buf line;
} out;
void out_begin(out *o);
void out_text(out *o, const char *name, const char *value);
void out_int(out *o, const char *name, int64_t value);
void out_bool(out *o, const char *name, bool value);
void out_time(out *o, const char *name, int64_t us); /* 0: null */
void out_json(out *o, const char *name, const char *json);
void out_base64(out *o, const char *name, const void *bytes, size_t n); /* NULL: null */
void out_end(out *o);
void out_number(const char *name, int64_t value); /* an object of one member */

/** Everything about a job. @p claimed: includes token and body, for its holder. @p running_us: when
 * its handler started; 0: not known. @p attempts: a JSON array of those that failed; NULL: left
 * out. */
void out_job(const pgw_job *job, bool claimed, int64_t running_us, const char *attempts);

/* Columns. One whose heading ends with '>' is aligned to the right. */
typedef struct table {
    const char *const *headings;
    size_t columns, cells, capacity;
    char **cell;
} table;
void table_begin(table *t, const char *const *headings, size_t columns);
void table_text(table *t, const char *value); /* NULL and "" show as "-" */
void table_int(table *t, int64_t value);
void table_age(table *t, int64_t ms); /* negative: "-" */
/** Prints the table, if it has rows, and frees it. */
void table_end(table *t);

/** The text of buf_add_visible(). The caller frees it. */
char *out_visible(const char *value);

#endif
