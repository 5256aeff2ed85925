/* clock: monotonic milliseconds and deadlines. Only the server reads a wall clock. */
#ifndef PGW_CLOCK_H
#define PGW_CLOCK_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

int64_t pgw__clock_ms(void); /* on Linux it goes on while the machine is suspended */
int64_t pgw__clock_us(void);
/* A deadline is a point on the monotonic clock in ms; -1 is "never". */
int64_t pgw__deadline_in(int64_t timeout_ms);    /* timeout < 0: never; saturates */
int64_t pgw__deadline_left_ms(int64_t deadline); /* >= 0, or -1 for never */
int64_t pgw__deadline_min(int64_t a, int64_t b); /* the earlier one; never is later than all */
/* poll() until then, which a signal does not end early. True: a descriptor is ready. */
bool pgw__deadline_poll(struct pollfd *fds, nfds_t n, int64_t deadline);

/* Tests replace the source of time. */
extern int64_t (*pgw__clock_source_us)(void);

#endif
