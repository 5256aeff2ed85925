/* SPDX-License-Identifier: PostgreSQL
 *
 * pgwork groups: groups of jobs, their limits, holds and blocks.
 */
#include <string.h>

#include "opts.h"
#include "out.h"
#include "signals.h"

/* In the order of pgw_group_retry. */
static const char *const groups_retries[] = {"hold", "pass", "block"};

/* ---- list ---- */

typedef struct groups_listing {
    bool json;
    int64_t now_us;
    table rows;
} groups_listing;

static const char *groups_state(const pgw_group_info *g)
{
    if (g->held_until_us != 0) return "held";
    if (g->blocked_by != 0) return "blocked";
    if (g->admitted >= g->limit) return g->gated > 0 ? "full" : "open";
    return "open";
}

static int groups_each(const pgw_group_info *g, void *arg)
{
    groups_listing *l = arg;

    if (l->json) {
        out o;
        out_begin(&o);
        out_text(&o, "group", g->group);
        out_text(&o, "state", groups_state(g));
        out_int(&o, "gated", g->gated);
        out_int(&o, "admitted", g->admitted);
        out_int(&o, "leased", g->leased);
        out_int(&o, "limit", g->limit);
        out_text(&o, "retry", groups_retries[g->retry]);
        if (g->held_until_us != 0) out_time(&o, "held_until", g->held_until_us);
        if (g->blocked_by != 0) out_int(&o, "blocked_by", g->blocked_by);
        if (g->next_id != 0) out_int(&o, "next_id", g->next_id);
        if (g->next_id != 0) out_time(&o, "next_since", g->next_since_us);
        out_end(&o);
        return 0;
    }
    table_text(&l->rows, g->group);
    table_text(&l->rows, groups_state(g));
    table_int(&l->rows, g->gated);
    table_int(&l->rows, g->admitted);
    table_int(&l->rows, g->leased);
    table_int(&l->rows, g->limit);
    table_text(&l->rows, groups_retries[g->retry]);
    if (g->blocked_by != 0)
        table_int(&l->rows, g->blocked_by);
    else
        table_text(&l->rows, "-");
    return 0;
}

static int groups_list(cli *c, int argc, char **argv)
{
    int64_t at_most = 0; /* all */
    const opt opts[] = {{0, "at-most", "N", "list at most N groups (0: all)", .big = &at_most},
                        {.name = NULL}};
    static const usage use = {
        .synopsis = "groups list QUEUE [GROUP] [--at-most N]",
        .about = "Lists the groups of a queue that have jobs or settings. STATE is open, full "
                 "(the limit is\nreached), held, or blocked by the job in BLOCKED-BY.",
        .more = "GATED, ADMITTED and LEASED count up to 1000. Ends with 1 when there are none.",
        .min = 1,
        .max = 2,
        .missing = "QUEUE",
    };
    static const char *const headings[] = {"GROUP",   "STATE",  "GATED>", "ADMITTED>",
                                           "LEASED>", "LIMIT>", "RETRY",  "BLOCKED-BY>"};
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    groups_listing l = {.json = c->json};
    table_begin(&l.rows, headings, sizeof headings / sizeof *headings);
    pgw_groups_opts which = PGW_GROUPS_OPTS_INIT;
    if (a.count > 1) which.group = a.at[1];
    which.at_most = cli_limit(at_most);
    pgw_status st = pgw_groups_each(c->h, a.at[0], &which, groups_each, &l);
    table_end(&l.rows);
    if (st == PGW_OUTCOME_EMPTY) cli_say(c, "there are no groups in queue \"%s\"", a.at[0]);
    return cli_listed(c, st, NULL);
}

/* ---- settings ---- */

static int groups_set(cli *c, int argc, char **argv)
{
    pgw_group_opts g = PGW_GROUP_OPTS_INIT;
    const char *retry = NULL;
    const opt opts[] = {{0, "limit", "N", "at most N admitted jobs, 1 to 10000", .number = &g.limit,
                         .min = 1, .max = 10000},
                        {0, "retry", "hold|pass|block", "retry policy, see below", .text = &retry},
                        {.name = NULL}};
    static const usage use = {
        .synopsis = "groups set QUEUE [GROUP] [--limit N] [--retry hold|pass|block]",
        .about = "Sets the limit and the retry policy of a group. Without GROUP it sets those of "
                 "all groups of\nthe queue that have none of their own. A new queue has limit 1 "
                 "and policy hold.",
        .more = "  hold    a job that waits for a retry keeps its place\n"
                "  pass    it gives up its place, and other jobs of the group run first\n"
                "  block   as hold; a dead letter stops the group until it is redriven or purged",
        .min = 1,
        .max = 2,
        .missing = "QUEUE",
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    for (int i = 0; retry != NULL && i < 3; i++)
        if (strcmp(retry, groups_retries[i]) == 0) g.retry = (pgw_group_retry)i;
    if (retry != NULL && g.retry == PGW_GROUP_RETRY_DEFAULT)
        return cli_fail(CLI_USAGE, NULL, "%s: --retry is \"%s\": expected hold, pass or block",
                        c->command, retry);
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    return pgw_group_set(c->h, a.at[0], a.count > 1 ? a.at[1] : NULL, &g) < 0 ? cli_fail_at(c->h)
                                                                              : CLI_DONE;
}

static const opt groups_no_options[] = {{.name = NULL}};

static int groups_reset(cli *c, int argc, char **argv)
{
    static const usage use = {
        .synopsis = "groups reset QUEUE GROUP",
        .about = "Removes the settings and the hold of a group. Those of its queue apply again.",
        .min = 2,
        .max = 2,
        .missing = "QUEUE and GROUP",
    };
    args a;
    int code = opts_parse(c, &a, &use, groups_no_options, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    return pgw_group_reset(c->h, a.at[0], a.at[1]) < 0 ? cli_fail_at(c->h) : CLI_DONE;
}

/* ---- holds and blocks ---- */

static int groups_hold(cli *c, int argc, char **argv)
{
    int64_t for_ms = PGW_UNLIMITED;
    const opt opts[] = {{0, "for", "TIME", "end the hold after TIME (until unblock)", .ms = &for_ms,
                         .min = 0, .max = 10 * CLI_YEAR},
                        {.name = NULL}};
    static const usage use = {
        .synopsis = "groups hold QUEUE GROUP [--for TIME]",
        .about = "Admits no job of the group for a time. Admitted jobs go on.",
        .min = 2,
        .max = 2,
        .missing = "QUEUE and GROUP",
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    return pgw_group_hold(c->h, a.at[0], a.at[1], for_ms) < 0 ? cli_fail_at(c->h) : CLI_DONE;
}

static int groups_unblock(cli *c, int argc, char **argv)
{
    static const usage use = {
        .synopsis = "groups unblock QUEUE GROUP",
        .about = "Ends a hold of a group. A retry or a dead letter that stops the group gives up "
                 "its place.\nPrints the number of these jobs.",
        .min = 2,
        .max = 2,
        .missing = "QUEUE and GROUP",
    };
    args a;
    int64_t freed = 0;
    int code = opts_parse(c, &a, &use, groups_no_options, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    if (pgw_group_unblock(c->h, a.at[0], a.at[1], &freed) < 0) return cli_fail_at(c->h);
    return cli_finish(cli_report_done(c, CLI_DONE, "freed", freed, "freed", "place"));
}

static int groups_purge(cli *c, int argc, char **argv)
{
    static const usage use = {
        .synopsis = "groups purge QUEUE GROUP",
        .about = "Deletes the gated jobs of a group, which wait to be admitted. Works in batches: "
                 "if it fails\nor is interrupted, deleted jobs stay deleted.",
        .min = 2,
        .max = 2,
        .missing = "QUEUE and GROUP",
    };
    args a;
    int64_t deleted = 0;
    int code = opts_parse(c, &a, &use, groups_no_options, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = signals_open(c)) != CLI_DONE) return code;
    pgw_status st = pgw_group_purge(c->h, a.at[0], a.at[1], &deleted);
    code = st < 0 ? signals_failed(c, st) : CLI_DONE;
    return cli_finish(cli_report_done(c, code, "deleted", deleted, "deleted", "job"));
}

int cmd_groups(cli *c, int argc, char **argv)
{
    static const verb verbs[] = {
        {"list", "", groups_list}, {"set", "", groups_set},         {"reset", "", groups_reset},
        {"hold", "", groups_hold}, {"unblock", "", groups_unblock}, {"purge", "", groups_purge},
        {NULL, NULL, NULL}};
    static const usage use = {
        .synopsis = "groups list QUEUE [GROUP] [--at-most N]\n"
                    "groups set QUEUE [GROUP] [--limit N] [--retry hold|pass|block]\n"
                    "groups reset|unblock|purge QUEUE GROUP\ngroups hold QUEUE GROUP [--for TIME]",
        .about = "Manages groups of jobs. A job gets its group from `pgwork enqueue --group`.\n\n"
                 "  list      list groups, with their counts and the jobs that block them\n"
                 "  set       set the limit and the retry policy\n"
                 "  reset     remove the settings of a group\n"
                 "  hold      admit no job of a group for a time\n"
                 "  unblock   end a hold or a block\n"
                 "  purge     delete the gated jobs of a group",
        .more = "Options of a verb: `pgwork groups set --help`.",
        .missing = "list, set, reset, hold, unblock or purge",
    };
    return opts_dispatch(c, &use, verbs, NULL, argc, argv);
}
