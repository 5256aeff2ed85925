/* SPDX-License-Identifier: PostgreSQL
 *
 * hist.h: the history. Every process of a chaos run writes events into a file of its own: one line
 * an event, one write() a call, O_APPEND, so that a kill -9 loses at most the line that was being
 * written. All processes share CLOCK_MONOTONIC, so the lines of all files have one order.
 *
 * A call is two lines: its invocation ('i'), written before the first byte is sent, and its outcome
 * ('o'). A call without an outcome may or may not have happened. 'e' is a note, not a call, 't'
 * a transition that truth.c has read from the server's log.
 *
 *     TIME PROC CALL PHASE OP A0 A1 A2 A3 A4 A5 A6 A7 A8 A9
 *
 * In an outcome A0 is one of the S_ numbers below.
 */
#ifndef CHAOS_HIST_H
#define CHAOS_HIST_H

#include <stddef.h>
#include <stdint.h>

/* clang-format off */
#define OPS(XX) /* name, arguments */                                                            \
    XX(enq) /* i: queue first count key delay_ms op open (until its transaction ends); o: status */ \
    XX(clm) /* i: queue max lease_ms mode (1: rolls back, 2: stays open); o: status count     */ \
    XX(got) /* e: queue job number nonce attempt made lease_ms                                */ \
    XX(don) XX(fai) XX(ded) XX(rel) XX(snz) /* i: queue job number nonce, delay_ms of fai and \
               snz, counter + 1 of don; o: status                                             */ \
    XX(ext) /* i: queue job number nonce lease_ms; o: status                                  */ \
    XX(eff) /* i: object number nonce; o: status. An effect, shown to the sink                */ \
    XX(snk) /* e: object number nonce accepted. The sink's own account                        */ \
    XX(lck) XX(ulk) /* i: lock shared timeout_ms; o: status fence                             */ \
    XX(sem) /* i: sema n ttl_ms session; o: status number                                     */ \
    XX(sex) XX(srl) /* i: sema n ttl_ms session number; o: status                             */ \
    XX(inc) /* i: counter amount; o: status                                                   */ \
    XX(tak) /* i: rate n; o: status. From a rate                                             */ \
    XX(end) /* e: counter value, as read in the end                                           */ \
    XX(row) /* i: max lease_ms; o: status. Leases on a table                                  */ \
    XX(rgt) /* e: row number lease_ms                                                         */ \
    XX(rfi) XX(rrl) /* i: row number; o: status                                               */ \
    XX(tic) /* e: schedule slot number                                                        */ \
    XX(tfi) XX(trl) /* i: schedule slot number; o: status                                     */ \
    XX(pau) XX(pur) XX(drp) XX(red) XX(res) /* i: queue; o: status. pau: until its outcome    */ \
    XX(can) /* i: queue job; o: status                                                        */ \
    XX(unb) /* i: queue; o: status. Groups unblocked                                          */ \
    XX(win) /* i .. o: what; the server is not there, or its clock is wrong                   */ \
    XX(nem) /* e: class: a fault whose effect was seen                                        */ \
    XX(cal) /* e: nothing is injected from here on                                            */ \
    XX(fin) /* e: all queues are empty, or should be                                          */ \
    /* truth, in the order of commits: queue job number nonce attempt ...                     */ \
    XX(new) /* ... made key lane grp weight: the job is there. number: 0 ready, 1 delayed, 2    \
               gated, 3 at its queue's gate; nonce: delay_ms                                  */ \
    XX(rdy) /* ... gate lane: ready (again); number, nonce: the lease that ended, or 0.         \
               gate: at which it was (1: its group's, 2: its queue's), or 0                   */ \
    XX(lea) /* ... lease_ms lane max_attempts runtime: leased, by a worker of the runtime?    */ \
    XX(len) /* ... lease_ms: extended                                                         */ \
    XX(dly) /* ... delay_ms gate: waits, for its time or at a gate; number, nonce as of rdy   */ \
    XX(dea) /* ... - - max_attempts: dead; number, nonce as of rdy                            */ \
    XX(gon) /* ... state before (ST_): deleted; number, nonce as of rdy                       */ \
    XX(two) /* - job: in two places at once                                                   */ \
    XX(lim) /* queue - grp limit policy held n per_ms burst: settings; grp 0: of all groups, -1:  \
               of the queue. limit, policy, n 0: as those of all. n -1: no rate.               \
               held: 1 for good, 2 for a while                                                */
/* clang-format on */

enum op {
#define XX(name) OP_##name,
    OPS(XX)
#undef XX
        OP_COUNT
};

enum { S_OK, S_STALE, S_UNKNOWN, S_NOT, S_GONE, S_LOCKED, S_EMPTY, S_EXISTS };
enum { ST_NONE, ST_READY, ST_LEASED, ST_DELAYED, ST_DEAD };
enum { POLICY_HOLD = 1, POLICY_PASS, POLICY_BLOCK };

#define HIST_ARGS 10
typedef struct event {
    int64_t t, call;
    int32_t proc;
    uint8_t op;
    char phase;
    int64_t a[HIST_ARGS];
} event;

/* The process that made a job, and its number there: the job's kind has both. Ticks are negative.
 */
#define MADE(proc, n) ((int64_t)(proc) << 32 | (int64_t)(n))

/* -- writing -- */
extern int hist_proc;   /* ours; each start of a process has another one */
extern int64_t hist_at; /* the time of the lines that follow; 0: now */

int64_t now_us(void);
/* Ends the process if the file cannot be opened: a run without a history proves nothing. */
void hist_open(const char *folder, const char *role, int proc);
/* Appends a line with up to HIST_ARGS numbers; several lines go out by one hist_flush(). */
#define hist_add(call, phase, op, ...)                         \
    hist_line(call, phase, op, (const int64_t[]){__VA_ARGS__}, \
              sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
void hist_line(int64_t call, char phase, enum op op, const int64_t *a, size_t n);
void hist_flush(void);
#define hist(call, phase, op, ...) (hist_add(call, phase, op, __VA_ARGS__), hist_flush())
/* Returns the number of a new call, for its outcome. */
int64_t hist_call(void);

/* -- reading -- */
typedef struct history {
    event *e;
    size_t n, capacity;
} history;

event *history_add(history *h);
/* All files of a folder, sorted. Returns how many lines could not be read (the last line of a file
 * may be cut), or -1. */
int history_read(history *h, const char *folder);
void history_sort(history *h);
void event_print(const event *e);
extern const char *const op_names[OP_COUNT];

#endif
