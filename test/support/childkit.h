/* childkit: child processes for tests. */
#ifndef CHILDKIT_H
#define CHILDKIT_H

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "itpgw.h"

static pid_t children[80];
static int children_count;

/* Flushes first: a sanitizer may flush again at _exit(), which would print everything twice. */
static inline pid_t forked(void)
{
    pid_t pid;

    fflush(NULL);
    pid = fork();
    TEST_ASSERT_GREATER_OR_EQUAL(0, pid);
    return pid;
}

/* As it_open_bare(), but without assertions, which must not run in a child. The open may fail. */
static inline pgw *it_try_bare(void)
{
    pgw_conf *conf;
    pgw *h = NULL;

    if (pgw_conf_new(&conf) != PGW_OK) return NULL;
    pgw_conf_set(conf, "dsn", pgtemp_dsn());
    pgw_conf_set(conf, "schema.check", "off");
    pgw_open(conf, &h);
    pgw_conf_free(conf);
    return h;
}

/* Runs fn in a child with a handle of its own. Its result is the exit code. */
static inline void spawn(int (*fn)(pgw *mine, int who), int who)
{
    pid_t pid;

    TEST_ASSERT_LESS_THAN(sizeof(children) / sizeof(children[0]), children_count);
    pid = forked();
    if (pid == 0) {
        pgw *mine = it_try_bare();
        int code = 100;

        if (mine != NULL && pgw_error_status(mine) == PGW_OK) code = fn(mine, who);
        if (code != 0) fprintf(stderr, "child %d: %d: %s\n", who, code, pgw_error_message(mine));
        pgw_close(mine);
        _exit(code);
    }
    children[children_count++] = pid;
}

/* Waits for a child. Returns its exit code, or 128 + the signal that ended it. */
static inline int reaped(pid_t pid)
{
    int status;

    TEST_ASSERT_EQUAL_INT(pid, waitpid(pid, &status, 0));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Waits for all children. Each must end with 0. */
static inline void join(void)
{
    int bad = 0;

    while (children_count > 0) bad += reaped(children[--children_count]) != 0;
    TEST_ASSERT_EQUAL_INT(0, bad);
}

#endif
