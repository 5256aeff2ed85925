/* SPDX-License-Identifier: PostgreSQL
 *
 * pgwork doctor: what is well, what is odd, what is bad.
 */
#include <stdio.h>
#include <stdlib.h>

#include "opts.h"
#include "out.h"
#include "term.h"

typedef struct visit {
    bool json, quiet;
    int bad;
} visit;

static int doctor_each(const pgw_finding *f, void *arg)
{
    static const char *const words[] = {"good", "note", "bad"};
    static const char *const marks[] = {"ok  ", "note", "BAD "};
    static const term_kind colors[] = {TERM_GREEN, TERM_YELLOW, TERM_RED};
    visit *v = arg;
    v->bad += f->grade == PGW_BAD;
    if (v->json) {
        out o;
        out_begin(&o);
        out_text(&o, "grade", words[f->grade]);
        out_text(&o, "check", f->check);
        out_text(&o, "text", f->text);
        out_text(&o, "advice", f->advice && *f->advice ? f->advice : NULL);
        out_end(&o);
        return 0;
    }
    if (v->quiet && f->grade == PGW_GOOD) return 0;
    char *said = out_visible(f->text);
    printf("%s%s%s  %-12s %s\n", term_style(colors[f->grade]), marks[f->grade],
           term_style(TERM_PLAIN), f->check, said);
    free(said);
    if (f->grade != PGW_GOOD && f->advice && *f->advice) {
        char *advice = out_visible(f->advice);
        printf("      %-12s -> %s\n", "", advice);
        free(advice);
    }
    return 0;
}

int cmd_doctor(cli *c, int argc, char **argv)
{
    static const opt opts[] = {{.name = NULL}};
    static const usage use = {
        .synopsis = "doctor",
        .about = "Examines the server's settings, the schema and its roles, reapers, expired "
                 "leases, queues\n"
                 "that are shut or whose jobs nobody claims, dead letters, schedules, what holds "
                 "vacuum back,\n"
                 "bloat and clocks, and says what to do about what it finds.",
        .more = "Ends with 1 when something is bad. -q leaves out what is well.",
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = cli_open(c, true)) != CLI_DONE) return code;
    visit v = {.json = c->json, .quiet = c->quiet};
    if (pgw_doctor(c->h, doctor_each, &v) < 0) return cli_fail_at(c->h);
    return cli_finish(v.bad ? CLI_NOTHING : CLI_DONE);
}
