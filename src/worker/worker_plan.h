/* worker_plan: the next action of a worker, as a pure function of counts and the clock. The main
 * loop fills in the state, asks for a plan and carries it out. All rules about claims, results and
 * the end are here. */
#ifndef PGW_WORKER_PLAN_H
#define PGW_WORKER_PLAN_H

#include <stdbool.h>
#include <stdint.h>

/* What handlers change. Times are monotonic milliseconds. */
typedef struct pgw__worker_counts {
    int waiting; /* jobs not started: their kinds run as many as they may */
    int ready, running,
        done;           /* other jobs not started, with a handler, finished but not yet reported */
    int free;           /* jobs that idle handlers would take */
    int whole;          /* of `done`: of claims of which nothing else is left */
    int64_t due_at;     /* when the first of `done` must be reported; INT64_MAX: none */
    bool blocked;       /* the next job prefetched starts only when all results are reported */
    int64_t hold_until; /* no claim before: wait for the effect of that job */
} pgw__worker_counts;

/* What is seen. */
typedef struct pgw__worker_view {
    int64_t now;
    pgw__worker_counts n;
    int64_t since_us;  /* since the last claim came in, */
    int64_t call_us;   /* which took so long */
    int done_before;   /* `done` at that time */
    int64_t left;      /* jobs that worker.max_jobs still allows */
    int64_t claim_at;  /* no claim before: the queues are empty ... */
    bool fell_short;   /* ... after some jobs; one that is sent with results may claim again */
    int64_t call_at;   /* no call to the server before: the last one failed */
    bool no_heartbeat; /* the session that extends leases is lost: nothing is claimed */
    int64_t extend_at; /* leases to extend between jobs; INT64_MAX: a thread sees to it */
    int64_t end_at;    /* after the second stop: wait for handlers until then */
    int stops;         /* how often a stop was asked for; a fatal error counts as one */
    bool found_none;   /* the last claim found nothing while nothing was held here */
    bool rush;         /* the plan before held back a claim, see there */
    /* configuration */
    int prefetch, flush_jobs; /* the former as things are: it may adapt */
    bool stale; /* no handler has begun a job for so long that another worker should have it */
    bool here;  /* handlers run in the calling thread */
    bool drain; /* end when nothing is left */
} pgw__worker_view;

/* What to do: the first of these that is set, from top to bottom; flush and claim go together. */
typedef struct pgw__worker_plan {
    bool end;
    bool release;    /* requeue jobs that are not started */
    bool extend;     /* extend leases now, in this thread */
    bool flush;      /* report results: those of whole claims and those that are due ... */
    bool flush_all;  /* ... or all of them */
    int claim;       /* and claim this many */
    bool run;        /* run one handler call in this thread */
    bool rush;       /* no claim yet: handlers are nearly through with all that is here */
    bool no_wakeups; /* claims are not allowed now */
    int64_t wait_ms; /* otherwise wait so long, at least 1 */
} pgw__worker_plan;

pgw__worker_plan pgw__worker_plan_next(const pgw__worker_view *v);

typedef enum pgw__worker_stir_for {
    PGW__STIR_NOT,
    PGW__STIR_CLAIM,
    PGW__STIR_OTHER
} pgw__worker_stir_for;

/* A handler thread just took or finished jobs; `now` has the counts. Whether a waiting main loop
 * must check again, and if only to claim. `before`: the counts when it began to wait. */
pgw__worker_stir_for pgw__worker_plan_stirs(const pgw__worker_view *before, pgw__worker_counts now);

#endif
