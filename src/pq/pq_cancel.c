/* pq_cancel: asks the server to cancel the running statement, in bounded time. */
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pq/pq_int.h"

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL                                                            \
    0 /* macOS: SO_NOSIGPIPE would be its way, and nobody is cut off that early \
       */
#endif

static bool cancel_wait(int fd, short events, int64_t deadline)
{
    struct pollfd p = {.fd = fd, .events = events};

    return pgw__deadline_poll(&p, 1, deadline);
}

#ifdef LIBPQ_HAS_ASYNC_CANCEL

static bool cancel_step(PGcancelConn *c, int64_t deadline)
{
    switch ((int)PQcancelPoll(c)) {
    case PGRES_POLLING_READING: return cancel_wait(PQcancelSocket(c), POLLIN, deadline);
    case PGRES_POLLING_WRITING: return cancel_wait(PQcancelSocket(c), POLLOUT, deadline);
    default: return false; /* done, or it failed: the deadline of the statement decides */
    }
}

bool pgw__cancel(PGconn *conn, int64_t max_ms, bool *adrift)
{
    int64_t deadline = pgw__deadline_in(max_ms);
    PGcancelConn *c = PQcancelCreate(conn);
    bool taken = false;

    if (c != NULL && PQcancelStart(c) == 1 && cancel_wait(PQcancelSocket(c), POLLOUT, deadline)) {
        while (cancel_step(c, deadline)) continue;
        taken = PQcancelStatus(c) == CONNECTION_OK;
        if (!taken) *adrift = true;
    }
    PQcancelFinish(c);
    return taken;
}

#else

/* PQcancel waits for the server without a limit. So an SSLRequest goes first, with a deadline: a
 * server (or pooler) that answers it at once will answer a cancel as well. */
static bool cancel_knock(int fd, int64_t deadline)
{
    static const unsigned char ssl_request[8] = {0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f};
    struct sockaddr_storage peer;
    socklen_t size = sizeof(peer);
    char answer;
    bool ok;
    int s;

    if (getpeername(fd, (struct sockaddr *)&peer, &size) != 0) return false;
    s = socket(peer.ss_family, SOCK_STREAM, 0);
    if (s < 0) return false;
    fcntl(s, F_SETFD, FD_CLOEXEC);
    fcntl(s, F_SETFL, O_NONBLOCK);
    /* in progress or done: poll reports it; a full backlog (EAGAIN) shows in send */
    (void)connect(s, (struct sockaddr *)&peer, size);
    ok = cancel_wait(s, POLLOUT, deadline) &&
         send(s, ssl_request, sizeof(ssl_request), MSG_NOSIGNAL) == (ssize_t)sizeof(ssl_request) &&
         cancel_wait(s, POLLIN, deadline) && recv(s, &answer, 1, 0) == 1;
    close(s);
    return ok;
}

bool pgw__cancel(PGconn *conn, int64_t max_ms, bool *adrift)
{
    char error[256];
    PGcancel *c;
    bool taken;

    (void)adrift; /* PQcancel returns when it is delivered, or not sent */
    if (!cancel_knock(PQsocket(conn), pgw__deadline_in(max_ms))) return false;
    c = PQgetCancel(conn);
    taken = c != NULL && PQcancel(c, error, sizeof(error)) == 1;
    PQfreeCancel(c);
    return taken;
}

#endif
