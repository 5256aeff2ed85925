/* SPDX-License-Identifier: PostgreSQL
 *
 * child: runs one command: feeds its stdin, reads what it says, ends it when told to. Any number of
 * threads may run children at the same time; no other code of the program starts processes.
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
    bool plain;  /* environment, stdin, stdout and stderr are ours, and it does not outlive us */
    size_t keep; /* bytes kept of the begin of stdout; 0: stdout is ours */
    int wake_fd; /* readable: ask signals(); -1: ask now and then */
    int (*signals)(void *arg); /* not 0: end the child; asked until it has ended */
    void *arg;
    int64_t grace_ms; /* between TERM and KILL */
    /* filled by child_run() */
    bool group;   /* it leads a group of its own, and has no terminal */
    int status;   /* as of waitpid() */
    int unknown;  /* errno of waitpid(): how it ended nobody knows */
    int signaled; /* what signals() said first; 0: the child ended by itself */
    char *output; /* caller frees; NULL unless keep */
    size_t output_size;
    bool truncated;
    char error[CHILD_ERROR_MAX + 1]; /* the end of stderr, without the last newlines */
} child;

/** 0, or the errno that kept the command from starting. */
int child_run(child *c);
/** Could this command be started at all? 0, ENOENT or EACCES. */
int child_find(const char *command);

#endif
