/* SPDX-License-Identifier: PostgreSQL
 *
 * pgwork cancel: removes waiting jobs, and asks running ones to stop.
 */
#include <stdlib.h>

#include "opts.h"
#include "out.h"

static int cancel_report(const cli *c, int64_t id, pgw_status outcome)
{
    const char *word = outcome == PGW_OK               ? "cancelled"
                       : outcome == PGW_OUTCOME_CANCEL ? "requested"
                                                       : "gone";
    if (c->json) {
        out o;
        out_begin(&o);
        out_int(&o, "id", id);
        out_text(&o, "status", word);
        out_end(&o);
    } else {
        cli_say(c, "job %lld: %s", (long long)id,
                outcome == PGW_OK               ? "cancelled"
                : outcome == PGW_OUTCOME_CANCEL ? "its holder will be asked to stop"
                                                : "finished, or does not exist");
    }
    return outcome < 0 ? CLI_NOTHING : CLI_DONE;
}

int cmd_cancel(cli *c, int argc, char **argv)
{
    static const opt opts[] = {{.name = NULL}};
    static const usage use = {
        .synopsis = "cancel QUEUE ID...",
        .about = "Removes ready and delayed jobs. The holder of a running job sees the request at\n"
                 "the next extend of its lease, and should stop.",
        .more = "Ends with 1 when one of the jobs does not exist.",
        .min = 2,
        .max = -1,
        .missing = "QUEUE ID",
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    int64_t *ids;
    size_t n = (size_t)a.count - 1;
    if ((code = cli_ids(&ids, a.at + 1, n)) != CLI_DONE) return code;
    pgw_ref *refs = cli_alloc(n * sizeof *refs);
    for (size_t i = 0; i < n; i++) refs[i] = (pgw_ref){.id = ids[i]};
    code = cli_open(c, false);
    if (code == CLI_DONE) {
        pgw_status st = pgw_cancel(c->h, a.at[0], refs, n);
        /* without a SQLSTATE the server reported no error: some jobs do not exist */
        if (st < 0 && (st != PGW_ENOTFOUND || *pgw_error_sqlstate(c->h))) {
            code = cli_fail_at(c->h);
        } else {
            for (size_t i = 0; i < n; i++) {
                int one = cancel_report(c, ids[i], refs[i].outcome);
                if (one != CLI_DONE) code = one;
            }
        }
    }
    free(refs);
    free(ids);
    return cli_finish(code);
}
