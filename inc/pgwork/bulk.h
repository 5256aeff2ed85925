/* SPDX-License-Identifier: PostgreSQL
 *
 * @file pgwork/bulk.h
 * Filters for jobs, lists by filter, and operations on all jobs that match a filter.
 */
#ifndef PGWORK_BULK_H
#define PGWORK_BULK_H

#include <pgwork/handle.h>
#include <pgwork/job.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------- */
/** @name Filters (viewer) @{ */
/* clang-format off */
typedef struct pgw_filter {
    size_t struct_size;
    const char *queue;       /* NULL in a field: any */
    pgw_state state;         /* PGW_STATE_ANY: all */
    const char *kind;
    const char *tag;         /* one of the tags */
    const char *key, *group, *holder;
    const char *error;       /* text in the error, or an error of pgw_dead_errors_each() */
    int64_t created_from_us; /* PGW_NONE: no limit */
    int64_t created_to_us;   /* before this time; PGW_NONE: no limit */
} pgw_filter;
#define PGW_FILTER_INIT {sizeof(pgw_filter), NULL, PGW_STATE_ANY, NULL, NULL, NULL, NULL, NULL, NULL, PGW_NONE, PGW_NONE}
typedef struct pgw_search_opts {
    size_t struct_size;
    const pgw_filter *filter; /* NULL: all jobs */
    int64_t after_id;         /* only higher ids; PGW_NONE: all */
    int limit;                /* 1 .. 100,000 */
} pgw_search_opts;
#define PGW_SEARCH_OPTS_INIT {sizeof(pgw_search_opts), NULL, PGW_NONE, 100}
/* clang-format on */
/**
 * Lists jobs that match a filter, in the order of their ids.
 *
 * @param h      the handle
 * @param opts   which ones; NULL: the defaults
 * @param fn     called for each until it returns non-zero
 * @param arg    its second argument
 * @param go_on  takes the after_id of the next call; PGW_NONE: there are no more jobs. May be NULL
 * @returns
 * - PGW_OK
 * - PGW_OUTCOME_EMPTY: this call found none
 * @note A call searches 100,000 jobs of the queue, state and kind. It checks the other fields of
 * the filter job by job.
 *
 *     static int show(const pgw_job *job, void *arg)
 *     {
 *         return fprintf(arg, "%" PRId64 "\n", pgw_job_id(job)) < 0;
 *     }
 *
 *     pgw_filter f = PGW_FILTER_INIT;
 *     pgw_search_opts o = PGW_SEARCH_OPTS_INIT;
 *     f.queue = "mail", f.tag = "newsletter";
 *     o.filter = &f;
 *     do {
 *         st = pgw_search(h, &o, show, stdout, &o.after_id);
 *     } while (st >= 0 && o.after_id != PGW_NONE);
 */
PGW_API pgw_status pgw_search(pgw *h, const pgw_search_opts *opts,
                              int (*fn)(const pgw_job *job, void *arg), void *arg, int64_t *go_on);

typedef struct pgw_dead_errors {
    size_t struct_size;
    const char *queue, *kind;
    const char *error; /* the last line, numbers and ids masked as "#" */
    int64_t n, first_us, last_us;
    int64_t last_id; /* the newest of these jobs */
} pgw_dead_errors;
/**
 * Counts dead letters by kind and masked error, the most frequent error first.
 *
 * @param h      the handle
 * @param queue  the queue; NULL: all
 * @param fn     called for each until it returns non-zero
 * @param arg    its second argument
 * @returns
 * - PGW_OK
 * - PGW_OUTCOME_EMPTY: there are none
 * @note It reads the newest 100,000 of each queue.
 *
 *     static int show(const pgw_dead_errors *e, void *arg)
 *     {
 *         return fprintf(arg, "%" PRId64 " %s: %s\n", e->n, e->kind, e->error) < 0;
 *     }
 *
 *     st = pgw_dead_errors_each(h, "mail", show, stdout);
 */
PGW_API pgw_status pgw_dead_errors_each(pgw *h, const char *queue,
                                        int (*fn)(const pgw_dead_errors *errors, void *arg),
                                        void *arg);
/** @} */

/* ------------------------------------------------------------------------------------------- */
/** @name Bulk operations (operator) @{ */
/* clang-format off */
typedef enum pgw_bulk_verb {
    PGW_BULK_CANCEL,     /* ready, gated, delayed and leased jobs */
    PGW_BULK_REDRIVE,    /* dead letters */
    PGW_BULK_RESCHEDULE, /* delayed jobs: run_at_us or delay_ms */
    PGW_BULK_PURGE,      /* of the filter's state: ready, gated, delayed, dead, done or cancelled */
    PGW_BULK_MOVE,       /* ready, gated and delayed jobs, and dead letters: to */
    PGW_BULK_PRIORITY    /* the same: priority */
} pgw_bulk_verb;
typedef struct pgw_bulk_opts {
    size_t struct_size;
    pgw_bulk_verb verb;
    const pgw_filter *filter; /* with a queue */
    bool dry_run;             /* only count */
    int64_t limit;            /* at most this many, the oldest first; PGW_UNLIMITED: all */
    const char *to;           /* the target queue */
    int priority;             /* 0 .. 9 */
    int64_t run_at_us;        /* as in pgw_reschedule() */
    int64_t delay_ms;
} pgw_bulk_opts;
#define PGW_BULK_OPTS_INIT {sizeof(pgw_bulk_opts), PGW_BULK_CANCEL, NULL, false, PGW_UNLIMITED, NULL, PGW_DEFAULT, PGW_NONE, 0}
/* clang-format on */
/**
 * Applies one operation to all jobs that match a filter.
 *
 * @param h     the handle
 * @param opts  the operation and the filter
 * @param n     takes the number of jobs, also after a failure; may be NULL
 * @param more  takes true if a dry run stopped before it had read all jobs; may be NULL
 * @returns
 * - PGW_OK
 * - PGW_ENOTFOUND: no such queue
 * - PGW_EPAUSED: the target queue is drained
 * @note It works in batches of 10,000 jobs, as pgw_queue_purge() does. The view `log` gets one row
 * for all batches, with the role. A dry run counts up to a million jobs. Jobs keep their ids. A job
 *   stays if its unique key is taken in the target queue. It cannot be armed.
 *
 *     pgw_filter f = PGW_FILTER_INIT;
 *     pgw_bulk_opts o = PGW_BULK_OPTS_INIT;
 *     bool more;
 *     f.queue = "mail", f.state = PGW_STATE_DEAD, f.error = "connection to # refused";
 *     o.verb = PGW_BULK_REDRIVE, o.filter = &f, o.dry_run = true;
 *     st = pgw_bulk(h, &o, &n, &more);
 *     o.dry_run = false;
 *     if (st == PGW_OK && n < 1000 && !more) st = pgw_bulk(h, &o, &n, NULL);
 */
PGW_API pgw_status pgw_bulk(pgw *h, const pgw_bulk_opts *opts, int64_t *n, bool *more);

typedef struct pgw_log_info {
    size_t struct_size;
    int64_t at_us;
    const char *who, *verb;
    const char *filter, *change; /* JSON */
    int64_t n;
} pgw_log_info;
/**
 * Lists bulk operations of the last 90 days, the newest first.
 *
 * @param h      the handle
 * @param limit  the number of entries, 1..100,000
 * @param fn     called for each until it returns non-zero
 * @param arg    its second argument
 * @returns
 * - PGW_OK
 * - PGW_OUTCOME_EMPTY: there are none
 *
 *     static int show(const pgw_log_info *l, void *arg)
 *     {
 *         return fprintf(arg, "%s: %s %s\n", l->who, l->verb, l->filter) < 0;
 *     }
 *
 *     st = pgw_log_each(h, 10, show, stdout);
 */
PGW_API pgw_status pgw_log_each(pgw *h, int limit, int (*fn)(const pgw_log_info *entry, void *arg),
                                void *arg);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
