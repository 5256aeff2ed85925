/* The server in memory: see fake_server.h. Longer than 600 lines: one lock and one list of jobs for
 * all verbs that a worker uses. */
#include "fake_server.h"

#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "clock.h"
#include "conf.h"
#include "handle.h"
#include "pq.h"
#include "status.h"

#define JOBS_MAX   100001 /* job 0 is none, nor is claim 0 */
#define CLAIMS_MAX 200001

struct pgw_job {
    int64_t id;
    char queue[32], error[512], output[128], kind[32], meta[64];
    int64_t delay_ms; /* until it comes back, as its last finishing verb said */
    int64_t lease_ms, lease_until_us;
    uint64_t token;
    int claim;
    int attempt, finishes, canceled, locked, stalls;
    bool quarantined;
    pgw_status stalled;
    fake_state state;
};

struct pgw_batch {
    size_t n;
    int64_t since_us;
    pgw_job jobs[];
};

struct pgw {
    pgw_conf *conf;
    pgw_stop *stop;
    bool heeded;
    pgw_done_fn *armed, *done;
    void *armed_arg;
    struct { /* an extend that is under way */
        const char *queue;
        pgw_ref *refs;
        size_t n;
    } asked;
    pgw_status status;
    char message[256], sqlstate[6];
    uint64_t epoch;
    int64_t limit_ms;
    int alive;
};

static struct {
    pthread_mutex_t lock;
    pgw_job jobs[JOBS_MAX]; /* by id */
    int64_t last, first_ready;
    uint64_t tokens;
    int calls[FAKE_VERBS];
    int claims, parts, together;
    int open[CLAIMS_MAX]; /* of a claim: jobs that are not finished */
    struct {
        pgw_status st;
        int times, applied;
    } fails[FAKE_VERBS];
    char poison[128];
    int max_attempts;
    bool read_only;
    int64_t late_ms, slow_ms;
    atomic_bool hangs;
    void (*on_complete)(void);
    _Atomic int64_t frozen_us;
} srv = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- the test's side ---- */

static int64_t fake_clock_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000 + atomic_load(&srv.frozen_us);
}

void fake_reset(void)
{
    pthread_mutex_lock(&srv.lock);
    memset(srv.jobs, 0, sizeof(srv.jobs[0]) * (size_t)(srv.last + 1));
    memset(srv.calls, 0, sizeof(srv.calls));
    srv.claims = srv.parts = srv.together = 0;
    memset(srv.fails, 0, sizeof(srv.fails));
    srv.last = 0;
    srv.first_ready = 1;
    srv.poison[0] = '\0';
    srv.max_attempts = 0;
    srv.read_only = false;
    srv.late_ms = srv.slow_ms = 0;
    atomic_store(&srv.hangs, false);
    srv.on_complete = NULL;
    atomic_store(&srv.frozen_us, 0);
    /* a handler that a test has left behind may read it */
    if (pgw__clock_source_us != fake_clock_us) pgw__clock_source_us = fake_clock_us;
    pthread_mutex_unlock(&srv.lock);
}

void fake_max_attempts(int n)
{
    srv.max_attempts = n;
}

void fake_jobs(const char *queue, int n, int64_t lease_ms)
{
    pthread_mutex_lock(&srv.lock);
    while (n-- > 0) {
        pgw_job *j = &srv.jobs[++srv.last];

        assert(srv.last < JOBS_MAX);
        j->id = srv.last;
        j->lease_ms = lease_ms;
        j->state = FAKE_READY;
        snprintf(j->queue, sizeof(j->queue), "%s", queue);
    }
    pthread_mutex_unlock(&srv.lock);
}

void fake_kind(int64_t first, int64_t last, const char *kind, const char *meta)
{
    pthread_mutex_lock(&srv.lock);
    for (int64_t id = first; id <= last; id++) {
        snprintf(srv.jobs[id].kind, sizeof(srv.jobs[id].kind), "%s", kind);
        snprintf(srv.jobs[id].meta, sizeof(srv.jobs[id].meta), "%s", meta != NULL ? meta : "");
    }
    pthread_mutex_unlock(&srv.lock);
}

static void fake_delays(const pgw_ref *refs, size_t n, int64_t delay_ms)
{
    pthread_mutex_lock(&srv.lock);
    for (size_t i = 0; i < n; i++) srv.jobs[refs[i].id].delay_ms = delay_ms;
    pthread_mutex_unlock(&srv.lock);
}

int64_t fake_delay_of(int64_t id)
{
    int64_t delay_ms;

    pthread_mutex_lock(&srv.lock);
    delay_ms = srv.jobs[id].delay_ms;
    pthread_mutex_unlock(&srv.lock);
    return delay_ms;
}

void fake_stalls(int64_t id, pgw_status st, int times)
{
    pthread_mutex_lock(&srv.lock);
    srv.jobs[id].stalled = st;
    srv.jobs[id].stalls = times;
    pthread_mutex_unlock(&srv.lock);
}

void fake_fails(fake_verb verb, pgw_status st, int times, int applied)
{
    pthread_mutex_lock(&srv.lock);
    srv.fails[verb].st = st;
    srv.fails[verb].times = times;
    srv.fails[verb].applied = applied;
    pthread_mutex_unlock(&srv.lock);
}

void fake_on_complete(void (*fn)(void))
{
    srv.on_complete = fn;
}

void fake_locks(int64_t id, int times)
{
    pthread_mutex_lock(&srv.lock);
    srv.jobs[id].locked = times;
    pthread_mutex_unlock(&srv.lock);
}

void fake_hangs(bool hangs)
{
    atomic_store(&srv.hangs, hangs);
}

void fake_claims_late(int64_t ms)
{
    srv.late_ms = ms;
}

void fake_finishes_late(int64_t ms)
{
    srv.slow_ms = ms;
}

void fake_turns_read_only(void)
{
    pthread_mutex_lock(&srv.lock);
    srv.read_only = true;
    pthread_mutex_unlock(&srv.lock);
}

void fake_takes_away(int64_t id)
{
    pthread_mutex_lock(&srv.lock);
    srv.jobs[id].token = ++srv.tokens;
    pthread_mutex_unlock(&srv.lock);
}

void fake_quarantine(int64_t id)
{
    srv.jobs[id].quarantined = true;
}

void fake_retries(int64_t id)
{
    pthread_mutex_lock(&srv.lock);
    srv.jobs[id].state = FAKE_READY;
    if (id < srv.first_ready) srv.first_ready = id;
    pthread_mutex_unlock(&srv.lock);
}

void fake_requeues(int64_t id)
{
    pthread_mutex_lock(&srv.lock);
    srv.jobs[id].state = FAKE_READY;
    srv.jobs[id].attempt--;
    if (id < srv.first_ready) srv.first_ready = id;
    pthread_mutex_unlock(&srv.lock);
}

void fake_cancels(int64_t id)
{
    pthread_mutex_lock(&srv.lock);
    srv.jobs[id].canceled = 1;
    pthread_mutex_unlock(&srv.lock);
}

void fake_refuses_output(const char *output)
{
    snprintf(srv.poison, sizeof(srv.poison), "%s", output);
}

void fake_freezes_for(int64_t ms)
{
    atomic_fetch_add(&srv.frozen_us, ms * 1000);
}

int fake_calls(fake_verb verb)
{
    int n;

    pthread_mutex_lock(&srv.lock);
    n = srv.calls[verb];
    pthread_mutex_unlock(&srv.lock);
    return n;
}

int fake_together(void)
{
    int n;

    pthread_mutex_lock(&srv.lock);
    n = srv.together;
    pthread_mutex_unlock(&srv.lock);
    return n;
}

int fake_parts(void)
{
    int n;

    pthread_mutex_lock(&srv.lock);
    n = srv.parts;
    pthread_mutex_unlock(&srv.lock);
    return n;
}

int fake_count(fake_state state)
{
    int n = 0;
    int64_t i;

    pthread_mutex_lock(&srv.lock);
    for (i = 1; i <= srv.last; i++) n += srv.jobs[i].state == state;
    pthread_mutex_unlock(&srv.lock);
    return n;
}

fake_state fake_state_of(int64_t id)
{
    fake_state s;

    pthread_mutex_lock(&srv.lock);
    s = srv.jobs[id].state;
    pthread_mutex_unlock(&srv.lock);
    return s;
}

int fake_attempt_of(int64_t id)
{
    int attempt;

    pthread_mutex_lock(&srv.lock);
    attempt = srv.jobs[id].attempt;
    pthread_mutex_unlock(&srv.lock);
    return attempt;
}

int fake_finishes_of(int64_t id)
{
    return srv.jobs[id].finishes;
}

const char *fake_error_of(int64_t id)
{
    return srv.jobs[id].error;
}

/* ---- calls ---- */

static pgw_status fake_say(pgw *h, pgw_status st, const char *message, const char *sqlstate)
{
    h->status = st;
    snprintf(h->message, sizeof(h->message), "%s", message);
    snprintf(h->sqlstate, sizeof(h->sqlstate), "%s", sqlstate);
    return st;
}

/* With the lock held. PGW_OUTCOME_AGAIN: do the work; *after then says what to answer. */
static pgw_status fake_enter(pgw *h, fake_verb verb, pgw_status *after)
{
    srv.calls[verb]++;
    *after = PGW_OK;
    if (!h->alive) {
        h->alive = 1;
        h->epoch++;
    }
    fake_say(h, PGW_OK, "", "");
    if (srv.fails[verb].times == 0) return PGW_OUTCOME_AGAIN;
    srv.fails[verb].times--;
    *after = srv.fails[verb].st;
    if (*after == PGW_ECONN || *after == PGW_EUNKNOWN || srv.read_only) h->alive = 0;
    fake_say(h, *after, h->alive ? "the test wants it so" : "lost, the test wants it so",
             srv.read_only ? "25006" : "");
    return srv.fails[verb].applied ? PGW_OUTCOME_AGAIN : *after;
}

static pgw_job *fake_find(const char *queue, pgw_ref ref, pgw_status *verdict)
{
    pgw_job *j = &srv.jobs[ref.id];

    *verdict = PGW_OK;
    if (strcmp(j->queue, queue) != 0 || (j->state != FAKE_LEASED && j->token == ref.token.number))
        *verdict = PGW_ENOTFOUND;
    else if (j->token != ref.token.number)
        *verdict = PGW_ELEASE;
    return *verdict == PGW_OK ? j : NULL;
}

/* What is refused is told by job, and not by claim. */
static void fake_forgives(pgw_ref *refs, size_t n, size_t i)
{
    size_t k;

    for (k = 0; k < n && refs[i].outcome == PGW_ELEASE; k++)
        if (refs[k].id == refs[i].id && refs[k].outcome == PGW_OK) refs[i].outcome = PGW_OK;
}

static pgw_status fake_finish(pgw *h, fake_verb verb, const char *queue, pgw_ref *refs,
                              const char *const *outputs, size_t n, fake_state state,
                              const char *error)
{
    pgw_status after, st;
    size_t i;

    if (verb == FAKE_COMPLETE && srv.on_complete != NULL) srv.on_complete();
    fake_freezes_for(srv.slow_ms);
    pthread_mutex_lock(&srv.lock);
    for (i = 0; i < n; i++) refs[i].outcome = PGW_EUNKNOWN;
    st = fake_enter(h, verb, &after);
    for (i = 0; st == PGW_OUTCOME_AGAIN && outputs != NULL && i < n; i++)
        if (outputs[i] != NULL && srv.poison[0] != '\0' && strcmp(outputs[i], srv.poison) == 0)
            st = fake_say(h, PGW_EDB, "invalid input syntax for type json", "22P02");
    for (i = 0; st == PGW_OUTCOME_AGAIN && i < n; i++) {
        pgw_job *j = &srv.jobs[refs[i].id];

        if (j->stalls == 0) continue;
        j->stalls--;
        st = fake_say(h, j->stalled, "stalled, the test wants it so", "");
    }
    if (st == PGW_OUTCOME_AGAIN) {
        st = PGW_OK;
        for (i = 0; i < n; i++) {
            pgw_job *j = fake_find(queue, refs[i], &refs[i].outcome);

            if (j == NULL) {
                st = PGW_ELEASE;
                continue;
            }
            j->state = j->canceled && state == FAKE_READY ? FAKE_CANCELED : state;
            j->finishes++;
            srv.open[j->claim]--;
            if (state == FAKE_READY) {
                j->attempt--;
                if (j->id < srv.first_ready) srv.first_ready = j->id;
            }
            snprintf(j->error, sizeof(j->error), "%s", error != NULL ? error : "");
        }
        for (i = 0; i < n; i++) fake_forgives(refs, n, i);
        for (i = 0; i < n; i++)
            if (srv.open[srv.jobs[refs[i].id].claim] > 0) break;
        srv.parts += i < n;
        if (after != PGW_OK) st = after;
        for (i = 0; i < n && after != PGW_OK; i++) refs[i].outcome = PGW_EUNKNOWN;
    }
    pthread_mutex_unlock(&srv.lock);
    return st;
}

pgw_status pgw_complete(pgw *h, const char *queue, pgw_ref *refs, size_t n,
                        const pgw_complete_opts *opts)
{
    return fake_finish(h, FAKE_COMPLETE, queue, refs, opts != NULL ? opts->outputs : NULL, n,
                       FAKE_DONE, NULL);
}

pgw_status pgw_fail(pgw *h, const char *queue, pgw_ref *refs, size_t n, const pgw_fail_opts *opts)
{
    fake_delays(refs, n, opts->retry_ms);
    return fake_finish(h, FAKE_FAIL, queue, refs, NULL, n, opts->dead ? FAKE_DEAD : FAKE_LATER,
                       opts->error);
}

pgw_status pgw_snooze(pgw *h, const char *queue, pgw_ref *refs, size_t n,
                      const pgw_snooze_opts *opts)
{
    fake_delays(refs, n, opts->delay_ms);
    return fake_finish(h, FAKE_SNOOZE, queue, refs, NULL, n, FAKE_LATER, NULL);
}

pgw_status pgw_hold(pgw *h, const char *queue, pgw_ref *refs, size_t n, const pgw_hold_opts *opts)
{
    (void)opts;
    return fake_finish(h, FAKE_HOLD, queue, refs, NULL, n, FAKE_LATER, NULL);
}

pgw_status pgw_release(pgw *h, const char *queue, pgw_ref *refs, size_t n)
{
    return fake_finish(h, FAKE_RELEASE, queue, refs, NULL, n, FAKE_READY, NULL);
}

static pgw_status fake_extend(pgw *h, const char *queue, pgw_ref *refs, size_t n)
{
    pgw_status after, st;
    size_t i;

    pthread_mutex_lock(&srv.lock);
    st = fake_enter(h, FAKE_EXTEND, &after);
    for (i = 0; i < n; i++) refs[i].outcome = PGW_EUNKNOWN;
    if (st == PGW_OUTCOME_AGAIN) {
        st = PGW_OK;
        for (i = 0; i < n; i++) {
            pgw_job *j = fake_find(queue, refs[i], &refs[i].outcome);

            if (j == NULL) {
                st = PGW_ELEASE;
            } else if (j->locked > 0) {
                j->locked--;
                refs[i].outcome = PGW_ELOCKED;
                if (st == PGW_OK) st = PGW_ELOCKED;
            } else if (j->canceled)
                refs[i].outcome = PGW_OUTCOME_CANCEL;
        }
        if (after != PGW_OK) st = after;
    }
    pthread_mutex_unlock(&srv.lock);
    return st;
}

pgw_status pgw_extend(pgw *h, const char *queue, pgw_ref *refs, size_t n,
                      const pgw_extend_opts *opts)
{
    (void)opts;
    h->done = h->armed;
    h->armed = NULL;
    if (h->done == NULL) {
        while (atomic_load(&srv.hangs)) poll(NULL, 0, 1);
        return fake_extend(h, queue, refs, n);
    }
    h->asked.queue = queue;
    h->asked.refs = refs;
    h->asked.n = n;
    return PGW_OUTCOME_AGAIN;
}

pgw_status pgw_async(pgw *h, pgw_done_fn *done, void *arg)
{
    h->armed = done;
    h->armed_arg = arg;
    return PGW_OK;
}

pgw_status pgw_step(pgw *h)
{
    pgw_status st = PGW_ECANCELED;

    if (h->done == NULL) return PGW_OK;
    if (pgw_stop_count(h->stop) < 2) {
        if (atomic_load(&srv.hangs)) return PGW_OUTCOME_AGAIN;
        st = fake_extend(h, h->asked.queue, h->asked.refs, h->asked.n);
    }
    h->done(h, st, h->armed_arg);
    return PGW_OK;
}

int pgw_fd(const pgw *h)
{
    (void)h;
    return -1;
}
int pgw_events(const pgw *h)
{
    (void)h;
    return 0;
}
int64_t pgw_timeout_ms(const pgw *h)
{
    (void)h;
    return 1;
}

static int fake_wanted(const pgw_claim_opts *o, const pgw_job *j)
{
    size_t i;

    for (i = 0; i < o->queues_count; i++)
        if (j->state == FAKE_READY && strcmp(o->queues[i], j->queue) == 0) return 1;
    return 0;
}

static pgw_status fake_claim(const pgw_claim_opts *o, pgw_batch **batch)
{
    pgw_batch *b = malloc(sizeof(*b) + (size_t)o->max * sizeof(b->jobs[0]));
    int64_t i;

    fake_freezes_for(srv.late_ms);
    b->n = 0;
    b->since_us = fake_clock_us();
    srv.claims++;
    assert(srv.claims < CLAIMS_MAX);
    for (i = srv.first_ready; i <= srv.last && b->n < (size_t)o->max; i++) {
        pgw_job *j = &srv.jobs[i];

        if (!fake_wanted(o, j)) continue;
        j->state = FAKE_LEASED;
        j->attempt++;
        j->token = ++srv.tokens;
        j->claim = srv.claims;
        j->lease_until_us = 1000 + j->lease_ms * 1000;
        b->jobs[b->n++] = *j;
    }
    srv.open[srv.claims] = (int)b->n;
    if (!o->apart) srv.together += (int)b->n;
    while (srv.first_ready <= srv.last && srv.jobs[srv.first_ready].state != FAKE_READY)
        srv.first_ready++;
    if (b->n > 0)
        *batch = b;
    else
        free(b);
    return *batch != NULL ? PGW_OK : PGW_OUTCOME_EMPTY;
}

pgw_status pgw_claim(pgw *h, const pgw_claim_opts *o, pgw_batch **batch)
{
    pgw_status after, st;

    *batch = NULL;
    pthread_mutex_lock(&srv.lock);
    st = fake_enter(h, FAKE_CLAIM, &after);
    if (st == PGW_OUTCOME_AGAIN) st = fake_claim(o, batch);
    pthread_mutex_unlock(&srv.lock);
    return st;
}

pgw_status pgw_complete_and_claim(pgw *h, pgw_ref *refs, size_t n, const pgw_claim_opts *o,
                                  pgw_batch **batch)
{
    pgw_status after = PGW_OK, st = PGW_OUTCOME_AGAIN;
    size_t i;

    *batch = NULL;
    for (i = 0; i < n; i++) refs[i].outcome = PGW_EUNKNOWN;
    pthread_mutex_lock(&srv.lock);
    if (srv.fails[FAKE_CLAIM].times > 0) st = fake_enter(h, FAKE_CLAIM, &after);
    pthread_mutex_unlock(&srv.lock);
    if (st != PGW_OUTCOME_AGAIN) return st; /* one transaction: nothing is finished either */
    st = pgw_complete(h, o->queues[0], refs, n, NULL);
    if (st < 0 && st != PGW_ELEASE) return st;
    pthread_mutex_lock(&srv.lock);
    st = fake_claim(o, batch);
    pthread_mutex_unlock(&srv.lock);
    if (after == PGW_OK) return st;
    pgw_batch_free(*batch); /* it came, and there was no memory for it here */
    *batch = NULL;
    return fake_say(h, after, "the test wants it so", "");
}

/* ---- jobs ---- */

size_t pgw_batch_count(const pgw_batch *b)
{
    return b->n;
}
const pgw_job *pgw_batch_job(const pgw_batch *b, size_t i)
{
    return &b->jobs[i];
}
void pgw_batch_free(pgw_batch *b)
{
    free(b);
}
int64_t pgw__batch_since_us(const pgw_batch *b)
{
    return b->since_us;
}

bool pgw__batch_quarantined(const pgw_batch *b)
{
    return b->n == 1 && b->jobs[0].quarantined;
}

int64_t pgw_job_id(const pgw_job *j)
{
    return j->id;
}
pgw_ref pgw_job_ref(const pgw_job *j)
{
    return (pgw_ref){j->id, {j->token, 7}};
}
const char *pgw_job_queue(const pgw_job *j)
{
    return j->queue;
}
const char *pgw_job_kind(const pgw_job *j)
{
    return j->kind;
}
const char *pgw_job_meta(const pgw_job *j)
{
    return j->meta[0] != '\0' ? j->meta : NULL;
}
int pgw_job_attempt(const pgw_job *j)
{
    return j->attempt;
}
int pgw_job_max_attempts(const pgw_job *j)
{
    (void)j;
    return srv.max_attempts > 0 ? srv.max_attempts : 1000; /* none dies of its attempts */
}
/* Enqueued just now. */
int64_t pgw_job_created_us(const pgw_job *j)
{
    return j->lease_until_us - j->lease_ms * 1000;
}

int64_t pgw_job_lease_until_us(const pgw_job *j)
{
    return j->lease_until_us;
}

/* ---- handles ---- */

pgw_status pgw_queues_each(pgw *h, const pgw_queues_opts *opts,
                           int (*fn)(const pgw_queue_info *info, void *arg), void *arg)
{
    (void)h, (void)opts, (void)fn, (void)arg;
    return PGW_EPERM; /* as for most workers */
}
void pgw__pq_server(const pgw_conf *conf, char *to, size_t size)
{
    snprintf(to, size, "%s", pgw__conf_text(conf, "dsn"));
}
pgw_status pgw__handle_open(pgw **h, const pgw_conf *conf, pgw_stop *stop, int64_t lock_ms)
{
    pgw_status after, st;

    (void)lock_ms;
    *h = calloc(1, sizeof(**h));
    (*h)->conf = pgw__conf_copy(conf);
    (*h)->stop = stop;
    pthread_mutex_lock(&srv.lock);
    st = fake_enter(*h, FAKE_OPEN, &after);
    pthread_mutex_unlock(&srv.lock);
    return st == PGW_OUTCOME_AGAIN ? PGW_OK : st;
}

pgw *fake_open(const pgw_conf *conf)
{
    pgw *h;

    pgw__handle_open(&h, conf, NULL, 0);
    return h;
}

void pgw_close(pgw *h)
{
    if (h == NULL) return;
    pgw_conf_free(h->conf);
    free(h);
}

pgw_status pgw_error_status(const pgw *h)
{
    return h->status;
}
/* No test here reports progress: test_it_progress.c does. */
pgw_status pgw__job_progress(pgw *h, const char *queue, pgw_ref *refs, size_t n,
                             const char *const *progress)
{
    (void)h, (void)queue, (void)refs, (void)n, (void)progress;
    return PGW_EPERM;
}
pgw_status pgw_progress_read(pgw *h, const char *queue, int64_t id, pgw_batch **job)
{
    (void)h, (void)queue, (void)id, (void)job;
    return PGW_EPERM;
}
const char *pgw_job_progress(const pgw_job *job)
{
    (void)job;
    return NULL;
}
const char *pgw_error_message(const pgw *h)
{
    return h->message;
}
void pgw__handle_diagnostics(const pgw *h, char *diagnostics, size_t size)
{
    snprintf(diagnostics, size, "%s: do something", h->message);
}

pgw_status pgw__pq_in_loop(const pgw *h, pgw_status st)
{
    return pgw__status_in_loop(st, h->sqlstate, false);
}

void pgw__pq_keep_diagnostics(const pgw *h, pgw__diagnostics *diagnostics)
{
    diagnostics->fault.status = h->status;
    snprintf(diagnostics->fault.message, sizeof(diagnostics->fault.message), "%s", h->message);
    snprintf(diagnostics->fault.sqlstate, sizeof(diagnostics->fault.sqlstate), "%s", h->sqlstate);
}
pgw_status pgw__pq_fail(pgw *h, pgw_status st, const char *message, const char *hint)
{
    (void)hint;
    return fake_say(h, st, message, "");
}
pgw_status pgw__pq_report(pgw *h, const pgw__diagnostics *diagnostics)
{
    return fake_say(h, diagnostics->fault.status, diagnostics->fault.message,
                    diagnostics->fault.sqlstate);
}
void pgw__pq_drop(pgw *h)
{
    h->alive = false;
}
pgw_status pgw_set_stop(pgw *h, pgw_stop *stop)
{
    h->stop = stop;
    h->heeded = false;
    return PGW_OK;
}
void pgw__pq_heed_stop(pgw *h)
{
    h->heeded = true;
}
pgw_status pgw_set_timeout(pgw *h, int64_t ms)
{
    h->limit_ms = ms;
    return PGW_OK;
}
void pgw__pq_limit_calls(pgw *h, int64_t ms)
{
    pgw_set_timeout(h, ms);
}
const char *pgw_error_sqlstate(const pgw *h)
{
    return h->sqlstate;
}
int64_t fake_limit(const pgw *h)
{
    return h->limit_ms;
}
int64_t pgw_server_time_us(const pgw *h)
{
    (void)h;
    return 1000;
}
int64_t pgw_gated_ms(const pgw *h)
{
    (void)h;
    return PGW_UNLIMITED;
}
uint64_t pgw__pq_epoch(const pgw *h)
{
    return h->epoch;
}
int pgw__pq_slot(const pgw *h, char channel[64])
{
    (void)h;
    *channel = '\0';
    return 0;
}
const char *pgw__pq_schema(const pgw *h)
{
    (void)h;
    return "pgwork";
}
void pgw__pq_on_notified(pgw *h, pgw__notified_fn *fn, void *arg)
{
    (void)h, (void)fn, (void)arg;
}
pgw_status pgw__pq_listen(pgw *h, const char *channel)
{
    (void)h, (void)channel;
    return PGW_OK;
}
pgw_status pgw__pq_call(pgw *h, const pgw__call *call)
{
    pgw_status after, st;

    if (call->sql != PGW__SQL_JOB_IDLE) return PGW_OK;
    pthread_mutex_lock(&srv.lock);
    st = fake_enter(h, FAKE_IDLE, &after);
    pthread_mutex_unlock(&srv.lock);
    return st == PGW_OUTCOME_AGAIN ? PGW_OK : st;
}

/* Reports are taken, and never answered with rows. */
pgw_status pgw__check_holder(pgw *h, const char *argument, const char **holder, const char *given,
                             char buffer[PGW__HOLDER_MAX + 1])
{
    (void)h, (void)argument, (void)given;
    *holder = strcpy(buffer, "fake");
    return PGW_OK;
}

int pgw__rows_items(const pgw__rows *r, int row, int col, pgw__items *items)
{
    (void)r, (void)row, (void)col, (void)items;
    return 0;
}

bool pgw__items_next(pgw__items *items, pgw__bytes *item)
{
    (void)items, (void)item;
    return false;
}

int64_t pgw__item_int(const pgw__bytes *item)
{
    (void)item;
    return 0;
}

/* No queue is missing. */
int pgw__rows_count(const pgw__rows *r)
{
    (void)r;
    return 0;
}

const char *pgw__rows_text(const pgw__rows *r, int row, int col, size_t *size)
{
    (void)r, (void)row, (void)col, (void)size;
    return NULL;
}

pgw_status pgw__pq_connect(pgw *h, int64_t timeout_ms)
{
    pgw_status after, st;

    (void)timeout_ms;
    pthread_mutex_lock(&srv.lock);
    st = fake_enter(h, FAKE_OPEN, &after);
    pthread_mutex_unlock(&srv.lock);
    return st == PGW_OUTCOME_AGAIN ? PGW_OK : st;
}

pgw_status pgw__pq_connect_once(pgw *h)
{
    h->armed = NULL;
    return pgw__pq_connect(h, 0);
}

pgw_status pgw__pq_check_session(pgw *h)
{
    return h->alive ? PGW_OK : PGW_ECONN;
}

pgw_status pgw__pq_wait(pgw *h, int64_t timeout_ms, int extra_fd)
{
    struct pollfd fds[2] = {{extra_fd, POLLIN, 0},
                            {h->heeded ? -1 : pgw_stop_fd(h->stop), POLLIN, 0}};

    if (!h->alive) return fake_say(h, PGW_ECONN, "the connection was lost", "");
    if (poll(fds, 2, (int)timeout_ms) <= 0) return PGW_OUTCOME_EMPTY;
    return fds[0].revents != 0 ? PGW_OUTCOME_AGAIN : fake_say(h, PGW_ECANCELED, "stop", "");
}
