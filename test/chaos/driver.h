/* SPDX-License-Identifier: PostgreSQL
 *
 * driver.h: what the driver of a run and its nemesis share.
 */
#ifndef CHAOS_DRIVER_H
#define CHAOS_DRIVER_H

#include "classes.h"
#include "hist.h"
#include <libpq-fe.h>
#include <stdbool.h>
#include <sys/types.h>

/* Where everything is; chaos.sh sets it in the environment. */
extern const char *folder, *bin, *dsn, *pooler_ini, *clock_file;
extern int proxy_in; /* the proxy's standard input */

typedef struct process {
    const char *role;
    char name[20], dsn[300];
    pid_t pid;
    int64_t since, stopped; /* stopped: when it is to go on; 0: it runs */
    bool wanted;
} process;
extern process processes[64];
extern int process_count;

int draw(int n);
void fired(enum class class);
pid_t launch(const char *out, const char *const *argv, int *in); /* in NULL: /dev/null */
void start_pooler(void);
extern pid_t pooler;

PGconn *admin(void);          /* our own session; waits until the server is there */
int64_t ask(const char *sql); /* the first value; -1: an error */
int shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
int64_t window_begin(int64_t what);
void window_end(int64_t call);

/* nemesis.c: one fault of a class; classes that others fire are ignored. */
void inject(enum class class);
bool is_heavy(enum class class); /* it disturbs everybody */
bool is_ours(enum class class);
void nemesis_child(pid_t pid, int status); /* a process has ended, perhaps one of its */
void nemesis_tick(void);                   /* ends what has its time: what is stopped, held */
void make_room(void);                      /* ends whoever has a transaction open */
void nemesis_calm(void);                   /* ends everything */

#endif
