/* SPDX-License-Identifier: PostgreSQL
 *
 * pgwork migrate: brings the schema up to date, or lists what would run.
 */
#include <stdio.h>
#include <string.h>

#include "opts.h"
#include "out.h"

typedef struct look {
    bool json, sql;
    int pending, wrong;
    table rows;
} look;

static int migrate_each(const pgw_migration *m, void *arg)
{
    look *l = arg;
    bool pending = strcmp(m->state, "pending") == 0;
    l->pending += pending;
    l->wrong += !pending && strcmp(m->state, "applied") != 0;
    if (l->json) {
        out o;
        out_begin(&o);
        out_int(&o, "number", m->number);
        out_text(&o, "name", m->name);
        out_text(&o, "state", m->state);
        if (l->sql && pending) out_text(&o, "sql", m->sql);
        out_end(&o);
    } else if (!l->sql) {
        table_int(&l->rows, m->number);
        table_text(&l->rows, m->name);
        table_text(&l->rows, m->state);
    } else if (pending) {
        printf("-- %s\n%s\n", m->name, m->sql);
    }
    return 0;
}

/* Lists all migrations, or with @p sql prints the pending ones. */
static int migrate_list(cli *c, bool sql)
{
    static const char *const headings[] = {"NUMBER>", "NAME", "STATE"};
    look l = {.json = c->json, .sql = sql};
    int code = cli_open(c, true);
    if (code != CLI_DONE) return code;
    table_begin(&l.rows, headings, 3);
    pgw_status st = pgw_migrations_each(c->h, migrate_each, &l);
    table_end(&l.rows);
    if (st < 0) return cli_fail_at(c->h);
    if (l.wrong) {
        return cli_finish(
            cli_fail(CLI_SCHEMA,
                     "changed: use the pgwork that created the schema, or drop one from "
                     "before the first release; unknown: use a newer pgwork",
                     "the schema does not match this version of pgwork"));
    }
    if (sql && !l.pending) cli_say(c, "nothing is pending");
    return cli_finish(!sql && l.pending ? CLI_NOTHING : CLI_DONE);
}

static int migrate_up(cli *c, int argc, char **argv)
{
    bool dry_run = false;
    const opt opts[] = {
        {0, "dry-run", NULL, "print the SQL that would run, and run nothing", .flag = &dry_run},
        {.name = NULL}};
    static const usage use = {
        .synopsis = "migrate [up] [--dry-run]",
        .about = "Creates the schema, or brings it up to date. Each migration is one transaction.\n"
                 "All run under a lock, so the command may be repeated, and run on several\n"
                 "machines at once. The role needs the right to create schemas.",
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if (dry_run) return migrate_list(c, true);
    if ((code = cli_open(c, true)) != CLI_DONE) return code;
    int applied = 0;
    if (pgw_migrate_up(c->h, &applied) < 0) {
        code = cli_fail_at(c->h);
        if (applied == 0) return code;
    }
    if (c->json) out_number("applied", applied);
    if (applied) {
        cli_say(c, "applied %d migration%s", applied, applied == 1 ? "" : "s");
    } else {
        cli_say(c, "the schema is up to date");
    }
    return cli_finish(code);
}

static int migrate_status(cli *c, int argc, char **argv)
{
    static const opt opts[] = {{.name = NULL}};
    static const usage use = {
        .synopsis = "migrate status",
        .about = "Lists all migrations with their state: applied, pending, changed (the database\n"
                 "has it with another text), unknown (a newer version of pgwork applied it). Ends\n"
                 "with 1 when a migration is pending, and with 4 when one is changed or unknown.",
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    return code != OPTS_GO ? code : migrate_list(c, false);
}

int cmd_migrate(cli *c, int argc, char **argv)
{
    static const verb verbs[] = {{"up", "apply what is pending", migrate_up},
                                 {"status", "list all migrations", migrate_status},
                                 {NULL, NULL, NULL}};
    static const usage use = {
        .synopsis = "migrate [up] [--dry-run]\nmigrate status",
        .about = "Creates the schema, or brings it up to date.\n"
                 "\n"
                 "  up       apply pending migrations; --dry-run prints the SQL instead\n"
                 "  status   list all migrations and their state",
        .missing = "up or status",
    };
    return opts_dispatch(c, &use, verbs, "up", argc, argv);
}
