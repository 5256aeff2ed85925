/* log: one sink. The level is checked before anything is formatted. The front is variadic; the back
 * is plain, so tests can replace it. */
#ifndef PGW_LOG_H
#define PGW_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "pgwork.h"

typedef struct pgw__log {
    pgw_log_level level; /* 0: silent */
    pgw_log_fn *fn;
    void *arg;
} pgw__log;

void pgw__log_write(const pgw__log *log, pgw_log_level level, const char *component,
                    const char *fmt, ...) __attribute__((format(printf, 4, 5)));

#define PGW__LOG(log, lvl, component, ...)                          \
    do {                                                            \
        if ((log)->fn != NULL && (lvl) <= (log)->level)             \
            pgw__log_write((log), (lvl), (component), __VA_ARGS__); \
    } while (0)

/* What a loop has logged recently, so that a lasting fault is logged once and then once a minute.
 * Start from {0}; set it to {0} when the fault has ended. */
#define PGW__LOG_REASONS 4
typedef struct pgw__log_told {
    struct {
        uint64_t reason; /* a hash of it; 0: none */
        int64_t at_ms;
    } last[PGW__LOG_REASONS];
} pgw__log_told;
/* Whether to log it now, by the monotonic clock. Then it counts as logged. */
bool pgw__log_is_news(pgw__log_told *told, const char *reason, int64_t now_ms);

#endif
