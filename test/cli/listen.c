/* SPDX-License-Identifier: PostgreSQL
 *
 * listen PATH: a datagram socket there, as systemd's; prints what comes, up to and with STOPPING=1.
 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char state[512];
    if (argc != 2 || strlen(argv[1]) >= sizeof at.sun_path) return 2;
    strcpy(at.sun_path, argv[1]);
    if (*argv[1] == '@') at.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    socklen_t size = (socklen_t)(sizeof at - sizeof at.sun_path + strlen(argv[1]));
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, size) != 0) return 1;
    alarm(60);
    puts("listening");
    for (;;) {
        fflush(stdout);
        ssize_t n = recv(fd, state, sizeof state - 1, 0);
        if (n < 0) return 1;
        state[n] = '\0';
        puts(state);
        if (strstr(state, "STOPPING=1")) return 0;
    }
}
