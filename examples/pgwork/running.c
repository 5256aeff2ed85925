/* SPDX-License-Identifier: PostgreSQL */
#include "running.h"

#include <stdlib.h>
#include <string.h>

static int running_each(const pgw_worker_info *w, void *arg)
{
    running *r = arg;
    for (size_t i = 0; i < w->jobs_count; i++) {
        r->jobs = cli_realloc(r->jobs, (r->count + 1) * sizeof *r->jobs);
        r->holders = cli_realloc(r->holders, (r->count + 1) * sizeof *r->holders);
        r->jobs[r->count] = w->jobs[i];
        r->holders[r->count++] = cli_copy(w->name, strlen(w->name));
    }
    return 0;
}

running running_read(cli *c, const char *queue)
{
    running r = {NULL, NULL, 0};
    if (pgw_workers_each(c->h, queue, running_each, &r) < 0) running_free(&r);
    return r;
}

int64_t running_since_us(const running *r, const pgw_job *job)
{
    const char *holder = pgw_job_holder(job);
    if (!holder || pgw_job_state(job) != PGW_STATE_LEASED) return 0;
    for (size_t i = 0; i < r->count; i++) {
        if (r->jobs[i].id == pgw_job_id(job) && r->jobs[i].attempt == pgw_job_attempt(job) &&
            strcmp(r->holders[i], holder) == 0) {
            return r->jobs[i].since_us;
        }
    }
    return 0;
}

void running_free(running *r)
{
    for (size_t i = 0; i < r->count; i++) free(r->holders[i]);
    free(r->holders);
    free(r->jobs);
    *r = (running){NULL, NULL, 0};
}
