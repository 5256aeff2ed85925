/* worker_kind: handlers by kind.
 *
 * A claim cannot leave out a kind. So a kind that runs as many jobs as it may gets more: these must
 * not keep handlers from other kinds, and not be kept from other workers. A few wait here, as many
 * as a quarter of a second takes. All others are snoozed, which counts no attempt: no claim finds
 * them then. They come back one after another, twice as fast as the kind runs them: with 1000 jobs
 * of 1 s each, and a limit of 2, four come back in a second, not 1000. */
#include "worker/worker_kind.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/backoff.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/name.h"
#include "base/status.h"
#include "call/check.h"

#define KIND_MAX          1000  /* handlers by kind */
#define KIND_WAIT_MS      250   /* a job beyond the limit of its kind waits here about so long */
#define KIND_HANGS_MS     1000  /* and no longer than this, should the kind become slow */
#define KIND_FIRST_US     50000 /* between two of these, while it is not known how long one takes */
#define KIND_APART_MIN_US 1000
#define KIND_APART_MAX_US 1000000
#define KIND_AWAY_MAX_MS  60000
#define KIND_LATE_US      2000000 /* what a job that was put off may be late */
#define KIND_STEPS        16      /* of random delays: a report takes all that have the same */

/* ---- which handler ---- */

/* Without memory the job fails without a reason. */
static pgw_verdict kind_unhandled(pgw_task *task, void *arg)
{
    char error[PGW__KIND_MAX + 64];

    (void)arg;
    snprintf(error, sizeof(error), "this worker has no handler for kind \"%s\"",
             pgw_job_kind(task->job));
    task->error = pgw__mem_dup(error);
    return PGW_VERDICT_RETRY;
}

void pgw__kind_init_rest(pgw__pool *p, const pgw_worker_spec *spec)
{
    p->rest.fn = spec->handler != NULL ? spec->handler : kind_unhandled;
    p->rest.batch_fn = spec->batch_handler;
    p->rest.arg = spec->arg;
    p->rest.opts = (pgw_kind_opts)PGW_KIND_OPTS_INIT;
    p->rest.limit = INT_MAX;
}

bool pgw__kind_any(const pgw__pool *p)
{
    return p->kinds_count > 0 || p->rest.batch_fn != NULL || p->rest.fn != kind_unhandled;
}

/* Where it is among the kinds, or would be. */
static size_t kind_at(const pgw__pool *p, const char *name, bool *found)
{
    size_t low = 0, high = p->kinds_count;

    *found = false;
    while (low < high && !*found) {
        const size_t middle = low + (high - low) / 2;
        const int order = strcmp(name, p->kinds[middle]->name);

        *found = order == 0;
        if (order <= 0)
            high = middle;
        else
            low = middle + 1;
    }
    return *found ? high : low;
}

pgw__kind *pgw__kind_of(pgw_worker *w, const pgw_job *job)
{
    const char *name = pgw_job_kind(job);
    bool found = false;
    size_t at = 0;

    if (w->pool->kinds_count > 0) at = kind_at(w->pool, name != NULL ? name : "", &found);
    return found ? w->pool->kinds[at] : &w->pool->rest;
}

static pgw__kind *kind_add(pgw__pool *p, const char *name, size_t at)
{
    const size_t n = p->kinds_count;
    pgw__kind **kinds = pgw__mem_realloc(p->kinds, (n + 1) * sizeof(pgw__kind *));
    pgw__kind *kind;

    if (kinds == NULL) return NULL;
    p->kinds = kinds;
    kind = pgw__mem_zero(1, sizeof(*kind));
    if (kind == NULL) return NULL;
    kind->name = pgw__mem_dup(name);
    if (kind->name == NULL) {
        pgw__mem_free(kind);
        return NULL;
    }
    memmove(kinds + at + 1, kinds + at, (n - at) * sizeof(pgw__kind *));
    kinds[at] = kind;
    p->kinds_count++;
    return kind;
}

/* ---- pgw_worker_handle() ---- */

static bool kind_fits(pgw_worker *w, const char *field, int64_t value, int64_t least, int64_t most,
                      const char *allowed)
{
    char argument[64], what[32];

    if (value == PGW_DEFAULT || (value >= least && value <= most)) return true;
    snprintf(argument, sizeof(argument), "opts->%s", field);
    snprintf(what, sizeof(what), "is %lld", (long long)value);
    pgw__worker_refuse(w, argument, what, allowed);
    return false;
}

static pgw_status kind_check(pgw_worker *w, const char *name, pgw_handler_fn *fn,
                             pgw_kind_opts *mine, const pgw_kind_opts *opts)
{
    const char *fault = name != NULL && *name == '\0' ? NULL : pgw__name_fault(name, PGW__KIND_MAX);

    if (fault != NULL)
        return pgw__worker_refuse(w, "kind", fault,
                                  "up to 255 bytes of UTF-8, no control characters");
    if (fn == NULL) return pgw__worker_refuse(w, "fn", "is NULL", "a function");
    if (opts != NULL &&
        (!pgw__size_is_whole(opts->struct_size) || opts->struct_size > sizeof(*mine)))
        return pgw__worker_refuse(w, "opts->struct_size", "is not set", "PGW_KIND_OPTS_INIT");
    if (opts != NULL) memcpy(mine, opts, opts->struct_size);
    if (kind_fits(w, "concurrency", mine->concurrency, 1, 1024, "1..1024, or PGW_DEFAULT") &&
        kind_fits(w, "max_attempts", mine->max_attempts, 1, 1000, "1..1000, or PGW_DEFAULT") &&
        (mine->timeout_ms == PGW_UNLIMITED ||
         kind_fits(w, "timeout_ms", mine->timeout_ms, 1, PGW__TIMEOUT_MAX_MS,
                   "1..2592000000, PGW_UNLIMITED or PGW_DEFAULT")) &&
        kind_fits(w, "backoff_ms", mine->backoff_ms, 0, PGW__PERIOD_MAX_MS,
                  "0..31536000000, or PGW_DEFAULT") &&
        kind_fits(w, "backoff_cap_ms", mine->backoff_cap_ms, 0, PGW__PERIOD_MAX_MS,
                  "0..31536000000, or PGW_DEFAULT"))
        return PGW_OK;
    return PGW_EINVAL;
}

pgw_status pgw_worker_handle(pgw_worker *w, const char *kind, pgw_handler_fn *fn, void *arg,
                             const pgw_kind_opts *opts)
{
    pgw_kind_opts mine = PGW_KIND_OPTS_INIT;
    pgw__kind *k;
    bool found;
    size_t at;
    pgw_status st;

    if (w == NULL) return PGW_EINVAL;
    if (pgw__worker_runs(w->pool)) return PGW_EMISUSE;
    st = kind_check(w, kind, fn, &mine, opts);
    if (st != PGW_OK) return st;
    at = kind_at(w->pool, kind, &found);
    if (!found && w->pool->kinds_count == KIND_MAX)
        return pgw__worker_refuse(w, "kind", "exceeds the limit", "at most 1000 kinds");
    k = found ? w->pool->kinds[at] : kind_add(w->pool, kind, at);
    if (k == NULL) return PGW_ENOMEM;
    k->fn = fn;
    k->arg = arg;
    k->opts = mine;
    k->limit = mine.concurrency == PGW_DEFAULT || mine.concurrency >= pgw__worker_handlers(w)
                   ? INT_MAX
                   : mine.concurrency;
    return PGW_OK;
}

/* ---- timeouts and retries ---- */

int64_t pgw__kind_timeout_ms(const pgw_worker *w, const pgw__kind *kind, const pgw_job *job)
{
    const char *meta = pgw_job_meta(job);
    int64_t timeout_ms;

    if (meta != NULL && pgw__json_int(meta, "timeout_ms", &timeout_ms) && timeout_ms > 0 &&
        timeout_ms <= PGW__TIMEOUT_MAX_MS)
        return timeout_ms;
    timeout_ms = kind->opts.timeout_ms;
    if (timeout_ms == PGW_UNLIMITED) return 0;
    return timeout_ms != PGW_DEFAULT ? timeout_ms : w->given.timeout_ms;
}

static int64_t kind_backoff_ms(const pgw_kind_opts *o, int attempt)
{
    const int64_t cap_ms = o->backoff_cap_ms != PGW_DEFAULT ? o->backoff_cap_ms : 3600000;
    int64_t ms = o->backoff_ms;

    for (int i = 1; i < attempt && ms > 0 && ms < cap_ms; i++) ms *= 2;
    if (ms > cap_ms) ms = cap_ms;
    return ms * (int64_t)(1 + pgw__random_u64() % KIND_STEPS) / KIND_STEPS;
}

void pgw__kind_judge(pgw_task *t)
{
    const pgw_kind_opts *o = &t->kind->opts;
    const int attempt = pgw_job_attempt(t->job);

    if (t->verdict != PGW_VERDICT_RETRY) return;
    if (o->max_attempts > 0 && attempt >= o->max_attempts &&
        (atomic_load(&t->signals) & PGW_SIGNAL_CANCELED) == 0)
        t->verdict = PGW_VERDICT_DEAD;
    else if (o->backoff_ms != PGW_DEFAULT && t->delay_ms < 0)
        t->delay_ms = kind_backoff_ms(o, attempt);
}

/* ---- kinds with a limit ---- */

int pgw__kind_waiting_max(const pgw__kind *kind)
{
    int64_t most;

    if (kind->each_us == 0) return kind->limit;
    most = (int64_t)kind->limit * KIND_WAIT_MS * 1000 / kind->each_us;
    return most < PGW__AHEAD_MAX ? (int)most : PGW__AHEAD_MAX;
}

void pgw__kind_ran(pgw__kind *kind, int64_t took_us)
{
    if (took_us < 1) took_us = 1;
    kind->each_us += kind->each_us == 0 ? took_us : (took_us - kind->each_us) / 8;
}

bool pgw__kind_hangs(const pgw__kind *kind, int64_t now)
{
    return kind->waiting.count > 0 && now - kind->began_at >= KIND_HANGS_MS;
}

/* In whole quarters of a second: one report takes all jobs that have the same delay. */
int64_t pgw__kind_put_off_ms(pgw__kind *kind, int64_t now_us)
{
    int64_t apart_us = kind->each_us == 0 ? KIND_FIRST_US : kind->each_us / (2 * kind->limit);
    int64_t ms;

    if (apart_us < KIND_APART_MIN_US) apart_us = KIND_APART_MIN_US;
    if (apart_us > KIND_APART_MAX_US) apart_us = KIND_APART_MAX_US;
    if (kind->return_us < now_us) kind->return_us = now_us;
    kind->return_us += apart_us;
    if (kind->return_us > now_us + KIND_AWAY_MAX_MS * 1000)
        kind->return_us = now_us + KIND_AWAY_MAX_MS * 1000;
    ms = (kind->return_us - now_us) / 1000;
    return (ms + KIND_WAIT_MS) / KIND_WAIT_MS * KIND_WAIT_MS;
}

bool pgw__kind_expects(const pgw__pool *p, int64_t now_us)
{
    for (size_t i = 0; i < p->kinds_count; i++) {
        const int64_t return_us = p->kinds[i]->return_us;

        if (return_us > 0 && now_us < return_us + KIND_LATE_US) return true;
    }
    return false;
}
