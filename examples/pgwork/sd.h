/* SPDX-License-Identifier: PostgreSQL
 *
 * sd: tells systemd how we are, by its datagram protocol; without systemd it does nothing.
 */
#ifndef SD_H
#define SD_H

#include <stdint.h>

/** "READY=1", "STOPPING=1", "STATUS=..."; several lines at once are fine. */
void sd_notify(const char *state);
/** How often WATCHDOG=1 has to come, in ms, halved for safety; 0: nobody waits for it. */
int64_t sd_watchdog_ms(void);

#endif
