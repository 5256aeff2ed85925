/* ask: requests to the server that several modules share: statements without an answer, or with a
 * number or a truth value; and the errors for answers of the wrong shape. */
#ifndef PGW_ASK_H
#define PGW_ASK_H

#include "pgwork.h"
#include "pq/pq.h"

pgw_status pgw__ask(pgw *h, pgw__sql sql, const pgw__param *params); /* a write; rows are ignored */
pgw_status pgw__ask_number(pgw *h, int64_t *number, pgw__sql sql,
                           const pgw__param *params); /* a write; number may be NULL */
pgw_status pgw__ask_flag(pgw *h, bool *flag, pgw__sql sql, const pgw__param *params,
                         unsigned flags); /* true or false; flags as of a pgw__call */
/* The same in batches, for all that exists at the start, or for `most` (or PGW_UNLIMITED). Each
 * batch is one transaction unless one is open. Ends if nothing is left, or the handle is asked to
 * stop. The statement has two more parameters than `params`: the limit of the batch, and the age
 * in ms of the start. *number: the sum so far, also on failure. */
pgw_status pgw__ask_in_pieces(pgw *h, int64_t *number, int64_t most, pgw__sql sql,
                              const pgw__param *params);
/* The same from id to id, so that nothing is processed twice. The statement also returns the last
 * id, and its last parameter is the id after which it continues. */
pgw_status pgw__ask_by_ids(pgw *h, int64_t *number, int64_t most, pgw__sql sql,
                           const pgw__param *params);

/* PGW_EPROTO, with words: the functions in the schema are not those of this library. */
pgw_status pgw__ask_misfit(pgw *h, const char *what);
/* PGW_OK if there are `n` rows, otherwise PGW_EPROTO. */
pgw_status pgw__ask_rows(pgw *h, const pgw__rows *rows, size_t expected);
/* A rate: n, per_ms and burst, from this column on. NULL: there is none. */
const pgw_rate_opts *pgw__ask_rate(pgw_rate_opts *rate, const pgw__rows *rows, int row, int col);

#endif
