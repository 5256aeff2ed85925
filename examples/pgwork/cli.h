/* SPDX-License-Identifier: PostgreSQL
 *
 * pgwork, the command line tool. It uses the library through inc/pgwork.h only.
 *
 * This header declares what the commands share: common options, handles, messages and exit codes.
 * Each command has a file of its own: cmd_<name>.c.
 *
 * A function that returns an exit code other than CLI_DONE has printed the error.
 */
#ifndef CLI_H
#define CLI_H

#include "pgwork.h"

/* Exit codes, as in pgwork(1). Scripts depend on them: only append. */
enum {
    CLI_DONE = 0,    /* all of it */
    CLI_NOTHING = 1, /* nothing was found, or at least a part was refused */
    CLI_USAGE = 2,   /* a bad option, argument or input; over a limit */
    CLI_SERVER = 3,  /* no server, or no answer in time: not applied, try again */
    CLI_SCHEMA = 4,  /* the schema is missing, or has another version */
    CLI_PERM = 5,    /* a right is missing, or the server is read-only or behind a pooler */
    CLI_UNKNOWN = 6, /* the answer was lost: it may have been applied */
    CLI_CANCEL = 7,  /* extended, but the job was cancelled */
    CLI_OTHER = 8,   /* any other error: of the server, out of memory, output not written */
    CLI_LOST = 74,   /* lock, sem run: lost while the command ran, and the command was stopped */
    CLI_HELD = 75    /* not obtained in time, and no command was started */
};

#define CLI_DAY  INT64_C(86400000) /* in ms */
#define CLI_YEAR (365 * CLI_DAY)

/* The hint for a connection string that is passed as an argument. */
#define CLI_HINT_ARGV "all users of this machine can read argv: use PGWORK_DSN or --dsn-file FILE"

/* The words of an option that may be repeated. */
typedef struct wordlist {
    const char **at;
    size_t count;
} wordlist;

typedef struct cli {
    const char *command; /* for messages: "queue create" */
    /* common options */
    const char *dsn_file, *schema;
    wordlist settings; /* of -X: key=value */
    bool json, no_color, quiet, help, version;
    int verbose;
    /* opened by the command */
    pgw_conf *conf;
    pgw *h;
    pgw_stop *stop;
} cli;

/** Prints "pgwork: ..." and "hint: ..." (NULL: none) on stderr, and returns @p code. */
int cli_fail(int code, const char *hint, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/** Prints the error of @p h, and returns the exit code for it. */
int cli_fail_at(const pgw *h);
/** The same for a status and a message without a handle. */
int cli_fail_with(pgw_status st, const char *message, const char *hint);
/** The same as cli_fail_at(), with the name of the object. */
int cli_fail_of(const pgw *h, const char *name);
/** Prints "pgwork: ..." on stderr, except with -q. */
void cli_say(const cli *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** The exit code for @p st. */
int cli_code(pgw_status st);

/** Makes a configuration from environment and options. The caller frees it. */
int cli_configure(const cli *c, pgw_conf **conf);
/** Opens c->conf and c->h. @p unmigrated: the schema need not exist yet. */
int cli_open(cli *c, bool unmigrated);
/** Sets a property of c->conf to a number. */
int cli_set(cli *c, const char *name, int64_t value);

/** Calls @p apply for each of @p n names. A refusal does not stop it; the first one sets the exit
 * code. An error that affects every name, such as a lost server, ends it and sets the exit code. */
int cli_each(cli *c, char *const *names, int n, pgw_status (*apply)(pgw *, const char *));

/** The limit for an option whose 0 means all. */
int64_t cli_limit(int64_t n);
/** Reads the N of a rate. @p none: it may be the word "none". And the options that belong to it. */
int cli_rate(const char *text, int *n, bool *none);
#define CLI_RATE_MAX 1000000
/* clang-format off */
#define CLI_RATE_OPTS(o)                                                                         \
    {0, "per", "TIME", "N in so long (1s)", .ms = &(o).per_ms, .min = 1, .max = CLI_YEAR},       \
    {0, "burst", "N", "at most N at once (as many as per TIME)", .number = &(o).burst, .min = 1, \
     .max = CLI_RATE_MAX}
/* clang-format on */
/** Reads the value of --state. NULL changes nothing. */
int cli_state(const cli *c, const char *text, const char *allowed, pgw_state *state);
/** Returns whether queue @p name exists, and prints a message if not. */
bool cli_queue_there(cli *c, const char *name);

/** Prints a message if queue @p name does not exist. For roles that may claim but not list queues.
 */
void cli_check_queue(cli *c, const char *name);

/** The state of a queue that is not open: "held until TIME" (without @p text: "held"), "paused",
 * "draining" or "closed". NULL: the queue is open. */
#define CLI_QUEUE_STATE 64
const char *cli_queue_state(const pgw_queue_info *q, char text[CLI_QUEUE_STATE]);
/** The same; for an open queue a word for its counts: "active", "waiting", "gated", "delayed" or
 * "empty". */
const char *cli_queue_word(const pgw_queue_info *q, char text[CLI_QUEUE_STATE]);
/** Prints why nothing can be claimed from queue @p name, as far as this role may see it. */
void cli_say_why(cli *c, const char *name);

/** If a list has reached its @p limit: prints how to continue after job @p last. */
void cli_go_on(const cli *c, int count, int limit, int64_t last);

/** Reads a job id. */
int cli_id(int64_t *id, const char *text);
/** The same for @p n words. The caller frees *ids. */
int cli_ids(int64_t **ids, char *const *words, size_t n);
/** Fails because only @p done of @p n jobs were of the kind @p what, such as "dead letter". */
int cli_ids_not(const char *what, const char *queue, const int64_t *ids, size_t n, int64_t done,
                const char *hint);
/** Sorts ids and removes duplicates. Returns how many are left. */
size_t cli_ids_once(int64_t *ids, size_t n);

/** Prints the count of an operation that works in batches: "deleted 3 jobs", or {"deleted":3} with
 * the name @p member. After a failure it prints no 0. Returns @p code. */
int cli_report_done(const cli *c, int code, const char *member, int64_t n, const char *done,
                    const char *thing);

/** Is @p word a connection string? It may contain a password, so messages must not repeat it. */
bool cli_is_dsn(const char *word);

/** Flushes stdout. Returns @p code, or CLI_OTHER if something could not be written. */
int cli_finish(int code);

/** Ends a command that lists. Prints the error, or @p none if the list is empty (NULL: nothing). */
int cli_listed(cli *c, pgw_status st, const char *none);

/** Allocate, or end the program with an error. */
void *cli_alloc(size_t size);
void *cli_realloc(void *p, size_t size);
/** Until it is off again, cli_realloc() ends the process with CLI_UNKNOWN. */
void cli_answering(bool on);
char *cli_copy(const char *text, size_t size);

void wordlist_add(wordlist *l, const char *word); /* borrows the word */

/** A command, or a verb of one ("create" of "queue"). */
typedef struct verb {
    const char *name, *about;
    int (*run)(cli *c, int argc, char **argv); /* argv[0] is the verb's name */
} verb;

/* clang-format off */
int cmd_migrate(cli *c, int argc, char **argv);
int cmd_queue(cli *c, int argc, char **argv);
int cmd_groups(cli *c, int argc, char **argv);
int cmd_enqueue(cli *c, int argc, char **argv);
int cmd_work(cli *c, int argc, char **argv);
int cmd_claim(cli *c, int argc, char **argv);
int cmd_complete(cli *c, int argc, char **argv);
int cmd_fail(cli *c, int argc, char **argv);
int cmd_extend(cli *c, int argc, char **argv);
int cmd_release(cli *c, int argc, char **argv);
int cmd_snooze(cli *c, int argc, char **argv);
int cmd_reap(cli *c, int argc, char **argv);
int cmd_ls(cli *c, int argc, char **argv);
int cmd_progress(cli *c, int argc, char **argv);
int cmd_show(cli *c, int argc, char **argv);
int cmd_cancel(cli *c, int argc, char **argv);
int cmd_reschedule(cli *c, int argc, char **argv);
int cmd_retry(cli *c, int argc, char **argv);
int cmd_dead(cli *c, int argc, char **argv);
int cmd_bulk(cli *c, int argc, char **argv);
int cmd_log(cli *c, int argc, char **argv);
int cmd_cron(cli *c, int argc, char **argv);
int cmd_stats(cli *c, int argc, char **argv);
int cmd_top(cli *c, int argc, char **argv);
int cmd_workers(cli *c, int argc, char **argv);
int cmd_wait(cli *c, int argc, char **argv);
int cmd_demand(cli *c, int argc, char **argv);
int cmd_metrics(cli *c, int argc, char **argv);
int cmd_doctor(cli *c, int argc, char **argv);
int cmd_lock(cli *c, int argc, char **argv);
int cmd_locks(cli *c, int argc, char **argv);
int cmd_sem(cli *c, int argc, char **argv);
int cmd_rate(cli *c, int argc, char **argv);
int cmd_table(cli *c, int argc, char **argv);
int cmd_ui(cli *c, int argc, char **argv);
/* clang-format on */

#endif
