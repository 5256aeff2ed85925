/* ask: what several modules ask of the server in the same way: a statement without an answer, one
 * whose answer is a number or a truth; and what they say when an answer has the wrong shape. */
#ifndef PGW_ASK_H
#define PGW_ASK_H

#include "pgwork.h"
#include "pq/pq.h"

pgw_status pgw__ask(pgw *h, pgw__sql sql, const pgw__param *params); /* a write; rows are ignored */
pgw_status pgw__ask_number(pgw *h, int64_t *number, pgw__sql sql,
                           const pgw__param *params); /* a write; number may be NULL */
pgw_status pgw__ask_flag(pgw *h, bool *flag, pgw__sql sql, const pgw__param *params,
                         unsigned flags); /* true or false; flags as of a pgw__call */
/* That for as much as there is when it begins, or for `most` (or PGW_UNLIMITED): piece by piece,
 * each in a transaction of its own unless one is open, until nothing is left or somebody asks the
 * handle to stop. The statement has two parameters more than `params`: how much it shall do at
 * most, and for how many ms this goes on. *number: all that was done, also when it fails on the
 * way. */
pgw_status pgw__ask_in_pieces(pgw *h, int64_t *number, int64_t most, pgw__sql sql,
                              const pgw__param *params);
/* The same from id to id, so that nothing is met a second time: the statement answers with the last
 * id as well, and its last parameter is the one behind which it shall go on. */
pgw_status pgw__ask_by_ids(pgw *h, int64_t *number, int64_t most, pgw__sql sql,
                           const pgw__param *params);

/* PGW_EPROTO, with words: the functions in the schema are not those of this library. */
pgw_status pgw__ask_misfit(pgw *h, const char *what);
/* PGW_OK when there are so many rows, else PGW_EPROTO. */
pgw_status pgw__ask_rows(pgw *h, const pgw__rows *rows, size_t expected);

#endif
