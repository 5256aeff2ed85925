/* json: is it JSON that PostgreSQL takes as jsonb? The server would say so, too, but not which one
 * of ten thousand payloads it means, and its message would quote it. */
#ifndef PGW_JSON_H
#define PGW_JSON_H

#include <stddef.h>

/* NULL: it is, with at most `max` bytes. Else what is wrong with it, as a predicate ("is empty"),
 * static text; *at is the byte where that was found. A number beyond what `numeric` holds is left
 * to the server. */
const char *pgw__json_fault(const char *text, size_t max, size_t *at);

#endif
