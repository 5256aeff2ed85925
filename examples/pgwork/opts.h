/* SPDX-License-Identifier: PostgreSQL
 *
 * opts: one table per command says which options there are, where their values go and what the help
 * tells; parsing, checking and --help all come from it.
 */
#ifndef OPTS_H
#define OPTS_H

#include "cli.h"

/* Exactly one of the pointers says of which type an option is and where its value goes. */
typedef struct opt {
    char letter;       /* 0: none */
    const char *name;  /* without the dashes */
    const char *value; /* what the help calls it; NULL: a switch */
    const char *help;
    bool *flag;
    int *times;        /* how often the switch was given */
    const char **text; /* borrowed from argv */
    int *number;
    int64_t *big;
    int64_t *ms;      /* 500ms, 30s, 5m, 2h, 1d, 1h30m; a bare number is seconds */
    int64_t *time_us; /* 2030-01-31T12:00:00Z */
    wordlist *words;  /* may be given again and again */
    int64_t min, max; /* for number, big and ms; max 0: no limit */
    bool unlimited;   /* number or ms may be the word "unlimited", too: PGW_UNLIMITED */
} opt;

typedef struct usage {
    const char *synopsis; /* one line each, without "pgwork" */
    const char *about;
    const char *more;        /* after the options; NULL: nothing */
    int min, max;            /* arguments; max -1: any number */
    const char *missing;     /* what is missing when there are fewer than min */
    bool command;            /* "-- COMMAND [ARG...]" has to follow, */
    const wordlist *instead; /* unless one of these was given; NULL: always */
} usage;

typedef struct args {
    char **at; /* the arguments, in argv's own memory */
    int count;
    char **command; /* what stood behind its "--", NULL-terminated, if there is to be a command: one
                       word at least, and that not empty */
} args;

/** opts_parse() returns this when the command may go on, else the exit code: all has been said. */
#define OPTS_GO (-1)

/** Options may stand anywhere before "--", behind which a word is an argument though it begin with
 * a dash; a command then has a "--" of its own. @p opts ends with a row whose name is NULL. */
int opts_parse(cli *c, args *a, const usage *use, const opt *opts, int argc, char **argv);
/** Which jobs are meant has to be said, since a list of ids that came out empty is not all of them:
 * CLI_DONE when it was @p said, else CLI_USAGE, told with the @p ways to say it. */
int opts_which(const cli *c, bool said, const char *ways);
/** Runs the verb that argv names, behind options of every command at most. @p fallback: which when
 * there is none, or NULL. */
int opts_dispatch(cli *c, const usage *use, const verb *verbs, const char *fallback, int argc,
                  char **argv);
/** The options of the whole tool, before the command. Returns OPTS_GO and how many words they took.
 */
int opts_parse_global(cli *c, int *used, int argc, char **argv);
void opts_print_global(void);
/** The name in @p verbs that is most like @p word, or NULL. */
const char *opts_nearest(const verb *verbs, const char *word);

#endif
