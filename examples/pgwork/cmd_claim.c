/* SPDX-License-Identifier: PostgreSQL
 *
 * pgwork claim: claims jobs for a script, which finishes them by id and token.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opts.h"
#include "out.h"
#include "signals.h"

/* Prints a line of columns. A column must not contain a tab, or be empty, because shells read
 * several tabs as one. So kinds are escaped. JSON text never contains a tab. */
static void claim_print(const pgw_job *job)
{
    char token[PGW_TOKEN_TEXT_SIZE];
    char *queue = out_visible(pgw_job_queue(job)), *kind = out_visible(pgw_job_kind(job));
    const char *payload = pgw_job_payload(job);
    buf json = {0};
    buf_add_json_text(&json, payload ? payload : "");
    printf("%lld\t%s\t%s\t%d\t%s\t%s\n", (long long)pgw_job_id(job),
           pgw_token_format(pgw_job_ref(job).token, token), queue, pgw_job_attempt(job),
           *kind ? kind : "-", json.at);
    buf_free(&json);
    free(queue);
    free(kind);
}

/* Requeues jobs whose lines could not be written. Some may be finished already: these are refused.
 */
static int claim_give_back(cli *c, const pgw_batch *b, int code)
{
    size_t n = pgw_batch_count(b), refused = 0;
    pgw_set_stop(c->h, NULL); /* even after a second signal */
    for (size_t i = 0; i < n; i++) {
        const pgw_job *job = pgw_batch_job(b, i);
        pgw_ref ref = pgw_job_ref(job);
        pgw_status st = pgw_release(c->h, pgw_job_queue(job), &ref, 1);
        bool gone = st == PGW_ELEASE || st == PGW_ENOTFOUND;
        if (st < 0 && !gone) return cli_fail_at(c->h);
        refused += gone;
    }
    cli_say(c, "%zu jobs were requeued", n - refused);
    return code;
}

int cmd_claim(cli *c, int argc, char **argv)
{
    pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;
    const opt opts[] = {
        {'n', "max", "N", "claim up to N jobs (1)", .number = &o.max, .min = 1, .max = 10000},
        {0, "lease", "TIME", "lease of jobs that have none (that of the queue)", .ms = &o.lease_ms,
         .min = 100, .max = 86400000},
        {0, "wait", "TIME", "wait up to TIME for the first job (0)", .ms = &o.wait_ms},
        {0, "holder", "NAME", "name of the holder (host:pid)", .text = &o.holder},
        {.name = NULL}};
    static const usage use = {
        .synopsis = "claim QUEUE... [-n N] [--lease TIME] [--wait TIME] [--holder NAME]",
        .about = "Claims jobs, the lowest priority number first, then the oldest. Prints one line\n"
                 "for each: id, token, queue, attempt, kind (- for none) and payload, with tabs\n"
                 "between. Finish each with complete, fail, snooze or release before its lease\n"
                 "ends, or extend the lease.",
        .more = "Ends with 1 when nothing can be claimed.\n"
                "\n"
                "  pgwork claim mail | while IFS=\"$(printf '\\t')\" read -r id token queue "
                "attempt kind payload; do\n"
                "      if printf '%s' \"$payload\" | send-mail; then pgwork complete mail \"$id\" "
                "\"$token\"\n"
                "      else pgwork fail mail \"$id\" \"$token\"; fi\n"
                "  done",
        .min = 1,
        .max = 64,
        .missing = "QUEUE",
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = signals_install(c)) != CLI_DONE) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    o.queues = (const char *const *)a.at;
    o.queues_count = (size_t)a.count;
    pgw_batch *b;
    pgw_status st = pgw_claim(c->h, &o, &b);
    if (st == PGW_OUTCOME_EMPTY) {
        for (int i = 0; i < a.count; i++) cli_say_why(c, a.at[i]);
        return CLI_NOTHING;
    }
    if (st < 0) return signals_failed(c, st);
    for (size_t i = 0; i < pgw_batch_count(b); i++) {
        if (c->json) {
            out_job(pgw_batch_job(b, i), true, 0, NULL);
        } else {
            claim_print(pgw_batch_job(b, i));
        }
    }
    code = cli_finish(CLI_DONE);
    if (code != CLI_DONE) code = claim_give_back(c, b, code);
    pgw_batch_free(b);
    return code;
}
