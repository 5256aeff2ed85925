/* SPDX-License-Identifier: PostgreSQL
 *
 * pgwork cron: schedules, the times of an expression, and ticks for scripts.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cron.h"
#include "opts.h"
#include "out.h"
#include "signals.h"
#include "text.h"

static const opt cron_no_options[] = {{.name = NULL}};

/* Without fractions, because ticks are due at whole seconds. */
static const char *cron_time(char text[TEXT_TIME], int64_t us)
{
    if (us == 0) return NULL;
    text_time(text, us);
    memcpy(strchr(text, '.'), "Z", 2);
    return text;
}

/* -- list ------------------------------------------------------------------------------------- */

typedef struct listing {
    bool json;
    table rows;
} listing;

static void cron_out(const pgw_cron_info *s)
{
    out o;
    out_begin(&o);
    out_text(&o, "schedule", s->name);
    out_text(&o, "expression", s->expression);
    out_text(&o, "zone", s->zone);
    out_text(&o, "queue", s->queue);
    out_text(&o, "kind", s->kind);
    out_json(&o, "payload", s->payload);
    out_text(&o, "key", s->key);
    out_int(&o, "priority", s->priority);
    out_text(&o, "misfire", cron_misfires[s->misfire]);
    out_int(&o, "misfire_max", s->misfire_max);
    out_int(&o, "grace_ms", s->grace_ms);
    out_int(&o, "jitter_ms", s->jitter_ms);
    out_int(&o, "timeout_ms", s->timeout_ms);
    out_bool(&o, "paused", s->paused);
    out_time(&o, "next", s->next_us);
    out_time(&o, "last", s->last_us);
    out_text(&o, "holder", s->holder);
    out_time(&o, "since", s->since_us);
    out_time(&o, "until", s->until_us);
    out_int(&o, "attempt", s->attempt);
    out_text(&o, "error", s->error);
    out_time(&o, "error_at", s->error_us);
    out_end(&o);
}

static int cron_each(const pgw_cron_info *s, void *arg)
{
    listing *l = arg;
    char next[TEXT_TIME], last[TEXT_TIME];
    if (l->json) {
        cron_out(s);
        return 0;
    }
    table_text(&l->rows, s->name);
    table_text(&l->rows, s->expression);
    table_text(&l->rows, s->zone);
    table_text(&l->rows, s->queue);
    table_text(&l->rows, s->paused ? "paused" : s->error ? "error" : s->holder ? "running" : "on");
    table_text(&l->rows, cron_time(next, s->next_us));
    table_text(&l->rows, cron_time(last, s->last_us));
    table_text(&l->rows, s->holder);
    table_text(&l->rows, s->error);
    return 0;
}

static int cron_list(cli *c, int argc, char **argv)
{
    static const usage use = {
        .synopsis = "cron list [NAME]",
        .about = "Lists all schedules, or one. Times are in UTC. STATE is on, running (a node\n"
                 "holds the tick), error (the last column says why) or paused. Without a QUEUE,\n"
                 "nodes claim the ticks.",
        .more = "Ends with 1 when there are no schedules, or the named one does not exist.",
        .max = 1,
    };
    static const char *const headings[] = {"NAME", "EXPRESSION", "ZONE",   "QUEUE", "STATE",
                                           "NEXT", "LAST",       "HOLDER", "ERROR"};
    args a;
    int code = opts_parse(c, &a, &use, cron_no_options, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    listing l = {.json = c->json};
    table_begin(&l.rows, headings, sizeof headings / sizeof *headings);
    pgw_status st = pgw_crons_each(c->h, a.count > 0 ? a.at[0] : NULL, cron_each, &l);
    table_end(&l.rows);
    if (st == PGW_OUTCOME_EMPTY && a.count > 0)
        return cli_fail(CLI_NOTHING, NULL, "there is no schedule \"%s\"", a.at[0]);
    return cli_listed(c, st, "there are no schedules yet");
}

/* -- add -------------------------------------------------------------------------------------- */

static int cron_add(cli *c, int argc, char **argv)
{
    cron_def d;
    int code = cron_define(c, &d, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    int64_t next_us;
    if (cron_create(c, &d, &next_us) < 0) return cli_fail_at(c->h);
    char text[TEXT_TIME];
    if (c->json) {
        out line;
        out_begin(&line);
        out_text(&line, "schedule", d.name);
        out_time(&line, "next", next_us);
        out_end(&line);
    } else {
        puts(cron_time(text, next_us) ? text : "-");
    }
    return cli_finish(CLI_DONE);
}

/* -- remove, pause, resume, rename, run ------------------------------------------------------- */

static int cron_switch(cli *c, int argc, char **argv, const usage *use,
                       pgw_status (*apply)(pgw *, const char *))
{
    args a;
    int code = opts_parse(c, &a, use, cron_no_options, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    return cli_each(c, a.at, a.count, apply);
}

static int cron_rm(cli *c, int argc, char **argv)
{
    static const usage use = {.synopsis = "cron rm NAME...",
                              .about = "Removes schedules. Jobs that they enqueued stay.",
                              .min = 1,
                              .max = -1,
                              .missing = "NAME"};
    return cron_switch(c, argc, argv, &use, pgw_cron_drop);
}

static int cron_pause(cli *c, int argc, char **argv)
{
    static const usage use = {.synopsis = "cron pause NAME...",
                              .about = "Stops ticks. A tick that a node holds goes on.",
                              .min = 1,
                              .max = -1,
                              .missing = "NAME"};
    return cron_switch(c, argc, argv, &use, pgw_cron_pause);
}

static int cron_resume(cli *c, int argc, char **argv)
{
    static const usage use = {
        .synopsis = "cron resume NAME...",
        .about = "Starts ticks again, from now. Ticks that were due during the pause are lost.",
        .min = 1,
        .max = -1,
        .missing = "NAME"};
    return cron_switch(c, argc, argv, &use, pgw_cron_resume);
}

static int cron_rename(cli *c, int argc, char **argv)
{
    static const usage use = {.synopsis = "cron rename NAME NEW-NAME",
                              .about = "Changes the name of a schedule and nothing else.",
                              .min = 2,
                              .max = 2,
                              .missing = "NAME or NEW-NAME"};
    args a;
    int code = opts_parse(c, &a, &use, cron_no_options, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    return pgw_cron_rename(c->h, a.at[0], a.at[1]) < 0 ? cli_fail_at(c->h) : CLI_DONE;
}

static int cron_run(cli *c, int argc, char **argv)
{
    static const usage use = {
        .synopsis = "cron run NAME",
        .about = "Makes a tick now, even if the schedule is paused. Prints the id of the job.\n"
                 "Without a queue, the next node that claims gets one tick, however often this\n"
                 "command ran.",
        .min = 1,
        .max = 1,
        .missing = "NAME"};
    args a;
    int code = opts_parse(c, &a, &use, cron_no_options, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    int64_t id;
    if (pgw_cron_run(c->h, a.at[0], &id) < 0) return cli_fail_at(c->h);
    if (c->json) {
        out_number("id", id);
    } else if (id) {
        printf("%" PRId64 "\n", id);
    } else {
        cli_say(c, "no queue: the next node that claims gets the tick");
    }
    return cli_finish(CLI_DONE);
}

/* -- times ------------------------------------------------------------------------------------ */

static int cron_print_time(int64_t at_us, const char *local, void *arg)
{
    const cli *c = arg;
    char text[TEXT_TIME];
    if (c->json) {
        out o;
        out_begin(&o);
        out_time(&o, "at", at_us);
        out_text(&o, "local", local);
        out_end(&o);
    } else {
        printf("%s  %s\n", cron_time(text, at_us), local);
    }
    return 0;
}

static int cron_next(cli *c, int argc, char **argv)
{
    pgw_cron_next_opts o = PGW_CRON_NEXT_OPTS_INIT;
    o.max = 1;
    const opt opts[] = {
        {'z', "tz", "ZONE", "time zone, a name such as Europe/Berlin (UTC)", .text = &o.zone},
        {'n', "count", "N", "print N times (1)", .number = &o.max, .min = 1, .max = 10000},
        {0, "after", "TIME", "later than TIME, such as 2030-01-31T12:00:00Z (now)",
         .time_us = &o.after_us},
        {.name = NULL}};
    static const usage use = {
        .synopsis = "cron next EXPRESSION [--tz ZONE] [-n N] [--after TIME]",
        .about = "Prints the times of an expression, in UTC and in ZONE. The server's rules for\n"
                 "the zone apply.",
        .min = 1,
        .max = 1,
        .missing = "EXPRESSION",
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    char fault[160];
    if (pgw_cron_check(a.at[0], fault, sizeof fault) != PGW_OK)
        return cli_fail(CLI_USAGE, NULL, "%s: \"%s\": %s", c->command, a.at[0], fault);
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    if (pgw_cron_next(c->h, a.at[0], &o, cron_print_time, c) < 0) return cli_fail_at(c->h);
    return cli_finish(CLI_DONE);
}

/* -- ticks ------------------------------------------------------------------------------------ */

static int cron_tick(cli *c, int argc, char **argv)
{
    static const usage use = {
        .synopsis = "cron tick",
        .about = "Enqueues the jobs of all due ticks, and prints their number. A running reaper\n"
                 "does this all the time.",
    };
    args a;
    int code = opts_parse(c, &a, &use, cron_no_options, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    int64_t all = 0, fired = 0, next_ms = 0;
    while (code == CLI_DONE && next_ms == 0) {
        if (pgw_cron_tick(c->h, &fired, &next_ms) < 0) code = cli_fail_at(c->h);
        all += code == CLI_DONE ? fired : 0;
    }
    if (code != CLI_DONE && all == 0) return code;
    if (c->json) {
        out o;
        out_begin(&o);
        out_int(&o, "fired", all);
        out_int(&o, "next_ms", next_ms);
        out_end(&o);
    } else {
        printf("%" PRId64 "\n", all);
    }
    return cli_finish(code);
}

static void cron_print_tick(const cli *c, const pgw_tick *tick)
{
    char token[PGW_TOKEN_TEXT_SIZE], slot[TEXT_TIME];
    pgw_token_format(pgw_tick_token(tick), token);
    if (c->json) {
        out o;
        out_begin(&o);
        out_text(&o, "token", token);
        out_int(&o, "fence", (int64_t)pgw_tick_token(tick).number);
        out_text(&o, "schedule", pgw_tick_schedule(tick));
        out_time(&o, "slot", pgw_tick_slot_us(tick));
        out_int(&o, "attempt", pgw_tick_attempt(tick));
        out_time(&o, "until", pgw_tick_until_us(tick));
        out_text(&o, "kind", pgw_tick_kind(tick));
        out_json(&o, "payload", pgw_tick_payload(tick));
        out_end(&o);
        return;
    }
    const char *payload = pgw_tick_payload(tick);
    char *name = out_visible(pgw_tick_schedule(tick));
    buf json = {0};
    buf_add_json_text(&json, payload ? payload : "");
    printf("%s\t%s\t%s\t%d\t%s\n", token, cron_time(slot, pgw_tick_slot_us(tick)), name,
           pgw_tick_attempt(tick), json.at);
    buf_free(&json);
    free(name);
}

static int cron_nothing(const pgw_cron_info *i, void *arg)
{
    (void)i;
    (void)arg;
    return 0;
}

/* If no tick is due: prints a message if the schedule does not exist. Only operators may list. */
static void cron_check_schedule(cli *c, const char *name)
{
    if (c->quiet) return;
    c->quiet = true; /* no message if the role may not list schedules */
    pgw_status st = pgw_crons_each(c->h, name, cron_nothing, NULL);
    c->quiet = false;
    if (st == PGW_OUTCOME_EMPTY)
        cli_say(c, "there is no schedule \"%s\" yet; names are case-sensitive", name);
}

static int cron_claim(cli *c, int argc, char **argv)
{
    pgw_cron_claim_opts o = PGW_CRON_CLAIM_OPTS_INIT;
    const opt opts[] = {{0, "node", "NODE", "name of the node (host:pid)", .text = &o.holder},
                        {.name = NULL}};
    static const usage use = {
        .synopsis = "cron claim [NAME...] [--node NODE]",
        .about = "Claims a due tick of these schedules, or of all schedules without a queue.\n"
                 "Prints one line: token, slot, schedule, attempt and payload, with tabs between.\n"
                 "Finish the tick before its timeout, or extend it. Otherwise another node takes\n"
                 "over.",
        .more = "Ends with 1 when none is due.\n"
                "\n"
                "  pgwork cron claim sweep | while read -r token slot rest; do\n"
                "      sweep \"$slot\" && pgwork cron finish \"$token\"\n"
                "  done",
        .max = 64,
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = signals_install(c)) != CLI_DONE) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    pgw_tick *tick;
    o.schedules = (const char *const *)a.at, o.schedules_count = (size_t)a.count;
    pgw_status st = pgw_cron_claim_due(c->h, &o, &tick, NULL);
    if (st == PGW_OUTCOME_EMPTY) {
        for (int i = 0; i < a.count; i++) cron_check_schedule(c, a.at[i]);
        return CLI_NOTHING;
    }
    if (st < 0) return signals_failed(c, st);
    cron_print_tick(c, tick);
    code = cli_finish(CLI_DONE);
    pgw_set_stop(c->h, NULL); /* a tick that was not printed must be released */
    if (code != CLI_DONE && pgw_cron_release(c->h, pgw_tick_token(tick)) < 0)
        code = cli_fail_at(c->h);
    pgw_tick_free(tick);
    return code;
}

static int cron_token(cli *c, pgw_token *token, const char *word)
{
    if (pgw_token_parse(word, token) == PGW_OK) return CLI_DONE;
    return cli_fail(CLI_USAGE, "the token is the first word that `pgwork cron claim` prints",
                    "%s: \"%s\" is not a valid token", c->command, word);
}

static int cron_finish(cli *c, int argc, char **argv)
{
    const char *error = NULL;
    const opt opts[] = {{'e', "error", "TEXT", "the tick failed, for this reason", .text = &error},
                        {.name = NULL}};
    static const usage use = {
        .synopsis = "cron finish TOKEN [-e TEXT]",
        .about = "Finishes a claimed tick. Ends with 1 when another node has claimed it.",
        .min = 1,
        .max = 1,
        .missing = "TOKEN",
    };
    args a;
    pgw_token token;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = cron_token(c, &token, a.at[0])) != CLI_DONE) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    return pgw_cron_finish(c->h, token, error) < 0 ? cli_fail_at(c->h) : CLI_DONE;
}

static int cron_extend(cli *c, int argc, char **argv)
{
    int64_t timeout_ms = 0;
    const opt opts[] = {{0, "timeout", "TIME", "timeout from now (that of the schedule)",
                         .ms = &timeout_ms, .min = 100, .max = 7 * CLI_DAY},
                        {.name = NULL}};
    static const usage use = {
        .synopsis = "cron extend TOKEN [--timeout TIME]",
        .about = "Extends the timeout of a claimed tick. Ends with 1 when another node has\n"
                 "claimed it.",
        .min = 1,
        .max = 1,
        .missing = "TOKEN",
    };
    args a;
    pgw_token token;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = cron_token(c, &token, a.at[0])) != CLI_DONE) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    return pgw_cron_extend(c->h, token, timeout_ms, NULL) < 0 ? cli_fail_at(c->h) : CLI_DONE;
}

static int cron_break(cli *c, const char *name)
{
    bool held;
    int code = cli_open(c, false);
    if (code != CLI_DONE) return code;
    if (pgw_cron_break(c->h, name, &held) < 0) return cli_fail_at(c->h);
    if (held) return CLI_DONE;
    cli_say(c, "no node holds a tick of this schedule");
    return CLI_NOTHING;
}

static int cron_release(cli *c, int argc, char **argv)
{
    bool force = false;
    const opt opts[] = {
        {0, "force", NULL, "take the tick of this schedule from its holder", .flag = &force},
        {.name = NULL}};
    static const usage use = {
        .synopsis = "cron release TOKEN\ncron release --force NAME",
        .about = "Leaves a claimed tick to another node at once. --force takes the tick from the\n"
                 "node that holds it, and makes the token of that node stale. It also discards\n"
                 "times that were planned while the clock of the server was ahead. --force is for\n"
                 "operators only.",
        .more = "--force ends with 1 when no node holds a tick of this schedule.",
        .min = 1,
        .max = 1,
        .missing = "TOKEN, or --force and NAME",
    };
    args a;
    pgw_token token;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if (force) return cron_break(c, a.at[0]);
    if ((code = cron_token(c, &token, a.at[0])) != CLI_DONE) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    return pgw_cron_release(c->h, token) < 0 ? cli_fail_at(c->h) : CLI_DONE;
}

int cmd_cron(cli *c, int argc, char **argv)
{
    static const verb verbs[] = {
        {"list", "", cron_list},       {"add", "", cron_add},       {"rm", "", cron_rm},
        {"pause", "", cron_pause},     {"resume", "", cron_resume}, {"rename", "", cron_rename},
        {"run", "", cron_run},         {"next", "", cron_next},     {"tick", "", cron_tick},
        {"claim", "", cron_claim},     {"finish", "", cron_finish}, {"extend", "", cron_extend},
        {"release", "", cron_release}, {"apply", "", cron_apply},   {NULL, NULL, NULL}};
    static const usage use = {
        .synopsis = "cron list [NAME]\ncron add NAME EXPRESSION [OPTIONS]\n"
                    "cron apply FILE [--prune] [-n]\n"
                    "cron rm|pause|resume NAME...\ncron rename NAME NEW-NAME\ncron run NAME\n"
                    "cron next EXPRESSION [--tz ZONE] [-n N] [--after TIME]\ncron tick\n"
                    "cron claim [NAME...] [--node NODE]\ncron finish TOKEN [-e TEXT]\n"
                    "cron extend TOKEN [--timeout TIME]\ncron release TOKEN | --force NAME",
        .about = "Schedules: each tick happens once, on one of many machines.\n"
                 "\n"
                 "  list      list schedules and their next times\n"
                 "  add       create or change a schedule\n"
                 "  apply     create the schedules of a file\n"
                 "  rm        remove a schedule\n"
                 "  pause     stop its ticks\n"
                 "  resume    start its ticks again, from now\n"
                 "  rename    rename a schedule\n"
                 "  run       make a tick now\n"
                 "  next      print the times of an expression\n"
                 "  tick      enqueue due ticks (a reaper does it all the time)\n"
                 "  claim     claim a tick of a schedule without a queue\n"
                 "  finish    finish a claimed tick\n"
                 "  extend    extend the lease of a claimed tick\n"
                 "  release   leave a claimed tick to another node",
        .more = "Options of a verb: `pgwork cron add --help`.",
        .missing = "list, add, apply, rm, pause, resume, rename, run, next, tick, claim, finish, "
                   "extend or "
                   "release",
    };
    return opts_dispatch(c, &use, verbs, NULL, argc, argv);
}
