/* SPDX-License-Identifier: PostgreSQL
 *
 * signals: the first TERM, INT or QUIT asks to stop, the second to hurry, and the third ends the
 * program and its commands at once. USR1, ALRM and all others that would end the program count,
 * too. HUP only asks to stop, however often it comes. INT, QUIT and HUP that are ignored from the
 * start stay ignored, also in commands. INT and QUIT from a terminal that a command shares are left
 * to the command. Processes that commands leave behind are reaped.
 */
#ifndef SIGNALS_H
#define SIGNALS_H

#include <sys/types.h>

#include "cli.h"

/** Creates c->stop, which signals notify. */
int signals_install(cli *c);
/** The same, then cli_open(). A signal that comes meanwhile ends the command. */
int signals_open(cli *c);
/** Call it before c->stop is freed. Later signals are only counted. */
void signals_forget(void);
/** From now on HUP makes @p r read its configuration again. NULL: no longer. */
void signals_on_reload(pgw_reaper *r);
/** Register a command, so that a signal that ends this process ends the command first. Call the
 * first before the start, the second after it. @p whom: the process, or minus its group, or 0 if
 * the start failed. Returns a slot for signals_child_ended(), or -1 for 0. */
void signals_child_starts(void);
int signals_child_started(pid_t whom);
void signals_child_ended(int slot);
/** Passes signals on to commands: @p names is a list such as "USR1,HUP", or NULL. Call it after
 * signals_install(). */
int signals_pass(const cli *c, const char *names);
/** The exit code of an interrupted command: 128 + the signal. 0: there was no signal. */
int signals_code(void);
/** The exit code of a call that failed with @p st. Prints the error unless a signal ended it. */
int signals_failed(const cli *c, pgw_status st);
/** Sleeps for @p ms. false: a signal asks to stop. */
bool signals_sleep(const cli *c, int64_t ms);
/** The same until a key of the terminal: returns that; 0: none came; -1: asked to stop. */
int signals_key(const cli *c, int64_t ms);

#endif
