/* log: one sink; the level is asked before anything is formatted; a variadic front for a plain,
 * mockable back. */
#ifndef PGW_LOG_H
#define PGW_LOG_H

#include "pgwork.h"

typedef struct pgw__log {
    pgw_level level; /* 0: silent */
    pgw_log_fn *fn;
    void *arg;
} pgw__log;

void pgw__log_write(const pgw__log *log, pgw_level level, const char *room, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#define PGW__LOG(log, lvl, room, ...)                          \
    do {                                                       \
        if ((log)->fn != NULL && (lvl) <= (log)->level)        \
            pgw__log_write((log), (lvl), (room), __VA_ARGS__); \
    } while (0)

#endif
