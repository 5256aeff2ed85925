/* group: groups of jobs, their settings, and what stops them. */
#include <string.h>

#include "base/name.h"
#include "call/ask.h"
#include "call/check.h"
#include "pq/pq.h"

#define GROUP_LIMIT_MAX 10000

static const char *const group_retries[] = {"hold", "pass", "block"}; /* by pgw_group_retry */
#define GROUP_RETRIES (sizeof(group_retries) / sizeof(group_retries[0]))

static pgw_status group_check(pgw *h, const char *queue, const char *group)
{
    const pgw_status st = pgw__check_queue(h, queue);

    return st == PGW_OK ? pgw__check_name(h, "group", group, PGW__GROUP_MAX) : st;
}

pgw_status pgw_group_set(pgw *h, const char *queue, const char *group, const pgw_group_opts *opts)
{
    pgw_group_opts o = PGW_GROUP_OPTS_INIT;
    pgw_status st = group != NULL ? group_check(h, queue, group) : pgw__check_queue(h, queue);

    if (st == PGW_OK) st = pgw__check_opts(h, "opts", &o, sizeof(o), opts);
    if (st == PGW_OK && o.limit != PGW_DEFAULT)
        st = pgw__check_int(h, "opts->limit", o.limit, 1, GROUP_LIMIT_MAX);
    if (st == PGW_OK && o.retry != PGW_GROUP_RETRY_DEFAULT)
        st = pgw__check_int(h, "opts->retry", o.retry, 0, GROUP_RETRIES - 1);
    if (st != PGW_OK) return st;
    {
        const pgw__param params[] = {
            P_TEXT(queue),
            P_TEXT(group),
            P_INT4_OR_NULL(o.limit, o.limit == PGW_DEFAULT),
            P_TEXT(o.retry != PGW_GROUP_RETRY_DEFAULT ? group_retries[o.retry] : NULL),
            P_END,
        };

        return pgw__ask(h, PGW__SQL_GROUP_SET, params);
    }
}

pgw_status pgw_group_reset(pgw *h, const char *queue, const char *group)
{
    const pgw__param params[] = {P_TEXT(queue), P_TEXT(group), P_END};
    const pgw_status st = group_check(h, queue, group);

    return st == PGW_OK ? pgw__ask(h, PGW__SQL_GROUP_RESET, params) : st;
}

pgw_status pgw_group_hold(pgw *h, const char *queue, const char *group, int64_t for_ms)
{
    const pgw__param params[] = {P_TEXT(queue), P_TEXT(group),
                                 P_INT8_OR_NULL(for_ms, for_ms == PGW_UNLIMITED), P_END};
    pgw_status st = group_check(h, queue, group);

    if (st == PGW_OK) st = pgw__check_wait(h, "for_ms", for_ms, PGW__DELAY_MAX_MS);
    return st == PGW_OK ? pgw__ask(h, PGW__SQL_GROUP_HOLD, params) : st;
}

pgw_status pgw_group_unblock(pgw *h, const char *queue, const char *group, int64_t *freed)
{
    const pgw__param params[] = {P_TEXT(queue), P_TEXT(group), P_END};
    const pgw_status st = group_check(h, queue, group);

    if (freed != NULL) *freed = 0;
    return st == PGW_OK ? pgw__ask_number(h, freed, PGW__SQL_GROUP_UNBLOCK, params) : st;
}

pgw_status pgw_group_purge(pgw *h, const char *queue, const char *group, int64_t *deleted)
{
    const pgw__param params[] = {P_TEXT(queue), P_TEXT(group), P_END};
    const pgw_status st = group_check(h, queue, group);

    if (deleted != NULL) *deleted = 0;
    return st == PGW_OK
               ? pgw__ask_in_pieces(h, deleted, PGW_UNLIMITED, PGW__SQL_GROUP_PURGE, params)
               : st;
}

/* ---- lists ---- */

typedef struct group_each {
    int (*fn)(const pgw_group_info *info, void *arg);
    void *arg;
} group_each;

static pgw_group_retry group_retry(const char *word)
{
    size_t i = 0;

    while (i < GROUP_RETRIES - 1 && strcmp(word, group_retries[i]) != 0) i++;
    return (pgw_group_retry)i;
}

static pgw_status group_read_each(pgw *h, const pgw__rows *rows, void *ctx)
{
    const group_each *each = ctx;
    const int count = pgw__rows_count(rows);
    int stop = 0;

    (void)h;
    for (int row = 0; row < count && stop == 0; row++) {
        pgw_rate_opts rate;
        const pgw_group_info info = {
            .struct_size = sizeof(info),
            .group = pgw__rows_text(rows, row, 0, NULL),
            .gated = pgw__rows_int(rows, row, 1),
            .admitted = pgw__rows_int(rows, row, 2),
            .leased = pgw__rows_int(rows, row, 3),
            .limit = (int)pgw__rows_int(rows, row, 4),
            .retry = group_retry(pgw__rows_text(rows, row, 5, NULL)),
            .held_until_us = pgw__rows_time_us(rows, row, 6),
            .blocked_by = pgw__rows_int(rows, row, 7),
            .next_id = pgw__rows_int(rows, row, 8),
            .next_since_us = pgw__rows_time_us(rows, row, 9),
            .rate = pgw__ask_rate(&rate, rows, row, 10),
            .next_us = pgw__rows_time_us(rows, row, 13),
        };

        stop = each->fn(&info, each->arg);
    }
    return count > 0 ? PGW_OK : PGW_OUTCOME_EMPTY;
}

pgw_status pgw_groups_each(pgw *h, const char *queue, const pgw_groups_opts *opts,
                           int (*fn)(const pgw_group_info *info, void *arg), void *arg)
{
    const group_each ctx = {fn, arg};
    pgw_groups_opts o = PGW_GROUPS_OPTS_INIT;
    pgw_status st = pgw__check_queue(h, queue);

    if (st == PGW_OK) st = pgw__check_opts(h, "opts", &o, sizeof(o), opts);
    if (st == PGW_OK && o.group != NULL)
        st = pgw__check_name(h, "opts->group", o.group, PGW__GROUP_MAX);
    if (st == PGW_OK) st = pgw__check_limit(h, "opts->at_most", o.at_most);
    if (st == PGW_OK && fn == NULL) st = pgw__check_given(h, "fn", NULL);
    if (st != PGW_OK) return st;
    {
        const pgw__param params[] = {P_TEXT(queue), P_TEXT(o.group),
                                     P_INT8_OR_NULL(o.at_most, o.at_most == PGW_UNLIMITED), P_END};
        const pgw__call call = {.sql = PGW__SQL_GROUP_EACH,
                                .params = params,
                                .read = group_read_each,
                                .ctx = &ctx,
                                .ctx_size = sizeof(ctx)};

        return pgw__pq_call(h, &call);
    }
}
