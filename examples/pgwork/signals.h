/* SPDX-License-Identifier: PostgreSQL
 *
 * signals: TERM and INT ask once to stop and twice to hurry; the third ends the program at once.
 */
#ifndef SIGNALS_H
#define SIGNALS_H

#include "cli.h"

/** Makes c->stop and points the signals at it. CLI_DONE or an exit code, told. */
int signals_install(cli *c);
/** HUP, for the reaper. */
void signals_on_reload(pgw_reaper *r);
/** The exit code of a command that was interrupted: 128 and the signal; 0: none came. */
int signals_code(void);
/** Sleeps until @p ms have passed; false: asked to stop. */
bool signals_sleep(const cli *c, int64_t ms);

#endif
