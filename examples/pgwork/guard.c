/* SPDX-License-Identifier: PostgreSQL */
#include "guard.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>

#include "child.h"
#include "signals.h"

enum { GUARD_LOST = 1, GUARD_STOPPED = 2 };

static int guard_cannot_start(const char *command, int error)
{
    return cli_fail(error == ENOENT ? 127 : 126, NULL, "cannot start %s: %s", command,
                    strerror(error));
}

int guard_wait(const cli *c, bool no_wait, int64_t *wait_ms)
{
    if (!no_wait) return CLI_DONE;
    if (*wait_ms >= 0) return cli_fail(CLI_USAGE, NULL, "%s: -w or -n, not both", c->command);
    *wait_ms = 0;
    return CLI_DONE;
}

int guard_find(char **command)
{
    int missing = child_find(command[0]);
    return missing ? guard_cannot_start(command[0], missing) : CLI_DONE;
}

static int guard_signals(void *arg)
{
    guard *g = arg;
    if (!g->holds(g->arg)) return GUARD_LOST;
    return pgw_stop_count(g->c->stop) > 0 ? GUARD_STOPPED : 0;
}

int guard_run(guard *g)
{
    child ch = {.argv = g->command,
                .plain = true,
                .wake_fd = g->wake_fd,
                .signals = guard_signals,
                .arg = g,
                .grace_ms = g->grace_ms};
    int failed = child_run(&ch);
    if (failed) return guard_cannot_start(g->command[0], failed);
    if (ch.signaled == GUARD_LOST) {
        return cli_fail(CLI_LOST, "another process may hold it now",
                        "the %s was lost: %s was stopped", g->what, g->command[0]);
    }
    if (ch.unknown) {
        return cli_fail(CLI_OTHER, NULL, "cannot determine how %s ended: %s", g->command[0],
                        strerror(ch.unknown));
    }
    return WIFEXITED(ch.status) ? WEXITSTATUS(ch.status) : 128 + WTERMSIG(ch.status);
}

int guard_refused(const cli *c, pgw_status st, int code)
{
    int failed = signals_failed(c, st);
    return st == PGW_ELOCKED ? code : failed;
}
