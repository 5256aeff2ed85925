/* SPDX-License-Identifier: PostgreSQL
 *
 * pgwork, the command line tool: everything it does it does through inc/pgwork.h.
 *
 * What the commands share: the options of every command, the way to a handle, how to speak to
 * people, and what an exit code says. One command, one file: cmd_<name>.c.
 */
#ifndef CLI_H
#define CLI_H

#include "pgwork.h"

/* Exit codes. The man page has the same table; scripts depend on it: append only. */
enum {
    CLI_DONE = 0,    /* all of it */
    CLI_NOTHING = 1, /* nothing there, or refused, at least in part */
    CLI_USAGE = 2,   /* a bad option, argument or input; over a limit */
    CLI_SERVER = 3,  /* no server, or none in time: not applied, try again */
    CLI_SCHEMA = 4,  /* the schema is missing or of another version */
    CLI_PERM = 5,    /* the role may not, or the server is read-only or pooled */
    CLI_UNKNOWN = 6, /* the answer was lost: applied or not, nobody knows */
    CLI_CANCEL = 7,  /* extended, but the job was cancelled */
    CLI_OTHER = 8,   /* anything else: an error of the server, no memory, output not written */
    CLI_LOST = 74,   /* lock and sem run: lost while the command ran, which was ended */
    CLI_HELD = 75    /* lock, sem: not obtained, no command was started; or not now */
};

#define CLI_DAY  INT64_C(86400000) /* in ms */
#define CLI_YEAR (365 * CLI_DAY)

/* For who gives a connection string as an argument. */
#define CLI_HINT_ARGV "all users of this machine can read argv: use PGWORK_DSN or --dsn-file FILE"

/* Words that were given one after the other. */
typedef struct wordlist {
    const char **at;
    size_t count;
} wordlist;

typedef struct cli {
    const char *command; /* for messages: "queue create" */
    /* options of every command */
    const char *dsn_file, *schema;
    wordlist settings; /* of -X: key=value */
    bool json, no_color, quiet, help, version;
    int verbose;
    /* what the command opens */
    pgw_conf *conf;
    pgw *h;
    pgw_stop *stop;
} cli;

/** Says "pgwork: ..." and "hint: ..." (NULL: none) on stderr, and returns @p code. */
int cli_fail(int code, const char *hint, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/** The error that stands on @p h, for people; returns the exit code for it. */
int cli_fail_at(const pgw *h);
/** The same for a status and a message that have no handle. */
int cli_fail_with(pgw_status st, const char *message, const char *hint);
/** The same as cli_fail_at(), for one of several: says which. */
int cli_fail_of(const pgw *h, const char *name);
/** "pgwork: ..." on stderr unless -q. */
void cli_say(const cli *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** The exit code for @p st. */
int cli_code(pgw_status st);

/** A fresh configuration from environment and options: caller frees it. CLI_DONE or an exit code,
 * told. */
int cli_configure(const cli *c, pgw_conf **conf);
/** c->conf, then c->h. With @p unmigrated also where there is no schema yet. CLI_DONE or an exit
 * code, told. */
int cli_open(cli *c, bool unmigrated);
/** Sets a property of c->conf to a number. CLI_DONE or an exit code, told. */
int cli_set(cli *c, const char *name, int64_t value);

/** Calls @p apply for each of @p n names, and goes on when one is refused: the exit code of the
 * first that was, all told. What every other one would meet as well, such as a lost server, ends
 * it, and is the exit code then. */
int cli_each(cli *c, char *const *names, int n, pgw_status (*apply)(pgw *, const char *));

/** When nothing was found in queue @p name: says so, and returns false, if there is no such queue.
 */
int64_t cli_limit(int64_t n); /* of an option for which 0 means all */
/* Reads the value of --state, which NULL leaves as it is. */
int cli_state(const cli *c, const char *text, const char *allowed, pgw_state *state);
bool cli_queue_there(cli *c, const char *name);

/** When nothing could be claimed: says so if there is no queue @p name. Whoever may claim may not
 * look at queues. */
void cli_look_for(cli *c, const char *name);

/** What a queue does not let pass: "held until TIME" (without @p text: "held"), "paused",
 * "draining" or "closed"; NULL: it is open. */
#define CLI_DOORS 64
const char *cli_doors(const pgw_queue_info *q, char text[CLI_DOORS]);
/** When nothing could be claimed from queue @p name: says why, as far as this role may see it. */
void cli_say_why(cli *c, const char *name);

/** When a list has come to its @p limit: says how to go on behind job @p last. */
void cli_go_on(const cli *c, int count, int limit, int64_t last);

/** Reads one number of a job. CLI_DONE, or CLI_USAGE, told. */
int cli_id(int64_t *id, const char *text);
/** The same for @p n words; *ids: caller frees. */
int cli_ids(int64_t **ids, char *const *words, size_t n);
/** Fails because only @p done of @p n jobs were such: @p what is "dead letter", say. */
int cli_ids_not(const char *what, const char *queue, const int64_t *ids, size_t n, int64_t done,
                const char *hint);
/** Sorts them, and leaves each once: returns how many these are. */
size_t cli_ids_once(int64_t *ids, size_t n);

/** Of what goes in pieces, and ended with @p code: "deleted 3 jobs", or {"deleted":3} of @p member;
 * after a failure only where it was any. Returns @p code. */
int cli_tell_done(const cli *c, int code, const char *member, int64_t n, const char *done,
                  const char *thing);

/** Is this, where something else was expected, a connection string? It may hold a password, and is
 * not to be repeated. */
bool cli_is_dsn(const char *word);

/** Flushes stdout. @p code, or CLI_OTHER, told, when not everything could be written. */
int cli_finish(int code);

/** Ends a command that lists: fails, or says @p none when there was nothing (NULL: nothing is
 * said).
 */
int cli_listed(cli *c, pgw_status st, const char *none);

/** Memory, or the end of the program: the tool has nothing better to do without. */
void *cli_alloc(size_t size);
void *cli_realloc(void *p, size_t size);
char *cli_copy(const char *text, size_t size);

void wordlist_add(wordlist *l, const char *word); /* the word is borrowed */

/** One command, or one of its own ("create" of "queue"). */
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
int cmd_show(cli *c, int argc, char **argv);
int cmd_cancel(cli *c, int argc, char **argv);
int cmd_reschedule(cli *c, int argc, char **argv);
int cmd_retry(cli *c, int argc, char **argv);
int cmd_dead(cli *c, int argc, char **argv);
int cmd_bulk(cli *c, int argc, char **argv);
int cmd_log(cli *c, int argc, char **argv);
int cmd_cron(cli *c, int argc, char **argv);
int cmd_stats(cli *c, int argc, char **argv);
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
