/* json: is it JSON that PostgreSQL takes as jsonb? The server would say so, too, but not which one
 * of ten thousand payloads it means, and its message would quote it. */
#ifndef PGW_JSON_H
#define PGW_JSON_H

#include <stddef.h>

/* NULL if the text is JSON of at most `max` bytes. Otherwise the fault as a predicate ("is
 * empty"), static text; *at is its byte offset. Numbers beyond the range of `numeric` are left to
 * the server. */
const char *pgw__json_fault(const char *text, size_t max, size_t *at);

#endif
