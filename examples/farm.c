/* farm: the same program runs on many machines (here: processes). Each second one of them runs a
 * tick. The node that runs the third tick is killed, and another one takes over.
 *
 *   cc farm.c $(pkg-config --cflags --libs pgwork) && PGWORK_DSN=... ./a.out [NODES]
 *
 * Ends with 0 if every tick was finished exactly once, the one of the dead node by another node. If
 * it is interrupted, remove its schedule: `pgwork cron rm farm`. */
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <pgwork.h>

#define NODES_MAX 64
#define TICKS     7 /* to watch */
#define VICTIM    3 /* the node that runs this one is killed */

/* A report of a node to the parent, small enough for one atomic write(). */
typedef struct report {
    int node;
    bool finished;
    int64_t slot_us;
    uint64_t fence;
} report;

static const char *clock_text(int64_t us, char text[16])
{
    const time_t s = (time_t)(us / 1000000);
    struct tm tm;

    strftime(text, 16, "%H:%M:%S", gmtime_r(&s, &tm));
    return text;
}

static int failed(pgw *h, const char *what)
{
    fprintf(stderr, "farm: %s: %s\n", what, pgw_error_message(h));
    return 1;
}

/* ---- a node: the whole program of a machine in the farm ---- */

static int node_run(pgw *h, const char *name, report *r, int out)
{
    static const char *const schedules[] = {"farm"};
    pgw_cron_claim_opts o = PGW_CRON_CLAIM_OPTS_INIT;

    o.holder = name, o.schedules = schedules, o.schedules_count = 1;
    for (;;) {
        pgw_tick *tick;
        int64_t next_ms;
        const pgw_status st = pgw_cron_claim_due(h, &o, &tick, &next_ms);

        if (st == PGW_OUTCOME_EMPTY) { /* not our turn */
            poll(NULL, 0, next_ms < 500 ? (int)next_ms : 500);
            continue;
        }
        if (st != PGW_OK) return failed(h, "claim");
        r->slot_us = pgw_tick_slot_us(tick);
        r->fence = pgw_tick_token(tick).number;
        r->finished = false;
        if (write(out, r, sizeof(*r)) != sizeof(*r)) return 1;

        /* a real program works here, and passes the fence to everything that it writes to */
        poll(NULL, 0, 300);

        /* PGW_ELEASE: this node was too slow, and another node has the tick. */
        r->finished = pgw_cron_finish(h, pgw_tick_token(tick), NULL) == PGW_OK;
        if (r->finished && write(out, r, sizeof(*r)) != sizeof(*r)) return 1;
        pgw_tick_free(tick);
    }
}

static pid_t node_start(int number, int out)
{
    const pid_t pid = fork();
    report r;
    char name[32];
    pgw *h;

    if (pid != 0) return pid;
    memset(&r, 0, sizeof(r)); /* its bytes go through a pipe */
    r.node = number;
    snprintf(name, sizeof(name), "node %d", number);
    if (pgw_open(NULL, &h) != PGW_OK) _exit(failed(h, name));
    _exit(node_run(h, name, &r, out));
}

/* ---- the parent, which checks the reports ---- */

static int watch(int in, pid_t *nodes)
{
    int started = 0, finished = 0, victim = -1;
    int64_t orphan = 0, done[TICKS] = {0};
    uint64_t fence = 0;
    bool inherited = false;
    char text[16];
    report r;

    while (finished < TICKS && read(in, &r, sizeof(r)) == sizeof(r)) {
        if (r.finished) {
            printf("         node %d finished\n", r.node);
            for (int i = 0; i < finished; i++) {
                if (done[i] == r.slot_us) return fprintf(stderr, "farm: a tick ran twice\n"), 1;
            }
            done[finished++] = r.slot_us;
            inherited |= r.slot_us == orphan && r.node != victim;
            continue;
        }
        printf("%s node %d runs it, fence %llu%s\n", clock_text(r.slot_us, text), r.node,
               (unsigned long long)r.fence,
               r.slot_us == orphan ? ", in place of the dead one" : "");
        fflush(stdout);
        if (r.fence <= fence) return fprintf(stderr, "farm: a fence did not grow\n"), 1;
        fence = r.fence;
        if (++started == VICTIM) {
            victim = r.node;
            orphan = r.slot_us;
            kill(nodes[victim], SIGKILL);
            waitpid(nodes[victim], NULL, 0);
            nodes[victim] = 0;
            printf("         node %d is killed\n", victim);
        }
    }
    if (finished < TICKS) return fprintf(stderr, "farm: the nodes are gone\n"), 1;
    if (!inherited) return fprintf(stderr, "farm: nobody took over\n"), 1;
    printf("%d ticks, each finished once\n", finished);
    return 0;
}

int main(int argc, char **argv)
{
    const int count = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 5;
    pgw_cron_opts o = PGW_CRON_OPTS_INIT;
    pid_t nodes[NODES_MAX];
    int ends[2], code;
    pgw *h;

    if (count < 2 || count > NODES_MAX || pipe(ends) != 0)
        return fprintf(stderr, "farm [NODES], 2 to %d of them\n", NODES_MAX), 2;
    if (pgw_open(NULL, &h) != PGW_OK) return failed(h, "open");
    o.timeout_ms = 1500;         /* how long a node may hold a tick */
    o.misfire = PGW_MISFIRE_ALL; /* missed ticks run later */
    if (pgw_cron_create(h, "farm", "@every 1s", &o, NULL) != PGW_OK) return failed(h, "create");

    fflush(stdout); /* otherwise each child has a copy of the buffer */
    for (int i = 0; i < count; i++) nodes[i] = node_start(i, ends[1]);
    close(ends[1]);
    code = watch(ends[0], nodes);
    for (int i = 0; i < count; i++) {
        if (nodes[i] > 0) kill(nodes[i], SIGKILL), waitpid(nodes[i], NULL, 0);
    }
    if (pgw_cron_drop(h, "farm") != PGW_OK) code = failed(h, "drop");
    pgw_close(h);
    return code;
}
