/* clock: monotonic milliseconds and deadlines. The wall clock is the server's business. */
#ifndef PGW_CLOCK_H
#define PGW_CLOCK_H

#include <stdint.h>

int64_t pgw__clock_ms(void); /* CLOCK_MONOTONIC */
int64_t pgw__clock_us(void);
/* A deadline is a point on the monotonic clock in ms; -1 is "never". */
int64_t pgw__deadline_in(int64_t timeout_ms);    /* timeout < 0: never; saturates */
int64_t pgw__deadline_left_ms(int64_t deadline); /* >= 0, or -1 for never */
int64_t pgw__deadline_min(int64_t a, int64_t b); /* the earlier one; never is later than all */

/* Tests replace the source of time. */
extern int64_t (*pgw__clock_source_us)(void);

#endif
