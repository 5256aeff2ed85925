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

static inline pgw_status engine1_enqueue(pgw *h, const char *queue, const pgw_new *job,
                                         const char *op, int64_t *id)
{
    return pgw_enqueue(h, id, queue, job, op);
}

static inline pgw_status engine1_complete_and_claim(pgw *h, const pgw_ref *refs, size_t n,
                                                    const pgw_claim_opts *opts,
                                                    pgw_status *outcomes, pgw_batch **batch)
{
    return pgw_complete_and_claim(h, outcomes, refs, n, batch, opts);
}

static inline pgw_status engine1_worker_new(const pgw_conf *conf, const pgw_worker_spec *spec,
                                            pgw_worker **w)
{
    return pgw_worker_new(w, conf, spec->queues, spec->queues_count, spec->work, spec->work_batch,
                          spec->arg);
}

#define pgw_open               engine1_open
#define pgw_enqueue            engine1_enqueue
#define pgw_complete_and_claim engine1_complete_and_claim
#define pgw_worker_new         engine1_worker_new
