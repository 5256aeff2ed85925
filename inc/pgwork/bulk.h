/* SPDX-License-Identifier: PostgreSQL
 *
 * @file pgwork/bulk.h
 * One filter for lists and for operations on many jobs.
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
typedef struct pgw_filter {
    size_t struct_size;
    const char *queue, *state, *kind; /* NULL in any field: whatever it is */
    const char *tag;                  /* one of its tags */
    const char *key, *group, *holder;
    const char *error; /* its error contains this, or is of this sort: pgw_dead_errors_each() */
    int64_t created_from_us; /* 0: whenever */
    int64_t created_to_us;   /* before this time */
} pgw_filter;
#define PGW_FILTER_INIT                                                          \
    {                                                                            \
        sizeof(pgw_filter), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0 \
    }
/**
 * Lists jobs that fit a filter, in the order of their ids.
 *
 * @param h         the handle
 * @param filter    which ones
 * @param after_id  behind this one; 0: from the first
 * @param limit     at most so many, 1 .. 100,000
 * @param fn        called for each until it returns non-zero
 * @param arg       its second argument
 * @param go_on     takes the id behind which there are more to look at; 0: that was all. May be
 * NULL
 * @returns
 * - PGW_OK
 * - PGW_OUTCOME_EMPTY: there is none among those it looked at
 * @note Queue, state and kind are found by pgw_jobs_each(). Everything else is looked for among
 *   these, 100,000 at a call.
 *
 *     static int show(const pgw_job *job, void *arg)
 *     {
 *         return fprintf(arg, "%" PRId64 "\n", pgw_job_id(job)) < 0;
 *     }
 *
 *     pgw_filter f = PGW_FILTER_INIT;
 *     int64_t after = 0;
 *     f.queue = "mail", f.tag = "newsletter";
 *     do {
 *         st = pgw_search(h, &f, after, 100000, show, stdout, &after);
 *     } while (st >= 0 && after > 0);
 */
PGW_API pgw_status pgw_search(pgw *h, const pgw_filter *filter, int64_t after_id, int limit,
                              int (*fn)(const pgw_job *job, void *arg), void *arg, int64_t *go_on);

typedef struct pgw_dead_errors {
    size_t struct_size;
    const char *queue, *kind;
    const char *error; /* the last line, numbers and ids masked as "#" */
    int64_t n, first_us, last_us;
    int64_t last_id; /* a job to look at */
} pgw_dead_errors;
/**
 * Groups dead letters by kind and sort of error, the largest group first.
 *
 * @param h      the handle
 * @param queue  of this one; NULL: of all
 * @param fn     called for each until it returns non-zero
 * @param arg    its second argument
 * @returns
 * - PGW_OK
 * - PGW_OUTCOME_EMPTY: there are none
 * @note It looks at the newest 100,000 of each queue.
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
typedef struct pgw_bulk_opts {
    size_t struct_size;
    bool dry_run;      /* only count */
    int64_t limit;     /* at most so many; 0: all */
    const char *to;    /* "move": the other queue */
    int priority;      /* "priority": 0 .. 9 */
    int64_t run_at_us; /* "reschedule": as in pgw_reschedule() */
    int64_t delay_ms;
} pgw_bulk_opts;
#define PGW_BULK_OPTS_INIT                                       \
    {                                                            \
        sizeof(pgw_bulk_opts), false, 0, NULL, PGW_DEFAULT, 0, 0 \
    }
/**
 * Does something to all jobs that fit a filter.
 *
 * @param h       the handle
 * @param verb    "cancel": ready, delayed and leased jobs; "redrive": dead letters; "reschedule":
 *   delayed jobs; "purge": ready, delayed, dead or finished jobs, as filter->state says; "move" to
 *   another queue, or give another "priority": ready and delayed jobs and dead letters
 * @param filter  which ones; the queue must be given
 * @param opts    how
 * @param n       takes how many, also after a failure; may be NULL
 * @param more    takes whether a dry run ended before it had looked at all; may be NULL
 * @returns
 * - PGW_OK
 * - PGW_ENOTFOUND: no such queue
 * - PGW_EPAUSED: the other queue is drained
 * @note It works in slices of 10,000, as pgw_queue_purge(); each is a row in the view `log`, with
 *   the role that did it. A dry run counts up to a million jobs. Jobs keep their ids. A job whose
 *   unique key is taken in the other queue stays. Cannot be armed.
 *
 *     pgw_filter f = PGW_FILTER_INIT;
 *     pgw_bulk_opts o = PGW_BULK_OPTS_INIT;
 *     bool more;
 *     f.queue = "mail", f.state = "dead", f.error = "connection to # refused";
 *     o.dry_run = true;
 *     st = pgw_bulk(h, "redrive", &f, &o, &n, &more);
 *     o.dry_run = false;
 *     if (st == PGW_OK && n < 1000 && !more) st = pgw_bulk(h, "redrive", &f, &o, &n, NULL);
 */
PGW_API pgw_status pgw_bulk(pgw *h, const char *verb, const pgw_filter *filter,
                            const pgw_bulk_opts *opts, int64_t *n, bool *more);

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
 * @param limit  at most so many, 1 .. 100,000
 * @param fn     called for each until it returns non-zero
 * @param arg    its second argument
 * @returns
 * - PGW_OK
 * - PGW_OUTCOME_EMPTY: there is none
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
