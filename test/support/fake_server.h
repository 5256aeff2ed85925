/* fake_server: the server's side of the verbs that a worker uses, in memory.
 *
 * Tests of the worker link it instead of the modules below: queues of jobs, leases by count and not
 * by time, and answers that can be made to fail. Every verb checks the token as the real one does.
 * One lock around everything, so that a sanitizer sees the worker's own races and none of ours. */
#ifndef FAKE_SERVER_H
#define FAKE_SERVER_H

#include "pgwork.h"

typedef enum fake_verb {
    FAKE_CLAIM,
    FAKE_COMPLETE,
    FAKE_FAIL,
    FAKE_SNOOZE,
    FAKE_HOLD,
    FAKE_RELEASE,
    FAKE_EXTEND,
    FAKE_OPEN,
    FAKE_IDLE,
    FAKE_VERBS
} fake_verb;

typedef enum fake_state {
    FAKE_READY,
    FAKE_LEASED,
    FAKE_DONE,
    FAKE_DEAD,
    FAKE_LATER,
    FAKE_CANCELED
} fake_state;

pgw *fake_open(const pgw_conf *conf);
void fake_reset(void);                                      /* no jobs, nothing fails */
void fake_jobs(const char *queue, int n, int64_t lease_ms); /* ids go on from the last one's */
/* What jobs from an id to another one have; NULL: no meta. */
void fake_kind(int64_t first, int64_t last, const char *kind, const char *meta);
int64_t fake_delay_of(int64_t id); /* as its last failure or snooze said */
void fake_max_attempts(int n);     /* of every job; 0: many */
/* The next `times` calls of a verb answer `st`; with `applied`, after having done their work. */
void fake_fails(fake_verb verb, pgw_status st, int times, int applied);
void fake_turns_read_only(void);         /* that is why they fail */
void fake_takes_away(int64_t id);        /* another claim has the job now */
void fake_quarantine(int64_t id);        /* it may have killed who had it last */
void fake_retries(int64_t id);           /* its time has come: it is ready */
void fake_requeues(int64_t id);          /* an operator does: any claim may have it */
void fake_on_complete(void (*fn)(void)); /* called when a completion comes in, before it is done */
void fake_locks(int64_t id, int times);  /* so many extends find the job locked */
void fake_hangs(bool hangs);             /* no extend is answered meanwhile */
void fake_cancels(int64_t id);           /* the next extend says so */
void fake_claims_late(
    int64_t ms); /* each claim waits so long at the server, by a clock that jumps */
void fake_finishes_late(int64_t ms); /* each finishing verb takes so long, by the same clock */
void fake_refuses_output(const char *output);
/* The next `times` calls that finish this job, or others with it, answer `st`. */
void fake_stalls(int64_t id, pgw_status st, int times);
void fake_freezes_for(int64_t ms); /* the clock jumps, as after SIGSTOP */

int fake_calls(fake_verb verb);   /* how many calls */
int64_t fake_limit(const pgw *h); /* what pgw_set_timeout() was told */
int fake_parts(void);             /* how many calls finished some jobs of a claim and left some */
int fake_together(void);          /* how many jobs were claimed, but not apart from each other */
int fake_count(fake_state state); /* how many jobs */
fake_state fake_state_of(int64_t id);
int fake_attempt_of(int64_t id);
int fake_finishes_of(int64_t id); /* accepted finishing verbs */
const char *fake_error_of(int64_t id);

#endif
