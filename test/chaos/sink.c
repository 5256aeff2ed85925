/* SPDX-License-Identifier: PostgreSQL
 *
 * sink.c: the resource that effects go to, outside of the database: `chaos-sink PROC FOLDER`. It
 * takes an effect only with the newest token that it has seen of the object: a higher number than
 * before, or the very same token. It notes each effect in the order in which it took them.
 */
#include "hist.h"
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

typedef struct seen {
    int64_t object;
    uint64_t number, nonce;
} seen;

static seen *table; /* open addressing; an object is never 0 */
static size_t size = 1 << 16, used;

static seen *find(int64_t object)
{
    size_t at = (size_t)object * 0x9e3779b97f4a7c15u >> 20 & (size - 1);
    while (table[at].object && table[at].object != object) at = (at + 1) & (size - 1);
    return &table[at];
}

static void grow(void)
{
    seen *old = table;
    const size_t n = size;
    size *= 2;
    table = calloc(size, sizeof(seen));
    if (!table) abort();
    for (size_t i = 0; i < n; i++)
        if (old[i].object) *find(old[i].object) = old[i];
    free(old);
}

static int64_t accept_effect(const int64_t ask[3])
{
    const uint64_t number = (uint64_t)ask[1], nonce = (uint64_t)ask[2];
    if (used > size / 2) grow();
    seen *s = find(ask[0]);
    const int good = !s->object || number > s->number || (number == s->number && nonce == s->nonce);
    used += !s->object;
    if (good) *s = (seen){ask[0], number, nonce};
    hist(0, 'e', OP_snk, ask[0], ask[1], ask[2], good);
    return good ? 0 : 1; /* S_OK, S_STALE */
}

int main(int argc, char **argv)
{
    static struct pollfd p[1000];
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    nfds_t n = 1;

    if (argc != 3) return 2;
    char hist_folder[300];
    snprintf(hist_folder, sizeof(hist_folder), "%s/hist", argv[2]);
    hist_open(hist_folder, "sink", atoi(argv[1]));
    snprintf(at.sun_path, sizeof(at.sun_path), "%s/sink", argv[2]);
    unlink(at.sun_path);
    table = calloc(size, sizeof(seen));
    p[0] = (struct pollfd){.fd = socket(AF_UNIX, SOCK_SEQPACKET, 0), .events = POLLIN};
    if (!table || bind(p[0].fd, (struct sockaddr *)&at, sizeof(at)) != 0 || listen(p[0].fd, 100)) {
        perror("sink");
        return 2;
    }
    while (poll(p, n, -1) >= 0) {
        for (nfds_t i = n; i-- > 1;) {
            int64_t ask[3];
            if (!p[i].revents) continue;
            if (recv(p[i].fd, ask, sizeof(ask), 0) == sizeof(ask)) {
                const int64_t answer = accept_effect(ask);
                send(p[i].fd, &answer, sizeof(answer), MSG_NOSIGNAL | MSG_DONTWAIT);
            } else {
                close(p[i].fd);
                p[i] = p[--n];
            }
        }
        if (p[0].revents && n < 1000)
            p[n++] = (struct pollfd){.fd = accept(p[0].fd, NULL, NULL), .events = POLLIN};
    }
    return 0;
}
