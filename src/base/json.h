/* json: checks that a text is JSON that jsonb accepts. The server would find a fault, too, but not
 * say which one of ten thousand payloads has it, and its message would quote the payload. */
#ifndef PGW_JSON_H
#define PGW_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* NULL if the text is JSON of at most `max` bytes. Otherwise the fault as a predicate ("is
 * empty"), static text; *at is its byte offset. Numbers beyond the range of `numeric` are left to
 * the server. */
const char *pgw__json_fault(const char *text, size_t max, size_t *at);

/* The number in a member of an object, without its fraction; -1 if it is not a number, or below 0.
 * False: there is no such member, or this is not JSON. */
bool pgw__json_int(const char *object, const char *name, int64_t *value);

#endif
