/* SPDX-License-Identifier: PostgreSQL
 *
 * json: a strict reader (RFC 8259). Like jsonb it also refuses NUL and lone surrogates. It builds
 * no tree: a value is a slice of the text.
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
/** Reads @p text, which must be one value. Otherwise @p why has the error and its place:
 * "not valid JSON: expected a value at column 5". */
bool json_read(json *v, const char *text, size_t size, char why[JSON_WHY]);

/* The other functions take values that json_read() has accepted. */

/** Iterates over an array or object, beginning with *at = 0. @p name may be NULL for arrays. False
 * at the end. */
bool json_next(const json *v, size_t *at, json *name, json *item);
/** The member of that name; the last one, as in jsonb. */
bool json_member(const json *v, const char *name, size_t name_size, json *item);
/** Adds the text of a string, or the JSON of any other value. */
void json_add_text(buf *t, const json *v);
/** Is it the string @p s? */
bool json_is(const json *v, const char *s, size_t size);

#endif
