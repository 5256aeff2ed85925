/* SPDX-License-Identifier: PostgreSQL
 *
 * guard: runs one command while a lock or permit is held. The command inherits stdin, stdout and
 * stderr. It is stopped if the lock or permit is lost, or if a signal asks to stop.
 */
#ifndef GUARD_H
#define GUARD_H

#include "cli.h"

#define GUARD_WAIT_MAX INT64_C(31536000000) /* a year, the limit of the library */

typedef struct guard {
    cli *c;
    char **command;
    const char *what;         /* what is held, such as "lock" */
    int wake_fd;              /* when it is readable, holds() is called; -1: every 50 ms */
    bool (*holds)(void *arg); /* is it still held? Called until the command ended */
    void *arg;
    int64_t grace_ms; /* between TERM and KILL */
} guard;

/** With @p no_wait, @p wait_ms (-1: not given) becomes 0. Both options together are refused. */
int guard_wait(const cli *c, bool no_wait, int64_t *wait_ms);
/** CLI_DONE, or the exit code for a command that cannot be started. */
int guard_find(char **command);
/** The exit code: that of the command, 128 + the signal that ended it, or CLI_LOST. */
int guard_run(guard *g);
/** The exit code if nothing was obtained: @p code for PGW_ELOCKED, or that of a signal. */
int guard_refused(const cli *c, pgw_status st, int code);

#endif
