/* worker_state: what the files of the worker share. From below, each calls only those above it
 * here:
 *
 *   worker_plan.c   what to do next: pure
 *   worker_state.c  memory, lists and results, signals of a task
 *   worker_report.c counts: reported to the server every few seconds
 *   worker_why.c    why there is nothing to do
 *   worker_kind.c   handlers by kind: limits, timeouts, retries
 *   worker_heartbeat.c  leases: extended in time, given up in time
 *   worker_flush.c  results: sorted into groups, sent, sent again
 *   worker_pool.c   claimed jobs, handler threads, what a handler can ask and say
 *   worker.c        creation, the main loop, statistics
 *
 * Threads: the main loop (the caller's thread, owner of the handle `loop.h`), the handler threads,
 * and the heartbeat (owner of the handle `heartbeat.h`, opened before the first claim). One lock
 * guards what more than one of them sees and is not atomic; no call to the server and no handler
 * runs under it.
 *
 * A worker with several databases has a struct pgw_worker for each, a source, with a main loop, a
 * heartbeat, jobs and results of its own. They share the pool: the handler threads, the kinds and
 * the lock. A free handler takes a job of the next source that has one, in turn. So a source whose
 * server hangs keeps no other one waiting.
 *
 * A job goes READY -> RUNNING -> DONE -> GONE; jobs of one claim live in one task set, which is
 * freed with the last of them. The server keeps them in rows of up to a hundred. A call that
 * finishes a whole row deletes it; one that finishes a part of a row rewrites it. So results of a
 * task set wait for the others in it, until `due_at`. */
#ifndef PGW_WORKER_STATE_H
#define PGW_WORKER_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/backoff.h"
#include "base/log.h"
#include "pgwork.h"
#include "base/wake.h"
#include "pq/pq.h"
#include "worker/worker_plan.h"

typedef enum pgw__stage {
    PGW__READY,   /* not started */
    PGW__RUNNING, /* with a handler */
    PGW__DONE,    /* has a verdict, which the server does not know yet */
    PGW__GONE     /* not held any more; the memory stays until its task set is empty */
} pgw__stage;

typedef struct pgw__taskset pgw__taskset;

typedef struct pgw__list {
    pgw_task *first, *last;
    int count;
} pgw__list;

/* The handler of a kind of jobs, or of all kinds that have none of their own. */
typedef struct pgw__kind {
    char *name; /* NULL: of these */
    pgw_handler_fn *fn;
    pgw_batch_fn *batch_fn; /* or this one */
    void *arg;
    pgw_kind_opts opts;
    int limit; /* of jobs that run at once; INT_MAX: none */
    /* With the lock held: */
    int held;          /* jobs in `ready`, or with a handler: at most `limit` */
    pgw__list waiting; /* claimed beyond it, for a moment */
    int64_t each_us;   /* what a job takes, on average; 0: not known yet */
    int64_t began_at;  /* the last one, or the first to wait */
    int64_t return_us; /* the last job that was put off comes back then */
} pgw__kind;
/* What is counted of each queue, as migrations/0017_workers.sql stores it: numbers, then jobs by
 * waiting and by running time, up to 1, 2, 4, ... ms. */
#define PGW__COUNT_BUCKETS 24
typedef enum pgw__counted {
    PGW__COUNT_CLAIMED,
    PGW__COUNT_DONE,
    PGW__COUNT_FAILED,
    PGW__COUNT_DEAD,
    PGW__COUNT_REFUSED,
    PGW__COUNT_LOST,
    PGW__COUNT_WAIT_US,
    PGW__COUNT_RUN_US,
    PGW__COUNT_WAIT,
    PGW__COUNT_RUN = PGW__COUNT_WAIT + PGW__COUNT_BUCKETS,
    PGW__COUNTS = PGW__COUNT_RUN + PGW__COUNT_BUCKETS
} pgw__counted;

typedef struct pgw__tally {
    int64_t n[PGW__COUNTS], told[PGW__COUNTS]; /* ever; the server knows of */
    _Atomic int64_t lost;                      /* of any thread; copied into n */
    int32_t running;
} pgw__tally;

#define PGW__REPORT_JOBS 100 /* that run for long: as many are named */

struct pgw_task {
    pgw_worker *worker;
    pgw__taskset *taskset;
    pgw_task *self; /* for functions that take a const task and still record what they find */
    pgw_task *next; /* in one of the lists `ready`, `waiting`, `done` and `resting` */
    pgw__kind *kind;
    bool held;          /* counts there */
    int64_t timeout_ms; /* 0: none */
    int64_t began_us;
    const pgw_job *job;
    pgw_ref ref;
    pgw__stage stage;
    int64_t lease_ms;           /* length, as the claim said */
    int64_t extend_at;          /* extend from then on, */
    int64_t ask_at;             /* but not before: its row was locked */
    _Atomic int64_t safe_until; /* monotonic: no other session can have the job before */
    _Atomic int64_t tired_at;   /* monotonic: its timeout_ms is over; INT64_MAX: never */
    atomic_int signals;
    pgw__tally *tally; /* of its queue */
    int64_t ready_us;  /* monotonic: it waits since; INT64_MIN: not known */
    pgw__wake wake;    /* pgw_task_fd() */
    bool poked;
    /* The handler's, then the main loop's. */
    pgw_verdict verdict;
    int64_t delay_ms; /* -1: not set */
    char *output, *error;
    /* With the lock held: what the handler reported and the server does not know yet. */
    char *progress;
    unsigned progress_n;         /* how often it has reported */
    int64_t progress_at;         /* when it was last sent */
    bool asks;                   /* the handler waits for the heartbeat to read `before`, ... */
    pgw_status answer;           /* ... which ended so */
    pgw_batch *before;           /* what was stored of this job; NULL: nothing, or not read */
    bool doubt;                  /* sent before, and the answer was lost */
    int refusals;                /* how often the server answered its report with an error, */
    int stalls;                  /* and with one that should have been over the next time */
    bool aside;                  /* an error of its own, or its row is locked: it rests */
    int64_t rest_ms, rest_until; /* for how long the next time; this time */
    bool told;                   /* being reported just now */
};

struct pgw__taskset {
    pgw__taskset *prev, *next;
    pgw_batch *batch;
    size_t open;    /* tasks not GONE, and one for each heartbeat in progress */
    size_t busy;    /* tasks READY or RUNNING; 0: whole */
    size_t done;    /* tasks in the list `done` */
    int64_t due_at; /* these are reported then, whole or not; INT64_MAX: there are none */
    size_t count;
    pgw_task tasks[];
};

typedef struct pgw__pool pgw__pool;

typedef struct pgw__handler_thread { /* a handler thread */
    pgw__pool *pool;
    pthread_t thread;
    bool started, left;
    bool alone;       /* left behind by the main loop */
    pgw_task **tasks; /* the jobs it works on, space for worker.batch */
    size_t held;
} pgw__handler_thread;

#define PGW__LEASE_LEAST_CALL_MS 100

/* Until when to trust a lease that began then or later. Clocks run at different rates: 1 part in
 * 512 is more than clocks differ that are synchronised. */
static inline int64_t pgw__lease_end(int64_t since, int64_t lease_ms)
{
    return since + lease_ms - lease_ms / 512;
}

/* How long a call may take that extends a lease or reports its job: then there is time for a new
 * session and another call before the lease ends. */
static inline int64_t pgw__lease_third(int64_t lease_ms)
{
    return lease_ms / 3 > PGW__LEASE_LEAST_CALL_MS ? lease_ms / 3 : PGW__LEASE_LEAST_CALL_MS;
}

/* Does a failure, or the death of this process, make the job a dead letter? */
static inline bool pgw__worker_is_last(const pgw_job *job)
{
    const int most = pgw_job_max_attempts(job);

    return most > 0 && pgw_job_attempt(job) >= most;
}

#define PGW__AHEAD_MAX    1000 /* jobs that an adaptive worker.prefetch claims ahead */
#define PGW__CANCELED_MAX 64
#define PGW__EXTEND_MAX   1000 /* leases that one heartbeat extends */

typedef struct pgw__extension {
    pgw_task **tasks;
    pgw_ref *refs;
    int64_t *sent_at;
    size_t count;
    pgw__wake wake; /* a lease needs the heartbeat earlier than planned, or it must end */
    pgw__backoff trouble;
    pgw__log_told told;                  /* of trouble */
    int64_t canceled[PGW__CANCELED_MAX]; /* jobs, as notifications say */
    int canceled_count;                  /* more: all may be */
    bool crowded;                        /* the server had no connection left for it */
    bool yields;                         /* it had none left for the main loop: drop this one */
    bool away;                           /* no session: a claim now could not be extended */
    int64_t failed_at;                   /* the last call did, or the session was lost: ... */
    int64_t rest_until;                  /* ... none before, unless a lease is nearly over */
    atomic_int fatal; /* a status: no use in trying again; the main loop ends the worker ... */
    char error[PGW__ERROR_LINE]; /* ... for this reason, written before */
} pgw__extension;

#define PGW__SOURCES_MAX 64
#define PGW__SOURCE_NAME 160

/* The handlers, and what goes with them: all that the sources of a worker share. */
struct pgw__pool {
    pgw_worker *sources[PGW__SOURCES_MAX]; /* the first is the caller's worker */
    size_t sources_count;
    atomic_bool told_ready; /* in this run */

    /* Set by pgw_worker_new(), pgw_worker_handle() and pgw_worker_on_ready(); only read while the
     * worker runs. */
    pgw__kind rest;    /* of kinds that are not among these ... */
    pgw__kind **kinds; /* ... sorted by name */
    size_t kinds_count;
    void (*on_ready)(void *arg);
    void *ready_arg;
    pgw__log user_log; /* called under log_lock */
    pthread_mutex_t log_lock;

    /* Guards what follows, and what is `shared` of a worker, as well as its tasks. */
    pthread_mutex_t lock;
    pthread_cond_t work; /* there is something in `ready`, or the pool closes */
    pthread_cond_t left; /* a handler thread is leaving */
    bool runs, closing;
    size_t turn; /* the source that a free handler asks first */
    int ready;   /* jobs in `ready` of all sources */
    int idle;
    int busy;         /* handlers that run: of threads, each */
    int64_t finished; /* jobs that handlers have returned from, ever */
    int64_t began_at; /* the last handler */
    int owners;       /* the caller, and threads that were left behind */
    pgw__handler_thread *handlers;
    size_t handlers_count;
};

/* A source: a database, and the threads and jobs that belong to it. Grouped by owner: which thread
 * may use a field, and under which lock. */
struct pgw_worker {
    pgw__pool *pool;

    /* Set by pgw_worker_new() and pgw_worker_add_source(); only read while the worker runs. */
    struct {
        size_t place; /* among the sources */
        char name[PGW__SOURCE_NAME];
        pgw_conf *conf;
        char **queues;
        size_t queues_count;
        int concurrency, prefetch, batch, flush_jobs;
        int64_t lease_ms, timeout_ms, flush_ms, stop_ms, call_ms, connect_ms, poll_ms, max_jobs;
        size_t output_max;
        bool drain, notify;
        pgw__log log; /* passes on to the pool's user_log */
    } given;

    /* Of the main loop's thread. */
    struct {
        pthread_t thread;
        bool beside; /* in a thread of its own, not the caller's */
        pgw *h;
        pgw_stop *stop;
        int stops;       /* how many of its notifies are heeded; a fatal error counts as one */
        uint64_t epoch;  /* of the session that the next two speak of */
        bool down;       /* it is known to be dead */
        bool registered; /* as a waiter: an enqueue wakes it up */
        bool woken;      /* since the last claim, as seen by any thread */
        bool fell_short, found_none; /* of the last claim; as in the view */
        bool hurries;                /* results that rest are reported: the worker ends */
        bool claims_fail;            /* the last one did, with results in the same call */
        int64_t poll_only_until;     /* not registered before; INT64_MAX: not in this session */
        int64_t recheck_ms;          /* while registered: the pause before the next claim */
        int64_t claim_at, call_at, end_at; /* as in the view */
        int64_t flush_until;               /* after the second stop: no result is reported later */
        int64_t filled_us, call_us;        /* when the last claim returned, and how long it took */
        _Atomic int64_t taken; /* jobs claimed in this run, and not requeued unstarted; a hold in a
                                * handler's thread requeues, too */
        int asked;             /* for so many more, in a claim under way; under the lock */
        int64_t pace_us, pace_finished; /* when the pace was last computed, and `finished` then */
        int pace;                       /* jobs done in 50 ms, as of then */
        int64_t alone_until;            /* nothing is prefetched before: see worker_pool.c */
        bool told_absent;               /* in this run */
        unsigned char *why;             /* for each queue: the last logged reason for no jobs */
        int64_t why_at;                 /* when to check again; INT64_MAX: never */
        uint64_t seen;                  /* queues that a job came from, a bit each */
        pgw__backoff trouble, poll, registering;
        pgw__log_told told; /* of trouble */
        pgw_status fatal;
        char error[PGW__ERROR_LINE];
    } loop;

    /* Of the main loop's thread: buffers of a flush, `max` of each. */
    struct {
        size_t max;
        pgw_task **out;
        pgw_ref *refs;
        const char **outputs;
    } flush;

    /* The heartbeat's thread and session: of the main loop, which starts and ends it. */
    struct {
        pthread_t thread;
        bool started;
        pgw *h;
        pgw_stop *stop;
    } heartbeat;
    pgw__extension extension; /* the heartbeat's; the main loop's without threads */

    /* Guarded by the pool's lock, as are the tasks; `wake` may be poked without it. */
    struct {
        pgw__wake wake; /* ends the main loop's wait */
        bool waits;     /* the main loop waits: compare with `view`, and poke if it would act */
        pgw__worker_view view;
        bool heartbeat_ends;
        bool ended;           /* the main loop has: results are dropped */
        int64_t heartbeat_at; /* when the heartbeat means to wake up */
        pgw__taskset *tasksets;
        pgw__list ready, done;
        pgw__list resting; /* results that would hold up others */
        int waiting;       /* jobs, of all kinds */
        int done_before;   /* results when the last claim came in */
        int whole;         /* of `done`: of whole tasksets */
        int64_t due_at;    /* the earliest of all tasksets */
        int running;
        int telling;           /* results that are on their way to the server */
        bool unfit;            /* something in `ready` has a signal, and is not to start */
        pgw_task *quarantined; /* a job that may have killed its last worker: see worker_pool.c */
        int64_t hold_until;    /* no claim before, for its sake */
    } shared;

    /* Guarded by the lock: what handlers reported of their jobs. */
    struct {
        bool waits; /* some of it is not sent */
        int64_t sent_at;
        int asks; /* handlers that wait for `answered` */
        pthread_cond_t answered;
    } progress;

    /* Of the heartbeat, or the main loop without one; `tallies` and `lease_ms` under the lock. */
    struct {
        pgw__tally *tallies; /* one for each queue */
        int64_t *versions, *counts;
        int32_t *running;
        int64_t began_at, sent_at, due_at;
        int64_t lease_ms; /* the shortest that was claimed */
    } report;

    /* Any thread. */
    atomic_int stopping; /* as loop.stops; 2: PGW_SIGNAL_STOPPING for every task */
    struct {
        _Atomic int64_t claimed, completed, failed, dead, snoozed, released, settled, refused, lost,
            claims, empty_claims, reconnects, running;
    } n;
};

void pgw__worker_destroy(pgw__pool *p);
void pgw__worker_source_free(pgw_worker *w); /* of a pool that does not have it */
bool pgw__worker_runs(pgw__pool *p);         /* or handlers of the last run are still busy */
/* Writes the reason for pgw_worker_error(). */
pgw_status pgw__worker_refuse(pgw_worker *w, const char *argument, const char *what,
                              const char *allowed);
int pgw__worker_handlers(const pgw_worker *w); /* handlers that may run at once */
/* A thread that gets no signals of the program's. */
pgw_status pgw__worker_start(pthread_t *thread, void *(*fn)(void *), void *arg);
bool pgw__worker_is_crowded(const pgw *h); /* its last connect failed for want of a connection */
/* After a call that ended so: does it make sense to send the next one? */
bool pgw__worker_goes_on(pgw_status st);
#define PGW__WORKER_LEAST_CALL_MS 1000 /* however late it is */
/* While the worker is to end, no call takes much longer than there is time. */
void pgw__worker_limit_calls(pgw_worker *w, int64_t ms);
void pgw__worker_heartbeat_wake(pgw_worker *w);

/* With the lock held: */
bool pgw__worker_blocked(const pgw_worker *w); /* the next job prefetched may not start yet */
void pgw__worker_raise(pgw_task *t, int signals);
bool pgw__worker_lose(
    pgw_task *t); /* raises PGW_SIGNAL_LOST, and counts it; false: it was already */
bool pgw__worker_mark_lost(pgw_task *t); /* the same, and the handler is not woken; any thread */
void pgw__worker_drop(pgw_task *t);      /* GONE */
void pgw__worker_clear(pgw_worker *w, const pgw_task *t); /* no longer quarantined, if it was */
void pgw__taskset_put(pgw_worker *w, pgw__taskset *c);
void pgw__taskset_settle(pgw_worker *w, pgw__taskset *c); /* one task less is READY or RUNNING */
void pgw__list_push(pgw__list *l, pgw_task *t);
pgw_task *pgw__list_pop(pgw__list *l);
/* Results join the list `done`. A reader pops each, sets due_at to "never" first, and then takes
 * it or puts it back. */
void pgw__result_add(pgw_worker *w, pgw_task *t, int64_t due_at);
void pgw__result_take(pgw_worker *w, pgw_task *t);
void pgw__result_put_back(pgw_worker *w, pgw_task *t);
/* Puts a result aside for a while, for longer each time; and takes back those that were there long
 * enough, or all. */
void pgw__result_rest(pgw_worker *w, pgw_task *t, int64_t now);
void pgw__result_resume(pgw_worker *w, int64_t now, bool all);

#endif
