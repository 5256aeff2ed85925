/* SPDX-License-Identifier: PostgreSQL
 *
 * @file pgwork/admin.h
 * Migrations for the owner of the schema, and the doctor for operators.
 */
#ifndef PGWORK_ADMIN_H
#define PGWORK_ADMIN_H

#include <pgwork/handle.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------- */
/** @name Migrations (owner) @{
 * For a handle from pgw_open() with `schema.check` off, because there is no schema to check yet.
 * These verbs cannot be armed.
 *
 *     static int show(const pgw_migration *m, void *arg)
 *     {
 *         return fprintf(arg, "%d %s: %s\n", m->number, m->name, m->state) < 0;
 *     }
 *
 *     int applied;
 *     st = pgw_migrate_up(h, &applied);
 *     if (st == PGW_OK && applied > 0) st = pgw_migrations_each(h, show, stdout);
 */
/* clang-format off */
typedef struct pgw_migration {
    int number;        /* 1, 2, ... without gaps */
    const char *name;  /* "0001_tables.sql" */
    const char *sql;   /* as it would run, the schema's name in place; "" when unknown */
    const char *state; /* applied, pending, changed (checksum differs), unknown (newer than this library) */
} pgw_migration;
/* clang-format on */
/**
 * Lists each known and each applied migration, lowest number first, for status and dry runs.
 *
 * @param h    the handle
 * @param fn   called for each until it returns non-zero
 * @param arg  its second argument
 * @returns PGW_OK, or an error of any verb
 * @note If the schema does not exist, all migrations are pending.
 */
PGW_API pgw_status pgw_migrations_each(pgw *h, int (*fn)(const pgw_migration *m, void *arg),
                                       void *arg);
/**
 * Applies pending migrations, each in its own transaction, all under one advisory lock.
 *
 * @param h        the handle
 * @param applied  takes how many, also after a failure; may be NULL
 * @returns
 * - PGW_OK
 * - PGW_ESCHEMA: the schema is newer, an applied migration was changed, or the database is not
 *   encoded in UTF8
 * - PGW_EINVAL: the schema's name is a key word of SQL
 * @note It may be repeated, and several programs may run it at once. Each statement, and the wait
 *   for another migrator, has the deadline of pgw_set_timeout().
 */
PGW_API pgw_status pgw_migrate_up(pgw *h, int *applied);
/** @} */

/* ------------------------------------------------------------------------------------------- */
/** @name Doctor (operator) @{ */
typedef enum pgw_grade { PGW_GRADE_GOOD, PGW_GRADE_NOTE, PGW_GRADE_BAD } pgw_grade;
typedef struct pgw_finding {
    pgw_grade grade;
    const char *check, *text, *advice;
} pgw_finding;
/**
 * Checks the server settings, the schema, roles, reapers, expired leases, queues (paused or drained
 * ones, jobs that nobody claims, dead letters), schedules, held snapshots, bloat, indexes and the
 * clock.
 *
 * @param h    a handle from pgw_open() with `schema.check` off, not armed, without an open
 *             transaction
 * @param fn   called for each finding until it returns non-zero
 * @param arg  its second argument
 * @returns PGW_OK, also when findings are bad; or an error of any verb
 * @note A check that cannot be made is a finding, too. A check that waits for a lock is given up
 *   after two seconds.
 *
 *     static int show(const pgw_finding *f, void *arg)
 *     {
 *         if (f->grade == PGW_GRADE_BAD) fprintf(arg, "%s: %s %s\n", f->check, f->text, f->advice);
 *         return 0;
 *     }
 *
 *     st = pgw_doctor(h, show, stderr);
 */
PGW_API pgw_status pgw_doctor(pgw *h, int (*fn)(const pgw_finding *f, void *arg), void *arg);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
