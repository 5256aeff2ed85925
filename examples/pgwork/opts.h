/* SPDX-License-Identifier: PostgreSQL
 *
 * opts: one table per command lists its options, where their values go, and their help texts.
 * Parsing, checking and --help use this table.
 */
#ifndef OPTS_H
#define OPTS_H

#include "cli.h"

/* Exactly one pointer is set: it gives the type of the option and receives the value. */
typedef struct opt {
    char letter;       /* 0: none */
    const char *name;  /* without the dashes */
    const char *value; /* its name in the help; NULL: a switch */
    const char *help;
    bool *flag;
    int *times;        /* counts how often the switch is given */
    const char **text; /* borrowed from argv */
    int *number;
    int64_t *big;
    int64_t *ms;      /* 500ms, 30s, 5m, 2h, 1d, 1h30m; without a unit: seconds */
    int64_t *time_us; /* 2030-01-31T12:00:00Z */
    wordlist *words;  /* may be repeated */
    int64_t min, max; /* for number, big and ms; max 0: no limit */
    bool unlimited;   /* number and ms also accept "unlimited": PGW_UNLIMITED */
} opt;

typedef struct usage {
    const char *synopsis; /* lines without "pgwork" */
    const char *about;
    const char *more;        /* after the options; NULL: nothing */
    int min, max;            /* arguments; max -1: any number */
    const char *missing;     /* the arguments that the error names if there are fewer than min */
    bool command;            /* "-- COMMAND [ARG...]" must follow, */
    const wordlist *instead; /* unless one of these is given; NULL: always */
} usage;

typedef struct args {
    char **at; /* the arguments, in argv's own memory */
    int count;
    char **command; /* the words after "--", NULL-terminated: at least one, and not empty */
} args;

/** opts_parse() returns this if the command may continue, otherwise the exit code. */
#define OPTS_GO (-1)

/** Options may stand anywhere before "--". A word after "--" is an argument, even if it begins with
 * a dash; a command then needs a second "--". @p opts ends with a row whose name is NULL. Unless it
 * returns OPTS_GO, it leaves no word lists to free. */
int opts_parse(cli *c, args *a, const usage *use, const opt *opts, int argc, char **argv);
/** Refuses a command that selects no jobs, because an empty list of ids must not mean all jobs.
 * @p said: jobs were selected. @p ways: how to select them, for the error. */
int opts_which(const cli *c, bool said, const char *ways);
/** Runs the verb that argv names. Only common options may stand before it. @p fallback: the verb
 * if there is none, or NULL. */
int opts_dispatch(cli *c, const usage *use, const verb *verbs, const char *fallback, int argc,
                  char **argv);
/** Parses the options before the command. Returns OPTS_GO and the number of words. */
int opts_parse_global(cli *c, int *used, int argc, char **argv);
void opts_print_global(void);
/** The name in @p verbs that is most similar to @p word, or NULL. */
const char *opts_nearest(const verb *verbs, const char *word);

#endif
