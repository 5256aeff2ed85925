/* SPDX-License-Identifier: PostgreSQL */
#include "signals.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "text.h"

static pgw_stop *volatile signals_stop;
static pgw_reaper *signals_reaper;
static volatile sig_atomic_t signals_seen, signals_last, signals_family;
static bool signals_no_hang_up; /* it was ignored when we came */

static void signals_handle(int number)
{
    int saved = errno;
    signals_last = number;
    signals_seen = signals_seen + 1;
    if (signals_seen > 2) {
        if (signals_family) kill(signals_family, SIGKILL);
        _exit(128 + number);
    }
    pgw_stop_notify(signals_stop);
    errno = saved;
}

/* Asks once, and only who was not asked yet: a terminal that goes may say so several times. */
static void signals_handle_hang_up(int number)
{
    if (signals_seen == 0) signals_handle(number);
}

static void signals_handle_reload(int number)
{
    (void)number;
    pgw_reaper_reload(signals_reaper);
}

static void signals_set(int number, void (*handler)(int))
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    /* one after the other, so that the count is exact */
    sigaddset(&action.sa_mask, SIGTERM);
    sigaddset(&action.sa_mask, SIGINT);
    sigaddset(&action.sa_mask, SIGHUP);
    sigaddset(&action.sa_mask, SIGQUIT);
    sigaction(number, &action, NULL);
}

/* What nohup has had ignored, or a shell for its background jobs, stays so. False: that is so. */
static bool signals_set_unless_ignored(int number, void (*handler)(int))
{
    struct sigaction before;
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler == SIG_IGN) return false;
    signals_set(number, handler);
    return true;
}

void signals_forget(void)
{
    signals_stop = NULL;
}

int signals_install(cli *c)
{
    pgw_status st = pgw_stop_new(&c->stop);
    if (st != PGW_OK) return cli_fail_with(st, NULL, NULL);
    signals_stop = c->stop;
    signals_set(SIGTERM, signals_handle);
    signals_set_unless_ignored(SIGINT, signals_handle);
    signals_no_hang_up = !signals_set_unless_ignored(SIGHUP, signals_handle_hang_up);
    signals_set_unless_ignored(SIGQUIT, signals_handle);
    /* what cannot be written is an error of that write, not the end of the program */
    signals_set(SIGPIPE, SIG_IGN);
    /* who ignores it, as the one who started us may have, is not told how a command ended */
    signals_set(SIGCHLD, SIG_DFL);
    return CLI_DONE;
}

int signals_open(cli *c)
{
    int code = signals_install(c);
    if (code == CLI_DONE) code = cli_open(c, false);
    return code == CLI_DONE && pgw_stop_count(c->stop) > 0 ? signals_code() : code;
}

void signals_on_reload(pgw_reaper *r)
{
    signals_reaper = r;
    /* who ignores a terminal that goes may still be asked by hand, and a reload does no harm */
    signals_set(SIGHUP, r                    ? signals_handle_reload
                        : signals_no_hang_up ? SIG_IGN
                                             : signals_handle_hang_up);
}

void signals_take_along(pid_t whom)
{
    signals_family = whom;
}

int signals_code(void)
{
    return signals_seen ? 128 + (int)signals_last : 0;
}

int signals_failed(const cli *c, pgw_status st)
{
    int code = st == PGW_ECANCELED ? signals_code() : 0;
    return code ? code : cli_fail_at(c->h);
}

bool signals_sleep(const cli *c, int64_t ms)
{
    int64_t until = text_tick_ms() + ms;
    for (;;) {
        int64_t left = until - text_tick_ms();
        if (pgw_stop_count(c->stop) > 0) return false;
        if (left <= 0) return true;
        struct pollfd p = {.fd = pgw_stop_fd(c->stop), .events = POLLIN};
        poll(&p, 1, left > 60000 ? 60000 : (int)left);
    }
}
