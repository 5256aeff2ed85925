/* SPDX-License-Identifier: PostgreSQL
 *
 * pgwork-ui: the dashboard. `pgwork ui` starts it.
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../pgwork/opts.h"
#include "../pgwork/signals.h"
#include "../pgwork/text.h"
#include "ui.h"

#define UI_LISTEN     "127.0.0.1:8765"
#define UI_SYSTEMD_FD 3 /* the first of those that systemd hands over */
#define UI_DATABASES  64

/* -- where it listens ----------------------------------------------------------------------- */

static int ui_bad_listen(const ui *u)
{
    return cli_fail(CLI_USAGE, NULL,
                    "ui: --listen is \"%s\": allowed is ADDRESS:PORT, such as " UI_LISTEN
                    " or [::1]:8765",
                    u->listen);
}

/* A socket on u->listen, in u->fd. */
static int ui_bind(ui *u)
{
    const struct addrinfo want = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                                  .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    char host[64];
    const char *colon = strrchr(u->listen, ':'), *from = u->listen;
    size_t n = colon ? (size_t)(colon - from) : 0;
    if (n > 2 && *from == '[' && from[n - 1] == ']') from++, n -= 2;
    if (n == 0 || n >= sizeof host || colon[1] == '\0') return ui_bad_listen(u);
    snprintf(host, sizeof host, "%.*s", (int)n, from);
    if (getaddrinfo(host, colon + 1, &want, &found) != 0) return ui_bad_listen(u);
    u->fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int code = CLI_DONE, on = 1;
    if (u->fd < 0 || setsockopt(u->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(u->fd, found->ai_addr, found->ai_addrlen) != 0 || listen(u->fd, 64) != 0) {
        code = cli_fail(CLI_OTHER, NULL, "cannot listen on %s: %s", u->listen, strerror(errno));
    }
    freeaddrinfo(found);
    return code;
}

/* The socket that systemd hands over, if it does. */
static bool ui_inherit(ui *u)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
    int64_t n;
    if (!pid || !text_to_int(&n, pid) || n != getpid() || !fds || !text_to_int(&n, fds) || n < 1)
        return false;
    u->fd = UI_SYSTEMD_FD;
    fcntl(u->fd, F_SETFD, FD_CLOEXEC);
    fcntl(u->fd, F_SETFL, fcntl(u->fd, F_GETFL) | O_NONBLOCK);
    return true;
}

/* Who can reach u->fd; and where it is, in @p where. */
static void ui_look(ui *u, char where[80])
{
    struct sockaddr_storage a = {0};
    socklen_t size = sizeof a;
    char host[64] = "?", port[16] = "?";
    getsockname(u->fd, (struct sockaddr *)&a, &size);
    if (a.ss_family == AF_INET) {
        u->loopback = ntohl(((struct sockaddr_in *)&a)->sin_addr.s_addr) >> 24 == 127;
    } else if (a.ss_family == AF_INET6) {
        u->loopback = IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *)&a)->sin6_addr);
    } else {
        u->unix_socket = a.ss_family == AF_UNIX;
    }
    getnameinfo((struct sockaddr *)&a, size, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(where, 80, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

/* -- options -------------------------------------------------------------------------------- */

/* "" or "/a/b": what paths begin with. */
static int ui_check_prefix(ui *u)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~/";
    size_t n = strlen(u->prefix);
    if (n == 0) return CLI_DONE;
    if (*u->prefix == '/' && u->prefix[n - 1] != '/' && !strstr(u->prefix, "//") &&
        strspn(u->prefix, allowed) == n)
        return CLI_DONE;
    return cli_fail(
        CLI_USAGE, NULL,
        "ui: --prefix is \"%s\": allowed is a path such as /jobs, without a slash at its end",
        u->prefix);
}

/* -- databases ------------------------------------------------------------------------------ */

/* Names the database after its file, without folder and ending. */
static int ui_name(const ui *u, db *d, const char *file)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file,
               *dot = strrchr(base, '.');
    size_t n = dot ? (size_t)(dot - base) : strlen(base);
    if (n == 0 || n >= sizeof d->name || *base == '.' || strspn(base, allowed) < n)
        return cli_fail(CLI_USAGE, "rename the file, or make a link to it",
                        "ui: the name of file \"%s\" is part of addresses: allowed are up to 63 "
                        "letters, digits, \"-\", \"_\" and \".\"",
                        file);
    memcpy(d->name, base, n);
    for (const db *other = u->dbs; other < d; other++) {
        if (strcmp(other->name, d->name) == 0)
            return cli_fail(CLI_USAGE, "rename one of them, or make a link to it",
                            "ui: two files of -d name their database \"%s\"", d->name);
    }
    return CLI_DONE;
}

static const db *ui_find(const ui *u, const char *name, size_t size)
{
    for (size_t i = 0; i < u->dbs_count; i++) {
        const db *d = &u->dbs[i];
        if (strlen(d->name) == size && strncmp(d->name, name, size) == 0) return d;
    }
    return NULL;
}

/* With several databases, each argument of --act-dsn-file is "NAME=FILE": the name of a database
 * and the file with its connection string for actions.
 */
static int ui_check_act_files(const ui *u)
{
    if (u->act_files.count && !u->act)
        return cli_fail(CLI_USAGE, NULL, "ui: --act-dsn-file needs --act");
    if (u->dbs_count == 1 && u->act_files.count > 1)
        return cli_fail(CLI_USAGE, NULL, "ui: one database has one --act-dsn-file at most");
    for (size_t i = 0; u->dbs_count > 1 && i < u->act_files.count; i++) {
        const char *word = u->act_files.at[i], *equals = strchr(word, '=');
        if (!equals || !ui_find(u, word, (size_t)(equals - word)))
            return cli_fail(CLI_USAGE, NULL,
                            "ui: --act-dsn-file is \"%s\": with several databases, allowed is "
                            "NAME=FILE, where NAME is that of a file of -d without its ending",
                            word);
    }
    return CLI_DONE;
}

/* The file with the connection string for actions on a database, or NULL. */
static const char *ui_act_file(const ui *u, const db *d)
{
    size_t n = strlen(d->name);
    if (u->dbs_count == 1) return u->act_files.count ? u->act_files.at[0] : NULL;
    for (size_t i = 0; i < u->act_files.count; i++) {
        const char *word = u->act_files.at[i];
        if (strncmp(word, d->name, n) == 0 && word[n] == '=') return word + n + 1;
    }
    return NULL;
}

static int ui_prepare_database(ui *u, db *d)
{
    const char *act_file = ui_act_file(u, d);
    cli c = u->c;
    buf prefix = {0};
    if (u->files.count) c.dsn_file = u->files.at[d - u->dbs];
    buf_puts(&prefix, u->prefix);
    buf_puts(&prefix, u->dbs_count > 1 ? "/db/" : "");
    buf_puts(&prefix, d->name);
    d->prefix = prefix.at;
    return db_prepare(d, &c, u->act && (act_file || u->act_files.count == 0), act_file);
}

static int ui_prepare_databases(ui *u)
{
    int code = CLI_DONE;
    u->dbs_count = u->files.count ? u->files.count : 1;
    if (u->dbs_count > UI_DATABASES)
        return cli_fail(CLI_USAGE, NULL, "ui: %zu databases: allowed are 1..%d", u->dbs_count,
                        UI_DATABASES);
    u->dbs = cli_alloc(u->dbs_count * sizeof *u->dbs);
    for (size_t i = 0; u->dbs_count > 1 && code == CLI_DONE && i < u->dbs_count; i++)
        code = ui_name(u, &u->dbs[i], u->files.at[i]);
    if (code == CLI_DONE) code = ui_check_act_files(u);
    for (size_t i = 0; code == CLI_DONE && i < u->dbs_count; i++)
        code = ui_prepare_database(u, &u->dbs[i]);
    return code;
}

static void ui_forget(ui *u)
{
    for (size_t i = 0; u->dbs && i < u->dbs_count; i++) db_close(&u->dbs[i]);
    free(u->dbs);
    free(u->files.at);
    free(u->act_files.at);
    buf_free(&u->credentials);
    if (u->fd >= 0) close(u->fd);
}

/* -- the program ---------------------------------------------------------------------------- */

static int ui_make_token(ui *u)
{
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return cli_fail(CLI_OTHER, NULL, "no random bytes: %s", strerror(errno));
    for (size_t i = 0; i < sizeof bytes; i++) snprintf(u->token + 2 * i, 3, "%02x", bytes[i]);
    return CLI_DONE;
}

static int ui_run(ui *u)
{
    char where[80];
    int code = ui_check_prefix(u);
    if (code == CLI_DONE) code = ui_make_token(u);
    if (code == CLI_DONE) code = ui_prepare_databases(u);
    if (code == CLI_DONE && !ui_inherit(u)) code = ui_bind(u);
    if (code != CLI_DONE) return code;
    ui_look(u, where);
    if ((code = auth_prepare(u)) != CLI_DONE || (code = signals_install(&u->c)) != CLI_DONE)
        return code;
    if (u->unix_socket) {
        cli_say(&u->c, "serving on a Unix socket");
    } else {
        cli_say(&u->c, "serving http://%s%s/", where, u->prefix);
    }
    return serve(u);
}

int cmd_ui(cli *c, int argc, char **argv)
{
    ui u = {.c = *c, .listen = UI_LISTEN, .prefix = "", .fd = -1};
    const opt opts[] = {
        {'l', "listen", "ADDRESS:PORT", "where to listen (" UI_LISTEN "; port 0: any)",
         .text = &u.listen},
        {0, "prefix", "PATH", "behind a proxy: what all paths begin with", .text = &u.prefix},
        {0, "token-file", "FILE", "users: lines of NAME TOKEN", .text = &u.token_file},
        {0, "proxy-header", "NAME", "a proxy in front names the user in this header",
         .text = &u.proxy_header},
        {0, "act", NULL, "show buttons, and act", .flag = &u.act},
        {0, "act-dsn-file", "[NAME=]FILE", "with --act: act with the connection string in FILE",
         .words = &u.act_files},
        {'d', "dsn-file", "FILE", "connection string of a database; may be repeated",
         .words = &u.files},
        {0, "payloads", NULL, "show payloads and outputs, as far as the role sees them",
         .flag = &u.payloads},
        {.name = NULL}};
    static const usage use = {
        .synopsis =
            "ui [-l ADDRESS:PORT] [--prefix PATH] [--token-file FILE | --proxy-header NAME]\n"
            "ui --act [--act-dsn-file FILE] [--payloads] ...\n"
            "ui -d FILE -d FILE ... [--act [--act-dsn-file NAME=FILE]...] ...",
        .about =
            "Serves the dashboard: what goes wrong, queues, jobs and why they do not run, dead\n"
            "letters, schedules, workers, locks; also /metrics and /healthz. It connects as a\n"
            "member of pgwork_viewer and changes nothing, except with --act.",
        .more = "Without --token-file and --proxy-header it listens on this machine only.\n"
                "With several -d, addresses of the database of NAME.dsn begin with /db/NAME.\n"
                "If --act-dsn-file is given then, only the databases that it names have buttons.",
    };
    args a;
    int code = opts_parse(&u.c, &a, &use, opts, argc, argv);
    if (code == OPTS_GO) code = ui_run(&u);
    ui_forget(&u);
    *c = u.c;
    return code;
}

int main(int argc, char **argv)
{
    cli c = {.command = "ui"};
    int code = cmd_ui(&c, argc, argv);
    pgw_conf_free(c.conf);
    signals_forget();
    pgw_stop_free(c.stop);
    free(c.settings.at);
    return code;
}
