/* SPDX-License-Identifier: PostgreSQL
 *
 * pgwork progress: how far a job is, for commands that `pgwork work` runs, and for scripts.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "opts.h"
#include "out.h"

typedef struct told {
    const char *queue, *json; /* json NULL: read it */
    pgw_ref ref;
} told;

/* Queue, id and, to write, token: from the arguments, or as `pgwork work` sets them. */
static int progress_job(const cli *c, told *t, const args *a)
{
    const bool given = a->count >= 2;
    const char *id = given ? a->at[1] : getenv("PGWORK_JOB_ID");
    const char *token = given ? a->at[2] : getenv("PGWORK_TOKEN");
    if (a->count == 3) {
        return cli_fail(CLI_USAGE, "pgwork progress QUEUE ID TOKEN JSON",
                        "%s: expected JSON behind the token", c->command);
    }
    t->queue = given ? a->at[0] : getenv("PGWORK_QUEUE");
    t->json = a->count == 1 ? a->at[0] : a->count == 4 ? a->at[3] : NULL;
    if (!t->queue || !id || (t->json && !token)) {
        return cli_fail(CLI_USAGE, "`pgwork work` sets PGWORK_QUEUE, PGWORK_JOB_ID, PGWORK_TOKEN",
                        "%s: which job: expected QUEUE ID, or a command of `pgwork work`",
                        c->command);
    }
    int code = cli_id(&t->ref.id, id);
    if (code != CLI_DONE || !t->json) return code;
    if (pgw_token_parse(token, &t->ref.token) == PGW_OK) return CLI_DONE;
    return cli_fail(CLI_USAGE, "`pgwork claim` prints tokens",
                    "\"%s\" is not a valid token: expected a UUID", token);
}

static int progress_write(cli *c, told *t)
{
    pgw_status st = pgw_progress(c->h, t->queue, &t->ref, t->json);
    if (st == PGW_ELEASE) {
        return cli_fail(CLI_NOTHING, "do nothing more for this job", "job %" PRId64 ": refused, %s",
                        t->ref.id,
                        t->ref.outcome == PGW_ELEASE ? "the lease is lost"
                                                     : "the job is finished or does not exist");
    }
    return st < 0 ? cli_fail_at(c->h) : CLI_DONE;
}

static int progress_read(cli *c, const told *t)
{
    pgw_batch *job;
    pgw_status st = pgw_progress_read(c->h, t->queue, t->ref.id, &job);
    if (st < 0) return cli_fail_at(c->h);
    if (st == PGW_OUTCOME_EMPTY) return CLI_NOTHING;
    buf line = {0};
    buf_add_json_text(&line, pgw_job_progress(pgw_batch_job(job, 0)));
    puts(line.at);
    buf_free(&line);
    pgw_batch_free(job);
    return CLI_DONE;
}

int cmd_progress(cli *c, int argc, char **argv)
{
    static const opt opts[] = {{.name = NULL}};
    static const usage use = {
        .synopsis = "progress [JSON]\n"
                    "progress QUEUE ID [TOKEN JSON]",
        .about = "Stores how far a job is, or prints what was stored last, also by an earlier\n"
                 "attempt. A command that `pgwork work` runs need not name its job.",
        .more = "Ends with 1 when the lease is lost, or when nothing was stored.\n"
                "\n"
                "  pgwork progress '{\"done\": 40, \"of\": 100}'",
        .max = 4,
    };
    args a;
    told t = {.json = NULL};
    char why[JSON_WHY];
    json v;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = progress_job(c, &t, &a)) != CLI_DONE) return code;
    if (t.json && !json_read(&v, t.json, strlen(t.json), why)) {
        return cli_fail(CLI_USAGE, NULL, "%s: JSON is %s", c->command, why);
    }
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    return cli_finish(t.json ? progress_write(c, &t) : progress_read(c, &t));
}
