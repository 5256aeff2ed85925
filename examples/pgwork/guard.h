/* SPDX-License-Identifier: PostgreSQL
 *
 * guard: runs one command while something is held, with our own stdin, stdout and stderr; ends it
 * when that is lost, or when we are asked to stop.
 */
#ifndef GUARD_H
#define GUARD_H

#include "cli.h"

#define GUARD_WAIT_MAX INT64_C(31536000000) /* a year: the library waits no longer */

typedef struct guard {
    cli *c;
    char **command;
    const char *what;         /* is held: "lock" */
    int wake_fd;              /* readable: ask holds(); -1: ask now and then (each 50 ms) */
    bool (*holds)(void *arg); /* is it still ours? Asked until the command has ended */
    void *arg;
    int64_t grace_ms; /* between TERM and KILL */
} guard;

/** Without waiting: @p wait_ms (-1: not given) becomes 0. CLI_DONE, or told, when both are asked.
 */
int guard_wait(const cli *c, bool no_wait, int64_t *wait_ms);
/** CLI_DONE, or the exit code for a command that cannot be started, told: to be asked before. */
int guard_find(char **command);
/** The exit code: that of the command, 128 and the signal that ended it, or CLI_LOST, told. */
int guard_run(guard *g);
/** Told, when nothing was obtained: @p code for PGW_ELOCKED; that of the signal when one came. */
int guard_refused(const cli *c, pgw_status st, int code);

#endif
