/* SPDX-License-Identifier: PostgreSQL
 *
 * pgwork rate: limits how often something happens, over all machines.
 */
#include <stdio.h>

#include "guard.h"
#include "opts.h"
#include "out.h"
#include "signals.h"
#include "text.h"

#define RATE_MAX   1000000
#define RATE_GRACE 5000 /* ms between TERM and KILL, as for sem and lock */

static int rate_set(cli *c, int argc, char **argv)
{
    pgw_rate_opts o = PGW_RATE_OPTS_INIT;
    int64_t n;
    const opt opts[] = {
        {0, "per", "TIME", "the period (1s)", .ms = &o.per_ms, .min = 1, .max = CLI_YEAR},
        {0, "burst", "N", "takes at once after a pause (the N of the rate)", .number = &o.burst,
         .min = 1, .max = RATE_MAX},
        {.name = NULL}};
    static const usage use = {
        .synopsis = "rate set NAME N [--per TIME] [--burst N]",
        .about = "Creates a rate, or changes it: at most N takes per TIME.",
        .min = 2,
        .max = 2,
        .missing = "NAME N",
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if (!text_to_int(&n, a.at[1]) || n < 1 || n > RATE_MAX) {
        return cli_fail(CLI_USAGE, NULL, "\"%s\" is not a number of takes: expected 1..%d", a.at[1],
                        RATE_MAX);
    }
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    o.n = (int)n;
    return pgw_rate_set(c->h, a.at[0], &o) < 0 ? cli_fail_at(c->h) : CLI_DONE;
}

static int rate_drop(cli *c, int argc, char **argv)
{
    static const opt none[] = {{.name = NULL}};
    static const usage use = {
        .synopsis = "rate drop NAME...",
        .about = "Removes rates.",
        .min = 1,
        .max = -1,
        .missing = "NAME",
    };
    args a;
    int code = opts_parse(c, &a, &use, none, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    return cli_each(c, a.at, a.count, pgw_rate_drop);
}

/* -- take, run ------------------------------------------------------------------------------ */

typedef struct take {
    pgw_rate_take_opts o;
    int held;
    bool no_wait;
} take;

/* clang-format off */
#define RATE_TAKE_OPTS(t)                                                                  \
    {'c', "count", "N", "take N, all or none (1)", .number = &(t).o.n, .min = 1,             \
     .max = RATE_MAX},                                                                     \
    {'w', "wait", "TIME", "wait up to TIME (no limit)", .ms = &(t).o.timeout_ms,              \
     .max = GUARD_WAIT_MAX},                                                               \
    {'n', "no-wait", NULL, "do not wait", .flag = &(t).no_wait},                           \
    {'E', "held-code", "N", "exit code when the take is refused (75)", .number = &(t).held,      \
     .min = 0, .max = 255}
/* clang-format on */

/* Takes from the rate. CLI_DONE: the take was granted. */
static int rate_obtain(cli *c, take *t, const char *name, const char *pass)
{
    int code = guard_wait(c, t->no_wait, &t->o.timeout_ms);
    if (code != CLI_DONE) return code;
    if ((code = signals_install(c)) != CLI_DONE) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    if ((code = signals_pass(c, pass)) != CLI_DONE) return code;
    pgw_set_stop(c->h, c->stop);
    pgw_status st = pgw_rate_take(c->h, name, &t->o, NULL);
    return st == PGW_OK ? CLI_DONE : guard_refused(c, st, t->held);
}

static int rate_take(cli *c, int argc, char **argv)
{
    take t = {.o = PGW_RATE_TAKE_OPTS_INIT, .held = CLI_HELD};
    t.o.timeout_ms = PGW_UNLIMITED;
    const opt opts[] = {RATE_TAKE_OPTS(t), {.name = NULL}};
    static const usage use = {
        .synopsis = "rate take NAME [-c N] [-w TIME | -n] [-E N]",
        .about = "Takes from a rate. Waits until the take is granted.",
        .more = "Exit code 75: the wait would be longer than TIME. The command then ends at once.",
        .min = 1,
        .max = 1,
        .missing = "NAME",
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    return rate_obtain(c, &t, a.at[0], NULL);
}

static bool rate_holds(void *arg)
{
    (void)arg;
    return true; /* a take is final */
}

static int rate_run(cli *c, int argc, char **argv)
{
    take t = {.o = PGW_RATE_TAKE_OPTS_INIT, .held = CLI_HELD};
    t.o.timeout_ms = PGW_UNLIMITED;
    const char *pass = NULL;
    const opt opts[] = {
        RATE_TAKE_OPTS(t),
        {0, "pass", "SIGNALS", "pass these signals to the command: USR1,USR2,HUP", .text = &pass},
        {.name = NULL}};
    static const usage use = {
        .synopsis = "rate run NAME [OPTIONS] -- COMMAND [ARG...]",
        .about =
            "Takes from a rate, then runs a command. The command is stopped by any signal that\n"
            "would end this process.",
        .more = "Exit code: that of the command. 75: the take was refused. 126, 127: the command\n"
                "cannot be started, or does not exist.",
        .min = 1,
        .max = 1,
        .missing = "NAME",
        .command = true,
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = guard_find(a.command)) != CLI_DONE) return code;
    if ((code = rate_obtain(c, &t, a.at[0], pass)) != CLI_DONE) return code;
    pgw_close(c->h); /* not needed any more, and the command may run for long */
    c->h = NULL;
    guard g = {.c = c,
               .command = a.command,
               .what = "rate",
               .wake_fd = -1,
               .holds = rate_holds,
               .grace_ms = RATE_GRACE};
    return guard_run(&g);
}

/* -- list ----------------------------------------------------------------------------------- */

typedef struct listing {
    bool json;
    table rows;
} listing;

static int rate_each(const pgw_rate_info *r, void *arg)
{
    listing *l = arg;
    if (l->json) {
        out o;
        out_begin(&o);
        out_text(&o, "rate", r->name);
        out_int(&o, "n", r->n);
        out_int(&o, "per_ms", r->per_ms);
        out_int(&o, "burst", r->burst);
        out_int(&o, "available", r->available);
        out_int(&o, "next_ms", r->next_ms);
        out_end(&o);
        return 0;
    }
    table_text(&l->rows, r->name);
    table_int(&l->rows, r->n);
    table_age(&l->rows, r->per_ms);
    table_int(&l->rows, r->burst);
    table_int(&l->rows, r->available);
    table_age(&l->rows, r->next_ms ? r->next_ms : -1);
    return 0;
}

static int rate_list(cli *c, int argc, char **argv)
{
    static const opt none[] = {{.name = NULL}};
    static const usage use = {
        .synopsis = "rate ls",
        .about = "Lists all rates. AVAILABLE is how many can be taken now. NEXT is the time until "
                 "one can\n"
                 "be taken.",
        .more = "Ends with 1 when there are none.",
    };
    static const char *const headings[] = {"RATE", "N>", "PER>", "BURST>", "AVAILABLE>", "NEXT>"};
    args a;
    int code = opts_parse(c, &a, &use, none, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    listing l = {.json = c->json};
    table_begin(&l.rows, headings, sizeof headings / sizeof *headings);
    pgw_status st = pgw_rates_each(c->h, rate_each, &l);
    table_end(&l.rows);
    return cli_listed(c, st, "there are no rates");
}

int cmd_rate(cli *c, int argc, char **argv)
{
    static const verb verbs[] = {{"set", "", rate_set}, {"take", "", rate_take},
                                 {"run", "", rate_run}, {"drop", "", rate_drop},
                                 {"ls", "", rate_list}, {NULL, NULL, NULL}};
    static const usage use = {
        .synopsis = "rate set NAME N [--per TIME] [--burst N]\nrate drop NAME...\nrate ls\n"
                    "rate take NAME [OPTIONS]\nrate run NAME [OPTIONS] -- COMMAND [ARG...]",
        .about = "Manages rates: at most N takes per period, over all machines.\n\n"
                 "  set       create a rate, or change it\n"
                 "  drop      remove rates\n"
                 "  ls        list all rates\n"
                 "  take      take from a rate, for scripts\n"
                 "  run       take from a rate, then run a command",
        .more = "Options of a verb: `pgwork rate run --help`.",
        .missing = "set, drop, ls, take or run",
    };
    return opts_dispatch(c, &use, verbs, NULL, argc, argv);
}
