/* SPDX-License-Identifier: PostgreSQL
 *
 * pgwork retry: makes dead letters ready again, by id.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "opts.h"
#include "out.h"

int cmd_retry(cli *c, int argc, char **argv)
{
    static const opt opts[] = {{.name = NULL}};
    static const usage use = {
        .synopsis = "retry QUEUE ID...",
        .about = "Makes dead letters ready again, and sets their count of attempts to 0. For many\n"
                 "at once use `pgwork dead redrive`.",
        .more = "Ends with 1 when one of the jobs is not a dead letter.",
        .min = 2,
        .max = -1,
        .missing = "QUEUE ID",
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    int64_t *ids, moved = 0;
    size_t n = (size_t)a.count - 1;
    if ((code = cli_ids(&ids, a.at + 1, n)) != CLI_DONE) return code;
    n = cli_ids_once(ids, n); /* a repeated id would not be a dead letter any more */
    code = cli_open(c, false);
    if (code == CLI_DONE &&
        pgw_redrive(c->h, a.at[0],
                    &(pgw_redrive_opts){sizeof(pgw_redrive_opts), ids, n, NULL, PGW_UNLIMITED},
                    &moved) < 0) {
        code = cli_fail_at(c->h);
    } else if (code == CLI_DONE) {
        if (c->json) out_number("moved", moved);
        cli_say(c, "%" PRId64 " of %zu dead letters made ready", moved, n);
        if (moved < (int64_t)n) {
            code = cli_ids_not("dead letter", a.at[0], ids, n, moved,
                               "`pgwork show ID` shows the state of a job; `pgwork reschedule` is "
                               "for delayed jobs");
        }
    }
    free(ids);
    return cli_finish(code);
}
