/* SPDX-License-Identifier: PostgreSQL
 *
 * role_group.c: groups. A producer whose transactions hold jobs of several, stay open, roll back,
 * and run at REPEATABLE READ; and the keeper, who changes limits, holds groups, and decides about
 * what has stopped one. Only g4 and g5 are held, and only the limit of g5 changes.
 */
#include "role.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int made; /* numbers given out */

/* Adds a few jobs, each of a group of its own. */
static int64_t add(int64_t *call)
{
    char sql[2000], kinds[500] = "", groups[500] = "", priorities[200] = "";
    const int queue = GROUPED + draw(4), n = 1 + draw(5), first = made + 1;

    for (int i = 0; i < n; i++) {
        const char *comma = i ? "," : "";
        const size_t k = strlen(kinds), g = strlen(groups), p = strlen(priorities);
        snprintf(kinds + k, sizeof(kinds) - k, "%s%d.%d", comma, hist_proc, ++made);
        if (queue == 9 && draw(4) == 0)
            snprintf(groups + g, sizeof(groups) - g, "%sNULL", comma);
        else
            snprintf(groups + g, sizeof(groups) - g, "%sg%d", comma, draw(GROUPS));
        snprintf(priorities + p, sizeof(priorities) - p, "%s%d", comma, draw(4) ? 1 : draw(3));
    }
    snprintf(sql, sizeof(sql),
             "SELECT FROM pgwork.enqueue_many('q%d', array_fill('1'::jsonb, ARRAY[%d]), kinds => "
             "'{%s}', grps => '{%s}', priorities => '{%s}')",
             queue, n, kinds, groups, priorities);
    return sql_enqueue(sql, queue, first, n, call);
}

static void transaction(void)
{
    const int n = 1 + draw(3);
    const bool keep = draw(4) > 0;
    int64_t calls[3], st;
    int begun = 0;

    st = sql_run(draw(3) ? "BEGIN" : "BEGIN ISOLATION LEVEL REPEATABLE READ");
    while (st == S_OK && begun < n) st = add(&calls[begun++]);
    nap_ms(draw(12) ? 0 : draw(4) ? draw(2000) : draw(late_ms()));
    st = sql_end(st, keep);
    for (int i = 0; i < begun; i++) hist(calls[i], 'o', OP_enq, st);
}

void role_group(void)
{
    const int pause_ms = getenv("CHAOS_PACE_MS") ? atoi(getenv("CHAOS_PACE_MS")) : 50;
    while (going()) {
        if (sql_up()) transaction();
        nap_ms(draw(12 * pause_ms));
    }
}

/* -- the keeper ----------------------------------------------------------------------------------
 */

static pgw *h;

static void unblock(int queue, int group)
{
    char name[10];
    int64_t freed = 0;
    pgw_status st;
    snprintf(name, sizeof(name), "g%d", group);
    const int64_t call = admin_begin(OP_unb, queue, group + 1);
    do st = pgw_group_unblock(h, queue_name(queue), name, &freed);
    while (st != PGW_OK && (nap_ms(50), going()));
    admin_end(OP_unb, call, st, queue == 8 && freed > 0, C_group_unblock);
}

static int note_stopped(const pgw_group_info *g, void *arg)
{
    int *group = arg, n;
    if (g->blocked_by != PGW_NONE && sscanf(g->group, "g%d", &n) == 1 && (*group < 0 || draw(2)))
        *group = n;
    return 0;
}

/* One that a job stops, if there is any within 3 s. */
static int stopped_group(int queue)
{
    int group = -1;
    for (int i = 0; i < 30 && group < 0 && going(); i++) {
        if (i > 0) nap_ms(100);
        pgw_groups_each(h, queue_name(queue), NULL, note_stopped, &group);
    }
    return group < 0 ? draw(GROUPS) : group;
}

static void hold(int queue, int group)
{
    char name[10];
    const int64_t for_ms = draw(2) ? PGW_UNLIMITED : 200 + draw(1500);
    snprintf(name, sizeof(name), "g%d", group);
    const pgw_status st = pgw_group_hold(h, queue_name(queue), name, for_ms);
    if (st == PGW_OK) fired(C_group_hold);
    nap_ms(1000 + draw(2500));
    if (st != PGW_OK || for_ms == PGW_UNLIMITED) unblock(queue, group);
}

static void change_limit(int queue)
{
    pgw_group_opts o = PGW_GROUP_OPTS_INIT;
    pgw_status st;
    o.limit = 1 + draw(4);
    if (queue == 9 && draw(4) == 0)
        st = pgw_queue_limit(h, "q9", 3 + draw(3));
    else
        st = pgw_group_set(h, queue_name(queue), "g5", &o);
    if (st == PGW_OK) fired(C_group_limit);
}

/* The rates of the others stay as they are. */
static void change_rate(void)
{
    pgw_rate_opts o = PGW_RATE_OPTS_INIT;
    o.n = 2 + draw(10), o.burst = 1 + draw(4);
    if (pgw_group_rate(h, "q11", "g5", draw(4) ? &o : NULL) == PGW_OK) fired(C_rate_change);
}

void role_keeper(void)
{
    h = open_handle();
    while (going()) {
        int64_t n = 0, call;
        pgw_status st;
        switch (draw(13)) {
        case 0:
        case 1: hold(rated_or(GROUPED + draw(4)), GROUPS - 1 - draw(2)); break;
        case 2:
        case 3: change_limit(GROUPED + draw(4)); break;
        case 4: unblock(9, draw(GROUPS)); break;
        case 5:
        case 6: unblock(8, stopped_group(8)); break;
        case 7:
        case 8:
            call = admin_begin(OP_red, 8, 0);
            st = pgw_redrive(h, "q8", NULL, &n);
            admin_end(OP_red, call, st, n > 0, C_redrive);
            break;
        case 9:
            call = admin_begin(OP_pur, 7, 0);
            st = pgw_group_purge(h, "q7", "g5", &n);
            admin_end(OP_pur, call, st, n > 0, C_purge);
            break;
        case 10: admin_cancel(h, GROUPED + (draw(2) ? draw(4) : 0), true); break; /* q6: limit 1 */
        case 11:
            if (rates_on()) change_rate();
            break;
        default: admin_cancel(h, GROUPED + draw(4), false);
        }
        nap_ms(draw(800));
    }
    pgw_close(h);
}
