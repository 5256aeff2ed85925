/* worker_why: why nothing can be claimed although there are jobs; logged once for each queue and
 * reason. */
#include "base/clock.h"
#include "base/mem.h"
#include "worker/worker_why.h"

#define WHY_AGAIN_MS 60000 /* time between two checks of an idle worker */

enum { WHY_NOTHING, WHY_PAUSED, WHY_HELD, WHY_DELAYED, WHY_GATED };

static const char *const why_words[] = {
    [WHY_PAUSED] = "is paused: resume it to claim jobs",
    [WHY_HELD] = "is held until a time: none of its jobs can be claimed before",
    [WHY_DELAYED] = "has only delayed jobs: none can be claimed yet",
    [WHY_GATED] = "has only gated jobs: they wait for others of their group, a permit or a rate"};

bool pgw__worker_why_init(pgw_worker *w, size_t queues)
{
    w->loop.why = pgw__mem_zero(queues, sizeof(w->loop.why[0]));
    return w->loop.why != NULL;
}

static int why_judge(const pgw_queue_info *q, void *arg)
{
    const pgw_depth *d = q->depth;

    if (q->paused)
        *(unsigned char *)arg = WHY_PAUSED;
    else if (q->held_until_us != 0)
        *(unsigned char *)arg = WHY_HELD;
    else if (d->gated > 0 && d->ready + d->leased == 0)
        *(unsigned char *)arg = WHY_GATED;
    else if (d->delayed > 0 && d->ready + d->leased == 0)
        *(unsigned char *)arg = WHY_DELAYED;
    return 0;
}

/* The next claim reports errors of the session. */
void pgw__worker_tell_why(pgw_worker *w)
{
    if (pgw__clock_ms() < w->loop.why_at) return;
    w->loop.why_at = pgw__clock_ms() + WHY_AGAIN_MS;
    for (size_t i = 0; i < w->given.queues_count; i++) {
        pgw_queues_opts opts = PGW_QUEUES_OPTS_INIT;
        unsigned char why = WHY_NOTHING;
        pgw_status st;

        opts.queue = w->given.queues[i], opts.at_most = 1;
        st = pgw_queues_each(w->loop.h, &opts, why_judge, &why);
        if (st == PGW_EPERM) w->loop.why_at = INT64_MAX;
        if (st < 0) return;
        if (why != WHY_NOTHING && why != w->loop.why[i])
            PGW__LOG(&w->given.log, PGW_LOG_WARN, "worker", "queue \"%s\" %s", w->given.queues[i],
                     why_words[why]);
        w->loop.why[i] = why;
    }
}
