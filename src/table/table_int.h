/* table_int: declarations that the files of the module table share: the description of a table,
 * and the pieces of its statements. */
#ifndef PGW_TABLE_INT_H
#define PGW_TABLE_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "call/check.h"
#include "pq/pq.h"

#define PGW__IDENT_MAX     63 /* bytes: longer ones are cut off by the server, silently */
#define PGW__KEY_COLUMNS   8
#define PGW__VALUES_MAX    32  /* of fragments, and cells of an update */
#define PGW__ASKED_MAX     256 /* columns asked for */
#define PGW__TABLE_SQL_MAX ((size_t)1024 * 1024)
#define PGW__TTL_MAX_MS    INT64_C(31536000000)

typedef struct pgw__column {
    const char *name, *type_schema, *type;
    const char *collation_schema, *collation; /* by which texts that differ may be equal; or NULL */
    bool builtin;                             /* the type is one of pg_catalog */
    bool not_null, generated;
    bool readable; /* by this role */
    bool filled;   /* no row holds NULL */
    bool keyed;    /* in an index that a foreign key may refer to */
} pgw__column;

/* An operator of the key's index: that of the type, whatever the search path is. */
typedef struct pgw__operator {
    const char *schema, *name;
} pgw__operator;

typedef struct pgw__key_column {
    const pgw__column *column;
    pgw__operator equal, less;
} pgw__key_column;

struct pgw_table {
    struct table_block *blocks; /* where the strings are */
    const char *schema, *name;
    const char *home;     /* the schema of pgwork; NULL: operation ids cannot be kept */
    pgw__column *columns; /* all of them */
    size_t columns_count;
    pgw__key_column key[PGW__KEY_COLUMNS];
    size_t key_count;
    /* the roles; NULL: not used, or missing */
    const pgw__column *locked_by, *expires_at, *token, *version;
    const char *claimable;
    bool partitioned;
    bool has_xmin;       /* and this role may read it; rights on columns alone do not suffice */
    bool random_version; /* a uuid, not a number */
    enum {
        PGW__AFTER_NOTHING,
        PGW__AFTER_STATEMENT,
        PGW__AFTER_COMMIT
    } rewritten;      /* when triggers may last write a row that was written */
    bool keyed_lease; /* a column that a lease changes hands by is in a unique index */
    bool complete;    /* no column of a role is missing */
    const char *sql;  /* the statements that add what is missing */
    const char *sql_columns, *sql_index[2]; /* the same one by one; NULL: nothing to do */
};

/* ---- table_mem ---- */
/* A copy that lives as long as the table. NULL: out of memory. */
const char *pgw__table_keep(pgw_table *t, const char *text);

/* ---- table: the description ---- */
const pgw__column *pgw__table_column(const pgw_table *t, const char *name);
/* Checks handle, table and needs of this kind of verb; the first line of each. */
pgw_status pgw__table_check(pgw *h, const pgw_table *t);
pgw_status pgw__table_check_leases(pgw *h, const pgw_table *t);
pgw_status pgw__table_check_versions(pgw *h, const pgw_table *t);
pgw_status pgw__table_check_key(pgw *h, const pgw_table *t, const char *const *key);
pgw_status pgw__table_check_columns(pgw *h, const pgw_table *t, const char *const *columns,
                                    size_t n);
pgw_status pgw__table_check_values(pgw *h, const char *const *values, size_t n);
/* A column that a caller may write: "does not exist", "is generated", "has a role": refused. */
pgw_status pgw__table_check_cell(pgw *h, const pgw_table *t, const char *column);
pgw_status pgw__table_ddl(pgw *h, pgw_table *t, const pgw_table_spec *spec,
                          const char *const state[2]);
void pgw__table_index_name(char out[PGW__IDENT_MAX + 1], const pgw_table_spec *s, int which);

/* ---- table_text: pieces of statements ---- */
/* The one place where an identifier gets into a statement: quoted; and refused (the buffer fails)
 * when it is empty or longer than the server keeps. */
void pgw__put_ident(pgw__buf *b, const char *name);
const char *pgw__ident_fault(const char *name); /* NULL, or the fault, as in name.h */
void pgw__put_table(pgw__buf *b, const pgw_table *t);
/* The table without children by inheritance, which it may have got since it was opened. */
void pgw__put_own(pgw__buf *b, const pgw_table *t);
/* For a lease that changes hands, the lock that the later UPDATE needs. Otherwise the UPDATE would
 * wait where SKIP LOCKED should skip. */
void pgw__put_row_lock(pgw__buf *b, const pgw_table *t);
void pgw__put_column(pgw__buf *b, const pgw__column *column);    /* t."name" */
void pgw__put_type(pgw__buf *b, const pgw__column *column);      /* "schema"."type" */
void pgw__put_collation(pgw__buf *b, const pgw__column *column); /* COLLATE ..., or nothing */
void pgw__put_param(pgw__buf *b, int number);                    /* $number */
void pgw__put_cast(pgw__buf *b, int number, const pgw__column *column); /* $number::type */
void pgw__put_fragment(pgw__buf *b, const char *before, const char *fragment, const char *after);
void pgw__put_key(pgw__buf *b, const pgw_table *t);      /* t."a" AS pgw_k1, ... */
void pgw__put_key_text(pgw__buf *b, const pgw_table *t); /* t."a"::text, ... */
void pgw__put_key_order(pgw__buf *b,
                        const pgw_table *t); /* the one order in which rows are locked */
void pgw__put_key_join(pgw__buf *b, const pgw_table *t,
                       const char *with);                         /* t."a" = with.pgw_k1 AND ... */
void pgw__put_key_is(pgw__buf *b, const pgw_table *t, int first); /* t."a" = $first::type AND ... */
void pgw__put_asked(pgw__buf *b, const pgw_table *t, const char *const *columns,
                    size_t n); /* , t."x"::text ... */
void pgw__put_expiry(pgw__buf *b,
                     const pgw_table *t); /* when the lease ends, never NULL: as in the index */
void pgw__put_next_token(pgw__buf *b, const pgw_table *t);
void pgw__put_version(pgw__buf *b, const pgw_table *t); /* as text */
void pgw__put_version_is(pgw__buf *b, const pgw_table *t, int param);
void pgw__put_next_version(pgw__buf *b,
                           const pgw_table *t);      /* "version" = ...: only with the role */
void pgw__put_free(pgw__buf *b, const pgw_table *t); /* the columns of a lease, for a free row */
size_t pgw__put_values(pgw__param *params, const char *const *values, size_t n); /* returns n */
bool pgw__has_version(const pgw_table *t);
/* PGW__RELAXED, where a write that a crash undoes takes no version with it. */
unsigned pgw__table_relaxed(const pgw_table *t);

/* Sends the statement in the buffer and frees it. */
pgw_status pgw__table_call(pgw *h, const char *name, pgw__buf *b, const pgw__call *call);

/* ---- table_lease: functions for the registry ---- */
/* pgw_table_reap() except for the first rows that it would free. @p found: how many it tried; a
 * trigger may keep some unchanged. */
pgw_status pgw__table_reap(pgw *h, int64_t *found, int64_t *freed, const pgw_table *t, int batch,
                           int skip);
/* The row after them, with its token, locked: for a transaction. PGW_OUTCOME_EMPTY: none. */
pgw_status pgw__table_overdue(pgw *h, pgw_rows **rows, const pgw_table *t, int skip);

/* ---- table_rows: rows in one block ---- */
typedef struct pgw__rows_ctx {
    pgw_rows **rows;
    const pgw_table *t;
    const char *const *columns;
    size_t columns_count;
    int64_t most; /* more rows are a mistake; or PGW_UNLIMITED */
    int skip;     /* columns of the answer in front of all this */
    bool leased;  /* token and end of the lease come first */
    bool needed;  /* no row is PGW_ENOTFOUND, not PGW_OUTCOME_EMPTY */
} pgw__rows_ctx;
/* Columns of the answer: [token, until,] [version,] key..., asked for... */
pgw_status pgw__rows_read(pgw *h, const pgw__rows *answer, void *ctx);
pgw_status pgw__rows_none(pgw *h);                         /* PGW_ENOTFOUND, with its diagnostics */
void pgw__put_rows(pgw__buf *b, const pgw__rows_ctx *ctx); /* the same as a list of expressions */

/* ---- keys of many rows, column by column, as parameters ---- */
typedef struct pgw__keys {
    const char **texts; /* key_count arrays of n */
    unsigned char (*tokens)[16];
    size_t n;
} pgw__keys;
pgw_status pgw__keys_make(pgw *h, pgw__keys *k, const pgw_table *t, size_t n, bool tokens);
void pgw__keys_set(pgw__keys *k, const pgw_table *t, size_t i, const char *const *key,
                   const pgw_token *token);
void pgw__keys_free(pgw__keys *k);
/* Parameters first..: the arrays of the key's columns, then the tokens. Returns the next one. */
int pgw__keys_params(const pgw__keys *k, const pgw_table *t, pgw__param *params, int first);
/* Them as rows: SELECT pgw_i, pgw_k1, ... [, pgw_token] */
void pgw__put_keys(pgw__buf *b, const pgw_table *t, int first, bool tokens);

#endif
