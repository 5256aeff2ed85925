/* log: one sink; the level is asked before anything is formatted. */
#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LOG_CUT "..."

void pgw__log_write(const pgw__log *log, pgw_level level, const char *room, const char *fmt, ...)
{
    int saved = errno; /* one may log between a failed call and the look at why */
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
    log->fn(log->arg, level, room, message);
    errno = saved;
}
