/* SPDX-License-Identifier: PostgreSQL
 *
 * child: runs one command, writes its stdin, reads its output, and stops it on request. Several
 * threads may run children at the same time. No other code of the program starts processes.
 */
#ifndef CHILD_H
#define CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHILD_ERROR_MAX 2048 /* bytes kept of the end of stderr */

typedef struct child {
    char *const *argv;
    char *const *envp; /* unless plain */
    const char *input; /* for its stdin */
    size_t input_size;
    bool plain;  /* it inherits environment, stdin, stdout and stderr, and does not outlive us */
    size_t keep; /* how many of the first bytes of stdout are kept; 0: it inherits stdout */
    int wake_fd; /* when it is readable, signals() is called; -1: call it periodically */
    int (*signals)(void *arg); /* not 0: stop the child; called until it ended */
    void *arg;
    int64_t grace_ms; /* between TERM and KILL */
    /* filled by child_run() */
    bool group;   /* it leads a process group, and has no terminal */
    int status;   /* as of waitpid() */
    int unknown;  /* errno of waitpid(), if the status is unknown */
    int signaled; /* the first result of signals(); 0: the child ended by itself */
    char *output; /* caller frees; NULL unless keep */
    size_t output_size;
    bool truncated;
    char error[CHILD_ERROR_MAX + 1]; /* the end of stderr, without the last newlines */
} child;

/** 0, or the errno of a command that could not be started. */
int child_run(child *c);
/** 0 if the command can be found and executed, otherwise ENOENT or EACCES. */
int child_find(const char *command);

#endif
