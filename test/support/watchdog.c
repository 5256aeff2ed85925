/* Ends a test that hangs or crashes, and reports its name, its stack and, if it hangs, what the
 * sessions of the server do: to the file PGW_TEST_HANGS, or to stderr. Linked into every test. Its
 * limits are minutes, so that no machine is too slow. */
#if __has_include(<execinfo.h>)
#include <execinfo.h>
#endif
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/wait.h>
#include <unistd.h>

#include "unity.h"

#define TICK_S     60
#define TICKS_MAX  4 /* without the next test being begun */
#define FRAMES_MAX 40
#define PSQL_S     10
#define REPORT_S   30 /* for all of it */

static void say_where(int fd, const char *what)
{
    dprintf(fd, "%s %s: %s\n", what, Unity.TestFile, Unity.CurrentTestName);
#if __has_include(<execinfo.h>)
    void *frames[FRAMES_MAX];

    backtrace_symbols_fd(frames, backtrace(frames, FRAMES_MAX), fd);
#endif
}

/* The next SIGALRM ends this process, or the program that it becomes. In a handler the signal is
 * blocked, and a blocked signal stays so after exec. */
static void end_by_alarm(unsigned seconds)
{
    sigset_t none;

    signal(SIGALRM, SIG_DFL);
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
    alarm(seconds);
}

static void say_what_the_server_does(int fd)
{
    pid_t child = getenv("PGHOST") != NULL ? fork() : -1;

    if (child < 0) return;
    if (child == 0) {
        dup2(fd, STDOUT_FILENO);
        dup2(fd, STDERR_FILENO);
        end_by_alarm(PSQL_S);
        execlp("psql", "psql", "-qXAtc",
               "SELECT pid, datname, application_name, state, wait_event_type, wait_event,"
               " pg_blocking_pids(pid), now() - state_change,"
               " left(regexp_replace(query, '\\s+', ' ', 'g'), 200)"
               " FROM pg_stat_activity WHERE datname IS NOT NULL ORDER BY datname, pid",
               (char *)NULL);
        _exit(127);
    }
    waitpid(child, NULL, 0);
}

static int where_to_say(void)
{
    const char *path = getenv("PGW_TEST_HANGS");
    int fd = path != NULL ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0666) : -1;

    return fd < 0 ? STDERR_FILENO : fd;
}

/* Nothing here is safe in a handler by the book; but the process is at its end. */
static void look(int sig)
{
    static UNITY_COUNTER_TYPE test;
    static int ticks;
    int fd;

    (void)sig;
    alarm(TICK_S);
    if (test != Unity.NumberOfTests) {
        test = Unity.NumberOfTests;
        ticks = 0;
    }
    if (++ticks < TICKS_MAX) return;
    end_by_alarm(REPORT_S);
    fd = where_to_say();
    say_where(fd, "HANGS");
    say_what_the_server_does(fd);
    fflush(NULL);
    abort();
}

/* What was not printed yet, too: a failed test may be why. */
static void crash(int sig)
{
    say_where(where_to_say(), "CRASHES");
    fflush(stdout);
    raise(sig); /* as if there were no handler: it is reset */
}

/* A child that a failed test leaves behind would keep whoever reads what the tests print waiting.
 */
static void die_with_the_parent(void)
{
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
}

__attribute__((constructor)) static void watch(void)
{
    struct sigaction act = {.sa_handler = look, .sa_flags = SA_RESTART};

    pthread_atfork(NULL, NULL, die_with_the_parent);
    sigaction(SIGALRM, &act, NULL);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they say more */
    act = (struct sigaction){.sa_handler = crash, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGSEGV, &act, NULL);
    sigaction(SIGBUS, &act, NULL);
#endif
    alarm(TICK_S);
}
