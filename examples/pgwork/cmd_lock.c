/* SPDX-License-Identifier: PostgreSQL
 *
 * pgwork lock: as flock(1), but over the network. pgwork locks: lists holders and waiters.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guard.h"
#include "opts.h"
#include "out.h"
#include "signals.h"
#include "text.h"

static bool lock_holds(void *arg)
{
    return pgw_lock_is_held(arg);
}

/* -- a command that would wait for itself --------------------------------------------------- */

/* The fencing numbers of locks that outer commands hold. */
#define LOCK_HELD "PGWORK_FENCES"

static bool lock_is_listed(const char *fences, int64_t fence)
{
    char *end;
    for (; *fences; fences = end) {
        if (strtoll(fences, &end, 10) == fence) return true;
        if (end == fences) return false;
    }
    return false;
}

/* Does an outer command hold the lock? Then this command would wait for itself. */
static int lock_check_ours(cli *c, const char *name, bool shared)
{
    const char *fences = getenv(LOCK_HELD);
    pgw_lock_who who = PGW_LOCK_WHO_INIT;
    if (!fences || pgw_lock_holder(c->h, name, &who) != PGW_OK) return CLI_DONE;
    if ((shared && who.shared) || !lock_is_listed(fences, who.fence)) return CLI_DONE;
    return cli_fail(CLI_USAGE, "the command would wait for itself; use another lock, or none",
                    "the lock is held for the command that runs this one");
}

static void lock_list_ours(const char *fence)
{
    const char *before = getenv(LOCK_HELD);
    buf t = {0};
    buf_puts(&t, before ? before : "");
    buf_puts(&t, before && *before ? " " : "");
    buf_puts(&t, fence);
    setenv(LOCK_HELD, t.at, 1);
    buf_free(&t);
}

static int lock_run(cli *c, const args *a, pgw_lock *lock, int64_t grace_ms)
{
    guard g = {.c = c,
               .command = a->command,
               .what = "lock",
               .wake_fd = pgw_lock_watch(lock),
               .holds = lock_holds,
               .arg = lock,
               .grace_ms = grace_ms};
    char fence[24];
    snprintf(fence, sizeof fence, "%lld", (long long)pgw_lock_fence(lock));
    setenv("PGWORK_LOCK", a->at[0], 1);
    setenv("PGWORK_FENCE", fence, 1);
    lock_list_ours(fence);
    int code = guard_run(&g);
    pgw_status st = pgw_lock_release(lock);
    if (st == PGW_OK || code == CLI_LOST) return code;
    return cli_fail(CLI_LOST, "another command may have run at the same time",
                    "the lock was lost while %s ran", a->command[0]);
}

/* -- for operators -------------------------------------------------------------------------- */

static int lock_break(cli *c, int argc, char **argv)
{
    bool asked = false;
    const opt opts[] = {{0, "break", NULL, "end the sessions that hold it", .flag = &asked},
                        {.name = NULL}};
    static const usage use = {
        .synopsis = "lock --break NAME",
        .about = "Ends the sessions that hold a lock, so that others can take it. The fencing\n"
                 "number of the holders is then stale, and their commands are stopped as after a\n"
                 "lost connection. For operators only. The owner of the schema needs\n"
                 "pg_signal_backend.",
        .more = "Exit code 1: nobody holds the lock.",
        .min = 1,
        .max = 1,
        .missing = "NAME",
    };
    args a;
    int64_t ended;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    if (pgw_lock_break(c->h, a.at[0], &ended) < 0) return cli_fail_at(c->h);
    cli_say(c, "%lld sessions ended", (long long)ended);
    return ended > 0 ? CLI_DONE : CLI_NOTHING;
}

static bool lock_is_break(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--"); i++)
        if (!strcmp(argv[i], "--break")) return true;
    return false;
}

int cmd_lock(cli *c, int argc, char **argv)
{
    if (lock_is_break(argc, argv)) return lock_break(c, argc, argv);
    bool shared = false, no_wait = false;
    int64_t wait_ms = PGW_UNLIMITED, grace_ms = 5000;
    int held = CLI_HELD;
    const char *pass = NULL;
    const opt opts[] = {
        {'s', "shared", NULL, "share the lock with others that use -s (exclusive)",
         .flag = &shared},
        {'w', "wait", "TIME", "wait up to TIME (no limit)", .ms = &wait_ms, .max = GUARD_WAIT_MAX},
        {'n', "no-wait", NULL, "do not wait", .flag = &no_wait},
        {'E', "held-code", "N", "exit code when the lock is not obtained (75)", .number = &held,
         .min = 0, .max = 255},
        {0, "grace", "TIME", "between TERM and KILL when the lock is lost (5s)", .ms = &grace_ms,
         .max = 86400000},
        {0, "pass", "SIGNALS", "pass these signals to the command: USR1,USR2,HUP", .text = &pass},
        {.name = NULL}};
    static const usage use = {
        .synopsis = "lock [-s] [-w TIME | -n] [-E N] [--grace TIME] [--pass SIGNALS]\n"
                    "       NAME -- COMMAND [ARG...]\nlock --break NAME",
        .about = "Runs a command while holding a named lock, as flock does with a file, but on\n"
                 "all machines. The lock is released when the command ends. The command is\n"
                 "stopped if the lock is lost with its connection, or by any signal that would\n"
                 "end this process. It finds the lock's name in PGWORK_LOCK and its fencing\n"
                 "number in PGWORK_FENCE.",
        .more = "Exit code: that of the command. 75: the lock was not obtained. 74: the lock was\n"
                "lost while the command ran. 126, 127: the command cannot be started, or does\n"
                "not exist.\n"
                "\n"
                "Processes that the command started are stopped with it, except if stdin is a\n"
                "terminal, or if this process is killed. A third signal kills them and ends\n"
                "pgwork at once.",
        .min = 1,
        .max = 1,
        .missing = "NAME",
        .command = true,
    };
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = guard_wait(c, no_wait, &wait_ms)) != CLI_DONE) return code;
    if ((code = guard_find(a.command)) != CLI_DONE) return code;
    if ((code = signals_install(c)) != CLI_DONE) return code;
    if ((code = signals_pass(c, pass)) != CLI_DONE) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    if ((code = lock_check_ours(c, a.at[0], shared)) != CLI_DONE) return code;
    pgw_set_stop(c->h, c->stop);
    pgw_lock *lock;
    pgw_lock_opts o = PGW_LOCK_OPTS_INIT;
    o.mode = shared ? PGW_LOCK_SHARED : PGW_LOCK_EXCLUSIVE;
    o.timeout_ms = wait_ms;
    pgw_status st = pgw_lock_acquire(c->h, a.at[0], &o, &lock);
    pgw_set_stop(c->h, NULL); /* from here on signals are for the command */
    return st == PGW_OK ? lock_run(c, &a, lock, grace_ms) : guard_refused(c, st, held);
}

/* -- locks ---------------------------------------------------------------------------------- */

typedef struct locks {
    bool json;
    table rows;
} locks;

static int locks_each(const pgw_lock_info *l, void *arg)
{
    locks *in = arg;
    if (in->json) {
        out o;
        out_begin(&o);
        out_text(&o, "lock", l->name);
        out_text(&o, "state", l->held ? "held" : "waits");
        out_text(&o, "mode", l->shared ? "shared" : "exclusive");
        out_int(&o, "pid", l->pid);
        out_text(&o, "application", l->application);
        out_text(&o, "user", l->user);
        out_text(&o, "client", l->client);
        out_time(&o, "since", l->since_us);
        out_int(&o, "fence", l->fence);
        out_end(&o);
        return 0;
    }
    char since[TEXT_TIME];
    table_text(&in->rows, l->name);
    table_text(&in->rows, l->held ? "held" : "waits");
    table_text(&in->rows, l->shared ? "shared" : "exclusive");
    table_int(&in->rows, l->pid);
    table_text(&in->rows, l->application);
    table_text(&in->rows, l->user);
    table_text(&in->rows, l->client);
    table_text(&in->rows, l->since_us ? text_time(since, l->since_us) : NULL);
    table_int(&in->rows, l->fence);
    return 0;
}

int cmd_locks(cli *c, int argc, char **argv)
{
    static const opt opts[] = {{.name = NULL}};
    static const usage use = {
        .synopsis = "locks [NAME]",
        .about = "Lists the holders and the waiters of one lock or of all, in their order. PID is\n"
                 "the server's process. `pgwork lock --break NAME` takes the lock from a holder\n"
                 "that hangs.",
        .more = "Exit code 1: there are no holders and no waiters.",
        .max = 1,
    };
    static const char *const headings[] = {"LOCK", "STATE",  "MODE",  "PID>",  "APPLICATION",
                                           "USER", "CLIENT", "SINCE", "FENCE>"};
    args a;
    int code = opts_parse(c, &a, &use, opts, argc, argv);
    if (code != OPTS_GO) return code;
    if ((code = cli_open(c, false)) != CLI_DONE) return code;
    locks l = {.json = c->json};
    table_begin(&l.rows, headings, sizeof headings / sizeof *headings);
    pgw_status st = pgw_locks_each(c->h, a.count ? a.at[0] : NULL, locks_each, &l);
    table_end(&l.rows);
    return cli_listed(c, st, "there are no holders and no waiters");
}
