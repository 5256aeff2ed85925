/* SPDX-License-Identifier: PostgreSQL
 *
 * json: a strict reader (RFC 8259, and what jsonb refuses besides: NUL and lone surrogates). It
 * builds no tree: a value is a slice of the text it was found in.
 */
#ifndef JSON_H
#define JSON_H

#include <stdbool.h>
#include <stddef.h>

#include "out.h"

#define JSON_DEPTH      1000
#define JSON_DEPTH_TEXT "1000"

typedef enum json_kind {
    JSON_NULL,
    JSON_BOOL,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT
} json_kind;

typedef struct json {
    json_kind kind;
    const char *at; /* strings with their quotes */
    size_t size;
} json;

#define JSON_WHY 160
/** The whole of @p text is one value. When it is not, @p why says what is wrong with it, and where:
 * "not valid JSON: expected a value at column 5". */
bool json_read(json *v, const char *text, size_t size, char why[JSON_WHY]);

/* The rest takes values that json_read() found good. */

/** Walks an array or object: start from *at = 0. @p name may be NULL for arrays. False at the end.
 */
bool json_next(const json *v, size_t *at, json *name, json *item);
/** The member of that name; the last one wins, as in jsonb. */
bool json_member(const json *v, const char *name, size_t name_size, json *item);
/** Adds what a string says, or any other value as it is written. */
void json_add_text(buf *t, const json *v);
/** Is it the string @p s? */
bool json_is(const json *v, const char *s, size_t size);

#endif
