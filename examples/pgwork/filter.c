/* SPDX-License-Identifier: PostgreSQL */
#include "filter.h"

#include "text.h"

int filter_settle(const cli *c, filter *p)
{
    if (p->newer_ms >= 0) p->f.created_from_us = text_now_us() - p->newer_ms * 1000;
    if (p->older_ms >= 0) p->f.created_to_us = text_now_us() - p->older_ms * 1000;
    return cli_state(c, p->state, FILTER_STATES, &p->f.state);
}

bool filter_searches(const filter *p)
{
    const pgw_filter *f = &p->f;
    return f->tag || f->key || f->group || f->holder || f->error || p->older_ms >= 0 ||
           p->newer_ms >= 0;
}
