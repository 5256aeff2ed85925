/* SPDX-License-Identifier: PostgreSQL
 *
 * pgwork: finds the command and runs it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "opts.h"
#include "signals.h"

static int cmd_help(cli *c, int argc, char **argv);
static int cmd_version(cli *c, int argc, char **argv);

static const verb commands[] = {
    {"migrate", "create or update the schema", cmd_migrate},
    {"queue", "list, create, set, pause, resume, hold, drain, purge, drop, ...", cmd_queue},
    {"groups", "list, set, reset, hold, unblock, purge", cmd_groups},
    {"enqueue", "add jobs from arguments, a file or stdin", cmd_enqueue},
    {"work", "run a command for each job, as xargs does", cmd_work},
    {"claim", "take jobs, for scripts", cmd_claim},
    {"complete", "finish claimed jobs", cmd_complete},
    {"fail", "fail claimed jobs: retry, or dead letter", cmd_fail},
    {"extend", "extend the leases of claimed jobs", cmd_extend},
    {"release", "requeue claimed jobs that were not started", cmd_release},
    {"snooze", "delay claimed jobs; no attempt is counted", cmd_snooze},
    {"progress", "store how far a claimed job is, or print it", cmd_progress},
    {"reap", "requeue expired leases, start delayed jobs, delete old ones (daemon)", cmd_reap},
    {"ls", "list jobs", cmd_ls},
    {"show", "show one job in full", cmd_show},
    {"wait", "wait until a job is over, print its output", cmd_wait},
    {"cancel", "remove waiting jobs, ask running ones to stop", cmd_cancel},
    {"reschedule", "move delayed jobs to another time", cmd_reschedule},
    {"retry", "make dead letters ready again, by id", cmd_retry},
    {"dead", "list, redrive or purge dead letters", cmd_dead},
    {"bulk", "change jobs by filter: cancel, redrive, reschedule, purge, move, priority", cmd_bulk},
    {"log", "list bulk operations: who did what", cmd_log},
    {"cron", "schedules: list, add, rm, pause, resume, run, next, tick, claim, ...", cmd_cron},
    {"stats", "count the jobs of every queue", cmd_stats},
    {"top", "show queues, workers and what is wrong, live", cmd_top},
    {"workers", "list workers and what they do", cmd_workers},
    {"demand", "print how much there is to do, for autoscalers", cmd_demand},
    {"metrics", "print metrics for Prometheus", cmd_metrics},
    {"ui", "serve the dashboard, for a browser", cmd_ui},
    {"doctor", "examine server, schema and reapers", cmd_doctor},
    {"lock", "run a command under a named lock, as flock does", cmd_lock},
    {"locks", "list holders and waiters of locks", cmd_locks},
    {"sem", "create, acquire, extend, release, resize, drop, list, run", cmd_sem},
    {"rate", "set, drop, ls, take, run", cmd_rate},
    {"table", "leases on your own tables: check, init, reap, register, ...", cmd_table},
    {"help", "show this text, or the usage of a command", cmd_help},
    {"version", "show the version", cmd_version},
    {NULL, NULL, NULL}};

static const verb *find(const char *name)
{
    for (const verb *v = commands; v->name; v++) {
        if (strcmp(v->name, name) == 0) return v;
    }
    return NULL;
}

static int unknown(const char *name)
{
    char hint[64] = "pgwork help";
    if (cli_is_dsn(name)) { /* psql takes a connection string there */
        return cli_fail(CLI_USAGE, CLI_HINT_ARGV, "expected a command, not a connection string");
    }
    const char *nearest = opts_nearest(commands, name);
    if (nearest) snprintf(hint, sizeof hint, "did you mean \"%s\"?", nearest);
    return cli_fail(CLI_USAGE, hint, "there is no command \"%s\"", name);
}

static int overview(void)
{
    printf("usage: pgwork [OPTIONS] COMMAND [ARGS...]\n\n"
           "A work queue in a PostgreSQL database: claim, lease, reap.\n\n");
    for (const verb *v = commands; v->name; v++) printf("  %-10s  %s\n", v->name, v->about);
    printf("\nOptions of every command:\n\n");
    opts_print_global();
    printf(
        "\nWhere the server is: --dsn-file FILE, else PGWORK_DSN, else libpq's own variables.\n\n"
        "Exit codes:\n\n"
        "  0  done\n"
        "  1  nothing was found, or at least a part was refused\n"
        "  2  a bad option, argument or input; over a limit\n"
        "  3  no server, or no answer in time: not applied, try again. Commands that work in "
        "batches\n"
        "     (enqueue, purge, drop, redrive, reschedule, bulk, migrate, reap) print what is done\n"
        "  4  the database or the schema is missing, or has another version\n"
        "  5  the role lacks a right, or the server is read-only or behind a pooler\n"
        "  6  the answer was lost: it may have been applied\n"
        "  7  extended, but the job was cancelled\n"
        "  8  any other error: of the server, out of memory, output not written\n"
        "  74        lock, sem run: lost while the command ran\n"
        "  75        lock, sem run, sem acquire, rate run, rate take: not obtained in time;\n"
        "            sem extend, sem release: not now; wait: not over in time\n"
        "  126, 127  work, lock, sem run, rate run: the command cannot be started, or does not "
        "exist\n"
        "  128+N     ended by signal N\n");
    return cli_finish(CLI_DONE);
}

static int cmd_help(cli *c, int argc, char **argv)
{
    static const usage use = {
        .synopsis = "help [COMMAND]",
        .about = "Shows the commands, or the usage of one command.",
        .max = 2,
    };
    static const opt none[] = {{.name = NULL}};
    args a;
    int code = opts_parse(c, &a, &use, none, argc, argv);
    if (code != OPTS_GO) return code;
    if (a.count == 0) return overview();
    const verb *v = find(a.at[0]);
    if (!v) return unknown(a.at[0]);
    c->command = v->name;
    c->help = a.count == 1; /* "help queue create" prints the usage of the verb */
    char *words[] = {a.at[0], a.count > 1 ? a.at[1] : NULL, (char[]){"--help"}, NULL};
    return v->run(c, a.count > 1 ? 3 : 1, words);
}

static int cmd_version(cli *c, int argc, char **argv)
{
    static const usage use = {
        .synopsis = "version",
        .about = "Shows the versions of the tool and of the library.",
    };
    static const opt none[] = {{.name = NULL}};
    args a;
    int code = opts_parse(c, &a, &use, none, argc, argv);
    if (code != OPTS_GO) return code;
    printf("pgwork %s (library %s)\n", PGW_VERSION_STRING, pgw_version());
    return cli_finish(CLI_DONE);
}

/* If stdin, stdout or stderr is closed, the next file that is opened would get its number. Opens a
 * file there that cannot be written, so that a claim notices that its output is lost. */
static void fill_standard_files(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDONLY);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO) close(fd);
}

static int run(cli *c, int argc, char **argv)
{
    int used;
    int code = opts_parse_global(c, &used, argc, argv);
    if (code != OPTS_GO) return code;
    if (used == argc) {
        if (c->help) return overview();
        return cli_fail(CLI_USAGE, "pgwork help",
                        "no command: expected one of the commands of `pgwork help`");
    }
    const verb *v = find(argv[used]);
    if (!v) return unknown(argv[used]);
    c->command = v->name;
    return v->run(c, argc - used, argv + used);
}

int main(int argc, char **argv)
{
    cli c = {.no_color = false};
    fill_standard_files();
    int code = run(&c, argc, argv);
    pgw_close(c.h);
    pgw_conf_free(c.conf);
    signals_forget();
    pgw_stop_free(c.stop);
    free(c.settings.at);
    return code;
}
