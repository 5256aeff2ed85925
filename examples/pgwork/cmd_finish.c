/* SPDX-License-Identifier: PostgreSQL
 *
 * pgwork complete, fail, extend, release, snooze: finish claimed jobs, for scripts. All take
 * ID TOKEN [ID TOKEN...], or lines on stdin that begin with these, as claim prints them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json.h"
#include "opts.h"

#define FINISH_LOT 10000 /* jobs in one call */

typedef struct refs {
    pgw_ref *at;
    size_t count;
} refs;

static int refs_add(refs *r, const char *id, const char *token)
{
    if ((r->count & (r->count - 1)) == 0) {
        r->at = cli_realloc(r->at, (r->count ? r->count * 2 : 1) * sizeof *r->at);
    }
    pgw_ref *ref = &r->at[r->count];
    int code = cli_id(&ref->id, id);
    if (code != CLI_DONE) return code;
    if (pgw_token_parse(token, &ref->token) != PGW_OK) {
        return cli_fail(CLI_USAGE, "`pgwork claim` prints tokens",
                        "\"%s\" is not a valid token: expected a UUID", token);
    }
    r->count++;
    return CLI_DONE;
}

/* Reads the first two columns of each line of stdin, so that the output of claim is valid. */
static int refs_read(refs *r)
{
    char *line = NULL;
    size_t capacity = 0;
    ssize_t n;
    int code = CLI_DONE;
    while (code == CLI_DONE && (n = getline(&line, &capacity, stdin)) >= 0) {
        char *rest, *id = strtok_r(line, " \t\r\n", &rest);
        if (!id) continue;
        char *token = strtok_r(NULL, " \t\r\n", &rest);
        code = token ? refs_add(r, id, token)
                     : cli_fail(CLI_USAGE, NULL, "a line of stdin has an id and no token: %s", id);
    }
    if (code == CLI_DONE && !feof(stdin)) { /* ferror() does not tell that memory was out */
        code = cli_fail(CLI_USAGE, NULL, "cannot read stdin: %s", strerror(errno));
    }
    free(line);
    return code;
}

static int refs_collect(const cli *c, refs *r, const args *a)
{
    if (a->count == 1) {
        if (isatty(STDIN_FILENO)) cli_say(c, "reading ID TOKEN, one job per line; end with Ctrl-D");
        return refs_read(r);
    }
    if (a->count % 2 == 0) {
        return cli_fail(CLI_USAGE, "ID TOKEN [ID TOKEN...]", "the last id has no token");
    }
    for (int i = 1; i < a->count; i += 2) {
        int code = refs_add(r, a->at[i], a->at[i + 1]);
        if (code != CLI_DONE) return code;
    }
    return CLI_DONE;
}

/* The differences of the verbs. */
typedef struct finish {
    pgw_status (*call)(cli *c, const struct finish *f, const char *queue, pgw_ref *refs, size_t n);
    const char *output; /* complete */
    pgw_fail_opts fail;
    int64_t ms; /* snooze, extend */
} finish;

static void finish_report(const cli *c, int64_t id, pgw_status outcome)
{
    const char *word = outcome == PGW_OK               ? "ok"
                       : outcome == PGW_OUTCOME_CANCEL ? "cancel"
                       : outcome == PGW_ELEASE         ? "stale"
                       : outcome == PGW_ELOCKED        ? "locked"
                                                       : "gone";
    if (c->json) {
        out o;
        out_begin(&o);
        out_int(&o, "id", id);
        out_text(&o, "status", word);
        out_end(&o);
    } else if (outcome == PGW_OUTCOME_CANCEL) {
        cli_say(c, "job %lld: extended, but cancelled", (long long)id);
    } else if (outcome == PGW_ELEASE) {
        cli_say(c, "job %lld: refused, the lease is lost", (long long)id);
    } else if (outcome == PGW_ELOCKED) {
        cli_say(c, "job %lld: not extended, another transaction holds its row; try again",
                (long long)id);
    } else if (outcome != PGW_OK) {
        cli_say(c, "job %lld: refused, the job is finished or does not exist", (long long)id);
    }
}

/* Finishes one batch. A job that the answer does not name was not accepted. */
static int finish_lot(cli *c, const finish *f, const char *queue, pgw_ref *at, size_t n,
                      bool *refused)
{
    pgw_status st = f->call(c, f, queue, at, n);
    int code = CLI_DONE;
    if (st < 0 && st != PGW_ELEASE && st != PGW_ELOCKED) {
        code = cli_fail_at(c->h);
    } else {
        for (size_t i = 0; i < n; i++) {
            pgw_status outcome = at[i].outcome;
            finish_report(c, at[i].id, outcome);
            if (outcome < 0) code = CLI_NOTHING;
            if (outcome < 0 && outcome != PGW_ELOCKED) *refused = true;
            if (outcome == PGW_OUTCOME_CANCEL && code == CLI_DONE) code = CLI_CANCEL;
        }
    }
    return code;
}

/* The more important of two codes: an error (which also ends the command), a refusal, a cancel. */
enum { FINISH_ERROR = 3 };

static int finish_rank(int code)
{
    return code == CLI_DONE ? 0 : code == CLI_CANCEL ? 1 : code == CLI_NOTHING ? 2 : FINISH_ERROR;
}

static int finish_run(cli *c, const finish *f, const opt *opts, const usage *use, int argc,
                      char **argv)
{
    args a;
    refs r = {0};
    bool refused = false;
    int code = opts_parse(c, &a, use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if (f->fail.dead && f->fail.retry_ms >= 0) {
        return cli_fail(CLI_USAGE, NULL, "%s: --retry or --dead, not both", c->command);
    }
    char why[JSON_WHY];
    json v;
    if (f->output && !json_read(&v, f->output, strlen(f->output), why)) {
        return cli_fail(CLI_USAGE, NULL, "%s: --output is %s", c->command, why);
    }
    code = refs_collect(c, &r, &a);
    if (code == CLI_DONE && r.count == 0) {
        code = cli_fail(CLI_NOTHING, "ID TOKEN on each line", "%s: no jobs on stdin", c->command);
    }
    if (code == CLI_DONE) code = cli_open(c, false);
    for (size_t i = 0; i < r.count && c->h && finish_rank(code) < FINISH_ERROR; i += FINISH_LOT) {
        size_t left = r.count - i, n = left < FINISH_LOT ? left : FINISH_LOT;
        int lot = finish_lot(c, f, a.at[0], r.at + i, n, &refused);
        if (finish_rank(lot) > finish_rank(code)) code = lot;
        if (finish_rank(code) == FINISH_ERROR && left > n) {
            cli_fail(code, NULL, "%zu jobs were not tried", left - n);
        }
    }
    free(r.at);
    if (refused && !c->json && !c->quiet) {
        fputs("hint: do nothing more for refused jobs; `pgwork show ID` shows their state\n",
              stderr);
    }
    return cli_finish(code);
}

#define FINISH_SYNOPSIS(verb, options) \
    verb " QUEUE ID TOKEN [ID TOKEN...]" options "\n" verb " QUEUE" options " < LINES"
#define FINISH_MORE                                                                           \
    "Without ids, reads lines from stdin: id and token first, as claim prints them. With\n"   \
    "--json prints a line for each job: {\"id\":1,\"status\":\"ok\"}. stale: another claim\n" \
    "has the job, or had it since. gone: the job is finished or cancelled, or it never\n"     \
    "existed. Ends with 1 when a job was refused."

static pgw_status finish_complete(cli *c, const finish *f, const char *queue, pgw_ref *at, size_t n)
{
    pgw_complete_opts o = PGW_COMPLETE_OPTS_INIT;
    if (!f->output) return pgw_complete(c->h, queue, at, n, NULL);
    const char **outputs = cli_alloc(n * sizeof *outputs);
    for (size_t i = 0; i < n; i++) outputs[i] = f->output;
    o.outputs = outputs;
    pgw_status st = pgw_complete(c->h, queue, at, n, &o);
    free(outputs);
    return st;
}

int cmd_complete(cli *c, int argc, char **argv)
{
    finish f = {.call = finish_complete};
    const opt opts[] = {{0, "output", "JSON",
                         "result of the jobs, kept for the retention of the queue",
                         .text = &f.output},
                        {.name = NULL}};
    static const usage use = {
        .synopsis = FINISH_SYNOPSIS("complete", " [--output JSON]"),
        .about = "Completes claimed jobs.",
        .more = FINISH_MORE,
        .min = 1,
        .max = -1,
        .missing = "QUEUE",
    };
    return finish_run(c, &f, opts, &use, argc, argv);
}

static pgw_status finish_fail(cli *c, const finish *f, const char *queue, pgw_ref *at, size_t n)
{
    return pgw_fail(c->h, queue, at, n, &f->fail);
}

int cmd_fail(cli *c, int argc, char **argv)
{
    finish f = {.call = finish_fail, .fail = PGW_FAIL_OPTS_INIT};
    const opt opts[] = {
        {'e', "error", "TEXT", "reason, kept with the job", .text = &f.fail.error},
        {0, "retry", "TIME", "try again after TIME (backoff of the queue)", .ms = &f.fail.retry_ms,
         .max = CLI_YEAR},
        {0, "dead", NULL, "make the jobs dead letters at once", .flag = &f.fail.dead},
        {.name = NULL}};
    static const usage use = {
        .synopsis = FINISH_SYNOPSIS("fail", " [-e TEXT] [--retry TIME | --dead]"),
        .about = "Fails claimed jobs. They are tried again later. After the last attempt they\n"
                 "become dead letters.",
        .more = FINISH_MORE,
        .min = 1,
        .max = -1,
        .missing = "QUEUE",
    };
    return finish_run(c, &f, opts, &use, argc, argv);
}

static pgw_status finish_extend(cli *c, const finish *f, const char *queue, pgw_ref *at, size_t n)
{
    pgw_extend_opts o = PGW_EXTEND_OPTS_INIT;
    o.lease_ms = f->ms;
    return pgw_extend(c->h, queue, at, n, &o);
}

int cmd_extend(cli *c, int argc, char **argv)
{
    finish f = {.call = finish_extend, .ms = PGW_DEFAULT};
    const opt opts[] = {{0, "lease", "TIME", "new lease, from now (that of the job or its queue)",
                         .ms = &f.ms, .min = 100, .max = 86400000},
                        {.name = NULL}};
    static const usage use = {
        .synopsis = FINISH_SYNOPSIS("extend", " [--lease TIME]"),
        .about = "Extends the leases of claimed jobs. Ends with 7 when all were extended, but\n"
                 "one of them was cancelled: stop, and finish it.",
        .more = FINISH_MORE
        "\nlocked: another transaction holds the row, try again (also ends with 1).\n"
        "cancel: extended, but the job was cancelled.",
        .min = 1,
        .max = -1,
        .missing = "QUEUE",
    };
    return finish_run(c, &f, opts, &use, argc, argv);
}

static pgw_status finish_release(cli *c, const finish *f, const char *queue, pgw_ref *at, size_t n)
{
    (void)f;
    return pgw_release(c->h, queue, at, n);
}

int cmd_release(cli *c, int argc, char **argv)
{
    finish f = {.call = finish_release};
    const opt opts[] = {{.name = NULL}};
    static const usage use = {
        .synopsis = FINISH_SYNOPSIS("release", ""),
        .about = "Requeues claimed jobs that were not started. They wait behind other jobs of\n"
                 "their priority. No attempt is counted.",
        .more = FINISH_MORE,
        .min = 1,
        .max = -1,
        .missing = "QUEUE",
    };
    return finish_run(c, &f, opts, &use, argc, argv);
}

static pgw_status finish_snooze(cli *c, const finish *f, const char *queue, pgw_ref *at, size_t n)
{
    pgw_snooze_opts o = PGW_SNOOZE_OPTS_INIT;
    o.delay_ms = f->ms;
    return pgw_snooze(c->h, queue, at, n, &o);
}

int cmd_snooze(cli *c, int argc, char **argv)
{
    finish f = {.call = finish_snooze, .ms = 30000};
    const opt opts[] = {
        {0, "delay", "TIME", "ready TIME from now (30s)", .ms = &f.ms, .max = 10 * CLI_YEAR},
        {.name = NULL}};
    static const usage use = {
        .synopsis = FINISH_SYNOPSIS("snooze", " [--delay TIME]"),
        .about = "Delays claimed jobs. No attempt is counted.",
        .more = FINISH_MORE,
        .min = 1,
        .max = -1,
        .missing = "QUEUE",
    };
    return finish_run(c, &f, opts, &use, argc, argv);
}
