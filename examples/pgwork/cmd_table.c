/* SPDX-License-Identifier: PostgreSQL
 *
 * pgwork table: checks and completes your own tables, and registers them with the reapers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "opts.h"
#include "out.h"
#include "text.h"

/* The options of all verbs that describe a table. */
typedef struct description {
    pgw_table_spec spec;
    wordlist key;
    bool no_lease;
} description;

/* clang-format off */
#define TABLE_OPTIONS(d) \
    {0, "in", "SCHEMA", "schema of the table (public)", .text = &(d).spec.schema}, \
    {'k', "key", "COLUMN", "column of the key; once for each column", .words = &(d).key}, \
    {0, "locked-by", "COLUMN", "column for the holder (locked_by)", .text = &(d).spec.locked_by}, \
    {0, "expires-at", "COLUMN", "column for the end of the lease (expires_at)", .text = &(d).spec.expires_at}, \
    {0, "token", "COLUMN", "column for the fencing token (token)", .text = &(d).spec.token}, \
    {0, "no-lease", NULL, "the table has no leases", .flag = &(d).no_lease}, \
    {0, "version", "COLUMN", "column for the version (none)", .text = &(d).spec.version}, \
    {0, "claimable", "SQL", "condition for rows that a claim may take", .text = &(d).spec.claimable}
/* clang-format on */

#define TABLE_WORDS "TABLE -k COLUMN... [OPTIONS]"

static description table_described(void)
{
    description d = {.spec = PGW_TABLE_SPEC_INIT};
    d.spec.locked_by = "locked_by";
    d.spec.expires_at = "expires_at";
    d.spec.token = "token";
    return d;
}

/* Opens the table. PGW_ESCHEMA, which means missing columns or indexes, leaves *t open. */
static int table_open(cli *c, pgw_table **t, description *d, const char *name)
{
    *t = NULL;
    if (d->key.count == 0)
        return cli_fail(CLI_USAGE, NULL, "%s: no key: give -k COLUMN, once for each column",
                        c->command);
    d->spec.table = name;
    d->spec.key = d->key.at;
    d->spec.key_count = d->key.count;
    if (d->no_lease) d->spec.locked_by = d->spec.expires_at = d->spec.token = NULL;
    int code = cli_open(c, false);
    pgw_status st = code == CLI_DONE ? pgw_table_open(c->h, &d->spec, t) : PGW_OK;
    free(d->key.at); /* the table has a copy */
    d->key = (wordlist){0};
    if (code != CLI_DONE) return code;
    return st == PGW_OK || (st == PGW_ESCHEMA && *t) ? CLI_DONE : cli_fail_at(c->h);
}

/* Prints statements. They may contain any name, so all control characters except newlines are
 * escaped. */
static void table_print(const char *sql)
{
    if (!isatty(STDOUT_FILENO)) {
        fputs(sql, stdout);
        return;
    }
    for (size_t n; *sql; sql += n + (sql[n] == '\n')) {
        n = strcspn(sql, "\n");
        char *line = cli_copy(sql, n), *visible = out_visible(line);
        puts(visible);
        free(visible);
        free(line);
    }
}

static int table_check(cli *c, int argc, char **argv)
{
    description d = table_described();
    const opt opts[] = {TABLE_OPTIONS(d), {.name = NULL}};
    static const usage use = {
        .synopsis = "table check " TABLE_WORDS,
        .about = "Compares a table with its description: key, types, columns, indexes, rights.",
        .more = "Exit code 1: columns or indexes are missing. `pgwork table init` adds them.",
        .min = 1,
        .max = 1,
        .missing = "TABLE",
    };
    args a;
    pgw_table *t;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = table_open(c, &t, &d, a.at[0])) != CLI_DONE) return code;
    if (pgw_error_status(c->h) == PGW_ESCHEMA) {
        cli_fail_at(c->h);
        code = CLI_NOTHING;
    } else if (*pgw_table_sql(t)) {
        code =
            cli_fail(CLI_NOTHING,
                     "`pgwork table init` prints the statements that add them, --apply runs them",
                     "%s: indexes are missing", a.at[0]);
    } else {
        cli_say(c, "%s is as described", a.at[0]);
    }
    pgw_table_free(t);
    return cli_finish(code);
}

static int table_init(cli *c, int argc, char **argv)
{
    description d = table_described();
    bool apply = false;
    int64_t timeout_ms = 3600000;
    const opt opts[] = {TABLE_OPTIONS(d),
                        {0, "apply", NULL, "run the statements", .flag = &apply},
                        {0, "timeout", "TIME", "timeout of each statement (1h)", .ms = &timeout_ms,
                         .min = 1, .max = CLI_YEAR},
                        {.name = NULL}};
    static const usage use = {
        .synopsis = "table init " TABLE_WORDS " [--apply]",
        .about = "Prints the statements that add the missing columns and indexes of a table.\n"
                 "--apply also runs them. The table stays in use, unless it is partitioned: then\n"
                 "writers wait until the indexes exist (see the manual page).",
        .min = 1,
        .max = 1,
        .missing = "TABLE",
    };
    args a;
    pgw_table *t;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = table_open(c, &t, &d, a.at[0])) != CLI_DONE) return code;
    table_print(pgw_table_sql(t));
    pgw_set_timeout(c->h, timeout_ms);
    if (!*pgw_table_sql(t)) {
        cli_say(c, "%s is complete", a.at[0]);
    } else if (apply && pgw_table_init(c->h, t) < 0) {
        code = cli_fail_at(c->h);
    }
    pgw_table_free(t);
    return cli_finish(code);
}

/* A pass over all tables continues after an error, and records it with the table. */
static int table_complain(const pgw_table_info *t, void *arg)
{
    int *code = arg;
    if (*t->error)
        *code =
            cli_fail(CLI_NOTHING, "`pgwork table reap TABLE -k COLUMN` tries it at once",
                     "expired rows of `%s`.`%s` are not freed: %s", t->schema, t->table, t->error);
    return 0;
}

static int table_reap(cli *c, int argc, char **argv)
{
    description d = table_described();
    int batch = 1000;
    const opt opts[] = {
        TABLE_OPTIONS(d),
        {0, "batch", "N", "rows per transaction (1000)", .number = &batch, .min = 1, .max = 10000},
        {.name = NULL}};
    static const usage use = {
        .synopsis = "table reap\ntable reap " TABLE_WORDS,
        .about = "Frees rows whose lease has expired, of one table or of all registered tables.",
        .more = "A running reaper does this for registered tables once a second. Ends with 1,\n"
                "and says why, when a table could not be served. This includes tables that the\n"
                "reapers skip for a while.",
        .max = 1,
    };
    args a;
    pgw_table *t = NULL;
    int64_t freed, sum = 0;
    int left = CLI_DONE;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    code = a.count ? table_open(c, &t, &d, a.at[0]) : cli_open(c, false);
    if (code != CLI_DONE) return code;
    do {
        pgw_status st =
            t ? pgw_table_reap(c->h, t, batch, &freed) : pgw_tables_reap(c->h, batch, &freed);
        if (st < 0) code = cli_fail_at(c->h);
        sum += freed;
    } while (code == CLI_DONE && freed > 0);
    if (code == CLI_DONE && !t && pgw_tables_each(c->h, table_complain, &left) < 0)
        code = cli_fail_at(c->h);
    pgw_table_free(t);
    cli_report_done(c, code, "freed", sum, "freed", "row");
    return cli_finish(code != CLI_DONE ? code : left);
}

static int table_register(cli *c, int argc, char **argv)
{
    description d = table_described();
    const opt opts[] = {TABLE_OPTIONS(d), {.name = NULL}};
    static const usage use = {
        .synopsis = "table register " TABLE_WORDS,
        .about = "Lets the reapers free expired rows of the table. They need SELECT and UPDATE on\n"
                 "it. Its triggers run with their rights, so its owner must be trusted.",
        .min = 1,
        .max = 1,
        .missing = "TABLE",
    };
    args a;
    pgw_table *t;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = table_open(c, &t, &d, a.at[0])) != CLI_DONE) return code;
    if (pgw_table_register(c->h, t) < 0) code = cli_fail_at(c->h);
    pgw_table_free(t);
    return code;
}

static int table_unregister(cli *c, int argc, char **argv)
{
    const char *schema = "public";
    const opt opts[] = {{0, "in", "SCHEMA", "schema of the table (public)", .text = &schema},
                        {.name = NULL}};
    static const usage use = {
        .synopsis = "table unregister TABLE [--in SCHEMA]",
        .about = "Stops the reapers from freeing expired rows of the table.",
        .min = 1,
        .max = 1,
        .missing = "TABLE",
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    return pgw_table_unregister(c->h, schema, a.at[0]) < 0 ? cli_fail_of(c->h, a.at[0]) : CLI_DONE;
}

typedef struct listing {
    bool json;
    table rows;
} listing;

static int table_each(const pgw_table_info *t, void *arg)
{
    listing *l = arg;
    char time[TEXT_TIME];
    if (l->json) {
        out o;
        out_begin(&o);
        out_text(&o, "schema", t->schema);
        out_text(&o, "table", t->table);
        out_text(&o, "locked_by", t->locked_by);
        out_text(&o, "expires_at", t->expires_at);
        out_text(&o, "token", t->token);
        out_time(&o, "reaped", t->reaped_us);
        out_text(&o, "error", t->error);
        out_end(&o);
        return 0;
    }
    table_text(&l->rows, t->schema);
    table_text(&l->rows, t->table);
    table_text(&l->rows, t->reaped_us ? text_time(time, t->reaped_us) : NULL);
    table_text(&l->rows, t->error);
    return 0;
}

static int table_list(cli *c, int argc, char **argv)
{
    static const opt none[] = {{.name = NULL}};
    static const usage use = {
        .synopsis = "table list",
        .about = "Lists the registered tables, and the last error of a reaper.",
        .more = "Ends with 1 when there are none.",
    };
    static const char *const headings[] = {"SCHEMA", "TABLE", "REAPED", "ERROR"};
    args a;
    int code = opts_parse(c, &a, &use, none, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    listing l = {.json = c->json};
    table_begin(&l.rows, headings, sizeof headings / sizeof *headings);
    pgw_status st = pgw_tables_each(c->h, table_each, &l);
    table_end(&l.rows);
    return cli_listed(c, st, "no tables are registered");
}

int cmd_table(cli *c, int argc, char **argv)
{
    static const verb verbs[] = {{"check", "", table_check},
                                 {"init", "", table_init},
                                 {"reap", "", table_reap},
                                 {"register", "", table_register},
                                 {"unregister", "", table_unregister},
                                 {"list", "", table_list},
                                 {NULL, NULL, NULL}};
    static const usage use = {
        .synopsis = "table check|init|reap|register " TABLE_WORDS
                    "\ntable unregister TABLE\ntable list\ntable reap",
        .about = "Prepares your own tables for leases and optimistic writes, and administers\n"
                 "them.\n"
                 "\n"
                 "  check       compare a table with its description\n"
                 "  init        print, or apply, the columns and indexes that it lacks\n"
                 "  reap        free rows whose lease has ended\n"
                 "  register    let the reapers free such rows\n"
                 "  unregister  stop that\n"
                 "  list        list registered tables and their errors",
        .more = "Options of a verb: `pgwork table check --help`.",
        .missing = "check, init, reap, register, unregister or list",
    };
    return opts_dispatch(c, &use, verbs, NULL, argc, argv);
}
