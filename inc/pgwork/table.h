/* SPDX-License-Identifier: PostgreSQL
 *
 * @file pgwork/table.h
 * The caller's own tables: leases, optimistic writes and row locks.
 */
#ifndef PGWORK_TABLE_H
#define PGWORK_TABLE_H

#include <pgwork/job.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pgw_table pgw_table; /* a described table of the caller */
typedef struct pgw_rows pgw_rows;   /* rows of such a table, in one block of memory */
typedef struct pgw_edit pgw_edit;   /* one row that a pgw_edit_fn works on */

/* ------------------------------------------------------------------------------------------- */
/** @name The caller's own tables @{
 * Describe a table once. Then lease its rows, write them optimistically, or lock them.
 *
 * - Rows: the values of its key name a row, in the order of the description. Values are text in
 *   both directions, and NULL is SQL NULL. The server converts them to and from the type of the
 *   column, so any type works.
 * - Settings: on an attached handle the settings of your session apply. With an extra_float_digits
 *   below 1 the text of a float is not its value, and such a key names no row. With a DateStyle
 *   other than ISO a timestamptz has an ambiguous abbreviation (IST) for its zone, and such a key
 *   may name another row.
 * - Names: names of schemas, tables and columns are taken literally and always quoted. Article and
 *   article are two tables. A name has up to 63 bytes.
 * - Fragments: claimable, where, order and set are SQL that becomes part of a statement. Never
 *   build them from outside input: write $1, $2, ... and pass values[]. Types are inferred as in
 *   PREPARE, or write $1::int. Columns are named directly or as t.name. The search path of an
 *   opened handle is pg_catalog: write public.f(x) for your functions, and give functions of
 *   triggers a search_path of their own.
 * - claimable is also the condition of an index. Its columns are named without t. and are not
 *   virtual generated columns. Its functions are immutable.
 * - Rights: statements run with the rights of the handle's role, which needs SELECT and UPDATE on
 *   the table. Row security applies: a row that a policy hides does not exist.
 * - Limits: no views, foreign or temporary tables, tables with rules, or parents of inheritance.
 *   Rows of children that are added later are left alone. A partitioned table works if the key
 *   includes the columns of the partition, and updates use the role `version` or none.
 */

/** Describes a table. A role that is NULL is not used. */
/* clang-format off */
typedef struct pgw_table_spec {
    size_t struct_size;
    const char *schema;     /* NULL: "public" */
    const char *table;
    const char *const *key; /* columns of a unique key, all NOT NULL: 1 .. 8 of them */
    size_t key_count;
    const char *locked_by;  /* leases: the holder; text, varchar, smallint, integer, bigint or uuid */
    const char *expires_at; /* leases: the end; timestamptz; NULL in a row: free */
    const char *token;      /* leases: the fencing token; uuid */
    const char *version;    /* optimistic writes: smallint, integer, bigint (counts) or uuid (random), NOT NULL */
    const char *claimable;  /* fragment: the rows that may be claimed, "reviewed IS NULL"; NULL: every row */
} pgw_table_spec;
#define PGW_TABLE_SPEC_INIT {sizeof(pgw_table_spec), NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL}
/* clang-format on */

/**
 * Finds a table and compares it with the description. It finds and names every mistake.
 *
 * @param h     the handle
 * @param spec  the description, copied
 * @param t     takes the table; the caller owns it (free with pgw_table_free). It is constant and
 *              not bound to @p h: any handle on the same database, in any thread, may use it.
 *              pgw_table_process() also needs the same property `schema`, and a role with the same
 *              rights there.
 * @returns
 * - PGW_OK. Indexes may still be missing: then leases work, but each claim reads the whole table.
 * - PGW_EINVAL: an invalid name, a column of the wrong type, no unique key over these columns, or a
 *   kind of table that is not supported
 * - PGW_ENOTFOUND: no such schema, table or key column
 * - PGW_EPERM: the role may not read and write it
 * - PGW_ESCHEMA: columns of the roles are missing. In this case only, @p t is set after a failure,
 *   for pgw_table_sql() and pgw_table_init().
 * @note Takes several round trips, and cannot be armed.
 *
 *     const char *key[] = {"journal", "number"};
 *     pgw_table_spec s = PGW_TABLE_SPEC_INIT;
 *     s.table = "article", s.key = key, s.key_count = 2;
 *     s.locked_by = "locked_by", s.expires_at = "expires_at", s.token = "token";
 *     pgw_table *t;
 *     st = pgw_table_open(h, &s, &t);
 *     if (t != NULL && *pgw_table_sql(t) != '\0') { // columns, or indexes only
 *         puts(pgw_table_sql(t));
 *         pgw_set_timeout(h, 3600 * 1000);
 *         st = pgw_table_init(h, t);
 *         pgw_set_timeout(h, PGW_DEFAULT);
 *         pgw_table_free(t), t = NULL;
 *         if (st == PGW_OK) st = pgw_table_open(h, &s, &t);
 *     }
 *     if (st != PGW_OK) fprintf(stderr, "%s\n", pgw_error_message(h));
 */
PGW_API pgw_status pgw_table_open(pgw *h, const pgw_table_spec *spec, pgw_table **t);
/**
 * Frees a table.
 *
 * @param t  may be NULL
 * @note All verbs on it must have returned. For an armed verb, `done` must have been called.
 */
PGW_API void pgw_table_free(pgw_table *t);
/**
 * Returns the statements that add missing columns and indexes: the columns of the roles, and the
 * two indexes of claims. One index is on the end of the lease and the key, for `claimable` rows.
 * The other is on the holder.
 *
 * @param t  the table
 * @returns borrowed until pgw_table_free(); "": nothing is missing
 */
PGW_API const char *pgw_table_sql(const pgw_table *t);
/**
 * Runs pgw_table_sql(): the columns first, then each index CONCURRENTLY, so the table stays in use.
 * Open the table again afterwards.
 *
 * @param h  an opened handle
 * @param t  the table
 * @returns
 * - PGW_OK
 * - PGW_EMISUSE: in a transaction, or on an attached handle
 * - PGW_ELOCKED: another process that runs it, or a transaction that uses the table, took too long
 * - PGW_EPERM: only the table's owner may
 * - PGW_EINVAL: `claimable` is not a condition for an index
 * @note An index of a large table takes long: raise the deadline with pgw_set_timeout(). While a
 *   transaction that uses the table is open, adding columns is tried for half a second at a time.
 *   Several processes may call it at once: one adds, the others wait.
 * @note Indexes of a partitioned table cannot be created concurrently, so writers wait. To avoid
 *   that, first create the same index CONCURRENTLY on each partition. It is then attached.
 */
PGW_API pgw_status pgw_table_init(pgw *h, const pgw_table *t);

/** Names a leased row, proves that the caller holds it, and takes the outcome of a verb. The key is
 * borrowed. */
typedef struct pgw_row_ref {
    const char *const *key;
    pgw_token token;
    pgw_status outcome; /* output: each verb that takes refs sets it, see pgw_table_extend() */
} pgw_row_ref;

/**
 * Return parts of rows: their number, the requested columns, a value by position or by name, the
 * values of the key, the version for pgw_table_update(), and the end of the lease.
 *
 * @param rows    the rows
 * @param row     0..count-1
 * @param column  its position, 0..columns-1, or its name
 * @returns strings are borrowed until pgw_rows_free(); NULL is SQL NULL, or a row or column that
 *   does not exist
 *
 *     for (size_t i = 0; i < pgw_rows_count(rows); i++) {
 *         printf("%s, version %s, until %" PRId64 "\n", pgw_rows_key(rows, i)[0],
 *                pgw_rows_version(rows, i), pgw_rows_lease_until_us(rows, i));
 *         for (size_t c = 0; c < pgw_rows_columns(rows); c++)
 *             if (pgw_rows_at(rows, i, c) != NULL) puts(pgw_rows_name(rows, c));
 *     }
 *     pgw_rows_free(rows);
 */
PGW_API size_t pgw_rows_count(const pgw_rows *rows);
PGW_API size_t pgw_rows_columns(const pgw_rows *rows);
PGW_API const char *pgw_rows_name(const pgw_rows *rows, size_t column);
PGW_API const char *pgw_rows_at(const pgw_rows *rows, size_t row, size_t column);
PGW_API const char *pgw_rows_get(const pgw_rows *rows, size_t row, const char *column);
PGW_API const char *const *pgw_rows_key(const pgw_rows *rows, size_t row);
PGW_API const char *pgw_rows_version(const pgw_rows *rows, size_t row);
PGW_API int64_t pgw_rows_lease_until_us(const pgw_rows *rows, size_t row);
PGW_API void pgw_rows_free(pgw_rows *rows);
/**
 * Returns the reference of a claimed row.
 *
 * @param rows  the rows
 * @param row   0..count-1
 * @returns its key is borrowed until pgw_rows_free()
 */
PGW_API pgw_row_ref pgw_rows_ref(const pgw_rows *rows, size_t row);

/* ---- leases ---- */
/* clang-format off */
typedef struct pgw_table_claim_opts {
    size_t struct_size;
    int max;             /* 1 .. 10,000 rows */
    const char *holder;  /* name of the holder; NULL: property `holder`, or, if that is empty, a name of this handle only */
    int64_t lease_ms;    /* 100 .. 31,536,000,000 (a year) */
    const char *where;   /* fragment: which rows; NULL: all that are claimable */
    const char *order;   /* fragment: the order; NULL: free rows by key, then rows by the end of their leases */
    const char *const *values; /* of $1, $2, ... in both */
    size_t values_count;       /* up to 32 */
    const char *const *columns; /* returned, beside key and token; they must live until the answer is there */
    size_t columns_count;       /* up to 256 */
} pgw_table_claim_opts;
#define PGW_TABLE_CLAIM_OPTS_INIT {sizeof(pgw_table_claim_opts), 1, NULL, 30000, NULL, NULL, NULL, 0, NULL, 0}
/* clang-format on */

/**
 * Leases up to opts->max rows to the holder. Rows that this holder already has come first, with a
 * new lease and the same token. Then come free rows and rows whose lease is over.
 *
 * @param h     the handle
 * @param t     the table
 * @param opts  which rows, for whom; NULL: the defaults
 * @param rows  takes the rows; the caller owns them (free with pgw_rows_free)
 * @returns
 * - PGW_OK
 * - PGW_OUTCOME_EMPTY: none, *rows is NULL
 * - PGW_EPERM: there are rows, but a trigger of the table prevented the write of each
 * - PGW_EINVAL: also a holder that does not fit the type of `locked_by`
 * - PGW_EUNKNOWN, or PGW_ENOMEM after the server has answered: the rows are leased. The next claim
 *   of this holder returns them.
 * @note A holder name must stand for one actor. The default stands for this handle only. A program
 *   that wants its rows back after a restart must set a name.
 * @note Rows under a live lease, and rows that another transaction has locked, are skipped without
 *   waiting. Every new lease has a new token. Its number grows for a row, also across releases. On
 *   an attached handle a ROLLBACK undoes the claim.
 *
 *     const char *columns[] = {"title"}, *values[] = {"physics"};
 *     pgw_table_claim_opts o = PGW_TABLE_CLAIM_OPTS_INIT;
 *     o.max = 10, o.holder = "reviewer 7", o.lease_ms = 3600000;
 *     o.where = "subject = $1", o.order = "submitted_at", o.values = values, o.values_count = 1;
 *     o.columns = columns, o.columns_count = 1;
 *     pgw_rows *rows;
 *     if (pgw_table_claim(h, t, &o, &rows) == PGW_OK) {
 *         const char *title = pgw_rows_get(rows, 0, "title"); // NULL: it is NULL
 *         puts(title != NULL ? title : "without a title");
 *     }
 *     pgw_rows_free(rows);
 */
PGW_API pgw_status pgw_table_claim(pgw *h, const pgw_table *t, const pgw_table_claim_opts *opts,
                                   pgw_rows **rows);

/*
 * Finishing verbs, for 1..10000 rows in one statement. A row is accepted if and only if its token
 * is the current one, even after its lease has ended. Then refs[i].outcome is:
 *
 *   PGW_OK         accepted
 *   PGW_ELEASE     released, reaped or claimed again since
 *   PGW_ENOTFOUND  the row is gone
 *   PGW_EPERM      a trigger of the table prevented the write
 *   PGW_EUNKNOWN   there is no answer yet, or the whole call has failed
 *
 * Rows are locked in the order of their keys, so callers do not deadlock.
 */

typedef struct pgw_table_extend_opts {
    size_t struct_size;
    int64_t lease_ms; /* from now, 100 .. 31,536,000,000 (a year). Default: 30 s. */
} pgw_table_extend_opts;
/* clang-format off */
#define PGW_TABLE_EXTEND_OPTS_INIT {sizeof(pgw_table_extend_opts), 30000}
/* clang-format on */
/**
 * Extends leases.
 *
 * @param h     the handle
 * @param t     the table
 * @param refs  rows and tokens. The outcome of each becomes PGW_OK (accepted), PGW_ELEASE
 * (released, reaped or claimed again since), PGW_ENOTFOUND (deleted or hidden) or PGW_EPERM (a
 *              trigger of the table prevented the write).
 * @param n     1..10000
 * @param opts  the new lease; NULL: the defaults
 * @returns
 * - PGW_OK: all were accepted
 * - PGW_ELEASE: at least one was refused; the others are done
 *
 *     const char *values[] = {"accepted"};
 *     pgw_table_finish_opts o = PGW_TABLE_FINISH_OPTS_INIT;
 *     pgw_row_ref row = pgw_rows_ref(rows, 0);
 *     o.set = "reviewed = now(), verdict = $1", o.values = values, o.values_count = 1;
 *     if (pgw_table_extend(h, t, &row, 1, NULL) != PGW_OK) return;
 *     st = pgw_table_finish(h, t, &row, 1, &o);
 *     if (st < 0 && !pgw_is_lost(st)) st = pgw_table_release(h, t, &row, 1);
 */
PGW_API pgw_status pgw_table_extend(pgw *h, const pgw_table *t, pgw_row_ref *refs, size_t n,
                                    const pgw_table_extend_opts *opts);
/**
 * Releases rows: they are free.
 *
 * @param h     the handle
 * @param t     the table
 * @param refs  rows and tokens; takes their outcomes, as in pgw_table_extend()
 * @param n     1..10000
 * @returns as pgw_table_extend()
 */
PGW_API pgw_status pgw_table_release(pgw *h, const pgw_table *t, pgw_row_ref *refs, size_t n);

typedef struct pgw_table_finish_opts {
    size_t struct_size;
    const char *set;           /* a fragment, not NULL: "reviewed = now(), verdict = $1" */
    const char *const *values; /* of $1, $2, ... */
    size_t values_count;       /* up to 32 */
} pgw_table_finish_opts;
/* clang-format off */
#define PGW_TABLE_FINISH_OPTS_INIT {sizeof(pgw_table_finish_opts), NULL, NULL, 0}
/* clang-format on */
/**
 * Writes rows and frees them. It also changes the role `version`.
 *
 * @param h     the handle
 * @param t     the table
 * @param refs  rows and tokens; takes their outcomes, as in pgw_table_extend()
 * @param n     1..10000
 * @param opts  not NULL: what to write
 * @returns as pgw_table_extend()
 * - PGW_EEXISTS: a unique key of the table; nothing is done
 * - PGW_EDB: another constraint or a trigger; nothing is done
 */
PGW_API pgw_status pgw_table_finish(pgw *h, const pgw_table *t, pgw_row_ref *refs, size_t n,
                                    const pgw_table_finish_opts *opts);
/**
 * Frees rows whose lease is over. Claims do not need it; it helps programs that read the columns.
 *
 * @param h      the handle
 * @param t      the table
 * @param batch  1..10000: at most this many
 * @param freed  takes how many; may be NULL
 * @returns PGW_OK, or an error of any verb
 *
 *     do st = pgw_table_reap(h, t, 1000, &n);
 *     while (st == PGW_OK && n == 1000);
 */
PGW_API pgw_status pgw_table_reap(pgw *h, const pgw_table *t, int batch, int64_t *freed);

/* ---- optimistic writes ---- */
/** A column and the value it gets; NULL is SQL NULL. */
typedef struct pgw_cell {
    const char *column, *value;
} pgw_cell;

#define PGW_ROW_VERSION_SIZE 80 /* bytes for a version as text, with the end */

typedef struct pgw_table_get_opts {
    size_t struct_size;
    const char *const *key;     /* the values of its key, not NULL */
    const char *const *columns; /* to read, as in a claim */
    size_t columns_count;
} pgw_table_get_opts;
/* clang-format off */
#define PGW_TABLE_GET_OPTS_INIT {sizeof(pgw_table_get_opts), NULL, NULL, 0}
/* clang-format on */
/**
 * Reads one row with its version.
 *
 * @param h     the handle
 * @param t     the table
 * @param opts  not NULL: which row and columns
 * @param rows  takes the row; the caller owns it (free with pgw_rows_free)
 * @returns
 * - PGW_OK
 * - PGW_ENOTFOUND: no such row
 *
 *     const char *key[] = {"physics", "7"}, *columns[] = {"title"};
 *     const pgw_cell cells[] = {{"title", "On rows"}, {"subtitle", NULL}};
 *     pgw_table_get_opts get = PGW_TABLE_GET_OPTS_INIT;
 *     pgw_table_update_opts put = PGW_TABLE_UPDATE_OPTS_INIT;
 *     char next[PGW_ROW_VERSION_SIZE];
 *     get.key = key, get.columns = columns, get.columns_count = 1;
 *     if (pgw_table_get(h, t, &get, &rows) != PGW_OK) return;
 *     put.key = key, put.version = pgw_rows_version(rows, 0);
 *     put.cells = cells, put.cells_count = 2;
 *     st = pgw_table_update(h, t, &put, next);
 *     if (st == PGW_ECONFLICT) puts("another writer was faster");
 *     pgw_rows_free(rows);
 */
PGW_API pgw_status pgw_table_get(pgw *h, const pgw_table *t, const pgw_table_get_opts *opts,
                                 pgw_rows **rows);

typedef struct pgw_table_update_opts {
    size_t struct_size;
    const char *const *key; /* the values of its key, not NULL */
    const char *version;    /* as pgw_rows_version() returned it, not NULL */
    const pgw_cell *cells;  /* what to write, not NULL */
    size_t cells_count;     /* 1 .. 32 */
} pgw_table_update_opts;
/* clang-format off */
#define PGW_TABLE_UPDATE_OPTS_INIT {sizeof(pgw_table_update_opts), NULL, NULL, NULL, 0}
/* clang-format on */
/**
 * Writes a row if it still has this version.
 *
 * @param h     the handle
 * @param t     the table
 * @param opts  not NULL: which row, which version, and what to write
 * @param next  takes the next version; may be NULL. "": it is unknown, so read the row again.
 * @returns
 * - PGW_OK
 * - PGW_ECONFLICT: another session wrote or deleted the row since it was read; read it again. A
 *   trigger or a policy that prevents the write also returns this. pgw_table_process()
 *   distinguishes the two.
 * - PGW_ENOTFOUND: the row does not exist
 * - PGW_EINVAL: a column that does not exist, is generated, or has a role
 * - PGW_EEXISTS: a unique key of the table
 * @note If AFTER UPDATE triggers may write the row again, @p next is the version after them, read
 *   in the same transaction. It is "" if a trigger is deferred to the commit, the call is armed, or
 *   the handle is attached and no transaction is open. The version of a claimed row is the one
 *   before such triggers.
 * @note With the role `version` the version is that column, and every writer must change it. A
 *   number is incremented and wraps around: a version matches again after 2^16 writes of a
 *   smallint, 2^32 of an integer. After a failover to an asynchronous standby a lost number is used
 *   again, for another state of the row. A uuid avoids both.
 * @note Without the role the version is xmin and ctid of the row, with the number of transactions
 *   and the timeline at the time of reading. It needs no column, and every write changes it, also a
 *   claim or a trigger. A version is valid for 2^30 transactions, and not across a failover or a
 *   rewrite of the table (VACUUM FULL, ALTER TYPE): then the call returns PGW_ECONFLICT. It may
 *   miss a write after a restore from a dump or a copy, or after a crash while others wrote with
 *   synchronous_commit off. It needs SELECT on the whole table, and does not work for partitioned
 *   tables (PGW_EMISUSE).
 */
PGW_API pgw_status pgw_table_update(pgw *h, const pgw_table *t, const pgw_table_update_opts *opts,
                                    char next[PGW_ROW_VERSION_SIZE]);

/**
 * Returns the value of a column: as set in this try, else as read.
 *
 * @param edit    the row
 * @param column  its name
 * @returns borrowed until the column is set, or the pgw_edit_fn returns
 */
PGW_API const char *pgw_edit_get(const pgw_edit *edit, const char *column);
/**
 * Sets a column.
 *
 * @param edit    the row
 * @param column  its name
 * @param value   copied; NULL is SQL NULL
 * @returns
 * - PGW_OK
 * - PGW_EINVAL: a column that was not read, is generated, or has a role
 * - PGW_ELIMIT: more than 32
 * - PGW_ENOMEM
 */
PGW_API pgw_status pgw_edit_set(pgw_edit *edit, const char *column, const char *value);
/**
 * Reads the row and sets the columns that should change. It may be called several times, so it must
 * have no other effect. Any error that it returns ends the processing.
 */
typedef pgw_status pgw_edit_fn(pgw_edit *edit, void *arg);

/* clang-format off */
typedef struct pgw_table_process_opts {
    size_t struct_size;
    const char *const *key;     /* the values of its key, not NULL */
    const char *const *columns; /* to read; NULL: all */
    size_t columns_count;
    int tries;      /* 1 .. 100,000 */
    const char *op; /* operation id, a UUID as text: the change is applied once over several calls; NULL: a random one */
} pgw_table_process_opts;
#define PGW_TABLE_PROCESS_OPTS_INIT {sizeof(pgw_table_process_opts), NULL, NULL, 0, 20, NULL}
/* clang-format on */
/**
 * Reads a row, calls @p fn, and writes the columns that it set, if the row is unchanged. Otherwise,
 * and after deadlocks and serialization failures, it starts again, with jitter.
 *
 * @param h     the handle
 * @param t     the table
 * @param opts  not NULL: which row, columns, tries and operation id
 * @param fn    sets the columns that should change. If it sets nothing, or only equal values,
 *              nothing is written.
 * @param arg   its second argument
 * @returns
 * - PGW_OK
 * - PGW_OUTCOME_REPEATED: opts->op was applied by an earlier call. A call that changed nothing
 *   keeps no id, so a later call may still change something.
 * - the error that @p fn returned
 * - PGW_ECONFLICT: given up after opts->tries
 * - PGW_EPERM: two writes in a row failed although the version did not change, so a trigger or a
 *   policy of the table prevents them
 * - PGW_ENOTFOUND
 * - PGW_EINVAL: also when the version in the row is NULL
 * - PGW_EEXISTS: a unique key of the table
 * - PGW_EUNKNOWN: the answer to a try was lost, and its outcome could not be read; or that try may
 *   still commit, and a later try, or @p fn, ended with an error
 * - PGW_ESCHEMA: opts->op without the schema pgwork
 * @note If the schema pgwork is installed and the role may use it (pgwork_worker, pgwork_producer),
 *   an operation id is written in the same transaction. After a lost answer the library reads it,
 *   so the change is never applied twice. Your ids are kept for a day (setting op_retention_ms), a
 *   random one until the next write of the handle.
 * @note Inside a transaction nothing is repeated after an error of the server: repeat the
 *   transaction.
 *
 *     static pgw_status add(pgw_edit *e, void *arg)
 *     {
 *         char sum[32];
 *         long was = strtol(pgw_edit_get(e, "count"), NULL, 10);
 *         snprintf(sum, sizeof(sum), "%ld", was + *(long *)arg);
 *         return pgw_edit_set(e, "count", sum);
 *     }
 *
 *     const char *key[] = {"physics", "7"};
 *     pgw_table_process_opts o = PGW_TABLE_PROCESS_OPTS_INIT;
 *     long amount = 3;
 *     o.key = key;
 *     st = pgw_table_process(h, t, &o, add, &amount);
 */
PGW_API pgw_status pgw_table_process(pgw *h, const pgw_table *t, const pgw_table_process_opts *opts,
                                     pgw_edit_fn *fn, void *arg);

/* ---- row locks ---- */
typedef enum pgw_row_lock {
    PGW_ROW_LOCK_UPDATE,
    PGW_ROW_LOCK_NO_KEY_UPDATE,
    PGW_ROW_LOCK_SHARE,
    PGW_ROW_LOCK_KEY_SHARE
} pgw_row_lock;
/* clang-format off */
typedef struct pgw_table_lock_opts {
    size_t struct_size;
    pgw_row_lock strength;
    int64_t wait_ms;            /* longest wait per row; 0: none; PGW_DEFAULT: until the deadline of the call */
    bool skip;                  /* true: leave out locked rows; wait_ms is ignored */
    const char *const *keys;    /* keys_count keys, one after the other, each with all its values; NULL: by where */
    size_t keys_count;          /* up to 10,000 */
    const char *where;          /* fragment, also beside keys; NULL: all */
    const char *const *values;
    size_t values_count;
    int max;                    /* at most this many rows, lowest keys first, or PGW_UNLIMITED */
    const char *const *columns; /* as in a claim */
    size_t columns_count;
} pgw_table_lock_opts;
#define PGW_TABLE_LOCK_OPTS_INIT {sizeof(pgw_table_lock_opts), PGW_ROW_LOCK_NO_KEY_UPDATE, PGW_DEFAULT, false, NULL, 0, NULL, NULL, 0, PGW_UNLIMITED, NULL, 0}
/* clang-format on */
/**
 * Locks rows until the end of the transaction, in the order of their keys. Callers that lock all
 * their rows in one call cannot deadlock.
 *
 * @param h     the handle
 * @param t     the table
 * @param opts  which rows, and how; NULL: the defaults
 * @param rows  takes the locked rows, in that order; the caller owns them (free with pgw_rows_free)
 * @returns
 * - PGW_OK
 * - PGW_OUTCOME_EMPTY: no such rows
 * - PGW_ELOCKED (wait_ms 0), PGW_ETIMEDOUT: another transaction has locked a row
 * - PGW_EMISUSE: no transaction is open
 * @note After an error the transaction has failed: roll it back.
 *
 *     const char *keys[] = {"physics", "7", "physics", "9"};
 *     pgw_table_lock_opts o = PGW_TABLE_LOCK_OPTS_INIT;
 *     o.keys = keys, o.keys_count = 2, o.wait_ms = 1000;
 *     if (pgw_txn_begin(h) != PGW_OK) return;
 *     st = pgw_table_lock(h, t, &o, &rows);
 *     if (st == PGW_OK) work("on both, by verbs on the same handle");
 *     if (st == PGW_OK) pgw_txn_commit(h);
 *     else pgw_txn_rollback(h);
 *     pgw_rows_free(rows);
 */
PGW_API pgw_status pgw_table_lock(pgw *h, const pgw_table *t, const pgw_table_lock_opts *opts,
                                  pgw_rows **rows);

/* ---- tables whose expired leases the reaper frees (operator) ---- */
/**
 * Registers a table, so that pgw_tables_reap() and every running reaper (once a second) free its
 * expired rows. It may be repeated.
 *
 * @param h  the handle
 * @param t  the table
 * @returns PGW_OK, or an error of any verb
 * @note Registering grants nothing: the role of the reaper needs SELECT and UPDATE on the table.
 * @note Triggers of the table, and functions in its indexes and constraints, run with the rights of
 *   the reaper. Register only tables whose owner may have these rights. Grant pgwork_operator,
 *   which may register tables, only to such roles. If the owner of a table changes, reapers skip it
 *   until it is registered again.
 *
 *     static int show(const pgw_table_info *i, void *arg)
 *     {
 *         return fprintf(arg, "%s.%s %s\n", i->schema, i->table, i->error) < 0;
 *     }
 *
 *     st = pgw_table_register(h, t);
 *     if (st == PGW_OK) st = pgw_tables_reap(h, 1000, &n);
 *     if (st == PGW_OK) st = pgw_tables_each(h, show, stdout);
 *     if (st == PGW_OK) st = pgw_table_unregister(h, "public", "article");
 */
PGW_API pgw_status pgw_table_register(pgw *h, const pgw_table *t);
/**
 * Removes a table from the register. Its rows do not change.
 *
 * @param h       the handle
 * @param schema  its schema
 * @param table   its name
 * @returns
 * - PGW_OK
 * - PGW_ENOTFOUND: not registered
 */
PGW_API pgw_status pgw_table_unregister(pgw *h, const char *schema, const char *table);
typedef struct pgw_table_info {
    size_t struct_size;
    const char *schema, *table, *locked_by, *expires_at, *token;
    const char *error; /* why the last pass of a reaper failed; "": it succeeded */
    int64_t reaped_us; /* when rows were last freed; PGW_NONE: never */
} pgw_table_info;
/**
 * Lists the registered tables.
 *
 * @param h    the handle
 * @param fn   called for each until it returns non-zero
 * @param arg  its second argument
 * @returns
 * - PGW_OK
 * - PGW_OUTCOME_EMPTY: there is none
 */
PGW_API pgw_status pgw_tables_each(pgw *h, int (*fn)(const pgw_table_info *info, void *arg),
                                   void *arg);
/**
 * Makes one pass over all registered tables. Also deletes old operation ids.
 *
 * @param h      an opened handle
 * @param batch  at most this many rows of each table
 * @param freed  takes how many, also after a failure; may be NULL
 * @returns
 * - PGW_OK
 * - PGW_EMISUSE: on an attached handle, or in a transaction
 * @note An error of one table is recorded with it and does not stop the others. Nor does a row that
 *   cannot be freed: the error names its key. Each new error is logged (PGW_LOG_WARN). A locked
 *   table is waited for at most half a second. After a pass of 200 ms or more, all reapers skip the
 *   table for twenty times as long, up to ten minutes; after a row that cannot be freed, for ten
 *   seconds. A stop ends the pass after the current table.
 */
PGW_API pgw_status pgw_tables_reap(pgw *h, int batch, int64_t *freed);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
