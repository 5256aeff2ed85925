/* log: one sink. The level is checked before anything is formatted. */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LOG_CUT      "..."
#define LOG_AGAIN_MS 60000

void pgw__log_write(const pgw__log *log, pgw_log_level level, const char *component,
                    const char *fmt, ...)
{
    int saved = errno; /* a log call may come between a failed call and the read of errno */
    char message[1024];
    va_list args;
    int size;

    if (log->fn == NULL || level > log->level) return;
    va_start(args, fmt);
    size = vsnprintf(message, sizeof(message), fmt, args);
    va_end(args);
    if (size < 0) message[0] = '\0';
    if (size >= (int)sizeof(message)) {
        char *end = message + sizeof(message) - sizeof(LOG_CUT);

        while (end > message && ((unsigned char)*end & 0xc0) == 0x80)
            end--; /* between characters */
        memcpy(end, LOG_CUT, sizeof(LOG_CUT));
    }
    log->fn(level, component, message, log->arg);
    errno = saved;
}

/* FNV-1a */
static uint64_t log_hash(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; *text != '\0'; text++) hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash != 0 ? hash : 1;
}

bool pgw__log_is_news(pgw__log_told *told, const char *reason, int64_t now_ms)
{
    const uint64_t hash = log_hash(reason);
    size_t oldest = 0;

    for (size_t i = 0; i < PGW__LOG_REASONS; i++) {
        if (told->last[i].reason == hash) {
            if (now_ms - told->last[i].at_ms < LOG_AGAIN_MS) return false;
            told->last[i].at_ms = now_ms;
            return true;
        }
        if (told->last[i].reason == 0 ||
            (told->last[oldest].reason != 0 && told->last[i].at_ms < told->last[oldest].at_ms))
            oldest = i;
    }
    told->last[oldest].reason = hash;
    told->last[oldest].at_ms = now_ms;
    return true;
}
