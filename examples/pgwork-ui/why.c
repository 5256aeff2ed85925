/* SPDX-License-Identifier: PostgreSQL
 *
 * why: why a job does not run. The reason that decides comes first, then reasons that would
 * hold it up next, or make claims slow.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ui.h"

typedef struct reasons {
    req *r;
    const PGresult *job;
    int count;
} reasons;

/* The door of its queue, what is ready there, who works on it. */
enum {
    W_PAUSED,
    W_UNTIL,
    W_REASON,
    W_LIMIT,
    W_SEMAPHORE,
    W_READY,
    W_LEASED,
    W_WORKERS,
    W_RUNNING,
    W_PLACES,
    W_REAPER,
    W_STUCK,
    W_STUCK_AT,
    W_RATE,
    W_PER_MS,
    W_NEXT
};
/* clang-format off */
static const char why_sql[] =
    "SELECT coalesce(h.paused, q.paused), " UI_US("h.until") ", h.reason, q.queue_limit, l.semaphore, d.ready, d.leased,"
    "       w.n, w.running, w.places, (extract(epoch FROM clock_timestamp() - t.at) * 1000)::bigint, s.error,"
    "       " UI_US("s.again_at") ", l.rate_n, l.rate_per_ms, " UI_US("l.next_at")
    "  FROM queues q LEFT JOIN LATERAL queue_holds(q.name) h ON true CROSS JOIN LATERAL queue_limits(q.name) l"
    " CROSS JOIN LATERAL depth(q.name, 1000, true) d"
    " CROSS JOIN LATERAL (SELECT count(*) AS n, coalesce(sum(running), 0) AS running,"
    "                            coalesce(sum(concurrency), 0) AS places FROM worker_list(q.name)) w"
    " CROSS JOIN last_tick t LEFT JOIN stuck_jobs s ON s.queue = q.name AND s.id = $2::bigint"
    " WHERE q.name = $1";
/* clang-format on */

#define WHY_REAPER_MS 10000 /* no reaper has been there for so long */

static buf *reason(reasons *why, const char *kind)
{
    html(&why->r->out, "<li class=\"%s\">", kind);
    why->count++;
    return &why->r->out;
}

static void reason_end(reasons *why)
{
    html(&why->r->out, "</li>\n");
}

/* Without one, nothing moves that a reaper moves. */
static bool why_no_reaper(reasons *why, const PGresult *q)
{
    const char *ms = cell(q, 0, W_REAPER);
    if (ms && cell_int(q, 0, W_REAPER) < WHY_REAPER_MS) return false;
    buf *b = reason(why, "bad");
    if (ms)
        html(b, "No reaper runs: the last one was there "), html_age(b, cell_int(q, 0, W_REAPER)),
            html(b, " ago. ");
    else
        html(b, "No reaper has ever run. ");
    html(b, "Delayed and gated jobs wait for it, and expired leases do. Start <code>pgwork "
            "reap</code>.");
    reason_end(why);
    return true;
}

static void why_door(reasons *why, const PGresult *q)
{
    const char *paused = cell(q, 0, W_PAUSED);
    buf *b;
    if (paused && *paused == 't') {
        b = reason(why, "bad");
        html(b, "Its queue is paused: no job of it is claimed until it is resumed.");
        reason_end(why);
    }
    if (cell(q, 0, W_UNTIL)) {
        b = reason(why, "bad");
        html(b, "Its queue is held: no job of it is claimed before ");
        html_time(b, cell_time(q, 0, W_UNTIL), why->r->now_us);
        if (cell(q, 0, W_REASON)) html(b, ". The reason: <bdi>%s</bdi>", cell(q, 0, W_REASON));
        reason_end(why);
    }
}

static void why_workers(reasons *why, const PGresult *q)
{
    int64_t running = cell_int(q, 0, W_RUNNING), places = cell_int(q, 0, W_PLACES),
            leased = cell_int(q, 0, W_LEASED);
    buf *b;
    if (cell_int(q, 0, W_WORKERS) == 0) {
        b = reason(why, leased ? "note" : "bad");
        html(b, "No worker reports for its queue. ");
        html(b, leased ? "Jobs of it are leased, so a program without reports claims them."
                       : "Start one for exactly this queue name.");
        reason_end(why);
    } else if (running >= places) {
        b = reason(why, "note");
        html(b, "All workers of its queue are busy: %l jobs run in %l places.", running, places);
        reason_end(why);
    }
}

/* No claim returns it any more. */
static bool why_expired(reasons *why)
{
    int64_t at = cell_time(why->job, 0, J_EXPIRES);
    if (at == PGW_NONE || at > why->r->now_us) return false;
    buf *b = reason(why, "bad");
    html(b, "It expired ");
    html_time(b, at, why->r->now_us);
    html(b, ", so it is never started. A reaper removes it.");
    reason_end(why);
    return true;
}

static void why_turn(reasons *why, const PGresult *q)
{
    int64_t ready = cell_int(q, 0, W_READY);
    if (ready <= 1) return;
    buf *b = reason(why, "note");
    html_bounded(b, ready, UI_COUNT);
    html(b,
         " jobs of its queue are ready. Lower priority numbers come first, then older jobs. This "
         "one has priority %s.",
         cell(why->job, 0, J_PRIORITY));
    reason_end(why);
}

/* of: the group of the job, or its queue. */
static void why_rate(reasons *why, const char *of, int64_t n, int64_t per_ms, int64_t next_us)
{
    buf *b = reason(why, "bad");
    html(b, "It waits for the rate of %s, %l per ", of, n);
    html_age(b, per_ms);
    html(b, ". The next one passes ");
    html_time(b, next_us, why->r->now_us);
    html(b, ".");
    reason_end(why);
}

static int why_group(const pgw_group_info *g, void *arg)
{
    reasons *why = arg;
    const char *queue = cell(why->job, 0, J_QUEUE);
    int before = why->count;
    buf *b = &why->r->out;
    if (g->held_until_us != PGW_NONE) {
        reason(why, "bad");
        html(b, "Its group <bdi>%s</bdi> is held", g->group);
        if (g->held_until_us == INT64_MAX)
            html(b, " until it is unblocked.");
        else
            html(b, ", free "), html_time(b, g->held_until_us, why->r->now_us), html(b, ".");
        reason_end(why);
    }
    if (g->blocked_by != PGW_NONE) {
        reason(why, "bad");
        html(b, "Its group <bdi>%s</bdi> waits for job ", g->group);
        page_job_link(why->r, queue, g->blocked_by);
        html(b, ", which keeps its place: it waits for a retry, or it is a dead letter that blocks "
                "the group.");
        reason_end(why);
    }
    if (g->rate && g->next_us != PGW_NONE)
        why_rate(why, "its group", g->rate->n, g->rate->per_ms, g->next_us);
    if (g->admitted >= g->limit || (why->count == before && g->gated > 0)) {
        reason(why, "bad");
        html(b, "It waits for others of its group <bdi>%s</bdi>: %l of %d admitted, ", g->group,
             g->admitted, g->limit);
        html_bounded(b, g->gated, 1000);
        html(b, " wait. The next one is job ");
        page_job_link(why->r, queue, g->next_id);
        html(b, ".");
        reason_end(why);
    }
    return 1;
}

static void why_gated(reasons *why, const PGresult *q)
{
    const char *group = cell(why->job, 0, J_GROUP);
    pgw_groups_opts o = PGW_GROUPS_OPTS_INIT;
    pgw *h = group ? page_handle(why->r) : NULL;
    int before = why->count;
    o.group = group;
    if (h) page_ok(why->r, pgw_groups_each(h, cell(why->job, 0, J_QUEUE), &o, why_group, why));
    if (group && why->count > before) return;
    if (cell(q, 0, W_LIMIT)) {
        html(reason(why, "bad"),
             "It waits at the limit of its queue: %s jobs are leased at a time.",
             cell(q, 0, W_LIMIT));
        reason_end(why);
    }
    if (cell(q, 0, W_SEMAPHORE)) {
        html(reason(why, "bad"), "It waits for a permit of the semaphore <bdi>%s</bdi>.",
             cell(q, 0, W_SEMAPHORE));
        reason_end(why);
    }
    if (cell(q, 0, W_NEXT) && cell(q, 0, W_RATE))
        why_rate(why, "its queue", cell_int(q, 0, W_RATE), cell_int(q, 0, W_PER_MS),
                 cell_time(q, 0, W_NEXT));
}

static void why_delayed(reasons *why, const PGresult *q)
{
    int64_t at = cell_time(why->job, 0, J_RUN_AT);
    bool late = at < why->r->now_us - 2000000;
    buf *b = reason(why, late ? "bad" : "note");
    if (cell_int(why->job, 0, J_ATTEMPT) > 0 && cell(why->job, 0, J_ERROR))
        html(b, "Its last attempt failed. It is tried again ");
    else
        html(b, "It is delayed: it becomes ready ");
    html_time(b, at, why->r->now_us);
    if (late) html(b, ". That time has passed, so a reaper should have made it ready");
    html(b, ".");
    reason_end(why);
    if (late) why_no_reaper(why, q);
}

static void why_leased(reasons *why, const PGresult *q)
{
    int64_t until = cell_time(why->job, 0, J_UNTIL);
    if (until >= why->r->now_us) {
        buf *b = reason(why, "good");
        html(b, "It runs, or waits in the buffer of <bdi>%s</bdi>.", cell(why->job, 0, J_HOLDER));
        reason_end(why);
        return;
    }
    buf *b = reason(why, "bad");
    html(b, "Its lease ended ");
    html_time(b, until, why->r->now_us);
    html(b, ": its holder <bdi>%s</bdi> does not extend it. A reaper requeues it.",
         cell(why->job, 0, J_HOLDER));
    reason_end(why);
    why_no_reaper(why, q);
}

/* A reaper has tried to move it, and could not. */
static void why_stuck(reasons *why, const PGresult *q)
{
    if (!cell(q, 0, W_STUCK)) return;
    buf *b = reason(why, "bad");
    html(b, "No reaper can move it: <bdi>%s</bdi>. It is tried again ", cell(q, 0, W_STUCK));
    html_time(b, cell_time(q, 0, W_STUCK_AT), why->r->now_us);
    html(b, ".");
    reason_end(why);
}

/* Findings of the doctor on held snapshots. */
static void why_doctor(reasons *why)
{
    const db *d = why->r->d;
    if (!db_examine(why->r->d)) return;
    for (size_t i = 0; i < d->findings_count; i++) {
        const finding *f = &d->findings[i];
        if (f->grade == PGW_GRADE_GOOD || strcmp(f->check, "vacuum horizon") != 0 ||
            strncmp(f->text, "sessions of other", 17) == 0)
            continue;
        buf *b = reason(why, "note");
        html(b, "Claims may be slow: %s. ", f->text);
        html_advice(b, f->advice);
        html(b, " See ");
        page_check_link(b, d, f->check);
        html(b, ".");
        reason_end(why);
    }
}

static void why_waits(reasons *why, const PGresult *q)
{
    const char *state = cell(why->job, 0, J_STATE);
    if (strcmp(state, "leased") == 0) {
        why_leased(why, q);
        return;
    }
    if (why_expired(why)) {
        why_no_reaper(why, q);
        return;
    }
    if (strcmp(state, "delayed") == 0) why_delayed(why, q);
    if (strcmp(state, "gated") == 0) why_gated(why, q);
    why_stuck(why, q);
    why_door(why, q);
    why_workers(why, q);
    if (strcmp(state, "ready") == 0) why_turn(why, q);
    if (strcmp(state, "delayed") != 0) why_no_reaper(why, q);
    why_doctor(why);
    if (why->count) return;
    reason(why, "good");
    html(&why->r->out, "Nothing holds it up: a worker takes it within a moment.");
    reason_end(why);
}

void why(req *r, const PGresult *job)
{
    reasons found = {r, job, 0};
    const char *state = cell(job, 0, J_STATE),
               *values[] = {cell(job, 0, J_QUEUE), cell(job, 0, J_ID)};
    bool leased = strcmp(state, "leased") == 0;
    if (strcmp(state, "done") == 0 || strcmp(state, "cancelled") == 0 || strcmp(state, "dead") == 0)
        return;
    PGresult *q = db_ask(r->d, why_sql, 2, values);
    html(&r->out,
         "<section aria-labelledby=\"why\"><h2 id=\"why\">%s</h2>\n<ul class=\"findings\">",
         leased ? "Is it running?" : "Why is it not running?");
    if (!q) {
        html(&r->out, "<li class=\"note\">not known: %s</li>", r->d->error);
    } else if (PQntuples(q)) {
        why_waits(&found, q);
    }
    html(&r->out, "</ul></section>\n");
    PQclear(q);
}
