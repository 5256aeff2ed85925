/* SPDX-License-Identifier: PostgreSQL
 *
 * signals: TERM, INT and QUIT ask once to stop and twice to hurry; the third ends the program at
 * once, and its commands. So do USR1, ALRM and all others that would end it. HUP asks to stop,
 * however often it comes. INT, QUIT and HUP that are ignored from the start stay so, for commands
 * that we run as well. INT and QUIT of a terminal that a command shares are for the command.
 * Processes that commands leave behind are buried.
 */
#ifndef SIGNALS_H
#define SIGNALS_H

#include <sys/types.h>

#include "cli.h"

/** Makes c->stop and points the signals at it. CLI_DONE or an exit code, told. */
int signals_install(cli *c);
/** The same, then cli_open(); a signal that comes meanwhile ends the command before it did a thing.
 */
int signals_open(cli *c);
/** c->stop is to go: what comes from now on is only counted. */
void signals_forget(void);
/** What HUP is for instead: @p r is to read its configuration again. NULL: no more. */
void signals_on_reload(pgw_reaper *r);
/** A command is about to be started; it was, @p whom is its process, or -group, or 0 when it was
 * not: returns a slot for signals_child_ended(), -1 for 0. Whatever ends us ends it first. */
void signals_child_starts(void);
int signals_child_started(pid_t whom);
void signals_child_ended(int slot);
/** Passes signals on to commands: @p names is a list like "USR1,HUP", or NULL. CLI_DONE or an exit
 * code, told. After signals_install(). */
int signals_pass(const cli *c, const char *names);
/** The exit code of a command that was interrupted: 128 and the signal; 0: none came. */
int signals_code(void);
/** The exit code of a call that failed with @p st: told, unless a signal has asked for it. */
int signals_failed(const cli *c, pgw_status st);
/** Sleeps until @p ms have passed; false: asked to stop. */
bool signals_sleep(const cli *c, int64_t ms);
/** The same until a key of the terminal: returns that; 0: none came; -1: asked to stop. */
int signals_key(const cli *c, int64_t ms);

#endif
