/* sql: the registry of statements (src/sql) and migrations, with the name of the schema inserted.
 * Texts come from sql_data.inc, which sql2c.awk makes from the .sql files. */
#ifndef PGW_SQL_H
#define PGW_SQL_H

#include <stddef.h>

#include "pgwork.h"

typedef enum pgw__sql {
#define PGW__SQL(ID, NAME, TEXT) PGW__SQL_##ID,
#include "sql_data.inc"
    PGW__SQL_COUNT
} pgw__sql;

/* Versions of the schema that this library works with: from the last one on that a statement of its
 * own needs. */
#define PGW__SCHEMA_MIN 18
#define PGW__SCHEMA_MAX pgw__sql_migrations()

const char *pgw__sql_name(pgw__sql id);
const char *pgw__sql_text(pgw__sql id); /* with the literal pgwork. */
/* Puts the schema's name in place of `pgwork.` and `SCHEMA pgwork` (whole words). Caller frees with
 * pgw__mem_free. NULL: out of memory. */
char *pgw__sql_in_schema(const char *text, const char *schema);

int pgw__sql_migrations(void); /* how many, numbered 1.. */
const char *pgw__sql_migration_name(int number);
const char *pgw__sql_migration_text(int number);
#define PGW__SQL_SUM 17 /* 16 hexadecimal digits and the end */
/* Tells a changed text from the applied one. It guards against accidents, not against malice. */
void pgw__sql_checksum(char sum[PGW__SQL_SUM], int number);
/* The first migration that was applied with another text than this library has; 0: none. applied:
 * checksums from the first migration on, with commas between. */
int pgw__sql_differs(const char *applied);
#define PGW__SQL_DIFFERS                                                            \
    "use the pgwork that created this schema; drop a schema from before the first " \
    "release, with its jobs, and migrate again"

#endif
