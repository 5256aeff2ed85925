/* SPDX-License-Identifier: PostgreSQL
 *
 * pgwork doctor: examines server and schema, and grades each finding.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opts.h"
#include "out.h"
#include "term.h"

typedef struct visit {
    const char *schema; /* NULL: commands in an advice do not have to name it */
    bool json, quiet;
    int bad;
} visit;

/* The advice with complete commands, including --schema. The caller frees it. */
static char *doctor_advice(const visit *v, const char *advice)
{
    static const char command[] = "`pgwork ";
    buf t = {0};
    const char *at;
    while (v->schema && (at = strstr(advice, command))) {
        buf_add(&t, advice, (size_t)(at - advice));
        buf_puts(&t, command);
        buf_puts(&t, "--schema ");
        buf_puts(&t, v->schema);
        buf_puts(&t, " ");
        advice = at + sizeof command - 1;
    }
    buf_puts(&t, advice);
    return t.at;
}

static void doctor_json(const pgw_finding *f, const char *advice)
{
    static const char *const words[] = {"good", "note", "bad"};
    out o;
    out_begin(&o);
    out_text(&o, "grade", words[f->grade]);
    out_text(&o, "check", f->check);
    out_text(&o, "text", f->text);
    out_text(&o, "advice", advice);
    out_end(&o);
}

static void doctor_print(const pgw_finding *f, const char *advice)
{
    static const char *const marks[] = {"ok  ", "note", "BAD "};
    static const term_kind colors[] = {TERM_GREEN, TERM_YELLOW, TERM_RED};
    char *said = out_visible(f->text);
    printf("%s%s%s  %-14s %s\n", term_style(colors[f->grade]), marks[f->grade],
           term_style(TERM_PLAIN), f->check, said);
    free(said);
    if (f->grade != PGW_GRADE_GOOD && advice) {
        said = out_visible(advice);
        printf("      %-14s -> %s\n", "", said);
        free(said);
    }
}

static int doctor_each(const pgw_finding *f, void *arg)
{
    visit *v = arg;
    v->bad += f->grade == PGW_GRADE_BAD;
    if (v->quiet && f->grade == PGW_GRADE_GOOD) return 0;
    char *advice = f->advice && *f->advice ? doctor_advice(v, f->advice) : NULL;
    if (v->json) {
        doctor_json(f, advice);
    } else {
        doctor_print(f, advice);
    }
    free(advice);
    return 0;
}

int cmd_doctor(cli *c, int argc, char **argv)
{
    static const opt opts[] = {{.name = NULL}};
    static const usage use = {
        .synopsis = "doctor",
        .about = "Examines the server, the schema and its roles, reapers, expired leases, paused\n"
                 "queues, jobs that nobody claims, dead letters, schedules, what holds back\n"
                 "vacuum, bloat, indexes and clocks. Says what to do about each fault.",
        .more =
            "Ends with 1 when a finding is BAD. -q leaves out findings that are ok. The name of a\n"
            "check is a section of doc/troubleshooting.md, which says what to do.",
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = cli_open(c, true)) != CLI_DONE) return code;
    const char *schema = pgw_conf_get(c->conf, "schema");
    bool usual = strcmp(schema, "pgwork") == 0 && !getenv("PGWORK_SCHEMA");
    visit v = {.schema = usual ? NULL : schema, .json = c->json, .quiet = c->quiet};
    if (pgw_doctor(c->h, doctor_each, &v) < 0) return cli_fail_at(c->h);
    return cli_finish(v.bad ? CLI_NOTHING : CLI_DONE);
}
