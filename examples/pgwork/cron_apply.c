/* SPDX-License-Identifier: PostgreSQL
 *
 * pgwork cron apply: creates and changes the schedules of a file, all or none.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cron.h"
#include "opts.h"
#include "out.h"

#define APPLY_WORDS 200

typedef struct names {
    char **at;
    size_t count;
} names;

static void names_add(names *n, const char *name)
{
    size_t size = strlen(name) + 1;
    n->at = cli_realloc(n->at, (n->count + 1) * sizeof *n->at);
    n->at[n->count] = cli_alloc(size);
    memcpy(n->at[n->count++], name, size);
}

static bool names_have(const names *n, const char *name)
{
    for (size_t i = 0; i < n->count; i++)
        if (!strcmp(n->at[i], name)) return true;
    return false;
}

static void names_free(names *n)
{
    for (size_t i = 0; i < n->count; i++) free(n->at[i]);
    free(n->at);
}

typedef struct apply {
    cli *c;
    const char *file;
    int line;
    names before, named; /* those in the database; those in the file */
} apply;

static int apply_note(const pgw_cron_info *i, void *arg)
{
    names_add(arg, i->name);
    return 0;
}

static void apply_report(const apply *a, const char *what, const char *name)
{
    if (a->c->json) {
        out o;
        out_begin(&o);
        out_text(&o, "schedule", name);
        out_text(&o, "change", what);
        out_end(&o);
        return;
    }
    char *visible = out_visible(name);
    printf("%s %s\n", what, visible);
    free(visible);
}

/* -- words of a line, quoted as in a shell -------------------------------------------------- */

/* Copies one word to @p to. False: a quote is not closed. */
static bool word_read(char **from, char *to)
{
    char *at = *from, quote = 0;
    for (; *at && (quote || !strchr(" \t\r\n", *at)); at++) {
        if (quote && *at == quote)
            quote = 0;
        else if (!quote && (*at == '\'' || *at == '"'))
            quote = *at;
        else if (*at == '\\' && quote != '\'' && at[1])
            *to++ = *++at;
        else
            *to++ = *at;
    }
    *from = *at ? at + 1 : at;
    *to = '\0';
    return !quote;
}

/* Splits a line in place. Returns the number of words, or -1 after an error. */
static int line_split(const apply *a, char *line, char **words)
{
    int n = 0;
    for (;;) {
        line += strspn(line, " \t\r\n");
        if (!*line || *line == '#') break;
        if (n == APPLY_WORDS) {
            cli_fail(CLI_USAGE, NULL, "%s:%d: more than %d words", a->file, a->line, APPLY_WORDS);
            return -1;
        }
        words[n++] = line;
        if (!word_read(&line, words[n - 1])) {
            cli_fail(CLI_USAGE, NULL, "%s:%d: a quote is not closed", a->file, a->line);
            return -1;
        }
    }
    words[n] = NULL;
    return n;
}

/* -- the file ------------------------------------------------------------------------------- */

static int apply_line(apply *a, char *line)
{
    char *words[APPLY_WORDS + 2];
    cron_def d;
    int64_t next_us;
    words[0] = (char[]){"add"};
    int n = line_split(a, line, words + 1);
    if (n <= 0) return n < 0 ? CLI_USAGE : CLI_DONE;
    int code = cron_define(a->c, &d, n + 1, words);
    if (code == OPTS_GO && names_have(&a->named, d.name))
        code = cli_fail(CLI_USAGE, NULL, "the file has this schedule twice");
    if (code == OPTS_GO)
        code = cron_create(a->c, &d, &next_us) < 0 ? cli_fail_at(a->c->h) : OPTS_GO;
    if (code != OPTS_GO) {
        cli_say(a->c, "%s:%d: nothing was changed", a->file, a->line);
        return code != CLI_DONE ? code : CLI_USAGE;
    }
    names_add(&a->named, d.name);
    apply_report(a, names_have(&a->before, d.name) ? "set" : "new", d.name);
    return CLI_DONE;
}

static int apply_lines(apply *a, FILE *f)
{
    char *line = NULL;
    size_t size = 0;
    int code = CLI_DONE;
    while (code == CLI_DONE && getline(&line, &size, f) >= 0) {
        a->line++;
        code = apply_line(a, line);
    }
    if (code == CLI_DONE && !feof(f)) /* ferror() does not tell that memory was out */
        code = cli_fail(CLI_USAGE, NULL, "cannot read %s: %s", a->file, strerror(errno));
    free(line);
    return code;
}

static int apply_prune(apply *a)
{
    for (size_t i = 0; i < a->before.count; i++) {
        if (names_have(&a->named, a->before.at[i])) continue;
        if (pgw_cron_drop(a->c->h, a->before.at[i]) < 0) return cli_fail_at(a->c->h);
        apply_report(a, "removed", a->before.at[i]);
    }
    return CLI_DONE;
}

static int apply_all(apply *a, FILE *f, bool prune, bool dry_run)
{
    pgw *h = a->c->h;
    if (pgw_txn_begin(h) < 0 || pgw_crons_each(h, NULL, apply_note, &a->before) < 0)
        return cli_fail_at(h);
    int code = apply_lines(a, f);
    if (code == CLI_DONE && prune) code = apply_prune(a);
    if (code != CLI_DONE || dry_run) {
        pgw_txn_rollback(h);
        return code;
    }
    return pgw_txn_commit(h) < 0 ? cli_fail_at(h) : CLI_DONE;
}

int cron_apply(cli *c, int argc, char **argv)
{
    bool prune = false, dry_run = false;
    const opt opts[] = {
        {0, "prune", NULL, "remove the schedules that are not in the file", .flag = &prune},
        {'n', "dry-run", NULL, "print what would change, and change nothing", .flag = &dry_run},
        {.name = NULL}};
    static const usage use = {
        .synopsis = "cron apply FILE [--prune] [-n]",
        .about = "Creates and changes the schedules of a file (-: stdin), all of them or none.\n"
                 "Each line contains the arguments of `pgwork cron add`, quoted as in a shell. #\n"
                 "begins a comment. Prints a line for each schedule: new, set (it existed) or\n"
                 "removed.",
        .more = "  report '30 6 * * mon-fri' --tz Europe/Berlin -Q mail -k report\n"
                "  sweep  '@every 1h'",
        .min = 1,
        .max = 1,
        .missing = "FILE",
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    bool from_stdin = !strcmp(a.at[0], "-");
    FILE *f = from_stdin ? stdin : fopen(a.at[0], "r");
    if (!f) return cli_fail(CLI_USAGE, NULL, "cannot read %s: %s", a.at[0], strerror(errno));
    apply all = {.c = c, .file = from_stdin ? "stdin" : a.at[0]};
    code = cli_open(c, false);
    if (code == CLI_DONE) code = apply_all(&all, f, prune, dry_run);
    if (!from_stdin) fclose(f);
    names_free(&all.before);
    names_free(&all.named);
    return cli_finish(code);
}
