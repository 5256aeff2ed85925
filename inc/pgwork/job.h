/* SPDX-License-Identifier: PostgreSQL
 *
 * @file pgwork/job.h
 * Jobs: enqueue, claim, finish, list.
 */
#ifndef PGWORK_JOB_H
#define PGWORK_JOB_H

#include <pgwork/handle.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pgw_job pgw_job;     /* one job as the server returned it; read by accessors */
typedef struct pgw_batch pgw_batch; /* jobs of one claim, in one block of memory */
typedef struct pgw_load pgw_load;   /* a bulk enqueue under way */

/* ------------------------------------------------------------------------------------------- */
/** @name Jobs: references @{ */

/** The fencing token of one claim. The number grows with each claim of a job; the nonce is random.
 * The server compares both. */
typedef struct pgw_token {
    uint64_t number, nonce;
} pgw_token;

/** Names a claimed job, proves that the caller holds it, and takes the outcome of a verb. A plain
 * value. */
typedef struct pgw_ref {
    int64_t id;
    pgw_token token;
    pgw_status outcome; /* output: each verb that takes refs sets it, see pgw_complete() */
} pgw_ref;

/** The state of a job. */
typedef enum pgw_state {
    PGW_STATE_ANY, /* in options: all of them; of a job: not known */
    PGW_STATE_READY,
    PGW_STATE_DELAYED,
    PGW_STATE_GATED, /* waits for its group, a permit or a rate */
    PGW_STATE_LEASED,
    PGW_STATE_DONE,
    PGW_STATE_DEAD,
    PGW_STATE_CANCELLED
} pgw_state;
/**
 * Returns the name of a state, as the server uses it.
 *
 * @param state  any number
 * @returns static text: "ready" for PGW_STATE_READY, "all" for PGW_STATE_ANY; NULL: no such state
 *
 *     pgw_state state;
 *     if (pgw_state_parse("delayed", &state) == PGW_OK) puts(pgw_state_name(state));
 */
PGW_API const char *pgw_state_name(pgw_state state);
/**
 * Parses the name of a state.
 *
 * @param text   "ready", "delayed", "gated", "leased", "done", "dead", "cancelled" or "all"
 * @param state  takes the state
 * @returns
 * - PGW_OK
 * - PGW_EINVAL: no such state
 */
PGW_API pgw_status pgw_state_parse(const char *text, pgw_state *state);

#define PGW_TOKEN_TEXT_SIZE 37 /* bytes for a token as text, with the end */
/**
 * Writes a token as one shell word (a UUID).
 *
 * @param token  the token
 * @param text   takes the text
 * @returns @p text
 *
 *     char text[PGW_TOKEN_TEXT_SIZE];
 *     puts(pgw_token_format(ref.token, text));
 *     if (pgw_token_parse(text, &ref.token) != PGW_OK) puts("not a token");
 */
PGW_API char *pgw_token_format(pgw_token token, char text[PGW_TOKEN_TEXT_SIZE]);
/**
 * Reads a token that pgw_token_format() wrote.
 *
 * @param text   the text
 * @param token  takes the token
 * @returns
 * - PGW_OK
 * - PGW_EINVAL: not a token
 */
PGW_API pgw_status pgw_token_parse(const char *text, pgw_token *token);
/** @} */

/* ------------------------------------------------------------------------------------------- */
/** @name Enqueue @{ */

/** How long a unique key stays taken: until the job has ended, until it is claimed, or for
 * key_period_ms from the enqueue. */
typedef enum pgw_key_scope {
    PGW_KEY_SCOPE_UNFINISHED,
    PGW_KEY_SCOPE_READY,
    PGW_KEY_SCOPE_PERIOD
} pgw_key_scope;
/** What an enqueue does when its unique key is taken. */
typedef enum pgw_key_policy {
    PGW_KEY_POLICY_SKIP,    /* nothing: PGW_OUTCOME_EXISTS */
    PGW_KEY_POLICY_REPLACE, /* replace what key_replace names in the waiting job:
                             * PGW_OUTCOME_REPLACED; if that job runs: PGW_OUTCOME_EXISTS */
    PGW_KEY_POLICY_ERROR,   /* fail: PGW_EEXISTS */
    PGW_KEY_POLICY_DELAY /* debounce: replace payload and time of the waiting job. It runs when no
                          * enqueue has come for delay_ms, and at most key_period_ms after the
                          * first one. A claim frees the key (PGW_KEY_SCOPE_READY). */
} pgw_key_policy;
/** What PGW_KEY_POLICY_REPLACE and PGW_KEY_POLICY_DELAY replace: any of these, combined by `|`. A
 * quarantined job keeps its priority and its time. */
typedef enum pgw_key_replace {
    PGW_KEY_REPLACE_PAYLOAD = 1, /* payload and body */
    PGW_KEY_REPLACE_KIND = 2,
    PGW_KEY_REPLACE_PRIORITY = 4, /* the job goes behind others of its new priority */
    PGW_KEY_REPLACE_TIME = 8      /* when it runs, and when it expires */
} pgw_key_replace;

/** Describes a job to enqueue. */
/* clang-format off */
typedef struct pgw_job_spec {
    size_t struct_size;
    const char *payload;      /* JSON text, NULL: none */
    const char *kind;         /* a name for jobs of this sort, up to 255 bytes; NULL: "" */
    const void *body;         /* opaque bytes beside the payload, NULL: none */
    size_t body_size;
    int priority;             /* 0 (first) .. 9 */
    int64_t run_at_us;        /* not before, server's clock, up to ten years from now; PGW_NONE: at once */
    int64_t delay_ms;         /* or: time from now, up to ten years; not together with run_at_us */
    int max_attempts;         /* 1 .. 1000, or PGW_UNLIMITED; PGW_DEFAULT: those of the queue */
    int64_t lease_ms;         /* 100 .. 86,400,000; PGW_DEFAULT: that of the claim or the queue */
    const char *const *tags;
    size_t tags_count;        /* up to 32, each 1 to 255 bytes */
    const char *key;          /* unique key, 1 to 255 bytes; NULL: none */
    pgw_key_scope key_scope;
    pgw_key_policy key_policy;
    int64_t key_period_ms;    /* for PGW_KEY_SCOPE_PERIOD and PGW_KEY_POLICY_DELAY: 1 ms to a year */
    const char *group;        /* a group, which has a limit: see pgwork/group.h; 1 to 255 bytes; NULL: none */
    int64_t expires_us;       /* not started after this time, server's clock; PGW_NONE: never. See pgw_queue_opts.expired */
    const char *meta;         /* a JSON object that a claim returns, such as a trace context; NULL: none.
                               * "timeout_ms" in it, 1 .. 2,592,000,000: the job's timeout in a worker;
                               * "rate_weight", 1 .. 1,000,000: what it takes from a rate, see rate.h */
    const char *op;           /* operation id, a UUID as text: with it the enqueue can be repeated; NULL: none. It is
                               * remembered for a day (setting `op_retention_ms`) */
    int64_t ttl_ms;           /* or: expires this long after it becomes ready, 1 ms to ten years, not together with
                               * expires_us; PGW_UNLIMITED: never */
    int key_replace;          /* pgw_key_replace, combined; 0: PGW_KEY_REPLACE_PAYLOAD */
} pgw_job_spec;
#define PGW_JOB_SPEC_INIT \
    {sizeof(pgw_job_spec), NULL, NULL, NULL, 0, 0, PGW_NONE, 0, PGW_DEFAULT, PGW_DEFAULT, NULL, 0, NULL, PGW_KEY_SCOPE_UNFINISHED, PGW_KEY_POLICY_SKIP, 0, NULL, PGW_NONE, NULL, NULL, PGW_UNLIMITED, 0}
/* clang-format on */

/**
 * Adds a job. The job exists when the transaction commits.
 *
 * @param h      the handle
 * @param queue  its queue, which is created if the setting `implicit_queues` is on
 * @param job    the job. Texts are UTF-8, without control characters except in payload, body and
 *               meta.
 * @param id     takes the job's id; may be NULL
 * @returns
 * - PGW_OK
 * - PGW_OUTCOME_EXISTS, PGW_OUTCOME_REPLACED: the unique key is taken, see pgw_key_policy; @p id is
 *   the job that has it
 * - PGW_OUTCOME_REPEATED: job->op was used before for this queue; nothing is added, @p id is the
 *   same
 * - PGW_EEXISTS: the unique key is taken
 * - PGW_ELIMIT: payload, body and meta together are over the queue's max_bytes, or the property
 *   `payload.max_bytes`
 * - PGW_EPAUSED: the queue is drained
 * - PGW_ENOTFOUND: no such queue, and `implicit_queues` is off
 *
 *     pgw_job_spec job = PGW_JOB_SPEC_INIT;
 *     job.kind = "resize", job.payload = "{\"file\": \"a.png\"}";
 *     job.meta = "{\"traceparent\": \"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\"}";
 *     job.op = "0b4b5b35-3a4c-4d5f-9a51-0f1e2d3c4b5a"; // a new one for each job
 *     st = pgw_enqueue(h, "images", &job, &id);
 *     if (st >= 0) printf("job %" PRId64 "\n", id);
 */
PGW_API pgw_status pgw_enqueue(pgw *h, const char *queue, const pgw_job_spec *job, int64_t *id);

/** The result for one of many enqueued jobs. */
typedef struct pgw_enqueued {
    int64_t id;
    pgw_status outcome; /* PGW_OK or a PGW_OUTCOME_...; PGW_EUNKNOWN after a failure */
} pgw_enqueued;

/**
 * Adds many jobs in one statement: all or none.
 *
 * @param h        the handle
 * @param queue    their queue
 * @param jobs     the jobs. The scope, policy and period of the unique key, and key_replace, are
 *                 those of the first job. Only the first job may have an operation id, which is
 *                 that of the call.
 * @param n        1..10000
 * @param results  array of n, takes the id and outcome of each job; may be NULL
 * @returns as pgw_enqueue()
 * - PGW_OUTCOME_REPEATED
 * - PGW_OUTCOME_EXISTS, else PGW_OUTCOME_REPLACED: at least one job has this outcome
 * - PGW_EINVAL: also when the operation id was used for another number of jobs
 * @note pgw_error_index() returns which job is refused.
 *
 *     pgw_job_spec jobs[2] = {PGW_JOB_SPEC_INIT, PGW_JOB_SPEC_INIT};
 *     pgw_enqueued results[2];
 *     jobs[0].key = "ann", jobs[1].key = "bob";
 *     st = pgw_enqueue_many(h, "mail", jobs, 2, results);
 *     if (results[1].outcome == PGW_OUTCOME_EXISTS) puts("bob's is there already");
 */
PGW_API pgw_status pgw_enqueue_many(pgw *h, const char *queue, const pgw_job_spec *jobs, size_t n,
                                    pgw_enqueued *results);

/**
 * Begins a bulk enqueue of any number of jobs.
 *
 * @param h      the handle
 * @param queue  the queue of all jobs
 * @param load   takes the load; the caller owns it (free with pgw_load_end)
 * @returns
 * - PGW_OK
 * - PGW_EPAUSED, PGW_ENOTFOUND: as pgw_enqueue(), from here or from a later call
 * @note If the role is the owner of the tables, or a member of that role, the load is a binary COPY
 *   in one transaction. For other roles it is a sequence of pgw_enqueue_many(), each with up to
 *   10,000 jobs or 8 MB in a transaction of its own. Inside an open transaction it is always that
 *   sequence, and part of the transaction. Jobs that were not sent when the transaction ends are
 *   refused (PGW_EMISUSE).
 * @note A handle has one load at a time, and with COPY no other verb until pgw_load_end():
 *   PGW_EMISUSE. After pgw_close() the functions of the load return PGW_ECONN, and jobs that were
 *   not committed are lost.
 * @note A job with a unique key or an operation id is refused (PGW_EINVAL).
 *
 *     pgw_load *load;
 *     pgw_job_spec job = PGW_JOB_SPEC_INIT;
 *     char payload[32];
 *     st = pgw_load_begin(h, "numbers", &load);
 *     for (int i = 0; st == PGW_OK && i < 1000000; i++) {
 *         snprintf(payload, sizeof(payload), "%d", i);
 *         job.payload = payload;
 *         st = pgw_load_add(load, &job);
 *     }
 *     if (st == PGW_OK) st = pgw_load_end(load, true, &n);
 *     else pgw_load_end(load, false, NULL);
 */
PGW_API pgw_status pgw_load_begin(pgw *h, const char *queue, pgw_load **load);
/**
 * Adds a job to a load.
 *
 * @param load  the load
 * @param job   the job
 * @returns
 * - PGW_OK
 * - PGW_EINVAL, PGW_ELIMIT: a field of this job is invalid; the load continues without the job
 * - PGW_EMISUSE: the handle is armed; the job is not added, and the load continues
 * - another error: the load has failed. Every later call returns it, too.
 * @note A fault that only the server finds (a number in the payload that is too large; without COPY
 *   also a job over the queue's max_bytes) is returned by a later call, within 16 MB of jobs or at
 *   the end. pgw_error_index() returns which job it was, except with COPY.
 */
PGW_API pgw_status pgw_load_add(pgw_load *load, const pgw_job_spec *job);
/**
 * Commits a load, or abandons jobs that were not committed, and frees it.
 *
 * @param load   may be NULL
 * @param keep   false: abandon
 * @param added  takes the number of jobs that were added, also after a failure; may be NULL
 * @returns
 * - PGW_OK
 * - PGW_EUNKNOWN: up to 10,000 jobs or 8 MB more than @p added may be added
 * - PGW_EMISUSE: the handle is armed (not with @p keep false); nothing more is committed
 * - the error that made the load fail
 */
PGW_API pgw_status pgw_load_end(pgw_load *load, bool keep, int64_t *added);

/**
 * Removes waiting jobs, and asks running ones to stop.
 *
 * @param h      the handle
 * @param queue  their queue
 * @param refs   the jobs. Only the ids count, not the tokens. The outcome of each becomes PGW_OK
 *               (removed), PGW_OUTCOME_CANCEL (asked to stop) or PGW_ENOTFOUND.
 * @param n      1..10000
 * @returns
 * - PGW_OK
 * - PGW_OUTCOME_CANCEL: at least one runs. Its holder sees the request at its next extend. The job
 *   is removed when it is snoozed, released, requeued, or failed (unless it becomes a dead letter).
 * - PGW_ENOTFOUND: no such queue, or none of the jobs waits or runs
 * @note Needs the role pgwork_producer or pgwork_operator.
 *
 *     ref.id = id;
 *     st = pgw_cancel(h, "mail", &ref, 1);
 *     if (st == PGW_OUTCOME_CANCEL) puts("it runs, and will stop soon");
 */
PGW_API pgw_status pgw_cancel(pgw *h, const char *queue, pgw_ref *refs, size_t n);
/** @} */

/* ------------------------------------------------------------------------------------------- */
/** @name Claim and finish @{ */
/* clang-format off */
typedef struct pgw_claim_opts {
    size_t struct_size;
    const char *const *queues;
    size_t queues_count; /* 1 .. 64 */
    int max;             /* 1 .. 10,000 jobs */
    const char *holder;  /* name of the holder, up to 255 bytes; NULL: property `holder` (host:pid) */
    int64_t lease_ms;    /* 100 .. 86,400,000; PGW_DEFAULT: that of the queue. A lease of the job overrides it */
    int64_t wait_ms;     /* longest wait for a first job; 0: none; PGW_UNLIMITED: until stopped */
    bool apart;           /* jobs will be finished one by one in long transactions */
    bool in_order;        /* the first of the queues that has jobs is served first, whatever their priorities */
} pgw_claim_opts;
#define PGW_CLAIM_OPTS_INIT {sizeof(pgw_claim_opts), NULL, 0, 1, NULL, PGW_DEFAULT, 0, false, false}
/* clang-format on */

/**
 * Claims up to opts->max jobs: the lowest priority number first, then the oldest.
 *
 * @param h      the handle
 * @param opts   names the queues; must not be NULL. The queue with the most urgent first job is
 *               served first; with opts->in_order, the first one in the list that has a ready job.
 *               What it lacks comes from the others, in the same order.
 * @param batch  takes the jobs; the caller owns it (free with pgw_batch_free)
 * @returns
 * - PGW_OK
 * - PGW_OUTCOME_EMPTY: no job is ready, and *batch is NULL. A queue that is paused or does not
 *   exist counts as empty.
 * - PGW_EUNKNOWN, or PGW_ENOMEM after the server has answered: claimed jobs are requeued when their
 *   leases expire
 * - PGW_EMISUSE: opts->wait_ms in a transaction of an opened handle
 * @note Each claim counts as an attempt. A job under a live lease, or before its time, is never
 *   claimed.
 * @note Claim outside of a transaction, because a ROLLBACK undoes the claim.
 * @note The server keeps jobs in batch rows of up to a hundred. A call that finishes one of them
 *   locks the row until its transaction ends, and calls that finish other jobs of the row wait. If
 *   you finish jobs one by one in long transactions, set opts->apart: each job then gets a row of
 *   its own, which costs the server more.
 *
 *     const char *queues[] = {"images", "mail"};
 *     pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;
 *     o.queues = queues, o.queues_count = 2, o.max = 10, o.wait_ms = 5000;
 *     if (pgw_claim(h, &o, &batch) == PGW_OK) {
 *         for (size_t i = 0; i < pgw_batch_count(batch); i++) { // all within their lease,
 *             job = pgw_batch_job(batch, i);                    // or pgw_extend() it
 *             ref = pgw_job_ref(job);
 *             work(pgw_job_payload(job));
 *             st = pgw_complete(h, pgw_job_queue(job), &ref, 1, NULL);
 *             if (st == PGW_ELEASE) work("too late: another worker may have done it");
 *         }
 *         pgw_batch_free(batch);
 *     }
 */
PGW_API pgw_status pgw_claim(pgw *h, const pgw_claim_opts *opts, pgw_batch **batch);
/**
 * Returns when to repeat a claim that found nothing because jobs wait for a rate (pgwork/rate.h).
 *
 * @param h  the handle
 * @returns in how many ms the rate lets a job pass; PGW_UNLIMITED: the last claim of @p h found
 *   jobs, or none waits for a rate only
 *
 *     const char *queues[] = {"mail"};
 *     pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;
 *     o.queues = queues, o.queues_count = 1;
 *     if (pgw_claim(h, &o, &batch) == PGW_OUTCOME_EMPTY && pgw_gated_ms(h) >= 0)
 *         printf("not empty: again in %" PRId64 " ms\n", pgw_gated_ms(h));
 */
PGW_API int64_t pgw_gated_ms(const pgw *h);

/*
 * Finishing verbs. Each takes 1..10000 jobs of one queue with the tokens of their claims, each job
 * once. A job is accepted if and only if its token is the current one, even after its lease has
 * ended. Then refs[i].outcome is:
 *
 *   PGW_OK         accepted
 *   PGW_ELEASE     another claim has the job, or had it since
 *   PGW_ENOTFOUND  the job is finished, cancelled, or never existed
 *   PGW_EUNKNOWN   there is no answer yet, or the whole call has failed: the status of the call
 *                  then says whether it can have been applied
 *
 * On an attached handle, job and the caller's own writes commit together. Roll back after
 * PGW_ELEASE.
 */

typedef struct pgw_complete_opts {
    size_t struct_size;
    const char *const *outputs; /* n results, each JSON or NULL, kept with the job; NULL: none */
} pgw_complete_opts;
/* clang-format off */
#define PGW_COMPLETE_OPTS_INIT {sizeof(pgw_complete_opts), NULL}
/* clang-format on */
/**
 * Completes jobs. The retention of the queue says how long they are kept.
 *
 * @param h      the handle
 * @param queue  their queue
 * @param refs   jobs and tokens. The outcome of each becomes PGW_OK (accepted), PGW_ELEASE (another
 *               claim has the job, or had it since) or PGW_ENOTFOUND (finished, cancelled, or never
 *               existed).
 * @param n      1..10000
 * @param opts   outputs; NULL: the defaults
 * @returns
 * - PGW_OK: all were accepted
 * - PGW_ELEASE: at least one was refused; the others are done
 * - PGW_ENOTFOUND: no such queue
 * - PGW_ELIMIT: an output is over `payload.max_bytes`
 *
 *     const char *output = "{\"bytes\": 7}";
 *     pgw_complete_opts o = PGW_COMPLETE_OPTS_INIT;
 *     o.outputs = &output;
 *     if (pgw_complete(h, "images", &ref, 1, &o) == PGW_ELEASE)
 *         puts(ref.outcome == PGW_ENOTFOUND ? "it is gone" : "another worker has it");
 */
PGW_API pgw_status pgw_complete(pgw *h, const char *queue, pgw_ref *refs, size_t n,
                                const pgw_complete_opts *opts);

/* clang-format off */
typedef struct pgw_fail_opts {
    size_t struct_size;
    const char *error; /* text kept with the job, cut at 8,000 bytes; what is not UTF-8 becomes "?" */
    int64_t retry_ms;  /* delay of the next attempt, up to a year; PGW_DEFAULT: the exponential backoff of the queue, with full jitter */
    bool dead;         /* true: a dead letter at once */
} pgw_fail_opts;
#define PGW_FAIL_OPTS_INIT {sizeof(pgw_fail_opts), NULL, PGW_DEFAULT, false}
/* clang-format on */
/**
 * Fails jobs. They run again later, or become dead letters after their last attempt.
 *
 * @param h      the handle
 * @param queue  their queue
 * @param refs   jobs and tokens; takes their outcomes, as in pgw_complete()
 * @param n      1..10000
 * @param opts   error text and when to try again; NULL: the defaults
 * @returns as pgw_complete()
 *
 *     pgw_fail_opts o = PGW_FAIL_OPTS_INIT;
 *     o.error = "no such file", o.dead = true;
 *     pgw_fail(h, "images", &ref, 1, &o);
 */
PGW_API pgw_status pgw_fail(pgw *h, const char *queue, pgw_ref *refs, size_t n,
                            const pgw_fail_opts *opts);

typedef struct pgw_snooze_opts {
    size_t struct_size;
    int64_t delay_ms; /* from now, up to ten years. Default: a second. */
} pgw_snooze_opts;
/* clang-format off */
#define PGW_SNOOZE_OPTS_INIT {sizeof(pgw_snooze_opts), 1000}
/* clang-format on */
/**
 * Delays jobs. The attempt is not counted.
 *
 * @param h      the handle
 * @param queue  their queue
 * @param refs   jobs and tokens; takes their outcomes, as in pgw_complete()
 * @param n      1..10000
 * @param opts   the delay; NULL: the defaults
 * @returns as pgw_complete()
 *
 *     pgw_snooze_opts o = PGW_SNOOZE_OPTS_INIT;
 *     o.delay_ms = 3600 * 1000;
 *     if (getenv("AT_NIGHT_ONLY")) pgw_snooze(h, "images", &ref, 1, &o);
 *     else pgw_release(h, "images", &ref, 1);
 */
PGW_API pgw_status pgw_snooze(pgw *h, const char *queue, pgw_ref *refs, size_t n,
                              const pgw_snooze_opts *opts);

typedef struct pgw_hold_opts {
    size_t struct_size;
    int64_t for_ms;     /* from now, up to ten years. Default: a second. */
    const char *reason; /* for operators, cut at 1,000 bytes; NULL: none */
} pgw_hold_opts;
/* clang-format off */
#define PGW_HOLD_OPTS_INIT {sizeof(pgw_hold_opts), 1000, NULL}
/* clang-format on */
/**
 * Delays jobs and holds their queue for the same time, in one transaction. While a queue is held,
 * no job of it is claimed. Use it for a service that answers "too many requests, retry after 30 s".
 * No attempt is counted. If the queue is already held for longer, that end counts.
 *
 * @param h      the handle
 * @param queue  their queue
 * @param refs   jobs and tokens; takes their outcomes, as in pgw_complete()
 * @param n      1..10000
 * @param opts   the time and the reason; NULL: the defaults
 * @returns as pgw_complete(), and
 * - PGW_ELOCKED: an open transaction has changed the queue; nothing was done
 * @note If all jobs are refused, the queue is not held. pgw_queue_unhold() ends a hold.
 *
 *     pgw_hold_opts o = PGW_HOLD_OPTS_INIT;
 *     o.for_ms = 30000, o.reason = "429 from the API";
 *     if (getenv("TOO_MANY")) pgw_hold(h, "images", &ref, 1, &o);
 */
PGW_API pgw_status pgw_hold(pgw *h, const char *queue, pgw_ref *refs, size_t n,
                            const pgw_hold_opts *opts);
/**
 * Requeues jobs that were not started, behind waiting jobs of their priority. The attempt is not
 * counted.
 *
 * @param h      the handle
 * @param queue  their queue
 * @param refs   jobs and tokens; takes their outcomes, as in pgw_complete()
 * @param n      1..10000
 * @returns as pgw_complete()
 */
PGW_API pgw_status pgw_release(pgw *h, const char *queue, pgw_ref *refs, size_t n);

typedef struct pgw_extend_opts {
    size_t struct_size;
    int64_t lease_ms; /* from now, 100 .. 86,400,000; PGW_DEFAULT: that of the job or its queue */
} pgw_extend_opts;
/* clang-format off */
#define PGW_EXTEND_OPTS_INIT {sizeof(pgw_extend_opts), PGW_DEFAULT}
/* clang-format on */
/**
 * Extends leases.
 *
 * @param h      the handle
 * @param queue  their queue
 * @param refs   jobs and tokens; takes their outcomes, as in pgw_complete(), and
 *               PGW_OUTCOME_CANCEL: extended, but the job was cancelled: stop; PGW_ELOCKED:
 *               another transaction has locked the job
 * @param n      1..10000
 * @param opts   the new lease; NULL: the defaults
 * @returns
 * - PGW_OK: all were accepted
 * - PGW_ELEASE: at least one was refused
 * - PGW_ELOCKED: none was refused, and at least one is locked. It is not extended, but nobody else
 *   can claim it while it is locked: call again before the lease ends.
 * - PGW_ENOTFOUND: no such queue
 * @note It never waits for a transaction that has locked a job.
 *
 *     pgw_extend_opts o = PGW_EXTEND_OPTS_INIT;
 *     o.lease_ms = 60000;
 *     st = pgw_extend(h, "images", &ref, 1, &o);
 *     if (st == PGW_ELEASE || ref.outcome == PGW_OUTCOME_CANCEL) work("stop");
 *     else if (st != PGW_OK) work("a little more, and ask again");
 */
PGW_API pgw_status pgw_extend(pgw *h, const char *queue, pgw_ref *refs, size_t n,
                              const pgw_extend_opts *opts);

/**
 * Stores the progress of a job, for people and for its next attempt. It stays when the job is
 * requeued, and is deleted some time after the job.
 *
 * @param h         the handle
 * @param queue     its queue
 * @param ref       job and token; takes the outcome, as in pgw_extend()
 * @param progress  JSON text of up to 64 KB; NULL: forget it
 * @returns
 * - PGW_OK
 * - PGW_ELEASE: refused, nothing was changed
 * - PGW_ELOCKED: another transaction has locked the job; nothing was changed
 * - PGW_ENOTFOUND: no such queue
 * - PGW_EINVAL, PGW_ELIMIT: not JSON, or too long
 * @note A handler of a worker calls pgw_task_progress() instead, which does not wait.
 *
 *     st = pgw_progress(h, "images", &ref, "{\"done\": 40, \"of\": 100}");
 *     if (st == PGW_ELEASE) work("stop");
 */
PGW_API pgw_status pgw_progress(pgw *h, const char *queue, pgw_ref *ref, const char *progress);
/**
 * Reads the last progress of a job, also that of an earlier attempt.
 *
 * @param h      the handle
 * @param queue  its queue
 * @param id     the job
 * @param job    takes a batch of one, to free with pgw_batch_free(), for pgw_job_progress() alone
 * @returns
 * - PGW_OK
 * - PGW_OUTCOME_EMPTY: nothing was reported, and *job is NULL
 * - PGW_ENOTFOUND: no such queue
 *
 *     st = pgw_progress_read(h, "images", ref.id, &batch);
 *     if (st == PGW_OK) work(pgw_job_progress(pgw_batch_job(batch, 0)));
 *     pgw_batch_free(batch);
 */
PGW_API pgw_status pgw_progress_read(pgw *h, const char *queue, int64_t id, pgw_batch **job);

/**
 * Completes jobs and claims others in one round trip and one transaction.
 *
 * @param h      the handle
 * @param refs   jobs and tokens; takes the outcomes of the completion, as in pgw_complete()
 * @param n      0..10000
 * @param opts   one queue, and wait_ms 0
 * @param batch  takes the claimed jobs, as in pgw_claim()
 * @returns as pgw_claim()
 * - PGW_ENOTFOUND: no such queue
 * @note If the claim fails, the completion is undone, too, and all outcomes are PGW_EUNKNOWN: then
 *   call pgw_complete(). If PGW_ENOMEM follows the answer, both are applied, and the claimed jobs
 *   are requeued when their leases expire.
 *
 *     const char *queue = "images";
 *     pgw_claim_opts o = PGW_CLAIM_OPTS_INIT;
 *     o.queues = &queue, o.queues_count = 1;
 *     st = pgw_complete_and_claim(h, &ref, 1, &o, &batch);
 */
PGW_API pgw_status pgw_complete_and_claim(pgw *h, pgw_ref *refs, size_t n,
                                          const pgw_claim_opts *opts, pgw_batch **batch);

/**
 * Returns the number of jobs in a batch.
 *
 * @param batch  may be NULL
 * @returns the number; 0 if @p batch is NULL
 */
PGW_API size_t pgw_batch_count(const pgw_batch *batch);
/**
 * Returns a job.
 *
 * @param batch  the batch
 * @param i      0..count-1
 * @returns borrowed until pgw_batch_free(); NULL: @p i is out of range
 */
PGW_API const pgw_job *pgw_batch_job(const pgw_batch *batch, size_t i);
/**
 * Frees a batch and its jobs.
 *
 * @param batch  may be NULL
 */
PGW_API void pgw_batch_free(pgw_batch *batch);

/**
 * Return the fields of a job. Payload and meta are JSON text. The first attempt is 1. max_attempts
 * is PGW_UNLIMITED if failures never make the job a dead letter, and 0 if the job is done or
 * cancelled. lease_until_us is PGW_NONE if it is not leased.
 *
 * @param job   if it is NULL, every accessor returns 0 or NULL
 * @param size  takes the number of bytes; may be NULL
 * @param i     0..count-1; NULL is returned for any other
 * @returns the field; strings are borrowed as long as the job lives; NULL: there is none
 *
 *     size_t size;
 *     const char *body = pgw_job_body(job, &size);
 *     printf("%" PRId64 " %s, priority %d, attempt %d of %d, %zu bytes: %.*s\n", pgw_job_id(job),
 *            pgw_job_kind(job), pgw_job_priority(job), pgw_job_attempt(job),
 *            pgw_job_max_attempts(job), size, (int)size, body != NULL ? body : "");
 *     if (pgw_job_meta(job) != NULL) printf("meta %s\n", pgw_job_meta(job));
 *     for (size_t i = 0; i < pgw_job_tags_count(job); i++) puts(pgw_job_tag(job, i));
 *     printf("%" PRId64 " ms\n", (pgw_job_lease_until_us(job) - pgw_job_created_us(job)) / 1000);
 */
PGW_API int64_t pgw_job_id(const pgw_job *job);
PGW_API pgw_ref pgw_job_ref(const pgw_job *job);
PGW_API const char *pgw_job_queue(const pgw_job *job);
PGW_API const char *pgw_job_kind(const pgw_job *job);
PGW_API const char *pgw_job_payload(const pgw_job *job);
PGW_API const char *pgw_job_meta(const pgw_job *job);
PGW_API const void *pgw_job_body(const pgw_job *job, size_t *size);
PGW_API int pgw_job_priority(const pgw_job *job);
PGW_API int pgw_job_attempt(const pgw_job *job);
PGW_API int pgw_job_max_attempts(const pgw_job *job);
PGW_API size_t pgw_job_tags_count(const pgw_job *job);
PGW_API const char *pgw_job_tag(const pgw_job *job, size_t i);
PGW_API int64_t pgw_job_created_us(const pgw_job *job);
PGW_API int64_t pgw_job_lease_until_us(const pgw_job *job);
/**
 * Return more fields of a job from pgw_jobs_each(). Its ref has no token.
 *
 * @param job  as above
 * @returns the field. The state of a job from a claim is PGW_STATE_ANY. run_at_us is PGW_NONE
 *   unless the job is delayed, expires_us if it has none. payload_hidden: payload, output, meta
 *   and progress are NULL because the role is pgwork_viewer and the queue does not show them.
 *
 *     if (pgw_job_payload_hidden(job)) puts("set payload_visible on the queue to see it");
 *     if (pgw_job_progress(job) != NULL) puts(pgw_job_progress(job));
 */
PGW_API pgw_state pgw_job_state(const pgw_job *job);
PGW_API const char *pgw_job_holder(const pgw_job *job);
PGW_API const char *pgw_job_error(const pgw_job *job);
PGW_API const char *pgw_job_key(const pgw_job *job);
PGW_API const char *pgw_job_group(const pgw_job *job);
PGW_API int64_t pgw_job_expires_us(const pgw_job *job);
PGW_API const char *pgw_job_output(const pgw_job *job);
PGW_API const char *pgw_job_progress(const pgw_job *job);
PGW_API bool pgw_job_payload_hidden(const pgw_job *job);
PGW_API int64_t pgw_job_run_at_us(const pgw_job *job);
PGW_API int64_t pgw_job_finished_us(const pgw_job *job);
/** @} */

/* ------------------------------------------------------------------------------------------- */
/** @name Jobs for operators @{ */
/* clang-format off */
typedef struct pgw_jobs_opts {
    size_t struct_size;
    const char *queue; /* NULL: all */
    pgw_state state;   /* PGW_STATE_ANY: all */
    const char *kind;  /* NULL: all */
    int64_t id;        /* only this one; PGW_NONE: all */
    int limit;         /* 1 .. 100,000 */
    int64_t after_id;  /* PGW_NONE: from the first; else after this id, which need not exist */
} pgw_jobs_opts;
#define PGW_JOBS_OPTS_INIT {sizeof(pgw_jobs_opts), NULL, PGW_STATE_ANY, NULL, PGW_NONE, 100, PGW_NONE}
/* clang-format on */
/**
 * Lists jobs in the order of their ids, which is the order of their enqueues.
 *
 * @param h     the handle
 * @param opts  which ones; NULL: the defaults
 * @param fn    called for each until it returns non-zero. Of a body it sees only the size.
 * @param arg   its second argument
 * @returns
 * - PGW_OK
 * - PGW_OUTCOME_EMPTY: there is none
 * @note For the next page set opts->after_id to the last id of the page before. A job keeps its id,
 *   so a job that exists all the time is on exactly one page.
 * @note A page, or one id, costs the same with millions of jobs. A list by kind, or by a rare
 *   state, reads all jobs after after_id. With a queue it costs less.
 *
 *     static int show(const pgw_job *job, void *arg)
 *     {
 *         int64_t *last = arg;
 *         const char *holder = pgw_job_holder(job), *key = pgw_job_key(job);
 *         const char *error = pgw_job_error(job), *output = pgw_job_output(job);
 *         int64_t age_us = pgw_job_finished_us(job) - pgw_job_created_us(job);
 *         *last = pgw_job_id(job);
 *         printf("%s %" PRId64 " %" PRId64 " ", pgw_state_name(pgw_job_state(job)), age_us,
 *                pgw_job_run_at_us(job));
 *         printf("%s %s ", holder != NULL ? holder : "-", key != NULL ? key : "-");
 *         if (pgw_job_group(job) != NULL) printf("group %s ", pgw_job_group(job));
 *         if (pgw_job_expires_us(job) != 0) printf("until %" PRId64 " ", pgw_job_expires_us(job));
 *         return printf("%s\n", error != NULL ? error : output != NULL ? output : "") < 0;
 *     }
 *
 *     pgw_jobs_opts o = PGW_JOBS_OPTS_INIT;
 *     int64_t last = 0;
 *     o.queue = "mail", o.state = PGW_STATE_DEAD;
 *     do {
 *         o.after_id = last;
 *         st = pgw_jobs_each(h, &o, show, &last);
 *     } while (st == PGW_OK);
 */
PGW_API pgw_status pgw_jobs_each(pgw *h, const pgw_jobs_opts *opts,
                                 int (*fn)(const pgw_job *job, void *arg), void *arg);
/* clang-format off */
typedef struct pgw_attempts_opts {
    size_t struct_size;
    const char *queue; /* of the job, which is faster; NULL: any */
    int64_t id;        /* the job */
} pgw_attempts_opts;
#define PGW_ATTEMPTS_OPTS_INIT {sizeof(pgw_attempts_opts), NULL, PGW_NONE}
/* clang-format on */
/** An attempt that did not complete its job. */
typedef struct pgw_attempt_info {
    size_t struct_size;
    int attempt; /* a redrive begins again at 1 */
    int64_t ended_us;
    const char *ended;          /* "failed", "dead": failed for good, "lost": its lease expired,
                                 * "cancelled" */
    const char *holder, *error; /* NULL: none; the error is cut at 2,000 bytes */
} pgw_attempt_info;
/**
 * Lists attempts of a job that did not complete it, the oldest first.
 *
 * @param h     the handle
 * @param opts  which job
 * @param fn    called for each until it returns non-zero
 * @param arg   its second argument
 * @returns
 * - PGW_OK
 * - PGW_OUTCOME_EMPTY: there is none
 * @note The last 25 are kept as long as the job, a dead letter, or a finished job that is kept. The
 *   reaper deletes them some time later. Snoozed and released jobs have made no attempt.
 *
 *     static int show(const pgw_attempt_info *a, void *arg)
 *     {
 *         return fprintf(arg, "%d %s: %s\n", a->attempt, a->ended, a->error ? a->error : "-") < 0;
 *     }
 *
 *     pgw_attempts_opts o = PGW_ATTEMPTS_OPTS_INIT;
 *     o.queue = "mail", o.id = id;
 *     st = pgw_attempts_each(h, &o, show, stdout);
 */
PGW_API pgw_status pgw_attempts_each(pgw *h, const pgw_attempts_opts *opts,
                                     int (*fn)(const pgw_attempt_info *attempt, void *arg),
                                     void *arg);
/* clang-format off */
typedef struct pgw_reschedule_opts {
    size_t struct_size;
    const int64_t *ids; /* these, up to 10,000; NULL: all */
    size_t ids_count;   /* 0: none, if ids is not NULL */
    const char *kind;   /* of these only this kind; NULL: any */
    int64_t run_at_us;  /* not before, server's clock, up to ten years from now; PGW_NONE, or past: at once */
    int64_t delay_ms;   /* or: this long from now, up to ten years; not together with run_at_us */
    int64_t limit;      /* at most this many, in the order of their ids; PGW_UNLIMITED: all */
} pgw_reschedule_opts;
#define PGW_RESCHEDULE_OPTS_INIT {sizeof(pgw_reschedule_opts), NULL, 0, NULL, PGW_NONE, 0, PGW_UNLIMITED}
/* clang-format on */
/**
 * Gives delayed jobs another time: jobs that were enqueued with a delay, snoozed, or wait for their
 * next attempt. The number of attempts does not change.
 *
 * @param h      the handle
 * @param queue  their queue
 * @param opts   which ones, and when; NULL: all, at once
 * @param moved  takes how many; may be NULL
 * @returns
 * - PGW_OK
 * - PGW_ENOTFOUND: no such queue
 * @note It works in pieces, as pgw_queue_purge() does. No job is moved twice in one call, even if
 *   it fails again meanwhile.
 *
 *     st = pgw_reschedule(h, "mail", NULL, &n); // the relay is back: nobody waits any longer
 */
PGW_API pgw_status pgw_reschedule(pgw *h, const char *queue, const pgw_reschedule_opts *opts,
                                  int64_t *moved);
/* clang-format off */
typedef struct pgw_redrive_opts {
    size_t struct_size;
    const int64_t *ids; /* these, up to 10,000; NULL: all */
    size_t ids_count;   /* an empty list names none */
    const char *kind;   /* of these only this kind; NULL: any */
    int64_t limit;      /* at most this many; PGW_UNLIMITED: all */
} pgw_redrive_opts;
#define PGW_REDRIVE_OPTS_INIT {sizeof(pgw_redrive_opts), NULL, 0, NULL, PGW_UNLIMITED}
/* clang-format on */
/**
 * Makes dead letters ready again, with a new count of attempts. Their unique keys stay free.
 *
 * @param h      the handle
 * @param queue  their queue
 * @param opts   which ones; NULL: all
 * @param moved  takes how many; may be NULL
 * @returns
 * - PGW_OK
 * - PGW_ENOTFOUND: no such queue
 * @note It works in pieces, as pgw_queue_purge().
 *
 *     pgw_redrive_opts o = PGW_REDRIVE_OPTS_INIT;
 *     o.kind = "newsletter", o.limit = 1000;
 *     st = pgw_redrive(h, "mail", &o, &n);
 */
PGW_API pgw_status pgw_redrive(pgw *h, const char *queue, const pgw_redrive_opts *opts,
                               int64_t *moved);
/* clang-format off */
typedef struct pgw_dead_purge_opts {
    size_t struct_size;
    const int64_t *ids;    /* these, up to 10,000; NULL: all */
    size_t ids_count;      /* an empty list names none */
    const char *kind;      /* of these only this kind; NULL: any */
    int64_t older_than_ms; /* dead for longer than this; up to ten years */
} pgw_dead_purge_opts;
#define PGW_DEAD_PURGE_OPTS_INIT {sizeof(pgw_dead_purge_opts), NULL, 0, NULL, 0}
/* clang-format on */
/**
 * Deletes dead letters.
 *
 * @param h        the handle
 * @param queue    their queue
 * @param opts     which ones; NULL: all
 * @param deleted  takes how many; may be NULL
 * @returns
 * - PGW_OK
 * - PGW_ENOTFOUND: no such queue
 * @note It works in pieces, as pgw_queue_purge().
 *
 *     pgw_dead_purge_opts o = PGW_DEAD_PURGE_OPTS_INIT;
 *     o.older_than_ms = INT64_C(30) * 86400 * 1000;
 *     st = pgw_dead_purge(h, "mail", &o, &n);
 */
PGW_API pgw_status pgw_dead_purge(pgw *h, const char *queue, const pgw_dead_purge_opts *opts,
                                  int64_t *deleted);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
