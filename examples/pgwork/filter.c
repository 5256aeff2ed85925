/* SPDX-License-Identifier: PostgreSQL */
#include "filter.h"

#include "text.h"

void filter_settle(filter *p)
{
    if (p->newer_ms >= 0) p->f.created_from_us = text_now_us() - p->newer_ms * 1000;
    if (p->older_ms >= 0) p->f.created_to_us = text_now_us() - p->older_ms * 1000;
}

bool filter_searches(const filter *p)
{
    const pgw_filter *f = &p->f;
    return f->tag || f->key || f->group || f->holder || f->error || p->older_ms >= 0 ||
           p->newer_ms >= 0;
}
