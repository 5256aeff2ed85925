/* wake: a self-pipe that ends a poll(). Poking is async-signal-safe; pokes are not counted. */
#ifndef PGW_WAKE_H
#define PGW_WAKE_H

#include <stdbool.h>

typedef struct pgw__wake {
    int read_fd, write_fd; /* -1: not open */
} pgw__wake;

#define PGW__WAKE_INIT \
    {                  \
        -1, -1         \
    }

bool pgw__wake_open(pgw__wake *w); /* false: no descriptor left; *w is then not open */
void pgw__wake_poke(const pgw__wake *w);
void pgw__wake_drain(const pgw__wake *w); /* consumes all pokes so far */
void pgw__wake_close(pgw__wake *w);

#endif
