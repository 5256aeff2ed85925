/* json: is it JSON that PostgreSQL takes as jsonb? The server would say so, too, but not which one
 * of ten thousand payloads it means, and its message would quote it. */
#ifndef PGW_JSON_H
#define PGW_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* NULL if the text is JSON of at most `max` bytes. Otherwise the fault as a predicate ("is
 * empty"), static text; *at is its byte offset. Numbers beyond the range of `numeric` are left to
 * the server. */
const char *pgw__json_fault(const char *text, size_t max, size_t *at);

/* The number of that name in an object, without what stands behind its point; -1 where it is none,
 * or less than 0. False: there is no such member, or this is no JSON. */
bool pgw__json_int(const char *object, const char *name, int64_t *value);

#endif
