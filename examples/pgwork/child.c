/* SPDX-License-Identifier: PostgreSQL */
#define _GNU_SOURCE /* environ */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "cli.h"
#include "signals.h"
#include "text.h"

/* The most bytes to read before signals() is called again, for a child that never stops writing. */
#define CHILD_TURN 65536

/* Both ends of the pipes: ours and the child's. */
typedef struct pipes {
    int in[2], out[2], err[2]; /* [0] is read from, [1] written to */
} pipes;

static void pipes_close(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

static void pipes_close_all(pipes *p)
{
    for (int i = 0; i < 2; i++) {
        pipes_close(&p->in[i]);
        pipes_close(&p->out[i]);
        pipes_close(&p->err[i]);
    }
}

static bool pipes_open_one(int fd[2], int ours)
{
    if (pipe(fd) != 0) {
        fd[0] = fd[1] = -1;
        return false;
    }
    fcntl(fd[0], F_SETFD, FD_CLOEXEC);
    fcntl(fd[1], F_SETFD, FD_CLOEXEC);
    fcntl(fd[ours], F_SETFL, O_NONBLOCK);
    return true;
}

static int child_executable(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0) return ENOENT;
    return S_ISREG(st.st_mode) && access(path, X_OK) == 0 ? 0 : EACCES;
}

/* Finds the file that exec() will run. */
static int child_path(char full[PATH_MAX], const char *command)
{
    const char *path = getenv("PATH");
    snprintf(full, PATH_MAX, "%s", command);
    if (strchr(command, '/')) return child_executable(command);
    if (!path) return 0; /* exec() then uses a default of the system */
    int best = ENOENT;
    for (;; path++) { /* an empty entry, also after the last colon, is the current directory */
        int n = (int)strcspn(path, ":");
        int size = snprintf(full, PATH_MAX, "%.*s/%s", n ? n : 1, n ? path : ".", command);
        int found = size < PATH_MAX ? child_executable(full) : ENOENT;
        if (found == 0) return 0;
        if (found == EACCES) best = EACCES;
        path += n;
        if (!*path) return best;
    }
}

/* The signals to reset, as a shell does: all, except those that nohup, or a shell for its
 * background jobs, has set to be ignored. */
static void child_resets(sigset_t *set)
{
    static const int kept[] = {SIGHUP, SIGINT, SIGQUIT};
    struct sigaction before;
    sigfillset(set);
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        if (sigaction(kept[i], NULL, &before) == 0 && before.sa_handler == SIG_IGN)
            sigdelset(set, kept[i]);
}

/* False for an empty file or a program of another machine: the shell would report success. */
static bool child_is_script(const char *path)
{
    char bytes[256];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, bytes, sizeof bytes);
    if (fd >= 0) close(fd);
    return n > 0 && !memchr(bytes, '\0', (size_t)n);
}

/* Everything that the child needs. It is made before fork(), because a child of a program with
 * threads must not allocate. */
typedef struct start {
    const child *c;
    const pipes *p;
    pid_t parent;
    char path[PATH_MAX]; /* without a slash if PATH is not set: exec() searches */
    char **shell;        /* runs a script without an interpreter line, as execvp() does */
} start;

static int start_prepare(start *s, const child *c, const pipes *p)
{
    size_t n = 0;
    int failed = child_path(s->path, c->argv[0]);
    if (failed) return failed;
    s->c = c;
    s->p = p;
    s->parent = getpid();
    while (c->argv[n]) n++;
    s->shell = cli_alloc((n + 2) * sizeof *s->shell);
    s->shell[0] = (char[]){"sh"};
    s->shell[1] = s->path;
    memcpy(s->shell + 2, c->argv + 1, n * sizeof *s->shell);
    return 0;
}

static void child_redirect(int from, int to)
{
    if (from == to)
        fcntl(from, F_SETFD, 0);
    else if (from >= 0)
        dup2(from, to);
}

static void child_reset_signals(void)
{
    sigset_t all, resets;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = SIG_DFL;
    sigfillset(&all);
    child_resets(&resets);
    for (int n = 1; sigismember(&all, n) == 1; n++)
        if (sigismember(&resets, n) == 1) sigaction(n, &action, NULL);
}

/* Runs between fork() and exec(), and calls only functions that are safe in a signal handler. The
 * child asks the kernel to be killed when we die. It gets a session of its own: then Ctrl-C reaches
 * only us, its group can be killed at once, and reading from the terminal fails instead of stopping
 * it for ever. */
static void child_become(const start *s)
{
    const child *c = s->c;
    sigset_t none;
    child_redirect(s->p->in[0], STDIN_FILENO);
    child_redirect(s->p->out[1], STDOUT_FILENO);
    child_redirect(s->p->err[1], STDERR_FILENO);
    child_reset_signals();
    if (c->group) setsid();
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    if (getppid() != s->parent) _exit(127); /* the parent has died meanwhile */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (c->envp) environ = (char **)(uintptr_t)c->envp;
    if (strchr(s->path, '/'))
        execve(s->path, c->argv, environ);
    else
        execvp(s->path, c->argv);
    if (errno == ENOEXEC && child_is_script(s->path)) execve("/bin/sh", s->shell, environ);
}

/* If exec() fails, the child writes errno into a pipe. If it succeeds, it closes the pipe. */
static int child_fork(const start *s, pid_t *pid, int *slot)
{
    const child *c = s->c;
    int fd[2], failed = 0;
    sigset_t all, before;
    if (!pipes_open_one(fd, 1)) return errno;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    signals_child_starts();
    *pid = fork();
    if (*pid == 0) {
        child_become(s);
        failed = errno;
        _exit(write(fd[1], &failed, sizeof failed) < 0);
    }
    if (*pid < 0) failed = errno;
    *slot = signals_child_started(*pid < 0 ? 0 : c->group ? -*pid : *pid);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(fd[1]);
    if (*pid > 0 && read(fd[0], &failed, sizeof failed) > 0) {
        waitpid(*pid, NULL, 0);
        signals_child_ended(*slot);
    }
    close(fd[0]);
    return failed;
}

/* Become the parent of processes that commands leave behind, and reap them. */
static void child_adopt(void)
{
#ifdef PR_SET_CHILD_SUBREAPER
    static bool done;
    if (!done) prctl(PR_SET_CHILD_SUBREAPER, 1);
    done = true;
#endif
}

/* One start at a time: another child that inherits these pipes would keep them open. */
static int child_start(const child *c, pipes *p, pid_t *pid, int *slot)
{
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    start s;
    int failed = start_prepare(&s, c, p);
    if (failed) return failed;
    pthread_mutex_lock(&one_at_a_time);
    child_adopt();
    if (!c->plain && (!pipes_open_one(p->in, 1) || !pipes_open_one(p->err, 0) ||
                      (c->keep && !pipes_open_one(p->out, 0)))) {
        failed = errno;
    }
    if (!failed) failed = child_fork(&s, pid, slot);
    pipes_close(&p->in[0]);
    pipes_close(&p->out[1]);
    pipes_close(&p->err[1]);
    if (failed) pipes_close_all(p);
    pthread_mutex_unlock(&one_at_a_time);
    free(s.shell);
    return failed;
}

static bool child_later(ssize_t n)
{
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

/* It is not an error if the child does not read all of its input. */
static void child_feed(const child *c, int *fd, size_t *fed)
{
    while (*fd >= 0 && *fed < c->input_size) {
        ssize_t n = write(*fd, c->input + *fed, c->input_size - *fed);
        if (child_later(n)) return;
        if (n < 0) break;
        *fed += (size_t)n;
    }
    pipes_close(fd);
}

/* Reads up to *most bytes. Returns their number; 0 or less: there are none at the moment. */
static ssize_t child_read(int *fd, char *bytes, size_t size, size_t *most)
{
    if (*fd < 0 || *most == 0) return 0;
    ssize_t n = read(*fd, bytes, *most < size ? *most : size);
    if (n > 0) *most -= (size_t)n;
    if (n <= 0 && !child_later(n)) pipes_close(fd);
    return n;
}

static void child_read_output(child *c, int *fd, size_t most)
{
    char bytes[8192];
    ssize_t n;
    while ((n = child_read(fd, bytes, sizeof bytes, &most)) > 0) {
        size_t left = c->keep - c->output_size;
        size_t take = (size_t)n < left ? (size_t)n : left;
        c->output = cli_realloc(c->output, c->output_size + take + 1);
        memcpy(c->output + c->output_size, bytes, take);
        c->output_size += take;
        c->truncated = c->truncated || take < (size_t)n;
    }
}

/* Copies stderr of the child to ours, and keeps the end of it. */
static void child_read_error(child *c, int *fd, size_t most)
{
    char bytes[8192];
    ssize_t n;
    while ((n = child_read(fd, bytes, sizeof bytes, &most)) > 0) {
        size_t got = (size_t)n, kept = strlen(c->error);
        for (size_t i = 0; i < got; i++) {
            if (bytes[i] == '\0') bytes[i] = ' ';
        }
        fwrite(bytes, 1, got, stderr);
        const char *from = bytes;
        if (got > CHILD_ERROR_MAX) from += got - CHILD_ERROR_MAX, got = CHILD_ERROR_MAX;
        if (kept + got > CHILD_ERROR_MAX) {
            size_t drop = kept + got - CHILD_ERROR_MAX;
            memmove(c->error, c->error + drop, kept - drop);
            kept -= drop;
        }
        memcpy(c->error + kept, from, got);
        c->error[kept + got] = '\0';
    }
}

/* How many bytes are in the pipe. */
static size_t child_left(int fd)
{
    int n;
    return ioctl(fd, FIONREAD, &n) == 0 && n >= 0 ? (size_t)n : CHILD_TURN;
}

/* Makes the kept text valid UTF-8: it may begin inside a character, or have another encoding. */
static void child_mend_error(child *c)
{
    size_t n = strlen(c->error), skip = 0;
    while (n > 0 && strchr("\r\n", c->error[n - 1])) c->error[--n] = '\0';
    while (skip < n && ((unsigned char)c->error[skip] & 0xc0) == 0x80) skip++;
    memmove(c->error, c->error + skip, n - skip + 1);
    for (size_t at = 0;
         (at += text_utf8_span(c->error + at, strlen(c->error + at))) < strlen(c->error);)
        c->error[at] = '?';
}

/* Sends TERM once, and KILL after the grace, to the whole group. */
static void child_end(child *c, pid_t pid, int64_t *kill_at)
{
    int64_t now = text_tick_ms();
    pid_t whom = c->group ? -pid : pid;
    if (*kill_at == 0) {
        kill(whom, SIGTERM);
        *kill_at = now + c->grace_ms;
    }
    if (now >= *kill_at) kill(whom, SIGKILL);
}

/* After the command has ended: does a process that it started still run within the grace? Also
 * reaps those that ended, in case that we are process 1. */
static bool child_family_lives(const child *c, pid_t pid, int64_t kill_at)
{
    if (!c->signaled || !c->group || text_tick_ms() >= kill_at) return false;
    while (waitpid(-pid, NULL, WNOHANG) > 0) continue;
    return kill(-pid, 0) == 0;
}

/* A child that cannot be waited for counts as ended, with an unknown status. */
static bool child_ended(child *c, pid_t pid)
{
    pid_t ended = waitpid(pid, &c->status, WNOHANG);
    if (ended < 0) c->unknown = errno;
    return ended != 0;
}

int child_run(child *c)
{
    pipes p = {{-1, -1}, {-1, -1}, {-1, -1}};
    pid_t pid = 0;
    size_t fed = 0;
    int64_t kill_at = 0;
    int nap = 1, slot;
    bool ended = false;
    /* A command that reads from a terminal must be in the foreground group, which is ours. Decided
     * once, because a terminal may disappear. */
    c->group = !c->plain || isatty(STDIN_FILENO) == 0;
    c->status = c->unknown = c->signaled = 0;
    c->output = c->keep ? cli_alloc(1) : NULL;
    c->output_size = 0;
    c->truncated = false;
    c->error[0] = '\0';
    int failed = child_start(c, &p, &pid, &slot);
    if (failed) return failed;
    child_feed(c, &p.in[1], &fed);
    for (;;) {
        if (!ended) ended = child_ended(c, pid);
        if (ended && !child_family_lives(c, pid, kill_at)) break;
        struct pollfd fds[] = {{.fd = p.err[0], .events = POLLIN},
                               {.fd = p.out[0], .events = POLLIN},
                               {.fd = p.in[1], .events = POLLOUT},
                               {.fd = kill_at ? -1 : c->wake_fd, .events = POLLIN}};
        /* Usually stderr closes when the child ends. The child may have closed it before, or a
         * grandchild may keep it open: so poll() also has a timeout. */
        int wait_ms = 100;
        if (p.err[0] < 0) wait_ms = nap, nap = nap < 50 ? nap * 2 : 50;
        poll(fds, 4, wait_ms);
        if (fds[0].revents) child_read_error(c, &p.err[0], CHILD_TURN);
        if (fds[1].revents) child_read_output(c, &p.out[0], CHILD_TURN);
        if (fds[2].revents) child_feed(c, &p.in[1], &fed);
        if (!ended) ended = child_ended(c, pid);
        if (ended && !c->signaled) continue; /* by itself: a signal comes too late */
        int why = c->signals(c->arg);        /* also within the grace: it extends the lease */
        if (!c->signaled) c->signaled = why;
        if (c->signaled) child_end(c, pid, &kill_at);
    }
    /* read what is in the pipes, and do not wait for processes that still have the other ends */
    child_read_output(c, &p.out[0], child_left(p.out[0]));
    child_read_error(c, &p.err[0], child_left(p.err[0]));
    pipes_close_all(&p);
    child_mend_error(c);
    if (c->signaled && c->group) kill(-pid, SIGKILL); /* processes that ignored TERM */
    signals_child_ended(slot);
    return 0;
}

int child_find(const char *command)
{
    char path[PATH_MAX];
    return child_path(path, command);
}
