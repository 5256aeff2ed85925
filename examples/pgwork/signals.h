/* SPDX-License-Identifier: PostgreSQL
 *
 * signals: TERM, INT and QUIT ask once to stop and twice to hurry; the third ends the program at
 * once. HUP asks to stop, however often it comes. INT, QUIT and HUP that are ignored from the start
 * stay so, for commands that we run as well.
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
/** Whom the third signal kills: a process, or -group; 0: nobody. */
void signals_take_along(pid_t whom);
/** The exit code of a command that was interrupted: 128 and the signal; 0: none came. */
int signals_code(void);
/** The exit code of a call that failed with @p st: told, unless a signal has asked for it. */
int signals_failed(const cli *c, pgw_status st);
/** Sleeps until @p ms have passed; false: asked to stop. */
bool signals_sleep(const cli *c, int64_t ms);

#endif
