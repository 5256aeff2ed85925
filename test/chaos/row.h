/* SPDX-License-Identifier: PostgreSQL
 *
 * row.h: a row of the engine's tables as test_decoding prints it.
 */
#ifndef CHAOS_ROW_H
#define CHAOS_ROW_H

#include <stdint.h>

#define ROW_JOBS 100
typedef struct row {
    int64_t queue, lane, pos, attempt, max_attempts; /* max_attempts 0: as the queue says */
    int64_t id, at_us;      /* lease_until of a live job, run_at of a delayed one */
    uint64_t number, nonce; /* 0: no token */
    int64_t key, slot;      /* a unique key's number; a schedule's slot */
    int64_t runtime;        /* 1: its holder is a worker of the runtime */
    int64_t grp, gated;     /* number + 1; at the gate of its group (1), or of its queue (2) */
    int64_t group_limit, queue_limit, policy, held; /* 0: not set; as in the event lim */
    int64_t weight;                                 /* at a rate */
    int64_t rate[3], group_rate[3];                 /* n, per_ms, burst; n 0: not set, -1: none */
    char name[80], kind[80];
    int jobs, kinds, gones; /* a batch row */
    int64_t ids[ROW_JOBS], made[ROW_JOBS], gone[ROW_JOBS];
} row;

/* Reads columns up to the end, or up to " new-tuple:"; what is not there stays as it was. Returns
 * where it ended. */
const char *row_read(row *r, const char *text);
int64_t time_read(const char *text); /* microseconds since 1970, UTC */

#endif
