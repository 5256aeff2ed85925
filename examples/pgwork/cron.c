/* SPDX-License-Identifier: PostgreSQL */
#include "cron.h"

#include <stdlib.h>
#include <string.h>

#include "opts.h"

#define CRON_HOUR INT64_C(3600000)

const char *const cron_misfires[] = {"once", "skip", "all", NULL};

static int cron_misfire(cli *c, pgw_misfire *misfire, const char *word)
{
    for (int i = 0; word && i < 3; i++) {
        if (strcmp(word, cron_misfires[i]) == 0) {
            *misfire = (pgw_misfire)i;
            return CLI_DONE;
        }
    }
    if (!word) return CLI_DONE;
    return cli_fail(CLI_USAGE, NULL, "%s: --misfire is \"%s\": expected once, skip or all",
                    c->command, word);
}

int cron_define(cli *c, cron_def *d, int argc, char **argv)
{
    const char *misfire = NULL;
    *d = (cron_def){.o = PGW_CRON_OPTS_INIT, .job = PGW_JOB_SPEC_INIT};
    const opt opts[] = {
        {'z', "tz", "ZONE", "time zone, a name such as Europe/Berlin (UTC)", .text = &d->o.zone},
        {'Q', "queue", "QUEUE", "each tick is a job in QUEUE (none: nodes claim ticks)",
         .text = &d->o.queue},
        {'k', "kind", "KIND", "kind of the job", .text = &d->job.kind},
        {0, "payload", "JSON", "payload of the job", .text = &d->job.payload},
        {'p', "priority", "N", "priority of the job, 0 (first) to 9 (0)",
         .number = &d->job.priority, .max = 9},
        {0, "max-attempts", "N", "attempts of the job, or claims of a tick (10)",
         .number = &d->job.max_attempts, .min = 1, .max = 1000, .unlimited = true},
        {0, "lease", "TIME", "lease of the job (that of the queue)", .ms = &d->job.lease_ms,
         .min = 100, .max = CLI_DAY},
        {'t', "tag", "TAG", "tag of the job; may be given several times", .words = &d->tags},
        {0, "key", "KEY", "unique key of the job", .text = &d->job.key},
        {0, "ttl", "TIME", "a job that is not started within TIME expires (never)",
         .ms = &d->job.ttl_ms, .min = 1, .max = 10 * CLI_YEAR},
        {0, "misfire", "POLICY", "policy for missed ticks: once, skip or all (once)",
         .text = &misfire},
        {0, "misfire-max", "N", "with --misfire all: only the latest N (100)",
         .number = &d->o.misfire_max, .min = 1, .max = 1000},
        {0, "grace", "TIME", "a later tick is missed (1m; with skip at least 1s)",
         .ms = &d->o.grace_ms, .max = CLI_DAY},
        {0, "jitter", "TIME", "delay each tick by up to TIME (0)", .ms = &d->o.jitter_ms,
         .max = CRON_HOUR},
        {0, "timeout", "TIME", "how long a node may hold a tick (5m)", .ms = &d->o.timeout_ms,
         .min = 100, .max = 7 * CLI_DAY},
        {.name = NULL}};
    static const usage use = {
        .synopsis = "cron add NAME EXPRESSION [OPTIONS]",
        .about = "Creates a schedule, or changes the one of this name. Options that are not given\n"
                 "get their defaults. Prints the time of its next tick.\n"
                 "\n"
                 "EXPRESSION is 'minute hour day month weekday'. With six fields, the first is\n"
                 "the second. Also @yearly, @monthly, @weekly, @daily, @hourly, or '@every 90s'.",
        .more = "  pgwork cron add report '30 6 * * mon-fri' --tz Europe/Berlin -Q mail -k report",
        .min = 2,
        .max = 2,
        .missing = "NAME or EXPRESSION",
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = cron_misfire(c, &d->o.misfire, misfire)) != CLI_DONE) return code;
    d->name = a.at[0];
    d->expression = a.at[1];
    return OPTS_GO;
}

pgw_status cron_create(const cli *c, cron_def *d, int64_t *next_us)
{
    d->job.tags = d->tags.at, d->job.tags_count = d->tags.count;
    d->o.job = &d->job;
    pgw_status st = pgw_cron_create(c->h, d->name, d->expression, &d->o, next_us);
    free(d->tags.at);
    d->tags = (wordlist){NULL, 0};
    return st;
}
