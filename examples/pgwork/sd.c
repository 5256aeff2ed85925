/* SPDX-License-Identifier: PostgreSQL */
#include "sd.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "text.h"

void sd_notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t n = path ? strlen(path) : 0;
    if (n == 0 || n >= sizeof to.sun_path || (*path != '/' && *path != '@')) return;
    memcpy(to.sun_path, path, n);
    if (*path == '@') to.sun_path[0] = '\0'; /* an abstract socket of Linux */
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    if (fd < 0) return;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    (void)!sendto(fd, state, strlen(state), 0, (struct sockaddr *)&to, size);
    close(fd);
}

int64_t sd_watchdog_ms(void)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    int64_t n;
    if (pid && (!text_to_int(&n, pid) || n != getpid())) return 0;
    if (!usec || !text_to_int(&n, usec) || n <= 0) return 0;
    return n / 2000;
}
