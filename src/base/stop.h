/* stop: a self-pipe and a counter. */
#ifndef PGW_STOP_H
#define PGW_STOP_H

#include "pgwork.h"

/* The public functions are all there is; the struct is private to stop.c. NULL stops are allowed:
 * count 0, fd -1. */

#endif
