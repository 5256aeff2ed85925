/* fake_server: the server's side of the verbs that a worker uses, in memory.
 *
 * Tests of the worker link it instead of the modules below. It has queues of jobs, leases that end
 * by count and not by time, and answers that can fail. Every verb checks the token as the server
 * does. One lock protects everything, so that a sanitizer finds only races of the worker. */
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
void fake_jobs(const char *queue, int n, int64_t lease_ms); /* ids continue after the last one */
/* Sets kind and meta of the jobs first..last; meta NULL: none. */
void fake_kind(int64_t first, int64_t last, const char *kind, const char *meta);
int64_t fake_delay_of(int64_t id); /* of its last failure or snooze */
void fake_max_attempts(int n);     /* of every job; 0: many */
/* The next `times` calls of a verb return `st`. With `applied` they are applied nevertheless. */
void fake_fails(fake_verb verb, pgw_status st, int times, int applied);
void fake_turns_read_only(void);         /* calls that fail report a read-only server */
void fake_takes_away(int64_t id);        /* another claim has the job now */
void fake_quarantine(int64_t id);        /* its last holder died */
void fake_retries(int64_t id);           /* its delay is over: it is ready */
void fake_requeues(int64_t id);          /* an operator requeues it: any claim may have it */
void fake_on_complete(void (*fn)(void)); /* called before a completion is applied */
void fake_locks(int64_t id, int times);  /* the next `times` extends find the job locked */
void fake_hangs(bool hangs);             /* true: extends get no answer */
void fake_cancels(int64_t id);           /* the next extend reports a cancel */
void fake_claims_late(
    int64_t ms); /* each claim takes this long at the server, by a clock that jumps */
void fake_finishes_late(int64_t ms); /* each finishing verb takes this long, by the same clock */
void fake_refuses_output(const char *output);
/* The next `times` calls that finish this job, alone or with others, return `st`. */
void fake_stalls(int64_t id, pgw_status st, int times);
void fake_freezes_for(int64_t ms); /* the clock jumps, as after SIGSTOP */

int fake_calls(fake_verb verb);   /* how many calls */
int64_t fake_limit(const pgw *h); /* the argument of pgw_set_timeout() */
int fake_parts(void);             /* how many calls finished only a part of a claim */
int fake_together(void);          /* how many jobs were claimed without `apart` */
int fake_count(fake_state state); /* how many jobs */
fake_state fake_state_of(int64_t id);
int fake_attempt_of(int64_t id);
int fake_finishes_of(int64_t id); /* accepted finishing verbs */
const char *fake_error_of(int64_t id);

#endif
