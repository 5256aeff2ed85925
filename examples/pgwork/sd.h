/* SPDX-License-Identifier: PostgreSQL
 *
 * sd: reports our state to systemd by its datagram protocol. Without systemd it does nothing.
 */
#ifndef SD_H
#define SD_H

#include <stdint.h>

/** Sends "READY=1", "STOPPING=1", "STATUS=...", or several lines of these. */
void sd_notify(const char *state);
/** How often to send WATCHDOG=1, in ms: half of the timeout. 0: there is no watchdog. */
int64_t sd_watchdog_ms(void);

#endif
