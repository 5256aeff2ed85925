/* SPDX-License-Identifier: PostgreSQL
 *
 * hist.c: writes and reads histories (hist.h).
 */
#include "hist.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define XX(name) #name,
const char *const op_names[OP_COUNT] = {OPS(XX)};
#undef XX

int hist_proc;
int64_t hist_at;

static int fd = -1;
static int64_t calls;
/* Threads of the worker runtime write, too: each collects its own lines. */
static _Thread_local char *lines;
static _Thread_local size_t used, capacity;
static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;

int64_t now_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

void hist_open(const char *folder, const char *role, int proc)
{
    char path[400];
    hist_proc = proc;
    snprintf(path, sizeof(path), "%s/%05d-%s", folder, proc, role);
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0) {
        perror(path);
        exit(2);
    }
}

void hist_line(int64_t call, char phase, enum op op, const int64_t *a, size_t n)
{
    if (capacity - used < 400) {
        capacity = capacity ? capacity * 2 : 4096;
        lines = realloc(lines, capacity);
        if (!lines) abort();
    }
    used += (size_t)sprintf(lines + used, "%" PRId64 " %d %" PRId64 " %c %s",
                            hist_at ? hist_at : now_us(), hist_proc, call, phase, op_names[op]);
    for (size_t i = 0; i < n && i < HIST_ARGS; i++)
        used += (size_t)sprintf(lines + used, " %" PRId64, a[i]);
    lines[used++] = '\n';
}

void hist_flush(void)
{
    if (used && write(fd, lines, used) != (ssize_t)used) {
        perror("history");
        abort();
    }
    used = 0;
}

int64_t hist_call(void)
{
    pthread_mutex_lock(&counting);
    const int64_t call = ++calls;
    pthread_mutex_unlock(&counting);
    return call;
}

event *history_add(history *h)
{
    if (h->n == h->capacity) {
        h->capacity = h->capacity ? h->capacity * 2 : 1024;
        h->e = realloc(h->e, h->capacity * sizeof(event));
        if (!h->e) abort();
    }
    memset(&h->e[h->n], 0, sizeof(event));
    return &h->e[h->n++];
}

/* Returns false if this is not a whole line of ours. */
static int read_line(history *h, const char *line)
{
    char *at;
    event *e = history_add(h);
    e->t = strtoll(line, &at, 10);
    e->proc = (int32_t)strtol(at, &at, 10);
    e->call = strtoll(at, &at, 10);
    if (*at++ != ' ' || !strchr("ioet", *at)) goto bad;
    e->phase = *at++;
    for (e->op = 0; e->op < OP_COUNT; e->op++)
        if (strncmp(at + 1, op_names[e->op], 3) == 0) break;
    if (*at != ' ' || e->op == OP_COUNT) goto bad;
    at += 4;
    for (int i = 0; *at == ' ' && i < HIST_ARGS; i++) e->a[i] = strtoll(at, &at, 10);
    if (*at == '\n') return 1;
bad:
    h->n--;
    return 0;
}

/* Of a job within a transaction: there, through its gates, ready, leased. */
static int step(const event *e)
{
    return 2 * (e->op == OP_dly && e->a[6] ? OP_new : e->op) + (e->op == OP_dly);
}

static int in_order(const void *x, const void *y)
{
    const event *a = x, *b = y;
    if (a->t != b->t) return a->t < b->t ? -1 : 1;
    if (a->proc != b->proc) return a->proc < b->proc ? -1 : 1;
    if (a->call != b->call) return a->call < b->call ? -1 : 1;
    if (a->phase == 't' && b->phase == 't') return step(a) - step(b);
    return (a->phase == 'o') - (b->phase == 'o');
}

void history_sort(history *h)
{
    qsort(h->e, h->n, sizeof(event), in_order);
}

int history_read(history *h, const char *folder)
{
    DIR *dir = opendir(folder);
    int bad = 0;
    if (!dir) return -1;
    for (struct dirent *d; (d = readdir(dir)) != NULL;) {
        char path[700];
        char *line = NULL;
        size_t size = 0;
        snprintf(path, sizeof(path), "%s/%s", folder, d->d_name);
        FILE *f = d->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (!f) continue;
        while (getline(&line, &size, f) > 0) bad += !read_line(h, line);
        free(line);
        fclose(f);
    }
    closedir(dir);
    history_sort(h);
    return bad;
}

void event_print(const event *e)
{
    printf("    %10.6f %5d/%-6" PRId64 " %c %s", (double)e->t / 1e6, e->proc, e->call, e->phase,
           op_names[e->op]);
    for (int i = 0; i < HIST_ARGS; i++) printf(" %" PRId64, e->a[i]);
    putchar('\n');
}
