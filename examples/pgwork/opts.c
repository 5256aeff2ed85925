/* SPDX-License-Identifier: PostgreSQL */
#include "opts.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "out.h"
#include "term.h"
#include "text.h"

/* Options that every command accepts. The last row ends the table. */
#define OPTS_GLOBAL 10
static void opts_global(cli *c, opt rows[OPTS_GLOBAL])
{
    const opt all[OPTS_GLOBAL] = {
        {'d', "dsn-file", "FILE", "read the connection string from FILE", .text = &c->dsn_file},
        {0, "schema", "NAME", "schema of the queues (PGWORK_SCHEMA, or pgwork)",
         .text = &c->schema},
        {'X', "set", "KEY=VALUE", "set a property of the library; `-X list` shows all",
         .words = &c->settings},
        {0, "json", NULL, "print data as JSON, one object per line", .flag = &c->json},
        {0, "no-color", NULL, "print no colours (as NO_COLOR)", .flag = &c->no_color},
        {'q', "quiet", NULL, "print only errors on stderr", .flag = &c->quiet},
        {'v', "verbose", NULL, "print progress on stderr; twice: more", .times = &c->verbose},
        {'h', "help", NULL, "show this text", .flag = &c->help},
        {'V', "version", NULL, "show the version", .flag = &c->version},
        {0, NULL, NULL, NULL, .flag = NULL}};
    memcpy(rows, all, sizeof all);
}

static void opts_print(const opt *o)
{
    for (; o->name; o++) {
        char left[64];
        int used = snprintf(left, sizeof left, o->letter ? "-%c, " : "    ", o->letter);
        snprintf(left + used, sizeof left - (size_t)used, "--%s%s%s", o->name, o->value ? " " : "",
                 o->value ? o->value : "");
        printf("  %-26s %s\n", left, o->help);
    }
}

void opts_print_global(void)
{
    cli c = {0};
    opt rows[OPTS_GLOBAL];
    opts_global(&c, rows);
    opts_print(rows);
}

static void opts_help(const usage *use, const opt *opts)
{
    const char *line = use->synopsis, *lead = "usage: pgwork ";
    while (*line) {
        int width = (int)strcspn(line, "\n");
        printf("%s%.*s\n", lead, width, line);
        line += width + (line[width] == '\n');
        lead = "       pgwork ";
    }
    printf("\n%s\n", use->about);
    if (opts && opts->name) {
        putchar('\n');
        opts_print(opts);
    }
    if (use->more) printf("\n%s\n", use->more);
    printf("\nOptions of every command, and the exit codes: pgwork help\n");
}

static int opts_refuse(const cli *c, const char *hint, const char *what, const char *word)
{
    char more[80] = "pgwork help";
    if (!c->command) return cli_fail(CLI_USAGE, hint ? hint : more, "%s%s", what, word);
    snprintf(more, sizeof more, "pgwork %s --help", c->command);
    return cli_fail(CLI_USAGE, hint ? hint : more, "%s: %s%s", c->command, what, word);
}

int opts_which(const cli *c, bool said, const char *ways)
{
    return said ? CLI_DONE : opts_refuse(c, NULL, "expected ", ways);
}

static int opts_bad(const cli *c, const opt *o, const char *value, const char *allowed)
{
    return cli_fail(CLI_USAGE, NULL, "%s: --%s is \"%s\": expected %s", c->command, o->name, value,
                    allowed);
}

/* Checks @p value and stores it where the row points. CLI_DONE or CLI_USAGE. */
static int opts_store(const cli *c, const opt *o, const char *value)
{
    char allowed[96];
    int64_t n;
    /* the name of a file may be any bytes */
    if (strcmp(o->value, "FILE") != 0 && text_utf8_span(value, strlen(value)) < strlen(value)) {
        return opts_refuse(c, NULL, "not UTF-8: the value of --", o->name);
    }
    if (o->text) {
        *o->text = value;
        return CLI_DONE;
    }
    if (o->words) {
        wordlist_add(o->words, value);
        return CLI_DONE;
    }
    if (o->time_us) {
        return text_to_time_us(o->time_us, value)
                   ? CLI_DONE
                   : opts_bad(c, o, value, "a time with its zone, such as 2030-01-31T12:00:00Z");
    }
    if (o->unlimited && strcmp(value, "unlimited") == 0) {
        if (o->number) *o->number = PGW_UNLIMITED;
        if (o->ms) *o->ms = PGW_UNLIMITED;
        return CLI_DONE;
    }
    const char *also = o->unlimited ? ", or unlimited" : "";
    int64_t min = o->min, max = o->max;
    if (max == 0) max = o->number ? INT_MAX : INT64_MAX;
    if (o->ms) {
        char from[TEXT_AGE], to[TEXT_AGE];
        if (text_to_ms(&n, value) && n >= min && n <= max) {
            *o->ms = n;
            return CLI_DONE;
        }
        int used = snprintf(allowed, sizeof allowed, "a duration such as 500ms, 30s, 5m, 2h or 1d");
        if (o->max) {
            snprintf(allowed + used, sizeof allowed - (size_t)used, ", from %s to %s%s",
                     text_age(from, min), text_age(to, max), also);
        }
        return opts_bad(c, o, value, allowed);
    }
    if (text_to_int(&n, value) && n >= min && n <= max) {
        if (o->number) *o->number = (int)n;
        if (o->big) *o->big = n;
        return CLI_DONE;
    }
    snprintf(allowed, sizeof allowed, "a number from %" PRId64 " to %" PRId64 "%s", min, max, also);
    return opts_bad(c, o, value, allowed);
}

/* Finds a row by its letter, or by its name of @p size bytes. */
static const opt *opts_find(const opt *o, char letter, const char *name, size_t size)
{
    for (; o->name; o++) {
        if (letter ? o->letter == letter : strlen(o->name) == size && !strncmp(o->name, name, size))
            return o;
    }
    return NULL;
}

static const opt *opts_find_in(const opt *own, const opt *global, char letter, const char *name,
                               size_t size)
{
    const opt *o = own ? opts_find(own, letter, name, size) : NULL;
    return o ? o : opts_find(global, letter, name, size);
}

static int opts_unknown(const cli *c, const char *word, const char *hint)
{
    static const char *const secrets[] = {"--dsn", "--password"};
    for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++) {
        if (strncmp(word, secrets[i], strlen(secrets[i])) != 0) continue;
        hint = CLI_HINT_ARGV;
        word = secrets[i]; /* without a value after it, which may be secret */
    }
    return opts_refuse(c, hint, "unknown option ", word);
}

/* Parses one option, and its value if it has one. CLI_DONE or CLI_USAGE. */
static int opts_word(cli *c, const opt *own, const opt *global, char **argv, int *i)
{
    const char *word = argv[*i];
    if (word[1] == '-') {
        size_t size = strcspn(word + 2, "=");
        const char *value = word[2 + size] ? word + 2 + size + 1 : NULL;
        const opt *o = opts_find_in(own, global, 0, word + 2, size);
        if (!o) return opts_unknown(c, word, NULL);
        if (!o->value) {
            if (value) return opts_refuse(c, NULL, "this option takes no value: --", o->name);
            if (o->flag) *o->flag = true;
            if (o->times) ++*o->times;
            return CLI_DONE;
        }
        if (!value) value = argv[++*i];
        if (!value) return opts_refuse(c, NULL, "a value is missing after --", o->name);
        return opts_store(c, o, value);
    }
    for (const char *letter = word + 1; *letter; letter++) {
        const opt *o = opts_find_in(own, global, *letter, NULL, 0);
        if (!o) return opts_unknown(c, word, NULL);
        if (o->value) {
            const char *value = letter[1] ? letter + 1 : argv[++*i];
            if (!value) return opts_refuse(c, NULL, "a value is missing after --", o->name);
            return opts_store(c, o, value);
        }
        if (o->flag) *o->flag = true;
        if (o->times) ++*o->times;
    }
    return CLI_DONE;
}

static int opts_list_property(const pgw_property *p, void *arg)
{
    const cli *c = arg;
    bool secret = strcmp(p->name, "dsn") == 0; /* may contain a password */
    const char *value = secret ? "" : p->value;
    if (c->json) {
        out o;
        out_begin(&o);
        out_text(&o, "property", p->name);
        out_text(&o, "type", p->type);
        out_text(&o, "value", value);
        out_text(&o, "default", p->initial);
        out_text(&o, "allowed", p->allowed);
        out_text(&o, "text", p->text);
        out_end(&o);
        return 0;
    }
    char *visible = out_visible(*value ? value : "-");
    printf("%-26s %-5s %-9s %s\n", p->name, p->type, visible, p->allowed);
    free(visible);
    printf("%26s %s\n", "", p->text);
    return 0;
}

/* Options that need no command: -V and -X list. */
static int opts_answer(cli *c)
{
    if (c->version) {
        printf("pgwork %s (library %s)\n", PGW_VERSION_STRING, pgw_version());
        return cli_finish(CLI_DONE);
    }
    for (size_t i = 0; i < c->settings.count; i++) {
        if (strcmp(c->settings.at[i], "list") != 0) continue;
        int code = cli_configure(c, &c->conf);
        if (code != CLI_DONE) return code;
        pgw_conf_each(c->conf, opts_list_property, c);
        return cli_finish(CLI_DONE);
    }
    return OPTS_GO;
}

/* The first "--" in @p words, or NULL. */
static char **opts_dashes(char **words)
{
    while (*words && strcmp(*words, "--") != 0) words++;
    return *words ? words : NULL;
}

static int opts_read(cli *c, args *a, const usage *use, const opt *opts, int argc, char **argv)
{
    opt global[OPTS_GLOBAL];
    opts_global(c, global);
    a->at = argv;
    a->count = 0;
    a->command = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            /* a "--" before an argument ends the options, if a second one precedes the command */
            char **next = use->command && a->count < use->min ? opts_dashes(argv + i + 1) : NULL;
            char **end = next ? next : use->command ? argv + i : argv + argc;
            while (argv + ++i < end) a->at[a->count++] = argv[i];
            if (use->command) a->command = end + 1;
            break;
        }
        if (argv[i][0] == '-' && argv[i][1] != '\0') {
            int code = opts_word(c, opts, global, argv, &i);
            if (code != CLI_DONE) return code;
        } else {
            a->at[a->count++] = argv[i];
        }
        if (c->help) break;
    }
    if (c->help) {
        opts_help(use, opts);
        return cli_finish(CLI_DONE);
    }
    term_begin(c->no_color);
    int code = opts_answer(c);
    if (code != OPTS_GO) return code;
    if (a->count < use->min) return opts_refuse(c, NULL, "missing: ", use->missing);
    if (use->max > 9 && a->count > use->max) {
        return cli_fail(CLI_USAGE, NULL, "%s: %d arguments: at most %d at a time", c->command,
                        a->count, use->max);
    }
    if (use->max >= 0 && a->count > use->max) {
        return opts_refuse(c, NULL, "one argument too many: ", a->at[use->max]);
    }
    bool instead = use->instead && use->instead->count > 0 && !a->command;
    if (use->command && !instead && (!a->command || !a->command[0] || !*a->command[0])) {
        return opts_refuse(c, NULL, "no command: expected ", "-- COMMAND [ARG...]");
    }
    return OPTS_GO;
}

int opts_parse(cli *c, args *a, const usage *use, const opt *opts, int argc, char **argv)
{
    const int code = opts_read(c, a, use, opts, argc, argv);
    for (const opt *o = opts; code != OPTS_GO && o && o->name; o++) {
        if (!o->words) continue;
        free(o->words->at);
        *o->words = (wordlist){0};
    }
    return code;
}

/* The edit distance of two short words. */
static size_t opts_distance(const char *a, const char *b)
{
    size_t row[32], n = strlen(b);
    if (n >= 32) return 99;
    for (size_t j = 0; j <= n; j++) row[j] = j;
    for (size_t i = 1; *a; a++, i++) {
        size_t corner = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t best = corner + (*a != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            corner = row[j];
            row[j] = best;
        }
    }
    return row[n];
}

const char *opts_nearest(const verb *verbs, const char *word)
{
    const char *nearest = NULL;
    size_t best = 3;
    for (; verbs->name; verbs++) {
        size_t d = opts_distance(word, verbs->name);
        if (d < best) best = d, nearest = verbs->name;
    }
    return nearest;
}

static bool opts_is_option(const char *word)
{
    return word && word[0] == '-' && word[1] != '\0' && strcmp(word, "--") != 0;
}

/* Parses common options before the verb. *i is moved behind them. */
static int opts_before_verb(cli *c, const char *fallback, char **argv, int *i)
{
    opt global[OPTS_GLOBAL];
    opts_global(c, global);
    for (; !c->help && opts_is_option(argv[*i]); ++*i) {
        const char *word = argv[*i];
        bool named = word[1] == '-';
        if (!opts_find(global, named ? 0 : word[1], word + 2, strcspn(word + 2, "="))) {
            if (fallback) break; /* an option of the fallback */
            return opts_unknown(c, word, "write the options of a verb after it");
        }
        int code = opts_word(c, NULL, global, argv, i);
        if (code != CLI_DONE) return code;
    }
    return CLI_DONE;
}

int opts_dispatch(cli *c, const usage *use, const verb *verbs, const char *fallback, int argc,
                  char **argv)
{
    int at = 1, code = opts_before_verb(c, fallback, argv, &at);
    if (code != CLI_DONE) return code;
    if (c->help) {
        opts_help(use, NULL);
        return cli_finish(CLI_DONE);
    }
    bool own = argv[at] && argv[at][0] != '-';
    const char *name = own ? argv[at] : fallback;
    if (!name) {
        code = opts_answer(c);
        return code != OPTS_GO ? code : opts_refuse(c, NULL, "missing: ", use->missing);
    }
    if (!own) at--; /* argv[0] stands for the verb */
    for (const verb *v = verbs; v->name; v++) {
        if (strcmp(v->name, name) != 0) continue;
        const char *command = c->command;
        char both[40];
        snprintf(both, sizeof both, "%s %s", command, v->name);
        c->command = both;
        code = v->run(c, argc - at, argv + at);
        c->command = command;
        return code;
    }
    const char *nearest = opts_nearest(verbs, name);
    char hint[80];
    if (nearest) snprintf(hint, sizeof hint, "did you mean \"%s\"?", nearest);
    return opts_refuse(c, nearest ? hint : NULL, "there is no ", name);
}

int opts_parse_global(cli *c, int *used, int argc, char **argv)
{
    opt global[OPTS_GLOBAL];
    opts_global(c, global);
    int i = 1;
    for (; i < argc && argv[i][0] == '-' && argv[i][1] != '\0'; i++) {
        if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        }
        int code = opts_word(c, NULL, global, argv, &i);
        if (code != CLI_DONE) return code;
    }
    *used = i;
    return c->help ? OPTS_GO : opts_answer(c);
}
