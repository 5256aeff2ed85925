/* SPDX-License-Identifier: PostgreSQL
 *
 * proxy.c: a network that fails: `chaos-proxy PROC FOLDER SOCKET`. Connections to a port of
 * 127.0.0.1, whose number is in FOLDER/port, go on to the server's SOCKET. Standard input takes
 * commands; each is for one connection, chosen by N:
 *
 *     freeze N MS   nothing passes for so long, in either direction
 *     cut N         reset
 *     lose N        the next answer that ends a transaction is lost, and the connection with it
 *
 * A fault that took effect is noted as one that has fired.
 */
#include "classes.h"
#include "hist.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { MOST = 200, BUFFER = 65536 };

typedef struct pair { /* [0]: the client, [1]: the server */
    int fd[2];
    char *buffer[2]; /* what came from there and is not yet sent to the other */
    size_t n[2];
    int64_t frozen; /* until when */
    int lose;       /* 1: armed, 2: an answer is being held back */
} pair;

static pair pairs[MOST];
static int count;
static const char *target;

static void fired(enum class class)
{
    hist(0, 'e', OP_nem, class);
}

static void end(pair *p, int reset)
{
    const struct linger now = {1, 0};
    for (int i = 0; i < 2; i++) {
        if (reset && i == 0) setsockopt(p->fd[i], SOL_SOCKET, SO_LINGER, &now, sizeof(now));
        close(p->fd[i]);
        free(p->buffer[i]);
    }
    *p = pairs[--count];
}

static void begin(int fd)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    pair *p = &pairs[count];
    snprintf(to.sun_path, sizeof(to.sun_path), "%s", target);
    *p = (pair){.fd = {fd, socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)},
                .buffer = {malloc(BUFFER), malloc(BUFFER)}};
    count++;
    if (fd < 0 || count == MOST || connect(p->fd[1], (struct sockaddr *)&to, sizeof(to)) != 0) {
        end(p, 1);
        return;
    }
    fcntl(fd, F_SETFL, O_NONBLOCK);
    fcntl(p->fd[1], F_SETFL, O_NONBLOCK);
}

/* An answer ends with ReadyForQuery, and says there that no transaction is open. Was it a good one?
 */
static int is_answer(const pair *p, int *good)
{
    static const char ready[] = {'Z', 0, 0, 0, 5, 'I'};
    const char *m = p->buffer[1];
    size_t left = p->n[1];

    *good = 0;
    if (left < 6 || memcmp(m + left - 6, ready, 6) != 0) return 0;
    while (left >= 5) {
        const size_t size =
            1 + ((size_t)(unsigned char)m[1] << 24 | (size_t)(unsigned char)m[2] << 16 |
                 (size_t)(unsigned char)m[3] << 8 | (size_t)(unsigned char)m[4]);
        if (m[0] == 'E') *good = -1;
        if (m[0] == 'C' && *good == 0) *good = 1;
        if (size > left) break;
        m += size, left -= size;
    }
    return 1;
}

/* Returns 0 when the connection is over. */
static int pass(pair *p, int from, short events)
{
    int good = 0;
    if (events & (POLLIN | POLLHUP | POLLERR) && p->n[from] < BUFFER) {
        const ssize_t n = read(p->fd[from], p->buffer[from] + p->n[from], BUFFER - p->n[from]);
        if (n == 0) return 0;
        if (n > 0) p->n[from] += (size_t)n;
        if (n > 0 && from == 0 && p->lose == 1 && p->n[1] == 0) p->lose = 2;
    }
    if (from == 1 && p->lose == 2) {
        if (is_answer(p, &good)) {
            if (good > 0) fired(C_lost_answer);
            return 0;
        }
        if (p->n[1] < BUFFER) return 1; /* wait for the rest */
        p->lose = 1;                    /* too long: let it pass */
    }
    if (p->n[from] > 0) {
        const ssize_t n = write(p->fd[!from], p->buffer[from], p->n[from]);
        if (n > 0) {
            memmove(p->buffer[from], p->buffer[from] + n, p->n[from] - (size_t)n);
            p->n[from] -= (size_t)n;
        }
    }
    return 1;
}

static void command(const char *line)
{
    unsigned which;
    int ms = 0;
    char name[20];
    if (sscanf(line, "%19s %u %d", name, &which, &ms) < 2 || count == 0) return;
    pair *p = &pairs[which % (unsigned)count];
    if (strcmp(name, "freeze") == 0) {
        p->frozen = now_us() + ms * 1000;
        fired(C_freeze);
    } else if (strcmp(name, "cut") == 0) {
        end(p, 1);
        fired(C_cut);
    } else if (strcmp(name, "lose") == 0) {
        p->lose = 1;
    }
}

static void turn(int listener)
{
    static struct pollfd f[2 + 2 * MOST];
    static char line[200];
    static size_t used;
    const int n = count;
    const int64_t now = now_us();

    f[0] = (struct pollfd){.fd = listener, .events = POLLIN};
    f[1] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    for (int i = 0; i < n; i++)
        for (int side = 0; side < 2; side++) {
            const pair *p = &pairs[i];
            const short in = p->n[side] < BUFFER ? POLLIN : 0;
            const short out = p->n[!side] > 0 && !(side == 0 && p->lose == 2) ? POLLOUT : 0;
            f[2 + 2 * i + side] = (struct pollfd){.fd = p->frozen > now ? -1 : p->fd[side],
                                                  .events = (short)(in | out)};
        }
    if (poll(f, (nfds_t)(2 + 2 * n), 50) < 0) return;
    for (int i = n; i-- > 0;) {
        const short a = f[2 + 2 * i].revents, b = f[3 + 2 * i].revents;
        if ((a || b) && !(pass(&pairs[i], 0, a) && pass(&pairs[i], 1, b))) end(&pairs[i], 0);
    }
    if (f[0].revents && count < MOST) begin(accept(listener, NULL, NULL));
    if (f[1].revents) {
        const ssize_t got = read(STDIN_FILENO, line + used, sizeof(line) - 1 - used);
        if (got <= 0) exit(0);
        used += (size_t)got;
        line[used] = '\0';
        for (char *end_of; (end_of = strchr(line, '\n')) != NULL;) {
            *end_of = '\0';
            command(line);
            used -= (size_t)(end_of + 1 - line);
            memmove(line, end_of + 1, used + 1);
        }
    }
}

static void tell_port(int listener, const char *folder)
{
    struct sockaddr_in at;
    socklen_t size = sizeof(at);
    char path[300], made[310];

    getsockname(listener, (struct sockaddr *)&at, &size);
    snprintf(path, sizeof(path), "%s/port", folder);
    snprintf(made, sizeof(made), "%s.new", path);
    FILE *f = fopen(made, "w");
    if (!f) exit(2);
    fprintf(f, "%d\n", ntohs(at.sin_port));
    fclose(f);
    rename(made, path);
}

int main(int argc, char **argv)
{
    char folder[300];
    const int on = 1;
    if (argc != 4) return 2;
    snprintf(folder, sizeof(folder), "%s/hist", argv[2]);
    hist_open(folder, "proxy", atoi(argv[1]));
    target = argv[3];
    signal(SIGPIPE, SIG_IGN);
    struct sockaddr_in at = {.sin_family = AF_INET};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(listener, (struct sockaddr *)&at, sizeof(at)) != 0 || listen(listener, 100) != 0) {
        perror("chaos-proxy");
        return 2;
    }
    tell_port(listener, argv[2]);
    for (;;) turn(listener);
}
