/* pq_param: typed parameters become PostgreSQL's binary format. Pure: knows no connection. Part of
 * the module pq. */
#ifndef PGW_PQ_PARAM_H
#define PGW_PQ_PARAM_H

#include "base/buf.h"
#include "pq/pq.h"

#define PGW__ARGS_MAX       64
/* A message of the protocol must stay below 1 GB (the server's limit for one allocation). */
#define PGW__ARGS_BYTES_MAX ((size_t)1024 * 1024 * 1024 - 65536)

/* Microseconds between 1970 and 2000, where PostgreSQL's time begins. */
#define PGW__PG_EPOCH_US INT64_C(946684800000000)

/* The arguments of one statement in the shape that libpq takes; values point into bytes. */
typedef struct pgw__args {
    pgw__buf bytes;
    int count;
    int at; /* index of the argument that was refused */
    unsigned types[PGW__ARGS_MAX];
    const char *values[PGW__ARGS_MAX];
    int lengths[PGW__ARGS_MAX];
    int formats[PGW__ARGS_MAX];
} pgw__args;

void pgw__args_init(pgw__args *a);
/* Empty again. Keeps a small buffer for the next statement, and frees a large one. */
void pgw__args_reset(pgw__args *a);
void pgw__args_free(pgw__args *a);

/* PGW_OK, PGW_ENOMEM, PGW_ELIMIT (too large) or PGW_EINVAL (argument `at` is outside of its type).
 */
pgw_status pgw__args_encode(pgw__args *a, const pgw__param *params);

#endif
