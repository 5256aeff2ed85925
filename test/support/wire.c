#include "wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#if __has_include(<libpq-fe.h>)
#include <libpq-fe.h>
#else
#include <postgresql/libpq-fe.h>
#endif

#include "pgtemp.h"
#include "unity.h"

#define LINES_MAX      16
#define CODE_CANCEL    80877102
#define CODE_SSL       80877103
#define CODE_GSS       80877104
#define FIRST_OF_PIECE 65536

typedef struct stream {
    char *bytes; /* of a message that is not complete */
    size_t kept, room;
    bool silent;
} stream;

typedef struct line {
    int client, server; /* -1: none */
    bool started, pooled;
    stream from_server, from_client;
} line;

struct wire {
    pthread_t thread;
    pthread_mutex_t lock;
    int listener, port;
    char dsn[512], server_path[108];
    bool stop, frozen, pooler, refuse_options;
    char type, *messages;
    int n;
    size_t size;
    wire_deed deed;
    bool of_client; /* the order is about its messages */
    int connections, cancels, orders, lose, break_tls, seen[2];
    char startup[8192];
    line lines[LINES_MAX];
};

static uint32_t be32(const char *p)
{
    const unsigned char *u = (const unsigned char *)p;

    return (uint32_t)u[0] << 24 | (uint32_t)u[1] << 16 | (uint32_t)u[2] << 8 | u[3];
}

static void put32(char *p, uint32_t v)
{
    p[0] = (char)(v >> 24);
    p[1] = (char)(v >> 16);
    p[2] = (char)(v >> 8);
    p[3] = (char)v;
}

static bool send_all(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);

        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        p += sent;
        n -= (size_t)sent;
    }
    return true;
}

static bool read_all(int fd, char *p, size_t n)
{
    while (n > 0) {
        ssize_t got = recv(fd, p, n, 0);

        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        p += got;
        n -= (size_t)got;
    }
    return true;
}

static void hang_up(line *l)
{
    if (l->client >= 0) close(l->client);
    if (l->server >= 0) close(l->server);
    free(l->from_server.bytes);
    free(l->from_client.bytes);
    memset(l, 0, sizeof(*l));
    l->client = l->server = -1;
}

static int dial(const wire *w)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    memcpy(to.sun_path, w->server_path, sizeof(to.sun_path));
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

static void note_startup(wire *w, const char *p, size_t n)
{
    size_t at = 0;

    for (size_t i = 0; i < n && at + 1 < sizeof(w->startup);) {
        size_t key = strlen(p + i);

        if (key == 0) break;
        at += (size_t)snprintf(w->startup + at, sizeof(w->startup) - at, "%s=%s\n", p + i,
                               p + i + key + 1);
        i += key + 2 + strlen(p + i + key + 1);
    }
}

/* The first packets of a client come without a type. */
static void start_up(wire *w, line *l)
{
    char head[8], *rest;
    uint32_t size, code;

    if (!read_all(l->client, head, 8)) {
        hang_up(l);
        return;
    }
    size = be32(head);
    code = be32(head + 4);
    if (code == CODE_SSL || code == CODE_GSS) {
        const bool broken = code == CODE_SSL && w->break_tls > 0;

        if (broken) w->break_tls--;
        if (!send_all(l->client, broken ? "S" : "N", 1) || broken) hang_up(l);
        return;
    }
    rest = calloc(1, size);
    l->server = dial(w);
    if (!rest || l->server < 0 || !read_all(l->client, rest, size - 8)) {
        free(rest);
        hang_up(l);
        return;
    }
    if (code == CODE_CANCEL) {
        w->cancels++;
        if (w->lose > 0) {
            w->lose--;
            free(rest);
            hang_up(l);
            return;
        }
    } else {
        w->connections++;
        note_startup(w, rest, size - 8);
        l->pooled = w->pooler;
        if (w->pooler && w->refuse_options && strstr(w->startup, "\noptions=")) {
            size_t n;
            const char *no =
                wire_message('E', "FATAL", "08P01", "unsupported startup parameter: options", &n);

            send_all(l->client, no, n);
            free(rest);
            hang_up(l);
            return;
        }
    }
    l->started = true;
    if (!send_all(l->server, head, 8) || !send_all(l->server, rest, size - 8)) hang_up(l);
    free(rest);
}

/* One complete message. False: the line is gone. */
static bool pass(wire *w, line *l, bool of_client, char *message, size_t size)
{
    const int to = of_client ? l->server : l->client;
    stream *s = of_client ? &l->from_client : &l->from_server;
    wire_deed deed = WIRE_PASS;

    /* a pooler makes the key up, so that a process number is nobody's */
    if (l->pooled && !of_client && message[0] == 'K')
        put32(message + 5, be32(message + 5) + 1000000);
    w->seen[of_client]++;
    if ((w->type == message[0] || w->type == WIRE_ANY) && w->of_client == of_client &&
        --w->n == 0) {
        w->type = 0;
        w->orders++;
        deed = w->deed;
        if (w->size > 0 && !s->silent) send_all(to, w->messages, w->size);
        if (deed == WIRE_HALF) shutdown(to, SHUT_WR);
        if (deed == WIRE_SILENT || deed == WIRE_HALF) s->silent = true;
        if (deed == WIRE_DELAY) poll(NULL, 0, 20);
    }
    if (deed == WIRE_CUT || (!s->silent && !send_all(to, message, size)) ||
        deed == WIRE_CUT_AFTER) {
        hang_up(l);
        return false;
    }
    return true;
}

static void forward(wire *w, line *l, bool of_client)
{
    stream *s = of_client ? &l->from_client : &l->from_server;
    ssize_t got;
    size_t at = 0;

    if (s->room - s->kept <
        FIRST_OF_PIECE) { /* twice as much: a message of 16 MB comes in 256 pieces */
        const size_t room = 2 * (s->kept + FIRST_OF_PIECE);
        char *grown = realloc(s->bytes, room);

        if (!grown) return;
        s->bytes = grown;
        s->room = room;
    }
    got = recv(of_client ? l->client : l->server, s->bytes + s->kept, FIRST_OF_PIECE, 0);
    if (got <= 0) {
        hang_up(l);
        return;
    }
    s->kept += (size_t)got;
    while (s->kept - at >= 5) {
        size_t size = be32(s->bytes + at + 1) + 1;

        if (s->kept - at < size) break;
        if (!pass(w, l, of_client, s->bytes + at, size)) return;
        at += size;
    }
    s->kept -= at;
    if (at > 0) memmove(s->bytes, s->bytes + at, s->kept);
}

static void welcome(wire *w)
{
    const int fd = accept(w->listener, NULL, NULL), on = 1;

    /* without it each message waits until the one before is acknowledged, up to 40 ms */
    if (fd >= 0) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    for (int i = 0; fd >= 0 && i < LINES_MAX; i++) {
        if (w->lines[i].client >= 0) continue;
        w->lines[i].client = fd;
        return;
    }
    if (fd >= 0) close(fd);
}

static void *serve(void *arg)
{
    wire *w = arg;

    for (;;) {
        struct pollfd p[1 + 2 * LINES_MAX];

        pthread_mutex_lock(&w->lock);
        if (w->stop) break;
        for (int i = 0; i < 1 + 2 * LINES_MAX; i++) {
            const line *l = &w->lines[i > 0 ? (i - 1) / 2 : 0];

            p[i] = (struct pollfd){.fd = i == 0  ? w->listener
                                         : i % 2 ? l->client
                                                 : l->server,
                                   .events = POLLIN};
            if (w->frozen) p[i].fd = -1;
        }
        pthread_mutex_unlock(&w->lock);
        poll(p, 1 + 2 * LINES_MAX, 10);
        pthread_mutex_lock(&w->lock);
        for (int i = 1; i < 1 + 2 * LINES_MAX && !w->frozen; i++) {
            line *l = &w->lines[(i - 1) / 2];

            if (!p[i].revents || p[i].fd < 0) continue;
            if (i % 2 && p[i].fd == l->client && !l->started)
                start_up(w, l);
            else if (p[i].fd == (i % 2 ? l->client : l->server))
                forward(w, l, i % 2);
        }
        if (p[0].revents && !w->frozen) welcome(w);
        pthread_mutex_unlock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* Where the server listens: a Unix socket, as test/support/pg.sh makes it. */
static void find_server(wire *w, char *rest, size_t size)
{
    PQconninfoOption *options = PQconninfoParse(pgtemp_dsn(), NULL);
    const char *host = "", *port = "5432";
    size_t at = 0;

    for (PQconninfoOption *o = options; o->keyword; o++) {
        if (!o->val) continue;
        if (strcmp(o->keyword, "host") == 0)
            host = o->val;
        else if (strcmp(o->keyword, "port") == 0)
            port = o->val;
        else
            at += (size_t)snprintf(rest + at, size - at, " %s='%s'", o->keyword, o->val);
    }
    snprintf(w->server_path, sizeof(w->server_path), "%.90s/.s.PGSQL.%.6s", host, port);
    PQconninfoFree(options);
}

wire *wire_open(void)
{
    wire *w = calloc(1, sizeof(*w));
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t size = sizeof(at);
    char rest[400] = "";

    TEST_ASSERT_NOT_NULL(w);
    find_server(w, rest, sizeof(rest));
    for (int i = 0; i < LINES_MAX; i++) w->lines[i].client = w->lines[i].server = -1;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    w->listener = socket(AF_INET, SOCK_STREAM, 0);
    TEST_ASSERT_TRUE(w->listener >= 0);
    TEST_ASSERT_EQUAL_INT(0, bind(w->listener, (struct sockaddr *)&at, sizeof(at)));
    TEST_ASSERT_EQUAL_INT(0, listen(w->listener, 16));
    TEST_ASSERT_EQUAL_INT(0, getsockname(w->listener, (struct sockaddr *)&at, &size));
    w->port = ntohs(at.sin_port);
    snprintf(w->dsn, sizeof(w->dsn), "host=127.0.0.1 port=%d%s", w->port, rest);
    TEST_ASSERT_EQUAL_INT(0, pthread_mutex_init(&w->lock, NULL));
    TEST_ASSERT_EQUAL_INT(0, pthread_create(&w->thread, NULL, serve, w));
    return w;
}

void wire_close(wire *w)
{
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    for (int i = 0; i < LINES_MAX; i++) hang_up(&w->lines[i]);
    close(w->listener);
    pthread_mutex_destroy(&w->lock);
    free(w->messages);
    free(w);
}

const char *wire_dsn(const wire *w)
{
    return w->dsn;
}

int wire_port(const wire *w)
{
    return w->port;
}

void wire_act_as_pooler(wire *w, bool refuse_options)
{
    pthread_mutex_lock(&w->lock);
    w->pooler = true;
    w->refuse_options = refuse_options;
    pthread_mutex_unlock(&w->lock);
}

void wire_lose_cancels(wire *w, int n)
{
    pthread_mutex_lock(&w->lock);
    w->lose = n;
    pthread_mutex_unlock(&w->lock);
}

void wire_freeze(wire *w, bool frozen)
{
    pthread_mutex_lock(&w->lock);
    w->frozen = frozen;
    pthread_mutex_unlock(&w->lock);
}

void wire_break_tls(wire *w, int n)
{
    pthread_mutex_lock(&w->lock);
    w->break_tls = n;
    pthread_mutex_unlock(&w->lock);
}

static void order(wire *w, bool of_client, char type, int n, const char *messages, size_t size,
                  wire_deed deed)
{
    char *copy = malloc(size + 1);

    TEST_ASSERT_NOT_NULL(copy);
    if (size > 0) memcpy(copy, messages, size);
    pthread_mutex_lock(&w->lock);
    free(w->messages);
    w->of_client = of_client;
    w->type = type;
    w->n = n;
    w->messages = copy;
    w->size = size;
    w->deed = deed;
    pthread_mutex_unlock(&w->lock);
}

void wire_at(wire *w, char type, int n, const char *messages, size_t size, wire_deed deed)
{
    order(w, false, type, n, messages, size, deed);
}

void wire_at_client(wire *w, char type, int n, wire_deed deed)
{
    order(w, true, type, n, "", 0, deed);
}

const char *wire_message(char type, const char *severity, const char *sqlstate, const char *text,
                         size_t *size)
{
    return wire_message_of("somewhere", type, severity, sqlstate, text, size);
}

const char *wire_message_of(const char *function, char type, const char *severity,
                            const char *sqlstate, const char *text, size_t *size)
{
    static _Thread_local char buffer[1024];
    const char *const fields[][2] = {
        {"S", severity}, {"V", severity}, {"C", sqlstate}, {"M", text}, {"R", function}};
    size_t at = 5;

    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        at +=
            (size_t)snprintf(buffer + at, sizeof(buffer) - at, "%s%s", fields[i][0], fields[i][1]) +
            1;
    }
    buffer[at++] = '\0';
    buffer[0] = type;
    put32(buffer + 1, (uint32_t)(at - 1));
    *size = at;
    return buffer;
}

static int counted(wire *w, const int *counter)
{
    int n;

    pthread_mutex_lock(&w->lock);
    n = *counter;
    pthread_mutex_unlock(&w->lock);
    return n;
}

int wire_connections(wire *w)
{
    return counted(w, &w->connections);
}

int wire_cancels(wire *w)
{
    return counted(w, &w->cancels);
}

int wire_orders(wire *w)
{
    return counted(w, &w->orders);
}

int wire_seen(wire *w, bool of_client)
{
    return counted(w, &w->seen[of_client]);
}

const char *wire_startup(wire *w)
{
    return w->startup;
}
