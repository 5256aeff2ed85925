/* SPDX-License-Identifier: PostgreSQL */
#include "signals.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "text.h"

static pgw_stop *volatile signals_stop;
static pgw_reaper *signals_reaper;
static volatile sig_atomic_t signals_seen, signals_last;
static bool signals_no_hang_up; /* HUP was ignored at the start */

/* -- running commands ----------------------------------------------------------------------- */

#define SIGNALS_CHILDREN 1024 /* of pgwork work -j */

static atomic_int signals_children[SIGNALS_CHILDREN]; /* a process, or minus a group; 0: free */
static atomic_int signals_starting;

/* Sends a signal to each command, with @p family also to its children. */
static void signals_send_children(int number, bool family)
{
    for (int i = 0; i < SIGNALS_CHILDREN; i++) {
        int whom = atomic_load(&signals_children[i]);
        if (whom) kill(family || whom > 0 ? whom : -whom, number);
    }
}

static bool signals_knows(pid_t pid)
{
    for (int i = 0; i < SIGNALS_CHILDREN; i++) {
        int whom = atomic_load(&signals_children[i]);
        if (whom == pid || whom == -pid) return true;
    }
    return false;
}

/* Does a command share the terminal with us? */
static bool signals_share_terminal(void)
{
    for (int i = 0; i < SIGNALS_CHILDREN; i++)
        if (atomic_load(&signals_children[i]) > 0) return true;
    return false;
}

/* Reaps processes that commands have left to us, but not commands: child_run() waits for these. So
 * it only peeks at a dead process, and stops if a command is being started or the process is one.
 * It is called again when that command is reaped. */
static void signals_reap(void)
{
    for (;;) {
        siginfo_t dead;
        dead.si_pid = 0;
        if (waitid(P_ALL, 0, &dead, WEXITED | WNOHANG | WNOWAIT) != 0 || dead.si_pid == 0) return;
        if (atomic_load(&signals_starting) || signals_knows(dead.si_pid)) return;
        waitpid(dead.si_pid, NULL, WNOHANG);
    }
}

static void signals_handle_child(int number)
{
    int saved = errno;
    (void)number;
    signals_reap();
    errno = saved;
}

void signals_child_starts(void)
{
    atomic_fetch_add(&signals_starting, 1);
}

int signals_child_started(pid_t whom)
{
    int slot = -1;
    for (int i = 0; whom && i < SIGNALS_CHILDREN && slot < 0; i++) {
        int nobody = 0;
        if (atomic_compare_exchange_strong(&signals_children[i], &nobody, whom)) slot = i;
    }
    atomic_fetch_sub(&signals_starting, 1);
    signals_reap();
    return slot;
}

void signals_child_ended(int slot)
{
    if (slot >= 0) atomic_store(&signals_children[slot], 0);
    signals_reap();
}

/* -- handlers ------------------------------------------------------------------------------- */

static void signals_handle(int number)
{
    int saved = errno;
    signals_last = number;
    signals_seen = signals_seen + 1;
    if (signals_seen > 2) {
        signals_send_children(SIGKILL, true);
        _exit(128 + number);
    }
    pgw_stop_notify(signals_stop);
    errno = saved;
}

/* INT or QUIT. A terminal sends it also to a command that shares the terminal. Then the command
 * decides, as under a shell. */
static void signals_handle_key(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_pid == 0 && signals_share_terminal()) return;
    signals_handle(number);
}

/* A fault: kill the commands, then die of the signal. */
static void signals_handle_fault(int number)
{
    signals_send_children(SIGKILL, true);
    signal(number, SIG_DFL);
    raise(number);
}

static void signals_handle_pass(int number)
{
    int saved = errno;
    signals_send_children(number, false);
    errno = saved;
}

/* Counts only as a first signal, because a closing terminal may send HUP several times. */
static void signals_handle_hang_up(int number)
{
    if (signals_seen == 0) signals_handle(number);
}

static void signals_handle_reload(int number)
{
    (void)number;
    pgw_reaper_reload(signals_reaper);
}

/* A signal may be blocked from the start. */
static void signals_unblock(int number)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static void signals_set(int number, void (*handler)(int))
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    if (number == SIGCHLD) action.sa_flags |= SA_NOCLDSTOP;
    if (handler == signals_handle && (number == SIGINT || number == SIGQUIT)) {
        action.sa_sigaction = signals_handle_key;
        action.sa_flags |= SA_SIGINFO;
    }
    sigfillset(&action.sa_mask); /* one at a time, so that the count is exact */
    sigaction(number, &action, NULL);
    signals_unblock(number);
}

/* False: the signal is ignored, by nohup or by a shell for a background job, and stays ignored. */
static bool signals_set_unless_ignored(int number, void (*handler)(int))
{
    struct sigaction before;
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler == SIG_IGN) return false;
    signals_set(number, handler);
    return true;
}

/* For signals that would end only us, while the command runs on without its lock or lease. Another
 * handler, such as that of a sanitizer, stays. */
static void signals_set_where_default(int number, void (*handler)(int))
{
    struct sigaction before;
    if (sigaction(number, NULL, &before) != 0 || before.sa_handler != SIG_DFL) return;
    signals_set(number, handler);
}

static void signals_set_others(void)
{
    static const int asked[] = {SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGXCPU, SIGXFSZ};
    static const int faults[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS, SIGTRAP};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
        signals_set_where_default(asked[i], signals_handle);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        signals_set_where_default(faults[i], signals_handle_fault);
#ifdef SIGIO
    signals_set_where_default(SIGIO, signals_handle);
#endif
#ifdef SIGPWR
    signals_set_where_default(SIGPWR, signals_handle);
#endif
#ifdef SIGSTKFLT
    signals_set_where_default(SIGSTKFLT, signals_handle);
#endif
#ifdef SIGRTMIN
    for (int n = SIGRTMIN; n <= SIGRTMAX; n++) signals_set_where_default(n, signals_handle);
#endif
}

/* The signal of a name of @p n bytes; 0: it cannot be passed on. */
static int signals_named(const char *name, size_t n)
{
    static const struct {
        const char *name;
        int number;
    } known[] = {{"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"HUP", SIGHUP}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].name) == n && !strncmp(known[i].name, name, n)) return known[i].number;
    return 0;
}

int signals_pass(const cli *c, const char *names)
{
    for (const char *at = names; names; at++) {
        size_t n = strcspn(at, ",");
        int number = signals_named(at, n);
        if (!number)
            return cli_fail(CLI_USAGE, "USR1, USR2 and HUP, separated by commas",
                            "%s: --pass \"%s\" names a signal that cannot be passed on", c->command,
                            names);
        signals_set(number, signals_handle_pass);
        at += n;
        if (!*at) break;
    }
    return CLI_DONE;
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
    /* a failed write then returns an error, and does not end the program */
    signals_set(SIGPIPE, SIG_IGN);
    /* it may be ignored from the start, and then waitpid() returns no status */
    signals_set(SIGCHLD, signals_handle_child);
    signals_set_others();
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
    /* even if HUP was ignored: an operator may send it, and a reload does no harm */
    signals_set(SIGHUP, r                    ? signals_handle_reload
                        : signals_no_hang_up ? SIG_IGN
                                             : signals_handle_hang_up);
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

/* @p keys: a terminal to read from; -1: none. */
static int signals_wait(const cli *c, int64_t ms, int keys)
{
    int64_t until = text_tick_ms() + ms;
    for (;;) {
        int64_t left = until - text_tick_ms();
        unsigned char key;
        if (pgw_stop_count(c->stop) > 0) return -1;
        if (left <= 0) return 0;
        struct pollfd p[] = {{.fd = pgw_stop_fd(c->stop), .events = POLLIN},
                             {.fd = keys, .events = POLLIN}};
        poll(p, 2, left > 60000 ? 60000 : (int)left);
        if (!p[1].revents) continue;
        if (read(keys, &key, 1) == 1) return key;
        keys = -1; /* the terminal is gone: a signal says so */
    }
}

bool signals_sleep(const cli *c, int64_t ms)
{
    return signals_wait(c, ms, -1) == 0;
}

int signals_key(const cli *c, int64_t ms)
{
    return signals_wait(c, ms, isatty(STDIN_FILENO) ? STDIN_FILENO : -1);
}
