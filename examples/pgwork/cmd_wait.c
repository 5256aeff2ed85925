/* SPDX-License-Identifier: PostgreSQL
 *
 * pgwork wait: waits until a job is over, and prints its output.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "opts.h"
#include "out.h"
#include "signals.h"

static int wait_report(const cli *c, int64_t id, const pgw_job *job)
{
    const pgw_state state = pgw_job_state(job);
    const char *output = pgw_job_output(job);
    if (!job) {
        return cli_fail(
            CLI_NOTHING, "set a retention on its queue: `pgwork queue set`",
            "job %" PRId64 " is over, or never existed: its queue keeps no finished jobs", id);
    }
    if (c->json) {
        out_job(job, false, 0, NULL);
    } else if (output) {
        buf t = {0};
        buf_add_json_text(&t, output);
        puts(t.at);
        buf_free(&t);
    }
    if (state == PGW_STATE_DONE) return CLI_DONE;
    return cli_fail(CLI_NOTHING, NULL, "job %" PRId64 " is %s", id,
                    state == PGW_STATE_DEAD ? "a dead letter: `pgwork show` has its error"
                                            : pgw_state_name(state));
}

int cmd_wait(cli *c, int argc, char **argv)
{
    pgw_wait_opts o = PGW_WAIT_OPTS_INIT;
    int64_t *ids = NULL;
    const opt opts[] = {
        {'Q', "queue", "NAME", "search only this queue, which is faster", .text = &o.queue},
        {0, "timeout", "TIME", "wait up to TIME (no limit)", .ms = &o.timeout_ms, .max = CLI_YEAR},
        {.name = NULL}};
    static const usage use = {
        .synopsis = "wait [-Q QUEUE] ID [--timeout TIME]",
        .about = "Waits until a job is over, and prints its output.",
        .more =
            "Ends with 0 when the job is done, with 1 when it is a dead letter, cancelled or not "
            "found, and\n"
            "with 75 when it is not over in time. The queue needs a retention. Otherwise "
            "finished jobs are\ndeleted at once, with their output.",
        .min = 1,
        .max = 1,
        .missing = "ID",
    };
    pgw_batch *over = NULL;
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = cli_ids(&ids, a.at, 1)) != CLI_DONE) return code;
    o.id = ids[0];
    free(ids);
    if ((code = signals_open(c)) != CLI_DONE) return code;
    pgw_status st = pgw_job_wait(c->h, &o, &over);
    if (st < 0) {
        code = signals_failed(c, st);
    } else if (st == PGW_OUTCOME_EMPTY) {
        code = cli_fail(CLI_HELD, NULL, "job %" PRId64 " is not over yet", o.id);
    } else {
        code = wait_report(c, o.id, over ? pgw_batch_job(over, 0) : NULL);
    }
    pgw_batch_free(over);
    return cli_finish(code);
}
