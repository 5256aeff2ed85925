/* The interface of the first engine (commit a915381) under the names of now, so that the programs
 * here can be built with its library: `cc -include bench/engine1.h`. Only for comparisons. */
#include <pgwork.h>

#define PGW_VERDICT_DONE  PGW_DONE
#define PGW_OUTCOME_EMPTY PGW_EMPTY
#define pgw_job_spec      pgw_new
#define PGW_JOB_SPEC_INIT PGW_NEW_INIT

typedef struct pgw_worker_spec {
    size_t struct_size;
    const char *const *queues;
    size_t queues_count;
    pgw_handler_fn *work;
    pgw_batch_fn *work_batch;
    void *arg;
} pgw_worker_spec;

static inline pgw_status engine1_open(const pgw_conf *conf, pgw **h)
{
    return pgw_open(h, conf);
}

static inline pgw_status engine1_enqueue(pgw *h, const char *queue, const pgw_new *job, int64_t *id)
{
    return pgw_enqueue(h, id, queue, job, NULL);
}

typedef struct engine1_ref {
    int64_t id;
    pgw_token token;
    pgw_status outcome;
} engine1_ref;

static inline engine1_ref engine1_job_ref(const pgw_job *job)
{
    const pgw_ref ref = pgw_job_ref(job);

    return (engine1_ref){ref.id, ref.token, PGW_OK};
}

static inline pgw_status engine1_complete_and_claim(pgw *h, engine1_ref *refs, size_t n,
                                                    const pgw_claim_opts *opts, pgw_batch **batch)
{
    static pgw_ref plain[10000];
    static pgw_status outcomes[10000];
    pgw_status st;

    for (size_t i = 0; i < n; i++) plain[i] = (pgw_ref){refs[i].id, refs[i].token};
    st = pgw_complete_and_claim(h, outcomes, plain, n, batch, opts);
    for (size_t i = 0; i < n; i++) refs[i].outcome = outcomes[i];
    return st;
}

static inline pgw_status engine1_worker_new(const pgw_conf *conf, const pgw_worker_spec *spec,
                                            pgw_worker **w)
{
    return pgw_worker_new(w, conf, spec->queues, spec->queues_count, spec->work, spec->work_batch,
                          spec->arg);
}

#define pgw_open               engine1_open
#define pgw_ref                engine1_ref
#define pgw_job_ref            engine1_job_ref
#define pgw_enqueue            engine1_enqueue
#define pgw_complete_and_claim engine1_complete_and_claim
#define pgw_worker_new         engine1_worker_new
